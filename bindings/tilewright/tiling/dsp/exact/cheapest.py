"""Fewest cycles, least energy or fewest accesses over all tiles that fit, the others limited where asked.

A lower bound is computed for all of them at once, and the exact value in the order of that bound until no
bound is below the best value. Of plans that cost the same the one is taken that moves least, of these the
fastest, then that with least energy, then that with least memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.compute import LoopOption, loops_that_may_help
from tilewright.tiling.dsp.cost import measures
from tilewright.tiling.dsp.exact.accesses import BestPlan, families_of_fewest, fewest_accesses
from tilewright.tiling.dsp.exact.families import Family, families, tile_at, tile_limit
from tilewright.tiling.dsp.exact.params import PARAMS
from tilewright.tiling.dsp.exact.schedules import ScheduleGroup, lower_bound, schedule_groups
from tilewright.tiling.dsp.nest import Counts, Nest, Tile
from tilewright.tiling.dsp.plan import DspPlan

TIES = ("accesses", "cycles", "energy", "memory")
"""What breaks ties, in this order."""


class Admitted(NamedTuple):
    """What constraints admit.

    Attributes
    ----------
    tiles
        Tells of the steps of many tiles which of them may be admitted, whatever the order of their loops.
    plan
        Tells whether a plan is.
    of_time
        Whether cycles or energy matter to that, so that an inner loop that takes more may be admitted alone.
    """

    tiles: Callable[[tuple[Counts, ...]], NDArray[np.bool_]]
    plan: Callable[[DspPlan], bool]
    of_time: bool = False


def cheapest(
    nest: Nest,
    minimise: str,
    limit: str,
    local: int,
    deadline: float = inf,
    at_most: Mapping[str, int] | None = None,
    fewest: BestPlan | None = None,
    admitted: Admitted | None = None,
) -> tuple[BestPlan | None, bool]:
    """Return a plan with the fewest cycles, the least energy or accesses, and whether that is proven.

    It is None, and that is proven, where nothing is feasible.

    Parameters
    ----------
    minimise : {"cycles", "energy", "accesses"}
    local
        Units of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which the best plan so far is returned without proof.
    at_most
        What a plan may cost at most, by what that counts.
    fewest
        A plan that is known to have the fewest accesses, which are minimised and not limited.
    admitted
        The plans that constraints admit, where there are any.
    """
    began = time.monotonic()
    start = fewest_accesses(nest, limit, deadline=deadline) if fewest is None else fewest
    if start is None:
        return None, True
    search = _Search(nest, minimise, limit, local, dict(at_most or {}), admitted)
    search.take([start.plan])
    if nest.machine.vector_unit is not None:
        search.look(nest.step(start.plan.tile))
    admits = None if admitted is None else admitted.tiles
    every = families(nest, limit, deadline, search.most_tiles, admits)
    if fewest is not None:
        every = families_of_fewest(nest, limit, fewest.value, deadline)
    kept: list[tuple[Counts, ...]] = []
    for family in every:
        keys = search.keys(family)
        best = int(keys[0].argmin())
        if (int(keys[0].flat[best]), int(keys[1].flat[best])) < search.rank[:2]:
            search.look(tile_at(family.steps(np.array([best % keys[0].shape[1]])), 0))
        entry = np.flatnonzero(search.may_be_best(keys))
        kept.append((*(key.flat[entry] for key in keys), *family.steps(entry % keys[0].shape[1])))
    complete = time.monotonic() <= deadline  # else families may be missing, in which there are better plans
    if not kept:
        return search.best, complete
    table = np.stack([np.concatenate(column) for column in zip(*kept, strict=True)])
    many = PARAMS.keys
    table = table[:, search.may_be_best(table[:many])]
    until = deadline
    for entry in np.lexsort(table[:many][::-1]).tolist():
        keys_of_one = tuple(table[:many, entry].tolist())
        if keys_of_one > search.rank[:many]:
            break
        now = time.monotonic()
        if keys_of_one[0] >= search.rank[0] and until == deadline:  # what is left may be as good, not better
            until = min(deadline, now + max(PARAMS.tie_seconds, now - began))
        if now > until:
            return search.best, complete and keys_of_one[0] >= search.rank[0]
        search.look(tile_at(table[many:], entry))
    return search.best, time.monotonic() <= deadline


@dataclass
class _Search:
    """The best plan so far, and what may be better.

    Attributes
    ----------
    rank
        What it costs: the objective, and what breaks ties.
    """

    nest: Nest
    minimise: str
    limit: str
    local: int
    at_most: dict[str, int]
    admitted: Admitted | None = None
    best: BestPlan | None = None
    rank: tuple[float, ...] = (inf,) * len(TIES)
    _seen: set[Tile] = field(default_factory=set)

    @property
    def names(self) -> tuple[str, ...]:
        """What is compared, one after the other."""
        return tuple(dict.fromkeys((self.minimise, *TIES)))

    def take(self, plans: Iterable[DspPlan]) -> None:
        """Keep the best of some plans, if it is within the limits and better than the one so far."""
        for plan in plans:
            if self.admitted is not None and not self.admitted.plan(plan):
                continue
            costs = measures(self.nest, plan, (*self.names, *self.at_most), self.local)
            rank, limited = costs[: len(self.names)], costs[len(self.names) :]
            within = all(cost <= most for cost, most in zip(limited, self.at_most.values(), strict=True))
            if within and rank < self.rank:
                self.best, self.rank = BestPlan(rank[0], plan), rank

    def look(self, tile: Tile) -> None:
        """Take the plans of a tile."""
        if tile in self._seen:
            return
        self._seen.add(tile)
        every = self.admitted is not None
        groups = [
            group
            for group in schedule_groups(self.nest, tile, self.limit, self.local, every=every)
            if self._may_help(group, None)
        ]
        loops = self._loops(tile, groups) if groups and self.nest.machine.vector_unit is not None else None
        for group in groups:
            if not self._may_help(group, None):  # not any more
                continue
            for option, plans in group.options(loops):
                if option is None or self._may_help(group, option):
                    self.take(plans)

    def _loops(self, tile: Tile, groups: Sequence[ScheduleGroup]) -> tuple[LoopOption, ...]:
        """Return the inner loops with which plans of a tile may be better than the best."""
        # Of groups that move as much the bounds are the same, of those that move more they are no lower.
        moved = {(group.accesses, group.transfers): group for group in groups}
        least = [
            group
            for (accesses, transfers), group in moved.items()
            if not any(a <= accesses and t <= transfers and (a, t) != (accesses, transfers) for a, t in moved)
        ]

        def may_help(cycles: Counts, streamed: Counts) -> NDArray[np.bool_]:
            bounds = [group.bounds_of_loops(self.minimise, cycles, streamed) for group in least]
            found: NDArray[np.bool_] = np.minimum.reduce(bounds) <= self.rank[0]
            return found

        every = self.admitted is not None and self.admitted.of_time
        return loops_that_may_help(self.nest, tile, may_help, every=every)

    def _may_help(self, group: ScheduleGroup, option: LoopOption | None) -> bool:
        """Whether plans that move the same may be better than the best, with an inner loop or with any."""
        bounds = tuple(group.bound(name, option) for name in self.names)
        return bounds < self.rank and all(
            group.bound(of, option) <= most for of, most in self.at_most.items()
        )

    def keys(self, family: Family) -> list[Counts]:
        """Bound what the schedules of a family's tiles cost from below: the objective, and what breaks ties.

        Those that the limits leave out are above everything.
        """

        def bound(of: str) -> Counts:
            return lower_bound(family.tiles, family.accesses, family.transfers, of, self.local)

        keys = [bound(name) for name in self.names[: PARAMS.keys]]
        for of, most in self.at_most.items():
            keys[0] = np.where(bound(of) <= most, keys[0], np.iinfo(np.int64).max)
        return keys

    def may_be_best(self, keys: Any) -> NDArray[np.bool_]:
        """Whether bounds, compared one after the other, are not above what the best plan costs."""
        less, equal = (np.full(keys[0].size, value) for value in (False, True))
        for key, value in zip(keys, self.rank, strict=False):
            flat = np.ravel(key)
            less |= equal & (flat < value)
            equal &= flat == value
        found: NDArray[np.bool_] = less | equal
        return found

    def most_tiles(self) -> float:
        """Return how many tiles a plan may have that is of interest."""
        limits = [tile_limit(self.nest, of, most) for of, most in self.at_most.items()]
        value = self.rank[0]
        own = inf if value == inf else tile_limit(self.nest, self.minimise, int(value))
        return min([own, *limits])
