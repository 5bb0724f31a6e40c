"""The reference model of pipelines, on small random problems, against the room's own search."""

from __future__ import annotations

import sys
from random import Random

import pytest
from allocation.pipelines_at_random import GOALS, loads_of_plans, pipeline, with_border
from conftest import examples
from formulations import need, solve
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles.allocation import Pipeline
from tests.oracles.pipeline_traffic import Border

from tilewright import AllocationProblem
from tilewright.allocation import objective, violation
from tilewright.allocation.off_chip import spillable, streamable
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


@settings(max_examples=examples(400, 7))
@given(randoms)
def test_reference_agrees_with_the_search(random: Random) -> None:
    agree(pipeline(random, wide=4))


@settings(max_examples=examples(200, 5))
@given(randoms)
def test_reference_agrees_with_the_search_where_buffers_are_limited(random: Random) -> None:
    agree(pipeline(random, buffers=True))


@settings(max_examples=examples(300, 6))
@given(randoms)
def test_reference_agrees_where_layers_wait_for_the_host(random: Random) -> None:
    agree(pipeline(random, host=True, buffers=random.random() < 0.3, goals=(*GOALS, "latency", "energy")))


@settings(max_examples=examples(200, 6))
@given(randoms)
def test_reference_agrees_on_energy(random: Random) -> None:
    agree(pipeline(random, buffers=random.random() < 0.3, goals=("energy",)))


@pytest.mark.parametrize("execution", ["layer-by-layer", "layer-parallel"])
@settings(max_examples=examples(300, 5))
@given(random=randoms)
def test_reference_agrees_on_what_stays_on_chip(random: Random, execution: str) -> None:
    agree(with_border(random, (execution,)))


@settings(max_examples=examples(200, 5))
@given(randoms)
def test_reference_counts_what_a_walk_does(random: Random) -> None:
    """What is streamed and spilled is given, and the bytes of a frame: the rest is what a walk finds."""
    need("gecode")
    asked = with_border(random)
    oracle = Pipeline(asked.model_dump(mode="json"))
    assume(len(asked.stages) == len(oracle.layers))
    streamed, spilled = (
        {name for name in names if random.random() < 0.4} for names in (streamable(asked), spillable(asked))
    )
    walks = [Border(oracle).measured(list(loads), streamed, spilled) for loads in loads_of_plans(oracle)]
    moved = walks[0][1]
    said = [f"{'not ' * (name in streamed)}weights_stay('{name}')" for name in streamable(asked)]
    said += [f"{'not ' * (name not in spilled)}spilled('{name}')" for name in spillable(asked)]
    outcome = solve(asked.where(*said, f"off_chip_bytes == {moved}"), REFERENCE, "gecode")
    words, most = oracle.words or sys.maxsize, oracle.most or sys.maxsize
    kept = [interval for interval, _, needed in walks if needed <= words and interval <= most]
    assert outcome.status == ("optimal" if kept else "infeasible")
    if kept:
        assert outcome.bound == min(kept)
        assert (set(outcome.plan.streamed), set(outcome.plan.spilled)) == (streamed, spilled)
