"""Every formulation of addresses: against the best of all orders of a few buffers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from formulations import check_agreement, core_text, methods, need, solve, with_each

sys.path.insert(0, str(Path(__file__).parents[1] / "addresses"))
from buffers_at_random import at_random, enumerated, problem_of

from tilewright.addresses import Problem, minizinc, objective, violation
from tilewright.addresses.greedy import by_size, place_in_order
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.addresses import canonical
from tilewright.run.instance import read
from tilewright.run.solve import solve as run
from tilewright.spec.errors import InputError, TilewrightError

FOLDER = Path(__file__).parents[2] / "models" / "addresses"
RECTANGLES = catalogue.model("addresses", "rectangles")


def random_case(seed: int) -> tuple[Problem, int]:
    """Return a problem, and its least height; every fourth problem has a capacity below that."""
    rng = np.random.default_rng(seed)
    lower, upper, size = at_random(rng, int(rng.integers(1, 7)))
    alignment = int(rng.choice([1, 1, 2, 3, 4]))
    least = enumerated(lower, upper, size, alignment)
    capacity = {0: {}, 1: {"capacity": least}, 2: {"capacity": least + 2}}
    lower_one = {"capacity": max(least - 1, int(size.max()))}
    memory = capacity.get(seed % 4, lower_one)
    return problem_of(lower, upper, size, alignment=alignment, **memory), least


SAMPLE = random_case(0)[0]
FOUND = methods(SAMPLE)


def test_there_are_formulations_of_all_kinds() -> None:
    assert {solver for _, solver in FOUND} == {"gecode", "highs", "cpsat"}


@pytest.mark.by_day(5)
@pytest.mark.parametrize("seed", range(examples(96)))
@with_each(FOUND)
def test_formulations_prove_the_least_height(seed: int, path: Path, solver: str) -> None:
    problem, least = random_case(seed)
    capacity = problem.memory.capacity
    expected = None if capacity is not None and capacity < least else least
    check_agreement(problem, path, solver, seed % 3 > 0, expected)


@pytest.mark.parametrize("seed", range(96, 96 + examples(1000, 6)))
def test_the_reference_model_and_the_search_prove_the_least_height(seed: int) -> None:
    problem, least = random_case(seed)
    capacity = problem.memory.capacity
    expected = None if capacity is not None and capacity < least else least
    for found in (solve(problem, RECTANGLES, "gecode"), canonical.solve(problem, RunContext())):
        assert (found.status, found.plan is None) == (
            ("infeasible", True) if expected is None else ("optimal", False)
        )
        if expected is not None:
            assert objective(problem, found.plan) == found.bound == expected
            assert violation(problem, found.plan) is None


@pytest.mark.by_day(7)
@pytest.mark.parametrize("seed", range(4))
@with_each(FOUND)
def test_a_start_arrives_whatever_its_offsets(seed: int, path: Path, solver: str) -> None:
    """Offsets of a start need be no multiples of what the formulation counts in, nor in any order."""
    need(solver)
    rng = np.random.default_rng(500 + seed)
    lower, upper, size = at_random(rng, 6)
    lower[1], upper[1], size[1] = lower[0], upper[0], size[0]
    problem = problem_of(lower, upper, 64 * size, alignment=4)
    low = place_in_order(problem, by_size(problem))
    start = type(low)(tuple(offset + 4 for offset in reversed_twins(low.offsets)))
    assert violation(problem, start) is None
    outcome = solve(problem, path, solver, start=start)
    assert outcome.status == "optimal"
    assert outcome.warm_start is not None
    assert outcome.bound == 64 * enumerated(lower, upper, size, 1)


def reversed_twins(offsets: tuple[int, ...]) -> tuple[int, ...]:
    """Return the offsets with the first two, which are equal buffers, so that the first one lies higher."""
    return (max(offsets[:2]), min(offsets[:2]), *offsets[2:])


# The models themselves -------------------------------------------------------------------------------------


@pytest.fixture
def run_checked(tmp_path: Path) -> Callable[..., str]:
    """Run a MiniZinc model with the room's checker."""
    need("gecode")

    def run_model(model: Path) -> str:
        told = {"start": [], "hint": False, "relax": 0, "below": 2**31 - 2}
        problem = problem_of(*at_random(np.random.default_rng(3), 5), alignment=2)
        (tmp_path / "data.json").write_text(json.dumps(minizinc.data(problem) | told))
        files = [FOLDER / "core.mzc.mzn", model, tmp_path / "data.json"]
        command = ["minizinc", "--solver", "gecode", "-a", *files]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    return run_model


def test_the_checker_accepts_what_is_right(run_checked: Callable[..., str]) -> None:
    shown = run_checked(FOLDER / "rectangles.mzn")
    assert "% CORRECT" in shown and "INCORRECT" not in shown and "==========" in shown


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("diffn(begin, place, long, units)", "true", "share addresses"),
        ("max(b in BUFFER)(", "min(b in BUFFER)(", "is not the height"),
    ],
)
def test_the_checker_refuses_what_is_wrong(
    right: str, wrong: str, told: str, run_checked: Callable[..., str], tmp_path: Path
) -> None:
    text = core_text(FOLDER)
    assert right in text
    (tmp_path / "core.mzn").write_text(text.replace(right, wrong))
    (tmp_path / "plain.mzn").write_text('include "core.mzn"; solve minimize objective;')
    shown = run_checked(tmp_path / "plain.mzn")
    assert "INCORRECT" in shown and told in shown


# What is too large -----------------------------------------------------------------------------------------


def test_sizes_with_a_common_divisor_are_small_numbers() -> None:
    """Sizes of the bundled instances are multiples of 1,024 addresses."""
    problem = read("minimalloc-d").problem
    for path in catalogue.models("addresses"):
        module = catalogue.formulation("addresses", path.stem)
        assert catalogue.suits(module, problem)
    given = minizinc.data(problem)
    assert (given["unit"], given["capacity"], minizinc.scale(problem)) == (1, 1024, (0, 1024))


def test_what_is_too_large_is_refused_with_the_limit() -> None:
    need("gecode")
    one = {"lower": 0, "upper": 1, "size": 1}
    crowd = Problem(buffers=[{"id": f"b{number}", **one} for number in range(800)])
    for name, solver, told in (
        ("rectangles.mzn", "gecode", "1279200 constraints .* 400000"),
        ("stacking.py", "highs", "640000 constraints .* 600000"),
    ):
        with pytest.raises(InputError, match=told):
            solve(crowd, FOLDER / name, solver)
    vast = Problem(buffers=[{"id": f"b{number}", **one, "size": 2**31 - 1 - number} for number in range(2)])
    for method, told in (
        ("rectangles@gecode", "or a problem of this size"),
        ("stacking@highs", "heights are up to 4,294,967,293 units .* at most 100,000"),
    ):
        with pytest.raises(TilewrightError, match=told):
            run(vast, method, warm_start="none", time_limit=20)
