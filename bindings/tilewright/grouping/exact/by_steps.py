"""Grouping with a free number of steps: every number has a search, and they share what they prove."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tilewright.grouping.bounds.best import best_bound, with_more_steps
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.search import Progress, SharedTargets, prove
from tilewright.grouping.exact.turns import PARAMS, SearchParams
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem


def prove_by_steps(
    problem: Problem,
    deadline: float,
    known: int,
    objective: int | None = None,
    threads: int = 1,
    params: SearchParams = PARAMS,
) -> Iterator[Progress]:
    """Raise the bound as `prove` does, with a search of its own for every number of steps.

    The search for the fewest steps goes ahead, and waits once. The others follow and refute at once what it
    has refuted. Of these, the search with the least bound goes on; if the bound on all larger numbers of
    steps is less than that, a search for one more step begins. A plan that is found may cost more than the
    bound.
    """
    yield from _StepSearches(problem, deadline, known, objective, threads, params).run()


class _StepSearches:
    """The searches for each number of steps, and what they have proven.

    Attributes
    ----------
    first, steps
        The fewest steps, and the most for which a search has begun.
    leads, waited
        Whether the search for the fewest steps goes ahead; whether it has waited for the others.
    bounds, grounds, searches
        By number of steps: the bound, what proves it, and the search.
    """

    def __init__(
        self,
        problem: Problem,
        deadline: float,
        known: int,
        objective: int | None,
        threads: int,
        params: SearchParams,
    ) -> None:
        self.problem, self.deadline, self.threads, self.params = problem, deadline, threads, params
        self.bound, self.objective = known, objective
        self.first = best_bound(problem).steps
        self.steps, self.leads, self.waited = self.first - 1, True, False
        self.shared, self.began = SharedTargets(), time.monotonic()
        self.bounds: dict[int, int] = {}
        self.grounds: dict[int, str] = {}
        self.searches: dict[int, Iterator[Progress]] = {}

    @property
    def limit(self) -> int:
        """What costs as much is of no interest."""
        return int(NEVER) if self.objective is None else self.objective

    def run(self) -> Iterator[Progress]:
        """Yield what is proven whenever a search has had a turn, or another one begins."""
        while self.objective is None or self.bound < self.objective:
            lowest = min(self.bounds, key=self.bounds.__getitem__, default=self.steps)
            others = with_more_steps(self.problem, self.steps + 1)
            plan = None
            ahead = self.leads and self.bounds.get(self.first, self.limit) < self.limit
            if not ahead and others is not None and (not self.bounds or others <= self.bounds[lowest]):
                self._begin(others)
                others = with_more_steps(self.problem, self.steps + 1)
            else:
                number = self.first if ahead else lowest
                found = next(self.searches[number], None) if self.searches else None
                if found is None:
                    if number == lowest:
                        return
                    self.leads = False
                    continue
                plan = self._learn(number, found)
            least = min(self.bounds.values()) if others is None else min(others, *self.bounds.values())
            if least >= NEVER:
                yield Progress(self.bound, None, True, "no number of steps is possible")
                return
            self.bound = max(self.bound, least)
            said = [f"{number} steps: {text}" for number, text in self.grounds.items()]
            if others is not None:
                said.append(f"more: {others} or more")
            yield Progress(self.bound, plan, False, "; ".join(said))

    def _begin(self, least: int) -> None:
        """Begin the search for one more step, plans of which cost at least so much."""
        self.steps += 1
        part = self.problem.with_steps(self.steps)
        facts = best_bound(part)
        known = int(NEVER) if facts.impossible else max(least, facts.value, self.bound)
        self.bounds[self.steps], self.grounds[self.steps] = known, str(facts)
        self.searches[self.steps] = prove(
            part,
            self.deadline,
            known,
            self.objective,
            self.threads,
            shared=self.shared,
            merged=self.steps > self.problem.steps_range[0],
            params=self.params,
        )

    def _learn(self, number: int, found: Progress) -> Plan | None:
        """Take what a turn has proven for a number of steps; return its plan if that is better."""
        limit, plan = self.limit, None
        self.bounds[number] = int(NEVER) if found.impossible else found.bound
        self.grounds[number] = found.grounds
        if found.plan is not None and (self.objective is None or found.bound < self.objective):
            plan, self.objective = found.plan, found.bound
        if number == self.first and not found.impossible:
            now = time.monotonic()
            self.leads = found.seconds <= self.params.leading * (self.deadline - now)
            if not self.waited and now - self.began >= self.params.early * (self.deadline - self.began):
                self.leads, self.waited = False, True
            self.shared.objective = min(self.bounds[self.first], limit) - 1
        return plan
