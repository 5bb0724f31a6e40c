"""A program as a loop nest: what a tile does, as numbers by iteration of each loop instead of steps.

An action of such a program occurs in a product of iterations, some of each loop, and each axis of its region
depends on one loop. So the nest is as large as the sum of its loops, however many tiles their product has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.simulator.columns import FREE, LOAD, READ, WRITE, Key, Marks, Numbers, StepTable, TabledSteps
from tilewright.simulator.program import Box, Compute, Counts, Free, Load, Operation, Region, Step, WriteBack
from tilewright.spec.arrays import distinct

MOST_TABLED = 3_000_000
"""Most events that are tabled at once: about half a second and 300 MB."""

MOST_MADE = 50_000
"""Most events that are held at a time while steps are made one by one."""

EVERYWHERE = -1
"""Stands for a loop where a range is the same in all tiles."""


@dataclass(frozen=True)
class Along:
    """The range of a region on one axis, for each iteration of a loop.

    Attributes
    ----------
    loop
        The loop's number, from the outermost; `EVERYWHERE` if the range depends on none.
    low, high : int, shape (iterations,)
        Half-open.
    length
        Elements of the range, if that is not ``high - low``.
    """

    loop: int
    low: Counts
    high: Counts
    length: Counts | None = None

    @classmethod
    def spans(cls, loop: int, spans: Sequence[tuple[int, int]]) -> Along:
        """Make one of the ranges of all iterations."""
        low, high = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        return cls(loop, low, high)

    @classmethod
    def fixed(cls, low: int, high: int) -> Along:
        """Make one that is the same in all tiles."""
        return cls(EVERYWHERE, np.array([low]), np.array([high]))

    @property
    def lengths(self) -> Counts:
        """Elements of the range."""
        return self.high - self.low if self.length is None else self.length

    def inside(self, iteration: int) -> Along:
        """Return what is left of it in one iteration of the outermost loop."""
        if self.loop == EVERYWHERE:
            return self
        if self.loop:
            return Along(self.loop - 1, self.low, self.high)
        return Along.fixed(int(self.low[iteration]), int(self.high[iteration]))


@dataclass(frozen=True)
class NestEvent:
    """An event that many tiles have, such as the load of an operand or one operand of a compute.

    Attributes
    ----------
    form
        What it does; see `StepTable.forms`.
    ranges
        Of its region, one per axis.
    when
        By loop: the iterations in which it occurs. Of other loops it occurs in all.
    after
        Whether it happens in the step after the tile's.
    times
        By loop: how often each iteration does it to the same elements, where that is not once.
    """

    form: Key
    ranges: tuple[Along, ...]
    when: Mapping[int, Marks] = field(default_factory=dict)
    after: bool = False
    times: Mapping[int, Counts] = field(default_factory=dict)

    def inside(self, iteration: int) -> NestEvent:
        """Return what is left of it in one iteration of the outermost loop, in which it occurs."""
        when = {loop - 1: marks for loop, marks in self.when.items() if loop}
        return NestEvent(self.form, tuple(along.inside(iteration) for along in self.ranges), when, self.after)


Convolution = Callable[[str, Region, Mapping[str, Region]], Operation]
"""Returns the arithmetic of a compute: of its tensor, its region and its operands' regions."""


