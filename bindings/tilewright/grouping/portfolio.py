"""What ``auto`` runs for grouping: which methods, side by side, for which share of the time."""

from __future__ import annotations

from tilewright.grouping.exact.bitsets import fits
from tilewright.grouping.problem import Problem

SMALL = 144
"""Patches up to which the exact search can be expected to prove something."""


def portfolio(problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
    """Return phases as (share of the time, methods that run side by side).

    The improvers start from the best constructive plan, each with a seed of its own. On small layers the
    exact search follows, with all threads; the improvers get what it leaves.
    """
    improvers = ["lns"] * threads
    if problem.n_patches > SMALL or not fits(problem):
        return [(1.0, improvers)]
    return [(0.03, improvers), (0.87, ["exact"]), (0.1, improvers)]
