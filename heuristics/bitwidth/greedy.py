"""Greedy: from the least noise on, give up bits where they cost least noise."""

from __future__ import annotations

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.descent import descend


def suits(problem: Problem) -> bool:
    """Whether one plan is asked for."""
    return problem.minimise != "pareto"


def plan(problem: Problem) -> Plan:
    """Take the steps of least noise for each bit that they save."""
    return descend(problem)
