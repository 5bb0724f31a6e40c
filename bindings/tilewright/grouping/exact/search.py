"""The exact search for grouping: its searches take turns until the lower bound meets a plan.

Twice the cost of loads is the length of a walk: from the empty memory through the pixels of every group back
to the empty memory, where a step from pixels A to pixels B has the length of their symmetric difference.
`cost_to_go` bounds the length of such walks from below, and thereby the cost of the rest of a plan.
`layered_search` goes through partial plans stage by stage and leaves out those that cannot end below a given
cost. docs/bounds.md proves what is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.cost import objective as cost
from tilewright.grouping.cost import violation
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.cost_to_go import CostToGo
from tilewright.grouping.exact.layered_search import LayeredSearch, Limits, TooLargeError
from tilewright.grouping.exact.objective_levels import ObjectiveLevels
from tilewright.grouping.exact.stages import Key, StateSpace
from tilewright.grouping.exact.turns import PARAMS, SearchParams, TimedSearch
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.spec.errors import OutOfTimeError


def plans_within(
    space: StateSpace,
    cost_to_go: CostToGo,
    total: int,
    deadline: float,
    *,
    watched: bool = False,
    threads: int = 1,
) -> LayeredSearch:
    """Prepare the search of all partial plans that may end at a cost of at most `total` half units.

    Of a plan and its reverse only one is followed: where no gap can begin in the first steps and end in the
    last ones, the one that throws away less in its first steps.

    Returns
    -------
    LayeredSearch
        Not yet run. If it does not reach the stage `StateSpace.end`, there is no such plan. The tables may be
        improved while it runs.
    """
    prefix = space.prefix_limits(total)

    def most(after: Key, size: int) -> NDArray[np.int64]:
        rest = (space.steps - after[0] + 1 if space.fixed else 0, space.n_patches - after[1] + size)
        longest: NDArray[np.int64] = total - cost_to_go.anchored[rest][size].astype(np.int64)
        if prefix.steps:
            return longest
        if 0 < space.missing < space.size and space.fixed:
            # Of a plan and its reverse, one is missing at most half of the patches in its first half of
            # steps.
            if 2 * after[0] <= space.steps and 2 * space.missing_patches(after) > space.missing:
                return np.full(space.most_pixels + 1, -NEVER, np.int64)
        elif after[1] - size < space.n_patches / 2 <= after[1]:
            # Of a plan and its reverse, one is no longer than half up to the group that completes one half.
            longest = np.minimum(longest, (total + space.step) // 2)
        return longest

    spare = 0 if space.problem.max_loads == 1 else 2**30
    limits = Limits(total=total, watched=watched, spare=spare, prefix=prefix)
    return LayeredSearch(space, most, deadline, limits, threads)


@dataclass(frozen=True)
class Progress:
    """What is proven after a turn of the search.

    Attributes
    ----------
    bound
        Proven lower bound on the objective.
    plan
        A plan whose objective is the bound, or None.
    impossible
        Whether no plan keeps the limits.
    grounds
        What the bound rests on, for people.
    seconds
        Expected duration of the next turn for plans.
    """

    bound: int
    plan: Plan | None
    impossible: bool
    grounds: str
    seconds: float = 0.0


@dataclass
class SharedTargets:
    """What searches for different numbers of steps tell each other.

    Attributes
    ----------
    objective
        Each search may refute all objectives up to this one in a single turn.
    idle
        Whether the last turn for tables raised no bound on plans.
    """

    objective: int = 0
    idle: bool = False


def prove(
    problem: Problem,
    deadline: float,
    known: int,
    objective: int | None = None,
    threads: int = 1,
    *,
    shared: SharedTargets | None = None,
    merged: bool = False,
    params: SearchParams = PARAMS,
) -> Iterator[Progress]:
    """Raise the bound, objective by objective, until a plan is found, time is up or memory is full.

    The search for plans and the improvement of tables take turns, stage by stage, so that neither takes much
    more time than the other.

    Parameters
    ----------
    known
        A bound that is proven already.
    objective
        Objective of a valid plan: only cheaper plans are searched.
    threads
        Number of threads.
    shared
        What this search shares with searches for other numbers of steps.
    merged
        Whether plans with fewer steps are searched elsewhere.

    Yields
    ------
    Progress
        After each turn.
    """
    space = StateSpace(problem, merged=merged)
    yield from TimeSlicer(space, deadline, known, objective, threads, shared, params).run()


class TimeSlicer:
    """Lets the search for plans and the improvement of tables take turns, and collects what they prove.

    Attributes
    ----------
    bound, grounds
        Lower bound on the objective, and what proves it.
    target
        The largest objective that the present turn for plans refutes.
    until
        When that turn is abandoned, if it would refute several objectives at once.
    several, skips
        Whether it would, and whether turns for plans may.
    watched
        Whether plans with a pixel loaded more than twice are left out.
    idle
        Whether the last turn for tables raised no bound on plans, or there are too many first groups for
        tables.
    """

    def __init__(
        self,
        space: StateSpace,
        deadline: float,
        known: int,
        objective: int | None,
        threads: int,
        shared: SharedTargets | None,
        params: SearchParams,
    ) -> None:
        self.space, self.deadline, self.threads, self.shared = space, deadline, threads, shared
        self.params = params
        self.cost_to_go, self.levels = CostToGo(space), ObjectiveLevels(space)
        self.objective = objective
        self.bound = self.levels.up(max(known, self.levels.value(self.cost_to_go.total)))
        self.grounds = "bounds of chains, before any search"
        self.target, self.until = self.bound, self.deadline
        self.several, self.skips, self.watched = False, True, False
        self.slack, self.reached = params.first_slack, self.cost_to_go.total
        self.plans, self.tables = TimedSearch(params.patience), TimedSearch(params.patience)
        self.search: LayeredSearch | None = None
        self.idle = comb(space.n_patches, space.size) > params.max_groups * len(space.images)
        if self.idle or (shared is not None and shared.idle):
            self.tables.expected = float("inf")

    def run(self) -> Iterator[Progress]:
        """Yield what is proven whenever a turn is over."""
        try:
            self._compile()
            while self.objective is None or self.bound < self.objective:
                if self.bound > self.levels.highest:
                    yield Progress(self.bound, None, True, self.grounds)
                    return
                if self.target < self.bound:
                    # The tables have refuted the target.
                    self._leave(self.plans)
                work = min(self.plans, self.tables, key=lambda work: work.due)
                if work.due == float("inf"):
                    return
                if not work.begun:
                    self._begin(work)
                try:
                    if work.go_on():
                        if work is self.plans and self.several and time.monotonic() > self.until:
                            self._leave(work)
                            self._aim_at_less()
                        continue
                except TooLargeError:
                    self._give_up(work)
                    continue
                if work is self.tables:
                    self._take_tables()
                    plan = None
                else:
                    plan = self._take_plans()
                problem = self.space.problem
                valid = plan is not None and (self.watched or violation(problem, plan) is None)
                yield Progress(self.bound, plan if valid else None, False, self.grounds, self.plans.expected)
                if plan is not None:
                    # If it loads some pixel too often, valid plans may cost more. Only a limit of two loads
                    # can be watched.
                    if valid or problem.max_loads != 2:
                        return
                    self.watched = True
        except OutOfTimeError:
            return

    def _compile(self) -> None:
        """Search for nothing, so that compiling the kernels does not count as time of a turn."""
        nothing = np.full(self.space.most_pixels + 1, -NEVER, np.int64)
        search = LayeredSearch(self.space, lambda _after, _size: nothing, self.deadline, Limits(total=0))
        next(search.run(), None)

    def _begin(self, work: TimedSearch) -> None:
        if work is self.tables:
            work.begin(self.cost_to_go.improve(self.slack, self.deadline, self.threads))
            return
        self._aim()
        total = self.levels.total(self.target)
        self.search = plans_within(
            self.space, self.cost_to_go, total, self.deadline, watched=self.watched, threads=self.threads
        )
        work.begin(self.search.run())

    def _aim(self) -> None:
        """Choose the target of the next turn for plans, and how long it may take."""
        params, now = self.params, time.monotonic()
        left, seconds = self.deadline - now, self.plans.expected
        self.target, self.until = self.bound, now + params.patience * seconds
        if self.shared is not None and self.bound <= self.shared.objective:
            self.target, self.until = self.shared.objective, now + params.following * left
        elif self.objective is not None and self.skips:
            # Several objectives are refuted at once while this is expected to take no more time than the
            # tables.
            share = 1.0 if self.shared is None else params.leading
            left = min(share * left, self.tables.due - self.plans.spent)
            higher = self.levels.up(self.target + 1)
            while not self.idle and higher < self.objective and params.growth * seconds <= left:
                self.target, higher, seconds = higher, self.levels.up(higher + 1), params.growth * seconds
            self.until = now + params.patience * seconds
            if higher < self.objective and self._as_easy(higher):
                # This takes no more work, so the turn is not abandoned for a lower target.
                self.several, self.target = self.target > self.bound, higher
                return
        self.several = self.target > self.bound

    def _as_easy(self, higher: int) -> bool:
        """Whether refuting a higher objective takes as little work as refuting the target."""
        # That is so if the first steps may throw away as much; but where patches are missing, a plan and its
        # reverse that throw away as much are told apart by these.
        prefix, dearer = (
            self.space.prefix_limits(self.levels.total(value)) for value in (self.target, higher)
        )
        return bool(prefix.steps and dearer.steps and prefix.most == dearer.most and not self.space.missing)

    def _leave(self, work: TimedSearch) -> None:
        """Leave a turn, and free what it kept."""
        work.leave()
        if work is self.plans:
            self.search = None

    def _aim_at_less(self) -> None:
        """Let the next turns refute fewer objectives: one took too long, or too much memory."""
        self.skips = False
        if self.shared is not None:
            self.shared.objective = (self.bound + self.target) // 2

    def _give_up(self, work: TimedSearch) -> None:
        """Leave a turn that does not fit into memory, and do not ask for the same again."""
        self._leave(work)
        self.idle = self.idle or work is self.tables
        if work is self.tables or self.target == self.bound:
            work.expected = float("inf")
            self.skips = False
        else:
            self._aim_at_less()

    def _take_plans(self) -> Plan | None:
        """Raise the bound by the result of a turn for plans; return the plan that it found, if any."""
        assert self.search is not None
        plan = self.search.plan() if self.search.complete else None
        if plan is None:
            self.plans.end(self.params.growth)
            proven, self.bound = self.target, self.levels.up(self.target + 1)
        else:
            # Among all plans of at most the target this is the cheapest.
            self.plans.leave()
            self.bound = cost(self.space.problem, plan)
            proven = self.bound - 1
        rows = f"{self.search.rows:,} partial plans"
        self.grounds = f"no plan costs {proven} or less: {rows}, {self.cost_to_go}"
        self.search = None
        return plan

    def _take_tables(self) -> None:
        """Raise the bound by the result of a turn for tables."""
        # Where better tables do not raise the bound, the search for plans gets most of the time.
        self.idle = self.cost_to_go.total == self.reached and self.tables.used > self.params.brief
        if self.shared is not None:
            self.shared.idle = self.idle
        self.tables.end(self.params.idle if self.idle else self.params.wider)
        self.slack, self.reached = self.slack + 1, self.cost_to_go.total
        better = self.levels.up(self.levels.value(self.cost_to_go.total))
        if better > self.bound:
            self.bound, self.grounds = better, str(self.cost_to_go)
