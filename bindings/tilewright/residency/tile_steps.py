"""Steps in tiles of a product, as a program: see `lowering` and `shapes.product_tiles`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tilewright.residency.block_steps import BlockSteps, StepOfBlocks
from tilewright.residency.graph import Operation
from tilewright.residency.plan import key_of
from tilewright.residency.shapes.product_tiles import ProductTiles
from tilewright.simulator.addressed_machine import Apply, Instruction, Load, Numbers, Place, Save
from tilewright.simulator.arithmetic import attention as arithmetic
from tilewright.simulator.arithmetic.pixel_arithmetic import Work, work_of_value
from tilewright.simulator.arithmetic.reference import small
from tilewright.simulator.program import Values
from tilewright.spec.network import MatMul


class Tile(NamedTuple):
    """Rows, heads of a matrix, columns; `channels` are those of the output, shape (heads, columns)."""

    pixels: Numbers
    matrix: int
    heads: Numbers
    columns: Numbers
    channels: Numbers


class TileSteps:
    """The program of a step in tiles of a product.

    Parameters
    ----------
    blocks
        Says where the second operand lies.
    """

    def __init__(self, step: StepOfBlocks, tiles: ProductTiles, blocks: BlockSteps) -> None:
        self.step, self.tiles, self.shape = step, tiles, step.shape
        self._block = blocks.block
        self._second = blocks.elements_of(tiles.product)
        spec = tiles.product.op.spec
        assert isinstance(spec, MatMul)
        self._spec = spec
        (first,) = tiles.product.op.operands[0]
        self._begin = (first.channels or (0, 0))[0]

    def instructions(self) -> Iterator[Instruction]:
        """For each pass, for each matrix, for each block of columns, for each block of terms."""
        tiles, size = self.tiles, self.shape.pixels
        for begin in range(0, tiles.rows, size):
            pixels = np.arange(begin, min(begin + size, tiles.rows))
            for matrix in range(tiles.matrices):
                heads = np.arange(matrix * tiles.share, (matrix + 1) * tiles.share)
                for first in range(0, tiles.columns, self.shape.kernels):
                    columns = np.arange(first, min(first + self.shape.kernels, tiles.columns))
                    channels = heads[:, None] * tiles.columns + columns
                    tile = Tile(pixels, matrix, heads, columns, channels)
                    yield from self._product(tile) if tiles.attention is None else self._attention(tile)

    def _terms(self, size: int) -> Iterator[Numbers]:
        """Return the blocks of terms."""
        for first in range(0, self.tiles.depth, size):
            yield np.arange(first, min(first + size, self.tiles.depth))

    # A product by itself -------------------------------------------------------------------------------

    def _product(self, tile: Tile) -> Iterator[Instruction]:
        """Compute a tile of a product."""
        step, tiles, program, product = self.step, self.tiles, self.step.program, self.tiles.product
        size, output = self.shape.channels, product.number + 1
        assert size is not None
        at_once, in_floats = size == tiles.depth, product.number in program.in_floats
        sums = () if at_once else self._partial_sums(tile)
        result = self._result(tile, 1 if at_once else step.graph.sum_elements)
        for terms in self._terms(size):
            last = bool(terms[-1] == tiles.depth - 1)
            left = self._left(tiles.left, tile, terms, size, self._begin)
            loaded = at_once and tile.columns[0] > 0  # for the block of columns before
            if tiles.left not in step.whole and not loaded:
                yield Load(left)
            loads, second = self._second_block(tile, terms)
            yield from loads
            results = (result,) if last else sums

            def add(
                left: Values, second: Values, *before: Values, last: bool = last, count: int = len(results)
            ) -> Sequence[Values]:
                factors = arithmetic.of_bits(left) if in_floats else small(left)
                found = np.einsum("rhd,dk->rhk", factors, small(second))
                if before:
                    found = found + (arithmetic.of_bits(before[0]) if in_floats else before[0])
                if in_floats:
                    found = arithmetic.in_parts(found) if last else arithmetic.in_bits(found)
                return [found] * count

            macs = result.cells.size * len(terms)
            work = Work(macs, 0, 2 * macs)
            if last:
                work = work.plus(self._ends(result))
            operands = (left, second, *(sums if terms[0] else ()))
            yield Apply(operands, results, step.numeric_only(add), work)
        if step.decoded.choice.written >> output & 1:
            yield Save(result)

    def _ends(self, result: Place) -> Work:
        """Return the accesses of values that are done, beside those of multiplications."""
        each = work_of_value(self.tiles.product.op)
        return Work(0, 0, (each.accesses - 2 * each.macs) * result.cells.size)

    def _result(self, tile: Tile, apart: int) -> Place:
        """Return where a tile of the output goes to, shape (pixels, heads, columns)."""
        step, output = self.step, self.tiles.product.number + 1
        tensor = step.graph.tensors[output]
        places = tile.pixels[:, None, None] * tensor.channels + tile.channels
        elements = step.program.elements.of(output, places)
        if output in step.program.where:
            return Place(step.program.where[output] + places, elements)
        address = step.step.addresses[key_of("block", tensor.name)]
        return Place(address + apart * self._slots(tile), elements)

    def _partial_sums(self, tile: Tile) -> tuple[Place, ...]:
        """Return where partial sums are, as often as one takes elements."""
        step, product = self.step, self.tiles.product
        tensor = step.graph.tensors[product.number + 1]
        address, apart = step.step.addresses[key_of("block", tensor.name)], step.graph.sum_elements
        places = tile.pixels[:, None, None] * tensor.channels + tile.channels
        partial = step.program.elements.of(step.program.partial_sums(product.number), places)
        return tuple(Place(address + apart * self._slots(tile) + cell, partial) for cell in range(apart))

    def _slots(self, tile: Tile) -> Numbers:
        """Return the places of a tile's values in their block."""
        rows = self._rows(tile)[:, :, None] * self.shape.kernels
        slots: Numbers = rows + np.arange(len(tile.columns))
        return slots

    def _rows(self, tile: Tile) -> Numbers:
        """Return the numbers of a tile's rows, shape (pixels, heads)."""
        heads = len(tile.heads)
        return np.arange(len(tile.pixels) * heads).reshape(-1, heads)

    def _left(self, tensor: int, tile: Tile, terms: Numbers, room: int, begin: int = 0) -> Place:
        """Return where some terms of rows are, shape (pixels, heads, terms).

        Parameters
        ----------
        room
            Terms for which there is room.
        begin
            First channel that is read of the tensor.
        """
        step, channels = self.step, self.step.graph.tensors[tensor].channels
        attention = self.tiles.attention
        of_heads = tile.heads
        if attention is not None and tensor in attention.beside:  # later heads may have the same ones again
            groups = attention.beside[tensor]
            of_heads = tile.heads[:groups] % groups
        places = begin + of_heads[:, None] * self.tiles.depth + terms
        places = tile.pixels[:, None, None] * channels + places
        elements = step.program.elements.of(tensor, places)
        if tensor in step.program.where:
            return Place(step.program.where[tensor] + places, elements)
        address = step.step.addresses[key_of("lines", step.graph.tensors[tensor].name)]
        slots = np.arange(len(tile.pixels) * len(of_heads)).reshape(-1, len(of_heads), 1)
        return Place(address + slots * room + np.arange(len(terms)), elements)

    def _second_block(self, tile: Tile, terms: Numbers) -> tuple[list[Load], Place]:
        """Return loads of a block of the second operand, and where it lies then, shape (terms, columns)."""
        tensors, elements = (each[tile.matrix][np.ix_(terms, tile.columns)] for each in self._second)
        return self._block(self.tiles.product, tensors, elements)

    # The end of an attention ---------------------------------------------------------------------------

    def _attention(self, tile: Tile) -> Iterator[Instruction]:
        """Compute a tile of the context: keys pass by."""
        step, tiles, size = self.step, self.tiles, self.shape.keys
        assert size is not None and tiles.attention is not None
        operations = step.graph.operations
        for keys in self._terms(size):
            for number in tiles.attention.operations[:-2]:
                yield from self._function(operations[number], tile, keys)
            yield from self._softmax(operations[tiles.attention.softmax], tile, keys)
            yield from self._values(tile, keys)
        yield from self._context(tile)

    def _operands(self, operation: Operation, tile: Tile, keys: Numbers) -> Iterator[Place]:
        assert self.shape.keys is not None
        for access in operation.op.accesses:
            yield self._left(access.source + 1, tile, keys, self.shape.keys)

    def _loads(self, operation: Operation, tile: Tile, keys: Numbers) -> Iterator[Load]:
        """Load what an operation reads of tensors in DRAM."""
        places = self._operands(operation, tile, keys)
        for access, place in zip(operation.op.accesses, places, strict=True):
            if access.source + 1 in self.step.group.sources and access.source + 1 not in self.step.whole:
                yield Load(place)

    def _function(self, operation: Operation, tile: Tile, keys: Numbers) -> Iterator[Instruction]:
        """Compute a function of single values."""
        assert self.shape.keys is not None
        yield from self._loads(operation, tile, keys)
        operands = tuple(self._operands(operation, tile, keys))
        result = self._left(operation.number + 1, tile, keys, self.shape.keys)
        multiplies = operation.op.spec.kind == "mul"

        def function(first: Values, *others: Values) -> Sequence[Values]:
            found = small(first)
            for each in others:
                more = small(each)[:, np.arange(found.shape[1]) % each.shape[1]]
                found = found * more if multiplies else found + more
            return [found]

        work = work_of_value(operation.op).times(result.cells.size)
        yield Apply(operands, (result,), self.step.numeric_only(function), work)

    def _softmax(self, operation: Operation, tile: Tile, keys: Numbers) -> Iterator[Instruction]:
        """Take the exponentials of scores, and bring what has been added up to the new maximum."""
        assert self.shape.keys is not None
        yield from self._loads(operation, tile, keys)
        (scores,) = self._operands(operation, tile, keys)
        powers = self._left(operation.number + 1, tile, keys, self.shape.keys)
        sums, first = self._sums(tile), not keys[0]
        seen = arithmetic.sees(keys, tile.pixels, operation.op.causal)

        def pass_scores(scores: Values, *before: Values) -> Sequence[Values]:
            known = arithmetic.Running(*map(arithmetic.of_bits, before[:3])) if before else None
            found, running = arithmetic.pass_scores(small(scores), known, len(tile.columns), seen)
            now = [arithmetic.in_bits(each) for each in running]
            return [arithmetic.in_bits(found), *(now * self.step.graph.sum_elements)]

        work = work_of_value(operation.op).times(powers.cells.size)
        if not first:
            work = work.plus(Work(0, sums[0].cells.size * (len(tile.columns) + 1), 0))
        operands = (scores,) if first else (scores, *sums)
        yield Apply(operands, (powers, *sums), self.step.numeric_only(pass_scores), work)

    def _values(self, tile: Tile, keys: Numbers) -> Iterator[Instruction]:
        """Add values of the keys, each times its exponential."""
        tiles, contexts = self.tiles, self._sums(tile)[2::3]
        assert tiles.attention is not None and self.shape.keys is not None
        loads, values = self._second_block(tile, keys)
        yield from loads
        powers = self._left(tiles.attention.softmax + 1, tile, keys, self.shape.keys)

        def add(powers: Values, values: Values, *before: Values) -> Sequence[Values]:
            more = np.einsum("rhk,kv->rhv", arithmetic.of_bits(powers), small(values).astype(np.float64))
            return [arithmetic.in_bits(arithmetic.of_bits(before[0]) + more)] * len(before)

        macs = powers.cells.size * len(tile.columns)
        operands = (powers, values, *contexts)
        yield Apply(operands, contexts, self.step.numeric_only(add), Work(macs, 0, 2 * macs))

    def _context(self, tile: Tile) -> Iterator[Instruction]:
        """Divide the context by the sum, and put it where it belongs."""
        step, tensor, sums = self.step, self.tiles.product.number + 1, self._sums(tile)
        if tensor in step.program.where:
            result = self._result(tile, 1)
        else:
            places = tile.pixels[:, None, None] * step.graph.tensors[tensor].channels + tile.channels
            result = Place(sums[2].cells, step.program.elements.of(tensor, places))

        def divide(_most: Values, total: Values, context: Values, *_copies: Values) -> Sequence[Values]:
            return [arithmetic.in_parts(arithmetic.of_bits(context) / arithmetic.of_bits(total)[..., None])]

        yield Apply(sums, (result,), step.numeric_only(divide), self._ends(result))
        if step.decoded.choice.written >> tensor & 1:
            yield Save(result)

    def _sums(self, tile: Tile) -> tuple[Place, ...]:
        """Return where maximum, sum and context of rows are, as often as a partial sum takes elements."""
        step, attention, apart = self.step, self.tiles.attention, self.step.graph.sum_elements
        assert attention is not None
        program, number = step.program, self.tiles.product.number
        address = step.step.addresses[key_of("partial sums", step.graph.operations[number].name)]
        slots = self._rows(tile) * (self.shape.kernels + 2)
        rows = tile.pixels[:, None] * attention.groups + tile.heads
        most, total = program.running(number)
        contexts = rows[:, :, None] * self.tiles.columns + tile.columns
        cells = slots[:, :, None] + np.arange(len(tile.columns))
        found: list[Place] = []
        for cell in range(apart):
            base = address + cell
            found += [
                Place(base + apart * (slots + self.shape.kernels), program.elements.of(most, rows)),
                Place(base + apart * (slots + self.shape.kernels + 1), program.elements.of(total, rows)),
                Place(base + apart * cells, program.elements.of(program.partial_sums(number), contexts)),
            ]
        return tuple(found)
