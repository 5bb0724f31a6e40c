"""Values that a core reads and writes in RAM for what a step does, by what they lie in.

They are those of the loops of emitted C: a convolution reads a value once for four outputs. Which memory each
thing lies in tells how long the core waits for them, where memories differ: see docs/microcontrollers.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.residency.core_cycles import BLOCK, pixels_of
from tilewright.residency.graph import Operation, Reading, members
from tilewright.residency.machine import region_of
from tilewright.residency.memory_costs import MemoryCosts, Touched
from tilewright.residency.plan import MAP
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, copied_rows, planes_or_strips, step_buffers
from tilewright.residency.shapes.strips import Strips
from tilewright.residency.transitions import StepChoice
from tilewright.simulator.program import Counts
from tilewright.spec.graph import Access
from tilewright.spec.layer import Window

Thing = tuple[str, int]
"""What lies in a memory: a tensor as a whole (`MAP`), or a buffer, and the number that it is of."""

WEIGHTS = "weights"
"""What lies in flash, or in a buffer of a step that copies them."""

SOFTMAX_READS = 3
"""How often softmax reads a value: for the largest, for the sum, and for its result."""


class Accesses(NamedTuple):
    """Elements that are read and written, one value after the other.

    Attributes
    ----------
    each
        Elements of a value: of running values more than one.
    """

    reads: int = 0
    writes: int = 0
    each: int = 1

    def plus(self, reads: int = 0, writes: int = 0) -> Accesses:
        """Return more of them."""
        return self._replace(reads=self.reads + reads, writes=self.writes + writes)


class Moved(NamedTuple):
    """What a step reads and writes outside.

    Attributes
    ----------
    loaded
        Tensors whose pixels are loaded as they are asked for.
    fetched
        Elements of each tensor that is loaded before.
    written
        Tensors that are written.
    """

    loaded: Collection[int]
    fetched: Mapping[int, int]
    written: Collection[int]


def accesses_of_step(
    group: Group, shape: Shape, whole: Collection[int], moved: Moved
) -> dict[Thing, Accesses]:
    """Return the values that a step reads and writes in RAM, by what they lie in, and weights that it reads.

    Parameters
    ----------
    whole
        Tensors that are in RAM as a whole during the step, its outputs included.
    """
    found: dict[Thing, Accesses] = {}

    def count(thing: Thing | None, reads: int = 0, writes: int = 0, each: int = 1) -> None:
        if thing is not None:
            found[thing] = found.get(thing, Accesses(each=each)).plus(reads, writes)

    def lies(tensor: int) -> Thing | None:
        if tensor in whole:
            return MAP, tensor
        return None if tensor == group.output else ("lines", tensor)  # it is written outside at once

    tensors = group.graph.tensors
    for tensor, elements in moved.fetched.items():
        count((MAP, tensor), writes=elements)
    for tensor in moved.loaded:
        count(("lines", tensor), writes=pixels_of(group, shape, tensor) * group.channels(tensor))
    for tensor in moved.written:
        count(lies(tensor), reads=tensors[tensor].size)
    for operation in group.operations:
        output, computed = tensors[operation.number + 1], pixels_of(group, shape, operation.number + 1)
        adds = operation.running is not None and shape.running and operation is group.last
        if operation.copyable:
            count((WEIGHTS, operation.number), reads=operation.copyable * (1 if adds else computed))
        if operation.running is not None and adds:
            added, sums = 0, output.channels * operation.running.value
            for access, reading in operation.every_reading:
                added = pixels_of(group, shape, reading.tensor)
                channels = _channels(access, tensors[reading.tensor].channels)
                count(lies(reading.tensor), reads=added * channels * _repeats(operation))
            value = operation.running.value
            count(("block", group.output), reads=added * sums, writes=added * sums, each=value)
            count(lies(group.output), writes=output.size)
            continue
        for access, reading in operation.every_reading:
            count(lies(reading.tensor), reads=_reads(group, shape, operation, access, reading))
        count(lies(operation.number + 1), writes=computed * output.channels)
    return found


def _columns(group: Group, shape: Shape, tensor: int) -> tuple[tuple[int, int], ...]:
    """Return the columns of a tensor that a step computes or loads, in each strip."""
    where = planes_or_strips(group, shape)
    if isinstance(where, Strips):
        begins, ends = where.span(tensor)
        return tuple(zip(begins.tolist(), ends.tolist(), strict=True))
    return ((0, group.graph.tensors[tensor].shape[2]),)


def _repeats(operation: Operation) -> int:
    """Return how often a value is read for a pixel of an output, of each place of a window."""
    spec, units = operation.op.spec, operation.units
    if spec.kind in ("conv", "fc"):
        groups = getattr(spec, "groups", 1)
        if groups > 1:
            return int(spec.output[0]) // int(groups)
        return units // BLOCK + units % BLOCK
    return SOFTMAX_READS if getattr(spec, "op", "") in ("softmax", "log_softmax") else 1


def _channels(access: Access, every: int) -> int:
    """Return how many channels an operation reads of a tensor that has so many."""
    if access.channels is None:
        return every
    first, end = access.channels
    return end - first


def _reads(group: Group, shape: Shape, operation: Operation, access: Access, reading: Reading) -> int:
    """Return the values that an operation reads of a tensor: places of the padding are none."""
    tensor, output = group.graph.tensors[reading.tensor], group.graph.tensors[operation.number + 1]
    computed, channels = pixels_of(group, shape, operation.number + 1), _channels(access, tensor.channels)
    if operation.op.spec.kind in ("add", "mul"):  # one of the operand for each of the result
        joined = any(access in operand and len(operand) > 1 for operand in operation.op.operands)
        return computed * (channels if joined else output.channels)
    if reading.extent is None:
        return computed * channels * tensor.pixels * _repeats(operation)
    spec = operation.op.spec
    steps = spec.dilation if isinstance(spec, Window) else (1, 1)
    rows, columns = (_places(reading, axis, steps[axis]) for axis in range(2))
    strips = _columns(group, shape, operation.number + 1)
    across = sum(int(columns[end] - columns[begin]) for begin, end in strips)
    return int(rows[-1]) * across * channels * _repeats(operation)


@lru_cache(maxsize=4096)
def _places(reading: Reading, axis: int, step: int) -> Counts:
    """Return the places that exist under the windows of all rows, or columns, before each, and of all."""
    assert reading.extent is not None
    first = np.arange(reading.output[axis])[:, None] * reading.stride[axis] - reading.before[axis]
    under = first + np.arange(0, reading.extent[axis], step)[None, :]
    there = ((under >= 0) & (under < reading.plane[axis])).sum(axis=1)
    return np.concatenate([[0], np.cumsum(there)])


def costs_of_thing(
    costs: MemoryCosts,
    name: str,
    thing: Thing,
    accesses: Accesses,
    rows: Sequence[int] = (),
    *,
    streamed: bool = False,
) -> tuple[int, ...]:
    """Return what accesses to a thing add to an objective, in each memory that it may lie in.

    Of weights that is in RAM with what it takes to copy them, and last in flash.

    Parameters
    ----------
    rows
        Weights of each copy.
    streamed
        Whether the step copies them block by block. Then they are not read in flash otherwise, and what it
        takes to move them is among the costs of the step.
    """
    if thing[0] != WEIGHTS:
        there = ((region, costs.values(region, *accesses)) for region in costs.regions)
        return tuple(costs.cost(name, region, touched) for region, touched in there)
    flash = len(costs.regions)
    copying = costs.cost(name, flash, costs.rows_read(flash, rows))
    if not streamed:
        moving = costs.to_copy(sum(rows))
        copying += {"cycles": moving.time, "energy": moving.energy}.get(name, 0)
    found = tuple(
        copying + costs.cost(name, region, _copied(costs, region, accesses, rows)) for region in costs.regions
    )
    return found if streamed else (*found, costs.cost(name, flash, costs.values(flash, accesses.reads, 0)))


def _copied(costs: MemoryCosts, region: int, accesses: Accesses, rows: Sequence[int]) -> Touched:
    """Return what is read and written where weights are copied to."""
    return costs.values(region, accesses.reads, 0).plus(costs.rows_written(region, rows))


class MemoryTraffic:
    """What the steps of a plan read and write in each memory, from the first step on."""

    def __init__(self, problem: Problem) -> None:
        self.graph, self.regions, self.costs = problem.graph, problem.machine.regions, problem.memory_costs
        self._at: dict[int, int] = {}  # first element of tensors that are in RAM as a whole

    def of_step(
        self, group: Group, choice: StepChoice, before: int, on_chip: int, addresses: Mapping[str, int]
    ) -> tuple[Touched, ...]:
        """Return what the next step reads and writes in each memory, as the machine has them, and in flash.

        Parameters
        ----------
        before
            Operations that have been executed, as a bit mask.
        on_chip
            Tensors that are in RAM as a whole during the step, its outputs among them.
        addresses
            Of what the step places, by keys. What lies nowhere counts as of the first memory.
        """
        whole = frozenset(members(on_chip))
        buffers = {
            (buffer.what, buffer.number): addresses.get(buffer.name(self.graph), 0)
            for buffer in step_buffers(group, choice.shape, whole)
        }
        for tensor in members(choice.fetched | choice.resident):
            self._at[tensor] = addresses.get(self.graph.tensors[tensor].key, 0)
        loaded = [tensor for tensor in group.sources if tensor not in whole]
        fetched = {each: self.graph.still_needed(each, before) for each in members(choice.fetched)}
        moved = Moved(loaded, fetched, members(choice.written))
        costs, flash = self.costs, len(self.regions)
        found = [Touched() for _ in range(flash + 1)]
        for (what, number), accesses in accesses_of_step(group, choice.shape, whole, moved).items():
            if what == WEIGHTS and number not in choice.shape.copied:
                found[flash] = found[flash].plus(costs.values(flash, accesses.reads, 0))
                continue
            at = self._at.get(number, 0) if what == MAP else buffers.get((what, number), 0)
            region = region_of(self.regions, at)
            if what != WEIGHTS:
                found[region] = found[region].plus(costs.values(region, *accesses))
                continue
            rows = copied_rows(group, choice.shape, self.graph.operations[number])
            found[region] = found[region].plus(_copied(costs, region, accesses, rows))
            found[flash] = found[flash].plus(costs.rows_read(flash, rows))
        return tuple(found)
