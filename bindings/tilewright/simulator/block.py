"""A block of events: the rows of all cells that they touch, and the state that each row finds."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, PRELOAD, READ, WRITE, Marks, Numbers
from tilewright.simulator.program import Counts
from tilewright.simulator.run_state import RunState


class Block:
    """Some events, and the rows of all cells that they touch, with the state that each row finds.

    Arrays in the singular have one entry per row, others, of the plural, one per event.

    Attributes
    ----------
    first
        Number of the first event.
    cell, event
        What a row stands for; events are counted from the first.
    by, changed
        Kind and number of the event that changed the cell last, -1 for none.
    resident, stored
        Whether the cell is on chip, and whether DRAM has its data.
    loads, macs
        Loads and MACs that the cell had before.
    bringing, adding
        Loads and MACs that the event adds.
    lost
        Whether the cell is freed, not stored, and may be computed anew.
    """

    def __init__(self, run: RunState, first: int, last: int) -> None:
        columns, cells = run.columns, run.cells
        self.run, self.first = run, first
        self.forms, regions = columns.form[first:last], columns.region[first:last]
        self.steps = columns.step[first:last]
        self.kinds, self.tensors = columns.kind[self.forms], columns.tensor[self.forms]
        self.elements = columns.elements[regions]
        self.each = np.where(self.kinds == COMPUTE, columns.macs[self.forms], 0)
        self.work = self.each * self.elements

        # Rows: sorted by cell, then by event; where those of a cell begin and end.
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
        # States: what the rows before, in this block or in those before it, did to the row's cell.
        self._changes = self._latest(~self.read)
        before = self._before(self._changes)
        known = before >= 0
        self.by = np.where(known, self.kind[before], cells.by[self.cell])
        self.changed = np.where(known, self.event[before] + first, cells.changed[self.cell])
        self.resident = (self.by == LOAD) | (self.by == COMPUTE) | (self.by == PRELOAD)
        self._stores = self._latest((self.kind == WRITE) | self.compute)
        before = self._before(self._stores)
        self.stored = np.where(before >= 0, self.kind[before] == WRITE, cells.stored[self.cell])
        often = 1 if columns.times is None else columns.times[first:last][self.event]
        self.bringing = self.load * np.int64(often)
        self.loads = self._sum_before(self.bringing, self._begin) + cells.loads[self.cell]
        self.adding = self.each[self.event] * often
        self.lost = (self.kind == FREE) & ~self.stored & self.of_tensor(run.machine.recomputed)
        anew = self._before(self._latest(self.lost))
        self.macs = self._sum_before(self.adding, np.maximum(anew, self._begin))
        self.macs += np.where(anew < 0, cells.macs[self.cell], 0)

    def _latest(self, marked: Marks) -> Counts:
        """Return for each row the last marked row up to and including it, of any cell."""
        return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))

    def _before(self, latest: Counts) -> Counts:
        """Return for each row the last marked row before it in its own cell, or -1."""
        before = np.full(len(latest), -1, dtype=np.int64)
        before[1:] = latest[:-1]
        before[before < self._begin] = -1
        return before

    def _sum_before(self, amount: Counts, first: Counts) -> Counts:
        """Return for each row the sum of amounts from row `first` up to the row before."""
        before = np.cumsum(amount) - amount
        return before - before[first]

    def of_tensor(self, table: NDArray[Any]) -> NDArray[Any]:
        """Look up each row's tensor in a table."""
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
        """Changes of allocated space: events, tensors, and elements, three arrays of one length."""
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
        """Elements held on each event's account after it."""
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

    # Results -----------------------------------------------------------------------------------------

    def count(self, events: int, loading: int) -> None:
        """Add the first `events` events to the run's counts; loads count up to event `loading`."""
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
        np.add.at(run.streamed, steps[computes], run.columns.streamed[self.forms[computes]])
        np.add.at(run.transfers, steps[np.isin(self.kinds[:events], (WRITE, LOAD))], 1)
        loads = self.load & (self.event < loading)
        np.maximum.at(run.most_loads, self.tensors[self.event[loads]], (self.loads + self.bringing)[loads])
        dynamic = np.zeros(events, dtype=np.int64)
        np.add.at(dynamic, place, np.where(run.machine.static[occupant], 0, change))
        dynamic = np.cumsum(dynamic) + run.dynamic
        run.peak = max(run.peak, int(dynamic.max(initial=0)))
        run.dynamic = int(dynamic[-1]) if events else run.dynamic

    def tied(self) -> Numbers:
        """Return the steps, from 0, in which one engine computes with a result of another engine."""
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
        cells.loads[cell] = self.loads[ends] + self.bringing[ends]
        cells.macs[cell] = np.where(self.lost[ends], 0, self.macs[ends] + self.adding[ends])
        here = self._changes[ends] >= self._begin[ends]
        rows = self._changes[ends[here]]
        cells.changed[cell[here]] = self.event[rows] + self.first
        cells.by[cell[here]] = self.kind[rows]
        here = self._stores[ends] >= self._begin[ends]
        cells.stored[cell[here]] = self.kind[self._stores[ends[here]]] == WRITE
        _, tensors, changes = self.occupation
        np.add.at(self.run.held, self.run.machine.account[tensors], changes)
