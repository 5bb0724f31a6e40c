"""The executor: runs a program, checks every rule, counts traffic and moves real integers if asked.

A block of events is executed at once. One row stands for one cell that one event touches; sorted by cell,
then by event, the rows of a cell show all that happens to it, and running sums and maxima along them give
the state in which each event finds it. Only the state of the cells is kept from block to block.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

import numpy as np

from tilewright.simulator.alike import SUMMED, reduce_program
from tilewright.simulator.block import Block
from tilewright.simulator.columns import COMPUTE, FREE, LOAD, PRELOAD, WRITE, Marks
from tilewright.simulator.nest import NestedSteps
from tilewright.simulator.numeric import check_data, move
from tilewright.simulator.overlapped import Accounts, overlapped_timeline
from tilewright.simulator.program import Counts, Program, Values
from tilewright.simulator.report import Report, Rows, Timeline, Violation
from tilewright.simulator.rules import first_violation, lockstep_hazard
from tilewright.simulator.run_state import RunState
from tilewright.simulator.timing import (
    Timed,
    lockstep_timeline,
    scheduled_timeline,
    sequential_timeline,
    static_buffer_size,
)
from tilewright.spec.arrays import distinct
from tilewright.spec.errors import OutOfTimeError

MAX_NUMERIC_ELEMENTS = 100_000_000
"""Most elements of all tensors of a numeric run, which keeps each of them four times."""

COUNT_ABOVE = 1 << 16
"""Events of a loop nest above which tiles that are alike are executed once."""

_BLOCK_EVENTS = 1 << 17
_BLOCK_ROWS = 1 << 18
"""Most events and rows of a block; a single event may have more rows."""


class _Run(RunState):
    """One run of one program.

    Attributes
    ----------
    edges
        Which events wait for which: the latter times the number of events, plus the former.
    own
        With lockstep, the phase in which each step writes back and computes; `phases` is the last one, and
        one more stands for the epilog. The first entry is no step's.
    """

    def __init__(self, program: Program, lockstep: bool, overlapped: bool, deadline: float) -> None:
        super().__init__(program, deadline)
        self.overlapped, self.deadline = overlapped, deadline
        self.executed = self.complete = 0
        self.tied = np.zeros(self.steps, dtype=np.bool_)
        self.changes: list[Counts] = []
        self.edges: list[Counts] = []
        self.hazard: Violation | None = None
        self.own: Counts | None = None
        if lockstep and self.schedule is None:
            computing = np.zeros(self.steps + 1, dtype=np.int64)
            computing[self.columns.step[self.columns.kind[self.columns.form] == COMPUTE]] = 1
            self.computing = computing[1:].astype(np.bool_)
            self.own, self.phases = np.cumsum(computing) - computing + 1, int(computing.sum())

    def run(self) -> Violation | None:
        """Execute all events up to the first violation, and return that."""
        for memory in range(len(self.program.memories)):
            if self.machine.limit[memory] < 0:
                return self._stop(Violation("memory overflow", 0, *self.overflow(memory, self.occupied)))
        columns = self.columns
        first, n = 0, len(columns.form)
        while first < n:
            if monotonic() > self.deadline:
                raise OutOfTimeError
            rows = np.cumsum(self.grid.count[columns.region[first : first + _BLOCK_EVENTS]])
            last = first + max(1, int(np.searchsorted(rows, _BLOCK_ROWS, side="right")))
            block = Block(self, first, last)
            broken = first_violation(block)
            if broken is not None:
                event, violation = broken
                # What overflows was loaded, and what is loaded once too often as well.
                overflows = violation.rule.endswith("overflow")
                block.count(event + overflows, event + (overflows or violation.rule == "reload limit"))
                return self._stop(violation)
            block.count(len(block.kinds), len(block.kinds))
            if self.several:
                self.tied[block.tied()] = True
            if self.overlapped:
                self.changes.append(block.changes)
                after, before, _ = block.dependencies
                self.edges.append(distinct(before * len(columns.form) + after))
            if self.own is not None and self.hazard is None:
                self.hazard = lockstep_hazard(block, self.own, self.phases)
            block.commit()
            first = last
        if columns.broken is not None:
            return self._stop(columns.broken)
        self.executed = self.complete = self.steps
        incomplete = self._incomplete()
        if incomplete is not None or self.own is None:
            return incomplete
        violations = [
            violation for violation in (self.hazard, self._lockstep_overflow()) if violation is not None
        ]
        return min(violations, key=lambda violation: violation.step, default=None)

    def _stop(self, violation: Violation) -> Violation:
        self.executed, self.complete = violation.step, max(0, violation.step - 1)
        return violation

    def _incomplete(self) -> Violation | None:
        """Check, once all steps are done, that nothing is missing or left."""
        for number, tensor in enumerate(self.program.tensors):
            cells = slice(*self.grid.tensor[number : number + 2])

            def missing(
                rule: str, marks: Marks, needed: str, found: str | Counts, first: int = cells.start
            ) -> Violation | None:
                if not marks.any():
                    return None
                place = int(np.argmax(marks))
                what = found if isinstance(found, str) else f"{found[place]}"
                return Violation(rule, self.steps, self.grid.name(first + place), needed, what)

            if tensor.macs_per_element and not tensor.recomputed:
                macs, needed = self.cells.macs[cells], f"{tensor.macs_per_element} MACs"
                if violation := missing("not computed", macs != tensor.macs_per_element, needed, macs):
                    return violation
            if tensor.role == "output":
                away, needed = ~self.cells.stored[cells], "every output in DRAM"
                if violation := missing("not written back", away, needed, "it never left the chip"):
                    return violation
            there = np.isin(self.cells.by[cells], (LOAD, COMPUTE, PRELOAD))
            if there.any():
                # Cells of a program that is counted may be smaller than what they stand for.
                scheduled = self.schedule is not None
                left = self.grid.elements[cells][there].sum() if scheduled else self.occupied[number]
                return Violation(
                    "memory not empty", self.steps, tensor.name, "nothing on chip", f"{left} elements"
                )
        return None

    def _phases(self, table: Counts) -> Counts:
        """Sum a row of a table over the steps of each phase."""
        steps = np.flatnonzero(self.computing)
        starts = np.concatenate([[0], steps[:-1] + 1])
        sums: Counts = np.add.reduceat(table[: steps[-1] + 1], starts)
        return sums

    def _lockstep_overflow(self) -> Violation | None:
        """Check that two steps fit beside each other in every phase, and record the peak.

        On chip are the data of the phase's own step and that of the step before until it is written back,
        whose space the loads of the next step may take.
        """
        machine, program = self.machine, self.program
        if not self.phases:
            return None
        steps = np.flatnonzero(self.computing)
        needs: dict[int, list[Counts]] = {}
        for number in range(len(program.tensors)):
            account = int(machine.account[number])
            resident = self.preloaded[number] + np.cumsum(self.net.row(number, self.steps))[steps]
            written, loaded = (
                self._phases(self.amounts[kind].row(number, self.steps)) for kind in (WRITE, LOAD)
            )
            sums = needs.setdefault(account, [np.zeros(len(steps), dtype=np.int64) for _ in range(3)])
            for total, part in zip(sums, (resident, written, np.append(loaded[1:], 0)), strict=True):
                total += part
        held = {account: kept + np.maximum(out, into) for account, (kept, out, into) in needs.items()}
        dynamic = [elements for account, elements in held.items() if account < len(program.memories)]
        self.lockstep_peak = int(sum(dynamic, np.zeros(len(steps), dtype=np.int64)).max())
        violations = []
        for account, elements in sorted(held.items(), key=lambda item: item[0]):
            owner = account - len(program.memories)
            limit = int(machine.limit[account]) * (program.copies if owner >= 0 else 1)
            if not (elements > limit).any():
                continue
            phase = int(np.argmax(elements > limit))
            step, peak = int(steps[phase]) + 1, int(elements[phase])
            if owner >= 0:
                tensor = program.tensors[owner]
                capacity = f"{program.copies} * {tensor.buffer} of its buffer"
                violations.append(
                    Violation("buffer overflow", step, tensor.name, f"{peak} elements in lockstep", capacity)
                )
            else:
                memory = program.memories[account]
                peak += int(machine.taken[machine.memory == account].sum())
                capacity = f"a capacity of {memory.capacity}"
                violations.append(
                    Violation("memory overflow", step, memory.name, f"{peak} elements in lockstep", capacity)
                )
        return min(violations, key=lambda violation: violation.step, default=None)

    def rows(self, kind: int) -> Rows:
        """Return the elements of all events of one kind, by tensor and step."""
        amounts, steps = self.amounts[kind], self.executed
        names = [tensor.name for tensor in self.program.tensors]
        return Rows(names, lambda tensor: amounts.row(tensor, steps))

    def footprint(self) -> Rows:
        """Return what each tensor occupies at the end of each step; 0 where that was not reached."""
        machine, preloaded, net = self.machine, self.preloaded, self.net
        steps, complete = self.executed, self.complete

        def row(tensor: int) -> Counts:
            if machine.static[tensor]:
                counts = np.full(steps, machine.reserved[tensor])
            else:
                counts = np.cumsum(net.row(tensor, steps)) + preloaded[tensor]
            counts[complete:] = 0
            return counts

        return Rows([tensor.name for tensor in self.program.tensors], row)

    def occupancy(self, tensor: int) -> Counts:
        """Return what is on chip of a tensor at the end of each step."""
        found: Counts = np.cumsum(self.net.row(tensor, self.steps)) + self.preloaded[tensor]
        return found

    def report(self, violation: Violation | None, times: Counts | None = None) -> Report:
        """Return what was found, with the timelines of a valid program.

        Parameters
        ----------
        times
            For how many steps each executed step stands; None if for one.
        """
        steps, program = self.executed, self.program
        report = Report(
            violation=violation,
            labels=self.columns.labels[:steps],
            loaded=self.rows(LOAD),
            freed=self.rows(FREE),
            written=self.rows(WRITE),
            computed=self.rows(COMPUTE),
            footprint=self.footprint(),
            macs=self.macs[:steps],
            transfers=0,
            most_loads={
                tensor.name: int(loads)
                for tensor, loads in zip(program.tensors, self.most_loads, strict=True)
                if tensor.role in ("input", "kernels")
            },
            times=times,
        )
        report.transfers, report.streamed = map(report.total, (self.transfers[:steps], self.streamed[:steps]))
        if violation is not None:
            return report
        static = static_buffer_size(program)
        timed, peak = Timed(self.columns, self.tied, times), static + self.peak
        if self.schedule is not None:
            report.scheduled = scheduled_timeline(timed, self.schedule, peak)
        else:
            report.sequential = sequential_timeline(timed, peak)
        if self.own is not None:
            report.lockstep = lockstep_timeline(
                timed, self.computing, static_buffer_size(program) + self.lockstep_peak
            )
        if self.overlapped:
            report.overlapped = self.overlapped_timeline()
        return report

    def overlapped_timeline(self) -> Timeline:
        """Return the timeline in which engines work on their own clocks."""
        machine, copies = self.machine, self.program.copies
        limit = machine.limit.copy()
        limit[len(self.program.memories) :] *= np.where(machine.static, copies, 1)
        held = np.zeros(len(limit), dtype=np.int64)
        np.add.at(held, machine.account, self.preloaded)
        edges = np.concatenate([np.zeros(0, dtype=np.int64), *self.edges])
        before, after = np.divmod(edges, max(1, len(self.columns.form)))
        allocated = np.concatenate([np.zeros(0, dtype=np.int64), *self.changes])
        accounts = Accounts(machine.account, limit, held)
        return overlapped_timeline(self.columns, accounts, allocated, after, before)


def execute(
    program: Program,
    *,
    overlapped: bool = False,
    lockstep: bool = False,
    data: Mapping[str, Values] | None = None,
    expected: Mapping[str, Values] | None = None,
    deadline: float = float("inf"),
    count_above: int | None = None,
) -> Report:
    """Execute a program and report what happened.

    Checked at every action: operands are resident, nothing resident is loaded again, no element is
    loaded more often than its tensor allows, no memory or buffer exceeds its capacity, no engine its work
    limit, no output is computed twice or lost. At the end: every computed element has all its MACs, every
    output is in DRAM, and the memories are empty. With `lockstep`, of a program that breaks none of these
    rules: no step loads what it writes back itself, and two steps fit beside each other.

    Of a program with a static schedule (`Step.start`) the steps are also in the order of time, every action
    finds finished what it reads, adds to, frees or transfers, nothing leaves the chip while a compute reads
    it, and no engine starts an action before its last one is over. Its timeline is that of the schedule;
    there is none in sequence or in lockstep.

    Parameters
    ----------
    overlapped
        Also compute the timeline in which engines work on their own clocks.
    lockstep
        Also compute the timeline of static double buffering.
    data
        DRAM content by tensor name, integers; makes the run a numeric one.
    expected
        What the named tensors must hold in DRAM at the end of a numeric run.
    deadline
        ``time.monotonic()`` at which to give up counting.
    count_above
        Events of a loop nest above which tiles that are alike are executed once and counted, if neither data
        nor the overlapped timeline is asked for. The totals are the same; see `Report.times`. A violation
        names the tensor, not the place in it. By default `COUNT_ABOVE`.

    Returns
    -------
    Report
        Ends at the first violation, if there is one; timelines exist for valid programs only.

    Raises
    ------
    OutOfTimeError
        When the deadline passes first.
    """
    for tensor in program.tensors:
        if tensor.recomputed and tensor.role != "intermediate":
            raise ValueError(f"{tensor.name} is recomputed and must be an intermediate, not {tensor.role}")
    if data is not None:
        check_data(program, data)
    nest = program.steps.nest if isinstance(program.steps, NestedSteps) else None
    most = COUNT_ABOVE if count_above is None else count_above
    if nest is not None and nest.size > most and data is None and not overlapped:
        found = _execute_alike(program, lockstep, deadline)
        if found is not None:
            return found
    run = _Run(program, lockstep, overlapped, deadline)
    report = run.report(run.run())
    if data is not None and report.violation is None:
        stored = move(program, data)
        if expected is not None:
            report.numeric = all(np.array_equal(stored[name], values) for name, values in expected.items())
    return report


def _execute_alike(program: Program, lockstep: bool, deadline: float) -> Report | None:
    """Execute the tiles of a loop nest that are not alike, None where that does not tell all."""
    few = reduce_program(program)
    if few is None:
        return None
    run = _Run(few.program, lockstep, False, deadline)
    if lockstep and not run.computing[:-1].all():
        return None  # Transfers of steps that do not compute are those of the next one that does.
    violation = run.run()
    held = (run.occupancy(tensor) for tensor in range(len(program.tensors)))
    if not few.steady(held, run.complete) or (violation is not None and violation.rule in SUMMED):
        return None
    report = run.report(violation and few.told(violation), few.times(run.executed))
    if violation is not None:
        report.most_loads = {}  # How often an element is loaded is a sum, known at the end only.
    return report
