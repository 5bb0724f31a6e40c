"""What people are shown of a solved fusion problem: rows of totals and a line per group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.core.narrowing import Narrowing
from tilewright.core.overview import Cell, Overview, of_table
from tilewright.core.quantities import written
from tilewright.core.room import Rows
from tilewright.fusion.measures import FusionMeasures
from tilewright.fusion.problem import Problem
from tilewright.plotting import shortened

LONGEST = 36
"""Most characters of a name."""


ABOUT = (
    "Operations of one group run as one, tile by tile: what one gives the next stays on chip. What a group "
    "costs stands in the line of its first operation: cycles, bytes loaded and saved, and of on-chip buffers."
)


NARROWING = Narrowing(last=("parameters", "halo", "outer loop", "buffers", "saved"))
"""What becomes of the table where columns are few."""


def rows(problem: Problem, measures: FusionMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    machine = problem.machine
    megabytes = [
        f"{amount / 1e6:,.2f}"
        for amount in (measures.traffic_bytes, measures.loaded_bytes, measures.saved_bytes)
    ]
    moved = f"{megabytes[0]} MB, {megabytes[1]} loaded and {megabytes[2]} saved"
    shown = [
        (
            "time",
            f"{written(round(1e9 * measures.duration_ms), 'ps')}, {measures.gops_per_second:,.1f} GOPs/s",
        ),
        ("groups", _counted(measures)),
        ("DRAM", f"{moved}; {measures.ops_per_byte:,.1f} operations per byte"),
        ("buffers", f"{measures.memory_bytes:,} of {machine.buffer_bytes:,} bytes in the largest group"),
    ]
    if measures.energy_nj or problem.minimise == "energy":
        free = machine.energy.unpriced
        told = f"; without a price, not counted: {', '.join(free)}" if free else ""
        shown.append(("energy", f"{written(measures.energy_nj, 'nJ')}{told}"))
    if problem.orders is not None:
        shown.append(("orders", problem.orders))
    if measures.on_host:
        shown.append(("host", _on_host(measures)))
    if measures.bursts is not None:
        copied = measures.copied or []
        told = f"{measures.bursts:,} bursts; {len(copied)} maps copied in {measures.copy_cycles:,} cycles"
        shown.append(("layouts", told + "".join(f", {name}" for name in copied[:4])))
    beside = measures.host_beside
    if beside is not None:
        told = f"a batch takes {beside.latency_cycles:,} cycles, one follows every {beside.interval_cycles:,}"
        shown.append(("host beside", f"{told}; {beside.batches_in_flight} in flight"))
    return shown


def _on_host(measures: FusionMeasures) -> str:
    """Say which operations are left to the host, and what these take."""
    names, cycles = measures.on_host, measures.host_cycles
    told = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    counted = "not counted" if cycles is None else f"{cycles:,} cycles of the total"
    work = f"{(measures.host_bytes or 0) / 1e6:,.2f} MB, {measures.host_macs or 0:,} MACs"
    return f"{len(names)} operations, {counted}: {work}; {told}"


def _counted(measures: FusionMeasures) -> str:
    """Say how many groups there are, and how many of them are single operations."""
    groups, operations = measures.groups.values(), measures.operations - len(measures.on_host)
    alone = sum(len(group.operations) == 1 for group in groups)
    parts = [f"{len(groups) - alone} fused"] if alone < len(groups) else []
    parts += [f"{alone} alone"] if alone else []
    return f"{len(groups)} of {operations} operations: {', '.join(parts)}"


def table(problem: Problem, measures: FusionMeasures) -> list[tuple[str, ...]]:
    """Return a header and a line per operation, the first of each group with what the group costs."""
    header = ("group", "operation", "tile", "halo", "outer loop", "parameters")
    lines: list[tuple[str, ...]] = [(*header, "cycles", "loaded", "saved", "buffers")]
    for number, group in enumerate(measures.groups.values(), 1):
        tile = group.tile
        costs = group.duration_cycles, group.loaded_bytes, group.saved_bytes, group.memory_bytes
        first = (tile.halo, tile.order, tile.parameters, *(f"{cost:,}" for cost in costs))
        for place, name in enumerate(group.operations):
            size = " x ".join(map(str, group.largest_computed[name]))
            rest = ("",) * len(first) if place else first
            lines.append(("" if place else str(number), shortened(name, LONGEST), size, *rest))
    return lines


def overview(problem: Problem, plan: Any, measures: FusionMeasures) -> Overview:
    """Return the table with the group in every line, so that it can be sorted, and what the host computes."""
    told = of_table(table(problem, measures))
    group: Cell = None
    lines = []
    for line in told.lines:
        group = group if line["0"] is None else line["0"]
        lines.append({**line, "0": group})
    return replace(told, what="operation", about=ABOUT, lines=lines)
