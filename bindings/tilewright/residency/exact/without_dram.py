"""The search for machines without DRAM: every map is on chip from its first value until it is read last.

What is on chip between two steps follows from what has been executed. So a search over sets of executed
operations finds all that a plan can be: which operations run together, in which order, in strips or whole
rows, and what takes whose place. Of the ways to get to a set those are kept that no other one beats in the
memory that they have needed so far and in all costs that count.

What has weights in flash keeps all of them for the whole step. So each pass is a pixel, and operations that
run together take turns: larger passes would need more memory and save nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.cost import cost_of_step, least_work, work_of_step
from tilewright.residency.evaluation import costs_of, violation
from tilewright.residency.exact.priced_steps import FIELDS, most_parts, units_of
from tilewright.residency.exact.traffic import Answer
from tilewright.residency.graph import members
from tilewright.residency.placement import place_steps
from tilewright.residency.plan import Plan
from tilewright.residency.problem import MOST_ELEMENTS, Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, elements_moved, replaces, step_buffers
from tilewright.residency.shapes.strips import least_line, strip_widths
from tilewright.residency.transitions import StepChoice, Transitions
from tilewright.spec.errors import OutOfTimeError

Costs = tuple[int, ...]
"""The memory that is needed, then what counts besides."""

MORE = 100
"""Addresses are sought in memories that are larger by one part in so many."""


class Label(NamedTuple):
    """A way to execute some operations: what it needs and costs, and its last step."""

    costs: Costs
    before: Label | None = None
    choice: StepChoice | None = None

    def choices(self) -> list[StepChoice]:
        """Return its steps."""
        found, label = list[StepChoice](), self
        while label.before is not None and label.choice is not None:
            found.append(label.choice)
            label = label.before
        return found[::-1]


class WithoutDram:
    """The search for the plans of a problem that no other one beats.

    Parameters
    ----------
    names
        What counts besides memory.
    most
        The most that some of them may be.
    alone
        Whether each step has one operation.
    capacity
        Elements of the memory; by default those of the machine.
    """

    def __init__(
        self,
        problem: Problem,
        names: tuple[str, ...],
        most: Mapping[str, int],
        deadline: float,
        *,
        alone: bool = False,
        capacity: int | None = None,
    ) -> None:
        self.problem, self.names, self.deadline, self.alone = problem, names, deadline, alone
        self.graph, self.groups = problem.graph, problem.groups
        self.most = [most.get(name) for name in names]
        self.steps = Transitions(self.groups, capacity or problem.machine.capacity, problem.limits)
        self.again = most["macs"] - problem.least_spent.macs if "macs" in most else None
        self.inside = problem.limits.inputs == "memory"
        self.given = sum(1 << number for number, tensor in enumerate(self.graph.tensors) if tensor.given)

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
        graph = self.graph
        waiting: dict[int, list[Label]] = {graph.begin: [Label((0,) * (1 + len(self.names)))]}
        while True:
            done = min(waiting, key=int.bit_count)
            labels = undominated(waiting.pop(done))
            if done == graph.all:
                return labels
            for mask in self.steps.groups_within_limits(done):
                if self.alone and mask.bit_count() > 1:
                    continue
                check_deadline(self.deadline)
                ways = [each for each in self.ways(mask, done) if self._allowed(each.costs)]
                reached = waiting.setdefault(done | mask, [])
                for label in labels:
                    for way in ways:
                        costs = added(label.costs, way.costs)
                        if self._allowed(costs):
                            reached.append(Label(costs, label, way.choice))
            if not any(waiting.values()):
                return []
            waiting = {key: each for key, each in waiting.items() if each}

    def _allowed(self, costs: Costs) -> bool:
        limits = zip(costs[1:], self.most, strict=True)
        return costs[0] <= self.steps.capacity and all(most is None or cost <= most for cost, most in limits)

    # Steps ---------------------------------------------------------------------------------------------

    def ways(self, mask: int, done: int) -> list[Label]:
        """Return the ways to execute a group next that no other one beats."""
        graph, group = self.graph, self.groups[mask]
        there, live = self.on_chip(done), graph.still_read(done | mask)
        fetched = group.read & self.given & ~there if self.inside else 0
        resident = sum(1 << tensor for tensor in group.outputs if live >> tensor & 1)
        written = sum(1 << tensor for tensor in group.outputs if graph.leaving >> tensor & 1)
        whole = there | fetched | resident
        streamed = group.read & ~(there | fetched)
        operands = group.replaceable_operands(done) if resident >> group.output & 1 else ()
        found = []
        for in_place in (-1, *(each for each in operands if whole >> each & 1)):
            taken = self.steps.size(whole) - (self.steps.sizes[in_place] if in_place >= 0 else 0)
            room = self.steps.capacity - taken
            touched = frozenset(members(whole & group.touched))
            for shape in self._shapes_of(group, touched, in_place, room):
                if self._computes_too_much(group, shape):
                    continue
                costs = self._costs(group, shape, streamed, fetched, written)
                buffers = sum(buffer.size for buffer in step_buffers(group, shape, touched))
                if buffers > room:
                    continue
                choice = StepChoice(mask, 0, fetched, resident, written, in_place, shape)
                found.append(Label((taken + buffers, *costs), None, choice))
        return undominated(found)

    def _shapes_of(self, group: Group, whole: frozenset[int], in_place: int, room: int) -> Iterator[Shape]:
        """Return the ways to cut up a step that may be of use, as far as they fit into some room."""
        if group.mask & self.graph.alone:
            yield Shape("pixels", group.pixels, 1, group.keepable)
            return
        together, outside = len(group.operations) > 1, set(group.sources) - whole
        pixels = [1] if in_place < 0 or not together else group.pixels_that_replace(in_place)
        for area in (group, group.running):
            if area is None:
                continue
            for each in pixels:
                turns = together and each == 1
                yield Shape("pixels", each, 1, running=area.is_running, interleaved=turns)
            if not together and not outside:
                yield Shape("kernels", 1, 1, running=area.is_running)
        if in_place >= 0 and together and not replaces(group, Shape("pixels", 1, 1, columns=1), in_place):
            return
        running = group.running is not None
        for columns in strip_widths(group):
            lines = (least_line(group, tensor, columns) for tensor in group.lines if tensor not in whole)
            if sum(lines) <= room:
                yield Shape("pixels", 1, 1, columns=columns, running=running, interleaved=together)

    def _computes_too_much(self, group: Group, shape: Shape) -> bool:
        """Whether strips compute more again than is allowed of the whole plan."""
        if self.again is None or shape.columns is None:
            return False
        return work_of_step(group, shape).macs - least_work(group).macs > self.again

    def _costs(self, group: Group, shape: Shape, streamed: int, fetched: int, written: int) -> Costs:
        if not self.names:
            return ()
        sources, outputs = members(streamed), members(written)
        loaded = [self.steps.sizes[tensor] for tensor in members(fetched)]
        moved = elements_moved(group, shape, sources, outputs) + sum(loaded)
        spent = cost_of_step(self.problem.prices, group, shape, sources, loaded, outputs, moved)
        return tuple(getattr(spent, FIELDS[name]) for name in self.names)


def added(one: Costs, other: Costs) -> Costs:
    """Return what two ways cost one after the other: the most memory of both, and all costs."""
    return (max(one[0], other[0]), *(a + b for a, b in zip(one[1:], other[1:], strict=True)))


def undominated(labels: list[Label]) -> list[Label]:
    """Return those that no other one beats, least memory first."""
    found: list[Label] = []
    for label in sorted(labels, key=lambda label: label.costs):
        if not any(all(a <= b for a, b in zip(each.costs, label.costs, strict=True)) for each in found):
            found.append(label)
    return found


# Plans --------------------------------------------------------------------------------------------------


class MemoryPoint(NamedTuple):
    """A plan that needs less memory than all of as few multiply-accumulates.

    Attributes
    ----------
    memory_bytes
        That no plan of as few needs less than.
    taken_bytes
        That this one takes: more where no addresses have been found in less.
    """

    memory_bytes: int
    macs: int
    taken_bytes: int
    plan: Plan


def best_without_dram(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
) -> Answer:
    """Return the plan that is best in the one objective of a problem, within its limits."""
    limits, name = problem.objective.limits, problem.minimise
    first = "macs" if name == "memory" else name
    names = (first, *(each for each in limits if each != first))
    most = {each: most_parts(problem, each, limit) for each, limit in limits.items()}
    bound = problem.least_memory * problem.machine.element_bytes if name == "memory" else 0
    simple = one_by_one(problem, deadline)
    if simple is not None and violation(problem, simple) is None:
        on_plan(simple)
    else:
        simple = None
    try:
        labels = []
        if name == "macs":  # mostly there is a plan that computes nothing twice, which is found sooner
            once = {"macs": problem.least_spent.macs}
            labels = WithoutDram(problem, names, {**most, **once}, deadline).labels()
        labels = labels or WithoutDram(problem, names, most, deadline).labels()
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
    plan = placed(problem, label, deadline, least=name == "memory")
    return Answer(simple if plan is None else plan, bound)


def enough_memory(problem: Problem, deadline: float) -> int | None:
    """Return the bytes of the least memory in which a problem has a plan, whatever the machine has.

    Nothing where that is not what is minimised last, or is not found in time.
    """
    if problem.minimise != "memory":
        return None
    first, limits = "macs" if "macs" in dict(problem.before) else None, problem.objective.limits
    most = {each: most_parts(problem, each, limit) for each, limit in limits.items()}
    names = tuple(dict.fromkeys([*([first] if first else []), *limits]))
    try:
        labels = WithoutDram(problem, names, most, deadline, capacity=MOST_ELEMENTS).labels()
    except OutOfTimeError:
        return None
    if not labels:
        return None
    best = min(labels, key=lambda label: label.costs[1]) if first else labels[0]
    return best.costs[0] * problem.machine.element_bytes


def placed(problem: Problem, label: Label, deadline: float, *, least: bool) -> Plan | None:
    """Return a plan with addresses: in the least memory for which there are some, or in all that there is."""
    choices, capacity = label.choices(), problem.machine.capacity
    room = label.costs[0]
    while least and room < capacity and time.monotonic() < deadline:
        plan = place_steps(problem.groups, choices, room, deadline, exact=True)
        if plan is not None:
            return plan
        room += max(1, room // MORE)
    return place_steps(problem.groups, choices, capacity, deadline, exact=True)


def one_by_one(problem: Problem, deadline: float) -> Plan | None:
    """Return the plan that executes each operation alone, in the least memory; None where none fits."""
    try:
        labels = WithoutDram(problem, (), {}, deadline, alone=True).labels()
    except OutOfTimeError:
        return None
    return placed(problem, labels[0], deadline, least=True) if labels else None


def memory_front(problem: Problem, deadline: float = float("inf")) -> list[MemoryPoint]:
    """Return all plans of which none needs less memory with as few multiply-accumulates, least memory first.

    Parameters
    ----------
    problem
        Of a machine without DRAM; what it minimises plays no part.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before it is proven that none is missing.
    """
    width, found = problem.machine.element_bytes, []
    for label in WithoutDram(problem, ("macs",), {}, deadline).labels():
        plan = placed(problem, label, deadline, least=True)
        if plan is None:
            raise OutOfTimeError
        taken = costs_of(problem, plan)["memory"]
        found.append(MemoryPoint(label.costs[0] * width, label.costs[1], taken, plan))
    return found
