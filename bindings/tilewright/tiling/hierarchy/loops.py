"""The loops of a layer, the operands that they move, and how often they run."""

from __future__ import annotations

from typing import Literal

from tilewright.spec.layer import Layer

Operand = Literal["input", "weights", "output"]

OPERANDS: tuple[Operand, ...] = ("input", "weights", "output")

LOOPS = {
    "g": "groups",
    "n": "batch",
    "c": "output_maps",
    "y": "rows",
    "x": "columns",
    "k": "input_maps",
    "r": "kernel_rows",
    "s": "kernel_columns",
}
"""The loops of a layer: a letter for plans, a name for files. Output and input maps are those of a group."""

LETTERS = "".join(LOOPS)
"""The order in which sizes of blocks stand in arrays."""

USES = {"input": "gnyxkrs", "weights": "gckrs", "output": "gncyx"}
"""The loops that move each operand."""

STILL = {operand: "".join(loop for loop in LETTERS if loop not in loops) for operand, loops in USES.items()}
"""The loops that do not move each operand; each loop but ``g`` is in one of them."""

REDUCED = "krs"
"""The loops over which products are added up."""

AXES = (("y", "r"), ("x", "s"))
"""Loops over outputs and over the kernel that together move the input, vertically and horizontally."""


def extents(layer: Layer) -> dict[str, int]:
    """Return the iterations of each loop of a layer."""
    maps, rows, columns = layer.output
    sizes = (
        layer.groups,
        layer.batch,
        maps // layer.groups,
        rows,
        columns,
        layer.input[0] // layer.groups,
        *layer.kernel,
    )
    return dict(zip(LOOPS, sizes, strict=True))
