"""What ``auto`` runs for grouping: which methods, side by side, for which share of the time."""

from __future__ import annotations

from tilewright.grouping.problem import Problem

SMALL = 4_000
"""Patches times steps up to which an exact formulation is worth a share of the time."""


def portfolio(problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
    """Return phases as (share of the time, methods that run side by side).

    Improvers start from the best constructive plan; each copy has a seed of its own. Layers that are
    small enough get the stronger MIP for the rest of the time, beside an improver where a second thread
    is to be had.
    """
    improvers = ["lns"] * threads
    if problem.n_patches * problem.kmin > SMALL:
        return [(1.0, improvers)]
    return [(0.5, improvers), (0.5, ["lives@highs", *improvers[1:]])]
