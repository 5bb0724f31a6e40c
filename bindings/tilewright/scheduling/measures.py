"""What is told of an executed plan in files, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import of_execution
from tilewright.simulator import Report


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan; times are those of the instance, which has no unit."""
    facts = report.facts
    return of_execution(report) | {
        "latency": facts["ticks"] / facts["scale"],
        "subgraphs": facts["subgraphs"],
    }
