"""Residency plans as C projects: compiled with sanitizers, run, compared with report and reference."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import THOROUGH, thorough
from numbered import numbers
from residency_cases import problem_of
from tests.codegen.residency_in_c import (
    SANITIZED,
    Built,
    assert_any_is_right,
    assert_given_is_right,
    assert_right,
    found,
)

from tilewright import codegen
from tilewright.codegen import Values
from tilewright.codegen.addressed import addressed_project, numbers_of, steps
from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, simulate
from tilewright.residency.costs import Buffer
from tilewright.run import instance
from tilewright.spec.errors import InputError

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")

BUNDLED = ("mb28-64k", "resnet8-64k", "vww-32k")

AROUND = {"kernel": [3, 3], "padding": [1, 1, 1, 1]}

NETWORK = {
    "layers": [
        {"name": "a", "input": [2, 6, 5], "kernels": 4, "bias": True, **AROUND},
        {"name": "relu", "kind": "map", "op": "relu", "input": [4, 6, 5]},
        {"name": "b", "input": [4, 6, 5], "kernels": 2, "groups": 2, **AROUND},
        {"name": "sum", "kind": "add", "input": [2, 6, 5], "inputs": ["b", "input"]},
        {
            "name": "pool",
            "kind": "pool",
            "op": "average",
            "input": [2, 6, 5],
            "kernel": [2, 2],
            "stride": [2, 1],
        },
        {"name": "flat", "kind": "reshape", "op": "flatten", "input": [2, 3, 4], "output": [24, 1, 1]},
        {"name": "fc", "kind": "fc", "inputs": 24, "outputs": 5},
        {"name": "soft", "kind": "map", "op": "softmax", "input": [5, 1, 1]},
    ]
}
"""A residual block and a classifier."""


def small(**machine: Any) -> Problem:
    """Return the block in a memory in which it is executed in a few passes."""
    return problem_of(NETWORK, 130).with_(machine=machine)


@needs_compiler
@pytest.mark.parametrize("seed", range(200 if THOROUGH else 1))
def test_any_plan_computes_what_the_network_does(seed: int, tmp_path: Path) -> None:
    assert_any_is_right(Random(seed), tmp_path)


@needs_compiler
@pytest.mark.parametrize("seed", range(60 if THOROUGH else 1))
def test_given_numbers_are_those_of_the_integer_network(seed: int, tmp_path: Path) -> None:
    assert_given_is_right(Random(seed), tmp_path)


@needs_compiler
@thorough
def test_digits_are_classified_in_32_kilobytes(tmp_path: Path) -> None:
    problem = instance.read("lenet5-64k").problem.with_(machine={"memory_bytes": 32768, "element_bytes": 1})
    bits = instance.read("lenet5-bits").problem.with_(machine={"widths": list(range(2, 9))})  # of a byte
    values = codegen.numbers("lenet5-bits", bits, catalogue.heuristic("bitwidth", "greedy").plan(bits))
    plan = found(problem, "states")
    built = assert_right(tmp_path, problem, plan, 0, "-O2", values=values)
    assert built.lines[-1] == ["images in the right class", "193 of 200"]
    assert built.memory == simulate(problem, plan).facts["memory"] <= 32768


@needs_compiler
@pytest.mark.parametrize("name", ["ds-cnn-16k", *[pytest.param(each, marks=thorough) for each in BUNDLED]])
def test_bundled_instances(name: str, tmp_path: Path) -> None:
    problem = instance.read(name).problem
    plan = found(problem, "states")
    built = assert_right(tmp_path, problem, plan, 3, "-O2")
    assert built.memory == simulate(problem, plan).facts["memory"]
    if THOROUGH:
        assert_right(tmp_path, problem, plan, 3, *SANITIZED)


@needs_compiler
def test_a_wrong_address_or_weight_or_other_traffic_is_noticed(tmp_path: Path) -> None:
    problem = small()
    plan = found(problem, "states")
    built = assert_right(tmp_path, problem, plan, 0)
    weights = tmp_path / "data" / "weights.bin"
    right = weights.read_bytes()
    weights.write_bytes(bytes([right[0] ^ 64]) + right[1:])
    with pytest.raises(AssertionError):
        built.run()
    weights.write_bytes(right)
    assert built.run() == built.lines
    source = tmp_path / "src" / "network.c"
    text = source.read_text()
    row = re.compile(r"(\{tensors \+ \d+, )(\d+), (\d+)(, \d+, 0, 0, [01], 0\})")
    place = max(row.finditer(text), key=lambda each: int(each[3]))
    # The largest line buffer is made a pixel too short, then moved.
    for address, pixels in ((int(place[2]), int(place[3]) - 1), (int(place[2]) ^ 1, int(place[3]))):
        changed = f"{place[1]}{address}, {pixels}{place[4]}"
        source.write_text(text[: place.start()] + changed + text[place.end() :])
        with pytest.raises(AssertionError):
            Built(tmp_path, {})
    source.write_text(text)
    machine = tmp_path / "src" / "machine.h"
    planned = machine.read_text()
    more = re.sub(r"SAVED_BYTES (\d+)", lambda found: f"SAVED_BYTES {int(found[1]) + 1}", planned)
    assert more != planned
    machine.write_text(more)
    with pytest.raises(AssertionError):
        Built(tmp_path, {})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_values_fill_their_range(size: int) -> None:
    numbers = numbers_of(small(element_bytes=size, memory_bytes=130 * size), 1)
    for name, form in numbers.forms.items():
        assert form.bits == 8 * min(size, 3)
        half = 1 << (form.bits - 1)
        assert numbers.maps[name].min() >= -half and numbers.maps[name].max() < half
        if form.kind == "CONV":
            assert np.abs(numbers.maps[name]).max() >= half // 4


def test_what_has_no_c_is_refused() -> None:
    problem = small()
    plan = found(problem, "states")
    with pytest.raises(InputError, match="is not valid: "):
        codegen.project("net", "", problem, Plan(plan.steps[1:]))
    with pytest.raises(InputError, match="a project can be emitted"):
        codegen.emit("net", "", problem, plan)
    conv = {"name": "c", "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}
    for layer in (
        {"name": "x", "kind": "map", "op": "lrn", "input": [2, 4, 4]},
        {"name": "x", "kind": "pad", "input": [2, 4, 4], "padding": [3, 0, 0, 0]},
        {"name": "x", "kind": "opaque", "op": "nms", "input": [2, 4, 4], "output": [1, 1, 1]},
        {"name": "x", "kind": "map", "op": "softmax", "input": [2, 4, 4]},
        {"name": "x", "kind": "fc", "input": [32, 1, 1], "kernels": 2, "kernel": [1, 1], "groups": 2},
    ):
        after = [conv | {"name": "after"}] if layer.get("op") == "softmax" else []
        one = problem_of({"layers": [conv, layer, *after]}, 1000)
        with pytest.raises(InputError, match=r"network\.layers\[1\].*layer x: there is no C for"):
            addressed_project(one, found(one, "layer_by_layer"), 0, "net", "")


def test_numbers_that_do_not_fit_are_refused() -> None:
    problem = small()
    plan = found(problem, "states")
    network, _ = numbers(Random(1), problem.network, (8, 16))
    wide, _ = numbers(Random(2), problem.network, (30, 32))
    images = np.zeros((1, 2, 6, 5), np.int64)
    with pytest.raises(InputError, match=r"layer (a|b|fc): weights of \d+ bits do not fit its elements"):
        codegen.project("net", "", problem, plan, Values(wide, images, None, "a test"))
    other = problem_of({"layers": NETWORK["layers"][:1]}, 400)
    with pytest.raises(InputError, match=r"is another network than that of the numbers \(a test\)"):
        codegen.project("net", "", other, found(other, "states"), Values(network, images, None, "a test"))


def test_steps_of_other_kinds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plan may come to say later is not silently left out."""
    problem = small()
    plan = found(problem, "states")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "ORDERS", ("kernels",))
        with pytest.raises(InputError, match=r"plan\.steps\[\d\]\.order = 'pixels': there is no C for"):
            addressed_project(problem, plan, 0, "net", "")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "ENTRIES", tuple(set(steps.ENTRIES) - {"pixels"}))
        with pytest.raises(
            InputError, match=r"plan\.steps\[\d\]\.pixels = \d+: there is no C for such steps"
        ):
            addressed_project(problem, plan, 0, "net", "")
    more = steps.buffers

    def with_sums(*given: Any) -> list[Buffer]:
        return [*more(*given), Buffer("sums", 1, 4)]

    def twice(*given: Any) -> list[Buffer]:
        return [each._replace(size=2 * each.size) for each in more(*given)]

    with monkeypatch.context() as patch:
        patch.setattr(steps, "buffers", with_sums)
        with pytest.raises(
            InputError, match=r"sums of a, 4 elements'?: there is no C for steps that place this"
        ):
            addressed_project(problem, plan, 0, "net", "")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "buffers", twice)
        with pytest.raises(InputError, match=r"lines of .*: there is no C for steps that place this"):
            addressed_project(problem, plan, 0, "net", "")
