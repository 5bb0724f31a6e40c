"""Tables in pictures: columns as wide as their words, never cut, never over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tilewright.plotting.style import GREY, INK, PALE
from tilewright.plotting.text import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PITCH = 0.165
"""Inches from one line to the next."""

GAP = 0.16
"""Inches between two columns."""

POINTS = (8.0, 6.5)
"""Largest and smallest size of the letters."""

HINTED = 1.09
"""How much wider words may become where their letters are fitted to the pixels of a picture."""


class PlacedTable(NamedTuple):
    """A table whose size is known before there is a figure.

    Attributes
    ----------
    points
        Size of the letters.
    widths
        Inches of each column.
    """

    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    right: Sequence[bool]
    note: str
    points: float
    widths: list[float]

    @classmethod
    def within(
        cls,
        width: float,
        header: Sequence[str],
        lines: Sequence[Sequence[str]],
        right: Sequence[bool],
        note: str = "",
    ) -> PlacedTable:
        """Return a table in the largest letters with which it is no wider; in the smallest, if none is.

        Parameters
        ----------
        width
            Inches.
        right
            Of each column, whether its cells stand to the right.
        note
            What stands below the lines.
        """
        columns = zip(header, *lines, strict=True)
        ems = [HINTED * max(text_width(cell) for cell in set(column)) for column in columns]
        room = width - GAP * (len(header) - 1)
        points = min(POINTS[0], max(POINTS[1], 72 * room / sum(ems)))
        return cls(header, lines, right, note, points, [each * points / 72 for each in ems])

    @property
    def width(self) -> float:
        """Inches of all columns."""
        return sum(self.widths) + GAP * (len(self.widths) - 1)

    @property
    def height(self) -> float:
        """Inches of all lines."""
        return PITCH * (1.2 + len(self.lines) + bool(self.note))

    def draw(self, axes: Axes, title: str = "") -> None:
        """Write the table into axes of its width and height."""
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height / PITCH, 0)
        axes.set_title(title)
        left = 0.0
        for header, column, right, width in zip(
            self.header, zip(*self.lines, strict=True), self.right, self.widths, strict=True
        ):
            for row, cell in enumerate((header, *column)):
                axes.text(
                    left + width if right else left,
                    row + 0.5 + 0.2 * (row > 0),
                    cell,
                    ha="right" if right else "left",
                    va="center",
                    fontsize=self.points,
                    color=INK if row else GREY,
                    parse_math=False,
                )
            left += width + GAP
        axes.plot([0, self.width], [1.1, 1.1], color=PALE, linewidth=0.8)
        if self.note:
            axes.text(0, len(self.lines) + 1.7, self.note, va="center", fontsize=self.points, color=GREY)
