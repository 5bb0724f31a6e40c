"""C for single values of quantised operations: what a place of a tensor holds, told by the loops around it.

Where each value of a tensor comes from is known in numbers, so that operations which only move values cost
nothing but places: these are told by the variables of loops, or looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.microcontroller.arrays import real_lines, single
from tilewright.codegen.microcontroller.formulas import OF_VALUES, clamped, function_lines, less, nearest
from tilewright.codegen.microcontroller.indices import (
    MOST_ENTRIES,
    Integers,
    Tables,
    Truths,
    compacted,
    coordinates,
    entries,
    last_axis,
    number_text,
    places_at,
    truth_text,
)
from tilewright.codegen.microcontroller.rescaling import Rescaling
from tilewright.simulator.arithmetic.quantised import (
    AveragePoolInSingles,
    Concatenated,
    ExactOperation,
    ExactTensor,
    MeanInSingles,
    Padded,
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedExtremum,
    QuantisedFullyConnected,
    QuantisedInterpolation,
    QuantisedMatrixProduct,
    QuantisedMaxPool,
    QuantisedMean,
    QuantisedSoftmax,
    QuantisedTransposedConvolution,
    QuantisedWideSoftmax,
    Rearranged,
    Reshaped,
    SoftmaxInSingles,
    Stacked,
)
from tilewright.simulator.arithmetic.quantised.windows import Pooled, Weighted

Lines = Iterator[str]

Leaf = Callable[["Elements", Integers, Truths], str]
"""Gives C for a value of a tensor that is there, by its place among all values in order."""

PIXEL = 2
"""Axes of rows and columns, which come first; channels are the next one."""


class Unsupported(Exception):
    """What there is no C for."""


class Loop(NamedTuple):
    """A loop that is open: its variable, and the lines that its body begins with."""

    name: str
    lines: list[str]


class Elements:
    """What computes values, in loops over the rows, columns and channels of a map.

    Parameters
    ----------
    nodes
        Operations, by their names.
    tensors
        Tensors of the network, by name: those with numbers are constants.
    leaves
        Tensors that are there, by name.
    names
        Variables of rows, columns and channels.
    stem
        What names of constants begin with.

    Attributes
    ----------
    lines
        What is done once for a pixel.
    """

    def __init__(
        self,
        nodes: Mapping[str, ExactOperation],
        tensors: Mapping[str, ExactTensor],
        leaves: Mapping[str, Leaf],
        names: Sequence[str],
        stem: str,
    ) -> None:
        self.nodes, self.tensors, self.leaves = nodes, tensors, leaves
        self.tables, self.stem = Tables(stem), stem
        self.lines: list[str] = []
        row, column, channel = names
        self.loops = [Loop(row, self.lines), Loop(column, self.lines), Loop(channel, [])]
        self._functions: dict[str, str] = {}
        self._constants: list[str] = []
        self._count = 0
        self._found: list[dict[tuple[object, ...], str]] = [
            {},
            {},
        ]  # what is known in the pixel, and in the loop over channels

    @property
    def names(self) -> list[str]:
        """Variables of all open loops."""
        return [loop.name for loop in self.loops]

    def constants(self) -> Lines:
        """Return what stands before the steps."""
        yield from self.tables.lines()
        yield from self._constants

    def fresh(self, stem: str) -> str:
        """Return a new name of a variable."""
        self._count += 1
        return f"{stem}{self._count}"

    def number(self, values: Integers, mask: Truths | None = None) -> str:
        """Return C for numbers that depend on loops."""
        return number_text(values, self.names, self.tables, mask)

    def truth(self, *truths: Truths) -> str:
        """Return C for conditions that depend on loops; none where they always hold."""
        return " && ".join(
            dict.fromkeys(text for each in truths if (text := truth_text(each, self.names, self.tables)))
        )

    def value(self, name: str, index: Integers, mask: Truths) -> str:
        """Return C for a value of a tensor.

        Parameters
        ----------
        index
            Its place among all values in order, for the open loops.
        mask
            Where it is asked for. The place is one of the tensor's everywhere.

        Raises
        ------
        Unsupported
            For an operation that there is no C for.
        """
        if entries(index, mask) > MOST_ENTRIES:
            raise Unsupported(f"there is no C for more than {MOST_ENTRIES:,} places that are moved")
        index, mask = compacted(index), compacted(mask)
        if name in self.leaves:
            return self.leaves[name](self, index, mask)
        tensor = self.tensors.get(name)
        if tensor is not None and tensor.numbers is not None:
            flat = tensor.numbers.reshape(-1).astype(np.int64)
            return _bracketed(self.number(flat[index], np.broadcast_to(mask, _together(index, mask))))
        if name not in self.nodes:
            raise Unsupported(f"there is no C for reading {name}, which the plan does not have there")
        operation = self.nodes[name]
        if isinstance(operation, OF_VALUES):
            return self._of_values(operation, index, mask)
        rule = _RULES.get(type(operation))
        if rule is None:
            raise Unsupported(f"there is no C for {operation.operator}")
        return rule(self, operation, index, mask)

    # Parts of texts ----------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.nodes[name].shape if name in self.nodes else self.tensors[name].shape

    def block(self, axis: int) -> list[str]:
        """Return the lines that the body of the loop of an axis begins with."""
        return self.loops[max(axis, 0)].lines

    def guarded(self, axis: int, mask: Truths, lines: Iterable[str]) -> Lines:
        """Return lines that are done in the body of the loop of an axis, where the mask has any place."""
        condition = self.truth(self.outer(mask, axis))
        if condition:
            yield f"if ({condition}) {{"
            yield from indented(lines)
            yield "}"
        else:
            yield from lines

    def outer(self, mask: Truths, axis: int) -> Truths:
        """Return where a mask has any place, as far as loops up to that of an axis tell."""
        inner = tuple(range(max(axis, PIXEL - 1) + 1, mask.ndim))
        return np.asarray(mask.any(inner, keepdims=True)) if inner else mask

    def looped(
        self, axis: int, mask: Truths, sizes: Sequence[int], body: Callable[..., Iterable[str]]
    ) -> list[str]:
        """Return loops in the body of that of an axis, one in the other.

        Parameters
        ----------
        body
            Gets their places, as arrays over all open loops, and the mask as far as it is known there.
        """
        known = self.outer(mask, axis)
        first = len(self.loops)
        for size in sizes:
            del size
            self.loops.append(Loop(self.fresh("k"), []))
            self._found.append({})
        places = [
            np.arange(size, dtype=np.int64).reshape(
                [-1 if each == first + number else 1 for each in range(len(self.loops))]
            )
            for number, size in enumerate(sizes)
        ]
        found = list(body(*places, known.reshape(*known.shape, *[1] * (len(self.loops) - known.ndim))))
        for size in reversed(sizes):
            loop = self.loops.pop()
            self._found.pop()
            head = f"for (int {loop.name} = 0; {loop.name} < {size}; {loop.name}++) {{"
            found = [head, *indented([*loop.lines, *found]), "}"]
        return found

    def added_up(
        self,
        kind: str,
        start: str,
        index: Integers,
        mask: Truths,
        sizes: Sequence[int],
        body: Callable[..., Iterable[str]],
        after: Callable[[str], Iterable[str]] = lambda name: (),
    ) -> str:
        """Return the variable of a sum, or of another value that loops make, in the outermost loop it can be.

        Parameters
        ----------
        index
            What the value depends on.
        body
            Gets the variable, the places of the loops, and the mask.
        after
            What is done with it when the loops have ended.
        """
        index = compacted(index)
        axis = last_axis(index)
        name = self.fresh("v")
        lines = self.looped(axis, mask, sizes, lambda *told: body(name, *told))
        block = self.block(axis)
        block.append(f"{kind} {name} = {start};")
        block.extend(self.guarded(axis, mask, [*lines, *after(name)]))
        return name

    def _extended(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(*array.shape, *[1] * (len(self.loops) - array.ndim))

    def place(self, axis: int, mask: Truths, where: str) -> str:
        """Return a variable for where a pixel is, in the body of the loop of an axis."""
        condition = self.truth(self.outer(mask, axis))
        text = f"{condition} ? {where} : input" if condition else where
        found, key = self._found[max(0, axis - PIXEL + 1)], ("place", text)
        if key not in found:
            found[key] = self.fresh("at")
            self.block(axis).append(f"const value_t *{found[key]} = {text};")
        return found[key]

    def function(self, key: str, make: Callable[[str], Iterable[str]]) -> str:
        """Return the name of what stands before the steps, which is made once."""
        if key not in self._functions:
            self._functions[key] = name = f"{self.stem}_{len(self._functions)}"
            self._constants += make(name)
        return self._functions[key]

    # Operations --------------------------------------------------------------------------------------------

    def _of_values(self, operation: ExactOperation, index: Integers, mask: Truths) -> str:
        """Return a function of values at one place; sizes of 1 are repeated."""
        name = self.function(operation.name, lambda name: function_lines(operation, name))
        places = coordinates(index, operation.shape)
        operands = []
        for each in operation.inputs:
            shape = self.shape(each)
            own = [
                place if size > 1 else np.zeros_like(place)
                for size, place in zip(shape, places[len(places) - len(shape) :], strict=True)
            ]
            at = places_at(own, shape) if shape else np.zeros_like(index)
            operands.append(self.value(each, at, mask))
        return f"{name}({', '.join(operands)})"

    def same(self, operation: ExactOperation, index: Integers, mask: Truths) -> str:
        """Return the same value, in another shape."""
        return self.value(operation.inputs[0], index, mask)

    def moved(self, operation: Rearranged, index: Integers, mask: Truths) -> str:
        """Return a value from its place."""
        return self.value(operation.inputs[0], operation.places.reshape(-1)[index], mask)

    def bordered(self, operation: Padded, index: Integers, mask: Truths) -> str:
        """Return a value, or that of the border."""
        shape = self.shape(operation.inputs[0])
        places = coordinates(index, operation.shape)
        there, own = [], []
        for place, size, (before, _) in zip(places, shape, operation.padding, strict=True):
            at = place.astype(np.int64) - before
            there.append(compacted((at >= 0) & (at < size)))
            own.append(np.clip(at, 0, size - 1))
        every = mask & np.logical_and.reduce(np.broadcast_arrays(*there))
        if not every.any():
            return str(operation.value)
        flat = places_at(own, shape)
        inside = [each | ~_any_of(mask, each) for each in there]
        return self.either(inside, self.value(operation.inputs[0], flat, every), str(operation.value))

    def either(self, truths: Sequence[Truths], value: str, other: str) -> str:
        """Return one of two values."""
        condition = self.truth(*truths)
        return f"({condition} ? {value} : {other})" if condition else value

    def joined(self, operation: Concatenated, index: Integers, mask: Truths) -> str:
        """Return a value of one of several tensors, one behind the other."""
        places = coordinates(index, operation.shape)
        parts, first = [], 0
        axis = operation.axis % len(operation.shape)
        for name in operation.inputs:
            shape = self.shape(name)
            at = places[axis] - first
            own = [
                np.clip(at, 0, shape[axis] - 1) if each == axis else place
                for each, place in enumerate(places)
            ]
            flat = places_at(own, shape)
            parts.append((name, flat, at < shape[axis], (at >= 0) & (at < shape[axis])))
            first += shape[axis]
        return self._of_parts(parts, mask)

    def stacked(self, operation: Stacked, index: Integers, mask: Truths) -> str:
        """Return a value of one of several tensors beside each other."""
        places = coordinates(index, operation.shape)
        which = places.pop(operation.axis % len(operation.shape))
        parts = []
        for number, name in enumerate(operation.inputs):
            flat = places_at(places, self.shape(name))
            parts.append((name, flat, which <= number, which == number))
        return self._of_parts(parts, mask)

    def _of_parts(self, parts: Sequence[tuple[str, Integers, Truths, Truths]], mask: Truths) -> str:
        read = [each for each in parts if (mask & each[3]).any()]
        text = ""
        for name, flat, before, own in reversed(read):
            value = self.value(name, flat, compacted(mask & own))
            text = self.either([compacted(before)], value, text) if text else value
        return text

    def averaged(self, operation: QuantisedMean | MeanInSingles, index: Integers, mask: Truths) -> str:
        """Return a mean over some axes."""
        total = self._reduced(
            operation, operation.axes, index, mask, "0", lambda name, value: f"{name} += {value};"
        )
        whole = less(total, operation.count * operation.input_zero_point)
        if isinstance(operation, MeanInSingles):
            product = f"(float)({whole}) * {single(operation.scale)}"
            return f"({nearest(operation, product, operation.output_zero_point)})"
        scaled = f"scaled({whole}, {operation.multiplier}, {operation.shift})"
        return clamped(operation, f"{scaled} + {operation.output_zero_point}")

    def extreme(self, operation: QuantisedExtremum, index: Integers, mask: Truths) -> str:
        """Return the largest or the least along some axes."""
        sign, start = (">", "-32768") if operation.largest else ("<", "32767")

        def kept(name: str, value: str) -> str:
            return f"{{ const int32_t own = {value}; {name} = own {sign} {name} ? own : {name}; }}"

        return self._reduced(operation, operation.axes, index, mask, start, kept)

    def _reduced(
        self,
        operation: ExactOperation,
        axes: Sequence[int],
        index: Integers,
        mask: Truths,
        start: str,
        each: Callable[[str, str], str],
    ) -> str:
        source = operation.inputs[0]
        shape = self.shape(source)
        reduced = sorted({axis % len(shape) for axis in axes})
        left = [axis for axis in range(len(shape)) if axis not in reduced]
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        at = coordinates(index, [shape[axis] for axis in left])
        base = np.zeros_like(index)
        for axis, place in zip(left, at, strict=True):
            base = base + place * strides[axis]
        inner = np.zeros(1, np.int64)
        for axis in reduced:
            inner = (inner[:, np.newaxis] + np.arange(shape[axis]) * strides[axis]).reshape(-1)

        def body(name: str, place: Integers, known: Truths) -> Lines:
            value = self.value(source, self._extended(base) + inner[place], known)
            yield each(name, value)

        return self.added_up("int32_t", start, base, mask, [len(inner)], body)

    def product(self, operation: QuantisedMatrixProduct, index: Integers, mask: Truths) -> str:
        """Return a sum of products of two tensors."""
        shapes = [self.shape(each) for each in operation.inputs]
        if min(map(len, shapes)) < PIXEL:
            raise Unsupported(f"there is no C for {operation.operator} of vectors")
        turned = operation.first_turned, operation.second_turned
        (rows, depth), (_, columns) = (
            shape[:-3:-1] if own else shape[-2:] for shape, own in zip(shapes, turned, strict=True)
        )
        before = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
        *images, row, column = coordinates(index, (*before, rows, columns))
        firsts = [_first_of(images, shape, index.ndim) for shape in shapes]
        rescaling = self._bounded(operation, Rescaling.of_products(operation, depth))

        def body(name: str, place: Integers, known: Truths) -> Lines:
            values = []
            for source, shape, own, first, (outer, swapped) in zip(
                operation.inputs, shapes, turned, firsts, ((row, False), (column, True)), strict=True
            ):
                at = self._extended(outer), place
                high, low = at if own == swapped else at[::-1]
                flat = (self._extended(first) * shape[-2] + high) * shape[-1] + low
                values.append(self.value(source, flat, known))
            a, b = values
            product = f"({less(a, operation.first_zero_point)}) * ({less(b, operation.second_zero_point)})"
            yield f"{name} += {product};"

        total = self.added_up("int64_t" if rescaling.wide else "int32_t", "0", index, mask, [depth], body)
        stem = self.function(operation.name, rescaling.lines)
        return f"{stem}_rescaled(0, {total})"

    def _bounded(self, operation: ExactOperation, rescaling: Rescaling) -> Rescaling:
        if rescaling.wraps:
            raise Unsupported(f"{operation.operator} has sums that 32 bits may not hold")
        return rescaling

    def weighted(self, operation: Weighted, index: Integers, mask: Truths) -> str:
        """Return a sum of products with weights, rescaled."""
        rescaling = self._bounded(operation, Rescaling.of_weights(operation))
        stem = self.function(operation.name, rescaling.lines)
        flat = operation.weights.reshape(-1).astype(np.int64)
        source, zero = operation.inputs[0], operation.input_zero_point
        output, sizes, find = self._terms(operation, index)
        bias = self.number(operation.bias.astype(np.int64)[output])

        def body(name: str, *told: Any) -> Lines:
            *places, known = told
            at, truths, weight = find(*places)
            every = known
            for each in truths:
                every = every & each
            value = less(self.value(source, at, every), zero)
            factor = _bracketed(self.number(flat[weight] - operation.weight_zero_point))
            product = f"{name} += ({value}) * {factor};"
            condition = self.truth(*truths)
            yield f"if ({condition}) {product}" if condition else product

        kind = "int64_t" if rescaling.wide else "int32_t"
        total = self.added_up(kind, bias, index, mask, sizes, body)
        return f"{stem}_rescaled({self.number(output)}, {total})"

    def _terms(
        self, operation: Weighted, index: Integers
    ) -> tuple[Integers, list[int], Callable[..., tuple[Integers, list[Truths], Integers]]]:
        """Return output channels, sizes of loops over terms, and what finds a term's value and weight."""
        shape = self.shape(operation.inputs[0])
        if isinstance(operation, QuantisedFullyConnected):
            outputs, depth = operation.weights.shape
            row, output = (each.astype(np.int64) for each in np.divmod(index, outputs))

            def in_row(place: Integers) -> tuple[Integers, list[Truths], Integers]:
                weight = self._extended(output) * depth + place
                return self._extended(row) * depth + place, [], weight

            return output, [depth], in_row
        image, y, x, output = coordinates(index, operation.shape)
        outputs, high, wide, inputs = operation.weights.shape
        _, rows, columns, channels = shape
        if isinstance(operation, QuantisedTransposedConvolution):

            def place_of(place: Integers, tap: Integers, axis: int) -> tuple[Integers, Truths]:
                far = self._extended(place) + operation.padding[axis] - tap
                at, rest = np.divmod(far, operation.stride[axis])
                return at, (rest == 0) & (at >= 0) & (at < shape[1 + axis])

            own = np.zeros_like(output)
        else:
            assert isinstance(operation, QuantisedConvolution)
            convolution = operation

            def place_of(place: Integers, tap: Integers, axis: int) -> tuple[Integers, Truths]:
                before, step = convolution.padding[2 * axis], convolution.dilation[axis]
                at = self._extended(place) * convolution.stride[axis] - before + tap * step
                return at, (at >= 0) & (at < shape[1 + axis])

            own = output // (outputs // operation.groups) * inputs

        def in_window(
            down: Integers, right: Integers, term: Integers
        ) -> tuple[Integers, list[Truths], Integers]:
            row, first = place_of(y, down, 0)
            column, second = place_of(x, right, 1)
            at = self._extended(image) * rows + np.clip(row, 0, rows - 1)
            at = (at * columns + np.clip(column, 0, columns - 1)) * channels + self._extended(own) + term
            weight = ((self._extended(output) * high + down) * wide + right) * inputs + term
            return at, [compacted(first), compacted(second)], weight

        return output, [high, wide, inputs], in_window

    def pooled(self, operation: Pooled, index: Integers, mask: Truths) -> str:
        """Return an average or maximum of a window."""
        source = operation.inputs[0]
        image, y, x, channel = coordinates(index, operation.shape)
        shape, kernel = self.shape(source), operation.kernel
        in_singles = isinstance(operation, AveragePoolInSingles)
        kind, start = ("float", "0") if in_singles else ("int32_t", "0")
        if isinstance(operation, QuantisedMaxPool):
            start = "-32768"

        def body(name: str, down: Integers, right: Integers, known: Truths) -> Lines:
            at, truths = [], []
            for place, tap, axis in ((y, down, 0), (x, right, 1)):
                where = self._extended(place) * operation.stride[axis] - operation.padding[2 * axis] + tap
                truths.append(compacted((where >= 0) & (where < shape[1 + axis])))
                at.append(np.clip(where, 0, shape[1 + axis] - 1))
            flat = (self._extended(image) * shape[1] + at[0]) * shape[2] + at[1]
            flat = flat * shape[3] + self._extended(channel)
            value = self.value(source, flat, known & truths[0] & truths[1])
            if isinstance(operation, AveragePoolInSingles):
                zero = operation.input_zero_point - operation.offset
                line = f"{name} += {single(operation.input_scale)} * (float)({less(value, zero)});"
            elif isinstance(operation, QuantisedMaxPool):
                line = f"{{ const int32_t own = {value}; {name} = own > {name} ? own : {name}; }}"
            else:
                line = f"{name} += {value};"
            condition = self.truth(*truths)
            yield f"if ({condition}) {line}" if condition else line

        total = self.added_up(kind, start, index, mask, kernel, body)
        if isinstance(operation, QuantisedMaxPool):
            return clamped(operation, total)
        if isinstance(operation, AveragePoolInSingles):
            count = self.number(operation.divisors[y, x])
            average = f"{total} / (float)({count}) / {single(operation.output_scale)}"
            average += f" + {single(operation.output_zero_point)}"
            return f"({nearest(operation, average, -operation.offset)})"
        assert isinstance(operation, QuantisedAveragePool)
        return clamped(operation, f"average({total}, {self.number(operation.counts[y, x])})")

    def interpolated(self, operation: QuantisedInterpolation, index: Integers, mask: Truths) -> str:
        """Return a value between four others."""
        shape = self.shape(operation.inputs[0])
        image, y, x, channel = coordinates(index, operation.shape)
        parts = []
        for row, down in (
            (operation.rows, 1024 - operation.row_parts),
            (operation.next_rows, operation.row_parts),
        ):
            for column, right in (
                (operation.columns, 1024 - operation.column_parts),
                (operation.next_columns, operation.column_parts),
            ):
                flat = ((image * shape[1] + row[y]) * shape[2] + column[x]) * shape[3] + channel
                factors = _bracketed(self.number(down[y])), _bracketed(self.number(right[x]))
                wide = "(int64_t)" if operation.type == "int16" else ""
                value = self.value(operation.inputs[0], flat, mask)
                parts.append(f"{wide}{value} * {factors[0]} * {factors[1]}")
        return f"whole_of_20_bits({' + '.join(parts)})"

    def softmax(self, operation: QuantisedSoftmax, index: Integers, mask: Truths) -> str:
        """Return the softmax of a row, in fixed point."""
        row = compacted(index // operation.shape[-1])
        told = f"{operation.multiplier}, {operation.left_shift}, {operation.least_difference}"
        largest = self._largest(operation, row, mask)

        def term(name: str, value: str) -> str:
            return f"{name} += softmax_term({value} - {largest}, {told});"

        def inverse() -> str:
            name, block = self._along(operation, row, mask, "int32_t", term), self.block(last_axis(row))
            block.append(f"const int headroom_of_{name} = headroom({name});")
            block.append(f"const int32_t inverse_of_{name} = inverse_of_sum({name}, headroom_of_{name});")
            return name

        total = self._once_of_row("softmax", operation, row, mask, inverse)
        value = self.value(operation.inputs[0], index, mask)
        known = f"inverse_of_{total}, headroom_of_{total}"
        limits = f"{operation.bits}, {operation.least}, {operation.most}"
        return f"softmax_part({value} - {largest}, {told}, {known}, {limits})"

    def softmax_in_singles(self, operation: SoftmaxInSingles, index: Integers, mask: Truths) -> str:
        """Return the softmax of a row, of a table of powers."""
        row = compacted(index // operation.shape[-1])
        powers = self.function(
            operation.name, lambda name: real_lines("float", f"{name}_powers", operation.powers)
        )
        largest = self._largest(operation, row, mask)

        def power(value: str) -> str:
            return f"{powers}_powers[{value} + (255 - {largest})]"

        total = self._sum_of_powers(operation, row, mask, "float", power)
        own = power(self.value(operation.inputs[0], index, mask))
        part = f"{own} * {single(operation.output_scale)} / {total}"
        return f"({nearest(operation, part, operation.output_zero_point)})"

    def wide_softmax(self, operation: QuantisedWideSoftmax, index: Integers, mask: Truths) -> str:
        """Return the softmax of a row of integers of 16 bits."""
        row = compacted(index // operation.shape[-1])
        largest = self._largest(operation, row, mask)
        powers = self.tables.name(operation.exponentials)
        inverses = self.tables.name(operation.reciprocals)

        def power(value: str) -> str:
            return f"power_of_16({value} - {largest}, {operation.multiplier}, {operation.shift}, {powers})"

        total = self._sum_of_powers(operation, row, mask, "int32_t", power)
        own = power(self.value(operation.inputs[0], index, mask))
        return f"part_of_16({own}, {total}, {inverses})"

    def _sum_of_powers(
        self,
        operation: ExactOperation,
        row: Integers,
        mask: Truths,
        kind: str,
        power: Callable[[str], str],
    ) -> str:
        """Return the sum of the powers of a row, of a type in C, which is made once."""

        def added(name: str, value: str) -> str:
            return f"{name} += {power(value)};"

        return self._once_of_row(
            "softmax", operation, row, mask, lambda: self._along(operation, row, mask, kind, added)
        )

    def _largest(self, operation: ExactOperation, row: Integers, mask: Truths) -> str:
        """Return the largest value of a row."""

        def kept(name: str, value: str) -> str:
            return f"{{ const int32_t own = {value}; {name} = own > {name} ? own : {name}; }}"

        return self._once_of_row(
            *("largest", operation, row, mask),
            lambda: self._along(operation, row, mask, "int32_t", kept, "-32768"),
        )

    def _once_of_row(
        self, what: str, operation: ExactOperation, row: Integers, mask: Truths, make: Callable[[], str]
    ) -> str:
        """Return the variable of what a row has in common, which is computed once for it."""
        axis = last_axis(row)
        known = self.outer(mask, axis)
        key = what, operation.name, row.shape, row.tobytes(), known.shape, known.tobytes()
        found = self._found[max(0, axis - PIXEL + 1)]
        if key not in found:
            found[key] = make()
        return found[key]

    def _along(
        self,
        operation: ExactOperation,
        row: Integers,
        mask: Truths,
        kind: str,
        each: Callable[[str, str], str],
        start: str = "0",
    ) -> str:
        """Return what a loop over the values of a row makes."""
        count = operation.shape[-1]

        def body(name: str, place: Integers, known: Truths) -> Lines:
            value = self.value(operation.inputs[0], self._extended(row) * count + place, known)
            yield each(name, value)

        return self.added_up(kind, start, row, mask, [count], body)


_RULES: dict[type[Any], Callable[[Elements, Any, Integers, Truths], str]] = {
    Reshaped: Elements.same,
    Rearranged: Elements.moved,
    Padded: Elements.bordered,
    Concatenated: Elements.joined,
    Stacked: Elements.stacked,
    QuantisedMean: Elements.averaged,
    MeanInSingles: Elements.averaged,
    QuantisedExtremum: Elements.extreme,
    QuantisedMatrixProduct: Elements.product,
    QuantisedConvolution: Elements.weighted,
    QuantisedFullyConnected: Elements.weighted,
    QuantisedTransposedConvolution: Elements.weighted,
    QuantisedAveragePool: Elements.pooled,
    QuantisedMaxPool: Elements.pooled,
    AveragePoolInSingles: Elements.pooled,
    QuantisedInterpolation: Elements.interpolated,
    QuantisedSoftmax: Elements.softmax,
    SoftmaxInSingles: Elements.softmax_in_singles,
    QuantisedWideSoftmax: Elements.wide_softmax,
}


def indented(lines: Iterable[str]) -> Lines:
    """Return lines of a body."""
    for line in lines:
        yield f"    {line}"


def _together(*arrays: NDArray[Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(each.shape for each in arrays))


def _any_of(mask: Truths, truths: Truths) -> Truths:
    """Return where a mask has any place, over the axes on which something else depends."""
    axes = tuple(axis for axis in range(mask.ndim) if axis >= truths.ndim or truths.shape[axis] == 1)
    return np.asarray(mask.any(axes, keepdims=True)) if axes else mask


def _first_of(images: Sequence[Integers], shape: Sequence[int], axes: int) -> Integers:
    """Return which matrix of a tensor is read; sizes of 1 are repeated."""
    found = np.zeros((1,) * axes, np.int64)
    sizes = shape[:-2]
    for place, size in zip(images[len(images) - len(sizes) :], sizes, strict=True):
        found = found * size + (place if size > 1 else 0)
    return found


def _bracketed(text: str) -> str:
    """Return a text that may stand in a product."""
    return text if text.lstrip("-").isalnum() or (text.endswith("]") and " " not in text) else f"({text})"
