"""Steps of recurrent layers as a program, point in time by point in time: see `lowering`.

Of one direction after the other, each point in time reads its part of the input and the state before, gives
what the gates give, then the cells of an LSTM and the state, and then its part of the output. The weights are
looked at before the first and after the last point in time: nothing but the layer writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.residency.graph import Operation
from tilewright.simulator.addressed_machine import Apply, Check, Instruction, Numbers, Place
from tilewright.simulator.arithmetic.pixel_arithmetic import Work, whole_output
from tilewright.simulator.program import Values
from tilewright.spec.network import Function


class RecurrentPlaces(NamedTuple):
    """Where a recurrent layer has what it reads and gives: pixels and channels, weights, and its state."""

    read: Place
    weights: Place
    state: Place
    given: Place


def recurrent_instructions(
    operation: Operation, places: RecurrentPlaces, *, numeric: bool
) -> Iterator[Instruction]:
    """Return how a recurrent layer is computed.

    Parameters
    ----------
    numeric
        Whether values are computed; they are those of `whole_output`, as of other functions.
    """
    spec = operation.op.spec
    assert isinstance(spec, Function) and spec.recurrence is not None
    told, computed = spec.recurrence, _Computed(operation, numeric)
    hidden, cells = told.hidden, int(spec.op == "lstm")
    state, gates = slice(hidden), slice((1 + cells) * hidden, None)
    kept = slice((1 + cells) * hidden)  # the state, and cells
    read = _by_time(spec.input, told.steps, last=told.reads_time_last)
    every = prod(spec.output) > told.directions * hidden or told.steps == 1
    given = _by_direction(spec.output, told.steps if every else 1, told.directions, last=told.gives_time_last)
    yield Apply((places.read, places.weights), (), computed.take, Work())
    for direction in range(told.directions):
        times = range(told.steps)[:: -1 if direction else 1]
        for time in times:
            before = () if time == times[0] else (_part(places.state, kept),)
            at = _values(places.read, read[time])
            yield Apply((at, *before[:1]), (_part(places.state, gates),), computed.nothing(1), Work())
            needed = (_part(places.state, gates), *before)
            yield Apply(needed, (_part(places.state, kept),), computed.nothing(1), Work())
            if every or time == times[-1]:
                numbers = given[direction, time if every else 0]
                result = _values(places.given, numbers)
                yield Apply((_part(places.state, state),), (result,), computed.give(numbers), Work())
    yield Check(Place(*places.weights))
    yield Apply((), (), computed.nothing(0), operation.work.times(prod(spec.output)))


class _Computed:
    """What a recurrent layer gives, computed once of all that it reads."""

    def __init__(self, operation: Operation, numeric: bool) -> None:
        self.operation, self.numeric = operation, numeric
        self.output: Values = np.zeros(0, dtype=np.int64)

    def take(self, read: Values, weights: Values) -> Sequence[Values]:
        """Compute all of it."""
        if self.numeric:
            spec = self.operation.op.spec
            assert isinstance(spec, Function)
            self.output = whole_output(self.operation.op, [read.T.reshape(spec.input)], weights).reshape(-1)
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


def _part(place: Place, part: slice) -> Place:
    return Place(place.cells[part], place.elements[part])
