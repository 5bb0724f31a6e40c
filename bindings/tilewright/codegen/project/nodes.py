"""The generated C of a network: sizes, descriptions of layers and operations, and the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.codegen.c_text import safe_text
from tilewright.codegen.numbers.quantised_operations import WIDE, OperationInput, QuantisedOperation
from tilewright.codegen.project_files import array_literal
from tilewright.simulator.arithmetic.integer_operation import AS_STORED, IntegerOperation
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, AnyLayer, Pool
from tilewright.tiling import Problem
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import K, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import Walk

REUSES = {"none": "KEEP_NOTHING", "tile": "KEEP_TILES", "halo": "KEEP_HALOS", "weights": "KEEP_WEIGHTS"}
"""Kinds of reuse, as the C calls them."""

ALIGNED = 8
"""Bytes at whose multiples weights and biases begin in their file."""


LayerPlan = DspPlan | NpuPlan
"""How a layer is executed."""


@dataclass(frozen=True)
class EmittedNode:
    """An operation with its plan, and the names that it has in C.

    Attributes
    ----------
    quantised
        What is computed.
    part, plan
        The problem of the tiling room that is executed, and its plan; None where the host does it.
    identifier
        Of its description.
    output
        Of the array that it writes.
    inputs
        Of the arrays that its sources are.
    bits
        Of the elements of these.
    read
        Bits of what it reads: the machine's `input` for a layer; operations read what layers give.
    """

    quantised: QuantisedOperation
    part: Problem | None
    plan: LayerPlan | OperationPlan | None
    identifier: str
    output: str
    inputs: tuple[str, ...]
    bits: tuple[int, ...]
    read: int

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.quantised.name

    @property
    def layer(self) -> AnyLayer:
        """What it does."""
        return self.quantised.layer

    @property
    def sources(self) -> tuple[OperationInput, ...]:
        """What it reads."""
        return self.quantised.sources

    @property
    def operation(self) -> IntegerOperation:
        """What it does, in integers."""
        return self.quantised.operation

    @property
    def geometry(self) -> Layer:
        """The layer as it is planned, whose padding may have that of a layer before it."""
        assert self.part is not None
        return self.part.one_layer

    @property
    def planned(self) -> Operation:
        """The operation between layers that is planned."""
        assert self.part is not None
        return self.part.one_operation

    @property
    def is_layer(self) -> bool:
        """Whether it is a convolution or fully connected layer."""
        return self.plan is not None and not isinstance(self.plan, OperationPlan)

    @property
    def on_host(self) -> bool:
        """Whether the host computes it."""
        return not self.is_layer and (self.plan is None or self.planned.on == "host")

    @property
    def gathered(self) -> bool:
        """Whether its input is written by itself: put together, in another scale or width, with a border."""
        if isinstance(self.layer, Add):  # whose operands are aligned as they are added
            return False
        changed = any(source.formats[0] != source.formats[1] for source in self.sources)
        return len(self.sources) > 1 or any(self.border) or changed or {*self.bits} != {self.read}

    @property
    def gathered_bits(self) -> int:
        """Bits of what is gathered in a finer scale than it is stored in; 0 where nothing is."""
        reads = zip(self.sources, self.operation.reads, strict=True) if self.gathered else ()
        return max((each.formats[1].bits - shift for each, (shift, bits) in reads if bits == WIDE), default=0)

    @property
    def sums_leave(self) -> bool:
        """Whether sums that are not complete are stored in the buffers of a tile."""
        raise NotImplementedError

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Zeros around each map of the input that are stored in external memory."""
        raise NotImplementedError

    @property
    def maps(self) -> tuple[int, ...]:
        """Maps of each source as the input has them, which a fully connected layer takes value by value."""
        flat = self.layer.kind == "fc"
        return tuple(prod(source.shape) if flat else source.shape[0] for source in self.sources)

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of the input, without a border."""
        if self.is_layer:
            return self.geometry.input[1:]
        rows, columns = self.layer.input[1:]
        return rows, columns


class DspNode(EmittedNode):
    """An operation on a DSP."""

    @property
    def sums_leave(self) -> bool:
        """Whether sums that are not complete are stored in the buffers of a tile."""
        if not isinstance(self.plan, DspPlan):
            return False
        assert self.part is not None
        nest = nest_of(self.geometry, self.part.machine)
        return nest.trips(self.plan.tile)[K] > 1

    @property
    def generated(self) -> bool:
        """Whether the zeros around the input are made on chip."""
        assert self.part is not None and isinstance(self.part.machine, DspMachine)
        return self.part.machine.padding == "generated"

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Zeros around each map of the input that are stored in external memory."""
        if not isinstance(self.plan, DspPlan):
            return 0, 0, 0, 0
        return (0, 0, 0, 0) if self.generated else self.geometry.padding

    @property
    def memory_bits(self) -> int:
        """Bits of one copy of its buffers on chip, as planned."""
        if self.part is None:
            return 0
        machine = self.part.machine
        assert isinstance(machine, DspMachine)
        if isinstance(self.plan, DspPlan):
            nest = nest_of(self.geometry, machine)
            return sum(nest.held(nest.step(self.plan.tile), self.plan.reuse).values()) * machine.unit_bits
        if isinstance(self.plan, OperationPlan) and not self.on_host:
            return sum(Walk(self.planned, self.plan).buffers.values()) * machine.operand_bits.output
        return 0


