"""Loop nests on a hierarchy with real integers: every memory holds its tile, every transfer copies it.

Nothing is counted here. A tile that is not where its copy is to come from is an error; a sum that misses a
product is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import INPUT, OUTPUT, SLIDING, LevelProgram
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer

Values = NDArray[np.int64]
Axes = tuple[Values, ...]
Instance = tuple[int, ...]

MOST_MACS = 100_000
"""Larger layers are not executed MAC by MAC."""


class NotThereError(Exception):
    """A tile is not where it is to be copied from."""


@dataclass(frozen=True)
class Tile:
    """A part of a tensor: its positions on each axis, ascending, and its values."""

    axes: Axes
    values: Values

    def at(self, axes: Axes) -> tuple[slice, ...] | tuple[Values, ...]:
        """Return where positions are in the tile: slices where they follow each other, as they mostly do.

        Raises
        ------
        NotThereError
            If one of them is not.
        """
        places = [_places(mine, wanted) for mine, wanted in zip(self.axes, axes, strict=True)]
        slices = tuple(place for place in places if isinstance(place, slice))
        if len(slices) == len(places):
            return slices
        return np.ix_(
            *(np.arange(each.start, each.stop) if isinstance(each, slice) else each for each in places)
        )

    def keep(self, axes: Axes, values: Values) -> None:
        """Write into the values of another part of the tensor, at some positions, what this one has of it."""
        common = [np.isin(wanted, mine) for mine, wanted in zip(self.axes, axes, strict=True)]
        shared = tuple(wanted[both] for wanted, both in zip(axes, common, strict=True))
        values[np.ix_(*common)] = self.values[self.at(shared)]


def _places(mine: Values, wanted: Values) -> slice | Values:
    """Return where positions are among those of a tile, both ascending; see `Tile.at`."""
    if _follow(mine) and _follow(wanted):
        begin, first, last = int(mine[0]), int(wanted[0]), int(wanted[-1])
        if first < begin or last > int(mine[-1]):
            raise NotThereError
        return slice(first - begin, last - begin + 1)
    place = np.searchsorted(mine, wanted)
    if (place >= len(mine)).any() or (mine[np.minimum(place, len(mine) - 1)] != wanted).any():
        raise NotThereError
    return place


def _follow(positions: Values) -> bool:
    """Whether positions follow each other without a gap."""
    return len(positions) > 0 and int(positions[-1]) - int(positions[0]) + 1 == len(positions)


@dataclass(frozen=True)
class Loop:
    """One loop of the nest: its place, letter, number of iterations and step."""

    place: int
    letter: str
    trips: int
    step: int
    temporal: bool


@dataclass
class NumericRun:
    """One execution with numbers.

    Attributes
    ----------
    tiles
        By operand, memory and instance.
    """

    program: LevelProgram
    layer: Layer
    deadline: float = float("inf")
    tiles: list[dict[tuple[int, Instance], Tile]] = field(default_factory=lambda: [{}, {}, {}])

    def run(self, values: Values, kernels: Values) -> Values:
        """Return the output of a layer, as the nest computes it.

        Parameters
        ----------
        values : int64, shape (batch, C, H, W)
        kernels : int64, shape (N, C / groups, H_K, W_K)

        Raises
        ------
        NotThereError
            If a tile is not where it should be.
        OutOfTimeError
            When the deadline passes.
        """
        layer, blocks = self.layer, self.program.blocks()
        self.loops = [
            Loop(i, letter, -(-blocks[i][letter] // step), step, place.memory)
            for i, place in enumerate(self.program.places)
            for letter, step in place.loops
        ]
        top, bottom, left, right = layer.padding
        padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
        groups = layer.groups
        outputs = np.zeros((layer.batch, groups, -(-layer.kernels // groups), *layer.output_plane), np.int64)
        tensors = (
            padded.reshape(layer.batch, groups, -1, *padded.shape[2:]).transpose(1, 0, 2, 3, 4),
            kernels.reshape(groups, -1, *kernels.shape[1:]),
            outputs.transpose(1, 0, 2, 3, 4),
        )
        for operand, tensor in enumerate(tensors):
            axes = tuple(np.arange(size) for size in tensor.shape)
            self.tiles[operand][0, ()] = Tile(axes, tensor)
        self._execute()
        result: Values = self.tiles[OUTPUT][0, ()].values
        return result.transpose(1, 0, 2, 3, 4).reshape(layer.output_shape)

    def _execute(self) -> None:
        """Go through all iterations of the memories' loops."""
        temporal = [i for i, loop in enumerate(self.loops) if loop.temporal]
        before: tuple[int, ...] | None = None
        for times in product(*(range(self.loops[i].trips) for i in temporal)):
            if monotonic() > self.deadline:
                raise OutOfTimeError
            index = dict(zip(temporal, times, strict=True))
            if self._spans(index) is None:
                continue
            for operand in range(3):
                for parent, child in self._boundaries(operand):
                    moving = self._moving(operand, child, temporal, times, before)
                    if moving is None or moving:
                        slides = operand == INPUT and self._slides(parent, child, moving)
                        self._exchange(operand, parent, child, index, slides)
            self._multiply(index)
            before = times
        for parent, child in reversed(self._boundaries(OUTPUT)):
            self._drain(parent, child)

    def _boundaries(self, operand: int) -> list[tuple[int, int]]:
        return list(pairwise(self.program.holders(operand)))

    def _moving(
        self,
        operand: int,
        child: int,
        temporal: list[int],
        times: tuple[int, ...],
        before: tuple[int, ...] | None,
    ) -> list[tuple[Loop, int]] | None:
        """Return the loops outside of a memory that move its tile now, and how far; None at the start."""
        if before is None:
            return None
        return [
            (loop, now - then)
            for i, now, then in zip(temporal, times, before, strict=True)
            if now != then
            and (loop := self.loops[i]).place < child
            and loop.letter in self.program.uses[operand]
        ]

    def _slides(self, parent: int, child: int, moving: list[tuple[Loop, int]] | None) -> bool:
        """Whether a memory keeps what its next tile of input shares with the last one."""
        if not self.program.places[child].halo or moving is None or len(moving) != 1:
            return False
        loop, far = moving[0]
        return loop.letter in SLIDING and far == 1 and loop.place >= parent

    def _instances(self, number: int, index: dict[int, int]) -> Iterator[tuple[Instance, dict[str, Values]]]:
        """Go through the instances of a place that have something to do, with the positions of each loop."""
        arrays = [i for i, loop in enumerate(self.loops) if not loop.temporal and loop.place < number]
        outside = {i: at for i, at in index.items() if self.loops[i].place < number}
        for places in product(*(range(self.loops[i].trips) for i in arrays)):
            spans = self._spans(outside | dict(zip(arrays, places, strict=True)))
            if spans is not None:
                yield places, spans

    def _holder(self, number: int, instance: Instance) -> Instance:
        """Return which instance of a place further out an instance belongs to."""
        arrays = sum(not loop.temporal and loop.place < number for loop in self.loops)
        return instance[:arrays]

    def _leads(self, number: int, parent: int, instance: Instance) -> bool:
        """Whether sums are brought back to an instance: the first one of those whose sums are added up."""
        arrays = [loop for loop in self.loops if not loop.temporal and loop.place < number]
        return not any(
            at
            for loop, at in zip(arrays, instance, strict=True)
            if loop.place >= parent and loop.letter in self.program.reduced
        )

    def _spans(self, outside: dict[int, int]) -> dict[str, Values] | None:
        """Return the positions of each loop under a block, None for one that lies beyond the border.

        Parameters
        ----------
        outside
            The iterations of all loops outside, by their numbers; where left out, the first.
        """
        spans = {letter: np.arange(size) for letter, size in self.program.extents.items()}
        for i, at in sorted(outside.items()):
            letter, step = self.loops[i].letter, self.loops[i].step
            spans[letter] = spans[letter][at * step : (at + 1) * step]
        return spans if all(map(len, spans.values())) else None

    def _axes(self, operand: int, spans: dict[str, Values]) -> Axes:
        """Return the positions of an operand under a block."""
        if operand != 0:
            return tuple(spans[letter] for letter in self.program.uses[operand])
        under = [
            np.unique(np.add.outer(spans[out] * stride, spans[tap] * dilation))
            for out, tap, stride, dilation in zip(
                "yx", "rs", self.layer.stride, self.layer.dilation, strict=True
            )
        ]
        return spans["g"], spans["n"], spans["k"], under[0], under[1]

    def _exchange(self, operand: int, parent: int, child: int, index: dict[int, int], slides: bool) -> None:
        """Write the tiles of a memory back, if they are outputs, and fetch the next ones.

        Parameters
        ----------
        slides
            Whether what they share with the last ones stays.
        """
        if operand == OUTPUT:
            for outer, inner in reversed(self._boundaries(OUTPUT)):
                if inner >= child:
                    self._drain(outer, inner)
        tiles = self.tiles[operand]
        for instance, spans in self._instances(child, index):
            axes = self._axes(operand, spans)
            source = tiles[parent, self._holder(parent, instance)]
            values = source.values[source.at(axes)]
            if operand == OUTPUT and not self._leads(child, parent, instance):
                values = np.zeros_like(values)
            values = values.copy()
            if slides:
                tiles[child, instance].keep(axes, values)
            tiles[child, instance] = Tile(axes, values)

    def _drain(self, parent: int, child: int) -> None:
        """Add up the outputs of all instances of a memory, and replace those further out by them."""
        tiles = self.tiles[OUTPUT]
        arrived: dict[Instance, list[Tile]] = {}
        for key in [key for key in tiles if key[0] == child]:
            arrived.setdefault(self._holder(parent, key[1]), []).append(tiles.pop(key))
        for instance, parts in arrived.items():
            target = tiles[parent, instance]
            for part in parts:
                target.values[target.at(part.axes)] = 0
            for part in parts:
                target.values[target.at(part.axes)] += part.values

    def _multiply(self, index: dict[int, int]) -> None:
        """Feed all multipliers once."""
        last = len(self.program.places)
        holders = [self.program.holders(operand)[-1] for operand in range(3)]
        for instance, spans in self._instances(last, index):
            found = []
            for operand, holder in enumerate(holders):
                tile = self.tiles[operand][holder, self._holder(holder, instance)]
                found.append((tile.values, tile.at(self._axes(operand, spans))))
            (values, value), (kernels, kernel), (outputs, output) = found
            outputs[output] += values[value] * kernels[kernel]
