"""What layers can choose from: their loads, each with the share of fewest PEs; and the parametric search.

*The least interval* (parametric search on the bottleneck). At an interval of T or less no layer has a load
above T, so each has at least as many PEs as its cheapest share with such a load. These shares together are a
plan of interval T or less, so T can be kept if and only if their PEs fit. Where T can be kept, more can, and
the interval of a plan is the load of one of its shares: the least T is found by bisection of all loads. Its
plan has the fewest PEs of all with that interval. The fewest PEs for a rate are those of the T that it
allows. Layers that take turns have all PEs one after the other; the fewest for a rate are found likewise.

*Dominated shares.* Where low interval and few PEs are all that counts, a share with no fewer PEs and no less
load than another one is never needed. Latency can be lower with it: a layer that outruns its producer has to
start late, and a slower one can start, and let others start, earlier. `search_timing` says when that cannot
be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod

from tilewright.allocation.problem import Problem, Stage, Task
from tilewright.allocation.splits import (
    Share,
    divisors,
    shares,
    split_allowed,
    split_options,
    undominated,
    useful_parts,
)


@dataclass(frozen=True)
class Menu:
    """The loads that a layer can have, ascending, each with the share of fewest PEs that gives it."""

    loads: tuple[int, ...]
    shares: tuple[Share, ...]

    @classmethod
    def of(cls, task: Task, found: Iterable[Share]) -> Menu:
        """Return the menu of some shares."""
        best: dict[int, Share] = {}
        for share in sorted(found, key=lambda share: share.pes):
            best.setdefault(share.load(task), share)
        loads = tuple(sorted(best))
        return cls(loads, tuple(best[load] for load in loads))

    @cached_property
    def _cheapest(self) -> tuple[Share, ...]:
        """The share of fewest PEs among the first one, two, three, ...; of equal ones the fastest."""
        return tuple(accumulate(self.shares, lambda one, other: other if other.pes < one.pes else one))

    def within(self, load: int) -> Share | None:
        """Return the share of fewest PEs with at most such a load."""
        count = bisect_right(self.loads, load)
        return self._cheapest[count - 1] if count else None

    def at(self, load: int) -> Share:
        """Return the share of fewest PEs with this load, which must be there."""
        return self.shares[bisect_left(self.loads, load)]

    def fastest(self, pes: int) -> Share | None:
        """Return the share of least load with at most so many PEs."""
        return next((share for share in self.shares if share.pes <= pes), None)

    def between(self, least: int, most: int) -> Menu:
        """Return the part of the menu with such loads."""
        part = slice(bisect_left(self.loads, least), bisect_right(self.loads, most))
        return Menu(self.loads[part], self.shares[part])


Menus = tuple[Menu, ...]


def menus(problem: Problem, *, every: bool = False) -> Menus:
    """Return the menu of every layer, without loads too long for the required rate.

    Parameters
    ----------
    every
        With the loads of dominated shares, too; layers are parallel and their rows are not split.
    """
    found = (_every_load(problem, stage) if every else _menu(problem, stage) for stage in problem.stages)
    most = problem.most_interval
    return tuple(found) if most is None else tuple(menu.between(0, most) for menu in found)


def menu_anywhere(problem: Problem, stage: Stage) -> Menu:
    """Return the menu that a layer would have on an array of any size."""
    if stage.name in problem.limits.pes:
        return _menu(problem, stage)
    return _menu_of(stage.task, undominated(stage.task, *split_options(problem), prod(stage.task)))


def _menu(problem: Problem, stage: Stage) -> Menu:
    return _menu_of(stage.task, shares(problem, stage))


@lru_cache(maxsize=4096)
def _menu_of(task: Task, found: tuple[Share, ...]) -> Menu:
    return Menu.of(task, found)


def _every_load(problem: Problem, stage: Stage) -> Menu:
    units, splits, over = split_options(problem)
    given = problem.limits.pes.get(stage.name)
    if given is None:
        others = (problem.limits.pes.get(other.name, 1) for other in problem.stages if other is not stage)
        return _free_menu(stage.task, units, splits, over, problem.machine.pes - sum(others))
    divided = [(filters, given // filters) for filters in divisors(given)]
    allowed = [(filters, maps) for filters, maps in divided if split_allowed(filters, maps, 1, splits)]
    return Menu.of(stage.task, _with_any_units(stage.task, allowed, units, over))


@lru_cache(maxsize=4096)
def _free_menu(task: Task, units: int, splits: tuple[str, ...], over: str, most: int) -> Menu:
    divided = (
        (filters, maps)
        for filters in (useful_parts(task.filters, most) if "filters" in splits else [1])
        for maps in (useful_parts(task.maps, most // filters) if "maps" in splits else [1])
    )
    return Menu.of(task, _with_any_units(task, divided, units, over))


def _with_any_units(task: Task, divided: Iterable[tuple[int, int]], units: int, over: str) -> Iterator[Share]:
    """Give shares functional units, in all numbers that make a difference."""
    for filters, maps in divided:
        for unit_filters in useful_parts(-(-task.filters // filters), units) if over == "any" else [1]:
            for unit_maps in useful_parts(-(-task.maps // maps), units // unit_filters):
                yield Share(filters, maps, 1, unit_filters, unit_maps)


# The parametric search -----------------------------------------------------------------------------------


def within(offers: Sequence[Menu], load: int) -> tuple[Share, ...] | None:
    """Return the share of fewest PEs of every layer with at most such a load; None if one has none."""
    found = tuple(share for menu in offers if (share := menu.within(load)) is not None)
    return found if len(found) == len(offers) else None


def least_interval(offers: Sequence[Menu], pes: int) -> int | None:
    """Return the least load that no layer must exceed on so many PEs; None if there is none."""
    candidates = sorted({load for menu in offers for load in menu.loads})

    def fits(load: int) -> bool:
        found = within(offers, load)
        return found is not None and sum(share.pes for share in found) <= pes

    place = bisect_left(candidates, True, key=fits)
    return candidates[place] if place < len(candidates) else None


def in_turn(offers: Sequence[Menu], pes: int) -> tuple[Share, ...] | None:
    """Return the cheapest of the fastest shares of every layer, each with at most so many PEs."""
    found = tuple(share for menu in offers if (share := menu.fastest(pes)) is not None)
    return found if len(found) == len(offers) else None


def fewest_in_turn(offers: Sequence[Menu], stages: Sequence[Stage], cycles: int) -> int | None:
    """Return the fewest PEs on which layers that take turns need no more cycles for a frame."""
    candidates = sorted({share.pes for menu in offers for share in menu.shares})

    def fits(pes: int) -> bool:
        found = in_turn(offers, pes)
        return found is not None and total_load(stages, found) <= cycles

    place = bisect_left(candidates, True, key=fits)
    return candidates[place] if place < len(candidates) else None


def total_load(stages: Sequence[Stage], chosen: Sequence[Share]) -> int:
    """Return the cycles of a frame when layers take turns."""
    return sum(share.load(stage.task) for stage, share in zip(stages, chosen, strict=True))
