"""Attention of networks on a hierarchy: what is one step, what is not, older results, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, refused, tells
from tests.tables import text

from tilewright.spec.errors import InputError
from tilewright.tiling import ROOM, Plan, Problem, kind_of, objective, violation
from tilewright.tiling.attention.apart import parts_of
from tilewright.tiling.attention.plan import AttentionPlan

MACHINE: dict[str, Any] = {
    "kind": "hierarchy",
    "vector_ops_per_cycle": 4,
    "mac_pj": 0.1,
    "levels": [
        {"name": "dram", "read_pj_per_byte": 50.0, "bytes_per_cycle": 4.0},
        {"name": "buffer", "capacity_bytes": 700, "read_pj_per_byte": 2.0, "bytes_per_cycle": 16.0},
        {"name": "pes", "fanout": [{"size": 4, "over": ["output_maps"]}]},
        {"name": "register", "capacity_bytes": 8, "holds": ["weights"]},
    ],
}


def network(
    *, heads: int = 2, keys: int = 12, share: int = 1, causal: bool = False, **changes: Any
) -> dict[str, Any]:
    """Return attention of heads of 4 channels, as 12 queries see some keys."""
    few, queries = heads // share, 12
    every: list[dict[str, Any]] = [
        {"name": "key", "kind": "input", "inputs": [], "input": [few, keys, 4]},
        {"name": "value", "kind": "input", "inputs": [], "input": [few, keys, 4]},
    ]
    named = {"key": "key", "value": "value"}
    for name in named if share > 1 else ():
        expand = {"kind": "function", "op": "expand", "input": [few, keys, 4], "output": [heads, keys, 4]}
        every.append({"name": f"{name}s", "inputs": [name], **expand})
        named[name] = f"{name}s"
    shape = [heads, keys, queries]
    product = {"kind": "matmul", "groups": heads}
    every.append(
        {"name": "scores", **product, "inputs": ["input", named["key"]], "input": [heads * 4, 1, queries],
         "output": shape, "depth": 4, "transposed": True},
    )  # fmt: skip
    if causal:
        numbers = {"op": "add", "shape": [1, keys, queries], "causal": keys - queries}
        mask = {"kind": "map", "op": "fused", "input": shape, "parameters": keys * queries}
        every.append({"name": "mask", **mask, "numbers": numbers})
    softmax = {"kind": "function", "op": "softmax", "input": shape, "output": shape, "along": ["rows"]}
    every.append({"name": "softmax", **softmax, **changes})
    every.append(
        {"name": "context", **product, "inputs": ["softmax", named["value"]], "input": shape,
         "output": [heads * 4, 1, queries], "depth": keys, "transposed": False},
    )  # fmt: skip
    return {"input": [heads * 4, 1, queries], "layers": every}


def instance(
    minimise: str = "accesses", machine: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    objective = {"minimise": minimise}
    return {"network": network(**changes), "machine": machine or MACHINE, "objective": objective}


def problem(minimise: str = "accesses", machine: dict[str, Any] | None = None, **changes: Any) -> Problem:
    return Problem.model_validate(instance(minimise, machine, **changes))


def solved(one: Problem) -> Plan:
    found = [kind_of(part).exhaustive(part, float("inf")) for _, part in one.parts]
    return Plan(tuple(layer for each in found if each is not None for layer in each.layers))


@pytest.mark.parametrize("minimise", ["accesses", "cycles", "energy"])
def test_attention_is_one_step_where_that_is_cheaper(minimise: str) -> None:
    one = problem(minimise)
    (name,) = [part.name for part in one.parts]
    assert name == "scores + softmax + context"
    plan = solved(one)
    (layer,) = plan.layers
    assert isinstance(layer, AttentionPlan) and layer.blocks is not None
    assert violation(one, plan) is None and Plan.from_json(plan.to_json()) == plan
    cost, apart = objective(one, plan), objective(one.apart, solved(one.apart))
    assert cost < apart
    part = one.parts[0].problem
    assert kind_of(part).best_bound(part).value <= cost
    others = [kind_of(each).exhaustive(each, float("inf")) for each in parts_of(part)]
    assert sum(each.value for each in others if each is not None) == apart
    report = ROOM.simulate(one, plan, numeric=True)
    assert report.valid and report.numeric and not report.not_computed
    assert ROOM.measured_objective(one, report) == cost
    measures = report.measures.layers[name]
    read = sum(sum(each.read.values()) for each in measures.levels_bytes.values())
    assert read > 0 and measures.attention.level == "buffer"
    energy = sum(
        sum(way.values()) for each in measures.levels_aj.values() for way in (each.read, each.written)
    )
    assert energy + measures.mac_aj + measures.vector_aj == measures.energy_aj


def test_where_operations_are_cheaper_they_are_executed_one_by_one() -> None:
    small = {**MACHINE, "levels": [dict(level) for level in MACHINE["levels"]]}
    small["levels"][1]["capacity_bytes"] = 16
    one = problem(machine=small)
    plan = solved(one)
    (layer,) = plan.layers
    assert isinstance(layer, AttentionPlan) and layer.blocks is None
    assert objective(one, plan) == objective(one.apart, solved(one.apart))
    report = ROOM.simulate(one, plan)
    assert report.valid and ROOM.measured_objective(one, report) == objective(one, plan)
    assert report.measures.layers[one.parts[0].name].attention is None


def test_heads_share_keys_and_a_causal_mask_leaves_out_blocks() -> None:
    def attention(one: Problem) -> Any:
        return one.parts[0].problem.one_operation.attention

    shared = problem(heads=4, share=2)
    assert (attention(shared).matrices, attention(shared).heads) == (2, 2)
    assert objective(shared, solved(shared)) < objective(problem(heads=4), solved(problem(heads=4)))
    masked = problem(causal=True)
    assert attention(masked).causal == 0 and len(attention(masked).between) == 2
    cached = problem(causal=True, keys=20)
    assert attention(cached).causal == 8
    costs = [objective(one, solved(one)) for one in (problem("cycles"), problem("cycles", causal=True))]
    assert costs[1] < costs[0]
    report = ROOM.simulate(cached, solved(cached), numeric=True)
    assert report.valid and report.numeric


@pytest.mark.parametrize(
    ("changes", "machine"),
    [
        ({"along": ["columns"]}, {}),
        ({"parameters": 12}, {}),
        ({"op": "layer_normalization"}, {}),
        ({}, {"vector_ops_per_cycle": None, "host": {"cycles_per_byte": 1.0}}),
    ],
)
def test_what_is_no_step(changes: dict[str, Any], machine: dict[str, Any]) -> None:
    one = problem(machine=MACHINE | machine, **changes)
    assert [part.name for part in one.parts] == ["scores", "softmax", "context"]


def test_without_a_vector_unit_the_softmax_has_no_cost_and_is_named() -> None:
    one = problem(machine=MACHINE | {"vector_ops_per_cycle": None})
    plan = solved(one)
    assert [part.name for part in one.parts] == ["scores + softmax + context"]
    report = ROOM.simulate(one, plan)
    assert report.measures.not_modelled.names == ["softmax"]
    assert report.measures.layers[one.parts[0].name].vector_operations == 0


def test_constraints_and_limits_speak_of_operations() -> None:
    one = problem("cycles")
    assert one.apart.parts[0].name == "scores"
    names = [part.name for part in one.with_(limits={"at_most": {"energy": 10**12}}).parts]
    assert names == ["scores", "softmax", "context"]
    said = one.where("accesses('scores', 'dram') <= 100000")
    assert [part.name for part in said.parts] == names
    with refused("limits.attention", "never", "any, apart"):
        one.with_(limits={"attention": "never"})


def test_a_plan_that_breaks_a_limit_is_told() -> None:
    one = problem()
    (layer,) = solved(one).layers
    table = layer.to_json()
    for change, told in [
        ({"queries": 5}, "blocks: 5 queries of 12"),
        ({"level": "dram"}, "level: dram, scores can stay at buffer"),
        ({"order": "online"}, "blocks: all keys are one block"),
        ({"queries": 4, "keys": 6, "stay": []}, "scores of 4 rows and 6 keys"),
    ]:
        blocks = table["attention"] | {"keys": 12, "order": "rows", "stay": ["keys", "values"]} | change
        plan = Plan.from_json({**table, "attention": blocks})
        assert told in (violation(one, plan) or "")
        assert not ROOM.simulate(one, plan).valid
    for broken in ({"apart": 3}, {**table, "more": 1}, {**table, "attention": {}}):
        with pytest.raises(InputError):
            Plan.from_json(broken)


def test_the_command_line_plans_checks_and_shows_a_step(tmp_path: Path, tilewright: Run) -> None:
    (tmp_path / "a.toml").write_text(text({"room": "tiling", "name": "a", **instance()}))
    solve = tilewright("solve", "a.toml", "-o", "step.json", "--report", "step.html", "--plot", "step.png")
    assert solve.returncode == 0, solve.stderr
    found = json.loads((tmp_path / "step.json").read_text())
    assert found["status"] == "optimal" and found["plan"]["attention"]["level"] == "buffer"
    assert tells(solve.stdout, "scores + softmax + context", "buffer", "scores")
    check = tilewright("check", "a.toml", "step.json")
    assert check.returncode == 0, check.stdout
    shown = tilewright("simulate", "a.toml", "step.json", "--numeric")
    assert shown.returncode == 0 and tells(shown.stdout, "numbers", "equal to the reference")


def test_results_of_older_files_are_checked_as_they_are(tmp_path: Path, tilewright: Run) -> None:
    (tmp_path / "a.toml").write_text(text({"room": "tiling", "name": "a", **instance()}))
    (tmp_path / "apart.toml").write_text(
        text({"room": "tiling", "name": "a", **instance(), "limits": {"attention": "apart"}})
    )
    for name in ("a", "apart"):
        assert tilewright("solve", f"{name}.toml", "-o", f"{name}.json").returncode == 0
    new, old = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "apart"))
    assert new["objective"] < old["objective"] and len(old["plan"]["layers"]) == 3
    older = old | {"instance_sha256": new["instance_sha256"]}
    (tmp_path / "older.json").write_text(json.dumps(older))
    check = tilewright("check", "a.toml", "older.json")
    assert check.returncode == 0, check.stdout
    assert tilewright("simulate", "a.toml", "older.json").returncode == 0
    assert tilewright("report", "a.toml", "older.json", "-o", "older.html").returncode == 0
