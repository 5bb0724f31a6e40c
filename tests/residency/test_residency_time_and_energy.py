"""Time and energy of residency: by hand, in the simulator, and on the way to the least memory."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import NEVER, ignore, random_problem, survives
from tests.fuzz.campaigns import residency_problems

from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, Step, best_bound, objective, simulate, violation
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.time_and_energy import search_one_objective
from tilewright.residency.exact.traffic import Answer
from tilewright.run.machines import with_own_machine
from tilewright.spec.errors import InputError


def timed_problem(rng: random.Random, most: int, **objective: Any) -> Problem:
    """Return a problem on a machine with random rates and prices."""
    return random_problem(rng, most, machine=residency_problems.rates(rng), objective=objective)


def solved(problem: Problem) -> Answer:
    """Return what the search finds, given all the time that it takes."""
    return search_one_objective(problem, NEVER, ignore, ignore)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("seed", range(examples(30)))
def test_less_memory_takes_longer(seed: int) -> None:
    """The least memory for a number of cycles is where they begin to be enough."""
    rng = random.Random(2_000 + seed)
    problem = timed_problem(rng, 3, minimise="cycles")
    wanted = solved(problem).bound + rng.randint(0, 5)
    small = problem.with_(objective={"minimise": "memory", "most_cycles": wanted})
    answer = solved(small)
    least = problem.least_memory

    def enough(memory: int) -> bool:
        if memory < least:
            return False
        return solved(problem.with_(machine={"memory_bytes": memory})).bound <= wanted

    assert enough(answer.bound) and (answer.bound == least or not enough(answer.bound - 1))
    if answer.plan is not None:
        survives(small, answer.plan)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(examples(64)))
def test_plans_of_larger_networks_survive(seed: int) -> None:
    rng = random.Random(3_000 + seed)
    problem = timed_problem(rng, 6, minimise=rng.choice(["cycles", "energy"]))
    answer = solved(problem)
    survives(problem, answer.plan)
    for name in catalogue.heuristics("residency"):
        plan = catalogue.heuristic("residency", name).plan(problem)
        survives(problem, plan)
        assert objective(problem, plan) >= answer.bound >= best_bound(problem).value


def test_a_limit_that_nothing_keeps_is_impossible() -> None:
    problem = timed_problem(random.Random(1), 2, minimise="memory", most_cycles=1)
    assert "objective.most_cycles allows 1" in (best_bound(problem).impossible or "")
    assert solved(problem).impossible


def test_second_buffers_are_counted_by_hand() -> None:
    """A pass of a row: 4 rows of 6 pixels are loaded, 2 rows of 4 pixels computed with 9 MACs and written."""
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}
    machine = {"memory_bytes": 100, "bus_elements_per_cycle": 1, "macs_per_cycle": 3, "dma_setup_cycles": 5}
    problem = Problem.model_validate(
        {"network": {"layers": [layer]}, "machine": {**machine, "double_buffering": True}}
    ).with_(objective={"minimise": "cycles"})
    step = Step(("a",), pixels=4, kept=("a",), written=("a",), double_buffering=True)
    addresses = {"lines of input": 0, "weights of a": 24, "block of a": 33}
    plan = Plan((replace(step, addresses=addresses),))
    # Set up of 3 transfers; weights; 3 rows; 12 cycles of computing beside a row; 12 beside outputs; outputs.
    assert objective(problem, plan) == 3 * 5 + 9 + 18 + 12 + 12 + 4
    survives(problem, plan)
    single = Plan((replace(replace(step, addresses=addresses), double_buffering=False),))
    assert objective(problem, single) == 3 * 5 + 9 + 24 + 24 + 8
    too_near = Plan((replace(step, addresses={**addresses, "block of a": 25}),))
    assert "overlap" in (violation(problem, too_near) or "")
    assert simulate(problem, too_near, numeric=True).violation is not None


@pytest.mark.parametrize("order", ["pixels", "kernels"])
def test_rates_without_common_factors_are_counted_exactly(order: str) -> None:
    """Parts of a cycle of which there are more than 64 bits can count."""
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 2, "kernel": [3, 3]}
    rates = {"bus_elements_per_cycle": 999_983, "macs_per_cycle": 999_979, "vector_ops_per_cycle": 999_961}
    machine = {"memory_bytes": 200, "dma_setup_cycles": 1_000_000, "double_buffering": True, **rates}
    problem = Problem.model_validate({"network": {"layers": [layer]}, "machine": machine}).with_(
        objective={"minimise": "cycles"}
    )
    kept = ("a",) if order == "pixels" else ()
    step = Step(("a",), order, pixels=4, kept=kept, written=("a",), double_buffering=True)
    plan = Plan((replace(step, addresses={"lines of input": 0, "weights of a": 50, "block of a": 100}),))
    survives(problem, plan)
    (told,) = decode_plan(problem, plan)
    assert objective(problem, plan) == 3 * 1_000_000 + 1
    assert told.spent.time > 2**64


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pixels": 3}, "double buffering .. step 1 .. whole rows"),
        ({"kept": ()}, "double buffering .. step 1 .. weights"),
        ({"columns": 2, "pixels": 2}, "double buffering .. step 1 .. strips"),
    ],
)
def test_what_cannot_have_second_buffers_is_said(changes: dict[str, Any], told: str) -> None:
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}
    machine = {"memory_bytes": 100, "double_buffering": True}
    problem = Problem.model_validate({"network": {"layers": [layer]}, "machine": machine})
    step = Step(("a",), pixels=4, kept=("a",), written=("a",), double_buffering=True)
    assert tells(violation(problem, Plan((replace(step, **changes),))), told)
    single = problem.with_(machine={"double_buffering": False})
    assert tells(violation(single, Plan((step,))), "double buffering .. step 1 .. machine")


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ({"minimise": "time"}, "minimise = 'time' .. traffic, memory, cycles, energy"),
        ({"minimise": ["cycles", "cycles"]}, "minimise .. different"),
        (
            {"minimise": ["cycles", "energy"], "tolerance": [0.1, 0.1]},
            "tolerance = [0.1, 0.1] .. each objective but the last",
        ),
        ({"minimise": "cycles", "tolerance": 0.1}, "tolerance = 0.1 .. list"),
        ({"minimise": "cycles", "most_cycles": 3}, "most_cycles = 3 .. minimised"),
    ],
)
def test_bad_objectives_are_named(objective: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        timed_problem(random.Random(0), 1).with_(objective=objective)
    assert tells(caught.value, told)


HIERARCHY = {
    "kind": "hierarchy",
    "clock_mhz": 100,
    "macs_per_cycle": 1,
    "levels": [
        {"name": "DRAM", "bytes_per_cycle": 8},
        {"name": "L2", "capacity_bytes": 5000},
        {"name": "array", "fanout": [{"size": 4, "over": ["output_maps"]}]},
        {"name": "L1", "capacity_bytes": 300},
    ],
}


def test_a_memory_of_a_hierarchy_is_named() -> None:
    network = {"layers": [{"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}]}

    def read(machine: dict[str, Any]) -> Any:
        table = with_own_machine("residency", {"network": network, "machine": machine})
        return Problem.model_validate(table).machine

    outer = read(HIERARCHY)
    assert (outer.memory_bytes, outer.macs_per_cycle, outer.bus_elements_per_cycle) == (5000, 4, 8)
    assert read({**HIERARCHY, "residency": {"memory": "L1"}}).memory_bytes == 4 * 300
    with pytest.raises(InputError, match=r"L3.*: L2, L1|L3.* L2, L1"):
        read({**HIERARCHY, "residency": {"memory": "L3"}})
    with pytest.raises(InputError, match=r"machine.*npu"):
        read({"kind": "npu"})
    npu = read({"kind": "npu", "residency": {"memory_bytes": 999}})
    assert (npu.memory_bytes, npu.macs_per_cycle) == (999, 32 * 32)
