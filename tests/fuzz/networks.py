"""Random networks as tables: layers that read one another, with every odd geometry."""

from __future__ import annotations

import random
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


def network(
    rng: random.Random, most: int, side: int, channels: int = 3, kinds: str = "cccpda", twice: bool = True
) -> list[Json]:
    """Return up to `most` layers.

    Parameters
    ----------
    side, channels
        Largest plane and number of channels of the input, and kernels of a convolution.
    kinds
        A letter for each kind, as often as it is likely: convolution, pool, depthwise, addition.
    twice
        Whether an addition may read the same map twice.
    """
    shapes: dict[str, Shape] = {
        "input": (rng.randint(1, channels), rng.choice([1, rng.randint(1, side)]), rng.randint(1, side))
    }
    layers: list[Json] = []
    for number in range(rng.randint(1, most)):
        name, source = f"l{number}", rng.choice([*shapes][-2:])
        shape = shapes[source]
        alike = [other for other in shapes if shapes[other] == shape]
        beside = [other for other in shapes if shapes[other][1:] == shape[1:] and other != source]
        kind = rng.choice(kinds)
        table: Json = {"name": name, "inputs": [source]}
        if kind == "a" and len(alike) > 1:
            other = rng.choice([each for each in alike if twice or each != source])
            table |= {"kind": "add", "inputs": [source, other], "input": list(shape)}
            shapes[name] = shape
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
