"""The program as columns of numbers, and its tensors as cells that no region cuts.

Actions become *events*: an event has a kind, a tensor and a region. A compute action becomes one READ event
for each operand and then its COMPUTE; everything else is one event. Two numbers are kept of each: its form
(what it does) and its region, both of which programs repeat.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.program import Box, Cells, Counts, LazySteps, Program, Region, Step, WriteBack
from tilewright.simulator.report import Violation
from tilewright.spec.arrays import distinct
from tilewright.spec.errors import OutOfTimeError

Numbers = NDArray[np.integer[Any]]
Marks = NDArray[np.bool_]

# Kinds of events, the first four in the order of a step's stages. They are plain integers, since NumPy
# compares whole columns of small integers with them, and would widen those for members of an enumeration.
FREE = 0  # space is given up
WRITE = 1  # a transfer to DRAM, which gives up its space as well
LOAD = 2  # a transfer from DRAM
COMPUTE = 3  # MACs that are added to a region
READ = 4  # an operand of a compute
PRELOAD = 5  # what is on chip before the first step

_REMEMBERED = 1 << 17
"""Regions whose numbers are remembered at a time; forgetting one costs a few bytes when it comes again."""


_STEPS_BETWEEN_LOOKS = 1024
"""Steps between two looks at the clock."""


class _Broken(Exception):
    """Carries a violation out of the depths of a step."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


@dataclass(frozen=True)
class _Form:
    """An event without its region; tensors and engines by number, -1 for none."""

    kind: int
    tensor: int
    engine: int = -1
    macs: int = 0
    bursts: int = 0
    streamed: int = 0
    cycles: int = 0
    target: int = -1
    sums: int = 0


Key = tuple[Any, ...]
"""What an event does: the fields of a `_Form`, with names for tensors and engines."""


@dataclass(frozen=True)
class StepTable:
    """All steps of a program as columns; every region is a box.

    Attributes
    ----------
    labels
        Of each step.
    start
        Of each step in a static schedule; None without one.
    forms
        What events do: kind, tensor, engine, MACs per element, bursts, streamed, cycles and, of a READ, the
        tensor that it is read for, and of a WRITE whether it is of sums that are not complete, as far as the
        kind needs them.
    step, form
        Of each event, in the order of the program: its step, from 1, and its number in `forms`.
    low, high : int, shape (events, axes)
        Range of each event's region on each axis.
    whole
        Axes that the regions of each tensor leave out; without it, those that no region cuts.
    elements
        Of each event's region, if that stands for a larger one.
    times
        How often each event happens to the same elements, if that is not once.
    """

    labels: list[str]
    start: Counts | None
    forms: list[Key]
    step: Numbers
    form: Numbers
    low: Numbers
    high: Numbers
    whole: Mapping[str, tuple[int, ...]] | None = None
    elements: Counts | None = None
    times: Counts | None = None


class TabledSteps(LazySteps):
    """Steps that are also available as a table, which is quicker to read than steps one by one.

    Parameters
    ----------
    table
        Makes the table, or returns None if that would be too large.
    """

    def __init__(
        self, length: int, make: Callable[[], Iterator[Step]], table: Callable[[], StepTable | None]
    ) -> None:
        super().__init__(length, make)
        self.table = table


