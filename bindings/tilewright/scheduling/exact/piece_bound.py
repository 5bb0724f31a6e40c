"""A lower bound for graphs of any size: prices of operations from the pieces that subgraphs are made of.

A piece is a set of operations that hang together by tensors that a MatMul of it reads; a subgraph is made of
pieces that share what they load, and of tensors that Pointwise operations take from them for nothing. What a
subgraph loads is divided among its pieces. Of a slice that several may read, each one pays

- its share of all operations of the graph that read the tensor, or
- the share of fast memory that slices take which only it reads, since those of all pieces must fit together.

Which of both is chosen for each tensor once, so no subgraph is charged more than it loads. A subgraph takes
at least any weighted mean of its compute and its transfers, so prices that are at most that mean for each
piece add up to no more than what any plan takes. See docs/scheduling.md.

Where subgraphs must be connected by flow, a piece that no Pointwise operation links to others is a subgraph,
and costs all that one takes.
"""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.exact.arc_prices import new_linear_program
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.subgraph.cost import Pricer, sizes
from tilewright.scheduling.subgraph.structure import STEP, TILE, WHOLE, Structure, sinks, structure

MOST_PIECES = 20_000
MOST_SHARED = 6
"""Shared tensors, the largest ones, for which both ways of dividing are tried."""

MOST_STAYING = 4
"""Operands of a piece that may have been kept, for each of which both cases are looked at; more are free."""

WEIGHTS = (0.0, 0.25, 0.5, 0.75)
"""Of compute, in the mean."""

ROUNDING = 1e-7
"""Relative error that floating point is allowed, far more than it makes."""

Floats = NDArray[np.float64]


def pieces_bound(pricer: Pricer, deadline: float = float("inf")) -> int:
    """Return ticks that no plan undercuts; 0 where there are too many pieces, or no time."""
    graph = pricer.graph
    sets = _pieces(graph)
    if sets is None:
        return 0
    bound = _Pieces(pricer, sets, deadline)
    shared = [tensor for tensor, readers in graph.readers.items() if len(readers) > 1]
    shared.sort(key=lambda tensor: (-graph.elements(tensor) * len(graph.readers[tensor]), tensor))
    by_memory: set[int] = set()
    best = bound.value(by_memory, deadline)
    for tensor in shared[:MOST_SHARED]:
        if time.monotonic() > deadline:
            break
        value = bound.value(by_memory | {tensor}, deadline)
        if value > best:
            best = value
            by_memory.add(tensor)
    return int(best * (1 - ROUNDING))


def _pieces(graph: Graph) -> list[frozenset[int]] | None:
    """Return all sets of operations that hang together by operands of MatMuls; None if they are too many."""
    near: list[set[int]] = [set() for _ in graph.inputs]
    for op, read in enumerate(graph.inputs):
        for tensor in read:
            maker = graph.maker.get(tensor)
            if graph.op_types[op] == "MatMul" and maker is not None:
                near[op].add(maker)
                near[maker].add(op)
    found: list[frozenset[int]] = []
    for start in range(len(graph.inputs)):
        stack = [(frozenset((start,)), {one for one in near[start] if one > start}, set(range(start + 1)))]
        while stack:
            ops, border, barred = stack.pop()
            found.append(ops)
            if len(found) > MOST_PIECES:
                return None
            border, barred = set(border), set(barred)
            while border:
                op = min(border)
                border.discard(op)
                barred.add(op)
                stack.append((ops | {op}, (border | near[op]) - barred - ops, set(barred)))
    return found


