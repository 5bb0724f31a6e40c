"""What people are shown of a solved fusion problem: rows of totals and a line per group."""

from __future__ import annotations

from typing import Any

from tilewright.fusion.problem import Problem
from tilewright.plotting import shortened

Rows = list[tuple[str, str]]

LONGEST = 36
"""Most characters of a name."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    facts, machine = report["facts"], problem.machine
    shown = [
        ("time", f"{facts['milliseconds']:.3f} ms, {facts['gops']:,.1f} GOPs/s"),
        ("groups", _counted(facts)),
        (
            "DRAM",
            f"{facts['traffic'] / 1e6:,.2f} MB, {facts['loaded_bytes'] / 1e6:,.2f} loaded and "
            f"{facts['saved_bytes'] / 1e6:,.2f} saved; {facts['ctc']:,.1f} operations per byte",
        ),
        ("buffers", f"{facts['memory']:,} of {machine.buffer_bytes:,} bytes in the largest group"),
    ]
    if facts["energy"] or problem.minimise == "energy":
        free = machine.energy.unpriced
        told = f"; without a price, not counted: {', '.join(free)}" if free else ""
        shown.append(("energy", f"{facts['energy'] / 1e6:,.2f} mJ{told}"))
    if problem.orders is not None:
        shown.append(("orders", problem.orders))
    if facts["on_host"]:
        names = facts["on_host"]
        told = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        cycles = facts["host_cycles"]
        counted = "not counted" if cycles is None else f"{cycles:,} cycles of the total"
        work = f"{facts['host_bytes'] / 1e6:,.2f} MB, {facts['host_macs']:,} MACs"
        shown.append(("host", f"{len(names)} operations, {counted}: {work}; {told}"))
    return shown


def _counted(facts: dict[str, Any]) -> str:
    """Say how many groups there are, and how many of them are single operations."""
    groups, operations = facts["groups"], facts["operations"] - len(facts["on_host"])
    alone = sum(len(group["nodes"]) == 1 for group in groups)
    parts = [f"{len(groups) - alone} fused"] if alone < len(groups) else []
    parts += [f"{alone} alone"] if alone else []
    return f"{len(groups)} of {operations} operations: {', '.join(parts)}"


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and a line per operation, the first of each group with what the group costs."""
    header = (
        "group",
        "operation",
        "tile",
        "halo",
        "outer loop",
        "parameters",
        "cycles",
        "loaded",
        "saved",
        "buffers",
    )
    lines: list[tuple[str, ...]] = [header]
    for number, group in enumerate(report["facts"]["groups"], 1):
        tile = group["tile"]
        costs = ("cycles", "loaded_bytes", "saved_bytes", "memory")
        first = (tile["halo"], tile["order"], tile["parameters"], *(f"{group[key]:,}" for key in costs))
        for place, node in enumerate(group["nodes"]):
            size = " x ".join(map(str, group["tiles"][place]))
            rest = ("",) * len(first) if place else first
            lines.append(("" if place else str(number), shortened(node, LONGEST), size, *rest))
    return lines
