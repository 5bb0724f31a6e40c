"""Which PEs are to be placed: found in limited time, and nothing is claimed where that was not enough."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tilewright.allocation import Plan, Problem, best_bound, simulate
from tilewright.allocation.evaluation import violation
from tilewright.allocation.exact.search import AllocationAnswer, exhaustive
from tilewright.allocation.placement import unplaced
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place, unplaced_plan
from tilewright.allocation.schedule import schedule
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import read
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError, OutOfTimeError

PLACED = ("mnist-tcpa-placed", "vgg16-32x32-placed")


def table(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read(name).problem.model_dump()
    return found


def hard() -> Problem:
    """Return a network to be placed whose buffers are as small as one split for each layer needs.

    Few plans fit, and the exact search takes much longer than anybody waits.
    """
    network = table("mobilenetv2-16x16") | {"objective": {"minimise": "distance"}}
    storage = schedule(Problem.model_validate(network), some_plan(Problem.model_validate(network))).storage
    network["machine"]["buffer_bytes"] = storage
    return Problem.model_validate(network)


def some_plan(problem: Problem) -> Plan:
    """Return a plan of one PE for each layer, which needs small buffers."""
    splits = tuple(problem.splits_of(stage)[0] for stage in problem.stages)
    return Plan(tuple(stage.name for stage in problem.stages), splits, "uniform")


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Forget all answers, and return the seconds that each search from now on is given."""
    given: list[float] = []

    def watched(problem: Problem, deadline: float = float("inf")) -> AllocationAnswer | None:
        given.append(deadline - time.monotonic())
        return exhaustive(problem, deadline)

    monkeypatch.setattr(unplaced, "exhaustive", watched)
    monkeypatch.setattr(unplaced, "_answers", {})
    monkeypatch.setattr(unplaced, "_in_vain", {})
    return given


def test_what_leaves_the_array_is_on_the_border() -> None:
    """Outputs that are read, and what a layer elsewhere reads, leave as the last layer's output does."""
    layers: list[dict[str, Any]] = [
        {"name": name, "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]} for name in "abcd"
    ]
    layers += [
        {"name": "fc", "kind": "fc", "inputs": ["b"], "input": [4, 1, 1], "kernel": [1, 1], "kernels": 2}
    ]
    machine = {"array": [3, 3], "functional_units": 1, "clock_mhz": 50}

    def border(**outputs: Any) -> tuple[int, ...]:
        tables = {"network": {"layers": layers, **outputs}, "machine": machine}
        problem = Problem.model_validate(tables | {"objective": {"minimise": "distance"}})
        plan = unplaced_plan(problem)
        assert plan is not None
        return floor_of(problem, plan).border

    assert border() == (0, 1, 3)
    assert border(outputs=["c", "d", "fc"]) == (0, 1, 2, 3)


@pytest.mark.parametrize("name", PLACED)
def test_they_are_those_of_the_least_interval(name: str, deadlines: list[float]) -> None:
    problem = read(name).problem
    best = exhaustive(Problem.model_validate(table(name) | {"objective": {"minimise": "interval"}}))
    assert best is not None and best.proven and not best.cut_short
    assert unplaced_plan(problem) == best.plans[0]
    assert unplaced_plan(problem) == best.plans[0]
    assert len(deadlines) == 1


@pytest.mark.nightly
def test_no_search_is_unlimited_and_none_is_repeated(deadlines: list[float]) -> None:
    problem = hard()
    bound, searches = best_bound(problem), len(deadlines)
    assert (bound.value, bound.impossible) == (0, None)
    for judge in (violation, simulate):
        with pytest.raises(InputError, match=r"limits.pes .* is not known"):
            judge(problem, some_plan(problem))
    with pytest.raises(InputError, match="not known"):
        catalogue.heuristic("allocation", "snake").plan(problem)
    assert len(deadlines) == searches > 0
    assert max(deadlines) <= unplaced.SECONDS


def test_a_deadline_is_passed_on(deadlines: list[float]) -> None:
    problem, plan = hard(), some_plan(hard())
    until = time.monotonic() + 0.3
    with pytest.raises(OutOfTimeError):
        violation(problem, plan, until)
    with pytest.raises(OutOfTimeError):
        simulate(problem, plan, deadline=until)
    with pytest.raises(InputError, match="not known"):
        pes_to_place(problem, until)
    with pytest.raises(InputError, match="not known"):
        catalogue.heuristic("allocation", "wander").plan(problem, RunContext(deadline=until))
    assert len(deadlines) == 1
    assert deadlines[0] <= 0.3


def test_more_time_may_help(deadlines: list[float]) -> None:
    problem = read("vgg16-32x32-placed").problem
    with pytest.raises(OutOfTimeError):
        unplaced_plan(problem, time.monotonic())
    assert unplaced_plan(problem) is not None


def test_solve_keeps_its_time_limit() -> None:
    begin = time.monotonic()
    result = solve(hard(), time_limit=3)
    assert time.monotonic() - begin < 30  # it took minutes
    assert (result.status, result.plan) == ("unknown", None)


def test_where_there_is_no_plan_nothing_is_placed() -> None:
    tables = table("mnist-tcpa-placed")
    tables["objective"]["frames_per_second"] = 1181
    tables["limits"]["pes"] = {}
    problem = Problem.model_validate(tables)
    assert best_bound(problem).impossible is not None
    assert unplaced_plan(problem) is None
    with pytest.raises(InputError, match="no plan is known"):
        pes_to_place(problem)