class _Pieces:
    """The pieces of a graph with what each costs, as tables over all numbers of tiles."""

    def __init__(self, pricer: Pricer, sets: list[frozenset[int]], deadline: float) -> None:
        self.pricer, self.graph = pricer, pricer.graph
        self.sets: list[frozenset[int]] = []
        graph, flow = self.graph, pricer.problem.limits.connected == "flow"
        self.loose = _feeding(graph)
        self.stays = {
            tensor
            for tensor in graph.made
            if tensor in graph.readers and graph.elements(tensor) < graph.fast_memory_capacity
        }
        self.found: list[Structure | float | None] = []
        for ops in sets:
            one = structure(pricer.problem, ops)
            if flow and self._whole(ops) and time.monotonic() < deadline:
                if np.isfinite(cost := self._alone(ops)):
                    self.sets.append(ops)
                    self.found.append(cost)
            elif any(self._loose(op, ops) for op in ops):
                self.sets.append(ops)
                self.found.append(None)  # its ends may be slices, of which little is known
            elif isinstance(one, Structure):
                self.sets.append(ops)
                self.found.append(one)

    def _loose(self, op: int, ops: frozenset[int]) -> bool:
        """Whether a Pointwise operation that feeds MatMuls may read an operation's tensor."""
        readers = self.graph.readers.get(self.graph.made[op], ())
        return any(reader in self.loose and reader not in ops for reader in readers)

    def _whole(self, ops: frozenset[int]) -> bool:
        """Whether a piece is all of its subgraph: no flow to or from a Pointwise operation links others."""
        graph = self.graph
        for op in ops:
            near = {
                one for one in graph.readers.get(graph.made[op], ()) if graph.op_types[one] == "Pointwise"
            }
            if graph.op_types[op] == "Pointwise":
                near |= {graph.maker[tensor] for tensor in graph.inputs[op] if tensor in graph.maker}
            if near - ops:
                return False
        return True

    def _alone(self, ops: frozenset[int]) -> float:
        """Return what a piece takes as a subgraph, whatever has been kept for it and is kept of it."""
        graph = self.graph
        made = {graph.made[op] for op in ops}
        read = {tensor for op in ops for tensor in graph.inputs[op]} - made
        may = sorted((read | set(sinks(graph, ops))) & self.stays)
        if len(may) > MOST_STAYING:
            found = self.pricer.structure(ops, frozenset(may) & read, frozenset(may) & made)
            if isinstance(found, str):
                return 0.0
            choice = self.pricer.fastest(ops, found, graph.fast_memory_capacity)
            return np.inf if choice is None else float(choice.least)
        choices = [
            self.pricer.best(ops, frozenset(some) & read, frozenset(some) & made)
            for many in range(len(may) + 1)
            for some in combinations(may, many)
        ]
        return min((float(choice.least) for choice in choices if choice is not None), default=np.inf)

    def value(self, by_memory: AbstractSet[int], deadline: float) -> float:
        """Return the best bound, with these tensors divided by memory and all others by readers."""
        best = 0.0
        tables = [
            self._tables(ops, found, by_memory) for ops, found in zip(self.sets, self.found, strict=True)
        ]
        for weight in WEIGHTS:
            if time.monotonic() > deadline:
                break
            costs = [
                float((weight * compute + (1 - weight) * moved).min(initial=np.inf))
                for compute, moved in tables
            ]
            best = max(best, _best_sum(self.sets, costs, self.graph))
        return best

    def _tables(
        self, ops: frozenset[int], found: Structure | float | None, by_memory: AbstractSet[int]
    ) -> tuple[Floats, Floats]:
        """Return compute and transfers of a piece in ticks, by tiles; nothing where no tile fits."""
        if not isinstance(found, Structure):
            known = np.full(1, found or 0.0)
            return known, known
        stay = sorted(self.stays.intersection(found.slices[:, 0].tolist()))
        tables = [
            self._table(ops, found, by_memory, frozenset(some), not len(stay) > MOST_STAYING)
            for many in range(len(stay) + 1 if len(stay) <= MOST_STAYING else 1)
            for some in combinations(stay, many)
        ]
        return np.concatenate([one for one, _ in tables]), np.concatenate([one for _, one in tables])

    def _table(
        self,
        ops: frozenset[int],
        found: Structure,
        by_memory: AbstractSet[int],
        resident: frozenset[int],
        load_others: bool,
    ) -> tuple[Floats, Floats]:
        """Return the same where some tensors have been kept, at their whole size; others are loaded."""
        graph = self.graph
        native_width, native_height = graph.native_granularity
        w = np.array(sizes(found.width, native_width), dtype=np.float64)[None, :]
        h = np.array(sizes(found.height, native_height), dtype=np.float64)[:, None]
        across, down = np.ceil(found.width / w), np.ceil(found.height / h)
        w, h = np.minimum(w, found.width), np.minimum(h, found.height)
        per_tile = sum(ticks * max(depth, 1) for _, ticks, depth in found.works.tolist())
        held, own = np.zeros(np.broadcast(w, h).shape), np.zeros(np.broadcast(w, h).shape)
        for tensor in resident:
            held = held + graph.elements(tensor)
            if ops.issuperset(graph.readers[tensor]):
                own = own + graph.elements(tensor)
        # Slices of one tensor may be the same one, so the largest counts.
        largest: dict[int, Any] = {}
        loaded: dict[int, Any] = {}
        for tensor, rows, columns, of_rows, of_columns, depth, _ in found.slices.tolist():
            if tensor in resident or (tensor in self.stays and not load_others):
                continue
            pointwise = any(
                graph.op_types[op] == "Pointwise" for op in ops.intersection(graph.readers[tensor])
            )
            if tensor in graph.maker and pointwise:
                continue  # another piece may make it
            high = h if of_rows == TILE else float(rows if of_rows == WHOLE else 1)
            wide = w if of_columns == TILE else float(columns if of_columns == WHOLE else 1)
            moved: Any = float(rows * columns)
            if STEP in (of_rows, of_columns) and depth > graph.native_depth:
                # Each step loads another part, so nothing stays from tile to tile.
                moved = moved * (1.0 if of_rows == TILE else down)
                moved = moved * (1.0 if of_columns == TILE else across)
            largest[tensor] = np.maximum(largest.get(tensor, 0.0), high * wide)
            loaded[tensor] = np.maximum(loaded.get(tensor, 0.0), moved)
        for tensor, size in largest.items():
            held = held + size
            if ops.issuperset(graph.readers[tensor]):
                own = own + size
        moved_in_all = np.zeros_like(held)
        for tensor, moved in loaded.items():
            share: Any = len(ops.intersection(graph.readers[tensor])) / len(graph.readers[tensor])
            if share < 1 and tensor in by_memory:
                share = np.minimum(own / graph.fast_memory_capacity, 1.0)
            moved_in_all = moved_in_all + moved * share
        for tensor in found.written:
            readers = graph.readers.get(tensor, ())
            taken = any(graph.op_types[op] == "Pointwise" for op in readers)
            if not taken and tensor not in self.stays:
                moved_in_all = moved_in_all + float(graph.elements(tensor))
        fits = held <= graph.fast_memory_capacity
        compute = np.broadcast_to(per_tile * across * down, held.shape)
        return compute[fits], (moved_in_all * (graph.scale / graph.slow_memory_bandwidth))[fits]


