"""An integer program that chooses among priced groups: an exact cover of the operations, without cycles.

Groups run one after the other, so that the tile of one changes nothing for others: with the best of its tiles
each group is one column, and no plan is lost. Where constraints tell tiles apart, each of these is a column.
Where memory is minimised, so is each tile of a group than which none is faster and takes as little: another
tile can be replaced by one of them in any plan. What plans cost is then limited, and what counts is the
largest of their groups: the sum of the steps of memory that some operation's group reaches.

Most groups cannot be part of a cycle. Operations of those that can have positions, which are equal within a
group and ascend along whatever depends on each other in different groups. Costs are counted beyond the prices
of operations, so that the linear relaxation starts where its dual ends.

Extras: no two groups that wait for each other, and, but for memory, none that costs no less than two others
in its place.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd
from typing import Any

import pyomo.environ as pyo

from tilewright.fusion.evaluation import violation
from tilewright.fusion.group.best_tile import evaluate_tile
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.exact_cover import Cover, find_cover, started
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.fusion.selection.terms import summed
from tilewright.spec.constraints import Term

from ._columns import WORDS, size, why_not
from ._columns import suits as adds_up

__all__ = ["WORDS", "build", "read", "size", "start", "suits", "term", "why_not"]


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem: all but constraints where memory is minimised."""
    return why_not(problem) is None and (adds_up(problem) or not problem.constraints)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = formulate(find_cover(problem), extras, largest_alone=problem.minimise == "memory")
    m.problem = problem
    return m


def formulate(choice: Cover, extras: bool, *, largest_alone: bool = False) -> Any:
    """Return the model of a choice.

    Parameters
    ----------
    largest_alone
        Whether the memory of the largest group is minimised, and what plans cost is limited.
    """
    m = pyo.ConcreteModel(name="partition")
    m.choice, m.offset = choice, choice.base
    most = len(choice.placed) - 1
    m.CANDIDATES = pyo.RangeSet(0, len(choice.candidates) - 1)
    m.PLACED = pyo.Set(initialize=choice.placed)
    m.chosen = pyo.Var(m.CANDIDATES, domain=pyo.Binary)
    m.position = pyo.Var(m.PLACED, bounds=(0, most))  # of an operation's group in the order of execution
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built

    def apart(i: int, j: int) -> Any:
        return 1 - sum(m.chosen[c] for c in sorted({*choice.holders[i]} & {*choice.holders[j]}))

    @m.Constraint(range(len(choice.prices)))
    def each_operation_once(m: Any, i: int) -> Any:
        return m.nowhere + sum(m.chosen[c] for c in choice.holders[i]) == 1

    @m.Constraint(choice.links)
    def groups_wait(m: Any, i: int, j: int) -> Any:
        return m.position[i] + apart(i, j) <= m.position[j]

    @m.Constraint(choice.ties)
    def one_position_at_most(m: Any, i: int, j: int) -> Any:
        return m.position[j] - m.position[i] <= most * apart(i, j)

    @m.Constraint(choice.ties)
    def one_position_at_least(m: Any, i: int, j: int) -> Any:
        return m.position[i] - m.position[j] <= most * apart(i, j)

    premiums = sum(choice.premiums[c] * m.chosen[c] for c in m.CANDIDATES)
    if largest_alone:
        m.fast_enough = pyo.Constraint(expr=m.nowhere + premiums <= choice.worst)
        _minimise_memory(m)
    else:
        m.cost = pyo.Objective(expr=premiums)
    if extras:

        @m.Constraint(choice.clashes)
        def not_both(m: Any, c: int, d: int) -> Any:
            return m.chosen[c] + m.chosen[d] <= 1

    if extras and not largest_alone:

        @m.Constraint(choice.split)
        def two_others_instead(m: Any, c: int) -> Any:
            return m.chosen[c] == 0

    return m


def _minimise_memory(m: Any) -> None:
    """Minimise what the largest group takes: the steps up to it."""
    choice: Cover = m.choice
    takes = [0 if one.choice is None else one.choice.peak for one in choice.candidates]
    m.offset = min(takes, default=0)
    levels = sorted({m.offset, *takes})
    m.unit = gcd(*(high - low for low, high in pairwise(levels))) or 1
    m.levels = levels[1:]
    m.LEVELS = pyo.RangeSet(0, len(m.levels) - 1)
    m.reached = pyo.Var(m.LEVELS, domain=pyo.Binary)  # some group takes as much, or more

    @m.Constraint(m.LEVELS, range(len(choice.prices)))
    def reached_by_the_group(m: Any, t: int, i: int) -> Any:
        large = [c for c in choice.holders[i] if takes[c] >= m.levels[t]]
        return sum(m.chosen[c] for c in large) <= m.reached[t] if large else pyo.Constraint.Skip

    steps = [(high - low) // m.unit for low, high in pairwise(levels)]
    m.cost = pyo.Objective(expr=m.nowhere + sum(steps[t] * m.reached[t] for t in m.LEVELS))
    m.takes = takes


def _within(choice: Cover, problem: Problem, plan: Plan) -> list[int] | None:
    """Return the fastest columns that take no more than the groups of a plan, None where there are none."""
    number, chosen = {op.name: op.number for op in problem.ops}, []
    for group in plan.groups:
        nodes = tuple(number.get(name, -1) for name in group.nodes)
        alike = [c for c, one in enumerate(choice.candidates) if one.nodes == tuple(sorted(nodes))]
        if group.tile is not None and alike:
            most = evaluate_tile(problem, problem.fused(nodes), group.tile).peak
            alike = [c for c in alike if choice.candidates[c].choice.peak <= most]  # type: ignore[union-attr]
        if not alike:
            return None
        chosen.append(min(alike, key=lambda c: choice.premiums[c]))
    return chosen


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary: what the chosen groups add to it."""
    return m.nowhere + sum(
        value * m.chosen[c] for c, value in summed(m.problem, m.choice.candidates, one).items()
    )


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in that of operations alone where it is of no use."""
    choice: Cover = m.choice
    if m.problem.minimise == "memory":
        chosen = (_within(choice, m.problem, plan) if violation(m.problem, plan) is None else None) or []
        largest = max((m.takes[c] for c in chosen), default=0)
        for t in m.LEVELS:
            m.reached[t] = int(largest >= m.levels[t])
    else:
        chosen = started(m.problem, plan) or choice.alone
    for c in m.CANDIDATES:
        m.chosen[c] = int(c in chosen)
    held = {number for c in chosen for number in choice.candidates[c].nodes}
    positions = choice.positions(chosen) if len(held) == len(choice.prices) else {}
    for number in choice.placed:
        m.position[number] = positions.get(number, 0)
    m.nowhere = 0


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    return order_groups(m.problem, [m.choice.candidates[c] for c in m.CANDIDATES if m.chosen[c].value > 0.5])
