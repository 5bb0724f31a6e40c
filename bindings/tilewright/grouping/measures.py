"""What was measured of an executed grouping, units in the names."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import of_execution
from tilewright.simulator import Report


def measures(report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan; what it takes is one stage of a step after the other."""
    found = of_execution(report)
    return found | {"duration_cycles": found["serial_cycles"], "duration_of": "serial"}
