"""Fusion and MiniZinc: the data of ``models/fusion/core.mzn``, and plans from its solutions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilewright.fusion import reference
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.exact_cover import LARGEST, Cover, adds_up, find_cover, no_layouts, started
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.fusion.selection.terms import summed
from tilewright.spec.constraints import Term

if TYPE_CHECKING:
    from tilewright.core.room import MiniZincBridge

__all__ = ["bridge_of", "data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "why_not"]


def bridge_of(_problem: Problem, formulation: Path) -> MiniZincBridge:
    """Return what a formulation has to do with problems: the reference model takes data of its own."""
    found: Any = reference if formulation.stem == "reference" else sys.modules[__name__]
    return cast("MiniZincBridge", found)


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the formulations take a problem: whether costs add up, in numbers that fit."""
    return why_not(problem) is None and adds_up(problem) and find_cover(problem).worst <= LARGEST


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why costs of groups do not tell those of plans, or None where they may."""
    return no_layouts(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: one for each member of a candidate."""
    return sum(len(candidate.nodes) for candidate in find_cover(problem).candidates)


def relax(problem: Problem) -> int:
    """Return 0: where prices lead to is better than what neighbourhoods hold."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    return find_cover(problem).base, 1


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    reads = [(producer, op.number) for op in problem.ops for producer in op.producers if producer >= 0]
    return parameters(find_cover(problem), reads)


def parameters(choice: Cover, reads: list[tuple[int, int]]) -> dict[str, Any]:
    """Return those of a choice of groups whose operations read what others produce."""
    producers, consumers = _columns(reads)
    place = {number: place for place, number in enumerate(choice.placed)}
    before, after = _columns([(place[i], place[j]) for i, j in choice.links])
    left, right = _columns([(place[i], place[j]) for i, j in choice.ties])
    one, other = _columns(choice.clashes)
    return {
        "n_ops": len(choice.prices),
        "n_candidates": len(choice.candidates),
        "members": [{member + 1 for member in candidate.nodes} for candidate in choice.candidates],
        "cost": [candidate.cost for candidate in choice.candidates],
        "price": choice.prices,
        "worst": choice.worst,
        "n_reads": len(producers),
        "producer": producers,
        "consumer": consumers,
        "n_places": len(choice.placed),
        "op": [number + 1 for number in choice.placed],
        "n_links": len(before),
        "before": before,
        "after": after,
        "n_ties": len(left),
        "left": left,
        "right": right,
        "n_clashes": len(one),
        "one": one,
        "other": other,
        "DOMINATED": {place + 1 for place in choice.split},
    }


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the first and the second numbers of pairs, counted from 1."""
    return [first + 1 for first, _ in pairs], [second + 1 for _, second in pairs]


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc; None of what has numbers that Gecode cannot handle."""
    choice = find_cover(problem)
    each = summed(problem, choice.candidates, one)
    if sum(each.values()) > LARGEST:
        return None
    values = [each.get(place, 0) for place in range(len(choice.candidates))]
    if one.word == "memory":
        return f"max(c in CANDIDATE)({values}[c] * chosen[c])"
    if not one.arguments:
        return f"sum(c in CANDIDATE)({values}[c] * chosen[c])"
    number = {op.name: op.number for op in problem.ops}
    if one.word not in ("together", "before"):
        return f"{values}[group[{number[str(one.arguments[0])] + 1}]]"
    i, j = (number[str(argument)] for argument in one.arguments)
    if one.word == "together":
        return f"group[{i + 1}] = group[{j + 1}]"
    if i == j:
        return "false"
    # As `plan` orders groups in one position: by their first operations.
    first = [candidate.nodes[0] for candidate in choice.candidates]
    left, right = (f"group[{each + 1}]" for each in (i, j))
    here, there = (f"position[{choice.placed.index(each) + 1}]" for each in (i, j))
    tie = f"{here} = {there} /\\ {first}[{left}] < {first}[{right}]"
    return f"if {left} = {right} then {values}[{left}] = 1 else {here} < {there} \\/ ({tie}) endif"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions: the candidate of each operation, from 1."""
    chosen = started(problem, plan)
    return None if chosen is None else [place + 1 for place in find_cover(problem).group_of(chosen)]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the candidate of each operation in a solution, in the order of `start`."""
    return list(solution.group)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    choice = find_cover(problem)
    chosen = [choice.candidates[number - 1] for number in sorted(set(solution.group))]
    position = {}
    if choice.ordered:
        position = {one.nodes: solution.position[choice.placed.index(one.nodes[0])] for one in chosen}
    return order_groups(problem, chosen, position)
