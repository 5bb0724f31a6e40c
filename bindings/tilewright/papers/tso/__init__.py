"""Table II and the figures of the paper on tensor slicing for multicore NPUs (TSO): its numbers and ours."""

from __future__ import annotations

from pathlib import Path

from tilewright.papers.figures import Say
from tilewright.papers.tso.bursts import print_bursts
from tilewright.papers.tso.drawn import figure_6, figure_7
from tilewright.papers.tso.fit_table import print_fit
from tilewright.papers.tso.plans import solved
from tilewright.papers.tso.table_2 import print_columns, print_comparison, print_predictions

FIGURES = {
    "tso": "the multicore NPU's paper: table II and its predictions, figures 1, 6 and 7",
    "tso-fit": "how the NPU's times are fitted on two columns of table II, and other readings (minutes)",
}
"""What `reproduce` makes."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`."""
    if figure == "tso-fit":
        print_fit(say)
        return
    networks = solved()
    for number, part in enumerate((print_columns, print_predictions, print_comparison, print_bursts)):
        if number:
            say("")
        part(networks, say)
    for name, draw in (("tso-figure6", figure_6), ("tso-figure7", figure_7)):
        path = folder / f"{name}.png"
        draw(networks, path)
        say(f"written: {path}")
