"""The generated C of a network: sizes, descriptions of layers and operations, and the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.codegen.c_text import safe_text
from tilewright.codegen.project.nodes import EmittedNode, geometry
from tilewright.codegen.project_files import array_literal
from tilewright.simulator.arithmetic.fixed_point import Format
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork
from tilewright.spec.network import Add, Pool
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import K, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import Walk

REUSES = {"none": "KEEP_NOTHING", "tile": "KEEP_TILES", "halo": "KEEP_HALOS", "weights": "KEEP_WEIGHTS"}
"""Kinds of reuse, as the C calls them."""

ALIGNED = 8
"""Bytes at whose multiples weights and biases begin in their file."""


@dataclass(frozen=True)
class Named:
    """A node with the names that it has in C.

    Attributes
    ----------
    name
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

    node: EmittedNode
    name: str
    output: str
    inputs: tuple[str, ...]
    bits: tuple[int, ...]
    read: int

    @property
    def gathered(self) -> bool:
        """Whether its input is written by itself: put together, in another scale or width, with a border."""
        node = self.node
        if isinstance(node.layer, Add):  # whose operands are aligned as they are added
            return False
        changed = any(source.formats[0] != source.formats[1] for source in node.sources)
        return len(node.sources) > 1 or any(self.border) or changed or {*self.bits} != {self.read}

    @property
    def sums_leave(self) -> bool:
        """Whether sums that are not complete are stored in the buffers of a tile."""
        node = self.node
        if not isinstance(node.plan, DspPlan):
            return False
        assert node.part is not None
        nest = nest_of(geometry(node), node.part.machine)
        return nest.trips(node.plan.tile)[K] > 1

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Zeros around each map of the input that are stored in external memory."""
        if not isinstance(self.node.plan, DspPlan):
            return 0, 0, 0, 0
        return (0, 0, 0, 0) if _generated(self.node) else geometry(self.node).padding

    @property
    def maps(self) -> tuple[int, ...]:
        """Maps of each source as the input has them, which a fully connected layer takes value by value."""
        flat = self.node.layer.kind == "fc"
        return tuple(prod(source.shape) if flat else source.shape[0] for source in self.node.sources)

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of the input, without a border."""
        layer = self.node.layer
        if isinstance(self.node.plan, DspPlan):
            return geometry(self.node).input[1:]
        rows, columns = layer.input[1:]
        return rows, columns


def _generated(node: EmittedNode) -> bool:
    """Whether the zeros around the input are made on chip."""
    assert node.part is not None and isinstance(node.part.machine, DspMachine)
    return node.part.machine.padding == "generated"


def scale(fraction: int, to: Format, relu: bool = False, divisor: int = 1) -> str:
    """Return how sums of some fractional length become values of a format."""
    return array_literal((int(relu), fraction - to.fraction, divisor, to.bits))


def layer_text(named: Named, network: IntegerNetwork) -> list[str]:
    """Return the description of a layer."""
    node, layer = named.node, geometry(named.node)
    assert node.part is not None and isinstance(node.plan, DspPlan)
    nest, own = nest_of(layer, node.part.machine), network.layers[node.name]
    generated = _generated(node)
    top, bottom, left, right = named.border
    rows, columns = named.plane
    before = (layer.padding[0], layer.padding[2]) if generated else (0, 0)
    relu = " and rectifier" if node.relu else ""
    return [
        f"/* {safe_text(node.name)}: {layer.kernels} maps of {layer.output_plane[0]}x{layer.output_plane[1]} "
        f"from {layer.input[0]} by {layer.kernel[0]}x{layer.kernel[1]}{relu} */",
        f"static const layer_t {named.name} = {{",
        "    /*        " + ", ".join(LOOPS.upper()) + " */",
        f"    .size = {array_literal(nest.sizes)},",
        f"    .step = {array_literal(nest.step(node.plan.tile))},",
        f"    .order = {array_literal(('g' + node.plan.order).upper())},",
        f"    .reuse = {REUSES[node.plan.reuse]},",
        f"    .kernel = {array_literal(layer.kernel)}, .stride = {array_literal(layer.stride)}, "
        f".dilation = {array_literal(layer.dilation)},",
        f"    .plane = {array_literal((rows + top + bottom, columns + left + right))}, "
        f".before = {array_literal(before)},",
        f"    .accumulator_bits = {own.accumulator},",
        f"    .scale = {scale(own.fraction, network.formats[node.tensor], node.relu)},",
        "};",
    ]


def operation_text(named: Named, network: IntegerNetwork, batch: int) -> list[str]:
    """Return the description of an operation."""
    node, layer = named.node, named.node.layer
    fractions = [source.formats[0].fraction for source in node.sources]
    finest = max(fractions)
    aligned = [finest - each for each in fractions]
    function, kernel, stride, before, divisor = (
        "COPY" if layer.kind == "map" else "ADD",
        (1, 1),
        (1, 1),
        (0, 0),
        1,
    )
    if isinstance(layer, Pool):
        function = "MAX_POOL" if layer.op == "max" else "AVERAGE_POOL"
        kernel, stride, before = layer.kernel, layer.stride, (layer.padding[0], layer.padding[2])
        divisor = prod(kernel) if layer.op == "average" else 1
    count = 1 if named.gathered else len(node.sources)
    images, (maps, rows, columns) = batch, node.shape
    step: Sequence[int] = node.shape
    whole = 0
    if isinstance(node.plan, OperationPlan):
        step = node.plan.tile
        if not operation_of(node).windowed:  # a row of planes, each of which becomes a value
            images, maps, step, whole = 1, images * maps, (node.plan.tile[2], 1, 1), 1
    if named.gathered:
        finest, aligned = node.sources[0].formats[1].fraction, [0]
    what = "on the host" if node.plan is None or operation_of(node).on == "host" else "tile by tile"
    return [
        f"/* {safe_text(node.name)}: {function.replace('_', ' ').lower()}, {what} */",
        f"static const operation_t {named.name} = {{",
        f"    .function = {function},",
        f"    .images = {images}, .maps = {maps}, .rows = {rows}, .columns = {columns},",
        f"    .step = {array_literal(step)},",
        f"    .input_count = {count}, .aligned = {array_literal(aligned)},",
        f"    .plane = {array_literal(named.plane)}, .whole = {whole},",
        f"    .kernel = {array_literal(kernel)}, .stride = {array_literal(stride)}, "
        f".before = {array_literal(before)},",
        f"    .scale = {scale(finest, network.formats[node.tensor], node.relu, divisor)},",
        "};",
    ]


def operation_of(node: EmittedNode) -> Operation:
    """Return the operation that is planned."""
    assert node.part is not None
    return node.part.one_operation


def memory_bits(node: EmittedNode) -> int:
    """Return the bits of one copy of a node's buffers on chip, as planned."""
    if node.part is None:
        return 0
    machine = node.part.machine
    assert isinstance(machine, DspMachine)
    if isinstance(node.plan, DspPlan):
        nest = nest_of(geometry(node), machine)
        return sum(nest.held(nest.step(node.plan.tile), node.plan.reuse).values()) * machine.unit_bits
    if isinstance(node.plan, OperationPlan) and operation_of(node).on != "host":
        return sum(Walk(operation_of(node), node.plan).buffers.values()) * machine.operand_bits.output
    return 0
