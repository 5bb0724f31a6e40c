"""What a constraint means: the one evaluator, by which a plan keeps or breaks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from operator import and_, or_
from typing import Any

import numpy as np

from tilewright.spec.constraints.parts import Constant, Ground, Operation, Term

Values = Callable[[Term], Any]
"""The value of a term: of a plan, or an array of those of many candidates."""


def value(part: Ground, values: Values) -> Any:
    """Return the value of a part.

    Arrays that `values` returns are taken element by element, all of one shape.
    """
    if isinstance(part, Constant):
        return part.value
    if isinstance(part, Term):
        return values(part)
    return _OPERATORS[part.operator]([value(each, values) for each in part.operands])


def _each(
    function: Callable[[Any, Any], Any], arrays: Callable[[Any, Any], Any]
) -> Callable[[list[Any]], Any]:
    def combined(parts: list[Any]) -> Any:
        of_arrays = any(isinstance(part, np.ndarray) for part in parts)
        return reduce(arrays if of_arrays else function, parts)

    return combined


def _not(part: Any) -> Any:
    return ~part if isinstance(part, np.ndarray) else not part


def _count(parts: list[Any]) -> Any:
    return sum(part.astype(np.int64) if isinstance(part, np.ndarray) else int(part) for part in parts)


_OPERATORS: dict[str, Callable[[list[Any]], Any]] = {
    "+": sum,
    "*": prod,
    "//": lambda parts: parts[0] // parts[1],
    "%": lambda parts: parts[0] % parts[1],
    "neg": lambda parts: -parts[0],
    "min": _each(min, np.minimum),
    "max": _each(max, np.maximum),
    "not": lambda parts: _not(parts[0]),
    "and": lambda parts: reduce(and_, parts),
    "or": lambda parts: reduce(or_, parts),
    "implies": lambda parts: _not(parts[0]) | parts[1],
    "==": lambda parts: parts[0] == parts[1],
    "!=": lambda parts: parts[0] != parts[1],
    "<=": lambda parts: parts[0] <= parts[1],
    "<": lambda parts: parts[0] < parts[1],
    "count": _count,
}


def slack(part: Ground, values: Values) -> int | None:
    """Return how much is left until a comparison of numbers is broken; None for what has no such number.

    It is negative where the comparison is broken; of several comparisons that must hold, the least one.
    """
    if isinstance(part, Operation) and part.operator == "and":
        found = [slack(each, values) for each in part.operands]
        return None if None in found else min(each for each in found if each is not None)
    if isinstance(part, Operation) and part.operator in ("<=", "<"):
        left, right = (value(each, values) for each in part.operands)
        return int(right) - int(left) - (part.operator == "<")
    return None
