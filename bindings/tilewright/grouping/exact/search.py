"""The exact search for grouping: walks through disjoint groups, and partial plans stage by stage.

Twice the cost of loads is the length of a walk: from the empty memory through the pixels of every group
back to the empty memory, where a step from pixels A to pixels B has the length of their symmetric
difference. `chains` tells how short such walks can be through any disjoint groups, and thereby what the rest
of a plan must cost. Plans are searched stage by stage, a stage being the partial plans that have computed
equally many patches in equally many steps, and what cannot end below a given cost is left out. Here the
searches take turns, until the bound meets a plan. docs/bounds.md proves what is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.bounds.best import best_bound, with_more_steps
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.cost_to_go import Chains
from tilewright.grouping.exact.layered_search import Sweep, TooLargeError
from tilewright.grouping.exact.stages import Key, Space
from tilewright.grouping.plan import Plan
from tilewright.grouping.plan import objective as cost
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import last_useful_step, scale
from tilewright.grouping.validity import violation
from tilewright.spec.errors import OutOfTimeError

MAX_GROUPS = 600_000
"""Most groups that chains are started with, but for symmetry."""

FIRST_SLACK = 0
"""How far above known bounds, or what these lead to expect, chains are followed at first."""

GROWTH, WIDER = 2.4, 4.0
"""How much longer the next turn of a search for plans takes, about, and of one for chains."""

IDLE, BRIEF = 40.0, 1.0
"""After a turn for chains of so many seconds (`BRIEF`) or more that raised no bound on plans, the next is
said to take so many times (`IDLE`) as long, which is more than it does, so that it comes late."""

PATIENCE = 5.0
"""A turn that takes so many times what was expected lets the other search go on; one that would refute
several costs at once is left."""

LEADING = 0.15
"""The search for the fewest steps goes ahead as long as its next turn is expected to take no more than so
much of the time that is left, the rest of which others take."""

EARLY = 0.01
"""After so much of the time it waits once for the others, so that something is proven of all soon."""

FOLLOWING = 0.6
"""A search for more steps that takes more than so much of the time that is left aims at less."""


def plans_within(
    space: Space, chains: Chains, total: int, deadline: float, *, watched: bool = False, threads: int = 1
) -> Sweep:
    """Follow all partial plans that may end at a cost of at most `total`.

    Of a plan and its reverse only one is followed: where no gap can begin in the first steps and end in the
    last ones, the one that throws away less in its first steps.

    Returns
    -------
    Sweep
        Not yet run. If it then is without a stage `Space.end` there is no such plan, by what the chains
        prove of the rest; they may get better in between.
    """
    ends = space.ends(total)

    def most(after: Key, size: int) -> NDArray[np.int64]:
        rest = (space.steps - after[0] + 1 if space.fixed else 0, space.n_patches - after[1] + size)
        longest: NDArray[np.int64] = total - chains.anchored[rest][size].astype(np.int64)
        if ends.steps:
            return longest
        if 0 < space.missing < space.size and space.fixed:
            # Of a plan and its reverse, one has no more patches missing in its first half of steps.
            if 2 * after[0] <= space.steps and 2 * space.short(after) > space.missing:
                return np.full(space.most_pixels + 1, -NEVER, np.int64)
        elif after[1] - size < space.n_patches / 2 <= after[1]:
            # Of a plan and its reverse, one is no longer than half up to the group that completes one half.
            longest = np.minimum(longest, (total + space.step) // 2)
        return longest

    spare = 0 if space.problem.max_loads == 1 else 2**30
    return Sweep(space, most, deadline, total=total, watched=watched, spare=spare, ends=ends, threads=threads)


@dataclass(frozen=True)
class Found:
    """What is known after a part of the search.

    Attributes
    ----------
    bound
        Proven lower bound on the objective.
    plan
        A plan that costs as much, or None.
    impossible
        Whether no plan keeps the limits.
    grounds
        What the bound rests on.
    seconds
        How many the next turn for plans is expected to take.
    """

    bound: int
    plan: Plan | None
    impossible: bool
    grounds: str
    seconds: float = 0.0


@dataclass
class Beside:
    """What searches for different numbers of steps have in common.

    Attributes
    ----------
    objective
        Each of them refutes all plans that cost so much or less at once.
    idle
        Whether tables of chains raised no bound on plans.
    """

    objective: int = 0
    idle: bool = False


def answers(
    problem: Problem,
    deadline: float,
    known: int,
    objective: int | None = None,
    threads: int = 1,
    *,
    beside: Beside | None = None,
    merged: bool = False,
) -> Iterator[Found]:
    """Raise the bound, objective by objective, until a plan is found, time is up or memory is full.

    Searches for plans and better tables of chains take turns, stage by stage, so that neither takes much more
    time than the other: who knows which of them pays.

    Parameters
    ----------
    known
        A bound that is proven already.
    objective
        Of a valid plan: nothing above it is searched.
    threads
        How many threads work.
    beside
        What this search shares with others for other numbers of steps.
    merged
        Whether plans with fewer steps are searched by others.
    """
    yield from _Turns(Space(problem, merged=merged), deadline, known, objective, threads, beside).run()


def answers_by_steps(
    problem: Problem, deadline: float, known: int, objective: int | None = None, threads: int = 1
) -> Iterator[Found]:
    """Raise the bound as `answers` does, by a search of its own for every number of steps.

    The search for the fewest steps goes ahead, and waits once. The others follow and refute at once what it
    has refuted: the one with the least bound goes on, or one for a step more begins when what counting says
    of all others is less. A plan that is found may cost more than the bound.
    """
    bound, first = known, best_bound(problem).steps
    steps, leads, beside = first - 1, True, Beside()
    began = time.monotonic()
    waited = False
    bounds: dict[int, int] = {}
    grounds: dict[int, str] = {}
    searches: dict[int, Iterator[Found]] = {}
    while objective is None or bound < objective:
        lowest = min(bounds, key=bounds.__getitem__, default=steps)
        others = with_more_steps(problem, steps + 1)
        plan = None
        limit = int(NEVER) if objective is None else objective
        ahead = leads and bounds.get(first, limit) < limit
        if not ahead and others is not None and (not bounds or others <= bounds[lowest]):
            steps += 1
            part = problem.with_steps(steps)
            facts = best_bound(part)
            bounds[steps] = int(NEVER) if facts.impossible else max(others, facts.value, bound)
            grounds[steps] = str(facts)
            merged = steps > problem.steps_range[0]
            searches[steps] = answers(
                part, deadline, bounds[steps], objective, threads, beside=beside, merged=merged
            )
            others = with_more_steps(problem, steps + 1)
        else:
            number = first if ahead else lowest
            found = next(searches[number], None) if searches else None
            if found is None:
                if number == lowest:
                    return
                leads = False
                continue
            bounds[number] = int(NEVER) if found.impossible else found.bound
            grounds[number] = found.grounds
            if found.plan is not None and (objective is None or found.bound < objective):
                plan, objective = found.plan, found.bound
            if number == first and not found.impossible:
                now = time.monotonic()
                leads = found.seconds <= LEADING * (deadline - now)
                if not waited and now - began >= EARLY * (deadline - began):
                    leads, waited = False, True
                beside.objective = min(bounds[first], limit) - 1
        least = min(bounds.values()) if others is None else min(others, *bounds.values())
        if least >= NEVER:
            yield Found(bound, None, True, "no number of steps is possible")
            return
        bound = max(bound, least)
        said = [f"{number} steps: {text}" for number, text in grounds.items()]
        if others is not None:
            said.append(f"more: {others} or more")
        yield Found(bound, plan, False, "; ".join(said))


class _Turns:
    """Searches for plans and for better tables of chains, turn by turn, and what they have proven together.

    Attributes
    ----------
    bound, grounds
        What every plan costs at least, and what proves it.
    target
        The present turn for plans refutes all that cost so much or less.
    until
        When that turn is left, if it would refute several costs at once.
    several, skips
        Whether it would, and whether turns for plans may.
    watched
        Whether plans with a pixel loaded more than twice are left out.
    idle
        Whether tables have become better without proving more of whole plans, or are too many to begin with.
    """

    def __init__(
        self,
        space: Space,
        deadline: float,
        known: int,
        objective: int | None,
        threads: int,
        beside: Beside | None,
    ) -> None:
        self.space, self.deadline, self.threads, self.beside = space, deadline, threads, beside
        self.chains, self.levels = Chains(space), _Levels(space)
        self.objective = objective
        self.bound = self.levels.up(max(known, self.levels.value(self.chains.total)))
        self.grounds = "bounds of chains, before any search"
        self.target, self.until = self.bound, self.deadline
        self.several, self.skips, self.watched = False, True, False
        self.slack, self.reached = FIRST_SLACK, self.chains.total
        self.plans, self.tables = _Work(), _Work()
        self.sweep: Sweep | None = None
        self.idle = comb(space.n_patches, space.size) > MAX_GROUPS * len(space.images)
        if self.idle or (beside is not None and beside.idle):
            self.tables.expected = float("inf")

    def run(self) -> Iterator[Found]:
        """Give what is known whenever a turn is over."""
        try:
            self._compile()
            while self.objective is None or self.bound < self.objective:
                if self.bound > self.levels.highest:
                    yield Found(self.bound, None, True, self.grounds)
                    return
                if self.target < self.bound:
                    # The tables have proven what is being searched for.
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
                yield Found(self.bound, plan if valid else None, False, self.grounds, self.plans.expected)
                if plan is not None:
                    # If it loads some pixel too often, other plans may cost more: only a limit of two is
                    # watched.
                    if valid or problem.max_loads != 2:
                        return
                    self.watched = True
        except OutOfTimeError:
            return

    def _compile(self) -> None:
        """Search for nothing, which compiles what searches call: these would be taken for slow."""
        nothing = np.full(self.space.most_pixels + 1, -NEVER, np.int64)
        next(Sweep(self.space, lambda _after, _size: nothing, self.deadline, total=0).run(), None)

    def _begin(self, work: _Work) -> None:
        if work is self.tables:
            work.begin(self.chains.improve(self.slack, self.deadline, self.threads))
            return
        self._aim()
        total = self.levels.total(self.target)
        self.sweep = plans_within(
            self.space, self.chains, total, self.deadline, watched=self.watched, threads=self.threads
        )
        work.begin(self.sweep.run())

    def _aim(self) -> None:
        """Choose what the next turn for plans refutes, and how long it may take."""
        now = time.monotonic()
        left, seconds = self.deadline - now, self.plans.expected
        self.target, self.until = self.bound, now + PATIENCE * seconds
        if self.beside is not None and self.bound <= self.beside.objective:
            self.target, self.until = self.beside.objective, now + FOLLOWING * left
        elif self.objective is not None and self.skips:
            # Cheaper plans are refuted with dearer ones, as far as the tables are worth that time, too.
            left = min((1.0 if self.beside is None else LEADING) * left, self.tables.due - self.plans.spent)
            higher = self.levels.up(self.target + 1)
            while not self.idle and higher < self.objective and GROWTH * seconds <= left:
                self.target, higher, seconds = higher, self.levels.up(higher + 1), GROWTH * seconds
            self.until = now + PATIENCE * seconds
            if higher < self.objective and self._as_easy(higher):
                # This is no more work, and is not left for one objective less.
                self.several, self.target = self.target > self.bound, higher
                return
        self.several = self.target > self.bound

    def _as_easy(self, higher: int) -> bool:
        """Whether a dearer plan is refuted with as little work as one at the target."""
        # That is so if the first steps may throw away no more; but where patches are missing, ends that throw
        # away as much are told apart by these.
        ends, dearer = (self.space.ends(self.levels.total(value)) for value in (self.target, higher))
        return bool(ends.steps and dearer.steps and ends.most == dearer.most and not self.space.missing)

    def _leave(self, work: _Work) -> None:
        """Leave a turn, and free what it kept."""
        work.leave()
        if work is self.plans:
            self.sweep = None

    def _aim_at_less(self) -> None:
        """Let the next turns refute fewer costs: one took too long, or too much memory."""
        self.skips = False
        if self.beside is not None:
            self.beside.objective = (self.bound + self.target) // 2

    def _give_up(self, work: _Work) -> None:
        """Leave a turn that does not fit into memory, and do not ask for the same again."""
        self._leave(work)
        self.idle = self.idle or work is self.tables
        if work is self.tables or self.target == self.bound:
            work.expected = float("inf")
            self.skips = False
        else:
            self._aim_at_less()

    def _take_plans(self) -> Plan | None:
        """Raise the bound by what a turn for plans has proven; return the plan that it found."""
        assert self.sweep is not None
        plan = self.sweep.plan() if self.sweep.complete else None
        if plan is None:
            self.plans.end(GROWTH)
            proven, self.bound = self.target, self.levels.up(self.target + 1)
        else:
            # Among all plans of at most the target this is the cheapest.
            self.plans.leave()
            self.bound = cost(self.space.problem, plan)
            proven = self.bound - 1
        rows = f"{self.sweep.rows:,} partial plans"
        self.grounds = f"no plan costs {proven} or less: {rows}, {self.chains}"
        self.sweep = None
        return plan

    def _take_tables(self) -> None:
        """Raise the bound by what a turn for tables has proven."""
        # Where tables say no more of whole plans than before, the search for plans gets most of the time.
        self.idle = self.chains.total == self.reached and self.tables.used > BRIEF
        if self.beside is not None:
            self.beside.idle = self.idle
        self.tables.end(IDLE if self.idle else WIDER)
        self.slack, self.reached = self.slack + 1, self.chains.total
        better = self.levels.up(self.levels.value(self.chains.total))
        if better > self.bound:
            self.bound, self.grounds = better, str(self.chains)


class _Work:
    """A search that goes on turn by turn and stage by stage, and how long it takes.

    Attributes
    ----------
    expected
        How many seconds a turn is expected to take.
    used, spent
        How many were used by this turn and spent on those before.
    """

    def __init__(self) -> None:
        self.expected = 0.1
        self.used = self.spent = 0.0
        self._stages: Iterator[object] | None = None

    @property
    def begun(self) -> bool:
        """Whether a turn is going on."""
        return self._stages is not None

    @property
    def due(self) -> float:
        """Seconds spent when this turn, or the next, is over; one that is late may take as long again."""
        late = self.used > PATIENCE * self.expected
        return self.spent + (2 * self.used if late else self.expected)

    def begin(self, stages: Iterator[object]) -> None:
        """Begin a turn."""
        self._stages = stages

    def go_on(self) -> bool:
        """Follow one more stage of the turn; return whether there was one.

        Raises
        ------
        OutOfTimeError, TooLargeError
        """
        began = time.monotonic()
        try:
            return self._stages is not None and next(self._stages, None) is not None
        finally:
            self.used += time.monotonic() - began

    def leave(self) -> None:
        """Leave a turn; the next one takes as long as this one was expected to."""
        self.spent += self.used
        self.used = 0.0
        self._stages = None

    def end(self, growth: float) -> None:
        """End a turn, and expect the next one to take so many times as long."""
        self.expected = max(0.1, growth * self.used)
        self.leave()


class _Levels:
    """Which objectives plans can have, and what they are in the halves that searches count in."""

    def __init__(self, space: Space) -> None:
        problem = space.problem
        self.problem = problem
        self.offset, self.unit = scale(problem)
        self.load, self.step = 2 * space.load, space.step
        self.fewest, self.most = problem.steps_range[0], last_useful_step(problem)
        self.least = len(problem.needed_pixels)
        self.highest = problem.cost(problem.max_loads * self.least, problem.steps_range[1])

    def value(self, total: int) -> int:
        """Return the least objective of a total cost of at least so many halves."""
        return self.offset + self.unit * -(-(total - self.fewest * self.step) // 2)

    def total(self, value: int) -> int:
        """Return the total cost of an objective, in halves."""
        return 2 * (value - self.offset) // self.unit + self.fewest * self.step

    def up(self, value: int) -> int:
        """Return the least objective from `value` on that some best plan can have."""
        cost, load = self.problem.cost, self.problem.load_cost
        best = []
        for steps in range(self.fewest, self.most + 1):
            loads = max(self.least, -(-(value - cost(0, steps)) // load))
            best.append(cost(loads, steps))
        return max(value, min(best))
