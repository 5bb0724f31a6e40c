"""Quantised nodes of ONNX as exact operations: the float32 arithmetic that onnxruntime chooses for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, numpy_helper

from tilewright.importing.exact.functions import FUNCTIONS, Function, powers_of, quantised, table_of
from tilewright.importing.exact.tensors import (
    Integers,
    Numbers,
    Places,
    Scaled,
    Unread,
    along,
    same_order,
    stored_axis,
    stored_order,
    stored_shape,
)
from tilewright.simulator.arithmetic.quantised import (
    AveragePoolInSingles,
    Concatenated,
    ExactOperation,
    MeanInSingles,
    Padded,
    ProductInSingles,
    QuantisedConvolution,
    QuantisedFullyConnected,
    QuantisedMatrixProduct,
    QuantisedMaxPool,
    QuantisedTable,
    Rearranged,
    Reshaped,
    SoftmaxInSingles,
    SumInSingles,
)

MICROSOFT = "com.microsoft"

MOST_PLACES = 10**8
"""Most values of a tensor whose places are told one by one."""

SAME_SCALE = 1e-5
"""By how much, of one, a bias's scale may differ from the product of those of input and weights."""


@dataclass
class Node:
    """A node with what is known of it.

    Attributes
    ----------
    told
        Its attributes.
    shape
        Of what it gives.
    version
        Of the standard operators.
    stored
        Numbers of the file, by name.
    """

    proto: NodeProto
    told: Mapping[str, Any]
    shape: tuple[int, ...]
    version: int
    stored: Mapping[str, NDArray[Any]]

    @property
    def kind(self) -> str:
        """Its operator."""
        return str(self.proto.op_type)

    @property
    def output(self) -> str:
        """Name of what it gives first."""
        return str(self.proto.output[0])

    def known(self, place: int, attribute: str = "") -> NDArray[Any] | None:
        """Return the numbers of an input, or of an attribute in older versions; None if there are none."""
        if attribute in self.told:
            return np.array(self.told[attribute])
        name = self.proto.input[place] if place < len(self.proto.input) else ""
        if name and name not in self.stored:
            raise Unread(f"its input {name} is computed")
        return self.stored[name] if name else None


class Made(NamedTuple):
    """What a node gives before it is quantised.

    Attributes
    ----------
    node
        None if it is the only operand itself.
    operands
        Integers, numbers of the file with or without scales, None of what is left out.
    after
        Rectifiers behind it.
    """

    node: Node | None
    operands: tuple[Any, ...]
    after: tuple[Node, ...]


