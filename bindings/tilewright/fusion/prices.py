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

from tilewright.fusion.candidates import Candidate

__all__ = ["prices"]

ROUNDS = 500
"""Rounds in which prices are raised: in tests they came within 0.1% of the linear relaxation's bound."""


def prices(operations: int, candidates: Sequence[Candidate], most: int, deadline: float = inf) -> list[int]:
    """Return a price for each operation; no candidate costs less than the sum of its members' prices.

    Subgradient steps (Held, Wolfe and Crowder 1974) raise the bound of the Lagrangian relaxation: operations
    that no candidate below its members' prices holds become dearer, those that several hold cheaper. Then
    prices are made integral, and feasible.

    Parameters
    ----------
    operations, candidates
        How many operations there are, and groups of them.
    most
        Cost of a plan, which the sum cannot exceed.
    deadline
        When to end with what there is.
    """
    cost = np.array([candidate.cost for candidate in candidates], dtype=float)
    sizes = np.array([len(candidate.nodes) for candidate in candidates])
    members = np.concatenate([candidate.nodes for candidate in candidates])
    starts = np.cumsum(sizes) - sizes
    price = np.full(operations, np.inf)
    np.minimum.at(price, members, np.repeat(cost / sizes, sizes))
    best, least, step, since = price, price.sum(), 1.0, 0
    for _ in range(ROUNDS):
        if time.monotonic() > deadline:
            break
        reduced = cost - np.add.reduceat(price[members], starts)
        worth = reduced < 0
        value = price.sum() + reduced[worth].sum()
        if value > least:
            best, least, since = price, value, 0
        elif (since := since + 1) == 15:
            price, step, since = best, step / 2, 0
            continue
        slope = 1 - np.bincount(members, np.repeat(worth, sizes), operations)
        length = slope @ slope
        if not length:
            break
        aim = min(most, 1.05 * least) - value
        price = price + max(step * aim / length, 0) * slope
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
