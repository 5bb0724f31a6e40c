"""The best plans of machines without DRAM: which search finds them, where they lie, and fronts of memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from tilewright.residency.evaluation import costs_of, violation
from tilewright.residency.exact.constrained_addresses import place_constrained
from tilewright.residency.exact.one_of_memories import InOneOfMemories
from tilewright.residency.exact.priced_steps import units_of
from tilewright.residency.exact.ram_search import MORE, Label, WithoutDram, asked_by
from tilewright.residency.exact.several_memories import best_in_several, one_by_one_in_several
from tilewright.residency.exact.traffic import Answer
from tilewright.residency.machine import Region
from tilewright.residency.plan import Plan
from tilewright.residency.problem import MOST_ELEMENTS, Problem
from tilewright.residency.vocabulary import MEMORY_OF
from tilewright.spec.errors import InputError, OutOfTimeError


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
    simple = None
    try:
        simple = one_by_one(problem, deadline)
        if simple is not None and violation(problem, simple) is None:
            on_plan(simple)
        else:
            simple = None
        labels = []
        if name == "macs":  # mostly there is a plan that computes nothing twice, which is found sooner
            search = WithoutDram(problem, deadline, first, {"macs": problem.least_spent.macs})
            labels = search.labels()
        if not labels:
            search = _search(problem, deadline, first)
            labels = search.labels()
        if not labels and name == "memory":  # there may be plans in several memories
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
    region = memory_for(search, label)
    if region is not None:
        plan = placed(search, label, region, least=name == "memory")
        return Answer(simple if plan is None else plan, bound)
    try:
        answer = best_in_several(problem, deadline, name, first, label, on_bound)
    except OutOfTimeError:
        return Answer(simple, bound)
    return answer if answer.plan is not None or answer.impossible else Answer(simple, answer.bound)


def _search(problem: Problem, deadline: float, first: str | None) -> WithoutDram:
    """Return the search of all plans, or of several memories that of plans if they were one.

    Where all that may be taken fits into a memory in which nothing costs more than in others, plans in that
    one are as good as any. So it is where memory is minimised, if there are any plans in it.
    """
    search, asked = WithoutDram(problem, deadline, first), asked_by(problem)
    if not search.placed or asked.places:
        return search
    largest = sorted(enumerate(problem.machine.regions), key=lambda each: -each[1].elements)
    for number, region in largest:
        enough = problem.minimise == "memory" or asked.capacity <= region.elements
        if enough and all(search.memory_costs.is_best_for_copies(name, number) for name in search.placed):
            capacity = min(asked.capacity, region.elements)
            return InOneOfMemories(problem, deadline, first, region=number, capacity=capacity)
    return search


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


def memory_for(search: WithoutDram, label: Label) -> Region | None:
    """Return a memory that holds all that some steps need, and is as quick as any; None where there is none.

    In such a memory plans are as good as if all memories were one.
    """
    costs = search.memory_costs
    if isinstance(search, InOneOfMemories):
        return search.problem.machine.regions[search.region]
    if search.places or costs.may_copy(search.names):  # which takes memory
        return None
    for number, region in enumerate(search.problem.machine.regions):
        best = all(costs.is_best(name, number) for name in search.placed)
        if best and label.costs[0] <= region.elements:
            return region
    return None


def placed(search: WithoutDram, label: Label, region: Region, *, least: bool) -> Plan | None:
    """Return a plan with addresses in a memory: in the least of it for which there are some, or in all."""
    problem, deadline, choices = search.problem, search.deadline, label.choices()
    parts, capacity = search.residuals.sets[label.left], min(search.steps.capacity, region.elements)
    room, found = label.costs[0], None
    while least and found is None and room < capacity and time.monotonic() < deadline:
        found = place_constrained(problem, choices, parts, room, region.begin, deadline)
        room += max(1, room // MORE)
    if found is None:
        found = place_constrained(problem, choices, parts, capacity, region.begin, deadline)
    return None if found is None else found.moved_up(region.begin)


def one_by_one(problem: Problem, deadline: float) -> Plan | None:
    """Return the plan that executes each operation alone, in the least memory; None where none fits.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before it is found.
    """
    search = WithoutDram(problem, deadline, alone=True)
    labels = search.labels()
    if not labels:
        return None
    region = memory_for(search, labels[0])
    if region is not None:
        return placed(search, labels[0], region, least=True)
    return one_by_one_in_several(problem, deadline)


class Point(NamedTuple):
    """A way that no other one beats in memory and in what counts, and the search that found it."""

    label: Label
    search: WithoutDram


def front_in_one_memory(problem: Problem, deadline: float, over: str) -> list[Point]:
    """Return the ways of plans in one memory that no other one beats, least memory first.

    Raises
    ------
    InputError
        For constraints on where tensors lie.
    OutOfTimeError
        When the deadline passes before it is proven that none is missing.
    """
    asked = asked_by(problem)
    if asked.places:
        limit = "speaks of memories, which is not for fronts: they are of plans in one memory"
        raise problem.refusal_of((MEMORY_OF,), limit)
    regions, costs = problem.machine.regions, problem.memory_costs
    points = list[Point]()
    # Of memories in which all that counts costs the same the largest one has all the plans.
    names = WithoutDram(problem, deadline, over).names
    largest = sorted(costs.regions, key=lambda region: -regions[region].elements)
    for region in {costs.prices_of(region, names): region for region in reversed(largest)}.values():
        capacity = min(regions[region].elements, asked.capacity)
        search = InOneOfMemories(problem, deadline, over, region=region, capacity=capacity)
        points += [Point(label, search) for label in search.front()]
    found, least = list[Point](), None
    for point in sorted(points, key=lambda point: point.label.costs[:2]):
        cost = units_of(problem, over, point.label.costs[1])
        if least is None or cost < least:  # parts of a cycle make no point
            found.append(point)
            least = cost
    return found


def memory_front(
    problem: Problem, deadline: float = float("inf"), *, over: Literal["macs", "cycles"] = "macs"
) -> list[MemoryPoint]:
    """Return all plans of which none needs less memory and costs as little, least memory first.

    Of a machine with several memories those of plans that one of them holds: what they take in it is the
    least in all memories together.

    Parameters
    ----------
    problem
        Of a machine without DRAM; what it minimises plays no part.
    over
        What costs.

    Raises
    ------
    InputError
        For cycles of a machine that does not tell them, or constraints on where tensors lie.
    OutOfTimeError
        When the deadline passes before it is proven that none is missing.
    """
    if over == "cycles" and not problem.machine.timed:
        raise InputError("machine.cycles_of", None, "must be told where cycles are counted without DRAM")
    width, found = problem.machine.element_bytes, list[MemoryPoint]()
    for label, search in front_in_one_memory(problem, deadline, over):
        region = memory_for(search, label)
        assert region is not None
        plan = placed(search, label, region, least=True)
        if plan is None:
            raise OutOfTimeError
        costs = costs_of(problem, plan)
        cycles = costs["cycles"] if problem.machine.timed else None
        found.append(MemoryPoint(label.costs[0] * width, costs["macs"], costs["memory"], plan, cycles))
    return found
