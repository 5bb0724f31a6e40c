"""Two costs of a network, each the sum over its layers: the front of the sums, and the best one in a limit.

Layers share nothing but what they may cost in all. A network's plan that no other dominates therefore takes
each layer's plan from that layer's front: a plan that is not on the front can be replaced by one that is, and
neither sum grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.front import undominated
from tilewright.spec.errors import InputError

Point = tuple[int, int]
Front = Sequence[Point]
"""What the plans of a layer's front cost: the first cost ascends, the second descends."""

Costs = NDArray[np.int64]
"""Pairs of costs, shape (points, 2)."""

LARGEST = 2**61
"""How much more than the sums of the least costs may be counted, so that no sum overflows."""


@dataclass(frozen=True)
class FrontParams:
    """How much is looked at before what is exact is given up.

    Attributes
    ----------
    points
        Points of a sum of fronts up to which all are found; of larger ones, those on the convex hull are.
    choices
        Partial choices that may be best, up to which the best one is proven.
    shown
        Points that are returned of a front, about.
    block
        Sums that are looked at together: 32 MB.
    """

    points: int = 100_000
    choices: int = 4_000_000
    shown: int = 1000
    block: int = 2_000_000


PARAMS = FrontParams()


class Sums(NamedTuple):
    """Points of the front of a sum, that with least of the first cost first.

    Attributes
    ----------
    points
        What each costs.
    chosen
        Which point of each layer's front makes them, shape (points, layers).
    n_points
        Points of the whole front; None where it has too many, and these are those on its convex hull.
    every
        Of the points that were found each so many-th one is here, and the last.
    """

    points: list[Point]
    chosen: NDArray[np.int64]
    n_points: int | None
    every: int


class Choice(NamedTuple):
    """The plans of layers that together have least of the second cost within a limit on the first.

    Attributes
    ----------
    chosen
        Which point of each layer's front.
    bound
        No choice has less of the second cost; the choice is proven to be best if it has as little.
    """

    chosen: list[int]
    bound: int


