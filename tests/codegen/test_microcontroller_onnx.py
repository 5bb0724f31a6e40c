"""Quantised ONNX files as C for micro-controllers: outputs are onnxruntime's."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from tests.codegen.test_microcontroller_memories import in_blocks
from tests.importing.onnx_integers_at_random import Array, by_onnxruntime, some_operators
from tests.importing.test_exact_onnx import FORMS, IN_FLOATS, executed_operators, quantised

from tilewright.codegen import microcontroller
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

RUNTIME = Path(microcontroller.__file__).parent / "runtime"

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
            assert "there is no C" in str(error) or "are part of no operation" in str(error)
            continue
        assert same or executed_operators(path) & {*IN_FLOATS, "QLinearSigmoid", "Tanh", "Elu"}
        is_right(tmp_path / str(place), problem, corner.plan)
        return


@pytest.mark.parametrize("seed", range(examples(100, 1)))
def test_weights_are_copied_block_by_block_as_onnxruntime_has_them(seed: int, tmp_path: Path) -> None:
    rng, place, streamed = random.Random(seed), 0, 0
    while True:
        file, last = some_operators(*FORMS[seed % 4], 1000 * seed + place)
        path, place = file.save(tmp_path / f"{place}.onnx", last), place + 1
        try:
            problem, plan, streamed = in_blocks(rng, problem_of(path))
            if not streamed:
                continue
            same = project(tmp_path / str(place), path, problem, plan, seed)
        except InputError as error:
            assert any(told in str(error) for told in ("there is no C", "are part of no operation"))
            continue
        assert same or executed_operators(path) & {*IN_FLOATS, "QLinearSigmoid", "Tanh", "Elu"}
        is_right(tmp_path / str(place), problem, plan)
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


HARNESS = """
#include <stdio.h>
#include <math.h>
#include "kernels.h"
int main(void)
{
    const float scales[] = {%s};
    long wrong = 0, halves = 0;
    for (int i = 0; i < %d; i++) {
        int power;
        const int32_t multiplier = (int32_t)(frexpf(scales[i], &power) * 16777216.0f);
        const int64_t most = (int64_t)(16384.0 / scales[i]), end = most < 16777215 ? most : 16777215;
        for (int64_t sum = -end; sum <= end; sum += 1 + end / %d) {
            const float kept = fminf(fmaxf((float)sum * scales[i], -200.0f), 310.0f);
            const int32_t found = nearest_of_sum((int32_t)sum, multiplier, 8 - power, scales[i], -200, 310);
            wrong += found != (int32_t)nearbyintf(kept);
            halves += fabsf(kept - floorf(kept)) == 0.5f;
        }
    }
    const float sums[][3] = {%s};
    for (int i = 0; i < (int)(sizeof sums / sizeof *sums); i++) {
        const float x = sums[i][0], p = sums[i][1], q = sums[i][2];
        const int32_t parts[] = {lrintf(x * 262144), lrintf(p * 262144), lrintf(q * 262144)};
        for (int a = 0; a < 256; a++)
            for (int b = 0; b < 256; b++) {
                const float kept = fminf(fmaxf(x + (float)a * p + (float)b * q, 0.0f), 255.0f);
                const int32_t found = nearest_of_two(a, b, parts[0], parts[1], parts[2], x, p, q, 0, 255);
                wrong += found != (int32_t)nearbyintf(kept);
                halves += fabsf(kept - floorf(kept)) == 0.5f;
            }
    }
    printf("%%ld %%ld\\n", wrong, halves);
}
"""


def test_sums_are_scaled_in_integers_as_in_floats(tmp_path: Path) -> None:
    rng, count, steps = np.random.default_rng(0), examples(400, 40), examples(4_000_000, 200_000)
    scales = [0.5, 0.125, 2.0**-9, 0.75, 3.0 * 2**-12, *(2.0 ** rng.uniform(-20, 1, count - 5))]
    told = ", ".join(f"{float(np.float32(each)).hex()}f" for each in scales)
    triples = [(0.0, 0.5, 0.25), (-3.5, 1.0, 1.5)]
    triples += [(rng.uniform(-200, 200), *rng.uniform(0.01, 3, 2)) for _ in range(examples(2000, 100))]
    sums = ", ".join(
        f"{{{', '.join(f'{float(np.float32(each)).hex()}f' for each in one)}}}" for one in triples
    )
    (tmp_path / "harness.c").write_text(HARNESS % (told, count, steps, sums))
    flags = ["-O2", "-std=c11", "-ffp-contract=off", "-I", str(RUNTIME)]
    subprocess.run(["gcc", *flags, "harness.c", "-o", "harness", "-lm"], cwd=tmp_path, check=True)
    printed = subprocess.run(["./harness"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    wrong, halves = map(int, printed.split())
    assert wrong == 0
    assert halves > 1000


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
