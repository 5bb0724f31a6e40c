"""Published tables and figures of the paper on the compiler DNNVM, printed beside ours."""

from tilewright.papers.dnnvm.figures import FIGURES, reproduce

__all__ = ["FIGURES", "reproduce"]
