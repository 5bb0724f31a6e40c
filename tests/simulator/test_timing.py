"""Timelines: definition 3 in sequence, and engines beside each other, against independent arithmetic."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from conftest import make_problem
from hypothesis import given, settings
from hypothesis import strategies as st

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
    order = draw(st.permutations(range(problem.n_patches)))
    groups = []
    while order:
        size = draw(st.integers(1, problem.group_size))
        groups.append(order[:size])
        order = order[size:]
    program = lower(problem, Plan.from_groups(problem, groups))
    program = replace(program, buffers=draw(st.integers(1, 3)))
    return problem, within(program, draw(st.sampled_from([None, 0, 5, 20])))


def within(program: Program, spare: int | None) -> Program:
    """Give a program of one memory its sequential peak and so much more."""
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
    engines = {engine.name: engine for engine in program.engines}
    found = []
    for step in program.steps:
        for action in step.actions:
            if isinstance(action, Free):
                found.append(0)
                continue
            engine = engines[action.engine]
            tensor = program.tensor(action.tensor)
            size = len(elements(program, action.tensor, action.region))
            moved = 0 if isinstance(action, Compute) else -(-size // tensor.unit)
            found.append(engine.setup + engine.per_element * moved)
    return found


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
    # Sequential: one after the other.
    assert sequential.cycles == sum(cycles)
    assert list(sequential.start[1:]) == list(sequential.finish[:-1])
    assert sequential.peak == report.peak
    assert report.step_cycles().sum() == sequential.cycles
    # Overlapped: between the obvious bounds.
    assert overlapped.cycles <= sequential.cycles
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
    for name, region in program.preloaded:
        tensor = program.tensor(name)
        changes[tensor.memory].append((-1, 0, len(elements(program, name, region))))
    resident = {(name, e) for name, region in program.preloaded for e in elements(program, name, region)}
    for number, (action, _) in enumerate(found):
        keys = {(action.tensor, e) for e in elements(program, action.tensor, action.region)}
        memory = program.tensor(action.tensor).memory
        if isinstance(action, Free | WriteBack):
            resident -= keys
            changes[memory].append((finish[number], 0, -len(keys)))
        else:
            fresh = keys - resident
            resident |= keys
            changes[memory].append((start[number], 1, len(fresh)))
    assert not resident
    total = 0
    for memory in program.memories:
        occupied = np.cumsum([size for *_, size in sorted(changes[memory.name])])
        assert occupied[-1] == 0 if len(occupied) else True
        most = int(occupied.max(initial=0))
        assert memory.capacity is None or most <= memory.capacity
        total = max(total, most)
    assert total <= line.peak
    if all(memory.capacity is not None for memory in program.memories):
        assert line.peak <= sum(memory.capacity or 0 for memory in program.memories)


@given(grouping_programs())
@settings(max_examples=150)
def test_timelines_of_grouping_plans(drawn: tuple[Problem, Program]) -> None:
    check(drawn[1])


@given(programs())
@settings(max_examples=300)
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
@settings(max_examples=250)
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
