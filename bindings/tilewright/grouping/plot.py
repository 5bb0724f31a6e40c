"""Pictures of a grouping plan: patches by step, the input plane step by step, what it costs, an animation.

What is drawn is the program that the simulator executes, so a picture cannot disagree with a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.core.files import write_atomically
from tilewright.grouping.animation import animation
from tilewright.grouping.lowering import measured_objective
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.grouping.replay import PIXELS, Pixel, Replay, Scene, extent, patch_corners, replay
from tilewright.plotting import (
    GREY,
    INK,
    PALE,
    SHEET_WIDTH,
    Sheet,
    axes_or_new,
    dimensions,
    size_in_inches,
)
from tilewright.simulator import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

ACCEPTED = (*plotting.ACCEPTED, ".gif")
"""Suffixes of the files that `draw` writes."""

MARGIN = 0.75
"""Inches to the left and to the right of the drawings."""
PATCHES = 4.9
"""Inches of the drawing of the patches."""
REFERENCE = "the reference convolution"
"""With what the simulated numbers are compared."""


# The file ------------------------------------------------------------------------------------------


def draw(problem: Problem, plan: Plan, report: Report, path: str | Path, *, title: str | None = None) -> None:
    """Draw a plan: PNG, SVG and PDF are one sheet, GIF is an animation of the steps.

    A plan that breaks a rule is drawn up to the violation, which the title names.

    Parameters
    ----------
    report
        What the simulator says of the plan.
    path
        Where to write; the suffix chooses the format.
    title
        Heading, for example the instance's name; the layer's description when left out.

    Raises
    ------
    InputError
        If the suffix is not one of `ACCEPTED` or the file cannot be written.
    """
    ending = plotting.checked_suffix(path, ACCEPTED)
    if ending == ".gif":
        heading = *_heading(problem, report, plan, title), plotting.warning(report, REFERENCE)
        write_atomically(Path(path), animation(problem, plan, report, heading))
    else:
        plotting.save(sheet(problem, plan, report, title=title), path)


# Words ---------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what is grouped: the layer, what is unusual about it, and its patches."""
    layer = problem.layer
    kernels = f"{layer.kernels} kernel{'s' * (layer.kernels > 1)} {dimensions(*layer.kernel)}"
    what = f"convolution of {dimensions(*layer.input)} ({dimensions(*'CHW')}) with {kernels}"
    for name, value in (("stride", layer.stride), ("dilation", layer.dilation)):
        if value != (1, 1):
            what += f", {name} " + (str(value[0]) if len(set(value)) == 1 else dimensions(*value))
    if any(layer.padding):
        same = len(set(layer.padding)) == 1
        what += f", padding {layer.padding[0] if same else list(layer.padding)}"
    if layer.groups > 1:
        what += f", {layer.groups} channel groups"
    if layer.batch > 1:
        what += f", batch of {layer.batch}"
    return what + f"; {dimensions(*problem.grid)} patches, up to {problem.group_size} in a step"


def _measured(problem: Problem, plan: Plan, report: Report) -> str:
    """Say what a plan costs."""
    parts = [f"{plan.n_steps:,} step{'s' * (plan.n_steps != 1)}"]
    if report.loaded:
        loaded = int(report.loaded["input"].sum())
        parts.append(f"{loaded:,} input elements loaded")
    if report.violation is None and report.sequential is not None:
        meaning = "loads and compute" if problem.objective.minimise == "loads" else "duration"
        parts.insert(0, f"objective ({meaning}) {measured_objective(problem, report):,} cycles")
        needed = len(problem.needed_pixels) * problem.pixel_elements
        parts[-1] += f" ({loaded / needed:.2f} × the {needed:,} needed)" if needed else ""
    return "; ".join(parts)


def _heading(problem: Problem, report: Report, plan: Plan, title: str | None) -> tuple[str, str]:
    """Return the title, and below it what was decided at what cost, in one or two lines."""
    what, measured = _described(problem), _measured(problem, plan, report)
    if title is None:
        return what[0].upper() + what[1:], measured
    return title, f"{what}\n{measured}"


