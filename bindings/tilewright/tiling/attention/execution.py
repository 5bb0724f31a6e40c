"""Attention as one step, executed block by block: what is brought, held and written, and its numbers.

It goes through the blocks in their order with what is on chip in hand, and knows none of the sums of
`tilewright.tiling.attention.blocks`.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.core.branch_and_bound import check_deadline
from tilewright.simulator.arithmetic.attention import in_parts
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.simulator.level_numbers import MOST_MACS, NotThereError, NumericRun
from tilewright.simulator.levels import READ, WRITTEN
from tilewright.tiling.attention.blocks import Product
from tilewright.tiling.attention.plan import Blocks
from tilewright.tiling.attention.step import INPUT, OUTPUT, PARTIAL, Flow, Step, passes_by, work_of_score
from tilewright.tiling.hierarchy.lowering import lower
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.operations.operation import Attention

Floats = NDArray[np.float64]
Span = tuple[int, int]

MOST_PAIRS = 2**24
"""Most pairs of a query and a key of which numbers are computed."""


def spans(many: int, step: int) -> list[Span]:
    """Cut positions into blocks."""
    return [(first, min(first + step, many)) for first in range(0, many, step)]


class Events(Protocol):
    """What hears of a step's blocks in their order, of one matrix of keys."""

    def begin(self, heads: Span, queries: Span) -> None:
        """Bring a block of queries."""

    def bring(self, name: str, keys: Span) -> None:
        """Bring keys or values."""

    def multiply(self, keys: Span) -> None:
        """Compute the scores of a block of keys."""

    def weigh(self, keys: Span, *, first: bool, last: bool) -> None:
        """Compute weights of scores: of a block of keys, or of all that the rows see."""

    def add(self, keys: Span, *, first: bool, last: bool) -> None:
        """Add the products of weights and values to the context, whose last block makes it complete."""

    def end(self) -> None:
        """Write the context of a block of queries."""


def go_through(attention: Attention, blocks: Blocks, events: Events, deadline: float) -> None:
    """Tell the blocks of one matrix of keys in their order."""
    every = spans(attention.keys, blocks.keys)
    here: dict[str, set[Span]] = {"keys": set(), "values": set()}

    def bring(name: str, keys: Span) -> None:
        if name not in blocks.stay:
            here[name].clear()
        if keys not in here[name]:
            here[name].add(keys)
            events.bring(name, keys)

    for heads in spans(attention.heads, blocks.heads):
        for queries in spans(attention.queries, blocks.queries):
            check_deadline(deadline)
            events.begin(heads, queries)
            end = attention.keys if attention.causal is None else queries[1] + attention.causal
            seen = [keys for keys in every if keys[0] < end]
            if "keys" not in blocks.stay:
                here["keys"].clear()
            if "values" not in blocks.stay:
                here["values"].clear()
            for keys in seen if blocks.order == "rows" else ():
                bring("keys", keys)
                events.multiply(keys)
            if blocks.order == "rows":
                events.weigh((0, seen[-1][1]), first=True, last=True)
            for keys in seen:
                ends = {"first": keys is seen[0], "last": keys is seen[-1]}
                if blocks.order == "online":
                    bring("keys", keys)
                    events.multiply(keys)
                    events.weigh(keys, **ends)
                bring("values", keys)
                events.add(keys, **ends)
            events.end()


