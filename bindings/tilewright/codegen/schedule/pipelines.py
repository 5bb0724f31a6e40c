"""Schedules of allocations: the PEs of each layer, and when it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.allocation import Plan, Problem
from tilewright.codegen.schedule.forms import AllocationSchedule, PlacedLayer, Split, Units
from tilewright.codegen.schedule.operations import operation
from tilewright.spec.network import OWN_INPUT

OF_LAYERS = ("start_cycles", "busy_cycles", "work_cycles", "pace_cycles", "weights_elements", "buffer_words")
OF_PIPELINES = ("pacing", "pes", "interval_cycles", "latency_cycles", "storage_words")


def allocation_schedule(
    about: Mapping[str, Any], problem: Problem, plan: Plan, measures: Mapping[str, Any]
) -> AllocationSchedule:
    """Return the schedule of an executed plan."""
    names = [stage.name for stage in problem.stages]
    layers = {}
    for stage, split in zip(problem.stages, plan.splits, strict=True):
        reads = [OWN_INPUT if producer < 0 else names[producer] for producer in stage.producers]
        told = measures["layers"][stage.name]
        region = [list(pe) for pe in plan.regions[stage.number]] if plan.regions else None
        layers[stage.name] = PlacedLayer(
            shape=operation(stage.spec, reads),
            pes=split.pes,
            split=Split(filters=split.filters, maps=split.maps, rows=split.rows),
            units=Units(filters=split.unit_filters, maps=split.unit_maps),
            region=region,
            **{key: told[key] for key in OF_LAYERS},
        )
    return AllocationSchedule(
        **about,
        execution=problem.limits.execution,
        **{key: measures[key] for key in OF_PIPELINES},
        layers=layers,
        left_out=[layer.name for layer in problem.network.layers if layer.name not in layers],
    )
