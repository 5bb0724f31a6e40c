"""The exact search for splits and its bounds, against enumeration of all splits, and on known networks."""

from __future__ import annotations

import time
import tomllib
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, tells
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pipelines_at_random import networks

from tilewright.allocation import Plan, Problem, best_bound, objective, pes, simulate, violation
from tilewright.allocation.bounds import least_buffers
from tilewright.allocation.exact.options import cheapest_within, least_interval, offers_of
from tilewright.allocation.exact.search import exhaustive, search_splits
from tilewright.allocation.exact.timing import Timing, sufficient_loads
from tilewright.allocation.exact.trimming import RANKS, pace_plan, rank, trim_plan
from tilewright.allocation.geometry import Scan
from tilewright.allocation.plan import PACINGS
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.core import catalogue
from tilewright.core.bounds import Bound
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric
from tilewright.run.instance import build, parse
from tilewright.run.solve import solve
from tilewright.run.verify import check
from tilewright.spec.errors import InputError

ROOT = Path(__file__).parents[2]

Key = tuple[int, int, int]

MOST_PLANS = 1500
"""Most plans that are enumerated."""

PAPER = {"array": [4, 4], "functional_units": 2, "clock_mhz": 50}


def problem_of(table: dict[str, Any], machine: dict[str, Any], minimise: str, **limits: Any) -> Problem:
    rate = limits.pop("rate", None)
    asked = {"minimise": minimise} | ({} if rate is None else {"frames_per_second": rate})
    found: Problem = build(
        "allocation", {"network": table, "machine": machine, "objective": asked, "limits": limits}
    )
    return found


def known(
    name: str, side: int, minimise: str, machine: dict[str, Any] | None = None, **limits: Any
) -> Problem:
    table = PAPER | {"array": [side, side]} | (machine or {})
    return problem_of(network(name), table, minimise, **limits)


def network(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "instances" / "networks" / f"{name}.toml").read_text("utf-8"))


def key(problem: Problem, plan: Plan) -> Key:
    times = schedule(problem, plan)
    return times.interval, pes(problem, plan), times.latency


# Enumeration ---------------------------------------------------------------------------------------------


def every_split(problem: Problem, stage: Stage) -> list[LayerSplit]:
    """Return a split of fewest PEs for each load (and number of row groups) that any valid split gives."""
    best: dict[tuple[int, int], LayerSplit] = {}
    most, units = problem.machine.pes, problem.machine.functional_units
    for filters, maps, rows in product(range(1, most + 1), repeat=3):
        if filters * maps * rows > most:
            continue
        for over_filters, over_maps in product(range(1, units + 1), repeat=2):
            split = LayerSplit(filters, maps, rows, over_filters, over_maps)
            if split.violation(problem.machine, problem.limits, stage) is None:
                place = split.load(stage.task), split.rows
                best[place] = min(best.get(place, split), split, key=lambda split: split.pes)
    return list(best.values())


def enumerated(problem: Problem) -> dict[Key, Plan]:
    """Return a plan for each triple of interval, PEs and latency that any plan has."""
    every = [every_split(problem, stage) for stage in problem.stages]
    assume(prod(map(len, every)) <= MOST_PLANS)
    names, scan, capacity = (
        tuple(stage.name for stage in problem.stages),
        Scan(problem),
        problem.machine.buffer_words,
    )
    found: dict[Key, Plan] = {}
    for chosen, pacing in product(product(*every), PACINGS):
        plan = Plan(names, chosen, pacing)
        if pes(problem, plan) > problem.machine.pes:
            continue
        times = schedule(problem, plan, scan)
        triple = times.interval, pes(problem, plan), times.latency
        if problem.most_interval is not None and times.interval > problem.most_interval:
            continue
        if triple not in found and (capacity is None or times.storage <= capacity):
            found[triple] = plan
    return found


def ranked(problem: Problem, triple: Key) -> tuple[int, ...]:
    return tuple(triple[place] for place in RANKS[problem.minimise])


