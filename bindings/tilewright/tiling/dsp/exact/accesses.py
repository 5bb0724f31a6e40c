"""Fewest accesses, minimised per *pattern*: which loops have a single iteration.

Within a pattern each operand is brought once for every iteration of a fixed set of loops, so loops that
multiply nothing get the smallest step, one loop gets the largest that fits, and only the others are
enumerated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.arrays import distinct
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp.exact.families import Family, blocks
from tilewright.tiling.dsp.exact.params import PARAMS
from tilewright.tiling.dsp.exact.patterns import Pattern, patterns
from tilewright.tiling.dsp.machine import MAX_BYTES, DspMachine
from tilewright.tiling.dsp.nest import FREE, C, Counts, G, K, N, Nest, Tile, X, Y, nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles


class BestPlan(NamedTuple):
    """The best plan and its value."""

    value: int
    plan: DspPlan


def fewest_accesses(
    nest: Nest, limit: str = "any", capacity: int | None = None, deadline: float = float("inf")
) -> BestPlan | None:
    """Return a plan with the fewest accesses to external memory, and among those with few transfers.

    None where nothing is feasible, which may happen where only some schedules are allowed.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance.
    capacity
        Units for one copy of all buffers; the machine's by default.
    deadline
        ``time.monotonic()`` after which the best plan so far is returned, which need not be the optimum.

    Raises
    ------
    OutOfTimeError
        If no plan is known a moment after the deadline.
    """
    capacity = nest.machine.buffer_capacity if capacity is None else capacity
    axes: dict[int, _Sums] = {axis: _Sums.of(nest, axis) for axis in (Y, X)}
    best: list[_Candidate] = []
    for number, single, pattern, least in _promising(nest, limit, axes, capacity):
        if best and (least > best[0].value or time.monotonic() > deadline):
            break
        known = best[0].value if best else None
        tile = _PatternSearch(nest, single, pattern, axes, capacity).best(deadline, known)
        if tile is None:
            continue
        best = [entry for entry in best if entry.value == tile.value]
        best.append(_Candidate(tile.value, tile.steps, pattern, single, number))
    if not best:
        return None
    best.sort(key=lambda candidate: candidate.number)  # Of plans as good the first one counts.
    plans = (_fewest_transfers(nest, candidate, capacity) for candidate in best)
    return BestPlan(best[0].value, min(plans, key=lambda entry: entry[0])[1])


def families_of_fewest(nest: Nest, limit: str, value: int, deadline: float) -> Iterator[Family]:
    """Iterate over all tiles with the fewest accesses, in families; end early when the deadline passes."""
    axes: dict[int, _Sums] = {axis: _Sums.of(nest, axis) for axis in (Y, X)}
    capacity = nest.machine.buffer_capacity
    found: dict[frozenset[int], list[Counts]] = {}
    for _, single, pattern, least in _promising(nest, limit, axes, capacity):
        if least <= value and not pattern.resident:
            search = _PatternSearch(nest, single, pattern, axes, capacity)
            found.setdefault(single, []).extend(search.equal(value, deadline))
    for single, parts in found.items():
        if any(part.size for part in parts):
            steps = distinct(np.concatenate(parts, axis=1), axis=1)
            yield Family.of(nest, tuple(steps), dict(patterns(limit, nest.machine.double_buffering))[single])


class _BestTile(NamedTuple):
    """The steps of a tile with the fewest accesses, and those."""

    value: int
    steps: Tile


class _Candidate(NamedTuple):
    """A tile with the fewest accesses so far, and the pattern that it has them with."""

    value: int
    steps: Tile
    pattern: Pattern
    single: frozenset[int]
    number: int


@dataclass(frozen=True)
class _Sums:
    """Input rows (columns) of all tiles along an axis, for each of its steps."""

    full: Counts
    new: Counts

    @classmethod
    def of(cls, nest: Nest, axis: int) -> _Sums:
        tiles = [nest.axis(axis, int(step)) for step in nest.steps[axis]]
        return cls(np.array([int(t.full.sum()) for t in tiles]), np.array([int(t.new.sum()) for t in tiles]))


class _PatternTable:
    """All patterns, as arrays with one row per pattern and one column per dimension.

    Attributes
    ----------
    patterns
        The loops of a single iteration, and the pattern.
    single, input, kernels, output, halo
        Which loops have a single iteration, which multiply the operand, and along which a halo stays.
    resident
        Whether all weights of a group stay.
    """

    def __init__(self, limit: str, double_buffering: bool) -> None:
        table = patterns(limit, double_buffering)
        self.patterns = [(single, pattern) for single, candidates in table for pattern in candidates]

        def marks(of: Callable[[frozenset[int], Pattern], Collection[int]]) -> NDArray[np.bool_]:
            rows = [[d in of(*entry) for d in range(6)] for entry in self.patterns]
            return np.array(rows, dtype=np.bool_).reshape(-1, 6)

        self.single = marks(lambda single, pattern: single)
        self.input = marks(lambda single, pattern: pattern.input)
        self.kernels = marks(lambda single, pattern: pattern.kernels)
        self.output = marks(lambda single, pattern: pattern.output)
        self.halo = marks(lambda single, pattern: (pattern.halo,))
        self.resident = np.array([pattern.resident for _, pattern in self.patterns])


@cache
def _table(limit: str, double_buffering: bool) -> _PatternTable:
    return _PatternTable(limit, double_buffering)


def _promising(
    nest: Nest, limit: str, axes: dict[int, _Sums], capacity: int
) -> list[tuple[int, frozenset[int], Pattern, int]]:
    """Return the patterns that have a tile which fits, with a lower bound on accesses, ascending.

    No step of a loop is larger than the one that fits with the smallest steps of the others, so a loop has at
    least as many iterations as with that.
    """
    table = _table(limit, nest.machine.double_buffering)
    sizes = np.array(nest.sizes)
    least = np.where(table.single, sizes, 1)
    least[:, G] = 1
    need = _need(nest, least, table)
    trips = np.ones_like(least)
    for d in FREE:
        larger = least.copy()
        larger[:, d] += 1
        step = np.clip(1 + (capacity - need) // (_need(nest, larger, table) - need), 1, sizes[d])
        trips[:, d] = np.where(table.single[:, d], 1, np.maximum(2, -(-sizes[d] // step)))

    def times(loops: NDArray[np.bool_]) -> Counts:
        return np.asarray(np.where(loops, trips, 1).prod(axis=1))

    covered = np.full(len(least), nest.layer.batch * nest.layer.input[0])
    for axis, sums in axes.items():
        once = np.where(table.halo[:, axis], sums.new[-1], sums.full[-1])
        # With a single step there is no other choice.
        several = np.where(
            table.halo[:, axis],
            sums.new[:-1].min(initial=sums.new[0]),
            sums.full[:-1].min(initial=sums.full[0]),
        )
        covered = covered * np.where(table.single[:, axis], once, several)
    bound = _moved(nest, covered, times(table.input), times(table.kernels), times(table.output))
    # A dimension of size one has a single iteration.
    possible = (need <= capacity) & (table.single | (sizes > 1))[:, list(FREE)].all(axis=1)
    order = np.flatnonzero(possible)
    order = order[np.argsort(bound[order], kind="stable")]
    return [(number, *table.patterns[number], int(bound[number])) for number in order.tolist()]


def _need(nest: Nest, step: Counts, table: _PatternTable) -> Counts:
    """Return the units of all buffers with one group, for steps of shape ``(patterns, 6)``."""
    _, n, c, y, x, k = step.T
    units = nest.machine.units
    kernels = np.where(table.resident, nest.group_weights, c * k * nest.window)
    outputs = n * c * y * x * np.where(table.single[:, K], units.output, units.partial)
    return np.asarray(n * k * nest.plane(y, x) * units.input + kernels * units.kernels + outputs)


def _moved(nest: Nest, covered: Any, input: Counts, kernels: Counts, output: Counts) -> Any:
    """Return the accesses, given how often operands are brought and elements under all tiles of a plane."""
    units = nest.machine.units
    sums = 2 * nest.n_outputs * units.partial * (output - 1)
    loaded = nest.n_weights * units.kernels * kernels + covered * units.input * input
    return loaded + sums + nest.n_outputs * units.output


class _PatternSearch:
    """The tiles of one pattern.

    Parameters
    ----------
    single
        Loops of a single iteration.
    axes
        Input rows and columns of all tiles, for every step along Y and X.
    capacity
        Units for one copy of all buffers.
    """

    def __init__(
        self, nest: Nest, single: frozenset[int], pattern: Pattern, axes: dict[int, _Sums], capacity: int
    ) -> None:
        self.nest, self.single, self.pattern, self.capacity = nest, single, pattern, capacity
        self.sums: dict[int, Counts] = {
            axis: axes[axis].new if pattern.halo == axis else axes[axis].full for axis in (Y, X)
        }
        counted = [d for d in FREE if d not in single and (d in pattern.repeating or self._varies(d))]
        # It takes the largest step that fits: more never costs, but in Y and X, where gaps may lie.
        self.fitted = max(
            (d for d in counted if d not in (Y, X)), key=lambda d: len(nest.steps[d]), default=None
        )
        self.listed = [d for d in counted if d != self.fitted]

    def _varies(self, d: int) -> bool:
        """Whether the input under all tiles along Y or X depends on the step."""
        return d in self.sums and len(set(self.sums[d][:-1].tolist())) > 1

    def best(self, deadline: float, known: int | None) -> _BestTile | None:
        """Return the tile with the fewest accesses, None if none fits or none has as few as are known."""
        best: _BestTile | None = None
        for block in blocks([np.arange(len(self.nest.steps[d]) - 1) for d in self.listed]):
            if time.monotonic() > deadline + (PARAMS.patience if known is None else 0.0):
                if known is None:
                    raise OutOfTimeError
                break
            tile = self._best_of_block(dict(zip(self.listed, block, strict=True)), known)
            if tile is not None and (best is None or tile.value < best.value):
                best, known = tile, tile.value
        return best

    def equal(self, value: int, deadline: float) -> Iterator[Counts]:
        """Yield all tiles with so many accesses, the fewest, shape (6, tiles); end at the deadline."""
        used = {*self.single, *self.listed, self.fitted}
        loose = [d for d in (G, *FREE) if d not in used]
        for block in blocks([np.arange(len(self.nest.steps[d]) - 1) for d in self.listed]):
            if time.monotonic() > deadline:
                return
            step, accesses, fits = self._block(dict(zip(self.listed, block, strict=True)))
            alike = np.flatnonzero(fits & (accesses == value))
            rows = [np.broadcast_to(s, fits.shape).ravel()[alike] for s in step]
            for d in loose:
                sizes = self.nest.steps[d] if d == G else self.nest.steps[d][:-1]
                rows = [np.repeat(row, len(sizes)) for row in rows]
                rows[d] = np.tile(sizes, len(rows[d]) // len(sizes))
                good = Tiles(self.nest, tuple(rows)).need <= self.capacity
                rows = [row[good] for row in rows]
            yield np.stack(rows)

    def _best_of_block(self, listed: dict[int, Counts], known: int | None) -> _BestTile | None:
        """Minimise accesses over some steps of the listed loops, the largest that fits of the fitted one."""
        step, accesses, fits = self._block(listed)
        if not fits.any():
            return None
        accesses = np.where(fits, accesses, np.iinfo(np.int64).max)
        at = int(accesses.argmin())
        if not fits.flat[at] or (known is not None and accesses.flat[at] > known):
            return None
        steps = tuple(int(np.broadcast_to(s, fits.shape).flat[at]) for s in step)
        return _BestTile(int(accesses.flat[at]), steps)

    def _block(self, listed: dict[int, Counts]) -> tuple[list[Counts], Counts, NDArray[np.bool_]]:
        """Return tiles of some steps of the listed loops, their accesses, and whether they fit."""
        nest = self.nest
        index = dict(zip(listed, np.meshgrid(*listed.values(), indexing="ij"), strict=True))
        shape = next(iter(index.values())).shape if index else (1,)
        step: list[Counts] = [np.ones(1, dtype=np.int64)] * 6
        for d in FREE:
            if d in self.single:
                step[d] = np.full(1, nest.sizes[d])
            elif d in index:
                step[d] = nest.steps[d][index[d]]
        fits = self._fit(step, shape)
        return step, np.broadcast_to(self._accesses(step, index), shape), fits

    def _fit(self, step: list[Counts], shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Set the step of the fitted loop to the largest that fits; return which tiles do fit."""
        nest, fitted = self.nest, self.fitted
        plane = nest.plane(step[Y], step[X])
        area = step[Y] * step[X]
        resident = self.pattern.resident
        width = nest.machine.units.held(complete=K in self.single)
        plane, area = plane * width["input"], area * width["output"]
        group, window = nest.group_weights * width["kernels"], nest.window * width["kernels"]
        if fitted is None:
            kernels = group if resident else step[C] * step[K] * window
            need = step[N] * step[K] * plane + kernels + step[N] * step[C] * area
            return np.broadcast_to(need <= self.capacity, shape)
        one = {d: 1 if d == fitted else step[d] for d in (N, C, K)}
        parts = (  # units of each buffer, with a step of one in the fitted loop; whether they grow with it
            (one[N] * one[K] * plane, fitted in (N, K)),
            (group, False) if resident else (one[C] * one[K] * window, fitted in (C, K)),
            (one[N] * one[C] * area, fitted in (N, C)),
        )
        fixed = sum(size for size, grows in parts if not grows)
        growing = sum(size for size, grows in parts if grows)
        largest = np.broadcast_to((self.capacity - fixed) // growing, shape)
        choice = np.searchsorted(nest.steps[fitted][:-1], largest, side="right") - 1
        step[fitted] = nest.steps[fitted][np.maximum(choice, 0)]
        return np.asarray(choice >= 0)

    def _accesses(self, step: list[Counts], index: dict[int, Counts]) -> Any:
        """Return the accesses of tiles, given the numbers of the listed loops' steps."""
        nest, pattern = self.nest, self.pattern
        trips: dict[int, Counts] = {d: -(-nest.sizes[d] // step[d]) for d in FREE}

        def times(loops: frozenset[int]) -> Counts:
            result = np.ones(1, dtype=np.int64)
            for d in loops:
                result = result * trips[d]
            return result

        covered: Any = 1
        for axis in (Y, X):
            sums = self.sums[axis]
            covered = covered * (
                sums[index[axis]] if axis in index else sums[-1 if axis in self.single else 0]
            )
        covered = nest.layer.batch * nest.layer.input[0] * covered
        return _moved(nest, covered, times(pattern.input), times(pattern.kernels), times(pattern.output))


def _fewest_transfers(nest: Nest, candidate: _Candidate, capacity: int) -> tuple[tuple[int, int], DspPlan]:
    """Enlarge the loops that multiply nothing, groups included, where that saves transfers only."""
    value, tile, pattern, single, _ = candidate
    used = pattern.repeating | single
    loose = [d for d in (G, *FREE) if d == G or (d not in used and tile[d] == 1)]
    lists = [nest.steps[d] if d in loose else np.array([tile[d]]) for d in range(6)]
    tiles = Tiles(nest, tuple(grid.ravel() for grid in np.meshgrid(*lists, indexing="ij")))
    traffic = tiles.traffic(pattern.order, pattern.reuse)
    needed = tiles.needed(pattern.reuse)
    good = (traffic.accesses == value) & (needed <= capacity)
    rank = np.where(good, traffic.transfers, np.iinfo(np.int64).max)
    cheapest = int(rank.min())
    need = np.where(rank == cheapest, needed, np.iinfo(np.int64).max)
    at = int(need.argmin())
    chosen = tuple(int(step[at]) for step in tiles.steps)
    return (cheapest, int(need[at])), DspPlan(chosen, pattern.order, pattern.reuse)


def local_traffic(nest: Nest) -> int:
    """Return the units that a layer moves between on-chip memory and registers, a best case (section 5.4).

    It is what the thesis's schedules would move if the register file were the on-chip memory, whatever size
    that has; 0 where the machine gives no register file.
    """
    if not nest.machine.register_file_bytes or nest.machine.vector_unit is not None:
        return 0
    return _local_traffic(nest.layer, nest.machine.with_(memory_bytes=MAX_BYTES))


@lru_cache(maxsize=256)
def _local_traffic(layer: Layer, machine: DspMachine) -> int:
    found = fewest_accesses(nest_of(layer, machine), "thesis", machine.register_file)
    assert found is not None  # one tile of the smallest kind fits: `DspMachine.check`
    return found.value
