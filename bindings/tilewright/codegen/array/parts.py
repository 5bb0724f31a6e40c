"""What each PE of a layer computes and holds: a part of its filters, of its input maps, of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.allocation import Problem
from tilewright.allocation.placement.floor import PE
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add


class Operand(NamedTuple):
    """What a layer reads of one producer.

    Attributes
    ----------
    producer
        Number of the layer, -1 for the network's input.
    number
        Of a sum, its operand from 1 on; 0 where what is read is concatenated.
    first, channels
        Where the producer's channels lie among the maps of the layer.
    """

    producer: int
    number: int
    first: int
    channels: int


class LayerWork(NamedTuple):
    """A layer and how it is divided.

    Attributes
    ----------
    operands
        What it reads.
    divides_filters
        Whether a PE computes some filters of all its maps, as a convolution does, or each of its maps apart.
    """

    stage: Stage
    split: LayerSplit
    operands: tuple[Operand, ...]

    @property
    def divides_filters(self) -> bool:
        """Whether maps are summed up to filters."""
        return isinstance(self.stage.spec, Layer)

    @property
    def groups(self) -> int:
        """Groups of the filters."""
        return self.stage.spec.groups if isinstance(self.stage.spec, Layer) else 1

    @property
    def loops(self) -> dict[str, int]:
        """Trips of the loops of algorithm 3."""
        task, split = self.stage.task, self.split
        taps = (task.window, 1) if isinstance(self.stage.spec, Add) else self.stage.spec.kernel
        return {
            "r": -(-task.rows // split.rows),
            "c": task.columns,
            "k1": taps[0],
            "k2": taps[1],
            "n": -(-task.maps // (split.maps * split.unit_maps)),
            "m": -(-task.filters // (split.filters * split.unit_filters)),
        }


class Part(NamedTuple):
    """What one PE of a layer does: every so many filters, maps and rows, from a first one on.

    Attributes
    ----------
    filters, maps, rows
        The first filter, map and row, and how many filters and maps there are.
    holds
        Whether outputs lie in this PE, or it only adds to the sums of another one.
    channels : (step, first, count)
        Those that it holds.
    """

    pe: PE
    filters: int
    filter_count: int
    maps: int
    map_count: int
    rows: int
    holds: bool
    channels: tuple[int, int, int]


def layer_works(problem: Problem, splits: tuple[LayerSplit, ...]) -> tuple[LayerWork, ...]:
    """Return the layers of a pipeline with what they read."""
    given = coarse_graph(problem.network).own_input[0]
    found = []
    for stage, split in zip(problem.stages, splits, strict=True):
        operands, first = [], 0
        for number, producer in enumerate(stage.producers, 1):
            source = problem.stages[producer].channels if producer >= 0 else given
            if isinstance(stage.spec, Add):
                operands.append(Operand(producer, number, 0, source))
                continue
            operands.append(Operand(producer, 0, first, source))
            first += source
        found.append(LayerWork(stage, split, tuple(operands)))
    return tuple(found)


def parts_of(work: LayerWork, region: tuple[PE, ...]) -> Iterator[Part]:
    """Yield what each PE of a layer does; those that have nothing to do are left out.

    Filters are dealt out as in algorithm 3: PE p has filters p, p + P, p + 2 P and so on. So are maps and
    rows.
    """
    task, split = work.stage.task, work.split
    numbers = ((p, q, g) for g in range(split.rows) for p in range(split.filters) for q in range(split.maps))
    for pe, (p, q, g) in zip(region, numbers, strict=True):
        filters = len(range(p, task.filters, split.filters))
        maps = len(range(q, task.maps, split.maps))
        if not (filters and maps and g < task.rows):
            continue
        holds, channels = True, (split.maps, q, maps)
        if work.divides_filters:
            holds, channels = q == 0, (split.filters, p, filters)
        yield Part(pe, p, filters, q, maps, g, holds, channels)
