"""What a plan moves and spends, part by part: the amounts that sheets and the report draw alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilewright.core.overview import Column, Front, Moved, Point, Roof, Span, Traffic
from tilewright.spec.layer import Layer
from tilewright.tiling import halving
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.hierarchy.cost import KINDS
from tilewright.tiling.measures import LayerMeasures, MovedBytes, MovedEnergy, TilingMeasures, duration
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import costs_of_front

OPERANDS = {"kernels": "weights", "partial": "partial sums"}
"""What operands are called where their keys do not tell."""

UNITS = {
    "accesses": (1.0, "elements"),
    "cycles": (1.0, "cycles"),
    "energy": (1e-9, "µJ"),
    "time": (1e-6, "µs"),
    "edp": (1.0, "nJ cycles"),
}
"""What objectives are shown in."""

DRAM = "DRAM"
"""The outermost memory of machines that do not name it."""


def scale_of(problem: Problem, name: str) -> tuple[float, str]:
    """Return what a cost is multiplied by to be shown, and in what unit that is."""
    unit = problem.objectives[name].unit
    scale, shown = UNITS.get(name, (1.0, unit))
    if name == "accesses":
        shown = unit
    return (scale / 1000 if unit == "aJ" else scale), shown


def front_of(problem: Problem, measures: TilingMeasures) -> Front:
    """Return what the plans of a front trade for each other, in units that are read easily."""
    assert problem.traded is not None
    (first, across), (second, up) = (scale_of(problem, name) for name in problem.traded)
    points = [(first * x, second * y) for x, y in costs_of_front(problem, measures)]
    across, up = (
        name if name == unit else f"{name}, {unit}"
        for name, unit in zip(problem.traded, (across, up), strict=True)
    )
    return Front(across, up, points)


class ExecutedParts:
    """The layers and operations of a plan on their machine, as they were executed.

    Parameters
    ----------
    measures
        What was measured of each part, by its name; a layer alone has the name "".
    simple
        The same of a simple plan that this one is compared with.
    """

    def __init__(
        self,
        problem: Problem,
        measures: Mapping[str, LayerMeasures],
        simple: Mapping[str, LayerMeasures] | None = None,
    ) -> None:
        self.problem, self.machine = problem, problem.machine
        compared = ExecutedParts(problem, simple).layers if simple else []
        self.simple = {layer.name: layer.outermost for layer in compared}
        parts = {name: part.layer or part.operation for name, part in problem.parts}
        self.layers: list[ExecutedPart] = [
            ExecutedPart(self, name, one, parts.get(name)) for name, one in measures.items()
        ]

    @property
    def priced(self) -> bool:
        """Whether the machine's energy is known."""
        machine = self.machine
        return machine.kind == "dsp" or (machine.kind == "hierarchy" and machine.priced)

    @cached_property
    def bits(self) -> dict[str, int]:
        """The width of an element of each operand."""
        machine = self.machine
        bits = machine.bits if machine.kind == "hierarchy" else machine.operand_bits
        return {kind: int(getattr(bits, kind)) for kind in KINDS}

    @property
    def names(self) -> list[str]:
        """The memories, the outermost first."""
        if self.machine.kind != "hierarchy":
            return [DRAM]
        return [level.name for level in self.machine.levels if not level.fanout]

    @property
    def macs_per_second(self) -> float:
        """What all multipliers do at most."""
        machine = self.machine
        if machine.kind == "npu":
            return machine.tles * machine.tlts * machine.macs_per_cycle / max(1, machine.cycle_ps) * 1e12
        most = machine.macs_per_cycle if machine.kind == "dsp" else machine.most_macs_per_cycle
        return most * machine.clock_mhz * 1e6

    @property
    def roof(self) -> Roof:
        """What the machine does at most."""
        machine = self.machine
        rate: float | None
        if machine.kind == "npu":
            rate = 1000 / machine.byte_ps if machine.byte_ps else None
        elif machine.kind == "dsp":
            rate = machine.bus_elements_per_cycle * machine.element_bytes * machine.clock_mhz / 1000
        else:
            first = machine.levels[0]
            ports = [first.read_bytes_per_cycle, first.write_bytes_per_cycle]
            both = sum(port for port in ports if port is not None) if None not in ports else None
            most = first.bytes_per_cycle or both
            rate = None if most is None else most * machine.clock_mhz / 1000
        return Roof(2 * self.macs_per_second / 1e9, self.names[0], rate)

    def columns(self, shares: Mapping[str, float]) -> Iterator[Column]:
        """Yield the columns of the table of layers: what no layer has is left out."""
        layers, first, *inner = self.layers, *self.names
        yield Column("name", "layer")
        yield Column("macs", "million MACs", "number", summed=True)
        if self.machine.kind == "npu":
            yield Column("microseconds", "time, µs", "number", summed=True)
        else:
            yield Column("cycles", "cycles", "count", summed=True)
        if shares:
            yield Column("share", "share", "share", summed=True)
        yield Column("utilisation", "multipliers in use", "share")
        if any(layer.limited_by for layer in layers):
            yield Column("limited_by", "limited by")
        for kind in KINDS:
            if any(layer.outermost.get(kind) for layer in layers):
                yield Column(kind, OPERANDS.get(kind, kind), "number", f"kB from and to {first}", summed=True)
        yield Column("outermost", "all", "number", f"kB from and to {first}", summed=True)
        if self.simple:
            yield Column("simple", halving.NAME, "number", f"kB from and to {first}", summed=True)
        yield Column("least", "least", "number", f"kB from and to {first}", summed=True)
        for name in inner:
            yield Column(f"at {name}", name, "number", "kB read and written in", summed=True)
        if self.priced:
            yield Column("microjoules", "energy, µJ", "number", summed=True)

    @property
    def traffic(self) -> list[Traffic]:
        """What all parts move from and to the outermost memory."""
        return [each for layer in self.layers for each in layer.traffic()]

    def memories(self) -> Iterator[Moved]:
        """Yield what all layers together move at each memory, by operand."""
        moved: dict[tuple[str, str], list[float]] = {}
        for layer in self.layers:
            for name, amounts in layer.moved.items():
                for kind, amount in (amounts or {KINDS[0]: 0.0}).items():  # a memory that is not used, too
                    entry = moved.setdefault((name, kind), [0.0, 0.0])
                    entry[0] += amount
                    entry[1] += layer.microjoules_at(name, kind)
        priced = self.machine.kind == "hierarchy" and self.machine.priced
        for (name, kind), (amount, energy) in moved.items():
            yield Moved(name, OPERANDS.get(kind, kind), amount, energy if priced else None)
        if priced:
            energy = sum((getattr(layer.measures, "mac_aj", None) or 0) for layer in self.layers) / 1e12
            yield Moved("multipliers", "MACs", 0.0, energy)
            vector = sum(getattr(layer.measures, "vector_aj", 0) for layer in self.layers) / 1e12
            if vector:
                yield Moved("vector unit", "operations", 0.0, vector)

    def spans(self) -> Iterator[Span]:
        """Yield the layers, one after the other."""
        start = 0.0
        for layer in self.layers:
            end = start + layer.picoseconds / 1e9
            yield Span(layer.name, start, end, layer.utilisation, layer.limited_by)
            start = end


