"""How methods compare over many instances: performance profiles, and cactus plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.plotting.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    add_axes,
    checked_suffix,
    new_figure,
    save,
    style,
)
from tilewright.plotting.text import shortened
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK, GREY)
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
"""Lines have the colours in turn, and then again dashed, and dotted."""

WIDE, HIGH, LEFT, RIGHT, ABOVE, BELOW = 4.1, 2.6, 0.75, 0.3, 0.5, 0.55
"""Inches of a panel and around it."""

FLOOR = 0.001
"""Times below that share of the limit count alike: what a machine does besides differs by more."""

HAIR = 0.006
"""Share of the height by which lines are moved apart."""

LEGEND, LINE, LETTERS = 2.7, 0.2, 30
"""Inches of the list of methods beside the panels, of a line of it, and letters of a method's name."""


@dataclass(frozen=True)
class Profile:
    """The runs of some methods on the same problems, each of them an instance with a seed.

    Attributes
    ----------
    title
        Of the panels, the room for example.
    limit
        Seconds that each run had.
    seconds
        Of each method, and each problem, when it had its proof; infinite without one.
    ratios
        Of each method, and each problem, the objective over the best; infinite without a plan.
    """

    title: str
    limit: float
    seconds: Mapping[str, Sequence[float]]
    ratios: Mapping[str, Sequence[float]]


@style()
def draw_profiles(profiles: Sequence[Profile], path: str | Path) -> None:
    """Draw performance profiles after Dolan and More: over the time to the proof, and over the cost.

    A line says for which share of the problems a method is within a factor of the best method.

    Raises
    ------
    InputError
        If there is nothing to draw, the suffix is another one or the file cannot be written.
    """
    _draw(profiles, path, (_time_profile, _cost_profile))


@style()
def draw_cactus(profiles: Sequence[Profile], path: str | Path) -> None:
    """Draw how many problems each method has proven within each time.

    Raises
    ------
    InputError
        If there is nothing to draw, the suffix is another one or the file cannot be written.
    """
    _draw(profiles, path, (_cactus,))


def performance(values: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the ratios of each method's values to the best method's, in ascending order.

    Infinite values are failures; where all methods fail, all have failed. Dolan and More, Benchmarking
    optimization software with performance profiles, Mathematical Programming 91, 2002.
    """
    best = [min(each) for each in zip(*values.values(), strict=True)]
    return {
        method: sorted(inf if value == inf else value / least for value, least in zip(own, best, strict=True))
        for method, own in values.items()
    }


def _draw(profiles: Sequence[Profile], path: str | Path, panels: Sequence[object]) -> None:
    checked_suffix(path)
    profiles = [profile for profile in profiles if any(profile.seconds.values())]
    if not profiles:
        raise InputError("plot", str(path), "there is nothing to compare")
    heights = [max(HIGH, LINE * len(profile.seconds)) for profile in profiles]
    width = len(panels) * (LEFT + WIDE) + RIGHT + LEGEND
    figure = new_figure(width, sum(heights) + len(profiles) * (ABOVE + BELOW))
    top = 0.0
    for profile, height in zip(profiles, heights, strict=True):
        top += ABOVE
        axes = None
        for number, panel in enumerate(panels):
            axes = add_axes(figure, LEFT + number * (LEFT + WIDE), top, WIDE, height)
            panel(axes, profile)  # type: ignore[operator]
            axes.grid(color=PALE, linewidth=0.6)
        assert axes is not None
        axes.legend(
            *axes.get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(1 + 0.25 / WIDE, 1.0)
        )
        top += height + BELOW
    save(figure, path)


def _lines(axes: Axes, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], height: float) -> None:
    """Draw lines up to a height; those that would cover each other are moved apart by a hair."""
    for number, (method, (across, up)) in enumerate(lines.items()):
        dash = DASHES[number // len(COLOURS) % len(DASHES)]
        colour = COLOURS[number % len(COLOURS)]
        name = shortened(method, LETTERS)
        moved = [value + HAIR * height * ((len(lines) - 1) / 2 - number) for value in up]
        axes.step(across, moved, where="post", color=colour, linestyle=dash, linewidth=1.4, label=name)
    margin = HAIR * (len(lines) / 2 + 2)
    axes.set_ylim(-margin * height, (1 + margin) * height)


def _time_profile(axes: Axes, profile: Profile) -> None:
    least = FLOOR * profile.limit
    floored = {method: [max(value, least) for value in own] for method, own in profile.seconds.items()}
    _profile(axes, performance(floored), 2.0)
    axes.set_xlabel("time to the proof, as a multiple of the fastest method's")
    axes.set_title(f"{profile.title}: proofs")


def _cost_profile(axes: Axes, profile: Profile) -> None:
    _profile(axes, performance(profile.ratios), 1.02)
    axes.set_xlabel(f"cost after {profile.limit:g} s, as a multiple of the best method's")
    axes.set_title(f"{profile.title}: plans")


def _profile(axes: Axes, ratios: Mapping[str, Sequence[float]], narrowest: float) -> None:
    finite = [ratio for own in ratios.values() for ratio in own if ratio < inf]
    most = max([narrowest, *finite]) ** 1.05
    lines = {}
    for method, own in ratios.items():
        reached = [1.0, *(ratio for ratio in own if 1 < ratio < inf), most]
        lines[method] = reached, [sum(ratio <= factor for ratio in own) / len(own) for factor in reached]
    _lines(axes, lines, 1.0)
    axes.set_xlim(1.0, most)
    _times(axes, 1.0, most)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_ylabel("share of the problems")


def _times(axes: Axes, low: float, high: float) -> None:
    """Give an axis of factors a logarithmic scale with few, readable ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if high < 3:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        return
    axes.set_xscale("log")
    steps = [digit * 10**power for power in range(10) for digit in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high]
    ticks = ticks if len(ticks) <= 7 else [step for step in ticks if str(step)[0] == "1"]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _cactus(axes: Axes, profile: Profile) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    least = FLOOR * profile.limit
    many = max(len(own) for own in profile.seconds.values())
    lines = {}
    for method, own in profile.seconds.items():
        reached = sorted(max(value, least) for value in own if value < inf)
        moments = [least, *reached, max([profile.limit, *reached])]
        lines[method] = moments, [float(sum(value <= moment for value in reached)) for moment in moments]
    _lines(axes, lines, many)
    axes.set_xscale("log")
    axes.set_xlim(least, profile.limit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("seconds for each problem")
    axes.set_ylabel(f"proven, of {many}")
    axes.set_title(f"{profile.title}: proofs over time")
