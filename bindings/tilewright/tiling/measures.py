"""What was measured of executed tilings, units in the names: of a layer, a front or a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.core.measures import of_execution, renamed
from tilewright.simulator import Report
from tilewright.tiling.operations import COSTS
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.problem import Problem

DSP = {
    "schedule": "schedule",
    "step": "tile",
    "buffers": "buffers_elements",
    "cycles": "duration_cycles",
    "accesses": "accesses_elements",
    "energy_fj": "energy_fj",
    "energy": "energy_fj",
    "gops_per_second": "gops_per_second",
    "ops_per_byte": "ops_per_byte",
    "least_accesses": "least_accesses_elements",
    "least_accesses_by": "least_accesses_by",
    "accesses_bits": "accesses_bits",
    "moved_bits": "moved_bits",
    "buffers_bits": "buffers_bits",
    "least_accesses_bits": "least_accesses_bits",
    "published_accesses_bits": "published_accesses_bits",
    "published_accesses": "published_accesses_elements",
    "published_cycles": "published_cycles",
    "limited_by": "limited_by",
}
NPU = {
    "partition": "partition",
    "schedule": "schedule",
    "tile": "tile",
    "time_ps": "duration_ps",
    "time": "duration_ps",
    "accesses": "accesses_elements",
    "accesses_bits": "accesses_bits",
    "moved_bits": "moved_bits",
    "buffers_bits": "buffers_bits",
    "bursts": "bursts",
    "published_time_ps": "published_ps",
    "published_bursts": "published_bursts",
    "limited_by": "limited_by",
}
HIERARCHY = {
    "cycles": "duration_cycles",
    "accesses": "accesses_elements",
    "energy": "energy_aj",
    "edp": "edp_nj_cycles",
    "capacity": "capacity_bytes",
    "least_accesses": "least_accesses_elements",
    "utilisation": "utilisation",
    "nest": "nest",
    "levels": "levels_elements",
    "levels_bytes": "levels_bytes",
    "levels_energy": "levels_aj",
    "mac_energy": "mac_aj",
    "held_bytes": "held_bytes",
    "kept": "kept",
    "multiplying_cycles": "multiplying_cycles",
    "waiting_cycles": "waiting_cycles",
    "port_cycles": "port_cycles",
    "limited_by": "limited_by",
    "filling_cycles": "filling_cycles",
    "draining_cycles": "draining_cycles",
    "filled_cycles": "filled_cycles",
}
"""What the facts of a layer are called among its measures."""

OPERATION = {
    "operation": "operation",
    "on": "on",
    "tile": "tile",
    "tiles": "tiles",
    "buffers": "buffers_elements",
    "work": "vector_operations",
    "least_accesses": "least_accesses_elements",
    "limited_by": "limited_by",
    "levels_bytes": "levels_bytes",
    "levels_energy": "levels_aj",
    "vector_energy": "vector_aj",
    "accesses_bits": "accesses_bits",
}
"""Of an operation between layers, on any kind of machine."""

NAMES = {"dsp": DSP, "npu": NPU, "hierarchy": HIERARCHY}

SUMMED = {
    "dsp": ("duration_cycles", "accesses_elements", "energy_fj", "least_accesses_elements"),
    "npu": ("duration_ps", "accesses_elements", "bursts", "published_ps", "published_bursts"),
    "hierarchy": ("duration_cycles", "accesses_elements", "energy_aj"),
}
"""Measures of a network that are sums over its layers."""


def measures(problem: Problem, report: Report) -> dict[str, Any]:
    """Return the measures of a valid plan; of a front those of its first plan, with the points of all."""
    if problem.network is None:
        return _of_layer(problem, report)
    known: dict[int, dict[str, Any]] = {}
    for (_, part), (_, layer) in zip(problem.parts, report.layers, strict=True):
        if id(layer) not in known:
            known[id(layer)] = _of_layer(part, layer)
    layers = {name: known[id(layer)] for name, layer in report.layers}
    total = _executed(problem, report) | _of_network(problem, list(layers.values()))
    return total | _front(problem, report) | {"layers": layers}


def _executed(problem: Problem, report: Report) -> dict[str, Any]:
    machine = problem.machine
    if machine.kind == "npu":  # whose tensors are parts of operands: "input TLE0"
        return of_execution(report, "ps", lambda tensor: tensor.split()[0]) | {"duration_of": "serial"}
    if machine.kind == "hierarchy":
        return of_execution(report)
    duration_of = "lockstep" if machine.double_buffering else "serial"
    return of_execution(report) | {"duration_of": duration_of, "energy_prices": machine.energy.source}


def _of_layer(problem: Problem, report: Report) -> dict[str, Any]:
    if problem.operation is not None:
        return _of_operation(problem, report)
    found = _executed(problem, report) | renamed(report.facts, NAMES[problem.machine.kind])
    return found | _front(problem, report)


def _of_operation(problem: Problem, report: Report) -> dict[str, Any]:
    names = OPERATION | {
        name: NAMES[problem.machine.kind][name] for name in COSTS[problem.machine.kind].values()
    }
    return _executed(problem, report) | renamed(report.facts, names)


def _not_modelled(problem: Problem) -> dict[str, Any]:
    """Return what of a network has no cost on the machine, with what it moves and multiplies at least."""
    found = problem.unmodelled
    if not found:
        return {}
    amounts = {
        "operations": len(found),
        "elements": sum(each.elements for each in found),
        "bytes": sum(each.elements for each in found) * bits_of(problem.machine) // 8,
        "macs": sum(each.macs for each in found),
    }
    return {"not_modelled": amounts | {"names": [each.name for each in found]}}


def _front(problem: Problem, report: Report) -> dict[str, Any]:
    if "front" not in report.facts:
        return {}
    names = NAMES[problem.machine.kind] | {"plans": "plans"}
    if problem.units["accesses"] == "bits":  # which is what a front trades then
        names |= {"accesses": "accesses_bits"}
    found: dict[str, Any] = {"front": [renamed(point, names) for point in report.facts["front"]]}
    return found | renamed(report.facts, {"points": "front_points", "every": "front_every"})


def _of_network(problem: Problem, layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    machine = problem.machine
    total = {key: sum(layer.get(key, 0) for layer in layers) for key in SUMMED[machine.kind]}
    total |= _not_modelled(problem)
    if machine.kind != "hierarchy" and machine.bits is not None:
        total["accesses_bits"] = sum(layer["accesses_bits"] for layer in layers)
    if machine.kind == "npu":
        return total
    if machine.kind == "hierarchy":
        macs = sum(layer["macs"] for layer in layers)
        filled = sum(layer.get("filled_cycles", layer["duration_cycles"]) for layer in layers)
        share = macs / (total["duration_cycles"] * machine.most_macs_per_cycle)
        return total | {"utilisation": share, "filled_cycles": filled}
    operations = 2 * sum(layer["macs"] for layer in layers)
    moved = total.get("accesses_bits", total["accesses_elements"] * 8 * machine.element_bytes)
    return total | {
        "gops_per_second": machine.clock_mhz * operations / total["duration_cycles"] / 1000,
        "ops_per_byte": 8 * operations / moved,
        "least_accesses_by": ", ".join(
            dict.fromkeys(layer["least_accesses_by"] for layer in layers if "least_accesses_by" in layer)
        ),
    }
