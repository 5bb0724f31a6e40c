"""``tilewright disassemble``."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.outputs import Saving, check_outputs, printing
from tilewright.cli.programs import read_program


@click.command(short_help="Turn a program in binary words into assembly.")
@click.argument("file", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default=None,
    metavar="FOLDER",
    help="Write program.s and the data that it names. [print the text]",
)
def disassemble(file: str, output: str | None) -> None:
    """Turn the ELF FILE of a program into assembly, which `assemble` turns into the same file again."""
    from tilewright.codegen.isa import data_of
    from tilewright.codegen.isa import disassemble as text_of
    from tilewright.core.files import write_atomically

    image = read_program(file)
    text = text_of(image)
    saving = Saving()
    if output is not None:
        folder = Path(output)
        files = {"program.s": text.encode(), **data_of(image)}
        folder.mkdir(parents=True, exist_ok=True)
        check_outputs([str(folder / name) for name in files], None, inputs=[file])
        for name, content in files.items():
            saving.save(
                str(folder / name),
                lambda name=name, content=content: write_atomically(folder / name, content),  # type: ignore[misc]
            )
    with printing():
        if output is None:
            click.echo(text, nl=False)
        elif saving.written:
            click.echo(f"written: {len(saving.written)} files in {output}")
    saving.finish()
