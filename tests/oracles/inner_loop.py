"""The inner loop of a tile, executed: every iteration's vectors by name, every instruction in its cycle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import prod
from typing import Any

Json = dict[str, Any]

NAMES = "ncyxk"


class Unfit(Exception):
    """Sums and fresh operands need more registers than there are, or the body has too many instructions."""


class Run:
    """One inner loop on one tile.

    Attributes
    ----------
    cycles, loads, stores
        Of the whole loop nest, without what comes before and after all sums.
    spills
        Loads among them of vectors that were there an iteration ago.
    done
        How often each MAC of the tile was computed; of padded lanes and iterations nothing is counted.
    """

    def __init__(self, unit: Json, work: Json, loop: Json) -> None:
        self.unit, self.work, self.loop = unit, work, loop
        self.cycles = self.loads = self.stores = self.spills = self.macs = 0
        self.done: dict[tuple[int, ...], int] = {}
        blocks = {}
        for name, size in zip(NAMES, work["sizes"], strict=True):
            step = unit["lanes"] if name == loop["vector"] else 1
            lines = [range(first, first + step) for first in range(0, size, step)]
            width = min(loop["unroll"][name], len(lines))
            blocks[name] = [list(range(first, first + width)) for first in range(0, len(lines), width)]
        rows, columns = work["kernel"]
        every = list(product(range(rows), range(columns)))
        taps = {
            "kernel": [every],
            "row": [[tap for tap in every if tap[0] == row] for row in range(rows)],
            "tap": [[tap] for tap in every],
        }[loop["taps"]]
        others = [name for name in NAMES if name != loop["pipelined"]]
        for _, some, *numbers in product(range(work["groups"]), taps, *(blocks[name] for name in others)):
            outer = dict(zip(others, numbers, strict=True))
            self._enter([outer | {loop["pipelined"]: block} for block in blocks[loop["pipelined"]]], some)

    def _lines(self, axis: int, block: int, tap: int) -> int:
        return block * self.work["stride"][axis] + tap * self.work["dilation"][axis]

    def _inputs(self, at: dict[str, list[int]], taps: list[tuple[int, int]]) -> tuple[set[Any], int]:
        """Return the vectors of inputs that an iteration reads, by name, and its shuffles."""
        vector, lanes = self.loop["vector"], self.unit["lanes"]
        if vector == "c":
            return set(), 0
        found, shuffles = set(), set()
        for image, maps, y, x, (row, column) in product(at["n"], at["k"], at["y"], at["x"], taps):
            names: list[Any] = [image, maps, self._lines(0, y, row), self._lines(1, x, column)]
            if vector not in "yx":
                found.add(tuple(names))
                continue
            axis, block = "yx".index(vector), (y, x)["yx".index(vector)]
            size = min(lanes, self.work["sizes"][2 + axis])
            of_axis = [tap[axis] for tap in taps]
            span = self._lines(axis, size - 1, max(of_axis)) - self._lines(axis, 0, min(of_axis)) + 1
            pieces = -(-span // lanes) + 1  # one more, since it begins anywhere
            names[2 + axis] = ("block", block)
            found |= {(*names, piece) for piece in range(pieces)}
            # What two vectors have of a tap's elements takes a shuffle, each further vector one more.
            shuffles |= {(*names, (row, column)[axis], piece) for piece in range(1, pieces)}
        return found, len(shuffles)

    def _weights(self, at: dict[str, list[int]], taps: list[tuple[int, int]]) -> set[Any]:
        if self.loop["vector"] not in "ck":
            return set()
        return {("w", *names) for names in product(at["c"], at["k"], taps)}

    def _enter(self, iterations: list[dict[str, list[int]]], taps: list[tuple[int, int]]) -> None:
        """Run the pipelined loop once; what stays is what one iteration more would find."""
        unit, carried = self.unit, self.loop["pipelined"] == "k"
        kept = carried and unit["sums"] == "kept"
        needs = []
        if len(taps) * prod(len(block) for block in iterations[0].values()) > unit["unrolled_macs"]:
            raise Unfit
        for at in iterations:
            inputs, shuffles = self._inputs(at, taps)
            needs.append((inputs | self._weights(at, taps), shuffles))
            self._multiply(at, taps)
        at = iterations[0]
        name = self.loop["pipelined"]
        more = at | {name: [block + len(at[name]) for block in at[name]]}
        steady = self._steady(
            [*needs, (self._inputs(more, taps)[0] | self._weights(more, taps), 0)][: max(2, len(needs))]
        )
        sums = len(list(product(at["n"], at["c"], at["y"], at["x"])))
        chain = len(at["k"]) * len(taps)
        self.macs += sums * chain * len(iterations)
        (first, shuffles), width = needs[0], len(steady)
        fresh = len(first) - width
        use = {
            "mac": sums * chain,
            "load": fresh + (0 if kept else sums),
            "store": 0 if kept else sums,
            "shuffle": shuffles,
        }
        latency, again = self._schedule(sums, chain, shuffles > 0, kept)
        again = again if carried else 0
        period = self._interval(use, again)
        copies = 1 if carried else sum(1 for begun in range(0, latency, period))
        live = len(first) + sums * copies
        spilled = max(0, live - unit["registers"])
        if spilled > width:
            raise Unfit
        period = self._interval(use | {"load": use["load"] + spilled}, again)
        # Before the loop comes what stays in it; then iteration i begins at i periods.
        before = width + (sums if kept else 0)
        clock = self._issue(before)
        ends = [clock + number * period + max(latency, period) for number in range(len(iterations))]
        self.cycles += ends[-1] + (self._issue(sums) + unit["store_latency"] if kept else 0)
        length = clock + 2 * max(latency, period) - period
        if unit["instruction_cache"] is not None and length > unit["instruction_cache"]:
            self.cycles += length * unit["refill_cycles"]
        self.loads += before + (0 if kept else sums * len(iterations)) + fresh
        for _ in needs[1:]:
            self.loads += fresh + spilled
            self.spills += spilled
        self.stores += sums if kept else sums * len(iterations)

    @staticmethod
    def _steady(needs: list[tuple[set[Any], int]]) -> set[Any]:
        """Return the vectors that an iteration finds, as the one before had them."""
        found = {len(before & after) for (before, _), (after, _) in pairwise(needs)}
        assert len(found) == 1
        return needs[1][0] & needs[0][0]

    def _multiply(self, at: dict[str, list[int]], taps: list[tuple[int, int]]) -> None:
        lanes, sizes = self.unit["lanes"], self.work["sizes"]
        ranges = []
        for name, size in zip(NAMES, sizes, strict=True):
            if name == self.loop["vector"]:
                every = [lane for block in at[name] for lane in range(block * lanes, (block + 1) * lanes)]
            else:
                every = at[name]
            ranges.append([element for element in every if element < size])
        for one in product(*ranges, taps):
            self.done[one] = self.done.get(one, 0) + 1

    def _issue(self, transfers: int) -> int:
        """Return the cycles in which loads or stores are issued, as many at a time as there are slots."""
        return len(range(0, transfers, self.unit["memory_slots"]))

    def _schedule(self, sums: int, chain: int, shuffles: bool, kept: bool) -> tuple[int, int]:
        """Return the cycle in which an iteration's last result is there, and how long one sum is under way.

        All sums take turns, in their order; no turn begins in the cycle in which the one before ends.
        """
        unit = self.unit
        start = unit["load_latency"] + (unit["shuffle_latency"] if shuffles else 0)
        ready, clock = [start] * sums, start
        for _ in range(chain):
            clock = max(clock, ready[0])
            busy = 0
            for number in range(sums):
                if busy == unit["mac_slots"] or ready[number] > clock:
                    clock, busy = max(clock + 1, ready[number]), 0
                ready[number] = clock + unit["mac_latency"]
                busy += 1
            clock += 1
        under_way = 0 if kept else unit["load_latency"]
        for _ in range(chain):
            under_way += unit["mac_latency"]
        after = 0 if kept else unit["store_latency"]
        return max(ready) + after, under_way + after

    def _interval(self, use: Json, again: int) -> int:
        """Return the least number of cycles in which all of an iteration's instructions have a slot."""
        unit = self.unit
        read = use["mac"] * (3 if self.loop["vector"] == "k" else 2) + use["store"] + 2 * use["shuffle"]
        written = use["mac"] + use["load"] + use["shuffle"]
        cycles = 1
        while not (
            use["mac"] <= cycles * unit["mac_slots"]
            and use["load"] + use["store"] <= cycles * unit["memory_slots"]
            and use["shuffle"] <= cycles * unit["shuffle_slots"]
            and read <= cycles * unit["read_ports"]
            and written <= cycles * unit["write_ports"]
            and again <= cycles
        ):
            cycles += 1
        return cycles

    def ends(self) -> tuple[int, int, int, int]:
        """Return cycles and transfers that begin all outputs with a bias, and those that finish them."""
        unit, vector = self.unit, self.loop["vector"]
        wide = [
            len(range(0, size, unit["lanes"] if name == vector else 1))
            for name, size in zip(NAMES, self.work["sizes"], strict=True)
        ]
        outputs = biases = 0
        for _ in range(self.work["groups"]):
            biases += wide[1] if vector == "c" else 0
            outputs += sum(1 for _ in product(*map(range, wide[:4])))
        halvings, lanes = 0, unit["lanes"] if vector == "k" else 1
        while lanes > 1:
            halvings, lanes = halvings + 1, (lanes + 1) // 2
        adds = (halvings + 1) * outputs
        busiest = max(
            self._issue(2 * outputs),
            len(range(0, adds, unit["mac_slots"])),
            len(range(0, halvings * outputs, unit["shuffle_slots"])),
        )
        way = unit["load_latency"] + unit["store_latency"]
        way_out = way + unit["mac_latency"]
        for _ in range(halvings):
            way_out += unit["shuffle_latency"] + unit["mac_latency"]
        return self._issue(biases + outputs) + way, biases + outputs, busiest + way_out, 2 * outputs


