"""Figures 5.5, 5.6 and 5.8: accesses and cycles over the memory size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import plotting
from tilewright.papers.figures import Say
from tilewright.papers.idsp.drawing import spread
from tilewright.papers.idsp.setting import COLOURS, MEMORIES, NAMES, Values, machine, size_text, unlimited
from tilewright.plotting import GREY, PALE
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import exact, thesis_model
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import SCHEDULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def relative_accesses(layer: Layer) -> dict[str, Values]:
    """Return accesses over compulsory ones for each of `MEMORIES`, by schedule; NaN where nothing fits."""
    nest = unlimited(layer)
    tiles = thesis_model.explore(nest, MEMORIES[-1] // 2)
    curves = {}
    for schedule in SCHEDULES:
        accesses = thesis_model.accesses(tiles, schedule)
        fewest = [accesses[2 * tiles.need <= memory].min(initial=np.inf) for memory in MEMORIES]
        curves[schedule] = np.array(fewest) / nest.compulsory
    found = [exact.fewest_accesses(nest, "any", memory // 2) for memory in MEMORIES]
    curves["any"] = np.array([np.inf if one is None else one.value for one in found]) / nest.compulsory
    return {name: np.where(np.isfinite(curve), curve, np.nan) for name, curve in curves.items()}


def _slow(memory: int) -> DspMachine:
    """Return the DSP of section 5.3.1: one MAC and one element per cycle, double buffering."""
    return machine(memory_bytes=memory, bus_elements_per_cycle=1, macs_per_cycle=1, register_file_bytes=0)


def relative_cycles(layer: Layer) -> tuple[dict[str, Values], list[tuple[str, Any]]]:
    """Return cycles over compute-only ones for each of `MEMORIES`, and the best schedule with its times.

    Where nothing fits the curves have NaN, and the schedule is an empty string.
    """
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    best: list[tuple[str, Any]] = []
    for memory in MEMORIES:
        nest = nest_of(layer, _slow(memory))
        tiles = thesis_model.explore(nest, nest.machine.buffer_capacity)
        ranked: list[tuple[float, str, Any]] = []
        for schedule in SCHEDULES:
            if not len(tiles.need):
                curves[schedule].append(np.nan)
                continue
            times = thesis_model.cycles(tiles, schedule)
            at = int(times.total.argmin())
            parts = {part: float(getattr(times, part)[at]) for part in ("setup", "ends", "waiting")}
            # Edge tiles count as full ones here; what they add is shown as computing, too.
            parts["compute"] = float(times.compute[at])
            curves[schedule].append(float(times.total[at]) / layer.macs)
            ranked.append((float(times.total[at]), schedule, parts))
        best.append(min(ranked, key=lambda entry: entry[0])[1:] if ranked else ("", {}))
        found = exact.cheapest(nest, "cycles", "any", 0)[0] if ranked else None
        curves["any"].append(np.nan if found is None else found.value / layer.macs)
    return {name: np.array(curve) for name, curve in curves.items()}, best


def best_memory(curve: Values) -> str:
    """Say which memory takes the fewest cycles, and how many more than computing alone."""
    at = int(np.nanargmin(curve))
    return f"{size_text(MEMORIES[at])}, {100 * (curve[at] - 1):.2f} % above compute-only"


def print_curves(name: str, curves: Mapping[str, Values], say: Say) -> None:
    """Print one panel: a line per memory, a column per schedule."""
    say(f"  {name:<8}" + "".join(f"{NAMES[schedule]:>17}" for schedule in curves))
    for number, memory in enumerate(MEMORIES):
        cells = [curve[number] for curve in curves.values()]
        say(f"  {size_text(memory):>8}" + "".join(f"{'-' if np.isnan(x) else f'{x:.3f}':>17}" for x in cells))


@plotting.style()
def figure_curves(
    curves: Mapping[str, Mapping[str, Values]], titles: Mapping[str, str], label: str, path: Path
) -> None:
    """Draw one panel per layer: a quantity over the memory size, one labelled curve per schedule."""
    width, height = 5.2, 3.6
    figure = plotting.new_figure(len(curves) * (width + 0.65) + 0.25, height + 1.0)
    for number, (name, panel) in enumerate(curves.items()):
        axes = plotting.add_axes(figure, 0.65 + number * (width + 0.65), 0.4, width, height)
        alike: list[list[str]] = []
        for schedule, curve in panel.items():
            same = next((g for g in alike if np.allclose(panel[g[0]], curve, equal_nan=True)), None)
            if same is None or schedule == "any":
                alike.append([schedule])
            else:
                same.append(schedule)
        ends = []
        for group in alike:
            for place, schedule in enumerate(group):
                # Curves that coincide are drawn as dashes of all their colours.
                dashes: Any = "-" if len(group) == 1 else (6 * place, (6, 6 * (len(group) - 1)))
                line = {"linewidth": 2.4, "linestyle": dashes, "zorder": 3}
                if schedule == "any":
                    line = {"linewidth": 1.1, "linestyle": (0, (2, 1.2)), "zorder": 4}
                axes.plot(MEMORIES, panel[schedule], color=COLOURS[schedule], **line)
            first = int(np.flatnonzero(~np.isnan(panel[group[0]]))[0])
            ends.append((MEMORIES[first], float(panel[group[0]][first]), group))
        top = max(float(np.nanmax(curve)) for curve in panel.values())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(top**-0.03, top**1.06)
        axes.set_xlim(min(end[0] for end in ends) / 2**4.4, MEMORIES[-1] * 1.15)
        _memory_axis(axes)
        _ratio_axis(axes, top)
        axes.axhline(1, color=GREY, linewidth=0.8)
        axes.set_title(f"{name}: {titles[name]}", fontweight="bold")
        if number == 0:
            axes.set_ylabel(label)
        _label_starts(axes, ends)
    plotting.save(figure, path)


def _ratio_axis(axes: Axes, top: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    choice = (1, 1.5, 2, 3, 4, 5, 6, 8) if top < 8 else (1, 2, 5, 10, 20, 50, 100, 200)
    ticks = [tick for tick in choice if tick <= top**1.06]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×"))
    axes.grid(axis="y", color=PALE, linewidth=0.6)


def _memory_axis(axes: Axes) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(MEMORIES[::2])))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size_text(x)))
    axes.set_xlabel("local memory")


def _label_starts(axes: Axes, ends: Sequence[tuple[float, float, list[str]]]) -> None:
    """Write names to the left of where curves begin, moved apart where they would touch."""
    low, high = np.log(axes.get_ylim())
    unit = (high - low) / 23
    rows = sorted((y, x, schedule) for x, y, group in ends for schedule in reversed(group))
    at = spread([float(np.log(y)) for y, _, _ in rows], unit, low + unit, high - unit / 2)
    right = min(x for _, x, _ in rows) / 2**0.75
    for height, (y, x, schedule) in zip(at, rows, strict=True):
        colour = COLOURS[schedule]
        axes.text(
            right,
            np.exp(height),
            NAMES[schedule],
            color=colour,
            fontsize=8.5,
            ha="right",
            va="center_baseline",
        )
        axes.plot([right * 1.04, x / 1.04], [np.exp(height), y], color=colour, linewidth=0.6, zorder=1)
