"""Constraints of users' own on fusions, against all plans of small networks from which the oracle filters.

The predicates beside the texts are Python on a plan's JSON and on what the oracle says that its groups cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from random import Random
from typing import Any

import pytest
from conftest import examples, in_turn, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import fusion

import tilewright as tw
from tilewright.spec.errors import InputError, TilewrightError

Json = dict[str, Any]

MOST_PLANS = 40_000
"""Plans of a problem that are walked through."""

METHODS = ["auto", "downsets", "columns_partition@highs", "columns_cover@gecode", "columns_exact_cover@cpsat"]


class Seen:
    """A plan with what the oracle says of it."""

    def __init__(self, graph: fusion.Graph, groups: list[tuple[tuple[int, ...], fusion.Tile | None]]) -> None:
        self.graph, self.groups = graph, groups
        self.names = [[graph.ops[node].name for node in nodes] for nodes, _ in groups]
        self.costs = [graph.groups[nodes][tile] for nodes, tile in groups if tile is not None]

    @classmethod
    def of(cls, graph: fusion.Graph, plan: Json) -> Seen:
        """Read the JSON of a plan."""
        number = {op.name: op.number for op in graph.ops}
        groups = []
        for group in plan["groups"]:
            tile = fusion.Tile(**group["tile"]) if group["tile"] else None
            groups.append((tuple(number[name] for name in group["nodes"]), tile))
        return cls(graph, groups)

    def at(self, name: str) -> int:
        """Return the place of an operation's group."""
        return next(place for place, names in enumerate(self.names) if name in names)

    def together(self, one: str, other: str) -> bool:
        return self.at(one) == self.at(other)

    def before(self, one: str, other: str) -> bool:
        every = [name for names in self.names for name in names]
        return every.index(one) < every.index(other)

    def tile(self, name: str) -> fusion.Tile:
        tile = self.groups[self.at(name)][1]
        assert tile is not None
        return tile

    def cost(self, name: str) -> fusion.Costs:
        nodes, tile = self.groups[self.at(name)]
        assert tile is not None
        return self.graph.groups[nodes][tile]

    def buffers(self, name: str) -> tuple[int, int, int]:
        nodes, tile = self.groups[self.at(name)]
        assert tile is not None
        return fusion.Run(fusion.Group(self.graph, nodes), tile).buffers()

    @property
    def value(self) -> int | None:
        """What is minimised, None where that takes too many cycles."""
        if self.graph.minimise != "memory":
            return sum(map(self.graph.value, self.costs))
        if sum(costs.cycles for costs in self.costs) > self.graph.most_cycles():
            return None
        return max(costs.peak for costs in self.costs)


Case = tuple[str, Callable[[Seen], bool]]


