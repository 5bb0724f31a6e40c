"""Annealing: from the greedy partition, or that of a plan, subgraphs are changed at random until time is up.

Begins anew from the best partition, each time for longer; in between, the exact search solves windows of it,
and subgraphs run operations of others, too, where that wins time.
"""

from __future__ import annotations

import time

from tilewright.core.context import RunContext
from tilewright.scheduling import Plan, Problem, objective
from tilewright.scheduling.improvement.partition import Annealing, Partition, Steps, merge_greedily
from tilewright.scheduling.improvement.recompute import Recompute
from tilewright.scheduling.improvement.sequencing import Sequencing, plan_of
from tilewright.scheduling.improvement.windows import Windows
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.spec.errors import InputError

FIRST_SECONDS = 1.0
"""How long the first round takes; each one takes twice as long as the one before."""

IDLE_ROUNDS = 12
"""Rounds after which nothing more is expected of a graph, if none has found anything."""

LAST_SHARE = 0.05
"""Share of the time in which, at last, operations are repeated."""


def plan(problem: Problem, search: RunContext) -> Plan:
    """Improve a plan until the deadline."""
    pricer = Pricer(problem)
    best: Plan | None = search.start
    value = objective(problem, best) if best is not None else None
    partition = merge_greedily(pricer, search.until(0.7))
    given = _partition(pricer, best) if best is not None else None
    if given is not None:
        arrangement = Sequencing(pricer)
        ours, theirs = arrangement.arranged(partition.blocks), arrangement.arranged(given.blocks)
        if ours is None or (theirs is not None and theirs[0] < ours[0]):
            partition = given
    top = dict(partition.of)
    most: tuple[int, Steps] | None = None

    def better(total: int, steps: Steps) -> None:
        nonlocal best, value, top, most
        if most is not None and most[0] <= total:
            return
        most = total, steps
        if sum(len(block) for block, _ in steps) == len(top):
            top = {op: block for block, _ in steps for op in block}
        found = plan_of(pricer, steps)
        cost = objective(problem, found)
        if value is None or cost < value:
            best, value = found, cost
            search.on_plan(found)

    seconds, idle, rounds = FIRST_SECONDS, 0, 0
    last = search.until(1 - LAST_SHARE)
    while time.monotonic() < last and idle < IDLE_ROUNDS:
        if value is not None and search.bound is not None and value <= search.bound:
            break
        before, partition.of = value, dict(top)
        Annealing(pricer, search.seed + rounds).run(partition, seconds, last, better)
        for improver in (Windows(pricer, search.seed + rounds), Recompute(pricer)):
            if most is not None:
                improver.run(*most, min(time.monotonic() + seconds, last), better)
        rounds += 1
        idle = idle + 1 if value == before else 0
        seconds *= 2
    if most is not None:
        Recompute(pricer).run(*most, search.deadline, better)
    if best is None:
        raise InputError("graph.fast_memory_capacity", problem.graph.fast_memory_capacity, "is too small")
    return best


def _partition(pricer: Pricer, plan: Plan) -> Partition | None:
    """Return the partition of a plan that runs no operation twice."""
    partition = Partition(pricer)
    if sum(len(step.operations) for step in plan.subgraphs) != len(partition.of):
        return None
    for step in plan.subgraphs:
        partition.put(frozenset(step.operations))
    return partition
