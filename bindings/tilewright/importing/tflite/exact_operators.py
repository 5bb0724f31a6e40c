"""TFLite's quantised operators as records of integers: what LiteRT prepares before it executes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np
import tflite
from numpy.typing import NDArray

from tilewright.importing.tflite.file import File, Operator, Tensor
from tilewright.importing.tflite.functions_of_one import (
    FUNCTIONS,
    hard_swish,
    points_of,
    sigmoids,
    table_of,
)
from tilewright.importing.tflite.graph import Unread
from tilewright.importing.tflite.operators import ACTIVATIONS, LIMITS, padding
from tilewright.simulator.arithmetic.quantised import (
    Concatenated,
    Dequantised,
    ExactOperation,
    Padded,
    Quantised,
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedExtremum,
    QuantisedFullyConnected,
    QuantisedInterpolation,
    QuantisedLarger,
    QuantisedMatrixProduct,
    QuantisedMaxPool,
    QuantisedMean,
    QuantisedProduct,
    QuantisedRescaling,
    QuantisedSigmoid,
    QuantisedSlopes,
    QuantisedSoftmax,
    QuantisedSum,
    QuantisedTable,
    QuantisedTransposedConvolution,
    QuantisedWideSoftmax,
    Rearranged,
    Reshaped,
    Stacked,
)
from tilewright.simulator.arithmetic.quantised.scaling import (
    cut_off,
    factor_of,
    factors_of,
    limits_of,
    round_half_away,
)
from tilewright.simulator.arithmetic.quantised.softmax import DIFFERENCE_BITS, SUM_BITS

Kernels = Literal["reference", "micro"]

INTEGERS = ("int8", "int16")
"""Types whose kernels are known."""

MOST_PLACES = 10**8
"""Most values of a tensor whose places are told one by one."""


class Reader:
    """The tensors of operators, checked.

    Parameters
    ----------
    kernels
        Whose arithmetic is meant where LiteRT's kernels differ.
    """

    def __init__(self, file: File, kernels: Kernels) -> None:
        self.file, self.kernels = file, kernels

    def tensor(self, operator: Operator, place: int) -> Tensor:
        """Return an input of an operator."""
        found = self.optional(operator, place)
        if found is None:
            raise Unread(f"it has {len(operator.inputs)} inputs, and needs {place + 1}")
        return found

    def optional(self, operator: Operator, place: int) -> Tensor | None:
        """Return an input of an operator, None if it is left out."""
        given = operator.inputs[place] if place < len(operator.inputs) else -1
        return self.file.tensors[given] if given >= 0 else None

    def known(self, operator: Operator, place: int) -> NDArray[Any]:
        """Return the numbers of an input that the file has to store."""
        tensor = self.tensor(operator, place)
        if tensor.numbers is None:
            raise Unread(f"its input {tensor.name} is computed")
        return tensor.numbers

    def output(self, operator: Operator, place: int = 0) -> Tensor:
        """Return an output of an operator."""
        if place >= len(operator.outputs) or operator.outputs[place] < 0:
            raise Unread(f"it has {len(operator.outputs)} outputs, and needs {place + 1}")
        return self.file.tensors[operator.outputs[place]]

    def over(self, divisor: np.float32, *factors: np.float32) -> float:
        """Return a product divided by a number: in single precision, of microcontrollers in double."""
        if self.kernels == "micro":
            return float(np.prod(np.array(factors, np.float64))) / float(divisor)
        return float(np.prod(np.array(factors, np.float32)) / divisor)

    def common(self, operator: Operator, *inputs: Tensor, place: int = 0) -> dict[str, Any]:
        """Return what all operations have."""
        output = self.output(operator, place)
        return {
            "name": output.name,
            "number": operator.number,
            "operator": operator.type,
            "inputs": tuple(each.name for each in inputs),
            "shape": output.shape,
            "type": output.type,
        }


def scale_of(tensor: Tensor) -> np.float32:
    """Return the scale of all integers of a tensor."""
    if tensor.scales is None or tensor.type not in INTEGERS:
        raise Unread(f"{tensor.name} is {tensor.type}, not int8 or int16 with a scale")
    if len(tensor.scales) > 1:
        raise Unread(f"{tensor.name} has {len(tensor.scales)} scales")
    return np.float32(tensor.scales[0])


def zero_of(tensor: Tensor) -> int:
    """Return the integer of a tensor that stands for zero."""
    scale_of(tensor)
    assert tensor.zero_points is not None
    zero = int(tensor.zero_points[0])
    least, most = limits_of(tensor.type)
    if not least <= zero <= most or (tensor.type == "int16" and zero):
        limit = "0" if tensor.type == "int16" else f"from {least} to {most}"
        raise Unread(f"the zero point of {tensor.name} is {zero}, and must be {limit}")
    return zero


def same_types(*tensors: Tensor) -> None:
    """Refuse integers of several types."""
    types = list(dict.fromkeys(each.type for each in tensors))
    if len(types) > 1:
        raise Unread(f"its tensors are {' and '.join(types)}")


def quotient(one: Tensor, other: Tensor) -> float:
    """Return the scale of one tensor in units of another, in double precision."""
    return float(scale_of(one)) / float(scale_of(other))


def clamp(output: Tensor, activation: str) -> dict[str, Any]:
    """Return the least and the most integer that a fused rectifier gives."""
    least, most = limits_of(output.type)
    if activation == "NONE":
        return {"least": least, "most": most}
    if activation not in LIMITS:
        raise Unread(f"its fused activation is {activation}")
    low, high = LIMITS[activation]
    least = max(least, _quantised(low, output))
    return {"least": least, "most": most if high == np.inf else min(most, _quantised(high, output))}


def _quantised(value: float, tensor: Tensor) -> int:
    return zero_of(tensor) + round_half_away(float(np.float32(value) / scale_of(tensor)))


def fused(operator: Operator) -> str:
    """Return the activation that is part of an operator."""
    told = getattr(operator.options, "FusedActivationFunction", None)  # some operators have none
    return "NONE" if told is None else str(ACTIVATIONS.get(told(), told()))


# Windows --------------------------------------------------------------------------------------------


def window(reader: Reader, operator: Operator, kernel: Any, dilation: Any) -> dict[str, Any]:
    """Return stride and padding of an operator that moves a window."""
    options, own, output = operator.options, reader.tensor(operator, 0), reader.output(operator)
    if options is None or len(own.shape) != 4 or len(output.shape) != 4:
        raise Unread("it is not of a map with 4 dimensions, or has no options")
    stride = (options.StrideH(), options.StrideW())
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    same = options.Padding() == tflite.Padding.SAME
    top, left, bottom, right = padding(own.shape[1:3], output.shape[1:3], extent, stride, same)
    return {"stride": stride, "padding": (top, bottom, left, right)}


def weighted(
    reader: Reader, operator: Operator, weights: NDArray[Any], own: Tensor, bias_at: int = 2
) -> dict[str, Any]:
    """Return weights, outputs first, with bias and factors."""
    table, output = reader.tensor(operator, 1), reader.output(operator)
    bias = reader.optional(operator, bias_at)
    same_types(own, output)
    if table.type != "int8" or table.scales is None or table.zero_points is None:
        raise Unread(f"its weights are {table.type}, not int8 with a scale")
    if len(table.scales) not in (1, len(weights)):
        raise Unread(f"its weights have {len(table.scales)} scales for {len(weights)} outputs")
    wide = own.type == "int16"
    if bias is not None and bias.type not in (("int32", "int64") if wide else ("int32",)):
        raise Unread(f"its bias is {bias.type}")
    numbers = np.zeros(len(weights), "int64" if wide else "int32")
    if bias is not None:
        numbers = reader.known(operator, bias_at).reshape(-1)
    scales = np.broadcast_to(table.scales, len(weights)).astype(np.float64)
    factors = float(scale_of(own)) * scales / float(scale_of(output))
    multiplier, shift = factors_of(factors.tolist())
    return {
        "weights": np.ascontiguousarray(weights),
        "bias": numbers,
        "input_zero_point": zero_of(own),
        "weight_zero_point": _zero_of_weights(table),
        "output_zero_point": zero_of(output),
        "multiplier": multiplier,
        "shift": shift,
        "scale": factors,
        "rounding": "wide" if numbers.dtype == np.int64 else "twice",
        **clamp(output, fused(operator)),
    }


def _zero_of_weights(table: Tensor) -> int:
    assert table.zero_points is not None
    if len(set(table.zero_points.tolist())) > 1 or (table.zero_points[0] and len(table.zero_points) > 1):
        raise Unread("its weights have zero points for each output")
    return int(table.zero_points[0])


def convolution(reader: Reader, operator: Operator, *, by_channel: bool = False) -> Iterator[ExactOperation]:
    """Read a convolution; weights are (outputs, rows, columns, inputs), or (1, rows, columns, outputs)."""
    own, weights, output = reader.tensor(operator, 0), reader.known(operator, 1), reader.output(operator)
    if weights.ndim != 4 or operator.options is None:
        raise Unread(f"its weights have {weights.ndim} dimensions, or it has no options")
    dilation = (operator.options.DilationHFactor(), operator.options.DilationWFactor())
    places = window(reader, operator, weights.shape[1:3], dilation)
    ordered = weights.transpose(3, 1, 2, 0) if by_channel else weights
    inputs = own.shape[3]
    groups = inputs if by_channel else inputs // max(1, weights.shape[3])
    if ordered.shape[3] * groups != inputs or ordered.shape[0] % groups or output.shape[3] != len(ordered):
        raise Unread(f"its weights are {list(weights.shape)} for {inputs} channels")
    found = weighted(reader, operator, ordered, own)
    if found["weight_zero_point"]:
        raise Unread("its weights have a zero point, which LiteRT leaves out")
    yield QuantisedConvolution(
        **reader.common(operator, own), **found, **places, dilation=dilation, groups=groups
    )


def fully_connected(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a product with weights (outputs, inputs)."""
    own, weights = reader.tensor(operator, 0), reader.known(operator, 1)
    if weights.ndim != 2 or prod(own.shape) % max(1, weights.shape[1]):
        raise Unread(f"its weights are {list(weights.shape)} for an input {list(own.shape)}")
    found = weighted(reader, operator, weights, own)
    if reader.kernels == "reference":
        found["rounding"] = "doubles"
    yield QuantisedFullyConnected(**reader.common(operator, own), **found)


