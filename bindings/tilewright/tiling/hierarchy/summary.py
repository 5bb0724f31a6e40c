"""What people are shown of a plan on a hierarchy: its loops and memories, and a table of what moves."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tilewright.core.quantities import column, written
from tilewright.core.room import Rows
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import KINDS
from tilewright.tiling.hierarchy.level import Level
from tilewright.tiling.hierarchy.machine import HierarchyMachine, Node
from tilewright.tiling.measures import HierarchyLayer

NAMES = {"partial": "partial sums"}
"""What kinds of elements are called where their name does not tell."""


def rows(machine: HierarchyMachine, measures: HierarchyLayer) -> Rows:
    """Return the loops of each node, how full the memories are, and what takes the time and the energy."""
    shown = []
    kept: Mapping[str, Any] = measures.kept or {}
    machine = machine.keeping(tuple((name, tuple(held)) for name, held in kept.items()))
    for node, own in zip(machine.nodes, measures.nest, strict=True):
        loops = ", ".join(f"{name} {trips}" for name, trips in own.loops.items()) or "-"
        shown.append((node.name, "; ".join([loops, *_space(machine, node, own.loops, measures)])))
    if kept:
        choices = [f"{name} holds {', '.join(held) or 'nothing'}" for name, held in kept.items()]
        shown.append(("chosen", "; ".join(choices)))
    cycles = measures.duration_cycles
    busy = f"PEs are busy for {100 * measures.utilisation:.1f} % of them"
    shown.append(("PEs", pes(machine, measures)))
    shown.append(("duration", f"{cycles:,} cycles, {busy}"))
    idle = None
    if measures.filling_cycles is not None and measures.draining_cycles is not None:
        idle = measures.filling_cycles, measures.draining_cycles
    shown += left_out(cycles, measures.filled_cycles or cycles, idle)
    shown.append(("limited by", measures.limited_by + "; " + ", ".join(_times(measures))))
    if machine.priced:
        shown.append(("energy", written(measures.energy_aj, "aJ")))
    return shown


def pes(machine: HierarchyMachine, measures: HierarchyLayer) -> str:
    """Tell how many of the PEs, instances of all axes together, a plan uses."""
    axes = {node.name: node.axis.size for node in machine.nodes if node.axis is not None}
    used = prod(prod(own.loops.values()) for own in measures.nest if own.node in axes)
    return f"{used:,} of {prod(axes.values()):,}"


def left_out(cycles: int, filled: int, idle: tuple[float, float] | None = None) -> Rows:
    """Say what the cycles leave out, where that is told and is any.

    Parameters
    ----------
    filled
        The least that a plan takes with it.
    idle
        Of a layer: cycles of filling and of draining.
    """
    if filled <= cycles:
        return []
    parts = "filling and draining"
    if idle is not None:
        parts = f"{idle[0]:,.0f} cycles of filling and {idle[1]:,.0f} cycles of draining"
    more = f"{100 * (filled / cycles - 1):.1f} % more"
    return [("left out", f"{parts}; with them at least {filled:,} cycles, {more}")]


def _space(
    machine: HierarchyMachine, node: Node, loops: Mapping[str, int], measures: HierarchyLayer
) -> list[str]:
    """Say how much of a memory or of an axis is used; nothing of what has no limit."""
    if node.axis is not None:
        return [f"{prod(loops.values())} of {node.axis.size} instances"]
    level = machine.levels[node.level]
    if level.capacity_bytes is None:
        return []
    held = measures.held_bytes[level.name]
    if isinstance(level.capacity_bytes, int):
        own = f"{held[node.holds[0]]:,} bytes, in all " if len(node.holds) < len(held) else ""
        return [f"{own}{sum(held.values()):,} of {level.capacity_bytes:,} bytes"]
    parts = [f"{name} {held[name]:,} of {capacity(level, name):,}" for name in node.holds]
    return [", ".join(parts) + " bytes"]


def capacity(level: Level, operand: str) -> int:
    """Return the bytes that a memory has for an operand alone."""
    return int(getattr(level.capacity_bytes, operand))


def _times(measures: HierarchyLayer) -> list[str]:
    """Say for which share of the time multipliers and ports work, and what is waited for."""

    def share(cycles: float) -> str:
        return f"{100 * cycles / measures.duration_cycles:.0f} %"

    return [
        f"multiplying {share(measures.multiplying_cycles)}",
        *(f"waiting for {name} {share(cycles)}" for name, cycles in measures.waiting_cycles.items()),
        *(f"port of {name} {share(cycles)}" for name, cycles in measures.port_cycles.items()),
    ]


def table(layer: Layer, machine: HierarchyMachine, measures: HierarchyLayer) -> list[tuple[str, ...]]:
    """Return a header and a line for each operand of each memory: bytes, and energy where it is priced."""
    lines: list[tuple[str, ...]] = []
    energies: list[int] = []
    for name, moved in measures.levels_bytes.items():
        held, energy = measures.held_bytes.get(name, {}), (measures.levels_aj or {}).get(name)
        first = name
        for kind in KINDS:
            amounts = [way.get(kind, 0) for way in (moved.read, moved.written)]
            if not any(amounts) and kind not in held:
                continue
            ways = () if energy is None else (energy.read, energy.written)
            space = f"{held[kind]:,}" if kind in held else ""
            lines.append((first, NAMES.get(kind, kind), space, *(f"{each:,}" for each in amounts)))
            energies.append(sum(way.get(kind, 0) for way in ways))
            first = ""
    header: tuple[str, ...] = ("level", "operand", "held bytes", "read bytes", "written bytes")
    if not machine.priced:
        return [header, *lines]
    lines.append(("multipliers", f"{layer.macs:,} MACs", "", "", ""))
    unit, cells = column([*energies, measures.mac_aj or 0], "aJ")
    return [(*header, unit), *((*line, cell) for line, cell in zip(lines, cells, strict=True))]
