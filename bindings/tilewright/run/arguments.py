"""What callers from Python hand over, as NumPy's numbers: made Python's own, or refused at the call."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

from tilewright.core.context import MAX_SECONDS
from tilewright.spec.errors import InputError

LARGEST = 2**63 - 1


def whole(name: str, value: Any, least: int = 0) -> int:
    """Return a whole number, which must be at least `least`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= LARGEST:
        raise InputError(name, value, f"must be an integer of at least {least} and below 2^63")
    return number


def limit(name: str, value: Any) -> float:
    """Return a time limit."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) <= MAX_SECONDS:
        raise InputError(name, value, f"must be more than 0 and at most {MAX_SECONDS:.0f} seconds")
    return float(value)
