"""C in vectors: run with sanitizers, compared with the integer network and with executed inner loops."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from compiled import CHECKED
from conftest import examples, nightly, refused, tells
from numbered import Table, numbers
from test_emit import Case, run
from test_project import Built, assert_as_planned, assert_equal, needs_compiler
from tests.oracles import inner_loop as oracle
from tests.oracles import operation_loop as operation_oracle

from tilewright import codegen
from tilewright.codegen import QuantisedNetwork
from tilewright.tiling import Plan, Problem, violation
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop
from tilewright.tiling.dsp.plan import ORDERED, REUSES, DspPlan
from tilewright.tiling.operations.plan import OperationPlan

COUNTED = "vectors loaded, stored, multiplied"
"""What the program calls its counts of a layer."""

Sizes = tuple[int, ...]
Counts = tuple[int, int, int]


def problem_of(random: Random, layers: list[Table], unit: Table, element_bytes: int) -> Problem:
    machine: Table = {
        "kind": "dsp",
        "memory_bytes": 2**20,
        "element_bytes": element_bytes,
        "macs_per_cycle": unit["lanes"] * unit.get("mac_slots", 1),
        "bus_elements_per_cycle": unit["lanes"] * unit.get("memory_slots", 1),
        "double_buffering": random.random() < 0.7,
        "padding": random.choice(["loaded", "generated"]),
        "vector_unit": unit,
    }
    return Problem.model_validate({"network": {"layers": layers}, "machine": machine})


def some_layers(random: Random, count: int) -> list[Table]:
    """Return convolutions one after the other, of any kernel, stride, dilation, groups; and a last layer."""
    batch = random.choice([1, 2])
    shape = [random.choice([2, 4]), random.randint(6, 9), random.randint(6, 9)]
    layers: list[Table] = []
    for number in range(count):
        kernel = [random.randint(1, min(3, side)) for side in shape[1:]]
        stride = [random.choice([1, 1, 2]) for _ in kernel]
        pads = [random.randint(0, extent - 1) for extent in (kernel[0], kernel[0], kernel[1], kernel[1])]
        room = [side + sum(pads[2 * i : 2 * i + 2]) for i, side in enumerate(shape[1:])]
        dilation = [
            random.choice([1, 2]) if 2 * (extent - 1) < side else 1
            for extent, side in zip(kernel, room, strict=True)
        ]
        kernels = random.choice([2, 4, 6])
        layers.append(
            {
                "name": f"conv{number}",
                "input": list(shape),
                "kernels": kernels,
                "kernel": kernel,
                "stride": stride,
                "dilation": dilation,
                "padding": pads,
                "groups": random.choice([1, 1, 2]),
                "bias": random.random() < 0.5,
                "batch": batch,
            }
        )
        shape = [
            kernels,
            *(
                (side - (extent - 1) * gap - 1) // step + 1
                for side, extent, gap, step in zip(room, kernel, dilation, stride, strict=True)
            ),
        ]
    inputs = shape[0] * shape[1] * shape[2]
    return [*layers, {"name": "fc", "kind": "fc", "inputs": inputs, "outputs": 5, "batch": batch}]


def some_unit(random: Random) -> Table:
    return {
        "lanes": random.choice([1, 2, 4, 4, 8]),
        "registers": random.choice([5, 7, 9, 12, 28]),
        "unrolled_macs": 24,
        "mac_latency": random.randint(1, 8),
        "sums": random.choice(["reloaded", "kept"]),
    }


def some_loop(random: Random) -> InnerLoop:
    unroll = tuple(random.choice([1, 1, 2, 3, 4]) for _ in DIMENSIONS)
    taps = random.choice(["kernel", "row", "tap"])
    return InnerLoop(random.choice(DIMENSIONS), random.choice(DIMENSIONS), unroll, taps)  # type: ignore[arg-type]


def some_plan(random: Random, problem: Problem) -> Plan:
    """Return a plan of any tiles, orders, reuse and inner loops that there is C for."""
    found: list[Any] = []
    for _, part in problem.parts:
        if part.operation is not None:
            found.append(some_pool_plan(random, part))
            continue
        while True:
            loop, reuse = some_loop(random), random.choice(REUSES)
            tile = tuple(random.choice([1, 2, 3, 5, 99]) for _ in range(6))
            order = "".join(random.sample(ORDERED, len(ORDERED)))
            if loop.vector == "k":  # whose sums must stay on chip
                reuse, order = random.choice(REUSES[1:]), order.replace("k", "") + "k"
            one = DspPlan(tile, order, reuse, loop)
            if violation(part, Plan((one,))) is None:
                found.append(one)
                break
    return Plan(tuple(found))


def some_pools(random: Random, count: int) -> list[Table]:
    """Return pools of any window, stride, padding behind a convolution; the last may be over whole planes."""
    shape = [random.choice([2, 3, 5]), random.randint(6, 9), random.randint(6, 12)]
    layers: list[Table] = [
        {"name": "conv", "input": list(shape), "kernels": shape[0], "kernel": [1, 1], "batch": 2}
    ]
    for number in range(count):
        whole = number == count - 1 and random.random() < 0.4
        kernel = shape[1:] if whole else [random.randint(1, min(3, side)) for side in shape[1:]]
        pads = [0 if whole else random.randint(0, (extent - 1) // 2) for extent in kernel for _ in range(2)]
        stride = [random.choice([1, 1, 2, 3]) for _ in kernel]
        layers.append(
            {
                "name": f"pool{number}",
                "kind": "pool",
                "op": random.choice(["max", "average"]),
                "input": list(shape),
                "kernel": list(kernel),
                "stride": stride,
                "padding": pads,
            }
        )
        room = [side + sum(pads[2 * i : 2 * i + 2]) for i, side in enumerate(shape[1:])]
        steps = zip(room, kernel, stride, strict=True)
        shape = [shape[0], *((side - extent) // step + 1 for side, extent, step in steps)]
    return layers


def some_pool_plan(random: Random, part: Any) -> OperationPlan:
    """Return a plan of a pool, of any tile and inner loop."""
    while True:
        sizes = part.one_operation.output
        _, c, y, x, _ = some_loop(random).unroll
        loop = InnerLoop(
            random.choice("cyx"),
            random.choice("cyx"),
            (1, c, y, x, 1),
            random.choice(["kernel", "row", "tap"]),
        )
        tile = OperationPlan(tuple(random.randint(1, size) for size in sizes), loop)  # type: ignore[arg-type]
        if not part.one_operation.windowed:
            tile = OperationPlan((1, 1, random.randint(1, 2 * sizes[0])), loop)  # type: ignore[arg-type]
        if violation(part, Plan((tile,))) is None:
            return tile


def executed_pool(problem: Problem, part: Any, plan: OperationPlan) -> Counts:
    """Return loads and stores of a pool, each inner loop executed tile by tile; nothing is multiplied."""
    machine, operation = problem.machine, part.one_operation
    assert machine.kind == "dsp" and machine.vector_unit is not None and plan.inner_loop is not None
    unit, images = machine.vector_unit.model_dump(), operation.batch
    told = {"op": operation.op, "kernel": operation.kernel, "stride": operation.stride}
    told |= {"inputs": 1, "numbers": 0, "element_bytes": machine.element_bytes}
    if operation.windowed:
        cuts = [pieces(size, most) for size, most in zip(operation.output, plan.tile, strict=True)]
        tiles = [*product(*cuts)] * images
    else:  # all of a plane is a value, of all images one after the other
        told["kernel"] = operation.inputs[0][1:]
        tiles = [(size, 1, 1) for size in pieces(images * operation.output[0], plan.tile[2])]
    loads = stores = 0
    for sizes in tiles:
        run = operation_oracle.Run(unit, told, sizes, plan.inner_loop.to_json())
        stores += run.stores
        loads += run.transfers - run.stores
    return loads, stores, 0


def executed(problem: Problem, plan: Plan) -> dict[str, Counts]:
    """Return loads, stores and multiplications of each layer, each inner loop executed tile by tile."""
    machine = problem.machine
    assert machine.kind == "dsp" and machine.vector_unit is not None
    unit, found = machine.vector_unit.model_dump(), {}
    for part, planned in zip(problem.parts, plan.layers, strict=True):
        if isinstance(planned, OperationPlan):
            found[part.name] = executed_pool(problem, part.problem, planned)
            continue
        assert isinstance(planned, DspPlan) and planned.inner_loop is not None
        layer = part.problem.one_layer
        rows, columns = layer.output_plane
        sizes = (layer.groups, layer.batch, layer.kernels // layer.groups, rows, columns)
        whole = (*sizes, layer.input[0] // layer.groups)
        cuts = [pieces(size, most) for size, most in zip(whole, planned.tile, strict=True)]
        loads = stores = macs = 0
        known: dict[Sizes, oracle.Run] = {}
        for at in product(*(range(len(cut)) for cut in cuts)):
            g, n, c, y, x, k = tile = tuple(cut[i] for cut, i in zip(cuts, at, strict=True))
            if tile not in known:
                work = {
                    "sizes": (n, c, y, x, k),
                    "groups": g,
                    "kernel": layer.kernel,
                    "stride": layer.stride,
                    "dilation": layer.dilation,
                }
                known[tile] = oracle.Run(unit, work, planned.inner_loop.to_json())
            run = known[tile]
            _, begin, _, end = run.ends()
            biases = g * -(-c // unit["lanes"]) if planned.inner_loop.vector == "c" else 0
            first, last = at[5] == 0, at[5] == len(cuts[5]) - 1
            # The program loads biases when sums are complete, as they are not part of the accumulator.
            loads += run.loads + last * (end // 2 + biases)
            stores += run.stores + first * (begin - biases) + last * (end // 2)
            macs += run.macs
        found[part.name] = loads, stores, macs
    return found


def pieces(size: int, most: int) -> list[int]:
    """Return the sizes of tiles along a dimension: the smallest step that needs no more of them."""
    trips = -(-size // most)
    step = -(-size // trips)
    return [min(step, size - first) for first in range(0, size, step)]


def planned(folder: Path) -> list[tuple[int, int]]:
    """Return vectors moved and multiplied of each layer, by the model, as the program's text has them."""
    text = (folder / "src" / "network.c").read_text()
    rows = re.findall(r"Planned: ([\d,]+) vectors loaded and stored(?:, ([\d,]+) multiplied)?", text)
    return [(int(moved.replace(",", "")), int(macs.replace(",", "") or 0)) for moved, macs in rows]


