"""The multicore NPU: the tiles of all cores step by step, each transfer with its bursts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Span = tuple[int, int]

PARTITIONS, SCHEDULES = ("KS", "KS&OFM", "OFM"), ("IS", "OS", "WS")
MOST_TILES = 60_000
"""Tiles of all cores of all plans together that are walked through."""


def _up(value: int, by: int) -> int:
    return -(-value // by)


def _cut(span: Span, width: int) -> list[Span]:
    return [(first, min(first + width, span[1])) for first in range(span[0], span[1], width)]


class Moved(NamedTuple):
    """What transfers take: elements, or bits where widths are given; whole bytes; bursts."""

    moved: int
    bytes: int
    bursts: int

    def __add__(self, other: Any) -> Moved:
        return Moved(*(one + another for one, another in zip(self, other, strict=True)))


class Machine:
    """A layer under a partition."""

    def __init__(self, problem: Json, partition: str) -> None:
        self.layer, self.machine = problem["layer"], problem["machine"]
        layer, machine = self.layer, self.machine
        (channels, height, width), padding = layer["input"], layer["padding"]
        self.extent = [(k - 1) * d + 1 for k, d in zip(layer["kernel"], layer["dilation"], strict=True)]
        padded = height + padding[0] + padding[1], width + padding[2] + padding[3]
        self.plane = [(padded[i] - self.extent[i]) // layer["stride"][i] + 1 for i in (0, 1)]
        self.depthwise = layer["groups"] > 1 and layer["groups"] == channels == layer["kernels"]
        self.groups = 1 if self.depthwise else layer["groups"]
        self.filters = layer["kernels"] // self.groups
        self.maps = channels // layer["groups"]
        self.window = layer["kernel"][0] * layer["kernel"][1]
        names = "input", "weights", "output", "partial"
        self.bits = machine.get("bits") or dict.fromkeys(names, 8 * machine["element_bytes"])
        tles = machine["tles"]
        row_parts = {"KS": 1, "KS&OFM": 2, "OFM": tles}[partition]
        rows = _cut((0, self.plane[0]), _up(self.plane[0], row_parts))
        slices = _cut((0, self.filters), _up(self.filters, tles // row_parts))
        self.tles = [(one, self._cores(slice_)) for slice_ in slices for one in rows]

    def _cores(self, filters: Span) -> list[Span]:
        """Divide filters among cores, one more for the first ones where they do not divide."""
        cores, first = [], filters[0]
        left = filters[1] - filters[0]
        for core in range(self.machine["tlts"], 0, -1):
            mine = _up(left, core)
            if mine:
                cores.append((first, first + mine))
            first, left = first + mine, left - mine
        return cores

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Filters, maps, rows and columns of the core that has most."""
        filters = max(last - first for _, cores in self.tles for first, last in cores)
        rows = max(rows[1] - rows[0] for rows, _ in self.tles)
        return filters, self.maps, rows, self.plane[1]

    def step(self, tile: tuple[int, ...]) -> tuple[int, ...]:
        """Return the smallest steps that need no more iterations."""
        steps = []
        for size, limit in zip(self.sizes, tile, strict=True):
            trips = len(range(0, size, limit))
            steps.append(next(s for s in range(1, size + 1) if len(range(0, size, s)) == trips))
        return tuple(steps)

    def under(self, axis: int, outputs: int) -> int:
        """Return how many input rows or columns lie under so many of the output."""
        return int((outputs - 1) * self.layer["stride"][axis] + self.extent[axis])

    def runs(self, many: int, length: int, operand: str) -> Moved:
        """Return what so many runs of elements take that follow each other; each begins with a whole byte."""
        size = length * self.bits[operand]
        return Moved(
            many * (size if self.machine.get("bits") else length),
            many * _up(size, 8),
            many * _up(size, 8 * self.machine["burst_bytes"]),
        )

    def part(self, maps: int, rows: int, columns: int, operand: str) -> Moved:
        """Return what a part of so many maps takes, whose rows follow each other where they are whole."""
        width = self.plane[1] if operand == "output" else self.under(1, self.plane[1])
        if columns == width:
            return self.runs(maps, rows * columns, operand)
        return self.runs(maps * rows, columns, operand)

    def fits(self, step: tuple[int, ...], schedule: str) -> bool:
        """Whether a tile fits into the three memories of a core."""
        m, n, r, c = step
        inputs = (m if self.depthwise else n) * self.under(0, r) * self.under(1, c)
        weights = m * (self.maps if schedule == "WS" else n) * self.window
        sums = "output" if self.maps == 1 else "partial"  # of several maps one is added after the other
        return bool(
            inputs * self.bits["input"] <= 8 * self.machine["input_bytes"]
            and weights * self.bits["weights"] <= 8 * self.machine["weights_bytes"]
            and m * r * c * self.bits[sums] <= 8 * self.machine["output_bytes"]
        )

    def costs(self, step: tuple[int, ...], schedule: str) -> dict[str, int]:
        """Return the picoseconds of all steps, and what they move."""
        found, machine = self.counts(step, schedule), self.machine
        time = found["cycles"] * machine["cycle_ps"] + found["bursts"] * machine["burst_ps"]
        return {"time": time + found["bytes"] * machine["byte_ps"], "accesses": found["moved"]}

    def counts(self, step: tuple[int, ...], schedule: str) -> dict[str, int]:
        """Return the cycles of all steps, and what they move: elements or bits, whole bytes, bursts."""
        m, n, r, c = step
        cycles, every = 0, Moved(0, 0, 0)
        most = [max(1, _up(size, one)) for size, one in zip(self.sizes, step, strict=True)]
        for lane, row, column, block in product(
            range(most[0]), range(most[2]), range(most[3]), range(most[1])
        ):
            maps = self._part(block, n, (0, self.maps))
            columns = self._part(column, c, (0, self.plane[1]))
            slowest = 0
            for rows, cores in self.tles:
                height = self._part(row, r, rows)
                filters = [part for part in (self._part(lane, m, core) for core in cores) if part]
                if not (height and filters):
                    continue
                loaded = sum(filters) if self.depthwise else maps
                every += self.part(loaded, self.under(0, height), self.under(1, columns), "input")
                first = row == column == block == 0
                if first or schedule != "WS":
                    depth = self.maps if schedule == "WS" else maps
                    every += self.runs(sum(filters), depth * self.window, "weights")
                if block == most[1] - 1:  # complete
                    every += self.part(sum(filters), height, columns, "output")
                for each in filters:
                    macs = _up(height * columns * self.window, self.machine["macs_per_cycle"])
                    slowest = max(slowest, maps * each * macs)
            cycles += slowest
        repeats = self.layer["batch"] * self.groups
        return {name: int(repeats * count) for name, count in (("cycles", cycles), *every._asdict().items())}

    @staticmethod
    def _part(number: int, step: int, span: Span) -> int:
        """Return the length of a tile, 0 where there is none."""
        return max(0, min(step, span[1] - span[0] - number * step))


