"""The scratchpad DSP: loop nests walked tile by tile, with sets of the elements on chip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import permutations, product
from math import gcd
from typing import Any

from tests.oracles import Refused, TooLarge, inner_loop

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
MOST_TILES = 350_000
"""Tiles of all plans together that are walked through."""


class Layer:
    """Elements of a layer's operands under a tile, and what one of each takes: 1, or its bits."""

    def __init__(self, problem: Json) -> None:
        layer, machine = problem["layer"], problem["machine"]
        self.layer, self.generated = layer, machine["padding"] == "generated"
        self.width = machine.get("bits") or dict.fromkeys(("input", "weights", "output", "partial"), 1)
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
        self.skips = [False, False]
        self.skips = [machine.get("dma_step", False) and self._may_skip(axis) for axis in (0, 1)]
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

    def plane(self, axis: int, span: tuple[int, int], whole: bool = False) -> list[int]:
        """Return the rows (axis 0) or columns of the padded input under some of the output."""
        stride = self.layer["stride"][axis]
        positions = range(span[0] * stride, (span[1] - 1) * stride + self.extent[axis])
        if self.generated and not whole:
            first, last = self.real[axis]
            positions = range(max(first, positions[0]), min(last, positions[-1] + 1))
        return [at for at in positions if not self.skips[axis] or self._is_met(axis, at)]

    def _is_met(self, axis: int, at: int) -> bool:
        """Whether a window of the layer, or of one with a larger plane, has a kernel row at a position."""
        stride, dilation = self.layer["stride"][axis], self.layer["dilation"][axis]
        return any((at - tap * dilation) % stride == 0 for tap in range(self.layer["kernel"][axis]))

    def _may_skip(self, axis: int) -> bool:
        """Whether transfers leave gaps out: not where the window of an output would have nothing to load."""
        windows = [self.plane(axis, (y, y + 1)) for y in range(self.sizes[3 + axis])]
        return all(any(self._is_met(axis, at) for at in window) for window in windows)

    def _elements(self, operand: str, tile: tuple[tuple[int, int], ...], whole: bool) -> frozenset[Any]:
        at = dict(zip(NEEDS[operand], tile, strict=True))
        axes = [self.plane("yx".index(loop), at[loop], whole) if operand == "input" and loop in "yx"
                else range(*at[loop]) for loop in NEEDS[operand]]  # fmt: skip
        if operand == "weights":
            axes += [range(size) for size in self.layer["kernel"]]
        return frozenset(product(*axes))


class Walk:
    """One plan, tile by tile: what each transfer moves, and MACs.

    Attributes
    ----------
    loads, writes, macs
        For each tile: what it loads, and what is written back for it to take the place of; at the end one
        entry more, in which the last output is written back.
    tiles
        Sizes of each tile, and whether its input maps are the first and the last of its outputs.
    partial
        Whether a tile loads a partial sum that the tile just before it has computed.
    """

    def __init__(self, layer: Layer, step: Tile, order: str, reuse: str) -> None:
        self.loads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.macs: list[int] = []
        self.tiles: list[tuple[Tile, bool, bool]] = []
        self.partial = False
        width, names = layer.width, "g" + order
        spans = [layer.spans(loop, step[LOOPS.index(loop)]) for loop in names]
        needs = NEEDS | ({"weights": "g"} if reuse == "weights" else {})  # all of a group
        tiles: dict[str, tuple[tuple[int, int], ...]] = {}
        here: dict[str, frozenset[Any]] = {}
        done: dict[Any, int] = {}
        last: tuple[int, ...] | None = None

        def held() -> int:
            """Return what the output of a tile takes: complete, or as sums."""
            complete = done[tiles["output"]] == layer.sizes[5]
            return len(here["output"]) * width["output" if complete else "partial"]

        for numbers in product(*(range(len(each)) for each in spans)):
            changed = [loop for at, loop in enumerate(names) if last is None or numbers[at] != last[at]]
            moves = {name: [loop for loop in changed if loop in loops] for name, loops in needs.items()}
            span = dict(
                zip(names, (each[number] for each, number in zip(spans, numbers, strict=True)), strict=True)
            )
            before, writes = here.get("input", frozenset()), []
            if last is not None and (moves["output"] or reuse == "none"):
                writes.append(held())
            for name, loops in needs.items():
                if moves[name] or last is None:
                    tiles[name] = tuple(span[loop] for loop in loops)
                    if loops != NEEDS[name]:
                        tiles[name] += (0, layer.sizes[2]), (0, layer.sizes[5])
                    here[name] = layer.elements(name, tiles[name], False)
            loads = []
            for name in ("input", "weights"):
                if moves[name] or last is None or reuse == "none":
                    needed = here[name]
                    if name == "input" and reuse in ("halo", "weights") and last is not None:
                        at = names.index(moves[name][0])
                        if moves[name] in (["y"], ["x"]) and numbers[at] == last[at] + 1:
                            needed = needed - before
                    loads.append(len(needed) * width[name])
            if (moves["output"] or last is None or reuse == "none") and tiles["output"] in done:
                loads.append(len(here["output"]) * width["partial"])
                self.partial |= not moves["output"]
            maps = span["k"][1] - span["k"][0]
            begins = tiles["output"] not in done
            done[tiles["output"]] = done.get(tiles["output"], 0) + maps
            self.loads.append([count for count in loads if count])
            self.writes.append(writes)
            self.macs.append(len(here["output"]) * maps * layer.window)
            sizes = tuple(span[loop][1] - span[loop][0] for loop in LOOPS)
            self.tiles.append((sizes, begins, done[tiles["output"]] == layer.sizes[5]))
            last = numbers
        self.loads.append([])
        self.writes.append([held()])

    @property
    def accesses(self) -> int:
        """What is loaded and written."""
        return sum(map(sum, self.loads)) + sum(map(sum, self.writes))


