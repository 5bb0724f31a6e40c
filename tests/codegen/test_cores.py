"""A plan of an NPU as a C project: threads, memories of the planned size, counts and outputs."""

from __future__ import annotations

import os
import re
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
from hypothesis import assume, given, settings
from numbered import Table, needed, numbers, randoms, tables
from tests import command

from tilewright import codegen
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.numbers.c_integers import c_bits
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, simulate, violation
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.operations.plan import OperationPlan

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)

WATCHED = ("-fsanitize=thread",)

APART: Table = {"cycle_ps": 1_000_000_000, "byte_ps": 1_000_000, "burst_ps": 1}
"""Prices that keep cycles, bytes and bursts of small layers apart."""

KINDS = {"input": "input", "weights": "weights", "output": "output"}

BLOCK: list[Table] = [
    {"name": "first", "input": [3, 8, 7], "kernels": 6, "kernel": [3, 2], "padding": [1, 1, 1, 0]},
    {"name": "relu", "kind": "map", "op": "relu", "input": [6, 8, 7]},
    {"name": "deep", "input": [6, 8, 7], "kernels": 6, "kernel": [3, 3], "groups": 6, "stride": [2, 2]},
    {"name": "halves", "input": [6, 3, 3], "kernels": 4, "kernel": [2, 1], "groups": 2, "dilation": [2, 1]},
    {"name": "pool", "kind": "pool", "op": "max", "input": [4, 1, 3], "kernel": [1, 2]},
    {"name": "fc", "kind": "fc", "inputs": 8, "outputs": 5, "bias": True},
]  # fmt: skip


def problem_of(layers: list[Table], **machine: Any) -> Problem:
    table: Table = {"kind": "npu", "tles": 2, "tlts": 2, "burst_bytes": 5, "macs_per_cycle": 3} | APART
    table |= {"vector_ops_per_cycle": 3} | machine
    return Problem.model_validate({"network": {"layers": layers}, "machine": table})


def any_plan(random: Random, problem: Problem) -> Plan:
    """Return a valid plan: any partition and schedule, tiles of any size."""
    found: list[Any] = []
    for _, part in problem.parts:
        while True:
            one = _any_part(random, part)
            if violation(part, Plan((one,))) is None:
                found.append(one)
                break
    return Plan(tuple(found))


