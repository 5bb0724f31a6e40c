"""Reproduce tables and figures of the tiling papers: the imaging DSP's thesis, the multicore NPU's paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilewright.tiling import reproduce_idsp, reproduce_npu

FIGURES = {**reproduce_idsp.FIGURES, **reproduce_npu.FIGURES}
"""What `reproduce` makes."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Callable[[str], None]) -> None:
    """Make one of `FIGURES`."""
    paper = reproduce_npu if figure in reproduce_npu.FIGURES else reproduce_idsp
    paper.reproduce(figure, time_limit=time_limit, folder=folder, say=say)
