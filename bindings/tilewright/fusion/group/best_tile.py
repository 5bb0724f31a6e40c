"""The best tile of a group: what every tile needs and moves, in closed form, and an exact search.

Of all tiles that fit there is a bound on the cycles (`tilewright.fusion.group.tile_costs`). In the order of
the bounds tiles are scheduled, until none that is left can be better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule
from tilewright.fusion.group.tile_costs import AxisTiles, Grid, TileCosts, only
from tilewright.fusion.host import host_cycles
from tilewright.fusion.layouts import Decided
from tilewright.fusion.machine import BUFFERS, ENGINES, HOST, EngineMachine
from tilewright.fusion.plan import HALOS, Tile
from tilewright.fusion.problem import MOST_CYCLES, FusionLimits, FusionObjective, Problem

NEVER = np.iinfo(np.int64).max
"""Bound of what does not fit."""


MAX_CHANNEL_BLOCKS = 5_000
"""Most channel blocks of a tile that is tried, unless all that fit have more: each takes an instruction."""


EVERY = 0
"""The step of channels where blocks may have any number of them."""


class TileChoice(NamedTuple):
    """A tile of a group and what the group costs with it.

    Attributes
    ----------
    places
        The order in which the operations are executed, by their places among the group's numbers.
    cost
        In the unit of the problem's objective; where memory is minimised, the cycles.
    traffic
        Bytes.
    energy
        Nanojoules.
    buffers
        Bytes of the input, the output and the parameter buffer.
    """

    tile: Tile
    cost: int
    cycles: int
    traffic: int
    energy: int
    buffers: tuple[int, int, int]
    places: tuple[int, ...] = ()

    @property
    def peak(self) -> int:
        """Bytes of all buffers."""
        return sum(self.buffers)

    @property
    def rank(self) -> tuple[int, ...]:
        """What is minimised, and then what tells equal ones apart: traffic, cycles, energy, memory."""
        return self.cost, self.traffic, self.cycles, self.energy, self.peak


# What has been searched ------------------------------------------------------------------------------


def answers_of(problem: Problem) -> dict[object, Any]:
    """Return what is known of groups on a problem's machine, by all that an answer depends on beside it."""
    return _answers_on(problem.machine, problem.minimise, problem.limits)


@lru_cache(maxsize=16)
def _answers_on(machine: EngineMachine, minimise: str, limits: FusionLimits) -> dict[object, Any]:
    """Equal groups are searched once, in whatever network they are."""
    return {}


def forget_tiles() -> None:
    """Search all groups anew from here on, for measurements of time."""
    _answers_on.cache_clear()


# Search ----------------------------------------------------------------------------------------------


def best_tile(
    problem: Problem,
    nodes: Sequence[int],
    whole: bool = False,
    max_bytes: int | None = None,
    layouts: Decided | None = None,
) -> TileChoice | None:
    """Return the best tile of a group of operations in the best order, None if none fits into the buffers.

    Where memory is minimised it is the fastest one.

    Parameters
    ----------
    nodes
        Numbers of the operations, ascending.
    whole
        Whether nothing may be cut but kernels.
    max_bytes
        Bytes of all buffers that it may take, if there is such a limit.
    layouts
        Of what it loads and saves; the paper's for those that are left out.
    """
    key = problem.fused(nodes, layouts).key, whole, max_bytes
    answers = answers_of(problem)
    if key not in answers:
        found: TileChoice | None = None
        for order in problem.orders_of(nodes).listed:
            space = space_of(problem, problem.fused(order, layouts), whole)
            if space is not None:
                found = _least(problem, space, max_bytes, tuple(map(list(nodes).index, order)), found)
        answers[key] = found
    choice: TileChoice | None = answers[key]
    return choice


def tile_peaks(problem: Problem, nodes: Sequence[int], whole: bool = False) -> set[int]:
    """Return the bytes of all buffers that tiles of a group take, in all of its orders."""
    key = problem.fused(nodes).key, whole, "peaks"
    answers = answers_of(problem)
    if key not in answers:
        spaces = [space_of(problem, problem.fused(order), whole) for order in problem.orders_of(nodes).listed]
        answers[key] = {
            peak for space in spaces if space for peak in space.peaks[space.bounds < NEVER].tolist()
        }
    sizes: set[int] = answers[key]
    return sizes


