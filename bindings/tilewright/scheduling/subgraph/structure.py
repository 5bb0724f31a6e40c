"""What a subgraph needs of each tensor: which slices, when, and what its operations cost.

A tile of the outputs is computed in steps along the depth of sums. Beginning with the tile, each operation
asks for slices of what it reads, and their makers ask on. An axis of a slice is whole, follows the tile, or
follows the step (`WHOLE`, `TILE`, `STEP`).

- A MatMul on the tile itself adds up, k products in each step: it asks for (TILE, STEP) of its left and
  (STEP, TILE) of its right operand.
- A MatMul that makes a slice for another one adds up all products of the slice in one step: it asks for all
  columns of its left operand and all rows of its right one.
- A Pointwise operation on the tile fires in the tile's last step. In front of a MatMul it makes all columns
  of a left operand, or all rows of a right one, in the first step, for which a tile must be large enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.graph import Graph
from tilewright.scheduling.problem import Problem

WHOLE, TILE, STEP = 0, 1, 2

ADDS_UP, SLICE, FIRST, LAST = 0, 1, 2, 3
"""When an operation costs: with its own steps, with the steps of its reader, in the first or last step."""

LONGEST = 2**61
"""Ticks that are counted. There is a plan of far fewer, so nothing is lost with what takes more."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Structure:
    """A subgraph as the closed form and the executor see it.

    Attributes
    ----------
    slices : int, shape (n, 7)
        Tensor, its height and width, the kind of its rows and of its columns, the depth along whose steps the
        slice is held (0: in the last step only), and whether it is needed in the last step in any case.
    works : int, shape (n, 3)
        Kind, ticks, and the depth along whose steps these are paid for each product, or 0. Operations that
        differ in nothing but their ticks are one work, so that what is alike is seen to be.
    width, height
        Of the outputs.
    written, retained
        Outputs that go to slow memory, and that stay.
    sums
        Tiles that sums take beside those of outputs where a tile takes several steps.
    least_width, least_height
        Of a tile, for Pointwise operations in front of MatMuls.
    deepest
        Most products that a MatMul adds up on the tile; 0 without one.
    shallowest
        The fewest products that any MatMul adds up, which limits the depth of a step; 0 without one.
    """

    slices: Ints
    works: Ints
    width: int
    height: int
    written: tuple[int, ...]
    retained: tuple[int, ...]
    sums: int
    least_width: int
    least_height: int
    deepest: int
    shallowest: int


class SubgraphTable(NamedTuple):
    """A subgraph for the kernels.

    Attributes
    ----------
    slices : int, shape (n, 7)
    works : int, shape (n, 3)
        See `Structure`.
    width, height
        Of the outputs.
    written
        Outputs that go to slow memory.
    sums
        Tiles that sums take beside those of outputs where a tile takes several steps.
    unit, per
        Ticks in which `per` elements are moved.
    """

    slices: Ints
    works: Ints
    width: int
    height: int
    written: int
    sums: int
    unit: int
    per: int


class Sizes(NamedTuple):
    """Granularities to choose from.

    Attributes
    ----------
    ws, hs, ks
        The least size for each number of tiles or steps, descending.
    most : shape (3,)
        The largest w, h and k.
    """

    ws: Ints
    hs: Ints
    ks: Ints
    most: Ints


Demand = tuple[int, int, bool, int]
"""Rows and columns of a slice, whether it is the tile itself, the depth along whose steps it is needed."""


def connected(problem: Problem, ops: Iterable[int]) -> bool:
    """Whether operations hang together, by tensors as the limits say."""
    graph, left = problem.graph, set(ops)
    groups: dict[int, set[int]] = {}
    for op in left:
        for tensor in {*graph.inputs[op], graph.made[op]}:
            groups.setdefault(tensor, set()).add(op)
    if problem.limits.connected == "flow":
        groups = {tensor: group for tensor, group in groups.items() if graph.maker.get(tensor) in left}
    waiting = [left.pop()]
    while waiting:
        op = waiting.pop()
        for tensor in {*graph.inputs[op], graph.made[op]}:
            near = groups.get(tensor, set()) & left
            left -= near
            waiting += near
    return not left


def sinks(graph: Graph, ops: Iterable[int]) -> list[int]:
    """Return the tensors that operations make and none of them reads, ascending."""
    ops = set(ops)
    read = {tensor for op in ops for tensor in graph.inputs[op]}
    return sorted(tensor for op in ops if (tensor := graph.made[op]) not in read)


def structure(
    problem: Problem, ops: Iterable[int], resident: Iterable[int] = (), retained: Iterable[int] = ()
) -> Structure | str:
    """Return what a subgraph needs, or why its operations do not share one grid of tiles.

    Parameters
    ----------
    ops
        Its operations; whether they are connected is not looked at.
    resident
        Tensors that the subgraph before has kept.
    retained
        Tensors that this one keeps.
    """
    graph, retained = problem.graph, tuple(sorted(set(retained)))
    demands = _Demands(graph, set(ops), set(resident))
    for tensor in retained:
        if tensor not in demands.made:
            return f"tensor {tensor} is not made by the subgraph that shall keep it"
    ends = sinks(graph, demands.ops)
    outputs = sorted({*ends, *retained})
    shapes = {(graph.widths[tensor], graph.heights[tensor]) for tensor in outputs}
    if len(shapes) > 1:
        told = ", ".join(f"{tensor}: {graph.widths[tensor]} x {graph.heights[tensor]}" for tensor in outputs)
        return f"outputs have different sizes ({told})"
    [(width, height)] = shapes
    for tensor in ends:
        demands.ask(tensor, (TILE, TILE, True, 0))
    for op in sorted(demands.ops, key=lambda one: -graph.place[one]):
        if graph.made[op] in retained and not demands.is_on_tiles(op):
            return f"tensor {graph.made[op]} is not made on the tiles of the outputs, so it cannot be kept"
        demands.serve(op)
    native_width, native_height = graph.native_granularity
    if demands.least_width > native_width or demands.least_height > native_height:
        return (
            f"a Pointwise operation in front of a MatMul needs tiles of at least {demands.least_width} x "
            f"{demands.least_height}, the machine's are {native_width} x {native_height}"
        )
    works = demands.all_works()
    if sum(ticks * max(depth, 1) for _, ticks, depth in works) > LONGEST:
        return "a tile takes longer than can be counted"
    depths = [graph.depth(op) for op in demands.ops if graph.op_types[op] == "MatMul"]
    return Structure(
        demands.slices_table(),
        np.array(works, dtype=np.int64).reshape(-1, 3),
        width,
        height,
        tuple(tensor for tensor in ends if tensor not in retained),
        retained,
        max(0, demands.sums - len(outputs)) if problem.limits.accumulators == "each" else 0,
        demands.least_width,
        demands.least_height,
        max((depth for kind, depth in demands.works if kind == ADDS_UP), default=0),
        min(depths, default=0),
    )


