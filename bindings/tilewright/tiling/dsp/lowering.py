"""Lower a tiled loop nest to a program: DMA get and put of boxes, and one compute per tile."""

from __future__ import annotations

from functools import partial

from tilewright.simulator import (
    Engine,
    LazySteps,
    Memory,
    Program,
    Tensor,
)
from tilewright.simulator.columns import TabledSteps
from tilewright.tiling.dsp.nest import Nest
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.step_table import step_table
from tilewright.tiling.dsp.walk import TileWalk

Span = tuple[int, int]

MOST_TABLED = 300_000
"""Most tiles that are tabled at once: about half a second and 300 MB."""


def lower(nest: Nest, plan: DspPlan, local: int) -> Program:
    """Turn a plan into steps, one for each tile and one that empties the memory.

    Channels are split into groups and channels of a group, so that every tile of an operand is a box.

    Parameters
    ----------
    local
        Elements of local traffic of the whole layer.
    """
    layer, machine = nest.layer, nest.machine
    buffers = nest.buffers(nest.step(plan.tile))
    groups, batch, kernels, rows, columns, channels = nest.sizes
    tensors = (
        Tensor("input", (batch, groups, channels, *layer.padded_plane), "input", buffer=buffers["input"]),
        Tensor("kernels", (groups, kernels, channels, *layer.kernel), "kernels", buffer=buffers["kernels"]),
        Tensor(
            "output",
            (batch, groups, kernels, rows, columns),
            "output",
            macs_per_element=layer.macs_per_output,
            buffer=buffers["output"],
        ),
    )
    walk = TileWalk(nest, plan, local)
    return Program(
        tensors=tensors,
        memories=(Memory("mem", machine.capacity),),
        engines=(
            Engine(
                "bus",
                elements_per_cycle=machine.bus_elements_per_cycle,
                setup=machine.dma_setup_cycles,
                setup_on="dsp",
            ),
            Engine("dsp", macs_per_cycle=machine.macs_per_cycle, streams_over="bus"),
        ),
        steps=_steps(walk),
        copies=machine.copies,
    )


def _steps(walk: TileWalk) -> LazySteps:
    """Return the steps of a walk; those of a long one are made one by one, and can be ended at a deadline."""
    if walk.length > MOST_TABLED:
        return LazySteps(walk.length + 1, walk.steps)
    return TabledSteps(walk.length + 1, walk.steps, partial(step_table, walk))
