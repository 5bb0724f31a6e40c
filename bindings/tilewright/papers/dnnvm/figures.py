"""The DNNVM paper's table and figures beside ours, and what its networks gain at the optimum."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tilewright.papers.dnnvm.fit import print_fit
from tilewright.papers.dnnvm.optimum import print_optimum
from tilewright.papers.dnnvm.pairs import print_figure_5, print_figure_6
from tilewright.papers.dnnvm.table2 import print_table_2
from tilewright.papers.figures import Part, Say, make_parts

FIGURES = {
    "dnnvm": "the paper on the compiler DNNVM: all parts below but the fit (minutes)",
    "dnnvm-table2": "table 2: nodes, times of the compiler's stages, latency without and with fusion; ZU9",
    "dnnvm-figure5": "figure 5: a convolution and a pool of GoogLeNet, apart and fused",
    "dnnvm-figure6": "figure 6: a convolution and a sum of ResNet50, apart and fused",
    "dnnvm-optimum": "what the paper did not look at: proven optima of twelve networks (minutes)",
    "dnnvm-fit": "how the ZU2's bandwidth and overheads are fitted on table 2's baseline (minutes)",
}
"""What `reproduce` makes."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`; exact searches take at most `time_limit` seconds each."""
    parts: dict[str, Part] = {
        "dnnvm-table2": partial(print_table_2, time_limit=time_limit),
        "dnnvm-figure5": print_figure_5,
        "dnnvm-figure6": print_figure_6,
        "dnnvm-optimum": partial(print_optimum, time_limit=time_limit),
    }
    if figure == "dnnvm-fit":
        print_fit(say)
    else:
        make_parts(figure, "dnnvm", parts, folder, say)