@dataclass(frozen=True)
class LoopNest:
    """The tiles of a loop nest; each is a step, and one more step follows the last.

    Attributes
    ----------
    trips
        Iterations of each loop, the outermost first.
    events
        In the order in which those of a step take effect.
    names
        By loop of several iterations: what each is called in the step's label.
    end
        Label of the last step.
    whole
        Axes that the regions of each tensor leave out.
    """

    trips: tuple[int, ...]
    events: tuple[NestEvent, ...]
    names: Mapping[int, Sequence[str]]
    end: str
    whole: Mapping[str, tuple[int, ...]]

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return prod(self.trips)

    @property
    def size(self) -> int:
        """Number of events of all steps."""
        return sum(
            prod(
                int(event.when[loop].sum()) if loop in event.when else trips
                for loop, trips in enumerate(self.trips)
            )
            for event in self.events
        )

    def labels(self) -> Iterator[str]:
        """Return the labels of all steps."""
        names = [self.names[loop] for loop, trips in enumerate(self.trips) if trips > 1]
        yield from map(" ".join, product(*names))
        yield self.end

    def steps(self, operation: Convolution | None = None) -> Iterator[Step]:
        """Make the steps one by one, computes with their arithmetic where that is given."""
        labels, last = self.labels(), _StepBuilder(operation)
        for nest in self._parts():
            table, ended = nest.table(), 1
            forms = [_Form(*form) for form in table.forms]
            columns = table.step, table.form, table.low, table.high
            for step, form, low, high in zip(*(column.tolist() for column in columns), strict=True):
                for _ in range(step - ended):
                    yield last.step(next(labels))
                    last = _StepBuilder(operation)
                ended = step
                spans: list[tuple[int, int] | None] = list(zip(low, high, strict=True))
                for axis in self.whole[forms[form].tensor]:
                    spans[axis] = None
                last.add(forms[form], Box(tuple(spans)))
            for _ in range(nest.tiles + 1 - ended):
                yield last.step(next(labels))
                last = _StepBuilder(operation)
        yield last.step(next(labels))

    def _parts(self) -> Iterator[LoopNest]:
        """Divide the nest, along its outermost loops, into parts of not too many events."""
        if self.size <= MOST_MADE or not self.trips:
            yield self
            return
        for iteration in range(self.trips[0]):
            there = (event for event in self.events if 0 not in event.when or event.when[0][iteration])
            events = tuple(event.inside(iteration) for event in there)
            names = {loop - 1: each for loop, each in self.names.items() if loop}
            yield from LoopNest(self.trips[1:], events, names, self.end, self.whole)._parts()

    def table(self) -> StepTable:
        """Return all steps as a table."""
        parts = [self._occurrences(event) for event in self.events]
        if not parts:
            none = np.zeros((0, 0), dtype=np.int64)
            return StepTable(list(self.labels()), None, [], none[:, 0], none[:, 0], none, none, self.whole)
        step = np.concatenate([steps for steps, _, _, _ in parts])
        place = np.repeat(np.arange(len(parts)), [len(steps) for steps, _, _, _ in parts])
        order = np.argsort(step * len(parts) + place)
        low, high, sizes = (np.concatenate([part[column] for part in parts], axis=1) for column in (1, 2, 3))
        contracted = any(event.times for event in self.events)
        return StepTable(
            labels=list(self.labels()),
            start=None,
            forms=[event.form for event in self.events],
            step=step[order] + 1,
            form=place[order],
            low=low.T[order],
            high=high.T[order],
            whole=self.whole,
            elements=sizes[0][order] if contracted else None,
            times=sizes[1][order] if contracted else None,
        )

    def _occurrences(self, event: NestEvent) -> tuple[Counts, Numbers, Numbers, Numbers]:
        """Return the steps (from 0) of an event, the bounds of its regions by axis, their sizes and times."""
        chosen = [
            np.flatnonzero(event.when[loop]) if loop in event.when else np.arange(trips)
            for loop, trips in enumerate(self.trips)
        ]
        shape = tuple(map(len, chosen))

        def spread(loop: int, values: Counts) -> Counts:
            """Lay the numbers of a loop's iterations out over all tiles."""
            if loop == EVERYWHERE:
                return values.reshape([1] * len(shape))
            return values[chosen[loop]].reshape([-1 if d == loop else 1 for d in range(len(shape))])

        step = np.zeros([1] * len(shape), dtype=np.int64)
        for loop, trips in enumerate(self.trips):
            step = step * trips + spread(loop, np.arange(trips))
        bounds = np.empty((2, len(event.ranges), *shape), dtype=np.int32)
        for axis, along in enumerate(event.ranges):
            bounds[0, axis] = spread(along.loop, along.low)
            bounds[1, axis] = spread(along.loop, along.high)
        sizes = np.ones((2, *shape), dtype=np.int64)
        if any(one.times for one in self.events):
            for along in event.ranges:
                sizes[0] *= spread(along.loop, along.lengths)
            for loop, times in event.times.items():
                sizes[1] *= spread(loop, times)
        low, high = bounds.reshape(2, len(event.ranges), -1)
        return step.ravel() + event.after, low, high, sizes.reshape(2, -1)


