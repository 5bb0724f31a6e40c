"""C for the operations of a quantised network: constants, and what computes a pixel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.c_text import identifier
from tilewright.residency import Problem
from tilewright.residency.graph import Graph, Operation
from tilewright.simulator.arithmetic.quantised import (
    AveragePoolInSingles,
    ExactNetwork,
    ExactOperation,
    MeanInSingles,
    Padded,
    ProductInSingles,
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedFullyConnected,
    QuantisedMaxPool,
    QuantisedMean,
    QuantisedProduct,
    QuantisedRescaling,
    QuantisedSoftmax,
    QuantisedSum,
    QuantisedTable,
    Reshaped,
    SoftmaxInSingles,
    SumInSingles,
)
from tilewright.simulator.arithmetic.quantised.operation import Clamped
from tilewright.simulator.arithmetic.quantised.windows import Pooled, Weighted
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Window

if TYPE_CHECKING:
    from tilewright.codegen.microcontroller.steps import StepMap

Lines = Iterator[str]


class Places(Protocol):
    """Where the maps of a step lie, in C, for the pixel in hand of a map that is being computed.

    Attributes
    ----------
    strips
        How many the step has.
    """

    strips: int

    def address(self, tensor: int) -> int:
        """Return where a map lies in the arena."""

    def begin(self, each: StepMap) -> str:
        """Return the first column of a map in the strip."""

    def at(self, tensor: int, row: str, column: str) -> str:
        """Return where a pixel of a map is, given its row and column in the whole plane."""

    def width(self, each: StepMap) -> str:
        """Return the columns of a map in the strip."""

    def result(self, own: StepMap) -> str:
        """Return where the pixel is written."""

    def pixel(self, tensor: int, own: StepMap) -> str:
        """Return where the pixel of another map is that lies at the same place."""

    def window(self, tensor: int, own: StepMap, coded: CodedOperation) -> Iterator[str]:
        """Return the lines that find the taps of a window."""

    def leave(self, own: StepMap) -> Iterator[str]:
        """Return the line that writes the pixel outside, if it leaves the network."""

    @property
    def only_result(self) -> str:
        """Return where the only pixel of running values goes."""

    @property
    def result_leaves(self) -> bool:
        """Whether the only pixel of running values leaves the network."""

    @property
    def result_unsigned(self) -> bool:
        """Whether the only pixel of running values has no sign outside."""


Pair = tuple[int, int]

MOST_TAPS = 256
"""Taps of a window that pointers lie on the stack for."""

BLOCK = 4
"""Output channels whose sums are added up together."""


def coded_operations(problem: Problem, network: ExactNetwork) -> dict[str, CodedOperation]:
    """Return the C of each operation of a problem, by name.

    Raises
    ------
    InputError
        For operations that there is no C for.
    """
    exact, found, taken = network.by_operation(problem.network_graph), dict[str, CodedOperation](), set[str]()
    graph = problem.graph
    for operation in graph.numbers(graph.all & ~graph.begin):
        given = [each for each in exact[operation.name] if not isinstance(each, Reshaped)]
        name = identifier(operation.name, taken)
        taken.add(name)
        found[operation.name] = _coded(graph, operation, given, name)
    return found


def refusal(operation: Operation, limit: str) -> InputError:
    """Return the error that names an operation."""
    return InputError(f"layer {operation.name}", operation.op.spec.kind, limit)


def _coded(graph: Graph, operation: Operation, given: list[ExactOperation], name: str) -> CodedOperation:
    if operation.op.has_views or any(access.channels is not None for access in operation.op.accesses):
        raise refusal(operation, "there is no C for reading parts of maps, or several as one")
    if not given:
        return Copy(graph, operation, None, name)
    borders = [each for each in given[:-1] if isinstance(each, Padded)]
    main, *after = given[len(borders) :]
    if not all(isinstance(each, OF_ONE_VALUE) for each in after):
        names = ", ".join(each.operator for each in given)
        raise refusal(operation, f"there is no C for an operation that is {names} in the file")
    kinds: Mapping[type[Any], type[CodedOperation]] = {
        QuantisedConvolution: Convolution,
        QuantisedFullyConnected: Product,
        QuantisedAveragePool: Pool,
        QuantisedMaxPool: Pool,
        QuantisedMean: Mean,
        QuantisedSum: Sum,
        QuantisedProduct: Times,
        QuantisedSoftmax: Softmax,
        QuantisedTable: OfOneValue,
        QuantisedRescaling: OfOneValue,
        Padded: Border,
        AveragePoolInSingles: AveragesInSingles,
        MeanInSingles: MeanOfSums,
        SumInSingles: SumOfSingles,
        ProductInSingles: TimesInSingles,
        SoftmaxInSingles: SoftmaxOfPowers,
    }
    if type(main) not in kinds:
        raise refusal(operation, f"there is no C for {main.operator}")
    for border in borders:
        if not isinstance(main, QuantisedConvolution) or border.value != main.input_zero_point:
            raise refusal(operation, "there is no C for a border of other numbers than zero")
    found = kinds[type(main)](graph, operation, main, name)
    found.after = [function_of(each, f"{name}_after_{place}") for place, each in enumerate(after)]
    return found


OF_ONE_VALUE = (QuantisedTable, QuantisedRescaling)
"""Operations that may follow another one: functions of its results."""


class FunctionOfValue(NamedTuple):
    """A function of a number: what stands before the steps, and its value, with `{}` for the number."""

    constants: list[str]
    value: str


def function_of(exact: ExactOperation, name: str) -> FunctionOfValue:
    """Return the C of a function of single values."""
    if isinstance(exact, QuantisedTable):
        return FunctionOfValue(
            [*_array("int8_t", f"{name}_table", exact.table)], f"{name}_table[{{0}} - {exact.first}]"
        )
    assert isinstance(exact, QuantisedRescaling)
    value = f"({{0}} - {exact.input_zero_point})"
    above = f"scaled({value}, {exact.multiplier}, {exact.shift})"
    below = f"scaled({value}, {exact.multiplier_below}, {exact.shift_below})"
    found = f"({value} < 0 ? {below} : {above}) + {exact.output_zero_point}"
    return FunctionOfValue([], f"limited({found}, {exact.least}, {exact.most})")


class CodedOperation:
    """An operation in C.

    Attributes
    ----------
    kind
        What the file calls it.
    padded
        The number that places of the padding have; None if there is no padding.
    channels
        Of what it reads first.
    whole
        Whether it reads all of that at a time.
    after
        Functions of its results.
    geometry
        Stride, padding before, kernel and dilation, of rows and columns.
    """

    def __init__(self, graph: Graph, operation: Operation, exact: Any, name: str) -> None:
        self.graph, self.operation, self.exact, self.name = graph, operation, exact, name
        self.kind: str = "copy" if exact is None else exact.operator
        self.after: list[FunctionOfValue] = []
        spec = operation.op.spec
        self.padded: int | None = None
        self.geometry: tuple[Pair, Pair, Pair, Pair] = (1, 1), (0, 0), (1, 1), (1, 1)
        if isinstance(spec, Window):
            padding = spec.padding[0], spec.padding[2]
            self.geometry = spec.stride, padding, spec.kernel, spec.dilation
        self.source = operation.readings[0].tensor
        self.channels = graph.tensors[self.source].channels
        self.outputs = graph.tensors[operation.number + 1].channels
        self.whole = operation.readings[0].extent is None
        if self.whole and not self.reads_row:
            raise refusal(operation, f"there is no C for {self.kind} of whole maps")

    reads_row = False
    """Whether it may read all of a map, whose pixels lie side by side."""

    def before(self) -> Lines:
        """Return what stands before the steps, that of functions behind it included."""
        yield from self.constants()
        for each in self.after:
            yield from each.constants

    def constants(self) -> Lines:
        """Return what stands before the steps."""
        yield from ()

    def computed(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel, functions of its values and what leaves included."""
        yield from self.pixel(step, own)
        for each in self.after:
            yield f"for (int c = 0; c < {self.outputs}; c++)"
            yield f"    result[c] = (int8_t){each.value.format('result[c]')};"
        yield from step.leave(own)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel, to `result`."""
        raise NotImplementedError

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel to running values, and gives the result after the last one."""
        raise refusal(self.operation, f"there is no C for {self.kind} with running values")

    def limits(self) -> str:
        """Return the least and the most number that it gives."""
        assert isinstance(self.exact, Clamped)
        return f"{self.exact.least}, {self.exact.most}"

    def nearest(self, value: str, zero: int) -> str:
        """Return a number of single precision to the nearest within the limits, and a zero point added."""
        assert isinstance(self.exact, Clamped)
        least, most = single(self.exact.least - zero), single(self.exact.most - zero)
        return f"nearest({value}, {least}, {most}) + {zero}"

    def plane_result(self, step: Places) -> Lines:
        """Return where the only pixel of running values goes."""
        yield f"    int8_t *result = {step.only_result};"

    def after_last_pixel(self, step: Places) -> Lines:
        """Return functions of the results of running values, and the line that counts what leaves."""
        for each in self.after:
            yield f"    for (int c = 0; c < {self.outputs}; c++)"
            yield f"        result[c] = (int8_t){each.value.format('result[c]')};"
        if step.result_leaves:
            if step.result_unsigned:
                yield f"    flip_signs(result, {self.outputs});"
            yield f"    MOVED({self.outputs});"


