"""Compiled: what a subgraph takes with a granularity, in ticks, for each order of tiles, and the best of all.

Steps between those in which something begins or ends are alike, and so are tiles but for the last row and
column and for what stays from the tile before. So nothing here is as long as the execution. What a tile
shares with the one before is 1 for its row, 2 for its column, 0 for neither, -1 for the first tile.

A `frame` is (width and height of the outputs, how many are written, tiles that sums take beside them where a
tile takes several steps, ticks and elements of a transfer). A `box` is (w, most w, h, most h, k, most k): of
granularities with the same numbers of tiles and steps.
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

MOST_TRIED = 12
"""Tiles of which all orders are tried."""

MOST_LISTED = 2**14
"""Tiles whose order a plan may list; of more, it has an order that has a name."""

MOST_BOXES = 2**14
"""Boxes of granularities that are looked at for a subgraph, beyond which there is a bound, and no proof."""

DEEPEST = 64
"""Boxes in boxes: each has half as many sizes of one kind."""

UNSEEN, SEEN, CORNER = 0, 1, 2
"""A box whose least granularity has not been looked at; one where it has; the least granularity itself."""

EXACT = 2**60
"""Elements that are counted; times of more are bounded by those of the steps."""

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
def parts(depth: int, k: int) -> int:
    """Return in how many steps so many products are added up."""
    return (depth + k - 1) // k


@jit.lean
def part(depth: int, k: int, k_most: int, s: int) -> int:
    """Return the products of a step, or the fewest of them for steps of k to `k_most`, which are as many."""
    last = parts(depth, k) - 1
    return k if s < last else depth - last * k_most


@jit.lean
def beside(slices: Ints, count: int, n: int, k: int, steps: int, aligned: int) -> bool:
    """Whether what Pointwise operations read of a tile is a slice of its last step in any case.

    Parameters
    ----------
    aligned
        Of a tile in the last row, 1 if it has the rows of the last step; 2 likewise for columns.
    """
    for m in range(count):
        if m == n or slices[m, 0] != slices[n, 0] or parts(slices[m, 5], k) < steps:
            continue
        rows = slices[m, 3] == slices[n, 3] or (slices[n, 3] == 1 and slices[m, 3] == 2 and aligned & 1)
        columns = slices[m, 4] == slices[n, 4] or (slices[n, 4] == 1 and slices[m, 4] == 2 and aligned & 2)
        if rows and columns:
            return True
    return False


@jit.lean
def step_times(
    slices: Ints,
    count: int,
    works: Ints,
    frame: Ints,
    w: int,
    h: int,
    k: int,
    k_most: int,
    s: int,
    steps: int,
    share: int,
    aligned: int,
) -> tuple[int, int]:
    """Return (compute, transfers) of a step of a tile of w x h, in ticks."""
    compute = 0
    for n in range(len(works)):
        kind, ticks, depth = works[n, 0], works[n, 1], works[n, 2]
        if kind <= 1:
            if s < parts(depth, k):
                compute += ticks * part(depth, k, k_most, s)
        elif (kind == 2 and s == 0) or (kind == 3 and s == steps - 1):
            compute += ticks
    moved = 0
    for n in range(count):
        kind_rows, kind_columns = slices[n, 3], slices[n, 4]
        held, last = parts(slices[n, 5], k), slices[n, 6]
        if not (s < held or (last and s == steps - 1)):
            continue
        if kind_rows != 2 and kind_columns != 2:
            if s > 0:
                if s - 1 < held:
                    continue
            elif share >= 0 and (steps - 1 < held or last):
                by_row, by_column = kind_rows == 1, kind_columns == 1
                if not ((by_row and share != 1) or (by_column and share != 2)):
                    continue
            if aligned and s == steps - 1 and s >= held and beside(slices, count, n, k, steps, aligned):
                continue
        rows = slices[n, 1] if kind_rows == 0 else h if kind_rows == 1 else part(slices[n, 1], k, k_most, s)
        columns = (
            slices[n, 2]
            if kind_columns == 0
            else w
            if kind_columns == 1
            else part(slices[n, 2], k, k_most, s)
        )
        moved += rows * columns
    if s == steps - 1:
        moved += frame[2] * w * h
    unit, per = frame[4], frame[5]
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
    frame: Ints,
    w: int,
    h: int,
    k: int,
    k_most: int,
    steps: int,
    aligned: int,
    marks: Ints,
    times: Ints,
) -> None:
    """Fill `times` with the ticks of a tile by what it shares with the one before, from -1 on."""
    marks[0] = 0
    n_marks = marked(marks, 1, steps - 1, steps)
    n_marks = marked(marks, n_marks, 1, steps)
    for n in range(len(works) + count):
        depth = works[n, 2] if n < len(works) else slices[n - len(works), 5]
        if depth > 0:
            end = parts(depth, k)
            n_marks = marked(marks, n_marks, end - 1, steps)
            n_marks = marked(marks, n_marks, end, steps)
    total = 0  # of all steps but the first one
    for m in range(1, n_marks):
        s = marks[m]
        compute, move = step_times(slices, count, works, frame, w, h, k, k_most, s, steps, 0, aligned)
        total += max(compute, move)
        many = (marks[m + 1] if m + 1 < n_marks else steps) - s - 1
        if many > 0:
            compute, move = step_times(slices, count, works, frame, w, h, k, k_most, s + 1, steps, 0, aligned)
            total += many * max(compute, move)
    for share in range(-1, 3):
        compute, move = step_times(slices, count, works, frame, w, h, k, k_most, 0, steps, share, aligned)
        times[share + 1] = total + max(compute, move)


@jit.lean
def working_set(slices: Ints, count: int, frame: Ints, w: int, h: int, k: int, steps: int) -> int:
    """Return the elements of all slices of a step, and of tiles of outputs and of sums."""
    held = (frame[2] + (frame[3] if steps > 1 else 0)) * w * h
    for n in range(count):
        held += extent(slices[n, 3], slices[n, 1], h, k) * extent(slices[n, 4], slices[n, 2], w, k)
    return int(held)


@jit.lean
def most_steps(works: Ints, k: int) -> int:
    """Return the steps of a tile."""
    steps = 1
    for n in range(len(works)):
        steps = max(steps, parts(works[n, 2], k))
    return steps


@jit.lean
def held_at_once(given: Ints, slices: Ints, works: Ints, frame: Ints, w: int, h: int, k: int) -> int:
    """Return the working set of a granularity."""
    count = merge(given, slices, parts(frame[1], h), parts(frame[0], w), k)
    w, h = min(w, frame[0]), min(h, frame[1])
    return int(working_set(slices, count, frame, w, h, k, most_steps(works, k)))


@jit.lean
def grid_times(
    given: Ints, slices: Ints, works: Ints, frame: Ints, box: Ints, marks: Ints, table: Ints, grid: Ints
) -> int:
    """Fill a table of tiles: (last row, last column), by what they share from -1 on. Return how many slices.

    For a box of several granularities times are the least of each tile. Into `grid` go the numbers of rows
    that are alike and of others, the same of columns, the steps, and what may be aligned: see `beside`.
    """
    width, height = frame[0], frame[1]
    k, k_most = box[4], box[5]
    rows, columns = parts(height, box[2]), parts(width, box[0])
    count = merge(given, slices, rows, columns, k)
    w, h = min(box[0], width), min(box[2], height)
    w_last, h_last = width - (columns - 1) * min(box[1], width), height - (rows - 1) * min(box[3], height)
    steps = most_steps(works, k)
    begin, begin_most = (steps - 1) * k, (steps - 1) * k_most
    aligned = 0
    if rows > 1 and steps > 1 and parts(height, k) == steps:
        aligned += int((rows - 1) * h <= begin_most and (rows - 1) * box[3] >= begin)
    if columns > 1 and steps > 1 and parts(width, k) == steps:
        aligned += 2 * int((columns - 1) * w <= begin_most and (columns - 1) * box[1] >= begin)
    odd_row = int(rows > 1 and (h_last != h or aligned & 1 != 0))
    odd_column = int(columns > 1 and (w_last != w or aligned & 2 != 0))
    grid[0], grid[1], grid[2], grid[3] = rows - odd_row, odd_row, columns - odd_column, odd_column
    grid[4], grid[5] = steps, aligned
    for edge in range(4):
        if (edge & 1 and not odd_row) or (edge & 2 and not odd_column):
            continue
        tile_h, tile_w = (h_last if edge & 1 else h), (w_last if edge & 2 else w)
        tile_times(
            slices, count, works, frame, tile_w, tile_h, k, k_most, steps, aligned & edge, marks, table[edge]
        )
        if columns == 1:
            table[edge, 2] = table[edge, 1]  # there is no other tile in the row
        if rows == 1:
            table[edge, 3] = table[edge, 1]
    return int(count)


@jit.lean
def line_by_line(table: Ints, grid: Ints, by_column: bool, relaxed: bool, costs: Ints, trace: Ints) -> int:
    """Return what the best order takes in which all tiles of a row, or of a column, follow each other.

    A line is entered at one of its tiles, the same column as the tile before or not, and left at another one.
    Lines that are alike have no order, and neither have their tiles. So all that matters is which kind of
    line comes, and which kind of tile it is entered and left at.

    Parameters
    ----------
    relaxed
        Return what no order at all undercuts: within a line, tiles share what is best for them, and the first
        line may be left at the tile at which it was entered. See docs/scheduling.md for why.
    costs, trace
        Scratch; of each line and state, what came before it, if there is place for that.
    """
    lines, odd, tiles, end = grid[0], grid[1], grid[2], grid[3]
    along, across = 2, 3
    if by_column:
        lines, odd, tiles, end = grid[2], grid[3], grid[0], grid[1]
        along, across = 3, 2
    for line in range(2):
        total = 0.0
        for tile in range(2):
            edge = (2 * line + tile) if by_column else (line + 2 * tile)
            inside = table[edge, along]
            if relaxed:
                inside = min(inside, table[edge, across])
            costs[2, 2 * line + tile] = inside
            total += float(inside) * (end if tile else tiles)
        if total > LONGEST and (odd if line else lines) > 0:
            return INFEASIBLE
        costs[3, line] = costs[2, 2 * line] * tiles + costs[2, 2 * line + 1] * end
    costs[0, 0] = 0
    for number in range(lines + odd):
        for state in range(4):
            costs[1, state] = INFEASIBLE
        for before in range(4 if number else 1):  # twice whether the other line is done, and where one left
            if costs[0, before] >= INFEASIBLE:
                continue
            done, left = before // 2, before % 2
            for line in range(2):
                if (line and (not odd or done)) or (not line and number - done >= lines):
                    continue
                for tile in range(2):
                    if not (end if tile else tiles):
                        continue
                    share = 0 if number == 0 else across if tile == left else 1
                    edge = (2 * line + tile) if by_column else (line + 2 * tile)
                    total = costs[0, before] + costs[3, line] - costs[2, 2 * line + tile] + table[edge, share]
                    if total > LONGEST:
                        continue
                    for leave in range(2):
                        there = end if leave else tiles
                        if leave == tile and tiles + end > 1 and not (relaxed and number == 0):
                            there -= 1
                        state = 2 * max(done, line) + leave
                        if there > 0 and total < costs[1, state]:
                            costs[1, state] = total
                            if number < len(trace):
                                trace[number, state] = 4 * before + 2 * line + tile
        for state in range(4):
            costs[0, state] = costs[1, state]
    return int(min(min(costs[0, 0], costs[0, 1]), min(costs[0, 2], costs[0, 3])))


@jit.lean
def order_times(table: Ints, grid: Ints, relaxed: bool, costs: Ints) -> int:
    """Return what the best order of rows or of columns takes or, relaxed, what no order undercuts."""
    found = -INFEASIBLE if relaxed else INFEASIBLE
    for way in range(2):
        time = line_by_line(table, grid, way == 1, relaxed, costs, costs[:0])
        found = max(found, time) if relaxed else min(found, time)
    return found


@jit.lean
def shared(tile: int, before: int, grid: Ints, table: Ints) -> int:
    """Return what a tile takes behind another one, -1 for none; tiles count row by row."""
    columns = grid[2] + grid[3]
    row, column = tile // columns, tile % columns
    edge = int(grid[1] and row == grid[0]) + 2 * int(grid[3] and column == grid[2])
    if before < 0:
        return int(table[edge, 0])
    return int(table[edge, 2 if before // columns == row else 3 if before % columns == column else 1])


@jit.lean
def shortest(table: Ints, grid: Ints, tours: Ints) -> int:
    """Return what the best of all orders takes; into `tours`, by the tiles that are left and the last one."""
    count = (grid[0] + grid[1]) * (grid[2] + grid[3])
    everything = (1 << count) - 1
    least = INFEASIBLE
    for done in range(1, everything + 1):
        for last in range(count):
            if not done >> last & 1:
                continue
            rest = done ^ (1 << last)
            best = INFEASIBLE
            if rest == 0:
                best = shared(last, -1, grid, table)
            for before in range(count):
                if rest >> before & 1 and tours[rest, before] < INFEASIBLE:
                    best = min(best, tours[rest, before] + shared(last, before, grid, table))
            tours[done, last] = best if best <= LONGEST else INFEASIBLE
            if done == everything:
                least = min(least, tours[done, last])
    return least


@jit.lean
def named_times(table: Ints, grid: Ints, found: Ints) -> None:
    """Fill `found` with the ticks of the orders that have a name."""
    tile_rows, tile_columns = grid[0] + grid[1], grid[2] + grid[3]
    for order in range(4):
        by_column = order % 2 == 1
        outer, inner = (tile_columns, tile_rows) if by_column else (tile_rows, tile_columns)
        total = 0
        long = 0.0  # the total again: as it is not wrong where it is too large for a whole number
        for line in range(outer):
            backwards = order >= 2 and line % 2 == 1
            for third in range(3):  # the first tile of a line, those between, the last
                if (third == 1 and inner < 3) or (third == 2 and inner < 2):
                    continue
                many = inner - 2 if third == 1 else 1
                end = (third != 1 and (third == 0) == backwards and inner > 1) or inner == 1
                line_end = line == outer - 1
                if by_column:
                    edge = int(grid[1] and end) + 2 * int(grid[3] and line_end)
                else:
                    edge = int(grid[1] and line_end) + 2 * int(grid[3] and end)
                if third > 0:
                    share = 2 if by_column else 1
                elif line == 0:
                    share = -1
                elif order >= 2 or inner == 1:
                    share = 1 if by_column else 2
                else:
                    share = 0
                total += many * table[edge, share + 1]
                long += float(many) * table[edge, share + 1]
        found[order] = INFEASIBLE if long > LONGEST else total


@jit.kernel(nogil=True)
def evaluate(given: Ints, works: Ints, frame: Ints, w: int, h: int, k: int, order: Ints) -> Ints:
    """Return the working set without what is kept, the ticks of each named order, and of one more.

    Parameters
    ----------
    order
        Numbers of tiles, row by row, in the order in which they are computed; may be empty.
    """
    found = np.zeros(6, dtype=np.int64)
    slices = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    table, grid = np.zeros((4, 4), dtype=np.int64), np.zeros(6, dtype=np.int64)
    found[0] = held_at_once(given, slices, works, frame, w, h, k)
    grid_times(given, slices, works, frame, np.array([w, w, h, h, k, k]), marks, table, grid)
    named_times(table, grid, found[1:5])
    before = -1
    long = 0.0
    for tile in order:
        time = shared(tile, before, grid, table)
        found[5] += time
        long += time
        before = tile
    if long > LONGEST:
        found[5] = INFEASIBLE
    return found


@jit.kernel(nogil=True)
def least_traffic(
    given: Ints, works: Ints, frame: Ints, room: int, ws: Ints, hs: Ints, ks: Ints, most: int
) -> Ints:
    """Return (elements moved, ticks, working set, order with a name, w, h, k) of what moves least.

    Of what moves as little it is the fastest, then that of least memory; -1 where nothing is fast enough.

    Parameters
    ----------
    ws, hs, ks
        Sizes to choose from.
    most
        Ticks that it may take.
    """
    slices = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    table, grid = np.zeros((4, 4), dtype=np.int64), np.zeros(6, dtype=np.int64)
    times, moves = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    answer = np.full(7, -1, dtype=np.int64)
    idle, counting = works.copy(), frame.copy()
    idle[:, 1] = 0
    counting[4] = counting[5] = 1
    for w in ws:
        for h in hs:
            for k in ks:
                held = held_at_once(given, slices, works, frame, w, h, k)
                if held > room:
                    continue
                box = np.array([w, w, h, h, k, k])
                grid_times(given, slices, works, frame, box, marks, table, grid)
                named_times(table, grid, times)
                if times.min() > most:
                    continue
                grid_times(given, slices, idle, counting, box, marks, table, grid)
                named_times(table, grid, moves)
                for order in range(4):
                    if times[order] > most:
                        continue
                    found = (moves[order], times[order], held)
                    if answer[0] < 0 or found < (answer[0], answer[1], answer[2]):
                        answer[0], answer[1], answer[2], answer[3] = moves[order], times[order], held, order
                        answer[4], answer[5], answer[6] = w, h, k
    return answer


@jit.kernel(nogil=True)
def best_lines(given: Ints, works: Ints, frame: Ints, w: int, h: int, k: int, by_column: bool) -> Ints:
    """Return the best order of rows, or of columns, of a granularity: see `line_by_line`.

    Returns
    -------
    shape (lines, 3)
        Of each line whether it is the last one of the grid, and whether it is entered and left at its last
        tile; with the ticks in front, and with the numbers of lines and tiles.
    """
    slices = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    table, grid = np.zeros((4, 4), dtype=np.int64), np.zeros(6, dtype=np.int64)
    costs = np.zeros((4, 4), dtype=np.int64)
    grid_times(given, slices, works, frame, np.array([w, w, h, h, k, k]), marks, table, grid)
    rows, columns = grid[0] + grid[1], grid[2] + grid[3]
    many = columns if by_column else rows
    trace = np.zeros((many, 4), dtype=np.int64)
    found = np.zeros((many + 1, 3), dtype=np.int64)
    found[0, 0] = line_by_line(table, grid, by_column, False, costs, trace)
    found[0, 1] = grid[1] if by_column else grid[3]
    state = np.argmin(costs[0])
    for number in range(many - 1, -1, -1):
        came = trace[number, state]
        found[number + 1, 0], found[number + 1, 1], found[number + 1, 2] = came // 2 % 2, came % 2, state % 2
        state = came // 4
    return found


@jit.kernel(nogil=True)
def best_tour(given: Ints, works: Ints, frame: Ints, w: int, h: int, k: int) -> Ints:
    """Return the ticks of the best of all orders of a few tiles, and these in that order."""
    slices = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    table, grid = np.zeros((4, 4), dtype=np.int64), np.zeros(6, dtype=np.int64)
    grid_times(given, slices, works, frame, np.array([w, w, h, h, k, k]), marks, table, grid)
    count = (grid[0] + grid[1]) * (grid[2] + grid[3])
    tours = np.zeros((1 << count, count), dtype=np.int64)
    found = np.zeros(count + 1, dtype=np.int64)
    found[0] = shortest(table, grid, tours)
    done = (1 << count) - 1
    for place in range(count, 0, -1):
        best = INFEASIBLE
        for last in range(count):
            if done >> last & 1:
                behind = 0 if place == count else shared(found[place + 1], last, grid, table)
                if tours[done, last] + behind < best:
                    best = tours[done, last] + behind
                    found[place] = last
        done ^= 1 << found[place]
    return found


@jit.lean
def mark_alike(given: Ints, works: Ints, ks: Ints, alike: Ints) -> None:
    """Write for each depth of a step the last of those behind it for which the same slices are whole."""
    for place in range(len(ks) - 1, -1, -1):
        alike[place] = place
        if place + 1 < len(ks):
            same = most_steps(works, ks[place]) > 1 or most_steps(works, ks[place + 1]) == 1
            for n in range(len(given)):
                for axis in range(1, 3):
                    if given[n, 2 + axis] == 2 and ks[place + 1] < given[n, axis] <= ks[place]:
                        same = False
            if same:
                alike[place] = alike[place + 1]


@jit.lean
def first_fitting(
    given: Ints, slices: Ints, works: Ints, frame: Ints, room: int, w: int, h: int, ks: Ints, alike: Ints
) -> int:
    """Return the place of the deepest step whose slices fit, of depths that fall; their number without one.

    Among depths for which the same slices are whole, deeper steps take more room.
    """
    begin = 0
    while begin < len(ks):
        end = alike[begin]
        if held_at_once(given, slices, works, frame, w, h, ks[end]) > room:
            begin = end + 1
            continue
        low = begin
        while low < end:
            middle = (low + end) // 2
            if held_at_once(given, slices, works, frame, w, h, ks[middle]) > room:
                low = middle + 1
            else:
                end = middle
        return low
    return len(ks)


@jit.lean
def least_moved(
    slices: Ints, count: int, frame: Ints, box: Ints, grid: Ints, any_depth: bool, costs: Ints, table: Ints
) -> int:
    """Return the ticks of what is moved at least: all for each tile, but for what stays from tile to tile.

    Parameters
    ----------
    any_depth
        Of steps that are at most as deep as those of the box.
    """
    width, height = frame[0], frame[1]
    rows, columns, steps = grid[0] + grid[1], grid[2] + grid[3], grid[4]
    w, h = min(box[1], width), min(box[3], height)
    w_last, h_last = width - (columns - 1) * min(box[0], width), height - (rows - 1) * min(box[2], height)
    moved = frame[2] * width * height
    long = float(moved)
    everything = by_row = by_column = 0  # what stays: of each tile, for each of its rows, for each column
    for n in range(count):
        kind_rows, kind_columns = slices[n, 3], slices[n, 4]
        held, last = parts(slices[n, 5], box[4]), slices[n, 6]
        often = (1 if kind_rows == 1 else rows) * (1 if kind_columns == 1 else columns)
        if not any_depth and last and 0 < held < steps - 1:
            often *= 2  # in the first steps, and in the last one
        moved += often * slices[n, 1] * slices[n, 2]
        long += float(often) * slices[n, 1] * slices[n, 2]
        if last and (any_depth or (grid[5] and held < steps)):
            for m in range(count):
                if m != n and slices[m, 0] == slices[n, 0]:  # it may be a slice of the last step in any case
                    moved -= width * h_last + height * w_last
                    break
        if kind_rows == 2 or kind_columns == 2:
            continue
        if not any_depth and (not (held or steps == 1) or not (held == steps or last)):
            continue
        if kind_rows == 0 and kind_columns == 0:
            everything += slices[n, 1] * slices[n, 2]
        elif kind_columns == 0:
            by_row += slices[n, 2]
        elif kind_rows == 0:
            by_column += slices[n, 1]
    if long > EXACT:
        return 0
    for edge in range(4):
        table[edge, 0], table[edge, 1] = 0, -everything
        table[edge, 2] = -everything - (by_row * (h_last if edge & 1 else h) if columns > 1 else 0)
        table[edge, 3] = -everything - (by_column * (w_last if edge & 2 else w) if rows > 1 else 0)
    moved = max(moved + order_times(table, grid, True, costs), 0)
    return int(moved // frame[5] * frame[4] + moved % frame[5] * frame[4] // frame[5])


@jit.kernel(nogil=True)
def best_granularity(
    given: Ints, works: Ints, frame: Ints, room: int, most: Ints, ws: Ints, hs: Ints, ks: Ints, known: int
) -> Ints:
    """Return (ticks, w, h, k, bound) of the fastest granularity that fits, if it is faster than `known`.

    No order of tiles of any granularity takes less than the bound, or not less than `known`.

    Parameters
    ----------
    room
        Elements of the memory that slices may take.
    most
        The largest w, h and k.
    ws, hs, ks
        The least sizes for each number of tiles and steps, descending.
    """
    slices = np.zeros((len(given), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(given) + len(works)) + 6, dtype=np.int64)
    table, grid = np.zeros((4, 4), dtype=np.int64), np.zeros(6, dtype=np.int64)
    named, costs = np.zeros(4, dtype=np.int64), np.zeros((4, 4), dtype=np.int64)
    answer = np.full(5, -1, dtype=np.int64)
    answer[0], answer[4] = known, INFEASIBLE
    alike = np.zeros(len(ks), dtype=np.int64)
    mark_alike(given, works, ks, alike)
    boxes = np.zeros((DEEPEST, 7), dtype=np.int64)  # with what has become of the least of each
    tours = np.empty((1 << MOST_TRIED, MOST_TRIED), dtype=np.int64)
    per_tile = deep = 0
    for n in range(len(works)):
        per_tile += works[n, 1] * max(works[n, 2], 1)
        deep = max(deep, works[n, 2])
    for n in range(len(given)):
        for axis in range(2):
            deep = max(deep, given[n, 1 + axis] if given[n, 3 + axis] == 2 else 0)
    looked = 0
    for stride in (COARSE, 1):  # a good time, found early, spares most others
        for column in range(0, len(ws), stride):
            w = ws[column]
            for row in range(0, len(hs), stride):
                h = hs[row]
                tiles = parts(frame[0], w) * parts(frame[1], h)
                if per_tile > LONGEST // tiles or tiles * per_tile >= answer[0]:
                    break  # smaller tiles are more
                low = 0
                for place in range(
                    first_fitting(given, slices, works, frame, room, w, h, ks, alike), len(ks)
                ):
                    k = ks[place]
                    if low >= answer[0]:
                        break  # no smaller step moves less
                    box = boxes[0]
                    box[0], box[2], box[4], box[6] = w, h, k, UNSEEN
                    box[1] = w if w >= frame[0] else ws[column - 1] - 1 if column else most[0]
                    box[3] = h if h >= frame[1] else hs[row - 1] - 1 if row else most[1]
                    box[5] = k if k >= deep else ks[place - 1] - 1 if place else most[2]
                    waiting = 1
                    while waiting:
                        waiting -= 1
                        box = boxes[waiting]
                        if held_at_once(given, slices, works, frame, box[0], box[2], box[4]) > room:
                            continue
                        count = grid_times(given, slices, works, frame, box, marks, table, grid)
                        bound = order_times(table, grid, True, costs)
                        single = box[0] == box[1] and box[2] == box[3] and box[4] == box[5]
                        if single and bound < answer[0]:
                            tiles = (grid[0] + grid[1]) * (grid[2] + grid[3])
                            if box[6] != CORNER and tiles <= MOST_TRIED and looked <= MOST_BOXES:
                                time = bound = shortest(table, grid, tours)
                                looked += ((1 << tiles) * tiles * tiles) >> 12
                            elif tiles <= MOST_LISTED:
                                time = order_times(table, grid, False, costs)
                            else:
                                named_times(table, grid, named)
                                time = named.min()
                            if time < answer[0]:
                                answer[0], answer[1], answer[2], answer[3] = time, box[0], box[2], box[4]
                        if box[6] == CORNER:
                            continue
                        if low == 0:
                            low = max(1, least_moved(slices, count, frame, box, grid, True, costs, table))
                        if bound < answer[0]:
                            moved = least_moved(slices, count, frame, box, grid, False, costs, table)
                            bound = max(bound, moved)
                        if bound >= answer[0]:
                            continue
                        looked += 1
                        if single or looked > MOST_BOXES:
                            if stride == 1:
                                answer[4] = min(answer[4], bound)
                            continue
                        axis, widest = 0, 0.0
                        for each in range(0, 6, 2):
                            if box[each + 1] / box[each] > widest and box[each + 1] > box[each]:
                                axis, widest = each, box[each + 1] / box[each]
                        middle = (box[axis] + box[axis + 1] + 1) // 2
                        corner = box[6] == UNSEEN
                        if stride == 1:
                            boxes[waiting + 1] = box
                            boxes[waiting + 2] = box
                            boxes[waiting, axis + 1] = middle - 1
                            boxes[waiting + 1, axis] = middle
                            boxes[waiting, 6], boxes[waiting + 1, 6] = SEEN, UNSEEN
                            waiting += 2
                        if corner:
                            for each in range(0, 6, 2):
                                boxes[waiting, each + 1] = boxes[waiting, each]
                            boxes[waiting, 6] = CORNER
                            waiting += 1
    answer[4] = min(answer[4], answer[0])
    return answer