def fits(problem: Problem, nodes: Sequence[int], whole: bool = False) -> bool:
    """Whether some tile of a group fits into the buffers: whether `best_tile` finds one, without a search."""
    fused = problem.fused(nodes)
    key, answers = (fused.key, whole, "fits"), answers_of(problem)
    if key not in answers:
        quickly = not whole and _smallest_fits(problem, fused)
        answers[key] = quickly or space_of(problem, fused, whole) is not None
    answer: bool = answers[key]
    return answer


def _smallest_fits(problem: Problem, fused: FusedGroup) -> bool:
    """Whether the smallest tile of a single operation fits, which the last of its grids has.

    In most machines it does; where not, a larger one may.
    """
    if len(fused.members) > 1 or problem.limits.halo == "keep":
        return False
    return bool(TileCosts.of(fused, Tile(1, 1, 1, 1)).fits().all())


def least_buffers(problem: Problem, nodes: Sequence[int]) -> dict[str, int]:
    """Return the bytes of those buffers that are too small for any tile of a group, with which one fits.

    Of all tiles that the limits allow it is the one that asks for the fewest more bytes.
    """
    fused = problem.fused(nodes)
    there = [problem.machine.capacity(name) for name in BUFFERS]
    least, found = NEVER, there
    for down, across, steps in _grids(problem, fused, False):
        rows, columns = AxisTiles(fused, 0, down), AxisTiles(fused, 1, across)
        for _, costs, allowed in _by_loops(problem, fused, rows, columns, steps):
            needed = np.broadcast_arrays(*costs.buffers, allowed)[:-1]
            more = sum(np.maximum(each - size, 0) for each, size in zip(needed, there, strict=True))
            more = np.where(allowed & costs.possible, more, NEVER)
            if more.min() < least:
                least, at = int(more.min()), np.unravel_index(int(more.argmin()), more.shape)
                found = [max(int(each[at]), size) for each, size in zip(needed, there, strict=True)]
    sizes = zip(BUFFERS, there, found, strict=True)
    return {name: needed for name, size, needed in sizes if needed > size}


def evaluate_tile(problem: Problem, fused: FusedGroup, tile: Tile) -> TileChoice:
    """Return what a group costs with a tile that fits."""
    costs = TileCosts.of(fused, tile)
    cycles = GroupSchedule(fused, tile).cycles
    traffic, macs = only(costs.traffic), only(costs.macs)
    first, second, third = map(only, costs.buffers)
    nanojoules = int(problem.machine.nanojoules(traffic, macs, cycles))
    cost = int(cost_of(problem, cycles, traffic, macs))
    return TileChoice(tile, cost, cycles, traffic, nanojoules, (first, second, third))


def violation(fused: FusedGroup, tile: Tile) -> str | None:
    """Say why a group cannot be executed with a tile, None if it can."""
    reason = _not_cut(fused, tile)
    if reason is None:
        costs = TileCosts.of(fused, tile)
        reason = _overlapping(costs) or _overflowing(fused.machine, costs)
    return reason


