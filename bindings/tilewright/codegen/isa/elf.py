"""A program in a file: an ELF that `readelf` shows.

pyelftools reads ELF; what writes it here are its descriptions of headers, which also build them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.construct import Container
from elftools.elf.elffile import ELFFile
from elftools.elf.structs import ELFStructs

from tilewright.codegen.isa.container import ROLES, Image, machine_of, table_of
from tilewright.codegen.isa.fields import WORD_BYTES
from tilewright.codegen.isa.instructions import decode_all
from tilewright.codegen.isa.layout import ALIGNMENT, Tensor
from tilewright.spec.errors import InputError

SECTIONS = (
    ".parameters",
    ".input",
    ".maps",
    ".text",
    ".host",
    ".tensors",
    ".expected",
    ".machine",
    ".program",
    ".batches",
)
"""Sections of a program, in their order; tables of symbols and strings follow."""

STRUCTS = ELFStructs(little_endian=True, elfclass=32)
STRUCTS.create_basic_structs()
STRUCTS.create_advanced_structs("ET_EXEC", "EM_NONE", "ELFOSABI_SYSV")

_WRITE, _ALLOC, _EXEC = 1, 2, 4
_FLAGS = {".parameters": _ALLOC, ".input": _ALLOC, ".maps": _ALLOC | _WRITE, ".text": _ALLOC | _EXEC}
_TENSOR_WORDS = 6
_PLANAR = 1 << 8  # in the word of the role


class _Strings:
    """A table of strings."""

    def __init__(self) -> None:
        self.data = b"\0"

    def place(self, text: str) -> int:
        """Return where a string begins, which is added."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def elf_bytes(image: Image) -> bytes:
    """Return a program as an ELF file.

    Raises
    ------
    InputError
        For values that their fields do not hold.
    """
    image.checked()
    contents = {
        ".parameters": image.parameters,
        ".input": image.inputs,
        ".text": _packed(image.words),
        ".host": _packed(image.host_words),
        ".tensors": _packed([word for each in image.tensors for word in _tensor_words(each)]),
        ".expected": image.expected,
        ".batches": image.further,
        ".machine": json.dumps(image.machine.model_dump(mode="json")).encode(),
        ".program": json.dumps({"name": image.name, "planned_cycles": image.planned_cycles}).encode(),
    }
    addresses = {
        ".parameters": 0,
        ".input": len(image.parameters),
        ".maps": image.maps[0],
        ".text": image.code_address,
    }
    strings, symbols = _Strings(), _Symbols()
    for tensor in image.tensors:
        symbols.add(tensor.name, tensor.address, image.machine.arrays * tensor.image, _home(image, tensor))
    contents[".symtab"], contents[".strtab"] = symbols.data, symbols.strings.data
    names = {name: strings.place(name) for name in (*SECTIONS, ".symtab", ".strtab", ".shstrtab")}
    contents[".shstrtab"] = strings.data
    segments = len(_FLAGS)
    offset = STRUCTS.Elf_Ehdr.sizeof() + segments * STRUCTS.Elf_Phdr.sizeof()
    body, headers, programs = bytearray(), [_section(0, "SHT_NULL")], []
    for name, at in names.items():
        content = contents.get(name, b"")
        body += bytes(-(offset + len(body)) % ALIGNMENT)
        place, size = offset + len(body), image.maps[1] if name == ".maps" else len(content)
        kind = {".maps": "SHT_NOBITS", ".symtab": "SHT_SYMTAB", ".strtab": "SHT_STRTAB"}.get(name)
        kind = kind or ("SHT_STRTAB" if name == ".shstrtab" else "SHT_PROGBITS")
        more = {"sh_flags": _FLAGS.get(name, 0), "sh_addr": addresses.get(name, 0), "sh_addralign": ALIGNMENT}
        if name == ".symtab":
            more |= {"sh_link": 1 + list(names).index(".strtab"), "sh_info": 1}
            more["sh_entsize"] = STRUCTS.Elf_Sym.sizeof()
        headers.append(_section(at, kind, sh_offset=place, sh_size=size, **more))
        if name in _FLAGS:
            programs.append(_segment(_FLAGS[name], place, addresses[name], len(content), size))
        body += content
    body += bytes(-(offset + len(body)) % ALIGNMENT)
    head = _file_header(image.code_address, offset + len(body), segments, len(headers))
    return b"".join([head, *programs, bytes(body), *headers])


def _packed(words: Sequence[int]) -> bytes:
    return np.array(words, dtype="<u4").tobytes()


def _home(image: Image, tensor: Tensor) -> int:
    """Return the number of the section that a map lies in."""
    name = ".input" if tensor.address < image.maps[0] else ".maps"
    return 1 + SECTIONS.index(name)


class _Symbols:
    """A table of symbols: a map each."""

    def __init__(self) -> None:
        self.strings = _Strings()
        self.data: bytes = self._entry(0, 0, 0, "STB_LOCAL", "STT_NOTYPE", "SHN_UNDEF")

    def add(self, name: str, address: int, size: int, section: int) -> None:
        self.data += self._entry(self.strings.place(name), address, size, "STB_GLOBAL", "STT_OBJECT", section)

    def _entry(self, name: int, value: int, size: int, bind: str, kind: str, section: object) -> bytes:
        info = Container(bind=bind, type=kind)
        other = Container(local=0, visibility="STV_DEFAULT")
        fields = {"st_name": name, "st_value": value, "st_size": size, "st_shndx": section}
        built: bytes = STRUCTS.Elf_Sym.build(Container(st_info=info, st_other=other, **fields))
        return built


