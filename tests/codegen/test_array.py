"""Programs of processor arrays: words, assembly, and their execution beside the plan and the network."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from array_in_c import Machine, any_plan, project
from conftest import THOROUGH, refused
from hypothesis import HealthCheck, assume, given, settings
from numbered import numbers as integers
from numbered import randoms, tables
from pipelines_at_random import pipeline

import tilewright
from tilewright import AllocationProblem, allocation, codegen
from tilewright.allocation import Plan
from tilewright.allocation.placement.floor import distance
from tilewright.allocation.placement.unplaced import floor_of
from tilewright.allocation.plan import PACINGS
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.codegen.array import array_project, numbers_of, program_of, words_header
from tilewright.codegen.array.assembly import assemble, disassemble
from tilewright.codegen.array.words import FIELDS, TABLE, decode, encode
from tilewright.codegen.numbers.quantised_network import QuantisedNetwork
from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.spec.errors import InputError

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = "data/program.bin"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The machine, without sanitizers."""
    return Machine(tmp_path_factory.mktemp("array"), "-O1")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The machine with sanitizers."""
    return Machine(tmp_path_factory.mktemp("sanitized"), "-O1", *SANITIZED)


def mnist(array: tuple[int, int] = (4, 4), **limits: Any) -> AllocationProblem:
    """Return the paper's problem on an array."""
    network = catalogue.shared("networks", "mnist-tcpa")
    machine = {"array": array, "functional_units": 2, "clock_mhz": 50}
    return AllocationProblem.model_validate({"network": network, "machine": machine, "limits": limits})


def with_pes(problem: AllocationProblem, *pes: int) -> Plan:
    """Return the plan whose layers have some PEs, which divide filters."""
    names = tuple(stage.name for stage in problem.stages)
    return Plan(names, tuple(LayerSplit(count, unit_maps=2) for count in pes), PACINGS[0])


def small(**limits: Any) -> tuple[AllocationProblem, Plan]:
    """Return a pipeline that is executed in no time: a convolution, a pool, a sum of two."""
    layers = [
        {"name": "a", "input": [2, 6, 6], "kernels": 4, "kernel": 3, "padding": 1, "bias": True},
        {"name": "p", "kind": "pool", "kernel": 2, "stride": 2},
        {"name": "b", "kernels": 4, "kernel": 3, "padding": 1, "inputs": ["p"]},
        {"name": "s", "kind": "add", "inputs": ["p", "b"]},
    ]
    machine = {"array": [2, 4], "functional_units": 2, "clock_mhz": 50}
    problem = AllocationProblem.model_validate(
        {"network": {"layers": layers}, "machine": machine, "limits": limits}
    )
    return problem, with_pes(problem, 2, 1, 2, 1)


# Published plans -------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("array", "limits", "pes", "interval", "latency", "starts"),
    [
        # Figure 6, executed: row by row, and by receptive fields with figure 7's paces.
        ((4, 4), {}, (4, 1, 8, 1, 2), 63_504, 85_428, (0, 1_620, 5_076, 10_260, 21_924)),
        ((4, 4), {"scan": "fields"}, (4, 1, 8, 1, 2), 63_504, 77_868, (0, 216, 1_404, 2_700, 14_364)),
        # Table 1: layer-parallel (2), layer-by-layer (1).
        ((4, 5), {}, (4, 1, 12, 1, 2), 42_336, 58_644, None),
        (
            (4, 4),
            {"execution": "layer-by-layer"},
            (4, 1, 8, 1, 2),
            159_936,
            159_936,
            (0, 42_336, 51_744, 115_248, 117_600),
        ),
    ],
)
def test_published_plans_take_as_long_as_they_say(
    machine: Machine,
    array: tuple[int, int],
    limits: dict[str, str],
    pes: tuple[int, ...],
    interval: int,
    latency: int,
    starts: tuple[int, ...] | None,
) -> None:
    problem = mnist(array, **limits)
    plan = with_pes(problem, *pes)
    machine.build(project(problem, plan))
    told = machine.told()
    assert int(told["latency, cycles"][0]) == latency
    assert int(told["interval, cycles"][0]) == interval
    if starts is not None:
        assert tuple(int(told[name][1]) for name in plan.names) == starts
    assert sum(int(told[name][5]) for name in plan.names) == 8_856  # B^w of figure 4


