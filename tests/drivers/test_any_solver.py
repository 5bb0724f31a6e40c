"""Solvers that we do not test, drivers of the user's own, and files that are not what they must be."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import nightly, tells
from tests import command

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.grouping import Problem
from tilewright.run.instance import read
from tilewright.run.methods import check_method, is_method, is_trusted, methods
from tilewright.run.solve import solve
from tilewright.run.solving import second_route
from tilewright.run.verify import check
from tilewright.spec.errors import Disagreement, InputError, SolverMissingError, UnknownNameError

SMALL = Problem.model_validate({
    "layer": {"input": [1, 5, 5], "kernels": 1, "kernel": [3, 3]},
    "machine": {"group_size": 2},
    "limits": {"steps": "kmin"},
})  # fmt: skip

LYING = '''
"""Highs, with another answer than its own."""
from tilewright.core.context import Outcome
from tilewright.drivers import highs
TAKES = ".py"
INSTALL = "nothing"

def versions():
    return {"lying": "1"}

def solve(problem, formulation, search, *, extras=True):
    found = highs.solve(problem, formulation, search, extras=extras)
    return Outcome(LIE)
'''


TINY = Problem.model_validate({
    "layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [3, 3]},
    "machine": {"group_size": 2},
    "limits": {"steps": "kmin"},
})  # fmt: skip


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give second methods all the time that there is, on a busy machine, too."""
    monkeypatch.setattr(second_route, "INFEASIBLE_SECONDS", 60.0)


def need(solver: str) -> None:
    if not drivers.available(solver):
        pytest.skip(f"{solver} is not installed")


@pytest.fixture
def own(monkeypatch, tmp_path):
    """Return what puts a driver into a folder of the user's own."""
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    (tmp_path / "drivers").mkdir()

    def put(name: str, text: str) -> Path:
        path = tmp_path / "drivers" / f"{name}.py"
        path.write_text(text)
        sys.modules.pop(f"tilewright.drivers.{name}", None)
        return path

    return put


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("name", "solver"),
    [("lives", f"pyomo:{solver}") for solver in ("appsi_highs", "cbc", "glpk", "scip_direct", "gurobi")]
    + [
        ("ordered", f"minizinc:{solver}")
        for solver in ("gecode", "chuffed", "cp-sat", "coin-bc", "cplex", "xpress")
    ],
)
def test_any_solver_proves_what_ours_prove(name, solver):
    need(solver)
    formulation = catalogue.formulation("grouping", name)
    context = RunContext(deadline=time.monotonic() + 300)
    outcome = drivers.load(solver).solve(TINY, formulation, context)
    known = solve(TINY, "exact")
    assert (outcome.status, outcome.bound) == ("optimal", known.objective)
    assert catalogue.room("grouping").objective(TINY, outcome.plan) == known.objective


@pytest.mark.parametrize(
    "method", [pytest.param("lives@pyomo:appsi_highs", marks=nightly), "ordered@minizinc:gecode"]
)
def test_what_any_solver_proves_counts_when_a_second_method_has_proven_it(method):
    need(method.split("@")[1])
    result = solve(SMALL, method, time_limit=60)
    assert (result.status, result.bound_by, result.unverified) == ("optimal", method, None)
    assert result.confirmed_by is not None and is_trusted("grouping", result.confirmed_by)
    alone = solve(SMALL, method, time_limit=60, confirm=False)
    assert (alone.status, alone.objective) == ("feasible", result.objective)
    assert alone.bound is not None and alone.bound_by != method
    assert alone.unverified == f"{method} claims that this is optimal; no second method has proven it"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ('"optimal", None, 10**6', "there is a valid plan"),
        ('"infeasible"', "infeasible"),
    ],
)
def test_a_solver_that_lies_is_caught_by_a_plan(own, lie, told):
    own("lying", LYING.replace("LIE", lie))
    with pytest.raises(Disagreement, match=told):
        solve(SMALL, "lives@lying", time_limit=60)


