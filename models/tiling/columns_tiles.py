"""An integer program that chooses among priced tiles on a DSP: any cost, within limits of any cost.

Cycles are a sum over phases of what takes longer in each, core or bus (5.7 to 5.12), in whole cycles of each
transfer. That is no sum of something for each loop, not even where all other loops are fixed, so a tile is
priced as a whole. It is for small layers: only constraints leave the solver more to do than to compare.

A column is a tile that fits, a step for each of the six loops, with the best of its orders within the limits
of cost. No plan is lost. All steps of all loops are there; loops of a single iteration cost the same wherever
they stand in an order; and what keeps less than it could never costs less. Where constraints may tell orders,
or what stays, from each other, each of them is a column of its own.

With a vector unit a column has an inner loop, too. What it takes for each tile of a plan is known of the
steps alone, and of loops that take the same for every tile one is enough.

Extras: dearer orders of a tile are left out, and loops that another is at least as good as on every tile,
where no constraint asks for what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, combinations, islice, product
from math import gcd, prod
from typing import Any, NamedTuple

import pyomo.environ as pyo

from tilewright.spec.constraints import Term
from tilewright.tiling import Plan, Problem, objective, violation
from tilewright.tiling.dsp.admitted import admitted
from tilewright.tiling.dsp.compute import loop_of, loops_worth_trying
from tilewright.tiling.dsp.cost import measures
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.exact.patterns import schedules
from tilewright.tiling.dsp.inner_loop import InnerLoop
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


MOST_WITH_LOOPS = 500
"""The same where each has inner loops, a dozen or a few dozens that may be best."""


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
    if problem.traded:
        return "objective: the model minimises one cost"
    most = MOST_PLANS if problem.machine.vector_unit is None else MOST_WITH_LOOPS
    if (plans := size(problem)) > most:
        loops = "" if most == MOST_PLANS else ", each with many inner loops"
        return f"the layer has {plans:,} tiles with their orders{loops}; the model prices {most:,}"
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


def _loops(nest: Nest, tile: tuple[int, ...], every: bool) -> list[InnerLoop | None]:
    """Return the inner loops of a tile's columns; None alone on a machine without a vector unit."""
    if nest.machine.vector_unit is None:
        return [None]
    return [option.loop for option in loops_worth_trying(nest, tile, every=every)]


def _known_by(nest: Nest, plan: DspPlan) -> tuple[Any, ...]:
    """Return what plans that cost the same have in common."""
    tile = nest.step(plan.tile)
    loop = None if nest.machine.vector_unit is None else loop_of(nest, plan)
    return tile, _moving(plan.order, _several(nest, tile)), plan.reuse, loop


@lru_cache(maxsize=4)
def _columns(problem: Problem, extras: bool) -> tuple[Column, ...]:
    """Return all columns."""
    nest = _nest(problem)
    admits = admitted(problem, nest)
    every = not extras or (admits is not None and admits.of_time)
    most = 1 if extras and not problem.constraints else None
    found: list[Column] = []
    for tile in product(*(steps.tolist() for steps in nest.steps)):
        columns = sorted(_priced(problem, nest, tile, every), key=lambda column: column.cost)
        valid = (column for column in columns if violation(problem, Plan((column.plan,))) is None)
        found += islice(valid, most)
    return tuple(found)


def _priced(problem: Problem, nest: Nest, tile: tuple[int, ...], every: bool) -> Iterator[Column]:
    """Yield the plans of a tile that fit on chip, within limits of cost; `every` is as for `_loops`."""
    limits, local = problem.limits.at_most.given, local_traffic(nest)
    orders = [
        (order, reuse)
        for order, reuse in _orders(problem, _several(nest, tile))
        if sum(nest.held(tile, reuse).values()) <= nest.machine.buffer_capacity
    ]
    for (order, reuse), loop in product(orders, _loops(nest, tile, every) if orders else []):
        plan = DspPlan(tile, order, reuse, loop)
        cost, *others = measures(nest, plan, (problem.minimise, *limits), local)
        if all(map(int.__le__, others, limits.values())):
            yield Column(plan, cost)
