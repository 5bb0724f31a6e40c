"""Padded: plans with steps that do not divide, from layers that are a little larger.

A layer of 13 rows has no good steps, one of 14 has several. So loops are made longer, one at a time; the
exact search's first pass plans the longer layer, and the plan is cut off at the border of the true one, where
its last tiles are smaller. The best of these is improved step by step. Costs are those of the layer itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.core.context import RunContext
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling import Plan, Problem, objective, violation
from tilewright.tiling.hierarchy.loops import LOOPS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task

STRETCH = 0.3
"""Most by which a loop is made longer, as a part of it."""

MOST_STEP = 32
"""Loops are made long enough to be a multiple of each number up to this one, and of the sizes of arrays."""


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "hierarchy" and problem.limits.factors == "any"


def plan(problem: Problem, search: RunContext) -> Plan:
    """Return the best plan that is found until the deadline.

    Raises
    ------
    OutOfTimeError
        If there is none by then.
    """
    one = _Search(problem, search)
    sizes = extents(problem.one_layer)
    one.look(sizes)
    one.stretch(sizes)
    if one.best is None:
        raise OutOfTimeError
    one.improve()
    return Plan((one.best,))


def longer(size: int, steps: set[int]) -> list[int]:
    """Return the multiples of some steps that are a little larger than a size, ascending."""
    found = {-(-size // step) * step for step in steps if step <= size}
    return sorted(each for each in found if size < each <= size + max(1, int(STRETCH * size)))


def padded(layer: Layer, sizes: dict[str, int]) -> Layer:
    """Return a layer with other iterations of its loops, without any padding of its own."""
    plane = [
        (sizes[out] - 1) * stride + (sizes[tap] - 1) * dilation + 1
        for out, tap, stride, dilation in zip("yx", "rs", layer.stride, layer.dilation, strict=True)
    ]
    return Layer(
        input=(sizes["g"] * sizes["k"], plane[0], plane[1]),
        kernels=sizes["g"] * sizes["c"],
        kernel=(sizes["r"], sizes["s"]),
        stride=layer.stride,
        dilation=layer.dilation,
        groups=sizes["g"],
        batch=sizes["n"],
    )


def cut(plan: HierarchyPlan, sizes: dict[str, int]) -> HierarchyPlan:
    """Return a plan without the loops that have a single iteration in a smaller layer."""
    block, nest = dict(sizes), []
    for loops in plan.nest:
        nest.append(tuple((letter, step) for letter, step in loops if step < block[letter]))
        block |= dict(nest[-1])
    return HierarchyPlan(tuple(nest), plan.kept)


@dataclass
class _Search:
    """The best plan so far, and what has been tried."""

    problem: Problem
    context: RunContext
    best: HierarchyPlan | None = None
    value: float = float("inf")
    tried: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def over(self) -> bool:
        bound = self.context.bound
        return time.monotonic() > self.context.deadline or (bound is not None and self.value <= bound)

    def take(self, plan: HierarchyPlan) -> bool:
        """Take a plan if it is valid and better; whether it was."""
        whole = Plan((plan,))
        if (
            violation(self.problem, whole) is not None
            or (cost := objective(self.problem, whole)) >= self.value
        ):
            return False
        self.best, self.value = plan, cost
        self.context.on_plan(whole)
        return True

    def look(self, sizes: dict[str, int]) -> bool:
        """Plan a layer with other sizes; whether that plan is better."""
        from tilewright.tiling.hierarchy.exact import search  # for start-up time: numba

        problem, machine = self.problem, self.problem.machine
        assert isinstance(machine, HierarchyMachine)
        key = tuple(sizes.values())
        if key in self.tried:
            return False
        self.tried.add(key)
        try:
            task = Task(padded(problem.one_layer, sizes), machine, problem.minimise, problem.level)
            found = search.best_plan(task, self.context.deadline, quick=True)
        except (OutOfTimeError, InputError):  # the latter where the longer layer is larger than layers may be
            return False
        return found is not None and self.take(cut(found.plan, extents(problem.one_layer)))

    def stretch(self, sizes: dict[str, int]) -> None:
        """Make loops longer, one after the other, for as long as that gives better plans."""
        machine = self.problem.machine
        assert isinstance(machine, HierarchyMachine)
        axes = {node.axis.size for node in machine.nodes if node.axis is not None}
        steps, improved = {*range(2, MOST_STEP + 1), *axes}, True
        sizes, whole = dict(sizes), dict(sizes)
        while improved:
            improved = False
            for letter in sorted(LOOPS, key=lambda loop: -whole[loop]):
                best = sizes
                for size in (whole[letter], *longer(whole[letter], steps)):
                    if self.over:
                        return
                    if self.look(sizes | {letter: size}):
                        best, improved = sizes | {letter: size}, True
                sizes = best

    def improve(self) -> None:
        """Change one step at a time, for as long as that gives better plans."""
        improved = True
        while improved:
            improved = False
            for changed in self._changes():
                if self.over:
                    return
                if self.take(changed):
                    improved = True
                    break

    def _changes(self) -> Iterator[HierarchyPlan]:
        """Go through the plans in which one step is another one, and steps further in as large at most."""
        assert self.best is not None
        nest, sizes = self.best.nest, extents(self.problem.one_layer)
        block = dict(sizes)
        for i, loops in enumerate(nest):
            for at, (letter, step) in enumerate(loops):
                trips = -(-block[letter] // step)
                even = -(-block[letter] // trips)
                fewer = -(-block[letter] // (trips - 1)) if trips > 2 else step
                for other in dict.fromkeys((even, fewer, step + 1, step - 1)):
                    if other == step or not 1 <= other < block[letter]:
                        continue
                    inside = (
                        tuple((loop, min(size, other) if loop == letter else size) for loop, size in rest)
                        for rest in nest[i + 1 :]
                    )
                    here = (*loops[:at], (letter, other), *loops[at + 1 :])
                    yield cut(HierarchyPlan((*nest[:i], here, *inside), self.best.kept), sizes)
            block |= dict(loops)
