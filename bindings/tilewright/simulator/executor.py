"""The executor: runs a program, checks every rule, counts traffic and moves real integers if asked.

A block of events is executed at once. One row stands for one cell that one event touches; sorted by cell,
then by event, the rows of a cell show all that happens to it, and running sums and maxima along them give
the state in which each event finds it. Only the state of the cells is kept from block to block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.columns import (
    COMPUTE,
    FREE,
    LOAD,
    PRELOAD,
    READ,
    WRITE,
    Columns,
    Grid,
    Numbers,
    distinct,
)
from tilewright.simulator.numeric import check_data, move
from tilewright.simulator.program import Counts, Program, Values
from tilewright.simulator.report import Report, Rows, Timeline, Violation
from tilewright.simulator.timing import (
    Schedule,
    Timed,
    lockstep_timeline,
    overlapped_timeline,
    reserved,
    scheduled_timeline,
    sequential_timeline,
)
from tilewright.spec.errors import OutOfTimeError

MAX_NUMERIC_ELEMENTS = 100_000_000
"""Most elements of all tensors of a numeric run, which keeps each of them four times."""

_BLOCK_EVENTS = 1 << 17
_BLOCK_ROWS = 1 << 18
"""Most events and rows of a block; a single event may have more rows."""

_UNLIMITED = np.iinfo(np.int64).max

Marks = NDArray[np.bool_]
Explain = Callable[[Counts], tuple[str, str]]
"""Given the rows of one event that break a rule: what was needed, and what was found."""

ExplainEvent = Callable[[int], tuple[str, str, str]]
"""Given an event that breaks a rule: what is concerned, what was needed, and what was found."""


class _Cells:
    """What is known of each cell between two blocks.

    Attributes
    ----------
    stored
        Whether DRAM has its data.
    changed, by
        The last event that freed, wrote back, loaded or computed it, and the event's kind; -1 for none.
    """

    def __init__(self, columns: Columns, grid: Grid) -> None:
        given = [tensor.role in ("input", "kernels") for tensor in columns.program.tensors]
        self.stored = np.repeat(np.array(given, dtype=np.bool_), np.diff(grid.tensor))
        self.loads = np.zeros(grid.cells, dtype=np.int32)
        self.macs = np.zeros(grid.cells, dtype=np.int64)
        self.changed = np.full(grid.cells, -1, dtype=np.int32)
        self.by = np.full(grid.cells, -1, dtype=np.int8)


class _Machine:
    """Limits of tensors and memories, by number.

    What is resident is held on *accounts*: one for each memory, and one for each tensor with a buffer.

    Attributes
    ----------
    macs, loads, is_output, recomputed, memory, static, reserved, account
        Of each tensor; `reserved` for all copies of its buffer.
    work
        Of each engine: most MACs of an action; the last entry is for what has no engine.
    limit
        Of each account; a memory's without what is reserved in it.
    """

    def __init__(self, program: Program) -> None:
        tensors, memories = program.tensors, program.memories
        self.macs = np.array([tensor.macs_per_element for tensor in tensors], dtype=np.int64)
        self.loads = np.array(
            [_UNLIMITED if tensor.max_loads is None else tensor.max_loads for tensor in tensors],
            dtype=np.int64,
        )
        self.is_output = np.array([tensor.role == "output" for tensor in tensors], dtype=np.bool_)
        self.recomputed = np.array([tensor.recomputed for tensor in tensors], dtype=np.bool_)
        self.work = np.array(
            [
                _UNLIMITED if engine.macs_per_action is None else engine.macs_per_action
                for engine in program.engines
            ]
            + [_UNLIMITED],
            dtype=np.int64,
        )
        number = {memory.name: place for place, memory in enumerate(memories)}
        self.memory = np.array([number[tensor.memory] for tensor in tensors], dtype=np.int64)
        self.static = np.array([tensor.buffer is not None for tensor in tensors], dtype=np.bool_)
        self.reserved = np.array(
            [program.copies * (tensor.buffer or 0) for tensor in tensors], dtype=np.int64
        )
        self.account = np.where(self.static, len(memories) + np.arange(len(tensors)), self.memory)
        room = [_UNLIMITED if memory.capacity is None else memory.capacity for memory in memories]
        taken = np.zeros(len(memories), dtype=np.int64)
        np.add.at(taken, self.memory, self.reserved)
        self.limit = np.array(
            [space - int(used) for space, used in zip(room, taken, strict=True)]
            + [_UNLIMITED if tensor.buffer is None else tensor.buffer for tensor in tensors],
            dtype=np.int64,
        )


class _Amounts:
    """What is added for which tensor at which step, a block at a time."""

    def __init__(self, tensors: int) -> None:
        self._parts: list[list[tuple[Numbers, Counts]]] = [[] for _ in range(tensors)]

    def add(self, tensors: Counts, steps: Numbers, amounts: Counts) -> None:
        """Add some amounts, kept in the smallest type that holds them."""
        order = np.argsort(tensors, kind="stable")
        found, first = np.unique(tensors[order], return_index=True)
        small = amounts.astype(np.min_scalar_type(-1 - int(np.abs(amounts).max(initial=0))))
        for tensor, mine in zip(found.tolist(), np.split(order, first[1:]), strict=False):
            self._parts[tensor].append((steps[mine], small[mine]))

    def row(self, tensor: int, steps: int) -> Counts:
        """Return the sums of a tensor by step."""
        counts = np.zeros(steps, dtype=np.int64)
        for places, amounts in self._parts[tensor]:
            np.add.at(counts, places, amounts.astype(np.int64))
        return counts


class _Block:
    """Some events, and the rows of all cells that they touch, with the state that each row finds.

    Arrays in the singular have one entry per row, others, of the plural, one per event.
    """

    def __init__(self, run: _Run, first: int, last: int) -> None:
        columns, cells = run.columns, run.cells
        self.run, self.first = run, first
        self.forms, regions = columns.form[first:last], columns.region[first:last]
        self.steps = columns.step[first:last]
        self.kinds, self.tensors = columns.kind[self.forms], columns.tensor[self.forms]
        self.elements = columns.elements[regions]
        self.each = np.where(self.kinds == COMPUTE, columns.macs[self.forms], 0)
        self.work = self.each * self.elements

        cell, event = run.grid.rows(regions)
        shift = (last - first).bit_length()
        key = (cell << shift) | event
        key.sort()
        self.cell, self.event = key >> shift, key & ((1 << shift) - 1)
        opens = np.ones(len(key), dtype=np.bool_)
        opens[1:] = self.cell[1:] != self.cell[:-1]
        self._begin = np.maximum.accumulate(np.where(opens, np.arange(len(key)), 0))
        self._ends = np.flatnonzero(np.append(opens, True)[1:])

        self.kind = self.kinds.astype(np.int8)[self.event]
        self.read, self.load, self.compute = self.kind == READ, self.kind == LOAD, self.kind == COMPUTE
        self._changes = self._latest(~self.read)
        before = self._before(self._changes)
        known = before >= 0
        self.by = np.where(known, self.kind[before], cells.by[self.cell])
        self.changed = np.where(known, self.event[before] + first, cells.changed[self.cell])
        self.resident = (self.by == LOAD) | (self.by == COMPUTE) | (self.by == PRELOAD)
        self._stores = self._latest((self.kind == WRITE) | self.compute)
        before = self._before(self._stores)
        self.stored = np.where(before >= 0, self.kind[before] == WRITE, cells.stored[self.cell])
        self.loads = self._sum_before(self.load.astype(np.int64), self._begin) + cells.loads[self.cell]
        self.adding = self.each[self.event]
        self.lost = (self.kind == FREE) & ~self.stored & self.of_tensor(run.machine.recomputed)
        anew = self._before(self._latest(self.lost))
        self.macs = self._sum_before(self.adding, np.maximum(anew, self._begin))
        self.macs += np.where(anew < 0, cells.macs[self.cell], 0)

    def _latest(self, marked: Marks) -> Counts:
        """Return for each row the last marked one up to it, of any cell."""
        return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))

    def _before(self, latest: Counts) -> Counts:
        """Return for each row the marked one before it in its cell, or -1."""
        before = np.full(len(latest), -1, dtype=np.int64)
        before[1:] = latest[:-1]
        before[before < self._begin] = -1
        return before

    def _sum_before(self, amount: Counts, first: Counts) -> Counts:
        """Return for each row the sum over the rows before it, from the given one on."""
        before = np.cumsum(amount) - amount
        return before - before[first]

    def of_tensor(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return for each row what a table has for its tensor."""
        found: NDArray[Any] = table[self.tensors][self.event]
        return found

    @cached_property
    def changes(self) -> Counts:
        """Elements by which each event changes what is resident."""
        change = np.where((self.kinds == LOAD) | (self.kinds == PRELOAD), self.elements, 0)
        change -= np.where((self.kinds == FREE) | (self.kinds == WRITE), self.elements, 0)
        fresh = self.compute & ~self.resident
        np.add.at(change, self.event[fresh], self.run.grid.elements[self.cell[fresh]])
        return change

    @cached_property
    def occupation(self) -> tuple[Counts, Counts, Counts]:
        """At which events the space of which tensors changes by how many elements."""
        events, schedule, columns = np.arange(len(self.kinds)), self.run.schedule, self.run.columns
        if schedule is None:
            return events, self.tensors, self.changes
        limits = self.first, self.first + len(events)
        mine = slice(*np.searchsorted(schedule.given_up, limits).tolist())
        leaving = schedule.leaving[mine]
        return (
            np.concatenate([schedule.given_up[mine] - self.first, events]),
            np.concatenate([columns.tensor[columns.form[leaving]], self.tensors]),
            np.concatenate([-columns.elements[columns.region[leaving]], np.maximum(self.changes, 0)]),
        )

    @cached_property
    def held(self) -> Counts:
        """What is held on each event's account when it is done."""
        events, tensors, changes = self.occupation
        accounts = self.run.machine.account[tensors]
        order = np.lexsort((events, accounts))
        account, change = accounts[order], changes[order]
        opens = np.ones(len(order), dtype=np.bool_)
        opens[1:] = account[1:] != account[:-1]
        before = np.cumsum(change) - change
        before -= before[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
        held = np.empty(len(order), dtype=np.int64)
        held[order] = before + change + self.run.held[account]
        return held[-len(self.kinds) :]  # The others are given up before.

    # Rules -------------------------------------------------------------------------------------------

    def rules_of_cells(self) -> Iterator[tuple[str, Marks, Explain]]:
        """Return the rules and the rows that break them; of one event, the first one is told."""
        run, machine = self.run, self.run.machine
        freed, loaded = self.kind == FREE, self.load | (self.kind == PRELOAD)
        needed, limit = self.of_tensor(machine.macs), self.of_tensor(machine.loads)
        done = self.macs + self.adding

        def purpose(rows: Counts) -> str:
            event = self.event[rows[0]]
            target = int(run.columns.target[self.forms[event]])
            compute = f"compute {run.program.tensors[target].name}"
            return {FREE: "free", WRITE: "write back", READ: compute}[int(self.kinds[event])]

        yield (
            "not resident",
            (freed | (self.kind == WRITE) | self.read) & ~self.resident,
            lambda rows: (f"on chip to {purpose(rows)}", "it is not there"),
        )
        yield (
            "output lost",
            freed & ~self.stored & self.of_tensor(machine.is_output),
            lambda rows: ("a write-back before it is freed", "none"),
        )
        yield ("not in DRAM", loaded & ~self.stored, lambda rows: ("data to load", "none"))
        yield (
            "loaded twice",
            loaded & self.resident,
            lambda rows: ("a region that is not on chip", "it is resident already"),
        )
        yield (
            "reload limit",
            self.load & (self.loads >= limit),
            lambda rows: (
                f"at most {limit[rows[0]]} loads",
                f"load number {self.loads[rows].max() + 1}",
            ),
        )
        yield (
            "not computed",
            self.read & (self.macs < needed),
            lambda rows: (f"{needed[rows[0]]} MACs to {purpose(rows)}", "fewer"),
        )
        yield (
            "computed twice",
            self.compute & (done > needed),
            lambda rows: (f"{needed[rows[0]]} MACs in all", f"{done[rows].max()}"),
        )
        yield (
            "not resident",
            self.compute & ~self.resident & (self.macs > 0),
            lambda rows: ("its partial sum on chip to add to", "it is not there"),
        )

    def rules_of_events(self) -> Iterator[tuple[str, Marks, ExplainEvent]]:
        """Return the rules that are not for single cells, and the events that break them."""
        run, machine = self.run, self.run.machine
        engines = run.columns.engine[self.forms]
        yield (
            "too much work",
            (self.kinds == COMPUTE) & (self.work > machine.work[engines]),
            lambda event: (
                run.program.engines[engines[event]].name,
                f"at most {machine.work[engines[event]]} MACs in one action",
                f"{self.work[event]}",
            ),
        )
        schedule = run.schedule
        if schedule is not None:
            yield (
                "engine busy",
                schedule.busy(slice(self.first, self.first + len(self.kinds))),
                lambda event: (
                    run.program.engines[engines[event]].name,
                    f"it idle by cycle {schedule.start[self.first + event]}",
                    f"at work until cycle {schedule.finish[schedule.previous[self.first + event]]}",
                ),
            )
        grows = (self.kinds == LOAD) | (self.kinds == PRELOAD) | (self.kinds == COMPUTE)
        over = grows & (self.held > machine.limit[machine.account[self.tensors]])
        static = machine.static[self.tensors]
        yield (
            "buffer overflow",
            over & static,
            lambda event: (
                run.program.tensors[self.tensors[event]].name,
                f"{self.held[event]} elements",
                f"a buffer of {run.program.tensors[self.tensors[event]].buffer}",
            ),
        )
        yield ("memory overflow", over & ~static, self._overflow)

    def hazard(self, own: Counts, phases: int) -> Violation | None:
        """Return the first load that lockstep begins before the write-back that it depends on.

        Loads go with the compute of the step before, write-backs with that of their own step; only in the
        epilog one comes after the other.
        """
        columns = self.run.columns
        rows = np.flatnonzero(self.load & (self.by == WRITE))
        when = own[self.steps[self.event[rows]]]
        rows = rows[(when == own[columns.step[self.changed[rows]]]) & (when <= phases)]
        if not rows.size:
            return None
        row = rows[np.argmin(self.event[rows])]
        return Violation(
            "lockstep hazard",
            int(self.steps[self.event[row]]),
            self.run.grid.name(int(self.cell[row])),
            "its data in DRAM while the step before computes",
            f"a write-back in step {columns.step[self.changed[row]]}",
        )

    def _overflow(self, event: int) -> tuple[str, str, str]:
        run = self.run
        occupied = run.occupied.copy()
        events, tensors, changes = self.occupation
        np.add.at(occupied, tensors[events <= event], changes[events <= event])
        return run.overflow(int(run.machine.memory[self.tensors[event]]), occupied)

    def early(self) -> tuple[int, Callable[[], Violation]] | None:
        """Return the first event that a schedule begins before another one is over, and how to say so."""
        schedule, columns = self.run.schedule, self.run.columns
        assert schedule is not None
        after, before, cell = self.dependencies
        soon = np.flatnonzero(schedule.start[after] < schedule.finish[before])
        kind, other = (columns.kind[columns.form[events[soon]]] for events in (after, before))
        soon = soon[(kind != READ) | (other != READ)]  # Two of one engine, which is busy then.
        if not soon.size:
            return None
        event = int(after[soon].min())
        soon = soon[after[soon] == event]
        place = int(cell[soon].min())
        late = before[soon[cell[soon] == place]]
        last = int(late[np.argmax(schedule.finish[late])])

        def tell() -> Violation:
            used = int(columns.kind[columns.form[last]])
            begin, end = (int(cycles) for cycles in (schedule.start[event], schedule.finish[last]))
            what = {COMPUTE: "computed", LOAD: "loaded", WRITE: "written back", READ: "read"}[used]
            rule, needed = ("in use", "its readers done") if used == READ else ("not ready", "its data")
            return Violation(
                rule,
                int(columns.step[event]),
                self.run.grid.name(place),
                f"{needed} by cycle {begin}",
                f"{what} until cycle {end}",
            )

        return event - self.first, tell

    def first_violation(self) -> tuple[int, Violation] | None:
        """Return the first event that breaks a rule, and the first rule that it breaks."""
        first = len(self.kinds)
        tell: Callable[[], Violation] | None = None
        for name, broken, explain in self.rules_of_cells():
            if broken.any() and (event := int(self.event[broken].min())) < first:
                first = event
                rows = np.flatnonzero(broken & (self.event == event))
                tell = partial(self._of_cells, name, rows, explain)
        if self.run.schedule is not None and (early := self.early()) is not None and early[0] < first:
            first, tell = early
        for name, broken, explain_event in self.rules_of_events():
            if broken.any() and (event := int(np.argmax(broken))) < first:
                first = event
                tell = partial(self._of_event, name, event, explain_event)
        return None if tell is None else (first, tell())

    def _of_cells(self, name: str, rows: Counts, explain: Explain) -> Violation:
        place = self.run.grid.name(int(self.cell[rows[0]]))
        return Violation(name, int(self.steps[self.event[rows[0]]]), place, *explain(rows))

    def _of_event(self, name: str, event: int, explain: ExplainEvent) -> Violation:
        return Violation(name, int(self.steps[event]), *explain(event))

    # Results -----------------------------------------------------------------------------------------

    def count(self, events: int, loading: int) -> None:
        """Add to the run's counts what the first events did, and how often cells were loaded by `loading`."""
        run = self.run
        steps, tensors = self.steps[:events] - 1, self.tensors[:events]
        for kind, amounts in run.amounts.items():
            mine = np.flatnonzero(self.kinds[:events] == kind)
            amounts.add(tensors[mine], steps[mine], self.elements[mine])
        place, occupant, change = self.occupation
        mine = np.flatnonzero((change != 0) & (place < events))
        place, occupant, change = place[mine], occupant[mine], change[mine]
        before = steps[place] < 0
        np.add.at(run.preloaded, occupant[before], change[before])
        np.add.at(run.occupied, occupant, change)
        run.net.add(occupant[~before], steps[place[~before]], change[~before])
        computes = np.flatnonzero(self.kinds[:events] == COMPUTE)
        np.add.at(run.macs, steps[computes], self.work[computes])
        run.streamed += int(run.columns.streamed[self.forms[computes]].sum())
        run.transfers += int(np.isin(self.kinds[:events], (WRITE, LOAD)).sum())
        loads = self.load & (self.event < loading)
        np.maximum.at(run.most_loads, self.tensors[self.event[loads]], self.loads[loads] + 1)
        dynamic = np.zeros(events, dtype=np.int64)
        np.add.at(dynamic, place, np.where(run.machine.static[occupant], 0, change))
        dynamic = np.cumsum(dynamic) + run.dynamic
        run.peak = max(run.peak, int(dynamic.max(initial=0)))
        run.dynamic = int(dynamic[-1]) if events else run.dynamic

    def tied(self) -> Numbers:
        """Return the steps in which an engine computes with what another one has just computed, from 0."""
        rows = np.flatnonzero((self.read | self.compute) & (self.by == COMPUTE))
        columns, changed = self.run.columns, self.changed[rows]
        forms = columns.form[changed]
        now = self.event[rows]
        other = columns.engine[forms] != columns.engine[self.forms[now]]
        same = columns.step[changed] == self.steps[now]
        steps: Numbers = self.steps[now[other & same]] - 1
        return steps

    @cached_property
    def dependencies(self) -> tuple[Counts, Counts, Counts]:
        """Events, those that each of them waits for, and the cell because of which; for each block in turn.

        An event waits for the last one that changed one of its cells. What ends or begins a stay on chip
        waits for whoever read the cell before. Reads of a cell on one engine wait for each other, so the
        last of them stands for all. A READ is part of its compute.
        """
        event = self.event + self.first
        rows = np.flatnonzero((self.by >= 0) & (self.by != PRELOAD) & (self.kind != PRELOAD))
        reads = np.flatnonzero(self.read)
        engine = self.run.columns.engine[self.forms[self.event[reads]]]
        fresh = np.stack([self.cell[reads], engine, event[reads]])
        found = np.concatenate([self.run.readers, fresh], axis=1)
        cell, engine, reader = found = found[:, np.lexsort(found[::-1])]
        again = (cell[1:] == cell[:-1]) & (engine[1:] == engine[:-1])
        closing = np.flatnonzero(~self.read & ~self.compute & (self.kind != PRELOAD))
        total = len(self.run.columns.form)
        closed = self.cell[closing] * total + event[closing]
        place = np.searchsorted(closed, cell * total + reader)
        ends = place < len(closing)
        ends[ends] = self.cell[closing[place[ends]]] == cell[ends]
        last = np.ones(len(cell), dtype=np.bool_)
        last[:-1] = ~again | (place[1:] != place[:-1])
        leaving = np.flatnonzero(ends & last)
        last[:-1] = ~again
        self.run.readers = found[:, last & ~ends]
        return (
            np.concatenate([event[rows], reader[1:][again], event[closing[place[leaving]]]]),
            np.concatenate([self.changed[rows], reader[:-1][again], reader[leaving]]),
            np.concatenate([self.cell[rows], cell[1:][again], cell[leaving]]),
        )

    def commit(self) -> None:
        """Leave the state after the block to the next one."""
        cells, ends = self.run.cells, self._ends
        cell = self.cell[ends]
        cells.loads[cell] = self.loads[ends] + self.load[ends]
        cells.macs[cell] = np.where(self.lost[ends], 0, self.macs[ends] + self.adding[ends])
        here = self._changes[ends] >= self._begin[ends]
        rows = self._changes[ends[here]]
        cells.changed[cell[here]] = self.event[rows] + self.first
        cells.by[cell[here]] = self.kind[rows]
        here = self._stores[ends] >= self._begin[ends]
        cells.stored[cell[here]] = self.kind[self._stores[ends[here]]] == WRITE
        _, tensors, changes = self.occupation
        np.add.at(self.run.held, self.run.machine.account[tensors], changes)


class _Run:
    """One run of one program.

    Attributes
    ----------
    held
        On each account.
    occupied, preloaded
        Elements that each tensor has space for: now, and before the first step.
    amounts, net
        Elements by kind of event, tensor and step; and how many more a tensor has space for after it.
    schedule
        When all events run, of a program with a static schedule.
    edges
        Which events wait for which: the latter times the number of events, plus the former.
    own
        With lockstep, the phase in which each step writes back and computes; `phases` is the last one, and
        one more stands for the epilog. The first entry is no step's.
    """

    def __init__(self, program: Program, lockstep: bool, overlapped: bool, deadline: float) -> None:
        self.program, self.overlapped, self.deadline = program, overlapped, deadline
        self.columns = columns = Columns(program, deadline)
        self.grid = Grid(columns)
        self.cells = _Cells(columns, self.grid)
        self.machine = _Machine(program)
        self.steps = len(columns.labels)
        tensors = len(program.tensors)
        self.held = np.zeros(len(self.machine.limit), dtype=np.int64)
        self.occupied, self.preloaded, self.most_loads = (np.zeros(tensors, dtype=np.int64) for _ in range(3))
        self.amounts = {kind: _Amounts(tensors) for kind in (FREE, WRITE, LOAD, COMPUTE)}
        self.net = _Amounts(tensors)
        self.macs = np.zeros(self.steps, dtype=np.int64)
        self.transfers = self.streamed = self.dynamic = self.peak = self.lockstep_peak = 0
        self.executed = self.complete = 0
        self.tied = np.zeros(self.steps, dtype=np.bool_)
        self.schedule = None if columns.start is None else Schedule(columns, columns.start)
        self.several = self.schedule is None and len(set(columns.engine[columns.kind == COMPUTE])) > 1
        self.changes: list[Counts] = []
        self.readers = np.zeros((3, 0), dtype=np.int64)
        self.edges: list[Counts] = []
        self.hazard: Violation | None = None
        self.own: Counts | None = None
        if lockstep and self.schedule is None:
            computing = np.zeros(self.steps + 1, dtype=np.int64)
            computing[columns.step[columns.kind[columns.form] == COMPUTE]] = 1
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
            block = _Block(self, first, last)
            broken = block.first_violation()
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
                self.hazard = block.hazard(self.own, self.phases)
            block.commit()
            first = last
        if columns.broken is not None:
            return self._stop(columns.broken)
        self.executed = self.complete = self.steps
        incomplete = self._incomplete()
        if incomplete is not None or self.own is None:
            return incomplete
        found = [
            violation for violation in (self.hazard, self._no_room_in_lockstep()) if violation is not None
        ]
        return min(found, key=lambda violation: violation.step, default=None)

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
            if left := int(self.grid.elements[cells][there].sum()):
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

    def _no_room_in_lockstep(self) -> Violation | None:
        """Check that each phase has room for two steps, and note the most that is held in one.

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
        dynamic = [found for account, found in held.items() if account < len(program.memories)]
        self.lockstep_peak = int(sum(dynamic, np.zeros(len(steps), dtype=np.int64)).max())
        violations = []
        for account, found in sorted(held.items(), key=lambda item: item[0]):
            owner = account - len(program.memories)
            limit = int(machine.limit[account]) * (program.copies if owner >= 0 else 1)
            if not (found > limit).any():
                continue
            phase = int(np.argmax(found > limit))
            step, most = int(steps[phase]) + 1, int(found[phase])
            if owner >= 0:
                tensor = program.tensors[owner]
                room = f"{program.copies} * {tensor.buffer} of its buffer"
                violations.append(
                    Violation("buffer overflow", step, tensor.name, f"{most} elements in lockstep", room)
                )
            else:
                memory = program.memories[account]
                most += int(machine.reserved[machine.memory == account].sum())
                room = f"a capacity of {memory.capacity}"
                violations.append(
                    Violation("memory overflow", step, memory.name, f"{most} elements in lockstep", room)
                )
        return min(violations, key=lambda violation: violation.step, default=None)

    def overflow(self, memory: int, occupied: Counts) -> tuple[str, str, str]:
        """Explain what is too much for a memory: its name, its contents, its capacity."""
        parts, total = [], 0
        for number, tensor in enumerate(self.program.tensors):
            if self.machine.memory[number] != memory:
                continue
            if tensor.buffer is None:
                taken, text = int(occupied[number]), f"{int(occupied[number])}"
            else:
                taken = self.program.copies * tensor.buffer
                text = f"{self.program.copies} * {tensor.buffer}"
            total += taken
            if taken:
                parts.append(f"{tensor.name} {text}")
        found = self.program.memories[memory]
        return found.name, f"{total} elements ({', '.join(parts)})", f"a capacity of {found.capacity}"

    def rows(self, kind: int) -> Rows:
        """Return the elements by tensor and step of events of a kind."""
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
        return overlapped_timeline(self.columns, machine.account, limit, held, allocated, after, before)


def execute(
    program: Program,
    *,
    overlapped: bool = False,
    lockstep: bool = False,
    data: Mapping[str, Values] | None = None,
    expected: Mapping[str, Values] | None = None,
    deadline: float = float("inf"),
) -> Report:
    """Execute a program and report what happened.

    Checked at every action: operands are resident, nothing resident is loaded again, no element is
    loaded more often than its tensor allows, no memory or buffer exceeds its capacity, no engine its work
    limit, no output is computed twice or lost. At the end: every computed element has all its MACs, every
    output is in DRAM, and the memories are empty. With `lockstep`, of a program that breaks none of these
    rules: no step loads what it writes back itself, and two steps have room beside each other.

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
    run = _Run(program, lockstep, overlapped, deadline)
    violation = run.run()
    steps = run.executed
    report = Report(
        violation=violation,
        labels=run.columns.labels[:steps],
        loaded=run.rows(LOAD),
        freed=run.rows(FREE),
        written=run.rows(WRITE),
        computed=run.rows(COMPUTE),
        footprint=run.footprint(),
        macs=run.macs[:steps],
        transfers=run.transfers,
        streamed=run.streamed,
        most_loads={
            tensor.name: int(loads)
            for tensor, loads in zip(program.tensors, run.most_loads, strict=True)
            if tensor.role in ("input", "kernels")
        },
    )
    if violation is not None:
        return report
    timed, peak = Timed(run.columns, run.tied), reserved(program) + run.peak
    if run.schedule is not None:
        report.scheduled = scheduled_timeline(timed, run.schedule, peak)
    else:
        report.sequential = sequential_timeline(timed, peak)
    if lockstep and run.schedule is None:
        report.lockstep = lockstep_timeline(timed, run.computing, reserved(program) + run.lockstep_peak)
    if overlapped:
        report.overlapped = run.overlapped_timeline()
    if data is not None:
        stored = move(program, data)
        if expected is not None:
            report.numeric = all(np.array_equal(stored[name], values) for name, values in expected.items())
    return report
