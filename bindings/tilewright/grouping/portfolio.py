"""What ``auto`` runs for grouping: which methods, side by side, for which share of the time."""

from __future__ import annotations

import shutil

from tilewright.grouping.problem import Problem

SMALL = 1_000
"""Patches times steps up to which exact formulations can be expected to prove something."""


def portfolio(problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
    """Return phases as (share of the time, methods that run side by side).

    The improvers start from the best constructive plan, each with a seed of its own. On small layers an
    exact formulation follows and starts from what was found: the constraint program, which closes more
    cells of the S1 paper's grid than the integer program, or that one where MiniZinc is missing.
    """
    improvers = ["lns"] * threads
    if problem.n_patches * problem.kmin > SMALL:
        return [(1.0, improvers)]
    exact = "ordered@gecode" if shutil.which("minizinc") else "lives@highs"
    return [(0.05, improvers), (0.95, [exact, *improvers[1:]])]