def test_paces_of_figure_7_are_in_the_words() -> None:
    problem = mnist(scan="fields")
    plan = with_pes(problem, 4, 1, 8, 1, 2)
    made = program_of(problem, plan, numbers_of(problem))
    paces: dict[int, int] = {}
    for each in made.records:
        if each.kind == "program":
            layer, paces[each.value("layer")] = each.value("layer"), 0
        elif each.kind == "loops":
            trips = np.prod([each.value(name) for name in ("k1", "k2", "n", "m")])
        elif each.kind == "word" and each.value("then") != 2:  # not the wait for the next frame
            paces[layer] += trips if each.value("what") else each.value("repeat")
        elif each.kind == "reader":
            break
    assert list(paces.values()) == [54, 216, 324, 1_296, 1_296]


@needs_compiler
def test_hops_are_those_of_the_placement(machine: Machine) -> None:
    problem, plan = small()
    regions = (((0, 0), (0, 1)), ((0, 2),), ((1, 2), (1, 1)), ((1, 3),))
    plan = plan.placed(tuple(tuple(sorted(region)) for region in regions))
    machine.build(project(problem, plan))
    told = machine.told()
    hops = told["hops to the nearest PE of a layer that is read"]
    assert int(hops[0]) == distance(floor_of(problem, plan), plan.regions)


# Any plan --------------------------------------------------------------------------------------------


def assert_right(machine: Machine, problem: AllocationProblem, plan: Plan, seed: int) -> None:
    """Outputs are the network's, and cycles and buffers the simulator's, not only the closed form's."""
    files = project(problem, plan, seed)
    machine.build(files)
    told = machine.told()
    report = allocation.simulate(problem, plan)
    assert report.violation is None
    assert int(told["latency, cycles"][0]) == report.measures.latency_cycles
    assert int(told["interval, cycles"][0]) == report.measures.interval_cycles
    for name, layer in report.measures.layers.items():
        assert int(told[name][1]) == layer.start_cycles
        if problem.parallel:
            assert int(told[name][3]) == layer.buffer_words
    assert told["outputs that are wrong"][0].startswith("0 of ")
    text = files["data/program.tcpa"].decode()
    assert assemble(text) == files[PROGRAM]
    assert disassemble(files[PROGRAM]) == text


def assert_any_is_right(random: Random, machine: Machine) -> None:
    """A random plan of a random network is executed right, or refused with a reason."""
    problem = pipeline(random, wide=8)
    plan = any_plan(random, problem)
    assume(plan is not None)
    assert plan is not None
    try:
        assert_right(machine, problem, plan, random.getrandbits(32))
    except InputError as error:
        assert re.search("there is no C for it|PEs have no operation|another shape", error.limit)
        assume(False)


def assert_any_is_right_with_hops(random: Random, machine: Machine) -> None:
    """With hops that take time, starts, latency and buffers are those of the closed form."""
    problem = pipeline(random, wide=8)
    plan = any_plan(random, problem)
    assume(plan is not None)
    assert plan is not None
    try:
        machine.build(project(problem, plan, random.getrandbits(32), random.randint(1, 5)))
    except InputError as error:
        assert re.search("there is no C for it|PEs have no operation|another shape|with hops of", error.limit)
        assume(False)
    told = machine.told()
    assert told["outputs that are wrong"][0].startswith("0 of ")
    # A layer whose windows are all padding waits for no hop.
    assert int(told["latency, cycles"][0]) >= schedule(problem, plan).latency


@needs_compiler
def test_a_network_with_branches(machine: Machine) -> None:
    assert_right(machine, *small(), 1)


@needs_compiler
@settings(max_examples=2, deadline=None)
@given(randoms)
def test_any_plan_is_executed(machine: Machine, random: Random) -> None:
    assert_any_is_right(random, machine)


