"""Schedules of fusions: the groups in their order, each with its tile and its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen.schedule.forms import FusionSchedule, GroupBuffers, ScheduledGroup
from tilewright.codegen.schedule.operations import operation_of
from tilewright.fusion import Plan, Problem

AS_MEASURED = (
    "operations",
    "tile",
    "largest_computed",
    "duration_cycles",
    "busy_cycles",
    "loaded_bytes",
    "saved_bytes",
)


def fusion_schedule(
    about: Mapping[str, Any], problem: Problem, plan: Plan, measures: Mapping[str, Any]
) -> FusionSchedule:
    """Return the schedule of an executed plan."""
    numbers = {op.name: op.number for op in problem.ops}
    groups = {}
    for name, group in measures["groups"].items():
        height, width = problem.fused([numbers[node] for node in group["operations"]]).plane
        tile = group["tile"]
        loaded, computed, parameters = group["buffers_bytes"]
        groups[name] = ScheduledGroup.model_validate(
            {
                **{key: group[key] for key in AS_MEASURED},
                "tiles": [-(-height // tile["rows"]), -(-width // tile["columns"])],
                "buffers_bytes": GroupBuffers(input=loaded, output=computed, parameters=parameters),
            }
        )
    told = [*(name for told in groups.values() for name in told.operations), *measures["on_host"]]
    assert sorted(told) == sorted(numbers), "each operation is in one group, or left to the host"
    operations = {op.name: operation_of(problem.graph, op) for op in problem.ops}
    return FusionSchedule(
        **about,
        duration_cycles=measures["duration_cycles"],
        groups=groups,
        operations=operations,
        on_host=measures["on_host"],
    )
