"""What every driver owes: the clock, honest numbers, refusals, and no process left behind."""

import contextlib
import gc
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import highspy
import psutil
import pytest
from conftest import nightly, processor_time

import tilewright.models.grouping
from tilewright import drivers, tiling
from tilewright.core.context import RunContext
from tilewright.drivers import _minizinc, highs
from tilewright.drivers._pyomo import Built
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import objective
from tilewright.models.grouping import lives, s1
from tilewright.models.tiling import slices
from tilewright.spec.errors import (
    Disagreement,
    InputError,
    OutOfTimeError,
    SolverBrokenError,
    SolverMissingError,
    UnknownNameError,
)

ORDERED = Path(next(iter(tilewright.models.grouping.__path__))) / "ordered.mzn"


def problem(side: int, group: int, steps="kmin", reloads=3, **machine) -> Problem:
    return Problem.model_validate({
        "layer": {"input": [1, side, side], "kernels": 1, "kernel": [3, 3]},
        "machine": {"group_size": group, **machine},
        "limits": {"steps": steps, "reloads": reloads},
    })  # fmt: skip


def zigzag(case: Problem) -> Plan:
    return importlib.import_module("tilewright.heuristics.grouping.zigzag").plan(case)


@pytest.fixture
def gecode():
    if not drivers.available("gecode"):
        assert not os.environ.get("CI"), "gecode must be installed in CI"
        pytest.skip("gecode is not installed")
    return drivers.load("gecode")


def within(seconds: float, **search) -> RunContext:
    return RunContext(deadline=time.monotonic() + seconds, **search)


def test_list_of_drivers():
    assert [driver.name for driver in drivers.DRIVERS] == ["highs", "gecode", "cpsat"]
    assert drivers.available("highs")
    assert set(drivers.versions("highs")) == {"highs", "pyomo"}
    with pytest.raises(UnknownNameError, match="highs, gecode"):
        drivers.find("cplex")


