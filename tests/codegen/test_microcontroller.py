"""Plans without DRAM as C for micro-controllers: outputs of LiteRT, arenas and bytes of the plan."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, examples, nightly, tells, thinned
from tests.importing.quantised_at_random import DRAWS, any_operators, some_operators, value
from tests.importing.tflite_files import TfliteFile, by_litert

from tilewright.codegen.microcontroller import microcontroller_project
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.tflite.exact import exact_operations
from tilewright.residency import Plan, Problem, memory_front
from tilewright.residency.evaluation import costs_of
from tilewright.spec.errors import InputError

pytest.importorskip("ai_edge_litert")

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)

SPOTTER = ROOT / "docs" / "files" / "kws_ref_model.tflite"

STRICT = "-O1 -Wall -Wextra -Werror -pedantic"

TINY = sorted(Path(os.environ.get("TILEWRIGHT_MLPERF_TINY", SPOTTER.parent)).glob("*.tflite"))


def problem_of(
    path: Path, inputs: str = "outside", machine: str = "cortex-m4", kind: str = "int8"
) -> Problem:
    """Return the problem of a file on a machine without DRAM."""
    values = ("limits.inputs", inputs), ("machine.element_bytes", np.dtype(kind).itemsize)
    changes = Changes(machine=machine, values=values)
    problem: Problem = assemble(str(path), changes).problem
    return problem


class Project:
    """The project of a plan of a file, in a folder."""

    def __init__(self, folder: Path, path: Path, problem: Problem, plan: Plan, seed: int = 0) -> None:
        self.folder, self.problem, self.plan = folder, problem, plan
        network = exact_operations(path)
        files = microcontroller_project(problem, plan, network, path.stem, "", seed)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        rng = np.random.default_rng(seed)
        tensors = [network.tensors[name] for name in network.inputs]
        for _ in range(2):  # what the project has as outputs is what LiteRT computes of the same inputs
            given = []
            for tensor in tensors:
                limits = np.iinfo(tensor.type)
                given.append(rng.integers(limits.min, limits.max + 1, tensor.shape, dtype=tensor.type))
            for ours, theirs in zip(network.run(given).values(), by_litert(path, given), strict=True):
                assert np.array_equal(ours, theirs)

    def make(self, target: str, **variables: str) -> dict[str, str]:
        """Return what a target of the Makefile prints, by the words of its lines."""
        words = [f"{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            ["make", "-s", target, *words], cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        return dict(rows)

    def is_right(self, target: str = "sanitize", **variables: str) -> None:
        """Compile and run it, and compare what it prints with the plan."""
        costs = costs_of(self.problem, self.plan)
        printed = self.make(target, **({"CFLAGS": STRICT} | variables))
        assert printed["wrong"] == "0 bytes of outputs"
        assert printed["arena"] == f"{costs['memory']} bytes, as planned"
        if "moved" in printed:
            assert printed["moved"] == f"{costs['traffic']} bytes outside, for an input"


@pytest.mark.parametrize("inputs", ["outside", pytest.param("memory", marks=nightly)])
@pytest.mark.parametrize("path", TINY, ids=lambda path: path.stem)
def test_networks_of_mlperf_tiny_are_computed_as_litert_does(path: Path, inputs: str, tmp_path: Path) -> None:
    problem = problem_of(path, inputs)
    front = memory_front(problem)
    for corner, target in ((front[0], "sanitize"), (front[-1], "run")):
        # Least memory, and nothing computed twice.
        Project(tmp_path / str(corner.memory_bytes), path, problem, corner.plan).is_right(target)


@pytest.mark.skipif(
    not (shutil.which("riscv64-unknown-elf-gcc") and shutil.which("qemu-system-riscv32")),
    reason="needs gcc-riscv64-unknown-elf and qemu-system-misc",
)
def test_the_keyword_spotter_runs_on_a_core_in_an_arena_of_the_planned_size(tmp_path: Path) -> None:
    problem = problem_of(SPOTTER)
    plan = memory_front(problem)[-1].plan
    project = Project(tmp_path, SPOTTER, problem, plan)
    printed = project.make("qemu-riscv")
    assert printed["wrong"] == "0 bytes of outputs"
    assert int(printed["of a MAC"].split()[0]) <= 800
    sizes = subprocess.run(
        ["riscv64-unknown-elf-size", "-A", "build/riscv.elf"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    rows = {line.split()[0]: line.split()[1] for line in sizes.splitlines() if line.startswith(".")}
    assert int(rows[".arena"]) == costs_of(problem, plan)["memory"]
    header = tmp_path / "src" / "network.h"
    arena = f"NETWORK_ARENA_BYTES {rows['.arena']}"
    assert arena in header.read_text()
    header.write_text(header.read_text().replace(arena, f"NETWORK_ARENA_BYTES {int(rows['.arena']) + 1}"))
    with pytest.raises(AssertionError, match="region `ARENA' overflowed by 1 byte"):
        project.make("qemu-riscv")


@nightly
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs gcc-arm-none-eabi and qemu-system-arm",
)
@pytest.mark.parametrize("path", TINY, ids=lambda path: path.stem)
def test_networks_run_on_both_emulated_cores(path: Path, tmp_path: Path) -> None:
    problem = problem_of(path)
    project = Project(tmp_path, path, problem, memory_front(problem)[-1].plan)
    for target, most in (("qemu-riscv", 800), ("qemu-arm", 600)):
        printed = project.make(target)
        assert printed["wrong"] == "0 bytes of outputs"
        assert int(printed["of a MAC"].split()[0]) <= most


DRAWN = [
    ("int8", some_operators),
    ("int8", any_operators),
    ("int16", some_operators),
    ("int16", any_operators),
]
"""Types of random networks, and what makes them."""


@pytest.mark.parametrize("seed", range(examples(400, 12)))
def test_random_networks_are_computed_as_litert_does(seed: int, tmp_path: Path) -> None:
    rng, (kind, draw) = random.Random(seed), DRAWN[seed % len(DRAWN)]
    for place in range(5):  # the first that is not refused
        file, output = draw(kind, 10 * seed + place)
        path = file.save(tmp_path / f"{place}.tflite", output)
        try:
            problem = problem_of(path, rng.choice(["outside", "memory"]), kind=kind)
            corner = rng.choice(memory_front(problem))
            project = Project(tmp_path / str(place), path, problem, corner.plan, seed)
        except InputError as error:
            assert draw is any_operators
            assert any(told in str(error) for told in ("there is no C", "stand for no", "are part of no"))
            continue
        project.is_right()
        return


@pytest.mark.parametrize("name", thinned([each for each in DRAWS if each != "convolution"], 4))
def test_large_maps_are_computed_as_litert_does(name: str, tmp_path: Path) -> None:
    file = TfliteFile("int8", len(name))
    own = value(file, [1, 24, 23, 20], 0.05)
    file.graph.inputs.append(own)
    path = file.save(tmp_path / "network.tflite", DRAWS[name](file, own))
    problem = problem_of(path)
    Project(tmp_path / "c", path, problem, memory_front(problem)[0].plan).is_right("run")


@nightly
@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_few_random_networks_are_refused(kind: str, draw: Any, tmp_path: Path) -> None:
    refused = list[str]()
    for seed in range(100):
        file, output = draw(kind, seed)
        path = file.save(tmp_path / "network.tflite", output)
        try:
            problem = problem_of(path, kind=kind)
            plan = memory_front(problem)[0].plan
            microcontroller_project(problem, plan, exact_operations(path), "network", "")
        except InputError as error:
            refused.append(str(error))
    assert len(refused) <= (0 if draw is some_operators else 3), refused


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_a_convolution_of_joined_maps_adds_up_sums_of_its_parts(kind: str, tmp_path: Path) -> None:
    file = TfliteFile(kind, 0)
    own = file.tensor([1, 7, 6, 5], scale=0.05)
    file.graph.inputs = [own]
    ends = [block(file, own, outputs, 3, 1, by_channel=False) for outputs in (7, 4)]
    path = file.save(tmp_path / "network.tflite", block(file, joined(file, ends), 6, 3, 1, by_channel=False))
    problem = problem_of(path, kind=kind)
    project = Project(tmp_path / "c", path, problem, memory_front(problem)[0].plan)
    project.is_right()
    assert (project.folder / "src" / "network.c").read_text().count("sum_four_of_8") == 2


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_a_window_of_a_whole_plane_has_running_values(kind: str, by_channel: bool, tmp_path: Path) -> None:
    file = TfliteFile(kind, 0)
    own = file.tensor([1, 5, 4, 6], scale=0.05)
    file.graph.inputs = [own]
    depth = 6 if by_channel else 7
    weights = file.weights([1, 5, 4, 6] if by_channel else [7, 5, 4, 6], 3 if by_channel else 0)
    result = file.tensor([1, 1, 1, depth], scale=0.3)
    fields: dict[str, Any] = {"strideH": 1, "strideW": 1, "padding": 1}
    fields |= {"dilationHFactor": 1, "dilationWFactor": 1}
    name, options = "CONV_2D", "Conv2DOptions"
    if by_channel:
        name, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        fields["depthMultiplier"] = 1
    file.add(name, [own, weights, file.bias(own, weights)], [result], options, **fields)
    path = file.save(tmp_path / "network.tflite", result)
    problem = problem_of(path, kind=kind)
    plan = memory_front(problem)[0].plan
    assert plan.steps[0].running
    Project(tmp_path / "c", path, problem, plan).is_right()


def block(file: TfliteFile, own: int, outputs: int, kernel: int, stride: int, *, by_channel: bool) -> int:
    """Add a convolution with SAME padding."""
    rng, (_, rows, columns, channels) = file.rng, file.graph.tensors[own].shape
    if by_channel:
        outputs, shape, axis = channels, [1, kernel, kernel, channels], 3
    else:
        shape, axis = [outputs, kernel, kernel, channels], 0
    weights = file.weights(shape, axis)
    planes = [1, -(-rows // stride), -(-columns // stride), outputs]
    zero = int(rng.integers(-20, 21)) if file.kind == "int8" else 0
    result = file.tensor(planes, scale=float(rng.uniform(0.02, 0.1)), zero=zero)
    fields = {
        "strideH": stride,
        "strideW": stride,
        "padding": 0,
        "fusedActivationFunction": int(rng.choice([0, 1])),
    }
    fields |= {"dilationHFactor": 1, "dilationWFactor": 1}
    name, options = ("CONV_2D", "Conv2DOptions")
    if by_channel:
        name, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        fields["depthMultiplier"] = 1
    file.add(name, [own, weights, file.bias(own, weights)], [result], options, **fields)
    return result


def added(file: TfliteFile, ends: list[int]) -> int:
    """Add the sum of two maps."""
    shape, zero = file.graph.tensors[ends[1]].shape, int(file.rng.integers(-20, 21))
    total = file.tensor(list(shape), scale=0.1, zero=zero if file.kind == "int8" else 0)
    file.add("ADD", ends, [total], "AddOptions", fusedActivationFunction=0)
    return total


def joined(file: TfliteFile, ends: list[int]) -> int:
    """Add the concatenation of the channels of two maps, which get one scale."""
    first, second = (file.graph.tensors[each] for each in ends)
    second.quantization = first.quantization
    *plane, channels = first.shape
    total = file.tensor([*plane, channels + second.shape[-1]], scale=1.0)
    file.graph.tensors[total].quantization = first.quantization
    file.add("CONCATENATION", ends, [total], "ConcatenationOptions", axis=3)
    return total


def branches(seed: int, kind: str = "int8") -> tuple[TfliteFile, int]:
    """Return a network whose branches are added up or joined, some of them with strides, and its output."""
    file = TfliteFile(kind, seed)
    rng = file.rng
    own = file.tensor(
        [1, int(rng.integers(4, 12)), int(rng.integers(4, 12)), int(rng.integers(1, 5))], scale=0.05
    )
    file.graph.inputs = [own]
    for _ in range(int(rng.integers(1, 4))):
        stride, outputs, ends = int(rng.integers(1, 3)), int(rng.integers(1, 7)), []
        for _ in range(2):
            end = own
            strides = [stride] + [1] * int(rng.integers(0, 3))
            rng.shuffle(strides)
            for each in strides:
                by_channel = bool(rng.integers(2))
                end = block(file, end, outputs, int(rng.choice([1, 3, 5])), each, by_channel=by_channel)
            ends.append(block(file, end, outputs, 1, 1, by_channel=False))
        if stride == 1 and rng.integers(2):
            ends[0] = own = block(file, own, outputs, 1, 1, by_channel=False)
        own = joined(file, ends) if rng.integers(3) == 0 else added(file, ends)
    return file, own


@pytest.mark.parametrize("seed", range(examples(200, 6)))
def test_branches_that_meet_are_computed_as_litert_does(seed: int, tmp_path: Path) -> None:
    kind = ["int8", "int8", "int16"][seed % 3]
    file, output = branches(seed, kind)
    path = file.save(tmp_path / "network.tflite", output)
    rng = random.Random(seed)
    problem = problem_of(path, rng.choice(["outside", "memory"]), kind=kind)
    corner = rng.choice(memory_front(problem))
    Project(tmp_path / "project", path, problem, corner.plan, seed).is_right("run")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"element_bytes": 2}, "element_bytes = 2 .. must be 1, as numbers of the file are int8"),
    ],
)
def test_what_there_is_no_c_for_is_refused(changes: dict[str, Any], told: str) -> None:
    problem = problem_of(SPOTTER).with_(machine=changes)
    plan = memory_front(problem)[0].plan
    with pytest.raises(InputError) as error:
        microcontroller_project(problem, plan, exact_operations(SPOTTER), "spotter", "")
    assert tells(str(error.value), told)


def test_a_network_in_floats_is_refused(tilewright, tmp_path: Path) -> None:
    told = (str(ROOT / "docs" / "files" / "lenet5.onnx"), "--machine", "cortex-m4")
    result = str(tmp_path / "lenet5.json")
    assert tilewright("solve", *told, "--time-limit", "20", "-o", result).returncode == 0
    refused = tilewright("emit", told[0], result, *told[1:], "-o", f"{tmp_path}/c/")
    assert refused.returncode == 2
    assert tells(refused.stderr, "lenet5.onnx .. has no quantised operators")
