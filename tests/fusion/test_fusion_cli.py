"""The fusion room as a user meets it: solve, check, simulate, compare, import, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from conftest import thinned

LAYERS = """
[[network.layers]]
name = "squeeze"
input = [8, 10, 9]
kernels = 4
kernel = [1, 1]
bias = true

[[network.layers]]
name = "narrow"
inputs = ["squeeze"]
input = [4, 10, 9]
kernels = 6
kernel = [1, 1]

[[network.layers]]
name = "wide"
inputs = ["squeeze"]
input = [4, 10, 9]
kernels = 6
kernel = [3, 3]
padding = [1, 1, 1, 1]

[[network.layers]]
name = "sum"
kind = "add"
inputs = ["narrow", "wide"]
input = [6, 10, 9]

[[network.layers]]
name = "pool"
kind = "pool"
input = [6, 10, 9]
kernel = [3, 3]
stride = [2, 2]

[[network.layers]]
name = "classes"
kind = "fc"
inputs = 96
outputs = 5
"""
MACHINE = """
[machine]
conv_array = [4, 4, 2]
clock_mhz = 100
input_bytes = 600
output_bytes = 600
parameter_bytes = 400
load_mb_per_s = 130
save_mb_per_s = 110
operands_per_cycle = 3
issue_cycles = 50
energy = { pj_per_dram_byte = 900, pj_per_mac = 20, milliwatts = 100 }
"""


@pytest.fixture
def write(tmp_path):
    def instance(name: str, body: str) -> str:
        (tmp_path / name).write_text('room = "fusion"\n' + body)
        return name

    return instance


def tampered(result, change, path: Path) -> None:
    change(result)
    path.write_text(json.dumps(result))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("change", "wrong"),
    thinned(
        [
            (lambda r: r["plan"]["groups"].reverse(), "plan"),
            (lambda r: r["plan"]["groups"].pop(), "plan"),
            (lambda r: r["plan"]["groups"][0]["tile"].update(rows=7), "plan"),
            (lambda r: r["plan"]["groups"][0].update(tile=None), "plan"),
            (lambda r: r.update(objective=r["objective"] - 1, bound=r["bound"] - 1), "objective"),
            (lambda r: r["report"]["measures"].update(traffic_bytes=1), "report"),
        ],
        2,
    ),
)
def test_what_is_wrong_is_found(tilewright, solved, write, tmp_path, change, wrong):
    name = write("fused.toml", LAYERS + MACHINE)
    tampered(solved(name), change, tmp_path / "wrong.json")
    checked = tilewright("check", name, "wrong.json")
    assert checked.returncode == 1
    assert wrong in [line.split()[1] for line in checked.stdout.splitlines() if line.startswith("WRONG")]


def test_a_better_plan_than_the_claimed_bound_allows_is_found(tilewright, solved, write, tmp_path):
    name = write("fused.toml", LAYERS + MACHINE)
    slow = solved(name, "--with", "layerwise")

    def claim(result):
        result.update(status="optimal", bound=result["objective"], gap=0.0, bound_by="downsets")

    tampered(slow, claim, tmp_path / "claim.json")
    checked = tilewright("check", name, "claim.json")
    assert checked.returncode == 1
    assert "WRONG  bound" in " ".join(checked.stdout.split("\n")) or "bound" in checked.stdout


OWN = """
[[templates]]
name = "mine"
nodes = ["conv", "add"]
edges = [[0, 1]]
"""


@pytest.mark.nightly
def test_templates_of_the_user_are_all_that_is_fused(solved, write, tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    inside = write("inside.toml", LAYERS + MACHINE + OWN)
    named = write("named.toml", 'templates = "mine.toml"\n' + LAYERS + MACHINE)
    first, second = (solved(name) for name in (inside, named))
    assert first["plan"] == second["plan"]
    fused = [group["nodes"] for group in first["plan"]["groups"] if len(group["nodes"]) > 1]
    assert fused in ([["narrow", "sum"]], [["wide", "sum"]])
    assert first["objective"] >= solved(write("all.toml", LAYERS + MACHINE))["objective"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (LAYERS + MACHINE + OWN.replace("add", "mul"), "templates = 'mine': matches nothing"),
        (LAYERS + MACHINE + OWN.replace("[0, 1]", "[0, 2]"), "templates.edges = [0, 2]"),
        (LAYERS + MACHINE.replace("[4, 4, 2]", "[4, 4]"), "machine.conv_array"),
        (LAYERS.replace('inputs = ["narrow", "wide"]', 'inputs = ["pool", "wide"]') + MACHINE, "inputs"),
        ('templates = "none.toml"\n' + LAYERS + MACHINE, "no such file"),
        ("[objective]\nmost_cycles = 5\n" + LAYERS + MACHINE, "objective.most_cycles = 5"),
        (LAYERS[LAYERS.index('[[network.layers]]\nname = "classes"') :] + MACHINE, "network.layers"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(tilewright, write, body, told):
    done = tilewright("solve", write("bad.toml", body))
    assert done.returncode == 2
    assert told in done.stderr
    assert "bad.toml" in done.stderr


@pytest.mark.nightly
def test_a_network_from_onnx_is_fused(tilewright, solved, tmp_path):
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    done = tilewright("import", str(light), "-o", ".", "--room", "fusion", "--machine", "dnnvm-zu2")
    assert done.returncode == 0, done.stderr
    result = solved("light_squeezenet-fusion.toml")
    assert result["status"] == "optimal"
    alone = solved("light_squeezenet-fusion.toml", "--with", "layerwise")
    ours, others = (each["report"]["measures"] for each in (result, alone))
    assert len(ours["groups"]) < len(others["groups"]) == ours["operations"] - len(ours["on_host"])
    assert ours["traffic_bytes"] < others["traffic_bytes"]
