"""Arrays of constants in C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lines = Iterator[str]


def array_lines(kind: str, name: str, values: NDArray[Any]) -> Lines:
    """Return an array of integers of a type."""
    yield f"static const {kind} {name}[{values.size}] = {{"
    yield from number_rows(values.reshape(-1).tolist(), "    ")
    yield "};"
    yield ""


def number_rows(values: Sequence[int], indent: str) -> Lines:
    """Return the numbers of an array, some in a line."""
    for first in range(0, len(values), 20):
        yield indent + ", ".join(map(integer, values[first : first + 20])) + ","


def integer(value: int) -> str:
    """Return a number as C has it; the least of 32 or 64 bits has no sign by itself."""
    if value in (-(2**31), -(2**63)):
        return f"({value + 1} - 1)"
    return str(value)


def real_lines(kind: str, name: str, values: NDArray[np.floating[Any]]) -> Lines:
    """Return an array of floats or doubles, exactly."""
    yield f"static const {kind} {name}[{values.size}] = {{"
    for value in values.tolist():
        yield f"    {single(value) if kind == 'float' else float(value).hex()},"
    yield "};"
    yield ""


def single(value: float) -> str:
    """Return a number of single precision as C has it, exactly."""
    return f"{float(np.float32(value)).hex()}f"
