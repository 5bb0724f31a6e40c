"""Exact search over the whole space of the TSO paper: partition, schedule and every tile.

Only the steps T_N, T_R and T_C are enumerated (algorithm 3). Nothing but the loads of the input depends on
T_M, and they are fewest with the largest T_M that fits. In a depthwise layer, whose filters have maps of
their own, nothing does, and a tile has one filter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.front import undominated
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling.machine_kind import LayerLimits, LayerProblem, TradeOff
from tilewright.tiling.npu.cost import measure, totals
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.npu.vocabulary import Tiling, admitted

NEVER = np.iinfo(np.int64).max

COSTS = ("time", "accesses")
"""What plans cost, and what a front trades by default."""


class BestPlan(NamedTuple):
    """The best plan, its cost, and what breaks ties: accesses, time and memory."""

    value: int
    rank: tuple[int, int, int]
    plan: NpuPlan


class TileGrid(NamedTuple):
    """All tiles of a partition and schedule: arrays that broadcast, in the order in which they are tried.

    Attributes
    ----------
    m, n, r, c
        Steps: T_R and T_C ascending, T_N descending, and the largest T_M that fits; the smallest where any
        costs the same.
    fits
        Whether a tile fits into a core's memories.
    """

    m: NDArray[np.int64]
    n: NDArray[np.int64]
    r: NDArray[np.int64]
    c: NDArray[np.int64]
    fits: NDArray[np.bool_]

    @property
    def steps(self) -> tuple[Any, Any, Any, Any]:
        """The steps m, n, r and c."""
        return self[:4]

    def plan(self, cut: Cut, schedule: str, at: int) -> NpuPlan:
        """Return the plan of a tile by its number in the order of all."""
        tile = tuple(int(np.broadcast_to(step, self.fits.shape).flat[at]) for step in self.steps)
        return NpuPlan(cut.partition, schedule, tile)


def choices(limits: LayerLimits) -> Iterator[tuple[str, str]]:
    """Iterate over the partitions and schedules that limits allow, in the order in which they are tried."""
    for partition in PARTITIONS if limits.partition == "any" else (limits.partition,):
        for schedule in SCHEDULES if limits.schedule == "any" else (limits.schedule,):
            yield partition, schedule


def apart(limits: LayerLimits) -> bool:
    """Whether tiles have a part of a core's filters, where it has several: ``OS`` apart from ``IS``."""
    return limits.schedule == "OS"


def tiles(cut: Cut, schedule: str, apart: bool = False) -> TileGrid:
    """Return every tile that can be best."""
    ms, ns, rs, cs = cut.steps
    n, r, c = ns[::-1][None, None, :], rs[:, None, None], cs[None, :, None]
    most = largest_filter_step(cut, schedule, n, r, c, apart)
    if cut.depthwise and schedule != "IS":
        most = np.minimum(most, ms[0])
    m = ms[np.maximum(np.searchsorted(ms, most, side="right") - 1, 0)]
    return TileGrid(m, n, r, c, most > 0)


def every_tile(cut: Cut, schedule: str, apart: bool = False) -> Iterator[TileGrid]:
    """Iterate over the steps of filters, each with all tiles, of which a constraint may admit any."""
    ms, ns, rs, cs = cut.steps
    n, r, c = ns[::-1][None, None, :], rs[:, None, None], cs[None, :, None]
    most = largest_filter_step(cut, schedule, n, r, c, apart)
    for m in ms[::-1]:
        if schedule != "IS" or m == cut.sizes[0]:
            yield TileGrid(np.full((1, 1, 1), m), n, r, c, most >= m)


