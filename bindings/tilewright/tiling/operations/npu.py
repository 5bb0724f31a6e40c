"""Operations on a multicore NPU, whose cores share the work: one tile lies in the memories of all of them."""

from __future__ import annotations

from tilewright.simulator import Engine, Memory, Program, Report
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.steps import Timing
from tilewright.tiling.operations.units import (
    Costs,
    Unit,
    bits_of,
    host_program,
    on_host,
    rate,
    steps_of,
    tensors,
)
from tilewright.tiling.operations.walk import OUTPUT, Counts, Moved
from tilewright.tiling.operations.walks import AnyWalk


class NpuUnit(Unit):
    """A multicore NPU, whose cores share the work; one tile lies in the memories of all of them."""

    def __init__(self, machine: NpuMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"
        cores = machine.tles * machine.tlts
        self.width = machine.units.output
        # Values do not lie across two cores.
        self.capacity = {
            "input": cores * (8 * machine.input_bytes // bits_of(machine)),
            OUTPUT: cores * (8 * machine.output_bytes // bits_of(machine)),
        }

    def overflow(self, buffers: dict[str, int]) -> str | None:
        """Say what does not fit of a tile, or None."""
        if self.host:
            return None
        needed = self._needed(buffers)
        for name, capacity in self.capacity.items():
            if needed[name] > capacity:
                holds = f"all cores together hold {capacity}"
                return f"memory overflow: {name} needs {needed[name]} elements, {holds}"
        return None

    def _needed(self, buffers: dict[str, int]) -> dict[str, int]:
        """Return the elements of each memory of all cores that a tile takes."""
        return {"input": sum(buffers.values()) - buffers[OUTPUT], OUTPUT: buffers[OUTPUT]}

    def fullness(self, buffers: dict[str, int]) -> tuple[str, str]:
        """Return how full the memories of all cores are."""
        shares = {name: 100 * held / self.capacity[name] for name, held in self._needed(buffers).items()}
        return "", ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())

    def program(self, walk: AnyWalk) -> Program:
        """Return what is executed."""
        machine = self.machine
        if self.host:
            return host_program(walk, self._host_time)
        moved = tensors(walk, lambda name: {"memory": OUTPUT if name == OUTPUT else "input"})
        dram = Engine("dram", per_burst=machine.burst_ps)
        every = {**walk.loaded, OUTPUT: walk.stored}
        bursts = {name: self._pieces(moved, machine.burst_bytes) for name, moved in every.items()}
        moving = {name: self._pieces(moved, 1) * machine.byte_ps for name, moved in every.items()}
        durations = -(-walk.work // rate(machine)) * machine.cycle_ps
        return Program(
            tensors=moved,
            memories=tuple(Memory(name, capacity) for name, capacity in self.capacity.items()),
            engines=(dram, Engine("vector")),
            steps=steps_of(walk, Timing("dram", "vector", durations, bursts=bursts, moving=moving)),
        )

    def costs(self, walk: AnyWalk, level: str) -> Costs:
        """Return what a plan costs by the closed form."""
        machine = self.machine
        moved = [*walk.loaded.values(), walk.stored]
        accesses = self.width * int(sum(walk.weights @ each.elements for each in moved))
        if self.host:
            return {"accesses": accesses, "time": self._host_time}
        cycles, size, bursts = self.counts(walk)
        time = cycles * machine.cycle_ps + size * machine.byte_ps + bursts * machine.burst_ps
        return {"accesses": accesses, "time": time}

    def counts(self, walk: AnyWalk) -> tuple[int, int, int]:
        """Return cycles, bytes and bursts of a plan: what takes time, unless the host works."""
        moved = [*walk.loaded.values(), walk.stored]
        size, bursts = (
            int(sum(walk.weights @ self._pieces(each, size) for each in moved))
            for size in (1, self.machine.burst_bytes)
        )
        return int(walk.weights @ -(-walk.work // rate(self.machine))), size, bursts

    def measured(self, walk: AnyWalk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""
        assert report.sequential is not None
        return {"accesses": self.width * report.accesses, "time": report.sequential.cycles}

    def limited_by(self, walk: AnyWalk, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""
        if self.host:
            return "host"
        computing = -(-self.operation.work // rate(self.machine)) * self.machine.cycle_ps
        return "vector unit" if 2 * computing > costs["time"] else "dram"

    @property
    def _host_time(self) -> int:
        machine = self.machine
        return on_host(machine, -(-self.operation.elements * bits_of(machine) // 8)) * machine.cycle_ps

    def _pieces(self, moved: Moved, size: int) -> Counts:
        """Return the pieces, of so many bytes at most, that the runs of each tile take."""
        return moved.runs * -(-moved.length * bits_of(self.machine) // (8 * size))
