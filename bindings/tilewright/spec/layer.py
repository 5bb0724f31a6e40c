"""The layer table that every room reads: a convolution, and the geometry that it shares with other kinds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError

MAX_SIZE = 65536
"""Largest number of kernels, groups and images."""

MAX_CHANNELS = 2**20
"""Largest number of input channels; a flattened map has as many as it had values."""

MAX_PLANE = 4_000_000
"""Largest number of (padded) input positions of one channel that is accepted."""

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Channels = Annotated[int, Field(ge=1, le=MAX_CHANNELS)]
Length = Annotated[int, Field(ge=1, le=MAX_PLANE)]
Small = Annotated[int, Field(ge=1, le=64)]
Extent = Annotated[int, Field(ge=1, le=4096)]
Pad = Annotated[int, Field(ge=0, le=MAX_SIZE)]

BOTH = BeforeValidator(lambda value: (value,) * 2 if type(value) is int else value)
"""Takes one integer for both axes."""

ALL_SIDES = BeforeValidator(lambda value: (value,) * 4 if type(value) is int else value)
"""Takes one integer for all four sides."""


class Window(Spec):
    """A window that moves over a padded plane: the geometry of all kinds of layers.

    A kind of layer declares as fields what its tables hold, in the order in which users are told of them,
    and the rest as constants.
    """

    if TYPE_CHECKING:  # declarations here would be fields of every kind, and its first

        @property
        def input(self) -> tuple[int, int, int]:
            """Channels, height and width before padding."""

        @property
        def kernel(self) -> tuple[int, int]:
            """Height and width of the window."""

        @property
        def stride(self) -> tuple[int, int]:
            """Vertical and horizontal distance from one window to the next."""

        @property
        def padding(self) -> tuple[int, int, int, int]:
            """Rows and columns added at the top, bottom, left and right."""

        @property
        def dilation(self) -> tuple[int, int]:
            """Vertical and horizontal distance from one position of a window to the next."""

    def model_post_init(self, _context: object) -> None:
        """Refuse windows that do not fit."""
        for axis, extent, size, before, after in (
            ("height", self.kernel_extent[0], self.input[1], *self.padding[:2]),
            ("width", self.kernel_extent[1], self.input[2], *self.padding[2:]),
        ):
            if extent > size + before + after:
                raise InputError(
                    "layer.kernel",
                    list(self.kernel),
                    f"its {axis} with dilation is {extent}, at most the padded input's "
                    f"{size + before + after} is possible",
                )
            if max(before, after) >= extent:
                raise InputError(
                    "layer.padding",
                    list(self.padding),
                    f"must be smaller than the kernel's {axis} {extent}; more gives outputs of padding",
                )
        height, width = self.padded_plane
        if height * width > MAX_PLANE:
            raise InputError(
                "layer.input", list(self.input), f"must have at most {MAX_PLANE} positions per channel"
            )

    @cached_property
    def kernel_extent(self) -> tuple[int, int]:
        """Height and width that a dilated kernel spans."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))  # type: ignore[return-value]

    @cached_property
    def padded_plane(self) -> tuple[int, int]:
        """Height and width of the input with its padding."""
        top, bottom, left, right = self.padding
        return self.input[1] + top + bottom, self.input[2] + left + right

    @cached_property
    def output_plane(self) -> tuple[int, int]:
        """H_out and W_out (definition 8, with dilation)."""
        return tuple(  # type: ignore[return-value]
            (size - extent) // stride + 1
            for size, extent, stride in zip(self.padded_plane, self.kernel_extent, self.stride, strict=True)
        )

    def positions(self, columns: bool) -> NDArray[np.int64]:
        """Return the padded input's rows (or columns) under each output, shape ``(outputs, kernel)``."""
        axis = int(columns)
        starts = np.arange(self.output_plane[axis]) * self.stride[axis]
        return starts[:, None] + np.arange(self.kernel[axis]) * self.dilation[axis]

    @property
    def output_channels(self) -> int:
        """Channels of the output."""
        return self.input[0]

    @property
    def output(self) -> tuple[int, int, int]:
        """Shape ``(C, H, W)`` of the output of one image."""
        return (self.output_channels, *self.output_plane)


