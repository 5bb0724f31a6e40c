"""Step after step, the one that a rule likes best: what the room's heuristics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tilewright.residency.exact.step_arrays import StepArrays
from tilewright.residency.exact.traffic import addresses_in
from tilewright.residency.exact.traffic_steps import TrafficStep, TrafficSteps
from tilewright.residency.graph import members
from tilewright.residency.machine import OneMemory
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import ANYTHING, State, StepChoice, Transitions
from tilewright.spec.errors import InputError

LIMITS = (0, *(4**power for power in range(5, 20)), ANYTHING)
"""Elements that a step may move again, at first: of what moves more there may be very many ways."""

PARTS = 8
"""In how many parts of what several memories have beyond the largest one steps take less and less."""


def construct(
    problem: Problem,
    groups: Callable[[Transitions, State], Iterable[int]],
    allowed: Callable[[State], bool] = lambda _after: True,
    *,
    empty: bool = False,
) -> Plan:
    """Return the plan of the steps that move least beyond what must be moved, one after the other.

    Operations are executed in the order of the file.

    Parameters
    ----------
    groups
        Returns the groups that may come next, those that are tried first before others: the first with a step
        that is allowed is taken.
    allowed
        Whether what there is after a step is allowed.
    empty
        Whether nothing stays on chip between two steps.

    Raises
    ------
    InputError
        If the rule leads to no plan in this memory.
    """
    machine, limit = problem.machine, "is too small for this rule"
    for capacity in _capacities(machine):
        found = _steps(problem, capacity, groups, allowed, empty)
        if found is not None:
            addresses = addresses_in(problem, machine.capacity)
            plan = addresses.place(found, float("inf"), last=len(machine.regions) == 1)
            if plan is not None:
                return plan
            limit = "has no place for all buffers"
    raise InputError("machine.memory_bytes", machine.memory_bytes, limit)


def _capacities(machine: OneMemory) -> list[int]:
    """Return how many elements steps may take, one after the other, until there are addresses for them.

    In several memories that is less and less, down to what the largest one has: it alone is enough then.
    """
    capacity = machine.capacity
    if len(machine.regions) == 1:
        return [capacity]
    least = min(capacity, max(region.elements for region in machine.regions))
    return sorted({least + (capacity - least) * part // PARTS for part in range(PARTS + 1)}, reverse=True)


def _steps(
    problem: Problem,
    capacity: int,
    groups: Callable[[Transitions, State], Iterable[int]],
    allowed: Callable[[State], bool],
    empty: bool,
) -> list[StepChoice] | None:
    """Return the steps of a rule in a memory of some elements, or None: see `construct`."""
    graph = problem.graph
    steps = Transitions(problem.groups, capacity, problem.limits.with_(order="given"))
    options = TrafficSteps(steps)
    state, choices, there = steps.start(), list[StepChoice](), 0
    while state.done != graph.all:
        found = (
            [each for each in _ways_on(options, before, mask, empty, limit) if allowed(each[0])]
            for before in _dropping(steps, state)
            for mask in groups(steps, state)
            for limit in LIMITS
        )
        few = next((each for each in found if each), None)
        if few is None:
            return None
        after, step, stays = min(few, key=lambda each: (each[1].excess, each[1].memory))
        choices.append(step.choice(after.done & ~state.done, there & ~stays))
        state = after
        there = (stays | step.fetched | step.resident) & graph.still_read(state.done)
    return choices


def _ways_on(
    options: TrafficSteps, before: State, mask: int, empty: bool, limit: int
) -> Iterator[tuple[State, TrafficStep, int]]:
    """Return the ways to execute a group: what there is after it, the step, and what stays before it."""
    touched = options.steps.groups[mask].touched
    chip, dram = before.on_chip & ~touched, before.in_dram & ~touched
    room = options.capacity - options.steps.size(chip)
    steps, _ = options.ranked(mask, before, limit, room, empty=empty)
    for step in (each.complete() for each in steps):
        yield State(before.done | mask, chip | step.on_chip, dram | step.in_dram), step, before.on_chip


def _dropping(steps: Transitions, state: State) -> Iterator[State]:
    """Return a state, then what is left of it when more and more is dropped, the largest first."""
    yield state
    for tensor in sorted(members(state.on_chip & state.in_dram), key=lambda each: -steps.sizes[each]):
        state = state._replace(on_chip=state.on_chip & ~(1 << tensor))
        yield state


def suits(problem: Problem) -> bool:
    """Whether rules have plans: not for lists, whose tolerances depend on optima, and not without DRAM."""
    return not problem.before and problem.machine.dram


def next_alone(steps: Transitions, state: State) -> list[int]:
    """Return the next operation of the file, by itself."""
    return [mask for mask in steps.groups_within_limits(state.done) if mask.bit_count() == 1][:1]


def fused_groups(steps: Transitions, state: State) -> list[int]:
    """Return the groups in which nothing moves twice, the longest first, then the next operation alone."""
    fitting = list(steps.next_groups(state.done))
    fused = [
        mask
        for mask in fitting
        if mask & (mask - 1)
        and StepArrays(steps.groups[mask], steps.capacity).fits_moving_once(steps.capacity)
    ]
    return [*reversed(fused), *fitting[:1]]


def leaves_room(problem: Problem) -> Callable[[State], bool]:
    """Return whether all operations that are left can be executed beside what stays on chip."""
    least, capacity = problem.least_by_operation, problem.machine.capacity
    sizes = [tensor.size for tensor in problem.graph.tensors]

    def holds(after: State) -> bool:
        stays = sum(sizes[number] for number in members(after.on_chip & ~after.in_dram))
        left = [least[number] for number in least if not after.done >> number & 1]
        return not left or stays + max(left) <= capacity

    return holds
