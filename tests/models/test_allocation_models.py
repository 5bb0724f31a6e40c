"""Every formulation that chooses the splits of a pipeline's layers, with each solver that takes it."""

import json
import random
import subprocess
from functools import cache
from itertools import product

import pytest
from allocation.pipelines_at_random import networks, pipeline, with_border
from conftest import THOROUGH, examples, thinned
from formulations import check_agreement, core_text, methods, need, solve, with_and_without_extras, with_each
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numbered import randoms
from tests.oracles import TooLarge
from tests.oracles.allocation import Pipeline

from tilewright.allocation import (
    PACINGS,
    Plan,
    Problem,
    minizinc,
    objective,
    violation,
)
from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.split_options import Choices
from tilewright.allocation.splits import LayerSplit
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric


def conv(name, size, kernels, kernel=(1, 1), **more):
    return {"name": name, "input": size, "kernels": kernels, "kernel": kernel, **more}


def pool(name, size, kernel=(2, 2), stride=(2, 2), **more):
    return {"name": name, "kind": "pool", "input": size, "kernel": kernel, "stride": stride, **more}


CHAIN = [conv("a", (2, 6, 6), 4, (3, 3), padding=(1,) * 4), pool("b", (4, 6, 6)), conv("c", (4, 3, 3), 3)]
BRANCHES = [
    conv("a", (1, 5, 5), 3, (2, 2)),
    conv("b", (3, 4, 4), 2, (3, 3), padding=(1,) * 4),
    conv("c", (3, 4, 4), 2, inputs=["a"]),
    {"name": "d", "kind": "add", "input": (2, 4, 4), "inputs": ["b", "c"]},
]
JOINED = [
    conv("a", (1, 6, 5), 2, (1, 2)),
    pool("b", (1, 6, 5), (1, 2), (1, 1), inputs=["input"]),
    conv("c", (3, 6, 4), 4, (3, 1), stride=(2, 1), inputs=["a", "b"]),
]
# At 45 beats the second layer is too fast for the 81 of the first one: it starts late, unless it waits.
WAITING = [conv("a", (1, 9, 9), 1), conv("b", (1, 9, 9), 1, stride=(1, 2)), conv("c", (1, 9, 5), 2)]
RESTING = [
    conv("a", (2, 7, 5), 2, stride=(1, 2)),
    conv("b", (2, 7, 3), 1, stride=(1, 2)),
    pool("c", (1, 7, 2), (2, 1), (1, 1)),
]


def problem(minimise, layers=CHAIN, array=(2, 4), units=2, rate=None, **limits) -> Problem:
    """Build a problem at 1 MHz; `rate` is the longest interval."""
    frames = {} if rate is None else {"frames_per_second": 1e6 / rate}
    return Problem.model_validate({
        "network": {"layers": layers},
        "machine": {"array": array, "functional_units": units, "clock_mhz": 1},
        "objective": {"minimise": minimise, **frames},
        "limits": limits,
    })  # fmt: skip


