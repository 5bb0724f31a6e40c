"""Small bitwidth problems for tests: made by hand, and at random with weights and images in files."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numbered import ended, needed, tables
from tests.oracles import bitwidth as oracle

from tilewright.bitwidth import Plan, Problem, costs, violation
from tilewright.bitwidth.calibration import ranges_of
from tilewright.bitwidth.measurement import measure
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network

THESIS = {"input": 3.946, "weights": 0.2593, "output": 12.61, "absolute_weights": 27.41}
"""The ranges of the thesis's example in section 4.4, of a layer with K = 800."""

CHAIN: list[dict[str, Any]] = [
    {
        "name": "conv",
        "input": [2, 5, 5],
        "kernels": 3,
        "kernel": [3, 3],
        "padding": [1, 1, 1, 1],
        "bias": True,
    },
    {"name": "relu", "kind": "map", "op": "relu", "input": [3, 5, 5]},
    {"name": "pool", "kind": "pool", "input": [3, 5, 5], "kernel": [2, 2], "stride": [2, 2]},
    {"name": "fc", "kind": "fc", "inputs": 12, "outputs": 4},
]


def thesis_problem(bound: str, bits: int = 16) -> Problem:
    """Return the thesis's example as a problem."""
    layer = {"name": "conv2", "input": [32, 14, 14], "kernels": 64, "kernel": [5, 5]}
    return Problem(
        network={"layers": [layer]},
        ranges={"conv2": THESIS},
        machine={"accumulator_bits": bits},
        limits={"bound": bound},
    )


@st.composite
def problems(draw: st.DrawFn, minimise: str | None = None) -> Problem:
    """Return a network of one to four layers with ranges, a narrow machine and perhaps limits."""
    count = draw(st.integers(1, 4))
    layers, ranges = [], {}
    for number in range(count):
        inputs, outputs = draw(st.integers(1, 6)), draw(st.integers(1, 5))
        layers.append({"name": f"fc{number}", "kind": "fc", "inputs": inputs, "outputs": outputs})
        magnitude = st.floats(0.05, 20, allow_nan=False)
        known = {"input": draw(magnitude), "weights": draw(magnitude)}
        known["output"] = draw(st.floats(0.05, 3)) * known["input"] * known["weights"]
        known["absolute_weights"] = known["weights"] * draw(st.floats(1, inputs))
        ranges[f"fc{number}"] = known
    for layer, following in itertools.pairwise(layers):
        layer["outputs"] = following["inputs"]
    widths = draw(st.none() | st.sets(st.integers(3, 6), min_size=1, max_size=3).map(sorted))
    tables: dict[str, Any] = {
        "network": {"layers": layers},
        "ranges": ranges,
        "machine": {"accumulator_bits": draw(st.integers(14, 16)), "widths": widths or [3, 4, 5]},
        "objective": {"minimise": minimise or draw(st.sampled_from(["noise", "bits"]))},
        "limits": {"bound": draw(st.sampled_from(["worst_case", "absolute_weights", "output_range"]))},
    }
    free = Problem(**tables)
    points = [costs(free, plan) for plan in every_plan(free)]
    if draw(st.booleans()):
        tables["limits"]["bits"] = draw(st.sampled_from(points))[1]
    if draw(st.booleans()):
        noise = draw(st.sampled_from(points))[0]
        tables["limits"]["signal_to_noise_db"] = float(np.floor(100 * 10 * np.log10(1e9 / noise)) / 100)
    return Problem(**tables)


def every_plan(problem: Problem) -> list[Plan]:
    """Return all plans with widths that the accumulator allows, whatever the limits."""
    names = tuple(layer.name for layer in problem.layers)
    choices = [problem.candidates_of(layer) for layer in problem.layers]
    return [
        Plan(names, tuple((one.inputs, one.weights) for one in some)) for some in itertools.product(*choices)
    ]


def points(problem: Problem) -> list[tuple[int, int]]:
    """Return noise and bits of every valid plan, by enumeration."""
    kept = problem.minimise == "pareto"
    single = problem.with_(objective={"minimise": "noise"}) if kept else problem
    return [costs(single, plan) for plan in every_plan(single) if violation(single, plan) is None]


