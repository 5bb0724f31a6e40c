"""Compiled: what a subgraph takes with a granularity, in ticks, for each order of tiles.

Steps between those in which something begins or ends are alike, and so are tiles but for the last row and
column and for what stays from the tile before. So nothing here is as long as the execution. What a tile
shares with the one before is 1 for its row, 2 for its column, 0 for neither, -1 for the first tile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.scheduling.structure import LONGEST

INFEASIBLE = 2**62
"""What nothing costs that is possible, and what stands for all that takes longer than `LONGEST`."""

COARSE = 4
"""Of so many sizes of tiles, one is tried before all are."""

Ints = NDArray[np.int64]


@jit.lean
def merge(given: Ints, slices: Ints, height_tiles: int, width_tiles: int, depth_step: int) -> int:
    """Write slices as a granularity makes them, equal ones once; return how many they are.

    An axis that follows the tile or the step is whole where there is one of them.
    """
    count = 0
    for n in range(len(given)):
        kind_rows, kind_columns = given[n, 3], given[n, 4]
        if (kind_rows == 1 and height_tiles == 1) or (kind_rows == 2 and given[n, 1] <= depth_step):
            kind_rows = 0
        if (kind_columns == 1 and width_tiles == 1) or (kind_columns == 2 and given[n, 2] <= depth_step):
            kind_columns = 0
        found = -1
        for m in range(count - 1, -1, -1):
            if slices[m, 0] != given[n, 0]:
                break
            if slices[m, 3] == kind_rows and slices[m, 4] == kind_columns:
                found = m
        if found >= 0:
            slices[found, 5] = max(slices[found, 5], given[n, 5])
            slices[found, 6] = max(slices[found, 6], given[n, 6])
            continue
        for column in range(3):
            slices[count, column] = given[n, column]
        slices[count, 3], slices[count, 4] = kind_rows, kind_columns
        slices[count, 5], slices[count, 6] = given[n, 5], given[n, 6]
        count += 1
    return count


@jit.lean
def extent(kind: int, size: int, tile: int, step: int) -> int:
    """Return how long a slice is at most."""
    if kind == 1:
        return min(size, tile)
    if kind == 2:
        return min(size, step)
    return size


@jit.lean
def step_times(
    slices: Ints,
    count: int,
    works: Ints,
    outputs: int,
    w: int,
    h: int,
    k: int,
    s: int,
    steps: int,
    share: int,
    unit: int,
    per: int,
) -> tuple[int, int]:
    """Return (compute, transfers) of a step of a tile of w x h, in ticks."""
    compute = 0
    for n in range(len(works)):
        kind, ticks, depth = works[n, 0], works[n, 1], works[n, 2]
        if kind <= 1:
            if s * k < depth:
                compute += ticks * min(k, depth - s * k)
        elif (kind == 2 and s == 0) or (kind == 3 and s == steps - 1):
            compute += ticks
    moved = 0
    for n in range(count):
        kind_rows, kind_columns = slices[n, 3], slices[n, 4]
        depth, last = slices[n, 5], slices[n, 6]
        if not (s * k < depth or (last and s == steps - 1)):
            continue
        if kind_rows != 2 and kind_columns != 2:
            if s > 0:
                if (s - 1) * k < depth:
                    continue
            elif share >= 0 and ((steps - 1) * k < depth or last):
                by_row, by_column = kind_rows == 1, kind_columns == 1
                if not ((by_row and share != 1) or (by_column and share != 2)):
                    continue
        rows = slices[n, 1] if kind_rows == 0 else h if kind_rows == 1 else min(k, slices[n, 1] - s * k)
        columns = (
            slices[n, 2] if kind_columns == 0 else w if kind_columns == 1 else min(k, slices[n, 2] - s * k)
        )
        moved += rows * columns
    if s == steps - 1:
        moved += outputs * w * h
    if per == 1:
        return compute, moved * unit
    return compute, moved // per * unit + (moved % per * unit + per - 1) // per


@jit.lean
def marked(marks: Ints, count: int, mark: int, steps: int) -> int:
    """Put the number of a step among the sorted first `count` marks, once; return how many there are."""
    if mark >= steps:
        return count
    place = count
    while place > 0 and marks[place - 1] >= mark:
        place -= 1
    if place < count and marks[place] == mark:
        return count
    for m in range(count, place, -1):
        marks[m] = marks[m - 1]
    marks[place] = mark
    return count + 1


@jit.lean
def tile_times(
    slices: Ints,
    count: int,
    works: Ints,
    outputs: int,
    w: int,
    h: int,
    k: int,
    steps: int,
    share: int,
    unit: int,
    per: int,
    marks: Ints,
    totals: Ints,
) -> int:
    """Return the ticks of a tile; into `totals` its (compute, transfers)."""
    marks[0] = 0
    n_marks = marked(marks, 1, steps - 1, steps)
    n_marks = marked(marks, n_marks, 1, steps)
    for n in range(len(works) + count):
        depth = works[n, 2] if n < len(works) else slices[n - len(works), 5]
        if depth > 0:
            end = (depth + k - 1) // k
            n_marks = marked(marks, n_marks, end - 1, steps)
            n_marks = marked(marks, n_marks, end, steps)
    total = computed = moved = 0
    for m in range(n_marks):
        s = marks[m]
        compute, move = step_times(slices, count, works, outputs, w, h, k, s, steps, share, unit, per)
        total += max(compute, move)
        computed += compute
        moved += move
        many = (marks[m + 1] if m + 1 < n_marks else steps) - s - 1
        if many > 0:
            compute, move = step_times(slices, count, works, outputs, w, h, k, s + 1, steps, share, unit, per)
            total += many * max(compute, move)
            computed += many * compute
            moved += many * move
    totals[0], totals[1] = computed, moved
    return total


@jit.lean
def working_set(slices: Ints, count: int, outputs: int, w: int, h: int, k: int) -> int:
    """Return the elements of all slices of a step, and of the tiles of outputs."""
    held = outputs * w * h
    for n in range(count):
        held += extent(slices[n, 3], slices[n, 1], h, k) * extent(slices[n, 4], slices[n, 2], w, k)
    return held


@jit.lean
def grid_times(
    given: Ints,
    works: Ints,
    width: int,
    height: int,
    outputs: int,
    w: int,
    h: int,
    k: int,
    unit: int,
    per: int,
    found: Ints,
    scratch: Ints,
    marks: Ints,
    totals: Ints,
    table: Ints,
) -> None:
    """Fill `found` with: working set, ticks by order, and the least that compute or transfers alone take."""
    tile_rows, tile_columns = (height + h - 1) // h, (width + w - 1) // w
    slices = scratch
    count = merge(given, slices, tile_rows, tile_columns, k)
    w, h = min(w, width), min(h, height)
    found[0] = working_set(slices, count, outputs, w, h, k)
    steps = 1
    for n in range(len(works)):
        steps = max(steps, (works[n, 2] + k - 1) // k)
    last_h, last_w = height - (tile_rows - 1) * h, width - (tile_columns - 1) * w
    # Tiles by (last row, last column, what they share: -1, 0, 1, 2): ticks, compute, transfers.
    for edge in range(4):
        tile_h, tile_w = (last_h if edge & 1 else h), (last_w if edge & 2 else w)
        if (edge & 1 and last_h == h) or (edge & 2 and last_w == w):
            continue
        for share in range(-1, 3):
            place = edge * 4 + share + 1
            table[place, 0] = tile_times(
                slices, count, works, outputs, tile_w, tile_h, k, steps, share, unit, per, marks, totals
            )
            table[place, 1], table[place, 2] = totals[0], totals[1]
    clipped_rows, clipped_columns = last_h != h, last_w != w
    found[5] = 2**62
    for order in range(4):
        by_column = order % 2 == 1
        outer, inner = (tile_columns, tile_rows) if by_column else (tile_rows, tile_columns)
        total = computed = moved = 0
        long = 0.0  # the total again: as it is not wrong where it is too large for a whole number
        for line in range(outer):
            backwards = order >= 2 and line % 2 == 1
            for part in range(3):  # the first tile of a line, those between, the last
                if (part == 1 and inner < 3) or (part == 2 and inner < 2):
                    continue
                many = inner - 2 if part == 1 else 1
                at_end = (part != 1 and (part == 0) == backwards and inner > 1) or inner == 1
                line_end, end = line == outer - 1, at_end
                edge = 0
                if by_column:
                    edge = int(clipped_rows and end) + 2 * int(clipped_columns and line_end)
                else:
                    edge = int(clipped_rows and line_end) + 2 * int(clipped_columns and end)
                if part > 0:
                    share = 2 if by_column else 1
                elif line == 0:
                    share = -1
                elif order >= 2 or inner == 1:
                    share = 1 if by_column else 2
                else:
                    share = 0
                place = edge * 4 + share + 1
                total += many * table[place, 0]
                long += float(many) * table[place, 0]
                computed += many * table[place, 1]
                moved += many * table[place, 2]
        if long > LONGEST:  # so compute and transfers may be too large, too
            found[1 + order] = INFEASIBLE
            continue
        found[1 + order] = total
        found[5] = min(found[5], max(computed, moved))


@jit.kernel(nogil=True)
def evaluate(
    given: Ints,
    works: Ints,
    width: int,
    height: int,
    outputs: int,
    w: int,
    h: int,
    k: int,
    unit: int,
    per: int,
    order: Ints,
) -> Ints:
    """Return the working set without what is kept, the ticks of each named order, a bound, and of one more.

    Parameters
    ----------
    order
        Numbers of tiles, row by row, in the order in which they are computed; may be empty.
    """
    found = np.zeros(7, dtype=np.int64)
    scratch = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    totals = np.zeros(2, dtype=np.int64)
    table = np.zeros((16, 3), dtype=np.int64)
    grid_times(given, works, width, height, outputs, w, h, k, unit, per, found, scratch, marks, totals, table)
    w, h = min(w, width), min(h, height)
    rows, columns = (height + h - 1) // h, (width + w - 1) // w
    before = -1
    long = 0.0
    for tile in order:
        row, column = tile // columns, tile % columns
        share = -1
        if before >= 0:
            share = 1 if before // columns == row else 2 if before % columns == column else 0
        edge = 0
        if row == rows - 1 and height - (rows - 1) * h != h:
            edge += 1
        if column == columns - 1 and width - (columns - 1) * w != w:
            edge += 2
        found[6] += table[edge * 4 + share + 1, 0]
        long += table[edge * 4 + share + 1, 0]
        before = tile
    if long > LONGEST:
        found[6] = INFEASIBLE
    return found


@jit.lean
def mark_alike(given: Ints, ks: Ints, alike: Ints) -> None:
    """Write for each depth of a step the last of those behind it for which the same slices are whole."""
    for place in range(len(ks) - 1, -1, -1):
        alike[place] = place
        if place + 1 < len(ks):
            same = True
            for n in range(len(given)):
                for axis in range(1, 3):
                    if given[n, 2 + axis] == 2 and ks[place + 1] < given[n, axis] <= ks[place]:
                        same = False
            if same:
                alike[place] = alike[place + 1]


@jit.lean
def first_fitting(
    given: Ints,
    scratch: Ints,
    width: int,
    height: int,
    outputs: int,
    room: int,
    w: int,
    h: int,
    ks: Ints,
    alike: Ints,
) -> int:
    """Return the place of the deepest step whose slices fit, of depths that fall; their number without one.

    Among depths for which the same slices are whole, deeper steps take more room.
    """
    tile_rows, tile_columns = (height + h - 1) // h, (width + w - 1) // w
    w, h = min(w, width), min(h, height)
    begin = 0
    while begin < len(ks):
        end = alike[begin]
        count = merge(given, scratch, tile_rows, tile_columns, ks[end])
        if working_set(scratch, count, outputs, w, h, ks[end]) > room:
            begin = end + 1
            continue
        low = begin
        while low < end:
            middle = (low + end) // 2
            count = merge(given, scratch, tile_rows, tile_columns, ks[middle])
            if working_set(scratch, count, outputs, w, h, ks[middle]) > room:
                low = middle + 1
            else:
                end = middle
        return low
    return len(ks)


@jit.lean
def least_moved(slices: Ints, count: int, tile_rows: int, tile_columns: int, most: int) -> int:
    """Return the elements that are loaded at least: all, and what follows the steps anew for each tile.

    Beyond `most`, one more than that.
    """
    moved = 0
    for n in range(count):
        elements, often = slices[n, 1] * slices[n, 2], 1
        if slices[n, 3] == 2 or slices[n, 4] == 2:
            often = (1 if slices[n, 3] == 1 else tile_rows) * (1 if slices[n, 4] == 1 else tile_columns)
        if elements > (most - moved) // often:
            return most + 1
        moved += elements * often
    return moved


@jit.kernel(nogil=True)
def best_granularity(
    given: Ints,
    works: Ints,
    width: int,
    height: int,
    outputs: int,
    room: int,
    ws: Ints,
    hs: Ints,
    ks: Ints,
    unit: int,
    per: int,
    known: int,
) -> Ints:
    """Return (ticks, w, h, k, order) of the fastest granularity that fits, better than `known`.

    Parameters
    ----------
    room
        Elements of the memory that slices may take.
    ws, hs, ks
        Sizes to choose from, descending.
    """
    found = np.zeros(6, dtype=np.int64)
    scratch = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    totals = np.zeros(2, dtype=np.int64)
    table = np.zeros((16, 3), dtype=np.int64)
    answer = np.full(5, -1, dtype=np.int64)
    answer[0] = known
    alike = np.zeros(len(ks), dtype=np.int64)
    mark_alike(given, ks, alike)
    per_tile = 0
    for n in range(len(works)):
        per_tile += works[n, 1] * max(works[n, 2], 1)
    most = LONGEST // unit  # elements that may be moved
    most = most * per if most < LONGEST // per else LONGEST
    for stride in (COARSE, 1):  # a good time, found early, spares most others
        for row in range(0, len(ws), stride):
            w = ws[row]
            for column in range(0, len(hs), stride):
                h = hs[column]
                tile_rows, tile_columns = (height + h - 1) // h, (width + w - 1) // w
                tiles = tile_rows * tile_columns
                if per_tile > LONGEST // tiles or tiles * per_tile >= answer[0]:
                    break  # smaller tiles are more
                first = first_fitting(given, scratch, width, height, outputs, room, w, h, ks, alike)
                if first == len(ks):
                    continue
                count = merge(given, scratch, tile_rows, tile_columns, ks[first])
                moved = least_moved(scratch, count, tile_rows, tile_columns, most) + outputs * width * height
                if moved > most or moved // per * unit + moved % per * unit // per >= answer[0]:
                    continue
                low = 0
                full = False
                for place in range(first, len(ks)):
                    k = ks[place]
                    count = merge(given, scratch, tile_rows, tile_columns, k)
                    if working_set(scratch, count, outputs, min(w, width), min(h, height), k) > room:
                        continue
                    grid_times(
                        given,
                        works,
                        width,
                        height,
                        outputs,
                        w,
                        h,
                        k,
                        unit,
                        per,
                        found,
                        scratch,
                        marks,
                        totals,
                        table,
                    )
                    for order in range(4):
                        if found[1 + order] < answer[0]:
                            answer[0] = found[1 + order]
                            answer[1], answer[2], answer[3], answer[4] = w, h, k, order
                    if low == 0:
                        low = found[5]
                        full = place == 0
                    if low >= answer[0]:
                        break  # no smaller step moves or computes less
                if full:
                    break  # nothing would be won by a smaller tile but more of them
    return answer
