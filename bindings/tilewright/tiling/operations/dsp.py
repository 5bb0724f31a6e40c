"""Operations on a DSP: its core does them, and its transfers are those of layers."""

from __future__ import annotations

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Report
from tilewright.tiling.dsp import cost
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.steps import Timing, steps
from tilewright.tiling.operations.units import (
    Costs,
    Unit,
    added,
    bits_of,
    host_program,
    on_host,
    rate,
    tensors,
)
from tilewright.tiling.operations.walk import Counts, Walk


class DspUnit(Unit):
    """A DSP, whose core does vector operations, too; its transfers are those of layers."""

    def __init__(self, machine: DspMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"
        self.width = machine.units.output
        self.bytes = -(-operation.elements * bits_of(machine) // 8)

    def overflow(self, buffers: dict[str, int]) -> str | None:
        """Say what does not fit of a tile, or None."""
        needed, capacity = self.width * sum(buffers.values()), self.machine.buffer_capacity
        if self.host or needed <= capacity:
            return None
        twice = ", twice for double buffering" if self.machine.copies == 2 else ""
        holds = f"the memory holds {self.machine.capacity}"
        return f"memory overflow: a tile needs {needed} {self.machine.unit}{twice}; {holds}"

    def fullness(self, buffers: dict[str, int]) -> tuple[str, str]:
        """Return how full the memory is."""
        return "", f"{100 * self.width * sum(buffers.values()) / self.machine.buffer_capacity:.0f} %"

    def program(self, walk: Walk) -> Program:
        """Return what is executed."""
        machine = self.machine
        if self.host:
            return host_program(walk, on_host(machine, self.bytes))
        buffers = walk.buffers
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
            steps=steps(walk, Timing("bus", "dsp", self._computing(walk), self._streamed(walk))),
            copies=machine.copies,
        )

    def costs(self, walk: Walk, level: str) -> Costs:
        """Return what a plan costs by the closed form."""
        machine = self.machine
        loads = [self.width * moved.elements for moved in walk.loaded.values()]
        stores = [self.width * walk.stored.elements]
        accesses = int(sum(counts.sum() for counts in (*loads, *stores)))
        if self.host:
            cycles = on_host(machine, self.bytes)
            return self._priced(accesses, cycles, 0, 0)
        setup, width = machine.dma_setup_cycles, machine.bus_units_per_cycle
        load, store = (added(-(-counts // width) for counts in group) for group in (loads, stores))
        sets = setup * added((counts > 0).astype(np.int64) for counts in loads)
        ends = setup * np.ones(walk.steps, dtype=np.int64)
        computing, streamed = self._computing(walk), self._streamed(walk)
        streaming = -(-streamed // width)
        busy = int((computing + sets + ends).sum())
        if not machine.double_buffering:
            working = np.maximum(computing, streaming)
            cycles = int((working + sets + ends + load + store).sum())
        else:
            core = computing + _next(sets) + _last(ends)
            bus = _last(store) + _next(load) + streaming
            alone = sets[0] + load[0] + ends[-1] + store[-1]
            cycles = int(np.maximum(core, bus).sum() + alone)
        return self._priced(accesses, cycles, busy, int(streamed.sum()))

    def measured(self, walk: Walk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""
        line = report.lockstep if self.machine.double_buffering else report.sequential
        assert line is not None
        busy = 0
        if not self.host:
            busy = int(self._computing(walk).sum()) + self.machine.dma_setup_cycles * report.transfers
        return self._priced(self.width * report.accesses, line.cycles, busy, report.streamed)

    def limited_by(self, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""
        if self.host:
            return "host"
        bus = -(-costs["accesses"] // self.machine.bus_units_per_cycle)
        return "vector unit" if -(-self.operation.work // rate(self.machine)) > bus else "bus"

    def _priced(self, accesses: int, cycles: int, busy: int, streamed: int) -> Costs:
        energy = cost.energy(self.machine, accesses, busy, streamed)
        return {"accesses": accesses, "cycles": cycles, "energy": energy}

    def _computing(self, walk: Walk) -> Counts:
        return -(-walk.work // rate(self.machine))

    def _streamed(self, walk: Walk) -> Counts:
        """Return the units between memory and registers, where the machine counts them."""
        if not self.machine.register_file_bytes:
            return np.zeros(walk.steps, dtype=np.int64)
        return self.width * added([*walk.held.values(), walk.stored.elements])


def _next(counts: Counts) -> Counts:
    """Return of each step what the next one has."""
    return np.append(counts[1:], 0)


def _last(counts: Counts) -> Counts:
    """Return of each step what the one before has."""
    return np.append([0], counts[:-1])
