"""``tilewright execute``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.arguments import print_json
from tilewright.cli.outputs import printing
from tilewright.cli.programs import read_program
from tilewright.cli.tables import print_table
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.codegen.isa import Executed, Image


@click.command(short_help="Run a program of instructions on its machine.")
@click.argument("file", type=click.Path())
@click.option(
    "--fifo",
    type=click.IntRange(1, 2**20),
    default=None,
    metavar="N",
    help="Instructions that the FIFO of an engine holds. [any number]",
)
@click.option(
    "--banks",
    type=click.IntRange(1, 4096),
    default=None,
    metavar="N",
    help="Banks of each buffer, for which engines wait. [they wait for none]",
)
@click.option(
    "--ports",
    type=click.IntRange(1, 2),
    default=1,
    help="Of a bank: one for all accesses, or one for reading and one for writing. [1]",
)
@print_json("what was executed as JSON")
def execute(file: str, fifo: int | None, banks: int | None, ports: int, as_json: bool) -> None:
    """Run the ELF FILE of a program (docs/isa.md). Exit status 0, or 1 if an output is not what is expected.

    The program is checked first: one with a deadlock, a race, or addresses that are not there is refused. The
    machine executes the binary words and nothing else. What the plan says of its time stands beside.
    """
    from tilewright.codegen.isa import Banks, check
    from tilewright.codegen.isa import execute as executed

    image = read_program(file)
    try:
        check(image)
    except InputError as error:
        raise error.in_file(file) from None
    done = executed(image, fifo, banks=None if banks is None else Banks(banks, ports))
    told = _told(image, done)
    with printing():
        if as_json:
            click.echo(json.dumps(told))
        else:
            _print(image, done, banks is not None)
    sys.exit(0 if done.right else 1)


def _told(image: Image, done: Executed) -> dict[str, Any]:
    return {
        "program": image.name,
        "instructions": done.instructions,
        "words": len(image.words),
        "cycles": done.cycles,
        "planned_cycles": image.planned_cycles,
        "busy_cycles": done.busy,
        "loaded_bytes": done.loaded_bytes,
        "saved_bytes": done.saved_bytes,
        "waited_cycles": done.waited,
        "deepest_fifo": done.deepest_fifo,
        "most_tokens": done.most_tokens,
        "side_by_side": image.side_by_side,
        "copies": image.copies,
        "batches": done.batches,
        "right": done.right,
    }


def _print(image: Image, done: Executed, has_banks: bool) -> None:
    machine = image.machine
    rows = [
        (engine, f"{count:,}", f"{done.busy[engine]:,}", f"{done.busy[engine] / max(1, done.cycles):.0%}")
        for engine, count in done.instructions.items()
    ]
    print_table(rows, ("engine", "instructions", "cycles", "busy"))
    click.echo()
    outputs = ", ".join(
        f"{each.name} ({'x'.join(map(str, (*each.shape[1:], each.shape[0])))})" for each in image.outputs
    )
    more = done.cycles - image.planned_cycles
    same = f"PLANNED {image.planned_cycles:,}, {abs(more):,} {'more' if more > 0 else 'less'}"
    same = same if more else "as planned"
    same += f"; for each of {done.batches:,} batches" if done.batches > 1 else ""
    right = "equal to the reference, bit for bit" if done.right else "DIFFER from the reference"
    planar = sum(each.planar for each in image.tensors)
    form = f"{planar} of {len(image.tensors)} NCHW, others NHWC" if planar else "NHWC"
    waited = ", ".join(f"{engine} {count:,}" for engine, count in done.waited.items() if count) or "none"
    print_table(
        [
            ("program", f"{image.name}: {len(image.code):,} instructions in {len(image.words):,} words"),
            ("time", f"{done.cycles:,} cycles, {machine.milliseconds(done.cycles):.3f} ms; {same}"),
            ("DRAM", f"{done.loaded_bytes:,} bytes loaded, {done.saved_bytes:,} saved"),
            *([("waited for banks", f"{waited} (cycles)")] if has_banks else []),
            ("maps", f"{form}; {image.side_by_side} side by side in arrays, {image.copies} copies"),
            ("deepest FIFO", f"{done.deepest_fifo:,} instructions; at most {done.most_tokens:,} tokens"),
            ("checked", "no deadlock, no race, no address beyond its memory"),
            ("outputs", f"{outputs}: {right}"),
        ]
    )