class Counting:
    """What a step does, counted block by block.

    Attributes
    ----------
    brought, passes, products
        As `tilewright.tiling.attention.step.Flow` has them, of one matrix of keys.
    held
        Most elements of one copy of what is at the level.
    """

    def __init__(self, step: Step, deadline: float = float("inf")) -> None:
        self.step, self.attention, self.blocks = step, step.attention, step.walk.blocks
        self.brought = dict.fromkeys(("queries", "keys", "values", "context"), 0)
        self.passes: Counter[tuple[int, int]] = Counter()
        self.products: Counter[Product] = Counter()
        self.held: Counter[str] = Counter()
        self.work, self.rows, self.scored = 0, 0, 0
        self.there: dict[str, set[int]] = {}
        go_through(self.attention, self.blocks, self, deadline)

    def flow(self) -> Flow:
        """Return what goes on for all matrices of keys."""
        many = self.attention.matrices
        kinds = sorted({kind for kind, _ in self.passes})
        passes = [(kind, many * self.passes[kind, READ], many * self.passes[kind, WRITTEN]) for kind in kinds]
        unit = self.step.machine.vector_ops_per_cycle is not None
        brought = {name: many * count for name, count in self.brought.items()}
        if passes_by(self.step.machine, self.blocks.level):
            brought |= {"keys": 0, "values": 0}
        return Flow(
            brought,
            passes if unit else (),
            many * self.work if unit else 0,
            {product: many * often for product, often in self.products.items()},
        )

    @property
    def macs(self) -> int:
        """Multiplications of all matrices of keys."""
        across = self.attention.depth + self.attention.values
        pairs = sum(often * each.rows * each.keys for each, often in self.products.items())
        return self.attention.matrices * pairs * across

    @property
    def count(self) -> int:
        """Blocks of scores of all matrices of keys."""
        return self.attention.matrices * sum(self.products.values())

    def _hold(self, name: str, elements: int) -> None:
        self.held[name] = max(self.held[name], elements)

    def begin(self, heads: Span, queries: Span) -> None:
        """Bring a block of queries; there is room for its context."""
        self.rows = (heads[1] - heads[0]) * (queries[1] - queries[0])
        self.brought["queries"] += self.rows * self.attention.depth
        self._hold("queries", self.rows * self.attention.depth)
        self._hold("context", self.rows * self.attention.values)
        self.scored = 0

    def bring(self, name: str, keys: Span) -> None:
        """Bring keys or values, which take the place of others unless these stay."""
        width = self.attention.depth if name == "keys" else self.attention.values
        new = set(range(*keys))
        self.there[name] = self.there.get(name, set()) | new if name in self.blocks.stay else new
        self.brought[name] += len(new) * width
        self._hold(name, len(self.there[name]) * width)

    def multiply(self, keys: Span) -> None:
        """Count scores; those of whole rows stay until all are there."""
        many = self.rows * (keys[1] - keys[0])
        self.scored = self.scored + many if self.blocks.order == "rows" else many
        self._hold("scores", self.scored)

    def weigh(self, keys: Span, *, first: bool, last: bool) -> None:
        """Read scores and write weights; with several blocks, running maxima and sums beside them."""
        scores = self.rows * (keys[1] - keys[0])
        self.passes[INPUT, READ] += scores
        self.passes[OUTPUT, WRITTEN] += scores
        self.work += scores * work_of_score(self.attention)
        if first and last:
            return
        self._hold("statistics", 2 * self.rows)
        self.passes[PARTIAL, READ] += 0 if first else 2 * self.rows
        self.passes[PARTIAL, WRITTEN] += 2 * self.rows
        self.work += 0 if first else self.rows

    def add(self, keys: Span, *, first: bool, last: bool) -> None:
        """Multiply weights and values, and add what comes of a further block to the sums before."""
        values, online = self.attention.values, self.blocks.order == "online"
        alone = first and last
        self.products[Product(self.rows, keys[1] - keys[0], alone)] += 1
        if not alone:
            self._hold("block", self.rows * values)
        if not first:
            self.passes[PARTIAL, READ] += 2 * self.rows * values
            self.passes[PARTIAL, WRITTEN] += self.rows * values
            self.work += self.rows * values * (2 if online else 1)
        if last and not alone and online:  # the division by the sum
            self.passes[PARTIAL, READ] += self.rows * (values + 1)
            self.passes[OUTPUT, WRITTEN] += self.rows * values

    def end(self) -> None:
        """Write the context of a block of queries."""
        self.brought["context"] += self.rows * self.attention.values


# Numbers ------------------------------------------------------------------------------------------------


def is_computed(step: Step) -> bool:
    """Whether attention is not too large for numbers: that of one matrix of keys is computed."""
    attention = step.attention
    return attention.heads * attention.queries * attention.keys <= MOST_PAIRS


def not_computed(step: Step) -> str | None:
    """Say which numbers are not computed, or None."""
    if not is_computed(step):
        return f"attention has more than {MOST_PAIRS:,} pairs of queries and keys"
    left = nests_within(step)[1]
    told = f"products of attention tile by tile, as they have more than {MOST_MACS:,} MACs"
    return told if left else None


def computes(step: Step, seed: int, deadline: float) -> bool:
    """Whether a step computes attention, block by block, and its products tile by tile."""
    executed, _ = nests_within(step)
    return all(_multiplies(nest, seed, deadline) for nest in executed) and _Numbers(step, seed).agree(
        deadline
    )


def nests_within(step: Step) -> tuple[list[Nest], int]:
    """Return the products that are executed tile by tile, as many as there is time for, and how many not."""
    every = {(nest.layer, nest.given, nest.plan): nest for _, _, nest in step.nests()}
    found, macs = [], 0
    for nest in sorted(every.values(), key=lambda nest: nest.layer.macs):
        macs += nest.layer.macs
        if macs <= MOST_MACS:
            found.append(nest)
    return found, len(every) - len(found)


def _multiplies(nest: Nest, seed: int, deadline: float) -> bool:
    values, kernels = random_values(nest.layer, seed)
    try:
        result = NumericRun(lower(nest), nest.layer, deadline).run(values, kernels)
    except NotThereError:
        return False
    return bool(np.array_equal(result, reference_convolution(nest.layer, values, kernels)))


