"""Whether a plan is valid, what it costs in closed form, and what ``auto`` runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.fusion.bounds import describe_lack
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import TileChoice, cycle_limit, evaluate_tile, fits, is_tried
from tilewright.fusion.group.best_tile import violation as tile_violation
from tilewright.fusion.host import host_cost, host_cycles
from tilewright.fusion.machine import HOST
from tilewright.fusion.plan import Group, Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.execution_order import layouts_by_map
from tilewright.simulator import Report

# Validity and cost -----------------------------------------------------------------------------------


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    numbers = {op.name: op.number for op in problem.ops}
    executed: set[int] = set()
    for position, group in enumerate(plan.groups, 1):
        names = f"{', '.join(group.nodes[:4])}{', ...' if len(group.nodes) > 4 else ''}"
        where = f"group {position} ({names})"
        reason = (
            _wrong_members(numbers, executed, group, where)
            or _wrong_order(problem, numbers, executed, group, where)
            or _wrong_tile(problem, tuple(numbers[name] for name in group.nodes), group, where)
        )
        if reason is not None:
            return reason
        executed.update(numbers[name] for name in group.nodes)
    if len(executed) < len(problem.ops):
        missing = [op.name for op in problem.ops if op.number not in executed]
        return f"operations: no group has {', '.join(missing[:4])}"
    return _wrong_layouts(problem, plan) or _too_slow(problem, plan)


def _wrong_layouts(problem: Problem, plan: Plan) -> str | None:
    """Say which map has no layout, or one that it cannot have."""
    numbers = {op.name: op.number for op in problem.ops}
    groups = [tuple(numbers[name] for name in group.nodes) for group in plan.groups]
    needed = dict(layouts_by_map(problem, groups, {}))
    found = dict(plan.layouts)
    for name in {**needed, **found}:
        if name not in needed:
            why = (
                "is not in DRAM"
                if problem.machine.layouts
                else "has one layout only: machine.layouts is not set"
            )
            return f"layouts: {name} {why}"
        if name not in found:
            return f"layouts: {name} is in DRAM and has none"
    of_tensor: dict[int, str] = {}
    for number, layout in decided_maps(problem, plan).items():
        index, name = problem.tensor_of[number], problem.graph.name(number)
        able = problem.tensors[index].layouts
        if layout not in able:
            return f"layouts: {name} has {layout}, it can have {', '.join(able)}"
        if of_tensor.setdefault(index, layout) != layout:
            return f"layouts: {name} has {layout}, the maps that are read beside it {of_tensor[index]}"
    return None


def decided_maps(problem: Problem, plan: Plan) -> dict[int, str]:
    """Return a plan's layouts by the numbers of the maps."""
    numbers = {problem.graph.name(number): number for number in problem.tensor_of}
    return {numbers[name]: layout for name, layout in plan.layouts if name in numbers}


def decided_layouts(problem: Problem, plan: Plan) -> dict[int, str]:
    """Return a valid plan's layouts by the numbers of the DRAM tensors."""
    return {problem.tensor_of[number]: layout for number, layout in decided_maps(problem, plan).items()}


def copies(problem: Problem, plan: Plan) -> dict[int, int]:
    """Return the maps that a valid plan has copied into or from another layout, with the cycles of each."""
    return problem.copied(decided_layouts(problem, plan))


def _wrong_members(
    numbers: Mapping[str, int], executed: Collection[int], group: Group, where: str
) -> str | None:
    """Say which operation of a group is unknown, or a member of an earlier group as well."""
    for name in group.nodes:
        if name not in numbers:
            return f"operations: {where} has the unknown operation {name}"
        if numbers[name] in executed:
            return f"operations: {where} has {name}, which an earlier group or place has"
    return None


def _wrong_order(
    problem: Problem, numbers: Mapping[str, int], executed: Collection[int], group: Group, where: str
) -> str | None:
    """Say why a group cannot be executed after those before it."""
    nodes = tuple(numbers[name] for name in group.nodes)
    if len(set(nodes)) < len(nodes):
        return f"order: {where} does not have its operations in the order of execution, each once"
    for node in nodes:
        for producer in problem.ops[node].producers:
            if producer >= 0 and producer not in executed and producer not in nodes:
                return f"order: {where} reads {problem.ops[producer].name}, which no earlier group computes"
    orders = problem.orders_of(nodes) if tuple(sorted(nodes)) in problem.allowed else None
    if orders is not None and nodes not in orders.listed:
        why = "" if orders.every else ", one in which its branches stay together (docs/fusion.md)"
        return f"order: {where} does not have its operations in the order of execution{why}"
    return None


