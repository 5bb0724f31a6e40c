"""Tiling on a multicore NPU: validity, cost, exact search and simulation of one layer's plan."""

from __future__ import annotations

from typing import Any

from tilewright.core.bounds import Bound, Exact
from tilewright.core.measures import counted
from tilewright.simulator import Report, Violation, execute
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import NpuLayer
from tilewright.tiling.npu import exact
from tilewright.tiling.npu.cost import Cost, accesses, cost, measure, published, time_ps
from tilewright.tiling.npu.lowering import data, lower
from tilewright.tiling.npu.plan import DIMENSIONS, NpuPlan
from tilewright.tiling.npu.slices import Cut
from tilewright.tiling.npu.slices import cut_of as cut_of

LayerPlan = NpuPlan


def _cut(problem: LayerProblem, plan: NpuPlan) -> Cut:
    return cut_of(problem.one_layer, problem.machine, plan.partition)


def violation(problem: LayerProblem, plan: NpuPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    for field in ("partition", "schedule"):
        limit, value = getattr(problem.limits, field), getattr(plan, field)
        if limit not in ("any", value):
            return f"{field} {value}: the limits allow {limit}"
    cut = _cut(problem, plan)
    step = cut.step(plan.tile)
    if plan.schedule == "IS" and step[0] < cut.sizes[0]:
        return f"input stationary: a tile has all {cut.sizes[0]} filters of a core, this one {step[0]}"
    if exact.apart(problem.limits) and step[0] == cut.sizes[0] > 1:
        return f"output stationary: a tile has a part of the {step[0]} filters of a core, this one all"
    for operand, elements in cut.need(step, plan.schedule).items():
        need, room = elements * cut.held_units[operand], cut.room[operand]
        if need > room:
            return f"memory overflow: {operand} needs {need} {problem.machine.unit}, a core holds {room}"
    return None


def objective(problem: LayerProblem, plan: NpuPlan) -> int:
    """Picoseconds or accesses of a valid plan by the closed form; the simulator must find the same."""
    cut = _cut(problem, plan)
    return int(measure(cut, cost(cut, plan), problem.counted))


def rank(problem: LayerProblem, plan: NpuPlan) -> tuple[int, ...]:
    """Return accesses, picoseconds and memory of a valid plan, which break ties."""
    cut = _cut(problem, plan)
    found, held = cost(cut, plan), exact.memory(cut, plan.schedule, cut.step(plan.tile))
    return int(accesses(cut, found)), int(time_ps(cut, found)), int(held)


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Picoseconds or accesses of a simulated plan."""
    return _costs(problem, report)[problem.counted]


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the two numbers that are traded for each other."""
    costs = _costs(problem, report)
    return {name: costs[name] for name in problem.traded or exact.COSTS}


def _costs(problem: LayerProblem, report: Report) -> dict[str, int]:
    assert report.sequential is not None
    return {"time": report.sequential.cycles, "accesses": sum(_moved(problem, report).values())}


def _moved(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return what an executed plan moved of each operand, in the machine's unit; outputs are complete."""
    units = problem.machine.units
    moved = {"input": 0, "weights": 0, "output": 0}
    for table in (report.loaded, report.written):
        for tensor, counts in table.items():  # those of each TLE, "input TLE0"
            moved[tensor.split()[0]] += report.total(counts)
    each = {"input": units.input, "weights": units.kernels, "output": units.output}
    return {operand: elements * each[operand] for operand, elements in moved.items()}


def simulate(
    problem: LayerProblem,
    plan: NpuPlan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right."""
    broken = violation(problem, plan)
    if broken is not None and not broken.startswith("memory overflow"):
        return Report.refused(Violation(broken.split(":")[0], 0, "plan", "a plan within the limits", broken))
    cut, layer = _cut(problem, plan), problem.one_layer
    given = expected = None
    if numeric:
        values, kernels = random_values(layer, seed)
        given, expected = data(cut, plan, values, kernels, reference_convolution(layer, values, kernels))
    report = execute(
        lower(cut, plan), overlapped=overlapped, data=given, expected=expected, deadline=deadline
    )
    if report.violation is None:
        report.measures = _measures(problem, plan, report)
    return report


def _measures(problem: LayerProblem, plan: NpuPlan, report: Report) -> NpuLayer:
    """Return what was measured, beside what the paper's formulas count."""
    cut = _cut(problem, plan)
    total, full, step = cost(cut, plan), published(cut, plan), cut.step(plan.tile)
    in_bits: dict[str, Any] = {}
    if problem.machine.bits is not None:
        moved, need = _moved(problem, report), cut.need(step, plan.schedule)
        in_bits = {
            "accesses_bits": sum(moved.values()),
            "moved_bits": moved,
            "buffers_bits": {name: size * cut.held_units[name] for name, size in need.items()},
        }
    return NpuLayer(
        **counted(report, "ps", lambda tensor: tensor.split()[0]),  # those of each TLE, "input TLE0"
        duration_ps=_costs(problem, report)["time"],
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
    machine, total = problem.machine, _costs(problem, report)["time"]
    size, latency = cost.bytes * machine.byte_ps, cost.bursts * machine.burst_ps
    parts = {"multipliers": total - size - latency, "dram": size, "bursts of dram": latency}
    return max(parts, key=lambda name: parts[name])


def best_bound(problem: LayerProblem) -> Bound:
    """Return a lower bound: the cost of tiles whose cores have room for all input maps."""
    least = exact.least(problem)
    if least is None:
        limits = problem.limits
        why = f"no tile fits partition {limits.partition} and schedule {limits.schedule}"
        return Bound("no tile", 0, impossible=why)
    return Bound("all maps at once", least)


def exhaustive(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan, or all plans of a front; None if nothing is feasible. That takes milliseconds."""
    if problem.traded:
        points = exact.front(problem, problem.traded, deadline)
        return Exact(points[0].values[0], tuple(point.plan for point in points)) if points else None
    found = exact.best(problem, deadline)
    return None if found is None else Exact(found.value, (found.plan,))
