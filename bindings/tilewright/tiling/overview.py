"""What a report tells of a solved tiling problem: time, traffic, energy and gap of each layer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilewright.core.overview import (
    Column,
    Front,
    GraphNode,
    LeftOut,
    Moved,
    Overview,
    Point,
    Roof,
    Span,
    Traffic,
    of_table,
)
from tilewright.core.room import Asked
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling import halving
from tilewright.tiling.evaluation import best_bound, objective
from tilewright.tiling.execution import execute_plan
from tilewright.tiling.hierarchy.cost import KINDS
from tilewright.tiling.measures import LayerMeasures, MovedBytes, MovedEnergy, TilingMeasures, duration
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import costs_of_front, table
from tilewright.tiling.tiles import every_layer

OPERANDS = {"kernels": "weights", "partial": "partial sums"}
"""What operands are called where their keys do not tell."""

SIMPLE_SECONDS = 20.0
"""How long a simple plan may take that the plan is compared with."""

DRAM = "DRAM"
"""The outermost memory of machines that do not name it."""


def overview(problem: Problem, plan: Plan, measures: TilingMeasures) -> Overview:
    """Return what there is to show of a plan, from what was measured of it."""
    if problem.minimise == "pareto":
        return _front(problem, measures)
    simple = _simple(problem)
    shown = _Shown(problem, measures, simple)
    costs, bounds = _costs(problem, plan)
    whole = sum(costs.values()) or 1
    alone = problem.network is None
    shares = {} if alone else {name: cost / whole for name, cost in costs.items()}
    told = of_table(table(problem, measures)) if alone else Overview()
    return Overview(
        what="memory and operand" if told.columns else "layer",
        columns=told.columns or list(shown.columns(shares)),
        lines=told.lines or [layer.line(shares) for layer in shown.layers],
        costs={} if alone else costs,
        bounds={} if alone else bounds,
        decisions=every_layer(problem, plan),
        left_out=_left_out(problem),
        roof=shown.roof,
        points=[
            layer.point(shares)
            for layer in shown.layers
            if layer.picoseconds and layer.outermost and layer.macs
        ],
        traffic=[each for layer in shown.layers for each in layer.traffic()],
        simple=None if simple is None else (halving.NAME, halving.ABOUT),
        memories=list(shown.memories()),
        spans=[] if alone else list(shown.spans()),
        graph=_graph(problem, shares),
        picture=alone,
    )


def _simple(problem: Problem) -> TilingMeasures | None:
    """Return what is measured of the simple plan, None where there is none or it takes its time."""
    plan = halving.halved(problem)
    if plan is None:
        return None
    until = time.monotonic() + SIMPLE_SECONDS
    try:
        report = execute_plan(halving.plain(problem), plan, Asked(overlapped=False, deadline=until))
    except OutOfTimeError:
        return None
    measures: TilingMeasures | None = report.measures
    return measures


def _front(problem: Problem, measures: TilingMeasures) -> Overview:
    told = of_table(table(problem, measures))
    across, up = problem.traded or ("cycles", "accesses")
    units = ((name, problem.objectives[name].unit) for name in (across, up))
    titles = [name if name == "cycles" else f"{name}, {unit}" for name, unit in units]
    return Overview(
        what="point",
        columns=told.columns,
        lines=told.lines,
        left_out=_left_out(problem),
        front=Front(titles[0], titles[1], costs_of_front(problem, measures)),
        graph=_graph(problem, {}),
    )


def _costs(problem: Problem, plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return the objective of each layer of a network, and the bound on it that needs no search."""
    costs: dict[str, int] = {}
    bounds: dict[str, int] = {}
    known: dict[int, int] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        costs[name] = objective(part, one)
        if id(part) not in known:
            known[id(part)] = best_bound(part).value
        bounds[name] = known[id(part)]
    return costs, bounds


class _Shown:
    """The layers of a report on their machine."""

    def __init__(
        self, problem: Problem, measures: TilingMeasures, simple: TilingMeasures | None = None
    ) -> None:
        self.problem, self.machine = problem, problem.machine
        compared = [] if simple is None else _Shown(problem, simple).layers
        self.simple = {layer.name: layer.outermost for layer in compared}
        parts = {name: part.layer or part.operation for name, part in problem.parts}
        measured: Mapping[str, LayerMeasures] = getattr(measures, "layers", {"": measures})
        self.layers: list[_Layer] = []
        for name, layer in measured.items():
            self.layers.append(_Layer(self, name, layer, parts.get(name)))

    @property
    def priced(self) -> bool:
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
        machine = self.machine
        if machine.kind == "npu":
            return machine.tles * machine.tlts * machine.macs_per_cycle / max(1, machine.cycle_ps) * 1e12
        most = machine.macs_per_cycle if machine.kind == "dsp" else machine.most_macs_per_cycle
        return most * machine.clock_mhz * 1e6

    @property
    def roof(self) -> Roof:
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

    def memories(self) -> Iterator[Moved]:
        """Yield what all layers together move at each memory, by operand."""
        moved: dict[tuple[str, str], list[float]] = {}
        for layer in self.layers:
            for name, amounts in layer.moved.items():
                for kind, amount in amounts.items():
                    entry = moved.setdefault((name, kind), [0.0, 0.0])
                    entry[0] += amount
                    entry[1] += layer.microjoules_at(name, kind)
        priced = self.machine.kind == "hierarchy" and self.machine.priced
        for (name, kind), (amount, energy) in moved.items():
            yield Moved(name, OPERANDS.get(kind, kind), amount, energy if priced else None)
        if priced:
            energy = sum(getattr(layer.measures, "mac_aj", 0) for layer in self.layers) / 1e12
            yield Moved("multipliers", "products and sums", 0.0, energy)
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


class _Layer:
    """A layer as it was executed, or another operation of the network: then some of it is not known."""

    def __init__(
        self, shown: _Shown, name: str, measures: LayerMeasures, layer: Layer | Operation | None
    ) -> None:
        self.shown, self.name, self.measures, self.layer = shown, name, measures, layer
        self.macs = measures.macs
        self.limited_by = measures.limited_by or ""

    @property
    def picoseconds(self) -> float:
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
            for operand, elements in amounts.items():
                kind = {"kernels": "weights"}.get(operand, operand)
                if kind in self.shown.bits:
                    found[kind] = found.get(kind, 0) + elements * self.shown.bits[kind] / 8
        return {self.shown.names[0]: found}

    @property
    def outermost(self) -> dict[str, float]:
        return self.moved.get(self.shown.names[0], {})

    @property
    def simple(self) -> dict[str, float]:
        """Bytes from and to the outermost memory with the simple plan, by operand."""
        found: dict[str, float] = self.shown.simple.get(self.name, {})
        return found

    @cached_property
    def least(self) -> dict[str, float]:
        """Bytes from and to the outermost memory at least, by operand."""
        return {} if self.layer is None else least_bytes(self.layer, self.shown.bits)

    @property
    def microjoules(self) -> float | None:
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


def _left_out(problem: Problem) -> list[LeftOut]:
    """Return the operations of a network whose cost is not counted."""
    bits = bits_of(problem.machine)
    return [
        LeftOut(each.name, each.kind, each.macs, -(-each.elements * bits // 8)) for each in problem.unmodelled
    ]


def _graph(problem: Problem, shares: Mapping[str, float]) -> list[GraphNode]:
    if problem.network is None:
        return []
    network = problem.network
    return [
        GraphNode(layer.name, layer.kind, reads, shares.get(layer.name))
        for layer, reads in zip(network.layers, network.producers, strict=True)
    ]
