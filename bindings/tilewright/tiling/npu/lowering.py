"""Lower an NPU plan to a program in which all TLEs go on together, tile by tile.

Every TLE has tensors of its own: the input rows that it needs, its filters and its outputs. Its filters stand
in the order in which its cores take them, so that what all its cores hold at a time is one box; a step of a
TLE is one transfer per operand and one computation, which lasts as long as its core with most filters needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.simulator import Engine, Memory, Program
from tilewright.simulator.nest import NestedSteps
from tilewright.simulator.program import Values
from tilewright.tiling.npu.cut import Cut
from tilewright.tiling.npu.events import convolution, loop_nest
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.npu.tle import Tle


def lower(cut: Cut, plan: NpuPlan) -> Program:
    """Turn a plan into steps; time counts in picoseconds.

    A memory's capacity and its buffers are those of all cores of a TLE together, each buffer as large as that
    of the core that has most; the input tile that its cores share counts once.
    """
    machine = cut.machine
    step = cut.step(plan.tile)
    tles = [Tle(cut, number, share, step, plan.schedule) for number, share in enumerate(cut.shares)]
    # What a transfer's bytes take is its own: how many there are depends on what stands alone in DRAM.
    memories, engines = [], [Engine("dram", per_burst=machine.burst_ps)]
    for tle in tles:
        for operand, room in cut.room.items():
            memories.append(Memory(f"{operand} {tle.name}", room * tle.copies[operand]))
        engines.append(Engine(f"mac {tle.name}"))
    return Program(
        tensors=tuple(tensor for tle in tles for tensor in tle.tensors),
        memories=tuple(memories),
        engines=tuple(engines),
        steps=NestedSteps(loop_nest(cut, plan, tles), convolution(cut, tles)),
    )


def data(cut: Cut, plan: NpuPlan, values: Values, kernels: Values, outputs: Values) -> tuple[Any, Any]:
    """Return the contents of DRAM at the start and the expected ones at the end, by tensor.

    Parameters
    ----------
    values, kernels, outputs : int64
        Input without padding, kernels and the reference output of the whole layer.
    """
    layer = cut.layer
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    groups = 1 if cut.depthwise else layer.groups
    given, expected = {}, {}
    for number, share in enumerate(cut.shares):
        tle = Tle(cut, number, share, cut.step(plan.tile), plan.schedule)
        order = [filters for lane in tle.lanes for first, last in lane for filters in range(first, last)]
        rows = slice(*tle.input_rows)
        shapes = {tensor.name: tensor.shape for tensor in tle.tensors}
        plane = padded[:, order, rows] if cut.depthwise else padded[:, :, rows]
        names = [tensor.name for tensor in tle.tensors]
        given[names[0]] = np.ascontiguousarray(plane[..., : tle.width]).reshape(shapes[names[0]])
        weights = kernels.reshape(groups, -1, *kernels.shape[1:])[:, order]
        given[names[1]] = np.ascontiguousarray(weights).reshape(shapes[names[1]])
        result = outputs.reshape(layer.batch, groups, -1, *layer.output_plane)
        part = result[:, :, order, slice(*share.rows)]
        expected[names[2]] = np.ascontiguousarray(part).reshape(shapes[names[2]])
    return given, expected
