"""Pictures of a grouping plan: patches by step, the input plane step by step, what it costs, an animation.

What is drawn is the program that the simulator executes, so a picture cannot disagree with a report.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.core.files import write_atomically
from tilewright.grouping.lowering import lower, measured_objective
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.plotting import GREY, INK, PALE, VERMILION, Line, times, write_heading
from tilewright.simulator import Cells, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image, ImageFont

ACCEPTED = (*plotting.ACCEPTED, ".gif")
"""Suffixes of the files that `draw` writes."""

MAX_FRAMES = 150
MAX_PANELS = 8
MAX_OUTLINED = 3
"""Largest groups whose patches are outlined one by one; larger ones get one outline and dots."""

# States of a pixel of the input plane, by importance: where many pixels share a dot, the largest wins.
NEVER, EARLIER, KEPT, FREED, LOADED, AGAIN = range(6)
STATES = {
    NEVER: ("not loaded yet", "#FFFFFF"),
    EARLIER: ("loaded and freed earlier", "#E8E8E8"),
    KEPT: ("kept", "#9ECAE9"),
    FREED: ("freed", "#F7DC8B"),
    LOADED: ("loaded", "#0072B2"),
    AGAIN: ("loaded again", "#D55E00"),
}

# States of a patch in the animation.
WAITING, DONE, NOW = range(3)
PATCHES = {
    WAITING: ("not computed yet", "#FFFFFF"),
    DONE: ("computed", "#A6DBC8"),
    NOW: ("computed in this step", "#00694D"),
}


# What happens --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """One step on the input plane.

    Attributes
    ----------
    step
        Number of the step, from 0.
    group
        Its patches.
    plane : uint8, shape (H, W)
        State of each pixel of the padded input: one of `STATES`.
    """

    step: int
    group: NDArray[np.intp]
    plane: NDArray[np.uint8]


@dataclass(frozen=True)
class Story:
    """The executed part of a plan, pixel by pixel.

    Attributes
    ----------
    groups, fresh, stale
        Patches computed, pixels loaded and pixels freed by each step.
    again
        How many of the loaded pixels were on chip before.
    held
        Pixels on chip while the step computes.
    """

    plane: tuple[int, int]
    groups: list[NDArray[np.intp]]
    fresh: list[NDArray[np.intp]]
    stale: list[NDArray[np.intp]]
    again: NDArray[np.int64]
    held: NDArray[np.int64]

    @property
    def n_steps(self) -> int:
        """Number of steps that are told."""
        return len(self.groups)

    @property
    def outlined(self) -> bool:
        """Whether the groups are so small that each patch is outlined."""
        return max((len(group) for group in self.groups), default=0) <= MAX_OUTLINED

    def scenes(self, wanted: NDArray[np.intp]) -> Iterator[Scene]:
        """Yield the wanted steps in ascending order."""
        chosen = {int(step) for step in wanted}
        seen = np.zeros(self.plane[0] * self.plane[1], dtype=np.bool_)
        resident = np.zeros_like(seen)
        for step, (group, fresh, stale) in enumerate(zip(self.groups, self.fresh, self.stale, strict=True)):
            if step in chosen:
                state = np.where(resident, KEPT, np.where(seen, EARLIER, NEVER)).astype(np.uint8)
                state[stale] = FREED
                state[fresh] = np.where(seen[fresh], AGAIN, LOADED)
                yield Scene(step, group, state.reshape(self.plane))
            resident[stale] = False
            resident[fresh] = True
            seen[fresh] = True

    def telling(self) -> dict[int, str]:
        """Choose the steps worth a drawing, with the reason where it is not their place in the order."""
        n = self.n_steps
        if n <= MAX_PANELS:
            return dict.fromkeys(range(n), "")
        loads = np.array([len(fresh) for fresh in self.fresh])
        later = loads[1:]
        reasons = [
            (0, ""),
            (1, ""),
            (int(np.flatnonzero(self.again)[0]) if self.again.any() else 0, "first pixels loaded again"),
            (1 + int(later.argmax()), "most pixels loaded after step 1"),
            (1 + int(later.argmin()), "fewest pixels loaded"),
            (int(self.held.argmax()), "most pixels on chip"),
            (n - 1, ""),
        ]
        chosen: dict[int, str] = {}
        for step, reason in reasons:
            chosen.setdefault(step, reason)
        following = iter(range(2, n))
        while len(chosen) < MAX_PANELS:
            chosen.setdefault(next(following), "")
        return dict(sorted(chosen.items()))


def story(problem: Problem, plan: Plan, report: Report) -> Story:
    """Replay the program of a plan, as far as it was executed.

    A plan that could not be lowered is told up to the step that kept it from it.
    """
    groups = plan.groups
    violation = report.violation
    if violation is not None and violation.step:
        groups = groups[: violation.step - (not report.labels)]
    program = lower(problem, Plan(groups))
    held, seen = 0, np.zeros(problem.n_pixels, dtype=np.bool_)
    again, on_chip = np.zeros((2, len(groups)), dtype=np.int64)
    told = Story(problem.layer.padded_plane, [], [], [], again, on_chip)
    for number, step in enumerate(program.steps[: len(groups)]):
        stale = _positions(tuple(action.region for action in step.free if action.tensor == "input"))
        fresh = _positions(tuple(action.region for action in step.load if action.tensor == "input"))
        told.groups.append(_positions(tuple(action.region for action in step.compute)))
        told.fresh.append(fresh)
        told.stale.append(stale)
        held += len(fresh) - len(stale)
        told.held[number] = held
        told.again[number] = seen[fresh].sum()
        seen[fresh] = True
    return told


def _positions(regions: tuple[object, ...]) -> NDArray[np.intp]:
    cells = [region.positions for region in regions if isinstance(region, Cells)]
    return np.concatenate(cells).astype(np.intp) if cells else np.empty(0, dtype=np.intp)


# The file ------------------------------------------------------------------------------------------


def draw(problem: Problem, plan: Plan, report: Report, path: str | Path, *, title: str | None = None) -> None:
    """Draw a plan: PNG and SVG are one sheet, GIF is an animation of the steps.

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
    ending = plotting.suffix(path, ACCEPTED)
    if ending == ".gif":
        write_atomically(Path(path), _animation(problem, plan, report, title))
    else:
        plotting.save(sheet(problem, plan, report, title=title), path)


