"""The planned inner loops of tiles as vectors in C: bodies, what they spill, and arrays they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.codegen.c_text import align_comments, group_digits
from tilewright.codegen.project_files import array_literal
from tilewright.tiling.dsp.compute import AXES, kinds_of_tiles, loop_of, work_of
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop, TileWork, body_taps, extents, loop_costs
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import Nest
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.vector_loop import loop_costs as pool_costs
from tilewright.tiling.operations.vector_loop import work_of as work_of_pool
from tilewright.tiling.operations.vector_search import loop_of as operation_loop
from tilewright.tiling.operations.walk import Walk

POOLS = {"max_pool": "LARGEST", "average_pool": "ADD_UP"}
"""Operations between layers whose loops are in vectors, and what a body does with each input."""

Unroll = tuple[int, ...]


def body_of(unit: VectorUnit, work: TileWork, loop: InnerLoop) -> Unroll:
    """Return the body on a tile, which it is cut to."""
    sizes = extents(unit, work, loop.vector)
    return tuple(min(u, size) for u, size in zip(loop.unroll, sizes, strict=True))


def lanes_limit(machine: DspMachine) -> str | None:
    """Say why GCC has no vectors of a machine's lanes, or None."""
    unit, most = machine.vector_unit, 2 ** (8 * machine.element_bytes - 1)
    assert unit is not None
    if unit.lanes & (unit.lanes - 1) or unit.lanes > most:
        bits = 8 * machine.element_bytes
        return f"GCC has vectors of a power of two of lanes; shuffles of {bits} bits tell {most} apart"
    return None


def sums_leave_the_chip(nest: Nest, plan: DspPlan) -> bool:
    """Whether sums are written before they are complete."""
    steps = tuple(np.array([step]) for step in nest.step(plan.tile))
    return bool(Tiles(nest, steps).traffic(plan.order, plan.reuse).partial[0])


