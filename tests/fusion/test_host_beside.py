"""The host beside the engines: latency as a longest path, interval as a pipeline that is run."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from random import Random

import networkx as nx
import pytest
from conftest import THOROUGH
from fusion_at_random import machine as any_machine
from fusion_at_random import plan as any_plan
from fusion_at_random import problems
from hypothesis import assume, given, settings

from tilewright import fusion
from tilewright.fusion import Plan, Problem, execution

BATCHES = 40


def work_of(problem: Problem, plan: Plan) -> tuple[nx.DiGraph, list[bool], list[int]]:
    """Return what waits for what, group by group, which of them the host does, and what each takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        measures = fusion.simulate(problem, plan).measures
    host, size = problem.machine.host, problem.machine.element_bytes
    assert host is not None
    cycles = {tuple(each.operations): each.duration_cycles for each in measures.groups.values()}
    place = {name: number for number, group in enumerate(plan.groups) for name in group.nodes}
    waits, took = nx.DiGraph(), []
    for number, group in enumerate(plan.groups):
        waits.add_node(number)
        ops = [op for op in problem.ops if op.name in group.nodes]
        for op in ops:
            read = {place[problem.ops[each].name] for each in op.producers if each >= 0} - {number}
            waits.add_edges_from((each, number) for each in read)
        if group.tile is None:
            (op,) = ops
            values = sum(
                channels * rows * columns
                for channels, rows, columns in (
                    problem.graph.shape(each) for each in dict.fromkeys(op.accesses)
                )
            )
            channels, rows, columns = op.spec.output
            values = (values + channels * rows * columns) * problem.machine.arrays
            values += getattr(op.spec, "parameters", 0)
            priced = host.cycles_per_call + values * size * host.cycles_per_byte
            took.append(-int(-priced // 1) if op.producers else 0)
        else:
            took.append(cycles[group.nodes])
    return waits, [group.tile is None for group in plan.groups], took


def piped(waits: nx.DiGraph, hosted: list[bool], took: list[int]) -> int:
    """Return when many batches are done that are there at once, the oldest first on both resources."""
    left = {(batch, node): waits.in_degree(node) for batch in range(BATCHES) for node in waits}
    ready: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for each, count in left.items():
        if not count:
            heappush(ready[hosted[each[1]]], each)
    events: list[tuple[int, int, tuple[int, int]]] = []
    idle, now = [True, True], 0
    while events or any(ready):
        for resource in (0, 1):
            if idle[resource] and ready[resource]:
                each = heappop(ready[resource])
                idle[resource] = False
                heappush(events, (now + took[each[1]], resource, each))
        now, resource, (batch, node) = heappop(events)
        idle[resource] = True
        for after in waits.successors(node):
            left[batch, after] -= 1
            if not left[batch, after]:
                heappush(ready[hosted[after]], (batch, after))
    return now


@settings(max_examples=300 if THOROUGH else 15)
@given(problems(host=True))
def test_latency_and_interval(drawn: tuple[Random, Problem]) -> None:
    random, problem = drawn
    assume(problem.machine.host is not None)
    plan = any_plan(random, problem)  # type: ignore[arg-type]
    assume(any(group.tile is None for group in plan.groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        measures = fusion.simulate(problem, plan).measures
    beside = measures.host_beside
    waits, hosted, took = work_of(problem, plan)
    loads = [
        sum(cycles for on_host, cycles in zip(hosted, took, strict=True) if on_host == which)
        for which in (0, 1)
    ]
    assert measures.duration_cycles == sum(loads)
    assert (beside is not None) == bool(loads[1])
    if beside is None:
        return
    ordered = waits.copy()
    for which in (0, 1):
        own = [node for node, on_host in enumerate(hosted) if on_host == which]
        ordered.add_edges_from(pairwise(own))
    for node in ordered:
        for _, _, data in ordered.out_edges(node, data=True):
            data["weight"] = took[node]
    ends = {}
    for node in nx.topological_sort(ordered):
        ends[node] = took[node] + max((ends[before] for before in ordered.predecessors(node)), default=0)
    assert beside.latency_cycles == max(ends.values())
    assert beside.interval_cycles == max(loads)
    done = piped(waits, hosted, took)
    assert BATCHES * max(loads) <= done <= BATCHES * max(loads) + 2 * sum(loads)
    # No batch is worked on for longer than so many intervals, and an image alone needs its latency.
    assert beside.latency_cycles <= beside.batches_in_flight * beside.interval_cycles
    assert beside.batches_in_flight <= len(plan.groups)


def test_branches_of_engines_and_host() -> None:
    layers = [
        {"name": "a", "input": (4, 8, 8), "kernels": 4, "kernel": (1, 1)},
        {"name": "soft", "kind": "map", "op": "softmax", "inputs": ["a"], "input": (4, 8, 8)},
        {
            "name": "b",
            "inputs": ["a"],
            "input": (4, 8, 8),
            "kernels": 4,
            "kernel": (3, 3),
            "padding": (1, 1, 1, 1),
        },
        {"name": "sum", "kind": "add", "inputs": ["soft", "b"], "input": (4, 8, 8)},
    ]
    host = {"cycles_per_byte": 1, "cycles_per_call": 0}
    machine = any_machine(Random(1), arrays=1, element_bytes=1, host=host)
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
    plan = fusion.Plan.from_json(
        {
            "groups": [
                {"nodes": [name], "tile": None if name == "soft" else TILE}
                for name in ("a", "soft", "b", "sum")
            ]
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        report = fusion.simulate(problem, plan)
    assert report.valid, report.violation
    measures, beside = report.measures, report.measures.host_beside
    assert measures.host_cycles == 512 and beside is not None
    assert beside.latency_cycles == measures.duration_cycles - 512  # b takes longer than the softmax
    assert beside.interval_cycles == measures.duration_cycles - 512
    assert dict(fusion.ROOM.rows(problem, measures))["host beside"].startswith("a batch takes ")


TILE = {
    "rows": 8,
    "columns": 8,
    "kernels": 4,
    "channels": 4,
    "halo": "keep",
    "order": "tiles",
    "parameters": "keep",
}
