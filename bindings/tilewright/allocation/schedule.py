"""The static schedule of a plan: paces, start times and buffers, as closed forms of what is executed.

Every layer works at a constant pace, as programs of a processor array do, so a beat is known by its number.
The simulator executes the same schedule beat by beat; tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from tilewright.allocation.geometry import Numbers, Scan, last_uses
from tilewright.allocation.machine import INPUT
from tilewright.allocation.off_chip import (
    NOT_READ,
    channels_of,
    name_of,
    readers_of,
    storage_in_turns,
    transfer_cycles,
    transfers,
    uses_of,
)
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.stages import Given, Stage


@dataclass(frozen=True)
class Schedule:
    """When each layer works, and what the buffers hold; times in cycles, amounts in words.

    Attributes
    ----------
    beats
        Beats of each layer in a frame.
    works
        Cycles in which a layer computes a beat (equation 6).
    paces
        Cycles from beat to beat: work and inserted waits.
    starts
        When each layer begins with a frame, counted from the first layer.
    fixed
        The interval, where it is not that of the plan's loads and transfers.
    host_starts
        When the host begins with each of the problem's `steps`.
    """

    problem: Problem
    plan: Plan
    scan: Scan
    beats: tuple[int, ...]
    works: tuple[int, ...]
    paces: tuple[int, ...]
    starts: tuple[int, ...]
    fixed: int | None = None
    host_starts: tuple[int, ...] = ()

    @property
    def loads(self) -> tuple[int, ...]:
        """Cycles for which a frame keeps each layer busy without waits."""
        return tuple(n * work for n, work in zip(self.beats, self.works, strict=True))

    @property
    def ends(self) -> tuple[int, ...]:
        """When each layer has done with a frame."""
        busy = [n * pace for n, pace in zip(self.beats, self.paces, strict=True)]
        if not self.problem.parallel:  # a turn may be longer than what is computed in it
            busy = [max(pair) for pair in zip(busy, self.transfer_cycles, strict=True)]
        return tuple(start + cycles for start, cycles in zip(self.starts, busy, strict=True))

    @cached_property
    def transfer_cycles(self) -> tuple[int, ...]:
        """Cycles for which a frame keeps the chip's border busy; of each turn, where layers take turns.

        They are 0 where the border has no rate.
        """
        return _transfer_cycles(self.problem, self.plan)

    @property
    def latency(self) -> int:
        """Cycles from the start of a frame until its last output (equations 3 and 12)."""
        return max((*self.ends, *self.host_ends))

    @property
    def host_ends(self) -> tuple[int, ...]:
        """When the host has done with each of the problem's `steps`."""
        pairs = zip(self.host_starts, self.problem.step_cycles, strict=True)
        return tuple(start + cycles for start, cycles in pairs)

    def there(self, given: Given) -> int:
        """Return when a map that is given is there."""
        if given.step is not None:
            return self.host_ends[given.step]
        return 0 if given.stage is None else self.ends[given.stage]

    @property
    def interval(self) -> int:
        """Cycles between two frames (equations 5 and 13)."""
        if self.fixed is not None:
            return self.fixed
        if not self.problem.parallel:
            return self.latency
        return self.problem.interval_at(max(*self.loads, *self.transfer_cycles))

    # Buffers -----------------------------------------------------------------------------------------

    def lifetimes(self, number: int) -> tuple[Numbers, Numbers]:
        """Return when each output pixel of a stage takes space and when it is no longer needed.

        A pixel takes space from the beginning of the beat that computes it until the end of the last beat
        that reads it. Layer by layer, a feature map is kept as a whole until its last reader is done.

        Returns
        -------
        begin, end : int, shape (rows, columns)
            For the first frame; the outputs of the network, which leave the array, end as they are computed.
        """
        stage = self.problem.stages[number]
        own = self.scan.beats(stage, self.plan.splits[number].rows)
        begin = self.starts[number] + own * self.paces[number]
        end = begin + self.paces[number]
        for reader in self.problem.consumers[number]:
            if not self.problem.parallel:
                end = np.maximum(end, self.ends[reader])
                continue
            consumer = self.problem.stages[reader]
            beats = self.scan.beats(consumer, self.plan.splits[reader].rows)
            last = last_uses(self.scan.windows[reader], beats)
            used = self.starts[reader] + (last + 1) * self.paces[reader]
            end = np.maximum(end, np.where(last >= 0, used, 0))
        return begin, end

    def occupations(self, number: int) -> tuple[Numbers, Numbers]:
        """Return when pixels take space: as `lifetimes`, but of a spilled map and of the input twice or once.

        A pixel of a spilled map takes space in the beat that computes it, and again from the first beat that
        needs it until the end of the last one; one of the network's input, whose number is -1, only then.

        Returns
        -------
        begin, end : int, shape (pixels,)
        """
        if name_of(self.problem, number) not in (INPUT, *self.plan.spilled):
            begin, end = self.lifetimes(number)
            return begin.ravel(), end.ravel()
        parts = []
        if number >= 0:
            own = self.scan.beats(self.problem.stages[number], self.plan.splits[number].rows)
            made = self.starts[number] + own.ravel() * self.paces[number]
            parts.append((made, made + self.paces[number]))
        needs = self.windowed(number)
        if needs is not None:
            begin, end = (times.ravel() for times in needs)
            parts.append((begin[end > 0], end[end > 0]))
        begins, ends = zip(*parts, strict=True)
        return np.concatenate(begins), np.concatenate(ends)

    def windowed(self, number: int, reader: int | None = None) -> tuple[Numbers, Numbers] | None:
        """Return from when until when readers, or one of them, need each pixel; an end of 0 if none does.

        None if there is no reader.
        """
        found: tuple[Numbers, Numbers] | None = None
        for each in readers_of(self.problem, number) if reader is None else (reader,):
            uses = uses_of(self.scan, self.problem.stages[each], self.plan.splits[each].rows)
            there, pace = uses.last >= 0, self.paces[each]
            begin = np.where(there, self.starts[each] + np.where(there, uses.first, 0) * pace, NOT_READ)
            end = np.where(there, self.starts[each] + (uses.last + 1) * pace, 0)
            found = (
                (begin, end) if found is None else (np.minimum(found[0], begin), np.maximum(found[1], end))
            )
        return found

    @cached_property
    def input_buffer(self) -> int:
        """Words of the network's input that a pipeline holds, where plans decide what stays on chip."""
        if self.problem.machine.off_chip is None or not self.problem.parallel:
            return 0
        return channels_of(self.problem, -1) * most_alive(*self.occupations(-1), self.interval)

    @cached_property
    def buffers(self) -> tuple[int, ...]:
        """Words that the output of each layer needs while frames follow each other; 0 if it leaves the array.

        The most of what is alive at a time, frames that overlap included.
        """
        found = []
        for stage in self.problem.stages:
            if not self.problem.consumers[stage.number]:
                found.append(0)
                continue
            begin, end = self.occupations(stage.number)
            found.append(stage.channels * most_alive(begin, end, self.interval))
        return tuple(found)

    @property
    def weights(self) -> int:
        """Words of all weights that stay on chip."""
        return sum(stage.weights for stage in self.problem.stages if stage.name not in self.plan.streamed)

    @property
    def program_weights(self) -> int:
        """Words of weights that programs of PEs hold: where rows are divided, each group of rows has all."""
        pairs = zip(self.problem.stages, self.plan.splits, strict=True)
        copies = sum(stage.weights * (min(split.rows, stage.task.rows) - 1) for stage, split in pairs)
        return self.weights + copies

    @cached_property
    def storage(self) -> int:
        """Words of on-chip buffers.

        Layer-parallel, all weights and the buffers between layers (equation 15); input and output of the
        network are streamed. Layer by layer, the most that any layer needs at a time (equation 14).
        """
        if self.problem.parallel:
            return self.weights + sum(self.buffers) + self.input_buffer
        if self.problem.machine.off_chip is not None:
            return max(storage_in_turns(self.problem, self.plan.streamed, self.plan.spilled))
        return max(storage_by_turn(self.problem))


