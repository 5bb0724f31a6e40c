"""An integer program whose linear relaxation has whole solutions only.

A *spot* fixes what makes costs and buffers products of more than two steps: the steps of the loops over
images, rows and columns, a schedule, and whether the loops over output maps (c) and input maps (k) have
several iterations. Then every operand is brought a fixed number of times, but for two factors that are still
open, the iterations of c and of k; the cost is a sum of something for c and something for k. The memory

    Bin + Bw + Bout = k * input + c * k * window + c * output <= capacity        (5.3 to 5.6)

with what an element of each operand takes, of outputs complete or not as k has one iteration or several,
allows with each step of k all steps of c up to some largest one. Where ``c_from[i]`` says that c takes its
i-th step or a larger one, and ``k_from[j]`` the same of k, that is a staircase of rows
``k_from + c_from <= at``. With ``at - k_from`` for ``k_from`` every row compares two variables, as in the
dual of a network. Limits of accesses are such rows, too: with each step of k, c takes some smallest step or a
larger one. So the polytope of each spot is whole, and the choice among all spots is their disjunction,
which adds no fractions. Costs are those of `Tiles.traffic`, edge tiles at their true size.

Tiles have one group: the loop over groups is the outermost, and since groups share nothing, how many of them
a tile has changes no access, only the memory it needs. Spots at which all weights of a group stay have these
in place of Bw.

Extras: spots that another one replaces and larger steps of loops that multiply nothing are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tilewright.tiling import Plan, Problem, objective
from tilewright.tiling.dsp.exact.patterns import Pattern
from tilewright.tiling.dsp.minizinc import (
    input_lines,
    most_units,
    nest_of_problem,
    no_worse,
    patterns_of,
    repeated,
    scale,
)
from tilewright.tiling.dsp.nest import FREE, C, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import DspPlan

CHOOSES_COLUMNS = True
"""Its costs are numbers that the package computes before."""


@dataclass(frozen=True)
class Spot:
    """A place in the image, a schedule, and the steps of c and k that are possible there.

    Attributes
    ----------
    n, y, x
        Steps of the loops over images, rows and columns.
    order, reuse
        The schedule.
    c_steps, k_steps
        Steps of the loops over output and input maps, ascending.
    c_costs, k_costs
        What they add to `cost`, in units of the objective.
    fitting
        For each step of k, how many steps of c fit with it.
    """

    n: int
    y: int
    x: int
    order: str
    reuse: str
    c_steps: tuple[int, ...]
    k_steps: tuple[int, ...]
    cost: int
    c_costs: tuple[int, ...]
    k_costs: tuple[int, ...]
    fitting: tuple[int, ...]

    def costly(self, j: int, most: int) -> int:
        """Return how many steps of c, from the smallest on, cost more than so many units with a step of k."""
        return sum(self.cost + self.k_costs[j] + cost > most for cost in self.c_costs)


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return problem.machine.kind == "dsp" and not problem.coupled


def size(problem: Problem) -> int:
    """Return the number of constraints, about; in a large plane few places are not replaced by others."""
    nest = nest_of_problem(problem)
    places = len(nest.steps[N]) * len(nest.steps[Y]) * len(nest.steps[X])
    return (places // 5 + 50) * (len(nest.steps[C]) + len(nest.steps[K]))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    spots = _spots(problem, extras)
    m = pyo.ConcreteModel(name="tiles")
    m.problem, m.spots = problem, spots
    # No spot costs less than with its largest steps of c and k. Counted from there objectives are small.
    least = min((spot.cost + spot.c_costs[-1] + spot.k_costs[-1] for spot in spots), default=0)
    offset, m.unit = scale(problem)
    m.offset = offset + m.unit * least

    m.SPOTS = pyo.RangeSet(0, len(spots) - 1)
    m.C_FROM = pyo.Set(dimen=2, initialize=[(s, i) for s in m.SPOTS for i in range(1, len(spots[s].c_steps))])
    m.K_FROM = pyo.Set(dimen=2, initialize=[(s, j) for s in m.SPOTS for j in range(1, len(spots[s].k_steps))])

    m.at = pyo.Var(m.SPOTS, domain=pyo.Binary)  # the plan is at this spot
    m.c_from = pyo.Var(m.C_FROM, domain=pyo.Binary)  # ... and TOc is its i-th step or a larger one
    m.k_from = pyo.Var(m.K_FROM, domain=pyo.Binary)  # ... and TKc its j-th step or a larger one
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built

    def c_from(s: int, i: int) -> Any:
        return m.c_from[s, i] if i else m.at[s]

    def k_from(s: int, j: int) -> Any:
        return m.k_from[s, j] if j else m.at[s]

    m.one_spot = pyo.Constraint(expr=sum(m.at[s] for s in m.SPOTS) + m.nowhere == 1)

    @m.Constraint(m.C_FROM)
    def steps_of_c_ascend(m: Any, s: int, i: int) -> Any:
        return m.c_from[s, i] <= c_from(s, i - 1)

    @m.Constraint(m.K_FROM)
    def steps_of_k_ascend(m: Any, s: int, j: int) -> Any:
        return m.k_from[s, j] <= k_from(s, j - 1)

    @m.Constraint(m.K_FROM)  # (5.6)
    def fits_on_chip(m: Any, s: int, j: int) -> Any:
        fitting = spots[s].fitting
        if fitting[j] == fitting[j - 1]:
            return pyo.Constraint.Skip  # says no more than the row before
        return m.k_from[s, j] + c_from(s, fitting[j]) <= m.at[s]

    most = most_units(problem)

    @m.Constraint([] if most is None else [(s, j) for s in m.SPOTS for j in range(len(spots[s].k_steps))])
    def accesses_are_within_their_limit(m: Any, s: int, j: int) -> Any:
        assert most is not None
        costly, larger = spots[s].costly(j, most), j + 1 < len(spots[s].k_steps)
        if costly == 0:
            return pyo.Constraint.Skip
        enough = c_from(s, costly) if costly < len(spots[s].c_steps) else m.nowhere
        return m.at[s] - (k_from(s, j + 1) if larger else 0) <= enough

    m.cost = pyo.Objective(  # (5.13) to (5.20)
        expr=sum(
            (spot.cost + spot.c_costs[0] + spot.k_costs[0] - least) * m.at[s] for s, spot in enumerate(spots)
        )
        + sum((spots[s].c_costs[i] - spots[s].c_costs[i - 1]) * m.c_from[s, i] for s, i in m.C_FROM)
        + sum((spots[s].k_costs[j] - spots[s].k_costs[j - 1]) * m.k_from[s, j] for s, j in m.K_FROM)
    )
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in the model's plan that is nearest to a plan and no worse."""
    problem: Problem = m.problem
    offset, unit = scale(problem)
    layer = plan.layers[0]
    inside = no_worse(problem, layer) if isinstance(layer, DspPlan) else None
    found = None
    if inside is not None:
        found = _nearest(m.spots, inside, (objective(problem, Plan((inside,))) - offset) // unit)
    m.nowhere = 0
    for s in m.SPOTS:
        m.at[s] = int(found is not None and found[0] == s)
    for s, i in m.C_FROM:
        m.c_from[s, i] = int(found is not None and found[0] == s and i <= found[1])
    for s, j in m.K_FROM:
        m.k_from[s, j] = int(found is not None and found[0] == s and j <= found[2])


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    s = max(m.SPOTS, key=lambda s: m.at[s].value)
    spot: Spot = m.spots[s]
    c = sum(m.c_from[s, i].value > 0.5 for i in range(1, len(spot.c_steps)))
    k = sum(m.k_from[s, j].value > 0.5 for j in range(1, len(spot.k_steps)))
    tile = (1, spot.n, spot.c_steps[c], spot.y, spot.x, spot.k_steps[k])
    return Plan((DspPlan(tile, spot.order, spot.reuse),))


def _nearest(spots: tuple[Spot, ...], plan: DspPlan, most: int) -> tuple[int, int, int] | None:
    """Return spot, step of c and step of k that cost at most `most`, and as little less as possible."""
    best = None
    for s, spot in enumerate(spots):
        c = sum(step <= plan.tile[C] for step in spot.c_steps) - 1
        k = sum(step <= plan.tile[K] for step in spot.k_steps) - 1
        if c < 0 or k < 0 or c >= spot.fitting[k]:
            continue
        cost = spot.cost + spot.c_costs[c] + spot.k_costs[k]
        if cost <= most and (best is None or cost > best[0]):
            best = (cost, (s, c, k))
    return None if best is None else best[1]


# Spots -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _spots(problem: Problem, extras: bool) -> tuple[Spot, ...]:
    """Return all spots on which some tile fits, without extras also those that another one replaces."""
    places = []
    for loops in chain.from_iterable(combinations(FREE, count) for count in range(len(FREE) + 1)):
        several = frozenset(loops)
        if all(len(nest_of_problem(problem).steps[d]) > 1 for d in several):
            for pattern in patterns_of(problem, several):
                places += _Family(problem, several, pattern).places()
    if extras:
        places = _kept(places)
    spots = (place.family.spot(place, extras) for place in places)
    return tuple(spot for spot in spots if spot is not None)


class _Place(NamedTuple):
    """What costs and buffers of a spot come from.

    Attributes
    ----------
    n, y, x
        Steps of the loops over images, rows and columns.
    rank : (plane, weights, inputs, outputs)
        Input positions of all tiles and how often all weights are brought; units of the buffers for one
        input map and for one output map.
    """

    family: _Family
    n: int
    y: int
    x: int
    rank: tuple[int, int, int, int]


class _Family:
    """All spots with the same schedule and the same loops of several iterations."""

    def __init__(self, problem: Problem, several: frozenset[int], pattern: Pattern) -> None:
        self.nest: Nest = nest_of_problem(problem)
        self.offset, self.unit = scale(problem)
        self.several, self.pattern = several, pattern
        self.by_c, self.by_k = C in pattern.input, K in pattern.output

    def _steps(self, d: int) -> list[int]:
        """Return the steps of a loop that has, or has not, several iterations."""
        steps: list[int] = self.nest.steps[d].tolist()
        return steps[:-1] if d in self.several else steps[-1:]

    def _trips(self, d: int, step: int) -> int:
        return -(-self.nest.sizes[d] // step)

    @property
    def kind(self) -> tuple[bool, ...]:
        """What is equal in families whose spots can replace each other."""
        return (C in self.several, K in self.several, self.by_c, self.by_k, self.pattern.resident)

    def _lines(self, d: int) -> list[tuple[int, int, int]]:
        """Return for each step along y or x: step, side of an input tile, sides of all tiles together."""
        return [
            (step, self.nest.extent(d, step), input_lines(self.nest, d, step, self.pattern.halo == d))
            for step in self._steps(d)
        ]

    def places(self) -> list[_Place]:
        """Return the places of all spots."""
        found, units = [], self.nest.machine.units
        output = units.held(complete=K not in self.several)["output"]
        for n, (y, height, rows), (x, width, columns) in product(
            self._steps(N), self._lines(Y), self._lines(X)
        ):
            weights = 1
            for d, step in ((N, n), (Y, y), (X, x)):
                weights *= self._trips(d, step) if d in self.pattern.kernels else 1
            inputs, outputs = n * height * width * units.input, n * y * x * output
            found.append(_Place(self, n, y, x, (rows * columns, weights, inputs, outputs)))
        return found

    def spot(self, place: _Place, extras: bool) -> Spot | None:
        """Return the spot at a place, None if nothing fits on it."""
        nest = self.nest
        plane, weights, inputs, outputs = place.rank
        width = nest.machine.units.kernels

        def fits(c: int, k: int) -> bool:
            held = nest.group_weights if self.pattern.resident else c * k * nest.window
            return k * inputs + held * width + c * outputs <= nest.machine.buffer_capacity

        # Where c (or k) multiplies nothing, a larger step would only need more memory.
        c_steps = self._steps(C) if self.by_c or not extras else self._steps(C)[:1]
        k_steps = self._steps(K) if self.by_k or not extras else self._steps(K)[:1]
        c_steps = [c for c in c_steps if fits(c, k_steps[0])]
        k_steps = [k for k in k_steps if c_steps and fits(c_steps[0], k)]
        if not k_steps:
            return None
        position, kernels, sums = repeated(nest)
        once = position * plane
        cost = once + kernels * weights + nest.n_outputs * nest.machine.units.output - self.offset
        by_c = once // self.unit if self.by_c else 0
        by_k = sums // self.unit if self.by_k else 0
        return Spot(
            *place[1:4],
            self.pattern.order,
            self.pattern.reuse,
            tuple(c_steps),
            tuple(k_steps),
            cost // self.unit,
            tuple(by_c * (self._trips(C, c) - 1) for c in c_steps),
            tuple(by_k * (self._trips(K, k) - 1) for k in k_steps),
            tuple(sum(fits(c, k) for c in c_steps) for k in k_steps),
        )


def _kept(places: list[_Place]) -> list[_Place]:
    """Leave out each place that another one replaces: one that costs and needs no more, whatever c and k."""
    alike: dict[tuple[bool, ...], list[_Place]] = {}
    for place in places:
        alike.setdefault(place.family.kind, []).append(place)
    kept = []
    for group in alike.values():
        group.sort(key=lambda place: place.rank)
        ranks = np.empty((len(group), 4), dtype=np.int64)
        count = 0
        for place in group:
            if not (ranks[:count] <= place.rank).all(axis=1).any():
                ranks[count] = place.rank
                count += 1
                kept.append(place)
    return kept
