"""What a step takes of the memory and moves, in elements: the closed forms of docs/residency.md."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.residency.graph import Graph, Operation
from tilewright.residency.passes import Group


@dataclass(frozen=True)
class Shape:
    """How a step is cut up: see `tilewright.residency.plan.Step`; operations by number."""

    order: str
    pixels: int
    kernels: int
    kept: frozenset[int] = frozenset()


class Buffer(NamedTuple):
    """What a step places in the memory for itself.

    Attributes
    ----------
    what
        ``lines`` of a tensor, ``weights`` of an operation, or a ``block`` of a tensor that is being written.
    number
        Of the tensor or operation.
    """

    what: str
    number: int
    size: int

    def name(self, graph: Graph) -> str:
        """Return what it is called in a plan."""
        owner = graph.operations[self.number] if self.what == "weights" else graph.tensors[self.number]
        return f"{self.what} of {owner.name}"


def buffers(group: Group, shape: Shape, whole: Collection[int]) -> list[Buffer]:
    """Return what a step places for itself alone.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    """
    graph, found = group.graph, []
    held = group.held(shape.pixels)
    for tensor in group.lines:
        if tensor not in whole:
            channels = graph.tensors[tensor].channels
            if shape.order == "kernels" and group.last.channelwise:
                channels = min(channels, shape.kernels)
            found.append(Buffer("lines", tensor, held[tensor] * channels))
    for operation in group.operations:
        if operation.weights:
            size = operation.weights if operation.number in shape.kept else operation.block(shape.kernels)
            found.append(Buffer("weights", operation.number, size))
    if group.output not in whole:
        channels = graph.tensors[group.output].channels
        at_once = channels if computed_whole(group.last, shape) else min(channels, shape.kernels)
        found.append(Buffer("block", group.output, min(shape.pixels, group.pixels) * at_once))
    return found


def computed_whole(operation: Operation, shape: Shape) -> bool:
    """Whether an operation computes all its output channels at once."""
    if operation.units == 1:
        return True
    return shape.order == "pixels" and (operation.number in shape.kept or not operation.weights)


def blocks(operation: Operation, shape: Shape) -> int:
    """Return the number of blocks of output channels in which an operation is computed."""
    return (
        1 if computed_whole(operation, shape) else -(-operation.units // min(shape.kernels, operation.units))
    )


def weights_moved(group: Group, shape: Shape) -> int:
    """Return the elements of weights that a step loads."""
    if shape.order == "kernels":
        return group.last.weights
    active = group.active(shape.pixels)
    return sum(
        operation.weights * (1 if operation.number in shape.kept else active[operation.number])
        for operation in group.operations
    )


def readings(group: Group, shape: Shape) -> int:
    """Return how often a tensor in DRAM is read: in each block, where all its channels are needed."""
    if shape.order == "pixels" or group.last.channelwise:
        return 1
    return blocks(group.last, shape)


def moved(group: Group, shape: Shape, streamed: Collection[int], written: Collection[int]) -> int:
    """Return what a step moves beside the tensors that it fetches whole.

    Parameters
    ----------
    streamed
        Sources that are read from DRAM through line buffers.
    written
        Outputs that are written to DRAM.
    """
    sizes = group.graph.tensors
    read = readings(group, shape) * sum(sizes[tensor].size for tensor in streamed)
    return weights_moved(group, shape) + read + sum(sizes[tensor].size for tensor in written)
