"""The ways to execute a group next, each with what it spends: for the search that weighs time and energy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from tilewright.residency import spending
from tilewright.residency.graph import members
from tilewright.residency.prices import Spent
from tilewright.residency.problem import Problem
from tilewright.residency.shapes import double_buffering as doubling
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import ParetoShape as Raw
from tilewright.residency.shapes.pareto_shapes import pareto_shapes
from tilewright.residency.shapes.shape import Shape, elements_moved, replaces, step_buffers
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import State, StepChoice, Transitions, subsets
from tilewright.residency.work import Work
from tilewright.residency.work import of_step as work_of

Costs = tuple[int, ...]
"""What is minimised, then all that is limited."""

Key = tuple[int, frozenset[int], int, int]
"""Group, tensors on chip, those that are streamed, and the one whose place is taken."""

OF = {"traffic": "moved", "cycles": "time", "energy": "energy"}
"""What of `Spent` each objective is."""


class TimedShape(NamedTuple):
    """A way to cut up a step, with what it costs but for tensors that are fetched whole."""

    memory: int
    costs: Costs
    shape: Shape


class TimedStep(NamedTuple):
    """A step, with what it costs, and what there is after it."""

    costs: Costs
    choice: StepChoice
    after: State


class TimedSteps:
    """The steps that are possible in a memory.

    Parameters
    ----------
    names
        Objectives: the one that is minimised, then those that are limited.
    """

    def __init__(self, problem: Problem, capacity: int, names: tuple[str, ...]) -> None:
        self.problem, self.graph, self.capacity = problem, problem.graph, capacity
        self.steps = Transitions(problem.graph, capacity, groups=problem.groups)
        self.names = names
        self._raw: dict[tuple[Key, int | None], tuple[list[int], list[Raw]]] = {}
        self._twice: dict[tuple[Key, int], list[TimedShape]] = {}
        self._leasts: dict[tuple[int, int, int], Costs] = {}
        self._work: dict[tuple[int, int | None], Work] = {}

    def costs(self, spent: Spent) -> Costs:
        """Return what is spent of all that counts."""
        return tuple(getattr(spent, OF[name]) for name in self.names)

    def ways(self, state: State, mask: int, worth: Callable[[Costs, State], bool]) -> Iterator[TimedStep]:
        """Return the ways to execute a group next that are not worse than another with the same places.

        Parameters
        ----------
        worth
            Whether a step is looked at, by what it costs at least and what there is after it.
        """
        steps, graph = self.steps, self.graph
        group = steps.group(mask)
        sources = sum(1 << tensor for tensor in group.sources)
        done = state.done | mask
        live = sum(1 << number for number, readers in enumerate(graph.readers) if readers & ~done)
        outputs = list(self._outputs(group, live))
        for dropped in subsets(state.on_chip & state.in_dram):
            there = state.on_chip & ~dropped
            if steps.size(there) > self.capacity:
                continue
            for fetched in subsets(sources & ~there):
                on_chip = there | fetched
                streamed = sources & ~on_chip
                before = self._fetching(fetched)
                for resident, written in outputs:
                    taken = steps.size(on_chip | resident)
                    after = State(done, (on_chip | resident) & live, (state.in_dram | written) & live)
                    if not worth(self._least(group, fetched, streamed | written), after):
                        continue
                    for in_place in steps.places(group, on_chip, resident, state.done):
                        room = self.capacity - taken + (steps.sizes[in_place] if in_place >= 0 else 0)
                        if room < 0:
                            continue
                        whole = on_chip | resident
                        for stair in self._best(group, whole, streamed, written, room, in_place):
                            costs = tuple(a + b for a, b in zip(before, stair.costs, strict=True))
                            choice = StepChoice(
                                mask, dropped, fetched, resident, written, in_place, stair.shape
                            )
                            yield TimedStep(costs, choice, after)

    def _least(self, group: Group, fetched: int, others: int) -> Costs:
        """Return what a step costs at least that moves nothing again.

        Parameters
        ----------
        others
            What it reads in passes, and what it writes.
        """
        key = group.mask, fetched, others
        known = self._leasts.get(key)
        if known is None:
            prices = self.problem.priced
            weights = [operation.weights for operation in group.operations if operation.weights]
            moved = sum(weights) + self.steps.size(fetched) + self.steps.size(others)
            transfers = len(weights) + fetched.bit_count() + others.bit_count()
            work = self._work_of(group, Shape("pixels", 1, 1))
            core, bus = prices.core(work), prices.transfer(moved)
            time = core + bus
            if self.problem.machine.double_buffering:
                time = max(self.problem.remaining.alone(group.mask), bus)
            time += prices.setup(transfers)
            known = self.costs(Spent(moved, time, prices.energy(moved, work, transfers)))
            self._leasts[key] = known
        return known

    def _work_of(self, group: Group, shape: Shape) -> Work:
        """Return the work of a step."""
        columns = None if shape.order == "tiles" else shape.columns  # tiles compute nothing again
        if (group.mask, columns) not in self._work:
            self._work[group.mask, columns] = work_of(group, shape)
        return self._work[group.mask, columns]

    def _fetching(self, fetched: int) -> Costs:
        """Return what it costs to load tensors whole before the first pass."""
        prices, size = self.problem.priced, self.steps.size(fetched)
        count = fetched.bit_count()
        time = prices.transfer(size) + prices.setup(count)
        return self.costs(Spent(size, time, prices.energy(size, Work(), count)))

    def _outputs(self, group: Group, live: int) -> Iterator[tuple[int, int]]:
        """Return where the outputs of a group may go: those that stay on chip, and those that are written."""
        ways = []
        for tensor in group.outputs:
            bit = 1 << tensor
            leaves = self.graph.leaving & bit
            if live & bit:
                ways.append([(0, bit), (bit, bit), *([] if leaves else [(bit, 0)])])
            else:
                ways.append([(0, leaves)])
        for way in product(*ways):
            yield sum(each[0] for each in way), sum(each[1] for each in way)

    def improved(self, choices: Sequence[StepChoice]) -> list[StepChoice]:
        """Return the same steps, each cut up so that it costs least of what is minimised."""
        graph, found, alive, done = self.graph, [], 0, self.graph.begin
        for choice in choices:
            group = self.steps.group(choice.group)
            on_chip = alive & ~choice.dropped | choice.fetched
            whole = on_chip | choice.resident
            room = self.capacity - self.steps.size(whole)
            room += self.steps.sizes[choice.in_place] if choice.in_place >= 0 else 0
            streamed = sum(1 << tensor for tensor in group.sources) & ~on_chip
            stairs = self._best(group, whole, streamed, choice.written, room, choice.in_place)
            found.append(choice._replace(shape=min(stairs, key=lambda stair: stair.costs).shape))
            done |= choice.group
            alive = sum(1 << number for number in members(whole) if graph.readers[number] & ~done)
        return found

    def _best(
        self, group: Group, whole: int, streamed: int, written: int, room: int, in_place: int
    ) -> list[TimedShape]:
        """Return the shapes that fit some room and are not worse than another."""
        seen = frozenset(tensor for tensor in {*group.lines, group.output} if whole >> tensor & 1)
        key = group.mask, seen, streamed, in_place

        def fits(columns: int | None) -> Raw | None:
            """Return what moves least in whole rows, or in strips: it costs least, whatever is counted.

            In whole rows nothing is computed again, and in strips of a width always as much.
            """
            if (key, columns) not in self._raw:
                size, worst = self.steps.size(streamed), self.steps.worst
                stairs = pareto_shapes(group, seen, size, self.capacity, worst, [columns], in_place)
                self._raw[key, columns] = [stair.memory for stair in stairs], stairs
            memories, stairs = self._raw[key, columns]
            place = bisect_right(memories, room)
            return stairs[place - 1] if place else None

        rows = fits(None)
        singles = [] if rows is None else [rows]
        if rows is None or rows.again:
            singles += [strips for columns in strip_widths(group) if (strips := fits(columns)) is not None]
        found = [self._single(group, stair, streamed, written) for stair in singles]
        if self.problem.machine.double_buffering:
            if (key, written) not in self._twice:
                self._twice[key, written] = self._doubled(group, seen, streamed, written, in_place)
            found += [stair for stair in self._twice[key, written] if stair.memory <= room]
        return undominated(found)

    def _single(self, group: Group, raw: Raw, streamed: int, written: int) -> TimedShape:
        """Return a way without second buffers with what it costs."""
        prices, work = self.problem.priced, self._work_of(group, raw.shape)
        weights = [operation.weights for operation in group.operations if operation.weights]
        moved = raw.again + sum(weights) + self.steps.size(streamed | written)
        transfers = len(weights) + streamed.bit_count() + written.bit_count()
        time = prices.setup(transfers) + prices.core(work) + prices.transfer(moved)
        spent = Spent(moved, time, prices.energy(moved, work, transfers))
        return TimedShape(raw.memory, self.costs(spent), raw.shape)

    def _doubled(
        self,
        group: Group,
        whole: frozenset[int],
        streamed: int,
        written: int,
        in_place: int,
    ) -> list[TimedShape]:
        """Return the ways to cut up a group with second buffers that are not worse than another."""
        kept: list[TimedShape] = []
        sources, outputs = members(streamed), members(written)
        found = []
        for shape in doubling.double_buffered_shapes(group):
            memory = sum(buffer.size for buffer in step_buffers(group, shape, whole))
            if memory <= self.capacity and (in_place < 0 or replaces(group, shape, in_place)):
                total = elements_moved(group, shape, sources, outputs)
                spent = spending.of_step(self.problem.priced, group, shape, sources, (), outputs, total)
                found.append(TimedShape(memory, self.costs(spent), shape))
        for stair in sorted(found, key=lambda stair: (stair.memory, stair.costs)):
            if not any(_as_good(each, stair) for each in kept):
                kept.append(stair)
        return kept


def undominated(stairs: Iterable[TimedShape]) -> list[TimedShape]:
    """Return those that no other costs as little as; of equal ones, that of the least memory."""
    kept: list[TimedShape] = []
    for stair in sorted(stairs, key=lambda stair: (stair.costs, stair.memory)):
        if not any(_as_good(each, stair) for each in kept):
            kept.append(stair)
    return kept


def _as_good(one: TimedShape, other: TimedShape) -> bool:
    return all(a <= b for a, b in zip(one.costs, other.costs, strict=True))
