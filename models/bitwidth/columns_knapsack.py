"""An integer program: one pair of widths for each layer, a multiple-choice knapsack.

The pairs are priced beforehand. No plan is lost, as every pair that the accumulator allows is one, but for
those that another beats in noise and in bits; where constraints relate layers, these are there, too.

Extras: of the candidates that take more than half of what the limit leaves beyond the least of all layers, at
most one is chosen.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.problem import OPERANDS
from tilewright.bitwidth.selection import CERTAIN, Selection, takes
from tilewright.spec.constraints import Term

WORDS = ("bits",)


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return takes(problem, CERTAIN)


def size(problem: Problem) -> int:
    """Return how many constraints there are: one for each layer, and the limits."""
    return len(problem.layers) + 2


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    choice = Selection(problem)
    m = pyo.ConcreteModel(name="knapsack")
    m.choice, m.offset, m.unit = choice, choice.offset, choice.unit
    m.largest = max(choice.worst, 1)
    m.LAYERS = pyo.RangeSet(0, len(choice.candidates) - 1)
    pairs = [(number, place) for number, layer in enumerate(choice.candidates) for place in range(len(layer))]
    m.CANDIDATES = pyo.Set(initialize=pairs, dimen=2)
    m.chosen = pyo.Var(m.CANDIDATES, domain=pyo.Binary)
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built

    @m.Constraint(m.LAYERS)
    def each_layer_has_one(m: Any, number: int) -> Any:
        own = range(len(choice.candidates[number]))
        return m.nowhere + sum(m.chosen[number, place] for place in own) == 1

    def total(of: Any) -> Any:
        return sum(
            of(number, choice.candidates[number][place]) * m.chosen[number, place] for number, place in pairs
        )

    if choice.most is not None:
        m.keeps_the_limit = pyo.Constraint(expr=m.nowhere + total(choice.use) <= choice.most)
    cost = total(choice.cost) + m.nowhere
    m.no_worse_than_known = pyo.Constraint(expr=cost <= choice.worst)
    m.cost = pyo.Objective(expr=cost)
    most = choice.most
    if extras and most is not None:
        large = [
            (number, place)
            for number, place in pairs
            if 2 * choice.use(number, choice.candidates[number][place]) > most
        ]
        m.one_large_at_most = pyo.Constraint(expr=m.nowhere + sum(m.chosen[pair] for pair in large) <= 1)
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    layer, operand = one.arguments
    number = [each.name for each in m.choice.problem.layers].index(layer)
    own = enumerate(m.choice.candidates[number])
    return sum(each[OPERANDS.index(operand)] * m.chosen[number, place] for place, each in own)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in a known one where that costs less."""
    choice: Selection = m.choice
    places = choice.places(plan) or choice.known
    for number, place in m.CANDIDATES:
        m.chosen[number, place] = int(places is not None and places[number] == place)
    m.nowhere = 0


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    chosen = dict(pair for pair in m.CANDIDATES if m.chosen[pair].value > 0.5)
    choice: Selection = m.choice
    return choice.plan([chosen[number] for number in m.LAYERS])
