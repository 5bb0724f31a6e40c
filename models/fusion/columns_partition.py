"""An integer program that chooses among priced groups: an exact cover of the operations, without cycles.

Groups run one after the other, so that the tile of one changes nothing for others: with the best of its tiles
each group is one column, and no plan is lost. Where constraints tell tiles apart, each of these is a column.

Most groups cannot be part of a cycle. Operations of those that can have positions, which are equal within a
group and ascend along whatever depends on each other in different groups. Costs are counted beyond the prices
of operations, so that the linear relaxation starts where its dual ends.

Extras: no two groups that wait for each other, and none that costs no less than two others in its place.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.exact_cover import Cover, find_cover, started
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.fusion.selection.terms import summed
from tilewright.spec.constraints import Term

from ._columns import WORDS, size, suits

__all__ = ["WORDS", "build", "read", "size", "start", "suits", "term"]


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = formulate(find_cover(problem), extras)
    m.problem = problem
    return m


def formulate(choice: Cover, extras: bool) -> Any:
    """Return the model of a choice."""
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

    m.cost = pyo.Objective(expr=sum(choice.premiums[c] * m.chosen[c] for c in m.CANDIDATES))
    if extras:

        @m.Constraint(choice.clashes)
        def not_both(m: Any, c: int, d: int) -> Any:
            return m.chosen[c] + m.chosen[d] <= 1

        @m.Constraint(choice.split)
        def two_others_instead(m: Any, c: int) -> Any:
            return m.chosen[c] == 0

    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary: what the chosen groups add to it."""
    return m.nowhere + sum(
        value * m.chosen[c] for c, value in summed(m.problem, m.choice.candidates, one).items()
    )


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in that of operations alone where it is of no use."""
    choice: Cover = m.choice
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
