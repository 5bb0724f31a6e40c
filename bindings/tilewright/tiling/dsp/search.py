"""Exact search over every tile and every order of the tile loops; docs/tiling.md argues why nothing is lost.

Accesses are minimised per *pattern*: which loops have a single iteration. Within a pattern each operand is
brought once for every iteration of a fixed set of loops, so loops that multiply nothing get the smallest
step, one loop gets the largest that fits, and only the others are enumerated.

Cycles and energy are minimised over all tiles that fit: a lower bound is computed for all of them at once,
and the exact value in the order of that bound until no bound is below the best value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, permutations
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, Tile, X, Y
from tilewright.tiling.dsp.plan import LOOPS, ORDERED, SCHEDULES, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, Tiles

Counts = NDArray[np.int64]

FREE_DIMENSIONS = (N, C, Y, X, K)

MAX_BLOCK = 4_000_000
"""Most tiles, whether they fit or not, that are looked at together, which bounds the memory."""


class Pattern(NamedTuple):
    """How often operands are brought when certain loops have a single iteration.

    Attributes
    ----------
    input, kernels, output
        Loops whose iterations multiply the operand.
    halo
        Y or X where neighbours share a halo that stays, else -1.
    order, reuse
        A schedule that does this.
    """

    input: frozenset[int]
    kernels: frozenset[int]
    output: frozenset[int]
    halo: int
    order: str
    reuse: str

    def beats(self, other: Pattern) -> bool:
        """Whether this one never moves more than the other."""
        return (
            self.input <= other.input
            and self.kernels <= other.kernels
            and self.output <= other.output
            and (self.halo == other.halo or other.halo == -1)
        )


def schedules(limit: str) -> tuple[tuple[str, str], ...]:
    """Return the schedules that a limit of an instance allows, as (order, reuse)."""
    if limit == "any":
        # Keeping a halo, or a whole tile, never adds a transfer, and so never costs anything.
        return tuple(("".join(order), "halo") for order in permutations(ORDERED))
    return tuple(SCHEDULES.values()) if limit == "thesis" else (SCHEDULES[limit],)


@cache
def patterns(limit: str, double_buffering: bool) -> tuple[tuple[frozenset[int], tuple[Pattern, ...]], ...]:
    """Return for every set of loops with a single iteration the patterns worth trying."""
    table = []
    for single in chain.from_iterable(combinations(FREE_DIMENSIONS, size) for size in range(6)):
        found: list[Pattern] = []
        for order, reuse in schedules(limit):
            new = _pattern(order, reuse, frozenset(single), double_buffering)
            if new is None:
                continue
            if not any(known.beats(new) for known in found):
                found = [known for known in found if not new.beats(known)] + [new]
        table.append((frozenset(single), tuple(found)))
    return tuple(table)


def _pattern(order: str, reuse: str, single: frozenset[int], double_buffering: bool) -> Pattern | None:
    """Return what a schedule does, or None where a tile needs what the one before has not written yet."""
    loops = [d for d in (LOOPS.index(name) for name in reversed(order)) if d not in single]
    if double_buffering and reuse == "none" and loops[:1] == [K]:
        return None
    sets = {}
    for operand, relevant in RELEVANT.items():
        moving = [number for number, d in enumerate(loops) if d in relevant]
        inner = moving[0] if moving else len(loops)
        if reuse == "none":
            inner = -1
        sets[operand] = frozenset(d for number, d in enumerate(loops) if number > inner and d not in relevant)
    halo = -1
    if reuse == "halo":
        halo = next((d for d in loops if d in RELEVANT["input"]), -1)
        halo = halo if halo in (Y, X) else -1
    return Pattern(sets["input"], sets["kernels"], sets["output"], halo, order, reuse)


# Accesses ------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The best plan and its value."""

    value: int
    plan: DspPlan


def fewest_accesses(nest: Nest, limit: str = "any", room: int | None = None) -> Found | None:
    """Return a plan with the fewest accesses to external memory, and among those with few transfers.

    None where nothing is feasible, which may happen where only some schedules are allowed.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance.
    room
        Elements for one copy of all buffers; the machine's by default.
    """
    room = nest.machine.room if room is None else room
    ones = frozenset(d for d in FREE_DIMENSIONS if nest.sizes[d] == 1)
    axes: dict[int, _Sums] = {axis: _Sums.of(nest, axis) for axis in (Y, X)}
    best: list[tuple[int, Tile, Pattern, frozenset[int]]] = []
    value = None
    for single, candidates in patterns(limit, nest.machine.double_buffering):
        if not ones <= single:
            continue  # a dimension of size one has a single iteration
        for pattern in candidates:
            found = _best_of_pattern(nest, single, pattern, axes, room, value)
            if found is not None and (value is None or found[0] <= value):
                best = [entry for entry in best if entry[0] == found[0]] + [(*found, pattern, single)]
                value = found[0]
    if value is None:
        return None
    return Found(value, min((_fewest_transfers(nest, entry, room) for entry in best), key=lambda e: e[0])[1])


