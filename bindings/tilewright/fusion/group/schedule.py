"""A group cut into tiles: when every instruction runs, and where its maps and parameters are, in closed form.

The accelerator executes the instructions of each engine in order and begins each as soon as its operands are
there and there is a place for its result. A *channel block* is some channels of a tile. A *residency* of a
map is its stay on chip, for one tile or for one channel block; most maps have places for two residencies, so
that one is used as the next one begins. The simulator executes what `GroupSchedule.instructions` returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule_kernel import (
    WHAT,
    Column,
    Count,
    Fetched,
    Ints,
    Pass,
    Record,
    Setting,
    run,
)
from tilewright.fusion.machine import ENGINES
from tilewright.fusion.plan import Tile

Range = tuple[int, int]

_NEVER = np.iinfo(np.int64).max
_NOTHING = np.zeros((0, len(Record)), dtype=np.int64)
_NO_WORK = np.zeros(len(ENGINES), dtype=np.int64)


class Instruction(NamedTuple):
    """An instruction, or the end of a stay on chip, and when it happens.

    Attributes
    ----------
    engine
        Who executes it; None for what takes no time.
    what
        ``load``, ``compute``, ``save`` or ``free`` a map, ``fetch`` or ``drop`` parameters.
    feature
        Number of the map, or of that whose parameters are meant.
    start, finish
        Cycles.
    rows, columns, channels
        Of the map.
    summed
        Input channels over which a convolution sums.
    place
        Which of two places on chip the map has.
    """

    engine: str | None
    what: str
    feature: int
    start: int
    finish: int
    rows: Range
    columns: Range
    channels: Range
    summed: Range
    place: int


class GroupSchedule:
    """The timetable of a group with a tile.

    Attributes
    ----------
    whole : bool, shape (features,)
        Whether all channels of a map are on chip together, or those of a channel block.
    doubled : bool, shape (features,)
        Whether values of one position are on chip twice, for two residencies.
    splits
        Whether a convolution sums over some input channels at a time.
    """

    def __init__(self, fused: FusedGroup, tile: Tile, spans: tuple[Ints, Ints] | None = None) -> None:
        self.fused, self.tile = fused, tile
        if spans is None:
            spans = fused.spans(0, [tile.rows])[0], fused.spans(1, [tile.columns])[0]
        self._spans = spans
        keeps, by_kernels = tile.halo == "keep", tile.order == "kernels"
        self.tiles = spans[0].shape[1] * spans[1].shape[1]
        down, across = ((span[:, 1:, 0] < span[:, :-1, 1]).any(axis=1) for span in spans)
        self.whole = ~(fused.blockwise & (by_kernels | ~(keeps & (down | across))))
        self.slots = np.where(self.whole, fused.slots, 2)
        self.splits = fused.splits(tile)
        parts = [part.map for part in fused.features[fused.loaded].parts]
        in_parts = np.isin(np.arange(len(self.whole)), parts)
        twice = by_kernels & self.whole if keeps else (self.slots == 2) & ~(self.splits & in_parts)
        self.doubled = (self.tiles > 1) & (down | across) & twice

    def _run(self, records: Ints, most: int, work: Ints) -> tuple[int, int]:
        """Return the cycle at which all is done, if it is below `most`, and the number of records."""
        fused, tile = self.fused, self.tile
        features = fused.table.copy()
        features[:, Column.WHOLE] = self.whole
        features[:, Column.SLOTS] = self.slots
        features[:, Column.DOUBLED] = self.doubled
        passes = fused.passes(tile)
        # Parameters of a channel block, or of a round of all operations, beside those of the next; or all.
        rounds = tile.order == "kernels" and tile.parameters != "keep"
        places = 2 if passes else 2 * fused.fetches(tile) * rounds
        deepest = max(1, int(features[:, Column.SUMMED].max()))
        depth = tile.channels if self.splits else deepest
        blocks = -(-int(features[:, Column.CHANNELS].max()) // tile.kernels)
        counts = np.zeros(len(Count), dtype=np.int64)
        cycles = run(
            Pass(
                features,
                fused.reads,
                np.array([piece for each in fused.pieces for piece in each], dtype=np.int64).reshape(-1, 4),
                fused.order,
                fused.begins,
                *self._spans,
                self._settings(depth, passes, places, most),
                np.full(len(ENGINES), fused.machine.issue_cycles, dtype=np.int64),
                work.copy(),
                np.zeros((len(features), blocks, -(-deepest // depth), len(Fetched)), dtype=np.int64),
                np.zeros(max(1, places), dtype=np.int64),
                counts,
                records,
            )
        )
        return int(cycles), int(counts[Count.RECORDS])

    def _settings(self, depth: int, passes: bool, places: int, most: int) -> Ints:
        """Return what the kernel has of the machine and the tile."""
        machine, tile = self.fused.machine, self.tile
        settings = {
            Setting.IMAGES: machine.arrays,
            Setting.SCALE: machine.element_bytes * machine.clock_mhz,
            Setting.LOAD_RATE: machine.load_mb_per_s,
            Setting.SAVE_RATE: machine.save_mb_per_s,
            Setting.INS: machine.conv_array[0],
            Setting.OUTS: machine.conv_array[1],
            Setting.HIGH: machine.conv_array[2],
            Setting.RATE: machine.operands_per_cycle,
            Setting.KERNELS: tile.kernels,
            Setting.DEPTH: depth,
            Setting.KEEPS: tile.halo == "keep",
            Setting.BY_KERNELS: tile.order == "kernels",
            Setting.SPLITS: self.splits,
            Setting.PASSES: passes,
            Setting.PLACES: places,
            Setting.MOST: most,
            Setting.BYTES: machine.element_bytes,
            Setting.BURST_BYTES: 1 if machine.layouts is None else machine.layouts.burst_bytes,
            Setting.BURST_CYCLES: machine.burst_cycles,
        }
        return np.array([settings[place] for place in Setting], dtype=np.int64)

    @property
    def cycles(self) -> int:
        """The cycle at which the last instruction ends."""
        return self._counted[0]

    def cycles_below(self, most: int, work: Ints) -> int:
        """Return the cycle at which the last instruction ends, or any from `most` on if it is not below.

        Parameters
        ----------
        work : int, shape (engines,)
            Cycles that each engine works, at least.
        """
        return self._run(_NOTHING, most, work)[0]

    @cached_property
    def _counted(self) -> tuple[int, int]:
        return self._run(_NOTHING, _NEVER, _NO_WORK)

    def instructions(self) -> Iterator[Instruction]:
        """Return all instructions, in the order in which they are issued."""
        records = np.zeros((self._counted[1], len(Record)), dtype=np.int64)
        self._run(records, _NEVER, _NO_WORK)
        for engine, what, feature, start, finish, *box, place in records.tolist():
            rows, columns, channels, summed = ((box[k], box[k + 1]) for k in range(0, 8, 2))
            name = ENGINES[engine] if engine >= 0 else None
            yield Instruction(
                name, WHAT[what], feature, start, finish, rows, columns, channels, summed, place
            )
