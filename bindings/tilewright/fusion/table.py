"""What people are shown of a solved fusion problem: rows of totals and a line per group."""

from __future__ import annotations

from typing import Any

from tilewright.fusion.problem import Problem

Rows = list[tuple[str, str]]


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    facts, machine = report["facts"], problem.machine
    shown = [
        ("time", f"{facts['milliseconds']:.3f} ms, {facts['gops']:,.1f} GOPs/s"),
        ("groups", f"{len(facts['groups'])} of {facts['operations'] - len(facts['on_host'])} operations"),
        (
            "DRAM",
            f"{facts['traffic'] / 1e6:,.2f} MB, {facts['loaded_bytes'] / 1e6:,.2f} loaded and "
            f"{facts['saved_bytes'] / 1e6:,.2f} saved; {facts['ctc']:,.1f} operations per byte",
        ),
        ("buffers", f"{facts['memory']:,} of {machine.buffer_bytes:,} bytes in the largest group"),
    ]
    if facts["energy"]:
        shown.append(("energy", f"{facts['energy'] / 1e6:,.2f} mJ"))
    if facts["on_host"]:
        names = facts["on_host"]
        told = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        shown.append(("host", f"{len(names)} operations, not counted: {told}"))
    return shown


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and one line per group."""
    header = ("group", "tile", "halo", "outer loop", "parameters", "cycles", "loaded", "saved", "buffers")
    return [header, *(_line(group) for group in report["facts"]["groups"])]


def _line(group: dict[str, Any]) -> tuple[str, ...]:
    tile = group["tile"]
    return (
        " + ".join(group["nodes"]),
        f"{tile['rows']} x {tile['columns']} x {tile['kernels']}",
        tile["halo"],
        tile["order"],
        tile["parameters"],
        f"{group['cycles']:,}",
        f"{group['loaded_bytes']:,}",
        f"{group['saved_bytes']:,}",
        f"{group['memory']:,}",
    )
