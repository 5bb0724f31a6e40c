"""What property tests draw reaches layers that are thin, of prime sizes, with wide strides, of one map."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tilewright.grouping import Problem as Grouping
from tilewright.tiling import Problem as Tiling

PRIMES = {3, 5, 7, 11, 13}


def _spans(table: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the stride and the extent of the kernel along each axis."""
    dilation = table.get("dilation", (1, 1))
    extent = [step * (size - 1) + 1 for size, step in zip(table["kernel"], dilation, strict=True)]
    return [*zip(table.get("stride", (1, 1)), extent, strict=True)]


KINDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "one high": lambda layer: layer["input"][1] == 1 < layer["input"][2],
    "one wide": lambda layer: layer["input"][2] == 1 < layer["input"][1],
    "prime sizes": lambda layer: {*layer["input"][1:]} <= PRIMES and layer["input"][1] != layer["input"][2],
    "a stride beyond the kernel": lambda layer: any(stride > extent for stride, extent in _spans(layer)),
    "one kernel": lambda layer: layer["kernels"] == 1,
}
"""What a convolution's table tells."""


def drawn(module: str, name: str, **options: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of a module of tests."""
    strategy: st.SearchStrategy[Any] = getattr(importlib.import_module(module), name)(**options)
    return strategy


def seeded(module: str, name: str, **options: Any) -> st.SearchStrategy[Any]:
    """Return a strategy that draws what a function makes at random."""
    make = getattr(importlib.import_module(module), name)
    return st.integers(0, 2**32 - 1).map(lambda seed: make(Random(seed), **options))


STRATEGIES: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "grouping, plans": lambda: drawn("grouping.test_problem_plan", "problems"),
    "grouping, bounds": lambda: drawn("grouping.test_bounds", "problems", most_patches=9, side=9),
    "grouping, exact": lambda: drawn("exact_cases", "tiny"),
    "grouping, heuristics": lambda: drawn("heuristics.test_grouping", "problems"),
    "grouping, fuzz": lambda: seeded("tests.fuzz.campaigns.grouping_problems", "_layer", outputs=(1, 3)),
    "tiling, dsp": lambda: drawn("tiling.layers", "problems"),
    "tiling, npu": lambda: drawn("tiling.test_npu", "problems"),
    "tiling, bounds": lambda: drawn("tiling.test_dsp_bounds", "handfuls", most_macs=8),
    "tiling, heuristics": lambda: drawn("heuristics.test_tiling", "problems"),
    "tiling, emitted C": lambda: drawn("codegen.test_emit", "random_cases"),
    "tiling, fuzz": lambda: seeded("tests.fuzz.campaigns.tiling_problems", "layer"),
    "allocation": lambda: drawn("allocation.pipelines_at_random", "networks"),
    "fusion": lambda: seeded("fusion.fusion_at_random", "network"),
    "networks, fuzz": lambda: seeded("tests.fuzz.networks", "network", most=4, side=7),
    "simulator, numbers": lambda: drawn("simulator.test_numeric", "layers"),
    "simulator, times": lambda: drawn("simulator.test_timing", "grouping_programs"),
}
"""By room and what they are for."""


def convolutions(drawn: Any) -> list[dict[str, Any]]:
    """Return the tables of all convolutions in what a strategy draws."""
    if isinstance(drawn, Grouping):
        return [drawn.layer.model_dump()]
    if isinstance(drawn, Tiling):
        return [drawn.one_layer.model_dump()]
    if isinstance(drawn, tuple | list):
        return [layer for part in drawn for layer in convolutions(part)]
    if isinstance(drawn, dict):
        tables = drawn.get("layers", [drawn])
        return [table for table in tables if "kernels" in table]
    return convolutions(drawn.problem) if hasattr(drawn, "problem") else []


SLOW = {"tiling, bounds"}
"""Where there are few MACs, one kind is rare."""


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "strategy", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in STRATEGIES]
)
def test_strategies_reach_each_kind_of_layer(strategy: str) -> None:
    reached: set[str] = set()

    def all_are(example: Any) -> bool:
        tables = convolutions(example)
        reached.update(kind for kind, holds in KINDS.items() if any(map(holds, tables)))
        return len(reached) == len(KINDS)

    quick = settings(
        max_examples=3000,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    with suppress(NoSuchExample):
        find(STRATEGIES[strategy](), all_are, settings=quick)
    assert reached == {*KINDS}
