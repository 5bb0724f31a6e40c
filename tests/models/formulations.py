"""What the tests of all rooms' formulations do alike: find them, run them, compare with enumeration."""

import importlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import thinned

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.drivers import DRIVERS


def room_of(problem: Any) -> str:
    return type(problem).__module__.split(".")[1]


def core_text(folder: Path) -> str:
    """Return a room's core.mzn in a form that can be written to another folder."""
    text = (folder / "core.mzn").read_text("utf-8")
    return text.replace("../search.mzn", str(folder.parent / "search.mzn"))


def methods(sample: Any) -> list[tuple[Path, str]]:
    """Return each formulation that takes problems like the sample, with each solver that takes it."""
    room = room_of(sample)
    return [
        (path, driver.name)
        for path in catalogue.models(room)
        for driver in DRIVERS
        if drivers.worth_trying(driver)
        and catalogue.written_for(path) == driver.takes
        and not catalogue.solves_itself(path)
        and catalogue.suits(catalogue.formulation(room, path.stem), sample)
    ]


def with_each(found: list[tuple[Path, str]]) -> pytest.MarkDecorator:
    """Parametrise a test by `path` and `solver`."""
    return pytest.mark.parametrize(("path", "solver"), found, ids=lambda value: getattr(value, "name", value))


def with_and_without_extras(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise a test by `name` and `extras`; without them every third case is enough, as a rule."""
    cases = [(name, True) for name in names] + [(name, False) for name in thinned(names, 3)]
    ids = [f"{name}-{'extras' if extras else 'plain'}" for name, extras in cases]
    return pytest.mark.parametrize(("name", "extras"), cases, ids=ids)


def need(solver: str) -> None:
    """Skip where a solver is missing, but never in continuous integration."""
    if not drivers.available(solver):
        assert not os.environ.get("CI"), f"{solver} must be installed in CI"
        pytest.skip(f"{solver} is not installed")


def solve(
    problem: Any,
    path: Path,
    solver: str,
    *,
    seconds: float = 600,
    extras: bool = True,
    options: Any = None,
    **search: Any,
) -> Outcome:
    """Run a formulation with a solver, which must be there in continuous integration."""
    need(solver)
    given = RunContext(**search)
    given.deadline = time.monotonic() + seconds
    more = {} if options is None else {"options": options}
    formulation = catalogue.formulation(room_of(problem), path.stem)
    found: Outcome = drivers.load(solver).solve(problem, formulation, given, extras=extras, **more)
    return found


def check_agreement(problem: Any, path: Path, solver: str, extras: bool, expected: int | None) -> None:
    """Check that a formulation proves the optimum, or that there is none, with a plan worth it."""
    bounds: list[int] = []
    room = importlib.import_module(f"tilewright.{room_of(problem)}")
    outcome = solve(problem, path, solver, extras=extras, on_bound=bounds.append)
    if expected is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    assert outcome.status == "optimal"
    assert room.objective(problem, outcome.plan) == outcome.bound == expected
    assert bounds == sorted(set(bounds))
    assert room.violation(problem, outcome.plan) is None
    report = room.simulate(problem, outcome.plan, numeric=True)
    assert report.violation is None
    assert report.numeric is True
    assert room.measured_objective(problem, report) == expected
