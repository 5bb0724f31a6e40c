"""Recurrent layers: the search against all plans, which are executed in the memory that they claim."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import proven_best
from tests.oracles import Refused
from tests.oracles import scan as oracle

import tilewright as tw
from tilewright.codegen.schedule import schedule
from tilewright.report import page
from tilewright.run.instance import Instance, digest
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, at_least, kind_of, objective, simulate, violation
from tilewright.tiling.operations.arithmetic import random_values
from tilewright.tiling.operations.plan import OperationPlan, ScanTile
from tilewright.tiling.operations.scan_numbers import whole
from tilewright.tiling.panels import ExecutedParts

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrent(rng: random.Random) -> dict[str, Any]:
    """Return a small recurrent layer, its input stored time first or last."""
    op = rng.choice(["lstm", "gru", "gru", "rnn"])
    steps, hidden, features = rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 4)
    directions, gates = rng.randint(1, 2), GATES[op]
    further = rng.choice([0, 1, 2 * gates, 2 * gates + 3])
    return {
        "name": "r",
        "kind": "function",
        "op": op,
        "input": rng.choice([[features, 1, steps], [steps, 1, features]]),
        "output": [hidden, directions, rng.choice([1, steps])],
        "parameters": directions * hidden * (gates * (features + hidden) + further),
        "recurrence": {
            "steps": steps, "hidden": hidden, "directions": directions, "reset_after": rng.random() < 0.5,
        },
    }  # fmt: skip


def machine(rng: random.Random) -> dict[str, Any]:
    """Return a machine that holds some of these layers, and parts of others."""
    kind, rate = rng.choice(["dsp", "npu", "hierarchy"]), rng.randint(1, 7)
    if kind == "dsp":
        return {
            "kind": kind, "memory_bytes": rng.randint(20, 900), "element_bytes": rng.choice([1, 1, 2]),
            "double_buffering": rng.random() < 0.5, "bus_elements_per_cycle": rng.randint(1, 9),
            "dma_setup_cycles": rng.choice([0, 1, 20]), "register_file_bytes": rng.choice([0, 64]),
            "vector_ops_per_cycle": rate,
        }  # fmt: skip
    if kind == "npu":
        return {
            "kind": kind, "tles": 2, "tlts": 1, "element_bytes": rng.choice([1, 1, 2]),
            "input_bytes": rng.randint(10, 400), "output_bytes": rng.randint(10, 200),
            "burst_bytes": rng.choice([1, 7, 32]), "vector_ops_per_cycle": rate,
        }  # fmt: skip
    levels = [
        {"name": "dram", "bytes_per_cycle": 3.0, "read_pj_per_byte": 50.0},
        {"name": "buffer", "capacity_bytes": rng.randint(40, 600), "read_pj_per_byte": 2.0},
    ]
    return {"kind": kind, "levels": levels, "mac_pj": 0.5, "vector_ops_per_cycle": rate}


def drawn(seed: int) -> tuple[random.Random, dict[str, Any]]:
    """Return a problem of a network that is a recurrent layer."""
    rng = random.Random(seed)
    given = machine(rng)
    names = {"dsp": ["accesses", "cycles", "energy"], "npu": ["time", "accesses"], "hierarchy": ["accesses"]}
    # A rectifier that is as small as can be, since a network needs something that is tiled.
    layers = [recurrent(rng)]
    table = {"network": {"layers": layers}, "machine": given, "batch": rng.randint(1, 3)}
    return rng, table | {"objective": {"minimise": rng.choice(names[given["kind"]])}}


def judged(problem: Problem) -> dict[str, Any]:
    """Return what the oracle is told."""
    told = problem.model_dump(mode="json")
    (layer,) = told["network"]["layers"]
    return {
        "layer": layer,
        "machine": told["machine"],
        "batch": told["batch"],
        "minimise": told["objective"]["minimise"],
    }


@settings(max_examples=examples(300, 4))
@given(st.integers(0, 2**32))
def test_the_search_finds_the_best_of_all_plans(seed: int) -> None:
    rng, table = drawn(seed)
    try:
        problem = Problem.model_validate(table)
    except InputError as error:
        assert "smallest tile does not fit" in str(error)
        return
    ((_, part),), told = problem.parts, judged(problem)
    found, least = proven_best(part), oracle.best(told)
    if least is None:  # what is told then is a bound, and stated as such
        assert at_least(part, Plan(found.layers))
        return
    assert found.value == least == kind_of(part).best_bound(part).value
    assert not at_least(part, Plan(found.layers))
    plans = [OperationPlan(ScanTile(**each)) for each in oracle.Layer(told).plans()]
    for plan in [found.layers[0], *rng.sample(plans, min(3, len(plans)))]:
        one = Plan((plan,))
        try:
            cost = oracle.cost(told, plan.tile._asdict())
        except Refused:
            cost = None
        assert cost == (objective(part, one) if violation(part, one) is None else None)
        report = simulate(part, one, numeric=True)
        assert (report.violation is None) == (cost is not None)
        if cost is not None:
            assert kind_of(part).measured_objective(part, report) == cost
            assert report.numeric is True and report.not_computed == ()


@settings(max_examples=examples(300, 10))
@given(st.integers(0, 2**32))
def test_what_is_computed_is_the_layer_without_its_exponentials(seed: int) -> None:
    _, table = drawn(seed)
    table["machine"] = {"kind": "dsp", "memory_bytes": 1 << 20, "vector_ops_per_cycle": 1}
    table["objective"] = {"minimise": "accesses"}
    problem = Problem.model_validate(table)
    operation = problem.parts[0].problem.one_operation
    values = random_values(operation, seed % 10)
    passes = [values[name].tolist() for name in sorted(values) if name != "input"]
    expected = oracle.states(judged(problem), {"input": values["input"].tolist(), "passes": passes})
    mine = whole(operation, values)
    wrapped = [(each + 2**63) % 2**64 - 2**63 for each in np.array(expected, dtype=object).ravel()]
    assert mine.ravel().tolist() == wrapped


@settings(max_examples=examples(300, 10))
@given(st.integers(0, 2**32))
def test_no_plan_moves_less_than_any_schedule_must(seed: int) -> None:
    """Weights of the state are read at each second point in time, but for what stays (tiling-bounds.md)."""
    rng = random.Random(seed)
    layer = recurrent(rng)
    told = layer["recurrence"] | {"steps": rng.randint(1, 9)}
    features = rng.randint(1, 4)
    units = told["directions"] * told["hidden"]
    least = units * GATES[layer["op"]] * (features + told["hidden"])
    layer |= {"recurrence": told, "input": [features, 1, told["steps"]], "parameters": least}
    layer["output"] = [units, 1, told["steps"]]
    table = {"network": {"layers": [layer]}, "objective": {"minimise": "accesses"}}
    memory = rng.randint(10, 300)
    try:
        problem = Problem.model_validate(table | {"machine": DSP | {"memory_bytes": memory}})
    except InputError:
        return
    part = problem.parts[0].problem
    found = proven_best(part)
    if at_least(part, Plan(found.layers)):
        return
    state = GATES[layer["op"]] * told["hidden"] ** 2
    again = max(0, told["steps"] // 2 - 1) * max(0, state - memory)
    assert found.value >= part.one_operation.least + told["directions"] * again


@settings(max_examples=examples(100, 5))
@given(st.integers(0, 2**32))
def test_more_memory_never_moves_more(seed: int) -> None:
    """The least traffic as a function of memory, from the least that is possible to all of it at a time."""
    _, table = drawn(seed)
    table["objective"] = {"minimise": "accesses"}
    before, problem = None, None
    for size in (30, 60, 100, 200, 400, 1000, 1 << 16):
        table["machine"] = {
            "kind": "dsp",
            "memory_bytes": size,
            "element_bytes": 1,
            "vector_ops_per_cycle": 1,
        }
        try:
            problem = Problem.model_validate(table)
        except InputError:
            continue
        ((_, part),) = problem.parts
        found = proven_best(part)
        if at_least(part, Plan(found.layers)):
            continue
        assert before is None or found.value <= before
        before = found.value
    assert problem is not None and before == problem.parts[0].problem.one_operation.least


LSTM = {
    "name": "r", "kind": "function", "op": "lstm", "input": [2, 1, 6], "output": [4, 1, 6],
    "parameters": 4 * 4 * (2 + 4), "recurrence": {"steps": 6, "hidden": 4},
}  # fmt: skip
DSP = {"kind": "dsp", "element_bytes": 1, "double_buffering": False, "vector_ops_per_cycle": 4}


@pytest.mark.parametrize(
    ("memory", "moved"),
    [
        # 2 values of input, states and cells of 4 values twice, one value's 24 weights: all are read 6 times.
        (2 + 8 + 8 + 24, 6 * 96 + 12 + 24),
        (2 + 8 + 8 + 48, 6 * 72 + 24 + 12 + 24),  # the weights of one value stay
        (2 + 8 + 8 + 96, 96 + 12 + 24),  # all stay
    ],
)
def test_weights_that_do_not_fit_are_read_at_each_point_in_time(memory: int, moved: int) -> None:
    table = {"network": {"layers": [LSTM]}, "machine": DSP | {"memory_bytes": memory}}
    result = tw.solve(Problem.model_validate(table | {"objective": {"minimise": "accesses"}}), time_limit=20)
    assert (result.status, result.objective, result.bound) == ("optimal", moved, moved)
    assert result.at_least is None
    assert Plan.from_json(json.loads(json.dumps(result.plan.to_json()))) == result.plan
    assert result.measures.to_json()["layers"]["r"]["tile"].keys() == {
        "hidden",
        "steps",
        "images",
        "resident",
    }


def test_a_plan_of_another_sort_is_refused() -> None:
    table = {"network": {"layers": [LSTM]}, "machine": DSP | {"memory_bytes": 200}}
    part = Problem.model_validate(table).parts[0].problem
    assert "hidden, steps, images and resident" in str(violation(part, Plan((OperationPlan((1, 1, 24)),))))
    for tile, told in (
        ((3, 1, 1, 0), "2 tiles of 4 hidden are of 2 each"),
        ((2, 4, 1, 0), "steps"),
        ((1, 1, 1, 3), "resident"),
        ((5, 1, 1, 0), "5 hidden, there are 4"),
    ):
        assert told in str(violation(part, Plan((OperationPlan(ScanTile(*tile)),))))
    pool = {"op": "max_pool", "inputs": [(2, 4, 4)], "output": (2, 2, 2), "kernel": (2, 2), "stride": (2, 2)}
    other = Problem.model_validate({"operation": pool | {"windowed": True}, "machine": table["machine"]})
    assert "maps, rows and columns" in str(violation(other, Plan((OperationPlan(ScanTile(1, 1, 1, 0)),))))
    with refused("plan.operation", {"hidden": 1, "steps": 0, "images": 1, "resident": 0}, "at least 1"):
        Plan.from_json({"operation": {"hidden": 1, "steps": 0, "images": 1, "resident": 0}})


@pytest.mark.parametrize(
    ("changes", "field", "value", "limit"),
    [
        ({"op": "tanh"}, "layer.recurrence", "tanh", "lstm, gru, rnn"),
        ({"recurrence": {"steps": 5, "hidden": 4}}, "layer.recurrence.steps", 5, "divide the 12 values"),
        ({"output": [4, 1, 5]}, "layer.output", [4, 1, 5], "4 values at each of 6"),
        ({"parameters": 95}, "layer.parameters", 95, "96 weights"),
        ({"macs": 100}, "layer.macs", 100, "multiple of the 576"),
    ],
)
def test_sizes_that_no_recurrent_layer_has_are_refused(
    changes: dict[str, Any], field: str, value: Any, limit: str
) -> None:
    with pytest.raises(InputError) as caught:
        Problem.model_validate(
            {"network": {"layers": [LSTM | changes]}, "machine": DSP | {"memory_bytes": 200}}
        )
    assert (caught.value.field, caught.value.value) == (field, value) and limit in str(caught.value)


def test_a_host_and_a_state_that_has_no_room_give_lower_bounds() -> None:
    host = {"memory_bytes": 200, "host": {"cycles_per_byte": 1.0}, "vector_ops_per_cycle": None}
    for changes in ({"memory_bytes": 20}, host):
        table = {"network": {"layers": [LSTM]}, "machine": DSP | changes}
        result = tw.solve(Problem.model_validate(table), time_limit=20)
        assert (result.status, list(result.at_least or ())) == ("feasible", ["r"])


def test_the_schedule_has_the_tile_of_a_recurrent_layer() -> None:
    layers = [LSTM, {"name": "last", "input": [4, 1, 6], "kernels": 2, "kernel": [1, 1]}]
    table = {"network": {"layers": layers}, "machine": DSP | {"memory_bytes": 100}}
    result = tw.solve(Problem.model_validate(table), time_limit=20)
    assert result.status == "optimal"
    assert "lstm" in result.summary() and "of the weights" in result.summary()
    told = schedule("a", "0" * 64, Problem.model_validate(table), result.plan)
    assert told["operations"]["r"]["tile"] == result.plan.layers[0].tile._asdict()


@pytest.mark.parametrize("kind", ["dsp", "npu", "hierarchy"])
def test_reports_and_pictures_have_what_is_read_beside_inputs(kind: str, tmp_path: Path) -> None:
    """Weights of a recurrent layer and numbers of a normalisation are part of what an operation reads."""
    shape = {"input": [4, 1, 6], "output": [4, 1, 6], "along": ["channels"], "parameters": 8}
    norm = {"name": "norm", "kind": "function", "op": "layer_normalization", **shape}
    layers = [LSTM, norm, {"name": "last", "input": [4, 1, 6], "kernels": 2, "kernel": [1, 1]}]
    levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 100}]
    machine: dict[str, Any] = {"kind": kind, "vector_ops_per_cycle": 4}
    machine |= {"levels": levels} if kind == "hierarchy" else {"element_bytes": 1}
    machine |= {"memory_bytes": 200} if kind == "dsp" else {}
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
    instance = Instance("tiling", "net", "", problem, digest("tiling", problem))
    result = tw.solve(instance, time_limit=20)
    assert result.status == "optimal"
    moved = {part.name: part for part in ExecutedParts(problem, result.measures.layers).layers}
    for name in ("r", "norm"):
        assert sum(moved[name].outermost.values()) >= sum(moved[name].least.values())
    assert "lstm" in page(instance, result)
    tw.plot(instance, result, tmp_path / "net.png")
    assert (tmp_path / "net.png").stat().st_size > 10_000
