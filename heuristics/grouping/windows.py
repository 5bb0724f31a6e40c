"""Windows: the patches of some consecutive steps are planned anew by a model, part after part.

The model is `gaps` on CP-SAT.
"""

from __future__ import annotations

from random import Random

from tilewright.core.context import RunContext
from tilewright.core.neighbourhood import Sizes
from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping import sweep


def plan(problem: Problem, search: RunContext) -> Plan:
    """Improve the start, or that of `sweep` without one."""
    start = search.start or sweep.plan(problem)
    context = RunContext(**{**vars(search), "start": start})

    def draw(best: Plan, random: Random, size: int) -> frozenset[int]:
        steps = best.steps(problem)
        count = max(2, round(size / problem.group_size))
        first = random.randrange(max(1, best.n_steps - count + 1))
        return frozenset(i for i, step in enumerate(steps.tolist()) if first <= step < first + count)

    sizes = Sizes(2 * problem.group_size, problem.n_patches)
    best: Plan = search.improve(problem, context, "gaps@cpsat", draw, sizes)
    return best
