"""Compiled: operations of a step that take turns, each as soon as, and not before, its pixel is asked for.

The last operation asks for what its next pixel reads. What it asks for is computed pixel by pixel, and asks
in turn for what it reads. So a line buffer holds what a single pixel of each reader needs, whatever the
strides behind it: K - 1 rows and K pixels under a window of K x K. In passes it holds what all the pixels
need that a pixel of the last output leads to.

An operation that reads several maps asks for a pixel at a time, of the map that has the fewest, and of such
maps the one that looks least far ahead. So maps that are computed from the same one grow together, and its
line buffer need not wait for the slower.

At the end, all is completed that strides and borders leave out, a pixel at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.residency.shapes.line_buffers import axis_of, end, first

Ints = NDArray[np.int64]


class Turns(NamedTuple):
    """Who reads what, of tensors that have numbers of their own: the first ones are loaded.

    Attributes
    ----------
    loaded
        How many are loaded. Each operation computes a tensor behind these, in the order of execution.
    begins
        Where the readings of each operation begin, and the end; shape (operations + 1,). It asks for what it
        reads in their order, where no map has fewer pixels than another.
    tensors, readings
        What is read, and how: see `line_buffers.encode_readings`; shapes (readings,) and (readings, 10).
    pixels
        Of each tensor.
    """

    loaded: int
    begins: Ints
    tensors: Ints
    readings: Ints
    pixels: Ints


@jit.kernel(nogil=True)
def hold(reading: Ints, pixels: int) -> int:
    """Return the pixels of a line buffer that one operation reads alone, which computes so many pixels."""
    rows, columns = axis_of(reading, 0), axis_of(reading, 1)
    most, there = 1, 0
    for pixel in range(pixels):
        read = end(pixel + 1, rows, columns)
        if read > there:
            there = read
            most = max(most, there - min(there - 1, first(pixel, rows, columns)))
    return most


@jit.kernel(nogil=True)
def take_turns(
    loaded: int, begins: Ints, tensors: Ints, readings: Ints, pixels: Ints, most: Ints
) -> tuple[Ints, Ints, int]:
    """Return whose turn it is, by tensor, for how many pixels, and what the first tensor's line buffer holds.

    Parameters
    ----------
    loaded, begins, tensors, readings, pixels
        See `Turns`.
    most
        Pixels of each tensor that are loaded or computed at a time, at most.
    """
    operations = len(begins) - 1
    total = pixels.sum()
    who, count = np.zeros(total, np.int64), np.zeros(total, np.int64)
    there = np.zeros(loaded + operations, np.int64)
    stack = np.zeros(operations + 1, np.int64)
    turns, held = 0, 1
    for asked in range(loaded + operations - 1, -1, -1):  # first the last one's, then what nobody asks for
        while there[asked] < pixels[asked]:
            depth = 0
            stack[0] = asked
            while depth >= 0:
                tensor, lacking = stack[depth], -1
                if tensor >= loaded:
                    operation = tensor - loaded
                    for each in range(begins[operation], begins[operation + 1]):
                        rows, columns = axis_of(readings[each], 0), axis_of(readings[each], 1)
                        if there[tensors[each]] < end(int(there[tensor]) + 1, rows, columns) and (
                            lacking < 0 or there[tensors[each]] < there[lacking]
                        ):
                            lacking = tensors[each]
                if lacking >= 0:
                    depth += 1
                    stack[depth] = lacking
                    continue
                there[tensor] += 1
                depth -= 1
                if tensor == 0:
                    oldest = there[0] - 1
                    for reader in range(operations):
                        for each in range(begins[reader], begins[reader + 1]):
                            if tensors[each] == 0:
                                rows, columns = axis_of(readings[each], 0), axis_of(readings[each], 1)
                                oldest = min(oldest, first(int(there[loaded + reader]), rows, columns))
                    held = max(held, there[0] - oldest)
                if turns > 0 and who[turns - 1] == tensor and count[turns - 1] < most[tensor]:
                    count[turns - 1] += 1
                else:
                    who[turns], count[turns] = tensor, 1
                    turns += 1
    return who[:turns].copy(), count[:turns].copy(), held
