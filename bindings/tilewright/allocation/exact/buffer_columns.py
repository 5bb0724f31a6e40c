"""What outputs take in buffers, computed beforehand for all paces of a few layers and all intervals.

The pixels of an output that are alive follow from the interval, the paces of its layer and of all that read
it, and how much later than the layer these start. *Groups* of layers are chosen so that nothing else matters:

- what one layer gives and what one layer gets belongs to one group of edges;
- a group has one *entry*, before which none of its layers has a producer: it is joined with what is before
  its other entries until that is so. The network's input is the entry of all.

So a layer of a group starts after the entry by what follows from the paces in the group, and the readers of
an output are in the group of its layer. In a chain each pair of neighbours is a group, in a residual network
the layers from one sum to the next.

A *column* is a pace for each layer of a group, with the words of its outputs and the delays of its starts.
Where all that is alive of a frame fits into the interval, the interval makes no difference; columns stand for
runs of intervals with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tilewright.allocation.bounds import least_buffers
from tilewright.allocation.geometry import Numbers, Scan, last_uses
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import most_alive

ENTRY = -1
"""The network's input, from which on layers start."""


class Group(NamedTuple):
    """Layers whose paces decide what outputs take.

    Attributes
    ----------
    entry
        The layer before all others, or `ENTRY`.
    layers
        All with a pace, in the order of execution.
    edges
        Pairs of producer and consumer.
    """

    entry: int
    layers: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def owners(self) -> tuple[int, ...]:
        """Layers whose outputs are read in the group."""
        return tuple(sorted({producer for producer, _ in self.edges} - {ENTRY}))

    def producers(self, layer: int) -> list[int]:
        """Return what a layer reads, as far as it has a pace."""
        return [producer for producer, consumer in self.edges if consumer == layer and producer != ENTRY]


class Pace(NamedTuple):
    """Cycles of a beat, and the least and most load that a layer waits for with it."""

    cycles: int
    least: int
    most: int


class Column(NamedTuple):
    """Paces of the layers of a group.

    Attributes
    ----------
    group
        By number.
    paces
        By number of each layer's.
    first, last
        Intervals that it stands for, by number.
    words
        Of the group's `owners`.
    delays
        Of all its layers, after the entry.
    """

    group: int
    paces: tuple[int, ...]
    first: int
    last: int
    words: tuple[int, ...]
    delays: tuple[int, ...]


def groups_of(problem: Problem) -> tuple[Group, ...]:
    """Return the groups of a network; their edges are those of the network and of its input."""
    sources = [(ENTRY, stage.number) for stage in problem.stages if ENTRY in stage.producers]
    group_of = {edge: {edge} for edge in dict.fromkeys((*sources, *problem.edges))}

    def join(one: tuple[int, int], other: tuple[int, int]) -> None:
        joined = group_of[one] | group_of[other]
        group_of.update(dict.fromkeys(joined, joined))

    for one in group_of:
        for other in group_of:
            if one[1] == other[1] or one[0] == other[0] != ENTRY:
                join(one, other)
    for edge in sorted(group_of, reverse=True):
        while len(entries := _entries(group_of[edge])) > 1:
            join(edge, next(before for before in group_of if before[1] == entries[-1]))
    found = {id(edges): edges for edges in group_of.values()}
    return tuple(
        Group(
            _entries(edges)[0],
            tuple(sorted({layer for edge in edges for layer in edge} - {ENTRY})),
            tuple(sorted(edges)),
        )
        for edges in found.values()
    )


def _entries(edges: set[tuple[int, int]]) -> list[int]:
    """Return the producers of a group that none of it is before, ascending."""
    return sorted({producer for producer, _ in edges} - {consumer for _, consumer in edges})


