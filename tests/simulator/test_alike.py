"""Tiles that are alike are counted: with the same outcome as executing every one of them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice, product

import layers
import numpy as np
import pytest
import test_npu
from conftest import examples, thinned, totals
from hypothesis import event, given, settings
from hypothesis import strategies as st
from nests import agree, damaged_programs, nest_in, valid_programs, with_nest

from tilewright.run.instance import read
from tilewright.simulator import Program, execute, executor
from tilewright.simulator.alike import reduce_program
from tilewright.simulator.columns import COMPUTE, FREE, LOAD, WRITE
from tilewright.simulator.nest import Along, NestEvent
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling import Plan, measured_objective, objective, simulate
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.lowering import lower as lower_dsp
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import REUSES, DspPlan
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.lowering import lower as lower_npu
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.problem import Problem


def dsp_program(problem: Problem, plan: DspPlan) -> Program:
    nest = nest_of(problem.one_layer, problem.machine)
    return lower_dsp(nest, plan, local_traffic(nest_of(problem.one_layer, problem.machine)))


CONVOLUTION = {"input": [20, 24, 23], "kernels": 9, "kernel": [3, 3], "padding": [1, 1, 1, 1]}


def convolution(
    order: str = "ncyxk", reuse: str = "halo", padding: str = "loaded", double: bool = True
) -> Program:
    """A convolution of which a tile has one output of three maps and two inputs maps."""
    machine = {"double_buffering": double, "padding": padding, "dma_setup_cycles": 3}
    problem = layers.make(CONVOLUTION, machine)
    return dsp_program(problem, DspPlan((1, 1, 3, 1, 1, 2), order, reuse))  # type: ignore[arg-type]


# The same outcome ---


@pytest.mark.slow
@given(valid_programs(), st.booleans())
@settings(max_examples=examples(150))
def test_counting_finds_what_executing_every_tile_finds(program: Program, lockstep: bool) -> None:
    few = agree(program, lockstep)
    event("executed tile by tile" if few is None else f"counted, {few.valid=}")


@pytest.mark.slow
@given(damaged_programs(), st.booleans())
@settings(max_examples=examples(300))
def test_what_is_wrong_in_any_tile_is_found(program: Program, lockstep: bool) -> None:
    few = agree(program, lockstep)
    rule = None if few is None or few.violation is None else few.violation.rule
    event("executed tile by tile" if few is None else f"counted: {rule}")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("order", "reuse", "padding"),
    thinned(
        product(["ncyxk", "kncxy", "yxcnk", "xkync", "cknyx", "ycxkn"], REUSES, ["loaded", "generated"]), 5
    ),
)
def test_a_convolution_is_counted(order: str, reuse: str, padding: str) -> None:
    """Halos in both directions, inner and outer, partial sums that are loaded again, operands that stay."""
    program = convolution(order, reuse, padding)
    # Without reuse a tile would load in lockstep what the one before has not written back yet.
    few = agree(program, lockstep=(reuse, order.rstrip("n")[-1]) != ("none", "k"))
    assert few is not None
    assert few.valid
    assert len(few.labels) < nest_in(program).tiles / 3


@pytest.mark.by_day(2)
@pytest.mark.parametrize("schedule", ["IS", "OS", "WS"])
@pytest.mark.parametrize("partition", ["KS", "KS&OFM", "OFM"])
def test_a_convolution_is_counted_on_an_npu(partition: str, schedule: str) -> None:
    roomy = {"input_bytes": 1 << 20, "weights_bytes": 1 << 20, "output_bytes": 1 << 20}
    problem = test_npu.make({"input": [11, 24, 26], "kernels": 24, "kernel": [3, 3]}, roomy)
    cut = cut_of(problem.one_layer, problem.machine, partition)
    filters = cut.sizes[0] if schedule == "IS" else 1
    program = lower_npu(cut, NpuPlan(partition, schedule, (filters, 2, 2, 1)))  # type: ignore[arg-type]
    few = agree(program, lockstep=False)
    assert few is not None
    assert few.valid


@pytest.mark.by_day(1)
@pytest.mark.parametrize("stride", [1, 2, 5])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 6])
def test_gaps_and_groups_are_counted(stride: int, dilation: int, groups: int) -> None:
    layer = {
        "input": [6, 26, 9],
        "kernels": 6,
        "kernel": [3, 2],
        "stride": [stride, 1],
        "dilation": [dilation, 1],
        "padding": [1, 0, 0, 1],
        "groups": groups,
        "batch": 16,
    }
    for plan in (
        DspPlan((1, 1, 1, 1, 3, 1), "ckxyn", "halo"),
        DspPlan((1, 1, 2, 1, 9, 1), "ynkcx", "tile"),
    ):
        few = agree(dsp_program(layers.make(layer), plan), lockstep=True)
        assert few is not None
        assert few.valid


# Wrong in one tile ---


def changed(program: Program, place: int, event: NestEvent) -> Program:
    nest = nest_in(program)
    return with_nest(program, replace(nest, events=(*nest.events[:place], event, *nest.events[place + 1 :])))


def find(program: Program, kind: int, tensor: str) -> tuple[int, NestEvent]:
    events = enumerate(nest_in(program).events)
    return next((place, e) for place, e in events if e.form[:2] == (kind, tensor))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("iteration", [0, 1, 2, 5, 9, 11, 12, 19, 21, 22])
@pytest.mark.parametrize(("kind", "tensor"), [(FREE, "input"), (LOAD, "input"), (WRITE, "output")])
def test_what_one_iteration_leaves_out_is_found(kind: int, tensor: str, iteration: int) -> None:
    program = convolution("ncyxk", "tile")
    loop = 4  # x
    place, event = find(program, kind, tensor)
    when = event.when.get(loop, np.ones(nest_in(program).trips[loop], dtype=np.bool_)).copy()
    when[iteration] = False
    few = agree(changed(program, place, replace(event, when={**event.when, loop: when})), lockstep=True)
    assert few is not None
    assert few.violation is not None


@pytest.mark.by_day(2)
@pytest.mark.parametrize("tile", [0, 3, 11, 21, 22])
def test_what_one_tile_loads_too_much_does_not_fit(tile: int) -> None:
    """An iteration loads and frees a column more than the others; the buffer holds what those need."""
    program = convolution("ncyxk", "tile")
    size = program.tensor("input").shape[4]
    for kind in (LOAD, FREE):
        place, event = find(program, kind, "input")
        along = event.ranges[4]
        low, high = along.low.copy(), along.high.copy()
        low[tile], high[tile] = max(0, low[tile] - (high[tile] == size)), min(size, high[tile] + 1)
        ranges = (*event.ranges[:4], replace(along, low=low, high=high))
        program = changed(program, place, replace(event, ranges=ranges))
    few = agree(program, lockstep=False)
    assert few is not None
    assert few.violation is not None
    assert few.violation.rule == "buffer overflow"


def test_an_edge_tile_that_needs_more_memory_is_found() -> None:
    """Tiles of one column, then one of five: only that does not fit."""
    problem = layers.make({"input": [20, 24, 44], "kernels": 9, "kernel": [1, 1]})
    program = dsp_program(problem, DspPlan((1, 1, 3, 1, 1, 2), "ncyxk", "tile"))
    nest = nest_in(program)
    spans = [*((column, column + 1) for column in range(39)), (39, 44)]
    trips = (*nest.trips[:4], len(spans), *nest.trips[5:])
    events = []
    for found in nest.events:
        ranges = tuple(Along.spans(4, spans) if along.loop == 4 else along for along in found.ranges)
        when = {loop: marks[: trips[loop]] for loop, marks in found.when.items()}
        events.append(replace(found, ranges=ranges, when=when))
    names = {**nest.names, 4: [f"x{column}" for column, _ in spans]}
    program = with_nest(program, replace(nest, trips=trips, events=tuple(events), names=names))
    few = agree(program, lockstep=False)
    assert few is not None
    assert few.violation is not None
    assert few.violation.rule == "buffer overflow"
    buffers = tuple(replace(tensor, buffer=5 * (tensor.buffer or 0)) for tensor in program.tensors)
    few = agree(replace(program, tensors=buffers), lockstep=False)
    assert few is not None
    assert few.valid


def test_too_many_loads_in_all_are_found() -> None:
    """Weights are loaded once per row, in all 24 times; that is a sum, so every tile is executed."""
    program = convolution("nyxck", "tile")

    def limited(loads: int) -> Program:
        return replace(program, tensors=tuple(replace(t, max_loads=loads) for t in program.tensors))

    most = execute(program, count_above=0).most_loads["kernels"]
    assert execute(limited(most), count_above=0).valid
    found = execute(limited(most - 1), count_above=0)
    assert found.times is None
    assert found.violation == execute(limited(most - 1), count_above=10**12).violation
    assert found.violation is not None
    assert found.violation.rule == "reload limit"


# Where it applies ---


def test_a_run_keeps_what_one_element_sees_twice() -> None:
    """22 columns of a window of three: three see an element. Kept are three after and four before."""
    few = reduce_program(convolution("ncyxk", "tile"))
    assert few is not None
    assert few.trips == (1, 1, 3, 24, 23, 10)
    assert few.kept[4].tolist() == [0, 1, 2, 3, 4, 20, 21, 22]
    assert few.weights[4].tolist() == [1, 1, 1, 1, 16, 1, 1, 1]
    assert few.program.tensor("input").shape == (1, 1, 20 - 2 * 5, 26 - 16, 25 - 15)


def test_programs_that_cannot_be_counted_are_executed_tile_by_tile() -> None:
    program = convolution()
    nest = nest_in(program)
    assert reduce_program(program) is not None
    place, compute = find(program, COMPUTE, "output")
    elsewhere = replace(compute, ranges=(*compute.ranges[:3], compute.ranges[4], compute.ranges[3]))
    late = nest.events[-1], *nest.events[:-1]
    others = [
        replace(program, steps=tuple(islice(program.steps, 3))),
        replace(program, preloaded=(("input", next(iter(program.steps)).load[0].region),)),
        changed(program, place, elsewhere),
        with_nest(program, replace(nest, events=late)),
        replace(program, tensors=(*program.tensors, replace(program.tensors[0], name="flat", shape=(1,)))),
    ]
    assert [reduce_program(other) for other in others] == [None] * len(others)


def test_what_stays_on_chip_tile_after_tile_is_executed_tile_by_tile() -> None:
    """Without the frees each tile adds to what is there; counting finds that it does not know how much."""
    problem = layers.make({"input": [20, 24, 23], "kernels": 3, "kernel": [1, 1]})
    program = dsp_program(problem, DspPlan((1, 1, 3, 1, 1, 2), "ncyxk", "tile"))
    unbounded = tuple(replace(tensor, buffer=None) for tensor in program.tensors)
    kept = tuple(e for e in nest_in(program).events if e.form != (FREE, "input"))
    program = replace(with_nest(program, replace(nest_in(program), events=kept)), tensors=unbounded)
    assert reduce_program(program) is not None
    report = execute(program, count_above=0)
    assert report.times is None
    assert report.violation is not None
    assert report.violation.rule == "memory not empty"


def test_numbers_and_clocks_are_of_every_tile() -> None:
    program = convolution()
    assert execute(program, count_above=0).times is not None
    assert execute(program, count_above=0, overlapped=True).times is None


def test_small_programs_are_executed_tile_by_tile() -> None:
    program = convolution()
    size = nest_in(program).size
    assert execute(program, count_above=size).times is None
    assert execute(program, count_above=size - 1).times is not None


@pytest.mark.parametrize("count_above", [0, 10**12])
def test_the_deadline_holds_for_both(count_above: int) -> None:
    with pytest.raises(OutOfTimeError):
        execute(convolution(), count_above=count_above, deadline=time.monotonic() - 1)


def test_a_report_of_counted_tiles_shows_each_once() -> None:
    report = execute(convolution(double=False), count_above=0)
    rows = report.per_step()
    assert report.sequential is not None
    assert sum(row["serial_cycles"] * row["times"] for row in rows) == report.sequential.cycles
    assert report.sequential.finish.max() <= report.sequential.cycles


@pytest.mark.by_day(3)
@pytest.mark.parametrize("kind", ["dsp", "npu"])
def test_what_a_room_measures_is_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and measures of a plan are those of all its tiles."""
    plan: DspPlan | NpuPlan
    if kind == "dsp":
        problem = layers.make(CONVOLUTION, {"double_buffering": True}, minimise="energy")
        plan = DspPlan((1, 1, 3, 1, 1, 2), "ncyxk", "halo")
    else:
        problem = test_npu.make(CONVOLUTION, {"weights_bytes": 1 << 20})
        plan = NpuPlan("KS", "OS", (1, 2, 1, 1))
    found = []
    for most in (0, 10**12):
        monkeypatch.setattr(executor, "COUNT_ABOVE", most)
        found.append(simulate(problem, Plan((plan,)), overlapped=False))
    few, every = found
    assert (few.times is None, every.times is None) == (False, True)
    assert totals(few) == totals(every)
    assert few.measures == every.measures
    assert measured_objective(problem, few) == measured_objective(problem, every)


