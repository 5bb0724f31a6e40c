"""Fusion: every choice of groups and tiles (docs/fusion.md), each group executed step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, pairwise, product
from math import prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Span = tuple[int, int]
Nodes = tuple[int, ...]

MOST_BLOCKS = 12_000
"""Channel blocks of all tiles of all groups together that are executed."""

MOST_CYCLES = 2**50
"""More than any plan takes."""

ENGINES = {"conv": "CONV", "pool": "POOL", "add": "MISC"}


class Op:
    """An operation of the network."""

    def __init__(self, number: int, table: Json, reads: tuple[int, ...]) -> None:
        self.number, self.name, self.reads, self.kind = number, table["name"], reads, table["kind"]
        self.leaves = False
        self.engine = ENGINES.get(self.kind, "HOST")
        self.input = tuple(table["input"])
        self.kernel, self.stride = table.get("kernel", [1, 1]), table.get("stride", [1, 1])
        self.pad, dilation = table.get("padding", [0] * 4), table.get("dilation", [1, 1])
        self.extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, dilation, strict=True)]
        plane = [
            (self.input[1 + i] + self.pad[2 * i] + self.pad[2 * i + 1] - self.extent[i]) // self.stride[i] + 1
            for i in (0, 1)
        ]
        conv, channels = self.kind in ("conv", "fc"), self.input[0]
        self.output = (table["kernels"] if conv else channels, *plane)
        self.summed = channels // table["groups"] if conv else 0
        self.bias = int(conv and table["bias"])
        depthwise = conv and table["groups"] == channels == table["kernels"]
        self.dense = conv and not depthwise
        self.grouped = conv and table["groups"] > 1
        self.window = prod(self.kernel)
        self.operands = len(reads) if self.kind == "add" else self.window

    def under(self, axis: int, span: Span, extent: int) -> Span:
        """Return the rows (axis 0) or columns of its input under some of its output."""
        low = min(max(span[0] * self.stride[axis] - self.pad[2 * axis], 0), extent - 1)
        high = min((span[1] - 1) * self.stride[axis] - self.pad[2 * axis] + self.extent[axis], extent)
        return low, max(high, low + 1)

    def parameters(self, first: int, last: int) -> int:
        """Return its parameters for each output channel, with some of the input channels."""
        return self.window * (last - first) + (self.bias if first == 0 else 0) if self.summed else 0


class Tile(NamedTuple):
    """As in plans."""

    rows: int
    columns: int
    kernels: int
    channels: int
    halo: str
    order: str
    parameters: str


class Costs(NamedTuple):
    """Of a group with a tile."""

    cycles: int
    traffic: int
    energy: int
    peak: int


@dataclass
class Map:
    """A map of a group.

    Attributes
    ----------
    parts
        Maps that are read, with the channel of the operation's input at which each begins.
    """

    shape: tuple[int, ...]
    op: Op | None = None
    parts: list[tuple[int, int]] = field(default_factory=list)
    saved: bool = False
    stage: int = -1
    readers: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of the operations that compute what is loaded or saved


class Group:
    """Operations that run as one."""

    def __init__(self, graph: Graph, nodes: Nodes) -> None:
        self.graph, self.machine, self.nodes = graph, graph.problem["machine"], nodes
        runs = _runs([graph.ops[node] for node in nodes], set(nodes))
        shapes = {-1: graph.ops[0].input} | {op.number: op.output for op in graph.ops}
        number = {node: index for index, run in enumerate(runs) for node in run}
        number |= {node: len(runs) + index for index, node in enumerate(nodes)}
        self.loaded = len(runs)
        self.maps = [Map((sum(shapes[n][0] for n in run), *shapes[run[0]][1:]), numbers=run) for run in runs]
        stages = 0
        for node in nodes:
            op = graph.ops[node]
            outside = op.leaves or any(reader not in nodes for reader in graph.readers[node])
            new = Map(op.output, op, saved=outside, numbers=[node])
            first = 0
            for read in op.reads:
                index = number[read]
                if index < self.loaded and runs[index][0] != read:
                    continue  # came with the one before
                new.parts.append((index, first))
                first += self.maps[index].shape[0] if op.kind != "add" else 0
            latest = max(self.maps[index].stage for index, _ in new.parts)
            joined = op.kind != "add" and len(new.parts) > 1
            if latest < 0 or op.dense or joined or latest != stages - 1:
                stages += 1
            new.stage = stages - 1
            for index in {index for index, _ in new.parts}:
                self.maps[index].readers.append(len(self.maps))
            self.maps.append(new)
        self.stages = [
            [i for i, one in enumerate(self.maps) if one.stage == stage] for stage in range(stages)
        ]
        head = self.op(self.loaded)
        self.sums = (
            stages == 1
            and head.kind == "conv"
            and not head.grouped
            and all(self.maps[index].readers == [self.loaded] for index, _ in self.maps[self.loaded].parts)
        )
        self.plane = self.maps[-1].shape[1:]
        ends = {one.shape[1:] for one in self.maps[self.loaded :] if not one.readers}
        self.whole_only = len(ends) > 1
        self.weighted = [i for i in self.members if self.op(i).summed]

    def op(self, index: int) -> Op:
        """Return what computes a map."""
        op = self.maps[index].op
        assert op is not None
        return op

    @property
    def members(self) -> range:
        """Maps that are computed."""
        return range(self.loaded, len(self.maps))

    def spans(self, axis: int, size: int) -> list[list[Span]]:
        """Return, for each map and tile along an axis, what the tile needs."""
        length = self.plane[axis]
        tiles = [(low, min(low + size, length)) for low in range(0, length, size)]
        found: list[list[Span]] = [[] for _ in self.maps]
        for index in reversed(range(len(self.maps))):
            one, extent = self.maps[index], self.maps[index].shape[1 + axis]
            if not one.readers:
                found[index] = tiles if extent == length else [(0, extent)] * len(tiles)
                continue
            done = 0
            for tile in range(len(tiles)):
                spans = [self.op(r).under(axis, found[r][tile], extent) for r in one.readers]
                low, high = min(span[0] for span in spans), max(span[1] for span in spans)
                if one.saved:  # whole: with what no earlier tile needs
                    low, high = min(low, done), max(high, done)
                    done = high = extent if tile == len(tiles) - 1 else high
                found[index].append((low, high))
        return found

    def tiles(self, whole: bool) -> dict[Tile, Costs]:
        """Return all tiles that plans can have, and what they cost."""
        height, width = self.plane
        ins, outs, high = self.machine["conv_array"]
        halves = _halves(width)
        if self._every_size:
            ins = outs = 0
        if whole or self.whole_only:
            grids = [([height], [width], ins, outs)]
        elif self._every_size:
            grids = [(list(range(1, height + 1)), list(range(1, width + 1)), ins, outs)]
        else:
            grids = [
                (_rows(height, high), halves[:3], ins, outs),
                (_rows(height, high), halves[3:], ins, outs),
            ]
            if len(self.nodes) == 1:
                grids.append((_halves(height), halves, 1, 1))
        for down, across, a, b in grids:
            found = {}
            for rows, columns, halo, loop in product(down, across, ("recompute", "keep"), LOOPS):
                for kernels, channels in product(self._kernels(b), self._channels(a)):
                    tile = Tile(rows, columns, kernels, channels, halo, *loop)
                    if self._allowed(tile) and (costs := self.costs(tile)) is not None:
                        found[tile] = costs
            if found:
                return found
        return {}

    @property
    def _every_size(self) -> bool:
        """Whether tiles may have any size."""
        return bool(self.graph.problem["limits"].get("tiles") == "any")

    def _kernels(self, step: int) -> list[int]:
        return _doubled(max(self.maps[i].shape[0] for i in self.members), step)

    def _channels(self, step: int) -> list[int]:
        deep = self.op(self.loaded).summed
        return _doubled(deep, step) if self.sums else [max(1, deep)]

    def splits(self, tile: Tile) -> bool:
        """Whether sums are made in parts."""
        return self.sums and tile.channels < self.op(self.loaded).summed

    def passes(self, tile: Tile) -> bool:
        """Whether parameters leave after each channel block."""
        if tile.parameters == "keep" or tile.order == "kernels":
            return False
        blocks = [-(-self.maps[i].shape[0] // tile.kernels) for i in self.weighted]
        # Where halos are kept, a tile may have nothing new for an operation.
        several = min(blocks, default=0) > 1 if tile.halo == "keep" else sum(blocks) > 1
        return several or (bool(blocks) and self.splits(tile))

    def _allowed(self, tile: Tile) -> bool:
        """Whether a tile of the grid is one of its own, and a group can be cut like this."""
        count = -(-self.plane[0] // tile.rows) * -(-self.plane[1] // tile.columns)
        limit = self.graph.problem["limits"]["halo"]
        if count > 1 and (self.whole_only or limit not in ("any", tile.halo)):
            return False
        if tile.parameters == "keep" and not self.weighted:
            return False
        if tile.halo == "keep" and (count == 1 or tile.columns < self.plane[1] or self.splits(tile)):
            return False
        if tile.order == "kernels" and (count == 1 or len(self.stages) > 1):
            return False
        if tile.order == "kernels" and tile.parameters == "keep":
            blocks = -(-self.maps[self.stages[0][0]].shape[0] // tile.kernels)
            there = [self.op(i).parameters(0, self.op(i).summed) for i in self.members]
            all_of = sum(n * self.maps[i].shape[0] for n, i in zip(there, self.members, strict=True))
            two = sum(n * min(self.maps[i].shape[0], tile.kernels) for n, i in
                      zip(there, self.members, strict=True)) * min(2, blocks)  # fmt: skip
            if blocks < 3 and all_of == two:
                return False
        return not (
            tile.parameters == "keep" and count == 1 and not self.passes(tile._replace(parameters="stream"))
        )

    def costs(self, tile: Tile) -> Costs | None:
        """Return what the group costs, None if it does not fit."""
        run = Run(self, tile)
        if run.overlapping_output() and tile.halo != "keep":
            return None
        buffers = run.buffers()
        names = ("input_bytes", "output_bytes", "parameter_bytes")
        if any(size > self.machine[name] for size, name in zip(buffers, names, strict=True)):
            return None
        self.graph.executed(run.blocks())
        run.execute()
        size, price = self.machine["element_bytes"], self.machine["energy"]
        traffic = run.moved * size
        energy = (traffic * price["pj_per_dram_byte"] + run.macs * price["pj_per_mac"]) // 1000
        energy += run.end * price["milliwatts"] // self.machine["clock_mhz"]
        return Costs(run.end, traffic, energy, sum(buffers))


LOOPS = (("tiles", "stream"), ("tiles", "keep"), ("kernels", "stream"), ("kernels", "keep"))


def _rows(length: int, step: int) -> list[int]:
    every = {length}
    for size in (1, 2, 3):
        while size * step < length:
            every.add(size * step)
            size *= 2
    return sorted(every)


def _halves(length: int) -> list[int]:
    return [length] if length == 1 else [length, *_halves(-(-length // 2))]


def _doubled(length: int, step: int) -> list[int]:
    if step == 0:  # every size
        return list(range(1, length + 1))
    sizes = [length]
    while step < length:
        sizes.append(step)
        step *= 2
    return sizes


def _runs(ops: list[Op], members: set[int]) -> list[list[int]]:
    """Return what is loaded; maps that whoever reads one of them reads side by side are loaded as one."""
    outside = list(dict.fromkeys(read for op in ops for read in op.reads if read not in members))

    def beside(left: int, right: int) -> bool:
        for op in ops:
            places = [i for i, read in enumerate(op.reads) if read in (left, right)]
            if places and (
                op.kind == "add" or [op.reads[i] for i in places] != [left, right] * (len(places) // 2)
            ):
                return False
            if any(places[i + 1] != places[i] + 1 for i in range(0, len(places), 2)):
                return False
        return True

    runs: list[list[int]] = []
    for read in outside:
        if runs and beside(runs[-1][-1], read):
            runs[-1].append(read)
        else:
            runs.append([read])
    return runs


class Run:
    """A group executed with a tile."""

    def __init__(self, group: Group, tile: Tile) -> None:
        self.group, self.tile, self.machine = group, tile, group.machine
        self.down, self.across = group.spans(0, tile.rows), group.spans(1, tile.columns)
        self.count = len(self.down[0]) * len(self.across[0])
        self.keeps, self.by_kernels = tile.halo == "keep", tile.order == "kernels"
        self.split = group.splits(tile)
        self.in_parts = {index for index, _ in group.maps[group.loaded].parts} if self.split else set()
        self.overlap = [
            any(b[0] < a[1] for spans in (self.down[i], self.across[i])
                for a, b in pairwise(spans))
            for i in range(len(group.maps))
        ]  # fmt: skip
        self.by_block = [
            self._blockwise(i) and (self.by_kernels or not (self.keeps and self.overlap[i]))
            for i in range(len(group.maps))
        ]
        self.moved = self.macs = self.end = 0

    def _blockwise(self, index: int) -> bool:
        """Whether its readers need a block of its channels at a time."""
        group, one = self.group, self.group.maps[index]
        if index >= group.loaded:
            return all(group.maps[reader].stage == one.stage for reader in one.readers)
        alone = len(one.readers) == 1 and not group.op(one.readers[0]).dense
        return alone and one.shape[1:] == group.op(one.readers[0]).input[1:]

    def _places(self, index: int) -> int:
        one = self.group.maps[index]
        engines = {self.group.op(reader).engine for reader in one.readers}
        single = one.op is not None and not one.saved and engines == {one.op.engine}
        return 1 if single and not self.by_block[index] else 2

    def overlapping_output(self) -> bool:
        """Whether a map that is saved and read as well would be computed twice."""
        return any(one.saved and one.readers and lap
                   for one, lap in zip(self.group.maps, self.overlap, strict=True))  # fmt: skip

    def _blocks(self, stage: int) -> list[Span]:
        channels = self.group.maps[self.group.stages[stage][0]].shape[0]
        step = self.tile.kernels
        return [(low, min(low + step, channels)) for low in range(0, channels, step)]

    def _stage(self, index: int) -> int:
        one = self.group.maps[index]
        return one.stage if one.op else min(self.group.maps[reader].stage for reader in one.readers)

    def blocks(self) -> int:
        """Return how many channel blocks are executed."""
        return self.count * sum(len(self._blocks(stage)) for stage in range(len(self.group.stages)))

    # What it takes ---------------------------------------------------------------------------------

    def buffers(self) -> tuple[int, int, int]:
        """Return the bytes of the three buffers."""
        group, tile = self.group, self.tile
        each = self.machine["arrays"]
        taken = [0, 0]
        split = self.in_parts
        for index, one in enumerate(group.maps):
            if index in split:
                continue
            channels = one.shape[0]
            if self.by_block[index]:
                reader = group.maps[one.readers[0]].shape[0] if index < group.loaded else channels
                channels = min(channels, reader, tile.kernels)
            wide = max(last - first for first, last in self.across[index])
            taken[index >= group.loaded] += each * self._height(index) * wide * channels
        if split:
            planes = [
                max(b - a for a, b in self.down[i]) * max(b - a for a, b in self.across[i]) for i in split
            ]
            taken[0] += each * 2 * max(planes) * tile.channels
        size = self.machine["element_bytes"]
        return taken[0] * size, taken[1] * size, self._parameters() * size

    def _height(self, index: int) -> int:
        """Return the rows of all places of a map together."""
        group, spans = self.group, self.down[index]
        loaded = index < group.loaded
        first = group.maps[index].readers[0] if loaded else index
        blocks = len(self._blocks(group.maps[first].stage))
        stays = blocks if self.by_block[index] or (loaded and self.by_kernels) else 1
        places = self._places(index) if self.count * stays > 1 else 1
        most = max(last - first for first, last in spans)
        if not self.keeps or self.count == 1 or (self.by_block[index] and not self.by_kernels):
            return places * most
        if places == 1:
            return most
        ring = max([most, *(b[1] - min(a[0], b[0]) for a, b in pairwise(spans))])
        if self.by_kernels and blocks > 1:  # the first tile of the next round beside the last of this one
            ring = max(ring, spans[0][1] - spans[0][0] + spans[-1][1] - spans[-1][0])
        return ring

    def _parameters(self) -> int:
        group, tile = self.group, self.tile
        every = {i: group.op(i).parameters(0, group.op(i).summed) for i in group.members}
        if group.passes(tile) or (self.by_kernels and tile.parameters != "keep"):
            block = {i: each * min(group.maps[i].shape[0], tile.kernels) for i, each in every.items()}
            if self.split and not self.by_kernels:
                head = group.loaded
                depth = group.op(head).parameters(0, tile.channels)
                block[head] = depth * min(group.maps[head].shape[0], tile.kernels)
            if group.passes(tile):
                return 2 * max(block.values())
            return (2 if len(self._blocks(0)) > 1 else 1) * sum(block.values())
        return sum(each * group.maps[i].shape[0] for i, each in every.items())

    # Instructions ----------------------------------------------------------------------------------

    def execute(self) -> None:
        """Issue all instructions in their order; each begins when engine, operands and place are there."""
        group, maps = self.group, self.group.maps
        self.free = Counter(
            dict.fromkeys(("LOAD", "SAVE", "CONV", "POOL", "MISC"), self.machine["issue_cycles"])
        )
        self.ready, self.used = [0] * len(maps), [0] * len(maps)
        self.released: list[list[int]] = [[] for _ in maps]
        self.fetched: dict[Any, list[int]] = {}
        self.fetches = 0
        self.dropped: dict[int, int] = {}
        rounds = self.by_kernels and self.tile.parameters != "keep"
        parts = -(-group.op(group.loaded).summed // self.tile.channels) if self.split else 1
        pieces = sum(parts if index == group.loaded else 1 for index in group.weighted)
        self.parameter_places = 2 if group.passes(self.tile) else 2 * pieces if rounds else 0
        if self.by_kernels:
            for block in self._blocks(0):
                for tile in range(self.count):
                    self._begin(tile, 0)
                    self._block(tile, 0, block)
                    self._finish(tile)
                if not group.passes(self.tile):
                    for key in list(self.fetched):
                        self._drop(key)
        else:
            for tile in range(self.count):
                for stage in range(len(group.stages)):
                    self._begin(tile, stage)
                    for block in self._blocks(stage):
                        self._block(tile, stage, block)
                self._finish(tile)
        self.end = max(self.free.values())

    def _issue(self, engine: str, after: int, cycles: int) -> int:
        self.free[engine] = max(self.free[engine], after) + max(1, cycles)
        return self.free[engine]

    def _needed(self, index: int, tile: int) -> tuple[Span, Span]:
        row, column = divmod(tile, len(self.across[0]))
        return self.down[index][row], self.across[index][column]

    def _new(self, index: int, tile: int) -> tuple[Span, Span]:
        """Return what a tile needs of a map and is not there from the tile above."""
        (low, high), columns = self._needed(index, tile)
        if self.keeps and tile:
            low = min(high, max(low, self.down[index][tile - 1][1]))
        return (low, high), columns

    def _cycles(self, rate: str, values: int) -> int:
        scale = self.machine["element_bytes"] * self.machine["clock_mhz"]
        return -(-values * scale // int(self.machine[rate]))

    def _map_cycles(self, rate: str, index: int, plane: tuple[Span, Span], channels: Span) -> int:
        """Return the cycles in which a part of a map is moved, with those of its bursts."""
        moved, first, bursts = self._cycles(rate, self._values(plane, channels)), 0, 0
        if self.machine.get("layouts") is None:
            return moved
        places: dict[object, list[int]] = {}
        for number in self.group.maps[index].numbers:
            end = first + self.group.graph.shape(number)[0]
            low, high = max(first, channels[0]), min(end, channels[1])
            for c, y, x in product(range(low - first, high - first), range(*plane[0]), range(*plane[1])):
                array, at = self.group.graph.address(number, c, y, x)
                places.setdefault(array, []).append(at)
            first = end
        for each in places.values():
            bursts += self._bursts(each)
        return moved + int(self.machine["arrays"] * bursts * self.machine["layouts"]["burst_cycles"])

    def _bursts(self, places: list[int]) -> int:
        """Return the bursts that move values at some places of an array."""
        size, most = self.machine["element_bytes"], self.machine["layouts"]["burst_bytes"]
        bursts, run, before = 0, 0, -2
        for at in [*sorted(places), None]:
            if at is not None and at == before + 1:
                run += 1
            else:
                bursts += -(-run * size // most)
                run = 1
            before = before if at is None else at
        return bursts

    def _fetch_cycles(self, index: int, block: Span, summed: Span, values: int) -> int:
        """Return the cycles in which parameters are fetched; a kernel is a bias, then its positions."""
        moved = self._cycles("load_mb_per_s", values)
        if self.machine.get("layouts") is None:
            return moved
        op = self.group.op(index)
        each = op.bias + op.window * op.summed
        places = []
        for kernel in range(*block):
            if op.bias and summed[0] == 0:
                places.append(kernel * each)
            for position, c in product(range(op.window), range(*summed)):
                places.append(kernel * each + op.bias + position * op.summed + c)
        return moved + int(self._bursts(places) * self.machine["layouts"]["burst_cycles"])

    def _values(self, plane: tuple[Span, Span], channels: Span) -> int:
        (a, b), (c, d) = plane
        return int(self.machine["arrays"] * (b - a) * (d - c) * (channels[1] - channels[0]))

    def _place(self, index: int) -> int:
        """Return when there is a place for the next residency of a map."""
        places, ended = self._places(index), self.released[index]
        return ended[-places] if len(ended) >= places else 0

    def _load(self, index: int, tile: int, channels: Span) -> None:
        values = self._values(self._new(index, tile), channels)
        if values:
            self.moved += values
            self.ready[index] = self._issue(
                "LOAD",
                self._place(index),
                self._map_cycles("load_mb_per_s", index, self._new(index, tile), channels),
            )

    def _leave(self, index: int, tile: int, channels: Span) -> None:
        """Save or free what the next tile does not need."""
        (low, high), columns = self._needed(index, tile)
        if self.keeps and tile + 1 < len(self.down[index]):
            high = min(high, self.down[index][tile + 1][0])
        done = max(self.ready[index], self.used[index])
        values = self._values(((low, max(low, high)), columns), channels)
        if values and self.group.maps[index].saved:
            self.moved += values
            plane = (low, max(low, high)), columns
            done = self._issue("SAVE", done, self._map_cycles("save_mb_per_s", index, plane, channels))
        self.released[index].append(done)

    def _begin(self, tile: int, stage: int) -> None:
        for index in range(self.group.loaded):
            if index not in self.in_parts and not self.by_block[index] and self._stage(index) == stage:
                self._load(index, tile, (0, self.group.maps[index].shape[0]))

    def _finish(self, tile: int) -> None:
        for index, one in enumerate(self.group.maps):
            if not self.by_block[index] and index not in self.in_parts:
                self._leave(index, tile, (0, one.shape[0]))

    def _read(self, index: int, source: int, channels: Span) -> Span:
        """Return the channels of a map that are read for some of the operation's."""
        first = next(first for part, first in self.group.maps[index].parts if part == source)
        low = max(0, channels[0] - first)
        return low, max(low, min(self.group.maps[source].shape[0], channels[1] - first))

    def _sources(self, index: int) -> list[int]:
        return list(dict.fromkeys(part for part, _ in self.group.maps[index].parts))

    def _block(self, tile: int, stage: int, block: Span) -> None:
        group = self.group
        for index in group.stages[stage]:
            if self.split and index == group.loaded:
                deep = group.op(index).summed
                for low in range(0, deep, self.tile.channels):
                    self._compute(index, tile, block, (low, min(low + self.tile.channels, deep)))
                continue
            for source in self._sources(index):
                if source < group.loaded and self.by_block[source]:
                    self._load(source, tile, self._read(index, source, block))
            self._compute(index, tile, block, (0, group.op(index).summed))
        for index in group.stages[stage]:
            if not (self.split and index == group.loaded):
                for source in self._sources(index):
                    if source < group.loaded and self.by_block[source]:
                        self._leave(source, tile, self._read(index, source, block))
            if self.by_block[index]:
                self._leave(index, tile, block)

    def _compute(self, index: int, tile: int, block: Span, summed: Span) -> None:
        (top, bottom), (left, right) = self._new(index, tile)
        rows, columns, kernels = bottom - top, right - left, block[1] - block[0]
        if not rows:
            return
        op, sources = self.group.op(index), self._sources(index)
        parts = self.split and index == self.group.loaded
        if parts:
            for source in sources:
                self._load(source, tile, self._read(index, source, summed))
        key = index, block, summed
        after = max([self._fetch(key), *(self.ready[source] for source in sources)])
        if summed[0] == 0:
            after = max(after, self._place(index))
        values = self.machine["arrays"] * rows * columns * kernels
        if op.engine == "CONV":
            a, b, h = self.machine["conv_array"]
            deep = summed[1] - summed[0]
            cycles = -(-deep // a) * -(-kernels // b) * -(-rows // h) * columns * op.window
            self.macs += values * deep * op.window
        else:
            cycles = -(-values * op.operands // self.machine["operands_per_cycle"])
        done = self.ready[index] = self._issue(op.engine, after, cycles)
        for source in sources:
            self.used[source] = max(self.used[source], done)
        if key in self.fetched:
            self.fetched[key][1] = max(self.fetched[key][1], done)
            if self.group.passes(self.tile):
                self._drop(key)
        if parts:
            for source in sources:
                self._leave(source, tile, self._read(index, source, summed))

    def _fetch(self, key: tuple[int, Span, Span]) -> int:
        """Load parameters that are not on chip."""
        index, block, summed = key
        values = self.group.op(index).parameters(*summed) * (block[1] - block[0])
        if not values:
            return 0
        if key not in self.fetched:
            place = self.fetches % self.parameter_places if self.parameter_places else self.fetches
            self.fetches += 1
            self.moved += values
            done = self._issue(
                "LOAD", self.dropped.get(place, 0), self._fetch_cycles(index, block, summed, values)
            )
            self.fetched[key] = [done, done, place]
        return self.fetched[key][0]

    def _drop(self, key: tuple[int, Span, Span]) -> None:
        _, used, place = self.fetched.pop(key)
        self.dropped[place] = used


class Graph:
    """A problem: operations, groups that templates allow, and choices of them."""

    def __init__(self, problem: Json) -> None:
        self.problem = problem
        self.minimise = problem["objective"]["minimise"]
        names = {"input": -1}
        last = "input"
        self.ops: list[Op] = []
        for table in problem["network"]["layers"]:
            reads = table.get("inputs") or [last]
            last = table["name"]
            names[last] = len(self.ops)
            self.ops.append(Op(len(self.ops), table, tuple(names[name] for name in reads)))
        self.readers = [[op.number for op in self.ops if one.number in op.reads] for one in self.ops]
        outputs = problem["network"].get("outputs")
        for op in self.ops:
            op.leaves = op.name in outputs if outputs else not self.readers[op.number]
        self.groups: dict[object, dict[Tile, Costs]] = {}
        self._blocks = 0
        self.layouts: dict[int, str] = {}  # of maps, that they have now
        self.arrays = [self.array_of(maps) for maps in self.together()]

    # Layouts -----------------------------------------------------------------------------------------

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a map, of the network's input for -1."""
        return self.ops[0].input if number < 0 else self.ops[number].output

    def together(self) -> list[set[int]]:
        """Return maps of the accelerator's operations, those together that are read side by side."""
        own = [op for op in self.ops if op.engine != "HOST"]
        sets = [{op.number} for op in own]
        sets += [{read} for op in own for read in op.reads]
        sets += [{*op.reads} for op in own if op.kind != "add"]
        found: list[set[int]] = []
        for one in sets:
            for other in [each for each in found if each & one]:
                found.remove(other)
                one = one | other
            found.append(one)
        return found

    def array_of(self, maps: set[int]) -> Nodes:
        """Return maps in the order in which one array has them for all readers; none if none has."""
        rows = [op.reads for op in self.ops if op.engine != "HOST" and op.kind != "add"]
        rows = [row for row in rows if len(row) > 1 and maps.issuperset(row)]
        for row in rows:
            inside = all(any(row[i : i + len(r)] == r for i in range(len(row))) for r in rows)
            if -1 not in maps and {*row} == maps and len(row) == len(maps) and inside:
                return row
        return ()

    def able(self, maps: set[int]) -> list[str]:
        """Return the layouts that maps read side by side can have."""
        direct = self.problem["machine"]["layouts"]["direct"]
        beside = len(maps) > 1 and self.array_of(maps) and "NHWC" in direct
        return [*(["concatenated"] if beside else []), *(each for each in ("NHWC", "NCHW") if each in direct)]

    def assignments(self) -> Iterator[dict[int, str]]:
        """Yield all layouts of all maps."""
        if self.problem["machine"].get("layouts") is None:
            yield {}
            return
        sets = self.together()
        for one in product(*map(self.able, sets)):
            yield {number: layout for maps, layout in zip(sets, one, strict=True) for number in maps}

    def address(self, number: int, c: int, y: int, x: int) -> tuple[object, int]:
        """Return in which array a value of a map lies, and where."""
        channels, height, width = self.shape(number)
        if self.layouts[number] == "NCHW":
            return number, (c * height + y) * width + x
        if self.layouts[number] == "NHWC":
            return number, (y * width + x) * channels + c
        array = next(row for row in self.arrays if number in row)
        before = sum(self.shape(other)[0] for other in array[: array.index(number)])
        every = sum(self.shape(other)[0] for other in array)
        return array, (y * width + x) * every + before + c

    def copied(self) -> int:
        """Return what copies of maps add to what is minimised, cycles where that is memory."""
        layouts = self.problem["machine"].get("layouts")
        if layouts is None:
            return 0
        total = 0
        for number, layout in self.layouts.items():
            form = "NCHW" if layout == "NCHW" else "NHWC"
            wanted = layouts["input"] if number < 0 else "any"
            if number >= 0 and self.ops[number].leaves and self.ops[number].engine != "HOST":
                wanted = layouts["output"]
            if wanted in ("any", form):
                continue
            price, machine = layouts["copies"], self.problem["machine"]
            moved = 2 * machine["arrays"] * machine["element_bytes"] * prod(self.shape(number))
            each = Fraction(repr(price["cycles_per_byte"])) * moved
            cycles = price["cycles_per_call"] - (-each.numerator // each.denominator)
            total += {
                "traffic": 0,
                "energy": cycles * machine["energy"]["milliwatts"] // machine["clock_mhz"],
            }.get(self.minimise, cycles)
        return total

    def executed(self, blocks: int) -> None:
        """Count what is executed."""
        self._blocks += blocks
        if self._blocks > MOST_BLOCKS * (1 if self.problem["machine"].get("layouts") is None else 8):
            raise TooLarge

    def orders(self, nodes: Nodes) -> list[Nodes]:
        """Return all orders of a group's operations; of more than 24 those that stay in a branch."""

        def follow(done: Nodes, stays: bool) -> Iterator[Nodes]:
            left = [node for node in nodes if node not in done]
            if not left:
                yield done
            able = {}  # and what of the latest they read
            for node in left:
                reads = [read for read in self.ops[node].reads if read in nodes]
                if all(read in done for read in reads):
                    able[node] = max(map(done.index, reads), default=-1)
            for node, latest in able.items():
                if not stays or latest == max(able.values()):
                    yield from follow((*done, node), stays)

        for stays in (False, True):
            found = list(islice(follow((), stays), 25))
            if len(found) < 25:
                return found
        return [tuple(sorted(nodes))]

    def tiles(self, nodes: Nodes, whole: bool) -> dict[Tile, Costs]:
        """Return what a group costs with each of its tiles, its operations in some order."""
        outside = {read for node in nodes for read in self.ops[node].reads} | {*nodes}
        seen = tuple(sorted((n, layout) for n, layout in self.layouts.items() if n in outside))
        key: object = (nodes, seen) if seen else nodes
        if key not in self.groups:
            self.groups[key] = Group(self, nodes).tiles(whole)
        return self.groups[key]

    def convex(self, nodes: Nodes) -> bool:
        """Whether no way leads from a member through others back to a member."""
        out, seen = [r for node in nodes for r in self.readers[node] if r not in nodes], set()
        while out:
            node = out.pop()
            if node in nodes:
                return False
            if node not in seen:
                seen.add(node)
                out += self.readers[node]
        return True

    def allowed(self) -> dict[Nodes, bool]:
        """Return all groups that can be executed, and whether in one tile only."""
        found = {(op.number,): False for op in self.ops}
        for template in self.problem["templates"]:
            whole = template["whole"] or template["block"]
            for nodes in self._regions(template) if template["block"] else self._matches(template):
                if len(nodes) > 1:
                    found[nodes] = found.get(nodes, True) and whole
        return found

    def _matches(self, template: Json) -> Iterator[Nodes]:
        kinds, edges = template["nodes"], {tuple(edge) for edge in template["edges"]}

        def fits(node: int, kind: str) -> bool:
            if kind == "source":
                return True
            return (
                node >= 0
                and self.ops[node].engine != "HOST"
                and ("any" in kind.split("|") or self.ops[node].kind in kind.split("|"))
            )

        def reads(reader: int, node: int) -> bool:
            return reader >= 0 and node in self.ops[reader].reads

        def extend(chosen: list[int]) -> Iterator[Nodes]:
            place = len(chosen)
            if place == len(kinds):
                members = tuple(sorted(n for n, kind in zip(chosen, kinds, strict=True) if kind != "source"))
                if self.convex(members):
                    yield members
                return
            for node in range(-1, len(self.ops)):
                if node in chosen or not fits(node, kinds[place]):
                    continue
                if all(
                    reads(node, other) == ((at, place) in edges)
                    and reads(other, node) == ((place, at) in edges)
                    for at, other in enumerate(chosen)
                ):
                    yield from extend([*chosen, node])

        return extend([])

    def _regions(self, template: Json) -> Iterator[Nodes]:
        """Find what lies behind one point up to another, such that all ways from the one pass the other."""
        ways: dict[Any, set[Any]] = {-1: set(), "end": set()}
        for op in self.ops:
            ways.setdefault(op.number, set())
            read = frozenset(op.reads)
            if len(read) > 1 and op.kind != "add":  # a concatenation is a point, too
                ways.setdefault(read, set()).add(op.number)
                for one in read:
                    ways[one].add(read)
            else:
                for one in read:
                    ways[one].add(op.number)
            if not self.readers[op.number]:
                ways[op.number].add("end")

        def behind(start: Any, stop: Any) -> set[Any]:
            """Return what can be reached from a point without going on from another."""
            found, ahead = set(), list(ways[start])
            while ahead:
                node = ahead.pop()
                if node not in found:
                    found.add(node)
                    ahead += [] if node == stop else ways[node]
            return found

        for first, last in product(ways, ways):
            if first == last or "end" in (first, last):
                continue
            inside = behind(first, last)
            if "end" in inside or last not in inside:
                continue
            if any(to & inside and one not in inside and one != first for one, to in ways.items()):
                continue
            nodes = tuple(sorted(n for n in inside if isinstance(n, int)))
            if 0 < len(nodes) <= template["most"] and all(self.ops[n].engine != "HOST" for n in nodes):
                yield nodes

    def value(self, costs: Costs) -> int:
        """Return what is minimised of a group."""
        return {"traffic": costs.traffic, "energy": costs.energy}.get(self.minimise, costs.cycles)

    def least(self, most_bytes: int | None = None) -> int | None:
        """Return the least sum of groups and copies, with any layouts, and tiles of so many bytes at most."""
        found = []
        for layouts in self.assignments():
            self.layouts = layouts
            groups = self._least(most_bytes)
            if groups is not None:
                found.append(groups + self.copied())
        return min(found, default=None)

    def _least(self, most_bytes: int | None) -> int | None:
        """Return the least sum of groups with the present layouts."""
        price: dict[Nodes, int] = {}
        for nodes, whole in self.allowed().items():
            if self.ops[nodes[0]].engine == "HOST":
                price[nodes] = 0
                continue
            able = [self.value(costs) for order in self.orders(nodes)
                    for costs in self.tiles(order, whole).values()
                    if most_bytes is None or costs.peak <= most_bytes]  # fmt: skip
            if able:
                price[nodes] = min(able)
        best: dict[frozenset[int], int | None] = {frozenset(range(len(self.ops))): 0}

        def rest(done: frozenset[int]) -> int | None:
            if done not in best:
                sums = []
                for nodes, cost in price.items():
                    ready = all(r < 0 or r in done or r in nodes for n in nodes for r in self.ops[n].reads)
                    if ready and done.isdisjoint(nodes) and (more := rest(done.union(nodes))) is not None:
                        sums.append(cost + more)
                best[done] = min(sums, default=None)
            return best[done]

        return rest(frozenset())

    def most_cycles(self) -> int:
        """Return the cycles that plans of little memory may take."""
        given: int | None = self.problem["objective"]["most_cycles"]
        if given is not None:
            return given
        before, self.layouts = self.layouts, next(self.assignments())  # the paper's
        alone = [self.tiles((op.number,), False).values() for op in self.ops if op.engine != "HOST"]
        copied, self.layouts = self.copied(), before
        if not all(alone):
            return MOST_CYCLES
        return sum(min(costs.cycles for costs in tiles) for tiles in alone) + copied


def best(problem: Json) -> int | None:
    """Return the least cost of all plans, None if there is none."""
    graph = Graph(problem)
    if graph.minimise != "memory":
        return graph.least()
    graph.least()
    for level in sorted({costs.peak for tiles in graph.groups.values() for costs in tiles.values()}):
        cycles = graph.least(level)
        if cycles is not None and cycles <= graph.most_cycles():
            return level
    return None


def cost(problem: Json, plan: Json) -> int:
    """Return the cost of a plan."""
    graph = Graph(problem)
    number = {op.name: op.number for op in graph.ops}
    allowed, done = graph.allowed(), set()
    every = []
    graph.layouts = _layouts(graph, plan)
    for group in plan["groups"]:
        nodes = tuple(number[name] for name in group["nodes"])
        members = tuple(sorted(nodes))
        if members not in allowed or done.intersection(nodes):
            raise Refused(f"group {group['nodes']}")
        if not all(r < 0 or r in done or r in nodes for n in nodes for r in graph.ops[n].reads):
            raise Refused("order")
        if nodes not in graph.orders(members):
            raise Refused("order of operations")
        done |= set(nodes)
        if graph.ops[nodes[0]].engine == "HOST":
            if group["tile"] is not None:
                raise Refused("a tile of the host")
            continue
        tiles = graph.tiles(nodes, allowed[members])
        tile = Tile(**group["tile"])
        if tile not in tiles:
            raise Refused(f"tile {tile}")
        every.append(tiles[tile])
    if len(done) < len(graph.ops):
        raise Refused("operations are missing")
    if graph.minimise != "memory":
        return sum(map(graph.value, every)) + graph.copied()
    if sum(costs.cycles for costs in every) + graph.copied() > graph.most_cycles():
        raise Refused("too many cycles")
    return max(costs.peak for costs in every)


def _layouts(graph: Graph, plan: Json) -> dict[int, str]:
    """Return a plan's layouts, of maps that stay on chip as well: any."""
    layouts = plan.get("layouts", {})
    if graph.problem["machine"].get("layouts") is None:
        if layouts:
            raise Refused("layouts")
        return {}
    number = {"input": -1} | {op.name: op.number for op in graph.ops}
    told = {number[name]: layout for name, layout in layouts.items()}
    needed = set()
    for group in plan["groups"]:
        nodes = {number[name] for name in group["nodes"]}
        if graph.ops[min(nodes)].engine != "HOST":
            needed |= {read for node in nodes for read in graph.ops[node].reads} - nodes
            needed |= {n for n in nodes if graph.ops[n].leaves or not nodes.issuperset(graph.readers[n])}
    if needed != told.keys():
        raise Refused("layouts of maps")
    found = {}
    for maps in graph.together():
        named = {told[each] for each in maps if each in told} or {graph.able(maps)[0]}
        if len(named) > 1 or not named.issubset(graph.able(maps)):
            raise Refused(f"layouts {named}")
        found |= dict.fromkeys(maps, *named)
    return found


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False