class ExecutedPart:
    """A layer as it was executed, or another operation of the network: then some of it is not known."""

    def __init__(
        self, shown: ExecutedParts, name: str, measures: LayerMeasures, layer: Layer | Operation | None
    ) -> None:
        self.shown, self.name, self.measures, self.layer = shown, name, measures, layer
        self.macs = measures.macs
        self.limited_by = measures.limited_by or ""

    @property
    def picoseconds(self) -> float:
        """What the part takes."""
        machine, time = self.shown.machine, duration(self.measures)
        return float(time) if machine.kind == "npu" else time * 1e6 / machine.clock_mhz

    @property
    def utilisation(self) -> float:
        """Return which share of the multipliers works, on average."""
        most = self.shown.macs_per_second * self.picoseconds / 1e12
        return self.macs / most if most else 0.0

    @cached_property
    def moved(self) -> dict[str, dict[str, float]]:
        """Bytes that are read and written, by memory and operand."""
        measures = self.measures
        levels = getattr(measures, "levels_bytes", None)
        if levels is not None:
            return {name: _both(moved) for name, moved in levels.items()}
        in_bits = getattr(measures, "moved_bits", None)
        if in_bits is not None:
            return {DRAM: {kind: bits / 8 for kind, bits in in_bits.items()}}
        found: dict[str, float] = {}
        for amounts in (measures.loaded_elements, measures.written_elements):
            for tensor, elements in amounts.items():
                kind = operand_of(tensor)
                found[kind] = found.get(kind, 0) + elements * self.shown.bits[kind] / 8
        return {self.shown.names[0]: found}

    @property
    def outermost(self) -> dict[str, float]:
        """Bytes from and to the outermost memory, by operand."""
        return self.moved.get(self.shown.names[0], {})

    @property
    def simple(self) -> dict[str, float]:
        """Bytes from and to the outermost memory with the simple plan, by operand."""
        found: dict[str, float] = self.shown.simple.get(self.name, {})
        return found

    @cached_property
    def least(self) -> dict[str, float]:
        """Bytes from and to the outermost memory at least, by operand."""
        if self.layer is None:
            return {}
        if isinstance(self.layer, Layer) and self.shown.machine.kind == "dsp":  # which may load padding, too
            needed = nest_of(self.layer, self.shown.machine).needed
            return {kind: elements * self.shown.bits[kind] / 8 for kind, elements in needed.items()}
        return least_bytes(self.layer, self.shown.bits)

    @property
    def microjoules(self) -> float | None:
        """What the part spends, None where it is not known."""
        for name, per_microjoule in (("energy_fj", 1e9), ("energy_aj", 1e12)):
            energy = getattr(self.measures, name, None)
            if energy is not None:
                return float(energy) / per_microjoule
        return None

    def microjoules_at(self, memory: str, kind: str) -> float:
        """Return the energy of what a memory reads and writes of an operand."""
        moved = (getattr(self.measures, "levels_aj", None) or {}).get(memory)
        return 0.0 if moved is None else float(_both(moved).get(kind, 0)) / 1e12

    def line(self, shares: Mapping[str, float]) -> dict[str, Any]:
        """Return the layer's line of the table."""
        inner = {f"at {name}": sum(amounts.values()) / 1000 for name, amounts in self.moved.items()}
        return {
            "name": self.name or "layer",
            "macs": self.macs / 1e6,
            "cycles": getattr(self.measures, "duration_cycles", None),
            "microseconds": self.picoseconds / 1e6,
            "share": shares.get(self.name),
            "utilisation": self.utilisation,
            "limited_by": self.limited_by,
            **{kind: self.outermost.get(kind, 0) / 1000 for kind in KINDS},
            "outermost": sum(self.outermost.values()) / 1000,
            "simple": sum(self.simple.values()) / 1000,
            "least": sum(self.least.values()) / 1000,
            "microjoules": self.microjoules,
            **inner,
        }

    def point(self, shares: Mapping[str, float]) -> Point:
        """Return where the layer lies below the roof."""
        operations = 2 * self.macs
        return Point(
            self.name or "layer",
            operations / sum(self.outermost.values()),
            operations / self.picoseconds * 1000,
            shares.get(self.name, 0.0),
            self.limited_by,
        )

    def traffic(self) -> Iterator[Traffic]:
        """Yield what is moved from and to the outermost memory, beside the least that any plan moves."""
        for kind in KINDS:
            amounts = [table.get(kind) for table in (self.outermost, self.least, self.simple)]
            if any(amount is not None for amount in amounts):
                moved, least, simple = (amount or 0.0 for amount in amounts)
                told = OPERANDS.get(kind, kind)
                yield Traffic(self.name or "layer", told, moved, least, simple if self.simple else None)


