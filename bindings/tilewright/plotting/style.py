"""How every picture looks, and how a figure becomes a file.

matplotlib is imported when something is drawn, not when a module is imported. Files are drawn through its
object API, without a global figure or a display; only `axes_or_new` asks pyplot, for a user who gave no axes.
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

OPERAND_COLOURS = {
    "input": BLUE,
    "weights": ORANGE,
    "output": GREEN,
    "partial sums": "#8ED3BD",
    "MACs": GREY,
}
"""Colours of what a layer moves and spends; sums that are not complete have a light one of the output's."""

ACCEPTED = (".png", ".svg", ".pdf")
"""Suffixes of the files that `save` writes."""

LIMIT_LINE: dict[str, Any] = {"color": INK, "linewidth": 1, "linestyle": (0, (5, 2))}
"""How a limit of the machine is drawn: a memory's capacity, the number of PEs."""

UNSTABLE = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}
"""What a format says that is not the picture's."""

DPI = 120
SHEET_WIDTH = 13.0
"""Inches of a sheet whose drawings do not need more."""
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
    "pdf.fonttype": 42,  # Letters that can be searched and edited.
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


def checked_suffix(path: str | Path, accepted: Sequence[str] = ACCEPTED) -> str:
    """Return the suffix of a picture's path in lower case, before any work is done for the picture.

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
    """Return an empty figure, its size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, facecolor="white")


@style()
def add_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes to a figure, measured in inches from its upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


@style()
def axes_or_new(
    ax: Axes | None,
    width: float,
    height: float,
    *,
    left: float = 0.75,
    right: float = 0.3,
    above: float = 0.4,
    below: float = 0.5,
) -> Axes:
    """Return the axes that a user gave, or new ones of a pyplot figure, which notebooks show.

    Parameters
    ----------
    ax
        The user's axes, or None. They lose their upper and right spines, where numbers may stand, and their
        grid lies below what is drawn, as on new axes.
    width, height
        Size of new axes in inches.
    left, right, above, below
        Margins around new axes in inches, for ticks, labels and the title.
    """
    if ax is not None:
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        return ax
    from matplotlib import pyplot

    size = left + width + right, above + height + below
    return add_axes(pyplot.figure(figsize=size, dpi=DPI, facecolor="white"), left, above, width, height)


def size_in_inches(axes: Axes) -> tuple[float, float]:
    """Return the width and height of axes in inches."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi


def leave_blank(axes: Axes, title: str, reason: str = "not simulated") -> None:
    """Leave axes empty and say why."""
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", color=GREY)


def tint(colour: str, share: float) -> tuple[float, ...]:
    """Return a colour mixed with white, `share` of it the colour."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def text_colour(colour: str) -> str:
    """Return black or white, whichever is readable on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"


@style()
def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as its path's suffix says: complete or not at all, the same bytes each time.

    Raises
    ------
    InputError
        If the suffix is another one or the file cannot be written.
    """
    ending = checked_suffix(path)
    content = BytesIO()
    figure.savefig(content, format=ending[1:], metadata={UNSTABLE[ending]: None})
    write_atomically(Path(path), content.getvalue())
