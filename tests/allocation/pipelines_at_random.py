"""Random small networks, as chains and branching graphs, for property tests of pipelines and of groups."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from tests.fuzz.networks import network, read_inside
from tests.oracles.allocation import Pipeline

from tilewright import AllocationProblem
from tilewright.spec.errors import InputError

Json = dict[str, Any]


EXECUTIONS = ("layer-parallel", "layer-parallel", "layer-by-layer")
"""How layers are executed, by default twice as often at the same time."""

GOALS = ("interval", "pes", "latency")
"""What is minimised by default."""


def networks(most_layers: int = 5, side: int = 7) -> st.SearchStrategy[dict[str, Any]]:
    """Draw tables of convolutions (some depthwise, strided or dilated), pools and sums."""

    def table(seed: int) -> dict[str, Any]:
        rng = Random(seed)
        return read_inside(rng, network(rng, most_layers, side, kinds="ccpad"))

    return st.integers(0, 2**32 - 1).map(table)


def prices(random: Random) -> dict[str, int]:
    """Return prices of all that takes energy, leakage among it or not."""
    names = ("mac_fj", "register_fj", "hop_fj", "buffer_read_fj", "buffer_write_fj", "off_chip_fj_per_byte")
    found = {name: random.choice([0, 1, 2, 5, 30]) for name in names}
    if random.random() < 0.7:
        found["pe_fj_per_cycle"] = random.choice([0, 1, 3, 20])
        found["idle_pe_fj_per_cycle"] = random.randint(0, found["pe_fj_per_cycle"])
    return found


def pipeline(
    random: Random,
    *,
    buffers: bool = False,
    wide: int = 2,
    goals: tuple[str, ...] = GOALS,
    host: bool = False,
) -> AllocationProblem:
    """Return a random problem of few plans, with all kinds of limits.

    Parameters
    ----------
    buffers
        Whether they are limited.
    wide
        By how many PEs at most the array has more than there are layers.
    goals
        One of these is minimised; with energy or a front of it among them, the machine has prices.
    host
        Whether layers wait for what the host computes.
    """
    if host:  # a map that is added to itself, or multiplied by itself, is part of the layer before
        layers = network(random, 5, 4, channels=4, kinds="ccpamsf", twice=False)
    else:
        layers = network(random, 3, 4, channels=4, kinds="ccpa")
    assume(len(layers) > 1)
    minimise = random.choice(goals)
    divided = random.choice([["filters"], ["filters", "maps"], ["filters", "rows"]])
    if minimise == "latency":
        divided = divided[: 1 + (divided[-1] == "maps")]
    scan = random.choice(["rows", "rows", "fields"]) if "rows" not in divided else "rows"
    machine: Json = {"array": [1, len(layers) + random.randint(1, wide)], "clock_mhz": 1}
    machine["functional_units"] = random.randint(1, 2)
    if host:
        machine["array"][1] = random.randint(2, 5)
        if random.random() < 0.9:
            rate = random.choice([0.0, 0.1, 0.5, 2.25])
            machine["host"] = {"cycles_per_byte": rate, "cycles_per_call": random.choice([0, 3, 40])}
    if buffers:
        machine["buffer_bytes"] = random.randint(30, 250)
    if set(goals) & {"energy", "pareto"}:
        machine["energy"] = prices(random)
    objective: Json = {"minimise": minimise}
    if minimise == "pareto":
        objective["between"] = ["interval", "energy"]
    if minimise == "pes" or random.random() < 0.2:
        objective["frames_per_second"] = 1e6 / random.randint(20, 400)
    limits: Json = {"splits": divided, "scan": scan, "functional_units": random.choice(["maps", "any"])}
    limits["execution"] = random.choice(["layer-parallel"] * 3 + ["layer-by-layer"])
    if random.random() < 0.15:
        limits["pes"] = {layers[0]["name"]: random.randint(1, 2)}
    try:
        found = AllocationProblem.model_validate(
            {"network": {"layers": layers}, "machine": machine, "objective": objective, "limits": limits}
        )
    except InputError:
        assume(False)
        raise
    assume(not host or found.steps)
    return found


def with_border(random: Random, executions: tuple[str, ...] = EXECUTIONS) -> AllocationProblem:
    """Return a small problem whose plans decide what stays on chip."""
    layers = network(random, 3, 4, channels=4, kinds="ccpa")
    assume(len(layers) > 1)
    machine: Json = {
        "array": [1, len(layers) + random.randint(0, 2)],
        "clock_mhz": random.choice([1, 3]),
        "functional_units": random.randint(1, 2),
        "word_bits": random.choice([8, 8, 5, 16]),
        "off_chip": {"mb_per_s": random.choice([1, 2, 7, 100])},
    }
    if random.random() < 0.85:
        machine["buffer_bytes"] = random.randint(5, 250)
    limits: Json = {
        "splits": random.choice([["filters"], ["filters", "maps"]]),
        "scan": random.choice(["rows", "rows", "fields"]),
        "functional_units": random.choice(["maps", "any"]),
        "execution": random.choice(executions),
    }
    goal: Json = {"minimise": "interval"}
    if random.random() < 0.15:
        goal["frames_per_second"] = 1e6 * machine["clock_mhz"] / random.randint(20, 600)
    try:
        return AllocationProblem.model_validate(
            {"network": {"layers": layers}, "machine": machine, "objective": goal, "limits": limits}
        )
    except InputError:
        assume(False)
        raise


def loads_of_plans(oracle: Pipeline) -> set[tuple[int, ...]]:
    """Return the loads of the layers in all plans of few enough PEs; in pipelines the longest is enough."""
    loads = set()
    for splits in product(*(oracle.splits(layer) for layer in oracle.layers)):
        pes = [split.pes for split in splits]
        if (sum(pes) if oracle.parallel else max(pes)) <= oracle.pes:
            each = tuple(layer.load(split) for layer, split in zip(oracle.layers, splits, strict=True))
            loads.add((max(each),) * 2 if oracle.parallel else each)
    return loads
