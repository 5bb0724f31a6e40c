"""Results of former versions, called optimal, that are not: `check` refutes them, `solve` does better."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tw

FOLDER = Path(__file__).parent / "refuted"

FORMER = {
    # name: (what was called optimal, what is optimal), by hand or by the oracles of tests/oracles
    "any-bound.toml": (399_000_000, 385_000_000),
    "branches.toml": (6_185, 6_105),
    "chain.json": (52_429, 51_119),
    "dilated-window.toml": (68, 52),
    "in-place-2.toml": (776, 200),
    "in-place.toml": (9_672, 7_656),
    "kernels-keep.toml": (90, 88),
    "output-width.toml": (78, 54),
    "pool-one-position-npu.toml": (92, 84),
    "pool-one-position.toml": (78, 70),
    "ragged-tiles.json": (2_458, 2_356),
}


@pytest.mark.parametrize("name", FORMER)
def test_what_was_called_optimal_is_refuted(name: str) -> None:
    former, least = FORMER[name]
    instance = tw.read(FOLDER / name)
    told = tw.Result.read((FOLDER / name).with_suffix(".result.json"))
    assert (told.status, told.objective, told.bound) == ("optimal", former, former)
    states = {found.what: found.state for found in tw.check(instance, told, time_limit=60)}
    assert states["bound"] == "refuted", states
    result = tw.solve(instance, time_limit=60)
    assert (result.status, result.objective, result.bound) == ("optimal", least, least)
