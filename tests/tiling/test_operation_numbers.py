"""Operations between layers in integers: tile by tile, against the whole; wrong walks are caught."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from conftest import tells
from hypothesis import given
from hypothesis import strategies as st
from test_between_layers import machines

import tilewright as tw
from tilewright.run.instance import Instance, digest
from tilewright.simulator.arithmetic.reference import reference_pool
from tilewright.spec.errors import InputError
from tilewright.spec.network import Pool
from tilewright.tiling import Plan, Problem, simulate
from tilewright.tiling.operations.arithmetic import LARGEST, MAPS, not_computed, random_values, whole
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import Axis, Walk
from tilewright.tiling.tile import even_steps

POOL = {
    "op": "max_pool",
    "inputs": [(2, 7, 6)],
    "output": (2, 4, 3),
    "kernel": (3, 2),
    "stride": (2, 2),
    "padding": (1, 1, 0, 0),
    "windowed": True,
    "work": 2 * 4 * 3 * 6,
}
MACHINE = {"kind": "dsp", "memory_bytes": 300, "vector_ops_per_cycle": 3}


@st.composite
def computed(draw: st.DrawFn) -> dict[str, Any]:
    """Operations of all sorts that have a form in integers."""
    maps, batch = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    plane = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    shape, base = (maps, *plane), {"batch": batch}
    sort = draw(st.sampled_from(["pool", "terms", "map", "move", "global"]))
    if sort == "move":
        op = draw(st.sampled_from(["concat", "transpose"]))
        return {"op": op, "inputs": [shape], "output": (plane[0], maps, plane[1]), **base}
    pool = draw(st.sampled_from(["max_pool", "average_pool"]))
    if sort == "global":
        work = batch * prod(shape)
        return {"op": pool, "inputs": [shape], "output": (maps, 1, 1), "work": work, **base}
    base |= {"windowed": True, "work": batch * prod(shape)}
    if sort == "terms":
        more = draw(st.lists(st.sampled_from([shape, (maps, 1, 1)]), min_size=1, max_size=2))
        inputs = sorted([shape, *more], key=prod, reverse=True)
        return {"op": draw(st.sampled_from(["add", "mul"])), "inputs": inputs, "output": shape, **base}
    if sort == "map":
        parameters = maps * draw(st.integers(0, 2))
        op = draw(st.sampled_from(sorted(MAPS)))
        return {"op": op, "inputs": [shape], "output": shape, "parameters": parameters, **base}
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(2))
    kernel = tuple(map(min, kernel, plane))
    padding = tuple(draw(st.integers(0, kernel[side] - 1)) for side in (0, 0, 1, 1))
    sizes = [plane[axis] + sum(padding[2 * axis : 2 * axis + 2]) for axis in (0, 1)]
    stride = tuple(draw(st.integers(1, 4)) for _ in range(2))
    output = [(sizes[axis] - kernel[axis]) // stride[axis] + 1 for axis in (0, 1)]
    geometry = {"kernel": kernel, "stride": stride, "padding": padding}
    work = batch * maps * prod(output) * prod(kernel)
    return {"op": pool, "inputs": [shape], "output": (maps, *output), **geometry, **base, "work": work}


def tiles(operation: Operation) -> st.SearchStrategy[OperationPlan]:
    """Even tiles, whether or not they fit."""
    sizes = operation.output if operation.windowed else (1, 1, operation.batch * prod(operation.output))
    return st.tuples(*(st.sampled_from(even_steps(size)) for size in sizes)).map(OperationPlan)


@given(computed(), machines(), st.data())
def test_tiles_compute_what_the_whole_computes(
    table: dict[str, Any], machine: dict[str, Any], data: st.DataObject
) -> None:
    try:
        problem = Problem.model_validate({"operation": table, "machine": machine})
    except InputError as error:
        assert "smallest tile does not fit" in str(error)
        return
    plan = data.draw(tiles(problem.one_operation))
    report = simulate(problem, Plan((plan,)), numeric=True, seed=data.draw(st.integers(0, 9)))
    if report.violation is None:
        assert report.numeric is True
        assert report.not_computed == ()


@given(computed(), st.integers(0, 9))
def test_the_whole_is_what_the_layer_is(table: dict[str, Any], seed: int) -> None:
    """Pools as the simulator's own reference has them, sums and products as NumPy has."""
    operation = Operation.model_validate(table)
    values = random_values(operation, seed)
    found = whole(operation, values)
    operands = [each for name, each in values.items() if name != "parameters"]
    if operation.op in ("add", "mul"):
        expected = sum(operands) if operation.op == "add" else prod(operands)  # type: ignore[arg-type]
        assert np.array_equal(found, expected)
    elif operation.op.endswith("_pool"):
        maps, *plane = operation.inputs[0]
        geometry = {name: getattr(operation, name) for name in ("kernel", "stride", "padding")}
        if not operation.windowed:
            geometry["kernel"] = tuple(plane)
        op = operation.op.removesuffix("_pool")
        pool = Pool(name="p", kind="pool", op=op, input=(maps, *plane), **geometry)
        full = operands[0].reshape(operation.batch, maps, *plane)
        assert np.array_equal(found.ravel(), reference_pool(pool, full).ravel())


