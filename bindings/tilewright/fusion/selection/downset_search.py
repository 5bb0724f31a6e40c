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

*Layouts.* Where what groups load and save has one of several layouts, a candidate stands for a group with
some layouts. A downset is told apart by the layouts of those DRAM tensors that groups have met and that
others are still to meet. A candidate with another layout of such a tensor does not follow. What the copies of
a tensor cost is added where it is met first. A plan is then still a path, and a path a plan.

*Why it ends in time.* Each sweep goes through the downsets by size and keeps the shortest paths to a limited
number of each; the shortest that it drops is a lower bound for all that it never sees. The next sweep keeps
more, until the bound meets the best plan. What shortens a sweep never makes a bound wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from tilewright.fusion.graph import engine_of
from tilewright.fusion.machine import HOST
from tilewright.fusion.problem import Problem
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


class Shared(NamedTuple):
    """DRAM tensors that have one layout for all groups that load or save them.

    Attributes
    ----------
    holders
        For each, the operations of the accelerator that read or compute a map of it.
    copies
        For each, the layouts that it can have, with what its copies cost then.
    """

    holders: tuple[tuple[int, ...], ...] = ()
    copies: tuple[dict[str, int], ...] = ()

    @classmethod
    def of(cls, problem: Problem) -> Shared:
        """Return those of a problem; none where each has one layout."""
        if problem.machine.layouts is None:
            return cls()
        holders: list[set[int]] = [set() for _ in problem.tensors]
        for op in problem.ops:
            if engine_of(op) != HOST:
                for number in (*op.producers, op.number):
                    holders[problem.tensor_of[number]].add(op.number)
        copies = tuple(
            {
                layout: sum(map(problem.copy_cost, problem.copied({index: layout}).values()))
                for layout in tensor.layouts
            }
            for index, tensor in enumerate(problem.tensors)
        )
        return cls(tuple(tuple(sorted(each)) for each in holders), copies)

    def cost(self, chosen: Sequence[Candidate]) -> int:
        """Return what a choice of candidates costs, with its copies."""
        layouts = dict(one for candidate in chosen for one in candidate.layouts)
        copied = sum(self.copies[index][layout] for index, layout in layouts.items())
        return sum(candidate.cost for candidate in chosen) + copied


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
    shared: Shared | None = None,
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
    shared
        What groups must agree on; `start` must, too.
    """
    shared = shared or Shared()
    if start is None:
        start = [candidate for candidate in candidates if len(candidate.nodes) == 1]
    incumbent = BestGroups(tuple(start), shared.cost(start), bound)
    yield incumbent
    each = dual_prices(len(producers), candidates, incumbent.cost, deadline)
    lowest, width, most = sum(each), FIRST_WIDTH, max(FIRST_WIDTH, MAX_DOWNSETS // len(producers))
    incumbent = incumbent._replace(bound=max(bound, lowest))
    yield incumbent
    lattice = _Lattice(producers, candidates, each, shared)
    while not incumbent.proven:
        try:
            path, beyond = lattice.sweep(incumbent.cost - lowest, width, deadline)
        except OutOfTimeError:
            return
        if path:
            incumbent = BestGroups(path, shared.cost(path), incumbent.bound)
        incumbent = incumbent._replace(bound=max(incumbent.bound, min(incumbent.cost, lowest + beyond)))
        yield incumbent
        if width == most:
            return
        width = min(WIDTH_GROWTH * width, most)


Pair = tuple[int, int]


class _Step(NamedTuple):
    """A candidate as bit masks.

    Attributes
    ----------
    members, before
        Its members, and what else must have been executed before it.
    agreed, excluded
        Layouts that it has, and others of the same DRAM tensors; a bit for each layout of each tensor.
    copies
        Tensors that it has, all their layouts, with what copies cost if it is the first.
    met
        Tensors that its members have to do with, all their layouts, with the operations that have.
    """

    members: int
    before: int
    reduced: int
    candidate: Candidate
    agreed: int
    excluded: int
    copies: tuple[tuple[int, int], ...]
    met: tuple[tuple[int, int], ...]


Reached = dict[Pair, tuple[int, _Step | None, int]]
"""What is left and layouts, with the length of the shortest way, its last step and the layouts before it."""


class _Lattice:
    """The downsets of a graph, told by what is left and by layouts, and the candidates between them."""

    def __init__(
        self,
        producers: Sequence[Sequence[int]],
        candidates: Sequence[Candidate],
        price: Sequence[int],
        shared: Shared,
    ) -> None:
        self.size = len(producers)
        self._shared = shared
        self._holders = [sum(1 << number for number in each) for each in shared.holders]
        ends = [0]
        for able in shared.copies:
            ends.append(ends[-1] + len(able))
        self._bits = [
            {layout: 1 << first + place for place, layout in enumerate(able)}
            for first, able in zip(ends, shared.copies, strict=False)
        ]
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
            self.steps.append(
                _Step(members, before & ~members, reduced, candidate, *self._layouts(candidate))
            )

    def _layouts(self, candidate: Candidate) -> tuple[int, int, tuple[Pair, ...], tuple[Pair, ...]]:
        """Return what `_Step` has of layouts: agreed, excluded, copies and met."""
        members = sum(1 << number for number in candidate.nodes)
        every = [sum(bits.values()) for bits in self._bits]
        agreed = sum(self._bits[index][layout] for index, layout in candidate.layouts)
        touched = sum(every[index] for index, _ in candidate.layouts)
        costs = [(every[index], self._shared.copies[index][layout]) for index, layout in candidate.layouts]
        met = [pair for pair in zip(every, self._holders, strict=True) if pair[1] & members]
        return agreed, touched & ~agreed, tuple(pair for pair in costs if pair[1]), tuple(met)

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
        reached: list[Reached] = [{} for _ in range(self.size + 1)]
        reached[self.size][(1 << self.size) - 1, 0] = 0, None, 0
        beyond = gap
        for left in range(self.size, 0, -1):
            here = reached[left]
            if len(here) > width:
                by_length = sorted(here.items(), key=lambda item: item[1][0])
                beyond = min(beyond, by_length[width][1][0])
                here = reached[left] = dict(by_length[:width])
            for count, ((rest, layouts), (length, *_)) in enumerate(here.items()):
                if count % 1024 == 0 and time.monotonic() > deadline:
                    raise OutOfTimeError
                for step in _ready(rest, holding):
                    if layouts & step.excluded:
                        continue
                    further = length + step.reduced
                    for tensor, cost in step.copies:
                        further += 0 if layouts & tensor else cost
                    if further < gap:
                        next_downsets = reached[left - len(step.candidate.nodes)]
                        there = rest ^ step.members, _still_met(step, layouts, rest)
                        before = next_downsets.get(there)
                        if before is None or further < before[0]:
                            next_downsets[there] = further, step, layouts
        return self._path(reached), min([beyond, *(length for length, *_ in reached[0].values())])

    def _path(self, reached: list[Reached]) -> tuple[Candidate, ...]:
        """Return the candidates on the way to where nothing is left; none if it was not reached."""
        path, rest, layouts = [], 0, 0
        _, step, before = reached[0].get((rest, layouts), (0, None, 0))
        while step is not None:
            path.append(step.candidate)
            rest, layouts = rest | step.members, before
            _, step, before = reached[rest.bit_count()][rest, layouts]
        return tuple(path)


def _still_met(step: _Step, layouts: int, rest: int) -> int:
    """Return the layouts of the tensors that operations are still to meet after a step."""
    layouts |= step.agreed
    left = rest ^ step.members
    for tensor, holders in step.met:
        if not holders & left:
            layouts &= ~tensor
    return layouts


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
