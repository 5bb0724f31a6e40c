"""Plans that take as long: of these one that moves least, then takes fewest ticks, and least memory.

What is moved is the same closed form, of operations that take no time, in elements instead of ticks. It adds
up as ticks do. So subgraphs are priced by both, ticks first, and then merged and kept as for ticks alone. At
last each subgraph has the granularity that moves least within its own time and what is left of a begun unit.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from tilewright.scheduling.improvement.partition import Partition, merge_greedily
from tilewright.scheduling.improvement.sequencing import Kept, Sequencing, plan_of
from tilewright.scheduling.plan import ORDERS, Plan
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.rules import latencies, rank
from tilewright.scheduling.subgraph.cost import (
    Pricer,
    SubgraphCost,
    best_order,
    elements_moved,
    least_traffic,
    ticks,
)
from tilewright.scheduling.subgraph.structure import Structure
from tilewright.spec.errors import OutOfTimeError

SECONDS = 1.0
"""How long such a plan is looked for, at most."""

WEIGHT = 2**64
"""More than any plan moves."""


class _Frugal(Pricer):
    """Prices of subgraphs in which what they move counts where their ticks are equal."""

    def __init__(self, problem: Problem, deadline: float) -> None:
        super().__init__(problem)
        self._deadline = deadline

    def _fastest(
        self, ops: Kept, found: Structure, room: int, below: int | None = None
    ) -> SubgraphCost | None:
        if time.monotonic() > self._deadline:
            raise OutOfTimeError
        choice = super()._fastest(ops, found, room, below)
        if choice is None or choice.width < 0:
            return choice
        least = least_traffic(self.graph, ops, found, room, choice.ticks)
        if least is None:  # in none of the orders that have a name
            size = choice.width, choice.height, choice.depth
            elements = elements_moved(self.graph, found, size, best_order(self.graph, found, size))
            return choice._replace(ticks=choice.ticks * WEIGHT + elements)
        width, height, depth = least.granularity
        return SubgraphCost(least.ticks * WEIGHT + least.moved, width, height, depth, choice.least)


def break_ties(problem: Problem, plan: Plan, deadline: float) -> Plan:
    """Return a plan that takes no longer in whole units of time, and as little else as is found."""
    until = min(deadline, time.monotonic() + SECONDS)
    pricer, known = _Frugal(problem, until), [plan]
    blocks = [frozenset(step.operations) for step in plan.subgraphs]
    if sum(map(len, blocks)) == len(problem.graph.inputs):
        partition = Partition(pricer)
        for block in blocks:
            partition.put(block)
        arrangement = Sequencing(pricer)
        with suppress(OutOfTimeError):
            found = [arrangement.kept(blocks)]
            known += [plan_of(pricer, steps) for _, steps in filter(None, found)]
            found = [arrangement.arranged(merge_greedily(pricer, until, partition).blocks)]
            known += [plan_of(pricer, steps) for _, steps in filter(None, found)]
    most = -(-sum(latencies(problem, plan)) // problem.graph.scale) * problem.graph.scale
    alike = [one for one in known if sum(latencies(problem, one)) <= most]
    return min((_frugal(problem, one, most) for one in alike), key=lambda one: rank(problem, one))


def _frugal(problem: Problem, plan: Plan, most: int) -> Plan:
    """Return the plan with granularities that move least, in so many ticks at most."""
    graph, pricer, resident = problem.graph, Pricer(problem), frozenset[int]()
    spare, steps = most - sum(latencies(problem, plan)), []
    for step in plan.subgraphs:
        ops, retained = frozenset(step.operations), frozenset(step.retained)
        found = pricer.structure(ops, resident, retained)
        assert not isinstance(found, str)
        room = graph.fast_memory_capacity - pricer.kept(resident, retained)
        own = ticks(graph, found, step.granularity, step.order)
        least = least_traffic(graph, ops, found, room, own + spare)
        if least is not None and least[:2] < (
            elements_moved(graph, found, step.granularity, step.order),
            own,
        ):
            step = replace(step, granularity=least.granularity, order=ORDERS[least.order])
            spare -= least.ticks - own
        steps.append(step)
        resident = retained
    return Plan(tuple(steps))
