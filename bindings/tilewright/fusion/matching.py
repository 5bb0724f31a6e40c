"""Which groups of operations templates allow (DNNVM paper, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from itertools import count
from operator import or_

import networkx as nx
from networkx.algorithms.isomorphism import DiGraphMatcher

from tilewright.fusion.graph import engine_of
from tilewright.fusion.machine import HOST
from tilewright.fusion.templates import SOURCE, Template, bundled
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.network import OPERANDS

MAX_ATTEMPTS = 100_000
"""Most pairs of an operation and a node that are tried for each template."""

END = "end"
"""What follows all outputs of the network."""

Nodes = tuple[int, ...]
"""Numbers of operations, ascending."""


def unmatched(graph: NetworkGraph, templates: Sequence[Template]) -> tuple[str, ...]:
    """Return the names of the templates that match nothing in the network."""
    matched = {template.name for allowing in matches(graph, templates).values() for template in allowing}
    return tuple(template.name for template in templates if template.name not in matched)


def check_matches(graph: NetworkGraph, templates: Sequence[Template]) -> None:
    """Refuse a template of the user's own that matches nothing in the network.

    Raises
    ------
    InputError
        Names the template, and the kinds of operations that there are.
    """
    own = {template.name for template in templates if template not in bundled()}
    if own and (missing := [name for name in unmatched(graph, templates) if name in own]):
        kinds = ", ".join(dict.fromkeys(op.spec.kind for op in graph.ops if engine_of(op) != HOST))
        limit = f"matches nothing in the network; kinds of the operations that can be fused: {kinds}"
        raise InputError("templates", missing[0], limit)


def matches(graph: NetworkGraph, templates: Sequence[Template]) -> dict[Nodes, list[Template]]:
    """Return all groups with the templates that allow them; operations alone may have none.

    Members are none of the host's, and no way leads from a member through others back to a member. A bundled
    template that would match too often is left out.
    """
    allowing: dict[Nodes, list[Template]] = {(op.number,): [] for op in graph.ops}
    for template in templates:
        groups = _regions(graph, template.most) if template.block else _isomorphisms(graph, template)
        try:
            matched = list(dict.fromkeys(groups))
        except InputError:
            if template not in bundled():
                raise
            continue  # a network too wide for it has enough to choose from without
        for nodes in matched:
            if not _reads_a_part(graph, nodes):
                allowing.setdefault(nodes, []).append(template)
    return allowing


def _reads_a_part(graph: NetworkGraph, nodes: Nodes) -> bool:
    """Whether some of a group read a part of what others of it compute, which would have to stay whole."""
    members = {*nodes}
    accesses = (access for node in nodes for access in graph.ops[node].accesses)
    return any(access.channels is not None and access.source in members for access in accesses)


# Patterns ------------------------------------------------------------------------------------------


def _isomorphisms(graph: NetworkGraph, template: Template) -> Iterator[Nodes]:
    """Find convex induced subgraphs isomorphic to a template's graph, some repeatedly (algorithm 1)."""
    fits = [_fitting(graph, kinds) for kinds in template.nodes]
    if not all(fits):
        return
    pattern = nx.DiGraph()
    # The search starts with the first node: the one that the fewest operations fit (DefineStartPoint).
    pattern.add_nodes_from(sorted(template.graph, key=lambda node: len(fits[node])))
    pattern.add_edges_from(template.edges)
    matcher = DiGraphMatcher(graph.reads.subgraph(set().union(*fits)).copy(), pattern)
    members = {node for node, kinds in enumerate(template.nodes) if kinds != SOURCE}
    twins = [_twins(template, node) for node in template.graph]
    edges_agree: Callable[[int, int], bool] = matcher.syntactic_feasibility
    attempts = count()

    def fits_in(number: int) -> bool:
        """Whether the least convex set with one more member has no more of them than the template."""
        numbers = [number, *(other for at, other in matcher.core_2.items() if at in members)]
        inside = reduce(or_, (1 << each for each in numbers))
        before = reduce(or_, (graph.ancestors[each] for each in numbers))
        after = reduce(or_, (graph.descendants[each] for each in numbers))
        convex: int = inside | before & after
        return convex.bit_count() <= len(members)

    def agrees(number: int, node: int) -> bool:
        if next(attempts) == MAX_ATTEMPTS:
            limit = f"takes more than {MAX_ATTEMPTS} attempts to match; give templates without it"
            raise InputError("templates", template.name, limit)
        matched = matcher.core_2
        return (
            number in fits[node]
            and all((matched[twin] < number) == (twin < node) for twin in twins[node] if twin in matched)
            and (node not in members or fits_in(number))
            and edges_agree(number, node)
        )

    matcher.syntactic_feasibility = agrees  # before edges, which take longer
    for match in matcher.subgraph_isomorphisms_iter():
        yield tuple(sorted(number for number, node in match.items() if node in members))


