"""Greedy: the fewest PEs for every layer, then more for the slowest, or for what saves most latency."""

from __future__ import annotations

from math import inf
from sys import maxsize

import numpy as np

from tilewright.allocation import Plan, Problem
from tilewright.allocation.exact.timing import Timing
from tilewright.allocation.exact.trimming import pace_plan


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem; layers that take turns do not compete for PEs."""
    return (
        problem.parallel
        and problem.minimise not in ("pareto", "distance")
        and problem.machine.off_chip is None
    )


def plan(problem: Problem) -> Plan:
    """Let splits grow, one at a time; where layers are to be placed, to the least interval."""
    growth = _Growth(problem)
    most = inf if problem.most_interval is None else problem.most_interval
    growth.speed_up(most if problem.minimise in ("pes", "latency") else problem.host_period)
    found = growth.plan()
    if problem.minimise == "latency" and problem.waits:  # tables know no times but those of layers
        growth.speed_up(0)
        found = growth.plan()
    elif problem.minimise == "latency":
        fast = _Growth(problem)
        fast.speed_up(0)
        found = min(growth.least_latency(), fast.least_latency(), key=lambda one: one[0])[1]
    return pace_plan(problem, found) or found


class _Growth:
    """The place of each layer in the list of its splits, the first to begin with."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.every = [problem.splits_of(stage) for stage in problem.stages]
        self.loads = [
            [split.load(stage.task) for split in choices]
            for stage, choices in zip(problem.stages, self.every, strict=True)
        ]
        self.places = [0] * len(self.every)
        self.spare = problem.machine.pes - self.plan().pes

    def plan(self) -> Plan:
        """Return the plan of these splits."""
        chosen = tuple(choices[at] for choices, at in zip(self.every, self.places, strict=True))
        return Plan(tuple(stage.name for stage in self.problem.stages), chosen)

    def slowest(self) -> int:
        """Return the layer with the longest load."""
        return max(range(len(self.places)), key=lambda number: self.loads[number][self.places[number]])

    def price(self, number: int) -> int:
        """Return how many more PEs a layer's next split takes; 0 without one, or if too few are spare."""
        choices, at = self.every[number], self.places[number]
        more = choices[at + 1].pes - choices[at].pes if at + 1 < len(choices) else 0
        return more if more <= self.spare else 0

    def grow(self, number: int) -> None:
        """Give a layer its next split."""
        self.spare -= self.price(number)
        self.places[number] += 1

    def speed_up(self, most: float) -> None:
        """Let the slowest layer grow until it is fast enough or cannot."""
        while self.loads[slowest := self.slowest()][self.places[slowest]] > most and self.price(slowest):
            self.grow(slowest)

    def least_latency(self) -> tuple[int, Plan]:
        """Let the layer grow that saves most latency for a PE, or else the slowest; return the best plan."""
        timing, best = Timing(self.problem), (maxsize, self.plan())
        while True:
            now = [loads[at] for loads, at in zip(self.loads, self.places, strict=True)]
            growing = [number for number in range(len(now)) if self.price(number)]
            trials = np.array([now] * (1 + len(growing)), dtype=np.int64)
            for row, number in enumerate(growing, start=1):
                trials[row, number] = self.loads[number][self.places[number] + 1]
            latency, *others = timing.latencies(timing.matched(trials)).tolist()
            if latency < best[0]:
                best = latency, self.plan()
            gains = {i: (latency - other) / self.price(i) for i, other in zip(growing, others, strict=True)}
            chosen = max(gains, key=gains.__getitem__, default=self.slowest())
            if gains.get(chosen, 0) <= 0:
                chosen = self.slowest()
            if not self.price(chosen):
                return best
            self.grow(chosen)
