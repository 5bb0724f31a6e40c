"""The execution of one operation in tiles and blocks of input channels, with partial sums in the memory.

A cell that holds a partial sum holds another element than one that holds the output, so that neither is
taken for the other.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.arithmetic import Windows, added
from tilewright.residency.cost import Work, work_of_value
from tilewright.residency.decode_plan import DecodedStep
from tilewright.residency.graph import Graph, members
from tilewright.residency.plan import Step, key_of
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.shape import line_pixels, tile_size
from tilewright.simulator.addressed import AddressedMemory, Dram, Elements
from tilewright.simulator.program import Values
from tilewright.spec.errors import OutOfTimeError

Numbers = NDArray[np.int64]
Span = tuple[int, int]


class Machine(Protocol):
    """What a step is executed on.

    Attributes
    ----------
    where
        Addresses of tensors that are on chip as a whole.
    staying
        Addresses of weights that are on chip for good, by operation.
    """

    graph: Graph
    chip: AddressedMemory
    dram: Dram
    elements: Elements
    where: dict[int, int]
    staying: dict[int, int]
    numeric: bool
    deadline: float
    macs: int
    work: Work
    transfers: int


class InBlocks:
    """The execution of one step.

    Parameters
    ----------
    partial
        Number of the partial sums among the elements.
    weights
        Number of the weights among the elements.
    """

    def __init__(self, machine: Machine, step: Step, told: DecodedStep, partial: int, weights: int) -> None:
        self.machine, self.step, self.told = machine, step, told
        self.group, self.shape, self.graph = told.group, told.choice.shape, machine.graph
        self.operation = told.group.last
        self.partial, self.weights = partial, weights
        self.whole = frozenset(members(told.on_chip))
        self.depth = tiles.summed_channels(self.graph, self.operation)
        self.held = line_pixels(self.group, self.shape)
        self.windows = Windows()
        self.output = self.group.output
        self.name = self.graph.tensors[self.output].name

    def run(self) -> None:
        """Execute all blocks."""
        if self.shape.order == "tiles":
            self._tiles()
        else:
            self._channels()

    def _blocks(self, length: int, size: int | None) -> list[Span]:
        assert size is not None
        return [(begin, min(begin + size, length)) for begin in range(0, length, size)]

    def _tiles(self) -> None:
        (height, width), (rows, columns) = self.graph.tensors[self.output].shape[1:], tile_size(self.shape)
        reading = self.operation.readings[0]
        across = self._blocks(width, columns)
        spans = [
            zip(*(each.tolist() for each in tiles.parts_read(reading, axis, size)), strict=True)
            for axis, size in enumerate((rows, columns))
        ]
        seen_rows, seen_columns = map(list, spans)
        for part, (top, bottom) in enumerate(self._blocks(height, rows)):
            for place, (left, right) in enumerate(across):
                pixels = _rectangle((top, bottom), (left, right), width)
                seen = _rectangle(seen_rows[part], seen_columns[place], reading.plane[1])
                slots = np.arange(len(pixels))
                first = True
                for kernels in self._blocks(self.operation.units, self.shape.kernels):
                    for inputs in self._blocks(self.depth, self.shape.channels):
                        if first or self.shape.channels != self.depth:
                            self._load(seen, np.arange(len(seen)), inputs)
                        self._load_weights(kernels, inputs)
                        self._compute(pixels, slots, kernels, inputs, seen)
                        first = False

    def _channels(self) -> None:
        ends = self.group.ends(self.shape.pixels)
        reading = self.operation.readings[0]
        for kernels in self._blocks(self.operation.units, self.shape.kernels):
            for inputs in self._blocks(self.depth, self.shape.channels):
                self._load_weights(kernels, inputs)
                for number in range(self.group.count_passes(self.shape.pixels)):
                    new = np.arange(ends[reading.tensor][number], ends[reading.tensor][number + 1])
                    self._load(new, new % self.held[reading.tensor], inputs)
                    pixels = np.arange(ends[self.output][number], ends[self.output][number + 1])
                    self._compute(pixels, pixels, kernels, inputs, None)

    def _compute(
        self, pixels: Numbers, slots: Numbers, kernels: Span, inputs: Span, seen: Numbers | None
    ) -> None:
        """Add what some input channels give to the sums of some pixels and output channels.

        Parameters
        ----------
        slots
            Places of the pixels in the block that the output has, if it does not stay.
        seen
            Pixels of the sources in the order of their buffers; None where these are circular.
        """
        machine, operation = self.machine, self.operation
        if time.monotonic() > machine.deadline:
            raise OutOfTimeError
        offsets = self._offsets()

        def read(place: int, wanted: Numbers, first: int, last: int) -> Values:
            tensor = operation.op.producers[place] + 1
            where = wanted % self.held[tensor] if seen is None else np.searchsorted(seen, wanted)
            cells = self._cells(tensor, wanted, where, (first, last), inputs, offsets[place])
            return machine.chip.fetch(cells, self._numbers(tensor, tensor, wanted, (first, last)))

        planes = [self.graph.tensors[producer + 1].shape for producer in operation.op.producers]
        weights, biases = self._read_weights(kernels, inputs)
        values = added(operation, planes, read, weights, pixels, inputs, self.windows, machine.numeric)
        partial = self._numbers(self.partial, self.output, pixels, kernels)
        values = values + (self._fetch_sums(slots, kernels, partial) if inputs[0] else biases)
        last = inputs[1] == self.depth
        numbers = self._numbers(self.output, self.output, pixels, kernels)
        cells = self._output_cells(pixels, slots, kernels)
        if last:
            machine.chip.store(cells, numbers, values)
        else:
            for place in range(self.graph.sum_elements):
                machine.chip.store(self._block(slots, kernels) + place, partial, values)
        # A value is stored for the core once, with its last block; sums on the way are not counted.
        each = work_of_value(operation)
        values_done = len(pixels) * (kernels[1] - kernels[0])
        share = (inputs[1] - inputs[0]) * each.macs // self.depth * values_done
        ends = (each.accesses - 2 * each.macs) * values_done if last else 0
        machine.work = machine.work.plus(Work(share, 0, 2 * share + ends))
        machine.macs += (
            operation.op.macs
            * len(pixels)
            * (kernels[1] - kernels[0])
            * (inputs[1] - inputs[0])
            // (self.graph.tensors[self.output].size * self.depth)
        )
        if last and self.told.choice.written >> self.output & 1:
            machine.dram.write(numbers, machine.chip.fetch(cells, numbers))
            machine.transfers += 1

    # Where things are --------------------------------------------------------------------------------

    def _offsets(self) -> list[int]:
        """Return the first input channel of each operand."""
        found, total = [], 0
        for producer in self.operation.op.producers:
            found.append(total)
            total += self.graph.tensors[producer + 1].channels
        return found

    def _numbers(self, elements: int, tensor: int, pixels: Numbers, channels: Span) -> Numbers:
        width = self.graph.tensors[tensor].channels
        return self.machine.elements.of(elements, pixels[:, None] * width + np.arange(*channels))

    def _output_cells(self, pixels: Numbers, slots: Numbers, kernels: Span) -> Numbers:
        where = self.machine.where.get(self.output)
        if where is not None:
            width = self.graph.tensors[self.output].channels
            return where + pixels[:, None] * width + np.arange(*kernels)
        return self._block(slots, kernels)

    def _block(self, slots: Numbers, kernels: Span) -> Numbers:
        """Return the addresses of values in the block, or the first ones of partial sums."""
        width = min(self.shape.kernels, self.operation.units)
        each = 1 if self.shape.channels == self.depth else self.graph.sum_elements
        places = slots[:, None] * width + np.arange(kernels[1] - kernels[0])
        return self.step.addresses[key_of("block", self.name)] + each * places

    def _fetch_sums(self, slots: Numbers, kernels: Span, partial: Numbers) -> Values:
        """Return partial sums, of which all elements must be there."""
        cells = self._block(slots, kernels)
        found = [self.machine.chip.fetch(cells + place, partial) for place in range(self.graph.sum_elements)]
        return found[0]

    def _cells(
        self, tensor: int, pixels: Numbers, slots: Numbers, channels: Span, inputs: Span, offset: int
    ) -> Numbers:
        """Return the addresses of some pixels and channels of a source.

        Parameters
        ----------
        slots
            Places of the pixels in its buffer, if it is not on chip as a whole.
        inputs
            Input channels of the block.
        offset
            Number of the source's first channel among these.
        """
        width = self.graph.tensors[tensor].channels
        if tensor in self.machine.where:
            return self.machine.where[tensor] + pixels[:, None] * width + np.arange(*channels)
        assert self.shape.channels is not None
        first, width = max(0, inputs[0] - offset), min(width, self.shape.channels)
        base = self.step.addresses[key_of("lines", self.graph.tensors[tensor].name)]
        return base + slots[:, None] * width + np.arange(channels[0] - first, channels[1] - first)

    def _load(self, pixels: Numbers, slots: Numbers, inputs: Span) -> None:
        """Load some pixels of a block of input channels."""
        for producer, offset in zip(self.operation.op.producers, self._offsets(), strict=True):
            tensor = producer + 1
            low = max(0, inputs[0] - offset)
            high = min(self.graph.tensors[tensor].channels, inputs[1] - offset)
            if tensor in self.whole or low >= high or not pixels.size:
                continue
            numbers = self._numbers(tensor, tensor, pixels, (low, high))
            cells = self._cells(tensor, pixels, slots, (low, high), inputs, offset)
            self.machine.chip.store(cells, numbers, self.machine.dram.load(numbers))
            self.machine.transfers += 1

    def _weights(self, kernels: Span, inputs: Span) -> tuple[Numbers, Numbers]:
        """Return addresses and numbers of a block of weights; the first block has the biases before them."""
        each, bias = tiles.weights_of_a_channel(self.graph, self.operation)
        own = np.arange(bias + inputs[0] * each, bias + inputs[1] * each)
        if not inputs[0]:
            own = np.concatenate([np.arange(bias), own])
        places = np.arange(*kernels)[:, None] * (bias + self.depth * each) + own
        if self.operation.staying:
            at = self.machine.staying[self.operation.number]
            return at + places, self.machine.elements.of(self.weights, places)
        base = self.step.addresses[key_of("weights", self.operation.name)]
        return base + np.arange(places.size).reshape(places.shape), self.machine.elements.of(
            self.weights, places
        )

    def _load_weights(self, kernels: Span, inputs: Span) -> None:
        if self.operation.staying:
            return
        cells, numbers = self._weights(kernels, inputs)
        self.machine.chip.store(cells, numbers, self.machine.dram.load(numbers))
        self.machine.transfers += 1

    def _read_weights(self, kernels: Span, inputs: Span) -> tuple[Values, Values]:
        """Return the weights of a block, and the biases, which are zeros in all blocks but the first."""
        values = self.machine.chip.fetch(*self._weights(kernels, inputs))
        _, bias = tiles.weights_of_a_channel(self.graph, self.operation)
        if inputs[0] or not bias:
            return values, np.zeros(kernels[1] - kernels[0], dtype=np.int64)
        return values[:, bias:], values[:, 0]


def _rectangle(rows: Span, columns: Span, width: int) -> Numbers:
    """Return the pixels of some rows and columns of a plane, ascending."""
    return (np.arange(*rows)[:, None] * width + np.arange(*columns)).reshape(-1)
