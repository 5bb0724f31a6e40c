"""Files of buffers with a line for each: ``id,lower,upper,size``, as MiniMalloc has them.

Plans have a column more, ``offset``.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import LARGEST, MOST_ALIGNMENT, MOST_BUFFERS, Problem
from tilewright.core.files import read_text, without_apostrophe
from tilewright.spec.errors import InputError, did_you_mean

MAX_BYTES = 1_000_000
"""Largest file of buffers that is read."""

COLUMNS = ("id", "lower", "upper", "size")
"""What there must be."""

ALIGNMENT = "alignment"
"""A column that there may be."""

SPELT = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}
"""Other names of columns; ``end`` is the last time at which a buffer lives."""

NOT_TAKEN = {
    "offset": "buffers cannot have given offsets; leave this column out",
    "gaps": "buffers cannot have gaps in their lives; leave this column out",
}
"""Columns of MiniMalloc that would change the problem."""

NUMBER = re.compile(r"[+-]?[0-9]{1,18}")

CAPACITY = re.compile(r"\.([0-9]{1,10})$")
"""What stands before a file's suffix if it tells the capacity: ``A.1048576.csv``."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the tables of an instance in a file of buffers; see `table_of`."""
    return table_of(read_text(path, MAX_BYTES), path)


def table_of(text: str, path: Path) -> dict[str, Any]:
    """Return the tables of an instance from the text of a file of buffers.

    The capacity is the number before the suffix of the file's name; without one it is left open.

    Raises
    ------
    InputError
        Names the line and the column, what stands there, and what may.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}", None, f"is no CSV: {error}", str(path)) from None
    header = _header(rows[0] if rows else [], path)
    buffers, memory = [], dict[str, Any]()
    for number, cells in enumerate(rows[1:], start=2):
        if not cells:
            continue
        buffer = _buffer(header, cells, f"line {number}", path)
        alignment = buffer.pop(ALIGNMENT, None)
        if alignment is not None and memory.setdefault(ALIGNMENT, alignment) != alignment:
            limit = f"must be that of the lines before, {memory[ALIGNMENT]}: all buffers have the same"
            raise InputError(f"line {number}: {ALIGNMENT}", alignment, limit, str(path))
        buffers.append(buffer)
    if not 1 <= len(buffers) <= MOST_BUFFERS:
        raise InputError("buffers", len(buffers), f"there must be 1 to {MOST_BUFFERS}", str(path))
    found: dict[str, Any] = {"room": "addresses", "name": path.stem, "buffers": buffers}
    capacity = CAPACITY.search(path.stem)
    if capacity is not None:
        memory["capacity"] = int(capacity[1])
    return found | ({"memory": memory} if memory else {})


def lines(problem: Problem, plan: Plan) -> list[dict[str, Any]]:
    """Return the lines of a plan: those of a file of buffers, with the offset of each."""
    return [
        {column: getattr(buffer, column) for column in COLUMNS} | {"offset": offset}
        for buffer, offset in zip(problem.buffers, plan.offsets, strict=True)
    ]


def _header(cells: list[str], path: Path) -> dict[str, str]:
    """Return what each column is, by its name in the file."""
    spelt = [cell.strip() for cell in cells]
    if not spelt:
        raise InputError("line 1", None, f"must name the columns {','.join(COLUMNS)}", str(path))
    header: dict[str, str] = {}
    for name in spelt:
        if name in NOT_TAKEN:
            raise InputError("line 1", name, NOT_TAKEN[name], str(path))
        column = SPELT.get(name, name)
        if column not in (*COLUMNS, ALIGNMENT) or column in header.values():
            told = did_you_mean(name, (*COLUMNS, ALIGNMENT))
            limit = f"columns are {','.join(COLUMNS)}, each once, and perhaps {ALIGNMENT}{told}"
            raise InputError("line 1", name, limit, str(path))
        header[name] = column
    for column in COLUMNS:
        if column not in header.values():
            raise InputError(f"line 1: {column}", None, "this column is missing", str(path))
    return header


def _buffer(header: dict[str, str], cells: list[str], where: str, path: Path) -> dict[str, Any]:
    if len(cells) != len(header):
        raise InputError(where, len(cells), f"must have {len(header)} columns", str(path))
    row: dict[str, Any] = {}
    for (name, column), cell in zip(header.items(), cells, strict=True):
        row[column] = without_apostrophe(cell.strip())
        if column != "id":
            if not NUMBER.fullmatch(row[column]):
                raise InputError(f"{where}: {name}", row[column], "must be an integer", str(path))
            row[column] = int(row[column]) + (name == "end")
    if row["lower"] < 0:
        raise InputError(f"{where}: lower", row["lower"], "must be 0 or more", str(path))
    if row["upper"] <= row["lower"]:
        raise InputError(f"{where}: upper", row["upper"], f"must be above lower, {row['lower']}", str(path))
    for column, most in (("size", LARGEST), (ALIGNMENT, MOST_ALIGNMENT)):
        if not 1 <= row.get(column, 1) <= most:
            raise InputError(f"{where}: {column}", row[column], f"must be from 1 to {most}", str(path))
    return row
