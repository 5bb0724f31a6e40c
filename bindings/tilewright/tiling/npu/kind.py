"""Tiling on a multicore NPU: validity, cost, exact search and simulation of one layer's plan."""

from __future__ import annotations

from tilewright.core.bounds import Bound, Exact
from tilewright.simulator import Report, execute
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.npu import exact
from tilewright.tiling.npu.bounds import lower_bound
from tilewright.tiling.npu.cost import accesses, cost, measure, time_ps
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.lowering import data, lower
from tilewright.tiling.npu.measures import costs_of, measure_execution
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.npu.vocabulary import view

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
    seen = view(problem, plan)
    return int(accesses(seen.cut, seen.cost)), int(time_ps(seen.cut, seen.cost)), int(seen.held)


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Picoseconds or accesses of a simulated plan."""
    return costs_of(problem, report)[problem.counted]


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the two numbers that are traded for each other."""
    costs = costs_of(problem, report)
    return {name: costs[name] for name in problem.traded or exact.COSTS}


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
        return Report.beyond_limits(broken)
    cut, layer = _cut(problem, plan), problem.one_layer
    given = expected = None
    if numeric:
        values, kernels = random_values(layer, seed)
        given, expected = data(cut, plan, values, kernels, reference_convolution(layer, values, kernels))
    report = execute(
        lower(cut, plan), overlapped=overlapped, data=given, expected=expected, deadline=deadline
    )
    if report.violation is None:
        report.measures = measure_execution(problem, plan, report)
    return report


def best_bound(problem: LayerProblem) -> Bound:
    """Return a lower bound: the cost of tiles whose cores have room for all input maps."""
    least = lower_bound(problem)
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
