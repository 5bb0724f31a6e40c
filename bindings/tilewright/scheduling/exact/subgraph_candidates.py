"""All sets of operations that may be a subgraph, and what each costs at least, whatever is beside it."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.bounds import least_compute
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import LONGEST, Structure, sinks

MOST_MEMBERS = 20_000_000
"""Sets times operations of the graph, beyond which the search gives up."""

SEEN = 4
"""So many times as many sets are looked at, most of which have no common grid."""

AT_A_TIME = 1 << 14

ROUNDING = 1e-12
"""Relative error that floating point is allowed, far more than it makes."""

EXACT = 2**53
"""Whole numbers below are exact in floating point."""

OFTEN = 2
"""Bounds of a set that are asked for before it is priced exactly."""


Floats = NDArray[np.float64]


def connected_sets(
    problem: Problem, most: int | None = None, deadline: float = float("inf"), seen: int | None = None
) -> list[int] | None:
    """Return all connected sets of operations with one grid, as bits; None where they are too many.

    At most `seen` sets are looked at for these.

    Left out are sets in which a Pointwise operation feeds a MatMul that is too deep for any tile: adding
    operations does not help them.
    """
    graph, flow = problem.graph, problem.limits.connected == "flow"
    count = len(graph.inputs)
    most = MOST_MEMBERS // count if most is None else most
    seen = SEEN * MOST_MEMBERS // count if seen is None else seen
    near, bad = [0] * count, [0] * count
    for tensor in range(len(graph.widths)):
        maker = graph.maker.get(tensor)
        readers = graph.readers.get(tensor, ())
        touching = [*readers, *(() if maker is None else (maker,))]
        for one in touching:
            if flow:
                others = readers if one == maker else () if maker is None else (maker,)
            else:
                others = tuple(touching)
            for other in others:
                if other != one:
                    near[one] |= 1 << other
                    near[other] |= 1 << one
        if maker is not None and graph.op_types[maker] == "Pointwise":
            for reader in readers:
                if graph.op_types[reader] == "MatMul" and _too_deep(graph, tensor, reader):
                    bad[maker] |= 1 << reader
                    bad[reader] |= 1 << maker
    fitting: list[int] = []
    found: list[int] = []
    looked = 0
    for start in range(count):
        before = (1 << start) - 1
        stack = [(1 << start, near[start] & ~before & ~bad[start], before | bad[start])]
        while stack:
            ops, border, barred = stack.pop()
            found.append(ops)
            if len(found) == AT_A_TIME:
                fitting += on_one_grid(graph, found)
                looked += len(found)
                found = []
                if len(fitting) > most or looked > seen or time.monotonic() > deadline:
                    return None
            while border:
                bit = border & -border
                border ^= bit
                op = bit.bit_length() - 1
                barred |= bit
                if bad[op] & ops:
                    continue
                wider = (border | near[op]) & ~barred & ~ops & ~bad[op]
                stack.append((ops | bit, wider, barred | bad[op]))
    fitting += on_one_grid(graph, found)
    return fitting if len(fitting) <= most and looked + len(found) <= seen else None


def _ranges(most: int) -> list[tuple[int, int]]:
    """Return ranges of sizes, from the least to the largest of each, that cover all from 1 on."""
    found = []
    while most:
        least = min(most, most * 3 // 4 + 1)
        found.append((least, most))
        most = least - 1
    return found


def members(bits: list[int], count: int) -> NDArray[np.bool_]:
    """Return a table that tells which of so many operations are in which set."""
    length = -(-count // 8)
    packed = np.frombuffer(b"".join(one.to_bytes(length, "little") for one in bits), dtype=np.uint8)
    return np.unpackbits(packed.reshape(-1, length), axis=1, count=count, bitorder="little").astype(np.bool_)


def on_one_grid(graph: Graph, bits: list[int]) -> list[int]:
    """Return the sets whose outputs all have the same size."""
    has = members(bits, len(graph.inputs))
    there: dict[tuple[int, int], NDArray[np.bool_]] = {}
    for op, tensor in enumerate(graph.made):
        ends = has[:, op].copy()
        for reader in graph.readers.get(tensor, ()):
            ends &= ~has[:, reader]
        shape = graph.widths[tensor], graph.heights[tensor]
        there[shape] = there[shape] | ends if shape in there else ends
    sizes = np.sum(list(there.values()), axis=0)
    return [bits[row] for row in np.flatnonzero(sizes == 1)]


def _too_deep(graph: Graph, tensor: int, reader: int) -> bool:
    """Whether no tile is large enough for a Pointwise operation in front of a MatMul."""
    left, right = graph.inputs[reader]
    width, height = graph.native_granularity
    depth = graph.depth(reader)
    return (tensor == left and depth > width) or (tensor == right and depth > height)


class _Needs(NamedTuple):
    """What tiles of sets of operations need at least, a value for each set.

    Attributes
    ----------
    lefts, rights, once
        Elements of left and of right operands of which no slice stays from tile to tile, and of all else.
    n_lefts, n_rights, n_tiles
        How many of these operands there are, and tiles beside them: what is written or read value by value.
    beside, per_tile
        Ticks of what is computed beside the tiles, and for each of them.
    """

    lefts: Floats
    rights: Floats
    once: Floats
    n_lefts: Floats
    n_rights: Floats
    n_tiles: Floats
    beside: Floats
    per_tile: Floats


class Candidates:
    """Sets of operations with lower bounds on what they cost as a subgraph, better ones when asked for.

    Parameters
    ----------
    keeps_results
        Whether subgraphs may also keep what nothing reads, which is of use where constraints ask for it.

    Attributes
    ----------
    bits, has : bool, shape (sets, operations)
        The sets.
    arcs
        Operations that read what others make, as pairs (maker, reader); none where a tensor can be kept.
    serves : bool, shape (sets, operations + arcs)
        Which operations a set has, and which arcs it serves: it has both ends, or writes what is read. Each
        operation and arc needs a set, as a reader finds what it reads beside itself or in slow memory.
    ticks : int, shape (sets,)
        A lower bound for each; `exact` tells for which it is the least of all surroundings.
    """

    def __init__(self, pricer: Pricer, bits: list[int], *, keeps_results: bool = False) -> None:
        self.pricer, self.graph = pricer, pricer.graph
        graph, count = self.graph, len(self.graph.inputs)
        self.bits = bits
        self.has: NDArray[np.bool_] = members(bits, count)
        self.may_stay = {
            tensor
            for tensor in graph.made
            if (keeps_results or tensor in graph.readers)
            and graph.elements(tensor) < graph.fast_memory_capacity
        }
        self.arcs: list[tuple[int, int]] = []
        if not self.may_stay:
            self.arcs = [
                (op, reader)
                for op, tensor in enumerate(graph.made)
                for reader in graph.readers.get(tensor, ())
            ]
        columns = [self.has]
        for op, reader in self.arcs:
            writes = self.has[:, op].copy()
            for other in graph.readers[graph.made[op]]:
                writes &= ~self.has[:, other]
            columns.append((writes | (self.has[:, op] & self.has[:, reader]))[:, None])
        self.serves: NDArray[np.bool_] = np.hstack(columns)
        self.ticks: NDArray[np.int64] = self._least()
        self.exact = np.zeros(len(self.bits), dtype=np.bool_)
        self._ops: dict[int, frozenset[int]] = {}
        self.asked = np.zeros(len(self.bits), dtype=np.int64)

    def _least(self) -> NDArray[np.int64]:
        """Return what each set takes at least, at the best sizes of tiles for which there may be room.

        Sizes are looked at by ranges: what has room for the least of one is taken to have that for all, and
        to need no more tiles than the largest.
        """
        graph = self.graph
        has: Any = self.has
        on_tile, deep = self._on_tiles()
        least = [least_compute(graph, op) if op not in on_tile else 0 for op in range(len(graph.inputs))]
        beside: Floats = has @ np.array(least, dtype=np.float64)
        costs = [graph.base_costs[op] if op in on_tile else 0 for op in range(len(graph.inputs))]
        per_tile: Floats = has @ np.array(costs, dtype=np.float64) * float(graph.scale)
        many = len(self.bits)
        lefts, rights, once = np.zeros(many), np.zeros(many), np.zeros(many)
        n_lefts, n_rights, n_tiles = np.zeros(many), np.zeros(many), np.zeros(many)
        nowhere = np.zeros(many, dtype=np.bool_)
        for tensor in range(len(graph.widths)):
            if tensor in self.may_stay:
                continue
            maker, readers = graph.maker.get(tensor), graph.readers.get(tensor, ())
            made = nowhere if maker is None else self.has[:, maker]
            read = self._any(readers)
            left = ~made & self._any([op for op in readers if op in deep and graph.inputs[op][0] == tensor])
            right = ~made & self._any([op for op in readers if op in deep and graph.inputs[op][1] == tensor])
            right &= ~left
            written = made & ~read
            pointwise = [op for op in readers if op in on_tile and graph.op_types[op] == "Pointwise"]
            size = graph.elements(tensor)
            lefts += left * size
            rights += right * size
            once += ((~made & read & ~left & ~right) | written) * size
            n_lefts += left
            n_rights += right
            n_tiles += written | (~made & self._any(pointwise))
        needs = _Needs(lefts, rights, once, n_lefts, n_rights, n_tiles, beside, per_tile)
        found = np.full(many, float(LONGEST))
        for shape in {(graph.widths[tensor], graph.heights[tensor]) for tensor in graph.made}:
            rows = np.flatnonzero(self._has_grid(shape))
            for begin in range(0, len(rows), AT_A_TIME):
                some = rows[begin : begin + AT_A_TIME]
                found[some] = self._best_tiles(shape, _Needs(*(column[some] for column in needs)))
        if graph.per > 1 or found[found < LONGEST].max(initial=0) >= EXACT:
            found = found * (1 - ROUNDING)
        least_ticks: NDArray[np.int64] = np.minimum(found, LONGEST).astype(np.int64)
        return least_ticks

    def _best_tiles(self, shape: tuple[int, int], needs: _Needs) -> Floats:
        """Return the same for sets with one size of outputs."""
        graph = self.graph
        ranges = [
            _ranges(min(whole, native)) for whole, native in zip(shape, graph.native_granularity, strict=True)
        ]
        best = np.full(len(needs.lefts), float(LONGEST))
        for w_least, w_most in ranges[0]:
            across = -(-shape[0] // w_most)
            for h_least, h_most in ranges[1]:
                down = -(-shape[1] // h_most)
                held = needs.n_tiles * (w_least * h_least)
                held += needs.n_lefts * h_least + needs.n_rights * w_least
                moved = needs.lefts * across + needs.rights * down + needs.once
                computed = needs.beside + needs.per_tile * (across * down)
                takes = np.maximum(computed, moved * (graph.unit / graph.per))
                best = np.where(held <= graph.fast_memory_capacity, np.minimum(best, takes), best)
        return best

    def _any(self, ops: Collection[int]) -> NDArray[np.bool_]:
        """Return which sets have any of some operations."""
        found: NDArray[np.bool_] = np.logical_or.reduce(self.has[:, list(ops)], axis=1)
        return found

    def _has_grid(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return which sets have outputs of a size."""
        graph = self.graph
        fitting = [
            op for op, made in enumerate(graph.made) if (graph.widths[made], graph.heights[made]) == shape
        ]
        ends = [self.has[:, op] & ~self._any(graph.readers.get(graph.made[op], ())) for op in fitting]
        found: NDArray[np.bool_] = np.logical_or.reduce(ends)
        return found

    def _on_tiles(self) -> tuple[set[int], set[int]]:
        """Return operations that never make slices, and those of them that add up in several steps.

        Of outside operands of the latter no slice stays from one tile to the next.
        """
        graph = self.graph
        inside: set[int] = set()  # operations that may make a slice for a MatMul
        for op in reversed(graph.order):
            for reader in graph.readers.get(graph.made[op], ()):
                if graph.op_types[reader] == "MatMul" or reader in inside:
                    inside.add(op)
        on_tile = set(range(len(graph.inputs))) - inside
        return on_tile, {op for op in on_tile if graph.depth(op) > graph.native_depth}

    def ops(self, row: int) -> frozenset[int]:
        """Return the operations of a set."""
        if row not in self._ops:
            self._ops[row] = frozenset(np.flatnonzero(self.has[row]).tolist())
        return self._ops[row]

    def price(self, row: int, below: int | None = None) -> None:
        """Make the bound of a set what it takes in the best surroundings: all that may stay has, for free.

        Where that is not below some ticks, it is enough that the bound comes to them, which takes less time,
        unless it is asked for again and again.
        """
        if self.exact[row] or (below is not None and self.ticks[row] >= below):
            return
        self.asked[row] += 1
        if self.asked[row] > OFTEN:
            below = None
        ops = self.ops(row)
        graph = self.graph
        read = {tensor for op in ops for tensor in graph.inputs[op]}
        made = {graph.made[op] for op in ops}
        resident = frozenset((read - made) & self.may_stay)
        kept = frozenset(set(sinks(graph, ops)) & self.may_stay)
        found = self.pricer.structure(ops, resident, kept)
        least: int | None = None
        if isinstance(found, Structure):
            top = LONGEST if below is None else min(below, LONGEST)
            least = self.pricer.least(ops, found, graph.fast_memory_capacity, top)
            if least == top:
                self.ticks[row] = max(self.ticks[row], least)
                return
        self.exact[row] = True
        self.ticks[row] = LONGEST if least is None else max(self.ticks[row], least)
