"""Shares: how many PEs a layer gets, and how its work is divided among them and their functional units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import isqrt, prod
from typing import NamedTuple

from tilewright.allocation.problem import Problem, Stage, Task
from tilewright.spec.errors import InputError


class Share(NamedTuple):
    """A layer's part of the array.

    Attributes
    ----------
    filters, maps, rows
        Among how many PEs filters, input maps and output rows are divided; the product is the layer's PEs.
    unit_filters, unit_maps
        How many filters and input maps the functional units of a PE work on at a time.
    """

    filters: int
    maps: int = 1
    rows: int = 1
    unit_filters: int = 1
    unit_maps: int = 1

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return self.filters * self.maps * self.rows

    @property
    def units(self) -> int:
        """Functional units in use, of all PEs together."""
        return self.pes * self.unit_filters * self.unit_maps

    def beats(self, task: Task) -> int:
        """Return how many turns a frame takes; in each of them every row group computes a pixel."""
        return -(-task.rows // self.rows) * task.columns

    def cycles(self, task: Task) -> int:
        """Return the cycles of a beat: equation 6, generalised to all splits.

        Input maps that are divided among PEs give partial sums, which a neighbour adds up as they are formed.
        """
        filters, maps = self.filters * self.unit_filters, self.maps * self.unit_maps
        return -(-task.filters // filters) * -(-task.maps // maps) * task.window

    def load(self, task: Task) -> int:
        """Return the cycles for which a frame keeps the layer busy (equations 4 and 11)."""
        return self.beats(task) * self.cycles(task)

    def violation(self, problem: Problem, stage: Stage) -> str | None:
        """Say which limit the share breaks, or None."""
        limits, units = problem.limits, problem.machine.functional_units
        for what, parts in (("filters", self.filters), ("maps", self.maps), ("rows", self.rows)):
            if parts > 1 and what not in limits.splits:
                return f"split: layer {stage.name} divides its {what}, allowed are {', '.join(limits.splits)}"
        if self.unit_filters > 1 and limits.functional_units != "any":
            return f"functional units: of layer {stage.name} work on filters, allowed are maps only"
        if self.unit_filters * self.unit_maps > units:
            found = self.unit_filters * self.unit_maps
            return f"functional units: layer {stage.name} uses {found} of a PE, which has {units}"
        given = limits.pes.get(stage.name)
        if given is not None and self.pes != given:
            return f"PEs: layer {stage.name} has {self.pes}, given are {given}"
        return None


def shares(problem: Problem, stage: Stage) -> tuple[Share, ...]:
    """Return the shares of a layer that nothing replaces: each has more PEs and less load than the last.

    Of equal ones it is the one with the fewest row groups, then groups of maps, then functional units. None
    has more PEs than are left when every other layer has its fewest. A layer whose PEs are given has one.
    """
    given = problem.limits.pes.get(stage.name)
    if given is not None:
        return (_given(problem, stage, given),)
    most = problem.machine.pes
    if problem.parallel:
        most -= sum(problem.limits.pes.get(other.name, 1) for other in problem.stages if other is not stage)
    return undominated(stage.task, *split_options(problem), most)


def fastest(problem: Problem, stage: Stage) -> int:
    """Return the fewest cycles in which a layer computes a frame, on any number of PEs if none is given."""
    given = problem.limits.pes.get(stage.name)
    if given is not None:
        return _given(problem, stage, given).load(stage.task)
    return undominated(stage.task, *split_options(problem), prod(stage.task))[-1].load(stage.task)


def paper_share(problem: Problem, pes: int) -> Share:
    """Return the share of the paper: filters are divided, all functional units work on input maps."""
    return Share(pes, unit_maps=problem.machine.functional_units)


def split_options(problem: Problem) -> tuple[int, tuple[str, ...], str]:
    """Return the functional units of a PE, over what layers may be divided, and what the units work on."""
    return problem.machine.functional_units, problem.limits.splits, problem.limits.functional_units


def _given(problem: Problem, stage: Stage, pes: int) -> Share:
    """Return the best share of exactly so many PEs; some may have nothing to do."""
    units, splits, over = split_options(problem)
    found = [
        share
        for filters in divisors(pes)
        for maps in divisors(pes // filters)
        if split_allowed(filters, maps, pes // (filters * maps), splits)
        for share in _with_units(stage.task, Share(filters, maps, pes // (filters * maps)), units, over)
    ]
    if not found:
        raise InputError(f"limits.pes.{stage.name}", pes, f"cannot be divided over {', '.join(splits)} only")
    return min(found, key=lambda share: _rank(share, stage.task))


def split_allowed(filters: int, maps: int, rows: int, splits: tuple[str, ...]) -> bool:
    """Whether PEs may be divided like this."""
    parts = (("filters", filters), ("maps", maps), ("rows", rows))
    return all(count == 1 or what in splits for what, count in parts)


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


@lru_cache(maxsize=4096)
def undominated(task: Task, units: int, splits: tuple[str, ...], over: str, most: int) -> tuple[Share, ...]:
    """Return the shares with up to `most` PEs that nothing replaces, each with more PEs and less load."""
    found = [
        share
        for filters in (useful_parts(task.filters, most) if "filters" in splits else [1])
        for maps in (useful_parts(task.maps, most // filters) if "maps" in splits else [1])
        for share in _with_units(task, Share(filters, maps), units, over)
    ]
    found = _pareto(found, task)
    if "rows" in splits:
        bands = useful_parts(task.rows, most)
        found = _pareto(
            [share._replace(rows=rows) for share in found for rows in bands if rows * share.pes <= most], task
        )
    return tuple(found)


def useful_parts(size: int, most: int) -> list[int]:
    """Return the numbers of parts, up to `most`, each the fewest for the largest part that it gives."""
    found, parts = [], 1
    while parts <= min(size, most):
        found.append(parts)
        largest = -(-size // parts)
        if largest == 1:
            break
        parts = -(-size // (largest - 1))
    return found


def _with_units(task: Task, share: Share, units: int, over: str) -> Iterator[Share]:
    """Give a share's functional units work, no more of them than are of use."""
    for unit_filters in range(1, min(units, task.filters) + 1) if over == "any" else (1,):
        rounds = -(-task.filters // (share.filters * unit_filters))
        if -(-task.filters // (share.filters * rounds)) < unit_filters:
            continue  # fewer do as well
        rounds = -(-task.maps // (share.maps * (units // unit_filters)))
        unit_maps = -(-task.maps // (share.maps * rounds))
        yield share._replace(unit_filters=unit_filters, unit_maps=unit_maps)


def _rank(share: Share, task: Task) -> tuple[int, ...]:
    return share.load(task), share.rows, share.maps, share.units


def _pareto(found: Iterable[Share], task: Task) -> list[Share]:
    """Leave out every share that has no fewer PEs than another one and no less load."""
    kept: list[Share] = []
    for share in sorted(found, key=lambda share: (share.pes, *_rank(share, task))):
        if not kept or share.load(task) < kept[-1].load(task):
            kept.append(share)
    return kept
