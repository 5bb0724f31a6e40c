"""Which objectives plans can have: a bound between two of them is raised to the upper one."""

from __future__ import annotations

from tilewright.grouping.exact.stages import StateSpace
from tilewright.grouping.structure import last_useful_step, scale


class ObjectiveLevels:
    """The objectives that plans can have, and their total costs in the half units of searches."""

    def __init__(self, space: StateSpace) -> None:
        problem = space.problem
        self.problem = problem
        self.offset, self.unit = scale(problem)
        self.load, self.step = 2 * space.load, space.step
        self.fewest, self.most = problem.steps_range[0], last_useful_step(problem)
        self.least = len(problem.needed_pixels)
        self.highest = problem.cost(problem.max_loads * self.least, problem.steps_range[1])

    def value(self, total: int) -> int:
        """Return the least objective whose total cost is at least `total` half units."""
        return self.offset + self.unit * -(-(total - self.fewest * self.step) // 2)

    def total(self, value: int) -> int:
        """Return the total cost of an objective, in half units."""
        return 2 * (value - self.offset) // self.unit + self.fewest * self.step

    def up(self, value: int) -> int:
        """Return the least objective of at least `value` that an optimal plan can have."""
        cost, load = self.problem.cost, self.problem.load_cost
        best = []
        for steps in range(self.fewest, self.most + 1):
            loads = max(self.least, -(-(value - cost(0, steps)) // load))
            best.append(cost(loads, steps))
        return max(value, min(best))
