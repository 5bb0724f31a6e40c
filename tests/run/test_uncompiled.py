"""Kernels say the same as Python and compiled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.core import jit
from tilewright.core.context import RunContext
from tilewright.core.room import room_of
from tilewright.fusion.group.best_tile import best_tile
from tilewright.run.instance import read
from tilewright.run.methods import Listener, run_method
from tilewright.run.solving import uncompiled
from tilewright.run.verify import check
from tilewright.run.workers import compiling
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


@pytest.fixture
def nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling._COMPILER.stop()  # what a test before this one has begun, into another folder
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "_given_up", set())


@pytest.mark.usefixtures("nothing_compiled")
def test_a_small_plan_is_checked_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = read("minimalloc-example")
    result = tw.solve(instance)
    monkeypatch.setattr(uncompiled, "HEAD_START_SECONDS", 100.0)
    told: list[str] = []
    findings = check(instance, result, on_compile=told.append)
    assert {finding.state for finding in findings} <= {"verified", "told"} and not told
    assert compiling.missing(compiling.units("addresses", []))


@pytest.mark.nightly
@pytest.mark.usefixtures("nothing_compiled")
def test_what_is_compiled_meanwhile_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncompiled, "HEAD_START_SECONDS", 0.0)
    told: list[str] = []
    with uncompiled.until_compiled("addresses", read("minimalloc-example").problem, told.append) as as_python:
        assert as_python and jit.runs_uncompiled()
        until = time.monotonic() + 300
        while jit.runs_uncompiled():
            assert time.monotonic() < until
            time.sleep(0.1)
    assert len(told) == 1 and not compiling.missing(compiling.units("addresses", []))
