"""The least traffic of a tiny head of attention by exhaustive search, and of orders of its pairs by rule.

Nothing here knows of plans or of bounds. Products are done one by one when all that they take is on chip.
What lies between scores and softmax costs nothing: a score is multiplied by values once it is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Token = tuple[Any, ...]
State = tuple[frozenset[Token], frozenset[Token]]


class Head(NamedTuple):
    """A head of attention whose queries, keys and values are in DRAM.

    Attributes
    ----------
    depth, values
        Elements of a query or key, and of a value.
    width
        Elements that a sum takes which still waits for products.
    """

    queries: int
    keys: int
    depth: int
    values: int
    width: int = 1

    @property
    def compulsory(self) -> int:
        """Elements of queries, keys, values and context."""
        return self.queries * (self.depth + self.values) + self.keys * (self.depth + self.values)


class Pebbles:
    """The game on a head: ("q", i, c), ("k", j, c), ("v", j, e), and sums with the products they have.

    These are ("s", i, j, products) of a score and ("o", i, e, products) of the context.
    """

    def __init__(self, head: Head, memory: int) -> None:
        self.head, self.memory = head, memory
        self.full = {"s": (1 << head.depth) - 1, "o": (1 << head.keys) - 1}
        self.inputs = [
            *(("q", i, c) for i in range(head.queries) for c in range(head.depth)),
            *(("k", j, c) for j in range(head.keys) for c in range(head.depth)),
            *(("v", j, e) for j in range(head.keys) for e in range(head.values)),
        ]

    def least(self) -> int:
        """Return the fewest elements that are loaded and written."""
        begin: State = (frozenset(), frozenset())
        best, waiting = {begin: 0}, deque([(0, begin)])
        while waiting:
            cost, state = waiting.popleft()
            if cost > best[state]:
                continue
            if self._is_end(state):
                return cost
            for more, after in self._moves(state):
                if cost + more < best.get(after, 10**9):
                    best[after] = cost + more
                    if more:
                        self._enqueue(waiting, cost + more, after)
                    else:
                        waiting.appendleft((cost, after))
        raise AssertionError("the memory is too small")

    @staticmethod
    def _enqueue(waiting: deque[tuple[int, State]], cost: int, state: State) -> None:
        """Keep the queue in the order of costs, of which there are few at a time."""
        place = len(waiting)
        while place and waiting[place - 1][0] > cost:
            place -= 1
        waiting.insert(place, (cost, state))

    def _is_end(self, state: State) -> bool:
        return sum(token[0] == "o" and token[3] == self.full["o"] for token in state[1]) == (
            self.head.queries * self.head.values
        )

    def weight(self, token: Token) -> int:
        """Return the elements that a value takes."""
        return self.head.width if token[0] == "o" and token[3] != self.full["o"] else 1

    def _fits(self, chip: Iterable[Token]) -> bool:
        return sum(map(self.weight, chip)) <= self.memory

    def _moves(self, state: State) -> Iterator[tuple[int, State]]:
        """Return what loads, writes, frees and products lead to, with the elements that they move."""
        chip, dram = state
        for token in [*self.inputs, *dram]:
            done = token[0] == "o" and token[3] == self.full["o"]
            if token not in chip and not done and self._fits(chip | {token}):
                yield self.weight(token), (chip | {token}, dram)
        for token in chip:
            if token[0] in "so" and token not in dram:
                yield self.weight(token), (chip, dram | {token})
            else:
                yield 0, (chip - {token}, dram)
        yield from self._products(state)

    def _products(self, state: State) -> Iterator[tuple[int, State]]:
        chip, _ = state
        for q in chip:
            for k in chip:
                if q[0] == "q" and k[0] == "k" and q[2] == k[2]:
                    yield from self._added(state, ("s", q[1], k[1]), q[2])
        for s in chip:
            for v in chip:
                if s[0] == "s" and s[3] == self.full["s"] and v[0] == "v" and v[1] == s[2]:
                    yield from self._added(state, ("o", s[1], v[2]), v[1])
        for one in chip:
            for other in chip:
                if one[0] in "so" and one[:3] == other[:3] and one[3] < other[3] and not one[3] & other[3]:
                    joined = (*one[:3], one[3] | other[3])
                    yield 0, self._replaced(state, [one, other], joined)

    def _added(self, state: State, name: Token, product: int) -> Iterator[tuple[int, State]]:
        """Add a product that has not been done to a part of a sum on chip, or begin a part."""
        parts = {token for token in state[0] | state[1] if token[:3] == name}
        done = 0
        for token in parts:
            done |= token[3]
        if name[0] == "s":  # a score that has gone is in all sums of its query
            sums = [token for token in state[0] | state[1] if token[:2] == ("o", name[1])]
            if sum(token[3] >> name[2] & 1 for token in set(sums)) and not parts:
                return
        if done >> product & 1:
            return
        for part in [token for token in parts if token in state[0]]:
            yield from self._if_fits(self._replaced(state, [part], (*name, part[3] | 1 << product)))
        yield from self._if_fits(self._replaced(state, [], (*name, 1 << product)))

    def _if_fits(self, state: State) -> Iterator[tuple[int, State]]:
        if self._fits(state[0]):
            yield 0, state

    def _replaced(self, state: State, parts: list[Token], new: Token) -> State:
        """Put a sum in the place of its parts, copies in DRAM included; free a score that all have used."""
        chip, dram = (state[0] - set(parts)) | {new}, state[1] - set(parts)
        if new[0] == "o":
            for j in range(self.head.keys):
                score = ("s", new[1], j, self.full["s"])
                used = {t[2] for t in chip | dram if t[:2] == ("o", new[1]) and t[3] >> j & 1}
                if len(used) == self.head.values:
                    chip, dram = chip - {score}, dram - {score}
        return chip, dram


def moved_in_order(head: Head, memory: int, order: list[tuple[int, int]]) -> int | None:
    """Return what a schedule moves that completes one pair after the other; None without room for a pair.

    A query is there with its sums, a key with its value. What is used again latest leaves first, and sums go
    to DRAM and come back; one score is on chip at a time.
    """
    of_query, of_key = head.depth + head.width * head.values, head.depth + head.values
    size = {"query": of_query, "key": of_key}
    if of_query + of_key + 1 > memory:
        return None
    uses: dict[Token, deque[int]] = {}
    for time, pair in enumerate(order):
        for row in zip(size, pair, strict=True):
            uses.setdefault(row, deque()).append(time)
    chip, begun, moved, free = set[Token](), set[Token](), 0, memory - 1
    for pair in order:
        needed: list[Token] = [*zip(size, pair, strict=True)]
        for row in needed:
            uses[row].popleft()
        for row in needed:
            if row in chip:
                continue
            while free < size[row[0]]:
                others = [each for each in chip if each not in needed]
                gone = max(others, key=lambda each: uses[each][0] if uses[each] else len(order))
                chip.remove(gone)
                free += size[gone[0]]
                if gone[0] == "query":
                    moved += head.values * (head.width if uses[gone] else 1)
            if row[0] == "key":
                moved += of_key
            else:
                moved += of_query if row in begun else head.depth
            begun.add(row)
            chip.add(row)
            free -= size[row[0]]
    return moved + sum(head.values for row in chip if row[0] == "query")
