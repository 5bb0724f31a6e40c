"""Formulations that choose among listed steps agree with the search: any order, costs, limits."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import THOROUGH, examples, in_turn
from residency_cases import random_problem
from test_residency_without_dram import problem_in_flash
from test_residency_without_dram_oracle import network_of_windows
from tests import oracles
from tests.fuzz.campaigns import residency_problems
from tests.models.formulations import solve
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.models.residency import states
from tilewright.residency import Problem, memory_front, objective, reference, violation
from tilewright.residency.enumerated_steps import CERTAIN, Columns, places_of, why_not
from tilewright.residency.evaluation import costs_of
from tilewright.run import instance
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError

METHODS = ["columns_intervals@highs", "columns_divide@gecode", "columns_arcs@cpsat"]


def with_objective(rng: random.Random, problem: Problem) -> Problem:
    """Return a problem, perhaps with another objective and a limit about where it matters."""
    changes: dict[str, Any] = {}
    name = rng.choice(["traffic", "traffic", "cycles", "energy"])
    if name != "traffic":
        changes = {"machine": residency_problems.rates(rng), "objective": {"minimise": name}}
    problem = problem.with_(**changes) if changes else problem
    if rng.random() < 0.3:
        other = rng.choice(sorted({"traffic", "cycles", "energy"} - {name}))
        plan = tw.solve(problem, "states", time_limit=60, confirm=False).plan
        if plan is not None:
            limit = max(1, int(costs_of(problem, plan)[other] * rng.choice([0.9, 1.0, 1.1])))
            problem = problem.with_(objective={f"most_{other}": limit})
    return problem


@pytest.mark.parametrize("seed", range(examples(160)))
def test_columns_agree_with_the_search(seed: int) -> None:
    rng = random.Random(f"columns {seed}")
    problem = random_problem(rng, rng.choice([3, 4, 5]))
    try:
        problem = with_objective(rng, problem)
    except InputError:
        pytest.skip("no plan keeps such a limit")
    assert len(places_of(problem)) < 40
    if why_not(problem) is not None:
        assert problem.minimise == "energy"  # in femtojoules that is too much to be told apart
        return
    expected = tw.solve(problem, "states", time_limit=60, confirm=False)
    for method in in_turn(METHODS, seed):
        for start in in_turn(["none", "auto"], seed // 2):
            try:
                found = tw.solve(problem, method, time_limit=60, confirm=False, warm_start=start)
            except SolverMissingError as error:
                pytest.skip(str(error))
            except TilewrightError as error:
                assert "can be told apart" in str(error) or "MiniZinc counts to" in str(error)
                continue
            told = f"{method} {start}: {problem.model_dump_json()}"
            assert found.status in {expected.status, "optimal", "feasible"}, told
            if "optimal" in (found.status, expected.status) and found.objective is not None:
                assert found.objective == expected.objective, told
            if found.bound is not None and expected.objective is not None:
                assert found.bound <= expected.objective, told


@pytest.mark.parametrize("seed", range(examples(100, 6)))
def test_columns_agree_with_the_search_without_dram(seed: int) -> None:
    rng = random.Random(f"columns without DRAM {seed}")
    network = network_of_windows(rng)
    limits = {"inputs": rng.choice(["outside", "memory"]), "tiles": rng.random() < 0.7}
    front = memory_front(problem_in_flash(network, limits=limits))
    corner, names = rng.choice(front), ["memory", "macs", "traffic", ["macs", "memory"]]
    objective: Any = {"minimise": rng.choice(names)}
    if objective["minimise"] in ("memory", "traffic") and rng.random() < 0.7:
        objective["most_macs"] = corner.macs
    size = 2**20 if objective["minimise"] == "memory" else corner.taken_bytes
    problem = problem_in_flash(network, size, limits=limits, objective=objective)
    expected = tw.solve(problem, "states", time_limit=60, confirm=False)
    for method in in_turn([*METHODS, "columns_in_turn"], seed):
        if method.endswith("gecode") and problem.minimise == "memory":
            assert why_not(problem) is not None
            continue
        try:
            found = tw.solve(problem, method, time_limit=60, confirm=False, warm_start="none")
        except SolverMissingError as error:
            pytest.skip(str(error))
        told = f"{method}: {problem.model_dump_json()}"
        assert found.bound == expected.bound, told
        assert found.objective is not None, told
        assert found.objective >= found.bound, told
        if found.status == "optimal" and expected.status == "optimal":
            assert found.objective == expected.objective, told


def test_networks_of_the_page_are_taken() -> None:
    """Those with branches, and with more than a dozen operations."""
    for name in (
        "mb28-64k",
        "resnet8-64k",
        "vww-32k",
        "ds-cnn-16k",
        "lenet5-64k",
        *(["resnet8-cycles", "mobilenetv2-256k"] if THOROUGH else []),
    ):
        assert why_not(instance.read(name).problem) is None, name
    found = Columns(instance.read("resnet8-64k").problem)
    assert len(found.places) == 19
    assert len(found.columns) < 1_000
    assert found.allowed <= CERTAIN


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mb28-64k", "resnet8-64k", "vww-32k", "ds-cnn-16k", "lenet5-64k"])
def test_bundled_instances_are_proven_by_columns(name: str) -> None:
    result = tw.solve(name, METHODS[0], time_limit=60, warm_start="none")
    assert result.status == "optimal"


KINDS = ("frames", "executions", "memory", "list", "traffic", "timed")
STATED = ("frames", "executions", "memory", "traffic", "timed")
NOT_TAKEN = [("executions", "columns_arcs"), ("list", "columns_arcs"), ("list", "columns_intervals")]


def problem_of_kind(rng: random.Random, kind: str) -> Problem:
    """Return a problem of few operations: many frames, second executions, memory, or a list of objectives."""
    problem = random_problem(rng, rng.choice([2, 3, 4]))
    if kind in ("frames", "executions"):
        changes: dict[str, Any] = {"limits": {"frames": "many"} if kind == "frames" else {"executions": 2}}
    else:
        names = {"memory": "memory", "list": list(rng.choice(residency_problems.LISTS)), "timed": "cycles"}
        changes = {"objective": {"minimise": names.get(kind, "traffic")}}
        if kind in ("list", "timed"):
            changes["machine"] = residency_problems.rates(rng)
        if kind == "list" and rng.random() < 0.5:
            changes["objective"]["tolerance"] = rng.choice([0.05, 0.3])
        if kind == "memory" and rng.random() < 0.7:
            least = oracle.least(problem.model_dump(mode="json"))
            assert least is not None
            changes["objective"]["most_traffic"] = int(least["traffic"] * rng.choice([1, 1.1, 1.3]))
    return problem.with_(**changes)


def agrees_with_the_oracle(rng: random.Random, kind: str) -> None:
    """Compare what the models prove with a walk through all plans."""
    try:
        problem = problem_of_kind(rng, kind)
        best = oracle.best(problem.model_dump(mode="json"))
    except InputError:
        pytest.skip("nothing fits")
    except oracles.TooLarge:
        pytest.skip("too large for the oracle")
    for name in ("columns_in_turn", "columns_arcs", "columns_intervals"):
        model: Any = catalogue.formulation("residency", name)
        if model.suits(problem):
            agrees_with_the_best(problem, model, best)
        else:
            assert (kind, name) in NOT_TAKEN


def agrees_with_the_best(problem: Problem, model: Any, best: int | None) -> None:
    """Compare what a model proves with the least that any plan costs."""
    plans: list[Any] = []
    bounds: list[int] = []
    told = f"{model.__name__}: {problem.model_dump_json()}"
    context = RunContext(on_plan=plans.append, on_bound=lambda bound, *_: bounds.append(bound))
    context.deadline = time.monotonic() + 60
    if catalogue.solves_itself(Path(str(model.__file__))):
        outcome = model.solve(problem, context)
    else:
        solver = "highs" if model.__name__.endswith("columns_intervals") else "cpsat"
        outcome = drivers.load(solver).solve(problem, model, context)
    if best is None:
        assert outcome.status == "infeasible", told
        return
    assert outcome.status in ("optimal", "feasible"), told
    assert max([*bounds, outcome.bound]) <= best, told
    valid = [plan for plan in plans if violation(problem, plan) is None]
    assert min([objective(problem, plan) for plan in valid], default=best) >= best, told
    # Sizes may have a solution that addresses have not.
    if outcome.status == "optimal" and violation(problem, outcome.plan) is None:
        assert objective(problem, outcome.plan) == outcome.bound == best, told


@pytest.mark.parametrize("seed", range(examples(300, 4)))
def test_models_agree_with_the_oracle(seed: int) -> None:
    pytest.importorskip("ortools")
    agrees_with_the_oracle(random.Random(f"in turn {seed}"), KINDS[seed % len(KINDS)])


MOST_COUNTED = 60_000
"""Numbers that the reference model counts of a problem that it most often solves in time."""


def small_problem(rng: random.Random, kind: str) -> Problem:
    """Return a problem of a kind, with limits at times; the reference model most often solves it in time."""
    limits: dict[str, Any] = {}
    if rng.random() < 0.5:
        some = {"order": "given", "tiles": False, "most_operations": rng.randint(1, 2)}
        limits = dict([rng.choice([*some.items()])])
    while True:
        try:
            problem = problem_of_kind(rng, kind).with_(limits=limits)
        except (InputError, oracles.TooLarge):
            continue
        if reference.why_not(problem) is None and reference.size(problem) <= MOST_COUNTED:
            return problem


def proves_as_much(problem: Problem, outcome: Outcome, expected: Outcome, told: str) -> None:
    """Check that a model and the search claim nothing that the other one refutes.

    Sizes may have a solution that addresses have not: then bounds agree, and no plan meets them.
    """
    cost = objective(problem, expected.plan)
    assert outcome.bound is None or outcome.bound <= cost, told
    if outcome.plan is not None and violation(problem, outcome.plan) is None:
        assert objective(problem, outcome.plan) >= expected.bound, told
        assert outcome.status != "optimal" or objective(problem, outcome.plan) == outcome.bound <= cost, told


@pytest.mark.parametrize("seed", range(examples(1000, 4)))
def test_columns_agree_with_the_search_and_the_reference(seed: int) -> None:
    """The start is at times what the search has found."""
    problem = small_problem(random.Random(f"reference {seed}"), STATED[seed % len(STATED)])
    expected = states.solve(problem, RunContext())
    told = problem.model_dump_json()
    assert expected.status == "optimal" or expected.bound < objective(problem, expected.plan), told
    start = expected.plan if seed % 2 else None
    for name, solver, seconds in (("columns_intervals", "highs", 60), ("reference", "gecode", 10)):
        path = catalogue.model("residency", name)
        given = start if solver == "highs" else None
        outcome = solve(problem, path, solver, seconds=seconds, start=given)
        proves_as_much(problem, outcome, expected, f"{name}: {told}")
        if solver == "highs":
            assert outcome.bound == expected.bound, told
