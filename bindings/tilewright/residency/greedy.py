"""Step after step, the one that a rule likes best: what the room's heuristics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.residency.exact.best import addressed
from tilewright.residency.exact.search import Found, Search
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import Choice, Move, State, Transitions
from tilewright.spec.errors import InputError


def chosen(
    problem: Problem,
    groups: Callable[[Search, State], Iterable[int]],
    allowed: Callable[[Transitions, Move], bool],
    liking: Callable[[Transitions, Move], Any],
) -> Plan:
    """Return the plan of the steps that a rule likes best.

    Parameters
    ----------
    groups
        Returns the groups that may come next, those that are tried first before others: the first with a step
        that is allowed is taken.
    allowed, liking
        Of a step; the least liking is taken.
    """
    graph, capacity = problem.graph, problem.machine.capacity
    steps = Transitions(graph, capacity, groups=problem.groups)
    search = Search(steps, given_order=True, most_operations=problem.limits.most_operations)
    state, choices, total = steps.start(), list[Choice](), 0
    while state.done != graph.all:
        for mask in groups(search, state):
            moves = [move for move in steps.moves(state, mask) if allowed(steps, move)]
            if moves:
                break
        else:
            raise InputError(
                "machine.memory_bytes", problem.machine.memory_bytes, "is too small for this rule"
            )
        move = min(moves, key=lambda move: liking(steps, move))
        state, total = move.after, total + move.moved
        choices.append(move.choice)
    plan = addressed(problem, Found(total, tuple(choices)), capacity, float("inf"))
    if plan is None:
        raise InputError("machine.memory_bytes", problem.machine.memory_bytes, "has no place for all buffers")
    return plan


def one(search: Search, state: State) -> list[int]:
    """Return the next operation of the file, by itself."""
    return [mask for mask in search.groups(state.done) if mask.bit_count() == 1][:1]


def safe(problem: Problem) -> Callable[[Transitions, Move], bool]:
    """Return whether all operations that are left can be executed beside what stays on chip."""
    least = problem.least

    def holds(steps: Transitions, move: Move) -> bool:
        stays = steps.size(move.after.on_chip & ~move.after.in_dram)
        left = [least[number] for number in least if not move.after.done >> number & 1]
        return not left or stays + max(left) <= steps.capacity

    return holds
