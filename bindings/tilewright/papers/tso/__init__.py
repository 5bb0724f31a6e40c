"""Published tables and figures of the paper on tensor slicing for multicore NPUs, printed beside ours."""

from tilewright.papers.tso.tables import FIGURES, reproduce

__all__ = ["FIGURES", "reproduce"]
