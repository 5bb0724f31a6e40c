"""Operations on a DSP: its core does them, and its transfers are those of layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Report
from tilewright.spec.errors import InputError
from tilewright.tiling.dsp import cost
from tilewright.tiling.dsp.compute import undominated
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import MoveWalk
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.steps import Timing
from tilewright.tiling.operations.units import (
    Costs,
    Unit,
    added,
    bits_of,
    host_program,
    on_host,
    rate,
    steps_of,
    tensors,
)
from tilewright.tiling.operations.vector_loop import has_loop
from tilewright.tiling.operations.vector_search import (
    compute_of_tiles,
    loop_of,
    loops_worth_trying,
    room_needed,
)
from tilewright.tiling.operations.walk import Counts, Walk
from tilewright.tiling.operations.walks import AnyWalk


class DspUnit(Unit):
    """A DSP, whose core does vector operations, too; its transfers are those of layers."""

    def __init__(self, machine: DspMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"
        self.width = machine.units.output
        self.bytes = -(-operation.elements * bits_of(machine) // 8)
        self.has_loop = operation.on == "vector" and machine.vector_unit is not None and has_loop(operation)

    def overflow(self, buffers: dict[str, int]) -> str | None:
        """Say what does not fit of a tile, or None."""
        needed, capacity = self.width * sum(buffers.values()), self.machine.buffer_capacity
        if self.host or needed <= capacity:
            return None
        twice = ", twice for double buffering" if self.machine.copies == 2 else ""
        holds = f"the memory holds {self.machine.capacity}"
        return f"memory overflow: a tile needs {needed} {self.machine.unit}{twice}; {holds}"

    def check(self, smallest: Walk) -> None:
        """Refuse an operation of which no inner loop has room.

        Raises
        ------
        InputError
            Names the field of the vector unit, and what is needed.
        """
        if not self.has_loop:
            return
        assert self.machine.vector_unit is not None
        for name, needed in room_needed(self.operation, self.machine, smallest).items():
            given = getattr(self.machine.vector_unit, name)
            if given < needed:
                limit = f"{self.operation.op} has no inner loop with fewer than {needed}"
                raise InputError(f"machine.vector_unit.{name}", given, limit)

    def fullness(self, buffers: dict[str, int]) -> tuple[str, str]:
        """Return how full the memory is."""
        return "", f"{100 * self.width * sum(buffers.values()) / self.machine.buffer_capacity:.0f} %"

    def program(self, walk: AnyWalk) -> Program:
        """Return what is executed."""
        machine = self.machine
        if self.host:
            return host_program(walk, on_host(machine, self.bytes))
        buffers, (computing, streamed) = walk.buffers, self._core(walk)
        moved = tensors(walk, lambda name: {"buffer": buffers[name], "width": self.width})
        engines = (
            Engine(
                "bus",
                elements_per_cycle=machine.bus_units_per_cycle,
                setup=machine.dma_setup_cycles,
                setup_on="dsp",
            ),
            Engine("dsp", streams_over="bus"),
        )
        return Program(
            tensors=moved,
            memories=(Memory("mem", machine.capacity),),
            engines=engines,
            steps=steps_of(walk, Timing("bus", "dsp", computing, streamed)),
            copies=machine.copies,
        )

    def costs(self, walk: AnyWalk, level: str) -> Costs:
        """Return what a plan costs by the closed form."""
        return self._costs(walk, [self._core(walk)])[0]

    def choices(self, plans: Sequence[OperationPlan], level: str) -> Iterator[tuple[OperationPlan, Costs]]:
        """Yield plans; of each tile those with the inner loops of which none is better in time and energy."""
        if not self.has_loop:
            yield from super().choices(plans, level)
            return
        assert self.machine.vector_unit is not None
        lanes, tiles = self.machine.vector_unit.lanes, [Walk(self.operation, plan).kinds[0] for plan in plans]
        every = loops_worth_trying(self.operation, self.machine, tiles)
        for plan, options in zip(plans, every, strict=True):
            walk = Walk(self.operation, plan)
            kind = walk.kinds[1]
            cores = [(each.cycles[kind], each.transfers[kind] * lanes) for each in options]
            costs = self._costs(walk, cores)
            priced = np.array([(each["cycles"], each["energy"]) for each in costs])
            for at in undominated(priced):
                yield OperationPlan(plan.tile, options[at].loop), costs[at]

    def _costs(self, walk: AnyWalk, cores: Sequence[tuple[Counts, Counts]]) -> list[Costs]:
        """Return what tiles cost, for each of some cycles of the core and units that it streams."""
        machine = self.machine
        assert not isinstance(walk, MoveWalk)  # a transfer takes as long, whatever its runs are
        loads = [self.width * moved.elements for moved in walk.loaded.values()]
        stores = [self.width * walk.stored.elements]
        accesses = int(sum(walk.weights @ counts for counts in (*loads, *stores)))
        if self.host:
            cycles = on_host(machine, self.bytes)
            return [self._priced(accesses, cycles, 0, 0)]
        setup, width = machine.dma_setup_cycles, machine.bus_units_per_cycle
        load, store = (added(-(-counts // width) for counts in group) for group in (loads, stores))
        sets = setup * added((counts > 0).astype(np.int64) for counts in loads)
        ends = setup * walk.writes
        found = []
        for computing, streamed in cores:
            streaming = -(-streamed // width)
            busy = int(walk.weights @ (computing + sets + ends))
            if not machine.double_buffering:
                working = np.maximum(computing, streaming)
                cycles = int(walk.weights @ (working + sets + ends + load + store))
            else:
                core = computing + walk.after(sets) + walk.before(ends)
                bus = walk.before(store) + walk.after(load) + streaming
                alone = walk.first(sets + load) + walk.last(ends + store)
                cycles = int(walk.weights @ np.maximum(core, bus)) + alone
            found.append(self._priced(accesses, cycles, busy, int(walk.weights @ streamed)))
        return found

    def measured(self, walk: AnyWalk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""
        line = report.lockstep if self.machine.double_buffering else report.sequential
        assert line is not None
        busy = 0
        if not self.host:
            busy = int(walk.weights @ self._core(walk)[0]) + self.machine.dma_setup_cycles * report.transfers
        return self._priced(self.width * report.accesses, line.cycles, busy, report.streamed)

    def breakdown(self, walk: AnyWalk, report: Report) -> dict[str, Any]:
        """Return the inner loop."""
        if not self.has_loop or not isinstance(walk, Walk):
            return {}
        return {"inner_loop": str(loop_of(self.operation, self.machine, walk))}

    def limited_by(self, walk: AnyWalk, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""
        if self.host:
            return "host"
        computing, streamed = (int(walk.weights @ counts) for counts in self._core(walk))
        bus = -(-(costs["accesses"] + self.has_loop * streamed) // self.machine.bus_units_per_cycle)
        work = "inner loop" if self.has_loop else "vector unit"
        return work if computing > bus else "bus"

    def _priced(self, accesses: int, cycles: int, busy: int, streamed: int) -> Costs:
        energy = cost.energy(self.machine, accesses, busy, streamed)
        return {"accesses": accesses, "cycles": cycles, "energy": energy}

    def _core(self, walk: AnyWalk) -> tuple[Counts, Counts]:
        """Return the cycles of each tile, and the units between memory and registers that are counted."""
        machine, unit = self.machine, self.machine.vector_unit
        if self.host:
            return np.zeros_like(walk.weights), np.zeros_like(walk.weights)
        if self.has_loop:
            assert unit is not None and isinstance(walk, Walk)
            cycles, transfers = compute_of_tiles(self.operation, machine, walk)
            return cycles, transfers * unit.lanes
        if machine.vector_ops_per_cycle is None or (unit is not None and self.operation.needs == "flow"):
            assert unit is not None  # of a lower bound: each result is stored, at least
            stored = walk.stored.elements
            return -(-stored // (unit.lanes * unit.memory_slots)), self.width * stored
        cycles = -(-walk.work // rate(machine))
        if not machine.register_file_bytes:
            return cycles, np.zeros_like(walk.weights)
        return cycles, self.width * added([*walk.held.values(), walk.made])
