"""JSON files of others, read with suspicion: no key twice, no NaN, nothing too large or too deep."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from tilewright.core.files import exists, read_text
from tilewright.spec.errors import InputError

MAX_DEPTH = 40
"""Deepest nesting of tables and lists."""

_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def load(path: Path, max_bytes: int, max_commas: int | None = None) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Parameters
    ----------
    max_bytes
        Largest file.
    max_commas
        Most commas, which bounds the memory that the values take.

    Raises
    ------
    InputError
        If it is not there, too large, or no strict JSON; a byte order mark may begin it.
    """
    if not exists(path):
        raise InputError("result", str(path), "no such file")
    text = read_text(path, max_bytes)
    if max_commas is not None and text.count(",") > max_commas:
        limit = f"at most {max_commas} for a result of this instance"
        raise InputError("values in the file", text.count(","), limit, str(path))
    try:
        data = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_table
        )
        if _HALF_OF_A_PAIR.search(text):
            json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is no character
    except RecursionError:
        raise InputError("file", path.name, "is nested too deeply", str(path)) from None
    except ValueError as error:
        raise InputError("file", path.name, f"is not valid JSON: {str(error)[:200]}", str(path)) from None
    if not isinstance(data, dict):
        raise InputError("file", path.name, "must hold a JSON object", str(path))
    return data


def refuse_depth(field: str, value: Any, file: str | None) -> None:
    """Refuse what is nested so deeply that it cannot be compared or written again."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InputError(field, type(value).__name__, f"is nested deeper than {MAX_DEPTH}", file)
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} stands twice in one table")
    return table
