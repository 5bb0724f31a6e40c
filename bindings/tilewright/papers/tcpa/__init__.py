"""Published tables and figures of the paper on processor arrays, printed beside ours."""

from tilewright.papers.tcpa.tables import FIGURES, reproduce

__all__ = ["FIGURES", "reproduce"]
