"""What all sheets of tilings share: the words above the drawings, units, colours, and the table of tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.core.overview import said_once
from tilewright.plotting import (
    OPERAND_COLOURS,
    SHEET_WIDTH,
    SKY,
    PlacedTable,
    Sheet,
    dimensions,
)
from tilewright.tiling.panels import operand_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.tiles import decisions

if TYPE_CHECKING:
    from tilewright.simulator import Report

TILES = "#CDE8DF"
"""Colour of all tiles but the first."""
LEFT = 0.75
"""Inches left of the drawings."""


def describe_problem(problem: Problem) -> str:
    """Say what is tiled, and on what."""
    if problem.network is not None:
        layers = _count_layers(problem)
        what = f"{problem.network.name}, {layers}" if problem.network.name else f"network of {layers}"
        batch = next((part.one_layer.batch for _, part in problem.parts if part.operation is None), 1)
    else:
        layer = problem.one_layer
        batch = layer.batch
        if layer.kind == "fc":
            what = f"fully connected layer, {layer.input[0]:,} → {layer.kernels:,}"
        else:
            rows, columns = layer.output_plane
            what = (
                f"{dimensions(*layer.kernel)} convolution, {layer.input[0]:,} → {layer.kernels:,} maps of "
                f"{dimensions(rows, columns)}"
            )
            if layer.stride != (1, 1):
                what += f", stride {dimensions(*layer.stride)}"
            if layer.groups > 1:
                what += f", {layer.groups:,} channel groups"
    return what + (f", batch of {batch}" if batch > 1 else "")


def _count_layers(problem: Problem) -> str:
    """Return how many layers and operations between them a network has."""
    operations = sum(part.operation is not None for _, part in problem.parts)
    many = {"layer": len(problem.parts) - operations, "operation": operations}
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for what, count in many.items() if count)


def create_page(problem: Problem, report: Report, numbers: Sequence[str], title: str | None) -> Sheet:
    """Return a sheet with a title, the problem's description and some numbers above the drawings."""
    what = describe_problem(problem)
    facts = ["; ".join(numbers)]
    if title is not None:
        facts.insert(0, what)
    return Sheet(title or (what if problem.network else what[0].upper() + what[1:]), facts, report)


def colour_of(tensor: str) -> str:
    """Return the colour of what is moved."""
    return OPERAND_COLOURS.get(tensor, SKY)


def add_up(report: Report, table: Mapping[str, Any]) -> dict[str, int]:
    """Add up elements over steps and cores."""
    totals: dict[str, int] = {}
    for tensor, counts in table.items():
        name = operand_of(tensor)
        totals[name] = totals.get(name, 0) + report.total(counts)
    return totals


def table_of_tiles(problem: Problem, plan: Plan, report: Report) -> PlacedTable | None:
    """Return the table of the tiles of a plan that breaks no rule."""
    if report.violation is not None:
        return None
    found = decisions(problem, plan, report.measures)
    if found is None:
        return None
    return PlacedTable.within(
        SHEET_WIDTH - 0.6, found.header, said_once(found.lines), found.right, found.note
    )