def read_scales(node: EmittedNode) -> list[str]:
    """Return how the values of each source are read that are gathered."""
    found = []
    for source, (shift, bits) in zip(node.sources, node.operation.reads, strict=True):
        kept = source.formats[1].bits if (shift, bits) == AS_STORED else min(bits, node.read)
        found.append(array_literal((0, shift, 1, kept)))
    return found


def stored_scale(operation: IntegerOperation) -> str:
    """Return how results become elements."""
    return array_literal((int(operation.relu), operation.shift, operation.divisor, operation.bits))


def layer_text(node: DspNode) -> list[str]:
    """Return the description of a layer."""
    layer, operation = node.geometry, node.operation
    assert node.part is not None and isinstance(node.plan, DspPlan)
    nest = nest_of(layer, node.part.machine)
    top, bottom, left, right = node.border
    rows, columns = node.plane
    before = (layer.padding[0], layer.padding[2]) if node.generated else (0, 0)
    relu = " and rectifier" if operation.relu else ""
    return [
        f"/* {safe_text(node.name)}: {layer.kernels} maps of {layer.output_plane[0]}x{layer.output_plane[1]} "
        f"from {layer.input[0]} by {layer.kernel[0]}x{layer.kernel[1]}{relu} */",
        f"static const layer_t {node.identifier} = {{",
        "    /*        " + ", ".join(LOOPS.upper()) + " */",
        f"    .size = {array_literal(nest.sizes)},",
        f"    .step = {array_literal(nest.step(node.plan.tile))},",
        f"    .order = {array_literal(('g' + node.plan.order).upper())},",
        f"    .reuse = {REUSES[node.plan.reuse]},",
        f"    .kernel = {array_literal(layer.kernel)}, .stride = {array_literal(layer.stride)}, "
        f".dilation = {array_literal(layer.dilation)},",
        f"    .plane = {array_literal((rows + top + bottom, columns + left + right))}, "
        f".before = {array_literal(before)},",
        f"    .accumulator_bits = {operation.sum_bits},",
        f"    .scale = {stored_scale(operation)},",
        "};",
    ]


def operation_text(node: EmittedNode, batch: int, works: bool = False) -> list[str]:
    """Return the description of an operation; with the work of a value, if cores count it."""
    layer, operation = node.layer, node.operation
    kernel, stride, before = (1, 1), (1, 1), (0, 0)
    if isinstance(layer, Pool):
        kernel, stride, before = layer.kernel, layer.stride, (layer.padding[0], layer.padding[2])
    aligned = [0] if node.gathered else [-shift for shift, _ in operation.reads]
    images, (maps, rows, columns) = batch, layer.output
    step: Sequence[int] = layer.output
    whole = 0
    if isinstance(node.plan, OperationPlan):
        step = node.plan.tile
        if not node.planned.windowed:  # a row of planes, each of which becomes a value
            images, maps, step, whole = 1, images * maps, (node.plan.tile[2], 1, 1), 1
    work = []
    if works and not node.on_host:
        work = [f"    .work = {node.planned.work // (batch * prod(layer.output))},"]
    what = "on the host" if node.on_host else "tile by tile"
    return [
        f"/* {safe_text(node.name)}: {operation.kind.replace('_', ' ').lower()}, {what} */",
        f"static const operation_t {node.identifier} = {{",
        f"    .function = {operation.kind},",
        f"    .images = {images}, .maps = {maps}, .rows = {rows}, .columns = {columns},",
        f"    .step = {array_literal(step)},",
        f"    .input_count = {len(aligned)}, .aligned = {array_literal(aligned)},",
        f"    .plane = {array_literal(node.plane)}, .whole = {whole},",
        f"    .kernel = {array_literal(kernel)}, .stride = {array_literal(stride)}, "
        f".before = {array_literal(before)},",
        *work,
        f"    .scale = {stored_scale(operation)},",
        "};",
    ]
