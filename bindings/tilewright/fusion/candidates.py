"""Which groups of operations templates allow, and what each costs (DNNVM paper, sections 4.3 and 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import reduce
from itertools import count
from operator import or_
from typing import NamedTuple

import networkx as nx
from networkx.algorithms.isomorphism import DiGraphMatcher

from tilewright.fusion.plan import Tile
from tilewright.fusion.problem import HOST, Problem
from tilewright.fusion.templates import SOURCE, Template, bundled
from tilewright.fusion.tiles import best
from tilewright.spec.errors import InputError
from tilewright.spec.network import OPERANDS

MAX_ATTEMPTS = 100_000
"""Most pairs of an operation and a node that are tried for each template."""

END = "end"
"""What follows all outputs of the network."""

Nodes = tuple[int, ...]


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
    found = []
    for op in problem.ops:
        choice = None if op.engine == HOST else best(problem, (op.number,))
        cost, tile = (0, None) if choice is None else (choice.cost, choice.tile)
        found.append(Candidate((op.number,), cost, "", tile))
    return found


def candidates(problem: Problem, most: int | None = None) -> tuple[Candidate, ...]:
    """Return all groups that fit on chip with what they cost, and each operation alone.

    Parameters
    ----------
    most
        Bytes of all buffers that a group may take; even an operation alone may then not fit.
    """
    found = []
    for nodes, templates in sorted(matches(problem).items()):
        if problem.ops[nodes[0]].engine == HOST:
            found.append(Candidate(nodes, 0, "", None))
            continue
        alone = len(nodes) == 1
        tiled = [template for template in templates if not template.untiled]
        # The best tile of all may be the whole plane.
        choice = best(problem, nodes, not (tiled or alone), most)
        if choice is not None:
            name = "" if alone else (tiled or templates)[0].name
            found.append(Candidate(nodes, choice.cost, name, choice.tile))
    return tuple(found)


def unmatched(problem: Problem) -> tuple[str, ...]:
    """Return the names of the templates that match nothing in the network."""
    found = {template.name for templates in matches(problem).values() for template in templates}
    return tuple(template.name for template in problem.templates if template.name not in found)


def check_matches(problem: Problem) -> None:
    """Refuse a template of the user's own that matches nothing in the network.

    Raises
    ------
    InputError
        Names the template, and the kinds of operations that there are.
    """
    own = {template.name for template in problem.templates if template not in bundled()}
    if own and (missing := [name for name in unmatched(problem) if name in own]):
        kinds = ", ".join(dict.fromkeys(op.spec.kind for op in problem.ops if op.engine != HOST))
        limit = f"matches nothing in the network; kinds of the operations that can be fused: {kinds}"
        raise InputError("templates", missing[0], limit)


def matches(problem: Problem) -> dict[Nodes, list[Template]]:
    """Return all groups with the templates that allow them; operations alone may have none.

    Members are none of the host's, and no way leads from a member through others back to a member. A bundled
    template that would match too often is left out.
    """
    found: dict[Nodes, list[Template]] = {(op.number,): [] for op in problem.ops}
    descendants = _descendants(problem)
    for template in problem.templates:
        if template.block:
            groups = _regions(problem, template.most)
        else:
            groups = _isomorphisms(problem, template, descendants)
        try:
            found_here = list(dict.fromkeys(groups))
        except InputError:
            if template not in bundled():
                raise
            continue  # a network too wide for it has enough to choose from without
        for nodes in found_here:
            found.setdefault(nodes, []).append(template)
    return found


def _descendants(problem: Problem) -> list[int]:
    """For each operation, a bit mask of all that depend on it."""
    found = [0] * len(problem.ops)
    for number in reversed(range(len(found))):
        for consumer in problem.consumers[number]:
            found[number] |= found[consumer] | 1 << consumer
    return found


# Patterns ------------------------------------------------------------------------------------------


def _isomorphisms(problem: Problem, template: Template, descendants: list[int]) -> Iterator[Nodes]:
    """Find convex induced subgraphs isomorphic to a template's graph, some repeatedly (algorithm 1)."""
    fits = [_fitting(problem, kinds) for kinds in template.nodes]
    if not all(fits):
        return
    pattern = nx.DiGraph()
    # The search starts with the first node: the one that the fewest operations fit (DefineStartPoint).
    pattern.add_nodes_from(sorted(template.graph, key=lambda place: len(fits[place])))
    pattern.add_edges_from(template.edges)
    matcher = DiGraphMatcher(problem.graph.subgraph(set().union(*fits)).copy(), pattern)
    members = {place for place, kinds in enumerate(template.nodes) if kinds != SOURCE}
    twins = [_twins(template, place) for place in template.graph]
    edges_agree: Callable[[int, int], bool] = matcher.syntactic_feasibility
    attempts = count()

    def fits_in(number: int) -> bool:
        """Whether the least convex set with one more member has no more of them than the template."""
        numbers = [number, *(other for at, other in matcher.core_2.items() if at in members)]
        inside = reduce(or_, (1 << each for each in numbers))
        before = reduce(or_, (problem.ancestors[each] for each in numbers))
        after = reduce(or_, (descendants[each] for each in numbers))
        convex: int = inside | before & after
        return convex.bit_count() <= len(members)

    def agrees(number: int, place: int) -> bool:
        if next(attempts) == MAX_ATTEMPTS:
            limit = f"takes more than {MAX_ATTEMPTS} attempts to match; give templates without it"
            raise InputError("templates", template.name, limit)
        known = matcher.core_2
        return (
            number in fits[place]
            and all((known[twin] < number) == (twin < place) for twin in twins[place] if twin in known)
            and (place not in members or fits_in(number))
            and edges_agree(number, place)
        )

    matcher.syntactic_feasibility = agrees  # before edges, which take longer
    for match in matcher.subgraph_isomorphisms_iter():
        yield tuple(sorted(number for number, place in match.items() if place in members))


