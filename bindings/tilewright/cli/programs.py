"""Reading of programs, which `assemble`, `disassemble` and `execute` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.codegen.isa import Image

ARRAY_SUFFIX = ".tcpa"
"""Of assembly with programs of an array."""

ELF = b"\x7fELF"
"""What an ELF file begins with."""

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

    return assemble(_decoded(path), read, path)


def read_array_text(path: str) -> bytes:
    """Return the words of an array's programs in a file of assembly."""
    from tilewright.codegen.array.assembly import assemble

    return assemble(_decoded(path), path)


def disassembled(path: str) -> dict[str, bytes]:
    """Return the assembly of binary words, and then the data that it names, by the names of files."""
    content = read_bytes(Path(path))
    if not content.startswith(ELF):
        from tilewright.codegen.array.assembly import disassemble as text_of_array

        try:
            return {f"program{ARRAY_SUFFIX}": text_of_array(content).encode()}
        except InputError as error:
            raise error.in_file(path) from None
    from tilewright.codegen.isa import data_of, disassemble, read_elf

    image = read_elf(content, path)
    return {"program.s": disassemble(image).encode(), **data_of(image)}


def _decoded(path: str) -> str:
    try:
        return read_bytes(Path(path)).decode()
    except UnicodeDecodeError as error:
        raise InputError("text", error.start, "is no UTF-8 from this byte on", path) from None
