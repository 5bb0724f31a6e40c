"""Files of buffers with a line for each: ``id,lower,upper,size``, as MiniMalloc has them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from tilewright.addresses.problem import LARGEST, MOST_BUFFERS
from tilewright.spec.errors import InputError, did_you_mean

COLUMNS = ("id", "lower", "upper", "size")

NUMBER = re.compile(r"[+-]?[0-9]{1,18}")

CAPACITY = re.compile(r"\.([0-9]{1,10})$")
"""What stands before a file's suffix if it tells the capacity: ``A.1048576.csv``."""


def table_of(text: str, path: Path) -> dict[str, Any]:
    """Return the tables of an instance from the text of a file of buffers.

    The capacity is the number before the suffix of the file's name; without one it is left open.

    Raises
    ------
    InputError
        Names the line and the column, what stands there, and what may.
    """
    lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    header = [cell.strip() for cell in lines[0]] if lines else []
    if not header:
        raise InputError("line 1", None, f"must name the columns {','.join(COLUMNS)}", str(path))
    for column in header:
        if column not in COLUMNS or header.count(column) > 1:
            told = did_you_mean(column, COLUMNS)
            limit = f"columns are {','.join(COLUMNS)}, each once{told}"
            raise InputError("line 1", column, limit, str(path))
    for column in COLUMNS:
        if column not in header:
            raise InputError(f"line 1: {column}", None, "this column is missing", str(path))
    buffers = []
    for number, cells in enumerate(lines[1:], start=2):
        if cells:
            buffers.append(_buffer(header, cells, f"line {number}", path))
    if not 1 <= len(buffers) <= MOST_BUFFERS:
        raise InputError("buffers", len(buffers), f"there must be 1 to {MOST_BUFFERS}", str(path))
    found: dict[str, Any] = {"room": "addresses", "name": path.stem, "buffers": buffers}
    capacity = CAPACITY.search(path.stem)
    if capacity is not None:
        found["memory"] = {"capacity": int(capacity[1])}
    return found


def _buffer(header: list[str], cells: list[str], where: str, path: Path) -> dict[str, Any]:
    if len(cells) != len(header):
        raise InputError(where, len(cells), f"must have {len(header)} columns", str(path))
    row: dict[str, Any] = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    for column in COLUMNS[1:]:
        if not NUMBER.fullmatch(row[column]):
            raise InputError(f"{where}: {column}", row[column], "must be an integer", str(path))
        row[column] = int(row[column])
    if row["lower"] < 0:
        raise InputError(f"{where}: lower", row["lower"], "must be 0 or more", str(path))
    if row["upper"] <= row["lower"]:
        raise InputError(f"{where}: upper", row["upper"], f"must be above lower, {row['lower']}", str(path))
    if not 1 <= row["size"] <= LARGEST:
        raise InputError(f"{where}: size", row["size"], f"must be from 1 to {LARGEST}", str(path))
    return row
