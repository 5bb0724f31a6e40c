"""Executes a plan tile by tile and step by step: what is in fast memory, what is moved, how long it takes.

This is the specification of a plan's meaning. It knows nothing of the closed form: it walks from the outputs
of a subgraph to what they need in each step, with the numbers of rows and columns themselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.plan import Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.structure import sinks
from tilewright.spec.errors import OutOfTimeError

PRIME = 8191
"""Values are counted modulo this in a numeric execution. They are whole numbers in floating point, in which
products are added up fast, and exact up to 2^53: more than the deepest sum can come to."""

STEPS_BETWEEN_LOOKS = 256
"""Steps after which the time is looked at."""

Values = NDArray[np.float64]


class Span(NamedTuple):
    """A part of an axis: its kind ("whole", "tile" or "step"), begin, end, and what it was asked for as.

    A part that is all of its axis is whole, whatever it was asked for as. So it is the same slice as another
    one that is all, but an operation that is asked for both ways is done for each.
    """

    kind: str
    begin: int
    end: int
    asked: str

    def __len__(self) -> int:
        return self.end - self.begin


def _span(kind: str, begin: int, end: int, length: int) -> Span:
    whole = begin == 0 and end >= length
    return Span("whole" if whole else kind, begin, min(end, length), kind)


def _all(length: int) -> Span:
    return Span("whole", 0, length, "whole")


Part = tuple[int, tuple[str, int, int], tuple[str, int, int]]
"""A slice: tensor, rows, columns."""


def _rectangle(part: Part) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """Return what a slice is, whatever it follows."""
    return part[0], part[1][1:], part[2][1:]


@dataclass
class Executed:
    """What the execution of one subgraph came to.

    Attributes
    ----------
    ticks, compute, transfer
        How long it took, and what computing and moving alone would have.
    loaded, written, made
        Elements of each tensor that were moved, and computed.
    transfers, macs
        Slices that were moved; products that were added up.
    peak
        Most elements in fast memory.
    steps
        Steps of all tiles.
    bound_by_transfer
        Steps in which moving took longer than computing.
    """

    ticks: int = 0
    compute: int = 0
    transfer: int = 0
    loaded: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    transfers: int = 0
    macs: int = 0
    peak: int = 0
    steps: int = 0
    bound_by_transfer: int = 0


class Execution:
    """A graph's memories while subgraphs run one after the other.

    Parameters
    ----------
    seed
        Of the values of a numeric execution; None executes without values.
    """

    def __init__(self, problem: Problem, seed: int | None = None, deadline: float = float("inf")) -> None:
        graph = problem.graph
        self.graph, self.deadline = graph, deadline
        self.each_sum = problem.limits.accumulators == "each"
        self.resident: dict[int, Values | None] = {}
        self.slow: dict[int, Values | None] = {}
        random = None if seed is None else np.random.default_rng(seed)
        for tensor in sorted(graph.readers.keys() - graph.maker.keys()):
            shape = graph.heights[tensor], graph.widths[tensor]
            self.slow[tensor] = (
                None if random is None else random.integers(0, PRIME, shape).astype(np.float64)
            )
        self.numeric = seed is not None

    def run(self, step: Subgraph) -> Executed:
        """Execute a subgraph that keeps the rules."""
        return _Run(self, step).executed()


class _Run:
    """One subgraph at work."""

    def __init__(self, execution: Execution, step: Subgraph) -> None:
        self.all, self.graph, self.step = execution, execution.graph, step
        self.ops = {self.graph.made[op]: op for op in step.operations}
        self.ends = sinks(self.graph, step.operations)
        self.outputs = sorted({*self.ends, *step.retained})
        first = self.outputs[0]
        self.width, self.height = self.graph.widths[first], self.graph.heights[first]
        self.found = Executed()
        self.sums: dict[int, Values] = {}

    def executed(self) -> Executed:
        """Run all tiles, leave in the memories what stays, and return what it came to."""
        graph, step, found = self.graph, self.step, self.found
        w, h, k = step.granularity
        columns = -(-self.width // w)
        results = {
            tensor: np.zeros((self.height, self.width)) if self.all.numeric else None
            for tensor in self.outputs
        }
        before: set[Part] = set()
        kept = sum(graph.elements(tensor) for tensor in {*self.all.resident, *step.retained})
        for tile in step.tiles(self.width, self.height):
            row, column = divmod(tile, columns)
            rows = _span("tile", row * h, (row + 1) * h, self.height)
            across = _span("tile", column * w, (column + 1) * w, self.width)
            self.sums.clear()
            steps = self._steps(k)
            held: dict[tuple[int, str, str], int] = {}
            for number in range(steps):
                if found.steps % STEPS_BETWEEN_LOOKS == 0 and time.monotonic() > self.all.deadline:
                    raise OutOfTimeError
                before = self._one(rows, across, number, steps, before, held)
            for tensor in self.outputs:
                value = self._value(tensor, rows, across)
                whole = results[tensor]
                if value is not None and whole is not None:
                    whole[rows.begin : rows.end, across.begin : across.end] = value
            found.peak = max(found.peak, self._tiles(rows, across, steps) + sum(held.values()) + kept)
        for tensor in self.ends:
            if tensor not in step.retained:
                self.all.slow[tensor] = results[tensor]
        self.all.resident = {tensor: results[tensor] for tensor in step.retained}
        return found

    def _tiles(self, rows: Span, across: Span, steps: int) -> int:
        """Return what tiles of outputs take, and sums that find no place in them or in what is kept."""
        tiles = sum(tensor not in self.step.retained for tensor in self.ends)
        if steps > 1 and self.all.each_sum:
            sums = {op for op in self._on_tile() if self.graph.op_types[op] == "MatMul"}
            tiles += max(0, len(sums) - len(self.outputs))
        return tiles * len(rows) * len(across)

    def _steps(self, k: int) -> int:
        """Return the steps of a tile: those of the deepest sum on the tile itself."""
        depths = {self.graph.depth(op) for op in self._on_tile()}
        return max((-(-depth // k) for depth in depths if depth), default=1)

    def _on_tile(self) -> Iterator[int]:
        """Yield the operations that work on the tile itself: ends, and those before Pointwise ones there."""
        waiting, seen = list(self.ends), set()
        while waiting:
            tensor = waiting.pop()
            if tensor in self.ops and tensor not in seen:
                seen.add(tensor)
                op = self.ops[tensor]
                yield op
                waiting += self.graph.inputs[op] if self.graph.op_types[op] == "Pointwise" else ()

    def _one(
        self,
        rows: Span,
        across: Span,
        number: int,
        steps: int,
        before: set[Part],
        held: dict[tuple[int, str, str], int],
    ) -> set[Part]:
        """Run one step of a tile; return the slices that lie in memory then."""
        graph, found = self.graph, self.found
        needs: set[Part] = set()
        self.beside: set[Part] = set()
        self.done: set[tuple[object, ...]] = set()
        self.compute = 0
        for tensor in self.ends:
            self._on(tensor, rows, across, number, steps, needs)
        there = {_rectangle(part) for part in needs}
        self.beside -= needs
        needs |= self.beside
        moved = 0
        for part in needs:
            tensor, high, wide = part
            size = (high[2] - high[1]) * (wide[2] - wide[1])
            key = tensor, high[0], wide[0]
            held[key] = max(held.get(key, 0), size)
            if part not in before and not (part in self.beside and _rectangle(part) in there):
                moved += size
                found.transfers += 1
                found.loaded[tensor] = found.loaded.get(tensor, 0) + size
        if number == steps - 1:
            size = len(rows) * len(across)
            for tensor in self.ends:
                if tensor not in self.step.retained:
                    moved += size
                    found.transfers += 1
                    found.written[tensor] = found.written.get(tensor, 0) + size
        transfer = -(-moved * graph.unit // graph.per)
        found.ticks += max(self.compute, transfer)
        found.compute += self.compute
        found.transfer += transfer
        found.steps += 1
        found.bound_by_transfer += transfer > self.compute
        return needs

    # What a step needs -------------------------------------------------------------------------------

    def _read(self, tensor: int, rows: Span, columns: Span, needs: set[Part]) -> None:
        if tensor not in self.all.resident:
            needs.add((tensor, rows[:3], columns[:3]))

    def _on(self, tensor: int, rows: Span, across: Span, number: int, steps: int, needs: set[Part]) -> None:
        """Work on the tile itself for a tensor, in one step."""
        graph, op = self.graph, self.ops[tensor]
        if ("tile", tensor) in self.done:
            return
        self.done.add(("tile", tensor))
        if graph.op_types[op] == "Pointwise":
            for read in graph.inputs[op]:
                if read in self.ops:
                    self._on(read, rows, across, number, steps, needs)
                elif number == steps - 1:
                    self._read(read, rows, across, self.beside)
            if number == steps - 1:
                self._made(op, tensor, rows, across)
            return
        depth, k = graph.depth(op), self.step.granularity[2]
        if number * k >= depth:
            return
        part = _span("step", number * k, (number + 1) * k, depth)
        left, right = graph.inputs[op]
        self._operand(left, rows, self._along(left, part, depth), number, needs)
        self._operand(right, self._along(right, part, depth), across, number, needs)
        self.compute += -(-graph.base_costs[op] * graph.scale // depth) * len(part)
        self.found.macs += len(part) * len(rows) * len(across)
        if number * k + k >= depth:
            self.found.made[tensor] = self.found.made.get(tensor, 0) + len(rows) * len(across)
        if self.all.numeric:
            summed = self._times(left, right, rows, part, across)
            self.sums[tensor] = (self.sums.get(tensor, 0) + summed) % PRIME

    def _along(self, tensor: int, part: Span, depth: int) -> Span:
        """Return what is asked of an operand along the depth: all of what a Pointwise operation makes."""
        op = self.ops.get(tensor)
        pointwise = op is not None and self.graph.op_types[op] == "Pointwise"
        return _all(depth) if pointwise else part

    def _operand(self, tensor: int, rows: Span, columns: Span, number: int, needs: set[Part]) -> None:
        """Make or read a slice for a MatMul; all products of it are added up in this step."""
        graph, op = self.graph, self.ops.get(tensor)
        if op is None:
            self._read(tensor, rows, columns, needs)
            return
        if (tensor, rows.asked, columns.asked) in self.done:
            return
        self.done.add((tensor, rows.asked, columns.asked))
        inputs = graph.inputs[op]
        depth = graph.depth(op)
        if graph.op_types[op] == "Pointwise":
            for read in inputs:
                self._operand(read, rows, columns, number, needs)
        else:
            self._operand(inputs[0], rows, _all(depth), number, needs)
            self._operand(inputs[1], _all(depth), columns, number, needs)
        stepping = next((span for span in (rows, columns) if span.kind == "step"), None)
        if stepping is None and number > 0:
            return
        native_width, native_height = graph.native_granularity
        passes = graph.scale * graph.base_costs[op]
        sides = (rows, native_height, graph.heights[tensor]), (columns, native_width, graph.widths[tensor])
        for span, native, length in sides:
            if span.asked == "whole":
                passes *= -(-length // native)
        for span, native, length in sides:
            if span.asked == "step":
                passes = -(-passes // min(native, length)) * len(span)
        self.compute += passes
        self.found.macs += depth * len(rows) * len(columns)
        self.found.made[tensor] = self.found.made.get(tensor, 0) + len(rows) * len(columns)

    def _made(self, op: int, tensor: int, rows: Span, columns: Span) -> None:
        self.compute += self.graph.base_costs[op] * self.graph.scale
        self.found.made[tensor] = self.found.made.get(tensor, 0) + len(rows) * len(columns)

    # Values --------------------------------------------------------------------------------------------

    def _times(self, left: int, right: int, rows: Span, part: Span, across: Span) -> Values:
        one, other = self._slice(left, rows, part), self._slice(right, part, across)
        product: Values = one @ other % PRIME
        return product

    def _slice(self, tensor: int, rows: Span, columns: Span) -> Values:
        """Return a part of a tensor, computed if it is made here and read from a memory otherwise."""
        op = self.ops.get(tensor)
        if op is None:
            values = self.all.resident[tensor] if tensor in self.all.resident else self.all.slow[tensor]
            assert values is not None
            return values[rows.begin : rows.end, columns.begin : columns.end]
        inputs = self.graph.inputs[op]
        if self.graph.op_types[op] == "Pointwise":
            return pointwise([self._slice(read, rows, columns) for read in inputs])
        return self._times(inputs[0], inputs[1], rows, _all(self.graph.depth(op)), columns)

    def _value(self, tensor: int, rows: Span, across: Span) -> Values | None:
        """Return a tile that is complete: sums, and what Pointwise operations make of them."""
        if not self.all.numeric:
            return None
        if tensor in self.sums:
            return self.sums[tensor]
        op = self.ops.get(tensor)
        if op is None:
            return self._slice(tensor, rows, across)
        tiles = [self._value(read, rows, across) for read in self.graph.inputs[op]]
        return pointwise([tile for tile in tiles if tile is not None])


def pointwise(values: list[Values]) -> Values:
    """Return what stands for any Pointwise operation: the square of one more than the sum."""
    total = np.ones_like(values[0])
    for one in values:
        total = total + one
    squared: Values = total**2 % PRIME
    return squared


def reference(problem: Problem, seed: int) -> dict[int, Values]:
    """Return all tensors, each operation done at once."""
    graph = problem.graph
    known = {tensor: values for tensor, values in Execution(problem, seed).slow.items() if values is not None}
    for op in graph.order:
        inputs = [known[tensor] for tensor in graph.inputs[op]]
        matmul = graph.op_types[op] == "MatMul"
        known[graph.made[op]] = inputs[0] @ inputs[1] % PRIME if matmul else pointwise(inputs)
    return known
