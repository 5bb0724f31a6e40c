"""The paper's equations that only its own tables need: receptive fields, storage, and PEs for a rate.

Equations 3 to 13 stand in ``tilewright.allocation.published``.
"""

from __future__ import annotations

from math import prod

from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import paper_split
from tilewright.allocation.stages import Stage


def receptive_fields(problem: Problem) -> tuple[int, ...]:
    """Return D_i of each layer: the side of the window that an output of the last layers depends on (2).

    Rows and columns may differ; it is the longer side. With several consumers it is the largest.
    """
    fields = [(1, 1)] * len(problem.stages)
    for stage in reversed(problem.stages):
        after = [fields[reader] for reader in problem.consumers[stage.number]] or [(1, 1)]
        height, width = (
            max(field[axis] for field in after) * stage.spec.stride[axis]
            + stage.spec.kernel_extent[axis]
            - stage.spec.stride[axis]
            for axis in (0, 1)
        )
        fields[stage.number] = (height, width)
    return tuple(map(max, fields))


def intermediate_storage(problem: Problem, *, with_corner: bool = False) -> tuple[int, ...]:
    """Return the words of intermediate storage of each layer, layer-parallel (16, 17).

    Parameters
    ----------
    with_corner
        Use the other form, which the example of section 5.3 begins with: the lines and a corner of the
        receptive field. The figures that it ends with follow from the form without.
    """
    found = []
    for stage, field in zip(problem.stages, receptive_fields(problem), strict=True):
        channels, _, columns = stage.spec.input
        stride = stage.spec.stride[0]
        if stage.weights == 0:
            found.append(channels)
        else:
            corner = field * stride if with_corner else 0
            found.append(((field - stride) * columns + corner) * channels)
    return tuple(found)


def storage_by_turn(problem: Problem) -> tuple[tuple[int, int, int], ...]:
    """Return the words of weights, input and output of each layer, layer by layer (14)."""
    return tuple(
        (stage.weights, prod(stage.spec.input), stage.channels * stage.task.rows * stage.task.columns)
        for stage in problem.stages
    )


def fewest_pes(problem: Problem, frames_per_second: float) -> tuple[int, ...]:
    """Return the fewest PEs of each layer for a required rate, all filters divided (18 to 20)."""
    found = []
    for stage in problem.stages:
        task = stage.task
        rounds = -(-task.maps // problem.machine.functional_units) * task.window
        # Equation 20: the filters that one PE may compute one after the other.
        at_most = int(
            problem.machine.clock_mhz * 1e6 / (frames_per_second * task.rows * task.columns * rounds)
        )
        found.append(-(-task.filters // at_most) if at_most else task.filters)
    return tuple(found)


def most_filters(problem: Problem, stage: Stage, frames_per_second: float) -> float:
    """Return W of equation 20: how many filters a PE has time for at a rate."""
    one_filter = paper_split(problem.machine, stage.task.filters).load(stage.task)
    return problem.machine.clock_mhz * 1e6 / frames_per_second / one_filter
