"""The execution of plans by the simulator: the only judge of what they cost and whether they are right."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from tilewright.core import front
from tilewright.core.room import Asked
from tilewright.simulator import Report, Violation
from tilewright.spec.layer import Layer
from tilewright.tiling.kinds import kind_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right.

    The layers of a network are executed one after the other, equal plans of equal layers once.
    """
    alone = problem.network is None
    if plan.front != (alone and problem.minimise == "pareto"):
        needed = "a plan for each layer" if plan.front else "a front"
        return Report.refused(Violation("kind of plan", 0, "plan", needed, "a plan of another kind"))
    if plan.front:
        return _simulate_front(problem, plan, asked)
    if len(plan.layers) != len(problem.parts):
        found = f"{len(plan.layers)} layers"
        return Report.refused(Violation("layers", 0, "plan", f"{len(problem.parts)} layers", found))
    executed: dict[tuple[int, Any], Report] = {}
    reports = []
    if alone:
        return _simulate(problem, plan, asked)
    large = asked.numeric and _too_many_macs(problem)
    for (_, part), layer_plan in zip(problem.parts, plan.split(), strict=True):
        key = (id(part), layer_plan)
        if key not in executed:
            numeric = asked.numeric and not (large and part.operation is None)
            executed[key] = execute_plan(part, layer_plan, asked._replace(numeric=numeric))
        reports.append(executed[key])
    report = Report.chain([name for name, _ in problem.parts], reports)
    report.numeric = _numeric(problem, reports, large)
    report.not_computed = tuple(reason for one in reports for reason in one.not_computed)
    if large:
        report.not_computed += (f"layers, as there are some of more than {_most_macs():,} MACs",)
    if report.violation is None:
        from tilewright.tiling.network_measures import network_measures  # for start-up time

        report.measures = network_measures(problem, report)
    return report


def _numeric(problem: Problem, reports: list[Report], large: bool) -> bool | None:
    """Whether all layers that are not too large computed the right numbers, and all operations that do."""
    found = [
        report.numeric
        for (_, part), report in zip(problem.parts, reports, strict=True)
        if report.violation is None
        and (report.numeric is not None or not (large or part.operation is not None))
    ]
    return None if None in found or not found else all(found)


def _simulate(problem: Problem, plan: Plan, asked: Asked) -> Report:
    if not isinstance(plan.layers[0], kind_of(problem).LayerPlan):
        needed, found = f"a plan for a machine of kind {problem.machine.kind}", "one of another kind"
        return Report.refused(Violation("kind of plan", 0, "plan", needed, found))
    report = kind_of(problem).simulate(problem, plan.layers[0], **asked._asdict())
    if asked.numeric and _too_many_macs(problem):
        report.not_computed += (
            f"the layer has more than {_most_macs():,} MACs, which are executed one by one",
        )
    return report


def _simulate_front(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute every plan of a front; the report is that of the first, with the numbers of all."""

    def judge(reports: list[Report]) -> dict[str, Any] | Violation:
        points = [kind_of(problem).trade_off(problem, report) for report in reports]
        assert problem.traded is not None
        more, less = problem.traded
        for first, second in pairwise(points):
            if not (first[more] < second[more] and first[less] > second[less]):
                found = f"{first} beside {second}"
                return Violation("front", 0, "plan", f"less {less} for more {more}", found)
        from tilewright.tiling.network_measures import layer_front  # for start-up time

        return {"front": layer_front(problem, points)}

    return front.simulate_front(plan.split(), lambda one: _simulate(problem, one, asked), judge)


def measured_objective(problem: Problem, report: Report) -> int:
    """Cost of a simulated plan."""
    if problem.network is None:
        return kind_of(problem).measured_objective(problem, report)
    pairs = zip(problem.parts, report.layers, strict=True)
    return sum(kind_of(part).measured_objective(part, layer) for (_, part), (_, layer) in pairs)


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes for a plan with that number of steps."""
    return 0.2 + steps * 1e-4


def numeric_elements(problem: Problem) -> int:
    """Elements of all tensors of the largest layer, as a numeric simulation holds them, if it does."""

    def elements(layer: Layer) -> int:
        rows, columns = layer.padded_plane
        shapes = (layer.kernels_shape, layer.output_shape, (*layer.input_shape[:2], rows, columns))
        return sum(prod(shape) for shape in shapes)

    layers = [part.one_layer for _, part in problem.parts if part.operation is None]
    if _too_many_macs(problem):
        return 0
    return max(map(elements, layers), default=0)


def _too_many_macs(problem: Problem) -> bool:
    """Whether layers are too large to be computed: a hierarchy executes them MAC by MAC."""
    macs = [part.one_layer.macs for _, part in problem.parts if part.operation is None]
    return problem.machine.kind == "hierarchy" and max(macs, default=0) > _most_macs()


def _most_macs() -> int:
    """Return the most MACs of a layer that are executed one by one."""
    from tilewright.simulator.level_numbers import MOST_MACS  # for start-up time

    return MOST_MACS
