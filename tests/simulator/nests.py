"""Loop nests of many tiles, whole or damaged, executed tile by tile and with those that are alike counted."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import layers
import numpy as np
import test_npu
from conftest import totals
from hypothesis import strategies as st

from tilewright.simulator import Program, Report, execute
from tilewright.simulator.alike import reduce_program
from tilewright.simulator.columns import COMPUTE
from tilewright.simulator.nest import LoopNest, NestedSteps, NestEvent
from tilewright.simulator.program import Counts
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.lowering import lower as lower_dsp
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import ORDERED, REUSES, DspPlan
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.lowering import lower as lower_npu
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan

MOST_EVENTS = 9_000
"""Of a program that is executed tile by tile, which takes a few hundredths of a second."""


def nest_in(program: Program) -> LoopNest:
    assert isinstance(program.steps, NestedSteps)
    return program.steps.nest


def with_nest(program: Program, nest: LoopNest) -> Program:
    return replace(program, steps=NestedSteps(nest))


def _layer(random: Random, groups: int, maps: int, kernels: int) -> dict[str, Any]:
    """Make up a layer of that many groups, input maps and kernels of a group: few or many of everything."""

    def some(most: int) -> int:
        return random.choice([1, random.randint(1, most), random.randint(most // 2 + 1, most), most])

    kernel = random.randint(1, 4), random.randint(1, 4)
    dilation = random.randint(1, 2), random.randint(1, 2)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    return {
        "input": [
            groups * some(maps),
            *(side + random.choice([0, 3, random.randint(8, 30), random.randint(16, 30)]) for side in reach),
        ],
        "kernels": groups * some(kernels),
        "kernel": list(kernel),
        "stride": [random.choice([1, 1, 2, 3]), random.choice([1, 1, 2, 4])],
        "dilation": list(dilation),
        "padding": [random.randint(0, reach[side // 2] - 1) for side in range(4)],
        "groups": groups,
        "batch": random.choice([1, 2, 9]),
    }


def _tile(random: Random, sizes: tuple[int, ...], tiles: int) -> list[int]:
    """Make up a tile of which not too many are needed: some loops are long, others have one iteration."""
    tile = [random.choice([1, 1, 1, random.randint(1, 1 + size // 5)]) for size in sizes]
    while np.prod([-(-size // min(side, size)) for size, side in zip(sizes, tile, strict=True)]) > tiles:
        whole = random.choice([d for d, size in enumerate(sizes) if tile[d] < size])
        tile[whole] = sizes[whole]
    return tile


def dsp_program(random: Random) -> Program:
    """A layer on a DSP: any layer, any order of the loops, any reuse, padding of both kinds."""
    machine = {
        "double_buffering": random.random() < 0.5,
        "padding": random.choice(["loaded", "generated"]),
        "bus_elements_per_cycle": random.randint(1, 3),
        "macs_per_cycle": random.choice([1, 3, 8]),
        "dma_setup_cycles": random.choice([0, 2, 11]),
        "register_file_bytes": random.choice([0, 200]),
    }
    problem = layers.make(_layer(random, random.choice([1, 1, 2, 9]), 14, 14), machine)
    nest = nest_of(problem.one_layer, problem.machine)
    order = list(ORDERED)
    random.shuffle(order)
    tile = _tile(random, nest.sizes, MOST_EVENTS // 9)
    plan = DspPlan(tuple(tile), "".join(order), random.choice(REUSES))  # type: ignore[arg-type]
    return lower_dsp(nest, plan, local_traffic(nest_of(problem.one_layer, problem.machine)))


def npu_program(random: Random) -> Program:
    """A layer on an NPU: any layer, partition and schedule; there is more memory than it needs."""
    machine = {
        "tles": random.choice([2, 4, 8]),
        "tlts": random.randint(1, 8),
        "burst_bytes": random.randint(1, 9),
        "macs_per_cycle": random.randint(1, 9),
        **dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 1 << 20),
        **{field: random.randint(0, 100) for field in ("cycle_ps", "byte_ps", "burst_ps")},
    }
    depthwise = random.random() < 0.3
    groups = random.randint(2, 14) if depthwise else random.choice([1, 1, 2])
    layer = _layer(random, groups, *((1, 1) if depthwise else (14, 70)))
    problem = test_npu.make(layer, machine)
    partition, schedule = random.choice(PARTITIONS), random.choice(SCHEDULES)
    cut = cut_of(problem.one_layer, problem.machine, partition)
    tile = _tile(random, cut.sizes, MOST_EVENTS // (8 * len(cut.shares)))
    filters = cut.sizes[0] if schedule == "IS" else tile[0]
    return lower_npu(cut, NpuPlan(partition, schedule, (filters, *tile[1:])))  # type: ignore[arg-type]


def roomy(program: Program) -> Program:
    """Return a program with as much memory as it needs."""
    return replace(
        program,
        memories=tuple(replace(memory, capacity=None) for memory in program.memories),
        tensors=tuple(replace(tensor, buffer=None) for tensor in program.tensors),
    )


def _made_up(random: Random) -> Program:
    return random.choice([dsp_program, dsp_program, npu_program])(random)


@st.composite
def valid_programs(draw: st.DrawFn) -> Program:
    """Programs of a layer that break no rule, but perhaps those of lockstep."""
    return _made_up(Random(draw(st.integers(0, 2**32 - 1))))


@st.composite
def damaged_programs(draw: st.DrawFn) -> Program:
    """Programs of which one thing or two were changed, in one tile or in many; they may be valid still."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    program = _made_up(random)
    if random.random() < 0.5:
        program = roomy(program)
    for _ in range(random.choice([1, 1, 2])):
        program = random.choice(DAMAGES)(random, program)
    return program


