"""The compiled search for offsets within a capacity: a buffer lies at its lowest place, or it does not.

Every plan can be pushed down until no buffer fits any lower; only such plans are looked for. The buffers
still to be placed lie above all that are placed and overlap them in time, so each has a lowest place, its
``top``. In a plan that is pushed down some buffer lies exactly there, and nothing to be placed fits below
it. The search takes one that may be it, and tries both: it lies there, or it lies higher, and then on top
of one that is still to be placed, which raises its ``low``, the least offset that is not excluded. So no
plan is met twice, whatever is chosen.

Time is cut into sections, the largest sets of buffers that live together. Those of a section lie one upon
the other, so with their least offsets there is a least height, as with jobs on one machine that have
release dates. A buffer that would leave the rest of a section no room lies on top of another one of that
section. When the buffers to be placed fall apart into sets that never live together, these parts are
searched one after the other: if one of them fails, the decisions made in the others are not to blame, and
are not tried again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.addresses.exact.rules import FULLEST, LOWEST
from tilewright.core import jit

Numbers = NDArray[np.int64]

INFEASIBLE, FEASIBLE, PAUSED, CRAMPED = -1, 1, 0, 2
"""What `advance` returns: no plan, a plan in `offset`, enough for now, out of space for the trail."""

FAR = 2**62
"""Larger than any offset."""

LOW, TOP, FLOOR, FULLNESS = 0, 1, 2, 3
"""Kinds of entries of the trail."""

DEPTH, PART, PARTS, TRAIL, WAITING, STARTED, WORK = range(7)
"""Places of `Search.at`: decisions, the part being searched, parts, entries of the trail, sections whose
bounds wait to be renewed, whether the search has begun, and how many buffers have been looked at."""


class Search(NamedTuple):
    """A search, which can be interrupted between any two decisions.

    Attributes
    ----------
    size, most, priority : shape (buffers,)
        Sizes; the largest offset allowed; what is preferred, least first.
    first, last : shape (buffers,)
        Sections that a buffer lives in, the last exclusive.
    roof : shape (sections,)
        The highest end that any buffer of the section may have.
    neighbours, begins
        The buffers that overlap each one in time: ``neighbours[begins[i]:begins[i + 1]]``.
    members, opens
        The buffers of each section, sorted by `low` as they were when its bounds were last renewed.
    offset, low, top, fullness : shape (buffers,)
        Where a buffer lies, -1 unless it is placed; its least offset; the end of all placed below it; the
        largest `total` of its sections when its part was made.
    floor, total, cut, spare : shape (sections,)
        The end of what is placed in it; sizes to be placed; buffers to be placed that live in it and in the
        next one, too; room that is left at least unused.
    end, ender, second : shape (sections,)
        The least end of a buffer to be placed, whose it is, and the least of the others.
    stale, queue : shape (sections,)
        Which sections' bounds are out of date; a ring of those to be renewed.
    order : shape (buffers,)
        All buffers, those of a part side by side.
    parts : shape (8, most parts)
        Begin and end in `order`, first and last section, the part that is next, the one that it is a part of,
        decisions that made it, and when it was begun.
    chosen, within, trailed, parted : shape (buffers + 1,)
        Of each decision: which buffer, in which part, and how long the trail and the list of parts were.
    trail : shape (3, length)
        Kind, index and former value.
    at
        See `DEPTH` and so on.
    """

    size: Numbers
    most: Numbers
    priority: Numbers
    first: Numbers
    last: Numbers
    roof: Numbers
    neighbours: Numbers
    begins: Numbers
    members: Numbers
    opens: Numbers
    offset: Numbers
    low: Numbers
    top: Numbers
    fullness: Numbers
    floor: Numbers
    total: Numbers
    cut: Numbers
    spare: Numbers
    end: Numbers
    ender: Numbers
    second: Numbers
    stale: Numbers
    queue: Numbers
    order: Numbers
    parts: Numbers
    chosen: Numbers
    within: Numbers
    trailed: Numbers
    parted: Numbers
    trail: Numbers
    at: Numbers


BEGIN, END, OPEN, CLOSE, NEXT, WHOLE, MADE, BASE = range(8)
"""Rows of `Search.parts`."""


@jit.lean
def _renew(search: Search, section: int) -> bool:
    """Bring a section's bounds up to date; return whether its buffers may still fit."""
    members, low, size = search.members, search.low, search.size
    begin, end = search.opens[section], search.opens[section + 1]
    for place in range(begin, end):  # nearly sorted, as it was sorted before
        buffer = members[place]
        least = low[buffer]
        hole = place
        while hole > begin and low[members[hole - 1]] > least:
            members[hole] = members[hole - 1]
            hole -= 1
        members[hole] = buffer
    search.at[WORK] += end - begin
    height = search.floor[section]
    lowest, second, whose = FAR, FAR, -1
    for place in range(begin, end):
        buffer = members[place]
        if search.offset[buffer] >= 0:
            continue
        least = low[buffer]
        height = max(height, least) + size[buffer]
        least += size[buffer]
        if least < lowest:
            lowest, second, whose = least, lowest, buffer
        elif least < second:
            second = least
    search.end[section], search.ender[section], search.second[section] = lowest, whose, second
    search.spare[section] = search.roof[section] - height
    search.stale[section] = 0
    return bool(height <= search.roof[section])


