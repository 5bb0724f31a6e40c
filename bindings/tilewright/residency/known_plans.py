"""Simple plans of a problem, by size: what steps that belong to dearer plans alone are left out against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, NamedTuple

from tilewright.residency.cost import Spent
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import least_of_a_frame, steps_beside, weights_of
from tilewright.residency.evaluation import exceeded_limit
from tilewright.residency.exact.priced_steps import FIELDS, Costs, PricedSteps, most_parts
from tilewright.residency.exact.without_dram import one_by_one
from tilewright.residency.greedy import construct, fused_groups, leaves_room, next_alone
from tilewright.residency.machine import ONE
from tilewright.residency.placement import encode_plan
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import State, StepChoice
from tilewright.spec.errors import InputError

FRACTIONS = (0, 64, 8, 2)
"""Parts of what a plan by rules costs beyond the least that a shortest path may cost, one after the other."""

WIDTH = 4
"""Paths that are followed of those that have executed the same operations."""


class Known(NamedTuple):
    """What a plan costs beyond the least, in the parts that steps count, and its steps.

    It fits by size, as the plans of models do; whether it has addresses is not asked.

    Attributes
    ----------
    staying
        Numbers of the operations whose weights stay for all frames.
    """

    beyond: int
    choices: tuple[StepChoice, ...]
    staying: tuple[int, ...] = ()


def counted(problem: Problem) -> tuple[str, ...]:
    """Return of what steps are priced: what is minimised, but for memory, then all that is limited."""
    limited = tuple(problem.objective.limits)
    return limited if problem.minimise == "memory" else (problem.minimise, *limited)


def least(problem: Problem) -> int:
    """Return what every plan costs of what is minimised, in the parts that steps count; of memory 0."""
    if problem.minimise == "memory":
        return 0
    if problem.limits.frames != ONE:
        return least_of_a_frame(problem)
    found: int = getattr(problem.least_spent, FIELDS[problem.minimise])
    return found


def cost(names: Sequence[str], spent: Spent) -> Costs:
    """Return what is spent of all that counts."""
    return tuple(getattr(spent, FIELDS[name]) for name in names)


def known_plan(problem: Problem) -> Known | None:
    """Return the best of some simple plans; None without one that keeps the limits."""
    limits, objective = problem.limits, problem.objective
    key = limits.order, limits.most_operations, limits.frames
    memory = problem.machine.capacity, tuple(objective.limits.items())
    make = _of_frames if limits.frames != ONE else _of_one_frame
    make = make if problem.machine.dram else _one_by_one
    found: Known | None = problem.groups.share(
        ("known", counted(problem), key, memory), lambda: make(problem)
    )
    return found


def _of_one_frame(problem: Problem) -> Known | None:
    found = [known for known in _by_rules(problem) if known is not None]
    best = min(found, key=lambda known: known.beyond, default=None)
    if best is None or not best.beyond:
        return best
    for fraction in FRACTIONS:
        more = best.beyond // fraction if fraction else 0
        path = cheap_path(problem, more)
        if path is not None:
            return path
    return best


def _one_by_one(problem: Problem) -> Known | None:
    """Return the plan of a machine without DRAM that executes one operation after the other, if it fits."""
    plan = one_by_one(problem, float("inf"))
    if plan is None:
        return None
    names, steps = counted(problem), decode_plan(problem, plan)
    total = sum(cost(names, step.spent)[0] for step in steps)
    return Known(total - least(problem), tuple(step.choice for step in steps))


def known_memory(problem: Problem) -> int:
    """Return the elements that the same plan takes by size; all of the memory where there is none."""
    plan = one_by_one(problem, float("inf"))
    if plan is None:
        return problem.machine.capacity
    return max(step.memory for step in decode_plan(problem, plan))


def _of_frames(problem: Problem) -> Known | None:
    """Return a plan in which weights stay: one operation's after the other, as long as less is moved."""
    compulsory = problem.graph.compulsory
    weights = {op.number: op.weights for op in problem.graph.operations if op.weights}
    lowest, best, staying = least(problem), None, tuple[int, ...]()
    while True:
        tried: list[Known] = []
        for number in [None] if best is None else weights.keys() - {*staying}:
            some = staying if number is None else (*staying, number)
            taken = weights_of(problem.graph, some)
            left = steps_beside(problem, some)
            known = None if left is None else _of_one_frame(left)
            if known is not None:
                beyond = known.beyond + compulsory - taken - lowest
                tried.append(Known(beyond, known.choices, tuple(sorted(some))))
        new = min(tried, key=lambda known: known.beyond, default=None)
        if new is None or (best is not None and new.beyond >= best.beyond):
            return best
        best, staying = new, new.staying


