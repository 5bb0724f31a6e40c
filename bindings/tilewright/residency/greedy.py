"""Step after step, the one that a rule likes best: what the room's heuristics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tilewright.residency.exact.search import Search, StepSequence
from tilewright.residency.exact.traffic import place_found
from tilewright.residency.exact.traffic_steps import TrafficStep, TrafficSteps
from tilewright.residency.graph import members
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import State, StepChoice, Transitions
from tilewright.spec.errors import InputError

LIMITS = (0, *(4**power for power in range(5, 20)), 2**60)
"""Elements that a step may move again, at first: of what moves more there may be very many ways."""


def construct(
    problem: Problem,
    groups: Callable[[Search, State], Iterable[int]],
    allowed: Callable[[State], bool] = lambda _after: True,
    *,
    empty: bool = False,
) -> Plan:
    """Return the plan of the steps that move least beyond what must be moved, one after the other.

    Parameters
    ----------
    groups
        Returns the groups that may come next, those that are tried first before others: the first with a step
        that is allowed is taken.
    allowed
        Whether what there is after a step is allowed.
    empty
        Whether nothing stays on chip between two steps.
    """
    graph, capacity = problem.graph, problem.machine.capacity
    steps = Transitions(graph, capacity, groups=problem.groups)
    options = TrafficSteps(steps)
    search = Search(steps, given_order=True, most_operations=problem.limits.most_operations)
    state, choices, total, there = steps.start(), list[StepChoice](), graph.compulsory, 0
    while state.done != graph.all:
        found = (
            [each for each in _steps(options, before, mask, empty, limit) if allowed(each[1])]
            for before in _dropping(steps, state)
            for mask in groups(search, state)
            for limit in LIMITS
        )
        few = next((each for each in found if each), None)
        if few is None:
            raise InputError(
                "machine.memory_bytes", problem.machine.memory_bytes, "is too small for this rule"
            )
        mask, state, option, stays = min(few, key=lambda each: (each[2].excess, each[2].memory))
        choices.append(option.choice(mask, there & ~stays))
        there = (stays | option.fetched | option.resident) & options.still_read(state.done)
        total += option.excess
    plan = place_found(problem, StepSequence(total, tuple(choices)), capacity, float("inf"))
    if plan is None:
        raise InputError("machine.memory_bytes", problem.machine.memory_bytes, "has no place for all buffers")
    return plan


def _steps(
    options: TrafficSteps, before: State, mask: int, empty: bool, limit: int
) -> Iterator[tuple[int, State, TrafficStep, int]]:
    """Return the ways to execute a group: the group, what there is after it, and what stays before it."""
    touched = options.touched(options.steps.group(mask))
    chip, dram = before.on_chip & ~touched, before.in_dram & ~touched
    room = options.capacity - options.size(chip)
    table, _ = options.ranked(mask, before.done, before.on_chip, before.in_dram, limit, room, empty=empty)
    for option in (each.option() for each in table):
        after = State(before.done | mask, chip | option.on_chip, dram | option.in_dram)
        yield mask, after, option, before.on_chip


def _dropping(steps: Transitions, state: State) -> Iterator[State]:
    """Return a state, then what is left of it when more and more is dropped, the largest first."""
    yield state
    for tensor in sorted(members(state.on_chip & state.in_dram), key=lambda each: -steps.sizes[each]):
        state = state._replace(on_chip=state.on_chip & ~(1 << tensor))
        yield state


def suits(problem: Problem) -> bool:
    """Whether rules have plans for a problem: not for lists, whose tolerances depend on optima."""
    return not problem.before


def next_alone(search: Search, state: State) -> list[int]:
    """Return the next operation of the file, by itself."""
    return [mask for mask in search.groups(state.done) if mask.bit_count() == 1][:1]


def leaves_room(problem: Problem) -> Callable[[State], bool]:
    """Return whether all operations that are left can be executed beside what stays on chip."""
    least, capacity = problem.least, problem.machine.capacity
    sizes = [tensor.size for tensor in problem.graph.tensors]

    def holds(after: State) -> bool:
        stays = sum(sizes[number] for number in members(after.on_chip & ~after.in_dram))
        left = [least[number] for number in least if not after.done >> number & 1]
        return not left or stays + max(left) <= capacity

    return holds
