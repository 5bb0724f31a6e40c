"""Groups that are chosen become a plan: an order in which they can be executed, if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import networkx as nx

from tilewright.fusion.layouts import Decided
from tilewright.fusion.matching import Nodes
from tilewright.fusion.plan import Group, Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import Candidate


def order_groups(
    problem: Problem, chosen: Iterable[Candidate], position: Mapping[Nodes, int] | None = None
) -> Plan:
    """Return the plan of groups that hold every operation once, in an order of execution.

    Of the groups that can be next, the one with the lowest position is, of these the one with the smallest
    first operation.

    Parameters
    ----------
    position
        Of groups in the order, by their nodes; of groups that it lacks it is 0.

    Raises
    ------
    ValueError
        If groups wait for each other; it names those of a cycle.
    """
    chosen = list(chosen)
    groups = [
        Group(tuple(problem.ops[number].name for number in candidate.order), candidate.tile)
        for candidate in chosen
    ]
    nodes = [candidate.nodes for candidate in chosen]
    graph = quotient([op.producers for op in problem.ops], nodes)
    try:
        key = [((position or {}).get(each, 0), each) for each in nodes]
        order = list(nx.lexicographical_topological_sort(graph, key=key.__getitem__))
    except nx.NetworkXUnfeasible:
        cycle = [" + ".join(groups[index].nodes) for index, _ in nx.find_cycle(graph)]
        raise ValueError(f"groups wait for each other: {'; '.join(cycle)}") from None
    layouts = dict(one for candidate in chosen for one in candidate.layouts)
    decided = layouts_by_map(problem, nodes, layouts) if layouts else ()
    return Plan(tuple(groups[index] for index in order), decided)


def layouts_by_map(
    problem: Problem, groups: Iterable[Nodes], layouts: Decided
) -> tuple[tuple[str, str], ...]:
    """Return the layout of each map in DRAM that groups load and save, by its name; none without a choice."""
    if problem.machine.layouts is None:
        return ()
    maps = {number for nodes in groups for number in problem.maps_outside(nodes)}
    named = {
        problem.graph.name(number): layouts.get(index, problem.tensors[index].layouts[0])
        for number in sorted(maps)
        for index in [problem.tensor_of[number]]
    }
    return tuple(named.items())


def quotient(producers: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> nx.DiGraph:
    """Return the graph of groups, by index, with an edge to each that reads what another computes.

    Parameters
    ----------
    producers
        For each operation, by number, what it reads; -1 is the network's input.
    groups
        Which hold every operation once.
    """
    group_of = {number: index for index, nodes in enumerate(groups) for number in nodes}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(groups)))
    graph.add_edges_from(
        (group_of[read], index)
        for number, index in group_of.items()
        for read in producers[number]
        if read >= 0 and group_of[read] != index
    )
    return graph
