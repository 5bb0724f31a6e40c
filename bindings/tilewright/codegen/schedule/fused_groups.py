"""Schedules of fusions: the groups in their order, each with its tile and its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen.schedule.forms import FusionSchedule, GroupBuffers, ScheduledGroup
from tilewright.codegen.schedule.operations import operation
from tilewright.fusion import Plan, Problem
from tilewright.spec.network import OWN_INPUT

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
    for name, told in measures["groups"].items():
        height, width = problem.fused(sorted(numbers[node] for node in told["operations"])).plane
        tile = told["tile"]
        loaded, computed, parameters = told["buffers_bytes"]
        groups[name] = ScheduledGroup.model_validate(
            {
                **{key: told[key] for key in AS_MEASURED},
                "tiles": [-(-height // tile["rows"]), -(-width // tile["columns"])],
                "buffers_bytes": GroupBuffers(input=loaded, output=computed, parameters=parameters),
            }
        )
    operations = {
        op.name: operation(
            op.spec, [OWN_INPUT if producer < 0 else problem.ops[producer].name for producer in op.producers]
        )
        for op in problem.ops
    }
    return FusionSchedule(
        **about,
        duration_cycles=measures["duration_cycles"],
        groups=groups,
        operations=operations,
        on_host=measures["on_host"],
    )
