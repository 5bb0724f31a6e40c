"""Assembly: a program as text, and text as a program.

A line is a directive, an instruction, or an operand of the instruction before it; ``#`` begins a comment.
Each field is written as ``name=value``; values that have names are written by them. Data lie in files beside
the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.codegen.isa.container import ROLES, Image, machine_of
from tilewright.codegen.isa.fields import Field, Layout, Values, fields_of
from tilewright.codegen.isa.instructions import (
    BY_NAME,
    HOST_NAMES,
    OPERANDS,
    PLANAR,
    Instruction,
    Operand,
    encode,
)
from tilewright.codegen.isa.layout import Tensor
from tilewright.fusion.machine import ENGINES
from tilewright.spec.errors import InputError

DATA = {"parameters": "parameters.bin", "input": "input.bin", "expected": "expected.bin"}
"""What a program has besides instructions, and the files beside it that hold them."""

FURTHER = "batches", "batches.bin"
"""The same of inputs of further batches, where there are any."""

_NUMBER = re.compile(r"-?(0x[0-9a-f]{1,16}|[0-9]{1,20})", re.IGNORECASE)
_WORDS = Field("", 32)
_FIELDS = {
    ".maps": (Field("address", 32), Field("bytes", 32)),
    ".planned": (Field("cycles", 63),),
}
"""Directives that have fields."""

_ONCE = (".program", ".machine", *_FIELDS, *(f".{kind}" for kind in DATA))
"""Directives that a text has once."""

Read = Callable[[str], bytes]
"""Returns what a file beside the text holds, by its name."""


# Disassembler -----------------------------------------------------------------------------------------------


def disassemble(image: Image) -> str:
    """Return a program as text, without its data."""
    return "\n".join([*_lines(image), ""])


def _lines(image: Image) -> Iterator[str]:
    yield f".program {json.dumps(image.name)}"
    yield f".machine {json.dumps(image.machine.model_dump(mode='json'))}"
    yield f".planned cycles={image.planned_cycles}"
    yield f".maps address={image.maps[0]:#x} bytes={image.maps[1]}"
    for kind, file in DATA.items():
        yield f'.{kind} "{file}"'
    if image.further:
        yield f'.{FURTHER[0]} "{FURTHER[1]}"'
    for tensor in image.tensors:
        channels, rows, columns = tensor.shape
        sizes = f"channels={channels} rows={rows} columns={columns}"
        place = f"address={tensor.address:#x} pixel={tensor.pixel}" + " planar=1" * tensor.planar
        yield f".tensor {tensor.role} {json.dumps(tensor.name)} {sizes} {place}"
    for section, instructions in ((".host", image.host), (".text", image.code)):
        yield section
        for instruction in instructions:
            yield from instruction_lines(instruction)


def instruction_lines(instruction: Instruction) -> Iterator[str]:
    """Yield the lines of an instruction and its operands."""
    words = [instruction.name]
    for name, engines in (("wait", instruction.wait), ("send", instruction.send)):
        if engines:
            words.append(f"{name}={','.join(engines)}")
    yield " ".join(["  ", *words, *_shown(instruction.form.body, instruction.values)])
    for operand in instruction.operands:
        yield " ".join(["    ", operand.role, *_shown(OPERANDS[operand.role], operand.values)])


def _shown(layout: Layout, values: Values) -> Iterator[str]:
    for each in fields_of(layout):
        value = values[each.name]
        if each.later and not value:
            continue
        shown = each.names[value] if each.names else hex(value) if each.name == "address" else str(value)
        yield f"{each.name}={shown}"


# Assembler --------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """An instruction whose operands are being read."""

    line: int
    name: str
    values: Mapping[str, int]
    wait: tuple[str, ...]
    send: tuple[str, ...]
    operands: list[Operand] = field(default_factory=list)


def assemble(text: str, read: Read, file: str | None = None) -> Image:
    """Return the program that text describes.

    Parameters
    ----------
    read
        Is asked for the data that the text names.
    file
        What errors call the text.

    Raises
    ------
    InputError
        Names the line, the field, its value and the limit.
    """
    return _Assembler(read, file).image(text)


class _Assembler:
    def __init__(self, read: Read, file: str | None) -> None:
        self._read, self._file = read, file
        self._line = 0
        self._said: dict[str, str] = {}
        self._fields: dict[str, dict[str, int]] = {}
        self._tensors: list[Tensor] = []
        self._sections: dict[str, list[Instruction]] = {".host": [], ".text": []}
        self._section: str | None = None
        self._open: _Open | None = None

    def image(self, text: str) -> Image:
        for self._line, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split() if not line.startswith(".") else [line]
            if not words:
                continue
            if line.startswith("."):
                self._close()
                self._directive(line)
            elif words[0] in OPERANDS:
                self._operand(words)
            else:
                self._close()
                self._instruction(words)
        self._close()
        return self._built()

    def _error(self, what: str, value: object, limit: str, line: int | None = None) -> InputError:
        return InputError(f"line {line or self._line}: {what}", value, limit, self._file)

    # Directives -----------------------------------------------------------------------------------------

    def _directive(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        name, rest = name.strip(), rest.strip()
        if name in self._sections:
            self._section = name
        elif name == ".tensor":
            self._tensor(rest)
        elif name in (*_ONCE, f".{FURTHER[0]}"):
            if name in self._said:
                raise self._error(name, None, "is given twice")
            self._said[name] = rest
            self._check_said(name, rest)
        else:
            raise self._error("directive", name, "is not known")

    def _check_said(self, name: str, rest: str) -> None:
        """Refuse what a directive cannot say, while its line is known."""
        if name == ".machine":
            try:
                machine_of(rest)
            except InputError as error:
                raise self._error(error.field, error.value, error.limit) from None
        elif name in _FIELDS:
            self._fields[name] = self._numbers(rest.split(), name, _FIELDS[name])
        else:
            self._quoted(rest, name)

    def _quoted(self, text: str, name: str) -> str:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, str) or "\0" in found:
            raise self._error(name, text, 'must be in quotes: "..."')
        return found

    def _tensor(self, rest: str) -> None:
        match = re.fullmatch(r'(\w+) ("(?:[^"\\]|\\.)*") (.*)', rest)
        if match is None or match[1] not in ROLES:
            limit = f"must be one of {', '.join(ROLES)}, a name in quotes, and fields"
            raise self._error(".tensor", rest, limit)
        name = self._quoted(match[2], ".tensor")
        names = ("channels", "rows", "columns", "address", "pixel")
        fields = [*(_WORDS._replace(name=one) for one in names), PLANAR]
        each = self._numbers(match[3].split(), ".tensor", fields)
        shape, planar = (each["channels"], each["rows"], each["columns"]), bool(each["planar"])
        self._tensors.append(Tensor(name, match[1], shape, each["address"], each["pixel"], planar))

    # Instructions ---------------------------------------------------------------------------------------

    def _instruction(self, words: Sequence[str]) -> None:
        name, *given = words
        form = BY_NAME.get(name)
        if form is None:
            raise self._error("instruction", name, f"must be one of: {', '.join(BY_NAME)}")
        if self._section != (".host" if name in HOST_NAMES else ".text"):
            raise self._error("instruction", name, "stands in the wrong section, or in none")
        orders: dict[str, tuple[str, ...]] = {"wait": (), "send": ()}
        left = []
        for word in given:
            key, _, value = word.partition("=")
            if key in orders:
                orders[key] = self._engines(f"{name}.{key}", value)
            else:
                left.append(word)
        values = self._numbers(left, name, list(fields_of(form.body)))
        self._open = _Open(self._line, name, values, orders["wait"], orders["send"])

    def _engines(self, where: str, text: str) -> tuple[str, ...]:
        found = text.split(",")
        if any(each not in ENGINES for each in found):
            raise self._error(where, text, f"must be some of: {', '.join(ENGINES)}")
        return tuple(engine for engine in ENGINES if engine in found)

    def _operand(self, words: Sequence[str]) -> None:
        role, *given = words
        if self._open is None:
            raise self._error("operand", role, "there is no instruction before it")
        where = f"{self._open.name}.{role}"
        self._open.operands.append(
            Operand(role, self._numbers(given, where, list(fields_of(OPERANDS[role]))))
        )

    def _numbers(self, words: Sequence[str], where: str, fields: Sequence[Field]) -> dict[str, int]:
        """Return the values of fields, each given once."""
        known, given = {each.name: each for each in fields}, {}
        for word in words:
            name, _, text = word.partition("=")
            if name not in known:
                raise self._error(f"{where}.{name}", None, f"is no field; there are: {', '.join(known)}")
            if name in given:
                raise self._error(f"{where}.{name}", text, "is given twice")
            given[name] = self._number(known[name], text, where)
        for name, each in known.items():
            if name not in given and not each.later:
                raise self._error(f"{where}.{name}", None, "is missing")
        return {name: given.get(name, 0) for name in known}

    def _number(self, each: Field, text: str, where: str) -> int:
        if each.names:
            if text not in each.names:
                raise self._error(f"{where}.{each.name}", text, f"must be one of: {', '.join(each.names)}")
            return each.names.index(text)
        if not _NUMBER.fullmatch(text):
            raise self._error(f"{where}.{each.name}", text, "must be an integer")
        value = int(text, 16 if "x" in text.lower() else 10)
        each.check(value, f"line {self._line}: {where}.", self._file)
        return value

    def _close(self) -> None:
        """Add the instruction whose operands have been read."""
        each, self._open = self._open, None
        if each is None:
            return
        asked = BY_NAME[each.name].roles(each.values)
        given = tuple(operand.role for operand in each.operands)
        if given != asked:
            limit = f"must be: {', '.join(asked) or 'none'}"
            raise self._error(f"{each.name}.operands", ", ".join(given), limit, each.line)
        made = Instruction(each.name, each.values, tuple(each.operands), each.wait, each.send)
        try:
            encode(made, f"line {each.line}: ")
        except InputError as error:
            raise (error.in_file(self._file) if self._file else error) from None
        assert self._section is not None
        self._sections[self._section].append(made)

    def _built(self) -> Image:
        for name in _ONCE:
            if name not in self._said:
                raise InputError(name, None, "is missing", self._file)
        maps = self._fields[".maps"]
        data = {kind: self._read(json.loads(self._said[f".{kind}"])) for kind in DATA}
        further = self._said.get(f".{FURTHER[0]}")
        image = Image(
            name=json.loads(self._said[".program"]),
            machine=machine_of(self._said[".machine"]),
            code=tuple(self._sections[".text"]),
            host=tuple(self._sections[".host"]),
            tensors=tuple(self._tensors),
            parameters=data["parameters"],
            inputs=data["input"],
            maps=(maps["address"], maps["bytes"]),
            expected=data["expected"],
            planned_cycles=self._fields[".planned"]["cycles"],
            further=self._read(json.loads(further)) if further else b"",
        )
        try:
            return image.checked()
        except InputError as error:
            raise (error.in_file(self._file) if self._file else error) from None


def data_of(image: Image) -> dict[str, bytes]:
    """Return the files that the text of a program names."""
    contents = {"parameters": image.parameters, "input": image.inputs, "expected": image.expected}
    further = {FURTHER[1]: image.further} if image.further else {}
    return further | {DATA[kind]: content for kind, content in contents.items()}
