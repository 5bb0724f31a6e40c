"""What ``auto`` runs, with parts that are made up: who works when, and what comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import make_problem, nightly

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.portfolio import Portfolio
from tilewright.grouping import Plan, Problem, objective
from tilewright.run.solving import start as starting
from tilewright.run.workers import supervisor

IMPROVING = """
import json, os, time
from pathlib import Path
from tilewright.grouping import Plan

def plan(problem, search):
    plans = [Plan.from_json(plan) for plan in json.loads(Path(os.environ["PLANS"]).read_text())]
    log = Path(os.environ["LOGS"], f"improving-{search.seed}").open("w", buffering=1)
    known, begin = 0, time.process_time()
    wanted = int(os.environ.get("GIVES_UP", "0"))
    while search.remaining() > 0.1 and (
        not wanted or len(list(Path(os.environ["LOGS"]).glob("improving-*"))) < wanted
    ):
        spent = time.process_time() - begin
        log.write(f"{time.monotonic()} {spent}\\n")
        while known < len(plans) and spent > 0.02 * known:
            search.on_plan(plans[known])
            known += 1
        time.sleep(0.05) if wanted else sum(range(100_000))
    return plans[known - 1]
"""
"""A heuristic that has a better plan after each fiftieth of a second of its own work.

Where the proof gives up it waits until as many as are wanted have begun.
"""

PROVING = """
import os, time
from pathlib import Path
from tilewright.core.context import Outcome

def solve(problem, search):
    log = Path(os.environ["LOGS"], "proving").open("w", buffering=1)
    begin = time.process_time()
    log.write(f"{time.monotonic()} 0 {search.threads}\\n")
    if os.environ.get("GIVES_UP"):
        return Outcome("unknown")
    while search.remaining() > 0.1:
        log.write(f"{time.monotonic()} {time.process_time() - begin} {search.threads}\\n")
        sum(range(100_000))
    return Outcome("unknown")
"""
"""An exact search that finds nothing."""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Problem, list[Plan]]:
    """Let `auto` consist of the parts above; return a problem and its plans, the dearest first."""
    for kind, name, text in (("heuristics", "improving", IMPROVING), ("models", "proving", PROVING)):
        folder = tmp_path / kind / "grouping"
        folder.mkdir(parents=True)
        (folder / f"{name}_for_a_test.py").write_text(text)
    problem = make_problem({"input": [1, 9, 9]}, {"group_size": 3}, {"reloads": 9})
    rng = np.random.default_rng(0)
    steps = np.arange(problem.n_patches) // 3
    by_cost = {
        objective(problem, plan): plan
        for plan in (Plan.from_steps(problem, rng.permutation(steps)) for _ in range(300))
    }
    plans = [by_cost[cost] for cost in sorted(by_cost, reverse=True)]
    (tmp_path / "plans.json").write_text(json.dumps([plan.to_json() for plan in plans]))
    for name, value in (("PATH", tmp_path), ("PLANS", tmp_path / "plans.json"), ("LOGS", tmp_path)):
        monkeypatch.setenv("TILEWRIGHT_PATH" if name == "PATH" else name, str(value))
    parts = Portfolio("improving_for_a_test", "proving_for_a_test")
    monkeypatch.setattr(type(catalogue.room("grouping")), "portfolio", staticmethod(lambda _problem: parts))
    return problem, plans


def logged(path: Path) -> list[list[float]]:
    """Return the complete lines of a log: the time, seconds of the processor, and so on."""
    return [[float(word) for word in line.split()] for line in path.read_text().splitlines()[:-1]]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=nightly)])
def test_improving_has_half_of_the_time_at_least(
    made_up: tuple[Problem, list[Plan]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    problem, plans = made_up
    suspended: list[str] = []
    suspend = supervisor.Worker.suspend

    def noted(self: supervisor.Worker) -> None:
        suspended.append(self.job["method"])
        suspend(self)

    monkeypatch.setattr(supervisor.Worker, "suspend", noted)
    found: list[int] = []
    result = tw.solve(
        problem,
        warm_start=plans[0],
        time_limit=8,
        threads=threads,
        on_plan=lambda _plan, objective: found.append(objective),
    )
    costs = [objective(problem, plan) for plan in plans]
    # Every plan of the heuristic became the incumbent, in turn, while the other searched.
    assert found == costs[: len(found)] and len(found) > 1
    assert result.objective == found[-1]
    improving, proving = logged(tmp_path / "improving-0"), logged(tmp_path / "proving")
    if threads == 1:
        assert len(suspended) > 4
        assert all(one != other for one, other in pairwise(suspended))
        # On a busy machine either gets less in a turn of its own: more than a third is certain enough.
        for now, spent, _threads in proving[len(proving) // 2 :: 50]:
            had = max(entry[1] for entry in improving if entry[0] <= now)
            assert had > spent / 2
    else:
        assert suspended == []
        assert improving[0][0] < proving[-1][0] and proving[0][0] < improving[-1][0]
    assert {int(entry[2]) for entry in proving} == {1}


@pytest.mark.slow
def test_the_threads_of_a_proof_that_is_given_up_improve_plans(
    made_up: tuple[Problem, list[Plan]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVES_UP", "3")
    problem, plans = made_up
    tw.solve(problem, warm_start=plans[0], time_limit=60, threads=3)
    assert sorted(path.name for path in tmp_path.glob("*ing-*")) == [f"improving-{i}" for i in range(3)]


@pytest.mark.nightly
def test_who_still_constructs_is_not_waited_for_once_the_best_plan_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What proves is waited for although plan and bound meet; a heuristic beside it is not."""
    (folder := tmp_path / "heuristics" / "tiling").mkdir(parents=True)
    (folder / "slow_for_a_test.py").write_text(
        "import time\n\nSLOW = True\n\ndef plan(problem):\n    time.sleep(300)\n"
    )
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    result = tw.solve("alexnet-idsp", time_limit=200, threads=2)
    assert result.status == "optimal" and result.seconds < 100


@pytest.mark.nightly
def test_who_ends_while_it_waits_can_be_used_again() -> None:
    """A worker that has ended its job between two turns is not left suspended."""
    supervisor.IDLE.stop()
    first, second = (tw.solve("s1-example2", threads=1, time_limit=60) for _ in range(2))
    assert (first.status, first.objective) == (second.status, second.objective) == ("optimal", 57)
    supervisor.IDLE.stop()


def test_construction_is_not_ended_before_there_is_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may take longer to start a process than construction should take."""
    folder = tmp_path / "heuristics" / "grouping"
    folder.mkdir(parents=True)
    (folder / "rests_for_a_test.py").write_text("def plan(problem, search):\n    return search.start\n")
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    monkeypatch.setattr(starting, "CONSTRUCTION_SECONDS", 0.0)
    monkeypatch.setattr(starting, "CONSTRUCTION_SHARE", 0.0)
    result = tw.solve("s1-example2", "rests_for_a_test", time_limit=120)
    assert result.status == "feasible" and result.failures == []


def test_slow_heuristics_come_last_and_import_no_compiler() -> None:
    script = (
        "import sys\n"
        "from tilewright.core import catalogue\n"
        "def failed(name, error):\n"
        "    raise error\n"
        "for module in catalogue.constructive('grouping', failed):\n"
        "    print(module.__name__.rpartition('.')[2], 'numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _imported in found[-2:]] == ["beam", "sweep"]
    assert {imported for _name, imported in found} == {"False"}
    assert {"row_by_row", "strips", "zigzag"} < {name for name, imported in found if imported == "False"}
