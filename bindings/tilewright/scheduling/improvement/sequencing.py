"""From sets of operations to a plan: the order of these subgraphs, and what stays between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from tilewright.scheduling.graph import Graph
from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.subgraph.cost import Pricer, best_order

Block = frozenset[int]
Kept = frozenset[int]

NOTHING: Kept = frozenset()

MOST_OPTIONAL = 3
"""Up to so many tensors that may stay, all sets of them are tried; beyond, all, one or none."""


def is_closed(pricer: Pricer, block: Block) -> bool:
    """Whether no tensor of a subgraph is read inside of it and outside, too."""
    graph = pricer.graph
    for op in block:
        readers = graph.readers.get(graph.made[op], ())
        inside = sum(reader in block for reader in readers)
        if 0 < inside < len(readers):
            return False
    return True


def components(pricer: Pricer, ops: Iterable[int]) -> list[Block]:
    """Return the connected parts of some operations, as the limits say what is connected."""
    graph, left, found = pricer.graph, set(ops), []
    flow = pricer.problem.limits.connected == "flow"
    while left:
        start = left.pop()
        part, waiting = {start}, [start]
        while waiting:
            op = waiting.pop()
            for tensor in {*graph.inputs[op], graph.made[op]}:
                maker = graph.maker.get(tensor)
                near = {*graph.readers.get(tensor, ()), *(() if maker is None else (maker,))}
                if flow and maker not in left and maker not in part:
                    continue
                near &= left
                left -= near
                part |= near
                waiting += near
        found.append(frozenset(part))
    return found


def plan_of(pricer: Pricer, steps: Sequence[tuple[Block, Kept]]) -> Plan:
    """Return the plan of subgraphs in their order with what each keeps, each at its best granularity."""
    graph, resident, subgraphs = pricer.graph, NOTHING, []
    for block, kept in steps:
        choice, found = pricer.best(block, resident, kept), pricer.structure(block, resident, kept)
        assert choice is not None and not isinstance(found, str)
        ops = tuple(sorted(block, key=graph.place.__getitem__))
        size = choice.width, choice.height, choice.depth
        subgraphs.append(Subgraph(ops, size, tuple(sorted(kept)), best_order(graph, found, size)))
        resident = kept
    return Plan(tuple(subgraphs))


class Links:
    """Which subgraph gives what an operation makes to which others.

    Attributes
    ----------
    giver
        Of each operation, one that runs it: one that does not read its tensor, if there is any.
    takers
        Those that read its tensor and do not run it.
    """

    def __init__(self, graph: Graph, blocks: Sequence[Block]) -> None:
        self.giver: dict[int, int] = {}
        self.takers: dict[int, set[int]] = {}
        homes: dict[int, list[int]] = {}
        for number, block in enumerate(blocks):
            for op in block:
                homes.setdefault(op, []).append(number)
        for op, places in homes.items():
            readers = graph.readers.get(graph.made[op], ())
            self.takers[op] = {
                home for reader in readers for home in homes.get(reader, ()) if op not in blocks[home]
            }
            self.giver[op] = places[0]
            if len(places) > 1:
                ends = (place for place in places if blocks[place].isdisjoint(readers))
                self.giver[op] = next(ends, places[0])


class Sequencing:
    """Puts subgraphs in order; an operation may be in several."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer, self.graph = pricer, pricer.graph

    def ordered(self, blocks: Collection[Block]) -> list[Block] | None:
        """Return subgraphs in an order that works, those beside each other that can leave something there.

        None where they wait for each other in a circle.
        """
        graph = self.graph
        listed = sorted(blocks, key=lambda block: sorted(map(graph.place.__getitem__, block)))
        links = Links(graph, listed)
        after: list[set[int]] = [set() for _ in listed]
        waits = [0] * len(listed)
        only: list[dict[int, int]] = [{} for _ in listed]  # what one other subgraph alone reads, in elements
        must: list[set[int]] = [set() for _ in listed]
        for op, number in links.giver.items():
            tensor, outside = graph.made[op], links.takers[op]
            after[number] |= outside
            if len(outside) == 1:
                [other] = outside
                size = graph.elements(tensor)
                if size <= graph.fast_memory_capacity:
                    only[number][other] = only[number].get(other, 0) + size
            if outside and not listed[number].isdisjoint(graph.readers[tensor]):
                must[number] |= outside
        for others in after:
            for other in others:
                waits[other] += 1
        ready = [number for number, many in enumerate(waits) if not many]
        order: list[Block] = []
        last = -1
        while ready:
            best = min(
                ready,
                key=lambda one: (-(one in must[last]), -only[last].get(one, 0), one) if last >= 0 else one,
            )
            ready.remove(best)
            order.append(listed[best])
            last = best
            for other in after[best]:
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        return order if len(order) == len(listed) else None

    def kept(self, order: Sequence[Block]) -> tuple[int, list[tuple[Block, Kept]]] | None:
        """Return the least ticks of subgraphs in an order, with what each keeps; None if that cannot work."""
        links = Links(self.graph, order)
        chain: list[dict[Kept, tuple[int, Kept]]] = []
        costs = {NOTHING: 0}
        for number, block in enumerate(order):
            choices = self._choices(block, number, links)
            if choices is None:
                return None
            following: dict[Kept, tuple[int, Kept]] = {}
            for resident, before in costs.items():
                for keeps in choices:
                    choice = self.pricer.best(block, resident, keeps)
                    if choice is not None:
                        total = before + choice.ticks
                        if keeps not in following or total < following[keeps][0]:
                            following[keeps] = total, resident
            if not following:
                return None
            chain.append(following)
            costs = {keeps: total for keeps, (total, _) in following.items()}
        keeps = min(costs, key=lambda one: (costs[one], len(one)))
        total = costs[keeps]
        steps = []
        for block, following in zip(reversed(order), reversed(chain), strict=True):
            steps.append((block, keeps))
            keeps = following[keeps][1]
        return total, steps[::-1]

    def _choices(self, block: Block, number: int, links: Links) -> list[Kept] | None:
        """Return the sets of tensors that a subgraph may keep; None if it had to keep one too long."""
        graph = self.graph
        must, may = [], []
        for op in block:
            tensor, outside = graph.made[op], links.takers[op]
            if not outside or links.giver[op] != number:
                continue
            if not block.isdisjoint(graph.readers[tensor]):
                if outside != {number + 1}:
                    return None
                must.append(tensor)
            elif outside == {number + 1} and graph.elements(tensor) <= graph.fast_memory_capacity:
                may.append(tensor)
        if len(may) <= MOST_OPTIONAL:
            sets = [some for many in range(len(may) + 1) for some in combinations(may, many)]
        else:
            sets = [(), tuple(may), *((one,) for one in may)]
        return [frozenset((*must, *some)) for some in sets]

    def arranged(self, blocks: Collection[Block]) -> tuple[int, list[tuple[Block, Kept]]] | None:
        """Return the ticks of subgraphs, and these in order with what each keeps, or None."""
        order = self.ordered(blocks)
        return None if order is None else self.kept(order)
