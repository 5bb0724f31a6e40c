"""The inner loop of an operation between layers, executed (docs/dsp-compute.md): every vector by its name.

Nothing of the package is imported. An operation is told as ``op``, ``kernel``, ``stride``, ``size`` (of a
local response normalisation), ``inputs`` of full size, ``numbers`` of each map and ``element_bytes``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

from tests.oracles.inner_loop import Unfit

Json = dict[str, Any]

NAMES = "cyx"
SINGLE = {
    "relu": 1, "bias": 1, "scale": 1, "batch_norm": 1, "clip": 2, "leaky_relu": 2, "prelu": 2,
    "hard_sigmoid": 3, "hard_swish": 4, "sigmoid": 1, "tanh": 1,
}  # fmt: skip


def steps(op: Json, taps: int, whole: bool, lanes: int) -> list[str]:
    """Return what is done for an output, one instruction after the other; "look" is a shuffle of a table."""
    table = ["look"] * max(1, len(range(0, 32, lanes)) - 1)
    name = op["op"]
    if name in ("max_pool", "average_pool"):
        if not whole:
            return ["do"] * taps
        return ["do"] * (taps - 1) + ["do"] * (name == "average_pool")
    if name == "lrn":
        twice = ["do"] * len(range(0, 4, op["element_bytes"]))
        return ["do"] * op["size"] + twice + table + twice
    if name in ("add", "mul"):
        return ["do"] * (op["inputs"] - 1 + op["numbers"])
    return ["do"] * SINGLE[name] + (table if name in ("sigmoid", "tanh") else [])


class Run:
    """One inner loop on one tile.

    Attributes
    ----------
    cycles, transfers, stores
        Of all of it; of the vector transfers how many are stores.
    done
        How often each position under the window of each output was read; of padded ones nothing is counted.
    """

    def __init__(self, unit: Json, op: Json, sizes: tuple[int, ...], loop: Json) -> None:
        self.unit, self.op, self.sizes, self.loop = unit, op, sizes, loop
        self.cycles = self.transfers = self.stores = 0
        self.done: dict[tuple[int, ...], int] = {}
        blocks = {}
        for name, size in zip(NAMES, sizes, strict=True):
            lines = list(range(len(range(0, size, unit["lanes"] if name == loop["vector"] else 1))))
            width = min(loop["unroll"][name], len(lines))
            blocks[name] = [list(range(first, first + width)) for first in range(0, len(lines), width)]
        rows, columns = op["kernel"]
        every = list(product(range(rows), range(columns)))
        parts = {
            "kernel": [every],
            "row": [[tap for tap in every if tap[0] == row] for row in range(rows)],
            "tap": [[tap] for tap in every],
        }[loop["taps"]]
        self.whole = len(parts) == 1
        inner = loop["pipelined"]
        others = [name for name in NAMES if name != inner]
        for some, *numbers in product(parts, *(blocks[name] for name in others)):
            outer = dict(zip(others, numbers, strict=True))
            self._enter([outer | {inner: block} for block in blocks[inner]], some)
        if not self.whole:
            self._begin_and_end()

    def _places(self, axis: int, taps: list[tuple[int, int]]) -> tuple[list[int], int]:
        """Return the positions of the window along maps, rows or columns, and the stride."""
        if axis == 0:
            return list(range(self.op.get("size") or 1)), 1
        return sorted({tap[axis - 1] for tap in taps}), self.op["stride"][axis - 1]

    def _vectors(self, at: dict[str, list[int]], taps: list[tuple[int, int]]) -> tuple[set[Any], int]:
        """Return the vectors that an iteration reads, by name, and its shuffles."""
        lanes, vector = self.unit["lanes"], self.loop["vector"]
        lines: list[set[Any]] = []
        shuffled: list[set[Any]] = []
        any_shuffle = False
        for axis, name in enumerate(NAMES):
            places, stride = self._places(axis, taps)
            wide = 1 if axis == 0 else self.op["kernel"][axis - 1]
            is_window = len(places) > 1 or stride > 1 or wide > 1
            if name == vector and is_window:
                filled = min(lanes, self.sizes[axis])
                under = {lane * stride + place - places[0] for lane in range(filled) for place in places}
                pieces = len(range(0, max(under) + 1, lanes)) + 1  # one more, since they begin anywhere
                lines.append({(block, piece) for block in at[name] for piece in range(pieces)})
                shuffled.append(set(product(at[name], places, range(1, pieces))))
                any_shuffle = True
            else:
                own = (
                    set(at[name])
                    if name == vector
                    else {block * stride + place for block in at[name] for place in places}
                )
                lines.append(own)
                shuffled.append(own)
        found = {("in", number, *one) for number in range(self.op["inputs"]) for one in product(*lines)}
        if vector == "c":
            found |= {("number", k, c) for k in range(self.op["numbers"]) for c in at["c"]}
        if self.op["op"] in ("lrn", "sigmoid", "tanh"):
            found |= {("table", k) for k in range(0, 32, lanes)}
        many = self.op["inputs"] * len(set(product(*shuffled))) if any_shuffle else 0
        return found, many

    def _enter(self, iterations: list[dict[str, list[int]]], taps: list[tuple[int, int]]) -> None:
        """Run the pipelined loop once; what stays is what one iteration more would find."""
        unit, name = self.unit, self.loop["pipelined"]
        at = iterations[0]
        more = at | {name: [block + len(at[name]) for block in at[name]]}
        needs = [self._vectors(each, taps) for each in [*iterations, more]]
        for each in iterations:
            self._read(each, taps)
        stays = {len(before & after) for (before, _), (after, _) in pairwise(needs[:2])}
        (width,) = stays
        first, shuffles = needs[0]
        results = len(list(product(*(at[each] for each in NAMES))))
        does = steps(self.op, len(taps), self.whole, unit["lanes"])
        fresh, again = len(first) - width, 0 if self.whole else results
        use = {
            "do": results * does.count("do"),
            "shuffle": shuffles + results * does.count("look"),
            "load": fresh + again,
            "store": results,
        }
        if max(use["do"], results) > unit["unrolled_macs"]:
            raise Unfit
        latency = self._latency(does, results, shuffles > 0)
        period = self._interval(use)
        if len(first) + results > unit["registers"]:
            raise Unfit
        while len(first) + results * len(range(0, latency, period)) > unit["registers"]:
            period += 1
        clock = self._issue(width)
        ends = [clock + number * period + max(latency, period) for number in range(len(iterations))]
        self.cycles += ends[-1]
        length = clock + 2 * max(latency, period) - period
        if unit["instruction_cache"] is not None and length > unit["instruction_cache"]:
            self.cycles += length * unit["refill_cycles"]
        self.transfers += width + len(iterations) * (use["load"] + use["store"])
        self.stores += len(iterations) * use["store"]

    def _latency(self, does: list[str], results: int, shuffles: bool) -> int:
        """Return when the last result is stored: all results take turns, and a table waits for all."""
        unit = self.unit
        start = unit["load_latency"] + (unit["shuffle_latency"] if shuffles else 0)
        ready, clock, kind = [start] * results, start, ""
        for what in does:
            slots = unit["mac_slots" if what == "do" else "shuffle_slots"]
            latency = unit["mac_latency" if what == "do" else "shuffle_latency"]
            clock = max(ready) if kind not in ("", what) else max(clock, ready[0])
            busy, kind = 0, what
            for number in range(results):
                if busy == slots or ready[number] > clock:
                    clock, busy = max(clock + 1, ready[number]), 0
                ready[number] = clock + latency
                busy += 1
            clock += 1
        return int(max(ready)) + int(unit["store_latency"])

    def _interval(self, use: Json) -> int:
        """Return the least number of cycles in which all of an iteration's instructions have a slot."""
        unit, own = self.unit, use["do"] + use["shuffle"]
        cycles = 1
        while not (
            use["do"] <= cycles * unit["mac_slots"]
            and use["load"] + use["store"] <= cycles * unit["memory_slots"]
            and use["shuffle"] <= cycles * unit["shuffle_slots"]
            and 2 * own + use["store"] <= cycles * unit["read_ports"]
            and own + use["load"] <= cycles * unit["write_ports"]
        ):
            cycles += 1
        return cycles

    def _read(self, at: dict[str, list[int]], taps: list[tuple[int, int]]) -> None:
        lanes = self.unit["lanes"]
        ranges = []
        for name, size in zip(NAMES, self.sizes, strict=True):
            wide = lanes if name == self.loop["vector"] else 1
            every = [element for block in at[name] for element in range(block * wide, (block + 1) * wide)]
            ranges.append([element for element in every if element < size])
        for one in product(*ranges, taps):
            self.done[one] = self.done.get(one, 0) + 1

    def _issue(self, transfers: int) -> int:
        return len(range(0, transfers, self.unit["memory_slots"]))

    def _begin_and_end(self) -> None:
        """Store a first value of each result; load, scale and store an average at last."""
        unit = self.unit
        wide = [unit["lanes"] if name == self.loop["vector"] else 1 for name in NAMES]
        outputs = len(list(product(*(range(0, n, w) for n, w in zip(self.sizes, wide, strict=True)))))
        self.transfers += outputs
        self.stores += outputs
        self.cycles += self._issue(outputs) + unit["store_latency"]
        if self.op["op"] == "average_pool":
            self.transfers += 2 * outputs
            self.stores += outputs
            self.cycles += max(self._issue(2 * outputs), len(range(0, outputs, unit["mac_slots"])))
            self.cycles += unit["load_latency"] + unit["mac_latency"] + unit["store_latency"]


def loops(unit: Json, op: Json, sizes: tuple[int, ...]) -> Iterator[Json]:
    """Enumerate all loops of a tile, with the smallest unrolling for each number of iterations."""
    for vector, pipelined, taps in product(NAMES, NAMES, ("kernel", "row", "tap")):
        choices = []
        for name, size in zip(NAMES, sizes, strict=True):
            extent = len(range(0, size, unit["lanes"] if name == vector else 1))
            least: dict[int, int] = {}
            for step in range(extent, 0, -1):
                least[len(range(0, extent, step))] = step
            choices.append(sorted(least.values()))
        for c, y, x in product(*choices):
            unroll = {"n": 1, "c": c, "y": y, "x": x, "k": 1}
            yield {"vector": vector, "pipelined": pipelined, "taps": taps, "unroll": unroll}
