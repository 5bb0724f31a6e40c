"""Windows: some neighbouring subgraphs at a time are cut anew by the exact search."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence

from tilewright.scheduling.exact.search import search
from tilewright.scheduling.exact.subgraph_candidates import connected_sets
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.improvement.partition import Steps
from tilewright.scheduling.improvement.sequencing import Block, Links, Sequencing
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.cost import Pricer

MOST_SETS = 10_000
"""Connected sets of operations in a window, at most."""

MOST_SECONDS = 3.0
"""Longest search of one window."""

LEAST_OPERATIONS, MOST_OPERATIONS = 4, 18
"""Operations of a window, about."""


class Windows:
    """Improves arrangements window by window; what the search runs twice, they run twice."""

    def __init__(self, pricer: Pricer, seed: int) -> None:
        self.pricer, self.random = pricer, random.Random(seed)
        self.arrangement = Sequencing(pricer)
        self.tried: set[frozenset[Block]] = set()

    def run(self, total: int, steps: Steps, deadline: float, on_better: Callable[[int, Steps], None]) -> None:
        """Cut windows anew until the deadline, and report each better arrangement."""
        misses = 0
        while time.monotonic() < deadline and misses < 3 * len(steps):
            misses += 1
            blocks = [block for block, _ in steps]
            window = self._window(blocks)
            key = frozenset(window)
            if (len(window) < 2 and all(len(block) < 2 for block in window)) or key in self.tried:
                continue
            self.tried.add(key)
            parts = self._cut(window, steps, min(deadline, time.monotonic() + MOST_SECONDS))
            if parts is None:
                continue
            left = [block for block in blocks if block not in window]
            found = self.arrangement.arranged(list(dict.fromkeys(left + parts)))
            if found is None or found[0] >= total:
                continue
            total, steps = found
            misses = 0
            on_better(total, steps)

    def _window(self, blocks: Sequence[Block]) -> set[Block]:
        """Return subgraphs around one of them, as many as the search takes."""
        most = self.random.randint(LEAST_OPERATIONS, MOST_OPERATIONS)
        window = {self.random.choice(blocks)}
        refused: set[Block] = set()
        touching = self._touching(blocks)
        while sum(map(len, window)) < most:
            near = {other for block in window for other in self._near(block, touching)} - window - refused
            if not near:
                break
            other = self.random.choice(sorted(near, key=sorted))
            problem, _ = window_of(self.pricer.problem, self._ops({*window, other}))
            if connected_sets(problem, seen=MOST_SETS) is None:
                refused.add(other)
            else:
                window.add(other)
        return window

    def _tensors(self, block: Block) -> set[int]:
        graph = self.pricer.graph
        return {tensor for op in block for tensor in (*graph.inputs[op], graph.made[op])}

    def _touching(self, blocks: Sequence[Block]) -> dict[int, list[Block]]:
        """Return the subgraphs that read or make each tensor."""
        found: dict[int, list[Block]] = {}
        for block in blocks:
            for tensor in self._tensors(block):
                found.setdefault(tensor, []).append(block)
        return found

    def _near(self, block: Block, touching: dict[int, list[Block]]) -> set[Block]:
        """Return the subgraphs that share a tensor with one by which they may be connected."""
        graph, flow = self.pricer.graph, self.pricer.problem.limits.connected == "flow"
        return {
            other
            for tensor in self._tensors(block)
            for other in touching[tensor]
            if not flow or graph.maker.get(tensor) in block | other
        }

    def _ops(self, blocks: Collection[Block]) -> list[int]:
        return sorted({op for block in blocks for op in block}, key=self.pricer.graph.place.__getitem__)

    def _cut(self, window: set[Block], steps: Steps, deadline: float) -> list[Block] | None:
        """Return subgraphs that do the same for all others in less time by themselves, or None."""
        graph = self.pricer.graph
        ops = self._ops(window)
        blocks = [block for block, _ in steps]
        inside = {number for number, block in enumerate(blocks) if block in window}
        links = Links(graph, blocks)
        wanted = {
            op
            for op in ops
            if links.giver[op] in inside
            and (links.takers[op] - inside or graph.made[op] not in graph.readers)
        }
        if not wanted:
            return None
        spent, resident = 0, frozenset[int]()
        for block, kept in steps:
            if block in window:
                choice = self.pricer.best(block, resident, kept)
                assert choice is not None
                spent += choice.ticks
            resident = kept
        problem, made = window_of(self.pricer.problem, ops)
        results = [tensor for op, tensor in zip(ops, made, strict=True) if op in wanted]
        below = spent * problem.graph.scale // graph.scale
        answer = search(Pricer(problem), below, deadline, results=results, most_sets=MOST_SETS)
        if answer is None or answer.ticks is None:
            return None
        return [frozenset(ops[op] for op in block) for block, _ in answer.steps]


def window_of(problem: Problem, ops: list[int]) -> tuple[Problem, list[int]]:
    """Return the problem of some operations alone, and its tensors that these make."""
    graph = problem.graph
    tensors = sorted({tensor for op in ops for tensor in (*graph.inputs[op], graph.made[op])})
    number = {tensor: place for place, tensor in enumerate(tensors)}
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
    return Problem(graph=part, limits=problem.limits), [number[graph.made[op]] for op in ops]
