"""Lower bounds that need no search: computing alone, and moving what must be moved."""

from __future__ import annotations

from tilewright.core.bounds import Bound
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.problem import Problem


def lower_bound(problem: Problem) -> Bound:
    """Return the larger of both, in whole units of time."""
    graph = problem.graph
    found = {
        "compute bound": compute_ticks(graph),
        "compulsory transfers": graph.moving(compulsory_elements(graph)),
    }
    name = max(found, key=found.__getitem__)
    return Bound(name, -(-found[name] // graph.scale), impossible=_impossible(graph))


def compute_ticks(graph: Graph) -> int:
    """Return what all operations take at least, each once."""
    return sum(least_compute(graph, op) for op in range(len(graph.inputs)))


def least_compute(graph: Graph, op: int) -> int:
    """Return the fewest ticks that an operation computes.

    At the native granularity no tile is filled up in vain, but for the last of a row or column. Slices that
    are made for a MatMul along its depth are not filled up at all.
    """
    tensor = graph.made[op]
    shape = graph.widths[tensor], graph.heights[tensor]
    sides = list(zip(shape, graph.native_granularity, strict=True))
    tiles = [-(-size // native) for size, native in sides]
    least = graph.scale * tiles[0] * tiles[1]
    if _feeds(graph, op):
        for axis, (size, native) in enumerate(sides):
            least = min(least, graph.scale * size * tiles[1 - axis] // native)
    return graph.base_costs[op] * least


def _feeds(graph: Graph, op: int) -> bool:
    """Whether an operation may make slices for a MatMul, directly or through Pointwise operations."""
    waiting, seen = [op], {op}
    while waiting:
        for reader in graph.readers.get(graph.made[waiting.pop()], ()):
            if graph.op_types[reader] == "MatMul":
                return True
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return False


def compulsory_elements(graph: Graph) -> int:
    """Return the elements of all that is read of slow memory at least once, and of all results."""
    given = graph.readers.keys() - graph.maker.keys()
    return sum(map(graph.elements, (*given, *graph.results)))


def _impossible(graph: Graph) -> str | None:
    """Say which operation has too many operands for an element of each to fit, where there is one."""
    for op, read in enumerate(graph.inputs):
        needed = len({tensor for tensor in read if tensor not in graph.maker}) + 1
        if needed > graph.fast_memory_capacity:
            there = f"fast memory has {graph.fast_memory_capacity}"
            return f"operation {op} needs {needed} elements at least, {there}"
    return None
