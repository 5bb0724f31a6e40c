"""Which output pixels of its producers each beat of a layer needs, and until when.

A layer computes its output in *beats*, each a column of as many pixels as it has row groups. The order of
the beats is fixed by the scan; pixels are numbered by the beat that computes them. Of a dilated window the
pixels that it multiplies are needed, not those between.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.allocation.problem import Problem
from tilewright.allocation.stages import Stage
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, Map, Pool

Numbers = NDArray[np.int64]


class Windows(NamedTuple):
    """How the windows of a consumer lie on the plane of its producer, axis by axis.

    Attributes
    ----------
    taps, dilation, stride, before
        Pixels of a window, from one to the next; step, and padding before the first pixel: along (rows,
        columns).
    plane, output
        Rows and columns of the producer and of the consumer.
    """

    taps: tuple[int, int]
    dilation: tuple[int, int]
    stride: tuple[int, int]
    before: tuple[int, int]
    plane: tuple[int, int]
    output: tuple[int, int]

    @classmethod
    def of(cls, spec: Layer | Pool | Add | Map) -> Windows:
        """Return the windows of a layer."""
        top, _, left, _ = spec.padding
        plane = spec.input[1:]
        return cls(spec.kernel, spec.dilation, spec.stride, (top, left), plane, spec.output_plane)

    def offsets(self, axis: int) -> range:
        """Return where the taps of a window lie, from its first one on."""
        return range(0, (self.taps[axis] - 1) * self.dilation[axis] + 1, self.dilation[axis])

    def read(self, axis: int, outputs: range) -> list[int]:
        """Return the input rows (columns) that are read for a range of outputs, ascending."""
        first = (each * self.stride[axis] - self.before[axis] for each in outputs)
        found = {begin + offset for begin in first for offset in self.offsets(axis)}
        return sorted(found.intersection(range(self.plane[axis])))

    def runs(self, axis: int, first: Numbers, last: Numbers) -> list[tuple[Numbers, Numbers, Numbers]]:
        """Return runs of input rows (columns) under half-open ranges of outputs: begin, end, if there is one.

        Parameters
        ----------
        first, last : int, shape (n,)
            The outputs.
        """
        ranges, each = np.unique(np.column_stack([first, last]), axis=0, return_inverse=True)
        found = []
        for begin, end in ranges.tolist():
            read = np.array(self.read(axis, range(begin, end)), dtype=np.int64)
            found.append(np.split(read, np.flatnonzero(np.diff(read) > 1) + 1) if len(read) else [])
        table = np.zeros((3, max(map(len, found)), len(found)), dtype=np.int64)
        for number, runs in enumerate(found):
            for place, run in enumerate(runs):
                table[:, place, number] = run[0], run[-1] + 1, 1
        begins, ends, there = table[:, :, each.ravel()]
        return list(zip(begins, ends, there > 0, strict=True))


def scan_rows(plane: tuple[int, int], row_groups: int = 1) -> Numbers:
    """Return the beat of each pixel, shape `plane`, when `row_groups` rows at a time are gone through."""
    rows, columns = plane
    return (np.arange(rows) // row_groups)[:, None] * columns + np.arange(columns)[None, :]


def latest_beats_needed(windows: Windows, beats: Numbers, own: Numbers) -> Numbers:
    """Return for each beat of a consumer the last beat of its producer that it needs.

    Parameters
    ----------
    beats : int, shape `windows.plane`
        Beat of each pixel of the producer.
    own : int, shape `windows.output`
        Beat of each pixel of the consumer.
    """
    found = beats
    for axis in (0, 1):
        found = _moving_maximum(found, windows, axis)
    needed = np.full(int(own.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(needed, own.ravel(), found.ravel())
    return needed


def _moving_maximum(values: Numbers, windows: Windows, axis: int) -> Numbers:
    offsets, stride, before = windows.offsets(axis), windows.stride[axis], windows.before[axis]
    count, size = windows.output[axis], windows.plane[axis]
    values = np.moveaxis(values, axis, 0)
    padded = np.full(((count - 1) * stride + offsets[-1] + 1, values.shape[1]), -1, dtype=np.int64)
    length = min(size, len(padded) - before)
    padded[before : before + length] = values[:length]
    found = padded[: (count - 1) * stride + 1 : stride].copy()
    for offset in offsets[1:]:
        np.maximum(found, padded[offset : offset + (count - 1) * stride + 1 : stride], out=found)
    return np.moveaxis(found, 0, axis)


def last_uses(windows: Windows, own: Numbers) -> Numbers:
    """Return for each pixel of a producer the last beat of a consumer that reads it; -1 if none does.

    Parameters
    ----------
    own : int, shape `windows.output`
        Beat of each pixel of the consumer.

    Returns
    -------
    int, shape `windows.plane`
    """
    found = own
    for axis in (0, 1):
        found = _spread_maximum(found, windows, axis)
    return found


def _spread_maximum(values: Numbers, windows: Windows, axis: int) -> Numbers:
    offsets, stride, before = windows.offsets(axis), windows.stride[axis], windows.before[axis]
    count, size = windows.output[axis], windows.plane[axis]
    values = np.moveaxis(values, axis, 0)
    length = max((count - 1) * stride + offsets[-1] + 1, before + size)
    spread = np.full((length, values.shape[1]), -1, dtype=np.int64)
    for offset in offsets:
        part = spread[offset : offset + (count - 1) * stride + 1 : stride]
        np.maximum(part, values, out=part)
    return np.moveaxis(spread[before : before + size], 0, axis)


class Lead(NamedTuple):
    """How long before a consumer its producer has to start.

    With paces z of the producer and y of the consumer, in cycles per beat, no beat of the consumer is early
    if it starts ``max(ahead * z - done * y)`` cycles after its producer: beat k of the consumer, at
    ``k * y``, needs beats 0 to n of the producer, the last of which ends at ``(n + 1) * z``. Only the
    corners of the convex hull of all (k, n + 1) can give the maximum.

    Attributes
    ----------
    ahead, done : int, shape (corners,)
        ``n + 1`` and ``k``.
    """

    ahead: Numbers
    done: Numbers

    def cycles(self, producer: int, consumer: int) -> int:
        """Return the delay at such paces; what two beats of equal length overlap is never negative."""
        return int((self.ahead * producer - self.done * consumer).max())


@lru_cache(maxsize=4096)
def _lead_by_rows(windows: Windows, producer_groups: int, consumer_groups: int) -> Lead:
    beats, own = scan_rows(windows.plane, producer_groups), scan_rows(windows.output, consumer_groups)
    return _hull(latest_beats_needed(windows, beats, own))


def _hull(needed: Numbers) -> Lead:
    """Return the corners of the upper hull of (k, needed[k] + 1), k ascending, that a maximum can be at."""
    records = np.ones(len(needed), dtype=np.bool_)
    records[1:] = needed[1:] > np.maximum.accumulate(needed)[:-1]
    k = np.flatnonzero(records)
    a = needed[k] + 1
    while len(k) > 2:
        # A point that is not above the line between its neighbours is no corner.
        rise, run = np.diff(a), np.diff(k)
        keep = np.ones(len(k), dtype=np.bool_)
        keep[1:-1] = rise[:-1] * run[1:] > rise[1:] * run[:-1]
        if keep.all():
            break
        k, a = k[keep], a[keep]
    return Lead(a, k)


class Scan:
    """The order of the beats of every layer of a problem, and what follows from it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.windows = [Windows.of(stage.spec) for stage in problem.stages]
        self._fields = _field_orders(problem, self.windows) if problem.limits.scan == "fields" else None
        self._leads: dict[tuple[int, int], Lead] = {}

    def beats(self, stage: Stage, row_groups: int = 1) -> Numbers:
        """Return the beat of each output pixel of a stage, shape (rows, columns)."""
        if self._fields is not None:
            return self._fields[stage.number]
        return scan_rows((stage.task.rows, stage.task.columns), row_groups)

    def lead(self, producer: int, consumer: int, groups: tuple[int, int] = (1, 1)) -> Lead:
        """Return the lead of an edge, with the row groups of both stages."""
        windows = self.windows[consumer]
        if self._fields is None:
            return _lead_by_rows(windows, *groups)
        key = (producer, consumer)
        if key not in self._leads:
            self._leads[key] = _hull(
                latest_beats_needed(windows, self._fields[producer], self._fields[consumer])
            )
        return self._leads[key]


def _field_orders(problem: Problem, windows: list[Windows]) -> list[Numbers]:
    """Order every layer's pixels by when its consumers first need them (TCPA paper, section 5.3).

    The last layers go row by row. With several consumers a pixel counts by the one that needs it soonest,
    as a split of that consumer's frame; what nobody reads comes last.
    """
    found: list[Numbers] = [np.zeros((0, 0), dtype=np.int64)] * len(problem.stages)
    for stage in reversed(problem.stages):
        plane = (stage.task.rows, stage.task.columns)
        readers = problem.consumers[stage.number]
        if not readers:
            found[stage.number] = scan_rows(plane)
            continue
        need = np.full(plane, np.inf)
        for reader in readers:
            own = found[reader]
            # First uses are last uses of the frame gone through backwards.
            last = last_uses(windows[reader], own.size - 1 - own)
            need = np.minimum(need, np.where(last >= 0, (own.size - 1 - last) / own.size, np.inf))
        order = np.empty(need.size, dtype=np.int64)
        order[np.argsort(need.ravel(), kind="stable")] = np.arange(need.size)
        found[stage.number] = order.reshape(plane)
    return found