def _array(kind: str, name: str, values: NDArray[Any]) -> Lines:
    yield f"static const {kind} {name}[{values.size}] = {{"
    yield from number_rows(values.reshape(-1).tolist(), "    ")
    yield "};"
    yield ""


def number_rows(values: Sequence[int], indent: str) -> Lines:
    """Return the numbers of an array, some in a line."""
    for first in range(0, len(values), 20):
        yield indent + ", ".join(map(str, values[first : first + 20])) + ","


POINT = 8
"""Bits behind the point of a factor in integers, less 16 of what is kept behind that of a product."""


class WithWeights(CodedOperation):
    """An operation with weights: a function rescales each of its sums.

    Attributes
    ----------
    by_integers
        Whether sums and factors in single precision are so small that integers hold their products.
    """

    exact: Weighted

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        if self.exact.weight_zero_point or self.exact.weights.dtype != np.int8:
            raise refusal(operation, "there is no C for weights with a zero point that int8 does not hold")
        if self.exact.rounding == "wide":
            raise refusal(operation, "there is no C for sums of 64 bits")
        weights = self.exact.weights.reshape(len(self.exact.weights), -1).astype(np.int64)
        most = np.abs(self.exact.bias.astype(np.int64)) + 2**8 * np.abs(weights).sum(axis=1)
        products, powers = most * np.abs(self.exact.scale), np.frexp(self.exact.scale)[1]
        self.by_integers = bool(
            (most < 2**24).all()
            and (products < 2**14).all()
            and ((powers < POINT) & (powers > POINT - 60)).all()
        )
        if int(most.max(initial=0)) >= 2**31:
            raise refusal(operation, "has sums that 32 bits may not hold")
        self.bias = self.exact.bias.astype(np.int64) - self.exact.input_zero_point * weights.sum(axis=1)

    def packed(self) -> NDArray[np.int8]:
        """Return weights as the C reads them."""
        raise NotImplementedError

    def constants(self) -> Lines:
        """Return weights, biases, and the function that rescales."""
        yield from _array("int8_t", f"{self.name}_weights", self.packed())
        yield from _array("int32_t", f"{self.name}_bias", self.bias)
        zero = self.exact.output_zero_point
        if self.exact.rounding == "doubles":
            yield from _reals("double", f"{self.name}_scale", self.exact.scale)
            scaled = f"scaled_in_doubles(sum, {self.name}_scale[output])"
        elif self.exact.rounding == "singles":
            yield from _reals("float", f"{self.name}_scale", self.exact.scale)
            scaled = self.nearest(f"(float)sum * {self.name}_scale[output]", zero)
            if self.by_integers:
                parts, powers = np.frexp(self.exact.scale)
                yield from _array("int32_t", f"{self.name}_multiplier", (parts * 2**24).astype(np.int32))
                yield from _array("int8_t", f"{self.name}_shift", POINT - powers)
                limits = f"{self.exact.least - zero}, {self.exact.most - zero}"
                factors = ", ".join(
                    f"{self.name}_{each}[output]" for each in ("multiplier", "shift", "scale")
                )
                scaled = f"nearest_of_sum(sum, {factors}, {limits}) + {zero}"
            yield from self._rescaled(scaled)
            return
        elif self.exact.added is not None:
            yield from _array("int32_t", f"{self.name}_multiplier", self.exact.multiplier)
            yield from _array("int64_t", f"{self.name}_added", self.exact.added)
            yield from _array("int8_t", f"{self.name}_shift", self.exact.shift)
            product = f"(int64_t)sum * {self.name}_multiplier[output] + {self.name}_added[output]"
            scaled = f"(int32_t)(({product}) >> {self.name}_shift[output])"
        else:
            yield from _array("int32_t", f"{self.name}_multiplier", self.exact.multiplier)
            yield from _array("int8_t", f"{self.name}_shift", self.exact.shift)
            scaled = f"scaled(sum, {self.name}_multiplier[output], {self.name}_shift[output])"
            if (self.exact.shift <= 0).all():
                high = f"multiply_high(sum, {self.name}_multiplier[output])"
                scaled = f"divide_by_power({high}, -{self.name}_shift[output])"
        yield from self._rescaled(f"limited({scaled} + {zero}, {self.limits()})")

    def _rescaled(self, value: str) -> Lines:
        yield f"INLINE int32_t {self.name}_rescaled(int output, int32_t sum)"
        yield "{"
        yield f"    return {value};"
        yield "}"
        yield ""

    def convolved(self, step: Places, own: StepMap, count: int, channels: int) -> Lines:
        """Return what computes a pixel of taps."""
        yield f"int8_t *result = {step.result(own)};"
        sizes = f"{count}, {channels}, {self.outputs}"
        names = f"{self.name}_weights, {self.name}_bias, {self.name}_rescaled"
        yield f"CONVOLUTION(result, taps, {sizes}, {names});"


