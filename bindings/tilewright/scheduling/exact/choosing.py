"""Subgraphs chosen from the results backwards, where no tensor can be kept: A* over what is not written yet.

Without kept tensors a plan is a set of subgraphs, whatever their order, as long as there is one. So from a
state one tensor that must still be written is looked at, and every subgraph that may write it: the orders in
which subgraphs that do not wait for each other run are never told apart. A state has

- the tensors that chosen subgraphs read and none of them writes,
- those that they write,
- and for each of the latter, for which of the former it waits.

What is left costs at least the prices of the operations that must still be run. A subgraph that reads what
waits for what it writes is left out, although the same tensor might be written twice: the search knows the
least cost of what it left out so, and proves nothing beyond that.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.exact.candidates import Candidates

State = tuple[int, int, tuple[tuple[int, int], ...]]
"""Tensors that must be written and that are, by their operations, as bits; for what each of these waits."""


@dataclass
class Chosen:
    """What the search found.

    Attributes
    ----------
    bound
        No set of subgraphs costs less.
    ticks, rows
        Of the best set, where it costs less than asked for: the sets of operations in an order that works.
    proven
        Whether the search has come to its end, having left out nothing that could be better.
    """

    bound: int
    ticks: int | None = None
    rows: tuple[int, ...] = ()
    proven: bool = False


class Choosing:
    """The search.

    Parameters
    ----------
    rows, needs, ends
        Sets of operations that may be in a plan that costs less than `below`; of each, the operations that
        make what it reads, and those whose tensors it writes, as bits.
    """

    def __init__(
        self,
        candidates: Candidates,
        prices: NDArray[np.int64],
        rows: NDArray[np.int64],
        needs: dict[int, int],
        ends: dict[int, int],
        results: int,
        before: list[int],
        below: int,
    ) -> None:
        self.candidates, self.below = candidates, below
        self.needs, self.ends, self.results, self.before = needs, ends, results, before
        self.price = [int(one) for one in prices]
        count = len(before)
        spare = candidates.ticks - candidates.has @ prices
        self.writers: list[list[int]] = [[] for _ in range(count)]
        reads = [0] * count
        for row in sorted(map(int, rows), key=lambda one: int(spare[one])):
            for op in _each(ends[row]):
                self.writers[op].append(row)
                reads[op] |= needs[row]
        self.spare = {row: int(spare[row]) for row in map(int, rows)}
        self.spares = [[self.spare[row] for row in listed] for listed in self.writers]
        self.reads = _closure(reads)

    def left(self, wanted: int, written: int) -> int:
        """Return the prices of the operations that must still be run, together."""
        found, waiting, total = 0, wanted, 0
        while waiting:
            bit = waiting & -waiting
            found |= bit
            op = bit.bit_length() - 1
            total += self.price[op]
            waiting = (waiting | self.before[op] & ~written) & ~found
        return total

    def answer(self, deadline: float, on_bound: Callable[[int], None]) -> Chosen:
        """Run until the end, or until time is up."""
        start: State = (self.results, 0, ())
        first = self.left(self.results, 0)
        best: dict[State, int] = {start: 0}
        came: dict[State, tuple[State, int]] = {}
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
                rows = self._ordered(came, state)
                return Chosen(min(spent, lost), spent, rows, spent <= lost)
            for row, total, after in self._following(state, spent, least):
                if time.monotonic() > deadline:
                    return Chosen(min(bound, lost))
                if after is None:
                    lost = min(lost, total)
                    continue
                if total >= best.get(after, self.below):
                    continue
                whole = max(least, total + self.left(after[0], after[1]))
                if whole >= self.below:
                    continue
                best[after] = total
                came[after] = state, row
                number += 1
                heapq.heappush(heap, (whole, -total, number, after))
        return Chosen(min(lost, self.below), proven=lost >= self.below)

    def _following(self, state: State, spent: int, least: int) -> Iterator[tuple[int, int, State | None]]:
        """Yield subgraphs that write one of the wanted tensors, the cost then, and the state.

        Where a subgraph waits for itself, the cost is a bound on that of all that is left out, without one.
        """
        wanted, written, waits = state
        op = min(_each(wanted), key=lambda one: (bisect_left(self.spares[one], self.below - least), one))
        depends = dict(waits)
        for row in self.writers[op]:
            if least + self.spare[row] >= self.below:
                break
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

    def _ordered(self, came: dict[State, tuple[State, int]], state: State) -> tuple[int, ...]:
        """Return the subgraphs on the way to a state, each behind those that write what it reads."""
        chosen = []
        while state in came:
            state, row = came[state]
            chosen.append(row)
        there, order = 0, []
        while chosen:
            row = next(one for one in chosen if not self.needs[one] & ~there)
            chosen.remove(row)
            order.append(row)
            there |= self.ends[row]
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