def agree(seed: int, folder: Path, *flags: str) -> None:
    """Any network of convolutions, plan and loop does."""
    random = Random(seed)
    problem = problem_of(random, some_layers(random, 2), some_unit(random), random.choice([1, 2, 2, 4]))
    compare(random, problem, some_plan(random, problem), folder, *flags)


def compare(random: Random, problem: Problem, plan: Plan, folder: Path, *flags: str) -> None:
    """Compile and run the program of a plan: bit for bit the integer network, and the model's counts."""
    machine = problem.machine
    assert problem.network is not None and machine.kind == "dsp"
    most = min(8, 8 * machine.element_bytes), min(32, 8 * machine.element_bytes)
    network, _ = numbers(random, problem.network, most)
    drawn = np.random.default_rng(random.getrandbits(32))
    images = network.quantise(drawn.normal(0, 2, (3, *problem.network.layers[0].input)))
    values = QuantisedNetwork(network, images, None, "a test")
    built = Built(folder, codegen.project("a test", "", problem, plan, values), *flags)
    assert_equal(built, problem, values)
    counted = {name: built.told.pop(f"{name}, {COUNTED}") for name, _ in problem.parts}
    assert counted == executed(problem, plan)
    assert [(loads + stores, macs) for loads, stores, macs in counted.values()] == planned(folder)
    assert_as_planned(built, problem, plan)