@st.composite
def problems(draw: st.DrawFn, *objectives: str) -> Problem:
    minimise = draw(st.sampled_from(objectives))
    limits: dict[str, Any] = {
        "scan": draw(st.sampled_from(["rows", "fields"])),
        "functional_units": draw(st.sampled_from(["maps", "any"])),
        "splits": draw(st.sampled_from([["filters"], ["filters", "maps"], ["maps"]])),
    }
    if minimise in ("interval", "pes"):
        if limits["scan"] == "rows" and draw(st.booleans()):
            limits["splits"] = [*limits["splits"], "rows"]
        limits["execution"] = draw(st.sampled_from(["layer-parallel", "layer-by-layer"]))
    if minimise == "pes" or draw(st.integers(0, 2)) == 0:
        limits["rate"] = draw(st.floats(300, 1e5))
    machine: dict[str, Any] = {
        "array": [draw(st.integers(1, 3)), draw(st.integers(1, 4))],
        "functional_units": draw(st.integers(1, 3)),
        "clock_mhz": 1,
    }
    if draw(st.integers(0, 2)) == 0:
        machine["buffer_bytes"] = draw(st.integers(20, 400))
    table = draw(networks(4))
    if draw(st.integers(0, 4)) == 0:
        limits["pes"] = {draw(st.sampled_from(table["layers"]))["name"]: draw(st.integers(1, 4))}
    try:
        return problem_of(table, machine, minimise, **limits)
    except InputError:
        assume(False)
        raise


@given(problems("interval", "pes", "latency"))
@settings(max_examples=examples(400))
def test_what_is_claimed_equals_enumeration(problem: Problem) -> None:
    plans = enumerated(problem)
    bound, found = best_bound(problem), exhaustive(problem)
    if found is None:
        assert not plans
        return
    least = min((ranked(problem, triple) for triple in plans), default=None)
    if not found.proven:
        # Of all splits with the same load only one is tried where rows are split and buffers limited.
        assert "rows" in problem.limits.splits and problem.machine.buffer_bytes is not None
        assert least is None or found.bound <= least[0]
        assert all(violation(problem, plan) is None for plan in found.plans)
        return
    assert least is not None and bound.impossible is None
    (plan,) = found.plans
    assert violation(problem, plan) is None
    got = ranked(problem, key(problem, plan))
    assert (found.value, found.bound) == (least[0], least[0]) == (got[0], got[0])
    assert bound.value <= found.value
    exact_ties = "rows" not in problem.limits.splits and problem.machine.buffer_bytes is None
    places = 3 if exact_ties else 1 if problem.minimise == "pes" else 2
    assert got[:places] == least[:places]
    for other in list(plans.values())[:5]:
        shorter = trim_plan(problem, other)
        assert violation(problem, shorter) is None
        assert ranked(problem, key(problem, shorter)) <= ranked(problem, key(problem, other))


@given(problems("pareto"))
@settings(max_examples=examples(200))
def test_front_equals_enumeration(problem: Problem) -> None:
    plans, found = enumerated(problem), exhaustive(problem)
    if found is None:
        assert not plans
        return
    assert found.proven
    triples = np.array(sorted(plans))
    front = [
        tuple(triple)
        for triple in triples.tolist()
        if not ((triples <= triple).all(axis=1) & (triples < triple).any(axis=1)).any()
    ]
    assert [key(problem, plan) for plan in found.plans] == front
    assert found.value == front[0][0]
    joined = Plan.joined(found.plans)
    assert violation(problem, joined) is None
    assert violation(problem, trim_plan(problem, joined)) is None


def test_a_slower_layer_may_save_latency() -> None:
    """No split that nothing replaces is as good as one that leaves functional units idle."""
    pool = {"kind": "pool", "kernel": [1, 1]}
    table = {
        "layers": [
            {**pool, "name": "a", "input": [3, 7, 2]},
            {**pool, "name": "b", "input": [3, 7, 2], "stride": [2, 1]},
            {
                "kind": "pool",
                "name": "c",
                "input": [3, 4, 2],
                "kernel": [2, 1],
                "stride": [2, 2],
                "padding": [1, 0, 0, 0],
            },
        ]
    }
    machine = {"array": [1, 3], "functional_units": 3, "clock_mhz": 1}
    problem = problem_of(table, machine, "latency")
    fastest = tuple(problem.splits_of(stage)[-1] for stage in problem.stages)
    names = tuple(stage.name for stage in problem.stages)
    best = min(schedule(problem, Plan(names, fastest, pacing)).latency for pacing in PACINGS)
    found = exhaustive(problem)
    assert found is not None and found.proven
    assert (best, found.value) == (22, 19)


