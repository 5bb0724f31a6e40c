"""Grouping: partition a layer's patches into ordered steps so that the least data is loaded."""

from tilewright.grouping.bounds import best_bound
from tilewright.grouping.plan import Plan, objective
from tilewright.grouping.portfolio import portfolio
from tilewright.grouping.problem import Problem
from tilewright.grouping.program import (
    lower,
    measured_objective,
    numeric_elements,
    simulate,
    simulation_seconds,
)
from tilewright.grouping.validity import fault

__all__ = [
    "KINDS",
    "Plan",
    "Problem",
    "best_bound",
    "fault",
    "lower",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
]

KINDS = ("conv",)
"""Kinds of layers that are taken from a network; a fully connected layer is a single patch."""