# Programs that are too long for anything else ---


def test_a_plan_of_four_hundred_million_tiles() -> None:
    layer = {"input": [64, 112, 112], "kernels": 256, "kernel": [3, 3], "padding": [1, 1, 1, 1], "batch": 2}
    problem = layers.make(layer, {"double_buffering": True, "padding": "generated"}, minimise="cycles")
    plan = Plan((DspPlan((1, 1, 1, 1, 1, 1), "kncyx", "halo"),))
    report = simulate(problem, plan, overlapped=False)
    assert report.valid
    assert report.n_steps == 2 * 256 * 112 * 112 * 64
    assert measured_objective(problem, report) == objective(problem, plan)
    assert sum(map(report.total, report.loaded.values())) + report.total(report.written["output"]) == (
        report.measures.accesses_elements
    )


def test_a_plan_of_four_hundred_million_tiles_on_an_npu() -> None:
    layer = {"input": [512, 226, 226], "kernels": 512, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = test_npu.make(layer, {"tles": 4, "tlts": 8})
    plan = Plan((NpuPlan("KS", "OS", (1, 1, 1, 1)),))
    report = simulate(problem, plan, overlapped=False)
    assert report.valid
    assert report.n_steps == 16 * 226 * 226 * 512
    assert measured_objective(problem, report) == objective(problem, plan)


def test_a_long_plan_that_does_not_fit_is_refuted() -> None:
    problem = read("alexnet-conv3-64k").problem
    machine = problem.machine.with_(memory_bytes=256)
    small = problem.model_copy(update={"machine": machine})
    report = simulate(small, Plan((DspPlan((1, 1, 2, 2, 13, 4), "ncyxk", "halo"),)), overlapped=False)
    assert report.violation is not None
    assert report.violation.rule == "memory overflow"
