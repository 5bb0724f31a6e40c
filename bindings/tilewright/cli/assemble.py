"""``tilewright assemble``."""

from __future__ import annotations

import click

from tilewright.cli.outputs import Saving, check_outputs, printing
from tilewright.cli.programs import read_text


@click.command(short_help="Turn assembly into a program in binary words.")
@click.argument("file", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, metavar="FILE", help="The ELF file.")
def assemble(file: str, output: str) -> None:
    """Turn a FILE of assembly, with its data beside it, into an ELF file with instructions (docs/isa.md)."""
    from pathlib import Path

    from tilewright.codegen.isa import elf_bytes
    from tilewright.core.files import write_atomically

    check_outputs(output, None, inputs=[file])
    image = read_text(file)
    content = elf_bytes(image)
    saving = Saving()
    saving.save(output, lambda: write_atomically(Path(output), content))
    with printing():
        for path in saving.written:
            click.echo(f"written: {path}, {len(image.code):,} instructions in {len(image.words):,} words")
    saving.finish()
