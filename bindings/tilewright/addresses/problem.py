"""The addresses problem: buffers with known lifetimes, and a memory."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.constraints import Constrained
from tilewright.spec.errors import InputError
from tilewright.spec.network import Name

MOST_BUFFERS = 5000
"""Most buffers of a problem."""

LATEST, LARGEST = 2**31 - 1, 2**31 - 1
"""Last time, and most addresses of a buffer or a memory."""

MOST_ALIGNMENT = 2**20
"""Largest alignment."""


class Buffer(Spec):
    """What lies at one place of the memory for a while.

    Attributes
    ----------
    id : str
        Its name.
    lower, upper : int
        The first time unit in which it lives, and the first in which it does not any more.
    size : int
        Addresses that it takes.
    """

    id: Name
    lower: Annotated[int, Field(ge=0, le=LATEST)]
    upper: Annotated[int, Field(ge=1, le=LATEST)]
    size: Annotated[int, Field(ge=1, le=LARGEST)]


class Memory(Spec):
    """Where buffers lie.

    Attributes
    ----------
    capacity : int, optional
        Its addresses; as many as are needed when left out.
    alignment : int
        Every buffer begins at a multiple of this.
    """

    table_name: ClassVar[str] = "memory"

    capacity: Annotated[int, Field(ge=1, le=LARGEST)] | None = None
    alignment: Annotated[int, Field(ge=1, le=MOST_ALIGNMENT)] = 1


class Problem(Constrained):
    """Buffers, and the memory that they share; minimised is the height, up to the highest address in use."""

    buffers: Annotated[tuple[Buffer, ...], Field(min_length=1, max_length=MOST_BUFFERS)]
    memory: Memory = Memory()

    def model_post_init(self, _context: object) -> None:
        """Refuse buffers that never live, or have the name of another one."""
        seen: dict[str, int] = {}
        for number, buffer in enumerate(self.buffers):
            field = f"buffers[{number}]"
            if buffer.upper <= buffer.lower:
                raise InputError(f"{field}.upper", buffer.upper, f"must be above lower, {buffer.lower}")
            if buffer.id in seen:
                raise InputError(f"{field}.id", buffer.id, f"is that of buffers[{seen[buffer.id]}] already")
            seen[buffer.id] = number

    minimise: ClassVar[str] = "memory"
    unit: ClassVar[str] = "addresses"

    @cached_property
    def lower(self) -> NDArray[np.int64]:
        """First times."""
        return np.array([buffer.lower for buffer in self.buffers], dtype=np.int64)

    @cached_property
    def upper(self) -> NDArray[np.int64]:
        """First times at which buffers live no more."""
        return np.array([buffer.upper for buffer in self.buffers], dtype=np.int64)

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """Sizes."""
        return np.array([buffer.size for buffer in self.buffers], dtype=np.int64)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names."""
        return tuple(buffer.id for buffer in self.buffers)
