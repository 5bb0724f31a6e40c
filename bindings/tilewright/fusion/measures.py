"""What was measured of executed groups of operations, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import joined, of_execution, renamed
from tilewright.simulator import Report

TOTALS = {
    "cycles": "duration_cycles",
    "milliseconds": "duration_ms",
    "loaded_bytes": "loaded_bytes",
    "saved_bytes": "saved_bytes",
    "traffic": "traffic_bytes",
    "energy": "energy_nj",
    "memory": "memory_bytes",
    "macs": "macs",
    "gops": "gops_per_second",
    "ctc": "ops_per_byte",
    "operations": "operations",
    "on_host": "on_host",
    "host_bytes": "host_bytes",
    "host_macs": "host_macs",
    "host_cycles": "host_cycles",
}
GROUP = {
    "nodes": "operations",
    "tile": "tile",
    "cycles": "duration_cycles",
    "loaded_bytes": "loaded_bytes",
    "saved_bytes": "saved_bytes",
    "traffic": "traffic_bytes",
    "energy": "energy_nj",
    "memory": "memory_bytes",
    "macs": "macs",
    "buffers": "buffers_bytes",
    "busy": "busy_cycles",
}
"""What the facts of a plan, and of a group, are called among the measures."""


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan.

    The simulator counts the work of every engine as MACs; here only convolutions have any.
    """
    facts = report.facts
    found = of_execution(report) | renamed(facts, TOTALS) | {"duration_of": "scheduled"}
    found["groups"] = {}
    for group in facts["groups"]:
        tiles = dict(zip(group["nodes"], group["tiles"], strict=True))
        told = renamed(group, GROUP) | {"largest_computed": tiles}
        found["groups"][joined(group["nodes"])] = told
    assert len(found["groups"]) == len(facts["groups"]), "each group has a key of its own"
    return found
