"""The processor beside an accelerator, which executes what that leaves out, and what its work takes."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Annotated, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.graph import NetworkGraph, Operation


class Host(Spec):
    """What an operation takes that the host executes, in cycles of the machine's clock.

    The price is all that is known of the host: work that an operation does beyond its bytes is part of their
    rate.

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


class HostWork(NamedTuple):
    """What the host has to do for an operation.

    Attributes
    ----------
    values
        Of one image: all that it reads, what is read twice once, and all that it writes.
    parameters
        Of the operation.
    macs
        Of one image, as far as they are known.
    """

    values: int
    parameters: int
    macs: int

    def words(self, images: int = 1) -> int:
        """Return the words that the host reads and writes for some images."""
        return images * self.values + self.parameters


def host_work(graph: NetworkGraph, op: Operation) -> HostWork:
    """Return what the host has to do for an operation of a coarse graph."""
    read = sum(prod(graph.shape(access)) for access in dict.fromkeys(op.accesses))
    macs = getattr(op.spec, "macs", 0) // getattr(op.spec, "batch", 1)
    return HostWork(read + prod(op.spec.output), getattr(op.spec, "parameters", 0), macs)
