"""Ways to cut up a step of which constraints tell some apart.

`pareto_shapes` leaves out what is no better than another way. That is false where a constraint speaks of it.
So a number that constraints speak of is taken with all its values here. One that they do not speak of has but
the values that are good for something: of two ways that differ in it alone constraints allow both or none,
and the arguments of `pareto_shapes` hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple, Protocol

from tilewright.residency.cost import Spent, cost_of_step
from tilewright.residency.graph import members
from tilewright.residency.problem import Problem
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.in_blocks import key_sizes, most_keys, pixels_in_blocks
from tilewright.residency.shapes.pareto_shapes import fixed_size
from tilewright.residency.shapes.product_tiles import product_tiles
from tilewright.residency.shapes.shape import (
    Shape,
    buffer_sizes,
    computed_whole,
    double_buffered_shapes,
    elements_moved,
    most_kernels,
    planes_or_strips,
    step_buffers,
)
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import TensorChoice

PIXELS, KERNELS, CHANNELS, COLUMNS, KEYS = "pixels", "kernels", "channels", "columns", "keys"
NUMBERS = (PIXELS, KERNELS, CHANNELS, COLUMNS, KEYS)

TELLS = {
    "pixels": (PIXELS,),
    "rows": (PIXELS,),
    "columns": (COLUMNS,),
    "kernels": (KERNELS,),
    "channels": (CHANNELS,),
    "keys": (KEYS,),
    "interleaved": (PIXELS,),
}
"""Numbers of a way that a word depends on, so that all their values count."""


class Told(NamedTuple):
    """What constraints speak of, of a group's step.

    Attributes
    ----------
    numbers
        Of `NUMBERS`, those of which all values count.
    kept
        Operations of which it matters whether their weights are kept.
    """

    numbers: frozenset[str]
    kept: frozenset[int]


def told_by(group: Group, words: Iterable[tuple[str, int]], *, amounts: bool) -> Told:
    """Return what constraints speak of that have words of a group's operations.

    Parameters
    ----------
    amounts
        Whether they may ask for more bytes, cycles or energy rather than less, which is what all that is left
        out has more of.
    """
    listed = list(words)
    numbers = {number for word, _ in listed for number in TELLS.get(word, ())}
    if amounts:
        return Told(frozenset(NUMBERS), group.weighted)
    # Of an operation whose weights are kept all output channels are computed at a time.
    kept = {operation for word, operation in listed if word in ("kept", "kernels")}
    return Told(frozenset(numbers), group.weighted & kept)


class Wanted(Protocol):
    """What constraints say of a way before it is known what that takes and costs."""

    def allows(self, shape: Shape) -> bool:
        """Whether they may hold with a way."""

    def allows_passes(self, shape: Shape) -> bool:
        """Whether they may hold with passes in which some weights are kept, other than told."""


def all_shapes(
    group: Group,
    told: Told,
    wanted: Wanted,
    whole: Collection[int],
    capacity: int,
    in_place: int,
    *,
    doubled: bool,
) -> Iterator[Shape]:
    """Return the ways to cut up a group's step; not all of them fit, or let the output take a place.

    Parameters
    ----------
    wanted
        Tells which of them are looked at.
    whole
        Tensors of the step that are on chip as a whole.
    capacity
        Elements of the memory.
    in_place
        Tensor whose place the output takes, or -1.
    doubled
        Whether there may be second buffers.
    """
    numbers = told.numbers
    if group.mask & group.graph.alone:
        assert group.last.recurrence is not None
        hidden, shapes = group.last.recurrence.hidden, [Shape("pixels", group.pixels, 1, group.keepable)]
        if group.keepable:
            sizes = [*range(1, hidden + 1)] if KERNELS in numbers else sorted({1, hidden})
            shapes += [Shape("pixels", group.pixels, kernels) for kernels in sizes]
        yield from filter(wanted.allows, shapes)
        return
    yield from filter(wanted.allows, _cut_evenly(group, numbers, in_place, doubled=doubled))
    for area in (group, group.running):
        if area is None or not area.keepable:
            continue
        blocks = _kernels(area, numbers) if KERNELS in numbers else (1,)
        for pixels, kernels in product(range(area.row, area.pixels + 1, area.row), blocks):
            least = Shape("pixels", pixels, kernels, running=area.is_running)
            if wanted.allows_passes(least):
                yield from filter(wanted.allows, _some_kept(area, told.kept, whole, capacity, least))
    for least in _in_blocks(group, numbers):
        if wanted.allows_passes(least):
            yield from filter(wanted.allows, _some_kept(group, told.kept, whole, capacity, least))


def spent_by(
    problem: Problem, group: Group, tensors: TensorChoice, shape: Shape, fetched: Collection[int] = ()
) -> tuple[int, Spent]:
    """Return the elements that the buffers of a way take, and what it spends.

    Parameters
    ----------
    fetched
        Elements of each tensor that is loaded as a whole; what these cost is left out where none are told.
    """
    whole = frozenset(members(tensors.whole & group.touched))
    if shape.doubled or shape.channels is not None:
        memory = sum(buffer.size for buffer in step_buffers(group, shape, whole))
    else:
        memory = sum(buffer_sizes(group, shape, whole).values())
    streamed, written = members(tensors.streamed), members(tensors.written)
    moved = elements_moved(group, shape, streamed, written) + sum(fetched)
    return memory, cost_of_step(problem.prices, group, shape, streamed, fetched, written, moved)


def _cut_evenly(group: Group, numbers: Collection[str], in_place: int, *, doubled: bool) -> Iterator[Shape]:
    """Return the ways in which weights of all operations are kept, or of none."""
    alone = len(group.operations) == 1
    few = [1] if in_place < 0 or alone else group.pixels_that_replace(in_place)
    for area in (group, group.running):
        if area is None:
            continue
        blocks = _kernels(area, numbers) if area.keepable != area.weighted and KERNELS in numbers else (1,)
        every = range(1, area.pixels + 1) if PIXELS in numbers else few
        for pixels, kernels in product(every, blocks):
            yield Shape("pixels", pixels, kernels, area.keepable, running=area.is_running)
        if alone:
            for pixels, kernels in product(_pixels(area, numbers), _kernels(area, numbers)):
                yield Shape("kernels", pixels, kernels, running=area.is_running)
    yield from _in_strips(group.running or group, numbers)
    if alone:
        yield from _by_channels(group, numbers)
    if doubled:
        yield from double_buffered_shapes(group)


def _pixels(group: Group, told: Collection[str]) -> Sequence[int]:
    return range(1, group.pixels + 1) if PIXELS in told else (1,)


def _kernels(group: Group, told: Collection[str]) -> Sequence[int]:
    most = max(operation.units for operation in group.operations)
    return range(1, most + 1) if KERNELS in told else pass_sizes(most)


def _in_blocks(group: Group, told: Collection[str]) -> Iterator[Shape]:
    """Return passes that load second operands, and all weights, in blocks."""
    passing: Sequence[int] = range(1, most_keys(group) + 1) if KEYS in told else key_sizes(group)
    blocks: Sequence[int] = range(1, most_kernels(group) + 1) if KERNELS in told else (1,)
    if (tiles_of := product_tiles(group)) is not None:
        columns = range(1, tiles_of.columns + 1) if KERNELS in told else pass_sizes(tiles_of.columns)
        passes = pixels_in_blocks(group)
        if tiles_of.attention is None:
            terms = range(1, tiles_of.depth + 1) if CHANNELS in told else sorted({1, tiles_of.depth})
            for pixels, kernels, deep in product(passes, columns, terms):
                yield Shape("pixels", pixels, kernels, channels=deep, blocks=True)
        else:
            for pixels, kernels, deep in product(passes, columns, passing):
                yield Shape("pixels", pixels, kernels, keys=deep, blocks=True)
            passing = ()
    for pixels, kernels, keys in product(pixels_in_blocks(group), blocks, (None, *passing)):
        yield Shape("pixels", pixels, kernels, blocks=True, keys=keys)


def _in_strips(group: Group, told: Collection[str]) -> Iterator[Shape]:
    """Return passes over strips."""
    height = group.plane[0]
    blocks = _kernels(group, told) if group.keepable != group.weighted and KERNELS in told else (1,)
    for columns in strip_widths(group):
        passes: Iterable[int] = [1]
        if PIXELS in told:
            passes = [*range(1, columns), *range(columns, height * columns + 1, columns)]
        for pixels, kernels in product(passes, blocks):
            yield Shape("pixels", pixels, kernels, group.keepable, columns, running=group.is_running)


class _Kept(NamedTuple):
    """Operations whose weights are kept, and what a step then takes and moves again."""

    memory: int
    again: int
    kept: frozenset[int]


def _some_kept(
    group: Group, told: frozenset[int], whole: Collection[int], capacity: int, least: Shape
) -> Iterator[Shape]:
    """Return the ways in which some weights are loaded for each pass, as `least` loads all.

    Where it matters of some operations whether they are kept, both count for each set of these.
    """
    sizes = buffer_sizes(group, least, whole)
    active = planes_or_strips(group, least).active(least.pixels)
    output = group.graph.tensors[group.output]
    found = [_Kept(fixed_size(group, sizes), 0, frozenset())]
    for operation in group.operations:
        if operation.number not in group.keepable:
            continue
        number, every = operation.number, operation.weights
        if number == group.last.number and group.output not in whole and not computed_whole(operation, least):
            # Of what is written, all channels are computed at once.
            every += (output.channels - min(output.channels, least.kernels)) * least.pixels
        block, again = sizes["weights", number], (active[number] - 1) * operation.weights
        both = [_Kept(memory + block, more + again, kept) for memory, more, kept in found]
        both += [_Kept(memory + every, more, kept | {number}) for memory, more, kept in found]
        alike: dict[frozenset[int], list[_Kept]] = {}
        for each in sorted(both, key=lambda each: each[:2]):
            others = alike.setdefault(each.kept & told, [])
            if each.memory <= capacity and (not others or each.again < others[-1].again):
                others.append(each)
        found = [each for others in alike.values() for each in others]
    every = least.blocks
    yield from (replace(least, kept=kept) for _, _, kept in found if every or kept != group.keepable)


def _by_channels(group: Group, told: Collection[str]) -> Iterator[Shape]:
    """Return tiles, and blocks of input channels that pass by."""
    depth = tiles.summed_channels(group.graph, group.last)
    if not depth or not group.last.parameters:
        return
    channels = range(1, depth + 1) if CHANNELS in told else sorted({1, depth})
    blocks = list(product(_kernels(group, told), channels))
    _, height, width = group.graph.tensors[group.output].shape
    sizes: list[Iterable[int]] = [range(1, height + 1), range(1, width + 1)]
    if not {PIXELS, COLUMNS} & set(told):
        sizes = [tiles.useful_sizes(group.last.readings[0], axis) for axis in (0, 1)]
    for (rows, columns), (kernels, deep) in product(product(*sizes), blocks):
        yield Shape("tiles", rows * columns, kernels, frozenset(), columns, deep)
    for pixels, (kernels, deep) in product(_pixels(group, told), blocks):
        yield Shape("channels", pixels, kernels, frozenset(), None, deep)
