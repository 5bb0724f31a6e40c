"""A few operations on a small array and a small memory, scheduled by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.problems import attack
from tests.oracles import scheduling
from tests.scheduling.graphs_at_random import problem_at_random, product_at_random

NIGHTLY = 12


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    if rng.random() < 0.2:
        product: dict[str, Any] = product_at_random(rng.randrange(10**6)).model_dump(mode="json")
        return attack(rng, scratch, "scheduling", product, scheduling)
    operations = rng.choice([1, 1, 2, 2, 3, 3, 4])
    # Tiles that do not fill their tensors, and a few of them in any order: sizes up to twice the array's.
    side = rng.choice([2, 3, 4]) if operations > 2 else rng.choice([2, 4, 6, 8])
    native = rng.choice([2, 3, 4, 5]) if operations < 3 else rng.choice([2, 2, 3]) if operations < 4 else 2
    table: dict[str, Any] = problem_at_random(rng.randrange(10**6), operations, side, native).model_dump(
        mode="json"
    )
    graph = table["graph"]
    graph["native_granularity"] = [rng.randint(1, native), rng.randint(1, native)]
    graph["base_costs"] = [rng.choice([0, rng.randint(0, 8), cost]) for cost in graph["base_costs"]]
    graph["fast_memory_capacity"] = rng.randint(2, 2 * graph["fast_memory_capacity"])
    return attack(rng, scratch, "scheduling", table, scheduling)
