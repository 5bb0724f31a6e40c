"""What one run of a program knows between two blocks of events: cells, limits, and what was counted."""

from __future__ import annotations

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, WRITE, Columns, Grid, Numbers
from tilewright.simulator.program import Counts, Program
from tilewright.simulator.timing import Schedule

_UNLIMITED = np.iinfo(np.int64).max


class CellState:
    """The state of every cell between two blocks.

    Attributes
    ----------
    stored
        Whether DRAM has its data.
    changed, by
        The last event that freed, wrote back, loaded or computed it, and the event's kind; -1 for none.
    """

    def __init__(self, columns: Columns, grid: Grid) -> None:
        given = [tensor.role in ("input", "kernels") for tensor in columns.program.tensors]
        self.stored = np.repeat(np.array(given, dtype=np.bool_), np.diff(grid.tensor))
        self.loads = np.zeros(grid.cells, dtype=np.int64)
        self.macs = np.zeros(grid.cells, dtype=np.int64)
        self.changed = np.full(grid.cells, -1, dtype=np.int32)
        self.by = np.full(grid.cells, -1, dtype=np.int8)


class Limits:
    """Limits of tensors and memories, by number.

    What is resident is held on *accounts*: one for each memory, and one for each tensor with a buffer.

    Attributes
    ----------
    macs, loads, is_output, recomputed, memory, static, reserved, taken, account
        Of each tensor; `reserved` for all copies of its buffer in elements, `taken` in units.
    widens
        Of each tensor: whether its sums are wider until they are complete.
    work
        Of each engine: most MACs of an action; the last entry is for what has no engine.
    limit
        Of each account; a memory's without what is reserved in it.
    """

    def __init__(self, program: Program) -> None:
        tensors, memories = program.tensors, program.memories
        self.macs = np.array([tensor.macs_per_element for tensor in tensors], dtype=np.int64)
        self.loads = np.array(
            [_UNLIMITED if tensor.max_loads is None else tensor.max_loads for tensor in tensors],
            dtype=np.int64,
        )
        self.is_output = np.array([tensor.role == "output" for tensor in tensors], dtype=np.bool_)
        self.recomputed = np.array([tensor.recomputed for tensor in tensors], dtype=np.bool_)
        self.work = np.array(
            [
                _UNLIMITED if engine.macs_per_action is None else engine.macs_per_action
                for engine in program.engines
            ]
            + [_UNLIMITED],
            dtype=np.int64,
        )
        number = {memory.name: place for place, memory in enumerate(memories)}
        self.memory = np.array([number[tensor.memory] for tensor in tensors], dtype=np.int64)
        self.static = np.array([tensor.buffer is not None for tensor in tensors], dtype=np.bool_)
        self.reserved = np.array(
            [program.copies * (tensor.buffer or 0) for tensor in tensors], dtype=np.int64
        )
        self.taken = self.reserved * np.array([tensor.held_width for tensor in tensors], dtype=np.int64)
        self.account = np.where(self.static, len(memories) + np.arange(len(tensors)), self.memory)
        capacities = [_UNLIMITED if memory.capacity is None else memory.capacity for memory in memories]
        taken = np.zeros(len(memories), dtype=np.int64)
        np.add.at(taken, self.memory, self.taken)
        self.widens = np.array([tensor.sum_width is not None for tensor in tensors], dtype=np.bool_)
        self.limit = np.array(
            [capacity - int(used) for capacity, used in zip(capacities, taken, strict=True)]
            + [_UNLIMITED if tensor.buffer is None else tensor.buffer for tensor in tensors],
            dtype=np.int64,
        )


class StepAmounts:
    """Amounts by tensor and step, collected block by block."""

    def __init__(self, tensors: int) -> None:
        self._parts: list[list[tuple[Numbers, Counts]]] = [[] for _ in range(tensors)]

    def add(self, tensors: Counts, steps: Numbers, amounts: Counts) -> None:
        """Add some amounts, kept in the smallest type that holds them."""
        order = np.argsort(tensors, kind="stable")
        found, first = np.unique(tensors[order], return_index=True)
        small = amounts.astype(np.min_scalar_type(-1 - int(np.abs(amounts).max(initial=0))))
        for tensor, mine in zip(found.tolist(), np.split(order, first[1:]), strict=False):
            self._parts[tensor].append((steps[mine], small[mine]))

    def row(self, tensor: int, steps: int) -> Counts:
        """Return the sums of a tensor by step."""
        counts = np.zeros(steps, dtype=np.int64)
        for places, amounts in self._parts[tensor]:
            np.add.at(counts, places, amounts.astype(np.int64))
        return counts


class RunState:
    """The state of one run of one program.

    Attributes
    ----------
    held
        On each account.
    occupied, preloaded
        Elements that each tensor has space for: now, and before the first step.
    amounts, net
        Elements by kind of event, tensor and step; and how many more a tensor has space for after it.
    schedule
        When all events run, of a program with a static schedule.
    macs, transfers, streamed
        Of each step.
    several
        Whether computes run on several engines, without a static schedule.
    """

    def __init__(self, program: Program, deadline: float) -> None:
        self.program = program
        self.columns = columns = Columns(program, deadline)
        self.grid = Grid(columns)
        self.cells = CellState(columns, self.grid)
        self.machine = Limits(program)
        self.steps = len(columns.labels)
        tensors = len(program.tensors)
        self.held = np.zeros(len(self.machine.limit), dtype=np.int64)
        self.occupied, self.preloaded, self.most_loads = (np.zeros(tensors, dtype=np.int64) for _ in range(3))
        self.amounts = {kind: StepAmounts(tensors) for kind in (FREE, WRITE, LOAD, COMPUTE)}
        self.net = StepAmounts(tensors)
        self.macs, self.transfers, self.streamed = (np.zeros(self.steps, dtype=np.int64) for _ in range(3))
        self.dynamic = self.peak = self.lockstep_peak = 0
        self.schedule = None if columns.start is None else Schedule(columns, columns.start)
        self.several = self.schedule is None and len(set(columns.engine[columns.kind == COMPUTE])) > 1
        self.readers = np.zeros((3, 0), dtype=np.int64)

    def overflow(self, memory: int, occupied: Counts) -> tuple[str, str, str]:
        """Explain an overflow: the memory's name, its contents, its capacity."""
        parts, total = [], 0
        for number, tensor in enumerate(self.program.tensors):
            if self.machine.memory[number] != memory:
                continue
            if tensor.buffer is None:
                taken, text = int(occupied[number]), f"{int(occupied[number])}"
            else:
                taken = self.program.copies * tensor.buffer * tensor.held_width
                width = f" * {tensor.held_width}" if tensor.held_width > 1 else ""
                text = f"{self.program.copies} * {tensor.buffer}{width}"
            total += taken
            if taken:
                parts.append(f"{tensor.name} {text}")
        found = self.program.memories[memory]
        unit = "units" if any(tensor.held_width > 1 for tensor in self.program.tensors) else "elements"
        return found.name, f"{total} {unit} ({', '.join(parts)})", f"a capacity of {found.capacity}"