class Columns:
    """A program, read once.

    Attributes
    ----------
    labels
        Of the steps.
    form, region
        Numbers of each event's form and region.
    step
        Number of each event's step, from 1; 0 for what is preloaded.
    start
        Of each step, and 0 for what is preloaded; None without a static schedule.
    kind, tensor, engine, macs, bursts, streamed, cycles, target, sums
        Of each form: `macs` per element; `target` is the tensor that a READ is read for; `sums` whether a
        WRITE is of sums that are not complete.
    of, low, high, scattered
        Of each region: its tensor, its range on each axis, and its place in `positions` if it consists of
        cells, else -1.
    whole
        For each tensor the axes that no region cuts.
    elements
        Of each region.
    times
        How often each event happens to the same elements; None if all happen once.
    broken
        What comes after the last event and cannot be executed, if anything: what is no tensor or leaves it.
    """

    def __init__(self, program: Program, deadline: float = float("inf")) -> None:
        self.program, self._deadline = program, deadline
        self.labels: list[str] = []
        self.broken: Violation | None = None
        self.positions: list[NDArray[np.intp]] = []
        self.whole = [list(range(len(tensor.shape))) for tensor in program.tensors]
        self._tensors = {tensor.name: number for number, tensor in enumerate(program.tensors)}
        self._engines = {engine.name: number for number, engine in enumerate(program.engines)}
        self._known: dict[str, dict[Any, int]] = {name: {} for name in self._tensors}
        self._remembered = self._places = 0
        self._forms: dict[tuple[Any, ...], int] = {}
        self._rows: list[_Form] = []
        self._rank = max((len(tensor.shape) for tensor in program.tensors), default=0)
        self._bounds = array("i")
        form, region, ends, starts = array("i"), array("i"), array("q"), array("q")
        table = program.steps.table() if isinstance(program.steps, TabledSteps) else None
        try:
            for name, where in program.preloaded:
                region.append(self._place(name, where))
                form.append(self._new_form((PRELOAD, name)))
            ends.append(len(form))
            # What is wrong with a table shows when its steps are read one by one.
            if table is not None and not self._sound(table):
                table = None
            if table is None:
                self._read(form, region, ends, starts)
        except _Broken as broken:
            self.broken = broken.violation
            ends.append(len(form))
        self.start = np.array([0, *starts], dtype=np.int64) if starts else None
        self.form, self.region = np.asarray(form, dtype=np.int32), np.asarray(region, dtype=np.int32)
        ended = np.array([0, *ends], dtype=np.int64)
        self.step = np.repeat(np.arange(len(ends), dtype=np.int32), ended[1:] - ended[:-1])
        bounds = np.asarray(self._bounds).reshape(-1, 2 + 2 * self._rank)
        if table is not None:
            bounds = np.concatenate([bounds, self._take(table)])
        names = ("kind", "tensor", "engine", "macs", "bursts", "streamed", "cycles", "target", "sums")
        (
            self.kind,
            self.tensor,
            self.engine,
            self.macs,
            self.bursts,
            self.streamed,
            self.cycles,
            self.target,
            self.sums,
        ) = (np.array([getattr(row, name) for row in self._rows], dtype=np.int64) for name in names)
        self.of, self.scattered = bounds[:, 0], bounds[:, 1]
        self.low, self.high = bounds[:, 2 : 2 + self._rank], bounds[:, 2 + self._rank :]
        self.elements = (self.high - self.low).prod(axis=1, dtype=np.int64)
        self.times: Counts | None = None
        if table is not None and table.elements is not None and table.times is not None:
            self.elements[len(self.elements) - len(table.form) :] = table.elements
            preloaded = np.ones(len(self.form) - len(table.form), dtype=np.int64)
            self.times = np.concatenate([preloaded, table.times])
        sizes = np.array([len(positions) for positions in self.positions], dtype=np.int64)
        some = self.scattered >= 0
        self.elements[some] *= sizes[self.scattered[some]]
        del self._known, self._forms, self._rows, self._bounds

    def _read(self, form: array[int], region: array[int], ends: array[int], starts: array[int]) -> None:
        """Append the form and the region of each event, after each step how many there are, and its start."""
        forms, place, new = self._forms, self._place, self._new_form
        for step in self.program.steps:
            self.labels.append(step.label)
            if len(self.labels) % _STEPS_BETWEEN_LOOKS == 0 and monotonic() > self._deadline:
                raise OutOfTimeError
            self._begin(step.start, starts)
            for free in step.free:
                number = place(free.tensor, free.region)
                key: tuple[Any, ...] = (FREE, free.tensor)
                known = forms.get(key)
                form.append(new(key) if known is None else known)
                region.append(number)
            for stage, transfers in ((WRITE, step.write_back), (LOAD, step.load)):
                for move in transfers:
                    number = place(move.tensor, move.region)
                    key = (stage, move.tensor, move.engine, 0, move.bursts, 0, move.cycles)
                    if isinstance(move, WriteBack) and move.sums:
                        key = (*key, -1, 1)
                    known = forms.get(key)
                    form.append(new(key) if known is None else known)
                    region.append(number)
            for compute in step.compute:
                target, engine = compute.tensor, compute.engine
                own = place(target, compute.region)
                for name, where in compute.operands:
                    number = place(name, where)
                    key = (READ, name, engine, 0, 0, 0, 0, target)
                    known = forms.get(key)
                    form.append(new(key) if known is None else known)
                    region.append(number)
                macs = compute.macs_per_element
                key = (COMPUTE, target, engine, macs, 0, compute.streamed, compute.cycles)
                known = forms.get(key)
                form.append(new(key) if known is None else known)
                region.append(own)
            ends.append(len(form))

    def _sound(self, table: StepTable) -> bool:
        """Whether steps are in order and all regions lie in their tensors, which have as many axes as any."""
        tensors = self.program.tensors
        if any(len(tensor.shape) != self._rank for tensor in tensors):
            return False
        if table.start is not None and (np.diff(table.start) < 0).any():
            return False
        shapes = np.array([tensor.shape for tensor in tensors])
        of = np.array([self._tensors[key[1]] for key in table.forms])[table.form]
        inside = (table.low >= 0) & (table.low <= table.high) & (table.high <= shapes[of])
        return bool(inside.all())

    def _take(self, table: StepTable) -> Numbers:
        """Append the steps of a table; return tensor, no positions and bounds of the region of each event."""
        numbers = np.array([self._new_form(key) for key in table.forms], dtype=np.int32)
        of = np.array([self._tensors[key[1]] for key in table.forms], dtype=np.int32)[table.form]
        regions = np.arange(len(self.region), len(self.region) + len(of), dtype=np.int32)
        self.labels = table.labels
        self.start = None if table.start is None else np.concatenate([[0], table.start])
        self.form = np.concatenate([self.form, numbers[table.form]])
        self.region = np.concatenate([self.region, regions])
        self.step = np.concatenate([self.step, table.step.astype(np.int32)])
        for number, tensor in enumerate(self.program.tensors):
            if table.whole is not None:
                self.whole[number] = list(table.whole[tensor.name])
                continue
            mine = of == number
            cut = ((table.low[mine] != 0) | (table.high[mine] != tensor.shape)).any(axis=0)
            self.whole[number] = [axis for axis in self.whole[number] if not cut[axis]]
        nowhere = np.full(len(of), -1, dtype=np.int32)
        return np.column_stack([of, nowhere, table.low, table.high]).astype(np.int32)

    def _begin(self, start: int | None, starts: array[int]) -> None:
        """Append the start of the next step, unless it is out of order."""
        step, least = len(self.labels), starts[-1] if starts else 0
        if step > 1 and (start is None) == bool(starts):
            needed = "a start of all steps or of none"
        elif start is not None and start < least:
            needed = f"a start at cycle {least} or later"
        else:
            if start is not None:
                starts.append(start)
            return
        found = "none" if start is None else f"cycle {start}"
        raise _Broken(Violation("order", step, "schedule", needed, found))

    def _new_form(self, key: tuple[Any, ...]) -> int:
        kind, tensor, *rest = key
        if rest:
            rest[0] = self._engines[rest[0]]
        if kind == READ:
            rest[-1] = self._tensors[rest[-1]]
        self._forms[key] = len(self._rows)
        self._rows.append(_Form(kind, self._tensors[tensor], *rest))
        return self._forms[key]

    def _place(self, name: str, region: Region) -> int:
        """Return the number of a region, which must exist."""
        known = self._known.get(name)
        if known is None:
            raise _Broken(
                Violation("unknown tensor", len(self.labels), name, "a declared tensor", "none of that name")
            )
        if isinstance(region, Cells):
            return self._new_place(name, region)
        found = known.get(region.ranges)
        if found is None:
            if self._remembered >= _REMEMBERED:
                self._remembered = 0
                for numbers in self._known.values():
                    numbers.clear()
            self._remembered += 1
            found = known[region.ranges] = self._new_place(name, region)
        return found

    def _new_place(self, name: str, region: Region) -> int:
        """Give a region a number."""
        tensor = self._tensors[name]
        shape = self.program.tensors[tensor].shape
        bounds = region.bounds(shape)
        if bounds is None:
            needed, what = f"a region of {list(shape)}", f"{region}"[:80]
            raise _Broken(Violation("no such region", len(self.labels), name, needed, what))
        scattered, whole = -1, self.whole[tensor]
        if isinstance(region, Box):
            self.whole[tensor] = [axis for axis in whole if region.ranges[axis] is None]
        else:
            self.whole[tensor] = [axis for axis in whole if axis < len(shape) - 2]
            scattered = len(self.positions)
            self.positions.append(region.positions)
        low, high = bounds
        spare = self._rank - len(shape)
        self._bounds.fromlist([tensor, scattered, *low, *[0] * spare, *high, *[1] * spare])
        self._places += 1
        return self._places - 1