def _reals(kind: str, name: str, values: NDArray[np.floating[Any]]) -> Lines:
    yield f"static const {kind} {name}[{values.size}] = {{"
    for value in values.tolist():
        yield f"    {single(value) if kind == 'float' else float(value).hex()},"
    yield "};"
    yield ""


def single(value: float) -> str:
    """Return a number of single precision as C has it, exactly."""
    return f"{float(np.float32(value)).hex()}f"


def blocked(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return weights (outputs, values of each) in blocks of four outputs, value by value.

    The last outputs, which are fewer than four, follow one by one.
    """
    whole = len(weights) // BLOCK * BLOCK
    first = weights[:whole].reshape(-1, BLOCK, weights.shape[1]).transpose(0, 2, 1)
    return np.concatenate([first.reshape(-1), weights[whole:].reshape(-1)])


class Convolution(WithWeights):
    """A convolution: of all channels, or depthwise."""

    exact: QuantisedConvolution

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.taps = self.geometry[2][0] * self.geometry[2][1]
        if self.taps > MOST_TAPS:
            raise refusal(operation, f"there is no C for windows of more than {MOST_TAPS} places")
        spec = operation.op.spec
        if self.exact.stride != self.geometry[0] or self.exact.dilation != self.geometry[3]:
            raise refusal(operation, "has another window in the file")
        if isinstance(spec, Window) and any(spec.padding):
            self.padded = self.exact.input_zero_point

    def packed(self) -> NDArray[np.int8]:
        """Return weights tap by tap, in blocks of outputs; of a depthwise one channel by channel."""
        weights = self.exact.weights.reshape(len(self.exact.weights), -1)
        return weights.reshape(-1) if self.exact.groups > 1 else blocked(weights)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel."""
        yield f"const int8_t *taps[{self.taps}];"
        yield from step.window(self.source, own, self)
        if self.exact.groups == 1:
            yield from self.convolved(step, own, self.taps, self.channels)
            return
        yield f"int8_t *result = {step.result(own)};"
        names = f"{self.name}_weights, {self.name}_bias, {self.name}_rescaled"
        inputs, outputs = (count // self.exact.groups for count in (self.channels, self.outputs))
        if (inputs, outputs) == (1, 1):
            yield f"DEPTHWISE(result, taps, {self.taps}, {self.channels}, {names});"
        else:
            yield f"GROUPED(result, taps, {self.taps}, {inputs}, {outputs}, {self.outputs}, {names});"


class Product(WithWeights):
    """A fully connected layer, of a pixel or of a map whose pixels lie side by side."""

    exact: QuantisedFullyConnected
    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        by_pixel = operation.readings[0].extent is not None
        given = graph.tensors[self.source]
        if self.exact.weights.shape[1] != (given.channels if by_pixel else given.size):
            raise refusal(operation, "there is no C for products of other rows than pixels")

    def packed(self) -> NDArray[np.int8]:
        """Return weights in blocks of outputs."""
        return blocked(self.exact.weights)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel."""
        depth, place = self.exact.weights.shape[1], f"arena + {step.address(self.source)}"
        if depth == self.channels:
            place = step.at(self.source, "0", "0") if self.whole else step.pixel(self.source, own)
        yield f"const int8_t *taps[1] = {{{place}}};"
        yield from self.convolved(step, own, 1, depth)

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel's products to the sums of all outputs."""
        yield from first_and_last(step, own)
        columns, size = self.graph.tensors[self.source].shape[2], self.channels
        yield f"const int pixel = y{own.tensor} * {columns} + x{own.tensor} + {step.begin(own)};"
        yield f"const int8_t *taps[1] = {{{step.pixel(self.source, own)}}};"
        yield f"int8_t *sums = arena + {own.address};"
        depth, whole = self.exact.weights.shape[1], self.outputs // BLOCK * BLOCK
        if whole:
            yield f"for (int o = 0; o < {whole}; o += {BLOCK}) {{"
            yield f"    const int8_t *own = {self.name}_weights + o * {depth} + pixel * {BLOCK * size};"
            yield f"    int32_t four[{BLOCK}];"
            yield f"    for (int k = 0; k < {BLOCK}; k++)"
            yield f"        four[k] = first ? {self.name}_bias[o + k] : sum_at(sums + 4 * (o + k));"
            yield f"    sum_four(taps, 1, {size}, own, four);"
            yield f"    for (int k = 0; k < {BLOCK}; k++)"
            yield "        put_sum(sums + 4 * (o + k), four[k]);"
            yield "}"
        if whole < self.outputs:
            yield f"for (int o = {whole}; o < {self.outputs}; o++) {{"
            yield f"    const int8_t *own = {self.name}_weights + o * {depth} + pixel * {size};"
            yield f"    const int32_t before = first ? {self.name}_bias[o] : sum_at(sums + 4 * o);"
            yield f"    put_sum(sums + 4 * o, sum_one(taps, 1, {size}, own, before));"
            yield "}"
        yield "if (last) {"
        yield from self.plane_result(step)
        yield f"    for (int o = 0; o < {self.outputs}; o++)"
        yield f"        result[o] = (int8_t){self.name}_rescaled(o, sum_at(sums + 4 * o));"
        yield from self.after_last_pixel(step)
        yield "}"


class Pool(CodedOperation):
    """Averages or maxima of windows."""

    exact: Pooled

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.average = isinstance(exact, QuantisedAveragePool)
        self.taps = self.geometry[2][0] * self.geometry[2][1]

    def channel_by_channel(self, step: Places, own: StepMap) -> Lines:
        """Return what finds the taps and the result of a pixel, and begins the loop over its channels."""
        if self.taps > MOST_TAPS:
            raise refusal(self.operation, f"there is no C for windows of more than {MOST_TAPS} places")
        yield f"const int8_t *taps[{self.taps}];"
        yield from step.window(self.source, own, self)
        yield f"int8_t *result = {step.result(own)};"
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"

    def average_of(self, sum_: str, count: str) -> str:
        """Return an average, rounded to the nearest, halves away from zero, within the limits."""
        return f"limited(average({sum_}, {count}), {self.limits()})"

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel; places of the padding are left out."""
        yield from self.channel_by_channel(step, own)
        yield f"    int32_t found = {0 if self.average else -128}, count = 0;"
        yield f"    for (int tap = 0; tap < {self.taps}; tap++)"
        yield "        if (taps[tap]) {"
        if self.average:
            yield "            found += taps[tap][c];"
            yield "            count++;"
        else:
            yield "            found = taps[tap][c] > found ? taps[tap][c] : found;"
        yield "        }"
        if self.average:
            value = self.average_of("found", "count")
        else:
            yield "    (void)count;"
            value = f"limited(found, {self.limits()})"
        yield f"    result[c] = (int8_t){value};"
        yield "}"

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel to sums, or to maxima."""
        if self.average:
            plane = str(self.graph.tensors[self.source].pixels)
            yield from running_values(self, step, own, lambda sum_: self.average_of(sum_, plane))
        else:
            yield from running_values(self, step, own, None)


def first_and_last(step: Places, own: StepMap) -> Lines:
    """Return whether the pixel in hand is the first, or the last, that running values are made of."""
    t, strips = own.tensor, step.strips
    first, last = f"!y{t} && !x{t}", f"y{t} == {own.rows - 1} && x{t} == {step.width(own)} - 1"
    if strips > 1:
        first, last = f"{first} && !strip", f"{last} && strip == {strips - 1}"
    yield f"const int first = {first}, last = {last};"


def running_values(
    coded: CodedOperation, step: Places, own: StepMap, value: Callable[[str], str] | None
) -> Lines:
    """Return what adds a pixel to the running values of each channel, and the results after the last one.

    Parameters
    ----------
    value
        What becomes of a sum; None for maxima.
    """
    yield f"const int8_t *x = {step.pixel(coded.source, own)};"
    yield from first_and_last(step, own)
    yield f"for (int c = 0; c < {coded.outputs}; c++) {{"
    if value is None:
        yield f"    int8_t *most = arena + {own.address} + c;"
        yield "    *most = first || x[c] > *most ? x[c] : *most;"
    else:
        yield f"    int8_t *sum = arena + {own.address} + 4 * c;"
        yield "    put_sum(sum, (first ? 0 : sum_at(sum)) + x[c]);"
    yield "}"
    yield "if (last) {"
    yield from coded.plane_result(step)
    yield f"    for (int c = 0; c < {coded.outputs}; c++)"
    found = f"limited(arena[{own.address} + c], {coded.limits()})"
    if value is not None:
        found = value(f"sum_at(arena + {own.address} + 4 * c)")
    yield f"        result[c] = (int8_t){found};"
    yield from coded.after_last_pixel(step)
    yield "}"


class AveragesInSingles(Pool):
    """Averages of what numbers stand for, in single precision."""

    exact: AveragePoolInSingles

    def average_in_singles(self, sum_: str, count: str) -> str:
        """Return the average of a sum."""
        e = self.exact
        average = f"{sum_} / (float)({count}) / {single(e.output_scale)}"
        return self.nearest(f"{average} + {single(e.output_zero_point)}", -e.offset)

    def stands_for(self, value: str) -> str:
        """Return what a number stands for."""
        zero = self.exact.input_zero_point - self.exact.offset
        return f"{single(self.exact.input_scale)} * (float)({value} - {zero})"

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel; places of the padding are left out."""
        yield from self.channel_by_channel(step, own)
        yield "    float found = 0;"
        yield "    int32_t count = 0;"
        yield f"    for (int tap = 0; tap < {self.taps}; tap++)"
        yield "        if (taps[tap]) {"
        yield f"            found += {self.stands_for('taps[tap][c]')};"
        yield "            count++;"
        yield "        }"
        count = "count"
        if self.exact.counts_padding:
            yield "    (void)count;"
            count = str(self.taps)
        yield f"    result[c] = (int8_t)({self.average_in_singles('found', count)});"
        yield "}"

    def running(self, step: Places, own: StepMap) -> Lines:
        """Refuse running values: those of a whole plane are sums of integers, which `MeanOfSums` has."""
        raise refusal(self.operation, "there is no C for averages with running values")


class Mean(CodedOperation):
    """A mean over a plane."""

    exact: QuantisedMean | MeanInSingles
    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.taps = graph.tensors[self.source].pixels
        if self.taps != self.exact.count or graph.tensors[operation.number + 1].pixels != 1:
            raise refusal(operation, "there is no C for means over other axes than rows and columns")

    def value(self, sum_: str) -> str:
        """Return the mean of a sum."""
        exact = self.exact
        assert isinstance(exact, QuantisedMean)
        whole = f"{sum_} - {exact.count * exact.input_zero_point}"
        scaled = f"scaled({whole}, {exact.multiplier}, {exact.shift}) + {exact.output_zero_point}"
        return f"limited({scaled}, {self.limits()})"

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel of a plane that is there, pixel by pixel in order."""
        yield f"const int8_t *x = arena + {step.address(self.source)};"
        yield f"int8_t *result = {step.result(own)};"
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"
        yield "    int32_t found = 0;"
        yield f"    for (int pixel = 0; pixel < {self.taps}; pixel++)"
        yield f"        found += x[pixel * {self.outputs} + c];"
        yield f"    result[c] = (int8_t){self.value('found')};"
        yield "}"

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel to sums."""
        yield from running_values(self, step, own, self.value)


class MeanOfSums(Mean):
    """A mean over a plane: a sum of integers, which is multiplied in single precision."""

    exact: MeanInSingles

    def value(self, sum_: str) -> str:
        """Return the mean of a sum."""
        exact = self.exact
        whole = f"({sum_} - {exact.count * exact.input_zero_point})"
        return self.nearest(f"(float){whole} * {single(exact.scale)}", exact.output_zero_point)


class OfValues(CodedOperation):
    """An operation of values at the same place; an operand may be one channel, or one pixel, for all."""

    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        channels, *plane = graph.tensors[operation.number + 1].shape
        self.reads = [access.source + 1 for access in operation.op.accesses]
        for tensor in self.reads:
            own, *planes = graph.tensors[tensor].shape
            if own not in (1, channels) or planes not in (plane, [1, 1]):
                raise refusal(operation, "there is no C for operands of such shapes")
        if len(self.reads) != len(exact.inputs):
            raise refusal(operation, "there is no C for numbers of the file as operands")

    def value(self, *operands: str) -> str:
        """Return the result of numbers."""
        raise NotImplementedError

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel."""
        plane, names = self.graph.tensors[own.tensor].shape[1:], list[str]()
        for letter, tensor in zip("ab", self.reads, strict=False):
            channels, *planes = self.graph.tensors[tensor].shape
            place = step.pixel(tensor, own) if (*planes,) == plane else step.at(tensor, "0", "0")
            yield f"const int8_t *{letter} = {place};"
            names.append(f"{letter}[{'c' if channels > 1 else '0'}]")
        yield f"int8_t *result = {step.result(own)};"
        yield f"for (int c = 0; c < {self.outputs}; c++)"
        yield f"    result[c] = (int8_t)({self.value(*names)});"


class Sum(OfValues):
    """A sum or difference."""

    exact: QuantisedSum

    def value(self, *operands: str) -> str:
        """Return the sum of two numbers."""
        e, (a, b) = self.exact, operands
        factor = 1 << e.left_shift
        first = f"scaled(({a} - {e.first_zero_point}) * {factor}, {e.first_multiplier}, {e.first_shift})"
        second = f"scaled(({b} - {e.second_zero_point}) * {factor}, {e.second_multiplier}, {e.second_shift})"
        total = f"{first} {'-' if e.difference else '+'} {second}"
        scaled = f"scaled({total}, {e.output_multiplier}, {e.output_shift}) + {e.output_zero_point}"
        return f"limited({scaled}, {self.limits()})"


class Times(OfValues):
    """A product of two maps."""

    exact: QuantisedProduct

    def value(self, *operands: str) -> str:
        """Return the product of two numbers."""
        e, (a, b) = self.exact, operands
        product = f"({a} - {e.first_zero_point}) * ({b} - {e.second_zero_point})"
        scaled = f"scaled({product}, {e.multiplier}, {e.shift}) + {e.output_zero_point}"
        return f"limited({scaled}, {self.limits()})"


LARGEST_SUM = 2**11
"""Sums of two tensors that integers hold with 18 bits behind their point, and with an error below 2 ** -9."""


class SumOfSingles(OfValues):
    """A sum in single precision."""

    exact: SumInSingles

    def value(self, *operands: str) -> str:
        """Return the sum of two numbers."""
        e, (a, b) = self.exact, (f"{each} + {self.exact.offset}" for each in operands)
        parts = e.fixed, e.first_ratio, e.second_ratio
        if abs(e.fixed) + 255 * (e.first_ratio + e.second_ratio) < LARGEST_SUM:
            integers = ", ".join(str(round(each * 2**18)) for each in parts)
            floats = ", ".join(map(single, parts))
            limits = f"{e.least + e.offset}, {e.most + e.offset}"
            return f"nearest_of_two({a}, {b}, {integers}, {floats}, {limits}) - {e.offset}"
        fixed, first, second = map(single, parts)
        return self.nearest(f"{fixed} + (float)({a}) * {first} + (float)({b}) * {second}", -e.offset)


class TimesInSingles(OfValues):
    """A product of two maps in single precision."""

    exact: ProductInSingles

    def value(self, *operands: str) -> str:
        """Return the product of two numbers."""
        e, (a, b) = self.exact, operands
        first, second = e.first_zero_point - e.offset, e.second_zero_point - e.offset
        product = f"(float)(({a} - {first}) * ({b} - {second})) * {single(e.ratio)}"
        return self.nearest(f"{product} + {single(e.output_zero_point)}", -e.offset)


class OfOneValue(OfValues):
    """A function of single values: a table, or another scale."""

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.function = function_of(exact, name)

    def constants(self) -> Lines:
        """Return the table."""
        yield from self.function.constants

    def value(self, *operands: str) -> str:
        """Return the function of a number."""
        return self.function.value.format(*operands)


class Border(CodedOperation):
    """A map with a border of a number, and with further channels that have it."""

    exact: Padded
    reads_row = True

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what copies a pixel, or fills it."""
        (channels, rows, columns), t = self.graph.tensors[self.source].shape, own.tensor
        (images, _), (top, _), (left, _), (first, last) = self.exact.padding
        if images or first + channels + last != self.outputs:
            raise refusal(self.operation, "there is no C for such a border")
        yield f"const int row = y{t} - {top}, column = x{t} + {step.begin(own)} - {left};"
        yield f"int8_t *result = {step.result(own)};"
        yield f"memset(result, {self.exact.value}, {self.outputs});"
        yield f"if (row >= 0 && row < {rows} && column >= 0 && column < {columns})"
        yield f"    memcpy(result + {first}, {step.at(self.source, 'row', 'column')}, {channels});"


class Copy(CodedOperation):
    """The same numbers in the same order, perhaps in another shape."""

    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation | None, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        given = graph.tensors[self.source]
        result = graph.tensors[operation.number + 1]
        if len(operation.op.accesses) != 1 or given.size != result.size:
            raise refusal(operation, "there is no C for an operation that is none in the file")
        if not self.whole and given.shape != result.shape:
            raise refusal(operation, "there is no C for such a change of shape")

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what copies a pixel."""
        place = step.pixel(self.source, own)
        if self.whole:
            columns = self.graph.tensors[own.tensor].shape[2]
            pixel = f"(y{own.tensor} * {columns} + x{own.tensor}) * {self.outputs}"
            place = f"arena + {step.address(self.source)} + {pixel}"
        yield f"int8_t *result = {step.result(own)};"
        yield f"memcpy(result, {place}, {self.outputs});"


class Softmax(CodedOperation):
    """Softmax of the channels of a pixel."""

    exact: QuantisedSoftmax
    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        e = self.exact
        if (e.bits, e.least, e.most) != (8, -128, 127) or graph.tensors[self.source].pixels != 1:
            raise refusal(operation, "there is no C for softmax of several pixels, or of 16 bits")

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel."""
        e = self.exact
        yield f"int8_t *result = {step.result(own)};"
        yield f"softmax(result, arena + {step.address(self.source)}, {self.outputs}, {e.multiplier},"
        yield f"    {e.left_shift}, {e.least_difference});"


class SoftmaxOfPowers(CodedOperation):
    """Softmax of the channels of a pixel, of a table of powers in single precision."""

    exact: SoftmaxInSingles
    reads_row = True

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        if graph.tensors[self.source].pixels != 1:
            raise refusal(operation, "there is no C for softmax of several pixels")

    def constants(self) -> Lines:
        """Return the powers."""
        yield from _reals("float", f"{self.name}_powers", self.exact.powers)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel."""
        part = f"powers[x[c]] * {single(self.exact.output_scale)} / sum"
        yield f"int8_t *result = {step.result(own)};"
        yield f"const int8_t *x = arena + {step.address(self.source)};"
        yield "int32_t largest = x[0];"
        yield f"for (int c = 1; c < {self.outputs}; c++)"
        yield "    largest = x[c] > largest ? x[c] : largest;"
        yield f"const float *powers = {self.name}_powers + (255 - largest);"
        yield "float sum = 0;"
        yield f"for (int c = 0; c < {self.outputs}; c++)"
        yield "    sum += powers[x[c]];"
        yield f"for (int c = 0; c < {self.outputs}; c++)"
        yield f"    result[c] = (int8_t)({self.nearest(part, self.exact.output_zero_point)});"


def padding_name(value: int) -> str:
    """Return what C calls a pixel of one number."""
    return f"padding_{'minus_' if value < 0 else ''}{abs(value)}"
