"""Attention on a hierarchy: validity, cost, exact search and simulation of one's plan."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tilewright.core.bounds import Bound, Exact
from tilewright.core.measures import counted
from tilewright.simulator import Report, Violation
from tilewright.simulator.levels import READ, WRITTEN
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling.attention import execution
from tilewright.tiling.attention.apart import parts_of
from tilewright.tiling.attention.blocks import Walk
from tilewright.tiling.attention.bounds import any_schedule, pairs_of
from tilewright.tiling.attention.plan import AttentionPlan
from tilewright.tiling.attention.search import Goal, best_step, outside_of_space
from tilewright.tiling.attention.step import Moved, Step
from tilewright.tiling.hierarchy.cost import KINDS, attojoules, prices
from tilewright.tiling.hierarchy.measures import whole
from tilewright.tiling.kinds import kind_of
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import AttentionBlocks, CycledBetween, MovedBytes, MovedEnergy
from tilewright.tiling.operations.operation import Attention
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.problem import Problem

LayerPlan = AttentionPlan


def _attention(problem: LayerProblem) -> Attention:
    found: Attention = problem.one_operation.attention
    return found


def step_of(problem: LayerProblem, plan: AttentionPlan) -> Step:
    """Return what a plan of one step does."""
    assert plan.blocks is not None
    return Step(problem.machine, Walk(_attention(problem), plan.blocks), plan.scores, plan.context)


def _parts(problem: LayerProblem) -> tuple[Problem, ...]:
    assert isinstance(problem, Problem)
    return parts_of(problem)


def violation(problem: LayerProblem, plan: AttentionPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    if plan.blocks is None:
        return _violation_apart(problem, plan)
    attention, machine = _attention(problem), problem.machine
    if (outside := outside_of_space(attention, machine, plan.blocks)) is not None:
        return outside
    walk = Walk(attention, plan.blocks)
    for name, plans, sizes in (
        ("scores", plan.scores, len(walk.sizes)),
        ("context", plan.context, len(walk.products)),
    ):
        if len(plans) != sizes:
            return f"{name}: {len(plans)} plans of products, there are {sizes} sizes"
    step = step_of(problem, plan)
    if (overflow := step.overflow()) is not None:
        return overflow
    divide = problem.limits.factors != "any"
    for name, product, nest in step.nests():
        found = nest.malformed() or nest.outside_of_space(divide=divide) or nest.overflow()
        if found is not None:
            rule, _, details = found.partition(": ")
            return f"{rule}: {name} of {product.rows} rows and {product.keys} keys: {details}"
    return None


def _violation_apart(problem: LayerProblem, plan: AttentionPlan) -> str | None:
    parts = _parts(problem)
    if len(plan.apart) != len(parts):
        return f"apart: {len(plan.apart)} plans, there are {len(parts)} operations"
    for part, one in zip(parts, plan.apart, strict=True):
        kind = kind_of(part)
        if not isinstance(one, kind.LayerPlan):
            return "apart: the plan of another kind of operation"
        if (found := kind.violation(part, one)) is not None:
            return found
    return None


def _costs(problem: LayerProblem, plan: AttentionPlan) -> dict[str, int]:
    return step_of(problem, plan).costs(problem.level)


def objective(problem: LayerProblem, plan: AttentionPlan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same."""
    if plan.blocks is not None:
        return _costs(problem, plan)[problem.counted]
    pairs = zip(_parts(problem), plan.apart, strict=True)
    return sum(kind_of(part).objective(part, one) for part, one in pairs)


def rank(problem: LayerProblem, plan: AttentionPlan) -> tuple[int, ...]:
    """Return the bits that the outermost memory moves, cycles, energy, and what is reserved."""
    if plan.blocks is not None:
        costs = _costs(problem, plan)
        held = sum(step_of(problem, plan).held_bits().values())
        return costs["traffic"], costs["cycles"], costs["energy"], held
    pairs = zip(_parts(problem), plan.apart, strict=True)
    return tuple(map(sum, zip(*(kind_of(part).rank(part, one) for part, one in pairs), strict=True)))


def at_least(problem: LayerProblem, plan: AttentionPlan) -> str | None:
    """Say why what a plan costs is but a lower bound, or None where it is exact."""
    if plan.blocks is not None:
        return None
    from tilewright.tiling.operations.kind import at_least as of_operation  # for start-up time

    told = (
        of_operation(part, one)
        for part, one in zip(_parts(problem), plan.apart, strict=True)
        if isinstance(one, OperationPlan)
    )
    return next((why for why in told if why is not None), None)


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Cost of a simulated plan."""
    return int(getattr(report.measures, problem.objectives[problem.counted].measure))


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the numbers that are traded for each other: attention has no fronts."""
    raise NotImplementedError


# Simulation ---------------------------------------------------------------------------------------------


