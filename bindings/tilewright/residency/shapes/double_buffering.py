"""Steps with second buffers: what each pass loads, computes and writes, and what is held meanwhile.

A job is a pass, in order ``kernels`` a pass of a block. While a job is computed, what the next one needs is
loaded and what the one before has computed is written. So line buffers of what is loaded hold what the next
job loads, too; blocks of weights and of the output exist twice.

Jobs are as even as they can be: whole rows, the fewest for their number, and blocks likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from tilewright.residency.prices import Prices
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.shape import Shape, count_rounds
from tilewright.residency.work import of_step, of_value
from tilewright.simulator.program import Counts

MOST = 2**60
"""Largest time for which sums of 64 bits are safe."""


def rows_of_a_pass(group: Group) -> list[int]:
    """Return the rows that a pass may have: the fewest for each number of passes."""
    return pass_sizes(group.graph.tensors[group.output].shape[1])


def double_buffered_shapes(group: Group) -> Iterator[Shape]:
    """Return the shapes that may have second buffers: all weights are kept, or there are blocks of them."""
    width = group.graph.tensors[group.output].shape[2]
    kept = frozenset(operation.number for operation in group.operations if operation.weights)
    for rows in rows_of_a_pass(group):
        yield Shape("pixels", rows * width, 1, kept, doubled=True)
        if in_blocks(group):
            for kernels in pass_sizes(group.last.units):
                yield Shape("kernels", rows * width, kernels, doubled=True)


def in_blocks(group: Group) -> bool:
    """Whether blocks of output channels may have second buffers."""
    producers = group.last.op.producers
    return len(group.operations) == 1 and len(set(producers)) == len(producers)


def why_not(group: Group, shape: Shape) -> str | None:
    """Say why a shape cannot have second buffers, or None."""
    width = group.graph.tensors[group.output].shape[2]
    rows, rest = divmod(shape.pixels, width)
    if shape.order not in ("pixels", "kernels") or shape.columns is not None:
        return "is in tiles, strips or blocks of input channels"
    if rest or rows not in rows_of_a_pass(group):
        return f"passes of {shape.pixels} pixels are not the fewest whole rows for their number"
    if shape.order == "pixels":
        weighty = {operation.number for operation in group.operations if operation.weights}
        return None if shape.kept == weighty else "loads weights for each pass"
    if not in_blocks(group):
        return "reads a tensor twice"
    if shape.kernels not in pass_sizes(group.last.units):
        return f"blocks of {shape.kernels} output channels are not the smallest for their number"
    return None


def overlapped_time(
    prices: Prices, group: Group, shape: Shape, streamed: Collection[int], written: Collection[int]
) -> int:
    """Return the time of all jobs: bus and core work beside each other, and wait for each other.

    Parameters
    ----------
    streamed
        Sources that are read from DRAM through line buffers.
    written
        Outputs that are written to DRAM.
    """
    tensors, ends = group.graph.tensors, group.ends(shape.pixels)
    # Parts of cycles are small for most machines, and numbers of any size for others.
    most = prices.transfer(sum(tensors[tensor].size for tensor in (*streamed, *written)) + group.last.weights)
    most = most * (1 + count_rounds(group, shape)) + prices.core(of_step(group, shape))
    kind = np.int64 if most < MOST else object
    news = {tensor: np.diff(end).astype(kind) for tensor, end in ends.items()}
    nothing = np.zeros(group.passes(shape.pixels), dtype=kind)
    if shape.order == "pixels":
        loaded = sum((news[tensor] * tensors[tensor].channels for tensor in streamed), nothing)
        stored = sum((news[tensor] * tensors[tensor].channels for tensor in written), nothing)
        core = nothing
        for operation in group.operations:
            one = prices.core(of_value(operation)) * tensors[operation.number + 1].channels
            core = core + news[operation.number + 1] * one
    else:
        operation = group.last
        begins = np.arange(0, operation.units, shape.kernels)
        blocks = np.stack([begins, np.minimum(begins + shape.kernels, operation.units)]).astype(kind)
        made = blocks[1] - blocks[0]
        if operation.units == 1:
            made = made * tensors[group.output].channels
        each = -(-operation.weights // operation.units)
        loads = [np.multiply.outer(_read(group, tensor, blocks), news[tensor]) for tensor in streamed]
        weights = np.minimum(blocks[1] * each, operation.weights) - np.minimum(
            blocks[0] * each, operation.weights
        )
        together = sum(loads, np.zeros((len(begins), len(nothing)), dtype=kind))
        together[:, 0] += weights
        values = np.multiply.outer(made, news[group.output])
        loaded, core = together.reshape(-1), (values * prices.core(of_value(operation))).reshape(-1)
        stored = values.reshape(-1) * int(group.output in written)
    moved = np.zeros(len(core) + 2, dtype=kind)
    moved[:-2] += loaded
    moved[2:] += stored
    beside = np.zeros(len(core) + 2, dtype=kind)
    beside[1:-1] = core
    return int(np.maximum(beside, moved * prices.transfer(1)).sum())


def _read(group: Group, tensor: int, blocks: Counts) -> Counts:
    """Return the channels of a source that each block of output channels reads."""
    tensors, operation = group.graph.tensors, group.last
    channels = tensors[tensor].channels
    if not operation.channelwise or operation.units == 1:
        return np.full_like(blocks[0], channels)
    offset = 0
    if operation.op.spec.kind not in ("add", "mul"):
        before = operation.op.producers[: operation.op.producers.index(tensor - 1)]
        offset = sum(tensors[producer + 1].channels for producer in before)
    ends, begins = np.minimum(channels, blocks[1] - offset), np.maximum(0, blocks[0] - offset)
    read: Counts = np.maximum(0, ends - begins)
    return read
