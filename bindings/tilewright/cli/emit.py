"""``tilewright emit``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import on_instances, read_both, take_seed
from tilewright.cli.outputs import Saving, check_outputs, note, printing
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.codegen import TrainedNetwork
    from tilewright.codegen.numbers.float_network import FloatNetwork
    from tilewright.codegen.numbers.quantised_network import GivenNumbers
    from tilewright.run.instance import Instance
    from tilewright.simulator.arithmetic.quantised import ExactNetwork


@click.command(short_help="Write the plan of a RESULT as C, in Halide or as JSON.")
@click.argument("instance", shell_complete=completion.instances)
@click.argument("result", type=click.Path())
@click.option(
    "--as",
    "--language",
    "form",
    type=click.Choice(["c", "project", "halide", "schedule", "isa"]),
    default=None,
    help="C; a C project with weights and images, which runs; Halide in Python; a schedule in JSON; or "
    "instructions in binary words. "
    "[as FILE ends: project /, halide .py, schedule .json, else c]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default=None,
    metavar="FILE",
    help="A folder for a project and for instructions. [standard output]",
)
@click.option(
    "--numbers",
    nargs=2,
    default=None,
    metavar="INSTANCE RESULT",
    help="Of room bitwidth: the weights, formats and images of a project. [an ONNX or Caffe file's, or made]",
)
@take_seed("Of a project's inputs, and of weights that are made. [0]")
@click.option(
    "--hop-cycles",
    type=click.IntRange(0, 255),
    default=0,
    metavar="N",
    help="Of allocation: cycles of a hop from PE to PE. [0]",
)
@click.option(
    "--floats",
    is_flag=True,
    help="Of residency: compute in floating point, in elements of 4 or 8 bytes. [where functions need it]",
)
@on_instances
@click.option("--json", "as_json", is_flag=True, help="Print JSON: C with its memory figures, or a schedule.")
def emit(
    instance: str,
    result: str,
    form: str | None,
    output: str | None,
    numbers: tuple[str, str] | None,
    seed: int,
    hop_cycles: int,
    floats: bool,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Write the plan of a RESULT for a compiler: as C, in Halide, or as a schedule that any program can read.

    Of addresses, C is a header with the offsets of all buffers.

    C is a loop nest with calls to get and put data by DMA. A warning says where its buffers, whose sums are
    wider than the plan counts, exceed the memory. A project is C that can be run: see docs/emit.md,
    docs/emit-npu.md for plans of an NPU, docs/tcpa-programs.md for plans of allocation, docs/emit-fusion.md
    for plans of fusion, docs/emit-residency.md for plans of residency, whose memory is one array of exactly
    the planned size, and docs/emit-grouping.md for plans of grouping and offloading. Instructions are those
    of docs/isa.md.
    """
    problem, answer = read_both(instance, changes, result)
    form = form or _form(output)
    check_outputs(None if form in FOLDERS else output, None, inputs=[*problem.files, result])
    if form == "project":
        sizes = changes["sizes"]
        _emit_project(problem, answer.plan, output, numbers, seed, as_json, sizes, hop_cycles, floats)
        return
    for flag, told in (("--hop-cycles", hop_cycles), ("--floats", floats)):
        if told:
            raise click.UsageError(f"{flag} is for projects: --as project, or -o FOLDER/")
    if form == "isa":
        _emit_instructions(problem, answer.plan, output, numbers, seed, as_json, changes["sizes"])
        return
    if numbers is not None:
        raise click.UsageError("--numbers is for projects and programs: --as isa, or -o FOLDER/")
    emitting = EMITTING[form]
    emitting(problem, answer.plan, output, as_json)


def _form(output: str | None) -> str:
    """Return what is written to a file, by its name."""
    if output is None:
        return "c"
    if output.endswith(("/", os.sep)):
        return "project"
    return BY_SUFFIX.get(Path(output).suffix.lower(), "c")


def _emit_project(
    problem: Instance,
    plan: Any,
    output: str | None,
    numbers: tuple[str, str] | None,
    seed: int,
    as_json: bool,
    sizes: Sequence[tuple[str, tuple[int, ...]]],
    hop_cycles: int,
    floats: bool,
) -> None:
    from tilewright import codegen

    if output is None:
        raise click.UsageError("a project is a folder: -o FOLDER/")
    given = _given(problem, numbers, seed, sizes, floats=floats)
    named = problem.name, problem.source, problem.problem
    files = codegen.project(*named, plan, given, seed, hop_cycles, floats=floats)
    _save_folder(problem, output, files, f"`make -C {Path(output)} run` runs them", as_json)


def _emit_instructions(
    problem: Instance,
    plan: Any,
    output: str | None,
    numbers: tuple[str, str] | None,
    seed: int,
    as_json: bool,
    sizes: Sequence[tuple[str, tuple[int, ...]]],
) -> None:
    from tilewright import codegen

    if output is None:
        raise click.UsageError("instructions are written to a folder: -o FOLDER/")
    given = _given(problem, numbers, seed, sizes)
    assert not isinstance(given, codegen.FloatNetwork | codegen.ExactNetwork)  # which residency has
    files = codegen.instructions(problem.name, problem.problem, plan, given, seed)
    told = f"`tilewright execute {Path(output) / 'program.elf'}` runs them"
    _save_folder(problem, output, files, told, as_json)


def _given(
    problem: Instance,
    numbers: tuple[str, str] | None,
    seed: int,
    sizes: Sequence[tuple[str, tuple[int, ...]]],
    *,
    floats: bool = False,
) -> GivenNumbers | FloatNetwork | ExactNetwork | None:
    """Return the numbers of a result of bitwidth, or those of the network's file."""
    from tilewright import codegen

    if numbers is None:
        return _trained(problem, seed, sizes, floats=floats)
    bits, answer = read_both(numbers[0], {}, numbers[1])
    return codegen.numbers(bits.name, bits.problem, answer.plan)


