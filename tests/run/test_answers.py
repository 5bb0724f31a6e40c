"""What becomes of a plan once it is found: it is never lost, whatever happens after that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import tilewright as tw
from tilewright.core import catalogue
from tilewright.run import compare as comparing
from tilewright.run.instance import read
from tilewright.run.result import Result
from tilewright.spec.errors import OutOfTimeError

EXAMPLE = "s1-example2"


@pytest.fixture
def never_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every execution take too long."""

    def too_long(*_: Any, **__: Any) -> Any:
        raise OutOfTimeError

    monkeypatch.setattr(type(catalogue.room("grouping")), "simulate", staticmethod(too_long))


# Too late, or interrupted, to be simulated -----------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.usefixtures("never_simulated")
def test_a_plan_that_cannot_be_executed_in_time_is_kept(tmp_path: Path) -> None:
    result = tw.solve(EXAMPLE, "zigzag")
    assert (result.status, result.simulated, result.report) == ("feasible", False, None)
    problem = read(EXAMPLE).problem
    assert result.objective == catalogue.room("grouping").objective(problem, result.plan)
    assert result.exit_status == 0 and result.failures == []
    for shown in (str(result), result._repr_html_()):
        assert "not simulated" in shown and "tilewright check" in shown
    assert result.records() == [] and len(result.to_dataframe()) == 0
    path = tmp_path / "r.json"
    result.write(path)
    again = Result.read(path).of(read(EXAMPLE))
    assert again.simulated is False and again.plan == result.plan
    assert tw.solve(EXAMPLE, "strips", warm_start="none").simulated is False
    assert tw.solve(EXAMPLE, "lns", warm_start=path, time_limit=5).plan is not None


@pytest.mark.usefixtures("never_simulated")
def test_comparisons_say_what_was_not_simulated() -> None:
    [entry] = tw.compare([EXAMPLE], ["zigzag"])
    assert isinstance(entry, comparing.Entry) and entry.remark == "not simulated"


@pytest.mark.usefixtures("never_simulated")
def test_the_command_keeps_it_too(tilewright: Run, tmp_path: Path) -> None:
    solved = tilewright("solve", EXAMPLE, "--with", "zigzag", "-o", "r.json", "--plot", "p.png")
    assert solved.returncode == 0, solved.stderr
    assert "not simulated" in solved.stdout and "not drawn" in solved.stdout
    assert not (tmp_path / "p.png").exists()
    assert json.loads((tmp_path / "r.json").read_text())["simulated"] is False
    solved = tilewright("solve", EXAMPLE, "--with", "zigzag", "--plot", "p.png", "--json")
    assert json.loads(solved.stdout)["plan"] is not None and "not drawn" in solved.stderr
    compared = tilewright("compare", EXAMPLE, "--with", "zigzag", "--plot", "c.png")
    assert compared.returncode == 0 and "not simulated" in compared.stdout


def test_a_process_that_was_stopped_beyond_its_deadline_loses_nothing() -> None:
    plan = tw.solve(EXAMPLE, "zigzag").plan

    def late(problem: Any) -> Any:
        time.sleep(0.5)
        return plan

    result = tw.solve(EXAMPLE, late, time_limit=0.1)
    assert result.plan == plan and result.simulated and result.report is not None


def test_results_of_before_are_simulated(tmp_path: Path) -> None:
    data = tw.solve(EXAMPLE, "zigzag").to_json()
    assert data.pop("simulated") is True
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert Result.read(tmp_path / "r.json").simulated is True


def test_ctrl_c_during_the_simulation_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(catalogue.room("grouping")), "simulate", staticmethod(interrupted))
    result = tw.solve(EXAMPLE, "zigzag")
    assert result.plan is not None and result.interrupted and not result.simulated


# Files that hold a plan already ----------------------------------------------------------------------

HARD = """
room = "grouping"
[layer]
input = [1, 12, 12]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 3
[limits]
reloads = 2
"""
"""ZigZag breaks its limit."""


def test_nothing_found_leaves_a_plan_alone(tilewright: Run, tmp_path: Path) -> None:
    for name in ("hard", "other"):
        (tmp_path / f"{name}.toml").write_text(
            HARD.replace("12, 12", "12, 13" if name == "other" else "12, 12")
        )
    (tmp_path / "easy.toml").write_text(HARD.replace("reloads = 2", "reloads = 9"))
    path = tmp_path / "r.json"
    tilewright("solve", "hard.toml", "--with", "zigzag", "-o", "r.json")
    assert json.loads(path.read_text())["status"] == "unknown"  # nothing was there
    plan = tw.solve(tmp_path / "easy.toml", "zigzag").to_json()
    plan["instance_sha256"] = read(tmp_path / "hard.toml").sha256
    path.write_text(precious := json.dumps(plan))
    solved = tilewright("solve", "hard.toml", "--with", "zigzag", "-o", "r.json")
    assert solved.returncode == 1
    assert "kept: r.json holds a plan" in solved.stdout and "written" not in solved.stdout
    assert path.read_text() == precious
    solved = tilewright("solve", "hard.toml", "--with", "zigzag", "-o", "r.json", "--json")
    assert json.loads(solved.stdout)["status"] == "unknown" and "kept: r.json" in solved.stderr
    assert path.read_text() == precious
    tilewright("solve", "other.toml", "--with", "zigzag", "-o", "r.json")  # of another instance
    assert json.loads(path.read_text())["status"] == "unknown"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4])
def test_an_early_ctrl_c_is_clean_and_leaves_the_file_alone(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "r.json"
    tw.solve(EXAMPLE, "zigzag").write(path)
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "tilewright", "solve", EXAMPLE, "-o", "r.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr is not None
    while "click" not in process.stderr.readline():  # from here on it is ours
        assert process.poll() is None
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err[-3000:]
    assert process.returncode in (0, 1, 130)
    assert process.returncode == 0 or "interrupted" in err + out
    assert json.loads(path.read_text())["plan"] is not None
