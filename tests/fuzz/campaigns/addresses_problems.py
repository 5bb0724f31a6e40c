"""A few buffers in a memory, placed by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.problems import attack
from tests.oracles import addresses

NIGHTLY = 40


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    return attack(rng, scratch, "addresses", table_at_random(rng), addresses)


def table_at_random(rng: random.Random) -> dict[str, Any]:
    """Return the tables of a problem, whose capacity may be the least, one less, or any."""
    count, times, sizes = rng.randint(1, 7), rng.choice([1, 2, 4, 6, 9]), rng.choice([1, 2, 3, 7, 20])
    buffers = []
    for number in range(count):
        lower = rng.randrange(times)
        upper = rng.randint(lower + 1, min(times, lower + rng.choice([1, 2, times])))
        buffers.append({"id": f"b{number}", "lower": lower, "upper": upper, "size": rng.randint(1, sizes)})
    memory: dict[str, Any] = {"capacity": None, "alignment": rng.choice([1, 1, 1, 2, 3, 4, 8])}
    least = addresses.best({"buffers": buffers, "memory": memory})
    assert least is not None
    capacity = rng.choice([None, least, least, max(1, least - 1), rng.randint(1, 2 * least)])
    return {
        "buffers": buffers,
        "memory": memory | {"capacity": capacity} if capacity else {"alignment": memory["alignment"]},
    }
