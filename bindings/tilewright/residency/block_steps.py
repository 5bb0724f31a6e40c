"""Steps that load second operands of products in blocks, as a program: see `lowering`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.attention import Attention, elements_of_second
from tilewright.residency.decode_plan import DecodedStep
from tilewright.residency.graph import Graph, Operation
from tilewright.residency.plan import Step, key_of
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import InBlocks
from tilewright.residency.shapes.shape import Shape
from tilewright.simulator.addressed import Elements
from tilewright.simulator.addressed_machine import Apply, Instruction, Load, Numbers, Place, Save
from tilewright.simulator.arithmetic import attention as arithmetic
from tilewright.simulator.arithmetic.pixel_arithmetic import Work, work_of_value
from tilewright.simulator.arithmetic.reference import small
from tilewright.simulator.program import Values
from tilewright.spec.network import MatMul


class _Program(Protocol):
    """What is known of a plan's program: see `lowering.PlanProgram`."""

    elements: Elements
    where: dict[int, int]
    in_floats: frozenset[int]

    def partial_sums(self, number: int) -> int:
        """Return the number that the partial sums of an operation have."""

    def running(self, context: int) -> tuple[int, int]:
        """Return the numbers that running maxima and sums of attention have."""


class StepOfBlocks(Protocol):
    """What is known of a step's program: see `lowering.StepProgram`."""

    step: Step
    decoded: DecodedStep
    graph: Graph
    group: Group
    shape: Shape
    whole: frozenset[int]

    @property
    def program(self) -> _Program:
        """Return the program of the plan."""

    def operand(self, operation: Operation, place: int, pixels: Numbers, channels: tuple[int, int]) -> Place:
        """Return where an operand is read."""

    def place(self, tensor: int, pixels: Numbers, channels: tuple[int, int], offset: int = 0) -> Place:
        """Return where some pixels and channels of a tensor are."""

    def block_place(self, tensor: int, pixels: Numbers, channels: tuple[int, int]) -> Place:
        """Return where the output's block has some pixels and channels."""

    def slots(self, tensor: int, pixels: Numbers) -> Numbers:
        """Return the places of pixels in a line buffer."""

    def elements_of(
        self, tensor: int, pixels: Numbers, first: int, last: int, number: int | None = None
    ) -> Numbers:
        """Return the numbers of some pixels and channels of a tensor."""

    def numeric_only(
        self, function: Callable[..., Sequence[Values]]
    ) -> Callable[..., Sequence[Values]] | None:
        """Return a function if values are computed."""


class Keys(NamedTuple):
    """Keys that pass by, first and end, of how many there is room, and which of them each row sees."""

    attention: Attention
    first: int
    end: int
    room: int
    seen: NDArray[np.bool_]

    @property
    def pairs(self) -> int:
        """Pairs of a row and a key that it sees, of all heads."""
        return self.attention.groups * int(self.seen.sum())

    @property
    def rows(self) -> int:
        """Rows that see any of the keys."""
        return int(self.seen.any(axis=-1).sum())


