"""``tilewright assemble``."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.outputs import Saving, check_outputs, printing
from tilewright.cli.programs import ARRAY_SUFFIX, read_array_text, read_text


@click.command(short_help="Turn assembly into a program in binary words.")
@click.argument("file", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, metavar="FILE", help="The binary program.")
def assemble(file: str, output: str) -> None:
    """Turn a FILE of assembly into binary words.

    Instructions of fused groups, with their data beside them, become an ELF file (docs/isa.md). A FILE.tcpa
    has programs of a processor array (docs/tcpa-programs.md).
    """
    from tilewright.core.files import write_atomically

    check_outputs(output, None, inputs=[file])
    if Path(file).suffix.lower() == ARRAY_SUFFIX:
        content = read_array_text(file)
        told = f"{len(content) // 8:,} words"
    else:
        from tilewright.codegen.isa import elf_bytes

        image = read_text(file)
        content = elf_bytes(image)
        told = f"{len(image.code):,} instructions in {len(image.words):,} words"
    saving = Saving()
    saving.save(output, lambda: write_atomically(Path(output), content))
    with printing():
        for path in saving.written:
            click.echo(f"written: {path}, {told}")
    saving.finish()
