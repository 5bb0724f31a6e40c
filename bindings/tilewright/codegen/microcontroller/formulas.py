"""C for functions of single integers, as quantised operations have them."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.codegen.microcontroller.arrays import array_lines, single
from tilewright.simulator.arithmetic.quantised import (
    ExactOperation,
    ProductInSingles,
    QuantisedLarger,
    QuantisedProduct,
    QuantisedRescaling,
    QuantisedSigmoid,
    QuantisedSlopes,
    QuantisedSum,
    QuantisedTable,
    SumInSingles,
)
from tilewright.simulator.arithmetic.quantised.operation import Clamped

Lines = Iterator[str]

LARGEST_SUM = 2**11
"""Sums of two tensors that integers hold with 18 bits behind their point, and with an error below 2 ** -9."""

OF_VALUES = (
    *(QuantisedTable, QuantisedRescaling, QuantisedSigmoid, QuantisedSum, QuantisedProduct),
    *(QuantisedLarger, QuantisedSlopes, SumInSingles, ProductInSingles),
)
"""Operations that compute each value from those at its place."""


def function_lines(exact: ExactOperation, name: str) -> Lines:
    """Return a function of C that computes an operation of single values, with tables that it looks up."""
    if isinstance(exact, QuantisedTable):
        yield from array_lines("int8_t", f"{name}_values", exact.table)
    if isinstance(exact, QuantisedSigmoid):
        yield from array_lines("uint16_t", f"{name}_points", exact.table)
    operands = ", ".join(f"int32_t {letter}" for letter in "ab"[: len(exact.inputs)])
    yield f"INLINE int32_t {name}({operands})"
    yield "{"
    yield f"    return {_value(exact, name)};"
    yield "}"
    yield ""


def _value(exact: ExactOperation, name: str) -> str:
    """Return what an operation makes of `a`, or of `a` and `b`."""
    if isinstance(exact, QuantisedTable):
        return f"{name}_values[{less('a', exact.first)}]"
    if isinstance(exact, QuantisedRescaling):
        value = f"({less('a', exact.input_zero_point)})"
        above = f"scaled({value}, {exact.multiplier}, {exact.shift})"
        below = f"scaled({value}, {exact.multiplier_below}, {exact.shift_below})"
        found = above if above == below else f"({value} < 0 ? {below} : {above})"
        return clamped(exact, f"{found} + {exact.output_zero_point}")
    if isinstance(exact, QuantisedSigmoid):
        told = f"{exact.multiplier}, {exact.right_shift}, {name}_points, {exact.fraction}, {exact.largest}"
        return f"sigmoid(a, {told}, {int(exact.tangent)})"
    if isinstance(exact, QuantisedLarger):
        return f"a {'>' if exact.largest else '<'} b ? a : b"
    if isinstance(exact, QuantisedSlopes):
        value = f"({less('a', exact.input_zero_point)})"
        above = f"scaled({value}, {exact.multiplier}, {exact.shift})"
        product = f"{value} * ({less('b', exact.slope_zero_point)})"
        below = f"scaled({product}, {exact.multiplier_below}, {exact.shift_below})"
        return clamped(exact, f"({value} >= 0 ? {above} : {below}) + {exact.output_zero_point}")
    if isinstance(exact, QuantisedSum):
        return _sum(exact)
    if isinstance(exact, QuantisedProduct):
        product = f"({less('a', exact.first_zero_point)}) * ({less('b', exact.second_zero_point)})"
        return clamped(
            exact, f"scaled({product}, {exact.multiplier}, {exact.shift}) + {exact.output_zero_point}"
        )
    if isinstance(exact, SumInSingles):
        return _sum_in_singles(exact)
    assert isinstance(exact, ProductInSingles)
    first, second = exact.first_zero_point - exact.offset, exact.second_zero_point - exact.offset
    product = f"(float)(({less('a', first)}) * ({less('b', second)})) * {single(exact.ratio)}"
    return nearest(exact, f"{product} + {single(exact.output_zero_point)}", -exact.offset)


def _sum(exact: QuantisedSum) -> str:
    factor = 1 << exact.left_shift
    first = f"scaled(({less('a', exact.first_zero_point)}) * {factor}, "
    first += f"{exact.first_multiplier}, {exact.first_shift})"
    second = f"scaled(({less('b', exact.second_zero_point)}) * {factor}, "
    second += f"{exact.second_multiplier}, {exact.second_shift})"
    total = f"{first} {'-' if exact.difference else '+'} {second}"
    scaled = f"scaled({total}, {exact.output_multiplier}, {exact.output_shift})"
    return clamped(exact, f"{scaled} + {exact.output_zero_point}")


def _sum_in_singles(exact: SumInSingles) -> str:
    a, b = (f"a + {exact.offset}", f"b + {exact.offset}") if exact.offset else ("a", "b")
    parts = exact.fixed, exact.first_ratio, exact.second_ratio
    if abs(exact.fixed) + 255 * (exact.first_ratio + exact.second_ratio) < LARGEST_SUM:
        integers = ", ".join(str(round(each * 2**18)) for each in parts)
        floats = ", ".join(map(single, parts))
        limits = f"{exact.least + exact.offset}, {exact.most + exact.offset}"
        return f"nearest_of_two({a}, {b}, {integers}, {floats}, {limits}) - {exact.offset}"
    fixed, first, second = map(single, parts)
    return nearest(exact, f"{fixed} + (float)({a}) * {first} + (float)({b}) * {second}", -exact.offset)


def less(value: str, zero: int) -> str:
    """Return a number less a zero point."""
    return f"{value} - {zero}" if zero > 0 else f"{value} + {-zero}" if zero else value


def clamped(exact: Clamped, value: str) -> str:
    """Return a number within the limits of an operation."""
    return f"limited({value}, {exact.least}, {exact.most})"


def nearest(exact: Clamped, value: str, zero: int) -> str:
    """Return a number of single precision to the nearest within the limits, and a zero point added."""
    least, most = single(exact.least - zero), single(exact.most - zero)
    return f"nearest({value}, {least}, {most}) + {zero}"
