"""Widths of small networks, chosen by every method; and small networks measured in integers."""

from __future__ import annotations

import random
from pathlib import Path

from tests.bitwidth.bits_at_random import differences, executed_at_random, table_at_random
from tests.fuzz.problems import attack
from tests.fuzz.trials import Wrong
from tests.oracles import bitwidth

NIGHTLY = 20


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem, and measure another."""
    problem, widths = executed_at_random(rng, scratch)
    if wrong := differences(problem, widths):
        raise Wrong(f"{wrong} of {problem.model_dump_json()}")
    return ["(measured)", *attack(rng, scratch, "bitwidth", table_at_random(rng), bitwidth)]
