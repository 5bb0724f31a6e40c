"""Small pipelines on small arrays, solved by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.networks import network, read_inside
from tests.fuzz.problems import attack
from tests.oracles import allocation

NIGHTLY = 6


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    layers = network(rng, most=rng.choice([1, 2, 3, 4]), side=rng.choice([3, 5]))
    minimise = rng.choice(["interval", "pes", "latency", "latency", "pareto", "distance"])
    array = rng.choice([[1, 1], [1, 2], [2, 2], [1, 5], [2, 3], [3, 1], [3, 3], [2, 4]])
    machine: dict[str, Any] = {
        "array": array,
        "functional_units": rng.choice([1, 1, 2, 3]),
        "clock_mhz": rng.choice([1, 7]),
        "word_bits": rng.choice([8, 8, 5, 16]),
    }
    if rng.random() < 0.35 and minimise != "distance":
        machine["buffer_bytes"] = rng.choice(
            [rng.randint(1, 60), rng.randint(20, 300), rng.randint(100, 2000)]
        )
    limits: dict[str, Any] = {
        "splits": rng.choice([["filters"], ["filters", "maps"], ["maps"], ["maps", "filters"]]),
        "functional_units": rng.choice(["maps", "any"]),
        "scan": rng.choice(["rows", "fields"]),
    }
    if minimise in ("interval", "pes", "latency") and rng.random() < 0.25:
        limits["execution"] = "layer-by-layer"
    if minimise in ("interval", "pes", "distance") and limits["scan"] == "rows" and rng.random() < 0.4:
        limits["splits"] = rng.choice([["rows"], [*limits["splits"], "rows"]])
    if rng.random() < 0.25:
        given = rng.choice(list(layers))
        limits["pes"] = {given["name"]: rng.randint(1, 3)}
    table = {
        "network": read_inside(rng, layers),
        "machine": machine,
        "objective": {"minimise": minimise},
        "limits": limits,
    }
    if minimise == "pes" or rng.random() < 0.25:
        cycles = rng.choice([rng.randint(1, 60), rng.randint(10, 400), rng.randint(100, 4000)])
        table["objective"]["frames_per_second"] = machine["clock_mhz"] * 1e6 / cycles
    return attack(rng, scratch, "allocation", table, allocation)
