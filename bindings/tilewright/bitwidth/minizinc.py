"""Bitwidth and MiniZinc: the data of ``models/bitwidth/core.mzn``, and plans from its solutions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tilewright.bitwidth import reference
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import OPERANDS, Problem
from tilewright.bitwidth.selection import LARGEST, Selection, takes
from tilewright.core.room import MiniZincBridge
from tilewright.spec.constraints import Term

__all__ = ["bridge_of", "data", "decisions", "plan", "relax", "scale", "size", "start", "suits"]


def bridge_of(_problem: Problem, formulation: Path) -> MiniZincBridge:
    """Return what knows the data of a formulation: of the reference model, or what is built on the core."""
    built_on_it = 'include "reference.mzn"' in formulation.read_text("utf-8")
    chosen = reference if formulation.stem == "reference" or built_on_it else sys.modules[__name__]
    return cast(MiniZincBridge, chosen)


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the formulations take a problem."""
    return takes(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: one for each candidate."""
    return sum(map(len, Selection(problem).candidates))


def relax(problem: Problem) -> int:
    """Return 0: a knapsack of this size needs no neighbourhoods."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    choice = Selection(problem)
    return choice.offset, choice.unit


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    choice = Selection(problem)
    rows = [(number, one) for number, layer in enumerate(choice.candidates) for one in layer]
    last = 0
    members = []
    for layer in choice.candidates:
        members.append(set(range(last + 1, last + len(layer) + 1)))
        last += len(layer)
    return {
        "n_layers": len(choice.candidates),
        "n_candidates": len(rows),
        "members": members,
        "cost": [choice.cost(number, one) for number, one in rows],
        "usage": [choice.use(number, one) for number, one in rows],
        "most": LARGEST if choice.most is None else max(choice.most, -1),
        "worst": max(choice.worst, 0),
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    choice = Selection(problem)
    own = "noise" if choice.of_noise else "moved_bits"
    if one.word == own:
        return f"{choice.offset} + {choice.unit} * objective"
    if one.word != "bits":
        return None
    layer, operand = one.arguments
    number = [each.name for each in problem.layers].index(str(layer))
    first = sum(map(len, choice.candidates[:number])) + 1
    bits = [each[OPERANDS.index(str(operand))] for each in choice.candidates[number]]
    return f"{bits}[choice[{number + 1}] - {first - 1}]"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan, or a known one that costs less, as decisions: the candidate of each layer, from 1."""
    choice = Selection(problem)
    places = choice.places(plan) or choice.known
    if places is None:
        return None
    first, numbers = 1, []
    for layer, place in zip(choice.candidates, places, strict=True):
        numbers.append(first + place)
        first += len(layer)
    return numbers


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the candidate of each layer in a solution, in the order of `start`."""
    return list(solution.choice)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    choice = Selection(problem)
    first, places = 1, []
    for layer, number in zip(choice.candidates, solution.choice, strict=True):
        places.append(number - first)
        first += len(layer)
    return choice.plan(places)
