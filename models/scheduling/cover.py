"""An integer program: a set of subgraphs that writes all results, each after what it reads.

Extras: each operation is in a subgraph.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.scheduling import Plan, Problem
from tilewright.scheduling.cover import CERTAIN, Cover, takes


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return takes(problem, CERTAIN)


def size(problem: Problem) -> int:
    """Return about how many constraints there are: some for each pair of tensors that a subgraph links."""
    found = Cover(problem)
    return sum(len(needs) * (1 + len(ends)) for needs, ends in zip(found.needs, found.ends, strict=True))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    cover = Cover(problem)
    count = len(problem.graph.inputs)
    m = pyo.ConcreteModel(name="cover")
    m.cover, m.largest = cover, max(cover.worst, 1)
    m.BLOCKS = pyo.RangeSet(0, len(cover.blocks) - 1)
    m.OPS = pyo.RangeSet(0, count - 1)
    m.chosen = pyo.Var(m.BLOCKS, domain=pyo.Binary)
    m.turn = pyo.Var(m.OPS, bounds=(1, count))
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built
    m.time = pyo.Var(domain=pyo.Integers, bounds=(0, cover.worst))
    makers = {op: [b for b in m.BLOCKS if op in cover.ends[b]] for op in m.OPS}
    m.availability = pyo.ConstraintList()
    m.order = pyo.ConstraintList()
    for block in m.BLOCKS:
        for need in sorted(cover.needs[block]):
            m.availability.add(m.nowhere + sum(m.chosen[b] for b in makers[need]) >= m.chosen[block])
            for end in sorted(cover.ends[block]):
                m.order.add(m.turn[end] >= m.turn[need] + 1 - count * (1 - m.chosen[block]))

    @m.Constraint(sorted(cover.results))
    def results_are_written(m: Any, op: int) -> Any:
        return m.nowhere + sum(m.chosen[b] for b in makers[op]) >= 1

    if extras:

        @m.Constraint(m.OPS)
        def each_operation_runs(m: Any, op: int) -> Any:
            return m.nowhere + sum(m.chosen[b] for b in m.BLOCKS if op in cover.blocks[b]) >= 1

    spent = sum(cover.amounts[b] * m.chosen[b] for b in m.BLOCKS)
    m.begun_units_are_whole = pyo.Constraint(expr=cover.per_unit * m.time >= spent)
    m.cost = pyo.Objective(expr=m.time)
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in a known one where that one keeps tensors."""
    cover: Cover = m.cover
    chosen = cover.numbers(plan) or cover.known or []
    turns = cover.positions(chosen)
    for block in m.BLOCKS:
        m.chosen[block] = int(block in chosen)
    last = max(turns.values(), default=1)
    for op in m.OPS:
        m.turn[op] = turns.get(op, last)
    m.nowhere = 0
    m.time = -(-sum(cover.amounts[block] for block in chosen) // cover.per_unit)


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    cover: Cover = m.cover
    return cover.plan([block for block in m.BLOCKS if m.chosen[block].value > 0.5])
