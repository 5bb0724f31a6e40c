"""Operations that read some channels of a tensor move those alone: by hand, and against an oracle apart."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from conftest import examples
from residency_cases import agrees_with_an_oracle, in_some_memory, optimum, problem_of, search, survives
from tests.fuzz.networks import network
from tests.oracles import residency as oracle

from tilewright.residency import Problem, objective, simulate, traffic_curve
from tilewright.run.solve import solve
from tilewright.simulator.arithmetic.network_executor import convolve, execute_graph, layer_output
from tilewright.spec.errors import InputError, SolverMissingError
from tilewright.spec.graph import Operation
from tilewright.spec.network import OWN_INPUT

Json = dict[str, Any]


def part(name: str, source: str, whole: list[int], first: int, channels: int) -> Json:
    """Return a layer that is some channels of another one."""
    output = [channels, *whole[1:]]
    table = {"name": name, "kind": "slice", "inputs": [source], "input": whole, "output": output}
    return table | {"first": [first, 0, 0]}


def split_in_four(before: list[Json]) -> Json:
    """Return four convolutions of a quarter of what is there, which the network gives together."""
    layers, source = list(before), before[-1]["name"] if before else "input"
    for place in range(4):
        layers.append(part(f"p{place}", source, [16, 8, 8], 4 * place, 4))
        conv = {"name": f"c{place}", "inputs": [f"p{place}"], "input": [4, 8, 8], "kernels": 4}
        layers.append(conv | {"kernel": [3, 3], "padding": [1, 1, 1, 1]})
    return {"layers": layers, "input": [16, 8, 8]}


def in_groups(before: list[Json]) -> Json:
    """Return one convolution in four groups."""
    conv = {"name": "c", "input": [16, 8, 8], "kernels": 16, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    return {"layers": [*before, {**conv, "groups": 4}]}


MOVED = 2 * 16 * 64 + 16 * 4 * 9
"""Elements of the input, the output and the weights."""

FIRST = {"name": "a", "input": [16, 8, 8], "kernels": 16, "kernel": [1, 1], "groups": 16}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("memory", [350, 1500])
def test_a_split_costs_what_groups_cost(memory: int) -> None:
    split, groups = (problem_of(net([]), memory) for net in (split_in_four, in_groups))
    assert [op.name for op in split.graph.operations] == ["c0", "c1", "c2", "c3"]
    assert split.graph.compulsory == groups.graph.compulsory == MOVED
    assert objective(split, optimum(split)) == MOVED
    # In a small memory groups are computed block by block, for each of which all channels are read.
    assert (search(groups).bound == MOVED) == (memory == 1500)


def test_parts_of_a_tensor_that_is_computed_are_loaded_alone() -> None:
    """The tensor of 1,024 is written once and read once, a quarter by each convolution."""
    problem = problem_of(split_in_four([FIRST]), 400, limits={"most_operations": 1})
    plan = optimum(problem)
    assert objective(problem, plan) == MOVED + 16 + 2 * 1024
    report = simulate(problem, plan)
    assert report.loaded["a"].tolist() == [0, 256, 256, 256, 256]
    lines = [step.on_chip_bytes.get("lines of a", 0) for step in report.measures.steps_of_plan.values()]
    assert max(lines) < 256


def test_what_is_fetched_is_loaded_as_far_as_it_is_still_read() -> None:
    """Of 6 channels the pool reads 4; the product, which is executed first, all but the first of these."""
    layers = [
        part("x", "input", [6, 4, 4], 0, 4),
        {"name": "pool", "kind": "pool", "op": "max", "inputs": ["x"], "input": [4, 4, 4], "kernel": [4, 4]},
    ]
    problem = problem_of({"layers": layers, "input": [6, 4, 4]}, 200)
    assert problem.graph.compulsory == 4 * 16 + 4
    plan = optimum(problem)
    assert objective(problem, plan) == 4 * 16 + 4


def test_values_of_one_tensor_may_be_multiplied_with_others_of_it() -> None:
    """A gate: the first half of the channels times the second. Its output takes the place of nothing."""
    layers = [
        {"name": "a", "input": [2, 4, 4], "kernels": 6, "kernel": [1, 1]},
        part("value", "a", [6, 4, 4], 0, 3),
        part("gate", "a", [6, 4, 4], 3, 3),
        {"name": "m", "kind": "mul", "inputs": ["value", "gate"], "input": [3, 4, 4]},
    ]
    problem = problem_of({"layers": layers}, 60)
    (_, product) = problem.graph.operations
    assert dict(product.parts) == {} and not product.channelwise
    assert objective(problem, optimum(problem)) == problem.graph.compulsory == 32 + 12 + 48


def test_slices_that_are_no_views_are_operations() -> None:
    """One that leaves the network, and one of rows."""
    cut = {"name": "rows", "kind": "slice", "inputs": ["a"], "input": [4, 4, 4], "output": [4, 2, 4]}
    layers = [
        {"name": "a", "input": [2, 4, 4], "kernels": 4, "kernel": [1, 1]},
        part("half", "a", [4, 4, 4], 0, 2),
        cut | {"first": [0, 1, 0]},
        {"name": "b", "inputs": ["rows"], "input": [4, 2, 4], "kernels": 1, "kernel": [1, 1]},
    ]
    problem = problem_of({"layers": layers}, 500)
    assert [op.name for op in problem.graph.operations] == ["a", "half", "rows", "b"]
    optimum(problem)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("limits", [{"frames": "many"}, {"executions": 2}])
def test_weights_may_stay_and_operations_be_repeated(limits: Json) -> None:
    optimum(problem_of(split_in_four([FIRST]), 800, limits=limits))


def test_the_curve_ends_where_all_is_moved_once() -> None:
    layers = [
        {"name": "a", "input": [1, 4, 4], "kernels": 4, "kernel": [1, 1]},
        part("p", "a", [4, 4, 4], 0, 2),
        part("q", "a", [4, 4, 4], 1, 3),
        {"name": "b", "inputs": ["p"], "input": [2, 4, 4], "kernels": 1, "kernel": [3, 3]},
        {"name": "c", "inputs": ["q"], "input": [3, 4, 4], "kernels": 1, "kernel": [3, 3]},
    ]
    curve = traffic_curve(problem_of({"layers": layers}, 100))
    assert curve.proven and curve.corners[-1].traffic_bytes == curve.compulsory_bytes == 16 + 4 + 45 + 8


def with_numbers(op: str, few: int, form: str) -> tuple[Json, Json]:
    """Return two convolutions side by side that meet numbers of the file, and the network as it is executed.

    Parameters
    ----------
    few
        Channels of the numbers.
    form
        Of the file: a concatenation joins the convolutions (``concat``), or the map reads both (``map``), or
        a part of the concatenation has some channels of both (``slice``).
    """
    plane, deep = [2, 3], 4 if form == "slice" else 6
    whole = [deep, *plane]
    convs: list[Json] = [
        {"name": name, "inputs": ["input"], "input": [3, *plane], "kernels": kernels, "kernel": [1, 1]}
        for name, kernels in (("a", 2), ("b", 4))
    ]
    join = {"name": "j", "kind": "concat", "inputs": ["a", "b"], "input": [6, *plane]}
    cut = part("s", "j", [6, *plane], 1, 4)
    given = {"name": "numbers of m", "kind": "input", "input": [few, *plane]}
    between = {"concat": [join], "slice": [join, cut], "map": []}[form]
    read = [between[-1]["name"]] if between else ["a", "b"]
    fused = {"name": "m", "kind": "map", "op": "fused", "inputs": read, "input": whole}
    fused |= {"parameters": few * 6, "numbers": {"op": op, "shape": [few, *plane]}}
    joined = between or [{**join, "name": "parts of m"}]
    executed = [*convs, *joined, given]
    executed.append({"name": "m", "kind": op, "inputs": [joined[-1]["name"], given["name"]], "input": whole})
    file, own = {"layers": [*convs, *between, fused]}, {"layers": executed}
    return file | {"input": [3, *plane]}, own | {"input": [3, *plane]}


@pytest.mark.parametrize("form", ["concat", "map", "slice"])
@pytest.mark.parametrize(("op", "few"), [("mul", 0), ("add", 0), ("mul", 2)])
def test_numbers_of_places_meet_what_is_joined_as_one_operand(op: str, few: int, form: str) -> None:
    """Its values are those of the file, computed apart; what is moved and computed is counted by hand."""
    deep = 4 if form == "slice" else 6
    few = few or deep
    problem = problem_of(with_numbers(op, few, form)[0], 200)
    (*_, last) = problem.graph.operations
    assert last.work.vectors == 1 and last.work.accesses == 3
    assert problem.graph.compulsory == 3 * 6 + 3 * 6 + few * 6 + deep * 6
    optimum(problem)
    rng = np.random.default_rng(0)
    image, numbers = rng.integers(-8, 9, (1, 3, 2, 3)), rng.integers(-8, 9, (1, few, 2, 3))
    weights = {name: rng.integers(-8, 9, (kernels, 3, 1, 1)) for name, kernels in (("a", 2), ("b", 4))}

    def computed(operation: Operation, read: list[Any]) -> Any:
        if operation.name == "m":  # operands of fewer channels have them again
            read = [np.tile(each, (1, deep // each.shape[1], 1, 1)) for each in read]
        return layer_output(operation.spec, read, lambda conv, x: convolve(conv, x, weights[conv.name]))

    own = execute_graph(problem.network_graph, {OWN_INPUT: image, "numbers of m": numbers}, computed)
    both = np.einsum("nchw,kc->nkhw", image, np.concatenate([*weights.values()])[:, :, 0, 0])
    both = both[:, 1:5] if form == "slice" else both
    again = np.tile(numbers, (1, deep // few, 1, 1))
    np.testing.assert_array_equal(own["m"], both * again if op == "mul" else both + again)


@pytest.mark.parametrize("seed", range(examples(60, 4)))
def test_numbers_of_places_behind_a_concatenation_agree_with_an_oracle(seed: int) -> None:
    rng = random.Random(f"numbers {seed}")
    op, few, form = rng.choice(["add", "mul"]), rng.choice([2, 6]), rng.choice(["concat", "map"])
    problem = problem_of(with_numbers(op, few, form)[0], 2**20, machine={"sum_bytes": rng.choice([1, 2])})
    problem = in_some_memory(rng, problem)
    executed = problem_of(with_numbers(op, 6, form)[1], 2**20).network
    told = executed.model_dump(mode="json")
    told["layers"][-2]["input"][0] = few  # operands in files have all channels
    graph = oracle.Graph(problem.model_dump(mode="json") | {"network": told})
    assert [op.name for op in graph.ops] == [op.name for op in problem.graph.operations]
    agrees_with_an_oracle(rng, problem, told)


def in_parts(rng: random.Random) -> Problem:
    """Return a problem of a few operations of which some read parts of tensors."""
    while True:
        kinds = rng.choice(["cxxxm", "ccxxxxaj", "cxxpdamj", "cxfxxa", "cxrxms"])
        layers = network(rng, 5, 3, rng.choice([2, 3, 4]), kinds, twice=False, back=rng.choice([2, 3, 5]))
        try:
            problem = problem_of({"layers": layers}, 2**20)
        except InputError:
            continue
        if problem.graph.read_in_parts:
            return in_some_memory(rng, problem)


@pytest.mark.by_day(9)
@pytest.mark.parametrize("seed", range(examples(80)))
def test_the_search_agrees_with_an_oracle_apart(seed: int) -> None:
    rng = random.Random(f"parts {seed}")
    agrees_with_an_oracle(rng, in_parts(rng))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("method", ["columns_intervals@highs", "columns_divide@gecode"])
@pytest.mark.parametrize("seed", range(examples(24)))
def test_formulations_agree(seed: int, method: str) -> None:
    problem = in_parts(random.Random(f"formulations {seed}")).with_(limits={"order": "given"})
    try:
        result = solve(problem, method, time_limit=60)
    except SolverMissingError as error:
        pytest.skip(str(error))
    assert result.status == "optimal" and result.bound == search(problem).bound
    survives(problem, result.plan)
