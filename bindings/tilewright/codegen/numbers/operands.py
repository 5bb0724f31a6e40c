"""Operands: what an operation reads, put together of parts, copies, and tensors in other shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.spec.graph import Access, NetworkGraph, Operation
from tilewright.spec.network import Function, Shape, Slice

COPIES = ("expand", "resize_nearest")
"""Functions that give copies of what they read."""


@dataclass(frozen=True)
class Operand:
    """An operand.

    Attributes
    ----------
    accesses
        Its parts; one may begin before the operand, of which it then has the rest.
    shape : (C, H, W)
    """

    accesses: tuple[Access, ...]
    shape: Shape


def operands_of(graph: NetworkGraph, op: Operation) -> tuple[Operand, ...]:
    """Return what an operation reads, in order: with the copies, or the part, that it gives of it."""
    spec = op.spec
    if isinstance(spec, Function) and spec.op in COPIES and op.picks is None:
        (access,) = op.accesses
        channels, rows, columns = (
            whole // part for whole, part in zip(spec.output, graph.shape(access), strict=True)
        )
        return (Operand((access._replace(copies=(channels, rows, columns)),), spec.output),)
    if isinstance(spec, Slice) and op.picks is None:
        (access,) = op.accesses
        first, row, column = spec.first
        begin = (access.channels or (0, 0))[0] + first
        part = access._replace(channels=(begin, begin + spec.output[0]), at=(-row, -column))
        return (Operand((part,), spec.output),)
    return tuple(Operand(accesses, graph.operand_shape(accesses)) for accesses in op.operands)


def can_be_read(graph: NetworkGraph, op: Operation) -> bool:
    """Whether copies, or a part, that an operation gives can be told: of one tensor, in whole numbers."""
    spec = op.spec
    if not isinstance(spec, Slice) and not (isinstance(spec, Function) and spec.op in COPIES):
        return True
    if len(op.accesses) != 1 or op.has_views or op.accesses[0].shape is not None:
        return False
    shape = graph.shape(op.accesses[0])
    if isinstance(spec, Slice):
        return shape == spec.input
    return not any(whole % part for whole, part in zip(spec.output, shape, strict=True))


def read(graph: NetworkGraph, operand: Operand, maps: Mapping[str, Floats]) -> Floats:
    """Return the values of an operand, shape (images, C, H, W)."""
    found: Floats | None = None
    for access in operand.accesses:
        values = maps[graph.name(access.source)]
        if access.shape is not None:
            values = values.reshape(len(values), *access.shape)
        elif access.channels is not None:
            values = values[:, slice(*access.channels)]
        for axis, copies in enumerate(access.copies or (), 1):
            values = np.repeat(values, copies, axis=axis)
        row, column = access.at or (0, 0)
        if len(operand.accesses) == 1 and values.shape[1:] == operand.shape:
            return values
        if found is None:
            found = np.zeros((len(values), *operand.shape))
        values = values[:, :, max(0, -row) :, max(0, -column) :]
        there = found[:, :, max(0, row) :, max(0, column) :][:, :, : values.shape[2], : values.shape[3]]
        there[:] = values[:, :, : there.shape[2], : there.shape[3]]
    assert found is not None
    return found