def _twins(template: Template, node: int) -> list[int]:
    """Return the nodes of a template that could be exchanged for one without any difference."""

    def described(node: int) -> tuple[str, set[int], set[int]]:
        return template.nodes[node], set(template.graph.pred[node]), set(template.graph.succ[node])

    return [other for other in template.graph if other != node and described(other) == described(node)]


def _fitting(graph: NetworkGraph, kinds: str) -> set[int]:
    """Return the operations that a node of a template can stand for."""
    if kinds == SOURCE:
        return set(graph.reads)
    allowed = kinds.split("|")
    return {
        op.number
        for op in graph.ops
        if engine_of(op) != HOST and ("any" in allowed or op.spec.kind in allowed)
    }


# Blocks --------------------------------------------------------------------------------------------


def _regions(graph: NetworkGraph, max_ops: int) -> Iterator[Nodes]:
    """Find runs of at most `max_ops` operations that are entered behind one node and left from one.

    What is read as one map, concatenated, is a node as well, through which ways can pass.
    """
    joined = _joined(graph)
    next_on_all_ways = nx.immediate_dominators(joined.reverse(), END)
    regions = {
        node: _region(graph, joined, node, last, max_ops)
        for node, last in next_on_all_ways.items()
        if node != END
    }
    for node in regions:
        run: set[int] = set()
        while (region := regions.get(node)) and len(run) + len(region) <= max_ops:
            run |= region
            yield tuple(sorted(run))
            node = next_on_all_ways[node]


def _joined(graph: NetworkGraph) -> nx.DiGraph:
    """Return the graph with a node for each set of maps that is read as one, and one behind all outputs."""
    joined = nx.DiGraph()
    for op in graph.ops:
        producers = frozenset(op.producers)
        if len(producers) > 1 and op.spec.kind not in OPERANDS:
            joined.add_edges_from((producer, producers) for producer in producers)
            joined.add_edge(producers, op.number)
        else:
            joined.add_edges_from((producer, op.number) for producer in producers)
        if not graph.consumers[op.number]:
            joined.add_edge(op.number, END)
    return joined


def _region(
    graph: NetworkGraph, joined: nx.DiGraph, first: Hashable, last: Hashable, max_ops: int
) -> set[int]:
    """Return the operations after a node up to the next that all ways pass, none if it is no such region."""
    nodes: set[Hashable] = set()
    operations: set[int] = set()
    ahead = [*joined.successors(first)]
    while ahead:
        node = ahead.pop()
        if node in nodes:
            continue
        nodes.add(node)
        if isinstance(node, int):
            operations.add(node)
        if node == END or len(operations) > max_ops:
            return set()
        if node != last:
            ahead += joined.successors(node)
    entered = any(
        before not in nodes and before != first for node in nodes for before in joined.predecessors(node)
    )
    alone = all(engine_of(graph.ops[number]) != HOST for number in operations)
    return set() if entered or not alone else operations