TURNS = {"execution": "layer-by-layer"}
TINY = {
    **{
        f"{minimise}, {name}": problem(minimise, layers, rate=rate if minimise == "pes" else None, **limits)
        for minimise in ("interval", "pes", "latency")
        for name, layers, rate, limits in (
            ("chain", CHAIN, 700, {}),
            ("branches", BRANCHES, 300, {}),
            ("joined", JOINED, 60, {}),
            ("maps", CHAIN, 400, {"splits": ["filters", "maps"], "functional_units": "any"}),
            ("maps only", CHAIN, 1300, {"splits": ["maps"]}),
            ("fields", CHAIN, 700, {"scan": "fields"}),
            ("given PEs", CHAIN, 700, {"pes": {"a": 2}}),
            ("in turn", CHAIN, 900, TURNS),
        )
    },
    "interval, rows": problem("interval", splits=["filters", "rows"]),
    "pes, rows": problem("pes", splits=["filters", "maps", "rows"], rate=300),
    "interval, no more PEs than layers": problem("interval", array=(1, 3)),
    "interval, single layer": problem("interval", CHAIN[:1], array=(1, 1)),
    "interval, uneven filters": problem("interval", [conv("a", (4, 3, 3), 3)], array=(1, 2)),
    "interval, two alike": problem("interval", [conv(name, (4, 3, 3), 4) for name in "ab"], array=(1, 3)),
    "interval, kept rate": problem("interval", rate=700),
    "latency, kept rate": problem("latency", rate=700),
    "latency, all layers wait": problem("latency", WAITING, array=(1, 3)),
    "latency, units that rest": problem("latency", RESTING, array=(1, 4), units=3),
    "pes in turn, rows": problem("pes", splits=["filters", "rows"], rate=800, **TURNS),
    "latency in turn, kept rate": problem("latency", rate=500, **TURNS),
    "interval, too high a rate": problem("interval", array=(1, 4), rate=400),
    "latency, too high a rate": problem("latency", array=(1, 4), rate=400),
    "pes, too high a rate": problem("pes", array=(1, 4), rate=400),
    "pes in turn, too high a rate": problem("pes", array=(1, 2), rate=600, **TURNS),
}

FOLDER = catalogue.folders("models", "allocation")[0]
METHODS = methods(TINY["interval, chain"])
WITH_EACH_METHOD = with_each(METHODS)
FAST = [(path, solver) for path, solver in METHODS if path.stem != "reference"]
"""Formulations that choose among splits that nothing replaces, and look at no buffers."""


def test_there_are_formulations():
    assert {path.name for path, _ in METHODS} >= {"columns_balance.mzn", "columns_pipeline.py"}


def every_split(case: Problem, stage) -> list[LayerSplit]:
    """Return the splits of a layer, without those of the same PEs, beats and cycles as another one."""
    task, pes, units = stage.task, range(1, case.machine.pes + 1), range(1, case.machine.functional_units + 1)
    found = {}
    for split in (LayerSplit(*parts) for parts in product(pes, pes, pes, units, units)):
        useful = split.filters <= task.filters and split.maps <= task.maps and split.rows <= task.rows
        fixed = stage.name in case.limits.pes
        fits = split.pes <= case.machine.pes
        if (useful or fixed) and fits and split.violation(case.machine, case.limits, stage) is None:
            found.setdefault((split.pes, split.beats(task), split.cycles(task)), split)
    return list(found.values())


def every_plan(case: Problem) -> list[Plan]:
    """Return all plans, of which some break a limit."""
    names = tuple(stage.name for stage in case.stages)
    chosen = product(*(every_split(case, stage) for stage in case.stages))
    return [Plan(names, splits, pacing) for splits in chosen for pacing in PACINGS]


def least(case: Problem) -> int | None:
    """Return the least objective of all valid plans."""
    return min(
        (objective(case, plan) for plan in every_plan(case) if violation(case, plan) is None), default=None
    )


@cache
def enumerated(name: str) -> int | None:
    """Return that of a tiny problem."""
    return least(TINY[name])


@pytest.mark.by_day(9)
@with_and_without_extras(TINY)
@WITH_EACH_METHOD
def test_agrees_with_enumeration(path, solver, name, extras):
    check_agreement(TINY[name], path, solver, extras, enumerated(name))


@settings(max_examples=examples(30))
@given(data=st.data())
def test_agree_on_random_networks(data):
    """All of them say what enumeration says."""
    minimise = data.draw(st.sampled_from(["interval", "latency"]))
    layers = data.draw(networks(most_layers=3))["layers"]
    array, units = (1, data.draw(st.integers(3, 6))), data.draw(st.integers(1, 3))
    limits = {
        "execution": data.draw(st.sampled_from(["layer-parallel", "layer-by-layer"])),
        "splits": data.draw(st.sampled_from([["filters"], ["filters", "maps"]])),
        "scan": data.draw(st.sampled_from(["rows", "fields"])),
    }
    case = problem(minimise, layers, array, units, **limits)
    expected = least(case)
    for path, solver in METHODS:
        outcome = solve(case, path, solver)
        assert (outcome.status, outcome.bound) == ("optimal", expected)
        assert violation(case, outcome.plan) is None


