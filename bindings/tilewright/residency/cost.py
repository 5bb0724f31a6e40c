"""What a step costs: traffic, time and energy by closed forms; see docs/residency.md.

All is counted in integers. Time has parts of cycles and energy parts of femtojoules, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Collection
from math import lcm
from operator import add
from typing import NamedTuple

import numpy as np

from tilewright.residency.core_cycles import PARTS, CoreTime, counts_of_shape
from tilewright.residency.machine import OneMemory
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import (
    Shape,
    count_rounds,
    cut_of,
    group_of_passes,
    planes_or_strips,
    tiles_of_product,
)
from tilewright.residency.shapes.strips import Strips
from tilewright.simulator.arithmetic.pixel_arithmetic import Work
from tilewright.simulator.program import Counts

MOST_TIME = 2**60
"""Largest time for which sums of 64 bits are safe."""


def work_of_step(group: Group, shape: Shape) -> Work:
    """Return what a step does: strips compute again what they share, and blocks of columns the softmax."""
    where, total = planes_or_strips(group, shape), Work()
    in_tiles = tiles_of_product(group, shape)
    blocks = 1 if in_tiles is None else int(in_tiles.count_blocks(cut_of(shape)))
    passing = () if shape.keys is None else in_blocks(group).attentions
    seen = {number for each in passing if each.seen is not None for number in each.operations}
    for operation in group.operations:
        tensor = group.graph.tensors[operation.number + 1]
        values = tensor.size
        if isinstance(where, Strips) and not (shape.running and operation is group.last):
            values = where.read(operation.number + 1) * tensor.shape[0] * tensor.shape[1]
        if operation is not group.last:
            values *= blocks
        if operation.number in seen:
            total = total.plus(group.graph.least_work(operation.number))
        else:
            total = total.plus(operation.work.times(values))
    for attention in passing:
        rows = group.graph.tensors[attention.context + 1].pixels
        more = attention.rescaled + attention.groups * (blocks - 1)
        total = total.plus(Work(0, attention.count_blocks(shape.keys or 1, rows) * more, 0))
    return total


def least_work(group: Group) -> Work:
    """Return what a step does at least."""
    total = Work()
    for operation in group.operations:
        total = total.plus(group.graph.least_work(operation.number))
    return total


class Spent(NamedTuple):
    """What a step costs.

    Attributes
    ----------
    moved
        Elements from and to DRAM.
    time, energy
        In the parts of cycles and femtojoules that `Prices` tells.
    macs
        Multiply-accumulates.
    """

    moved: int = 0
    time: int = 0
    energy: int = 0
    macs: int = 0

    def plus(self, other: Spent) -> Spent:
        """Return what both cost."""
        return Spent(*map(add, self, other))


class Prices:
    """The rates and prices of a machine.

    Attributes
    ----------
    cycle, femtojoule
        Parts that a cycle, and a femtojoule, has.
    core_time
        What emitted C takes, where the machine tells that; then time is that.
    core_energy
        Of a part of a cycle.
    has_energy
        Whether anything is told of energy.
    """

    def __init__(self, machine: OneMemory) -> None:
        bus, macs, setup = machine.rates
        vectors = machine.vector_ops_per_cycle
        self.core_time = None if machine.cycles_of is None else CoreTime(machine.cycles_of)
        self.cycle = (
            PARTS if self.core_time else lcm(bus, macs, vectors or 1, PARTS if machine.has_waits else 1)
        )
        self._bus, self._mac = self.cycle // bus, self.cycle // macs
        self._vector = self.cycle // vectors if vectors else 0
        self._setup = setup * self.cycle
        price, width = machine.prices, machine.element_bytes
        self.femtojoule = lcm(price.dram_access_bytes, price.local_access_bytes, self.cycle)
        self._dram = width * price.dram_fj_per_access * (self.femtojoule // price.dram_access_bytes)
        self._local = width * price.local_fj_per_access * (self.femtojoule // price.local_access_bytes)
        self.core_energy = price.core_fj_per_cycle * (self.femtojoule // self.cycle)
        self._by_memory = machine.has_energy
        self.has_energy = self._by_memory or self.core_time is None

    def transfer(self, elements: int) -> int:
        """Return the time in which the bus moves elements."""
        return elements * self._bus

    def core(self, work: Work) -> int:
        """Return the time in which the core does some work."""
        return work.macs * self._mac + work.vectors * self._vector

    def setup(self, transfers: int) -> int:
        """Return the time in which the core sets up transfers."""
        return transfers * self._setup

    def energy(self, moved: int, work: Work, transfers: int) -> int:
        """Return the energy of elements moved, each of which is one access on chip, too, and of the core."""
        accesses = work.accesses + moved
        busy = self.core(work) + self.setup(transfers)
        return moved * self._dram + accesses * self._local + busy * self.core_energy

    def of_core(self, moved: int, time: int, macs: int) -> Spent:
        """Return what elements moved outside and a time of the core cost, but for accesses to memories."""
        energy = moved * self._dram + time * self.core_energy if self._by_memory else 0
        return Spent(moved, time, energy, macs)

    def spent(self, moved: int, work: Work, transfers: int, time: int | None = None) -> Spent:
        """Return what elements moved, some work and transfers cost.

        Parameters
        ----------
        time
            In which bus and core do this; by default one after the other. Transfers are set up besides.
        """
        if time is None:
            time = self.core(work) + self.transfer(moved)
        time += self.setup(transfers)
        if self._by_memory:
            return self.of_core(moved, time, work.macs)
        return Spent(moved, time, self.energy(moved, work, transfers), work.macs)

    def cycles(self, time: int) -> int:
        """Return whole cycles, the last one begun."""
        return -(-time // self.cycle)

    def femtojoules(self, energy: int) -> int:
        """Return whole femtojoules, the last one begun."""
        return -(-energy // self.femtojoule)


def cost_of_step(
    prices: Prices,
    group: Group,
    shape: Shape,
    streamed: Collection[int],
    fetched: Collection[int],
    written: Collection[int],
    moved: int,
    whole: Collection[int] = (),
) -> Spent:
    """Return what a step costs.

    Parameters
    ----------
    streamed
        Sources that are read from DRAM through line buffers.
    fetched
        Elements of each source that is loaded before the first pass.
    written
        Outputs that are written to DRAM.
    moved
        Elements of all of these and of weights.
    whole
        Tensors that are on chip as a whole; it matters where the machine tells what emitted C takes.
    """
    if prices.core_time is not None:
        counts = counts_of_shape(group, shape, streamed, whole, moved)
        return prices.of_core(moved, prices.core_time.of_counts(counts), work_of_step(group, shape).macs)
    transfers, time = len(streamed) + len(fetched) + len(written) + len(group.weighted), None
    if shape.doubled:
        before = sum(fetched)
        before += sum(operation.weights for operation in group.operations if operation.number in shape.kept)
        time = prices.transfer(before) + time_of_passes(prices, group, shape, streamed, written)
    return prices.spent(moved, work_of_step(group, shape), transfers, time)


# Second buffers ------------------------------------------------------------------------------------------


def time_of_passes(
    prices: Prices, group: Group, shape: Shape, streamed: Collection[int], written: Collection[int]
) -> int:
    """Return the time of all passes with second buffers: bus and core work beside and wait for each other.

    While a pass is computed, what the next one needs is loaded and what the one before has computed is
    written.

    Parameters
    ----------
    streamed
        Sources that are read from DRAM through line buffers.
    written
        Outputs that are written to DRAM.
    """
    tensors, area = group.graph.tensors, group_of_passes(group, shape)
    # Parts of cycles are small for most machines, and numbers of any size for others.
    most = prices.transfer(sum(tensors[tensor].size for tensor in (*streamed, *written)) + group.last.weights)
    most = most * (1 + count_rounds(group, shape)) + prices.core(work_of_step(group, shape))
    kind = np.int64 if most < MOST_TIME else object
    new = {tensor: np.diff(end).astype(kind) for tensor, end in area.ends(shape.pixels).items()}
    if shape.order == "pixels":
        nothing = np.zeros(area.count_passes(shape.pixels), dtype=kind)
        loaded = sum((new[tensor] * group.channels(tensor) for tensor in streamed), nothing)
        core = nothing
        for operation in group.operations:
            each = prices.core(operation.work) * tensors[operation.number + 1].channels
            if shape.running and operation is group.last:
                each //= area.pixels
            core = core + new[operation.number + 1] * each
        if shape.running:  # the output is there after the last pass
            new[group.output] = nothing.copy()
            new[group.output][-1] = 1
        stored = sum((new[tensor] * tensors[tensor].channels for tensor in written), nothing)
    else:
        loaded, values = _passes_of_blocks(group, shape, streamed, new)
        core = values * prices.core(group.last.work)
        stored = values * int(group.output in written)
    moved = np.zeros(len(core) + 2, dtype=kind)
    moved[:-2] += loaded
    moved[2:] += stored
    beside = np.zeros(len(core) + 2, dtype=kind)
    beside[1:-1] = core
    return int(np.maximum(beside, moved * prices.transfer(1)).sum())


def _passes_of_blocks(
    group: Group, shape: Shape, streamed: Collection[int], new: dict[int, Counts]
) -> tuple[Counts, Counts]:
    """Return what each pass of each block of output channels loads, and the values that it computes.

    Parameters
    ----------
    new
        Pixels that are new in each pass, by tensor.
    """
    operation, tensors, kind = group.last, group.graph.tensors, new[group.output].dtype
    begins = np.arange(0, operation.units, shape.kernels)
    blocks = np.stack([begins, np.minimum(begins + shape.kernels, operation.units)]).astype(kind)
    made = blocks[1] - blocks[0]
    if operation.units == 1:
        made = made * tensors[group.output].channels
    loaded = np.zeros((len(begins), len(new[group.output])), dtype=kind)
    for tensor in streamed:
        loaded = loaded + np.multiply.outer(_channels_read(group, tensor, blocks), new[tensor])
    each = -(-operation.weights // operation.units)
    ends, starts = (np.minimum(block * each, operation.weights) for block in (blocks[1], blocks[0]))
    loaded[:, 0] += ends - starts
    return loaded.reshape(-1), np.multiply.outer(made, new[group.output]).reshape(-1)


def _channels_read(group: Group, tensor: int, blocks: Counts) -> Counts:
    """Return the channels of a source that each block of output channels reads; `blocks`: begins and ends."""
    operation, channels = group.last, group.channels(tensor)
    if not operation.channelwise or operation.units == 1:
        return np.full_like(blocks[0], channels)
    offset = operation.offsets(group.graph.ops)[operation.op.producers.index(tensor - 1)]
    ends, begins = np.minimum(channels, blocks[1] - offset), np.maximum(0, blocks[0] - offset)
    read: Counts = np.maximum(0, ends - begins)
    return read