def loops(unit: Json, work: Json) -> Iterator[Json]:
    """Enumerate all loops of a tile, with the smallest unrolling for each number of iterations."""
    for vector, pipelined, taps in product(NAMES, NAMES, ("kernel", "row", "tap")):
        choices = []
        for name, size in zip(NAMES, work["sizes"], strict=True):
            extent = len(range(0, size, unit["lanes"] if name == vector else 1))
            least: dict[int, int] = {}
            for step in range(extent, 0, -1):
                least[len(range(0, extent, step))] = step
            choices.append(sorted(least.values()))
        for unroll in product(*choices):
            yield {
                "vector": vector,
                "pipelined": pipelined,
                "taps": taps,
                "unroll": dict(zip(NAMES, unroll, strict=True)),
            }


def best(unit: Json, work: Json, first: bool = True, last: bool = True) -> tuple[int, int] | None:
    """Return the fewest cycles of a tile, and the fewest vector transfers with these; None if none fits."""
    found = None
    for loop in loops(unit, work):
        try:
            run = Run(unit, work, loop)
        except Unfit:
            continue
        begin, bias, finish, results = run.ends()
        cost = (
            run.cycles + first * begin + last * finish,
            run.loads + run.stores + first * bias + last * results,
        )
        found = cost if found is None else min(found, cost)
    return found
