"""Steps of recurrent layers as a program, point in time by point in time: see `lowering`.

Of one direction after the other, each point in time reads its part of the input and the state before, gives
what the gates give, then the cells of an LSTM and the state, and then its part of the output. Weights are
counted direction by direction and, of each, value of the state by value. Where they are not kept, blocks of
some values are loaded for each point in time, or those of a direction before its first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.residency.graph import Operation
from tilewright.simulator.addressed_machine import Apply, Check, Instruction, Load, Numbers, Place
from tilewright.simulator.arithmetic.pixel_arithmetic import Work, whole_output
from tilewright.simulator.program import Values
from tilewright.spec.network import Function


class RecurrentPlaces(NamedTuple):
    """Where a recurrent layer has what it reads and gives.

    Attributes
    ----------
    read, given
        Pixels and channels of its input and its output.
    weights, address
        The numbers of its weights, and where the first of those lies that are on chip.
    state
        What is on chip beside.
    """

    read: Place
    weights: Numbers
    address: int
    state: Place
    given: Place


def recurrent_instructions(
    operation: Operation, places: RecurrentPlaces, block: int | None, *, numeric: bool
) -> Iterator[Instruction]:
    """Return how a recurrent layer is computed.

    Parameters
    ----------
    block
        Values of a state of which weights are loaded at a time; None where all weights are there.
    numeric
        Whether values are computed; they are those of `whole_output`, as of other functions.
    """
    layer = _Layer(operation, places, numeric)
    told, every = layer.told, layer.every
    yield Apply((places.read,), (), layer.take, Work())
    for direction in range(told.directions):
        if block is not None and block >= told.hidden:
            yield Load(layer.weights(direction, (0, told.hidden), 0))
        times = range(told.steps)[:: -1 if direction else 1]
        for time in times:
            yield from layer.gates(direction, time, time != times[0], block)
            yield Apply((layer.part(layer.gated),), (layer.part(layer.kept),), layer.nothing(1), Work())
            if every or time == times[-1]:
                numbers = layer.given[direction, time if every else 0]
                result = _values(places.given, numbers)
                yield Apply((layer.part(layer.kept),), (result,), layer.give(numbers), Work())
    if block is None:  # nothing but the layer has written meanwhile
        for direction in range(told.directions):
            yield Check(layer.weights(direction, (0, told.hidden), direction * told.hidden))
    yield Apply((), (), layer.nothing(0), operation.work.times(prod(operation.op.spec.output)))


class _Layer:
    """A recurrent layer, of which what it gives is computed once of all that it reads.

    Attributes
    ----------
    every
        Whether the states of all points in time are given.
    kept, gated
        Of its state: what is kept from one point in time to the next, and what gates give.
    read, given
        The values of each point in time, and of each direction and point in time.
    """

    def __init__(self, operation: Operation, places: RecurrentPlaces, numeric: bool) -> None:
        spec = operation.op.spec
        assert isinstance(spec, Function) and spec.recurrence is not None
        self.operation, self.spec, self.places, self.numeric = operation, spec, places, numeric
        self.told = told = spec.recurrence
        self.every = prod(spec.output) > told.directions * told.hidden or told.steps == 1
        cells = int(spec.op == "lstm")
        self.kept, self.gated = slice((1 + cells) * told.hidden), slice((1 + cells) * told.hidden, None)
        self.read = _by_time(spec.input, told.steps, last=told.reads_time_last)
        steps = told.steps if self.every else 1
        self.given = _by_direction(spec.output, steps, told.directions, last=told.gives_time_last)
        self.output: Values = np.zeros(0, dtype=np.int64)

    def gates(self, direction: int, time: int, has_state: bool, block: int | None) -> Iterator[Instruction]:
        """Return how what gates give is computed, with the weights of some values of the state at a time."""
        told, size = self.told, self.told.hidden if block is None else min(block, self.told.hidden)
        at = _values(self.places.read, self.read[time])
        before = (self.part(self.kept),) if has_state else ()
        later = told.hidden if self.spec.op == "gru" and not told.reset_after else 0
        for numbers in (None, later) if later else (None,):
            # A candidate whose reset gate multiplies the state needs all reset gates before its last row.
            for begin in range(0, told.hidden, size):
                values = begin, min(begin + size, told.hidden)
                whole = block is None or size == told.hidden
                first = values[0] + direction * told.hidden if block is None else 0
                weights = self.weights(direction, values, first, later, last=numbers is not None)
                if not whole:
                    yield Load(weights)
                gates = self.part(self.gated, values)
                done = (self.part(self.gated),) if numbers is not None else ()
                yield Apply((at, weights, *before, *done), (gates,), self.nothing(1), Work())

    def weights(
        self, direction: int, values: tuple[int, int], first: int, later: int = 0, *, last: bool = False
    ) -> Place:
        """Return where the weights of some values of a state lie; `first`: how many values lie before them.

        Parameters
        ----------
        later, last
            How many numbers of each value are read at last, and whether these or all others are meant.
        """
        each = len(self.places.weights) // (self.told.directions * self.told.hidden)
        own = np.arange(each - later, each) if last else np.arange(each - later)
        count = np.arange(values[1] - values[0])
        numbers = (direction * self.told.hidden + values[0] + count[:, None]) * each + own
        cells = self.places.address + (first + count[:, None]) * each + own
        return Place(cells.ravel(), self.places.weights[numbers.ravel()])

    def part(self, part: slice, values: tuple[int, int] | None = None) -> Place:
        """Return a part of the state, or of it what belongs to some values."""
        cells, elements = self.places.state.cells[part], self.places.state.elements[part]
        if values is not None:
            chosen = slice(*values)
            cells = cells.reshape(-1, self.told.hidden)[:, chosen].ravel()
            elements = elements.reshape(-1, self.told.hidden)[:, chosen].ravel()
        return Place(cells, elements)

    def take(self, read: Values) -> Sequence[Values]:
        """Compute all that is given."""
        if self.numeric:
            weights = np.zeros(0, dtype=np.int64)  # functions move values
            given = [read.T.reshape(self.spec.input)]
            self.output = whole_output(self.operation.op, given, weights).reshape(-1)
        return ()

    def give(self, numbers: Numbers) -> Callable[..., Sequence[Values]] | None:
        """Return what gives some values, counted channel by channel."""
        return (lambda *_: [self.output[numbers]]) if self.numeric else None

    def nothing(self, results: int) -> Callable[..., Sequence[Values]] | None:
        """Return what gives zeros, as states are not computed."""
        return (lambda *_: [np.zeros((), dtype=np.int64)] * results) if self.numeric else None


def _by_time(shape: tuple[int, ...], steps: int, *, last: bool) -> Numbers:
    """Return the values of each point in time, counted channel by channel; shape (steps, values)."""
    numbers = np.arange(prod(shape))
    return numbers.reshape(-1, steps).T if last else numbers.reshape(steps, -1)


def _by_direction(shape: tuple[int, ...], steps: int, directions: int, *, last: bool) -> Numbers:
    """Return the values of each direction and point in time; shape (directions, steps, values)."""
    numbers = np.arange(prod(shape))
    if last:
        return numbers.reshape(directions, -1, steps).transpose(0, 2, 1)
    return numbers.reshape(steps, directions, -1).transpose(1, 0, 2)


def _values(place: Place, numbers: Numbers) -> Place:
    """Return where some values are that are counted channel by channel, of pixels and channels."""
    channels, pixels = np.divmod(numbers, len(place.cells))
    return Place(place.cells[pixels, channels], place.elements[pixels, channels])
