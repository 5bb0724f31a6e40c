"""What the loops, tensors, buffers and axes of a convolution are called in C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.tiling.dsp.nest import C, G, K, N, X, Y


class LoopNames(NamedTuple):
    """What belongs to a loop, by its name in C."""

    loop: str  # variable of the tile loop
    inner: str  # variable of the loop within a tile
    size: str  # iterations in all
    step: str  # those of a tile
    edge: str  # those of a tile that may be smaller
    items: str


NAMES: dict[int, LoopNames] = {
    G: LoopNames("g", "tg", "G", "TG", "groups", "channel groups"),
    N: LoopNames("o_n", "to_n", "O_n", "TO_n", "images", "images"),
    C: LoopNames("o_c", "to_c", "O_c", "TO_c", "maps", "output maps"),
    Y: LoopNames("o_y", "to_y", "O_y", "TO_y", "rows", "output rows"),
    X: LoopNames("o_x", "to_x", "O_x", "TO_x", "cols", "output columns"),
    K: LoopNames("k_c", "tk_c", "K_c", "TK_c", "channels", "input maps"),
}


@dataclass(frozen=True)
class ArrayAxis:
    """An axis of an operand's tensor and of its buffer.

    Attributes
    ----------
    loop
        The loop that moves along it; None for a kernel's rows and columns.
    whole, part
        Names of its sizes in external memory and on chip.
    item
        What follows what along it.
    """

    loop: int | None
    whole: str
    part: str
    item: str


def _axis(loop: int, item: str) -> ArrayAxis:
    return ArrayAxis(loop, NAMES[loop].size, NAMES[loop].step, item)


IMAGE, GROUP = _axis(N, "image"), _axis(G, "channel group")
IN_MAP, OUT_MAP = _axis(K, "input map"), _axis(C, "output map")
IN_ROW, IN_COL = ArrayAxis(Y, "I_y", "TI_y", "row"), ArrayAxis(X, "I_x", "TI_x", "column")
OUT_ROW, OUT_COL = _axis(Y, "row"), _axis(X, "column")
KERNEL_ROW, KERNEL_COL = ArrayAxis(None, "K_y", "K_y", "row"), ArrayAxis(None, "K_x", "K_x", "column")

AXES = {
    "input": (IMAGE, GROUP, IN_MAP, IN_ROW, IN_COL),
    "kernels": (GROUP, OUT_MAP, IN_MAP, KERNEL_ROW, KERNEL_COL),
    "output": (IMAGE, GROUP, OUT_MAP, OUT_ROW, OUT_COL),
}
FALLBACK = {"input": IN_MAP, "kernels": OUT_MAP, "output": OUT_MAP}
"""The axis that an operand of a single element keeps."""

SHORT = {"input": "in", "kernels": "w", "output": "out"}

CLIPPED: dict[int, tuple[str, str]] = {Y: ("top", "bottom"), X: ("left", "right")}
"""Names of the ends of the input under a tile that exists in external memory."""
