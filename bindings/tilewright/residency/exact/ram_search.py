"""The search for machines without DRAM: every map is on chip from its first value until it is read last.

What is on chip between two steps follows from what has been executed. So a search over sets of executed
operations finds all that a plan can be: which operations run together, in which order, in strips or whole
rows, and what takes whose place. Of the ways to get to a set those are kept that no other one beats in the
memory that they have needed so far and in all costs that count.

What has weights in flash keeps all of them for the whole step. So each pass is a pixel, and operations that
run together take turns: larger passes would need more memory and save nothing.

Constraints tell plans apart. Two ways to get to a set are compared only where they leave constraints the same
to ask for (`residuals`), and all ways to cut up a step are looked at that constraints tell apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import (
    WEIGHTS,
    Accesses,
    Moved,
    Thing,
    accesses_of_step,
    costs_of_thing,
)
from tilewright.residency.cost import Spent, cost_of_step, least_work, work_of_step
from tilewright.residency.exact.all_shapes import KERNELS, PIXELS, told_by
from tilewright.residency.exact.priced_steps import FIELDS, most_parts
from tilewright.residency.exact.residuals import TOTALS, Residuals, limits_in, sum_of
from tilewright.residency.graph import members
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import (
    STREAMED,
    Buffer,
    Shape,
    copied_rows,
    elements_moved,
    most_kernels,
    replaces,
    step_buffers,
    streamed_shapes,
    streams,
)
from tilewright.residency.shapes.strips import least_line, strip_widths
from tilewright.residency.transitions import StepChoice, TensorChoice, Transitions
from tilewright.residency.vocabulary import MEMORY_OF, TRAFFIC_OF, StepView
from tilewright.spec.constraints.parts import Ground, conjuncts, terms

Costs = tuple[int, ...]
"""The memory that is needed, then what counts besides."""

Where = tuple[tuple[int, int], ...]
"""The memory in which each tensor lies, by their numbers, ascending by tensor."""

MORE = 100
"""Addresses are sought in memories that are larger by one part in so many."""


class Label(NamedTuple):
    """A way to execute some operations: what it needs and costs, and its last step.

    Attributes
    ----------
    left
        Number of what constraints still ask: see `Residuals`.
    where
        Of several memories, the one in which each tensor lies that is in RAM between two steps, ascending.
    lies
        Of several memories, the one in which each thing lies that the last step places.
    """

    costs: Costs
    before: Label | None = None
    choice: StepChoice | None = None
    left: int = 0
    where: Where = ()
    lies: tuple[tuple[Thing, int], ...] = ()

    @property
    def steps(self) -> list[Label]:
        """The labels of its steps, in order."""
        found, label = list[Label](), self
        while label.before is not None:
            found.append(label)
            label = label.before
        return found[::-1]

    def choices(self) -> list[StepChoice]:
        """Return its steps."""
        return [label.choice for label in self.steps if label.choice is not None]


class Way(NamedTuple):
    """A way to execute a group, whatever memories things lie in.

    Attributes
    ----------
    whole
        Tensors that are in RAM as a whole, as a bit mask.
    taken
        Elements of these.
    spent
        What it costs but for accesses, unless these cost the same wherever anything lies.
    accesses
        What it reads and writes, where it matters what lies where.
    left
        What constraints still ask.
    """

    choice: StepChoice
    whole: int
    taken: int
    buffers: tuple[Buffer, ...]
    spent: Spent
    accesses: Mapping[Thing, Accesses]
    left: int

    @property
    def memory(self) -> int:
        """Elements that it takes."""
        return self.taken + sum(buffer.size for buffer in self.buffers)


class Asked(NamedTuple):
    """What a problem asks of plans besides what it minimises.

    Attributes
    ----------
    most
        The most that each cost may be, in the parts that steps count.
    capacity
        Elements of the memory.
    parts
        What else must hold.
    places
        What must hold of where tensors lie, of several memories.
    """

    most: dict[str, int]
    capacity: int
    parts: tuple[Ground, ...]
    places: tuple[Ground, ...]


def asked_by(problem: Problem) -> Asked:
    """Return what the machine, limits and constraints of a problem ask."""
    most, parts = limits_in(part for each in problem.must_hold_in_numbers for part in conjuncts(each))
    capacity = problem.machine.capacity
    if "memory" in most:
        capacity = min(capacity, most.pop("memory") // problem.machine.element_bytes)
    for name, limit in problem.objective.limits.items():
        most[name] = min(limit, most.get(name, limit))
    limits = {name: most_parts(problem, name, limit) for name, limit in most.items()}
    places = tuple(part for part in parts if any(term.word == MEMORY_OF for term in terms(part)))
    return Asked(limits, capacity, tuple(part for part in parts if part not in places), places)


def honours(problem: Problem, part: Ground) -> bool:
    """Whether the search takes what must hold: of what lies where only upper limits of costs."""
    _, others = limits_in([part])
    words = {term.word for each in others for term in terms(each)}
    totals = [name for name in TOTALS if name in words]
    names = [*problem.objective.names, *asked_by(problem).most, *totals]
    return TRAFFIC_OF not in words and not set(totals) & {*problem.memory_costs.placed(names)}


class WithoutDram:
    """The search for the plans of a problem that no other one beats.

    Parameters
    ----------
    first
        What counts besides memory; None for nothing but what is limited.
    most
        The most that some costs may be, besides what the problem asks.
    alone
        Whether each step has one operation.
    capacity
        Elements of the memory; by default those of the machine, or fewer where constraints say so.

    Attributes
    ----------
    names
        What is counted besides memory.
    placed
        What of these depends on what lies where.
    streams
        Whether weights may be copied block by block.
    places
        What must hold of where tensors lie. Where all memories are as one it may not.
    """

    in_several = False

    def __init__(
        self,
        problem: Problem,
        deadline: float,
        first: str | None = None,
        most: Mapping[str, int] | None = None,
        *,
        alone: bool = False,
        capacity: int | None = None,
    ) -> None:
        asked = asked_by(problem)
        limits = dict(asked.most)
        for name, limit in (most or {}).items():
            limits[name] = min(limit, limits.get(name, limit))
        self.problem, self.deadline, self.alone = problem, deadline, alone
        self.names = tuple(dict.fromkeys([*([] if first is None else [first]), *limits]))
        self.graph, self.groups = problem.graph, problem.groups
        self.most = [limits.get(name) for name in self.names]
        self.steps = Transitions(self.groups, capacity or asked.capacity, problem.limits)
        self.again = limits["macs"] - problem.least_spent.macs if "macs" in limits else None
        self.inside = problem.limits.inputs == "memory"
        self.given = sum(1 << number for number, tensor in enumerate(self.graph.tensors) if tensor.given)
        self.places = asked.places
        self.residuals = Residuals(problem, (*asked.parts, *(asked.places if self.in_several else ())))
        self.memory_costs = problem.memory_costs
        totals = [name for name in TOTALS if sum_of(name) in self.residuals.words]
        counted = (*self.names, *totals)
        self._accessed = any(map(self.memory_costs.matter, counted))
        self.placed = self.memory_costs.placed(counted)
        # Where all memories are as one, weights that are copied whole take no memory, and are no worse.
        self.streams = self.in_several and self.memory_costs.may_copy(self.names)
        if undecided := [name for name in self.placed if name not in self.names]:
            reason = f"speaks of {undecided[0]}, which what lies where decides: it takes an upper limit"
            raise problem.refusal_of(undecided, reason)
        if TRAFFIC_OF in self.residuals.words:
            reason = f"speaks of {TRAFFIC_OF}, which takes an upper limit"
            raise problem.refusal_of((TRAFFIC_OF,), reason)

    # What is on chip -----------------------------------------------------------------------------------

    def on_chip(self, done: int) -> int:
        """Return the tensors that are on chip when some operations have been executed, as a bit mask."""
        graph = self.graph
        live = graph.still_read(done)
        there = live & ~self.given
        if self.inside:
            read = (t for t in members(live & self.given) if graph.readers[t] & done & ~graph.begin)
            there |= sum(1 << tensor for tensor in read)
        return there & (done << 1 | self.given)

    def labels(self) -> list[Label]:
        """Return the best ways to execute all operations, the least memory first.

        Raises
        ------
        OutOfTimeError
            When the deadline passes before all have been looked at.
        """
        graph, begin = self.graph, self.residuals.first
        if begin is None:
            return []
        waiting: dict[tuple[int, Where], list[Label]] = {
            (graph.begin, ()): [Label((0,) * (1 + len(self.names)), left=begin)]
        }
        while True:
            done, where = key = min(waiting, key=lambda each: each[0].bit_count())
            labels = undominated(waiting.pop(key))
            if done == graph.all:
                return labels
            for mask in self.steps.groups_within_limits(done):
                if self.alone and mask.bit_count() > 1:
                    continue
                for left in {label.left for label in labels}:
                    check_deadline(self.deadline)
                    ways = [each for each in self.ways(mask, done, left, where) if self._allowed(each.costs)]
                    for label, way in product((each for each in labels if each.left == left), ways):
                        costs = added(label.costs, way.costs)
                        if self._allowed(costs):
                            reached = waiting.setdefault((done | mask, way.where), [])
                            reached.append(way._replace(costs=costs, before=label))
            if not waiting:
                return []

    def front(self) -> list[Label]:
        """Return the best ways that no other one beats in memory and in what counts first besides."""
        found: list[Label] = []
        for label in self.labels():
            if not found or label.costs[1] < found[-1].costs[1]:
                found.append(label)
        return found

    def _allowed(self, costs: Costs) -> bool:
        limits = zip(costs[1:], self.most, strict=True)
        return costs[0] <= self.steps.capacity and all(most is None or cost <= most for cost, most in limits)

    # Steps ---------------------------------------------------------------------------------------------

    def ways(self, mask: int, done: int, left: int | None = None, where: Where = ()) -> list[Label]:
        """Return the ways to execute a group next that no other one beats.

        Parameters
        ----------
        left
            What constraints ask before; by default as before the first step.
        where
            Of several memories, the one in which each tensor lies that is in RAM before.
        """
        found = []
        for way in self.every_way(mask, done, left):
            found.append(Label((way.memory, *self.least_of(way)), None, way.choice, way.left))
        return undominated(found)

    def least_of(self, way: Way) -> Costs:
        """Return what a way costs at least, each cost with everything where it costs the least."""
        more = dict.fromkeys(self.names, 0)
        for thing in way.accesses:
            for name in self.placed:
                more[name] += min(self.costs_of(name, way, thing))
        return tuple(
            cost + more[name] for cost, name in zip(self.counted(way.spent), self.names, strict=True)
        )

    def costs_of(self, name: str, way: Way, thing: Thing) -> tuple[int, ...]:
        """Return what accesses to a thing add to a cost in each memory; of weights, last, in flash."""
        accesses, shape = way.accesses.get(thing, Accesses()), way.choice.shape
        if thing[0] != WEIGHTS:
            return costs_of_thing(self.memory_costs, name, thing, accesses)
        group, operation = self.groups[way.choice.group], self.graph.operations[thing[1]]
        rows, streamed = copied_rows(group, shape, operation), streams(group, shape)
        return costs_of_thing(self.memory_costs, name, thing, accesses, rows, streamed=streamed)

    def counted(self, spent: Spent) -> Costs:
        """Return what counts besides memory, but for the traffic of memories."""
        return tuple(getattr(spent, FIELDS[name]) if name in FIELDS else 0 for name in self.names)

    def every_way(self, mask: int, done: int, left: int | None = None) -> Iterator[Way]:
        """Return the ways to execute a group next that may be of use, and take no more than all memories."""
        if left is None:
            left = self.residuals.first or 0
        graph, group = self.graph, self.groups[mask]
        there, live = self.on_chip(done), graph.still_read(done | mask)
        fetched = group.read & self.given & ~there if self.inside else 0
        resident = sum(1 << tensor for tensor in group.outputs if live >> tensor & 1)
        written = sum(1 << tensor for tensor in group.outputs if graph.leaving >> tensor & 1)
        whole = there | fetched | resident
        streamed, last = group.read & ~(there | fetched), done | mask == graph.all
        operands = group.replaceable_operands(done) if resident >> group.output & 1 else ()
        touched = frozenset(members(whole & group.touched))
        for in_place in (-1, *(each for each in operands if whole >> each & 1)):
            taken = self.steps.size(whole) - (self.steps.sizes[in_place] if in_place >= 0 else 0)
            room = self.steps.capacity - taken
            tensors = TensorChoice(fetched, resident, written, streamed, whole, in_place, taken)
            known = self.residuals.of_tensors(left, group, tensors, last)
            asking = self.residuals.left(left, known)
            if asking is None:
                continue
            for shape in self._shapes_of(group, tensors, room, asking):
                if self._computes_too_much(group, shape):
                    continue
                buffers = tuple(step_buffers(group, shape, touched))
                memory = sum(buffer.size for buffer in buffers)
                if memory > room:
                    continue
                accesses = self._accesses(group, shape, tensors, done)
                spent = self._spent(group, shape, tensors, done)
                if not self.placed:
                    spent, accesses = spent.plus(self._spent_anywhere(accesses)), {}
                after = self._left_after(group, shape, taken + memory, spent, asking, last=last)
                if after is not None:
                    choice = StepChoice(mask, 0, fetched, resident, written, in_place, shape)
                    yield Way(choice, whole, taken, buffers, spent, accesses, after)

    def _accesses(
        self, group: Group, shape: Shape, tensors: TensorChoice, done: int
    ) -> Mapping[Thing, Accesses]:
        """Return what a step reads and writes, where that counts."""
        if not self._accessed:
            return {}
        sizes = {each: self.graph.still_needed(each, done) for each in members(tensors.fetched)}
        moved = Moved(members(tensors.streamed), sizes, members(tensors.written))
        return accesses_of_step(group, shape, frozenset(members(tensors.whole)), moved)

    def _spent_anywhere(self, accesses: Mapping[Thing, Accesses]) -> Spent:
        """Return what accesses cost where it does not matter what lies where, and weights are in flash."""
        total, flash = Spent(), len(self.memory_costs.regions)
        for (what, _), each in accesses.items():
            memory = flash if what == WEIGHTS else 0
            total = total.plus(self.memory_costs.spent(memory, self.memory_costs.values(memory, *each)))
        return total

    def _shapes_of(self, group: Group, tensors: TensorChoice, room: int, left: int) -> Iterator[Shape]:
        """Return the ways to cut up a step that may be of use, as far as they fit into some room.

        Of those that constraints tell apart all are of use.
        """
        words = ((term.word, operation) for term, operation in self.residuals.of_shapes(left, group.mask))
        more = self.residuals.asks_for_more(left, group)
        told, in_place = told_by(group, words, amounts=more).numbers, tensors.in_place
        for shape in self._cut(group, tensors, room, told):
            if in_place < 0 or replaces(group, shape, in_place):
                yield shape

    def _cut(self, group: Group, tensors: TensorChoice, room: int, told: Collection[str]) -> Iterator[Shape]:
        """Return ways to cut up a step; the output may not take a place in all of them.

        Parameters
        ----------
        told
            Numbers of a way of which constraints tell all values apart.
        """
        if group.mask & self.graph.alone:
            yield Shape("pixels", group.pixels, 1, group.keepable)
            return
        together = len(group.operations) > 1
        for area in (group, group.running):
            if area is None:
                continue
            yield Shape("pixels", 1, 1, running=area.is_running, interleaved=together)
            if not together and not tensors.streamed:
                for kernels in range(1, most_kernels(group) + 1 if KERNELS in told else 2):
                    yield Shape("kernels", 1, kernels, running=area.is_running)
                if self.streams and not area.is_running:
                    yield from self._streamed(group, told)
        passes: Iterable[int] = ()
        if PIXELS in told:
            passes = range(1 if together else 2, group.pixels + 1)
        elif tensors.in_place >= 0 and together:
            passes = (each for each in group.pixels_that_replace(tensors.in_place) if each > 1)
        yield from (Shape("pixels", pixels, 1) for pixels in passes)
        running = group.running is not None
        for columns in strip_widths(group):
            lines = (
                least_line(group, each, columns) for each in group.lines if not tensors.whole >> each & 1
            )
            if sum(lines) <= room:
                yield Shape("pixels", 1, 1, columns=columns, running=running, interleaved=together)

    def _streamed(self, group: Group, told: Collection[str]) -> Iterator[Shape]:
        """Return the ways to copy weights block by block."""
        last = group.last
        four = last.copyable // last.units * STREAMED
        every = KERNELS in told or not self.memory_costs.holds_whole_accesses(four)
        yield from streamed_shapes(group, every=every)

    def _computes_too_much(self, group: Group, shape: Shape) -> bool:
        """Whether strips compute more again than is allowed of the whole plan."""
        if self.again is None or shape.columns is None:
            return False
        return work_of_step(group, shape).macs - least_work(group).macs > self.again

    def _spent(self, group: Group, shape: Shape, tensors: TensorChoice, done: int) -> Spent:
        """Return what a step spends; nothing where nothing is counted."""
        if not self.names and not self.residuals.words:
            return Spent()
        sources, outputs = members(tensors.streamed), members(tensors.written)
        loaded = [self.graph.still_needed(tensor, done) for tensor in members(tensors.fetched)]
        moved = elements_moved(group, shape, sources, outputs) + sum(loaded)
        whole = frozenset(members(tensors.whole & group.touched))
        return cost_of_step(self.problem.prices, group, shape, sources, loaded, outputs, moved, whole)

    def _left_after(
        self, group: Group, shape: Shape, memory: int, spent: Spent, left: int, *, last: bool
    ) -> int | None:
        """Return what is left of constraints when a step is cut up; None where they cannot hold."""
        width = self.problem.machine.element_bytes
        view = StepView(group, shape, memory=memory * width, moved=spent.moved * width)
        return self.residuals.after_cut(left, view, spent, last=last)


def added(one: Costs, other: Costs) -> Costs:
    """Return what two ways cost one after the other: the most memory of both, and all costs."""
    return (max(one[0], other[0]), *(a + b for a, b in zip(one[1:], other[1:], strict=True)))


def undominated(labels: list[Label]) -> list[Label]:
    """Return those that no other one beats which leaves constraints the same, least memory first."""
    found: list[Label] = []
    alike: dict[int, list[Costs]] = {}
    for label in sorted(labels, key=lambda label: label.costs):
        others = alike.setdefault(label.left, [])
        if not are_beaten(label.costs, others):
            others.append(label.costs)
            found.append(label)
    return found


def are_beaten(costs: Costs, others: Sequence[Costs]) -> bool:
    """Whether any of others beats some costs: they come before these in order, and none beats another."""
    if len(costs) == 2:  # then the last of them has the least of the second cost
        return bool(others) and others[-1][1] <= costs[1]
    return any(all(one <= two for one, two in zip(each, costs, strict=True)) for each in others)
