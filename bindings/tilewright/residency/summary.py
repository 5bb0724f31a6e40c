"""What people are shown of a solved residency problem: rows of totals and a line per step."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from tilewright.core.measures import separated
from tilewright.core.narrowing import Narrowing
from tilewright.core.overview import Front, Overview, of_table
from tilewright.core.quantities import written
from tilewright.core.room import Rows
from tilewright.plotting import shortened
from tilewright.residency.exact.priced_steps import units_of
from tilewright.residency.exact.traffic_curve import point_of, traffic_curve
from tilewright.residency.exact.without_dram import front_in_one_memory
from tilewright.residency.machine import ONE
from tilewright.residency.measures import ResidencyMeasures, StepMeasures
from tilewright.residency.plan import MAP, kind_of
from tilewright.residency.problem import Problem
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.spec.objectives import among_plans

LONGEST = 40
"""Most characters of the names of a step."""


ABOUT = (
    "Operations of a step run together, depth-first: pixel by pixel of the last one's output, or of one "
    "operation block by block of its output channels; tiles and channels add up its input channels block by "
    "block, tile by tile or plane by plane. Strips cut the last one's output into columns. With running "
    "values pixels and strips are of what the last one adds up. Second operands in blocks, and keys at a "
    "time, are loaded in each pass. Loaded, saved and on chip are bytes; whole maps are those that are on "
    "chip as a whole during the step."
)


CURVE = (
    "The least traffic of any plan for every size of the memory, all of it proven. Each point is a memory "
    "from which on less has to be moved; the diamond is the plan of this report."
)

MEMORY_AND_WORK = (
    "The least memory of any plan{} for every number of {}, all of it proven: strips need less memory, and "
    "compute again what two of them share. The diamond is the plan of this report."
)

IN_ONE = " that lies in one memory"
"""Of which plans that is, where it matters which memory things lie in."""

CURVE_SECONDS = 5.0
"""How long the curve may take to be shown: all of it or nothing."""


NARROWING = Narrowing(last=("pixels", "passes", "buffers", "whole maps", "outer loop"))
"""What becomes of the table where columns are few."""


def rows(problem: Problem, measures: ResidencyMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    traffic, compulsory = measures.traffic_bytes, measures.compulsory_bytes
    more = (
        f"; {traffic / compulsory - 1:.1%} more are moved" if traffic > compulsory else ", no more are moved"
    )
    names = [separated(key) for key in measures.steps_of_plan]
    operations, together = sum(map(len, names)), sum(len(each) > 1 for each in names)
    moved = f"{measures.loaded_bytes:,} loaded and {measures.saved_bytes:,} saved"
    shown = among_plans(problem.before) + _time_and_energy(problem, measures)
    if problem.batch > 1:
        shown.append(("images", f"{problem.batch:,}, one after the other; all figures are those of one"))
    where = "DRAM" if problem.machine.dram else "outside"
    shown.append((where, f"{traffic:,} bytes, {moved}"))
    shown.append(("compulsory", f"{compulsory:,} bytes{more}"))
    if measures.any_schedule_bytes is not None:
        least = measures.any_schedule_bytes
        shown.append(("any schedule", f"{least:,} bytes at least, as the memory is small for attention"))
    if measures.layer_by_layer_bytes is not None:
        shown.append(("one by one", f"{measures.layer_by_layer_bytes:,} bytes with all maps in DRAM"))
    if measures.flash_bytes is not None:
        copied = [step for step in measures.steps_of_plan.values() if step.copied]
        told = f", copied of {sum(len(step.copied or ()) for step in copied)} operations" if copied else ""
        if streamed := sum(step.order == "kernels" and step.kernels > 1 for step in copied):
            told += f", of {streamed} in blocks"
        flash = f"{measures.flash_bytes:,} of {problem.machine.flash_bytes:,} bytes, weights{told}"
        shown.append(("flash", flash))
        least = problem.least_spent.macs
        again = f", {measures.macs / least - 1:.1%} of them again" if measures.macs > least else ""
        shown.append(("MACs", f"{measures.macs:,}{again}"))
    if measures.staying_bytes:
        sizes = measures.staying_bytes.values()
        shown.append(("weights", f"of {len(sizes)} operations stay: {sum(sizes):,} bytes, loaded once"))
    if measures.executed_again:
        shown.append(("twice", f"{', '.join(measures.executed_again)}: weights are loaded again"))
    shown.append(("memory", f"{measures.memory_bytes:,} of {problem.machine.memory_bytes:,} bytes"))
    shown += _memories(problem, measures)
    shown.append(("steps", f"{len(names)} of {operations} operations, {together} depth-first"))
    return shown


def _memories(problem: Problem, measures: ResidencyMeasures) -> Rows:
    """Return what is taken of each of several memories, and without DRAM what is read and written there."""
    regions = problem.machine.regions
    if measures.memories is None or len(regions) == 1:
        return []
    found = []
    for region, (name, each) in zip(regions, measures.memories.items(), strict=False):
        if each.memory_bytes:
            size = region.elements * problem.machine.element_bytes
            accesses = ""
            if each.read_bytes is not None:
                accesses = f"; the core reads {each.read_bytes:,} and writes {each.written_bytes:,}"
            found.append((name, f"{each.memory_bytes:,} of {size:,} bytes{accesses}"))
    return found


def _time_and_energy(problem: Problem, measures: ResidencyMeasures) -> Rows:
    """Return what a plan takes, beside what any takes at least, where that is measured."""
    if measures.cycles is None:
        return []
    doubled = sum(bool(step.double_buffering) for step in measures.steps_of_plan.values())
    beside = f", {doubled} steps with second buffers" if doubled else ""
    cycles = f"{measures.cycles:,}, at least {measures.compulsory_cycles:,} in any case{beside}"
    if measures.energy_fj is None:
        return [("cycles", f"{cycles}; a model of emitted C")]
    prices = problem.machine.prices
    source = prices.source_of("core", "dram") if problem.machine.has_energy else prices.source
    energy = f"{written(measures.energy_fj, 'fJ')}, prices {source}"
    return [("cycles", cycles), ("energy", energy)]


def outer_loop(step: StepMeasures) -> str:
    """Return what is told of a step's order: strips, running values, blocks of second operands, too."""
    if step.keys is not None:
        return f"{step.order}, {step.keys} {'keys' if step.keys > 1 else 'key'} at a time"
    if step.blocks and step.channels is not None:
        return f"{step.order}, tiles of {step.kernels} {'columns' if step.kernels > 1 else 'column'}"
    if step.blocks:
        return f"{step.order}, second operands in blocks"
    strips = step.columns is not None and step.order == "pixels"
    told = f"{step.order}, strips of {step.columns}" if strips else step.order
    told = f"{told}, running values" if step.running else told
    return f"{told}, in turns" if step.interleaved else told


