"""``minizinc core.mzn small.dzn`` runs from a shell, and finds what the package says is the optimum."""

from __future__ import annotations

import re
import subprocess

import pytest
from formulations import need
from small_data import MODELS, SMALL, formulations, problem, text

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.room import bridge_of

WITH_EACH = pytest.mark.parametrize("key", SMALL, ids="/".join)


def run(folder: str, model: str, file: str) -> str:
    need("gecode")
    command = ["minizinc", "--solver", "gecode", f"{model}.mzn", file]
    done = subprocess.run(command, cwd=MODELS / folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_formulation_has_small_data() -> None:
    assert {(room, formulation) for room, formulation, _ in SMALL} == set(formulations())


@WITH_EACH
def test_small_data_are_those_of_their_problem(key: tuple[str, str, str]) -> None:
    """``python -m tests.models.small_data`` writes them anew."""
    assert (MODELS / key[0] / key[2]).read_text("utf-8") == text(*key)


@pytest.mark.by_day(5)
@WITH_EACH
def test_a_formulation_finds_the_optimum_from_a_shell(key: tuple[str, str, str]) -> None:
    given = problem(*key)
    told = run(*key)
    assert "==========" in told
    offset, unit = bridge_of(given, catalogue.model(key[0], key[1])).scale(given)
    objective = int(re.findall(r"objective (\d+)", told)[-1])
    assert offset + unit * objective == tw.solve(given, time_limit=60).objective


@pytest.mark.by_day(2)
@pytest.mark.parametrize("key", [key for key in SMALL if "reference" not in key[1]], ids="/".join)
def test_a_core_model_finds_a_plan_from_a_shell(key: tuple[str, str, str]) -> None:
    room, _, file = key
    core = "regions" if file == "small.regions.dzn" else file.replace("small", "core").removesuffix(".dzn")
    assert "----------" in run(room, core, file)
