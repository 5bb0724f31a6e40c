"""Tiling on a scratchpad DSP: validity, cost, exact search and simulation of one layer's plan."""

from __future__ import annotations

import time
from dataclasses import replace

from tilewright.core.bounds import Exact
from tilewright.simulator import Report, execute
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling.dsp import bounds, cost, exact
from tilewright.tiling.dsp.admitted import admitted
from tilewright.tiling.dsp.compute import loop_of, misfit
from tilewright.tiling.dsp.lowering import data, lower
from tilewright.tiling.dsp.measures import costs_of, measure_execution
from tilewright.tiling.dsp.nest import K, Nest, nest_of
from tilewright.tiling.dsp.plan import HALIDE, LOOPS, DspPlan, allowed
from tilewright.tiling.machine_kind import LayerProblem

LayerPlan = DspPlan


def _nest(problem: LayerProblem) -> Nest:
    return nest_of(problem.one_layer, problem.machine)


def violation(problem: LayerProblem, plan: DspPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    nest, machine, limit = _nest(problem), problem.machine, problem.limits.schedule
    names = allowed(limit)
    if names and plan.schedule not in names:
        return f"schedule {plan.schedule}: the limits allow {', '.join(names)}"
    if limit == "any" and plan.reuse == "weights":
        return f"schedule {plan.schedule}: weights that all stay need limits.schedule = any+weights"
    trips = nest.trips(plan.tile)
    if limit == HALIDE and trips[K] > 1:
        return f"tile of {nest.step(plan.tile)[K]} input maps: the limits allow all {nest.sizes[K]} at once"
    buffers = nest.held(nest.step(plan.tile), plan.reuse)
    if sum(buffers.values()) > machine.buffer_capacity:
        shown = ", ".join(f"{name} {size}" for name, size in buffers.items())
        twice = ", twice for double buffering" if machine.copies == 2 else ""
        return (
            f"memory overflow: the buffers need {shown} {machine.unit}{twice}; "
            f"the memory holds {machine.capacity}"
        )
    inner = [loop for loop in plan.order if trips[LOOPS.index(loop)] > 1][-1:]
    if plan.reuse == "none" and machine.double_buffering and inner == ["k"]:
        return "partial sums: the next tile needs what this one has not written back yet"
    return misfit(nest, plan)


def objective(problem: LayerProblem, plan: DspPlan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same."""
    nest = _nest(problem)
    return cost.measure(nest, plan, problem.counted, exact.local_traffic(nest))


def rank(problem: LayerProblem, plan: DspPlan) -> tuple[int, ...]:
    """Return accesses, cycles, energy and memory of a valid plan, which break ties."""
    nest, names = _nest(problem), ("accesses", "cycles", "energy", "memory")
    return cost.measures(nest, plan, names, exact.local_traffic(nest))


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Cost of a simulated plan."""
    return costs_of(problem, report)[problem.counted]


def simulate(
    problem: LayerProblem,
    plan: DspPlan,
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
    nest, layer = _nest(problem), problem.one_layer
    given = expected = None
    if numeric:
        values, kernels = random_values(layer, seed)
        given, expected = data(nest, values, kernels, reference_convolution(layer, values, kernels))
    report = execute(
        lower(nest, plan, exact.local_traffic(nest)),
        overlapped=overlapped,
        lockstep=problem.machine.double_buffering,
        data=given,
        expected=expected,
        deadline=deadline,
    )
    if report.violation is None:
        report.measures = measure_execution(problem, plan, report)
    return report


def best_bound(problem: LayerProblem) -> bounds.LayerBound:
    """Return a lower bound that holds for every schedule on the machine."""
    nest = _nest(problem)
    return bounds.best_bound(nest, problem.counted, exact.local_traffic(nest))


def exhaustive(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan, or all plans of a front; None if nothing is feasible.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which the best found so far is returned without proof.
    """
    nest, minimise, limit = _nest(problem), problem.minimise, problem.limits.schedule
    local = exact.local_traffic(nest)
    if problem.traded:
        front, proven = exact.pareto_front(nest, limit, local, deadline, problem.traded)
        if not front and not proven:
            raise OutOfTimeError
        return Exact(front[0].values[0], tuple(point.plan for point in front), proven) if front else None
    given = problem.limits.at_most.given
    if problem.constraints:
        only = admitted(problem, nest)
        found, proven = exact.cheapest(nest, minimise, limit, local, deadline, given, admitted=only)
    elif minimise == "accesses" and not given:
        found = exact.fewest_accesses(nest, limit, deadline=deadline)
        proven = time.monotonic() <= deadline
        if found is not None and proven and found.plan.reuse != "weights":
            until = min(deadline, time.monotonic() + exact.PARAMS.tie_seconds)
            found, _ = exact.cheapest(nest, minimise, problem.limits.orders, local, until, fewest=found)
    else:
        found, proven = exact.cheapest(nest, minimise, limit, local, deadline, given)
    if found is None and not proven:
        raise OutOfTimeError
    if found is None:
        return None
    plan = found.plan
    if nest.machine.vector_unit is not None:
        plan = replace(plan, inner_loop=loop_of(nest, plan))
    return Exact(found.value, (plan,), proven)


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the two numbers of a point of a Pareto front (equations 5.22 and 5.23, without constants)."""
    costs = costs_of(problem, report)
    return {name: costs[name] for name in problem.traded or exact.THROUGHPUT}
