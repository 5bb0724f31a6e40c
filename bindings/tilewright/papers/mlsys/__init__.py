"""The MLSys 2026 contest on graph scheduling: its best latencies and ours, with what is proven of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.papers.figures import Say
from tilewright.run.instance import Instance, digest, read
from tilewright.run.solve import solve

FIGURES = {
    "mlsys-2026": "the graph scheduling contest: its five released benchmarks beside ours, each in its time",
}
"""What `reproduce` makes."""

READINGS: dict[str, tuple[str, dict[str, str]]] = {
    "mlsys-2026-5": ("sums in the tile", {"accumulators": "tile"}),
    "mlsys-2026-13": ("connected by flow", {"connected": "flow"}),
}
"""Benchmarks whose best plan depends on how the contest's text is read, and the other reading."""

HEADER = ("benchmark", "operations", "limit", "winner", "best", "ours", "bound", "gap", "time")


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Solve each benchmark in its time limit, or a shorter one, and print a line of a Markdown table for it.

    Two of them are solved under another reading of the rules, too, which makes a difference there.
    """
    published: list[dict[str, Any]] = catalogue.shared("published", "mlsys-2026")["benchmarks"]
    for cells in (HEADER, tuple("---" for _ in HEADER)):
        say(f"| {' | '.join(cells)} |")
    for row in published:
        instance = read(row["name"])
        _solved(instance, row, row["name"], time_limit, folder, say)
        if row["name"] in READINGS:
            told, limits = READINGS[row["name"]]
            problem = instance.problem.with_(limits=limits)
            other = Instance(instance.room, instance.name, "", problem, digest(instance.room, problem))
            _solved(other, row, f"{row['name']}, {told}", time_limit, folder, say)


def _solved(
    instance: Instance, row: dict[str, Any], name: str, time_limit: float, folder: Path, say: Say
) -> None:
    seconds = min(row["seconds"], time_limit)
    result = solve(instance, time_limit=seconds)
    result.write(folder / f"{name.replace(', ', '-').replace(' ', '-')}.json")
    gap = "optimal" if result.status == "optimal" else "none"
    if result.status == "feasible" and result.objective is not None and result.bound is not None:
        gap = f"{1 - result.bound / max(1, result.objective):.1%}"
    numbers = (row["winner"], row["best"], result.objective, result.bound)
    shown = ["none" if number is None else f"{number:,}" for number in numbers]
    operations = len(instance.problem.graph.inputs)
    cells = (name, str(operations), f"{seconds:g} s", *shown, gap, f"{result.seconds:.1f} s")
    say(f"| {' | '.join(cells)} |")
