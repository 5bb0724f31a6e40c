"""What one pixel is added up of, pass by pass: global pools and fully connected layers of maps."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from residency_cases import agrees_with_an_oracle, optimum, problem_of, survives
from tests.codegen.residency_in_c import SANITIZED, assert_right
from tests.fuzz.networks import read_inside, reduced
from tests.oracles import residency as residency_oracle
from tests.residency.test_residency_shapes import executed, whole

from tilewright.residency import Plan, Problem, Step, objective, simulate, violation
from tilewright.residency.shapes.shape import Shape, step_buffers
from tilewright.run import instance
from tilewright.spec.errors import InputError

Json = dict[str, Any]

CONV = {"name": "conv", "input": [3, 8, 6], "kernels": 5, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
"""144 elements in, 135 weights, 240 out."""

POOL = {"name": "pool", "kind": "pool", "op": "average", "input": [5, 8, 6], "kernel": [8, 6]}
FC = {"name": "fc", "input": [5, 8, 6], "kernels": 7, "kernel": [8, 6], "bias": True}
"""7 x (240 + 1) weights and biases."""

DEPTHWISE = FC | {"name": "depthwise", "kernels": 5, "groups": 5}
"""5 x (48 + 1) weights and biases."""


def sizes(problem: Problem, shape: Shape) -> dict[str, int]:
    """Return the sizes of all buffers of a step of all operations, nothing being whole on chip."""
    graph = problem.graph
    return {each.name(graph): each.size for each in step_buffers(whole(problem), shape, ())}


def test_a_pool_adds_up_a_convolution_by_hand() -> None:
    """A pixel at a time: 2 rows and 3 pixels of the input, one pixel of the map, 5 sums of 4 elements."""
    problem = problem_of({"layers": [CONV, POOL]}, 1000)
    step = Shape("pixels", 1, 1, frozenset([0]), running=True)
    assert executed(problem, whole(problem), step) == 144 + 135 + 5
    assert sizes(problem, step) == {
        "lines of input": 3 * (2 * 6 + 3),
        "lines of conv": 5,
        "weights of conv": 135,
        "block of pool": 5 * 4,
    }
    largest = problem_of({"layers": [CONV, POOL | {"op": "max"}]}, 1000)
    assert sizes(largest, step)["block of pool"] == 5
    # Strips of two columns read a column more on each side; none is added twice.
    strips = replace(step, columns=2)
    assert executed(problem, whole(problem), strips) == 3 * 8 * (3 + 4 + 3) + 135 + 5
    assert sizes(problem, strips)["lines of input"] == 3 * (2 * 4 + 3)


def test_a_fully_connected_layer_reads_its_weights_pixel_by_pixel() -> None:
    problem = problem_of({"layers": [CONV, FC]}, 3000)
    step = Shape("pixels", 2, 3, frozenset([0]), running=True)
    assert executed(problem, whole(problem), step) == 144 + 135 + 7 * 241 + 7
    found = sizes(problem, step)
    assert found["weights of fc"] == 3 * (5 * 2 + 1)
    assert found["block of fc"] == 7 * 4
    # Weights of the convolution are loaded for each of four passes of two rows, those of the layer once.
    rows = Shape("pixels", 12, 1, frozenset(), running=True)
    assert executed(problem, whole(problem), rows) == 144 + 4 * 135 + 7 * 241 + 7


def test_blocks_of_channels_have_running_values_of_their_own() -> None:
    pool = problem_of({"layers": [POOL]}, 1000)
    step = Shape("kernels", 1, 2, running=True)
    assert executed(pool, whole(pool), step) == 240 + 5
    assert sizes(pool, step) == {"lines of input": 2, "block of pool": 2 * 4}
    depthwise = problem_of({"layers": [DEPTHWISE]}, 1000)
    assert executed(depthwise, whole(depthwise), step) == 240 + 5 * 49 + 5
    assert sizes(depthwise, step) == {
        "lines of input": 2,
        "weights of depthwise": 2 * 2,
        "block of depthwise": 2 * 4,
    }
    layer = problem_of({"layers": [FC]}, 1000)
    assert executed(layer, whole(layer), step) == 4 * 240 + 7 * 241 + 7
    found = {"lines of input": 5, "weights of fc": 2 * 6, "block of fc": 2 * 4}
    assert sizes(layer, step) == found
    assert pool.least_memory == 1 + 4


def test_one_pass_at_a_time_is_loaded_beside_the_other() -> None:
    """The bus loads 30 elements a row, the core adds 30: nine slots of 30, and 5 elements at the end."""
    machine = {"memory_bytes": 200, "double_buffering": True, "bus_elements_per_cycle": 1}
    machine |= {"vector_ops_per_cycle": 1, "dma_setup_cycles": 0, "macs_per_cycle": 1}
    problem = Problem.model_validate({"network": {"layers": [POOL]}, "machine": machine})
    addresses = {"lines of input": 0, "block of pool": 60}
    step = Step(("pool",), pixels=6, written=("pool",), double_buffering=True, running=True)
    plan = Plan((replace(step, addresses=addresses),))
    survives(problem, plan)
    assert simulate(problem, plan).measures.cycles == 9 * 30 + 5


WRONG: list[tuple[Json, str]] = [
    ({"order": "tiles", "columns": 1, "channels": 1}, "running: step 1 (conv, fc) has running values, which"),
    ({"kept": ("conv", "fc")}, "weights: step 1 (conv, fc) keeps those of fc, which are read pixel by pixel"),
    ({"pixels": 49}, "pixels: step 1 (conv, fc) computes 49 at a time, there are 48"),
    ({"kept": (), "pixels": 4}, "pixels: step 1 (conv, fc) loads weights for each pass"),
    ({"columns": 4}, "columns: step 1 (conv, fc) strips of 4 are not the narrowest"),
    ({"running": False, "columns": 2}, "columns: step 1 (conv, fc) the output is one pixel; strips are of"),
    ({"double_buffering": True, "pixels": 6}, "double buffering: step 1 (conv, fc) adds up pixels in"),
]


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_what_steps_cannot_have_is_told(changes: Json, told: str) -> None:
    problem = problem_of({"layers": [CONV, FC]}, 3000).with_(machine={"double_buffering": True})
    step = Step(("conv", "fc"), kept=("conv",), written=("fc",), running=True)
    assert str(violation(problem, Plan((replace(step, **changes),)))).startswith(told)


@pytest.mark.parametrize(
    "last",
    [
        POOL | {"kernel": [8, 5]},
        POOL | {"kernel": [10, 6], "padding": [1, 1, 0, 0]},
        FC | {"kernels": 10, "groups": 5},
        {"name": "pool", "input": [5, 8, 6], "kernels": 2, "kernel": [1, 1]},
    ],
)
def test_other_layers_have_no_running_values(last: Json) -> None:
    """Where something else is one pixel of a plane, `grounds` say that it is not modelled."""
    problem = problem_of({"layers": [CONV, last]}, 1000)
    step = Step(("conv", last["name"]), kept=("conv",), written=(last["name"],), running=True)
    broken = violation(problem, Plan((step,)))
    assert broken is not None and broken.startswith("running: ")
    one = problem.graph.tensors[-1].pixels == 1
    assert (problem.grounds is not None) == one
    assert problem_of({"layers": [CONV, POOL]}, 1000).grounds is None


def test_running_sums_of_a_convolution_move_what_is_compulsory() -> None:
    """32 channels of 128 x 64 pixels: layer by layer the map goes out, and comes back."""
    layers = [
        {"name": "conv", "input": [3, 128, 64], "kernels": 32, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        {"name": "gap", "kind": "pool", "op": "average", "input": [32, 128, 64], "kernel": [128, 64]},
    ]
    problem = problem_of({"layers": layers}, 2048)
    assert objective(problem, optimum(problem)) == problem.graph.compulsory == 3 * 128 * 64 + 32 * 27 + 32


EXCITED = {"mbconv-64k": 351_936, "mbconv-again": 57_216}
"""Squeeze-and-excitation: the map that is pooled goes out and comes back, or is computed again."""


@pytest.mark.parametrize("name", EXCITED)
def test_squeeze_and_excitation(name: str) -> None:
    problem = instance.read(name).problem
    plan = optimum(problem)
    assert objective(problem, plan) == EXCITED[name]
    assert plan.steps[0].running and plan.steps[0].operations == ("expand", "depthwise", "squeeze")
    weights = {operation.name: operation.weights for operation in problem.graph.operations}
    moved = 2 * 192 * 28 * 28 if not plan.again else weights["expand"] + weights["depthwise"]
    assert EXCITED[name] == problem.graph.compulsory + moved


def random_problem(rng: random.Random, most: int) -> Problem:
    """Return a problem of planes that are added up, in a memory between the least and what holds all."""
    while True:
        network = read_inside(rng, reduced(rng, most, 4))
        machine = {"sum_bytes": rng.choice([1, 2, 4]), "element_bytes": rng.choice([1, 1, 2])}
        try:
            problem = problem_of(network, 10_000, machine=machine)
        except InputError:
            continue
        everything = sum(tensor.size for tensor in problem.graph.tensors)
        least, width = problem.least_memory, problem.machine.element_bytes
        return problem.with_(machine={"memory_bytes": width * rng.randint(least, least + everything)})


@pytest.mark.by_day(8)
@pytest.mark.parametrize("seed", range(examples(400)))
def test_the_search_agrees_with_an_oracle(seed: int) -> None:
    rng = random.Random(f"running values {seed}")
    agrees_with_an_oracle(rng, random_problem(rng, rng.choice([1, 2, 3, 3, 4])))


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
@pytest.mark.parametrize("last", [POOL, POOL | {"op": "max"}, FC, DEPTHWISE])
@pytest.mark.parametrize("columns", [None, 2])
def test_running_values_in_c(last: Json, columns: int | None, tmp_path: Path) -> None:
    """The program's outputs are those of the network, bit for bit."""
    tail = {"name": "tail", "input": [7 if last is FC else 5, 1, 1], "kernels": 3, "kernel": [1, 1]}
    problem = problem_of({"layers": [CONV, last, tail]}, 5000)
    name = str(last["name"])
    step = Step(("conv", name), pixels=2, kernels=3, kept=("conv",), resident=(name,), running=True)
    places = {"lines of input": 0, "lines of conv": 200, "weights of conv": 300, f"block of {name}": 500}
    places |= {name: 600} | ({} if "op" in last else {f"weights of {name}": 700})
    after = Step(("tail",), kept=("tail",), written=("tail",))
    more = {"weights of tail": 0, "block of tail": 100}
    steps = replace(step, columns=columns, addresses=places), replace(after, addresses=more)
    assert_right(tmp_path, problem, Plan(steps), 3, *SANITIZED)


def test_an_output_of_one_pixel_has_no_strips_of_its_own() -> None:
    """In eight elements a channel at a time is computed, and added up after that."""
    layers = [
        {"name": "l0", "input": [2, 1, 4], "kernels": 2, "kernel": [1, 1], "groups": 2},
        {"name": "l1", "input": [2, 1, 4], "kind": "pool", "op": "average", "kernel": [1, 4]},
    ]
    problem = problem_of({"layers": layers}, 8, machine={"sum_bytes": 2})
    assert objective(problem, optimum(problem)) == residency_oracle.best(problem.model_dump(mode="json"))
