"""The room's own exact method: what is executed and what is where, layer by layer of a search.

Why nothing is lost is argued in the modules that it stands on: ``tilewright.residency.exact.layers``, and for
time, energy and lists ``tilewright.residency.exact.labels``; where the problem has constraints
``tilewright.residency.exact.constrained``. The rules of the heuristics come first, so that
there is a plan at any time, and none worse than theirs.
"""

from __future__ import annotations

import time

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.residency import Plan, Problem, best_bound, objective, violation
from tilewright.residency.exact.ram_search import honours as honours_without_dram
from tilewright.residency.exact.ties import break_ties
from tilewright.residency.exact.time_and_energy import search_one_objective, stages
from tilewright.residency.exact.without_dram import enough_memory
from tilewright.spec.constraints.parts import Ground
from tilewright.spec.errors import OutOfTimeError

IN_PROCESS = True


def honours(problem: Problem, part: Ground) -> bool:
    """Whether the method honours what must hold: a search that tells plans apart as constraints do."""
    return problem.machine.dram or honours_without_dram(problem, part)


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, of a list that of its last objective when those before it are proven."""
    if best_bound(problem).impossible is not None:
        return Outcome("infeasible")
    last, proven, start = problem, True, search.start

    def proves(bound: int) -> None:
        search.on_bound(bound, problem.grounds)

    if problem.before:
        try:
            stage, proven = stages(problem, search.deadline)
        except OutOfTimeError:
            return Outcome("unknown")
        if stage is None:
            more = None if problem.machine.dram else enough_memory(problem, search.deadline)
            return Outcome("infeasible", bound=more)
        last = stage
        if not proven:
            search.on_unproven()
    else:
        start = _by_rules(problem, search)
        if start is not None and time.monotonic() > search.deadline:
            return Outcome("feasible", start)
    known = None if problem.before else start
    plan, bound, none = search_one_objective(last, search.deadline, proves, search.on_plan, known)
    if none:
        more = None if problem.machine.dram else bound
        return Outcome("infeasible" if proven else "unknown", bound=more)
    if plan is None or not _better(last, plan, start):
        plan = start
    if plan is None:
        return Outcome("unknown", bound=bound)
    search.on_plan(plan)
    proves(bound)
    optimal = proven and objective(last, plan) <= bound
    if optimal:
        plan = break_ties(last, plan, search.deadline if search.latest is None else search.latest)
        search.on_plan(plan)
    return Outcome("optimal" if optimal else "feasible", plan, bound)


def _by_rules(problem: Problem, search: RunContext) -> Plan | None:
    """Return the best plan of the heuristics and the start."""
    found: Plan | None = search.start
    for plan in catalogue.constructed(problem, search.on_failure):
        if violation(problem, plan) is None and _better(problem, plan, found):
            found = plan
            search.on_plan(plan)
        if time.monotonic() > search.deadline:
            break
    return found


def _better(problem: Problem, plan: Plan, other: Plan | None) -> bool:
    return other is None or objective(problem, plan) < objective(problem, other)