def table(problem: Problem, measures: ResidencyMeasures) -> list[tuple[str, ...]]:
    """Return a header and a line per step."""
    timed = measures.cycles is not None
    spent: tuple[str, ...] = ("cycles", "buffers") if timed else ()
    header = ("step", "operations", "outer loop", "passes", "pixels", "loaded", "saved", *spent)
    names = [region.name for region in problem.machine.regions if measures.memories]
    used = [name for name in names if (measures.memories or {})[name].memory_bytes]
    several = used if len(used) > 1 else []
    lines: list[tuple[str, ...]] = [(*header, "on chip", *(f"in {name}" for name in several), "whole maps")]
    for number, (key, step) in enumerate(measures.steps_of_plan.items(), 1):
        whole = [name for name in step.on_chip_bytes if kind_of(name) == MAP]
        spent = (f"{step.cycles:,}", "twice" if step.double_buffering else "once") if timed else ()
        lines.append(
            (
                str(number),
                shortened("+".join(separated(key)), LONGEST),
                outer_loop(step),
                f"{step.passes:,}",
                f"{step.pixels:,}",
                f"{step.loaded_bytes:,}",
                f"{step.saved_bytes:,}",
                *spent,
                f"{step.memory_bytes:,}",
                *(f"{sum((step.memories or {})[name].values()):,}" for name in several),
                shortened(", ".join(whole), LONGEST) if whole else "",
            )
        )
    return lines


def overview(problem: Problem, plan: Any, measures: ResidencyMeasures) -> Overview:
    """Return the table of steps, and traffic over memory where that can be had within some seconds."""
    plain = problem.limits.frames == ONE and problem.limits.executions == 1 and not problem.constraints
    plain = plain and len(problem.machine.regions) == 1
    if not problem.machine.dram:
        front = _front(problem, measures)
    else:
        front = _curve(problem, plan) if plain else None
    return replace(of_table(table(problem, measures)), what="step", about=ABOUT, front=front)


def _front(problem: Problem, measures: ResidencyMeasures) -> Front | None:
    """Return memory over multiply-accumulates, or cycles where these count, if all is proven in time."""
    over = "cycles" if "cycles" in (*problem.objective.names, *problem.objective.limits) else "macs"
    try:
        front = front_in_one_memory(problem, time.monotonic() + CURVE_SECONDS, over)
    except (OutOfTimeError, InputError):  # of constraints on where tensors lie there is none
        return None
    width, every = problem.machine.element_bytes, [point.label for point in front]
    points = [(label.costs[0] * width, units_of(problem, over, label.costs[1])) for label in every]
    spent, name, words = measures.macs, "MACs", "multiply-accumulates"
    if over == "cycles" and measures.cycles is not None:
        spent, name, words = measures.cycles, over, over
    apart = len(problem.machine.regions) > 1 and problem.memory_costs.placed([over])
    text = MEMORY_AND_WORK.format(IN_ONE if apart else "", words)
    return Front("bytes of memory", name, points, (measures.memory_bytes, spent), text)


def _curve(problem: Problem, plan: Any) -> Front | None:
    """Return the curve if all of it is proven in time."""
    curve = traffic_curve(problem, time.monotonic() + CURVE_SECONDS, plans=[plan])
    if not curve.proven:
        return None
    points = [(corner.memory_bytes, corner.traffic_bytes) for corner in curve.corners]
    marked = point_of(problem, plan)
    end = 2 * max(points[-1][0], marked[0]), points[-1][1]
    return Front("bytes of memory", "bytes of traffic", [*points, end], marked, CURVE)
