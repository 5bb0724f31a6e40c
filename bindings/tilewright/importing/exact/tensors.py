"""What nodes of a quantised ONNX file read and give, on the way to exact operations."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

Places = NDArray[np.int64]


class Unread(Exception):
    """A node, or a use of one, whose integers are not known.

    Attributes
    ----------
    node
        It, if it is another one than that in hand.
    """

    node: NodeProto | None = None


class Scaled(NamedTuple):
    """What 8-bit integers stand for: ``scale * (q - zero)``, as integers with a sign.

    Attributes
    ----------
    zero
        From -128 to 127; that of integers without sign is 128 less.
    unsigned
        Whether they have no sign in the file.
    """

    scale: np.float32
    zero: int
    unsigned: bool

    @property
    def type(self) -> str:
        """As NumPy calls the integers of the file."""
        return "uint8" if self.unsigned else "int8"


@dataclass(frozen=True, eq=False)
class Integers:
    """A tensor of 8-bit integers that is computed.

    Attributes
    ----------
    name
        Of the exact tensor.
    shape
        As the file has it.
    order
        Where each value, as they are stored, lies among the file's; None where it is the same place.
    """

    name: str
    shape: tuple[int, ...]
    scaled: Scaled
    order: Places | None

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape in which it is stored: of maps with channels last."""
        return stored_shape(self.shape)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Integers that the file stores, and what they stand for: ``scales * (numbers - zeros)``.

    Attributes
    ----------
    numbers
        As the file has them.
    scales, zeros
        One, or as many as there are along an axis.
    """

    name: str
    numbers: NDArray[Any]
    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    axis: int = 0

    @property
    def floats(self) -> NDArray[np.float32]:
        """What they stand for."""
        scales, zeros = along(self.scales, self), along(self.zeros, self)
        found: NDArray[np.float32] = (self.numbers.astype(np.int64) - zeros).astype(np.float32) * scales
        return found

    @property
    def scaled(self) -> Scaled:
        """What single integers stand for."""
        if self.scales.size != 1 or self.zeros.size != 1:
            raise Unread(f"{self.name} has {self.scales.size} scales")
        unsigned = self.numbers.dtype == np.uint8
        return Scaled(self.scales.reshape(-1)[0], int(self.zeros.reshape(-1)[0]) - 128 * unsigned, unsigned)


def along(values: NDArray[Any], numbers: Numbers) -> NDArray[Any]:
    """Return scales or zero points in a shape that goes along their axis."""
    if values.size == 1:
        return values.reshape(())
    axis = numbers.axis % max(1, numbers.numbers.ndim)
    if values.ndim != 1 or numbers.numbers.shape[axis] != values.size:
        raise Unread(f"{numbers.name} has scales of blocks, or of another axis")
    return values.reshape([-1 if each == axis else 1 for each in range(numbers.numbers.ndim)])


def stored_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which a tensor is stored: of maps with channels last."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape


def stored_order(shape: tuple[int, ...]) -> Places | None:
    """Return where each value of a tensor of a shape, as they are stored, lies among the file's."""
    if len(shape) != 4 or shape[1] == 1 or shape[2] * shape[3] == 1:
        return None
    return np.arange(prod(shape)).reshape(shape).transpose(0, 2, 3, 1).reshape(-1)


def same_order(one: Places | None, other: Places | None) -> bool:
    """Whether values of two tensors of one size are stored in the same order."""
    if one is None or other is None:
        known = one if other is None else other
        return known is None or bool((known == np.arange(known.size)).all())
    return bool((one == other).all())


def stored_axis(axis: int, rank: int) -> int:
    """Return the place of an axis of the file's in the stored shape."""
    axis %= rank
    return (0, 3, 1, 2)[axis] if rank == 4 else axis
