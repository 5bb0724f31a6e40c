"""Operations between layers: closed form and execution, search and all tiles, whole networks."""

from __future__ import annotations

import json
import tomllib
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import proven_best

import tilewright as tw
from tilewright.run.instance import Instance, digest
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, at_least, kind_of, objective, simulate, violation
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import Walk
from tilewright.tiling.tile import even_steps

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "instances" / "machines"

LEVELS = [
    {"name": "dram", "bytes_per_cycle": 3.0, "read_pj_per_byte": 50.0},
    {"name": "shared", "capacity_bytes": 4000, "read_pj_per_byte": 3.0, "read_bytes_per_cycle": 9.0},
    {"name": "buffer", "capacity_bytes": 300, "double_buffering": True, "bytes_per_cycle": 5.0},
]


BITS = st.sampled_from([None, {"input": 8, "weights": 4, "output": 6, "partial": 20}])
"""Widths of operands."""


def machines() -> st.SearchStrategy[dict[str, Any]]:
    """Machines of all kinds whose memories hold some of the operations, and parts of others."""
    size = st.integers(40, 400)
    vector = st.integers(1, 7)
    dsp = st.fixed_dictionaries(
        {
            "kind": st.just("dsp"),
            "memory_bytes": size,
            "double_buffering": st.booleans(),
            "bus_elements_per_cycle": st.integers(1, 9),
            "dma_setup_cycles": st.sampled_from([0, 1, 20]),
            "register_file_bytes": st.sampled_from([0, 64]),
            "vector_ops_per_cycle": vector,
            "bits": BITS,
        }
    )
    npu = st.fixed_dictionaries(
        {
            "kind": st.just("npu"),
            "tles": st.just(2),
            "tlts": st.just(1),
            "input_bytes": size,
            "output_bytes": size,
            "burst_bytes": st.sampled_from([1, 7, 32]),
            "vector_ops_per_cycle": vector,
            "bits": BITS,
        }
    )
    hierarchy = st.fixed_dictionaries(
        {
            "kind": st.just("hierarchy"),
            "levels": st.just(LEVELS),
            "mac_pj": st.just(0.5),
            "vector_ops_per_cycle": vector,
            "vector_level": st.sampled_from(["shared", "buffer", "dram"]),
            "vector_op_pj": st.just(0.1),
        }
    )
    return dsp | npu | hierarchy


@st.composite
def some_operations(draw: st.DrawFn) -> dict[str, Any]:
    """Windowed operations and streams."""
    maps, batch = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    if draw(st.booleans()):
        shapes = [(maps, draw(st.integers(1, 6)), draw(st.integers(1, 6))) for _ in range(2)]
        table = {"op": "moves", "inputs": [shapes[0]], "output": shapes[1], "batch": batch, "work": 17}
        return table | {"needs": draw(st.sampled_from(["piece", "flow"]))}
    kernel, stride = (tuple(draw(st.integers(1, 3)) for _ in range(2)) for _ in range(2))
    padding = tuple(draw(st.integers(0, kernel[side] - 1)) for side in (0, 0, 1, 1))
    plane = [
        draw(st.integers(max(1, kernel[axis] - sum(padding[2 * axis : 2 * axis + 2])), 9)) for axis in (0, 1)
    ]
    given = [
        (plane[axis] + sum(padding[2 * axis : 2 * axis + 2]) - kernel[axis]) // stride[axis] + 1
        for axis in (0, 1)
    ]
    inputs = [(maps, *plane)] + [(maps, 1, 1)] * draw(st.integers(0, 1))
    return {
        "op": "windows",
        "inputs": inputs,
        "output": (maps, *given),
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "windowed": True,
        "batch": batch,
        "parameters": maps * draw(st.integers(0, 2)),
        "work": batch * maps * prod(given) * draw(st.integers(1, 5)),
    }


def problems(table: dict[str, Any], machine: dict[str, Any]) -> list[Problem]:
    """The problem for each objective, none where not even the smallest tile fits."""
    names = {"npu": ("time", "accesses")}.get(machine["kind"], ("accesses", "cycles", "energy"))
    try:
        return [
            Problem.model_validate({"operation": table, "machine": machine, "objective": {"minimise": name}})
            for name in names
        ]
    except InputError as error:
        assert "smallest tile does not fit" in str(error)
        return []


def all_plans(operation: Operation) -> list[OperationPlan]:
    length = Walk(operation, OperationPlan((1, 1, 1))).length
    sizes = operation.output if operation.windowed else (1, 1, length)
    return [OperationPlan(tile) for tile in product(*(range(1, size + 1) for size in sizes))]


