"""What the core takes for each tile, and how much it streams: by its throughput, or by the plan's inner loop.

On a machine with a vector unit all tiles of a plan share one inner loop, as they would share code; tiles at
the edge of a layer cut its body to their size. What a loop takes for a tile does not depend on the order of
the tiles: so the loops that may be best with some order are known of a tile alone (`loops_worth_trying`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.inner_loop import (
    DIMENSIONS,
    InnerLoop,
    LoopCosts,
    TileWork,
    costs_of_bodies,
    costs_of_ends,
    extents,
    loop_costs,
)
from tilewright.tiling.dsp.inner_search import LoopFamily, families
from tilewright.tiling.dsp.nest import C, Counts, G, K, N, Nest, Tile, X, Y
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.dsp.vector_unit import VectorUnit

AXES = (N, C, Y, X, K)
"""The dimensions of an inner loop."""


class TileKind(NamedTuple):
    """Tiles of equal size, their number, and whether their input maps are an output's first and last."""

    sizes: Tile
    first: bool
    last: bool
    number: int


class LoopOption(NamedTuple):
    """An inner loop with what it takes for all tiles together: cycles, and units that it streams."""

    cycles: int
    streamed: int
    loop: InnerLoop


def work_of(nest: Nest, sizes: Tile) -> TileWork:
    """Return what is computed of a tile."""
    layer = nest.layer
    n, c, y, x, k = (sizes[d] for d in AXES)
    return TileWork((n, c, y, x, k), sizes[G], layer.kernel, layer.stride, layer.dilation)


def kinds_of_tiles(nest: Nest, step: Tile) -> Iterator[TileKind]:
    """Return the tiles of a plan, those together that cost the same."""
    trips = nest.trips(step)
    choices = []
    for size, one, many in zip(nest.sizes, step, trips, strict=True):
        last = size - (many - 1) * one
        choices.append([(one, many)] if last == one else [(one, many - 1), (last, 1)])
    maps = trips[K]
    for chosen in product(*choices):
        sizes, number = tuple(size for size, _ in chosen), 1
        for _, many in chosen[:K]:
            number *= many
        size, many = chosen[K]
        ends = size != step[K] or len(choices[K]) == 1  # the last input maps are among these
        if maps == 1:
            yield TileKind(sizes, True, True, number)
            continue
        if size == step[K]:
            yield TileKind(sizes, True, False, number)
            many -= 1
        if ends:
            yield TileKind(sizes, False, True, number)
            many -= 1
        if many:
            yield TileKind(sizes, False, False, number * many)


@lru_cache(maxsize=1 << 14)
def _loop_costs(nest: Nest, loop: InnerLoop, sizes: Tile) -> LoopCosts:
    """Return what an inner loop costs on a tile."""
    unit = nest.machine.vector_unit
    assert unit is not None
    return loop_costs(unit, work_of(nest, sizes), loop)


def fits(nest: Nest, loop: InnerLoop, sizes: Tile) -> bool:
    """Whether an inner loop can run on a tile: registers and body suffice."""
    return bool(_loop_costs(nest, loop, sizes).fits)


@lru_cache(maxsize=1 << 16)
def cost_of_tile(nest: Nest, loop: InnerLoop, sizes: Tile, first: bool, last: bool) -> tuple[int, int]:
    """Return the cycles of a tile, and the units that it streams.

    Parameters
    ----------
    first, last
        Whether its input maps are the first and the last of its outputs.
    """
    unit = nest.machine.vector_unit
    assert unit is not None
    cycles, transfers = _loop_costs(nest, loop, sizes).total(first=first, last=last)
    return int(cycles), int(transfers) * unit.lanes


