"""Widths, costs, optima and measurements beside an oracle that shares nothing with the package."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from bits_at_random import differences, executed_at_random, table_at_random, thesis_problem
from conftest import examples
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import Refused, TooLarge
from tests.oracles import bitwidth as oracle

from tilewright.bitwidth import Plan, Problem, costs, violation
from tilewright.core.context import RunContext
from tilewright.models.bitwidth import merging
from tilewright.spec.errors import InputError


@pytest.mark.parametrize(
    ("bound", "bits"), [("worst_case", 7), ("absolute_weights", 11), ("output_range", 14)]
)
def test_the_oracle_has_the_figures_of_the_thesis(bound: str, bits: int) -> None:
    """Section 4.4: what inputs and weights of 800 products may have together in 16 bits."""
    problem = thesis_problem(bound).model_dump(mode="json")
    assert oracle.most_bits(problem, oracle.weighted(problem)[0]) == bits
    assert oracle.front_bits(3.5324) == 2  # equation 4.6
    assert oracle.holding(16, 3.5324) == (16, 13)


@pytest.mark.nightly
@settings(max_examples=examples(100))
@given(randoms)
def test_the_exact_search_finds_what_enumeration_finds(random: Random) -> None:
    table = table_at_random(random)
    try:
        problem = Problem(**table)
    except InputError as error:
        assert error.field == "machine.accumulator_bits"
        plain = Problem(**table | {"machine": {"accumulator_bits": 40}}).model_dump(mode="json")
        plain["machine"] |= {"widths": None} | table["machine"]
        assert not all(oracle.candidates(plain, layer) for layer in oracle.weighted(plain))
        return
    plain = problem.model_dump(mode="json")
    try:
        best = oracle.best(plain)
    except TooLarge:
        assume(False)
    outcome = merging.solve(problem, RunContext())
    if best is None:
        assert outcome.status == "infeasible"
        return
    assert oracle.cost(plain, outcome.plan.to_json()) == best
    assert outcome.bound == (best[0][0] if isinstance(best, list) else best)


@settings(max_examples=examples(100))
@given(randoms)
def test_a_plan_is_valid_and_costs_what_the_docs_say(random: Random) -> None:
    """Also widths of which some are not possible."""
    table = table_at_random(random)
    table["objective"] = {"minimise": random.choice(["noise", "bits"])}
    try:
        problem = Problem(**table)
    except InputError:
        assume(False)
    plain = problem.model_dump(mode="json")
    some = [random.choice([*oracle.candidates(plain, layer), (4, 5)]) for layer in oracle.weighted(plain)]
    plan = Plan(tuple(layer["name"] for layer in oracle.weighted(plain)), tuple(some))
    try:
        expected = oracle.cost(plain, plan.to_json())
    except Refused:
        assert violation(problem, plan) is not None
        return
    assert violation(problem, plan) is None
    assert costs(problem, plan)[problem.minimise == "bits"] == expected


@settings(max_examples=examples(100))
@given(randoms)
def test_a_measurement_is_that_of_plain_integers(random: Random) -> None:
    """Signal, noise, overflows and their places, and all values that saturate."""
    with tempfile.TemporaryDirectory() as folder:
        assert differences(*executed_at_random(random, Path(folder))) == []
