"""Compiled: how far passes of one row, two rows, and so on get in a tensor, all counted at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.residency.graph import Reading

Ints = NDArray[np.int64]


class Axis(NamedTuple):
    """How rows are read, or columns: sizes of the tensor and of the output, and as in `encode_readings`."""

    plane: int
    output: int
    stride: int
    before: int
    extent: int


def encode_readings(readings: list[Reading]) -> Ints:
    """Return readings as an array: plane, output, stride, before, extent; an extent of 0 for all there is."""
    return np.array(
        [
            (*each.plane, *each.output, *each.stride, *each.before, *(each.extent or (0, 0)))
            for each in readings
        ],
        dtype=np.int64,
    )


@jit.lean
def axis_of(reading: Ints, which: int) -> Axis:
    """Return how the rows (0) or columns (1) of a reading are read: as Python's integers, which are fast."""
    return Axis(
        int(reading[which]),
        int(reading[2 + which]),
        int(reading[4 + which]),
        int(reading[6 + which]),
        int(reading[8 + which]),
    )


@jit.lean
def begin(place: int, axis: Axis) -> int:
    """Return the first row or column that is read for one of the output: see `Reading.begin`."""
    return min(max(place * axis.stride - axis.before, 0), axis.plane - 1)


@jit.lean
def last(place: int, axis: Axis) -> int:
    """Return the last row or column that is read for one of the output: see `Reading.last`."""
    return min(max(place * axis.stride - axis.before + axis.extent - 1, 0), axis.plane - 1)


@jit.lean
def is_before(place: int, axis: Axis) -> bool:
    """Whether all that a row or column of the output reads lies before the tensor, a part of an operand."""
    return place * axis.stride - axis.before + axis.extent <= 0


@jit.lean
def is_behind(place: int, axis: Axis) -> bool:
    """Whether all that a row or column of the output reads lies behind the tensor, a part of an operand."""
    return place * axis.stride - axis.before >= axis.plane


@jit.lean
def end(pixel: int, rows: Axis, columns: Axis) -> int:
    """Return the end of what output pixels before one read: see `Reading.end`."""
    if pixel <= 0:
        return 0
    width = columns.plane
    if rows.extent == 0:
        return rows.plane * width
    row, column = (pixel - 1) // columns.output, (pixel - 1) % columns.output
    own = 0
    if not is_before(row, rows) and not is_before(column, columns):
        own = last(row, rows) * width + last(column, columns) + 1
    if row > 0 and not is_before(row - 1, rows):
        own = max(own, last(row - 1, rows) * width + last(columns.output - 1, columns) + 1)
    return own


@jit.lean
def first(pixel: int, rows: Axis, columns: Axis) -> int:
    """Return the first pixel that output pixels from one on read: see `Reading.first`."""
    row, column, width = pixel // columns.output, pixel % columns.output, columns.plane
    if row >= rows.output:
        return rows.plane * width
    if rows.extent == 0:
        return 0
    own = rows.plane * width
    if not is_behind(row, rows) and not is_behind(column, columns):
        own = begin(row, rows) * width + begin(column, columns)
    if row + 1 < rows.output and not is_behind(row + 1, rows):
        own = min(own, begin(row + 1, rows) * width + begin(0, columns))
    return own


@jit.kernel(nogil=True)
def count_passes(begins: Ints, readings: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return how far passes get in a tensor.

    Parameters
    ----------
    begins
        Where the ends of passes of one row, two rows, and so on begin, or of one strip, two strips; one
        behind the other.
    readings
        How it is read, shape (1, readings, 10), or each time, (times, readings, 10): see `encode_readings`.
    ends
        For each reading the end of the pixels of the reader's output that are there after each pass, from
        none on; shape (readings, passes).

    Returns
    -------
    Ends of passes in the tensor; pixels of its line buffer; passes in which anything is computed.
    """
    found = np.zeros(ends.shape[1], np.int64)
    starts = np.zeros(ends.shape[1], np.int64)
    lines = np.zeros(len(begins) - 1, np.int64)
    active = np.zeros(len(begins) - 1, np.int64)
    for time in range(len(lines)):
        own, final = readings[time % len(readings)], begins[time + 1] - 1
        for reading in range(len(own)):
            rows, columns = axis_of(own[reading], 0), axis_of(own[reading], 1)
            for place in range(begins[time], final + 1):
                pixel = int(ends[reading, place])
                read, start = end(pixel, rows, columns), first(pixel, rows, columns)
                found[place] = read if reading == 0 else max(found[place], read)
                starts[place] = start if reading == 0 else min(starts[place], start)
            found[final] = max(found[final], rows.plane * columns.plane)
        for place in range(begins[time], final):
            held = found[place + 1] - min(found[place], starts[place])
            lines[time] = max(lines[time], held)
            active[time] += found[place + 1] != found[place]
    return found, lines, active


@jit.kernel(nogil=True)
def span_strips(strips: Ints, readings: Ints, spans: Ints, width: int) -> tuple[Ints, Ints]:
    """Return begin and end of the columns that each strip reads of a tensor, without gaps.

    Parameters
    ----------
    strips
        Where the strips of each way to cut it up begin, one behind the other.
    readings
        How it is read, shape (readings, 10): see `encode_readings`.
    spans
        For each reading, begin and end of the columns that each strip computes of the reader's output, shape
        (readings, 2, strips).
    width
        Columns of the tensor.
    """
    begins = np.full(spans.shape[2], width, np.int64)
    ends = np.zeros(spans.shape[2], np.int64)
    for reading in range(len(readings) - 1, -1, -1):
        whole, columns = readings[reading, 8] == 0, axis_of(readings[reading], 1)
        for strip in range(len(begins)):
            if whole:
                begins[strip], ends[strip] = 0, width
                continue
            start = begin(spans[reading, 0, strip], columns)
            final = last(spans[reading, 1, strip] - 1, columns)
            begins[strip], ends[strip] = min(begins[strip], start), max(ends[strip], final + 1)
        # What strides and borders leave out belongs to a strip, too.
        for cut in range(len(strips) - 1):
            begins[strips[cut]], ends[strips[cut + 1] - 1] = 0, width
            for strip in range(strips[cut] + 1, strips[cut + 1]):
                begins[strip] = min(begins[strip], ends[strip - 1])
    return begins, ends
