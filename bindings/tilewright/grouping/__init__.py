"""Grouping: partition a layer's patches into ordered steps so that the least data is loaded."""

from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem

__all__ = ["Plan", "Problem"]
