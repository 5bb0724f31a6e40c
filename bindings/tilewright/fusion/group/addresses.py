"""Where the maps and parameters of a group lie in the three buffers, at every instruction of its schedule.

A map has one area in its buffer, a grid of channels, rows and columns that it goes around in: a value of
channel c, row y and column x lies at ``c % channels``, ``(y + shift) % rows`` and ``x % columns``.
The shift lets residencies that are on chip together lie one below the other, and kept rows stay where they
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from tilewright.fusion.group.schedule import GroupSchedule, Instruction
from tilewright.fusion.group.tile_costs import TileCosts, only
from tilewright.fusion.machine import BUFFERS


@dataclass(frozen=True)
class Area:
    """Where a map lies.

    Attributes
    ----------
    buffer
        One of `BUFFERS`.
    base
        Its first element.
    first
        Channel of the area that the map's channel 0 has.
    channels, rows, columns
        What of it the area holds of each image, images one after the other.
    """

    buffer: str
    base: int
    first: int
    channels: int
    rows: int
    columns: int


class Addressed(NamedTuple):
    """An instruction with the places of what it reads and writes.

    Attributes
    ----------
    shift
        Added to the rows of its map.
    shifts
        Added to the rows of each part that it reads.
    parameters
        The first element of its parameters in their buffer, of what it fetches or computes with.
    """

    instruction: Instruction
    shift: int
    shifts: tuple[int, ...]
    parameters: int


class Addresses:
    """The places of a group's values.

    Attributes
    ----------
    areas
        Of each map.
    elements
        Of each buffer, in the order of `BUFFERS`, as many as the group's costs say.
    """

    def __init__(self, schedule: GroupSchedule) -> None:
        self.schedule, self.fused = schedule, schedule.fused
        self._costs = TileCosts.of(schedule.fused, schedule.tile)
        self._split = {part.map: part.first for part in self.fused.features[self.fused.loaded].parts}
        if not schedule.splits:
            self._split = {}
        self.areas, used = self._placed()
        size = self.fused.machine.element_bytes
        self.elements = (used[0], used[1], only(self._costs.parameters) // size)

    def _placed(self) -> tuple[list[Area], list[int]]:
        """Return the areas of all maps, one after the other, and where they end."""
        areas, used = [], [0, 0]
        shared: int | None = None
        for number in range(len(self.fused.features)):
            place = int(number >= self.fused.loaded)
            channels, rows, columns = map(only, self._costs.held(number))
            base, first = used[place], 0
            if number in self._split:
                # The parts of all maps that a convolution sums over at a time lie together, twice.
                channels, rows = self.schedule.tile.channels, 2 * self._high[number]
                first = self._split[number]
                base = shared if shared is not None else base
            if number not in self._split or shared is None:
                used[place] += self.fused.machine.arrays * channels * rows * columns
            if number in self._split:
                shared = base
            areas.append(Area(BUFFERS[place], base, first, channels, rows, columns))
        return areas, used

    @cached_property
    def _high(self) -> list[int]:
        """The most rows of a tile, of each map."""
        (spans,) = self.fused.spans(0, [self.schedule.tile.rows])
        most: list[int] = (spans[:, :, 1] - spans[:, :, 0]).max(axis=1).tolist()
        return most

    def instructions(self) -> Iterator[Addressed]:
        """Return all instructions in the order in which they are issued, without what only frees."""
        rows, parameters = _Rows(self), _Parameters(self)
        for each in self.schedule.instructions():
            if each.what == "drop":
                continue
            if each.what == "free":
                rows.end(each)
                continue
            at = 0
            if each.what == "fetch":
                at = parameters.fetch(each)
                yield Addressed(each, 0, (), at)
                continue
            shift = rows.shift(each)
            shifts: tuple[int, ...] = ()
            if each.what == "compute":
                parts = self.fused.features[each.feature].parts
                shifts = tuple(rows.current(part.map) for part in parts)
                at = parameters.of(each)
            yield Addressed(each, shift, shifts, at)
            if each.what == "save":
                rows.end(each)


class _Rows:
    """The shifts of all maps as instructions are issued."""

    def __init__(self, addresses: Addresses) -> None:
        count = len(addresses.areas)
        schedule, tile = addresses.schedule, addresses.schedule.tile
        self._areas, self._high = addresses.areas, addresses._high
        self._slots = [only(addresses._costs.slots(number)) for number in range(count)]
        self._by_kernels = tile.order == "kernels"
        self._rings = [tile.halo == "keep" and (self._by_kernels or bool(whole)) for whole in schedule.whole]
        self._split, self._parts = addresses._split, 0
        self._head = addresses.fused.loaded
        self._shifts, self._bottoms, self._ended = [0] * count, [0] * count, [0] * count
        self._here = [False] * count

    def current(self, number: int) -> int:
        """Return the shift of a map."""
        return self._shifts[number]

    def shift(self, instruction: Instruction) -> int:
        """Return the shift of the map of an instruction, whose residency may begin with it."""
        number, (top, bottom) = instruction.feature, instruction.rows
        area = self._areas[number]
        if instruction.what != "save":
            if self._rings[number] and number not in self._split:
                # Rows that come again, for other kernels, lie below the last ones.
                if (self._by_kernels or number < self._head) and top < self._bottoms[number]:
                    self._shifts[number] = (self._shifts[number] + self._bottoms[number] - top) % area.rows
                self._bottoms[number] = max(bottom, 0)
            elif not self._here[number]:
                turn = self._ended[number] % self._slots[number]
                if number in self._split:
                    turn = self._parts % 2
                self._shifts[number] = (turn * self._high[number] - top) % area.rows
            self._here[number] = True
        shift = self._shifts[number]
        if number == self._head and instruction.what == "compute":
            self._parts += 1
        return shift

    def end(self, instruction: Instruction) -> None:
        """Note that a residency ends."""
        self._ended[instruction.feature] += 1
        self._here[instruction.feature] = False


class _Parameters:
    """The places of parameters as instructions are issued."""

    def __init__(self, addresses: Addresses) -> None:
        schedule, fused = addresses.schedule, addresses.fused
        self._fused, self._tile = fused, schedule.tile
        self._passes = fused.passes(schedule.tile)
        self._rounds = schedule.tile.order == "kernels" and schedule.tile.parameters != "keep"
        self._half = addresses.elements[2] // 2
        self._places: dict[tuple[int, int, int], int] = {}
        self._fetched = self._used = 0
        blocks = -(-fused.features[fused.loaded].shape[0] // schedule.tile.kernels)
        self._turns = 2 if blocks > 1 else 1

    def fetch(self, instruction: Instruction) -> int:
        """Return where parameters are put: in turn into two places, or one after the other."""
        count = instruction.channels[1] - instruction.channels[0]
        size = count * self._fused.parameters(instruction.feature, instruction.summed)
        if self._passes:
            at = self._fetched % 2 * self._half
        elif self._rounds and self._turns == 2:
            fetches = self._fused.fetches(self._tile)
            if self._fetched % fetches == 0:
                self._used = self._fetched // fetches % 2 * self._half
            at = self._used
        else:
            at = self._used
        self._used += size
        self._fetched += 1
        self._places[self._key(instruction)] = at
        return at

    def of(self, instruction: Instruction) -> int:
        """Return where the parameters of a computation are; 0 where there are none."""
        return self._places.get(self._key(instruction), 0)

    def _key(self, instruction: Instruction) -> tuple[int, int, int]:
        return instruction.feature, instruction.channels[0], instruction.summed[0]


def elements(area: Area, images: int) -> int:
    """Return how many elements an area has."""
    return images * prod((area.channels, area.rows, area.columns))
