"""The closed forms of the allocation room against the simulator, beat by beat, over random networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines_at_random import networks
from tests.oracles import allocation as oracle

from tilewright import allocation, solve
from tilewright.allocation import PACINGS, Plan, Problem
from tilewright.allocation.geometry import Windows, last_uses, latest_beats_needed, scan_rows
from tilewright.allocation.lowering import Lowering
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.core.measures import counted
from tilewright.run.instance import build, parse, read
from tilewright.simulator import execute
from tilewright.spec.errors import InputError


def problem_of(network: dict[str, Any], array: tuple[int, int] = (64, 64), **tables: Any) -> Problem:
    machine = {"array": list(array), "functional_units": 2, "clock_mhz": 50}
    found: Problem = build("allocation", {"network": network, "machine": machine, **tables})
    return found


def plan_of(problem: Problem, chosen: tuple[LayerSplit, ...], pacing: str = "matched") -> Plan:
    return Plan(tuple(stage.name for stage in problem.stages), chosen, pacing)


@st.composite
def planned(draw: st.DrawFn, **limits: Any) -> tuple[Problem, Plan]:
    problem = problem_of(draw(networks()), limits=limits)
    chosen = tuple(draw(st.sampled_from(problem.splits_of(stage))) for stage in problem.stages)
    return problem, plan_of(problem, chosen, draw(st.sampled_from(PACINGS)))


def simulated(problem: Problem, plan: Plan) -> Any:
    report = allocation.simulate(problem, plan, numeric=True, overlapped=True)
    assert report.violation is None, report.violation
    assert report.numeric
    return report


@pytest.mark.parametrize("scan", ["rows", "fields"])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_execution_confirms_the_closed_forms(scan: str, data: st.DataObject) -> None:
    splits = ["filters", "maps"] + (["rows"] if scan == "rows" else [])
    problem, plan = data.draw(planned(scan=scan, splits=splits, functional_units="any"))
    times, report = schedule(problem, plan), simulated(problem, plan)
    measures = report.measures
    assert (measures.interval_cycles, measures.latency_cycles) == (times.interval, times.latency)
    layers = list(measures.layers.values())
    assert [layer.start_cycles for layer in layers] == list(times.starts)
    # So many frames are executed as are ever in flight, so the fullest moment is among them.
    inside = [stage.number for stage in problem.stages if problem.consumers[stage.number]]
    assert [layers[number].held_words for number in inside] == [times.buffers[n] for n in inside]
    # Working as soon as data are there ends no later, and of a single layer at the same time.
    assert report.overlapped.cycles <= report.scheduled.cycles


@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_table_of_steps_has_the_same_steps(data: st.DataObject) -> None:
    execution = data.draw(st.sampled_from(["layer-parallel", "layer-by-layer"]))
    problem, plan = data.draw(planned(execution=execution, splits=["filters", "rows"]))
    program = Lowering(schedule(problem, plan), 2 if problem.parallel else 1).program()
    one_by_one = replace(program, steps=list(program.steps))
    quick, slow = (execute(each, overlapped=True) for each in (program, one_by_one))
    assert quick.violation is None
    assert counted(quick) == counted(slow)
    assert quick.labels == slow.labels
    for line, other in ((quick.scheduled, slow.scheduled), (quick.overlapped, slow.overlapped)):
        assert line is not None and other is not None
        assert (line.start == other.start).all() and (line.finish == other.finish).all()
    for name, held in slow.footprint.items():
        assert (quick.footprint[name] == held).all()


def test_a_wrong_table_is_told_like_wrong_steps() -> None:
    problem = read("mnist-tcpa").problem
    plan = plan_of(problem, tuple(problem.splits_of(stage)[0] for stage in problem.stages))
    program = Lowering(schedule(problem, plan), 1).program()
    small = tuple(
        replace(tensor, shape=(1, 24, 14, 13)) if tensor.name == "Pool1" else tensor
        for tensor in program.tensors
    )
    report = execute(replace(program, tensors=small))
    assert report.violation is not None
    assert report.violation.rule == "no such region"


@given(data=st.data())
@settings(max_examples=examples(40))
def test_layers_in_turn(data: st.DataObject) -> None:
    problem, plan = data.draw(planned(execution="layer-by-layer", splits=["filters", "maps", "rows"]))
    times, report = schedule(problem, plan), simulated(problem, plan)
    assert (
        report.measures.latency_cycles == report.measures.interval_cycles == times.latency == sum(times.loads)
    )
    assert report.peak <= times.storage


@pytest.mark.parametrize("execution", ["layer-parallel", "layer-by-layer"])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_no_pe_computes_two_layers_at_a_time(execution: str, data: st.DataObject) -> None:
    """Neither as scheduled nor as soon as data are there; so no PE is busy for longer than either takes."""
    problem, plan = data.draw(planned(execution=execution))
    report = simulated(problem, plan)
    frames, times = report.measures.executed_frames, schedule(problem, plan)
    # In a pipeline PEs are a layer's own; layers that take turns begin with the same PE.
    begins = np.cumsum([0, *(split.pes for split in plan.splits)]) if problem.parallel else np.zeros(99, int)
    for line in (report.scheduled, report.overlapped):
        beats: dict[int, list[tuple[int, int]]] = {}
        on_chip = zip(line.engine, line.tensor, line.start.tolist(), line.finish.tolist(), strict=True)
        computed = [beat for beat in on_chip if beat[0] not in ("load", "write")]
        for number, name in enumerate(plan.names):
            first = int(begins[number])
            for pe in {first, first + plan.splits[number].pes - 1}:
                beats.setdefault(pe, []).extend(
                    (start, end) for _, own, start, end in computed if own == name
                )
        for own in beats.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(own)))
            assert sum(end - start for start, end in own) <= line.cycles
    if problem.parallel:
        assert max(times.loads) * frames <= report.overlapped.cycles <= report.scheduled.cycles
    else:
        assert report.overlapped.cycles == report.scheduled.cycles == times.latency == sum(times.loads)


def test_layers_that_take_turns_are_never_faster_than_their_schedule() -> None:
    problem = read("mnist-tcpa-by-layer").problem
    plan = solve(problem, "auto").plan
    assert plan is not None
    report = allocation.simulate(problem, plan)
    assert report.overlapped is not None and report.scheduled is not None
    assert report.overlapped.cycles == report.scheduled.cycles == 45_080
    assert report.overlapped.busy() == {"PEs": 45_080, "load": 0, "write": 0}


@given(data=st.data())
@settings(max_examples=examples(60))
def test_no_layer_can_start_earlier(data: st.DataObject) -> None:
    """One cycle earlier some beat of the layer would find that its data are not there."""
    problem, plan = data.draw(planned())
    times = schedule(problem, plan)
    for number, stage in enumerate(problem.stages):
        if times.starts[number] == 0:
            continue
        slack = []
        for producer in stage.producers:
            if producer >= 0:
                windows = times.scan.windows[number]
                own, theirs = times.scan.beats(stage), times.scan.beats(problem.stages[producer])
                needed = latest_beats_needed(windows, theirs, own)
                ready = times.starts[producer] + (needed + 1) * times.paces[producer]
                beats = times.starts[number] + np.arange(times.beats[number]) * times.paces[number]
                slack.append(int((beats - ready).min()))
        assert min(slack) == 0


@given(data=st.data())
def test_windows_by_definition(data: st.DataObject) -> None:
    plane = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)))
    taps = tuple(data.draw(st.integers(1, 4)) for _ in range(2))
    dilation = tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    extent = tuple((tap - 1) * apart + 1 for tap, apart in zip(taps, dilation, strict=True))
    before = tuple(data.draw(st.integers(0, size - 1)) for size in extent)
    after = tuple(data.draw(st.integers(0, size - 1)) for size in extent)
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    padded = [size + first + last for size, first, last in zip(plane, before, after, strict=True)]
    if padded[0] < extent[0] or padded[1] < extent[1]:
        return
    output = tuple((p - e) // s + 1 for p, e, s in zip(padded, extent, stride, strict=True))
    windows = Windows(taps, dilation, stride, before, plane, output)  # type: ignore[arg-type]
    beats, own = (
        scan_rows(plane, data.draw(st.integers(1, 3))),
        scan_rows(output, data.draw(st.integers(1, 3))),
    )
    needed = np.full(int(own.max()) + 1, -1)
    last = np.full(plane, -1)
    for row, column in np.ndindex(*output):
        under = np.ix_(
            *(
                [one for tap in range(taps[axis])
                 if 0 <= (one := at * stride[axis] - before[axis] + tap * dilation[axis]) < plane[axis]]
                for axis, at in enumerate((row, column))
            )
        )  # fmt: skip
        if beats[under].size:
            needed[own[row, column]] = max(needed[own[row, column]], beats[under].max())
            last[under] = np.maximum(last[under], own[row, column])
    assert (latest_beats_needed(windows, beats, own) == needed).all()
    assert (last_uses(windows, own) == last).all()


DILATED = [
    {"name": "l0", "input": [2, 6, 3], "kernel": [2, 2], "stride": [2, 1], "padding": [0, 0, 1, 1],
     "kernels": 1, "dilation": [2, 1]},
    {"name": "l1", "input": [1, 2, 4], "kernel": [2, 2], "stride": [1, 2], "padding": [0, 1, 1, 0],
     "kernels": 5, "dilation": [2, 1]},
    {"name": "l2", "kind": "pool", "input": [5, 1, 2], "kernel": [1, 1]},
]  # fmt: skip
"""The second layer's windows have a row of its input, then one of padding; the row between is not read."""


