"""C for the operations of a quantised network: constants, and what computes a pixel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.microcontroller.arrays import array_lines, single
from tilewright.codegen.microcontroller.formulas import clamped, nearest
from tilewright.codegen.microcontroller.rescaling import Rescaling
from tilewright.residency.graph import Graph, Operation
from tilewright.simulator.arithmetic.quantised import (
    AveragePoolInSingles,
    ExactOperation,
    MeanInSingles,
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedFullyConnected,
    QuantisedMean,
)
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
    copied
        Where the weights are that the step has copied, by operation.
    streams
        Whether it computes `outputs` channels from `first` on, whose weights it has copied.
    """

    strips: int
    copied: Mapping[int, str]
    streams: bool

    def address(self, tensor: int) -> str:
        """Return where a map lies in RAM."""

    def has_all_channels(self, tensor: int, operation: Operation) -> None:
        """Refuse a map of which the step has some channels alone."""

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

    def window(self, tensor: int, own: StepMap, coded: CodedOperation, taps: str = "taps") -> Iterator[str]:
        """Return the lines that find the taps of a window, in an array that is declared."""

    def names(self, own: StepMap) -> tuple[str, str, str]:
        """Return the variables of the row and column of the pixel in the whole plane, and of its channels."""

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


def refusal(operation: Operation, limit: str) -> InputError:
    """Return the error that names an operation."""
    return InputError(f"layer {operation.name}", operation.op.spec.kind, limit)