class Grid:
    """The cells of all tensors: the largest parts that no region cuts, in one numbering.

    An axis is cut where a region begins or ends, and not at all if every region takes it whole.

    Attributes
    ----------
    cells
        How many there are.
    elements
        Of each cell.
    count
        Cells of each region.
    tensor
        The first cell of each tensor, and the number of cells at the end.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        rank = columns.low.shape[1]
        tensors = columns.program.tensors
        self.cuts: list[list[Counts]] = []
        self.tensor = np.zeros(len(tensors) + 1, dtype=np.int64)
        self._stride = np.zeros((len(tensors), rank), dtype=np.int64)
        self._first = np.zeros(len(columns.of), dtype=np.int64)
        self._sizes = np.ones((len(columns.of), rank), dtype=np.int32)
        sizes = []
        order = np.argsort(columns.of, kind="stable")
        limits = np.searchsorted(columns.of[order], np.arange(len(tensors) + 1))
        for number, tensor in enumerate(tensors):
            mine = order[limits[number] : limits[number + 1]]
            scattered = columns.scattered[mine] >= 0
            cuts = []
            for axis, length in enumerate(tensor.shape):
                low, high = columns.low[mine, axis], columns.high[mine, axis]
                if axis in columns.whole[number]:
                    found = np.array([0, length])
                elif axis >= len(tensor.shape) - 2 and scattered.any():
                    found = np.arange(length + 1)
                else:
                    found = distinct(np.concatenate([low, high, [0, length]]))
                cuts.append(found)
            stride = 1
            for axis in reversed(range(len(tensor.shape))):
                low = np.searchsorted(cuts[axis], columns.low[mine, axis])
                high = np.searchsorted(cuts[axis], columns.high[mine, axis])
                self._stride[number, axis] = stride
                self._first[mine] += low * stride
                # Cells have no range in the plane.
                self._sizes[mine, axis] = np.where(scattered & (axis >= len(tensor.shape) - 2), 1, high - low)
                stride *= len(cuts[axis]) - 1
            self._first[mine] += self.tensor[number]
            self.tensor[number + 1] = self.tensor[number] + stride
            self.cuts.append(cuts)
            weights = np.ones(1, dtype=np.int64)
            for found in cuts:
                weights = (weights[:, None] * np.diff(found)).ravel()
            sizes.append(weights)
        self.cells = int(self.tensor[-1])
        self.elements = np.concatenate(sizes) if sizes else np.zeros(0, dtype=np.int64)
        self.count = self._sizes.prod(axis=1, dtype=np.int64)
        some = columns.scattered >= 0
        lengths = np.array([len(positions) for positions in columns.positions], dtype=np.int64)
        self.count[some] *= lengths[columns.scattered[some]]

    def rows(self, regions: Numbers) -> tuple[Counts, Counts]:
        """Return the cells of regions, and for each cell the position of its region in `regions`."""
        of = np.arange(len(regions))
        cell = self._first[regions]
        sizes, stride = self._sizes[regions], self._stride[self.columns.of[regions]]
        for axis in range(sizes.shape[1]):
            if (sizes[:, axis] != 1).any():
                parent, offset = _expand(sizes[of, axis])
                of = of[parent]
                cell = cell[parent] + offset * stride[of, axis]
        scattered = self.columns.scattered[regions]
        if (scattered >= 0).any():
            parts = [self.columns.positions[place] for place in scattered[scattered >= 0]]
            lengths = np.array([len(part) for part in parts], dtype=np.int64)
            pool = np.concatenate([np.zeros(1, dtype=np.int64), *parts])  # The first is for boxes.
            size, begin = np.ones(len(regions), dtype=np.int64), np.zeros(len(regions), dtype=np.int64)
            size[scattered >= 0] = lengths
            begin[scattered >= 0] = 1 + np.cumsum(lengths) - lengths
            parent, offset = _expand(size[of])
            of = of[parent]
            cell = cell[parent] + pool[begin[of] + offset]
        return cell, of

    def name(self, cell: int) -> str:
        """Name a cell by the coordinates of its first element, on the axes that regions cut."""
        number = int(np.searchsorted(self.tensor, cell, side="right")) - 1
        tensor = self.columns.program.tensors[number]
        cuts = self.cuts[number]
        places = np.unravel_index(cell - self.tensor[number], [len(found) - 1 for found in cuts])
        shown = [
            int(found[place])
            for axis, (found, place) in enumerate(zip(cuts, places, strict=True))
            if axis not in self.columns.whole[number]
        ]
        return f"{tensor.name}{shown}" if shown else tensor.name


def _expand(size: Numbers) -> tuple[Counts, Counts]:
    """Return, for each of ``sum(size)`` children, its parent and its number among that parent's."""
    parent = np.repeat(np.arange(len(size)), size)
    first = np.cumsum(size, dtype=np.int64) - size
    return parent, np.arange(len(parent)) - first[parent]
