"""An integer program that chooses priced runs of subgraphs that write all results, each after what it reads.

What a run takes depends on nothing outside it, as nothing is kept for it or behind it. So of runs that read,
write and mean to constraints the same, the fastest is enough, and no plan is lost.

Extras: each operation is in a subgraph.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.scheduling import Plan, Problem
from tilewright.scheduling.cover import CERTAIN, Cover, require_cover, takes
from tilewright.scheduling.exact.constrained import no_more_than
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import Ground, terms

WORDS = ("together", "retained", "latency")


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return takes(problem, CERTAIN)


def honours(_problem: Problem, part: Ground) -> bool:
    """Whether the formulation honours what must hold: of the latency, how much it is at most."""
    return {term.word for term in terms(part)} <= {*WORDS} and no_more_than(part, "latency")


def size(problem: Problem) -> int:
    """Return about how many constraints there are: some for each pair of tensors that a run links."""
    found = require_cover(problem)
    return sum(len(needs) * (1 + len(ends)) for needs, ends in zip(found.needs, found.ends, strict=True))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    cover = require_cover(problem)
    count = len(problem.graph.inputs)
    m = pyo.ConcreteModel(name="cover")
    m.cover, m.largest = cover, max(cover.worst, 1)
    m.BLOCKS = pyo.RangeSet(0, len(cover.blocks) - 1)
    m.OPS = pyo.RangeSet(0, count - 1)
    m.chosen = pyo.Var(m.BLOCKS, domain=pyo.Binary)
    m.turn = pyo.Var(m.OPS, bounds=(1, count))
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built
    m.time = pyo.Var(domain=pyo.Integers, bounds=(0, cover.worst))
    m.ENDS = pyo.Set(initialize=[(op, b) for b in m.BLOCKS for op in sorted(cover.ends[b])])
    m.writes = pyo.Var(m.ENDS, domain=pyo.Binary)  # which run writes a tensor first
    written = dict.fromkeys(m.OPS, m.nowhere)
    for op, block in m.ENDS:
        written[op] += m.writes[op, block]

    @m.Constraint(m.ENDS)
    def what_writes_is_chosen(m: Any, op: int, block: int) -> Any:
        return m.writes[op, block] <= m.chosen[block]

    m.availability = pyo.ConstraintList()
    m.order = pyo.ConstraintList()
    for block in m.BLOCKS:
        for need in sorted(cover.needs[block]):
            m.availability.add(written[need] >= m.chosen[block])
            for end in sorted(cover.ends[block]):
                m.order.add(m.turn[end] >= m.turn[need] + 1 - count * (1 - m.writes[end, block]))

    @m.Constraint(sorted(cover.results))
    def results_are_written(m: Any, op: int) -> Any:
        return written[op] >= 1

    if cover.last:
        m.one_is_the_last = pyo.Constraint(expr=sum(m.chosen[block] for block in cover.last) <= 1)
    if extras:

        @m.Constraint(m.OPS)
        def each_operation_runs(m: Any, op: int) -> Any:
            return m.nowhere + sum(m.chosen[b] for b in m.BLOCKS if op in cover.blocks[b]) >= 1

    spent = sum(cover.amounts[b] * m.chosen[b] for b in m.BLOCKS)
    m.begun_units_are_whole = pyo.Constraint(expr=cover.per_unit * m.time >= spent)
    m.cost = pyo.Objective(expr=m.time)
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    if one.word == "latency":
        return m.time
    holding = m.cover.holding(one)
    if not hasattr(m, "holds"):
        m.holds, m.holding = pyo.VarList(domain=pyo.Binary), pyo.ConstraintList()
        m.held = []
    holds = m.holds.add()
    m.held.append((holds, holding))
    m.holding.add(holds <= sum((m.chosen[block] for block in holding), m.nowhere))
    for block in holding:
        m.holding.add(holds >= m.chosen[block])
    return holds


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in a known one that is faster."""
    cover: Cover = m.cover
    chosen = cover.started(plan) or []
    turns, writers = cover.turns(chosen), cover.writers(chosen)
    for block in m.BLOCKS:
        m.chosen[block] = int(block in chosen)
    last = max(turns.values(), default=1)
    for op in m.OPS:
        m.turn[op] = turns.get(op, last)
    for op, block in m.ENDS:
        m.writes[op, block] = int(writers.get(op) == block)
    for holds, holding in getattr(m, "held", ()):
        holds.set_value(int(not {*holding}.isdisjoint(chosen)))
    m.nowhere = 0
    m.time = -(-sum(cover.amounts[block] for block in chosen) // cover.per_unit)


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    cover: Cover = m.cover
    return cover.plan([block for block in m.BLOCKS if m.chosen[block].value > 0.5])
