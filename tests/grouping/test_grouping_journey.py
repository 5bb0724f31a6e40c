"""The room grouping from a problem to a picture: six patches in three steps.

A plane of 4 x 5 pixels, a kernel of 3 x 3: two rows of three patches. A patch has 9 pixels, two neighbours
12. What the step before has loaded is there. By hand, with the patches row by row::

    zigzag   00 01 | 02 12 | 11 10     12 + 6 + 6 pixels are loaded
    optimum  00 01 | 02 10 | 11 12     12 + 6 + 2: 20, and there are 20 pixels, so that none is loaded twice
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from conftest import refused

import tilewright as tw

PROBLEM = tw.GroupingProblem(
    layer=tw.Layer(input=(1, 4, 5), kernels=1, kernel=3),
    machine=tw.GroupingMachine(group_size=2),
    limits=tw.GroupingLimits(steps="kmin"),  # as few steps as groups of two patches allow: three
)


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "exact")


def test_a_heuristic_loads_pixels_twice() -> None:
    result = tw.solve(PROBLEM, "zigzag")
    assert result.plan.groups == (((0, 0), (0, 1)), ((0, 2), (1, 2)), ((1, 0), (1, 1)))
    assert result.status == "feasible"
    # The objective: a cycle for each element that is loaded, and one for what each step computes.
    assert (result.objective, result.bound) == (24 + 3, 20 + 3)


def test_a_plan_made_by_hand_is_simulated() -> None:
    plan = tw.GroupingPlan(groups=(((0, 0), (0, 1)), ((0, 2), (1, 0)), ((1, 1), (1, 2))))
    report = tw.simulate(PROBLEM, plan, numeric=True)
    assert report.valid and report.numeric  # six sums of nine products each, as the layer defines them
    assert [step["loaded"].get("input", 0) for step in report.per_step()] == [12, 6, 2, 0]
    assert report.measures.loaded_elements == {"input": 20}


@pytest.mark.parametrize("method", ["exact", "lives@highs"])
def test_the_optimum_loads_every_pixel_once(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 23, 23)
    assert "20 pixel loads" in result.bound_by


def test_a_memory_for_one_patch_a_step_is_too_small_for_three_steps() -> None:
    """The kernel takes 9 elements, two patches 12, their outputs 2: one less leaves a patch a step, six."""
    small = PROBLEM.with_(machine={"memory": 9 + 12 + 2 - 1})
    result = tw.solve(small, "exact")
    assert (result.status, result.plan, result.exit_status) == ("infeasible", None, 1)
    assert "memory" in result.bound_by and "6 steps, 3 are allowed" in result.bound_by
    assert tw.solve(small.with_(machine={"memory": 23}), "exact").status == "optimal"
    with refused("machine.memory", 18, "19 elements"):
        PROBLEM.with_(machine={"memory": 18})  # and with less, no patch at all fits: 9 + 9 + 1


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
