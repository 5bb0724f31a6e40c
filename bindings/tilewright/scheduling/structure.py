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
    graph, ops, resident, retained = problem.graph, set(ops), set(resident), tuple(sorted(set(retained)))
    made = {graph.made[op]: op for op in ops}
    for tensor in retained:
        if tensor not in made:
            return f"tensor {tensor} is not made by the subgraph that shall keep it"
    ends = sinks(graph, ops)
    outputs = sorted({*ends, *retained})
    shapes = {(graph.widths[tensor], graph.heights[tensor]) for tensor in outputs}
    if len(shapes) > 1:
        told = ", ".join(f"{tensor}: {graph.widths[tensor]} x {graph.heights[tensor]}" for tensor in outputs)
        return f"outputs have different sizes ({told})"
    [(width, height)] = shapes
    demands: dict[int, dict[Demand, None]] = {tensor: {(TILE, TILE, True, 0): None} for tensor in ends}
    slices: dict[tuple[int, int, int], list[int]] = {}
    works: dict[tuple[int, int], int] = {}
    least_width = least_height = 1
    sums = 0

    def ask(tensor: int, demand: Demand) -> None:
        rows, columns, on_tile, depth = demand
        if tensor in made:
            demands.setdefault(tensor, {})[demand] = None
        elif tensor not in resident:
            held = slices.setdefault((tensor, rows, columns), [0, 0])
            held[0], held[1] = max(held[0], depth), max(held[1], int(on_tile))

    def work(kind: int, cost: int, depth: int, whole: int) -> None:
        works[kind, depth] = works.get((kind, depth), 0) - (-cost * graph.scale // whole)

    native_width, native_height = graph.native_granularity
    for op in sorted(ops, key=lambda one: -graph.place[one]):
        tensor, cost = graph.made[op], graph.base_costs[op]
        matmul = graph.op_types[op] == "MatMul"
        tensor_width, tensor_height = graph.widths[tensor], graph.heights[tensor]
        wanted = demands.get(tensor, {})
        if tensor in retained and not any(on_tile for _, _, on_tile, _ in wanted):
            return f"tensor {tensor} is not made on the tiles of the outputs, so it cannot be kept"
        for rows, columns, on_tile, depth in wanted:
            if not matmul:
                for read in graph.inputs[op]:
                    ask(read, (rows, columns, on_tile, depth))
            else:
                own = graph.depth(op)
                left, right = graph.inputs[op]
                along_left = along_right = STEP if on_tile else WHOLE
                reach = own if on_tile else depth
                if left in made and graph.op_types[made[left]] == "Pointwise":
                    least_width, along_left = max(least_width, own), WHOLE
                if right in made and graph.op_types[made[right]] == "Pointwise":
                    least_height, along_right = max(least_height, own), WHOLE
                ask(left, (rows, along_left, False, reach))
                ask(right, (along_right, columns, False, reach))
            if on_tile:
                if matmul:
                    work(ADDS_UP, cost, own, own)
                    sums += 1
                else:
                    work(LAST, cost, 0, 1)
                continue
            tiles = (-(-tensor_height // native_height) if rows == WHOLE else 1) * (
                -(-tensor_width // native_width) if columns == WHOLE else 1
            )
            if STEP in (rows, columns):
                native = native_height if rows == STEP else native_width
                work(SLICE, cost * tiles, depth, min(native, depth))
            else:
                work(FIRST, cost * tiles, 0, 1)
    if least_width > native_width or least_height > native_height:
        return (
            f"a Pointwise operation in front of a MatMul needs tiles of at least {least_width} x "
            f"{least_height}, the machine's are {native_width} x {native_height}"
        )
    depths = [graph.depth(op) for op in ops if graph.op_types[op] == "MatMul"]
    rows_of = [
        (tensor, graph.heights[tensor], graph.widths[tensor], rows, columns, depth, last)
        for (tensor, rows, columns), (depth, last) in sorted(slices.items())
    ]
    works_of = [(kind, ticks, depth) for (kind, depth), ticks in sorted(works.items())]
    if sum(ticks * max(depth, 1) for _, ticks, depth in works_of) > LONGEST:
        return "a tile takes longer than can be counted"
    return Structure(
        np.array(rows_of, dtype=np.int64).reshape(-1, 7),
        np.array(works_of, dtype=np.int64).reshape(-1, 3),
        width,
        height,
        tuple(tensor for tensor in ends if tensor not in retained),
        retained,
        max(0, sums - len(outputs)) if problem.limits.accumulators == "each" else 0,
        least_width,
        least_height,
        max((depth for kind, depth in works if kind == ADDS_UP), default=0),
        min(depths, default=0),
    )