def sequences(graph: fusion.Graph) -> Iterator[list[tuple[int, ...]]]:
    """Yield all orders of all choices of groups, each with its operations in some order."""
    groups = [order for nodes in graph.allowed() for order in graph.orders(nodes)]

    def follow(done: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        held = {node for nodes in done for node in nodes}
        if len(held) == len(graph.ops):
            yield done
        for nodes in groups:
            reads = {read for node in nodes for read in graph.ops[node].reads if read >= 0}
            if held.isdisjoint(nodes) and reads <= held | set(nodes):
                yield from follow([*done, nodes])

    return follow([])


def plans(graph: fusion.Graph) -> Iterator[Seen]:
    """Yield all plans; skip problems that have too many."""
    allowed = graph.allowed()

    def tiles(nodes: tuple[int, ...]) -> list[fusion.Tile | None]:
        if graph.ops[nodes[0]].engine == "HOST":
            return [None]
        return list(graph.tiles(nodes, allowed[tuple(sorted(nodes))]))

    every = [(nodes, [tiles(each) for each in nodes]) for nodes in sequences(graph)]
    assume(sum(prod(map(len, each)) for _, each in every) <= MOST_PLANS)
    for nodes, each in every:
        for chosen in product(*each):
            yield Seen(graph, list(zip(nodes, chosen, strict=True)))


def network(random: Random) -> Json:
    """Return two branches from one map, or a chain, often with what the host computes."""
    plane = [random.randint(1, 2), random.randint(2, 5), random.randint(1, 3)]
    conv = {"kind": "conv", "kernels": plane[0], "input": plane}
    around = {"kernel": [3, 1], "padding": [1, 1, 0, 0]}
    layers: list[Json] = [{"name": "a", **conv, **random.choice([around, {"kernel": [1, 1]}])}]
    layers.append({"name": "b", "inputs": [random.choice(["a", "input"])], **conv, "kernel": [1, 1]})
    last = random.choice(["pool", "conv", "add", "none"])
    if last == "pool":
        layers.append({"name": "c", "inputs": ["a"], "kind": "pool", "op": "max", "input": plane, **around})
    elif last == "conv":
        layers.append({"name": "c", "inputs": ["b"], **conv, **around})
    elif last == "add":
        layers.append({"name": "c", "inputs": ["a", "b"], "kind": "add", "input": plane})
    if random.random() < 0.3:
        layers.append({"name": "soft", "inputs": ["b"], "kind": "map", "op": "softmax", "input": plane})
    return {"layers": layers}


def drawn(random: Random) -> Any:
    """Return a random problem, whose templates allow pairs and blocks."""
    buffers = [random.choice([12, 30, 200]) for _ in range(3)]
    names = ("input_bytes", "output_bytes", "parameter_bytes")
    templates = [
        {"name": "pair", "nodes": ["any", "any"], "edges": [[0, 1]]},
        {"name": "siblings", "nodes": ["source", "any", "any"], "edges": [[0, 1], [0, 2]]},
        {"name": "three", "nodes": ["any", "any", "any"], "edges": [[0, 1], [1, 2]]},
        {"name": "block", "block": True},
    ]
    try:
        return tw.FusionProblem.model_validate(
            {
                "network": network(random),
                "machine": {
                    "conv_array": [random.randint(1, 2), 2, random.randint(2, 3)],
                    "clock_mhz": random.choice([1, 3]),
                    "load_mb_per_s": random.choice([1, 2, 5]),
                    "save_mb_per_s": random.choice([1, 2, 5]),
                    "operands_per_cycle": random.choice([1, 4]),
                    "issue_cycles": random.choice([0, 7]),
                    "energy": {"pj_per_dram_byte": 5000, "pj_per_mac": 700, "milliwatts": 3},
                    **dict(zip(names, buffers, strict=True)),
                },
                "templates": random.sample(templates[:3], 2) + templates[3:],
                "objective": {"minimise": random.choice(["cycles", "traffic", "energy", "memory"])},
            }
        )
    except InputError:
        assume(False)
        raise


LOT: list[Case] = [
    ("together(a, b)", lambda s: s.together("a", "b")),
    ("not together(a, b)", lambda s: not s.together("a", "b")),
    ("groups == 2", lambda s: len(s.costs) == 2),
    ("before(b, a)", lambda s: s.before("b", "a")),
    ("before(a, b) implies groups != 2", lambda s: not s.before("a", "b") or len(s.costs) != 2),
    ("size(b) == 2", lambda s: len(s.names[s.at("b")]) == 2),
    ("tile.rows(a) % 2 == 1", lambda s: s.tile("a").rows % 2 == 1),
    ("tile.rows(a) != tile.rows(b)", lambda s: s.tile("a").rows != s.tile("b").rows),
    (
        "together(a, b) or tile.kernels(a) * tile.columns(b) == 2",
        lambda s: s.together("a", "b") or s.tile("a").kernels * s.tile("b").columns == 2,
    ),
    ("tile.halo(a) == keep", lambda s: s.tile("a").halo == "keep"),
    (
        "tile.order(a) == kernels or tile.parameters(b) == keep",
        lambda s: s.tile("a").order == "kernels" or s.tile("b").parameters == "keep",
    ),
    ("group.cycles(a) % 3 == 1", lambda s: s.cost("a").cycles % 3 == 1),
    ("group.traffic(a) >= 40", lambda s: s.cost("a").traffic >= 40),
    ("group.energy(b) == group.energy(a)", lambda s: s.cost("b").energy == s.cost("a").energy),
    ("group.memory(a) < group.memory(b)", lambda s: s.cost("a").peak < s.cost("b").peak),
    ("buffer(a, output) % 4 == 0", lambda s: s.buffers("a")[1] % 4 == 0),
    ("cycles % 5 == 2", lambda s: sum(each.cycles for each in s.costs) % 5 == 2),
    ("traffic <= 100", lambda s: sum(each.traffic for each in s.costs) <= 100),
    ("energy < 1000", lambda s: sum(each.energy for each in s.costs) < 1000),
    ("memory in 20..45", lambda s: 20 <= max(each.peak for each in s.costs) <= 45),
    (
        "for all o in accelerated if engine(o) == CONV: tile.channels(o) == 1",
        lambda s: all(tile is None or s.graph.ops[nodes[0]].engine != "CONV" or tile.channels == 1
                      for nodes, tile in s.groups),
    ),
]  # fmt: skip


@pytest.mark.parametrize("turn", range(len(METHODS)), ids=METHODS)
@settings(max_examples=examples(40, 1))
@given(randoms)
def test_all_words_against_all_plans(turn: int, random: Random) -> None:
    random = Random(random.getrandbits(32) + turn)  # by day each method has another problem
    problem = drawn(random)
    graph = fusion.Graph(problem.model_dump(mode="json"))
    cases = random.sample(LOT, random.randint(1, 2))
    try:
        every = [(seen, seen.value) for seen in plans(graph)]
    except fusion.TooLarge:
        assume(False)
    kept = [value for seen, value in every if value is not None and all(keeps(seen) for _, keeps in cases)]
    constrained = problem.where(*(text for text, _ in cases))
    solved = 0
    for method in in_turn(METHODS, turn):
        told = f"{method}: {[text for text, _ in cases]}"
        try:
            result = tw.solve(constrained, method, time_limit=60, confirm=False)
        except TilewrightError as error:
            assert re.search("cannot honour|suit|does not take|no linear", str(error)), told
            continue
        solved += 1
        if not kept:
            assert result.status == "infeasible", told
            continue
        assert (result.status, result.objective) == ("optimal", min(kept)), told
        assert all(keeps(Seen.of(graph, result.plan.to_json())) for _, keeps in cases), told
    assert solved or problem.minimise == "memory" or "before" in str(cases) or "memory" in str(cases)


def test_what_the_host_computes_has_no_tile() -> None:
    problem = tw.FusionProblem.model_validate(
        {
            "network": {
                "layers": [
                    {"name": "a", "input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]},
                    {"name": "soft", "kind": "map", "op": "softmax", "input": [1, 4, 4]},
                ]
            },
            "machine": {"conv_array": [1, 1, 1], "clock_mhz": 1, "load_mb_per_s": 1, "save_mb_per_s": 1,
                        "operands_per_cycle": 1, "input_bytes": 99, "output_bytes": 99,
                        "parameter_bytes": 99},
        }
    )  # fmt: skip
    with refused("constraints[0].say", "tile.rows(soft) == 1", "soft"):
        problem.where("tile.rows(soft) == 1")
    assert tw.solve(problem.where("size(soft) == 2"), "downsets").status == "infeasible"
    kept = problem.where("engine(soft) == HOST", "before(a, soft)", "groups == 1")
    assert tw.solve(kept, "downsets").status == "optimal"


def test_a_method_that_does_not_state_a_word_names_it() -> None:
    problem = tw.read("squeezenet-fire").problem.where("before('fire2/expand3x3', 'fire2/expand1x1')")
    with pytest.raises(TilewrightError, match=r"constraints\[0\].say .*partition cannot honour it"):
        tw.solve(problem, "columns_partition@highs", warm_start="none")
