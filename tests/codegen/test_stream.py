"""Fused groups as a C project: compiled with sanitizers, run, compared with the network and the plan."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from compiled import CHECKED, Compiled
from conftest import THOROUGH
from fusion_at_random import AnyGroups, excited, machine, network, output, problem, randoms, rectified, scaled
from fusion_at_random import plan as any_plan
from hypothesis import HealthCheck, assume, given, settings
from tests.numbered import numbers as integers
from tests.numbered import tables

from tilewright import codegen, fusion
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.stream import numbers_of, stream_project
from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem, execution
from tilewright.fusion.evaluation import computed_groups
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule
from tilewright.fusion.machine import BUFFERS, ENGINES
from tilewright.fusion.plan import Tile
from tilewright.spec.base import unchecked_copy
from tilewright.spec.errors import InputError

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")


class Built(Compiled):
    """The project of a plan."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        super().__init__(folder, files, *flags)
        rows = [row for row in self.lines[1:] if len(row) > 2]
        self.moved = {row[0]: (int(row[-2]), int(row[-1])) for row in rows}
        self.instructions = {row[0]: tuple(map(int, row[1:-2])) for row in rows}

    def outputs(self, size: int) -> Any:
        """Return what the program wrote."""
        return np.fromfile(self.folder / "data" / "output.bin", dtype=f"<i{size}")

    def on_chip(self) -> list[int]:
        """Return the bytes of each buffer in the compiled object."""
        sizes = self.sections("src/engine.c")
        return [sizes[f".on_chip.{name}_buffer"] for name in BUFFERS]


def assert_right(built: Built, problem: Problem, plan: Plan, numbers: NetworkNumbers) -> None:
    """The program computes what the network does, moves what is simulated, and takes what is planned."""
    size = problem.machine.element_bytes
    arrays = problem.machine.arrays
    batches = range(0, numbers.images, arrays)
    expected = np.concatenate(
        [numbers.maps[name][at : at + arrays].ravel() for at in batches for name in numbers.outputs]
    )
    assert (built.outputs(size) == expected).all()
    report = fusion.simulate(problem, plan)
    assert report.violation is None
    groups = report.measures.groups.values()
    moved = {" + ".join(each.operations): (each.loaded_bytes, each.saved_bytes) for each in groups}
    assert built.moved == moved
    assert built.instructions == {
        " + ".join(group.nodes): tuple(map(issued(problem.fused(nodes), group.tile).count, ENGINES))
        for nodes, group in computed_groups(problem, plan)
        if group.tile is not None
    }
    planned = [max(size, *sizes) for sizes in zip(*(each.buffers_bytes for each in groups), strict=True)]
    assert built.on_chip() == planned


def issued(fused: FusedGroup, tile: Tile) -> list[str | None]:
    """Return the engine of each instruction of a group."""
    return [each.engine for each in GroupSchedule(fused, tile).instructions()]


def assert_any_is_right(random: Random) -> None:
    """A random plan of a random network, of any groups and tiles, is executed right."""
    layers = random.choice([network, network, excited])(random)
    made: AnyGroups = problem(random, rectified(random, layers))
    plan, seed = any_plan(random, made), random.getrandbits(32)
    try:
        files = stream_project(made, plan, seed, "net", "")
    except InputError as error:
        assert "there is no C for it" in error.limit  # a rectified value times or plus itself
        assume(False)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        assert_right(
            Built(Path(folder), files, *CHECKED, "-DON_CHIP(buffer)="), made, plan, numbers_of(made, seed)
        )


def assert_given_is_right(random: Random) -> None:
    """A random plan of a random network with numbers in random formats is executed right, in batches."""
    layers = {"layers": tables(random, ("relu",))}
    try:
        made: AnyGroups = problem(random, layers, machine={"element_bytes": random.choice([1, 2])})
    except InputError:
        assume(False)
    network, _ = integers(random, made.network)
    drawn = np.random.default_rng(random.getrandbits(32))
    count = made.machine.arrays * 2 + random.randint(0, 1)
    images = network.quantise(drawn.normal(0, 2, (count, *made.network.layers[0].input)))
    labels = drawn.integers(0, 3, count) if random.random() < 0.5 else None
    values, plan = QuantisedNetwork(network, images, labels, "a test"), any_plan(random, made)
    try:
        files = stream_project(made, plan, 0, "net", "", values)
    except InputError as error:
        told = (
            "rounded",
            "last layer",
            "other layers",
            "one input",
            "bits do not fit",
            "before a bias",
            "no C",
        )
        assert any(words in error.limit for words in told), error
        assume(False)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        built = Built(Path(folder), files, *CHECKED, "-DON_CHIP(buffer)=")
        assert_right(built, made, plan, numbers_of(made, 0, values))
    right = [row for row in built.lines if row[0] == "images in the right class"]
    assert len(right) == (labels is not None)


