"""What a report tells of a solved tiling problem: time, traffic, energy and gap of each layer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tilewright.core.overview import GraphNode, LeftOut, Overview, of_table
from tilewright.core.room import Asked
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling import halving
from tilewright.tiling.evaluation import best_bound, objective
from tilewright.tiling.execution import execute_plan
from tilewright.tiling.measures import LayerMeasures, TilingMeasures
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.panels import ExecutedParts, front_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import table
from tilewright.tiling.tiles import every_layer

SIMPLE_SECONDS = 20.0
"""How long a simple plan may take that the plan is compared with."""


def overview(problem: Problem, plan: Plan, measures: TilingMeasures) -> Overview:
    """Return what there is to show of a plan, from what was measured of it."""
    if problem.minimise == "pareto":
        return _front(problem, measures)
    simple = _simple(problem)
    shown = ExecutedParts(problem, _by_part(measures), None if simple is None else _by_part(simple))
    costs, bounds = _costs(problem, plan)
    whole = sum(costs.values()) or 1
    alone = problem.network is None
    shares = {} if alone else {name: cost / whole for name, cost in costs.items()}
    told = of_table(table(problem, measures)) if alone else Overview()
    return Overview(
        what="memory and operand" if told.columns else "layer",
        columns=told.columns or list(shown.columns(shares)),
        lines=told.lines or [layer.line(shares) for layer in shown.layers],
        costs={} if alone else costs,
        bounds={} if alone else bounds,
        decisions=every_layer(problem, plan),
        left_out=_left_out(problem),
        roof=shown.roof,
        points=[
            layer.point(shares)
            for layer in shown.layers
            if layer.picoseconds and layer.outermost and layer.macs
        ],
        traffic=shown.traffic,
        simple=None if simple is None else (halving.NAME, halving.ABOUT),
        memories=list(shown.memories()),
        spans=[] if alone else list(shown.spans()),
        graph=_graph(problem, shares),
        picture=alone,
    )


def _by_part(measures: TilingMeasures) -> Mapping[str, LayerMeasures]:
    """Return what was measured of each part of a network, or of a layer alone."""
    found: Mapping[str, LayerMeasures] = getattr(measures, "layers", {"": measures})
    return found


def _simple(problem: Problem) -> TilingMeasures | None:
    """Return what is measured of the simple plan, None where there is none or it takes its time."""
    plan = halving.halved(problem)
    if plan is None:
        return None
    until = time.monotonic() + SIMPLE_SECONDS
    try:
        report = execute_plan(halving.plain(problem), plan, Asked(overlapped=False, deadline=until))
    except OutOfTimeError:
        return None
    measures: TilingMeasures | None = report.measures
    return measures


def _front(problem: Problem, measures: TilingMeasures) -> Overview:
    told = of_table(table(problem, measures))
    return Overview(
        what="point",
        columns=told.columns,
        lines=told.lines,
        left_out=_left_out(problem),
        front=front_of(problem, measures),
        graph=_graph(problem, {}),
    )


def _costs(problem: Problem, plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return the objective of each layer of a network, and the bound on it that needs no search."""
    costs: dict[str, int] = {}
    bounds: dict[str, int] = {}
    known: dict[int, int] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        costs[name] = objective(part, one)
        if id(part) not in known:
            known[id(part)] = best_bound(part).value
        bounds[name] = known[id(part)]
    return costs, bounds


def _left_out(problem: Problem) -> list[LeftOut]:
    """Return the operations of a network whose cost is not counted."""
    bits = bits_of(problem.machine)
    return [
        LeftOut(each.name, each.kind, each.macs, -(-each.elements * bits // 8)) for each in problem.unmodelled
    ]


def _graph(problem: Problem, shares: Mapping[str, float]) -> list[GraphNode]:
    if problem.network is None:
        return []
    network = problem.network
    return [
        GraphNode(layer.name, layer.kind, reads, shares.get(layer.name))
        for layer, reads in zip(network.layers, network.producers, strict=True)
    ]
