"""How a layer is cut among the cores: slices of TLEs, filters of TLTs, bursts and bytes of a transfer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.tile import even_step, even_steps

Counts = NDArray[np.int64]
Span = tuple[int, int]

BYTE = 8
"""Bits of a byte: with one begins what stands alone in DRAM."""


def quotient(value: Any, by: Any) -> Any:
    """Return the quotient of numbers or arrays, rounded up."""
    return -(-value // by)


class Pieces(NamedTuple):
    """Of what stands alone in DRAM: the bursts that move it, and the whole bytes that it takes."""

    bursts: int
    bytes: int


@dataclass(frozen=True)
class Share:
    """What one TLE computes.

    Attributes
    ----------
    rows, filters : (first, last)
        Of the output; half-open.
    cores
        The filters of each of its TLTs; those of low numbers may have one more.
    """

    rows: Span
    filters: Span
    cores: tuple[Span, ...]


@dataclass(frozen=True)
class Cut:
    """A layer under one partition.

    Groups are convolutions one after the other, and so are images; a depthwise layer is one of whose filters
    each has an input map of its own.
    """

    layer: Layer
    machine: NpuMachine
    partition: str

    @cached_property
    def depthwise(self) -> bool:
        """Whether every filter has an input map of its own."""
        layer = self.layer
        return layer.groups > 1 and layer.groups == layer.input[0] == layer.kernels

    @property
    def repeats(self) -> int:
        """How often the same is done: for every image and, unless depthwise, for every group."""
        return self.layer.batch * (1 if self.depthwise else self.layer.groups)

    @property
    def filters(self) -> int:
        """M, the filters (of a group)."""
        return self.layer.kernels if self.depthwise else self.layer.kernels // self.layer.groups

    @property
    def maps(self) -> int:
        """N, the input maps that a filter has."""
        return self.layer.input[0] // self.layer.groups

    @property
    def window(self) -> int:
        """K * K, the weights of one pair of maps."""
        return self.layer.kernel[0] * self.layer.kernel[1]

    @property
    def slices(self) -> tuple[int, int]:
        """Into how many slices rows and filters are cut (algorithm 2).

        KS&OFM cuts rows into two and filters into as many as that leaves, which is the paper's for four TLEs.
        """
        tles = self.machine.tles
        by_rows = {"KS": 1, "KS&OFM": 2, "OFM": tles}[self.partition]
        return by_rows, tles // by_rows

    @cached_property
    def rows(self) -> tuple[Span, ...]:
        """Output rows of each slice that has some, the largest first."""
        rows = self.layer.output_plane[0]
        return _spans(rows, quotient(rows, self.slices[0]))

    @cached_property
    def cores(self) -> tuple[tuple[Span, ...], ...]:
        """Filters of every core, by slice of filters, the largest first."""
        spans = _spans(self.filters, quotient(self.filters, self.slices[1]))
        return tuple(self._cores(span) for span in spans)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """The share of each TLE that has one, the largest first: a slice of filters and one of rows."""
        return tuple(
            Share(rows, (cores[0][0], cores[-1][1]), cores) for cores in self.cores for rows in self.rows
        )

    def _cores(self, filters: Span) -> tuple[Span, ...]:
        """Divide filters among the TLTs; the first ones get the remainder."""
        first, last = filters
        each, more = divmod(last - first, self.machine.tlts)
        ends = np.cumsum([first] + [each + (core < more) for core in range(self.machine.tlts)]).tolist()
        return tuple((a, b) for a, b in pairwise(ends) if a < b)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Iterations of the dimensions m, n, r, c for the core that has most."""
        share = self.shares[0]
        first, last = share.cores[0]
        return last - first, self.maps, share.rows[1] - share.rows[0], self.layer.output_plane[1]

    def step(self, tile: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return the steps of the tile loops: the smallest that need no more iterations."""
        m, n, r, c = map(even_step, self.sizes, tile)
        return m, n, r, c

    @cached_property
    def steps(self) -> tuple[Counts, ...]:
        """All steps of each dimension, ascending: one for every number of iterations that exists."""
        return tuple(np.array(even_steps(size)) for size in self.sizes)

    def reach(self, side: int, outputs: Any) -> Any:
        """Input rows (side 0) or columns (side 1) under a number of outputs (equation 1)."""
        return (outputs - 1) * self.layer.stride[side] + self.layer.kernel_extent[side]

    def need(self, step: tuple[Any, Any, Any, Any], schedule: str) -> dict[str, Any]:
        """Elements of a tile in the three memories of a core (equation 2)."""
        m, n, r, c = step
        return {
            "input": (m if self.depthwise else n) * self.reach(0, r) * self.reach(1, c),
            "weights": m * (self.maps if schedule == "WS" else n) * self.window,
            "output": m * r * c,
        }

    @cached_property
    def widths(self) -> dict[str, int]:
        """Bits of an element of each operand in DRAM."""
        bits = self.machine.operand_bits
        return {"input": bits.input, "weights": bits.weights, "output": bits.output}

    @cached_property
    def held_units(self) -> dict[str, int]:
        """What an element in the three memories of a core takes, in the machine's unit."""
        held = self.machine.held_bits(self.maps)
        return {operand: bits // self.machine.unit_bits for operand, bits in held.items()}

    @cached_property
    def room(self) -> dict[str, int]:
        """What the three memories of a core hold, in the machine's unit."""
        machine = self.machine
        given = {
            "input": machine.input_bytes,
            "weights": machine.weights_bytes,
            "output": machine.output_bytes,
        }
        return {operand: 8 * size // machine.unit_bits for operand, size in given.items()}

    @cached_property
    def capacity(self) -> dict[str, int]:
        """Elements that the three memories of a core hold."""
        return {operand: room // self.held_units[operand] for operand, room in self.room.items()}

    @property
    def burst_bits(self) -> int:
        """Most bits of one burst."""
        return 8 * self.machine.burst_bytes

    def cut_up(self, elements: Any, operand: str, bits: int) -> Any:
        """Pieces, of so many bits at most, of elements that follow each other in DRAM."""
        return quotient(elements * self.widths[operand], bits)

    def pieces(self, elements: int, operand: str, runs: int = 1) -> Pieces:
        """Bursts and bytes of some runs of elements that follow each other in DRAM."""
        bursts, whole = (self.cut_up(elements, operand, bits) for bits in (self.burst_bits, BYTE))
        return Pieces(int(runs * bursts), int(runs * whole))

    def plane_pieces(self, rows: int, columns: int, whole_rows: bool, operand: str = "input") -> Pieces:
        """Pieces of a part of one map: whole rows follow each other in DRAM, others stand alone."""
        return self.pieces(rows * columns, operand) if whole_rows else self.pieces(columns, operand, rows)

    def filter_pieces(self, maps: int) -> Pieces:
        """Pieces of one filter's weights for a number of input maps, which follow each other."""
        return self.pieces(maps * self.window, "weights")


@lru_cache(maxsize=1024)
def cut_of(layer: Layer, machine: NpuMachine, partition: str) -> Cut:
    """Return a layer under a partition; the same object for equal ones, since it keeps tables."""
    return Cut(layer, machine, partition)


def _spans(size: int, width: int) -> tuple[Span, ...]:
    return tuple((first, min(first + width, size)) for first in range(0, size, width))
