"""What constraints of groupings can speak of: the step of each patch, and what the plan loads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.cost import count_loads
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.spec.constraints.parts import Constant, Ground, Term, compared, counted
from tilewright.spec.constraints.vocabulary import Names, Vocabulary, Word


class _View(NamedTuple):
    """A plan, as the words see it."""

    steps: NDArray[np.int64]
    n_steps: int
    loads: int
    cost: int


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a grouping problem; steps count from 1, patches from row 0 and column 0."""
    height, width = problem.grid
    rows, columns = Names("rows", range(height)), Names("columns", range(width))
    steps = Names("step_numbers", range(1, problem.kmax + 1))
    patch = (rows, columns)

    def view(plan: Plan) -> _View:
        found = plan.steps(problem)
        loads = int(count_loads(problem, found).sum())
        return _View(found, plan.n_steps, loads, problem.cost(loads, plan.n_steps))

    def step(row: int, column: int) -> Term:
        return Term("step", (row, column))

    def size(number: int) -> Ground:
        return counted(
            compared("==", step(*problem.patch(each)), Constant(number)) for each in range(problem.n_patches)
        )

    return Vocabulary.of(
        [
            Word(
                "step",
                "step of a patch, from 1",
                lambda seen, row, column: int(seen.steps[row * width + column]) + 1,
                patch,
            ),
            Word("steps", "number of steps", lambda seen: seen.n_steps),
            Word(
                "loads", "pixels loaded in all, as often as they are", lambda seen: seen.loads, unit="pixels"
            ),
            Word("cost", "what is minimised", lambda seen: seen.cost, unit=problem.unit or "cycles"),
            Word(
                "same_step",
                "whether two patches are in one step",
                takes=(*patch, *patch),
                gives="truth",
                means=lambda a, b, c, d: compared("==", step(a, b), step(c, d)),
            ),
            Word(
                "before",
                "whether a patch is in an earlier step than another",
                takes=(*patch, *patch),
                gives="truth",
                means=lambda a, b, c, d: compared("<", step(a, b), step(c, d)),
            ),
            Word("size", "patches of a step, 0 where there is no such step", takes=(steps,), means=size),
        ],
        view,
    )
