"""Plans of grouping and offloading as C projects: steps, memories of the planned size, counts and outputs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from compiled import CHECKED, Compiled
from conftest import THOROUGH, make_problem
from hypothesis import assume, given, settings
from numbered import randoms
from offloading_at_random import table_at_random
from tests import command
from tests.offloading.test_offloading_oracle import heuristic_plan, problem_of

from tilewright import codegen, grouping, offloading
from tilewright.run.instance import read
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)


class Built(Compiled):
    """The project of a plan, with what it printed: what was found, and what was planned."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        super().__init__(folder, files, *flags)
        self.told = {line[0]: tuple(map(int, line[1:])) for line in self.lines if line[-1].isdigit()}

    def values(self, name: str) -> Any:
        """Return the integers of a file of the project."""
        return np.frombuffer((self.folder / "data" / name).read_bytes(), "<i4").astype(np.int64)


def moved_by(report: Any) -> dict[str, int]:
    """Return the elements that the simulator saw move, in the program's words."""
    found = dict.fromkeys(("input", "kernels", "sums"), 0)
    for tensor, counts in report.loaded.items():
        kind = tensor.split()[0]
        found["sums" if kind == "output" else kind] += report.total(counts)
    written = sum(report.total(counts) for counts in report.written.values())
    return {
        "loaded of the input": found["input"],
        "loaded of the kernels": found["kernels"],
        "loaded of sums": found["sums"],
        "written": written,
    }


def assert_as_simulated(built: Built, report: Any) -> None:
    assert report.violation is None
    for what, elements in moved_by(report).items():
        assert built.told[what] == (elements, elements), what


