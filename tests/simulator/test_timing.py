"""Timelines: definition 3 in sequence, and engines beside each other, against independent arithmetic."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from conftest import examples, make_problem, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions_at_random import plans
from plain_executor import own_cycles, plain_sequential

from tilewright.grouping import Plan, Problem, lower
from tilewright.simulator import (
    Box,
    Cells,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Report,
    Step,
    Tensor,
    Timeline,
    WriteBack,
    execute,
)
from tilewright.simulator.program import Action, Region

ALL = Box((None,))


def timed(program: Program) -> tuple[Report, Timeline, Timeline]:
    report = execute(program, overlapped=True)
    assert report.violation is None, report.violation
    assert report.sequential is not None
    assert report.overlapped is not None
    return report, report.sequential, report.overlapped


# Random programs ---------------------------------------------------------------------------------


@st.composite
def grouping_programs(draw: st.DrawFn) -> tuple[Problem, Program]:
    """Random plans of random small layers on random machines, as the grouping room lowers them."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    problem = make_problem(
        {
            "input": [draw(st.integers(1, 2)), *((side - 1) * stride + kernel for side in (rows, cols))],
            "kernels": draw(st.integers(1, 2)),
            "kernel": [kernel, kernel],
            "stride": [stride, stride],
        },
        {
            "group_size": draw(st.integers(1, 4)),
            "load": draw(st.integers(0, 3)),
            "write": draw(st.integers(0, 3)),
            "compute": draw(st.sampled_from([0, 1, 7, 40])),
            "kernels": draw(st.sampled_from(["preloaded", "step1"])),
            "outputs": draw(st.sampled_from(["each_step", "kept"])),
        },
        {"reloads": 0},
    )
    program = lower(problem, draw(plans(problem)))
    program = replace(program, buffers=draw(st.integers(1, 3)))
    return problem, within(program, draw(st.sampled_from([None, 0, 5, 20])))


