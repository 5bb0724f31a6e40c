"""Layers of few patches, solved by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.problems import attack
from tests.oracles import grouping

NIGHTLY = 6

PLANES = [(1, n) for n in range(1, 8)] + [
    (2, 2),
    (2, 3),
    (3, 2),
    (2, 4),
    (3, 3),
    (4, 2),
    (5, 1),
    (7, 1),
    (4, 1),
]


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    return attack(rng, scratch, "grouping", table_at_random(rng), grouping)


def table_at_random(rng: random.Random) -> dict[str, Any]:
    """Return the tables of a problem of up to nine patches."""
    rows, columns = rng.choice(PLANES)
    layer, patch = _layer(rng, (rows, columns))
    machine: dict[str, Any] = {
        "load": rng.choice([0, 1, 1, 1, 3]),
        "write": rng.choice([0, 1, 2]),
        "compute": rng.choice([0, 1, 1, 5, 40]),
        "kernels": rng.choice(["preloaded", "step1"]),
        "outputs": rng.choice(["each_step", "kept"]),
        "padding": rng.choice(["loaded", "generated"]),
    }
    size = rng.choice([1, 2, 2, 3, 3, 4, rows * columns])
    weights = layer["kernels"] * patch * layer["input"][0] // layer["groups"]
    if rng.random() < 0.3:
        machine["macs_per_step"] = weights * layer["batch"] * size + rng.choice([0, 1])
    else:
        machine["group_size"] = size
    if rng.random() < 0.5:
        one = weights + layer["batch"] * (layer["kernels"] + layer["input"][0] * patch)
        most = weights + size * layer["batch"] * (layer["kernels"] + layer["input"][0] * patch)
        machine["memory"] = rng.randint(one, most + 2)
    fewest = -(-rows * columns // min(size, rows * columns))
    return {
        "layer": layer,
        "machine": machine,
        "limits": {
            "steps": rng.choice(["free", "free", "kmin", rng.randint(fewest, rows * columns)]),
            "reloads": rng.choice([0, 1, 2, 2, 3]),
        },
        "objective": {
            "minimise": rng.choice(["loads", "duration"]),
            "count": rng.choice(["elements", "pixels"]),
        },
    }


def _layer(rng: random.Random, outputs: tuple[int, int]) -> tuple[dict[str, Any], int]:
    """Return a layer with these outputs, and how many positions its kernel has."""
    kernel = [rng.choice([1, 2, 2, 3, 3, 4]) for _ in range(2)]
    dilation = [rng.choice([1, 1, 1, 2, 3]) for _ in range(2)]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    stride = [rng.choice([1, 1, 1, 2, 3, 5]) for _ in range(2)]
    padding = [rng.choice([0, 0, rng.randrange(size)]) for size in extent for _ in range(2)]
    plane = []
    for axis in (0, 1):
        padded = (outputs[axis] - 1) * stride[axis] + extent[axis] + rng.randrange(stride[axis])
        while padded - padding[2 * axis] - padding[2 * axis + 1] < 1:
            padding[2 * axis + rng.randrange(2)] = 0
        plane.append(padded - padding[2 * axis] - padding[2 * axis + 1])
    groups = rng.choice([1, 1, 1, 2])
    return {
        "input": [groups * rng.randint(1, 2), *plane], "kernels": groups * rng.randint(1, 2),
        "kernel": kernel,
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        "batch": rng.choice([1, 1, 2]),
    }, kernel[0] * kernel[1]  # fmt: skip
