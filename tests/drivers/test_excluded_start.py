"""A model that excludes a valid warm start is told with the constraint; one of ours would be wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from conftest import in_turn
from formulations import need
from tests import command

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import parse
from tilewright.spec.errors import Disagreement

LAYER = """room = "grouping"
[layer]
input = [1, 5, 5]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 2
[limits]
steps = "kmin"
"""

MINIZINC = """include "ordered.mzn";
constraint {name} step[1] = n_steps;
"""
"""What `ordered` says and one wrong thing more: the patch that every start has in its first steps is last."""

PYOMO = '''"""The paper's program, in which the first patch is computed last."""

from tilewright.models.grouping import s1
from tilewright.models.grouping.s1 import read, size, start


def build(problem, extras=True):
    model = s1.build(problem)
    {wrong}
    return model
'''

CPSAT = '''"""Patches in order, of which the first is computed last."""

from tilewright.models.grouping import gaps
from tilewright.models.grouping.gaps import read, size, start

WRITTEN_FOR = "cpsat"


def build(problem, extras=True):
    model = gaps.build(problem, extras)
    {wrong}
    return model
'''


def solved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, *options: str, solver: str = "highs"
) -> subprocess.CompletedProcess[str]:
    """Solve with a formulation of the user's own, from the start that the zigzag heuristic finds."""
    models = folder / "models" / "grouping"
    models.mkdir(parents=True)
    (models / file).write_text(text)
    (folder / "layer.toml").write_text(LAYER)
    monkeypatch.setenv("TILEWRIGHT_PATH", str(folder))
    method = file.replace(".mzn", "@gecode").replace(".py", f"@{solver}")
    return command.run(folder, "solve", "layer.toml", "--with", method, *options)


def check_told(done: subprocess.CompletedProcess[str], where: str) -> None:
    """Check that the start has been left out, and that the run has gone on without it."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warm start" in done.stdout
    assert f"the model late excludes it: {where}" in " ".join(done.stdout.split())


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("file", "text", "solver", "told"),
    [
        ("late.mzn", MINIZINC.format(name=':: "last"'), "gecode", 'constraint "last"'),
        (
            "late.py",
            "import pyomo.environ as pyo\n\n"
            + PYOMO.format(wrong="model.last = pyo.Constraint(expr=model.P_g[0, max(model.STEPS)] == 1)"),
            "highs",
            "it breaks constraint last",
        ),
        (
            "late.py",
            CPSAT.format(wrong="model.add(model.at[0][-1] == 1).with_name('last')"),
            "cpsat",
            "it breaks constraint last",
        ),
    ],
)
def test_a_model_of_ours_must_not_exclude_a_valid_start(
    file: str, text: str, solver: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers take every model for ours that nobody calls narrow."""
    need(solver)
    folder = tmp_path / "models" / "grouping"
    folder.mkdir(parents=True)
    (folder / file).write_text(text)
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    sys.modules.pop("tilewright.models.grouping.late", None)
    problem = parse(tomllib.loads(LAYER)).problem
    context = RunContext(
        start=catalogue.heuristic("grouping", "zigzag").plan(problem), deadline=time.monotonic() + 60
    )
    with pytest.raises(Disagreement, match=re.escape(f"excludes a start that is valid: {told}")):
        drivers.load(solver).solve(problem, catalogue.formulation("grouping", "late"), context)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "told", "threads"),
    [
        (name, told, threads)
        for turn, (name, told) in enumerate(
            (
                (':: "the first patch comes last"', 'constraint "the first patch comes last"'),
                ("", 'constraint "late.mzn, line 2"'),
                (':: "in two lines"\n ', 'constraint "in two lines"'),
            )
        )
        for threads in in_turn("12", turn)
    ],
)
def test_gecode_names_the_constraint_that_excludes_a_valid_start(
    name: str, told: str, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("gecode")
    text = MINIZINC.format(name=name)
    options = "--warm-start", "zigzag", "--threads", threads
    check_told(solved(tmp_path, monkeypatch, "late.mzn", text, *options), told)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "model.first_patch_comes_last = pyo.Constraint(expr=model.P_g[0, max(model.STEPS)] == 1)",
            "it breaks constraint first_patch_comes_last",
        ),
        (
            "model.few = pyo.Constraint(model.STEPS, rule=lambda m, k: sum(m.P_g[:, k]) <= k)",
            "it breaks constraint few[1]",
        ),
        ("model.P_g[0, 1].setub(0)", "P_g[0,1] = 1 is no value of that variable"),
    ],
)
def test_highs_names_the_constraint_that_excludes_a_valid_start(
    wrong: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("highs")
    text = "import pyomo.environ as pyo\n\n" + PYOMO.format(wrong=wrong)
    check_told(solved(tmp_path, monkeypatch, "late.py", text, "--warm-start", "zigzag"), told)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "model.add(model.at[0][-1] == 1).with_name('first patch comes last')",
            "it breaks constraint first patch comes last",
        ),
        ("model.add(model.at[0][0] == 0)", "it breaks constraint"),
    ],
)
def test_cpsat_names_the_constraint_that_excludes_a_valid_start(
    wrong: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("cpsat")
    text = CPSAT.format(wrong=wrong)
    options = "--warm-start", "zigzag"
    check_told(solved(tmp_path, monkeypatch, "late.py", text, *options, solver="cpsat"), told)