def buffers(layer: Layer, step: Tile, reuse: str) -> int:
    """Return what the largest tiles of all operands take together; outputs as sums where maps are left."""
    most = 0
    for operand, loops in NEEDS.items():
        sizes = layer.sizes if (operand, reuse) == ("weights", "weights") else step
        tile = tuple((0, (step if loop == "g" else sizes)[LOOPS.index(loop)]) for loop in loops)
        kind = "partial" if operand == "output" and step[5] < layer.sizes[5] else operand
        most += len(layer.elements(operand, tile, True)) * layer.width[kind]
    return most


def unit_bits(machine: Json) -> int:
    """Return the bits of what accesses and memories are counted in: an element, or a bit."""
    return 1 if machine.get("bits") else 8 * int(machine["element_bytes"])


@cache
def _of_loop(unit: str, layer: str, sizes: Tile, first: bool, last: bool, loop: str) -> tuple[int, int]:
    """Return cycles of a tile and the elements that it loads and stores, its inner loop executed."""
    machine, whole = json.loads(unit), json.loads(layer)
    work = {"sizes": sizes[1:], "groups": sizes[0]} | {
        name: whole[name] for name in ("kernel", "stride", "dilation")
    }
    run = inner_loop.Run(machine, work, json.loads(loop))
    begin, biases, finish, results = run.ends()
    moved = run.loads + run.stores + first * biases + last * results
    return run.cycles + first * begin + last * finish, moved * machine["lanes"]


def of_loop(problem: Json, tile: tuple[Tile, bool, bool], loop: Json) -> tuple[int, int]:
    """Return cycles and local traffic of a tile with an inner loop; `inner_loop.Unfit` if it cannot run."""
    return _of_loop(
        json.dumps(problem["machine"]["vector_unit"]), json.dumps(problem["layer"]), *tile, json.dumps(loop)
    )


def inner_loops(problem: Json, step: Tile) -> Iterator[Json | None]:
    """Enumerate the inner loops of a tile; one that is none on a machine without a vector unit."""
    unit = problem["machine"].get("vector_unit")
    if unit is None:
        yield None
        return
    work = {"sizes": step[1:], "groups": step[0], "kernel": problem["layer"]["kernel"]}
    yield from inner_loop.loops(unit, work)


