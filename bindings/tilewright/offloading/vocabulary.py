"""What constraints of offloading can speak of: the step of each cell, and what is moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.offloading.cost import objective
from tilewright.offloading.plan import Plan, numbers
from tilewright.offloading.problem import Problem
from tilewright.spec.constraints.parts import Term, compared
from tilewright.spec.constraints.vocabulary import Names, Vocabulary, Word


class _View(NamedTuple):
    """A plan, as the words see it."""

    steps: NDArray[np.int64]
    n_steps: int
    loads: int
    cost: int


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a problem; steps count from 1, all else from 0."""
    sizes = problem.elements
    height, width = problem.layer.output_plane
    cell = (
        Names("rows", range(height)),
        Names("columns", range(width)),
        Names("kernels", range(sizes.n_kernels)),
        Names("channels", range(sizes.n_channels)),
    )

    def view(plan: Plan) -> _View:
        steps = np.zeros((sizes.n_patches, sizes.n_kernels, sizes.n_channels), dtype=np.int64)
        loads = 0
        for number, each in enumerate(plan.steps, start=1):
            for block in each.blocks:
                if block is not None:
                    steps[np.ix_(*map(numbers, (block.patches, block.kernels, block.channels)))] = number
            for moves in each.moves:
                for found in (moves.load_inputs, moves.load_kernels, moves.load_sums):
                    loads += len(numbers(found))
        return _View(steps, plan.n_steps, loads, objective(problem, plan))

    def step(row: int, column: int, kernel: int, channel: int) -> Term:
        return Term("step", (row, column, kernel, channel))

    def related(name: str, meaning: str, operator: str) -> Word:
        return Word(
            name,
            meaning,
            takes=(*cell, *cell),
            gives="truth",
            means=lambda *which: compared(operator, step(*which[:4]), step(*which[4:])),
        )

    return Vocabulary.of(
        [
            Word(
                "step",
                "step of a patch with a kernel and a channel, from 1",
                lambda seen, row, column, kernel, channel: int(
                    seen.steps[row * width + column, kernel, channel]
                ),
                cell,
            ),
            Word("steps", "number of steps", lambda seen: seen.n_steps),
            Word(
                "loads",
                "elements loaded in all, as often as they are",
                lambda seen: seen.loads,
                unit="elements",
            ),
            Word("cost", "what is minimised", lambda seen: seen.cost, unit="cycles"),
            related("same_step", "whether two of those are in one step", "=="),
            related("before", "whether one of those is in an earlier step than another", "<"),
        ],
        view,
    )
