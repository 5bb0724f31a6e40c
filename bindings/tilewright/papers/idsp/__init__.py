"""Published tables and figures of the thesis on imaging DSPs, printed beside ours."""

from tilewright.papers.idsp.tables import FIGURES, reproduce

__all__ = ["FIGURES", "reproduce"]
