"""What an executed plan of a layer on a multicore NPU has cost, and what limits it."""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import counted
from tilewright.simulator import Report
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import NpuLayer
from tilewright.tiling.npu.cost import Cost, cost, published, time_ps
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.plan import DIMENSIONS, NpuPlan


def measure_execution(problem: LayerProblem, plan: NpuPlan, report: Report) -> NpuLayer:
    """Return what was measured, beside what the paper's formulas count."""
    cut = cut_of(problem.one_layer, problem.machine, plan.partition)
    total, full, step = cost(cut, plan), published(cut, plan), cut.step(plan.tile)
    in_bits: dict[str, Any] = {}
    if problem.machine.bits is not None:
        moved, need = moved_by_operand(problem, report), cut.need(step, plan.schedule)
        in_bits = {
            "accesses_bits": sum(moved.values()),
            "moved_bits": moved,
            "buffers_bits": {name: size * cut.held_units[name] for name, size in need.items()},
        }
    return NpuLayer(
        **counted(report, "ps", lambda tensor: tensor.split()[0]),  # those of each TLE, "input TLE0"
        duration_ps=costs_of(problem, report)["time"],
        duration_of="serial",
        accesses_elements=report.accesses,
        bursts=total.bursts,
        published_ps=time_ps(cut, full),
        published_bursts=full.bursts,
        partition=plan.partition,
        schedule=plan.schedule,
        tile=dict(zip(DIMENSIONS, step, strict=True)),
        limited_by=_limit(problem, report, total),
        **in_bits,
    )


def _limit(problem: LayerProblem, report: Report, cost: Cost) -> str:
    """Name what takes longest, as all follow one another: computing, bytes of DRAM, latency of bursts."""
    machine, total = problem.machine, costs_of(problem, report)["time"]
    size, latency = cost.bytes * machine.byte_ps, cost.bursts * machine.burst_ps
    parts = {"multipliers": total - size - latency, "dram": size, "bursts of dram": latency}
    return max(parts, key=lambda name: parts[name])


def costs_of(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return what a simulated plan costs, by what that counts."""
    assert report.sequential is not None
    return {"time": report.sequential.cycles, "accesses": sum(moved_by_operand(problem, report).values())}


def moved_by_operand(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return what an executed plan moved of each operand, in the machine's unit; outputs are complete."""
    units = problem.machine.units
    moved = {"input": 0, "weights": 0, "output": 0}
    for table in (report.loaded, report.written):
        for tensor, counts in table.items():  # those of each TLE, "input TLE0"
            moved[tensor.split()[0]] += report.total(counts)
    each = {"input": units.input, "weights": units.kernels, "output": units.output}
    return {operand: elements * each[operand] for operand, elements in moved.items()}