# Networks ------------------------------------------------------------------------------------------------


def test_the_paper_s_network() -> None:
    found = exhaustive(known("mnist-tcpa", 4, "interval"))
    assert found is not None and found.proven
    assert found.value == 63_504  # table 1
    found = exhaustive(known("mnist-tcpa", 4, "pes", rate=100))
    assert found is not None and found.proven
    assert found.value == 6  # section 7
    assert [split.pes for split in found.plans[0].splits] == [1, 1, 2, 1, 1]
    turns = known("mnist-tcpa", 4, "interval", execution="layer-by-layer")
    found = exhaustive(turns)
    assert found is not None and found.proven
    assert found.value == 14_112 + 9_408 + 42_336 + 2_352 + 5_292  # equations 3 and 4; pools on one PE


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["vgg16", "mobilenetv2", "resnet50", "squeezenet"])
def test_surfaces_of_networks(name: str) -> None:
    problem = known(name, 16, "pareto")
    found = exhaustive(problem)
    assert found is not None and found.proven
    assert violation(problem, Plan.joined(found.plans)) is None
    triples = [key(problem, plan) for plan in found.plans]
    for minimise, place in (("interval", 0), ("latency", 2)):
        other = known(name, 16, minimise)
        best = exhaustive(other)
        assert best is not None and best.proven
        assert best.value == min(triple[place] for triple in triples)
        assert best_bound(other).value <= best.value
        first = min(triples, key=lambda triple: ranked(other, triple))
        assert ranked(other, key(other, best.plans[0]))[:2] == ranked(other, first)[:2]


def test_identity_shortcuts_are_implied() -> None:
    chain = Timing(known("mobilenetv2", 16, "latency"))
    assert len(chain.leads) == len(chain.problem.stages) - 1 < len(chain.problem.edges)
    assert not sufficient_loads(chain)[1]
    residual = Timing(known("resnet50", 16, "latency"))
    joins = [consumer for _, consumer in residual.leads]
    assert sum(joins.count(stage.number) > 1 for stage in residual.problem.stages) == 7  # not identities
    inception = Timing(known("inceptionv3", 16, "latency"))
    assert sufficient_loads(inception)[1]  # 149 and 147 columns: a fast layer outruns its producer


@given(problems("latency"), st.data())
def test_many_schedules_at_a_time(problem: Problem, data: st.DataObject) -> None:
    timing = Timing(problem)
    offers = offers_of(problem, every=True)
    assume(all(offer.loads for offer in offers))
    names = tuple(stage.name for stage in problem.stages)
    rows = [[data.draw(st.sampled_from(offer.loads)) for offer in offers] for _ in range(3)]
    loads = np.array(rows)
    chosen = [tuple(offer.at(load) for offer, load in zip(offers, row, strict=True)) for row in rows]
    for pacing, levels in (
        ("matched", timing.matched(loads)),
        ("uniform", np.broadcast_to(loads.max(axis=1)[:, None], loads.shape)),
    ):
        expected = [schedule(problem, Plan(names, some, pacing)).latency for some in chosen]
        assert timing.latencies(levels).tolist() == expected
        path = timing.critical_path(levels[0])
        assert all(edge in timing.leads for edge in pairwise(path))


@given(problems("interval"))
def test_least_interval(problem: Problem) -> None:
    offers = offers_of(problem)
    least = least_interval(offers, problem.machine.pes)
    loads = sorted({load for offer in offers for load in offer.loads})

    def fits(load: int) -> bool:
        found = cheapest_within(offers, load)
        return found is not None and sum(split.pes for split in found) <= problem.machine.pes

    assert least == next((load for load in loads if fits(load)), None)


