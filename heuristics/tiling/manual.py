"""Manual: the thesis's tiles for the layers that it mapped by hand, its habits for all others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tilewright.core import catalogue
from tilewright.spec.layer import Layer
from tilewright.spec.network import Network
from tilewright.tiling import Plan, Problem, violation
from tilewright.tiling.dsp.nest import K, Nest, nest_of
from tilewright.tiling.dsp.plan import LOOPS, SCHEDULES, DspPlan, allowed

MAPS = 64
"""Output maps of a tile: two vectors of 32."""


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "dsp" and problem.plain


def plan(problem: Problem) -> Plan:
    """Return the published tile where there is one and it fits, else the largest that the habits allow."""
    limit = problem.limits.orders
    # Manual mappings keep nothing from tile to tile (section 6.2), unless that is forbidden.
    names = allowed(limit)
    schedule = SCHEDULES[names[0] if len(names) == 1 else "intra"]
    nest = nest_of(problem.one_layer, problem.machine, limit)

    def runs(tile: dict[str, int]) -> bool:
        return violation(problem, _plan(tile, schedule)) is None

    wishes = [tile for layer, tile in published() if layer == _one_image(problem.one_layer)]
    for tile in [*wishes, *_shrinking(nest)]:
        if runs(tile):
            return _plan(tile if tile in wishes else _grown(nest, tile, runs), schedule)
    return _plan(dict.fromkeys(LOOPS, 1), schedule)  # nothing is allowed at all


def _plan(tile: dict[str, int], schedule: tuple[str, str]) -> Plan:
    return Plan((DspPlan(tuple(tile[loop] for loop in LOOPS), *schedule),))


def _shrinking(nest: Nest) -> Iterator[dict[str, int]]:
    """Yield tiles of one row, ever smaller: complete rows of 64 maps of one image, or of all of one position.

    Where the partial sums of all tiles but the innermost would be needed at once, the input maps stay whole.
    """
    sizes = dict(zip(LOOPS, nest.sizes, strict=True))
    flat, fewest = sizes["y"] * sizes["x"] == 1, int(nest.steps[K][0])
    for maps in _halves(min(MAPS, sizes["c"])):
        yield {"g": 1, "n": sizes["n"] if flat else 1, "c": maps, "y": 1, "x": sizes["x"], "k": fewest}
    for width in _halves(sizes["x"]):
        for images in _halves(sizes["n"] if flat else 1):
            yield {"g": 1, "n": images, "c": 1, "y": 1, "x": width, "k": fewest}
    yield {"g": 1, "n": 1, "c": 1, "y": 1, "x": 1, "k": sizes["k"]}


def _halves(size: int) -> Iterator[int]:
    while size > 1:
        yield size
        size = -(-size // 2)
    yield 1


def _grown(nest: Nest, tile: dict[str, int], runs: Any) -> dict[str, int]:
    """Take as many rows as fit, then as many input maps."""
    for loop in "yk":
        steps = nest.steps[LOOPS.index(loop)].tolist()
        tile = next((t for step in reversed(steps) if runs(t := {**tile, loop: step})), tile)
    return tile


@cache
def published() -> tuple[tuple[Layer, dict[str, int]], ...]:
    """Return the layers of tables 7.3 and 7.5, for one image, with their tiles."""
    known = []
    for row in rows():
        tile = {"g": 1, **row["tile"]}
        known.append((_one_image(layer(row["network"], row["layer"])), tile))
    return tuple(known)


def rows() -> list[dict[str, Any]]:
    """Return the rows of tables 7.3 to 7.6 as they are published."""
    found: list[dict[str, Any]] = catalogue.shared("published", "idsp-manual-tiles")["rows"]
    return found


def layer(network: str, name: str) -> Layer:
    """Return a layer of a bundled network."""
    found = Network.model_validate(catalogue.shared("networks", network))
    return next(one.unnamed() for one in found.convolutions if one.name == name)


def _one_image(layer: Layer) -> Layer:
    return Layer.model_validate({**layer.model_dump(), "batch": 1})
