"""The data of ``inner_loop.mzn``: a tile and a vector unit in JSON, as ``minizinc`` reads it."""

from __future__ import annotations

from typing import Any

from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop, TileWork
from tilewright.tiling.dsp.vector_unit import VectorUnit


def data(
    unit: VectorUnit,
    work: TileWork,
    prices: tuple[int, int] = (1, 0),
    *,
    first: bool = True,
    last: bool = True,
) -> dict[str, Any]:
    """Return the model's parameters; the arguments are those of `inner_search.best_loop`."""
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


def loop(solution: dict[str, Any]) -> InnerLoop:
    """Return the loop of a solution, as ``minizinc --output-mode json`` writes its variables."""
    names = {name: solution[name]["e"].lower() for name in ("vector", "pipelined", "taps")}
    n, c, y, x, k = (int(number) for number in solution["unroll"])
    assert names["vector"] in DIMENSIONS
    return InnerLoop(names["vector"], names["pipelined"], (n, c, y, x, k), names["taps"])
