"""The best tile of a group: what every tile needs and moves, in closed form, and an exact search.

Of all tiles that fit there is a bound on the cycles (`tilewright.fusion.measure`). In the order of the bounds
tiles are scheduled, until none that is left can be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tilewright.fusion.fused_group import Structure
from tilewright.fusion.measure import Along, Grid, Measured
from tilewright.fusion.plan import HALOS, Tile
from tilewright.fusion.problem import BUFFERS, ENGINES, HOST, EngineMachine, Problem
from tilewright.fusion.schedule import Layout
from tilewright.spec.errors import InputError

_NEVER = np.iinfo(np.int64).max
"""Bound of what does not fit."""


MOST_TURNS = 5_000
"""Turns of a tile that is tried, unless all that fit have more: each takes at least an instruction."""


class Choice(NamedTuple):
    """A tile of a group and what the group costs with it.

    Attributes
    ----------
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

    @property
    def peak(self) -> int:
        """Bytes of all buffers."""
        return sum(self.buffers)


def energy(machine: EngineMachine, traffic: Any, macs: Any, cycles: Any) -> Any:
    """Return the nanojoules of so many bytes moved, MACs and cycles."""
    rates = machine.energy
    moved = (traffic * rates.pj_per_dram_byte + macs * rates.pj_per_mac) // 1000
    return moved + cycles * rates.milliwatts // machine.clock_mhz


# Search ----------------------------------------------------------------------------------------------


def best(
    problem: Problem, nodes: Sequence[int], whole: bool = False, most: int | None = None
) -> Choice | None:
    """Return the best tile of a group of operations, None if no tile fits into the buffers.

    Where memory is minimised it is the fastest tile.

    Parameters
    ----------
    nodes
        Numbers of the operations, ascending.
    whole
        Whether nothing may be cut but kernels.
    most
        Bytes of all buffers that it may take, if there is such a limit.
    """
    structure = Structure(problem, nodes)
    key = _key(problem, structure, whole, most)
    known = problem.choices
    if key not in known:
        space = _space(problem, structure, whole)
        known[key] = None if space is None else _least(problem, space, most)
    found: Choice | None = known[key]
    return found


def _key(problem: Problem, structure: Structure, *more: object) -> tuple[object, ...]:
    """Return all that an answer depends on: copies of a problem share what is known."""
    return problem.machine, problem.minimise, problem.limits, structure.key, *more


def peaks(problem: Problem, nodes: Sequence[int], whole: bool = False) -> set[int]:
    """Return the bytes of all buffers that tiles of a group take."""
    structure = Structure(problem, nodes)
    key = _key(problem, structure, whole, "peaks")
    known = problem.choices
    if key not in known:
        space = _space(problem, structure, whole)
        known[key] = set() if space is None else set(space.peaks[space.bounds < _NEVER].tolist())
    found: set[int] = known[key]
    return found


def choice(problem: Problem, structure: Structure, tile: Tile) -> Choice:
    """Return what a group costs with a tile that fits."""
    measured = _measured(structure, tile)
    cycles = Layout(structure, tile).cycles
    traffic, macs = _only(measured.traffic), _only(measured.macs)
    first, second, third = map(_only, measured.buffers)
    buffers = first, second, third
    nanojoules = int(energy(problem.machine, traffic, macs, cycles))
    cost = int(_cost(problem, cycles, traffic, macs))
    return Choice(tile, cost, cycles, traffic, nanojoules, buffers)


def _measured(structure: Structure, tile: Tile) -> Measured:
    return Measured(structure, Along(structure, 0, [tile.rows]), Along(structure, 1, [tile.columns]), [tile])


def _only(table: Grid) -> int:
    """Return the value of the only tile."""
    return int(np.asarray(table).item())


