"""Whether what a known plan beats may be left out of a model's data, candidates and domains.

It may be in our own formulations, which look for the optimum of the problem as it is. A formulation of the
user's own may say more: then all that is no worse than the known plan may be excluded, and nothing be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_narrow: list[bool] = [False]
"""Of the models that are being solved, the innermost last; all threads of a process solve the same."""


@contextmanager
def of_model(*, narrow: bool) -> Iterator[None]:
    """Solve a model in the block, which may be of a narrower problem than it is given."""
    _narrow.append(narrow)
    try:
        yield
    finally:
        _narrow.pop()


def narrow() -> bool:
    """Whether the model that is being solved may be of a narrower problem, so that no known plan counts."""
    return _narrow[-1]
