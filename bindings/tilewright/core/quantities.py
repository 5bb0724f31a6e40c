"""Times and energies as people read them: in a unit that suits, with few digits."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

PREFIXES = {"a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "": 0}

FINEST = "p"
"""The finest prefix that is written: smaller amounts are fractions of it."""

DIGITS = 4
"""Significant digits of an amount by itself."""


def is_scaled(unit: str) -> bool:
    """Whether amounts of a unit are written in others, as those of seconds and joules are."""
    return unit[-1:] in ("s", "J") and unit[:-1] in PREFIXES


def written(value: int | float, unit: str, digits: int = DIGITS) -> str:
    """Write an amount: a time or an energy as ``12.3 ms``, with so many digits; others as they are."""
    if not is_scaled(unit):
        return f"{value:,} {unit}".rstrip()
    exact = Decimal(value).scaleb(PREFIXES[unit[:-1]])
    rounded = _rounded(exact, digits)
    prefix = _prefix(rounded)
    return f"{_plain(rounded.scaleb(-PREFIXES[prefix]))} {prefix}{unit[-1]}"


def written_apart(values: Sequence[int | None], unit: str) -> list[str]:
    """Write amounts with as many digits as it takes for unequal ones to differ; a dash for None."""
    digits = digits_apart(values, unit)
    return ["-" if value is None else written(value, unit, digits) for value in values]


def digits_apart(values: Sequence[int | None], unit: str) -> int:
    """Return how many digits amounts need to differ where they are unequal, `DIGITS` at least."""
    known = {value for value in values if value is not None}
    if not is_scaled(unit):
        return DIGITS
    most = max((len(str(value)) for value in known), default=DIGITS)
    return next(
        (
            digits
            for digits in range(DIGITS, most)
            if len({written(value, unit, digits) for value in known}) == len(known)
        ),
        max(DIGITS, most),
    )


def column(values: Sequence[int | float], unit: str) -> tuple[str, list[str]]:
    """Return the unit of a column of times or energies, that of the largest, and its cells.

    The largest has `DIGITS` digits, and all have as many behind the point.
    """
    exact = [Decimal(value).scaleb(PREFIXES[unit[:-1]]) for value in values]
    largest = _rounded(max(exact, default=Decimal(0)), DIGITS)
    prefix = _prefix(largest)
    whole = len(str(int(largest.scaleb(-PREFIXES[prefix]))))
    step = Decimal(1).scaleb(-max(0, DIGITS - whole))
    cells = [f"{value.scaleb(-PREFIXES[prefix]).quantize(step, ROUND_HALF_EVEN):,f}" for value in exact]
    return f"{prefix}{unit[-1]}", cells


def _rounded(value: Decimal, digits: int) -> Decimal:
    if not value:
        return value
    return value.quantize(Decimal(1).scaleb(value.adjusted() - digits + 1), ROUND_HALF_EVEN)


def _prefix(value: Decimal) -> str:
    """Return the largest prefix of which there is at least one."""
    known = [name for name, power in PREFIXES.items() if power >= PREFIXES[FINEST]]
    return max(
        (name for name in known if abs(value) >= Decimal(1).scaleb(PREFIXES[name])),
        key=PREFIXES.__getitem__,
        default=FINEST,
    )


def _plain(value: Decimal) -> str:
    """Write a number without an exponent, and without zeros at its end."""
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
