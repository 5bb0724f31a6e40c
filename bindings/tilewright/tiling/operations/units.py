"""What operations cost on each kind of machine: the memory that holds their tiles, and what moving takes.

The closed forms here add up the tiles of a `Walk` as arrays; `measured` takes the numbers of an executed
program.
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Report, Tensor
from tilewright.simulator.program import LazySteps
from tilewright.tiling.dsp import cost as dsp_cost
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.hierarchy.machine import HierarchyMachine, Level, Operand, OperandBytes
from tilewright.tiling.hierarchy.measure import (
    TICKS,
    attojoules,
    prices,
    shown,
    ticks_per_bit,
    transfer_ticks,
)
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.steps import steps
from tilewright.tiling.operations.walk import OUTPUT, Counts, Moved, Walk

Costs = dict[str, int]
"""What a plan costs, by what is minimised."""

NOTHING = np.zeros(1, dtype=np.int64)


class Unit(Protocol):
    """A machine, as an operation sees it."""

    def overflow(self, buffers: dict[str, int]) -> str | None:
        """Say what does not fit of a tile with the given elements of each tensor, or None."""

    def program(self, walk: Walk) -> Program:
        """Return what is executed."""

    def costs(self, walk: Walk, level: str) -> Costs:
        """Return what a plan costs by the closed form; `level` is the memory whose accesses are counted."""

    def measured(self, walk: Walk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""

    def limited_by(self, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""


class _Dsp:
    """A DSP, whose core does vector operations, too; its transfers are those of layers."""

    def __init__(self, machine: DspMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"

    def overflow(self, buffers: dict[str, int]) -> str | None:
        needed, capacity = sum(buffers.values()), self.machine.buffer_capacity
        if self.host or needed <= capacity:
            return None
        twice = ", twice for double buffering" if self.machine.copies == 2 else ""
        return f"memory overflow: a tile needs {needed} elements{twice}; the memory holds {self.machine.capacity}"

    def program(self, walk: Walk) -> Program:
        machine = self.machine
        if self.host:
            time = machine.host.cycles(self.operation.elements * machine.element_bytes)
            return host_program(walk, time)
        buffers = walk.buffers
        tensors = _tensors(walk, lambda name: {"buffer": buffers[name]})
        engines = (
            Engine(
                "bus",
                elements_per_cycle=machine.bus_elements_per_cycle,
                setup=machine.dma_setup_cycles,
                setup_on="dsp",
            ),
            Engine("dsp", streams_over="bus"),
        )
        durations, streamed = self._computing(walk), self._streamed(walk)
        return Program(
            tensors=tensors,
            memories=(Memory("mem", machine.capacity),),
            engines=engines,
            steps=LazySteps(walk.steps + 1, lambda: steps(walk, "bus", "dsp", durations, streamed)),
            copies=machine.copies,
        )

    def costs(self, walk: Walk, level: str) -> Costs:
        machine = self.machine
        loads = [moved.elements for moved in walk.loaded.values()]
        accesses = int(sum(counts.sum() for counts in loads) + walk.stored.elements.sum())
        if self.host:
            cycles = machine.host.cycles(self.operation.elements * machine.element_bytes)
            return self._priced(accesses, cycles, 0, 0)
        stores = [walk.stored.elements]
        setup, rate = machine.dma_setup_cycles, machine.bus_elements_per_cycle
        load, store = (sum(-(-counts // rate) for counts in group) for group in (loads, stores))
        sets = setup * sum((counts > 0).astype(np.int64) for counts in loads)
        ends = setup * np.ones(walk.steps, dtype=np.int64)
        computing, streamed = self._computing(walk), self._streamed(walk)
        streaming = -(-streamed // rate)
        busy = int((computing + sets + ends).sum())
        if not machine.double_buffering:
            cycles = busy + int((load + store).sum() + streaming.sum())
        else:
            core = computing + _next(sets) + _last(ends)
            bus = _last(store) + _next(load) + streaming
            alone = sets[0] + load[0] + ends[-1] + store[-1]
            cycles = int(np.maximum(core, bus).sum() + alone)
        return self._priced(accesses, cycles, busy, int(streamed.sum()))

    def measured(self, walk: Walk, report: Report, level: str) -> Costs:
        line = report.lockstep if self.machine.double_buffering else report.sequential
        assert line is not None
        busy = 0
        if not self.host:
            busy = int(self._computing(walk).sum()) + self.machine.dma_setup_cycles * report.transfers
        return self._priced(report.accesses, line.cycles, busy, report.streamed)

    def limited_by(self, costs: Costs) -> str:
        if self.host:
            return "host"
        bus = -(-costs["accesses"] // self.machine.bus_elements_per_cycle)
        return "vector unit" if -(-self.operation.work // _rate(self.machine)) > bus else "bus"

    def _priced(self, accesses: int, cycles: int, busy: int, streamed: int) -> Costs:
        energy = dsp_cost.energy(self.machine, accesses, busy, streamed)
        return {"accesses": accesses, "cycles": cycles, "energy": energy}

    def _computing(self, walk: Walk) -> Counts:
        return -(-walk.work // _rate(self.machine))

    def _streamed(self, walk: Walk) -> Counts:
        """Return the elements between memory and registers, where the machine counts them."""
        if not self.machine.register_file_bytes:
            return np.zeros(walk.steps, dtype=np.int64)
        return sum(walk.held.values()) + walk.stored.elements


class _Npu:
    """A multicore NPU, whose cores share the work; one tile lies in the memories of all of them."""

    def __init__(self, machine: NpuMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"
        cores = machine.tles * machine.tlts
        self.capacity = {
            "input": cores * (machine.input_bytes // machine.element_bytes),
            OUTPUT: cores * (machine.output_bytes // machine.element_bytes),
        }

    def overflow(self, buffers: dict[str, int]) -> str | None:
        if self.host:
            return None
        needed = {OUTPUT: buffers[OUTPUT]}
        needed["input"] = sum(buffers.values()) - needed[OUTPUT]
        for name, capacity in self.capacity.items():
            if needed[name] > capacity:
                return f"memory overflow: {name} needs {needed[name]} elements, all cores together hold {capacity}"
        return None

    def program(self, walk: Walk) -> Program:
        machine = self.machine
        if self.host:
            return host_program(walk, self._host_time)
        tensors = _tensors(walk, lambda name: {"memory": OUTPUT if name == OUTPUT else "input"})
        dram = Engine("dram", per_element=machine.byte_ps * machine.element_bytes, per_burst=machine.burst_ps)
        bursts = {name: self._bursts(moved) for name, moved in walk.loaded.items()}
        bursts[OUTPUT] = self._bursts(walk.stored)
        durations = -(-walk.work // _rate(machine)) * machine.cycle_ps
        return Program(
            tensors=tensors,
            memories=tuple(Memory(name, capacity) for name, capacity in self.capacity.items()),
            engines=(dram, Engine("vector")),
            steps=LazySteps(
                walk.steps + 1,
                lambda: steps(walk, "dram", "vector", durations, np.zeros(walk.steps, np.int64), bursts),
            ),
        )

    def costs(self, walk: Walk, level: str) -> Costs:
        machine = self.machine
        moved = [*walk.loaded.values(), walk.stored]
        accesses = int(sum(each.elements.sum() for each in moved))
        if self.host:
            return {"accesses": accesses, "time": self._host_time}
        bursts = int(sum(self._bursts(each).sum() for each in moved))
        computing = int((-(-walk.work // _rate(machine))).sum()) * machine.cycle_ps
        time = computing + accesses * machine.byte_ps * machine.element_bytes + bursts * machine.burst_ps
        return {"accesses": accesses, "time": time}

    def measured(self, walk: Walk, report: Report, level: str) -> Costs:
        assert report.sequential is not None
        return {"accesses": report.accesses, "time": report.sequential.cycles}

    def limited_by(self, costs: Costs) -> str:
        if self.host:
            return "host"
        computing = -(-self.operation.work // _rate(self.machine)) * self.machine.cycle_ps
        return "vector unit" if 2 * computing > costs["time"] else "dram"

    @property
    def _host_time(self) -> int:
        machine = self.machine
        return machine.host.cycles(self.operation.elements * machine.element_bytes) * machine.cycle_ps

    def _bursts(self, moved: Moved) -> Counts:
        return moved.runs * -(-moved.length * self.machine.element_bytes // self.machine.burst_bytes)


class _Hierarchy:
    """A hierarchy, one of whose memories a vector unit works on; those outside pass its tiles on."""

    def __init__(self, machine: HierarchyMachine, operation: Operation) -> None:
        self.machine, self.operation = machine, operation
        self.host = operation.on == "host"
        own = machine.levels[0] if self.host else machine.vector_memory
        memories = [level for level in machine.levels if not level.fanout]
        reached = memories[: memories.index(own) + 1]
        self.paths: dict[Operand, list[Level]] = {
            "input": [level for level in reached if "input" in level.holds],
            "output": [level for level in reached if "output" in level.holds],
        }
        self.own = own
        self.bits = {"input": machine.bits.input, "output": machine.bits.output}

    def overflow(self, buffers: dict[str, int]) -> str | None:
        given = self.own.capacity_bytes
        if given is None:
            return None
        needed = {"output": buffers[OUTPUT] * self.bits["output"]}
        needed["input"] = (sum(buffers.values()) - buffers[OUTPUT]) * self.bits["input"]
        copies, told = self.own.copies, " twice" * self.own.double_buffering
        if isinstance(given, OperandBytes):
            for operand, bits in needed.items():
                if copies * bits > 8 * (most := getattr(given, operand)):
                    what = f"{operand} of {bits} bits{told}, {self.own.name} holds {most} bytes"
                    return f"memory overflow: a tile needs {what}"
        elif (total := copies * sum(needed.values())) > 8 * given:
            return f"memory overflow: a tile needs {total} bits, {self.own.name} holds {given} bytes"
        return None

    def program(self, walk: Walk) -> Program:
        if self.host:
            return host_program(walk, self._host_cycles)
        tensors = _tensors(walk, lambda name: {"memory": OUTPUT if name == OUTPUT else "input"})
        none = np.zeros(walk.steps, dtype=np.int64)
        # Bits are the memory's affair, which `overflow` looks at: its capacity in elements is what that allows.
        return Program(
            tensors=tensors,
            memories=(Memory("input", self._room(walk, "input")), Memory(OUTPUT, self._room(walk, OUTPUT))),
            engines=(Engine("port"), Engine("vector")),
            steps=LazySteps(walk.steps + 1, lambda: steps(walk, "port", "vector", none, none)),
        )

    def _room(self, walk: Walk, operand: str) -> int | None:
        """Return the elements that a tile may reserve of the memory, None without a limit."""
        if self.own.capacity_bytes is None:
            return None
        buffers = walk.buffers
        return buffers[OUTPUT] if operand == OUTPUT else sum(buffers.values()) - buffers[OUTPUT]

    def costs(self, walk: Walk, level: str) -> Costs:
        loaded = int(sum(moved.elements.sum() for moved in walk.loaded.values()))
        held = int(sum(counts.sum() for counts in walk.held.values()))
        return self._priced(loaded, held, int(walk.stored.elements.sum()), level)

    def measured(self, walk: Walk, report: Report, level: str) -> Costs:
        loaded = sum(report.total(counts) for counts in report.loaded.values())
        written = sum(report.total(counts) for counts in report.written.values())
        held = sum(
            box.size(walk.operands[name]) for boxes, _, _ in walk.tiles() for name, box in boxes.items()
        )
        return self._priced(loaded, held, written, level)

    def limited_by(self, costs: Costs) -> str:
        if self.host:
            return "host"
        return "vector unit" if costs["cycles"] <= -(-self.operation.work // _rate(self.machine)) else "ports"

    @property
    def _host_cycles(self) -> int:
        operation, bits = self.operation, self.bits
        read = operation.batch * sum(map(prod, operation.inputs)) + operation.parameters
        written = operation.batch * prod(operation.output)
        host = self.machine.host
        assert host is not None
        return host.cycles(-(-(read * bits["input"] + written * bits["output"]) // 8))

    def _moved(self, loaded: int, held: int, stored: int) -> dict[str, dict[str, tuple[int, int]]]:
        """Return the elements of each operand that each level reads and writes."""
        found: dict[str, dict[str, tuple[int, int]]] = {level.name: {} for level in self.machine.levels}
        inputs, outputs = self.paths["input"], self.paths["output"]
        for place, level in enumerate(inputs):
            last = place == len(inputs) - 1
            # What the unit works on in the outermost memory itself is not moved anywhere before.
            found[level.name]["input"] = (held if last and place else loaded, loaded if place else 0)
        for place, level in enumerate(outputs):
            found[level.name]["output"] = (stored if place else 0, stored)
        return found

    def _priced(self, loaded: int, held: int, stored: int, level: str) -> Costs:
        machine, moved = self.machine, self._moved(loaded, held, stored)
        levels = {each.name: each for each in machine.levels if not each.fanout}
        energy = self.operation.work * attojoules(machine.vector_op_pj, 1) if not self.host else 0
        busiest = 0
        for name, each in levels.items():
            read, written = (
                sum(counts[way] * self.bits[operand] for operand, counts in moved[name].items())
                for way in (0, 1)
            )
            price, ticks = prices(each), ticks_per_bit(each)
            energy += read * price[0] + written * price[1]
            port = (read * ticks[0], written * ticks[1])
            busiest = max(busiest, sum(port) if each.bytes_per_cycle is not None else max(port))
        cycles = self._host_cycles if self.host else -(-max(busiest, self._working(moved)) // TICKS)
        return {
            "accesses": sum(map(sum, moved[level].values())),
            "cycles": cycles,
            "energy": energy,
            "edp": shown("edp", energy * cycles),
        }

    def _working(self, moved: dict[str, dict[str, tuple[int, int]]]) -> int:
        """Return the ticks of the unit, and of the transfers that it waits for."""
        ticks = -(-self.operation.work // _rate(self.machine)) * TICKS
        for operand, path in self.paths.items():
            for parent, child in zip(path, path[1:], strict=False):
                if not child.double_buffering:
                    inwards, outwards = transfer_ticks(parent, child)
                    read, written = moved[child.name][operand]
                    bits = self.bits[operand]
                    ticks += written * bits * inwards if operand == "input" else read * bits * outwards
        return ticks


def units_of(machine: DspMachine | NpuMachine | HierarchyMachine) -> tuple[str, ...]:
    """Return what does operations on a machine, of ``vector`` and ``host``."""
    given = {"vector": machine.vector_ops_per_cycle, "host": machine.host}
    return tuple(name for name, value in given.items() if value is not None)


def bits_of(machine: DspMachine | NpuMachine | HierarchyMachine) -> int:
    """Return the bits of a value between two layers."""
    return machine.bits.output if machine.kind == "hierarchy" else 8 * machine.element_bytes


def unit(machine: DspMachine | NpuMachine | HierarchyMachine, operation: Operation) -> Unit:
    """Return what does an operation on a machine."""
    if machine.kind == "dsp":
        return _Dsp(machine, operation)
    return _Npu(machine, operation) if machine.kind == "npu" else _Hierarchy(machine, operation)


def host_program(walk: Walk, time: int) -> Program:
    """Return the program of an operation that the host does, which takes that time and no memory on chip."""
    durations = np.array([time], dtype=np.int64)
    return Program(
        tensors=_tensors(walk, lambda _: {"memory": "host"}),
        memories=(Memory("host"),),
        engines=(Engine("bus"), Engine("host")),
        steps=LazySteps(2, lambda: steps(walk, "bus", "host", durations, NOTHING)),
    )


def _tensors(walk: Walk, where: Any) -> tuple[Tensor, ...]:
    given = (
        Tensor(name, shape, "kernels" if name == "parameters" else "input", **where(name))
        for name, shape in walk.operands.items()
    )
    return *given, Tensor(OUTPUT, walk.given, "output", macs_per_element=1, **where(OUTPUT))


def _rate(machine: Any) -> int:
    """Return the vector operations of a cycle."""
    return int(machine.vector_ops_per_cycle)


def _next(counts: Counts) -> Counts:
    """Return of each step what the next one has."""
    return np.append(counts[1:], 0)


def _last(counts: Counts) -> Counts:
    """Return of each step what the one before has."""
    return np.append([0], counts[:-1])

