"""The data of ``inner_loop.mzn`` and ``operation_loop.mzn``: a tile and a vector unit in JSON."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, TAPS, InnerLoop, TileWork
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.vector_loop import AXES, TABLE, VectorWork, loop_costs

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
    _refuse_above(_largest(unit, work, prices, first, last), work.sizes)
    return {
        **_tables(unit, prices),
        "size": list(work.sizes),
        "groups": work.groups,
        "kernel": list(work.kernel),
        "stride": list(work.stride),
        "dilation": list(work.dilation),
        "first": first,
        "last": last,
        "kept_sums": unit.sums == "kept",
    }


def operation_data(
    unit: VectorUnit, work: VectorWork, tile: tuple[int, int, int], prices: tuple[int, int] = (1, 0)
) -> dict[str, Any]:
    """Return the parameters of ``operation_loop.mzn``; the arguments are those of ``operation_loop.py``.

    Raises
    ------
    InputError
        For a tile of which a solver has to count further than it can, or that no loop with a body of one
        vector of results fits.
    """
    _refuse_above(_largest_of_operation(unit, work, tile, prices), tile)
    return {
        **_tables(unit, prices),
        "size": [1, *tile, 1],
        "groups": 1,
        "kernel": list(work.kernel),
        "stride": list(work.stride),
        "dilation": [1, 1],
        "across": max(1, work.across),
        "squares": work.across > 0,
        "operands": work.operands,
        "of_maps": work.of_maps,
        "arithmetic": work.arithmetic,
        "after": work.after,
        "lookup": work.lookup,
        "pool": work.pool,
        "scaled": work.ends,
    }


def _tables(unit: VectorUnit, prices: tuple[int, int]) -> dict[str, Any]:
    """Return what both models are told of the vector unit."""
    return {
        **unit.model_dump(exclude={"sums", "instruction_cache"}),
        "instruction_cache": unit.instruction_cache or 0,
        "cycle_price": prices[0],
        "transfer_price": prices[1],
    }


def _refuse_above(counted: int, sizes: tuple[int, ...]) -> None:
    if counted > MOST:
        limit = f"a tile for which the model counts to {counted}; the solvers of MiniZinc count to {MOST}"
        raise InputError("tile", list(sizes), limit)


def _largest_of_operation(
    unit: VectorUnit, work: VectorWork, tile: tuple[int, int, int], prices: tuple[int, int]
) -> int:
    """Return the largest of the model's bounds and of what a loop costs that is no better than the best.

    These are the loops with a body of one vector of results.
    """
    positions, wide = prod(work.kernel), max(work.across, *work.kernel)
    loads = max(
        -(-((min(unit.lanes, size) - 1) * stride + taps - 1) // unit.lanes) + 2
        for size, (taps, stride) in zip(tile, work.windows, strict=True)
    )
    looks = -(-TABLE // unit.lanes) if work.lookup else 0
    chain = max(work.chain(positions), positions) + looks + work.after
    vectors = unit.registers * wide * loads
    turn = unit.unrolled_macs + unit.mac_latency + unit.shuffle_latency
    latency = unit.load_latency + unit.shuffle_latency + unit.store_latency + (chain + 1) * turn
    interval = latency + 4 * (unit.unrolled_macs * (looks + 1) + vectors)
    run = (1 + 2 * unit.refill_cycles) * (4 * vectors + unit.unrolled_macs + (max(tile) + 1) * interval)
    simple = (InnerLoop(*choice) for choice in product(AXES, AXES, [(1, 1, 1, 1, 1)], TAPS))
    costs = [each for each in (loop_costs(unit, work, tile, loop) for loop in simple) if each.fits]
    if not costs:
        raise InputError("tile", list(tile), f"no body of one vector fits {unit.registers} registers")
    cost = min(
        max(prices[0] * each.cycles + prices[1] * each.transfers, each.cycles, each.transfers)
        for each in costs
    )
    return max(positions * positions * prod(tile), run, int(cost))


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
