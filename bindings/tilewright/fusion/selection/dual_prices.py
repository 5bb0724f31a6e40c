"""Prices of operations: what a linear relaxation proves about the costs of groups.

If each operation has a price, and no candidate costs less than its members, no plan costs less than all
operations: each is a member of one group. The highest such prices are the dual of the choice in which groups
may be taken in part, and in any order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from sys import maxsize

import numpy as np

from tilewright.fusion.selection.candidates import Candidate

__all__ = ["dual_prices"]

ROUNDS = 500
"""Rounds in which prices are raised: in tests they came within 0.1% of the linear relaxation's bound."""


def dual_prices(
    operations: int, candidates: Sequence[Candidate], known_cost: int, deadline: float = inf
) -> list[int]:
    """Return a price for each operation; no candidate costs less than the sum of its members' prices.

    Subgradient steps (Held, Wolfe and Crowder 1974) raise the bound of the Lagrangian relaxation: operations
    that no candidate below its members' prices holds become dearer, those that several hold cheaper. Then
    prices are made integral, and feasible.

    Parameters
    ----------
    operations
        Number of operations.
    candidates
        Groups of them, each operation alone among these.
    known_cost
        Cost of a plan, which the sum of all prices cannot exceed.
    deadline
        ``time.monotonic()`` at which to end with the prices so far.
    """
    cost = np.array([candidate.cost for candidate in candidates], dtype=float)
    sizes = np.array([len(candidate.nodes) for candidate in candidates])
    members = np.concatenate([candidate.nodes for candidate in candidates])
    begins = np.cumsum(sizes) - sizes
    price = np.full(operations, np.inf)
    np.minimum.at(price, members, np.repeat(cost / sizes, sizes))
    best, least, step, rounds_since = price, price.sum(), 1.0, 0
    for _ in range(ROUNDS):
        if time.monotonic() > deadline:
            break
        reduced = cost - np.add.reduceat(price[members], begins)
        below = reduced < 0
        value = price.sum() + reduced[below].sum()
        if value > least:
            best, least, rounds_since = price, value, 0
        elif (rounds_since := rounds_since + 1) == 15:
            price, step, rounds_since = best, step / 2, 0
            continue
        direction = 1 - np.bincount(members, np.repeat(below, sizes), operations)
        squared_length = direction @ direction
        if not squared_length:
            break
        aim = min(known_cost, 1.05 * least) - value
        price = price + max(step * aim / squared_length, 0) * direction
    return _feasible(best.astype(int).tolist(), candidates)


def _feasible(price: list[int], candidates: Sequence[Candidate]) -> list[int]:
    """Lower prices until no candidate costs less than its members', then raise each as far as it goes."""
    slack = [candidate.cost - sum(price[number] for number in candidate.nodes) for candidate in candidates]
    holders: list[list[int]] = [[] for _ in price]
    for index, candidate in enumerate(candidates):
        for number in candidate.nodes:
            holders[number].append(index)
    for highest in (0, maxsize):
        for number, held_by in enumerate(holders):
            change = min(highest, *(slack[index] for index in held_by))
            price[number] += change
            for index in held_by:
                slack[index] -= change
    return price
