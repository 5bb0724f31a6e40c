"""Operations of which a lower bound alone is known: no plan with one is optimal, and everybody says so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import tilewright as tw
from tilewright.core import catalogue
from tilewright.report import page
from tilewright.run.instance import Instance, digest
from tilewright.tiling import Plan, Problem, violation
from tilewright.tiling.operations.plan import OperationPlan

RELU = {"name": "relu", "kind": "map", "op": "relu"}
SOFTMAX = {"name": "softmax", "kind": "map", "op": "softmax"}
SMALL: dict[str, Any] = {"kind": "dsp", "memory_bytes": 4096, "vector_ops_per_cycle": 8}
HOST = {"cycles_per_byte": 0.5}


def instance(layers: list[dict[str, Any]], machine: dict[str, Any] = SMALL, **more: Any) -> Instance:
    table = {"network": {"layers": layers}, "machine": machine, "objective": {"minimise": "accesses"}, **more}
    problem = Problem.model_validate(table)
    return Instance("tiling", "net", "", problem, digest("tiling", problem))


def both(maps: int, rows: int = 1) -> list[dict[str, Any]]:
    shape = {"input": [maps, rows, 1]}
    return [RELU | shape, SOFTMAX | shape]


def product(side: int, **more: Any) -> list[dict[str, Any]]:
    """Return a product of two square matrices as a function, which no room knows anything of."""
    shape = [side, 1, side]
    given: list[dict[str, Any]] = [RELU | {"input": shape}, {"name": "w", "kind": "input", "input": shape}]
    inputs = {"inputs": ["relu", "w"], "input": shape, "output": shape}
    return [*given, {"name": "p", "kind": "function", "op": "einsum", "macs": side**3, **inputs} | more]


def reduced(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an operation that makes one value of a map of 6,400."""
    shape = {"input": [1, 80, 80]}
    return [RELU | shape, {"name": "one", **shape} | table]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("layers", "objective", "why"),
    [
        # 65,536 values do not fit into 2,048 elements: some are read twice, and 131,072 are too few.
        (both(65536), 4 * 65536, "not all of it fits on chip"),
        (product(512), 5 * 512**2, "not all of it fits on chip"),
        (reduced({"kind": "pool", "kernel": [80, 80]}), 3 * 6400 + 1, "not all that one output depends on"),
        (reduced({"kind": "function", "op": "reduce_l2", "output": [1, 1, 1]}), 3 * 6400 + 1, "not all that"),
    ],
)
def test_what_does_not_fit_costs_at_least_so_much(layers: Any, objective: int, why: str) -> None:
    problem = instance(layers)
    result = tw.solve(problem, time_limit=20)
    name = layers[-1]["name"]
    assert (result.status, result.objective, result.bound, result.gap) == (
        "feasible", objective, objective, None,
    )  # fmt: skip
    assert list(result.at_least or ()) == [name]
    assert f"at least {objective:,} elements" in result.summary()
    assert f"{name}: {why}" in result.summary()
    assert "at least" in page(problem, result) and "Not known, as the cost is but a lower bound" in page(
        problem, result
    )
    assert tw.Result.from_json(json.loads(json.dumps(result.to_json()))).at_least == result.at_least
    assert all(finding.state != "refuted" for finding in tw.check(problem, result))
    for wrong in (
        replace(result, status="optimal", gap=0.0, at_least=None),  # as it was told before
        replace(result, gap=0.0, at_least=None),
        replace(result, status="optimal"),
    ):
        refuted = {finding.what for finding in tw.check(problem, wrong) if finding.state == "refuted"}
        assert refuted & {"status", "at least"}


@pytest.mark.parametrize("layers", [both(512), both(512, 40), product(16)])
def test_what_fits_is_exact(layers: Any) -> None:
    result = tw.solve(instance(layers), time_limit=20)
    assert (result.status, result.at_least) == ("optimal", None)


