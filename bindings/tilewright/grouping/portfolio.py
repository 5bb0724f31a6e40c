"""What ``auto`` runs for grouping: which methods, side by side, for which share of the time."""

from __future__ import annotations

from tilewright.grouping.problem import Problem

SMALL = 1_000
"""Patches times steps up to which exact formulations can be expected to prove something."""


def portfolio(problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
    """Return phases as (share of the time, methods that run side by side).

    The improvers start from the best constructive plan, each with a seed of its own. On small layers the
    exact formulations follow and start from what was found: the constraint program, which closes more
    cells of the S1 paper's grid than the integer program, beside it or, on one thread, before it.
    """
    improvers = ["lns"] * threads
    if problem.n_patches * problem.kmin > SMALL:
        return [(1.0, improvers)]
    exact = ["ordered@gecode", "lives@highs"]
    if threads == 1:
        return [(0.05, improvers), (0.7, exact[:1]), (0.25, exact[1:])]
    return [(0.05, improvers), (0.95, exact)]