def heading(problem: Problem, report: Report, plan: Plan, title: str | None) -> tuple[str, str, str]:
    """Return the title, what was decided at what cost, and what is wrong with it or an empty string."""
    layer = problem.layer
    shape = times(*layer.input)
    kernels = f"{layer.kernels} kernel{'s' * (layer.kernels > 1)} {times(*layer.kernel)}"
    what = f"convolution of {shape} ({times(*'CHW')}) with {kernels}"
    for name, value, usual in (
        ("stride", layer.stride, (1, 1)),
        ("dilation", layer.dilation, (1, 1)),
    ):
        if value != usual:
            what += f", {name} " + (str(value[0]) if len(set(value)) == 1 else times(*value))
    if any(layer.padding):
        same = len(set(layer.padding)) == 1
        what += f", padding {layer.padding[0] if same else list(layer.padding)}"
    if layer.groups > 1:
        what += f", {layer.groups} channel groups"
    if layer.batch > 1:
        what += f", batch of {layer.batch}"
    what += f"; {times(*problem.grid)} patches, up to {problem.group_size} in a step"
    parts = [f"{plan.n_steps:,} step{'s' * (plan.n_steps != 1)}"]
    if report.loaded:
        loaded = int(report.loaded["input"].sum())
        parts.append(f"{loaded:,} input elements loaded")
    if report.violation is None and report.sequential is not None:
        meaning = "loads and compute" if problem.objective.minimise == "loads" else "duration"
        parts.insert(0, f"objective ({meaning}) {measured_objective(problem, report):,} cycles")
        needed = len(problem.needed_pixels) * problem.pixel_elements
        parts[-1] += f" ({loaded / needed:.2f} × the {needed:,} needed)" if needed else ""
    wrong = ""
    if report.violation is not None:
        wrong = f"breaks a rule: {report.violation}"
    elif report.numeric is False:
        wrong = "the numbers differ from the reference convolution"
    if title is None:
        return what[0].upper() + what[1:], "; ".join(parts), wrong
    return title, f"{what}\n" + "; ".join(parts), wrong


# The sheet -----------------------------------------------------------------------------------------

