"""The elements of an emitted project: their bits, how they lie in files, and the generated `machine.h`."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c_text import align_comments
from tilewright.codegen.numbers.c_integers import C_BITS, are_packed, c_integer, c_sum_bits
from tilewright.codegen.project.nodes import EmittedNode
from tilewright.codegen.project.vectors import vector_lines
from tilewright.codegen.project_files import machine_header
from tilewright.spec.errors import InputError
from tilewright.spec.network import Add, Map, NamedLayer, Pool
from tilewright.tiling import Problem
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.widths import Widths


def machine_of(problem: Problem) -> DspMachine:
    """Return the machine; refuse elements that are wider than C's integers."""
    machine = problem.machine
    assert isinstance(machine, DspMachine)
    for operand, bits in machine.operand_bits.model_dump().items():
        if bits > C_BITS[-1]:
            limit = f"C has integers of at most {C_BITS[-1]} bits"
            if machine.bits is None:
                raise InputError("machine.element_bytes", machine.element_bytes, limit)
            raise InputError(f"machine.bits.{operand}", bits, limit)
    return machine


def image_bits(problem: Problem, bits: Widths) -> int:
    """Return the bits of images: those of inputs if only layers read them."""
    assert problem.network is not None
    same = {-1}
    for place, (layer, read) in enumerate(
        zip(problem.network.layers, problem.network.producers, strict=True)
    ):
        if isinstance(layer, NamedLayer) or not same & set(read):
            continue
        if isinstance(layer, Pool | Add) or (isinstance(layer, Map) and layer.op == "relu"):
            return bits.output
        same.add(place)
    return bits.input


def machine_text(machine: DspMachine, image: int, nodes: Sequence[EmittedNode]) -> str:
    """Return `machine.h`, where images have some bits."""
    bits = machine.operand_bits
    size = -(-max(each.memory_bits for each in nodes) * machine.copies // 8)
    inputs = max(len(each.sources) for each in nodes)
    accumulators = [each.operation.sum_bits for each in nodes if each.operation.kind == "CONV"]
    wide = c_sum_bits([bits.input + bits.weights, *accumulators])
    elements = [
        ("INPUT_BITS", bits.input, ""),
        ("WEIGHT_BITS", bits.weights, ""),
        ("OUTPUT_BITS", bits.output, ""),
        ("SUM_BITS", bits.partial, "of sums over some of the input maps, in buffers and external memory"),
        ("IMAGE_BITS", image, ""),
        (
            "PACKED",
            int(are_packed(bits.model_dump().values())),
            "whether some are no integers of C; all are without gaps",
        ),
    ]
    told = f"The machine: {machine.memory_bytes:,} bytes on chip, of which the plan takes {size:,}."
    return machine_header(
        [told],
        [
            "/* Bits of elements. */",
            *align_comments([(f"#define {name} {value}", about) for name, value, about in elements], ""),
            "",
            f"typedef {c_integer(image)} image_t; /* in data/images.bin */",
            f"typedef {c_integer(bits.output)} output_t; /* in data/outputs.bin */",
            f"typedef {c_integer(wide)} product_t;",
            f"typedef u{c_integer(wide)} sum_t; /* of which an accumulator keeps the last bits */",
            "",
            "/* Each buffer exists so many times: twice under double buffering. */",
            f"#define COPIES {machine.copies}",
            f"#define MEMORY_BYTES {max(1, size)}",
            f"#define MOST_INPUTS {inputs}",
            *(vector_lines(machine, nodes) if machine.vector_unit is not None else []),
        ],
        'ON_CHIP __attribute__((section(".scratchpad")))',
    )
