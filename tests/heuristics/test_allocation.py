"""Every allocation heuristic on random small networks, and on the paper's own."""

from __future__ import annotations

import time
from typing import Any

import pytest
from allocation.pipelines_at_random import networks
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.allocation import Plan, Problem, measured_objective, objective, simulate, violation
from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.placement.hop_bound import lower_bound
from tilewright.allocation.placement.unplaced import floor_of, unplaced_plan
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import read
from tilewright.spec.errors import InputError

NAMES = [
    name
    for name in catalogue.heuristics("allocation")
    if not catalogue.searches(catalogue.heuristic("allocation", name))
]


@st.composite
def problems(draw: st.DrawFn, minimise: tuple[str, ...] = ("interval", "pes", "latency")) -> Problem:
    """Draw networks and arrays with few PEs for each layer, of all executions, splits, scans and rates."""
    goal = draw(st.sampled_from(minimise))
    splits = [["filters"], ["maps"], ["filters", "maps"]]
    limits: dict[str, Any] = {
        "execution": draw(st.sampled_from(["layer-parallel", "layer-by-layer"])),
        "splits": draw(st.sampled_from(splits)),
        "functional_units": draw(st.sampled_from(["maps", "any"])),
        "scan": draw(st.sampled_from(["rows", "fields"])),
    }
    if goal != "latency" and limits["scan"] == "rows" and draw(st.booleans()):
        limits["splits"] = ["filters", "rows"]
    objective: dict[str, Any] = {"minimise": goal}
    if goal == "pes" or draw(st.booleans()):
        objective["frames_per_second"] = 1e6 / draw(st.sampled_from([50, 200, 1000, 5000]))
    table = {
        "network": draw(networks()),
        "machine": {
            "array": [draw(st.integers(1, 3)), draw(st.integers(5, 8))],
            "functional_units": draw(st.integers(1, 3)),
            "clock_mhz": 1,
        },
        "objective": objective,
        "limits": limits,
    }
    try:
        return Problem.model_validate(table)
    except InputError:
        assume(False)
        raise


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(100))
@given(problem=problems())
def test_plans_are_valid_and_never_better_than_the_optimum(name: str, problem: Problem) -> None:
    heuristic = catalogue.heuristic("allocation", name)
    if not heuristic.suits(problem):
        return
    plan = heuristic.plan(problem)
    assert heuristic.plan(problem) == plan
    best = exhaustive(problem)
    if best is None:
        assert violation(problem, plan) is not None
        return
    assert violation(problem, plan) is None
    assert best.value is not None
    assert objective(problem, plan) >= best.value
    assert Plan.from_json(plan.to_json()) == plan
    report = simulate(problem, plan)
    assert report.violation is None
    assert measured_objective(problem, report) == objective(problem, plan)


@settings(max_examples=examples(100))
@given(problem=problems())
def test_greedy_is_best_where_bottlenecks_decide(problem: Problem) -> None:
    """Only more PEs for the slowest layer shorten the interval; latency is another matter."""
    greedy, best = catalogue.heuristic("allocation", "greedy"), exhaustive(problem)
    if greedy.suits(problem) and problem.minimise != "latency" and best is not None:
        assert objective(problem, greedy.plan(problem)) == best.value


@settings(max_examples=examples(30))
@given(problem=problems(minimise=("distance",)), seed=st.integers(0, 9))
def test_placements_are_valid_and_get_better(problem: Problem, seed: int) -> None:
    """Where there is a plan, and the path reaches the border with all layers that must."""
    snake, wander = (catalogue.heuristic("allocation", name) for name in ("snake", "wander"))
    assert snake.suits(problem) and wander.suits(problem)
    if unplaced_plan(problem) is None:
        return  # no PEs keep the limits, so there is nothing to place
    start, found = snake.plan(problem), []
    if violation(problem, start) is not None:
        return
    search = RunContext(start=start, seed=seed, deadline=time.monotonic() + 0.05, on_plan=found.append)
    assert wander.plan(problem, search) == [start, *found][-1]
    assert all(violation(problem, plan) is None for plan in found)
    hops = [objective(problem, plan) for plan in [start, *found]]
    assert hops == sorted(set(hops), reverse=True)
    assert hops[-1] >= lower_bound(floor_of(problem, start))


def test_wander_stops_at_a_bound() -> None:
    problem = read("mnist-tcpa-placed").problem
    wander = catalogue.heuristic("allocation", "wander")
    search = RunContext(deadline=time.monotonic() + 600, bound=19)
    assert objective(problem, wander.plan(problem, search)) == 19
    assert search.remaining() > 300


def test_the_catalogue_finds_them() -> None:
    assert set(catalogue.heuristics("allocation")) >= {"greedy", "paper", "snake", "wander"}


def test_paper_is_as_published() -> None:
    """Sections 6 and 7; layers that take turns have all PEs, as far as these make a difference."""
    paper = catalogue.heuristic("allocation", "paper")

    def numbers(name: str) -> list[int]:
        return [split.pes for split in paper.plan(read(name).problem).splits]

    assert numbers("mnist-tcpa") == numbers("mnist-tcpa-latency") == [4, 1, 8, 1, 2]
    assert numbers("mnist-tcpa-100fps") == [1, 1, 2, 1, 1]
    turns = read("mnist-tcpa").problem.model_dump() | {"limits": {"execution": "layer-by-layer"}}
    found = paper.plan(Problem.model_validate(turns))
    assert [split.pes for split in found.splits] == [12, 1, 12, 1, 16]


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", ["mobilenetv2-16x16", "vgg16-16x16", "resnet50-32x32"])
@pytest.mark.parametrize("minimise", ["interval", "latency"])
def test_close_to_the_optimum_of_networks(name: str, minimise: str) -> None:
    tables = read(name).problem.model_dump()
    problem = Problem.model_validate({**tables, "objective": {"minimise": minimise}})
    best = exhaustive(problem)
    assert best is not None
    assert best.value is not None
    for heuristic, most in (("greedy", 1.001), ("paper", 1.01)):
        plan = catalogue.heuristic("allocation", heuristic).plan(problem)
        assert violation(problem, plan) is None
        assert objective(problem, plan) <= most * best.value


def test_waits_where_buffers_are_small() -> None:
    tables = read("mnist-tcpa").problem.model_dump()
    tables["machine"]["buffer_bytes"] = 11_352
    problem = Problem.model_validate(tables)
    for name in ("paper", "greedy"):
        plan = catalogue.heuristic("allocation", name).plan(problem)
        assert plan.pacing == "uniform"
        assert violation(problem, plan) is None
