"""An integer program that chooses among priced tiles on a DSP: any cost, within limits of any cost.

Cycles are a sum over phases of what takes longer in each, core or bus (5.7 to 5.12), in whole cycles of each
transfer. That is no sum of something for each loop, not even where all other loops are fixed, so a tile is
priced as a whole. It is for small layers: only constraints leave the solver more to do than to compare.

A column is a tile that fits, a step for each of the six loops, with the best of its orders within the limits
of cost. No plan is lost. All steps of all loops are there; loops of a single iteration cost the same wherever
they stand in an order; and what keeps less than it could never costs less. Where constraints may tell orders,
or what stays, from each other, each of them is a column of its own.

Extra: dearer orders of a tile are left out.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, combinations, product
from math import gcd, prod
from typing import Any, NamedTuple

import pyomo.environ as pyo

from tilewright.spec.constraints import Term
from tilewright.tiling import Plan, Problem, objective, violation
from tilewright.tiling.dsp.cost import measures
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.exact.patterns import schedules
from tilewright.tiling.dsp.nest import FREE, G, Nest, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan

WORDS = (
    "tile.groups",
    "tile.images",
    "tile.output_maps",
    "tile.rows",
    "tile.columns",
    "tile.input_maps",
    "iterations",
    "outside",
    "elements",
    "contiguous_bytes",
    "accesses",
    "cycles",
    "energy",
    "memory",
)

MOST_PLANS = 5_000
"""Most plans that are priced, of which there are about a thousand in a second."""


class Column(NamedTuple):
    """A plan and its cost."""

    plan: DspPlan
    cost: int


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    if problem.machine.kind != "dsp" or problem.layer is None:
        return f"machine.kind = {problem.machine.kind!r}: the model is of a layer on a machine of kind dsp"
    if problem.traded or problem.before:
        return "objective: the model minimises one cost"
    if problem.machine.vector_unit is not None:
        return "machine.vector_unit: the model charges MACs over macs_per_cycle, not an inner loop"
    if (plans := size(problem)) > MOST_PLANS:
        return f"the layer has {plans:,} tiles with their orders, the model prices {MOST_PLANS:,}"
    return None


def size(problem: Problem) -> int:
    """Return how many plans there are to be priced if all tiles fit."""
    nest, plans = _nest(problem), 0
    for loops in chain.from_iterable(combinations(FREE, count) for count in range(len(FREE) + 1)):
        tiles = prod(len(nest.steps[d]) - 1 for d in loops) * len(nest.steps[G])
        plans += tiles * (len(_orders(problem, frozenset(loops))) if tiles else 0)
    return plans


def _nest(problem: Problem) -> Nest:
    assert problem.machine.kind == "dsp"
    return nest_of(problem.one_layer, problem.machine)


def _orders(problem: Problem, several: frozenset[int]) -> list[tuple[str, str]]:
    """Return the orders and what stays that differ where these loops have several iterations."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for order, reuse in schedules(problem.limits.schedule, every=bool(problem.constraints)):
        found.setdefault((_moving(order, several), reuse), (order, reuse))
    return list(found.values())


def _moving(order: str, several: frozenset[int]) -> str:
    return "".join(loop for loop in order if LOOPS.index(loop) in several)


def _several(nest: Nest, tile: tuple[int, ...]) -> frozenset[int]:
    """Return the loops of several iterations."""
    trips = nest.trips(tile)
    return frozenset(d for d in FREE if trips[d] > 1)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extra."""
    columns = _columns(problem, extras)
    m = pyo.ConcreteModel(name="columns_tiles")
    m.problem, m.columns = problem, columns
    m.offset = min((column.cost for column in columns), default=0)  # counted from there, objectives are small
    m.unit = gcd(*(column.cost - m.offset for column in columns)) or 1
    m.COLUMNS = pyo.RangeSet(0, len(columns) - 1)
    m.chosen = pyo.Var(m.COLUMNS, domain=pyo.Binary)
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built
    m.one_plan = pyo.Constraint(expr=m.nowhere + sum(m.chosen[c] for c in m.COLUMNS) == 1)
    m.cost = pyo.Objective(
        expr=m.nowhere + sum((columns[c].cost - m.offset) // m.unit * m.chosen[c] for c in m.COLUMNS)
    )
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary: what it is in the chosen plan."""
    words = m.problem.vocabulary
    views = (words.view(Plan((column.plan,))) for column in m.columns)
    return m.nowhere + sum(int(words.value(one, seen)) * m.chosen[c] for c, seen in enumerate(views))


def start(m: Any, plan: Plan) -> None:
    """Choose the column of a plan, or the best of its tile."""
    place = None
    if violation(m.problem, plan) is None and isinstance(layer := plan.layers[0], DspPlan):
        nest, cost = _nest(m.problem), objective(m.problem, plan)
        same = [c for c in m.COLUMNS if _known_by(nest, m.columns[c].plan) == _known_by(nest, layer)]
        step = nest.step(layer.tile)
        alike = [c for c in m.COLUMNS if m.columns[c].plan.tile == step and m.columns[c].cost <= cost]
        place = next(iter(same + alike), None)
    for c in m.COLUMNS:
        m.chosen[c] = int(c == place)
    m.nowhere = 0


def read(m: Any) -> Plan:
    """Return the plan that is chosen."""
    return Plan((m.columns[max(m.COLUMNS, key=lambda c: m.chosen[c].value)].plan,))


def _known_by(nest: Nest, plan: DspPlan) -> tuple[Any, ...]:
    """Return what plans that cost the same have in common."""
    return nest.step(plan.tile), _moving(plan.order, _several(nest, plan.tile)), plan.reuse


@lru_cache(maxsize=4)
def _columns(problem: Problem, extras: bool) -> tuple[Column, ...]:
    """Return all columns."""
    nest, limits = _nest(problem), problem.limits.at_most.given
    local, names = local_traffic(nest), (problem.minimise, *limits)
    found = []
    for tile in product(*(steps.tolist() for steps in nest.steps)):
        columns = []
        for order, reuse in _orders(problem, _several(nest, tile)):
            plan = DspPlan(tile, order, reuse)
            if sum(nest.held(tile, reuse).values()) > nest.machine.buffer_capacity:
                continue
            cost, *others = measures(nest, plan, names, local)
            if all(map(int.__le__, others, limits.values())) and violation(problem, Plan((plan,))) is None:
                columns.append(Column(plan, cost))
        columns.sort(key=lambda column: column.cost)
        found += columns[:1] if extras and not problem.constraints else columns
    return tuple(found)
