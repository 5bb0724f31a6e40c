"""The blocks of attention that is one step: which products there are, what comes to a level and is there."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.tiling.attention.plan import Blocks
from tilewright.tiling.operations.operation import Attention

MOST_BLOCKS = 2**18
"""Most blocks of scores of a matrix of keys."""


class Product(NamedTuple):
    """A size of blocks of scores.

    Attributes
    ----------
    rows, keys
        Rows of queries, of all heads of a block, and keys.
    alone
        Whether these are all keys that the rows see, so that the context of the block is complete.
    """

    rows: int
    keys: int
    alone: bool


class Rows(NamedTuple):
    """How a cut of queries and keys sees keys, of one head.

    Attributes
    ----------
    kinds : {(queries, blocks of keys): how many blocks of queries}
    covered
        Keys in all blocks that each block of queries reads, added up.
    scores
        Scores in these blocks.
    merged
        Rows, each as often as it has a block of keys that is not its first.
    divided
        Rows with several blocks of keys.
    most
        Keys in blocks that any query sees.
    """

    kinds: dict[tuple[int, int], int]
    covered: int
    scores: int
    merged: int
    divided: int
    most: int


@lru_cache(maxsize=1 << 16)
def rows_of(queries: int, keys: int, causal: int | None, tall: int, wide: int) -> Rows:
    """Return how blocks of `tall` queries see blocks of `wide` keys."""
    if causal is None:
        blocks, (whole, left) = -(-keys // wide), divmod(queries, tall)
        alike = {(size, blocks): many for size, many in ((tall, whole), (left, 1)) if size and many}
        merged, divided = queries * (blocks - 1), queries if blocks > 1 else 0
        return Rows(alike, keys * -(-queries // tall), queries * keys, merged, divided, keys)
    starts = np.arange(0, queries, tall)
    sizes = np.minimum(tall, queries - starts)
    numbers = -(-np.minimum(keys, starts + sizes + causal) // wide)
    covered = np.minimum(keys, numbers * wide)
    kinds = Counter(zip(sizes.tolist(), numbers.tolist(), strict=True))
    return Rows(
        dict(kinds),
        int(covered.sum()),
        int((sizes * covered).sum()),
        int((sizes * (numbers - 1)).sum()),
        int(sizes[numbers > 1].sum()),
        int(covered.max()),
    )


class Walk:
    """The blocks of attention in their order: heads and queries outside, keys inside.

    Attributes
    ----------
    rows
        How blocks of queries see blocks of keys.
    """

    def __init__(self, attention: Attention, blocks: Blocks) -> None:
        self.attention, self.blocks = attention, blocks
        self.rows = rows_of(attention.queries, attention.keys, attention.causal, blocks.queries, blocks.keys)

    @cached_property
    def heads(self) -> dict[int, int]:
        """How many blocks of heads there are of each size, of a matrix of keys."""
        whole, left = divmod(self.attention.heads, self.blocks.heads)
        return {size: many for size, many in ((self.blocks.heads, whole), (left, 1)) if size and many}

    @property
    def head_blocks(self) -> int:
        """Blocks of heads of a matrix of keys."""
        return sum(self.heads.values())

    @property
    def count(self) -> int:
        """Blocks of scores of a matrix of keys."""
        return self.head_blocks * sum(many * blocks for (_, blocks), many in self.rows.kinds.items())

    @property
    def in_parts(self) -> bool:
        """Whether some rows see several blocks of keys."""
        return self.rows.divided > 0

    @cached_property
    def products(self) -> dict[Product, int]:
        """How often there is a block of scores of each size, the largest first."""
        found: Counter[Product] = Counter()
        keys, wide = self.attention.keys, self.blocks.keys
        for (queries, blocks), many in self.rows.kinds.items():
            last = min(wide, keys - (blocks - 1) * wide)
            for heads, times in self.heads.items():
                often = many * times * self.attention.matrices
                if blocks > 1:
                    found[Product(heads * queries, wide, False)] += often * (blocks - 1)
                found[Product(heads * queries, last, blocks == 1)] += often
        return dict(sorted(found.items(), reverse=True))

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """The sizes of products of scores, (rows, keys), the largest first."""
        return sorted({(each.rows, each.keys) for each in self.products}, reverse=True)

    @property
    def scores(self) -> int:
        """Scores that are computed, of all heads and images."""
        return self.attention.matrices * self.attention.heads * self.rows.scores

    @property
    def merged(self) -> int:
        """Rows of all heads and images, each as often as it has a block of keys that is not its first."""
        return self.attention.matrices * self.attention.heads * self.rows.merged

    @property
    def divided(self) -> int:
        """Rows of all heads and images with several blocks of keys."""
        return self.attention.matrices * self.attention.heads * self.rows.divided

    def brought(self, name: str) -> int:
        """Return how many keys, or values, come to the level, of all matrices."""
        if name in self.blocks.stay:
            return self.attention.matrices * self.rows.most
        return self.attention.matrices * self.head_blocks * self.rows.covered

    @property
    def wide(self) -> int:
        """Scores of a row that are at the level at a time."""
        return self.rows.most if self.blocks.order == "rows" else self.blocks.keys

    @cached_property
    def held(self) -> dict[str, int]:
        """Elements of one copy of what is at the level at a time."""
        return held(self.attention, self.rows, self.blocks)


def held(attention: Attention, seen: Rows, blocks: Blocks) -> dict[str, int]:
    """Return the elements of one copy of what is at a level at a time."""
    rows, online = blocks.heads * blocks.queries, blocks.order == "online"
    keys, values = (seen.most if name in blocks.stay else blocks.keys for name in ("keys", "values"))
    return {
        "queries": rows * attention.depth,
        "keys": keys * attention.depth,
        "values": values * attention.values,
        "context": rows * attention.values,
        "scores": rows * (blocks.keys if online else seen.most),
        "block": rows * attention.values if seen.divided else 0,
        "statistics": 2 * rows if seen.divided and online else 0,
    }
