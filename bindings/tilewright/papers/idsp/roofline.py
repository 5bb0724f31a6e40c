"""Figure 5.12: throughput over memory efficiency, and the solutions that are not dominated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.papers.figures import Say
from tilewright.papers.idsp.drawing import short_number
from tilewright.papers.idsp.setting import (
    COLOURS,
    NAMES,
    Values,
    efficiency,
    layers,
    machine,
    published,
    throughput,
)
from tilewright.plotting import GREY, INK, PALE
from tilewright.tiling.dsp import exact, thesis_model
from tilewright.tiling.dsp.nest import Nest, nest_of
from tilewright.tiling.dsp.plan import SCHEDULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Point:
    """A solution in the roofline plot."""

    ops_per_byte: float
    gops: float
    schedule: str
    tile: tuple[int, ...]


@dataclass(frozen=True)
class Cloud:
    """Many solutions, one entry of each array for each."""

    ops_per_byte: Values
    gops: Values
    schedule: NDArray[np.str_]
    tiles: NDArray[np.int64]

    def point(self, at: int) -> Point:
        """Return one of them."""
        tile = tuple(int(step) for step in self.tiles[at])
        return Point(float(self.ops_per_byte[at]), float(self.gops[at]), str(self.schedule[at]), tile)


def published_solutions(nest: Nest, local: float) -> Cloud:
    """Return every tile and schedule by the thesis's model (algorithm 1), edge tiles full."""
    tiles = thesis_model.explore(nest, nest.machine.buffer_capacity)
    rates = [efficiency(nest, thesis_model.accesses(tiles, name)) for name in SCHEDULES]
    speeds = [throughput(nest, thesis_model.cycles(tiles, name, local).total) for name in SCHEDULES]
    return Cloud(
        ops_per_byte=np.concatenate(rates),
        gops=np.concatenate(speeds),
        schedule=np.repeat(list(SCHEDULES), len(tiles.need)),
        tiles=np.tile(np.stack(tiles.steps, axis=1), (len(SCHEDULES), 1)),
    )


def front(cloud: Cloud) -> list[Point]:
    """Return the solutions that no other dominates (equation 5.24), fastest first."""
    # Rounded, since floating point tells equals apart.
    rate, speed = np.round(cloud.ops_per_byte, 9), np.round(cloud.gops, 9)
    order = np.lexsort((-rate, -speed))
    best = np.maximum.accumulate(rate[order])
    chosen = order[np.concatenate([[True], rate[order][1:] > best[:-1]])]
    return [cloud.point(int(at)) for at in chosen]


def exact_front(nest: Nest, local: int, limit: str = "any") -> list[Point]:
    """Return the front over all tiles and schedules as the simulator measures them."""
    return [
        Point(
            float(efficiency(nest, point.values[1])),
            float(throughput(nest, point.values[0])),
            point.plan.schedule,
            nest.step(point.plan.tile),
        )
        for point in exact.pareto_front(nest, limit, local)[0]
    ]


def print_roofline(folder: Path, say: Say) -> None:
    """Print and draw figure 5.12."""
    claim = published()["figure_5_12"]
    nest = nest_of(layers("lenet5-clone")["conv2"], machine())
    local = exact.local_traffic(nest)
    solutions = published_solutions(nest, local)
    theirs, ours = front(solutions), exact_front(nest, local)
    say(f"Figure 5.12: LeNet-5 conv2 on the DSP of table 7.2, {len(solutions.gops):,} solutions that fit")
    for title, points in (("as published", theirs), ("any order, exact", ours)):
        say(f"  {title}: {len(points)} solutions that are not dominated")
        for point in points:
            tile = " ".join(f"{size:>3}" for size in point.tile[1:])
            say(
                f"    {point.gops:8.3f} GOps/s {point.ops_per_byte:8.1f} Ops/byte   "
                f"{NAMES.get(point.schedule, point.schedule):<16} n c y x k: {tile}"
            )
    first, last = theirs[0], theirs[-1]
    say(
        f"  thesis: {claim['solutions']} solutions, from A to B {claim['throughput_loss']:.0%} slower and "
        f"{claim['efficiency_gain']:g} x more efficient; ours as published: {len(theirs)}, "
        f"{1 - last.gops / first.gops:.1%} and {last.ops_per_byte / first.ops_per_byte:.2f} x"
    )
    path = folder / "idsp-figure5.12.png"
    figure_roofline(nest, solutions, theirs, ours, path)
    say(f"written: {path}")


@plotting.style()
def figure_roofline(
    nest: Nest, solutions: Cloud, theirs: Sequence[Point], ours: Sequence[Point], path: Path
) -> None:
    """Draw every solution of the thesis's model under the roofs, and its front and the exact one enlarged."""
    figure = plotting.new_figure(12.6, 5.1)
    axes = plotting.add_axes(figure, 0.7, 0.4, 5.0, 4.1)
    _draw_solutions(axes, nest, solutions, ours)
    zoom = plotting.add_axes(figure, 6.65, 0.4, 5.7, 4.1)
    _draw_trade_off(zoom, nest, solutions, theirs, ours)
    plotting.save(figure, path)


def _peak(nest: Nest) -> float:
    """Return the throughput of the core in GOps/s."""
    return nest.machine.clock_mhz * 2 * nest.machine.macs_per_cycle / 1000


