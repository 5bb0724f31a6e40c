"""A plan as a program: what each step loads, computes and writes, and in which cells of the memory.

Tensors that are on chip as a whole lie pixel by pixel, each with its channels one after the other. A line
buffer is circular: a pixel takes the place of one that is no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.block_steps import BlockSteps
from tilewright.residency.decode_plan import DecodedStep
from tilewright.residency.graph import Graph, Operation, members
from tilewright.residency.plan import Plan, Step, key_of
from tilewright.residency.recurrent_steps import RecurrentPlaces, recurrent_instructions
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import (
    computed_whole,
    count_rounds,
    group_of_passes,
    line_pixels,
    step_buffers,
    streams,
    tile_size,
    tiles_of_product,
)
from tilewright.residency.shapes.strips import Strips, strips_of
from tilewright.residency.tile_steps import TileSteps
from tilewright.simulator.addressed import Elements
from tilewright.simulator.addressed_machine import (
    Apply,
    Check,
    Compute,
    EndOfSlot,
    Instruction,
    Load,
    Numbers,
    Place,
    Save,
    SomePixels,
)
from tilewright.simulator.arithmetic.attention import in_floats_of
from tilewright.simulator.arithmetic.pixel_arithmetic import PixelArithmetic, Span, Work
from tilewright.simulator.program import Counts, Values
from tilewright.spec.graph import Access

Ends = Mapping[int, Counts]
"""For each tensor the end of the pixels that are there after each pass, from none on."""


def blocks_of(length: int, size: int | None) -> list[Span]:
    """Return the parts of a length, each of some size but the last."""
    assert size is not None
    return [(begin, min(begin + size, length)) for begin in range(0, length, size)]


class PlanProgram:
    """The program of a plan, step by step.

    Attributes
    ----------
    elements
        Numbers of all values: tensors, weights of operations, and their partial sums.
    in_floats
        Numbers of operations of attention that are computed in floating point.
    staying
        Addresses of weights that are on chip for good, by operation.
    where
        Addresses of tensors that are on chip as a whole.
    flash
        The first element behind the memory, where weights are in flash; None where they are not.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        *,
        numeric: bool,
        in_floats: Collection[str] = (),
        flash: int | None = None,
    ) -> None:
        self.graph, self.plan, self.numeric, self.flash = graph, plan, numeric, flash
        self.in_floats = frozenset(op.number for op in graph.operations if self._name(op) in in_floats)
        self.staying = {
            op.number: plan.staying[op.name] for op in graph.operations if op.staying and flash is None
        }
        if flash is not None:
            places = accumulate((op.staying for op in graph.operations), initial=flash)
            self.staying = dict(zip(range(len(graph.operations)), places, strict=False))
        self.where: dict[int, int] = {}
        outputs = [tensor.size for tensor in graph.tensors[1:]]
        sizes = [graph.tensors[0].size, *outputs, *(op.parameters for op in graph.operations), *outputs]
        names = [tensor.key for tensor in graph.tensors]
        for what in ("weights", "partial sums"):
            names += [key_of(what, op.name) for op in graph.operations]
        self._running = {each.context: len(names) + 2 * n for n, each in enumerate(graph.attentions)}
        for each in graph.attentions:
            softmax = graph.operations[each.softmax].name
            names += [f"maximum of {softmax}", f"sum of {softmax}"]
            sizes += 2 * [graph.tensors[each.context + 1].pixels * each.groups]
        recurrent = [operation for operation in graph.operations if operation.state]
        self._states = {operation.number: len(names) + n for n, operation in enumerate(recurrent)}
        names += [key_of("state", operation.name) for operation in recurrent]
        sizes += [operation.state for operation in recurrent]
        self.elements = Elements(names, sizes)

    def weights(self, number: int) -> int:
        """Return the number under which DRAM has an operation's weights, which a copy loads, too."""
        return len(self.graph.tensors) + self.graph.first.get(number, number)

    def partial_sums(self, number: int) -> int:
        """Return the number that the partial sums of an operation have."""
        return len(self.graph.tensors) + len(self.graph.operations) + number

    def running(self, context: int) -> tuple[int, int]:
        """Return the numbers that running maxima and sums of attention have."""
        return self._running[context], self._running[context] + 1

    def state(self, number: int) -> int:
        """Return the number that the state of a recurrent layer has."""
        return self._states[number]

    def _name(self, operation: Operation) -> str:
        """Return the name of an operation, or of the one that it repeats."""
        return self.graph.operations[self.graph.first.get(operation.number, operation.number)].name

    def load_staying(self) -> Iterator[Instruction]:
        """Load the weights that stay, before the first frame."""
        for number, address in self.staying.items():
            span = np.arange(self.graph.operations[number].staying)
            yield Load(Place(address + span, self.elements.of(self.weights(number), span)))

    def step(self, number: int, decoded: DecodedStep) -> StepProgram:
        """Return the program of a step; those before it have been executed."""
        return StepProgram(self, self.plan.steps[number], decoded)


