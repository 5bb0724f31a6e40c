"""Small networks in a memory that is mostly too small for them, solved by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.networks import network
from tests.fuzz.oracles import residency
from tests.fuzz.problems import attack

from tilewright.run.instance import parse

IN_CI = 24

PLENTY = 2**20


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    most = rng.choice([1, 2, 3, 3, 4, 4, 5, 6])
    side = 2 if most > 5 else rng.choice([2, 3, 4, 6])
    kinds = rng.choice(["cccpda", "cccpda", "ccdama", "ccpdamfsrj", "cddaa"])
    layers = network(
        rng, most, side, rng.choice([1, 2, 3]), kinds, twice=False, back=rng.choice([1, 2, 3, 4])
    )
    width = rng.choice([1, 1, 1, 2, 3])
    table: dict[str, Any] = {
        "network": {"layers": layers},
        "machine": {"memory_bytes": PLENTY, "element_bytes": width},
        "limits": {"order": rng.choice(["any", "any", "any", "given"])},
    }
    if rng.random() < 0.25:
        table["limits"]["most_operations"] = rng.randint(1, 3)
    # From a byte too little on, up to what holds about all.
    graph = residency.Graph(parse({"room": "residency", **table}).problem.model_dump(mode="json"))
    least, everything = graph.least_memory(), sum(graph.sizes) + sum(op.weights for op in graph.ops)
    assert least is not None
    room = rng.choice([least, rng.randint(least, 2 * least), rng.randint(least, least + everything)])
    table["machine"]["memory_bytes"] = max(1, room * width - rng.choice([0, 0, 0, 0, 0, 0, 0, 1]))
    if rng.random() < 0.3:
        table["objective"] = {"minimise": "memory"}
        if rng.random() < 0.8:
            low, high = (graph.least_traffic(size) for size in (least + everything, least))
            assert low is not None and high is not None
            table["objective"]["most_traffic"] = rng.randint(low - 1, max(low, high)) * width or 1
    return attack(rng, scratch, "residency", table, residency)
