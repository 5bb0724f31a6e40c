"""Emitted Halide computes the layer, and moves tile by tile, in their order, what the plan moves."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np
import pytest
from conftest import thinned
from test_emit import LAYERS, NASTY, Case, make_problem, sizes_of, some_tiles

from tilewright import codegen
from tilewright.simulator import Box
from tilewright.tiling import Plan
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import ORDERED, SCHEDULES, DspPlan

EVENT = re.compile(r"^(Load|Store) (B_in|B_w|out)(?:\$\d+)?\.\d+\(([-\d, ]+)\)", re.MULTILINE)
"""An element that is read or written, as Halide traces it; the innermost dimension comes first."""

MISSING = "no halide: pip install halide"

TENSORS = {"input": ("Store", "B_in"), "kernels": ("Store", "B_w"), "output": ("Load", "out")}
"""What a load of each tensor is in the trace."""


def program(case: Case) -> ModuleType:
    """Return the emitted program as a module."""
    module = ModuleType("emitted")
    text = codegen.halide("a layer", "", case.problem, Plan((case.plan,)))
    assert max(map(len, text.splitlines())) <= 110
    exec(compile(text, "emitted", "exec"), module.__dict__)
    return module


def planned(case: Case, tensor: str, shape: tuple[int, ...]) -> Iterator[set[int]]:
    """Yield the elements of each load of a tensor in their order; of "written" those of each write-back."""
    for step in lower(nest_of(case.problem.one_layer, case.problem.machine), case.plan, 0).steps:
        for action in step.write_back if tensor == "written" else step.load:
            if tensor not in ("written", action.tensor):
                continue
            assert isinstance(action.region, Box)
            spans = [
                np.arange(*(span or (0, size)))
                for span, size in zip(action.region.ranges, shape, strict=True)
            ]
            yield set(np.ravel_multi_index(np.ix_(*spans), shape).ravel().tolist())


def traced(case: Case, text: str, tensor: str, shape: tuple[int, ...]) -> list[int]:
    """Return the elements that are loaded of a tensor, or written, in their order."""
    kind = TENSORS.get(tensor, ("Store", "out"))
    layer = case.problem.one_layer
    at = [found[3].split(", ")[::-1] for found in EVENT.finditer(text) if found.groups()[:2] == kind]
    if not at:
        return []
    places = np.array(at, dtype=np.int64)
    if layer.groups == 1:
        places = np.insert(places, 0 if tensor == "kernels" else 1, 0, axis=1)
    if tensor == "input" and case.padding_is_made:
        inside = ((places[:, 3:] >= 0) & (places[:, 3:] < layer.input[1:])).all(axis=1)
        places = places[inside] + [0, 0, 0, layer.padding[0], layer.padding[2]]
    found: list[int] = np.ravel_multi_index(tuple(places.T), shape).tolist()
    return found


def check(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    hl = pytest.importorskip("halide", reason=MISSING)
    module = program(case)
    (layer,) = module.LAYERS.values()
    values, kernels, expected = case.data()
    values = values.reshape(layer.inputs).astype(module.DATA)
    weights = kernels.reshape(layer.weights).astype(module.DATA)
    out, b_in, b_w, _ = layer.stages(hl.Buffer(values), hl.Buffer(weights))
    for stage in (b_in, b_w, out):
        stage.trace_stores()
    out.trace_loads()
    capfd.readouterr()
    found = np.asarray(out.realize(list(layer.outputs[::-1])))
    text = capfd.readouterr().out
    assert np.array_equal(found.reshape(expected.shape), expected), case
    shapes = {
        tensor.name: tensor.shape
        for tensor in lower(nest_of(case.problem.one_layer, case.problem.machine), case.plan, 0).tensors
    }
    for tensor in (*TENSORS, "written"):
        shape = shapes.get(tensor, shapes["output"])
        moved = traced(case, text, tensor, shape)
        at = 0
        for elements in planned(case, tensor, shape):
            part = moved[at : at + len(elements)]
            assert len(part) == len(elements) and set(part) == elements, (case, tensor, at)
            at += len(elements)
        assert at == len(moved), (case, tensor)


def case_of(number: int, order: str, reuse: str, turn: int) -> Case:
    """Return a layer with a tile; tiles, padding and elements take turns."""
    problem = make_problem(
        list(LAYERS.values())[number],
        padding=("loaded", "generated")[(number + turn) % 2],
        element_bytes=(1, 2, 4, 8)[number % 4],
    )
    tile = next(some_tiles(sizes_of(problem), number + turn))
    return Case(problem, DspPlan(tile, order, reuse))  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_of_the_thesis(schedule: str, capfd: pytest.CaptureFixture[str]) -> None:
    turn = list(SCHEDULES).index(schedule)
    for number in thinned(range(len(LAYERS)), 6):
        check(case_of((number + turn) % len(LAYERS), *SCHEDULES[schedule], turn), capfd)


@pytest.mark.nightly
def test_other_orders(capfd: pytest.CaptureFixture[str]) -> None:
    """Orders of the loops, with `-m nightly` all, with every reuse; layers, tiles and padding take turns."""
    ways = [("".join(order), reuse) for order in permutations(ORDERED) for reuse in codegen.EMITTED]
    for number, (order, reuse) in enumerate(thinned(ways, 89)):
        check(case_of(number % len(LAYERS), order, reuse, number), capfd)


@pytest.mark.parametrize("nasty", [*NASTY, '"""\nimport os', 'a "quoted" name"', "\\"])
def test_text_from_outside_stays_in_docstrings(nasty: str) -> None:
    case = case_of(0, "cknyx", "halo", 0)
    text = codegen.halide(nasty, nasty, case.problem, Plan((case.plan,)))
    (function,) = (node for node in ast.parse(text).body if is_layer(node))
    plain = ast.parse(codegen.halide("", "", case.problem, Plan((case.plan,))))
    (other,) = (node for node in plain.body if is_layer(node))
    assert [ast.dump(line) for line in function.body[1:]] == [ast.dump(line) for line in other.body[1:]]
    assert len(ast.parse(text).body) == len(plain.body)


