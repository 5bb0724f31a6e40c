"""The room's own exact method: shortest paths over what lies in slow memory and what has been kept.

Why nothing is lost is argued in the module that it stands on: ``tilewright.scheduling.exact.search``, with
constraints ``tilewright.scheduling.exact.constrained``.
"""

from __future__ import annotations

from tilewright.core.context import Outcome, RunContext, Status
from tilewright.scheduling import ROOM, Plan, Problem, objective
from tilewright.scheduling.exact import constrained
from tilewright.scheduling.exact.piece_bound import pieces_bound
from tilewright.scheduling.exact.search import search as find
from tilewright.scheduling.exact.ties import break_ties
from tilewright.scheduling.improvement.partition import Annealing, Steps, merge_greedily
from tilewright.scheduling.improvement.sequencing import plan_of
from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import LONGEST
from tilewright.spec.constraints.parts import Ground

IN_PROCESS = True

FIRST_SECONDS = 0.3
"""How long plans are improved at random before the search, at most."""

LAST_SHARE = 0.2
"""Share of the time for improving plans at random where the search does not come to its end."""


def honours(_problem: Problem, part: Ground) -> bool:
    """Whether the search honours what must hold: all but that a plan takes long."""
    return constrained.no_more_than(part, "latency")


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, or a bound."""
    if problem.constraints:
        return _solve_constrained(problem, search)
    pricer, scale = Pricer(problem), problem.graph.scale
    best: Plan | None = search.start
    value = objective(problem, best) if best is not None else None

    def better(_total: int, steps: Steps) -> None:
        nonlocal best, value
        found = plan_of(pricer, steps)
        cost = objective(problem, found)
        if value is None or cost < value:
            best, value = found, cost
            search.on_plan(found)

    def ended(plan: Plan, value: int) -> Outcome:
        alike = break_ties(problem, plan, search.deadline)
        search.on_plan(alike)
        return Outcome("optimal", alike, value)

    if best is not None and value is not None and value <= (search.bound or 0):
        return ended(best, value)

    def bounded(ticks: int) -> None:
        search.on_bound(_bound(ticks, value, scale))

    partition = merge_greedily(pricer, search.until(0.2))
    annealing = Annealing(pricer, search.seed)
    annealing.run(partition, min(0.05 * search.remaining(), FIRST_SECONDS), search.deadline, better)
    pieces = pieces_bound(pricer, search.until(0.5))
    bounded(pieces)
    # A plan is better if it is in whole units of time.
    below = LONGEST if value is None else (value - 1) * scale + 1
    answer = find(pricer, below, search.until(1 - LAST_SHARE), bounded)
    if answer is not None and answer.ticks is not None:
        better(answer.ticks, answer.steps)
    if answer is not None and answer.proven:
        if best is None:
            return Outcome("infeasible")
        if value is not None and value <= max(whole_units(answer.bound, scale), whole_units(pieces, scale)):
            return ended(best, value)
    annealing.run(partition, search.remaining(), search.deadline, better)
    status: Status = "unknown" if best is None else "feasible"
    return Outcome(status, best, _bound(max(pieces, 0 if answer is None else answer.bound), value, scale))


def _solve_constrained(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum that keeps the constraints, or a bound."""
    scale, best = problem.graph.scale, search.start
    if best is not None and ROOM.violation(problem, best) is not None:
        best = None
    value = None if best is None else objective(problem, best)
    below = LONGEST if value is None else (value - 1) * scale + 1

    def bounded(ticks: int) -> None:
        search.on_bound(_bound(ticks, value, scale))

    answer = constrained.search(problem, below, search.deadline, bounded)
    if answer is None:
        return Outcome("unknown" if best is None else "feasible", best)
    bound = _bound(answer.bound, value, scale)
    if answer.plan is not None and ROOM.violation(problem, answer.plan) is None:
        found = objective(problem, answer.plan)
        if value is None or found < value:
            best, value = answer.plan, found
            search.on_plan(best)
    if best is None:
        none = answer.proven and answer.plan is None
        return Outcome("infeasible") if none else Outcome("unknown", bound=bound)
    return Outcome("optimal" if answer.proven and value == bound else "feasible", best, bound)


def _bound(ticks: int, value: int | None, scale: int) -> int:
    """Return a bound in whole units of time, at most the cost of a known plan."""
    bound = whole_units(ticks, scale)
    return bound if value is None else min(bound, value)
