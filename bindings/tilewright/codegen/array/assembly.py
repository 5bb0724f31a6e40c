"""The text of an array's program: a line for each record, its fields by name."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tilewright.codegen.array.words import FIELDS, TAILS, Field, Record, decode, encode, record
from tilewright.spec.errors import InputError

INDENTED = {"word": "    ", "unit": "        "}
"""What stands before a line that belongs to the one before; four spaces for all but those of `OUTER`."""

SHOWN = ("number", "row", "column", "layer")
"""Fields that are written where they are 0, too."""

OUTER = ("array", "layer", "order", "connect", "program", "reader", "writer")
"""Records that belong to no other one."""


def assemble(text: str, file: str | None = None) -> bytes:
    """Return the words of a program in assembly.

    A line is a kind and its fields as ``name=value``; those that are left out are 0. A semicolon begins a
    comment.

    Raises
    ------
    InputError
        For what is no record; names line, field, value and limit.
    """
    return encode(_records(text, file))


def disassemble(data: bytes) -> str:
    """Return the assembly of a program's words.

    Raises
    ------
    InputError
        For what are no words of a program.
    """
    return text_of(decode(data))


def text_of(records: Iterable[Record]) -> str:
    """Return the assembly of records; most fields that are 0 are left out."""
    return "".join(f"{_line(each)}\n" for each in records)


def _line(each: Record) -> str:
    indent = "" if each.kind in OUTER else INDENTED.get(each.kind, "    ")
    parts = [each.kind]
    for field, value in zip(FIELDS[each.kind], each.values, strict=True):
        if field.name == "count" and each.kind in TAILS:
            continue
        if value or field.name in SHOWN or (field.names and field.names[0] != "never"):
            parts.append(f"{field.name}={field.names[value] if field.names else value}")
    if each.kind == "layer":
        parts.append(f"name={json.dumps(bytes(each.tail).decode('utf-8', 'replace'))}")
    elif each.kind in TAILS:
        parts.append("pixels=" + ",".join(map(str, each.tail)))
    return indent + " ".join(parts)


def _records(text: str, file: str | None) -> Iterable[Record]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = _record(line)
        except InputError as error:
            raise InputError(f"line {number}: {error.field}", error.value, error.limit, file) from None
        if found is not None:
            yield found


def _record(line: str) -> Record | None:
    """Return the record of a line, None for an empty one."""
    name: str | None = None
    begin = line.find(' name="')
    if line.strip().startswith("layer") and begin >= 0:
        line, name = line[:begin], line[begin + len(" name=") :].strip()
    words = line.partition(";")[0].split()
    if not words:
        return None
    kind, *parts = words
    if kind not in FIELDS:
        raise InputError("record", kind, f"must be one of: {', '.join(FIELDS)}")
    fields = {field.name: field for field in FIELDS[kind] if not (kind in TAILS and field.name == "count")}
    values: dict[str, int] = {}
    tail: list[int] = []
    if name is not None:
        tail = [*_name(name)]
    for part in parts:
        key, sign, value = part.partition("=")
        if kind == "order" and key == "pixels":
            tail = [_number(Field("pixels", 32), each, kind) for each in value.split(",")]
            continue
        if key not in fields or not sign:
            raise InputError(kind, part, f"must be name=value of: {', '.join(fields)}")
        if key in values:
            raise InputError(f"{kind}.{key}", value, "is given twice")
        values[key] = _number(fields[key], value, kind)
    return record(kind, values, tail)


def _name(text: str) -> bytes:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, str):
        raise InputError("layer.name", text, "must be a string in double quotes")
    return found.encode()


def _number(field: Field, text: str, kind: str) -> int:
    if field.names:
        if text not in field.names:
            raise InputError(f"{kind}.{field.name}", text, f"must be one of: {', '.join(field.names)}")
        return field.names.index(text)
    least, most = field.range
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InputError(f"{kind}.{field.name}", text, f"must be an integer from {least} to {most}")
    value = int(text)
    if not least <= value <= most:
        raise InputError(f"{kind}.{field.name}", value, f"must be from {least} to {most}")
    return value
