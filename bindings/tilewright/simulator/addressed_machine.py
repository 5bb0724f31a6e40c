"""Execute programs whose values have addresses; the cells of the memory know what they hold.

A room lowers each step of a plan to such instructions. The machine counts what is moved and computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.addressed import AddressedMemory, Dram, Elements
from tilewright.simulator.arithmetic.pixel_arithmetic import PixelArithmetic, Span, Work, work_of_value
from tilewright.simulator.program import Values
from tilewright.spec.errors import OutOfTimeError

Numbers = NDArray[np.int64]


class Place(NamedTuple):
    """Elements, by their numbers, and the cells of the memory on chip that hold them, of one shape."""

    cells: Numbers
    elements: Numbers


Locate = Callable[[int, Numbers, int, int], Place]
"""Returns where some pixels and channels of an operand are, by its place, shape (pixels, channels)."""


class Load(NamedTuple):
    """One transfer from DRAM."""

    place: Place


class Save(NamedTuple):
    """One transfer to DRAM."""

    place: Place


class Check(NamedTuple):
    """Elements that must still be there."""

    place: Place


class EndOfSlot(NamedTuple):
    """All that has been moved and computed since the last one happens at the same time."""


class SomePixels(NamedTuple):
    """Pixels of the operands that are added to running values; whether these are the first or the last."""

    pixels: Numbers
    first: bool
    last: bool


class Compute(NamedTuple):
    """Some pixels and output channels of an operation.

    Attributes
    ----------
    locate
        Finds what is read.
    weights
        Where the weights are: flat for whole sums; of some input channels, or some pixels, shape (channels,
        numbers), the bias first if there is one and these are the first. None without weights.
    inputs
        Input channels whose products are added to partial sums; None for whole sums.
    sums
        Where partial sums or running values are, one place after the other if they take several cells; none
        for the first input channels or pixels.
    results
        Where the values are put: the output, or partial sums, or running values.
    added
        Pixels of the operands that are added to running values; None for whole windows.
    """

    arithmetic: PixelArithmetic
    pixels: Numbers
    channels: Span
    locate: Locate
    weights: Place | None
    results: tuple[Place, ...]
    inputs: Span | None = None
    sums: tuple[Place, ...] = ()
    added: SomePixels | None = None


class Apply(NamedTuple):
    """A function of what lies in some places, whose values are put into others.

    Attributes
    ----------
    operands, results
        The function gets values of these shapes, and returns such. Of operands that it does not take, more
        may follow: they must be there.
    function
        None where values are not computed.
    work
        What that counts as.
    """

    operands: tuple[Place, ...]
    results: tuple[Place, ...]
    function: Callable[..., Sequence[Values]] | None
    work: Work


Instruction = Load | Save | Check | EndOfSlot | Compute | Apply


@dataclass
class Tally:
    """What a step has moved and computed.

    Attributes
    ----------
    loaded, saved
        Elements of each tensor from and to DRAM.
    transfers
        Loads and saves.
    macs
        Multiplications, as operations count them.
    slots
        What happened at the same time: elements moved, and the work of the core.
    values
        Computed by instructions of each operation, by number; of running values those that have been added.
    """

    loaded: dict[str, int] = field(default_factory=dict)
    saved: dict[str, int] = field(default_factory=dict)
    transfers: int = 0
    macs: int = 0
    work: Work = field(default_factory=Work)
    slots: list[tuple[int, Work]] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)

    @property
    def moved(self) -> int:
        """Elements from and to DRAM."""
        return sum(self.loaded.values()) + sum(self.saved.values())


class AddressedMachine:
    """A memory on chip, DRAM and a core.

    Parameters
    ----------
    capacity
        Cells of the memory.
    elements
        What it can hold.
    numeric
        Whether values are computed, too.
    deadline
        ``time.monotonic()`` at which to give up with an ``OutOfTimeError``.

    Attributes
    ----------
    tally
        Of the step that was executed last, as far as it was.
    """

    def __init__(self, capacity: int, elements: Elements, *, numeric: bool, deadline: float) -> None:
        self.chip = AddressedMemory(capacity, elements, valued=numeric)
        self.dram = Dram(elements, valued=numeric)
        self.deadline = deadline
        self.tally = Tally()
        self._weights: dict[int, tuple[Place, Values]] = {}  # that have been read last, by operation

    def execute(self, instructions: Iterable[Instruction]) -> Tally:
        """Execute the instructions of a step.

        Raises
        ------
        LostError
            If something is read that is not there.
        """
        tally = self.tally = Tally()
        self.dram.loaded, self.dram.written = tally.loaded, tally.saved
        self._weights.clear()
        moved, work = 0, Work()
        for each in instructions:
            if isinstance(each, Compute):
                if time.monotonic() > self.deadline:
                    raise OutOfTimeError
                self._compute(each)
                macs, done = _work_of(each)
                tally.macs, tally.work = tally.macs + macs, tally.work.plus(done)
                work = work.plus(done)
                number = each.arithmetic.operation.number
                tally.values[number] = tally.values.get(number, 0) + _values_of(each)
            elif isinstance(each, Apply):
                if time.monotonic() > self.deadline:
                    raise OutOfTimeError
                self._apply(each)
                tally.macs, tally.work = tally.macs + each.work.macs, tally.work.plus(each.work)
                work = work.plus(each.work)
            elif isinstance(each, Load):
                self.chip.store(*each.place, self.dram.load(each.place.elements))
                tally.transfers += 1
                moved += each.place.elements.size
            elif isinstance(each, Save):
                self.dram.write(each.place.elements, self.chip.fetch(*each.place))
                tally.transfers += 1
                moved += each.place.elements.size
            elif isinstance(each, Check):
                self.chip.fetch(*each.place)
            else:
                tally.slots.append((moved, work))
                moved, work = 0, Work()
        return tally

    def _compute(self, instruction: Compute) -> None:
        """Read operands and weights, and put the values where they belong."""
        arithmetic, pixels, inputs = instruction.arithmetic, instruction.pixels, instruction.inputs

        def read(place: int, wanted: Numbers, first: int, last: int) -> Values:
            return self.chip.fetch(*instruction.locate(place, wanted, first, last))

        weights = self._read_weights(arithmetic.operation.number, instruction.weights)
        added = instruction.added
        if inputs is None and added is None:
            values = arithmetic.compute(read, weights, pixels, instruction.channels)
        else:
            first = added.first if added is not None else inputs is not None and not inputs[0]
            biases = int(first and bool(getattr(arithmetic.operation.spec, "bias", False)))
            if added is not None:
                values = arithmetic.add_pixels(
                    read, weights[..., biases:], added.pixels, instruction.channels
                )
            else:
                assert inputs is not None
                values = arithmetic.add(read, weights[:, biases:], pixels, inputs)
            if biases:
                values = values + weights[:, 0]
            sums = [self.chip.fetch(*place) for place in instruction.sums]  # all cells must be there
            if sums:
                values = arithmetic.together(values, sums[0])
        for place in instruction.results:
            self.chip.store(*place, values)

    def _apply(self, instruction: Apply) -> None:
        """Read operands, and put what a function makes of them where it belongs."""
        operands = [self.chip.fetch(*place) for place in instruction.operands]
        if instruction.function is None:
            for place in instruction.results:
                self.chip.store(*place, np.zeros(place.cells.shape, dtype=np.int64))
            return
        for place, values in zip(instruction.results, instruction.function(*operands), strict=True):
            self.chip.store(*place, values)

    def _read_weights(self, number: int, place: Place | None) -> Values:
        """Return the weights of an operation, which are looked at once as long as it has the same ones."""
        if place is None:
            return np.zeros(0, dtype=np.int64)
        known = self._weights.get(number)
        if known is None or known[0] is not place:
            known = self._weights[number] = place, self.chip.fetch(*place)
        return known[1]


def _values_of(instruction: Compute) -> int:
    """Return how many values an instruction computes, or adds to running values."""
    added = 1 if instruction.added is None else len(instruction.added.pixels)
    first, end = instruction.channels
    return len(instruction.pixels) * (end - first) * added


def _work_of(instruction: Compute) -> tuple[int, Work]:
    """Return the MACs of an instruction, and its work.

    A value is stored for the core once, with its last input channels; sums on the way are not counted.
    """
    operation, inputs, added = instruction.arithmetic.operation, instruction.inputs, instruction.added
    values = len(instruction.pixels) * (instruction.channels[1] - instruction.channels[0])
    size = max(1, int(np.prod(operation.spec.output)))
    each = work_of_value(operation)
    if added is not None:
        share, every = values * len(added.pixels), int(np.prod(instruction.arithmetic.planes[0][1:]))
        ends = (each.accesses - 2 * each.macs - each.vectors) * values * added.last
        macs, vectors = each.macs * share // every, each.vectors * share // every
        return macs, Work(macs, vectors, 2 * macs + vectors + ends)
    if inputs is None:
        return each.macs * values, each.times(values)
    depth = sum(shape[0] for shape in instruction.arithmetic.planes)
    share = (inputs[1] - inputs[0]) * each.macs // depth * values
    ends = (each.accesses - 2 * each.macs) * values if inputs[1] == depth else 0
    macs = operation.macs * values * (inputs[1] - inputs[0]) // (size * depth)
    return macs, Work(share, 0, 2 * share + ends)