@needs_compiler
@settings(max_examples=300 if THOROUGH else 3, suppress_health_check=[HealthCheck.filter_too_much])
@given(randoms)
def test_any_quantised_network_computes_what_its_integers_do(random: Random) -> None:
    assert_given_is_right(random)


def test_fewer_images_than_arrays_are_refused() -> None:
    layers = [{"name": "c", "input": [2, 4, 4], "kernels": 2, "kernel": [3, 3]}]
    made: Problem = problem(Random(1), {"layers": layers}, machine={"element_bytes": 2, "arrays": 3})
    network, _ = integers(Random(1), made.network)
    values = QuantisedNetwork(network, network.quantise(np.zeros((2, 2, 4, 4))), None, "a test")
    with pytest.raises(InputError, match=r"machine\.arrays = 3: .* a test has 2"):
        stream_project(made, Plan(()), 0, "net", "", values)


@pytest.mark.nightly
@needs_compiler
@settings(max_examples=100 if THOROUGH else 3)
@given(randoms)
def test_any_network_and_plan_computes_what_the_network_does(random: Random) -> None:
    assert_any_is_right(random)


def fire(**changes: Any) -> Problem:
    """Return squeezenet in fire modules, smaller."""
    table = dict(catalogue.shared("fusion", "squeezenet-fire"))
    chip = machine(Random(1), element_bytes=1, input_bytes=6000, output_bytes=6000, parameter_bytes=3000)
    layers = scaled("squeezenet", 41, 8)
    return Problem.model_validate(
        {
            "network": layers,
            "machine": chip | changes,
            "templates": table["templates"],
            "objective": {"minimise": "traffic"},
        }
    )


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize("size", [1, 2])
def test_fire_modules(tmp_path: Path, size: int) -> None:
    problem = fire(element_bytes=size, arrays=size)
    plan = catalogue.heuristic("fusion", "greedy").plan(problem)
    assert any(len(group.nodes) > 2 for group in plan.groups)
    built = Built(tmp_path, codegen.project("fire", "", problem, plan, None, 5), "-O1")
    numbers = numbers_of(problem, 5)
    assert_right(built, problem, plan, numbers)
    for name, form in numbers.operations.items():
        if form.shift:
            assert np.abs(numbers.maps[name]).max() >= 1 << (form.bits - 2)
    # What is saved before it is computed is seen.
    source = tmp_path / "src" / "network.c"
    before, last, after = source.read_text().rpartition("_instructions[] = {\n")
    rows = after.split("\n")
    end = rows.index("};")
    assert rows[end - 1].startswith("    {SAVE, ")
    rows.insert(0, rows.pop(end - 1))
    source.write_text(before + last + "\n".join(rows))
    with pytest.raises(AssertionError, match=r"outputs that are wrong\t[1-9]"):
        Built(tmp_path, {})


def test_what_has_no_stream_is_refused() -> None:
    problem = fire()
    plan = catalogue.heuristic("fusion", "greedy").plan(problem)
    with pytest.raises(InputError, match="is not valid: "):
        codegen.project("net", "", problem, Plan(plan.groups[1:]))
    wide = unchecked_copy(problem, machine=unchecked_copy(problem.machine, element_bytes=4))
    with pytest.raises(InputError, match=r"machine\.element_bytes = 4: .* 2"):
        stream_project(wide, plan, 0, "net", "")
    conv = {"name": "c", "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}
    for more, layer in (
        ([{"kind": "map", "op": "sigmoid"}], "m0"),
        ([{"kind": "map", "op": "relu"}, {"kind": "map", "op": "scale"}], "m1"),
        ([{"kind": "map", "op": "lrn"}], "m0"),
        ([{"kind": "reshape", "op": "transpose", "output": [4, 2, 4]}, {"kind": "map", "op": "relu"}], "m0"),
        ([{"kind": "pad", "padding": [1, 1, 1, 1]}], "m0"),
    ):
        tables, shape = [conv], [2, 4, 4]
        for number, each in enumerate(more):
            tables.append({"name": f"m{number}", "input": shape, **each})
            shape = list(output(tables[-1]))
        one = Problem.model_validate({"network": {"layers": tables}, "machine": machine(Random(1))})
        with pytest.raises(InputError, match=f"layer {layer}: .*no C"):
            numbers_of(one)
    relu = {"name": "relu", "kind": "map", "op": "relu", "input": [2, 4, 4]}
    for kind in ("add", "mul"):
        itself = {"name": "itself", "kind": kind, "inputs": ["relu", "c"], "input": [2, 4, 4]}
        one = Problem.model_validate(
            {"network": {"layers": [conv, relu, itself]}, "machine": machine(Random(1))}
        )
        with pytest.raises(InputError, match="layer itself: "):
            numbers_of(one)
    tables = [{"name": "m", "kind": "mul", "inputs": ["input"] * 9, "input": [2, 4, 4]}]
    one = Problem.model_validate(
        {"network": {"layers": tables}, "machine": machine(Random(1), element_bytes=1)}
    )
    with pytest.raises(InputError, match="multiplies 9 values"):
        numbers_of(one)
