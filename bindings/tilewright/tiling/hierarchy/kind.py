"""Tiling on a hierarchy of memories and arrays: validity, cost, exact search, simulation of a plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bounds import Bound, Exact
from tilewright.core.branch_and_bound import ignore
from tilewright.simulator import Report
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.simulator.level_numbers import MOST_MACS, NotThereError, NumericRun
from tilewright.simulator.levels import READ, WRITTEN, Tally
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.cost import KINDS, Cost, cost_of, shown
from tilewright.tiling.hierarchy.exact.lattice import MOST, Lattice
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.lowering import lower
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.measures import measure_execution
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.machine_kind import LayerProblem

LayerPlan = HierarchyPlan


def violation(problem: LayerProblem, plan: HierarchyPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    nest = Nest(problem.one_layer, problem.machine, plan)
    divide = problem.limits.factors != "any"
    return nest.malformed() or nest.outside_of_space(divide=divide) or nest.overflow()


def objective(problem: LayerProblem, plan: HierarchyPlan) -> int:
    """Cost of a valid plan, as it is counted level by level."""
    cost = _cost(problem.one_layer, problem.machine, plan)
    return shown(problem.counted, cost.value(problem.counted, problem.level))


def rank(problem: LayerProblem, plan: HierarchyPlan) -> tuple[int, ...]:
    """Return the bits that the outermost memory moves, cycles, energy and bits that others reserve."""
    cost = _cost(problem.one_layer, problem.machine, plan)
    reserved = Nest(problem.one_layer, problem.machine, plan).reserved
    return cost.traffic, cost.cycles, cost.energy, reserved


@lru_cache(maxsize=4096)
def _cost(layer: Layer, machine: HierarchyMachine, plan: HierarchyPlan) -> Cost:
    """Return what a plan costs; a network's layers are asked for again with each better plan of another."""
    return cost_of(Nest(layer, machine, plan))


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Cost of a simulated plan."""
    return int(getattr(report.measures, problem.objectives[problem.counted].measure))


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the numbers that are traded for each other."""
    names = problem.traded or ("cycles", "energy")
    return {name: int(getattr(report.measures, problem.objectives[name].measure)) for name in names}


def simulate(
    problem: LayerProblem,
    plan: HierarchyPlan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right."""
    layer = problem.one_layer
    broken = violation(problem, plan)
    if broken is not None:
        return Report.beyond_limits(broken)
    nest = Nest(layer, problem.machine, plan)
    cost = cost_of(nest)
    report = Report(
        violation=None,
        labels=["layer"],
        loaded=_outermost(cost.tally, READ, KINDS),
        freed={},
        written=_outermost(cost.tally, WRITTEN, ("output", "partial")),
        computed={"output": np.array([prod(layer.output_shape)])},
        footprint=_footprint(nest),
        macs=np.array([layer.macs]),
        transfers=0,
    )
    if numeric and layer.macs <= MOST_MACS:
        report.numeric = _computes(nest, seed, deadline)
    report.measures = measure_execution(problem, nest, cost, report)
    return report


def _computes(nest: Nest, seed: int, deadline: float) -> bool:
    """Whether a nest computes its layer with real integers, tile by tile."""
    values, kernels = random_values(nest.layer, seed)
    try:
        result = NumericRun(lower(nest), nest.layer, deadline).run(values, kernels)
    except NotThereError:
        return False
    return bool(np.array_equal(result, reference_convolution(nest.layer, values, kernels)))


def _outermost(tally: Tally, way: int, kinds: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    """Return what is moved from or to the outermost memory, by what it is."""
    counts = tally.every[0, :, way].sum(axis=0)
    return {kind: np.array([counts[KINDS.index(kind)]]) for kind in kinds if counts[KINDS.index(kind)]}


def _footprint(nest: Nest) -> dict[str, NDArray[np.int64]]:
    """Return the elements of each operand that an instance of each memory holds, but the first."""
    found = {}
    for i, node in enumerate(nest.machine.nodes[1:], 1):
        level = nest.machine.levels[node.level]
        for operand in node.holds:
            found[f"{level.name} {operand}"] = np.array([level.copies * nest.held(operand, i)])
    return found


def best_bound(problem: LayerProblem) -> Bound:
    """Return a lower bound: every memory is filled with what it needs at least, and no PE ever waits."""
    layer, machine = problem.one_layer, problem.machine
    if problem.limits.factors == "any" or Lattice(layer).many > MOST:
        given = problem.counted, problem.level
        least = min(lower_bound(layer, machine.keeping(kept), *given) for kept in machine.choices)
    else:
        task = Task(layer, machine, problem.counted, problem.level)
        least = min(Tables(task, kept).least() for kept in machine.choices)
    return Bound("compulsory traffic", shown(problem.counted, least))


def exhaustive(
    problem: LayerProblem,
    deadline: float,
    start: HierarchyPlan | None = None,
    told: Callable[[Exact], None] = ignore,
    latest: float | None = None,
) -> Exact | None:
    """Return the best plan of a layer, or all plans of a front; None if nothing is feasible.

    Where steps need not divide, the plan may be not proven but have a proven bound beside it.

    Parameters
    ----------
    start
        A valid plan that is known; a front does not need it.
    told
        Called with each better plan and each better bound, where steps need not divide.
    latest
        ``time.monotonic()`` until when ties may be broken, by default the deadline.
    """
    if problem.traded:
        return _front(problem, deadline)
    until = deadline if latest is None else latest
    if problem.limits.factors == "any":
        return _any_steps(problem, deadline, start, told, until)
    from tilewright.tiling.hierarchy.exact import search, ties  # for start-up time: numba

    task, began = Task.of(problem), time.monotonic()
    known = None if start is None else search.BestPlan(task.value(start), start, False)
    found = search.best_plan(task, deadline, start=known)
    if found is not None and found.proven:
        found = ties.break_ties(task, found, time.monotonic() - began, until)
    return found and Exact(shown(problem.minimise, found.value), (found.plan,), found.proven)


def _any_steps(
    problem: LayerProblem,
    deadline: float,
    start: HierarchyPlan | None,
    told: Callable[[Exact], None],
    until: float,
) -> Exact | None:
    """Return the best plan whose steps need not divide; parameters as of `exhaustive`."""
    from tilewright.tiling.hierarchy.exact import any_plan, search, ties  # for start-up time: numba

    def exact(found: any_plan.AnyPlan) -> Exact:
        value, bound = (shown(problem.minimise, each) for each in (found.value, found.bound))
        return Exact(value, (found.plan,), found.bound == found.value, bound)

    task, began = Task.of(problem), time.monotonic()
    best = any_plan.best_any_plan(task, deadline, lambda found: told(exact(found)), start)
    if best is not None and best.bound == best.value:
        least = search.BestPlan(best.value, best.plan, True)
        best = best._replace(plan=ties.break_ties(task, least, time.monotonic() - began, until).plan)
    return best and exact(best)


def _front(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the plans of a front."""
    from tilewright.tiling.hierarchy.exact import capacity, front  # for start-up time: numba

    assert problem.traded is not None
    if problem.trades_capacity:
        points, proven = capacity.capacity_front(problem.one_layer, problem.machine), True
    else:
        points, proven = front.pareto_front(Task.of(problem), problem.traded, deadline)
        if not points and not proven:
            raise OutOfTimeError
    return Exact(points[0].values[0], tuple(point.plan for point in points), proven) if points else None
