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
    if op.picks is None and isinstance(spec, Function) and spec.op in COPIES:
        (accesses,) = op.operands
        given = graph.operand_shape(accesses)
        times = tuple(whole // part for whole, part in zip(spec.output, given, strict=True))
        return (Operand(tuple(_copied(access, times) for access in accesses), spec.output),)
    if op.picks is None and isinstance(spec, Slice):
        (accesses,) = op.operands
        return (Operand(tuple(_cut(graph, access, spec) for access in accesses), spec.output),)
    return tuple(Operand(accesses, graph.operand_shape(accesses)) for accesses in op.operands)


def _copied(access: Access, times: tuple[int, ...]) -> Access:
    """Return an access to so many copies of each channel, row and column."""
    (row, column), copies = access.at or (0, 0), access.copies or (1, 1, 1)
    channels, rows, columns = (one * more for one, more in zip(copies, times, strict=True))
    return access._replace(at=(row * times[1], column * times[2]), copies=(channels, rows, columns))


def _cut(graph: NetworkGraph, access: Access, spec: Slice) -> Access:
    """Return an access to what a slice has of a part."""
    (row, column), (first, above, before) = access.at or (0, 0), spec.first
    begin, end = access.channels or (0, graph.shape(access)[0])
    channels = begin + first, min(end, begin + first + spec.output[0])
    return access._replace(channels=channels, at=(row - above, column - before))


def can_be_read(graph: NetworkGraph, op: Operation) -> bool:
    """Whether copies, or a part, that an operation gives can be told: of one operand, in whole numbers."""
    spec = op.spec
    if not isinstance(spec, Slice) and not (isinstance(spec, Function) and spec.op in COPIES):
        return True
    if len(op.operands) != 1:
        return False
    shape = graph.operand_shape(op.operands[0])
    if isinstance(spec, Slice):
        plain = all(access.copies is None and access.shape is None for access in op.accesses)
        return plain and shape == spec.input
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