class StepProgram:
    """The program of a step.

    Attributes
    ----------
    block, inputs
        Output channels of which a block of weights is there, and input channels that are added up; None for
        all.
    streams
        Whether weights are copied from flash block by block.
    """

    def __init__(self, program: PlanProgram, step: Step, decoded: DecodedStep) -> None:
        self.program, self.step, self.decoded = program, step, decoded
        self.graph, self.group, self.shape = program.graph, decoded.group, decoded.choice.shape
        self.whole = frozenset(members(decoded.on_chip))
        passes = group_of_passes(self.group, self.shape)
        self.area = in_blocks(self.group) if self.shape.blocks else passes
        self.buffers = step_buffers(self.group, self.shape, self.whole)
        self.depth = tiles.summed_channels(self.graph, self.group.last)
        self.strips: Strips | None = None
        if self.shape.columns is not None and self.shape.order == "pixels":
            self.strips = strips_of(self.group, self.shape.columns)
        if self.shape.doubled:
            rounds = count_rounds(self.group, self.shape)
            self.held = self.area.double_buffered_line_pixels(self.shape.pixels, rounds, self.whole)
        else:
            self.held = line_pixels(self.group, self.shape)
        self.arithmetic = {op.number: self._arithmetic(op) for op in self.group.operations}
        self.block: Span | None = None
        self._added: dict[Span, int] = {}  # pixels that running values have, by block of output channels
        self.inputs: Span | None = None
        self.streams = streams(self.group, self.shape)
        self._strip = self._turn = self._pass = 0
        self._tile: Numbers | None = None  # pixels of the sources that a tile reads, ascending
        self.blocks = BlockSteps(self, in_blocks(self.group)) if self.shape.blocks else None
        self._weights: dict[int, Place] = {}  # that are there
        self._read: Numbers | None = None  # pixels that have been read last, and where they are
        self._read_at: dict[tuple[int, int, int], Place] = {}

    def _arithmetic(self, operation: Operation) -> PixelArithmetic:
        planes = [self.graph.ops.operand_shape(operand) for operand in operation.op.operands]
        channelwise, numeric = operation.channelwise, self.program.numeric
        in_floats = operation.number in self.program.in_floats
        return PixelArithmetic(
            operation.op,
            planes,
            channelwise=channelwise,
            numeric=numeric,
            of_places=in_floats_of(operation.op) if in_floats else None,
        )

    def footprint(self) -> dict[str, tuple[int, int]]:
        """Return the address and the elements of everything that is on chip, by its key.

        Raises
        ------
        KeyError
            If something has no address.
        """
        graph, program, found = self.graph, self.program, dict[str, tuple[int, int]]()
        for number, at in program.staying.items() if program.flash is None else ():
            operation = graph.operations[number]
            found[key_of("weights", operation.name)] = at, operation.staying
        for tensor, at in sorted(program.where.items()):
            if tensor != self.decoded.choice.in_place:
                found[graph.tensors[tensor].key] = at, graph.tensors[tensor].size
        for buffer in self.buffers:
            key = buffer.name(graph)
            found[key] = self.step.addresses[key], buffer.size
        return found

    def place_tensors(self) -> None:
        """Forget the addresses of tensors that are dropped, and take those of what is fetched or kept.

        Raises
        ------
        KeyError
            If something has no address.
        """
        choice, where = self.decoded.choice, self.program.where
        for tensor in members(choice.dropped):
            where.pop(tensor)
        for tensor in members(choice.fetched | choice.resident):
            where[tensor] = self.step.addresses[self.graph.tensors[tensor].key]

    def forget_tensors(self) -> None:
        """Forget the addresses of tensors that nobody reads after the step."""
        where, done = self.program.where, self.decoded.before.done
        for tensor in [tensor for tensor in where if self.group.is_last_reader(tensor, done)]:
            where.pop(tensor)

    def instructions(self) -> Iterator[Instruction]:
        """Return what is loaded, computed and written, in that order.

        Raises
        ------
        KeyError
            If something has no address.
        """
        for tensor in members(self.decoded.choice.fetched):
            pixels = np.arange(self.graph.tensors[tensor].pixels)
            yield from self._load(tensor, pixels, self.graph.all & ~self.decoded.before.done)
        if self.shape.order in tiles.SUMMED:
            yield from self._in_tiles() if self.shape.order == "tiles" else self._by_channels()
            return
        in_tiles = tiles_of_product(self.group, self.shape)
        if in_tiles is not None and self.blocks is not None:
            yield from TileSteps(self, in_tiles, self.blocks).instructions()
            return
        if self.shape.doubled:
            yield from self._double_buffered()
        elif self.shape.order == "kernels":
            if not self.streams:
                yield from self._copy_weights()
            for block in blocks_of(self.group.last.units, self.shape.kernels):
                self.block = block
                if self.streams:
                    yield from self._copy_weights()
                if not self.shape.running:
                    yield from self._load_weights(self.group.last, block)
                yield from self._passes()
        else:
            yield from self._copy_weights()
            for operation in self.group.operations:
                if operation.number in self.shape.kept:
                    yield from self._load_weights(operation, (0, operation.units))
            yield from self._passes()
        if self.shape.running:
            self._weights.pop(self.group.last.number, None)
        for place in self._weights.values():  # have been looked at once, if nothing else was loaded
            yield Check(place)

    # Passes --------------------------------------------------------------------------------------------

    def _passes(self) -> Iterator[Instruction]:
        """Execute all passes, over whole planes or strip after strip."""
        if self.shape.interleaved:
            yield from self._in_turns()
            return
        every = [self.area.ends(self.shape.pixels)]
        if self.strips is not None:
            every = self.strips.ends(self.shape.pixels)
        for self._strip, ends in enumerate(every):
            for number in range(len(ends[self.group.output]) - 1):
                yield from self._load_for_pass(ends, number)
                yield from self._compute_pass(ends, number)

    def _in_turns(self) -> Iterator[Instruction]:
        """Load and compute pixels as they are asked for, over the whole plane or strip after strip."""
        operations = {operation.number + 1: operation for operation in self.group.operations}
        strips = 1 if self.strips is None else len(self.strips.span(self.group.output)[0])
        for strip in range(strips):
            self._strip = strip
            if self.strips is None:
                turns = self.area.turns(self.whole, self.held)
            else:
                turns = self.strips.turns(self.whole, self.held, strip)
            for tensor, first, end in turns:
                pixels = self._pixels(tensor, {tensor: np.array([first, end])}, 0)
                if tensor not in operations:
                    yield from self._load(tensor, pixels)
                elif self.shape.running and tensor == self.group.output:
                    yield from self._add_pixels(pixels)
                else:
                    operation = operations[tensor]
                    yield from self._compute(operation, pixels, (0, operation.units))

    def _double_buffered(self) -> Iterator[Instruction]:
        """Execute all passes with second buffers.

        In each slot all is first loaded that the next pass needs, then a pass is computed, then all is
        written that the one before it has computed: so what could overwrite something still needed does.
        """
        ends = self.area.ends(self.shape.pixels)
        blocks: Sequence[Span | None] = [None]
        if self.shape.order == "kernels":
            blocks = blocks_of(self.group.last.units, self.shape.kernels)
        else:
            for operation in self.group.operations:
                yield from self._load_weights(operation, (0, operation.units))
        yield EndOfSlot()
        passes = [
            (turn, block, number)
            for turn, block in enumerate(blocks)
            for number in range(len(ends[self.group.output]) - 1)
        ]
        kept, waiting = dict(self._weights), list[Save]()
        for slot in range(-1, len(passes) + 1):
            if slot + 1 < len(passes):
                self._turn, self.block, number = passes[slot + 1]
                if self.block is not None and not number:
                    yield from self._load_weights(self.group.last, self.block)
                yield from self._load_for_pass(ends, number)
            saves: list[Save] = []
            if 0 <= slot < len(passes):
                self._pass, (self._turn, self.block, number) = slot, passes[slot]
                # What is loaded for the next pass might lie over weights: they are looked at in each.
                self._weights = {key: Place(*place) for key, place in kept.items()}
                if self.block is not None:
                    self._take_weights(self.group.last, self.block)
                for each in self._compute_pass(ends, number):
                    if isinstance(each, Save):
                        saves.append(each)
                    else:
                        yield each
            yield from waiting
            waiting = saves
            yield EndOfSlot()

    def _load_for_pass(self, ends: Ends, number: int) -> Iterator[Instruction]:
        """Load what a pass reads of the sources that are streamed."""
        for tensor in self.group.sources:
            later = self.blocks is not None and self.blocks.loads(tensor)
            if tensor not in self.whole and not later:
                yield from self._load(tensor, self._pixels(tensor, ends, number))

    def _compute_pass(self, ends: Ends, number: int) -> Iterator[Instruction]:
        """Compute a pass, operation by operation."""
        for operation in self.group.operations:
            pixels = self._pixels(operation.number + 1, ends, number)
            if not pixels.size or (self.blocks is not None and operation.number in self.blocks.inside):
                continue
            if self.shape.running and operation is self.group.last:
                yield from self._add_pixels(pixels)
            elif self.blocks is not None and operation.second is not None:
                yield from self.blocks.instructions(operation, pixels)
            elif self.block is not None:
                yield from self._compute(operation, pixels, self.block)
            elif computed_whole(operation, self.shape):
                every = 0, operation.units
                if operation.weights and not operation.state and operation.number not in self.shape.kept:
                    yield from self._load_weights(operation, every)
                yield from self._compute(operation, pixels, every)
            else:
                for part in blocks_of(operation.units, self.shape.kernels):
                    yield from self._load_weights(operation, part)
                    yield from self._compute(operation, pixels, part)

    def _compute(self, operation: Operation, pixels: Numbers, block: Span) -> Iterator[Instruction]:
        """Compute some pixels for a block of weights, and write what is written."""
        tensor = operation.number + 1
        channels = (0, self.graph.tensors[tensor].channels) if operation.units == 1 else block
        if operation.parameters and operation.number not in self._weights and not operation.state:
            self._take_weights(operation, block)
        if tensor == self.group.output and tensor not in self.whole:
            result = self.block_place(tensor, pixels, channels)
        else:
            result = self.place(tensor, pixels, channels, 0)
        if operation.state:
            yield from self._recurrent(operation, result)
        else:
            yield Compute(
                self.arithmetic[operation.number],
                pixels,
                channels,
                lambda place, wanted, first, last: self.operand(operation, place, wanted, (first, last)),
                self._weights.get(operation.number),
                (result,),
            )
        if self.decoded.choice.written >> tensor & 1:
            yield Save(self._newly_computed(tensor, pixels, result))

    def _recurrent(self, operation: Operation, result: Place) -> Iterator[Instruction]:
        """Compute all states of a recurrent layer, point in time by point in time."""
        ((channels, height, width),) = (self.graph.ops.operand_shape(each) for each in operation.op.operands)
        read = self.operand(operation, 0, np.arange(height * width), (0, channels))
        address = self.step.addresses[key_of("state", operation.name)]
        state = np.arange(operation.state)
        place = Place(address + state, self.program.elements.of(self.program.state(operation.number), state))
        load, address = None, self._weights_of_state(operation)
        if operation.weights and operation.number not in self.shape.kept:
            load = self.shape.kernels
        weights = self.program.elements.of(
            self.program.weights(operation.number), np.arange(operation.parameters)
        )
        places = RecurrentPlaces(read, weights, address, place, result)
        yield from recurrent_instructions(operation, places, load, numeric=self.program.numeric)

    def _weights_of_state(self, operation: Operation) -> int:
        """Return the address of the weights of a recurrent layer, or of a block of them."""
        if operation.staying:
            return self.program.staying[operation.number]
        return self.step.addresses[key_of("weights", operation.name)]

    # Running values ------------------------------------------------------------------------------------

    def _add_pixels(self, pixels: Numbers) -> Iterator[Instruction]:
        """Add some pixels to the running values of a block of output channels, or of one after the other."""
        operation, every = self.group.last, self.area.pixels
        blocks = [self.block] if self.block is not None else [(0, operation.units)]
        if self.block is None and operation.weights:
            blocks = blocks_of(operation.units, self.shape.kernels)
        for block in blocks:
            begin = self._added.get(block, 0)
            self._added[block] = end = (begin + len(pixels)) % every
            some = SomePixels(pixels, first=not begin, last=not end)
            if operation.parameters:
                yield from self._load_weights_of_pixels(block, some)
            yield from self._add_to_block(block, some)

    def _add_to_block(self, block: Span, pixels: SomePixels) -> Iterator[Instruction]:
        """Add some pixels to running values; the output is there after the last ones."""
        operation, output = self.group.last, self.group.output
        assert operation.running is not None
        value, first = operation.running.value, self.block[0] if self.block is not None else 0
        address = self.step.addresses[key_of("block", self.graph.tensors[output].name)]
        cells = address + value * (np.arange(*block) - first)[None]
        pixel = np.zeros(1, dtype=np.int64)
        partial = self.elements_of(output, pixel, *block, self.program.partial_sums(operation.number))
        running = tuple(Place(cells + cell, partial) for cell in range(value))
        results = running
        if pixels.last and output in self.program.where:
            results = (self.place(output, pixel, block, 0),)
        elif pixels.last:
            results = (Place(cells, self.elements_of(output, pixel, *block)),)
        weights = self._weights.get(operation.number)
        yield Compute(
            self.arithmetic[operation.number],
            pixel,
            block,
            lambda place, wanted, first, last: self.operand(operation, place, wanted, (first, last)),
            None if weights is None else Place(*weights),  # others might lie over them: looked at each time
            results,
            sums=() if pixels.first else running,
            added=pixels,
        )
        if pixels.last and self.decoded.choice.written >> output & 1:
            yield Save(results[0])

    def _load_weights_of_pixels(self, block: Span, pixels: SomePixels) -> Iterator[Instruction]:
        """Load what some output channels have for some pixels; with the first ones the biases before them."""
        operation = self.group.last
        assert operation.running is not None
        plane, _, each, bias = operation.running
        every = plane[0] * plane[1]
        own = (bias + np.arange(each)[:, None] * every + pixels.pixels).reshape(-1)
        if pixels.first:
            own = np.concatenate([np.arange(bias), own])
        places = np.arange(*block)[:, None] * (bias + each * every) + own
        elements = self.program.elements.of(self.program.weights(operation.number), places)
        if operation.staying:
            self._weights[operation.number] = Place(self._staying_cells(operation, places), elements)
            return
        address = self.step.addresses[key_of("weights", operation.name)]
        place = Place(address + np.arange(places.size).reshape(places.shape), elements)
        self._weights[operation.number] = place
        yield Load(place)

    def block_place(self, tensor: int, pixels: Numbers, channels: Span) -> Place:
        """Return where the output's block has some pixels and channels."""
        cells = self._block_cells(np.arange(len(pixels)), channels, channels[1] - channels[0])
        cells = cells + self._half("block", tensor, self._pass)
        return Place(cells, self.elements_of(tensor, pixels, *channels))

    def numeric_only(
        self, function: Callable[..., Sequence[Values]]
    ) -> Callable[..., Sequence[Values]] | None:
        """Return a function if values are computed."""
        return function if self.program.numeric else None

    # Blocks of input channels --------------------------------------------------------------------------

    def _in_tiles(self) -> Iterator[Instruction]:
        """For each tile, for each block of output channels, for each block of input channels."""
        operation = self.group.last
        (height, width), (rows, columns) = (
            self.graph.tensors[self.group.output].shape[1:],
            tile_size(self.shape),
        )
        reading = operation.readings[0]
        down, across = (
            list(zip(*(each.tolist() for each in tiles.parts_read(reading, axis, size)), strict=True))
            for axis, size in enumerate((rows, columns))
        )
        for part, own_rows in enumerate(blocks_of(height, rows)):
            for place, own_columns in enumerate(blocks_of(width, columns)):
                pixels = _rectangle(own_rows, own_columns, width)
                self._tile = _rectangle(down[part], across[place], reading.plane[1])
                loaded = False
                for kernels in blocks_of(operation.units, self.shape.kernels):
                    for inputs in blocks_of(self.depth, self.shape.channels):
                        self.inputs = inputs
                        if not loaded or self.shape.channels != self.depth:
                            yield from self._load_inputs(self._tile)
                        yield from self._load_summed_weights(kernels)
                        yield from self._add(pixels, np.arange(len(pixels)), kernels)
                        loaded = True

    def _by_channels(self) -> Iterator[Instruction]:
        """For each block of output channels, for each block of input channels, the input passes by."""
        operation, ends = self.group.last, self.group.ends(self.shape.pixels)
        source = operation.readings[0].tensor
        for kernels in blocks_of(operation.units, self.shape.kernels):
            for inputs in blocks_of(self.depth, self.shape.channels):
                self.inputs = inputs
                yield from self._load_summed_weights(kernels)
                for number in range(len(ends[self.group.output]) - 1):
                    yield from self._load_inputs(self._pixels(source, ends, number))
                    pixels = self._pixels(self.group.output, ends, number)
                    yield from self._add(pixels, pixels, kernels)

    def _load_inputs(self, pixels: Numbers) -> Iterator[Instruction]:
        """Load a block of input channels of the sources that are streamed."""
        for producer in self.group.last.op.producers:
            if producer + 1 not in self.whole:
                yield from self._load(producer + 1, pixels)

    def _add(self, pixels: Numbers, slots: Numbers, kernels: Span) -> Iterator[Instruction]:
        """Add what some input channels give to the sums of some pixels and output channels.

        Parameters
        ----------
        slots
            Places of the pixels in the block that the output has, if it does not stay.
        """
        operation, inputs, output = self.group.last, self.inputs, self.group.output
        assert inputs is not None
        last, whole_sums = inputs[1] == self.depth, self.shape.channels == self.depth
        width, apart = min(self.shape.kernels, operation.units), 1 if whole_sums else self.graph.sum_elements
        sums: tuple[Place, ...] = ()
        if not whole_sums:
            partial = self.elements_of(output, pixels, *kernels, self.program.partial_sums(operation.number))
            cells = self._block_cells(slots, kernels, width, apart)
            sums = tuple(Place(cells + cell, partial) for cell in range(apart))
        results = sums
        if last and output in self.program.where:
            results = (self.place(output, pixels, kernels, 0),)
        elif last:
            cells = self._block_cells(slots, kernels, width, apart)
            results = (Place(cells, self.elements_of(output, pixels, *kernels)),)
        yield Compute(
            self.arithmetic[operation.number],
            pixels,
            kernels,
            lambda place, wanted, first, end: self.operand(operation, place, wanted, (first, end)),
            Place(*self._weights[operation.number]),  # sums might lie over them: they are looked at each time
            results,
            inputs,
            sums if inputs[0] else (),
        )
        if last and self.decoded.choice.written >> output & 1:
            yield Save(results[0])

    def _load_summed_weights(self, kernels: Span) -> Iterator[Instruction]:
        """Load the weights of some output and input channels; the first ones have the biases before them."""
        operation, inputs = self.group.last, self.inputs
        assert inputs is not None
        each, bias = tiles.weights_of_a_channel(self.graph, operation)
        own = np.arange(bias + inputs[0] * each, bias + inputs[1] * each)
        if not inputs[0]:
            own = np.concatenate([np.arange(bias), own])
        places = np.arange(*kernels)[:, None] * (bias + self.depth * each) + own
        elements = self.program.elements.of(self.program.weights(operation.number), places)
        if operation.staying:
            self._weights[operation.number] = Place(self.program.staying[operation.number] + places, elements)
            return
        address = self.step.addresses[key_of("weights", operation.name)]
        place = Place(address + np.arange(places.size).reshape(places.shape), elements)
        self._weights[operation.number] = place
        yield Load(place)

    # Where things are ----------------------------------------------------------------------------------

    def _columns(self, tensor: int) -> Span:
        """Return the first column and the end of what the strip has of a tensor."""
        if self.strips is None:
            return 0, self._width(tensor)
        begins, ends = self.strips.span(tensor)
        return int(begins[self._strip]), int(ends[self._strip])

    def _width(self, tensor: int) -> int:
        """Return the columns of a tensor, or of what is added up to the output."""
        return self.area.row if tensor == self.group.output else self.graph.tensors[tensor].shape[2]

    def _pixels(self, tensor: int, ends: Ends, number: int) -> Numbers:
        """Return the pixels of a tensor that are new in a pass, in the strip, or are added to the output."""
        first, end = ends[tensor][number : number + 2]
        low, high = self._columns(tensor)
        rows, columns = np.divmod(np.arange(first, end), high - low)
        return rows * self._width(tensor) + columns + low

    def _newly_computed(self, tensor: int, pixels: Numbers, place: Place) -> Place:
        """Return the part of a place whose pixels no earlier strip has computed."""
        if self.strips is None or not self._strip:
            return place
        before = self.strips.span(tensor)[1][self._strip - 1]
        new = pixels % self.graph.tensors[tensor].shape[2] >= before
        return Place(place.cells[new], place.elements[new])

    def _window(self) -> tuple[Span, int] | None:
        """Return the channels that line buffers are for, and for how many they are, if not for all."""
        if self.inputs is not None:
            assert self.shape.channels is not None
            return self.inputs, self.shape.channels
        if self.block is not None and self.group.last.channelwise:
            return self.block, self.shape.kernels
        return None

    def elements_of(
        self, tensor: int, pixels: Numbers, first: int, last: int, number: int | None = None
    ) -> Numbers:
        """Return the numbers of some pixels and channels of a tensor, or of what has its shape."""
        places = pixels[:, None] * self.graph.tensors[tensor].channels + np.arange(first, last)
        return self.program.elements.of(tensor if number is None else number, places)

    def place(self, tensor: int, pixels: Numbers, channels: Span, offset: int = 0) -> Place:
        """Return where some pixels and channels of a tensor are.

        Parameters
        ----------
        offset
            Number among the input channels of the first channel that is read of the tensor.
        """
        span, elements = np.arange(*channels), self.elements_of(tensor, pixels, *channels)
        if tensor in self.program.where:
            cells = pixels[:, None] * self.graph.tensors[tensor].channels + span
            return Place(self.program.where[tensor] + cells, elements)
        held = np.concatenate([np.arange(*each) for each in self.area.spans(tensor)])
        first, width, window = 0, len(held), self._window()
        if window is not None:
            first, width = max(0, window[0][0] - offset), min(width, window[1])
        base = self.step.addresses[key_of("lines", self.graph.tensors[tensor].name)]
        cells = self.slots(tensor, pixels)[:, None] * width + np.searchsorted(held, span) - first
        return Place(base + cells, elements)

    def slots(self, tensor: int, pixels: Numbers) -> Numbers:
        """Return the places of pixels in a line buffer, or in that of a tile."""
        if self._tile is not None:
            return np.searchsorted(self._tile, pixels)
        low, high = self._columns(tensor)
        rows, columns = np.divmod(pixels, self.graph.tensors[tensor].shape[2])
        earlier = self._turn * self.graph.tensors[tensor].pixels
        slots: Numbers = (earlier + rows * (high - low) + columns - low) % self.held[tensor]
        return slots

    def operand(self, operation: Operation, place: int, pixels: Numbers, channels: Span) -> Place:
        """Return where an operand is read; blocks of channels read the same pixels one after the other."""
        if pixels is not self._read:
            self._read, self._read_at = pixels, {}
        key = place, *channels
        if key not in self._read_at:
            self._read_at[key] = self._operand(operation, place, pixels, channels)
        return self._read_at[key]

    def _operand(self, operation: Operation, number: int, pixels: Numbers, channels: Span) -> Place:
        """Return where some pixels and channels of an operand are, which may lie in parts."""
        operands = operation.op.operands
        offset = operation.offsets(self.graph.ops)[sum(map(len, operands[:number]))]
        operand = operands[number]
        if not operation.op.has_views:
            return self._place_of_access(operand[0], pixels, channels, offset)
        shape = len(pixels), channels[1] - channels[0]
        cells, elements = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        for access in operand:
            if access.shape is not None:
                return self._place_of_copies(access, pixels, channels)
            there, places = self._part(operand, access, pixels)
            cells[there], elements[there] = self._place_of_access(access, places, channels, offset)
        return Place(cells, elements)

    def _part(
        self, operand: Sequence[Access], access: Access, pixels: Numbers
    ) -> tuple[NDArray[np.bool_], Numbers]:
        """Return which pixels of an operand an access has, and which pixels of its tensor these are."""
        _, height, width = self.graph.ops.shape(access)
        _, down, across = access.copies or (1, 1, 1)
        row, column = access.at or (0, 0)
        rows, columns = np.divmod(pixels, self.graph.ops.operand_shape(operand)[2])
        rows, columns = (rows - row) // down, (columns - column) // across
        there = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        return there, rows[there] * width + columns[there]

    def _place_of_access(self, access: Access, pixels: Numbers, channels: Span, offset: int) -> Place:
        """Return where some channels of an operand are, of pixels of the tensor that is accessed."""
        tensor, (begin, _) = access.source + 1, access.channels or (0, 0)
        if access.copies is None:
            return self.place(tensor, pixels, (begin + channels[0], begin + channels[1]), offset)
        every = self.graph.ops.shape(access)[0]
        place = self.place(tensor, pixels, (begin, begin + every), offset)
        copied = np.arange(*channels) // access.copies[0]
        return Place(place.cells[:, copied], place.elements[:, copied])

    def _place_of_copies(self, access: Access, pixels: Numbers, channels: Span) -> Place:
        """Return where some pixels and channels are of an operand of copies, made in a shape of their own."""
        assert access.shape is not None and access.copies is not None
        tensor, (_, height, width) = access.source + 1, access.shape
        _, down, across = access.copies
        rows, columns = np.divmod(pixels, width * across)
        places = np.arange(*channels) // access.copies[0] * height * width
        places = places + ((rows // down) * width + columns // across)[:, None]
        every = self.graph.tensors[tensor]
        whole = self.place(tensor, np.arange(every.pixels), (0, every.channels))
        there = np.divmod(places, every.pixels)
        return Place(whole.cells[there[1], there[0]], whole.elements[there[1], there[0]])

    def _load(self, tensor: int, pixels: Numbers, readers: int | None = None) -> Iterator[Instruction]:
        """Load some pixels of a tensor, of which some operations (a bit mask; by default this step's) read.

        In blocks of channels, only those of the block.
        """
        if not pixels.size:
            return
        window = self._window()
        spans = self.area.spans(tensor) if readers is None else self.graph.channels_read(tensor, readers)
        if tensor in self.program.where or window is None:
            for span in spans:
                yield Load(self.place(tensor, pixels, span, 0))
            return
        ((begin, end),) = spans
        operation = self.group.last
        places = zip(operation.op.producers, operation.offsets(self.graph.ops), strict=True)
        for offset in dict.fromkeys(offset for producer, offset in places if producer + 1 == tensor):
            first, last = begin + max(0, window[0][0] - offset), min(end, begin + window[0][1] - offset)
            if first < last:
                yield Load(self.place(tensor, pixels, (first, last), offset))

    def _block_cells(self, slots: Numbers, channels: Span, width: int, apart: int = 1) -> Numbers:
        """Return the cells of values in the output's block, which has some channels of each pixel.

        Parameters
        ----------
        apart
            Cells from a value to the next.
        """
        places = slots[:, None] * width + np.arange(channels[1] - channels[0])
        address = self.step.addresses[key_of("block", self.graph.tensors[self.group.output].name)]
        return address + apart * places

    def _half(self, what: str, number: int, turn: int) -> int:
        """Return the first element of the half of a buffer whose turn it is."""
        if not self.shape.doubled:
            return 0
        size = next(each.size for each in self.buffers if each[:2] == (what, number))
        return turn % 2 * (size // 2)

    def _take_weights(self, operation: Operation, block: Span) -> bool:
        """Find where a block of weights is; return whether there are any."""
        self._weights.pop(operation.number, None)
        every = operation.parameters
        each = -(-every // operation.units)
        span = np.arange(min(block[0] * each, every), min(block[1] * each, every))
        if not span.size:
            return False
        elements = self.program.elements.of(self.program.weights(operation.number), span)
        if operation.staying:
            self._weights[operation.number] = Place(self._staying_cells(operation, span), elements)
            return True
        address = self.step.addresses[key_of("weights", operation.name)]
        if operation.number not in self.shape.kept:
            address += self._half("weights", operation.number, self._turn)
        self._weights[operation.number] = Place(address + np.arange(len(span)), elements)
        return True

    def _copy_weights(self) -> Iterator[Instruction]:
        """Copy weights from flash, or those of the block."""
        for operation in self.group.operations:
            if operation.number in self.shape.copied:
                every = np.arange(operation.parameters).reshape(operation.units, -1)
                first, end = self._copied_outputs(operation)
                places = every[first:end, operation.biases > 0 :].reshape(-1)
                elements = self.program.elements.of(self.program.weights(operation.number), places)
                flash = Place(self.program.staying[operation.number] + places, elements)
                copies = Place(self._staying_cells(operation, places), elements)
                yield Apply((flash,), (copies,), lambda values: (values,), Work())

    def _staying_cells(self, operation: Operation, places: Numbers) -> Numbers:
        """Return where weights and biases are that steps do not load: in flash, or where they were copied."""
        flash = self.program.staying[operation.number] + places
        if operation.number not in self.shape.copied:
            return flash
        address = self.step.addresses[key_of("weights", operation.name)]
        each, before = operation.parameters // operation.units, int(operation.biases > 0)
        kernel, place = np.divmod(places, each)
        copied = address + (kernel - self._copied_outputs(operation)[0]) * (each - before) + place - before
        return np.where(place < before, flash, copied)

    def _copied_outputs(self, operation: Operation) -> Span:
        """Return the outputs whose weights are there at a time."""
        return self.block if self.streams and self.block is not None else (0, operation.units)

    def _load_weights(self, operation: Operation, block: Span) -> Iterator[Instruction]:
        """Load a block of weights, unless they are on chip for good."""
        if self._take_weights(operation, block) and not operation.staying:
            yield Load(self._weights[operation.number])


def _rectangle(rows: Span, columns: Span, width: int) -> Numbers:
    """Return the pixels of some rows and columns of a plane, ascending."""
    return (np.arange(*rows)[:, None] * width + np.arange(*columns)).reshape(-1)