def pools_agree(seed: int, folder: Path, *flags: str) -> None:
    """Any pools, tiles and loops do."""
    random = Random(seed)
    problem = problem_of(random, some_pools(random, 3), some_unit(random), random.choice([1, 2, 2, 4]))
    compare(random, problem, some_plan(random, problem), folder, *flags)


CORNERS: list[tuple[Table, DspPlan]] = [
    (  # rows stay from an iteration to the next; columns in some of the lanes; an edge along both
        {"input": [2, 9, 13], "kernels": 6, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        DspPlan((1, 1, 3, 5, 6, 2), "kncyx", "halo", InnerLoop("x", "y", (1, 1, 2, 2, 1))),
    ),
    (  # rows as lanes, four loads under their gaps, of which columns stay
        {"input": [6, 9, 13], "kernels": 4, "kernel": [3, 2], "stride": [2, 2], "dilation": [2, 2]},
        DspPlan((1, 3, 4, 3, 5, 6), "ncyxk", "tile", InnerLoop("y", "x", (1, 1, 1, 2, 1))),
    ),
    (  # three images in four lanes; a body that is larger than the tile at the edge
        {"input": [4, 3, 6], "kernels": 5, "kernel": [2, 2], "padding": [1, 0, 0, 0]},
        DspPlan((1, 3, 3, 3, 5, 4), "ncyxk", "none", InnerLoop("n", "y", (1, 3, 2, 1, 1))),
    ),
    (  # sums stay while input maps are added up, some of them in a tile of their own
        {"input": [5, 3, 5], "kernels": 10, "kernel": [1, 3], "padding": [0, 0, 1, 1], "bias": True},
        DspPlan((1, 2, 6, 3, 3, 3), "kncyx", "none", InnerLoop("c", "k", (1, 2, 1, 3, 1), "row")),
    ),
    (  # a vector of input maps for each sum, which stays from tile to tile
        {"kind": "fc", "inputs": 150, "outputs": 7, "bias": True},
        DspPlan((1, 3, 4, 1, 1, 50), "ncyxk", "tile", InnerLoop("k", "c", (1, 1, 1, 1, 3))),
    ),
]
"""Layers one after the other, and their plans."""


@needs_compiler
def test_corners_of_inner_loops(tmp_path: Path) -> None:
    layers = [{"name": f"l{i}", "batch": 3} | layer for i, (layer, _) in enumerate(CORNERS)]
    unit = {"lanes": 4, "registers": 20, "sums": "kept", "mac_latency": 1}
    problem = problem_of(Random(1), layers, unit, 2)
    compare(Random(2), problem, Plan(tuple(plan for _, plan in CORNERS)), tmp_path, "-O0", *CHECKED)
    assert "spills[]" in (tmp_path / "src" / "network.c").read_text()


@needs_compiler
def test_any_inner_loop_computes_and_moves_what_is_planned(tmp_path: Path) -> None:
    agree(98, tmp_path, "-O0", *CHECKED)


@nightly
@needs_compiler
@pytest.mark.parametrize("seed", range(examples(100)))
def test_many_do(seed: int, tmp_path: Path) -> None:
    agree(seed, tmp_path, *(("-O2",) if seed % 3 == 0 else ("-O0", *CHECKED)))


@needs_compiler
def test_any_inner_loop_of_a_pool_computes_and_moves_what_is_planned(tmp_path: Path) -> None:
    pools_agree(1, tmp_path, "-O0", *CHECKED)


@nightly
@needs_compiler
@pytest.mark.parametrize("seed", range(examples(60)))
def test_many_of_pools_do(seed: int, tmp_path: Path) -> None:
    pools_agree(seed, tmp_path, *(("-O2",) if seed % 3 == 0 else ("-O0", *CHECKED)))


@needs_compiler
def test_lenet_s_first_layer_as_the_thesis_mapped_it(tmp_path: Path) -> None:
    """Eight images, columns in 28 of 32 lanes, a whole kernel in the body: the transfers of table 7.3."""
    layer = {"name": "conv1", "input": [1, 32, 32], "kernels": 32, "kernel": [5, 5], "batch": 8}
    problem = problem_of(Random(0), [layer], {"lanes": 32}, 2)
    plan = Plan((DspPlan((1, 1, 32, 28, 28, 1), "ncyxk", "tile", InnerLoop("x", "y")),))
    built = Built(tmp_path, codegen.project("conv1", "", problem, plan), "-O2")
    loads, stores, macs = built.told.pop(f"conv1, {COUNTED}")
    assert loads + stores == 52224
    assert macs == 8 * 32 * 28 * 25  # a vector for each row of outputs, and kernel position
    assert executed(problem, plan) == {"conv1": (loads, stores, macs)}
    assert_as_planned(built, problem, plan)
    assert "body 1 x kernel" in (tmp_path / "src" / "network.c").read_text()


def lone(loop: InnerLoop, unit: Table, element_bytes: int = 2) -> tuple[Problem, Plan]:
    layer = {"name": "conv", "input": [4, 6, 6], "kernels": 4, "kernel": [3, 3]}
    problem = problem_of(Random(0), [layer], unit, element_bytes)
    return problem, Plan((DspPlan((1, 1, 2, 4, 4, 2), "kncyx", "none", loop),))


@pytest.mark.parametrize(
    ("loop", "unit", "element_bytes", "field", "value", "limit"),
    [
        (InnerLoop("k", "c"), {"lanes": 4}, 2, "plan.inner_loop.vector", "k", "sums leave the chip"),
        (InnerLoop("c", "y"), {"lanes": 3}, 2, "machine.vector_unit.lanes", 3, "a power of two"),
        (InnerLoop("x", "y"), {"lanes": 256}, 1, "machine.vector_unit.lanes", 256, "128"),
        (InnerLoop("c", "y"), {"lanes": 4}, 3, "machine.element_bytes", 3, "1, 2, 4, 8 bytes"),
    ],
)
def test_what_there_are_no_vectors_for_is_refused(
    loop: InnerLoop, unit: Table, element_bytes: int, field: str, value: object, limit: str
) -> None:
    problem, plan = lone(loop, unit, element_bytes)
    with refused(field, value, limit):
        codegen.project("net", "", problem, plan)


def lone_layer(random: Random) -> tuple[Problem, Plan]:
    """Return a convolution or a fully connected layer as a problem of its own, and any plan of it."""
    network = problem_of(random, some_layers(random, 1), some_unit(random), random.choice([1, 2, 4]))
    part = random.choice(network.parts)
    plan = some_plan(random, network).layers[network.parts.index(part)]
    return part.problem, Plan((plan,))


def alone_agrees(seed: int, folder: Path, *flags: str) -> None:
    """The file of any layer computes what it should, and counts the vectors of an executed loop."""
    problem, plan = lone_layer(Random(seed))
    (one,) = plan.layers
    assert isinstance(one, DspPlan) and one.inner_loop is not None
    text, told = codegen.emit("layer_0", "", problem, plan), folder / "counts"
    assert "in vectors of GCC" in text
    counts = "vector_counts.loads, vector_counts.stores, vector_counts.macs"
    tell = f'FILE *file = fopen("{told}", "w"); fprintf(file, "%ld %ld %ld", {counts}); fclose(file);'
    text += f"#include <stdio.h>\nstatic __attribute__((destructor)) void tell(void) {{ {tell} }}\n"
    run([Case(problem, one)], [text], ["layer_0"], folder, flags)
    loads, stores, macs = map(int, told.read_text().split())
    (expected,) = executed(problem, plan).values()
    assert (loads + biases_of(problem, one), stores, macs) == expected


def biases_of(problem: Problem, plan: DspPlan) -> int:
    """Return the loads of biases, one for each vector of maps of an output tile; a lone layer has none."""
    assert plan.inner_loop is not None and problem.machine.kind == "dsp"
    if plan.inner_loop.vector != "c":
        return 0
    layer, unit = problem.one_layer, problem.machine.vector_unit
    assert unit is not None
    rows, columns = layer.output_plane
    groups, images, maps, tall, wide, _ = plan.tile
    others = len(pieces(layer.batch, images)) * len(pieces(rows, tall)) * len(pieces(columns, wide))
    of_maps = sum(-(-size // unit.lanes) for size in pieces(layer.kernels // layer.groups, maps))
    return others * of_maps * sum(pieces(layer.groups, groups))


@needs_compiler
@pytest.mark.parametrize("seed", range(3))
def test_the_file_of_a_layer_has_its_loop_in_vectors(seed: int, tmp_path: Path) -> None:
    alone_agrees(seed, tmp_path, "-O0", *CHECKED)


@nightly
@needs_compiler
@pytest.mark.parametrize("seed", range(3, examples(60)))
def test_the_files_of_many_layers_have(seed: int, tmp_path: Path) -> None:
    alone_agrees(seed, tmp_path, *(("-O2",) if seed % 3 == 0 else ("-O0", *CHECKED)))


def test_the_c_of_a_layer_says_why_its_loops_are_over_elements() -> None:
    problem, plan = lone(InnerLoop("k", "y"), {"lanes": 4})
    table = problem.model_dump(exclude_unset=True) | {"network": None}
    alone = Problem.model_validate(table | {"layer": {"input": [4, 6, 6], "kernels": 4, "kernel": [3, 3]}})
    text = codegen.emit("conv", "", alone, plan)
    assert tells(text.replace("\n * ", " "), "over elements, not in vectors as the plan's inner loop: sums")
    assert "vectors" not in codegen.emit("conv", "", *without_vectors(alone, plan))


def without_vectors(problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
    """Return the same without a vector unit and an inner loop."""
    one = plan.layers[0]
    assert isinstance(one, DspPlan)
    return problem.with_(machine={"vector_unit": None}), Plan((replace(one, inner_loop=None),))


def test_without_a_vector_unit_nothing_is_of_vectors() -> None:
    problem, plan = lone(InnerLoop("c", "y"), {"lanes": 4})
    files = codegen.project("net", "", *without_vectors(problem, plan))
    assert "src/vectors.h" not in files
    assert not any(b"vector" in text for path, text in files.items() if path.endswith((".c", ".h")))
