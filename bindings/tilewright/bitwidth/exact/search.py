"""The exact search: trade-offs of noise and bits, merged layer by layer.

Both costs of a plan are sums over its layers, and the limits are on these sums. So a choice for the first
layers that another one beats in noise and bits is beaten in every plan that it begins, and may be dropped;
the rest is the front of the first layers. A multiple-choice knapsack of two costs, by dynamic programming.

Where one plan is asked for, choices are dropped, too, that no completion makes better than a known plan. The
other cost has a price for that: for any price that is not negative, what all layers cost with it, less the
price of all that the limit allows, is no more than the cost of any plan within the limit (Lagrange). The best
price is found by bisection.
"""

from __future__ import annotations

import time
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.bitwidth.descent import descend
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.core.front import undominated
from tilewright.spec.errors import OutOfTimeError

MOST_PAIRS = 20_000_000
"""Most pairs of a choice so far and a candidate that are compared at a time."""

HALVINGS = 100
"""Steps of the bisection for the price."""

ROUNDING = 1e-9
"""By how much of the largest amounts in it a bound in floating point may be wrong, at most."""

Ints = NDArray[np.int64]


class Point(NamedTuple):
    """A plan with its costs."""

    noise: int
    bits: int
    plan: Plan


def front_of(problem: Problem, deadline: float = float("inf")) -> list[Point]:
    """Return all trade-offs within the limits, least noise first; nothing where no plan keeps them.

    Raises
    ------
    OutOfTimeError
        When the deadline passes, or there are more trade-offs than memory is for.
    """
    return _merged(problem, None, deadline)


def best_of(problem: Problem, deadline: float = float("inf")) -> Point | None:
    """Return the plan of least noise, or fewest bits, that keeps the limits; None where there is none.

    Raises
    ------
    OutOfTimeError
        As `front_of`.
    """
    found = _merged(problem, _Pruning(problem), deadline)
    if not found:
        return None
    return found[-1] if problem.minimise == "bits" else found[0]


def priced_bound(problem: Problem) -> int:
    """Return a lower bound on the cost of every plan within the limit on the other cost."""
    return _Pruning(problem).bound


class _Pruning:
    """What tells that a choice for the first layers leads to nothing better than a known plan."""

    def __init__(self, problem: Problem) -> None:
        self.of_bits = problem.minimise == "bits"
        limits = problem.most_noise, problem.limits.bits
        self.limit, own = limits if self.of_bits else limits[::-1]
        layers = [np.array([one[2:] for one in layer], dtype=np.int64) for layer in problem.choices]
        self.costs = [layer[:, int(self.of_bits)] for layer in layers]
        self.uses = [layer[:, int(not self.of_bits)] for layer in layers]
        self.price = 0.0 if self.limit is None else self._best_price(self.limit)
        least = [(cost + self.price * use).min() for cost, use in zip(self.costs, self.uses, strict=True)]
        self.rest: list[float] = [*np.cumsum(least[::-1])[::-1].tolist(), 0.0]
        self.known = self._known(problem, own)

    @property
    def bound(self) -> int:
        """The least that any plan within the limit costs, rounded up."""
        allowed = self.price * (self.limit or 0)
        return int(max(0, ceil(self.rest[0] - allowed - ROUNDING * (allowed + self.rest[0]))))

    def _best_price(self, limit: int) -> float:
        """Return about the price at which layers together use what the limit allows."""
        low, high = 0.0, 1.0
        while self._used(high) > limit and high < 1e18:
            high *= 4
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._used(middle) > limit else (low, middle)
        return high

    def _used(self, price: float) -> int:
        """Return what layers use that each cost least with a price."""
        pairs = zip(self.costs, self.uses, strict=True)
        return sum(int(use[np.argmin(cost + price * use)]) for cost, use in pairs)

    def _known(self, problem: Problem, own: int | None) -> int | None:
        """Return the cost of a plan that keeps all limits, if one is found quickly."""
        cost = use = 0
        for layer, widths in zip(problem.choices, descend(problem).widths, strict=True):
            [one] = (one for one in layer if one[:2] == widths)
            costs = one[2:]
            cost += costs[int(self.of_bits)]
            use += costs[int(not self.of_bits)]
        keeps = (self.limit is None or use <= self.limit) and (own is None or cost <= own)
        return cost if keeps else None

    def kept(self, number: int, noise: Ints, bits: Ints) -> NDArray[np.bool_]:
        """Tell for choices of the first layers which ones may lead to a plan as good as the known one."""
        if self.known is None:
            return np.ones(len(noise), dtype=np.bool_)
        cost, use = (bits, noise) if self.of_bits else (noise, bits)
        allowed = self.price * (self.limit or 0)
        bound = cost + self.price * use + self.rest[number] - allowed
        kept: NDArray[np.bool_] = bound <= self.known + ROUNDING * (self.known + allowed + self.rest[0])
        return kept


def _merged(problem: Problem, pruning: _Pruning | None, deadline: float) -> list[Point]:
    """Return the front within the limits; with pruning the parts of it that matter."""
    choices = problem.choices
    loudest, most_bits = problem.most_noise, problem.limits.bits
    rest_noise = [*np.cumsum([layer[0].noise for layer in choices][::-1])[::-1].tolist(), 0]
    rest_bits = [*np.cumsum([layer[-1].bits for layer in choices][::-1])[::-1].tolist(), 0]
    noise, bits = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    taken: list[tuple[Ints, Ints]] = []  # of each layer: the choice before it, and its own
    for number, layer in enumerate(choices, start=1):
        if time.monotonic() > deadline or len(noise) * len(layer) > MOST_PAIRS:
            raise OutOfTimeError
        own = np.array([one[2:] for one in layer], dtype=np.int64)
        all_noise, all_bits = (noise[:, None] + own[:, 0]).ravel(), (bits[:, None] + own[:, 1]).ravel()
        kept = np.arange(len(all_noise))
        if loudest is not None:
            kept = kept[all_noise[kept] + rest_noise[number] <= loudest]
        if most_bits is not None:
            kept = kept[all_bits[kept] + rest_bits[number] <= most_bits]
        if pruning is not None:
            kept = kept[pruning.kept(number, all_noise[kept], all_bits[kept])]
        kept = kept[undominated(all_noise[kept], all_bits[kept])]
        noise, bits = all_noise[kept], all_bits[kept]
        taken.append((kept // len(layer), kept % len(layer)))
    return [
        Point(int(noise[place]), int(bits[place]), _plan(problem, taken, place))
        for place in range(len(noise))
    ]


def _plan(problem: Problem, taken: list[tuple[Ints, Ints]], place: int) -> Plan:
    """Return the plan that ends at a place of the last layer's front."""
    widths = []
    for choices, (before, own) in zip(reversed(problem.choices), reversed(taken), strict=True):
        chosen = choices[own[place]]
        widths.append((chosen.inputs, chosen.weights))
        place = int(before[place])
    return Plan(tuple(layer.name for layer in problem.layers), tuple(reversed(widths)))