def executed(problem: Problem) -> Any:
    return simulate(problem, Plan((OperationPlan((2, 2, 3)),)), numeric=True)


def test_a_walk_that_forgets_a_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads, frees and counts without breaking a rule; the numbers alone tell."""
    problem = Problem.model_validate({"operation": POOL, "machine": MACHINE})
    assert executed(problem).numeric is True
    right = Axis.of.__func__  # type: ignore[attr-defined]

    def short(cls: type[Axis], operation: Operation, axis: int, step: int) -> Axis:
        made: Axis = right(cls, operation, axis, step)
        return made._replace(inputs=[(low, max(low, high - (axis == 0))) for low, high in made.inputs])

    monkeypatch.setattr(Axis, "of", classmethod(short))
    report = executed(problem)
    assert report.violation is None and report.numeric is False


def test_a_walk_that_computes_another_tile_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams, too: pieces of the input beside those that the output is made of."""
    table = {"op": "concat", "inputs": [(2, 3, 4)], "output": (2, 3, 4)}
    problem = Problem.model_validate({"operation": table, "machine": MACHINE})
    plan = Plan((OperationPlan((1, 1, 6)),))
    assert simulate(problem, plan, numeric=True).numeric is True
    tiles = Walk.tiles

    def turned(self: Walk) -> Any:
        every = list(tiles(self))
        outputs = [output for _, _, output in every]
        for (held, changes, _), output in zip(every, outputs[1:] + outputs[:1], strict=True):
            yield held, changes, output

    monkeypatch.setattr(Walk, "tiles", turned)
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None and report.numeric is False


def test_what_is_not_computed_is_said() -> None:
    plane = {"inputs": [(4, 8, 8)], "output": (4, 8, 8)}
    for table, told in (
        ({"op": "softmax", **plane}, "softmax .. integers"),
        ({"op": "tanh", "windowed": True, **plane}, "tanh .. integers"),
        ({"op": "concat", "inputs": [(4, 8, 8)], "output": (5, 8, 8)}, "concat .. integers"),
        (
            {"op": "relu", "windowed": True, "inputs": [(4, 2048, 2048)], "output": (4, 2048, 2048)},
            "relu .. large",
        ),
    ):
        assert tells(not_computed(Operation.model_validate(table), 1), told)
    assert not_computed(Operation.model_validate({"op": "concat", **plane}), 1) is None
    assert LARGEST < 2 * 4 * 2048 * 2048


def test_check_and_simulate_compare_the_numbers_of_a_network() -> None:
    layers = [
        {"name": "first", "input": [2, 8, 8], "kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        {"name": "pool", "kind": "pool", "input": [4, 8, 8], "kernel": [3, 3], "stride": [2, 2]},
        {"name": "second", "input": [4, 3, 3], "kernels": 4, "kernel": [1, 1]},
        {"name": "sum", "kind": "add", "inputs": ["pool", "second"], "input": [4, 3, 3]},
        {"name": "shares", "kind": "map", "op": "softmax", "input": [4, 3, 3]},
    ]
    table = {"network": {"layers": layers}, "machine": MACHINE, "objective": {"minimise": "cycles"}}
    problem = Problem.model_validate(table)
    instance = Instance("tiling", "numbers", "", problem, digest("tiling", problem))
    result = tw.solve(instance, time_limit=20)
    report = tw.simulate(instance, result, numeric=True)
    assert [one.numeric for _, one in report.layers] == [True, True, True, True, None]
    assert report.numeric is True and report.not_computed == ("softmax has no exact form in integers",)
    numbers = [(each.state, each.detail) for each in tw.check(instance, result) if each.what == "numbers"]
    assert numbers == [
        ("verified", "what is computed is equal to the reference"),
        ("unverified", "not computed: softmax has no exact form in integers"),
    ]


@pytest.mark.nightly
def test_operations_are_computed_beside_layers_that_are_too_large() -> None:
    """A hierarchy executes layers MAC by MAC; those of a network with a large one are named, not computed."""
    layers = [
        {"name": "first", "input": [16, 18, 18], "kernels": 16, "kernel": [3, 3]},
        {"name": "pool", "kind": "pool", "input": [16, 16, 16], "kernel": [2, 2], "stride": [3, 3]},
    ]
    levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 4000}]
    machine = {"kind": "hierarchy", "levels": levels, "vector_ops_per_cycle": 4}
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
    instance = Instance("tiling", "numbers", "", problem, digest("tiling", problem))
    result = tw.solve(instance, time_limit=20)
    numbers = [(each.state, each.detail) for each in tw.check(instance, result) if each.what == "numbers"]
    assert numbers == [
        ("verified", "what is computed is equal to the reference"),
        ("unverified", "not computed: layers, as there are some of more than 100,000 MACs"),
    ]
