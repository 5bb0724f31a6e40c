"""What tests ask of the exact searches of all kinds of machines."""

from __future__ import annotations

from math import inf

from tilewright.core.bounds import Exact
from tilewright.tiling import Plan, Problem, kind_of


def proven_best(problem: Problem) -> Exact:
    """Return the best plan of a layer or an operation, or the front, which there is and which is proven."""
    found = kind_of(problem).exhaustive(problem, inf)
    assert found is not None and found.proven
    return found


def joined_fronts(problem: Problem) -> Plan:
    """Return the plan of a network's front, from the fronts of its layers."""
    return Plan.joined([Plan(proven_best(part).layers, front=True) for _, part in problem.parts])


def undominated(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points that no other is as good as, by ascending first."""
    return [p for p in sorted(points) if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)]
