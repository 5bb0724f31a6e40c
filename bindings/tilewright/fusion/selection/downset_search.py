"""The exact search: a shortest path through the downsets of the graph, from all operations left to none.

*Why paths are plans.* The operations that have been executed form a downset: it holds all that its members
depend on. A candidate of which nothing has been executed, and whose members depend on nothing else that is
left, leads to the next downset. A path to the whole graph executes every operation once, in groups that wait
only for earlier ones; conversely the groups of a plan, in an order of execution, are such a path. A path's
length is the sum of its candidates' costs, so that the shortest one is an optimal plan.

*Why few downsets are visited.* Any order of execution of the same groups serves, and one is demand-driven:
let v be the first operation that is left. Its group is next unless the group needs something else that is
left; then let v be the first of that, and so on. This ends, because a plan's groups do not wait for each
other in a cycle. The search does not know the plan's groups, and follows all candidates that hold v and have
not begun: those that are ready lead to a next downset, the others tell what else may be needed. Each plan
keeps a path, its demand-driven one, but downsets that no demand leads to are never made. What is left beside
a branch that is under way then hardly counts, and a network of modules has few more downsets than operations.

*Why most candidates are never tried.* Let each operation have a price, such that no candidate costs less than
its members' prices together: a feasible solution of the dual of the set partitioning's linear relaxation. The
sum of all prices is then a lower bound on every plan, and what a candidate costs beyond its members' prices,
its reduced cost, adds to it. A path whose reduced costs reach the gap between the bound and the best known
plan leads to none that is better, nor does one with a candidate whose own reduced cost does.

*Why it ends in time.* Each sweep goes through the downsets by size and keeps the shortest paths to a limited
number of each; the shortest that it drops is a lower bound for all that it never sees. The next sweep keeps
more, until the bound meets the best plan. What shortens a sweep never makes a bound wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from tilewright.fusion.selection.candidates import Candidate
from tilewright.fusion.selection.dual_prices import dual_prices
from tilewright.spec.errors import OutOfTimeError

FIRST_WIDTH, WIDTH_GROWTH = 250, 8
"""Downsets of a size that the first sweep keeps, and how many times as many each next one."""

MAX_DOWNSETS = 4_000_000
"""Downsets that a sweep keeps in all: about a gigabyte."""


class BestGroups(NamedTuple):
    """The best plan so far, and a bound on every plan.

    Attributes
    ----------
    chosen
        The candidates of the best known plan, in no particular order.
    cost
        Of that plan.
    bound
        Proven lower bound on the cost of every plan.
    """

    chosen: tuple[Candidate, ...]
    cost: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether no plan is better."""
        return self.bound >= self.cost


def best_groups(
    producers: Sequence[Sequence[int]],
    candidates: Sequence[Candidate],
    start: Sequence[Candidate] | None = None,
    deadline: float = inf,
) -> BestGroups:
    """Return the last of the `search_downsets`: the optimum, if there was time to prove it."""
    *_, incumbent = search_downsets(producers, candidates, start, deadline)
    return incumbent


