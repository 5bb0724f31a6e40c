"""What ``auto`` runs for offloading."""

from __future__ import annotations

from tilewright.core.packages import ORTOOLS, installed
from tilewright.core.portfolio import Portfolio
from tilewright.offloading.problem import Problem

SMALL = 5_000
"""Cells times steps up to which a model can be expected to prove something."""


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: improvement, and on small layers a model beside it."""
    machine = problem.machine
    stated = not machine.burst and machine.placement == "counted"
    small = stated and problem.elements.n_cells * problem.fewest_steps * machine.parts <= SMALL
    model = "blocks@cpsat" if installed(ORTOOLS) else "held@highs"
    return Portfolio("descent", model if small else None)