def _twins(template: Template, place: int) -> list[int]:
    """Return the nodes of a template that could be exchanged for one without any difference."""

    def described(place: int) -> tuple[str, set[int], set[int]]:
        return template.nodes[place], set(template.graph.pred[place]), set(template.graph.succ[place])

    return [other for other in template.graph if other != place and described(other) == described(place)]


def _fitting(problem: Problem, kinds: str) -> set[int]:
    """Return the operations that a node of a template can stand for."""
    if kinds == SOURCE:
        return set(problem.graph)
    known = kinds.split("|")
    return {
        op.number for op in problem.ops if op.engine != HOST and ("any" in known or op.spec.kind in known)
    }


# Blocks --------------------------------------------------------------------------------------------


def _regions(problem: Problem, most: int) -> Iterator[Nodes]:
    """Find runs of at most so many operations that are entered behind one node and left from one.

    What is read as one map, concatenated, is a node as well, through which ways can pass.
    """
    graph = _joined(problem)
    next_on_all_ways = nx.immediate_dominators(graph.reverse(), END)
    regions = {
        node: _region(problem, graph, node, last, most)
        for node, last in next_on_all_ways.items()
        if node != END
    }
    for node in regions:
        run: set[int] = set()
        while (region := regions.get(node)) and len(run) + len(region) <= most:
            run |= region
            yield tuple(sorted(run))
            node = next_on_all_ways[node]


def _joined(problem: Problem) -> nx.DiGraph:
    """Return the graph with a node for each set of maps that is read as one, and one behind all outputs."""
    graph = nx.DiGraph()
    for op in problem.ops:
        producers = frozenset(op.producers)
        if len(producers) > 1 and op.spec.kind not in OPERANDS:
            graph.add_edges_from((producer, producers) for producer in producers)
            graph.add_edge(producers, op.number)
        else:
            graph.add_edges_from((producer, op.number) for producer in producers)
        if not problem.consumers[op.number]:
            graph.add_edge(op.number, END)
    return graph


def _region(problem: Problem, graph: nx.DiGraph, first: Hashable, last: Hashable, most: int) -> set[int]:
    """Return the operations after a node up to the next that all ways pass, none if it is no such region."""
    nodes: set[Hashable] = set()
    operations: set[int] = set()
    ahead = [*graph.successors(first)]
    while ahead:
        node = ahead.pop()
        if node in nodes:
            continue
        nodes.add(node)
        if isinstance(node, int):
            operations.add(node)
        if node == END or len(operations) > most:
            return set()
        if node != last:
            ahead += graph.successors(node)
    entered = any(
        before not in nodes and before != first for node in nodes for before in graph.predecessors(node)
    )
    alone = all(problem.ops[number].engine != HOST for number in operations)
    return set() if entered or not alone else operations
