"""Emitted C compiles without a warning, computes the layer and moves what the simulator says it moves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axes import axes, layer_table
from conftest import THOROUGH, in_turn, tells, thinned
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tilewright.codegen import EMITTED, emit, memory
from tilewright.codegen.loop_nest.file import emit_layer, emit_network
from tilewright.simulator import Box
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, simulate
from tilewright.tiling.dsp.kind import violation
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import ORDERED, SCHEDULES, DspPlan

COMPILERS = [found for name in ("gcc", "clang", "cc") if (found := shutil.which(name))]
COMPILERS = list({os.path.realpath(compiler): compiler for compiler in reversed(COMPILERS)}.values())[::-1]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
CHECKED = ["-O1" if THOROUGH else "-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
SHIM = Path(__file__).with_name("dma_shim.c")

if not COMPILERS and os.environ.get("CI"):
    pytest.fail("no C compiler: install gcc and libc6-dev", pytrace=False)
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler")


# Cases --------------------------------------------------------------------------------------------


def make_problem(layer: dict[str, Any], **machine: Any) -> Problem:
    return Problem.model_validate(
        {"layer": layer, "machine": {"kind": "dsp", "memory_bytes": 2**24} | machine}
    )


@dataclass
class Case:
    problem: Problem
    plan: DspPlan

    def __post_init__(self) -> None:
        broken = violation(self.problem, self.plan)
        if broken is not None and broken.startswith("partial sums"):
            # Only two copies of the buffers make it impossible.
            machine = self.problem.machine.model_copy(update={"double_buffering": False})
            self.problem = Problem(layer=self.problem.layer, machine=machine)
            assert violation(self.problem, self.plan) is None

    @property
    def types(self) -> tuple[str, str, str, str]:
        """Of inputs, weights, outputs and partial sums."""
        machine = self.problem.machine
        if machine.bits is not None:
            given = (machine.bits.input, machine.bits.weights, machine.bits.output, machine.bits.partial)
            inputs, weights, outputs, sums = (
                f"i{next(n for n in (1, 2, 4, 8) if 8 * n >= b)}" for b in given
            )
            return inputs, weights, outputs, sums
        element, total = {1: ("i1", "i4"), 2: ("i2", "i4"), 4: ("i4", "i8"), 8: ("i8", "i8")}[
            machine.element_bytes
        ]
        return element, element, total, total

    @property
    def padding_is_made(self) -> bool:
        return self.problem.machine.padding == "generated"

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Input as it lies in external memory, weights, and the output that is expected."""
        layer = self.problem.one_layer
        values, kernels = random_values(layer, 1)
        expected = reference_convolution(layer, values, kernels)
        if not self.padding_is_made:
            top, bottom, left, right = layer.padding
            values = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
        return values, kernels, expected

    def transfers(self) -> Iterator[list[tuple[int, int, int]]]:
        """The transfers of the program, as the shim's log has them; those of a list in any order."""
        layer = self.problem.one_layer
        program = lower(nest_of(layer, self.problem.machine), self.plan, 0)
        shapes = {tensor.name: tensor.shape for tensor in program.tensors}

        def entry(kind: int, tensor: str, region: Any) -> tuple[int, int, int]:
            assert isinstance(region, Box)
            first, shape = [span[0] if span else 0 for span in region.ranges], shapes[tensor]
            if tensor == "input" and self.padding_is_made:
                shape = (*shape[:3], *layer.input[1:])
                first[3:] = [first[3] - layer.padding[0], first[4] - layer.padding[2]]
            return kind, int(np.ravel_multi_index(first, shape)), region.size(shapes[tensor])

        for step in program.steps:
            for action in step.write_back:
                yield [entry(3, action.tensor, action.region)]
            if step.load:
                kinds = {"input": 0, "kernels": 1, "output": 2}
                yield sorted(entry(kinds[a.tensor], a.tensor, a.region) for a in step.load)


# Compiling and running ----------------------------------------------------------------------------


