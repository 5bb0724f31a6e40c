"""A graph of matrix products and element-wise operations, and the memory it is too large for.

The fields are those of the MLSys 2026 contest's files, so that such a file is read as it is.
"""

from __future__ import annotations

from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import gcd, lcm
from typing import Annotated, Any, Literal

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError

MAX_TENSORS = 10_000
MAX_OPERATIONS = 2_000
MAX_SIZE = 2**20
"""Largest width or height of a tensor."""

MAX_NATIVE = 4096
MAX_COST = 10**12
MAX_CAPACITY = 2**40
MAX_BANDWIDTH = 2**31
MAX_TICKS = 2**58
"""Within so many ticks there is a plan, if there is any."""

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Index = Annotated[int, Field(ge=0, lt=MAX_TENSORS)]
Indices = tuple[Index, ...]


class Graph(Spec):
    """Tensors by width and height, operations by their tensors, and a machine.

    A tensor that no operation computes lies in slow memory from the beginning; one that none reads must lie
    there in the end.
    """

    widths: Annotated[tuple[Size, ...], Field(min_length=1, max_length=MAX_TENSORS)]
    heights: Annotated[tuple[Size, ...], Field(min_length=1, max_length=MAX_TENSORS)]
    inputs: Annotated[tuple[Indices, ...], Field(min_length=1, max_length=MAX_OPERATIONS)]
    outputs: Annotated[tuple[Indices, ...], Field(min_length=1, max_length=MAX_OPERATIONS)]
    base_costs: tuple[Annotated[int, Field(ge=0, le=MAX_COST)], ...]
    op_types: tuple[Literal["MatMul", "Pointwise"], ...]
    fast_memory_capacity: Annotated[int, Field(ge=1, le=MAX_CAPACITY)]
    slow_memory_bandwidth: Annotated[int, Field(ge=1, le=MAX_BANDWIDTH)]
    native_granularity: tuple[
        Annotated[int, Field(ge=1, le=MAX_NATIVE)], Annotated[int, Field(ge=1, le=MAX_NATIVE)]
    ]

    def model_post_init(self, _context: object) -> None:
        """Refuse what is no graph of operations, naming the field and what it must be."""
        tensors, operations = len(self.widths), len(self.inputs)
        self._equal("heights", tensors, "widths")
        for name in ("outputs", "base_costs", "op_types"):
            self._equal(name, operations, "inputs")
        for name in ("inputs", "outputs"):
            for number, members in enumerate(getattr(self, name)):
                for place, tensor in enumerate(members):
                    if tensor >= tensors:
                        limit = f"there are {tensors} tensors, 0 to {tensors - 1}"
                        raise InputError(f"{name}[{number}][{place}]", tensor, limit)
        makers: dict[int, int] = {}
        for number, made in enumerate(self.outputs):
            if len(made) != 1:
                raise InputError(f"outputs[{number}]", list(made), "an operation has one output")
            if made[0] in makers:
                limit = f"operation {makers[made[0]]} makes that tensor already"
                raise InputError(f"outputs[{number}][0]", made[0], limit)
            makers[made[0]] = number
            self._check_shapes(number)
        try:
            list(TopologicalSorter(self._before(makers)).static_order())
        except CycleError as error:
            circle = " <- ".join(map(str, error.args[1]))
            raise InputError(
                "inputs", None, f"operations wait for each other in a circle: {circle}"
            ) from None
        if self.scale < 1:
            limit = f"together with the sizes, times may be longer than {MAX_TICKS}"
            raise InputError("base_costs", max(self.base_costs), limit)

    def _equal(self, name: str, length: int, other: str) -> None:
        found = len(getattr(self, name))
        if found != length:
            raise InputError(name, found, f"must be as many as {other}: {length}")

    def _check_shapes(self, number: int) -> None:
        """Refuse operands that do not fit together."""
        read, made = self.inputs[number], self.outputs[number][0]
        field = f"inputs[{number}]"
        shape = self.widths[made], self.heights[made]
        if self.op_types[number] == "Pointwise":
            if not read:
                raise InputError(field, [], "a Pointwise operation has at least one input")
            for place, tensor in enumerate(read):
                if (found := (self.widths[tensor], self.heights[tensor])) != shape:
                    limit = f"tensor {tensor} is {_shown(found)}, the output {_shown(shape)}: must be equal"
                    raise InputError(f"{field}[{place}]", tensor, limit)
            return
        if len(read) != 2:
            raise InputError(field, list(read), "a MatMul has two inputs, left and right")
        left, right = read
        wanted = self.widths[left], self.heights[left], self.widths[right]
        if (self.heights[right], shape[1], shape[0]) != wanted:
            shapes = [_shown((self.widths[one], self.heights[one])) for one in (left, right, made)]
            limit = f"{shapes[0]} times {shapes[1]} is no {shapes[2]} (width x height)"
            raise InputError(field, list(read), limit)

    def _before(self, makers: dict[int, int]) -> dict[int, set[int]]:
        return {
            number: {makers[tensor] for tensor in read if tensor in makers}
            for number, read in enumerate(self.inputs)
        }

    @cached_property
    def made(self) -> tuple[int, ...]:
        """The tensor that each operation makes."""
        return tuple(one[0] for one in self.outputs)

    @cached_property
    def maker(self) -> dict[int, int]:
        """The operation that makes a tensor, of those that are made."""
        return {tensor: number for number, tensor in enumerate(self.made)}

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """The operations that read a tensor, of those that are read."""
        found: dict[int, list[int]] = {}
        for number, read in enumerate(self.inputs):
            for tensor in dict.fromkeys(read):
                found.setdefault(tensor, []).append(number)
        return {tensor: tuple(numbers) for tensor, numbers in found.items()}

    @cached_property
    def results(self) -> tuple[int, ...]:
        """Tensors that must lie in slow memory in the end."""
        return tuple(tensor for tensor in self.made if tensor not in self.readers)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operations in an order in which each comes after those that it reads of, first ones first."""
        waiting = {number: len(before) for number, before in self._before(self.maker).items()}
        order: list[int] = []
        while waiting:
            number = min(one for one, many in waiting.items() if not many)
            del waiting[number]
            order.append(number)
            for reader in self.readers.get(self.made[number], ()):
                waiting[reader] -= 1
        return tuple(order)

    @cached_property
    def place(self) -> dict[int, int]:
        """Where an operation stands in `order`."""
        return {number: place for place, number in enumerate(self.order)}

    def depth(self, number: int) -> int:
        """Return how many products a MatMul adds up for an element; 0 for others."""
        return self.widths[self.inputs[number][0]] if self.op_types[number] == "MatMul" else 0

    def elements(self, tensor: int) -> int:
        """Return the elements of a tensor."""
        return self.widths[tensor] * self.heights[tensor]

    @cached_property
    def native_depth(self) -> int:
        """Most products that are added up in one step: as wide as the array, whose sides are equal."""
        return min(self.native_granularity)

    @cached_property
    def scale(self) -> int:
        """Ticks in a unit of time: what makes every time a whole number, or as many as can be counted.

        Where they are fewer, products and transfers take begun ticks as whole ones.
        """
        depths = {depth for number in range(len(self.inputs)) if (depth := self.depth(number))}
        parts = sorted(
            depths | {min(native, depth) for native in self.native_granularity for depth in depths}
        )
        bandwidth = self.slow_memory_bandwidth
        known, begun = self._known
        if known * (exact := lcm(*parts) * bandwidth) <= MAX_TICKS:
            return exact
        most = (MAX_TICKS - begun) // known
        shared = 1
        for part in (bandwidth, *reversed(parts)):
            if lcm(shared, part) <= most:
                shared = lcm(shared, part)
        return most // shared * shared

    @cached_property
    def unit(self) -> int:
        """Ticks in which `per` elements are moved."""
        return self.scale // gcd(self.scale, self.slow_memory_bandwidth)

    @cached_property
    def per(self) -> int:
        """How many elements are moved in a whole number of ticks; 1 but for times that are hard to count."""
        return self.slow_memory_bandwidth // gcd(self.scale, self.slow_memory_bandwidth)

    def moving(self, elements: Any) -> Any:
        """Return the whole ticks in which elements are moved, of a number or of an array of them."""
        return elements // self.per * self.unit + elements % self.per * self.unit // self.per

    @cached_property
    def _known(self) -> tuple[int, int]:
        """Return the time of a plan, and ticks that begin in it at most.

        It runs each operation by itself, in native tiles or what of these fits, one product in a step.
        Where an operation does not fit so, all plans take less, also those in the smallest tiles.
        """
        native_width, native_height = self.native_granularity
        time, begun, fits = 1, 0, True
        for number, (tensor,) in enumerate(self.outputs):
            width, height = self.widths[tensor], self.heights[tensor]
            w, h, depth = min(width, native_width), min(height, native_height), self.depth(number)
            operands = len(set(self.inputs[number]))

            def held(w: int, h: int, depth: int = depth, operands: int = operands) -> int:
                return w * h + (w + h if depth else operands * w * h)

            while held(w, h) > self.fast_memory_capacity and max(w, h) > 1:
                w, h = (-(-w // 2), h) if w > h else (w, -(-h // 2))
            fits &= held(w, h) <= self.fast_memory_capacity
            tiles = -(-width // w) * -(-height // h)
            moved = w * h + (depth * (w + h) if depth else operands * w * h)
            time += tiles * (self.base_costs[number] - (-moved // self.slow_memory_bandwidth))
            begun += tiles * 2 * max(depth, 1)
        if not fits:
            # A tensor may be asked for in nine ways for each of the depths, by each tile of the outputs.
            time *= 9 * len(self.inputs) ** 2 * max(self.elements(tensor) for tensor in self.made)
            begun *= 9 * len(self.inputs) ** 2 * max(self.elements(tensor) for tensor in self.made)
        return time, begun


def _shown(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"


def plain(graph: Graph) -> dict[str, Any]:
    """Return the graph as the contest's JSON object."""
    return {name: _listed(getattr(graph, name)) for name in type(graph).model_fields}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
