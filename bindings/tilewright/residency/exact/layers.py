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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import pairwise
from typing import NamedTuple

from tilewright.core.branch_and_bound import GrowingLimit, Incumbent, check_deadline, ignore
from tilewright.residency.exact.interchangeable import canonical, true_names
from tilewright.residency.exact.labels import StepSequence
from tilewright.residency.exact.traffic_steps import AnyTrafficStep, TrafficSteps
from tilewright.residency.graph import members
from tilewright.residency.transitions import ANYTHING, State, StepChoice, Transitions


@dataclass(frozen=True)
class LayersParams:
    """How the search divides its work.

    Attributes
    ----------
    fineness
        Bounds are looked at as closely as this part of what plans may move beyond what they must.
    widths
        States that are kept of each layer, in one search for plans after the other.
    parts
        Plans are sought that lie in this part of what is between the bound and the best one known.
    planning
        How many times more work is done to find plans than to prove, as long as there is something to try.
    work_of_steps
        What it takes to find the ways to execute a step, in expansions of a state.
    enough_steps
        Ways to execute a step that are enough in the first searches.
    width_with_room
        States that are kept of each layer where plans are looked for that leave some room.
    width_without_excess
        States that are kept of each layer where plans are looked for that move only what they must.
    """

    fineness: int = 64
    widths: tuple[int, ...] = (4, 64, 512)
    parts: tuple[int, ...] = (8, 4, 2, 1)
    planning: int = 2
    work_of_steps: int = 30
    enough_steps: int = 16
    width_with_room: int = 64
    width_without_excess: int = 64


PARAMS = LayersParams()


class Node(NamedTuple):
    """A state, what has been moved to get there beyond what must be, and the step that leads to it.

    Not counted is what counts where tensors are read last: see `TrafficSteps`.
    """

    excess: int
    on_chip: int
    in_dram: int
    before: Node | None = None
    mask: int = 0
    step: AnyTrafficStep | None = None


