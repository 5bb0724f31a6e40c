"""When each program starts, and what buffers hold, as closed forms, if a hop from PE to PE takes time.

The plan's schedule is that of hops which take none. Otherwise a layer starts later by what the way of its
operands takes, from the farthest sender up to the root of their tree and down to the farthest receiver.
Nearer senders start later, and registers delay what nearer receivers get, so that all receive the same at a
time. A PE that adds up the partial sums of others starts later than these by the longest of their ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.allocation.geometry import Numbers, last_uses
from tilewright.allocation.schedule import Schedule
from tilewright.codegen.array.parts import LayerWork, Part
from tilewright.codegen.array.streams import OperandStream, Sender, Streams, ValueStream

Lifetimes = tuple[Numbers, Numbers]
"""When pixels take space, and when they are no longer needed."""


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

    def lifetimes(self, work: LayerWork, part: Part) -> Lifetimes:
        """Return when each pixel that a PE computes takes space, and when it is no longer needed."""
        number, times = work.stage.number, self.schedule
        own = times.scan.beats(work.stage, work.split.rows)[part.rows :: work.split.rows]
        begin = self.program_start(work, part) + own * times.paces[number]
        end = begin + times.paces[number]
        for each in self.streams.operands:
            reader = each.work.stage.number
            rows = each.receivers[0].rows
            for sender in each.senders:
                if sender.part is not part:
                    continue
                beats = times.scan.beats(each.work.stage, each.work.split.rows).copy()
                beats[np.arange(len(beats)) % each.work.split.rows != rows] = -1
                last = last_uses(times.scan.windows[reader], beats)[part.rows :: work.split.rows]
                used = self.reader_start(each, sender) + (last + 1) * times.paces[reader]
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
