"""Bounds of the exact search on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

CELL = """
room = "grouping"
[layer]
input = [1, 5, 5]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 2
[limits]
steps = "kmin"
reloads = 2
"""


@pytest.fixture
def result(solved: Any, tmp_path: Any) -> Any:
    (tmp_path / "cell.toml").write_text(CELL)
    return solved("cell.toml", "--with", "exact", "--time-limit", "300")


def test_check_tells_the_grounds(tilewright: Any, result: Any, tmp_path: Any) -> None:
    assert (result["status"], result["objective"], result["bound"]) == ("optimal", 31, 31)
    assert result["bound_by"] == "exact"
    assert json.loads((tmp_path / "result.json").read_text())["grounds"] == result["grounds"]
    assert "no plan costs 30 or less" in result["grounds"] or "chains" in result["grounds"]
    checked = tilewright("check", "cell.toml", "result.json", "--time-limit", "300")
    assert checked.returncode == 0, checked.stdout
    told = " ".join(checked.stdout.split())
    assert "ok bound 31: exact proves 31" in told
    assert "no plan costs" in told or "chains" in told
    assert "WRONG" not in told


@pytest.mark.by_day(3)
@pytest.mark.parametrize("plan", [True, False], ids=["with the plan", "without"])
def test_a_bound_that_is_raised_is_refused(tilewright: Any, result: Any, tmp_path: Any, plan: bool) -> None:
    result["bound"] = 32
    if plan:
        result["gap"] = (31 - 32) / 31
    else:
        result |= {"plan": None, "report": None, "objective": None, "gap": None, "status": "unknown"}
    (tmp_path / "r.json").write_text(json.dumps(result))
    checked = tilewright("check", "cell.toml", "r.json", "--time-limit", "300")
    assert checked.returncode == 1, checked.stdout
    told = " ".join(checked.stdout.split())
    assert "WRONG bound 32, claimed by exact: exact finds a plan of 31" in told


def test_grounds_that_are_no_text_are_refused(tilewright: Any, result: Any, tmp_path: Any) -> None:
    result["grounds"] = 31
    (tmp_path / "r.json").write_text(json.dumps(result))
    checked = tilewright("check", "cell.toml", "r.json")
    assert checked.returncode == 2
    assert "grounds" in checked.stderr