@settings(max_examples=examples(200, 5))
@given(randoms)
def test_agree_where_layers_wait_for_the_host(drawn) -> None:
    """What the host takes is a floor of the interval; of what is more they say why they do not take it."""
    asked = pipeline(drawn, host=True, goals=("interval", "pes", "energy", "latency"))
    found = parametric.solve(asked, RunContext())
    for path, solver in (*METHODS, (catalogue.model("allocation", "columns_energy"), "highs")):
        if not catalogue.suits(catalogue.formulation("allocation", path.stem), asked):
            continue
        outcome = solve(asked, path, solver)
        assert outcome.status == found.status
        if outcome.plan is not None:
            assert outcome.bound == found.bound
            assert violation(asked, outcome.plan) is None
            assert objective(asked, outcome.plan) == outcome.bound


def test_what_is_left_to_the_reference_is_told() -> None:
    softmax = {"name": "s", "kind": "map", "op": "softmax"}
    layers = [conv("a", (1, 4, 4), 2), softmax, conv("b", (2, 4, 4), 2)]
    for goal, execution in (("latency", "layer-parallel"), ("interval", "layer-by-layer")):
        case = problem(goal, layers, execution=execution)
        for path, _ in FAST:
            method = catalogue.formulation("allocation", path.stem)
            assert not catalogue.suits(method, case)
            assert "(s)" in catalogue.why_not(method, case)


# Networks --------------------------------------------------------------------------------------------------


NETWORKS = {"mnist-tcpa": (4, 500_000), "vgg16": (16, 50_000_000), "mobilenetv2": (16, 1_000_000)}


@pytest.mark.by_day(9)
@pytest.mark.parametrize(
    ("network", "minimise"),
    [
        pair
        for pair in product(NETWORKS, ("interval", "pes", "latency"))
        if pair != ("mobilenetv2", "latency")
    ],
)
@with_each(FAST)
def test_networks_are_proven(path, solver, network, minimise):
    """As the room's own search proves them, in a few seconds."""
    side, rate = NETWORKS[network]
    layers = catalogue.shared("networks", network)["layers"]
    case = problem(minimise, layers, (side, side), rate=rate if minimise == "pes" else None)
    outcome = solve(case, path, solver)
    found = exhaustive(case)
    assert outcome.status == "optimal"
    assert objective(case, outcome.plan) == outcome.bound == found.value
    assert violation(case, outcome.plan) is None


# Starts ----------------------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@with_and_without_extras(
    [
        "interval, chain",
        "interval, rows",
        "interval, in turn",
        "pes, branches",
        "pes, in turn",
        "latency, branches",
        "latency, all layers wait",
        "latency, units that rest",
        "latency, in turn",
    ]
)
@WITH_EACH_METHOD
def test_start_arrives(path, solver, name, extras):
    """The solver says so itself; its first plan is no worse, whatever the model has for the start."""
    case = TINY[name]
    valid = [plan for plan in every_plan(case) if violation(case, plan) is None]
    for start in random.Random(name).sample(valid, min(3 if THOROUGH else 1, len(valid))):
        plans = []
        # HiGHS only speaks of a start when its presolve has left something.
        options = {"presolve": "off"} if solver == "highs" else None
        outcome = solve(case, path, solver, extras=extras, options=options, start=start, on_plan=plans.append)
        assert outcome.warm_start is not None
        assert objective(case, plans[0]) <= objective(case, start)
        assert (outcome.status, outcome.bound) == ("optimal", enumerated(name))


