"""The generated C of layers on the cores of an NPU: what each core computes, tiles, sizes of memories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from tilewright.codegen.c_text import align_comments, safe_text
from tilewright.codegen.project.machine import element_lines, most_inputs
from tilewright.codegen.project.nodes import EmittedNode, stored_scale
from tilewright.codegen.project_files import array_literal, machine_header
from tilewright.tiling.npu.cost import cost
from tilewright.tiling.npu.cut import Cut, Span, cut_of, quotient
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.operations.npu import NpuUnit
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import OUTPUT, Walk

MEMORIES = {"input": "MB0", "weights": "MB1", "output": "MB2"}
"""What the memories of a core are called, by operand."""


class Counts(NamedTuple):
    """What the program must count of a part."""

    bytes: int = 0
    bursts: int = 0
    cycles: int = 0


class CoresNode(EmittedNode):
    """An operation on an NPU."""

    @property
    def machine(self) -> NpuMachine:
        """The machine."""
        assert self.part is not None and self.part.machine.kind == "npu"
        return self.part.machine

    @cached_property
    def cut(self) -> Cut:
        """A layer as it is cut among the cores."""
        assert isinstance(self.plan, NpuPlan)
        return cut_of(self.geometry, self.machine, self.plan.partition)

    @cached_property
    def walk(self) -> Walk:
        """The tiles of an operation between layers."""
        assert isinstance(self.plan, OperationPlan)
        return Walk(self.planned, self.plan)

    @property
    def sums_leave(self) -> bool:
        """Whether a core keeps sums that are not complete: it adds one input map after the other."""
        return self.is_layer and self.cut.maps > 1

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Zeros around each map of the input in external memory; columns that no output needs are left out.

        So rows follow each other where a tile has all columns, as the model counts its bursts.
        """
        if not self.is_layer:
            return 0, 0, 0, 0
        top, bottom, left, _ = self.geometry.padding
        width = int(self.cut.reach(1, self.geometry.output_plane[1]))
        return top, bottom, left, width - left - self.geometry.input[2]

    @property
    def held_bits(self) -> dict[str, int]:
        """Bits that the memories of a core hold of it at most, by operand."""
        if self.plan is None or self.on_host:
            return dict.fromkeys(MEMORIES, 0)
        if isinstance(self.plan, NpuPlan):
            need = self.cut.need(self.cut.step(self.plan.tile), self.plan.schedule)
            held = self.machine.held_bits(self.cut.maps)
            return {operand: int(need[operand]) * held[operand] for operand in MEMORIES}
        # A tile is dealt out to all cores.
        cores, buffers = self.machine.tles * self.machine.tlts, self.walk.buffers
        elements = {"input": sum(buffers.values()) - buffers[OUTPUT], "weights": 0, "output": buffers[OUTPUT]}
        bits = self.machine.operand_bits.output
        return {operand: quotient(each, cores) * bits for operand, each in elements.items()}

    @property
    def counts(self) -> Counts:
        """What it moves and computes, as planned."""
        if self.plan is None or self.on_host:
            return Counts()
        if isinstance(self.plan, NpuPlan):
            cycles, size, bursts = cost(self.cut, self.plan).counts
        else:
            cycles, size, bursts = NpuUnit(self.machine, self.planned).counts(self.walk)
        return Counts(size, bursts, cycles)


def machine_text(machine: NpuMachine, image: int, nodes: Sequence[CoresNode]) -> str:
    """Return `machine.h` of an NPU, where images have some bits."""
    planned = {
        operand: max(1, quotient(max(each.held_bits[operand] for each in nodes), 8)) for operand in MEMORIES
    }
    there = {
        "input": machine.input_bytes,
        "weights": machine.weights_bytes,
        "output": machine.output_bytes,
    }
    sizes = [
        (f"#define {name}_BYTES {planned[operand]}", f"for {operand}, of {there[operand]:,}")
        for operand, name in MEMORIES.items()
    ]
    told = f"The machine: {machine.tles} TLEs of {machine.tlts} cores (TLTs), each with three memories."
    return machine_header(
        [told],
        [
            *element_lines(machine.operand_bits, image, nodes, "in the memory of a core"),
            f"#define TLES {machine.tles}",
            f"#define TLTS {machine.tlts} /* of each TLE */",
            "#define CORES (TLES * TLTS)",
            "",
            "/* Bytes that the plan takes of the memories of a core. */",
            *align_comments(sizes, ""),
            "",
            f"#define BURST_BYTES {machine.burst_bytes}",
            f"#define MACS_PER_CYCLE {machine.macs_per_cycle} /* of each core */",
            f"#define VECTOR_OPS_PER_CYCLE {machine.vector_ops_per_cycle or 1} /* of all cores */",
            f"#define CYCLE_PS {machine.cycle_ps}LL",
            f"#define BYTE_PS {machine.byte_ps}LL",
            f"#define BURST_PS {machine.burst_ps}LL",
            most_inputs(nodes),
        ],
        "ON_CHIP(core, memory, bytes) malloc(bytes)",
    )


def layer_text(node: CoresNode) -> list[str]:
    """Return the description of a layer, after a table of what each core computes."""
    layer, operation, cut = node.geometry, node.operation, node.cut
    assert isinstance(node.plan, NpuPlan)
    plan, step = node.plan, cut.step(node.plan.tile)
    tiles = [quotient(size, each) for size, each in zip(cut.sizes, step, strict=True)]
    top, bottom, left, right = node.border
    rows, columns = node.plane
    relu = " and rectifier" if operation.relu else ""
    shares = [
        f"    {{{_span(share.rows)}, {array_literal(map(_span, share.cores))}}}," for share in cut.shares
    ]
    return [
        f"/* {safe_text(node.name)}: {layer.kernels} maps of {layer.output_plane[0]}x{layer.output_plane[1]} "
        f"from {layer.input[0]} by {layer.kernel[0]}x{layer.kernel[1]}{relu}; {plan.partition}, "
        f"{plan.schedule} */",
        f"static const share_t {node.identifier}_shares[] = {{",
        "    /* rows of a TLE, filters of each of its cores */",
        *shares,
        "};",
        "",
        f"static const layer_t {node.identifier} = {{",
        f"    .images = {layer.batch}, .groups = {1 if cut.depthwise else layer.groups}, "
        f".depthwise = {int(cut.depthwise)},",
        f"    .filters = {cut.filters}, .maps = {cut.maps}, .rows = {layer.output_plane[0]}, "
        f".columns = {layer.output_plane[1]},",
        f"    .step = {array_literal(step)}, .tiles = {array_literal(tiles)},",
        f"    .weights_stay = {int(plan.schedule == 'WS')},",
        f"    .kernel = {array_literal(layer.kernel)}, .stride = {array_literal(layer.stride)}, "
        f".dilation = {array_literal(layer.dilation)},",
        f"    .plane = {array_literal((rows + top + bottom, columns + left + right))},",
        f"    .accumulator_bits = {operation.sum_bits},",
        f"    .scale = {stored_scale(operation)},",
        f"    .share_count = {len(cut.shares)}, .shares = {node.identifier}_shares,",
        "};",
    ]


def _span(span: Span) -> str:
    return array_literal(span)
