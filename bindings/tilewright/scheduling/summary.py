"""What people are shown of a solved scheduling problem: rows of totals and a line per subgraph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.core.narrowing import Narrowing
from tilewright.core.overview import Overview, of_table
from tilewright.core.room import Rows
from tilewright.scheduling.measures import SchedulingMeasures, SubgraphMeasures
from tilewright.scheduling.problem import Problem

SHORT = 1_000_000
"""Latencies below this are written with six digits, others to a hundredth."""

MOST_LISTED = 6
"""Most operations of a subgraph, or tensors that it keeps, that are listed."""


ABOUT = (
    "Operations of a subgraph run as one on tiles of w x h, and add up k products in a step. Kept: tensors "
    "that stay in fast memory for the next subgraph. A step takes as long as computing or moving, whichever "
    "is longer; latency is the sum of all steps."
)


NARROWING = Narrowing(last=("kept", "order"))
"""What becomes of the table where columns are few."""


def rows(problem: Problem, measures: SchedulingMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    graph, steps = problem.graph, measures.subgraphs
    runs = sum(len(step.operations) for step in steps)
    again = runs - len({op for step in steps for op in step.operations})
    compute, transfer = sum(step.compute for step in steps), sum(step.transfer for step in steps)
    kept = sum(len(step.retained) for step in steps)
    latency = f"{measures.latency:,.6g}" if measures.latency < SHORT else f"{measures.latency:,.2f}"
    return [
        ("latency", latency),
        ("compute", f"{compute:,.1f} alone; transfers {transfer:,.1f} alone"),
        ("subgraphs", f"{len(steps):,} of {len(graph.inputs):,} operations, {again:,} of them run again"),
        ("kept", f"{kept:,} tensors between subgraphs"),
        ("fast memory", f"{max(step.peak_elements for step in steps):,} of {graph.fast_memory_capacity:,}"),
    ]


def table(problem: Problem, measures: SchedulingMeasures) -> list[tuple[str, ...]]:
    """Return a header and one line per subgraph."""
    header = ("subgraph", "operations", "w", "h", "k", "order", "kept", "latency", "compute", "transfer")
    return [header, *(_line(number, step) for number, step in enumerate(measures.subgraphs, 1))]


def _line(number: int, step: SubgraphMeasures) -> tuple[str, ...]:
    return (
        str(number),
        listed(step.operations),
        *map(str, step.granularity),
        step.order,
        listed(step.retained),
        f"{step.latency:,.1f}",
        f"{step.compute:,.1f}",
        f"{step.transfer:,.1f}",
    )


def listed(numbers: list[int]) -> str:
    """Return the first of some numbers as a text."""
    return " ".join(map(str, numbers[:MOST_LISTED])) + (" ..." if len(numbers) > MOST_LISTED else "")


def overview(problem: Problem, plan: Any, measures: SchedulingMeasures) -> Overview:
    """Return the table with what its columns mean."""
    return replace(of_table(table(problem, measures)), what="subgraph", about=ABOUT)
