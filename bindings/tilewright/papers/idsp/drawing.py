"""Labels of the thesis's figures: where they stand, and short numbers."""

from __future__ import annotations

from collections.abc import Sequence


def spread(heights: Sequence[float], unit: float, low: float, high: float) -> list[float]:
    """Push ascending heights apart until any two are a unit away from each other."""
    at = list(heights)
    for _ in range(200):
        for i in range(len(at) - 1):
            overlap = unit - (at[i + 1] - at[i])
            if overlap > 1e-9:
                at[i] -= overlap / 2
                at[i + 1] += overlap / 2
        at = [min(max(height, low), high) for height in at]
    return at


def short_number(value: float, _: object = None) -> str:
    """Return a tick's value with its unit of a thousand, a million or a billion."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
