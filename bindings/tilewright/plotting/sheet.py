"""The page that shows a plan: a title, facts and warnings above, drawings below."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.plotting.style import GREY, INK, VERMILION, add_axes, checked_suffix, new_figure, save, style
from tilewright.plotting.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator.report import Report


class Line(NamedTuple):
    """A line of the heading.

    Attributes
    ----------
    words
        What it says.
    pitch
        Inches from its middle to that of the next line.
    points
        Size of its letters.
    weight, colour
        Of its letters.
    """

    words: str
    pitch: float
    points: float
    weight: str
    colour: str


class FactColumns(NamedTuple):
    """How labelled facts stand in two columns.

    Attributes
    ----------
    pitch
        Inches from the first column to the second.
    label_width
        Inches from the begin of a label to that of its words.
    max_length
        Most characters of the words; longer ones are cut.
    """

    pitch: float
    label_width: float
    max_length: int


FACT_COLUMNS = FactColumns(pitch=6.4, label_width=0.95, max_length=64)


def warning(report: Report | None, reference: str = "the reference") -> str:
    """Say what is wrong with a plan, or nothing.

    Parameters
    ----------
    report
        What the simulator says of the plan; None where it was not asked.
    reference
        What the simulated numbers were compared with.
    """
    if report is None:
        return ""
    if report.violation is not None:
        return f"breaks a rule: {report.violation}"
    return f"the numbers differ from {reference}" if report.numeric is False else ""


class Sheet:
    """A figure with a heading, on which axes are placed in inches.

    The height of the heading is known before the size of the figure: a room reads `top`, computes how large
    its drawings are, makes the figure (`create`) and places axes on it (`axes`).

    Parameters
    ----------
    title
        Headline; at most two lines of it are shown.
    facts
        What stands below it, in small letters.
    report
        What the simulator says of the plan: a broken rule becomes a warning.
    labelled
        More facts, each with a label, in two columns below the warnings.
    columns
        How those stand.
    title_length, title_pitch
        Most characters of a line of the headline, and inches from one to the next.
    reference
        What the simulated numbers were compared with.

    Attributes
    ----------
    top
        Inches from the upper edge at which the heading ends.
    figure
        The figure, once it is made.
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[str] = (),
        report: Report | None = None,
        *,
        labelled: Sequence[tuple[str, str]] = (),
        columns: FactColumns = FACT_COLUMNS,
        title_length: int = 110,
        title_pitch: float = 0.26,
        reference: str = "the reference",
    ) -> None:
        headline = textwrap.wrap(title, title_length)[:2] or [""]
        below = [line for fact in facts for line in textwrap.wrap(fact, 165)]
        warnings = textwrap.wrap(warning(report, reference), 140)[:3]
        self._lines = [Line(line, title_pitch, 12.5, "bold", INK) for line in headline]
        self._lines += [Line(line, 0.2, 9.5, "normal", INK) for line in below]
        self._lines += [Line(line, 0.2, 9.5, "bold", VERMILION) for line in warnings]
        self._labelled, self._columns = labelled, columns
        self._labelled_top = 0.3 + sum(line.pitch for line in self._lines)
        self._labelled_rows = -(-len(labelled) // 2)
        self.top = self._labelled_top + 0.2 * self._labelled_rows
        self.figure: Figure

    @style()
    def create(self, width: float, height: float) -> Figure:
        """Make the figure, its size in inches, and write the heading into its upper left corner."""
        self.figure = new_figure(width, height)
        y = 0.3
        for line in self._lines:
            self.write(0.3, y, line.words, fontsize=line.points, fontweight=line.weight, color=line.colour)
            y += line.pitch
        for number, (label, words) in enumerate(self._labelled):
            column, row = divmod(number, self._labelled_rows)
            x, y = 0.3 + self._columns.pitch * column, self._labelled_top + 0.2 * row
            self.write(x, y, label, color=GREY)
            self.write(x + self._columns.label_width, y, shortened(words, self._columns.max_length))
        return self.figure

    def write(self, left: float, top: float, words: str, **looks: Any) -> None:
        """Write a line of text, its left end and middle in inches from the upper left corner."""
        width, height = self.figure.get_size_inches()
        self.figure.text(left / width, 1 - top / height, words, va="center", **looks)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Place axes, measured in inches from the upper left corner."""
        return add_axes(self.figure, left, top, width, height)

    def save(self, path: str | Path) -> None:
        """Write the figure as PNG, SVG or PDF, by the path's suffix.

        Raises
        ------
        InputError
            If the suffix is another one or the file cannot be written.
        """
        save(self.figure, path)


def writer(sheet: Callable[..., Figure]) -> Callable[..., None]:
    """Return the function that writes a room's sheets into files: `core.room.Pictures.draw`."""

    def draw(problem: Any, plan: Any, report: Report, path: str | Path, *, title: str | None = None) -> None:
        checked_suffix(path)
        save(sheet(problem, plan, report, title=title), path)

    return draw
