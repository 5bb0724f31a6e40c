"""Splits and MiniZinc: the data of ``models/allocation/core.mzn``, and plans from its solutions.

What every formulation that chooses splits needs stands here, too: which problems it takes, from what it
chooses, and how a given plan becomes one of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from math import gcd
from typing import Any

from tilewright.allocation.bounds import bound_on_splits
from tilewright.allocation.energy import leakage_per_cycle, own_energy
from tilewright.allocation.evaluation import objective, pes, violation
from tilewright.allocation.exact import constrained
from tilewright.allocation.exact.options import ParetoOptions, offers_of
from tilewright.allocation.exact.timing import Timing
from tilewright.allocation.exact.trimming import trim_plan
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import LayerSplit
from tilewright.core import catalogue
from tilewright.core.cutoffs import narrow

__all__ = ["data", "plan", "relax", "scale", "size", "start", "suits"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

# What formulations choose from -------------------------------------------------------------------------


def chooses(problem: Problem) -> bool:
    """Whether formulations choose the splits of a problem; buffers between layers they do not look at."""
    unlimited = problem.machine.buffer_words is None or not problem.parallel
    off_chip = problem.machine.off_chip is not None
    if problem.minimise in ("pareto", "distance", "energy") or why_not(problem) is not None:
        return False
    return unlimited and not off_chip


def why_not(problem: Problem) -> str | None:
    """Say why formulations do not take a problem in which layers wait for the host, or None.

    Where layers work at the same time, what the host does is a floor of the interval, and no more.
    """
    if not problem.waits:
        return None
    names = ", ".join(each.name for each in problem.given if each.waits)
    what = f"layers wait for maps from outside of the array ({names}), and"
    if not problem.parallel:
        return f"{what} turns of the host are in reference alone"
    if problem.constraints or problem.minimise not in ("interval", "pes", "energy"):
        return f"{what} when they start is in reference alone"
    return None


class Choices:
    """From what formulations choose.

    Attributes
    ----------
    offers
        The options of each layer.
    timing
        When layers start, if the objective depends on that, else None.
    waiting_pays
        Whether latency may be lower where a layer is slower than it could be: then all loads are on offer,
        and the pacing is a choice.
    unit
        Cycles in which the objective is counted.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.offers = problem, _offers(problem)
        self.timing, self.waiting_pays = None, False
        self.unit = gcd(*(load for offer in self.offers for load in offer.loads))
        limited = problem.parallel and problem.machine.buffer_words is not None
        if limited and not _told_apart(problem):
            # A slower layer may need smaller buffers.
            self.timing, self.unit, self.waiting_pays = Timing(problem), 1, True
            self.offers = _offers(problem, every=True)
        elif _told_apart(problem):
            if constrained.depends_on_starts(problem):
                self.timing, self.unit, self.waiting_pays = Timing(problem), 1, True
        elif problem.parallel and problem.minimise == "latency":
            self.timing, self.unit = Timing(problem), 1
            every = _offers(problem, every=True)
            if self.timing.waiting_can_pay({load for offer in every for load in offer.loads}):
                self.offers, self.waiting_pays = every, True

    def known(self) -> Plan | None:
        """Return the greedy plan, which bounds what latencies are worth finding; None where there is none."""
        if self.timing is None or narrow():
            return None
        plan: Plan = catalogue.heuristic("allocation", "greedy").plan(self.problem)
        return plan if violation(self.problem, plan) is None else None

    def worst(self) -> int:
        """Return what nothing that is worth finding exceeds: PEs, an interval in units, a latency, energy."""
        known = self.known()
        if known is not None:
            return objective(self.problem, known)
        if self.problem.minimise == "pes":
            return self.problem.machine.pes
        longest = [offer.loads[-1] for offer in self.offers]
        if self.problem.minimise == "energy":
            spent = (max(each) for each in self.energies)
            return sum(spent) + max(longest) * leakage_per_cycle(self.problem, self.problem.machine.pes)
        if self.timing is not None:  # no layer is busy for longer than the slowest one, nor waits for longer
            return min(len(longest) * max(longest), LARGEST // 2)
        return (max(longest) if self.problem.parallel else sum(longest)) // self.unit

    @cached_property
    def energies(self) -> list[list[int]]:
        """Return what the frame of each layer takes with each of its splits, leakage apart."""
        return [
            [own_energy(self.problem, stage, split) for split in offer.splits]
            for stage, offer in zip(self.problem.stages, self.offers, strict=True)
        ]

    @property
    def longest(self) -> int:
        """Cycles that no load exceeds in a plan that is worth finding."""
        most = max(offer.loads[-1] for offer in self.offers)
        return most if self.problem.minimise in ("pes", "energy") else min(most, self.worst() * self.unit)

    def indices(self, plan: Plan) -> tuple[list[int], str]:
        """Return the index of each layer's option, and the pacing, that stand for a plan.

        Where constraints or energies tell splits apart, those of a plan are replaced by equal ones.
        Layers in parallel have no PEs that do not help the objective, layers that take turns all that one of
        them has. A plan of higher latency than the known one gives way to it.
        """
        problem, known = self.problem, self.known()
        if _told_apart(problem):
            found = []
            for stage, offer, split in zip(problem.stages, self.offers, plan.splits, strict=True):
                told = constrained.Told.of(problem, stage)
                found.append(offer.splits.index(constrained.stand_in(told, offer.splits, split)))
            return found, plan.pacing if self.timing is not None else PACINGS[0]
        if not problem.parallel:
            count = pes(problem, plan)
            return [sum(split.pes > count for split in offer.splits) for offer in self.offers], PACINGS[0]
        if known is not None and objective(problem, known) < objective(problem, plan):
            plan = known
        limited = problem.machine.buffer_words is not None
        if violation(problem, plan) is None and not limited:  # else each load may be there for small buffers
            plan = trim_plan(problem, plan)
        loads = [split.load(stage.task) for stage, split in zip(problem.stages, plan.splits, strict=True)]
        if problem.minimise == "pes" and problem.most_interval is not None and not limited:
            loads = [problem.most_interval] * len(loads)
        pairs = zip(self.offers, loads, strict=True)
        indices = [max(1, bisect_right(offer.loads, load)) - 1 for offer, load in pairs]
        return indices, plan.pacing if self.waiting_pays else PACINGS[0]

    def plan(self, indices: list[int], pacing: str) -> Plan:
        """Return the plan with these options."""
        chosen = tuple(offer.splits[index] for offer, index in zip(self.offers, indices, strict=True))
        names = tuple(stage.name for stage in self.problem.stages)
        return Plan(names, chosen, pacing)


def _offers(problem: Problem, *, every: bool = False) -> tuple[ParetoOptions, ...]:
    """Return offers none of which is empty: where no load keeps the rate, the least one stands for itself.

    Where constraints or energies tell splits apart, they have all of these, and some loads several times.
    """
    if _told_apart(problem):
        return tuple(_all_told_apart(problem))
    return tuple(
        _floored(
            offer if offer.loads else ParetoOptions.of(stage.task, problem.splits_of(stage)[-1:]), problem
        )
        for stage, offer in zip(problem.stages, offers_of(problem, every=every), strict=True)
    )


def _floored(offer: ParetoOptions, problem: Problem) -> ParetoOptions:
    """Return one option, that of fewest PEs, for all whose loads are below what the host takes."""
    fast = offer.within(problem.host_period) if problem.parallel else None
    if fast is None:
        return offer
    slower = offer.between(problem.host_period + 1, offer.loads[-1])
    return ParetoOptions((problem.host_period, *slower.loads), (fast, *slower.splits))


def _told_apart(problem: Problem) -> bool:
    """Whether splits differ in more than PEs and load."""
    return bool(problem.constraints) or problem.minimise == "energy"


def _all_told_apart(problem: Problem) -> Iterator[ParetoOptions]:
    for stage, options in zip(problem.stages, constrained.options_of(problem), strict=True):
        splits = sorted((option.split for option in options), key=lambda split: split.load(stage.task))
        yield ParetoOptions(tuple(split.load(stage.task) for split in splits), tuple(splits))


# MiniZinc ----------------------------------------------------------------------------------------------


def suits(problem: Problem) -> bool:
    """Whether the formulations take a problem: whether its numbers fit."""
    return chooses(problem) and Choices(problem).worst() <= LARGEST // 2


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: one for each split."""
    return sum(len(offer.loads) for offer in Choices(problem).offers)


def relax(problem: Problem) -> int:
    """Return 0: heuristics give better starts than neighbourhoods are found in."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    return 0, 1 if problem.minimise == "pes" else Choices(problem).unit


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    choices, stages = Choices(problem), problem.stages
    worst = choices.worst()
    most = LARGEST // 2 if problem.minimise == "pes" else worst
    if problem.most_interval is not None:
        most = min(most, problem.most_interval // choices.unit)
    longest = max(len(offer.splits) for offer in choices.offers)
    leads = {} if choices.timing is None else choices.timing.leads
    return {
        "goal": problem.minimise.upper(),
        "parallel": problem.parallel,
        "n_layers": len(stages),
        "filters": [stage.task.filters for stage in stages],
        "maps": [stage.task.maps for stage in stages],
        "window": [stage.task.window for stage in stages],
        "rows": [stage.task.rows for stage in stages],
        "columns": [stage.task.columns for stage in stages],
        "n_shares": [len(offer.splits) for offer in choices.offers],
        "parts": [
            [list(split) for split in (*offer.splits, *[LayerSplit(1)] * (longest - len(offer.splits)))]
            for offer in choices.offers
        ],
        "waiting_pays": choices.waiting_pays,
        "most_pes": problem.machine.pes,
        "unit": choices.unit,
        "floor": problem.host_period // choices.unit if problem.parallel else 0,
        "most_interval": most,
        "worst": worst,
        "least": -(-bound_on_splits(problem).value // scale(problem)[1]),
        "n_edges": len(leads),
        "producer": [producer + 1 for producer, _ in leads],
        "consumer": [consumer + 1 for _, consumer in leads],
        "n_corners": sum(len(lead.done) for lead in leads.values()),
        "edge": [number for number, lead in enumerate(leads.values(), start=1) for _ in lead.done],
        "ahead": [beats for lead in leads.values() for beats in lead.ahead.tolist()],
        "done": [beats for lead in leads.values() for beats in lead.done.tolist()],
    }


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions: the splits by number, from 1, and whether all layers wait."""
    indices, pacing = Choices(problem).indices(plan)
    return [*(index + 1 for index in indices), PACINGS.index(pacing)]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    indices = [number - 1 for number in solution.choice]
    return trim_plan(problem, Choices(problem).plan(indices, PACINGS[solution.uniform]))
