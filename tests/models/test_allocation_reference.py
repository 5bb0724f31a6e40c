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
from tilewright.allocation.exact.search import exhaustive
from tilewright.core import catalogue

REFERENCE = catalogue.model("allocation", "reference")


def agree(problem: AllocationProblem) -> None:
    """Hold the model to the search: the same optimum, or both find that there is none."""
    need("gecode")
    found, outcome = exhaustive(problem), solve(problem, REFERENCE, "gecode")
    if found is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    if found.proven:
        assert (outcome.status, outcome.bound) == ("optimal", found.value)
    elif outcome.status == "optimal":  # where rows are divided and buffers limited, the search may stop
        assert found.bound <= outcome.bound <= (found.value or outcome.bound)
    else:
        assert (outcome.status, found.plans) == ("infeasible", ())
        return
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound


@settings(max_examples=examples(300))
@given(randoms)
def test_reference_agrees_with_the_search(random: Random) -> None:
    agree(pipeline(random, wide=4))


@settings(max_examples=examples(200))
@given(randoms)
def test_reference_agrees_with_the_search_where_buffers_are_limited(random: Random) -> None:
    agree(pipeline(random, buffers=True))
