"""The tiled loop nest of a layer: its dimensions, tiles and buffers (thesis, equations 5.1 to 5.6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer
from tilewright.tiling.dsp.lines import InputLines
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.plan import HALIDE, LOOPS, DspPlan
from tilewright.tiling.tile import even_step, even_steps

Counts = NDArray[np.int64]
Tile = tuple[int, ...]

MOST = 2**62
"""Largest product that is computed in 64 bits."""


class Loop(IntEnum):
    """A tile loop, as its position in `LOOPS`, in sizes, steps and trips."""

    G = 0  # groups of channels, which share nothing
    N = 1  # images of the batch
    C = 2  # output maps of a group
    Y = 3  # output rows
    X = 4  # output columns
    K = 5  # input maps of a group


G, N, C, Y, X, K = Loop
"""The loops by the letters that the equations use."""

FREE = (N, C, Y, X, K)
"""The loops whose order is a decision, in the order of `ORDERED`."""


@dataclass(frozen=True)
class InputSpans:
    """The input rows (or columns) that the tiles along an axis of the output need.

    Attributes
    ----------
    start, stop : int, shape (tiles,)
        Half-open interval of the lines that transfers can load, without generated padding.
    new : int, shape (tiles,)
        Elements of it that the tile before does not have; all of them for the first.
    """

    start: Counts
    stop: Counts

    @cached_property
    def full(self) -> Counts:
        """Elements of each interval."""
        return self.stop - self.start

    @cached_property
    def new(self) -> Counts:
        """Elements of each interval that are not in the one before."""
        new = self.full.copy()
        new[1:] = self.stop[1:] - np.maximum(self.start[1:], np.minimum(self.stop[:-1], self.stop[1:]))
        return new


@dataclass(frozen=True)
class Nest:
    """A layer as a loop nest on a machine.

    Attributes
    ----------
    whole_maps
        Whether every tile takes all input maps of its groups (see `plan.HALIDE`).
    """

    layer: Layer
    machine: DspMachine
    whole_maps: bool = False

    @cached_property
    def sizes(self) -> Tile:
        """Iterations of the dimensions g, n, c, y, x, k: groups, On, Oc and Kc of one group, Oy, Ox."""
        layer = self.layer
        rows, columns = layer.output_plane
        groups = layer.groups
        return (groups, layer.batch, layer.kernels // groups, rows, columns, layer.input[0] // groups)

    def step(self, tile: Tile) -> Tile:
        """Return the steps of the tile loops: the smallest that need no more iterations (see `DspPlan`)."""
        return tuple(map(even_step, self.sizes, tile))

    def trips(self, tile: Tile) -> Tile:
        """Return the iterations of the tile loops (equation 5.2 is their product)."""
        return tuple(-(-size // min(size, limit)) for size, limit in zip(self.sizes, tile, strict=True))

    @cached_property
    def steps(self) -> tuple[Counts, ...]:
        """All steps of each loop, ascending: one for every number of iterations that exists."""
        found = [np.array(even_steps(size)) for size in self.sizes]
        if self.whole_maps:
            found[K] = found[K][-1:]
        return tuple(found)

    @cached_property
    def lines(self) -> tuple[InputLines, InputLines]:
        """Input rows and columns that transfers can load."""
        machine = self.machine
        rows, columns = (
            InputLines.of(
                self.layer, side, dma_step=machine.dma_step, generated=machine.padding == "generated"
            )
            for side in (0, 1)
        )
        return rows, columns

    @cached_property
    def skips(self) -> bool:
        """Whether transfers leave out rows or columns between the first and the last that they load."""
        return any(len(lines.kept) <= lines.kept[-1] for lines in self.lines)

    def plane(self, y: Counts, x: Counts) -> Counts:
        """Return the elements of one input map under full tiles of certain steps."""
        rows, columns = self.lines
        return ((y - 1) * rows.stride + rows.extent) * ((x - 1) * columns.stride + columns.extent)

    def extent(self, axis: int, step: int) -> int:
        """Input rows (axis Y) or columns (axis X) under a full tile (equation 5.3)."""
        lines = self.lines[axis - Y]
        return (step - 1) * lines.stride + lines.extent

    def axis(self, axis: int, step: int) -> InputSpans:
        """Return the input intervals of the tiles along Y or X."""
        lines = self.lines[axis - Y]
        first = np.arange(0, self.sizes[axis], step)
        last = np.minimum(first + step, self.sizes[axis]) - 1
        start = np.maximum(first * lines.stride, lines.loaded[0])
        stop = np.minimum(last * lines.stride + lines.extent, lines.loaded[1])
        return InputSpans(start, stop)

    @cached_property
    def window(self) -> int:
        """Weights of one pair of maps, Kx * Ky."""
        return self.layer.kernel[0] * self.layer.kernel[1]

    def buffers(self, step: Tile, reuse: str = "halo") -> dict[str, int]:
        """Elements of the three buffers (equations 5.3 to 5.5), times the groups of a tile."""
        g, n, c, y, x, k = step
        kernels = g * self.group_weights if reuse == "weights" else g * c * k * self.window
        return {
            "input": g * n * k * self.extent(Y, y) * self.extent(X, x),
            "kernels": kernels,
            "output": g * n * c * y * x,
        }

    def widths(self, step: Tile) -> dict[str, int]:
        """Return the units that an element of each buffer takes under a tile (see `DspMachine.bits`)."""
        return self.machine.units.held(complete=step[K] >= self.sizes[K])

    def held(self, step: Tile, reuse: str = "halo") -> dict[str, int]:
        """Units of the three buffers."""
        widths = self.widths(step)
        return {name: size * widths[name] for name, size in self.buffers(step, reuse).items()}

    def widens(self, plan: DspPlan) -> bool:
        """Whether partial sums leave the chip that are wider than outputs."""
        return self.trips(plan.tile)[K] > 1 and self.machine.units.partial > self.machine.units.output

    def streamed(self, macs: Counts | int, local: int) -> Counts | int:
        """Return the share that some MACs have of the layer's local traffic, in whole elements.

        Parameters
        ----------
        local
            Units of local traffic of the whole layer.
        """
        if not local:
            return 0 * macs
        grain = gcd(*self.machine.units)
        if not isinstance(macs, int) and int(macs.max(initial=0)) * local > MOST:
            macs = macs.astype(object)  # Python's integers have no end
        share = -(-macs * (local // grain) // self.macs) * grain
        return share if isinstance(share, int) else share.astype(np.int64)

    @cached_property
    def n_outputs(self) -> int:
        """Elements of the output."""
        return int(np.prod(self.layer.output_shape))

    @cached_property
    def n_inputs(self) -> int:
        """Elements of the input that are needed."""
        plane = 1
        for axis in (Y, X):
            plane *= int(self.axis(axis, 1).new.sum())
        return self.layer.batch * self.layer.input[0] * plane

    @cached_property
    def n_weights(self) -> int:
        """Elements of the weights."""
        return int(np.prod(self.layer.kernels_shape))

    @cached_property
    def group_weights(self) -> int:
        """Elements of the weights of one group."""
        return self.n_weights // self.sizes[G]

    @cached_property
    def macs(self) -> int:
        """MACs of the layer (equation 2.3)."""
        return self.layer.macs

    @property
    def needed(self) -> dict[str, int]:
        """Elements that every plan moves: each input that is needed, each weight and each output once."""
        return {"input": self.n_inputs, "weights": self.n_weights, "output": self.n_outputs}

    @cached_property
    def compulsory(self) -> int:
        """Their sum."""
        return sum(self.needed.values())

    @cached_property
    def compulsory_units(self) -> int:
        """Units of these."""
        units = self.machine.units
        loaded = self.n_inputs * units.input + self.n_weights * units.kernels
        return loaded + self.n_outputs * units.output


@lru_cache(maxsize=256)
def nest_of(layer: Layer, machine: DspMachine, limit: str = "any") -> Nest:
    """Return the loop nest of a layer; the same object for equal ones, since it keeps tables.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance; with them may come which steps of the loops are.
    """
    return Nest(layer, machine, whole_maps=limit == HALIDE)


assert "".join(loop.name.lower() for loop in Loop) == LOOPS
