"""Reading of programs of instructions, which `assemble`, `disassemble` and `execute` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.codegen.isa import Image

MOST_BYTES = 2**31
"""Most bytes of a program's file."""


def read_bytes(path: Path) -> bytes:
    """Return what a file holds.

    Raises
    ------
    InputError
        For a file that is too large.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError("file size", size, f"at most {MOST_BYTES} bytes", str(path))
    return path.read_bytes()


def read_program(path: str) -> Image:
    """Return the program in an ELF file."""
    from tilewright.codegen.isa import read_elf

    return read_elf(read_bytes(Path(path)), path)


def read_text(path: str) -> Image:
    """Return the program in a file of assembly, with the data that lie beside it."""
    from tilewright.codegen.isa import assemble

    folder = Path(path).parent

    def read(name: str) -> bytes:
        if name in ("", ".", "..") or Path(name).name != name:
            raise InputError("data", name, "must be the name of a file beside the program", path)
        return read_bytes(folder / name)

    try:
        text = read_bytes(Path(path)).decode()
    except UnicodeDecodeError as error:
        raise InputError("text", error.start, "is no UTF-8 from this byte on", path) from None
    return assemble(text, read, path)
