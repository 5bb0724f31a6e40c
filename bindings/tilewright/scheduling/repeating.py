"""Operations run once more: a subgraph makes by itself what another one would write for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from tilewright.scheduling.arrangement import Arrangement, Block, Links, components
from tilewright.scheduling.cost import Pricer
from tilewright.scheduling.merging import Steps


class Repeating:
    """Improves an arrangement by letting subgraphs run operations of others, too."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer, self.graph = pricer, pricer.graph
        self.arrangement = Arrangement(pricer)

    def run(self, total: int, steps: Steps, deadline: float, on_better: Callable[[int, Steps], None]) -> None:
        """Repeat operations as long as that wins time, and report each better arrangement."""
        better = True
        while better:
            better = False
            for blocks in self._variants([block for block, _ in steps]):
                if time.monotonic() > deadline:
                    return
                found = self.arrangement.arranged(blocks)
                if found is not None and found[0] < total:
                    total, steps = found
                    on_better(total, steps)
                    better = True
                    break

    def _variants(self, blocks: Sequence[Block]) -> Iterator[list[Block]]:
        """Yield the subgraphs with one that makes what it reads, alone or with all that this is made of."""
        links = Links(self.graph, blocks)
        for number, block in enumerate(blocks):
            for op, takers in sorted(links.takers.items()):
                if number not in takers:
                    continue
                everything = self._behind(op, blocks[links.giver[op]])
                for more in dict.fromkeys((frozenset((op,)), everything)):
                    wider = block | more
                    if not isinstance(self.pricer.structure(wider), str):
                        yield self.needed([*blocks[:number], wider, *blocks[number + 1 :]])

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
