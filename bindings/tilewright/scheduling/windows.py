"""Windows: some neighbouring subgraphs of a partition at a time are cut anew by the exact search."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tilewright.scheduling.arrangement import Arrangement, Block
from tilewright.scheduling.cost import Pricer
from tilewright.scheduling.exact.candidates import connected_sets
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.merging import Partition, Steps
from tilewright.scheduling.problem import Problem

MOST_SETS = 10_000
"""Connected sets of operations in a window, at most."""

MOST_SECONDS = 3.0
"""Longest search of one window."""

LEAST_OPERATIONS, MOST_OPERATIONS = 4, 18
"""Operations of a window, about."""


class Windows:
    """Improves partitions window by window."""

    def __init__(self, pricer: Pricer, seed: int) -> None:
        self.pricer, self.random = pricer, random.Random(seed)
        self.arrangement = Arrangement(pricer)
        self.tried: set[frozenset[Block]] = set()

    def run(
        self, partition: Partition, seconds: float, deadline: float, on_better: Callable[[int, Steps], None]
    ) -> None:
        """Cut windows anew for a time, and report each better arrangement."""
        found = self.arrangement.arranged(partition.blocks)
        if found is None:
            return
        total, steps = found
        until = min(time.monotonic() + seconds, deadline)
        misses = 0
        while time.monotonic() < until and misses < 3 * len(steps):
            blocks = self._window(partition)
            key = frozenset(blocks)
            if (len(blocks) < 2 and all(len(block) < 2 for block in blocks)) or key in self.tried:
                misses += 1
                continue
            self.tried.add(key)
            parts = self._cut(blocks, steps, min(deadline, time.monotonic() + MOST_SECONDS))
            if parts is None:
                misses += 1
                continue
            before = dict(partition.of)
            for part in parts:
                partition.put(part)
            found = self.arrangement.arranged(partition.blocks)
            if found is None or found[0] >= total:
                partition.of = before
                misses += 1
                continue
            total, steps = found
            misses = 0
            on_better(total, steps)

    def _window(self, partition: Partition) -> set[Block]:
        """Return subgraphs around an operation, as many as the search takes."""
        most = self.random.randint(LEAST_OPERATIONS, MOST_OPERATIONS)
        blocks = {partition.of[self.random.randrange(len(partition.of))]}
        refused: set[Block] = set()
        while sum(map(len, blocks)) < most:
            near = {other for block in blocks for other in partition.near(block)} - blocks - refused
            if not near:
                break
            other = self.random.choice(sorted(near, key=min))
            problem, _ = window_of(self.pricer.problem, self._ops({*blocks, other}))
            if connected_sets(problem, seen=MOST_SETS) is None:
                refused.add(other)
            else:
                blocks.add(other)
        return blocks

    def _ops(self, blocks: set[Block]) -> list[int]:
        return sorted({op for block in blocks for op in block}, key=self.pricer.graph.place.__getitem__)

    def _cut(self, blocks: set[Block], steps: Steps, deadline: float) -> list[Block] | None:
        """Return subgraphs of the same operations that take less time by themselves, or None."""
        graph = self.pricer.graph
        ops = self._ops(blocks)
        spent, resident = 0, frozenset[int]()
        for block, kept in steps:
            if block in blocks:
                choice = self.pricer.best(block, resident, kept)
                assert choice is not None
                spent += choice.ticks
            resident = kept
        problem, results = window_of(self.pricer.problem, ops)
        scale, own = graph.scale, problem.graph.scale
        answer = search(Pricer(problem), spent * own // scale, deadline, results=results, most_sets=MOST_SETS)
        if answer is None or answer.ticks is None:
            return None
        found = [frozenset(ops[op] for op in block) for block, _ in answer.steps]
        return found if sum(map(len, found)) == len(ops) else None


def window_of(problem: Problem, ops: list[int]) -> tuple[Problem, list[int]]:
    """Return the problem of some operations alone, and its tensors that others read or nobody does."""
    graph = problem.graph
    tensors = sorted({tensor for op in ops for tensor in (*graph.inputs[op], graph.made[op])})
    number = {tensor: place for place, tensor in enumerate(tensors)}
    inside = set(ops)
    results = [
        number[graph.made[op]]
        for op in ops
        if not graph.readers.get(graph.made[op]) or set(graph.readers[graph.made[op]]) - inside
    ]
    part = Graph.model_validate(
        {
            "widths": [graph.widths[tensor] for tensor in tensors],
            "heights": [graph.heights[tensor] for tensor in tensors],
            "inputs": [[number[tensor] for tensor in graph.inputs[op]] for op in ops],
            "outputs": [[number[graph.made[op]]] for op in ops],
            "base_costs": [graph.base_costs[op] for op in ops],
            "op_types": [graph.op_types[op] for op in ops],
            "fast_memory_capacity": graph.fast_memory_capacity,
            "slow_memory_bandwidth": graph.slow_memory_bandwidth,
            "native_granularity": graph.native_granularity,
        }
    )
    return Problem(graph=part, limits=problem.limits), results
