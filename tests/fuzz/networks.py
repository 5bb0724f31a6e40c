"""Random networks as tables: layers that read one another, with every odd geometry."""

from __future__ import annotations

import random
from math import prod
from typing import Any

Json = dict[str, Any]
Shape = tuple[int, int, int]


def window(rng: random.Random, shape: Shape, dilated: bool = True) -> tuple[Json, tuple[int, int]]:
    """Return kernel, stride, padding and dilation that suit a plane, and the plane of the output."""
    table: Json = {"kernel": [], "stride": [], "padding": [], "dilation": []}
    plane = []
    for size in shape[1:]:
        kernel, dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 1, 2]) if dilated else 1
        extent = (kernel - 1) * dilation + 1
        pad = [rng.choice([0, rng.randrange(extent)]) for _ in range(2)]
        if extent > size + sum(pad):
            kernel, dilation, extent, pad = 1, 1, 1, [0, 0]
        stride = rng.choice([1, 1, 1, 2, 3])
        table["kernel"].append(kernel)
        table["stride"].append(stride)
        table["padding"] += pad
        table["dilation"].append(dilation)
        plane.append((size + sum(pad) - extent) // stride + 1)
    if not dilated:
        del table["dilation"]
    return table, (plane[0], plane[1])


def read_inside(rng: random.Random, layers: list[Json], often: float = 0.25) -> Json:
    """Return a network of these layers, some of whose outputs are so often read by layers, too."""
    if rng.random() < 1 - often:
        return {"layers": layers}
    read = {name for layer in layers for name in layer["inputs"]}
    names = [layer["name"] for layer in layers]
    return {"layers": layers, "outputs": [n for n in names if n not in read or rng.random() < 0.4]}


def network(
    rng: random.Random,
    most: int,
    side: int,
    channels: int = 3,
    kinds: str = "cccpda",
    twice: bool = True,
    back: int = 2,
) -> list[Json]:
    """Return up to `most` layers.

    Parameters
    ----------
    side, channels
        Largest plane and number of channels of the input, and kernels of a convolution.
    kinds
        A letter for each kind, as often as it is likely: convolution, pool, depthwise, addition; also
        multiplication, fully connected, softmax, rectification of the network's input, join (a concatenation
        by itself), x for some channels alone.
    twice
        Whether an addition may read the same map twice.
    back
        How many of the latest maps are read first.
    """
    shapes: dict[str, Shape] = {
        "input": (rng.randint(1, channels), rng.choice([1, rng.randint(1, side)]), rng.randint(1, side))
    }
    layers: list[Json] = []
    for number in range(rng.randint(1, most)):
        name, source = f"l{number}", rng.choice([*shapes][-back:])
        shape = shapes[source]
        kind = rng.choice(kinds)
        alike = [
            each
            for each in shapes
            if shapes[each] == shape or (kind, shapes[each]) == ("m", (shape[0], 1, 1))
        ]
        beside = [other for other in shapes if shapes[other][1:] == shape[1:] and other != source]
        table: Json = {"name": name, "inputs": [source]}
        if kind in "am" and len(alike) > 1:
            other = rng.choice([each for each in alike if twice or each != source])
            table |= {"kind": {"a": "add", "m": "mul"}[kind], "inputs": [source, other]}
            shapes[name] = shape
            layers.append(table | {"input": list(shape)})
            continue
        if kind == "f" and (layers or shape[1:] == (1, 1)):  # the first layer's input is the network's
            outputs = rng.randint(1, channels)
            table |= {"kind": "fc", "input": [prod(shape), 1, 1], "kernels": outputs, "kernel": [1, 1]}
            shapes[name] = (outputs, 1, 1)
            layers.append(table | {"bias": rng.random() < 0.3})
            continue
        if kind in "sr":
            read, op = (source, "softmax") if kind == "s" else ("input", "relu")
            shapes[name] = shapes[read]
            layers.append(table | {"kind": "map", "op": op, "inputs": [read], "input": list(shapes[read])})
            continue
        if kind == "x" and shape[0] > 1:
            first = rng.randrange(shape[0])
            shapes[name] = (rng.randint(1, shape[0] - first), *shape[1:])
            table |= {"kind": "slice", "input": list(shape), "output": list(shapes[name])}
            layers.append(table | {"first": [first, 0, 0]})
            continue
        if kind == "j" and beside:
            other = rng.choice(beside)
            shapes[name] = (shape[0] + shapes[other][0], *shape[1:])
            table |= {"kind": "concat", "inputs": [source, other], "input": list(shapes[name])}
            layers.append(table)
            continue
        if beside and kind in "cp" and rng.random() < 0.25:
            other = rng.choice(beside)
            table["inputs"].append(other)
            shape = (shape[0] + shapes[other][0], *shape[1:])
        geometry, plane = window(rng, shape, kind != "p")
        table |= {"input": list(shape), **geometry}
        out = shape[0]
        if kind == "p":
            table |= {"kind": "pool", "op": rng.choice(["max", "average"])}
        elif kind == "d":
            table |= {"kernels": out, "groups": out}
        else:
            out = table["kernels"] = rng.randint(1, 2 * channels)
            if shape[0] % 2 == 0 and out % 2 == 0 and rng.random() < 0.3:
                table["groups"] = 2
            table["bias"] = rng.random() < 0.3
        shapes[name] = (out, *plane)
        layers.append(table)
    return layers


def summed(rng: random.Random, most: int, side: int, channels: int = 3) -> list[Json]:
    """Return up to `most` layers that keep their plane, and sums of what has come through some of them."""
    plane = rng.randint(1, side), rng.randint(1, side)
    shapes: dict[str, Shape] = {"input": (rng.randint(1, channels), *plane)}
    layers: list[Json] = []
    for number in range(rng.randint(2, most)):
        name, source = f"l{number}", rng.choice([*shapes][-3:])
        shape = shapes[source]
        alike = [each for each in shapes if shapes[each] == shape and each != source]
        table: Json = {"name": name, "inputs": [source], "input": list(shape)}
        if alike and rng.random() < 0.5:
            read = rng.sample([source, rng.choice(alike)], 2)
            layers.append(table | {"kind": rng.choice(["add", "add", "mul"]), "inputs": read})
            shapes[name] = shape
            continue
        table |= {"kernel": [], "padding": []}
        for _ in plane:
            kernel = rng.choice([1, 1, 2, 3])
            before = rng.choice([0, kernel - 1, rng.randrange(kernel)])
            table["kernel"].append(kernel)
            table["padding"] += [before, kernel - 1 - before]
        kind, kernels = rng.choice("ccddp"), shape[0]
        if kind == "p":
            table |= {"kind": "pool"}
        elif kind == "d":
            table |= {"kernels": kernels, "groups": kernels}
        else:
            kernels = rng.choice([kernels, kernels, rng.randint(1, 2 * channels)])
            table |= {"kernels": kernels, "bias": rng.random() < 0.3}
        shapes[name] = (kernels, *plane)
        layers.append(table)
    return layers