class BlockSteps:
    """The products of a step that loads their second operands in blocks.

    Attributes
    ----------
    keys
        The keys that pass by at the moment.
    """

    def __init__(self, step: StepOfBlocks, area: InBlocks) -> None:
        self.step, self.area, self.shape = step, area, step.shape
        self.passing = {each.context: each for each in area.passing(self.shape.keys)}
        self.inside = {number for each in self.passing.values() for number in each.operations[:-1]}
        self.keys: Keys | None = None
        self._elements = {
            operation.number: elements_of_second(step.graph.ops, operation.op)
            for operation in step.group.operations
            if operation.second is not None
        }

    def elements_of(self, operation: Operation) -> NDArray[np.int64]:
        """Return where the values of a product's second operand lie: see `elements_of_second`."""
        return self._elements[operation.number]

    def instructions(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        """Return how some pixels of a product are computed, or of attention whose context it gives."""
        if operation.number in self.passing:
            yield from self._attention(self.passing[operation.number], pixels)
        else:
            yield from self._product(operation, pixels)

    def loads(self, tensor: int) -> bool:
        """Whether a source is loaded in blocks alone: of a second operand, or of keys that pass by."""
        if tensor not in self.area.lines:
            return True
        return self.shape.keys is not None and self.area.of_keys(tensor) is not None

    # Blocks of columns ---------------------------------------------------------------------------------

    def _product(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        """Compute some pixels of a product, one block of columns after the other."""
        second, spec = operation.second, operation.op.spec
        assert second is not None and isinstance(spec, MatMul)
        tensors, elements = (each.transpose(0, 2, 1) for each in self._elements[operation.number])
        share = spec.groups // second.matrices
        for begin in range(0, second.units, self.shape.kernels):
            units = np.arange(begin, min(begin + self.shape.kernels, second.units))
            places = np.divmod(units, second.columns)
            loads, second_at = self.block(operation, tensors[places], elements[places])
            yield from loads
            for matrix in np.unique(places[0]).tolist():
                own = np.flatnonzero(places[0] == matrix)
                first, columns = int(places[1][own[0]]), len(own)
                values = Place(second_at.cells[own], second_at.elements[own])
                for group in range(matrix * share, (matrix + 1) * share):
                    channels = group * spec.columns + first, group * spec.columns + first + columns
                    yield from self._columns(operation, pixels, group, channels, values)

    def _columns(
        self,
        operation: Operation,
        pixels: Numbers,
        group: int,
        channels: tuple[int, int],
        second: Place,
    ) -> Iterator[Instruction]:
        """Compute some columns of one matrix, of which the second operand is there."""
        step, spec = self.step, operation.op.spec
        assert isinstance(spec, MatMul)
        tensor = operation.number + 1
        left = step.operand(operation, 0, pixels, (group * spec.depth, (group + 1) * spec.depth))
        if tensor == step.group.output and tensor not in step.whole:
            result = step.block_place(tensor, pixels, channels)
        else:
            result = step.place(tensor, pixels, channels)
        work = work_of_value(operation.op).times(len(pixels) * (channels[1] - channels[0]))
        yield Apply((left, second), (result,), step.numeric_only(self._multiply(operation)), work)
        if step.decoded.choice.written >> tensor & 1:
            yield Save(result)

    def _multiply(self, operation: Operation) -> Callable[..., Sequence[Values]]:
        """Return the product of pixels and columns; of a softmax in floats, the context."""
        if operation.number in self.step.program.in_floats:

            def context(left: Values, columns: Values) -> Sequence[Values]:
                return [arithmetic.in_parts(arithmetic.of_bits(left) @ small(columns).T.astype(np.float64))]

            return context

        def product(left: Values, columns: Values) -> Sequence[Values]:
            return [small(left) @ small(columns).T]

        return product

    def block(self, operation: Operation, tensors: Numbers, elements: Numbers) -> tuple[list[Load], Place]:
        """Return loads of a block of a second operand, and where it lies then.

        Parameters
        ----------
        tensors, elements
            Of each value of the block.
        """
        step, program = self.step, self.step.program
        cells, numbers = np.empty_like(elements), np.empty_like(elements)
        loads, taken = list[Load](), 0
        for tensor in np.unique(tensors).tolist():
            there = tensors == tensor
            own = elements[there]
            numbers[there] = program.elements.of(tensor, own)
            if tensor in program.where:
                cells[there] = program.where[tensor] + own
            elif tensor in self.area.loaded[operation.number]:
                address = step.step.addresses[key_of("operand", operation.name)] + taken
                cells[there] = address + np.arange(len(own))
                loads.append(Load(Place(cells[there], numbers[there])))
                taken += len(own)
            else:  # computed in this step: its line buffer has all of it
                cells[there] = step.step.addresses[key_of("lines", step.graph.tensors[tensor].name)] + own
        return loads, Place(cells, numbers)

    # Keys that pass by ---------------------------------------------------------------------------------

    def _attention(self, attention: Attention, pixels: Numbers) -> Iterator[Instruction]:
        """Compute the context of some rows, block of keys by block."""
        operations, shape = self.step.graph.operations, self.shape
        assert shape.keys is not None
        room, every = min(shape.keys, attention.keys), attention.keys
        own = None if attention.seen is None else attention.seen[pixels]
        needed = every if own is None else int(own.max())
        for first in range(0, needed, room):
            end = min(first + room, needed)
            causal = operations[attention.softmax].op.causal
            seen = arithmetic.sees(np.arange(first, end), pixels, causal)
            self.keys = Keys(attention, first, end, room, seen)
            functions = attention.operations[:-2]
            if attention.source is None:
                yield from self._scores(operations[attention.scores], pixels)
                functions = functions[1:]
            for number in functions:
                yield from self._function(operations[number], pixels)
            yield from self._softmax(operations[attention.softmax], pixels)
            yield from self._values(operations[attention.context], pixels)
        self.keys = None
        yield from self._context(operations[attention.context], attention, pixels)

    def _of_keys(self, operation: Operation, of_rows: bool) -> tuple[list[Load], Place]:
        """Return loads of what a second operand has of the keys, and where that lies.

        Parameters
        ----------
        of_rows
            Whether keys are its rows, or else its columns. The place has the shape (groups, keys, others).
        """
        assert self.keys is not None
        spec, (tensors, elements) = operation.op.spec, self._elements[operation.number]
        assert isinstance(spec, MatMul)
        if not of_rows:
            tensors, elements = tensors.transpose(0, 2, 1), elements.transpose(0, 2, 1)
        span = slice(self.keys.first, self.keys.end)
        loads, place = self.block(operation, tensors[:, span], elements[:, span])
        share = spec.groups // len(tensors)
        return loads, Place(*(np.repeat(each, share, axis=0) for each in place))

    def rows(self, tensor: int, pixels: Numbers) -> Place:
        """Return where the keys of some rows are, shape (pixels, groups, keys).

        There are all groups, or those that have keys of their own in the tensor.
        """
        assert self.keys is not None
        attention, first, end, room, _ = self.keys
        own = attention.beside.get(tensor, attention.groups)
        span, groups = np.arange(end - first), np.arange(own)[:, None]
        channels = groups * attention.keys + first + span
        every = self.step.graph.tensors[tensor].channels
        numbers = self.step.program.elements.of(tensor, pixels[:, None, None] * every + channels)
        if tensor in self.step.program.where:
            return Place(self.step.program.where[tensor] + pixels[:, None, None] * every + channels, numbers)
        slots = self.step.slots(tensor, pixels)[:, None, None]
        if self.area.of_keys(tensor) is None:  # computed in this step, in all channels
            cells = slots * every + channels
        else:
            cells = slots * (own * room) + groups * room + span
        address = self.step.step.addresses[key_of("lines", self.step.graph.tensors[tensor].name)]
        return Place(address + cells, numbers)

    def _scores(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        spec = operation.op.spec
        assert isinstance(spec, MatMul)
        loads, keys = self._of_keys(operation, of_rows=False)
        yield from loads
        left = self.step.operand(operation, 0, pixels, (0, spec.groups * spec.depth))
        result = self.rows(operation.number + 1, pixels)

        def scores(rows: Values, columns: Values) -> Sequence[Values]:
            rows = small(rows).reshape(len(pixels), spec.groups, spec.depth)
            return [np.einsum("rgd,gkd->rgk", rows, small(columns))]

        work = work_of_value(operation.op).times(self._pairs(result))
        yield Apply((left, keys), (result,), self.step.numeric_only(scores), work)

    def _pairs(self, result: Place) -> int:
        """Return the pairs of rows and keys that are computed: of causal attention those that are seen."""
        assert self.keys is not None
        return result.cells.size if self.keys.attention.seen is None else self.keys.pairs

    def _function(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        """Compute a function of single values, of the keys that pass by."""
        assert self.keys is not None
        yield from self._load_keys(operation, pixels)
        places = tuple(self.rows(access.source + 1, pixels) for access in operation.op.accesses)
        result = self.rows(operation.number + 1, pixels)
        kind = operation.op.spec.kind

        def function(*operands: Values) -> Sequence[Values]:
            found = small(operands[0])
            for each in operands[1:]:
                more = np.tile(small(each), (1, found.shape[1] // each.shape[1], 1))
                found = found * more if kind == "mul" else found + more
            return [found]

        work = work_of_value(operation.op).times(self._pairs(result))
        yield Apply(places, (result,), self.step.numeric_only(function), work)

    def _load_keys(self, operation: Operation, pixels: Numbers) -> Iterator[Load]:
        """Load what functions of scores read of the keys that pass by, from DRAM."""
        for access in operation.op.accesses:
            tensor = access.source + 1
            streamed = tensor in self.area.sources and tensor not in self.step.whole
            if streamed and self.area.of_keys(tensor) is not None:
                yield Load(self.rows(tensor, pixels))

    def _softmax(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        """Take the exponentials of the keys' scores, and bring what has been added up to the new maximum."""
        assert self.keys is not None
        yield from self._load_keys(operation, pixels)
        attention, first, *_, seen = self.keys
        (source,) = operation.op.accesses
        scores, powers = self.rows(source.source + 1, pixels), self.rows(operation.number + 1, pixels)
        sums = self._sums(attention, pixels)

        def pass_scores(scores: Values, *before: Values) -> Sequence[Values]:
            known = arithmetic.Running(*map(arithmetic.of_bits, before[:3])) if before else None
            found, running = arithmetic.pass_scores(small(scores), known, attention.values, seen)
            now = [arithmetic.in_bits(each) for each in running]
            return [arithmetic.in_bits(found), *(now * self.step.graph.sum_elements)]

        work = work_of_value(operation.op).times(self._pairs(powers))
        if first:
            rows = len(pixels) if attention.seen is None else self.keys.rows
            work = work.plus(Work(0, rows * attention.rescaled, 0))
        operands = (scores, *sums) if first else (scores,)
        yield Apply(operands, (powers, *sums), self.step.numeric_only(pass_scores), work)

    def _values(self, operation: Operation, pixels: Numbers) -> Iterator[Instruction]:
        """Add the values of the keys, each times its exponential, to the context."""
        assert self.keys is not None
        attention = self.keys.attention
        (source,) = operation.op.operands[0]
        loads, values = self._of_keys(operation, of_rows=True)
        yield from loads
        contexts = self._sums(attention, pixels)[2::3]

        def add(powers: Values, values: Values, *before: Values) -> Sequence[Values]:
            more = arithmetic.weighted_values(arithmetic.of_bits(powers), small(values))
            return [arithmetic.in_bits(arithmetic.of_bits(before[0]) + more)] * len(before)

        powers_at = self.rows(source.source + 1, pixels)
        macs = self._pairs(powers_at) * attention.values
        operands = (powers_at, values, *contexts)
        yield Apply(operands, contexts, self.step.numeric_only(add), Work(macs, 0, 2 * macs))

    def _context(self, operation: Operation, attention: Attention, pixels: Numbers) -> Iterator[Instruction]:
        """Divide the context by the sum, and put it where it belongs."""
        step, tensor = self.step, operation.number + 1
        sums = self._sums(attention, pixels)
        channels = 0, step.graph.tensors[tensor].channels
        if tensor == step.group.output and tensor not in step.whole:
            cells = sums[2].cells.reshape(len(pixels), -1)
            result = Place(cells, step.elements_of(tensor, pixels, *channels))
        else:
            result = step.place(tensor, pixels, channels)

        def divide(_most: Values, total: Values, context: Values, *_copies: Values) -> Sequence[Values]:
            found = arithmetic.of_bits(context) / arithmetic.of_bits(total)[..., None]
            return [arithmetic.in_parts(found).reshape(len(pixels), -1)]

        ends = work_of_value(operation.op)
        work = Work(0, 0, (ends.accesses - 2 * ends.macs) * result.cells.size)
        yield Apply(sums, (result,), step.numeric_only(divide), work)
        if step.decoded.choice.written >> tensor & 1:
            yield Save(result)

    def _sums(self, attention: Attention, pixels: Numbers) -> tuple[Place, ...]:
        """Return where maximum, sum and context of rows are, as often as a partial sum takes elements."""
        step, program, apart = self.step, self.step.program, self.step.graph.sum_elements
        name = step.graph.operations[attention.context].name
        address = step.step.addresses[key_of("partial sums", name)]
        slots = np.arange(len(pixels))[:, None] * attention.groups + np.arange(attention.groups)
        rows = pixels[:, None] * attention.groups + np.arange(attention.groups)
        width, values = attention.values + 2, np.arange(attention.values)
        most, total = program.running(attention.context)
        contexts = program.elements.of(
            program.partial_sums(attention.context), rows[:, :, None] * attention.values + values
        )
        found: list[Place] = []
        for cell in range(apart):
            base = address + cell
            found.append(
                Place(base + apart * (slots * width + attention.values), program.elements.of(most, rows))
            )
            found.append(
                Place(base + apart * (slots * width + attention.values + 1), program.elements.of(total, rows))
            )
            found.append(Place(base + apart * (slots[:, :, None] * width + values), contexts))
        return tuple(found)
