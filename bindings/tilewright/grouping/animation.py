"""An animation of a grouping plan, one frame per step: the input plane beside the output plane."""

from __future__ import annotations

import math
from enum import IntEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.grouping.replay import PIXELS, Pixel, Replay, Scene, extent, patch_corners, replay
from tilewright.plotting import GREY, INK, PALE, VERMILION
from tilewright.simulator import Report

if TYPE_CHECKING:
    from PIL import Image, ImageFont

MAX_FRAMES = 150


class PatchState(IntEnum):
    """State of a patch of the output plane, by importance as for pixels."""

    WAITING = 0  # not computed yet
    DONE = 1  # computed by an earlier step
    NOW = 2  # computed by this step


PATCHES = {
    PatchState.WAITING: ("not computed yet", "#FFFFFF"),
    PatchState.DONE: ("computed", "#A6DBC8"),
    PatchState.NOW: ("computed in this step", "#00694D"),
}
"""What legends call the states of a patch, and their colours."""

PLANE = 460
"""Longest side of a plane, in dots."""
MARGIN, GAP, LINE_GAP = 24, 48, 7
"""Dots around everything, between the planes, and between lines of the heading."""
CAPTIONS, LEGEND = 64, 62
"""Dots between the heading and the planes, and below the planes."""

Heading = tuple[str, str, str]
"""Title, facts in lines, and what is wrong with the plan."""


def animation(problem: Problem, plan: Plan, report: Report, heading: Heading) -> bytes:
    """Return a GIF with one frame per step, at most `MAX_FRAMES` of them, evenly chosen."""
    replayed = replay(problem, plan, report)
    wanted = np.unique(np.linspace(0, max(replayed.n_steps - 1, 0), MAX_FRAMES).round().astype(np.intp))
    painter = _FramePainter(problem, plan, report, replayed, heading)
    frames = [painter.frame(scene) for scene in replayed.scenes(wanted)] or [painter.frame(None)]
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


