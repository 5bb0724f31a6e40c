"""Closed forms of external traffic: how often every operand is moved, for many tiles at once.

An operand's buffer holds what one tile needs. It is moved whenever that changes from a tile to the next, so
a loop that the operand does not depend on costs it nothing as long as no loop inside moves it; otherwise
it multiplies. With all edge tiles counted at their true size these are equations 5.13 to 5.20, and the
same for every other order of the loops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS

Counts = NDArray[np.int64]

RELEVANT: dict[str, set[int]] = {"input": {G, N, Y, X, K}, "kernels": {G, C, K}, "output": {G, N, C, Y, X}}
"""The loops that each operand depends on."""


def moved_by(reuse: str) -> dict[str, set[int]]:
    """Return the loops that change what each operand's buffer holds, where tiles stay."""
    return RELEVANT | {"kernels": {G}} if reuse == "weights" else RELEVANT


@dataclass(frozen=True)
class Traffic:
    """What plans move between external memory and the chip; arrays have one entry per tile.

    Attributes
    ----------
    input, kernels, partial : int
        Units loaded of input, weights and partial sums.
    written : int
        Units of outputs and partial sums written.
    transfers : int
        DMA transfers.
    """

    input: Counts
    kernels: Counts
    partial: Counts
    written: Counts
    transfers: Counts

    @property
    def accesses(self) -> Counts:
        """Units moved in all."""
        return self.input + self.kernels + self.partial + self.written


class Tiles:
    """Many tiles of one nest, as arrays of loop steps, with what all orders of the loops share.

    Parameters
    ----------
    steps : int, six arrays that broadcast against each other
        Steps of the loops g, n, c, y, x, k; each one of ``nest.steps``.
    """

    def __init__(self, nest: Nest, steps: tuple[Counts, ...]) -> None:
        self.nest = nest
        self.steps = tuple(np.asarray(step, dtype=np.int64) for step in steps)
        self.trips = tuple(-(-size // step) for size, step in zip(nest.sizes, self.steps, strict=True))
        self._axes = {axis: self._sums(axis) for axis in (Y, X)}

    def _sums(self, axis: int) -> dict[str, Counts]:
        """Per tile, sums along an axis: elements of whole input tiles, of their new parts, and transfers."""
        values, index = np.unique(self.steps[axis], return_inverse=True)
        rows = [self.nest.axis(axis, int(step)) for step in values]
        table = {
            "full": [int(row.full.sum()) for row in rows],
            "new": [int(row.new.sum()) for row in rows],
            "moves": [int(np.count_nonzero(row.new)) for row in rows],
            "first": [int(row.full[0]) for row in rows],
        }
        shape = self.steps[axis].shape
        return {name: np.array(sums, dtype=np.int64)[index].reshape(shape) for name, sums in table.items()}

    def repeats(self, operand: str, order: str) -> Counts:
        """Return how often each part of an operand is moved; the g loop repeats nothing."""
        moved = np.zeros(1, dtype=bool)
        times = np.ones(1, dtype=np.int64)
        for loop in reversed(order):
            d = LOOPS.index(loop)
            if d in RELEVANT[operand]:
                moved = moved | (self.trips[d] > 1)
            else:
                times = times * np.where(moved, self.trips[d], 1)
        return times

    def halo(self, order: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether neighbours in y, and in x, follow each other, so that what they share can stay."""
        still = np.ones(1, dtype=bool)  # no loop inside moves the input
        along: dict[int, NDArray[np.bool_]] = {Y: np.zeros(1, dtype=bool), X: np.zeros(1, dtype=bool)}
        for loop in reversed(order):
            d = LOOPS.index(loop)
            if d in RELEVANT["input"]:
                if d in along:
                    along[d] = still & (self.trips[d] > 1)
                still = still & (self.trips[d] == 1)
        return along[Y], along[X]

    def traffic(self, order: str, reuse: str) -> Traffic:
        """Return the traffic of a schedule with each tile."""
        nest, (g, n, c, y, x, k) = self.nest, self.trips
        if reuse == "none":
            again = {"input": c, "kernels": n * y * x, "output": k}
        else:
            again = {operand: self.repeats(operand, order) for operand in RELEVANT}
        weights = c * k * again["kernels"]
        if reuse == "weights":
            again["kernels"] = weights = np.ones(1, dtype=np.int64)
        rows, columns = self._axes[Y], self._axes[X]
        if reuse in ("halo", "weights"):
            in_y, in_x = self.halo(order)
            plane = np.where(in_y, rows["new"], rows["full"]) * np.where(
                in_x, columns["new"], columns["full"]
            )
            visits = np.where(in_y, rows["moves"], y) * np.where(in_x, columns["moves"], x)
        else:
            plane, visits = rows["full"] * columns["full"], y * x
        channels = nest.layer.batch * nest.layer.input[0]
        out, units = again["output"], nest.machine.units
        sums = nest.n_outputs * units.partial * (out - 1)
        outputs = g * n * c * y * x
        return Traffic(
            input=channels * units.input * plane * again["input"],
            kernels=nest.n_weights * units.kernels * again["kernels"],
            partial=sums,
            written=sums + nest.n_outputs * units.output,
            transfers=g * n * k * visits * again["input"] + g * weights + outputs * (2 * out - 1),
        )

    def needs_late_sums(self, reuse: str) -> NDArray[np.bool_]:
        """Whether the next tile would need partial sums that this one has not written back yet.

        With double buffering it loads them while this one computes. That is so where no tile stays and the
        loop over input maps is innermost: in the only schedule of this reuse, where no other loop moves.
        """
        _, n, c, y, x, k = self.trips
        late = reuse == "none" and self.nest.machine.double_buffering
        return np.broadcast_to(late & (k > 1) & (n * c * y * x == 1), self.need.shape)

    @property
    def output_units(self) -> Counts:
        """Units that an element of the output buffer takes."""
        units = self.nest.machine.units
        return np.where(self.trips[K] == 1, units.output, units.partial)

    @property
    def first_plane(self) -> Counts:
        """Elements of one input map under the very first tile."""
        return self._axes[Y]["first"] * self._axes[X]["first"]

    def needed(self, reuse: str) -> Counts:
        """Units of one copy of all buffers, where all weights of a group may stay."""
        if reuse != "weights":
            return self.need
        g, _, c, _, _, k = self.steps
        more = self.nest.group_weights - c * k * self.nest.window
        return np.asarray(self.need + g * more * self.nest.machine.units.kernels)

    @property
    def need(self) -> Counts:
        """Units of one copy of all buffers (equation 5.6), each as large as a tile's."""
        g, n, c, y, x, k = self.steps
        units = self.nest.machine.units
        inputs = n * k * self.nest.plane(y, x) * units.input
        weights = c * k * self.nest.window * units.kernels
        need: Counts = g * (inputs + weights + n * c * y * x * self.output_units)
        return need
