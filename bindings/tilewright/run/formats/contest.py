"""Files of the MLSys 2026 contest: graphs as they are, and solutions, written and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tilewright.core import json_file
from tilewright.core.files import write_atomically
from tilewright.run.checking.finding import Finding, verdict
from tilewright.run.instance import Instance
from tilewright.scheduling import Plan, Problem, simulate, violation
from tilewright.scheduling.graph import MAX_OPERATIONS, MAX_TENSORS
from tilewright.scheduling.plan import MAX_STEPS, MAX_TILES, Subgraph, granularity, numbers
from tilewright.scheduling.rules import latencies
from tilewright.scheduling.subgraph.structure import structure
from tilewright.spec.errors import InputError

MAX_BYTES = 100_000_000
"""Largest solution that is read."""

LISTS = ("subgraphs", "granularities", "tensors_to_retain", "traversal_orders", "subgraph_latencies")

CLOSE = 1e-6
"""Relative difference up to which a latency that a solution tells is right: it is printed and read again."""


def solution(problem: Problem, plan: Plan) -> dict[str, Any]:
    """Return a plan as the contest wants it: lists side by side, one entry for each subgraph."""
    graph = problem.graph
    resident: tuple[int, ...] = ()
    orders: list[list[int] | None] = []
    for step in plan.subgraphs:
        found = structure(problem, step.operations, resident, step.retained)
        assert not isinstance(found, str)
        plain = step.order == "rows"
        orders.append(None if plain else step.tiles(found.width, found.height))
        resident = step.retained
    return {
        "subgraphs": [list(step.operations) for step in plan.subgraphs],
        "granularities": [list(step.granularity) for step in plan.subgraphs],
        "tensors_to_retain": [list(step.retained) for step in plan.subgraphs],
        "traversal_orders": orders,
        "subgraph_latencies": [ticks / graph.scale for ticks in latencies(problem, plan)],
    }


def write(problem: Problem, plan: Plan, path: str | Path) -> None:
    """Write a plan as the contest wants it."""
    write_atomically(Path(path), json.dumps(solution(problem, plan), allow_nan=False) + "\n")


def is_solution(path: str | Path) -> bool:
    """Whether a file is a solution of the contest, rather than a result."""
    try:
        return "subgraphs" in json_file.load(Path(path), MAX_BYTES)
    except InputError:
        return False


def read(path: str | Path) -> tuple[Plan, list[float]]:
    """Read a solution: the plan, and the latencies that it tells.

    Raises
    ------
    InputError
        If it is none; names file, field, value and limit.
    """
    file = str(path)
    data = json_file.load(Path(path), MAX_BYTES)
    if unknown := sorted(set(data) - set(LISTS)):
        raise InputError(
            unknown[0], data[unknown[0]], f"unknown key; a solution has {', '.join(LISTS)}", file
        )
    many = len(data["subgraphs"]) if isinstance(data.get("subgraphs"), list) else -1
    if not 1 <= many <= MAX_STEPS:
        raise InputError(
            "subgraphs", data.get("subgraphs"), f"must be a list of 1 to {MAX_STEPS} lists", file
        )
    left_out: dict[str, Any] = {"tensors_to_retain": [[]] * many, "traversal_orders": [None] * many}
    data = left_out | data
    for name in LISTS:
        if not isinstance(data.get(name), list):
            raise InputError(name, data.get(name), "must be a list", file)
        if len(data[name]) != many:
            raise InputError(name, len(data[name]), f"must be as many as subgraphs: {many}", file)
    steps, latency = [], []
    for place in range(many):
        ops = numbers(data["subgraphs"][place], f"subgraphs[{place}]", MAX_OPERATIONS, MAX_OPERATIONS, file)
        size = granularity(data["granularities"][place], f"granularities[{place}]", file)
        field = f"tensors_to_retain[{place}]"
        kept = numbers(data["tensors_to_retain"][place], field, MAX_TENSORS, MAX_TENSORS, file)
        order = data["traversal_orders"][place]
        tiles: str | tuple[int, ...] = "rows"
        if order is not None:
            tiles = numbers(order, f"traversal_orders[{place}]", MAX_TILES, MAX_TILES, file)
        time = data["subgraph_latencies"][place]
        if type(time) not in (int, float) or time < 0:
            raise InputError(f"subgraph_latencies[{place}]", time, "must be a number, not negative", file)
        steps.append(Subgraph(ops, size, kept, tiles))
        latency.append(float(time))
    return Plan(tuple(steps)), latency


def check(instance: Instance, path: str | Path) -> list[Finding]:
    """Check a solution against its graph: the rules, the latency of each subgraph, and an execution."""
    problem = instance.problem
    if not isinstance(problem, Problem):
        raise InputError(
            "room", instance.room, "only graphs of room scheduling have such solutions", str(path)
        )
    plan, claimed = read(path)
    broken = violation(problem, plan)
    findings = [verdict("plan", broken is None, broken or f"{len(claimed)} subgraphs keep the rules")]
    if broken is not None:
        return findings
    scale = problem.graph.scale
    times = [ticks / scale for ticks in latencies(problem, plan)]
    wrong = next(
        (place for place, time in enumerate(times) if abs(time - claimed[place]) > CLOSE * max(1.0, time)),
        None,
    )
    told_of = f"all as told, {sum(times):,.2f} together"
    if wrong is not None:
        told_of = (
            f"subgraph {wrong + 1} is told to take {claimed[wrong]:,.2f}, and takes {times[wrong]:,.2f}; "
        )
        told_of += f"{sum(claimed):,.2f} told and {sum(times):,.2f} found together"
    findings.append(verdict("latencies", wrong is None, told_of))
    report = simulate(problem, plan)
    same = report.measures.latency_ticks == sum(latencies(problem, plan))
    findings.append(verdict("execution", same, f"{report.measures.latency:,.2f}, tile by tile"))
    return findings
