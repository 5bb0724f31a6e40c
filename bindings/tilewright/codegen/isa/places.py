"""What an instruction reads and writes: blocks of values in buffers and in DDR."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.isa.fields import Values
from tilewright.codegen.isa.instructions import HOST_NAMES, MODES, Instruction

Elements = NDArray[Any]

Slices = tuple[slice, ...]


class Block(NamedTuple):
    """Values in a buffer, as `AREA` and `BOX` say.

    Attributes
    ----------
    bank
        Number of the buffer.
    base
        First element of the array.
    ring : (images, rows, columns, channels)
        Sizes of the array.
    at : (row, column, channel)
        Where in the array the first value is.
    box : (rows, columns, channels)
        How many values there are of each image.
    """

    bank: int
    base: int
    ring: tuple[int, int, int, int]
    at: tuple[int, int, int]
    box: tuple[int, int, int]

    @property
    def end(self) -> int:
        """The element behind the array."""
        return self.base + prod(self.ring)

    @property
    def fits(self) -> bool:
        """Whether no value has two places, or two values one."""
        return all(size <= most for size, most in zip(self.box, self.ring[1:], strict=True)) and all(
            first < most for first, most in zip(self.at, self.ring[1:], strict=True)
        )

    def view(self, bank: Elements) -> Elements:
        """Return the array."""
        return bank[self.base : self.end].reshape(self.ring)

    def pieces(self) -> Iterator[tuple[Slices, Slices]]:
        """Yield parts of the block that lie in one piece: where in the array, where among the values."""
        axes = [_around(*each) for each in zip(self.at, self.box, self.ring[1:], strict=True)]
        for parts in product(*axes):
            yield (
                (slice(None), *(part[0] for part in parts)),
                (slice(None), *(part[1] for part in parts)),
            )

    def views(self, bank: Elements) -> list[Elements]:
        """Return the parts of the block that lie in one piece."""
        view = self.view(bank)
        return [view[inside] for inside, _ in self.pieces()]

    def read(self, bank: Elements) -> Elements:
        """Return the values, shape (images, rows, columns, channels)."""
        view, pieces = self.view(bank), list(self.pieces())
        if len(pieces) == 1:
            return view[pieces[0][0]]
        values = np.empty((self.ring[0], *self.box), dtype=bank.dtype)
        for inside, outside in pieces:
            values[outside] = view[inside]
        return values

    def write(self, bank: Elements, values: Elements) -> None:
        """Store values of shape (images, rows, columns, channels)."""
        view = self.view(bank)
        for inside, outside in self.pieces():
            view[inside] = values[outside]


def _around(first: int, count: int, size: int) -> list[tuple[slice, slice]]:
    """Return the one or two pieces of an axis that goes around."""
    left = min(count, size - first)
    pieces = [(slice(first, first + left), slice(0, left))]
    if left < count:
        pieces.append((slice(0, count - left), slice(left, count)))
    return pieces


class Strided(NamedTuple):
    """Values in DDR.

    Attributes
    ----------
    address
        The first byte.
    shape
    strides
        In bytes.
    width
        Bytes of a value.
    """

    address: int
    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    width: int

    @property
    def end(self) -> int:
        """The byte behind the last value."""
        if 0 in self.shape:
            return self.address
        reach = sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        return self.address + reach + self.width

    def view(self, memory: Elements, kind: Any) -> Elements:
        """Return the values in a memory of bytes, which can be written."""
        return np.ndarray(self.shape, kind, memory.data, self.address, self.strides)


class Outside(NamedTuple):
    """Values in the part of DDR that is written while a program runs, as elements of it.

    Attributes
    ----------
    bank
        A number that no buffer has.
    begin
        The first byte of that part.
    """

    bank: int
    strided: Strided
    begin: int

    def views(self, elements: Elements) -> list[Elements]:
        """Return the values, in one piece, of an array with one item for each element."""
        address, shape, strides, width = self.strided
        size = elements.itemsize
        steps = tuple(step // width * size for step in strides)
        return [
            np.ndarray(shape, elements.dtype, elements.data, (address - self.begin) // width * size, steps)
        ]


Region = Block | Outside
"""Where an instruction reads or writes."""


class Accesses(NamedTuple):
    """What an instruction reads and writes."""

    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()
    ddr_reads: tuple[Strided, ...] = ()
    ddr_writes: tuple[Strided, ...] = ()


def block(area: Values, box: tuple[int, int, int], images: int) -> Block:
    """Return the block of an operand; a box has rows, columns and channels."""
    ring = images, area["ring_rows"], area["ring_columns"], area["ring_channels"]
    return Block(area["bank"], area["base"], ring, (area["row"], area["column"], area["channel"]), box)


def input_blocks(instruction: Instruction, images: int) -> tuple[Block, ...]:
    """Return the blocks that an instruction reads, side by side in channels."""
    return tuple(
        block(values, (values["rows"], values["columns"], values["channels"]), images)
        for values in instruction.of("in")
    )


def line(bank: int, base: int, count: int) -> Block:
    """Return values that lie in a row."""
    return Block(bank, base, (1, 1, 1, count), (0, 0, 0), (1, 1, count))


def output_box(instruction: Instruction) -> tuple[int, int, int]:
    """Return rows, columns and channels that an instruction computes or moves."""
    values = instruction.values
    channels = values["kernels" if instruction.name == "CONV" else "channels"]
    return values["rows"], values["columns"], channels


def parameter_count(instruction: Instruction) -> int:
    """Return the parameters of each kernel that a FETCH or CONV uses."""
    values = instruction.values
    if instruction.name == "FETCH":
        return values["bias"] + values["taps"] * values["run"]
    return values["bias"] + values["kernel_rows"] * values["kernel_columns"] * values["depth"]


def ddr_maps(instruction: Instruction, images: int, width: int) -> tuple[Strided, ...]:
    """Return what LOAD or SAVE moves outside, a block for each operand."""
    rows, columns, _ = output_box(instruction)
    return tuple(
        Strided(
            each["address"],
            (images, rows, columns, each["channels"]),
            (each["image"], each["line"], each["pixel"], each["plane_rows"] * each["line"] or width),
            width,
        )
        for each in instruction.of("ddr")
    )


def fetched(instruction: Instruction, width: int) -> tuple[Strided, ...]:
    """Return what FETCH reads: the biases, if there are any, and the weights."""
    values = instruction.values
    kernels, step, bias = values["kernels"], values["kernel"], values["bias"]
    weights = Strided(
        values["address"] + bias * width,
        (1, kernels, values["taps"], values["run"]),
        (0, step, values["tap"], width),
        width,
    )
    biases = Strided(values["address"], (1, 1, kernels, 1), (0, 0, step, width), width)
    return (biases, weights) if bias else (weights,)


def hosted_map(each: Values, images: int, width: int) -> Strided:
    """Return a map that the host reads or writes."""
    return Strided(
        each["address"],
        (images, each["rows"], each["columns"], each["channels"]),
        (
            each["image"],
            each["line"],
            each["pixel"],
            each["rows"] * each["line"] if each["planar"] else width,
        ),
        width,
    )


def accesses(instruction: Instruction, images: int, width: int) -> Accesses:
    """Return what an instruction of an engine, or an entry of the host's table, reads and writes.

    Parameters
    ----------
    images
        At a time.
    width
        Bytes of an element.
    """
    name, values = instruction.name, instruction.values
    if name in ("LOAD", "SAVE"):
        (area,) = instruction.of("chip")
        chip, outside = block(area, output_box(instruction), images), ddr_maps(instruction, images, width)
        if name == "LOAD":
            return Accesses(writes=(chip,), ddr_reads=outside)
        return Accesses(reads=(chip,), ddr_writes=outside)
    if name == "FETCH":
        chip = line(values["bank"], values["base"], values["kernels"] * parameter_count(instruction))
        return Accesses(writes=(chip,), ddr_reads=fetched(instruction, width))
    if name in HOST_NAMES:
        return _hosted(instruction, images, width)
    outs = tuple(block(area, output_box(instruction), images) for area in instruction.of("out"))
    reads = input_blocks(instruction, images)
    if name == "CONV":
        count = values["kernels"] * parameter_count(instruction)
        reads += (line(values["bank"], values["base"], count),)
    return Accesses(reads, outs)


def _hosted(entry: Instruction, images: int, width: int) -> Accesses:
    if entry.name == "LEFT_OUT":
        return Accesses()
    reads = [hosted_map(each, images, width) for each in entry.of("read")]
    (write,) = (hosted_map(each, images, width) for each in entry.of("write"))
    if entry.name == "CONNECTED":
        count = entry.values["parameters"]
        reads.append(Strided(entry.values["address"], (1, 1, 1, count), (0, 0, 0, width), width))
    return Accesses(ddr_reads=tuple(reads), ddr_writes=(write,))


def group_channels(instruction: Instruction) -> tuple[int, int]:
    """Return kernels of a group of channels, and which of them the first kernel is."""
    mode, values = MODES[instruction.values["mode"]], instruction.values
    if mode == "DENSE":
        return values["kernels"], 0
    if mode == "DEPTHWISE":
        return 1, 0
    (groups,) = instruction.of("groups")
    return groups["group_kernels"], groups["first_kernel"]
