"""What all else moves beside weights that stay: least excess over the memory that they leave.

Where some operations are bound to load their weights, the others are looked at as if theirs took no room and
were never loaded. What is then moved beyond what must be is no more than in any plan in which weights of a
given size stay, and falls in steps with the memory that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tilewright.residency.derived_problems import residual_in
from tilewright.residency.exact.traffic import layered_search
from tilewright.residency.placement import peak_elements, placed_items
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.transitions import StepChoice


class RelaxedSteps(NamedTuple):
    """Steps that serve while no more than `most` elements stay.

    Attributes
    ----------
    excess
        What they move at most beyond what they must.
    """

    most: int
    excess: int
    groups: Groups
    choices: tuple[StepChoice, ...]


class WeightBudget:
    """Excess over the size of weights that stay.

    Parameters
    ----------
    loading
        Bit mask of the operations that load their weights.
    known
        The same for other operations. If fewer load their weights, bounds hold here, too; if more do, steps
        serve here, too.

    Attributes
    ----------
    most
        Most elements that can stay, so that each operation runs beside them.
    """

    def __init__(self, problem: Problem, loading: int, known: Iterable[WeightBudget]) -> None:
        self.capacity, self.loading, self.known = problem.machine.capacity, loading, known
        free = [op.number for op in problem.graph.operations if op.weights and not loading >> op.number & 1]
        self.problem = residual_in(problem, free, self.capacity)
        self.most = self.capacity - self.problem.least_memory
        self._sizes: list[int] = []  # that have been looked at, and bounds on their excess
        self._bounds: list[int] = []
        self._plans: list[RelaxedSteps] = []

    def bound(self, size: int) -> int:
        """Return what is moved at least beyond what must be if so much stays, as far as that is known."""
        return max(budget._own_bound(size) for budget in self._of_fewer())

    def _own_bound(self, size: int) -> int:
        place = bisect_right(self._sizes, size)
        return self._bounds[place - 1] if place else 0

    def _of_fewer(self) -> list[WeightBudget]:
        return [self, *(budget for budget in self.known if not budget.loading & ~self.loading)]

    def _all_plans(self) -> Iterator[RelaxedSteps]:
        for budget in (self, *(budget for budget in self.known if not self.loading & ~budget.loading)):
            yield from budget._plans

    def plan(self, size: int) -> RelaxedSteps | None:
        """Return the best plan that is known for some elements that stay."""
        fitting = (plan for plan in self._all_plans() if plan.most >= size)
        return min(fitting, key=lambda plan: plan.excess, default=None)

    def _steps(self) -> set[int]:
        """Return the sizes from which on the bound may be another."""
        return {0, *(size for budget in self._of_fewer() for size in budget._sizes)}

    def spans(self, sizes: int) -> Iterator[tuple[int, int]]:
        """Return for each size from which on the bound is another the largest size before the next one.

        Parameters
        ----------
        sizes
            Those that there are: a bit for each.
        """
        steps = sorted(step for step in self._steps() if step <= self.most)
        for begin, end in zip(steps, [*steps[1:], self.most + 1], strict=True):
            there = (sizes & ((1 << end) - 1)) >> begin
            if there:
                yield begin, begin + there.bit_length() - 1

    @property
    def asked(self) -> bool:
        """Whether any size has been looked at."""
        return bool(self._sizes)

    def reached(self, size: int) -> int:
        """Return up to which size plans are known that reach the bound of a size; -1 if none are known."""
        bound = self.bound(size)
        return max((plan.most for plan in self._all_plans() if plan.excess <= bound), default=-1)

    def ask(self, size: int, worth: int, deadline: float) -> None:
        """Look for the least excess if so much stays, as far as it is no more than is worth it.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; `bound` is what has been proven by then.
        """
        compulsory = self.problem.graph.compulsory
        layers = layered_search(self.problem, self.capacity - size, compulsory + worth, deadline)
        last = None
        try:
            for last in layers.plans():
                self._take(last.cost - compulsory, last.choices)
        finally:
            self._prove(size, layers.bound - compulsory)

    def _take(self, excess: int, choices: tuple[StepChoice, ...]) -> None:
        need = peak_elements(placed_items(self.problem.groups, choices))
        self._plans.append(RelaxedSteps(self.capacity - need, excess, self.problem.groups, choices))

    def _prove(self, size: int, excess: int) -> None:
        place = bisect_right(self._sizes, size)
        if place and self._sizes[place - 1] == size:
            self._bounds[place - 1] = max(excess, self._bounds[place - 1])
            place -= 1
        else:
            self._sizes.insert(place, size)
            self._bounds.insert(place, max(excess, self._bounds[place - 1] if place else 0))
        for later in range(place + 1, len(self._sizes)):
            self._bounds[later] = max(self._bounds[later], self._bounds[place])