class _Demands:
    """Slices that operations ask for, from the outputs on, and what it costs to make them.

    Attributes
    ----------
    made
        Which operation makes a tensor.
    asked
        Slices of each tensor that is made here.
    slices
        Of each tensor from outside with the kinds of its rows and columns: the depth along whose steps the
        slice is held, and whether the last step needs it in any case.
    works
        Ticks by kind and depth.
    sums
        MatMuls that add up on the tile.
    least_width, least_height
        See `Structure`.
    """

    def __init__(self, graph: Graph, ops: set[int], resident: set[int]) -> None:
        self.graph, self.ops, self.resident = graph, ops, resident
        self.made = {graph.made[op]: op for op in ops}
        self.asked: dict[int, dict[Demand, None]] = {}
        self.slices: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.works: dict[tuple[int, int], int] = {}
        self.least_width = self.least_height = 1
        self.sums = 0

    def ask(self, tensor: int, demand: Demand) -> None:
        """Ask for a slice of a tensor."""
        rows, columns, on_tile, depth = demand
        if tensor in self.made:
            self.asked.setdefault(tensor, {})[demand] = None
        elif tensor not in self.resident:
            held, last = self.slices.get((tensor, rows, columns), (0, 0))
            self.slices[tensor, rows, columns] = max(held, depth), max(last, int(on_tile))

    def is_on_tiles(self, op: int) -> bool:
        """Whether an operation makes the tiles of the outputs."""
        return any(on_tile for _, _, on_tile, _ in self.asked.get(self.graph.made[op], {}))

    def serve(self, op: int) -> None:
        """Let an operation make what is asked for, and ask for what that takes."""
        graph, matmul = self.graph, self.graph.op_types[op] == "MatMul"
        for demand in self.asked.get(graph.made[op], {}):
            if matmul:
                self._ask_for_operands(op, demand)
            else:
                for read in graph.inputs[op]:
                    self.ask(read, demand)
            self._work(op, demand)

    def _ask_for_operands(self, op: int, demand: Demand) -> None:
        """Ask for the operands of a MatMul."""
        graph, (rows, columns, on_tile, depth) = self.graph, demand
        own = graph.depth(op)
        left, right = graph.inputs[op]
        along_left = along_right = STEP if on_tile else WHOLE
        if self._is_pointwise(left):
            self.least_width, along_left = max(self.least_width, own), WHOLE
        if self._is_pointwise(right):
            self.least_height, along_right = max(self.least_height, own), WHOLE
        reach = own if on_tile else depth
        self.ask(left, (rows, along_left, False, reach))
        self.ask(right, (along_right, columns, False, reach))

    def _is_pointwise(self, tensor: int) -> bool:
        return tensor in self.made and self.graph.op_types[self.made[tensor]] == "Pointwise"

    def _work(self, op: int, demand: Demand) -> None:
        """Add what it costs to make a slice."""
        graph, cost, (rows, columns, on_tile, depth) = self.graph, self.graph.base_costs[op], demand
        native_width, native_height = graph.native_granularity
        if on_tile and graph.op_types[op] == "MatMul":
            own = graph.depth(op)
            self.sums += 1
            self._add(ADDS_UP, cost, own, own)
        elif on_tile:
            self._add(LAST, cost, 0, 1)
        else:
            tensor = graph.made[op]
            down = -(-graph.heights[tensor] // native_height) if rows == WHOLE else 1
            across = -(-graph.widths[tensor] // native_width) if columns == WHOLE else 1
            if STEP in (rows, columns):
                native = native_height if rows == STEP else native_width
                self._add(SLICE, cost * down * across, depth, min(native, depth))
            else:
                self._add(FIRST, cost * down * across, 0, 1)

    def _add(self, kind: int, cost: int, depth: int, whole: int) -> None:
        """Add the ticks of each of `whole` products that together cost so much."""
        ticks = -(-cost * self.graph.scale // whole)
        self.works[kind, depth] = self.works.get((kind, depth), 0) + ticks

    def slices_table(self) -> Ints:
        """Return all slices from outside, as `Structure` has them."""
        graph = self.graph
        rows = [
            (tensor, graph.heights[tensor], graph.widths[tensor], rows, columns, depth, last)
            for (tensor, rows, columns), (depth, last) in sorted(self.slices.items())
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 7)

    def all_works(self) -> list[tuple[int, int, int]]:
        """Return kind, ticks and depth of all works; ticks may be more than an array holds."""
        return [(kind, ticks, depth) for (kind, depth), ticks in sorted(self.works.items())]