def _by_rules(problem: Problem) -> Iterator[Known | None]:
    names, lowest = counted(problem), least(problem)
    ways: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (fused_groups, {"empty": True}),
        (next_alone, {"empty": True}),
        (fused_groups, {"allowed": leaves_room(problem)}),
    ]
    for groups, how in ways:
        try:
            plan = construct(problem, groups, **how)
        except InputError:
            continue
        choices = [step.choice for step in decode_plan(problem, plan)]
        if names != ("traffic",):
            choices = PricedSteps(problem, problem.machine.capacity, names).improve(choices)
        steps = decode_plan(problem, without_addresses(problem, choices))
        if exceeded_limit(problem, steps) is None:
            total = sum(cost(names, step.spent)[0] for step in steps)
            yield Known(total - lowest, tuple(choices))


def without_addresses(problem: Problem, choices: Sequence[StepChoice]) -> Plan:
    """Return a plan of some steps that is not asked where anything lies."""
    return encode_plan(problem.graph, choices, [{} for _ in choices])


class _Reached(NamedTuple):
    """What it has cost to reach a state, and the last step of the way, with what was before it."""

    costs: Costs
    choices: tuple[Any, ...] | None


def cheap_path(problem: Problem, more: int) -> Known | None:
    """Return a plan that costs no more than `more` beyond the least, if following few paths leads to one."""
    names, lowest = counted(problem), least(problem)
    most = [lowest + more]
    most += [most_parts(problem, name, problem.objective.limits[name]) for name in names[1:]]
    again = more if names[0] == "traffic" else 2**60
    priced = PricedSteps(problem, problem.machine.capacity, names, again)
    start = priced.steps.start()
    waiting = {start.done: {start: _Reached((0,) * len(names), None)}}

    def expected(costs: Costs, state: State) -> Costs:
        left = problem.remaining.least(state.done, state.in_dram & ~state.on_chip)
        return tuple(map(add, costs, priced.costs(left)))

    while waiting:
        done = min(waiting, key=lambda each: (each.bit_count(), each))
        reached = waiting.pop(done)
        few = sorted(reached.items(), key=lambda each: expected(each[1].costs, each[0]))[:WIDTH]
        if done == problem.graph.all:
            costs, path = few[0][1]
            return Known(costs[0] - lowest, _choices(path))
        for state, (costs, path) in few:

            def worth(least_costs: Costs, after: State, costs: Costs = costs) -> bool:
                total = expected(tuple(map(add, costs, least_costs)), after)
                return all(each <= limit for each, limit in zip(total, most, strict=True))

            for mask in priced.steps.next_groups(done):
                for step in priced.transitions(state, mask, worth):
                    new = tuple(map(add, costs, step.costs))
                    if not all(map(int.__le__, expected(new, step.after), most)):
                        continue
                    others = waiting.setdefault(step.after.done, {})
                    if step.after not in others or new < others[step.after].costs:
                        others[step.after] = _Reached(new, (step.choice, path))
    return None


def _choices(path: tuple[Any, ...] | None) -> tuple[StepChoice, ...]:
    found = []
    while path is not None:
        choice, path = path
        found.append(choice)
    return tuple(reversed(found))
