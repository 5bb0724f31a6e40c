"""The execution of a plan: the only judge of its height and whether it is right."""

from __future__ import annotations

import time

import numpy as np

from tilewright.addresses.measures import AddressesMeasures
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.core.measures import counted
from tilewright.core.room import Asked
from tilewright.simulator import Report, Violation
from tilewright.simulator.buffer_memory import BufferMemory, PlacedBuffers
from tilewright.spec.errors import OutOfTimeError


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: one step for each time at which buffers begin to live.

    Buffers whose time is over are freed first. Then those that begin are allocated, each of which must find
    all of its addresses free.

    Where numbers are asked for, random integers are written to a buffer when it is allocated, and read back
    when it is freed.
    """
    if len(plan.offsets) != len(problem.buffers):
        found = f"{len(plan.offsets)} offsets"
        needed = f"one for each of {len(problem.buffers)} buffers"
        return Report.refused(Violation("buffers", 0, "plan", needed, found))
    offsets = np.array(plan.offsets, dtype=np.int64)
    buffers = PlacedBuffers(problem.names, problem.lower, problem.upper, problem.size, offsets)
    memory = BufferMemory(
        buffers, problem.memory.capacity, problem.memory.alignment, asked.seed if asked.numeric else None
    )
    times = np.unique(problem.lower).tolist()
    for step, now in enumerate(times, start=1):
        if time.monotonic() > asked.deadline:
            raise OutOfTimeError
        memory.free(now)
        broken = memory.allocate(now, step)
        if broken is not None:
            return Report.refused(broken)
    memory.free(int(problem.upper.max()))
    none = np.zeros(len(times), dtype=np.int64)
    footprint = {"buffers": np.array(memory.footprint, dtype=np.int64)}
    report = Report(None, [f"time {now}" for now in times], {}, {}, {}, {}, footprint, none, 0)
    if asked.numeric:
        report.numeric = memory.unchanged
    report.measures = AddressesMeasures(
        **counted(report),
        memory_addresses=memory.height,
        live_addresses=max(memory.footprint),
        buffers=len(problem.buffers),
    )
    return report