@dataclass(frozen=True)
class _Sums:
    """Input rows (columns) of all tiles along an axis, for each of its steps."""

    full: Counts
    new: Counts

    @classmethod
    def of(cls, nest: Nest, axis: int) -> _Sums:
        tiles = [nest.axis(axis, int(step)) for step in nest.steps[axis]]
        return cls(np.array([int(t.full.sum()) for t in tiles]), np.array([int(t.new.sum()) for t in tiles]))


def _best_of_pattern(
    nest: Nest,
    single: frozenset[int],
    pattern: Pattern,
    axes: dict[int, _Sums],
    room: int,
    known: int | None,
) -> tuple[int, Tile] | None:
    """Minimise accesses over the tiles of a pattern; None if none fits or none is as good as `known`."""
    used = pattern.input | pattern.kernels | pattern.output
    sums: dict[int, Counts] = {
        axis: axes[axis].new if pattern.halo == axis else axes[axis].full for axis in (Y, X)
    }
    free, counted = set(), []
    for d in FREE_DIMENSIONS:
        if d in single:
            continue
        varies = d in sums and len(set(sums[d][:-1].tolist())) > 1
        if d in used or varies:
            counted.append(d)
        else:
            free.add(d)
    # The loop that takes the largest step that fits: more never costs, but in Y and X, where gaps may lie.
    fitted = max((d for d in counted if d not in (Y, X)), key=lambda d: len(nest.steps[d]), default=None)
    listed = [d for d in counted if d != fitted]
    best: tuple[int, Tile] | None = None
    for block in _blocks([np.arange(len(nest.steps[d]) - 1) for d in listed]):
        found = _best_of_block(
            nest, single, pattern, sums, room, dict(zip(listed, block, strict=True)), fitted
        )
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None or (known is not None and best[0] > known) else best


