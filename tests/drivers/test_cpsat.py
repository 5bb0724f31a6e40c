"""The driver of CP-SAT: what it asks of formulations, its clock, its numbers, and life without it."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from conftest import processor_time
from formulations import need
from tests import command

from tilewright import drivers
from tilewright.allocation import portfolio
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.packages import installed
from tilewright.grouping import Plan, Problem, objective
from tilewright.run.instance import read
from tilewright.run.solving.second_route import routes
from tilewright.spec.errors import Disagreement, InputError, SolverMissingError, TilewrightError


def problem(side: int, group: int, **limits: Any) -> Problem:
    return Problem.model_validate({
        "layer": {"input": [1, side, side], "kernels": 1, "kernel": [3, 3]},
        "machine": {"group_size": group},
        "limits": {"steps": "kmin", **limits},
    })  # fmt: skip


def zigzag(case: Problem) -> Plan:
    plan: Plan = importlib.import_module("tilewright.heuristics.grouping.zigzag").plan(case)
    return plan


@pytest.fixture
def cpsat() -> Any:
    need("cpsat")
    return drivers.load("cpsat")


@pytest.fixture
def gaps() -> Any:
    need("cpsat")
    return catalogue.formulation("grouping", "gaps")


def within(seconds: float, **search: Any) -> RunContext:
    return RunContext(deadline=time.monotonic() + seconds, **search)


# The clock -------------------------------------------------------------------------------------------------


def test_it_keeps_to_the_deadline_and_reports_on_the_way(cpsat: Any, gaps: Any) -> None:
    case, plans, bounds = problem(7, 3), list[Plan](), list[int]()
    start = zigzag(case)
    with processor_time(4):
        search = within(3, start=start, on_plan=plans.append, on_bound=bounds.append)
        began = time.monotonic()
        outcome = cpsat.solve(case, gaps, search)
    assert time.monotonic() - began < 8  # on a busy machine; it is not killed in here
    assert outcome.status in ("feasible", "optimal")  # a quick machine may prove it
    costs = [objective(case, plan) for plan in plans]
    assert costs[0] == objective(case, start)
    assert costs == sorted(set(costs), reverse=True)
    assert outcome.plan == plans[-1]
    assert bounds == sorted(set(bounds)) and outcome.bound == bounds[-1] <= costs[-1]


def test_building_ends_at_the_deadline(cpsat: Any, gaps: Any) -> None:
    with processor_time(1):
        outcome = cpsat.solve(problem(20, 8), gaps, within(0.3))
    assert outcome.status == "unknown"


def test_a_bound_that_is_known_ends_the_search(cpsat: Any, gaps: Any) -> None:
    case = problem(7, 3)
    cost = objective(case, zigzag(case))
    with processor_time(10):
        outcome = cpsat.solve(case, gaps, within(600, start=zigzag(case), bound=cost))
    assert (outcome.status, objective(case, outcome.plan)) == ("optimal", cost)


def test_threads_may_change_and_a_seed_repeats(cpsat: Any, gaps: Any) -> None:
    case = problem(5, 3)
    found = [cpsat.solve(case, gaps, within(600, threads=threads, seed=7)) for threads in (2, 1, 1)]
    assert {(one.status, one.bound) for one in found} == {("optimal", 28)}
    assert found[1].plan == found[2].plan


@pytest.mark.nightly
def test_ctrl_c_returns_the_best_plan(tmp_path: Path) -> None:
    need("cpsat")
    (tmp_path / "layer.toml").write_text(
        'room = "grouping"\n[layer]\ninput = [1, 9, 9]\nkernels = 1\nkernel = [3, 3]\n'
        '[machine]\ngroup_size = 3\n[limits]\nsteps = "kmin"\nreloads = 0\n'
    )
    command.run(tmp_path, "solve", "layer.toml", "--with", "zigzag", "-o", "start.json")
    arguments = ["--with", "gaps@cpsat", "--warm-start", "start.json", "--json", "--time-limit", "300"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tilewright", "solve", "layer.toml", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):  # until CP-SAT's process is there
        if any("worker" in " ".join(child.cmdline()) for child in psutil.Process(process.pid).children()):
            break
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    result = json.loads(said)
    assert (result["status"], result["interrupted"]) == ("feasible", True)


# Honest numbers --------------------------------------------------------------------------------------------


def changed(gaps: Any, build: Any = None, **functions: Any) -> Any:
    """Return the formulation with another function, or with a change of the model that it builds."""

    def built(case: Problem, extras: bool = True) -> Any:
        model = gaps.build(case, extras)
        build(model)
        return model

    more = {"build": built} if build is not None else {}
    return SimpleNamespace(**{**vars(gaps), **more, **functions})


@pytest.mark.parametrize("by", [1, -1])
def test_a_model_that_counts_wrong_is_caught(cpsat: Any, gaps: Any, by: int) -> None:
    wrong = changed(gaps, lambda model: setattr(model, "offset", model.offset + by))
    with pytest.raises(Disagreement):
        cpsat.solve(problem(4, 2), wrong, within(600))


def test_an_error_in_a_callback_is_told(cpsat: Any, gaps: Any) -> None:
    def read(model: Any, value: Any) -> Any:
        raise ZeroDivisionError("in read")

    with pytest.raises(ZeroDivisionError, match="in read"):
        cpsat.solve(problem(4, 2), changed(gaps, read=read), within(600))


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda model: model.clear_objective(), "objective"),
        (lambda model: model.maximize(model.at[0][0]), "objective"),
        (lambda model: model.minimize(0.5 * model.at[0][0]), "objective.*whole numbers"),
        (lambda model: setattr(model, "unit", 0.5), "`unit` is 0.5.*whole number"),
    ],
)
def test_what_is_no_model_is_refused(cpsat: Any, gaps: Any, build: Any, told: str) -> None:
    with pytest.raises(InputError, match=rf"`build` returns a model.*{told}|{told}.*test_cpsat"):
        cpsat.solve(problem(4, 2), changed(gaps, build), within(600))


def test_other_things_than_models_and_plans_are_refused(cpsat: Any, gaps: Any) -> None:
    wrong = SimpleNamespace(**{**vars(gaps), "build": lambda _problem: 7})
    with pytest.raises(InputError, match=r"`build` .* CpModel .* int"):
        cpsat.solve(problem(4, 2), wrong, within(600))
    with pytest.raises(InputError, match=r"`read` .* Plan .* int"):
        cpsat.solve(problem(4, 2), changed(gaps, read=lambda _model, _value: 7), within(600))
    with pytest.raises(TilewrightError, match=r"CP-SAT .* nonsense = 1"):
        cpsat.solve(problem(4, 2), gaps, within(600), options={"nonsense": 1})


def test_what_is_too_large_is_refused(cpsat: Any, gaps: Any) -> None:
    with pytest.raises(InputError, match=r"\d+ constraints .* \d+"):
        cpsat.solve(problem(60, 8), gaps, within(600))


HEAD = 'WRITTEN_FOR = "cpsat"\n\ndef build(problem):\n    pass\n\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD, r"`start\(model, plan\)`.*mine\.py"),
        (
            HEAD + "def start(model, plan):\n    pass\n\ndef read(model):\n    pass\n",
            r"`read\(model, value\)`.*`read\(model\)`.*mine\.py, line 9",
        ),
    ],
)
def test_a_file_that_is_no_formulation_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, told: str
) -> None:
    need("cpsat")
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    path = tmp_path / "models" / "grouping" / "mine.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    sys.modules.pop("tilewright.models.grouping.mine", None)
    assert catalogue.written_for(path) == "cpsat"
    with pytest.raises(InputError, match=told):
        catalogue.formulation("grouping", "mine")


# Without it ------------------------------------------------------------------------------------------------


def test_a_missing_package_is_exit_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "ortools" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('not for this Python')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    done = command.run(tmp_path, "solve", "s1-example2", "--with", "gaps@cpsat", "--warm-start", "none")
    assert done.returncode == 3, done.stderr
    assert "pip install 'tilewright[cpsat]'" in done.stderr


@pytest.mark.parametrize("instance", ["mb28-64k", "s1-example2", "mnist-tcpa", "minimalloc-example"])
def test_results_are_checked_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: str
) -> None:
    """Some searches of a room's own ask it; routes to a claim are those that are left."""
    broken = tmp_path / "ortools" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('not for this Python')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    for told in (["solve", instance, "-o", "r.json"], ["check", instance, "r.json"]):
        done = command.run(tmp_path, *told)
        assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_else_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.delitem(sys.modules, "tilewright.drivers.cpsat", raising=False)
    assert not installed("ortools")
    assert not drivers.available("cpsat")
    for load in (lambda: catalogue.formulation("grouping", "gaps"), lambda: drivers.load("cpsat")):
        with pytest.raises(SolverMissingError, match=r"pip install 'tilewright\[cpsat\]'"):
            load()
    assert not [method for method in routes(problem(4, 2)) if method.endswith("@cpsat")]


def test_auto_takes_it_where_it_is_the_quickest_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = read("mnist-tcpa-placed").problem
    proving = {True: "floorplan@cpsat", False: "regions@gecode"}
    assert portfolio(placed).proving == proving[installed("ortools")]
    monkeypatch.setitem(sys.modules, "ortools", None)
    assert portfolio(placed).proving == "regions@gecode"
