"""Tiling: every tile, order and reuse (docs/tiling.md), every partition and schedule (docs/npu.md)."""

from __future__ import annotations

from tests.fuzz.oracles import dsp, npu
from tests.fuzz.oracles.dsp import Json


def best(problem: Json) -> int | list[tuple[int, int]] | None:
    """Return the least cost of all plans, or the Pareto front as (cycles, accesses)."""
    kind = dsp if problem["machine"]["kind"] == "dsp" else npu
    if problem["layer"] is not None:
        found: int | list[tuple[int, int]] | None = kind.best(problem)
        return found
    total = 0
    for part in _parts(problem):
        one = kind.best(part)
        if one is None:
            return None
        total += one
    return total


def cost(problem: Json, plan: Json) -> int | list[tuple[int, int]]:
    """Return what a plan costs."""
    kind = dsp if problem["machine"]["kind"] == "dsp" else npu
    if problem["layer"] is not None:
        found: int | list[tuple[int, int]] = kind.cost(problem, plan)
        return found
    parts = _parts(problem)
    plans = plan["layers"] if len(parts) > 1 else [plan]
    return sum(kind.cost(part, one) for part, one in zip(parts, plans, strict=True))


def _parts(problem: Json) -> list[Json]:
    """Return a network's convolutions and fully connected layers as problems of their own."""
    parts = []
    for layer in problem["network"]["layers"]:
        if layer["kind"] in ("conv", "fc"):
            one = layer | {"batch": problem["batch"] or layer["batch"]}
            parts.append(problem | {"layer": one, "network": None})
    return parts


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False
