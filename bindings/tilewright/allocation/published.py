"""The calculus of the TCPA paper, equations 2 to 20, as published; for comparison with what is executed.

It lets a layer start as soon as it has as many pixels as one step of its window is wide, and counts a beat's
output as complete whatever the window still lacks. So its latencies are lower than any execution's where
windows overlap; throughput is the same. docs/allocation.md explains each difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.allocation.problem import Problem, Stage
from tilewright.allocation.splits import Share


@dataclass(frozen=True)
class Calculus:
    """What the equations give for a network and the shares of its layers; times in cycles.

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


def layer_parallel(problem: Problem, shares: Sequence[Share]) -> Calculus:
    """Evaluate equations 6 to 13; a layer with several producers waits for the slowest of them."""
    z_in, z_out, intervals, starts, latencies = ([0] * len(problem.stages) for _ in range(5))
    for number, (stage, share) in enumerate(zip(problem.stages, shares, strict=True)):
        z_out[number] = share.cycles(stage.task)
        for producer in stage.producers:
            if producer >= 0:
                need = z_out[producer] * fresh_pixels(stage)
                z_in[number] = max(z_in[number], need)
                if starts[producer] + need >= starts[number]:
                    starts[number], intervals[number] = starts[producer] + need, need
        z_out[number] = max(z_out[number], z_in[number])
        latencies[number] = z_out[number] * share.beats(stage.task)
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


def layer_by_layer(problem: Problem, shares: Sequence[Share]) -> Calculus:
    """Evaluate equations 3 to 5."""
    pairs = list(zip(problem.stages, shares, strict=True))
    z_out = tuple(share.cycles(stage.task) for stage, share in pairs)
    latencies = tuple(share.load(stage.task) for stage, share in pairs)
    starts = tuple(sum(latencies[:number]) for number in range(len(latencies)))
    nothing = (0,) * len(latencies)
    return Calculus(nothing, z_out, nothing, starts, latencies, sum(latencies), sum(latencies))


def receptive_fields(problem: Problem) -> tuple[int, ...]:
    """Return D_i of each layer: the side of the window that an output of the last layers depends on (2).

    Rows and columns may differ; it is the longer side. With several consumers it is the largest.
    """
    fields = [(1, 1)] * len(problem.stages)
    for stage in reversed(problem.stages):
        after = [fields[reader] for reader in problem.consumers[stage.number]] or [(1, 1)]
        height, width = (
            max(field[axis] for field in after) * stage.spec.stride[axis]
            + stage.spec.kernel_extent[axis]
            - stage.spec.stride[axis]
            for axis in (0, 1)
        )
        fields[stage.number] = (height, width)
    return tuple(map(max, fields))


def intermediate_storage(problem: Problem, *, with_corner: bool = False) -> tuple[int, ...]:
    """Return the words of intermediate storage of each layer, layer-parallel (16, 17).

    Parameters
    ----------
    with_corner
        Use the other form, which the example of section 5.3 begins with: the lines and a corner of the
        receptive field. The figures that it ends with follow from the form without.
    """
    found = []
    for stage, field in zip(problem.stages, receptive_fields(problem), strict=True):
        channels, _, columns = stage.spec.input
        stride = stage.spec.stride[0]
        if stage.weights == 0:
            found.append(channels)
        else:
            corner = field * stride if with_corner else 0
            found.append(((field - stride) * columns + corner) * channels)
    return tuple(found)


def storage_by_turn(problem: Problem) -> tuple[tuple[int, int, int], ...]:
    """Return the words of weights, input and output of each layer, layer by layer (14)."""
    return tuple(
        (stage.weights, prod(stage.spec.input), stage.channels * stage.task.rows * stage.task.columns)
        for stage in problem.stages
    )


def fewest_pes(problem: Problem, frames_per_second: float) -> tuple[int, ...]:
    """Return the fewest PEs of each layer for a required rate, all filters divided (18 to 20)."""
    found = []
    for stage in problem.stages:
        task = stage.task
        rounds = -(-task.maps // problem.machine.functional_units) * task.window
        # Equation 20: the filters that one PE may compute one after the other.
        at_most = int(
            problem.machine.clock_mhz * 1e6 / (frames_per_second * task.rows * task.columns * rounds)
        )
        found.append(-(-task.filters // at_most) if at_most else task.filters)
    return tuple(found)
