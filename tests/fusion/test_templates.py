"""Templates and what they match, against enumeration on small random graphs and known networks."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import networkx as nx
import pytest
from conftest import examples, refused, tells
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.fusion import matching
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group import told_apart as module
from tilewright.fusion.group.best_tile import TileChoice, best_tile
from tilewright.fusion.machine import HOST
from tilewright.fusion.matching import check_matches, matches, unmatched
from tilewright.fusion.plan import Tile
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import candidates
from tilewright.fusion.templates import SOURCE, Template, bundled
from tilewright.spec.base import unchecked_copy
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.validation import validated

MACHINE = {
    "conv_array": [4, 4, 2],
    "clock_mhz": 100,
    "input_bytes": 2**20,
    "output_bytes": 2**20,
    "parameter_bytes": 2**20,
    "load_mb_per_s": 800,
    "save_mb_per_s": 800,
    "operands_per_cycle": 8,
}
INPUT = -1
KINDS = ("conv", "pool", "map", "softmax", "add")


def problem(
    *ops: tuple[str, list[int]], templates: list[dict[str, Any]] | None = None, memory: int = 2**20
) -> Problem:
    """Build a problem of operations given by their kinds and producers; all maps have the same shape.

    A ``softmax`` is computed by the host.
    """
    layers = []
    for number, (kind, producers) in enumerate(ops):
        inputs = ["input" if producer < 0 else f"op{producer}" for producer in producers]
        channels = 4 * len(producers) if kind == "conv" else 4
        layer: dict[str, Any] = {"name": f"op{number}", "inputs": inputs, "input": [channels, 6, 6]}
        if kind in ("conv", "pool"):
            layer |= {"kind": kind, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
            layer |= {"kernels": 4} if kind == "conv" else {}
        else:
            layer |= {"kind": "map", "op": kind} if kind == "softmax" else {"kind": kind}
            layer |= {"op": "lrn"} if kind == "map" else {}
        layers.append(layer)
    buffers = dict.fromkeys(["input_bytes", "output_bytes", "parameter_bytes"], memory)
    found = Problem.model_validate({"network": {"layers": layers}, "machine": MACHINE | buffers})
    if templates is None:
        return found
    # Not checked, as templates that match nothing are refused.
    return unchecked_copy(found, templates=tuple(Template.model_validate(each) for each in templates))


def known(name: str) -> Problem:
    """Build a problem of a bundled network."""
    return validated(Problem, {"network": catalogue.shared("networks", name), "machine": MACHINE})


def parts(problem: Problem) -> tuple[NetworkGraph, tuple[Template, ...]]:
    """Return what templates are matched on."""
    return problem.graph, problem.templates


def groups(found: Problem, name: str = "t") -> set[tuple[int, ...]]:
    """Return the groups that a template allows."""
    return {
        nodes for nodes, by in matches(*parts(found)).items() if name in [template.name for template in by]
    }


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, list[int]]]:
    """Draw operations that read earlier ones."""
    ops: list[tuple[str, list[int]]] = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(KINDS))
        # Mostly those just before, so that chains and branches that meet again are frequent.
        earlier = st.integers(max(INPUT, number - draw(st.sampled_from([1, 2, 4, 8]))), number - 1)
        if kind == "add":
            producers = [draw(earlier), draw(earlier)]
        else:
            count = draw(st.integers(1, 3)) if kind == "conv" else 1
            producers = draw(st.lists(earlier, min_size=1, max_size=count, unique=True))
        ops.append((kind, producers))
    assume(any(kind in ("conv", "pool") for kind, _ in ops))  # an accelerator with nothing to do is refused
    return ops


@st.composite
def patterns(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the table of a valid template without blocks."""
    kinds = ["any", "conv", "pool", "conv|pool", "add|map", SOURCE]
    nodes = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    places = draw(st.permutations(range(len(nodes))))  # edges need not lead from lower to higher places
    edges = [
        [places[one], places[other]]
        for other in range(len(nodes))
        for one in range(other)
        if nodes[places[other]] != SOURCE and draw(st.booleans())
    ]
    table = {"name": "t", "nodes": nodes, "edges": edges}
    try:
        Template.model_validate(table)
    except InputError:
        assume(False)
    return table


def is_convex(found: Problem, members: set[int]) -> bool:
    graph = found.graph.reads
    return not any(
        nx.has_path(graph, one, other) and nx.has_path(graph, other, another)
        for one in members
        for another in members
        for other in set(graph) - members
    )


def enumerated(found: Problem, template: Template) -> set[tuple[int, ...]]:
    """Return all groups that a pattern matches, by trying all ways to place it."""

    def fits(number: int, kinds: str) -> bool:
        if kinds == SOURCE:
            return True
        if number == INPUT or engine_of(found.ops[number]) == HOST:
            return False
        return kinds == "any" or found.ops[number].spec.kind in kinds.split("|")

    count = len(template.nodes)
    return {
        tuple(sorted(members))
        for placed in permutations(found.graph.reads, count)
        if all(map(fits, placed, template.nodes))
        and all(
            found.graph.reads.has_edge(placed[one], placed[other]) == ((one, other) in template.edges)
            for one in range(count)
            for other in range(count)
        )
        and is_convex(
            found,
            members := {
                number for number, kinds in zip(placed, template.nodes, strict=True) if kinds != SOURCE
            },
        )
    }


