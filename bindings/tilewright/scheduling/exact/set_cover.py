"""Subgraphs chosen from the results backwards, where no tensor can be kept: A* over what is not written yet.

Without kept tensors a plan is a set of subgraphs, whatever their order, as long as there is one. So from a
state one tensor that must still be written is looked at, and every subgraph that may write it: the orders in
which subgraphs that do not wait for each other run are never told apart. A state has

- the tensors that chosen subgraphs read and none of them writes,
- those that they write,
- and for each of the latter, for which of the former it waits.

What is left costs at least the prices of the operations that must still be run, of the arcs between two of
these, and of all arcs from a tensor that must be written. A subgraph that reads what
waits for what it writes is left out, although the same tensor might be written twice: the search knows the
least cost of what it left out so, and proves nothing beyond that.

Of states that differ in the names of twins alone, one is looked at, and so it is with the subgraphs from it.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.exact.subgraph_candidates import Candidates
from tilewright.scheduling.exact.symmetry import Move, apply_move, equal_pairs, in_order, restore_names

State = tuple[int, int, tuple[tuple[int, int], ...]]
"""Tensors that must be written and that are, by their operations, as bits; for what each of these waits."""


@dataclass
class Chosen:
    """What the search found.

    Attributes
    ----------
    bound
        No set of subgraphs costs less.
    ticks, blocks
        Of the best set, where it costs less than asked for: the sets of operations in an order that works.
    proven
        Whether the search has come to its end, having left out nothing that could be better.
    """

    bound: int
    ticks: int | None = None
    blocks: tuple[frozenset[int], ...] = ()
    proven: bool = False


class RowSets(NamedTuple):
    """Sets of operations that may be in a plan that costs less than asked for; operations are bits.

    Attributes
    ----------
    rows
        Their numbers among the candidates.
    needs, ends
        Of each, the operations that make what it reads, and those whose tensors it writes.
    results
        Operations whose tensors must lie in slow memory in the end.
    before
        For each operation, those that make what it reads.
    groups
        Operations that can be exchanged for one another.
    """

    rows: NDArray[np.int64]
    needs: dict[int, int]
    ends: dict[int, int]
    results: int
    before: list[int]
    groups: list[tuple[int, ...]]


class SetCover:
    """The search."""

    def __init__(
        self,
        candidates: Candidates,
        prices: NDArray[np.int64],
        sets: RowSets,
        below: int,
    ) -> None:
        self.candidates, self.below, self.groups = candidates, below, sets.groups
        self.needs, self.ends, self.results, self.before = sets.needs, sets.ends, sets.results, sets.before
        self.price = [int(one) for one in prices]
        count = len(sets.before)
        self.arcs: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # readers as bits, and prices
        for (maker, reader), price in zip(candidates.arcs, prices[count:].tolist(), strict=True):
            if price:
                self.arcs[maker].append((1 << reader, price))
        self.from_written = [sum(price for _, price in arcs) for arcs in self.arcs]
        spare = candidates.ticks - candidates.serves @ prices
        self.writers: list[list[int]] = [[] for _ in range(count)]
        reads = [0] * count
        rows = list(map(int, sets.rows))
        for row in sorted(rows, key=lambda one: int(spare[one])):
            for op in _each(sets.ends[row]):
                self.writers[op].append(row)
                reads[op] |= sets.needs[row]
        self.spare = {row: int(spare[row]) for row in rows}
        self.spares = [[self.spare[row] for row in listed] for listed in self.writers]
        self.reads = _closure(reads)

    def left(self, wanted: int, written: int) -> int:
        """Return the prices of all that must still be served, together."""
        found, waiting, total = 0, wanted, 0
        inner = []
        while waiting:
            bit = waiting & -waiting
            found |= bit
            op = bit.bit_length() - 1
            total += self.price[op]
            if wanted & bit:
                total += self.from_written[op]
            elif self.arcs[op]:
                inner.append(op)
            waiting = (waiting | self.before[op] & ~written) & ~found
        for op in inner:
            for reader, price in self.arcs[op]:
                if found & reader:
                    total += price
        return total

    def answer(self, deadline: float, on_bound: Callable[[int], None]) -> Chosen:
        """Run until the end, or until time is up."""
        start: State = (self.results, 0, ())
        first = self.left(self.results, 0)
        best: dict[State, int] = {start: 0}
        came: dict[State, tuple[State, int, Move]] = {}
        heap: list[tuple[int, int, int, State]] = [(first, 0, 0, start)]
        number, bound, told, lost = 0, first, first, self.below
        while heap:
            least, minus, _, state = heapq.heappop(heap)
            spent = -minus
            if spent > best[state]:
                continue
            bound = max(bound, min(least, lost))
            if bound > told + self.candidates.graph.scale:
                told = bound
                on_bound(bound)
            if not state[0]:
                blocks = self._ordered(came, state)
                return Chosen(min(spent, lost), spent, blocks, spent <= lost)
            for row, total, raw in self._following(state, spent):
                if time.monotonic() > deadline:
                    return Chosen(min(bound, lost))
                if raw is None:
                    lost = min(lost, total)
                    continue
                after, move = self._in_order(raw)
                if total >= best.get(after, self.below):
                    continue
                whole = max(least, total + self.left(after[0], after[1]))
                if whole >= self.below:
                    continue
                best[after] = total
                came[after] = state, row, move
                number += 1
                heapq.heappush(heap, (whole, -total, number, after))
        return Chosen(min(lost, self.below), proven=lost >= self.below)

    def _profile(self, state: State) -> Callable[[int], tuple[int, ...]]:
        """Return what a state says of an operation, but for its name."""
        wanted, written, waits = state
        depends = dict(waits)
        return lambda op: (
            -(wanted >> op & 1),
            -(written >> op & 1),
            depends.get(op, 0),
            *(ahead >> op & 1 for _, ahead in waits),
        )

    def _in_order(self, state: State) -> tuple[State, Move]:
        """Return the state with twins in order, and where they go for that."""
        move = in_order(self.groups, self._profile(state)) if self.groups else {}
        if not move:
            return state, move
        wanted, written, waits = state
        now = sorted((move.get(op, op), apply_move(ahead, move)) for op, ahead in waits)
        return (apply_move(wanted, move), apply_move(written, move), tuple(now)), move

    def _following(self, state: State, spent: int) -> Iterator[tuple[int, int, State | None]]:
        """Yield subgraphs that write one of the wanted tensors, the cost then, and the state.

        Where a subgraph waits for itself, the cost is a bound on that of all that is left out, without one.
        """
        wanted, written, waits = state
        least = spent + self.left(wanted, written)  # by its own names: prices of twins may differ
        op = min(_each(wanted), key=lambda one: (bisect_left(self.spares[one], self.below - least), one))
        depends = dict(waits)
        profile = self._profile(state)
        pairs = equal_pairs(self.groups, lambda one: (one == op, *profile(one)))
        for row in self.writers[op]:
            if least + self.spare[row] >= self.below:
                break
            bits = self.candidates.bits[row]
            if any(bits >> other & 1 and not bits >> one & 1 for one, other in pairs):
                continue
            ends, needs = self.ends[row], self.needs[row]
            there, open_ = written | ends, (wanted | needs & ~written) & ~ends
            rest = spent + self.left(open_, there)
            if rest + int(self.candidates.ticks[row]) >= self.below:
                continue
            self.candidates.price(row, self.below - rest)
            total = spent + int(self.candidates.ticks[row])
            if total - spent + rest >= self.below:
                continue
            behind = needs & ~written
            for one in _each(needs & written):
                behind |= depends.get(one, 0)
            if behind & ends:
                yield row, rest + total - spent, None
                continue
            reads = 0
            for one in _each(open_):
                reads |= self.reads[one]
            kept = there & reads  # nothing else is ever read again
            now = dict.fromkeys(_each(ends & kept & ~written), behind) if behind else {}
            for one, ahead in depends.items():
                after = (ahead & ~ends) | behind if ahead & ends else ahead
                if kept >> one & 1 and after:
                    now[one] = after
            yield row, total, (open_, kept, tuple(sorted(now.items())))

    def _ordered(
        self, came: dict[State, tuple[State, int, Move]], state: State
    ) -> tuple[frozenset[int], ...]:
        """Return the subgraphs on the way to a state, each behind those that write what it reads."""
        path = []
        while state in came:
            state, row, move = came[state]
            path.append((row, move))
        path.reverse()
        count = len(self.before)
        blocks = restore_names([(self.candidates.ops(row), move) for row, move in path], count)
        ends = restore_names([(_each(self.ends[row]), move) for row, move in path], count)
        needs = restore_names([(_each(self.needs[row]), move) for row, move in path], count)
        chosen = list(zip(blocks, ends, needs, strict=True))
        there: set[int] = set()
        order = []
        while chosen:
            one = next(one for one in chosen if there.issuperset(one[2]))
            chosen.remove(one)
            order.append(frozenset(one[0]))
            there.update(one[1])
        return tuple(order)


def _closure(reads: list[int]) -> list[int]:
    """Return what may be read for each operation, and for what is read, and so on."""
    found = list(reads)
    changed = True
    while changed:
        changed = False
        for op, bits in enumerate(found):
            wider = bits
            for one in _each(bits):
                wider |= found[one]
            if wider != bits:
                found[op] = wider
                changed = True
    return found


def _each(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, ascending."""
    while bits:
        bit = bits & -bits
        bits ^= bit
        yield bit.bit_length() - 1
