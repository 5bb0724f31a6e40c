"""Paper: PEs in proportion to work, one for each layer without weights (TCPA paper, section 6).

A required rate comes first (section 7). Layers that take turns have the same number of PEs (table 1).
"""

from __future__ import annotations

from bisect import bisect_right

from tilewright.allocation import Plan, Problem
from tilewright.allocation.exact.trimming import pace_plan
from tilewright.allocation.splits import LayerSplit, paper_split

Choices = tuple[LayerSplit, ...]


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.minimise not in ("pareto", "distance") and problem.machine.off_chip is None


def plan(problem: Problem) -> Plan:
    """Choose a split for each layer."""
    every = [problem.splits_of(stage) for stage in problem.stages]
    chosen = _side_by_side(problem, every) if problem.parallel else _in_turn(problem, every)
    found = Plan(tuple(stage.name for stage in problem.stages), tuple(chosen))
    return pace_plan(problem, found) or found


def _at_most(choices: Choices, pes: int) -> LayerSplit:
    """Return the split with at most `pes` PEs, all of which make a difference."""
    return choices[max(1, bisect_right(choices, pes, key=lambda split: split.pes)) - 1]


def _in_turn(problem: Problem, every: list[Choices]) -> list[LayerSplit]:
    """Give each layer as many PEs as any: all of them, or as few as the rate needs if PEs are to be saved."""
    chosen = [choices[-1] for choices in every]
    if problem.minimise != "pes":
        return chosen
    for pes in sorted({split.pes for choices in every for split in choices}):
        chosen = [_at_most(choices, pes) for choices in every]
        cycles = sum(split.load(stage.task) for stage, split in zip(problem.stages, chosen, strict=True))
        if cycles <= (problem.most_load or 0):
            break
    return chosen


def _side_by_side(problem: Problem, every: list[Choices]) -> list[LayerSplit]:
    """Divide the array among the layers."""
    stages, most = problem.stages, problem.most_interval
    chosen = [
        next((split for split in choices if most is None or split.load(stage.task) <= most), choices[-1])
        for stage, choices in zip(stages, every, strict=True)  # equation 20
    ]
    heavy = [stage.number for stage in stages if stage.weights]
    if problem.minimise == "pes":
        return chosen
    one_pe = paper_split(problem.machine, 1)
    work = {number: one_pe.load(stages[number].task) for number in heavy}  # equation 4
    spare = problem.machine.pes - sum(split.pes for split in chosen)
    available = spare + sum(chosen[number].pes for number in heavy)

    def give(number: int, split: LayerSplit) -> bool:
        nonlocal spare
        more = split.pes - chosen[number].pes
        if not 0 < more <= spare:
            return False
        chosen[number], spare = split, spare - more
        return True

    for number in heavy:
        give(number, _at_most(every[number], available * work[number] // sum(work.values())))
    # What is left goes to the slowest layer that it helps.
    while any(
        give(number, every[number][every[number].index(chosen[number]) + 1])
        for number in sorted(heavy, key=lambda i: -chosen[i].load(stages[i].task))
        if chosen[number] != every[number][-1]
    ):
        pass
    return chosen
