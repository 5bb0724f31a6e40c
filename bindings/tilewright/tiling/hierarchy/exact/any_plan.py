"""The best plan with steps of any size that is found, and a bound that no such plan goes below.

Plans come from chains, in which each block divides the one outside of it but for the outermost: blocks then
lie as they are charged. The bound comes from blocks of any size, first of few sizes and then of more; each
time only what was left the last time is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import ignore
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.exact.any_steps import AnySteps, some_sizes
from tilewright.tiling.hierarchy.exact.partial_plans import PartialPlans
from tilewright.tiling.hierarchy.exact.search import PARAMS, BestPlan, Budget, Search, best_plan
from tilewright.tiling.hierarchy.exact.tables import Left, Tables
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task


@dataclass(frozen=True)
class AnyParams:
    """How plans and bounds are looked for.

    Attributes
    ----------
    most
        Most blocks that a bound looks at.
    most_of_chains
        Most blocks that chains have, times the choices of what plans hold.
    sizes
        How many sizes of a loop's blocks the bound knows at first.
    chain_sizes
        How many sizes of a loop's blocks chains have, besides divisors; the first that are not too many.
    tried
        Plans of a bound that are tried at most.
    step, faster
        Part of a bound by which it is tried to be raised, and how much more after each success.
    close
        From this part of the best value on, it is tried to prove that value.
    """

    most: int = 100_000
    most_of_chains: int = 300_000
    sizes: int = 5
    chain_sizes: tuple[int, ...] = (12, 6, 2)
    tried: int = 20
    step: float = 0.05
    faster: float = 1.25
    close: float = 0.97


ANY_PARAMS = AnyParams()


class AnyPlan(NamedTuple):
    """The best plan, its value, and a bound on the value of every plan."""

    value: int
    plan: HierarchyPlan
    bound: int


def best_any_plan(
    task: Task,
    deadline: float = float("inf"),
    on_better: Callable[[AnyPlan], None] = ignore,
    start: HierarchyPlan | None = None,
    params: AnyParams = ANY_PARAMS,
) -> AnyPlan | None:
    """Return the best plan that is found until the deadline, None where none fits.

    Parameters
    ----------
    deadline
        ``time.monotonic()``.
    on_better
        Called with each better plan and each better bound.
    start
        A plan that is known.

    Raises
    ------
    OutOfTimeError
        If no plan is known by then.
    """
    search = _AnySearch(task, deadline, on_better, params)
    search.find_perfect()
    if start is not None:
        search.offer(start)
    search.find_chain(PARAMS.beam)
    if search.best is None:
        # Blocks of one element, which divide all others, fit but where an array has to add up all at once.
        search.best = best_plan(task, deadline)
    if search.best is None:
        search.find_chain(None)
    if search.best is None:
        if search.nothing_fits():
            return None
        raise OutOfTimeError
    on_better(search.found)
    search.raise_bound()
    if search.open:
        search.find_chain(None)
    return search.found


class _AnySearch:
    """The best plan so far, and the best bound.

    Attributes
    ----------
    proven
        A bound for the plans of each choice of what levels hold.
    """

    def __init__(
        self, task: Task, deadline: float, on_better: Callable[[AnyPlan], None], params: AnyParams
    ) -> None:
        self.task, self.deadline, self.on_better, self.params = task, deadline, on_better, params
        self.best: BestPlan | None = None
        goal = task.minimise, task.level
        self.proven = {
            kept: lower_bound(task.layer, task.machine.keeping(kept), *goal) for kept in task.machine.choices
        }
        self.bound = min(self.proven.values())

    @property
    def found(self) -> AnyPlan:
        """What is known; there is a plan."""
        assert self.best is not None
        return AnyPlan(self.best.value, self.best.plan, min(self.bound, self.best.value))

    @property
    def open(self) -> bool:
        """Whether a better plan is possible and there is time to look for it."""
        proven = self.best is not None and self.best.value <= self.bound
        return not proven and time.monotonic() < self.deadline

    def search(self, lattice: AnySteps, kept: Kept, left: Left | None = None) -> Search:
        """Return the search for what a plan holds, among what is left of blocks."""
        return Search(Tables(self.task, kept, lattice, left))

    def nothing_fits(self) -> bool:
        """Whether no plan fits, as far as few sizes tell."""
        lattice = AnySteps(self.task.layer, some_sizes(self.task.layer, self.params.sizes))
        budget = Budget(deadline=self.deadline)
        return not any(self.search(lattice, kept).stages(None, budget) for kept in self.task.machine.choices)

    def find_perfect(self) -> None:
        """Begin with a plan whose steps all divide, if one is found quickly."""
        with suppress(OutOfTimeError):
            self.best = best_plan(self.task, self.deadline, quick=True)

    def find_chain(self, beam: int | None) -> None:
        """Look for the best chain, among all or as many as a beam has."""
        choices = sorted(self.task.machine.choices, key=lambda kept: self.proven[kept])
        for most in self.params.chain_sizes:
            lattice = AnySteps(self.task.layer, some_sizes(self.task.layer, most, chains=True), chains=True)
            if lattice.many * len(choices) <= self.params.most_of_chains:
                break
        else:
            return
        budget = Budget(beam, self.deadline)
        for kept in choices:
            if self.best is None or self.proven[kept] < self.best.value:
                try:
                    self.best = self.search(lattice, kept).improved(self.best, budget)
                except OutOfTimeError:
                    return

    def raise_bound(self) -> None:
        """Prove that nothing is below one value after the other, until there is a plan or time is up."""
        step = self.params.step
        while self.open:
            assert self.best is not None
            limit = self.bound + max(1, int(self.bound * step))
            if limit > self.params.close * self.best.value:
                limit = self.best.value
            for kept in self.task.machine.choices:
                if self.proven[kept] < limit and not self.close(kept, limit):
                    return
            if self.bound < min(limit, self.best.value):
                return  # as all sizes have been looked at
            step *= self.params.faster

    def close(self, kept: Kept, limit: int) -> bool:
        """Look for plans below a limit that hold something; whether there was time.

        Either there is none, or what the best of them is charged is known then.
        """
        lattice, left = AnySteps(self.task.layer, some_sizes(self.task.layer, self.params.sizes)), None
        while True:
            assert self.best is not None
            limit = min(limit, self.best.value)
            search = self.search(lattice, kept, left)
            try:
                stages = search.stages(limit, Budget(deadline=self.deadline))
            except OutOfTimeError:
                return False
            rows = range(len(stages[-1].bits) if stages else 0)
            least = min((search.total(stages[-1], row) for row in rows), default=limit)
            self.proven[kept] = max(self.proven[kept], min(least, limit))
            self.bound = max(self.bound, min(self.proven.values()))
            tried = (
                np.argsort(stages[-1].least, kind="stable")[: self.params.tried].tolist() if stages else ()
            )
            for row in tried:
                self.offer(search.plan(stages, row))
            self.on_better(self.found)
            if not stages:
                return True
            finer = _look_closer(search, stages, self.params.most)
            if finer is None:
                return True
            lattice, left = finer

    def offer(self, plan: HierarchyPlan) -> None:
        """Take a plan if it is valid and better."""
        nest = Nest(self.task.layer, self.task.machine, plan)
        if nest.malformed() or nest.outside_of_space(divide=False) or nest.overflow():
            return
        value = self.task.value(plan)
        if self.best is None or value < self.best.value:
            self.best = BestPlan(value, plan, True)


def _look_closer(search: Search, stages: list[PartialPlans], most: int) -> tuple[AnySteps, Left] | None:
    """Return more sizes, and of each node what is left of its blocks; None if that is all."""
    before = search.lattice
    assert isinstance(before, AnySteps)
    left = np.unique(np.concatenate([stage.block for stage in stages]))
    found = before.closer(left, most)
    if found is None:
        return None
    lattice, part_of = found
    among = []
    for stage in reversed(stages[1:]):
        of_node = np.zeros(before.many, np.bool_)
        of_node[stage.block] = True
        among.append(of_node[part_of])
    return lattice, Left(among, [rest[part_of] for rest in search.tables.rest])
