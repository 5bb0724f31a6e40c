"""The reference model of fusion: it, the search and the oracle agree, whatever is minimised or limited."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import conftest
from conftest import examples
from formulations import need, solve
from fusion.test_fusion_constraints import LOT, drawn, sequences
from hypothesis import assume, given, settings
from numbered import randoms
from tests.models.small_data import INSTRUCTIONS, PAIR
from tests.oracles import TooLarge, fusion

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.fusion import Plan, Problem, objective
from tilewright.fusion.reference import size
from tilewright.models.fusion import downsets

Json = dict[str, Any]

PATH = catalogue.formulation("fusion", "reference")

OBJECTIVES = ("cycles", "energy", "memory", "traffic")

FEW, MANY = 4_500, 9_000
"""Constraints of problems by day, and of those that the model proves in a few seconds."""


def limited(random: Random, **machine: Any) -> Problem:
    """Return a random problem with limits, which the model takes."""
    problem: Problem = drawn(random)
    objective: Json = {"minimise": random.choice(OBJECTIVES)}
    problem = problem.with_(
        limits={
            "halo": random.choice(["any", "any", "keep", "recompute"]),
            "tiles": random.choice(["grid", "grid", "any"]),
        },
        machine={"element_bytes": random.choice([1, 2]), "arrays": random.choice([1, 1, 2]), **machine},
    )
    if objective["minimise"] == "memory" and random.random() < 0.6:
        fastest = downsets.solve(problem.with_(objective={"minimise": "cycles"}), RunContext())
        if fastest.plan is not None:
            objective["most_cycles"] = fastest.bound * random.choice([9, 10, 11, 14, 20]) // 10
    problem = problem.with_(objective=objective)
    assume(catalogue.suits(PATH, problem) and size(problem) <= (MANY if conftest.THOROUGH else FEW))
    return problem


def solved(problem: Problem, method: str) -> tuple[str, int | None]:
    """Return what a method proves; it need not be fast."""
    result = tw.solve(problem, method, time_limit=30, confirm=False, warm_start="none")
    assume(result.status in ("optimal", "infeasible"))
    return result.status, result.objective


@settings(max_examples=examples(1000, 2))
@given(randoms)
def test_the_model_the_search_and_the_oracle_agree(random: Random) -> None:
    problem = limited(random)
    try:
        best = fusion.best(problem.model_dump(mode="json"))
    except TooLarge:
        assume(False)
    agree(problem, best)


def agree(problem: Problem, best: int | None) -> None:
    """Hold the model and the search to what the oracle finds; the model need not end."""
    need("gecode")
    ours, found = downsets.solve(problem, RunContext()), solve(problem, PATH, "gecode", seconds=60)
    for outcome in (ours, found):
        if outcome is ours or outcome.status in ("optimal", "infeasible"):
            assert outcome.status == ("infeasible" if best is None else "optimal")
            assert best is None or objective(problem, outcome.plan) == outcome.bound == best
    assume(found.status in ("optimal", "infeasible"))


@settings(max_examples=examples(150, 1))
@given(randoms)
def test_the_model_and_the_search_agree_with_constraints_and_a_host(random: Random) -> None:
    need("gecode")
    host = random.choice([None, {"cycles_per_byte": 0.7, "cycles_per_call": 5}])
    problem = limited(random, host=host)
    cases = random.sample([text for text, _ in LOT], random.randint(1, 2))
    constrained = problem.where(*cases)
    assert solved(constrained, "reference@gecode") == solved(constrained, "downsets"), cases


def pinned(plan: Json, hosted: set[str]) -> list[str]:
    """Return constraints that leave nothing of a plan open but the order of its groups."""
    told, place = [], {}
    for number, group in enumerate(plan["groups"]):
        place |= dict.fromkeys(group["nodes"], number)
        told += [f"before({one}, {other})" for one, other in combinations(group["nodes"], 2)]
        name = group["nodes"][0]
        if name not in hosted:
            told += [f"tile.{word}({name}) == {value}" for word, value in group["tile"].items()]
    for one, other in combinations(place, 2):
        told.append(f"{'' if place[one] == place[other] else 'not '}together({one}, {other})")
    return told


@settings(max_examples=examples(300, 2))
@given(randoms)
def test_the_model_counts_what_the_oracle_counts_of_any_plan(random: Random) -> None:
    need("gecode")
    problem = limited(random)
    table = problem.model_dump(mode="json")
    graph = fusion.Graph(table)
    allowed, groups = graph.allowed(), []
    try:
        for nodes in random.choice(list(sequences(graph))):
            tiles = [None]
            if graph.ops[nodes[0]].engine != "HOST":
                tiles = list(graph.tiles(nodes, allowed[tuple(sorted(nodes))]))
            assume(tiles)
            tile = random.choice(tiles)
            names = [graph.ops[node].name for node in nodes]
            groups.append({"nodes": names, "tile": tile and tile._asdict()})
        plan = {"groups": groups}
        expected = fusion.cost(table, plan)
    except (TooLarge, fusion.Refused):
        assume(False)
    hosted = {op.name for op in graph.ops if op.engine == "HOST"}
    result = solved(problem.where(*pinned(plan, hosted)), "reference@gecode")
    assert result == ("optimal", expected), plan


def test_the_search_begins_with_a_plan_and_a_start_that_is_none_does_no_harm() -> None:
    need("gecode")
    problem = tw.FusionProblem.model_validate(
        {
            "network": PAIR,
            "machine": INSTRUCTIONS,
            "objective": {"minimise": "cycles"},
        }
    )
    plan = tw.solve(problem, "layerwise").plan
    found: list[Plan] = []
    outcome = solve(problem, PATH, "gecode", start=plan, on_plan=found.append)
    assert outcome.warm_start is not None
    assert objective(problem, found[0]) == objective(problem, plan)
    assert solve(problem, PATH, "gecode", start=Plan(plan.groups[:-1])).bound == outcome.bound


def test_an_input_may_be_larger_than_all_that_is_computed() -> None:
    """A pool of the whole input, which is wider than its result."""
    need("gecode")
    pool = {"name": "pool", "kind": "pool", "op": "max", "input": [1, 4, 5], "kernel": [4, 5]}
    problem = Problem.model_validate({"network": {"layers": [pool]}, "machine": INSTRUCTIONS})
    best = fusion.best(problem.model_dump(mode="json"))
    for method in ("reference@gecode", "downsets"):
        result = tw.solve(problem, method, confirm=False, warm_start="none")
        assert (result.status, result.objective) == ("optimal", best)
