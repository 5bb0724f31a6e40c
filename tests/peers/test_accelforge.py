"""AccelForge beside us: what is translated, and that its best mapping is never better than our optimum."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import hierarchies
import pytest
from tests.peers import accelforge

from tilewright.tiling import Problem
from tilewright.tiling.hierarchy.exact.search import best_plan
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task

pytestmark = pytest.mark.nightly

RECORDED: dict[str, dict[str, Any]] = json.loads(accelforge.RECORDED.read_text("utf-8"))

TINY = {
    "kind": "hierarchy",
    "mac_pj": 0.5,
    "bits": {"partial": 8},
    "levels": [
        {"name": "dram", "read_pj_per_byte": 8.0, "bytes_per_cycle": 4.0},
        {
            "name": "buffer",
            "capacity_bytes": 64,
            "double_buffering": True,
            "halo": True,
            "holds": ["input", "output"],
            "may_hold": ["weights"],
            "read_pj_per_byte": 2.0,
            "write_pj_per_byte": 4.0,
            "read_bytes_per_cycle": 2.0,
        },
        {
            "name": "pes",
            "fanout": [{"size": 4, "over": ["output_maps", "batch"]}, {"size": 2, "over": ["groups"]}],
        },
        {"name": "sums", "capacity_bytes": 8, "double_buffering": True, "holds": ["weights", "output"]},
        {"name": "latch", "capacity_bytes": 4, "double_buffering": True, "holds": ["input"]},
    ],
}
ROW = {"input": [2, 1, 5], "kernels": 4, "kernel": [1, 3]}

SPECIFICATION = """\
arch:
  nodes:
  - !Memory
    name: dram
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 1000000, throughput: 32.0}
    - {name: write, energy: 1000000, throughput: 32.0}
    size: inf
    tensors: {keep: input | weights | output, may_keep: Nothing}
  - !Memory
    name: buffer
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 250000, throughput: 16.0}
    - {name: write, energy: 500000, throughput: inf}
    size: 256
    tensors: {keep: input | output, may_keep: weights}
    total_latency: max(a.n_calls / a.throughput for a in actions)
  - !Container
    name: pes
    spatial:
    - name: pes.1
      fanout: 4
      loop_bounds:
      - {expression: ~(c), operator: ==, value: 1}
  - !Memory
    name: sums
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 0, throughput: inf}
    - {name: write, energy: 0, throughput: inf}
    size: 32
    tensors: {keep: weights | output, may_keep: Nothing}
    total_latency: max(a.n_calls / a.throughput for a in actions)
  - !Memory
    name: latch
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 0, throughput: inf}
    - {name: write, energy: 0, throughput: inf}
    size: 16
    tensors: {keep: input, may_keep: Nothing}
    total_latency: max(a.n_calls / a.throughput for a in actions)
  - !Compute
    name: mac
    leak_power: 0
    area: 0
    actions:
    - {name: compute, energy: 500000, throughput: 1}
workload:
  bits_per_value: {input: 8, weights: 8, output: 8}
  einsums:
  - name: layer
    tensor_accesses:
    - {name: input, projection: {K: k, X_S: x + s}}
    - {name: weights, projection: {C: c, K: k, S: s}}
    - {name: output, projection: {C: c, X: x}, output: True}
    iteration_space_shape: [0 <= c < 4, 0 <= x < 3, 0 <= k < 2, 0 <= s < 3]
"""


def tiny(layer: dict[str, Any] | None = None, minimise: str = "cycles", **changes: Any) -> Problem:
    """Return the tiny machine's problem, with some fields of levels, or of the machine, changed."""
    table = json.loads(json.dumps(TINY))
    for place, value in changes.items():
        level, _, field = place.partition("__")
        found = next((each for each in table["levels"] if each["name"] == level), table)
        found[field or level] = value
    return Problem(layer=layer or ROW, machine=table, objective={"minimise": minimise})


def test_a_machine_and_a_layer_as_its_specification() -> None:
    given = tiny()
    assert accelforge.difference(given) is None
    assert accelforge.specification(given.machine, given.one_layer) == SPECIFICATION


