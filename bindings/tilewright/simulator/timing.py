"""When the actions of an executed program run: in sequence, in lockstep, freely, or by a schedule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, PRELOAD, READ, WRITE, Columns, Numbers
from tilewright.simulator.program import Counts, Program
from tilewright.simulator.report import Names, Timeline, step_lengths
from tilewright.spec.arrays import distinct

_CHUNK = 1 << 18
"""Actions that are timed at once."""


def static_buffer_size(program: Program) -> int:
    """Return the units of all static buffers: elements, where tensors have no widths."""
    return program.copies * sum(tensor.held_width * (tensor.buffer or 0) for tensor in program.tensors)


class Timed:
    """The actions that take time, as columns.

    Attributes
    ----------
    event
        Numbers of their events.
    step
        From 0.
    kind, engine, tensor
        Their kinds, and the numbers of their engines and tensors.
    cycles
        Without what a compute streams.
    lane
        The engine, as what runs one action after the other within a stage; but all computes of a *tied*
        step, in which one engine's results are another one's operands, are on the lane of the first.
    times
        For how many steps each step stands; None if for one.
    """

    def __init__(self, columns: Columns, tied: NDArray[np.bool_], times: Counts | None = None) -> None:
        self.program, self.times = columns.program, times
        kinds = columns.kind.astype(np.int8)[columns.form]
        self.event = np.flatnonzero((kinds == WRITE) | (kinds == LOAD) | (kinds == COMPUTE))
        self.kind = kinds[self.event]
        form = columns.form[self.event]
        self.step = columns.step[self.event] - 1
        self.engine = columns.engine.astype(np.int16)[form]
        self.tensor = columns.tensor.astype(np.int16)[form]
        self.cycles = durations(columns, self.event)
        self._form, self._streaming = form, _streaming(columns)
        self.lane = self.engine
        computes = np.flatnonzero(self.kind == COMPUTE)
        computes = computes[tied[self.step[computes]]]
        if computes.size:
            self.lane = self.engine.copy()
            _, first, step = np.unique(self.step[computes], return_index=True, return_inverse=True)
            self.lane[computes] = self.engine[computes[first]][step]

    def streaming(self, which: Counts | slice) -> Counts:
        """Return the cycles that a bus streams for each of some actions."""
        return self._streaming[self._form[which]]

    def timeline(self, start: Counts, finish: Counts, cycles: int, peak: int) -> Timeline:
        """Return a timeline of these actions."""
        return Timeline(
            cycles=cycles,
            step=self.step,
            start=start,
            finish=finish,
            engine=Names([engine.name for engine in self.program.engines], self.engine),
            tensor=Names([tensor.name for tensor in self.program.tensors], self.tensor),
            peak=peak,
            times=None if self.times is None else self.times[self.step],
        )


class Schedule:
    """When the events of a program with a static schedule run.

    Attributes
    ----------
    start, finish
        Of each event. Frees take no time, and a READ as long as the compute that it is for.
    previous
        For each action the event before it on its engine, -1 if there is none.
    leaving, given_up
        Events that free or write back, and for each the event before which its space is given up, ascending:
        itself, or if it takes time the first one that starts when it is over.
    """

    def __init__(self, columns: Columns, starts: Counts) -> None:
        actions = Actions(columns)
        cycles = np.append(actions.cycles, 0)  # Of reads whose compute cannot be executed.
        self.start = starts[columns.step]
        self.finish = self.start.copy()
        first = int(np.searchsorted(columns.step, 1))  # What is preloaded comes before all actions.
        self.finish[first:] += cycles[actions.number[first:]]
        engine = columns.engine[columns.form[actions.event]]
        order = np.argsort(engine, kind="stable")
        again, event = engine[order[1:]] == engine[order[:-1]], actions.event[order]
        self.previous = np.full(len(self.start), -1)
        self.previous[event[1:]] = np.where(again, event[:-1], -1)
        kind = columns.kind[columns.form]
        leaving = np.flatnonzero((kind == FREE) | (kind == WRITE))
        given_up = np.maximum(leaving, np.searchsorted(self.start, self.finish[leaving]))
        order = np.argsort(given_up, kind="stable")
        self.leaving, self.given_up = leaving[order], given_up[order]

    def busy(self, events: slice) -> NDArray[np.bool_]:
        """Mark the events that start while their engine is still at work on the one before."""
        before = self.previous[events]
        found: NDArray[np.bool_] = (before >= 0) & (self.start[events] < self.finish[before])
        return found


def scheduled_timeline(timed: Timed, schedule: Schedule, peak: int) -> Timeline:
    """Return the timeline of a program as its schedule says."""
    start, finish = schedule.start[timed.event], schedule.finish[timed.event]
    return timed.timeline(start, finish, int(finish.max(initial=0)), peak)


class Actions:
    """All actions of a program, as columns.

    Attributes
    ----------
    event
        Numbers of their events.
    number
        Of each event's action; that of a READ is the compute that it is for.
    cycles
        What each takes, a compute at least as long as what it streams.
    """

    def __init__(self, columns: Columns) -> None:
        kinds = columns.kind.astype(np.int8)[columns.form]
        acts = (kinds != READ) & (kinds != PRELOAD)
        self.event, self.number = np.flatnonzero(acts), np.cumsum(acts) - acts
        self.cycles = np.maximum(
            durations(columns, self.event), _streaming(columns)[columns.form[self.event]]
        )


def durations(columns: Columns, events: Counts) -> Counts:
    """Return the cycles of some events, without what computes stream; frees take none."""
    units = np.array([tensor.unit for tensor in columns.program.tensors], dtype=np.int64)
    widths = _widths(columns)
    cycles = np.zeros(len(events), dtype=np.int64)
    for first in range(0, len(events), _CHUNK):
        chunk = events[first : first + _CHUNK]
        form = columns.form[chunk]
        kind, engines = columns.kind[form], columns.engine[form]
        elements = columns.elements[columns.region[chunk]]
        moved = np.where(kind == COMPUTE, 0, -(-elements // units[columns.tensor[form]]) * widths[form])
        macs = np.where(kind == COMPUTE, columns.macs[form] * elements, 0)
        bursts = columns.bursts[form]
        for number in distinct(engines[kind != FREE]):
            engine, mine = columns.program.engines[number], np.flatnonzero(engines == number)
            cycles[first + mine] = engine.cycles(moved[mine], macs[mine], bursts[mine])
        cycles[first : first + len(chunk)] += columns.cycles[form]
    return cycles


def _widths(columns: Columns) -> Counts:
    """Return, for each form, the width of the elements that it moves; only sums are ever loaded again."""
    tensors = columns.program.tensors
    complete, sums, computed = (
        np.array(values, dtype=np.int64)[columns.tensor]
        for values in (
            [tensor.width for tensor in tensors],
            [tensor.held_width for tensor in tensors],
            [tensor.macs_per_element for tensor in tensors],
        )
    )
    again = (columns.kind == LOAD) & (computed > 0)
    return np.where(again | (columns.sums > 0), sums, complete)


def _streaming(columns: Columns) -> Counts:
    """Return, for each form, the cycles that a bus works for a compute."""
    engines = {engine.name: engine for engine in columns.program.engines}
    cycles = np.zeros(len(columns.kind), dtype=np.int64)
    for form in np.flatnonzero((columns.kind == COMPUTE) & (columns.streamed > 0)):
        over = columns.program.engines[columns.engine[form]].streams_over
        if over is not None:
            if not engines[over].elements_per_cycle:
                raise ValueError(f"{over} is streamed over and needs elements_per_cycle")
            cycles[form] = engines[over].streaming(int(columns.streamed[form]))
    return cycles


def _run(
    phase: Numbers, lane: Numbers, cycles: Counts, now: int, times: Counts | None = None
) -> tuple[Counts, int]:
    """Run phases in sequence, the lanes of a phase in parallel, the actions of a lane in sequence.

    Parameters
    ----------
    times
        How often the phase of each action is run, if not once; the actions are those of the first time.

    Returns
    -------
    start : int, shape (n,)
        Of each action.
    end
        Of the last phase.
    """
    if not len(phase):
        return np.zeros(0, dtype=np.int64), now
    order = np.argsort(phase * (int(lane.max()) + 1) + lane, kind="stable")
    phase, lane, cycles = phase[order], lane[order], cycles[order]
    turns = np.ones(len(order), dtype=np.bool_)
    turns[1:] = phase[1:] != phase[:-1]
    opens = turns.copy()
    opens[1:] |= lane[1:] != lane[:-1]
    lanes = np.flatnonzero(opens)
    before = np.cumsum(cycles) - cycles
    offset = before - before[lanes][np.cumsum(opens) - 1]
    lengths = np.maximum.reduceat(np.add.reduceat(cycles, lanes), np.flatnonzero(turns[lanes]))
    if times is not None:
        lengths *= times[order][turns]
    ends = now + np.cumsum(lengths)
    start = np.empty(len(order), dtype=np.int64)
    start[order] = (ends - lengths)[np.cumsum(turns) - 1] + offset
    return start, int(ends[-1])


def sequential_timeline(timed: Timed, peak: int) -> Timeline:
    """Run the stages of all steps after one another (definition 3), the engines of a stage side by side.

    Actions of one engine run one after the other; a stage ends with its slowest engine. A compute takes as
    long as what it streams, if that is longer.
    """
    start, finish = (np.zeros(len(timed.cycles), dtype=np.int64) for _ in range(2))
    now = first = 0
    while first < len(start):
        last = first + _CHUNK
        if last < len(start):  # Not within a step.
            last = int(np.searchsorted(timed.step, timed.step[last - 1], side="right"))
        chunk = slice(first, last)
        stage = timed.step[chunk].astype(np.int64) * 4 + timed.kind[chunk]
        cycles = np.maximum(timed.cycles[chunk], timed.streaming(chunk))
        start[chunk], now = _run(stage, timed.lane[chunk], cycles, now)
        finish[chunk] = start[chunk] + cycles
        first = last
    if timed.times is not None:  # What is shown of a step that stands for many is the first time.
        again = (timed.times - 1) * step_lengths(timed.step, start, finish, len(timed.times))
        later = (np.cumsum(again) - again)[timed.step]
        start, finish, now = start + later, finish + later, now + int(again.sum())
    return timed.timeline(start, finish, now, peak)


def _setup_lanes(
    engines: NDArray[np.int16], phases: Counts, busy: Counts, lanes: NDArray[np.int16]
) -> NDArray[np.int16]:
    """Return the lane of each set-up: that on which its engine computes in the phase, if it does.

    Parameters
    ----------
    engines, phases
        Of each set-up: the number of the engine that does it, and the phase times the number of engines.
    busy, lanes
        Of each compute: phase times the number of engines plus engine, and its lane.
    """
    known, which = np.unique(busy, return_index=True)
    if not known.size:
        return engines
    wanted = phases + engines
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, lanes[which[place]], engines)


def lockstep_timeline(timed: Timed, computing: NDArray[np.bool_], peak: int) -> Timeline:
    """Run the compute of each step beside the transfers that double buffering has meanwhile.

    Phase i lasts as long as its busiest engine: the compute of the i-th step that computes, what its step
    writes back, which was computed before, and the loads of the next one. On an engine the write-backs go
    before the loads. Before the first phase its loads are alone (the prolog), after the last one the
    transfers of steps that follow the last compute (the epilog). The transfers of other steps that do not
    compute count for the next one that does.

    The set-up of a transfer is work of the engine `Engine.setup_on`, before its own; in prolog and epilog
    all set-ups come before all transfers. What a compute streams is work of the bus, after its transfers.

    Parameters
    ----------
    computing
        Marks the steps that compute.
    """
    engines = timed.program.engines
    number = {engine.name: place for place, engine in enumerate(engines)}
    host = np.array([number[engine.setup_on or engine.name] for engine in engines], dtype=np.int16)
    bus = np.array([number[engine.streams_over or engine.name] for engine in engines], dtype=np.int16)
    setup = np.array([engine.setup for engine in engines], dtype=np.int64)
    setup[host == np.arange(len(engines))] = 0
    n = int(computing.sum())
    phases = np.cumsum(computing, dtype=np.int32) - computing + 1
    own = phases[timed.step]  # The phase of an action's step; n + 1 for the epilog.
    times = np.ones(n + 2, dtype=np.int64)
    if timed.times is not None:
        times[1:-1] = timed.times[computing]
    start, finish = (np.zeros(len(own), dtype=np.int64) for _ in range(2))
    beside = np.zeros(len(engines), dtype=np.int64)
    now = phase = 0
    while phase <= n + 1:
        first = int(np.searchsorted(own, np.int32(phase)))
        end = max(int(own[first + _CHUNK]), phase + 1) if first + _CHUNK < len(own) else n + 2
        mine = np.arange(first, np.searchsorted(own, np.int32(end), side="right"))
        when = own[mine] - ((timed.kind[mine] == LOAD) & (own[mine] <= n))
        mine, when = mine[(phase <= when) & (when < end)], when[(phase <= when) & (when < end)]
        engine, kind = timed.engine[mine], timed.kind[mine]
        alone = (when == 0) | (when == n + 1)
        hosted, streaming = np.where(kind == COMPUTE, 0, setup[engine]), timed.streaming(mine)
        cycles = timed.cycles[mine] - hosted
        sets, streams = np.flatnonzero(hosted), np.flatnonzero(streaming)
        computes = kind == COMPUTE
        busy = when[computes] * len(engines) + engine[computes]
        lanes = _setup_lanes(host[engine[sets]], when[sets] * len(engines), busy, timed.lane[mine][computes])
        begins, now = _run(
            np.concatenate([2 * when[sets] - alone[sets], 2 * when, 2 * when[streams]]),
            np.concatenate([lanes, timed.lane[mine], bus[engine[streams]]]),
            np.concatenate([hosted[sets], cycles, streaming[streams]]),
            now,
            times[np.concatenate([when[sets], when, when[streams]])],
        )
        start[mine] = begins[len(sets) : len(sets) + len(mine)]
        finish[mine] = start[mine] + cycles
        np.add.at(beside, host[engine[sets]], (hosted * times[when])[sets])
        np.add.at(beside, bus[engine[streams]], (streaming * times[when])[streams])
        phase = end
    line = timed.timeline(start, finish, now, peak)
    line.beside = {engine.name: int(c) for engine, c in zip(engines, beside, strict=True) if c}
    return line
