"""Small random networks of all kinds that are executed in integers, and numbers for them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.simulator.arithmetic.fixed_point import Format
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer, Parameters
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork
from tilewright.spec.network import NamedLayer, Network

Table = dict[str, Any]
Shape = tuple[int, int, int]

randoms = st.integers(0, 2**32 - 1).map(Random)


def tables(random: Random, functions: tuple[str, ...] = ("relu", "tanh")) -> list[Table]:
    """Return the layers of a small network."""
    shapes: dict[str, Shape] = {
        "input": (random.choice([1, 2, 4]), random.randint(2, 5), random.randint(2, 5))
    }
    layers: list[Table] = []
    for number in range(random.randint(1, 6)):
        name, source = f"l{number}", random.choice([*shapes][-2:])
        channels, height, width = shapes[source]
        table: Table = {"name": name, "inputs": [source], "input": [channels, height, width]}
        kind = random.choice(["conv", "conv", "depthwise", "max", "average", "add", "concat", *functions])
        if kind in ("conv", "depthwise") or number == 0:
            groups = channels if kind == "depthwise" else 1
            table |= {"kernels": groups * random.randint(1, 3), "groups": groups}
            table |= {"kernel": [random.randint(1, min(2, height)), random.randint(1, min(2, width))]}
            table |= {"stride": [random.randint(1, 2), 1], "bias": random.random() < 0.5}
            table["dilation"] = [random.randint(1, 2), random.randint(1, 2)]
            table["padding"] = [0, table["kernel"][0] - 1, table["kernel"][1] - 1, 0]
        elif kind in ("max", "average"):
            table |= {"kind": "pool", "op": kind}
            table |= {"kernel": [random.randint(1, min(2, height)), random.randint(1, min(2, width))]}
        elif kind in ("add", "concat"):
            alike = [each for each, shape in shapes.items() if shape == shapes[source] and each != source]
            inputs = [source, random.choice(alike)] if alike else [source]
            if len(inputs) == 1 or kind == "concat":
                channels = sum(shapes[each][0] for each in inputs)
                table |= {"kind": "concat", "inputs": inputs, "input": [channels, height, width]}
            else:
                table |= {"kind": "add", "inputs": inputs}
        else:
            table |= {"kind": "map", "op": kind}
        layers.append(table)
        shapes[name] = Network(layers=layers).layers[-1].output
    if random.random() < 0.5:
        layers.append(
            {"name": "fc", "kind": "fc", "inputs": int(np.prod(shapes[layers[-1]["name"]])), "outputs": 3}
        )
    return layers


LRN: Table = {"kind": "map", "op": "lrn", "response": {"size": 3, "alpha": 0.5, "beta": 0.6, "k": 2.0}}


def ended(random: Random, layers: list[Table]) -> list[Table]:
    """Return layers with a fully connected one at the end, and perhaps one of a further kind before it."""
    shape = list(Network(layers=layers).layers[-1].output)
    if layers[-1].get("kind") == "fc":
        return layers
    kinds: list[Table] = [
        LRN,
        {"kind": "pad", "padding": [2, 0, 1, 3]},
        {"kind": "pool", "kernel": [2, 2], "padding": [1, 0, 0, 1]},
    ]
    more = [{"name": "more", "input": shape, **random.choice(kinds)}] if random.random() < 0.75 else []
    shape = list(Network(layers=[*layers, *more]).layers[-1].output)
    size = int(np.prod(shape))
    return [
        *layers,
        *more,
        {"name": "flat", "kind": "reshape", "op": "flatten", "input": shape, "output": [size, 1, 1]},
        {"name": "last", "kind": "fc", "inputs": size, "outputs": 2, "bias": True},
    ]


def needed(layers: list[Table]) -> list[Table]:
    """Return the layers that the last one depends on."""
    read, kept = {layers[-1]["name"]}, []
    for number, layer in reversed([*enumerate(layers)]):
        if layer["name"] in read:
            kept.append(layer)
            inputs = layer.get("inputs")
            read |= set(inputs) if isinstance(inputs, list) else {layers[number - 1]["name"]}
    return kept[::-1]


def largest(network: Network, most: float = 500.0) -> dict[str, float]:
    """Return a magnitude for each output of a network, and its input."""
    return dict.fromkeys(["input", *(layer.name for layer in network.layers)], most)


def numbers(
    random: Random, network: Network, widths: tuple[int, int] = (8, 32)
) -> tuple[IntegerNetwork, dict[str, Parameters]]:
    """Return a network with random numbers in random formats, and accumulators of up to some bits."""
    rng = np.random.default_rng(random.getrandbits(32))
    layers, parameters = {}, {}
    for layer in network.layers:
        if isinstance(layer, NamedLayer):
            formats = [Format(random.randint(2, widths[0]), random.randint(-1, 7)) for _ in range(2)]
            layers[layer.name] = IntegerLayer(
                layer, *formats, min(widths[1], random.choice([6, 8, 12, 16, 32]))
            )
            bias = rng.normal(0, 1, layer.kernels) * layer.bias
            parameters[layer.name] = Parameters(rng.normal(0, 1, layer.kernels_shape), bias)
    return IntegerNetwork.of(network, layers, parameters, largest(network)), parameters
