"""Line buffers of steps in which transfers run beside the computation."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tilewright.residency.shapes.groups import Group
from tilewright.simulator.program import Counts


def double_buffered_line_pixels(
    group: Group, pixels: int, blocks: int, whole: Collection[int]
) -> dict[int, int]:
    """Return the pixels of each line buffer.

    Of what is loaded there is what the next pass needs, too; of what is written from a line buffer, what the
    pass before has computed.

    Parameters
    ----------
    blocks
        How often all passes are executed; the first pass of a block follows the last one of another.
    whole
        Tensors of the step that are on chip as a whole.
    """
    ends, found = group.ends(pixels), {}
    for tensor in group.lines:
        if tensor in whole:
            continue
        end, first = ends[tensor], _firsts(group, ends, tensor)
        if tensor in group.sources:
            most = int((np.append(end[2:], end[-1]) - first).max())
            if blocks > 1:
                most = max(most, int(end[-1] - first[-1] + end[1]))
        else:
            if tensor in group.outputs:
                first = np.minimum(first, np.append(0, end[:-2]))
            most = int((end[1:] - first).max())
        found[tensor] = most
    return found


def _firsts(group: Group, ends: dict[int, Counts], tensor: int) -> Counts:
    """Return the first pixel of a tensor that each pass, or one after it, reads or computes."""
    first = ends[tensor][:-1]
    for operation in group.operations:
        for reading in operation.readings:
            if reading.tensor == tensor:
                first = np.minimum(first, reading.first(ends[operation.number + 1][:-1]))
    return first
