"""Operations that move integers and change none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, ExactOperation


@dataclass(frozen=True, eq=False)
class Reshaped(ExactOperation):
    """The same values in the same order, in another shape."""

    def compute(self, *given: Array) -> Array:
        """Return the values in the other shape."""
        return self.stored(given[0])


@dataclass(frozen=True, eq=False)
class Padded(ExactOperation):
    """A tensor with a border.

    Attributes
    ----------
    padding
        Places before and after, along each axis.
    value
        The integer of the border.
    """

    padding: tuple[tuple[int, int], ...]
    value: int

    def compute(self, *given: Array) -> Array:
        """Return the tensor with its border."""
        return self.stored(np.pad(given[0], self.padding, constant_values=self.value))


@dataclass(frozen=True, eq=False)
class Concatenated(ExactOperation):
    """Tensors of one scale, one behind the other along an axis."""

    axis: int

    def compute(self, *given: Array) -> Array:
        """Return the tensors in one."""
        return self.stored(np.concatenate(given, self.axis))


@dataclass(frozen=True, eq=False)
class Rearranged(ExactOperation):
    """Values of a tensor in other places: parts, transpositions, enlargements.

    Attributes
    ----------
    places : int64, in the shape of what is given
        Where each value lies in what is read, among all its values in order.
    """

    places: NDArray[np.int64]

    def compute(self, *given: Array) -> Array:
        """Return the values in their places."""
        return self.stored(given[0].reshape(-1)[self.places])


@dataclass(frozen=True, eq=False)
class Stacked(ExactOperation):
    """Tensors of one scale beside each other along a new axis."""

    axis: int

    def compute(self, *given: Array) -> Array:
        """Return the tensors in one."""
        return self.stored(np.stack(given, self.axis))