def array_lines(planned: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the sizes of arrays that all of some loops need."""
    most = {name: max(each[name] for each in planned) for name in planned[0]}
    about = {
        "LAID_INPUT": "elements of a tile along the lanes",
        "LAID_SUMS": "vectors",
        "MOST_WEIGHTS": "vectors of a body",
    }
    pairs = [(f"#define {name} {size}", about.get(name, "")) for name, size in most.items()]
    return align_comments(pairs, "")


class EmittedVectors(NamedTuple):
    """The inner loop of a layer, or of a pool.

    Attributes
    ----------
    function
        What its body does, as `vectors.h` calls it.
    loop
        Of a pool with maps as images: inputs and outputs have them.
    work
        A full tile.
    kinds
        Sizes of all tiles, each with its body and the vectors that it spills.
    moved, multiplied
        Vectors that are loaded and stored, and multiplications of vectors, of all tiles, by the model.
    """

    function: str
    loop: InnerLoop
    unit: VectorUnit
    work: TileWork
    kinds: tuple[tuple[TileWork, Unroll, int], ...]
    moved: int
    multiplied: int

    @classmethod
    def of_pool(cls, operation: Operation, machine: DspMachine, plan: OperationPlan) -> EmittedVectors:
        """Return that of a planned pool."""
        assert machine.vector_unit is not None
        walk = Walk(operation, plan)
        loop, (sizes, kind) = operation_loop(operation, machine, walk), walk.kinds
        pool = work_of_pool(operation, machine.element_bytes)
        moved = [pool_costs(machine.vector_unit, pool, each, loop).transfers for each in sizes]
        as_image = {"c": "n"}
        vector, pipelined = (as_image.get(d, d) for d in (loop.vector, loop.pipelined))
        _, maps, rows, columns, _ = loop.unroll
        own = InnerLoop(vector, pipelined, (maps, 1, rows, columns, 1), loop.taps)
        works = [TileWork((c, 1, y, x, 1), 1, pool.kernel, pool.stride) for c, y, x in sizes]
        kinds = tuple((work, body_of(machine.vector_unit, work, own), 0) for work in works)
        total = sum(moved[number] for number in kind.tolist())
        return cls(POOLS[operation.op], own, machine.vector_unit, works[0], kinds, total, 0)

    @classmethod
    def of_layer(cls, nest: Nest, plan: DspPlan) -> EmittedVectors:
        """Return that of a planned layer."""
        unit = nest.machine.vector_unit
        assert unit is not None
        loop, step = loop_of(nest, plan), nest.step(plan.tile)
        kinds: dict[TileWork, tuple[Unroll, int]] = {}
        moved = multiplied = 0
        for kind in kinds_of_tiles(nest, step):
            work = work_of(nest, kind.sizes)
            costs = loop_costs(unit, work, loop)
            kinds[work] = body_of(unit, work, loop), costs.spilled
            moved += kind.number * costs.total(first=kind.first, last=kind.last)[1]
            multiplied += kind.number * costs.macs
        every = tuple((work, *rest) for work, rest in kinds.items())
        return cls("MULTIPLY", loop, unit, work_of(nest, step), every, moved, multiplied)

    @property
    def body(self) -> Unroll:
        """The body of a full tile."""
        return body_of(self.unit, self.work, self.loop)

    @property
    def taps(self) -> tuple[int, int]:
        """Kernel rows and columns in the body."""
        return body_taps(self.work.kernel, self.loop.taps)

    def sizes(self) -> dict[str, int]:
        """Return how many elements or vectors of each array a tile takes, by the array's name in C."""
        lanes, vector, work = self.unit.lanes, self.loop.vector, self.work
        wide = [lanes if d == vector else 1 for d in DIMENSIONS]
        body = self.body
        padded = [-(-e // u) * u for e, u in zip(extents(self.unit, work, vector), body, strict=True)]
        spans, in_body, pieces = [], [], 1
        for axis in range(2):
            d, stride, dilation = 2 + axis, work.stride[axis], work.dilation[axis]
            spans.append((padded[d] * wide[d] - 1) * stride + (work.kernel[axis] - 1) * dilation + 1)
            reach = (self.taps[axis] - 1) * dilation + 1
            in_body.append((body[d] - 1) * stride + reach)
            if DIMENSIONS[d] == vector:
                pieces = -(-((lanes - 1) * stride + reach) // lanes) + 1
                in_body[axis] = body[d] * pieces
        n, c, y, x, k = padded
        inputs = n * wide[0] * k * wide[4] * prod(spans)
        window = prod(work.kernel)
        shifted = 1
        if vector in "yx":
            axis = "yx".index(vector)
            shifted = body[0] * body[4] * in_body[1 - axis] * body[2 + axis] * self.taps[axis]
        return {
            "LAID_INPUT": work.groups * inputs + (pieces + 1) * lanes,
            "LAID_WEIGHTS": work.groups * c * wide[1] * k * wide[4] * window,
            "LAID_SUMS": work.groups * n * c * y * x,
            "MOST_WEIGHTS": body[1] * body[4] * prod(self.taps) if vector in "ck" else 1,
            "MOST_INPUT_VECTORS": 1 if vector == "c" else body[0] * body[4] * prod(in_body),
            "MOST_SHIFTED": shifted,
            "MOST_SUMS": prod(body[:4]),
        }

    def text(self, name: str) -> list[str]:
        """Return the description of the loop, and the function that runs it on a tile."""
        loop, work = self.loop, self.work
        own = [work.stride[0], work.stride[1], work.dilation[0], work.dilation[1]]
        kept = int(self.unit.sums == "kept" and loop.pipelined == "k")
        rest = ", ".join(map(str, [*self.taps, *own, kept]))
        dimensions = f"{self.function}, V{loop.vector.upper()}, V{loop.pipelined.upper()}"
        body = ", ".join(map(str, self.body))
        told, planned = str(loop), f"Planned: {group_digits(self.moved)} vectors loaded and stored"
        if self.function == "MULTIPLY":
            planned += f", {group_digits(self.multiplied)} multiplied"
        else:
            told += "; maps are called n"
        lines = [
            f"/* Inner loop: {told}. */",
            f"/* {planned}. */",
            f"static void {name}_tile(const work_t *w)",
            "{",
        ]
        run = f"run_body(w, {dimensions}, {body}, {rest});"
        if all(each == self.body for _, each, _ in self.kinds):
            lines.append(f"    {run}")
        else:
            cut = ", ".join(f"w->unroll[{d}]" for d in range(len(AXES)))
            lines += [
                f"    if (is_whole(w, {body}))",
                f"        {run}",
                "    else /* a tile at the edge */",
                f"        run_body(w, {dimensions}, {cut}, {rest});",
            ]
        lines += ["}", ""]
        spills = [array_literal((array_literal(work.sizes), some)) for work, _, some in self.kinds if some]
        if spills:
            lines += [f"static const spill_t {name}_spills[] = {array_literal(spills)};", ""]
        given = f"{name}_spills" if spills else "NULL"
        return [
            *lines,
            f"static const inner_loop_t {name}_loop = {{",
            f"    .vector = V{loop.vector.upper()}, .unroll = {array_literal(self.body)},",
            f"    .in_parts = {int(self.taps != work.kernel)},",
            f"    .run = {name}_tile,",
            f"    .spill_count = {len(spills)}, .spills = {given},",
            "};",
        ]
