"""What ``auto`` runs for offloading."""

from __future__ import annotations

from shutil import which

from tilewright.core.packages import ORTOOLS, installed
from tilewright.core.portfolio import Portfolio
from tilewright.offloading import minizinc
from tilewright.offloading.exact.tables import why_not as why_no_orders
from tilewright.offloading.problem import Problem

SMALL = 5_000
"""Cells times steps up to which a model can be expected to prove something."""


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: improvement, and beside it the search over orders or, if small, a model.

    The search knows no constraints. Bursts and addresses are stated by `reference` alone.
    """
    return Portfolio("descent", _proving(problem))


def _proving(problem: Problem) -> str | None:
    machine = problem.machine
    if not problem.constraints and why_no_orders(problem) is None:
        return "orders"
    if machine.burst or machine.placement == "contiguous":
        there = which("minizinc") is not None
        return "reference@gecode" if there and minizinc.why_not(problem) is None else None
    if problem.elements.n_cells * problem.fewest_steps * machine.parts > SMALL:
        return None
    return "blocks@cpsat" if installed(ORTOOLS) else "held@highs"
