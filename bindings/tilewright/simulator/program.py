"""The program: what every room's plan is lowered to, and all that the executor knows.

A program is a list of steps, a step a list of actions on regions of tensors (S1 paper, definitions 1 and
2). Nothing in here knows of layers' rooms, plans or objectives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64]
Role = Literal["input", "kernels", "intermediate", "output"]

# Regions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """A rectangular region: one half-open range per axis; None stands for the whole axis."""

    ranges: tuple[tuple[int, int] | None, ...]

    @property
    def cut_axes(self) -> frozenset[int]:
        """Axes of which the region may take a part only."""
        return frozenset(axis for axis, span in enumerate(self.ranges) if span is not None)

    def size(self, shape: tuple[int, ...]) -> int:
        """Elements of the region in a tensor of that shape."""
        return prod(
            length if span is None else span[1] - span[0]
            for length, span in zip(shape, self.ranges, strict=True)
        )

    def lies_in(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of that shape has such a region."""
        return len(self.ranges) == len(shape) and all(
            span is None or 0 <= span[0] <= span[1] <= length
            for length, span in zip(shape, self.ranges, strict=True)
        )

    def index(self, axes: tuple[int, ...]) -> tuple[slice, ...]:
        """NumPy index into an array that keeps only `axes`."""
        return tuple(slice(None) if self.ranges[a] is None else slice(*self.ranges[a]) for a in axes)  # type: ignore[misc]


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

    @property
    def cut_axes(self) -> frozenset[int]:
        """Axes of which the region may take a part only: the plane's."""
        return frozenset((self.rank - 2, self.rank - 1))

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
    """Something that works beside the others and does one action at a time.

    Attributes
    ----------
    per_element : int
        Cycles for each element moved (``t_l``, ``t_w``).
    setup : int
        Cycles for each action: a DMA's reconfiguration, or ``t_acc`` of a compute engine.
    macs_per_cycle : int, optional
        Throughput of a compute engine whose time grows with its work.
    macs_per_action : int, optional
        ``nbop_PE``, the most that one compute action may do.
    """

    name: str
    per_element: int = 0
    setup: int = 0
    macs_per_cycle: int | None = None
    macs_per_action: int | None = None

    def cycles(self, units: int, macs: int) -> int:
        """Duration of an action that moves so many units and computes so many MACs."""
        work = -(-macs // self.macs_per_cycle) if self.macs_per_cycle else 0
        return self.setup + self.per_element * units + work


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
    macs_per_element : int
        MACs that complete one element; 0 for tensors that are not computed.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    memory: str = "mem"
    max_loads: int | None = None
    unit: int = 1
    macs_per_element: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


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
    """Copy a resident region to DRAM and forget it (a3)."""

    tensor: str
    region: Region
    engine: str = "write"


@dataclass(frozen=True)
class Load:
    """Copy a region from DRAM onto the chip (a4, a5)."""

    tensor: str
    region: Region
    engine: str = "load"


@dataclass(frozen=True)
class Compute:
    """Compute a region from resident operands (a6), adding to what is there already.

    Attributes
    ----------
    macs_per_element : int
        MACs done for each element of the region.
    operation : Operation, optional
        The arithmetic; needed for the numeric mode only.
    """

    tensor: str
    region: Region
    operands: tuple[tuple[str, Region], ...]
    macs_per_element: int
    operation: Operation | None = None
    engine: str = "compute"


Action = Free | WriteBack | Load | Compute


@dataclass(frozen=True)
class Step:
    """One step: its actions take effect in the order free, write back, load, compute (definition 2).

    Attributes
    ----------
    label
        What a person calls the step, for pictures and violations.
    """

    free: tuple[Free, ...] = ()
    write_back: tuple[WriteBack, ...] = ()
    load: tuple[Load, ...] = ()
    compute: tuple[Compute, ...] = ()
    label: str = ""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions in the order in which they take effect."""
        return (*self.free, *self.write_back, *self.load, *self.compute)


@dataclass(frozen=True)
class Program:
    """Tensors, a machine and the steps that it executes.

    Attributes
    ----------
    preloaded
        Regions that are on chip before the first step and cost nothing.
    buffers
        Steps whose data may be on chip together when timing overlaps: 2 is double buffering.
    """

    tensors: tuple[Tensor, ...]
    memories: tuple[Memory, ...]
    engines: tuple[Engine, ...]
    steps: tuple[Step, ...]
    preloaded: tuple[tuple[str, Region], ...] = ()
    buffers: int = 2

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def regions(self) -> Iterable[tuple[str, Region]]:
        """Iterate over every region that the program mentions, with its tensor's name."""
        yield from self.preloaded
        for step in self.steps:
            for action in step.actions:
                yield action.tensor, action.region
                if isinstance(action, Compute):
                    yield from action.operands


# Arrays by region ----------------------------------------------------------------------------------


@dataclass
class Layout:
    """How a tensor's state is stored: axes that no region cuts are counted, not tracked.

    Attributes
    ----------
    axes
        The axes that are kept.
    depth
        Elements that one entry of a tracking array stands for.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = prod(length for axis, length in enumerate(self.shape) if axis not in self.axes)

    def array(self, dtype: Any, fill: int = 0) -> NDArray[Any]:
        """Return a new tracking array."""
        return np.full(tuple(self.shape[axis] for axis in self.axes), fill, dtype=dtype)

    def get(self, array: NDArray[Any], region: Region) -> NDArray[Any]:
        """Return the entries of a region (a view or a copy)."""
        view, index = self._locate(array, region)
        return np.asarray(view[index])

    def put(self, array: NDArray[Any], region: Region, value: Any) -> None:
        """Set the entries of a region."""
        view, index = self._locate(array, region)
        view[index] = value

    def _locate(self, array: NDArray[Any], region: Region) -> tuple[NDArray[Any], Any]:
        if isinstance(region, Box):
            return array, region.index(self.axes)
        lead = array.shape[:-2]
        return array.reshape(*lead, -1), (..., region.positions)

    def where(self, region: Region, bad: NDArray[np.bool_]) -> tuple[int, ...]:
        """Return the coordinates, in the kept axes, of the first entry of a region that is marked bad."""
        marks = self.array(np.bool_)
        self.put(marks, region, bad)
        return tuple(int(v) for v in np.argwhere(marks)[0])


def layouts(program: Program, *, numeric: bool) -> dict[str, Layout]:
    """Return each tensor's layout; with every axis kept when real data is moved."""
    cut: dict[str, set[int]] = {tensor.name: set() for tensor in program.tensors}
    for name, region in program.regions():
        if name in cut:  # What is no tensor is for the executor to refuse, and what leaves one.
            cut[name] |= region.cut_axes
    return {
        tensor.name: Layout(
            tensor.shape,
            tuple(axis for axis in range(len(tensor.shape)) if numeric or axis in cut[tensor.name]),
        )
        for tensor in program.tensors
    }
