"""docs/models.md tells the truth: each formulation that a row names has solved its problem, and no other."""

from __future__ import annotations

import re

import pytest
from conftest import thinned
from formulations import need
from tests.models import matrix

import tilewright as tw
from tilewright.core import catalogue

CELLS = matrix.cells()


@pytest.mark.parametrize("cell", thinned(CELLS, 40), ids=lambda cell: " ".join(cell[:3]))
def test_the_page_names_the_models_that_solve_a_row(cell: matrix.Cell) -> None:
    need("gecode")
    pytest.importorskip("ortools")
    assert matrix.line(cell, matrix.solved_by(cell)) == matrix.told(cell)


NOT_IN_MINIZINC = [("residency", "memory", "without DRAM")]
"""Memory counts by size: that is a bound, and MiniZinc's driver takes objectives of plans alone."""


def test_every_objective_and_limit_has_a_model_in_minizinc() -> None:
    assert [cell[:3] for cell in CELLS if not _minizinc(matrix.told(cell))] == NOT_IN_MINIZINC


def test_every_objective_of_a_problem_has_a_row() -> None:
    found = {(cell.room.partition(",")[0], cell.objective) for cell in CELLS}
    for cell in CELLS:
        names = set(getattr(matrix.problem(cell), "objectives", {})) - {"pareto", "capacity"}
        names = {name for name in names if not name.startswith("traffic_of(")}  # no model knows memories
        assert {(cell.room.partition(",")[0], name) for name in names} <= found


def _minizinc(line: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", line.split("|")[4]) if line else []


TOO_MUCH = {
    "tiling": ("alexnet-conv3-64k", "reference.dsp", "smallest tiles, the model takes 400"),
    "grouping": ("lenet5-conv1-g4", "reference", "the layer has 784 patches, the model takes 64"),
    "residency": ("mb28-64k", "reference", "pixels, the model takes 64"),
    "fusion": ("light_resnet50", "reference", "constraints are needed, 60,000 are written at most"),
}


@pytest.mark.parametrize("room", TOO_MUCH)
def test_a_model_gives_one_reason_with_its_number(room: str) -> None:
    name, model, reason = TOO_MUCH[room]
    problem = tw.read(name).problem
    path = catalogue.formulation(room, model)
    assert not catalogue.suits(path, problem)
    assert reason in catalogue.why_not(path, problem)