def test_a_solver_that_calls_a_start_optimal_is_caught_by_a_second_method(own):
    start = catalogue.heuristic("grouping", "row_by_row").plan(SMALL)
    cost, best = catalogue.room("grouping").objective(SMALL, start), solve(SMALL, "exact").objective
    assert best is not None and cost > best
    own("lying", LYING.replace("LIE", f'"optimal", None, {cost}').replace("found = highs", "0 and highs"))
    with pytest.raises(Disagreement, match=rf"bound of {cost}, \w+(@highs)? .* plan of"):
        solve(SMALL, "lives@lying", warm_start=start, time_limit=60)
    # Where nobody looks, it is not believed.
    result = solve(SMALL, "lives@lying", warm_start=start, time_limit=60, confirm=False)
    assert (result.status, result.objective) == ("feasible", cost)
    assert "lives@lying claims that this is optimal" in str(result.unverified)


@nightly
def test_a_result_that_rests_on_any_solver_alone_is_proven_by_another(tmp_path):
    instance = read("s1-example2")
    method = "ordered@minizinc:gecode"
    need("minizinc:gecode")
    found = solve(instance, method, time_limit=60)
    assert found.status == "optimal"
    findings = {finding.what: finding for finding in check(instance, found, time_limit=60)}
    assert findings["bound"].state == "verified"
    assert not findings["bound"].detail.startswith(f"{found.bound}: {method}")


def test_any_solver_confirms_nothing():
    assert all(is_trusted("grouping", method) for method in second_route.routes(SMALL))


def test_names_with_a_colon_are_methods():
    assert is_method("grouping", "ordered@minizinc:chuffed")
    assert is_method("grouping", "s1@pyomo:cbc")
    assert not is_method("grouping", "s1@minizinc:chuffed")
    assert not any(":" in method for method in methods("grouping"))  # those that can be run, whatever is here
    with pytest.raises(UnknownNameError, match="highs, pyomo:SOLVER"):
        check_method("grouping", "s1@minizinc:")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("minizinc:nothing", "MiniZinc .* nothing.*gecode"),
        ("minizinc:gist", "gist.* windows"),
        ("pyomo:nothing", "Pyomo .* nothing.*`tilewright list solvers`"),
        ("pyomo:neos", "Pyomo .* neos"),
        ("pyomo:mosek_direct", "Pyomo .* mosek_direct"),
    ],
)
def test_a_solver_that_is_not_here_is_told_with_those_that_are(name, told):
    if name.startswith("minizinc"):
        need("gecode")
    with pytest.raises(SolverMissingError, match=told):
        drivers.load(name)


def test_exit_status_of_a_solver_that_is_not_here(tmp_path):
    done = command.run(tmp_path, "solve", "s1-example2", "--with", "s1@pyomo:nothing", "--time-limit", "60")
    assert done.returncode == 3
    assert tells(done.stderr, "Pyomo .. nothing")


# The user's own -------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_driver_in_a_folder_of_the_users_own(own):
    own("mine", LYING.replace("return Outcome(LIE)", "return found"))
    assert "lives@mine" in methods("grouping")
    assert not is_trusted("grouping", "lives@mine")
    result = solve(SMALL, "lives@mine", time_limit=60)
    assert (result.status, result.bound_by) == ("optimal", "lives@mine")


def test_a_driver_of_a_package(monkeypatch, tmp_path):
    (tmp_path / "package_with_driver.py").write_text(LYING.replace("return Outcome(LIE)", "return found"))
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "package_with_driver-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: package-with-driver\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tilewright.drivers]\npackaged = package_with_driver\n")
    drivers._entry_points.cache_clear()
    try:
        assert drivers.find("packaged").takes == ".py"
        assert drivers.versions("packaged") == {"lying": "1"}
    finally:
        drivers._entry_points.cache_clear()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", r"`TAKES = \"\.py\"`.*bad\.py"),
        ('TAKES = ".py"\n', r"`versions\(\)`.*bad\.py"),
        (
            'TAKES = ".py"\n\ndef versions():\n    return {}\n\ndef solve(problem):\n    return None\n',
            r"`solve\(problem, formulation, search, extras\)`.*`solve\(problem\)`.*bad\.py, line 6",
        ),
        ('TAKES = ".py"\n1 / 0\n', r"ZeroDivisionError.*bad\.py, line 2"),
    ],
)
def test_a_file_that_is_no_driver_is_told_with_its_line(own, text, told):
    own("bad", text)
    with pytest.raises(InputError, match=told):
        drivers.load("bad")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def build(problem):\n    pass\n", r"`start\(model, plan\)`.*mine\.py"),
        (
            "def build(problem):\n    pass\n\ndef start(model):\n    pass\n\ndef read(model):\n    pass\n",
            r"`start\(model, plan\)`.*`start\(model\)`.*mine\.py, line 4",
        ),
        ("def solve(problem):\n    pass\n", r"`solve\(problem, search\)`.*mine\.py, line 1"),
    ],
)
def test_a_file_that_is_no_formulation_is_told_with_its_line(monkeypatch, tmp_path, text, told):
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    path = tmp_path / "models" / "grouping" / "mine.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    sys.modules.pop("tilewright.models.grouping.mine", None)
    with pytest.raises(InputError, match=told):
        catalogue.formulation("grouping", "mine")


