"""The room's own exact method: a parametric search on the bottleneck, and tables over PEs and levels.

Why nothing is lost is argued in the modules that it stands on: ``tilewright.allocation.search``,
``search_choices``, ``search_path`` and ``search_timing``.
"""

from __future__ import annotations

from tilewright.allocation import Plan, Problem
from tilewright.allocation.search import Found, answers
from tilewright.search import Outcome, Search


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: it chooses shares, and places none."""
    return problem.minimise != "distance"


def solve(problem: Problem, search: Search) -> Outcome:
    """Find and prove the optimum; of ``pareto``, the whole front."""
    front = problem.minimise == "pareto"
    last = Found((), None, 0, False)
    for found in answers(problem, search.deadline):
        if found.plans and found.plans != last.plans:
            search.on_plan(_answer(found, front))
        # The objective of a front is its least interval, and says nothing of the others.
        if found.bound > last.bound and not (front and not found.proven):
            search.on_bound(found.bound)
        last = found
    if not last.plans:
        return Outcome("infeasible" if last.proven else "unknown", bound=last.bound)
    bound = None if front and not last.proven else last.bound
    return Outcome("optimal" if last.proven else "feasible", _answer(last, front), bound)


def _answer(found: Found, front: bool) -> Plan:
    return Plan.joined(found.plans) if front else found.plans[0]