def test_a_softmax_takes_all_maps_of_a_place_and_a_product_everything() -> None:
    """In tiles that 2,048 elements, half of them for the next tile, hold."""
    wide = instance(both(256, 40)).problem
    softmax = wide.parts[1].problem
    assert softmax.one_operation.windowed
    for tile, fits in (((256, 2, 1), True), ((128, 4, 1), False), ((256, 3, 1), False)):
        assert (violation(softmax, Plan((OperationPlan(tile),))) is None) == fits
    whole = instance(product(16)).problem.parts[1].problem
    for size, fits in ((256, True), (128, False)):
        assert (violation(whole, Plan((OperationPlan((1, 1, size)),))) is None) == fits


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({"op": "slice", "inputs": ["relu"], "output": [2, 1, 512]}, 2 * 1024),
        ({"op": "gather", "inputs": ["relu"], "output": [2, 1, 512]}, 1 + 1024),
        ({"op": "mul", "macs": 0}, 3 * 512**2),
        ({"op": "mul", "macs": 0, "inputs": ["relu", "few"]}, 2 * 512**2 + 512),
        ({"op": "mul", "macs": 0, "inputs": ["maps", "relu"]}, 2 * 512**2 + 512),
    ],
    ids=["slice", "gather", "alike", "broadcast", "maps"],
)
def test_functions_that_are_known_read_what_they_need(changes: dict[str, Any], moved: int) -> None:
    """A slice reads what it gives; what is picked may be one value; values side by side need no others.

    Nor do they where each map has one more.
    """
    few = {"name": "few", "kind": "input", "input": [1, 1, 512]}
    maps = {"name": "maps", "kind": "input", "input": [512, 1, 1]}
    relu, other, last = product(512, **changes)
    if changes.get("inputs") == ["maps", "relu"]:
        last["input"] = maps["input"]
    problem = instance([relu, other, few, maps, last])
    part = problem.problem.parts[-1].problem.one_operation
    assert part.least == moved
    result = tw.solve(problem, time_limit=20)
    known = changes["op"] != "gather" and "few" not in changes.get("inputs", ())
    assert (result.status == "optimal") == known


@pytest.mark.parametrize(
    "machine",
    [
        {"kind": "npu", "input_bytes": 256, "output_bytes": 256, "vector_ops_per_cycle": 8},
        {
            "kind": "hierarchy",
            "levels": [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 4000}],
            "vector_ops_per_cycle": 8,
        },
        {"kind": "dsp", "memory_bytes": 4096, "host": HOST},
    ],
    ids=["npu", "hierarchy", "host"],
)
def test_every_machine_says_so(machine: dict[str, Any]) -> None:
    result = tw.solve(instance(product(256), machine), time_limit=20)
    assert (result.status, list(result.at_least or ())) == ("feasible", ["p"])


def test_bursts_of_a_transposition_are_more_than_those_of_a_stream() -> None:
    shape = {"input": [64, 1, 64], "output": [64, 64, 1]}
    layers = [RELU | {"input": [64, 1, 64]}, {"name": "t", "kind": "reshape", "op": "transpose", **shape}]
    layers += [SOFTMAX | {"input": [64, 64, 1]}]
    machine = {"kind": "npu", "input_bytes": 128, "output_bytes": 128, "vector_ops_per_cycle": 8}
    for objective, known in (("accesses", True), ("time", False)):
        result = tw.solve(instance(layers, machine, objective={"minimise": objective}), time_limit=20)
        assert (result.status == "optimal") == known
        assert list(result.at_least or ()) == ([] if known else ["t"])


