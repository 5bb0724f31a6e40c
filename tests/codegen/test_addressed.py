"""Residency plans as C projects: compiled with sanitizers, run, compared with report and reference."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import THOROUGH, nightly
from numbered import numbers
from residency_cases import problem_of
from tests.codegen.residency_in_c import (
    SANITIZED,
    Built,
    any_plan,
    assert_any_is_right,
    assert_any_is_right_in_memories,
    assert_given_is_right,
    assert_right,
    found,
)

from tilewright import codegen
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.addressed import addressed_project, numbers_of, steps
from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, Step, simulate
from tilewright.residency.shapes.shape import Buffer
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
def test_any_plan_in_several_memories_computes_what_the_network_does(seed: int, tmp_path: Path) -> None:
    assert_any_is_right_in_memories(Random(f"memories {seed}"), tmp_path)


@needs_compiler
@pytest.mark.parametrize("seed", range(60 if THOROUGH else 1))
def test_given_numbers_are_those_of_the_integer_network(seed: int, tmp_path: Path) -> None:
    assert_given_is_right(Random(seed), tmp_path)


@needs_compiler
@nightly
def test_digits_are_classified_in_32_kilobytes(tmp_path: Path) -> None:
    problem = instance.read("lenet5-64k").problem.with_(machine={"memory_bytes": 32768, "element_bytes": 1})
    bits = instance.read("lenet5-bits").problem.with_(machine={"widths": list(range(2, 9))})  # of a byte
    values = codegen.numbers("lenet5-bits", bits, catalogue.heuristic("bitwidth", "greedy").plan(bits))
    plan = found(problem, "states")
    built = assert_right(tmp_path, problem, plan, 0, "-O2", values=values)
    assert built.lines[-1] == ["images in the right class", "193 of 200"]
    assert built.memory == simulate(problem, plan).measures.memory_bytes <= 32768


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize("name", ["ds-cnn-16k", *[pytest.param(each, marks=nightly) for each in BUNDLED]])
def test_bundled_instances(name: str, tmp_path: Path) -> None:
    problem = instance.read(name).problem
    plan = found(problem, "states")
    built = assert_right(tmp_path, problem, plan, 3, "-O2")
    assert built.memory == simulate(problem, plan).measures.memory_bytes
    if THOROUGH:
        assert_right(tmp_path, problem, plan, 3, *SANITIZED)


SHORT = ("mb28-64k", "resnet8-64k", "vww-32k")
"""Instances that are executed in strips in 16 KB."""


@needs_compiler
@nightly
@pytest.mark.parametrize("name", SHORT)
def test_bundled_instances_in_16_kilobytes(name: str, tmp_path: Path) -> None:
    problem = instance.read(name).problem.with_(machine={"memory_bytes": 16384})
    plan = found(problem, "states")
    assert any(step.columns for step in plan.steps)
    built = assert_right(tmp_path, problem, plan, 3, "-O2")
    assert built.memory == simulate(problem, plan).measures.memory_bytes <= 16384


KINDS: dict[str, Callable[[Step], bool]] = {
    "strips": lambda step: step.order == "pixels" and (step.columns or 9) < 3 and len(step.operations) > 1,
    "tiles": lambda step: step.order == "tiles" and step.channels == 2 and step.pixels > 2,
    "sums in tiles": lambda step: step.order == "tiles" and step.channels == 1 and step.pixels > 2,
    "sums": lambda step: step.order == "channels" and step.channels == 1 and step.kernels > 1,
    "second buffers": lambda step: step.double_buffering and step.order == "pixels" and 0 < step.pixels < 30,
    "second buffers of blocks": lambda step: (
        step.double_buffering and step.order == "kernels" and 1 < step.kernels < 4
    ),
}


def plan_with(problem: Problem, kind: str) -> tuple[Plan, int]:
    """Return a random plan with a step of some kind, and the number of that step, which reads DRAM."""
    random = Random(5)
    for _ in range(5000):
        plan = any_plan(random, problem)
        for number, step in enumerate(plan.steps, 1):
            lines = any(name.startswith("lines of") for name in step.addresses)
            if step.operations[0] == "a" and lines and KINDS[kind](step):
                return plan, number
    raise AssertionError(kind)


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_step_is_executed_right_and_a_wrong_one_is_noticed(kind: str, tmp_path: Path) -> None:
    problem = small(memory_bytes=4000, double_buffering=True)
    plan, number = plan_with(problem, kind)
    assert_right(tmp_path, problem, plan, 2, *SANITIZED)
    source = tmp_path / "src" / "network.c"
    text = source.read_text()
    # What comes before or after a step does not matter: an input that is read a pixel aside does.
    table = re.compile(rf"step{number}_columns\[\] = \{{\n    \{{(\d+), (\d+)\}}")
    place = table.search(text)
    assert place is not None
    source.write_text(text[: place.start(2)] + str(int(place[2]) - 1) + text[place.end(2) :])
    with pytest.raises(AssertionError):
        Built(tmp_path, {})


@needs_compiler
def test_strips_that_need_whole_rows_save_no_column_twice(tmp_path: Path) -> None:
    """The second strip of three needs all columns of what the first one has saved in part."""
    layers = [
        {"name": "a", "input": [1, 3, 3], "kernels": 1, **AROUND},
        {"name": "b", "input": [1, 3, 3], "kernels": 1, **AROUND},
        {"name": "sum", "kind": "add", "input": [1, 3, 3], "inputs": ["a", "b"]},
    ]
    problem = problem_of({"layers": layers}, 4000)
    names = "lines of input", "lines of a", "weights of a", "weights of b", "block of b"
    strips = Step(("a", "b"), kept=("a", "b"), written=("a", "b"), columns=1)
    last = Step(("sum",), written=("sum",))
    places = {name: 50 * place for place, name in enumerate(names)}
    sums = {name: 50 * place for place, name in enumerate(("lines of a", "lines of b", "block of sum"))}
    plan = Plan((replace(strips, addresses=places), replace(last, addresses=sums)))
    # Optimised by day, too, as no other test with sanitizers is.
    assert assert_right(tmp_path, problem, plan, 0, *SANITIZED, "-O1").moved[0][1] == 18


@pytest.mark.nightly
@needs_compiler
def test_weights_that_stay_are_loaded_once_for_all_images(tmp_path: Path) -> None:
    problem = small(memory_bytes=4000, double_buffering=True).with_(limits={"frames": "many"})
    plan = any_plan(Random(195), problem)
    assert len(plan.staying) == 3 and {"tiles", "kernels"} <= {step.order for step in plan.steps}
    built = assert_right(tmp_path, problem, plan, 2, *SANITIZED)
    weights = sum(operation.weights for operation in problem.graph.operations)
    assert ["weights that stay, loaded once", str(weights)] in built.lines
    assert (tmp_path / "data" / "input.bin").stat().st_size == 2 * 60
    source = tmp_path / "src" / "network.c"
    table = re.compile(r"(staying\[SOME\(STAYING\)\] = \{\n    \{network_weights \+ \d+, )(\d+)")
    moved = table.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", source.read_text())
    assert moved != source.read_text()
    source.write_text(moved)
    with pytest.raises(AssertionError):
        Built(tmp_path, {})


@pytest.mark.nightly
@needs_compiler
def test_what_is_executed_twice_has_its_weights_once(tmp_path: Path) -> None:
    layers = [
        {"name": "a", "input": [1, 8, 6], "kernels": 4, "kernel": [1, 1], "bias": True},
        {"name": "b", "input": [4, 8, 6], "kernels": 1, "kernel": [3, 3], "stride": [2, 1]},
        {"name": "d", "kind": "pool", "inputs": ["a"], "input": [4, 8, 6], "kernel": [2, 2]},
    ]
    problem = problem_of({"layers": layers}, 140).with_(limits={"executions": 2})
    plan = found(problem, "states")
    assert plan.again == {"a": ("d",)}
    assert_right(tmp_path, problem, plan, 3, *SANITIZED)
    source = (tmp_path / "src" / "network.c").read_text()
    for name in ("a", "a again"):
        table = source[source.index(f"{{ /* {name} */") :]
        assert re.search(r"\.weights = (.*?),", table)[1] == "network_weights + 0"  # type: ignore[index]
    assert (tmp_path / "data" / "weights.bin").stat().st_size == 4 * (1 + 1) + 4 * 9


@pytest.mark.by_day(1)
@needs_compiler
@pytest.mark.parametrize(("size", "sum_bytes"), [(1, 4), (2, 4), (2, 7), (3, 8), (4, 8), (8, 8)])
def test_sums_are_as_wide_as_the_program_needs(size: int, sum_bytes: int, tmp_path: Path) -> None:
    problem = small(element_bytes=size, sum_bytes=sum_bytes, memory_bytes=4000 * size)
    plan, _ = plan_with(problem, "sums in tiles")
    if size == 3 or THOROUGH:
        assert_right(tmp_path, problem, plan, 2, *SANITIZED)
    least = 8 if size > 2 else 4
    narrow = problem.with_(machine={"sum_bytes": min(size, least - 1)})
    if size * narrow.graph.sum_elements < least:
        plan, _ = plan_with(narrow, "sums in tiles")
        with pytest.raises(InputError, match=rf"machine\.sum_bytes.*layer \w+: a sum .* {8 * least} bits"):
            addressed_project(narrow, plan, 0, "net", "")


def test_sums_that_may_wrap_around_before_a_bias_are_refused() -> None:
    layers = [{"name": "c", "input": [2, 4, 4], "kernels": 2, "bias": True, "kernel": [3, 3]}]
    problem = problem_of({"layers": layers}, 4000)
    step = Step(("c",), "channels", written=("c",), channels=1)
    addresses = {"lines of input": 0, "weights of c": 100, "block of c": 200}
    plan = Plan((replace(step, addresses=addresses),))
    drawn = np.random.default_rng(1).integers(0, 20, (1, 2, 4, 4))
    refusals = 0
    for seed in range(8):
        network, _ = numbers(Random(seed), problem.network, (8, 32))
        values = QuantisedNetwork(network, network.quantise(drawn.astype(float)), None, "a test")
        try:
            codegen.project("net", "", problem, plan, values)
        except InputError as error:
            assert "layer c: " in str(error)
            refusals += "wrap around before a bias" in str(error)
    assert refusals


@pytest.mark.nightly
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
    row = re.compile(r"(\{tensors \+ \d+, )(\d+), (\d+)(, \d+, 1, 0, 0, 0, 0, [01], 0\})")
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
    for name, form in numbers.operations.items():
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
        with pytest.raises(InputError, match=r"network\.layers\[1\].*layer x: .*no C"):
            addressed_project(one, found(one, "layer_by_layer"), 0, "net", "")
    part = {"name": "p", "kind": "slice", "input": [2, 4, 4], "output": [1, 4, 4], "first": [1, 0, 0]}
    parts = problem_of({"layers": [conv, part, conv | {"name": "x", "input": [1, 4, 4]}]}, 1000)
    with pytest.raises(InputError, match=r"layer x: .*no C .*channels"):
        addressed_project(parts, found(parts, "layer_by_layer"), 0, "net", "")


def test_numbers_that_do_not_fit_are_refused() -> None:
    problem = small()
    plan = found(problem, "states")
    network, _ = numbers(Random(1), problem.network, (8, 16))
    wide, _ = numbers(Random(2), problem.network, (30, 32))
    images = np.zeros((1, 2, 6, 5), np.int64)
    with pytest.raises(InputError, match=r"layer (a|b|fc): weights .* \d+ bits"):
        codegen.project("net", "", problem, plan, QuantisedNetwork(wide, images, None, "a test"))
    other = problem_of({"layers": NETWORK["layers"][:1]}, 400)
    with pytest.raises(InputError, match=r"is another network than that of the numbers \(a test\)"):
        codegen.project(
            "net", "", other, found(other, "states"), QuantisedNetwork(network, images, None, "a test")
        )


def test_steps_of_other_kinds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plan may come to say later is not silently left out."""
    problem = small()
    plan = found(problem, "states")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "ORDERS", ("kernels",))
        with pytest.raises(InputError, match=r"plan\.steps\[\d\]\.order = 'pixels': .*no C.*order\("):
            addressed_project(problem, plan, 0, "net", "")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "ENTRIES", tuple(set(steps.ENTRIES) - {"pixels"}))
        with pytest.raises(InputError, match=r"plan\.steps\[\d\]\.pixels = \d+: .*no C.*pixels\("):
            addressed_project(problem, plan, 0, "net", "")
    more = steps.step_buffers

    def with_sums(*given: Any) -> list[Buffer]:
        return [*more(*given), Buffer("sums", 1, 4)]

    def twice(*given: Any) -> list[Buffer]:
        return [each._replace(size=2 * each.size) for each in more(*given)]

    with monkeypatch.context() as patch:
        patch.setattr(steps, "step_buffers", with_sums)
        with pytest.raises(InputError, match=r"sums of b, 4 elements.*no C"):
            addressed_project(problem, plan, 0, "net", "")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "step_buffers", twice)
        with pytest.raises(InputError, match=r"lines of .*: .*no C"):
            addressed_project(problem, plan, 0, "net", "")
