"""Small networks in a memory that is mostly too small for them, solved by every method."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

from tests.fuzz.networks import Attention, Products, network, read_inside, reduced, summed
from tests.fuzz.problems import attack, refused
from tests.fuzz.trials import Skip, Wrong
from tests.oracles import Refused, TooLarge, residency

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import parse
from tilewright.spec.errors import InputError

NIGHTLY = 40

ALL_WAYS = 0.15
"""How often problems are solved by all methods as users do, and not by those of the room alone."""

TIES = 0.4
"""How often all plans of equal objective are looked at."""

FLAGS = ("double_buffering", "running", "blocks")
OPTIONAL = ("columns", "channels", "keys", *FLAGS)
"""What steps say or leave out, and what of it is true or false."""

CHANGES = 5
"""Mistakes of plans, one after the other."""

room = catalogue.room("residency")

PLENTY = 2**20

LISTS = (
    ["traffic", "memory"], ["traffic", "cycles"], ["cycles", "traffic"], ["memory", "traffic"],
    ["cycles", "memory"], ["energy", "cycles", "memory"],
)  # fmt: skip


def table(rng: random.Random) -> dict[str, Any]:
    """Return the tables of a problem."""
    width = rng.choice([1, 1, 1, 2, 3])
    found: dict[str, Any] = {
        "network": network_table(rng),
        "machine": {"memory_bytes": PLENTY, "element_bytes": width, "sum_bytes": rng.choice([1, 2, 4])},
        "limits": {"order": rng.choice(["any", "any", "any", "given"]), "tiles": rng.random() < 0.6},
    }
    if rng.random() < 0.25:
        found["limits"]["most_operations"] = rng.randint(1, 3)
    kind = rng.choice(["traffic", "traffic", "frames", "executions", "memory", "timed", "timed", "list"])
    if kind in ("timed", "list") or rng.random() < 0.1:
        found["machine"] |= rates(rng)
    # From a byte too little on, up to what holds about all.
    graph = residency.Graph(parse({"room": "residency", **found}).problem.model_dump(mode="json"))
    everything = sum(graph.sizes) + sum(op.weights for op in graph.ops)
    least = graph.front(("memory",), PLENTY)[0].memory
    near = graph.sizes[rng.randrange(len(graph.sizes))] + rng.randint(0, max(graph.sizes) // 2 + 1)
    space = rng.choice([least, rng.randint(least, 2 * least), rng.randint(least, least + everything), near])
    found["machine"]["memory_bytes"] = max(1, space * width - rng.choice([0, 0, 0, 0, 0, 0, 0, 1]))
    if kind == "frames":
        found["limits"]["frames"] = "many"
    elif kind == "executions":
        found["limits"]["executions"] = 2
    elif kind == "memory":
        found["objective"] = {"minimise": "memory"}
    elif kind == "timed":
        found["objective"] = {"minimise": rng.choice(["cycles", "cycles", "energy"])}
    elif kind == "list":
        found["objective"] = {"minimise": rng.choice(LISTS)}
        if rng.random() < 0.5:
            found["objective"]["tolerance"] = rng.choice([0.05, 0.3])
    if kind in ("memory", "timed") and rng.random() < 0.7:
        limit(rng, found, graph, max(least, space))
    return found


def network_table(rng: random.Random) -> dict[str, Any]:
    """Return a network: of any layers, sums of what has come through others, products, whole planes."""
    most = rng.choice([1, 2, 3, 3, 4, 4, 5, 6])
    if rng.random() < 0.1:
        return Attention(rng).network()
    if rng.random() < 0.25:
        return Products(rng, most).network()
    side = 2 if most > 5 else rng.choice([2, 3, 4, 5])
    channels = rng.choice([1, 2, 3])
    if rng.random() < 0.3:
        return read_inside(rng, reduced(rng, most, side, channels))
    if rng.random() < 0.5:
        return read_inside(rng, summed(rng, max(3, most), side, channels))
    kinds = rng.choice(["cccpda", "ccdama", "ccpdamfsrj", "cddaa", "ccxxxpdam", "cxxxxmaj"])
    back = rng.choice([1, 2, 3, 4])
    return read_inside(rng, network(rng, most, side, channels, kinds, twice=False, back=back))


def rates(rng: random.Random) -> dict[str, Any]:
    """Return rates and prices of a machine."""
    found: dict[str, Any] = {
        "bus_elements_per_cycle": rng.choice([1, 2, 3, 8]),
        "macs_per_cycle": rng.choice([1, 2, 5, 8]),
        "dma_setup_cycles": rng.choice([0, 1, 7]),
        "double_buffering": rng.random() < 0.6,
    }
    if rng.random() < 0.7:
        found["vector_ops_per_cycle"] = rng.randint(1, 3)
    if rng.random() < 0.7:
        found["energy"] = {
            "core_fj_per_cycle": rng.randint(0, 9),
            "local_fj_per_access": rng.randint(0, 9),
            "local_access_bytes": rng.choice([1, 4, 64]),
            "dram_fj_per_access": rng.randint(0, 99),
            "dram_access_bytes": rng.choice([1, 3, 8]),
        }
    return found


def limit(rng: random.Random, found: dict[str, Any], graph: residency.Graph, space: int) -> None:
    """Limit something else than what is minimised, about where it matters."""
    minimised = found["objective"]["minimise"]
    name = (
        "traffic"
        if minimised == "memory"
        else rng.choice(sorted({"traffic", "cycles", "energy"} - {minimised}))
    )
    costs = [residency.units(graph, each)[name] for each in graph.front((minimised, name), space)]
    if costs:
        found["objective"][f"most_{name}"] = max(1, rng.randint(min(costs) - 1, max(costs)))


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    try:
        told = table(rng)
        if rng.random() < ALL_WAYS:
            return attack(rng, scratch, "residency", told, residency)
        try:
            problem = parse({"room": "residency", **told}).problem
        except InputError as error:
            return refused("residency", told, residency, error)
        return ["states", *compared(rng, problem)]
    except TooLarge as error:
        raise Skip from error
    except AssertionError as error:
        if isinstance(error, Wrong):
            raise
        raise Wrong(f"{error}\n{json.dumps({'room': 'residency', **told})}") from error


def compared(rng: random.Random, problem: Any, executed: Any = None) -> list[str]:
    """Compare the search and the rules with the oracle, and so plans with something changed.

    Parameters
    ----------
    executed
        The network as it is executed, for the oracle, where it does not find that itself.
    """
    told = problem.model_dump(mode="json")
    if executed is not None:
        told["network"] = executed
    best = residency.best(told)
    plans: list[Any] = []
    bounds: list[int] = []
    context = RunContext(on_plan=plans.append, on_bound=lambda bound, *_: bounds.append(bound))
    outcome = catalogue.formulation("residency", "states").solve(problem, context)  # type: ignore[union-attr]
    bounds += [outcome.bound] if outcome.bound is not None else []
    bounds += [] if problem.before else [room.best_bound(problem).value]
    assert best is not None or outcome.status == "infeasible", f"{outcome.status}, but there is no plan"
    if best is None:
        return []
    assert outcome.status in ("optimal", "feasible"), f"{outcome.status}, but a plan costs {best}"
    costs = [judged(problem, told, plan) for plan in [*plans, outcome.plan]]
    assert None not in costs and min(costs) >= best, f"plans of {costs}, the least is {best}"  # type: ignore[type-var]
    proven = outcome.status == "optimal"
    assert not proven or costs[-1] == best, f"optimal {costs[-1]}, the least is {best}"
    assert max(bounds) <= best, f"bound {max(bounds)}, the least is {best}"
    if not problem.before:  # what has no addresses is a bound on those that come later
        assert max(bounds) == best, f"bound {max(bounds)}, the least is {best}"
        assert (costs[-1] == best) == proven, f"{outcome.status}, {costs[-1]}, {best}"
    if proven and rng.random() < TIES:
        tied(problem, told, outcome.plan)
    names = [] if problem.before else catalogue.heuristics("residency")
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
    return [*names, *([] if proven else ["(no addresses)"])]


def tied(problem: Any, told: Any, plan: Any) -> None:
    """Check that no plan of equal objective moves less, or as much and takes fewer cycles, and so on."""
    if problem.limits.frames == "many" or problem.limits.executions == 2:
        return  # which weights stay, and what is executed twice, is chosen for the objective alone
    least = residency.least(told, tuple(name for name in residency.COSTS if name != problem.minimise))
    costs = residency.costs(told, plan.to_json())
    assert least is not None
    found = {name: costs[name] for name in least}
    # Addresses may need more memory than there is on chip at a time.
    assert found | {"memory": 0} == least | {"memory": 0} and found["memory"] >= least["memory"], (
        f"of equal plans one costs {least}, this one {found}: {json.dumps(plan.to_json())}"
    )


def judged(problem: Any, told: Any, plan: Any) -> int | None:
    """Return the cost of a plan, None for one that is not valid; oracle, room and simulator must agree."""
    shown = json.dumps(plan.to_json())
    try:
        costs = residency.costs(told, plan.to_json())
    except (Refused, KeyError):
        costs = None
    broken = room.violation(problem, plan)
    assert (broken is None) == (costs is not None), f"{broken or 'valid'}, the oracle: {costs}: {shown}"
    report = room.simulate(problem, plan, numeric=True)
    if costs is None:
        return None
    assert report.violation is None and report.numeric is True, f"{report.violation}: {shown}"
    cost = costs[problem.minimise]
    found = room.objective(problem, plan), room.measured_objective(problem, report)
    assert found == (cost, cost), f"costs {found}, the oracle: {cost}: {shown}"
    named = {name: getattr(report.measures, problem.objectives[name].measure) for name in costs}
    measured = {name: value for name, value in named.items() if value is not None}
    assert measured == {name: costs[name] for name in measured}, f"{measured}, the oracle: {costs}: {shown}"
    return cost


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
    if rng.random() < 0.1:
        key = rng.choice(OPTIONAL)
        step[key] = rng.random() < 0.5 if key in FLAGS else rng.randint(1, 4)
    elif rng.random() < 0.1:
        step.pop(rng.choice(OPTIONAL), None)
    elif key in FLAGS:
        step[key] = not value
    elif key in ("pixels", "kernels", *OPTIONAL):
        step[key] = max(1, value + rng.choice([-1, 1, 2, value]))
    elif key == "order":
        step[key] = rng.choice(["pixels", "kernels", "tiles", "channels"])
    elif key == "in_place":
        step[key] = rng.choice([None, *names])
    elif key == "addresses" and value:
        name = rng.choice(list(value))
        value[name] = max(0, value[name] + rng.choice([-1, 1, -value[name]]))
    elif value and rng.random() < 0.5:
        value.pop(rng.randrange(len(value)))
    elif key != "addresses":
        value.append(rng.choice(names))
