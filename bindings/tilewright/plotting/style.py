"""How every picture looks, and how a figure becomes a file.

matplotlib is imported when something is drawn, not when a module is imported, and only through its
object API: there is no global figure and no display.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.files import check_writable, write_atomically
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, ORANGE, GREEN, SKY = "#0072B2", "#E69F00", "#009E73", "#56B4E9"
PURPLE, VERMILION, YELLOW = "#CC79A7", "#D55E00", "#F0E442"
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
"""Okabe and Ito's palette, which the colour-blind can tell apart, and the greys of text and lines."""

TENSORS = {"input": BLUE, "kernels": ORANGE, "output": GREEN}
"""Colours of the tensors that every room has; the others take the rest of the palette in turn."""

ACCEPTED = (".png", ".svg")
"""Suffixes of the files that `save` writes."""

DPI = 120
MAX_COLUMNS = 400
"""Most columns of a chart over steps; longer programs are drawn in blocks of steps."""
MAX_TENSORS = 6
"""Most tensors with a colour of their own; the smaller ones are added up."""

_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "legend.borderaxespad": 0.0,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "svg.hashsalt": "tilewright",
    "text.parse_math": False,  # Names of instances and methods are not formulas.
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in tilewright's style, whatever the user's matplotlibrc says; also a decorator."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


def suffix(path: str | Path, accepted: Sequence[str] = ACCEPTED) -> str:
    """Return a picture's suffix in lower case, before any work is done for it.

    Raises
    ------
    InputError
        If the suffix is not an accepted one or the file cannot be written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in accepted:
        raise InputError("plot", str(path), f"the file's name must end in {' or '.join(accepted)}")
    check_writable(path)
    return ending


@style()
def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, facecolor="white")


@style()
def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes to a figure, measured in inches from its upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


@style()
def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG or SVG, by the path's suffix: complete or not at all, the same bytes each time.

    Raises
    ------
    InputError
        If the suffix is another one or the file cannot be written.
    """
    ending = suffix(path)
    content = BytesIO()
    metadata = {"Software": None} if ending == ".png" else {"Date": None}
    figure.savefig(content, format=ending[1:], metadata=metadata)
    write_atomically(Path(path), content.getvalue())
