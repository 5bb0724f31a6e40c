"""Tiles that are alike: a loop nest with few of them, each of which stands for many.

A *run* of a loop is a stretch of iterations that do the same: every event occurs in all or in none of them,
and from one to the next it either stays where it is or moves on by a *shift*, one for each axis of a tensor.
Of a long run a few iterations are kept, as if the layer were smaller. One of them, the *representative*,
counts for those left out, and what lies behind them moves closer. ``docs/tiling.md`` says why this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple, NoReturn

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, READ, WRITE, Marks, TabledSteps
from tilewright.simulator.nest import EVERYWHERE, MOST_TABLED, Along, LoopNest, NestedSteps, NestEvent
from tilewright.simulator.program import Counts, Program, Tensor
from tilewright.simulator.report import Violation
from tilewright.spec.arrays import distinct

LEAST_KEPT = 4
"""Iterations that are kept of a run at least: two before the representative, itself, one after it."""

SUMMED = ("reload limit", "computed twice", "lockstep hazard")
"""Rules of which counting tells only whether they are broken: sums are known at the end, not in between."""

AxisOf = tuple[str, int]
"""A tensor and one of its axes."""


@dataclass(frozen=True)
class Counted:
    """A program of few tiles that stands for one of many.

    Attributes
    ----------
    program
        Its tensors are smaller, its steps those of the tiles that are kept.
    trips
        Iterations of each loop of the whole program.
    kept, weights
        By loop: the iterations that are kept, and for how many each of them counts.
    """

    program: Program
    trips: tuple[int, ...]
    kept: tuple[Counts, ...]
    weights: tuple[Counts, ...]

    @property
    def _few(self) -> tuple[int, ...]:
        return tuple(map(len, self.kept))

    def times(self, steps: int) -> Counts:
        """For how many steps each of the first ones counts, the last of them for itself."""
        if not steps:
            return np.zeros(0, dtype=np.int64)
        tiles = prod(self._few)
        last = np.unravel_index(min(steps, tiles) - 1, self._few)
        whole = before = np.ones(1, dtype=np.int64)
        for weights, place in zip(reversed(self.weights), reversed(last), strict=True):
            before = np.append(np.multiply.outer(weights[:place], whole), before)
            whole = np.multiply.outer(weights, whole).ravel()
        return np.append(whole, 1) if steps > tiles else before

    def told(self, violation: Violation) -> Violation:
        """Return a violation as the whole program has it, with the tensor instead of the place in it."""
        step, tiles = violation.step, prod(self._few)
        if step > tiles:
            step = prod(self.trips) + 1
        elif step:
            places = np.unravel_index(step - 1, self._few)
            at = [kept[place] for kept, place in zip(self.kept, places, strict=True)]
            step = int(np.ravel_multi_index(at, self.trips)) + 1
        names = (t.name for t in self.program.tensors if violation.tensor.startswith(f"{t.name}["))
        return replace(violation, step=step, tensor=next(names, violation.tensor))

    def steady(self, footprints: Iterator[Counts], complete: int) -> bool:
        """Whether as much is on chip after each representative as before, so after all that it stands for.

        Parameters
        ----------
        footprints
            What each tensor occupies at the end of each step.
        complete
            Steps that were executed to their end; others do not matter.
        """
        tiles = prod(self._few)
        done = (np.arange(tiles) < complete).reshape(self._few)
        for counts in footprints:
            held = counts[:tiles].reshape(self._few)
            for loop, weights in enumerate(self.weights):
                ends = (slice(None),) * (loop + 1) + (-1,) * (len(self.weights) - loop - 1)
                there = np.flatnonzero(weights > 1)
                grown = held[ends][..., there] != held[ends][..., there - 1]
                if (grown & done[ends][..., there]).any():
                    return False
        return True


def reduce_program(program: Program) -> Counted | None:
    """Return a program of fewer tiles that shows what a program does, None if there is none.

    Each of its steps is one of the program's, and those that it stands for do the same to other elements, if
    it is `Counted.steady`. The one breaks a rule if and only if the other does.
    """
    steps = program.steps
    if not isinstance(steps, NestedSteps) or not _countable(program, steps.nest):
        return None
    work = _Contraction(steps.nest, program.tensors)
    for loop in range(len(work.trips)):
        while work.contract(loop):
            pass
    nest = work.nest()
    if 2 * nest.tiles > steps.nest.tiles or nest.size > MOST_TABLED:
        return None
    tensors = tuple(replace(tensor, shape=tuple(work.shapes[tensor.name])) for tensor in program.tensors)
    few = replace(program, tensors=tensors, steps=TabledSteps(nest.tiles + 1, _unreadable, nest.table))
    return Counted(few, steps.nest.trips, tuple(work.kept), tuple(work.weights))


def _unreadable() -> NoReturn:
    raise RuntimeError("a program that is counted has no steps but those of its table")


def _countable(program: Program, nest: LoopNest) -> bool:
    """Whether all events are such that what they find can be told from one iteration to the next."""
    tensors = {tensor.name: tensor for tensor in program.tensors}
    if program.preloaded or len({len(tensor.shape) for tensor in program.tensors}) > 1:
        return False
    if any(tensor.recomputed for tensor in program.tensors):
        return False
    own = [number for number, event in enumerate(nest.events) if not event.after]
    moving: set[tuple[str, int, int]] = set()
    for number, event in enumerate(nest.events):
        kind, name = event.form[:2]
        tensor = tensors.get(name)
        if tensor is None or (kind == READ and tensor.macs_per_element):
            return False  # Of a partial sum it is not known how far it is in between.
        if event.after and (kind not in (FREE, WRITE) or (own and own[0] < number)):
            return False
        if not _inside(event, tensor):
            return False
        moving |= {(name, axis, r.loop) for axis, r in enumerate(event.ranges) if r.loop != EVERYWHERE}
    # No two loops move on one axis, and no loop moves on two axes of a tensor.
    axes, loops = ({(entry[0], entry[place]) for entry in moving} for place in (1, 2))
    return len(axes) == len(loops) == len(moving)


def _inside(event: NestEvent, tensor: Tensor) -> bool:
    """Whether the regions of an event lie in its tensor, whenever it occurs."""
    if len(event.ranges) != len(tensor.shape):
        return False
    for along, size in zip(event.ranges, tensor.shape, strict=True):
        inside = (along.low >= 0) & (along.low <= along.high) & (along.high <= size)
        if not inside[event.when.get(along.loop, slice(None))].all():
            return False
    return True


class _Run(NamedTuple):
    """A stretch of iterations that do the same, from the first to the last, and the shifts of what moves."""

    first: int
    last: int
    shifts: Mapping[AxisOf, int]

    def moves(self, along: Along, loop: int) -> bool:
        """Whether a range moves on from one of its iterations to the next."""
        return along.loop == loop and along.low[self.first + 1] != along.low[self.first]


class _Gap(NamedTuple):
    """What is left out.

    Attributes
    ----------
    after
        The representative, the iteration before the first that is left out.
    many
        How many are left out.
    place
        By axis that moves: what lies at or before this coordinate and does not move stays.
    """

    after: int
    many: int
    place: Mapping[AxisOf, int]


class _Contraction:
    """A nest from whose loops iterations are taken out, one run after the other."""

    def __init__(self, nest: LoopNest, tensors: tuple[Tensor, ...]) -> None:
        self._nest = nest
        self.events = list(nest.events)
        self.trips = list(nest.trips)
        self.kept = [np.arange(trips) for trips in nest.trips]
        self.weights = [np.ones(trips, dtype=np.int64) for trips in nest.trips]
        self.shapes = {tensor.name: list(tensor.shape) for tensor in tensors}

    def nest(self) -> LoopNest:
        """Return what is left."""
        names = {
            loop: [names[number] for number in self.kept[loop].tolist()]
            for loop, names in self._nest.names.items()
        }
        return replace(self._nest, trips=tuple(self.trips), events=tuple(self.events), names=names)

    def contract(self, loop: int) -> bool:
        """Take iterations out of the longest run of a loop from which some can be taken."""
        if self.trips[loop] <= LEAST_KEPT:
            return False
        for run in self._runs(loop):
            gap = self._gap(loop, run)
            if gap is not None and self._take_out(loop, run, gap):
                return True
        return False

    def _when(self, event: NestEvent, loop: int) -> Marks:
        return event.when.get(loop, np.ones(self.trips[loop], dtype=np.bool_))

    def _runs(self, loop: int) -> list[_Run]:
        """Return the runs of a loop that may be long enough, the longest first."""
        alike = np.ones(self.trips[loop] - 1, dtype=np.bool_)  # Each iteration and the next one,
        again = np.ones(self.trips[loop] - 2, dtype=np.bool_)  # and from these to the one after them.
        shifts: dict[AxisOf, Counts] = {}
        for event in self.events:
            when = self._when(event, loop)
            alike &= when[1:] == when[:-1]
            for axis, along in enumerate(event.ranges):
                if along.loop != loop:
                    continue
                shift = np.where(when[1:], np.diff(along.low), 0)
                same = (np.diff(along.high) == shift) & (np.diff(along.lengths) == 0) & (shift >= 0)
                known = shifts.setdefault((event.form[1], axis), np.zeros_like(shift))
                alike &= ~when[1:] | (same & ((known == 0) | (shift == 0) | (known == shift)))
                known[:] = np.maximum(known, shift)
                again &= shift[1:] == shift[:-1]
        again &= alike[1:] & alike[:-1]
        first = np.flatnonzero(np.append(True, ~again))
        last = np.append(first[1:], len(alike))
        long = np.flatnonzero(alike[first] & (last - first >= LEAST_KEPT))
        runs = []
        for number in long[np.argsort(first[long] - last[long], kind="stable")].tolist():
            begin = int(first[number])
            moved = {axis: int(shift[begin]) for axis, shift in shifts.items() if shift[begin]}
            runs.append(_Run(begin, int(last[number]), moved))
        return runs

    def _gap(self, loop: int, run: _Run) -> _Gap | None:
        """Find iterations of a run that can be left out, clear of all that does not move with it.

        One element sees at most `reach` iterations that move. Kept are, of those that meet no bound of what
        stays, the representative, `reach` of them after it, and one more than that before it.
        """
        first, last, reach, begins = run.first, run.last, 1, {}
        for axis, shift in run.shifts.items():
            low, high, fixed = self._lie(loop, run, axis)
            centre = (run.last - run.first) // 2 * shift
            below, above = fixed[fixed <= low + centre], fixed[fixed >= high + centre]
            if len(below) + len(above) < len(fixed):
                return None
            end = high + (run.last - run.first) * shift
            first = max(first, run.first - (low - int(below.max(initial=low))) // shift)
            last = min(last, run.first + (int(above.min(initial=end)) - high) // shift)
            reach = max(reach, -(-(high - low) // shift))
            begins[axis] = low
        many = last - first + 1 - (2 * reach + 2)
        if many < 1:
            return None
        place = {axis: low + (first - run.first) * run.shifts[axis] for axis, low in begins.items()}
        return _Gap(first + reach + 1, many, place)

    def _lie(self, loop: int, run: _Run, axis: AxisOf) -> tuple[int, int, Counts]:
        """Return from where to where a run's first iteration moves on an axis, and all bounds that stay."""
        low, high = [], []
        fixed: list[Counts] = []
        for event in self.events:
            if event.form[1] != axis[0]:
                continue
            along = event.ranges[axis[1]]
            when = np.ones(len(along.low), dtype=np.bool_)
            if along.loop == loop:
                when = self._when(event, loop).copy()
                if when[run.first] and run.moves(along, loop):
                    low.append(int(along.low[run.first]))
                    high.append(int(along.high[run.first]))
                    when[run.first : run.last + 1] = False
            fixed += [along.low[when], along.high[when]]
        return min(low), max(high), distinct(np.concatenate(fixed))

    def _take_out(self, loop: int, run: _Run, gap: _Gap) -> bool:
        """Leave iterations out, unless that would make a region smaller that is computed at once."""
        kept = np.delete(np.arange(self.trips[loop]), slice(gap.after + 1, gap.after + 1 + gap.many))
        events = []
        for event in self.events:
            ranges = tuple(
                _chosen(self._closer(event, axis, loop, run, gap), loop, kept)
                for axis in range(len(event.ranges))
            )
            when, times = dict(event.when), dict(event.times)
            if loop in when:
                when[loop] = when[loop][kept]
            often = times.get(loop, np.ones(self.trips[loop], dtype=np.int64))
            moving = any(run.moves(along, loop) for along in event.ranges)
            times[loop] = often[kept] if moving else _gathered(often, kept, gap)
            events.append(replace(event, ranges=ranges, when=when, times=times))
        if any(event.form[0] == COMPUTE and _shrunk(event) for event in events):
            return False
        self.events = events
        self.trips[loop] -= gap.many
        self.weights[loop] = _gathered(self.weights[loop], kept, gap)
        self.kept[loop] = self.kept[loop][kept]
        for (name, axis), shift in run.shifts.items():
            self.shapes[name][axis] -= gap.many * shift
        return True

    def _closer(self, event: NestEvent, axis: int, loop: int, run: _Run, gap: _Gap) -> Along:
        """Return a range of an event, moved closer where it lies behind what is left out."""
        key, along = (event.form[1], axis), event.ranges[axis]
        if key not in run.shifts:
            return along
        removed = gap.many * run.shifts[key]
        low, high = (
            np.where(bound <= gap.place[key], bound, bound - removed) for bound in (along.low, along.high)
        )
        if run.moves(along, loop):
            mine = slice(run.first, run.last + 1)
            behind = np.where(np.arange(run.first, run.last + 1) > gap.after, removed, 0)
            low[mine], high[mine] = along.low[mine] - behind, along.high[mine] - behind
        return replace(along, low=low, high=high, length=along.lengths)


def _shrunk(event: NestEvent) -> bool:
    """Whether a region of an event has fewer elements than the one that it stands for."""
    return any(
        (along.high - along.low != along.lengths)[event.when.get(along.loop, slice(None))].any()
        for along in event.ranges
    )


def _chosen(along: Along, loop: int, kept: Counts) -> Along:
    """Return a range in some iterations of a loop only."""
    if along.loop != loop:
        return along
    return Along(loop, along.low[kept], along.high[kept], along.lengths[kept])


def _gathered(numbers: Counts, kept: Counts, gap: _Gap) -> Counts:
    """Return the numbers of what is kept, with those left out added to the representative's."""
    found = numbers[kept]
    found[gap.after] += numbers[gap.after + 1 : gap.after + 1 + gap.many].sum()
    return found
