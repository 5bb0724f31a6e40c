"""Kernels say the same as Python and compiled."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.core import jit
from tilewright.core.context import RunContext
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


def solved(name: str, method: str) -> tuple[str, Any, int | None]:
    """Return how a method ends, its last plan and its last bound."""
    plans: list[Any] = []
    bounds: list[int] = []
    context = RunContext(
        on_plan=lambda plan: plans.append(plan.to_json()),
        on_bound=lambda bound, _grounds=None: bounds.append(bound),
    )
    forget()
    outcome = run_method(method, read(name).problem, context, Listener(print))
    return outcome.status, plans[-1], max(bounds, default=None)


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
