"""Several costs at once: lists of objectives, limits on a network's sums, and what fronts claim."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core import front
from tilewright.core.bounds import Exact
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.objectives import tolerated
from tilewright.tiling import network_fronts
from tilewright.tiling.evaluation import best_bound, objective, over_limit, total_cost, violation
from tilewright.tiling.kinds import kind_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

Claim = tuple[str, bool | None, str]
"""What was verified; whether it holds, None where that is not known; and the numbers behind it."""

ROUNDS = 4
"""How often, at most, the search for the front of a layer is begun: with what time others have left."""


def last_stage(problem: Problem, deadline: float) -> Problem | None:
    """Return the problem of the last objective of a list, with the others as limits.

    Each is minimised in its turn. Its least and the tolerance limit it in the problems after it.

    Parameters
    ----------
    problem
        With one layer.
    deadline
        ``time.monotonic()`` until when the optima of all but the last are proven.

    Returns
    -------
    Problem or None
        The problem itself where it has one objective; None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    least = dict[str, int]()
    for name, _ in problem.before:
        found = kind_of(problem).exhaustive(problem.stage(least), deadline)
        if found is None:
            return None
        if not found.proven:
            raise OutOfTimeError
        least[name] = found.value
    return problem.stage(least) if problem.before else problem


def total_limit(problem: Problem, deadline: float) -> int | None:
    """Return the limit that a network with `coupled` layers has on the sum over them.

    That is the limit that is given, or the proven least and the tolerance.

    Returns
    -------
    int or None
        None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    given = problem.limits.at_most.given
    if not problem.objective.of_network:
        return next(iter(given.values()))
    (name, tolerance), *_ = problem.before
    least: dict[int, int] = {}
    for _, part in problem.parts:
        if id(part) not in least:
            found = kind_of(part).exhaustive(part.minimising(name), deadline)
            if found is None:
                return None
            if not found.proven:
                raise OutOfTimeError
            least[id(part)] = found.value
    return tolerated(sum(least[id(part)] for _, part in problem.parts), tolerance)


def best_of_network(problem: Problem, deadline: float) -> tuple[Plan, int, int] | None:
    """Return the best plan of a network whose layers are `coupled`, its cost, and a bound on any plan's.

    The front of both costs is found for each different layer, and of these fronts the best choice is made.
    A front that is not complete leaves the bound open.

    Returns
    -------
    (plan, cost, bound) or None
        None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before there is a plan within the limit.
    """
    assert problem.coupled is not None
    most = total_limit(problem, deadline)
    if most is None:
        return None
    front_of = {"minimise": "pareto", "between": problem.coupled}
    parts = {id(part): part.with_(objective=front_of) for _, part in problem.parts}
    found = _fronts_of_layers(parts, deadline)
    if found is None:
        return None
    complete = all(front.proven for front in found.values())
    costs = {key: _costs(problem.coupled, parts[key], front.layers) for key, front in found.items()}
    sequence = [id(part) for _, part in problem.parts]
    choice = network_fronts.cheapest_choice([costs[key] for key in sequence], most)
    if choice is None and not complete:
        raise OutOfTimeError
    if choice is None:
        return None
    places = zip(sequence, choice.chosen, strict=True)
    plan = Plan(tuple(found[key].layers[place] for key, place in places))
    return plan, objective(problem, plan), choice.bound if complete else best_bound(problem).value


def _fronts_of_layers(parts: Mapping[int, Problem], deadline: float) -> dict[int, Exact] | None:
    """Return the front of each part, complete or not; None where a part has no plan.

    Each part gets its share of the time; what it leaves goes to the parts for which theirs was too short.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before every part has a front.
    """
    found: dict[int, Exact] = {}
    open_parts = list(parts)
    for _ in range(ROUNDS):
        tried, open_parts = open_parts, []
        for number, key in enumerate(tried):
            now = time.monotonic()
            try:
                share = now + (deadline - now) / (len(tried) - number)
                front = kind_of(parts[key]).exhaustive(parts[key], share)
            except OutOfTimeError:
                open_parts.append(key)
                continue
            if front is None:
                return None
            if key not in found or front.proven or len(front.layers) > len(found[key].layers):
                found[key] = front
            if not front.proven:
                open_parts.append(key)
        if not open_parts or time.monotonic() >= deadline:
            break
    if len(found) < len(parts):
        raise OutOfTimeError
    return found


def _costs(names: tuple[str, str], part: Problem, plans: Sequence[Any]) -> list[tuple[int, int]]:
    """Return two costs of plans of a layer, by the closed form."""
    kind, (one, other) = kind_of(part), (part.minimising(name) for name in names)
    return [(kind.objective(one, plan), kind.objective(other, plan)) for plan in plans]


def recheck(problem: Problem, plan: Plan, deadline: float) -> list[Claim]:
    """Verify what an optimal plan claims beyond its objective.

    That is for a front that it is complete, and for a list of objectives that those before the last are
    within their tolerance: layer by layer, or in all.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` until when that must be proven.

    Returns
    -------
    list of (what, holds, detail)
    """
    if problem.minimise != "pareto":
        return _recheck_list(problem, plan, deadline) if problem.before else []
    if problem.network is None:
        return _recheck_front(problem, plan, deadline)
    fronts: dict[tuple[int, Plan], list[Claim]] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        if (id(part), one) not in fronts:
            fronts[id(part), one] = _recheck_front(part, one, deadline)
        what, holds, detail = fronts[id(part), one][0]
        if not holds:
            return [(what, holds, f"layer {name}: {detail}")]
    return [("front", True, f"those of {len(fronts)} different layers found anew")]


def _recheck_front(problem: Problem, plan: Plan, deadline: float) -> list[Claim]:
    """Verify that a front is complete."""
    kind = kind_of(problem)
    try:
        again = kind.exhaustive(problem, deadline)
    except OutOfTimeError:
        again = None
    claimed, found = (
        [kind.trade_off(problem, kind.simulate(problem, layer, overlapped=False)) for layer in layers]
        for layers in (plan.layers, again.layers if again else ())
    )
    return front.recheck(claimed, found, again is not None and again.proven)


def _recheck_list(problem: Problem, plan: Plan, deadline: float) -> list[Claim]:
    """Verify that no objective before the last costs more than its tolerance allows."""
    if problem.objective.of_network:
        return _recheck_total(problem, plan, deadline)
    stages: dict[int, Problem | None] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        try:
            if id(part) not in stages:
                stages[id(part)] = last_stage(part, deadline)
        except OutOfTimeError:
            return [("tolerance", None, "the objectives before the last are not proven in time")]
        stage = stages[id(part)]
        broken = "there is no plan" if stage is None else violation(stage, one)
        if broken is not None:
            return [("tolerance", False, f"layer {name}: {broken}" if name else broken)]
    return [("tolerance", True, f"{', '.join(name for name, _ in problem.before)}: within it")]


def _recheck_total(problem: Problem, plan: Plan, deadline: float) -> list[Claim]:
    """Verify that the first objective of a network's list costs no more in all than its tolerance allows."""
    name = problem.objective.names[0]
    try:
        most = total_limit(problem, deadline)
    except OutOfTimeError:
        return [("tolerance", None, f"the least {name} of the network is not proven in time")]
    cost = total_cost(problem, plan, name)
    if most is None:
        return [("tolerance", False, "there is no plan")]
    if cost > most:
        return [("tolerance", False, over_limit(problem, name, cost, most))]
    return [("tolerance", True, f"{name}: {cost:,} of at most {most:,}")]
