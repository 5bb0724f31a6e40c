"""The arithmetic of the engines and of the host, on integers in buffers and in DDR."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.isa.fields import Values
from tilewright.codegen.isa.instructions import NONLINEAR, POOLS, Instruction
from tilewright.codegen.isa.places import (
    Accesses,
    Block,
    Elements,
    accesses,
    block,
    group_channels,
    hosted_map,
    line,
    output_box,
    parameter_count,
)
from tilewright.fusion.machine import BUFFERS, EngineMachine
from tilewright.simulator.arithmetic.fixed_point import Integers, wrap
from tilewright.spec.errors import InputError

SUM_BITS = 32
"""Of the accumulators, in which sums wrap around."""


class Effect(NamedTuple):
    """What an instruction does that has begun.

    Attributes
    ----------
    loaded, saved
        Bytes that LOAD and SAVE move.
    stores
        What it stores when it ends.
    """

    loaded: int
    saved: int
    stores: tuple[Callable[[], None], ...]

    def end(self) -> None:
        """Store what has been computed."""
        for store in self.stores:
            store()


class Memories:
    """Buffers and DDR, and what engines do to them.

    Parameters
    ----------
    ddr : uint8
        All bytes of DDR.
    """

    def __init__(self, machine: EngineMachine, ddr: Elements) -> None:
        self.machine, self.ddr = machine, ddr
        self._images, self._width = machine.arrays, machine.element_bytes
        self.kind = np.dtype(f"<i{self._width}")
        self.banks = [
            np.zeros(machine.capacity(buffer) // self._width, dtype=self.kind) for buffer in BUFFERS
        ]
        self._sums: Integers | None = None
        self._stores: list[Callable[[], None]] = []

    def begin(self, instruction: Instruction) -> Effect:
        """Begin an instruction of an engine, or an entry of the host's table: read and compute.

        What it stores is not there before `Effect.end`.
        """
        self._stores = []
        moved = self._execute(instruction)
        return Effect(*moved, tuple(self._stores))

    def _execute(self, instruction: Instruction) -> tuple[int, int]:
        touched = accesses(instruction, self._images, self._width)
        name = instruction.name
        if name == "LOAD":
            return self._load(touched), 0
        if name == "FETCH":
            return self._fetch(touched, instruction), 0
        if name == "SAVE":
            return 0, self._save(touched)
        if name == "CONV":
            self._convolve(instruction)
        elif name == "POOL":
            self._store(instruction, *self._pooled(instruction))
        elif name in ("ADD", "MULTIPLY", "COPY"):
            self._store(instruction, self._combined(instruction), 1)
        elif name == "RELAYOUT":
            self._relayout(touched)
        elif name in ("CONNECTED", "RESHAPE"):
            self._hosted(instruction)
        return 0, 0

    # LOAD and SAVE --------------------------------------------------------------------------------------

    def _load(self, touched: Accesses) -> int:
        (chip,) = touched.writes
        parts = [each.view(self.ddr, self.kind) for each in touched.ddr_reads]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=3)
        self._write(chip, values.copy())
        return int(values.nbytes)

    def _fetch(self, touched: Accesses, instruction: Instruction) -> int:
        (chip,) = touched.writes
        kernels = instruction.values["kernels"]
        parts = [each.view(self.ddr, self.kind).reshape(kernels, -1) for each in touched.ddr_reads]
        values = np.concatenate(parts, axis=1)
        self._write(chip, values.reshape(1, 1, 1, -1))
        return int(values.nbytes)

    def _save(self, touched: Accesses) -> int:
        (chip,), (outside,) = touched.reads, touched.ddr_writes
        values = chip.read(self.banks[chip.bank]).copy()
        self._stores.append(partial(np.copyto, outside.view(self.ddr, self.kind), values))
        return int(values.nbytes)

    def _write(self, chip: Block, values: Elements) -> None:
        self._stores.append(partial(chip.write, self.banks[chip.bank], values))

    # CONV -----------------------------------------------------------------------------------------------

    def _inputs(self, instruction: Instruction) -> list[Elements]:
        found = []
        for values in instruction.of("in"):
            box = values["rows"], values["columns"], values["channels"]
            each = block(values, box, self._images)
            found.append(_as_read(each.read(self.banks[each.bank]), values))
        return found

    def _joined(self, instruction: Instruction) -> Elements:
        parts = self._inputs(instruction)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=3)

    def _convolve(self, instruction: Instruction) -> None:
        values = instruction.values
        each, kernels = parameter_count(instruction), values["kernels"]
        numbers = line(values["bank"], values["base"], kernels * each).read(self.banks[values["bank"]])
        numbers = numbers.reshape(kernels, each)
        sums = self._summed(instruction, numbers[:, values["bias"] :])
        bias = numbers[:, 0].astype(np.int64) << values["bias_shift"] if values["bias"] else 0
        if not values["bias_last"]:
            sums = sums + bias
        if not values["first"]:
            if self._sums is None or self._sums.shape != sums.shape:
                raise InputError("CONV.first", 0, "goes on with sums that nothing began")
            sums = sums + self._sums
        sums = wrap(sums, values["sum_bits"] or SUM_BITS)
        self._sums = None if values["last"] else sums
        if values["last"]:
            self._store(instruction, sums + bias if values["bias_last"] else sums, 1)

    def _summed(self, instruction: Instruction, weights: Elements) -> Integers:
        """Return sums of products, shape (images, rows, columns, kernels).

        Parameters
        ----------
        weights : shape (kernels, taps * channels)
            Taps column by column.
        """
        values = instruction.values
        depth, kernels = values["depth"], values["kernels"]
        dilation = values["dilation_rows"], values["dilation_columns"]
        seen = _windows(self._joined(instruction), values, dilation, 0)
        kind = _exact_kind(weights)
        size, within = group_channels(instruction)
        if size == kernels and not within and seen.shape[5] == depth:
            table = np.ascontiguousarray(seen.transpose(0, 1, 2, 4, 3, 5)).reshape(-1, weights.shape[1])
            sums = table.astype(kind) @ weights.T.astype(kind)
            found: Integers = sums.astype(np.int64).reshape(*seen.shape[:3], kernels)
            return found
        groups = (np.arange(kernels) + within) // size
        used = groups[-1] + 1 if kernels else 0
        split = seen.reshape(*seen.shape[:5], used, depth)[:, :, :, :, :, groups]
        taps = weights.reshape(kernels, seen.shape[4], seen.shape[3], depth)
        both = split.astype(np.int64), taps.astype(np.int64)
        by_group: Integers = np.einsum("nyxabkd,kbad->nyxk", *both, optimize=True)
        return by_group

    def _store(self, instruction: Instruction, results: Integers, divisor: int) -> None:
        """Bring results to the width of elements and store them: rectified, scaled, rounded, saturated."""
        (area,) = instruction.of("out")
        chip = block(area, output_box(instruction), self._images)
        self._write(chip, self._scaled(instruction, results, divisor))

    def _scaled(self, instruction: Instruction, results: Integers, divisor: int) -> Elements:
        values = instruction.values
        if NONLINEAR[values["nonlinear"]] == "RELU":
            results = np.maximum(results, 0)
        half, shift = 1 << ((values["bits"] or 8 * self._width) - 1), values["shift"]
        if shift < 0:
            # What is beyond the width stays so, and does not leave 64 bits when it is shifted.
            results = np.clip(results, -(half + 1) * divisor, half * divisor) << -shift
        by = divisor << max(0, shift)
        if by > 1:  # halves away from zero
            results = np.sign(results) * ((2 * np.abs(results) + by) // (2 * by))
        found: Elements = np.clip(results, -half, half - 1).astype(self.kind)
        return found

    # POOL and MISC --------------------------------------------------------------------------------------

    def _pooled(self, instruction: Instruction) -> tuple[Integers, int]:
        """Return the largest values under windows, or sums and what they are divided by."""
        values = instruction.values
        joined = self._joined(instruction).astype(np.int64)
        if POOLS[values["type"]] == "MAX":
            least = -(1 << (8 * self._width - 1))
            return _windows(joined, values, (1, 1), least).max(axis=(3, 4)), 1
        sums = _windows(joined, values, (1, 1), 0).sum(axis=(3, 4))
        return sums, values["kernel_rows"] * values["kernel_columns"]

    def _combined(self, instruction: Instruction) -> Integers:
        if instruction.name == "COPY":
            return self._joined(instruction).astype(np.int64)
        found = np.zeros((self._images, *output_box(instruction)), dtype=np.int64)
        found += instruction.name == "MULTIPLY"
        for values in self._inputs(instruction):  # one pixel stands for all
            if instruction.name == "ADD":
                found += values
            else:
                found *= values
        return found

    # The host -------------------------------------------------------------------------------------------

    def _relayout(self, touched: Accesses) -> None:
        (read,), (write,) = touched.ddr_reads, touched.ddr_writes
        values = read.view(self.ddr, self.kind).copy()
        self._stores.append(partial(np.copyto, write.view(self.ddr, self.kind), values))

    def _hosted(self, entry: Instruction) -> None:
        values = entry.values
        maps = [hosted_map(each, self._images, self._width) for each in entry.of("read")]
        flat = [_as_read(each.view(self.ddr, self.kind), values) for each in maps]
        (write,) = (hosted_map(each, self._images, self._width) for each in entry.of("write"))
        out = write.view(self.ddr, self.kind)
        if entry.name == "RESHAPE":  # in the order of channels, rows and columns
            images = self._images
            parts = [each.transpose(0, 3, 1, 2).reshape(images, -1) for each in flat]
            _, rows, columns, channels = write.shape
            joined = np.concatenate(parts, axis=1).reshape(images, channels, rows, columns)
            results: Integers = joined.transpose(0, 2, 3, 1).astype(np.int64)
        else:
            given = np.concatenate([each.reshape(self._images, -1) for each in flat], axis=1)
            *_, table = accesses(entry, self._images, self._width).ddr_reads
            numbers = table.view(self.ddr, self.kind).reshape(write.shape[3], -1)
            sums = _product(given, numbers[:, values["bias"] :])
            bias = numbers[:, 0].astype(np.int64) << values["bias_shift"] if values["bias"] else 0
            late = values["bias_last"]
            sums = wrap(sums if late else sums + bias, values["sum_bits"] or SUM_BITS)
            results = (sums + bias if late else sums).reshape(out.shape)
        self._stores.append(partial(np.copyto, out, self._scaled(entry, results, 1)))


def _as_read(stored: Elements, values: Values) -> Elements:
    """Return values as an operation reads them: divided, rounded halves away from zero, and saturated."""
    bits, shift = values["read_bits"], values["read_shift"]
    if not bits:
        return stored
    half, found = 1 << (bits - 1), stored.astype(np.int64)
    if shift < 0:
        found = np.clip(found, -half, half) << -shift
    elif shift > 0:
        found = np.sign(found) * ((2 * np.abs(found) + (1 << shift)) >> (shift + 1))
    read: Elements = np.clip(found, -half, half - 1)
    return read.astype(stored.dtype) if bits <= 8 * stored.itemsize else read


def _product(given: Elements, numbers: Elements) -> Integers:
    """Return sums of products, exact; a part of the kernels at a time."""
    kind = _exact_kind(numbers)
    left, step = given.astype(kind), max(1, (1 << 23) // max(1, numbers.shape[1]))
    parts = [left @ numbers[at : at + step].T.astype(kind) for at in range(0, len(numbers), step)]
    return np.concatenate(parts, axis=1).astype(np.int64)


def _exact_kind(numbers: Elements) -> Any:
    """Return the fastest type in which sums of products with rows of numbers are exact."""
    magnitude = numbers.shape[1] << 2 * (8 * numbers.itemsize - 1)
    return np.float32 if magnitude < 2**24 else np.float64 if magnitude < 2**53 else np.int64


def _windows(given: Elements, values: Values, dilation: tuple[int, int], outside: int) -> Elements:
    """Return what each output value sees: (images, rows, columns, kernel rows, kernel columns, channels).

    Parameters
    ----------
    given : shape (images, rows, columns, channels)
    outside
        What stands for values that are not there.
    """
    axes = []
    for axis, (name, side) in enumerate((("rows", "top"), ("columns", "left"))):
        size, pad = given.shape[1 + axis], values[f"pad_{side}"]
        reach = (
            (values[name] - 1) * values[f"stride_{name}"]
            + (values[f"kernel_{name}"] - 1) * dilation[axis]
            + 1
        )
        axes.append((pad, size, max(reach, 0)))
    (top, rows, high), (left, columns, wide) = axes
    if (top, left, rows, columns) != (0, 0, high, wide):
        padded = np.full((given.shape[0], high, wide, given.shape[3]), outside, dtype=given.dtype)
        down, across = _overlap(top, rows, high), _overlap(left, columns, wide)
        padded[:, down[0], across[0]] = given[:, down[1], across[1]]
        given = padded
    image, line_step, pixel, channel = given.strides
    shape = (
        given.shape[0],
        values["rows"],
        values["columns"],
        values["kernel_rows"],
        values["kernel_columns"],
        given.shape[3],
    )
    steps = (
        image,
        line_step * values["stride_rows"],
        pixel * values["stride_columns"],
        line_step * dilation[0],
        pixel * dilation[1],
        channel,
    )
    return np.lib.stride_tricks.as_strided(given, shape, steps, writeable=False)


def _overlap(pad: int, size: int, reach: int) -> tuple[slice, slice]:
    """Return which padded positions are there, and which of the given ones they are."""
    first, last = max(0, pad), min(reach, pad + size)
    last = max(first, last)
    return slice(first, last), slice(first - pad, last - pad)