class NestedSteps(TabledSteps):
    """Steps that are those of a loop nest.

    Parameters
    ----------
    operation
        Returns the arithmetic of a compute, for the numeric mode.
    """

    def __init__(self, nest: LoopNest, operation: Convolution | None = None) -> None:
        super().__init__(
            nest.tiles + 1,
            lambda: nest.steps(operation),
            lambda: nest.table() if nest.size <= MOST_TABLED else None,
        )
        self.nest = nest


class _Form(NamedTuple):
    """What an event does: see `StepTable.forms`."""

    kind: int
    tensor: str
    engine: str = ""
    macs: int = 0
    bursts: int = 0
    streamed: int = 0
    cycles: int = 0
    target: str = ""
    sums: int = 0


class _StepBuilder:
    """Makes a step of its events."""

    def __init__(self, operation: Convolution | None) -> None:
        self.operation = operation
        self.free: list[Free] = []
        self.write: list[WriteBack] = []
        self.load: list[Load] = []
        self.compute: list[Compute] = []
        self.operands: dict[str, dict[str, Region]] = {}

    def add(self, form: _Form, region: Region) -> None:
        """Add an event to the step."""
        tensor, engine = form.tensor, form.engine
        if form.kind == FREE:
            self.free.append(Free(tensor, region))
        elif form.kind == WRITE:
            self.write.append(WriteBack(tensor, region, engine, form.bursts, bool(form.sums), form.cycles))
        elif form.kind == LOAD:
            self.load.append(Load(tensor, region, engine, form.bursts, form.cycles))
        elif form.kind == READ:
            self.operands.setdefault(form.target, {})[tensor] = region
        else:
            operands = self.operands.pop(tensor, {})
            operation = None if self.operation is None else self.operation(tensor, region, operands)
            each, work = tuple(operands.items()), (form.streamed, form.cycles)
            self.compute.append(Compute(tensor, region, each, form.macs, operation, engine, *work))

    def step(self, label: str) -> Step:
        """Return the step of all events so far."""
        return Step(tuple(self.free), tuple(self.write), tuple(self.load), tuple(self.compute), label)


def mark_first(trips: Sequence[int], level: int, total: Sequence[int] | None = None) -> dict[int, Marks]:
    """Mark the tiles that are the first of their iteration of a loop.

    Parameters
    ----------
    level
        The loop; -1 for the very first tile.
    total
        Iterations of the whole nest, if only the first `trips` of each loop are meant.
    """
    return _marked(trips, level, total or trips, lambda iterations: 0)


def mark_last(trips: Sequence[int], level: int, total: Sequence[int] | None = None) -> dict[int, Marks]:
    """Mark the tiles that are the last of their iteration of a loop; parameters as in `mark_first`."""
    return _marked(trips, level, total or trips, lambda iterations: iterations - 1)


def _marked(
    trips: Sequence[int], level: int, total: Sequence[int], which: Callable[[int], int]
) -> dict[int, Marks]:
    marks = {}
    for loop, (own, everyone) in enumerate(zip(trips, total, strict=True)):
        if loop > level and everyone > 1:
            marks[loop] = np.arange(everyone) == which(own)
        elif own < everyone:
            marks[loop] = np.arange(everyone) < own
    return marks


def by_value(values: Sequence[Counts | None]) -> Iterator[tuple[list[int], dict[int, Marks]]]:
    """Divide the tiles of a nest into those for which numbers of their iterations are the same.

    Parameters
    ----------
    values
        For each loop a number of each iteration; None where that does not matter.

    Yields
    ------
    numbers, when
        The number of each loop, 0 where it does not matter, and the iterations that have them.
    """
    choices: list[list[tuple[int, Marks | None]]] = []
    for numbers in values:
        found = [] if numbers is None else distinct(numbers).tolist()
        if len(found) > 1:
            choices.append([(value, numbers == value) for value in found])
        else:
            choices.append([(found[0] if found else 0, None)])
    for chosen in product(*choices):
        marks = {loop: mark for loop, (_, mark) in enumerate(chosen) if mark is not None}
        yield [value for value, _ in chosen], marks


def intersect_marks(first: Mapping[int, Marks], second: Mapping[int, Marks]) -> dict[int, Marks]:
    """Return the iterations that are in both of two choices."""
    merged = dict(first)
    for loop, marks in second.items():
        merged[loop] = merged[loop] & marks if loop in merged else marks
    return merged
