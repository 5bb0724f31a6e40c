"""A part of a plan that a model may change while the rest stays; see `tilewright.drivers.neighbourhoods`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple


class Neighbourhood(NamedTuple):
    """What a model may change of a plan.

    Attributes
    ----------
    plan
        The plan that is to be improved.
    free
        What may change, as the room's formulations number it; all else stays.
    """

    plan: Any
    free: frozenset[int]


_around: list[Neighbourhood] = []
"""The innermost last; all threads of a process solve the same."""


def neighbourhood() -> Neighbourhood | None:
    """Return what the model that is being built may change; None where that is everything."""
    return _around[-1] if _around else None


@contextmanager
def around(plan: Any, free: frozenset[int]) -> Iterator[None]:
    """Build and solve models in the block that change only a part of a plan."""
    _around.append(Neighbourhood(plan, free))
    try:
        yield
    finally:
        _around.pop()


Draw = Callable[[Any, Random, int], frozenset[int]]
"""Draws what may change of a plan: called with the plan, a random generator, and about how many."""


@dataclass(frozen=True)
class Sizes:
    """How large parts are.

    Attributes
    ----------
    least, most
        Things that may change.
    seconds
        How long a part may take. One that is solved sooner is followed by larger ones, one that is not by
        smaller ones.
    faster, slower
        Factors by which the size then changes.
    """

    least: int
    most: int
    seconds: float = 2.0
    faster: float = 1.1
    slower: float = 0.8
