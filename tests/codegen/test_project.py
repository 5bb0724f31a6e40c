"""A network as a C project: compiled with sanitizers, run, compared with the integer network and the plan."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from compiled import CHECKED, Compiled
from conftest import THOROUGH, nightly
from hypothesis import assume, given, settings
from numbered import Table, needed, numbers, randoms, tables
from tests import command

from tilewright import codegen
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.numbers.c_integers import c_bits
from tilewright.core import catalogue
from tilewright.run.solve import solve
from tilewright.simulator.arithmetic.fixed_point import Format, Integers
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.tiling import Plan, Problem, simulate, violation
from tilewright.tiling.dsp.plan import ORDERED, REUSES, DspPlan
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.widths import Widths

needs_compiler = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)

OPERANDS = ("input", "weights", "output", "partial")
"""Of a machine's `bits`."""

KINDS = {"input": "input", "kernels": "weights"}
"""What the program calls what is loaded."""

BLOCK: list[Table] = [
    {"name": "expand", "input": [4, 9, 7], "kernels": 12, "kernel": [1, 1], "bias": True},
    {"name": "relu1", "kind": "map", "op": "relu", "input": [12, 9, 7]},
    {
        "name": "depthwise",
        "input": [12, 9, 7],
        "kernels": 12,
        "kernel": [3, 3],
        "padding": [1, 1, 1, 1],
        "groups": 12,
        "bias": True,
    },
    {"name": "relu2", "kind": "map", "op": "relu", "input": [12, 9, 7]},
    {"name": "project", "input": [12, 9, 7], "kernels": 4, "kernel": [1, 1], "bias": True},
    {"name": "sum", "kind": "add", "inputs": ["project", "input"], "input": [4, 9, 7]},
    {"name": "pool", "kind": "pool", "op": "average", "input": [4, 9, 7], "kernel": [9, 7]},
    {"name": "fc", "kind": "fc", "inputs": 4, "outputs": 3},
]
"""An inverted residual block of MobileNetV2, and a classifier."""

CORNER: list[Table] = [*BLOCK[:-2], BLOCK[-2] | {"kernel": [8, 6], "stride": [2, 2]}, BLOCK[-1]]
"""One whose pool has a single position and leaves a row and a column out."""


def problem_of(layers: list[Table], **machine: Any) -> Problem:
    table: Table = {"kind": "dsp", "memory_bytes": 2**20, "vector_ops_per_cycle": 4} | machine
    return Problem.model_validate({"network": {"layers": layers}, "machine": table})


