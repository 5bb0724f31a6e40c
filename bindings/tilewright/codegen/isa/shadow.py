"""Who wrote and read each element last: from that follows which order two accesses need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.isa.places import Region
from tilewright.fusion.machine import ENGINES

Counts = NDArray[np.int32]

Clock = tuple[int, ...]
"""For each engine, how many of its instructions have ended."""

BEGINNING: Clock = (0,) * len(ENGINES)


def merged(first: Clock, second: Clock) -> Clock:
    """Return the clock at which both of two clocks are reached."""
    return tuple(map(max, first, second))


def after(clock: Clock, engine: int) -> Clock:
    """Return the clock when one more instruction of an engine has ended."""
    return (*clock[:engine], clock[engine] + 1, *clock[engine + 1 :])


class Conflict(NamedTuple):
    """An access that must have ended before another one begins.

    Attributes
    ----------
    number
        Of the instruction on its engine, from 1.
    region
        What of the later access it touches.
    """

    engine: int
    number: int
    region: Region


class Shadow:
    """For each element and engine, the last instruction that wrote it and the last that read it.

    Parameters
    ----------
    sizes
        Elements of each memory, by the numbers that regions have as ``bank``.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._written: list[dict[int, Counts]] = [{} for _ in sizes]
        self._read: list[dict[int, Counts]] = [{} for _ in sizes]

    def conflicts(self, reads: Sequence[Region], writes: Sequence[Region]) -> list[Conflict]:
        """Return the latest access of each engine that conflicts with reading and writing regions."""
        found = []
        for region, tables in (
            *((region, (self._written,)) for region in reads),
            *((region, (self._written, self._read)) for region in writes),
        ):
            for table in tables:
                for engine, counts in table[region.bank].items():
                    count = max(int(view.max(initial=0)) for view in region.views(counts))
                    if count:
                        found.append(Conflict(engine, count, region))
        return found

    def lacks(self, region: Region) -> bool:
        """Return whether some value of a region was never written."""
        tables = list(self._written[region.bank].values())
        if not tables:
            return True
        pieces = zip(*(region.views(counts) for counts in tables), strict=True)
        return not all(bool(np.logical_or.reduce(piece).all()) for piece in pieces)

    def note(self, engine: int, count: int, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        """Note that an instruction reads and writes regions."""
        for regions, tables in ((reads, self._read), (writes, self._written)):
            for region in regions:
                table = tables[region.bank]
                if engine not in table:
                    table[engine] = np.zeros(self._sizes[region.bank], dtype=np.int32)
                for view in region.views(table[engine]):
                    view[...] = count
