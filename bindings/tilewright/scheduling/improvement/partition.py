"""Partitions of the operations, improved: subgraphs are merged, split, and hand operations to each other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from math import exp

from tilewright.scheduling.graph import Graph
from tilewright.scheduling.improvement.sequencing import Block, Kept, Sequencing, components, is_closed
from tilewright.scheduling.subgraph.cost import Pricer

Steps = list[tuple[Block, Kept]]


HOT, COOLING = 1e-2, 1e-4
"""What is accepted to be lost at first, as a share of the whole, and the share of that at last."""


class Partition:
    """Subgraphs that hold each operation once, by the operations."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer, self.graph = pricer, pricer.graph
        self.of: dict[int, Block] = {op: frozenset((op,)) for op in range(len(self.graph.inputs))}

    @property
    def blocks(self) -> set[Block]:
        """All subgraphs."""
        return set(self.of.values())

    def cost(self, block: Block) -> int | None:
        """Return the ticks of a subgraph beside which nothing is kept, or None if it must keep something."""
        if not is_closed(self.pricer, block):
            return None
        choice = self.pricer.best(block)
        return None if choice is None else choice.ticks

    def put(self, block: Block) -> None:
        """Make operations one subgraph; it takes the place of those that they were."""
        for op in block:
            self.of[op] = block

    def near(self, block: Block) -> set[Block]:
        """Return the subgraphs that share a tensor with one."""
        graph, found = self.graph, set()
        flow = self.pricer.problem.limits.connected == "flow"
        for op in block:
            for tensor in {*graph.inputs[op], graph.made[op]}:
                maker = graph.maker.get(tensor)
                if maker is not None:
                    found.add(self.of[maker])
                if not flow or maker in block:
                    found |= {self.of[reader] for reader in graph.readers.get(tensor, ())}
        return found - {block}

    def circular(self, blocks: set[Block]) -> bool:
        """Whether subgraphs, made one, would wait for others that wait for them."""
        graph = self.graph
        inside = {op for block in blocks for op in block}
        seen: set[Block] = set()
        waiting: list[Block] = []

        def follow(ops: Block | set[int]) -> bool:
            for op in ops:
                for reader in graph.readers.get(graph.made[op], ()):
                    if reader in inside:
                        if ops is not inside:
                            return True
                        continue
                    other = self.of[reader]
                    if other not in seen:
                        seen.add(other)
                        waiting.append(other)
            return False

        follow(inside)
        while waiting:
            if follow(waiting.pop()):
                return True
        return False

    def wholes(self) -> Iterator[set[Block]]:
        """Return sets of subgraphs that may be worth merging at once: of a tensor, those that touch it."""
        graph = self.graph
        for tensor in range(len(graph.widths)):
            readers = {self.of[reader] for reader in graph.readers.get(tensor, ())}
            maker = graph.maker.get(tensor)
            if maker is not None:
                yield readers | {self.of[maker]}
            if len(readers) > 1 and self.pricer.problem.limits.connected == "shared":
                yield readers


