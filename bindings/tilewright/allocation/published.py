"""The calculus of the TCPA paper, equations 3 to 13, as published: every report has its numbers, too.

It lets a layer start as soon as it has as many pixels as one step of its window is wide, and counts a beat's
output as complete whatever the window still lacks. So its latencies are lower than any execution's where
windows overlap; throughput is the same. docs/allocation.md explains each difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage


@dataclass(frozen=True)
class Calculus:
    """What the equations give for a network and the splits of its layers; times in cycles.

    Attributes
    ----------
    z_in, z_out
        Cycles to provide what a step of the window needs (8), and to compute an output position, waits
        included (6, 9).
    intervals, starts
        Z_i (10) and t_i (11).
    latencies
        L_i (4, 11).
    latency, interval
        L (3, 12) and the longest latency of a layer, whose inverse is the throughput (5, 13).
    """

    z_in: tuple[int, ...]
    z_out: tuple[int, ...]
    intervals: tuple[int, ...]
    starts: tuple[int, ...]
    latencies: tuple[int, ...]
    latency: int
    interval: int


def fresh_pixels(stage: Stage) -> int:
    """Return F_i: the pixels that are new when the window moves on (7)."""
    return min(prod(stage.spec.kernel), prod(stage.spec.stride))


def layer_parallel(problem: Problem, splits: Sequence[LayerSplit]) -> Calculus:
    """Evaluate equations 6 to 13; a layer with several producers waits for the slowest of them."""
    z_in, z_out, intervals, starts, latencies = ([0] * len(problem.stages) for _ in range(5))
    for number, (stage, split) in enumerate(zip(problem.stages, splits, strict=True)):
        z_out[number] = split.cycles(stage.task)
        for producer in stage.producers:
            if producer >= 0:
                need = z_out[producer] * fresh_pixels(stage)
                z_in[number] = max(z_in[number], need)
                if starts[producer] + need >= starts[number]:
                    starts[number], intervals[number] = starts[producer] + need, need
        z_out[number] = max(z_out[number], z_in[number])
        latencies[number] = z_out[number] * split.beats(stage.task)
    latency = max(start + own for start, own in zip(starts, latencies, strict=True))
    return Calculus(
        tuple(z_in),
        tuple(z_out),
        tuple(intervals),
        tuple(starts),
        tuple(latencies),
        latency,
        max(latencies),
    )


def layer_by_layer(problem: Problem, splits: Sequence[LayerSplit]) -> Calculus:
    """Evaluate equations 3 to 5."""
    pairs = list(zip(problem.stages, splits, strict=True))
    z_out = tuple(split.cycles(stage.task) for stage, split in pairs)
    latencies = tuple(split.load(stage.task) for stage, split in pairs)
    starts = tuple(sum(latencies[:number]) for number in range(len(latencies)))
    nothing = (0,) * len(latencies)
    return Calculus(nothing, z_out, nothing, starts, latencies, sum(latencies), sum(latencies))
