"""Assemble and disassemble programs of arrays: ``python -m tilewright.codegen.array assemble TEXT WORDS``."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.codegen.array.assembly import assemble, disassemble
from tilewright.core.files import write_atomically
from tilewright.spec.errors import InputError


@click.command(name="python -m tilewright.codegen.array")
@click.argument("what", type=click.Choice(["assemble", "disassemble"]))
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def main(what: str, source: Path, target: Path) -> None:
    """Write the words of a program in assembly, or the assembly of its words."""
    try:
        if what == "assemble":
            write_atomically(target, assemble(source.read_text(encoding="utf-8"), str(source)))
        else:
            write_atomically(target, disassemble(source.read_bytes()))
    except (InputError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
