"""Products of computed matrices, softmax and normalisations between layers, and bounds of any schedule."""

from __future__ import annotations

import random
from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import proven_best
from tests.fuzz.campaigns import tiling_problems as drawn
from tests.oracles import TooLarge, hierarchy
from tests.oracles import tiling as oracle

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.pebble_game import Work, pebble_game
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.spec.network import MatMul
from tilewright.tiling import Plan, Problem, at_least, kind_of, objective, simulate, violation
from tilewright.tiling.dsp.bounds import best_bound
from tilewright.tiling.dsp.nest import nest_of

NAMES = {"dsp": ["accesses", "cycles", "energy"], "npu": ["time", "accesses"]}
OF_HIERARCHIES = ["accesses", "cycles", "energy"]


def product(rng: random.Random, most: int = 6) -> list[dict[str, Any]]:
    """Return a product of two inputs, of groups of matrices each apart."""
    groups, rows, depth, columns = rng.choice([1, 1, 2, 3]), *(rng.randint(1, most) for _ in range(3))
    given = [groups * depth, 1, rows]
    one = {"kind": "matmul", "input": given, "output": [groups * columns, 1, rows], "groups": groups}
    return [
        {"name": "a", "kind": "input", "input": given},
        {"name": "b", "kind": "input", "input": [groups * columns, 1, depth]},
        {"name": "p", "inputs": ["a", "b"], "depth": depth, "batch": rng.choice([1, 1, 2]), **one},
    ]


def small_hierarchy(rng: random.Random) -> dict[str, Any]:
    """Return two memories and perhaps an array."""
    array = [
        {"name": "pes", "fanout": [{"size": 2, "over": ["output_maps", "columns"]}]},
        {"name": "register", "capacity_bytes": 1, "holds": ["weights"]},
    ]
    return {
        "kind": "hierarchy",
        "mac_pj": 1.0,
        "levels": [
            {"name": "dram", "read_pj_per_byte": 50.0, "bytes_per_cycle": 2.0},
            {"name": "buffer", "capacity_bytes": rng.randint(8, 60), "read_pj_per_byte": 2.0},
            *(array if rng.random() < 0.4 else []),
        ],
    }


def network(layers: list[dict[str, Any]], machine: dict[str, Any], minimise: str) -> Problem:
    table = {"input": [1, 1, 1], "layers": layers}
    return Problem.model_validate({"network": table, "machine": machine, "objective": {"minimise": minimise}})


@settings(max_examples=examples(300, 6))
@given(st.integers(0, 2**32))
def test_a_product_is_tiled_as_the_layer_that_it_is(seed: int) -> None:
    """Its least cost is that of all plans, which are executed with numbers; the total is not "at least"."""
    rng = random.Random(seed)
    kind = rng.choice(["dsp", "npu", "hierarchy"])
    machine = {"dsp": drawn.dsp, "npu": drawn.npu, "hierarchy": small_hierarchy}[kind](rng)
    layers = product(rng, 3 if kind == "hierarchy" else 6)
    try:
        problem = network(layers, machine, rng.choice(NAMES.get(kind, OF_HIERARCHIES)))
    except InputError as error:
        assert "fit" in str(error) or "prices" in str(error)
        return
    ((name, part),), told = problem.parts, problem.model_dump(mode="json")
    assert name == "p" and part.layer == MatMul.model_validate(layers[-1]).unnamed()
    try:
        if kind == "hierarchy":
            one = oracle.as_layer(told["network"]["layers"][-1], told)
            least = hierarchy.best(part.model_dump(mode="json") | {"layer": one})
        else:
            ((judge, one),) = oracle.parts(told)
            least = judge.best(one)
    except TooLarge:
        return
    found = kind_of(part).exhaustive(part, float("inf"))
    assert (None if found is None else found.value) == least
    if found is None:
        return
    plan = Plan(found.layers)
    assert kind_of(part).best_bound(part).value <= found.value
    assert at_least(problem, plan) == {}
    report = simulate(part, plan, numeric=True)
    assert report.violation is None and report.numeric is True
    assert kind_of(part).measured_objective(part, report) == least


