"""What people are shown of a solved scheduling problem: rows of totals and a line per subgraph."""

from __future__ import annotations

from typing import Any

from tilewright.scheduling.problem import Problem

Rows = list[tuple[str, str]]

MOST_LISTED = 6
"""Most operations of a subgraph, or tensors that it keeps, that are listed."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    graph, facts = problem.graph, report["facts"]
    steps = facts["subgraphs"]
    runs = sum(len(step["operations"]) for step in steps)
    again = runs - len({op for step in steps for op in step["operations"]})
    compute, transfer = (sum(step[key] for step in steps) for key in ("compute", "transfer"))
    kept = sum(len(step["retained"]) for step in steps)
    return [
        ("latency", f"{facts['ticks'] / facts['scale']:,.6g}" if facts["latency"] < 10**6 else _exact(facts)),
        ("compute", f"{compute:,.1f} alone; transfers {transfer:,.1f} alone"),
        ("subgraphs", f"{len(steps):,} of {len(graph.inputs):,} operations, {again:,} of them run again"),
        ("kept", f"{kept:,} tensors between subgraphs"),
        (
            "fast memory",
            f"{max(step['peak_elements'] for step in steps):,} of {graph.fast_memory_capacity:,}",
        ),
    ]


def _exact(facts: dict[str, Any]) -> str:
    return f"{facts['ticks'] / facts['scale']:,.2f}"


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and one line per subgraph."""
    header = ("subgraph", "operations", "w", "h", "k", "order", "kept", "latency", "compute", "transfer")
    return [header, *(_line(number, step) for number, step in enumerate(report["facts"]["subgraphs"], 1))]


def _line(number: int, step: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(number),
        listed(step["operations"]),
        *map(str, step["granularity"]),
        step["order"],
        listed(step["retained"]),
        f"{step['latency']:,.1f}",
        f"{step['compute']:,.1f}",
        f"{step['transfer']:,.1f}",
    )


def listed(numbers: list[int]) -> str:
    """Return the first of some numbers as a text."""
    return " ".join(map(str, numbers[:MOST_LISTED])) + (" ..." if len(numbers) > MOST_LISTED else "")
