"""Layerwise: no fusion, each operation is a group of its own (the paper's baseline)."""

from __future__ import annotations

from tilewright.fusion import Plan, Problem
from tilewright.fusion.selection.candidates import single_operations
from tilewright.fusion.selection.execution_order import order_groups


def plan(problem: Problem) -> Plan:
    """Execute each operation with its best tile."""
    return order_groups(problem, single_operations(problem))
