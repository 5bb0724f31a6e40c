"""Programs whose steps say when they start: what they take, and each rule that a schedule can break."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from conftest import examples, tells, totals
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import damage, valid_programs
from pipelines import IMAGE, Pipeline, Stage, pipelines
from plain_executor import (
    Element,
    elements,
    operands,
    own_cycles,
    plain_overlapped,
    plain_sequential,
    streaming_cycles,
)
from test_made_up import agree, blocks  # noqa: F401 (a fixture)
from test_timing import waits

from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Report,
    Step,
    Tensor,
    WriteBack,
    execute,
)
from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Key, StepTable, TabledSteps
from tilewright.simulator.program import Region
from tilewright.spec.layer import Layer

ALL = Box((None,))


# By hand -----------------------------------------------------------------------------------------


def part(first: int, last: int) -> Box:
    return Box(((first, last),))


def compute(target: str, region: Box, read: str, window: Box) -> Compute:
    return Compute(
        target, region, ((read, window),), 1, engine=f"for {target}", cycles={"u": 2, "v": 5}[target]
    )


def two_layers() -> Program:
    """x becomes u, 2 cycles a half, and u becomes v, 5 cycles a half; both engines are at work together."""
    tensors = (
        Tensor("x", (4,), "input"),
        Tensor("u", (4,), "intermediate", macs_per_element=1),
        Tensor("v", (4,), "output", macs_per_element=1),
    )
    one, two = part(0, 2), part(2, 4)
    steps = (
        Step(compute=(compute("u", one, "x", one),), start=10),
        Step((Free("x", one),), compute=(compute("u", two, "x", two),), start=12),
        Step(compute=(compute("v", one, "u", one),), start=12),
        Step((Free("u", one), Free("x", two)), compute=(compute("v", two, "u", two),), start=17),
        Step((Free("u", two),), (WriteBack("v", ALL),), start=22),
    )
    engines = Engine("load", 1), Engine("write"), Engine("for u"), Engine("for v")
    return Program(tensors, (Memory("mem"),), engines, steps, (("x", ALL),), buffers=5)


def edited(*added: Step, **starts: int | None) -> Program:
    """The program with other starts of some steps (s1 is the first) and further steps, in order of time."""
    program = two_layers()
    steps = [replace(step, start=starts.get(f"s{n}", step.start)) for n, step in enumerate(program.steps, 1)]
    return replace(program, steps=tuple(sorted([*added, *steps], key=lambda step: step.start or 0)))


def broken(program: Program) -> str:
    report = execute(program, overlapped=True)
    assert report.scheduled is None
    assert report.overlapped is None
    return str(report.violation)


def test_a_schedule_is_executed_as_it_says() -> None:
    report = execute(two_layers(), overlapped=True, lockstep=True)
    assert report.violation is None
    line = report.scheduled
    assert line is not None
    assert report.sequential is report.lockstep is None
    assert list(line.step) == [0, 1, 2, 3, 4]
    assert list(line.start) == [10, 12, 12, 17, 22]
    assert list(line.finish) == [12, 14, 17, 22, 22]
    assert list(line.engine) == ["for u", "for u", "for v", "for v", "write"]
    assert line.busy() == {"write": 0, "for u": 4, "for v": 10}
    assert line.cycles == 22
    # At cycle 12, half of x is gone: x 2, u 4, v 2.
    assert report.peak == line.peak == 8
    assert [int(sum(c[n] for c in report.footprint.values())) for n in range(5)] == [6, 6, 8, 6, 0]
    assert report.per_step()[0]["serial_cycles"] is None
    assert report.overlapped is not None
    assert list(report.overlapped.start) == [0, 2, 2, 7, 12]


def test_a_chain_of_schedules() -> None:
    report = execute(two_layers())
    chain = Report.chain(["a", "b"], [report, report])
    assert chain.scheduled is not None
    assert (chain.scheduled.cycles, chain.peak) == (44, 8)
    assert list(chain.scheduled.start[5:]) == [32, 34, 34, 39, 44]
    assert chain.sequential is None


def test_capacities_hold_in_the_order_of_steps() -> None:
    assert execute(replace(two_layers(), memories=(Memory("mem", 8),))).valid
    found = broken(replace(two_layers(), memories=(Memory("mem", 7),)))
    assert tells(found, "memory overflow .. step 3 .. mem .. 8 .. x 2 .. u 4 .. v 2 .. 7")


# One rule, one program ---------------------------------------------------------------------------


def test_steps_are_in_the_order_of_time() -> None:
    steps = two_layers().steps
    program = replace(two_layers(), steps=(*steps[:2], replace(steps[2], start=11), *steps[3:]))
    assert tells(broken(program), "order .. step 3 .. schedule .. 12 .. 11")
    report = execute(program)
    assert len(report.labels) == 3
    assert list(report.macs) == [2, 2, 0]
    assert tells(broken(edited(s1=-1)), "order .. step 1 .. schedule .. 0 .. -1")


def test_all_steps_have_a_start_or_none() -> None:
    steps = two_layers().steps

    def without(*which: int) -> Program:
        found = [replace(step, start=None) if n in which else step for n, step in enumerate(steps, 1)]
        return replace(two_layers(), steps=tuple(found))

    assert tells(broken(without(3)), "order .. step 3 .. schedule .. start .. none")
    assert tells(broken(without(5)), "order .. step 5 .. schedule .. start .. none")
    assert tells(broken(without(1)), "order .. step 2 .. schedule .. start .. cycle 12")
    report = execute(without(1, 2, 3, 4, 5), lockstep=True)
    assert report.violation is None
    assert report.scheduled is None
    assert report.sequential is not None
    assert report.lockstep is not None


def test_not_ready() -> None:
    assert tells(broken(edited(s3=11)), "not ready .. step 2 .. u[0] .. data .. 11 .. computed .. 12")
    added = Step((Free("u", part(1, 2)),), start=11)
    assert tells(broken(edited(added)), "not ready .. step 2 .. u[1] .. data .. 11 .. computed .. 12")
    added = Step(write_back=(WriteBack("u", part(0, 2)),), start=11)
    assert tells(broken(edited(added)), "not ready .. step 2 .. u[0] .. data .. 11 .. computed .. 12")
    assert tells(broken(edited(s5=21)), "in use .. step 5 .. u[2] .. readers .. 21 .. read .. 22")
    early = replace(two_layers().steps[4], free=(), start=21)
    program = replace(two_layers(), steps=(*two_layers().steps[:4], early))
    assert tells(broken(program), "not ready .. step 5 .. v[2] .. 21 .. computed .. 22")


def test_in_use() -> None:
    freed = edited(Step((Free("x", part(1, 3)),), start=11))
    assert tells(broken(freed), "in use .. step 2 .. x[1] .. readers .. 11 .. read .. 12")
    written = edited(Step(write_back=(WriteBack("u", part(0, 2)),), start=16))
    assert tells(broken(written), "in use .. step 4 .. u[0] .. readers .. 16 .. read .. 17")


def test_the_last_of_all_readers_counts() -> None:
    """Three engines read x, until 12, 19 and 17; a half is freed in time."""
    tensors = (
        Tensor("x", (2,), "input"),
        *(Tensor(name, (1,), "output", macs_per_element=1) for name in "uvw"),
    )
    computes = tuple(
        Compute(name, ALL, (("x", part(0, last)),), 1, engine=name, cycles=cycles)
        for name, cycles, last in (("u", 2, 2), ("v", 9, 1), ("w", 7, 1))
    )
    away = Step(write_back=tuple(WriteBack(name, ALL) for name in "uvw"), start=30)
    engines = tuple(Engine(name) for name in ("u", "v", "w", "write"))
    steps = (Step(compute=computes, start=10), Step((Free("x", part(1, 2)), Free("x", part(0, 1))), start=18))
    program = Program(tensors, (Memory("mem"),), engines, (*steps, away), (("x", ALL),))
    assert tells(broken(program), "in use .. step 2 .. x[0] .. readers .. 18 .. read .. 19")
    assert execute(replace(program, steps=(steps[0], replace(steps[1], start=19), away))).valid


def test_engine_busy() -> None:
    steps = list(two_layers().steps)
    steps[1] = replace(steps[1], free=(), start=11)
    steps[3] = replace(steps[3], free=(*steps[3].free, Free("x", part(0, 2))))
    assert tells(
        broken(replace(two_layers(), steps=tuple(steps))),
        "engine busy .. step 2 .. for u .. 11 .. at work .. 12",
    )


def test_two_computes_of_a_step_are_on_two_engines() -> None:
    program = two_layers()
    one, two = (step.compute[0] for step in program.steps[:2])
    steps = (Step(compute=(one, two), start=10), Step((Free("x", ALL),), start=12), *program.steps[2:3])
    assert tells(
        broken(replace(program, steps=steps)), "engine busy .. step 1 .. for u .. 10 .. at work .. 12"
    )


def test_loads_take_their_time() -> None:
    program = two_layers()
    load = Load("x", ALL)
    steps = (Step(load=(load,), start=6), *program.steps)
    assert execute(replace(program, steps=steps, preloaded=())).valid
    late = (Step(load=(load,), start=7), *program.steps)
    found = broken(replace(program, steps=late, preloaded=()))
    assert tells(found, "not ready .. step 2 .. x[0] .. 10 .. loaded .. 11")
    same = (replace(program.steps[0], load=(load,)), *program.steps[1:])
    found = broken(replace(program, steps=same, preloaded=()))
    assert tells(found, "not ready .. step 1 .. x[0] .. 10 .. loaded .. 14")


def test_what_is_written_back_is_loaded_when_it_is_there() -> None:
    program = two_layers()
    engines = (*program.engines[:1], Engine("write", 3), *program.engines[2:])
    away = Step(write_back=(WriteBack("u", part(0, 2)),), start=17)
    steps = (*program.steps[:3], away, Step(load=(Load("u", part(0, 2)),), start=22))
    found = broken(replace(program, engines=engines, steps=steps))
    assert tells(found, "not ready .. step 5 .. u[0] .. 22 .. written back .. 23")


def by_halves(cycles: int) -> Program:
    """The two layers, of which v is written back by halves, which takes the cycles given."""
    program = two_layers()
    *steps, last = program.steps
    steps[3] = replace(steps[3], write_back=(WriteBack("v", part(0, 2)),))
    last = replace(last, write_back=(WriteBack("v", part(2, 4)),))
    engines = (program.engines[0], Engine("write", setup=cycles), *program.engines[2:])
    return replace(program, steps=(*steps, last), engines=engines)


def test_space_is_given_up_when_it_has_been_written_back() -> None:
    quick, slow = execute(by_halves(0)), execute(by_halves(4))
    assert [quick.footprint["v"].tolist(), slow.footprint["v"].tolist()] == [[0, 0, 2, 2, 0], [0, 0, 2, 4, 2]]
    assert (quick.peak, slow.peak) == (8, 8)
    assert slow.scheduled is not None
    assert slow.scheduled.cycles == 26
    assert list(slow.freed["u"]) == [0, 0, 0, 2, 2]
    until_the_last_step = execute(by_halves(5))
    assert until_the_last_step.footprint["v"].tolist() == [0, 0, 2, 4, 2]


def streaming(cycles: int, late: int, capacity: int | None = None) -> Program:
    """x is computed and written back in three parts, each 3 cycles after the one before or later."""
    tensor = Tensor("x", (6,), "output", macs_per_element=1)
    parts = [part(2 * n, 2 * n + 2) for n in range(3)]
    begins = [0, 3 + late, 6 + 2 * late]
    steps = []
    for n, begin in enumerate(begins):
        steps.append(Step(compute=(Compute("x", parts[n], (), 1, engine="make", cycles=1),), start=begin))
        steps.append(Step(write_back=(WriteBack("x", parts[n]),), start=begin + 1))
    return Program(
        (tensor,), (Memory("mem", capacity),), (Engine("make"), Engine("write", cycles, 0)), tuple(steps)
    )


@pytest.mark.parametrize(("cycles", "late", "peak"), [(0, 0, 2), (1, 0, 2), (1, -1, 4), (2, 2, 2), (2, 1, 4)])
def test_how_long_write_backs_take_matters(cycles: int, late: int, peak: int) -> None:
    """A part of two elements takes 1 cycle to compute, and twice `cycles` to write back."""
    report = execute(streaming(cycles, late, peak))
    assert report.violation is None
    assert report.peak == peak
    found = broken(streaming(cycles, late, peak - 1))
    assert tells(found, f"memory overflow .. step {peak - 1} .. mem .. {peak} .. x {peak} .. {peak - 1}")


def test_buffers_are_in_use_while_they_are_saved() -> None:
    program = streaming(1, -1)
    assert execute(replace(program, tensors=(replace(program.tensors[0], buffer=4),))).valid
    found = broken(replace(program, tensors=(replace(program.tensors[0], buffer=3),)))
    assert tells(found, "buffer overflow .. step 3 .. x .. 4 .. 3")


def test_frees_of_a_cycle_count_in_the_order_of_steps() -> None:
    tensors = Tensor("x", (4,), "input"), Tensor("z", (4,), "input")
    first, last = Step(load=(Load("x", ALL),), start=0), Step((Free("z", ALL),), start=6)
    load, free = Step(load=(Load("z", ALL),), start=5), Step((Free("x", ALL),), start=5)
    program = Program(tensors, (Memory("mem", 4),), (Engine("load", setup=1),), (first, free, load, last))
    assert execute(program).valid
    found = broken(replace(program, steps=(first, load, free, last)))
    assert tells(found, "memory overflow .. step 2 .. mem .. 8 .. x 4 .. z 4 .. 4")


def test_what_the_schedule_has_room_for_has_room_on_any_clock() -> None:
    report = execute(streaming(2, 1, 4), overlapped=True)
    assert report.overlapped is not None
    assert report.overlapped.peak <= report.peak == 4


def test_a_program_that_breaks_off_in_a_compute() -> None:
    program = two_layers()
    damaged = replace(program.steps[2].compute[0], operands=(("u", part(0, 2)), ("z", ALL)))
    steps = (*program.steps[:2], replace(program.steps[2], compute=(damaged,)))
    assert tells(broken(replace(program, steps=steps)), "unknown tensor .. step 3 .. z .. declared .. none")


# Against executors that go element by element ----------------------------------------------------


def scheduled(program: Program, random: Random) -> Program:
    """The program with a step for each action, at times at which it breaks no rule that it did not break."""
    spans = iter(plain_sequential(program))
    parts: list[tuple[int, Step]] = []
    now = late = 0
    for step in program.steps:
        late += random.choice((0, 0, 2))
        parts += [(now + late, Step((action,))) for action in step.free]
        for stage in ("write_back", "load", "compute"):
            for action in getattr(step, stage):
                start, finish = next(spans)
                parts.append((start + late, Step(**{stage: (action,)})))
                now = max(now, finish)
    ordered = sorted(parts, key=lambda part: part[0])
    return replace(program, steps=tuple(replace(step, start=start) for start, step in ordered))


def spoiled(program: Program, random: Random) -> Program:
    """The program with other times: of a step, of all from one on, or of none; or with steps swapped.

    Or, in a hurry, with short pauses only between steps, whatever is still at work.
    """
    steps = list(program.steps)
    first = random.randrange(len(steps))
    shift = random.choice((-3, -2, -1, 1, 2))
    kind = random.choice(("one", "rest", "swap", "drop", "sort", "sort", "hurry", "hurry"))
    if kind == "drop":
        steps[first] = replace(steps[first], start=None)
    elif kind == "hurry":
        most = random.randint(1, 6)
        now = before = 0
        for n, step in enumerate(steps):
            start = step.start or 0
            now, before = now + min(most, start - before), start
            steps[n] = replace(step, start=now)
    elif kind == "swap":
        other = random.randrange(len(steps))
        starts = steps[first].start, steps[other].start
        steps[first], steps[other] = (
            replace(steps[n], start=start) for n, start in zip((other, first), starts, strict=True)
        )
    else:
        last = len(steps) if kind == "rest" else first + 1
        for n in range(first, last):
            steps[n] = replace(steps[n], start=max(0, (steps[n].start or 0) + shift))
        if kind == "sort":
            steps.sort(key=lambda step: step.start or 0)
    return replace(program, steps=tuple(steps))


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(), st.integers(0, 2**32 - 1))
def test_any_program_with_a_schedule(program: Program, seed: int) -> None:
    program = scheduled(program, Random(seed))
    report, plain = agree(program, lockstep=True)
    assert report.violation is None
    line = report.scheduled
    assert line is not None
    assert line.peak == plain.peak
    assert line.cycles == max(plain.busy.values(), default=0)
    shown = [
        (step.start, action)
        for step in program.steps
        for action in (*step.write_back, *step.load, *step.compute)
    ]
    assert list(line.start) == [start for start, _ in shown]
    for (start, action), finish in zip(shown, line.finish.tolist(), strict=True):
        streaming = streaming_cycles(program, action) if isinstance(action, Compute) else 0
        assert finish - start == max(own_cycles(program, action), streaming)


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(200))
def test_spoiled_schedules(program: Program, seed: int) -> None:
    random = Random(seed)
    agree(spoiled(scheduled(program, random), random), lockstep=False)


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(), st.integers(0, 2**32 - 1))
def test_nothing_waits_for_write_backs(program: Program, seed: int) -> None:
    """Each on an engine of its own, slower than all others: what is still being saved takes space."""
    random = Random(seed)
    program = scheduled(program, random)
    slow = [Engine(f"w{n}", random.randint(0, 3), random.randint(0, 60)) for n in range(len(program.steps))]
    steps = tuple(
        replace(step, write_back=tuple(replace(move, engine=f"w{n}") for move in step.write_back))
        for n, step in enumerate(program.steps)
    )
    program = replace(program, engines=(*program.engines, *slow), steps=steps)
    report, plain = agree(program, lockstep=False)
    if report.violation is None:
        assert report.peak == plain.peak
    else:
        assert report.violation.rule in ("not ready", "memory overflow", "buffer overflow")


# Tables ------------------------------------------------------------------------------------------


def tabled(program: Program) -> Program:
    """The program with its steps as a table."""
    forms: dict[Key, int] = {}
    rows: list[tuple[int, int, str, Region]] = []
    for number, step in enumerate(program.steps, 1):
        for action in step.actions:
            name, target = action.tensor, action.region
            if isinstance(action, Free):
                key: Key = (FREE, name)
            elif isinstance(action, Compute):
                key = (
                    COMPUTE,
                    name,
                    action.engine,
                    action.macs_per_element,
                    0,
                    action.streamed,
                    action.cycles,
                )
                for read, region in action.operands:
                    form = forms.setdefault((READ, read, action.engine, 0, 0, 0, 0, name), len(forms))
                    rows.append((number, form, read, region))
            else:
                kind = LOAD if isinstance(action, Load) else WRITE
                key = (kind, name, action.engine, 0, action.bursts)
            rows.append((number, forms.setdefault(key, len(forms)), name, target))
    bounds = [region.bounds(program.tensor(name).shape) for *_, name, region in rows]
    table = StepTable(
        [step.label for step in program.steps],
        np.array([step.start for step in program.steps]),
        list(forms),
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows]),
        *(np.array([found[end] for found in bounds]) for end in (0, 1)),
    )
    steps = TabledSteps(len(program.steps), lambda: iter(program.steps), lambda: table)
    return replace(program, steps=steps)


def alike(program: Program) -> Report:
    """Execute a program and its table."""
    report, again = execute(program), execute(tabled(program))
    assert totals(report) == totals(again)
    assert report.per_step() == again.per_step()
    return report


def two_tiles(capacity: int, recomputed: bool = True) -> Program:
    """Each v needs two neighbours of u; of three, one is computed in the first tile, two in the second."""
    tensors = (
        Tensor("x", (4,), "input"),
        Tensor("u", (4,), "intermediate", macs_per_element=1, recomputed=recomputed),
        Tensor("v", (3,), "output", macs_per_element=2),
    )

    def beat(target: str, first: int, last: int, read: str, more: int = 0) -> Compute:
        operands = ((read, part(first, last + more)),)
        return Compute(target, part(first, last), operands, 1 + more, engine=target, cycles=3)

    steps = (
        Step(compute=(beat("u", 0, 2, "x"),), start=0),
        Step(compute=(beat("v", 0, 1, "u", 1),), start=3),
        Step((Free("u", part(0, 2)),), (WriteBack("v", part(0, 1)),), start=6),
        Step(compute=(beat("u", 1, 4, "x"),), start=7),
        Step(compute=(beat("v", 1, 3, "u", 1),), start=10),
        Step((Free("u", part(1, 4)), Free("x", ALL)), (WriteBack("v", part(1, 3)),), start=15),
    )
    engines = Engine("u"), Engine("v"), Engine("write", setup=9)
    return Program(tensors, (Memory("mem", capacity),), engines, steps, (("x", ALL),))


@pytest.mark.usefixtures("blocks")
def test_a_table_of_what_is_computed_again_and_saved_slowly() -> None:
    report = alike(two_tiles(10))
    assert report.violation is None
    assert list(report.macs) == [2, 2, 0, 3, 4, 0]
    assert report.scheduled is not None
    assert (report.scheduled.cycles, report.peak) == (24, 10)
    found = alike(two_tiles(9)).violation
    assert tells(found, "memory overflow .. step 5 .. mem .. 10 elements .. x 4 .. u 3 .. v 3 .. 9")
    found = alike(two_tiles(10, recomputed=False)).violation
    assert tells(found, "computed twice .. step 4 .. u[1] .. 1 MACs .. 2")


@pytest.mark.by_day(2)
@pytest.mark.usefixtures("blocks")
@given(pipelines(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(30))
def test_tables(drawn: tuple[Pipeline, Program], seed: int) -> None:
    random = Random(seed)
    program = replace(drawn[1], engines=(Engine("write", 0, random.randint(0, 9)), *drawn[1].engines[1:]))
    report = execute(program)
    if report.violation is None:
        program = replace(program, memories=(Memory("mem", report.peak - random.randint(0, 1)),))
    alike(program)


# Pipelines ---------------------------------------------------------------------------------------


def in_turn(program: Program) -> list[set[int]]:
    """Every action with what it waits for; and an engine reads an element in the order of the program."""
    found = []
    last: dict[tuple[str, Element], int] = {}
    for number, (action, after) in enumerate(waits(program)):
        engine = "" if isinstance(action, Free) else action.engine
        read = {
            (engine, element)
            for name, region in operands(action)
            for element in elements(program.tensor(name), region)
        }
        found.append(after | {last[key] for key in read & last.keys()})
        last |= dict.fromkeys(read, number)
    return found


def check_overlapped(program: Program) -> None:
    report = execute(program, overlapped=True)
    assert report.violation is None
    line = report.overlapped
    assert line is not None
    actions = [action for step in program.steps for action in step.actions]
    expected = plain_overlapped(program, in_turn(program))
    shown = [span for span, action in zip(expected, actions, strict=True) if not isinstance(action, Free)]
    assert list(zip(line.start.tolist(), line.finish.tolist(), strict=True)) == shown


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(pipelines(), st.integers(0, 99))
@settings(max_examples=examples(40))
def test_pipelines(drawn: tuple[Pipeline, Program], seed: int) -> None:
    pipeline, program = drawn
    report, plain = agree(program, lockstep=False)
    assert report.violation is None
    assert report.scheduled is not None
    assert report.scheduled.peak == plain.peak
    assert report.scheduled.cycles == max(int(finish.max()) for finish in pipeline.finish)
    starts = {name: [] for name in report.scheduled.tensor.names}
    for name, start in zip(report.scheduled.tensor, report.scheduled.start.tolist(), strict=True):
        starts[name].append(start)
    for number, start in enumerate(pipeline.start):
        if number in pipeline.read:
            assert starts[pipeline.name(number)] == start.ravel().tolist()
    data = pipeline.data(seed)
    assert execute(program, data=data, expected=pipeline.expected(data)).numeric is True


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(pipelines(), st.integers(0, 2**32 - 1))
def test_spoiled_pipelines(drawn: tuple[Pipeline, Program], seed: int) -> None:
    random = Random(seed)
    program = spoiled(drawn[1], random)
    if random.random() < 0.5:
        slow = Engine("write", random.randint(0, 2), random.randint(0, 3))
        program = replace(program, engines=(slow, *program.engines[1:]))
    agree(damage(random, program) if random.random() < 0.3 else program, lockstep=False)


@pytest.mark.by_day(1)
@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
@given(pipelines(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40))
def test_pipelines_on_their_own_clocks(drawn: tuple[Pipeline, Program], seed: int) -> None:
    """With all steps open or a few, and with as much memory as the schedule needs or more."""
    program, random = drawn[1], Random(seed)
    check_overlapped(program)
    peak = execute(program).peak
    room = Memory("mem", peak + random.randint(0, 20))
    check_overlapped(replace(program, memories=(room,), buffers=random.choice((1, 2, 5, len(program.steps)))))


@pytest.mark.by_day(2)
@pytest.mark.usefixtures("blocks")
@given(valid_programs())
def test_any_program_on_its_own_clocks(program: Program) -> None:
    check_overlapped(program)


def test_a_pipeline_overtakes_its_schedule() -> None:
    """Two layers: each beat of the second needs a beat of the first, and all wait for nothing else."""
    layer = Layer(input=(1, 1, 6), kernels=1, kernel=(1, 1))
    pipeline = Pipeline([Stage(layer, (IMAGE,), 2), Stage(layer, (0,), 3)], layer.input, 2, Random(1))
    report = execute(pipeline.program(), overlapped=True)
    assert report.scheduled is not None
    assert report.overlapped is not None
    assert report.overlapped.cycles == 2 + 12 * 3 < report.scheduled.cycles