@settings(max_examples=examples(150))
@given(graphs(), patterns())
def test_patterns_match_what_enumeration_finds(
    ops: list[tuple[str, list[int]]], table: dict[str, Any]
) -> None:
    found = problem(*ops, templates=[table])
    assert groups(found) == enumerated(found, found.templates[0])


def joined(found: Problem) -> nx.DiGraph:
    """Return the graph with a node for each concatenation and one behind all outputs."""
    graph = nx.DiGraph()
    for op in found.ops:
        reads: list[Any] = list(dict.fromkeys(op.producers))
        if len(reads) > 1 and op.spec.kind != "add":
            concatenation = ("concat", *sorted(reads))
            graph.add_edges_from((producer, concatenation) for producer in reads)
            reads = [concatenation]
        graph.add_edges_from((producer, op.number) for producer in reads)
    graph.add_edges_from([(node, "end") for node in list(graph) if not graph.out_degree(node)])
    return graph


def without(graph: nx.DiGraph, node: Any) -> nx.DiGraph:
    return graph.subgraph(set(graph) - {node})


@settings(max_examples=examples(150))
@given(graphs(), st.integers(1, 8))
def test_blocks_match_what_enumeration_finds(ops: list[tuple[str, list[int]]], most: int) -> None:
    found = problem(*ops, templates=[{"name": "t", "block": True, "most": most}])
    graph = joined(found)
    expected = set()
    for first in graph:
        for last in set(nx.descendants(graph, first)) - {"end"}:
            if first != INPUT and nx.has_path(without(graph, first), INPUT, last):
                continue
            if nx.has_path(without(graph, last), first, "end"):
                continue
            region = nx.descendants(graph, first) & (nx.ancestors(graph, last) | {last})
            members = tuple(sorted(node for node in region if isinstance(node, int)))
            if len(members) <= most and all(engine_of(found.ops[number]) != HOST for number in members):
                expected.add(members)
    assert groups(found) == expected
    assert all(is_convex(found, set(members)) for members in expected)


BRANCHES = [
    ("conv", [INPUT]),
    ("conv", [0]),
    ("conv", [0]),
    ("conv", [2]),
    ("conv", [1, 3]),
    ("conv", [1, 3]),
]


def test_a_module_is_a_block_although_its_outputs_are_read_one_by_one() -> None:
    found = problem(*BRANCHES, templates=[{"name": "t", "block": True}])
    # Neither of the last two is passed by all ways, what both read is.
    assert groups(found) == {(0,), (1, 2, 3), (0, 1, 2, 3), (3,)}


def test_a_way_that_leaves_the_group_and_comes_back_is_no_match() -> None:
    chain = [("conv", [INPUT]), ("pool", [0]), ("add", [0, 1])]
    found = problem(*chain, templates=[{"name": "t", "nodes": ["conv", "add"], "edges": [[0, 1]]}])
    assert groups(found) == set()
    assert unmatched(*parts(found)) == ("t",)


def test_siblings_share_a_source_that_is_no_member() -> None:
    siblings = {"name": "t", "nodes": ["source", "conv", "conv"], "edges": [[0, 1], [0, 2]]}
    assert groups(problem(*BRANCHES, templates=[siblings])) == {(1, 2), (4, 5)}
    # The network's input can be the source as well.
    assert groups(problem(("conv", [INPUT]), ("conv", [INPUT]), templates=[siblings])) == {(0, 1)}


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("vgg16", {"conv-pool": 5, "conv-conv": 8}),
        # 50 bottlenecks, four of which have a convolution as a shortcut.
        (
            "resnet152",
            {"conv-conv-conv-add": 50, "residual-bottleneck": 46, "convs-add": 4, "convs-conv-add": 4},
        ),
        # Nine modules of four branches, each of which reads the same; two branches are two convolutions.
        ("googlenet", {"siblings-4": 9, "siblings-3": 9 * 4, "siblings-2": 9 * 6, "branches": 9 * 3}),
    ],
)
def test_bundled_templates_in_known_networks(network: str, expected: dict[str, int]) -> None:
    found = Counter(template.name for by in matches(*parts(known(network))).values() for template in by)
    assert {name: found[name] for name in expected} == expected


def test_bundled_templates_are_valid_and_differ() -> None:
    assert len({template.name for template in bundled()}) == len(bundled()) > 15
    assert [template.name for template in bundled() if template.untiled] == ["block"]


def test_groups_have_all_their_templates_and_operations_are_alone_as_well() -> None:
    chain = {"name": "chain", "nodes": ["any", "any"], "edges": [[0, 1]]}
    table = [{"name": "single", "nodes": ["any"]}, chain, {"name": "block", "block": True}]
    found = problem(("conv", [INPUT]), ("pool", [0]), ("softmax", [1]), ("conv", [2]), templates=table)
    names = {
        nodes: [template.name for template in templates]
        for nodes, templates in matches(*parts(found)).items()
    }
    assert names.keys() == {(0,), (1,), (2,), (3,), (0, 1)}
    assert names[0, 1][0] == "chain"