def measures(
    problem: Json, layer: Layer, walk: Walk, local: int, loop: Json | None = None
) -> tuple[int, int, int]:
    """Return cycles, accesses and energy of a plan."""
    machine = problem["machine"]
    unit, setup = unit_bits(machine), machine["dma_setup_cycles"]
    bus = machine["bus_elements_per_cycle"] * 8 * machine["element_bytes"] // unit
    whole, grain = sum(walk.macs), gcd(*layer.width.values())

    def carried(sizes: list[int]) -> int:
        return sum(-(-size // bus) for size in sizes)

    cycles = carried(walk.loads[0]) + setup * len(walk.loads[0])
    busy, streamed = setup * len(walk.loads[0]), 0
    for tile, macs in enumerate(walk.macs):
        # Beside tile i: what tile i - 1 has left is written, what tile i + 1 lacks is loaded.
        moved = walk.writes[tile] + walk.loads[tile + 1]
        compute = -(-macs // machine["macs_per_cycle"])
        registers = grain * -(-macs * local // (whole * grain))
        if loop is not None:
            compute, registers = of_loop(problem, walk.tiles[tile], loop)
        streamed += registers
        if machine["double_buffering"]:
            cycles += max(compute + setup * len(moved), carried(moved) + carried([registers]))
        else:
            cycles += max(compute, carried([registers])) + setup * len(moved) + carried(moved)
        busy += compute + setup * len(moved)
    cycles += carried(walk.writes[-1]) + setup
    busy += setup
    price = machine["energy"]
    energy = price["core_fj_per_cycle"] * busy
    energy += -(-walk.accesses * unit * price["dram_fj_per_access"] // (8 * price["dram_access_bytes"]))
    energy += -(-streamed * unit * price["local_fj_per_access"] // (8 * price["local_access_bytes"]))
    return cycles, walk.accesses, energy


def registers(problem: Json, layer: Layer) -> int:
    """Return the local traffic: the least of the thesis's schedules with the register file as memory."""
    machine = problem["machine"]
    if not machine["register_file_bytes"] or machine.get("vector_unit"):
        return 0
    counts = [Walk(layer, step, *schedule).accesses
              for step in product(*layer.all_steps())
              if buffers(layer, step, "tile") * unit_bits(machine) <= 8 * machine["register_file_bytes"]
              for schedule in THESIS.values()]  # fmt: skip
    return min(counts)


def fits(problem: Json, layer: Layer, step: Tile, reuse: str = "tile") -> bool:
    """Whether all buffers of a plan fit into the memory."""
    machine = problem["machine"]
    copies = 2 if machine["double_buffering"] else 1
    return bool(buffers(layer, step, reuse) * copies * unit_bits(machine) <= 8 * machine["memory_bytes"])


def schedules(limit: str) -> list[tuple[str, str]]:
    """Return the orders and kinds of reuse that a limit allows."""
    if limit in ("any", "any+weights"):
        reuses = ("none", "tile", "halo", "weights")[: 3 if limit == "any" else 4]
        return [("".join(order), reuse) for order in permutations("ncyxk") for reuse in reuses]
    if limit == "halide-idsp":
        return [THESIS["intra"]]
    return list(THESIS.values()) if limit == "thesis" else [THESIS[limit]]


def plans(problem: Json, layer: Layer) -> Iterator[tuple[Tile, str, str]]:
    """Enumerate all plans that fit; of orders that differ in loops of one iteration only, one."""
    limit = problem["limits"]["schedule"]
    allowed = schedules(limit)
    kinds = ("tile", "weights") if limit == "any+weights" else ("tile",)  # others take as much as "tile"
    for step in product(*layer.all_steps()):
        if limit == "halide-idsp" and step[5] < layer.sizes[5]:
            continue
        many = {loop for loop, size, one in zip(LOOPS, layer.sizes, step, strict=True) if one < size}
        seen, room = set(), {kind: fits(problem, layer, step, kind) for kind in kinds}
        for order, reuse in allowed:
            key = tuple(loop for loop in order if loop in many), reuse
            if key not in seen and room[reuse if reuse == "weights" else "tile"]:
                seen.add(key)
                yield step, order, reuse


def _tiles(layer: Layer, step: Tile) -> int:
    tiles = 1
    for size, one in zip(layer.sizes, step, strict=True):
        tiles *= -(-size // one)
    return tiles


def _points(problem: Json) -> Iterator[tuple[int, int, int]]:
    layer = Layer(problem)
    every = list(plans(problem, layer))
    if sum(_tiles(layer, step) for step, _, _ in every) > MOST_TILES:
        raise TooLarge
    local = registers(problem, layer)
    for step, order, reuse in every:
        walk = Walk(layer, step, order, reuse)
        if walk.partial and problem["machine"]["double_buffering"]:
            continue
        for loop in inner_loops(problem, step):
            try:
                yield measures(problem, layer, walk, local, loop)
            except inner_loop.Unfit:
                continue


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
    layer, limit = Layer(problem), problem["limits"]["schedule"]
    schedule = plan["schedule"], plan["reuse"]
    step = layer.step(tuple(plan["tile"][loop] for loop in LOOPS))
    if schedule not in schedules(limit) or (limit == "halide-idsp" and step[5] < layer.sizes[5]):
        raise Refused(f"schedule {schedule}")
    if not fits(problem, layer, step, plan["reuse"]):
        raise Refused("memory")
    walk = Walk(layer, step, *schedule)
    if walk.partial and problem["machine"]["double_buffering"]:
        raise Refused("partial sums")
    try:
        return measures(problem, layer, walk, registers(problem, layer), plan.get("inner_loop"))
    except inner_loop.Unfit:
        raise Refused("inner loop") from None