# Limits --------------------------------------------------------------------------------------------------


def refusal(problem: Problem) -> str:
    bound: Bound = best_bound(problem)
    assert bound.impossible is not None
    assert exhaustive(problem) is None
    return bound.impossible


def test_a_rate_that_needs_more_pes() -> None:
    told = refusal(known("mnist-tcpa", 4, "interval", rate=1181))
    assert tells(told, "1181 frames .. 20 PEs .. layer Conv2 .. 12 .. 16 .. 5 rows of 4")
    machine = PAPER | {"array": [5, 4]}
    found = exhaustive(problem_of(network("mnist-tcpa"), machine, "interval", rate=1181))
    assert found is not None and found.value == 42_336
    told = refusal(known("mnist-tcpa", 4, "interval", rate=1000, execution="layer-by-layer"))
    assert "rows of 4" in told and "layer Conv" in told


@pytest.mark.nightly
def test_buffers_that_are_too_small() -> None:
    free = known("mnist-tcpa", 4, "interval")
    plan = exhaustive(free)
    assert plan is not None
    times = schedule(free, plan.plans[0])
    least = times.weights + sum(least_buffers(free))
    told = refusal(known("mnist-tcpa", 4, "interval", {"buffer_bytes": least - 1}))
    assert tells(told, f"{least - 1} bytes .. {times.weights} .. weights")
    enough = int(told.split("; ")[1].split()[0])
    found = exhaustive(known("mnist-tcpa", 4, "interval", {"buffer_bytes": enough}))
    assert found is not None and found.proven and found.plans[0].pacing == "uniform"
    # Nothing that is known without a search forbids it, but no plan fits.
    assert best_bound(known("mnist-tcpa", 4, "interval", {"buffer_bytes": least})).impossible is None
    assert exhaustive(known("mnist-tcpa", 4, "interval", {"buffer_bytes": least})) is None
    turns = known("mnist-tcpa", 4, "interval", {"buffer_bytes": 9000}, execution="layer-by-layer")
    assert tells(refusal(turns), "9000 bytes .. layer Pool1 .. feature maps")


@given(problems("latency", "interval"), st.data())
def test_no_schedule_has_smaller_buffers(problem: Problem, data: st.DataObject) -> None:
    assume(problem.parallel)
    names = tuple(stage.name for stage in problem.stages)
    chosen = tuple(data.draw(st.sampled_from(problem.splits_of(stage))) for stage in problem.stages)
    for pacing in PACINGS:
        buffers = schedule(problem, Plan(names, chosen, pacing)).buffers
        assert all(least <= words for least, words in zip(least_buffers(problem), buffers, strict=True))


@given(problems("latency"))
def test_pacing_that_fits(problem: Problem) -> None:
    names = tuple(stage.name for stage in problem.stages)
    plan = Plan(names, tuple(problem.splits_of(stage)[0] for stage in problem.stages))
    found, capacity = pace_plan(problem, plan), problem.machine.buffer_words
    every = [schedule(problem, Plan(names, plan.splits, pacing)) for pacing in PACINGS]
    fitting = [times.latency for times in every if capacity is None or times.storage <= capacity]
    assert (found is None) == (not fitting)
    assert found is None or schedule(problem, found).latency == min(fitting)


def test_what_is_proven_when_time_is_up() -> None:
    for minimise in ("latency", "pareto"):
        problem = known("inceptionv3", 32, minimise)
        *_, last = search_splits(problem, time.monotonic())
        whole = exhaustive(known("inceptionv3", 32, "latency" if minimise == "latency" else "interval"))
        assert whole is not None and whole.value is not None
        assert not last.proven and last.bound <= whole.value
        assert all(violation(problem, plan) is None for plan in last.plans if minimise == "latency")