class Functions(Protocol):
    """What is done with the results of a pixel, value by value."""

    def lines(self, names: tuple[str, str, str], *, streams: bool = False) -> Lines:
        """Return what changes `result`, given the variables of row, column and channel.

        Parameters
        ----------
        streams
            Whether there are `outputs` results, from channel `first` on.
        """

    def constants(self) -> Lines:
        """Return what stands before the steps, once lines have been asked for."""


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
        self.after: Functions | None = None
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
        """Return what stands before the steps, that of functions behind it included, once these are made."""
        yield from self.constants()
        if self.after is not None:
            yield from self.after.constants()

    def constants(self) -> Lines:
        """Return what stands before the steps."""
        yield from ()

    def computed(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel, functions of its values and what leaves included."""
        yield from self.pixel(step, own)
        if self.after is not None:
            yield from self.after.lines(step.names(own), streams=step.streams)
        yield from step.leave(own)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel, to `result`."""
        raise NotImplementedError

    def copy_weights(self, place: str) -> Lines:
        """Return what copies the weights to a place."""
        raise refusal(self.operation, f"there is no C for {self.kind} with weights that are copied")

    def streamed(self, block: int) -> None:
        """Have weights of so many outputs copied at a time."""
        del block
        raise refusal(self.operation, f"there is no C for {self.kind} with weights that are copied in blocks")

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel to running values, and gives the result after the last one."""
        raise refusal(self.operation, f"there is no C for {self.kind} with running values")

    def plane_result(self, step: Places) -> Lines:
        """Return where the only pixel of running values goes."""
        yield f"    value_t *result = {step.only_result};"

    def after_last_pixel(self, step: Places) -> Lines:
        """Return functions of the results of running values, and the line that counts what leaves."""
        if self.after is not None:
            yield from ("    " + line for line in self.after.lines(("0", "0", "c")))
        if step.result_leaves:
            if step.result_unsigned:
                yield f"    flip_signs(result, {self.outputs});"
            yield f"    MOVED({self.outputs});"


class WithWeights(CodedOperation):
    """An operation with weights: a function rescales each of its sums.

    Attributes
    ----------
    block
        Outputs whose weights a step copies at a time; None where it does not.
    """

    exact: Weighted
    block: int | None = None

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.rescaling = Rescaling.of_weights(self.exact)
        if self.rescaling.wraps:
            raise refusal(operation, "has sums that 32 bits may not hold")
        weights = self.exact.weights.astype(np.int64) - self.exact.weight_zero_point
        self.narrow = bool((weights >= -128).all() and (weights <= 127).all())
        self.weights = weights.astype(np.int8 if self.narrow else np.int16)
        if self.rescaling.wide and not self.narrow:
            raise refusal(operation, "there is no C for sums of 64 bits with weights of more than 8")
        sums = weights.reshape(len(weights), -1).sum(axis=1)
        self.bias = self.exact.bias.astype(np.int64) - self.exact.input_zero_point * sums

    @property
    def kernel(self) -> str:
        """What C calls the types of weights and sums."""
        return "of_8_wide" if self.rescaling.wide else "of_8" if self.narrow else "of_16"

    def packed(self) -> NDArray[Any]:
        """Return weights as the C reads them."""
        raise NotImplementedError

    def weights_of(self, step: Places) -> str:
        """Return where the weights are that a step reads: in flash, or where it has copied them."""
        place = step.copied.get(self.operation.number)
        if place is None:
            return f"{self.name}_weights"
        # Of 8 bits they may lie among values of 16.
        return (
            place if np.dtype(self.exact.type).itemsize == 1 else f"(const weight_{self.kernel} *)({place})"
        )

    def copy_weights(self, place: str) -> Lines:
        """Return what copies the weights to a place."""
        element = np.dtype(self.exact.type).itemsize
        if self.packed().nbytes > self.operation.copyable * element:
            raise refusal(self.operation, "there is no C for copies of weights that take more than planned")
        weights = f"{self.name}_weights"
        if self.block is None:
            yield f"memcpy({place}, {weights}, sizeof {weights});"
            return
        depth = self.weights.size // self.outputs
        size = f"(size_t)(outputs * {depth}) * sizeof *{weights}"
        yield f"memcpy({place}, {weights} + first * {depth}, {size});"

    def constants(self) -> Lines:
        """Return weights, biases, and the function that rescales."""
        yield from array_lines("int8_t" if self.narrow else "int16_t", f"{self.name}_weights", self.packed())
        yield from array_lines(
            "int64_t" if self.rescaling.wide else "int32_t", f"{self.name}_bias", self.bias
        )
        yield from self.rescaling.lines(self.name)

    def convolved(self, step: Places, own: StepMap, count: int, channels: int) -> Lines:
        """Return what computes a pixel of taps."""
        yield f"value_t *result = {step.result(own)};"
        sizes = f"{count}, {channels}, {self.outputs}"
        names = f"{self.weights_of(step)}, {self.name}_bias, {self.name}_rescaled"
        yield f"CONVOLUTION({self.kernel}, result, taps, {sizes}, {names});"

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel's products to the sums of all outputs."""
        yield from first_and_last(step, own)
        columns, size = self.graph.tensors[self.source].shape[2], self.channels
        kind, at = self.kernel, room_of_sum(self, wide=self.rescaling.wide)
        get, put = ("wide_at", "put_wide") if self.rescaling.wide else ("sum_at", "put_sum")
        yield f"const int pixel = y{own.tensor} * {columns} + x{own.tensor} + {step.begin(own)};"
        yield f"const value_t *taps[1] = {{{step.pixel(self.source, own)}}};"
        yield f"value_t *sums = {own.address};"
        depth, whole = self.weights.reshape(len(self.weights), -1).shape[1], self.outputs // BLOCK * BLOCK
        if whole:
            yield f"for (int o = 0; o < {whole}; o += {BLOCK}) {{"
            where = f"o * {depth} + pixel * {BLOCK * size}"
            yield f"    const weight_{kind} *own = {self.weights_of(step)} + {where};"
            yield f"    wide_{kind} four[{BLOCK}];"
            yield f"    for (int k = 0; k < {BLOCK}; k++)"
            yield f"        four[k] = first ? {self.name}_bias[o + k] : {get}(sums + {at} * (o + k));"
            yield f"    sum_four_{kind}(taps, 1, {size}, own, four);"
            yield f"    for (int k = 0; k < {BLOCK}; k++)"
            yield f"        {put}(sums + {at} * (o + k), four[k]);"
            yield "}"
        if whole < self.outputs:
            yield f"for (int o = {whole}; o < {self.outputs}; o++) {{"
            yield f"    const weight_{kind} *own = {self.weights_of(step)} + o * {depth} + pixel * {size};"
            yield f"    const wide_{kind} before = first ? {self.name}_bias[o] : {get}(sums + {at} * o);"
            yield f"    {put}(sums + {at} * o, sum_one_{kind}(taps, 1, {size}, own, before));"
            yield "}"
        yield from self.results_of_sums(step)

    def results_of_sums(self, step: Places) -> Lines:
        """Return what makes results of running sums after the last pixel."""
        at, get = room_of_sum(self, wide=self.rescaling.wide), "wide_at" if self.rescaling.wide else "sum_at"
        yield "if (last) {"
        yield from self.plane_result(step)
        yield f"    for (int o = 0; o < {self.outputs}; o++)"
        yield f"        result[o] = (value_t){self.name}_rescaled(o, {get}(sums + {at} * o));"
        yield from self.after_last_pixel(step)
        yield "}"


def blocked(weights: NDArray[Any]) -> NDArray[Any]:
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
        if self.exact.weights.shape[1:3] != self.geometry[2]:
            raise refusal(operation, "has another kernel in the file")
        if isinstance(spec, Window) and any(spec.padding):
            self.padded = self.exact.input_zero_point

    def packed(self) -> NDArray[Any]:
        """Return weights tap by tap, in blocks of outputs; of a depthwise one channel by channel."""
        weights = self.weights.reshape(len(self.weights), -1)
        return weights.reshape(-1) if self.exact.groups > 1 else blocked(weights)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel."""
        yield f"const value_t *taps[{self.taps}];"
        yield from step.window(self.source, own, self)
        if step.streams:
            yield from self.some_outputs(step, own)
            return
        if self.exact.groups == 1:
            yield from self.convolved(step, own, self.taps, self.channels)
            return
        yield f"value_t *result = {step.result(own)};"
        names = f"{self.weights_of(step)}, {self.name}_bias, {self.name}_rescaled"
        inputs, outputs = (count // self.exact.groups for count in (self.channels, self.outputs))
        if (inputs, outputs) == (1, 1):
            yield f"DEPTHWISE({self.kernel}, result, taps, {self.taps}, {self.channels}, {names});"
        else:
            sizes = f"{self.taps}, {inputs}, {outputs}, {self.outputs}"
            yield f"GROUPED({self.kernel}, result, taps, {sizes}, {names});"

    def running(self, step: Places, own: StepMap) -> Lines:
        """Return what adds a pixel's products to the sums of all outputs; the window is the whole plane."""
        if self.exact.groups == 1:
            yield from super().running(step, own)
            return
        if self.exact.groups != self.outputs or self.channels != self.outputs:
            raise refusal(self.operation, "there is no C for convolutions in groups with running values")
        at = room_of_sum(self, wide=self.rescaling.wide)
        get, put = ("wide_at", "put_wide") if self.rescaling.wide else ("sum_at", "put_sum")
        yield from first_and_last(step, own)
        columns = self.graph.tensors[self.source].shape[2]
        yield f"const int pixel = y{own.tensor} * {columns} + x{own.tensor} + {step.begin(own)};"
        yield f"const value_t *x = {step.pixel(self.source, own)};"
        yield f"value_t *sums = {own.address};"
        weights = self.weights_of(step)
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"
        yield f"    const wide_{self.kernel} before = first ? {self.name}_bias[c] : {get}(sums + {at} * c);"
        yield f"    {put}(sums + {at} * c, before + x[c] * ({weights})[c * {self.taps} + pixel]);"
        yield "}"
        yield from self.results_of_sums(step)

    def streamed(self, block: int) -> None:
        """Have weights of so many outputs copied at a time."""
        self.block = block

    def constants(self) -> Lines:
        """Return weights, biases, what rescales, and what computes the outputs whose weights are there."""
        yield from super().constants()
        if self.block is None:
            return
        kind, outputs = self.kernel, "const value_t *const *taps, int first, int outputs"
        yield "/* A call leaves registers to the inner loops, in which others would be kept. */"
        yield f"static __attribute__((noinline)) void {self.name}_outputs("
        yield f"    value_t *result, const weight_{kind} *weights, {outputs})"
        yield "{"
        yield from ("    " + line for line in self.outputs_of("weights", "first + ", "outputs"))
        yield "}"
        yield ""

    def some_outputs(self, step: Places, own: StepMap) -> Lines:
        """Return the call that computes outputs of a pixel whose weights are there."""
        yield f"value_t *result = {step.result(own)};"
        yield f"{self.name}_outputs(result, {self.weights_of(step)}, taps, first, outputs);"

    def parts_read(self) -> list[tuple[str, int]]:
        """Return the taps of each map that is read, and how many channels they have."""
        return [("taps", self.channels)]

    def outputs_of(self, weights: str, first: str, outputs: str) -> Lines:
        """Return what computes outputs of a pixel, four at a time.

        Parameters
        ----------
        weights
            Where those of these outputs are, part by part.
        first
            What leads to the first of these outputs, if that is not the first of all.
        outputs
            How many there are.
        """
        kind, fewest = self.kernel, min(self.outputs, self.block or self.outputs)
        sums, before = list[str](), 0
        for taps, size in self.parts_read():
            own = f"{weights} + {outputs} * {before}" if before else weights
            sums.append(f"{taps}, {self.taps}, {size}, {own} + o * {self.taps * size}")
            before += self.taps * size
        yield "int o = 0;"
        if fewest >= BLOCK:
            yield f"for (; o + {BLOCK} <= {outputs}; o += {BLOCK}) {{"
            bias = ", ".join(f"{self.name}_bias[{first}o + {each}]" for each in range(BLOCK))
            yield f"    wide_{kind} sums[{BLOCK}] = {{{bias}}};"
            yield from (f"    sum_four_{kind}({each}, sums);" for each in sums)
            yield f"    for (int k = 0; k < {BLOCK}; k++)"
            yield f"        result[{first}o + k] = (value_t){self.name}_rescaled({first}o + k, sums[k]);"
            yield "}"
        if self.outputs % BLOCK:
            yield f"for (; o < {outputs}; o++) {{"
            yield f"    wide_{kind} sum = {self.name}_bias[{first}o];"
            yield from (f"    sum = sum_one_{kind}({each}, sum);" for each in sums)
            yield f"    result[{first}o] = (value_t){self.name}_rescaled({first}o, sum);"
            yield "}"


class ConvolutionOfParts(Convolution):
    """A convolution of maps whose channels are joined: sums of each are added up, one map after the other."""

    def __init__(
        self, graph: Graph, operation: Operation, exact: ExactOperation, name: str, parts: Sequence[int]
    ) -> None:
        super().__init__(graph, operation, exact, name)
        self.parts = parts
        self.sizes = [graph.tensors[each].channels for each in parts]
        self.channels = max(self.sizes)
        if self.taps * len(parts) > MOST_TAPS:
            raise refusal(operation, f"there is no C for windows of more than {MOST_TAPS} places")

    def packed(self) -> NDArray[Any]:
        """Return weights part by part, each tap by tap, in blocks of outputs.

        Where a step copies weights of some outputs at a time, those of others lie behind them.
        """
        cuts, at_a_time = np.cumsum(self.sizes)[:-1].tolist(), self.block or self.outputs
        return np.concatenate(
            [
                blocked(part.reshape(len(part), -1))
                for first in range(0, self.outputs, at_a_time)
                for part in np.split(self.weights[first : first + at_a_time], cuts, axis=3)
            ]
        )

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel."""
        yield f"const value_t *taps[{self.taps * len(self.parts)}];"
        for tensor, (taps, _) in zip(self.parts, self.parts_read(), strict=True):
            yield from step.window(tensor, own, self, taps)
        if step.streams:
            yield from self.some_outputs(step, own)
            return
        yield f"value_t *result = {step.result(own)};"
        yield from self.outputs_of(self.weights_of(step), "", str(self.outputs))

    def parts_read(self) -> list[tuple[str, int]]:
        """Return the taps of each map that is read, and how many channels they have."""
        return [
            (f"(taps + {place * self.taps})" if place else "taps", size)
            for place, size in enumerate(self.sizes)
        ]

    def running(self, step: Places, own: StepMap) -> Lines:
        """Refuse running values."""
        raise refusal(self.operation, "there is no C for running values of maps that are joined")


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

    def in_order(self, places: NDArray[np.int64]) -> None:
        """Let inputs lie in other places of what is read."""
        self.weights = self.weights[:, np.argsort(places)]

    def packed(self) -> NDArray[Any]:
        """Return weights in blocks of outputs."""
        return blocked(self.weights)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel."""
        depth, place = self.exact.weights.shape[1], step.address(self.source)
        if depth == self.channels:
            place = step.at(self.source, "0", "0") if self.whole else step.pixel(self.source, own)
        yield f"const value_t *taps[1] = {{{place}}};"
        yield from self.convolved(step, own, 1, depth)


def room_of_sum(coded: CodedOperation, *, wide: bool = False) -> int:
    """Return the elements that a running sum takes as planned; refuse it where that is too few."""
    element = np.dtype(coded.exact.type).itemsize
    found, needed = coded.graph.sum_elements, 8 if wide else 4
    if found * element < needed:
        limit = f"has running sums of {needed} bytes; machine.sum_bytes = {needed} would do"
        raise refusal(coded.operation, limit)
    return found


class Pool(CodedOperation):
    """Averages or maxima of windows."""

    exact: Pooled

    def __init__(self, graph: Graph, operation: Operation, exact: ExactOperation, name: str) -> None:
        super().__init__(graph, operation, exact, name)
        self.average = isinstance(exact, QuantisedAveragePool)
        self.taps = self.geometry[2][0] * self.geometry[2][1]
        if (self.exact.stride, self.exact.kernel) != (self.geometry[0], self.geometry[2]):
            raise refusal(operation, "has another window in the file")

    def channel_by_channel(self, step: Places, own: StepMap) -> Lines:
        """Return what finds the taps and the result of a pixel, and begins the loop over its channels."""
        if self.taps > MOST_TAPS:
            raise refusal(self.operation, f"there is no C for windows of more than {MOST_TAPS} places")
        yield f"const value_t *taps[{self.taps}];"
        yield from step.window(self.source, own, self)
        yield f"value_t *result = {step.result(own)};"
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"

    def average_of(self, sum_: str, count: str) -> str:
        """Return an average, rounded to the nearest, halves away from zero, within the limits."""
        return clamped(self.exact, f"average({sum_}, {count})")

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel; places of the padding are left out."""
        yield from self.channel_by_channel(step, own)
        yield f"    int32_t found = {0 if self.average else -32768}, count = 0;"
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
            value = clamped(self.exact, "found")
        yield f"    result[c] = (value_t){value};"
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
    yield f"const value_t *x = {step.pixel(coded.source, own)};"
    yield from first_and_last(step, own)
    yield f"for (int c = 0; c < {coded.outputs}; c++) {{"
    if value is None:
        yield f"    value_t *most = {own.address} + c;"
        yield "    *most = first || x[c] > *most ? x[c] : *most;"
    else:
        yield f"    value_t *sum = {own.address} + {room_of_sum(coded)} * c;"
        yield "    put_sum(sum, (first ? 0 : sum_at(sum)) + x[c]);"
    yield "}"
    yield "if (last) {"
    yield from coded.plane_result(step)
    yield f"    for (int c = 0; c < {coded.outputs}; c++)"
    found = clamped(coded.exact, f"({own.address})[c]")
    if value is not None:
        found = value(f"sum_at({own.address} + {room_of_sum(coded)} * c)")
    yield f"        result[c] = (value_t){found};"
    yield from coded.after_last_pixel(step)
    yield "}"


class AveragesInSingles(Pool):
    """Averages of what numbers stand for, in single precision."""

    exact: AveragePoolInSingles

    def average_in_singles(self, sum_: str, count: str) -> str:
        """Return the average of a sum."""
        e = self.exact
        average = f"{sum_} / (float)({count}) / {single(e.output_scale)}"
        return nearest(e, f"{average} + {single(e.output_zero_point)}", -e.offset)

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
        yield f"    result[c] = (value_t)({self.average_in_singles('found', count)});"
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
        if tuple(self.exact.axes) != (1, 2) or graph.tensors[operation.number + 1].pixels != 1:
            raise refusal(operation, "there is no C for means over other axes than rows and columns")

    def value(self, sum_: str) -> str:
        """Return the mean of a sum."""
        exact = self.exact
        assert isinstance(exact, QuantisedMean)
        whole = f"{sum_} - {exact.count * exact.input_zero_point}"
        scaled = f"scaled({whole}, {exact.multiplier}, {exact.shift}) + {exact.output_zero_point}"
        return clamped(exact, scaled)

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes the only pixel of a plane that is there, pixel by pixel in order."""
        yield f"const value_t *x = {step.address(self.source)};"
        yield f"value_t *result = {step.result(own)};"
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"
        yield "    int32_t found = 0;"
        yield f"    for (int pixel = 0; pixel < {self.taps}; pixel++)"
        yield f"        found += x[pixel * {self.outputs} + c];"
        yield f"    result[c] = (value_t){self.value('found')};"
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
        return nearest(exact, f"(float){whole} * {single(exact.scale)}", exact.output_zero_point)


def padding_name(value: int) -> str:
    """Return what C calls a pixel of one number."""
    return f"padding_{'minus_' if value < 0 else ''}{abs(value)}"
