"""How wide the elements of each operand are, on every kind of machine."""

from __future__ import annotations

from math import gcd
from typing import Annotated, Self

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError

Bits = Annotated[int, Field(ge=1, le=128)]


class Widths(Spec):
    """Bits of an element of each operand; of sums that are not complete, wherever they lie, `partial`."""

    input: Bits = 8
    weights: Bits = 8
    output: Bits = 8
    partial: Bits = 32

    @classmethod
    def same(cls, bits: int) -> Self:
        """Return equal widths for all."""
        return cls(input=bits, weights=bits, output=bits, partial=bits)

    def check(self) -> None:
        """Refuse sums that grow when they are complete."""
        if self.partial < self.output:
            limit = f"sums that are not complete have the {self.output} bits of outputs at least"
            raise InputError("machine.bits.partial", self.partial, limit)

    @property
    def grain(self) -> int:
        """The largest number of bits of which every element has a multiple."""
        return gcd(self.input, self.weights, self.output, self.partial)
