"""The sheets of Pareto fronts: under the roofs of a DSP, of two costs, or of capacities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.plotting import (
    BLUE,
    GREY,
    INK,
    PALE,
    SHEET_WIDTH,
    VERMILION,
    Sheet,
    draw_front,
    scale_curve,
)
from tilewright.tiling.dsp.exact import THROUGHPUT
from tilewright.tiling.dsp.nest import G, Nest, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.hierarchy.curve import least_accesses
from tilewright.tiling.panels import front_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.plots.page import LEFT, create_page
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import costs_of_front, found_of_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report


class RooflineFront(NamedTuple):
    """The trade-offs of a front on a DSP.

    Attributes
    ----------
    rate, speed
        Operations per byte, and GOps per second, of each plan.
    ideal
        Operations per byte if everything is moved once.
    peak
        GOps per second of the machine.
    """

    nest: Nest
    rate: list[float]
    speed: list[float]
    ideal: float
    peak: float

    @classmethod
    def of(cls, problem: Problem, report: Report) -> RooflineFront:
        """Return the trade-offs of an executed front."""
        assert problem.machine.kind == "dsp"
        machine, nest = problem.machine, nest_of(problem.one_layer, problem.machine)
        points = costs_of_front(problem, report.measures)  # cycles and accesses
        return cls(
            nest,
            [16 * nest.macs / (accesses * machine.unit_bits) for _, accesses in points],
            [machine.clock_mhz * 2 * nest.macs / cycles / 1000 for cycles, _ in points],
            16 * nest.macs / (nest.compulsory_units * machine.unit_bits),
            machine.clock_mhz * 2 * machine.macs_per_cycle / 1000,
        )


def traded_sheet(problem: Problem, report: Report, title: str | None) -> Figure:
    """Draw the front of a network, or of a layer where there is no roofline."""
    assert problem.traded is not None
    first, second = problem.traded
    points = costs_of_front(problem, report.measures)
    more, less = points[-1][0] / max(1, points[0][0]), points[0][1] / max(1, points[-1][1])
    found = f"{len(points)} plan{'s' * (len(points) > 1)}"
    if problem.network is not None:
        found = found_of_front(report.measures)
    numbers = [
        f"{found}, that no other dominates in both {first} and {second}",
        f"from the first to the last {more:.2f}× the {first} for {less:.2f}× less {second}",
    ]
    return _sheet_of(draw_traded, 3.6, create_page(problem, report, numbers, title), problem, report)


def has_roofs(problem: Problem) -> bool:
    """Whether a front is one of throughput against memory efficiency, with the machine's limits of both."""
    return problem.network is None and problem.machine.kind == "dsp" and problem.traded == THROUGHPUT


def _sheet_of(
    draw: Callable[[Axes, Problem, Report], None],
    height: float,
    page: Sheet,
    problem: Problem,
    report: Report,
) -> Figure:
    """Return a sheet with one drawing, of a height in inches, below the numbers."""
    top = page.top + 0.4
    figure = page.create(SHEET_WIDTH, top + height + 0.75)
    draw(page.axes(LEFT + 0.2, top, SHEET_WIDTH - LEFT - 0.6, height), problem, report)
    return figure


def draw_traded(axes: Axes, problem: Problem, report: Report) -> None:
    """Draw what a front trades for each other, with the steps of what no plan reaches."""
    assert problem.traded is not None
    title = f"What is possible of {problem.traded[0]} and {problem.traded[1]}"
    draw_front(axes, front_of(problem, report.measures), title)


def capacity_sheet(problem: Problem, report: Report, title: str | None) -> Figure:
    """Draw the fewest accesses of a layer or a network for every capacity."""
    front = costs_of_front(problem, report.measures)
    numbers = [
        f"{len(front):,} capacities at which accesses fall, all of them",
        f"{front[0][0]:,} accesses from {front[0][1]:,} bytes on",
    ]
    return _sheet_of(draw_capacities, 4.4, create_page(problem, report, numbers, title), problem, report)


def draw_capacities(axes: Axes, problem: Problem, report: Report) -> None:
    """Draw accesses over capacity, and what no schedule goes below; both as steps."""
    assert problem.machine.kind == "hierarchy"
    layers, machine = [part.one_layer for _, part in problem.parts], problem.machine
    front = costs_of_front(problem, report.measures)[::-1]
    accesses, capacities = ([point[place] for point in front] for place in (0, 1))
    capacities[0] = max(1, capacities[0])  # a plan that chooses to hold nothing needs none
    end = 2 * capacities[-1]
    axes.step(
        [*capacities, end], [*accesses, accesses[-1]], where="post", color=BLUE, linewidth=1.6, zorder=3
    )
    # Within a step the bound is that at its end, so that it holds for every capacity of the step.
    grid = np.unique(np.geomspace(capacities[0], end, 200).astype(np.int64)).tolist()
    bound = [least_accesses(layers, machine, capacity) for capacity in grid]
    axes.step(grid, bound, where="pre", color=VERMILION, linewidth=1.4, zorder=2)
    axes.fill_between(grid, 1, bound, step="pre", color=PALE, linewidth=0, zorder=1)
    scale_curve(axes, capacities[0], end)
    axes.set_xlim(capacities[0], end)
    axes.set_ylim(bound[-1] / 1.6, accesses[0] * 1.6)
    level = machine.levels[1].name
    axes.set_xlabel(f"capacity of {level}")
    axes.set_ylabel(f"accesses of {problem.level}, elements")
    at = len(grid) // 3
    best = next(moved for moved, capacity in reversed(front) if capacity <= grid[at])
    for height, words, colour, side, offset in (
        (best, "fewest accesses of any plan", BLUE, "bottom", 9),
        (bound[at], "no schedule goes below", VERMILION, "top", -9),
    ):
        axes.annotate(
            words,
            (grid[at], height),
            xytext=(9 if side == "bottom" else -9, offset),
            fontsize=9,
            color=colour,
            textcoords="offset points",
            ha="left" if side == "bottom" else "right",
            va=side,
        )
    axes.set_title("What each capacity makes possible" + (", layer by layer" if problem.network else ""))