@settings(max_examples=40)
@given(some_operations(), machines(), st.data())
def test_the_simulator_counts_what_the_closed_form_says(
    table: dict[str, Any], machine: dict[str, Any], data: st.DataObject
) -> None:
    for problem in problems(table, machine):
        one = Plan((data.draw(st.sampled_from(all_plans(problem.one_operation))),))
        report = simulate(problem, one)
        assert (report.violation is None) == (violation(problem, one) is None)
        if report.violation is None:
            assert kind_of(problem).measured_objective(problem, report) == objective(problem, one)
            operation = problem.one_operation
            assert operation.least == operation.elements - _skipped(operation) <= report.accesses
            assert report.measures.least_accesses_elements == operation.least


def _skipped(operation: Operation) -> int:
    """Input elements that no window covers."""
    if not operation.windowed:
        return 0
    read = set()
    (kh, kw), (down, right) = operation.kernel, operation.stride
    _, height, width = operation.inputs[0]
    for y, x in product(range(operation.output[1]), range(operation.output[2])):
        for dy, dx in product(range(kh), range(kw)):
            at = y * down - operation.padding[0] + dy, x * right - operation.padding[2] + dx
            if 0 <= at[0] < height and 0 <= at[1] < width:
                read.add(at)
    return operation.batch * operation.output[0] * (height * width - len(read))


