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

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Literal, NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.cost import Spent, cost_of_step, least_work, work_of_step
from tilewright.residency.evaluation import costs_of, violation
from tilewright.residency.exact.all_shapes import KERNELS, PIXELS, told_by
from tilewright.residency.exact.constrained_addresses import place_constrained
from tilewright.residency.exact.priced_steps import FIELDS, most_parts, units_of
from tilewright.residency.exact.residuals import Residuals, limits_in
from tilewright.residency.exact.traffic import Answer
from tilewright.residency.graph import members
from tilewright.residency.plan import Plan
from tilewright.residency.problem import MOST_ELEMENTS, Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, elements_moved, most_kernels, replaces, step_buffers
from tilewright.residency.shapes.strips import least_line, strip_widths
from tilewright.residency.transitions import StepChoice, TensorChoice, Transitions
from tilewright.residency.vocabulary import StepView
from tilewright.spec.constraints.parts import Ground, conjuncts
from tilewright.spec.errors import InputError, OutOfTimeError

Costs = tuple[int, ...]
"""The memory that is needed, then what counts besides."""

MORE = 100
"""Addresses are sought in memories that are larger by one part in so many."""


class Label(NamedTuple):
    """A way to execute some operations: what it needs and costs, and its last step.

    Attributes
    ----------
    left
        Number of what constraints still ask: see `Residuals`.
    """

    costs: Costs
    before: Label | None = None
    choice: StepChoice | None = None
    left: int = 0

    def choices(self) -> list[StepChoice]:
        """Return its steps."""
        found, label = list[StepChoice](), self
        while label.before is not None and label.choice is not None:
            found.append(label.choice)
            label = label.before
        return found[::-1]


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
    """

    most: dict[str, int]
    capacity: int
    parts: tuple[Ground, ...]


def asked_by(problem: Problem) -> Asked:
    """Return what the machine, limits and constraints of a problem ask."""
    most, parts = limits_in(part for each in problem.must_hold_in_numbers for part in conjuncts(each))
    capacity = problem.machine.capacity
    if "memory" in most:
        capacity = min(capacity, most.pop("memory") // problem.machine.element_bytes)
    for name, limit in problem.objective.limits.items():
        most[name] = min(limit, most.get(name, limit))
    return Asked(
        {name: most_parts(problem, name, limit) for name, limit in most.items()}, capacity, (*parts,)
    )


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
    """

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
        self.residuals = Residuals(problem, asked.parts)

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
        waiting = {graph.begin: [Label((0,) * (1 + len(self.names)), left=begin)]}
        while True:
            done = min(waiting, key=int.bit_count)
            labels = undominated(waiting.pop(done))
            if done == graph.all:
                return labels
            for mask in self.steps.groups_within_limits(done):
                if self.alone and mask.bit_count() > 1:
                    continue
                reached = waiting.setdefault(done | mask, [])
                for left in {label.left for label in labels}:
                    check_deadline(self.deadline)
                    ways = [each for each in self.ways(mask, done, left) if self._allowed(each.costs)]
                    for label, way in product((each for each in labels if each.left == left), ways):
                        costs = added(label.costs, way.costs)
                        if self._allowed(costs):
                            reached.append(Label(costs, label, way.choice, way.left))
            if not any(waiting.values()):
                return []
            waiting = {key: each for key, each in waiting.items() if each}

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

    def ways(self, mask: int, done: int, left: int | None = None) -> list[Label]:
        """Return the ways to execute a group next that no other one beats.

        Parameters
        ----------
        left
            What constraints ask before; by default as before the first step.
        """
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
        touched, found = frozenset(members(whole & group.touched)), []
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
                buffers = sum(buffer.size for buffer in step_buffers(group, shape, touched))
                if buffers > room:
                    continue
                spent = self._spent(group, shape, tensors, done)
                after = self._left_after(group, shape, taken + buffers, spent, asking, last=last)
                if after is not None:
                    choice = StepChoice(mask, 0, fetched, resident, written, in_place, shape)
                    costs = (taken + buffers, *(getattr(spent, FIELDS[name]) for name in self.names))
                    found.append(Label(costs, None, choice, after))
        return undominated(found)

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
    alike: dict[int, list[Label]] = {}
    for label in sorted(labels, key=lambda label: label.costs):
        others = alike.setdefault(label.left, [])
        if not any(all(a <= b for a, b in zip(each.costs, label.costs, strict=True)) for each in others):
            others.append(label)
            found.append(label)
    return found


# Plans --------------------------------------------------------------------------------------------------


