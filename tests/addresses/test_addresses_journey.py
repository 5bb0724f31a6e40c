"""The room addresses from a problem to a picture: four buffers in the least memory.

Time runs to the right. At time 2, a, c and d live together: no memory has fewer than 2 + 2 + 2 addresses::

    time   1  2          addresses by hand
    a         ##         2 to 3
    b      ##            2 to 4
    c      #####         0 to 1
    d         ##         4 to 5
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import tilewright as tw

PROBLEM = tw.AddressesProblem(
    buffers=[
        tw.Buffer(id="a", lower=2, upper=3, size=2),
        tw.Buffer(id="b", lower=1, upper=2, size=3),
        tw.Buffer(id="c", lower=1, upper=3, size=2),
        tw.Buffer(id="d", lower=2, upper=3, size=2),
    ]
)
BY_HAND = tw.AddressesPlan(offsets=(2, 2, 0, 4))


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "canonical")


def test_a_plan_made_by_hand_is_simulated() -> None:
    report = tw.simulate(PROBLEM, BY_HAND, numeric=True)
    assert report.valid and report.numeric  # no value is overwritten while its buffer lives
    measures = report.measures
    assert (measures.memory_addresses, measures.live_addresses, measures.buffers) == (6, 6, 4)


def test_buffers_that_overlap_are_told() -> None:
    report = tw.simulate(PROBLEM, tw.AddressesPlan(offsets=(2, 2, 0, 3)), numeric=True)
    assert report.violation is not None and report.violation.rule == "overlap"
    assert (report.violation.needed, report.violation.found) == (
        "addresses 3 to 4 free at time 2",
        "a at 2 to 3",
    )


def test_the_greatest_first_is_a_heuristic() -> None:
    """It puts b at 0, so that c comes to 3, and a and d have no four addresses beside it below 5."""
    result = tw.solve(PROBLEM, "greedy_by_size")
    assert (result.status, result.objective, result.bound) == ("feasible", 7, 6)


@pytest.mark.parametrize("method", ["canonical", "stacking@highs"])
def test_the_optimum_is_what_lives_at_one_time(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 6, 6)
    assert result.bound_by == "live buffers"
    assert tw.simulate(PROBLEM, result).measures.memory_addresses == 6


@pytest.mark.parametrize(("method", "capacity"), [("auto", 5), ("canonical", 5), ("greedy_by_size", 2)])
def test_a_memory_of_five_addresses_is_too_small(method: str, capacity: int) -> None:
    """That is proven, and no fault of the file: the status says so, and the bound what would be enough."""
    problem = PROBLEM.with_(memory={"capacity": capacity})
    result = tw.solve(problem, method)
    assert (result.status, result.plan, result.exit_status, result.bound) == ("infeasible", None, 1, 6)
    assert result.bound_by.startswith("live buffers: 6 ")
    assert f"memory.capacity is {capacity}" in result.bound_by
    assert all(finding.holds for finding in tw.check(problem, result))


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
