"""Validity, heights and optima beside an oracle that shares nothing with the package."""

from __future__ import annotations

from itertools import product
from random import Random

from conftest import examples
from hypothesis import assume, given, settings
from numbered import randoms
from tests.fuzz.campaigns.addresses_problems import table_at_random
from tests.oracles import Refused
from tests.oracles import addresses as oracle

from tilewright.addresses import Plan, Problem, objective, simulate, violation
from tilewright.core.context import RunContext
from tilewright.models.addresses import canonical
from tilewright.spec.errors import InputError


def problem_at_random(random: Random) -> Problem:
    """Return a problem; one is refused only where it has no plan."""
    table = table_at_random(random)
    try:
        return Problem(**table)
    except InputError:
        table["memory"].setdefault("capacity", None)
        assert oracle.best(table) is None
        assume(False)
        raise


@settings(max_examples=examples(100))
@given(randoms)
def test_a_plan_is_valid_and_as_high_as_the_docs_say(random: Random) -> None:
    """Offsets are aligned or not, apart or not, within the capacity or not."""
    problem = problem_at_random(random)
    unit = random.choice([1, problem.memory.alignment])
    most = random.choice([1, 3, 8, 20])
    offsets = tuple(unit * random.randint(0, most) for _ in problem.buffers)
    plan, plain = Plan(offsets), problem.model_dump(mode="json")
    report = simulate(problem, plan)
    try:
        height = oracle.cost(plain, plan.to_json())
    except Refused:
        assert violation(problem, plan) is not None
        assert report.violation is not None
        return
    assert violation(problem, plan) is None
    assert report.violation is None
    assert objective(problem, plan) == height


@settings(max_examples=examples(100))
@given(randoms)
def test_the_exact_search_finds_what_all_orders_give(random: Random) -> None:
    problem = problem_at_random(random)
    best = oracle.best(problem.model_dump(mode="json"))
    outcome = canonical.solve(problem, RunContext())
    if best is None:
        assert outcome.status == "infeasible"
        return
    assert (outcome.status, outcome.bound, objective(problem, outcome.plan)) == ("optimal", best, best)


@settings(max_examples=examples(100))
@given(randoms)
def test_all_orders_give_what_all_offsets_give(random: Random) -> None:
    """The oracle's own premise: it puts each buffer as low as those before it allow."""
    plain = problem_at_random(random).model_dump(mode="json")
    count, unit = len(plain["buffers"]), plain["memory"]["alignment"]
    least = oracle.best(plain | {"memory": {"alignment": unit, "capacity": None}})
    assert least is not None
    assume((least // unit + 1) ** count <= 20_000)
    heights = []
    for places in product(range(0, least, unit), repeat=count):
        try:
            heights.append(oracle.cost(plain, {"offsets": places}))
        except Refused:
            continue
    assert min(heights, default=None) == oracle.best(plain)
