"""Random networks, accelerators, groups and tiles, small enough to simulate hundreds of them in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, combinations
from math import prod
from random import Random
from typing import Any

from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.fuzz.networks import read_inside

from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import violation
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.machine import HOST
from tilewright.fusion.plan import HALOS, ORDERS, PARAMETERS, Group, Tile
from tilewright.spec.coarsening import coarse
from tilewright.spec.network import OPERANDS, AnyLayer, Map, NamedLayer, Network, Pool
from tilewright.spec.validation import validated

Table = dict[str, Any]
Nodes = tuple[int, ...]
Shape = tuple[int, int, int]

_LAYER: TypeAdapter[Any] = TypeAdapter(AnyLayer)

PLENTY = 100_000
"""Bytes in which all maps of a random network fit."""

randoms = st.integers(0, 2**32 - 1).map(Random)


def network(random: Random, most: int = 6, side: int = 9, host: bool = False) -> Table:
    """Return a network of all kinds of layers, which read one of the last three maps and often another."""
    shapes: dict[str, Shape] = {
        "input": (random.randint(1, 5), random.randint(1, side), random.randint(1, side))
    }
    layers: list[Table] = []
    wanted = random.randint(1, most)
    while len(layers) < wanted:
        source = random.choice([*shapes][-3:])
        table = _layer(random, shapes, source, host) | {"name": f"l{len(layers)}"}
        layers.append(table)
        shapes[table["name"]] = output(table)
    return {"layers": layers}


def output(table: Table) -> Shape:
    """Return the shape of what a layer computes."""
    shape: Shape = _LAYER.validate_python(table).output
    return shape


def _layer(random: Random, shapes: dict[str, Shape], source: str, host: bool) -> Table:
    channels, height, width = shape = shapes[source]
    alike = [name for name, other in shapes.items() if other == shape]
    pixels = [name for name, other in shapes.items() if other == (channels, 1, 1)]
    beside = [name for name, other in shapes.items() if other[1:] == shape[1:] and name != source]
    kinds = ["conv", "conv", "conv", "depthwise", "grouped", "pool", "add", "mul", "map", "concat"]
    kind = random.choice(kinds + ["softmax"] * host)
    if kind in ("add", "mul"):
        others = pixels if kind == "mul" and pixels and random.random() < 0.7 else alike
        return {"kind": kind, "inputs": [source, random.choice(others)], "input": shape}
    if kind == "softmax":
        return {"kind": "map", "op": "softmax", "inputs": [source], "input": shape}
    inputs = [source]
    if beside and (kind == "concat" or (kind in ("conv", "pool") and random.random() < 0.3)):
        inputs.append(random.choice(beside))
        channels += shapes[inputs[1]][0]
    table: Table = {"inputs": inputs, "input": (channels, height, width)}
    if kind in ("map", "concat"):
        numbers = 0 if len(inputs) > 1 else random.choice([0, 2 * channels])
        return table | {"kind": "map", "op": "fused", "parameters": numbers}
    kernel = random.randint(1, min(3, height)), random.randint(1, min(3, width))
    spread = 2 if kind == "conv" and kernel[0] == 2 < height and random.random() < 0.3 else 1
    extent = spread * (kernel[0] - 1) + 1, kernel[1]
    table |= {
        "kernel": kernel,
        "stride": (random.randint(1, 3), random.randint(1, 2)),
        "padding": tuple(random.randint(0, size - 1) for size in extent for _ in range(2)),
    }
    if kind == "pool":
        return table | {"kind": "pool", "op": random.choice(["max", "average"])}
    if kind == "depthwise":
        table |= {"kernels": channels, "groups": channels}
    elif kind == "grouped":
        groups = 2 if channels % 2 == 0 else 1
        table |= {"kernels": groups * random.randint(1, 3), "groups": groups}
    else:
        table |= {"kernels": random.randint(1, 7), "dilation": (spread, 1)}
    return table | {"bias": random.random() < 0.5}


def rectified(random: Random, layers: Table) -> Table:
    """Return a random network whose functions are rectifiers, often with a classifier."""
    for each in layers["layers"]:
        if each.get("op") == "fused":
            del each["parameters"]
            if len(each["inputs"]) == 1:
                each["op"] = "relu"
            else:
                del each["op"]
                each["kind"] = "concat"
    if random.random() < 0.4:
        size = prod(output(layers["layers"][-1]))
        layers["layers"].append({"name": "fc", "kind": "fc", "inputs": size, "outputs": 3})
        if random.random() < 0.5:
            layers["layers"].append({"name": "soft", "kind": "map", "op": "softmax", "input": [3, 1, 1]})
    return layers


def excited(random: Random) -> Table:
    """Return two branches that are read side by side and added up, and a product with a pixel."""
    channels, side = random.randint(1, 5), random.randint(2, 8)
    plane = [channels, side, side]
    conv = {"kernels": channels, "kernel": [1, 1], "bias": True}
    around = {"kernel": [3, 3], "padding": [1, 1, 1, 1]}
    return {
        "layers": [
            {"name": "left", "input": plane, **conv},
            {"name": "right", "inputs": ["input"], "input": plane, **conv, **around},
            {
                "name": "both",
                "inputs": ["left", "right"],
                "input": [2 * channels, side, side],
                **conv,
                **around,
            },
            {"name": "sum", "kind": "add", "inputs": ["left", "right", "left"], "input": plane},
            {"name": "pixel", "kind": "pool", "op": "average", "input": plane, "kernel": [side, side]},
            {"name": "excite", "input": [channels, 1, 1], **conv},
            {"name": "product", "kind": "mul", "inputs": ["both", "excite"], "input": plane},
        ]
    }


def machine(random: Random, **changes: Any) -> Table:
    """Return an accelerator of a few MACs, with buffers for everything."""
    return {
        "conv_array": tuple(random.randint(1, 4) for _ in range(3)),
        "arrays": random.choice([1, 1, 2]),
        "clock_mhz": random.choice([1, 3, 7]),
        "input_bytes": PLENTY,
        "output_bytes": PLENTY,
        "parameter_bytes": PLENTY,
        "element_bytes": random.choice([1, 1, 2]),
        "load_mb_per_s": random.choice([1, 2, 5, 20]),
        "save_mb_per_s": random.choice([1, 2, 5, 20]),
        "operands_per_cycle": random.choice([1, 4, 30]),
        "issue_cycles": random.choice([0, 17]),
        "energy": {"pj_per_dram_byte": 500, "pj_per_mac": 70, "milliwatts": 3},
        "host": random.choice([None, {"cycles_per_byte": 0.7, "cycles_per_call": 5}]),
    } | changes


class AnyGroups(Problem):
    """A problem in which any convex group may be executed, and be tiled."""

    @cached_property
    def allowed(self) -> dict[Nodes, bool]:
        """All convex groups, whether connected or not."""
        computed = [op.number for op in self.ops if engine_of(op) != HOST]
        sets = chain.from_iterable(combinations(computed, size) for size in range(2, len(computed) + 1))
        alone = {(op.number,): True for op in self.ops}
        return alone | {nodes: True for nodes in sets if self._is_convex(nodes)}

    def _is_convex(self, nodes: Nodes) -> bool:
        members = sum(1 << number for number in nodes)
        before = 0
        for number in nodes:
            before |= self.ancestors[number]
        return not any(
            before >> op.number & 1 and self.ancestors[op.number] & members
            for op in self.ops
            if op.number not in nodes
        )


def problem(random: Random, layers: Table | None = None, **tables: Any) -> AnyGroups:
    """Return a problem without templates; what is not given is random."""
    changes = tables.pop("machine", {})
    table = {
        "network": layers or network(random),
        "machine": machine(random, **changes),
        "objective": {"minimise": random.choice(["cycles", "traffic", "energy"])},
    }
    return validated(AnyGroups, table | tables)


def problems(host: bool = False) -> st.SearchStrategy[tuple[Random, AnyGroups]]:
    """Draw a problem that the accelerator has something to do in, and what else is to be random."""
    pairs = randoms.map(
        lambda random: (random, read_inside(random, network(random, host=host)["layers"], 0.5))
    )
    return pairs.filter(_computes).map(lambda pair: (pair[0], problem(*pair)))


def _computes(pair: tuple[Random, Table]) -> bool:
    layers = coarse(validated(Network, pair[1])).layers
    return not all(isinstance(layer, Map) and layer.op == "softmax" for layer in layers)


def group(random: Random, problem: AnyGroups) -> Nodes:
    """Return a group that the accelerator can execute, as likely a small one as a large one."""
    groups = [nodes for nodes in problem.allowed if engine_of(problem.ops[nodes[0]]) != HOST]
    size = random.choice(sorted({len(nodes) for nodes in groups}))
    return random.choice([nodes for nodes in groups if len(nodes) == size])


def tile(random: Random, fused: FusedGroup) -> Tile:
    """Return a tile that fits: of the first ones that are drawn, or the whole plane."""
    for _ in range(4):
        drawn = any_tile(random, fused)
        if violation(fused, drawn) is None:
            return drawn
    return Tile(*fused.plane, drawn.kernels, max(1, fused.summed(fused.loaded)))


def any_tile(random: Random, fused: FusedGroup) -> Tile:
    """Return a tile that may break every rule but that of its size."""
    height, width = fused.plane
    most = max(fused.features[feature].shape[0] for feature in fused.members)
    deep = max(1, fused.summed(fused.loaded))
    return Tile(
        random.randint(1, height),
        random.choice([width, random.randint(1, width)]),
        random.randint(1, most + 1),
        random.choice([deep, random.randint(1, deep)]),
        random.choice(HALOS),
        random.choice(ORDERS),
        random.choice(PARAMETERS),
    )


def plan(random: Random, problem: AnyGroups) -> Plan:
    """Return a plan of random groups: an order of execution, cut anywhere."""
    left, order = {op.number for op in problem.ops}, []
    while left:
        ready = [n for n in left if not left.intersection(problem.ops[n].producers)]
        order.append(random.choice(sorted(ready)))
        left.remove(order[-1])
    groups: list[list[int]] = []
    for number in order:
        alone = not groups or any(engine_of(problem.ops[n]) == HOST for n in (number, groups[-1][0]))
        if alone or random.random() < 0.4:
            groups.append([])
        groups[-1].append(number)
    return Plan(tuple(made_group(random, problem, _ordered(random, problem, nodes)) for nodes in groups))


def _ordered(random: Random, problem: Problem, nodes: list[int]) -> Sequence[int]:
    """Return operations in one of the orders in which a group of them may be executed."""
    found = tuple(sorted(nodes))
    return random.choice(problem.orders_of(found).listed) if found in problem.allowed else found


def made_group(random: Random, problem: Problem, nodes: Sequence[int]) -> Group:
    """Return a group with a random tile."""
    names = tuple(problem.ops[number].name for number in nodes)
    if engine_of(problem.ops[nodes[0]]) == HOST:
        return Group(names, None)
    return Group(names, tile(random, problem.fused(nodes)))


# Known networks, smaller -----------------------------------------------------------------------------


def scaled(name: str, side: int, divisor: int, first: str = "", last: str = "") -> Table:
    """Return a bundled network, or a part of it, with fewer channels and positions.

    Parameters
    ----------
    side
        Height and width of the input of the first layer.
    divisor
        Of all numbers of channels, but those of images.
    first, last
        Layers from which and up to which it is a part; what that reads of the others is its input.
    """
    layers = Network.model_validate(catalogue.shared("networks", name)).layers
    names = [layer.name for layer in layers]
    begin, end = names.index(first) if first else 0, names.index(last) + 1 if last else len(names)
    channels = layers[begin].input[0]
    shapes = {"input": (-(-channels // divisor) if first else channels, side, side)}
    tables: list[Table] = []
    for place in range(begin, end):
        reads = layers[place].inputs or (names[place - 1] if place else "input",)
        inputs = tuple(each if each in shapes else "input" for each in reads)
        if layers[place].kind not in OPERANDS:
            inputs = tuple(dict.fromkeys(inputs))
        table = _smaller(layers[place], [shapes[each] for each in inputs], divisor)
        tables.append(table | {"name": names[place], "inputs": inputs})
        shapes[names[place]] = output(tables[-1])
    return {"layers": tables}


def _smaller(layer: AnyLayer, shapes: Sequence[Shape], divisor: int) -> Table:
    shape = (sum(each[0] for each in shapes), *shapes[0][1:])
    if layer.kind in OPERANDS:
        return {"kind": layer.kind, "input": max(shapes)}
    if isinstance(layer, Map):
        return {"kind": "map", "op": layer.op, "input": shape, "parameters": layer.parameters // divisor}
    if layer.kind == "concat":
        return {"kind": "concat", "input": shape}
    if layer.kind == "reshape":
        return {"kind": "reshape", "op": "flatten", "input": shape, "output": (prod(shape), 1, 1)}
    assert isinstance(layer, NamedLayer | Pool)
    if layer.kind == "fc":
        return {"kind": "fc", "input": (prod(shape), 1, 1), "kernel": (1, 1), "kernels": layer.kernels}
    room = [size + sum(layer.padding[2 * axis :][:2]) for axis, size in enumerate(shape[1:])]
    kernel = tuple(map(min, layer.kernel, room))
    table = {"kind": layer.kind, "input": shape, "kernel": kernel, "stride": layer.stride}
    table["padding"] = tuple(min(each, kernel[side // 2] - 1) for side, each in enumerate(layer.padding))
    if isinstance(layer, Pool):
        return table | {"op": layer.op}
    if layer.groups == 1:
        return table | {"kernels": -(-layer.kernels // divisor), "bias": layer.bias}
    return table | {"kernels": shape[0], "groups": shape[0], "bias": layer.bias}
