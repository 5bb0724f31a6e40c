"""Inner loops of operations between layers: closed forms against an execution, and the best of all plans."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import examples, refused, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import proven_best
from test_inner_loop import some_unit
from tests.oracles import operation_loop as oracle
from tests.oracles import tiling as judges
from tests.oracles.inner_loop import Unfit

import tilewright as tw
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, at_least, kind_of, violation
from tilewright.tiling.dsp.inner_loop import InnerLoop
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.vector_loop import FUNCTIONS, loop_costs, work_of


def some_operation(rng: random.Random, sizes: tuple[int, int, int]) -> tuple[Operation, dict[str, Any]]:
    """Return an operation whose output has these sizes, and the same as the oracle is told."""
    kind = rng.choice(["max_pool", "average_pool", "lrn", "add", "mul", *FUNCTIONS])
    told: dict[str, Any] = {"op": kind, "kernel": (1, 1), "stride": (1, 1), "inputs": 1, "numbers": 0}
    table: dict[str, Any] = {"op": kind, "output": sizes, "windowed": True}
    inputs = [sizes]
    if kind.endswith("pool"):
        told["kernel"], told["stride"] = ((rng.randint(1, 3), rng.randint(1, 3)) for _ in range(2))
        window = zip(sizes[1:], told["kernel"], told["stride"], strict=True)
        inputs = [(sizes[0], *((size - 1) * stride + kernel for size, kernel, stride in window))]
        table |= {"kernel": told["kernel"], "stride": told["stride"]}
    elif kind == "lrn":
        told["size"] = rng.choice([1, 3, 5])
        table |= {"across": told["size"], "needs": "maps"}
    elif kind in ("add", "mul"):
        told["inputs"] = rng.randint(1, 3)
        told["numbers"] = rng.randint(0, 1) if sizes[1:] != (1, 1) else 0
        inputs = [sizes] * told["inputs"] + [(sizes[0], 1, 1)] * told["numbers"]
    else:
        told["numbers"] = rng.randint(0, 2)
        table["parameters"] = sizes[0] * told["numbers"]
    return Operation.model_validate(table | {"inputs": inputs}), told


@settings(max_examples=examples(1500, by_day=50))
@given(st.integers(0, 2**32))
def test_closed_forms_are_those_of_an_execution(seed: int) -> None:
    rng = random.Random(seed)
    unit, sizes = some_unit(rng), (rng.randint(1, 9), rng.randint(1, 6), rng.randint(1, 9))
    operation, told = some_operation(rng, sizes)
    told["element_bytes"] = rng.choice([1, 2, 4, 8])
    c, y, x = (rng.randint(1, 4) for _ in sizes)
    taps = rng.choice(["kernel", "row", "tap"])
    loop = InnerLoop(rng.choice("cyx"), rng.choice("cyx"), (1, c, y, x, 1), taps)
    costs = loop_costs(unit, work_of(operation, told["element_bytes"]), sizes, loop)
    try:
        run = oracle.Run(unit.model_dump(), told, sizes, loop.to_json())
    except Unfit:
        assert not costs.fits
        return
    assert costs.fits
    assert (costs.cycles, costs.transfers) == (run.cycles, run.transfers)
    rows, columns = told["kernel"]
    assert set(run.done.values()) == {1}
    assert len(run.done) == sizes[0] * sizes[1] * sizes[2] * rows * columns


def some_problem(rng: random.Random) -> dict[str, Any]:
    lanes, slots = rng.choice([2, 3, 4]), rng.choice([1, 1, 2])
    unit = {
        "lanes": lanes,
        "memory_slots": slots,
        "mac_latency": rng.randint(1, 5),
        "load_latency": rng.randint(0, 5),
        "registers": rng.choice([5, 8, 28]),
        "unrolled_macs": rng.choice([8, 20]),
    }
    machine = {
        "kind": "dsp",
        "vector_unit": unit,
        "memory_bytes": rng.randint(20, 150),
        "element_bytes": 1,
        "double_buffering": rng.choice([True, False]),
        "macs_per_cycle": lanes,
        "bus_elements_per_cycle": lanes * slots + rng.choice([0, 0, 3]),
        "dma_setup_cycles": rng.choice([0, 1, 7]),
        "energy": {"local_fj_per_access": rng.choice([0, 1000, 10**6]), "local_access_bytes": lanes},
    }
    maps, plane = rng.choice([1, 2, 3, 5]), [rng.randint(1, 4) for _ in range(2)]
    kind = rng.choice(["pool", "add", "map"])
    layer: dict[str, Any] = {"name": "o", "kind": kind, "input": [maps, *plane]}
    if kind == "add":
        layer["inputs"] = ["input", "input"]
    elif kind == "map":
        layer |= {"op": "lrn", "response": {"size": rng.choice([1, 3])}}
    else:
        layer |= {"op": rng.choice(["max", "average"]), "kernel": [rng.randint(1, size) for size in plane]}
        layer["stride"] = [rng.randint(1, 2) for _ in range(2)]
    minimise = rng.choice(["cycles", "cycles", "energy", "accesses"])
    return {"network": {"layers": [layer]}, "machine": machine, "objective": {"minimise": minimise}}


@settings(max_examples=examples(250, by_day=6))
@given(st.integers(0, 2**32))
def test_no_tile_with_any_loop_is_better_than_the_best(seed: int) -> None:
    rng = random.Random(seed)
    try:
        problem = Problem.model_validate(some_problem(rng))
    except InputError as error:
        assert tells(str(error), "smallest tile does not fit") or tells(str(error), "has no inner loop")
        return
    ((_, part),), ((judge, told),) = problem.parts, judges.parts(problem.model_dump(mode="json"))
    found = proven_best(part)
    (plan,) = found.layers
    if at_least(part, Plan(found.layers)):  # not even the smallest tile fits
        return
    assert found.value == judge.best(told) == judge.cost(told, plan.to_json())
    assert OperationPlan.from_json(plan.to_json()) == plan
    report = kind_of(part).simulate(part, plan)
    assert kind_of(part).measured_objective(part, report) == found.value
    assert report.measures.inner_loop == str(plan.inner_loop)
    assert kind_of(part).best_bound(part).value == found.value


SMALL = [
    {"name": "first", "input": [2, 6, 6], "kernels": 8, "kernel": [1, 1]},
    {"name": "pool", "kind": "pool", "input": [8, 6, 6], "kernel": [2, 2], "stride": [2, 2]},
    {"name": "norm", "kind": "map", "op": "lrn", "input": [8, 3, 3], "response": {"size": 5}},
    {"name": "soft", "kind": "map", "op": "softmax", "input": [8, 3, 3]},
]
"""With a softmax, which has no inner loop."""


def small(unit: dict[str, Any], **further: Any) -> Problem:
    machine = {"kind": "dsp", "memory_bytes": 4000, "macs_per_cycle": 4, "bus_elements_per_cycle": 4}
    machine |= {"vector_unit": {"lanes": 4, **unit}, **further}
    objective = {"minimise": "cycles"}
    return Problem.model_validate({"network": {"layers": SMALL}, "machine": machine, "objective": objective})


def test_a_network_counts_loops_and_says_what_has_none() -> None:
    problem = small({})
    assert [name for name, _ in problem.parts] == ["first", "pool", "norm"]
    assert [each.name for each in problem.unmodelled] == ["soft"]
    result = tw.solve(problem, "greedy", time_limit=60)
    told = result.measures.to_json()
    assert told["not_modelled"]["names"] == ["soft"]
    assert all("vectors of" in told["layers"][name]["inner_loop"] for name in ("pool", "norm"))
    assert sum(layer["duration_cycles"] for layer in told["layers"].values()) == result.objective
    by_rate = small({}, vector_ops_per_cycle=4)  # what has no loop is done at this rate
    assert by_rate.unmodelled == ()
    assert [part.problem for part in by_rate.parts][-1].one_operation.op == "softmax"


@pytest.mark.parametrize(
    ("loop", "unit", "says"),
    [
        (InnerLoop("k", "x"), {}, "dimensions c, y, x"),
        (InnerLoop("x", "y", (2, 1, 1, 1, 1)), {}, "only c, y, x are unrolled"),
        (InnerLoop("x", "y", (1, 4, 1, 1, 1)), {"registers": 14}, "the machine has 14"),
        (InnerLoop("x", "y", (1, 8, 1, 1, 1)), {"unrolled_macs": 12}, "takes 12"),
    ],
)
def test_loops_that_cannot_run(loop: InnerLoop, unit: dict[str, Any], says: str) -> None:
    norm = small(unit).parts[-1].problem
    broken = violation(norm, Plan((OperationPlan((8, 3, 3), loop),)))
    assert broken is not None and broken.startswith("inner loop: ") and says in broken
    assert violation(norm, Plan((OperationPlan((8, 3, 3)),))) is None
    without = small({}, vector_ops_per_cycle=4).with_(machine={"vector_unit": None}).parts[-2].problem
    assert "no vector_unit" in str(violation(without, Plan((OperationPlan((8, 3, 3), loop),))))


@pytest.mark.parametrize(("field", "value"), [("registers", 5), ("unrolled_macs", 5)])
def test_a_unit_without_room_for_a_chain_is_refused(field: str, value: int) -> None:
    """A normalisation has a table of eight vectors, and nine instructions in a row."""
    with refused(f"machine.vector_unit.{field}", value, "lrn has no inner loop"):
        small({field: value})


def test_pool_by_hand() -> None:
    """Two maxima in a row and a column, four lanes filled: 4 loads, 3 instructions, 1 store a vector."""
    pool = small({}).parts[1].problem.one_operation
    costs = loop_costs(VectorUnit(lanes=4), work_of(pool, 2), (8, 3, 3), InnerLoop("c", "x"))
    assert costs.transfers == 2 * 9 * (4 + 1)
    assert (costs.interval, costs.latency) == (5, 8 + 3 * 8 + 4)  # of memory; load, chain, store
    assert costs.cycles == 2 * 3 * (2 * 5 + 36)  # for each vector of maps and row, three columns
