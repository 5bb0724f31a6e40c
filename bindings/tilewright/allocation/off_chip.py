"""What crosses the chip's border in a frame where plans decide what stays on chip, and how long it takes.

docs/allocation.md (off-chip traffic) says what is counted. A plan names the layers whose weights are streamed
and the maps that are spilled, by the layer that computes them; `INPUT` is the network's input.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.allocation.geometry import Numbers, Scan, last_uses
from tilewright.allocation.machine import INPUT
from tilewright.allocation.problem import Problem
from tilewright.allocation.stages import Stage

NOT_READ = np.iinfo(np.int64).max
"""First use of a pixel that nobody reads."""


class Uses(NamedTuple):
    """Beats of a reader that read the pixels of a map first and last, both of shape (rows, columns).

    Pixels that it does not read have `NOT_READ` and -1.
    """

    first: Numbers
    last: Numbers


def uses_of(scan: Scan, reader: Stage, row_groups: int = 1) -> Uses:
    """Return when a reader needs each pixel of what it reads."""
    windows, own = scan.windows[reader.number], scan.beats(reader, row_groups)
    last = last_uses(windows, own)
    final = int(own.max())
    # First uses are last uses of the frame gone through backwards.
    backwards = last_uses(windows, final - own)
    return Uses(np.where(backwards >= 0, final - backwards, NOT_READ), last)


def readers_of(problem: Problem, number: int) -> tuple[int, ...]:
    """Return the layers that read a map; of given ones -1 is the network's input."""
    if number >= 0:
        return problem.consumers[number]
    return tuple(stage.number for stage in problem.stages if number in stage.producers)


def channels_of(problem: Problem, number: int) -> int:
    """Return the channels of a map; of given ones -1 is the network's input."""
    return problem.given[-1 - number].shape[0] if number < 0 else problem.stages[number].channels


def name_of(problem: Problem, number: int) -> str:
    """Return how a plan calls a map."""
    return problem.given[-1 - number].name if number < 0 else problem.stages[number].name


class Sizes(NamedTuple):
    """Words of each map, by number from -1 on: all of it, what readers need, and what each of them needs."""

    whole: dict[int, int]
    read: dict[int, int]
    read_by: dict[tuple[int, int], int]


@lru_cache(maxsize=64)
def sizes_of(problem: Problem) -> Sizes:
    """Return the words of all maps."""
    scan = Scan(problem)
    whole, read, read_by = {}, {}, {}
    for number in range(-1, len(problem.stages)):
        channels, needed = channels_of(problem, number), None
        for reader in readers_of(problem, number):
            mask = uses_of(scan, problem.stages[reader]).last >= 0
            read_by[number, reader] = channels * int(mask.sum())
            needed = mask if needed is None else needed | mask
        read[number] = 0 if needed is None else channels * int(needed.sum())
        whole[number] = _all_of(problem, number)
    return Sizes(whole, read, read_by)


def transfers(problem: Problem, streamed: tuple[str, ...], spilled: tuple[str, ...]) -> tuple[int, ...]:
    """Return the bytes of a frame: of all layers together, or of each in its turn.

    Parameters
    ----------
    streamed, spilled
        As a plan has them.
    """
    sizes, to_bytes = sizes_of(problem), problem.machine.bytes
    if problem.parallel:
        total = to_bytes(sizes.read[-1])
        for stage in problem.stages:
            away = stage.name in spilled
            total += to_bytes(sizes.whole[stage.number]) if stage.leaves or away else 0
            total += to_bytes(sizes.read[stage.number]) if away else 0
            if stage.name in streamed:
                total += to_bytes(stage.weights) * stage.task.rows * stage.task.columns
        return (total,)
    found = []
    first = min(readers_of(problem, -1))
    for stage in problem.stages:
        away = stage.leaves or stage.name in spilled
        total = to_bytes(sizes.whole[stage.number]) if away else 0
        total += to_bytes(stage.weights) if stage.name in streamed else 0
        for producer in dict.fromkeys(stage.producers):
            if name_of(problem, producer) in spilled:
                total += to_bytes(sizes.read_by[producer, stage.number])
            elif producer < 0 and stage.number == first:
                total += to_bytes(sizes.whole[-1])
        found.append(total)
    return tuple(found)


