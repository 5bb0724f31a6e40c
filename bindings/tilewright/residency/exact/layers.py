"""The search for large networks: layer by layer of what has been executed, the best ways to get there.

All states in which the same operations have been executed are looked at together, when all that lead to them
have been. Of these, a state is worse than another that has come with no more traffic, has all in DRAM that it
has there, and on chip nothing that it has in DRAM alone: whatever follows, the other can read from DRAM what
the worse one has on chip, and has paid for that already, as what is in DRAM alone is counted as read.

A tensor leaves the chip, if at all, right after a step that had to do with it: nothing is gained by waiting.

Bounds on what is still to come are shortest paths over what has been executed, where each step finds its
sources wherever it likes, and the memory free of everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from heapq import heapify, heappop, heappush, nsmallest
from itertools import accumulate, pairwise
from typing import NamedTuple

from tilewright.core.branch_and_bound import GrowingLimit, Incumbent, check_deadline, ignore
from tilewright.residency.exact.search import StepSequence
from tilewright.residency.exact.traffic_steps import LazyTrafficStep, TrafficStep, TrafficSteps
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import group_mask
from tilewright.residency.transitions import Transitions

FINENESS = 64
"""Bounds are looked at as closely as this part of what plans may move beyond what they must."""

WIDTHS = (4, 64, 512)
"""States that are kept of each layer, in one search for plans after the other."""

TABLE = 30
"""What it takes to find the ways to execute a step, in expansions of a state."""

PARTS = (8, 4, 2, 1)
"""Plans are sought that lie in this part of what is between the bound and the best one known."""

PLANNING = 2
"""How many times more work is done to find plans than to prove, as long as there is something to try."""

FEW = 16
"""Ways to execute a step that are enough in the first searches."""

BESIDE = 64
"""States that are kept of each layer where plans are looked for that leave some room."""

WITHOUT_EXCESS = 64
"""States that are kept of each layer where plans are looked for that move only what they must."""


class Node(NamedTuple):
    """A state, what has been moved to get there beyond what must be, and the step that leads to it.

    Not counted is what counts where tensors are read last: see `Options`.
    """

    excess: int
    on_chip: int
    in_dram: int
    before: Node | None = None
    mask: int = 0
    option: TrafficStep | LazyTrafficStep | None = None


class Layers:
    """The search for one memory.

    Parameters
    ----------
    most
        Elements that a plan may move.
    on_bound
        Called with each better bound.

    Attributes
    ----------
    ended
        Whether the last search was not given up.
    """

    def __init__(
        self,
        steps: Transitions,
        *,
        most: int,
        given_order: bool = False,
        most_operations: int | None = None,
        deadline: float = float("inf"),
        on_bound: Callable[[int], None] = ignore,
    ) -> None:
        self.steps, self.graph = steps, steps.graph
        self.given_order, self.most_operations, self.deadline = given_order, most_operations, deadline
        self.incumbent: Incumbent[Node] = Incumbent(on_bound=on_bound, bound=self.graph.compulsory)
        self.incumbent.leave_from(most + 1)
        self.limit = self.most
        self.options = TrafficSteps(steps, self._check, shared=True)
        self.expanded, self.ended = 0, True
        self.growing = GrowingLimit()
        self._less: Mapping[int, int] = {}
        self._sharp = False
        self.edges: dict[int, list[tuple[int, int]]] = {}
        self.ahead: dict[int, int] = {}
        self._prepare()
        self._prove(self.ahead[self.graph.begin])

    @property
    def most(self) -> int:
        """Elements that a plan may move beyond what must be, to be better than what is known."""
        return self.incumbent.cutoff - 1 - self.graph.compulsory

    @property
    def bound(self) -> int:
        """Elements that every plan moves, as far as that is known."""
        return self.incumbent.bound

    def _prove(self, excess: int) -> None:
        """Take a bound on what is moved beyond what must be."""
        self.incumbent.prove(self.graph.compulsory + excess)

    def _check(self) -> None:
        check_deadline(self.deadline)

    def _prepare(self) -> None:
        """Find all that may have been executed, and bounds on what follows."""
        graph = self.graph
        waiting, known = [graph.begin], {graph.begin}
        while waiting:
            self._check()
            done = waiting.pop()
            self.edges[done] = []
            for mask in self._groups(done):
                self.edges[done].append((self._cheap(mask, done), mask))
                if done | mask not in known:
                    known.add(done | mask)
                    waiting.append(done | mask)
        self.order = sorted(self.edges, key=int.bit_count)
        for done in reversed(self.order):
            if done == graph.all:
                self.ahead[done] = 0
                continue
            self.ahead[done] = min(
                (least + self.ahead[done | mask] for least, mask in self.edges[done]), default=2**62
            )

    def _groups(self, done: int) -> Iterator[int]:
        too_large: list[int] = []
        for last in members(self.graph.all & ~done):
            mask = group_mask(self.graph, done, last)
            if self.given_order and mask != ((1 << last + 1) - 1) & ~done:
                continue
            if self.most_operations is not None and mask.bit_count() > self.most_operations:
                continue
            if any(mask & each == each for each in too_large):
                continue
            if self.steps.least(mask) > self.steps.capacity:
                too_large.append(mask)
                continue
            yield mask

    def _cheap(self, mask: int, done: int) -> int:
        """Return a bound on what a step moves beyond what must be moved, found in a moment."""
        options, group = self.options, self.steps.group(mask)
        if len(group.operations) == 1:
            return options.least_excess(mask, done, self.most)
        return options.least_spilled(group, done)

    def plans(self) -> Iterator[StepSequence]:
        """Return better and better plans; at the end `bound` is what the last one moves.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; `bound` is what has been proven by then.
        """
        compulsory = self.graph.compulsory
        if self.most < self.bound - compulsory:
            return
        if self.bound == compulsory:
            # Where nothing must be moved again this is soon found; where it must, there is little to look at.
            self.limit = 0
            found = self.run(WITHOUT_EXCESS)
            if found is not None:
                yield self.found(found)
                return
        self.limit = self.most
        self._sharpen()
        tries = iter([(width, part) for width in WIDTHS for part in PARTS])
        proving = planning = 0
        while self.most >= self.bound - compulsory:
            before = self.work
            chosen = None if PLANNING * proving < planning else next(tries, None)
            if chosen is None:
                found = self._further()
                proving += self.work - before
            else:
                # What moves little is found soon, as little else is looked at.
                width, part = chosen
                least = self.bound - compulsory
                self.limit = least + (self.most - least) // part
                found = self.run(width)
                planning += self.work - before
            if found is not None:
                self.incumbent.leave_from(compulsory + found.excess)
                yield self.found(found)

    def _further(self) -> Node | None:
        """Look at all states, as far as that is not much more than before; return the best plan, if any."""
        before, growing = self.work, self.growing
        limit = self.limit = growing.next(self.bound - self.graph.compulsory, self.most)
        found = self.run(most_work=growing.most_work)
        growing.learn(limit, self.work - before, ended=self.ended)
        return found

    @property
    def work(self) -> int:
        """Return how much has been done, in expansions of a state."""
        return self.expanded + TABLE * self.options.sought

    def beside(self, less: Mapping[int, int], most: int) -> StepSequence | None:
        """Return a plan that leaves some room, if one is found.

        Nothing is proven by that: `bound` stays.

        Parameters
        ----------
        less
            Elements of the memory that are left free by the step after what has been executed.
        most
            Elements that it may move, no more than any plan might when the search began.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        limit, self.limit, self._less = self.limit, most - self.graph.compulsory, less
        try:
            if not self._sharp:
                self._sharpen()
            node = self.run(BESIDE)
        finally:
            self.limit, self._less = limit, {}
        return None if node is None else self.found(node)

    def _sharpen(self) -> None:
        """Find better bounds on what follows, as far as plans that move no more than `limit` need them."""
        self.options.limit = self.limit
        behind = dict.fromkeys(self.order, self.limit + 1)
        behind[self.graph.begin] = 0
        for done in self.order:
            for cheap, mask in self.edges[done]:
                behind[done | mask] = min(behind[done | mask], behind[done] + cheap)
        slack = self.limit // FINENESS
        for done in reversed(self.order):
            spare = self.limit - behind[done]
            if self.ahead[done] > spare or done == self.graph.all:
                continue
            self._check()
            heap = [(cheap + self.ahead[done | mask], mask, False) for cheap, mask in self.edges[done]]
            heapify(heap)
            known = {mask: cheap for cheap, mask in self.edges[done]}
            while heap:
                least, mask, exact = heappop(heap)
                if exact or least > spare:
                    self.ahead[done] = max(self.ahead[done], min(least, spare + 1))
                    break
                ahead = self.ahead[done | mask]
                wanted = min(spare, heap[0][0] + slack if heap else spare) - ahead
                found = self.options.least_excess(mask, done, wanted)
                known[mask] = max(known[mask], found)
                heappush(heap, (known[mask] + ahead, mask, found <= wanted))
            self.edges[done] = [(cheap, mask) for mask, cheap in known.items()]
        self._sharp = True
        self._prove(self.ahead[self.graph.begin])

    def run(self, width: int | None = None, most_work: int = 2**60) -> Node | None:
        """Return the end of the best plan with some states of each layer that moves no more than `limit`.

        Parameters
        ----------
        most_work
            Work after which it is given up.
        """
        self.options.limit = self.limit
        until = self.work + most_work
        everything = self.graph.all
        layers: dict[int, dict[tuple[int, int], Node]] = {done: {} for done in self.order}
        start = self.steps.start()
        layers[start.done][start.on_chip, start.in_dram] = Node(0, start.on_chip, start.in_dram)
        best, self.cut = None, self.limit + 1
        for done in self.order:
            nodes = layers.pop(done)
            if done == everything:
                best = min(nodes.values(), key=lambda node: node.excess, default=None)
                break
            ahead = self.ahead[done]
            kept = self._kept(node for node in nodes.values() if node.excess + ahead <= self.limit)
            if width is not None and len(kept) > width:
                self.cut = min(self.cut, kept[width].excess + ahead)
                # From a state with nothing on chip there is always a way on.
                kept = kept[:width] + [node for node in kept[width:] if not node.on_chip]
            self._check()
            self._expand(done, kept, layers, width)
            self.ended = self.work <= until
            if not self.ended:
                return None
        if best is not None:
            self.limit = min(self.limit, best.excess - 1)
        if not self._less:
            self._prove(min(self.cut, self.limit + 1))
        return best

    def _kept(self, nodes: Iterator[Node]) -> list[Node]:
        kept: list[Node] = []
        for node in sorted(nodes, key=self._moved):
            chip, dram = node.on_chip, node.in_dram
            alone = dram & ~chip
            for other in kept:
                if not dram & ~other.in_dram and not other.on_chip & alone:
                    break
            else:
                kept.append(node)
        return sorted(kept, key=lambda node: node.excess)

    def _moved(self, node: Node) -> int:
        """Return what has been moved to get to a state, all of it."""
        return node.excess + self.options.deferred(node.in_dram & ~node.on_chip)

    def _expand(
        self,
        done: int,
        kept: list[Node],
        layers: dict[int, dict[tuple[int, int], Node]],
        width: int | None,
    ) -> None:
        options, capacity = self.options, self.steps.capacity - self._less.get(done, 0)
        if not kept:
            return
        least = kept[0].excess
        enough = 2**60 if width is None else max(FEW, 2 * width)
        for number, (cheap, mask) in enumerate(self.edges[done]):
            after = done | mask
            most = self.limit - self.ahead[after]
            if least + cheap > most:
                continue
            self._check()
            # A bound that is found once saves looking for ways from many states where there are none.
            cheap = max(cheap, options.least_excess(mask, done, most - least))
            self.edges[done][number] = cheap, mask
            if least + cheap > most:
                continue
            touched, twins = options.touched(self.steps.group(mask)), options.interchangeable(after)
            target = layers[after]
            if width is not None and mask & (mask - 1) == 0 and not kept[-1].on_chip:
                self._spill(done, mask, kept[-1], most, target)
            if width is not None and len(target) >= width:
                worth = nsmallest(width, (node.excess for node in target.values()))[-1]
                if worth < most:
                    self.cut = min(self.cut, worth + 1 + self.ahead[after])
                    most = worth
            for node in kept:
                excess = node.excess
                if excess + cheap > most:
                    break
                self.expanded += 1
                chip, dram = node.on_chip & ~touched, node.in_dram & ~touched
                room = capacity - options.size(chip)
                table, reached = options.ranked(
                    mask, done, node.on_chip, node.in_dram, most - excess, room, least=cheap, enough=enough
                )
                if reached < most - excess:
                    self.cut = min(self.cut, excess + reached + 1 + self.ahead[after])
                for option in table:
                    total = excess + option.excess
                    if total > most:
                        break
                    key = chip | option.on_chip, dram | option.in_dram
                    if twins:
                        key = canonical(twins, *key)
                    known = target.get(key)
                    if known is None or total < known.excess:
                        target[key] = Node(total, *key, node, mask, option)

    def _spill(
        self, done: int, mask: int, node: Node, most: int, target: dict[tuple[int, int], Node]
    ) -> None:
        """Add the state in which all is in DRAM."""
        option = self.options.spilled(mask, done)
        if option is None or node.excess + option.excess > most:
            return
        total = node.excess + option.excess
        key = 0, node.in_dram & ~self.options.touched(self.steps.group(mask)) | option.in_dram
        if key not in target or total < target[key].excess:
            target[key] = Node(total, *key, node, mask, option)

    def found(self, end: Node) -> StepSequence:
        """Return the steps that lead to an end."""
        path: list[Node] = []
        node: Node | None = end
        while node is not None:
            path.append(node)
            node = node.before
        path.reverse()
        own = {number: number for number in range(len(self.graph.tensors))}
        choices, done = [], self.graph.begin
        there = 0
        options = self.options
        for node, after in pairwise(path):
            assert after.option is not None
            option = after.option.option()

            def named(mask: int, own: dict[int, int] = own) -> int:
                return sum(1 << own[number] for number in members(mask))

            place = own[option.in_place] if option.in_place >= 0 else -1
            option = option._replace(
                fetched=named(option.fetched),
                resident=named(option.resident),
                written=named(option.written),
                in_place=place,
            )
            dropped = there & ~named(node.on_chip)
            choices.append(option.choice(after.mask, dropped))
            done |= after.mask
            there = (there & ~dropped | option.fetched | option.resident) & options.still_read(done)
            touched = options.touched(self.steps.group(after.mask))
            state = (
                node.on_chip & ~touched | option.on_chip,
                node.in_dram & ~touched | option.in_dram,
            )
            own = {**own, **renamed(options.interchangeable(done), *state, own)}
        return StepSequence(self.graph.compulsory + end.excess, tuple(choices))


def canonical(twins: list[int], chip: int, dram: int) -> tuple[int, int]:
    """Return a state that is like another one, the same for all that are alike."""
    for mask in twins:
        here, there = chip & mask, dram & mask
        if not here or not mask & ~(here & ~there):
            continue
        count, both, firsts = here.bit_count(), (here & there).bit_count(), first(mask)
        chip = chip & ~mask | firsts[count]
        dram = dram & ~mask | mask & ~firsts[count - both]
    return chip, dram


@cache
def first(mask: int) -> tuple[int, ...]:
    """Return the first members of a bit mask as a bit mask: none, one, two, and so on."""
    return tuple(accumulate((1 << number for number in members(mask)), int.__or__, initial=0))


def renamed(twins: list[int], chip: int, dram: int, own: dict[int, int]) -> dict[int, int]:
    """Return what the tensors of `canonical` are in truth, given what those before were."""
    found: dict[int, int] = {}
    for mask in twins:
        numbers = members(mask)
        order = sorted(numbers, key=lambda n: (not chip >> n & 1, dram >> n & 1))
        found |= {name: own[number] for name, number in zip(numbers, order, strict=True)}
    return found
