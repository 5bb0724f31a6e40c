"""Whether a plan is valid and what it costs, by closed forms; what is known without a search."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.core.room import Wider
from tilewright.spec.errors import InputError
from tilewright.spec.network import MAX_LAYERS
from tilewright.tiling import network_fronts
from tilewright.tiling.attention.plan import AttentionPlan
from tilewright.tiling.kinds import kind_of
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

NO_ANSWER = {
    True: "a front is no answer to this problem",
    False: "a single plan is no answer to this problem",
}
"""What is said of fronts where they are not asked for, and of single plans where fronts are."""


SPACES = {"perfect": "steps that divide", "any": "any steps"}
"""What plans of a hierarchy are called, by `limits.factors`."""


def best_bound(problem: Problem) -> Bound:
    """Return the strongest bound that is known without a search, summed over the layers.

    Of a front it is less than what the first plan can have, so that one whose other plans are not known does
    not seem to be complete.
    """
    by_part: dict[int, Bound] = {}
    bounds, impossible = [], None
    for name, part in problem.parts:
        if id(part) not in by_part:
            found = kind_of(part).best_bound(part)
            value = max(0, found.value - 1) if problem.traded else found.value
            by_part[id(part)] = Bound(found.name, value, found.steps, found.impossible)
        bounds.append(by_part[id(part)])
        if bounds[-1].impossible is not None:
            impossible = impossible or (f"layer {name}: " if name else "") + bounds[-1].impossible
    names = " and ".join(dict.fromkeys(bound.name for bound in bounds))
    value, steps = sum(bound.value for bound in bounds), sum(bound.steps for bound in bounds)
    each = tuple(bound.value for bound in bounds)
    return Bound(f"{names} bound", value, steps, impossible, parts=each)


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    if problem.network is None:
        return _violation(problem, plan)
    if plan.front:
        return f"kind of plan: {NO_ANSWER[True]}"
    if len(plan.layers) != len(problem.parts):
        return f"layers: the plan has {len(plan.layers)}, the problem {len(problem.parts)}"
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        found = _violation(part, one)
        if found is not None:
            return f"layer {name}: {found}"
    for name, most in problem.limits.at_most.given.items():
        cost = total_cost(problem, plan, name)
        if cost > most:
            return over_limit(problem, name, cost, most)
    return None


def _violation(problem: Problem, plan: Plan) -> str | None:
    if plan.front != (problem.minimise == "pareto"):
        return f"kind of plan: {NO_ANSWER[plan.front]}"
    if plan.front:
        return next((found for one in plan.split() if (found := _violation_of_one(problem, one))), None)
    if len(plan.layers) != 1:
        return f"layers: the plan has {len(plan.layers)}, the problem 1"
    return _violation_of_one(problem, plan)


def _violation_of_one(problem: Problem, plan: Plan) -> str | None:
    kind = kind_of(problem)
    layer = plan.layers[0]
    if not isinstance(layer, kind.LayerPlan):
        return f"kind of plan: the machine is of kind {problem.machine.kind}"
    broken = kind.violation(problem, layer)
    if broken is not None:
        return broken
    for name, most in problem.limits.at_most.given.items():
        cost = kind.objective(problem.minimising(name), layer)
        if cost > most:
            return over_limit(problem, name, cost, most)
    return None


def over_limit(problem: Problem, name: str, cost: int, most: int) -> str:
    """Say that a cost is above its limit."""
    unit = problem.objectives[name].unit
    return f"limit of {name}: the plan has {cost:,} {unit}, the limits allow {most:,}"


def objective(problem: Problem, plan: Plan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same.

    Of a front it is what its first plan has least of, cycles by default; of a network the sum of these.
    """
    costs: dict[tuple[int, Any], int] = {}
    total = 0
    for (_, part), layer in zip(problem.parts, plan.layers, strict=False):
        if isinstance(layer, Plan):
            layer = layer.layers[0]
        if (id(part), layer) not in costs:
            costs[id(part), layer] = kind_of(part).objective(part, layer)
        total += costs[id(part), layer]
    return total


def total_cost(problem: Problem, plan: Plan, name: str) -> int:
    """Return one cost of a network's plan."""
    of_part = {id(part): part.minimising(name) for _, part in problem.parts}
    return sum(
        kind_of(part).objective(of_part[id(part)], layer)
        for (_, part), layer in zip(problem.parts, plan.layers, strict=True)
    )


def rank(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """Return what a valid plan moves, its time, energy and memory, which break ties; nothing of fronts."""
    if problem.traded:
        return ()
    ranks: dict[tuple[int, Any], tuple[int, ...]] = {}
    pairs = [(part, layer) for (_, part), layer in zip(problem.parts, plan.layers, strict=True)]
    for part, layer in pairs:
        if (id(part), layer) not in ranks:
            ranks[id(part), layer] = kind_of(part).rank(part, layer)
    each = [ranks[id(part), layer] for part, layer in pairs]
    return tuple(map(sum, zip_longest(*each, fillvalue=0)))


def at_least(problem: Problem, plan: Plan) -> dict[str, str]:
    """Return the operations whose cost is but a lower bound, and why, so that a plan's is one."""
    found = {}
    plans = [plan] if problem.network is None else plan.split()
    for (name, part), one in zip(problem.parts, plans, strict=True):
        for each in one.layers:
            why = None
            if isinstance(each, AttentionPlan):
                from tilewright.tiling.attention.kind import at_least as least_of_attention  # start-up time

                why = least_of_attention(part, each)
            elif isinstance(each, OperationPlan):
                from tilewright.tiling.operations.kind import at_least as least_of_operation  # start-up time

                why = least_of_operation(part, each)
            if why is not None:
                found[name] = why
    return found


def space(problem: Problem) -> str | None:
    """Return the plans of a hierarchy among which one is called optimal; None on other machines."""
    factors = problem.limits.factors or "perfect"
    return SPACES[factors] if problem.machine.kind == "hierarchy" else None


def wider(problem: Problem) -> Wider | None:
    """Return the problem of a hierarchy with any steps, where it has none of its own and takes them."""
    if problem.machine.kind != "hierarchy" or problem.limits.factors is not None:
        return None
    try:
        any_steps = problem.with_(limits={"factors": "any"})
    except InputError:
        return None
    return Wider(any_steps, SPACES["any"], "limits.factors=any")


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    each, parts = 1200 if problem.machine.kind == "hierarchy" else 400, len(problem.parts)
    if not problem.traded:
        return each * (1 + parts)
    return each * MAX_LAYERS + 2 * network_fronts.PARAMS.shown * parts


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the heuristics and the exact search, for any steps beside `padded`."""
    if problem.limits.factors == "any":
        return Portfolio("padded", "exhaustive")
    alone = problem.machine.kind == "hierarchy"
    return Portfolio(CONSTRUCT, "exhaustive", alone=alone, chooses=not alone)
