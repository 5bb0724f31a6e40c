"""Sizes of tiles that all kinds of machines share: the steps of a loop that differ, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tilewright.spec.errors import InputError

MAX_TILE = 2**31
"""Tile sizes stay below this."""


@lru_cache(maxsize=4096)
def even_steps(size: int) -> tuple[int, ...]:
    """Return the smallest step of a loop for each number of iterations that exists, ascending.

    A larger step with as many iterations is the same loop: ten columns in steps of nine are two of five.
    """
    steps, step = [], size
    while step >= 1:
        steps.append(even_step(size, step))
        step = steps[-1] - 1
    return tuple(reversed(steps))


def even_step(size: int, most: int) -> int:
    """Return the smallest step that needs no more iterations than one of up to `most`."""
    return -(-size // -(-size // min(size, most)))


def read_tile(data: Any, loops: str, file: str | None) -> tuple[int, ...]:
    """Read the tile of a plan in a result file: an object with a size for each loop.

    Raises
    ------
    InputError
        Where something is missing, or is no size.
    """
    if not (isinstance(data, dict) and set(data) == set(loops) and are_sizes(data.values(), MAX_TILE - 1)):
        raise InputError("plan.tile", data, f"must give a positive integer for each of {loops}", file)
    return tuple(data[loop] for loop in loops)


def are_sizes(values: Iterable[Any], most: int) -> bool:
    """Whether all values are whole numbers from 1 to `most`."""
    return all(type(value) is int and 1 <= value <= most for value in values)
