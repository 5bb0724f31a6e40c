"""An integer program for the least energy of a frame: one option for each layer, and one limit for all.

Options are the splits that docs/allocation-search.md argues to be enough; their PEs, loads and energies are
computed beforehand. Where layers work at the same time a limit is an interval, else the most PEs of a layer.
Leakage is a product of the interval and of what all PEs take in a cycle. So the factor that limits do not
give is a variable for each limit, 0 but for the one that is chosen.

Extra: no energy below a known bound.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.exact.energy_options import Menu
from tilewright.allocation.exact.energy_search import as_plan, is_settled_by_splits
from tilewright.allocation.split_options import why_not

LARGEST = 10**8
"""Largest energy above a bound, in units, whose neighbours are still apart within HiGHS's tolerances."""


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem; buffers between layers it does not look at."""
    if problem.minimise != "energy" or why_not(problem) is not None or not is_settled_by_splits(problem):
        return False
    menu = Menu(problem)
    return bool(menu.empty or not len(menu.limits) or _range(menu) // _unit(menu) <= LARGEST)


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for each limit, and a few for each layer."""
    menu = Menu(problem)
    return 3 * len(problem.stages) + (0 if menu.empty else 2 * len(menu.limits))


def _unit(menu: Menu) -> int:
    """Return the femtojoules of which all energies are multiples of, but for a constant."""
    steps = [int(spent) - int(layer.spent[0]) for layer in menu.layers for spent in layer.spent]
    return max(1, gcd(*steps, menu.rest, menu.more))


def _range(menu: Menu) -> int:
    """Return how much energies differ at most."""
    spent = sum(int(layer.spent.max() - layer.spent.min()) for layer in menu.layers)
    loads = [int(layer.loads.max()) for layer in menu.layers]
    cycles = menu.problem.interval_at(max(loads) if menu.problem.parallel else sum(loads))
    return spent + cycles * (menu.rest + menu.more * menu.problem.machine.pes)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extra."""
    m = pyo.ConcreteModel(name="columns_energy")
    m.menu = menu = Menu(problem)
    layers = range(len(menu.layers))
    m.CHOICES = pyo.Set(
        dimen=2, initialize=[(i, k) for i in layers for k in range(len(menu.layers[i].splits))]
    )
    m.limits = [] if menu.empty else [int(limit) for limit in menu.limits]
    m.LIMITS = pyo.RangeSet(0, len(m.limits) - 1)
    m.chosen = pyo.Var(m.CHOICES, domain=pyo.Binary)
    m.within = pyo.Var(m.LIMITS, domain=pyo.Binary)  # the limit that the plan keeps
    pes, most = problem.machine.pes, problem.most_interval

    def options(i: int) -> Any:
        return [m.chosen[i, k] for k in range(len(menu.layers[i].splits))]

    def total(name: str, i: int) -> Any:
        return sum(
            int(value) * one for value, one in zip(getattr(menu.layers[i], name), options(i), strict=True)
        )

    @m.Constraint(layers)
    def one_option_of_each_layer(m: Any, i: int) -> Any:
        return sum(options(i)) == 1 if options(i) else pyo.Constraint.Infeasible

    m.one_limit = pyo.Constraint(expr=sum(m.within.values()) == 1 if m.limits else pyo.Constraint.Infeasible)
    limited, added = ("loads", "pes") if problem.parallel else ("pes", "loads")
    largest = sum(int(getattr(layer, added).max(initial=0)) for layer in menu.layers)
    largest = min(largest, pes) if problem.parallel else min(largest, most or largest)

    @m.Constraint(layers, m.LIMITS)
    def keeps_the_limit(m: Any, i: int, t: int) -> Any:
        beyond = [
            one
            for one, value in zip(options(i), getattr(menu.layers[i], limited), strict=True)
            if value > m.limits[t]
        ]
        return sum(beyond) <= 1 - m.within[t] if beyond else pyo.Constraint.Skip

    # PEs of all layers, or cycles of a frame, at the limit that is chosen, and 0 at the others.
    m.sum = pyo.Var(m.LIMITS, bounds=(0, largest))

    @m.Constraint(m.LIMITS)
    def nothing_at_other_limits(m: Any, t: int) -> Any:
        return m.sum[t] <= largest * m.within[t]

    m.added = pyo.Constraint(expr=sum(m.sum.values()) == sum(total(added, i) for i in layers))
    leakage = sum(
        menu.more * m.limits[t] * m.sum[t] + menu.rest * (m.limits[t] if problem.parallel else 1)
        * (m.within[t] if problem.parallel else m.sum[t])
        for t in m.LIMITS
    )  # fmt: skip
    spent = sum(total("spent", i) for i in layers) + leakage
    m.unit = 1 if menu.empty else _unit(menu)
    constant = 0 if menu.empty else sum(int(layer.spent[0]) for layer in menu.layers)
    bound = best_bound(problem).value
    m.offset = constant + (bound - constant) // m.unit * m.unit
    m.cost = pyo.Objective(expr=(spent - m.offset) / m.unit)
    if extras:
        m.no_less = pyo.Constraint(expr=(spent - m.offset) / m.unit >= 0)
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or, where a split is not on offer, in one as good."""
    menu: Menu = m.menu
    problem = menu.problem
    places = []
    for i, (stage, split) in enumerate(zip(problem.stages, plan.splits, strict=True)):
        layer = menu.layers[i]
        fits = (layer.pes <= split.pes) & (layer.loads <= split.load(stage.task))
        able = [k for k in range(len(layer.splits)) if fits[k]]
        places.append(min(able, key=layer.spent.tolist().__getitem__) if able else 0)
    for i, k in m.CHOICES:
        m.chosen[i, k] = int(places[i] == k)
    limited, added = ("loads", "pes") if problem.parallel else ("pes", "loads")
    columns = [
        [int(getattr(menu.layers[i], name)[k]) for i, k in enumerate(places)] for name in (limited, added)
    ]
    within = next((t for t, limit in enumerate(m.limits) if limit >= max(columns[0])), len(m.limits) - 1)
    for t in m.LIMITS:
        m.within[t], m.sum[t] = int(t == within), sum(columns[1]) if t == within else 0


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    menu: Menu = m.menu
    chosen = tuple(
        next(split for k, split in enumerate(layer.splits) if m.chosen[i, k].value > 0.5)
        for i, layer in enumerate(menu.layers)
    )
    return as_plan(menu.problem, chosen)
