"""Shared fixtures: problems small enough to reason about, and the command line as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# One worker is on each core: threads of matrix products would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings
from tests import command

from tilewright.core.measures import counted
from tilewright.grouping import Problem
from tilewright.run.workers import compiling
from tilewright.simulator import Report
from tilewright.spec.errors import InputError, shown_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]

THOROUGH = False
"""Whether all cases and seeds are tried: with ``-m nightly``, as `pytest_configure` finds."""


def totals(report: Report) -> dict[str, Any]:
    """Return all counts and times of a report, and whether it is valid, to compare two of them."""
    return counted(report) | {"verdict": report.verdict(), "most_loads": report.most_loads}


def examples(number: int, by_day: int | None = None) -> int:
    """Return how many examples a test tries that is to try a number of them with ``-m nightly``."""
    few = max(4, number // 16) if by_day is None else by_day
    return number if THOROUGH else few


nightly = pytest.mark.nightly
"""For tests that take long or hold what seldom changes: commands of the docs, peers, a stored theorem."""


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the first of every few cases, all of them with ``-m nightly``."""
    return list(cases)[:: 1 if THOROUGH else every]


def in_turn(choices: Sequence[str], number: int) -> Sequence[str]:
    """Return the choice whose turn it is in the test of some number, all of them with ``-m nightly``."""
    return choices if THOROUGH else [choices[number % len(choices)]]


# A shell that runs the tests in the background lets all processes ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Find whether the run is thorough; compile all kernels before each of several workers would."""
    global THOROUGH
    THOROUGH = config.option.markexpr == "nightly"
    settings.register_profile(
        "tilewright",
        max_examples=examples(100),
        deadline=None,
        derandomize=not THOROUGH,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("tilewright")
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        compiling.ensure(compiling.all_units(), print)


def pytest_xdist_auto_num_workers() -> int:
    """Run two tests more at a time than there are processors, since many wait for processes and deadlines."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select all tests with ``-m nightly``, else the cases for the day; let workers begin with slow tests."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("by_day")
        many = marker.args[0] if marker is not None else len(of_one)
        for number, item in enumerate(of_one):
            # As far apart as they can be.
            if THOROUGH or (number * many // len(of_one) == (number - 1) * many // len(of_one)):
                item.add_marker(nightly)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def make_problem(
    layer: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    objective: dict[str, Any] | None = None,
) -> Problem:
    """Build a grouping problem; by default the layer of the S1 paper's examples, two patches a step."""
    return Problem.model_validate(
        {
            "layer": {"input": [2, 5, 5], "kernels": 2, "kernel": [3, 3]} | (layer or {}),
            "machine": machine or {"group_size": 2},
            "limits": limits or {},
            "objective": objective or {},
        }
    )


@contextmanager
def processor_time(limit: float) -> Iterator[None]:
    """Fail where a block takes more seconds of the processor, in this process and those that it has ended.

    Beside other work it takes as many of them, but longer by the clock.
    """
    began = sum(os.times()[:4])
    yield
    spent = sum(os.times()[:4]) - began
    assert spent < limit, f"took {spent:.1f} s of the processor, at most {limit:g} s were expected"


def tells(message: object, *parts: object) -> bool:
    """Whether a message tells names and numbers one after the other, in whatever words.

    A part is found whole: 5 is not told by 50, 1,5 or 5.2, nor `kernel` by `kernels`. In a part, `` .. ``
    stands for any words.
    """
    named = (each for part in parts for each in str(part).split(" .. "))
    found = (rf"(?<!\w)(?<!\d[.,]){re.escape(each)}(?!\w)(?![.,]\d)" for each in named)
    return re.search(".*?".join(found), str(message), re.DOTALL) is not None


@contextmanager
def refused(field: str, value: Any, *limit: object, file: object = None) -> Iterator[None]:
    """Expect an error with what users rely on: the field, the value that stood there, the limit, the file.

    Of the limit, parts are given, as `tells` takes them. Where the value is None, the message tells none.
    """
    with pytest.raises(InputError) as caught:
        yield
    error = caught.value
    assert (error.field, error.value) == (field, value)
    assert limit and tells(error.limit, *limit), error.limit
    shown = [] if value is None else [shown_value(value)]
    assert tells(error, *([] if file is None else [file]), field, *shown, *limit), str(error)


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tilewright_process(tmp_path: Path) -> Run:
    """Run the command line in a folder and a process of its own."""

    def run(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tilewright", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def tilewright(tmp_path: Path) -> Run:
    """Run the command line in a folder of its own, but in this process, which has imported everything."""
    return partial(command.run, tmp_path)


SOLVED: dict[tuple[Any, ...], tuple[str, str]] = {}


@pytest.fixture
def solved(tilewright: Run, tmp_path: Path) -> Callable[..., Any]:
    """Solve an instance that stands in the folder; what a test before has solved is not solved again."""

    def solve(name: str, *arguments: str) -> Any:
        files = sorted((path.name, path.read_text()) for path in tmp_path.glob("*.toml"))
        key = (name, *arguments, *files)
        if key not in SOLVED:
            done = tilewright("solve", name, "-o", "result.json", "--json", *arguments)
            assert done.returncode == 0, done.stderr
            SOLVED[key] = done.stdout, (tmp_path / "result.json").read_text()
        said, result = SOLVED[key]
        (tmp_path / "result.json").write_text(result)
        return json.loads(said)

    return solve


@pytest.fixture
def new_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """List the figures that a test makes through pyplot, without a display; they are closed when it ends."""
    import matplotlib
    from matplotlib import pyplot

    monkeypatch.setitem(matplotlib.rcParams, "backend", "agg")
    figures: list[Figure] = []
    make = pyplot.figure

    def figure(*args: Any, **keywords: Any) -> Figure:
        figures.append(make(*args, **keywords))
        return figures[-1]

    monkeypatch.setattr(pyplot, "figure", figure)
    yield figures
    for made in figures:
        pyplot.close(made)
