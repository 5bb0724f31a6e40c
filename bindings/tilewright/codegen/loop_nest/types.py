"""The C types of a machine's elements."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.codegen.numbers.c_integers import C_BITS, c_bits, c_integer
from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.machine import DspMachine


class CType(NamedTuple):
    """A type that a file defines.

    Attributes
    ----------
    planned, bits
        Width of its elements in the plan, and in C.
    """

    name: str
    planned: int
    bits: int

    @property
    def bytes(self) -> int:
        """Size of an element in C."""
        return self.bits // 8

    @property
    def integer(self) -> str:
        """C's name of it."""
        return c_integer(self.bits)


class CTypes(NamedTuple):
    """The types of inputs, weights, outputs, and sums that are not complete."""

    input: CType
    kernels: CType
    output: CType
    sums: CType

    @classmethod
    def of(cls, machine: DspMachine) -> CTypes:
        """Return the types for a machine: the next wider ones of C, where it gives widths.

        Where it does not, its sums are elements, and those of the file are wider, so that they are exact.

        Raises
        ------
        InputError
            If C has no integer that is wide enough.
        """
        given = machine.operand_bits
        if machine.bits is None:
            bits = c_bits(given.input)
            data = CType("data_t", given.input, bits)
            sums = CType("acc_t", given.partial, 32 if bits <= 16 else 64)
            return cls(data, data, sums, sums)
        names = {"input": "in_t", "weights": "w_t", "output": "out_t", "partial": "sum_t"}
        found = []
        for operand, name in names.items():
            planned = int(getattr(given, operand))
            if planned > C_BITS[-1]:
                limit = f"C has integers of at most {C_BITS[-1]} bits"
                raise InputError(f"machine.bits.{operand}", planned, limit)
            found.append(CType(name, planned, c_bits(planned)))
        return cls(*found)

    def distinct(self) -> list[CType]:
        """Return each type once."""
        return list(dict.fromkeys(self))
