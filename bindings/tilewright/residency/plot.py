"""Pictures of a residency plan: what lies where from step to step, and what each step moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LIMIT_LINE,
    ORANGE,
    PALE,
    SHEET_WIDTH,
    SKY,
    YELLOW,
    Sheet,
    axes_or_new,
    explain_colours,
    leave_blank,
    shortened_to_fit,
    text_colour,
)
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.machine import region_of, tops_of
from tilewright.residency.placement import Item, placed_items
from tilewright.residency.plan import Plan, key_of, kind_of
from tilewright.residency.problem import Problem
from tilewright.residency.summary import rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

SECOND = "second operands"
"""A kind that is explained only where there are some."""

KINDS = {
    "whole maps": BLUE,
    "line buffers": SKY,
    "weights": ORANGE,
    SECOND: YELLOW,
    "outputs and sums in blocks": GREEN,
}
"""What lies in the memory, and its colour."""

LEFT = 1.0
"""Inches to the left of the axes."""

LITTLE = 20
"""Of a plan that takes less than this part of the memory, the rest is not drawn."""

APART, MARGIN = 0.06, 0.1
"""Space between steps, and at both ends of the axis, in steps."""

LINE = 0.22
"""Inches between names of steps that are not written across."""

MEMORY, NAMES, TRAFFIC = 4.4, 1.3, 1.9
"""Heights in inches: of the axes, and of what is between them."""


def _described(problem: Problem) -> str:
    operations = len(problem.graph.operations)
    name = problem.network.name or "network"
    return f"{name}: {operations} operations in {problem.machine.memory_bytes:,} bytes"


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan: its memory over the steps, and its traffic; see `core.room.Pictures`."""
    what = _described(problem)
    broken = report.violation is not None
    labelled = [] if broken else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    page.create(SHEET_WIDTH, page.top + MEMORY + NAMES + TRAFFIC + 1.3)
    width, top = SHEET_WIDTH - LEFT - 0.4, page.top + 0.7
    memory = page.axes(LEFT, top, width, MEMORY)
    traffic = page.axes(LEFT, top + MEMORY + NAMES, width, TRAFFIC)
    if broken:
        leave_blank(memory, "Memory", plotting.warning(report))
        leave_blank(traffic, "Traffic with DRAM", plotting.warning(report))
    else:
        _memory(memory, problem, plan, width)
        _traffic(traffic, problem, plan, report)
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw what lies where in the memory; see `core.room.Pictures.plot`."""
    ax = axes_or_new(ax, 8.0, MEMORY, left=LEFT, above=0.5)
    if report.violation is not None:
        leave_blank(ax, "Memory", plotting.warning(report))
    else:
        _memory(ax, problem, plan, plotting.size_in_inches(ax)[0])
    return ax


def _kind(key: str) -> str:
    shown = {
        "lines": "line buffers",
        "weights": "weights",
        "operand": SECOND,
        "partial sums": "outputs and sums in blocks",
        "state": "outputs and sums in blocks",
        "block": "outputs and sums in blocks",
    }
    return shown.get(kind_of(key), "whole maps")


def _memory(axes: Axes, problem: Problem, plan: Plan, inches: float) -> None:
    """Draw a box for everything that is placed, from its first step to its last."""
    from matplotlib.ticker import StrMethodFormatter  # start-up time

    width, capacity = problem.machine.element_bytes, problem.machine.capacity
    groups = problem_of_plan(problem, plan).groups
    step = inches / (len(plan.steps) + 2 * MARGIN)
    placed = placed_items(groups, [step.choice for step in decode_plan(problem, plan)])
    boxes = [(item, plan.steps[item.names[0][0]].addresses[item.names[0][1]]) for item in placed]
    everything = [*_staying(problem, plan), *boxes]
    regions = problem.machine.regions
    tops = tops_of(regions, [(address, item.size) for item, address in everything])
    several = sum(map(bool, tops)) > 1
    if len(regions) > 1:  # one on the other, each as far as it is taken
        bases = [*accumulate(tops, initial=0)]
        lower = [base - region.begin for base, region in zip(bases, regions, strict=False)]
        everything = [(item, address + lower[region_of(regions, address)]) for item, address in everything]
        _name_memories(axes, problem, tops, len(plan.steps))
    taken = sum(tops)
    height = capacity if taken * LITTLE > capacity and len(regions) == 1 else taken
    for item, address in everything:
        colour = KINDS[_kind(item.names[0][1])]
        axes.bar(
            (item.begin + item.end + 1) / 2,
            item.size * width,
            bottom=address * width,
            width=item.end - item.begin - APART,
            color=colour,
            edgecolor="white",
            linewidth=0.4,
        )
        room = step * (item.end - item.begin - APART) - 0.04
        if item.size > height / 30 and room > 0.3:
            told_name = " = ".join(dict.fromkeys(each for _, each in item.names))
            axes.text(
                (item.begin + item.end + 1) / 2,
                (address + item.size / 2) * width,
                shortened_to_fit(told_name, room, 7),
                ha="center",
                va="center",
                fontsize=7,
                color=text_colour(colour),
            )
    title, most = "Memory", problem.machine.memory_bytes
    if height == capacity:
        axes.axhline(most, **LIMIT_LINE)
    else:
        lowest = "in each memory the lowest bytes," if several else "the lowest"
        title, most = f"Memory: {lowest} {taken * width:,} of {most:,} bytes", taken * width
    axes.set_ylim(0, most * 1.03)
    axes.set_ylabel("bytes, memory upon memory" if several else "address in bytes")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_title(title, loc="left")
    there = {_kind(item.names[0][1]) for item in placed}
    shown = [(kind, colour) for kind, colour in KINDS.items() if kind != SECOND or kind in there]
    explain_colours(axes, shown, "right")
    _step_axis(axes, plan, step)


def _name_memories(axes: Axes, problem: Problem, tops: Sequence[int], steps: int) -> None:
    """Draw where each memory ends of which something is taken, with its name."""
    width, base = problem.machine.element_bytes, 0
    for region, top in zip(problem.machine.regions, tops, strict=True):
        if top:
            base += top
            axes.axhline(base * width, color=INK, linewidth=0.8, linestyle=":")
            where = steps + 0.5 + MARGIN, base * width
            axes.annotate(region.name, where, (-3, -9), textcoords="offset points", ha="right", fontsize=7)


def _staying(problem: Problem, plan: Plan) -> list[tuple[Item, int]]:
    """Return the weights that are there in all steps, with their addresses."""
    return [
        (Item(0, len(plan.steps), operation.weights, ((0, key_of("weights", operation.name)),)), address)
        for operation in problem.graph.operations
        if (address := plan.staying.get(operation.name)) is not None
    ]


def _traffic(axes: Axes, problem: Problem, plan: Plan, report: Report) -> None:
    """Draw what each step moves, beside what its operations move layer by layer; without DRAM its MACs."""
    if not problem.machine.dram:
        _macs(axes, problem, plan, report)
        return
    width = problem.machine.element_bytes
    numbers = {operation.name: operation.number for operation in problem.graph.operations}
    places = range(1, len(plan.steps) + 1)
    before = [  # where operations are executed once
        width * sum(problem.layer_by_layer[numbers[name]] for name in step.operations if name in numbers)
        for step in plan.steps
    ]
    measured = list(report.measures.steps_of_plan.values())
    loaded = [step.loaded_bytes for step in measured]
    saved = [step.saved_bytes for step in measured]
    axes.bar(places, before, width=0.86, color=PALE, linewidth=0)
    axes.bar(places, loaded, width=0.5, color=BLUE, linewidth=0)
    axes.bar(places, saved, bottom=loaded, width=0.5, color=GREEN, linewidth=0)
    axes.set_ylabel("bytes")
    axes.set_title("Traffic with DRAM", loc="left")
    total = report.measures.layer_by_layer_bytes
    parts = [("loaded", BLUE), ("saved", GREEN), (f"layer by layer, {total:,} in all", PALE)]
    explain_colours(axes, parts, "right")
    _scale_steps(axes, plan)


def _macs(axes: Axes, problem: Problem, plan: Plan, report: Report) -> None:
    """Draw the multiply-accumulates of each step: those that strips compute again stand above the others."""
    numbers = {operation.name: operation.number for operation in problem.graph.operations}
    places = range(1, len(plan.steps) + 1)
    once = [
        sum(problem.graph.least_work(numbers[name]).macs for name in step.operations) for step in plan.steps
    ]
    again = [int(macs) - least for macs, least in zip(report.macs, once, strict=True)]
    axes.bar(places, once, width=0.5, color=BLUE, linewidth=0)
    axes.bar(places, again, bottom=once, width=0.5, color=ORANGE, linewidth=0)
    axes.set_ylabel("MACs")
    axes.set_title("Multiply-accumulates", loc="left")
    parts = [(f"once, {sum(once):,} in all", BLUE), (f"again, {sum(again):,}", ORANGE)]
    explain_colours(axes, parts, "right")
    _scale_steps(axes, plan)


def _scale_steps(axes: Axes, plan: Plan) -> None:
    """Give steps a number along an axis, and amounts all digits along the other."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # start-up time

    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.set_xlim(0.5 - MARGIN, len(plan.steps) + 0.5 + MARGIN)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.set_xlabel("step")
    axes.grid(axis="y", color=GREY, linewidth=0.3)


def _step_axis(axes: Axes, plan: Plan, inches: float) -> None:
    """Name the steps by their operations; each has some inches."""
    steps = len(plan.steps)
    names = [
        step.operations[0] if len(step.operations) == 1 else f"{step.operations[0]} … {step.operations[-1]}"
        for step in plan.steps
    ]
    places = range(0, steps, ceil(LINE / inches))
    across = inches >= 1.2
    room = min(1.6, inches - 0.1) if across else 1.3
    axes.set_xlim(0.5 - MARGIN, steps + 0.5 + MARGIN)
    axes.set_xticks(
        [place + 1 for place in places],
        [shortened_to_fit(names[place], room, 8) for place in places],
        rotation=0 if across else 40,
        ha="center" if across else "right",
        color=INK,
    )
    axes.set_xlim(0.4, steps + 0.6)