def _trained(
    problem: Instance, seed: int, sizes: Sequence[tuple[str, tuple[int, ...]]], *, floats: bool
) -> TrainedNetwork | FloatNetwork | ExactNetwork | None:
    """Return the numbers of the network's file, if it is of a kind that has any."""
    from tilewright import codegen
    from tilewright.residency import Problem as Residency
    from tilewright.run.instance import NETWORK_SUFFIXES

    network = next((path for path in problem.files if path.suffix.lower() in NETWORK_SUFFIXES), None)
    if network is None:
        return None
    if isinstance(problem.problem, Residency) and not problem.problem.machine.dram:
        from tilewright.importing.exact import exact_operations  # for start-up time: onnx

        if network.suffix.lower() not in (".tflite", ".onnx"):
            limit = "is emitted for micro-controllers only as a quantised .tflite or .onnx file"
            raise InputError("network", network.name, limit)
        note(f"numbers: those of {network.name}")
        found = exact_operations(network)
        if network.suffix.lower() == ".onnx":
            _compare(network, found, seed)
        return found
    from tilewright.importing.training import read_floats, read_trained  # for start-up time: onnx

    read = read_floats if floats or codegen.is_in_floats(problem.problem) else read_trained
    given = read(network, dict(sizes), codegen.images_of(problem.problem), seed)
    note(f"numbers: {given.origin}")
    return given


def _compare(path: Path, network: ExactNetwork, seed: int) -> None:
    """Tell how many outputs of a project of an ONNX file are those of onnxruntime."""
    from tilewright.codegen.microcontroller import images_of
    from tilewright.importing.exact.judge import compared  # for start-up time: onnx
    from tilewright.simulator.arithmetic.quantised import inside

    own = inside(network)
    if all(tensor.type == "int8" for tensor in map(own.network.tensors.get, own.network.inputs) if tensor):
        note(compared(path, own, images_of(own.network, seed)))


def _save_folder(
    problem: Instance, output: str, files: Mapping[str, bytes], told: str, as_json: bool
) -> None:
    """Write files to a folder, over those of the same names, and print what they are."""
    folder, saving = Path(output), Saving()
    if folder.exists() and not folder.is_dir():
        raise InputError("output", output, "is a file; what is written is a folder")
    there = [str(folder / path) for path in files if (folder / path).exists()]
    check_outputs(there, None, inputs=problem.files)
    for path, content in files.items():
        saving.save(str(folder / path), partial(_save, folder / path, content))
    with printing():
        if as_json:
            written = {path: len(content) for path, content in files.items()}
            click.echo(json.dumps({"instance": problem.name, "folder": str(folder), "files": written}))
        elif saving.written:
            click.echo(f"written: {len(saving.written)} files in {folder}; {told}")
    saving.finish()


def _save(path: Path, content: bytes) -> None:
    from tilewright.core.files import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def _emit_c(problem: Instance, plan: Any, output: str | None, as_json: bool) -> None:
    from tilewright import codegen

    if problem.room == "addresses":
        header = codegen.offsets(problem.name, problem.source, problem.problem, plan)
        _emit_text(problem, header, output, as_json)
        return
    source = codegen.emit(problem.name, problem.source, problem.problem, plan)
    memory = codegen.memory(problem.problem, plan)
    warning = memory.warning()
    told = None
    if as_json:
        figures = {**asdict(memory), "emitted_bytes": memory.emitted_bytes, "fits": memory.fits}
        told = {"instance": problem.name, "memory": figures, "warning": warning, "source": source}
    saving = _saved(output, source)
    _print(saving, source, told)
    if warning is not None:
        note(f"warning: {output or 'the emitted program'} {warning}")
    saving.finish()


def _emit_halide(problem: Instance, plan: Any, output: str | None, as_json: bool) -> None:
    from tilewright import codegen

    source = codegen.halide(problem.name, problem.source, problem.problem, plan)
    _emit_text(problem, source, output, as_json)


def _emit_text(problem: Instance, source: str, output: str | None, as_json: bool) -> None:
    saving = _saved(output, source)
    _print(saving, source, {"instance": problem.name, "source": source} if as_json else None)
    saving.finish()


def _emit_schedule(problem: Instance, plan: Any, output: str | None, as_json: bool) -> None:
    from tilewright.codegen.schedule import schedule, text

    told = schedule(problem.name, problem.sha256, problem.problem, plan)
    shown = text(told) + "\n"
    saving = _saved(output, shown)
    _print(saving, shown, told if as_json else None)
    saving.finish()


FOLDERS = ("project", "isa")
"""What is written to a folder."""

EMITTING = {"c": _emit_c, "halide": _emit_halide, "schedule": _emit_schedule}
BY_SUFFIX = {".json": "schedule", ".py": "halide"}
"""What writes each form, and the form of a file where none is asked for."""


def _saved(output: str | None, text: str) -> Saving:
    """Write a file, if there is to be one."""
    from tilewright.core.files import write_atomically

    saving = Saving()
    if output is not None:
        saving.save(output, lambda: write_atomically(Path(output), text))
    return saving


def _print(saving: Saving, text: str, told: dict[str, Any] | None) -> None:
    """Print what is told as JSON, or else what has been written, or else the text."""
    with printing():
        if told is not None:
            click.echo(json.dumps(told))
        elif saving.written:
            click.echo(f"written: {saving.written[0]}")
        else:
            click.echo(text, nl=False)
