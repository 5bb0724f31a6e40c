"""The data of ``inner_loop.mzn``: a tile and a vector unit in JSON, as ``minizinc`` reads it."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop, TileWork
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.vector_unit import VectorUnit

MOST = 2_000_000_000
"""The model's `most`: the solvers of MiniZinc count that far."""


def data(
    unit: VectorUnit,
    work: TileWork,
    prices: tuple[int, int] = (1, 0),
    *,
    first: bool = True,
    last: bool = True,
) -> dict[str, Any]:
    """Return the model's parameters; the arguments are those of `inner_search.best_loop`.

    Raises
    ------
    InputError
        For a tile of which a solver has to count further than it can.
    """
    counted = _largest(unit, work, prices, first, last)
    if counted > MOST:
        limit = f"a tile for which the model counts to {counted}; the solvers of MiniZinc count to {MOST}"
        raise InputError("tile", list(work.sizes), limit)
    table = unit.model_dump(exclude={"sums", "instruction_cache"})
    return {
        **table,
        "size": list(work.sizes),
        "groups": work.groups,
        "kernel": list(work.kernel),
        "stride": list(work.stride),
        "dilation": list(work.dilation),
        "first": first,
        "last": last,
        "kept_sums": unit.sums == "kept",
        "instruction_cache": unit.instruction_cache or 0,
        "cycle_price": prices[0],
        "transfer_price": prices[1],
    }


def _largest(unit: VectorUnit, work: TileWork, prices: tuple[int, int], first: bool, last: bool) -> int:
    """Return the largest of the model's bounds and of what its optimum costs.

    A solver also counts to the product of two quantities of which the model bounds only the result.
    """
    positions = prod(work.kernel)
    loads = max(
        -(-((min(unit.lanes, size) - 1) * stride + (taps - 1) * dilation + 1) // unit.lanes) + 1
        for size, stride, taps, dilation in zip(
            work.sizes[2:4], work.stride, work.kernel, work.dilation, strict=True
        )
    )
    body, vectors = unit.unrolled_macs, unit.unrolled_macs * loads
    ways = unit.load_latency + unit.shuffle_latency + unit.store_latency + unit.mac_latency
    latency = ways + body * (unit.mac_latency + 2)
    interval = latency + 5 * body + 4 * vectors + 2 * vectors + body * latency
    run = (1 + 2 * unit.refill_cycles) * (4 * vectors + body + (max(work.sizes) + 1) * interval)
    best = best_loop(unit, work, prices=prices, first=first, last=last)
    cost = prices[0] * best.cycles + prices[1] * best.transfers
    return max(work.groups * positions * positions * prod(work.sizes), run, cost, best.cycles, best.transfers)


def loop(solution: dict[str, Any]) -> InnerLoop:
    """Return the loop of a solution, as ``minizinc --output-mode json`` writes its variables."""
    names = {name: solution[name]["e"].lower() for name in ("vector", "pipelined", "taps")}
    n, c, y, x, k = (int(number) for number in solution["unroll"])
    assert names["vector"] in DIMENSIONS
    return InnerLoop(names["vector"], names["pipelined"], (n, c, y, x, k), names["taps"])
