"""What was measured of an executed pipeline, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import of_execution, renamed
from tilewright.simulator import Report

PIPELINE = {
    "interval": "interval_cycles",
    "pes": "pes",
    "latency": "latency_cycles",
    "frames": "executed_frames",
    "frames_per_second": "frames_per_second",
    "storage": "storage_words",
    "pacing": "pacing",
    "distance": "distance_hops",
    "least_distance": "least_distance_hops",
    "executed": "executed_plans",
}
STAGE = {
    "pes": "pes",
    "split": "split",
    "units": "units",
    "work": "work_cycles",
    "pace": "pace_cycles",
    "start": "start_cycles",
    "busy": "busy_cycles",
    "load": "load_cycles",
    "weights": "weights_elements",
    "buffer": "buffer_words",
    "held": "held_words",
}
"""What the facts of a pipeline, and of a layer in it, are called among the measures."""


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan; of a front those of its first plan, with the points of all."""
    facts = report.facts
    found = of_execution(report) | renamed(facts, PIPELINE)
    found["published"] = renamed(facts["published"], PIPELINE)
    found["layers"] = {stage["name"]: renamed(stage, STAGE) for stage in facts["stages"]}
    if "front" in facts:
        found["front"] = [renamed(point, PIPELINE) for point in facts["front"]]
    return found