@jit.lean
def _wake(search: Search, buffer: int) -> None:
    """Have the bounds of a buffer's sections renewed."""
    for section in range(search.first[buffer], search.last[buffer]):
        if search.stale[section] == 0:
            search.stale[section] = 1
            search.queue[search.at[WAITING] % len(search.queue)] = section
            search.at[WAITING] += 1


@jit.lean
def _note(search: Search, kind: int, index: int, value: int) -> None:
    """Write a former value to the trail."""
    place = search.at[TRAIL]
    search.trail[0, place], search.trail[1, place], search.trail[2, place] = kind, index, value
    search.at[TRAIL] = place + 1


@jit.lean
def _least_end_of_others(search: Search, section: int, buffer: int) -> int:
    """Return the least end of the buffers of a section that are to be placed, other than one."""
    return int(search.second[section] if search.ender[section] == buffer else search.end[section])


@jit.lean
def _lowest_support(search: Search, buffer: int) -> int:
    """Return the least offset on top of a buffer that is still to be placed."""
    least = FAR
    for section in range(search.first[buffer], search.last[buffer]):
        least = min(least, _least_end_of_others(search, section, buffer))
    return least


@jit.lean
def _renew_waiting(search: Search, most_raises: int) -> bool:
    """Renew bounds until nothing changes, or enough has; return False where no plan is left."""
    done, raises = 0, 0
    while done < search.at[WAITING]:
        section = search.queue[done % len(search.queue)]
        done += 1
        if not _renew(search, section):
            return False
        if raises > most_raises:
            continue  # what is left out would only say more
        for place in range(search.opens[section], search.opens[section + 1]):
            buffer = search.members[place]
            if search.offset[buffer] >= 0:
                continue
            low, need = search.low[buffer], -1
            if low + search.total[section] > search.roof[section]:  # it is not the lowest of this section
                need = _least_end_of_others(search, section, buffer)
            if low > search.top[buffer]:  # it lies on one that is still to be placed
                need = max(need, _lowest_support(search, buffer))
            if need > low:
                if need > search.most[buffer]:
                    return False
                _note(search, LOW, buffer, low)
                search.low[buffer] = need
                _wake(search, buffer)
                raises += 1
    search.at[WAITING] = 0
    return True


@jit.lean
def _choice(search: Search, part: int, rule: int) -> int:
    """Return the buffer to be placed next, -1 if none can be the lowest."""
    best, best_offset, best_spare = -1, FAR, FAR
    search.at[WORK] += search.parts[END, part] - search.parts[BEGIN, part]
    for place in range(search.parts[BEGIN, part], search.parts[END, part]):
        buffer = search.order[place]
        offset = search.top[buffer]
        if search.offset[buffer] >= 0 or search.low[buffer] != offset or offset > best_offset:
            continue
        spare = FAR
        fits = True
        for section in range(search.first[buffer], search.last[buffer]):
            if search.end[section] <= offset:  # another one fits below it
                fits = False
                break
            spare = min(spare, search.spare[section])
        if rule == FULLEST:
            spare = -search.fullness[buffer]
        elif rule == LOWEST:
            spare = 0
        if not fits or (offset == best_offset and spare > best_spare):
            continue
        if offset < best_offset or spare < best_spare or search.priority[buffer] < search.priority[best]:
            best, best_offset, best_spare = buffer, offset, spare
    return best


