"""Operations between the layers of a network: validity, cost, exact search and simulation of one's plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.core.bounds import Bound, Exact
from tilewright.core.measures import counted
from tilewright.simulator import Report, execute
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import Between, CycledBetween, TimedBetween
from tilewright.tiling.operations.arithmetic import not_computed, random_values
from tilewright.tiling.operations.machines import unit
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.scan_numbers import whole
from tilewright.tiling.operations.search import lower_bound, outside_of_space, priced, ranked
from tilewright.tiling.operations.units import Costs
from tilewright.tiling.operations.vector_search import misfit
from tilewright.tiling.operations.walk import OUTPUT
from tilewright.tiling.operations.walks import AnyWalk, walk_of
from tilewright.tiling.operations.walks import misfit as other_tile

LayerPlan = OperationPlan


def _walk(problem: LayerProblem, plan: OperationPlan) -> AnyWalk:
    return walk_of(problem.one_operation, plan)


def violation(problem: LayerProblem, plan: OperationPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    operation, machine = problem.one_operation, problem.machine
    if (other := other_tile(operation, plan)) is not None:
        return other
    walk = _walk(problem, plan)
    return (
        walk.malformed()
        or outside_of_space(operation, machine, plan)
        or unit(machine, operation).overflow(walk.buffers)
        or misfit(operation, machine, walk)
    )


def objective(problem: LayerProblem, plan: OperationPlan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same."""
    does = unit(problem.machine, problem.one_operation)
    return does.costs(_walk(problem, plan), problem.level)[problem.counted]


def rank(problem: LayerProblem, plan: OperationPlan) -> tuple[int, ...]:
    """Return what a valid plan moves, its time, energy and memory, which break ties."""
    walk = _walk(problem, plan)
    does = unit(problem.machine, problem.one_operation)
    return ranked(does.costs(walk, problem.level), walk)


def at_least(problem: LayerProblem, plan: OperationPlan) -> str | None:
    """Say why what a plan costs is but a lower bound, or None where it is exact."""
    counted = "" if problem.traded else problem.counted
    return lower_bound(problem.one_operation, problem.machine, plan, counted)


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Cost of a simulated plan."""
    return int(getattr(report.measures, problem.objectives[problem.counted].measure))


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the numbers that are traded for each other."""
    names = problem.traded or ("cycles", "accesses")
    return {name: int(getattr(report.measures, problem.objectives[name].measure)) for name in names}


def simulate(
    problem: LayerProblem,
    plan: OperationPlan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: its tiles are moved and counted, and computed where that is exact in integers."""
    broken = violation(problem, plan)
    if broken is not None:
        return Report.beyond_limits(broken)
    operation, walk = problem.one_operation, _walk(problem, plan)
    does = unit(problem.machine, operation)
    given, expected = None, None
    reason = not_computed(operation, walk.steps)
    if numeric and reason is None:
        given = random_values(operation, seed)
        expected = {OUTPUT: whole(operation, given)}
    report = execute(
        does.program(walk),
        data=given,
        expected=expected,
        overlapped=overlapped and problem.machine.kind != "hierarchy",  # whose time is that of ports
        lockstep=problem.machine.kind == "dsp" and problem.machine.double_buffering,
        deadline=deadline,
    )
    if numeric and reason is not None:
        report.not_computed = (reason,)
    if report.violation is None:
        if problem.machine.kind == "hierarchy":
            report.sequential = report.overlapped = report.lockstep = None
        costs, further = does.measured(walk, report, problem.level), does.breakdown(walk, report)
        report.macs = np.zeros_like(report.macs)
        report.macs[:1] = operation.macs
        report.measures = _measures(problem, walk, report, costs, further)
    return report


def _measures(
    problem: LayerProblem, walk: AnyWalk, report: Report, costs: Costs, further: Mapping[str, Any]
) -> Between:
    """Return what was measured of an executed plan, whose costs are told by objective."""
    operation, machine = problem.one_operation, problem.machine
    known = problem.objectives
    named: dict[str, Any] = {known[name].measure: cost for name, cost in costs.items() if name in known}
    if "accesses_elements" not in named:
        named["accesses_elements"] = named["accesses_bits"] // machine.units.output
    told = {
        "operation": operation.op,
        "on": operation.on,
        "tile": walk.plan.tile._asdict(),
        "tiles": walk.steps,
        "buffers_elements": walk.buffers,
        "vector_operations": operation.work,
        "least_accesses_elements": operation.least,
        "limited_by": unit(machine, operation).limited_by(walk, costs),
    }
    if machine.kind == "npu":
        return TimedBetween(**counted(report, "ps", _operand), **told, **named, duration_of="serial")
    if machine.kind == "dsp":
        told["duration_of"] = "lockstep" if machine.double_buffering else "serial"
        told["energy_prices"] = machine.energy.source
    return CycledBetween(**counted(report), **told, **named, **further)


def _operand(tensor: str) -> str:
    """Return the operand of which a tensor is a core's part."""
    return tensor.split()[0]


def best_bound(problem: LayerProblem) -> Bound:
    """Return the least cost of all tiles that are compared, which takes milliseconds."""
    found = priced(problem.one_operation, problem.machine, problem.level, float("inf"))
    return Bound("tiles of operations", min(each.costs[problem.counted] for each in found))


def exhaustive(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan, or all plans of a front; None if nothing is feasible."""
    found = priced(problem.one_operation, problem.machine, problem.level, deadline)
    most = problem.limits.at_most.given
    within = [each for each in found if all(each.costs[name] <= limit for name, limit in most.items())]
    if not within:
        return None
    counted, operation = problem.counted, problem.one_operation
    further = problem.traded[1:] if problem.traded else ()

    def order(each: Any) -> tuple[Any, ...]:
        first = [each.costs[name] for name in (counted, *further)]
        sizes = [-size for size in each.plan.tile]
        return (*first, ranked(each.costs, walk_of(operation, each.plan)), sizes)

    within.sort(key=order)
    if not problem.traded:
        return Exact(within[0].costs[counted], (within[0].plan,))
    front = within[:1]
    for each in within[1:]:
        if each.costs[problem.traded[1]] < front[-1].costs[problem.traded[1]]:
            front.append(each)
    return Exact(front[0].costs[counted], tuple(each.plan for each in front))
