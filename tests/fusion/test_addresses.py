"""Places of maps and parameters on chip: values that are followed through buffers as large as planned."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import THOROUGH, examples
from fusion_at_random import AnyGroups, group, network, problems, tile
from fusion_at_random import problem as made
from hypothesis import given, settings
from numpy.typing import NDArray

from tilewright.fusion.group.addresses import Addressed, Addresses, Area, _Rows
from tilewright.fusion.group.best_tile import evaluate_tile
from tilewright.fusion.group.schedule import GroupSchedule, Range
from tilewright.fusion.lowering import Lowering
from tilewright.fusion.machine import BUFFERS

Ints = NDArray[np.int64]

MOST = 1000
"""More than a random map has of channels, rows or columns."""


def names(first: int, images: int, *ranges: Range) -> Ints:
    """Return a number for each value of a box of a map, other than those of all other values."""
    found: Any = first * images + np.arange(images)[:, None, None, None]
    for place, each in enumerate(ranges):
        found = found * MOST + np.arange(*each).reshape(-1, *[1] * (2 - place))
    return np.asarray(found)


class Chip:
    """Buffers of exactly the planned elements, whose values are names of what they hold."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses, self.fused = addresses, addresses.fused
        self.images = self.fused.machine.arrays
        self.lowering = Lowering(addresses.schedule, addresses.elements)
        self.buffers = {
            name: np.full(size, -1, dtype=np.int64)
            for name, size in zip(BUFFERS, addresses.elements, strict=True)
        }

    def execute(self, addressed: Addressed) -> None:
        """Execute an instruction: what it reads must be what it needs."""
        i = addressed.instruction
        if i.what == "fetch":
            place, wanted = self.parameters(addressed)
            self.buffers["parameter"][place] = wanted
            return
        if i.what == "compute":
            place, wanted = self.parameters(addressed)
            assert (self.buffers["parameter"][place] == wanted).all()
            self.read(addressed)
        area = self.addresses.areas[i.feature]
        at = self.cells(area, addressed.shift, i.channels, i.rows, i.columns)
        own = names(i.feature, self.images, i.channels, i.rows, i.columns)
        assert len(np.unique(at)) == at.size
        if i.what == "save":
            assert (self.buffers[area.buffer][at] == own).all()
        else:
            self.buffers[area.buffer][at] = own

    def parameters(self, addressed: Addressed) -> tuple[Ints, Ints]:
        """Return where the parameters of an instruction lie, and their names."""
        i = addressed.instruction
        count = (i.channels[1] - i.channels[0]) * self.fused.parameters(i.feature, i.summed)
        names = np.arange(count) + MOST**2 * (MOST * (MOST * i.feature + i.summed[0]) + i.channels[0])
        return addressed.parameters + np.arange(count), names

    def read(self, addressed: Addressed) -> None:
        i = addressed.instruction
        for part, shift in zip(self.fused.features[i.feature].parts, addressed.shifts, strict=True):
            channels = self.lowering._channels_of(i, part.map, part.first)
            rows, columns = (self.lowering._window(i, part.map, axis) for axis in range(2))
            area = self.addresses.areas[part.map]
            found = self.buffers[area.buffer][self.cells(area, shift, channels, rows, columns)]
            assert (found == names(part.map, self.images, channels, rows, columns)).all()

    def cells(self, area: Area, shift: int, channels: Range, rows: Range, columns: Range) -> Ints:
        """Return where a box of a map lies."""
        found: Any = np.arange(self.images)[:, None, None, None]
        found = found * area.channels + (np.arange(*channels)[:, None, None] + area.first) % area.channels
        found = found * area.rows + (np.arange(*rows)[:, None] + shift) % area.rows
        return np.asarray(area.base + found * area.columns + np.arange(*columns) % area.columns)


def followed(random: Random, problem: AnyGroups) -> Addresses:
    """Execute a random group in the order of time."""
    fused = problem.fused(group(random, problem))
    addresses = Addresses(GroupSchedule(fused, tile(random, fused)))
    costs = evaluate_tile(problem, fused, addresses.schedule.tile)
    size = problem.machine.element_bytes
    assert addresses.elements == tuple(held // size for held in costs.buffers)
    chip = Chip(addresses)
    for each in sorted(addresses.instructions(), key=lambda each: each.instruction.start):
        chip.execute(each)
    return addresses


@settings(max_examples=examples(2000) if THOROUGH else 60)
@given(problems())
def test_values_lie_where_the_addresses_say(drawn: tuple[Random, AnyGroups]) -> None:
    """In buffers as large as planned, until whoever needs them has read them."""
    followed(*drawn)


def test_wrong_addresses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> int:
        found = 0
        for seed in range(40):
            random = Random(seed)
            try:
                followed(random, made(random, network(random)))
            except AssertionError:
                found += 1
        return found

    assert wrong() == 0
    # Residencies that are on chip together lie on each other.
    monkeypatch.setattr(_Rows, "shift", lambda self, instruction: self.current(instruction.feature))
    assert wrong() > 5
