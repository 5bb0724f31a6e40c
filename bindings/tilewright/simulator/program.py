"""The program: what every room's plan is lowered to, and all that the executor knows.

A program is a list of steps, a step a list of actions on regions of tensors (S1 paper, definitions 1 and
2). Nothing in here knows of layers' rooms, plans or objectives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Values = NDArray[np.int64]
Role = Literal["input", "kernels", "intermediate", "output"]

# Regions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """A rectangular region: one half-open range per axis; None stands for the whole axis."""

    ranges: tuple[tuple[int, int] | None, ...]

    def size(self, shape: tuple[int, ...]) -> int:
        """Elements of the region in a tensor of that shape."""
        return prod(
            length if span is None else span[1] - span[0]
            for length, span in zip(shape, self.ranges, strict=True)
        )

    def lies_in(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of that shape has such a region."""
        return self.bounds(shape) is not None

    def bounds(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
        """Return where it begins and ends on each axis; None if it does not lie in a tensor."""
        if len(self.ranges) != len(shape):
            return None
        low, high = [], []
        for span, length in zip(self.ranges, shape, strict=True):
            first, last = (0, length) if span is None else span
            if not 0 <= first <= last <= length:
                return None
            low.append(first)
            high.append(last)
        return low, high


@dataclass(frozen=True)
class Cells:
    """Any set of positions of the last two axes (a plane), with every other axis whole.

    Attributes
    ----------
    positions : int, shape (n,)
        Row-major positions in the plane, each once.
    """

    rank: int
    positions: NDArray[np.intp]

    def size(self, shape: tuple[int, ...]) -> int:
        """Elements of the region in a tensor of that shape."""
        return prod(shape[:-2]) * len(self.positions)

    def lies_in(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of that shape has such a region, each position once."""
        if len(shape) != self.rank or not self.positions.size:
            return len(shape) == self.rank
        ordered = np.sort(self.positions)
        return bool(
            ordered[0] >= 0 and ordered[-1] < prod(shape[-2:]) and (ordered[1:] != ordered[:-1]).all()
        )

    def bounds(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
        """Return where it begins and ends on each axis but the plane's; None if it does not lie in it."""
        return ([0] * len(shape), [*shape[:-2], 1, 1]) if self.lies_in(shape) else None


Region = Box | Cells


def whole(tensor: Tensor) -> Box:
    """Return the region that is all of a tensor."""
    return Box((None,) * len(tensor.shape))


# What a machine has --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """An on-chip memory; its capacity in elements, None when unlimited."""

    name: str
    capacity: int | None = None


@dataclass(frozen=True)
class Engine:
    """A unit that does one action at a time, in parallel with the other engines.

    Attributes
    ----------
    per_element : int
        Cycles for each unit moved (``t_l``, ``t_w``).
    setup : int
        Cycles for each action: a DMA's reconfiguration, or ``t_acc`` of a compute engine.
    macs_per_cycle : int, optional
        Throughput of a compute engine whose time grows with its work.
    macs_per_action : int, optional
        ``nbop_PE``, the most that one compute action may do.
    elements_per_cycle : int, optional
        Throughput of a bus, in units per cycle, rounded up per action; it adds to `per_element`.
    period : int
        Cycles in which `elements_per_cycle` units pass: 19 in a period of 3 are 19/3 per cycle.
    per_burst : int
        Cycles for each burst of a transfer.
    setup_on : str, optional
        The compute engine that is busy during the `setup` of this engine's transfers, as in a DSP that
        programs its DMA controller. Matters to the lockstep timeline only: in sequence the sum is the same,
        and the event-driven timeline charges the engine that transfers.
    streams_over : str, optional
        The bus over which a compute engine exchanges `Compute.streamed` elements with the memory.
    """

    name: str
    per_element: int = 0
    setup: int = 0
    macs_per_cycle: int | None = None
    macs_per_action: int | None = None
    elements_per_cycle: int | None = None
    period: int = 1
    per_burst: int = 0
    setup_on: str | None = None
    streams_over: str | None = None

    @overload
    def cycles(self, units: int, macs: int, bursts: int = 0) -> int: ...

    @overload
    def cycles(self, units: Counts, macs: Counts, bursts: Counts) -> Counts: ...

    def cycles(self, units: int | Counts, macs: int | Counts, bursts: int | Counts = 0) -> int | Counts:
        """Return the cycles of an action that moves units in bursts and computes MACs."""
        work = -(-macs // self.macs_per_cycle) if self.macs_per_cycle else 0
        moving = self.per_element * units + self.per_burst * bursts + self.streaming(units)
        return self.setup + moving + work

    @overload
    def streaming(self, units: int) -> int: ...

    @overload
    def streaming(self, units: Counts) -> Counts: ...

    def streaming(self, units: int | Counts) -> int | Counts:
        """Return the cycles in which a bus of limited throughput moves units."""
        if not self.elements_per_cycle:
            return 0 * units
        return -(-units * self.period // self.elements_per_cycle)


@dataclass(frozen=True)
class Tensor:
    """An array that lives in DRAM, on chip, or both.

    Attributes
    ----------
    memory : str
        The on-chip memory that holds its resident part.
    max_loads : int, optional
        How often one element may be loaded.
    unit : int
        Elements that an engine moves for the price of one.
    width : int
        Units of its memory and of transfers that an element takes: bits, where capacities and throughputs
        are in bits. Only of tensors with a buffer is what they hold counted in units.
    sum_width : int, optional
        Of its sums that are not complete, and of all that its buffer holds of it; by default as `width`.
    macs_per_element : int
        MACs that complete one element; 0 for tensors that are not computed.
    buffer : int, optional
        Elements reserved in its memory during the whole run, for each of `Program.copies`. The memory then
        counts the reservation and not what is resident, which must fit into one copy.
    recomputed : bool
        Whether what was freed may be computed again: its MACs count anew from then, unless DRAM has a
        copy. For intermediates only.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    memory: str = "mem"
    max_loads: int | None = None
    unit: int = 1
    width: int = 1
    sum_width: int | None = None
    macs_per_element: int = 0
    buffer: int | None = None
    recomputed: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def held_width(self) -> int:
        """Units that an element takes on chip."""
        return self.width if self.sum_width is None else self.sum_width


# What a step does ----------------------------------------------------------------------------------


class Operation(Protocol):
    """What a compute action calculates, for the numeric mode."""

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the values of the output region, flattened, from what the chip holds."""


@dataclass(frozen=True)
class Free:
    """Forget a resident region (a1, a2); takes no time."""

    tensor: str
    region: Region


@dataclass(frozen=True)
class WriteBack:
    """Copy a resident region to DRAM and forget it (a3), in `bursts` bursts.

    It takes `cycles` beside what its engine needs for units and bursts. Where sums are wider
    until they are complete (`Tensor.sum_width`), those that are not are `sums`.
    """

    tensor: str
    region: Region
    engine: str = "write"
    bursts: int = 0
    sums: bool = False
    cycles: int = 0


@dataclass(frozen=True)
class Load:
    """Copy a region from DRAM onto the chip (a4, a5), in `bursts` bursts.

    It takes `cycles` beside what its engine needs for units and bursts.
    """

    tensor: str
    region: Region
    engine: str = "load"
    bursts: int = 0
    cycles: int = 0


@dataclass(frozen=True)
class Compute:
    """Compute a region from resident operands (a6), adding to what is there already.

    Attributes
    ----------
    macs_per_element : int
        MACs done for each element of the region.
    operation : Operation, optional
        The arithmetic; needed for the numeric mode only.
    streamed : int
        Elements exchanged meanwhile with the on-chip memory over the engine's bus (`Engine.streams_over`),
        such as to and from a register file.
    cycles : int
        Further cycles, for what the engine's throughput does not tell.
    """

    tensor: str
    region: Region
    operands: tuple[tuple[str, Region], ...]
    macs_per_element: int
    operation: Operation | None = None
    engine: str = "compute"
    streamed: int = 0
    cycles: int = 0


Action = Free | WriteBack | Load | Compute


@dataclass(frozen=True)
class Step:
    """One step: its actions take effect in the order free, write back, load, compute (definition 2).

    In a program with a *static schedule* each step says when it starts, none before the step before it. All
    of its actions begin at that cycle, each on its own engine, beside those of earlier steps that last
    longer. The space of what is loaded or computed is taken then, that of what is freed is given up then,
    that of what is written back when it has left. Of a cycle, what has left by then goes first, then step
    by step what is freed, loaded and computed.

    Attributes
    ----------
    label
        What a person calls the step, for pictures and violations.
    start : int, optional
        The cycle at which it starts, from 0; either all steps of a program have one or none has.
    """

    free: tuple[Free, ...] = ()
    write_back: tuple[WriteBack, ...] = ()
    load: tuple[Load, ...] = ()
    compute: tuple[Compute, ...] = ()
    label: str = ""
    start: int | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions in the order in which they take effect."""
        return (*self.free, *self.write_back, *self.load, *self.compute)


class LazySteps(Sequence[Step]):
    """Steps that are made anew each time someone goes through them, so that they are never all alive.

    Parameters
    ----------
    length : int
        Number of steps.
    make : callable
        Returns an iterator over them, the same at every call.
    """

    def __init__(self, length: int, make: Callable[[], Iterator[Step]]) -> None:
        self._length, self._make = length, make

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Step]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...

    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        """Return steps of an index; takes as long as making all that come before."""
        chosen = range(self._length)[index]
        if isinstance(chosen, int):
            return next(islice(self._make(), chosen, None))
        wanted = sorted(chosen)
        if not wanted:
            return ()
        found = tuple(islice(self._make(), wanted[0], wanted[-1] + 1, abs(chosen.step)))
        return found if chosen.step > 0 else found[::-1]


@dataclass(frozen=True)
class Program:
    """Tensors, a machine and the steps that it executes.

    Attributes
    ----------
    steps
        Gone through from the first to the last, more than once; `LazySteps` holds none of them.
    preloaded
        Regions that are on chip before the first step and cost nothing.
    buffers
        Steps whose data may be on chip together when timing overlaps: 2 is double buffering.
    copies
        Copies of every static buffer (`Tensor.buffer`): 2 is static double buffering.
    """

    tensors: tuple[Tensor, ...]
    memories: tuple[Memory, ...]
    engines: tuple[Engine, ...]
    steps: Sequence[Step]
    preloaded: tuple[tuple[str, Region], ...] = ()
    buffers: int = 2
    copies: int = 1

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def regions(self) -> Iterator[tuple[str, Region]]:
        """Iterate over every region that the program mentions, with its tensor's name."""
        yield from self.preloaded
        for step in self.steps:
            for action in step.actions:
                yield action.tensor, action.region
                if isinstance(action, Compute):
                    yield from action.operands