@pytest.mark.by_day(1)
@WITH_EACH_METHOD
def test_start_that_breaks_a_limit_does_no_harm(path, solver):
    for name in ("interval, no more PEs than layers", "latency, kept rate", "pes, given PEs"):
        case = TINY[name]
        for pes in (1, 3):
            start = Plan(tuple(stage.name for stage in case.stages), (LayerSplit(pes, unit_maps=2),) * 3)
            if violation(case, start) is not None:
                assert solve(case, path, solver, start=start).bound == enumerated(name)


@WITH_EACH_METHOD
def test_known_bound_ends_the_search(path, solver):
    case = TINY["latency, branches"]
    found = exhaustive(case)
    outcome = solve(case, path, solver, start=found.plans[0], bound=found.value)
    assert outcome.status == "optimal"


# What the formulations refuse ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted({path for path, _ in FAST}), ids=lambda path: path.name)
def test_what_is_refused(path):
    """Fronts, placements, buffers between layers in parallel, and numbers that solvers do not tell apart."""
    formulation = catalogue.formulation("allocation", path.stem)
    small = TINY["interval, chain"].model_dump()
    small["machine"]["buffer_bytes"] = 1000
    assert not catalogue.suits(formulation, Problem.model_validate(small))
    small["limits"]["execution"] = "layer-by-layer"
    assert catalogue.suits(formulation, Problem.model_validate(small))
    assert not catalogue.suits(formulation, problem("pareto"))
    assert not catalogue.suits(formulation, problem("distance"))
    large = conv("a", (1, 2000, 2000), 1000, (9, 9))
    assert catalogue.suits(formulation, problem("interval", [large]))  # its loads have much in common
    counts_in_64_bits = path.stem == "columns_shares"  # that for CP-SAT
    assert catalogue.suits(formulation, problem("latency", [large])) == counts_in_64_bits


# The models themselves -------------------------------------------------------------------------------------


@pytest.fixture
def run_checked(tmp_path):
    """Run a MiniZinc model with the room's checker."""
    need("gecode")

    def run(case: Problem, model, *more: str, **changed) -> str:
        told = {"start": [], "hint": False, "relax": 0, "below": 2**31 - 2, **changed}
        (tmp_path / "data.json").write_text(json.dumps(minizinc.data(case) | told))
        files = [FOLDER / "core.mzc.mzn", model, tmp_path / "data.json"]
        command = ["minizinc", "--solver", "gecode", *more, *files]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    return run


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", thinned((name for name in TINY if "too high" not in name), 2))
def test_checker_accepts_what_is_right(name, run_checked):
    """Also each solution on the way."""
    shown = run_checked(TINY[name], FOLDER / "columns_balance.mzn", "-a")
    assert shown.count("% CORRECT") >= 1
    assert "INCORRECT" not in shown
    assert "==========" in shown


WRONG = {
    "rounds": ("interval, uneven filters", "up(filters[i], ", "(filters[i] div ", "objective"),
    "beats": ("interval, rows", "up(rows[i], parts[i, s, ROWS])", "1", "objective"),
    "PEs": ("interval, two alike", "sum(pes) else", "max(pes) else", "PEs, the array has"),
    "turns": ("interval, in turn", "else sum(load)", "else max(load)", "objective"),
    "levels": ("latency, chain", "[level[producer[e]] | e", "[1 | e", "objective"),
    "waits": ("latency, all layers wait", "uniform * interval", "interval", "objective"),
    "starts": ("latency, branches", "ahead[c] *", "0 *", "objective"),
}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("violation", WRONG)
def test_checker_refuses_what_is_wrong(violation, run_checked, tmp_path):
    name, right, wrong, told = WRONG[violation]
    text = core_text(FOLDER)
    assert right in text
    (tmp_path / "core.mzn").write_text(text.replace(right, wrong))
    (tmp_path / "columns_balance.mzn").write_text((FOLDER / "columns_balance.mzn").read_text())
    options = ("-D", "mzn_ignore_redundant_constraints=true;mzn_ignore_symmetry_breaking_constraints=true")
    shown = run_checked(TINY[name], tmp_path / "columns_balance.mzn", *options, worst=10**6)
    assert "INCORRECT" in shown
    assert told in shown


