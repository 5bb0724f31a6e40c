"""What layers can choose from where energy counts, and a bound on it that needs no search.

*Options.* Energy, leakage apart, is a sum over layers of what their splits take. Of splits with the same PEs,
load and energy, or no less of each, one is enough.

*Leakage* is the product of the interval and of what PEs with a layer, and without, take in a cycle. Where
layers work at the same time, let an interval T be given: no load is above it, and a PE more of a layer takes
T times what it takes more than an idle one. So a layer's cost at T is its own, and the least sum over all
layers is a bound on all plans of interval T; the least of these bounds is one on all plans. Where layers take
turns the number of PEs is given instead, and a cycle more of a layer costs what all PEs take in it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.allocation.energy import channels_read, leakage_per_cycle, own_energy, words_given
from tilewright.allocation.exact.options import every_split, undominated_splits
from tilewright.allocation.geometry import Numbers, Windows
from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage

NEVER = 2**62
"""More than any plan takes."""


@dataclass(frozen=True)
class EnergyOptions:
    """The splits of a layer of which none is as good as another.

    Attributes
    ----------
    splits
        By ascending PEs.
    pes, loads, spent : int, shape (splits,)
        Of each; energy without leakage.
    """

    splits: tuple[LayerSplit, ...]
    pes: Numbers
    loads: Numbers
    spent: Numbers

    @classmethod
    def of(cls, problem: Problem, stage: Stage) -> EnergyOptions:
        """Return the options of a layer that keep a required rate.

        What the units of a PE work on changes no energy, so of equal parts the fastest split counts.
        """
        fastest: dict[tuple[int, ...], tuple[int, LayerSplit]] = {}
        most = NEVER if problem.most_load is None else problem.most_load
        for split in every_split(problem, stage, parts=False, units=False):
            load = split.load(stage.task)
            if load <= min(most, fastest.get(split[:3], (NEVER,))[0] - 1):
                fastest[split[:3]] = load, split
        costs = [
            (split.pes, load, own_energy(problem, stage, split), split) for load, split in fastest.values()
        ]
        kept = set(undominated_splits(costs))
        costs = sorted(cost for cost in costs if cost[3] in kept)
        columns = np.array([cost[:3] for cost in costs], dtype=np.int64).reshape(-1, 3).T
        return cls(tuple(cost[3] for cost in costs), *columns)


class Menu:
    """The options of all layers, and what all of them cost at least.

    Attributes
    ----------
    layers
        Options of each.
    more
        What a PE with a layer takes more in a cycle than one without.
    rest
        What all PEs of the array take in a cycle without layers.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        known: dict[object, EnergyOptions] = {}
        for stage in problem.stages:
            key = _likeness(problem, stage)
            if key not in known:
                known[key] = EnergyOptions.of(problem, stage)
        self.layers = [known[_likeness(problem, stage)] for stage in problem.stages]
        self.rest = leakage_per_cycle(problem, 0)
        self.more = leakage_per_cycle(problem, 1) - self.rest

    @property
    def empty(self) -> bool:
        """Whether some layer has no option."""
        return not all(layer.splits for layer in self.layers)

    @cached_property
    def limits(self) -> Numbers:
        """Intervals that plans can have, or, where layers take turns, PEs; ascending, shape (limits,)."""
        name = "loads" if self.problem.parallel else "pes"
        columns: list[Numbers] = [getattr(layer, name) for layer in self.layers]
        found: Numbers = np.unique(np.concatenate(columns))
        if self.problem.parallel:
            found = np.unique(np.maximum(found, self.problem.host_period))
        first = bisect_left(found.tolist(), True, key=self._suffices)
        return found[first:]

    def _suffices(self, limit: int) -> bool:
        """Whether some plan is within a limit."""
        if not self.problem.parallel:
            return all(int(layer.pes.min()) <= limit for layer in self.layers)
        fewest = [layer.pes[layer.loads <= limit] for layer in self.layers]
        fits = all(len(pes) for pes in fewest)
        return fits and sum(int(pes.min()) for pes in fewest) <= self.problem.machine.pes

    def costs(self, layer: EnergyOptions, limit: int) -> Numbers:
        """Return what the options of a layer cost at an interval, or on some PEs; `NEVER` above the limit."""
        if self.problem.parallel:
            return np.where(layer.loads <= limit, layer.spent + self.more * limit * layer.pes, NEVER)
        each = self.rest + self.more * limit
        return np.where(layer.pes <= limit, layer.spent + each * layer.loads, NEVER)

    def at_once(self, limit: int) -> int:
        """Return what is part of each plan's cost at an interval, or on some PEs, whatever its options."""
        if self.problem.parallel:
            return self.rest * limit
        return (self.rest + self.more * limit) * self.problem.host_period

    @cached_property
    def bounds(self) -> Numbers:
        """Least costs at each of `limits`, if no more PEs counted than each layer has, shape (limits,)."""
        found = [
            self.at_once(limit) + sum(int(self.costs(layer, limit).min()) for layer in self.layers)
            for limit in self.limits.tolist()
        ]
        return np.array(found, dtype=np.int64)


def _likeness(problem: Problem, stage: Stage) -> object:
    """Return what layers have in common that have the same options."""
    spec = stage.spec
    moved = stage.weights, stage.leaves, bool(problem.consumers[stage.number]), channels_read(problem, stage)
    given = problem.limits.pes.get(stage.name), problem.most_pes(stage)
    shape = type(spec), getattr(spec, "groups", 1), Windows.of(spec), len(stage.producers)
    return stage.task, moved, given, shape, tuple(words_given(problem, stage))


def least_energy(problem: Problem) -> int:
    """Return a bound on the energy of a frame; 0 where no plan keeps the rate."""
    menu = Menu(problem)
    return 0 if menu.empty or not len(menu.limits) else int(menu.bounds.min())
