"""What tiles of a group need and move, in closed form, as arrays over many tiles.

What a tile takes in the buffers and moves is exact; of its cycles there is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule_kernel import Ints
from tilewright.fusion.machine import CONV, LOAD, SAVE
from tilewright.fusion.plan import Tile
from tilewright.spec.layer import Layer

Grid = Any
"""Values of all tiles of a search, shape (ways, rows, columns), or what broadcasts to it."""


class AxisTiles:
    """Tile extents along one axis, per feature and candidate size, in rows or columns of the feature.

    Attributes
    ----------
    sizes
        Rows, or columns, of a tile of the last operation's output.
    spans
        For each size, see `FusedGroup.spans`.
    count : shape (sizes,)
        Number of tiles.
    total, fresh : shape (features, sizes)
        Extents of all tiles together; and without what the tile before has.
    most, first, last : shape (features, sizes)
        Extents of the largest, the first and the last tile.
    ring, switch : shape (features, sizes)
        Largest extent of a tile and the one before in one place; and of the last tile beside the first one.
    passes, fresh_passes : shape (features, sizes)
        How often the array's rows pass over all tiles.
    busy : shape (features, sizes)
        Number of tiles that need something which the tile before does not have.
    overlaps : shape (features, sizes)
        Whether a tile needs what another one needs.
    """

    def __init__(self, fused: FusedGroup, axis: int, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.spans = fused.spans(axis, self.sizes)
        self.count = np.array([span.shape[1] for span in self.spans])
        begins = np.cumsum(self.count) - self.count
        low, end = np.moveaxis(np.concatenate(self.spans, axis=1), -1, 0)
        # What the tile before begins and ends with; the first tile stands before itself, empty.
        before, until = np.roll(low, 1, axis=1), np.roll(end, 1, axis=1)
        before[:, begins] = until[:, begins] = low[:, begins]
        length, new = end - low, np.maximum(end - np.maximum(low, until), 0)
        high = fused.machine.conv_array[2]

        def add(values: Ints) -> Ints:
            return np.add.reduceat(values, begins, axis=1)

        self.total, self.fresh, self.busy = add(length), add(new), add((new > 0).astype(np.int64))
        self.passes, self.fresh_passes = add(-(-length // high)), add(-(-new // high))
        self.most = np.maximum.reduceat(length, begins, axis=1)
        self.ring = np.maximum.reduceat(end - np.minimum(before, low), begins, axis=1)
        self.overlaps = np.logical_or.reduceat(low < until, begins, axis=1)
        self.first, self.last = length[:, begins], length[:, begins + self.count - 1]
        self.switch = np.maximum(self.ring, np.where(self.count > 1, self.first + self.last, 0))


class TileCosts:
    """What tiles need and move: tiles that differ in rows, columns, kernels and channels only.

    Parameters
    ----------
    ways
        All of the tiles but their rows and columns.

    Attributes
    ----------
    tiles : shape (rows, columns)
    input, output, parameters : shape (ways, rows, columns), or what broadcasts to it
        Bytes of each buffer.
    loads, saves, macs
        Values moved, of all images, and MACs of convolutions.
    possible
        Whether no map leaves in tiles that overlap, and is read as well.
    """

    def __init__(self, fused: FusedGroup, rows: AxisTiles, columns: AxisTiles, ways: Sequence[Tile]) -> None:
        self.fused, self.machine = fused, fused.machine
        self.keeps, self.by_kernels = ways[0].halo == "keep", ways[0].order == "kernels"
        self._stays = ways[0].parameters == "keep"
        self._rows, self._columns = rows, columns
        self.tiles: Grid = rows.count[:, None] * columns.count
        self.shape = (len(ways), *self.tiles.shape)
        self._kernels = self._by_way(way.kernels for way in ways)
        self._splits = self._by_way(fused.splits(way) for way in ways).astype(np.bool_)
        self._passes = self._by_way(fused.passes(way) for way in ways).astype(np.bool_)
        deep = fused.summed(fused.loaded)
        self._summed = np.where(self._splits, self._by_way(way.channels for way in ways), deep)
        self.input: Grid = 0
        self.output: Grid = 0
        self.loads: Grid = 0
        self.possible: Grid = np.True_
        for feature in range(len(fused.features)):
            self._measure(feature)
        self._measure_split()
        self._measure_parameters()
        self.saves = self.machine.arrays * sum(prod(each.shape) for each in fused.features if each.saved)

    @classmethod
    def of(cls, fused: FusedGroup, tile: Tile) -> TileCosts:
        """Return what a single tile needs and moves."""
        return cls(fused, AxisTiles(fused, 0, [tile.rows]), AxisTiles(fused, 1, [tile.columns]), [tile])

    def _by_way(self, values: Any) -> Ints:
        return np.array(list(values), dtype=np.int64)[:, None, None]

    def _plane(self, rows: Ints, columns: Ints, feature: int) -> Grid:
        """Return values of rows times values of columns, of all images."""
        return self.machine.arrays * rows[feature][:, None] * columns[feature]

    def _block(self, feature: int) -> Grid:
        """Return the channels of a map in one block."""
        fused = self.fused
        channels = fused.features[feature].shape[0]
        if feature < fused.loaded:
            channels = min(channels, fused.features[fused.readers[feature][0]].shape[0])
        return np.minimum(channels, self._kernels)

    def blocks(self, feature: int) -> Grid:
        """Return the channel blocks of the stage that computes a map, or reads a loaded one."""
        fused = self.fused
        stage = fused.stage[feature if feature >= fused.loaded else fused.readers[feature][0]]
        return -(-fused.features[fused.stages[stage][0]].shape[0] // self._kernels)

    @cached_property
    def _summed_maps(self) -> list[int]:
        """Maps that come in parts where input channels are split."""
        if not self._splits.any():
            return []
        return list(dict.fromkeys(part.map for part in self.fused.features[self.fused.loaded].parts))

    # Maps --------------------------------------------------------------------------------------------

    def _measure(self, number: int) -> None:
        """Add what a map takes in its buffer, and what of it is loaded."""
        fused, rows, columns = self.fused, self._rows, self._columns
        feature, loaded = fused.features[number], number < fused.loaded
        channels, blocks = feature.shape[0], self.blocks(number)
        overlaps, by_block = self._overlaps(number), self._by_block(number)
        again = blocks if loaded and self.by_kernels else 1
        held, height, wide = self.held(number)
        taken = self.machine.element_bytes * self.machine.arrays * height * wide * held
        if loaded:
            split = self._splits if number in self._summed_maps else np.False_
            self.input = self.input + np.where(split, 0, taken)
            moved = self._plane(rows.fresh if self.keeps else rows.total, columns.total, number) * channels
            self.loads = self.loads + moved * np.where(split, blocks, np.where(by_block, 1, again))
        else:
            self.output = self.output + taken
            if feature.saved and fused.readers[number] and not self.keeps:
                self.possible = self.possible & ~overlaps

    def _overlaps(self, number: int) -> Grid:
        """Mark the tiles of which some need the same values of a map."""
        return self._rows.overlaps[number][:, None] | self._columns.overlaps[number]

    def _by_block(self, number: int) -> Grid:
        """Mark the tiles with which a map is on chip with the channels of one block."""
        by_block = self.by_kernels | ~(self.keeps & self._overlaps(number))
        return np.bool_(self.fused.blockwise[number]) & by_block

    def slots(self, number: int) -> Grid:
        """Return how many residencies of a map are on chip together, at most."""
        by_block, blocks = self._by_block(number), self.blocks(number)
        again = blocks if number < self.fused.loaded and self.by_kernels else 1
        residencies = self.tiles * np.where(by_block, blocks, again)
        return np.where(residencies > 1, np.where(by_block, 2, int(self.fused.slots[number])), 1)

    def held(self, number: int) -> tuple[Grid, Grid, Grid]:
        """Return the channels, rows and columns of a map that there is space for, of all slots together."""
        by_block = self._by_block(number)
        channels = np.where(by_block, self._block(number), self.fused.features[number].shape[0])
        return channels, self._height(number, self.slots(number), by_block), self._columns.most[number]

    def _height(self, number: int, slots: Grid, by_block: Grid) -> Grid:
        """Return the rows of a map that are on chip, of all its slots together."""
        rows = self._rows
        tile = rows.most[number][:, None]
        apart = slots * tile
        if not self.keeps:
            return apart
        ring = rows.ring[number][:, None]  # a tile and what it keeps of the one before are in one place
        if self.by_kernels:
            ring = np.where(self.blocks(number) > 1, rows.switch[number][:, None], ring)
            return np.where(self.tiles > 1, np.where(slots > 1, ring, tile), apart)
        return np.where(by_block, apart, np.where(slots > 1, ring, tile))

    def _measure_split(self) -> None:
        """Add what parts of loaded maps take, where a convolution sums over some input channels at a time."""
        if self._summed_maps:
            planes = [self._plane(self._rows.most, self._columns.most, each) for each in self._summed_maps]
            taken = self.machine.element_bytes * 2 * np.max(planes, axis=0) * self._summed
            self.input = self.input + np.where(self._splits, taken, 0)

    def _measure_parameters(self) -> None:
        """Set what parameters take in their buffer, and add what of them is loaded."""
        fused = self.fused
        per_channel = {index: fused.parameters(index, (0, fused.summed(index))) for index in fused.members}
        each_block = self._block_parameters(per_channel)
        self._first_fetch = each_block[fused.loaded]
        total = sum(each * fused.features[index].shape[0] for index, each in per_channel.items())
        taken: Grid = total
        if self.by_kernels and not self._stays:
            taken = self.rounds()
        taken = np.where(self._passes, 2 * np.max(np.broadcast_arrays(*each_block.values()), axis=0), taken)
        self.parameters: Grid = self.machine.element_bytes * taken
        again: Grid = 0
        for index in fused.weighted:
            tiles = self.tiles
            if self.keeps:
                tiles = self._rows.busy[index][:, None] * self._columns.count
            again = again + tiles * per_channel[index] * fused.features[index].shape[0]
        self.loads = self.loads + np.where(self._passes, again, total)

    def rounds(self) -> Grid:
        """Return what parameters take that come for a channel block of all operations, beside the next."""
        fused = self.fused
        each = (
            fused.parameters(index, (0, fused.summed(index))) * self._block(index) for index in fused.members
        )
        return np.where(self.blocks(fused.loaded) > 1, 2, 1) * sum(each)

    def _block_parameters(self, per_channel: Mapping[int, int]) -> dict[int, Grid]:
        """Return the parameters of each operation that are loaded at a time, for a channel block."""
        fused, head = self.fused, self.fused.loaded
        each_block = {index: each * self._block(index) for index, each in per_channel.items()}
        if self._splits.any():
            window = fused.parameters(head, (1, 2))
            bias = fused.parameters(head, (0, 1)) - window
            part = (bias + window * self._summed) * self._block(head)
            each_block[head] = np.where(self._splits, part, each_block[head])
        return each_block

    # Results -----------------------------------------------------------------------------------------

    @property
    def channel_blocks(self) -> Ints:
        """Channel blocks of all tiles: rounds of the loops over tiles, channels and input channels."""
        fused = self.fused
        blocks = sum(self.blocks(stage[0]) for stage in fused.stages)
        deep = fused.summed(fused.loaded)
        parts = np.where(self._splits, -(-deep // np.maximum(1, self._summed)), 1)
        return np.array(np.broadcast_to(self.tiles * blocks * parts, self.shape))

    @property
    def buffers(self) -> tuple[Grid, Grid, Grid]:
        """Bytes of the input, the output and the parameter buffer."""
        return self.input, self.output, self.parameters

    @property
    def traffic(self) -> Grid:
        """Bytes moved from and to DRAM."""
        return (self.loads + self.saves) * self.machine.element_bytes

    def fits(self) -> NDArray[np.bool_]:
        """Mark the tiles that fit into the buffers."""
        machine = self.machine
        fits = (
            self.possible
            & (self.input <= machine.input_bytes)
            & (self.output <= machine.output_bytes)
            & (self.parameters <= machine.parameter_bytes)
        )
        return np.array(np.broadcast_to(fits, self.shape))

    @cached_property
    def macs(self) -> Grid:
        """MACs of convolutions, of all images."""
        fused, rows = self.fused, self._rows
        table = rows.fresh if self.keeps else rows.total
        return sum(
            self._plane(table, self._columns.total, index)
            * (fused.features[index].shape[0] * fused.operands(index))
            for index in fused.members
            if engine_of(fused.op(index)) == CONV
        )

    # Cycles ------------------------------------------------------------------------------------------

    @cached_property
    def work(self) -> dict[str, Grid]:
        """The least cycles that each engine works, by the engines that do."""
        cycles: dict[str, Grid] = {
            LOAD: self._cycles(LOAD, self.loads),
            SAVE: self._cycles(SAVE, self.saves),
        }
        for index in self.fused.members:
            engine = engine_of(self.fused.op(index))
            cycles[engine] = cycles.get(engine, 0) + self._work(index)
        return cycles

    def bound(self) -> Grid:
        """Return cycles that no schedule is below.

        In a single stage all waits for what its first operation needs. What an engine does last leads to a
        result of the last tile that is saved, unless halos are kept and it has nothing new for that tile.
        """
        fused, rows, columns = self.fused, self._rows, self._columns
        alone = len(fused.stages) == 1
        results = [index for index in fused.members if not fused.readers[index]]
        saved = [index for index in fused.members if fused.features[index].saved]
        begin = self._cycles(LOAD, self._first_load()) + self._cycles(LOAD, self._first_fetch)
        last: Grid = 0
        end: Grid = 0
        first: Grid = 0
        if alone or not self.keeps:
            end = _least([self._cycles(SAVE, self._last_save(index)) for index in saved])
        if alone:
            first = begin + _least(
                [self._block_cycles(index, rows.first, columns.first, False) for index in saved]
            )
            if not self.keeps:
                last = _least([self._block_cycles(index, rows.last, columns.last, True) for index in results])
        longest = np.maximum(self.work[LOAD] + last + end, first + self.work[SAVE])
        engines = {engine_of(fused.op(index)) for index in results}
        head = engine_of(fused.op(fused.loaded))
        for engine, cycles in self.work.items():
            if engine in (LOAD, SAVE):
                continue
            before = begin if alone or engine == head else 0
            after = end if engine in engines else last + end
            longest = np.maximum(longest, before + cycles + after)
        return longest + self.machine.issue_cycles

    def _work(self, index: int) -> Grid:
        """Return the least cycles in which an engine computes a map, all tiles together."""
        fused, machine, rows = self.fused, self.machine, self._rows
        op, channels, wide = (
            fused.op(index),
            fused.features[index].shape[0],
            self._columns.total[index],
        )
        if engine_of(op) != CONV:
            values = self._plane(rows.fresh if self.keeps else rows.total, self._columns.total, index)
            return -(-values * (channels * fused.operands(index)) // machine.operands_per_cycle)
        ins, outs, _ = machine.conv_array
        passes = (rows.fresh_passes if self.keeps else rows.passes)[index][:, None]
        block, deep = self._block(index), fused.summed(index)
        size = self._summed if index == fused.loaded else deep
        across = channels // block * -(-block // outs) + -(-(channels % block) // outs)
        down = deep // size * -(-size // ins) + -(-(deep % size) // ins)
        return passes * wide * (across * down * self._window(index))

    def _window(self, index: int) -> int:
        spec = self.fused.op(index).spec
        assert isinstance(spec, Layer)
        return prod(spec.kernel)

    def _first_load(self) -> Grid:
        """Return the values that the first operation needs before it can begin."""
        fused = self.fused
        values: Grid = 0
        counted = set()
        for part in fused.features[fused.loaded].parts:
            if part.map >= fused.loaded or part.map in counted:
                continue
            counted.add(part.map)
            channels = fused.features[part.map].shape[0]
            first_block = np.clip(self._kernels - part.first, 0, channels)
            needed = first_block if fused.blockwise[part.map] else channels
            if part.map in self._summed_maps:
                needed = np.where(self._splits, np.clip(self._summed - part.first, 0, channels), needed)
            values = values + self._plane(self._rows.first, self._columns.first, part.map) * needed
        return values

    def _last_save(self, index: int) -> Grid:
        channels = self.fused.features[index].shape[0]
        rest = channels % self._kernels
        fewest = np.minimum(self._block(index), np.where(rest, rest, channels))
        return self._plane(self._rows.last, self._columns.last, index) * fewest

    def _block_cycles(self, index: int, rows: Ints, columns: Ints, last: bool) -> Grid:
        """Return the cycles of the smallest channel block of an operation, or of its end, the last sum."""
        fused, machine = self.fused, self.machine
        op, channels = fused.op(index), fused.features[index].shape[0]
        rest = channels % self._kernels
        block = np.minimum(self._kernels, np.where(rest, rest, channels))
        if engine_of(op) != CONV:
            values = self._plane(rows, columns, index) * block * fused.operands(index)
            return -(-values // machine.operands_per_cycle)
        ins, outs, high = machine.conv_array
        deep: Grid = fused.summed(index)
        if last and index == fused.loaded:
            over = deep % np.maximum(1, self._summed)
            deep = np.where(over, over, self._summed)
        passes = -(-rows[index][:, None] // high) * columns[index]
        return passes * (-(-deep // ins) * -(-block // outs) * self._window(index))

    def _cycles(self, engine: str, values: Grid) -> Grid:
        machine = self.machine
        rate = machine.load_mb_per_s if engine == LOAD else machine.save_mb_per_s
        cycles = values * (machine.element_bytes * machine.clock_mhz) // rate
        if machine.layouts is not None:  # as if all lay in one run
            bursts = values * machine.element_bytes // machine.layouts.burst_bytes
            cycles = cycles + bursts * machine.layouts.burst_cycles
        return cycles


def _least(values: list[Grid]) -> Grid:
    least = values[0]
    for other in values[1:]:
        least = np.minimum(least, other)
    return least


def only(table: Grid) -> int:
    """Return the value of the only tile."""
    return int(np.asarray(table).item())
