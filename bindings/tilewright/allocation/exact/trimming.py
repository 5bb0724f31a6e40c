"""What follows from the splits of a plan alone: its pacing, PEs that do not help it, and smaller buffers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from tilewright.allocation.energy import energy
from tilewright.allocation.exact.options import offers_of
from tilewright.allocation.geometry import Scan
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit


class Key(IntEnum):
    """Columns of a plan's key."""

    INTERVAL = 0
    """Cycles between two frames."""
    PES = 1
    """PEs of all layers together."""
    LATENCY = 2
    """Cycles from the start of a frame until its last output."""


SECONDS = 0.5
"""How long a plan is looked for that comes before another of equal objective, at most."""

RANKS = {
    "interval": (Key.INTERVAL, Key.PES, Key.LATENCY),
    "pes": (Key.PES, Key.LATENCY, Key.INTERVAL),
    "latency": (Key.LATENCY, Key.PES, Key.INTERVAL),
    "energy": (Key.INTERVAL, Key.PES, Key.LATENCY),
}
"""In which order the numbers of a key count for each objective; for ``pareto`` none comes first."""


def plan_of(problem: Problem, chosen: Sequence[LayerSplit], pacing: str = PACINGS[0]) -> Plan:
    """Return the plan with these splits, one for each layer."""
    return Plan(tuple(stage.name for stage in problem.stages), tuple(chosen), pacing)


def loads_of(problem: Problem, chosen: Sequence[LayerSplit]) -> list[int]:
    """Return the load of each layer with these splits."""
    return [split.load(stage.task) for stage, split in zip(problem.stages, chosen, strict=True)]


def pace_plan(problem: Problem, plan: Plan) -> Plan | None:
    """Return a plan with a pacing that its buffers allow: matched, unless latency is lower with uniform.

    None means that neither fits.
    """
    capacity, scan = problem.machine.buffer_words, Scan(problem)
    schedules = [schedule(problem, replace(plan, pacing=pacing), scan) for pacing in PACINGS]
    fitting = [times for times in schedules if capacity is None or times.storage <= capacity]
    return min(fitting, key=lambda times: (times.latency, times.storage)).plan if fitting else None


def trim_plan(problem: Problem, plan: Plan) -> Plan:
    """Return a plan that is no worse, without PEs that do not help the objective.

    For the interval every layer has its cheapest split up to it, for PEs its fastest split with as many. For
    latency, and in each plan of a front, no pace changes.
    """
    if plan.front:
        return Plan.joined(tuple(trim_plan(problem, one) for one in plan.front))
    if problem.minimise in ("distance", "energy") or problem.machine.off_chip is not None:
        return plan
    if problem.parallel and problem.minimise in ("latency", "pareto"):
        return replace(plan, splits=_same_paces(problem, plan))
    loads, counts = loads_of(problem, plan.splits), [split.pes for split in plan.splits]
    if problem.parallel:
        loads = [problem.interval_at(max(loads))] * len(loads)
    else:
        counts = [max(counts)] * len(counts)
    chosen = [
        (offer.fastest(most) if problem.minimise == "pes" else offer.within(load)) or split
        for offer, split, load, most in zip(offers_of(problem), plan.splits, loads, counts, strict=True)
    ]
    other = pace_plan(problem, plan_of(problem, chosen))
    return plan if other is None else min(other, plan, key=lambda one: rank(problem, one))


def rank(problem: Problem, plan: Plan, scan: Scan | None = None) -> tuple[int, ...]:
    """Return what tells plans apart: the numbers of their key, energy before them, and the words they need.

    All plans move the same from and to the array. A front and the places of PEs have none.
    """
    if problem.minimise not in RANKS:
        return ()
    times, counts = schedule(problem, plan, scan), [split.pes for split in plan.splits]
    key = times.interval, sum(counts) if problem.parallel else max(counts), times.latency
    spent = (energy(problem, plan, times.interval),) if problem.minimise == "energy" else ()
    return *spent, *(key[column] for column in RANKS[problem.minimise]), times.storage


def break_ties(problem: Problem, plan: Plan, deadline: float) -> Plan:
    """Return a plan that comes before in rank, as far as changes of one layer lead there in some seconds."""
    until, scan = min(deadline, time.monotonic() + SECONDS), Scan(problem)
    best = rank(problem, plan, scan)
    better = bool(best) and problem.machine.off_chip is None  # there intervals and buffers hang together
    while better:
        better = False
        for other in _beside(problem, plan):
            if time.monotonic() > until:
                return plan
            times = schedule(problem, other, scan)
            if times.storage > (problem.machine.buffer_words or times.storage):
                continue
            if times.interval > (problem.most_interval or times.interval):
                continue
            value = rank(problem, other, scan)
            if value < best:
                best, plan, better = value, other, True
    return plan


def _beside(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """Yield the plans that differ in the pacing, or in one layer that has no more PEs."""
    if problem.parallel:
        for pacing in PACINGS:
            yield replace(plan, pacing=pacing)
    for number, offer in enumerate(offers_of(problem, every="rows" not in problem.limits.splits)):
        for split in offer.splits:
            if split.pes <= plan.splits[number].pes:
                yield replace(plan, splits=(*plan.splits[:number], split, *plan.splits[number + 1 :]))


def _same_paces(problem: Problem, plan: Plan) -> tuple[LayerSplit, ...]:
    """Return the cheapest splits of the same levels: only a layer that makes a level keeps its load."""
    loads = loads_of(problem, plan.splits)
    splits, levels = list[LayerSplit](), [0] * len(loads)
    pairs = zip(problem.stages, plan.splits, offers_of(problem, every=True), loads, strict=True)
    for stage, split, offer, load in pairs:
        before = max((levels[producer] for producer in stage.producers if producer >= 0), default=0)
        if plan.pacing == "uniform":
            before = 0 if stage.number == loads.index(max(loads)) else max(loads)
        level = levels[stage.number] = max(before, load)
        splits.append(offer.between(0 if load <= before else load, level).within(level) or split)
    return tuple(splits)
