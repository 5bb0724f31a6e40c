"""The reference model says what the room's search says: of random problems with every objective and limit."""

from __future__ import annotations

from random import Random

from bits_at_random import table_at_random, thesis_problem
from conftest import examples
from formulations import need, solve
from hypothesis import assume, given, settings
from numbered import randoms

from tilewright.bitwidth import Problem, objective, violation
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.room import bridge_of
from tilewright.models.bitwidth import merging
from tilewright.spec.errors import InputError

REFERENCE = catalogue.model("bitwidth", "reference")


@settings(max_examples=examples(1000, 6), deadline=None)
@given(randoms)
def test_the_reference_model_and_the_search_agree(random: Random) -> None:
    need("gecode")
    table = table_at_random(random)
    table["objective"] = {"minimise": random.choice(["noise", "bits"])}
    try:
        problem = Problem(**table)
    except InputError:
        assume(False)
        raise
    assume(bridge_of(problem, REFERENCE).suits(problem, REFERENCE))
    found, expected = solve(problem, REFERENCE, "gecode"), merging.solve(problem, RunContext())
    assert (found.status, found.bound) == (expected.status, expected.bound)
    if expected.plan is not None:
        assert violation(problem, found.plan) is None
        assert objective(problem, found.plan) == expected.bound


def test_fronts_and_sums_beyond_what_gecode_counts_are_refused() -> None:
    problem = thesis_problem("output_range")
    suits = bridge_of(problem, REFERENCE).suits
    assert suits(problem, REFERENCE)
    assert not suits(problem.with_(objective={"minimise": "pareto"}), REFERENCE)
    layer = {"name": "conv2", "input": [8192, 1024, 1024], "kernels": 64, "kernel": [5, 5]}
    large = problem.with_(network={"layers": [layer]}, objective={"minimise": "bits"})
    assert suits(problem.with_(network={"layers": [layer]}), REFERENCE)
    assert not suits(large, REFERENCE)
    assert not suits(problem.with_(network={"layers": [layer]}).where("moved_bits % 2 == 0"), REFERENCE)
