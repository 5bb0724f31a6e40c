"""Small networks in a memory that is mostly too small for them, solved by every method."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

from tests.fuzz.networks import network
from tests.fuzz.oracles import Refused, residency
from tests.fuzz.problems import attack, refused
from tests.fuzz.trials import Wrong

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import parse
from tilewright.spec.errors import InputError

IN_CI = 40

ALL_WAYS = 0.15
"""How often problems are solved by all methods as users do, and not by those of the room alone."""

CHANGES = 5
"""Mistakes of plans, one after the other."""

room = catalogue.room("residency")

PLENTY = 2**20


def table(rng: random.Random) -> dict[str, Any]:
    """Return the tables of a problem."""
    most = rng.choice([1, 2, 3, 3, 4, 4, 5, 6])
    side = 2 if most > 5 else rng.choice([2, 3, 4, 6])
    kinds = rng.choice(["cccpda", "cccpda", "ccdama", "ccpdamfsrj", "cddaa"])
    layers = network(
        rng, most, side, rng.choice([1, 2, 3]), kinds, twice=False, back=rng.choice([1, 2, 3, 4])
    )
    width = rng.choice([1, 1, 1, 2, 3])
    found: dict[str, Any] = {
        "network": {"layers": layers},
        "machine": {"memory_bytes": PLENTY, "element_bytes": width},
        # The oracle knows nothing of tiles.
        "limits": {"order": rng.choice(["any", "any", "any", "given"]), "tiles": False},
    }
    if rng.random() < 0.25:
        found["limits"]["most_operations"] = rng.randint(1, 3)
    # From a byte too little on, up to what holds about all.
    graph = residency.Graph(parse({"room": "residency", **found}).problem.model_dump(mode="json"))
    least, everything = graph.least_memory(), sum(graph.sizes) + sum(op.weights for op in graph.ops)
    assert least is not None
    room = rng.choice([least, rng.randint(least, 2 * least), rng.randint(least, least + everything)])
    found["machine"]["memory_bytes"] = max(1, room * width - rng.choice([0, 0, 0, 0, 0, 0, 0, 1]))
    if rng.random() < 0.3:
        found["limits"]["frames"] = "many"
    elif rng.random() < 0.3:
        found["limits"]["executions"] = 2
    elif rng.random() < 0.4:
        found["objective"] = {"minimise": "memory"}
        if rng.random() < 0.8:
            low, high = (graph.least_traffic(size) for size in (least + everything, least))
            assert low is not None and high is not None
            found["objective"]["most_traffic"] = rng.randint(low - 1, max(low, high)) * width or 1
    return found


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    told = table(rng)
    if rng.random() < ALL_WAYS:
        return attack(rng, scratch, "residency", told, residency)
    try:
        problem = parse({"room": "residency", **told}).problem
    except InputError as error:
        return refused("residency", told, residency, error)
    try:
        return ["states", *compared(rng, problem)]
    except AssertionError as error:
        raise Wrong(f"{error}\n{json.dumps({'room': 'residency', **told})}") from error


def compared(rng: random.Random, problem: Any) -> list[str]:
    """Compare the search and the rules with the oracle, and so plans with something changed."""
    told = problem.model_dump(mode="json")
    best = residency.best(told)
    plans: list[Any] = []
    bounds: list[int] = []
    context = RunContext(on_plan=plans.append, on_bound=lambda bound, *_: bounds.append(bound))
    outcome = catalogue.formulation("residency", "states").solve(problem, context)  # type: ignore[union-attr]
    bounds += [room.best_bound(problem).value, *([outcome.bound] if outcome.bound is not None else [])]
    assert best is not None or outcome.status == "infeasible", f"{outcome.status}, but there is no plan"
    if best is None:
        return []
    assert outcome.status in ("optimal", "feasible"), f"{outcome.status}, but a plan costs {best}"
    assert max(bounds) == best, f"bound {max(bounds)}, the least is {best}"
    costs = [judged(problem, told, plan) for plan in plans]
    assert None not in costs and min(costs) >= best, f"plans of {costs}, the least is {best}"
    assert (min(costs) == best) == (outcome.status == "optimal"), f"{outcome.status}, {costs}, {best}"
    tiled(problem, best)
    names = catalogue.heuristics("residency")
    for name in names:
        try:
            plan = catalogue.heuristic("residency", name).plan(problem)
        except InputError:
            continue
        cost = judged(problem, told, plan)
        assert cost is None or cost >= best, f"{name}: {cost}, the least is {best}"
        plans.append(plan)
    for plan in plans:
        changed = plan.to_json()
        for _ in range(CHANGES):
            mistake(changed, rng)
            with contextlib.suppress(InputError):
                judged(problem, told, room.plan_type.from_json(json.loads(json.dumps(changed))))
    return [*names, *(["(no addresses)"] if outcome.status == "feasible" else [])]


def tiled(problem: Any, best: int) -> None:
    """Check that tiles make nothing worse, and that their plans survive."""
    problem = problem.with_(limits={"tiles": True})
    outcome = catalogue.formulation("residency", "states").solve(problem, RunContext())  # type: ignore[union-attr]
    assert outcome.bound is not None and outcome.bound <= best, (
        f"bound {outcome.bound} with tiles, {best} without"
    )
    assert outcome.plan is not None, f"no plan with tiles, {best} without"
    report = room.simulate(problem, outcome.plan, numeric=True)
    assert report.violation is None and report.numeric is True, f"with tiles: {report.violation}"
    cost = room.objective(problem, outcome.plan)
    assert cost == room.measured_objective(problem, report), f"with tiles, costs {cost}"
    assert cost <= best or outcome.status != "optimal", f"{cost} with tiles, {best} without"


def judged(problem: Any, told: Any, plan: Any) -> int | None:
    """Return the cost of a plan, None for one that is not valid; oracle, room and simulator must agree."""
    shown = json.dumps(plan.to_json())
    try:
        cost = residency.cost(told, plan.to_json())
    except (Refused, KeyError):
        cost = None
    broken = room.violation(problem, plan)
    assert (broken is None) == (cost is not None), f"{broken or 'valid'}, the oracle: {cost}: {shown}"
    report = room.simulate(problem, plan, numeric=True)
    if cost is None:
        return None
    assert report.violation is None and report.numeric is True, f"{report.violation}: {shown}"
    found = room.objective(problem, plan), room.measured_objective(problem, report)
    assert found == (cost, cost), f"costs {found}, the oracle: {cost}: {shown}"
    return int(cost)


def mistake(plan: Any, rng: random.Random) -> None:
    """Change a number, a name or the order of something in a plan."""
    if plan.get("staying") and rng.random() < 0.3:
        name = rng.choice(list(plan["staying"]))
        plan["staying"][name] = max(0, plan["staying"][name] + rng.choice([-1, 1, 5]))
        return
    if plan.get("again") and rng.random() < 0.3:
        readers = plan["again"][rng.choice(list(plan["again"]))]
        readers.append(rng.choice([name for step in plan["steps"] for name in step["operations"]]))
        if rng.random() < 0.5:
            readers.pop(0)
        return
    step = rng.choice(plan["steps"])
    names = sorted({name for each in plan["steps"] for name in each["operations"]} | {"input"})
    key = rng.choice(list(step))
    value = step[key]
    if key in ("pixels", "kernels"):
        step[key] = max(1, value + rng.choice([-1, 1, 2, value]))
    elif key == "order":
        step[key] = rng.choice(["pixels", "kernels"])
    elif key == "in_place":
        step[key] = rng.choice([None, *names])
    elif key == "addresses" and value:
        name = rng.choice(list(value))
        value[name] = max(0, value[name] + rng.choice([-1, 1, -value[name]]))
    elif value and rng.random() < 0.5:
        value.pop(rng.randrange(len(value)))
    elif key != "addresses":
        value.append(rng.choice(names))
