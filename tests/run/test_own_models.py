"""Models of the user's own: loaded and looked at before anything is said, and believed when others agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import nightly, tells
from formulations import need
from tests import command

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.models.grouping import exact
from tilewright.run.instance import parse, read
from tilewright.run.methods import is_narrow, is_trusted
from tilewright.run.result import Result
from tilewright.spec.errors import SolverMissingError

MODELS = {
    "tiling/even.mzn": """include "core.mzn";
constraint :: "a multiple of 8 rows" step[Y] mod 8 = 0;
array[LOOP] of var CHOICE: decisions = choice;
solve :: int_search([schedule] ++ choice, first_fail, indomain_max) minimize objective;
""",
    "tiling/wrong.mzn": 'include "core.mzn";\nconstraint nothing > 1;\nsolve minimize objective;\n',
    "allocation/few.mzn": """include "core.mzn";
constraint :: "few PEs for Conv2" pes[3] <= 7;
solve :: int_search(choice, first_fail, indomain_max) minimize objective;
""",
    "allocation/none.mzn": """include "core.mzn";
constraint pes[3] > most_pes;
solve minimize objective;
""",
    "grouping/together.py": """from tilewright.models.grouping import s1
from tilewright.models.grouping.s1 import read, size, start


def build(problem, extras=True):
    model = s1.build(problem)
    pairs = [(0, 2), (6, 8), (3, 5)]
    model.together = pyo.Constraint(
        range(3), model.STEPS, rule=lambda m, n, k: m.P_g[pairs[n][0], k] == m.P_g[pairs[n][1], k]
    )
    return model


import pyomo.environ as pyo
""",
    "grouping/lying.py": """from tilewright.core.context import Outcome


def solve(problem, search):
    search.on_plan(search.start)
    return Outcome("optimal", search.start, CLAIM)
""",
    "residency/no_start.py": "def build(problem, extras=True):\n    return None\n",
    "residency/no_model.py": """def build(problem, extras=True):
    return None


def start(model, plan):
    pass


def read(model):
    return None
