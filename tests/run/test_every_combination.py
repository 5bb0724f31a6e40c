"""Every room x objective x list x limit, with each form of output: a result that stands, or one sentence.

By default every few cases are tried, without a second proof and without numbers; `-m nightly` tries all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import pytest
from conftest import THOROUGH, thinned

import tilewright as tw
from tilewright import codegen
from tilewright.codegen.schedule import schedule
from tilewright.run.checking import claims
from tilewright.run.instance import Instance, parse
from tilewright.run.solving import run as running
from tilewright.spec.errors import Disagreement, InputErrors

LAYERS: list[dict[str, Any]] = [
    {"name": "c1", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"name": "p", "kind": "pool", "input": [3, 6, 6], "kernel": [2, 2], "stride": [2, 2]},
    {"name": "c2", "input": [3, 3, 3], "kernels": 3, "kernel": [1, 1]},
    {"name": "s", "kind": "add", "inputs": ["c2", "p"], "input": [3, 3, 3]},
    {"name": "o", "kind": "opaque", "op": "Mystery", "input": [3, 3, 3], "output": [3, 3, 3], "macs": 5},
    {"name": "k", "kind": "concat", "inputs": ["s", "o"], "input": [6, 3, 3]},
    {"name": "c3", "input": [6, 3, 3], "kernels": 2, "kernel": [1, 1]},
    {"name": "f", "kind": "fc", "inputs": 18, "outputs": 4},
]
"""A network with a pool, a sum, an opaque node and a concatenation."""

CLEAR = [layer for layer in LAYERS if layer["name"] != "o"]
CLEAR[4] = {**CLEAR[4], "inputs": ["s", "c2"]}
"""The same without the opaque node, which not all rooms take."""

Case = tuple[str, dict[str, Any]]

HOST = {"cycles_per_byte": 1.0, "cycles_per_call": 10}
MACHINES: dict[str, dict[str, Any]] = {
    "dsp": {"kind": "dsp", "memory_bytes": 256, "element_bytes": 1},
    "npu": {
        "kind": "npu",
        "tles": 2,
        "tlts": 2,
        "input_bytes": 96,
        "weights_bytes": 96,
        "output_bytes": 64,
    },
    "hierarchy": {
        "kind": "hierarchy",
        "mac_pj": 1.0,
        "levels": [
            {"name": "dram", "read_pj_per_byte": 100.0, "bytes_per_cycle": 8.0},
            {"name": "buffer", "capacity_bytes": 256, "read_pj_per_byte": 1.0},
        ],
    },
}
DOING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "vector": {"vector_ops_per_cycle": 4},
    "host": {"host": HOST},
    "both": {"vector_ops_per_cycle": 4, "host": HOST},
}
COSTS = {
    "dsp": ("accesses", "cycles", "energy"),
    "npu": ("time", "accesses"),
    "hierarchy": ("accesses", "cycles", "energy"),
}


def of_tiling(kind: str) -> Iterator[Case]:
    """Yield objectives and limits of a kind of machine."""
    costs = COSTS[kind]
    objectives: list[dict[str, Any]] = [{"minimise": name} for name in (*costs, "pareto", "edp")]
    objectives += [
        {"minimise": list(pair), "tolerance": tolerance, "tolerance_of": of}
        for pair in permutations(costs, 2)
        for tolerance in (0.0, 0.1)
        for of in ("layer", "network")
    ]
    objectives += [{"minimise": list(costs)}, {"minimise": ["cycles", "edp"]}]
    for objective in objectives:
        yield f"{objective}", {"objective": objective}
    for name in costs:
        for other in costs:
            for most in (1, 10**15):
                limits = {"at_most": {other: most}}
                yield f"{name} {limits}", {"objective": {"minimise": name}, "limits": limits}
    if kind == "hierarchy":
        for name in (*costs, "pareto", "edp"):
            yield f"{name} any", {"objective": {"minimise": name}, "limits": {"factors": "any"}}
        yield "capacity", {"objective": {"minimise": "pareto", "between": ["accesses", "capacity"]}}


def tiling() -> Iterator[Case]:
    for kind, machine in MACHINES.items():
        for does, units in DOING.items():
            for label, tables in of_tiling(kind):
                table = {"room": "tiling", "network": {"layers": LAYERS}, "machine": machine | units}
                for batch in (1, 2):
                    yield f"tiling {kind} {does} {label} x{batch}", table | tables | {"batch": batch}


def batched(layers: list[dict[str, Any]], batch: int) -> dict[str, Any]:
    """Return a network of which each convolution says that there are several images."""
    weighted = [layer.get("kind", "conv") in ("conv", "fc") for layer in layers]
    own = [
        {**layer, "batch": batch} if batch > 1 and has else layer
        for layer, has in zip(layers, weighted, strict=True)
    ]
    return {"layers": own}


def on_machine(
    room: str, machine: dict[str, Any], objectives: list[dict[str, Any]], limits: list[dict[str, Any]]
) -> Iterator[Case]:
    """Yield all objectives with all limits, on both networks, of one image and of two."""
    for objective in objectives:
        for limit in limits:
            for name, layers in (("opaque", LAYERS), ("clear", CLEAR)):
                for batch in (1, 2):
                    yield (
                        f"{room} {objective} {limit} {name} x{batch}",
                        {
                            "room": room,
                            "network": batched(layers, batch),
                            "machine": machine,
                            "objective": objective,
                            "limits": limit,
                        },
                    )


def others() -> Iterator[Case]:
    array = {"array": [3, 3], "functional_units": 2, "clock_mhz": 1}
    goals = [{"minimise": name} for name in ("interval", "latency", "pareto", "distance")]
    goals.append({"minimise": "pes", "frames_per_second": 1000})
    ways = [{}, {"execution": "layer-by-layer"}, {"splits": ["rows"]}, {"scan": "fields"}]
    yield from on_machine("allocation", array, goals, ways)
    engines = {
        "conv_array": [2, 2, 2],
        "clock_mhz": 100,
        "input_bytes": 400,
        "output_bytes": 400,
        "parameter_bytes": 400,
        "load_mb_per_s": 100,
        "save_mb_per_s": 100,
        "operands_per_cycle": 4,
        "energy": {"pj_per_dram_byte": 160, "pj_per_mac": 1, "milliwatts": 500},
    }
    fused = [{"minimise": name} for name in ("cycles", "traffic", "energy", "memory")]
    for arrays in (1, 2):
        halos = [{}, {"halo": "recompute"}, {"halo": "keep"}]
        yield from on_machine("fusion", engines | {"arrays": arrays}, fused, halos)
    memory = {"memory_bytes": 250, "macs_per_cycle": 2, "bus_elements_per_cycle": 4}
    names = ("traffic", "cycles", "energy", "memory")
    stays: list[dict[str, Any]] = [{"minimise": name} for name in names]
    stays += [{"minimise": list(pair), "tolerance": 0.1} for pair in permutations(names, 2)]
    stays += [{"minimise": name, "most_traffic": 2000, "most_cycles": 10**6} for name in names]
    kept = [{}, {"order": "given"}, {"most_operations": 2}, {"tiles": False}, {"frames": "many"}]
    yield from on_machine("residency", memory, stays, [*kept, {"executions": 2}])
    for name in ("noise", "bits", "pareto"):
        for bound in ("worst_case", "absolute_weights", "output_range"):
            ranges = {each: {"input": 3.0, "weights": 0.4, "output": 5.0} for each in ("c1", "c2", "c3", "f")}
            limits = {"bound": bound} | ({"signal_to_noise_db": 20} if name == "bits" else {})
            accumulator = {"accumulator_bits": 20}
            for label, table in on_machine("bitwidth", accumulator, [{"minimise": name}], [limits]):
                yield label, table | {"ranges": ranges}


def of_no_network() -> Iterator[Case]:
    """Yield instances of the rooms whose problems are not networks."""
    layer = {"input": [2, 6, 5], "kernels": 2, "kernel": [3, 3], "stride": [1, 2]}
    for minimise, count in product(("loads", "duration"), ("elements", "pixels")):
        for steps, reloads in product(("free", "kmin", 3, 7), (0, 1, 2)):
            objective = {"minimise": minimise, "count": count}
            tables = {"objective": objective, "limits": {"steps": steps, "reloads": reloads}}
            machine = {"group_size": 2}
            yield f"grouping {tables}", {"room": "grouping", "layer": layer, "machine": machine} | tables
    lives = [("a", 0, 3, 3), ("b", 1, 4, 2), ("c", 3, 5, 4)]
    buffers = [dict(zip(("id", "lower", "upper", "size"), life, strict=True)) for life in lives]
    for memory in ({}, {"capacity": 6}, {"capacity": 5}, {"capacity": 3}, {"alignment": 4}):
        yield f"addresses {memory}", {"room": "addresses", "buffers": buffers, "memory": memory}
    graph = {
        "widths": [4, 6, 6, 6],
        "heights": [6, 4, 6, 6],
        "inputs": [[0, 1], [2]],
        "outputs": [[2], [3]],
        "base_costs": [4, 1],
        "op_types": ["MatMul", "Pointwise"],
    }
    array = {"slow_memory_bandwidth": 3, "native_granularity": [4, 4]}
    for memory in (8, 30, 80, 200):
        for connected in ("shared", "flow"):
            for sums in ("each", "tile"):
                limits = {"connected": connected, "accumulators": sums}
                tables = {"graph": graph | array | {"fast_memory_capacity": memory}, "limits": limits}
                yield f"scheduling {memory} {limits}", {"room": "scheduling"} | tables


EMITTED = {
    "c": lambda instance, plan: codegen.emit(instance.name, "", instance.problem, plan),
    "memory": lambda instance, plan: codegen.memory(instance.problem, plan),
    "halide": lambda instance, plan: codegen.halide(instance.name, "", instance.problem, plan),
    "project": lambda instance, plan: codegen.project(instance.name, "", instance.problem, plan),
    "schedule": lambda instance, plan: schedule(instance.name, instance.sha256, instance.problem, plan),
    "offsets": lambda instance, plan: codegen.offsets(instance.name, "", instance.problem, plan),
}

TOGETHER = 24
"""Cases of a test."""


def check_sentence(error: tw.TilewrightError) -> None:
    """Check that an error is a sentence for each thing that is wrong, and no contradiction."""
    assert not isinstance(error, Disagreement), error
    many = len(error.errors) if isinstance(error, InputErrors) else 1
    lines = str(error).splitlines()
    assert len(lines) == many and all(len(line) > 10 for line in lines), error


def check_case(table: dict[str, Any]) -> str:
    """Check what comes of an instance; return its status, or that it is refused."""
    try:
        instance: Instance = parse(table)
        result = tw.solve(instance, time_limit=60)
    except tw.TilewrightError as error:
        check_sentence(error)
        return "refused"
    assert result.status != "unknown" and not result.failures, (result.status, result.failures)
    findings = tw.check(instance, result, numeric=THOROUGH, time_limit=60)
    assert all(finding.state != "refuted" for finding in findings), findings
    assert result.summary() and result.records() is not None
    if result.plan is not None:
        result.csv()
        for emit in EMITTED.values():
            try:
                assert emit(instance, result.plan)
            except tw.TilewrightError as error:
                check_sentence(error)
    return result.status


CASES = [*thinned(tiling(), 29), *thinned(others(), 11), *thinned(of_no_network(), 5)]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_every_combination_is_solved_or_refused_in_a_sentence(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "QUICK_SECONDS", 60.0)  # no process is started for so little
    if not THOROUGH:
        monkeypatch.setattr(claims, "routes", lambda _problem, but=None: [])
    came = set()
    for label, table in CASES[first : first + TOGETHER]:
        try:
            came.add(check_case(table))
        except Exception as error:
            raise AssertionError(label) from error
    assert came <= {"optimal", "feasible", "infeasible", "refused"} and came
