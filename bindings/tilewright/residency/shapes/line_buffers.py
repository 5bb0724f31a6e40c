"""Compiled: how far passes of one row, two rows, and so on get in a tensor, all counted at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.residency.graph import Reading

Ints = NDArray[np.int64]


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
def begin(place: int, plane: int, stride: int, before: int) -> int:
    """Return the first row or column that is read for one of the output: see `Reading.begin`."""
    return min(max(place * stride - before, 0), plane - 1)


@jit.lean
def last(place: int, plane: int, stride: int, before: int, extent: int) -> int:
    """Return the last row or column that is read for one of the output: see `Reading.last`."""
    return min(max(place * stride - before + extent - 1, 0), plane - 1)


@jit.lean
def is_before(place: int, stride: int, before: int, extent: int) -> bool:
    """Whether all that a row or column of the output reads lies before the tensor, a part of an operand."""
    return place * stride - before + extent <= 0


@jit.lean
def is_behind(place: int, plane: int, stride: int, before: int) -> bool:
    """Whether all that a row or column of the output reads lies behind the tensor, a part of an operand."""
    return place * stride - before >= plane


@jit.lean
def end(pixel: int, of: Ints) -> int:
    """Return the end of what output pixels before one read: see `Reading.end`."""
    if pixel <= 0:
        return 0
    if of[8] == 0:
        return int(of[0] * of[1])
    row, column = (pixel - 1) // of[3], (pixel - 1) % of[3]
    own = 0
    if not is_before(row, of[4], of[6], of[8]) and not is_before(column, of[5], of[7], of[9]):
        own = last(row, of[0], of[4], of[6], of[8]) * of[1] + last(column, of[1], of[5], of[7], of[9]) + 1
    if row > 0 and not is_before(row - 1, of[4], of[6], of[8]):
        final = last(of[3] - 1, of[1], of[5], of[7], of[9])
        own = max(own, last(row - 1, of[0], of[4], of[6], of[8]) * of[1] + final + 1)
    return int(own)


@jit.lean
def first(pixel: int, of: Ints) -> int:
    """Return the first pixel that output pixels from one on read: see `Reading.first`."""
    row, column = pixel // of[3], pixel % of[3]
    if row >= of[2]:
        return int(of[0] * of[1])
    if of[8] == 0:
        return 0
    own = of[0] * of[1]
    if not is_behind(row, of[0], of[4], of[6]) and not is_behind(column, of[1], of[5], of[7]):
        own = begin(row, of[0], of[4], of[6]) * of[1] + begin(column, of[1], of[5], of[7])
    if row + 1 < of[2] and not is_behind(row + 1, of[0], of[4], of[6]):
        own = min(own, begin(row + 1, of[0], of[4], of[6]) * of[1])
    return int(own)


@jit.kernel(nogil=True)
def count_passes(begins: Ints, readings: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return how far passes get in a tensor.

    Parameters
    ----------
    begins
        Where the ends of passes of one row, two rows, and so on begin, or of one strip, two strips; one
        behind the other.
    readings
        How it is read, shape (1, readings, 10), or each time, (times, readings, 10): see `numbers`.
    ends
        For each reading the end of the pixels of the reader's output that are there after each pass, from
        none on; shape (readings, passes).

    Returns
    -------
    Ends of passes in the tensor; pixels of its line buffer; passes in which anything is computed.
    """
    found = np.zeros(ends.shape[1], np.int64)
    lines = np.zeros(len(begins) - 1, np.int64)
    active = np.zeros(len(begins) - 1, np.int64)
    for time in range(len(lines)):
        own = readings[time % len(readings)]
        for reading in range(len(own)):
            of = own[reading]
            for place in range(begins[time], begins[time + 1]):
                found[place] = max(found[place], end(ends[reading, place], of))
            final = begins[time + 1] - 1
            found[final] = max(found[final], of[0] * of[1])
        for place in range(begins[time], begins[time + 1] - 1):
            start = found[place]
            for reading in range(len(own)):
                start = min(start, first(ends[reading, place], own[reading]))
            lines[time] = max(lines[time], found[place + 1] - start)
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
        How it is read, shape (readings, 10): see `numbers`.
    spans
        For each reading, begin and end of the columns that each strip computes of the reader's output, shape
        (readings, 2, strips).
    width
        Columns of the tensor.
    """
    begins = np.full(spans.shape[2], width, np.int64)
    ends = np.zeros(spans.shape[2], np.int64)
    for reading in range(len(readings) - 1, -1, -1):
        of = readings[reading]
        for strip in range(len(begins)):
            if of[8] == 0:
                begins[strip], ends[strip] = 0, width
                continue
            start = begin(spans[reading, 0, strip], of[1], of[5], of[7])
            final = last(spans[reading, 1, strip] - 1, of[1], of[5], of[7], of[9])
            begins[strip], ends[strip] = min(begins[strip], start), max(ends[strip], final + 1)
        # What strides and borders leave out belongs to a strip, too.
        for cut in range(len(strips) - 1):
            begins[strips[cut]], ends[strips[cut + 1] - 1] = 0, width
            for strip in range(strips[cut] + 1, strips[cut + 1]):
                begins[strip] = min(begins[strip], ends[strip - 1])
    return begins, ends
