"""The reference model, the search and an enumeration agree: small layers, all objectives and limits."""

from __future__ import annotations

from random import Random
from typing import Any

from conftest import examples, make_problem
from formulations import need, solve
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import TooLarge, grouping

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.room import bridge_of
from tilewright.grouping import Problem, objective, violation
from tilewright.models.grouping import exact
from tilewright.spec.errors import InputError

REFERENCE = catalogue.model("grouping", "reference")


def problem_at_random(random: Random) -> Problem | None:
    """Return a layer of two to eight patches with every key now and then; None where there is none."""
    kernel, dilation = [random.randint(1, 3), random.randint(1, 2)], [1, random.choice([1, 1, 2])]
    stride = [random.choice([1, 1, 2]), random.choice([1, 1, 2])]
    padding = [random.choice([0, 0, 1]) for _ in range(4)]
    layer: dict[str, Any] = {
        "input": [random.randint(1, 3), random.randint(1, 6), random.randint(1, 6)],
        "kernels": random.randint(1, 3),
        "kernel": kernel,
        "dilation": dilation,
        "stride": stride,
        "padding": padding,
        "batch": random.choice([1, 1, 2]),
    }
    machine: dict[str, Any] = {
        "group_size": random.randint(1, 4),
        "load": random.choice([0, 1, 3]),
        "write": random.randint(0, 2),
        "compute": random.choice([0, 1, 5, 40]),
        "kernels": random.choice(["preloaded", "step1"]),
        "padding": random.choice(["loaded", "generated"]),
        "outputs": random.choice(["each_step", "kept"]),
    }
    if random.random() < 0.4:
        machine["memory"] = random.randint(4, 80)
    limits = {
        "steps": random.choice(["free", "kmin", random.randint(1, 8)]),
        "reloads": random.choice([0, 1, 2, 2]),
    }
    asked = {
        "minimise": random.choice(["loads", "duration"]),
        "count": random.choice(["elements", "pixels"]),
    }
    try:
        problem = make_problem(layer, machine, limits, asked)
    except InputError:
        return None
    return problem if 2 <= problem.n_patches <= 8 else None


@settings(max_examples=examples(1000, 6), deadline=None)
@given(randoms)
def test_the_reference_model_the_search_and_an_enumeration_agree(random: Random) -> None:
    need("gecode")
    problem = problem_at_random(random)
    assume(problem is not None)
    assert problem is not None
    try:
        expected = grouping.best(problem.model_dump(mode="json"))
    except TooLarge:
        assume(False)
    outcomes = [solve(problem, REFERENCE, "gecode")]
    if exact.suits(problem):
        outcomes.append(exact.solve(problem, RunContext()))
    for found in outcomes:
        if expected is None:
            assert (found.status, found.plan) == ("infeasible", None)
            continue
        assert (found.status, found.bound) == ("optimal", expected)
        assert violation(problem, found.plan) is None
        assert objective(problem, found.plan) == expected


def test_large_layers_are_left_to_the_search() -> None:
    suits = bridge_of(make_problem(), REFERENCE).suits
    assert suits(make_problem(), REFERENCE)
    assert not suits(make_problem({"input": [1, 12, 12]}), REFERENCE)
    assert not suits(
        make_problem(machine={"group_size": 2, "load": 1_000_000}, layer={"input": [100, 5, 5]}), REFERENCE
    )
