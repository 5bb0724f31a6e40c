"""Stacked bars, and what their colours mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch


def stack_bars(axes: Axes, y: Any, parts: Iterable[tuple[Any, Any]], *, height: float) -> Any:
    """Draw horizontal bars of several parts each, one part after the other.

    Parameters
    ----------
    y
        The middle of a bar, or an array of them.
    parts
        Length and colour of each part; the length is an array where there are several bars.
    height
        Of the bars, in units of y.

    Returns
    -------
    Where the bars end.
    """
    end: Any = 0
    for length, colour in parts:
        axes.barh(y, length, left=end, height=height, color=colour, linewidth=0)
        end = end + length
    return end


def colour_patches(colours: Iterable[tuple[str, str]]) -> list[Patch]:
    """Return a legend's handles that say what colours mean: label and colour of each."""
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=label) for label, colour in colours]


def explain_colours(
    axes: Axes, colours: Iterable[tuple[str, str]], side: Literal["left", "right"] = "left", **looks: Any
) -> None:
    """Say above axes, at one side, what colours mean: label and colour of each."""
    handles = colour_patches(colours)
    place = {"loc": f"lower {side}", "bbox_to_anchor": (float(side == "right"), 1.0)}
    axes.legend(handles=handles, **(place | {"ncols": len(handles), "fontsize": 8} | looks))
