"""``tilewright disassemble``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from tilewright.cli.outputs import Saving, check_outputs, printing
from tilewright.cli.programs import disassembled


@click.command(short_help="Turn a program in binary words into assembly.")
@click.argument("file", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default=None,
    metavar="FOLDER",
    help="Write program.s, or program.tcpa of an array, and the data that it names. [print the text]",
)
def disassemble(file: str, output: str | None) -> None:
    """Turn a FILE of binary words into assembly, which `assemble` turns into the same file again.

    It is the ELF file of instructions (docs/isa.md), or holds programs of an array (docs/tcpa-programs.md).
    """
    from tilewright.core.files import write_atomically

    files = disassembled(file)
    saving = Saving()
    if output is not None:
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        check_outputs([str(folder / name) for name in files], None, inputs=[file])
        for name, content in files.items():
            saving.save(str(folder / name), partial(write_atomically, folder / name, content))
    with printing():
        if output is None:
            click.echo(next(iter(files.values())).decode(), nl=False)
        elif saving.written:
            click.echo(f"written: {len(saving.written)} files in {output}")
    saving.finish()
