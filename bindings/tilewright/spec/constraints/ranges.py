"""Whether something can still hold where some decisions are open: arithmetic of ranges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from tilewright.spec.constraints.parts import Constant, Ground, Term

Range = tuple[int, int]
"""The least and the largest value; of a truth 0 and 1."""


def value_range(part: Ground, ranges: Callable[[Term], Range]) -> Range:
    """Return what values a part of whole numbers and truths can have.

    Parameters
    ----------
    ranges
        Returns the range of a term; a name is its number in its set.
    """
    if isinstance(part, Constant):
        return int(part.value), int(part.value)
    if isinstance(part, Term):
        return ranges(part)
    operands = [value_range(each, ranges) for each in part.operands]
    low, high = operands[0]
    match part.operator:
        case "+" | "count":
            return sum(least for least, _ in operands), sum(most for _, most in operands)
        case "neg":
            return -high, -low
        case "not":
            return 1 - high, 1 - low
        case "and" | "min":
            return min(least for least, _ in operands), min(most for _, most in operands)
        case "or" | "max":
            return max(least for least, _ in operands), max(most for _, most in operands)
        case "implies":
            return max(1 - high, operands[1][0]), max(1 - low, operands[1][1])
        case "*":
            for other in operands[1:]:
                ends = [one * two for one, two in product((low, high), other)]
                low, high = min(ends), max(ends)
            return low, high
        case "//":
            by = operands[1][0]
            return low // by, high // by
        case "%":
            by = operands[1][0]
            whole = low // by == high // by
            return (low % by, high % by) if whole else (0, by - 1)
    other_low, other_high = operands[1]
    match part.operator:
        case "<=":
            return int(high <= other_low), int(low <= other_high)
        case "<":
            return int(high < other_low), int(low < other_high)
    equal = int(low == high == other_low == other_high), int(low <= other_high and other_low <= high)
    return equal if part.operator == "==" else (1 - equal[1], 1 - equal[0])


def rises_with(part: Ground, wanted: Callable[[Term], bool]) -> tuple[bool, bool]:
    """Return whether a part may become larger, and smaller, where some terms do; a truth is more if it holds.

    Parameters
    ----------
    wanted
        Whether a term is one of those.
    """
    if isinstance(part, Constant):
        return False, False
    if isinstance(part, Term):
        return wanted(part), False
    ways = [rises_with(each, wanted) for each in part.operands]
    up, down = any(way[0] for way in ways), any(way[1] for way in ways)
    match part.operator:
        case "+" | "min" | "max" | "and" | "or" | "count" | "//":
            return up, down
        case "neg" | "not":
            return down, up
        case "<=" | "<" | "implies":
            return ways[0][1] or ways[1][0], ways[0][0] or ways[1][1]
        case "*" if all(isinstance(each, Constant) and each.value >= 0 for each in part.operands[1:]):  # type: ignore[operator]
            return up, down
    return up or down, up or down


def can_hold(part: Ground, ranges: Callable[[Term], Range]) -> bool:
    """Whether a truth may hold for some values in the ranges of its terms."""
    return value_range(part, ranges)[1] > 0
