"""What layers can choose from: their loads, each with the split of fewest PEs; and the parametric search.

*The least interval* (parametric search on the bottleneck). At an interval of T or less no layer has a load
above T, so each has at least as many PEs as its cheapest split with such a load. These splits together are a
plan of interval T or less, so T can be kept if and only if their PEs fit. Where T can be kept, more can, and
the interval of a plan is the load of one of its splits: the least T is found by bisection of all loads. Its
plan has the fewest PEs of all with that interval. The fewest PEs for a rate are those of the T that it
allows. Layers that take turns have all PEs one after the other; the fewest for a rate are found likewise.

*Dominated splits.* Where low interval and few PEs are all that counts, a split with no fewer PEs and no less
load than another one is never needed. Latency can be lower with it: a layer that outruns its producer has to
start late, and a slower one can start, and let others start, earlier. `timing` says when that cannot
be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod

from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import (
    LayerSplit,
    SplitRules,
    divisors,
    filters_and_maps,
    pareto_splits,
    useful_parts,
)
from tilewright.allocation.stages import Stage, Task


@dataclass(frozen=True)
class ParetoOptions:
    """The loads that a layer can have, ascending, each with the split of fewest PEs that gives it."""

    loads: tuple[int, ...]
    splits: tuple[LayerSplit, ...]

    @classmethod
    def of(cls, task: Task, splits: Iterable[LayerSplit]) -> ParetoOptions:
        """Return the options that some splits give."""
        best: dict[int, LayerSplit] = {}
        for split in sorted(splits, key=lambda split: split.pes):
            best.setdefault(split.load(task), split)
        loads = tuple(sorted(best))
        return cls(loads, tuple(best[load] for load in loads))

    @cached_property
    def _cheapest(self) -> tuple[LayerSplit, ...]:
        """The split of fewest PEs among the first one, two, three, ...; of equal ones the fastest."""
        return tuple(accumulate(self.splits, lambda one, other: other if other.pes < one.pes else one))

    def within(self, load: int) -> LayerSplit | None:
        """Return the split of fewest PEs with at most this load, None if there is none."""
        count = bisect_right(self.loads, load)
        return self._cheapest[count - 1] if count else None

    def at(self, load: int) -> LayerSplit:
        """Return the split of fewest PEs with this load, which must be there."""
        return self.splits[bisect_left(self.loads, load)]

    def fastest(self, pes: int) -> LayerSplit | None:
        """Return the split of least load with at most `pes` PEs, None if there is none."""
        return next((split for split in self.splits if split.pes <= pes), None)

    def between(self, least: int, most: int) -> ParetoOptions:
        """Return the options with loads from `least` to `most`."""
        part = slice(bisect_left(self.loads, least), bisect_right(self.loads, most))
        return ParetoOptions(self.loads[part], self.splits[part])


Offers = tuple[ParetoOptions, ...]
"""The options of every layer."""


def offers_of(problem: Problem, *, every: bool = False) -> Offers:
    """Return the options of every layer, without loads too long for the required rate.

    Parameters
    ----------
    every
        With the loads of dominated splits, too; layers are parallel and their rows are not split.
    """
    offers = (_every_load(problem, stage) if every else _offer(problem, stage) for stage in problem.stages)
    most = problem.most_interval
    return tuple(offers) if most is None else tuple(offer.between(0, most) for offer in offers)


def offer_anywhere(problem: Problem, stage: Stage) -> ParetoOptions:
    """Return the options that a layer would have on an array of any size."""
    if stage.name in problem.limits.pes:
        return _offer(problem, stage)
    return _options_of(stage.task, pareto_splits(stage.task, problem.split_rules, prod(stage.task)))


def _offer(problem: Problem, stage: Stage) -> ParetoOptions:
    return _options_of(stage.task, problem.splits_of(stage))


@lru_cache(maxsize=4096)
def _options_of(task: Task, splits: tuple[LayerSplit, ...]) -> ParetoOptions:
    return ParetoOptions.of(task, splits)


def _every_load(problem: Problem, stage: Stage) -> ParetoOptions:
    rules, given = problem.split_rules, problem.limits.pes.get(stage.name)
    if given is None:
        return _every_load_of_free(stage.task, rules, problem.most_pes(stage))
    divided = [(filters, given // filters) for filters in divisors(given)]
    allowed = [(filters, maps) for filters, maps in divided if rules.allow(filters, maps, 1)]
    return ParetoOptions.of(stage.task, _with_any_units(stage.task, allowed, rules))


@lru_cache(maxsize=4096)
def _every_load_of_free(task: Task, rules: SplitRules, most: int) -> ParetoOptions:
    """Return all loads of a layer whose PEs are not given, on at most `most` PEs."""
    return ParetoOptions.of(task, _with_any_units(task, filters_and_maps(task, rules, most), rules))


def _with_any_units(
    task: Task, divided: Iterable[tuple[int, int]], rules: SplitRules
) -> Iterator[LayerSplit]:
    """Give splits of filters and maps functional units, in all numbers that make a difference."""
    units = rules.units
    for filters, maps in divided:
        own_filters, own_maps = -(-task.filters // filters), -(-task.maps // maps)
        for unit_filters in useful_parts(own_filters, units) if rules.units_work_on == "any" else [1]:
            for unit_maps in useful_parts(own_maps, units // unit_filters):
                yield LayerSplit(filters, maps, 1, unit_filters, unit_maps)


def every_split(problem: Problem, stage: Stage, *, parts: bool, units: bool) -> Iterator[LayerSplit]:
    """Yield the splits that a layer can have.

    Parameters
    ----------
    parts, units
        Whether to yield also those in which some PEs have no work, and those in which units have none.
    """
    rules, task, most = problem.split_rules, stage.task, problem.most_pes(stage)
    given = problem.limits.pes.get(stage.name)

    def numbers(axis: str, size: int, left: int) -> Sequence[int]:
        if axis not in rules.axes:
            return [1]
        if given is not None:
            return divisors(left)
        return range(1, left + 1) if parts else useful_parts(size, left)

    left = most if given is None else given
    for filters in numbers("filters", task.filters, left):
        for maps in numbers("maps", task.maps, left // filters):
            for rows in numbers("rows", task.rows, left // (filters * maps)):
                if given in (None, filters * maps * rows):
                    split = LayerSplit(filters, maps, rows)
                    yield from _with_all_units(problem, stage, split, every=units)


def _with_all_units(
    problem: Problem, stage: Stage, split: LayerSplit, *, every: bool
) -> Iterator[LayerSplit]:
    units, task = problem.machine.functional_units, stage.task
    any_of_both = problem.limits.functional_units == "any"
    if every:
        for unit_filters in range(1, units + 1) if any_of_both else [1]:
            for unit_maps in range(1, units // unit_filters + 1):
                yield split._replace(unit_filters=unit_filters, unit_maps=unit_maps)
        return
    filters, maps = -(-task.filters // split.filters), -(-task.maps // split.maps)
    for unit_filters in useful_parts(filters, units) if any_of_both else [1]:
        for unit_maps in useful_parts(maps, units // unit_filters):
            yield split._replace(unit_filters=unit_filters, unit_maps=unit_maps)


def undominated_splits(costs: Iterable[tuple[int, int, int, LayerSplit]]) -> list[LayerSplit]:
    """Return the splits that are not as good as another one in PEs, load and energy; one of equal ones.

    Parameters
    ----------
    costs
        These three of each split, and the split.
    """
    kept: list[LayerSplit] = []
    stairs: list[tuple[int, int]] = []  # loads ascending, energies descending
    for _, load, spent, split in sorted(costs):
        place = bisect_right(stairs, load, key=lambda stair: stair[0])
        if place and stairs[place - 1][1] <= spent:
            continue
        last = place
        while last < len(stairs) and stairs[last][1] >= spent:
            last += 1
        first = place - 1 if place and stairs[place - 1][0] == load else place
        stairs[first:last] = [(load, spent)]
        kept.append(split)
    return kept


# The parametric search -----------------------------------------------------------------------------------


def cheapest_within(offers: Sequence[ParetoOptions], load: int) -> tuple[LayerSplit, ...] | None:
    """Return the split of fewest PEs of every layer with at most this load; None if one has none."""
    found = tuple(split for offer in offers if (split := offer.within(load)) is not None)
    return found if len(found) == len(offers) else None


def least_interval(offers: Sequence[ParetoOptions], pes: int) -> int | None:
    """Return the least interval of layers with at most `pes` PEs together; None if there is none."""
    candidates = sorted({load for offer in offers for load in offer.loads})

    def fits(load: int) -> bool:
        found = cheapest_within(offers, load)
        return found is not None and sum(split.pes for split in found) <= pes

    place = bisect_left(candidates, True, key=fits)
    return candidates[place] if place < len(candidates) else None


def in_turn(offers: Sequence[ParetoOptions], pes: int) -> tuple[LayerSplit, ...] | None:
    """Return the cheapest of the fastest splits of every layer, each with at most `pes` PEs."""
    found = tuple(split for offer in offers if (split := offer.fastest(pes)) is not None)
    return found if len(found) == len(offers) else None


def fewest_in_turn(offers: Sequence[ParetoOptions], stages: Sequence[Stage], cycles: int) -> int | None:
    """Return the fewest PEs on which layers that take turns need no more cycles for a frame."""
    candidates = sorted({split.pes for offer in offers for split in offer.splits})

    def fits(pes: int) -> bool:
        found = in_turn(offers, pes)
        return found is not None and total_load(stages, found) <= cycles

    place = bisect_left(candidates, True, key=fits)
    return candidates[place] if place < len(candidates) else None


def total_load(stages: Sequence[Stage], chosen: Sequence[LayerSplit]) -> int:
    """Return the cycles of a frame when layers take turns."""
    return sum(split.load(stage.task) for stage, split in zip(stages, chosen, strict=True))
