"""Operations on a hierarchy: a vector unit works on one of the memories; those outside pass its tiles on."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Report
from tilewright.tiling.hierarchy.cost import (
    TICKS,
    attojoules,
    prices,
    shown,
    ticks_per_bit,
    transfer_ticks,
)
from tilewright.tiling.hierarchy.level import Level, OperandBytes
from tilewright.tiling.hierarchy.loops import Operand
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.measures import whole
from tilewright.tiling.measures import MovedBytes, MovedEnergy
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import MoveWalk
from tilewright.tiling.operations.scan import ScanWalk
from tilewright.tiling.operations.scan_steps import elements_read
from tilewright.tiling.operations.steps import Timing
from tilewright.tiling.operations.units import Costs, Unit, host_program, on_host, rate, steps_of, tensors
from tilewright.tiling.operations.walk import OUTPUT, Sums
from tilewright.tiling.operations.walks import AnyWalk


class HierarchyUnit(Unit):
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
        """Say what does not fit of a tile, or None."""
        given = self.own.capacity_bytes
        if given is None:
            return None
        needed = self._needed(buffers)
        copies, told = self.own.copies, " twice" * self.own.double_buffering
        if isinstance(given, OperandBytes):
            for operand, bits in needed.items():
                if copies * bits > 8 * (most := getattr(given, operand)):
                    what = f"{operand} of {bits} bits{told}, {self.own.name} holds {most} bytes"
                    return f"memory overflow: a tile needs {what}"
        elif (total := copies * sum(needed.values())) > 8 * given:
            return f"memory overflow: a tile needs {total} bits, {self.own.name} holds {given} bytes"
        return None

    def _needed(self, buffers: dict[str, int]) -> dict[str, int]:
        """Return the bits of one copy of a tile, by operand."""
        given = sum(buffers.values()) - buffers[OUTPUT]
        return {"output": buffers[OUTPUT] * self.bits["output"], "input": given * self.bits["input"]}

    def fullness(self, buffers: dict[str, int]) -> tuple[str, str]:
        """Return the memory that the unit works on, and how full it is."""
        capacity, copies = self.own.capacity_bytes, self.own.copies
        if capacity is None:
            return self.own.name, ""
        needed = {name: copies * bits for name, bits in self._needed(buffers).items()}
        if isinstance(capacity, OperandBytes):
            shares = {name: 12.5 * bits / getattr(capacity, name) for name, bits in needed.items()}
            return self.own.name, ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())
        return self.own.name, f"{12.5 * sum(needed.values()) / capacity:.0f} %"

    def program(self, walk: AnyWalk) -> Program:
        """Return what is executed."""
        if self.host:
            return host_program(walk, self._host_cycles)
        moved = tensors(walk, lambda name: {"memory": OUTPUT if name == OUTPUT else "input"})
        # Capacities are in bits, which `overflow` looks at; in elements they are what it has let pass.
        return Program(
            tensors=moved,
            memories=(Memory("input", self._room(walk, "input")), Memory(OUTPUT, self._room(walk, OUTPUT))),
            engines=(Engine("port"), Engine("vector")),
            steps=steps_of(walk, Timing("port", "vector", np.zeros(len(walk.weights), dtype=np.int64))),
        )

    def _room(self, walk: AnyWalk, operand: str) -> int | None:
        """Return the elements that a tile may reserve of the memory, None without a limit."""
        if self.own.capacity_bytes is None:
            return None
        buffers = walk.buffers
        return buffers[OUTPUT] if operand == OUTPUT else sum(buffers.values()) - buffers[OUTPUT]

    def costs(self, walk: AnyWalk, level: str) -> Costs:
        """Return what a plan costs by the closed form."""
        return self._priced(walk.sums, level)

    def measured(self, walk: AnyWalk, report: Report, level: str) -> Costs:
        """Return what an executed plan costs."""
        return self._priced(self._executed(walk, report), level)

    def breakdown(self, walk: AnyWalk, report: Report) -> dict[str, Any]:
        """Return what each level reads and writes of each operand, in bytes and attojoules."""
        moved = self._moved(self._executed(walk, report))
        levels = {level.name: level for level in self.machine.levels if not level.fanout}
        sizes: dict[str, MovedBytes] = {}
        energies: dict[str, MovedEnergy] = {}
        for name, level in levels.items():
            bits = [
                {each: counts[way] * self.bits[each] for each, counts in moved[name].items() if counts[way]}
                for way in (0, 1)
            ]
            read, written = ({each: whole(size) for each, size in table.items()} for table in bits)
            sizes[name] = MovedBytes(read=read, written=written)
            paid = [
                {each: size * price for each, size in table.items()}
                for table, price in zip(bits, prices(level), strict=True)
            ]
            energies[name] = MovedEnergy(read=paid[0], written=paid[1])
        if not self.machine.priced:
            return {"levels_bytes": sizes}
        return {"levels_bytes": sizes, "levels_aj": energies, "vector_aj": self._work_energy}

    def _executed(self, walk: AnyWalk, report: Report) -> Sums:
        """Return the elements that an executed plan loads, works on tile by tile, writes and keeps."""
        loaded, written, made = (
            sum(report.total(counts) for counts in rows.values())
            for rows in (report.loaded, report.written, report.computed)
        )
        if isinstance(walk, ScanWalk):
            return Sums(loaded, elements_read(walk), written, made - written)
        assert not isinstance(walk, MoveWalk)  # accesses count, whatever their order
        held = sum(
            box.size(walk.operands[name]) for boxes, _, _ in walk.tiles() for name, box in boxes.items()
        )
        return Sums(loaded, held, written, made - written)

    @property
    def _work_energy(self) -> int:
        """Attojoules of all operations; those of the host have no price."""
        price = self.machine.mac_pj if self.machine.vector_op_pj is None else self.machine.vector_op_pj
        return 0 if self.host else self.operation.work * attojoules(price, 1)

    def limited_by(self, walk: AnyWalk, costs: Costs) -> str:
        """Name what the time is spent on, most of all."""
        if self.host:
            return "host"
        return "vector unit" if costs["cycles"] <= -(-self.operation.work // rate(self.machine)) else "ports"

    @property
    def _host_cycles(self) -> int:
        operation, bits = self.operation, self.bits
        read = operation.batch * sum(map(prod, operation.inputs)) + operation.parameters
        written = operation.batch * prod(operation.output)
        return on_host(self.machine, -(-(read * bits["input"] + written * bits["output"]) // 8))

    def _moved(self, sums: Sums) -> dict[str, dict[str, tuple[int, int]]]:
        """Return the elements of each operand that each level reads and writes; what is kept is input."""
        loaded, held, stored, kept = sums
        found: dict[str, dict[str, tuple[int, int]]] = {level.name: {} for level in self.machine.levels}
        inputs, outputs = self.paths["input"], self.paths["output"]
        for place, level in enumerate(inputs):
            last = place == len(inputs) - 1
            # What the unit works on in the outermost memory itself is not moved anywhere before.
            found[level.name]["input"] = (
                held if last and place else loaded,
                loaded + last * kept if place else 0,
            )
        for place, level in enumerate(outputs):
            found[level.name]["output"] = (stored if place else 0, stored)
        return found

    def _priced(self, sums: Sums, level: str) -> Costs:
        machine, moved = self.machine, self._moved(sums)
        outermost = moved[machine.levels[0].name]
        levels = {each.name: each for each in machine.levels if not each.fanout}
        energy = self._work_energy
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
            "traffic": sum(self.bits[operand] * sum(both) for operand, both in outermost.items()),
            "accesses": sum(map(sum, moved[level].values())),
            "cycles": cycles,
            "energy": energy,
            "edp": shown("edp", energy * cycles),
        }

    def _working(self, moved: dict[str, dict[str, tuple[int, int]]]) -> int:
        """Return the ticks of the unit, and of the transfers that it waits for."""
        ticks = -(-self.operation.work // rate(self.machine)) * TICKS
        for operand, path in self.paths.items():
            for parent, child in pairwise(path):
                if not child.double_buffering:
                    inwards, outwards = transfer_ticks(parent, child)
                    read, written = moved[child.name][operand]
                    bits = self.bits[operand]
                    ticks += written * bits * inwards if operand == "input" else read * bits * outwards
        return ticks
