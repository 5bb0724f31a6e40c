"""Random loop nests, and plans of residency, as C: no warning, no report of sanitizers, the right numbers."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.codegen import residency_in_c
from tests.codegen import test_emit as codegen
from tests.fuzz.trials import Skip, Wrong

from tilewright.codegen import EMITTED, emit
from tilewright.tiling import Plan
from tilewright.tiling.dsp.plan import ORDERED, DspPlan

NIGHTLY = 2

CASES = 3
"""Layers of a trial, which are compiled together."""

SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

NAMES = [
    "layer", "", "int", "main", "dma_get", "é", "3x3", "a/b.c-d", "*/ int x; /*", "??/", "x\\", "\t",
    "restrict", "_", "data_t", "A" * 300, "%s%n", '"', "// /*", "NULL", "B_in", "local_memory", "run",
]  # fmt: skip
"""Names and sources, as instances may have them, in a language that gives some of them a meaning."""


def side(rng: random.Random) -> tuple[int, int, int, int, list[int]]:
    """Return length, kernel, stride, dilation and padding along one dimension of space."""
    kernel, stride, dilation = rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 3)
    extent = dilation * (kernel - 1) + 1
    pads = [rng.randint(0, extent - 1) for _ in range(2)]
    length = extent + stride * rng.randint(0, 6) + rng.randint(0, stride - 1)
    return max(1, length - sum(pads)), kernel, stride, dilation, pads


def case(rng: random.Random) -> codegen.Case:
    """Return a random layer with a random plan for it."""
    groups = rng.choice([1, 1, 2, 3])
    height, width = side(rng), side(rng)
    layer: dict[str, Any] = {
        "input": [groups * rng.randint(1, 4), height[0], width[0]],
        "kernels": groups * rng.randint(1, 4),
        "kernel": [height[1], width[1]],
        "stride": [height[2], width[2]],
        "dilation": [height[3], width[3]],
        "padding": [*height[4], *width[4]],
        "groups": groups,
        "batch": rng.randint(1, 3),
    }
    if rng.random() < 0.1:
        layer = {"kind": "fc", "inputs": rng.randint(1, 40), "outputs": rng.randint(1, 20)}
    problem = codegen.make_problem(
        layer,
        padding=rng.choice(["loaded", "generated"]),
        element_bytes=rng.choice([1, 2, 4, 8]),
        double_buffering=rng.random() < 0.5,
    )
    tile = tuple(rng.randint(1, size) for size in codegen.sizes_of(problem))
    order = "".join(rng.sample(ORDERED, len(ORDERED)))
    return codegen.Case(problem, DspPlan(tile, order, rng.choice(EMITTED)))  # type: ignore[arg-type]


def trial(rng: random.Random, scratch: Path) -> None:
    """Emit, compile and run a few layers, or a network in one memory."""
    if not codegen.COMPILERS:
        raise Skip
    if rng.random() < 0.5:
        layers(rng, scratch)
        return
    try:
        residency_in_c.assert_any_is_right(rng, scratch, NAMES)
    except (AssertionError, subprocess.SubprocessError) as error:
        raise Wrong(str(error)) from error


def layers(rng: random.Random, scratch: Path) -> None:
    """Emit, compile and run a few layers."""
    cases = [case(rng) for _ in range(CASES)]
    texts, names = [], []
    for number, each in enumerate(cases):
        name = f"{rng.choice(NAMES)}{number}" if rng.random() < 0.9 else f"{number}{rng.choice(NAMES)}"
        text = emit(name, rng.choice(NAMES), each.problem, Plan((each.plan,)))
        found = re.findall(r"^void (\w+)\(const data_t \*in", text, re.MULTILINE)
        if len(found) != 1 or found[0] in names:
            raise Wrong(f"{name!r} is called {found}, others are called {names}")
        texts.append(text)
        names += found
    try:
        codegen.run(cases, texts, names, scratch, SANITIZED)
    except (AssertionError, subprocess.SubprocessError) as error:
        raise Wrong(f"{names}: {error}\n{cases}") from error
