"""Sequences of blocks: loops over groups of patches, kernels and channels, in any order.

The S1 paper's strategies by their terms: a *group* is the patches of a step, in the order of a path over the
plane. Where kernels do not fit, they come in groups, too, and channels in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.offloading.keeping import Cut, Round
from tilewright.offloading.plan import Numbers
from tilewright.offloading.problem import Problem

AXES = ("patches", "kernels", "channels")
ORDERS: tuple[tuple[int, int, int], ...] = tuple(permutations((0, 1, 2)))  # type: ignore[arg-type]
"""Axes from the outermost loop to the innermost."""


class Loops(NamedTuple):
    """A nest of loops.

    Attributes
    ----------
    path
        All patches, in the order in which groups are cut from them.
    sizes
        Patches, kernels and channels of a block.
    order
        Axes from the outermost loop to the innermost.
    turning
        Whether an inner loop goes back and forth, so that it begins with what is on chip.
    outer
        Groups and kernel groups of a part of the outputs, where the loops go through one part after the other
        so that its sums stay; (0, 0) where there are no parts.
    """

    path: Numbers
    sizes: tuple[int, int, int]
    order: tuple[int, int, int]
    turning: bool = True
    outer: tuple[int, int] = (0, 0)


def row_by_row(problem: Problem) -> Numbers:
    """Return the patches row after row, from left to right (section 7.2)."""
    return np.arange(problem.elements.n_patches, dtype=np.int64)


def zigzag(problem: Problem) -> Numbers:
    """Return the patches row after row, in alternating direction (section 7.2)."""
    return strips(problem, problem.layer.output_plane[1])


def strips(problem: Problem, width: int, down: bool = False) -> Numbers:
    """Return the patches strip after strip, each from end to end in rows of alternating direction.

    Parameters
    ----------
    width
        Patches across a strip.
    down
        Whether strips lie along the columns' direction, from top to bottom; else they are the rows' own:
        the plane is transposed.
    """
    place = np.arange(problem.elements.n_patches, dtype=np.int64).reshape(problem.layer.output_plane)
    if down:
        place = place.T
    parts = []
    for number, first in enumerate(range(0, place.shape[1], width)):
        strip = place[:, first : first + width].copy()
        if number % 2:
            strip = strip[::-1]
        strip[1::2] = strip[1::2, ::-1].copy()
        parts.append(strip.reshape(-1))
    found: Numbers = np.concatenate(parts)
    return found


def rounds_of(problem: Problem, loops: Loops) -> list[Round]:
    """Return the blocks of a nest of loops, step by step, whatever the number of steps should be.

    Several parts compute groups of patches that follow each other, with the same kernels and channels.
    """
    whole, sizes, parts = problem.elements, loops.sizes, problem.machine.parts
    groups = [loops.path[first : first + sizes[0]] for first in range(0, whole.n_patches, sizes[0])]
    groups = [np.sort(group) for group in groups]
    teams = [groups[first : first + parts] for first in range(0, len(groups), parts)]
    kernels = _pieces(whole.n_kernels, sizes[1])
    channels = _pieces(whole.n_channels, sizes[2])
    counts = (len(teams), len(kernels), len(channels))
    found: list[Round] = []
    for team, kernel, channel in _iterations(counts, loops):
        blocks: list[Cut | None] = [Cut(group, kernels[kernel], channels[channel]) for group in teams[team]]
        found.append(blocks + [None] * (parts - len(blocks)))
    return found


def stretched(problem: Problem, rounds: list[Round]) -> list[Round] | None:
    """Return a sequence with as many steps as the limits ask for, or None.

    Where steps are too few, the largest blocks are cut in two: their patches, or kernels, or channels.
    """
    low, high = problem.steps_range
    if len(rounds) > high:
        return None
    found = list(rounds)
    while len(found) < low:
        cells, at, part = max(
            (0 if cut is None else cut.patches.size * cut.kernels.size * cut.channels.size, at, part)
            for at, blocks in enumerate(found)
            for part, cut in enumerate(blocks)
        )
        halves = _halves(problem, found[at][part]) if cells > 1 else None
        if halves is None:
            return None
        alone: list[Cut | None] = [None] * problem.machine.parts
        alone[part] = halves[1]
        first = list(found[at])
        first[part] = halves[0]
        found[at : at + 1] = [first, alone]
    return found


def _halves(problem: Problem, cut: Cut | None) -> tuple[Cut, Cut] | None:
    assert cut is not None
    for axis, least in enumerate(problem.least_block):
        items = cut[axis]
        if len(items) >= 2 * least:
            middle = len(items) // 2
            return (
                cut._replace(**{AXES[axis]: items[:middle]}),
                cut._replace(**{AXES[axis]: items[middle:]}),
            )
    return None


def _pieces(many: int, size: int) -> list[Numbers]:
    return [np.arange(first, min(first + size, many), dtype=np.int64) for first in range(0, many, size)]


def _iterations(counts: tuple[int, int, int], loops: Loops) -> Iterator[tuple[int, int, int]]:
    """Yield the groups, kernel groups and channel slices of the steps."""
    if loops.outer == (0, 0):
        yield from map(tuple, _walk(counts, loops.order, loops.turning).tolist())
        return
    many = [-(-count // size) for count, size in zip(counts, loops.outer, strict=False)]
    for parts in _walk((many[0], many[1], 1), (0, 1, 2), loops.turning).tolist():
        firsts = [part * size for part, size in zip(parts, loops.outer, strict=False)]
        here = [
            min(size, count - first) for size, count, first in zip(loops.outer, counts, firsts, strict=False)
        ]
        for team, kernel, channel in _walk(
            (here[0], here[1], counts[2]), loops.order, loops.turning
        ).tolist():
            yield firsts[0] + team, firsts[1] + kernel, channel


def _walk(counts: tuple[int, int, int], order: tuple[int, int, int], turning: bool) -> NDArray[np.int64]:
    """Return the iterations of three loops, shape ``(n, 3)``, one column for each axis."""
    lengths = [counts[axis] for axis in order]
    index = np.stack(np.unravel_index(np.arange(int(np.prod(lengths))), lengths), axis=1)
    if turning:  # an inner loop runs backwards in every other of the iterations outside
        outside = np.zeros(len(index), dtype=np.int64)
        for place, length in enumerate(lengths):
            here = index[:, place].copy()
            index[:, place] = np.where(outside % 2 == 1, length - 1 - here, here)
            outside = outside * length + here
    found = np.empty_like(index)
    found[:, list(order)] = index
    return found


def largest_groups(problem: Problem, path: Numbers, kernels: int, channels: int) -> int:
    """Return how many patches of a path a group can have, beside so many kernels and channels; 0 for none."""
    machine, sizes = problem.machine, problem.elements
    most = problem.largest_block[0]
    while most and not problem.admits(most, kernels, channels):
        most -= 1
    if machine.memory is None:
        return most
    parts = machine.parts if machine.memories == "shared" else 1
    stay = sizes.n_kernel_elements if problem.kernels_stay else kernels * channels * sizes.taps
    low, high = 0, most
    while low < high:
        tried = (low + high + 1) // 2
        inputs = _most_inputs(problem, path, tried * parts) * channels
        if inputs + stay + kernels * tried * parts <= machine.memory:
            low = tried
        else:
            high = tried - 1
    return low


def _most_inputs(problem: Problem, path: Numbers, many: int) -> int:
    """Return the most pixels that any group of so many patches has."""
    sizes = problem.elements
    if problem.limits.form == "gemm":
        return many
    largest = 0
    # The first channel stands for all: they have the same pixels.
    for first in range(0, len(path), many):
        largest = max(largest, len(sizes.inputs_of(path[first : first + many], np.array([0]))))
    return largest


def block_sizes(problem: Problem) -> list[tuple[int, int]]:
    """Return kernels and channels of blocks to try: the whole in so many pieces, about equal."""
    whole, least, most = problem.elements, problem.least_block, problem.largest_block
    found = set()
    for kernels in _shares(whole.n_kernels, least[1], most[1]):
        for channels in _shares(whole.n_channels, least[2], most[2]):
            found.add((kernels, channels))
    return sorted(found, reverse=True)


def _shares(whole: int, least: int, most: int) -> Sequence[int]:
    shares = {-(-whole // many) for many in range(1, whole + 1)}
    return sorted(share for share in shares if least <= share <= most) or [least]