def is_layer(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("layer")


@pytest.mark.nightly
def test_a_network_is_one_program_that_checks_itself(tilewright: Any, tmp_path: Path) -> None:
    """Equal layers share a pipeline; what differs from the convolution is told."""
    layer = "input = [2, 6, 6]\nkernels = 2\nkernel = [3, 3]\npadding = [1, 1, 1, 1]\n"
    names = "".join(f'[[network.layers]]\nname = "{name}"\n{layer}' for name in ("one", "two"))
    (tmp_path / "net.toml").write_text(
        f'room = "tiling"\n{names}'
        '[machine]\nkind = "dsp"\nmemory_bytes = 300\n[limits]\nschedule = "halide-idsp"\n'
    )
    assert tilewright("solve", "net.toml", "-o", "result.json").returncode == 0
    done = tilewright("emit", "net.toml", "result.json", "--language", "halide", "-o", "net.py")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "net.py").read_text()
    assert tilewright("emit", "net.toml", "result.json", "--as", "halide").stdout == text
    told = json.loads(tilewright("emit", "net.toml", "result.json", "--as", "halide", "--json").stdout)
    assert told == {"instance": "net", "source": text}
    assert text.count("def layer_") == 1 and "layer_one: one, two." in text
    refused = tilewright("emit", "lenet5-conv2-idsp", "result.json", "--as", "halide")
    assert refused.returncode == 2
    pytest.importorskip("halide", reason=MISSING)
    wrong = text.replace("value * weight", "value + weight")
    for source, code in ((text, 0), (wrong, 1)):
        (tmp_path / "run.py").write_text(source)
        run = subprocess.run([sys.executable, "run.py"], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == code, run.stderr
        assert ("equals the convolution" in run.stdout) == (code == 0)
        assert ("differs from the convolution" in run.stderr) == (code == 1)