def write_data(folder: Path, seed: int = 0, images: int = 6) -> dict[str, str]:
    """Write weights and samples of `CHAIN`; return the table that names them."""
    random = np.random.default_rng(seed)
    np.savez(
        folder / "weights.npz",
        **{
            "conv.weights": random.normal(0, 0.4, (3, 2, 3, 3)),
            "conv.bias": random.normal(0, 0.1, 3),
            "fc.weights": random.normal(0, 0.4, (4, 12, 1, 1)),
        },
    )
    inputs = random.normal(0, 1, (images, 2, 5, 5))
    np.savez(folder / "samples.npz", inputs=inputs, labels=random.integers(0, 4, images))
    return {"weights": str(folder / "weights.npz"), "samples": str(folder / "samples.npz")}


def chain(folder: Path, bits: int = 16, bound: str = "output_range", seed: int = 0, **more: Any) -> Problem:
    """Return `CHAIN` with data and the ranges of it."""
    data = write_data(folder, seed)
    return Problem(
        network={"layers": CHAIN},
        ranges=ranges_of({"layers": CHAIN}, **data),
        machine={"accumulator_bits": bits, **more.pop("machine", {})},
        limits={"bound": bound, **more.pop("limits", {})},
        data=data,
        **more,
    )


# For the oracle ------------------------------------------------------------------------------------------

BOUNDS = ("worst_case", "absolute_weights", "output_range")
FUNCTIONS = ("relu", "relu", "identity", "dropout", "tanh", "sigmoid", "softmax")

Widths = dict[str, tuple[int, int]]


def network_at_random(random: Random) -> list[dict[str, Any]]:
    """Return the layers of a network of one output, at least one of them with widths."""
    while True:
        layers = needed(ended(random, tables(random, FUNCTIONS)))
        if any(layer.get("kind", "conv") in ("conv", "fc") for layer in layers):
            return layers


def table_at_random(random: Random) -> dict[str, Any]:
    """Return the tables of a problem without data, with every key now and then."""
    network = Network(layers=network_at_random(random))
    few = random.sample(range(1, 10), random.randint(1, 3))
    table: dict[str, Any] = {
        "network": {"layers": [layer.model_dump() for layer in network.layers]},
        "machine": {"accumulator_bits": random.choice([8, 10, 12, 14, 16, 20]), "widths": few},
        "objective": {"minimise": random.choice(["noise", "bits", "pareto"])},
        "limits": {"bound": random.choice(BOUNDS)},
        "ranges": {
            layer.name: _range_at_random(random, layer.macs_per_output) for layer in network.convolutions
        },
    }
    if random.random() < 0.3:
        del table["machine"]["widths"]
        table["machine"]["accumulator_bits"] = random.choice([6, 8, 10])
    if random.random() < 0.4:
        table["limits"]["signal_to_noise_db"] = random.choice([random.uniform(-5, 40), 10.0, 20.0, 30.0])
    if random.random() < 0.4:
        table["limits"]["bits"] = random.choice([random.randint(10, 500), random.randint(100, 4000)])
    return table


def _range_at_random(random: Random, taps: int) -> dict[str, float]:
    """Return ranges; powers of two and others, with the optional keys now and then."""

    def magnitude() -> float:
        return 2.0 ** random.choice([random.uniform(-5, 5), random.randint(-5, 5)])

    known = {"input": magnitude(), "weights": magnitude()}
    known["output"] = known["input"] * known["weights"] * random.uniform(0.05, taps)
    known["absolute_weights"] = known["weights"] * random.choice([1, taps, random.uniform(1, taps)])
    for what in ("input", "weights"):
        if random.random() < 0.5:
            known[f"{what}_power"] = known[what] ** 2 * random.uniform(0.001, 1)
    if random.random() < 0.5:
        known["input_density"] = random.uniform(0.01, 1)
        known["coherence"] = random.uniform(0.01, 20)
    return known