# The method ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimise", ["interval", "latency", "pareto"])
def test_the_method_reports(minimise: str) -> None:
    problem = known("mnist-tcpa", 4, minimise)
    told: list[Any] = []
    outcome = parametric.solve(problem, RunContext(on_plan=told.append, on_bound=told.append))
    assert outcome.status == "optimal"
    assert outcome.bound == objective(problem, outcome.plan)
    assert violation(problem, outcome.plan) is None
    assert outcome.plan in told and outcome.bound in told
    assert parametric.suits(problem)
    assert not parametric.suits(known("mnist-tcpa", 4, "distance"))


def test_the_method_says_that_there_is_no_plan() -> None:
    assert (
        parametric.solve(known("mnist-tcpa", 4, "interval", rate=1181), RunContext()).status == "infeasible"
    )


def test_the_method_says_what_it_knows() -> None:
    outcome = parametric.solve(known("inceptionv3", 32, "pareto"), RunContext(deadline=time.monotonic()))
    assert (outcome.status, outcome.plan, outcome.bound) == ("unknown", None, None)


@given(st.data())
@settings(max_examples=examples(25))
def test_no_simple_plan_of_equal_objective_comes_before(data: st.DataObject) -> None:
    """Not one by a rule, and none that differs in one layer alone or in the pacing."""
    minimise = data.draw(st.sampled_from(["interval", "latency"]))
    machine = {"array": [data.draw(st.integers(2, 5)), 4], "functional_units": 2, "clock_mhz": 50}
    problem = problem_of(data.draw(networks(most_layers=4)), machine, minimise)
    assume(best_bound(problem).impossible is None)
    result = solve(problem, time_limit=600)
    assume(result.status == "optimal")
    best = result.plan
    simple = [catalogue.heuristic("allocation", name).plan(problem) for name in ("greedy", "paper")]
    simple += [replace(best, pacing=pacing) for pacing in PACINGS]
    for place, stage in enumerate(problem.stages):
        for split in problem.splits_of(stage):
            simple.append(replace(best, splits=(*best.splits[:place], split, *best.splits[place + 1 :])))
    for other in simple:
        if violation(problem, other) is None and objective(problem, other) == result.objective:
            assert rank(problem, best) <= rank(problem, other)


@pytest.mark.nightly
@pytest.mark.slow
def test_check_misses_no_plan_of_a_front() -> None:
    """A front that lacks a plan keeps its objective and bound, but is not optimal."""
    asked = {"room": "allocation", "objective": {"minimise": "pareto"}}
    instance = parse(asked | {"network": network("mnist-tcpa"), "machine": PAPER | {"array": [2, 4]}})
    result = solve(instance, time_limit=3000)
    assert result.status == "optimal"
    assert all(finding.holds for finding in check(instance, result, time_limit=300))
    shorter = Plan.joined((*result.plan.front[:2], *result.plan.front[3:]))
    report = simulate(instance.problem, shorter, overlapped=False).verdict()
    wrong = [
        finding.what
        for finding in check(instance, replace(result, plan=shorter, report=report), time_limit=300)
        if not finding.holds
    ]
    assert wrong == ["front"]


def test_bounds_stay_below_a_plan_that_is_found_while_parts_wait() -> None:
    """A part that was put aside before the plan was known may have plans that all cost more."""
    layers = [
        {"name": "a", "input": [3, 1, 4], "kernels": 6, "kernel": [1, 1], "inputs": ["input"]},
        {"name": "b", "input": [3, 1, 4], "kernels": 5, "kernel": [1, 3], "inputs": ["input"],
         "stride": [2, 1], "padding": [0, 0, 2, 0], "dilation": [1, 2]},
        {"name": "c", "input": [5, 1, 2], "kernels": 4, "kernel": [1, 3], "inputs": ["b"],
         "stride": [1, 2], "padding": [0, 0, 0, 2]},
    ]  # fmt: skip
    problem = Problem.model_validate({
        "network": {"layers": layers},
        "machine": {"array": [1, 4], "functional_units": 2, "clock_mhz": 1, "buffer_bytes": 136},
        "objective": {"minimise": "latency"},
    })  # fmt: skip
    bounds = [answer.bound for answer in search_splits(problem)]
    assert max(bounds) == 72
