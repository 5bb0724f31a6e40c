"""Kernels say the same as Python and compiled."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.core import jit
from tilewright.core.context import RunContext
from tilewright.core.room import room_of
from tilewright.fusion.group.best_tile import best_tile
from tilewright.run.instance import read
from tilewright.run.methods import Listener, run_method
from tilewright.run.workers.warming import forget

SOLVED = [
    ("s1-example2", "beam"),
    ("s1-example2", "sweep"),
    ("s1-example2", "exact"),
    ("mnist-tcpa-placed", "snake"),
    ("mnist-tcpa-latency", "parametric"),
    ("mnist-tcpa-by-layer", "parametric"),
    ("lenet5-128-idsp", "exhaustive"),
    ("minimalloc-example", "canonical"),
    ("mlsys-example5", "ideals"),
    ("resnet8-64k", "states"),
]


def solved(name: str, method: str) -> tuple[str, int, int | None]:
    """Return how a method ends, what its last plan costs, and its last bound."""
    plans: list[Any] = []
    bounds: list[int] = []
    context = RunContext(
        on_plan=plans.append,
        on_bound=lambda bound, _grounds=None: bounds.append(bound),
    )
    forget()
    problem = read(name).problem
    outcome = run_method(method, problem, context, Listener(print))
    best = room_of(problem).objective(problem, plans[-1])
    return outcome.status, best, max(bounds, default=None)


@pytest.mark.parametrize(("name", "method"), SOLVED)
def test_methods_find_the_same_uncompiled(name: str, method: str) -> None:
    with jit.uncompiled():
        as_python = solved(name, method)
    assert as_python == solved(name, method)


def test_tiles_of_groups_are_the_same_uncompiled() -> None:
    problem = read("squeezenet-fire").problem
    forget()
    with jit.uncompiled():
        as_python = best_tile(problem, (0,))
    forget()
    assert as_python == best_tile(problem, (0,)) is not as_python
