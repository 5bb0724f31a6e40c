"""The best plan with steps of any size that is found, and a bound that no such plan goes below.

Plans come from chains, in which each block divides the one outside of it but for the outermost: blocks then
lie as they are charged. The bound comes from blocks of any size, first of few sizes and then of more; each
time only what was left the last time is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy import bounds
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact.any_steps import AnySteps, some_sizes
from tilewright.tiling.hierarchy.exact.search import BEAM, BestPlan, Search, Stage, best_plan
from tilewright.tiling.hierarchy.exact.tables import Left, Tables
from tilewright.tiling.hierarchy.machine import HierarchyMachine, Kept
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan

MOST = 100_000
"""Most blocks that a bound looks at."""

MOST_OF_CHAINS = 300_000
"""Most blocks that chains have, times the choices of what plans hold."""

SIZES = 5
"""How many sizes of a loop's blocks the bound knows at first."""

CHAIN_SIZES = 12, 6, 2
"""How many sizes of a loop's blocks chains have, besides divisors; the first that are not too many."""

TRIED = 20
"""Plans of a bound that are tried at most."""

STEP, FASTER = 0.05, 1.25
"""Part of a bound by which it is tried to be raised, and how much more after each success."""

CLOSE = 0.97
"""From this part of the best value on, it is tried to prove that value."""


class AnyPlan(NamedTuple):
    """The best plan, its value, and a bound on the value of every plan."""

    value: int
    plan: HierarchyPlan
    bound: int


Told = Callable[[AnyPlan], None]
"""Called with each better plan and each better bound."""


def best_any_plan(
    layer: Layer,
    machine: HierarchyMachine,
    minimise: str,
    level: str,
    deadline: float = float("inf"),
    told: Told = lambda _found: None,
    start: HierarchyPlan | None = None,
) -> AnyPlan | None:
    """Return the best plan that is found until the deadline, None where none fits.

    Parameters
    ----------
    level
        The memory whose accesses are counted.
    deadline
        ``time.monotonic()``.
    start
        A plan that is known.

    Raises
    ------
    OutOfTimeError
        If no plan is known by then.
    """
    one = _AnySearch(layer, machine, minimise, level, deadline, told)
    one.find_perfect()
    if start is not None:
        one.take(start)
    one.find_chain(BEAM)
    if one.best is None:
        # Blocks of one element, which divide all others, fit but where an array has to add up all at once.
        one.best = best_plan(layer, machine, minimise, level, deadline)
    if one.best is None:
        one.find_chain(None)
    if one.best is None:
        if one.nothing_fits():
            return None
        raise OutOfTimeError
    one.tell()
    one.raise_bound()
    if one.open:
        one.find_chain(None)
    return one.found


