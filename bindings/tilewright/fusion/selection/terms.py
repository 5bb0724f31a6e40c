"""What terms of the vocabulary are in a choice of groups."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.fusion.group.told_apart import of_members, value_in
from tilewright.fusion.host import host_cycles
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import Candidate
from tilewright.spec.constraints import Term


def value_of(problem: Problem, candidate: Candidate, term: Term) -> int:
    """Return the value of a term that a group decides, of one of a whole plan what the group adds.

    Truths are 0 or 1, names their numbers in their sets, from 1.
    """
    order = [problem.ops[number].name for number in candidate.order]
    if candidate.choice is not None:
        return value_in(term, order, candidate.choice)
    cycles = host_cycles(problem, problem.ops[candidate.nodes[0]])
    match term.word:
        case "cycles":
            return cycles
        case "energy":
            return int(problem.machine.nanojoules(0, 0, cycles))
        case "groups" | "traffic" | "memory":
            return 0
    return of_members(term, order) or 0


def summed(problem: Problem, candidates: Sequence[Candidate], term: Term) -> dict[int, int]:
    """Return a term as a sum over the groups that are chosen: what each adds, by its number, if anything.

    The term is any but ``before`` of operations in different groups, and the ``memory`` of a plan, which is
    the most that a group adds.
    """
    number = {op.name: op.number for op in problem.ops}
    several = term.word in ("together", "before")
    members = {number[str(argument)] for argument in (term.arguments if several else term.arguments[:1])}
    if term.word == "before" and len(members) == 1:
        return {}
    each = {
        index: value_of(problem, one, term)
        for index, one in enumerate(candidates)
        if members.issubset(one.nodes)
    }
    return {index: value for index, value in each.items() if value}
