"""Every model of the catalogue begins with a plan that it is given: its solver says so, no worse is found."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from conftest import thinned
from formulations import need, solve
from tests.models import matrix

import tilewright as tw
from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.room import room_of
from tilewright.spec.errors import TilewrightError

MODELS = [
    (room, path)
    for room in catalogue.ROOMS
    for path in catalogue.models(room)
    if catalogue.bundled(path) and not catalogue.solves_itself(path)
]


def solver_of(path: Path) -> str:
    """Return the solver of ours that a model is written for."""
    return next(driver.name for driver in drivers.DRIVERS if driver.takes == catalogue.written_for(path))


def cells_of(room: str, path: Path) -> list[matrix.Cell]:
    """Return the rows of the matrix that name a model."""
    return [
        cell
        for cell in matrix.cells()
        if cell.room.partition(",")[0] == room and f"`{path.stem}`" in matrix.told(cell)
    ]


@lru_cache(maxsize=1024)
def dearest(room: str, place: int) -> Any:
    """Return the dearest plan that heuristics find for a row of the matrix, what `auto` finds without any."""
    problem = matrix.problem(matrix.cells()[place])
    plans = []
    for heuristic in catalogue.heuristics(room):
        try:
            plans.append(tw.solve(problem, heuristic, time_limit=3, confirm=False).plan)
        except TilewrightError:
            continue  # it does not take the problem
    valid = [plan for plan in plans if plan is not None and room_of(problem).violation(problem, plan) is None]
    if not valid:
        return tw.solve(problem, time_limit=20, confirm=False).plan
    return max(valid, key=lambda plan: int(room_of(problem).objective(problem, plan)))


@pytest.mark.parametrize(
    ("room", "path"), thinned(MODELS, 8), ids=lambda value: getattr(value, "stem", value)
)
def test_a_model_begins_with_a_start(room: str, path: Path) -> None:
    need(solver_of(path))
    cells = cells_of(room, path)
    assert cells
    for cell in thinned(cells, len(cells)):
        problem, start = matrix.problem(cell), dearest(room, matrix.cells().index(cell))
        plans: list[Any] = []
        # HiGHS only speaks of a start when its presolve has left something.
        options = {"presolve": "off"} if solver_of(path) == "highs" else None
        outcome = solve(
            problem, path, solver_of(path), options=options, start=start, on_plan=plans.append, seconds=300
        )
        assert outcome.warm_start is not None, cell
        objective = room_of(problem).objective
        first = objective(problem, plans[0])
        assert first <= objective(problem, start), cell
        if solver_of(path) == "gecode":
            assert outcome.warm_start.endswith(f"objective {first}"), cell


OTHERS = {".mzn": "minizinc:gecode", ".py": "pyomo:appsi_highs"}
"""Solvers that are driven as any that MiniZinc or Pyomo know."""

OTHER_CASES = [(room, path) for room, path in MODELS if catalogue.written_for(path) in OTHERS]


@pytest.mark.parametrize(
    ("room", "path"), thinned(OTHER_CASES, 16), ids=lambda value: getattr(value, "stem", value)
)
def test_a_start_arrives_at_any_solver(room: str, path: Path) -> None:
    """Through MiniZinc the start is the first incumbent; Pyomo hands it on, and nothing dearer is told."""
    form = catalogue.written_for(path)
    need(OTHERS[form])
    cell = cells_of(room, path)[0]
    problem, start = matrix.problem(cell), dearest(room, matrix.cells().index(cell))
    plans: list[Any] = []
    outcome = solve(problem, path, OTHERS[form], start=start, on_plan=plans.append, seconds=300)
    cost = room_of(problem).objective(problem, start)
    assert outcome.warm_start is not None
    assert ("only what costs less" if form == ".mzn" else "given to appsi_highs") in outcome.warm_start
    costs = [room_of(problem).objective(problem, plan) for plan in plans]
    assert costs[0] == cost if form == ".mzn" else costs[-1] <= cost