class _AnySearch:
    """The best plan so far, and the best bound."""

    def __init__(
        self,
        layer: Layer,
        machine: HierarchyMachine,
        minimise: str,
        level: str,
        deadline: float,
        told: Told,
    ) -> None:
        self.layer, self.machine, self.minimise, self.level = layer, machine, minimise, level
        self.deadline, self.told = deadline, told
        self.best: BestPlan | None = None
        self.proven = {
            kept: bounds.least(layer, machine.keeping(kept), minimise, level) for kept in machine.choices
        }
        self.bound = min(self.proven.values())

    @property
    def found(self) -> AnyPlan:
        """What is known; there is a plan."""
        assert self.best is not None
        return AnyPlan(self.best.value, self.best.plan, min(self.bound, self.best.value))

    def tell(self) -> None:
        """Tell the caller what is known."""
        self.told(self.found)

    @property
    def open(self) -> bool:
        """Whether a better plan is possible and there is time to look for it."""
        proven = self.best is not None and self.best.value <= self.bound
        return not proven and time.monotonic() < self.deadline

    def search(self, lattice: AnySteps, kept: Kept, left: Left | None = None) -> Search:
        """Return the search for what a plan holds, among what is left of blocks."""
        machine = self.machine.keeping(kept)
        tables = Tables(self.layer, machine, self.minimise, self.level, lattice=lattice, left=left)
        return Search(tables, kept)

    def nothing_fits(self) -> bool:
        """Whether no plan fits, as far as few sizes tell."""
        lattice = AnySteps(self.layer, some_sizes(self.layer, SIZES))
        return not any(
            self.search(lattice, kept).stages(None, None, self.deadline) for kept in self.machine.choices
        )

    def find_perfect(self) -> None:
        """Begin with a plan whose steps all divide, if one is found quickly."""
        given = self.layer, self.machine, self.minimise, self.level, self.deadline
        with suppress(OutOfTimeError):
            self.best = best_plan(*given, quick=True)

    def find_chain(self, beam: int | None) -> None:
        """Look for the best chain, among all or as many as a beam has."""
        choices = sorted(self.machine.choices, key=lambda kept: self.proven[kept])
        for most in CHAIN_SIZES:
            lattice = AnySteps(self.layer, some_sizes(self.layer, most, chains=True), chains=True)
            if lattice.many * len(choices) <= MOST_OF_CHAINS:
                break
        else:
            return
        for kept in choices:
            if self.best is None or self.proven[kept] < self.best.value:
                try:
                    self.best = self.search(lattice, kept).improved(self.best, beam, self.deadline)
                except OutOfTimeError:
                    return

    def raise_bound(self) -> None:
        """Prove that nothing is below one value after the other, until there is a plan or time is up."""
        step = STEP
        while self.open:
            assert self.best is not None
            limit = self.bound + max(1, int(self.bound * step))
            if limit > CLOSE * self.best.value:
                limit = self.best.value
            for kept in self.machine.choices:
                if self.proven[kept] < limit and not self.close(kept, limit):
                    return
            if self.bound < min(limit, self.best.value):
                return  # as all sizes have been looked at
            step *= FASTER

    def close(self, kept: Kept, limit: int) -> bool:
        """Look for plans below a limit that hold something; whether there was time.

        Either there is none, or what the best of them is charged is known then.
        """
        lattice, left = AnySteps(self.layer, some_sizes(self.layer, SIZES)), None
        while True:
            assert self.best is not None
            limit = min(limit, self.best.value)
            search = self.search(lattice, kept, left)
            try:
                stages = search.stages(limit, None, self.deadline)
            except OutOfTimeError:
                return False
            rows = range(len(stages[-1].bits) if stages else 0)
            least = min((search.total(stages[-1], row) for row in rows), default=limit)
            self.proven[kept] = max(self.proven[kept], min(least, limit))
            self.bound = max(self.bound, min(self.proven.values()))
            for row in np.argsort(stages[-1].least, kind="stable")[:TRIED].tolist() if stages else ():
                self.take(search.plan(stages, row))
            self.tell()
            if not stages:
                return True
            found = _closer(search, stages)
            if found is None:
                return True
            lattice, left = found

    def take(self, plan: HierarchyPlan) -> None:
        """Take a plan if it is valid and better."""
        nest = Nest(self.layer, self.machine, plan)
        if nest.malformed() or nest.outside_of_space(divide=False) or nest.overflow():
            return
        value = cost_of(nest).value(self.minimise, self.level)
        if self.best is None or value < self.best.value:
            self.best = BestPlan(value, plan, True)


def _closer(search: Search, stages: list[Stage]) -> tuple[AnySteps, Left] | None:
    """Return more sizes, and of each node what is left of its blocks; None if that is all."""
    before = search.lattice
    assert isinstance(before, AnySteps)
    left = np.unique(np.concatenate([stage.block for stage in stages]))
    found = before.closer(left, MOST)
    if found is None:
        return None
    lattice, part_of = found
    among = []
    for stage in reversed(stages[1:]):
        of_node = np.zeros(before.many, np.bool_)
        of_node[stage.block] = True
        among.append(of_node[part_of])
    return lattice, Left(among, [rest[part_of] for rest in search.tables.rest])
