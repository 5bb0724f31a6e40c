"""What ``auto`` runs for grouping."""

from __future__ import annotations

from tilewright.core.portfolio import Portfolio
from tilewright.grouping.exact.bitsets import fits
from tilewright.grouping.problem import Problem

SMALL = 144
"""Patches up to which the exact search can be expected to prove something."""


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: improvement and, on small layers, the exact search."""
    small = problem.n_patches <= SMALL and fits(problem)
    return Portfolio("lns", "exact" if small else None)