def _best_of_block(
    nest: Nest,
    single: frozenset[int],
    pattern: Pattern,
    sums: dict[int, Counts],
    room: int,
    listed: dict[int, Counts],
    fitted: int | None,
) -> tuple[int, Tile] | None:
    """Minimise accesses over some steps of the listed loops, the largest that fits of the fitted one."""
    index = dict(zip(listed, np.meshgrid(*listed.values(), indexing="ij"), strict=True))
    shape = next(iter(index.values())).shape if index else (1,)
    step: list[Counts] = [np.ones(1, dtype=np.int64)] * 6
    for d in FREE_DIMENSIONS:
        if d in single:
            step[d] = np.full(1, nest.sizes[d])
        elif d in index:
            step[d] = nest.steps[d][index[d]]
    (sy, sx), (ey, ex) = nest.layer.stride, nest.layer.kernel_extent
    plane = ((step[Y] - 1) * sy + ey) * ((step[X] - 1) * sx + ex)
    area = step[Y] * step[X]
    if fitted is not None:
        one = {d: 1 if d == fitted else step[d] for d in (N, C, K)}
        parts = (  # elements of each buffer, with a step of one in the fitted loop; whether they grow with it
            (one[N] * one[K] * plane, fitted in (N, K)),
            (one[C] * one[K] * nest.window, fitted in (C, K)),
            (one[N] * one[C] * area, fitted in (N, C)),
        )
        fixed = sum(size for size, grows in parts if not grows)
        growing = sum(size for size, grows in parts if grows)
        most = np.broadcast_to((room - fixed) // growing, shape)
        choice = np.searchsorted(nest.steps[fitted][:-1], most, side="right") - 1
        step[fitted] = nest.steps[fitted][np.maximum(choice, 0)]
        fits = choice >= 0
    else:
        need = step[N] * step[K] * plane + step[C] * step[K] * nest.window + step[N] * step[C] * area
        fits = np.broadcast_to(need <= room, shape)
    if not fits.any():
        return None
    trips: dict[int, Counts] = {d: -(-nest.sizes[d] // step[d]) for d in FREE_DIMENSIONS}

    def times(loops: frozenset[int]) -> Counts:
        result = np.ones(1, dtype=np.int64)
        for d in loops:
            result = result * trips[d]
        return result

    covered: Any = 1
    for axis in (Y, X):
        covered = covered * (
            sums[axis][index[axis]] if axis in index else sums[axis][-1 if axis in single else 0]
        )
    accesses = (
        nest.layer.batch * nest.layer.input[0] * covered * times(pattern.input)
        + nest.n_weights * times(pattern.kernels)
        + nest.n_outputs * (2 * times(pattern.output) - 1)
    )
    accesses = np.where(fits, np.broadcast_to(accesses, shape), np.iinfo(np.int64).max)
    at = int(accesses.argmin())
    value = int(accesses.flat[at])
    if not fits.flat[at]:
        return None
    return value, tuple(int(np.broadcast_to(s, shape).flat[at]) for s in step)


def _fewest_transfers(
    nest: Nest, entry: tuple[int, Tile, Pattern, frozenset[int]], room: int
) -> tuple[tuple[int, int], DspPlan]:
    """Enlarge the loops that multiply nothing, groups included, where that saves transfers only."""
    value, tile, pattern, single = entry
    used = pattern.input | pattern.kernels | pattern.output | single
    loose = [d for d in (G, *FREE_DIMENSIONS) if d == G or (d not in used and tile[d] == 1)]
    lists = [nest.steps[d] if d in loose else np.array([tile[d]]) for d in range(6)]
    tiles = Tiles(nest, tuple(grid.ravel() for grid in np.meshgrid(*lists, indexing="ij")))
    traffic = tiles.traffic(pattern.order, pattern.reuse)
    good = (traffic.accesses == value) & (tiles.need <= room)
    rank = np.where(good, traffic.transfers, np.iinfo(np.int64).max)
    fewest = int(rank.min())
    need = np.where(rank == fewest, tiles.need, np.iinfo(np.int64).max)
    at = int(need.argmin())
    chosen = tuple(int(step[at]) for step in tiles.steps)
    return (fewest, int(need[at])), DspPlan(chosen, pattern.order, pattern.reuse)  # type: ignore[arg-type]


# Cycles, energy and their trade-offs ---------------------------------------------------------------


@dataclass(frozen=True)
class _Family:
    """Tiles that fit and whose loops of a single iteration are the same.

    Attributes
    ----------
    accesses, transfers : int, shape (patterns, tiles)
    """

    tiles: Tiles
    accesses: Counts
    transfers: Counts

    def steps(self, which: Counts) -> Counts:
        """Return the steps of some tiles, shape (6, tiles)."""
        return np.stack([step[which] for step in self.tiles.steps])


def families(nest: Nest, limit: str, deadline: float, most_tiles: Callable[[], float]) -> Iterator[_Family]:
    """Iterate over all tiles that fit, in families of a limited size; end early when the deadline passes.

    Parameters
    ----------
    most_tiles
        Tells, before each family, how many tiles a plan may have that is still of interest.
    """
    # Few loops of several iterations are few tiles, and soon tell how many can be of interest.
    for single, candidates in reversed(patterns(limit, nest.machine.double_buffering)):
        if not candidates or any(nest.sizes[d] == 1 and d not in single for d in FREE_DIMENSIONS):
            continue
        lists = [
            nest.steps[d] if d == G else nest.steps[d][-1:] if d in single else nest.steps[d][:-1]
            for d in range(6)
        ]
        for block in _blocks(lists):
            if time.monotonic() > deadline:
                return
            steps = _fitting(nest, block, most_tiles())
            if not len(steps[0]):
                continue
            tiles = Tiles(nest, steps)
            traffic = [tiles.traffic(pattern.order, pattern.reuse) for pattern in candidates]
            yield _Family(
                tiles,
                np.stack([np.broadcast_to(t.accesses, steps[0].shape) for t in traffic]),
                np.stack([np.broadcast_to(t.transfers, steps[0].shape) for t in traffic]),
            )


def _blocks(lists: list[Counts]) -> Iterator[list[Counts]]:
    """Halve the longest list until the lists have few enough combinations."""
    if prod(len(values) for values in lists) <= MAX_BLOCK:
        yield lists
        return
    longest = max(range(len(lists)), key=lambda d: len(lists[d]))
    middle = len(lists[longest]) // 2
    for half in (lists[longest][:middle], lists[longest][middle:]):
        yield from _blocks([half if d == longest else values for d, values in enumerate(lists)])


def _fitting(nest: Nest, lists: list[Counts], most_tiles: float) -> tuple[Counts, ...]:
    """Return the steps of all tiles that fit and are not too many, loop by loop so that few are looked at."""
    steps = [values[:1] for values in lists]
    fewest_trips = [-(-size // int(values[-1])) for size, values in zip(nest.sizes, lists, strict=True)]
    tiles = np.full(1, prod(fewest_trips))
    for d in (K, C, G, N, X, Y):
        rows = [np.repeat(step, len(lists[d])) for step in steps]
        rows[d] = np.tile(lists[d], len(steps[d]))
        # What is not chosen yet has the fewest iterations here, and the smallest step in the memory.
        tiles = np.repeat(tiles // fewest_trips[d], len(lists[d])) * -(-nest.sizes[d] // rows[d])
        good = np.flatnonzero((tiles <= most_tiles) & (Tiles(nest, tuple(rows)).need <= nest.machine.room))
        steps, tiles = [row[good] for row in rows], tiles[good]
    return tuple(steps)


def _most_tiles(nest: Nest, minimise: str, value: int) -> float:
    """Return how many tiles a plan can have whose cycles or energy are not above a value.

    The core computes, and sets up every transfer: three for the first tile, and after that at least two for
    each, one where the input's new part may be nothing but padding (docs/tiling-bounds.md).
    """
    machine = nest.machine
    setup, each = machine.dma_setup_cycles, 1 if machine.padding == "generated" else 2
    cycles = float(value)
    if minimise == "energy":
        price = machine.energy
        moved = nest.compulsory * machine.element_bytes * price.dram_fj_per_access / price.dram_access_bytes
        cycles = (cycles - moved) / price.core_fj_per_cycle if price.core_fj_per_cycle else inf
    if not setup or cycles == inf:
        return inf
    transfers = (cycles - nest.macs / machine.macs_per_cycle) / setup
    return (transfers - 3) / each + 1 + 1e-6 * abs(transfers) + 1


class Point(NamedTuple):
    """A trade-off: cycles, accesses to external memory, and a plan with both."""

    cycles: int
    accesses: int
    plan: DspPlan


def fewest(
    nest: Nest, minimise: str, limit: str, local: int, deadline: float = float("inf")
) -> tuple[Found | None, bool]:
    """Return a plan with the fewest cycles or the least energy, and whether that is proven.

    It is None, and that is proven, where nothing is feasible.

    Parameters
    ----------
    minimise : {"cycles", "energy"}
    local
        Elements of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which the best plan so far is returned without proof.
    """
    start = fewest_accesses(nest, limit)
    if start is None:
        return None, True
    best = Found(measure(nest, start.plan, minimise, local), start.plan)

    def look(tile: Tile) -> None:
        nonlocal best
        for way in _ways(nest, tile, limit, local):
            if way.bound(minimise) < best.value:
                found = [Found(measure(nest, plan, minimise, local), plan) for plan in way.plans]
                best = min([best, *found], key=lambda found: found.value)

    open_: list[tuple[Counts, Counts]] = []
    for family in families(nest, limit, deadline, lambda: _most_tiles(nest, minimise, best.value)):
        least = _bound(family.tiles, family.accesses, family.transfers, minimise, local).min(axis=0)
        if least.min() < best.value:
            look(_tile(family.steps(least.argmin(keepdims=True)), 0))
        kept = np.flatnonzero(least < best.value)
        open_.append((least[kept], family.steps(kept)))
    if not open_:
        return best, time.monotonic() <= deadline
    bounds = np.concatenate([bound for bound, _ in open_])
    steps = np.concatenate([step for _, step in open_], axis=1)
    for entry in _ascending(bounds):
        if bounds[entry] >= best.value:
            break
        if time.monotonic() > deadline:
            return best, False
        look(_tile(steps, entry))
    return best, time.monotonic() <= deadline


def _tile(steps: Counts, number: int) -> Tile:
    return tuple(int(step) for step in steps[:, number])


def measure(nest: Nest, plan: DspPlan, minimise: str, local: int) -> int:
    """Return what a plan costs: cycles, femtojoules, or accesses."""
    total = duration(nest, plan, local)
    if minimise == "energy":
        return energy(nest, total.accesses, total.compute + total.setup, total.streamed)
    return total.cycles if minimise in ("cycles", "pareto") else total.accesses


def energy(nest: Nest, accesses: int, busy: int, streamed: int) -> int:
    """Femtojoules of external accesses, busy cycles of the core and local accesses (table 7.9, eq. 7.2)."""
    price, size = nest.machine.energy, nest.machine.element_bytes
    dram = -(-accesses * size * price.dram_fj_per_access // price.dram_access_bytes)
    local = -(-streamed * size * price.local_fj_per_access // price.local_access_bytes)
    return dram + price.core_fj_per_cycle * busy + local


def _ascending(values: Counts) -> Iterator[int]:
    """Iterate over indices by ascending value, sorting only as many as are asked for."""
    left = np.arange(len(values))
    while len(left):
        size = min(len(left), 256)
        part = np.argpartition(values[left], size - 1) if size < len(left) else np.arange(len(left))
        first = left[part[:size]]
        yield from first[np.argsort(values[first], kind="stable")].tolist()
        left = left[part[size:]]


def _bound(tiles: Tiles, accesses: Counts, transfers: Counts, minimise: str, local: int) -> Counts:
    """Bound cycles or energy from below, given accesses and transfers.

    The first loads and the last write stand alone; in between, core and bus each have their work to do.
    """
    nest, machine = tiles.nest, tiles.nest.machine
    bus, setup = machine.bus_elements_per_cycle, machine.dma_setup_cycles
    compute = -(-nest.macs // machine.macs_per_cycle)
    if minimise == "energy":
        price, size = machine.energy, machine.element_bytes
        streams = local * size * price.local_fj_per_access // price.local_access_bytes
        # In floating point, since the product may not fit into 64 bits before it is divided.
        each = size * price.dram_fj_per_access / price.dram_access_bytes
        dram = np.floor(accesses * (each * (1 - 1e-9))).astype(np.int64)
        return np.asarray(dram + price.core_fj_per_cycle * (compute + setup * transfers) + streams)
    if not machine.double_buffering:
        return np.asarray(setup * transfers + -(-accesses // bus) + max(compute, -(-local // bus)))
    g, n, c, _, _, k = tiles.steps
    first = tiles.first_plane * g * n * k
    weights = g * c * k * nest.window
    last: Any = 1
    for d in (G, N, C, Y, X):
        last = last * (nest.sizes[d] - (tiles.trips[d] - 1) * tiles.steps[d])
    # Every full tile of weights comes at least once, and what is left of its last bus cycle is lost.
    whole: Any = 1
    for d in (G, C, K):
        whole = whole * (nest.sizes[d] // tiles.steps[d])
    lost = (whole - 1) * (-weights % bus)
    ends = 3 * setup + -(-first // bus) + -(-weights // bus) + -(-last // bus)
    middle = np.maximum(
        compute + setup * (transfers - 3), -(-(accesses - first - weights - last + local + lost) // bus)
    )
    return np.asarray(ends + middle)


@dataclass(frozen=True)
class _Way:
    """All orders of one tile that move the same; `bound` holds for each of them."""

    nest: Nest
    tiles: Tiles
    accesses: int
    transfers: int
    local: int
    plans: tuple[DspPlan, ...]

    def bound(self, minimise: str) -> int:
        moved = np.array([self.accesses]), np.array([self.transfers])
        return int(_bound(self.tiles, *moved, minimise, self.local)[0])


def _ways(nest: Nest, tile: Tile, limit: str, local: int) -> Iterator[_Way]:
    """Iterate over the schedules of one tile, those that move the same together, promising ones first."""
    tiles = Tiles(nest, tuple(np.array([step]) for step in tile))
    single = frozenset(d for d in FREE_DIMENSIONS if tiles.trips[d][0] == 1)
    ways = []
    for alike in _alike(limit, single, nest.machine.double_buffering):
        traffic = tiles.traffic(*alike[0])
        plans = tuple(DspPlan(tile, order, reuse) for order, reuse in alike)  # type: ignore[arg-type]
        ways.append(_Way(nest, tiles, int(traffic.accesses[0]), int(traffic.transfers[0]), local, plans))
    yield from sorted(ways, key=lambda way: (way.accesses, way.transfers))


@cache
def _alike(
    limit: str, single: frozenset[int], double_buffering: bool
) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return schedules that differ in the loops of several iterations, those that move the same together."""
    known: dict[tuple[object, ...], dict[str, tuple[str, str]]] = {}
    for order, reuse in schedules(limit):
        pattern = _pattern(order, reuse, single, double_buffering)
        if pattern is None:
            continue
        shown = "".join(loop for loop in order if LOOPS.index(loop) not in single) + reuse
        known.setdefault(pattern[:4], {}).setdefault(shown, (order, reuse))
    return tuple(tuple(orders.values()) for orders in known.values())


def pareto_front(
    nest: Nest, limit: str, local: int, deadline: float = float("inf")
) -> tuple[tuple[Point, ...], bool]:
    """Return every trade-off of cycles and accesses, fastest first, and whether they are proven to be all.

    The front is that of equation 5.24 in the thesis. Of plans that agree in both numbers one is returned.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which what was found is returned without proof.
    """
    start = fewest_accesses(nest, limit)
    if start is None:
        return (), True
    # What takes longer than the plan with the fewest accesses is of no interest.
    slowest = duration(nest, start.plan, local).cycles
    front = [Point(slowest, start.value, start.plan)]
    seen: set[Tile] = set()

    def beaten(moved: int, cycles: int) -> bool:
        return any(p.accesses <= moved and p.cycles <= cycles for p in front)

    def look(tile: Tile) -> None:
        if tile in seen:
            return
        seen.add(tile)
        for way in _ways(nest, tile, limit, local):
            if beaten(way.accesses, way.bound("cycles")):
                continue
            for plan in way.plans:
                cycles = duration(nest, plan, local).cycles
                if not beaten(way.accesses, cycles):
                    front[:] = [p for p in front if not (p.accesses >= way.accesses and p.cycles >= cycles)]
                    front.append(Point(cycles, way.accesses, plan))

    open_: list[tuple[Counts, Counts, Counts]] = []
    for family in families(nest, limit, deadline, lambda: _most_tiles(nest, "cycles", slowest)):
        bounds = _bound(family.tiles, family.accesses, family.transfers, "cycles", local)
        for table in (bounds, family.accesses):
            look(_tile(family.steps(np.array([table.argmin() % table.shape[1]])), 0))
        entry = np.flatnonzero(_unbeaten(front, family.accesses.ravel(), bounds.ravel()))
        steps = family.steps(entry % bounds.shape[1])
        open_.append((family.accesses.ravel()[entry], bounds.ravel()[entry], steps))
    if not open_:
        return tuple(front), time.monotonic() <= deadline
    accesses, least, steps = (np.concatenate(columns, axis=-1) for columns in zip(*open_, strict=True))

    def look_at(entries: Counts) -> bool:
        """Look at tiles until the deadline passes."""
        for entry in entries.tolist():
            if time.monotonic() > deadline:
                return False
            if not beaten(int(accesses[entry]), int(least[entry])):
                look(_tile(steps, entry))
        return True

    # The front of the bounds first: its plans rule out nearly everything else.
    order = np.lexsort((accesses, least))
    complete = look_at(order[np.flatnonzero(_improves(accesses[order]))])
    rest = np.flatnonzero(_unbeaten(front, accesses, least))
    complete = complete and look_at(rest[np.argsort(least[rest], kind="stable")])
    return tuple(sorted(front)), complete and time.monotonic() <= deadline


def _unbeaten(front: list[Point], accesses: Counts, cycles: Counts) -> NDArray[np.bool_]:
    """Whether no point of a front has as few accesses and as few cycles."""
    if not front:
        return np.ones(len(accesses), dtype=bool)
    steps = sorted((point.accesses, point.cycles) for point in front)
    moved, fewest = np.array([step[0] for step in steps]), np.array([step[1] for step in steps])
    at = np.searchsorted(moved, accesses, side="right") - 1
    return (at < 0) | (cycles < fewest[np.maximum(at, 0)])


def _improves(values: Counts) -> NDArray[np.bool_]:
    """Whether a value is below all before it."""
    lowest = np.minimum.accumulate(values)
    return np.concatenate([np.ones(min(1, len(values)), dtype=bool), values[1:] < lowest[:-1]])


def local_traffic(nest: Nest) -> int:
    """Elements between on-chip memory and registers in all, a best case (section 5.4).

    It is what the thesis's schedules would move if the register file were the on-chip memory; 0 where the
    machine gives no register file.
    """
    machine = nest.machine
    if not machine.register_file_bytes:
        return 0
    found = fewest_accesses(nest, "thesis", machine.register_file_bytes // machine.element_bytes)
    assert found is not None  # one tile of the smallest kind fits: `DspMachine.check`
    return found.value
