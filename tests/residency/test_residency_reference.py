"""The reference model of residency agrees with all plans that an oracle lists: objectives, limits, words."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import conftest
import pytest
from conftest import examples, in_turn
from residency_cases import in_some_memory, problem_of, random_network
from test_residency_constraints import (
    Case,
    Json,
    cases,
    least,
    of,
    place,
    placed_problem,
    random_problem,
    totals,
)
from test_residency_parts import in_parts
from test_residency_views import drawn as in_views
from tests.fuzz import networks
from tests.fuzz.campaigns import residency_problems
from tests.models.formulations import solve
from tests.oracles import TooLarge
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright.core import catalogue
from tilewright.residency import Problem, objective, reference
from tilewright.residency.vocabulary import vocabulary
from tilewright.run import instance
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError, SolverMissingError

METHOD = "reference@gecode"


def solved(problem: Problem) -> tw.Result:
    """Return what the model proves, without any plan to begin with."""
    try:
        return tw.solve(problem, METHOD, time_limit=120, confirm=False, warm_start="none")
    except SolverMissingError as error:
        pytest.skip(str(error))


def taken_problem(rng: random.Random) -> tuple[Problem, Json, list[tuple[Json, dict[str, int]]]]:
    """Return a problem that the model takes, with all of its plans, now and then one with a limit."""
    while True:
        problem, told, plans = random_problem(rng)
        names = {"traffic", "cycles", "energy"} - {problem.minimise}
        once = problem.limits.frames == "one" and problem.limits.executions == 1
        if rng.random() < 0.3 and once and not problem.before:
            name = rng.choice(sorted(names))
            limit = max(1, rng.choice(plans)[1][name])
            problem = problem.with_(objective={f"most_{name}": limit})
            plans = [each for each in plans if each[1][name] <= limit]
            told = problem.model_dump(mode="json")
        if reference.why_not(problem) is None:
            return problem, told, plans


@pytest.mark.parametrize("seed", range(examples(400, 4)))
def test_the_reference_model_agrees_with_all_plans(seed: int) -> None:
    rng = random.Random(f"reference {seed}")
    problem, told, plans = taken_problem(rng)
    plans = [(plan | {"costs": costs}, costs) for plan, costs in plans]
    chosen: list[Case] = []
    if rng.random() < 0.7:
        chosen = cases(rng, problem)
        if rng.random() < 0.25:
            chosen += totals(rng, [costs for _, costs in plans])
    says = [text for text, _ in chosen]
    problem = problem.where(*says) if says else problem
    result = solved(problem)
    expected = least(problem, [costs for plan, costs in plans if all(keeps(plan) for _, keeps in chosen)])
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    ours = tw.solve(problem, "states", time_limit=60, confirm=False)
    assert ours.status == "feasible" or (ours.status, ours.objective) == (result.status, expected), shown
    if expected is None:
        assert result.status == "infeasible", shown
        return
    assert (result.status, result.objective) == ("optimal", expected), shown
    plan = json.loads(json.dumps(result.plan.to_json()))
    found = oracle.told(told, plan) | {"costs": oracle.costs(told, plan)}
    assert all(keeps(found) for _, keeps in chosen), shown


@pytest.mark.parametrize("seed", range(examples(25, 2)))
def test_the_reference_model_proves_what_constraints_say_of_addresses(seed: int) -> None:
    rng = random.Random(f"addresses {seed}")
    problem, told, expected, says, keeps = placed_problem(rng)
    while reference.why_not(problem) is not None:
        problem, told, expected, says, keeps = placed_problem(rng)
    result = solved(problem.where(says))
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    assert (result.status == "infeasible") == (expected is None), shown
    assert result.objective == expected, shown
    if result.plan is not None:
        assert keeps(oracle.told(told, json.loads(json.dumps(result.plan.to_json()))))


def small_attention(rng: random.Random) -> Json:
    """Return scores, perhaps with a mask, softmax and context of a few queries and keys."""
    rows, keys, heads = rng.randint(1, 3), rng.randint(2, 4), rng.choice([1, 1, 2])
    deep, wide = rng.randint(1, 2), rng.randint(1, 2)
    shape, masked = [heads * keys, 1, rows], rng.random() < 0.3
    own, product_of = [heads * deep, 1, rows], {"kind": "matmul", "groups": heads}
    softmax = {"name": "softmax", "kind": "function", "op": "softmax", "input": shape, "output": shape}
    layers: list[Json] = [
        {"name": "keys", "kind": "input", "input": [heads * deep, 1, keys]},
        {"name": "values", "kind": "input", "input": [heads * wide, 1, keys]},
        {"name": "mask", "kind": "input", "input": shape},
        {"name": "scores", "inputs": ["input", "keys"], "input": own, "output": shape}
        | {"depth": deep, "transposed": False, **product_of},
        {"name": "masked", "kind": "add", "inputs": ["scores", "mask"], "input": shape},
        softmax | {"inputs": ["masked" if masked else "scores"], "along": ["channels"]},
        {
            "name": "context",
            "inputs": ["softmax", "values"],
            "input": shape,
            "output": [heads * wide, 1, rows],
        }
        | {"depth": keys, "transposed": True, **product_of},
    ]
    left_out = () if masked else ("mask", "masked")
    return {"input": own, "layers": [layer for layer in layers if layer["name"] not in left_out]}


def drawn_problem(rng: random.Random) -> Problem:
    """Return a small problem with products or attention, parts or copies of tensors, or second buffers."""
    kind = rng.choice(["products", "attention", "parts", "views", "windows", "second buffers"])
    while True:
        if kind in ("products", "attention"):
            network = networks.Products(rng).network() if kind == "products" else small_attention(rng)
            problem = problem_of(network, 2**20, machine={"sum_bytes": rng.choice([1, 2])})
        elif kind == "parts":
            problem = in_parts(rng)
        elif kind == "second buffers":
            problem = problem_of(random_network(rng, 3), 2**20)
        else:
            problem = in_views(rng, kind == "windows")
        tensors, changes = problem.graph.tensors, dict[str, Json]()
        large = max(tensor.pixels for tensor in tensors) > 9 or max(tensor.size for tensor in tensors) > 24
        if large or len(problem.graph.operations) > (8 if kind == "attention" else 5):
            continue
        problem = in_some_memory(rng, problem)
        if rng.random() < 0.5:
            problem = problem.with_(machine={"memory_bytes": problem.least_memory + rng.randint(0, 12)})
        if kind == "second buffers" or rng.random() < 0.5:
            changes["objective"] = {"minimise": rng.choice(["traffic", "memory", "cycles", "energy"])}
            changes["machine"] = residency_problems.rates(rng)
            changes["machine"]["double_buffering"] = kind == "second buffers" or rng.random() < 0.3
        elif rng.random() < 0.3:
            changes["limits"] = rng.choice([{"frames": "many"}, {"executions": 2}])
        with suppress(InputError):
            problem = problem.with_(**changes)
            if reference.why_not(problem) is None and reference.size(problem) < 10**5:
                return problem


@pytest.mark.parametrize("seed", range(examples(600, 3)))
def test_what_the_search_finds_is_best_in_the_model(seed: int) -> None:
    """The model has the plan that the search proves, at the same cost, and no cheaper one."""
    problem = drawn_problem(random.Random(f"drawn {seed}"))
    expected = tw.solve(problem, "states", time_limit=60, confirm=False)
    shown = problem.model_dump_json(exclude_defaults=True)
    if expected.status == "infeasible":
        assert solved(problem).status in ("infeasible", "unknown"), shown
        return
    model, start = catalogue.model("residency", "reference"), expected.plan
    outcome = solve(problem, model, "gecode", start=start, seconds=60 if conftest.THOROUGH else 8)
    if outcome.status == "optimal":
        assert objective(problem, outcome.plan) == expected.objective, shown
    if expected.status == "optimal" and outcome.plan is not None:
        assert objective(problem, outcome.plan) >= expected.objective, shown
    if outcome.warm_start is None:
        pytest.skip("the solver had no time to look at the start")
    assert "first solution is the start" in outcome.warm_start, shown


def branching_problem(rng: random.Random, *, few: bool = False) -> tuple[Problem, Json]:
    """Return a problem with two readers of a map, which is cheap to compute: it may be executed twice.

    It may have `few` plans, so that all can be listed.
    """
    while True:
        channels, high, wide = rng.randint(2, 4), rng.choice([1, 2, 3, 3]), rng.randint(2, 3)
        layers: list[Json] = [
            {"name": "a", "input": [1, high, wide], "kernels": channels, "kernel": [1, 1]},
            {"name": "b", "kind": "pool", "inputs": ["a"], "kernel": [1, 1]},
        ][: 1 + (not few and high * wide < 6 and rng.random() < 0.4)]
        read, others = layers[-1]["name"], 2 if few else rng.choice([2, 2, 3])
        for name in ("b", "c", "d")[len(layers) - 1 :][:others]:
            window = [rng.choice([1, high]), rng.choice([1, 1, wide])]
            layers.append(
                rng.choice(
                    [
                        {"name": name, "kind": "pool", "inputs": [read], "kernel": window},
                        {"name": name, "kind": "pool", "inputs": [read], "kernel": window},
                        {"name": name, "inputs": [read], "kernels": 1, "kernel": window},
                        {"name": name, "kind": "add", "inputs": sorted({"a", layers[-1]["name"]})},
                    ]
                )
            )
        limits: Json = {"executions": 2, "tiles": not few and len(layers) < 4 and rng.random() < 0.3}
        limits |= {"order": "given"} if rng.random() < 0.3 else {}
        limits |= {"most_operations": rng.randint(1, 3)} if rng.random() < 0.2 else {}
        try:
            size = problem_of({"layers": layers}, 10_000).least_memory + rng.randint(0, 7 if few else 25)
            problem = problem_of({"layers": layers}, size, limits=limits)
        except InputError:
            continue
        if reference.why_not(problem) is None:
            return problem, problem.model_dump(mode="json")


def test_a_map_that_is_cheap_to_compute_is_computed_twice() -> None:
    """Nine values and four weights make four maps of nine, which find no room in 26 bytes."""
    pool: Json = {"kind": "pool", "inputs": ["a"]}
    layers = [
        {"name": "a", "input": [1, 3, 3], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "kernel": [1, 2], **pool},
        {"name": "c", "kernel": [2, 1], **pool},
    ]
    problem = problem_of({"layers": layers}, 26, limits={"executions": 2, "order": "given"})
    told = problem.model_dump(mode="json")
    result = solved(problem)
    assert result.plan.again and result.objective == oracle.best(told) == 65
    once = problem.with_(limits={"executions": 1}).model_dump(mode="json")
    assert oracle.best(once) == 133
    assert oracle.costs(told, json.loads(json.dumps(result.plan.to_json())))["traffic"] == 65


def of_second(rng: random.Random, plans: list[tuple[Json, dict[str, int]]]) -> Case:
    """Return a constraint on a second execution, or on what it computes."""
    twice = [name for plan, _ in plans for name in plan["again"]]
    a = rng.choice(sorted(set(twice))) if twice else "a"
    n, k = f"{a} again", rng.randint(1, 3)

    def step(plan: Json) -> Json:
        return of(plan, n) if place(plan, n) else {}

    lot: list[Case] = [
        (f"step('{n}') > 0", lambda p: place(p, n) > 0),
        (f"step('{n}') == {k}", lambda p: place(p, n) == k),
        (f"before('{n}', '{a}')", lambda p: 0 < place(p, n) < place(p, a)),
        (f"same_step('{n}', 'b')", lambda p: 0 < place(p, n) == place(p, "b")),
        (f"written('{n}')", lambda p: n in step(p).get("written", ())),
        (f"resident('{n}')", lambda p: n in step(p).get("resident", ())),
        (f"on_chip('{n}', 'b')", lambda p: n in of(p, "b")["on_chip"]),
        (f"fetched('input', '{n}')", lambda p: "input" in step(p).get("fetched", ())),
        (f"kept('{n}')", lambda p: n in step(p).get("kept", ())),
        (f"pixels('{n}') == {k}", lambda p: step(p).get("pixels", 0) == k),
        (f"moved('{n}') >= {4 * k}", lambda p: step(p).get("moved", 0) >= 4 * k),
        (f"bytes('{n}') in 1..{6 * k}", lambda p: 1 <= step(p).get("bytes", 0) <= 6 * k),
        (f"order('{n}') == 'kernels'", lambda p: step(p).get("order") == "kernels"),
        (
            f"step('b again') == 0 and steps <= {k}",
            lambda p: not place(p, "b again") and len(p["steps"]) <= k,
        ),
    ]
    return rng.choice(lot)


@pytest.mark.parametrize("seed", range(examples(300, 2)))
def test_second_executions_agree_with_all_plans_and_the_search(seed: int) -> None:
    rng = random.Random(f"second {seed}")
    while True:
        problem, told = branching_problem(rng)
        try:
            expected = oracle.best(told)
            break
        except TooLarge:
            continue
    shown = json.dumps({"room": "residency", **told})
    result = solved(problem)
    found = tw.solve(problem, "states", time_limit=60, confirm=False)
    assert result.status == found.status == "optimal", shown
    assert result.objective == found.objective == expected, shown
    plan = json.loads(json.dumps(result.plan.to_json()))
    assert oracle.costs(told, plan)["traffic"] == result.objective, shown


@pytest.mark.parametrize("seed", range(examples(300, 1)))
def test_what_constraints_say_of_second_executions_holds(seed: int) -> None:
    rng = random.Random(f"says second {seed}")
    while True:
        problem, told = branching_problem(rng, few=True)
        try:
            plans = list(oracle.plans(told, 3_000))
            break
        except TooLarge:
            continue
    says, keeps = of_second(rng, plans)
    result = solved(problem.where(says))
    expected = least(problem, [costs for plan, costs in plans if keeps(plan)])
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    assert (result.status == "infeasible") == (expected is None), shown
    assert result.objective == expected, shown
    if result.plan is not None:
        assert keeps(oracle.told(told, json.loads(json.dumps(result.plan.to_json())))), shown


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(examples(60, 1)))
def test_the_model_begins_with_any_plan(seed: int) -> None:
    rng = random.Random(f"start {seed}")
    problem = branching_problem(rng)[0] if seed % 2 == 0 else taken_problem(rng)[0]
    for method in in_turn(("states", "layer_by_layer", "keep_if_it_fits", "fused_layers"), seed):
        start = tw.solve(problem, method, time_limit=60, confirm=False).plan
        outcome = solve(
            problem, catalogue.model("residency", "reference"), "gecode", start=start, seconds=300
        )
        shown = json.dumps({"room": "residency", **problem.model_dump(mode="json")})
        assert outcome.warm_start == f"first solution is the start, objective {objective(problem, start)}", (
            shown
        )


def test_every_word_is_stated() -> None:
    layers = [
        {"name": "a", "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]},
        {"name": "b", "kind": "map", "op": "softmax", "inputs": ["a"], "input": [1, 2, 2]},
    ]
    for limits, name in (({"frames": "many"}, "a"), ({"executions": 2}, "a again")):
        problem = problem_of({"layers": layers}, 40, limits=limits)
        for word in vocabulary(problem).words.values():
            names = tuple(name for _ in word.takes)
            assert reference.term(problem, Path(), Term(word.name, names)), word.name


def test_it_says_what_it_does_not_take() -> None:
    for name, told in {
        "mb28-list": "784 pixels, the model takes 64",
        "resnet8-again": "1,024 pixels, the model takes 64",
        "ds-cnn-16k": "490 pixels, the model takes 64",
    }.items():
        assert told in str(reference.why_not(instance.read(name).problem))
    readers = [
        {"name": f"r{n}", "kind": "pool", "inputs": ["a"], "input": [1, 2, 2], "kernel": [1, 1]}
        for n in range(6)
    ]
    layers = [{"name": "a", "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]}, *readers]
    problem = problem_of({"layers": layers}, 40, limits={"executions": 2})
    assert "6 readings may be of second executions, the model takes 5" in str(reference.why_not(problem))
