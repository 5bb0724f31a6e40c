"""Recurrent layers on a DSP, an NPU and a hierarchy (docs/operations.md): tiles as sets of elements.

Nothing of the package is imported; a problem is a layer's table, the machine's, and what is minimised.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from tests.oracles import Refused

Json = dict[str, Any]
Element = tuple[Any, ...]
"""The tensor, then places in it: those of a run are next to each other in the last one."""

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _up(value: int, by: int) -> int:
    return -(-value // by)


def _cut(size: int, step: int) -> list[range]:
    return [range(first, min(first + step, size)) for first in range(0, size, step)]


class Tile(NamedTuple):
    """What is loaded for a tile, what it reads and makes, its MACs, and what is written after it."""

    loads: list[set[Element]]
    reads: set[Element]
    makes: set[Element]
    macs: int
    writes: set[Element]


class Layer:
    """A recurrent layer, and the machine that does it."""

    def __init__(self, problem: Json) -> None:
        layer, self.machine = problem["layer"], problem["machine"]
        told = layer["recurrence"]
        self.op, self.images = layer["op"], problem["batch"]
        self.steps, self.hidden, self.directions = told["steps"], told["hidden"], told["directions"]
        a, b, c = layer["input"]
        self.features = a * b * c // self.steps
        # Values of a point in time lie side by side where the first of three sizes alone is that of time.
        self.in_time = a == self.steps and c != self.steps
        a, b, c = layer["output"]
        self.every = a * b * c == self.directions * self.hidden * self.steps
        gates = GATES[self.op]
        self.passes = [2, 1] if self.op == "gru" and not told["reset_after"] else [gates]
        numbers = layer["parameters"] // (self.directions * self.hidden)
        width = self.features + self.hidden
        first = self.passes[0] * width + (numbers - gates * width) * self.passes[0] // gates
        self.numbers = [first, numbers - first]

    # Plans -------------------------------------------------------------------------------------------------

    def plans(self) -> Iterator[Json]:
        """Enumerate all plans, whether or not they fit."""
        for hidden in {_up(self.hidden, n) for n in range(1, self.hidden + 1)}:
            tiles = len(_cut(self.hidden, hidden))
            for stay in [*range(max(0, tiles - 1)), tiles]:
                for steps, images in product(self._halves(self.steps), self._halves(self.images)):
                    resident = min(self.hidden, stay * hidden)
                    yield {"hidden": hidden, "steps": steps, "images": images, "resident": resident}

    @staticmethod
    def _halves(size: int) -> set[int]:
        found, number = {1}, 1
        while number < 2 * size:
            found.add(_up(size, number))
            number *= 2
        return found

    def walk(self, plan: Json) -> Iterator[Tile]:
        """Go through all tiles."""
        for direction in range(self.directions):
            turn = (lambda each: list(each)[::-1]) if direction else list
            resident: set[Element] = set()
            chip_input = getattr(self, "_left", set()) if direction else set()
            for images in turn(_cut(self.images, plan["images"])):
                waiting: list[int] = []
                chunks = turn(_cut(self.steps, plan["steps"]))
                order = [(chunk, time) for chunk in chunks for time in turn(chunk)]
                for place, (chunk, time) in enumerate(order):
                    needed = {
                        ("x", n, *self._place(t, f))
                        for n, t, f in product(images, chunk, range(self.features))
                    }
                    arrives = needed - chip_input
                    chip_input = needed
                    before = order[place - 1][1] if place else None
                    waiting.append(time)
                    ends = place + 1 == len(order)
                    gone = waiting if ends else waiting[:-1] if order[place + 1][0] is not chunk else []
                    written = [time] * ends if not self.every else gone
                    tiles = list(self._tiles(direction, images, time, before, plan, resident))
                    for number, (loads, reads, makes, macs) in enumerate(tiles):
                        last = number + 1 == len(tiles)
                        writes = {
                            ("y", n, direction, u, t)
                            for n, u, t in product(images, range(self.hidden), written * last)
                        }
                        yield Tile([arrives if not number else set(), *loads], reads, makes, macs, writes)
                    waiting = waiting[len(gone) :]
            self._left = chip_input

    def _place(self, time: int, feature: int) -> tuple[int, int]:
        """Return the place of a value of the input, which is that of its address."""
        return (0, time * self.features + feature) if self.in_time else (0, feature * self.steps + time)

    def _tiles(
        self, direction: int, images: range, time: int, before: int | None, plan: Json, resident: set[Element]
    ) -> Iterator[tuple[list[set[Element]], set[Element], set[Element], int]]:
        states = "y" if self.every else "h"
        for each, gates in enumerate(self.passes):
            for values in _cut(self.hidden, plan["hidden"]):
                weights = {(f"w{each}", direction, v, i) for v in values for i in range(self.numbers[each])}
                loads = weights - resident
                if values[0] < plan["resident"]:
                    resident |= weights
                reads = weights | {
                    ("x", n, *self._place(time, f)) for n in images for f in range(self.features)
                }
                if before is not None:
                    needed = values if each else range(self.hidden)
                    reads |= {(states, n, direction, v, before) for n in images for v in needed}
                    if self.op == "lstm":
                        reads |= {("c", n, direction, v, before) for n in images for v in values}
                here = {(n, direction, v, time) for n in images for v in values}
                if each:
                    reads |= {("r", n, direction, v, time) for n in images for v in range(self.hidden)}
                    reads |= {("z", *one) for one in here}
                names = ["r", "z"] if len(self.passes) == 2 and not each else [states]
                names += ["c"] * (self.op == "lstm")
                makes = {(name, *one) for name in names for one in here}
                both: list[set[Element]] = [set(), set()]
                both[each] = loads
                macs = len(here) * gates * (self.features + self.hidden)
                yield both, reads, makes, macs

    # Memory ------------------------------------------------------------------------------------------------

    def buffers(self, plan: Json) -> dict[str, int]:
        """Return the most elements of each tensor that are on chip together."""
        walk = list(self.walk(plan))
        written = {one: number for number, tile in enumerate(walk) for one in tile.writes}
        on, most = set[Element](), dict[str, int]()
        per_moment = sum(len(_cut(self.hidden, plan["hidden"])) for _ in self.passes)
        made: dict[Element, int] = {}
        for number, tile in enumerate(walk):
            moment = number // per_moment
            makes = {("y" if one[0] == "h" and self._last(one) else one[0], *one[1:]) for one in tile.makes}
            here = {one[1:3] for one in makes}
            direction = next(one[1] for one in tile.reads if one[0][0] == "w")
            stays = set()
            for one in on:
                name = one[0]
                if name[0] == "w":  # those of other tiles leave when the next one comes
                    stay = one[2] < plan["resident"] and one[1] == direction
                elif name == "x":
                    stay = not tile.loads[0]
                elif name == "y":
                    stay = written[one] >= number
                else:  # a whole state until the next one is complete, gates of its own point in time
                    stay = one[1:3] in here and moment - made[one] <= (name in "ch")
                if stay:
                    stays.add(one)
            made |= dict.fromkeys(makes, moment)
            on = stays | set().union(*tile.loads) | makes
            for name in {one[0] for one in on}:
                most[name] = max(most.get(name, 0), sum(one[0] == name for one in on))
        return most

    def _last(self, one: Element) -> bool:
        """Whether a state is that of the last point in time."""
        return bool(one[4] == (0 if one[2] else self.steps - 1))

    def fits(self, plan: Json) -> bool:
        """Whether the memory holds all buffers of a plan, on a hierarchy always."""
        buffers, machine = self.buffers(plan), self.machine
        total = sum(buffers.values())
        if machine["kind"] == "hierarchy":
            return bool(total <= machine["levels"][1]["capacity_bytes"])
        size = machine["element_bytes"]
        if machine["kind"] == "dsp":
            return bool((1 + machine["double_buffering"]) * total * size <= machine["memory_bytes"])
        cores = machine["tles"] * machine["tlts"]
        room = [cores * (machine[f"{name}_bytes"] // size) for name in ("input", "output")]
        return total - buffers["y"] <= room[0] and buffers["y"] <= room[1]

    # Costs -------------------------------------------------------------------------------------------------

    def costs(self, plan: Json) -> dict[str, int]:
        """Return what a plan costs, by what is minimised."""
        walk = list(self.walk(plan))
        moved = sum(sum(map(len, tile.loads)) + len(tile.writes) for tile in walk)
        kind = {"dsp": self._dsp, "npu": self._npu, "hierarchy": lambda _walk, _moved: {}}
        return {"accesses": moved} | kind[self.machine["kind"]](walk, moved)

    def _dsp(self, walk: list[Tile], moved: int) -> dict[str, int]:
        machine = self.machine
        bus, setup = machine["bus_elements_per_cycle"], machine["dma_setup_cycles"]
        loads = [[len(part) for part in tile.loads if part] for tile in walk] + [[]]
        writes = [[]] + [[len(tile.writes)] * bool(tile.writes) for tile in walk]
        compute = [_up(tile.macs, machine["vector_ops_per_cycle"]) for tile in walk]
        registers = machine["register_file_bytes"] > 0
        streams = [registers * (len(tile.reads) + len(tile.makes)) for tile in walk]

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

    def _npu(self, walk: list[Tile], _moved: int) -> dict[str, int]:
        machine, total = self.machine, 0
        for tile in walk:
            total += _up(tile.macs, machine["vector_ops_per_cycle"]) * machine["cycle_ps"]
            for part in [*tile.loads, tile.writes]:
                for run in self._runs(part):
                    size = run * machine["element_bytes"]
                    total += (
                        size * machine["byte_ps"] + _up(size, machine["burst_bytes"]) * machine["burst_ps"]
                    )
        return {"time": total}

    def _runs(self, part: set[Element]) -> list[int]:
        """Return the lengths of what lies side by side, of each image by itself; weights do all."""
        addresses: dict[Any, list[int]] = {}
        for name, *place in part:
            if name[0] == "w":
                addresses.setdefault(name, []).append(place[1] * self.numbers[int(name[1])] + place[2])
            elif name == "x":
                addresses.setdefault(place[0], []).append(place[2])
            else:
                image, _, value, time = place
                at = value * self.steps + time if self.every else value
                addresses.setdefault(image, []).append(at)
        runs = []
        for each in addresses.values():
            before = None
            for at in sorted(each):
                if before is None or at != before + 1:
                    runs.append(0)
                runs[-1] += 1
                before = at
        return runs


def best(problem: Json) -> int | None:
    """Return the least cost of all plans; None where not even the smallest tile fits."""
    layer = Layer(problem)
    costs = (layer.costs(plan)[problem["minimise"]] for plan in layer.plans() if layer.fits(plan))
    return min(costs, default=None)


def cost(problem: Json, plan: Json) -> int:
    """Return the cost of a plan."""
    layer = Layer(problem)
    if plan not in list(layer.plans()) or not layer.fits(plan):
        raise Refused(f"plan {plan}")
    return layer.costs(plan)[problem["minimise"]]


def states(problem: Json, given: Json) -> list[list[list[list[int]]]]:
    """Return what a layer computes without sigmoids and tangents: of direction, image, point in time, value.

    Parameters
    ----------
    given
        `input` by image, time and feature; for each pass the numbers by direction and value.
    """
    layer = Layer(problem)
    found = []
    for direction in range(layer.directions):
        by_image = []
        for image in given["input"]:
            order = range(layer.steps)[::-1] if direction else range(layer.steps)
            state, cell, states = [0] * layer.hidden, [0] * layer.hidden, {}
            for time in order:
                weights = [part[direction] for part in given["passes"]]
                state, cell = _after(layer, weights, image[time], state, cell)
                states[time] = state
            by_image.append([states[time] for time in (range(layer.steps) if layer.every else order[-1:])])
        found.append(by_image)
    return found


def _after(
    layer: Layer, weights: Any, x: list[int], h: list[int], c: list[int]
) -> tuple[list[int], list[int]]:
    many, wide = layer.features, layer.features + layer.hidden

    def gate(each: int, number: int, v: int, state: list[int] | None) -> int:
        row = weights[each][v]
        own = row[number * wide : (number + 1) * wide]
        total = sum(a * b for a, b in zip(own[:many], x, strict=True))
        total += sum(a * b for a, b in zip(own[many:], state or [], strict=False))
        return total + (sum(row[layer.passes[each] * wide :]) if number == 0 else 0)

    values = range(layer.hidden)
    if layer.op == "rnn":
        return [gate(0, 0, v, h) for v in values], c
    if layer.op == "lstm":
        i, o, f, g = ([gate(0, number, v, h) for v in values] for number in range(4))
        c = [f[v] * c[v] + i[v] * g[v] for v in values]
        return [o[v] * c[v] for v in values], c
    z, r = ([gate(0, number, v, h) for v in values] for number in range(2))
    if len(layer.passes) == 2:
        scaled = [r[v] * h[v] for v in values]
        n = [gate(1, 0, v, scaled) for v in values]
    else:
        only_x = [gate(0, 2, v, None) for v in values]
        n = [only_x[v] + r[v] * (gate(0, 2, v, h) - only_x[v]) for v in values]
    return [(1 - z[v]) * n[v] + z[v] * h[v] for v in values], c