class _Numbers:
    """Attention in floating point: memories of the sizes that the step reserves, filled block by block.

    Contexts are compared in parts of 2^20, as those of small integers are the same in both.
    """

    def __init__(self, step: Step, seed: int) -> None:
        attention, held = step.attention, step.walk.held
        self.attention, self.blocks = attention, step.walk.blocks
        rng = np.random.default_rng(seed)
        many, rows = attention.heads, attention.queries

        def small(*shape: int) -> Floats:
            return rng.integers(-2, 3, shape).astype(np.float64)

        self.queries = small(many, rows, attention.depth)
        self.keys, self.values = (
            small(attention.keys, attention.depth),
            small(attention.keys, attention.values),
        )
        self.context = np.full((many, rows, attention.values), np.nan)
        # What is at the level: nothing else is read by products.
        self.level = {name: np.full(size, np.nan) for name, size in held.items()}
        self.places: dict[str, dict[int, int]] = {"keys": {}, "values": {}}

    def agree(self, deadline: float) -> bool:
        """Whether the context is that of a softmax of whole rows."""
        attention = self.attention
        go_through(attention, self.blocks, self, deadline)
        scores = self.queries @ self.keys.T
        if attention.causal is not None:
            behind = np.arange(attention.keys) > np.arange(attention.queries)[:, None] + attention.causal
            scores[:, behind] = -np.inf
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        expected = powers / powers.sum(axis=2, keepdims=True) @ self.values
        return bool(np.array_equal(in_parts(self.context), in_parts(expected)))

    def begin(self, heads: Span, queries: Span) -> None:
        """Copy queries to the level."""
        self.of = slice(*heads), slice(*queries)
        block = self.queries[self.of].reshape(-1, self.attention.depth)
        self.rows, self.first_key = len(block), 0
        self.level["queries"][: block.size] = block.ravel()

    def bring(self, name: str, keys: Span) -> None:
        """Copy keys or values to the level, behind others that stay or in their place."""
        given = self.keys if name == "keys" else self.values
        width, places = given.shape[1], self.places[name]
        if name not in self.blocks.stay:
            places.clear()
        for key in range(*keys):
            place = places.setdefault(key, len(places))
            self.level[name][place * width : (place + 1) * width] = given[key]

    def _of_level(self, name: str, keys: Span) -> Floats:
        width = self.attention.depth if name == "keys" else self.attention.values
        places = [self.places[name][key] for key in range(*keys)]
        return self.level[name].reshape(-1, width)[places]

    def _scores(self) -> Floats:
        """Return the scores of the rows that are there, shape (rows, keys)."""
        width = len(self.level["scores"]) // (self.blocks.heads * self.blocks.queries)
        return self.level["scores"][: self.rows * width].reshape(self.rows, width)

    def _context(self, name: str) -> Floats:
        values = self.attention.values
        return self.level[name][: self.rows * values].reshape(self.rows, values)

    def _columns(self, keys: Span) -> slice:
        """Return where the scores of a block of keys stand in their rows."""
        whole_rows = self.blocks.order == "rows"
        return slice(*keys) if whole_rows else slice(0, keys[1] - keys[0])

    def multiply(self, keys: Span) -> None:
        """Compute the scores of a block of keys; those that a query does not see are none."""
        depth = self.attention.depth
        rows = self.level["queries"][: self.rows * depth].reshape(-1, depth)
        found = rows @ self._of_level("keys", keys).T
        if self.attention.causal is not None:
            heads, queries = (np.arange(each.start, each.stop) for each in self.of)
            queries = np.tile(queries, len(heads))
            found[np.arange(*keys) > queries[:, None] + self.attention.causal] = -np.inf
        self._scores()[:, self._columns(keys)] = found

    def weigh(self, keys: Span, *, first: bool, last: bool) -> None:
        """Make weights of scores, in their place."""
        scores = self._scores()[:, self._columns(keys)]
        most = scores.max(axis=1)
        if first and last:
            powers = np.exp(scores - most[:, None])
            scores[:] = powers / powers.sum(axis=1, keepdims=True)
            return
        kept = self.level["statistics"][: 2 * self.rows].reshape(2, self.rows)
        if first:
            kept[0], kept[1] = -np.inf, 0
        most = np.maximum(most, kept[0])
        self.less = np.exp(kept[0] - most)
        scores[:] = np.exp(scores - most[:, None])
        kept[0], kept[1] = most, kept[1] * self.less + scores.sum(axis=1)

    def add(self, keys: Span, *, first: bool, last: bool) -> None:
        """Add the products of a block to the context, or begin with them."""
        found = self._scores()[:, self._columns(keys)] @ self._of_level("values", keys)
        context = self._context("context")
        if first:
            context[:] = found
        else:
            block = self._context("block")
            block[:] = found
            context[:] = (context * self.less[:, None] if self.blocks.order == "online" else context) + block
        if last and not first and self.blocks.order == "online":
            context /= self.level["statistics"][self.rows : 2 * self.rows, None]

    def end(self) -> None:
        """Write the context."""
        shape = self.context[self.of].shape
        self.context[self.of] = self._context("context").reshape(shape)
