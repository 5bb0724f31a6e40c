"""Validity, costs and optima beside an oracle that shares nothing with the package."""

from __future__ import annotations

from random import Random

import pytest
from conftest import examples
from hypothesis import assume, given, settings
from numbered import randoms
from tests.fuzz.campaigns.grouping_problems import table_at_random
from tests.oracles import Refused, TooLarge
from tests.oracles import grouping as oracle

from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem, measured_objective, objective, simulate, violation
from tilewright.models.grouping import exact
from tilewright.spec.errors import InputError


def problem_at_random(random: Random) -> Problem:
    """Return a problem; some tables allow none."""
    try:
        return Problem(**table_at_random(random))
    except InputError:
        assume(False)
        raise


def plan_at_random(random: Random, problem: Problem) -> Plan:
    """Return a plan that keeps the rules, or breaks one: groups, memory, reloads, when results leave."""
    patches = list(problem.patches())
    if random.random() < 0.5:
        random.shuffle(patches)
    most = problem.group_size + (random.random() < 0.1)
    groups = []
    while patches:
        size = random.choice([most, random.randint(1, most)])
        groups.append(tuple(patches[:size]))
        patches = patches[size:]
    if random.random() < 0.05:
        groups[0] = groups[-1]
    writes = None
    if random.random() < 0.5:
        latest = random.choice([1, 2, len(groups)])
        least = random.choice([0, 1, 1, 1, 1, 1])
        writes = tuple(min(len(groups), step + random.randint(least, latest)) for step in range(len(groups)))
    return Plan(tuple(groups), writes)


@settings(max_examples=examples(300))
@given(randoms)
def test_a_plan_is_valid_and_costs_what_the_docs_say(random: Random) -> None:
    problem = problem_at_random(random)
    plan = plan_at_random(random, problem)
    report = simulate(problem, plan)
    try:
        expected = oracle.cost(problem.model_dump(mode="json"), plan.to_json())
    except Refused:
        assert violation(problem, plan) is not None
        assert report.violation is not None
        return
    assert violation(problem, plan) is None
    assert report.violation is None
    assert objective(problem, plan) == measured_objective(problem, report) == expected


@settings(max_examples=examples(100))
@given(randoms)
def test_the_exact_search_finds_what_all_orders_of_all_groups_give(random: Random) -> None:
    problem = problem_at_random(random)
    plain = problem.model_dump(mode="json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "MOST_MOVES", 20_000)  # the campaign looks at more
        try:
            best = oracle.best(plain)
        except TooLarge:
            assume(False)
    assume(exact.suits(problem))
    outcome = exact.solve(problem, RunContext())
    if best is None:
        assert outcome.status == "infeasible"
    elif outcome.status == "optimal":
        assert (outcome.bound, oracle.cost(plain, outcome.plan.to_json())) == (best, best)
    else:
        assert oracle.may_stop(plain, "exact")
        assert outcome.bound is None or outcome.bound <= best