def convolved(layer: Any, values: Any, kernels: Any) -> Any:
    """Return the outputs of a layer, window by window; shape (images, N, H, W)."""
    (top, bottom, left, right), (rows, columns) = layer.padding, layer.output_plane
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    each, deep = layer.kernels // layer.groups, layer.input[0] // layer.groups
    found = np.zeros((len(values), layer.kernels, rows, columns), dtype=np.int64)
    reach = [slice(0, d * (k - 1) + 1, d) for k, d in zip(layer.kernel, layer.dilation, strict=True)]
    for kernel, y, x in product(range(layer.kernels), range(rows), range(columns)):
        maps = padded[:, kernel // each * deep :][:, :deep]
        window = maps[:, :, y * layer.stride[0] :, x * layer.stride[1] :][:, :, reach[0], reach[1]]
        found[:, kernel, y, x] = (window * kernels[kernel]).sum(axis=(1, 2, 3))
    return found


def any_grouping(random: Random) -> tuple[grouping.Problem, grouping.Plan]:
    """Return a layer of any shape, and a plan: patches in any order, in groups of any size."""
    kernel = [random.randint(1, 3), random.randint(1, 3)]
    groups, generated = random.choice([1, 1, 2]), random.random() < 0.5
    layer: dict[str, Any] = {
        "input": [groups * random.randint(1, 3), random.randint(5, 7), random.randint(5, 8)],
        "kernels": groups * random.randint(1, 3),
        "kernel": kernel,
        "groups": groups,
        "stride": [random.randint(1, 2), random.randint(1, 3)],
        "dilation": [random.randint(1, 2), random.randint(1, 2)],
        "padding": [random.randint(0, kernel[i // 2] - 1) for i in range(4)],
        "batch": random.randint(1, 2),
    }
    machine = {
        "group_size": random.randint(1, 4),
        "kernels": random.choice(["preloaded", "step1"]),
        "outputs": random.choice(["each_step", "kept"]),
        "padding": "generated" if generated else "loaded",
    }
    problem = make_problem(layer, machine, {"reloads": 0})
    order, cut = list(range(problem.n_patches)), []
    if random.random() < 0.7:
        random.shuffle(order)
    while order:
        size = random.randint(1, problem.group_size)
        cut.append(order[:size])
        order = order[size:]
    plan = grouping.Plan.from_groups(problem, cut)
    if machine["outputs"] == "kept" and random.random() < 0.7:  # as small a memory as the plan can have
        least = make_problem(layer, machine | {"outputs": "each_step"}, {"reloads": 0})
        memory = grouping.simulate(least, plan).peak
        problem = make_problem(layer, machine | {"memory": memory}, {"reloads": 0})
    return problem, plan


@settings(max_examples=60 if THOROUGH else 3)
@given(randoms)
def test_any_grouping_computes_the_layer_in_exactly_the_memory_it_needs(random: Random) -> None:
    problem, plan = any_grouping(random)
    report, layer = grouping.simulate(problem, plan), problem.layer
    with tempfile.TemporaryDirectory() as folder:
        files = codegen.project("layer", "", problem, plan, seed=random.getrandbits(20))
        built = Built(Path(folder), files, *CHECKED, "-DON_CHIP=")
        assert_as_simulated(built, report)
        assert built.told["most on chip"] == (report.peak, report.peak)
        assert f"MEMORY_ELEMENTS {report.peak}\n" in (built.folder / "src/layer.h").read_text()
        top, bottom, left, right = layer.padding
        shape = (*layer.padded_plane, layer.batch, layer.input[0])
        values = built.values("input.bin").reshape(shape).transpose(2, 3, 0, 1)
        values = values[:, :, top : shape[0] - bottom, left : shape[1] - right]
        kernels = built.values("kernels.bin").reshape(layer.kernels_shape)
        outputs = built.values("output.bin").reshape(*layer.output_plane, layer.batch, layer.kernels)
        assert (outputs.transpose(2, 3, 0, 1) == convolved(layer, values, kernels)).all()


@settings(max_examples=100 if THOROUGH else 3)
@given(randoms)
def test_any_offloading_computes_the_layer(random: Random) -> None:
    """Convolutions and matrix products, in one memory or several, counted or at addresses."""
    problem = problem_of(table_at_random(random, cells=60))
    plan = heuristic_plan(random, problem)
    assume(offloading.violation(problem, plan) is None)
    report, layer = offloading.simulate(problem, plan), problem.layer
    files = codegen.project("layer", "", problem, plan, seed=random.getrandbits(20))
    with tempfile.TemporaryDirectory() as folder:
        built = Built(Path(folder), files, *CHECKED, "-DON_CHIP=")
        assert_as_simulated(built, report)
        size = int((built.folder / "src/layer.h").read_text().split("MEMORY_ELEMENTS ")[1].split()[0])
        assert problem.machine.memory is None or size <= problem.machine.memory
        if problem.n_memories == 1 and plan.addresses is None:
            assert size == report.peak
        kernels = built.values("kernels.bin").reshape(layer.kernels_shape)
        outputs = built.values("output.bin").reshape(layer.output_shape)
        if problem.limits.form == "direct":
            values = built.values("input.bin").reshape(1, layer.input[0], *layer.padded_plane)
            top, bottom, left, right = layer.padding
            values = values[:, :, top : values.shape[2] - bottom, left : values.shape[3] - right]
            expected = convolved(layer, values, kernels)
        else:
            rows = built.values("input.bin").reshape(problem.elements.n_patches, -1)
            expected = (kernels.reshape(layer.kernels, -1) @ rows.T).reshape(layer.output_shape)
        assert (outputs == expected).all()


def test_changed_tables_are_noticed(tmp_path: Path) -> None:
    problem = make_problem()
    plan = grouping.Plan.from_groups(problem, [[0, 1], [2, 5], [8, 7], [6, 3], [4]])
    built = Built(tmp_path, codegen.project("layer", "", problem, plan), "-O0")
    with pytest.raises(AssertionError, match=r"outputs that are wrong\t[1-9]"):
        # Another kernel is loaded in the place of the first.
        file = built.folder / "data" / "kernels.bin"
        held = file.read_bytes()
        file.write_bytes(held[4:8] + held[:4] + held[8:])
        try:
            built.run()
        finally:
            file.write_bytes(held)
    # What should have left has taken the places of what comes.
    assert "has no place" in built.changed("steps.c", r"(    \{FREE_INPUT, .*\n)+", "", "-O0")
    # Fewer elements come than are needed.
    told = built.changed(
        "steps.c", r"(\{LOAD_INPUT, 0, \d+, )\d+(, \d+\},\n    \{BEGIN)", r"\g<1>1\g<2>", "-O0"
    )
    assert "is not on chip" in told
    # An address too many.
    size = int((built.folder / "src" / "layer.h").read_text().split("MEMORY_ELEMENTS ")[1].split()[0])
    told = built.changed("layer.h", f"MEMORY_ELEMENTS {size}", f"MEMORY_ELEMENTS {size - 1}", "-O0")
    assert "has no place" in told


def test_a_plan_is_written_from_the_command_line(tmp_path: Path) -> None:
    for words in (("solve", "s1-example2", "--with", "zigzag", "-o", "plan.json"),
                  ("emit", "s1-example2", "plan.json", "-o", "steps/")):  # fmt: skip
        done = command.run(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    built = Built(tmp_path / "steps", {}, "-O1")
    report = grouping.simulate(problem := read("s1-example2").problem, solve(problem, "zigzag").plan)
    assert_as_simulated(built, report)
    assert built.sections("src/engine.c")[".on_chip"] == 4 * report.peak


def test_what_has_no_c_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem()
    plan = grouping.Plan.from_groups(problem, [[0, 1], [2, 5], [8, 7], [6, 3], [4]])
    with pytest.raises(InputError, match=r"plan .*not valid"):
        codegen.project("layer", "", problem, grouping.Plan(plan.groups[1:]))
    with pytest.raises(InputError, match=r"room = .*-o FOLDER/"):
        codegen.emit("layer", "", problem, plan)
    monkeypatch.setattr("tilewright.codegen.steps.places.MOST_ACTIONS", 20)
    with pytest.raises(InputError, match=r"layer\.input = .* more than 20 moves"):
        codegen.project("layer", "", problem, plan)
