"""Tiling: every tile, order and reuse (docs/tiling.md), every partition and schedule (docs/npu.md)."""

from __future__ import annotations

from types import ModuleType

from tests.oracles import dsp, npu, operations
from tests.oracles.dsp import Json


def best(problem: Json) -> int | list[tuple[int, int]] | None:
    """Return the least cost of all plans, or the Pareto front as (cycles, accesses)."""
    if problem["layer"] is not None:
        found: int | list[tuple[int, int]] | None = _kind(problem).best(problem)
        return found
    total = 0
    for kind, part in parts(problem):
        one = kind.best(part)
        if one is None:
            return None
        total += one
    return total


def cost(problem: Json, plan: Json) -> int | list[tuple[int, int]]:
    """Return what a plan costs."""
    if problem["layer"] is not None:
        found: int | list[tuple[int, int]] = _kind(problem).cost(problem, plan)
        return found
    every = parts(problem)
    plans = plan["layers"] if len(every) > 1 else [plan]
    return sum(kind.cost(part, one) for (kind, part), one in zip(every, plans, strict=True))


def _kind(problem: Json) -> ModuleType:
    return dsp if problem["machine"]["kind"] == "dsp" else npu


def parts(problem: Json) -> list[tuple[ModuleType, Json]]:
    """Return a network's layers, and pools and sums if something does them, as problems of their own."""
    found = []
    layers, machine = problem["network"]["layers"], problem["machine"]
    layers = [layer for layer in layers if layer["kind"] != "input"]
    images = problem["batch"] or max((layer.get("batch", 1) for layer in layers), default=1)
    minimise = problem["objective"]["minimise"] or {"dsp": "accesses", "npu": "time"}[machine["kind"]]
    for layer in layers:
        if layer["kind"] in ("conv", "fc"):
            one = layer | {"batch": problem["batch"] or layer["batch"]}
            found.append((_kind(problem), problem | {"layer": one, "network": None}))
        elif layer["kind"] == "matmul":
            found.append((_kind(problem), problem | {"layer": as_layer(layer, problem), "network": None}))
        elif _is_done(layer, machine):
            given = {"layer": layer, "machine": machine, "batch": images, "minimise": minimise}
            found.append((operations, given))
    return found


def as_layer(layer: Json, problem: Json) -> Json:
    """Return the convolution that a product is: rows are columns of its plane, columns its filters.

    Its weights are the second operand. Pairs of matrices, also those of further images, are groups.
    """
    images = problem["batch"] or layer["batch"]
    groups, deep = layer["groups"] * images, layer["depth"]
    rows = _values(layer["input"]) // (layer["groups"] * deep)
    columns = _values(layer["output"]) // (layer["groups"] * rows)
    return {
        "kind": "conv", "input": [groups * deep, 1, rows], "kernels": groups * columns, "kernel": [1, 1],
        "stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": groups, "batch": 1,
    }  # fmt: skip


def _values(shape: list[int]) -> int:
    return shape[0] * shape[1] * shape[2]


def _is_done(layer: Json, machine: Json) -> bool:
    """Whether the machine does an operation."""
    if machine.get("vector_unit") and layer["kind"] == "map":
        return bool(layer["op"] == "lrn")
    told = machine["vector_ops_per_cycle"] is not None or bool(machine.get("vector_unit"))
    along = layer["kind"] == "function" and layer["along"] is not None
    return (layer["kind"] in operations.KINDS or along) and told


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False
