"""Moves that change the order of values on an NPU (docs/operations.md): tiles as sets of addresses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import prod
from typing import Any

Json = dict[str, Any]
Place = tuple[int, ...]


def _up(value: int, by: int) -> int:
    return -(-value // by)


class Move:
    """A layer of kind reshape and the machine that moves its values."""

    def __init__(self, layer: Json, machine: Json, images: int) -> None:
        self.machine, order = machine, layer["permutation"]
        self.every = [images, *order["sizes"]]
        axes = [0, *(1 + axis for axis in order["axes"])]
        places = list(product(*map(range, self.every)))
        self.read = {at: number for number, at in enumerate(places)}
        places.sort(key=lambda at: [at[axis] for axis in axes])
        self.given = {at: number for number, at in enumerate(places)}
        # Dimensions that follow each other before and after are one.
        before = [axis for axis, size in enumerate(self.every) if size > 1]
        after = [axis for axis in axes if self.every[axis] > 1]
        self.groups: list[list[int]] = []
        for axis in before:
            if self.groups and after.index(axis) == after.index(self.groups[-1][-1]) + 1:
                self.groups[-1].append(axis)
            else:
                self.groups.append([axis])
        self.sizes = [prod(self.every[axis] for axis in group) for group in self.groups] or [1]

    def _along(self, at: Place) -> list[int]:
        """Return the position of a value along each group of dimensions."""
        found = []
        for group in self.groups or [[]]:
            number = 0
            for axis in group:
                number = number * self.every[axis] + at[axis]
            found.append(number)
        return found

    def plans(self) -> Iterator[Place]:
        """Yield all tiles that fit: along each dimension the smallest for each number of tiles."""
        machine = self.machine
        cores = machine["tles"] * machine["tlts"]
        room = min(
            cores * (machine[f"{name}_bytes"] // machine["element_bytes"]) for name in ("input", "output")
        )
        steps = [sorted({_up(n, _up(n, step)) for step in range(1, n + 1)}) for n in self.sizes]
        return (tile for tile in product(*steps) if prod(tile) <= room)

    def time(self, tile: Place) -> int:
        """Return the picoseconds of a plan: what each tile reads and writes, run by run."""
        tiles: dict[Place, list[Place]] = {}
        for at in self.read:
            number = tuple(n // step for n, step in zip(self._along(at), tile, strict=True))
            tiles.setdefault(number, []).append(at)
        machine, total = self.machine, 0
        for values in tiles.values():
            for addresses in (self.read, self.given):
                for length in _runs(sorted(addresses[at] for at in values)):
                    size = length * machine["element_bytes"]
                    total += size * machine["byte_ps"]
                    total += _up(size, machine["burst_bytes"]) * machine["burst_ps"]
        return total


def _runs(addresses: list[int]) -> Iterator[int]:
    """Yield how many addresses follow each other without a gap."""
    length = 1
    for one, other in pairwise(addresses):
        if other != one + 1:
            yield length
            length = 0
        length += 1
    yield length