Layer = dict[tuple[int, int], Node]
"""The best node for each place of the tensors: those on chip and those in DRAM."""


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
    limit
        Most elements that the next pass looks for beyond what must be moved.
    edges
        For what has been executed, the groups that may come next, each with a bound on what it moves.
    ahead
        For what has been executed, a bound on what is still to be moved; both beyond what must be.
    ended
        Whether the last pass was not given up.
    """

    def __init__(
        self,
        steps: Transitions,
        most: int,
        deadline: float = float("inf"),
        on_bound: Callable[[int], None] = ignore,
    ) -> None:
        self.steps, self.graph, self.deadline = steps, steps.graph, deadline
        self.incumbent: Incumbent[Node] = Incumbent(on_bound=on_bound, bound=self.graph.compulsory)
        self.incumbent.leave_from(most + 1)
        self.limit = self.most
        self.options = TrafficSteps(steps, self._check, shared=True)
        self.expanded, self.ended = 0, True
        self.growing = GrowingLimit()
        self._left_free: Mapping[int, int] = {}
        self._sharp = False
        self._cut = ANYTHING  # no plan that has been left out moves less
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

    @property
    def work(self) -> int:
        """How much has been done, in expansions of a state."""
        return self.expanded + PARAMS.work_of_steps * self.options.sought

    def _prove(self, excess: int) -> None:
        """Take a bound on what is moved beyond what must be."""
        self.incumbent.prove(self.graph.compulsory + excess)

    def _check(self) -> None:
        check_deadline(self.deadline)

    # Passes --------------------------------------------------------------------------------------------

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
            found = self._pass(PARAMS.width_without_excess)
            if found is not None:
                yield self._sequence(found)
                return
        self.limit = self.most
        self._sharpen()
        tries = iter([(width, part) for width in PARAMS.widths for part in PARAMS.parts])
        proving = planning = 0
        while self.most >= self.bound - compulsory:
            before = self.work
            chosen = None if PARAMS.planning * proving < planning else next(tries, None)
            if chosen is None:
                found = self._complete_pass()
                proving += self.work - before
            else:
                # What moves little is found soon, as little else is looked at.
                width, part = chosen
                least = self.bound - compulsory
                self.limit = least + (self.most - least) // part
                found = self._pass(width)
                planning += self.work - before
            if found is not None:
                self.incumbent.leave_from(compulsory + found.excess)
                yield self._sequence(found)

    def plan_leaving_free(self, left_free: Mapping[int, int], most: int) -> StepSequence | None:
        """Return a plan that leaves some of the memory free, if one is found; `bound` stays.

        Parameters
        ----------
        left_free
            Elements that are left free by the step after what has been executed.
        most
            Elements that it may move, no more than any plan might when the search began.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        limit, self.limit, self._left_free = self.limit, most - self.graph.compulsory, left_free
        try:
            if not self._sharp:
                self._sharpen()
            node = self._pass(PARAMS.width_with_room)
        finally:
            self.limit, self._left_free = limit, {}
        return None if node is None else self._sequence(node)

    def _complete_pass(self) -> Node | None:
        """Look at all states, as far as that is not much more than before; return the best plan, if any."""
        before, growing = self.work, self.growing
        limit = self.limit = growing.next(self.bound - self.graph.compulsory, self.most)
        found = self._pass(most_work=growing.most_work)
        growing.learn(limit, self.work - before, ended=self.ended)
        return found

    def _pass(self, width: int | None = None, most_work: int = ANYTHING) -> Node | None:
        """Return the end of the best plan with some states of each layer that moves no more than `limit`.

        Parameters
        ----------
        most_work
            Work after which it is given up.
        """
        self.options.limit = self.limit
        until = self.work + most_work
        layers: dict[int, Layer] = {done: {} for done in self.order}
        start = self.steps.start()
        layers[start.done][start.on_chip, start.in_dram] = Node(0, start.on_chip, start.in_dram)
        best, self._cut = None, self.limit + 1
        for done in self.order:
            nodes = layers.pop(done)
            if done == self.graph.all:
                best = min(nodes.values(), key=lambda node: node.excess, default=None)
                break
            ahead = self.ahead[done]
            kept = self._undominated(node for node in nodes.values() if node.excess + ahead <= self.limit)
            if width is not None and len(kept) > width:
                self._cut = min(self._cut, kept[width].excess + ahead)
                # From a state with nothing on chip there is always a way on.
                kept = kept[:width] + [node for node in kept[width:] if not node.on_chip]
            self._check()
            if kept:
                self._expand(done, kept, layers, width)
            self.ended = self.work <= until
            if not self.ended:
                return None
        if best is not None:
            self.limit = min(self.limit, best.excess - 1)
        if not self._left_free:
            self._prove(min(self._cut, self.limit + 1))
        return best

    def _undominated(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that are not worse than another, those that have moved least first."""

        def moved(node: Node) -> int:
            return node.excess + self.options.deferred(node.in_dram & ~node.on_chip)

        kept: list[Node] = []
        for node in sorted(nodes, key=moved):
            chip, dram = node.on_chip, node.in_dram
            alone = dram & ~chip
            for other in kept:
                if not dram & ~other.in_dram and not other.on_chip & alone:
                    break
            else:
                kept.append(node)
        return sorted(kept, key=lambda node: node.excess)

    def _expand(self, done: int, kept: list[Node], layers: dict[int, Layer], width: int | None) -> None:
        """Take all steps from the states in which `done` have been executed that may lead to better plans."""
        least, options = kept[0].excess, self.options
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
            target = layers[after]
            if width is not None and mask & (mask - 1) == 0 and not kept[-1].on_chip:
                self._spill(done, mask, kept[-1], most, target)
            if width is not None and len(target) >= width:
                worth = nsmallest(width, (node.excess for node in target.values()))[-1]
                if worth < most:
                    self._cut = min(self._cut, worth + 1 + self.ahead[after])
                    most = worth
            self._expand_group(done, mask, kept, target, cheap, most, width)

    def _expand_group(
        self, done: int, mask: int, kept: list[Node], target: Layer, cheap: int, most: int, width: int | None
    ) -> None:
        """Execute a group after each of the states, as far as no more than `most` is moved then.

        Parameters
        ----------
        cheap
            What the group moves at least.
        """
        options, after = self.options, done | mask
        enough = ANYTHING if width is None else max(PARAMS.enough_steps, 2 * width)
        capacity = self.steps.capacity - self._left_free.get(done, 0)
        touched, alike = self.steps.groups[mask].touched, options.interchangeable.sets(after)
        for node in kept:
            excess = node.excess
            if excess + cheap > most:
                break
            self.expanded += 1
            chip, dram = node.on_chip & ~touched, node.in_dram & ~touched
            room = capacity - self.steps.size(chip)
            before = State(done, node.on_chip, node.in_dram)
            steps, reached = options.ranked(mask, before, most - excess, room, least=cheap, enough=enough)
            if reached < most - excess:
                self._cut = min(self._cut, excess + reached + 1 + self.ahead[after])
            for step in steps:
                total = excess + step.excess
                if total > most:
                    break
                key = chip | step.on_chip, dram | step.in_dram
                if alike:
                    key = canonical(alike, *key)
                known = target.get(key)
                if known is None or total < known.excess:
                    target[key] = Node(total, *key, node, mask, step)

    def _spill(self, done: int, mask: int, node: Node, most: int, target: Layer) -> None:
        """Add the state in which all is in DRAM."""
        room = self.steps.capacity - self._left_free[done] if done in self._left_free else None
        step = self.options.spilled(mask, done, room)
        if step is None or node.excess + step.excess > most:
            return
        total = node.excess + step.excess
        key = 0, node.in_dram & ~self.steps.groups[mask].touched | step.in_dram
        if key not in target or total < target[key].excess:
            target[key] = Node(total, *key, node, mask, step)

    # Bounds --------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Find all that may have been executed, and bounds on what follows."""
        graph = self.graph
        waiting, known = [graph.begin], {graph.begin}
        while waiting:
            self._check()
            done = waiting.pop()
            self.edges[done] = [(self._cheap(mask, done), mask) for mask in self.steps.next_groups(done)]
            for _, mask in self.edges[done]:
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

    def _cheap(self, mask: int, done: int) -> int:
        """Return a bound on what a step moves beyond what must be moved, found in a moment."""
        group = self.steps.groups[mask]
        if len(group.operations) == 1:
            return self.options.least_excess(mask, done, self.most)
        return self.options.least_spilled(group, done)

    def _sharpen(self) -> None:
        """Find better bounds on what follows, as far as plans that move no more than `limit` need them."""
        self.options.limit = self.limit
        behind = dict.fromkeys(self.order, self.limit + 1)
        behind[self.graph.begin] = 0
        for done in self.order:
            for cheap, mask in self.edges[done]:
                behind[done | mask] = min(behind[done | mask], behind[done] + cheap)
        slack = self.limit // PARAMS.fineness
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

    # Plans ---------------------------------------------------------------------------------------------

    def _sequence(self, end: Node) -> StepSequence:
        """Return the steps that lead to an end, of tensors by their true names."""
        path: list[Node] = []
        node: Node | None = end
        while node is not None:
            path.append(node)
            node = node.before
        path.reverse()
        own = {number: number for number in range(len(self.graph.tensors))}
        choices, done, there = list[StepChoice](), self.graph.begin, 0

        def named(mask: int) -> int:
            return sum(1 << own[number] for number in members(mask))

        for node, after in pairwise(path):
            assert after.step is not None
            step = after.step.complete()
            true = step._replace(
                fetched=named(step.fetched),
                resident=named(step.resident),
                written=named(step.written),
                in_place=own[step.in_place] if step.in_place >= 0 else -1,
            )
            dropped = there & ~named(node.on_chip)
            choices.append(true.choice(after.mask, dropped))
            done |= after.mask
            there = (there & ~dropped | true.fetched | true.resident) & self.graph.still_read(done)
            touched = self.steps.groups[after.mask].touched
            chip, dram = node.on_chip & ~touched | step.on_chip, node.in_dram & ~touched | step.in_dram
            own = {**own, **true_names(self.options.interchangeable.sets(done), chip, dram, own)}
        return StepSequence(self.graph.compulsory + end.excess, tuple(choices))
