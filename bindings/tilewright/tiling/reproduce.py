"""Reproduce tables and figures of the tiling papers: the imaging DSP's thesis, the multicore NPU's paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilewright.tiling import reproduce_idsp

FIGURES = {**reproduce_idsp.FIGURES}
"""What `reproduce` makes."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Callable[[str], None]) -> None:
    """Make one of `FIGURES`."""
    reproduce_idsp.reproduce(figure, time_limit=time_limit, folder=folder, say=say)