def test_a_model_without_unit_counts_one_by_one():
    need("pyomo:appsi_highs")
    fire = read("squeezenet-fire").problem
    formulation = catalogue.formulation("fusion", "columns_partition")
    outcome = drivers.load("pyomo:appsi_highs").solve(fire, formulation, RunContext())
    assert outcome.bound == catalogue.room("fusion").objective(fire, outcome.plan)


def test_what_is_too_large_is_refused_by_every_driver():
    vgg = read("vgg16-conv1_2-g8").problem
    for solver, name in (("pyomo:appsi_highs", "lives"), ("minizinc:gecode", "ordered")):
        need(solver)
        with pytest.raises(InputError, match=r"\d+ constraints .* \d+"):
            drivers.load(solver).solve(vgg, catalogue.formulation("grouping", name), RunContext())


# Export ---------------------------------------------------------------------------------------------------


def exported(folder: Path, *arguments: str) -> Path:
    done = command.run(folder, "export", *arguments)
    assert done.returncode == 0, done.stderr
    return folder / arguments[-1]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("suffix", ["mps", "lp"])
def test_an_exported_program_has_the_same_optimum(tmp_path, suffix):
    import highspy

    path = exported(tmp_path, "alexnet-conv3-64k", "--with", "tiles", "-o", f"x.{suffix}")
    offset, unit = (int(word) for word in path.read_text().split("\n")[0].split() if word.isdigit())
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    solver.run()
    best = solve("alexnet-conv3-64k", time_limit=60)
    assert best.status == "optimal"
    assert offset + unit * round(solver.getInfo().objective_function_value) == best.objective