def violation(structure: Structure, tile: Tile) -> str | None:
    """Say why a group cannot be executed with a tile, None if it can."""
    machine = structure.machine
    for name, size, most in (
        ("rows", tile.rows, structure.plane[0]),
        ("columns", tile.columns, structure.plane[1]),
    ):
        if size > most:
            return f"tile: {size} {name}, at most {most} are there"
    across = -(-structure.plane[1] // tile.columns)
    tiles = across * -(-structure.plane[0] // tile.rows)
    if tiles > 1 and structure.whole_only:
        return "tile: the maps that leave differ in size, so they cannot be cut into tiles"
    if tile.halo == "keep" and across > 1:
        return "tile: halos are kept for tiles of full width only"
    if tile.order == "kernels" and (len(structure.stages) > 1 or tile.parameters == "keep" or tiles == 1):
        return "tile: only one stage of several tiles can have the loop over kernels outside"
    if tile.halo == "keep" and structure.sums and tile.channels < structure.summed(structure.loaded):
        return "tile: halos are kept where all input channels are on chip only"
    measured = _measured(structure, tile)
    if not measured.possible.all():
        return "tile: a map that leaves and is read as well needs tiles that do not overlap, or kept halos"
    for name, needed in zip(BUFFERS, map(_only, measured.buffers), strict=True):
        if needed > (room := getattr(machine, f"{name}_bytes")):
            return f"buffers: {needed} bytes of the {name} buffer are needed, there are {room}"
    return None


def tried(problem: Problem, structure: Structure, tile: Tile, whole: bool) -> bool:
    """Whether a tile that fits is one of those among which the best one is found."""
    key = _key(problem, structure, whole, tile)
    if key not in problem.choices:
        problem.choices[key] = _tried(problem, structure, tile, whole)
    found: bool = problem.choices[key]
    return found


def _tried(problem: Problem, structure: Structure, tile: Tile, whole: bool) -> bool:
    space = _space(problem, structure, whole)
    way = replace(tile, rows=1, columns=1)
    if space is None or way not in space.ways:
        return False
    if tile.rows not in space.rows.sizes or tile.columns not in space.columns.sizes:
        return False
    place = space.ways.index(way), space.rows.sizes.index(tile.rows), space.columns.sizes.index(tile.columns)
    return bool(space.bounds[place] < _NEVER)


def sizes(length: int, step: int = 1) -> list[int]:
    """Return sizes into which a length is cut: one, two, three, four, six, ... steps, and all; ascending."""
    found = {length}
    for size in (1, 2, 3):
        while size * step < length:
            found.add(size * step)
            size *= 2
    return sorted(found)


def halves(length: int) -> list[int]:
    """Return a length, its half, a quarter of it, and so on, rounded up; descending."""
    found = [length]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return found


def _space(problem: Problem, structure: Structure, whole: bool) -> _Space | None:
    """Return the tiles that a group can have: rows as in `sizes`, kernels and channels as in `turns`.

    They have all columns, half of them or a quarter. Only if none of these fit do tiles have fewer columns,
    and then, of a single operation, rows and channels down to single ones.
    """
    height, width = structure.plane
    ins, outs, high = problem.machine.conv_array
    if whole or structure.whole_only:
        spaces = [([height], [width], (ins, outs))]
    else:
        spaces = [
            (sizes(height, high), halves(width)[:3], (ins, outs)),
            (sizes(height, high), halves(width)[3:], (ins, outs)),
        ]
        if len(structure.members) == 1:
            spaces.append((halves(height), halves(width), (1, 1)))
    for down, across, steps in spaces:
        space = _fitting(problem, structure, down, across, steps) if across else None
        if space is not None:
            return space
    return None


class _Space(NamedTuple):
    """Tiles that are tried for a group.

    Attributes
    ----------
    rows, columns
        Their sizes.
    ways
        All else.
    bounds, traffic, macs, peaks : shape (ways, rows, columns)
        Bounds on the cycles, `_NEVER` where a tile does not fit, and what is known exactly.
    work : shape (ways, rows, columns, engines)
        The least cycles that each engine works.
    """

    structure: Structure
    rows: Along
    columns: Along
    ways: list[Tile]
    bounds: Grid
    traffic: Grid
    macs: Grid
    peaks: Grid
    work: Grid


def _fitting(
    problem: Problem, structure: Structure, down: list[int], across: list[int], steps: tuple[int, int]
) -> _Space | None:
    """Return the tiles of these rows and columns, and of channels in such steps, if one fits."""
    ins, outs = steps
    rows, columns = Along(structure, 0, down), Along(structure, 1, across)
    most = max(structure.features[feature].shape[0] for feature in structure.members)
    deep = structure.summed(structure.loaded)
    depths = turns(deep, ins) if structure.sums else [max(1, deep)]
    loops = [("tiles", "stream"), ("tiles", "keep"), ("kernels", "stream")]
    ways: list[Tile] = []
    tables: list[tuple[Grid, ...]] = []
    for halo, (order, parameters) in product(HALOS, loops):
        if (order == "kernels" and len(structure.stages) > 1) or (
            parameters == "keep" and not structure.weighted
        ):
            continue
        tiles = [
            Tile(1, 1, kernels, channels, halo, order, parameters)
            for kernels, channels in product(turns(most, outs), depths)
            if halo != "keep" or channels == depths[0]
        ]
        measured = Measured(structure, rows, columns, tiles)
        fits = measured.fits()
        if (halo, order, parameters) != (HALOS[0], *loops[0]):  # which is what one tile alone is called
            ahead = (halo, order) == (HALOS[0], loops[0][0])  # unless its parameters are loaded far ahead
            streams = [ahead and structure.passes(replace(tile, parameters="stream")) for tile in tiles]
            fits &= (measured.tiles > 1) | np.array(streams)[:, None, None]
        if halo == "keep":
            fits &= np.array(across) == structure.plane[1]
        if problem.limits.halo not in ("any", halo):
            fits &= measured.tiles == 1
        if fits.any():
            fits &= measured.turns <= max(MOST_TURNS, int(measured.turns[fits].min()))
            ways += tiles
            bound = np.where(fits, measured.bound(), _NEVER)
            exact = (measured.traffic, measured.macs, sum(measured.buffers))
            work = [np.broadcast_to(measured.work.get(engine, 0), bound.shape) for engine in ENGINES]
            same = (np.broadcast_to(table, bound.shape) for table in exact)
            tables.append((bound, *same, np.stack(work, axis=-1)))
    if not ways:
        return None
    return _Space(
        structure, rows, columns, ways, *(np.concatenate(table) for table in zip(*tables, strict=True))
    )


def _cost(problem: Problem, cycles: Any, traffic: Any, macs: Any) -> Any:
    """Return what is minimised, of one tile or of many: cycles, but for traffic and energy."""
    if problem.minimise == "energy":
        return energy(problem.machine, traffic, macs, cycles)
    return traffic if problem.minimise == "traffic" else cycles


def _least(problem: Problem, space: _Space, most: int | None) -> Choice | None:
    """Schedule tiles in the order of their bounds, until none that is left can be better."""
    exact = space.traffic, space.macs
    costs = np.where(space.bounds < _NEVER, _cost(problem, space.bounds, *exact), _NEVER)
    if most is not None:
        costs = np.where(space.peaks <= most, costs, _NEVER)
    costs = costs.reshape(-1)
    least, found = (_NEVER, _NEVER), None
    timed = problem.minimise in ("cycles", "memory")
    for place in np.argsort(costs, kind="stable").tolist():
        if costs[place] >= least[0]:
            break
        way, row, column = (int(axis) for axis in np.unravel_index(place, space.bounds.shape))
        tile = replace(space.ways[way], rows=space.rows.sizes[row], columns=space.columns.sizes[column])
        spans = space.rows.spans[row], space.columns.spans[column]
        layout = Layout(space.structure, tile, spans)
        work = space.work[way, row, column]
        cycles = layout.cycles_below(least[0], work) if timed else layout.cycles
        cost = int(_cost(problem, cycles, *(table[way, row, column] for table in exact)))
        if (cost, cycles) < least:
            least, found = (cost, cycles), tile
    return None if found is None else choice(problem, space.structure, found)


def turns(length: int, step: int) -> list[int]:
    """Return how many channels a turn can have: those of one pass of the array, two, four, ..., and all."""
    found, size = [length], step
    while size < length:
        found.append(size)
        size *= 2
    return found


def check_buffers(problem: Problem) -> None:
    """Refuse buffers in which not even the smallest tile of some operation fits.

    Raises
    ------
    InputError
        Names the buffer, the operation and what it needs.
    """
    machine = problem.machine
    for op in problem.ops:
        if op.engine == HOST:
            continue
        measured = _measured(Structure(problem, (op.number,)), Tile(1, 1, 1, 1))
        for name, needed in zip(BUFFERS, map(_only, measured.buffers), strict=True):
            if needed > (room := getattr(machine, f"{name}_bytes")):
                limit = f"operation {op.name} needs at least {needed}, for one value of its output at a time"
                raise InputError(f"machine.{name}_bytes", room, limit)
