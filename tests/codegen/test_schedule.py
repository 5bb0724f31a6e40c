"""Schedules: loop nests that do a layer's work and no other, with buffers as the rooms count them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import run

from tilewright.codegen.schedule import schedule, text
from tilewright.run.instance import Instance, parse, read
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.plan import Plan

DOCS = Path(__file__).parents[2] / "docs"
DSP = {"kind": "dsp", "memory_bytes": 900}
NPU = {"kind": "npu", "tles": 4, "tlts": 2, "input_bytes": 160, "weights_bytes": 60, "output_bytes": 40}
LEVELS = {
    "kind": "hierarchy",
    "levels": [
        {"name": "dram", "bytes_per_cycle": 2.0},
        {"name": "buffer", "capacity_bytes": 300, "holds": ["input"], "may_hold": ["output"]},
        {"name": "pes", "fanout": [{"size": 3, "over": ["output_maps"]}, {"size": 2, "over": ["rows"]}]},
        {"name": "registers", "capacity_bytes": {"input": 4, "weights": 9, "output": 8}},
    ],
}
MACHINES = {"dsp": DSP, "npu": NPU, "hierarchy": LEVELS}
NETWORK = {
    "layers": [
        {"name": "first", "input": [4, 9, 11], "kernels": 6, "kernel": [3, 3], "stride": [2, 1], "batch": 2},
        {"name": "pool", "kind": "pool", "input": [6, 4, 9], "kernel": [2, 2]},
        {"name": "depthwise", "input": [6, 3, 8], "kernels": 6, "kernel": [3, 3], "groups": 6, "batch": 2},
        {"name": "last", "kind": "fc", "inputs": 36, "outputs": 7, "batch": 2},
    ]
}

OUTPUTS = {"maps": 6, "rows": 3, "columns": 8}
"""Of the pool."""


@cache
def definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "tilewright.schema.json").read_text())
    return found


def printed(instance: Instance, plan: Any) -> dict[str, Any]:
    """Return a schedule that is as the schema says."""
    found = schedule(instance.name, instance.sha256, instance.problem, plan)
    form = f"{instance.room.capitalize()}Schedule"
    one = {"$ref": f"#/$defs/{form}", "$defs": definitions()["$defs"]}
    jsonschema.Draft202012Validator(one).validate(found)
    jsonschema.Draft202012Validator(definitions()).validate(found)
    assert json.loads(text(found)) == found
    return found


def blocks(loops: list[dict[str, Any]], block: dict[str, int]) -> Iterator[dict[str, int]]:
    """Walk a loop nest; yield the sizes of every innermost block."""
    if not loops:
        yield block
        return
    loop, *rest = loops
    name = loop["loop"]
    starts = range(0, block[name], loop["step"])
    assert len(starts) == loop["trips"] or block[name] < loop["step"] * loop["trips"]
    for start in starts:
        yield from blocks(rest, {**block, name: min(loop["step"], block[name] - start)})


def macs(layer: dict[str, Any]) -> int:
    """Multiply and add, position by position of the blocks; on an NPU core by core."""
    whole = layer["dimensions"]
    if "cores" not in layer:
        return sum(prod(block.values()) for block in blocks(layer["loops"], whole))
    shape = layer["shape"]
    depthwise = shape["groups"] == shape["input"][0] == shape["kernels"] > 1
    loops = [loop for loop in layer["loops"] if not loop["unrolled"]]
    total = 0
    for core in layer["cores"]:
        (top, bottom), (first, last) = core["rows"], core["filters"]
        share = whole | {"rows": bottom - top, "groups" if depthwise else "output_maps": last - first}
        total += sum(prod(block.values()) for block in blocks(loops, share))
    return total


@pytest.fixture(scope="module", params=MACHINES)
def solved(request: pytest.FixtureRequest) -> tuple[Instance, Result, dict[str, Any]]:
    table = {"room": "tiling", "name": "net", "network": NETWORK, "machine": MACHINES[request.param]}
    instance = parse(table)
    result = solve(instance, "exhaustive", confirm=False, threads=1)
    return instance, result, printed(instance, result.plan)


@pytest.mark.by_day(1)
def test_the_loops_of_a_network_do_its_work(solved: tuple[Instance, Result, dict[str, Any]]) -> None:
    instance, result, found = solved
    assert list(found["layers"]) == ["first", "depthwise", "last"]
    assert {name: layer["kind"] for name, layer in found["left_out"].items()} == {"pool": "pool"}
    assert found["layers"]["depthwise"]["shape"]["reads"] == ["pool"]
    assert found["objective"] == result.objective
    assert found["instance_sha256"] == instance.sha256 == result.instance_sha256
    for (name, layer), (_, part) in zip(found["layers"].items(), instance.problem.parts, strict=True):
        assert macs(layer) == part.one_layer.macs == layer["costs"]["macs"], name
        assert {"level", "loop"} < set(layer["loops"][0])
        known = {*layer["memories"], *layer["arrays"]}
        assert {loop["level"] for loop in layer["loops"]} <= known
        assert all((loop["level"] in layer["arrays"]) == loop["unrolled"] for loop in layer["loops"])


@pytest.mark.by_day(1)
def test_buffers_are_those_that_the_simulator_has(solved: tuple[Instance, Result, dict[str, Any]]) -> None:
    _, result, found = solved
    assert result.report is not None
    for name, layer in found["layers"].items():
        measured = result.measures.to_json()["layers"][name]
        memories = dict(list(layer["memories"].items())[1:])
        for memory in memories.values():
            for held in memory["holds"].values():
                assert held["elements"] == prod(held["shape"])
                assert held["bytes"] == memory["copies"] * held["elements"] * held["bits"] / 8
            capacity, sizes = memory["capacity_bytes"], memory["holds"].items()
            if isinstance(capacity, int):
                assert sum(held["bytes"] for _, held in sizes) <= capacity
            else:
                assert all(held["bytes"] <= capacity[operand] for operand, held in sizes)
        held_bytes = {
            name: {operand: held["bytes"] for operand, held in memory["holds"].items()}
            for name, memory in memories.items()
        }
        if "held_bytes" in measured:
            assert held_bytes == measured["held_bytes"]
            assert layer.get("kept") == measured.get("kept")
            assert [(loop["loop"], loop["trips"]) for loop in layer["loops"]] == [
                pair for node in measured["nest"] for pair in node["loops"].items()
            ]
        elif "buffers_elements" in measured:
            sizes = {operand: held["elements"] for operand, held in memories["memory"]["holds"].items()}
            assert sizes == {
                name.replace("kernels", "weights"): n for name, n in measured["buffers_elements"].items()
            }
            assert layer["reuse"] in ("none", "tile", "halo")
        else:
            assert measured["partition"] == layer["partition"]
            assert list(held_bytes) == ["MB0", "MB1", "MB2"]


def test_loops_stand_in_the_order_of_the_plan() -> None:
    table = {
        "layer": NETWORK["layers"][0] | {"stride": [1, 1]},
        "machine": DSP | {"memory_bytes": 4000, "double_buffering": False},
    }
    table["layer"].pop("name")  # type: ignore[attr-defined]
    instance = parse({"room": "tiling", "name": "one", **table})
    plan = Plan((DspPlan((1, 1, 4, 7, 5, 2), "xcnky", "none"),))
    (layer,) = printed(instance, plan)["layers"].values()
    told = [(loop["loop"], loop["trips"], loop["step"]) for loop in layer["loops"]]
    assert told == [("columns", 2, 5), ("output_maps", 2, 3), ("batch", 2, 1), ("input_maps", 2, 2)]
    assert layer["memories"]["memory"]["tile"]["rows"] == 7
    assert layer["memories"]["memory"]["holds"]["input"]["shape"] == [1, 2, 9, 7]


@pytest.mark.parametrize("schedule_", ["IS", "OS", "WS"])
def test_what_stays_on_an_npu(schedule_: str) -> None:
    machine = {"kind": "npu", "tles": 2, "tlts": 2}
    layer = {"input": [4, 6, 6], "kernels": 8, "kernel": [3, 3]}
    instance = parse({"room": "tiling", "name": "one", "layer": layer, "machine": machine})
    plan = Plan((NpuPlan("KS", schedule_, (2 if schedule_ == "IS" else 1, 2, 2, 4)),))
    (found,) = printed(instance, plan)["layers"].values()
    assert macs(found) == instance.problem.one_layer.macs
    assert found["stationary"] == {"IS": "input", "OS": "output", "WS": "weights"}[schedule_]
    maps = found["memories"]["MB1"]["holds"]["weights"]["shape"][1]
    assert maps == (4 if schedule_ == "WS" else 2)
    names = [loop["loop"] for loop in found["loops"]]
    order = {"IS": ["rows", "input_maps"], "OS": ["rows", "output_maps", "input_maps"]}
    order["WS"] = ["output_maps", "rows", "input_maps"]
    assert names == ["output_maps", "output_maps", *order[schedule_]]


@pytest.mark.nightly
def test_pipelines_and_fused_groups_by_name() -> None:
    network = {"layers": [NETWORK["layers"][0] | {"batch": 1}, NETWORK["layers"][1]]}
    table = {"name": "net", "network": network}
    array = parse(
        {
            "room": "allocation",
            "machine": {"array": [2, 3], "clock_mhz": 50},
            "objective": {"minimise": "distance"},
            **table,
        }
    )
    result = solve(array, "snake", confirm=False, threads=1)
    found = printed(array, result.plan)
    assert list(found["layers"]) == ["first", "pool"]
    for layer in found["layers"].values():
        assert prod(layer["split"].values()) == layer["pes"] == len(layer["region"])
    assert found["layers"]["pool"]["shape"]["reads"] == ["first"]
    assert found["pes"] == sum(layer["pes"] for layer in found["layers"].values())
    engines = {
        "conv_array": [4, 4, 2],
        "input_bytes": 2000,
        "output_bytes": 2000,
        "parameter_bytes": 2000,
        "load_mb_per_s": 900,
        "save_mb_per_s": 900,
        "operands_per_cycle": 16,
        "clock_mhz": 300,
    }
    fused = parse({"room": "fusion", "machine": engines, **table})
    result = solve(fused, "layerwise", confirm=False, threads=1)
    found = printed(fused, result.plan)
    assert [name for group in found["groups"].values() for name in group["operations"]] == ["first", "pool"]
    assert sum(group["duration_cycles"] for group in found["groups"].values()) == found["duration_cycles"]
    for name, group in found["groups"].items():
        assert name == "+".join(group["operations"])
        *_, (_, height, width) = (found["operations"][each]["output"] for each in group["operations"])
        for size, many, each in zip((height, width), group["tiles"], ("rows", "columns"), strict=True):
            assert (many - 1) * group["tile"][each] < size <= many * group["tile"][each]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", MACHINES)
def test_operations_between_layers_have_their_tiles(kind: str) -> None:
    """They stand beside the layers, each with what it costs; all together cost the objective."""
    machine = {**MACHINES[kind], "vector_ops_per_cycle": 2}
    instance = parse({"room": "tiling", "network": NETWORK, "machine": machine})
    result = solve(instance, time_limit=20)
    found = printed(instance, result.plan)
    assert list(found["layers"]) == ["first", "depthwise", "last"]
    assert list(found["operations"]) == ["pool"] and not found["left_out"]
    pool = found["operations"]["pool"]
    assert pool["shape"]["reads"] == ["first"] and pool["on"] == "vector"
    tile = pool["tile"]
    assert pool["tiles"] == 2 * prod(-(-size // tile[name]) for name, size in OUTPUTS.items())
    parts = [*found["layers"].values(), pool]
    counted = "duration_ps" if kind == "npu" else "accesses_elements"
    assert sum(part["costs"][counted] for part in parts) == found["objective"]


def test_what_has_no_schedule_is_refused() -> None:
    grouping = parse(
        {
            "room": "grouping",
            "layer": {"input": [1, 5, 5], "kernels": 2, "kernel": [3, 3]},
            "machine": {"group_size": 3},
        }
    )
    with pytest.raises(InputError, match="no layers or groups to schedule; there are schedules of: tiling"):
        printed(grouping, None)
    layer = {"input": [4, 6, 6], "kernels": 8, "kernel": [3, 3]}
    front = parse({"room": "tiling", "layer": layer, "machine": DSP, "objective": {"minimise": "pareto"}})
    with pytest.raises(InputError, match="a front is no schedule"):
        printed(front, None)
    too_large = Plan((DspPlan((1, 1, 8, 4, 4, 4), "ncyxk"),))
    with pytest.raises(InputError, match=r"is not valid: .*memory"):
        printed(parse({"room": "tiling", "layer": layer, "machine": DSP}), too_large)


def test_emitting_chooses_the_form_by_option_or_suffix(tmp_path: Path) -> None:
    layer = "input = [4, 6, 6]\nkernels = 8\nkernel = [3, 3]\n"
    (tmp_path / "a.toml").write_text(
        f'room = "tiling"\n[layer]\n{layer}[machine]\nkind = "dsp"\nmemory_bytes = 900\n'
    )
    assert run(tmp_path, "solve", "a.toml", "--with", "exhaustive", "-o", "r.json").returncode == 0
    done = run(tmp_path, "emit", "a.toml", "r.json", "-o", "s.json")
    assert (done.returncode, done.stdout) == (0, "written: s.json\n")
    written = (tmp_path / "s.json").read_text()
    assert run(tmp_path, "emit", "a.toml", "r.json", "--as", "schedule").stdout == written
    told = run(tmp_path, "emit", "a.toml", "r.json", "--as", "schedule", "--json").stdout
    assert json.loads(told) == json.loads(written)
    assert list(json.loads(written)["layers"]) == ["a"]
    assert run(tmp_path, "emit", "a.toml", "r.json", "--as", "c", "-o", "c.json").returncode == 0
    assert (tmp_path / "c.json").read_text() == run(tmp_path, "emit", "a.toml", "r.json").stdout


# The page -------------------------------------------------------------------------------------------


def test_the_page_names_every_key() -> None:
    page, forms = (DOCS / "schedule.md").read_text(), definitions()["$defs"]
    missing, seen, left = [], set(), ["TilingSchedule", "AllocationSchedule", "FusionSchedule"]
    while left:
        name = left.pop()
        seen.add(name)
        missing += [f"{name}.{key}" for key in forms[name]["properties"] if f"`{key}`" not in page]
        left += set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(forms[name]))) - seen - set(left)
    assert len(seen) > 10
    assert not missing


def test_the_example_on_the_page_is_what_is_emitted() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "schedule.md").read_text(), re.DOTALL)
    found = printed(read("alexnet-conv3-64k"), Plan((DspPlan((1, 2, 77, 13, 13, 5), "ncyxk", "halo"),)))
    assert example == text(found) + "\n"
