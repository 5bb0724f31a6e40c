"""Lower a tiled loop nest to a program: DMA get and put of boxes, and one compute per tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.simulator import Engine, Memory, Program, Tensor
from tilewright.simulator.nest import NestedSteps
from tilewright.simulator.program import Values
from tilewright.tiling.dsp.events import convolution, loop_nest
from tilewright.tiling.dsp.nest import Nest
from tilewright.tiling.dsp.plan import DspPlan


def lower(nest: Nest, plan: DspPlan, local: int) -> Program:
    """Turn a plan into steps, one for each tile and one that empties the memory.

    Channels are split into groups and channels of a group, so that every tile of an operand is a box.

    Parameters
    ----------
    local
        Units of local traffic of the whole layer.
    """
    layer, machine = nest.layer, nest.machine
    step = nest.step(plan.tile)
    buffers, widths, units = nest.buffers(step, plan.reuse), nest.widths(step), machine.units
    groups, batch, kernels, rows, columns, channels = nest.sizes
    plane = [len(lines.kept) for lines in nest.lines]
    tensors = (
        Tensor(
            "input",
            (batch, groups, channels, *plane),
            "input",
            buffer=buffers["input"],
            width=widths["input"],
        ),
        Tensor(
            "kernels",
            (groups, kernels, channels, *layer.kernel),
            "kernels",
            buffer=buffers["kernels"],
            width=widths["kernels"],
        ),
        Tensor(
            "output",
            (batch, groups, kernels, rows, columns),
            "output",
            macs_per_element=layer.macs_per_output,
            buffer=buffers["output"],
            width=units.output,
            sum_width=units.partial if nest.widens(plan) else None,
        ),
    )
    return Program(
        tensors=tensors,
        memories=(Memory("mem", machine.capacity),),
        engines=(
            Engine(
                "bus",
                elements_per_cycle=machine.bus_units_per_cycle,
                setup=machine.dma_setup_cycles,
                setup_on="dsp",
            ),
            Engine("dsp", macs_per_cycle=machine.macs_per_cycle, streams_over="bus"),
        ),
        steps=NestedSteps(loop_nest(nest, plan, local), convolution(nest)),
        copies=machine.copies,
    )


def data(nest: Nest, values: Values, kernels: Values, outputs: Values) -> tuple[Any, Any]:
    """Return the contents of external memory at the start and the expected ones at the end, by tensor.

    Parameters
    ----------
    values, kernels, outputs : int64
        Input without padding, kernels and the reference output of the whole layer.
    """
    layer = nest.layer
    groups, batch, maps, rows, columns, channels = nest.sizes
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    down, across = (lines.kept for lines in nest.lines)
    given = {
        "input": padded[:, :, down[:, None], across].reshape(batch, groups, channels, len(down), len(across)),
        "kernels": kernels.reshape(groups, maps, channels, *layer.kernel),
    }
    return given, {"output": outputs.reshape(batch, groups, maps, rows, columns)}
