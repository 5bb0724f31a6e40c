"""Every fusion heuristic and the room's own exact search, on random small networks."""

from __future__ import annotations

import time
from typing import Any

import pytest
from allocation.pipelines_at_random import networks
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.fusion import Plan, Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.fusion.bounds import too_large_alone
from tilewright.fusion.selection.candidates import candidates

NAMES = ["layerwise", "greedy", "dnnvm"]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw networks, and accelerators whose buffers hold a tile of each operation, and some maps."""
    table: dict[str, Any] = {
        "network": draw(networks()),
        "machine": {
            "conv_array": [draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 2))],
            "clock_mhz": 100,
            "input_bytes": draw(st.integers(30, 600)),
            "output_bytes": draw(st.integers(30, 600)),
            "parameter_bytes": draw(st.integers(30, 600)),
            "load_mb_per_s": draw(st.integers(50, 400)),
            "save_mb_per_s": draw(st.integers(50, 400)),
            "operands_per_cycle": draw(st.integers(1, 4)),
            "issue_cycles": draw(st.integers(0, 20)),
            "energy": {"pj_per_dram_byte": 1000, "pj_per_mac": 10, "milliwatts": 500},
        },
        "objective": {"minimise": draw(st.sampled_from(["cycles", "traffic", "energy"]))},
    }
    problem = Problem.model_validate(table)
    assume(not too_large_alone(problem))
    return problem


def solve(problem: Problem, **search: Any) -> tuple[Any, list[int], list[int]]:
    """Return the outcome of the exact search, and the costs and bounds that it told."""
    plans: list[Plan] = []
    bounds: list[int] = []
    given = RunContext(on_plan=plans.append, on_bound=lambda bound, *_: bounds.append(bound), **search)
    outcome = catalogue.formulation("fusion", "downsets").solve(problem, given)
    return outcome, [objective(problem, plan) for plan in plans], bounds


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(50))
@given(problem=problems())
def test_plans_are_valid_and_never_better_than_the_optimum(name: str, problem: Problem) -> None:
    heuristic = catalogue.heuristic("fusion", name)
    plan = heuristic.plan(problem)
    assert heuristic.plan(problem) == plan
    assert violation(problem, plan) is None
    assert Plan.from_json(plan.to_json()) == plan
    best = solve(problem)[0].bound
    assert best_bound(problem).value <= best <= objective(problem, plan)
    report = simulate(problem, plan)
    assert report.violation is None
    assert measured_objective(problem, report) == objective(problem, plan)


@settings(max_examples=examples(50))
@given(problem=problems())
def test_the_exact_search_proves_its_plan(problem: Problem) -> None:
    outcome, costs, bounds = solve(problem)
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert costs == sorted(set(costs), reverse=True)
    assert bounds == sorted(set(bounds))
    assert objective(problem, outcome.plan) == outcome.bound == costs[-1] == bounds[-1]
    again, costs, _ = solve(problem, start=outcome.plan)
    assert (again.status, again.plan, costs[-1]) == ("optimal", outcome.plan, outcome.bound)


def test_layerwise_fuses_nothing() -> None:
    problem = squeezing()
    plan = catalogue.heuristic("fusion", "layerwise").plan(problem)
    assert [group.nodes for group in plan.groups] == [(op.name,) for op in problem.ops]


def test_out_of_time_there_is_a_plan() -> None:
    problem = squeezing()
    candidates(problem)
    outcome, costs, _ = solve(problem, deadline=time.monotonic())
    assert violation(problem, outcome.plan) is None
    assert outcome.bound <= costs[-1] == objective(problem, outcome.plan)


def squeezing() -> Problem:
    """Return a network of one convolution that two others read, whose outputs are pooled together."""
    conv = {"kind": "conv", "kernel": [1, 1], "kernels": 4}
    layers = [
        conv | {"name": "squeeze", "input": [8, 8, 8], "inputs": ["input"]},
        conv | {"name": "narrow", "input": [4, 8, 8], "inputs": ["squeeze"]},
        conv
        | {
            "name": "wide",
            "input": [4, 8, 8],
            "kernel": [3, 3],
            "padding": [1, 1, 1, 1],
            "inputs": ["squeeze"],
        },
        {
            "name": "pool",
            "kind": "pool",
            "op": "max",
            "input": [8, 8, 8],
            "kernel": [2, 2],
            "stride": [2, 2],
            "inputs": ["narrow", "wide"],
        },
    ]
    machine = {
        "conv_array": [4, 4, 2],
        "clock_mhz": 100,
        "input_bytes": 512,
        "output_bytes": 512,
        "parameter_bytes": 1024,
        "load_mb_per_s": 100,
        "save_mb_per_s": 100,
        "operands_per_cycle": 4,
    }
    return Problem.model_validate({"network": {"layers": layers}, "machine": machine})


def test_the_catalogue_finds_them() -> None:
    assert set(catalogue.heuristics("fusion")) >= set(NAMES)
    assert "downsets" in catalogue.exact_methods("fusion")