class Layer(Window):
    """A 2D convolution layer (S1 paper, definitions 5 to 8), or a fully connected one.

    A table of kind ``fc`` gives ``inputs``, ``outputs`` and ``batch``; it is a convolution of a plane of one
    position (thesis on imaging DSPs, section 3.4).

    Attributes
    ----------
    kind : {"conv", "fc"}
    input : (C, H, W)
        Channels, height and width before padding.
    kernels : int
        Number of kernels N, the output's channels.
    kernel : (H_K, W_K) or int
        Height and width of a kernel; one integer is both.
    stride, dilation : (vertical, horizontal) or int
    padding : (top, bottom, left, right) or int
    groups : int
        Channel groups; each kernel sees ``C / groups`` channels.
    batch : int
        Images processed with the same kernels.
    """

    table_name: ClassVar[str] = "layer"

    kind: Literal["conv", "fc"] = "conv"
    input: tuple[Channels, Length, Length]
    kernels: Size
    kernel: Annotated[tuple[Extent, Extent], BOTH]
    stride: Annotated[tuple[Extent, Extent], BOTH] = (1, 1)
    padding: Annotated[tuple[Pad, Pad, Pad, Pad], ALL_SIDES] = (0, 0, 0, 0)
    dilation: Annotated[tuple[Extent, Extent], BOTH] = (1, 1)
    groups: Size = 1
    batch: Size = 1

    if TYPE_CHECKING:  # one integer is taken for several; of kind fc, inputs and outputs

        def __init__(
            self,
            *,
            kind: Literal["conv", "fc"] = "conv",
            input: Sequence[int] = ...,
            kernels: int = ...,
            kernel: int | Sequence[int] = ...,
            stride: int | Sequence[int] = 1,
            padding: int | Sequence[int] = 0,
            dilation: int | Sequence[int] = 1,
            groups: int = 1,
            batch: int = 1,
            inputs: int = ...,
            outputs: int = ...,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _fully_connected(cls, table: object) -> object:
        """Turn ``inputs`` and ``outputs`` of a fully connected layer into a convolution's fields."""
        if not isinstance(table, dict) or table.get("kind") != "fc" or "input" in table:
            return table
        for key, most in (("inputs", MAX_CHANNELS), ("outputs", MAX_SIZE)):
            value = table.get(key)
            if type(value) is not int or not 1 <= value <= most:
                limit = f"a fully connected layer needs it: an integer from 1 to {most}"
                raise InputError(f"layer.{key}", value, limit)
        rest = {key: value for key, value in table.items() if key not in ("inputs", "outputs")}
        return {**rest, "input": (table["inputs"], 1, 1), "kernels": table["outputs"], "kernel": (1, 1)}

    def model_post_init(self, _context: object) -> None:
        """Refuse geometries that no convolution has."""
        if self.kind == "fc" and (self.padded_plane, self.kernel) != ((1, 1), (1, 1)):
            raise InputError("layer.kind", self.kind, "has a plane and a kernel of one position")
        super().model_post_init(_context)
        channels = self.input[0]
        if channels % self.groups or self.kernels % self.groups:
            raise InputError(
                "layer.groups",
                self.groups,
                f"must divide both the {channels} input channels and the {self.kernels} kernels",
            )

    @property
    def output_channels(self) -> int:
        """Channels of the output, the number of kernels."""
        return self.kernels

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """Shape ``(batch, C, H, W)`` of the input tensor, without padding."""
        return (self.batch, *self.input)

    @property
    def kernels_shape(self) -> tuple[int, int, int, int]:
        """Shape ``(N, C / groups, H_K, W_K)`` of the kernels' tensor."""
        return (self.kernels, self.input[0] // self.groups, *self.kernel)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """Shape ``(batch, N, H_out, W_out)`` of the output tensor."""
        return (self.batch, *self.output)

    @property
    def macs_per_output(self) -> int:
        """``nb_op_value``, the MACs of one output value (definition 13)."""
        _, channels, height, width = self.kernels_shape
        return channels * height * width

    @property
    def macs(self) -> int:
        """MACs of the whole layer, all images together."""
        return self.macs_per_output * int(np.prod(self.output_shape))
