"""What a known plan beats is not cut off from a formulation of the user's own, which may exclude it."""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from formulations import methods, need, room_of
from graphs_at_random import problem_at_random

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run.instance import parse, read
from tilewright.run.methods import Listener, run_method

CONV = {"name": "a", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
CHAIN = [CONV, {"name": "b", "input": [3, 6, 6], "kernels": 2, "kernel": [1, 1]}]
LAYER = {"input": [4, 8, 8], "kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
ARRAY = {"array": [2, 4], "functional_units": 2, "clock_mhz": 1}
PROBLEMS: dict[str, dict[str, Any]] = {
    "dsp": {"room": "tiling", "layer": LAYER, "machine": {"kind": "dsp", "memory_bytes": 512}},
    "npu": {
        "room": "tiling",
        "layer": LAYER,
        "machine": {
            "kind": "npu",
            "tles": 2,
            "tlts": 2,
            "input_bytes": 96,
            "weights_bytes": 96,
            "output_bytes": 64,
        },
    },
    "hierarchy": {
        "room": "tiling",
        "layer": {"input": [2, 4, 4], "kernels": 2, "kernel": [3, 3]},
        "machine": {
            "kind": "hierarchy",
            "levels": [{"name": "DRAM"}, {"name": "buffer", "capacity_bytes": 48}],
        },
        "objective": {"minimise": "accesses"},
    },
    "latency": {
        "room": "allocation",
        "network": {"layers": CHAIN},
        "machine": ARRAY,
        "objective": {"minimise": "latency"},
    },
    "interval": {
        "room": "allocation",
        "network": {"layers": CHAIN},
        "machine": ARRAY,
        "objective": {"minimise": "interval"},
    },
    "residency": {
        "room": "residency",
        "network": {"layers": CHAIN},
        "machine": {"memory_bytes": 150},
        "limits": {"order": "given"},
    },
}

MINIZINC = """include "{core}";
constraint :: "dearer than the best" objective > {best};
solve minimize objective;
"""

PYOMO = """import pyomo.environ as pyo
from tilewright.models.{room} import {name} as base
from tilewright.models.{room}.{name} import read, start


def build(problem, extras=True):
    model = base.build(problem)
    (objective,) = model.component_data_objects(pyo.Objective, active=True)
    least = {optimum} - getattr(model, "offset", 0)
    model.dearer = pyo.Constraint(expr=objective.expr >= least // getattr(model, "unit", 1) + 1)
    return model
"""

CPSAT = """from tilewright.models.{room} import {name} as base
from tilewright.models.{room}.{name} import read, start

WRITTEN_FOR = "cpsat"


def build(problem, extras=True):
    model = base.build(problem)
    goal = model.proto.objective
    least = {optimum} - getattr(model, "offset", 0)
    terms = zip(goal.coeffs, goal.vars)
    value = sum(by * model.get_int_var_from_proto_index(number) for by, number in terms)
    factor = goal.scaling_factor or 1
    model.add(factor * (value + int(goal.offset)) >= least // getattr(model, "unit", 1) + 1)
    return model
"""

CORES = {"npu": "core.npu.mzn", "hierarchy": "core.hierarchy.mzn"}


@cache
def problem(name: str) -> Any:
    if name == "scheduling":
        return problem_at_random(3, 4, most=6, native=3)
    if name in ("fusion", "bitwidth"):
        return read({"fusion": "squeezenet-fire", "bitwidth": "lenet5-bits"}[name]).problem
    return parse(PROBLEMS[name]).problem


NAMES = (*PROBLEMS, "scheduling", "fusion", "bitwidth")


@cache
def optimum(name: str) -> int:
    result = tw.solve(problem(name), time_limit=60)
    assert result.status == "optimal" and result.objective is not None
    return result.objective


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "path", "solver"),
    [(name, path, solver) for name in NAMES for path, solver in methods(problem(name))],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_model_that_excludes_the_known_plan_has_another(
    name: str, path: Path, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that must cost more than the optimum: its best plan does, and its proof is of itself only."""
    need(solver)
    case = problem(name)
    room = catalogue.room(room_of(case))
    best = optimum(name)
    folder = tmp_path / "models" / room.name
    folder.mkdir(parents=True)
    if path.suffix == ".mzn":
        offset, unit = room.minizinc.scale(case)
        text = MINIZINC.format(core=CORES.get(name, "core.mzn"), best=(best - offset) // unit)
    else:
        text = (PYOMO if solver == "highs" else CPSAT).format(room=room.name, name=path.stem, optimum=best)
    (folder / f"dearer{path.suffix}").write_text(text)
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    sys.modules.pop(f"tilewright.models.{room.name}.dearer", None)
    plans: list[Any] = []
    context = RunContext(deadline=time.monotonic() + 120, on_plan=plans.append)
    outcome = run_method(f"dearer@{solver}", case, context, Listener(lambda _versions: None))
    assert outcome.status == "optimal" and outcome.bound is not None and outcome.bound > best, outcome
    assert all(room.violation(case, plan) is None for plan in plans)
    if path.suffix == ".mzn":  # where the objective is what the plan costs, and no bound on it
        assert {room.objective(case, plan) > best for plan in plans} == {True}