""",
}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in MODELS.items():
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("CLAIM", "59"))
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    return tmp_path


# A bound closes the run before the model is run ---------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("instance", "method", "told"),
    [
        ("ds-cnn-frames", "columns_divide@gecode", "method = 'columns_divide@gecode': .* one frame"),
        ("lenet5-conv1-g20", "s1@highs", "21788928 constraints .* 600000"),
        ("ds-cnn-16k", "no_start@highs", r"`start\(model, plan\)`"),
        ("ds-cnn-16k", "no_model@highs", "`build` .* ConcreteModel .* NoneType"),
    ],
)
def test_a_model_that_cannot_be_run_is_refused_though_a_bound_proves_the_plan(
    instance: str, method: str, told: str
) -> None:
    need(method.partition("@")[2])
    with pytest.raises(tw.TilewrightError, match=told) as refused:
        tw.solve(instance, method, time_limit=60)
    assert refused.value.exit_status == 2


def test_a_model_that_minizinc_cannot_read_is_refused_though_a_bound_proves_the_plan() -> None:
    need("gecode")
    small = {"layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]}}
    instance = parse({"room": "tiling", **small, "machine": {"kind": "dsp", "memory_bytes": 1024}})
    with pytest.raises(tw.TilewrightError, match=r"wrong@gecode failed: .*wrong.mzn, line 2"):
        tw.solve(instance, "wrong@gecode", time_limit=60)


def test_a_solver_that_is_missing_is_told_though_a_bound_proves_the_plan() -> None:
    need("highs")
    with pytest.raises(SolverMissingError, match=r"Pyomo .* solver nothing"):
        tw.solve("ds-cnn-16k", "columns_intervals@pyomo:nothing", time_limit=60)


def test_a_run_that_a_bound_has_closed_says_that_the_model_was_not_run(tmp_path: Path) -> None:
    """23,106 bytes are compulsory, and heuristics reach them."""
    need("highs")
    instance = read("ds-cnn-16k")
    result = tw.solve(instance, "columns_intervals@highs", time_limit=60)
    assert (result.status, result.objective) == ("optimal", 23_106)
    assert result.proved_by == result.bound_by == "compulsory traffic"
    assert "proved by   the compulsory traffic; columns_intervals@highs was not run" in result.summary()
    result.write(tmp_path / "result.json")
    again = Result.read(tmp_path / "result.json", instance.problem)
    assert again.proved_by == "compulsory traffic"
    assert all(finding.holds for finding in tw.check(instance, again))
    forged = replace(again, proved_by="states")
    assert [f.what for f in tw.check(instance, forged) if not f.holds] == ["proved_by"]
    alone = tw.solve(instance, "columns_intervals@highs", warm_start="none", time_limit=60)
    assert (alone.status, alone.proved_by) == ("optimal", None)
    assert tw.solve(instance, "auto", time_limit=60).proved_by is None


def test_a_function_of_ones_own_that_ends_a_run_was_run() -> None:
    def own(problem: Any, context: RunContext) -> Outcome:
        return exact.solve(problem, context)

    result = tw.solve("s1-example2", own, time_limit=60)
    assert (result.status, result.objective, result.bound_by) == ("optimal", 57, "own")
    assert result.proved_by is None


@pytest.mark.nightly
def test_a_comparison_counts_no_proof_for_a_model_that_was_not_run(tmp_path: Path) -> None:
    need("highs")
    methods = "states,columns_intervals@highs"
    done = command.run(
        tmp_path, "compare", "ds-cnn-16k", "--with", methods, "--time-limit", "60", "-o", "runs.csv"
    )
    assert done.returncode == 0, done.stderr
    assert {"proved", "itself"} <= set(done.stdout.split())
    assert "not run; proved by the compulsory traffic" in done.stdout
    table = (tmp_path / "runs.csv").read_text().splitlines()
    assert [line.rsplit(",", 1)[1] for line in table] == ["proved_by_itself", "False", "False"]


# What is claimed of a narrower problem ------------------------------------------------------------------


def test_whose_proofs_are_claims() -> None:
    assert is_trusted("tiling", "loops@gecode") and not is_narrow("tiling", "loops@gecode")
    assert not is_trusted("tiling", "even@gecode") and is_narrow("tiling", "even@gecode")
    assert not is_trusted("tiling", "loops@minizinc:chuffed")
    assert is_trusted("grouping", "exact") and not is_trusted("grouping", "lying")
    assert not is_narrow("grouping", "lying") and not is_trusted("grouping", "a function of mine")


@pytest.mark.parametrize(
    ("instance", "method", "narrow", "best"),
    [
        ("mnist-tcpa", "few@gecode", 84_672, 63_504),
        ("s1-example2", "together@highs", 61, 57),
        pytest.param("dsp56", "even@gecode", 978_432, 950_272, marks=nightly),
    ],
)
def test_the_optimum_of_a_narrower_problem_is_a_claim(
    instance: str, method: str, narrow: int, best: int
) -> None:
    """`best` are proven by `parametric`, `exact` and `exhaustive`; they deny what the models claim."""
    need(method.partition("@")[2])
    given: tw.Instance = (
        parse(
            {
                "room": "tiling",
                "name": "dsp56",
                "layer": {
                    "input": [64, 56, 56],
                    "kernels": 64,
                    "kernel": [3, 3],
                    "padding": [1, 1, 1, 1],
                },
                "machine": {"kind": "dsp", "memory_bytes": 65_536},
            }
        )
        if instance == "dsp56"
        else read(instance)
    )
    own_bound = catalogue.room(given.room).best_bound(given.problem)
    alone = tw.solve(given, method, warm_start="none", time_limit=60)
    assert (alone.status, alone.objective, alone.exit_status) == ("feasible", narrow, 0)
    assert (alone.bound, alone.bound_by) == (own_bound.value, str(own_bound))
    assert alone.unverified is not None and alone.confirmed_by is None
    assert tells(alone.unverified, f"{method} claims .. optimal .. plan of {best}")
    started = tw.solve(given, method, time_limit=60)
    assert started.status == "feasible" and started.objective is not None
    assert best <= started.objective < narrow and started.bound == own_bound.value
    assert tells(started.unverified, f"bound of {narrow} .. plan of {started.objective}")
    assert all(finding.holds for finding in tw.check(given, started))


@pytest.mark.nightly
def test_a_narrower_problem_without_a_plan_is_none_of_the_problem() -> None:
    need("gecode")
    alone = tw.solve("mnist-tcpa", "none@gecode", warm_start="none", time_limit=60)
    assert (alone.status, alone.exit_status) == ("unknown", 1)
    assert tells(alone.unverified, "none@gecode .. nothing is feasible .. parametric .. plan of 63504")
    started = tw.solve("mnist-tcpa", "none@gecode", time_limit=60)
    assert (started.status, started.exit_status) == ("feasible", 0)
    assert tells(started.unverified, f"nothing is feasible .. plan of {started.objective}")


@pytest.mark.nightly
def test_a_search_of_the_users_own_is_believed_when_another_has_proven_the_same(own: Path) -> None:
    """Zigzag takes 67 cycles, the optimum 57: 67 is no bound, and 57 is."""
    path = own / "models" / "grouping" / "lying.py"
    start = tw.solve("s1-example2", "zigzag")
    assert start.objective == 67
    path.write_text(MODELS["grouping/lying.py"].replace("CLAIM", "67"))
    alone = tw.solve("s1-example2", "lying", warm_start=start, time_limit=60, confirm=False)
    assert alone.status == "feasible" and "lying claims that this is optimal" in str(alone.unverified)
    with pytest.raises(tw.Disagreement, match=r"lying .* bound of 67, exact .* plan of 57"):
        tw.solve("s1-example2", "lying", warm_start=start, time_limit=60)
    path.write_text(MODELS["grouping/lying.py"].replace("CLAIM", "57"))
    best = tw.solve("s1-example2", "exact")
    found = tw.solve("s1-example2", "lying", warm_start=best, time_limit=60)
    assert (found.status, found.bound_by, found.confirmed_by) == ("optimal", "lying", "exact")
