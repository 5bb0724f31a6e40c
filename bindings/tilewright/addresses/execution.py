"""The simulator of this room: a memory in which buffers are allocated, written, read and freed."""

from __future__ import annotations

import time
from math import gcd
from typing import Any

import numpy as np

from tilewright.addresses.measures import AddressesMeasures
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.core.measures import counted
from tilewright.simulator import Report, Violation
from tilewright.spec.errors import OutOfTimeError


def simulate(
    problem: Problem,
    plan: Plan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: one step for each time at which buffers begin to live.

    Buffers whose time is over are freed first. Then those that begin are allocated, each of which must find
    all of its addresses free.

    Parameters
    ----------
    numeric
        Also write random integers to a buffer when it is allocated, and read them back when it is freed.
    """
    if len(plan.offsets) != len(problem.buffers):
        found = f"{len(plan.offsets)} offsets"
        needed = f"one for each of {len(problem.buffers)} buffers"
        return Report.refused(Violation("buffers", 0, "plan", needed, found))
    run = _Run(problem, plan, numeric, seed)
    times = np.unique(problem.lower).tolist()
    for step, now in enumerate(times, start=1):
        if time.monotonic() > deadline:
            raise OutOfTimeError
        run.free(now)
        broken = run.allocate(now, step)
        if broken is not None:
            return Report.refused(broken)
    run.free(int(problem.upper.max()))
    none = np.zeros(len(times), dtype=np.int64)
    footprint = {"buffers": np.array(run.footprint, dtype=np.int64)}
    report = Report(None, [f"time {now}" for now in times], {}, {}, {}, {}, footprint, none, 0)
    if numeric:
        report.numeric = run.same
    live = max(run.footprint)
    report.measures = AddressesMeasures(
        **counted(report), memory_addresses=run.height, live_addresses=live, buffers=len(problem.buffers)
    )
    return report


class _Run:
    """A memory and what is live in it."""

    def __init__(self, problem: Problem, plan: Plan, numeric: bool, seed: int) -> None:
        self.problem, self.offsets = problem, plan.offsets
        self.live: list[int] = []
        self.height = 0
        self.footprint: list[int] = []
        self.same = True
        # Addresses between two multiples of this belong together: one value is enough for them.
        self.cell = gcd(*plan.offsets, *problem.size.tolist())
        self.values = np.random.default_rng(seed) if numeric else None
        highest = max(offset + int(size) for offset, size in zip(plan.offsets, problem.size, strict=True))
        self.memory = np.zeros(highest // self.cell if numeric else 0, dtype=np.int64)
        self.written: dict[int, Any] = {}

    def _place(self, buffer: int) -> tuple[int, int]:
        begin = self.offsets[buffer]
        return begin, begin + int(self.problem.size[buffer])

    def free(self, now: int) -> None:
        """Free the buffers that do not live any more, reading them back."""
        for buffer in [one for one in self.live if self.problem.upper[one] <= now]:
            self.live.remove(buffer)
            if self.values is not None:
                begin, end = (address // self.cell for address in self._place(buffer))
                self.same &= np.array_equal(self.memory[begin:end], self.written.pop(buffer))

    def hindrance(self, buffer: int, step: int) -> Violation | None:
        """Say why a buffer cannot be allocated."""
        memory, name = self.problem.memory, self.problem.names[buffer]
        begin, end = self._place(buffer)
        if begin % memory.alignment:
            needed = f"a multiple of {memory.alignment}"
            return Violation("alignment", step, name, needed, f"address {begin}")
        if memory.capacity is not None and end > memory.capacity:
            needed = f"addresses below {memory.capacity}"
            return Violation("capacity", step, name, needed, f"{begin} to {end - 1}")
        for other in self.live:
            first, last = self._place(other)
            if begin < last and first < end:
                needed = f"addresses {begin} to {end - 1} free at time {self.problem.lower[buffer]}"
                found = f"{self.problem.names[other]} at {first} to {last - 1}"
                return Violation("overlap", step, name, needed, found)
        return None

    def allocate(self, now: int, step: int) -> Violation | None:
        """Allocate the buffers that begin to live; return what is in their way."""
        for buffer in np.flatnonzero(self.problem.lower == now).tolist():
            broken = self.hindrance(buffer, step)
            if broken is not None:
                return broken
            begin, end = self._place(buffer)
            self.live.append(buffer)
            self.height = max(self.height, end)
            if self.values is not None:
                first, last = begin // self.cell, end // self.cell
                self.written[buffer] = self.values.integers(-(2**31), 2**31, last - first)
                self.memory[first:last] = self.written[buffer]
        self.footprint.append(sum(int(self.problem.size[one]) for one in self.live))
        return None
