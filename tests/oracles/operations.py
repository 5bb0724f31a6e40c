"""Operations between layers on a DSP and an NPU (docs/operations.md): tiles as sets of elements.

Nothing of the package is imported; a problem is a layer's table, the machine's, and what is minimised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge, operation_loop
from tests.oracles.inner_loop import Unfit

Json = dict[str, Any]
Tile = tuple[int, int, int]
Element = tuple[int, int, int, int]
"""Image, map, row and column."""

KINDS = ("pool", "add")
"""And normalisations, where the machine has a vector unit."""

MOST_TILES = 20_000
"""Tiles of all plans together that are walked through."""

MORE = 256
"""How many more tiles than needed a pool over a plane may have."""


def _up(value: int, by: int) -> int:
    return -(-value // by)


class Moved(NamedTuple):
    """What a tile loads of each input, works on and gives: sets of elements, and vector operations."""

    loads: list[frozenset[Element]]
    held: list[frozenset[Element]]
    given: frozenset[Element]
    work: int


class Operation:
    """A pool or a sum, and the machine that does it."""

    def __init__(self, problem: Json) -> None:
        self.layer, self.machine = problem["layer"], problem["machine"]
        layer = self.layer
        self.is_pool = layer["kind"] == "pool"
        self.images = problem["batch"]
        self.operands = len(layer["inputs"]) if layer["kind"] == "add" else 1
        self.unit = self.machine.get("vector_unit")
        self.loops: dict[Any, tuple[int, int]] = {}
        self.kernel = layer["kernel"] if self.is_pool else [1, 1]
        self.stride = layer["stride"] if self.is_pool else [1, 1]
        self.padding = layer["padding"] if self.is_pool else [0, 0, 0, 0]
        self.maps, *self.plane = layer["input"]
        self.outputs = [
            (self.plane[i] + sum(self.padding[2 * i : 2 * i + 2]) - self.kernel[i]) // self.stride[i] + 1
            for i in (0, 1)
        ]
        self.over_plane = self.is_pool and self.outputs == [1, 1] and self._under((0, 0)) == self._whole()
        self.per_value = self.kernel[0] * self.kernel[1] if self.is_pool else self.operands - 1
        if layer["kind"] == "function":  # along some axes
            self.per_value = max(
                1, _up(layer["macs"], self.images * self.maps * self.plane[0] * self.plane[1])
            )

    def _whole(self) -> frozenset[tuple[int, int]]:
        return frozenset(product(range(self.plane[0]), range(self.plane[1])))

    def _under(self, output: tuple[int, int]) -> frozenset[tuple[int, int]]:
        """Return the places of a map under the window of an output."""
        places = [
            [
                place
                for place in range(self.plane[i])
                if 0 <= place - self._first(i, output[i]) < self.kernel[i]
            ]
            for i in (0, 1)
        ]
        return frozenset(product(*places))

    def _first(self, axis: int, output: int) -> int:
        return int(output * self.stride[axis] - self.padding[2 * axis])

    @property
    def sizes(self) -> Tile:
        """Maps, rows and columns of the output; of a pool over planes all values are columns of one row."""
        if self.over_plane:
            return 1, 1, self.images * self.maps
        return self.maps, self.outputs[0], self.outputs[1]

    def walk(self, tile: Tile) -> Iterator[Moved]:
        """Go through all tiles, rows innermost."""
        if self.over_plane:
            values = list(product(range(self.images), range(self.maps)))
            for first in range(0, len(values), tile[2]):
                some = values[first : first + tile[2]]
                held = frozenset((*one, *place) for one in some for place in self._whole())
                given = frozenset((*one, 0, 0) for one in some)
                yield Moved([held], [held], given, len(given) * self.per_value)
            return
        cuts = [
            [range(first, min(first + step, size)) for first in range(0, size, step)]
            for size, step in zip(self.sizes, tile, strict=True)
        ]
        before: tuple[Any, frozenset[Element]] | None = None
        for image, maps, columns, rows in product(range(self.images), cuts[0], cuts[2], cuts[1]):
            # A tile reads the box of rows and columns that its windows lie in.
            box = [self._box(0, rows), self._box(1, columns)]
            held = frozenset(product([image], maps, *box))
            here = image, maps, columns
            loads = held - before[1] if before is not None and before[0] == here else held
            before = here, held
            given = frozenset(product([image], maps, rows, columns))
            work = len(given) * self.per_value
            yield Moved([loads] * self.operands, [held] * self.operands, given, work)

    def _box(self, axis: int, outputs: range) -> range:
        first, last = self._first(axis, outputs[0]), self._first(axis, outputs[-1]) + self.kernel[axis]
        return range(max(0, first), max(0, first, min(last, self.plane[axis])))

    # Validity ----------------------------------------------------------------------------------------------

    def fits(self, tile: Tile) -> bool:
        """Whether all buffers of a plan fit, each as large as its largest tile."""
        walk = list(self.walk(tile))
        given = max(len(one.given) for one in walk)
        held = sum(max(len(one.held[i]) for one in walk) for i in range(self.operands))
        machine = self.machine
        size = machine["element_bytes"]
        if machine["kind"] == "dsp":
            copies = 2 if machine["double_buffering"] else 1
            return bool(copies * (held + given) * size <= machine["memory_bytes"])
        cores = machine["tles"] * machine["tlts"]
        room = [cores * (machine[f"{name}_bytes"] // size) for name in ("input", "output")]
        return held <= room[0] and given <= room[1]

    def plans(self) -> list[Tile]:
        """Return all plans: even tiles that fit, with whole rows where a row of one map fits."""
        even = [sorted({_up(n, _up(n, step)) for step in range(1, n + 1)}) for n in self.sizes]
        every = list(product(*even))
        if sum(self.tiles(tile) for tile in every) > MOST_TILES:
            raise TooLarge
        if self.layer["kind"] == "map":  # a normalisation, which looks at all maps
            every = [tile for tile in every if tile[0] == self.maps]
        for axis, name in enumerate(("channels", "rows", "columns")):
            if name in (self.layer.get("along") or ()):
                every = [tile for tile in every if tile[axis] == self.sizes[axis]]
        fitting = [tile for tile in every if self.fits(tile)]
        if self.over_plane:
            fewest = min(map(self.tiles, fitting), default=0)
            return [tile for tile in fitting if self.tiles(tile) <= fewest + MORE]
        width = self.sizes[2]
        rows = [tile for tile in fitting if tile[2] == width]
        return rows or fitting

    def tiles(self, tile: Tile) -> int:
        """Return the number of tiles."""
        count = 1 if self.over_plane else self.images
        for size, step in zip(self.sizes, tile, strict=True):
            count *= _up(size, step)
        return int(count)

    # Costs -------------------------------------------------------------------------------------------------

    def costs(self, tile: Tile, loop: Json | None = None) -> dict[str, int]:
        """Return what a plan costs, by what is minimised."""
        walk = list(self.walk(tile))
        moved = sum(sum(map(len, one.loads)) + len(one.given) for one in walk)
        return {"accesses": moved} | (
            self._dsp(walk, moved, loop) if self.machine["kind"] == "dsp" else self._npu(walk)
        )

    def inner_loops(self, tile: Tile) -> list[Json | None]:
        """Return all inner loops of a plan's tiles; None where the machine has none."""
        if self.unit is None:
            return [None]
        sizes = {self._sizes(one.given) for one in self.walk(tile)}
        largest = max(c for c, _, _ in sizes), max(y for _, y, _ in sizes), max(x for _, _, x in sizes)
        return list(operation_loop.loops(self.unit, self._told(), largest))

    def _told(self) -> Json:
        layer = self.layer
        op = f"{layer['op']}_pool" if self.is_pool else layer["op"] if layer["kind"] == "map" else "add"
        told = {"op": op, "kernel": self.kernel, "stride": self.stride, "inputs": self.operands, "numbers": 0}
        told["kernel"] = self.plane if self.over_plane else self.kernel
        size = {"size": layer["response"]["size"]} if op == "lrn" else {}
        return told | size | {"element_bytes": self.machine["element_bytes"]}

    def _sizes(self, given: frozenset[Element]) -> Tile:
        if self.over_plane:
            return len(given), 1, 1
        c, y, x = (len({one[axis] for one in given}) for axis in (1, 2, 3))
        return c, y, x

    def _looped(self, one: Moved, loop: Json) -> tuple[int, int]:
        """Return the cycles of a tile, and the elements that it loads and stores."""
        key = self._sizes(one.given), repr(loop)
        if key not in self.loops:
            assert self.unit is not None
            run = operation_loop.Run(self.unit, self._told(), key[0], loop)
            self.loops[key] = run.cycles, run.transfers * self.unit["lanes"]
        return self.loops[key]

    def _dsp(self, walk: list[Moved], moved: int, loop: Json | None) -> dict[str, int]:
        machine = self.machine
        bus, setup = machine["bus_elements_per_cycle"], machine["dma_setup_cycles"]
        loads = [[len(part) for part in one.loads if part] for one in walk] + [[]]
        writes = [[]] + [[len(one.given)] for one in walk]
        if loop is None:
            compute = [_up(one.work, machine["vector_ops_per_cycle"]) for one in walk]
            streams = [0] * len(walk)
        else:
            compute, streams = map(list, zip(*(self._looped(one, loop) for one in walk), strict=True))

        def carried(sizes: list[int]) -> int:
            return sum(_up(size, bus) for size in sizes)

        cycles = carried(loads[0]) + setup * len(loads[0])
        for i, own in enumerate(compute):
            beside = writes[i] + loads[i + 1]
            if machine["double_buffering"]:
                cycles += max(own + setup * len(beside), carried(beside) + _up(streams[i], bus))
            else:
                cycles += max(own, _up(streams[i], bus)) + setup * len(beside) + carried(beside)
        cycles += carried(writes[-1]) + setup
        busy = sum(compute) + setup * sum(map(len, loads + writes))
        price, size = machine["energy"], machine["element_bytes"]
        energy = price["core_fj_per_cycle"] * busy
        energy += _up(moved * size * price["dram_fj_per_access"], price["dram_access_bytes"])
        energy += _up(sum(streams) * size * price["local_fj_per_access"], price["local_access_bytes"])
        return {"cycles": cycles, "energy": energy}

    def _npu(self, walk: list[Moved]) -> dict[str, int]:
        machine, total = self.machine, 0
        planes = self.plane, [1, 1] if self.over_plane else self.outputs
        for one in walk:
            total += _up(one.work, machine["vector_ops_per_cycle"]) * machine["cycle_ps"]
            for part, plane in [*((part, planes[0]) for part in one.loads), (one.given, planes[1])]:
                for run in self._runs(part, plane):
                    size = run * machine["element_bytes"]
                    total += (
                        size * machine["byte_ps"] + _up(size, machine["burst_bytes"]) * machine["burst_ps"]
                    )
        return {"time": total}

    def _runs(self, part: frozenset[Element], plane: list[int]) -> list[int]:
        """Return the lengths of runs that are moved at a time: rows of a map, joined where they are whole."""
        if self.over_plane:
            return [len(part)]
        by_map: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for image, number, row, column in part:
            by_map.setdefault((image, number), []).append((row, column))
        runs = []
        for places in by_map.values():
            rows = {row for row, _ in places}
            width = len(places) // len(rows)
            runs += [len(places)] if width == plane[1] else [width] * len(rows)
        return runs


def best(problem: Json) -> int | None:
    """Return the least cost of all plans; None where not even the smallest tile fits."""
    operation = Operation(problem)
    found: list[int] = []
    for tile in operation.plans():
        for loop in operation.inner_loops(tile):
            with suppress(Unfit):
                found.append(operation.costs(tile, loop)[problem["minimise"]])
    return min(found, default=None)


def cost(problem: Json, plan: Json) -> int:
    """Return the cost of a plan."""
    operation = Operation(problem)
    tile = tuple(plan["operation"][name] for name in ("maps", "rows", "columns"))
    if tile not in operation.plans():
        raise Refused(f"tile {tile}")
    try:
        return operation.costs(tile, plan.get("inner_loop"))[problem["minimise"]]  # type: ignore[arg-type]
    except Unfit as error:
        raise Refused(f"tile {tile}") from error