def compile_c(compiler: str, folder: Path, sources: Sequence[Path], *options: str) -> None:
    done = subprocess.run(
        [compiler, *STRICT, f"-I{SHIM.parent}", *options, *map(str, sources)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[:4000]


def can_check(folder: Path, checked: Sequence[str] = CHECKED) -> bool:
    """Whether the compiler has the libraries for run-time checks."""
    source = folder / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    done = subprocess.run(
        [COMPILERS[0], *checked, str(source), "-o", "nothing"], cwd=folder, capture_output=True
    )
    return done.returncode == 0


def hooked(text: str) -> str:
    """Let each function tell the shim where its buffers are, and add one of any type that calls it."""
    lines, name, sums = ["#include <dma_shim.h>"], "", ""
    for line in text.splitlines():
        if found := re.match(r"void (\w+)\(const \w+ \*in, const \w+ \*w, \w+ \*out(, \w+ \*sums)?\)", line):
            name, sums = found[1], ", sums" if found[2] else ""
        if line.startswith("    /* Bytes from an item"):
            place = "B_" if "LOCAL_MEMORY data_t B_in" in text else f"local_memory.{name}."
            ends = ", ".join(f"B_{operand}, sizeof {place}{operand}" for operand in ("in", "w", "out"))
            lines.append(f"    shim_buffers({ends});")
        lines.append(line)
        if line == "}" and name:  # what comes before the layers is a helper
            head = f"void run_{name}(const void *in, const void *w, void *out, void *sums)"
            lines += [f"{head};", f"{head} {{ (void)sums; {name}(in, w, out{sums}); }}"]
    return "\n".join(lines) + "\n"


def run(
    cases: Sequence[Case],
    texts: Sequence[str],
    names: Sequence[str],
    folder: Path,
    checked: Sequence[str] = CHECKED,
) -> None:
    """Compile some texts with run-time checks, run the functions of all cases and check what they do."""
    main = [
        "#include <dma_shim.h>",
        *(f"void run_{n}(const void *, const void *, void *, void *);" for n in names),
    ]
    main.append("int main(void) {")
    data = b""
    expected = []
    for case, name in zip(cases, names, strict=True):
        types = case.types
        values, kernels, output = case.data()
        sizes = ", ".join(str(array.size) for array in (values, kernels, output))
        widths = ", ".join(str(np.dtype(each).itemsize) for each in types)
        stays = int(case.plan.reuse == "halo")
        main.append(
            f"    shim_run(run_{name}, (const size_t[]){{{widths}}}, (const size_t[]){{{sizes}}}, {stays});"
        )
        data += values.astype(types[0]).tobytes() + kernels.astype(types[1]).tobytes()
        expected.append(output.astype(types[2]))
    main += ["    return 0;", "}"]
    sources = [SHIM, folder / "main.c"]
    sources[1].write_text("\n".join(main) + "\n")
    for number, text in enumerate(texts):
        sources.append(folder / f"part{number}.c")
        sources[-1].write_text(hooked(text))
    options = checked if can_check(folder, checked) else ["-O1"]
    compile_c(COMPILERS[0], folder, sources, *options, "-o", "run")
    done = subprocess.run([str(folder / "run")], input=data, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    out = done.stdout
    for case, output in zip(cases, expected, strict=True):
        n, *buffers = map(int, np.frombuffer(out, "i8", 4))
        log = np.frombuffer(out, "i8", 3 * n, 32).reshape(n, 3)
        found = np.frombuffer(out, case.types[2], output.size, 32 + log.nbytes)
        out = out[32 + log.nbytes + found.nbytes :]
        check(case, buffers, log, found.reshape(output.shape), output)
    assert not out


def check(case: Case, buffers: list[int], log: np.ndarray, found: np.ndarray, expected: np.ndarray) -> None:
    problem, plan = case.problem, case.plan
    assert np.array_equal(found, expected), case
    nest = nest_of(problem.one_layer, problem.machine)
    step = nest.step(plan.tile)
    complete = problem.machine.bits is None or step[-1] == nest.sizes[-1]
    widths = [np.dtype(case.types[i]).itemsize for i in (0, 1, 2 if complete else 3)]
    assert [b // w for b, w in zip(buffers, widths, strict=True)] == list(nest.buffers(step).values())
    # What the simulator counts.
    report = simulate(problem, Plan((plan,)), overlapped=False)
    assert report.violation is None
    loaded = [int(report.loaded[name].sum()) for name in ("input", "kernels", "output")]
    elements = [int(log[log[:, 0] == kind, 2].sum()) for kind in range(4)]
    assert elements == [*loaded, int(report.written["output"].sum())]
    assert len(log) == report.transfers, case
    # What the file promises.
    calls = [int((log[:, 0] == kind).sum()) for kind in range(4)]
    assert promised(emit_layer(problem, plan)) == [*zip(calls, elements, strict=True)]
    # The transfers themselves, in their order.
    at = 0
    for wanted in case.transfers():
        assert sorted(map(tuple, log[at : at + len(wanted)].tolist())) == wanted
        at += len(wanted)
    assert at == len(log)


def promised(text: str) -> list[tuple[int, int]]:
    """Calls and elements of gets of input, weights and sums, and of puts, as the comment has them."""
    rows = re.findall(r"^ \*   (?:get|put) (?:in|w|out) +([\d,]+) +([\d,]+)$", text, re.MULTILINE)
    return [(int(calls.replace(",", "")), int(elements.replace(",", ""))) for calls, elements in rows]


def run_each(cases: Sequence[Case], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    names = [f"layer_{number}" for number in range(len(cases))]
    texts = [emit_layer(case.problem, case.plan, name) for case, name in zip(cases, names, strict=True)]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 104
    run(cases, texts, names, folder)


# Layers and plans ---------------------------------------------------------------------------------

LAYERS: dict[str, dict[str, Any]] = {
    "plain": {"input": [5, 9, 11], "kernels": 6, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    "strided": {
        "input": [4, 13, 11],
        "kernels": 3,
        "kernel": [5, 3],
        "stride": [2, 2],
        "padding": [2, 1, 0, 1],
    },
    "gaps": {"input": [3, 10, 12], "kernels": 4, "kernel": [1, 2], "stride": [2, 3], "batch": 2},
    "dilated": {
        "input": [2, 11, 12],
        "kernels": 3,
        "kernel": [3, 2],
        "dilation": [2, 3],
        "padding": [3, 4, 2, 3],
        "stride": [1, 2],
    },
    "grouped": {
        "input": [12, 7, 6],
        "kernels": 6,
        "kernel": [2, 3],
        "groups": 3,
        "batch": 3,
        "padding": [1, 0, 1, 1],
    },
    "depthwise": {"input": [5, 8, 7], "kernels": 5, "kernel": [3, 3], "groups": 5, "padding": [1, 1, 1, 1]},
    "pointwise": {"input": [7, 5, 4], "kernels": 9, "kernel": [1, 1], "batch": 2},
    "flat": {"input": [3, 1, 17], "kernels": 2, "kernel": [1, 4], "padding": [0, 0, 2, 3]},
    "whole plane": {"input": [3, 4, 5], "kernels": 4, "kernel": [4, 5], "batch": 3},
    "fully connected": {"kind": "fc", "inputs": 30, "outputs": 14, "batch": 5},
    "one image": {"kind": "fc", "inputs": 13, "outputs": 7},
    "one number": {"kind": "fc", "inputs": 1, "outputs": 1},
}


BITS: list[dict[str, int]] = [
    {"input": 8, "weights": 8, "output": 8, "partial": 32},
    {"input": 16, "weights": 8, "output": 16, "partial": 32},
    {"input": 8, "weights": 16, "output": 32, "partial": 64},
    {"input": 8, "weights": 8, "output": 16, "partial": 16},
    {"input": 7, "weights": 8, "output": 6, "partial": 13},
]
"""Widths, all but the last ones of C."""


def some_tiles(sizes: Sequence[int], seed: int) -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    while True:
        yield tuple(int(rng.integers(1, size + 1)) for size in sizes)


def sizes_of(problem: Problem) -> tuple[int, ...]:
    return nest_of(problem.one_layer, problem.machine).sizes


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_of_the_thesis(schedule: str, tmp_path: Path) -> None:
    """Every layer, one way of its padding; with `-m nightly` both."""
    order, reuse = SCHEDULES[schedule]
    turn = list(SCHEDULES).index(schedule)
    cases = []
    for number, layer in enumerate(LAYERS.values()):
        for padding in in_turn(("loaded", "generated"), turn + number):
            problem = make_problem(layer, padding=padding, element_bytes=(1, 2, 4, 8)[number % 4])
            tile = next(some_tiles(sizes_of(problem), number))
            cases.append(Case(problem, DspPlan(tile, order, reuse)))  # type: ignore[arg-type]
            narrow = problem.with_(machine={"bits": BITS[number % len(BITS)]})
            cases.append(Case(narrow, DspPlan(tile, order, reuse)))  # type: ignore[arg-type]
    run_each(cases, tmp_path)


@pytest.mark.nightly
@pytest.mark.slow
@needs_compiler
def test_every_order_and_reuse(tmp_path: Path) -> None:
    """Orders of the loops, with `-m nightly` all, with every reuse; layers, tiles and padding take turns."""
    layers = list(LAYERS.values())
    tiles: dict[int, Iterator[tuple[int, ...]]] = {}
    bundle: list[Case] = []
    for number, order in enumerate(thinned(permutations(ORDERED), 3)):
        for reuse in EMITTED[number % 2 :: 2] if number % 3 else EMITTED[1:]:
            layer = number % len(layers)
            problem = make_problem(layers[layer], padding=("loaded", "generated")[number // 2 % 2])
            tile = next(tiles.setdefault(layer, some_tiles(sizes_of(problem), layer)))
            bundle.append(Case(problem, DspPlan(tile, "".join(order), reuse)))  # type: ignore[arg-type]
    run_each(bundle, tmp_path)


@st.composite
def random_cases(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    small = st.integers(1, 3)
    axis = axes(
        st.integers(1, 7), kernel=st.integers(1, 4), stride=st.integers(1, 5), dilation=small, padding=9
    )
    problem = make_problem(
        layer_table(
            groups * draw(st.integers(1, 4)),
            draw(axis),
            draw(axis),
            kernels=groups * draw(st.integers(1, 4)),
            groups=groups,
            batch=draw(small),
        ),
        padding=draw(st.sampled_from(["loaded", "generated"])),
        element_bytes=draw(st.sampled_from([1, 2, 4, 8])),
        double_buffering=draw(st.booleans()),
        bits=draw(st.none() | st.sampled_from(BITS)),
    )
    tile = tuple(draw(st.integers(1, size)) for size in sizes_of(problem))
    order = "".join(draw(st.permutations(ORDERED)))
    return Case(problem, DspPlan(tile, order, draw(st.sampled_from(EMITTED))))  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.slow
@needs_compiler
@settings(max_examples=4 if THOROUGH else 2, phases=[Phase.generate])  # shrinking would compile for minutes
@given(cases=st.lists(random_cases(), min_size=24, max_size=24))
def test_random_layers(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> None:
    run_each(cases, tmp_path_factory.mktemp("emit"))


@pytest.mark.nightly
@needs_compiler
def test_network(tmp_path: Path) -> None:
    """One function per distinct layer and plan, in one file, with one local memory."""
    cases = []
    for number, (name, layer) in enumerate(LAYERS.items()):
        problem = make_problem(layer, padding="generated")
        tile = next(some_tiles(sizes_of(problem), number + 100))
        cases.append((name, Case(problem, DspPlan(tile, "ncyxk", "halo"))))  # type: ignore[arg-type]
    again = [
        ("again", cases[2][1]),
        ("plain?", Case(cases[0][1].problem, DspPlan((1,) * 6, "ncyxk", "tile"))),
    ]
    parts = [(name, case.problem, case.plan) for name, case in cases + again]
    text = emit_network(parts, "a network", "LeNet")
    names = re.findall(r"^void (layer_\w+)\(", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(cases) + 1
    assert re.search(r"layer_gaps +again$", text, re.MULTILINE) and "layer_plain_2" in names
    run([*(case for _, case in cases), again[1][1]], [text], names, tmp_path)


# Names, sources, refusals -------------------------------------------------------------------------

NASTY = [
    "*/ int main(void) { return 1; } /*",
    "/* nested // line \\",
    "??/ trigraph ??= \\\n#error",
    "\u202e right to left \u2066 × – é ∑ \x00 \x1b[31m",
    "int",
    "main",
    "9 lives",
    "_Reserved__",
    "x" * 5000,
    "*" * 50 + "/",
    "",
    "%s%n\r\n#include </etc/passwd>",
    "layer",
    "layered",
]


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("nasty", NASTY)
def test_text_from_outside_stays_in_comments(nasty: str, tmp_path: Path) -> None:
    case = Case(make_problem(LAYERS["plain"]), DspPlan((1, 1, 4, 6, 4, 4), "cknyx", "halo"))
    plain = without_comments(emit_layer(case.problem, case.plan))
    texts = [
        emit_layer(case.problem, case.plan, nasty, nasty),
        emit_network([(nasty, case.problem, case.plan)] * 2, nasty, nasty),
    ]
    name = re.search(r"^void (\w+)\(const", texts[0], re.MULTILINE)
    assert name is not None and re.fullmatch(r"layer(_\w+|\d\w*)?", name[1]) and len(name[1]) <= 31
    assert without_comments(texts[0]).replace(name[1], "layer") == plain
    for text in texts:
        assert text.isascii() and "??" not in text and "\\" not in text
        assert len(text) < 20_000
    for compiler in COMPILERS:
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.c").write_text(text)
            compile_c(compiler, tmp_path, [tmp_path / f"{number}.c"], "-fsyntax-only")


def test_names_that_are_cut_alike_stay_apart() -> None:
    problem = make_problem(LAYERS["one number"])
    tiles = [DspPlan((n, 1, 1, 1, 1, 1), "ncyxk", "tile") for n in range(1, 12)]
    text = emit_network([("a" * 40, problem, plan) for plan in tiles])
    names = re.findall(r"^void (\w+)\(const", text, re.MULTILINE)
    assert len(set(names)) == len(tiles) and all(len(name) <= 31 for name in names)


def test_plans_that_do_not_fit_are_refused() -> None:
    problem = make_problem(LAYERS["plain"], memory_bytes=512)
    with pytest.raises(InputError, match="memory overflow"):
        emit_layer(problem, DspPlan((1, 1, 6, 9, 11, 5), "ncyxk", "tile"))


def test_transfers_with_a_step_are_refused_where_they_leave_something_out() -> None:
    layer = {"input": [2, 7, 7], "kernels": 2, "kernel": [2, 2]}
    plan = Plan((DspPlan((1, 1, 2, 9, 9, 2), "ncyxk", "tile"),))
    with pytest.raises(InputError, match=r"machine\.dma_step"):
        emit("gaps", "a test", make_problem(layer | {"stride": [1, 3]}, dma_step=True), plan)
    same = [emit("none", "a test", make_problem(layer, dma_step=step), plan) for step in (False, True)]
    assert same[0] == same[1]


def test_plans_that_keep_all_weights_are_refused() -> None:
    problem = make_problem(LAYERS["plain"]).with_(
        objective={"minimise": "accesses"}, limits={"schedule": "any+weights"}
    )
    plan = Plan((DspPlan((1, 1, 6, 9, 11, 5), "ncyxk", "weights"),))
    with pytest.raises(InputError, match=r"plan\.reuse"):
        emit("weights", "a test", problem, plan)


def test_loops_of_one_iteration_are_left_out() -> None:
    problem = make_problem(LAYERS["plain"])
    code = without_comments(emit_layer(problem, DspPlan((1, 1, 6, 9, 11, 5), "ncyxk", "tile")))
    assert not re.search(r"for \(int (o_|k_c|g)", code)
    code = without_comments(emit_layer(problem, DspPlan((1, 1, 6, 9, 4, 5), "ncyxk", "tile")))
    assert re.findall(r"for \(int (o_\w|k_c|g) ", code) == ["o_x"]


# Memory -------------------------------------------------------------------------------------------


def static_bytes(text: str, folder: Path) -> int:
    """Bytes of the variables of a compiled file that begin as zeros."""
    (folder / "emitted.c").write_text(text)
    compile_c(COMPILERS[0], folder, [folder / "emitted.c"], "-c", "-o", "emitted.o")
    done = subprocess.run(["size", "-A", "emitted.o"], cwd=folder, capture_output=True, text=True, check=True)
    return sum(int(number) for number in re.findall(r"^\.bss\S* +(\d+)", done.stdout, re.MULTILINE))


@pytest.mark.by_day(1)
@needs_compiler
@pytest.mark.skipif(shutil.which("size") is None, reason="no binutils")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("twice", [True, False])
def test_the_bytes_that_are_told_are_those_of_the_compiler(size: int, twice: bool, tmp_path: Path) -> None:
    layers = ("plain", "strided", "grouped")
    problems = [make_problem(LAYERS[n], element_bytes=size, double_buffering=twice) for n in layers]
    plans = [DspPlan(next(some_tiles(sizes_of(p), 7)), "ncyxk", "halo") for p in problems]
    for problem, plan in zip(problems, plans, strict=True):
        found, planned = memory(problem, Plan((plan,))), elements_of_a_copy(problem, plan)
        assert found.planned_bytes == planned * size * (2 if twice else 1)
        assert found.emitted_bytes == found.copy_bytes * (2 if twice else 1)
        # A compiler may begin each of three arrays at a multiple of 64 bytes.
        assert found.copy_bytes - 16 <= static_bytes(emit_layer(problem, plan), tmp_path)
        assert static_bytes(emit_layer(problem, plan), tmp_path) < found.copy_bytes + 3 * 64
    parts = [(name, problem, plan) for name, problem, plan in zip(layers, problems, plans, strict=True)]
    most = max(memory(problem, Plan((plan,))).copy_bytes for _, problem, plan in parts)
    assert most <= static_bytes(emit_network(parts), tmp_path) < most + 64


@pytest.mark.by_day(1)
@needs_compiler
@pytest.mark.skipif(shutil.which("size") is None, reason="no binutils")
@pytest.mark.parametrize("bits", BITS)
def test_buffers_of_given_widths_take_what_is_planned(bits: dict[str, int], tmp_path: Path) -> None:
    parts = []
    for name in ("plain", "strided", "grouped", "fully connected"):
        for maps in (1, 100):  # tiles that do not complete their outputs, and tiles that do
            problem = make_problem(LAYERS[name], bits=bits, double_buffering=False)
            tile = (*next(some_tiles(sizes_of(problem), 7))[:5], maps)
            plan = DspPlan(tile, "ncyxk", "halo")
            nest = nest_of(problem.one_layer, problem.machine)
            # A memory that holds no more than the plan needs, in whole words of 8 bytes.
            planned = sum(nest.held(nest.step(tile)).values()) / 8
            problem = problem.with_(machine={"memory_bytes": 8 * -(-ceil(planned) // 8)})
            found, taken = memory(problem, Plan((plan,))), static_bytes(emit_layer(problem, plan), tmp_path)
            assert found.planned_bytes == ceil(planned)
            assert found.emitted_bytes == found.copy_bytes == taken
            if all(width in (8, 16, 32, 64) for width in bits.values()):
                widest = max(bits.values()) // 8
                assert planned <= taken <= min(problem.machine.memory_bytes, widest * ceil(planned / widest))
                assert found.warning() is None and not found.wider
            else:
                assert any(tells(each, "sums .. 16 bits .. 13") for each in found.wider)
            parts.append((f"{name} {maps}", problem.with_(machine={"memory_bytes": 2**24}), plan))
    most = max(memory(problem, Plan((plan,))).copy_bytes for _, problem, plan in parts)
    assert most <= static_bytes(emit_network(parts), tmp_path) < most + 8


def test_c_has_no_integers_of_more_than_64_bits() -> None:
    problem = make_problem(LAYERS["plain"], bits={"partial": 65})
    with pytest.raises(InputError, match=r"machine\.bits\.partial = 65"):
        emit_layer(problem, DspPlan((1, 1, 1, 1, 1, 1), "ncyxk", "tile"))


def elements_of_a_copy(problem: Problem, plan: DspPlan) -> int:
    """Elements of one copy of the buffers."""
    nest = nest_of(problem.one_layer, problem.machine)
    return sum(nest.buffers(nest.step(plan.tile)).values())


def test_buffers_that_exceed_the_memory_are_told_to_the_byte() -> None:
    """Sums of 32 bits where the plan counts 16; the machine has every buffer twice."""
    plan = DspPlan((1, 1, 6, 9, 11, 5), "ncyxk", "tile")
    planned = 2 * 2 * (5 * 11 * 13 + 6 * 5 * 9 + 6 * 9 * 11)
    problem = make_problem(LAYERS["plain"], memory_bytes=planned)
    found = memory(problem, Plan((plan,)))
    assert (found.planned_bytes, found.memory_bytes, found.fits) == (planned, planned, False)
    assert found.emitted_bytes == planned + 2 * 2 * (6 * 9 * 11) + 2 * 2  # and a gap before the sums
    said = f"{found.emitted_bytes - planned:,} bytes .. {found.emitted_bytes:,}"
    text = " ".join(emit_layer(problem, plan).replace("\n * ", " ").split())
    assert tells(text, f"WARNING .. memory .. {said}")
    assert tells(text, "sums .. 32 bits .. 16")
    enough = make_problem(LAYERS["plain"], memory_bytes=found.emitted_bytes)
    assert memory(enough, Plan((plan,))).warning() is None
    assert "WARNING" not in emit_layer(enough, plan)
    same = make_problem(LAYERS["plain"], memory_bytes=4 * planned, element_bytes=8)
    assert memory(same, Plan((plan,))).fits and memory(same, Plan((plan,))).emitted_bytes == 4 * planned