@pytest.mark.nightly
@pytest.mark.parametrize("suffix", ["dzn", "json", "fzn"])
def test_exported_minizinc_has_the_same_optimum(tmp_path, suffix):
    need("gecode")
    path = exported(tmp_path, "squeezenet-fire", "--with", "columns_cover", "-o", f"x.{suffix}")
    model = [] if suffix == "fzn" else [str(catalogue.model("fusion", "columns_cover"))]
    output = [] if suffix == "fzn" else ["--output-mode", "json"]
    done = subprocess.run(["minizinc", *output, *model, path], capture_output=True, text=True, timeout=60)
    assert done.stdout.rstrip().endswith("=========="), done.stderr
    offset, unit = catalogue.room("fusion").minizinc.scale(read("squeezenet-fire").problem)
    best = solve("squeezenet-fire", "downsets").objective
    if suffix == "fzn":
        told = re.findall(r"^objective = (-?\d+);", done.stdout, re.MULTILINE)
        assert offset + unit * int(told[-1]) == best
    else:
        last = json.loads(done.stdout.split("----------")[-2])
        assert offset + unit * last["objective"] == best


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("instance", "model", "fixed"),
    [("minimalloc-example", "rectangles", "3..3"), ("mnist-tcpa", "columns_balance", None)],
)
def test_flat_models_tell_their_objective(tmp_path, instance, model, fixed):
    """MiniZinc puts a number in its place where it is fixed, and another variable that is the same."""
    need("gecode")
    path = exported(tmp_path, instance, "--with", model, "-o", "x.fzn")
    text = Path(path).read_text()
    if fixed is not None:
        assert f"var {fixed}: objective:: output_var;" in text
    done = subprocess.run(["minizinc", path], capture_output=True, text=True, timeout=60)
    told = re.findall(r"^objective = (-?\d+);", done.stdout, re.MULTILINE)
    offset, unit = catalogue.room(read(instance).room).minizinc.scale(read(instance).problem)
    assert offset + unit * int(told[-1]) == solve(instance).objective


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["s1-example2", "--with", "ordered", "-o", "x.mps"], "ordered can be written as .dzn, .json, .fzn"),
        (["s1-example2", "--with", "exact", "-o", "x.mps"], "solves problems by itself"),
        (["lenet-nmp", "--with", "cores", "-o", "x.dzn"], "layer: must be one of: "),
        (["s1-example2", "--with", "nothing", "-o", "x.mps"], "unknown model"),
    ],
)
def test_what_cannot_be_exported_is_told(tmp_path, arguments, told):
    done = command.run(tmp_path, "export", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("room", ["grouping", "bitwidth", "allocation"])
def test_a_folder_for_others_runs_and_its_checker_accepts(tmp_path, room):
    need("gecode")
    folder = exported(tmp_path, room, "--challenge", "--time-limit", "0.1", "-o", "taken")
    lines = (folder / "best-known.csv").read_text().splitlines()
    assert len(lines) > 1
    for model in sorted(path for path in folder.iterdir() if path.is_dir()):
        instances = sorted(model.glob("*/*.dzn"), key=lambda path: path.stat().st_size)
        checker = model / f"{model.name}.mzc.mzn"
        files = [*([checker] if checker.exists() else []), model / f"{model.name}.mzn", instances[0]]
        done = subprocess.run(
            ["minizinc", "--time-limit", "20000", *files], capture_output=True, text=True, timeout=60
        )
        assert "----------" in done.stdout, done.stderr
        assert "INCORRECT" not in done.stdout
        assert ("CORRECT" in done.stdout) == checker.exists()


# Solvers that die or babble -------------------------------------------------------------------------------

FAKE = """#!/bin/bash
for word in "$@"; do
  case "$word" in --version|--solvers-json|--model-interface-only|--config-dirs) exec {real} "$@";; esac
done
{instead}
"""


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ("kill -9 $$", "has failed: MiniZinc stopped with a non-zero exit code"),
        ("echo hello", "cannot be parsed as JSON: b'hello'"),
        ("echo boom >&2; exit 3", "has failed: boom"),
        (
            """echo '{"type": "solution", "output": {"json": {"step": [9]}}, "sections": ["json"]}'""",
            "failed: ",
        ),
    ],
    ids=["killed", "babbling", "complaining", "another model"],
)
def test_a_solver_that_dies_or_babbles_does_not_work(tmp_path, monkeypatch, instead, told):
    """That is exit status 3: neither the instance nor the model is to blame."""
    need("gecode")
    real = shutil.which("minizinc")
    fake = tmp_path / "bin" / "minizinc"
    fake.parent.mkdir()
    fake.write_text(FAKE.format(real=real, instead=instead))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    done = command.run(tmp_path, "solve", "s1-example2", "--with", "ordered@gecode", "--time-limit", "30")
    assert done.returncode == 3, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if "compiling" not in line]  # on a machine's first run
    assert told in done.stderr and len(said) == 1


@pytest.mark.nightly
def test_a_solver_whose_process_dies_does_not_work(own, tmp_path):
    path = own("dying", LYING.replace("return Outcome(LIE)", "os.kill(os.getpid(), 9)"))
    path.write_text("import os\n" + path.read_text())
    done = command.run(tmp_path, "solve", "s1-example2", "--with", "lives@dying", "--time-limit", "30")
    assert done.returncode == 3
    assert "lives@dying failed: exit status -9" in done.stderr


@pytest.mark.nightly
def test_an_assertion_that_fails_is_a_contradiction(own, tmp_path):
    own("asserting", LYING.replace("return Outcome(LIE)", "assert None"))
    done = command.run(tmp_path, "solve", "s1-example2", "--with", "lives@asserting", "--time-limit", "30")
    assert done.returncode == 4
    assert "lives@asserting failed: AssertionError (" in done.stderr and len(done.stderr.splitlines()) == 1