def search_downsets(
    producers: Sequence[Sequence[int]],
    candidates: Sequence[Candidate],
    start: Sequence[Candidate] | None = None,
    deadline: float = inf,
    bound: int = 0,
) -> Iterator[BestGroups]:
    """Find better and better plans and bounds; the last is proven unless time or space run out.

    Parameters
    ----------
    producers
        For each operation, by number, what it reads: smaller numbers, or -1 for the network's input.
    candidates
        Groups to choose from, of which none waits for itself; each operation alone is one.
    start
        Candidates that make up a plan; by default each operation alone.
    deadline
        As ``time.monotonic()`` tells it.
    bound
        A proven lower bound that is known already.
    """
    if start is None:
        start = [candidate for candidate in candidates if len(candidate.nodes) == 1]
    incumbent = BestGroups(tuple(start), sum(candidate.cost for candidate in start), bound)
    yield incumbent
    each = dual_prices(len(producers), candidates, incumbent.cost, deadline)
    lowest, width, most = sum(each), FIRST_WIDTH, max(FIRST_WIDTH, MAX_DOWNSETS // len(producers))
    incumbent = incumbent._replace(bound=max(bound, lowest))
    yield incumbent
    lattice = _Lattice(producers, candidates, each)
    while not incumbent.proven:
        try:
            path, beyond = lattice.sweep(incumbent.cost - lowest, width, deadline)
        except OutOfTimeError:
            return
        if path:
            incumbent = BestGroups(path, sum(candidate.cost for candidate in path), incumbent.bound)
        incumbent = incumbent._replace(bound=max(incumbent.bound, min(incumbent.cost, lowest + beyond)))
        yield incumbent
        if width == most:
            return
        width = min(WIDTH_GROWTH * width, most)


class _Step(NamedTuple):
    """A candidate as bit masks: its members, and what else must have been executed before it."""

    members: int
    before: int
    reduced: int
    candidate: Candidate


class _Lattice:
    """The downsets of a graph, told by what is left, and the candidates between them."""

    def __init__(
        self, producers: Sequence[Sequence[int]], candidates: Sequence[Candidate], price: Sequence[int]
    ) -> None:
        self.size = len(producers)
        ancestors: list[int] = []
        for sources in producers:
            mask = 0
            for source in sources:
                if source >= 0:
                    mask |= ancestors[source] | 1 << source
            ancestors.append(mask)
        self.steps = []
        for candidate in candidates:
            members = sum(1 << number for number in candidate.nodes)
            before = 0
            for number in candidate.nodes:
                before |= ancestors[number]
            reduced = candidate.cost - sum(price[number] for number in candidate.nodes)
            self.steps.append(_Step(members, before & ~members, reduced, candidate))

    def sweep(self, gap: int, width: int, deadline: float) -> tuple[tuple[Candidate, ...], int]:
        """Return the shortest path that is found, if it is shorter than a gap, and a bound on all others.

        Raises
        ------
        OutOfTimeError
            If the deadline passes first.
        """
        holding: list[list[_Step]] = [[] for _ in range(self.size)]
        for step in self.steps:
            if step.reduced < gap:
                for number in step.candidate.nodes:
                    holding[number].append(step)
        reached: list[dict[int, tuple[int, _Step | None]]] = [{} for _ in range(self.size + 1)]
        reached[self.size][(1 << self.size) - 1] = 0, None
        beyond = gap
        for left in range(self.size, 0, -1):
            here = reached[left]
            if len(here) > width:
                by_length = sorted(here.items(), key=lambda item: item[1][0])
                beyond = min(beyond, by_length[width][1][0])
                here = reached[left] = dict(by_length[:width])
            for count, (rest, (length, _)) in enumerate(here.items()):
                if count % 1024 == 0 and time.monotonic() > deadline:
                    raise OutOfTimeError
                for step in _ready(rest, holding):
                    further = length + step.reduced
                    if further < gap:
                        next_downsets = reached[left - len(step.candidate.nodes)]
                        before = next_downsets.get(rest ^ step.members)
                        if before is None or further < before[0]:
                            next_downsets[rest ^ step.members] = further, step
        return self._path(reached), min([beyond, *(length for length, _ in reached[0].values())])

    def _path(self, reached: list[dict[int, tuple[int, _Step | None]]]) -> tuple[Candidate, ...]:
        """Return the candidates on the way to where nothing is left; none if it was not reached."""
        path, rest = [], 0
        _, step = reached[0].get(rest, (0, None))
        while step is not None:
            path.append(step.candidate)
            rest |= step.members
            _, step = reached[rest.bit_count()][rest]
        return tuple(path)


def _ready(rest: int, holding: Sequence[Sequence[_Step]]) -> Iterator[_Step]:
    """Return the candidates that can be next in a demand-driven order, with these operations left."""
    wanted, seen = rest & -rest, 0
    while wanted:
        number = wanted & -wanted
        wanted ^= number
        seen |= number
        for step in holding[number.bit_length() - 1]:
            if step.members & ~rest:
                continue
            needed = step.before & rest
            if needed:
                wanted |= needed & -needed & ~seen
            else:
                yield step
