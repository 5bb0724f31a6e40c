"""The room's own exact method: a shortest path through the downsets of the graph.

Why nothing is lost is argued in the module that it stands on: ``tilewright.fusion.selection.downset_search``.
Constraints that each speak of one group leave groups and tiles out; those that relate groups are for
``tilewright.fusion.selection.constrained_search``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.context import Outcome, RunContext
from tilewright.fusion import Plan, Problem
from tilewright.fusion.evaluation import decided_layouts
from tilewright.fusion.selection import constrained_search
from tilewright.fusion.selection.candidates import Candidate, candidates, single_operations
from tilewright.fusion.selection.constrained_search import relates_groups
from tilewright.fusion.selection.downset_search import Shared, search_downsets
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.fusion.selection.least_memory import minimise_memory
from tilewright.heuristics.fusion import greedy
from tilewright.spec.constraints.parts import Ground


def honours(problem: Problem, part: Ground) -> bool:
    """Whether the method honours what must hold; the search for what relates groups knows no layouts."""
    return problem.machine.layouts is None or not relates_groups(problem, part)


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum."""
    if any(relates_groups(problem, part) for part in problem.must_hold):
        plan, cost, proven = constrained_search.search(problem, search.deadline, search.on_plan)
        if plan is None:
            return Outcome("infeasible" if proven else "unknown")
        if proven:
            search.on_bound(cost, problem.orders)
        return Outcome("optimal" if proven else "feasible", plan, cost if proven else None)
    return _least_memory(problem, search) if problem.minimise == "memory" else _cheapest(problem, search)


def _least_memory(problem: Problem, search: RunContext) -> Outcome:
    plan, bound, proven = None, None, False
    for found in minimise_memory(problem, search.deadline):
        proven = found.proven
        if found.chosen:
            plan = order_groups(problem, found.chosen)
            search.on_plan(plan)
        elif proven:
            return Outcome("infeasible")
        if found.bound != bound:
            bound = found.bound
            search.on_bound(bound, problem.orders)
    if plan is None:
        return Outcome("unknown", bound=bound)
    return Outcome("optimal" if proven else "feasible", plan, bound)


def _cheapest(problem: Problem, search: RunContext) -> Outcome:
    # What all groups cost takes most of the time; until then there is a plan without any.
    first, shared = single_operations(problem), Shared.of(problem)
    plan: Plan | None = None
    cost = shared.cost(first)
    if all(one.fits for one in first):
        plan = order_groups(problem, first)
        search.on_plan(plan)
    every = candidates(problem, every_layout=True)
    known = [one for one in every if all(problem.tensors[at].layouts[0] == each for at, each in one.layouts)]
    # What holds an operation that does not fit alone costs at least this much, and is no plan.
    never = min((one.cost for one in every if not one.fits), default=None)
    producers = [op.producers for op in problem.ops]
    start = _start(problem, every, search.start) or greedy.choose(producers, known)
    bound, proven = None, False
    for found in search_downsets(producers, every, start, search.deadline, search.bound or 0, shared):
        if never is not None and found.bound >= never:
            return Outcome("infeasible")
        if (never is None or found.cost < never) and (plan is None or found.cost < cost):
            cost, plan = found.cost, order_groups(problem, found.chosen)
            search.on_plan(plan)
        if found.bound != bound:
            bound = found.bound
            search.on_bound(bound, problem.orders)
        proven = found.proven
    if plan is None:
        return Outcome("unknown", bound=bound)
    return Outcome("optimal" if proven else "feasible", plan, bound)


def _start(problem: Problem, known: Sequence[Candidate], plan: Plan | None) -> list[Candidate]:
    """Return the candidates that are a plan's groups; none if some group is no candidate."""
    if plan is None:
        return []
    layouts = decided_layouts(problem, plan)
    by_names = {
        frozenset(problem.ops[number].name for number in one.nodes): one
        for one in known
        if all(layouts.get(index) == layout for index, layout in one.layouts)
    }
    groups = [by_names.get(frozenset(group.nodes)) for group in plan.groups]
    return [one for one in groups if one] if all(groups) else []
