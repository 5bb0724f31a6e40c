"""Whether a plan is valid: what each subgraph may be, and what lies where when it begins."""

from __future__ import annotations

from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.cost import Pricer, deepest_step, elements_moved, ticks, working_set
from tilewright.scheduling.subgraph.structure import LONGEST, connected, sinks, structure


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say which rule a plan breaks, in which subgraph, or None for a valid one."""
    graph = problem.graph
    written: set[int] = set()
    resident: frozenset[int] = frozenset()
    for number, step in enumerate(plan.subgraphs, start=1):
        broken = _broken(problem, step, written, resident)
        if broken is not None:
            rule, _, told = broken.partition(": ")
            return f"{rule}: subgraph {number}: {told}"
        written.update(set(sinks(graph, step.operations)) - set(step.retained))
        resident = frozenset(step.retained)
    run = {op for step in plan.subgraphs for op in step.operations}
    if missing := sorted(set(range(len(graph.inputs))) - run):
        return f"operations: {_listed(missing)} never run"
    if missing := sorted(set(graph.results) - written):
        return f"results: tensors {_listed(missing)} are not in slow memory in the end"
    return None


def _broken(problem: Problem, step: Subgraph, written: set[int], resident: frozenset[int]) -> str | None:
    """Say which rule a subgraph breaks, given what lies in slow memory and what has been kept for it."""
    graph, ops = problem.graph, step.operations
    if not ops or len(set(ops)) != len(ops):
        return "operations: must be at least one, none twice"
    if unknown := [op for op in ops if op >= len(graph.inputs)]:
        return f"operations: there is no operation {unknown[0]}, they are 0 to {len(graph.inputs) - 1}"
    if len(set(step.retained)) != len(step.retained):
        return "retained: a tensor is named twice"
    if not connected(problem, ops):
        return f"connected: operations {_listed(ops)} do not hang together"
    made = {graph.made[op] for op in ops}
    for op in ops:
        for tensor in graph.inputs[op]:
            if tensor in graph.maker and tensor not in made | written | resident:
                return f"inputs: operation {op} reads tensor {tensor}, which is in no memory"
    found = structure(problem, ops, resident, step.retained)
    if isinstance(found, str):
        return f"grid: {found}"
    w, h, k = step.granularity
    native_width, native_height = graph.native_granularity
    if not found.least_width <= w <= native_width or not found.least_height <= h <= native_height:
        least = f"from {found.least_width} x {found.least_height} to {native_width} x {native_height}"
        return f"granularity: a tile is {w} x {h}, must be {least}"
    if (deepest := deepest_step(graph, found)) < k:
        return f"granularity: a step adds up {k} products, at most {deepest} are possible"
    needed = working_set(graph, found, step.granularity) + Pricer(problem).kept(resident, step.retained)
    if needed > graph.fast_memory_capacity:
        return f"memory: {needed:,} elements are needed, there are {graph.fast_memory_capacity:,}"
    if not isinstance(step.order, str):
        tiles = -(-found.width // w) * -(-found.height // h)
        if sorted(step.order) != list(range(tiles)):
            return f"order: must name each of the tiles 0 to {tiles - 1} once"
    if ticks(graph, found, step.granularity, step.order) > LONGEST:
        return f"time: takes longer than {LONGEST:,} ticks of 1/{graph.scale:,}, the most that is counted"
    return None


def latencies(problem: Problem, plan: Plan) -> list[int]:
    """Return what each subgraph of a valid plan takes, in ticks, by the closed form."""
    resident: frozenset[int] = frozenset()
    times = []
    for step in plan.subgraphs:
        found = structure(problem, step.operations, resident, step.retained)
        assert not isinstance(found, str)
        times.append(ticks(problem.graph, found, step.granularity, step.order))
        resident = frozenset(step.retained)
    return times


def rank(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """Return the elements that a valid plan moves, its ticks, and the most elements that are in memory."""
    graph, resident, elements, peak = problem.graph, frozenset[int](), 0, 0
    for step in plan.subgraphs:
        found = structure(problem, step.operations, resident, step.retained)
        assert not isinstance(found, str)
        elements += elements_moved(graph, found, step.granularity, step.order)
        held = working_set(graph, found, step.granularity) + Pricer(problem).kept(resident, step.retained)
        peak = max(peak, held)
        resident = frozenset(step.retained)
    return elements, sum(latencies(problem, plan)), peak


def _listed(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
