"""What is told of an executed plan in files, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import of_execution, renamed
from tilewright.simulator import Report

LAYER = {
    "input": "input_format",
    "weights": "weights_format",
    "sum": "sum_format",
    "available": "available_bits",
    "extra": "extra_bits",
    "taps": "products_of_a_sum",
    "bits": "moved_bits",
    "noise": "noise_ppb",
}
"""What the facts of a layer are called among the measures."""


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan; of a front those of its first plan, with the points of all."""
    facts = report.facts
    found = of_execution(report) | {"noise_ppb": facts["noise"], "moved_bits": facts["bits"]}
    found["layers"] = {row["name"]: renamed(row, LAYER) for row in facts["layers"]}
    if "measured" in facts:
        measured = facts["measured"]
        found["measured"] = {key: value for key, value in measured.items() if key != "layers"}
        for name, row in measured["layers"].items():
            found["layers"][name]["measured"] = row
    if facts["points"]:
        found["front"] = [{"noise_ppb": noise, "moved_bits": bits} for noise, bits in facts["points"]]
    return found
