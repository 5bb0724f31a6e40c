"""What a host takes for an operation."""

from __future__ import annotations

import pytest

from tilewright.spec.errors import InputError
from tilewright.spec.host import Host


@pytest.mark.parametrize(
    ("price", "moved", "cycles"),
    [(0.1, 10, 6), (0.1, 11, 7), (0.1, 0, 5), (2, 3, 11), (1e-7, 10**7, 6), (0.3, 10**15, 3 * 10**14 + 5)],
)
def test_cycles_are_those_of_the_decimal_price_rounded_up(price: float, moved: int, cycles: int) -> None:
    assert Host(cycles_per_byte=price, cycles_per_call=5).cycles(moved) == cycles


def test_negative_and_endless_prices_are_refused() -> None:
    for price in (-1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="cycles_per_byte"):
            Host(cycles_per_byte=price)
