"""Constraints of users' own on schedules, against all plans of a few subgraphs from which the oracle filters.

The predicates beside the texts are Python on a plan's JSON, and share nothing with the language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, combinations, product
from math import ceil
from random import Random
from typing import Any

import pytest
from conftest import examples, in_turn
from formulations import need, solve
from graphs_at_random import problem_at_random
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import TooLarge
from tests.oracles import scheduling as oracle

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.scheduling import ideals
from tilewright.scheduling import objective, violation
from tilewright.spec.errors import TilewrightError

Json = dict[str, Any]
Step = tuple[frozenset[int], tuple[int, int, int], frozenset[int]]
Case = tuple[str, Callable[[list[Step], int], bool]]

MOST_SUBGRAPHS, MOST_PLANS = 3, 60_000

METHODS = ["auto", "ideals", "columns_choose@gecode", "columns_cover@highs"]
"""The reference model has a test of its own, on smaller graphs."""


def subsets(members: list[int]) -> Iterator[frozenset[int]]:
    every = (combinations(members, many) for many in range(len(members) + 1))
    return map(frozenset, chain.from_iterable(every))


def plans(world: oracle.World) -> Iterator[tuple[list[Step], Fraction]]:
    """Yield all plans of a few subgraphs, each with the best orders of their tiles."""
    sets = [ops for ops in subsets(list(range(world.count))) if ops and world.connected(ops)]
    native = [range(1, side + 1) for side in (*world.native, min(world.native))]
    times: dict[Any, Fraction | None] = {}
    looked = 0

    def time(graph: oracle.Subgraph, key: Any) -> Fraction | None:
        if key not in times:
            w, h, k = key[1]
            tiles = graph.cut(w, h, k) if graph.allows(w, h, k) else None
            wide = -(-graph.width // w)
            times[key] = None if tiles is None else oracle.Tour(tiles, wide).shortest(None)
        return times[key]

    def follow(
        done: list[Step], slow: frozenset[int], kept: frozenset[int], spent: Fraction
    ) -> Iterator[tuple[list[Step], Fraction]]:
        nonlocal looked
        looked += 1
        assume(looked < MOST_PLANS)
        if world.results <= slow and {op for ops, _, _ in done for op in ops} == set(range(world.count)):
            yield done, spent
        if len(done) == MOST_SUBGRAPHS:
            return
        for ops in sets:
            if not world.needed(ops) <= slow | kept:
                continue
            for keeps in subsets([world.made[op] for op in sorted(ops)]):
                graph = world.subgraph(ops, kept, keeps)
                for size in product(*native) if graph.fits else ():
                    own = time(graph, (ops, size, kept, keeps))
                    if own is not None:
                        after = slow | (frozenset(graph.ends) - keeps)
                        yield from follow([*done, (ops, size, keeps)], after, keeps, spent + own)

    yield from follow([], frozenset(), frozenset(), Fraction(0))


def first(steps: list[Step], op: int) -> int:
    return next(place for place, (ops, _, _) in enumerate(steps) if op in ops)


def size(steps: list[Step], op: int) -> tuple[int, int, int]:
    return steps[first(steps, op)][1]


LOT: list[Case] = [
    ("together(0, 1)", lambda s, _: any({0, 1} <= ops for ops, _, _ in s)),
    ("not together(0, 1)", lambda s, _: not any({0, 1} <= ops for ops, _, _ in s)),
    ("before(1, 0)", lambda s, _: first(s, 1) < first(s, 0)),
    ("before(0, 1) implies width(1) == 1", lambda s, _: first(s, 0) >= first(s, 1) or size(s, 1)[0] == 1),
    ("runs(0) == 2", lambda s, _: sum(0 in ops for ops, _, _ in s) == 2),
    ("sum(runs(o) for o in operations) <= 2", lambda s, _: sum(len(ops) for ops, _, _ in s) <= 2),
    ("width(0) == 1", lambda s, _: size(s, 0)[0] == 1),
    ("height(0) + width(1) == 3", lambda s, _: size(s, 0)[1] + size(s, 1)[0] == 3),
    ("depth(0) != depth(1)", lambda s, _: size(s, 0)[2] != size(s, 1)[2]),
    (
        "for some t in tensors: retained(t)",
        lambda s, _: any(keeps for _, _, keeps in s),
    ),
    ("kept == 0", lambda s, _: not any(keeps for _, _, keeps in s)),
    ("kept == 2", lambda s, _: sum(len(keeps) for _, _, keeps in s) == 2),
    ("subgraphs == 2", lambda s, _: len(s) == 2),
    ("subgraphs % 2 == 1", lambda s, _: len(s) % 2 == 1),
    (
        "latency <= 30 or subgraphs == 2",
        lambda s, cost: cost <= 30 or len(s) == 2,
    ),
    ("2 * latency <= 60", lambda s, cost: 2 * cost <= 60),
]


def steps_of(plan: Json) -> list[Step]:
    return [
        (frozenset(step["operations"]), tuple(step["granularity"]), frozenset(step["retained"]))
        for step in plan["subgraphs"]
    ]


@settings(max_examples=examples(200, 6))
@given(randoms)
def test_all_words_against_all_plans(random: Random) -> None:
    problem = problem_at_random(random.randint(0, 10**6), random.choice([2, 2, 3]), most=3, native=2)
    table = problem.model_dump(mode="json")
    cases = random.sample(LOT, random.randint(1, 2))
    costs = []
    try:
        for steps, exactly in plans(oracle.World(table)):
            cost = ceil(exactly)
            if all(keeps(steps, cost) for _, keeps in cases):
                costs.append(cost)
    except TooLarge:
        assume(False)
    constrained = problem.where(*(text for text, _ in cases))
    for method in in_turn(METHODS, random.randint(0, 3)):
        told = f"{method}: {[text for text, _ in cases]}"
        try:
            result = tw.solve(constrained, method, time_limit=30, confirm=False)
        except TilewrightError as error:
            assert re.search("cannot honour|does not take|suit", str(error)), told
            continue
        if result.plan is None:
            assert not costs, told
            assert result.status == "infeasible" or "%" in told or "kept == 2" in told, told
            continue
        plan = result.plan.to_json()
        assert result.status == "optimal", told
        assert oracle.cost(table, plan) == result.objective
        assert all(keeps(steps_of(plan), result.objective) for _, keeps in cases), told
        if costs:  # plans of more subgraphs may be better still
            assert result.objective <= min(costs), told
        if len(plan["subgraphs"]) <= MOST_SUBGRAPHS:
            assert result.objective == min(costs), told


def solved(problem: Any, method: str) -> tuple[str, int | None]:
    result = tw.solve(problem, method, time_limit=10, confirm=False, warm_start="none")
    return result.status, result.objective


SIZES = [(2, 2, 2), (2, 2, 1), (1, 3, 2), (1, 4, 3), (3, 1, 1)]
"""Operations, and the longest side of tensors and of the array, of graphs that the model proves quickly."""


@settings(max_examples=examples(1000, 3))
@given(randoms)
def test_the_reference_model_and_the_search_agree(random: Random) -> None:
    need("gecode")
    operations, most, native = random.choice(SIZES)
    problem = problem_at_random(random.randint(0, 10**6), operations, most=most, native=native)
    expected = ideals.solve(problem, RunContext())
    outcome = solve(problem, catalogue.model("scheduling", "reference"), "gecode", seconds=60)
    assume(outcome.status in ("optimal", "infeasible"))  # it need not be fast
    assert (outcome.status, outcome.bound) == (expected.status, expected.bound)
    if outcome.plan is not None:
        assert violation(problem, outcome.plan) is None
        assert objective(problem, outcome.plan) == outcome.bound


@settings(max_examples=examples(60, 2))
@given(randoms)
def test_the_reference_model_says_the_same_with_constraints(random: Random) -> None:
    problem = problem_at_random(random.randint(0, 10**6), 2, most=2, native=2)
    cases = random.sample([text for text, _ in LOT if "%" not in text], random.randint(1, 2))
    constrained = problem.where(*cases)
    try:
        found = solved(constrained, "reference@gecode")
    except TilewrightError as error:
        assert re.search("cannot honour|does not take", str(error))
        return
    assume(found[0] in ("optimal", "infeasible"))  # it need not be fast
    assert found == solved(constrained, "ideals"), cases


def test_a_plan_may_not_be_asked_to_take_long() -> None:
    problem = tw.read("mlsys-example5").problem
    with pytest.raises(TilewrightError, match="ideals cannot honour it"):
        tw.solve(problem.where("latency >= 8000"), "ideals", warm_start="none")
    assert tw.solve(problem.where("latency <= 6735"), "ideals").status == "optimal"
    assert tw.solve(problem.where("latency <= 6734"), "ideals").status == "infeasible"
