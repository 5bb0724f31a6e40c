"""What the units of all kinds of machines have in common, which do a network's operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Report, Tensor
from tilewright.simulator.program import LazySteps
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import MoveWalk
from tilewright.tiling.operations.permuting_steps import move_steps
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.scan import ScanWalk
from tilewright.tiling.operations.scan_steps import scan_steps
from tilewright.tiling.operations.steps import Timing, steps
from tilewright.tiling.operations.walk import OUTPUT, Counts, Walk
from tilewright.tiling.operations.walks import AnyWalk, walk_of

Machine = DspMachine | NpuMachine | HierarchyMachine

Costs = dict[str, int]
"""What a plan costs, by what is minimised."""


class Unit(Protocol):
    """A machine, as an operation sees it."""

    operation: Operation

    def overflow(self, buffers: dict[str, int]) -> str | None:
        """Say what does not fit of a tile with the given elements of each tensor, or None."""

    def check(self, smallest: Walk) -> None:
        """Refuse an operation that cannot be computed of the smallest tile that fits."""
        return

    def fullness(self, buffers: dict[str, int]) -> tuple[str, str]:
        """Return the name of the memory that tiles lie in, where there are several, and how full it is."""

    def program(self, walk: AnyWalk) -> Program:
        """Return what is executed."""

    def costs(self, walk: AnyWalk, level: str) -> Costs:
        """Return what a plan costs by the closed form; `level` is the memory whose accesses are counted."""

    def choices(self, plans: Sequence[OperationPlan], level: str) -> Iterator[tuple[OperationPlan, Costs]]:
        """Yield plans and their costs: the given ones, or for each those of its tiles that may be best."""
        for plan in plans:
            yield plan, self.costs(walk_of(self.operation, plan), level)

    def measured(self, walk: AnyWalk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""

    def breakdown(self, walk: AnyWalk, report: Report) -> dict[str, Any]:
        """Return what else is told of an executed plan, where a machine has several memories."""
        return {}

    def limited_by(self, walk: AnyWalk, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""


def bits_of(machine: Machine) -> int:
    """Return the bits of a value between two layers."""
    return machine.bits.output if machine.kind == "hierarchy" else machine.operand_bits.output


def rate(machine: Machine) -> int:
    """Return the vector operations of a cycle."""
    assert machine.vector_ops_per_cycle is not None
    return machine.vector_ops_per_cycle


def on_host(machine: Machine, size: int) -> int:
    """Return the cycles of the host for an operation that reads and writes so many bytes."""
    assert machine.host is not None
    return machine.host.cycles(size)


def host_program(walk: AnyWalk, time: int) -> Program:
    """Return the program of an operation that the host does, which takes that time and no memory on chip."""
    durations = np.full(walk.steps, time // walk.steps, dtype=np.int64)  # of each image
    durations[0] += time % walk.steps
    return Program(
        tensors=tensors(walk, lambda _: {"memory": "host"}),
        memories=(Memory("host"),),
        engines=(Engine("bus"), Engine("host")),
        steps=steps_of(walk, Timing("bus", "host", durations)),
    )


def steps_of(walk: AnyWalk, timing: Timing) -> LazySteps:
    """Return the steps of a plan: one for each tile, and one that writes the last one back."""
    if isinstance(walk, MoveWalk):
        return move_steps(walk, timing)
    return scan_steps(walk, timing) if isinstance(walk, ScanWalk) else steps(walk, timing)


def tensors(walk: AnyWalk, where: Callable[[str], Mapping[str, Any]]) -> tuple[Tensor, ...]:
    """Return what is moved; `where` tells of each tensor in which memory it lies."""
    given = (
        Tensor(name, shape, "kernels" if name.startswith("parameters") else "input", **where(name))
        for name, shape in walk.operands.items()
    )
    kept = (
        Tensor(name, shape, "intermediate", macs_per_element=1, **where(name))
        for name, shape in walk.kept.items()
    )
    return *given, *kept, Tensor(OUTPUT, walk.given, "output", macs_per_element=1, **where(OUTPUT))


def added(counts: Iterable[Counts]) -> Counts:
    """Return the sums of each step."""
    found: Counts = np.sum(list(counts), axis=0, dtype=np.int64)
    return found
