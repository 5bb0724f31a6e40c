"""What the models of columns share: which problems they take, their size, and words that they state."""

from __future__ import annotations

from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.exact_cover import adds_up, find_cover, no_layouts

__all__ = ["WORDS", "size", "suits", "why_not"]

WORDS = (
    "together",
    "size",
    "tile.rows",
    "tile.columns",
    "tile.kernels",
    "tile.channels",
    "tile.halo",
    "tile.order",
    "tile.parameters",
    "buffer",
    "group.cycles",
    "group.traffic",
    "group.energy",
    "group.memory",
    "groups",
    "cycles",
    "traffic",
    "energy",
)
"""Words that are sums over the chosen groups."""


def suits(problem: Problem) -> bool:
    """Whether the formulations take a problem."""
    return adds_up(problem) and why_not(problem) is None


def why_not(problem: Problem) -> str | None:
    """Say why the formulations do not take a problem, as far as one reason says it."""
    return no_layouts(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints there are: of operations, and of pairs that have an order."""
    choice = find_cover(problem)
    return len(choice.prices) + len(choice.links) + 2 * len(choice.ties) + len(choice.clashes)
