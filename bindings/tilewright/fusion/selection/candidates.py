"""Which groups of operations templates allow, and what each costs (DNNVM paper, sections 4.3 and 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import TileChoice
from tilewright.fusion.group.told_apart import keeps_alone, tile_options, told_of
from tilewright.fusion.host import host_cost
from tilewright.fusion.machine import HOST
from tilewright.fusion.matching import Nodes, matches
from tilewright.fusion.plan import Tile
from tilewright.fusion.problem import Problem
from tilewright.fusion.templates import Template


class Candidate(NamedTuple):
    """Operations that may be executed as one group.

    Attributes
    ----------
    nodes
        Numbers of the operations, ascending.
    cost
        Of the best tile, in the problem's unit.
    template
        The name of the template that allows it, empty for a single operation.
    tile
        None where the host computes.
    fits
        False for an operation that by itself has no tile that fits: only a group may execute it.
    places
        The order of execution, by places in `nodes`; empty for that of the network.
    choice
        All that it costs, None where the host computes.
    layouts
        Of the DRAM tensors that it loads and saves, by their numbers; empty where each has one only.
    """

    nodes: Nodes
    cost: int
    template: str
    tile: Tile | None
    fits: bool = True
    places: tuple[int, ...] = ()
    choice: TileChoice | None = None
    layouts: tuple[tuple[int, str], ...] = ()

    @property
    def order(self) -> Nodes:
        """The operations as they are executed."""
        return tuple(self.nodes[place] for place in self.places) or self.nodes


def single_operations(problem: Problem) -> list[Candidate]:
    """Return each operation alone; one that does not fit costs nothing."""
    candidates = []
    for op in problem.ops:
        found = _candidates(problem, (op.number,), layouts=layouts_of(problem, (op.number,))[0])
        candidates.append(found[0] if found else Candidate((op.number,), 0, "", None, False))
    return candidates


def candidates(problem: Problem, *, every_layout: bool = False) -> tuple[Candidate, ...]:
    """Return all groups that fit on chip with what they cost, and each operation alone.

    Groups have the best tile with which they keep what constraints say of one group alone. An operation that
    does not fit alone costs more than any plan of groups that do: a choice is a plan if it costs less than
    that, and there is none if the cheapest choice does not.

    Parameters
    ----------
    every_layout
        Whether they have all layouts of what they load and save, instead of the paper's.
    """
    fitting = fitting_groups(problem, every_layout=every_layout)
    return tuple(
        complete_candidates(len(problem.ops), fitting, dearer_than_any(fitting) + most_copied(problem))
    )


def most_copied(problem: Problem) -> int:
    """Return at least what all copies of a plan into other layouts cost."""
    each = (
        sum(map(problem.copy_cost, problem.copied({index: layout}).values()))
        for index, tensor in enumerate(problem.tensors)
        for layout in tensor.layouts
    )
    return sum(each)


def told_apart(problem: Problem) -> tuple[Candidate, ...]:
    """Return the same, with all tiles of each group that constraints tell apart."""
    fitting = fitting_groups(problem, None, apart=True)
    return tuple(complete_candidates(len(problem.ops), fitting, dearer_than_any(fitting)))


def fast_and_small(problem: Problem) -> tuple[Candidate, ...]:
    """Return the same, with each tile of a group than which none is faster and takes as little memory."""
    found: list[Candidate] = []
    for nodes, allowing in sorted(matches(problem.graph, problem.templates).items()):
        most = None
        while one := next(iter(_candidates(problem, nodes, allowing, most)), None):
            found.append(one)
            if one.choice is None:
                break
            most = one.choice.peak - 1
    return tuple(complete_candidates(len(problem.ops), found, dearer_than_any(found)))


def fitting_groups(
    problem: Problem, max_bytes: int | None = None, *, apart: bool = False, every_layout: bool = False
) -> list[Candidate]:
    """Return all groups that fit on chip.

    Parameters
    ----------
    max_bytes
        Bytes of all buffers that they may take.
    apart
        Whether they have all tiles that constraints tell apart, instead of the best one.
    every_layout
        Whether they have all layouts of what they load and save, instead of the paper's.
    """
    templates = sorted(matches(problem.graph, problem.templates).items())
    return [
        one
        for nodes, allowing in templates
        for layouts in layouts_of(problem, nodes, every_layout)
        for one in _candidates(problem, nodes, allowing, max_bytes, apart, layouts)
    ]


def layouts_of(problem: Problem, nodes: Nodes, every: bool = False) -> list[tuple[tuple[int, str], ...]]:
    """Return the layouts that what a group loads and saves can have together, the paper's first.

    Nothing is said of what the host computes, which takes any, nor where layouts cost nothing.
    """
    if problem.machine.layouts is None or engine_of(problem.ops[nodes[0]]) == HOST:
        return [()]
    outside = problem.outside(nodes)
    able = (problem.tensors[index].layouts[: None if every else 1] for index in outside)
    return [tuple(zip(outside, one, strict=True)) for one in product(*able)]


def _candidates(
    problem: Problem,
    nodes: Nodes,
    templates: Sequence[Template] = (),
    max_bytes: int | None = None,
    apart: bool = False,
    layouts: tuple[tuple[int, str], ...] = (),
) -> list[Candidate]:
    """Return what a group can be, the cheapest first: of one of the host itself alone."""
    told = told_of(problem, {problem.ops[node].name for node in nodes}, apart)
    if engine_of(problem.ops[nodes[0]]) == HOST:
        kept = keeps_alone(told, problem.ops[nodes[0]].name)
        return [Candidate(nodes, host_cost(problem, problem.ops[nodes[0]]), "", None)] if kept else []
    alone = len(nodes) == 1
    tiled = [template for template in templates if not template.untiled]
    name = "" if alone else (tiled or templates)[0].name
    # The best tile of all may be the whole plane.
    return [
        Candidate(nodes, choice.cost, name, choice.tile, True, choice.places, choice, layouts)
        for choice in tile_options(problem, nodes, not (tiled or alone), told, max_bytes, dict(layouts))
    ]


def dearer_than_any(fitting: Sequence[Candidate]) -> int:
    """Return more than a plan of these groups costs: at each operation one of them begins at most."""
    most: dict[int, int] = {}
    for candidate in fitting:
        most[candidate.nodes[0]] = max(candidate.cost, most.get(candidate.nodes[0], 0))
    return 1 + sum(most.values())


def complete_candidates(operations: int, fitting: Sequence[Candidate], never: int) -> list[Candidate]:
    """Return groups, and operations that do not fit alone at a price that no plan reaches; by their nodes."""
    there = {candidate.nodes for candidate in fitting}
    missing = [(number,) for number in range(operations) if (number,) not in there]
    return sorted([*fitting, *(Candidate(nodes, never, "", None, False) for nodes in missing)], key=_nodes)


def _nodes(candidate: Candidate) -> Nodes:
    return candidate.nodes