@settings(max_examples=examples(150, 6))
@given(randoms)
def test_columns_energy_finds_the_least_energy(drawn) -> None:
    asked = pipeline(drawn, goals=("energy",))
    found = parametric.solve(asked, RunContext())
    outcome = solve(asked, catalogue.model("allocation", "columns_energy"), "highs")
    assert outcome.status == found.status
    if found.plan is not None:
        assert objective(asked, outcome.plan) == outcome.bound == objective(asked, found.plan)
        assert violation(asked, outcome.plan) is None


@settings(max_examples=examples(400, 6))
@given(randoms)
def test_columns_buffers_finds_the_least_energy(drawn) -> None:
    asked = pipeline(drawn, buffers=True, goals=("energy",))
    formulation = catalogue.formulation("allocation", "columns_buffers")
    assume(catalogue.suits(formulation, asked))
    found = parametric.solve(asked, RunContext())
    expected = None if found.plan is None else objective(asked, found.plan)
    assert found.status == ("infeasible" if expected is None else "optimal")
    path = catalogue.model("allocation", "columns_buffers")
    check_agreement(asked, path, "highs", drawn.random() < 0.7, expected)
    if found.plan is not None and drawn.random() < 0.5:
        again = solve(asked, path, "highs", start=found.plan, options={"presolve": "off"})
        assert again.bound == expected
        chooses = any(len(offer.splits) > 1 for offer in Choices(asked).offers)  # else HiGHS has no integers
        assert again.warm_start is not None or not chooses


@settings(max_examples=examples(300, 4))
@given(randoms)
def test_columns_buffers_finds_the_best_of_all_plans(drawn) -> None:
    """Those that the oracle executes beat by beat."""
    asked = pipeline(drawn, buffers=True)
    formulation = catalogue.formulation("allocation", "columns_buffers")
    assume(catalogue.suits(formulation, asked))
    oracle = Pipeline(asked.model_dump(mode="json"))
    assume(len(asked.stages) == len(oracle.layers))
    place = ("interval", "pes", "latency").index(asked.minimise)
    try:
        least = min((point[place] for point in oracle.plans()), default=None)
    except TooLarge:
        assume(False)
    check_agreement(
        asked, catalogue.model("allocation", "columns_buffers"), "highs", drawn.random() < 0.7, least
    )


def test_columns_buffers_says_what_it_does_not_take() -> None:
    formulation = catalogue.formulation("allocation", "columns_buffers")
    small = TINY["interval, chain"].model_dump()
    assert "not limited" in formulation.why_not(TINY["interval, chain"])
    small["machine"]["buffer_bytes"] = 1000
    assert formulation.why_not(Problem.model_validate(small)) is None
    small["limits"]["splits"] = ("filters", "rows")
    assert "rows are divided" in formulation.why_not(Problem.model_validate(small))
    for name, told in (("vgg16", "pixels would be looked at"), ("mobilenetv2", "choices of paces")):
        large = problem("latency", catalogue.shared("networks", name)["layers"], (16, 16)).model_dump()
        large["machine"]["buffer_bytes"] = 30_000_000
        assert told in formulation.why_not(Problem.model_validate(large))


@settings(max_examples=examples(150, 6))
@given(randoms)
def test_columns_turns_finds_the_least_interval_too(drawn) -> None:
    asked = with_border(drawn, ("layer-by-layer",))
    formulation = catalogue.formulation("allocation", "columns_turns")
    assume(catalogue.suits(formulation, asked))
    found = parametric.solve(asked, RunContext())
    outcome = solve(asked, catalogue.model("allocation", "columns_turns"), "highs")
    assert outcome.status == found.status
    if found.plan is not None:
        assert objective(asked, outcome.plan) == outcome.bound == objective(asked, found.plan)
        assert violation(asked, outcome.plan) is None
