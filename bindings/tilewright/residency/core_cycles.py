"""Cycles that a core takes for emitted C: what a step does, each at a price of its own.

The model, its prices and its errors are in docs/results/microcontrollers.md. What is counted follows from the
pixels that a step computes and loads, and from where the maps lie that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from tilewright.residency.graph import Graph, Operation
from tilewright.residency.machine import CoreCycles
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import (
    STREAMED,
    Shape,
    count_blocks,
    group_of_passes,
    planes_or_strips,
    streams,
)
from tilewright.residency.shapes.strips import Strips

PARTS = 100
"""Parts of a cycle: prices are rounded to hundredths."""

BLOCK = STREAMED
"""Outputs that the C adds up together."""

Counts = dict[str, int]
"""How often a step does what `CoreCycles` has prices for."""


class CoreTime:
    """What a core takes, in hundredths of cycles."""

    def __init__(self, prices: CoreCycles) -> None:
        told = prices.model_dump()
        self.prices: dict[str, int] = {name: round(PARTS * told[name]) for name in CoreCycles.model_fields}

    def of_counts(self, counts: Mapping[str, int]) -> int:
        """Return what all that is counted takes."""
        return sum(self.prices[name] * count for name, count in counts.items())

    def least(self, graph: Graph, operation: Operation) -> int:
        """Return what an operation takes at least, however its step is executed, but for what is moved."""
        pixels, everything = graph.tensors[operation.number + 1].pixels, range(len(graph.tensors))
        ways = [_counts_of(graph, operation, pixels, ()), _counts_of(graph, operation, pixels, everything)]
        if operation.running is not None:
            added = graph.tensors[operation.readings[0].tensor].pixels
            ways.append(_counts_of(graph, operation, added, (), running=True))
        return min(self.of_counts(way) for way in ways) + self.prices["pixel"] * pixels


def counts_of(
    group: Group,
    whole: Collection[int],
    computed: Mapping[int, int],
    loaded: int,
    moved: int,
    *,
    running: bool,
    rounds: int = 1,
) -> Counts:
    """Return how often a step does what has prices.

    Parameters
    ----------
    whole
        Tensors that are on chip as a whole: all others lie in line buffers.
    computed
        Pixels of each operation, by number; of running values those that are added.
    loaded
        Pixels that are loaded as they are asked for.
    moved
        Bytes that are read and written outside, or copied.
    rounds
        How often the step goes over its pixels: once for each block of weights that it copies.
    """
    found = dict.fromkeys(CoreCycles.model_fields, 0)
    found["moved"], found["pixel"] = moved, rounds * sum(computed.values()) + loaded
    for operation in group.operations:
        adds = running and operation is group.last
        counts = _counts_of(group.graph, operation, computed[operation.number], whole, running=adds)
        for name, count in counts.items():
            found[name] += rounds * count if name in ("place", "place_in_line") else count
    return found


def _counts_of(
    graph: Graph, operation: Operation, pixels: int, whole: Collection[int], *, running: bool = False
) -> Counts:
    """Return what one operation does for so many pixels, of running values those that are added."""
    spec, source = operation.op.spec, operation.readings[0].tensor
    outputs = graph.tensors[operation.number + 1].channels
    values = outputs * pixels
    if spec.kind in ("conv", "fc"):
        places = 1 if spec.kind == "fc" else prod(spec.kernel)
        share = graph.tensors[source].pixels if running else 1
        macs: int = operation.work.macs * values // share
        given = "product_output" if spec.kind == "fc" else "output"
        found = {given: outputs if running else values}
        if places > 1:
            found["place" if source in whole else "place_in_line"] = places * pixels
        if getattr(spec, "groups", 1) > 1:
            return found | {"depthwise_mac": macs}
        return found | {"mac": macs, "loop": places * -(-outputs // BLOCK) * pixels}
    if running:
        return {"running": values}
    if spec.kind == "add":
        return {"sum": values}
    if spec.kind == "pool":
        return {"pooled": prod(spec.kernel) * values}
    return {"softmax" if getattr(spec, "op", "") in ("softmax", "log_softmax") else "other": values}


def counts_of_shape(
    group: Group, shape: Shape, streamed: Collection[int], whole: Collection[int], moved: int
) -> Counts:
    """Return the same of a step before it is executed; `streamed`: sources that are read outside."""
    loaded = sum(pixels_of(group, shape, tensor) for tensor in streamed)
    moved += copied_weights(group, shape)
    computed, rounds = pixels_computed(group, shape), rounds_over_pixels(group, shape)
    return counts_of(group, whole, computed, loaded, moved, running=shape.running, rounds=rounds)


def rounds_over_pixels(group: Group, shape: Shape) -> int:
    """Return how often a step goes over its pixels: once for each block of weights that it copies."""
    return count_blocks(group.last, shape) if streams(group, shape) else 1


def copied_weights(group: Group, shape: Shape) -> int:
    """Return the bytes of weights that a step copies from flash."""
    return sum(each.copyable for each in group.operations if each.number in shape.copied)


def pixels_computed(group: Group, shape: Shape) -> dict[int, int]:
    """Return the pixels of each operation of a step, by number; of running values those that are added."""
    found = {
        operation.number: pixels_of(group, shape, operation.number + 1) for operation in group.operations
    }
    if shape.running:
        found[group.last.number] = prod(group_of_passes(group, shape).plane)
    return found


def pixels_of(group: Group, shape: Shape, tensor: int) -> int:
    """Return the pixels of a tensor that a step computes or loads: strips have some of them several times."""
    where = planes_or_strips(group, shape)
    if isinstance(where, Strips):
        return where.read(tensor) * group.graph.tensors[tensor].shape[1]
    return group.graph.tensors[tensor].pixels