def executed_at_random(random: Random, folder: Path) -> tuple[Problem, Widths]:
    """Return a problem with data, and widths for it, which the accumulator need not allow.

    Some ranges are less than what the samples have, so that values saturate.
    """
    layers, rng = network_at_random(random), np.random.default_rng(random.getrandbits(32))
    network, arrays = Network(layers=layers), {}
    for layer in network.convolutions:
        spread = random.choice([0.1, 1, 3])
        arrays[f"{layer.name}.weights"] = rng.normal(0, spread, layer.kernels_shape)
        if layer.bias:
            arrays[f"{layer.name}.bias"] = rng.normal(0, 1, layer.kernels)
    images = rng.normal(0, random.choice([0.2, 1, 9]), (random.randint(1, 3), *network.layers[0].input))
    if random.random() < 0.3:
        images = np.round(2 * images) / 2  # halves, which are rounded away from zero
    samples: dict[str, Any] = {"inputs": images, "scale": random.choice([1, 0.5, 0.3])}
    if random.random() < 0.5:
        samples["labels"] = rng.integers(0, np.prod(network.layers[-1].output), len(images))
    np.savez(folder / "weights.npz", **arrays)
    np.savez(folder / "samples.npz", **samples)
    data = {"weights": str(folder / "weights.npz"), "samples": str(folder / "samples.npz")}
    seen = ranges_of({"layers": layers}, **data, executor="reference")
    ranges, bound = {name: each.model_dump() for name, each in seen.items()}, random.choice(BOUNDS)
    for known in ranges.values():
        if random.random() < 0.3:
            known["input"] *= random.choice([0.05, 0.3, 0.6, 2])
            known["input_power"] = None
        if random.random() < 0.3:
            known["output"] *= random.choice([0.3, 0.6, 2])
        elif bound != "output_range" and random.random() < 0.3:
            known["output"] = None
    # Halves of steps above one are where functions saturate, which rounding of the last digit then tells.
    least = 4 if any(layer.get("op") in FUNCTIONS[4:] for layer in layers) else 1
    most = random.choice([4, 8, 8, 16, 32])
    few: dict[str, Any] = {"images": 1} if random.random() < 0.2 else {}
    names = [layer.name for layer in network.convolutions]
    widths = {name: (random.randint(least, most), random.randint(least, most)) for name in names}
    for bits in range(random.choice([6, 8, 10, 12, 16, 24, 32, 40]), 41):
        try:
            tables = {"network": {"layers": layers}, "ranges": ranges, "data": data | few}
            machine = {"accumulator_bits": bits}
            return Problem(**tables, machine=machine, limits={"bound": bound}), widths
        except InputError as error:
            if error.field != "machine.accumulator_bits":
                raise
    return executed_at_random(random, folder)


def differences(problem: Problem, widths: Widths) -> list[str]:
    """Return what `measure` tells of widths that the walker in plain integers does not."""
    assert problem.data is not None
    plan = Plan(tuple(widths), tuple(widths.values()))
    found = measure(problem, plan, most_images=problem.data.images)
    told = oracle.walk(problem.model_dump(mode="json"), widths)
    classes = list(zip(*told.classes, strict=True))
    labels = problem.samples.labels
    right = [
        None if labels is None else sum(map(int.__eq__, each, labels[: len(each)].tolist()))
        for each in classes
    ]
    pairs: dict[str, tuple[Any, Any]] = {
        "right": ([found.right, found.float_right], right),
        "saturated": (+found.saturated, +told.saturated),
        "images": (found.images, len(told.classes)),
        "agreeing": (found.agreeing, sum(ours == exact for ours, exact in told.classes)),
        "layers": (found.layers.keys(), told.layers.keys()),
    }
    near = {"network": (found, told)}
    for name, layer in told.layers.items():
        measured = found.layers[name]
        pairs[name] = (
            (measured.sums, measured.overflows, measured.located),
            (layer.sums, len(layer.overflows), layer.overflows[:8]),
        )
        near[name] = measured, layer
    wrong = [f"{what}: {one}, by hand {other}" for what, (one, other) in pairs.items() if one != other]
    for what, (one, other) in near.items():
        for kind, least in (("signal", 0.0), ("noise", 1e-20 * other.signal)):
            ours, theirs = getattr(one, kind), getattr(other, kind)
            if abs(ours - theirs) > 1e-6 * abs(theirs) + least:
                wrong.append(f"{kind} of {what}: {ours}, by hand {theirs}")
    return wrong