# Damage ----------------------------------------------------------------------------------------------------


def _changed(program: Program, place: int, *events: NestEvent) -> Program:
    nest = nest_in(program)
    return with_nest(
        program, replace(nest, events=(*nest.events[:place], *events, *nest.events[place + 1 :]))
    )


def _any_event(random: Random, program: Program) -> tuple[int, NestEvent]:
    events = nest_in(program).events
    place = random.randrange(len(events))
    return place, events[place]


def _occurs_elsewhere(random: Random, program: Program) -> Program:
    place, event = _any_event(random, program)
    trips = nest_in(program).trips
    loop = random.randrange(len(trips))
    when = event.when.get(loop, np.ones(trips[loop], dtype=np.bool_)).copy()
    first = random.randrange(len(when))
    when[first : first + random.choice([1, len(when)])] ^= True
    return _changed(program, place, replace(event, when={**event.when, loop: when}))


def _reaches_elsewhere(random: Random, program: Program) -> Program:
    place, event = _any_event(random, program)
    axis = random.randrange(len(event.ranges))
    along, size = event.ranges[axis], program.tensor(event.form[1]).shape[axis]
    low, high = along.low.copy(), along.high.copy()
    first = random.randrange(len(low))
    some = slice(first, first + random.choice([1, len(low)]))
    further = random.choice([-1, 1])
    if random.random() < 0.7:
        low[some] = np.clip(low[some] + further, 0, size)
    if random.random() < 0.7:
        high[some] = np.clip(high[some] + further, 0, size)
    moved = replace(along, low=low, high=np.maximum(low, high))
    ranges = (*event.ranges[:axis], moved, *event.ranges[axis + 1 :])
    return _changed(program, place, replace(event, ranges=ranges))


def _is_missing(random: Random, program: Program) -> Program:
    place, _ = _any_event(random, program)
    return _changed(program, place)


def _comes_twice(random: Random, program: Program) -> Program:
    place, event = _any_event(random, program)
    return _changed(program, place, event, event)


def _computes_more_or_less(random: Random, program: Program) -> Program:
    place, event = _any_event(random, program)
    if event.form[0] != COMPUTE:
        return program
    macs = max(1, event.form[3] + random.choice([-1, 1]))
    return _changed(program, place, replace(event, form=(*event.form[:3], macs, *event.form[4:])))


def _has_little_memory(random: Random, program: Program) -> Program:
    capacity = random.randint(1, 300)
    return replace(program, memories=tuple(replace(m, capacity=capacity) for m in program.memories))


def _has_another_tensor(random: Random, program: Program) -> Program:
    place = random.randrange(len(program.tensors))
    tensor = program.tensors[place]
    fields: list[dict[str, Any]] = [{"max_loads": random.randint(1, 40)}]
    if tensor.buffer is not None:
        fields.append({"buffer": max(0, tensor.buffer - random.choice([1, 1, 5]))})
    if tensor.macs_per_element:
        fields.append({"macs_per_element": tensor.macs_per_element + random.choice([-1, 1])})
    other = replace(tensor, **random.choice(fields))
    return replace(program, tensors=(*program.tensors[:place], other, *program.tensors[place + 1 :]))


DAMAGES = (
    _occurs_elsewhere,
    _reaches_elsewhere,
    _is_missing,
    _comes_twice,
    _computes_more_or_less,
    _has_little_memory,
    _has_another_tensor,
)


# Both ways -------------------------------------------------------------------------------------------------


def which(program: Program) -> Counts:
    """Return for each step of a program the step that stands for it."""
    few = reduce_program(program)
    assert few is not None
    found = np.zeros(1, dtype=np.int64)
    for weights in few.weights:
        places = np.repeat(np.arange(len(weights)), weights)
        found = np.add.outer(found * len(weights), places).ravel()
    return np.append(found, int(np.prod([len(weights) for weights in few.weights])))


def agree(program: Program, lockstep: bool) -> Report | None:
    """Compare all that both ways of execution find; return what counting does, None if it does not apply."""
    every = execute(program, lockstep=lockstep, count_above=10**12)
    few = execute(program, lockstep=lockstep, count_above=0)
    assert every.times is None
    if few.times is None:
        return None
    of_every, of_few = totals(every), totals(few)
    assert (every.violation is None) == (few.violation is None)
    if every.violation is not None:
        named = replace(every.violation, tensor=every.violation.tensor.split("[")[0])
        assert few.violation == named
        # How often an element was loaded until then is not known.
        of_every = totals(replace(every, violation=named, most_loads={}))
    assert of_few == of_every
    if every.violation is None:
        _same_steps(program, every, few)
    return few


def _same_steps(program: Program, every: Report, few: Report) -> None:
    place = which(program)
    assert few.times is not None
    assert np.array_equal(np.bincount(place), few.times)
    for kind in ("loaded", "freed", "written", "computed", "footprint"):
        rows = getattr(few, kind)
        for name, counts in getattr(every, kind).items():
            assert np.array_equal(counts, rows[name][place]), (kind, name)
    assert np.array_equal(every.macs, few.macs[place])
    assert np.array_equal(every.step_cycles(), few.step_cycles()[place])
    _, first = np.unique(place, return_index=True)
    assert few.labels == [every.labels[step] for step in first]
    for line, other in ((every.sequential, few.sequential), (every.lockstep, few.lockstep)):
        assert (line is None) == (other is None)
        if line is not None and other is not None:
            assert (line.cycles, line.peak) == (other.cycles, other.peak)
            assert line.busy() == other.busy()
