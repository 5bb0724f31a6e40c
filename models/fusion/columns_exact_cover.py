"""A model for CP-SAT that chooses among priced groups: an exact cover of the operations, without cycles.

Groups run one after the other, so that the tile of one changes nothing for others: with the best of its tiles
each group is one column, and no plan is lost. Where constraints tell tiles apart, each of these is a column.

Costs are premiums beyond the prices of operations, as the other formulations have them, so that the
relaxation starts at the bound. Positions in the order of execution, of the operations that could be part of
a cycle, are equal where a chosen group says so, and ascend from group to group.

Extras: no two groups that wait for each other, none that costs no less than two others in its place, and no
premiums above those of a known plan.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.exact_cover import Cover, find_cover, started
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.fusion.selection.terms import summed
from tilewright.spec.constraints import Term

from ._columns import WORDS as SUMS
from ._columns import size, suits, why_not

__all__ = ["WORDS", "WRITTEN_FOR", "build", "read", "size", "start", "suits", "term", "why_not"]

WRITTEN_FOR = "cpsat"
WORDS = (*SUMS, "before", "memory")


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = formulate(find_cover(problem), extras)
    m.problem = problem
    return m


def formulate(choice: Cover, extras: bool = True) -> Any:
    """Return the model of a choice."""
    m: Any = cp_model.CpModel()
    m.choice, m.offset = choice, choice.base
    chosen = m.chosen = [m.new_bool_var(f"chosen[{c}]") for c in range(len(choice.candidates))]
    for i, holders in enumerate(choice.holders):
        m.add_exactly_one(chosen[c] for c in holders).with_name(f"each operation once: {i}")

    most = len(choice.placed) - 1
    position = m.position = {i: m.new_int_var(0, most, f"position[{i}]") for i in choice.placed}
    for c in choice.tangled:
        for i, j in pairwise(choice.candidates[c].nodes):
            m.add(position[i] == position[j]).only_enforce_if(chosen[c]).with_name(f"one position: {c}")
    for i, j in choice.links:
        together = sum(chosen[c] for c in sorted({*choice.holders[i]} & {*choice.holders[j]}))
        m.add(position[i] + 1 - together <= position[j]).with_name(f"groups wait: {i}, {j}")

    m.earlier = {}
    premiums = sum(premium * one for premium, one in zip(choice.premiums, chosen, strict=True))
    m.minimize(premiums)
    if extras:
        for c, d in choice.clashes:
            m.add_at_most_one(chosen[c], chosen[d]).with_name(f"not both: {c}, {d}")
        for c in choice.split:
            m.add_bool_and(~chosen[c]).with_name(f"two others instead: {c}")
        m.add(premiums <= choice.worst).with_name("worth finding")
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    each = summed(m.problem, m.choice.candidates, one)
    if one.word == "memory":
        most = m.new_int_var(0, max(each.values(), default=0), "memory")
        m.add_max_equality(most, [value * m.chosen[c] for c, value in each.items()] or [0])
        return most
    total = sum(value * m.chosen[c] for c, value in each.items())
    if one.word not in ("together", "before"):
        return total
    if one.word == "before" and one.arguments[0] != one.arguments[1]:
        total += _earlier_group(m, *map(str, one.arguments))
    holds = m.new_bool_var(str(one))
    m.add(holds == total)
    return holds


def _earlier_group(m: Any, first: str, second: str) -> Any:
    """Return whether an operation is in an earlier group than another, 1 or 0."""
    number = {op.name: op.number for op in m.problem.ops}
    i, j = number[first], number[second]
    together = sum(m.chosen[c] for c in sorted({*m.choice.holders[i]} & {*m.choice.holders[j]}))
    if (j, i) in m.earlier:
        return 1 - together - m.earlier[j, i]
    if (i, j) not in m.earlier:
        earlier = m.earlier[i, j] = m.new_bool_var(f"earlier[{i},{j}]")
        later = m.new_bool_var(f"later[{i},{j}]")
        m.add(earlier + later + together == 1)
        m.add(m.position[i] < m.position[j]).only_enforce_if(earlier)
        m.add(m.position[i] > m.position[j]).only_enforce_if(later)
    return m.earlier[i, j]


def start(m: Any, plan: Plan) -> None:
    """Hint a plan, or that of operations alone where it is of no use."""
    hinted = {*(started(m.problem, plan) or m.choice.alone)}
    for c, one in enumerate(m.chosen):
        m.add_hint(one, c in hinted)


def read(m: Any, value: Any) -> Plan:
    """Return the plan that the literals describe."""
    chosen = [m.choice.candidates[c] for c, one in enumerate(m.chosen) if value(one)]
    position = {one.nodes: value(m.position[one.nodes[0]]) for one in chosen if m.choice.ordered}
    return order_groups(m.problem, chosen, position)
