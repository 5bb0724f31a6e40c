"""The inner loops of a network's layers and pools as vectors in C."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.inner_loops import (
    POOLS,
    EmittedVectors,
    array_lines,
    lanes_limit,
    sums_leave_the_chip,
)
from tilewright.codegen.numbers.c_integers import C_BITS, c_integer
from tilewright.codegen.project.nodes import EmittedNode
from tilewright.codegen.project_files import join_sources
from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.compute import loop_of
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.vector_loop import has_loop

TILES = {
    False: ("layers_elements.c", []),
    True: ("layers_vectors.c", ["operations_vectors.c"]),
}
"""What computes tiles of layers, and further of operations: element by element, or in vectors."""


def layers_source(in_vectors: bool) -> str:
    """Return `layers.c`, which computes tiles element by element or in vectors."""
    of_layers, of_operations = TILES[in_vectors]
    names = [
        "layers_tiles.c",
        of_layers,
        "layers_run.c",
        "operations_values.c",
        "operations_part.c",
        *of_operations,
        "operations_tiles.c",
    ]
    return join_sources(*(("project", name) for name in names))


def refuse_vectors(machine: DspMachine, nodes: Sequence[EmittedNode]) -> None:
    """Refuse what there are no vectors in C for.

    Raises
    ------
    InputError
        For lanes that GCC has no vectors of; for sums in lanes that would leave the chip.
    """
    unit = machine.vector_unit
    assert unit is not None
    bits = 8 * machine.element_bytes
    if bits not in C_BITS:
        limit = f"vectors in C have elements of {', '.join(str(each // 8) for each in C_BITS)} bytes"
        raise InputError("machine.element_bytes", machine.element_bytes, limit)
    if (told := lanes_limit(machine)) is not None:
        raise InputError("machine.vector_unit.lanes", unit.lanes, told)
    for each in nodes:
        if isinstance(each.plan, DspPlan):
            nest = nest_of(each.geometry, machine)
            if loop_of(nest, each.plan).vector == "k" and sums_leave_the_chip(nest, each.plan):
                limit = (
                    f"layer {each.name}: input maps are in the lanes, and sums leave the chip before they "
                    "are complete: vectors whose lanes are not added up yet, for which the plan has no "
                    "transfers. There is no C for that; loops with other lanes are emitted"
                )
                raise InputError("plan.inner_loop.vector", "k", limit)


def has_vectors(node: EmittedNode) -> bool:
    """Whether an operation on a machine with a vector unit is computed in vectors: a layer, or a pool."""
    if isinstance(node.plan, DspPlan):
        return True
    planned = isinstance(node.plan, OperationPlan) and not node.on_host
    return planned and node.planned.op in POOLS and has_loop(node.planned)


def vectors_of(node: EmittedNode) -> EmittedVectors:
    """Return the inner loop of a node that has one."""
    assert node.part is not None and isinstance(node.part.machine, DspMachine)
    if isinstance(node.plan, DspPlan):
        return EmittedVectors.of_layer(nest_of(node.geometry, node.part.machine), node.plan)
    assert isinstance(node.plan, OperationPlan)
    return EmittedVectors.of_pool(node.planned, node.part.machine, node.plan)


def vector_lines(machine: DspMachine, nodes: Sequence[EmittedNode]) -> list[str]:
    """Return what `machine.h` says of the vector unit: lanes, and the sizes of arrays."""
    assert machine.vector_unit is not None
    return [
        "",
        "/* The vector unit. */",
        f"#define LANES {machine.vector_unit.lanes}",
        f"typedef {c_integer(8 * machine.element_bytes)} element_t;",
        *array_lines([vectors_of(each).sizes() for each in nodes if has_vectors(each)]),
    ]
