"""Small bitwidth problems for tests: made by hand, and at random with weights and images in files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.bitwidth import Plan, Problem, costs, violation
from tilewright.bitwidth.calibration import ranges_of

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