def _schedule_numbers(solutions: Cloud) -> NDArray[np.int64]:
    """Return the position of each solution's schedule in `SCHEDULES`."""
    numbers = {name: number for number, name in enumerate(SCHEDULES)}
    return np.array([numbers[str(name)] for name in solutions.schedule])


def _draw_solutions(axes: Axes, nest: Nest, solutions: Cloud, ours: Sequence[Point]) -> None:
    """Draw every solution of the thesis's model under the roofs of the core and of the bus."""
    from matplotlib.ticker import FuncFormatter

    dsp, peak = nest.machine, _peak(nest)
    bandwidth = dsp.clock_mhz * dsp.bus_elements_per_cycle * dsp.element_bytes / 1000
    colours = np.array([COLOURS[name] for name in SCHEDULES])
    kind = _schedule_numbers(solutions)
    # Of solutions on one dot, one is drawn; in random order, lest the last schedule hides the others.
    dots = [np.round(np.log(values) * 120) for values in (solutions.ops_per_byte, solutions.gops)]
    _, shown = np.unique(np.stack([*dots, kind]), axis=1, return_index=True)
    shown = np.random.default_rng(0).permutation(shown)
    axes.scatter(
        solutions.ops_per_byte[shown],
        solutions.gops[shown],
        s=2.5,
        c=colours[kind[shown]],
        alpha=0.4,
        linewidth=0,
        rasterized=True,
    )
    highest = max(float(solutions.ops_per_byte.max()), max(point.ops_per_byte for point in ours))
    reach = np.array([0.5, peak / bandwidth, 1.35 * highest])
    axes.plot(reach, np.minimum(peak, bandwidth * reach), color=INK, linewidth=1.2)
    axes.text(1.3, peak * 1.07, f"{peak:g} GOps/s", fontsize=8.5, color=INK)
    axes.text(0.42, bandwidth * 0.3, f"bus\n{bandwidth:g} GB/s", fontsize=8.5, color=INK)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.4, 1.45 * highest)
    axes.set_ylim(float(solutions.gops.min()) * 0.8, peak * 1.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(short_number))
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_xlabel("memory efficiency, Ops/byte")
    axes.set_ylabel("throughput, GOps/s")
    axes.set_title(f"{len(solutions.gops):,} tiles and schedules, as published", fontweight="bold")
    for row, schedule in enumerate(reversed(SCHEDULES)):
        axes.text(
            0.985, 0.04 + 0.05 * row, NAMES[schedule], color=COLOURS[schedule], transform=axes.transAxes,
            ha="right", fontsize=8.5, fontweight="bold",
        )  # fmt: skip


def _draw_trade_off(
    zoom: Axes, nest: Nest, solutions: Cloud, theirs: Sequence[Point], ours: Sequence[Point]
) -> None:
    """Draw the front of the thesis's model and the exact one, enlarged."""
    peak = _peak(nest)
    colours = np.array([COLOURS[name] for name in SCHEDULES])
    kind = _schedule_numbers(solutions)
    both = [*theirs, *ours]
    low, high = min(p.ops_per_byte for p in both), max(p.ops_per_byte for p in both)
    slow = min(point.gops for point in both)
    near = np.flatnonzero(
        (solutions.ops_per_byte > 0.9 * low) & (solutions.gops > slow - 0.2 * (peak - slow))
    )
    zoom.scatter(
        solutions.ops_per_byte[near],
        solutions.gops[near],
        s=7,
        c=colours[kind[near]],
        alpha=0.45,
        linewidth=0,
        rasterized=True,
    )
    zoom.axhline(peak, color=INK, linewidth=1.2)
    zoom.text(low, peak, " peak", fontsize=8.5, va="bottom")
    _stairs(zoom, theirs, GREY)
    _stairs(zoom, ours, INK)
    for number, point in enumerate(theirs):
        zoom.plot(
            point.ops_per_byte, point.gops, "o", markersize=8, color=COLOURS[point.schedule],
            markeredgecolor="white", zorder=5,
        )  # fmt: skip
        zoom.annotate(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 26],
            (point.ops_per_byte, point.gops),
            xytext=(9, -12),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            fontweight="bold",
            color=COLOURS[point.schedule],
        )
    for point in ours:
        zoom.plot(
            point.ops_per_byte, point.gops, "D", markersize=6, color=INK, markeredgecolor="white", zorder=6
        )
    zoom.text(
        low, slow, "● not dominated in the thesis's model\n◆ exact, any order of the loops", fontsize=8.5,
        va="bottom", linespacing=1.5,
    )  # fmt: skip
    zoom.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    zoom.set_ylim(slow - 0.12 * (peak - slow), peak + 0.07 * (peak - slow))
    zoom.grid(color=PALE, linewidth=0.6)
    zoom.set_xlabel("memory efficiency, Ops/byte")
    zoom.set_title("The trade-off, enlarged", fontweight="bold")


def _stairs(axes: Axes, points: Sequence[Point], colour: str) -> None:
    """Draw the border of what a front dominates."""
    across = [point.ops_per_byte for point in points]
    up = [point.gops for point in points]
    axes.step([0, *across], [up[0], *up], where="pre", color=colour, linewidth=1.1, zorder=4)
