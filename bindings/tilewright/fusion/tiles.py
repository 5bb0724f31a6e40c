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

from tilewright.errors import InputError
from tilewright.fusion.layout import Layout
from tilewright.fusion.measure import Along, Grid, Measured
from tilewright.fusion.plan import HALOS, Tile
from tilewright.fusion.problem import BUFFERS, HOST, EngineMachine, Problem
from tilewright.fusion.structure import Structure

_NEVER = np.iinfo(np.int64).max
"""Bound of what does not fit."""


MOST_TURNS = 5_000
"""Turns of a tile that is tried, unless all that fit have more: each takes at least an instruction."""


class Choice(NamedTuple):
    """A tile of a group and what the group costs with it.

    Attributes
    ----------
    cost
        In the unit of the problem's objective.
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


def best(problem: Problem, nodes: Sequence[int], whole: bool = False) -> Choice | None:
    """Return the best tile of a group of operations, None if no tile fits into the buffers.

    Parameters
    ----------
    nodes
        Numbers of the operations, ascending.
    whole
        Whether nothing may be cut but kernels.
    """
    structure = Structure(problem, nodes)
    key = (whole, structure.key)
    known = problem.choices
    if key not in known:
        known[key] = _search(problem, structure, whole)
    found: Choice | None = known[key]
    return found


def choice(problem: Problem, structure: Structure, tile: Tile) -> Choice:
    """Return what a group costs with a tile that fits."""
    measured = _measured(structure, tile)
    cycles = Layout(structure, tile).cycles
    traffic, macs = _only(measured.traffic), _only(measured.macs)
    first, second, third = map(_only, measured.buffers)
    buffers = first, second, third
    nanojoules = int(energy(problem.machine, traffic, macs, cycles))
    cost = int(_cost(problem, cycles, traffic, macs, sum(buffers)))
    return Choice(tile, cost, cycles, traffic, nanojoules, buffers)


def _measured(structure: Structure, tile: Tile) -> Measured:
    return Measured(structure, Along(structure, 0, [tile.rows]), Along(structure, 1, [tile.columns]), [tile])


def _only(table: Grid) -> int:
    """Return the value of the only tile."""
    return int(np.asarray(table).item())


def fault(structure: Structure, tile: Tile) -> str | None:
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


def _search(problem: Problem, structure: Structure, whole: bool) -> Choice | None:
    """Find the best tile with rows as in `sizes`, kernels and channels as in `turns`, and up to four columns.

    Only if none of these fits are tiles tried that have fewer columns, and then those down to single values.
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
            return _least(problem, space)
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
    """

    structure: Structure
    rows: Along
    columns: Along
    ways: list[Tile]
    bounds: Grid
    traffic: Grid
    macs: Grid
    peaks: Grid


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
            if halo != "keep" or channels == depths[-1]
        ]
        measured = Measured(structure, rows, columns, tiles)
        fits = measured.fits()
        if (halo, order, parameters) != (HALOS[0], *loops[0]):  # which is what one tile alone is called
            fits &= measured.tiles > 1
        if halo == "keep":
            fits &= np.array(across) == structure.plane[1]
        if problem.limits.halo not in ("any", halo):
            fits &= measured.tiles == 1
        fits &= measured.turns <= max(MOST_TURNS, np.min(measured.turns[fits], initial=_NEVER))
        if fits.any():
            ways += tiles
            bound = np.where(fits, measured.bound(), _NEVER)
            exact = (measured.traffic, measured.macs, sum(measured.buffers))
            tables.append((bound, *(np.broadcast_to(table, bound.shape) for table in exact)))
    if not ways:
        return None
    return _Space(
        structure, rows, columns, ways, *(np.concatenate(table) for table in zip(*tables, strict=True))
    )


def _cost(problem: Problem, cycles: Any, traffic: Any, macs: Any, peak: Any) -> Any:
    """Return the objective, of one tile or of many."""
    minimise = problem.minimise
    if minimise == "energy":
        return energy(problem.machine, traffic, macs, cycles)
    return {"cycles": cycles, "traffic": traffic, "memory": peak}[minimise]


def _least(problem: Problem, space: _Space) -> Choice:
    """Schedule tiles in the order of their bounds, until none that is left can be better."""
    exact = space.traffic, space.macs, space.peaks
    costs = np.where(space.bounds < _NEVER, _cost(problem, space.bounds, *exact), _NEVER).reshape(-1)
    least, best_tile = (_NEVER, _NEVER), space.ways[0]
    for place in np.argsort(costs, kind="stable").tolist():
        if costs[place] >= least[0]:
            break
        way, row, column = (int(axis) for axis in np.unravel_index(place, space.bounds.shape))
        tile = replace(space.ways[way], rows=space.rows.sizes[row], columns=space.columns.sizes[column])
        spans = space.rows.spans[row], space.columns.spans[column]
        cycles = Layout(space.structure, tile, spans).cycles
        cost = int(_cost(problem, cycles, *(table[way, row, column] for table in exact)))
        if (cost, cycles) < least:
            least, best_tile = (cost, cycles), tile
    return choice(problem, space.structure, best_tile)


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
