"""The processor beside an accelerator, which executes what that leaves out, and what its work takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field

from tilewright.spec.base import Spec


class Host(Spec):
    """What an operation takes that the host executes, in cycles of the machine's clock.

    Attributes
    ----------
    cycles_per_byte
        For each byte of the operation's inputs, parameters and outputs.
    cycles_per_call
        For each operation, whatever its size.
    """

    cycles_per_byte: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    cycles_per_call: Annotated[int, Field(ge=0, le=10**9)] = 0

    def cycles(self, bytes: int) -> int:
        """Return the cycles of one operation that reads and writes that many bytes, rounded up.

        The price is the decimal number that a file has, so 10 bytes at 0.1 cycles are 1 cycle.
        """
        moved = bytes * Fraction(repr(self.cycles_per_byte))
        return self.cycles_per_call - (-moved.numerator // moved.denominator)
