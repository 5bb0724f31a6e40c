"""Published tables and figures of the S1 paper on grouping, printed beside ours."""

from tilewright.papers.s1.tables import FIGURES, reproduce

__all__ = ["FIGURES", "reproduce"]
