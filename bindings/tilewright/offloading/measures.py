"""What was measured of an executed offloading plan."""

from __future__ import annotations

from tilewright.core.measures import Count, Lasting, counted, measures
from tilewright.offloading.problem import Problem
from tilewright.simulator import Report


@measures
class OffloadingMeasures(Lasting):
    """Of an offloading plan; what it takes is one stage of a step after the other."""

    load_and_compute_cycles: Count
    """Cycles without the first write of each output (equation 15)."""


def measured(problem: Problem, report: Report) -> OffloadingMeasures:
    """Return the measures of a valid plan."""
    assert report.sequential is not None
    cycles = report.sequential.cycles
    first_writes = problem.machine.write * problem.elements.n_outputs
    return OffloadingMeasures(
        **counted(report),
        duration_cycles=cycles,
        duration_of="serial",
        load_and_compute_cycles=cycles - first_writes,
    )
