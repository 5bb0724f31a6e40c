"""Products, softmax and normalisations row by row: attention whose scores are never all on chip."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from conftest import in_turn, nightly
from residency_cases import agrees_with_an_oracle, in_some_memory, optimum, problem_of, search, survives
from tests.fuzz import networks
from tests.oracles import TooLarge
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright.residency import Plan, Problem, objective, reference, simulate
from tilewright.residency.enumerated_steps import why_not
from tilewright.simulator.arithmetic.reference import product
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError
from tilewright.spec.network import MatMul

Json = dict[str, Any]


def attention(positions: int, width: int, heads: int = 1, *, rows: bool = False, first: bool = False) -> Json:
    """Return projections, scores, softmax and context of one input.

    Parameters
    ----------
    rows
        Whether products have shapes by heads, as files have them, with reshapes between.
    first
        Whether scores and softmax have positions of queries first, along which nobody computes rows.
    """
    deep = width // heads
    tokens, by_heads = [width, 1, positions], [heads, deep, positions]
    scores = [heads, positions, positions] if rows else [heads * positions, 1, positions]
    layers: list[Json] = [
        {"name": name, "inputs": ["input"], "input": tokens, "kernels": width, "kernel": [1, 1]}
        for name in ("query", "key", "value")
    ]
    query, key, value = "query", "key", "value"
    if rows:
        for name in (query, key, value):
            layers.append(
                {"name": f"heads of {name}", "kind": "reshape", "inputs": [name], "input": tokens}
                | {"output": by_heads}
            )
        query, key, value = (f"heads of {name}" for name in (query, key, value))
    along = ["columns" if first else "rows" if rows else "channels"]
    layers += [
        {"name": "scores", "kind": "matmul", "inputs": [query, key], "input": by_heads if rows else tokens}
        | {"output": scores, "groups": heads, "depth": deep, "transposed": False},
        {"name": "softmax", "kind": "function", "op": "softmax", "input": scores, "output": scores}
        | {"along": along},
        {"name": "context", "kind": "matmul", "inputs": ["softmax", value], "input": scores}
        | {"output": by_heads if rows else tokens, "groups": heads, "depth": positions, "transposed": True},
    ]
    if rows:
        layers.append({"name": "joined", "kind": "reshape", "input": by_heads, "output": tokens})
    layers.append({"name": "out", "input": tokens, "kernels": width, "kernel": [1, 1]})
    return {"layers": layers[:-1] if heads == 1 and not rows else layers, "input": tokens}


def found(problem: Problem) -> int:
    """Return the least traffic, which the simulator confirms."""
    return objective(problem, optimum(problem))


@pytest.mark.parametrize(
    ("positions", "width", "elements", "traffic"),
    [
        (32, 8, 1_000, 704),
        *[
            pytest.param(*each, marks=nightly)
            for each in (
                (256, 64, 54_592, 45_056),
                (256, 64, 38_272, 77_824),
                (512, 64, 104_768, 77_824),
                (512, 64, 72_064, 143_360),
            )
        ],
    ],
)
def test_attention_moves_what_a_plan_by_hand_moves(
    positions: int, width: int, elements: int, traffic: int
) -> None:
    assert found(problem_of(attention(positions, width), elements)) <= traffic


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("positions", "elements", "traffic"),
    [
        *((256, 1024, 1_306_624), (256, 2048, 864_256), (256, 4096, 618_496), (256, 8192, 471_040)),
        *((256, 16384, 339_968), (256, 32768, 208_896), (256, 65536, 45_056)),
        *((512, 1024, 4_501_504), (512, 2048, 2_961_408), (512, 4096, 2_043_904), (512, 8192, 1_519_616)),
        *((512, 16384, 995_328), (512, 32768, 667_648), (512, 65536, 405_504)),
    ],
)
def test_the_page_tells_what_attention_moves_in_some_memory(
    positions: int, elements: int, traffic: int
) -> None:
    problem = problem_of(attention(positions, 64), elements)
    assert problem.least_memory == 15
    assert problem.with_(limits={"tiles": False}).least_memory == 458
    answer = search(problem)
    assert answer.plan is not None and answer.bound == objective(problem, answer.plan) == traffic
    assert tw.residency.violation(problem, answer.plan) is None


def test_the_least_memory_of_attention_has_a_query_a_key_and_what_has_been_added_up() -> None:
    sums = (8 + 2) * 4  # context, maximum and sum
    least = 8 + 2 * 8 + 2 + sums  # a query, its key and value, score and exponential
    problem = problem_of(attention(34, 8), least, limits={"tiles": False})
    assert problem.least_memory == least
    assert problem.grounds is None
    plan = optimum(problem)
    (together,) = [step for step in plan.steps if "context" in step.operations]
    assert together.operations == ("scores", "softmax", "context")
    assert (together.pixels, together.keys, together.blocks) == (1, 1, True)
    report = simulate(problem, plan)
    # Each query passes all keys and values.
    assert report.measures.steps_of_plan["scores+softmax+context"].loaded_bytes == 34 * (8 + 2 * 34 * 8)


def test_the_least_memory_of_tiles_has_a_score_a_value_and_what_has_been_added_up() -> None:
    least = 3 + (1 + 2) * 4  # score, exponential, value; a column of the context, maximum and sum
    problem = problem_of(attention(16, 4), least)
    assert problem.least_memory == least
    plan = optimum(problem)
    (end,) = [step for step in plan.steps if "context" in step.operations]
    assert end.operations == ("softmax", "context")
    assert (end.pixels, end.kernels, end.keys, end.blocks) == (1, 1, 1, True)
    report = simulate(problem, plan)
    # For each of 4 columns of the context, all scores and, for each query, a column of the values.
    assert report.measures.steps_of_plan["softmax+context"].loaded_bytes == 2 * 4 * 16 * 16


def test_a_product_that_does_not_say_how_its_second_operand_is_stored_has_all_of_it_on_chip() -> None:
    network = attention(16, 8)
    for layer in network["layers"]:
        layer.pop("transposed", None)
    problem = problem_of(network, 16 * 8 + 8 + 16)
    assert problem.least_memory == 16 * 8 + 8 + 16
    assert problem.grounds == (
        "plans in which scores and context have the second operand on chip, and not in blocks"
    )


def step_of(plan: Plan, operation: str) -> Any:
    """Return the step that executes an operation."""
    return next(step for step in plan.steps if operation in step.operations)


def by_keys(keys: int, **changes: Any) -> tuple[Problem, Plan]:
    """Return attention of a query at a time, and its plan with some keys at a time."""
    layers = [layer for layer in attention(6, 2)["layers"] if layer.get("kind")]
    inputs = [{"name": name, "kind": "input", "input": [2, 1, 6]} for name in ("query", "key", "value")]
    machine = {"sum_bytes": 1, "vector_ops_per_cycle": 1, **changes}
    problem = problem_of({"layers": [*inputs, *layers], "input": [2, 1, 6]}, 64, machine=machine)
    sizes = {"lines of query": 2, "lines of scores": keys, "lines of softmax": keys}
    sizes |= {"operand of scores": 2 * keys, "operand of context": 2 * keys, "partial sums of context": 4}
    addresses, end = {}, 0
    for name, size in sizes.items():
        addresses[name] = end
        end += size
    operations = ("scores", "softmax", "context")
    step = tw.residency.Step(operations, written=("context",), keys=keys, blocks=True, addresses=addresses)
    return problem, Plan((step,))


@pytest.mark.parametrize("keys", range(1, 7))
def test_keys_pass_by_in_blocks_of_any_size(keys: int) -> None:
    problem, plan = by_keys(keys)
    survives(problem, plan)
    measures = simulate(problem, plan).measures
    assert measures.memory_bytes == 2 + 2 * keys + 4 * keys + 4
    assert (
        measures.traffic_bytes == 6 * 2 + 6 * (12 + 12) + 6 * 2
    )  # queries; keys and values of each; context
    blocks = -(-6 // keys)
    # A softmax is an operation for each score; each block but the first rescales a sum and two values.
    macs, vectors = 2 * 6 * 6 * 2, 6 * 6 + 6 * (blocks - 1) * 3
    assert measures.cycles == -(-(macs + measures.traffic_bytes) // 32) + vectors + 4 * 150


def causal_by_keys(pixels: int, keys: int) -> tuple[Problem, Plan]:
    """Return the same attention with a causal mask, some queries a pass, some keys at a time."""
    problem, plan = by_keys(keys)
    layers = [layer.model_dump(exclude_none=True) for layer in problem.network.layers]
    numbers = {"op": "add", "shape": [6, 1, 6], "causal": 0}
    mask = {"name": "mask", "kind": "map", "op": "fused", "inputs": ["scores"], "input": [6, 1, 6]}
    layers.insert(-2, mask | {"parameters": 36, "numbers": numbers})
    layers[-2]["inputs"] = ["mask"]
    machine = problem.machine.model_copy(update={"memory_bytes": 200})
    masked = Problem(network={"layers": layers, "input": [2, 1, 6]}, machine=machine)
    sizes = {
        "lines of query": 2 * pixels,
        "lines of scores": pixels * keys,
        "lines of softmax": pixels * keys,
    }
    sizes |= {"operand of scores": 2 * keys, "operand of context": 2 * keys}
    sizes |= {"partial sums of context": 4 * pixels}
    addresses, end = {}, 0
    for name, size in sizes.items():
        addresses[name] = end
        end += size
    (step,) = plan.steps
    return masked, Plan((replace(step, pixels=pixels, addresses=addresses),))


@pytest.mark.parametrize(("pixels", "keys"), [(1, 1), (1, 6), (2, 1), (2, 4), (3, 2), (6, 1)])
def test_keys_that_no_query_of_a_pass_sees_are_neither_loaded_nor_computed(pixels: int, keys: int) -> None:
    problem, plan = causal_by_keys(pixels, keys)
    survives(problem, plan)
    measures = simulate(problem, plan).measures
    seen = sum(end for end in range(pixels, 7, pixels))  # keys that the last query of each pass sees
    assert measures.traffic_bytes == 6 * 2 + seen * (2 + 2) + 6 * 2
    assert measures.macs == (1 + 2 + 3 + 4 + 5 + 6) * (2 + 2)
    blocks = sum(-(-row // keys) - 1 for row in range(1, 7))
    vectors = 21 + blocks * 3  # exponentials, and what is brought to new maxima
    assert measures.cycles == -(-(measures.macs + measures.traffic_bytes) // 32) + vectors + 4 * 150


def test_a_causal_mask_is_none_of_the_numbers_that_are_moved() -> None:
    problem, _ = causal_by_keys(1, 1)
    assert problem.graph.compulsory == 6 * 2 * 4
    (each,) = problem.graph.attentions
    assert len(each.operations) == 3
    whole = problem.with_(objective={"minimise": "cycles"})
    (step,) = optimum(whole).steps
    assert step.keys is not None  # though all keys fit on chip, those that nobody sees are not computed


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"op": "add", "shape": [6, 1, 6], "causal": 1}, "numbers.causal"),
        ({"op": "mul", "shape": [6, 1, 6], "causal": 0}, "numbers.causal"),
        ({"op": "add", "shape": [4, 1, 6]}, "numbers.shape"),
        ({"op": "add", "shape": [6, 1, 3]}, "numbers.shape"),
        ({"op": "add", "shape": [3, 1, 6]}, "parameters"),
    ],
)
def test_numbers_of_places_that_cannot_be_are_refused(numbers: Json, field: str) -> None:
    mask = {"name": "mask", "kind": "map", "op": "fused", "input": [6, 1, 6], "parameters": 36}
    with pytest.raises(InputError, match=field):
        problem_of({"layers": [{"name": "c", "input": [6, 1, 6], "kernels": 6, "kernel": [1, 1]},
                               mask | {"numbers": numbers}], "input": [6, 1, 6]}, 100)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("operand of scores", "partial sums of context"),
        ("operand of scores", "lines of query"),
        ("operand of context", "lines of softmax"),
        ("lines of scores", "partial sums of context"),
        ("lines of softmax", "partial sums of context"),
    ],
)
def test_what_is_overwritten_while_keys_pass_by_is_noticed(name: str, over: str) -> None:
    problem, plan = by_keys(2)
    (step,) = plan.steps
    changed = Plan((replace(step, addresses={**step.addresses, name: step.addresses[over]}),))
    assert not simulate(problem, changed, numeric=True).valid
    assert "overlap" in str(tw.residency.violation(problem, changed))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"keys": 7}, "keys"),
        ({"blocks": False}, "keys"),
        ({"pixels": 4}, "pixels"),
        ({"columns": 3}, "blocks"),
        ({"operations": ("scores", "softmax")}, "keys"),
        ({"double_buffering": True}, "double buffering"),
    ],
)
def test_steps_in_blocks_are_refused_if_they_cannot_be(change: Json, rule: str) -> None:
    problem, plan = by_keys(2, double_buffering=True)
    step = replace(plan.steps[0], **change)
    if "operations" in change:
        step = replace(step, written=("softmax",))
    violation = tw.residency.violation(problem, Plan((step,)))
    assert violation is not None and violation.startswith(rule), violation


@pytest.mark.parametrize(("elements", "keys"), [(12, 1), (17, 1), (18, 2), (22, 2), (23, None)])
def test_cycles_have_the_fewest_blocks_of_keys_that_fit(elements: int, keys: int | None) -> None:
    problem, _ = by_keys(1)
    timed = problem.with_(objective={"minimise": "cycles"}, machine={"memory_bytes": elements})
    assert step_of(optimum(timed), "softmax").keys == keys  # whole rows rescale nothing


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(400))
def test_attention_agrees_with_an_oracle_apart(seed: int) -> None:
    rng = random.Random(f"attention {seed}")
    problem = problem_of(
        networks.Attention(rng).network(), 2**20, machine={"sum_bytes": rng.choice([1, 1, 2, 4])}
    )
    problem = in_some_memory(rng, problem)
    if rng.random() < 0.5:
        problem = problem.with_(machine={"memory_bytes": problem.least_memory + rng.randint(0, 12)})
    try:
        graph = oracle.Graph(problem.model_dump(mode="json"))
    except TooLarge:
        pytest.skip("the oracle does not know copies of slices")
    assert [each.chain for each in graph.attention] == [each.operations for each in problem.graph.attentions]
    agrees_with_an_oracle(rng, problem)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(400))
def test_networks_by_heads_are_executed_row_by_row(seed: int) -> None:
    rng = random.Random(f"rows {seed}")
    network, executed = networks.ByRows(rng).networks()
    problem = problem_of(network, 2**20, machine={"sum_bytes": rng.choice([1, 1, 2, 4])})
    problem = in_some_memory(rng, problem)
    if rng.random() < 0.5:
        problem = problem.with_(machine={"memory_bytes": problem.least_memory + rng.randint(0, 12)})
    told = problem.model_dump(mode="json") | {"network": executed}
    graph = oracle.Graph(told)
    assert [op.name for op in graph.ops] == [op.name for op in problem.graph.operations]
    assert graph.shapes == [tensor.shape for tensor in problem.graph.tensors]
    assert [each.chain for each in graph.attention] == [each.operations for each in problem.graph.attentions]
    agrees_with_an_oracle(rng, problem, executed)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_shapes_by_heads_cost_what_shapes_by_rows_cost(heads: int) -> None:
    by_heads = problem_of(attention(16, 8, heads, rows=True), 600)
    assert [operation.name for operation in by_heads.graph.operations] == [
        "query", "key", "value", "scores", "softmax", "context", "out",
    ]  # fmt: skip
    by_rows = attention(16, 8, heads)
    out = {"name": "out", "input": [8, 1, 16], "kernels": 8, "kernel": [1, 1]}
    by_rows["layers"] = [layer for layer in by_rows["layers"] if layer["name"] != "out"] + [out]
    assert found(by_heads) == found(problem_of(by_rows, 600))
    shapes = [tensor.shape for tensor in by_heads.graph.tensors]
    assert shapes[4:7] == [(heads * 16, 1, 16), (heads * 16, 1, 16), (8, 1, 16)]


def test_a_softmax_along_the_positions_of_queries_needs_all_of_them() -> None:
    problem = problem_of(attention(16, 8, 2, rows=True, first=True), 2000)
    graph = problem.graph
    assert graph.tensors[[tensor.name for tensor in graph.tensors].index("scores")].shape == (2, 16, 16)
    softmax = next(operation for operation in graph.operations if operation.name == "softmax")
    assert [reading.extent for reading in softmax.readings] == [None]
    found(problem)


def test_readers_of_windows_keep_the_shape_that_they_read() -> None:
    network = attention(16, 8, 2, rows=True)
    network["layers"] = [layer for layer in network["layers"] if layer["name"] not in ("joined", "out")]
    pool = {"name": "pool", "kind": "pool", "input": [2, 4, 16], "kernel": [2, 2], "stride": [2, 2]}
    network["layers"].append(pool)
    problem = problem_of(network, 2000)
    assert problem.graph.tensors[-2].shape == (2, 4, 16)
    found(problem)


def test_cycles_of_attention_are_counted_and_proven() -> None:
    network = attention(16, 8)
    problem = problem_of(network, 2000, objective={"minimise": "cycles"})
    macs = 3 * 16 * 8 * 8 + 2 * 16 * 16 * 8
    report = simulate(problem, optimum(problem))
    assert report.measures.macs == macs


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_product_is_that_of_matrices(transposed: bool, groups: int) -> None:
    rng = np.random.default_rng(groups)
    rows, deep, columns = 5, 4, 6
    layer = MatMul.model_validate(
        {"name": "p", "kind": "matmul", "inputs": ["a", "b"], "input": [groups * deep, 1, rows]}
        | {"output": [groups * columns, 1, rows], "groups": groups, "depth": deep, "transposed": transposed}
    )
    left, right = rng.integers(-9, 9, (groups, rows, deep)), rng.integers(-9, 9, (groups, deep, columns))
    stored = right.transpose(0, 2, 1) if transposed else right
    wanted = (left @ right).transpose(0, 2, 1)
    assert prod(wanted.shape) == prod(layer.output)
    assert (product(layer, left.transpose(0, 2, 1), stored).reshape(wanted.shape) == wanted).all()
    some = product(layer, left.transpose(0, 2, 1)[:, :, 1:3], stored)
    assert (some.reshape(groups, columns, 2) == wanted[:, :, 1:3]).all()


def test_a_pass_may_have_all_rows_of_a_product() -> None:
    layer = {"name": "p", "kind": "matmul", "inputs": ["input", "k"], "input": [4, 1, 3], "depth": 4}
    key = {"name": "k", "kind": "input", "input": [4, 1, 2]}
    problem = problem_of({"layers": [key, layer | {"output": [2, 1, 3]}], "input": [4, 1, 3]}, 100)
    (step,) = optimum(problem).steps
    places = {"lines of k": 0, "lines of input": 8, "block of p": 20}
    survives(problem, Plan((replace(step, pixels=3, addresses=places),)))


TOKENS, HEADS = [4, 1, 6], [2, 2, 6]


def reshape(name: str, source: str, given: list[int], output: list[int], op: str = "reshape") -> Json:
    """Return a layer that gives the same values in another shape."""
    return {"name": name, "kind": "reshape", "op": op, "inputs": [source], "input": given, "output": output}


def projection(name: str, source: str = "input", kernels: int = 4) -> Json:
    """Return a convolution of 1x1 of tokens."""
    return {"name": name, "inputs": [source], "input": TOKENS, "kernels": kernels, "kernel": [1, 1]}


def scores(first: str, second: str, given: list[int], output: list[int]) -> Json:
    """Return the product of queries and keys in two heads."""
    table = {"name": "scores", "kind": "matmul", "inputs": [first, second], "input": given}
    return table | {"output": output, "groups": 2, "depth": 2, "transposed": False}


def executed(layers: list[Json]) -> tuple[list[str], Problem]:
    """Return the names of operations, and the problem with memory enough."""
    problem = problem_of({"layers": layers, "input": TOKENS}, 1000)
    graph = problem.graph
    return [op.name for op in graph.numbers(graph.all & ~graph.begin)], problem


def test_heads_of_slices_are_read_in_their_projection() -> None:
    layers = [projection("all", kernels=12)]
    for number, name in enumerate(("query", "key", "value")):
        part = {"kind": "slice", "inputs": ["all"], "input": [12, 1, 6], "output": TOKENS}
        layers.append({"name": name, "first": [4 * number, 0, 0], **part})
        layers.append(reshape(f"{name} by heads", name, TOKENS, HEADS))
    layers += [
        scores("query by heads", "key by heads", HEADS, [2, 6, 6]),
        {"name": "context", "kind": "matmul", "inputs": ["scores", "value by heads"], "input": [2, 6, 6]}
        | {"output": HEADS, "groups": 2, "depth": 6, "transposed": True},
    ]
    names, problem = executed(layers)
    assert names == ["all", "scores", "context"]
    assert [op.parts for op in problem.graph.operations] == [{}, {1: ((0, 8),)}, {1: ((8, 12),)}]
    found(problem)


def test_channels_of_a_reshape_are_those_of_what_it_reads() -> None:
    layers = [projection("query"), projection("key"), reshape("heads", "query", TOKENS, HEADS)]
    layers += [
        scores("heads", "key", HEADS, [2, 6, 6]),
        {"name": "context", "kind": "matmul", "inputs": ["scores", "key"], "input": [2, 6, 6]}
        | {"output": HEADS, "groups": 2, "depth": 6, "transposed": True},
        reshape("joined", "context", HEADS, TOKENS),
        {"name": "cut", "kind": "slice", "inputs": ["joined"], "input": TOKENS, "output": [2, 1, 6]}
        | {"first": [2, 0, 0]},
        {"name": "out", "inputs": ["cut"], "input": [2, 1, 6], "kernels": 1, "kernel": [1, 1]},
    ]
    names, problem = executed(layers)
    assert names == ["query", "key", "scores", "context", "out"]
    assert problem.graph.operations[-1].parts == {4: ((2, 4),)}
    found(problem)


def test_reshapes_of_copies_have_the_values_of_all_copies() -> None:
    copies = {"name": "copies", "kind": "function", "op": "expand", "inputs": ["key"], "input": [2, 1, 6]}
    layers = [projection("query"), projection("key", kernels=2), copies | {"output": TOKENS}]
    layers += [reshape("heads", "copies", TOKENS, HEADS), scores("query", "heads", TOKENS, [12, 1, 6])]
    names, problem = executed(layers)
    assert names == ["query", "key", "heads", "scores"]
    found(problem)


def test_a_softmax_of_copies_gives_as_many_values_as_it_reads() -> None:
    copies = {"name": "copies", "kind": "function", "op": "expand", "inputs": ["key"], "input": [2, 1, 6]}
    softmax = {"name": "softmax", "kind": "function", "op": "softmax", "input": TOKENS, "output": TOKENS}
    names, problem = executed(
        [projection("key", kernels=2), copies | {"output": TOKENS}, softmax | {"along": ["rows"]}]
    )
    assert names == ["key", "softmax"]
    assert problem.graph.tensors[-1].shape == (4, 1, 6)
    found(problem)


def test_tokens_in_parts_are_normalised_and_multiplied_pixel_by_pixel() -> None:
    joined = {"kind": "function", "op": "concat", "output": [4, 1, 7]}
    layers = [
        {"name": "class", "kind": "input", "input": [4, 1, 1]},
        {"name": "tokens", "inputs": ["class", "input"], "input": [4, 1, 1], **joined},
        {"name": "norm", "kind": "function", "op": "layer_normalization", "inputs": ["tokens"]}
        | {"input": [4, 1, 7], "output": [4, 1, 7], "along": ["channels"]},
    ]
    names, problem = executed(layers)
    assert names == ["norm"] and problem.least_memory == 4 + 4 + 4  # a pixel of each part and of the output
    found(problem)
    layers[2] = scores("tokens", "key", [4, 1, 7], [12, 1, 7])
    names, problem = executed([layers[0], projection("key"), *layers[1:]])
    assert names == ["key", "scores"]
    assert [reading.extent for reading in problem.graph.operations[-1].readings] == [(1, 1), (1, 1), None]
    found(problem)


def test_a_product_goes_over_copies_row_by_row() -> None:
    copies = {"name": "copies", "kind": "function", "op": "expand", "inputs": ["key"], "input": [2, 1, 6]}
    layers = [projection("query"), projection("key", kernels=2), copies | {"output": TOKENS}]
    names, problem = executed([*layers, scores("copies", "query", TOKENS, [12, 1, 6])])
    assert names == ["query", "key", "copies", "scores"]
    readings = problem.graph.operations[-1].readings
    assert [reading.extent for reading in readings] == [(1, 1), None]
    found(problem)


def test_scores_that_are_transposed_have_their_rows_in_another_order() -> None:
    layers = [projection("query"), projection("key"), scores("query", "key", TOKENS, [2, 6, 6])]
    product_of = {"name": "context", "kind": "matmul", "output": TOKENS, "groups": 2, "depth": 6}
    layers += [reshape("turned", "scores", [2, 6, 6], [2, 6, 6], "transpose")]
    first = product_of | {"inputs": ["turned", "key"], "input": [2, 6, 6], "transposed": True}
    names, problem = executed([*layers, first])
    assert names == ["query", "key", "scores", "turned", "context"]
    found(problem)
    second = {"inputs": ["query", "turned"], "input": TOKENS, "output": [36, 1, 6], "depth": 2}
    assert "turned" not in executed([*layers, product_of | second | {"groups": 2, "transposed": False}])[0]


def drawn(rng: random.Random) -> Problem:
    """Return a problem at random in which there are products."""
    while True:
        network = networks.Products(rng).network()
        if any(layer.get("kind") == "matmul" for layer in network["layers"]):
            problem = problem_of(network, 2**20)
            if len(problem.graph.operations) < 7:
                return in_some_memory(rng, problem)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("seed", range(400))
def test_products_agree_with_an_oracle_apart(seed: int) -> None:
    rng = random.Random(f"products {seed}")
    problem = drawn(rng)
    try:
        graph = oracle.Graph(problem.model_dump(mode="json"))
    except TooLarge:
        pytest.skip("the oracle does not tell what becomes part of what")
    assert [op.name for op in graph.ops] == [op.name for op in problem.graph.operations]
    assert graph.shapes == [tensor.shape for tensor in problem.graph.tensors]
    agrees_with_an_oracle(rng, problem)


METHODS = ["columns_arcs@cpsat", "columns_intervals@highs", "columns_divide@gecode"]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(40))
def test_other_methods_agree_of_products(seed: int) -> None:
    problem = drawn(random.Random(f"methods of products {seed}"))
    expected = tw.solve(problem, "states", time_limit=60, confirm=False)
    small = reference.why_not(problem) is None and len(problem.graph.operations) < 5
    methods = in_turn(METHODS, seed) if why_not(problem) is None else []
    for method in [*methods, *(["reference@gecode"] if small and seed % 4 == 0 else [])]:
        try:
            found = tw.solve(problem, method, time_limit=60, confirm=False, warm_start="none")
        except SolverMissingError as error:
            pytest.skip(str(error))
        except TilewrightError as error:
            assert "can be told apart" in str(error) or "MiniZinc counts to" in str(error)
            continue
        told = f"{method}: {problem.model_dump_json()}"
        if "optimal" == found.status == expected.status:
            assert found.objective == expected.objective, told
        if found.bound is not None and expected.objective is not None:
            assert found.bound <= expected.objective, told


def by_heads(name: str, heads: int, deep: int, count: int) -> Json:
    """Return the reshape of tokens by heads."""
    return reshape(f"{name} by heads", name, [heads * deep, 1, count], [heads, deep, count])


def heads_of(query: str, key: str, value: str, heads: int, deep: int, rows: int, keys: int) -> list[Json]:
    """Return scores, softmax and context by heads, and the tokens that these give."""
    shape, product_of = [heads, keys, rows], {"kind": "matmul", "groups": heads}
    return [
        {"name": "scores", "inputs": [query, key], "input": [heads, deep, rows], "output": shape}
        | {"depth": deep, "transposed": False, **product_of},
        {"name": "softmax", "kind": "function", "op": "softmax", "input": shape, "output": shape}
        | {"along": ["rows"]},
        {"name": "context", "inputs": ["softmax", value], "input": shape, "output": [heads, deep, rows]}
        | {"depth": keys, "transposed": True, **product_of},
        reshape("joined", "context", [heads, deep, rows], [heads * deep, 1, rows]),
    ]


def vision_block(rows: int, width: int, heads: int) -> Json:
    """Return a block of a vision transformer, without its normalisations."""
    tokens, deep = {"input": [width, 1, rows], "kernel": [1, 1]}, width // heads
    layers: list[Json] = []
    for name in ("query", "key", "value"):
        layers += [{"name": name, "inputs": ["input"], "kernels": width, **tokens}]
        layers += [by_heads(name, heads, deep, rows)]
    layers += heads_of("query by heads", "key by heads", "value by heads", heads, deep, rows, rows)
    layers += [
        {"name": "out", "kernels": width, **tokens},
        {"name": "sum", "kind": "add", "inputs": ["out", "input"], "input": [width, 1, rows]},
        {"name": "up", "kernels": 4 * width, **tokens},
        {"name": "down", "kernels": width, **tokens, "input": [4 * width, 1, rows]},
        {"name": "end", "kind": "add", "inputs": ["down", "sum"], "input": [width, 1, rows]},
    ]
    return {"layers": layers, "input": [width, 1, rows]}


def decoder_step(rows: int, past: int, width: int, heads: int, shared: int) -> Json:
    """Return attention in which several heads share keys and values, of which some lie in a cache."""
    deep, own, keys = width // heads, heads // shared, rows + past
    tokens = {"inputs": ["input"], "input": [width, 1, rows], "kernel": [1, 1]}
    layers: list[Json] = [{"name": "query", "kernels": width, **tokens}, by_heads("query", heads, deep, rows)]
    for name in ("key", "value"):
        layers += [{"name": name, "kernels": own * deep, **tokens}]
        source = name
        if past:
            shape, source = [own * deep, 1, past], f"every {name}"
            layers += [{"name": f"past {name}", "kind": "input", "inputs": [], "input": shape}]
            joined = {"inputs": [f"past {name}", name], "input": shape, "output": [own * deep, 1, keys]}
            layers += [{"name": source, "kind": "function", "op": "concat", **joined}]
        copies = {"name": f"copies of {name}", "kind": "function", "op": "expand", "input": [own, deep, keys]}
        layers += [by_heads(source, own, deep, keys)]
        layers += [copies | {"inputs": [f"{source} by heads"], "output": [heads, deep, keys]}]
    layers += heads_of("query by heads", "copies of key", "copies of value", heads, deep, rows, keys)
    return {"layers": layers, "input": [width, 1, rows]}


@pytest.mark.parametrize(
    ("network", "elements"),
    [
        (vision_block(16, 16, 8), 300),
        (vision_block(16, 16, 8), 3000),
        (decoder_step(16, 0, 16, 8, 4), 400),
        (decoder_step(1, 15, 16, 8, 4), 300),
    ],
)
def test_blocks_of_transformers_run_in_little_memory(network: Json, elements: int) -> None:
    problem = problem_of(network, elements)
    (each,) = problem.graph.attentions
    scores = problem.graph.operations[each.scores].second
    assert scores is not None and each.groups == 8
    shared = any("copies" in layer["name"] for layer in network["layers"])
    assert scores.matrices == (2 if shared else 8)
    found(problem)
