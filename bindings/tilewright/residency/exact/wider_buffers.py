"""Buffers that fill what the memory has free beside tensors, so that steps have few passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tilewright.residency.graph import members
from tilewright.residency.placement import Item, Placed
from tilewright.residency.plan import MAP, kind_of
from tilewright.residency.shapes.groups import Groups, pass_sizes
from tilewright.residency.shapes.in_blocks import most_keys, pixels_in_blocks
from tilewright.residency.shapes.product_tiles import Cut
from tilewright.residency.shapes.shape import (
    Shape,
    cut_of,
    elements_moved,
    group_of_passes,
    in_tiles_of,
    most_kernels,
    replaces,
    step_buffers,
    tiles_of_product,
)
from tilewright.residency.shapes.tiles import summed_channels
from tilewright.residency.transitions import StepChoice

FILLED_PERCENT = (100, 90, 75, 50)
"""Of what is free beside tensors, the part that buffers are to fill: the first for which they fit."""


def widen_buffers(
    groups: Groups,
    choices: Sequence[StepChoice],
    everything: Sequence[Placed],
    capacity: int,
    borders: Sequence[int] = (),
) -> tuple[list[StepChoice], list[Placed]]:
    """Return the same steps in fewer passes, as far as buffers fit beside the tensors.

    What is on chip for longer than a step stays where it is.

    Parameters
    ----------
    everything
        All that the steps place, with addresses.
    borders
        Elements that nothing lies on both sides of.
    """
    between = [(border, border) for border in borders]
    kept = [(item, at) for item, at in everything if kind_of(item.names[0][1]) == MAP]
    new, found = [], list(kept)
    for number, (choice, alive) in enumerate(_alive(groups, choices)):
        beside = [(at, at + item.size) for item, at in kept if item.begin <= number < item.end]
        gaps = _gaps([*beside, *between], capacity)
        room = sum(end - begin for begin, end in gaps)
        own = [
            (item, at) for item, at in everything if item.begin == number and kind_of(item.names[0][1]) != MAP
        ]
        for share in FILLED_PERCENT:
            shape = _wider(groups, choice, alive, room * share // 100)
            sizes = step_buffers(groups[choice.group], shape, frozenset(members(alive)))
            offsets = _in_gaps([buffer.size for buffer in sizes], gaps)
            if offsets is not None:
                choice = choice._replace(shape=shape)
                own = [
                    (Item(number, number + 1, buffer.size, ((number, buffer.name(groups.graph)),)), at)
                    for buffer, at in zip(sizes, offsets, strict=True)
                ]
                break
        new.append(choice)
        found += own
    return new, found


def _alive(groups: Groups, choices: Sequence[StepChoice]) -> Iterator[tuple[StepChoice, int]]:
    """Return each step and the tensors that are on chip as a whole."""
    graph = groups.graph
    alive, done = 0, graph.begin
    for choice in choices:
        alive = alive & ~choice.dropped | choice.fetched | choice.resident
        yield choice, alive
        done |= choice.group
        alive &= graph.still_read(done)


def _gaps(taken: Sequence[tuple[int, int]], capacity: int) -> list[tuple[int, int]]:
    """Return what is left of a memory, begins and ends."""
    found, end = [], 0
    for low, high in [*sorted(taken), (capacity, capacity)]:
        if low > end:
            found.append((end, low))
        end = max(end, high)
    return found


def _in_gaps(sizes: Sequence[int], gaps: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return addresses of buffers, the largest first in the smallest gap; None if one has none."""
    left, found = list(gaps), [0] * len(sizes)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        fitting = [gap for gap in left if gap[1] - gap[0] >= sizes[place]]
        if not fitting:
            return None
        begin, end = gap = min(fitting, key=lambda gap: gap[1] - gap[0])
        found[place] = begin
        left[left.index(gap)] = begin + sizes[place], end
    return found


def _wider(groups: Groups, choice: StepChoice, alive: int, room: int) -> Shape:
    """Return the widest shape of a step for some room."""
    group, whole = groups[choice.group], frozenset(members(alive))
    streamed = [number for number in group.sources if number not in whole]

    def cost(shape: Shape) -> int:
        return elements_moved(group, shape, streamed, members(choice.written))

    def fits(shape: Shape) -> bool:
        return (
            sum(buffer.size for buffer in step_buffers(group, shape, whole)) <= room
            and cost(shape) <= most
            and (choice.in_place < 0 or replaces(group, shape, choice.in_place))
        )

    def first(shapes: Iterable[Shape], otherwise: Shape) -> Shape:
        return next((shape for shape in shapes if fits(shape)), otherwise)

    if choice.shape.doubled:
        return choice.shape
    best, most = choice.shape, cost(choice.shape)
    if (in_tiles := tiles_of_product(group, best)) is not None:
        cut, every = cut_of(best), Cut(in_tiles.rows, in_tiles.columns, in_tiles.depth)
        for place in (1, 0, 2):  # columns, rows, and then terms
            larger = [size for size in reversed(pass_sizes(every[place])) if size > cut[place]]
            ways = (Cut._make((*cut[:place], size, *cut[place + 1 :])) for size in larger)
            best = first((in_tiles_of(best, each) for each in ways), best)
            cut = cut_of(best)
        return best
    if best.channels is not None or best.running:  # whole sums are simpler, and as good where there is room
        simple = [Shape("pixels", 1, 1, group.weighted), Shape("kernels", 1, 1)]
        best = first(simple[: 1 + (len(group.operations) == 1)], best)
    if best.columns is not None and best.order == "pixels":  # and so are whole rows
        best = first([replace(best, pixels=1, columns=None)], best)
    area = group_of_passes(group, best)
    units = most_kernels(group)
    best = first((replace(best, kernels=kernels) for kernels in reversed(pass_sizes(units))), best)
    if best.keys is not None:
        more = [keys for keys in reversed(pass_sizes(most_keys(group))) if keys > best.keys]
        best = first((replace(best, keys=keys) for keys in more), best)
    if best.order != "tiles":
        width = best.columns or area.row
        rows = [size * width for size in pass_sizes(area.plane[0])]
        parts = [size for size in pass_sizes(width) if size < width]
        sizes = pixels_in_blocks(group) if best.blocks else [*parts, *rows]
        more = [pixels for pixels in reversed(sizes) if pixels > best.pixels]
        best = first((replace(best, pixels=pixels) for pixels in more), best)
    if best.channels is not None:
        depths = reversed(pass_sizes(summed_channels(groups.graph, group.last)))
        more = [channels for channels in depths if channels > best.channels]
        best = first((replace(best, channels=channels) for channels in more), best)
    return best
