"""The measures of a network that is tiled layer by layer: sums over its layers, and its front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core.measures import counted
from tilewright.simulator import Report
from tilewright.tiling import network_fronts
from tilewright.tiling.hierarchy import curve
from tilewright.tiling.measures import (
    DspLayer,
    DspNetwork,
    DspPoint,
    HierarchyNetwork,
    HierarchyPoint,
    NetworkMeasures,
    NotModelled,
    NpuNetwork,
    NpuPoint,
)
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.problem import Problem

NETWORKS = {"dsp": DspNetwork, "npu": NpuNetwork, "hierarchy": HierarchyNetwork}
POINTS = {"dsp": DspPoint, "npu": NpuPoint, "hierarchy": HierarchyPoint}

SUMMED = {
    "dsp": ("duration_cycles", "accesses_elements", "energy_fj", "least_accesses_elements"),
    "npu": ("duration_ps", "accesses_elements", "bursts", "published_ps", "published_bursts"),
    "hierarchy": ("duration_cycles", "accesses_elements", "energy_aj"),
}
"""Measures of a network that are sums over its layers; an operation that lacks one adds nothing."""


def point_of_front(problem: Problem, costs: Mapping[str, int], **more: Any) -> Any:
    """Return a point of a front from what its plan costs, by objective; `more` are other fields."""
    named = {problem.measure_of(name): cost for name, cost in costs.items()}
    return POINTS[problem.machine.kind](**named, **more)


def layer_front(problem: Problem, points: Sequence[Mapping[str, int]]) -> list[Any]:
    """Return a layer's front from what its plans cost; of capacities with what any schedule moves."""
    if not problem.trades_capacity:
        return [point_of_front(problem, point) for point in points]
    layer, machine = problem.one_layer, problem.machine
    assert machine.kind == "hierarchy"
    least = [curve.any_schedule(layer, machine, point["capacity"]) for point in points]
    return [
        point_of_front(problem, point, least_accesses_elements=bound)
        for point, bound in zip(points, least, strict=True)
    ]


def network_measures(problem: Problem, report: Report) -> NetworkMeasures:
    """Return the measures of a network, whose report has those of its layers."""
    layers = {name: layer.measures for name, layer in report.layers}
    each: list[Any] = list(layers.values())
    kind = problem.machine.kind
    total: dict[str, Any] = {name: sum(getattr(layer, name, 0) for layer in each) for name in SUMMED[kind]}
    total |= {"not_modelled": _not_modelled(problem), "layers": layers} | _front(problem, each)
    if problem.machine.kind != "hierarchy" and problem.machine.bits is not None:
        total["accesses_bits"] = sum(layer.accesses_bits or 0 for layer in each)
    if kind == "npu":  # whose tensors are parts of operands: "input TLE0"
        counts = counted(report, "ps", lambda tensor: tensor.split()[0])
        return NpuNetwork(**counts, **total, duration_of="serial")
    if kind == "hierarchy":
        return HierarchyNetwork(**counted(report), **total, **_of_hierarchy(problem, each, total))
    return DspNetwork(**counted(report), **total, **_of_dsp(problem, each, total))


def _of_hierarchy(problem: Problem, layers: Sequence[Any], total: Mapping[str, Any]) -> dict[str, Any]:
    """Return how much of the multipliers is used, and what the network takes with filling and draining."""
    assert problem.machine.kind == "hierarchy"
    macs = sum(layer.macs for layer in layers)
    filled = sum(getattr(layer, "filled_cycles", layer.duration_cycles) for layer in layers)
    share = macs / (total["duration_cycles"] * problem.machine.most_macs_per_cycle)
    return {"utilisation": share, "filled_cycles": filled}


def _of_dsp(problem: Problem, layers: Sequence[Any], total: Mapping[str, Any]) -> dict[str, Any]:
    """Return rates of the whole network, and what is said of its energy and its least accesses."""
    machine = problem.machine
    assert machine.kind == "dsp"
    operations = 2 * sum(layer.macs for layer in layers)
    moved = total.get("accesses_bits", total["accesses_elements"] * 8 * machine.element_bytes)
    by = dict.fromkeys(layer.least_accesses_by for layer in layers if isinstance(layer, DspLayer))
    return {
        "duration_of": "lockstep" if machine.double_buffering else "serial",
        "energy_prices": machine.energy.source,
        "gops_per_second": machine.clock_mhz * operations / total["duration_cycles"] / 1000,
        "ops_per_byte": 8 * operations / moved,
        "least_accesses_by": ", ".join(by),
    }


def _not_modelled(problem: Problem) -> NotModelled | None:
    """Return what of a network has no cost on the machine, with what it moves and multiplies at least."""
    found = problem.unmodelled
    if not found:
        return None
    elements = sum(each.elements for each in found)
    return NotModelled(
        operations=len(found),
        elements=elements,
        bytes=elements * bits_of(problem.machine) // 8,
        macs=sum(each.macs for each in found),
        names=[each.name for each in found],
    )


def _front(problem: Problem, layers: Sequence[Any]) -> dict[str, Any]:
    """Return the front of a network from those of its layers; of two costs with the plans that make it."""
    if not problem.traded:
        return {}
    fronts = [layer.front for layer in layers]
    if problem.trades_capacity:
        assert problem.machine.kind == "hierarchy"
        parts = [part.one_layer for _, part in problem.parts]
        return {"front": curve.summed(parts, problem.machine, fronts)}
    fields = [problem.measure_of(name) for name in problem.traded]
    costs = [[tuple(getattr(point, name) for name in fields) for point in front] for front in fronts]
    sums = network_fronts.sum_of_fronts(costs)
    points = [
        point_of_front(problem, dict(zip(problem.traded, point, strict=True)), plans=plans)
        for point, plans in zip(sums.points, sums.chosen.tolist(), strict=True)
    ]
    return {"front": points, "front_points": sums.n_points, "front_every": sums.every}