def test_highs_presolves_soundly():
    """HiGHS 1.14 says 35, with a continuous column in one row beside an integer one."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for column, cost in enumerate((3.0, 5.0)):
        solver.addVar(0, 12)
        solver.changeColCost(column, cost)
    solver.changeColIntegrality(1, highspy.HighsVarType.kInteger)
    solver.addRow(6.5, highspy.kHighsInf, 2, [0, 1], [1.0, 1.0])
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(19.5, abs=1e-4)


def test_a_highs_that_answers_wrongly_is_not_used(monkeypatch):
    monkeypatch.setattr(highspy.Highs, "version", lambda self: "1.14.0")
    with pytest.raises(SolverMissingError, match=r"HiGHS 1\.14\.0.*wrong.*highspy>=1\.16"):
        drivers.load("highs")


def test_missing_minizinc_is_said(monkeypatch):
    minizinc = pytest.importorskip("minizinc")
    monkeypatch.setattr(minizinc, "default_driver", None)
    assert not drivers.available("gecode")
    with pytest.raises(SolverMissingError, match="apt-get install minizinc"):
        drivers.load("gecode")


@pytest.mark.parametrize(
    ("does", "told"), [("yes", "answers with more than"), ("sleep 1000", "does not answer within")]
)
def test_a_minizinc_that_floods_or_hangs_is_ended(monkeypatch, tmp_path, does, told):
    fake = tmp_path / "minizinc"
    fake.write_text(f"#!/bin/sh\n{does}\nexit 0\n")  # a child of the shell, which outlives it if left alone
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_minizinc, "SECONDS", 0.5 if does.startswith("sleep") else 60.0)
    before = {*psutil.Process().children(recursive=True)}
    with pytest.raises(SolverBrokenError, match=told):
        _minizinc.check()
    assert {*psutil.Process().children(recursive=True)} <= before


def test_missing_package_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    monkeypatch.delitem(sys.modules, "tilewright.drivers.highs")
    with pytest.raises(SolverMissingError, match="pip install"):
        drivers.load("highs")


def test_nothing_heavy_is_imported_with_the_list():
    heavy = "('pyomo', 'highspy', 'minizinc')"
    code = f"import sys, tilewright.drivers; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


# Honest numbers -------------------------------------------------------------------------------------------


def test_a_different_objective_is_an_error():
    case = problem(4, 2)
    run = Run(case, RunContext())
    plan = zigzag(case)
    run.found(plan, objective(case, plan))
    with pytest.raises(Disagreement):
        run.found(plan, objective(case, plan) - 1)
    with pytest.raises(Disagreement):
        run.found(plan, objective(case, plan) + 1)


def test_a_plan_may_cost_less_than_an_objective_that_is_not_tight():
    case = problem(4, 2)
    run = Run(case, RunContext())
    plan = zigzag(case)
    run.found(plan, objective(case, plan) + 1, at_most=True)
    assert run.value == objective(case, plan)
    with pytest.raises(Disagreement):
        run.found(plan, objective(case, plan) - 1, at_most=True)


def test_highs_reports_a_model_that_counts_wrong():
    def build(case, extras=True):
        model = lives.build(case, extras)
        model.offset += 1
        return model

    wrong = SimpleNamespace(**{**vars(lives), "build": build})
    with pytest.raises(Disagreement):
        highs.solve(problem(4, 2), wrong, within(600))


def test_gecode_reports_a_model_that_counts_wrong(gecode, tmp_path):
    search = ORDERED.parent.parent / "search.mzn"
    core = ORDERED.with_name("core.mzn").read_text().replace("../search.mzn", str(search))
    assert "* all_loads + step" in core
    (tmp_path / "wrong.mzn").write_text(core.replace("* all_loads + step", "* all_loads + 1 + step"))
    (tmp_path / "ordered.mzn").write_text(ORDERED.read_text().replace("core.mzn", "wrong.mzn"))
    with pytest.raises(Disagreement):
        gecode.solve(problem(5, 2, memory=10**6), tmp_path / "ordered.mzn", within(600), extras=False)
    assert not children()


@pytest.mark.parametrize(
    ("dual", "largest", "expected"),
    [
        (30.0, 1.0, 30),
        (30.0000001, 1.0, 30),
        (30.01, 1.0, 31),
        (29.9999999, 1.0, 30),
        (30.01, 1e5, 30),
        (30.01, 2e6, 29),
    ],
)
def test_bounds_are_rounded_up_with_a_tolerance(dual, largest, expected):
    case = problem(4, 2)
    built = Built.__new__(Built)
    built.run, built.offset, built.unit, built.largest = Run(case, RunContext()), 100, 7, largest
    built.bounded(dual)
    assert built.run.bound == 100 + 7 * expected


def test_highs_tolerances_of_more_than_a_unit_contradict_no_plan():
    """Twelve million units, of which HiGHS's tolerances leave a dozen open."""
    layer = {"input": [3, 4, 13], "kernels": 7, "kernel": [3, 1], "stride": [1, 6], "batch": 4}
    machine = {
        "kind": "npu", "tles": 2, "tlts": 3, "element_bytes": 2, "burst_bytes": 128, "macs_per_cycle": 3,
        "cycle_ps": 5, "input_bytes": 33, "weights_bytes": 23,
    }  # fmt: skip
    table = {"layer": layer, "machine": machine, "limits": {"schedule": "IS", "partition": "OFM"}}
    case = tiling.Problem.model_validate(table)
    outcome = highs.solve(case, slices, within(600))
    assert tiling.objective(case, outcome.plan) == 12_712_284
    assert outcome.bound is not None
    assert 12_712_270 <= outcome.bound <= 12_712_284


# The clock ------------------------------------------------------------------------------------------------