def choices_of(
    group: Group, paces: Sequence[Sequence[Pace]], longest: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the paces that layers of a group can have together, and the least interval with them.

    Parameters
    ----------
    paces
        Of each layer of the network, ascending.
    longest
        The longest interval.
    """
    chosen: list[int] = []
    levels: dict[int, int] = {}

    def extend(place: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if place == len(group.layers):
            yield tuple(chosen), max(levels.values())
            return
        layer = group.layers[place]
        before = max((levels[producer] for producer in group.producers(layer)), default=0)
        for number, pace in enumerate(paces[layer]):
            levels[layer] = max(before, pace.least)
            if pace.most >= before and levels[layer] <= longest:
                chosen.append(number)
                yield from extend(place + 1)
                chosen.pop()
        levels.pop(layer, None)

    return extend(0)


class BufferColumns:
    """All columns that can be part of a plan whose buffers are large enough.

    Parameters
    ----------
    paces
        Of each layer, ascending.
    intervals
        Ascending; some of the first are left out where no plan is as fast.
    most
        Words of all outputs together, at most.
    """

    def __init__(
        self, problem: Problem, paces: Sequence[Sequence[Pace]], intervals: Sequence[int], most: int
    ) -> None:
        self.problem, self.scan, self.paces = problem, Scan(problem), paces
        self.intervals, self.groups = intervals, groups_of(problem)
        least = least_buffers(problem)
        spare = most - sum(least)
        self._most = [spare + sum(least[owner] for owner in group.owners) for group in self.groups]
        self._beats = [self.scan.beats(stage).ravel() for stage in problem.stages]
        self._last = {
            (producer, consumer): last_uses(self.scan.windows[consumer], self.scan.beats(stages[consumer]))
            for stages in [problem.stages]
            for producer, consumer in problem.edges
        }
        self.columns = [column for number in range(len(self.groups)) for column in self._of_group(number)]

    def _of_group(self, number: int) -> Iterator[Column]:
        group = self.groups[number]
        if not self.intervals:
            return
        for chosen, least in choices_of(group, self.paces, self.intervals[-1]):
            cycles = {
                layer: self.paces[layer][k].cycles for layer, k in zip(group.layers, chosen, strict=True)
            }
            starts = self._starts(group, cycles)
            lives = [self._lives(owner, group, cycles, starts) for owner in group.owners]
            span = max((int(end.max() - begin.min()) for begin, end in lives), default=0)
            delays = tuple(starts[layer] for layer in group.layers)
            words: list[tuple[int, ...] | None] = []
            for interval in self.intervals:
                if interval < least:
                    words.append(None)
                elif words and words[-1] is not None and self.intervals[len(words) - 1] >= span:
                    words.append(words[-1])
                else:
                    words.append(self._words(group.owners, lives, interval))
            for same, places in groupby(range(len(words)), key=words.__getitem__):
                run = list(places)
                if same is not None and sum(same) <= self._most[number]:
                    yield Column(number, chosen, run[0], run[-1], same, delays)

    def _starts(self, group: Group, cycles: dict[int, int]) -> dict[int, int]:
        """Return when the layers of a group start, after its entry (10)."""
        starts = {group.entry: 0}
        for producer, consumer in sorted(group.edges, key=lambda edge: edge[1]):
            delay = starts[producer]
            if producer != ENTRY:
                delay += self.scan.lead(producer, consumer).cycles(cycles[producer], cycles[consumer])
            starts[consumer] = max(starts.get(consumer, 0), delay)
        return starts

    def _lives(
        self, owner: int, group: Group, cycles: dict[int, int], starts: dict[int, int]
    ) -> tuple[Numbers, Numbers]:
        """Return from when until when each pixel of a layer's output takes space."""
        begin = starts[owner] + self._beats[owner] * cycles[owner]
        end = begin + cycles[owner]
        for producer, consumer in group.edges:
            if producer == owner:
                last = self._last[producer, consumer].ravel()
                used = starts[consumer] + (last + 1) * cycles[consumer]
                end = np.maximum(end, np.where(last >= 0, used, 0))
        return begin, end

    def _words(
        self, owners: tuple[int, ...], lives: list[tuple[Numbers, Numbers]], interval: int
    ) -> tuple[int, ...]:
        """Return the words of outputs at an interval."""
        stages = self.problem.stages
        return tuple(
            stages[owner].channels * most_alive(begin, end, interval)
            for owner, (begin, end) in zip(owners, lives, strict=True)
        )