def test_templates_of_the_user_must_match_something() -> None:
    ops = [("conv", [INPUT]), ("pool", [0])]
    check_matches(*parts(problem(*ops)))
    assert "siblings-4" in unmatched(*parts(problem(*ops)))
    useless = {"name": "mine", "nodes": ["pool", "conv"], "edges": [[0, 1]]}
    with refused("templates", "mine", "matches nothing", "conv, pool"):
        check_matches(*parts(problem(*ops, templates=[useless])))


def test_templates_that_match_too_often_are_refused_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MAX_ATTEMPTS", 100)
    ops = [("conv", [INPUT])] * 12
    own = {"name": "mine", "nodes": ["source", "conv", "conv", "conv"], "edges": [[0, 1], [0, 2], [0, 3]]}
    with pytest.raises(InputError, match="mine"):
        matches(*parts(problem(*ops, templates=[own])))
    assert max(map(len, matches(*parts(problem(*ops))))) < 4


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "nodes .. no source .. block = true"),
        ({"nodes": ["source"]}, "nodes .. no source"),
        (
            {"nodes": ["conv", "fc"], "edges": [[0, 1]]},
            "templates.nodes = 'fc' .. template t .. conv",
        ),
        ({"nodes": ["conv|", "conv"], "edges": [[0, 1]]}, "nodes .. conv"),
        ({"nodes": ["conv", "source|conv"], "edges": [[0, 1]]}, "nodes .. conv"),
        ({"nodes": ["conv", "conv"], "edges": [[0, 2]]}, "edges .. 0 .. 1"),
        ({"nodes": ["conv", "conv"], "edges": [[-1, 1]]}, "edges .. 0 .. 1"),
        ({"nodes": ["conv", "conv"], "edges": [[0, 1], [1, 1]]}, "from a node to itself"),
        ({"nodes": ["conv", "conv"], "edges": [[0, 1], [1, 0]]}, "form a cycle"),
        ({"nodes": ["conv", "conv", "conv"], "edges": [[0, 1]]}, "must connect all nodes"),
        ({"nodes": ["conv", "source"], "edges": [[0, 1]]}, "leads to a source"),
        ({"block": True, "nodes": ["conv"]}, "no nodes .. no edges"),
        ({"nodes": ["conv"], "most": 3}, "is for blocks only"),
    ],
)
def test_impossible_templates_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        Template.model_validate({"name": "t", **table})
    assert tells(error.value, message)


@pytest.mark.parametrize(
    "table",
    [
        {"nodes": ["conv"] * 9},
        {"nodes": ["conv", "conv"], "edges": [[0, 1, 1]]},
        {"nodes": ["conv", "conv"], "edges": [0, 1]},
        {"nodes": "conv"},
        {"block": True, "most": 65},
        {"block": True, "kinds": ["conv"]},
    ],
)
def test_templates_of_wrong_types_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^(nodes|edges|most|kinds)"):
        validated(Template, {"name": "t", **table})


def test_candidates_are_tiled_only_where_a_template_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"name": "block", "block": True}
    chain = {"name": "chain", "nodes": ["pool", "conv"], "edges": [[0, 1]]}
    ops = [("conv", [INPUT]), ("pool", [0]), ("conv", [1]), ("softmax", [2])]
    found = problem(*ops, templates=[block, chain])

    def best(_problem: Problem, nodes: tuple[int, ...], whole: bool, *_rest: object) -> TileChoice | None:
        if nodes == (0, 1, 2):  # as if it did not fit
            return None
        return TileChoice(Tile(1, 1, 1, 1), *[len(nodes) + 10 * whole] * 4, (1, 1, 1))

    monkeypatch.setattr(module, "best_tile", best)
    assert [each[:3] for each in candidates(found)] == [
        ((0,), 1, ""),
        ((0, 1), 12, "block"),
        ((1,), 1, ""),
        ((1, 2), 2, "chain"),
        ((2,), 1, ""),
        ((3,), 0, ""),
    ]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("memory", [2**9, 2**10, 2**20])
def test_tiling_costs_no_more_than_not_tiling(memory: int) -> None:
    found = problem(*BRANCHES, memory=memory)
    for nodes in matches(*parts(found)):
        whole = best_tile(found, nodes, whole=True)
        if whole is not None:
            tiled = best_tile(found, nodes)
            assert tiled is not None and tiled.cost <= whole.cost


def test_candidates_cost_what_their_tiles_do() -> None:
    found = problem(*BRANCHES)
    allowed = matches(*parts(found))
    chosen = candidates(found)
    assert [each.nodes for each in chosen] == sorted(each.nodes for each in chosen)
    assert {each.nodes for each in chosen} <= set(allowed)
    assert {(number,) for number in range(len(BRANCHES))} <= {each.nodes for each in chosen}
    assert all(each.cost > 0 and each.tile is not None for each in chosen)
