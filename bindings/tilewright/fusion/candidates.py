"""Which groups of operations templates allow, and what each costs (DNNVM paper, sections 4.3 and 4.4)."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.fusion.machine import HOST
from tilewright.fusion.matching import Nodes, matches
from tilewright.fusion.plan import Tile
from tilewright.fusion.problem import Problem
from tilewright.fusion.tiles import best


class Candidate(NamedTuple):
    """Operations that may be executed as one group.

    Attributes
    ----------
    nodes
        Numbers of the operations, ascending, which is an order of execution.
    cost
        Of the best tile, in the problem's unit.
    template
        The name of the template that allows it, empty for a single operation.
    tile
        None where the host computes.
    """

    nodes: Nodes
    cost: int
    template: str
    tile: Tile | None


def alone(problem: Problem) -> list[Candidate]:
    """Return each operation alone."""
    candidates = []
    for op in problem.ops:
        choice = None if op.engine == HOST else best(problem, (op.number,))
        cost, tile = (0, None) if choice is None else (choice.cost, choice.tile)
        candidates.append(Candidate((op.number,), cost, "", tile))
    return candidates


def candidates(problem: Problem, max_bytes: int | None = None) -> tuple[Candidate, ...]:
    """Return all groups that fit on chip with what they cost, and each operation alone.

    Parameters
    ----------
    max_bytes
        Bytes of all buffers that a group may take; even an operation alone may then not fit.
    """
    candidates = []
    for nodes, templates in sorted(matches(problem.graph, problem.templates).items()):
        if problem.ops[nodes[0]].engine == HOST:
            candidates.append(Candidate(nodes, 0, "", None))
            continue
        alone = len(nodes) == 1
        tiled = [template for template in templates if not template.untiled]
        # The best tile of all may be the whole plane.
        choice = best(problem, nodes, not (tiled or alone), max_bytes)
        if choice is not None:
            name = "" if alone else (tiled or templates)[0].name
            candidates.append(Candidate(nodes, choice.cost, name, choice.tile))
    return tuple(candidates)
