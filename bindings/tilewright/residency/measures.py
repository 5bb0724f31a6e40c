"""What was measured of an executed plan, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import joined, of_execution, renamed
from tilewright.simulator import Report

TOTALS = {
    "traffic": "traffic_bytes",
    "memory": "memory_bytes",
    "loaded_bytes": "loaded_bytes",
    "saved_bytes": "saved_bytes",
    "compulsory": "compulsory_bytes",
    "layer_by_layer": "layer_by_layer_bytes",
    "weights_bytes": "weights_bytes",
    "staying": "staying_bytes",
    "again": "executed_again",
    "cycles": "cycles",
    "energy": "energy_fj",
    "compulsory_cycles": "compulsory_cycles",
    "compulsory_energy": "compulsory_energy_fj",
}
STEP = {
    "order": "order",
    "pixels": "pixels",
    "kernels": "kernels",
    "passes": "passes",
    "loaded_bytes": "loaded_bytes",
    "saved_bytes": "saved_bytes",
    "memory": "memory_bytes",
    "on_chip": "on_chip_bytes",
    "cycles": "cycles",
    "energy": "energy_fj",
    "double_buffering": "double_buffering",
}
"""What the facts of a plan, and of a step, are called among the measures."""


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan."""
    facts = report.facts
    found = of_execution(report) | renamed(facts, TOTALS)
    found["steps_of_plan"] = {joined(step["operations"]): renamed(step, STEP) for step in facts["steps"]}
    return found