@pytest.mark.nightly
@needs_compiler
@settings(max_examples=300 if THOROUGH else 30, deadline=None)
@given(randoms)
def test_any_plan_is_executed_with_sanitizers(sanitized: Machine, random: Random) -> None:
    assert_any_is_right(random, sanitized)


@pytest.mark.nightly
@needs_compiler
@settings(max_examples=200 if THOROUGH else 20, deadline=None)
@given(randoms)
def test_any_plan_is_executed_with_hops(sanitized: Machine, random: Random) -> None:
    assert_any_is_right_with_hops(random, sanitized)


@needs_compiler
def test_hops_take_time(machine: Machine) -> None:
    """A row of three PEs: the input comes to the first, and two hops more in all to the others."""
    problem, _ = small()
    layers = [layer.model_dump() for layer in problem.network.layers[:2]]
    problem = AllocationProblem.model_validate(
        {"network": {"layers": layers}, "machine": {"array": [1, 3], "clock_mhz": 1, "functional_units": 2}}
    )
    plan = with_pes(problem, 2, 1).placed((((0, 0), (0, 1)), ((0, 2),)))
    without = schedule(problem, plan)
    machine.build(project(problem, plan, hop_cycles=10))
    told = machine.told()
    # One hop from the first PE, at the border, to the second; two from the first to the pool; it is at the
    # border itself.
    starts = [int(told[name][1]) for name in plan.names]
    assert starts == [10, 10 + without.starts[1] + 20]
    assert int(told["latency, cycles"][0]) == without.latency + 30
    assert int(told["interval, cycles"][0]) == without.interval


# Tampered words --------------------------------------------------------------------------------------

RULES = {
    "a consumer is early": (r"(program .*layer=1) start=\d+", r"\1", "receives what nobody sends"),
    "its operands, too": (r"(layer=1) start=\d+", r"\1", "before it is written"),
    "no link": (r"connect .*output=local to=1\n", "", "receives what nobody sends"),
    "a link too many": (
        r"(connect .*output=local to=1\n)",
        r"\1\1",
        "two send to a port at a time",
    ),
    "a small buffer": (r"lines=\d+", "lines=1", "its buffer is full"),
    "a small layer": (r"buffer=\d+", "buffer=4", "hold more than they have words"),
    "another weight": (r"weight_m=\d+", "weight_m=999", "reads beyond its weights"),
    "a result lost": ("store=all", "store=never", "."),
    "an end too late": (r"then=both", "then=next", "no word follows the last one"),
    "a link outwards": ("output=east", "output=north", "leads out of the array|nobody sends"),
    "another kind": (r"    ports .*\n", "", "a record that it needs is missing"),
    "no frame": ("frames=.*", "frames=1", "."),
}  # fmt: skip
"""Changes of the assembly of the small network, and which rule each of them breaks."""


@needs_compiler
def test_a_broken_rule_is_named(machine: Machine) -> None:
    files = project(*small())
    machine.build(files)
    text = files["data/program.tcpa"].decode()
    for name, (pattern, replacement, rule) in RULES.items():
        changed = re.sub(pattern, replacement, text)
        assert changed != text, name
        (machine.folder / PROGRAM).write_bytes(assemble(changed))
        done = machine.run()
        assert done.returncode == 1, name
        assert re.search(rule, done.stdout + done.stderr), f"{name}: {done.stderr}"


