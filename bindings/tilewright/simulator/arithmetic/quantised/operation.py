"""What every operation of a quantised network has, and the tensors between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True)
class ExactTensor:
    """A tensor that is computed, an input of the network, or numbers that an operation reads as a tensor.

    Attributes
    ----------
    shape
        As the file has it: of a map (images, rows, columns, channels).
    type
        As NumPy calls it: ``int8``, ``int16``, ``float32``.
    scale, zero_point
        An integer q stands for ``scale * (q - zero_point)``; 1 and 0 of what is not quantised.
    numbers
        What the file stores, None of what is computed or given.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    scale: float = 1.0
    zero_point: int = 0
    numbers: Array | None = None


@dataclass(frozen=True, eq=False)
class ExactOperation:
    """An operation of a quantised network with all that its arithmetic needs.

    Attributes
    ----------
    name
        That of the tensor that it gives.
    number
        Its place in the file, from 0.
    operator
        What the file calls it: ``CONV_2D``.
    inputs
        Names of the tensors that it reads, in order; weights and biases are not among them.
    shape
        Of what it gives.
    type
        Of what it gives, as NumPy calls it.
    """

    name: str
    number: int
    operator: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    type: str

    def compute(self, *given: Array) -> Array:
        """Return what it gives for what it reads."""
        raise NotImplementedError

    def stored(self, values: Array) -> Array:
        """Return values in the type and shape of what it gives.

        Raises
        ------
        InputError
            If there are not as many.
        """
        if values.size != prod(self.shape):
            limit = f"{self.operator} gives {values.size} values"
            raise InputError(f"shape of {self.name}", list(self.shape), limit)
        return np.ascontiguousarray(values.astype(self.type).reshape(self.shape))


@dataclass(frozen=True, eq=False)
class Clamped(ExactOperation):
    """An operation whose results are limited, by its type or by a rectifier that is part of it.

    Attributes
    ----------
    least, most
        Integers of what it gives, after the zero point is added.
    """

    least: int
    most: int

    def limited(self, values: Array) -> Array:
        """Return values between the limits, as they are stored."""
        return self.stored(np.clip(values, self.least, self.most))