@settings(max_examples=examples(300, 12))
@given(st.integers(0, 2**32))
def test_the_layer_computes_the_product(seed: int) -> None:
    """Its weights are the second operand, its groups the pairs of matrices of all images."""
    rng = random.Random(seed)
    layer = MatMul.model_validate(product(rng)[-1])
    groups = layer.groups * layer.batch
    values = np.random.default_rng(seed)
    first = values.integers(-8, 9, (groups, layer.rows, layer.depth))
    second = values.integers(-8, 9, (groups, layer.depth, layer.columns))
    own = layer.unnamed()
    inputs = first.transpose(0, 2, 1).reshape(own.input_shape)
    kernels = second.transpose(0, 2, 1).reshape(own.kernels_shape)
    found = reference_convolution(own, inputs, kernels)
    expected = (first @ second).transpose(0, 2, 1)
    assert np.array_equal(found.reshape(expected.shape), expected)
    assert own.macs == layer.macs


@settings(max_examples=examples(300, 6))
@given(st.integers(0, 2**32))
def test_no_plan_of_a_product_moves_less_than_any_schedule_must(seed: int) -> None:
    """The bound is at least that of Smith et al., and holds for the best of all plans, of groups together."""
    rng = random.Random(seed)
    machine = {"kind": "dsp", "element_bytes": 1, "double_buffering": rng.random() < 0.3}
    machine["memory_bytes"] = rng.randint(6, 90)
    try:
        problem = network(product(rng, rng.choice([4, 8])), machine, "accesses")
    except InputError as error:
        assert "fit" in str(error)
        return
    (part,) = (part for _, part in problem.parts)
    room = part.machine.buffer_capacity
    bound = best_bound(nest_of(part.one_layer, part.machine), "accesses", 0).accesses
    assert bound >= 2 * part.one_layer.macs / sqrt(room) - 2 * room
    try:
        ((judge, one),) = oracle.parts(problem.model_dump(mode="json"))
        assert bound <= judge.best(one)
    except TooLarge:
        assert bound <= proven_best(part).value