def test_pixels_between_the_taps_of_a_window_are_not_needed() -> None:
    """The oracle counts taps, pixel by pixel; with the row between them it would be 68 cycles."""
    machine = {"array": [2, 2], "functional_units": 2, "clock_mhz": 1}
    limits = {"splits": ["filters", "maps"], "functional_units": "any"}
    tables = {"network": {"layers": DILATED}, "limits": limits}
    objective = {"minimise": "latency", "frames_per_second": 25_000}
    problem = build("allocation", {**tables, "machine": machine, "objective": objective})
    found = solve(problem, time_limit=60)
    assert (found.status, found.objective) == ("optimal", 52)
    # A front in as many words as it needs, and none in fewer.
    for buffers in (42, 41):
        small = {
            **tables,
            "machine": machine | {"buffer_bytes": buffers},
            "objective": {"minimise": "pareto"},
        }
        problem = build("allocation", small)
        points = oracle.best(problem.model_dump(mode="json"))
        assert points == ([(32, 3, 52)] if buffers == 42 else None)
        found = solve(problem, time_limit=60)
        assert found.status == ("optimal" if points else "infeasible")


@given(data=st.data())
@settings(max_examples=examples(60))
def test_shares_are_the_front_of_all_divisions(data: st.DataObject) -> None:
    problem = problem_of(
        data.draw(networks(most_layers=1)),
        (4, 4),
        limits={"splits": ["filters", "maps", "rows"], "functional_units": "any"},
    )
    task = problem.stages[0].task
    every = [
        LayerSplit(f, n, r, uf, un)
        for f in range(1, 17)
        for n in range(1, 17 // f + 1)
        for r in range(1, 17 // (f * n) + 1)
        for uf, un in ((1, 1), (1, 2), (2, 1))
        if f * n * r <= 16
    ]
    found = problem.splits_of(problem.stages[0])
    assert all(split.violation(problem.machine, problem.limits, problem.stages[0]) is None for split in found)
    for pes in range(1, 17):
        best = min(split.load(task) for split in every if split.pes <= pes)
        assert min(split.load(task) for split in found if split.pes <= pes) == best


def test_plans_survive_json() -> None:
    problem = read("mnist-tcpa-placed").problem
    plan = plan_of(problem, tuple(problem.splits_of(stage)[0] for stage in problem.stages))
    placed = plan.placed(tuple(((0, n),) * split.pes for n, split in enumerate(plan.splits)))
    for one in (plan, placed, Plan.joined((plan, placed))):
        assert Plan.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"machine": {"array": [2, 2]}}, ["machine.array", "layer Conv4 gets none", "3 rows of 2"]),
        ({"machine": {"buffer_bytes": 8000}}, ["machine.buffer_bytes", "layer Conv2", "8856"]),
        (
            {"objective": {"minimise": "pes", "frames_per_second": 20000}},
            ["objective.frames_per_second", "layer Conv2", "no array reaches more than"],
        ),
        ({"objective": {"minimise": "pes"}}, ["objective.frames_per_second", "is needed"]),
        ({"limits": {"pes": {"Conv9": 1}}}, ["limits.pes.Conv9", "no such layer"]),
        ({"limits": {"splits": ["maps"], "pes": {"Conv0": 4, "Pool1": 5}}}, []),
        ({"limits": {"splits": ["rows"], "scan": "fields"}}, ["limits.splits", "scan rows"]),
        (
            {"limits": {"execution": "layer-by-layer", "pes": {"Conv0": 17}}},
            ["limits.pes.Conv0", "the array has 16 PEs"],
        ),
    ],
)
def test_bad_input_names_layer_limit_and_what_is_enough(change: dict[str, Any], told: list[str]) -> None:
    import tomllib

    source = read("mnist-tcpa").path
    assert source is not None
    table = tomllib.loads(source.read_text("utf-8"))
    table["machine"] = {"array": [4, 4], "functional_units": 2, "clock_mhz": 50} | change.pop("machine", {})
    table |= change
    if not told:
        parse(table, source)
        return
    with pytest.raises(InputError) as error:
        parse(table, source)
    for words in told:
        assert words in str(error.value)
