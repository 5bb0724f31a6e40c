"""Whether what a known plan beats may be left out of a model's data, candidates and domains.

It may be in our own formulations, which look for the optimum of the problem as it is. A formulation of the
user's own may say more, and so may constraints of the problem, which no heuristic knows: then all that is no
worse than the known plan may be excluded, and nothing be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class _Solved(NamedTuple):
    """The model that is being solved: whether it is a user's own, and whether its problem has constraints."""

    foreign: bool = False
    constrained: bool = False


_solved: list[_Solved] = [_Solved()]
"""The innermost last; all threads of a process solve the same."""


@contextmanager
def of_model(*, foreign: bool, constrained: bool = False) -> Iterator[None]:
    """Solve a model in the block.

    Parameters
    ----------
    foreign
        Whether it is a formulation of the user's own, which may be of a narrower problem than it is given.
    constrained
        Whether the problem has constraints.
    """
    _solved.append(_Solved(foreign, constrained))
    try:
        yield
    finally:
        _solved.pop()


def narrow() -> bool:
    """Whether the model that is being solved may exclude plans that keep the limits: no known plan counts."""
    return any(_solved[-1])


def foreign() -> bool:
    """Whether the model that is being solved is of the user's own, so that it may exclude a valid plan."""
    return _solved[-1].foreign