@pytest.mark.parametrize("groups", [1, 7])
@pytest.mark.parametrize("side", [5, 30, 200, 1000])
def test_more_memory_never_needs_more(side: int, groups: int) -> None:
    """And blocks of rows and columns that leave room for one row of each operand are near the bound."""
    layer = Layer(input=(groups * side, 1, side), kernels=groups * side, kernel=(1, 1), groups=groups)
    work, before = Work.of(layer), None
    for room in (3, 4, 5, 8, 12, 20, 50, 121, 400, 10_000, 10**6):
        bound = pebble_game(work, room).accesses
        assert before is None or bound <= before
        before = bound
        assert bound >= 2 * layer.macs / sqrt(room) - 2 * room
        block = max(each for each in range(1, side + 1) if each**2 + 2 * each <= room or each == 1)
        trips = -(-side // block)
        assert bound <= groups * (side**2 + 2 * side**2 * trips)


# Softmax and normalisations ------------------------------------------------------------------------------


def along_some(rng: random.Random) -> dict[str, Any]:
    """Return a function whose values need all others along some axes."""
    shape = [rng.randint(1, 6) for _ in range(3)]
    axes = [axis for axis in ("channels", "rows", "columns") if rng.random() < 0.5]
    op = rng.choice(["softmax", "layer_normalization", "instance_normalization"])
    macs = rng.choice([0, 1, 3, 4]) * prod(shape)
    return {"name": "f", "kind": "function", "op": op, "input": shape, "output": shape, "along": axes,
            "macs": macs}  # fmt: skip


@settings(max_examples=examples(300, 12))
@given(st.integers(0, 2**32))
def test_what_needs_all_along_an_axis_is_tiled_along_the_others(seed: int) -> None:
    rng = random.Random(seed)
    machine = rng.choice([drawn.dsp, drawn.npu])(rng) | {"vector_ops_per_cycle": rng.choice([1, 3, 8])}
    machine |= {"register_file_bytes": 0} if machine["kind"] == "dsp" else {}
    for field in ("energy", "bits"):
        machine.pop(field, None)
    names = {"dsp": ["accesses", "cycles", "energy"], "npu": ["time", "accesses"]}[machine["kind"]]
    layers = [along_some(rng)]
    table = {"network": {"layers": layers}, "machine": machine, "objective": {"minimise": rng.choice(names)}}
    try:
        problem = Problem.model_validate(table)
    except InputError as error:
        assert "smallest tile does not fit" in str(error)
        return
    ((_, part),), ((judge, told),) = problem.parts, oracle.parts(problem.model_dump(mode="json"))
    try:
        least = judge.best(told)
    except TooLarge:
        return
    found = proven_best(part)
    plan = Plan(found.layers)
    if least is None:
        assert at_least(part, plan)
        return
    assert found.value == least == judge.cost(told, found.layers[0].to_json())
    assert not at_least(part, plan) and kind_of(part).best_bound(part).value <= least
    assert violation(part, plan) is None and objective(part, plan) == least
    report = simulate(part, plan)
    assert kind_of(part).measured_objective(part, report) == least


def block(tokens: int, width: int, heads: int) -> list[dict[str, Any]]:
    """Return a block of a transformer: attention and a layer of twice the width, with normalisations."""
    shape, scores = [width, 1, tokens], [heads * tokens, 1, tokens]

    def along(name: str, source: str, op: str, given: list[int], parameters: int = 0) -> dict[str, Any]:
        table = {"name": name, "kind": "function", "op": op, "inputs": [source], "input": given}
        more = {"parameters": parameters, "macs": 3 * prod(given), "along": ["channels"]}
        return table | more | {"output": given}

    def dense(name: str, source: str, outputs: int, inputs: int = width) -> dict[str, Any]:
        table = {"name": name, "inputs": [source], "input": [inputs, 1, tokens], "kernels": outputs}
        return table | {"kernel": [1, 1], "bias": True}

    first = {"input": shape, "output": scores, "groups": heads, "depth": width // heads}
    second = {"input": scores, "output": shape, "groups": heads, "depth": tokens, "transposed": True}
    return [
        along("norm1", "input", "layer_normalization", shape, 2 * width),
        dense("query", "norm1", width), dense("key", "norm1", width), dense("value", "norm1", width),
        {"name": "scores", "kind": "matmul", "inputs": ["query", "key"], **first},
        along("shares", "scores", "softmax", scores),
        {"name": "mixed", "kind": "matmul", "inputs": ["shares", "value"], **second},
        dense("joined", "mixed", width),
        {"name": "sum1", "kind": "add", "inputs": ["input", "joined"], "input": shape},
        along("norm2", "sum1", "layer_normalization", shape, 2 * width),
        dense("wide", "norm2", 2 * width),
        {"name": "gelu", "kind": "map", "op": "gelu", "input": [2 * width, 1, tokens]},
        dense("narrow", "gelu", width, 2 * width),
        {"name": "sum2", "kind": "add", "inputs": ["sum1", "narrow"], "input": shape},
    ]  # fmt: skip


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("machine", "minimise"), [("idsp", "cycles"), ("nmp", "time"), ("gap8", "cycles")])
@pytest.mark.parametrize(("tokens", "width", "heads"), [(16, 32, 2), (197, 192, 3), (128, 768, 12)])
def test_the_time_of_a_block_of_a_transformer_is_proven(
    machine: str, minimise: str, tokens: int, width: int, heads: int
) -> None:
    """Of ViT-Tiny and BERT-Base, but for the width of their layers: no part is but a lower bound."""
    table = catalogue.shared("machines", machine) | {"vector_ops_per_cycle": 8}
    objective_of = {"minimise": minimise}
    given = {"network": {"layers": block(tokens, width, heads)}, "machine": table, "objective": objective_of}
    result = tw.solve(Problem.model_validate(given), time_limit=120)
    assert (result.status, result.at_least, result.gap) == ("optimal", None, 0)
    assert result.measures.to_json().get("not_modelled") is None


@pytest.mark.parametrize(
    ("op", "axes", "parameters", "known"),
    [
        ("layer_normalization", ["channels"], 8, True),
        ("layer_normalization", ["columns"], 8, False),  # of maps, or of columns
        ("instance_normalization", ["rows", "columns"], 8, True),
        ("softmax", ["columns"], 0, True),
        ("softmax", ["channels", "rows", "columns"], 0, False),  # 96 values do not fit
    ],
)
def test_numbers_of_a_normalisation_are_read_once(
    op: str, axes: list[str], parameters: int, known: bool
) -> None:
    """4 maps of 3 x 4 in 60 bytes; where a tile could need other numbers, the cost is but a lower bound."""
    layer = {"name": "f", "kind": "function", "op": op, "input": [4, 3, 4], "output": [4, 3, 4]}
    layer |= {"along": axes, "parameters": parameters, "macs": 144}
    machine = {"kind": "dsp", "element_bytes": 1, "memory_bytes": 60, "double_buffering": False}
    table = {"network": {"layers": [layer]}, "machine": machine | {"vector_ops_per_cycle": 2}}
    result = tw.solve(Problem.model_validate(table | {"objective": {"minimise": "accesses"}}), time_limit=20)
    assert result.objective == 2 * 48 + parameters
    assert (result.status, result.at_least is None) == ("optimal" if known else "feasible", known)