def merge_greedily(
    pricer: Pricer, deadline: float = float("inf"), partition: Partition | None = None
) -> Partition:
    """Merge the subgraphs for which that wins most, as long as it wins anything."""
    partition = partition or Partition(pricer)
    gains: dict[frozenset[Block], int] = {}

    def gain(blocks: set[Block]) -> int:
        key = frozenset(blocks)
        if key not in gains:
            merged = frozenset().union(*blocks)
            costs = [partition.cost(block) for block in blocks]
            after = partition.cost(merged)
            fits = after is not None and all(cost is not None for cost in costs)
            gains[key] = sum(cost or 0 for cost in costs) - (after or 0) if fits else -1
        return gains[key]

    while time.monotonic() < deadline:
        found: list[tuple[int, set[Block]]] = []
        for block in partition.blocks:
            for other in partition.near(block):
                if time.monotonic() > deadline:
                    break
                if (won := gain({block, other})) > 0:
                    found.append((won, {block, other}))
        for blocks in partition.wholes():
            if len(blocks) > 2 and time.monotonic() < deadline and (won := gain(blocks)) > 0:
                found.append((won // (len(blocks) - 1), blocks))
        found.sort(key=lambda pair: (-pair[0], min(min(block) for block in pair[1])))
        merged = False
        used: set[Block] = set()
        for _, blocks in found:
            if blocks & used or partition.circular(blocks):
                continue
            partition.put(frozenset().union(*blocks))
            used |= blocks
            merged = True
        if not merged:
            break
    return partition


class Annealing:
    """Simulated annealing of partitions, from one on, until the deadline."""

    def __init__(self, pricer: Pricer, seed: int) -> None:
        self.pricer, self.graph, self.random = pricer, pricer.graph, random.Random(seed)
        self.arrangement = Sequencing(pricer)

    def run(
        self, partition: Partition, seconds: float, deadline: float, on_better: Callable[[int, Steps], None]
    ) -> None:
        """Change a partition at random for a time, and report each better arrangement."""
        found = self.arrangement.arranged(partition.blocks)
        total = found[0] if found is not None else 2**62
        best = total
        if found is not None:
            on_better(*found)
        begin = time.monotonic()
        until = min(begin + seconds, deadline)
        hot = max(total * HOT, 1.0) if total < 2**62 else 1.0
        while (now := time.monotonic()) < until:
            heat = hot * (COOLING ** ((now - begin) / max(until - begin, 1e-9)))
            before = dict(partition.of)
            if not self._changed(partition, heat):
                partition.of = before
                continue
            found = self.arrangement.arranged(partition.blocks)
            if found is None or (found[0] > total and self.random.random() >= exp((total - found[0]) / heat)):
                partition.of = before
                continue
            total = found[0]
            if total < best:
                best = total
                on_better(*found)

    def _changed(self, partition: Partition, heat: float) -> bool:
        """Merge, split or hand over at random; tell whether it may be worth arranging."""
        op = self.random.randrange(len(partition.of))
        block = partition.of[op]
        kind = self.random.random()
        if kind < 0.4:
            near = sorted(partition.near(block), key=min)
            if not near:
                return False
            other = self.random.choice(near)
            touched = {block, other}
            if self.random.random() < 0.2:
                tensor = self.random.choice((*partition.graph.inputs[op], partition.graph.made[op]))
                maker = partition.graph.maker.get(tensor)
                touched = {partition.of[reader] for reader in partition.graph.readers.get(tensor, ())}
                touched |= set() if maker is None else {partition.of[maker]}
                if len(touched) < 2:
                    return False
            parts = components(self.pricer, frozenset().union(*touched))
        elif kind < 0.7:
            if len(block) < 2:
                return False
            touched = {block}
            side = self._side(partition, op, block)
            parts = [*components(self.pricer, side), *components(self.pricer, block - side)]
        else:
            near = sorted(partition.near(frozenset((op,))) - {block}, key=min)
            if not near:
                return False
            other = self.random.choice(near)
            side = frozenset((op,)) if self.random.random() < 0.7 else self._side(partition, op, block)
            touched = {block, other}
            parts = components(self.pricer, (*other, *side)) + components(self.pricer, block - side)
        after = [self._rough(part) for part in parts]
        if any(cost is None for cost in after):
            return False
        costs = [self._rough(part) or 0 for part in touched]
        if sum(cost or 0 for cost in after) > sum(costs) + 20 * heat + may_stay(self.graph, parts):
            return False
        for part in parts:
            partition.put(part)
        return True

    def _side(self, partition: Partition, op: int, block: Block) -> Block:
        """Return an operation of a subgraph with all before it, with all after it, or alone."""
        graph, kind = partition.graph, self.random.random()
        found, waiting = {op}, [op]
        while waiting and kind > 0.3:
            one = waiting.pop()
            if kind < 0.65:
                near = {graph.maker[tensor] for tensor in graph.inputs[one] if tensor in graph.maker}
            else:
                near = set(graph.readers.get(graph.made[one], ()))
            near = (near & block) - found
            found |= near
            waiting += near
        return frozenset(found) if len(found) < len(block) else frozenset((op,))

    def _rough(self, block: Block) -> int | None:
        choice = self.pricer.best(block)
        return None if choice is None else choice.ticks


def may_stay(graph: Graph, blocks: Iterable[Block]) -> int:
    """Return what could be won at most by keeping what subgraphs make."""
    sizes = [
        graph.elements(graph.made[op]) for block in blocks for op in block if graph.made[op] in graph.readers
    ]
    fitting = [size for size in sizes if size <= graph.fast_memory_capacity]
    return 4 * int(graph.moving(sum(fitting)))
