"""A small layer on a random hierarchy, with steps that divide or any, solved by every method."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.fuzz.problems import attack
from tests.fuzz.trials import Skip, Wrong
from tests.oracles import TooLarge, hierarchy
from tests.tiling import hierarchies

from tilewright.spec.errors import InputError
from tilewright.tiling import Problem

NIGHTLY = 6


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    kind = rng.choice(["any", "any", "tight", "uneven", "choosing"])
    if kind == "any":
        machine = hierarchies.machine(rng)
    else:
        machine = hierarchies.tight(rng, uneven=kind == "uneven", choosing=kind == "choosing")
    draw = rng.choice([hierarchies.layer, hierarchies.layer, hierarchies.long_layer, hierarchies.overlapping])
    memories = [level.name for level in machine.levels if not level.fanout]
    objective: dict[str, Any] = {
        "minimise": rng.choice(["accesses", "cycles", "energy", "edp"]),
        "level": None,
    }
    if objective["minimise"] == "accesses" and rng.random() < 0.5:
        objective["level"] = rng.choice(memories)
    table: dict[str, Any] = {
        "layer": draw(rng, rng.choice([4, 8, 12, 16])).model_dump(mode="json"),
        "machine": machine.model_dump(mode="json"),
        "objective": objective,
        "limits": {"factors": rng.choice(["any", "perfect"])},
    }
    try:
        Problem.model_validate(table)
    except InputError as error:
        try:
            least = hierarchy.best(table)
        except TooLarge as large:
            raise Skip from large
        if least is not None:
            told = f"refused, but a plan costs {least}: {error}\n{json.dumps({'room': 'tiling', **table})}"
            raise Wrong(told) from error
        return ["(refused)"]
    return attack(rng, scratch, "tiling", table, hierarchy)