def sum_of_fronts(fronts: Sequence[Front], params: FrontParams = PARAMS) -> Sums:
    """Return the front of layers that are executed one after the other, from the front of each.

    Layers are added one by one. A sum that another dominates is left out: adding the same to both keeps it
    dominated. Where more than `params.points` are left, the points on the convex hull of the front are
    returned instead: they are on the front, and no plan is below the lines between them.

    Raises
    ------
    InputError
        Where the costs of plans differ by more than is counted.
    """
    least, layers = _above_least(fronts)
    stages = [np.zeros((1, 2), np.int64)]
    for front in layers:
        stages.append(_undominated_sums(stages[-1], front, params.block))
        if len(stages[-1]) > params.points:
            return _hull(layers, least, params.shown)
    many = len(stages[-1])
    every = -(-many // params.shown)
    shown = _every_nth(many, every)
    chosen = _trace_choices(stages[-1][shown], stages[:-1], layers)
    return Sums(_add_least(stages[-1][shown], least), chosen, many, every)


def cheapest_choice(fronts: Sequence[Front], limit: int, params: FrontParams = PARAMS) -> Choice | None:
    """Return the choice with the least of the second cost whose first is within a limit, None if none is.

    This is branch and bound, layer by layer. A partial choice is left out where another dominates it, and
    where its bound is not below the incumbent. The bound takes the remaining layers' fronts as convex: as if
    every point between two corners of the hull could be chosen. Where more than `params.choices` partial
    choices are left, the incumbent is returned with a bound.

    Raises
    ------
    InputError
        Where the costs of plans differ by more than is counted.
    """
    least, layers = _above_least(fronts)
    room = min(limit - least[0], LARGEST)
    if room < 0:
        return None
    # What differs most first, so that the bound on the rest is soon a close one.
    order = sorted(range(len(layers)), key=lambda number: -int(layers[number][0, 1]))
    layers = [layers[number] for number in order]
    known, value = _greedy(layers, room)
    rests = [_Rest(layers[number:]) for number in range(len(layers) + 1)]
    bound = max(0, int(rests[0].least(np.array([room]))[0]))
    stages = [np.zeros((1, 2), np.int64)]
    for front, rest in zip(layers, rests[1:], strict=True):
        sums = _undominated_sums(stages[-1], front, params.block, room)
        stages.append(sums[sums[:, 1] + rest.least(room - sums[:, 0]) < value])
        if len(stages[-1]) > params.choices:
            return Choice(_in_order_of_network(known, order), least[1] + bound)
    if len(stages[-1]):
        best = stages[-1][-1:]
        known, value = _trace_choices(best, stages[:-1], layers)[0].tolist(), int(best[0, 1])
    return Choice(_in_order_of_network(known, order), least[1] + value)


def _above_least(fronts: Sequence[Front]) -> tuple[Point, list[Costs]]:
    """Return the sums of the least costs, and each front above its own."""
    least = sum(front[0][0] for front in fronts), sum(front[-1][1] for front in fronts)
    most = sum(front[-1][0] for front in fronts), sum(front[0][1] for front in fronts)
    spread = max(most[0] - least[0], most[1] - least[1])
    if spread > LARGEST:
        limit = f"the costs of plans on its layers' fronts differ by more than {LARGEST:,} in all"
        raise InputError("network", spread, limit)
    return least, [
        np.array([(one - front[0][0], other - front[-1][1]) for one, other in front], np.int64)
        for front in fronts
    ]


def _add_least(values: Costs, least: Point) -> list[Point]:
    return [(one + least[0], other + least[1]) for one, other in values.tolist()]


def _in_order_of_network(chosen: list[int], order: Sequence[int]) -> list[int]:
    """Return what was chosen of layers in an order, in the network's."""
    return [place for _, place in sorted(zip(order, chosen, strict=True))]


def _every_nth(many: int, every: int) -> NDArray[np.intp]:
    """Return the numbers of each so many-th point, and of the last."""
    return np.unique(np.append(np.arange(0, many, every), many - 1))


def _undominated_sums(many: Costs, front: Costs, block: int, room: int = LARGEST) -> Costs:
    """Return the undominated sums of a point of each whose first is within the room, by ascending first.

    Parameters
    ----------
    block
        Sums that are looked at together.
    """
    rows = max(1, block // len(front))
    found = np.zeros((0, 2), np.int64)
    for at in range(0, len(many), rows):
        sums = (many[at : at + rows, None] + front[None]).reshape(-1, 2)
        found = np.concatenate([found, sums[sums[:, 0] <= room]])
        found = found[undominated(found[:, 0], found[:, 1])]
    return found


def _trace_choices(left: Costs, stages: Sequence[Costs], layers: Sequence[Costs]) -> NDArray[np.int64]:
    """Return which points make some sums: one of each layer's front, shape (sums, layers).

    Parameters
    ----------
    stages
        The sums before each layer, by ascending first.
    """
    chosen = np.zeros((len(left), len(layers)), np.int64)
    for number in range(len(layers) - 1, -1, -1):
        before, found = stages[number], np.full(len(left), -1)
        for place, point in enumerate(layers[number]):
            rest = left - point
            at = np.minimum(np.searchsorted(before[:, 0], rest[:, 0]), len(before) - 1)
            fits = (found < 0) & (before[at] == rest).all(axis=1)
            chosen[fits, number], found[fits] = place, at[fits]
        left = before[found]
    return chosen


class _Edge(NamedTuple):
    """An edge of the convex hull of a layer's front, from one point to a later one.

    Edges sort by how much the first cost rises for what the second falls.
    """

    slope: Fraction
    layer: int
    more: int
    less: int
    place: int


def _edges(layers: Sequence[Costs]) -> list[_Edge]:
    """Return the edges of all layers' convex hulls, in the order in which they make the hull of the sum."""
    return sorted(
        _Edge(Fraction(more, less), number, more, less, other)
        for number, front in enumerate(layers)
        for one, other in pairwise(_corners(front))
        for more, less in [(int(front[other, 0] - front[one, 0]), int(front[one, 1] - front[other, 1]))]
    )


def _corners(front: Costs) -> list[int]:
    """Return which points of a front are corners of its convex hull."""
    corners: list[int] = []
    points: list[list[int]] = front.tolist()
    for place, (first, second) in enumerate(points):
        while len(corners) > 1:
            (x, y), (u, v) = points[corners[-2]], points[corners[-1]]
            if (v - y) * (first - x) < (second - y) * (u - x):
                break
            corners.pop()
        corners.append(place)
    return corners


def _hull(layers: Sequence[Costs], least: Point, most: int) -> Sums:
    """Return the points on the convex hull of a sum of fronts."""
    edges = _edges(layers)
    at = np.array([0, sum(int(front[0, 1]) for front in layers)])
    moves = np.array([(edge.more, -edge.less) for edge in edges], np.int64).reshape(-1, 2)
    values = at + np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(moves, axis=0)])
    chosen = np.zeros((len(values), len(layers)), np.int64)
    for number, edge in enumerate(edges):
        chosen[number + 1 :, edge.layer] = edge.place
    every = -(-len(values) // most)
    shown = _every_nth(len(values), every)
    return Sums(_add_least(values[shown], least), chosen[shown], None, every)


def _greedy(layers: Sequence[Costs], room: int) -> tuple[list[int], int]:
    """Return a choice that fits, as far along all hulls as there is room, and its second cost."""
    chosen, value = [0] * len(layers), sum(int(front[0, 1]) for front in layers)
    stopped: set[int] = set()
    for edge in _edges(layers):
        if edge.layer in stopped or edge.more > room:
            stopped.add(edge.layer)
            continue
        chosen[edge.layer] = edge.place
        room, value = room - edge.more, value - edge.less
    return chosen, value


class _Rest:
    """What layers cost at least of the second, as a function of what they may cost of the first."""

    def __init__(self, layers: Sequence[Costs]) -> None:
        edges = _edges(layers)
        self.more = np.array([edge.more for edge in edges] or [1], np.int64)
        self.less = np.array([edge.less for edge in edges] or [0], np.int64)
        self.begins = np.cumsum(self.more) - self.more
        self.second = sum(int(front[0, 1]) for front in layers) - (np.cumsum(self.less) - self.less)

    def least(self, room: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a lower bound, by the lines between the corners, for what is not negative."""
        at = np.searchsorted(self.begins, room, side="right") - 1
        along = np.minimum(room - self.begins[at], self.more[at])
        # Rounded up in floating point, in which the quotient is right to more digits than this.
        saved = np.ceil(along * (self.less[at] / self.more[at]) * (1 + 1e-12)).astype(np.int64)
        return np.asarray(self.second[at] - np.minimum(saved, self.less[at]))