@jit.lean
def _lift(search: Search, chosen: int) -> bool:
    """Raise least offsets to the lowest place of those to be placed; return whether any was less."""
    part, offset, lifted = search.at[PART], search.top[chosen], False
    for place in range(search.parts[BEGIN, part], search.parts[END, part]):
        buffer = search.order[place]
        if search.offset[buffer] < 0 and search.low[buffer] < offset:
            _note(search, LOW, buffer, search.low[buffer])
            search.low[buffer] = offset
            _wake(search, buffer)
            lifted = True
    return lifted


@jit.lean
def _undo(search: Search) -> None:
    """Take back the last decision."""
    depth = search.at[DEPTH] - 1
    buffer = search.chosen[depth]
    search.at[DEPTH], search.at[PART], search.at[PARTS] = depth, search.within[depth], search.parted[depth]
    for place in range(search.at[TRAIL] - 1, search.trailed[depth] - 1, -1):
        kind, index, value = search.trail[0, place], search.trail[1, place], search.trail[2, place]
        if kind == FLOOR:
            search.floor[index] = value
        elif kind == TOP:
            search.top[index] = value
        elif kind == FULLNESS:
            search.fullness[index] = value
        else:
            search.low[index] = value
            for section in range(search.first[index], search.last[index]):
                search.stale[section] = 1
    search.at[TRAIL] = search.trailed[depth]
    search.offset[buffer] = -1
    for section in range(search.first[buffer], search.last[buffer]):
        search.total[section] += search.size[buffer]
        search.stale[section] = 1
        if section + 1 < search.last[buffer]:
            search.cut[section] += 1


@jit.lean
def _fail(search: Search) -> bool:
    """Go back to the last decision that may be to blame and decide otherwise; False if there is none."""
    search.at[WAITING] = 0
    while True:
        part = search.at[PART]
        while search.at[DEPTH] == search.parts[BASE, part]:
            # No plan for this part: what made it is to blame, and no decision in the parts before it.
            if search.parts[MADE, part] == 0:
                return False
            made, whole = search.parts[MADE, part], search.parts[WHOLE, part]
            while search.at[DEPTH] > made:
                _undo(search)
            part = whole
            search.at[PART] = part
        _undo(search)
        part = search.at[PART]
        buffer = search.chosen[search.at[DEPTH]]
        for section in range(search.parts[OPEN, part], search.parts[CLOSE, part]):
            if search.stale[section]:
                _renew(search, section)
        support = _lowest_support(search, buffer)
        if support <= search.most[buffer]:
            _note(search, LOW, buffer, search.low[buffer])
            search.low[buffer] = support
            _wake(search, buffer)
            return True


@jit.lean
def _place(search: Search, buffer: int) -> bool:
    """Place a buffer on its top; return False if another one does not fit any more."""
    depth, offset = search.at[DEPTH], search.top[buffer]
    search.chosen[depth], search.within[depth] = buffer, search.at[PART]
    search.trailed[depth], search.parted[depth] = search.at[TRAIL], search.at[PARTS]
    search.at[DEPTH] = depth + 1
    search.offset[buffer] = offset
    height = offset + search.size[buffer]
    for section in range(search.first[buffer], search.last[buffer]):
        search.total[section] -= search.size[buffer]
        _note(search, FLOOR, section, search.floor[section])
        search.floor[section] = height
        if section + 1 < search.last[buffer]:
            search.cut[section] -= 1
    _wake(search, buffer)
    for place in range(search.begins[buffer], search.begins[buffer + 1]):
        other = search.neighbours[place]
        if search.offset[other] >= 0 or search.top[other] >= height:
            continue
        _note(search, TOP, other, search.top[other])
        search.top[other] = height
        if search.low[other] < height:
            _note(search, LOW, other, search.low[other])
            search.low[other] = height
            if height > search.most[other]:
                return False
            _wake(search, other)
    return True