def operand_of(tensor: str) -> str:
    """Return what a tensor is a part of: ``input 2`` of an addition, ``kernels TLE0`` of a core.

    What an operation between layers reads is its input, parameters among it, as in `least_bytes`.
    """
    name = tensor.split()[0]
    return {"kernels": "weights", "parameters": "input"}.get(name, name)


def least_bytes(layer: Layer | Operation, bits: Mapping[str, int]) -> dict[str, float]:
    """Return the bytes of what a layer needs and gives, each element once: no plan moves less.

    Rows and columns of the input that lie between the windows of a large stride, and zeros around it, do
    not count.
    """
    if isinstance(layer, Operation):
        moved = {"input": layer.least_read, "output": layer.batch * prod(layer.output)}
        return {kind: count * bits[kind] / 8 for kind, count in moved.items()}
    images, channels, *plane = layer.input_shape
    before = layer.padding[0], layer.padding[2]
    touched = 1
    for axis in (0, 1):
        positions = np.unique(layer.positions(bool(axis))) - before[axis]
        touched *= int(((positions >= 0) & (positions < plane[axis])).sum())
    elements = {
        "input": images * channels * touched,
        "weights": prod(layer.kernels_shape),
        "output": prod(layer.output_shape),
    }
    return {kind: count * bits[kind] / 8 for kind, count in elements.items()}


def _both(moved: MovedBytes | MovedEnergy) -> dict[str, float]:
    """Return the sum of what is read and written, by operand."""
    found: dict[str, float] = {}
    for amounts in (moved.read, moved.written):
        for kind, amount in amounts.items():
            found[kind] = found.get(kind, 0) + amount
    return found