_WIDTH, _LEFT, _RIGHT = 13.0, 0.75, 0.75


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet: patches by step, the input plane at telling steps, footprint, traffic, timelines."""
    told = story(problem, plan, report)
    chosen = told.telling()
    scenes = list(told.scenes(np.array(sorted(chosen), dtype=np.intp)))
    size = _window_size(problem, told.plane, scenes)
    across = 5 if len(scenes) == 5 else 4
    lines = -(-len(scenes) // across)
    pitch = (_WIDTH - _LEFT) / across
    panel = pitch - 0.55
    panel_height = float(np.clip(panel * size[0] / size[1], 0.55, panel * 1.1))
    timeline_height = 0.35 if report.sequential is None else 0.95
    head, below, wrong = heading(problem, report, plan, title)
    head_lines = textwrap.wrap(head, 118)[:2] or [""]
    wrong_lines = textwrap.wrap(wrong, 140)[:3]
    top = 0.62 + 0.24 * (len(head_lines) - 1) + 0.2 * (below.count("\n") + 1) + 0.2 * len(wrong_lines)

    grid_top, grid_height = top + 0.35, 4.9
    strip_top = grid_top + grid_height + 0.95
    line_height = panel_height + 0.85
    lines_top = strip_top + 0.5 + lines * line_height + 0.15
    height = lines_top + 2 * timeline_height + 0.62 + 0.6
    figure = plotting.new_figure(_WIDTH, height)

    above: list[Line] = [(line, 0.24, 12.5, "bold", INK) for line in head_lines]
    above += [(line, 0.2, 9.5, "normal", INK) for line in below.split("\n")]
    above += [(line, 0.2, 9.5, "bold", VERMILION) for line in wrong_lines]
    write_heading(figure, above)

    _patch_grid(figure, (_LEFT, grid_top, 4.9, grid_height), problem, told)
    right = _LEFT + 4.9 + 1.45
    wide = _WIDTH - _RIGHT - right + 0.35
    half = (grid_height - 0.55) / 2
    footprint = plotting.place(figure, right, grid_top, wide, half)
    traffic = plotting.place(figure, right, grid_top + half + 0.55, wide, half)
    plotting.footprint_and_traffic(
        footprint,
        traffic,
        report,
        capacity=problem.machine.memory,
        titles=("(b) On chip", "(c) Traffic"),
    )
    footprint.tick_params(labelbottom=False)

    _strip_heading(figure, strip_top, height, told, chosen)
    for number, scene in enumerate(scenes):
        line, column = divmod(number, across)
        down = strip_top + 0.62 + line * line_height
        axes = plotting.place(figure, _LEFT + column * pitch, down, panel, panel_height)
        _input_plane(axes, problem, scene, size, told.outlined)
        _panel_title(axes, scene, chosen[scene.step], report)

    wide = _WIDTH - _LEFT - _RIGHT
    first = plotting.place(figure, _LEFT, lines_top, wide, timeline_height)
    second = plotting.place(figure, _LEFT, lines_top + timeline_height + 0.62, wide, timeline_height)
    plotting.timelines(
        first,
        second,
        report,
        titles=("(e) One action after the other", "(f) Engines beside each other, double buffering"),
    )
    return figure


def _patch_grid(
    figure: Figure, box: tuple[float, float, float, float], problem: Problem, told: Story
) -> None:
    """Draw the output plane coloured by step; with the steps' numbers where they can be read."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize, to_hex
    from matplotlib.ticker import FixedLocator

    rows, cols = problem.grid
    left, top, width, height = box
    n = told.n_steps
    across, down = _cell_size(problem.grid, width, height)
    digits = len(str(max(n, 1)))
    points = 72 * min(across / (0.62 * digits + 0.35), down / 1.25)
    numbered = points >= 4.8 and rows * cols <= 2500
    if not numbered:  # Room for the colour bar.
        across, down = _cell_size(problem.grid, width - 0.45, height)
    steps = np.full(problem.n_patches, -1, dtype=np.int64)
    for step in reversed(range(n)):
        steps[told.groups[step]] = step
    steps = steps.reshape(problem.grid)
    axes = plotting.place(figure, left, top, across * cols, down * rows)
    colours = colormaps["viridis"].with_extremes(bad="#F2F2F2")
    norm = Normalize(1, max(n, 2))
    image = axes.imshow(
        np.ma.masked_less(steps + 1, 1),
        cmap=colours,
        norm=norm,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, cols - 0.5, rows - 0.5, -0.5),
    )
    if min(across, down) * 72 >= 5 and n > 1:
        thick = 1.3 if numbered else 0.7
        axes.add_collection(LineCollection(_borders(steps), colors="white", linewidths=thick))
    if numbered:
        size = min(points, 11)
        for row in range(rows):
            for col in range(cols):
                step = int(steps[row, col])
                if step >= 0:
                    colour = plotting.text_colour(to_hex(colours(norm(step + 1))))
                    axes.text(col, row, str(step + 1), ha="center", va="center", fontsize=size, color=colour)
    missing = int((steps < 0).sum())
    note = "numbers and colours are steps" if numbered else "colours are steps"
    if missing:
        note += f"; {missing:,} grey ones not reached"
    axes.set_title(f"(a) Patches: {note}")
    axes.set_xlabel("patch column")
    axes.set_ylabel("patch row")
    axes.set_xlim(-0.5, cols - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    _integer_ticks(axes, (0, rows), (0, cols))
    for spine in axes.spines.values():
        spine.set_visible(True)
    if not numbered:
        beside = plotting.place(figure, left + across * cols + 0.12, top, 0.13, max(down * rows, 1.5))
        figure.colorbar(image, cax=beside, format="{x:,.0f}", label="step")
        beside.yaxis.set_major_locator(FixedLocator(sorted({round(v) for v in np.linspace(1, max(n, 2), 6)})))
        beside.invert_yaxis()


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


def _window_size(problem: Problem, plane: tuple[int, int], scenes: list[Scene]) -> tuple[int, int]:
    """Choose how much of the input plane the strip shows: all of it, or what the steps touch and some air."""
    if max(plane) <= 24:
        return plane
    need = [1, 1]
    for scene in scenes:
        for axis, (first, last) in enumerate(_touched(scene.plane >= KEPT)):
            need[axis] = max(need[axis], last - first + 1)
    need = [length + 2 * max(2, round(0.08 * length)) for length in need]
    need[0] = max(need[0], round(need[1] / 2.5), 12)
    need[1] = max(need[1], need[0], 12)
    return min(need[0], plane[0]), min(need[1], plane[1])


def _touched(active: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last row and column that are marked."""
    spans = []
    for axis in (1, 0):
        found = np.flatnonzero(active.any(axis=axis))
        spans.append((int(found[0]), int(found[-1])) if found.size else (0, 0))
    return spans


def _input_plane(axes: Axes, problem: Problem, scene: Scene, size: tuple[int, int], outlined: bool) -> None:
    """Draw (a window of) the input plane at one step, with its group of patches."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    plane = scene.plane.shape
    corner = [
        int(np.clip((first + last + 1 - length) // 2, 0, whole - length))
        for (first, last), length, whole in zip(_touched(scene.plane >= KEPT), size, plane, strict=True)
    ]
    (top, left), (height, width) = corner, size
    axes.imshow(
        scene.plane[top : top + height, left : left + width],
        cmap=ListedColormap([colour for _, colour in STATES.values()]),
        vmin=0,
        vmax=len(STATES) - 1,
        interpolation="nearest",
        aspect="equal" if max(size) <= 6 * min(size) else "auto",
        extent=(left - 0.5, left + width - 0.5, top + height - 0.5, top - 0.5),
    )
    if max(size) <= 64:
        rows = [[(left - 0.5, y - 0.5), (left + width - 0.5, y - 0.5)] for y in range(top + 1, top + height)]
        cols = [[(x - 0.5, top - 0.5), (x - 0.5, top + height - 0.5)] for x in range(left + 1, left + width)]
        axes.add_collection(LineCollection([*rows, *cols], colors=PALE, linewidths=0.4, zorder=1.5))
    corners = _patch_corners(problem, scene.group)
    tall, wide = problem.layer.kernel_extent
    if outlined:
        for number, (y, x) in enumerate(corners):
            inset = 0.05 + 0.09 * number
            axes.add_patch(
                Rectangle(
                    (x - 0.5 + inset, y - 0.5 + inset),
                    wide - 2 * inset,
                    tall - 2 * inset,
                    fill=False,
                    edgecolor=INK,
                    linewidth=1.1,
                    zorder=3,
                )
            )
    else:
        covered = np.zeros((plane[0] + 2, plane[1] + 2), dtype=np.bool_)
        for y, x in corners:
            covered[y + 1 : y + 1 + tall, x + 1 : x + 1 + wide] = True
        edges = [[(x - 1, y - 1) for x, y in segment] for segment in _borders(covered)]
        axes.add_collection(
            LineCollection(edges, colors=INK, linewidths=1.1, zorder=3, capstyle="projecting")
        )
        centres = np.array(corners) + (np.array((tall, wide)) - 1) / 2
        axes.plot(
            centres[:, 1],
            centres[:, 0],
            "o",
            color="white",
            zorder=4,
            markersize=float(np.clip(75 / max(size), 1.5, 3.5)),
            markeredgecolor=INK,
            markeredgewidth=0.5,
        )
    if any(problem.layer.padding):
        above, _, before, _ = problem.layer.padding
        _, real_height, real_width = problem.layer.input
        axes.add_patch(
            Rectangle(
                (before - 0.5, above - 0.5),
                real_width,
                real_height,
                fill=False,
                edgecolor=GREY,
                linewidth=0.9,
                linestyle=(0, (3, 2)),
                zorder=2,
            )
        )
    axes.set_xlim(left - 0.5, left + width - 0.5)
    axes.set_ylim(top + height - 0.5, top - 0.5)
    axes.set_anchor("NW")
    _integer_ticks(axes, (top, top + height), (left, left + width), most=5)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _patch_corners(problem: Problem, group: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the upper left pixel of each patch of a group."""
    return [
        (row * problem.layer.stride[0], col * problem.layer.stride[1])
        for row, col in (problem.patch(int(index)) for index in group)
    ]


def _integer_ticks(axes: Axes, rows: tuple[int, int], cols: tuple[int, int], most: int = 8) -> None:
    from matplotlib.ticker import FixedLocator

    for axis, (first, end) in ((axes.yaxis, rows), (axes.xaxis, cols)):
        steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)
        step = next(step for step in steps if (end - first - 1) // step < most)
        axis.set_major_locator(FixedLocator([v for v in range(first, end) if v % step == 0] or [first]))
    axes.tick_params(length=2.5, labelsize=7.5)


def _strip_heading(figure: Figure, top: float, height: float, told: Story, chosen: dict[int, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    n = told.n_steps
    words = "(d) Input plane, pixels (row, column)"
    if n == 0:
        words += ": nothing to draw"
    else:
        words += ", step by step" if n == len(chosen) else f", at {len(chosen)} of {n:,} steps"
    figure.text(_LEFT / _WIDTH, 1 - top / height, words, va="center", fontsize=10, color=INK)
    handles: list[Any] = [
        Patch(facecolor=STATES[state][1], edgecolor=GREY, linewidth=0.5, label=STATES[state][0])
        for state in _named_states(told)
    ]
    label = "the step's patches" if told.outlined else "the step's patches (dots: centres)"
    handles.append(Line2D([], [], color=INK, linewidth=1.1, label=label))
    corner = (1 - 0.4 / _WIDTH, 1 - top / height)
    figure.legend(handles=handles, loc="center right", bbox_to_anchor=corner, ncols=len(handles))


def _named_states(told: Story) -> list[int]:
    """States of a pixel that the legend names."""
    return [state for state in (LOADED, AGAIN, KEPT, FREED, EARLIER) if state != AGAIN or told.again.any()]


def _panel_title(axes: Axes, scene: Scene, reason: str, report: Report) -> None:
    counts = np.bincount(scene.plane.ravel(), minlength=len(STATES))
    parts = [f"{counts[LOADED] + counts[AGAIN]} loaded", f"{counts[KEPT]} kept", f"{counts[FREED]} freed"]
    if counts[AGAIN]:
        parts[0] += f" ({counts[AGAIN]} again)"
    if report.violation is not None and report.violation.step == scene.step + 1:
        reason = f"violation, {report.violation.rule}"
    name = f"step {scene.step + 1:,}" + (f": {reason}" if reason else "")
    axes.set_title(f"{name}\n" + ", ".join(parts), fontsize=8, linespacing=1.35, pad=4)


# The animation -------------------------------------------------------------------------------------

_PLANE = 460
"""Longest side of a plane in the animation, in dots."""


def _animation(problem: Problem, plan: Plan, report: Report, title: str | None) -> bytes:
    """Return a GIF with one frame per step, at most `MAX_FRAMES` of them, evenly chosen."""
    told = story(problem, plan, report)
    wanted = np.unique(np.linspace(0, max(told.n_steps - 1, 0), MAX_FRAMES).round().astype(np.intp))
    stage = _Stage(problem, plan, report, told, title)
    frames = [stage.frame(scene) for scene in told.scenes(wanted)] or [stage.frame(None)]
    pause = int(np.clip(20_000 / len(frames), 120, 900))
    content = BytesIO()
    frames[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        loop=0,
        disposal=1,
        optimize=False,
        duration=[pause] * (len(frames) - 1) + [3000],
    )
    return content.getvalue()


class _Stage:
    """Draws frames: the input plane on the left, the output plane on the right, words above and below."""

    def __init__(self, problem: Problem, plan: Plan, report: Report, told: Story, title: str | None) -> None:
        from PIL import Image

        self.problem, self.plan, self.report, self.told = problem, plan, report, told
        self.fonts = {size: _font(size) for size in (13, 15, 18)}
        self.done = np.full(problem.n_patches, WAITING, dtype=np.uint8)
        self.upto = 0
        self.pixels = np.cumsum([len(fresh) for fresh in told.fresh])
        self.scales = [_scale(told.plane), _scale(problem.grid)]
        shapes = [_scaled_shape(told.plane, self.scales[0]), _scaled_shape(problem.grid, self.scales[1])]
        margin, gap = 24, 48
        room = max(_PLANE, shapes[0][1])
        self.x = [margin, margin + room + gap]
        width = self.x[1] + max(_PLANE, shapes[1][1]) + margin
        head, below, wrong = heading(problem, report, plan, title)
        self.words: list[tuple[str, int, str]] = []
        for words, size, colour, most in ((head, 18, INK, 2), (below, 13, INK, 4), (wrong, 13, VERMILION, 3)):
            for part in words.split("\n"):
                lines = _wrap(part, self.fonts[size], width - 2 * margin)
                self.words += [(line, size, colour) for line in lines[:most]]
        self.margin = margin
        self.top = 22 + sum(size + 7 for _, size, _ in self.words) + 64
        bottom = self.top + max(max(shape[0] for shape in shapes), 60)
        self.size = (width, bottom + 62)
        self.palette = _palette()
        self.backdrop = Image.new("RGB", self.size, "white")
        self._write_words(bottom)

    def _write_words(self, bottom: int) -> None:
        """Put what no step changes on the backdrop."""
        from PIL import ImageDraw

        pen = ImageDraw.Draw(self.backdrop)
        y = 16
        for words, size, colour in self.words:
            pen.text((self.margin, y), words, fill=colour, font=self.fonts[size])
            y += size + 7
        names = [
            [STATES[state] for state in _named_states(self.told)],
            [PATCHES[state] for state in (NOW, DONE, WAITING)],
        ]
        for x, entries in zip(self.x, names, strict=True):
            line = bottom + 16
            start, limit = x, x + _PLANE + 10
            for name, colour in entries:
                length = 18 + round(self.fonts[13].getlength(name)) + 16
                if x + length > limit and x > start:
                    x, line = start, line + 20
                pen.rectangle((x, line + 1, x + 12, line + 13), fill=colour, outline=GREY)
                pen.text((x + 18, line), name, fill=INK, font=self.fonts[13])
                x += length

    def frame(self, scene: Scene | None) -> Image.Image:
        """Draw one step; None is a plan of which nothing can be drawn."""
        from PIL import Image, ImageDraw

        image = self.backdrop.copy()
        pen = ImageDraw.Draw(image)
        plane = np.zeros(self.told.plane, np.uint8) if scene is None else scene.plane
        if scene is not None:
            self.done[self.done == NOW] = DONE
            for group in self.told.groups[self.upto : scene.step]:
                self.done[group] = DONE
            self.upto = scene.step
            self.done[scene.group] = NOW
        self._captions(pen, scene)
        looks = (STATES, PATCHES)
        for x, scale, cells, look in zip(
            self.x, self.scales, (plane, self.done.reshape(self.problem.grid)), looks, strict=True
        ):
            dots = _blow_up(cells, scale)
            colours = np.array([_rgb(colour) for _, colour in look.values()], dtype=np.uint8)
            picture = colours[dots]
            if scale >= 6:
                picture[scale - 1 :: scale, :] = picture[:, scale - 1 :: scale] = _rgb(PALE)
            image.paste(Image.fromarray(picture), (x, self.top))
            pen.rectangle((x - 1, self.top - 1, x + dots.shape[1], self.top + dots.shape[0]), outline=GREY)
        if scene is not None:
            self._outline(pen, scene)
        return image.quantize(palette=self.palette, dither=Image.Dither.NONE)

    def _captions(self, pen: Any, scene: Scene | None) -> None:
        y = self.top - 52
        if scene is None:
            pen.text((self.margin, y), "no step could be executed", fill=INK, font=self.fonts[15])
            return
        step = scene.step
        words = f"step {step + 1:,} of {self.plan.n_steps:,}"
        if self.report.violation is not None and self.report.violation.step == step + 1:
            words += f": violation, {self.report.violation.rule}"
        pen.text((self.margin, y), words, fill=INK, font=self.fonts[18])
        counts = np.bincount(scene.plane.ravel(), minlength=len(STATES))
        fresh = counts[LOADED] + counts[AGAIN]
        elements = int(self.pixels[step]) * self.problem.pixel_elements
        words = f"input pixels: {fresh:,} loaded, {counts[KEPT]:,} kept; so far {elements:,} elements loaded"
        pen.text((self.x[0], y + 28), words, fill=INK, font=self.fonts[13])
        finished = int((self.done != WAITING).sum())
        words = f"patches: {finished:,} of {self.problem.n_patches:,} computed"
        pen.text((self.x[1], y + 28), words, fill=INK, font=self.fonts[13])

    def _outline(self, pen: Any, scene: Scene) -> None:
        """Outline each patch of a small group; where pixels are hard to see, frame what the step touches."""
        scale = self.scales[0]
        if scale < 6:
            self._frame(pen, 0, _touched(scene.plane >= KEPT))
            self._frame(pen, 1, _touched((self.done == NOW).reshape(self.problem.grid)))
            return
        if not self.told.outlined:
            return
        tall, wide = self.problem.layer.kernel_extent
        for number, (row, col) in enumerate(_patch_corners(self.problem, scene.group)):
            x, y, inset = self.x[0] + col * scale, self.top + row * scale, min(2 * number, scale // 3)
            pen.rectangle(
                (x + inset, y + inset, x + wide * scale - 2 - inset, y + tall * scale - 2 - inset),
                outline=INK,
                width=2 if scale >= 12 else 1,
            )

    def _frame(self, pen: Any, plane: int, spans: list[tuple[int, int]]) -> None:
        """Draw a frame around a region of one of the planes, some dots away from it."""
        scale, away = self.scales[plane], 4
        (top, bottom), (left, right) = (
            ((first * scale, (last + 1) * scale) if scale > 0 else (first // -scale, last // -scale + 1))
            for first, last in spans
        )
        x, y = self.x[plane], self.top
        corner = (x + left - away, y + top - away)
        pen.rectangle((*corner, x + right + away - 1, y + bottom + away - 1), outline=INK)


def _wrap(words: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Break a text into lines of at most so many dots."""
    lines: list[str] = []
    for word in words.split(" "):
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        elif word:
            lines.append(word)
    return lines


def _scale(shape: tuple[int, int]) -> int:
    """Dots per cell; negative where a dot stands for several cells in each direction."""
    longest = max(shape)
    return min(_PLANE // longest, 90) if longest <= _PLANE else -math.ceil(longest / _PLANE)


def _scaled_shape(shape: tuple[int, int], scale: int) -> tuple[int, int]:
    if scale > 0:
        return shape[0] * scale, shape[1] * scale
    return -(-shape[0] // -scale), -(-shape[1] // -scale)


def _blow_up(cells: NDArray[np.uint8], scale: int) -> NDArray[np.uint8]:
    """Return dots for cells; where cells share a dot, the most important state wins."""
    if scale > 0:
        return cells.repeat(scale, axis=0).repeat(scale, axis=1)
    for axis in (0, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[axis], -scale), axis=axis)
    return cells


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _palette() -> Image.Image:
    """Return an image whose palette holds every colour of a frame, and what smooths text."""
    from PIL import Image

    colours = {_rgb(colour) for look in (STATES, PATCHES) for _, colour in look.values()}
    colours |= {_rgb(colour) for colour in (INK, GREY, PALE, VERMILION)}
    for ink in (_rgb(INK), _rgb(VERMILION)):
        colours |= {tuple(255 - (255 - part) * k // 15 for part in ink) for k in range(16)}  # type: ignore[misc]
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in sorted(colours) for part in colour])
    return image


def _font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font that matplotlib brings along, so that pictures look alike everywhere."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / "DejaVuSans.ttf"), size)