class Builder:
    """Makes the operations of one result.

    Parameters
    ----------
    name, number
        Of what is given, and of its node.
    gives
        What the integers stand for.
    quantised_behind
        Whether scales are those of nodes beside it (QuantizeLinear), so that onnxruntime's arithmetic is that
        of integers without sign.
    add, constant
        Take an operation with what it gives, and numbers that operations read as a tensor.

    Attributes
    ----------
    names
        Of the operations that were made.
    """

    def __init__(
        self,
        name: str,
        number: int,
        gives: Scaled,
        quantised_behind: bool,
        add: Callable[[ExactOperation, Scaled], None],
        constant: Callable[[str, NDArray[np.int8], Scaled], None],
    ) -> None:
        self.name, self.number, self.gives, self.add, self.constant = name, number, gives, add, constant
        self.offset = 128 if quantised_behind or gives.unsigned else 0
        self.names: list[str] = []
        self.least, self.most = -128, 127
        self.shift: Node | None = None

    def built(self, made: Made) -> Integers:
        """Add the operations of a result, and return it."""
        if made.after and made.after[-1].kind == "RequantShift":
            return self._shifted(made)
        for node in made.after:
            low, high = limits_of(node)
            self.least = max(self.least, int(quantised(np.array(low, np.float32), self.gives)))
            self.most = min(self.most, int(quantised(np.array(high, np.float32), self.gives)))
        if made.node is None:
            return self.rescaled(made.operands[0], lambda values: values)
        node, operands = made.node, made.operands
        operator = OPERATORS[node.proto.domain, node.kind]
        if not operator.moves or node.kind == "Concat":
            return operator.build(self, node, operands)
        own = operands[0]
        if own.scaled == self.gives and not made.after:
            return operator.build(self, node, operands)
        final, self.name = self.name, f"{self.name}/moved"
        gives, self.gives = self.gives, own.scaled
        moved = operator.build(self, node, operands)
        self.name, self.gives = final, gives
        return self.rescaled(moved, lambda values: values)

    def _shifted(self, made: Made) -> Integers:
        """Add the operations of a RequantShift behind a result."""
        shift = self.shift = made.after[-1]
        levels = int(attribute(shift, "n_levels_out" if "n_levels_out" in shift.told else "n_levels"))
        if not 2 <= levels <= 256:
            raise unread(shift, f"it has {levels} levels; from 2 to 256 would do")
        low, high = (0, levels - 1) if self.gives.unsigned else (-(levels // 2), levels // 2 - 1)
        if made.after[:-1]:
            raise unread(
                shift, f"it follows {made.after[0].kind}; unsigned levels (signed = 0) would do in its place"
            )
        self.least, self.most = low + self.gives.zero, high + self.gives.zero
        if made.node is None:
            return requantised(self, shift, made.operands[0])
        if made.node.kind not in ("Conv", "Gemm", "MatMul"):
            raise unread(shift, f"it follows {made.node.kind}; Conv, Gemm, MatMul or integers would do")
        if made.node.kind == "MatMul" and isinstance(made.operands[1], Integers):
            raise unread(shift, "it follows a product of two tensors; one with stored weights would do")
        return OPERATORS[made.node.proto.domain, made.node.kind].build(self, made.node, made.operands)

    def made(
        self,
        kind: type[ExactOperation],
        operator: str,
        operands: Sequence[Integers],
        shape: tuple[int, ...],
        order: Places | None,
        name: str = "",
        scaled: Scaled | None = None,
        **fields: Any,
    ) -> Integers:
        """Add an operation that gives a tensor of a shape as the file has it, in an order."""
        name, scaled = name or self.name, scaled or self.gives
        inputs = tuple(each.name for each in operands)
        operation = kind(name, self.number, operator, inputs, stored_shape(shape), "int8", **fields)
        self.add(operation, scaled)
        self.names.append(name)
        return Integers(name, shape, scaled, order)

    def rescaled(
        self, own: Integers, function: Function, operator: str = "QuantizeLinear", name: str = ""
    ) -> Integers:
        """Add the table of a function of an operand."""
        table = np.clip(table_of(function, own.scaled, self.gives), self.least, self.most)
        fields: dict[str, Any] = {"table": table.astype(np.int8), "first": -128}
        return self.made(QuantisedTable, operator, [own], own.shape, own.order, name, **fields)

    def ordered(self, own: Integers, place: int = 0) -> Integers:
        """Return an operand in the order in which tensors of its shape are stored."""
        order = stored_order(own.shape)
        if same_order(own.order, order):
            return replace(own, order=order)
        return self.moved(own, np.arange(prod(own.shape)), own.shape, f"{self.name}/ordered_{place}")

    def moved(
        self,
        own: Integers,
        places: Places,
        shape: tuple[int, ...],
        name: str = "",
        operator: str = "Transpose",
    ) -> Integers:
        """Add what gives values of an operand in other places; places are those of the file."""
        if places.size > MOST_PLACES:
            raise Unread(f"it moves {places.size} values, and at most {MOST_PLACES} are moved")
        wanted = stored_order(shape)
        found = places.reshape(-1) if wanted is None else places.reshape(-1)[wanted]
        if own.order is not None:
            found = np.argsort(own.order)[found]
        if found.size == prod(own.shape) and (found == np.arange(found.size)).all():
            return self.made(Reshaped, operator, [own], shape, wanted, name, own.scaled)
        places = found.reshape(stored_shape(shape))
        return self.made(Rearranged, operator, [own], shape, wanted, name, own.scaled, places=places)

    @property
    def limits(self) -> dict[str, Any]:
        """The least and the most integer that is given."""
        return {"least": self.least, "most": self.most}


def limits_of(node: Node) -> tuple[float, float]:
    """Return the least and the most number that a rectifier gives."""
    if node.kind == "Relu":
        return 0.0, np.inf
    low, high = node.known(1, "min"), node.known(2, "max")
    return (
        -np.inf if low is None else float(low.reshape(-1)[0]),
        np.inf if high is None else float(high.reshape(-1)[0]),
    )


# Weights --------------------------------------------------------------------------------------------


def weighted(
    builder: Builder, own: Integers, table: Numbers, bias: Any, weights: NDArray[np.int64], axis: int
) -> dict[str, Any]:
    """Return the fields of an operation with weights.

    Parameters
    ----------
    weights
        Integers without their zero points, outputs first.
    axis
        Of the outputs, as the file has the weights.
    """
    count = len(weights)
    if builder.shift is not None:
        return shifted(builder, builder.shift, own, weights, bias)
    if table.numbers.dtype not in (np.int8, np.uint8):
        raise Unread(f"its weights are {table.numbers.dtype}, not int8 or uint8")
    if table.scales.size not in (1, count) or (
        table.scales.size > 1 and table.axis % table.numbers.ndim != axis % table.numbers.ndim
    ):
        raise Unread(f"its weights have {table.scales.size} scales for {count} outputs")
    products = own.scaled.scale * np.broadcast_to(table.scales.reshape(-1), count).astype(np.float32)
    factors = products / builder.gives.scale
    small = weights.min(initial=0) >= -128 and weights.max(initial=0) <= 127
    return {
        "weights": np.ascontiguousarray(weights.astype(np.int8 if small else np.int16)),
        "bias": bias_of(bias, products),
        "input_zero_point": own.scaled.zero,
        "weight_zero_point": 0,
        "output_zero_point": builder.gives.zero,
        "multiplier": np.zeros(count, np.int32),
        "shift": np.zeros(count, np.int32),
        "scale": factors.astype(np.float64),
        "rounding": "singles",
        **builder.limits,
    }


def shifted(
    builder: Builder, shift: Node, own: Integers, weights: NDArray[np.int64], bias: Any
) -> dict[str, Any]:
    """Return the fields of an operation with weights whose sums RequantShift makes integers of 8 bits."""
    count = len(weights)
    sums = np.zeros(count, np.int32) if bias is None else whole_numbers(bias, "its bias").astype(np.int32)
    factor, added, bits = shift_of(shift, count)
    largest = np.abs(weights).reshape(count, -1).sum(1) * 256 + np.abs(sums.astype(np.int64)).reshape(-1)
    if (largest * np.abs(factor) + np.abs(added) >= 2**31).any():
        raise Unread("its sums, multiplied, may need more than 32 bits")
    small = weights.min(initial=0) >= -128 and weights.max(initial=0) <= 127
    return {
        "weights": np.ascontiguousarray(weights.astype(np.int8 if small else np.int16)),
        "bias": np.broadcast_to(sums.reshape(-1), count).copy(),
        "input_zero_point": own.scaled.zero,
        "weight_zero_point": 0,
        "output_zero_point": builder.gives.zero,
        "multiplier": factor.astype(np.int32),
        "shift": np.full(count, bits, np.int32),
        "scale": factor / 2.0**bits,
        "rounding": "shifts",
        "added": added,
        **builder.limits,
    }


def whole_numbers(values: Any, told: str) -> NDArray[np.int64]:
    """Return numbers of the file that are integers, of any type."""
    if not isinstance(values, np.ndarray) or not (np.abs(values) < 2**31).all() or (values % 1).any():
        raise Unread(f"{told} is no integers of 32 bits that the file stores")
    found: NDArray[np.int64] = values.astype(np.int64)
    return found


def unread(node: Node, told: str) -> Unread:
    """Return the reason why a node is not read that another one is read with."""
    found = Unread(told)
    found.node = node.proto
    return found


def shift_of(node: Node, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return factors and what is added of each channel, halves to round up among it, and bits of a shift."""
    divisor = int(attribute(node, "div"))
    if divisor < 1 or divisor & (divisor - 1):
        raise unread(node, f"its div is {divisor}; a power of two would do")
    bits = divisor.bit_length() - 1
    found: list[NDArray[np.int64]] = []
    for place, told in ((1, "its mul"), (2, "its add")):
        numbers = node.known(place)
        values = whole_numbers(np.zeros(1) if numbers is None else numbers, told)
        axis = 1 if len(node.shape) in (2, 4) else len(node.shape) - 1
        if values.size not in (1, count) or (
            values.size > 1
            and values.ndim > 1
            and values.shape[axis + values.ndim - len(node.shape)] != count
        ):
            raise unread(node, f"{told} is {list(values.shape)} for {count} channels")
        found.append(np.broadcast_to(values.reshape(-1), count))
    return found[0], found[1] + (divisor // 2 if bits else 0), bits


def attribute(node: Node, name: str) -> float:
    """Return a number of RequantShift, which may be a tensor."""
    value = node.told.get(name)
    if value is None:
        raise unread(node, f"it has no attribute {name}")
    numbers = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.array(value)
    if numbers.size != 1:
        raise unread(node, f"its attribute {name} has {numbers.size} numbers")
    return float(numbers.reshape(-1)[0])


def levels_of(node: Node) -> Scaled:
    """Return what the integers of RequantShift stand for: themselves."""
    signed = bool(attribute(node, "signed"))
    return Scaled(np.float32(1), 0 if signed else -128, not signed)


def requantised(builder: Builder, node: Node, own: Integers) -> Integers:
    """Add a RequantShift of integers of 8 bits: a table, of one factor for all channels."""
    factor, added, bits = shift_of(node, 1)
    values = np.arange(-128, 128) - own.scaled.zero
    found = ((values * factor + added) >> bits) + builder.gives.zero
    table = np.clip(found, builder.least, builder.most).astype(np.int8)
    return builder.made(QuantisedTable, node.kind, [own], own.shape, own.order, table=table, first=-128)


def bias_of(bias: Any, products: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the integers of a bias, whose scales are the products of those of input and weights."""
    count = len(products)
    if bias is None:
        return np.zeros(count, np.int32)
    if isinstance(bias, Numbers):
        if bias.numbers.dtype != np.int32 or bias.zeros.any():
            raise Unread(f"its bias {bias.name} is {bias.numbers.dtype}, or has a zero point; int32 would do")
        scales = np.broadcast_to(bias.scales.reshape(-1), count)
        if not np.allclose(scales, products, SAME_SCALE, 0):
            raise Unread(f"its bias {bias.name} has another scale than the product of input's and weights'")
        found = bias.numbers
    elif isinstance(bias, np.ndarray) and bias.dtype == np.float32:
        with np.errstate(all="ignore"):
            rounded = np.rint(bias.reshape(-1) / products).astype(np.float64)
        if not (np.abs(rounded) < 2**31).all():
            raise Unread("its bias is no integer of 32 bits in units of its scale")
        found = rounded.astype(np.int32)
    elif isinstance(bias, np.ndarray) and bias.dtype == np.int32:
        found = bias
    else:
        raise Unread("its bias is computed, or of another type than int32 or float")
    if found.size != count:
        raise Unread(f"its bias has {found.size} numbers for {count} outputs")
    return np.ascontiguousarray(found.reshape(-1))


def centred(table: Any, *, shifts: bool) -> NDArray[np.int64]:
    """Return stored integers without their zero points.

    Parameters
    ----------
    shifts
        Whether a RequantShift follows, so that there are none, nor scales.
    """
    if isinstance(table, np.ndarray):
        if not shifts:
            raise Unread("its weights have no scale; DequantizeLinear of stored integers would do")
        return whole_numbers(table, "its weights")
    if not isinstance(table, Numbers):
        raise Unread(
            "its weights are computed, or have no scale; DequantizeLinear of stored integers would do"
        )
    found: NDArray[np.int64] = table.numbers.astype(np.int64) - along(table.zeros, table)
    return found


def whole(own: Any) -> Integers:
    """Return an operand that is computed."""
    if not isinstance(own, Integers):
        raise Unread("what it reads first is stored in the file")
    return own


def map_of(builder: Builder, own: Any, place: int = 0) -> Integers:
    """Return a map as it is stored."""
    if len(whole(own).shape) != 4:
        raise Unread(f"it reads {list(own.shape)}; a map of images, channels, rows and columns would do")
    return builder.ordered(own, place)


def places_of(node: Node, own: Integers, kernel: Sequence[int], dilation: Sequence[int]) -> dict[str, Any]:
    """Return stride and padding of a window; rows and columns that no window reaches are no padding."""
    stride = tuple(node.told.get("strides", (1, 1)))
    pads = list(node.told.get("pads", (0, 0, 0, 0)))
    auto = node.told.get("auto_pad", b"NOTSET")
    sides: list[int] = []
    for axis in range(2):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        needed = (node.shape[2 + axis] - 1) * stride[axis] + extent - own.shape[2 + axis]
        before = pads[axis]
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            every = max(0, needed)
            before = every // 2 if auto == b"SAME_UPPER" else every - every // 2
        elif auto == b"VALID":
            before = 0
        sides += [before, max(0, needed - before)]
    return {"stride": stride, "padding": tuple(sides)}


def convolution(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a convolution of a map."""
    own, table = map_of(builder, operands[0]), operands[1]
    weights = centred(table, shifts=builder.shift is not None)
    if weights.ndim != 4:
        raise Unread(f"its weights have {weights.ndim} dimensions; 4 would do")
    dilation, groups = tuple(node.told.get("dilations", (1, 1))), int(node.told.get("group", 1))
    found = weighted(builder, own, table, operands[2], weights.transpose(0, 2, 3, 1), 0)
    return builder.made(
        QuantisedConvolution,
        node.kind,
        [own],
        node.shape,
        stored_order(node.shape),
        **found,
        **places_of(node, own, weights.shape[2:], dilation),
        dilation=dilation,
        groups=groups,
    )


def product_with_weights(
    builder: Builder, node: Node, own: Integers, operands: Sequence[Any], *, turned: bool
) -> Integers:
    """Add a product of rows with stored weights (inputs, outputs), or `turned`."""
    table = operands[1]
    weights = centred(table, shifts=builder.shift is not None)
    if weights.ndim != 2:
        raise Unread(f"its weights have {weights.ndim} dimensions; 2 would do")
    weights = weights if turned else weights.T
    length = weights.shape[1]
    if own.order is not None:
        rows = own.order.reshape(-1, length) - np.arange(0, own.order.size, length)[:, np.newaxis]
        if own.order.size != prod(own.shape) or (rows != rows[0]).any() or len(own.stored) == 4:
            own = builder.ordered(own)
        else:
            weights = weights[:, rows[0]]
    found = weighted(builder, own, table, operands[2], weights, 0 if turned else 1)
    order = stored_order(node.shape)
    if order is not None:
        raise Unread("it gives a map; a tensor of other dimensions than four would do")
    return builder.made(QuantisedFullyConnected, node.kind, [own], node.shape, None, **found)


def general_product(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a Gemm."""
    if node.told.get("transA") or node.told.get("alpha", 1.0) != 1 or node.told.get("beta", 1.0) != 1:
        raise Unread("it turns its input, or has a factor; alpha and beta of 1 would do")
    return product_with_weights(
        builder, node, whole(operands[0]), operands, turned=bool(node.told.get("transB"))
    )


def matrix_product(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a MatMul with weights, or of two tensors."""
    own = whole(operands[0])
    if not isinstance(operands[1], Integers):
        return product_with_weights(builder, node, own, [*operands[:2], None], turned=False)
    first, second = (builder.ordered(each, place) for place, each in enumerate(operands[:2]))
    if 4 in (len(first.shape), len(second.shape)):
        raise Unread("it is of two maps; tensors of three dimensions would do")
    factor = first.scaled.scale * second.scaled.scale / builder.gives.scale
    return builder.made(
        QuantisedMatrixProduct,
        node.kind,
        [first, second],
        node.shape,
        None,
        first_zero_point=first.scaled.zero,
        second_zero_point=second.scaled.zero,
        output_zero_point=builder.gives.zero,
        multiplier=0,
        shift=0,
        first_turned=False,
        second_turned=False,
        rounding="singles",
        scale=float(factor),
        **builder.limits,
    )


# Two tensors ----------------------------------------------------------------------------------------


def both(builder: Builder, node: Node, operands: Sequence[Any]) -> tuple[list[Integers], Places | None]:
    """Return two operands in a common order; one that the file stores becomes a tensor."""
    found: list[Integers] = []
    for place, each in enumerate(operands):
        if isinstance(each, Numbers):
            scaled = each.scaled
            shape = (1,) * (len(node.shape) - each.numbers.ndim) + each.numbers.shape
            if each.numbers.dtype not in (np.int8, np.uint8):
                raise Unread(f"its input {each.name} is {each.numbers.dtype}, not int8 or uint8")
            numbers = (each.numbers.astype(np.int64) - 128 * scaled.unsigned).astype(np.int8).reshape(shape)
            order = stored_order(shape)
            numbers = numbers if len(shape) != 4 else numbers.transpose(0, 2, 3, 1)
            name = f"{builder.name}/numbers_{place}"
            builder.constant(name, np.ascontiguousarray(numbers), scaled)
            found.append(Integers(name, shape, scaled, order))
        elif isinstance(each, Integers):
            found.append(each)
        else:
            raise Unread("one of its inputs has no scale; DequantizeLinear of stored integers would do")
    if found[0].shape == found[1].shape and same_order(found[0].order, found[1].order):
        return found, found[0].order
    if any(len(each.shape) != len(node.shape) and prod(each.shape) > 1 for each in found):
        raise Unread("its inputs have other numbers of dimensions")
    return [builder.ordered(each, place) for place, each in enumerate(found)], stored_order(node.shape)


def summed(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a sum: an operand of one number is added first, as onnxruntime does."""
    pair, order = both(builder, node, operands)
    if prod(pair[1].shape) == 1:
        pair = pair[::-1]
    scales = [each.scaled.scale / builder.gives.scale for each in pair]
    zeros = [np.float32(each.scaled.zero + builder.offset) for each in pair]
    # In the order of the file: the sum of both products is taken from the zero point.
    fixed = np.float32(builder.gives.zero + builder.offset) - (scales[0] * zeros[0] + scales[1] * zeros[1])
    return builder.made(
        SumInSingles,
        node.kind,
        pair,
        node.shape,
        order,
        offset=builder.offset,
        first_ratio=float(scales[0]),
        second_ratio=float(scales[1]),
        fixed=float(fixed),
        **builder.limits,
    )


def multiplied(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a product of two tensors."""
    pair, order = both(builder, node, operands)
    ratio = pair[0].scaled.scale * pair[1].scaled.scale / builder.gives.scale
    return builder.made(
        ProductInSingles,
        node.kind,
        pair,
        node.shape,
        order,
        offset=builder.offset,
        first_zero_point=pair[0].scaled.zero + builder.offset,
        second_zero_point=pair[1].scaled.zero + builder.offset,
        output_zero_point=builder.gives.zero + builder.offset,
        ratio=float(ratio),
        **builder.limits,
    )


# Pools, softmax, functions --------------------------------------------------------------------------


def pooled(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a pool of averages, or of maxima."""
    own = map_of(builder, operands[0])
    kernel = tuple(node.told["kernel_shape"])
    if node.told.get("channels_last") or any(each != 1 for each in node.told.get("dilations", (1, 1))):
        raise Unread("its channels are last, or its windows have gaps")
    places = places_of(node, own, kernel, (1, 1))
    order = stored_order(node.shape)
    if node.kind == "MaxPool":
        places |= {"kernel": kernel, "least": -128, "most": 127}
        return builder.made(QuantisedMaxPool, node.kind, [own], node.shape, order, **places)
    if kernel == own.shape[2:] and not any(places["padding"]):  # for which onnxruntime adds up integers
        return plane_mean(builder, node, own)
    return builder.made(
        AveragePoolInSingles,
        node.kind,
        [own],
        node.shape,
        order,
        kernel=kernel,
        **places,
        offset=builder.offset,
        input_scale=float(own.scaled.scale),
        input_zero_point=own.scaled.zero + builder.offset,
        output_scale=float(builder.gives.scale),
        output_zero_point=builder.gives.zero + builder.offset,
        counts_padding=bool(node.told.get("count_include_pad", 0)),
        **builder.limits,
    )


def mean(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a mean over all rows and columns."""
    own = map_of(builder, operands[0])
    if node.kind == "ReduceMean":
        axes = node.known(1, "axes")
        if axes is None or sorted(int(axis) % 4 for axis in axes.reshape(-1)) != [2, 3]:
            raise Unread("it is not a mean over rows and columns")
    return plane_mean(builder, node, own)


def plane_mean(builder: Builder, node: Node, own: Integers) -> Integers:
    """Add a mean over all rows and columns of a map."""
    count = own.shape[2] * own.shape[3]
    scale = own.scaled.scale / (builder.gives.scale * np.float32(count))
    return builder.made(
        MeanInSingles,
        node.kind,
        [own],
        node.shape,
        stored_order(node.shape),
        axes=(1, 2),
        count=count,
        input_zero_point=own.scaled.zero,
        output_zero_point=builder.gives.zero,
        scale=float(scale),
        **builder.limits,
    )


def softmax(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a softmax along what is stored side by side."""
    own = builder.ordered(whole(operands[0]))
    version = node.told.get("opset", node.version)
    axis = node.told.get("axis", 1 if version < 13 else -1) % len(own.shape)
    behind = prod(own.shape[axis + 1 :])
    if stored_axis(axis, len(own.shape)) != len(own.shape) - 1 and prod(own.shape) != own.shape[axis]:
        raise Unread("it is along an axis whose values do not lie side by side")
    if version < 13 and behind != 1:
        raise Unread("it is along several axes")
    count = own.shape[axis]
    if own.stored[-1] != count:
        raise Unread("it is along an axis whose values do not lie side by side")
    if count == 1:
        raise Unread("it is of single values; two in a row would do")
    return builder.made(
        SoftmaxInSingles,
        node.kind,
        [own],
        node.shape,
        own.order,
        powers=powers_of(own.scaled, count),
        output_scale=float(np.floor(np.float32(1) / builder.gives.scale)),
        output_zero_point=builder.gives.zero,
        **builder.limits,
    )


def function(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a function of single values."""
    kind = node.kind.removeprefix("QLinear")
    return builder.rescaled(whole(operands[0]), FUNCTIONS[kind](node.told), node.kind)


def rectifier(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a rectifier that follows nothing that is computed."""
    low, high = (np.float32(each) for each in limits_of(node))
    return builder.rescaled(whole(operands[0]), lambda values: np.clip(values, low, high), node.kind)


# Moves ----------------------------------------------------------------------------------------------


def reshaped(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add another shape of the same values."""
    own, order = whole(operands[0]), stored_order(node.shape)
    if len(node.shape) != 4 or same_order(own.order, order):
        return builder.made(Reshaped, node.kind, [own], node.shape, own.order)
    return builder.moved(own, np.arange(prod(node.shape)), node.shape, operator=node.kind)


def transposed(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a transposition."""
    own = whole(operands[0])
    axes = node.told.get("perm", list(range(len(own.shape)))[::-1])
    places = np.arange(prod(own.shape)).reshape(own.shape).transpose(axes)
    return builder.moved(own, places, node.shape, operator=node.kind)


def concatenated(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a concatenation, of parts that are rescaled where their scales differ."""
    parts: list[Integers] = []
    for place, each in enumerate(operands):
        own = builder.ordered(whole(each), place)
        if own.scaled != builder.gives or (builder.least, builder.most) != (-128, 127):
            own = builder.rescaled(own, lambda values: values, name=f"{builder.name}/part_{place}")
        parts.append(own)
    axis = stored_axis(int(node.told["axis"]), len(node.shape))
    return builder.made(Concatenated, node.kind, parts, node.shape, stored_order(node.shape), axis=axis)


def padded(builder: Builder, node: Node, operands: Sequence[Any]) -> Integers:
    """Add a border of one number."""
    own = builder.ordered(whole(operands[0]))
    pads, value, axes = node.known(1, "pads"), node.known(2, "value"), node.known(3)
    if pads is None or axes is not None or node.told.get("mode", b"constant") != b"constant":
        raise Unread("its border is no constant, or of some axes")
    number = own.scaled.zero
    if value is not None and value.size and value.reshape(-1)[0] != 0:
        raise Unread(f"its border is {value.reshape(-1)[0]}; 0 would do")
    sides = pads.reshape(2, -1).T
    if sides.min(initial=0) < 0:
        raise Unread("its border is below zero")
    axes_stored = [stored_axis(axis, len(own.shape)) for axis in range(len(own.shape))]
    stored = tuple((int(before), int(after)) for before, after in sides[np.argsort(axes_stored)])
    order = stored_order(node.shape)
    return builder.made(Padded, node.kind, [own], node.shape, order, padding=stored, value=number)


Build = Callable[[Builder, Node, Sequence[Any]], Integers]

Triple = tuple[int, int, int]
"""Places of a tensor, its scale and its zero point among a node's inputs."""


@dataclass(frozen=True)
class Operator:
    """How a node is read.

    Attributes
    ----------
    build
        Adds its operations.
    inputs
        Places of its tensors; None for all inputs.
    moves, rectifies
        Whether it changes no value; whether it may be part of what it follows.
    triples, gives
        Of an operator with scales among its inputs: places of these.
    weights
        The axis of scales of its second input, as the node's attributes say.
    """

    build: Build
    inputs: tuple[int, ...] | None = (0,)
    moves: bool = False
    rectifies: bool = False
    triples: tuple[Triple, ...] = ()
    gives: tuple[int, int] | None = None
    weights: Callable[[Node], int] = field(default=lambda node: 0)

    @property
    def quantised(self) -> bool:
        """Whether it reads and gives integers with scales among its inputs."""
        return self.gives is not None

    def tensors(self, node: Node) -> Iterator[tuple[str, str, str]]:
        """Yield the names of tensors with those of their scales and zero points, "" of what it has not."""
        given = [*node.proto.input]

        def name(place: int) -> str:
            return given[place] if 0 <= place < len(given) else ""

        if node.kind == "QLinearConcat":
            for place in range(2, len(given) - 2, 3):
                yield name(place), name(place + 1), name(place + 2)
            return
        for triple in self.triples:
            yield name(triple[0]), name(triple[1]), name(triple[2])
        if not self.triples:
            for place in range(len(given)) if self.inputs is None else self.inputs:
                yield name(place), "", ""


def columns(node: Node) -> int:
    """Return the axis of the outputs in the weights of a product."""
    return 0 if node.told.get("transB") else 1


ONE: dict[str, Any] = {"triples": ((0, 1, 2),), "gives": (3, 4)}
TWO: dict[str, Any] = {"triples": ((0, 1, 2), (3, 4, 5)), "gives": (6, 7)}

OPERATORS: dict[tuple[str, str], Operator] = {
    ("", "Conv"): Operator(convolution, (0, 1, 2)),
    ("", "Gemm"): Operator(general_product, (0, 1, 2)),
    ("", "MatMul"): Operator(matrix_product, (0, 1)),
    ("", "Add"): Operator(summed, (0, 1)),
    ("", "Mul"): Operator(multiplied, (0, 1)),
    ("", "AveragePool"): Operator(pooled),
    ("", "MaxPool"): Operator(pooled, moves=True),
    ("", "GlobalAveragePool"): Operator(mean),
    ("", "ReduceMean"): Operator(mean),
    ("", "Softmax"): Operator(softmax),
    ("", "Relu"): Operator(rectifier, rectifies=True),
    ("", "Clip"): Operator(rectifier, rectifies=True),
    **{("", kind): Operator(function) for kind in FUNCTIONS},
    **{("", kind): Operator(reshaped, moves=True) for kind in ("Reshape", "Flatten", "Squeeze", "Unsqueeze")},
    ("", "Transpose"): Operator(transposed, moves=True),
    ("", "Concat"): Operator(concatenated, None, moves=True),
    ("", "Pad"): Operator(padded, moves=True),
    ("", "QLinearConv"): Operator(convolution, triples=((0, 1, 2), (3, 4, 5), (8, -1, -1)), gives=(6, 7)),
    ("", "QLinearMatMul"): Operator(matrix_product, **TWO, weights=lambda node: 1),
    (MICROSOFT, "QGemm"): Operator(
        general_product, triples=((0, 1, 2), (3, 4, 5), (6, -1, -1)), gives=(7, 8), weights=columns
    ),
    (MICROSOFT, "QLinearAdd"): Operator(summed, **TWO),
    (MICROSOFT, "QLinearMul"): Operator(multiplied, **TWO),
    (MICROSOFT, "QLinearAveragePool"): Operator(pooled, **ONE),
    (MICROSOFT, "QLinearGlobalAveragePool"): Operator(mean, **ONE),
    (MICROSOFT, "QLinearSoftmax"): Operator(softmax, **ONE),
    (MICROSOFT, "QLinearSigmoid"): Operator(function, **ONE),
    (MICROSOFT, "QLinearLeakyRelu"): Operator(function, **ONE),
    (MICROSOFT, "QLinearConcat"): Operator(concatenated, gives=(0, 1)),
}
"""What is computed exactly, by domain and operator."""
