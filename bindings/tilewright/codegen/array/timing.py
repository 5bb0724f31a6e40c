"""When each program starts, and what buffers hold, as closed forms, if a hop from PE to PE takes time.

The plan's schedule is that of hops which take none. Otherwise a layer starts later by what the way of its
operands takes, from the farthest sender up to the root of their tree and down to the farthest receiver.
Nearer senders start later, and registers delay what nearer receivers get, so that all receive the same at a
time. A PE that adds up the partial sums of others starts later than these by the longest of their ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tilewright.allocation.geometry import Numbers, last_uses
from tilewright.allocation.schedule import Schedule
from tilewright.codegen.array.parts import LayerWork, Part
from tilewright.codegen.array.streams import OperandStream, Sender, Streams, ValueStream

Lifetimes = tuple[Numbers, Numbers]
"""When pixels take space, and when they are no longer needed."""


class Use(NamedTuple):
    """When a layer reads what a PE holds: in its first rows, from a cycle on."""

    layer: int
    rows: int
    start: int


@dataclass(frozen=True)
class Timing:
    """Times of all programs, in cycles, and words in buffers.

    Attributes
    ----------
    hop_cycles
        Of a hop.
    """

    schedule: Schedule
    streams: Streams
    hop_cycles: int = 0

    # Starts ---------------------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """When the first PE of each layer starts, from the first address generator on."""
        times, parallel = self.schedule, self.schedule.problem.parallel
        found: list[int] = []
        for work in self.streams.works:
            number = work.stage.number
            start = (
                found[-1] + self.added(number - 1) + self._busy(number - 1) if number and not parallel else 0
            )
            turn = start
            for each in self._of(number):
                for sender in each.senders:
                    earliest, producer = turn, sender.operand.producer
                    if parallel and producer >= 0:
                        groups = times.plan.splits[producer].rows, work.split.rows
                        lead = times.scan.lead(producer, number, groups)
                        earliest = found[producer] + self.added(producer)
                        earliest += lead.cycles(times.paces[producer], times.paces[number])
                    way = self.hop_cycles * each.depth(sender)
                    start = max(start, earliest + way - self._later(each.receivers[0], number))
            found.append(start)
        return tuple(found)

    def _of(self, number: int) -> list[OperandStream]:
        return [each for each in self.streams.operands if each.work.stage.number == number]

    def _busy(self, number: int) -> int:
        return self.schedule.beats[number] * self.schedule.paces[number]

    def added(self, number: int) -> int:
        """Return how much later than its first PEs those of a layer start that add up sums of others."""
        ways = [each.hops for each in self.streams.sums if each.work.stage.number == number]
        return self.hop_cycles * max(ways, default=0)

    def _later(self, part: Part, number: int) -> int:
        return self.added(number) if part.holds else 0

    def program_start(self, work: LayerWork, part: Part) -> int:
        """Return when the program of a PE starts."""
        return self.starts[work.stage.number] + self._later(part, work.stage.number)

    def reader_start(self, each: OperandStream, sender: Sender) -> int:
        """Return when an address generator starts, so that what it sends arrives in time."""
        return self.program_start(each.work, each.receivers[0]) - self.hop_cycles * each.depth(sender)

    def writer_start(self, each: ValueStream) -> int:
        """Return when the address generator of an output starts, at the border."""
        return self.program_start(each.work, each.part) + self.hop_cycles * each.hops

    @cached_property
    def latency(self) -> int:
        """Cycles until the last output of a frame has left the array, and all PEs have done."""
        ends = [
            self.program_start(work, part) + self._busy(work.stage.number)
            for work in self.streams.works
            for part in self.streams.parts[work.stage.number]
        ]
        ends += [
            self.writer_start(each) + self._busy(each.work.stage.number) for each in self.streams.outputs
        ]
        return max(ends)

    @property
    def interval(self) -> int:
        """Cycles between two frames."""
        return self.schedule.interval if self.schedule.problem.parallel else self.latency

    # Buffers --------------------------------------------------------------------------------------------

    @cached_property
    def _uses(self) -> dict[tuple[int, Part], frozenset[Use]]:
        """When which layers read what each PE of a layer holds; layers that take turns have the same PEs."""
        found: dict[tuple[int, Part], set[Use]] = {}
        for each in self.streams.operands:
            for sender in each.senders:
                if sender.part is not None:
                    use = Use(each.work.stage.number, each.receivers[0].rows, self.reader_start(each, sender))
                    found.setdefault((sender.operand.producer, sender.part), set()).add(use)
        return {key: frozenset(uses) for key, uses in found.items()}

    @cached_property
    def _lifetimes(self) -> dict[tuple[int, int, int, frozenset[Use]], Lifetimes]:
        """Those that are known: many PEs of a layer have the same."""
        return {}

    def lifetimes(self, work: LayerWork, part: Part) -> Lifetimes:
        """Return when each pixel that a PE computes takes space, and when it is no longer needed."""
        number, start = work.stage.number, self.program_start(work, part)
        key = number, part.rows, start, self._uses.get((number, part), frozenset())
        if key not in self._lifetimes:
            self._lifetimes[key] = self._lifetime(work, part.rows, start, key[-1])
        return self._lifetimes[key]

    def _lifetime(self, work: LayerWork, first: int, start: int, uses: frozenset[Use]) -> Lifetimes:
        times, own_rows = self.schedule, slice(first, None, work.split.rows)
        pace = times.paces[work.stage.number]
        begin = start + times.scan.beats(work.stage, work.split.rows)[own_rows] * pace
        end = begin + pace
        for use in uses:
            reader = self.streams.works[use.layer]
            beats = times.scan.beats(reader.stage, reader.split.rows).copy()
            beats[np.arange(len(beats)) % reader.split.rows != use.rows] = -1
            last = last_uses(times.scan.windows[use.layer], beats)[own_rows]
            used = use.start + (last + 1) * times.paces[use.layer]
            end = np.maximum(end, np.where(last >= 0, used, 0))
        return begin.ravel(), end.ravel()

    @cached_property
    def buffers(self) -> tuple[int, ...]:
        """Words of the buffers of each layer: the plan's, where hops take no time."""
        if not self.hop_cycles:
            return self.schedule.buffers
        return tuple(self.held(work) for work in self.streams.works)

    def lines(self, work: LayerWork, part: Part) -> int:
        """Return how many pixels a PE holds at a time, at most."""
        if not (part.holds and self.schedule.problem.consumers[work.stage.number]):
            return 0
        return self._most_held([self.lifetimes(work, part)], [1])

    def held(self, work: LayerWork) -> int:
        """Return how many words the buffers of a layer hold at a time, at most, those of all PEs together."""
        if not self.schedule.problem.consumers[work.stage.number]:
            return 0
        parts = [part for part in self.streams.parts[work.stage.number] if part.holds]
        return self._most_held(
            [self.lifetimes(work, part) for part in parts], [part.channels[2] for part in parts]
        )

    def _most_held(self, lifetimes: list[Lifetimes], words: list[int]) -> int:
        """Return the most words at a time, where each pixel of a list takes some."""
        begin, end = (np.concatenate([each[side] for each in lifetimes]) for side in (0, 1))
        weights = np.repeat(words, [len(each[0]) for each in lifetimes])
        turns = int((weights * (end // self.interval - begin // self.interval)).sum())
        moments = np.unique(begin % self.interval)
        counts = []
        for times in (begin % self.interval, end % self.interval):
            order = np.argsort(times)
            sums = np.concatenate([[0], np.cumsum(weights[order])])
            counts.append(sums[np.searchsorted(times[order], moments, side="right")])
        return turns + int((counts[0] - counts[1]).max())
