"""What operations compute, by output value: MACs, other operations on values, and accesses on chip."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tilewright.residency.graph import Operation
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, planes_or_strips
from tilewright.residency.shapes.strips import Strips
from tilewright.spec.network import Add, Map, Mul, Pool


class Work(NamedTuple):
    """Work of any amount.

    Attributes
    ----------
    macs
        Multiplications with a weight and additions.
    vectors
        Operations of the core on single values, in pools, sums and functions.
    accesses
        Elements that the core reads and writes: for each MAC a value and a weight, biases, what it pools,
        sums up or maps, and each value that it computes, once.
    """

    macs: int = 0
    vectors: int = 0
    accesses: int = 0

    def times(self, count: int) -> Work:
        """Return the work of so many values."""
        return Work(self.macs * count, self.vectors * count, self.accesses * count)

    def plus(self, other: Work) -> Work:
        """Return the work of both."""
        return Work(self.macs + other.macs, self.vectors + other.vectors, self.accesses + other.accesses)

    def minus(self, other: Work) -> Work:
        """Return what this is more."""
        return Work(self.macs - other.macs, self.vectors - other.vectors, self.accesses - other.accesses)


def of_value(operation: Operation) -> Work:
    """Return what an operation does for one value of its output."""
    known: Work | None = operation.__dict__.get("_work")
    if known is None:
        known = operation.__dict__["_work"] = _of_value(operation)
    return known


def _of_value(operation: Operation) -> Work:
    """Return what an operation does for one value of its output."""
    spec = operation.op.spec
    macs = operation.op.macs // max(1, prod(spec.output))
    if macs:
        return Work(macs, 0, 2 * macs + int(getattr(spec, "bias", False)) + 1)
    if isinstance(spec, Pool):
        window = prod(spec.kernel)
        return Work(0, window, window + 1)
    if isinstance(spec, Add | Mul):
        operands = len(operation.op.producers)
        return Work(0, max(1, operands - 1), operands + 1)
    return Work(0, int(isinstance(spec, Map)), 2)


def of_step(group: Group, shape: Shape) -> Work:
    """Return what a step does: strips compute again what they share."""
    where, total = planes_or_strips(group, shape), Work()
    for operation in group.operations:
        tensor = group.graph.tensors[operation.number + 1]
        values = tensor.size
        if isinstance(where, Strips):
            values = where.read(operation.number + 1) * tensor.shape[0] * tensor.shape[1]
        total = total.plus(of_value(operation).times(values))
    return total