def _allowed(problem: Json) -> Iterator[tuple[str, str]]:
    limits = problem["limits"]
    for partition, schedule in product(PARTITIONS, SCHEDULES):
        if limits["partition"] in ("any", partition) and limits["schedule"] in ("any", schedule):
            yield partition, schedule


def _keeps(problem: Json, machine: Machine, step: tuple[int, ...], schedule: str) -> bool:
    """Whether a tile has the filters that a schedule keeps an operand for: IS all, OS if asked for a part."""
    filters = machine.sizes[0]
    if schedule == "IS":
        return step[0] == filters
    return problem["limits"]["schedule"] != "OS" or step[0] < filters or filters == 1


def best(problem: Json) -> int | None:
    """Return the least time or accesses of all plans, None if there is none."""
    every = []
    work = 0
    for partition, schedule in _allowed(problem):
        machine = Machine(problem, partition)
        steps = [sorted({machine.step(tuple(s if d == e else 1 for e in range(4)))[d]
                         for s in range(1, size + 1)}) for d, size in enumerate(machine.sizes)]  # fmt: skip
        for step in product(*steps):
            if _keeps(problem, machine, step, schedule) and machine.fits(step, schedule):
                every.append((machine, step, schedule))
                tiles = len(machine.tles) * (1 + len(machine.tles[0][1]))
                for size, one in zip(machine.sizes, step, strict=True):
                    tiles *= _up(size, one)
                work += tiles
                if work > MOST_TILES:
                    raise TooLarge
    name = _minimised(problem)
    return min((machine.costs(step, schedule)[name] for machine, step, schedule in every), default=None)


def cost(problem: Json, plan: Json) -> int:
    """Return the time or the accesses of a plan."""
    if (plan["partition"], plan["schedule"]) not in _allowed(problem):
        raise Refused("partition or schedule")
    machine = Machine(problem, plan["partition"])
    step = machine.step(tuple(plan["tile"][d] for d in "mnrc"))
    if not _keeps(problem, machine, step, plan["schedule"]):
        raise Refused(f"filters of {plan['schedule']}")
    if not machine.fits(step, plan["schedule"]):
        raise Refused("memory")
    return machine.costs(step, plan["schedule"])[_minimised(problem)]


def _minimised(problem: Json) -> str:
    return problem["objective"]["minimise"] or "time"