@pytest.mark.parametrize(("op", "known"), [("layer_normalization", True), ("lstm", False)])
def test_residency_has_all_that_a_function_reads_on_chip(op: str, known: bool) -> None:
    """So that each value is moved once; but the state of a recurrent layer is nowhere."""
    shape = {"input": [8, 1, 8], "output": [8, 1, 8]}
    layers = [RELU | {"input": [8, 1, 8]}, {"name": "f", "kind": "function", "op": op, **shape}]
    machine = {"memory_bytes": 4096, "element_bytes": 1}
    room = catalogue.room("residency")
    problem = room.problem_type.model_validate({"network": {"layers": layers}, "machine": machine})
    result = tw.solve(problem, time_limit=20)
    assert (result.status, list(result.at_least or ())) == (("optimal", []) if known else ("feasible", ["f"]))


@pytest.mark.parametrize("minimise", ["traffic", "cycles", "energy"])
@pytest.mark.parametrize("kind", ["matmul", "softmax", "einsum"])
def test_residency_counts_the_time_of_products_and_normalisations(kind: str, minimise: str) -> None:
    """Other functions with MACs may do anything."""
    shape = {"name": "p", "input": [8, 1, 8], "output": [8, 1, 8]}
    layer: dict[str, Any] = {
        "matmul": {"kind": "matmul", "inputs": ["r", "r"], "depth": 8},
        "softmax": {"kind": "function", "op": "softmax", "along": ["channels"], "macs": 192},
        "einsum": {"kind": "function", "op": "einsum", "macs": 512},
    }[kind]
    layers = [RELU | {"name": "r", "input": [8, 1, 8]}, layer | shape]
    table = {"network": {"layers": layers}, "machine": {"memory_bytes": 4096, "element_bytes": 1}}
    problem = catalogue.room("residency").problem_type.model_validate(
        table | {"objective": {"minimise": minimise}}
    )
    result = tw.solve(problem, time_limit=20)
    known = kind != "einsum" or minimise == "traffic"
    assert result.at_least == (None if known else {"p": "its MACs are not counted"})
    assert result.status == ("optimal" if known else "feasible")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("host", "minimise"), [(None, "cycles"), (HOST, "cycles"), (HOST, "traffic")])
def test_fusion_knows_what_the_host_reads_and_writes(host: Any, minimise: str) -> None:
    """A price of bytes is that of two functions, each of which reads and writes 256."""
    layers = [
        {"name": "c", "input": [4, 8, 8], "kernels": 4, "kernel": [1, 1]},
        {"name": "f", "kind": "function", "op": "grid_sample", "input": [4, 8, 8], "output": [4, 8, 8]},
        SOFTMAX | {"input": [4, 8, 8]},
    ]
    machine = catalogue.shared("machines", "dnnvm-zu2") | ({} if host is None else {"host": host})
    table = {"network": {"layers": layers}, "machine": machine, "objective": {"minimise": minimise}}
    result = tw.solve(catalogue.room("fusion").problem_type.model_validate(table), time_limit=20)
    assert (result.status, result.at_least) == ("optimal", None)
    assert result.measures.host_cycles == (None if host is None else 2 * 256)
    if minimise == "cycles":
        alone = tw.solve(
            catalogue.room("fusion").problem_type.model_validate(
                table | {"machine": catalogue.shared("machines", "dnnvm-zu2")}
            )
        )
        assert result.objective == alone.objective + (0 if host is None else 2 * 256)


@pytest.mark.parametrize("minimise", ["cycles", "accesses", "energy"])
def test_a_host_has_an_exact_time_and_unknown_traffic(minimise: str) -> None:
    layer = {"name": "f", "kind": "function", "op": "grid_sample", "input": [4, 8, 8], "output": [4, 8, 8]}
    for op, known in (("grid_sample", minimise == "cycles"), ("gather", False)):
        machine = catalogue.shared("machines", "idsp") | {"host": HOST}
        table = {"network": {"layers": [layer | {"op": op}]}, "machine": machine}
        result = tw.solve(
            Problem.model_validate(table | {"objective": {"minimise": minimise}}), time_limit=20
        )
        assert (result.at_least is None) == known
        assert result.status == ("optimal" if known else "feasible")
        if known:
            assert result.objective == 512  # values of two bytes
