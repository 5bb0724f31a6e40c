"""The exact search in several rooms, one behind the other, of which each buffer lies in one.

A buffer after the other is put into a room, the largest over time first, as long as what lives together fits
by size. When all are in rooms, each room is packed by itself. If that is impossible for what is in one, the
last of these buffers comes into another room: no matter where the others are, these do not fit together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.addresses.exact.packing import Packing, pack
from tilewright.addresses.sections import Sections
from tilewright.core.branch_and_bound import share_of

Numbers = NDArray[np.int64]

SHARE = 0.2
"""Share of the time left in which a single room is packed."""

LOOKED_AT = 1024
"""Decisions between two looks at the clock."""


def pack_in_rooms(
    lower: ArrayLike, upper: ArrayLike, size: ArrayLike, rooms: Sequence[int], *, deadline: float
) -> Packing:
    """Find offsets so that each buffer lies in one of several rooms.

    Parameters
    ----------
    lower, upper, size
        Of each buffer, as `pack` takes them.
    rooms
        Addresses of each room; offsets are counted from the first address of the first one.
    deadline
        ``time.monotonic()`` at which to give up.

    Returns
    -------
    Packing
        Offsets, or None and `proven` if there are none, or None and not `proven` if time was too short.
    """
    return _InRooms(lower, upper, size, rooms, deadline).run()


class _InRooms:
    """The search, by depth first.

    Attributes
    ----------
    room : shape (buffers,)
        The room of each buffer, in the order of the search; -1 before it is in one.
    left : shape (rooms, sections)
        What is free in each room while the buffers of a section live.
    """

    def __init__(
        self, lower: ArrayLike, upper: ArrayLike, size: ArrayLike, rooms: Sequence[int], deadline: float
    ) -> None:
        begins, ends, sizes = (np.asarray(each, dtype=np.int64) for each in (lower, upper, size))
        self.order = np.lexsort((begins, -sizes, -sizes * (ends - begins)))
        self.lower, self.upper, self.size = (each[self.order] for each in (begins, ends, sizes))
        self.rooms, self.deadline = tuple(rooms), deadline
        self.sections = Sections.of(self.lower, self.upper)
        self.left = np.repeat(np.array(rooms, dtype=np.int64)[:, None], self.sections.number, axis=1)
        self.room = np.full(len(sizes), -1, dtype=np.int64)
        self.complete = True
        self._packed: dict[tuple[int, bytes], Numbers | None] = {}

    def run(self) -> Packing:
        """Return offsets, if there are any."""
        depth, looks = 0, 0
        while depth >= 0:
            looks += 1
            if looks % LOOKED_AT == 0 and time.monotonic() > self.deadline:
                return Packing(None, proven=False)
            if depth == len(self.size):
                offsets, last = self._pack()
                if offsets is not None:
                    return Packing(offsets, proven=True)
                if time.monotonic() > self.deadline:
                    return Packing(None, proven=False)
                for place in range(last + 1, depth):
                    self._take_out(place)
                depth = last
            depth += 1 if self._put_into_next(depth) else -1
        return Packing(None, proven=self.complete)

    def _put_into_next(self, place: int) -> bool:
        """Put a buffer into the next room in which it fits; return whether there is one."""
        before = int(self.room[place])
        self._take_out(place)
        there = slice(self.sections.first[place], self.sections.last[place])
        empty = set[int]()
        for room, size in enumerate(self.rooms):
            if not (self.room[:place] == room).any():
                if size in empty:  # rooms of one size in which nothing is are alike
                    continue
                empty.add(size)
            if room > before and (self.left[room, there] >= self.size[place]).all():
                self.left[room, there] -= self.size[place]
                self.room[place] = room
                return True
        return False

    def _take_out(self, place: int) -> None:
        if self.room[place] >= 0:
            there = slice(self.sections.first[place], self.sections.last[place])
            self.left[self.room[place], there] += self.size[place]
            self.room[place] = -1

    def _pack(self) -> tuple[Numbers | None, int]:
        """Return offsets, or None and the last buffer of a room that cannot be packed."""
        offsets, begin = np.zeros(len(self.size), dtype=np.int64), 0
        for room, size in enumerate(self.rooms):
            inside = np.flatnonzero(self.room == room)
            key = size, inside.tobytes()
            if key not in self._packed:
                self._packed[key] = self._pack_one(inside, size)
            found = self._packed[key]
            if found is None:
                return None, int(inside[-1])
            offsets[self.order[inside]] = begin + found
            begin += size
        return offsets, 0

    def _pack_one(self, inside: Numbers, room: int) -> Numbers | None:
        """Return offsets of the buffers in a room."""
        if not len(inside):
            return inside
        packing = pack(
            self.lower[inside],
            self.upper[inside],
            self.size[inside],
            room,
            deadline=share_of(self.deadline, SHARE),
        )
        self.complete = self.complete and packing.proven
        return packing.offsets