# The sheet -----------------------------------------------------------------------------------------


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet: patches by step, the input plane at telling steps, footprint, traffic, timelines."""
    replayed = replay(problem, plan, report)
    strip = _Strip.of(problem, replayed)
    head, below = _heading(problem, report, plan, title)
    page = Sheet(head, below.split("\n"), report, title_length=118, title_pitch=0.24, reference=REFERENCE)
    top = page.top + 0.08 + 0.35  # some air, and the titles of the first drawings
    strip_top = top + PATCHES + 0.95
    timelines_top = strip_top + 0.5 + strip.height + 0.15
    timeline_height = 0.35 if report.sequential is None else 0.95
    page.create(SHEET_WIDTH, timelines_top + 2 * timeline_height + 0.62 + 0.6)
    _place_patches(page, top, problem, replayed)
    _place_charts(page, top, problem, report)
    _place_strip(page, strip_top, problem, report, replayed, strip)
    width = SHEET_WIDTH - 2 * MARGIN
    plotting.timelines(
        page.axes(MARGIN, timelines_top, width, timeline_height),
        page.axes(MARGIN, timelines_top + timeline_height + 0.62, width, timeline_height),
        report,
        titles=("(e) One action after the other", "(f) Engines beside each other, double buffering"),
    )
    return page.figure


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the output plane, its patches coloured by the step that computes them.

    Parameters
    ----------
    report
        What the simulator says of the plan; one that breaks a rule is drawn up to the violation.
    ax
        Where to draw; new axes of a pyplot figure when left out.

    Returns
    -------
    The axes.
    """
    replayed = replay(problem, plan, report)
    rows, cols = problem.grid
    if ax is None:
        across, down = _cell_size(problem.grid, PATCHES, PATCHES)
        ax = axes_or_new(None, max(across * cols, 1.5), max(down * rows, 1.5), right=0.9)
    cells = _Cells.of(problem.grid, replayed.n_steps, *size_in_inches(ax))
    image = _patches(ax, problem, replayed, cells)
    if max(rows, cols) <= 6 * min(rows, cols):
        ax.set_aspect("equal")
    if not cells.numbered:
        figure = ax.get_figure(root=True)
        assert figure is not None
        _label_steps(figure.colorbar(image, ax=ax), replayed.n_steps)
    return ax


def _place_charts(page: Sheet, top: float, problem: Problem, report: Report) -> None:
    """Draw beside the patches what is on chip at each step, and what moves."""
    left = MARGIN + PATCHES + 1.45
    width, height = SHEET_WIDTH - MARGIN - left + 0.35, (PATCHES - 0.55) / 2
    footprint = page.axes(left, top, width, height)
    plotting.footprint_and_traffic(
        footprint,
        page.axes(left, top + height + 0.55, width, height),
        report,
        capacity=problem.machine.memory,
        titles=("(b) On chip", "(c) Traffic"),
    )
    footprint.tick_params(labelbottom=False)


# Patches -------------------------------------------------------------------------------------------


class _Cells(NamedTuple):
    """How patches are drawn.

    Attributes
    ----------
    across, down
        Inches of a patch.
    points
        Size of a step's number that fits into it.
    numbered
        Whether patches have the numbers of their steps.
    """

    across: float
    down: float
    points: float
    numbered: bool

    @classmethod
    def of(cls, grid: tuple[int, int], n_steps: int, width: float, height: float) -> _Cells:
        """Choose it for a box of `width` x `height` inches."""
        across, down = _cell_size(grid, width, height)
        digits = len(str(max(n_steps, 1)))
        points = 72 * min(across / (0.62 * digits + 0.35), down / 1.25)
        numbered = points >= 4.8 and grid[0] * grid[1] <= 2500
        if not numbered:  # Space for the colour bar.
            across, down = _cell_size(grid, width - 0.45, height)
        return cls(across, down, points, numbered)


def _place_patches(page: Sheet, top: float, problem: Problem, replayed: Replay) -> None:
    """Draw the patches, and a scale of colours beside them where they have no numbers."""
    rows, cols = problem.grid
    cells = _Cells.of(problem.grid, replayed.n_steps, PATCHES, PATCHES)
    width, height = cells.across * cols, cells.down * rows
    image = _patches(page.axes(MARGIN, top, width, height), problem, replayed, cells, "(a) ")
    if not cells.numbered:
        beside = page.axes(MARGIN + width + 0.12, top, 0.13, max(height, 1.5))
        _label_steps(page.figure.colorbar(image, cax=beside), replayed.n_steps)


