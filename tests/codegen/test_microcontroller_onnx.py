"""Quantised ONNX files as C for micro-controllers: outputs are onnxruntime's."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from tests.importing.onnx_integers_at_random import Array, by_onnxruntime, some_operators
from tests.importing.test_exact_onnx import FORMS, IN_FLOATS, executed_operators, quantised

from tilewright.codegen.microcontroller import images_of, microcontroller_project
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.exact import exact_operations
from tilewright.importing.exact.judge import compared
from tilewright.residency import Plan, Problem, memory_front
from tilewright.residency.evaluation import costs_of
from tilewright.simulator.arithmetic.quantised import Inside, inside
from tilewright.spec.errors import InputError

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)

STRICT = "-O1 -Wall -Wextra -Werror -pedantic"


def problem_of(path: Path, inputs: str = "outside") -> Problem:
    """Return the problem of a file on a machine without DRAM."""
    changes = Changes(machine="cortex-m4", values=(("limits.inputs", inputs),))
    problem: Problem = assemble(str(path), changes).problem
    return problem


def make(folder: Path, target: str, flags: str = STRICT) -> dict[str, str]:
    """Return what a target of the Makefile prints, by the words of its lines."""
    done = subprocess.run(
        ["make", "-s", target, f"CFLAGS={flags}"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)


def project_files(
    folder: Path, path: Path, problem: Problem, plan: Plan, seed: int
) -> tuple[Inside, list[list[Array]]]:
    """Write the project of a plan; return the integers inside of the file, and its inputs."""
    network = exact_operations(path)
    for name, content in microcontroller_project(problem, plan, network, path.stem, "", seed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    rng, own = np.random.default_rng(seed), inside(network)
    shapes = [own.network.tensors[name].shape for name in own.network.inputs]
    return own, [[rng.integers(-128, 128, shape, dtype=np.int8) for shape in shapes] for _ in range(2)]


def project(folder: Path, path: Path, problem: Problem, plan: Plan, seed: int) -> bool:
    """Write the project of a plan; return whether its outputs are those of onnxruntime."""
    (own, images), same = project_files(folder, path, problem, plan, seed), True
    for image in images:
        ours = own.results([*own.network.run(image).values()])
        theirs = by_onnxruntime(path, own.of_file(image))
        same &= all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    return same


def is_right(folder: Path, problem: Problem, plan: Plan, target: str = "sanitize") -> None:
    """Compile and run a project, and compare what it prints with the plan."""
    costs, printed = costs_of(problem, plan), make(folder, target)
    assert printed["wrong"] == "0 bytes of outputs"
    assert printed["arena"] == f"{costs['memory']} bytes, as planned"
    if "moved" in printed:
        assert printed["moved"] == f"{costs['traffic']} bytes outside, for an input"


@pytest.mark.parametrize("seed", range(examples(300, 6)))
def test_random_networks_are_computed_as_onnxruntime_does(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for place in range(20):  # the first that is not refused
        file, last = some_operators(*FORMS[seed % 4], 20 * seed + place)
        path = file.save(tmp_path / f"{place}.onnx", last)
        try:
            problem = problem_of(path, rng.choice(["outside", "memory"]))
            corner = rng.choice(memory_front(problem))
            same = project(tmp_path / str(place), path, problem, corner.plan, seed)
        except InputError as error:
            assert "there is no C" in str(error) or "without" in str(error)
            continue
        assert same or executed_operators(path) & {*IN_FLOATS, "QLinearSigmoid", "Tanh", "Elu"}
        is_right(tmp_path / str(place), problem, corner.plan)
        return


@pytest.mark.parametrize("seed", range(examples(40, 2)))
def test_what_onnxruntime_quantises_becomes_c(seed: int, tmp_path: Path) -> None:
    form, kind = FORMS[(seed + 1) % 4]
    rectifier = ["Relu", "Clip"][seed // 4 % 2]
    path = quantised(tmp_path, seed, form, kind, rectifier, by_channel=bool(seed % 3))
    problem = problem_of(path, ["outside", "memory"][seed % 2])
    front, own = memory_front(problem), inside(exact_operations(path))
    assert compared(path, own, images_of(own.network, seed)).startswith("outputs: all 10 equal")
    for corner in (front[0], front[-1]):
        folder = tmp_path / str(corner.memory_bytes)
        assert project(folder, path, problem, corner.plan, seed)
        is_right(folder, problem, corner.plan, "run")


@pytest.mark.skipif(
    not (shutil.which("riscv64-unknown-elf-gcc") and shutil.which("qemu-system-riscv32")),
    reason="needs gcc-riscv64-unknown-elf and qemu-system-misc",
)
def test_a_quantised_network_runs_on_a_core_without_floats(tmp_path: Path) -> None:
    path = quantised(tmp_path, 5, "qdq", "uint8", "Relu", by_channel=True)
    problem = problem_of(path)
    plan = memory_front(problem)[-1].plan
    assert project(tmp_path / "c", path, problem, plan, 5)
    is_right(tmp_path / "c", problem, plan, "qemu-riscv")
