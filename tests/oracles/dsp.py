"""The scratchpad DSP: loop nests walked tile by tile, with sets of the elements on chip."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations, product
from typing import Any

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Tile = tuple[int, ...]
Point = tuple[int, int]

LOOPS = "gncyxk"
NEEDS = {"input": "gnyxk", "weights": "gck", "output": "gncyx"}
THESIS = {
    "intra": ("kncyx", "none"),
    "kc": ("ncyxk", "tile"),
    "oc": ("nyxkc", "tile"),
    "oxyn": ("cknyx", "tile"),
    "oxyn/ox": ("cknyx", "halo"),
}
MOST_TILES = 150_000
"""Tiles of all plans together that are walked through."""


class Layer:
    """Elements of a layer's operands under a tile."""

    def __init__(self, layer: Json, generated: bool) -> None:
        self.layer, self.generated = layer, generated
        (channels, height, width), padding = layer["input"], layer["padding"]
        self.extent = [(k - 1) * d + 1 for k, d in zip(layer["kernel"], layer["dilation"], strict=True)]
        padded = height + padding[0] + padding[1], width + padding[2] + padding[3]
        self.real = [(padding[0], padding[0] + height), (padding[2], padding[2] + width)]
        plane = [(padded[i] - self.extent[i]) // layer["stride"][i] + 1 for i in (0, 1)]
        groups = layer["groups"]
        self.sizes = (
            groups, layer["batch"], layer["kernels"] // groups, plane[0], plane[1], channels // groups
        )  # fmt: skip
        self.window = layer["kernel"][0] * layer["kernel"][1]
        self.elements = lru_cache(maxsize=None)(self._elements)

    def step(self, tile: Tile) -> Tile:
        """Return the smallest extents that need no more iterations than those of a tile."""
        steps = []
        for size, limit in zip(self.sizes, tile, strict=True):
            trips = len(range(0, size, limit))
            steps.append(next(s for s in range(1, size + 1) if len(range(0, size, s)) == trips))
        return tuple(steps)

    def all_steps(self) -> list[list[int]]:
        """Return the even steps of each loop: one for each number of iterations."""
        return [
            sorted({self.step(tuple(s if d == e else 1 for e in range(6)))[d] for s in range(1, size + 1)})
            for d, size in enumerate(self.sizes)
        ]

    def spans(self, loop: str, step: int) -> list[tuple[int, int]]:
        """Return first and last plus one of each tile along a loop."""
        size = self.sizes[LOOPS.index(loop)]
        return [(first, min(first + step, size)) for first in range(0, size, step)]

    def plane(self, axis: int, span: tuple[int, int], whole: bool = False) -> range:
        """Return the rows (axis 0) or columns of the padded input under some of the output."""
        stride = self.layer["stride"][axis]
        positions = range(span[0] * stride, (span[1] - 1) * stride + self.extent[axis])
        if self.generated and not whole:
            first, last = self.real[axis]
            return range(max(first, positions[0]), min(last, positions[-1] + 1))
        return positions

    def _elements(self, operand: str, tile: tuple[tuple[int, int], ...], whole: bool) -> frozenset[Any]:
        at = dict(zip(NEEDS[operand], tile, strict=True))
        axes = [self.plane("yx".index(loop), at[loop], whole) if operand == "input" and loop in "yx"
                else range(*at[loop]) for loop in NEEDS[operand]]  # fmt: skip
        if operand == "weights":
            axes += [range(size) for size in self.layer["kernel"]]
        return frozenset(product(*axes))


class Walk:
    """One plan, tile by tile: elements of each transfer, and MACs.

    Attributes
    ----------
    loads, writes, macs
        For each tile: what it loads, and what is written back for it to take the place of; at the end one
        entry more, in which the last output is written back.
    partial
        Whether a tile loads a partial sum that the tile just before it has computed.
    """

    def __init__(self, layer: Layer, step: Tile, order: str, reuse: str) -> None:
        self.loads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.macs: list[int] = []
        self.partial = False
        spans = {loop: layer.spans(loop, size) for loop, size in zip(LOOPS, step, strict=True)}
        begun: set[Any] = set()
        before: dict[str, Any] | None = None
        for numbers in product(*(range(len(spans[loop])) for loop in "g" + order)):
            number = dict(zip("g" + order, numbers, strict=True))
            now = {name: tuple(spans[loop][number[loop]] for loop in loops) for name, loops in NEEDS.items()}
            here = {name: layer.elements(name, tile, False) for name, tile in now.items()}
            loads, writes = [], []
            for name in ("input", "weights"):
                needed = here[name]
                if before is not None and reuse != "none":
                    if before["tiles"][name] == now[name]:
                        needed = frozenset()
                    elif name == "input" and reuse == "halo" and _next(before["number"], number):
                        needed = needed - before["here"][name]
                loads.append(len(needed))
            if before is None or reuse == "none" or before["tiles"]["output"] != now["output"]:
                if before is not None:
                    writes.append(len(before["here"]["output"]))
                if now["output"] in begun:
                    loads.append(len(here["output"]))
                    self.partial |= before is not None and before["tiles"]["output"] == now["output"]
            begun.add(now["output"])
            self.loads.append([count for count in loads if count])
            self.writes.append(writes)
            maps = spans["k"][number["k"]]
            self.macs.append(len(here["output"]) * (maps[1] - maps[0]) * layer.window)
            before = {"tiles": now, "here": here, "number": number}
        assert before is not None
        self.loads.append([])
        self.writes.append([len(before["here"]["output"])])

    @property
    def accesses(self) -> int:
        """Elements loaded and written."""
        return sum(map(sum, self.loads)) + sum(map(sum, self.writes))


def _next(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether an input tile follows another along y or x."""
    changed = [loop for loop in NEEDS["input"] if before[loop] != now[loop]]
    return changed in (["y"], ["x"]) and now[changed[0]] == before[changed[0]] + 1


def buffers(layer: Layer, step: Tile) -> int:
    """Return the elements of the largest tiles of all operands together."""
    most = 0
    for operand, loops in NEEDS.items():
        tile = tuple((0, step[LOOPS.index(loop)]) for loop in loops)
        most += len(layer.elements(operand, tile, True))
    return most


def measures(problem: Json, layer: Layer, walk: Walk, local: int) -> tuple[int, int, int]:
    """Return cycles, accesses and energy of a plan."""
    machine = problem["machine"]
    bus, setup = machine["bus_elements_per_cycle"], machine["dma_setup_cycles"]
    whole = sum(walk.macs)

    def carried(sizes: list[int]) -> int:
        return sum(-(-size // bus) for size in sizes)

    cycles = carried(walk.loads[0]) + setup * len(walk.loads[0])
    busy, streamed = setup * len(walk.loads[0]), 0
    for tile, macs in enumerate(walk.macs):
        # Beside tile i: what tile i - 1 has left is written, what tile i + 1 lacks is loaded.
        moved = walk.writes[tile] + walk.loads[tile + 1]
        compute, registers = -(-macs // machine["macs_per_cycle"]), -(-macs * local // whole)
        streamed += registers
        if machine["double_buffering"]:
            cycles += max(compute + setup * len(moved), carried(moved) + carried([registers]))
        else:
            cycles += max(compute, carried([registers])) + setup * len(moved) + carried(moved)
        busy += compute + setup * len(moved)
    cycles += carried(walk.writes[-1]) + setup
    busy += setup
    price, size = machine["energy"], machine["element_bytes"]
    energy = price["core_fj_per_cycle"] * busy
    energy += -(-walk.accesses * size * price["dram_fj_per_access"] // price["dram_access_bytes"])
    energy += -(-streamed * size * price["local_fj_per_access"] // price["local_access_bytes"])
    return cycles, walk.accesses, energy


def registers(problem: Json, layer: Layer) -> int:
    """Return the local traffic: the least of the thesis's schedules with the register file as memory."""
    machine = problem["machine"]
    if not machine["register_file_bytes"]:
        return 0
    counts = [Walk(layer, step, *schedule).accesses
              for step in product(*layer.all_steps())
              if buffers(layer, step) * machine["element_bytes"] <= machine["register_file_bytes"]
              for schedule in THESIS.values()]  # fmt: skip
    return min(counts)


def fits(problem: Json, layer: Layer, step: Tile) -> bool:
    """Whether all buffers of a plan fit into the memory."""
    machine = problem["machine"]
    copies = 2 if machine["double_buffering"] else 1
    return bool(buffers(layer, step) * copies * machine["element_bytes"] <= machine["memory_bytes"])


def plans(problem: Json, layer: Layer) -> Iterator[tuple[Tile, str, str]]:
    """Enumerate all plans that fit; of orders that differ in loops of one iteration only, one."""
    limit = problem["limits"]["schedule"]
    allowed = [
        ("".join(order), reuse) for order in permutations("ncyxk") for reuse in ("none", "tile", "halo")
    ]
    if limit != "any":
        allowed = list(THESIS.values()) if limit == "thesis" else [THESIS[limit]]
    for step in product(*layer.all_steps()):
        if not fits(problem, layer, step):
            continue
        many = {loop for loop, size, one in zip(LOOPS, layer.sizes, step, strict=True) if one < size}
        seen = set()
        for order, reuse in allowed:
            key = tuple(loop for loop in order if loop in many), reuse
            if key not in seen:
                seen.add(key)
                yield step, order, reuse


def _tiles(layer: Layer, step: Tile) -> int:
    tiles = 1
    for size, one in zip(layer.sizes, step, strict=True):
        tiles *= -(-size // one)
    return tiles


def _layer(problem: Json) -> Layer:
    return Layer(problem["layer"], problem["machine"]["padding"] == "generated")


def _points(problem: Json) -> Iterator[tuple[int, int, int]]:
    layer = _layer(problem)
    every = list(plans(problem, layer))
    if sum(_tiles(layer, step) for step, _, _ in every) > MOST_TILES:
        raise TooLarge
    local = registers(problem, layer)
    for step, order, reuse in every:
        walk = Walk(layer, step, order, reuse)
        if not (walk.partial and problem["machine"]["double_buffering"]):
            yield measures(problem, layer, walk, local)


def best(problem: Json) -> Any:
    """Return the least cost, or the front of cycles and accesses; None without a plan."""
    points = set(_points(problem))
    if not points:
        return None
    minimise = problem["objective"]["minimise"] or "accesses"
    if minimise != "pareto":
        return min(point[("cycles", "accesses", "energy").index(minimise)] for point in points)
    pairs = sorted({point[:2] for point in points})
    return [p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)]


def cost(problem: Json, plan: Json) -> Any:
    """Return the cost of a plan, or the points of a front."""
    if "front" in plan:
        return [_measured(problem, one)[:2] for one in plan["front"]]
    minimise = problem["objective"]["minimise"] or "accesses"
    return _measured(problem, plan)[("cycles", "accesses", "energy").index(minimise)]


def _measured(problem: Json, plan: Json) -> tuple[int, int, int]:
    layer, limit = _layer(problem), problem["limits"]["schedule"]
    schedule = plan["schedule"], plan["reuse"]
    allowed = list(THESIS.values()) if limit == "thesis" else [THESIS.get(limit)]
    if limit != "any" and schedule not in allowed:
        raise Refused(f"schedule {schedule}")
    step = layer.step(tuple(plan["tile"][loop] for loop in LOOPS))
    if not fits(problem, layer, step):
        raise Refused("memory")
    walk = Walk(layer, step, *schedule)
    if walk.partial and problem["machine"]["double_buffering"]:
        raise Refused("partial sums")
    return measures(problem, layer, walk, registers(problem, layer))