def _wrong_tile(problem: Problem, nodes: tuple[int, ...], group: Group, where: str) -> str | None:
    """Say why a group cannot be executed as one, with its tile."""
    if any(engine_of(problem.ops[node]) == HOST for node in nodes):
        if len(nodes) > 1 or group.tile is not None:
            return f"host: {where} is not computed by the accelerator, so it has no tile and stays alone"
        return None
    if group.tile is None:
        alone = len(nodes) == 1 and not fits(problem, nodes)
        return f"tile: {where} has none" + (f": {describe_lack(problem, nodes)}" if alone else "")
    if (members := tuple(sorted(nodes))) not in problem.allowed:
        return f"template: {where} matches none"
    fused, may_be_tiled = problem.fused(nodes), problem.allowed[members]
    if not may_be_tiled and (group.tile.rows, group.tile.columns) != fused.plane:
        return f"template: {where} may not be tiled"
    reason = tile_violation(fused, group.tile)
    if reason is None and not is_tried(problem, fused, group.tile, not may_be_tiled):
        reason = "tile: its sizes are none of those that plans have (docs/fusion.md)"
    if reason is None:
        return None
    rule, _, details = reason.partition(": ")
    return f"{rule}: {where}: {details}"


def _too_slow(problem: Problem, plan: Plan) -> str | None:
    """Say by how much a plan of little memory takes too long."""
    if problem.minimise != "memory":
        return None
    limit, cycles = cycle_limit(problem), sum(choice.cycles for choice in choices(problem, plan))
    cycles += sum(host_cycles(problem, op) for op in problem.ops) + sum(copies(problem, plan).values())
    return f"cycles: {cycles} are needed, at most {limit} are allowed" if cycles > limit else None


def choices(problem: Problem, plan: Plan) -> list[TileChoice]:
    """Return what each group of a valid plan costs, without those of the host."""
    cost_of: dict[object, TileChoice] = {}
    costs, layouts = [], decided_layouts(problem, plan)
    for nodes, group in computed_groups(problem, plan):
        fused = problem.fused(nodes, layouts)
        key = (fused.key, group.tile)
        if key not in cost_of:
            assert group.tile is not None
            cost_of[key] = evaluate_tile(problem, fused, group.tile)
        costs.append(cost_of[key])
    return costs


def computed_groups(problem: Problem, plan: Plan) -> list[tuple[tuple[int, ...], Group]]:
    """Return the groups that the accelerator executes, with the numbers of their operations."""
    numbers = {op.name: op.number for op in problem.ops}
    return [
        (tuple(numbers[name] for name in group.nodes), group)
        for group in plan.groups
        if group.tile is not None
    ]


def objective(problem: Problem, plan: Plan) -> int:
    """Return the cost of a valid plan by the closed form; the simulator must find the same."""
    costs = choices(problem, plan)
    if problem.minimise == "memory":
        return max(choice.peak for choice in costs)
    copied = sum(map(problem.copy_cost, copies(problem, plan).values()))
    return sum(choice.cost for choice in costs) + sum(host_cost(problem, op) for op in problem.ops) + copied


def measured_objective(problem: Problem, report: Report) -> int:
    """Return the cost of a simulated plan."""
    return problem.measured(report.measures)


# How the room is run ---------------------------------------------------------------------------------


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes."""
    return 1.0 + 0.02 * len(problem.ops)


def numeric_elements(problem: Problem) -> int:
    """Elements of the largest tensors, as a numeric simulation holds them."""
    return 4 * problem.machine.arrays * max(prod(op.spec.input) + prod(op.spec.output) for op in problem.ops)


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    return 1_000 * (1 + len(problem.ops))


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the heuristics and the exact search."""
    return Portfolio(CONSTRUCT, "downsets")
