"""Instructions in binary words: text and container both ways, the machine's results and time, the checker."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import jsonschema
import numpy as np
import pytest
from conftest import THOROUGH, examples, tells
from elftools.elf.elffile import ELFFile
from fusion_at_random import AnyGroups, machine, randoms
from fusion_at_random import plan as any_plan
from fusion_at_random import problem as any_problem
from hypothesis import HealthCheck, assume, given, settings
from onnx_in_c import any_network, instance_of
from programs import again, any_program, assert_right_in_c, mutated, simulated, without_token
from tests import command
from tests.numbered import numbers as integers
from tests.numbered import tables
from tests.oracles import isa_banks
from tests.oracles.isa_page import HOSTED, Page

from tilewright import codegen, fusion
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.isa import (
    Banks,
    Image,
    disassemble,
    elf_bytes,
    execute,
    findings,
    program_of,
    read_elf,
)
from tilewright.codegen.isa.assembly import assemble, data_of
from tilewright.codegen.isa.host_source import host_files
from tilewright.codegen.isa.instructions import FORMS, HOST_FORMS, OPERANDS
from tilewright.codegen.isa.timing import cycles
from tilewright.codegen.numbers.c_integers import pack_elements
from tilewright.codegen.stream import numbers_of
from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem
from tilewright.fusion.graph import engine_of
from tilewright.fusion.machine import HOST
from tilewright.importing.training import read_trained
from tilewright.run.formats.schema import schema
from tilewright.run.instance import read
from tilewright.spec.errors import InputError

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")


def assert_right(problem: Problem, plan: Plan, image: Image, fifo: int | None) -> None:
    """The program survives text and container, and takes and gives what the plan and the network say."""
    data = elf_bytes(image)
    image = read_elf(data)
    assert elf_bytes(again(image)) == data
    assert findings(image) == []
    done, measures = execute(image, fifo), simulated(problem, plan)
    assert done.right
    assert done.cycles == image.planned_cycles == measures.duration_cycles
    assert (done.loaded_bytes, done.saved_bytes) == (measures.loaded_bytes, measures.saved_bytes)


@settings(max_examples=examples(100, 6))
@given(randoms)
def test_any_program_computes_what_the_network_does_in_the_planned_time(random: Random) -> None:
    problem, plan, image = any_program(random)
    assert_right(problem, plan, image, random.choice([None, 1, 2]))


def fire_module(**changes: object) -> Problem:
    """Return a fire module, a pool and two convolutions that are added, on buffers that hold little."""
    wide, narrow = [12, 4, 4], [4, 9, 9]
    layers = [
        {"name": "squeeze", "input": [6, 9, 9], "kernels": 4, "kernel": [1, 1], "bias": True},
        {"name": "one", "inputs": ["squeeze"], "input": narrow, "kernels": 5, "kernel": [1, 1]},
        {"name": "three", "inputs": ["squeeze"], "input": narrow, "kernels": 7, "kernel": [3, 3]},
        {"name": "pool", "kind": "pool", "op": "max", "inputs": ["one", "three"], "input": [12, 9, 9]},
        {"name": "left", "inputs": ["pool"], "input": wide, "kernels": 8, "kernel": [1, 1]},
        {"name": "right", "inputs": ["pool"], "input": wide, "kernels": 8, "kernel": [2, 2]},
        {"name": "sum", "kind": "add", "inputs": ["left", "right"], "input": [8, 4, 4]},
    ]
    layers[2]["padding"] = [1, 1, 1, 1]
    layers[3] |= {"kernel": [3, 3], "stride": [2, 2]}
    layers[5]["padding"] = [1, 0, 1, 0]
    bytes_of = {"input_bytes": 1000, "output_bytes": 800, "parameter_bytes": 400}
    chip = machine(Random(1), element_bytes=1, arrays=1, **bytes_of)
    return Problem.model_validate(
        {"network": {"layers": layers}, "machine": chip} | {"objective": {"minimise": "traffic"}} | changes
    )


@pytest.fixture(scope="module")
def small() -> tuple[Problem, Plan, Image]:
    problem = fire_module()
    plan = catalogue.heuristic("fusion", "layerwise").plan(problem)
    return problem, plan, program_of(problem, plan, 5, "fire")


def test_concatenations_are_no_copies(small: tuple[Problem, Plan, Image]) -> None:
    problem, plan, image = small
    assert_right(problem, plan, image, 4)
    apart = [each for each in image.tensors if each.pixel > each.shape[0]]
    assert [each.name for each in apart] == ["one", "three"]
    assert all(len(each.of("ddr")) == 1 for each in image.code if each.name == "LOAD")
    assert (image.side_by_side, image.copies) == (2, 0)


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_readelf_and_pyelftools_read_the_container(
    small: tuple[Problem, Plan, Image], tmp_path: Path
) -> None:
    image, path = small[2], tmp_path / "program.elf"
    path.write_bytes(elf_bytes(image))
    shown = subprocess.run(["readelf", "-a", "-W", path], capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    for tensor in image.tensors:
        assert f"{tensor.address:08x}" in shown.stdout and tensor.name in shown.stdout
    found = ELFFile(io.BytesIO(path.read_bytes()))
    assert found.header.e_entry == found.get_section_by_name(".text")["sh_addr"]
    words = np.frombuffer(found.get_section_by_name(".text").data(), dtype="<u4")
    assert words.tolist() == image.words


def test_files_that_are_no_programs_are_refused(small: tuple[Problem, Plan, Image]) -> None:
    data = elf_bytes(small[2])
    with pytest.raises(InputError, match=r"x\.elf: ELF"):
        read_elf(b"nothing of the kind", "x.elf")
    random = Random(3)
    for _ in range(200 if THOROUGH else 20):
        broken = bytearray(data)
        for _ in range(random.randint(1, 30)):
            broken[random.choice([random.randrange(200), random.randrange(len(data))])] = random.randrange(
                256
            )
        try:
            read_elf(bytes(broken))
        except InputError as error:
            assert error.limit
    with pytest.raises(InputError):
        read_elf(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kernels=4 ", "kernels=70000 ", ("x.s", "line", "CONV.kernels", "70000", "65535")),
        ("kernels=4 ", "kernels=four ", ("CONV.kernels", "four", "integer")),
        ("kernels=4 ", "", ("CONV.kernels", "missing")),
        ("kernels=4 ", "kernels=4 kernels=4 ", ("CONV.kernels", "twice")),
        ("kernels=4 ", "kernels=4 rank=1 ", ("CONV.rank", "no field", "kernels")),
        ("bank=input", "bank=left", ("bank", "left", "input, output, parameter")),
        ("wait=LOAD", "wait=HOST", ("wait", "HOST", "LOAD, SAVE, CONV, POOL, MISC")),
        ("parts=1", "parts=2", ("operands", "chip, ddr", "chip, ddr, ddr")),
        ("   START", "   BEGIN", ("instruction", "BEGIN", "START")),
        (".maps address", ".map address", ("directive", ".map")),
        ('.input "input.bin"\n', "", (".input", "missing")),
        (".tensor INPUT", ".tensor IN", (".tensor", "INPUT, MAP, OUTPUT")),
        ('"clock_mhz": ', '"clock_mhz": -', ("line 2", "clock_mhz")),
    ],
)
def test_text_that_is_wrong_is_refused(
    small: tuple[Problem, Plan, Image], old: str, new: str, told: tuple[str, ...]
) -> None:
    image = small[2]
    head, conv, tail = disassemble(image).partition("   CONV ")
    if old == "kernels=4 ":
        kernels = next(each.values["kernels"] for each in image.code if each.name == "CONV")
        old = f"kernels={kernels} "
    place = tail if old.startswith("kernels") or old not in head else head
    assert old in place
    changed = place.replace(old, new, 1)
    wrong = head + conv + changed if place is tail else changed + conv + tail
    with pytest.raises(InputError) as caught:
        assemble(wrong, data_of(image).__getitem__, "x.s")
    assert tells(caught.value, *told), str(caught.value)


# The checker ------------------------------------------------------------------------------------------------


def random_times(image: Image, random: Random) -> bytes:
    """Return what a program computes when each instruction takes any time."""
    most = random.choice([1, 10, 1000])
    return execute(image, None, lambda each, own: random.choice([0, own, random.randint(0, most)])).outputs


def outcome(random: Random, image: Image) -> str:
    """Return what becomes of a mutated program; one that is accepted must compute the same at any time."""
    try:
        changed = read_elf(elf_bytes(mutated(random, image)))
    except InputError:
        return "refused by the reader"
    if findings(changed):
        return "refused by the checker"
    done = execute(changed)
    others = {random_times(changed, random) for _ in range(4)}
    assert others == {done.outputs}, "a program that is accepted computes something else at another time"
    return "right" if done.right else "wrong, which the comparison says"


def assert_no_mutant_passes(count: int, seed: int) -> None:
    random, seen = Random(seed), Counter[str]()
    while seen.total() < count:
        image = any_program(random)[2]
        for _ in range(min(10, count)):
            seen[outcome(random, image)] += 1
    assert seen["refused by the checker"] > count // 3, seen
    assert seen["wrong, which the comparison says"], seen


def test_no_mutated_program_passes_that_computes_wrongly() -> None:
    assert_no_mutant_passes(40, 4)


@pytest.mark.nightly
def test_no_mutated_program_of_a_thousand_passes_that_computes_wrongly() -> None:
    assert_no_mutant_passes(1000, Random().getrandbits(32))


@pytest.mark.parametrize("pair", [("LOAD", "CONV"), ("CONV", "SAVE"), ("POOL", "SAVE")])
def test_a_race_that_is_refused_changes_results(
    small: tuple[Problem, Plan, Image], pair: tuple[str, str]
) -> None:
    wrong = 0
    for seed in range(3):
        changed = without_token(Random(seed), small[2], pair)
        (found, *_) = findings(changed)
        assert tells(found, "race with", "no dependency orders them") or tells(found, "never written")
        slow = execute(changed, None, lambda each, own: 1000 * own if each.engine == pair[0] else own)
        wrong += not slow.right
    assert wrong


def changed_at(image: Image, number: int, **changes: object) -> Image:
    """Return a program with an instruction that is another one."""
    each = replace(image.code[number], **changes)  # type: ignore[arg-type]
    return replace(image, code=(*image.code[:number], each, *image.code[number + 1 :]))


def test_what_is_wrong_is_told(small: tuple[Problem, Plan, Image]) -> None:
    image = small[2]
    number = {each.name: place for place, each in reversed([*enumerate(image.code)])}
    load, conv, fetch, save = (number[name] for name in ("LOAD", "CONV", "FETCH", "SAVE"))

    def told(changed: Image, *parts: object) -> None:
        with_reader = read_elf(elf_bytes(changed))
        assert tells(findings(with_reader)[0], *parts), findings(with_reader)[0]

    last = max(place for place, each in enumerate(image.code) if each.name == "SAVE")
    waits = (*image.code[last].wait, "POOL")
    told(changed_at(image, last, wait=waits), "SAVE.wait", "POOL", "no instruction of POOL sends the token")
    sender = max(place for place, each in enumerate(image.code) if each.engine == "LOAD" and each.send)
    told(changed_at(image, sender, send=()), "wait", "LOAD", "no instruction of LOAD sends the token")
    told(changed_at(image, save, wait=()), "tokens are not taken")
    cycle = changed_at(image, load, wait=("CONV", *image.code[load].wait))
    told(changed_at(cycle, conv, send=("LOAD", *image.code[conv].send)), "LOAD", "CONV", "a cycle")

    def with_value(place: int, **values: int) -> Image:
        return changed_at(image, place, values={**image.code[place].values, **values})

    told(with_value(fetch, base=10**6), f"code[{fetch}]: FETCH.base", 10**6, "parameter has 400 elements")
    told(with_value(fetch, address=10**8), "FETCH.address", 10**8, "data lie")
    told(with_value(conv, stride_rows=0), "CONV.stride_rows", 0, "at least 1")
    told(with_value(conv, first=0), "CONV.first", 0)
    assert tells(findings(replace(image, code=image.code[:-1]))[0], "END")
    unread = [each for place, each in enumerate(image.code) if place != load]
    lacks = replace(image.code[load], name="SAVE", operands=image.code[load].operands[:2])
    values = {name: value for name, value in lacks.values.items() if name != "parts"}
    stored = replace(lacks, values=values, wait=(), send=())
    told(replace(image, code=(unread[0], stored, *unread[1:])), "SAVE.address")


# The host and the command line ------------------------------------------------------------------------------


def test_the_host_computes_what_no_engine_does(tmp_path: Path) -> None:
    """A classifier after a concatenation that is flattened, and its softmax, on a host with a price."""
    layers = [
        {"name": "one", "input": [3, 4, 4], "kernels": 2, "kernel": [1, 1]},
        {"name": "three", "inputs": ["input"], "input": [3, 4, 4], "kernels": 5, "kernel": [3, 3]},
        {"name": "fc", "kind": "fc", "inputs": ["one", "three"], "input": [52, 1, 1], "kernel": [1, 1]},
        {"name": "soft", "kind": "map", "op": "softmax", "input": [6, 1, 1]},
    ]
    layers[2] |= {"kernels": 6, "bias": True}
    chip = machine(Random(1), element_bytes=1, host={"cycles_per_byte": 0.3, "cycles_per_call": 7})
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": chip})
    assert [op.name for op in problem.ops if engine_of(op) == HOST] == ["fc", "soft"]
    plan = catalogue.heuristic("fusion", "layerwise").plan(problem)
    image = program_of(problem, plan, 2, "classifier")
    assert [each.name for each in image.host] == ["CONNECTED", "LEFT_OUT"]
    assert_right(problem, plan, image, None)


def test_commands(tmp_path: Path, small: tuple[Problem, Plan, Image]) -> None:
    image = small[2]
    (tmp_path / "p.elf").write_bytes(elf_bytes(image))
    assert command.run(tmp_path, "disassemble", "p.elf", "-o", "p/").returncode == 0
    assert command.run(tmp_path, "assemble", "p/program.s", "-o", "q.elf").returncode == 0
    assert (tmp_path / "q.elf").read_bytes() == elf_bytes(image)
    done = command.run(tmp_path, "execute", "q.elf", "--json")
    jsonschema.Draft202012Validator(schema()["$defs"]["ExecutedProgram"]).validate(json.loads(done.stdout))
    done = command.run(tmp_path, "execute", "q.elf", "--fifo", "4")
    assert done.returncode == 0
    assert tells(done.stdout, "time", f"{image.planned_cycles:,} cycles", "as planned", "bit for bit")
    (tmp_path / "p" / "expected.bin").write_bytes(bytes(len(image.expected)))
    assert command.run(tmp_path, "assemble", "p/program.s", "-o", "q.elf").returncode == 0
    done = command.run(tmp_path, "execute", "q.elf")
    assert done.returncode == 1 and "DIFFER" in done.stdout
    text = (tmp_path / "p" / "program.s").read_text()
    (tmp_path / "p" / "program.s").write_text(text.replace('"input.bin"', '"../input.bin"'))
    done = command.run(tmp_path, "assemble", "p/program.s", "-o", "q.elf")
    assert done.returncode == 2 and tells(done.stderr, "p/program.s", "data", "beside the program")


def test_plans_of_other_rooms_have_no_instructions(small: tuple[Problem, Plan, Image]) -> None:
    problem, plan, _ = small
    with pytest.raises(InputError, match="is not valid: "):
        codegen.instructions("net", problem, Plan(plan.groups[1:]))
    from tilewright import tiling

    other = tiling.Problem.model_validate(
        {
            "layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]},
            "machine": {"kind": "dsp", "memory_bytes": 4096},
        }
    )
    with pytest.raises(InputError, match="plans of room fusion"):
        codegen.instructions("net", other, None)


# The page ---------------------------------------------------------------------------------------------------


def test_the_page_has_no_field_that_is_not_there() -> None:
    page = Page()
    widths = {
        name: [sum(bits for _, bits in word.values()) for word in rows] for name, rows in page.words.items()
    }
    for form in (*FORMS, *HOST_FORMS):
        assert page.codes[form.name] == (form.engine, form.function)
        own = [sum(each.bits for each in word) for word in form.body]
        assert widths.get(page.words_of(form.name), []) == own
    for role, layout in OPERANDS.items():
        assert widths[page.operand(role)] == [sum(each.bits for each in word) for word in layout]


def assert_the_page_decodes(image: Image) -> None:
    """What the tables of the page say of the words of a file is what the program has."""
    page, found = Page(), ELFFile(io.BytesIO(elf_bytes(image)))
    for section, program in ((".text", image.code), (".host", image.host)):
        words = np.frombuffer(found.get_section_by_name(section).data(), dtype="<u4").tolist()
        seen = page.decoded(words, section == ".host")
        assert seen == [
            (
                each.name,
                each.wait,
                each.send,
                dict(each.values),
                [(one.role, dict(one.values)) for one in each.operands],
            )
            for each in program
        ]


def test_words_mean_what_the_page_says(small: tuple[Problem, Plan, Image]) -> None:
    assert_the_page_decodes(small[2])


@pytest.mark.nightly
@given(randoms)
def test_words_of_any_program_mean_what_the_page_says(random: Random) -> None:
    assert_the_page_decodes(any_program(random)[2])


# Numbers of a result of bitwidth ----------------------------------------------------------------------------


def quantised(random: Random) -> tuple[AnyGroups, QuantisedNetwork]:
    """Return a random network, and its numbers in random formats with images for two batches or more."""
    layers = {"layers": tables(random, ("relu",))}
    made = any_problem(random, layers, machine={"element_bytes": random.choice([1, 2])})
    network, _ = integers(random, made.network)
    drawn = np.random.default_rng(random.getrandbits(32))
    count = made.machine.arrays * 2 + random.randint(0, 1)
    images = network.quantise(drawn.normal(0, 2, (count, *made.network.layers[0].input)))
    return made, QuantisedNetwork(network, images, None, "a test")


@settings(max_examples=examples(300, 5), suppress_health_check=[HealthCheck.filter_too_much])
@given(randoms)
def test_programs_compute_in_the_formats_of_a_bitwidth_result(random: Random) -> None:
    try:
        problem, values = quantised(random)
        plan = any_plan(random, problem)
        image = program_of(problem, plan, 0, "net", values)
    except InputError:
        assume(False)
    data = elf_bytes(image)
    assert elf_bytes(again(read_elf(data))) == data
    assert findings(image) == []
    done = execute(read_elf(data))
    assert done.batches == len(values.images) // problem.machine.arrays
    numbers = numbers_of(problem, 0, values)
    (name,) = numbers.outputs
    assert done.right
    assert done.outputs == pack_elements(
        numbers.maps[name].transpose(0, 2, 3, 1), 8 * problem.machine.element_bytes
    )
    assert done.cycles == image.planned_cycles


@pytest.mark.nightly
def test_digits_are_classified_as_by_the_integer_network(tmp_path: Path) -> None:
    numbers = ["--numbers", "lenet5-bits", "bits.json"]
    wide = ["--machine", "dnnvm-zu2", "--set", "machine.element_bytes=2"]
    for args in (
        ["solve", "lenet5-128", *wide, "--with", "greedy", "-o", "lenet5.json"],
        ["solve", "lenet5-bits", "--with", "greedy", "-o", "bits.json"],
        ["emit", "lenet5-128", "lenet5.json", *wide, *numbers, "--as", "isa", "-o", "lenet5/"],
    ):
        done = command.run(tmp_path, *args)
        assert done.returncode == 0, done.stderr
    image = read_elf((tmp_path / "lenet5" / "program.elf").read_bytes())
    assert findings(image) == []
    done = execute(image)
    assert done.right and done.batches == 200
    assert done.cycles == image.planned_cycles


# The host's part in C ---------------------------------------------------------------------------------------


@needs_compiler
@settings(max_examples=examples(100, 5), suppress_health_check=[HealthCheck.filter_too_much])
@given(randoms)
def test_the_host_of_any_program_is_c_that_computes_the_same(random: Random) -> None:
    if random.random() < 0.5:
        _, _, image = any_program(random)
    else:
        try:
            problem, values = quantised(random)
            image = program_of(problem, any_plan(random, problem), 0, "net", values)
        except InputError:
            assume(False)
    assume(image.host)
    assert_right_in_c(image, host_files(image))


# Banks ------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(200, 6))
@given(randoms)
def test_engines_wait_for_banks_as_a_machine_does_that_steps_cycle_by_cycle(random: Random) -> None:
    _, _, image = any_program(random)
    banks = Banks(random.choice([1, 2, 3, 8, 64]), random.choice([1, 2]))
    machine = image.machine.model_dump(mode="json")
    program, page = Page().decoded(image.words, False), Page()
    engines = {name: engine for name, (engine, _) in page.codes.items() if name not in HOSTED}
    durations = [cycles(each, image.machine, image.host) for each in image.code]
    chip = isa_banks.Chip(isa_banks.sizes_of(machine), image.machine.arrays, *banks)
    done = execute(image, banks=banks)
    assert done.right
    assert done.cycles == isa_banks.cycles(program, engines, durations, chip)
    assert done.cycles >= image.planned_cycles
    assert (done.cycles == image.planned_cycles) or sum(done.waited.values())


def test_banks_that_engines_share_cost_time() -> None:
    """A buffer of one bank is not filled and read at a time; one with a bank for each value is."""
    chip = {"load_mb_per_s": 2, "clock_mhz": 1, "conv_array": (4, 4, 4), "input_bytes": 2000}
    problem = fire_module(objective={"minimise": "cycles"}).with_(machine=chip)
    plan = catalogue.heuristic("fusion", "greedy").plan(problem)
    image = program_of(problem, plan, 5, "fire")
    found = {each: execute(image, banks=Banks(*each)) for each in ((1, 1), (1, 2), (1000, 1), (1000, 2))}
    assert found[1, 1].cycles > found[1, 2].cycles > image.planned_cycles
    assert found[1000, 1].cycles == found[1000, 2].cycles == image.planned_cycles
    assert found[1, 1].waited["CONV"] and not any(found[1000, 1].waited.values())
    assert all(each.right for each in found.values())


def test_the_command_tells_what_banks_cost(tmp_path: Path) -> None:
    problem = fire_module(objective={"minimise": "cycles"}).with_(
        machine={"load_mb_per_s": 2, "clock_mhz": 1, "conv_array": (4, 4, 4)}
    )
    plan = catalogue.heuristic("fusion", "layerwise").plan(problem)
    (tmp_path / "p.elf").write_bytes(elf_bytes(program_of(problem, plan, 5, "fire")))
    done = command.run(tmp_path, "execute", "p.elf", "--banks", "1")
    assert done.returncode == 0, done.stderr
    assert tells(done.stdout, "PLANNED", "more", "waited for banks", "CONV")


# Bundled networks -------------------------------------------------------------------------------------------

BUNDLED = sorted(path.stem for path in catalogue.instances("fusion"))


def without_normalisations(problem: Problem) -> Problem:
    """Return a problem without the normalisations across channels, which there are no instructions for."""
    table = problem.network.model_dump(mode="json")
    for layer in table["layers"]:
        if layer.get("op") == "lrn":
            layer |= {"op": "identity", "parameters": 0}
    machine = problem.machine.model_dump(mode="json")
    return Problem.model_validate({"network": table, "machine": machine})


@pytest.mark.nightly
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_plans_are_executed_as_planned(name: str) -> None:
    problem = without_normalisations(read(name).problem)
    plan = catalogue.heuristic("fusion", "greedy").plan(problem)
    image = program_of(problem, plan, 1, name)
    data = elf_bytes(image)
    assert elf_bytes(again(read_elf(data))) == data
    assert findings(image) == []
    done = execute(image, 1)
    assert done.right
    assert done.cycles == image.planned_cycles == fusion.simulate(problem, plan).measures.duration_cycles
    assert image.copies == 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_any_network_of_a_file_computes_what_its_integers_do(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    any_network(Random(seed), path)
    instance = instance_of(path, "fusion", 64)
    plan = catalogue.heuristic("fusion", "greedy").plan(instance.problem)
    numbers = read_trained(path, images=codegen.images_of(instance.problem), seed=seed)
    try:
        image = program_of(instance.problem, plan, seed, "net", numbers)
    except InputError as refused:
        assert "functions of it" in str(refused)
        return
    assert_right(instance.problem, plan, image, 2)