def _any_part(random: Random, part: Problem) -> Any:
    if part.operation is None:
        schedule = random.choice(SCHEDULES)
        tile = [random.choice([1, 2, 3, 99]) for _ in range(4)]
        return NpuPlan(random.choice(PARTITIONS), schedule, (99 if schedule == "IS" else tile[0], *tile[1:]))
    operation = part.operation
    sizes = operation.output if operation.windowed else (1, 1, operation.batch * operation.output[0])
    steps = [random.randint(1, size) for size in sizes]
    even = tuple(-(-size // -(-size // step)) for size, step in zip(sizes, steps, strict=True))
    return OperationPlan(even)  # type: ignore[arg-type]


class Built(Compiled):
    """The project of a plan, with what it printed of parts and of what each moves."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        super().__init__(folder, files, "-O1" if THOROUGH else "-O0", *flags)
        self.told = {line[0]: tuple(map(int, line[1:])) for line in self.lines if line[-1].isdigit()}

    def outputs(self, like: Any, bits: int) -> Any:
        """Return what the program wrote, in some shape; of elements of some bits."""
        written = (self.folder / "data" / "outputs.bin").read_bytes()
        return np.frombuffer(written, dtype=f"<i{c_bits(bits) // 8}").astype(np.int64).reshape(like.shape)


def assert_as_planned(built: Built, problem: Problem, plan: Plan) -> None:
    """The program moves and takes what the simulator says of each layer and operation."""
    report = simulate(problem, plan)
    assert report.violation is None
    for (name, part), (_, executed) in zip(problem.parts, report.layers, strict=True):
        if part.operation is not None and (part.operation.op == "concat" or part.operation.on == "host"):
            continue  # read where its parts lie; not counted
        expected: dict[str, int] = {}
        for tensor, counts in [*executed.loaded.items(), *executed.written.items()]:
            operand = KINDS.get(tensor.split()[0], "input")
            expected[operand] = expected.get(operand, 0) + executed.total(counts)
        rows = {kind: built.told.get(f"{name or 'layer'}, {kind}", (0, 0, 0, 0)) for kind in KINDS}
        assert {kind: row[1] for kind, row in rows.items() if row[1]} == {
            k: v for k, v in expected.items() if v
        }
        size, bursts, cycles, time = built.told[name or "layer"]
        assert executed.sequential.cycles == time
        assert (sum(row[2] for row in rows.values()), sum(row[3] for row in rows.values())) == (size, bursts)
        assert time == sum(
            count * price for count, price in zip((cycles, size, bursts), APART.values(), strict=True)
        )


def assert_equal(built: Built, problem: Problem, values: QuantisedNetwork) -> None:
    """The program gives what the integer network does, as the machine stores numbers."""
    text = (built.folder / "src" / "machine.h").read_text()
    bits = problem.machine.operand_bits.output  # type: ignore[union-attr]
    expected = values.stored(int(text.split("IMAGE_BITS ")[1].split()[0]), bits).outputs
    assert (built.outputs(expected, bits) == expected).all()


def any_machine(random: Random) -> Table:
    """Return cores, bursts and widths."""
    machine: Table = {"element_bytes": random.choice([1, 2, 2, 4])}
    if random.random() < 0.6:
        output = random.randint(3, 17)
        wide = {"input": random.randint(2, 17), "weights": random.randint(2, 17), "output": output}
        machine = {"bits": wide | {"partial": random.randint(max(8, output), 40)}}
    machine |= {"tles": random.choice([2, 4, 6]), "tlts": random.randint(1, 3)}
    return machine | {
        "burst_bytes": random.randint(1, 9),
        "macs_per_cycle": random.randint(1, 9),
        "vector_ops_per_cycle": random.choice([None, 1, 3, 4]),
    }


@settings(max_examples=60 if THOROUGH else 2)
@given(randoms)
def test_any_network_and_plan_computes_what_the_integer_network_does(random: Random) -> None:
    """And moves what the simulator says, in as many bursts, with no access outside of a core's memories."""
    layers = needed(tables(random, ("relu", "relu")))
    batch = random.choice([1, 1, 2])
    for layer in layers:
        if "kernels" in layer or layer.get("kind") == "fc":
            layer["batch"] = batch
    try:
        problem = problem_of(layers, **any_machine(random))
    except InputError as error:
        assume("which are what is tiled" not in error.limit)
        raise
    assert problem.network is not None
    widths = problem.machine.operand_bits  # type: ignore[union-attr]
    most = min(8, widths.input, widths.weights), min(32, widths.partial)
    network, _ = numbers(random, problem.network, most)
    drawn = np.random.default_rng(random.getrandbits(32))
    images = network.quantise(drawn.normal(0, 2, (3, *problem.network.layers[0].input)))
    values = QuantisedNetwork(network, images, None, "a test")
    plan = any_plan(random, problem)
    try:
        files = codegen.project("net", "", problem, plan, values)
    except InputError as error:
        assume(not any(words in error.limit for words in ("rounded", "last layer")))
        raise
    with tempfile.TemporaryDirectory() as folder:
        built = Built(Path(folder), files, *random.choice([CHECKED, CHECKED, WATCHED]))
        assert_equal(built, problem, values)
        assert_as_planned(built, problem, plan)


def block(tmp_path: Path, *flags: str, **machine: Any) -> tuple[Built, Problem, Plan]:
    """Return a network of all kinds of layers, planned at random, as a program that ran."""
    problem = problem_of(BLOCK, **machine)
    assert problem.network is not None
    values = QuantisedNetwork.made(problem.network, problem.machine.operand_bits)  # type: ignore[union-attr]
    plan = any_plan(Random(3), problem)
    built = Built(tmp_path, codegen.project("block", "", problem, plan, values), *flags)
    assert_equal(built, problem, values)
    assert_as_planned(built, problem, plan)
    assert len(np.unique(built.outputs(values.outputs, 16))) > 4
    return built, problem, plan


def test_changed_tables_and_memories_are_noticed(tmp_path: Path) -> None:
    built, _, _ = block(tmp_path, "-O0")
    # Another core computes a filter, and its TLE's other core computes it, too.
    told = built.changed("network.c", r"(\{\{0, \d+\}, \{\{0, )\d+", r"\g<1>1", "-O0", "-fsanitize=address")
    assert re.search(r"outputs that are wrong\t[1-9]", told)
    # As many outputs, in other tiles: only the counts differ.
    told = built.changed("network.c", r"(?<=\.weights_stay = )[01]", "1", "-O0", "-fsanitize=address")
    told += (
        built.changed("network.c", r"(?<=\.weights_stay = )[01]", "0", "-O0", "-fsanitize=address")
        if ", planned" not in told
        else ""
    )
    assert ", planned\t" in told


@pytest.mark.nightly
@pytest.mark.parametrize("memory", ["MB0", "MB1", "MB2"])
def test_memories_have_no_byte_too_many(tmp_path: Path, memory: str) -> None:
    built, _, _ = block(tmp_path, "-O0")
    size = int((built.folder / "src" / "machine.h").read_text().split(f"{memory}_BYTES ")[1].split()[0])
    told = built.changed(
        "machine.h", f"{memory}_BYTES {size}", f"{memory}_BYTES {size - 1}", "-O0", "-fsanitize=address"
    )
    assert "heap-buffer-overflow" in told


@pytest.mark.nightly
def test_memories_are_those_of_the_plan(tmp_path: Path) -> None:
    """Each as large as the layer that takes most of it, whether elements are packed or not."""
    for bits in (None, {"input": 7, "weights": 5, "output": 9, "partial": 21}):
        wide = {} if bits is None else {"bits": bits}
        built, problem, plan = block(tmp_path, *CHECKED, **wide)
        text = (built.folder / "src" / "machine.h").read_text()
        report = simulate(problem, plan)
        found = [int(size) for size in re.findall(r"MB\d_BYTES (\d+)", text)]
        layers = [each.measures for (_, each) in report.layers if hasattr(each.measures, "partition")]
        if bits is not None:
            held = [[each.buffers_bits[name] for name in KINDS] for each in layers]
            least = [-(-max(column) // 8) for column in zip(*held, strict=True)]
            assert all(size >= most for size, most in zip(found, least, strict=True))
            assert found[1] == least[1]  # no operation has weights


def test_one_layer_runs_from_the_command_line(tmp_path: Path) -> None:
    """Of a layer alone: outputs are its convolution in integers, computed here."""
    (tmp_path / "layer.toml").write_text(
        'room = "tiling"\nname = "small"\n[layer]\ninput = [4, 6, 5]\nkernels = 6\nkernel = [3, 2]\n'
        'groups = 2\npadding = [1, 1, 0, 1]\nbatch = 2\n[machine]\nkind = "npu"\ntles = 2\ntlts = 2\n'
    )
    for words in (
        ("solve", "layer.toml", "-o", "plan.json"),
        ("emit", "layer.toml", "plan.json", "-o", "c/"),
    ):
        done = command.run(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    built = Built(tmp_path / "c", {}, "-O1", *CHECKED)
    given = np.frombuffer((tmp_path / "c/data/images.bin").read_bytes(), "<i2").reshape(4, 4, 6, 5)
    kernels = np.frombuffer((tmp_path / "c/data/weights.bin").read_bytes(), "<i2")[: 6 * 2 * 6]
    layer = Problem.model_validate(problem_of(BLOCK).model_dump() | {
        "network": None, "layer": {"input": [4, 6, 5], "kernels": 6, "kernel": [3, 2], "groups": 2,
                                   "padding": [1, 1, 0, 1], "batch": 4}
    }).one_layer  # fmt: skip
    sums = reference_convolution(layer, given.astype(np.int64), kernels.reshape(6, 2, 3, 2).astype(np.int64))
    scale = re.search(r"\.scale = \{0, (\d+), 1, (\d+)\}", (tmp_path / "c/src/network.c").read_text())
    assert scale is not None
    half, most = (1 << int(scale[1])) >> 1, 2 ** (int(scale[2]) - 1)
    rounded = np.sign(sums) * ((np.abs(sums) + half) >> int(scale[1]))
    assert (built.outputs(sums, 16) == rounded.clip(-most, most - 1)).all()
    assert len(np.unique(rounded)) > 4
    if THOROUGH and "GITHUB_ACTIONS" not in os.environ:
        for target in ("run", "sanitize", "tsan"):
            built._run("make", target)


def test_what_has_no_threads_or_no_c_is_refused() -> None:
    problem = problem_of(BLOCK, tles=2, tlts=1024)
    with pytest.raises(InputError, match=r"machine\.tlts = 1024: .*1024 cores"):
        codegen.project("net", "", problem, any_plan(Random(1), problem))
    problem = problem_of(BLOCK, element_bytes=16)
    with pytest.raises(InputError, match=r"machine\.element_bytes = 16: .*64 bits"):
        codegen.project("net", "", problem, any_plan(Random(1), problem))
    problem = problem_of(BLOCK)
    with pytest.raises(InputError, match=r"machine\.kind = .*-o FOLDER/"):
        codegen.emit("net", "", problem, any_plan(Random(1), problem))
    with pytest.raises(InputError, match=r"plan .*not valid"):
        codegen.project("net", "", problem, Plan(any_plan(Random(1), problem).layers[:-1]))
