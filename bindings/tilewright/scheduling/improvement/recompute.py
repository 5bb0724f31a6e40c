"""Operations run once more: a subgraph makes by itself what another one would write for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from tilewright.scheduling.improvement.partition import Steps, may_stay
from tilewright.scheduling.improvement.sequencing import Block, Links, Sequencing, components
from tilewright.scheduling.subgraph.cost import Pricer


class Recompute:
    """Improves an arrangement by letting subgraphs run operations of others, too."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer, self.graph = pricer, pricer.graph
        self.arrangement = Sequencing(pricer)

    def run(self, total: int, steps: Steps, deadline: float, on_better: Callable[[int, Steps], None]) -> None:
        """Repeat operations as long as that wins time, and report each better arrangement."""
        better = True
        while better:
            better = False
            for op, block in self._pairs([block for block, _ in steps]):
                for variant in self._variants(op, block, [block for block, _ in steps]):
                    if time.monotonic() > deadline:
                        return
                    found = self.arrangement.arranged(variant)
                    if found is not None and found[0] < total:
                        total, steps = found
                        on_better(total, steps)
                        better = True
                        break

    def _pairs(self, blocks: Sequence[Block]) -> list[tuple[int, Block]]:
        """Return operations with subgraphs that read of them and do not run them."""
        takers = Links(self.graph, blocks).takers
        return [(op, blocks[number]) for op in sorted(takers) for number in sorted(takers[op])]

    def _variants(self, op: int, block: Block, blocks: Sequence[Block]) -> Iterator[list[Block]]:
        """Yield the subgraphs with one that runs an operation, alone or with all that this is made of."""
        if block not in blocks:
            return
        giver = blocks[Links(self.graph, blocks).giver[op]]
        for more in dict.fromkeys((frozenset((op,)), self._behind(op, giver))):
            wider = block | more
            if isinstance(self.pricer.structure(wider), str):
                continue
            variant = self.needed([wider if one == block else one for one in blocks])
            if self._may_win(blocks, variant):
                yield variant

    def _may_win(self, before: Sequence[Block], after: Sequence[Block]) -> bool:
        """Whether subgraphs could take less time than others, whatever is kept between them."""
        old, new = set(before).difference(after), set(after).difference(before)
        costs = [[self.pricer.best(block) for block in blocks] for blocks in (old, new)]
        if any(choice is None for side in costs for choice in side):
            return True
        spent, now = (sum(choice.ticks for choice in side if choice is not None) for side in costs)
        return now < spent + may_stay(self.graph, new)

    def _behind(self, op: int, block: Block) -> Block:
        """Return an operation with all of its subgraph that it reads of, directly or not."""
        graph, found, waiting = self.graph, {op}, [op]
        while waiting:
            read = graph.inputs[waiting.pop()]
            near = {graph.maker[tensor] for tensor in read if tensor in graph.maker} & block - found
            found |= near
            waiting += near
        return frozenset(found)

    def needed(self, blocks: Sequence[Block]) -> list[Block]:
        """Return subgraphs without operations that another one runs for all who read of them."""
        graph = self.graph
        while True:
            links = Links(graph, blocks)
            left = [
                frozenset(
                    op
                    for op in block
                    if not block.isdisjoint(graph.readers.get(graph.made[op], ()))
                    or (
                        links.giver[op] == number
                        and (links.takers[op] or graph.made[op] not in graph.readers)
                    )
                )
                for number, block in enumerate(blocks)
            ]
            parts = dict.fromkeys(part for block in left for part in components(self.pricer, block))
            if list(parts) == list(blocks):
                return list(blocks)
            blocks = list(parts)
