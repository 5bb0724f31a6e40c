"""The elements of an emitted project: their bits, how they lie in files, and the generated `machine.h`."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c_text import align_comments
from tilewright.codegen.numbers.c_integers import C_BITS, are_packed, c_integer, c_sum_bits
from tilewright.codegen.project.nodes import DspNode, EmittedNode
from tilewright.codegen.project.vectors import vector_lines
from tilewright.codegen.project_files import machine_header
from tilewright.spec.errors import InputError
from tilewright.spec.network import Add, Map, NamedLayer, Pool
from tilewright.tiling import Problem
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.widths import Widths


def refuse_wide(machine: DspMachine | NpuMachine) -> None:
    """Refuse elements that are wider than C's integers.

    Raises
    ------
    InputError
        Names the operand.
    """
    for operand, bits in machine.operand_bits.model_dump().items():
        if bits > C_BITS[-1]:
            limit = f"C has integers of at most {C_BITS[-1]} bits"
            if machine.bits is None:
                raise InputError("machine.element_bytes", machine.element_bytes, limit)
            raise InputError(f"machine.bits.{operand}", bits, limit)


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


def element_lines(bits: Widths, image: int, nodes: Sequence[EmittedNode], sums: str) -> list[str]:
    """Return the bits of elements, and the integers of C that hold them.

    Parameters
    ----------
    image
        Bits of images.
    sums
        Where sums lie that are not complete.
    """
    accumulators = [each.operation.sum_bits for each in nodes if each.operation.kind == "CONV"]
    wide = c_sum_bits([bits.input + bits.weights, *accumulators])
    packed = int(are_packed(bits.model_dump().values()))
    elements = [
        ("INPUT_BITS", bits.input, ""),
        ("WEIGHT_BITS", bits.weights, ""),
        ("OUTPUT_BITS", bits.output, ""),
        ("SUM_BITS", bits.partial, f"of sums over some of the input maps, {sums}"),
        ("IMAGE_BITS", image, ""),
        ("PACKED", packed, "whether some are no integers of C; all are without gaps"),
    ]
    return [
        "/* Bits of elements. */",
        *align_comments([(f"#define {name} {value}", about) for name, value, about in elements], ""),
        "",
        f"typedef {c_integer(image)} image_t; /* in data/images.bin */",
        f"typedef {c_integer(bits.output)} output_t; /* in data/outputs.bin */",
        f"typedef {c_integer(wide)} product_t;",
        f"typedef u{c_integer(wide)} sum_t; /* of which an accumulator keeps the last bits */",
        "",
    ]


def most_inputs(nodes: Sequence[EmittedNode]) -> str:
    """Return what says how many inputs an operation has at most."""
    return f"#define MOST_INPUTS {max(len(each.sources) for each in nodes)}"


def machine_text(machine: DspMachine, image: int, nodes: Sequence[DspNode]) -> str:
    """Return `machine.h` of a DSP, where images have some bits."""
    size = -(-max(each.memory_bits for each in nodes) * machine.copies // 8)
    told = f"The machine: {machine.memory_bytes:,} bytes on chip, of which the plan takes {size:,}."
    return machine_header(
        [told],
        [
            *element_lines(machine.operand_bits, image, nodes, "in buffers and external memory"),
            "/* Each buffer exists so many times: twice under double buffering. */",
            f"#define COPIES {machine.copies}",
            f"#define MEMORY_BYTES {max(1, size)}",
            most_inputs(nodes),
            *(vector_lines(machine, nodes) if machine.vector_unit is not None else []),
        ],
        'ON_CHIP __attribute__((section(".scratchpad")))',
    )
