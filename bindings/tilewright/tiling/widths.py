"""How wide the elements of each operand are, on every kind of machine."""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

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
            limit = f"partial sums need at least the {self.output} bits of outputs"
            raise InputError("machine.bits.partial", self.partial, limit)

    @property
    def grain(self) -> int:
        """The largest number of bits of which every element has a multiple."""
        return gcd(self.input, self.weights, self.output, self.partial)


class Units(NamedTuple):
    """What an element of each operand takes, in the machine's unit; `partial` of incomplete sums."""

    input: int
    kernels: int
    output: int
    partial: int

    def held(self, *, complete: bool) -> dict[str, int]:
        """Return what elements take on chip, where tiles complete their outputs at once or do not."""
        outputs = self.output if complete else self.partial
        return {"input": self.input, "kernels": self.kernels, "output": outputs}


class Sized:
    """A machine whose elements all have `element_bytes`, or those of each operand its `bits`.

    Then memory and accesses are counted in a unit: an element, or with `bits` a bit.
    """

    if TYPE_CHECKING:

        @property
        def element_bytes(self) -> int:
            """Size of every element, without `bits`."""

        @property
        def bits(self) -> Widths | None:
            """Widths of the operands' elements."""

    @cached_property
    def operand_bits(self) -> Widths:
        """Widths of the operands' elements: `bits`, or `element_bytes` of each."""
        return self.bits or Widths.same(8 * self.element_bytes)

    @property
    def unit_bits(self) -> int:
        """The unit of accesses and capacities: an element, or with `bits` a bit."""
        return 1 if self.bits is not None else 8 * self.element_bytes

    @cached_property
    def units(self) -> Units:
        """What an element of each operand takes in that unit."""
        bits = self.operand_bits
        each = (bits.input, bits.weights, bits.output, bits.partial)
        return Units(*(width // self.unit_bits for width in each))

    @property
    def unit(self) -> str:
        """What the unit is called."""
        return "elements" if self.bits is None else "bits"
