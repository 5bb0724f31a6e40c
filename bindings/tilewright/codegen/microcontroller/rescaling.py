"""C that multiplies sums by factors, for each output by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.microcontroller.arrays import array_lines, real_lines
from tilewright.codegen.microcontroller.formulas import clamped, nearest
from tilewright.simulator.arithmetic.quantised import QuantisedMatrixProduct
from tilewright.simulator.arithmetic.quantised.operation import Clamped
from tilewright.simulator.arithmetic.quantised.windows import Rounding, Weighted

Lines = Iterator[str]

POINT = 8
"""Bits behind the point of a factor in integers, less 16 of what is kept behind that of a product."""


@dataclass(frozen=True, eq=False)
class Rescaling:
    """How sums become results.

    Attributes
    ----------
    exact
        Has the limits.
    most
        By what sums are limited.
    zero
        The output's zero point.
    rounding, multiplier, shift, scale, added
        See `Weighted`; the entries are of the outputs.
    """

    exact: Clamped
    most: NDArray[np.int64]
    zero: int
    rounding: Rounding
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    scale: NDArray[np.float64]
    added: NDArray[np.int64] | None = None

    @classmethod
    def of_weights(cls, exact: Weighted) -> Rescaling:
        """Return that of an operation with weights."""
        weights = exact.weights.reshape(len(exact.weights), -1).astype(np.int64) - exact.weight_zero_point
        reach = 2 ** (8 * np.dtype(exact.type).itemsize)
        most = np.abs(exact.bias.astype(np.int64)) + reach * np.abs(weights).sum(axis=1)
        told = exact.rounding, exact.multiplier, exact.shift, exact.scale, exact.added
        return cls(exact, most, exact.output_zero_point, *told)

    @classmethod
    def of_products(cls, exact: QuantisedMatrixProduct, depth: int) -> Rescaling:
        """Return that of sums of so many products of two tensors."""
        reach = 2 ** (8 * np.dtype(exact.type).itemsize)
        factors = np.array([exact.multiplier], np.int32), np.array([exact.shift], np.int32)
        most, scale = np.array([depth * reach * reach]), np.array([exact.scale])
        return cls(exact, most, exact.output_zero_point, exact.rounding, *factors, scale)

    @property
    def wide(self) -> bool:
        """Whether sums have 64 bits, as 32 may not hold them."""
        return int(self.most.max(initial=0)) >= 2**31

    @property
    def wraps(self) -> bool:
        """Whether LiteRT or onnxruntime keeps 32 bits of sums that may need more."""
        return self.wide and self.rounding not in ("wide", "doubles", "shifts")

    @property
    def by_integers(self) -> bool:
        """Whether sums and factors in single precision are so small that integers hold their products."""
        products, powers = self.most * np.abs(self.scale), np.frexp(self.scale)[1]
        return bool(
            (self.most < 2**24).all()
            and (products < 2**14).all()
            and ((powers < POINT) & (powers > POINT - 60)).all()
        )

    def lines(self, name: str) -> Lines:
        """Return a function ``NAME_rescaled(output, sum)``, and factors that it reads."""
        if self.rounding == "singles":
            yield from self._in_singles(name)
        else:
            yield from self._in_integers(name)

    def _function(self, name: str, value: str) -> Lines:
        yield f"INLINE int32_t {name}_rescaled(int output, {'int64_t' if self.wide else 'int32_t'} sum)"
        yield "{"
        yield f"    return {value};"
        yield "}"
        yield ""

    def _in_singles(self, name: str) -> Lines:
        yield from real_lines("float", f"{name}_scale", self.scale)
        scaled = nearest(self.exact, f"(float)sum * {name}_scale[output]", self.zero)
        if self.by_integers:
            parts, powers = np.frexp(self.scale)
            yield from array_lines("int32_t", f"{name}_multiplier", (parts * 2**24).astype(np.int32))
            yield from array_lines("int8_t", f"{name}_shift", POINT - powers)
            limits = f"{self.exact.least - self.zero}, {self.exact.most - self.zero}"
            factors = ", ".join(f"{name}_{each}[output]" for each in ("multiplier", "shift", "scale"))
            scaled = f"nearest_of_sum(sum, {factors}, {limits}) + {self.zero}"
        yield from self._function(name, scaled)

    def _in_integers(self, name: str) -> Lines:
        if self.rounding == "doubles":
            yield from real_lines("double", f"{name}_scale", self.scale)
            far = self.wide or bool((self.most * np.abs(self.scale) >= 2**31 - 1).any())
            scaled = f"scaled_{'far_' if far else ''}in_doubles(sum, {name}_scale[output])"
        elif self.rounding == "wide":
            factor, total = self.multiplier.astype(np.int64), 15 - self.shift.astype(np.int64)
            reduced = np.where(factor < 0x7FFF0000, (factor + (1 << 15)) >> 16, 0x7FFF)
            yield from array_lines("int16_t", f"{name}_multiplier", reduced)
            yield from array_lines("int8_t", f"{name}_shift", total)
            scaled = f"scaled_wide(sum, {name}_multiplier[output], {name}_shift[output])"
        elif self.added is not None:
            yield from array_lines("int32_t", f"{name}_multiplier", self.multiplier)
            yield from array_lines("int64_t", f"{name}_added", self.added)
            yield from array_lines("int8_t", f"{name}_shift", self.shift)
            product = f"(int64_t)sum * {name}_multiplier[output] + {name}_added[output]"
            scaled = f"(int32_t)(({product}) >> {name}_shift[output])"
        else:
            yield from array_lines("int32_t", f"{name}_multiplier", self.multiplier)
            yield from array_lines("int8_t", f"{name}_shift", self.shift)
            scaled = f"scaled(sum, {name}_multiplier[output], {name}_shift[output])"
            if (self.shift <= 0).all():
                high = f"multiply_high(sum, {name}_multiplier[output])"
                scaled = f"divide_by_power({high}, -{name}_shift[output])"
        yield from self._function(name, clamped(self.exact, f"{scaled} + {self.zero}"))
