"""Constraints of users' own on networks in one memory, against all plans of small ones that an oracle lists.

The predicates beside the texts are Python on a plan's JSON, and share nothing with the language.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from conftest import examples, refused
from residency_cases import problem_of, random_network
from tests.fuzz.campaigns import residency_problems
from tests.fuzz.networks import reduced
from tests.oracles import TooLarge
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright.residency import Problem, objective, violation
from tilewright.spec.errors import InputError

Json = dict[str, Any]
Case = tuple[str, Callable[[Json], bool]]

MOST_PLANS = 60_000


def place(plan: Json, name: str) -> int:
    """Return the number of the step of an operation, 0 where there is none."""
    return next((n for n, step in enumerate(plan["steps"], 1) if name in step["operations"]), 0)


def of(plan: Json, name: str) -> Json:
    """Return the step of an operation."""
    return next(step for step in plan["steps"] if name in step["operations"])


def rows(step: Json) -> int:
    return int(step["pixels"] // (step["columns"] or step["row"]))


def kernels(step: Json, name: str) -> int:
    once = step["order"] == "pixels" and (name in step["kept"] or name not in step["heavy"])
    return 0 if once else int(min(step["kernels"], step["units"][name]))


def cases(rng: random.Random, problem: Problem) -> list[Case]:
    """Return constraints of a problem, one of each word."""
    graph = problem.graph
    names = [op.name for op in graph.numbers(graph.all & ~graph.begin)]
    a, b = names[0], names[-1]
    c = rng.choice(names)
    t = rng.choice([tensor.name for tensor in graph.tensors if tensor.readers])
    reader = graph.operations[next(each for each in graph.tensors if each.name == t).readers[-1]].name
    k, n = rng.randint(1, 3), rng.randint(1, 4)
    size = rng.randint(1, problem.machine.memory_bytes)
    some = rng.choice(["pixels", "tiles", "kernels", "channels"])
    whole = (Fraction(rng.randint(1, 9), 10) * problem.machine.memory_bytes).__floor__()
    lot: list[Case] = [
        (f"step('{b}') == {k}", lambda p: place(p, b) == k),
        (f"not same_step('{a}', '{b}')", lambda p: place(p, a) != place(p, b)),
        (f"same_step('{a}', '{c}')", lambda p: place(p, a) == place(p, c)),
        (f"before('{c}', '{b}')", lambda p: place(p, c) < place(p, b)),
        (f"steps != {k}", lambda p: len(p["steps"]) != k),
        (f"on_chip('{t}', '{reader}')", lambda p: t in of(p, reader)["on_chip"]),
        (f"not on_chip('{t}', '{reader}')", lambda p: t not in of(p, reader)["on_chip"]),
        (f"fetched('{t}', '{reader}')", lambda p: t in of(p, reader)["fetched"]),
        (f"resident('{c}')", lambda p: c in of(p, c)["resident"]),
        (f"written('{c}')", lambda p: c in of(p, c)["written"]),
        (
            "for some o in operations: in_place(o)",
            lambda p: any(step["in_place"] is not None for step in p["steps"]),
        ),
        (f"kept('{c}') == false", lambda p: c not in of(p, c)["kept"]),
        (f"kept('{c}')", lambda p: c in of(p, c)["kept"]),
        (f"order('{c}') == '{some}'", lambda p: of(p, c)["order"] == some),
        (f"pixels('{c}') >= {n}", lambda p: of(p, c)["pixels"] >= n),
        (f"rows('{c}') == {k}", lambda p: rows(of(p, c)) == k),
        (f"columns('{c}') in {{1, 2}}", lambda p: of(p, c)["columns"] in (1, 2)),
        (f"kernels('{c}') == {k}", lambda p: kernels(of(p, c), c) == k),
        (f"channels('{c}') >= {k}", lambda p: (of(p, c)["channels"] or 0) >= k),
        (
            "sum(recomputed(o) for o in operations) > 0",
            lambda p: any(many for step in p["steps"] for many in step["again"].values()),
        ),
        (f"not double_buffering('{c}')", lambda p: not of(p, c).get("double_buffering")),
        (f"running('{c}')", lambda p: bool(of(p, c).get("running"))),
        (f"not running('{c}')", lambda p: not of(p, c).get("running")),
        (f"bytes('{c}') >= {size}", lambda p: of(p, c)["bytes"] >= size),
        (f"bytes('{c}') <= {whole}", lambda p: of(p, c)["bytes"] <= whole),
        (f"moved('{c}') % 3 == {k - 1}", lambda p: of(p, c)["moved"] % 3 == k - 1),
        (
            f"pixels('{a}') == 1 implies bytes('{b}') < moved('{b}')",
            lambda p: of(p, a)["pixels"] != 1 or of(p, b)["bytes"] < of(p, b)["moved"],
        ),
    ]
    if problem.limits.frames == "many":
        lot += [(f"staying('{b}')", lambda p: b in p["staying"])] * 3
        lot += [(f"not staying('{b}')", lambda p: b not in p["staying"])] * 3
    if problem.limits.executions == 2:
        lot += [(f"step('{a} again') > 0", lambda p: place(p, f"{a} again") > 0)] * 3
        lot += [(f"same_step('{a} again', '{b}')", lambda p: 0 < place(p, f"{a} again") == place(p, b))] * 3
    return rng.sample(lot, rng.choice([1, 1, 2]))


def totals(rng: random.Random, costs: list[dict[str, int]]) -> list[Case]:
    """Return a constraint on what a plan costs in all; its predicate looks at the costs beside the plan."""
    name = rng.choice(["traffic", "cycles", "energy"])
    some = rng.choice(costs)[name]
    return [
        rng.choice(
            [
                (f"{name} <= {some}", lambda p: p["costs"][name] <= some),
                (f"{name} % 2 == {some % 2}", lambda p: p["costs"][name] % 2 == some % 2),
                (f"{name} in {{{some}, {some + 1}}}", lambda p: p["costs"][name] in (some, some + 1)),
            ]
        )
    ]


def random_table(rng: random.Random) -> Json:
    """Return a problem with few plans."""
    changes: Json = {"limits": {"tiles": rng.random() < 0.5}}
    kind = rng.choice(["", "", "timed", "frames", "executions", "memory", "list"])
    machine: Json = {"element_bytes": rng.choice([1, 1, 2])}
    if kind == "frames":
        changes["limits"]["frames"] = "many"
    elif kind == "executions":
        changes["limits"]["executions"] = 2
    elif kind == "memory":
        changes["objective"] = {"minimise": "memory"}
    elif kind:
        names = rng.choice([["traffic", "cycles"], ["cycles", "traffic"]])
        changes["objective"] = {"minimise": rng.choice(["cycles", "energy"]) if kind == "timed" else names}
        machine |= residency_problems.rates(rng)
    most = 3 if kind == "executions" else 2 + (rng.random() < 0.3)
    return {"machine": machine, "most": most, **changes}


def random_problem(rng: random.Random) -> tuple[Problem, Json, list[tuple[Json, dict[str, int]]]]:
    """Return a problem with all of its plans."""
    while True:
        made = random_table(rng)
        machine, most = made.pop("machine"), made.pop("most")
        network = {"layers": networks_of(rng, most)}
        try:
            least = problem_of(network, 10_000, machine=machine, **made).least_memory
            elements = least + rng.randint(0, 12)
            size = {"memory_bytes": elements * machine["element_bytes"]}
            problem = problem_of(network, 1, machine=machine | size, **made)
            told = problem.model_dump(mode="json")
            return problem, told, list(oracle.plans(told, MOST_PLANS))
        except (InputError, TooLarge):
            continue


def networks_of(rng: random.Random, most: int) -> list[Json]:
    layers: list[Json] = random_network(rng, most)["layers"]
    if rng.random() < 0.3:
        layers = reduced(rng, most, 3, 2)
    small = [layer for layer in layers if max(layer["input"]) <= 3]
    return small if len(small) == len(layers) and len(layers) > 1 else networks_of(rng, most)


def least(problem: Problem, costs: list[dict[str, int]]) -> int | None:
    """Return the least of the last objective among plans that are good in those before it."""
    left = costs
    for name, tolerance in zip(problem.objective.names, [*problem.objective.tolerances, 0.0], strict=False):
        if not left:
            return None
        best = min(each[name] for each in left)
        most = best + int(best * Fraction(str(tolerance)))
        left = [each for each in left if each[name] <= most]
    return min((each[problem.minimise] for each in left), default=None)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(examples(300)))
def test_constraints_against_all_plans(seed: int) -> None:
    rng = random.Random(f"constraints {seed}")
    problem, told, plans = random_problem(rng)
    plans = [(plan | {"costs": costs}, costs) for plan, costs in plans]
    chosen = cases(rng, problem)
    if rng.random() < 0.25:
        chosen += totals(rng, [costs for _, costs in plans])
    says = [text for text, _ in chosen]
    constrained = problem.where(*says)
    kept = [costs for plan, costs in plans if all(keeps(plan) for _, keeps in chosen)]
    expected = least(problem, kept)
    result = tw.solve(constrained, "states", time_limit=60, confirm=False)
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    if expected is None:
        assert result.status == "infeasible", shown
        return
    assert result.status in ("optimal", "feasible"), shown
    assert result.bound is not None and result.bound <= expected, shown
    assert result.objective >= expected, shown
    if result.status == "optimal":
        assert result.objective == expected, shown
    else:  # what fits by size has no addresses
        assert result.bound == expected or problem.before, shown
    plan = json.loads(json.dumps(result.plan.to_json()))
    found = oracle.told(told, plan) | {"costs": oracle.costs(told, plan)}
    assert all(keeps(found) for _, keeps in chosen), shown
    assert violation(constrained, result.plan) is None
    assert objective(problem, result.plan) == result.objective


def address(plan: Json, tensor: str, name: str) -> int:
    """Return where a tensor lies in the step of an operation, -1 where it is not on chip as a whole."""
    number = place(plan, name)
    if tensor not in plan["steps"][number - 1]["on_chip"]:
        return -1
    there = (step["addresses"] for step in plan["steps"][:number][::-1])
    return int(next(addresses[tensor] for addresses in there if tensor in addresses))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(examples(60)))
def test_addresses_against_all_placements(seed: int) -> None:
    """The cheapest plan that has addresses as they are asked for is found, or at least its bound is right."""
    rng = random.Random(f"addresses {seed}")
    problem, told, expected, says, keeps = placed_problem(rng)
    result = tw.solve(problem.where(says), "states", time_limit=60, confirm=False)
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    if expected is None:
        assert result.status in ("infeasible", "unknown"), shown
        return
    assert result.bound is None or result.bound <= expected, shown
    assert result.status != "infeasible" and (result.status != "optimal" or result.objective == expected)
    if result.plan is not None:
        assert result.objective >= expected
        assert keeps(oracle.told(told, json.loads(json.dumps(result.plan.to_json()))))


def of_addresses(rng: random.Random, problem: Problem, told: Json) -> Case:
    """Return a constraint on where something lies."""
    names = [op.name for op in problem.graph.operations]
    tensor = rng.choice(["input", *names[:-1]])
    reader, at = rng.choice(names), rng.randint(0, 3)
    lot: list[Case] = [
        (f"address('{tensor}', '{reader}') == {at}", lambda p: address(p, tensor, reader) == at),
        (
            f"address('{tensor}', '{reader}') % 3 == 2 and memory % 2 == 1",
            lambda p: address(p, tensor, reader) % 3 == 2 and oracle.costs(told, p)["memory"] % 2 == 1,
        ),
    ]
    return rng.choice(lot)


def placed_problem(rng: random.Random) -> tuple[Problem, Json, int | None, str, Callable[[Json], bool]]:
    """Return a problem with a constraint on addresses, and the least traffic by all plans and addresses."""
    while True:
        network = {"layers": networks_of(rng, 2)}
        try:
            size = problem_of(network, 10_000).least_memory + rng.randint(0, 5)
            problem = problem_of(network, size, limits={"tiles": False})
            told = problem.model_dump(mode="json")
            plans = sorted(oracle.plans(told, 5_000), key=lambda each: each[1]["traffic"])
            says, keeps = of_addresses(rng, problem, told)
            looked = (
                costs["traffic"]
                for plan, costs in plans
                for one in oracle.placements(told, plan, 20_000)
                if keeps(one)
            )
            return problem, told, next(looked, None), says, keeps
        except (InputError, TooLarge):
            continue


BUNDLED = [
    ("mb28-64k", "not same_step(expand1, depthwise1)"),
    ("resnet8-64k", "written('b0s')"),
    ("ds-cnn-16k", "kernels(pw1) == 7"),
    ("vww-32k", "steps <= 4"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "says"), BUNDLED)
def test_bundled_instances_are_proven(name: str, says: str) -> None:
    result = tw.solve(tw.read(name).problem.where(says), "states", time_limit=60)
    assert result.status == "optimal"


def test_words_are_told_with_what_is_there() -> None:
    problem = tw.read("mb28-64k").problem
    with refused("constraints[0].say", "step('expand') == 1", "did you mean expand1"):
        problem.where("step('expand') == 1")
