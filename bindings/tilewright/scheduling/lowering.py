"""A plan executed, as a report: one row for each subgraph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.core.measures import counted
from tilewright.core.room import Asked
from tilewright.scheduling.execution import Executed, Execution, reference
from tilewright.scheduling.measures import SchedulingMeasures, SubgraphMeasures
from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.rules import violation
from tilewright.simulator import Report
from tilewright.simulator.program import Counts


def whole_units(ticks: int, scale: int) -> int:
    """Return a time in the units of an instance, a begun one as a whole one."""
    return -(-ticks // scale)


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan; see `core.room.Room.simulate`."""
    broken = violation(problem, plan)
    if broken is not None:
        return Report.beyond_limits(broken, "a plan that keeps the rules")
    graph = problem.graph
    execution = Execution(problem, asked.seed if asked.numeric else None, asked.deadline)
    runs = [execution.run(step) for step in plan.subgraphs]
    names = [f"tensor {number}" for number in range(len(graph.widths))]

    def table(of: Callable[[Executed], dict[int, int]]) -> dict[str, Counts]:
        rows: dict[int, Counts] = {}
        for place, run in enumerate(runs):
            for tensor, many in of(run).items():
                rows.setdefault(tensor, np.zeros(len(runs), dtype=np.int64))[place] = many
        return {names[tensor]: rows[tensor] for tensor in sorted(rows)}

    report = Report(
        None,
        [f"subgraph {number}" for number in range(1, len(runs) + 1)],
        table(lambda run: run.loaded),
        {},
        table(lambda run: run.written),
        table(lambda run: run.made),
        {"slices and tiles": np.array([run.peak for run in runs], dtype=np.int64)},
        np.array([run.macs for run in runs], dtype=np.int64),
        sum(run.transfers for run in runs),
    )
    total = sum(run.ticks for run in runs)
    report.measures = SchedulingMeasures(
        **counted(report),
        latency=total / graph.scale,
        latency_ticks=total,
        subgraphs=[_measured(step, run, graph.scale) for step, run in zip(plan.subgraphs, runs, strict=True)],
    )
    if asked.numeric:
        known = reference(problem, asked.seed)
        report.numeric = all(
            (values := execution.slow[tensor]) is not None and bool((values == known[tensor]).all())
            for tensor in graph.results
        )
    return report


def _measured(step: Subgraph, run: Executed, scale: int) -> SubgraphMeasures:
    """Return what was measured of a subgraph; a unit of time has `scale` ticks."""
    return SubgraphMeasures(
        operations=list(step.operations),
        granularity=list(step.granularity),
        retained=list(step.retained),
        order=step.order if isinstance(step.order, str) else "listed",
        latency=run.ticks / scale,
        compute=run.compute / scale,
        transfer=run.transfer / scale,
        steps=run.steps,
        steps_bound_by_transfer=run.bound_by_transfer,
        peak_elements=run.peak,
    )