class MemoryPoint(NamedTuple):
    """A plan that needs less memory than all that cost as little: of multiply-accumulates, or of cycles.

    Attributes
    ----------
    memory_bytes
        That no plan that costs as little needs less than.
    macs
        Multiply-accumulates.
    taken_bytes
        That this one takes: more where no addresses have been found in less.
    cycles
        Of the machine; None where it says nothing of time.
    """

    memory_bytes: int
    macs: int
    taken_bytes: int
    plan: Plan
    cycles: int | None = None


def best_without_dram(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
) -> Answer:
    """Return the plan that is best in the one objective of a problem, within its limits."""
    name = problem.minimise
    first = "macs" if name == "memory" else name
    bound = problem.least_memory * problem.machine.element_bytes if name == "memory" else 0
    simple = one_by_one(problem, deadline)
    if simple is not None and violation(problem, simple) is None:
        on_plan(simple)
    else:
        simple = None
    try:
        search = WithoutDram(problem, deadline, first)
        labels = []
        if name == "macs":  # mostly there is a plan that computes nothing twice, which is found sooner
            search = WithoutDram(problem, deadline, first, {"macs": problem.least_spent.macs})
            labels = search.labels()
        if not labels:
            search = WithoutDram(problem, deadline, first)
            labels = search.labels()
    except OutOfTimeError:
        return Answer(simple, bound)
    if not labels:
        return Answer(None, enough_memory(problem, deadline) or bound, impossible=True)
    label = labels[0] if name == "memory" else min(labels, key=lambda label: (label.costs[1], label.costs))
    if name == "memory":
        bound = label.costs[0] * problem.machine.element_bytes
    else:
        bound = units_of(problem, name, label.costs[1])
    on_bound(bound)
    plan = placed(search, label, least=name == "memory")
    return Answer(simple if plan is None else plan, bound)


def enough_memory(problem: Problem, deadline: float) -> int | None:
    """Return the bytes of the least memory in which a problem has a plan, whatever the machine has.

    Nothing where that is not what is minimised last, where constraints are what leaves no plan, or where it
    is not found in time.
    """
    if problem.minimise != "memory" or asked_by(problem).capacity < problem.machine.capacity:
        return None
    first = "macs" if "macs" in dict(problem.before) else None
    try:
        labels = WithoutDram(problem, deadline, first, capacity=MOST_ELEMENTS).labels()
    except OutOfTimeError:
        return None
    if not labels:
        return None
    best = min(labels, key=lambda label: label.costs[1]) if first else labels[0]
    return best.costs[0] * problem.machine.element_bytes


def placed(search: WithoutDram, label: Label, *, least: bool) -> Plan | None:
    """Return a plan with addresses: in the least memory for which there are some, or in all that there is."""
    problem, deadline, choices = search.problem, search.deadline, label.choices()
    parts, capacity, room = search.residuals.sets[label.left], search.steps.capacity, label.costs[0]
    while least and room < capacity and time.monotonic() < deadline:
        plan = place_constrained(problem, choices, parts, room, 0, deadline)
        if plan is not None:
            return plan
        room += max(1, room // MORE)
    return place_constrained(problem, choices, parts, capacity, 0, deadline)


def one_by_one(problem: Problem, deadline: float) -> Plan | None:
    """Return the plan that executes each operation alone, in the least memory; None where none fits."""
    search = WithoutDram(problem, deadline, alone=True)
    try:
        labels = search.labels()
    except OutOfTimeError:
        return None
    return placed(search, labels[0], least=True) if labels else None


def memory_front(
    problem: Problem, deadline: float = float("inf"), *, over: Literal["macs", "cycles"] = "macs"
) -> list[MemoryPoint]:
    """Return all plans of which none needs less memory and costs as little, least memory first.

    Parameters
    ----------
    problem
        Of a machine without DRAM; what it minimises plays no part.
    over
        What costs.

    Raises
    ------
    InputError
        For cycles of a machine that does not tell them.
    OutOfTimeError
        When the deadline passes before it is proven that none is missing.
    """
    if over == "cycles" and not problem.machine.timed:
        raise InputError("machine.cycles_of", None, "must be told where cycles are counted without DRAM")
    width, found = problem.machine.element_bytes, list[MemoryPoint]()
    search = WithoutDram(problem, deadline, over)
    for label in search.front():
        plan = placed(search, label, least=True)
        if plan is None:
            raise OutOfTimeError
        costs = costs_of(problem, plan)
        cycles = costs["cycles"] if problem.machine.timed else None
        found.append(MemoryPoint(label.costs[0] * width, costs["macs"], costs["memory"], plan, cycles))
    return found
