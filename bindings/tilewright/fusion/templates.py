"""Templates of what may be fused (DNNVM paper, section 4.1.3 and figure 4), declared as data."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Annotated

import networkx as nx
from pydantic import BeforeValidator, Field

from tilewright.core import catalogue
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Small
from tilewright.spec.network import Name
from tilewright.spec.validation import validated

KINDS = ("conv", "pool", "add", "mul", "map", "concat", "any")
"""Kinds of operations that a template's node can stand for, those that the accelerator computes."""

SOURCE = "source"
"""The kind of a node that the others read and that is not part of the group."""

Kinds = Annotated[str, Field(max_length=100)]
Edge = Annotated[
    tuple[int, int], BeforeValidator(lambda edge: tuple(edge) if isinstance(edge, list) else edge)
]


class Template(Spec):
    """A pattern of operations that may be executed as one group.

    Attributes
    ----------
    nodes
        Kinds of operations, alternatives joined by ``|``; ``any`` is all of them, and ``source`` is an
        operation or the network's input that the others read and that is not part of the group.
    edges : (producer, consumer)
        Places in `nodes`. There are no other edges between the operations.
    whole : bool
        Nothing is tiled, all maps are on chip at once (section 4.3, second condition); parameters can pass.
    block : bool
        Instead of nodes and edges: all operations after one and up to another, if all ways that lead to the
        second pass through the first, and all that lead on from the first through the second; never tiled.
        So are chains of any kinds, whole residual blocks, and several of them in a row.
    most : int
        Operations of a block.
    """

    name: Name
    nodes: Annotated[tuple[Kinds, ...], Field(max_length=8)] = ()
    edges: Annotated[tuple[Edge, ...], Field(max_length=28)] = ()
    whole: bool = False
    block: bool = False
    most: Small = 12

    def model_post_init(self, _context: object) -> None:
        """Refuse patterns that no group of operations can have."""
        if self.block:
            if self.nodes or self.edges:
                raise self._refusal("block", True, "has no nodes and no edges")
            return
        if self.most != type(self).model_fields["most"].default:
            raise self._refusal("most", self.most, "is for blocks only")
        for kinds in self.nodes:
            if kinds != SOURCE and not set(kinds.split("|")) <= set(KINDS):
                known = f"{', '.join(KINDS)}, of which several can be joined by |, or {SOURCE} alone"
                raise self._refusal("nodes", kinds, f"must be one of: {known}")
        if set(self.nodes) <= {SOURCE}:
            raise self._refusal(
                "nodes", list(self.nodes), f"needs a node that is no {SOURCE}, or block = true"
            )
        for edge in self.edges:
            if not all(0 <= place < len(self.nodes) for place in edge):
                raise self._refusal(
                    "edges", list(edge), f"nodes are numbered from 0 to {len(self.nodes) - 1}"
                )
            if edge[0] == edge[1]:
                raise self._refusal("edges", list(edge), "leads from a node to itself")
            if self.nodes[edge[1]] == SOURCE:
                raise self._refusal(
                    "edges", list(edge), f"leads to a {SOURCE}, which is no part of the group"
                )
        edges = [list(edge) for edge in self.edges]
        if not nx.is_directed_acyclic_graph(self.graph):
            raise self._refusal("edges", edges, "form a cycle")
        if not nx.is_weakly_connected(self.graph):
            raise self._refusal("edges", edges, "must connect all nodes")

    def _refusal(self, field: str, value: object, limit: str) -> InputError:
        return InputError(f"templates.{field}", value, f"template {self.name}: {limit}")

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The pattern: places in `nodes`, with an edge to every reader."""
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.nodes)))
        graph.add_edges_from(self.edges)
        return graph

    @property
    def untiled(self) -> bool:
        """Whether its groups are executed with all maps on chip at once."""
        return self.whole or self.block


class _File(Spec):
    templates: tuple[Template, ...]


@cache
def bundled() -> tuple[Template, ...]:
    """Return the templates that come with the installation."""
    return validated(_File, catalogue.shared("templates", "dnnvm")).templates
