"""One option for each of several things, such that all together keep what must hold and cost least.

It is a depth-first branch and bound for what constraints relate: whatever else a room's own search knows of
its options, as that one replaces another, need not hold where a constraint tells them apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.spec.constraints.parts import Ground, Term, terms
from tilewright.spec.constraints.ranges import Range, can_hold

LOOKED_AT = 1024
"""Options between two looks at the clock."""


@dataclass(frozen=True)
class Options:
    """From what one thing chooses, the cheapest first.

    Attributes
    ----------
    costs
        What each option costs, ascending.
    values
        Of the terms that are decided by this thing, their value in each option.
    """

    costs: tuple[int, ...]
    values: Mapping[Term, Sequence[int]]


@dataclass
class Choosing:
    """The search.

    Attributes
    ----------
    things
        What is chosen for, with its options; those that constraints relate should stand together.
    parts
        What must hold.
    totals
        Terms that are sums over all things: of each thing the value of each option.
    on_better
        Called with the places of the options chosen, and their cost, as soon as one is found that costs less.
    deadline
        ``time.monotonic()`` at which it gives up.
    """

    things: Sequence[Options]
    parts: Sequence[Ground]
    totals: Mapping[Term, Sequence[Sequence[int]]]
    on_better: Callable[[list[int], int], None]
    deadline: float = float("inf")
    best: list[int] | None = None
    cost: int | None = None
    _looks: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self._owner = {term: number for number, thing in enumerate(self.things) for term in thing.values}
        self._open: dict[Term, list[Range]] = {}
        for term, rows in self.totals.items():
            ends, low, high = [(0, 0)], 0, 0
            for row in reversed(rows):
                low, high = low + min(row), high + max(row)
                ends.append((low, high))
            self._open[term] = ends[::-1]
        least = [thing.costs[0] for thing in self.things]
        self._least_left = [sum(least[number:]) for number in range(len(least) + 1)]
        self._ranges = {
            term: (min(values), max(values)) for thing in self.things for term, values in thing.values.items()
        }
        total = set(self.totals)
        # A part is looked at when something has been chosen on which it depends.
        self._to_look = [
            [
                part
                for part in self.parts
                if (found := terms(part)) & (thing.values.keys() | total) or not found
            ]
            for thing in self.things
        ]
        self._chosen: list[int] = []
        self._sums = dict.fromkeys(self.totals, 0)

    def run(self) -> bool:
        """Search; return whether all has been looked at: then `best` is the best, or nothing is feasible."""
        return self._descend(0, 0)

    def _range(self, term: Term) -> Range:
        known = len(self._chosen)
        if term in self._sums:
            low, high = self._open[term][known]
            return self._sums[term] + low, self._sums[term] + high
        owner = self._owner[term]
        if owner < known:
            value = self.things[owner].values[term][self._chosen[owner]]
            return value, value
        return self._ranges[term]

    def _descend(self, number: int, spent: int) -> bool:
        if number == len(self.things):
            self.best, self.cost = list(self._chosen), spent
            self.on_better(self.best, spent)
            return True
        thing, rest = self.things[number], self._least_left[number + 1]
        for place, own in enumerate(thing.costs):
            if self.cost is not None and spent + own + rest >= self.cost:
                break
            self._looks += 1
            if self._looks % LOOKED_AT == 0 and time.monotonic() > self.deadline:
                return False
            self._chosen.append(place)
            for term, rows in self.totals.items():
                self._sums[term] += rows[number][place]
            possible = all(can_hold(part, self._range) for part in self._to_look[number])
            complete = not possible or self._descend(number + 1, spent + own)
            self._chosen.pop()
            for term, rows in self.totals.items():
                self._sums[term] -= rows[number][place]
            if not complete:
                return False
        return True
