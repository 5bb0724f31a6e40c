"""Layers that wait for the host: schedules by hand and held to a walk, searches to all plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from allocation.pipelines_at_random import pipeline
from conftest import examples, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.importing.blocks import BLOCKS, save_block
from tests.oracles import TooLarge
from tests.oracles.allocation import Pipeline

import tilewright as tw
from tilewright import allocation, codegen
from tilewright.allocation import Plan, evaluation
from tilewright.allocation.lowering import Lowering
from tilewright.allocation.schedule import schedule
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric
from tilewright.simulator import execute

Json = dict[str, Any]

CHAIN: list[Json] = [
    {"name": "a", "input": [2, 3, 3], "kernels": 4, "kernel": [1, 1]},
    {"name": "s", "kind": "map", "op": "softmax", "inputs": ["a"]},
    {"name": "b", "input": [4, 3, 3], "kernels": 2, "kernel": [2, 2]},
    {"name": "t", "kind": "map", "op": "softmax", "inputs": ["b"]},
    {"name": "c", "input": [2, 2, 2], "kernels": 1, "kernel": [1, 1]},
]
"""Layers a, b and c take 9 * 8, 4 * 32 and 4 * 2 cycles on a PE each."""

HOST = {"cycles_per_byte": 0.5, "cycles_per_call": 100}
"""Operation s reads and writes 36 words each, which takes 136 cycles, and t 8 words each, which takes 108."""


def asked(
    host: Json | None = HOST, layers: list[Json] | None = None, machine: Json | None = None, **more: Any
) -> tw.AllocationProblem:
    table = {"array": [1, 3], "clock_mhz": 1} | ({} if host is None else {"host": host}) | (machine or {})
    network = {"layers": layers or CHAIN} | more.pop("network", {})
    return tw.AllocationProblem.model_validate({"network": network, "machine": table, **more})


def one_pe_each(problem: tw.AllocationProblem, pacing: str = "matched") -> Plan:
    chosen = tuple(problem.splits_of(stage)[0] for stage in problem.stages)
    return Plan(tuple(stage.name for stage in problem.stages), chosen, pacing)


# By hand ---------------------------------------------------------------------------------------------------


def test_the_host_has_its_turns_in_each_interval() -> None:
    """An interval is as long as the host is busy. Operation t waits for its turn, which follows that of s."""
    problem = asked()
    times = schedule(problem, one_pe_each(problem))
    assert times.interval == 136 + 108 == 244
    assert times.starts[:2] == (0, 72 + 136)  # b starts when s is done with all of a
    assert times.host_starts[0] == 72
    # Layer b ends at 208 + 128. Turns of t begin at 72 + 136 and every 244 cycles.
    assert times.host_starts[1] == 208 + 244 >= 208 + 128
    assert times.starts[2] == 452 + 108
    assert times.latency == 560 + 8
    report = allocation.simulate(problem, one_pe_each(problem), numeric=True)
    assert report.violation is None and report.numeric
    assert (report.measures.interval_cycles, report.measures.latency_cycles) == (244, 568)
    assert report.measures.network.interval_cycles == 244
    assert report.measures.network.latency_cycles == 568


def test_layers_in_turn_and_the_host_wait_for_each_other() -> None:
    problem = asked(limits={"execution": "layer-by-layer", "pes": {"a": 1, "b": 1, "c": 1}})
    found = tw.solve(problem)
    assert found.status == "optimal"
    assert found.objective == 72 + 136 + 128 + 108 + 8
    assert found.measures.network.interval_cycles == found.objective


def test_more_pes_do_not_help_where_the_host_is_slower() -> None:
    found = tw.solve(asked(machine={"array": [1, 20]}))
    assert (found.status, found.objective, found.measures.pes) == ("optimal", 244, 3)


def test_a_host_without_a_price_is_told() -> None:
    problem = asked(None)
    found = tw.solve(problem)
    assert found.objective == 128 and "host: s, t" in found.summary()
    assert schedule(problem, one_pe_each(problem)).latency == 72 + 128 + 8


def test_channels_of_a_map_come_back_when_all_of_it_is_computed() -> None:
    """Layer b reads two channels of what a computes, which takes 9 * 8 cycles."""
    layers: list[Json] = [
        CHAIN[0],
        {
            "name": "x",
            "kind": "slice",
            "inputs": ["a"],
            "input": [4, 3, 3],
            "output": [2, 3, 3],
            "first": [1, 0, 0],
        },
        {"name": "b", "input": [2, 3, 3], "kernels": 1, "kernel": [1, 1]},
    ]
    problem = asked(layers=layers)
    times = schedule(problem, one_pe_each(problem))
    assert not problem.steps and times.starts == (0, 72)
    assert allocation.simulate(problem, one_pe_each(problem), numeric=True).violation is None
    found = tw.solve(problem.with_(objective={"minimise": "latency"}))
    assert found.status == "optimal"


def test_beginning_before_the_host_is_done_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = asked()
    right = schedule(problem, one_pe_each(problem))
    for starts, broken in (
        ((71, 451), "s"),  # before a is done
        ((72, 452 - 244), "t"),  # in its turn, but before b is done
    ):
        wrong = replace(right, host_starts=starts)
        monkeypatch.setattr(evaluation, "schedule", lambda *_, wrong=wrong: wrong)
        report = allocation.simulate(problem, one_pe_each(problem))
        assert report.violation is not None
        assert (report.violation.rule, report.violation.tensor) == ("given", broken)
    # What comes late, and two operations of the host at a time, the simulator refuses itself.
    for starts, rule in (((72, 453), "not resident"), ((72, 73), "engine busy")):
        report = execute(Lowering(replace(right, host_starts=starts), 1).program())
        assert report.violation is not None and report.violation.rule == rule


def test_what_is_not_decided_says_so() -> None:
    with refused("objective.minimise", "pareto", "wait .. s, t .. interval"):
        asked(objective={"minimise": "pareto"})
    with refused("machine.off_chip", {"mb_per_s": 1}, "input .. s, t"):
        asked(machine={"off_chip": {"mb_per_s": 1}})
    rate = 1e6 / 243
    with refused("objective.frames_per_second", rate, "host .. 244"):
        asked(objective={"frames_per_second": rate})
    assert asked(objective={"frames_per_second": 1e6 / 244}).most_interval == 244
    with refused("network.layers", 1, "array"):
        asked(layers=[{"name": "f", "kind": "fc", "inputs": 2, "outputs": 5}])


def test_programs_of_pes_read_nothing_of_the_host() -> None:
    problem = asked()
    with refused("network", "", "not s, t"):
        codegen.project("x", "", problem, one_pe_each(problem))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_today_run_on_an_array(name: str, tmp_path: Path) -> None:
    file = save_block(name, tmp_path / f"{name}.onnx")
    values = {"machine.array": [8, 8], **{f"machine.host.{key}": value for key, value in HOST.items()}}

    def read() -> tw.Instance:
        return tw.read(file, machine="tcpa", room="allocation", values=values)

    if name == "keywords":  # an LSTM and a matrix
        with refused("network.layers", 5, "array", file=file):
            read()
        return
    found = tw.solve(read(), time_limit=20)
    assert found.status == "optimal"


# At random -------------------------------------------------------------------------------------------------


def plans_of(problem: tw.AllocationProblem) -> list[tuple[Json, Json]]:
    oracle = Pipeline(problem.model_dump(mode="json"))
    assert len(oracle.layers) == len(problem.stages)
    assert [step.cycles for step in oracle.steps] == list(problem.step_cycles)
    try:
        return list(oracle.every_plan())
    except TooLarge:
        assume(False)
        raise


@given(randoms)
@settings(max_examples=examples(200))
def test_schedules_are_those_of_a_walk(random: Random) -> None:
    problem = pipeline(random, host=True, buffers=random.random() < 0.5)
    plans = plans_of(problem)
    for told, measured in random.sample(plans, min(3, len(plans))):
        plan = Plan.from_json(told)
        times = schedule(problem, plan)
        assert times.interval == measured["interval"]
        assert times.latency == measured["latency"]
        assert list(times.starts) == measured["start"]
        if problem.machine.buffer_bytes is not None:
            assert times.storage == measured["storage"]
        report = allocation.simulate(problem, plan, numeric=True)
        assert report.violation is None, report.violation
        assert report.numeric
        assert report.measures.interval_cycles == measured["interval"]
        assert report.measures.latency_cycles == measured["latency"]


@given(randoms)
@settings(max_examples=examples(300))
def test_searches_find_what_an_enumeration_finds(random: Random) -> None:
    problem = pipeline(random, host=True, buffers=random.random() < 0.4)
    costs = [
        measured["used" if problem.minimise == "pes" else problem.minimise]
        for _, measured in plans_of(problem)
    ]
    found = parametric.solve(problem, RunContext())
    if not costs:
        assert found.status == "infeasible"
        return
    assert (found.status, found.bound) == ("optimal", min(costs))
    assert allocation.violation(problem, found.plan) is None
    assert allocation.objective(problem, found.plan) == min(costs)
    assert allocation.best_bound(problem).value <= min(costs)