def _label_steps(bar: Colorbar, n_steps: int) -> None:
    """Label a colour bar of steps, the first at the top."""
    from matplotlib.ticker import FixedLocator, StrMethodFormatter

    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bar.set_label("step")
    ticks = sorted({round(v) for v in np.linspace(1, max(n_steps, 2), 6)})
    bar.ax.yaxis.set_major_locator(FixedLocator(ticks))
    bar.ax.invert_yaxis()


def _patches(axes: Axes, problem: Problem, replayed: Replay, cells: _Cells, letter: str = "") -> AxesImage:
    """Draw the output plane coloured by step; with the steps' numbers where they can be read."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    rows, cols = problem.grid
    n = replayed.n_steps
    steps = np.full(problem.n_patches, -1, dtype=np.int64)
    for step in reversed(range(n)):
        steps[replayed.groups[step]] = step
    steps = steps.reshape(problem.grid)
    image = axes.imshow(
        np.ma.masked_less(steps + 1, 1),
        cmap=colormaps["viridis"].with_extremes(bad="#F2F2F2"),
        norm=Normalize(1, max(n, 2)),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, cols - 0.5, rows - 0.5, -0.5),
    )
    if min(cells.across, cells.down) * 72 >= 5 and n > 1:
        thick = 1.3 if cells.numbered else 0.7
        axes.add_collection(LineCollection(_borders(steps), colors="white", linewidths=thick))
    if cells.numbered:
        _number_patches(axes, image, steps, min(cells.points, 11))
    missing = int((steps < 0).sum())
    note = "numbers and colours are steps" if cells.numbered else "colours are steps"
    if missing:
        note += f"; {missing:,} grey ones not reached"
    axes.set_title(f"{letter}Patches: {note}")
    axes.set_xlabel("patch column")
    axes.set_ylabel("patch row")
    axes.set_xlim(-0.5, cols - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    _integer_ticks(axes, (0, rows), (0, cols))
    for spine in axes.spines.values():
        spine.set_visible(True)
    return image


def _number_patches(axes: Axes, image: AxesImage, steps: NDArray[np.int64], points: float) -> None:
    """Write the number of its step on each patch."""
    from matplotlib.colors import to_hex

    colours = image.to_rgba(steps + 1)
    for (row, col), step in np.ndenumerate(steps):
        if step >= 0:
            colour = plotting.text_colour(to_hex(tuple(colours[row, col])))
            axes.text(col, row, str(step + 1), ha="center", va="center", fontsize=points, color=colour)


def _cell_size(grid: tuple[int, int], width: float, height: float) -> tuple[float, float]:
    """Return width and height of a patch; in long grids, which would be a thread, it is no square."""
    across, down = width / grid[1], height / grid[0]
    if max(grid) > 6 * min(grid):
        return min(across, 0.5), min(down, 0.5)
    return min(across, down), min(across, down)


def _borders(labels: NDArray[Any]) -> list[list[tuple[float, float]]]:
    """Return the segments between neighbouring cells with different labels; runs are joined."""
    segments: list[list[tuple[float, float]]] = []
    for flip in (False, True):
        field = labels.T if flip else labels
        for line in range(field.shape[0] - 1):
            differs = np.concatenate(([0], field[line] != field[line + 1], [0]))
            turns = np.flatnonzero(np.diff(differs))
            for start, end in zip(turns[::2], turns[1::2], strict=True):
                ends = [(start - 0.5, line + 0.5), (end - 0.5, line + 0.5)]
                segments.append([(y, x) for x, y in ends] if flip else ends)
    return segments


# The input plane -----------------------------------------------------------------------------------


class _Strip(NamedTuple):
    """Drawings of the input plane at telling steps, in lines.

    Attributes
    ----------
    reasons
        Why each of the steps is drawn.
    scenes
        What happens in them.
    window
        Rows and columns of the plane that are shown.
    columns
        Drawings in a line.
    pitch
        Inches from one drawing to the next.
    panel
        Width and height of a drawing in inches.
    """

    reasons: dict[int, str]
    scenes: list[Scene]
    window: tuple[int, int]
    columns: int
    pitch: float
    panel: tuple[float, float]

    @classmethod
    def of(cls, problem: Problem, replayed: Replay) -> _Strip:
        reasons = replayed.telling_steps()
        scenes = list(replayed.scenes(reasons))
        window = _window_size(replayed.plane, scenes)
        columns = 5 if len(scenes) == 5 else 4
        pitch = (SHEET_WIDTH - MARGIN) / columns
        width = pitch - 0.55
        height = float(np.clip(width * window[0] / window[1], 0.55, width * 1.1))
        return cls(reasons, scenes, window, columns, pitch, (width, height))

    @property
    def line_height(self) -> float:
        """Inches of a line of drawings with their titles."""
        return self.panel[1] + 0.85

    @property
    def height(self) -> float:
        """Inches of all lines."""
        return -(-len(self.scenes) // self.columns) * self.line_height


def _window_size(plane: tuple[int, int], scenes: Sequence[Scene]) -> tuple[int, int]:
    """Choose how much of the input plane is shown: all of it, or what the steps touch and some air."""
    if max(plane) <= 24:
        return plane
    need = [1, 1]
    for scene in scenes:
        for axis, (first, last) in enumerate(extent(scene.plane >= Pixel.KEPT)):
            need[axis] = max(need[axis], last - first + 1)
    need = [length + 2 * max(2, round(0.08 * length)) for length in need]
    need[0] = max(need[0], round(need[1] / 2.5), 12)
    need[1] = max(need[1], need[0], 12)
    return min(need[0], plane[0]), min(need[1], plane[1])


def _place_strip(
    page: Sheet, top: float, problem: Problem, report: Report, replayed: Replay, strip: _Strip
) -> None:
    """Draw the input plane at telling steps, below a heading and a legend."""
    _strip_heading(page, top, replayed, strip)
    for number, scene in enumerate(strip.scenes):
        line, column = divmod(number, strip.columns)
        down = top + 0.62 + line * strip.line_height
        axes = page.axes(MARGIN + column * strip.pitch, down, *strip.panel)
        _input_plane(axes, problem, scene, strip.window, replayed.outlined)
        _panel_title(axes, scene, strip.reasons[scene.step], report)


def _strip_heading(page: Sheet, top: float, replayed: Replay, strip: _Strip) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    n, drawn = replayed.n_steps, len(strip.scenes)
    words = "(d) Input plane, pixels (row, column)"
    if n == 0:
        words += ": nothing to draw"
    else:
        words += ", step by step" if n == drawn else f", at {drawn} of {n:,} steps"
    page.write(MARGIN, top, words, fontsize=10, color=INK)
    handles: list[Any] = [
        Patch(facecolor=PIXELS[state][1], edgecolor=GREY, linewidth=0.5, label=PIXELS[state][0])
        for state in replayed.named_states
    ]
    label = "the step's patches" if replayed.outlined else "the step's patches (dots: centres)"
    handles.append(Line2D([], [], color=INK, linewidth=1.1, label=label))
    corner = (1 - 0.4 / SHEET_WIDTH, 1 - top / page.figure.get_figheight())
    page.figure.legend(handles=handles, loc="center right", bbox_to_anchor=corner, ncols=len(handles))


def _panel_title(axes: Axes, scene: Scene, reason: str, report: Report) -> None:
    counts = scene.counts
    loaded = counts[Pixel.LOADED] + counts[Pixel.AGAIN]
    parts = [f"{loaded} loaded", f"{counts[Pixel.KEPT]} kept", f"{counts[Pixel.FREED]} freed"]
    if counts[Pixel.AGAIN]:
        parts[0] += f" ({counts[Pixel.AGAIN]} again)"
    if report.violation is not None and report.violation.step == scene.step + 1:
        reason = f"violation, {report.violation.rule}"
    name = f"step {scene.step + 1:,}" + (f": {reason}" if reason else "")
    axes.set_title(f"{name}\n" + ", ".join(parts), fontsize=8, linespacing=1.35, pad=4)


def _input_plane(axes: Axes, problem: Problem, scene: Scene, size: tuple[int, int], outlined: bool) -> None:
    """Draw a window of the input plane, its size given, at one step with its group of patches."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    plane = scene.plane.shape
    corner = [
        int(np.clip((first + last + 1 - length) // 2, 0, whole - length))
        for (first, last), length, whole in zip(extent(scene.plane >= Pixel.KEPT), size, plane, strict=True)
    ]
    (top, left), (height, width) = corner, size
    axes.imshow(
        scene.plane[top : top + height, left : left + width],
        cmap=ListedColormap([colour for _, colour in PIXELS.values()]),
        vmin=0,
        vmax=len(PIXELS) - 1,
        interpolation="nearest",
        aspect="equal" if max(size) <= 6 * min(size) else "auto",
        extent=(left - 0.5, left + width - 0.5, top + height - 0.5, top - 0.5),
    )
    if max(size) <= 64:
        rows = [[(left - 0.5, y - 0.5), (left + width - 0.5, y - 0.5)] for y in range(top + 1, top + height)]
        cols = [[(x - 0.5, top - 0.5), (x - 0.5, top + height - 0.5)] for x in range(left + 1, left + width)]
        axes.add_collection(LineCollection([*rows, *cols], colors=PALE, linewidths=0.4, zorder=1.5))
    if outlined:
        _outline_each(axes, problem, scene)
    else:
        _outline_all(axes, problem, scene, dot=float(np.clip(75 / max(size), 1.5, 3.5)))
    if any(problem.layer.padding):
        above, _, before, _ = problem.layer.padding
        _, real_height, real_width = problem.layer.input
        look: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.9, "linestyle": (0, (3, 2))}
        border = (before - 0.5, above - 0.5), real_width, real_height
        axes.add_patch(Rectangle(*border, fill=False, zorder=2, **look))
    axes.set_xlim(left - 0.5, left + width - 0.5)
    axes.set_ylim(top + height - 0.5, top - 0.5)
    axes.set_anchor("NW")
    _integer_ticks(axes, (top, top + height), (left, left + width), max_ticks=5)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _outline_each(axes: Axes, problem: Problem, scene: Scene) -> None:
    """Outline each patch of a step, each one a little further inside."""
    from matplotlib.patches import Rectangle

    height, width = problem.layer.kernel_extent
    for number, (y, x) in enumerate(patch_corners(problem, scene.group)):
        inset = 0.05 + 0.09 * number
        axes.add_patch(
            Rectangle(
                (x - 0.5 + inset, y - 0.5 + inset),
                width - 2 * inset,
                height - 2 * inset,
                fill=False,
                edgecolor=INK,
                linewidth=1.1,
                zorder=3,
            )
        )


def _outline_all(axes: Axes, problem: Problem, scene: Scene, dot: float) -> None:
    """Outline what the patches of a step cover together, and mark their centres with dots."""
    from matplotlib.collections import LineCollection

    height, width = problem.layer.kernel_extent
    corners = patch_corners(problem, scene.group)
    covered = np.zeros((scene.plane.shape[0] + 2, scene.plane.shape[1] + 2), dtype=np.bool_)
    for y, x in corners:
        covered[y + 1 : y + 1 + height, x + 1 : x + 1 + width] = True
    edges = [[(x - 1, y - 1) for x, y in segment] for segment in _borders(covered)]
    axes.add_collection(LineCollection(edges, colors=INK, linewidths=1.1, zorder=3, capstyle="projecting"))
    centres = np.array(corners) + (np.array((height, width)) - 1) / 2
    axes.plot(
        centres[:, 1],
        centres[:, 0],
        "o",
        color="white",
        zorder=4,
        markersize=dot,
        markeredgecolor=INK,
        markeredgewidth=0.5,
    )


def _integer_ticks(axes: Axes, rows: tuple[int, int], cols: tuple[int, int], max_ticks: int = 8) -> None:
    from matplotlib.ticker import FixedLocator

    for axis, (first, end) in ((axes.yaxis, rows), (axes.xaxis, cols)):
        steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)
        step = next(step for step in steps if (end - first - 1) // step < max_ticks)
        axis.set_major_locator(FixedLocator([v for v in range(first, end) if v % step == 0] or [first]))
    axes.tick_params(length=2.5, labelsize=7.5)