class _FramePainter:
    """Draws frames: the input plane on the left, the output plane on the right, words above and below.

    Attributes
    ----------
    scales
        Dots per cell of the input and of the output plane; see `_scale`.
    x, top
        Left edges of both planes and their upper edge, in dots.
    backdrop
        What no step changes: heading and legends.
    states
        State of each patch, a `PatchState`; frames are drawn in ascending order of steps.
    next_step
        The first step whose patches are not in `states` yet.
    loaded_pixels
        Pixels loaded up to the end of each step.
    """

    def __init__(
        self, problem: Problem, plan: Plan, report: Report, replayed: Replay, heading: Heading
    ) -> None:
        self.problem, self.plan, self.report, self.replayed = problem, plan, report, replayed
        self.fonts = {size: _font(size) for size in (13, 15, 18)}
        self.states = np.full(problem.n_patches, PatchState.WAITING, dtype=np.uint8)
        self.next_step = 0
        self.loaded_pixels = np.cumsum([len(loaded) for loaded in replayed.loaded])
        planes = (replayed.plane, problem.grid)
        self.scales = [_scale(plane) for plane in planes]
        (height, width), (other_height, other_width) = map(_scaled_shape, planes, self.scales)
        self.x = [MARGIN, MARGIN + max(PLANE, width) + GAP]
        sheet_width = self.x[1] + max(PLANE, other_width) + MARGIN
        lines = self._heading_lines(heading, sheet_width - 2 * MARGIN)
        self.top = 22 + sum(size + LINE_GAP for _, size, _ in lines) + CAPTIONS
        bottom = self.top + max(height, other_height, 60)
        self.palette = _palette()
        self.backdrop = self._backdrop((sheet_width, bottom + LEGEND), lines, bottom)

    def _heading_lines(self, heading: Heading, width: int) -> list[tuple[str, int, str]]:
        """Break the heading into lines: words, size and colour of each."""
        looks = ((18, INK, 2), (13, INK, 4), (13, VERMILION, 3))  # size, colour and most lines
        return [
            (line, size, colour)
            for words, (size, colour, max_lines) in zip(heading, looks, strict=True)
            for part in words.split("\n")
            for line in _wrap(part, self.fonts[size], width)[:max_lines]
        ]

    def _backdrop(self, size: tuple[int, int], lines: list[tuple[str, int, str]], bottom: int) -> Image.Image:
        """Draw what no step changes: the heading, and legends below the planes."""
        from PIL import Image, ImageDraw

        backdrop = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(backdrop)
        y = 16
        for words, points, colour in lines:
            pen.text((MARGIN, y), words, fill=colour, font=self.fonts[points])
            y += points + LINE_GAP
        patch_states = (PatchState.NOW, PatchState.DONE, PatchState.WAITING)
        legends = [
            [PIXELS[state] for state in self.replayed.named_states],
            [PATCHES[state] for state in patch_states],
        ]
        for x, entries in zip(self.x, legends, strict=True):
            line = bottom + 16
            start, limit = x, x + PLANE + 10
            for name, colour in entries:
                length = 18 + round(self.fonts[13].getlength(name)) + 16
                if x + length > limit and x > start:
                    x, line = start, line + 20
                pen.rectangle((x, line + 1, x + 12, line + 13), fill=colour, outline=GREY)
                pen.text((x + 18, line), name, fill=INK, font=self.fonts[13])
                x += length
        return backdrop

    def frame(self, scene: Scene | None) -> Image.Image:
        """Draw one step; None is a plan of which nothing can be drawn."""
        from PIL import Image, ImageDraw

        image = self.backdrop.copy()
        pen = ImageDraw.Draw(image)
        plane = np.zeros(self.replayed.plane, np.uint8) if scene is None else scene.plane
        if scene is not None:
            self.states[self.states == PatchState.NOW] = PatchState.DONE
            for group in self.replayed.groups[self.next_step : scene.step]:
                self.states[group] = PatchState.DONE
            self.next_step = scene.step
            self.states[scene.group] = PatchState.NOW
        self._captions(pen, scene)
        planes = (
            (plane, PIXELS.values()),
            (self.states.reshape(self.problem.grid), PATCHES.values()),
        )
        for x, scale, (cells, looks) in zip(self.x, self.scales, planes, strict=True):
            dots = _blow_up(cells, scale)
            colours = np.array([_rgb(colour) for _, colour in looks], dtype=np.uint8)
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
            pen.text((MARGIN, y), "no step could be executed", fill=INK, font=self.fonts[15])
            return
        step = scene.step
        words = f"step {step + 1:,} of {self.plan.n_steps:,}"
        if self.report.violation is not None and self.report.violation.step == step + 1:
            words += f": violation, {self.report.violation.rule}"
        pen.text((MARGIN, y), words, fill=INK, font=self.fonts[18])
        counts = scene.counts
        loaded = counts[Pixel.LOADED] + counts[Pixel.AGAIN]
        elements = int(self.loaded_pixels[step]) * self.problem.pixel_elements
        words = f"input pixels: {loaded:,} loaded, {counts[Pixel.KEPT]:,} kept"
        words += f"; so far {elements:,} elements loaded"
        pen.text((self.x[0], y + 28), words, fill=INK, font=self.fonts[13])
        finished = int((self.states != PatchState.WAITING).sum())
        words = f"patches: {finished:,} of {self.problem.n_patches:,} computed"
        pen.text((self.x[1], y + 28), words, fill=INK, font=self.fonts[13])

    def _outline(self, pen: Any, scene: Scene) -> None:
        """Outline each patch of a small group; where pixels are hard to see, frame what the step touches."""
        scale = self.scales[0]
        if scale < 6:
            self._frame(pen, 0, extent(scene.plane >= Pixel.KEPT))
            self._frame(pen, 1, extent((self.states == PatchState.NOW).reshape(self.problem.grid)))
            return
        if not self.replayed.outlined:
            return
        tall, wide = self.problem.layer.kernel_extent
        for number, (row, col) in enumerate(patch_corners(self.problem, scene.group)):
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
    """Break a text into lines of at most `width` dots."""
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
    return min(PLANE // longest, 90) if longest <= PLANE else -math.ceil(longest / PLANE)


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

    colours = {_rgb(colour) for look in (PIXELS, PATCHES) for _, colour in look.values()}
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
