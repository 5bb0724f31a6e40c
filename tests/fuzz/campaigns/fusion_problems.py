"""Small networks on small accelerators, solved by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.networks import network, read_inside
from tests.fuzz.problems import attack
from tests.oracles import fusion

from tilewright.run.instance import parse
from tilewright.spec.errors import InputError

NIGHTLY = 4


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    layers = network(rng, most=rng.choice([1, 2, 3, 3, 4, 5]), side=rng.choice([2, 4, 6]), twice=False)
    if rng.random() < 0.1:
        layers.append({"name": "last", "kind": "fc", "inputs": [layers[-1]["name"]],
                       **_flat(layers[-1])})  # fmt: skip
    room = rng.choice([60, 200, 1000, 100_000])
    machine: dict[str, Any] = {
        "conv_array": [rng.choice([1, 2, 4, 16]), rng.choice([1, 2, 4, 16]), rng.choice([1, 2, 3, 8])],
        "arrays": rng.choice([1, 1, 1, 2, 3]),
        "clock_mhz": rng.choice([1, 3, 330]),
        "element_bytes": rng.choice([1, 1, 2]),
        "load_mb_per_s": rng.choice([1, 2, 5, 1900]),
        "save_mb_per_s": rng.choice([1, 2, 5, 1900]),
        "operands_per_cycle": rng.choice([1, 4, 48]),
        "issue_cycles": rng.choice([0, 0, 17, 1000]),
    }
    if rng.random() < 0.3:
        machine["layouts"] = {
            "burst_bytes": rng.choice([1, 4, 64]),
            "burst_cycles": rng.choice([0, 3, 20]),
            "direct": rng.choice([["NHWC", "NCHW"], ["NHWC"], ["NCHW"]]),
            "input": rng.choice(["any", "NHWC", "NCHW"]),
            "output": rng.choice(["any", "NHWC", "NCHW"]),
            "copies": {"cycles_per_byte": rng.choice([0, 0.3]), "cycles_per_call": rng.choice([0, 50])},
        }
    for name in ("input_bytes", "output_bytes", "parameter_bytes"):
        machine[name] = rng.choice([rng.randint(1, room), room])
    minimise = rng.choice(["cycles", "cycles", "traffic", "energy", "memory"])
    if minimise == "energy" or rng.random() < 0.5:
        machine["energy"] = {
            "pj_per_dram_byte": rng.choice([0, 7, 500]),
            "pj_per_mac": rng.choice([0, 1, 70]),
            "milliwatts": rng.choice([1, 3, 500]),
        }
    table: dict[str, Any] = {
        "network": read_inside(rng, layers),
        "machine": machine,
        "objective": {"minimise": minimise},
        "limits": {"halo": rng.choice(["any", "any", "any", "recompute", "keep"])},
    }
    if minimise == "memory" and rng.random() < 0.6:
        table["objective"]["most_cycles"] = rng.choice([rng.randint(1, 500), rng.randint(100, 20_000)])
    if rng.random() < 0.6:
        for _ in range(9):  # some match nothing in the network, and are refused
            templates = _templates(rng)
            try:
                parse({"room": "fusion", **table, "templates": templates})
            except InputError as error:
                if error.field.startswith("templates"):
                    continue
            table["templates"] = templates
            break
    return attack(rng, scratch, "fusion", table, fusion)


def _flat(layer: dict[str, Any]) -> dict[str, Any]:
    """Return what a fully connected layer behind another one has."""
    plane = []
    for axis in (0, 1):
        kernel, stride = layer.get("kernel", [1, 1])[axis], layer.get("stride", [1, 1])[axis]
        pad, dilation = layer.get("padding", [0] * 4), layer.get("dilation", [1, 1])[axis]
        size = layer["input"][1 + axis] + pad[2 * axis] + pad[2 * axis + 1]
        plane.append((size - (kernel - 1) * dilation - 1) // stride + 1)
    count = layer.get("kernels", layer["input"][0]) * plane[0] * plane[1]
    return {"input": [count, 1, 1], "kernels": 3, "kernel": [1, 1]}


def _templates(rng: random.Random) -> list[dict[str, Any]]:
    """Return templates that match something in many networks."""
    pool: list[dict[str, Any]] = [
        {"nodes": ["any", "any"], "edges": [[0, 1]]},
        {"nodes": ["conv", "pool"], "edges": [[0, 1]]},
        {"nodes": ["any", "any", "any"], "edges": [[0, 1], [1, 2]]},
        {"nodes": ["conv|pool", "any", "add"], "edges": [[0, 1], [0, 2], [1, 2]]},
        {"nodes": ["source", "any", "any"], "edges": [[0, 1], [0, 2]]},
        {"nodes": ["any", "any", "any"], "edges": [[0, 1], [0, 2]]},
        {"nodes": ["any", "any", "any"], "edges": [[0, 2], [1, 2]]},
        {"nodes": ["any", "any", "any"], "edges": [[0, 1], [0, 2], [1, 2]]},
        {"block": True},
        {"block": True, "most": 3},
    ]
    chosen = rng.sample(pool, rng.choice([1, 1, 2, 3]))
    for number, template in enumerate(chosen):
        template["name"] = f"t{number}"
        if "nodes" in template and rng.random() < 0.2:
            template["whole"] = True
    return chosen