def _transfer_cycles(problem: Problem, plan: Plan) -> tuple[int, ...]:
    if problem.machine.off_chip is None:
        return (0,) if problem.parallel else (0,) * len(problem.stages)
    moved = transfers(problem, plan.streamed, plan.spilled)
    return tuple(transfer_cycles(problem, each) for each in moved)


def storage_by_turn(problem: Problem) -> tuple[int, ...]:
    """Return the words that are on chip while each layer has its turn, layer by layer (equation 14)."""
    stages, consumers = problem.stages, problem.consumers
    last = [max(readers, default=stage.number) for stage, readers in zip(stages, consumers, strict=True)]
    maps = [stage.channels * stage.task.rows * stage.task.columns for stage in stages]
    given = [(prod(each.shape), readers_of(problem, -1 - place)) for place, each in enumerate(problem.given)]
    return tuple(
        stage.weights
        + sum(size for other, size in enumerate(maps) if other <= stage.number <= last[other])
        + sum(words for words, readers in given if readers and readers[0] <= stage.number <= readers[-1])
        for stage in stages
    )


def most_alive(begin: Numbers, end: Numbers, interval: int) -> int:
    """Return the most intervals [begin, end) that hold a moment, each repeated every `interval`."""
    turns = int((end // interval - begin // interval).sum())
    begins, ends = np.sort(begin % interval), np.sort(end % interval)
    alive = np.searchsorted(begins, begins, side="right") - np.searchsorted(ends, begins, side="right")
    return turns + int(alive.max(initial=0))


def schedule(problem: Problem, plan: Plan, scan: Scan | None = None, *, fixed: int | None = None) -> Schedule:
    """Return the schedule of a plan whose splits break no limit.

    Parameters
    ----------
    scan
        That of the problem, if it is known already.
    fixed
        The interval of a pipeline, where it is not that of its loads and transfers.
    """
    scan = scan or Scan(problem)
    stages = problem.stages
    pairs = list(zip(stages, plan.splits, strict=True))
    beats = [split.beats(stage.task) for stage, split in pairs]
    works = [split.cycles(stage.task) for stage, split in pairs]
    loads = [n * work for n, work in zip(beats, works, strict=True)]
    paces, starts = list(works), [0] * len(stages)
    fixed_part = problem, plan, scan, tuple(beats), tuple(works)
    if not problem.parallel:
        turns = [max(pair) for pair in zip(loads, _transfer_cycles(problem, plan), strict=True)]
        starts, of_host = _in_turn(problem, turns)
        return Schedule(*fixed_part, tuple(paces), tuple(starts), None, tuple(of_host))
    interval = max(*loads, *_transfer_cycles(problem, plan)) if fixed is None else fixed
    interval = problem.interval_at(interval)
    slowest = list(loads)  # The longest load at or before each layer: what it is matched with.
    host = HostTable(problem, interval)
    for number, stage in enumerate(stages):
        host.advance(number, starts, beats, paces)
        for producer in stage.producers:
            if producer >= 0:
                slowest[number] = max(slowest[number], slowest[producer])
        load = interval if plan.pacing == "uniform" else slowest[number]
        paces[number] = load // beats[number]
        starts[number] = max((host.there(each) for each in given_of(problem, stage)), default=0)
        for producer in stage.producers:
            if producer >= 0:
                groups = (plan.splits[producer].rows, plan.splits[number].rows)
                lead = scan.lead(producer, number, groups).cycles(paces[producer], paces[number])
                starts[number] = max(starts[number], starts[producer] + lead)
    host.advance(len(stages), starts, beats, paces)
    return Schedule(*fixed_part, tuple(paces), tuple(starts), fixed, tuple(host.starts))


def given_of(problem: Problem, stage: Stage) -> list[Given]:
    """Return the maps that a layer reads from outside of the array."""
    return [problem.given[-1 - producer] for producer in dict.fromkeys(stage.producers) if producer < 0]


def _in_turn(problem: Problem, turns: list[int]) -> tuple[list[int], list[int]]:
    """Return when layers and the host begin, where all of them take turns in the order of execution."""
    starts, of_host, now = list[int](), list[int](), 0
    for number, turn in enumerate((*turns, 0)):
        for step, cycles in zip(problem.steps, problem.step_cycles, strict=True):
            if step.place == number:
                of_host.append(now)
                now += cycles
        starts.append(now)
        now += turn
    return starts[:-1], of_host


class HostTable:
    """When the host does what: every interval the same, so that frames do not meet there.

    Each operation has a part of the interval of its own, one after the other in the order of execution. It
    begins in the first one of its parts in which all is there that it reads. The parts lie so that the first
    operation does not wait.

    Attributes
    ----------
    starts
        Of the operations that have been reached.
    """

    def __init__(self, problem: Problem, interval: int) -> None:
        self.problem, self.interval, self.starts = problem, interval, list[int]()
        self._ends: dict[int, int] = {}
        self._phase: int | None = None

    def advance(self, number: int, starts: Sequence[int], beats: Sequence[int], paces: Sequence[int]) -> None:
        """Go on to what comes before a layer, of which the times of all before it are known."""
        self._times = starts, beats, paces
        steps, cycles = self.problem.steps, self.problem.step_cycles
        while len(self.starts) < len(steps) and steps[len(self.starts)].place <= number:
            place = len(self.starts)
            step = steps[place]
            ready = max([0, *map(self._end, step.stages), *(self._ends[each] for each in step.steps)])
            if cycles[place]:
                offset = sum(cycles[:place])
                self._phase = ready - offset if self._phase is None else self._phase
                ready += (self._phase + offset - ready) % self.interval
            self.starts.append(ready)
            self._ends[place] = ready + cycles[place]

    @property
    def end(self) -> int:
        """When all operations have ended that have been reached."""
        return max(self._ends.values(), default=0)

    def _end(self, stage: int) -> int:
        starts, beats, paces = self._times
        return starts[stage] + beats[stage] * paces[stage]

    def there(self, given: Given) -> int:
        """Return when a map that is given is there."""
        if given.step is not None:
            return self._ends[given.step]
        return 0 if given.stage is None else self._end(given.stage)