def _not_cut(fused: FusedGroup, tile: Tile) -> str | None:
    """Say why a group cannot be cut into such tiles."""
    height, width = fused.plane
    if tile.rows > height:
        return f"tile: {tile.rows} rows, at most {height} are there"
    if tile.columns > width:
        return f"tile: {tile.columns} columns, at most {width} are there"
    across = -(-width // tile.columns)
    tiles = across * -(-height // tile.rows)
    if tiles > 1 and fused.whole_only:
        return "tile: the maps that leave differ in size, so they cannot be cut into tiles"
    if tile.halo == "keep" and across > 1:
        return "tile: halos are kept for tiles of full width only"
    if tile.order == "kernels" and (len(fused.stages) > 1 or tiles == 1):
        return "tile: only one stage of several tiles can have the loop over kernels outside"
    if tile.halo == "keep" and fused.splits(tile):
        return "tile: halos are kept where all input channels are on chip only"
    return None


def _overlapping(costs: TileCosts) -> str | None:
    """Say why tiles may not overlap."""
    if costs.possible.all():
        return None
    return "tile: a map that leaves and is read as well needs tiles that do not overlap, or kept halos"


def _overflowing(machine: EngineMachine, costs: TileCosts) -> str | None:
    """Say which buffer is too small."""
    for name, needed in zip(BUFFERS, map(only, costs.buffers), strict=True):
        if needed > (capacity := machine.capacity(name)):
            return f"buffers: {needed} bytes of the {name} buffer are needed, there are {capacity}"
    return None


def is_tried(problem: Problem, fused: FusedGroup, tile: Tile, whole: bool) -> bool:
    """Whether a tile that fits is one of those among which the best one is found."""
    key, answers = (fused.key, whole, tile), answers_of(problem)
    if key not in answers:
        answers[key] = _tried(problem, fused, tile, whole)
    answer: bool = answers[key]
    return answer


def _tried(problem: Problem, fused: FusedGroup, tile: Tile, whole: bool) -> bool:
    space = space_of(problem, fused, whole)
    way = replace(tile, rows=1, columns=1)
    if space is None or way not in space.ways:
        return False
    if tile.rows not in space.rows.sizes or tile.columns not in space.columns.sizes:
        return False
    index = space.ways.index(way), space.rows.sizes.index(tile.rows), space.columns.sizes.index(tile.columns)
    return bool(space.bounds[index] < NEVER)


def tile_sizes(length: int, step: int = 1) -> list[int]:
    """Return sizes into which a length is cut: one, two, three, four, six, ... steps, and all; ascending."""
    cuts = {length}
    for size in (1, 2, 3):
        while size * step < length:
            cuts.add(size * step)
            size *= 2
    return sorted(cuts)


def halved_sizes(length: int) -> list[int]:
    """Return a length, its half, a quarter of it, and so on, rounded up; descending."""
    lengths = [length]
    while lengths[-1] > 1:
        lengths.append(-(-lengths[-1] // 2))
    return lengths


def space_of(problem: Problem, fused: FusedGroup, whole: bool) -> TileSpace | None:
    """Return the tiles that a group can have: those of the first grid in which one fits."""
    for down, across, steps in _grids(problem, fused, whole):
        space = _fitting(problem, fused, down, across, steps)
        if space is not None:
            return space
    return None


def _grids(
    problem: Problem, fused: FusedGroup, whole: bool
) -> list[tuple[list[int], list[int], tuple[int, int]]]:
    """Return rows and columns of tiles, and steps of channels: each grid for when nothing before it fits.

    Rows are as in `tile_sizes`, kernels and channels as in `block_sizes`. Tiles have all columns, half of
    them or a quarter. Only if none of these fit do they have fewer columns, and then, of a single operation,
    rows and channels down to single ones. Where tiles may have any size, there is one grid, of all sizes.
    """
    height, width = fused.plane
    ins, outs, high = problem.machine.conv_array
    every = problem.limits.tiles == "any"
    if every:
        ins = outs = EVERY
    if whole or fused.whole_only:
        spaces = [([height], [width], (ins, outs))]
    elif every:
        spaces = [(list(range(1, height + 1)), list(range(1, width + 1)), (ins, outs))]
    else:
        spaces = [
            (tile_sizes(height, high), halved_sizes(width)[:3], (ins, outs)),
            (tile_sizes(height, high), halved_sizes(width)[3:], (ins, outs)),
        ]
        if len(fused.members) == 1:
            spaces.append((halved_sizes(height), halved_sizes(width), (1, 1)))
    return [space for space in spaces if space[1]]


class TileSpace(NamedTuple):
    """Tiles that are tried for a group, its operations in one order.

    Attributes
    ----------
    rows, columns
        Their sizes.
    ways
        All else.
    bounds, traffic, macs, peaks : shape (ways, rows, columns)
        Bounds on the cycles, `NEVER` where a tile does not fit, and what is known exactly.
    work : shape (ways, rows, columns, engines)
        The least cycles that each engine works.
    """

    fused: FusedGroup
    rows: AxisTiles
    columns: AxisTiles
    ways: list[Tile]
    bounds: Grid
    traffic: Grid
    macs: Grid
    peaks: Grid
    work: Grid

    def tile(self, index: int) -> Tile:
        """Return the tile that has a number in the order of the tables."""
        way, row, column = (int(axis) for axis in np.unravel_index(index, self.bounds.shape))
        return replace(self.ways[way], rows=self.rows.sizes[row], columns=self.columns.sizes[column])


LOOPS = (("tiles", "stream"), ("tiles", "keep"), ("kernels", "stream"), ("kernels", "keep"))
"""Outer loops, each with whether parameters stay, that are tried."""


def _fitting(
    problem: Problem, fused: FusedGroup, down: list[int], across: list[int], steps: tuple[int, int]
) -> TileSpace | None:
    """Return the tiles of these rows and columns, and of channels in such steps, if one fits."""
    rows, columns = AxisTiles(fused, 0, down), AxisTiles(fused, 1, across)
    ways: list[Tile] = []
    tables: list[tuple[Grid, ...]] = []
    for tiles, costs, allowed in _by_loops(problem, fused, rows, columns, steps):
        fits = costs.fits() & allowed
        if fits.any():
            fits &= costs.channel_blocks <= max(MAX_CHANNEL_BLOCKS, int(costs.channel_blocks[fits].min()))
            ways += tiles
            tables.append(_tables(costs, fits))
    if not ways:
        return None
    return TileSpace(
        fused, rows, columns, ways, *(np.concatenate(table) for table in zip(*tables, strict=True))
    )


def _by_loops(
    problem: Problem, fused: FusedGroup, rows: AxisTiles, columns: AxisTiles, steps: tuple[int, int]
) -> Iterator[tuple[list[Tile], TileCosts, NDArray[np.bool_]]]:
    """Return tiles with the same halo and loops, what they need, and which of them the limits allow."""
    for halo, (order, parameters) in product(HALOS, LOOPS):
        tiles = _ways(fused, steps, halo, order, parameters)
        if not tiles:
            continue
        costs = TileCosts(fused, rows, columns, tiles)
        allowed = np.broadcast_to(_told_apart(fused, costs, tiles), costs.shape).copy()
        if halo == "keep":
            allowed &= np.array(columns.sizes) == fused.plane[1]
        if problem.limits.halo not in ("any", halo):
            allowed &= costs.tiles == 1
        yield tiles, costs, allowed


def _ways(fused: FusedGroup, steps: tuple[int, int], halo: str, order: str, parameters: str) -> list[Tile]:
    """Return tiles of all kernels and channels with these loops, but for their rows and columns."""
    if (order == "kernels" and len(fused.stages) > 1) or (parameters == "keep" and not fused.weighted):
        return []
    ins, outs = steps
    widest = max(fused.features[feature].shape[0] for feature in fused.members)
    deep = fused.summed(fused.loaded)
    depths = block_sizes(deep, ins) if fused.sums else [max(1, deep)]
    return [
        Tile(1, 1, kernels, channels, halo, order, parameters)
        for kernels, channels in product(block_sizes(widest, outs), depths)
        if halo != "keep" or channels == depths[0]
    ]


def _told_apart(fused: FusedGroup, costs: TileCosts, tiles: Sequence[Tile]) -> NDArray[np.bool_]:
    """Mark tiles that are no other name of the same: one tile alone has the first of all halos and loops.

    Its parameters may stay all the same, where that lets them be loaded far ahead. With the loop over kernels
    outside, two channel blocks are there in any case, which may be all, or take more than all.
    """
    halo, loop = tiles[0].halo, (tiles[0].order, tiles[0].parameters)
    if (halo, loop) == (HALOS[0], LOOPS[0]):
        return np.ones(1, np.bool_)
    ahead = (halo, loop[0]) == (HALOS[0], LOOPS[0][0])
    streams = [ahead and fused.passes(replace(tile, parameters="stream")) for tile in tiles]
    marks: NDArray[np.bool_] = (costs.tiles > 1) | np.array(streams)[:, None, None]
    if loop == ("kernels", "keep"):
        others = costs.rounds() * fused.machine.element_bytes
        marks = marks & ((costs.blocks(fused.loaded) > 2) | (others != costs.parameters))
    return marks


def _tables(costs: TileCosts, fits: NDArray[np.bool_]) -> tuple[Grid, ...]:
    """Return what `TileSpace` has of tiles: bounds, traffic, MACs, bytes of all buffers and work."""
    bounds = np.where(fits, costs.bound(), NEVER)
    exact = (costs.traffic, costs.macs, sum(costs.buffers))
    work = [np.broadcast_to(costs.work.get(engine, 0), bounds.shape) for engine in ENGINES]
    return (bounds, *(np.broadcast_to(table, bounds.shape) for table in exact), np.stack(work, axis=-1))


def cost_of(problem: Problem, cycles: Any, traffic: Any, macs: Any) -> Any:
    """Return what is minimised, of one tile or of many: cycles, but for traffic and energy."""
    if problem.minimise == "energy":
        return problem.machine.nanojoules(traffic, macs, cycles)
    return traffic if problem.minimise == "traffic" else cycles


def _least(
    problem: Problem,
    space: TileSpace,
    max_bytes: int | None,
    places: tuple[int, ...],
    known: TileChoice | None,
) -> TileChoice | None:
    """Schedule tiles in the order of their bounds, until none that is left can be better than a known one."""
    exact = space.traffic, space.macs
    costs = np.where(space.bounds < NEVER, cost_of(problem, space.bounds, *exact), NEVER)
    if max_bytes is not None:
        costs = np.where(space.peaks <= max_bytes, costs, NEVER)
    costs, traffic = costs.reshape(-1), np.broadcast_to(space.traffic, costs.shape).reshape(-1)
    best, best_tile = (NEVER,) * 5 if known is None else known.rank, None
    timed = problem.minimise in ("cycles", "memory")
    for index in np.lexsort((traffic, costs)).tolist():
        if costs[index] > best[0] or costs[index] == NEVER:
            break
        moved = int(traffic[index])
        if costs[index] == best[0] and moved > best[1]:
            continue  # no better than what moves less
        way, row, column = (int(axis) for axis in np.unravel_index(index, space.bounds.shape))
        tile = space.tile(index)
        schedule = GroupSchedule(space.fused, tile, (space.rows.spans[row], space.columns.spans[column]))
        most = best[0] + (moved <= best[1] and best[0] < NEVER)
        cycles = schedule.cycles_below(most, space.work[way, row, column]) if timed else schedule.cycles
        macs = int(space.macs[way, row, column])
        rank = (
            int(cost_of(problem, cycles, moved, macs)),
            moved,
            cycles,
            int(problem.machine.nanojoules(moved, macs, cycles)),
            int(space.peaks[way, row, column]),
        )
        if rank < best:
            best, best_tile = rank, tile
    return (
        known if best_tile is None else evaluate_tile(problem, space.fused, best_tile)._replace(places=places)
    )


def block_sizes(length: int, step: int) -> list[int]:
    """Return how many channels a block can have: those of one pass of the array, two, four, ..., and all.

    For the step `EVERY` it is any number of them.
    """
    if step == EVERY:
        return list(range(length, 0, -1))
    sizes, size = [length], step
    while size < length:
        sizes.append(size)
        size *= 2
    return sizes


def cycle_limit(problem: Problem) -> int:
    """Return the most cycles of all groups where memory is minimised; by default what no fusion needs.

    Where that is impossible, as some operation alone has no tile that the limits allow, there is no limit.
    """
    if problem.objective.most_cycles is not None:
        return problem.objective.most_cycles
    fastest = problem.model_copy(update={"objective": FusionObjective()})
    alone = [best_tile(fastest, (op.number,)) for op in problem.ops if engine_of(op) != HOST]
    hosted = sum(host_cycles(problem, op) for op in problem.ops)
    hosted += sum(problem.copied({each: one.layouts[0] for each, one in enumerate(problem.tensors)}).values())
    return hosted + sum(MOST_CYCLES if choice is None else choice.cycles for choice in alone)