def roofline_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    """Draw all trade-offs under the roofs of the machine, and list them."""
    front = RooflineFront.of(problem, report)
    points = costs_of_front(problem, report.measures)
    numbers = [
        f"{len(points)} plans that no other dominates in both throughput and memory efficiency",
        f"from the first to the last {100 * (1 - front.speed[-1] / front.speed[0]):.1f} % slower with "
        f"{points[0][1] / points[-1][1]:.2f}× fewer accesses",
    ]
    page = create_page(problem, report, numbers, title)
    top = page.top + 0.4
    listed = min(len(points), 26)
    height = max(3.6, 0.21 * listed + 0.5)
    figure = page.create(SHEET_WIDTH, top + height + 0.75)
    draw_roofline(page.axes(LEFT, top, 6.3, height), front, "(a) ")
    _draw_front_table(page.axes(LEFT + 6.9, top, SHEET_WIDTH - LEFT - 7.1, height), front, plan, listed)
    return figure


def draw_roofline(axes: Axes, front: RooflineFront, letter: str = "") -> None:
    """Draw throughput over memory efficiency, and the roofs of the machine where they are near."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    rate, speed = front.rate, front.speed
    axes.step([0, *rate], [speed[0], *speed], where="pre", color=GREY, linewidth=1.2, zorder=2)
    axes.plot(rate, speed, "o", color=BLUE, markersize=7, markeredgecolor="white", zorder=3)
    _draw_roofs(axes, front)
    for number in _spread_points(rate, speed, axes):
        axes.annotate(
            str(number + 1),
            (rate[number], speed[number]),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8.5,
            color=BLUE,
            fontweight="bold",
        )
    axes.set_xlabel(f"memory efficiency, Ops/byte ({front.ideal:,.0f} if everything is moved once)")
    axes.set_ylabel("throughput, GOps/s")
    axes.grid(color=PALE, linewidth=0.6)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_title(f"{letter}Throughput against memory efficiency")


def _draw_roofs(axes: Axes, front: RooflineFront) -> None:
    """Draw the machine's peak and the ideal efficiency where they are near, and set limits around all."""
    rate, speed, peak, ideal = front.rate, front.speed, front.peak, front.ideal
    span, height = max(rate) - min(rate) or max(rate), max(speed) - min(speed)
    near = peak - max(speed) <= max(3 * height, 0.02 * peak)
    low, high = min(speed), peak if near else max(speed)
    if near:
        axes.axhline(peak, color=INK, linewidth=1.2)
        axes.annotate(
            f"peak {peak:g} GOps/s",
            (max(rate), peak),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
        )
    reachable = ideal < max(rate) + 0.5 * span
    if reachable:
        axes.axvline(ideal, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    extent = max(high - low, 0.004 * peak)
    axes.set_xlim(min(rate) - 0.07 * span, max(max(rate), ideal if reachable else 0) + 0.08 * span)
    axes.set_ylim(low - 0.13 * extent, high + 0.1 * extent)


def _spread_points(rate: Sequence[float], speed: Sequence[float], axes: Axes) -> list[int]:
    """Choose points to number so that the numbers do not touch."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    chosen: list[int] = []
    for number in [0, len(rate) - 1, *range(1, len(rate) - 1)]:
        point = np.array([(rate[number] - left) / (right - left), (speed[number] - low) / (high - low)])
        if all(
            np.abs(point - [(rate[c] - left) / (right - left), (speed[c] - low) / (high - low)]).max() > 0.035
            for c in chosen
        ):
            chosen.append(number)
    return chosen


def _draw_front_table(axes: Axes, front: RooflineFront, plan: Plan, listed: int) -> None:
    """List the first `listed` plans of a front: numbers, order of the loops and tile."""
    columns = (
        (0.05, "right", ""),
        (0.2, "right", "GOps/s"),
        (0.36, "right", "Ops/byte"),
        (0.4, "left", "loops"),
    )
    nest = front.nest
    loops = "ncyxk" if nest.sizes[G] == 1 else LOOPS
    axes.set_axis_off()
    axes.set_title("(b) The plans")
    axes.set_xlim(0, 1)
    axes.set_ylim(max(listed + 1.2, 8), 0)
    head = [*columns, (0.6, "left", "tile: " + ", ".join(loops))]
    for x, side, words in head:
        axes.text(x, 0.5, words, ha=side, va="center", fontsize=8.5, color=GREY)
    for row, layer in enumerate(plan.layers[:listed]):
        if not isinstance(layer, DspPlan):
            continue
        step = dict(zip(LOOPS, nest.step(layer.tile), strict=True))
        cells = (
            f"{row + 1}",
            f"{front.speed[row]:.3f}",
            f"{front.rate[row]:.1f}",
            layer.order if layer.reuse == "halo" else layer.schedule,
            " × ".join(str(step[loop]) for loop in loops),
        )
        for (x, side, _), words in zip(head, cells, strict=True):
            colour = BLUE if x == columns[0][0] else INK
            axes.text(x, row + 1.5, words, ha=side, va="center", fontsize=8.5, color=colour)
    if len(plan.layers) > listed:
        axes.text(0.05, listed + 1.5, f"and {len(plan.layers) - listed} more", fontsize=8.5, color=GREY)