def simulate(
    problem: LayerProblem,
    plan: AttentionPlan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: block by block, or operation by operation."""
    broken = violation(problem, plan)
    if broken is not None:
        return Report.beyond_limits(broken)
    if plan.blocks is None:
        return _simulate_apart(problem, plan, numeric=numeric, seed=seed, deadline=deadline)
    planned = step_of(problem, plan)
    counts = execution.Counting(planned, deadline)
    step = Step(problem.machine, planned.walk, plan.scores, plan.context, counts.flow())
    report = Report(
        violation=_other_sizes(planned, counts),
        labels=["attention"],
        loaded={name: np.array([count]) for name, count in step.loaded.items()},
        freed={},
        written={"context": np.array([step.flow.brought["context"]])},
        computed={"context": np.array([step.flow.brought["context"]])},
        footprint={f"{step.level.name} {name}": np.array([size]) for name, size in _reserved(step).items()},
        macs=np.array([counts.macs]),
        transfers=0,
    )
    if numeric:
        reason = execution.not_computed(step)
        report.not_computed = () if reason is None else (reason,)
        if execution.is_computed(step):
            report.numeric = execution.computes(step, seed, deadline)
    if report.violation is None:
        report.measures = _measures(problem, step, counts, report)
    return report


def _reserved(step: Step) -> dict[str, int]:
    """Return the elements of which the level holds a copy."""
    return {name: step.walk.held[name] for name, bits in step.held_bits().items() if bits}


def _other_sizes(step: Step, counts: execution.Counting) -> Violation | None:
    """Say what was held when a step was executed that it has no room for."""
    for name, most in step.walk.held.items():
        if counts.held[name] > most:
            found = f"{counts.held[name]} elements of {name}"
            return Violation("memory overflow", 1, step.level.name, f"at most {most}", found)
    return None


def _measures(problem: LayerProblem, step: Step, counts: execution.Counting, report: Report) -> CycledBetween:
    blocks, attention, machine = step.walk.blocks, step.attention, problem.machine
    costs = step.costs(problem.level)
    named: dict[str, Any] = {
        problem.objectives[name].measure: cost for name, cost in costs.items() if name in problem.objectives
    }
    sizes, energies = _by_level(step, step.moved)
    told: dict[str, Any] = {"levels_bytes": sizes}
    if machine.priced:
        price = machine.mac_pj if machine.vector_op_pj is None else machine.vector_op_pj
        told["levels_aj"] = energies
        told["mac_aj"] = counts.macs * attojoules(machine.mac_pj, 1)
        told["vector_aj"] = step.flow.work * attojoules(price, 1)
    return CycledBetween(
        **counted(report),
        **named,
        **told,
        operation="attention",
        on="multipliers",
        tile={"queries": blocks.queries, "heads": blocks.heads, "keys": blocks.keys},
        tiles=counts.count,
        buffers_elements=_reserved(step),
        vector_operations=step.flow.work,
        least_accesses_elements=any_schedule(attention, machine),
        limited_by=step.limited_by(),
        attention=AttentionBlocks(level=blocks.level, order=blocks.order, stay=list(blocks.stay)),
    )


def _by_level(step: Step, moved: Moved) -> tuple[dict[str, MovedBytes], dict[str, MovedEnergy]]:
    """Return what each memory reads and writes, in bytes and in attojoules."""
    sizes, energies = {}, {}
    for name, amounts in moved.items():
        bits: list[dict[str, int]] = [
            {
                kind: int(amounts[place, way]) * step.widths[place]
                for place, kind in enumerate(KINDS)
                if amounts[place, way]
            }
            for way in (READ, WRITTEN)
        ]
        read, written = ({kind: whole(size) for kind, size in table.items()} for table in bits)
        sizes[name] = MovedBytes(read=read, written=written)
        paid = [
            {kind: size * price for kind, size in table.items()}
            for table, price in zip(bits, prices(step.memories[name]), strict=True)
        ]
        energies[name] = MovedEnergy(read=paid[0], written=paid[1])
    return sizes, energies


def _simulate_apart(
    problem: LayerProblem, plan: AttentionPlan, *, numeric: bool, seed: int, deadline: float
) -> Report:
    """Execute the operations one after the other; measures are their sums."""
    from tilewright.simulator.level_numbers import MOST_MACS  # for start-up time

    parts = _parts(problem)
    large = any(part.layer is not None and part.layer.macs > MOST_MACS for part in parts)
    reports = [
        kind_of(part).simulate(part, one, numeric=numeric, overlapped=False, seed=seed, deadline=deadline)
        for part, one in zip(parts, plan.apart, strict=True)
    ]
    between = [each.op for each in _attention(problem).between]
    report = Report.chain(["scores", *between, "context"], reports)
    report.layers, report.sequential, report.overlapped, report.lockstep = (), None, None, None
    if numeric:
        report.not_computed = tuple(reason for each in reports for reason in each.not_computed)
        if large:
            report.not_computed += (f"products of more than {MOST_MACS:,} MACs",)
        report.numeric = None if report.not_computed else report.numeric
    if report.violation is None:
        report.measures = _measures_apart(problem, parts, report, reports)
    return report


def _measures_apart(
    problem: LayerProblem, parts: tuple[Problem, ...], report: Report, reports: list[Report]
) -> CycledBetween:
    each, machine = [one.measures for one in reports], problem.machine
    sums = ("accesses_elements", "duration_cycles", "energy_aj", "edp_nj_cycles")
    named: dict[str, Any] = {name: sum(getattr(one, name) or 0 for one in each) for name in sums}
    longest = max(each, key=lambda one: int(one.duration_cycles))
    told: dict[str, Any] = {"levels_bytes": _added([one.levels_bytes for one in each], MovedBytes)}
    if machine.priced:
        told["levels_aj"] = _added([one.levels_aj for one in each], MovedEnergy)
        told["mac_aj"] = sum(getattr(one, "mac_aj", None) or 0 for one in each)
        told["vector_aj"] = sum(getattr(one, "vector_aj", None) or 0 for one in each)
    return CycledBetween(
        **counted(report),
        **named,
        **told,
        operation="attention, operation by operation",
        on="multipliers",
        tile={},
        tiles=sum(getattr(one, "tiles", 1) for one in each),
        buffers_elements={},
        vector_operations=sum(part.operation.work for part in parts if part.operation is not None),
        least_accesses_elements=any_schedule(_attention(problem), machine),
        limited_by=longest.limited_by or "",
    )


def _added(tables: list[dict[str, Any]], kind: Any) -> dict[str, Any]:
    """Return what memories move in several operations together."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for table in tables:
        for name, moved in table.items():
            own = found.setdefault(name, {"read": {}, "written": {}})
            for way, amounts in (("read", moved.read), ("written", moved.written)):
                for each, amount in amounts.items():
                    own[way][each] = own[way].get(each, 0) + amount
    return {name: kind(**ways) for name, ways in found.items()}


# Search -------------------------------------------------------------------------------------------------


def best_bound(problem: LayerProblem) -> Bound:
    """Return a bound on both: on one step, and on its operations one after the other."""
    apart = sum(kind_of(part).best_bound(part).value for part in _parts(problem))
    return Bound("compulsory traffic of attention", min(apart, _least(problem)))


def _least(problem: LayerProblem) -> int:
    """Return what one step costs at least, in no time."""
    attention, machine = _attention(problem), problem.machine
    macs = pairs_of(attention) * (attention.depth + attention.values)
    if problem.counted == "accesses":
        outermost = problem.level == machine.levels[0].name
        return any_schedule(attention, machine) if outermost else 0
    if problem.counted == "energy":
        return macs * attojoules(machine.mac_pj, 1)
    return -(-macs // machine.most_macs_per_cycle) if problem.counted == "cycles" else 0


def exhaustive(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan, one step or operation by operation; None if nothing is feasible."""
    now, apart = time.monotonic(), None
    goal = Goal(problem.counted, problem.level, problem.limits.factors == "any")
    bounds, found = [], list[Exact]()
    try:
        apart = _apart(problem, now + (deadline - now) / 2)
        if apart is not None:
            found.append(apart)
            bounds.append(apart.value if apart.proven else apart.bound or 0)
    except OutOfTimeError:
        bounds.append(sum(kind_of(part).best_bound(part).value for part in _parts(problem)))
    try:
        step = best_step(_attention(problem), problem.machine, goal, deadline)
        if step is not None:
            found.append(Exact(step.value, (step.plan,), step.bound == step.value, step.bound))
            bounds.append(max(step.bound, _least(problem)))
    except OutOfTimeError:
        bounds.append(_least(problem))
    if not found:
        if bounds:
            raise OutOfTimeError
        return None
    best, bound = min(found, key=lambda each: (each.value, rank(problem, each.layers[0]))), min(bounds)
    return best._replace(proven=bound >= best.value, bound=min(bound, best.value))


def _apart(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan of the operations one after the other, None if there is none."""
    plans, value, bound, proven = [], 0, 0, True
    known: dict[Problem, Exact] = {}
    for part in _parts(problem):
        if part not in known:
            one = kind_of(part).exhaustive(part, deadline)
            if one is None:
                return None
            known[part] = one
        one = known[part]
        least = one.value if one.proven else one.bound
        plans.append(one.layers[0])
        value, proven = value + one.value, proven and one.proven
        bound += kind_of(part).best_bound(part).value if least is None else least
    return Exact(value, (AttentionPlan(None, apart=tuple(plans)),), proven, bound)