def transposed_convolution(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a transposed convolution; weights are (outputs, rows, columns, inputs)."""
    own, options, output = reader.tensor(operator, 2), operator.options, reader.output(operator)
    weights = reader.known(operator, 1)
    if options is None or weights.ndim != 4 or len(own.shape) != 4 or len(output.shape) != 4:
        raise Unread("it is not of maps with 4 dimensions, or has no options")
    stride = (options.StrideH(), options.StrideW())
    same = options.Padding() == tflite.Padding.SAME
    top, left, _, _ = padding(output.shape[1:3], own.shape[1:3], weights.shape[1:3], stride, same)
    found = weighted(reader, operator, weights, own, bias_at=3)
    if found["weight_zero_point"]:
        raise Unread("its weights have a zero point, which LiteRT leaves out")
    yield QuantisedTransposedConvolution(
        **reader.common(operator, own), **found, stride=stride, padding=(top, left)
    )


def matrix_product(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a product of two tensors' matrices; their scales are multiplied in single precision."""
    one, other, output = reader.tensor(operator, 0), reader.tensor(operator, 1), reader.output(operator)
    same_types(one, other, output)
    factor = factor_of(float(scale_of(one) * scale_of(other)) / float(scale_of(output)))
    options = operator.options
    yield QuantisedMatrixProduct(
        **reader.common(operator, one, other),
        **clamp(output, "NONE"),
        first_zero_point=zero_of(one),
        second_zero_point=zero_of(other),
        output_zero_point=zero_of(output),
        multiplier=factor.multiplier,
        shift=factor.shift,
        first_turned=options is not None and bool(options.AdjX()),
        second_turned=options is not None and bool(options.AdjY()),
        rounding="wide" if one.type == "int16" else "twice",
    )


def pool(
    reader: Reader, operator: Operator, *, kind: Callable[..., ExactOperation]
) -> Iterator[ExactOperation]:
    """Read a pool, which keeps the scale."""
    own, output, options = reader.tensor(operator, 0), reader.output(operator), operator.options
    if options is None:
        raise Unread("it has no options")
    same_scales(own, output)
    kernel = (options.FilterHeight(), options.FilterWidth())
    places = window(reader, operator, kernel, (1, 1))
    limits = clamp(output, fused(operator))
    yield kind(**reader.common(operator, own), **limits, **places, kernel=kernel)


def same_scales(*tensors: Tensor) -> None:
    """Refuse tensors whose integers stand for different numbers."""
    same_types(*tensors)
    if len({(float(scale_of(each)), zero_of(each)) for each in tensors}) > 1:
        raise Unread("its tensors have different scales or zero points")


# Values ---------------------------------------------------------------------------------------------


def summed(reader: Reader, operator: Operator, *, difference: bool = False) -> Iterator[ExactOperation]:
    """Read a sum or difference of two tensors."""
    one, other, output = reader.tensor(operator, 0), reader.tensor(operator, 1), reader.output(operator)
    same_types(one, other, output)
    if output.type == "int16" and _shifts_alone(operator, one, other, output):
        raise Unread("its scales are powers of two, for which LiteRT has other kernels in 16 bits")
    left_shift = 15 if output.type == "int16" else 20
    largest = 2 * float(max(scale_of(one), scale_of(other)))
    of_output = largest / (float(1 << left_shift) * float(scale_of(output)))
    if of_output >= 1:
        raise Unread("its output's scale is too small for its inputs'")
    factors = [
        factor_of(each)
        for each in (float(scale_of(one)) / largest, float(scale_of(other)) / largest, of_output)
    ]
    (first, second, result) = factors
    yield QuantisedSum(
        **reader.common(operator, one, other),
        **clamp(output, fused(operator)),
        left_shift=left_shift,
        first_zero_point=zero_of(one),
        first_multiplier=first.multiplier,
        first_shift=first.shift,
        second_zero_point=zero_of(other),
        second_multiplier=second.multiplier,
        second_shift=second.shift,
        output_zero_point=zero_of(output),
        output_multiplier=result.multiplier,
        output_shift=result.shift,
        difference=difference,
    )


def _shifts_alone(operator: Operator, *tensors: Tensor) -> bool:
    if operator.options is None or not operator.options.PotScaleInt16():
        return False
    powers = [np.log2(float(scale_of(each))) for each in tensors]
    return all(abs(each - round(each)) < 1e-3 for each in powers)


def product(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a product of the values of two tensors."""
    one, other, output = reader.tensor(operator, 0), reader.tensor(operator, 1), reader.output(operator)
    same_types(one, other, output)
    factor = factor_of(reader.over(scale_of(output), scale_of(one), scale_of(other)))
    yield QuantisedProduct(
        **reader.common(operator, one, other),
        **clamp(output, fused(operator)),
        first_zero_point=zero_of(one),
        second_zero_point=zero_of(other),
        output_zero_point=zero_of(output),
        multiplier=factor.multiplier,
        shift=factor.shift,
    )


def axes_of(reader: Reader, operator: Operator) -> tuple[int, ...]:
    """Return the axes of a reduction, each once."""
    rank = max(1, len(reader.tensor(operator, 0).shape))
    return tuple(sorted({int(axis) % rank for axis in reader.known(operator, 1).reshape(-1)}))


def mean(reader: Reader, operator: Operator, *, divides: bool) -> Iterator[ExactOperation]:
    """Read a mean or a sum over some axes."""
    own, output, axes = reader.tensor(operator, 0), reader.output(operator), axes_of(reader, operator)
    same_types(own, output)
    if not divides and reader.kernels == "reference":
        raise Unread("LiteRT's reference kernel of sums reads its integers without sign")
    count = prod(own.shape[axis] for axis in axes)
    multiplier, shift = factor_of(quotient(own, output))
    if divides:
        more = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << more) // count, shift - more
    least, most = limits_of(output.type)
    yield QuantisedMean(
        **reader.common(operator, own),
        least=least,
        most=most,
        axes=axes,
        count=count,
        input_zero_point=zero_of(own),
        output_zero_point=zero_of(output),
        multiplier=multiplier,
        shift=shift,
    )


def extremum(reader: Reader, operator: Operator, *, largest: bool) -> Iterator[ExactOperation]:
    """Read the largest or the least integer along some axes."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_scales(own, output)
    yield QuantisedExtremum(**reader.common(operator, own), axes=axes_of(reader, operator), largest=largest)


def softmax(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a softmax along the last axis."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    scale_of(own)
    if own.type == "int16":
        yield _wide_softmax(reader, operator)
        return
    least, most = limits_of(output.type)
    bits = 8 if output.type == "int8" else 16
    if output.type == "int8" and (zero_of(output) != -128 or abs(256 * float(scale_of(output)) - 1) > 1e-3):
        raise Unread(f"{output.name} must have the scale 1/256 and the zero point -128")
    if own.shape[-1] >= 1 << SUM_BITS:
        raise Unread(f"it is of {own.shape[-1]} values; at most {(1 << SUM_BITS) - 1} are added up")
    beta = 1.0 if operator.options is None else operator.options.Beta()
    real = min(beta * float(scale_of(own)) * (1 << (31 - DIFFERENCE_BITS)), 2.0**31 - 1)
    if real <= 1:
        raise Unread(f"its factor {real} must be above 1")
    multiplier, shift = factor_of(real)
    radius = ((1 << DIFFERENCE_BITS) - 1) * (1 << (31 - DIFFERENCE_BITS)) / (1 << shift)
    yield QuantisedSoftmax(
        **reader.common(operator, own),
        multiplier=multiplier,
        left_shift=shift,
        least_difference=-int(radius),
        least=least,
        most=most,
        bits=bits,
    )


def _wide_softmax(reader: Reader, operator: Operator) -> ExactOperation:
    """Return a softmax of 16-bit integers."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_types(own, output)
    if zero_of(own) or zero_of(output) or abs(32768 * float(scale_of(output)) - 1) > 1e-3:
        raise Unread(f"{output.name} must have the scale 1/32768")
    beta = np.float32(1.0 if operator.options is None else operator.options.Beta())
    factor = factor_of(reader.over(np.float32(1), scale_of(own), beta) / (10.0 / 65535.0))
    kind: type[np.floating[Any]] = np.float32 if reader.kernels == "micro" else np.float64
    return QuantisedWideSoftmax(
        **reader.common(operator, own),
        multiplier=factor.multiplier,
        shift=factor.shift,
        exponentials=points_of(np.exp, 10.0, 32767, kind),
        reciprocals=points_of(lambda values: 1 / (1 + values), 1.0, -32768, kind),
    )


# Functions of one value -----------------------------------------------------------------------------


def tabulated(operation: ExactOperation) -> ExactOperation:
    """Return an operation of one 8-bit integer as a table."""
    each = np.arange(-128, 128).astype(np.int8)
    whole = type(operation)(**vars(operation) | {"shape": each.shape})
    table = whole.compute(each)
    kept = {
        name: getattr(operation, name) for name in ("name", "number", "operator", "inputs", "shape", "type")
    }
    return QuantisedTable(**kept, table=table, first=-128)


def rescaling(
    reader: Reader, operator: Operator, limits: dict[str, Any], factor: float, below: float
) -> ExactOperation:
    """Return what multiplies integers by a factor, and those below the zero point by another one."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    above, under = factor_of(factor), factor_of(below)
    found = QuantisedRescaling(
        **reader.common(operator, own),
        **limits,
        input_zero_point=zero_of(own),
        output_zero_point=zero_of(output),
        multiplier=above.multiplier,
        shift=above.shift,
        multiplier_below=under.multiplier,
        shift_below=under.shift,
    )
    return tabulated(found) if own.type == "int8" else found


def rectifier(reader: Reader, operator: Operator, *, activation: str) -> Iterator[ExactOperation]:
    """Read a rectifier."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_types(own, output)
    if activation != "RELU" and reader.kernels == "micro":
        same_scales(own, output)  # it keeps the scale of what it reads
    factor = reader.over(scale_of(output), scale_of(own))
    yield rescaling(reader, operator, clamp(output, activation), factor, factor)


def leaky(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a leaky rectifier."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_types(own, output)
    slope = np.float32(operator.options.Alpha())
    factor = reader.over(scale_of(output), scale_of(own))
    below = reader.over(scale_of(output), scale_of(own), slope)
    yield rescaling(reader, operator, clamp(output, "NONE"), factor, below)


def function(reader: Reader, operator: Operator, *, kind: str) -> Iterator[ExactOperation]:
    """Read a function of one 8-bit integer, which LiteRT tabulates, or a sigmoid of 16 bits."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_types(own, output)
    if own.type == "int16" and kind in ("LOGISTIC", "TANH"):
        yield _sigmoid(reader, operator, tangent=kind == "TANH")
        return
    if own.type != "int8":
        raise Unread(f"{own.name} is {own.type}, not int8")
    if kind == "LOGISTIC" and float(scale_of(output)) != 1 / 256:
        raise Unread(f"{output.name} must have the scale 1/256")
    if (
        kind == "TANH"
        and reader.kernels == "micro"
        and (float(scale_of(output)), zero_of(output)) != (1 / 128, 0)
    ):
        raise Unread(f"{output.name} must have the scale 1/128 and the zero point 0")
    known = scale_of(own), zero_of(own), scale_of(output), zero_of(output)
    table = hard_swish(*known) if kind == "HARD_SWISH" else table_of(FUNCTIONS[kind], *known)
    yield QuantisedTable(**reader.common(operator, own), table=table, first=-128)


def _sigmoid(reader: Reader, operator: Operator, *, tangent: bool) -> ExactOperation:
    """Return a logistic function or tangent of 16-bit integers."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    if zero_of(own) or zero_of(output) or float(scale_of(output)) != 1 / 32768:
        raise Unread(f"{output.name} must have the scale 1/32768")
    power = np.log2(float(scale_of(own)))
    shift = 12 + round(power)
    if abs(power - round(power)) < 1e-3 and shift in ((0, 1) if tangent else (0,)):
        multiplier, right = 3 << shift, 0
    else:
        real, right = float(scale_of(own)) * 4096 * 3, 0
        while real <= 32767 / 2 and right <= 30:
            real, right = real * 2, right + 1
        multiplier = int(real)
    if multiplier > 2**16 - 1:
        raise Unread(f"the scale of {own.name} is {float(scale_of(own))}, too large for 32-bit integers")
    return QuantisedSigmoid(
        **reader.common(operator, own),
        multiplier=multiplier,
        right_shift=right,
        table=sigmoids(),
        fraction=8 if tangent else 9,
        largest=0xFFFF << 8 if tangent else 0x7FFF << 10,
        tangent=tangent,
    )


def slopes(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a rectifier with slopes."""
    own, slope, output = reader.tensor(operator, 0), reader.tensor(operator, 1), reader.output(operator)
    same_types(own, slope, output)
    if own.type != "int8":
        raise Unread(f"{own.name} is {own.type}, not int8")
    above = factor_of(reader.over(scale_of(output), scale_of(own)))
    below = factor_of(reader.over(scale_of(output), scale_of(own), scale_of(slope)))
    yield QuantisedSlopes(
        **reader.common(operator, own, slope),
        **clamp(output, "NONE"),
        input_zero_point=zero_of(own),
        slope_zero_point=zero_of(slope),
        output_zero_point=zero_of(output),
        multiplier=above.multiplier,
        shift=above.shift,
        multiplier_below=below.multiplier,
        shift_below=below.shift,
    )


def larger(reader: Reader, operator: Operator, *, largest: bool) -> Iterator[ExactOperation]:
    """Read the larger or the lesser of two tensors."""
    one, other, output = reader.tensor(operator, 0), reader.tensor(operator, 1), reader.output(operator)
    same_scales(one, other, output)
    yield QuantisedLarger(**reader.common(operator, one, other), largest=largest)


def requantised(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read what quantises floats, or integers anew."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    limits = clamp(output, "NONE")
    if own.type == "float32":
        yield Quantised(
            **reader.common(operator, own),
            **limits,
            scale=float(scale_of(output)),
            zero_point=zero_of(output),
        )
        return
    if (own.type, output.type) == ("int8", "int16"):
        raise Unread("LiteRT has no kernel from int8 to int16")
    factor = quotient(own, output)
    yield rescaling(reader, operator, limits, factor, factor)


def dequantised(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read what gives the floats that integers stand for."""
    own = reader.tensor(operator, 0)
    yield Dequantised(**reader.common(operator, own), scale=float(scale_of(own)), zero_point=zero_of(own))


# Moves ----------------------------------------------------------------------------------------------


def moved(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read what gives the same values in the output's shape."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_types(own, output)
    yield Reshaped(**reader.common(operator, own))


def concatenation(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a concatenation of tensors with one scale."""
    output = reader.output(operator)
    parts = [reader.tensor(operator, place) for place in range(len(operator.inputs))]
    same_scales(*parts, output)
    if fused(operator) != "NONE":
        raise Unread(f"its fused activation is {fused(operator)}")
    axis = operator.options.Axis() % max(1, len(output.shape))
    yield Concatenated(**reader.common(operator, *parts), axis=axis)


def stacked(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read tensors of one scale beside each other along a new axis."""
    output = reader.output(operator)
    parts = [reader.tensor(operator, place) for place in range(len(operator.inputs))]
    same_scales(*parts, output)
    yield Stacked(**reader.common(operator, *parts), axis=operator.options.Axis() % len(output.shape))


def gathered(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read rows of a tensor whose numbers the file stores."""
    rows = reader.known(operator, 1)
    places = np.take(places_of(reader.tensor(operator, 0)), rows, operator.options.Axis())
    yield rearranged(reader, operator, places)


def padded(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a border of zeros, or of a value that the operator says."""
    own, output = reader.tensor(operator, 0), reader.output(operator)
    same_scales(own, output)
    value, given = zero_of(output), reader.optional(operator, 2)
    if given is not None:
        same_scales(given, output)
        value = int(reader.known(operator, 2).reshape(-1)[0])
    sides = tuple((int(before), int(after)) for before, after in reader.known(operator, 1).reshape(-1, 2))
    wide = tuple(before + size + after for size, (before, after) in zip(own.shape, sides, strict=True))
    if min(map(min, sides), default=0) < 0 or wide != output.shape:
        raise Unread(f"its border {sides} makes no {list(output.shape)} of {list(own.shape)}")
    yield Padded(**reader.common(operator, own), padding=sides, value=value)


def rearranged(
    reader: Reader, operator: Operator, places: NDArray[Any], place: int = 0, source: int = 0
) -> ExactOperation:
    """Return what moves values to an output."""
    own, output = reader.tensor(operator, source), reader.output(operator, place)
    same_types(own, output)
    if places.size != prod(output.shape):
        raise Unread(f"it gives {places.size} values, and its output is {list(output.shape)}")
    found = places.reshape(output.shape).astype(np.int64)
    return Rearranged(**reader.common(operator, own, place=place), places=found)


def places_of(tensor: Tensor) -> NDArray[np.int64]:
    """Return the place of each value of a tensor among all of its values."""
    if prod(tensor.shape) > MOST_PLACES:
        raise Unread(f"{tensor.name} has {prod(tensor.shape)} values; at most {MOST_PLACES} are moved")
    return np.arange(prod(tensor.shape)).reshape(tensor.shape)


def transposition(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a transposition."""
    order = [int(axis) for axis in reader.known(operator, 1).reshape(-1)]
    yield rearranged(reader, operator, places_of(reader.tensor(operator, 0)).transpose(order))


def part(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a part of a tensor that begins at some place and has some size."""
    own = reader.tensor(operator, 0)
    first, sizes = (reader.known(operator, place).reshape(-1) for place in (1, 2))
    ends = np.where(sizes < 0, own.shape, first + sizes)
    chosen = tuple(slice(int(begin), int(end)) for begin, end in zip(first, ends, strict=True))
    yield rearranged(reader, operator, places_of(own)[chosen])


def strided_part(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a part of a tensor, of which some places are left out."""
    own, options = reader.tensor(operator, 0), operator.options
    first, end, step = (reader.known(operator, place).reshape(-1).tolist() for place in (1, 2, 3))
    if options is not None and (options.EllipsisMask() or options.NewAxisMask()):
        raise Unread("it has an ellipsis or a new axis")
    chosen: list[slice] = []
    for axis, (begin, stop, stride) in enumerate(zip(first, end, step, strict=True)):
        masks = (options.BeginMask(), options.EndMask(), options.ShrinkAxisMask()) if options else (0, 0, 0)
        from_start, to_end, alone = (mask >> axis & 1 for mask in masks)
        if stride < 1:
            raise Unread("it goes backwards")
        if alone:
            begin %= own.shape[axis]
            chosen.append(slice(begin, begin + 1))
        else:
            chosen.append(slice(None if from_start else begin, None if to_end else stop, stride))
    yield rearranged(reader, operator, places_of(own)[tuple(chosen)])


def split(reader: Reader, operator: Operator, *, places: tuple[int, int]) -> Iterator[ExactOperation]:
    """Read a split; `places` are those of the tensor and of the axis among the inputs."""
    own, axis = reader.tensor(operator, places[0]), int(reader.known(operator, places[1]).reshape(-1)[0])
    every, first = np.moveaxis(places_of(own), axis, 0), 0
    for place in range(len(operator.outputs)):
        size = reader.output(operator, place).shape[axis]
        chosen = np.moveaxis(every[first : first + size], 0, axis)
        yield rearranged(reader, operator, chosen, place, places[0])
        first += size


def unstacked(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read the parts of a tensor along an axis, which they do not have any more."""
    every = np.moveaxis(places_of(reader.tensor(operator, 0)), operator.options.Axis(), 0)
    for place in range(len(operator.outputs)):
        yield rearranged(reader, operator, every[place], place)


def into_space(reader: Reader, operator: Operator, *, deeper: bool) -> Iterator[ExactOperation]:
    """Read channels that become pixels, or pixels that become channels."""
    own, block = reader.tensor(operator, 0), operator.options.BlockSize()
    images, rows, columns, channels = own.shape
    if deeper:
        parts = places_of(own).reshape(images, rows // block, block, columns // block, block, channels)
    else:
        parts = places_of(own).reshape(images, rows, columns, block, block, channels // block**2)
    yield rearranged(reader, operator, parts.transpose(0, 1, 3, 2, 4, 5))


def nearest(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a map whose pixels are those nearest to them, in single precision."""
    own, output, options = reader.tensor(operator, 0), reader.output(operator), operator.options
    corners = options is not None and bool(options.AlignCorners())
    centres = options is not None and bool(options.HalfPixelCenters())
    rows, columns = (_nearest(own.shape[axis], output.shape[axis], corners, centres) for axis in (1, 2))
    yield rearranged(reader, operator, places_of(own)[:, rows][:, :, columns])


def _nearest(before: int, after: int, corners: bool, centres: bool) -> NDArray[np.int64]:
    scale = np.float32(before) / np.float32(after)
    if corners and after > 1:
        scale = np.float32(before - 1) / np.float32(after - 1)
    offset = np.float32(0.5 if centres else 0.0)
    places = (np.arange(after).astype(np.float32) + offset) * scale
    found = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    chosen: NDArray[np.int64] = np.clip(found, 0, before - 1).astype(np.int64)
    return chosen


def bilinear(reader: Reader, operator: Operator) -> Iterator[ExactOperation]:
    """Read a map whose pixels are between others."""
    own, output, options = reader.tensor(operator, 0), reader.output(operator), operator.options
    same_scales(own, output)
    corners = options is not None and bool(options.AlignCorners())
    centres = options is not None and bool(options.HalfPixelCenters())
    rows, columns = (_between(own.shape[axis], output.shape[axis], corners, centres) for axis in (1, 2))
    yield QuantisedInterpolation(
        **reader.common(operator, own),
        rows=rows[0],
        next_rows=rows[1],
        row_parts=rows[2],
        columns=columns[0],
        next_columns=columns[1],
        column_parts=columns[2],
    )


def _between(before: int, after: int, corners: bool, centres: bool) -> tuple[NDArray[np.int64], ...]:
    """Return places below and above each place of another size, and how far it is from that below."""
    step = (1024 * before + after // 2) // after
    if corners and after > 1:
        step = (1024 * (before - 1) + (after - 1) // 2) // (after - 1)
    places = np.arange(after) * step + (step // 2 - 512 if centres else 0)
    below = np.maximum(cut_off(places, 10), 0)
    above = np.minimum(cut_off(places + 1023, 10), before - 1)
    return below, above, places - 1024 * below


Read = Callable[[Reader, Operator], Iterator[ExactOperation]]

OPERATORS: dict[str, Read] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": partial(convolution, by_channel=True),
    "FULLY_CONNECTED": fully_connected,
    "TRANSPOSE_CONV": transposed_convolution,
    "BATCH_MATMUL": matrix_product,
    "AVERAGE_POOL_2D": partial(pool, kind=QuantisedAveragePool),
    "MAX_POOL_2D": partial(pool, kind=QuantisedMaxPool),
    "ADD": summed,
    "SUB": partial(summed, difference=True),
    "MUL": product,
    "MAXIMUM": partial(larger, largest=True),
    "MINIMUM": partial(larger, largest=False),
    "PRELU": slopes,
    "MEAN": partial(mean, divides=True),
    "SUM": partial(mean, divides=False),
    "REDUCE_MAX": partial(extremum, largest=True),
    "REDUCE_MIN": partial(extremum, largest=False),
    "SOFTMAX": softmax,
    "RELU": partial(rectifier, activation="RELU"),
    "RELU6": partial(rectifier, activation="RELU6"),
    "RELU_N1_TO_1": partial(rectifier, activation="RELU_N1_TO_1"),
    "RELU_0_TO_1": partial(rectifier, activation="RELU_0_TO_1"),
    "LEAKY_RELU": leaky,
    **{kind: partial(function, kind=kind) for kind in (*FUNCTIONS, "HARD_SWISH")},
    "QUANTIZE": requantised,
    "DEQUANTIZE": dequantised,
    "RESHAPE": moved,
    "SQUEEZE": moved,
    "EXPAND_DIMS": moved,
    "CONCATENATION": concatenation,
    "PACK": stacked,
    "GATHER": gathered,
    "PAD": padded,
    "PADV2": padded,
    "TRANSPOSE": transposition,
    "SLICE": part,
    "STRIDED_SLICE": strided_part,
    "SPLIT": partial(split, places=(1, 0)),
    "SPLIT_V": partial(split, places=(0, 2)),
    "UNPACK": unstacked,
    "DEPTH_TO_SPACE": partial(into_space, deeper=False),
    "SPACE_TO_DEPTH": partial(into_space, deeper=True),
    "RESIZE_NEAREST_NEIGHBOR": nearest,
    "RESIZE_BILINEAR": bilinear,
}
"""What is computed exactly, by TFLite's name."""