def largest_filter_step(cut: Cut, schedule: str, n: Any, r: Any, c: Any, apart: bool = False) -> Any:
    """Return the largest T_M with which tiles fit into the memories (equation 2), 0 for none."""
    capacity, filters = cut.capacity, cut.sizes[0]
    plane = cut.reach(0, r) * cut.reach(1, c)
    most = np.minimum(
        capacity["weights"] // ((cut.maps if schedule == "WS" else n) * cut.window),
        capacity["output"] // (r * c),
    )
    most = np.minimum(
        most, capacity["input"] // plane if cut.depthwise else filters * (n * plane <= capacity["input"])
    )
    if schedule == "IS":
        return np.where(most >= filters, filters, 0)
    return np.minimum(most, filters - (apart and filters > 1))


def best(problem: LayerProblem, deadline: float = float("inf")) -> BestPlan | None:
    """Return the best plan of a layer, None where no tile fits a schedule that is asked for.

    Where the problem has constraints, all steps of filters count, as a constraint may tell them apart. Of
    equally good ones it is the one that moves least, then the fastest, then that with the smallest tiles;
    of what is left the first in the order of partitions, schedules, ascending T_R and T_C and descending T_N.

    Raises
    ------
    OutOfTimeError
        When the deadline, a ``time.monotonic()``, passes.
    """
    best: BestPlan | None = None
    admits = admitted(problem)
    for partition, schedule in choices(problem.limits):
        cut = cut_of(problem.one_layer, problem.machine, partition)
        limits = problem.limits
        given = cut, schedule, apart(limits)
        for grid in every_tile(*given) if admits is not None else (tiles(*given),):
            if time.monotonic() > deadline:
                raise OutOfTimeError
            found = best_tile(cut, schedule, problem.minimise, limits.at_most.given, grid, admits)
            if found is not None and (best is None or found[:2] < best[:2]):
                best = found
    return best


def front(
    problem: LayerProblem, traded: tuple[str, str], deadline: float = float("inf")
) -> list[TradeOff[NpuPlan]]:
    """Return all trade-offs of two costs of a layer, that with least of the first one first.

    Raises
    ------
    OutOfTimeError
        When the deadline, a ``time.monotonic()``, passes.
    """
    found: list[TradeOff[NpuPlan]] = []
    for partition, schedule in choices(problem.limits):
        if time.monotonic() > deadline:
            raise OutOfTimeError
        cut = cut_of(problem.one_layer, problem.machine, partition)
        grid = tiles(cut, schedule, apart(problem.limits))
        fitting = np.flatnonzero(grid.fits)
        total = totals(cut, schedule, grid.steps)
        first, second = (
            np.broadcast_to(measure(cut, total, name), grid.fits.shape).ravel()[fitting] for name in traded
        )
        found += [
            TradeOff((int(first[at]), int(second[at])), grid.plan(cut, schedule, int(fitting[at])))
            for at in undominated(first, second)
        ]
    values = np.array([point.values for point in found], dtype=np.int64).reshape(-1, 2)
    return [found[at] for at in undominated(*values.T)]


def best_tile(
    cut: Cut,
    schedule: str,
    minimise: str,
    at_most: Mapping[str, int],
    grid: TileGrid,
    admits: Callable[[Tiling], Any] | None = None,
) -> BestPlan | None:
    """Return the best plan of one partition and schedule.

    Parameters
    ----------
    at_most
        What a plan may cost at most, by what that counts. No count grows with T_M, so that the largest that
        fits is within such limits whenever a smaller one is.
    admits
        What constraints admit.
    """
    if not grid.fits.any():
        return None
    seen = Tiling(cut, schedule, grid.steps)
    allowed = grid.fits if admits is None else grid.fits & admits(seen)
    for of, most in at_most.items():
        allowed = allowed & (measure(cut, seen.cost, of) <= most)
    ranks = [measure(cut, seen.cost, name) for name in (minimise, "accesses", "time")]
    ranks.append(seen.held)
    found = []
    for values in ranks:
        values = np.where(allowed, values, NEVER)
        found.append(int(values.min()))
        allowed = allowed & (values == found[-1])
    if found[0] == NEVER:
        return None
    value, *others = found
    return BestPlan(value, tuple(others), grid.plan(cut, schedule, int(allowed.argmax())))  # type: ignore[arg-type]
