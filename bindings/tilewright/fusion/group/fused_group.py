"""What a group of operations is made of, whatever its tile: maps that enter, stay and leave, and stages.

A *stage* is an operation and those that follow it channel by channel: a pool or an addition works on the
channels of a convolution that an instruction has just computed, while the next ones are computed. A
convolution over all channels of a map begins a stage of its own, after the stages that compute the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.fusion.graph import engine_of, mixes_channels
from tilewright.fusion.group.schedule_kernel import Column, Ints
from tilewright.fusion.layouts import Place
from tilewright.fusion.machine import ENGINES, EngineMachine
from tilewright.fusion.plan import Tile
from tilewright.spec.graph import Access, NetworkGraph, Operation
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import OPERANDS, Map, NamedLayer


class MapPart(NamedTuple):
    """A map that an operation reads.

    Attributes
    ----------
    map
        Its number in the group.
    first
        The channel of the operation's input at which its channels begin.
    """

    map: int
    first: int


@dataclass(frozen=True)
class Feature:
    """A feature map in a group; those that are loaded come before those that operations compute.

    Attributes
    ----------
    name
        Of the operation that computes it, or ``input``; of the first and the last of those that lie side by
        side in DRAM and are loaded as one.
    shape
        Channels, height and width.
    sources
        What is loaded; empty for others.
    op
        The operation, None for what is loaded.
    parts
        What the operation reads.
    saved
        Whether others than the group's operations need it.
    """

    name: str
    shape: tuple[int, int, int]
    sources: tuple[Access, ...] = ()
    op: Operation | None = None
    parts: tuple[MapPart, ...] = ()
    saved: bool = False


Span = tuple[Ints, Ints]
"""Rows, or columns, of a map: where those begin and end that each of the tiles along an axis needs."""


class FusedGroup:
    """A group of operations.

    Parameters
    ----------
    machine
        The accelerator.
    graph
        The network's operations.
    nodes
        Numbers of the group's operations, in the order of execution.
    places
        Where maps lie in their arrays in DRAM; None where bursts cost nothing.

    Attributes
    ----------
    features
        All maps; the first `loaded` ones come from DRAM.
    stage
        Of each feature, the number of the stage that computes it; -1 for what is loaded.
    stages
        Numbers of the features that each stage computes, in the order of execution.
    """

    def __init__(
        self,
        machine: EngineMachine,
        graph: NetworkGraph,
        nodes: Sequence[int],
        places: Mapping[int, Place] | None = None,
    ) -> None:
        self.machine, self._graph, self._places = machine, graph, places
        members = set(nodes)
        runs = _runs(graph, nodes)
        number = {access: index for index, run in enumerate(runs) for access in run}
        number |= {Access(node): index for index, node in enumerate(nodes, len(runs))}
        self.loaded = len(runs)
        self.features = [_joined(graph, run) for run in runs]
        for node in nodes:
            op, consumers = graph.ops[node], graph.consumers[node]
            saved = op.leaves or any(consumer not in members for consumer in consumers)
            parts: list[MapPart] = []
            first = 0
            for access in op.accesses:
                index = number[access]
                if index < self.loaded and runs[index][0] != access:
                    continue  # loaded together with what is read before
                parts.append(MapPart(index, first))
                if op.spec.kind not in OPERANDS:
                    first += self.features[index].shape[0]
            self.features.append(Feature(op.name, op.spec.output, (), op, tuple(parts), saved))
        self._find_stages()

    def _find_stages(self) -> None:
        self.stage = [-1] * self.loaded
        self.stages: list[list[int]] = []
        for index in self.members:
            feature = self.features[index]
            op = feature.op
            assert op is not None
            latest = max(self.stage[part.map] for part in feature.parts)
            joined = op.spec.kind not in OPERANDS and len(feature.parts) > 1
            if latest < 0 or mixes_channels(op) or joined or latest != len(self.stages) - 1:
                self.stage.append(len(self.stages))
                self.stages.append([index])
            else:
                self.stage.append(latest)
                self.stages[latest].append(index)

    @property
    def members(self) -> range:
        """Numbers of the features that the group computes."""
        return range(self.loaded, len(self.features))

    def op(self, feature: int) -> Operation:
        """Return the operation that computes a feature."""
        op = self.features[feature].op
        assert op is not None
        return op

    @cached_property
    def readers(self) -> list[list[int]]:
        """For each feature, those computed from it in the group."""
        readers: list[list[int]] = [[] for _ in self.features]
        for index in self.members:
            for source in dict.fromkeys(source.map for source in self.features[index].parts):
                readers[source].append(index)
        return readers

    @cached_property
    def names(self) -> list[tuple[str, str, str]]:
        """What a map, its second place and its operation's parameters are called where the group is executed.

        A map has its own name. The others have it in theirs, changed as long as something else has that.
        """
        taken = {feature.name for feature in self.features if len(feature.sources) < 2}
        found = []
        for feature in self.features:
            own = feature.name if len(feature.sources) < 2 else _free(feature.name, taken)
            found.append((own, _free(f"{own}'", taken), _free(f"{own} parameters", taken)))
        return found

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What decides the costs of a group; equal for groups that differ in names only."""
        if self._places is not None:
            return (*self._key, self.pieces)
        return self._key

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return tuple(
            (
                feature.shape,
                feature.parts,
                feature.saved,
                feature.op and (engine_of(feature.op), _geometry(feature.op)),
            )
            for feature in self.features
        )

    @cached_property
    def sums(self) -> bool:
        """Whether it is one stage whose first convolution can sum over some channels at a time."""
        head, spec = self.loaded, self.op(self.loaded).spec
        return (
            len(self.stages) == 1
            and isinstance(spec, Layer)
            and spec.groups == 1
            and all(self.readers[part.map] == [head] for part in self.features[head].parts)
        )

    @cached_property
    def whole_only(self) -> bool:
        """Whether the maps that leave have several sizes, so that they cannot be cut into the same tiles."""
        results = [index for index in self.members if not self.readers[index]]
        return len({self.features[index].shape[1:] for index in results}) > 1

    @property
    def plane(self) -> tuple[int, int]:
        """Height and width that tiles cut up, those of the last operation's output."""
        return self.features[-1].shape[1:]

    def side_by_side(self, feature: int) -> list[int]:
        """Return the channels of each map that is loaded as a part of a feature; of others all."""
        sources = self.features[feature].sources
        return [self._graph.shape(access)[0] for access in sources] or [self.features[feature].shape[0]]

    def summed(self, feature: int) -> int:
        """Input channels over which an operation sums for one output value; 0 if it is no convolution."""
        spec = self.op(feature).spec
        return spec.input[0] // spec.groups if isinstance(spec, Layer) else 0

    def parameters(self, feature: int, summed: tuple[int, int]) -> int:
        """Parameters of an operation for each output channel and some input channels (equation 5).

        The bias of an output channel comes with the first of its input channels.
        """
        spec = self.op(feature).spec
        if isinstance(spec, NamedLayer):
            return prod(spec.kernel) * (summed[1] - summed[0]) + (spec.bias and summed[0] == 0)
        return -(-spec.parameters // spec.input[0]) if isinstance(spec, Map) else 0

    def operands(self, feature: int) -> int:
        """Values that an operation takes for one output value."""
        spec = self.op(feature).spec
        if isinstance(spec, Layer):
            return spec.macs_per_output
        assert isinstance(spec, Window)
        return prod(spec.kernel) * (len(self.features[feature].parts) if spec.kind in OPERANDS else 1)

    @cached_property
    def blockwise(self) -> NDArray[np.bool_]:
        """Of each feature, whether its readers need a block of its channels at a time, all in one stage."""
        blockwise = []
        for index, feature in enumerate(self.features):
            readers = self.readers[index]
            if index >= self.loaded:
                blockwise.append({self.stage[reader] for reader in readers} <= {self.stage[index]})
            else:
                alone = len(readers) == 1 and not mixes_channels(self.op(readers[0]))
                blockwise.append(alone and feature.shape[1:] == self.op(readers[0]).spec.input[1:])
        return np.array(blockwise)

    @cached_property
    def slots(self) -> Ints:
        """Of each feature, tiles of it that are on chip together: two if one is read as the next is made."""
        slots = []
        for index, feature in enumerate(self.features):
            engines = {engine_of(self.op(reader)) for reader in self.readers[index]}
            alone = feature.op is not None and engines == {engine_of(feature.op)} and not feature.saved
            slots.append(1 if alone else 2)
        return np.array(slots, dtype=np.int64)

    def fetches(self, tile: Tile) -> int:
        """Return how often parameters come in a round of all operations: parts of input channels apart."""
        parts = -(-self.summed(self.loaded) // tile.channels) if self.splits(tile) else 1
        return len(self.weighted) + (parts - 1) * (self.loaded in self.weighted)

    @cached_property
    def weighted(self) -> list[int]:
        """Features whose operations have parameters."""
        return [index for index in self.members if self.parameters(index, (0, 1))]

    def splits(self, tile: Tile) -> bool:
        """Whether a convolution sums over some of its input channels at a time."""
        return self.sums and tile.channels < self.summed(self.loaded)

    def passes(self, tile: Tile) -> bool:
        """Whether parameters leave the chip after each channel block, because the next one needs others."""
        if tile.parameters == "keep" or tile.order == "kernels":
            return False
        blocks = [-(-self.features[index].shape[0] // tile.kernels) for index in self.weighted]
        # With kept halos a tile may have nothing new for an operation.
        several = min(blocks, default=0) > 1 if tile.halo == "keep" else sum(blocks) > 1
        return several or (bool(blocks) and self.splits(tile))

    @cached_property
    def table(self) -> Ints:
        """The rows that the schedule kernel has of each feature, as far as they are known without a tile."""
        table = np.zeros((len(self.features), Column.COUNT), dtype=np.int64)
        reads = pieces = 0
        for index, feature in enumerate(self.features):
            row = table[index]
            row[[Column.CHANNELS, Column.HEIGHT, Column.WIDE]] = feature.shape
            row[Column.SAVED] = feature.saved
            row[[Column.FIRST_PIECE, Column.END_PIECE]] = pieces, pieces + len(self.pieces[index])
            pieces += len(self.pieces[index])
            if feature.op is None:
                row[Column.STAGE] = min(self.stage[reader] for reader in self.readers[index])
                continue
            spec = feature.op.spec
            row[[Column.ENGINE, Column.STAGE]] = ENGINES.index(engine_of(feature.op)), self.stage[index]
            row[[Column.SUMMED, Column.OPERANDS]] = self.summed(index), self.operands(index)
            if isinstance(spec, NamedLayer):
                row[[Column.WINDOW, Column.BIAS]] = prod(spec.kernel), spec.bias
            else:
                row[Column.FLAT] = self.parameters(index, (0, 0))
            row[[Column.FIRST_READ, Column.END_READ]] = reads, reads + len(self.sources[index])
            reads += len(self.sources[index])
        return table

    @cached_property
    def pieces(self) -> tuple[tuple[tuple[int, int, int, bool], ...], ...]:
        """For each map, where its channels lie in DRAM: first, end, channels of the array, whether NCHW.

        Channels that follow each other in one NHWC array are one piece. None of maps that stay on chip, nor
        where bursts cost nothing.
        """
        return tuple(self._pieces_of(feature) for feature in self.features)

    def _pieces_of(self, feature: Feature) -> tuple[tuple[int, int, int, bool], ...]:
        if self._places is None:
            return ()
        found: list[tuple[int, int, int, bool]] = []
        if feature.op is not None:
            place = self._places.get(feature.op.number)
            return ((0, feature.shape[0], place.channels, place.planar),) if feature.saved and place else ()
        first, next_in_array = 0, -1
        for access in feature.sources:
            place, channels = self._places[access.source], self._graph.shape(access)[0]
            at = place.first + (access.channels or (0,))[0]
            whole = place.channels > self._graph.shape(Access(access.source))[0]
            if whole and at == next_in_array:
                found[-1] = (found[-1][0], first + channels, *found[-1][2:])
            else:
                found.append((first, first + channels, place.channels, place.planar))
            first, next_in_array = first + channels, at + channels if whole else -1
        return tuple(found)

    @cached_property
    def sources(self) -> list[list[MapPart]]:
        """What each operation reads, each map once; nothing for what is loaded."""
        sources: list[list[MapPart]] = []
        for feature in self.features:
            first_parts: dict[int, MapPart] = {}
            for part in feature.parts:
                first_parts.setdefault(part.map, part)
            sources.append(list(first_parts.values()))
        return sources

    @cached_property
    def reads(self) -> Ints:
        """All of `sources`, a map and a channel in each row."""
        flat = [part for parts in self.sources for part in parts]
        return np.array(flat, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def order(self) -> Ints:
        """Features by stage."""
        return np.array([index for stage in self.stages for index in stage], dtype=np.int64)

    @cached_property
    def begins(self) -> Ints:
        """Where each stage begins in `order`."""
        return np.cumsum([0, *map(len, self.stages)], dtype=np.int64)

    def spans(self, axis: int, sizes: Sequence[int]) -> list[Ints]:
        """Return, for each size, begin and end of what its tiles need, shape (features, tiles, 2).

        A size is the rows (axis 0) or columns of a tile of the last operation's output. A map that is saved
        is computed whole: a tile also needs what comes before its own rows and no earlier tile needs.
        """
        length = self.plane[axis]
        lows = [np.arange(0, length, size) for size in sizes]
        low = np.concatenate(lows)
        high = np.minimum(low + np.repeat(sizes, [len(each) for each in lows]), length)
        pieces = np.cumsum([0, *(len(each) for each in lows)])
        spans = np.zeros((len(self.features), len(low), 2), dtype=np.int64)
        for index in reversed(range(len(self.features))):
            feature, extent = self.features[index], self.features[index].shape[1 + axis]
            windows = [
                _window(self.op(reader), (spans[reader, :, 0], spans[reader, :, 1]), axis, extent)
                for reader in self.readers[index]
            ]
            if not windows:  # With maps of several sizes there is one tile, all of each.
                windows = [(low, high) if extent == length else (low * 0, high * 0 + extent)]
            begin, end = windows[0]
            for other in windows[1:]:
                begin, end = np.minimum(begin, other[0]), np.maximum(end, other[1])
            if feature.saved and self.readers[index]:
                for piece in map(slice, pieces[:-1], pieces[1:]):
                    ends = np.maximum.accumulate(end[piece])
                    ends[-1] = extent
                    begin[piece] = np.minimum(begin[piece], np.append(0, ends[:-1]))
                    end[piece] = np.maximum(end[piece], ends)
            spans[index, :, 0], spans[index, :, 1] = begin, end
        # In a row each: `tilewright.fusion.group.schedule_kernel` is compiled for one kind of array, once.
        return [np.ascontiguousarray(piece) for piece in np.split(spans, pieces[1:-1], axis=1)]


def _runs(graph: NetworkGraph, nodes: Sequence[int]) -> list[tuple[Access, ...]]:
    """Return what is loaded from outside, in runs of maps that all their readers read side by side."""
    members = set(nodes)
    rows = [graph.ops[node].accesses for node in nodes]
    joins = [graph.ops[node].spec.kind not in OPERANDS for node in nodes]
    outside = dict.fromkeys(access for row in rows for access in row if access.source not in members)
    after: dict[Access, set[Access | None]] = {access: set() for access in outside}
    before: dict[Access, set[Access | None]] = {access: set() for access in outside}
    for row, join in zip(rows, joins, strict=True):
        for left, right in zip((None, *row), (*row, None), strict=True):
            left, right = (left, right) if join else (None, None)
            if left in outside:
                after[left].add(right if right in outside else None)
            if right in outside:
                before[right].add(left if left in outside else None)
        if not join:
            for access in outside.keys() & set(row):
                after[access].add(None)
                before[access].add(None)
    runs: list[list[Access]] = []
    for access in outside:
        last = runs[-1][-1] if runs else None
        if last is not None and after[last] == {access} and before[access] == {last}:
            runs[-1].append(access)
        else:
            runs.append([access])
    return [tuple(run) for run in runs]


def _joined(graph: NetworkGraph, run: tuple[Access, ...]) -> Feature:
    """Return the map of a run of operations, side by side in DRAM."""
    names = [
        graph.name(source) if channels is None else f"{graph.name(source)}[{channels[0]}:{channels[1]}]"
        for source, channels, *_ in run
    ]
    shapes = [graph.shape(access) for access in run]
    name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return Feature(name, (sum(shape[0] for shape in shapes), *shapes[0][1:]), run)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that nothing has yet, and take it."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _window(op: Operation, span: Span, axis: int, extent: int) -> Span:
    """Return what an operation needs of its input for some rows of its output (F^-1 and G^-1)."""
    spec, (low, high) = op.spec, span
    if extent == 1 and spec.kind in OPERANDS:  # One value for all positions of a product.
        return np.zeros_like(low), np.ones_like(high)
    assert isinstance(spec, Window)
    before, stride = spec.padding[2 * axis], spec.stride[axis]
    begin = np.minimum(np.maximum(low * stride - before, 0), extent - 1)
    end = np.minimum((high - 1) * stride - before + spec.kernel_extent[axis], extent)
    return begin, np.maximum(end, begin + 1)


def _geometry(op: Operation) -> tuple[object, ...]:
    spec = op.spec
    assert isinstance(spec, Window)
    geometry = (spec.input, spec.kernel, spec.stride, spec.padding, spec.dilation)
    numbers = spec.parameters if isinstance(spec, Map) else 0
    return (
        spec.kind,
        *geometry,
        getattr(spec, "groups", 1),
        getattr(spec, "bias", False),
        numbers,
        mixes_channels(op),
    )