def _section(name: int, kind: str, **fields: int) -> bytes:
    empty = dict.fromkeys(
        ("sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize"), 0
    )
    built: bytes = STRUCTS.Elf_Shdr.build(Container(sh_name=name, sh_type=kind, **(empty | fields)))
    return built


def _segment(flags: int, offset: int, address: int, size: int, memory: int) -> bytes:
    readable = 4 | (flags & _EXEC and 1) | (flags & _WRITE and 2)
    fields = {"p_offset": offset, "p_vaddr": address, "p_paddr": address, "p_filesz": size, "p_memsz": memory}
    built: bytes = STRUCTS.Elf_Phdr.build(
        Container(p_type="PT_LOAD", p_flags=readable, p_align=ALIGNMENT, **fields)
    )
    return built


def _file_header(entry: int, sections: int, segments: int, count: int) -> bytes:
    ident = Container(
        EI_MAG=[0x7F, 0x45, 0x4C, 0x46],
        EI_CLASS="ELFCLASS32",
        EI_DATA="ELFDATA2LSB",
        EI_VERSION="EV_CURRENT",
        EI_OSABI="ELFOSABI_SYSV",
        EI_ABIVERSION=0,
    )
    built: bytes = STRUCTS.Elf_Ehdr.build(
        Container(
            e_ident=ident,
            e_type="ET_EXEC",
            e_machine="EM_NONE",
            e_version="EV_CURRENT",
            e_entry=entry,
            e_phoff=STRUCTS.Elf_Ehdr.sizeof(),
            e_shoff=sections,
            e_flags=0,
            e_ehsize=STRUCTS.Elf_Ehdr.sizeof(),
            e_phentsize=STRUCTS.Elf_Phdr.sizeof(),
            e_phnum=segments,
            e_shentsize=STRUCTS.Elf_Shdr.sizeof(),
            e_shnum=count,
            e_shstrndx=count - 1,
        )
    )
    return built


def read_elf(data: bytes, file: str | None = None) -> Image:
    """Return the program in an ELF file.

    Raises
    ------
    InputError
        For what is no such file; names what is wrong.
    """
    try:
        found = ELFFile(BytesIO(data))
        sections = {section.name: section for section in found.iter_sections()}
        asked = (name for name in (*SECTIONS, ".symtab") if name != ".batches")  # which came later
        missing = next((name for name in asked if name not in sections), None)
        if missing is not None:
            raise InputError("sections", missing, "is missing: this is no program of tilewright", file)
        contents = {
            name: bytes(sections[name].data()) if name in sections and name != ".maps" else b""
            for name in SECTIONS
        }
        names = [symbol.name for symbol in sections[".symtab"].iter_symbols()][1:]
        begin = sections[".maps"]["sh_addr"], sections[".maps"]["sh_size"]
    except InputError:
        raise
    except (
        ELFError,
        UnicodeDecodeError,
        KeyError,
        ValueError,
        AttributeError,
        TypeError,
        OverflowError,
    ) as error:
        raise InputError("ELF", str(error) or type(error).__name__, "cannot be read", file) from None
    try:
        return _image(contents, names, begin)
    except InputError as error:
        raise (error.in_file(file) if file else error) from None


def _image(contents: Mapping[str, bytes], names: Sequence[str], maps: tuple[int, int]) -> Image:
    rows = _words(contents, ".tensors")
    if len(rows) != _TENSOR_WORDS * len(names):
        raise InputError(".tensors", len(rows), f"has {_TENSOR_WORDS} words for each of {len(names)} symbols")
    tensors = [
        _tensor(name, rows[at : at + _TENSOR_WORDS])
        for name, at in zip(names, range(0, len(rows), _TENSOR_WORDS), strict=True)
    ]
    told = table_of(contents[".program"], ".program")
    name, planned = told.get("name"), told.get("planned_cycles")
    if not isinstance(name, str) or type(planned) is not int:
        raise InputError(".program", told, "must have a name and planned_cycles")
    return Image(
        name=name,
        machine=machine_of(contents[".machine"]),
        code=tuple(decode_all(_words(contents, ".text"), ".text ")),
        host=tuple(decode_all(_words(contents, ".host"), ".host ", host=True)),
        tensors=tuple(tensors),
        parameters=contents[".parameters"],
        inputs=contents[".input"],
        maps=maps,
        expected=contents[".expected"],
        planned_cycles=planned,
        further=contents[".batches"],
    ).checked()


def _words(contents: Mapping[str, bytes], name: str) -> list[int]:
    data = contents[name]
    if len(data) % WORD_BYTES:
        raise InputError(name, len(data), f"must be words of {WORD_BYTES} bytes")
    words: list[int] = np.frombuffer(data, dtype="<u4").tolist()
    return words


def _tensor_words(tensor: Tensor) -> list[int]:
    role = ROLES.index(tensor.role) + (_PLANAR if tensor.planar else 0)
    return [role, *tensor.shape, tensor.address, tensor.pixel]


def _tensor(name: str, words: Sequence[int]) -> Tensor:
    told, channels, rows, columns, address, pixel = words
    role, planar = told & ~_PLANAR, bool(told & _PLANAR)
    if role >= len(ROLES):
        raise InputError(f"tensor {name}.role", role, f"must be from 0 to {len(ROLES) - 1}")
    return Tensor(name, ROLES[role], (channels, rows, columns), address, pixel, planar)
