"""How a layer's work is divided among its PEs and their functional units, and which splits are of use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import isqrt, prod
from typing import NamedTuple

from tilewright.allocation.machine import AllocationLimits, ArrayMachine
from tilewright.allocation.stages import Stage, Task
from tilewright.spec.errors import InputError


class LayerSplit(NamedTuple):
    """How a layer is divided: the PEs that it gets, and what each of them works on.

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
        """Return the beats of a frame; in each of them every row group computes a pixel."""
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

    def violation(self, machine: ArrayMachine, limits: AllocationLimits, stage: Stage) -> str | None:
        """Say which limit the split of a stage breaks, or None."""
        for axis, parts in (("filters", self.filters), ("maps", self.maps), ("rows", self.rows)):
            if parts > 1 and axis not in limits.splits:
                return f"split: layer {stage.name} divides its {axis}, allowed are {', '.join(limits.splits)}"
        if self.unit_filters > 1 and limits.functional_units != "any":
            return f"functional units: of layer {stage.name} work on filters, allowed are maps only"
        used, units = self.unit_filters * self.unit_maps, machine.functional_units
        if used > units:
            return f"functional units: layer {stage.name} uses {used} of a PE, which has {units}"
        given = limits.pes.get(stage.name)
        if given is not None and self.pes != given:
            return f"PEs: layer {stage.name} has {self.pes}, given are {given}"
        return None


class SplitRules(NamedTuple):
    """What decides which splits a layer can have.

    Attributes
    ----------
    units
        Functional units of a PE.
    axes
        Over what layers may be divided: filters, maps, rows.
    units_work_on : {"maps", "any"}
        What the units of a PE work on in parallel.
    """

    units: int
    axes: tuple[str, ...]
    units_work_on: str

    @classmethod
    def of(cls, machine: ArrayMachine, limits: AllocationLimits) -> SplitRules:
        """Return the rules of a machine and limits."""
        return cls(machine.functional_units, limits.splits, limits.functional_units)

    def allow(self, filters: int, maps: int, rows: int) -> bool:
        """Whether PEs may be divided like this."""
        parts = (("filters", filters), ("maps", maps), ("rows", rows))
        return all(count == 1 or axis in self.axes for axis, count in parts)


def layer_splits(
    machine: ArrayMachine, limits: AllocationLimits, stage: Stage, most: int
) -> tuple[LayerSplit, ...]:
    """Return the splits of a layer that no other one replaces: each has more PEs and less load than the last.

    Of equal ones it is the one with the fewest row groups, then groups of maps, then functional units. A
    layer whose PEs are given has one.

    Parameters
    ----------
    most
        Most PEs of the layer, where they are not given.

    Raises
    ------
    InputError
        If the PEs that are given cannot be divided as the limits allow.
    """
    rules, given = SplitRules.of(machine, limits), limits.pes.get(stage.name)
    return pareto_splits(stage.task, rules, most) if given is None else (_given(stage, rules, given),)


def least_load(machine: ArrayMachine, limits: AllocationLimits, stage: Stage) -> int:
    """Return the fewest cycles in which a layer computes a frame, on any number of PEs if none is given."""
    return layer_splits(machine, limits, stage, prod(stage.task))[-1].load(stage.task)


def paper_split(machine: ArrayMachine, pes: int) -> LayerSplit:
    """Return the split of the paper: filters are divided, all functional units work on input maps."""
    return LayerSplit(pes, unit_maps=machine.functional_units)


def _given(stage: Stage, rules: SplitRules, pes: int) -> LayerSplit:
    """Return the best split of exactly `pes` PEs; some may have nothing to do."""
    splits = [
        split
        for filters in divisors(pes)
        for maps in divisors(pes // filters)
        if rules.allow(filters, maps, pes // (filters * maps))
        for split in _with_units(stage.task, LayerSplit(filters, maps, pes // (filters * maps)), rules)
    ]
    if not splits:
        axes = ", ".join(rules.axes)
        raise InputError(f"limits.pes.{stage.name}", pes, f"cannot be divided over {axes} only")
    return min(splits, key=lambda split: _rank(split, stage.task))


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


@lru_cache(maxsize=4096)
def pareto_splits(task: Task, rules: SplitRules, most: int) -> tuple[LayerSplit, ...]:
    """Return the splits of up to `most` PEs that no other one replaces, each with more PEs and less load."""
    splits = _pareto(
        (
            split
            for filters, maps in filters_and_maps(task, rules, most)
            for split in _with_units(task, LayerSplit(filters, maps), rules)
        ),
        task,
    )
    if "rows" in rules.axes:
        bands = useful_parts(task.rows, most)
        splits = _pareto(
            (split._replace(rows=rows) for split in splits for rows in bands if rows * split.pes <= most),
            task,
        )
    return tuple(splits)


def filters_and_maps(task: Task, rules: SplitRules, most: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of parts of filters and maps, of up to `most` PEs, that make a difference."""
    for filters in useful_parts(task.filters, most) if "filters" in rules.axes else [1]:
        for maps in useful_parts(task.maps, most // filters) if "maps" in rules.axes else [1]:
            yield filters, maps


def useful_parts(size: int, most: int) -> list[int]:
    """Return the numbers of parts, up to `most`, each the fewest for the largest part that it gives."""
    numbers, parts = [], 1
    while parts <= min(size, most):
        numbers.append(parts)
        largest = -(-size // parts)
        if largest == 1:
            break
        parts = -(-size // (largest - 1))
    return numbers


def _with_units(task: Task, split: LayerSplit, rules: SplitRules) -> Iterator[LayerSplit]:
    """Give the functional units work, no more of them than are of use."""
    most = min(rules.units, task.filters) if rules.units_work_on == "any" else 1
    for unit_filters in range(1, most + 1):
        rounds = -(-task.filters // (split.filters * unit_filters))
        if -(-task.filters // (split.filters * rounds)) < unit_filters:
            continue  # fewer do as well
        rounds = -(-task.maps // (split.maps * (rules.units // unit_filters)))
        unit_maps = -(-task.maps // (split.maps * rounds))
        yield split._replace(unit_filters=unit_filters, unit_maps=unit_maps)


def _rank(split: LayerSplit, task: Task) -> tuple[int, ...]:
    return split.load(task), split.rows, split.maps, split.units


def _pareto(splits: Iterable[LayerSplit], task: Task) -> list[LayerSplit]:
    """Leave out every split that has no fewer PEs than another one and no less load."""
    kept: list[LayerSplit] = []
    for split in sorted(splits, key=lambda split: (split.pes, *_rank(split, task))):
        if not kept or split.load(task) < kept[-1].load(task):
            kept.append(split)
    return kept