def _feeding(graph: Graph) -> set[int]:
    """Return the Pointwise operations that may make slices for MatMuls, directly or for another one."""
    found: set[int] = set()
    width, height = graph.native_granularity
    for op in reversed(graph.order):
        if graph.op_types[op] != "Pointwise":
            continue
        tensor = graph.made[op]
        for reader in graph.readers.get(tensor, ()):
            if reader in found:
                found.add(op)
            elif graph.op_types[reader] == "MatMul":
                left, right = graph.inputs[reader]
                depth = graph.depth(reader)
                if (tensor == left and depth <= width) or (tensor == right and depth <= height):
                    found.add(op)
    return found


def _best_sum(sets: list[frozenset[int]], costs: list[float], graph: Graph) -> float:
    """Return the largest sum of prices that no piece undercuts."""
    model = new_linear_program(len(graph.inputs))
    for ops, cost in zip(sets, costs, strict=True):
        if np.isfinite(cost):
            places = np.array(sorted(ops))
            top = cost / graph.scale
            model.addRow(-np.inf, top, len(places), places, np.ones(len(places)))
    model.run()
    prices = np.maximum(np.array(model.getSolution().col_value), 0)
    worst = 1.0
    for ops, cost in zip(sets, costs, strict=True):
        total = float(prices[sorted(ops)].sum()) * graph.scale
        if total > cost:
            worst = min(worst, cost / total)
    return float(prices.sum()) * graph.scale * worst