def children() -> list[str]:
    """Processes of MiniZinc that this one has started, and of Gecode that have lost their parent.

    One that is dead and whose end nobody has asked for yet, as on a busy machine, is none.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            parent, args = process.ppid(), " ".join(process.cmdline())
            ours = (parent == os.getpid() and "minizinc" in args) or (parent == 1 and "fzn-gecode" in args)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(args)
    return found


LIMITS = (3, 20, 100)
"""Seconds until a deadline: the next where a busy machine gets nowhere in the first."""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("formulation", [s1, lives])
def test_highs_keeps_to_the_deadline(formulation):
    case = problem(6, 2)
    bounds: list[int] = []
    for limit in LIMITS:
        with processor_time(limit + 1.5):
            search = within(limit, start=zigzag(case), on_bound=bounds.append)
            outcome = highs.solve(case, formulation, search)
        if bounds:
            break
    assert outcome.status == "feasible"
    assert outcome.warm_start is not None
    assert objective(case, outcome.plan) <= objective(case, zigzag(case))
    assert bounds and outcome.bound == max(bounds)
    assert set(outcome.versions) == {"highs", "pyomo"}


def test_building_ends_at_the_deadline():
    with processor_time(1):
        outcome = highs.solve(problem(20, 8), lives, within(0.3))
    assert outcome.status == "unknown"


def test_alarm_is_taken_back():
    with pytest.raises(OutOfTimeError), interrupted_at_deadline(within(0.05)):
        while True:
            pass
    with interrupted_at_deadline(within(1)):
        pass
    time.sleep(1.5)


def test_a_deadline_is_told_as_such_where_a_library_makes_another_error_of_it() -> None:
    with pytest.raises(OutOfTimeError), interrupted_at_deadline(within(0.05)):
        try:
            while True:
                pass
        except OutOfTimeError as error:
            raise RuntimeError(f"failed: {error!r}") from None
    with pytest.raises(RuntimeError), interrupted_at_deadline(within(10)):
        raise RuntimeError("of its own")


def test_alarm_is_not_lost_in_a_garbage_collection():
    def slow(_phase: str, _facts: dict[str, int]) -> None:
        time.sleep(0.02)

    gc.callbacks.append(slow)
    end = time.monotonic() + 60
    try:
        with pytest.raises(OutOfTimeError), interrupted_at_deadline(within(0.1)):
            while time.monotonic() < end:
                cycle: list[object] = []
                cycle.append(cycle)
    finally:
        gc.callbacks.remove(slow)
    assert gc.isenabled()


@pytest.mark.by_day(1)
@pytest.mark.slow
@pytest.mark.parametrize("threads", [pytest.param(1, marks=nightly), 2])
def test_gecode_keeps_to_the_deadline_and_leaves_no_process(gecode, threads):
    case = problem(9, 3)
    for limit in LIMITS:
        plans: list[Plan] = []
        with processor_time(threads * limit + 1.5):
            outcome = gecode.solve(
                case, ORDERED, within(limit, start=zigzag(case), threads=threads, on_plan=plans.append)
            )
        if len(plans) > 1 and outcome.warm_start is not None:
            break
    assert outcome.status == "feasible"
    assert outcome.warm_start is not None
    costs = [objective(case, plan) for plan in plans]
    assert costs[0] == objective(case, zigzag(case))
    assert costs == sorted(set(costs), reverse=True)
    assert len(costs) > 1
    assert set(outcome.versions) == {"gecode", "minizinc", "minizinc-python"}
    for _ in range(300):  # tests beside this one may be killing some of theirs
        if not children():
            break
        time.sleep(0.1)
    assert not children()


def test_threads_may_change_within_a_process():
    for threads in (1, 2, 1):
        assert highs.solve(problem(4, 2), lives, within(600, threads=threads)).status == "optimal"


@pytest.mark.nightly
def test_same_seed_same_answer():
    case = problem(5, 2)
    first, second = (highs.solve(case, lives, within(600, seed=7)).plan for _ in range(2))
    assert first == second


# Refusals -------------------------------------------------------------------------------------------------


def test_large_layers_are_refused_before_anything_is_built(gecode):
    vgg = Problem.model_validate({
        "layer": {"input": [64, 226, 226], "kernels": 64, "kernel": [3, 3]},
        "machine": {"group_size": 32},
        "limits": {"steps": "kmin"},
    })  # fmt: skip
    with processor_time(5):
        for formulation in (s1, lives):
            with pytest.raises(InputError, match=r"\d+ constraints .* \d+"):
                highs.solve(vgg, formulation, within(600))
        with pytest.raises(InputError, match=r"\d+ constraints .* \d+"):
            gecode.solve(vgg, ORDERED, within(600))


def test_numbers_that_minizinc_cannot_count_are_refused(gecode):
    case = problem(4, 2, steps="free", load=999_983, compute=999_979)
    layer = {**case.layer.model_dump(), "input": (60_000, 4, 4)}
    huge = Problem.model_validate({**case.model_dump(), "layer": layer})
    with pytest.raises(InputError, match="MiniZinc counts to"):
        gecode.solve(huge, ORDERED, within(600))


def test_the_objective_that_counts_is_that_of_the_solution(monkeypatch):
    """HiGHS told 14 units for a solution of 15 while it searched; that is no contradiction of ours."""
    told = []
    improved = highs._Solve._improved

    def tell_less(self, data):
        told.append(data.objective_function_value)
        less = SimpleNamespace(mip_solution=data.mip_solution, objective_function_value=told[-1] - 1)
        improved(self, less)

    monkeypatch.setattr(highs._Solve, "_improved", tell_less)
    case = problem(4, 2)
    outcome = highs.solve(case, s1, within(600))
    assert told
    assert outcome.status == "optimal"
    assert outcome.bound == objective(case, outcome.plan)