@jit.lean
def _split(search: Search, part: int, begin: int, made: int) -> None:
    """Append the parts that a stretch of `order` falls into, from `begin` to the end of the part."""
    parts, order = search.parts, search.order
    opened, close = parts[OPEN, part], parts[CLOSE, part]
    before = -1
    for section in range(opened, close):
        if section + 1 < close and search.cut[section] > 0:
            continue
        end = begin
        for place in range(begin, parts[END, part]):
            buffer = order[place]
            if search.first[buffer] <= section:
                order[place], order[end] = order[end], buffer
                end += 1
                _note(search, FULLNESS, buffer, search.fullness[buffer])
                most = 0
                for own in range(search.first[buffer], search.last[buffer]):
                    most = max(most, search.total[own])
                search.fullness[buffer] = most
        if end > begin:
            new = search.at[PARTS]
            search.at[PARTS] = new + 1
            parts[BEGIN, new], parts[END, new] = begin, end
            parts[OPEN, new], parts[CLOSE, new] = opened, section + 1
            parts[WHOLE, new], parts[MADE, new], parts[NEXT, new] = part, made, parts[NEXT, part]
            if before >= 0:
                parts[NEXT, before] = new
            before = new
        begin, opened = end, section + 1


@jit.lean
def _go_on(search: Search, buffer: int) -> bool:
    """Choose the part to search after a buffer has been placed; return whether any is left."""
    part = search.at[PART]
    splits = False
    for section in range(search.first[buffer], search.last[buffer] - 1):
        splits = splits or search.cut[section] == 0
    placed, end = search.parts[BEGIN, part], search.parts[END, part]
    for place in range(placed, end):  # what is placed goes to the front
        one = search.order[place]
        if search.offset[one] >= 0:
            search.order[place], search.order[placed] = search.order[placed], one
            placed += 1
    if placed < end and not splits:
        return True
    following = search.parts[NEXT, part]
    if placed < end:
        following = search.at[PARTS]
        _split(search, part, placed, search.at[DEPTH])
    if following < 0:
        return False
    search.at[PART] = following
    search.parts[BASE, following] = search.at[DEPTH]
    return True


@jit.kernel(nogil=True)
def advance(search: Search, rule: int, work: int, most_raises: int) -> int:
    """Search on.

    Parameters
    ----------
    search
        Begun by `packing`; it is changed, and goes on from there the next time.
    rule
        What is taken first; see `rules`.
    work
        About how many buffers are looked at before it pauses: it takes time in proportion.
    most_raises
        Most offsets raised between two decisions.

    Returns
    -------
    int
        `INFEASIBLE`, `FEASIBLE`, `PAUSED` or `CRAMPED`.
    """
    at = search.at
    needed = 2 * most_raises + 5 * len(search.size) + len(search.floor)
    if at[STARTED] == 0:
        if needed > search.trail.shape[1]:
            return CRAMPED
        at[STARTED] = 1
        for buffer in range(len(search.size)):
            if search.most[buffer] < 0:
                return INFEASIBLE
        fits = True
        for section in range(len(search.floor)):
            fits = _renew(search, section) and fits
        if not fits:
            return INFEASIBLE
        _split(search, 0, 0, 0)
        at[PART] = 1
    until = at[WORK] + work
    while at[WORK] < until:
        if at[TRAIL] + needed > search.trail.shape[1]:
            return CRAMPED
        chosen = -1
        if _renew_waiting(search, most_raises):
            chosen = _choice(search, at[PART], rule)
            if chosen >= 0 and _lift(search, chosen):
                continue
        if chosen < 0:
            if not _fail(search):
                return INFEASIBLE
            continue
        if not _place(search, chosen):
            if not _fail(search):
                return INFEASIBLE
        elif not _go_on(search, chosen):
            return FEASIBLE
    return PAUSED