def test_even_tiles_are_all_numbers_of_tiles() -> None:
    for size in range(1, 60):
        assert list(even_steps(size)) == sorted({-(-size // -(-size // step)) for step in range(1, size + 1)})


@settings(max_examples=25)
@given(some_operations(), machines())
def test_no_tile_is_better_than_the_best(table: dict[str, Any], machine: dict[str, Any]) -> None:
    for problem in problems(table, machine):
        found = proven_best(problem)
        plans = [Plan((one,)) for one in all_plans(problem.one_operation)]
        costs = [objective(problem, one) for one in plans if violation(problem, one) is None]
        assert found.value == objective(problem, Plan(found.layers)) == min(costs)
        assert kind_of(problem).best_bound(problem).value <= found.value


NETWORK = [
    {"name": "first", "input": [2, 8, 8], "kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"name": "relu", "kind": "map", "op": "relu", "input": [4, 8, 8]},
    {"name": "pool", "kind": "pool", "input": [4, 8, 8], "kernel": [2, 2], "stride": [2, 2]},
    {"name": "second", "input": [4, 4, 4], "kernels": 4, "kernel": [1, 1]},
    {"name": "sum", "kind": "add", "inputs": ["pool", "second"], "input": [4, 4, 4]},
    {"name": "found", "kind": "opaque", "op": "Boxes", "input": [4, 4, 4], "output": [2, 1, 5], "macs": 7},
]


def network(machine: str, changes: dict[str, Any], **further: Any) -> Problem:
    """The network on a bundled machine with a unit for operations."""
    table = {"kind": "hierarchy", "levels": LEVELS[::2]}
    if machine != "small":
        table = tomllib.loads((MACHINES / f"{machine}.toml").read_text())
    given = {"network": {"layers": NETWORK}, "machine": {**table, **changes}, **further}
    return Problem.model_validate(given)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("machine", ["idsp", "nmp", "small"])
def test_every_operation_of_a_network_counts(machine: str) -> None:
    host = {"cycles_per_byte": 0.5, "cycles_per_call": 3}
    whole = network(machine, {"vector_ops_per_cycle": 4, "host": host})
    result = tw.solve(whole, time_limit=60)
    assert [name for name, _ in whole.parts] == ["first", "pool", "second", "sum", "found"]
    assert result.objective == result.bound and whole.unmodelled == ()
    # What an operation moves on a host is not known, but what the host takes, as on this machine times count.
    unknown = [] if machine == "nmp" else ["found"]
    assert list(result.at_least or ()) == unknown
    assert result.status == ("feasible" if unknown else "optimal")
    layers = result.measures.to_json()["layers"]
    assert [layers[name]["operation"] for name in ("pool", "sum", "found")] == ["max_pool", "add", "Boxes"]
    assert layers["found"]["on"] == "host"
    key = "duration_ps" if machine == "nmp" else "duration_cycles"
    assert sum(layer[key] for layer in layers.values()) == result.measures.to_json()[key]
    assert layers["pool"]["accesses_elements"] == 4 * 8 * 8 + 4 * 4 * 4
    assert layers["sum"]["accesses_elements"] == 3 * 4 * 4 * 4
    size = 1 if machine == "small" else 2
    cycles = 3 + -(-size * (4 * 4 * 4 + 2 * 5) // 2)
    assert layers["found"][key] == cycles * (whole.machine.cycle_ps if machine == "nmp" else 1)
    assert Plan.from_json(json.loads(json.dumps(result.plan.to_json()))) == result.plan
    assert "operations" in result.summary()
    for layer in layers.values() if machine == "small" else ():
        told = sum(sum(way.values()) for level in layer["levels_aj"].values() for way in level.values())
        assert layer["energy_aj"] == told + layer.get("vector_aj", layer.get("mac_aj"))


def test_an_output_that_is_also_read_inside_is_written() -> None:
    """The rectifier that would be part of the first layer reads its 256 values, and gives as many."""
    table = {"kind": "dsp", "memory_bytes": 4000, "vector_ops_per_cycle": 4, "element_bytes": 1}
    moved = {}
    for outputs in (None, ["first", "sum"]):
        told = {"layers": NETWORK[:5]} | ({} if outputs is None else {"outputs": outputs})
        result = tw.solve(Problem.model_validate({"network": told, "machine": table}), time_limit=20)
        layers = result.measures.to_json()["layers"]
        moved[outputs is None] = {name: layer["accesses_elements"] for name, layer in layers.items()}
    assert moved[False] == moved[True] | {"relu": 2 * 4 * 8 * 8}
    assert moved[True]["first"] == 2 * 8 * 8 + 4 * 2 * 9 + 4 * 8 * 8 + 72  # its biases are no weights


POSITION = [
    {"name": "c0", "input": [2, 3, 3], "kernels": 4, "kernel": [2, 1], "groups": 2},
    {"name": "p1", "kind": "pool", "input": [4, 2, 3], "kernel": [2, 2], "stride": [1, 2]},
]
"""A pool whose window has one position and leaves a column out."""


@pytest.mark.parametrize("kind", ["dsp", "npu"])
def test_a_pool_of_one_position_reads_what_is_under_its_window(kind: str) -> None:
    """Of 4 maps it reads 2 x 2 of 2 x 3 values and gives one each: 20, which its numbers confirm."""
    machine = {"kind": kind, "element_bytes": 1, "vector_ops_per_cycle": 4}
    machine |= {"memory_bytes": 40, "double_buffering": False} if kind == "dsp" else {}
    table = {"network": {"layers": POSITION}, "machine": machine, "objective": {"minimise": "accesses"}}
    problem = Problem.model_validate(table)
    result = tw.solve(problem, time_limit=20)
    # The layer reads 18 inputs and 8 weights and gives 24; each of two cores reads all inputs of its rows.
    assert (result.status, result.objective) == ("optimal", {"dsp": 50, "npu": 64}[kind] + 16 + 4)
    report = tw.simulate(problem, result, numeric=True)
    assert report.numeric is True and report.not_computed == ()


@pytest.mark.parametrize(
    ("kernel", "padding", "over_plane"),
    [((4, 5), (0, 0, 0, 0), True), ((6, 5), (1, 1, 0, 0), True), ((3, 5), (0, 0, 0, 0), False)],
)
def test_only_pools_over_all_of_a_plane_are_streams(
    kernel: tuple[int, int], padding: tuple[int, ...], over_plane: bool
) -> None:
    layer = {"name": "p", "kind": "pool", "input": [2, 4, 5], "kernel": kernel, "padding": padding}
    layers = [NETWORK[3] | {"input": [2, 4, 5], "kernels": 2}, layer | {"stride": [2, 1]}]
    machine = {"kind": "dsp", "memory_bytes": 400, "vector_ops_per_cycle": 4}
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
    operation = problem.parts[1].problem.one_operation
    assert (operation.output, operation.windowed) == ((2, 1, 1), not over_plane)
    assert operation.least_read == 2 * 5 * (4 if over_plane else 3)
    assert tw.simulate(problem, tw.solve(problem, time_limit=20), numeric=True).not_computed == ()


@pytest.mark.parametrize(
    ("parameters", "windowed"), [(4, True), (8, True), (1, False), (16, False), (64, False)]
)
def test_numbers_of_places_are_not_those_of_maps(parameters: int, windowed: bool) -> None:
    """16 numbers, one for each place of maps of 4 x 4, are not 4 of each map; nor are 64 values' own."""
    added = {"name": "added", "kind": "map", "op": "bias", "input": [4, 4, 4], "parameters": parameters}
    machine = {"kind": "dsp", "memory_bytes": 150, "vector_ops_per_cycle": 4}
    network = {"layers": [*NETWORK[:3], added]}
    problem = Problem.model_validate({"network": network, "machine": machine}).parts[-1].problem
    assert problem.one_operation.windowed == windowed
    assert kind_of(problem).best_bound(problem).value == 2 * 4 * 4 * 4 + parameters


def test_what_no_unit_does_stands_beside_the_total() -> None:
    with_vector, without = network("idsp", {"vector_ops_per_cycle": 4}), network("idsp", {})
    assert [each.name for each in with_vector.unmodelled] == ["found"]
    assert [each.name for each in without.unmodelled] == ["relu", "pool", "sum", "found"]
    result = tw.solve(without, time_limit=60)
    told = result.measures.to_json()["not_modelled"]
    moved = 2 * 256 + (256 + 64) + 3 * 64 + (64 + 10)
    assert told == {
        "operations": 4,
        "elements": moved,
        "bytes": 2 * moved,
        "macs": 7,
        "names": ["relu", "pool", "sum", "found"],
    }
    assert f"{moved:,} elements, {2 * moved:,} bytes, 7 MACs" in result.summary()


@pytest.mark.parametrize(
    "machine",
    [
        {"kind": "dsp", "memory_bytes": 14},
        {"kind": "npu", "input_bytes": 3, "element_bytes": 1, "tles": 2, "tlts": 1},
        {"kind": "hierarchy", "levels": [LEVELS[0], {**LEVELS[1], "capacity_bytes": 8}]},
    ],
)
def test_an_operation_of_which_no_tile_fits_refuses_no_other_one(machine: dict[str, Any]) -> None:
    """A maximum over 2 x 4 rows and columns flows through: each value once, at least."""
    layers: list[dict[str, Any]] = [
        {"name": "one", "input": [1, 1, 1], "kernels": 1, "kernel": [1, 1]},
        {"name": "pool", "kind": "pool", "input": [2, 6, 5], "kernel": [2, 4], "stride": [3, 1]},
    ]
    table = {"network": {"layers": layers}, "machine": machine | {"vector_ops_per_cycle": 4}}
    problem = Problem.model_validate(table | {"objective": {"minimise": "accesses"}})
    pool = problem.parts[-1].problem.one_operation
    assert pool.needs == "flow"
    under, given = 2 * 4 * 5, 2 * 2 * 2  # the third and the sixth row lie under no window
    assert pool.least == under + given
    part = problem.parts[-1].problem
    found = proven_best(part)
    plan = Plan(found.layers)
    assert simulate(part, plan).accesses == under + given
    assert at_least(part, plan)


def test_an_operation_that_has_no_room_at_all_is_refused() -> None:
    table = {"op": "moves", "inputs": [(1, 1, 2)], "output": (1, 1, 2), "needs": "flow"}
    machine = {"kind": "dsp", "memory_bytes": 2, "vector_ops_per_cycle": 4}
    with pytest.raises(InputError, match=r"smallest tile.*memory overflow"):
        Problem.model_validate({"operation": table, "machine": machine})


def test_a_vector_unit_stands_at_a_memory_that_holds_maps() -> None:
    with pytest.raises(InputError, match=r"machine.vector_level"):
        network("gap8", {"vector_ops_per_cycle": 4, "vector_level": "registers"})
    with pytest.raises(InputError, match=r"vector_op_pj"):
        network("small", {"vector_op_pj": 1.0})


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("machine", "method", "changes"),
    [
        ("idsp", "greedy", {}),
        ("idsp", "tiles@highs", {}),
        ("small", "exhaustive", {"objective": {"minimise": ["cycles", "accesses"], "tolerance": 0.1}}),
    ],
)
def test_every_method_and_list_takes_networks_with_operations(
    machine: str, method: str, changes: dict[str, Any]
) -> None:
    problem = network(machine, {"vector_ops_per_cycle": 4}, **changes)
    instance = Instance("tiling", "between", "", problem, digest("tiling", problem))
    result = tw.solve(instance, method, time_limit=30)
    assert result.status in ("optimal", "feasible") and result.simulated
    assert set(result.measures.to_json()["layers"]) == {"first", "pool", "second", "sum"}
    assert all(finding.state != "refuted" for finding in tw.check(instance, result))
    forms = json.loads((ROOT / "docs" / "tilewright.schema.json").read_text())
    one = {"$ref": "#/$defs/Result", "$defs": forms["$defs"]}
    jsonschema.Draft202012Validator(one).validate(json.loads(json.dumps(result.to_json())))


@pytest.mark.nightly
def test_tiles_of_operations_are_proven_beside_layers_whose_steps_need_not_divide() -> None:
    problem = network("small", {"vector_ops_per_cycle": 4}, limits={"factors": "any"})
    instance = Instance("tiling", "between", "", problem, digest("tiling", problem))
    result = tw.solve(instance, "exhaustive", time_limit=30)
    perfect = tw.solve(network("small", {"vector_ops_per_cycle": 4}), "exhaustive", time_limit=30)
    assert result.simulated
    assert result.bound <= result.objective <= perfect.objective
    assert all(finding.state != "refuted" for finding in tw.check(instance, result))