def any_plan(random: Random, problem: Problem) -> Plan:
    """Return a valid plan: tiles of any size, loops in any order, any reuse."""
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
        tile = tuple(random.choice([1, 2, 3, 99]) for _ in range(6))
        order = "".join(random.sample(ORDERED, len(ORDERED)))
        return DspPlan(tile, order, random.choice(REUSES))
    operation = part.operation
    sizes = operation.output
    if not operation.windowed:
        sizes = (1, 1, operation.batch * operation.output[0])
    steps = [random.randint(1, size) for size in sizes]
    even = tuple(-(-size // -(-size // step)) for size, step in zip(sizes, steps, strict=True))
    return OperationPlan(even)  # type: ignore[arg-type]


class Built(Compiled):
    """The project of a network."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        super().__init__(folder, files, *flags)
        self.told = told(self.lines)

    def outputs(self, like: Integers, bits: int) -> Integers:
        """Return what the program wrote, in some shape; of elements of some bits."""
        written = (self.folder / "data" / "outputs.bin").read_bytes()
        return np.frombuffer(written, dtype=f"<i{c_bits(bits) // 8}").astype(np.int64).reshape(like.shape)

    def on_chip(self) -> int:
        """Return the bytes of the memory on chip in the compiled object."""
        return self.sections("src/layers.c")[".scratchpad"]


def told(lines: list[list[str]]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of what a program printed."""
    return {line[0]: tuple(map(int, line[1:])) for line in lines if line[1].isdigit()}


def assert_as_planned(built: Built, problem: Problem, plan: Plan) -> None:
    """The program moves what the simulator says of each layer and operation, and takes no more memory."""
    report = simulate(problem, plan)
    assert report.violation is None
    machine, most = problem.machine, 0
    assert machine.kind == "dsp"
    widths = machine.operand_bits
    for (name, part), (_, executed) in zip(problem.parts, report.layers, strict=True):
        if part.operation is not None and part.operation.op == "concat":
            continue  # read where its parts lie
        rows = {
            kind.partition(", ")[2]: counts
            for kind, counts in built.told.items()
            if kind.startswith(f"{name}, ")
        }
        loaded = {each: int(counts.sum()) for each, counts in executed.loaded.items()}
        partial = loaded.pop("output", 0)
        expected: dict[str, int] = {}
        for operand, elements in loaded.items():
            kind = KINDS.get(operand, "input")
            expected[kind] = expected.get(kind, 0) + elements
        written = int(executed.written["output"].sum())
        expected |= {"partial sums in": partial, "partial sums out": partial, "output": written - partial}
        assert {kind: counts[1] for kind, counts in rows.items()} == {k: v for k, v in expected.items() if v}
        assert sum(counts[0] for counts in rows.values()) == executed.transfers
        bits = {kind: counts[2] for kind, counts in rows.items()}
        first = widths.output if part.operation else widths.input
        each = {"input": first, "weights": widths.weights, "output": widths.output}
        assert bits == {kind: counts[1] * each.get(kind, widths.partial) for kind, counts in rows.items()}
        if machine.bits is not None:
            assert sum(bits.values()) == executed.measures.accesses_bits
        most = max(most, planned_bits(part, executed))
    assert built.on_chip() == -(-most * machine.copies // 8) <= machine.memory_bytes


def planned_bits(part: Any, executed: Any) -> int:
    """Return the bits of one copy of the buffers, as the plan's report has them."""
    if part.operation is None:
        if part.machine.bits is not None:
            return sum(executed.measures.buffers_bits.values())
        return 8 * part.machine.element_bytes * sum(executed.measures.buffers_elements.values())
    return (
        0
        if part.operation.on == "host"
        else part.machine.operand_bits.output * sum(executed.measures.buffers_elements.values())
    )


@needs_compiler
@settings(max_examples=60 if THOROUGH else 3)
@given(randoms)
def test_any_network_and_plan_computes_what_the_integer_network_does(random: Random) -> None:
    """And moves what the simulator says, whether transfers happen early or late."""
    layers = needed(tables(random, ("relu", "relu")))
    batch = random.choice([1, 1, 2])
    for layer in layers:
        if "kernels" in layer or layer.get("kind") == "fc":
            layer["batch"] = batch
    machine: Table = {"element_bytes": random.choice([1, 2, 2, 4])}
    if random.random() < 0.6:
        machine = {"bits": any_bits(random)}
    try:
        problem = problem_of(
            layers,
            **machine,
            double_buffering=random.random() < 0.7,
            padding=random.choice(["loaded", "generated"]),
            vector_ops_per_cycle=random.choice([None, 4]),
        )
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
        told = ("rounded", "last layer")
        assume(not any(words in error.limit for words in told))
        raise
    with tempfile.TemporaryDirectory() as folder:
        built = Built(Path(folder), files, *CHECKED, *random.choice([(), ("-DDMA_EAGER",)]))
        assert_equal(built, problem, values)
        assert_as_planned(built, problem, plan)


def any_bits(random: Random) -> Table:
    """Return widths of operands, sometimes such as C has integers of."""
    if random.random() < 0.5:
        each = [random.choice([8, 16]) for _ in range(3)]
        return dict(zip(("input", "weights", "output"), each, strict=True)) | {"partial": 32}
    output = random.randint(3, 17)
    partial = random.randint(max(8, output), 40)
    return {"input": random.randint(2, 17), "weights": random.randint(2, 17)} | {
        "output": output,
        "partial": partial,
    }


def assert_equal(built: Built, problem: Problem, values: QuantisedNetwork) -> None:
    """The program gives what the integer network does, as the machine stores numbers."""
    machine = problem.machine
    assert machine.kind == "dsp"
    text = (built.folder / "src" / "machine.h").read_text()
    expected = values.stored(
        int(text.split("IMAGE_BITS ")[1].split()[0]), machine.operand_bits.output
    ).outputs
    assert (built.outputs(expected, machine.operand_bits.output) == expected).all()


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize(
    ("layers", "bits"),
    [
        (BLOCK, None),
        (BLOCK, (8, 8, 8, 32)),
        (CORNER, None),
        ("resnet8", (8, 4, 8, 20)),
        pytest.param(BLOCK, (12, 6, 9, 17), marks=nightly),
        pytest.param("resnet8", None, marks=nightly),
        pytest.param("resnet8", (8, 8, 8, 32), marks=nightly),
    ],
    ids=lambda value: {id(BLOCK): "block", id(CORNER): "corner"}.get(id(value), str(value)),
)
def test_known_networks(tmp_path: Path, layers: Any, bits: tuple[int, ...] | None) -> None:
    memory = 2000
    if layers == "resnet8":
        layers = [dict(each) for each in catalogue.shared("networks", "resnet8")["layers"]]
        memory = 32768
    machine = {} if bits is None else {"bits": dict(zip(OPERANDS, bits, strict=True))}
    problem = problem_of(layers, memory_bytes=memory, **machine)
    result = solve(problem, "greedy" if len(layers) > len(BLOCK) else "auto", time_limit=60).plan
    widths = problem.machine.operand_bits  # type: ignore[union-attr]
    values = QuantisedNetwork.made(Network(layers=layers), widths)
    files = codegen.project("net", "", problem, result, values)
    built = Built(tmp_path, files, "-O1")
    assert len(np.unique(built.outputs(values.outputs, widths.output))) > 4
    assert_equal(built, problem, values)
    assert_as_planned(built, problem, result)


def of_two_scales(op: str, seed: int, **machine: Any) -> tuple[Problem, QuantisedNetwork]:
    """Return a pool of two maps, which other layers read in other scales."""
    conv = {"kernel": [1, 1], "kernels": 2, "input": [2, 4, 4]}
    pool = {"kernel": [2, 2], "stride": [2, 2]}
    layers: list[Table] = [
        {"name": "a", **conv},
        {"name": "b", "inputs": ["a"], **conv},
        {"name": "p", "kind": "pool", "op": op, "inputs": ["a", "b"], "input": [4, 4, 4], **pool},
        {"name": "c", "inputs": ["a"], **conv, **pool, "kernels": 4},
        {"name": "e", "inputs": ["b"], **conv, **pool, "kernels": 4},
        {"name": "s", "kind": "add", "inputs": ["p", "c", "e"], "input": [4, 2, 2]},
        {"name": "d", "inputs": ["s"], **conv, "input": [4, 2, 2]},
    ]
    problem = problem_of(layers, **machine)
    assert problem.network is not None
    network, _ = numbers(Random(seed), problem.network, (8, 32))
    assert network.formats["a"].fraction != network.formats["b"].fraction
    images = network.quantise(np.random.default_rng(0).normal(0, 2, (3, 2, 4, 4)))
    return problem, QuantisedNetwork(network, images, None, "a test")


@pytest.mark.by_day(1)
@needs_compiler
@pytest.mark.parametrize("op", ["max", "average"])
def test_maps_of_several_scales_are_pooled(tmp_path: Path, op: str) -> None:
    problem, values = of_two_scales(op, 0, element_bytes=4)
    files = codegen.project("net", "", problem, any_plan(Random(1), problem), values)
    assert_equal(Built(tmp_path, files, *CHECKED), problem, values)


def test_scales_that_elements_do_not_hold_are_refused() -> None:
    problem, values = of_two_scales("max", 0, bits={"input": 16, "weights": 16, "output": 12, "partial": 40})
    layers = dict(values.network.layers)
    layers["e"] = replace(layers["e"], inputs=Format(12, -8))
    values = replace(values, network=replace(values.network, layers=layers))
    limit = r"machine\.bits\.output = 12: layer p: inputs .* \d+ bits"
    with pytest.raises(InputError, match=limit):
        codegen.project("net", "", problem, any_plan(Random(1), problem), values)


def test_narrow_outputs_are_the_wide_ones_rounded() -> None:
    """Nothing else changes of a network whose layers read what comes in their own format."""
    wide = QuantisedNetwork.made(Network(layers=BLOCK[:5]), Widths(output=32))  # type: ignore[arg-type]
    assert wide.network.formats["project"].bits > 30
    narrow = wide.stored(8, 8)
    names = ("expand", "relu1", "depthwise", "relu2")
    assert all(narrow.network.formats[name] == wide.network.formats[name] for name in names)
    form = narrow.network.formats["project"]
    exact = wide.network.formats["project"].value(wide.outputs)
    error = np.abs(form.value(narrow.outputs) - exact)
    assert form.bits == 8 and np.abs(narrow.outputs).max() >= 64
    assert 0 < error.max() <= 2.0**-form.fraction
    assert wide.stored(8, 40).network.formats == wide.network.formats


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with plans of tiles and of bit widths, which measure few images."""
    tmp_path = tmp_path_factory.mktemp("digits")
    folder = catalogue.folders("instances", "bitwidth")[0]
    (tmp_path / "networks").mkdir()
    shutil.copy(folder.parent / "networks" / "lenet5-128.toml", tmp_path / "networks")
    here = tmp_path / "bitwidth"
    here.mkdir()
    for name in ("lenet5-weights.npz", "lenet5-digits.npz"):
        shutil.copy(folder / name, here)
    text = (folder / "lenet5-bits.toml").read_text().replace("images = 200", "images = 24")
    (here / "bits.toml").write_text(text)
    for words in (
        ("lenet5-128-idsp", "--with", "greedy", "-o", "tiles.json"),
        ("bits.toml", "--with", "merging", "-o", "bits.json"),
    ):
        assert command.run(here, "solve", *words).returncode == 0
    return here


def emitted(here: Path, tiles: str, *changes: str) -> Built:
    """Return the project of the digits' network, compiled and run."""
    folder = here / tiles.removesuffix(".json")
    words = ("--numbers", "bits.toml", "bits.json", "-o", f"{folder}/")
    done = command.run(here, "emit", "lenet5-128-idsp", tiles, *changes, *words)
    assert done.returncode == 0, done.stderr
    return Built(folder, {}, "-O2")


@needs_compiler
def test_digits_are_classified_with_the_printed_accuracy(digits: Path) -> None:
    measured = json.loads((digits / "bits.json").read_text())["report"]["measures"]["measured"]
    built = emitted(digits, "tiles.json")
    assert built.told["images"] == (24,)
    assert built.told["right"] == (measured["right"],)
    assert measured["right"] > 20
    assert f"24 images, of which {measured['right']} are" in (built.folder / "README.md").read_text()
    # A weight that is tampered with changes what the program finds.
    file = built.folder / "data" / "weights.bin"
    held = bytearray(file.read_bytes())
    held[: len(held) // 4] = bytes(len(held) // 4)
    file.write_bytes(bytes(held))
    with pytest.raises(AssertionError, match=r"outputs that are wrong\t[1-9]"):
        built.run()


@pytest.mark.nightly
@needs_compiler
def test_digits_are_classified_with_other_bits(digits: Path) -> None:
    """The network's output has 8 bits, of the accumulator's 16."""
    bits = {"input": 8, "weights": 16, "output": 8, "partial": 32}
    changes = [word for name in bits for word in ("--set", f"machine.bits.{name}={bits[name]}")]
    changes += ["--set", "machine.memory_bytes=4096"]
    done = command.run(digits, "solve", "lenet5-128-idsp", *changes, "--with", "greedy", "-o", "narrow.json")
    assert done.returncode == 0, done.stderr
    built = emitted(digits, "narrow.json", *changes)
    assert f"24 images, of which {built.told['right'][0]} are" in (built.folder / "README.md").read_text()
    assert built.told["right"] > (18,)
    head = (built.folder / "src" / "network.c").read_text().partition("#include")[0]
    assert "In 8 bits, as the machine stores outputs, instead of more: fc4." in head
    report = json.loads((digits / "narrow.json").read_text())["report"]["measures"]
    moved = {name: counts[2] for name, counts in built.told.items() if len(counts) == 3}
    assert sum(moved.values()) == report["accesses_bits"]


def test_what_has_no_project_is_refused(tmp_path: Path, digits: Path) -> None:
    words = ("emit", "lenet5-128-idsp", "tiles.json")
    for more, said in (
        (("--as", "project"), "-o FOLDER/"),
        (("--numbers", "bits.toml", "bits.json", "-o", "x.c"), "--numbers is for projects"),
        (
            ("--numbers", "lenet5-128-idsp", "tiles.json", "-o", "p/"),
            "room bitwidth",
        ),
        (("--set", "machine.element_bytes=1", "-o", "p/"), "another instance"),
    ):
        done = command.run(digits, *words, *more)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
    assert not (digits / "p").exists()
    problem = problem_of([*BLOCK[:3], {"name": "soft", "kind": "map", "op": "sigmoid", "input": [12, 9, 7]}])
    plan = any_plan(Random(1), problem)
    with pytest.raises(InputError, match=r"layer soft: .*no C"):
        codegen.project("net", "", problem, plan)
    inside = problem_of(BLOCK).with_(network={"outputs": (BLOCK[0]["name"], BLOCK[-1]["name"])})
    with pytest.raises(InputError, match=r"network\.outputs = .* one output"):
        codegen.project("net", "", inside, any_plan(Random(1), inside))
    wide = problem_of(BLOCK, element_bytes=1)
    assert wide.network is not None
    values = QuantisedNetwork(
        numbers(Random(2), wide.network, (8, 16))[0], np.zeros((1, 4, 9, 7), np.int64), None, "a test"
    )
    with pytest.raises(InputError, match=r"machine\.element_bytes = 1: .* 1\d bits"):
        codegen.project("net", "", wide, any_plan(Random(1), wide), values)
    layer, bits = BLOCK[:1], {"input": 16, "weights": 16, "output": 16, "partial": 16}
    for operand, less, said in (
        ("input", 2, r"machine\.bits\.input = 2: layer expand: inputs .* \d bits"),
        ("weights", 2, r"machine\.bits\.weights = 2: layer expand: weights .* \d bits"),
        ("partial", 16, r"machine\.bits\.partial = 16: layer expand: sums .* 32"),
        ("partial", 65, r"machine\.bits\.partial = 65: .* 64 bits"),
    ):
        few = problem_of(layer, bits=bits | {operand: less})
        given = QuantisedNetwork.made(Network(layers=layer), Widths(input=8, weights=8, output=16))  # type: ignore[arg-type]
        parts = Plan((DspPlan((1, 1, 2, 2, 2, 1), "nckyx", "tile"),))
        assert violation(few, parts) is None
        with pytest.raises(InputError, match=said):
            codegen.project("net", "", few, parts, given)
    other = QuantisedNetwork(values.network, values.images, None, "a test")
    with pytest.raises(InputError, match="is another network than that of the numbers"):
        codegen.project("net", "", problem, plan, other)


@needs_compiler
def test_one_layer_is_a_network_of_its_own(tmp_path: Path) -> None:
    layer = {"input": [4, 6, 5], "kernels": 6, "kernel": [3, 2], "groups": 2, "padding": [1, 1, 0, 1]}
    problem = Problem.model_validate({"layer": layer, "machine": {"kind": "dsp", "memory_bytes": 400}})
    plan = any_plan(Random(5), problem)
    built = Built(tmp_path, codegen.project("layer", "", problem, plan), *CHECKED)
    report = simulate(problem, plan)
    moved = {
        kind.partition(", ")[2]: row[1] for kind, row in built.told.items() if kind.startswith("layer, ")
    }
    assert moved["input"] == report.total(report.loaded["input"])
    assert moved["weights"] == report.total(report.loaded["kernels"])
    assert len(np.unique(built.outputs(np.zeros(4 * 6 * 6 * 5), 16))) > 4