@pytest.mark.parametrize(("machine", "layer", "minimise"), accelforge.PAIRS)
def test_pairs_are_counted_alike(machine: str, layer: str, minimise: str) -> None:
    given = accelforge.problem(accelforge.instance(machine, layer, minimise))
    assert accelforge.difference(given) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tiny(bits={"partial": 16}), "one width"),
        (tiny(ROW | {"stride": [1, 2]}), "between windows"),
        (tiny(sums__capacity_bytes={"weights": 4, "output": 4}), "capacity for each operand"),
        (tiny(buffer__double_buffering=False), "stop the computation"),
        (tiny(latch__read_pj_per_byte=1.0), "each MAC reads input"),
        (tiny(sums__write_pj_per_byte=1.0), "each MAC reads output"),
        (tiny(sums__bytes_per_cycle=1.0), "each MAC reads weights"),
        (tiny(pes__fanout=[{"size": 2, "over": ["columns"]}]), "instances share"),
        (tiny(buffer__halo=False), "buffer keeps what the next tile shares"),
        (tiny({"input": [2, 1, 6], "kernels": 4, "kernel": [1, 4]}), "latch keeps what the next tile shares"),
    ],
)
def test_what_is_counted_in_another_way_is_told(given: Problem, expected: str) -> None:
    assert expected in str(accelforge.difference(given))


def test_sums_of_instances_inside_of_a_priced_memory() -> None:
    levels = [
        *TINY["levels"][:2],  # type: ignore[index]
        {"name": "columns", "fanout": [{"size": 2, "over": ["input_maps"]}]},
        {"name": "totals", "capacity_bytes": 8, "holds": ["output"], "read_pj_per_byte": 1.0},
        *TINY["levels"][2:],  # type: ignore[index]
    ]
    assert "sums come back" in str(accelforge.difference(tiny(levels=levels, minimise="energy")))


def mapped(given: Problem, plan: HierarchyPlan) -> list[dict[str, Any]]:
    """Return a plan as the nodes of a mapping."""
    nest = Nest(given.one_layer, given.machine, plan)
    nodes: list[dict[str, Any]] = []
    for node, loops in zip(nest.machine.nodes, plan.nest, strict=True):
        level = nest.machine.levels[node.level]
        if node.axis is None:
            nodes += [{"reserve": level.name, "tensor": operand} for operand in node.holds]
        axis = None if node.axis is None else node.name
        nodes += [{"loop": letter, "step": step, "axis": axis} for letter, step in loops]
    return nodes


@pytest.mark.parametrize("seed", range(30))
def test_plans_survive_as_mappings(seed: int) -> None:
    rng = Random(seed)
    machine, layer = hierarchies.machine(rng, roomy=True, choosing=True), hierarchies.layer(rng, 300)
    given = Problem(layer=layer, machine=machine, objective={"minimise": "cycles"})
    found = best_plan(Task(layer, machine, "cycles", given.level))
    assert found is not None
    costs = [
        accelforge.counted(given, plan)
        for plan in accelforge.plans(machine, layer, mapped(given, found.plan))
        if Nest(layer, machine, plan).malformed() is None
    ]
    assert found.value in costs


def test_tiles_of_several_blocks_become_those_of_one() -> None:
    """Input stays for all output maps while the weights in the same memory are replaced."""
    given = tiny()
    nodes: list[dict[str, Any]] = [{"reserve": "buffer", "tensor": name} for name in ("input", "output")]
    nodes += [{"loop": letter, "step": 1, "axis": None} for letter in "kc"]
    nodes += [{"reserve": "buffer", "tensor": "weights"}]
    nodes += [{"loop": letter, "step": 1, "axis": None} for letter in "xs"]
    nodes += [
        {"reserve": level, "tensor": name}
        for level, name in (("sums", "weights"), ("sums", "output"), ("latch", "input"))
    ]
    found = list(accelforge.plans(given.machine, given.one_layer, nodes))
    assert [[len(loops) for loops in plan.nest] for plan in found] == [
        [0, 4, 0, 0, 0, 0],
        [1, 3, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 0],
    ]
    assert all(plan.kept == (("buffer", ("weights",)),) for plan in found)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_mappings_cost_the_same_by_our_count(name: str) -> None:
    pair = tuple(name.split("; "))
    given = accelforge.problem(accelforge.instance(*pair))
    found = best_plan(Task.of(given))
    same = accelforge.closest(given, RECORDED[name])
    value = pytest.approx(RECORDED[name]["value"], rel=accelforge.PRECISION)
    assert found is not None
    assert found.proven
    assert same is not None
    assert same == value
    assert found.value <= same


def test_each_pair_is_recorded() -> None:
    assert set(RECORDED) == set(map("; ".join, accelforge.PAIRS))


@pytest.mark.skipif(accelforge.PYTHON not in os.environ, reason=f"{accelforge.PYTHON} is not set")
@pytest.mark.parametrize("name", RECORDED)
def test_the_peer_answers_as_recorded(name: str) -> None:
    given = accelforge.problem(accelforge.instance(*name.split("; ")))
    answer = accelforge.asked(os.environ[accelforge.PYTHON], given)
    assert answer["value"] == pytest.approx(RECORDED[name]["value"], rel=accelforge.PRECISION)
