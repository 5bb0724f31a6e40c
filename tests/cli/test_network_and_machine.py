"""A network and a machine on the command line are an instance, with other values where they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from command import run
from conftest import tells
from onnx import TensorProto, helper

import tilewright

MACHINE = """
kind = "hierarchy"
mac_pj = 0.1
[[levels]]
name = "dram"
read_pj_per_byte = 50.0
bytes_per_cycle = 8.0
[[levels]]
name = "buffer"
capacity_bytes = 4096
read_pj_per_byte = 1.0
"""


def network(path: Path) -> None:
    """Write a network of two convolutions."""
    weights = [
        helper.make_tensor(
            name, TensorProto.FLOAT, shape, [0.0] * (shape[0] * shape[1] * shape[2] * shape[3])
        )
        for name, shape in (("w", (8, 3, 3, 3)), ("v", (4, 8, 1, 1)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"], name="second"),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 10, 10]), ("y", None))
    ]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    network(tmp_path / "small.onnx")
    (tmp_path / "own.toml").write_text(MACHINE)
    return tmp_path


@pytest.mark.parametrize("rates", [True, False])
def test_a_network_on_a_machine_with_rates_is_planned_for_cycles(folder: Path, rates: bool) -> None:
    if not rates:
        (folder / "own.toml").write_text(MACHINE.replace("bytes_per_cycle = 8.0\n", ""))
    objective = tilewright.read(folder / "small.onnx", machine=folder / "own.toml").problem.minimise
    assert objective == ("cycles" if rates else "accesses")
    asked = tilewright.read(folder / "small.onnx", machine=folder / "own.toml", minimise="accesses")
    assert asked.problem.minimise == "accesses"


def test_an_onnx_file_is_solved_and_checked(folder: Path) -> None:
    asked = ("small.onnx", "--machine", "own.toml", "--minimise", "energy")
    done = run(folder, "solve", *asked, "-o", "plan.json")
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "plan.json").read_text())
    assert (result["room"], result["instance"], result["status"]) == ("tiling", "small-own", "optimal")
    assert list(result["report"]["measures"]["layers"]) == ["first", "second"]
    for command in ("check", "simulate"):
        done = run(folder, command, asked[0], "plan.json", *asked[1:])
        assert done.returncode == 0, done.stderr
    done = run(folder, "check", *asked[:3], "plan.json")
    assert done.returncode == 1
    assert "WRONG  instance  result is of another small-own" in done.stdout


def test_values_are_changed(folder: Path) -> None:
    def solved(*changes: str) -> int:
        done = run(folder, "solve", "small.onnx", "--machine", "own.toml", *changes, "--json")
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["objective"])

    small = ("--set", "machine.levels.buffer.capacity_bytes=200")
    assert solved(*small) > solved()
    # Several ways of saying the same.
    lists = solved("--minimise", "energy,cycles")
    assert lists == solved("--set", 'objective.minimise=["energy", "cycles"]')
    assert solved("--set", "objective.minimise=cycles") == solved("--minimise", "cycles")


@pytest.mark.nightly
def test_an_instance_gets_another_machine(folder: Path) -> None:
    done = run(
        folder,
        "solve",
        "lenet5-idsp",
        "--machine",
        "own.toml",
        "--set",
        "objective.minimise=energy",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["room"] == "tiling"


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("machine", "room"),
    [("idsp", "tiling"), ("nmp", "tiling"), ("tcpa", "allocation"), ("dnnvm-zu2", "fusion")],
)
def test_the_machine_says_which_room(folder: Path, machine: str, room: str) -> None:
    done = run(folder, "solve", "small.onnx", "--machine", machine, "--json", "--time-limit", "20")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["room"] == room


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("small.onnx",), "small.onnx .. network .. `--machine MACHINE`"),
        (("small.onnx", "--minimise", "cycles"), "--machine .. network"),
        (("small.onnx", "--machine", "owm.toml"), "no such file"),
        (("small.onnx", "--machine", "eyeris"), "eyeris .. eyeriss?"),
        (
            ("small.onnx", "--machine", "nmp", "--room", "fusion"),
            "nmp.toml .. machine .. fusion .. conv_array",
        ),
        (("small.onnx", "--machine", "own.toml", "--set", "limits"), "limits .. like"),
        (
            ("small.onnx", "--machine", "own.toml", "--set", "machine.levels.bufer.capacity_bytes=1"),
            "machine.levels .. dram, buffer .. buffer?",
        ),
        (("small.onnx", "--machine", "own.toml", "--set", "machine.levels=1,"), "machine.levels"),
        (
            ("small.onnx", "--machine", "own.toml", "--set", "machine.kind.x=1"),
            "machine.kind",
        ),
        (("small.onnx", "--machine", "own.toml", "--set", "machine.levels.0=1"), "machine.levels .. list"),
        (("small.onnx", "--machine", "own.toml", "--minimise", "energi"), "energi .. energy?"),
        (
            ("small.onnx", "--machine", "own.toml", "--room", "grouping"),
            "layer .. rooms .. tiling",
        ),
        (("lenet5-idsp", "--room", "fusion"), "an instance has a room"),
        (("lenet5-idsp", "--input", "x=1,3,8,8"), "is for networks in ONNX"),
    ],
)
def test_what_cannot_be_is_told(folder: Path, given: tuple[str, ...], told: str) -> None:
    done = run(folder, "solve", *given)
    assert done.returncode == 2
    assert tells(done.stderr, told)


def test_python_reads_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    values = {"machine.levels.buffer.capacity_bytes": 300}
    one = tilewright.read("small.onnx", machine="own.toml", minimise=["cycles", "energy"], values=values)
    done = run(
        folder,
        "solve",
        "small.onnx",
        *("--machine", "own.toml", "--minimise", "cycles,energy"),
        *("--set", "machine.levels.buffer.capacity_bytes=300", "--json"),
    )
    assert json.loads(done.stdout)["instance_sha256"] == one.sha256
    assert tilewright.solve(one).objective == json.loads(done.stdout)["objective"]
