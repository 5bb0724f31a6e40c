"""The reference model of pipelines, on small random problems, against the room's own search."""

from __future__ import annotations

from random import Random

from allocation.pipelines_at_random import pipeline
from conftest import examples
from formulations import need, solve
from hypothesis import given, settings
from numbered import randoms

from tilewright import AllocationProblem
from tilewright.allocation import objective, violation
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric

REFERENCE = catalogue.model("allocation", "reference")


def agree(problem: AllocationProblem) -> None:
    """Hold the model to the search: the same optimum, or both find that there is none."""
    need("gecode")
    found, outcome = parametric.solve(problem, RunContext()), solve(problem, REFERENCE, "gecode")
    assert found.status == outcome.status
    if found.status == "infeasible":
        return
    assert outcome.status == "optimal"
    assert objective(problem, found.plan) == found.bound == outcome.bound
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound


@settings(max_examples=examples(300, 15))
@given(randoms)
def test_reference_agrees_with_the_search(random: Random) -> None:
    agree(pipeline(random, wide=4))


@settings(max_examples=examples(200, 10))
@given(randoms)
def test_reference_agrees_with_the_search_where_buffers_are_limited(random: Random) -> None:
    agree(pipeline(random, buffers=True))


@settings(max_examples=examples(200, 6))
@given(randoms)
def test_reference_agrees_on_energy(random: Random) -> None:
    agree(pipeline(random, buffers=random.random() < 0.3, goals=("energy",)))
