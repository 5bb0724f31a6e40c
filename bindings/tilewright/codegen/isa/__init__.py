"""Instructions of a fusion plan as binary words: assembler, container, machine and checker (docs/isa.md)."""

from __future__ import annotations

from types import ModuleType

from tilewright.codegen.isa.assembly import assemble, data_of, disassemble
from tilewright.codegen.isa.banks import Banks
from tilewright.codegen.isa.checker import check, findings
from tilewright.codegen.isa.container import Image
from tilewright.codegen.isa.host_source import host_files
from tilewright.codegen.isa.machine import Executed, execute
from tilewright.codegen.isa.program import program_of
from tilewright.codegen.numbers.quantised_network import GivenNumbers
from tilewright.fusion import Plan, Problem
from tilewright.spec.errors import InputError

__all__ = [
    "Banks",
    "Executed",
    "Image",
    "assemble",
    "check",
    "data_of",
    "disassemble",
    "elf_bytes",
    "execute",
    "findings",
    "program_files",
    "program_of",
    "read_elf",
]


def elf_bytes(image: Image) -> bytes:
    """Return a program as an ELF file.

    Raises
    ------
    InputError
        For values that their fields do not hold, and where pyelftools is not installed.
    """
    content: bytes = _elf().elf_bytes(image)
    return content


def read_elf(data: bytes, file: str | None = None) -> Image:
    """Return the program in an ELF file.

    Raises
    ------
    InputError
        For what is no such file, and where pyelftools is not installed.
    """
    image: Image = _elf().read_elf(data, file)
    return image


def _elf() -> ModuleType:
    try:
        from tilewright.codegen.isa import elf  # for start-up time, and because it needs an extra
    except ImportError:
        raise InputError("pyelftools", None, "is not installed: pip install 'tilewright[isa]'") from None
    return elf


def program_files(
    problem: Problem, plan: Plan, seed: int, name: str, given: GivenNumbers | None = None
) -> dict[str, bytes]:
    """Return the files of a program, by their names: text with data, an ELF file, the host's part in C."""
    image = program_of(problem, plan, seed, name, given)
    return {
        "program.s": disassemble(image).encode(),
        "program.elf": elf_bytes(image),
        **data_of(image),
        **host_files(image),
    }