def assert_no_change_passes(machine: Machine, files: dict[str, bytes], random: Random, count: int) -> float:
    """Execute programs with a bit changed; return how many were caught, as a share.

    Those that were not must have the outputs, and the numbers beside the plan's, of the unchanged program.
    """
    words, caught = files[PROGRAM], 0
    (machine.folder / PROGRAM).write_bytes(words)
    assert machine.run().returncode == 0
    right = (machine.folder / "data/output.bin").read_bytes()
    for _ in range(count):
        bit = random.randrange(8 * len(words))
        changed = bytearray(words)
        changed[bit // 8] ^= 1 << bit % 8
        (machine.folder / PROGRAM).write_bytes(changed)
        (machine.folder / "data/output.bin").unlink(missing_ok=True)
        done = machine.run()
        assert done.returncode in (0, 1), done.stderr
        caught += done.returncode
        if not done.returncode:
            assert (machine.folder / "data/output.bin").read_bytes() == right
    return caught / count


@needs_compiler
def test_changed_bits_are_caught(machine: Machine) -> None:
    files = project(*small())
    machine.build(files)
    assert assert_no_change_passes(machine, files, Random(1), 40) > 0.85


@pytest.mark.nightly
@needs_compiler
def test_any_changed_bit_is_caught(sanitized: Machine) -> None:
    files = project(*small(splits=["filters", "maps"]))
    sanitized.build(files)
    assert assert_no_change_passes(sanitized, files, Random(), 500) > 0.85


# Words and assembly ----------------------------------------------------------------------------------


def test_errors_of_assembly_name_line_field_value_and_limit() -> None:
    text = project(*small())["data/program.tcpa"].decode()
    for line, field, value, limit in (
        ("array rows=0", "array.rows", 0, "from 1 to 2047"),
        ("program rows=1", "program", "rows=1", "row"),
        ("unit op=div", "unit.op", "div", "mac"),
        ("word repeat=x", "word.repeat", "x", "integer"),
        ("jump", "record", "jump", "program"),
        ("loops r=1 r=2", "loops.r", "2", "twice"),
        ("layer number=1 rows=1 columns=1 channels=1 name=b", "layer", "name=b", "name=value"),
    ):
        with refused("line 2: " + field, value, limit):
            assemble(text.splitlines()[0] + "\n" + line)
    assert assemble("; nothing\n\n") == b""


def test_words_that_are_none_are_refused() -> None:
    words = project(*small())[PROGRAM]
    for changed, told in (
        (words[:-1], "whole words"),
        (b"\xff" + words[1:], "kind of record"),
        (words[:7] + b"\x80" + words[8:], "no field has"),
        (words[:8], "has 2 words"),
    ):
        with pytest.raises(InputError, match=told):
            disassemble(changed)
    assert encode(decode(words)) == words


def test_the_docs_have_the_fields() -> None:
    page = (DOCS / "tcpa-programs.md").read_text()
    assert "\n".join(f"    {line}" for line in TABLE.strip().splitlines()) in page
    names = {names for fields in FIELDS.values() for field in fields if (names := field.names)}
    for each in names:
        assert ", ".join(f"`{name}`" for name in each) in page
    assert words_header().count("_fields[]") == len(FIELDS)


def test_the_docs_have_a_program_as_it_is_emitted() -> None:
    page = (DOCS / "tcpa-programs.md").read_text()
    shown = page.partition("    program row=")[2].partition("\n\n")[0]
    problem = mnist()
    plan = with_pes(problem, 3, 1, 8, 1, 2)
    text = project(problem, plan)["data/program.tcpa"].decode()
    assert "program row=" + shown.replace("\n    ", "\n") in text


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mnist-tcpa-placed", "mobilenetv2-16x16", "vgg16-16x16", "resnet50-32x32"])
def test_text_and_words_of_bundled_plans_say_the_same(name: str) -> None:
    problem = read(name).problem
    plan = tilewright.solve(name, time_limit=60).plan
    made = program_of(problem, plan, numbers_of(problem, images=1))
    words = encode(made.records)
    assert assemble(disassemble(words)) == words
    parts = schedule(problem, plan)
    assert sum(map(len, made.parameters)) >= parts.weights


@pytest.mark.nightly
@needs_compiler
def test_a_large_network_computes_what_it_does(tmp_path: Path) -> None:
    """MobileNetV2 on 16 x 16 PEs, for a minute."""
    problem, plan = (
        read("mobilenetv2-16x16").problem,
        tilewright.solve("mobilenetv2-16x16", time_limit=60).plan,
    )
    fast = Machine(tmp_path, "-O2")
    fast.build(project(problem, plan))
    told = fast.told()
    assert told["outputs that are wrong"] == ["0 of 6400"]
    assert told["latency, cycles"] == 2 * [str(schedule(problem, plan).latency)]


# Numbers of users' own ---------------------------------------------------------------------------------


QUANTISED_REFUSED = (
    "rounded",
    "last layer",
    "other layers",
    "not planned",
    "no operation",
    "bits do not fit",
    "do not fit accumulators",
    "PEs shift by",
    "another shape",
    "adds concatenations",
    "no C",
)
"""What is said of numbers that there is no program for."""


def quantised(random: Random) -> tuple[AllocationProblem, QuantisedNetwork]:
    """Return a random network on a small array, with numbers in random formats."""
    divided = random.choice([["filters"], ["filters", "maps"], ["filters", "rows"]])
    table = {
        "network": {"layers": tables(random, ("relu",))},
        "machine": {
            "array": [3, 6],
            "functional_units": random.randint(1, 2),
            "clock_mhz": 1,
            "word_bits": random.choice([8, 16]),
        },
        "limits": {
            "splits": divided,
            "functional_units": random.choice(["maps", "any"]),
            "scan": "rows" if "rows" in divided else random.choice(["rows", "fields"]),
            "execution": random.choice(["layer-parallel", "layer-parallel", "layer-by-layer"]),
        },
    }
    try:
        problem = AllocationProblem.model_validate(table)
    except InputError:
        assume(False)
        raise
    network, _ = integers(random, problem.network)
    drawn = np.random.default_rng(random.getrandbits(32))
    images = network.quantise(drawn.normal(0, 2, (random.randint(1, 3), *problem.network.own_input)))
    return problem, QuantisedNetwork(network, images, None, "a test")


@needs_compiler
@settings(max_examples=400 if THOROUGH else 12, suppress_health_check=[HealthCheck.filter_too_much])
@given(randoms)
def test_any_quantised_network_computes_what_its_integers_do(machine: Machine, random: Random) -> None:
    problem, values = quantised(random)
    plan = any_plan(random, problem)
    assume(plan is not None)
    try:
        files = array_project(problem, plan, 0, "net", "", values, random.choice([0, 0, 1]))
    except InputError as error:
        assert any(words in error.limit for words in QUANTISED_REFUSED), error
        assume(False)
    machine.build(files)
    assert machine.told()["outputs that are wrong"][0].startswith("0 of")


# Refusals --------------------------------------------------------------------------------------------


def test_weights_of_row_groups_count_in_programs() -> None:
    problem, plan = small(splits=["filters", "rows"])
    rows = (LayerSplit(1, rows=2), *plan.splits[1:])
    plan = replace(plan, splits=rows)
    storage = schedule(problem, plan).storage
    for more in (71, 72):  # the first layer has 2 x 4 x 9 weights
        machine = problem.machine.model_copy(update={"buffer_bytes": storage + more})
        tight = problem.model_copy(update={"machine": machine})
        if more == 72:
            assert project(tight, plan)
        else:
            with refused("machine.buffer_bytes", storage + more, f"{storage + 72} bytes are needed"):
                project(tight, plan)
        asked = tight.where(f"program_words <= {storage + more}")
        found = tilewright.solve(asked, "parametric", time_limit=60, confirm=False)
        assert found.measures.program_words <= storage + more
        assert project(asked, found.plan)
    assert allocation.simulate(problem, plan).measures.program_words == storage + 72


def test_what_has_no_program_is_refused() -> None:
    problem, plan = small()
    with refused("objective.minimise", "interval", "front"):
        project(problem, Plan.joined((plan,)))
    wide = AllocationProblem.model_validate(
        problem.model_dump() | {"machine": problem.machine.model_dump() | {"word_bits": 12}}
    )
    with refused("machine.word_bits", 12, "8 or 16"):
        project(wide, plan)
    with refused("hop_cycles", 256, "from 0 to 255"):
        project(problem, plan, hop_cycles=256)
    with pytest.raises(InputError, match="is not valid"):
        codegen.project("net", "", problem, with_pes(problem, 9, 1, 1, 1))