def compute_of_tiles(
    nest: Nest, plan: DspPlan, local: int, sizes: dict[int, Any], first: Any, last: Any
) -> tuple[Counts, Counts]:
    """Return the cycles of many tiles, and the units that they stream.

    Parameters
    ----------
    local
        Units of local traffic of the whole layer, on a machine without a vector unit.
    sizes : int, shape (tiles,)
        By dimension.
    first, last : bool, shape (tiles,)
    """
    if nest.machine.vector_unit is None:
        macs = np.prod([sizes[d] for d in range(6)], axis=0) * nest.window
        streamed = np.asarray(nest.streamed(macs, local))
        return -(-macs // nest.machine.macs_per_cycle), streamed
    loop = loop_of(nest, plan)
    rows = np.stack([*(sizes[d] for d in range(6)), first, last])
    distinct, index = np.unique(rows, axis=1, return_inverse=True)
    costs = np.array(
        [cost_of_tile(nest, loop, tuple(row[:6]), bool(row[6]), bool(row[7])) for row in distinct.T.tolist()],
        dtype=np.int64,
    )
    cycles, streamed = costs[index.ravel()].T
    return cycles, streamed


def loop_of(nest: Nest, plan: DspPlan) -> InnerLoop:
    """Return the inner loop of a plan: without one of its own, the fastest for all its tiles together."""
    if plan.inner_loop is not None:
        return plan.inner_loop
    return min(loops_worth_trying(nest, nest.step(plan.tile)), key=lambda option: option[:2]).loop


def misfit(nest: Nest, plan: DspPlan) -> str | None:
    """Say why a plan's inner loop cannot run, or None."""
    unit, loop = nest.machine.vector_unit, plan.inner_loop
    if loop is None:
        return None
    if unit is None:
        return "inner loop: the machine has no vector_unit"
    for kind in kinds_of_tiles(nest, nest.step(plan.tile)):
        costs = _loop_costs(nest, loop, kind.sizes)
        if not costs.fits:
            macs = costs.macs // (costs.entries * costs.iterations)
            return (
                f"inner loop: {costs.least_registers} registers and a body of {macs} vector MACs are needed, "
                f"the machine has {unit.registers} and takes {unit.unrolled_macs}"
            )
    return None


MayHelp = Callable[[Counts, Counts], NDArray[np.bool_]]
"""Tells of bounds on the cycles of loops, and on what they stream, whether plans with them may help."""


@lru_cache(maxsize=1 << 14)
def loops_worth_trying(nest: Nest, step: Tile, *, every: bool = False) -> tuple[LoopOption, ...]:
    """Return the inner loops of a tile that no other is at least as good as on every tile of a plan.

    Cycles and energy of a plan fall with what each tile takes and streams, whatever the order of the tiles.
    So one of these is best for every order.

    Parameters
    ----------
    every
        Also those that others are better than, one of those that cost the same on every tile: constraints may
        ask for what they cost.
    """
    return loops_that_may_help(nest, step, None, every=every)


def loops_that_may_help(
    nest: Nest, step: Tile, may_help: MayHelp | None, *, every: bool = False
) -> tuple[LoopOption, ...]:
    """Return those of `loops_worth_trying` that may be of interest, without pricing the others in full."""
    unit = nest.machine.vector_unit
    assert unit is not None
    plan = _PlanTiles(nest, step)
    tables: list[NDArray[np.int64]] = [np.zeros((0, 2 * len(plan.kinds)), np.int64)]
    found: list[tuple[LoopFamily, int]] = []
    vectors = [name for name in DIMENSIONS if may_help is None or plan.helps(name, may_help)]
    for family in families(unit, work_of(nest, step), vectors):
        kept, table = plan.costs_of_family(family, may_help)
        tables.append(table)
        found.extend((family, number) for number in kept.tolist())
    table = np.concatenate(tables)
    numbers = plan.numbers
    return tuple(
        LoopOption(
            int(table[at, : len(numbers)] @ numbers),
            int(table[at, len(numbers) :] @ numbers) * unit.lanes,
            found[at][0].loop(found[at][1]),
        )
        for at in (np.unique(table, axis=0, return_index=True)[1] if every else undominated(table))
    )


class _PlanTiles:
    """The tiles of a plan: kinds of equal size together, those first that most is computed of.

    Attributes
    ----------
    kinds, numbers
        Kinds, and how many tiles are of each.
    """

    def __init__(self, nest: Nest, step: Tile) -> None:
        self.nest = nest
        of_size: dict[Tile, list[TileKind]] = {}
        for kind in kinds_of_tiles(nest, step):
            of_size.setdefault(kind.sizes, []).append(kind)

        def computed(sizes: Tile) -> int:
            return prod(sizes) * sum(kind.number for kind in of_size[sizes])

        self.sizes = sorted(of_size, key=computed, reverse=True)
        self.groups = [of_size[sizes] for sizes in self.sizes]
        self.kinds = [kind for group in self.groups for kind in group]
        self.numbers = np.array([kind.number for kind in self.kinds])
        self._least: dict[str, tuple[Counts, Counts]] = {}

    def least(self, vector: str) -> tuple[Counts, Counts]:
        """Bound cycles and transfers of each kind of tiles from below, for lanes along some dimension.

        Each multiply-accumulate has a slot, each entry takes a latency more, and outputs begin and end;
        (C2), (C5), (C9) to (C11).
        """
        if vector not in self._least:
            unit, cycles, transfers = self.nest.machine.vector_unit, [], []
            assert unit is not None
            for kind in self.kinds:
                work = work_of(self.nest, kind.sizes)
                wide = extents(unit, work, vector)
                macs = work.groups * prod(wide) * prod(work.kernel)
                ends = costs_of_ends(unit, work, vector)
                entries = max(work.groups, -(-macs // (unit.unrolled_macs * max(wide))))
                slots = -(-macs // unit.mac_slots) + entries * cycles_of_an_entry(unit)
                cycles.append(slots + kind.first * ends["start_cycles"] + kind.last * ends["end_cycles"])
                transfers.append(kind.first * ends["start_transfers"] + kind.last * ends["end_transfers"])
            self._least[vector] = np.array(cycles), np.array(transfers)
        return self._least[vector]

    def helps(self, vector: str, may_help: MayHelp) -> bool:
        """Whether any loop with these lanes may help."""
        unit, (cycles, transfers) = self.nest.machine.vector_unit, self.least(vector)
        assert unit is not None
        return bool(may_help(cycles[None] @ self.numbers, transfers[None] @ self.numbers * unit.lanes)[0])

    def costs_of_family(self, family: LoopFamily, may_help: MayHelp | None) -> tuple[Counts, Counts]:
        """Return which loops of a family fit all tiles and may help, and what they cost.

        Returns
        -------
        kept : int, shape (loops,)
        table : int, shape (loops, 2 kinds)
            Cycles, then transfers, of each kind.
        """
        unit, many = self.nest.machine.vector_unit, len(self.kinds)
        assert unit is not None
        kept = np.arange(len(family.unroll[0]))
        table = np.tile(np.concatenate(self.least(family.vector)), (len(kept), 1))
        place = 0
        for sizes, group in zip(self.sizes, self.groups, strict=True):
            work = work_of(self.nest, sizes)
            most = extents(unit, work, family.vector)
            unroll = [np.minimum(each[kept], size) for each, size in zip(family.unroll, most, strict=True)]
            costs = costs_of_bodies(unit, work, family.vector, family.pipelined, family.taps, unroll)
            for kind in group:
                table[:, place], table[:, many + place] = costs.total(first=kind.first, last=kind.last)
                place += 1
            good = costs.fits
            if may_help is not None:
                streamed = table[:, many:] @ self.numbers * unit.lanes
                good = good & may_help(table[:, :many] @ self.numbers, streamed)
            kept, table = kept[good], table[good]
            if not len(kept):
                break
        return kept, table


def undominated(table: NDArray[np.int64]) -> list[int]:
    """Return rows that no other row is at most as large as everywhere, one of several that are equal."""
    kept: list[int] = []
    left = np.lexsort((*table.T[::-1], table.sum(axis=1)))  # no row is larger than a later one everywhere
    while len(left):
        kept.append(int(left[0]))
        left = left[(table[left] < table[left[0]]).any(axis=1)]
    return kept


def cycles_of_an_entry(unit: VectorUnit) -> int:
    """Bound what an entry of the pipelined loop takes beside its multiply-accumulates' slots; (C5), (C9).

    The last iteration takes its latency: ways of a load, a multiply-accumulate and a store, and a turn of all
    sums for each link of their chains, which is no shorter than the slots of the body.
    """
    return unit.load_latency + unit.mac_latency - 1 + unit.store_latency


def least_compute(tiles: Tiles) -> Counts:
    """Bound the cycles of the core from below, for all tiles of plans with certain steps; (C1) to (C11).

    Every iteration takes its multiply-accumulates' slots. Whatever is vectorised, lanes that a tile leaves
    empty take them as well, and each output is begun and ended once. Each group of each tile enters the
    pipelined loop. An entry has no more iterations than the longest dimension has elements, or vectors, and
    no more multiply-accumulates in each than the body may have.
    """
    nest = tiles.nest
    unit, machine = nest.machine.vector_unit, nest.machine
    if unit is None:
        return np.asarray(-(-nest.macs // machine.macs_per_cycle))
    sizes = nest.sizes
    outputs: Any = 1
    for d in (G, N, C, Y, X):
        outputs = outputs * tiles.trips[d]
    ends = (2 * (unit.load_latency + unit.store_latency) + unit.mac_latency) * outputs
    entered: Any = sizes[G]
    for axis in AXES:
        entered = entered * tiles.trips[axis]
    best: Any = None
    for name, axis in zip(DIMENSIONS, AXES, strict=True):
        step, trips = tiles.steps[axis], tiles.trips[axis]
        vectors = (trips - 1) * -(-step // unit.lanes) + -(-(sizes[axis] - (trips - 1) * step) // unit.lanes)
        macs = vectors * (nest.macs // sizes[axis])
        sums = nest.n_outputs if name == "k" else vectors * (nest.n_outputs // sizes[axis])
        wide = [-(-tiles.steps[d] // (unit.lanes if d == axis else 1)) for d in AXES]
        entries = np.maximum(entered, -(-macs // (unit.unrolled_macs * np.maximum.reduce(wide))))
        cycles = -(-macs // unit.mac_slots) + -(-3 * sums // unit.memory_slots) + ends
        cycles = cycles + entries * cycles_of_an_entry(unit)
        best = cycles if best is None else np.minimum(best, cycles)
    return np.asarray(best)
