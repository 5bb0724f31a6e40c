"""Tiles and their inner loop as one decision: the search against a walk that executes each instruction."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from conftest import Run, examples, refused, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import Refused
from tests.oracles import dsp as oracle
from tests.oracles.inner_loop import Unfit

from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, violation
from tilewright.tiling.dsp import compute, kind
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles


def some_problem(rng: random.Random) -> Problem:
    lanes, mac_slots, memory_slots = rng.choice([2, 3, 4]), rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    sizes = [rng.randint(1, 3) for _ in range(4)]
    for flat in rng.sample(range(4), 2):
        sizes[flat] = 1
    groups = rng.choice([1, 1, 1, 2])
    kernel = rng.choice([(1, 1), (1, 2), (2, 1), (2, 2)])
    unit = {
        "lanes": lanes,
        "mac_slots": mac_slots,
        "memory_slots": memory_slots,
        "mac_latency": rng.randint(1, 5),
        "load_latency": rng.randint(0, 5),
        "registers": rng.choice([4, 8, 28]),
        "unrolled_macs": rng.choice([3, 6, 12]),
        "sums": rng.choice(["reloaded", "kept"]),
    }
    machine = {
        "kind": "dsp",
        "vector_unit": unit,
        "memory_bytes": rng.randint(24, 200),
        "element_bytes": 1,
        "double_buffering": rng.choice([True, False]),
        "macs_per_cycle": lanes * mac_slots,
        "bus_elements_per_cycle": lanes * memory_slots + rng.choice([0, 0, 3]),
        "dma_setup_cycles": rng.choice([0, 1, 7]),
        "energy": {"local_fj_per_access": rng.choice([0, 1000, 10**6]), "local_access_bytes": lanes},
    }
    layer = {
        "input": [sizes[0] * groups, sizes[1] + kernel[0] - 1, sizes[2] + kernel[1] - 1],
        "kernels": sizes[3] * groups,
        "kernel": list(kernel),
        "groups": groups,
        "batch": rng.choice([1, 1, 2]),
    }
    limits = {"schedule": rng.choice(["any", "any", "kc", "oxyn/ox", "intra", "thesis"])}
    minimise = rng.choice(["cycles", "cycles", "energy", "accesses", "pareto"])
    return Problem.model_validate(
        {"layer": layer, "machine": machine, "limits": limits, "objective": {"minimise": minimise}}
    )


@settings(max_examples=examples(300, by_day=6))
@given(st.integers(0, 2**32))
def test_the_search_finds_what_the_walk_finds(seed: int) -> None:
    rng = random.Random(seed)
    try:
        problem = some_problem(rng)
    except InputError:  # nothing fits
        return
    told = problem.model_dump(mode="json")
    expected = oracle.best(told)
    found = kind.exhaustive(problem, time.monotonic() + 600)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.proven
    if problem.minimise == "pareto":
        points = [
            tuple(kind.trade_off(problem, kind.simulate(problem, one)).values()) for one in found.layers
        ]
        assert points == expected
        return
    assert found.value == expected
    plan = found.layers[0]
    assert plan.inner_loop is not None
    assert oracle.cost(told, plan.to_json()) == expected
    assert DspPlan.from_json(plan.to_json()) == plan


@settings(max_examples=examples(400, by_day=40))
@given(st.integers(0, 2**32))
def test_any_plan_costs_what_a_walk_says(seed: int) -> None:
    """Of the closed form, of the simulator, and of the walk; or it is no plan in all of them."""
    rng = random.Random(seed)
    try:
        problem = some_problem(rng)
    except InputError:
        return
    problem = problem.with_(objective={"minimise": rng.choice(["cycles", "energy"])})
    nest = nest_of(problem.one_layer, problem.machine)
    n, c, y, x, k = (rng.randint(1, 3) for _ in DIMENSIONS)
    taps = rng.choice(["kernel", "row", "tap"])
    loop = InnerLoop(rng.choice(DIMENSIONS), rng.choice(DIMENSIONS), (n, c, y, x, k), taps)
    order, reuse = rng.choice(oracle.schedules(problem.limits.schedule))
    plan = DspPlan(tuple(rng.randint(1, size) for size in nest.sizes), order, reuse, loop)
    valid = violation(problem, Plan((plan,))) is None
    try:
        expected = oracle.cost(problem.model_dump(mode="json"), plan.to_json())
    except Refused:
        assert not valid
        return
    assert valid
    assert kind.objective(problem, plan) == expected
    assert kind.measured_objective(problem, kind.simulate(problem, plan)) == expected


def test_no_order_of_tiles_needs_a_loop_that_is_left_out() -> None:
    """Cycles and energy with every loop, under every order, are not below those of the loops worth trying."""
    machine = {
        "kind": "dsp",
        "memory_bytes": 300,
        "element_bytes": 1,
        "macs_per_cycle": 4,
        "bus_elements_per_cycle": 4,
        "dma_setup_cycles": 3,
        "vector_unit": {"lanes": 4, "registers": 8, "unrolled_macs": 12},
    }
    problem = Problem.model_validate(
        {
            "layer": {"input": [4, 6, 6], "kernels": 6, "kernel": [3, 3]},
            "machine": machine,
            "objective": {"minimise": "cycles"},
        }
    )
    nest = nest_of(problem.one_layer, problem.machine)
    tile = (1, 1, 4, 2, 3, 2)
    every = compute.loops_worth_trying(nest, tile, every=True)
    some = {option.loop for option in compute.loops_worth_trying(nest, tile)}
    assert len(some) < len(every) / 10
    for order, reuse in (("ncyxk", "tile"), ("cknyx", "halo"), ("nyxkc", "tile")):
        for place in (1, 2):  # cycles, energy
            costs = {
                option.loop: kind.rank(problem, DspPlan(tile, order, reuse, option.loop))[place]
                for option in every
            }
            assert min(costs.values()) == min(costs[loop] for loop in some)


@settings(max_examples=examples(400, by_day=30))
@given(st.integers(0, 2**32))
def test_bounds_of_tiles_hold_for_all_their_loops(seed: int) -> None:
    """And loops of which the bounds tell that they do not help are left out, no others."""
    rng = random.Random(seed)
    try:
        problem = some_problem(rng)
    except InputError:
        return
    nest = nest_of(problem.one_layer, problem.machine)
    tile = nest.step(tuple(rng.randint(1, size) for size in nest.sizes))
    every = compute.loops_worth_trying(nest, tile, every=True)
    least = min(option.cycles for option in every)
    assert int(compute.least_compute(Tiles(nest, tuple(np.array([step]) for step in tile)))[0]) <= least
    most = rng.choice([least, least + rng.randint(0, least)])

    def fast(cycles: Any, _streamed: Any) -> Any:
        return cycles <= most

    some = compute.loops_that_may_help(nest, tile, fast, every=True)
    assert sorted(one[:2] for one in some) == sorted(one[:2] for one in every if one.cycles <= most)


@pytest.mark.parametrize(("divisor", "remainder"), [(7, 3), (5, 0)])
def test_constraints_may_ask_for_a_loop_that_others_dominate(divisor: int, remainder: int) -> None:
    machine = {
        "kind": "dsp",
        "memory_bytes": 40,
        "element_bytes": 1,
        "macs_per_cycle": 2,
        "bus_elements_per_cycle": 2,
        "dma_setup_cycles": 3,
        "vector_unit": {"lanes": 2, "registers": 8, "unrolled_macs": 6},
    }
    asked = {
        "layer": {"input": [2, 1, 3], "kernels": 3, "kernel": [1, 1]},
        "machine": machine,
        "objective": {"minimise": "cycles"},
        "limits": {"schedule": "kc"},
    }
    problem = Problem.model_validate(asked).where(f"cycles % {divisor} == {remainder}")
    told = problem.model_dump(mode="json")
    layer, costs = oracle.Layer(told), set()
    for step, order, reuse in oracle.plans(told, layer):
        walk = oracle.Walk(layer, step, order, reuse)
        for loop in oracle.inner_loops(told, step):
            with suppress(Unfit):
                costs.add(oracle.measures(told, layer, walk, 0, loop)[0])
    found = kind.exhaustive(problem, time.monotonic() + 600)
    assert found is not None
    assert found.proven
    assert found.value == min(cost for cost in costs if cost % divisor == remainder) > min(costs)


@pytest.mark.parametrize("double_buffering", [True, False])
def test_tiles_that_are_alike_are_counted(double_buffering: bool) -> None:
    """Of 60,002 tiles the simulator executes nine, and charges what the closed form charges for all."""
    problem = Problem.model_validate(
        {
            "layer": {"input": [2, 8, 8], "kernels": 2, "kernel": [3, 3], "batch": 30_001},
            "machine": {
                "kind": "dsp",
                "memory_bytes": 16_384,
                "double_buffering": double_buffering,
                "vector_unit": {},
            },
            "objective": {"minimise": "cycles"},
        }
    )
    plan = DspPlan((1, 1, 2, 6, 6, 1), "ncyxk", "tile", InnerLoop("x", "k", (1, 2, 1, 1, 1), "row"))
    report = kind.simulate(problem, plan, overlapped=False)
    assert len(report.labels) < 20
    assert report.measures.steps == 60_002
    costs = report.measures.accesses_elements, report.measures.duration_cycles, report.measures.energy_fj
    assert costs == kind.rank(problem, plan)[:3]


VECTOR = """
room = "tiling"
[layer]
input = [2, 5, 5]
kernels = 4
kernel = 2
[machine]
kind = "dsp"
memory_bytes = 256
macs_per_cycle = 4
bus_elements_per_cycle = 4
vector_unit = { lanes = 4 }
[objective]
minimise = "cycles"
"""


def test_a_user_sees_the_loop_and_check_confirms_it(tilewright: Run, tmp_path: Any) -> None:
    (tmp_path / "v.toml").write_text(VECTOR)
    done = tilewright("solve", "v.toml", "--with", "exhaustive", "-o", "r.json")
    assert done.returncode == 0, done.stderr
    assert tells(done.stdout, "inner loop", "vectors of c")
    assert tilewright("check", "v.toml", "r.json").returncode == 0
    text = (tmp_path / "r.json").read_text()
    assert '"inner_loop"' in text
    (tmp_path / "bad.json").write_text(text.replace('"pipelined": "', '"pipelined": "q'))
    assert tilewright("check", "v.toml", "bad.json").returncode == 2


@pytest.mark.parametrize(
    ("changes", "field", "value", "limit"),
    [
        ({"macs_per_cycle": 32}, "machine.macs_per_cycle", 32, "must be 4"),
        ({"bus_elements_per_cycle": 3}, "machine.bus_elements_per_cycle", 3, "at least 4"),
        ({"vector_unit": {"lanes": 0}}, "machine.vector_unit.lanes", 0, "1"),
        ({"vector_unit": {"registers": 1}}, "machine.vector_unit.registers", 1, "2"),
    ],
)
def test_machines_that_contradict_their_vector_unit(
    changes: dict[str, Any], field: str, value: Any, limit: str
) -> None:
    machine = {
        "kind": "dsp",
        "memory_bytes": 1024,
        "macs_per_cycle": 4,
        "bus_elements_per_cycle": 4,
        "vector_unit": {"lanes": 4},
    }
    with refused(field, value, limit):
        Problem.model_validate(
            {"layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]}, "machine": machine | changes}
        )


def test_plans_whose_loop_cannot_run() -> None:
    base = {"kind": "dsp", "memory_bytes": 1024, "macs_per_cycle": 4, "bus_elements_per_cycle": 4}
    layer = {"input": [1, 4, 4], "kernels": 8, "kernel": [3, 3]}
    plan = Plan((DspPlan((1, 1, 8, 2, 2, 1), "ncyxk", "tile", InnerLoop("c", "y", (1, 2, 1, 2, 1))),))
    scalar = Problem.model_validate({"layer": layer, "machine": base})
    assert tells(violation(scalar, plan), "inner loop", "vector_unit")
    unit = {"lanes": 4, "registers": 3}
    vector = Problem.model_validate({"layer": layer, "machine": base | {"vector_unit": unit}})
    assert tells(violation(vector, plan), "inner loop", "registers", "36", "3", "128")