def words_coming(problem: Problem, streamed: tuple[str, ...], spilled: tuple[str, ...]) -> int:
    """Return the words that come into the buffers from off chip in a frame.

    Weights that a pipeline streams go to the PEs.
    """
    sizes, away = sizes_of(problem), [-1] if problem.parallel else []
    away += [number for number in sizes.whole if name_of(problem, number) in spilled]
    if problem.parallel:
        return sum(sizes.read[number] for number in away)
    found = sum(words for (number, _), words in sizes.read_by.items() if number in away)
    found += 0 if -1 in away else sizes.whole[-1]
    return found + sum(stage.weights for stage in problem.stages if stage.name in streamed)


def transfer_cycles(problem: Problem, moved: int) -> int:
    """Return the cycles in which bytes cross the chip's border, rounded up; 0 without a rate."""
    link = problem.machine.off_chip
    return 0 if link is None else -(-moved * problem.machine.clock_mhz // link.mb_per_s)


def windows_in_turn(problem: Problem, scan: Scan, number: int, reader: int) -> int:
    """Return the words of a spilled map that a reader's windows need at most at a time, in its turn."""
    uses = uses_of(scan, problem.stages[reader])
    first, last = uses.first[uses.last >= 0], uses.last[uses.last >= 0] + 1
    return 0 if not len(first) else channels_of(problem, number) * most_at_once(first, last)


def most_at_once(begin: Numbers, end: Numbers) -> int:
    """Return the most intervals [begin, end) that hold a moment."""
    begins, ends = np.sort(begin.ravel()), np.sort(end.ravel())
    alive = np.searchsorted(begins, begins, side="right") - np.searchsorted(ends, begins, side="right")
    return int(alive.max(initial=0))


def storage_in_turns(
    problem: Problem, streamed: tuple[str, ...], spilled: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the words on chip in each layer's turn, with these weights streamed and maps spilled."""
    stages, scan = problem.stages, Scan(problem)
    resident = sum(stage.weights for stage in stages if stage.name not in streamed)
    found = []
    for stage in stages:
        words = resident + (stage.weights if stage.name in streamed else 0)
        for number in range(-1, stage.number + 1):
            readers = readers_of(problem, number)
            if name_of(problem, number) in spilled:
                words += channels_of(problem, number) if number == stage.number else 0
                words += (
                    windows_in_turn(problem, scan, number, stage.number) if stage.number in readers else 0
                )
            elif max(readers, default=number) >= stage.number:
                words += _all_of(problem, number)
        found.append(words)
    return tuple(found)


def _all_of(problem: Problem, number: int) -> int:
    """Return the words of a map."""
    if number < 0:
        return prod(problem.given[-1 - number].shape)
    task = problem.stages[number].task
    return channels_of(problem, number) * task.rows * task.columns


def words_of_map(problem: Problem, name: str) -> int:
    """Return the words of a map that a plan calls so."""
    numbers = (-1, *(stage.number for stage in problem.stages))
    return next(_all_of(problem, number) for number in numbers if name_of(problem, number) == name)


def violation(
    problem: Problem, pacing: str, streamed: tuple[str, ...], spilled: tuple[str, ...]
) -> str | None:
    """Say what is wrong with what a plan streams and spills, or None."""
    if problem.machine.off_chip is None:
        named = (*streamed, *spilled)
        return (
            f"off chip: {named[0]} is streamed or spilled, but machine.off_chip is not given"
            if named
            else None
        )
    if problem.parallel and pacing != "uniform":
        return "off chip: all layers keep pace with the interval, so the pacing is uniform"
    for name in streamed:
        if not any(stage.name == name and stage.weights for stage in problem.stages):
            return f"off chip: {name} has no weights to stream"
    able = spillable(problem)
    for name in spilled:
        if name not in able:
            return f"off chip: {name} is no map that can be spilled, these are: {', '.join(able)}"
    return None


def streamable(problem: Problem) -> tuple[str, ...]:
    """Return the layers whose weights can be streamed."""
    return tuple(stage.name for stage in problem.stages if stage.weights)


def spillable(problem: Problem) -> tuple[str, ...]:
    """Return the maps that can be spilled: in a pipeline those between layers, in turns all."""
    inside = (stage.name for stage in problem.stages if problem.consumers[stage.number])
    return tuple(inside) if problem.parallel else (INPUT, *(stage.name for stage in problem.stages))