def within(program: Program, spare: int | None) -> Program:
    """Give a program of one memory its sequential peak and `spare` more."""
    if spare is None:
        return program
    peak = execute(program).peak
    return replace(program, memories=(replace(program.memories[0], capacity=peak + spare),))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Random valid programs: several tensors, engines and memories, partial sums, intermediates.

    Each step frees some of what is on chip, writes some back, loads what its computes need, and computes.
    """
    n_inputs, n_results = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    memories = ("mem", "scratch") if draw(st.booleans()) else ("mem",)
    chosen = st.sampled_from(memories)
    tensors = [Tensor(f"x{i}", (draw(st.integers(1, 6)),), "input", draw(chosen)) for i in range(n_inputs)]
    available = {tensor.name: False for tensor in tensors}
    stored = {tensor.name: True for tensor in tensors}
    steps: list[Step] = []
    engines = [Engine(name, draw(st.integers(0, 3)), draw(st.integers(0, 2))) for name in ("load", "write")]
    engines += [Engine(name, 0, draw(st.integers(0, 9))) for name in ("matrix", "vector")]
    for number in range(n_results):
        name = f"y{number}"
        parts = draw(st.integers(1, 3))
        tensor = Tensor(
            name, (draw(st.integers(1, 6)),), "output", memory=draw(chosen), macs_per_element=parts
        )
        tensors.append(tensor)
        computes, loads, frees, writes = [], [], [], []
        spilled = False
        for _ in range(parts):
            reads = draw(st.lists(st.sampled_from(sorted(available)), max_size=3, unique=True))
            for read in reads:
                if not available[read]:
                    loads.append(Load(read, ALL))
                    available[read] = True
            operands = tuple((read, ALL) for read in reads)
            computes.append(
                Compute(name, ALL, operands, 1, engine=draw(st.sampled_from(["matrix", "vector"])))
            )
            if draw(st.booleans()):
                steps.append(Step(tuple(frees), tuple(writes), tuple(loads), tuple(computes)))
                computes, loads, frees, writes = [], [], [], []
                for other in sorted(available):
                    if available[other] and draw(st.booleans()):
                        if stored[other]:
                            frees.append(Free(other, ALL))
                        else:
                            writes.append(WriteBack(other, ALL))
                            stored[other] = True
                        available[other] = False
                spilled = draw(st.booleans())
                if spilled:
                    writes.append(WriteBack(name, ALL))
                    loads.append(Load(name, ALL))
        steps.append(Step(tuple(frees), tuple(writes), tuple(loads), tuple(computes)))
        available[name], stored[name] = True, False
    last_frees = tuple(Free(name, ALL) for name in available if available[name] and stored[name])
    last_writes = tuple(WriteBack(name, ALL) for name in available if available[name] and not stored[name])
    steps.append(Step(last_frees, last_writes))
    program = Program(
        tuple(tensors),
        tuple(Memory(name) for name in memories),
        tuple(engines),
        tuple(steps),
        buffers=draw(st.integers(1, 3)),
    )
    if draw(st.booleans()):
        return program
    report = execute(program)
    assert report.violation is None
    capacities = []
    for memory in program.memories:
        held = [report.footprint[tensor.name] for tensor in tensors if tensor.memory == memory.name]
        peak = int(np.sum(held, axis=0).max()) if held else 0
        capacities.append(Memory(memory.name, peak + draw(st.sampled_from([0, 1, 4]))))
    return replace(program, memories=tuple(capacities))


# What must hold of any timeline ------------------------------------------------------------------


def elements(program: Program, name: str, region: Region) -> set[tuple[int, ...]]:
    """Coordinates of a region, one by one."""
    shape = program.tensor(name).shape
    if isinstance(region, Cells):
        planes = product(*(range(length) for length in shape[:-2]))
        return {(*plane, *divmod(int(p), shape[-1])) for plane in planes for p in region.positions}
    spans = [span or (0, length) for span, length in zip(region.ranges, shape, strict=True)]
    return set(product(*(range(*span) for span in spans)))


def waits(program: Program) -> list[tuple[Action, set[int]]]:
    """Every action with the earlier actions that it must wait for, element by element.

    What writes an element (a load, a compute) or ends its stay (a free, a write-back) waits for whatever
    wrote it or read it before; what reads it waits for its last writer.
    """
    wrote: dict[tuple[str, tuple[int, ...]], int] = {}
    read: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    found: list[tuple[Action, set[int]]] = []
    for step in program.steps:
        for action in step.actions:
            number, after = len(found), set()
            reads = action.operands if isinstance(action, Compute) else ()
            for name, region in reads:
                for element in elements(program, name, region):
                    after |= {wrote[name, element]} if (name, element) in wrote else set()
                    read.setdefault((name, element), set()).add(number)
            for element in elements(program, action.tensor, action.region):
                key = action.tensor, element
                after |= {wrote[key]} if key in wrote else set()
                after |= read.pop(key, set())
                wrote[key] = number
            found.append((action, after - {number}))
    return found


def durations(program: Program) -> list[int]:
    return [own_cycles(program, action) for step in program.steps for action in step.actions]


def critical_path(program: Program) -> int:
    """Longest chain of actions that wait for each other."""
    ends: list[int] = []
    for (_, after), cycles in zip(waits(program), durations(program), strict=True):
        ends.append(max((ends[other] for other in after), default=0) + cycles)
    return max(ends, default=0)


def check(program: Program) -> None:
    report, sequential, overlapped = timed(program)
    found = waits(program)
    cycles = durations(program)
    # Sequential: one stage after the other.
    spans = list(zip(sequential.start.tolist(), sequential.finish.tolist(), strict=True))
    assert spans == plain_sequential(program)
    assert sequential.cycles == max((end for _, end in spans), default=0) <= sum(cycles)
    assert sequential.peak == report.peak
    assert report.step_cycles().sum() == sequential.cycles
    # Overlapped: between the obvious bounds.
    assert overlapped.cycles <= sum(cycles)
    assert overlapped.cycles >= max(overlapped.busy().values(), default=0)
    assert overlapped.cycles >= critical_path(program)
    assert overlapped.busy() == sequential.busy()
    # Every action once, as long as it takes, on its engine.
    shown = [n for n, (action, _) in enumerate(found) if not isinstance(action, Free)]
    assert len(shown) == len(overlapped.start)
    start = dict(zip(shown, overlapped.start.tolist(), strict=True))
    finish = dict(zip(shown, overlapped.finish.tolist(), strict=True))
    for place, number in enumerate(shown):
        assert start[number] >= 0
        assert finish[number] - start[number] == cycles[number]
        action = found[number][0]
        assert (overlapped.engine[place], overlapped.tensor[place]) == (action.engine, action.tensor)
    # No engine does two things at once.
    for engine in {*overlapped.engine}:
        spans = sorted((start[n], finish[n]) for n in shown if found[n][0].engine == engine)
        for (_, before), (after, _) in pairwise(spans):
            assert after >= before
    # Nothing starts before what it waits for; a free takes effect when what it waits for is over.
    for number, (action, after) in enumerate(found):
        earliest = max((finish[other] for other in after), default=0)
        if isinstance(action, Free):
            finish[number] = earliest
        else:
            assert start[number] >= earliest, f"{action} starts at {start[number]}, before {earliest}"
    check_occupation(program, overlapped, found, start, finish)


def check_occupation(
    program: Program,
    line: Timeline,
    found: list[tuple[Action, set[int]]],
    start: dict[int, int],
    finish: dict[int, int],
) -> None:
    """What is on chip fits at every moment, counting data from the start of its load or compute only.

    Frees are timed here as early as possible and allocations as late as possible, so this is a lower
    estimate of what the timeline claims; it must fit all the same, and the claimed peak must cover it.
    """
    changes: dict[str, list[tuple[int, int, int]]] = {memory.name: [] for memory in program.memories}
    by_tensor: dict[str, list[tuple[int, int, int]]] = {tensor.name: [] for tensor in program.tensors}

    def change(name: str, at: int, order: int, size: int) -> None:
        changes[program.tensor(name).memory].append((at, order, size))
        by_tensor[name].append((at, order, size))

    for name, region in program.preloaded:
        change(name, -1, 0, len(elements(program, name, region)))
    resident = {(name, e) for name, region in program.preloaded for e in elements(program, name, region)}
    for number, (action, _) in enumerate(found):
        keys = {(action.tensor, e) for e in elements(program, action.tensor, action.region)}
        if isinstance(action, Free | WriteBack):
            resident -= keys
            change(action.tensor, finish[number], 0, -len(keys))
        else:
            fresh = keys - resident
            resident |= keys
            change(action.tensor, start[number], 1, len(fresh))
    assert not resident
    total = 0
    for memory in program.memories:
        occupied = np.cumsum([size for *_, size in sorted(changes[memory.name])])
        assert occupied[-1] == 0 if len(occupied) else True
        most = int(occupied.max(initial=0))
        assert memory.capacity is None or most <= memory.capacity
        total = max(total, most)
    for tensor in program.tensors:
        held = np.cumsum([size for *_, size in sorted(by_tensor[tensor.name])])
        assert tensor.buffer is None or held.max(initial=0) <= program.copies * tensor.buffer
    assert total <= line.peak
    if all(memory.capacity is not None for memory in program.memories):
        assert line.peak <= sum(memory.capacity or 0 for memory in program.memories)


@given(grouping_programs())
@settings(max_examples=examples(150))
def test_timelines_of_grouping_plans(drawn: tuple[Problem, Program]) -> None:
    check(drawn[1])


@given(programs())
@settings(max_examples=examples(300))
def test_timelines_of_any_program(program: Program) -> None:
    check(program)


# Independent arithmetic --------------------------------------------------------------------------


@given(grouping_programs())
def test_sequential_is_the_sum_of_definition_3(drawn: tuple[Problem, Program]) -> None:
    problem, program = drawn
    report, sequential, _ = timed(program)
    machine = problem.machine
    by_step = [
        (int(report.loaded["input"][i]) + int(report.loaded["kernels"][i])) * machine.load
        + int(report.written["output"][i]) * machine.write
        + (machine.compute if report.macs[i] else 0)
        for i in range(len(report.labels))
    ]
    assert list(report.step_cycles()) == by_step
    assert sequential.cycles == sum(by_step)


def recurrence(problem: Problem, program: Program) -> int:
    """End of an overlapped grouping plan whose steps write back what the step before computed.

    Loads, computes and write-backs each run in the order of the steps. Step k opens once step k-1 is
    open, step k - buffers has computed and what it brings fits; its stale pixels go when step k-1 has
    computed, its write-back starts then too. All by scanning the moments at which room appears.
    """
    machine = problem.machine
    capacity = program.memories[0].capacity
    report = execute(program)
    n = report.n_steps
    count = {
        key: [int(v) for v in sum(table.values())]
        for key, table in (("in", report.loaded), ("out", report.computed), ("free", report.freed))
    }
    written = [int(v) for v in report.written["output"]]
    preloaded = problem.kernel_elements if machine.kernels == "preloaded" else 0
    opened, loaded, computed, wrote = 0, 0, [0] * n, [0] * (n + 1)
    for k in range(n):
        # Write-back and frees of step k: known before it opens, as they follow compute k-1 alone.
        before = computed[k - 1] if k else 0
        wrote[k] = max(wrote[k - 1] if k else 0, before) + written[k] * machine.write

        def held(at: int, k: int = k) -> int:
            brought = preloaded + sum(count["in"][:k]) + sum(count["out"][:k])
            gone = sum(count["free"][i] for i in range(1, k + 1) if computed[i - 1] <= at)
            return brought - gone - sum(written[i] for i in range(1, k + 1) if wrote[i] <= at)

        moments = {opened, *computed[:k], *wrote[1 : k + 1]}
        if k >= program.buffers:
            moments = {at for at in moments if at >= computed[k - program.buffers]}
        room = count["in"][k] + count["out"][k]
        opened = min(
            at for at in moments if at >= opened and (capacity is None or held(at) + room <= capacity)
        )
        loaded = max(loaded, opened) + count["in"][k] * machine.load
        computed[k] = max(loaded, before) + machine.compute
    wrote[n] = max(wrote[n - 1], computed[n - 1]) + written[n] * machine.write
    return max(wrote[n], computed[n - 1])


@given(grouping_programs())
@settings(max_examples=examples(250))
def test_overlapped_agrees_with_a_recurrence(drawn: tuple[Problem, Program]) -> None:
    problem, program = drawn
    if problem.machine.outputs == "kept":
        return
    _, _, overlapped = timed(program)
    if program.buffers <= 2:
        assert overlapped.cycles == recurrence(problem, program)
    else:
        # A pixel that step k - 1 frees and step k loads again is still needed by the compute of step
        # k - 2, which the recurrence does not know of.
        assert overlapped.cycles >= recurrence(problem, program)


def row_of_patches(buffers: int, capacity: int | None = None) -> Program:
    """Five disjoint patches of 1x1: each step loads 4, computes for 6 cycles and writes 2 back."""
    problem = make_problem(
        {"input": [4, 1, 5], "kernels": 2, "kernel": [1, 1]},
        {"group_size": 1, "load": 1, "write": 1, "compute": 6},
    )
    program = lower(problem, Plan.from_steps(problem, np.arange(5)))
    return replace(program, buffers=buffers, memories=(Memory("mem", capacity),))


@pytest.mark.parametrize(
    ("buffers", "capacity", "cycles"),
    [
        # A step after the other, but its loads run beside the write-back of the step before:
        # 4 + 6, four times max(4, 2) + 6, then 2.
        (1, None, 10 + 4 * 10 + 2),
        # Kernels 8, pixels 4, outputs 2: the next step waits for the write-back, then it is sequential.
        (1, 14, 5 * (4 + 6 + 2)),
        # Room for the next pixels, not for its outputs too: as if there were none.
        (2, 19, 10 + 4 * 10 + 2),
        # Loads and write-backs hide behind computes.
        (2, None, 4 + 5 * 6 + 2),
        (3, None, 4 + 5 * 6 + 2),
        # Step k + 2 opens 2 cycles after compute k, when its outputs are written; 4 cycles of load still fit.
        (2, 20, 4 + 5 * 6 + 2),
    ],
)
def test_overlap_by_hand(buffers: int, capacity: int | None, cycles: int) -> None:
    _, sequential, overlapped = timed(row_of_patches(buffers, capacity))
    assert sequential.cycles == 5 * (4 + 6 + 2)
    assert overlapped.cycles == cycles


def test_one_buffer_is_sequential_exactly_when_nothing_is_written_meanwhile() -> None:
    """With one buffer only the write-back of a step and its loads overlap: kept outputs leave nothing."""
    problem = make_problem(machine={"group_size": 2, "outputs": "kept"}, limits={"reloads": 0})
    program = replace(lower(problem, Plan.from_steps(problem, np.arange(9) // 2)), buffers=1)
    _, sequential, overlapped = timed(program)
    assert overlapped.cycles == sequential.cycles


def test_more_buffers_and_more_memory_may_not_hurt_here() -> None:
    times = [timed(row_of_patches(buffers))[2].cycles for buffers in (1, 2, 3)]
    assert times == sorted(times, reverse=True)


def test_a_free_waits_for_every_reader() -> None:
    """One engine may compute out of order; data stays until the last of its readers is done.

    y reads a and b, z reads a alone and could run first, while b is still on its way. Step 2 needs the room
    of a: were it given away after z, y would read what is gone.
    """
    tensors = (
        *(Tensor(name, (4,), "input") for name in "abc"),
        *(Tensor(name, (1,), "output", macs_per_element=1) for name in "yzw"),
    )
    steps = (
        Step(
            load=(Load("a", ALL), Load("b", ALL, engine="slow")),
            compute=(
                Compute("y", ALL, (("a", ALL), ("b", ALL)), 1),
                Compute("z", ALL, (("a", ALL),), 1),
            ),
        ),
        Step(free=(Free("a", ALL),), load=(Load("c", ALL),), compute=(Compute("w", ALL, (("c", ALL),), 1),)),
        Step(free=(Free("b", ALL), Free("c", ALL)), write_back=tuple(WriteBack(n, ALL) for n in "yzw")),
    )
    engines = (
        Engine("load", 1),
        Engine("slow", 100),
        Engine("write", 1),
        Engine("compute", setup=1),
    )
    program = Program(tensors, (Memory("mem", 11),), engines, steps)
    check(program)
    _, _, line = timed(program)
    y, c = line.tensor.index("y"), line.tensor.index("c")
    assert line.start[y] == 400
    assert line.start[c] >= line.finish[y]


@pytest.mark.parametrize("cut", [((0, 4), (4, 8)), ((0, 6), (3, 8))])
def test_overlapping_operands_of_one_compute(cut: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """A compute that names a tensor twice, in parts, waits for its loads and not for itself."""
    tensors = (Tensor("x", (8,), "input"), Tensor("y", (8,), "output", macs_per_element=1))
    parts = [Box((span,)) for span in cut]
    steps = (
        Step(
            load=(Load("x", Box(((0, 4),))), Load("x", Box(((4, 8),)))),
            compute=tuple(Compute("y", Box((span,)), tuple(("x", p) for p in parts), 1) for span in split),
        )
        for split in [((0, 3), (3, 8))]
    )
    last = Step(free=(Free("x", ALL),), write_back=(WriteBack("y", Box(((0, 8),))),))
    engines = (Engine("load", 1), Engine("write", 1), Engine("compute", setup=1))
    program = Program(tensors, (Memory("mem"),), engines, (*steps, last))
    check(program)
    assert timed(program)[2].cycles == 8 + 2 + 8


def test_programs_without_any_action() -> None:
    for steps in ((), (Step(),), (Step(), Step())):
        report, sequential, overlapped = timed(Program((), (Memory("mem", 1),), (Engine("load"),), steps))
        assert sequential.cycles == overlapped.cycles == 0
        assert report.peak == sequential.peak == overlapped.peak == 0


def test_no_buffers_at_all_is_an_error_and_not_a_hang() -> None:
    with pytest.raises(RuntimeError, match="never finds room"):
        timed(row_of_patches(0))


def test_throughput_is_rounded_up_per_action() -> None:
    engine = Engine("compute", setup=3, macs_per_cycle=4)
    assert [engine.cycles(0, macs) for macs in (0, 1, 4, 5)] == [3, 4, 4, 5]
    assert Engine("dma", per_element=2, setup=5).cycles(10, 99) == 25


# Costs of engines --------------------------------------------------------------------------------


def test_a_bus_moves_so_many_elements_per_cycle_in_bursts() -> None:
    bus = Engine("bus", setup=7, elements_per_cycle=4, per_burst=3)
    assert [bus.cycles(units, 0) for units in (0, 1, 4, 5)] == [7, 8, 8, 9]
    assert bus.cycles(5, 0, bursts=2) == 9 + 6
    assert Engine("dma", per_element=2, elements_per_cycle=4).cycles(10, 0) == 20 + 3
    slow = Engine("bus", elements_per_cycle=19, period=3)
    assert [slow.streaming(units) for units in (0, 1, 6, 7, 19, 20)] == [0, 1, 1, 2, 3, 4]
    units = np.array([0, 1, 6, 7, 19, 20, 19 * 10**15])
    assert slow.streaming(units).tolist() == [0, 1, 1, 2, 3, 4, 3 * 10**15]
    assert slow.cycles(units[:2], 0 * units[:2], 0 * units[:2]).tolist() == [0, 1]
    assert Engine("dma", per_element=2).cycles(10, 0, bursts=9) == 20


def test_bursts_and_units_of_actions() -> None:
    tensors = (Tensor("x", (8,), "input", unit=2), Tensor("y", (2,), "output", macs_per_element=1))
    steps = (
        Step(load=(Load("x", ALL, "bus", bursts=5),), compute=(Compute("y", ALL, (("x", ALL),), 1),)),
        Step((Free("x", ALL),), (WriteBack("y", ALL, "bus", bursts=1),)),
    )
    engines = Engine("bus", 1, 10, elements_per_cycle=3, per_burst=100), Engine("compute", setup=1)
    _, sequential, _ = timed(Program(tensors, (Memory("mem"),), engines, steps))
    # Four units: 4 cycles and 2 more at three per cycle; then two units.
    assert list(sequential.finish - sequential.start) == [10 + 4 + 2 + 500, 1, 10 + 2 + 1 + 100]


# Engines side by side in a stage -----------------------------------------------------------------


def test_engines_of_one_stage_work_side_by_side() -> None:
    """Two cores load, compute and write back beside each other; each stage ends with the slower one."""
    tensors = tuple(
        tensor
        for core, size in enumerate((4, 6))
        for tensor in (
            Tensor(f"x{core}", (size,), "input", memory=f"m{core}"),
            Tensor(f"y{core}", (size,), "output", memory=f"m{core}", macs_per_element=1),
        )
    )
    part = Box(((0, 1),)), Box(((1, 4),)), Box(((4, 6),))
    steps = (
        Step(
            load=(
                Load("x0", part[0], "dma0"),
                Load("x1", part[0], "dma1"),
                Load("x0", part[1], "dma0"),
                Load("x1", part[1], "dma1"),
                Load("x1", part[2], "dma1"),
            ),
            compute=tuple(Compute(f"y{c}", ALL, ((f"x{c}", ALL),), 1, engine=f"core{c}") for c in (0, 1)),
        ),
        Step(
            tuple(Free(f"x{core}", ALL) for core in (0, 1)),
            tuple(WriteBack(f"y{core}", ALL, f"dma{core}") for core in (0, 1)),
        ),
    )
    engines = (
        *(Engine(f"dma{core}", 1, 1) for core in (0, 1)),
        *(Engine(f"core{core}", macs_per_cycle=core + 1) for core in (0, 1)),
    )
    program = Program(tensors, (Memory("m0"), Memory("m1")), engines, steps)
    check(program)
    report, sequential, _ = timed(program)
    assert list(sequential.start) == [0, 0, 2, 2, 6, 9, 9, 13, 13]
    assert list(sequential.finish) == [2, 2, 6, 6, 9, 13, 12, 18, 20]
    assert list(report.step_cycles()) == [13, 7]
    assert sequential.busy() == {"dma0": 6 + 5, "dma1": 9 + 7, "core0": 4, "core1": 3}
    # On one engine nothing overlaps, not even a write-back and the load after it.
    shared = [Engine(name, 1, 1) for name in ("dma0", "dma1")]
    moved = (
        *steps[:1],
        Step(write_back=(WriteBack("y0", ALL, "dma0"),), load=(Load("z", ALL, "dma0"),)),
        Step((Free("z", ALL), *steps[1].free), steps[1].write_back[1:]),
    )
    program = replace(program, tensors=(*tensors, Tensor("z", (3,), "input", "m0")), steps=moved)
    _, sequential, _ = timed(replace(program, engines=(*shared, *engines[2:])))
    assert list(sequential.start[-3:]) == [13, 18, 22]
    assert list(sequential.finish[-3:]) == [18, 22, 29]


def test_computes_that_need_each_other_take_turns_on_two_engines() -> None:
    """The results of one engine are the operands of another in the same step: no overlap is claimed."""
    tensors = (
        Tensor("x", (4,), "input"),
        Tensor("u", (4,), "intermediate", macs_per_element=1),
        Tensor("y", (4,), "output", macs_per_element=1),
    )
    first = Compute("u", ALL, (("x", ALL),), 1, engine="matrix")
    second = Compute("y", ALL, (("u", ALL),), 1, engine="vector")
    last = Step((Free("x", ALL), Free("u", ALL)), (WriteBack("y", ALL),))
    engines = Engine("load", 1), Engine("write", 1), Engine("matrix", setup=10), Engine("vector", setup=20)
    program = Program(
        tensors, (Memory("mem"),), engines, (Step(load=(Load("x", ALL),), compute=(first, second)), last)
    )
    report = execute(program, lockstep=True)
    assert report.sequential is not None
    assert report.lockstep is not None
    assert list(report.sequential.start) == list(report.lockstep.start) == [0, 4, 14, 34]
    apart = replace(second, operands=(("x", ALL),))
    report = execute(
        replace(program, steps=(Step(load=(Load("x", ALL),), compute=(first, apart)), last)), lockstep=True
    )
    assert report.sequential is not None
    assert list(report.sequential.start) == [0, 4, 4, 24]


# In lockstep -------------------------------------------------------------------------------------


def part(number: int, size: int) -> Box:
    return Box(((number * size, (number + 1) * size),))


def tiles(*, setup_on: str | None = "alu", streamed: int = 0, idle: bool = False) -> Program:
    """Three tiles: 8 elements are loaded, computed on for 8 cycles, and 4 are written back.

    With `idle`, the second tile's transfers stand in a step of their own.
    """
    tensors = (
        Tensor("x", (24,), "input", buffer=8),
        Tensor("y", (12,), "output", macs_per_element=8, buffer=4),
    )
    steps = []
    for n in range(3):
        free, write = (), ()
        if n:
            free, write = (Free("x", part(n - 1, 8)),), (WriteBack("y", part(n - 1, 4), "dma"),)
        load = (Load("x", part(n, 8), "dma"),)
        compute = Compute("y", part(n, 4), (("x", part(n, 8)),), 8, engine="alu", streamed=streamed)
        if n == 1 and idle:
            steps.append(Step(free, write, load))
            free = write = load = ()
        steps.append(Step(free, write, load, (compute,)))
    steps.append(Step((Free("x", part(2, 8)),), (WriteBack("y", part(2, 4), "dma"),)))
    engines = (
        Engine("dma", setup=10, elements_per_cycle=2, setup_on=setup_on),
        Engine("alu", macs_per_cycle=4, streams_over="dma"),
    )
    return Program(tensors, (Memory("mem", 24),), engines, tuple(steps), copies=2)


def in_lockstep(program: Program) -> tuple[Report, Timeline]:
    report = execute(program, lockstep=True)
    assert report.violation is None, report.violation
    assert report.lockstep is not None
    return report, report.lockstep


@pytest.mark.parametrize("idle", [False, True])
def test_lockstep_by_hand(idle: bool) -> None:
    report, line = in_lockstep(tiles(idle=idle))
    # Load and compute; then write-back, load and compute twice; then write-back.
    prolog, epilog = 10 + 4, 10 + 2
    # The compute and the set-ups of what is transferred meanwhile: a load; a write-back and a load; a
    # write-back.
    assert line.cycles == prolog + (8 + 10) + (8 + 20) + (8 + 10) + epilog == 90
    assert list(line.start) == [10, 24, 32, 14, 52, 60, 34, 70, 88]
    assert list(line.finish) == [14, 32, 34, 18, 60, 62, 38, 78, 90]
    assert line.busy() == {"dma": 3 * 4 + 3 * 2, "alu": 3 * 8 + 6 * 10}
    assert report.sequential is not None
    assert report.sequential.cycles == 3 * (10 + 4 + 8 + 10 + 2)
    assert report.sequential.busy() == {"dma": 3 * 14 + 3 * 12, "alu": 3 * 8}
    assert report.peak == report.sequential.peak == line.peak == 24


def test_lockstep_with_set_ups_on_the_bus() -> None:
    _, line = in_lockstep(tiles(setup_on=None))
    assert line.cycles == 14 + 14 + (12 + 14) + 12 + 12
    assert list(line.start) == [0, 14, 28, 14, 28, 54, 40, 54, 66]
    assert line.busy() == {"dma": 3 * 14 + 3 * 12, "alu": 24}


def test_streaming_takes_the_bus() -> None:
    """40 elements take the bus 20 cycles, more than the 8 of the compute."""
    report, line = in_lockstep(tiles(streamed=40))
    assert report.streamed == 120
    assert line.cycles == 14 + (4 + 20) + max(8 + 20, 6 + 20) + (2 + 20) + 12
    assert line.busy() == {"dma": 18 + 60, "alu": 24 + 60}
    assert report.sequential is not None
    assert report.sequential.cycles == 3 * (14 + 20 + 12)
    timeline = execute(tiles(streamed=40), overlapped=True).overlapped
    assert timeline is not None
    assert list(timeline.finish - timeline.start) == [14, 20, 12, 14, 20, 12, 14, 20, 12]
    program = tiles(streamed=20)
    slower = replace(program.engines[0], elements_per_cycle=3, period=2)
    sequential = execute(replace(program, engines=(slower, program.engines[1]))).sequential
    assert sequential is not None
    assert set((sequential.finish - sequential.start)[1::3].tolist()) == {14}
    few = execute(tiles(streamed=3)).sequential
    assert few is not None
    assert few.cycles == 3 * (14 + 8 + 12)


def test_streaming_needs_a_bus_with_a_throughput() -> None:
    program = tiles(streamed=40)
    slow = replace(program.engines[0], elements_per_cycle=None, per_element=1)
    with pytest.raises(ValueError, match="dma is streamed over"):
        execute(replace(program, engines=(slow, program.engines[1])))
    silent = replace(program.engines[1], streams_over=None)
    report = execute(replace(program, engines=(program.engines[0], silent)))
    assert report.streamed == 120
    assert report.sequential is not None
    assert report.sequential.cycles == 3 * (14 + 8 + 12)


def test_lockstep_of_programs_that_do_not_compute() -> None:
    program = Program((Tensor("x", (8,), "input"),), (Memory("mem"),), (Engine("load", 1, 2),), ())
    assert in_lockstep(program)[1].cycles == 0
    steps = Step(load=(Load("x", part(0, 4)), Load("x", part(1, 4)))), Step(free=(Free("x", ALL),))
    assert in_lockstep(replace(program, steps=steps))[1].cycles == 12


def test_a_buffer_that_is_there_once_leaves_nothing_to_do_meanwhile() -> None:
    """In the event-driven timeline, too: a tile is loaded when the one before it has left."""
    one, two = (timed(replace(tiles(), copies=copies)) for copies in (1, 2))
    assert one[2].cycles == one[1].cycles == 3 * (14 + 8 + 12)
    assert two[2].cycles < two[1].cycles == one[1].cycles


def test_lockstep_needs_room_for_two_steps() -> None:
    program = tiles()
    single = execute(replace(program, copies=1), lockstep=True).violation
    assert single is not None
    assert tells(single, "buffer overflow .. step 1 .. x .. 16 elements .. lockstep .. 1 * 8")
    # Without buffers of their own: in the first phase x 8 + 8 and y 4, in the second x 8 + 8, y 4.
    loose = replace(program, tensors=tuple(replace(tensor, buffer=None) for tensor in program.tensors))
    _, line = in_lockstep(replace(loose, memories=(Memory("mem", 20),)))
    assert line.peak == 20
    tight = execute(replace(loose, memories=(Memory("mem", 19),)), lockstep=True)
    assert tight.violation is not None
    assert tells(tight.violation, "memory overflow .. step 1 .. mem .. 20 elements .. lockstep .. 19")
    assert tight.sequential is None
    assert execute(replace(loose, memories=(Memory("mem", 12),))).valid


def test_a_load_may_not_overtake_the_write_back_that_it_reads() -> None:
    """Partial sums that go through DRAM: in the same step they cannot, one step later they can."""
    tensors = (
        *(Tensor(name, (4,), "input") for name in "abc"),
        Tensor("y", (4,), "output", macs_per_element=2),
        Tensor("z", (4,), "output", macs_per_element=1),
    )

    def compute(target: str, *reads: str) -> tuple[Compute, ...]:
        return (Compute(target, ALL, tuple((name, ALL) for name in reads), 1),)

    away, back = WriteBack("y", ALL), Load("y", ALL)
    first = Step(load=(Load("a", ALL),), compute=compute("y", "a"))
    last = Step(free=tuple(Free(name, ALL) for name in "abc"), write_back=(away, WriteBack("z", ALL)))
    same = (
        first,
        Step(load=(Load("b", ALL),), compute=compute("z", "b")),
        Step(write_back=(away,), load=(back, Load("c", ALL)), compute=compute("y", "c")),
        last,
    )
    engines = Engine("load", 1), Engine("write", 1), Engine("compute", setup=1)
    program = Program(tensors, (Memory("mem"),), engines, same)
    assert execute(program).valid
    found = execute(program, lockstep=True)
    assert tells(found.violation, "lockstep hazard .. step 3 .. y .. DRAM .. write-back in step 3")
    assert found.lockstep is None
    apart = (first, replace(same[1], write_back=(away,)), replace(same[2], write_back=()), last)
    _, line = in_lockstep(replace(program, steps=apart))
    # The phase of step 2 writes y back and loads it again.
    assert line.cycles == 4 + max(4, 1) + 8 + 1 + 8
    # A step that only transfers belongs to the one after it, where this is the same hazard.
    alone = (*same[:2], Step(write_back=(away,)), replace(same[2], write_back=()), last)
    violation = execute(replace(program, steps=alone), lockstep=True).violation
    assert violation is not None
    assert (violation.rule, violation.step) == ("lockstep hazard", 4)
    # After the last compute the transfers are in their order.
    final = (*apart[:3], Step(write_back=(away,), load=(back,)), Step(last.free, (*last.write_back,)))
    assert in_lockstep(replace(program, steps=final))[1].cycles == 4 + 4 + 8 + 1 + 12
