"""What people are shown of a plan on a hierarchy: its loops and memories, and a table of what moves."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tilewright.core.room import Rows
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import KINDS
from tilewright.tiling.hierarchy.machine import HierarchyMachine, Level, Node

NAMES = {"partial": "partial sums"}
"""What kinds of elements are called where their name does not tell."""

IDLE = ("filling_cycles", "draining_cycles")
"""What the cycles leave out."""


def rows(machine: HierarchyMachine, facts: Mapping[str, Any]) -> Rows:
    """Return the loops of each node, how full the memories are, and what takes the time and the energy."""
    shown = []
    kept = facts.get("kept", {})
    machine = machine.keeping(tuple((name, tuple(held)) for name, held in kept.items()))
    for node, told in zip(machine.nodes, facts["nest"], strict=True):
        loops = ", ".join(f"{name} {trips}" for name, trips in told["loops"].items()) or "-"
        shown.append((node.name, "; ".join([loops, *_space(machine, node, told["loops"], facts)])))
    if kept:
        choices = [f"{name} holds {', '.join(held) or 'nothing'}" for name, held in kept.items()]
        shown.append(("chosen", "; ".join(choices)))
    cycles = facts["cycles"]
    shown.append(
        ("duration", f"{cycles:,} cycles, PEs are busy for {100 * facts['utilisation']:.1f} % of them")
    )
    shown += left_out(cycles, facts.get("filled_cycles", cycles), facts)
    shown.append(("limited by", facts["limited_by"] + "; " + ", ".join(_times(facts))))
    if machine.priced:
        shown.append(("energy", f"{facts['energy'] / 1e12:,.3f} uJ"))
    return shown


def left_out(cycles: int, filled: int, facts: Mapping[str, Any] | None = None) -> Rows:
    """Say what the cycles leave out, where that is told and is any.

    Parameters
    ----------
    filled
        The least that a plan takes with it.
    facts
        Of a layer.
    """
    if filled <= cycles:
        return []
    parts = "filling and draining"
    if facts is not None:
        amounts = (f"{facts[name]:,.0f} cycles of {name.partition('_')[0]}" for name in IDLE)
        parts = " and ".join(amounts)
    more = f"{100 * (filled / cycles - 1):.1f} % more"
    return [("left out", f"{parts}; with them at least {filled:,} cycles, {more}")]


def _space(
    machine: HierarchyMachine, node: Node, loops: Mapping[str, int], facts: Mapping[str, Any]
) -> list[str]:
    """Say how much of a memory or of an axis is used; nothing of what has no limit."""
    if node.axis is not None:
        return [f"{prod(loops.values())} of {node.axis.size} instances"]
    level = machine.levels[node.level]
    if level.capacity_bytes is None:
        return []
    held = facts["held_bytes"][level.name]
    if isinstance(level.capacity_bytes, int):
        own = f"{held[node.holds[0]]:,} bytes, in all " if len(node.holds) < len(held) else ""
        return [f"{own}{sum(held.values()):,} of {level.capacity_bytes:,} bytes"]
    parts = [f"{name} {held[name]:,} of {capacity(level, name):,}" for name in node.holds]
    return [", ".join(parts) + " bytes"]


def capacity(level: Level, operand: str) -> int:
    """Return the bytes that a memory has for an operand alone."""
    return int(getattr(level.capacity_bytes, operand))


def _times(facts: Mapping[str, Any]) -> list[str]:
    """Say for which share of the time multipliers and ports work, and what is waited for."""

    def share(cycles: float) -> str:
        return f"{100 * cycles / facts['cycles']:.0f} %"

    return [
        f"multiplying {share(facts['multiplying_cycles'])}",
        *(f"waiting for {name} {share(cycles)}" for name, cycles in facts["waiting_cycles"].items()),
        *(f"port of {name} {share(cycles)}" for name, cycles in facts["port_cycles"].items()),
    ]


def table(layer: Layer, machine: HierarchyMachine, facts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and a line for each operand of each memory: bytes, and energy where it is priced."""
    columns = 5 + machine.priced
    lines = [("level", "operand", "held bytes", "read bytes", "written bytes", "uJ")]
    for name, moved in facts["levels_bytes"].items():
        held, energy = facts["held_bytes"].get(name, {}), facts.get("levels_energy", {}).get(name, {})
        first = name
        for kind in KINDS:
            amounts = [moved[way].get(kind, 0) for way in ("read", "written")]
            if not any(amounts) and kind not in held:
                continue
            cost = sum(each.get(kind, 0) for each in energy.values())
            space = f"{held[kind]:,}" if kind in held else ""
            cells = (
                first,
                NAMES.get(kind, kind),
                space,
                *(f"{each:,}" for each in amounts),
                _microjoules(cost),
            )
            lines.append(cells)
            first = ""
    if machine.priced:
        lines.append(("multipliers", f"{layer.macs:,} MACs", "", "", "", _microjoules(facts["mac_energy"])))
    return [line[:columns] for line in lines]


def _microjoules(attojoules: int) -> str:
    return f"{attojoules / 1e12:,.3f}"
