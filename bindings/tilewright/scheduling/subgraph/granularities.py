"""Compiled: the fastest granularity of a subgraph, the one that moves least, and what a granularity takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.scheduling.subgraph.structure import LONGEST, STEP, TILE, WHOLE, Sizes, SubgraphTable
from tilewright.scheduling.subgraph.tile_orders import (
    INFEASIBLE,
    line_by_line,
    named_times,
    order_times,
    shortest_tour,
    time_behind,
)
from tilewright.scheduling.subgraph.tile_times import (
    Box,
    Grid,
    Scratch,
    count_steps,
    grid_times,
    most_steps,
    working_set,
)

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


@jit.inner
def new_scratch(graph: SubgraphTable) -> Scratch:
    """Return arrays for a subgraph."""
    slices = np.zeros((len(graph.slices), 7), dtype=np.int64)
    marks = np.zeros(2 * (len(graph.slices) + len(graph.works)) + 6, dtype=np.int64)
    table, costs = np.zeros((4, 4), dtype=np.int64), np.zeros((4, 4), dtype=np.int64)
    return Scratch(slices, marks, table, costs)


@jit.kernel(nogil=True)
def evaluate(graph: SubgraphTable, w: int, h: int, k: int, order: Ints) -> Ints:
    """Return the working set without what is kept, the ticks of each named order, and of one more.

    Parameters
    ----------
    order
        Numbers of tiles, row by row, in the order in which they are computed; may be empty.
    """
    found = np.zeros(6, dtype=np.int64)
    scratch = new_scratch(graph)
    found[0] = working_set(graph, scratch, w, h, k)
    grid = grid_times(graph, scratch, Box(w, w, h, h, k, k))
    named_times(scratch.table, grid, found[1:5])
    before = -1
    long = 0.0
    for tile in order:
        time = time_behind(tile, before, grid, scratch.table)
        found[5] += time
        long += time
        before = tile
    if long > LONGEST:
        found[5] = INFEASIBLE
    return found


@jit.kernel(nogil=True)
def least_traffic(graph: SubgraphTable, sizes: Sizes, room: int, most: int) -> Ints:
    """Return (elements moved, ticks, working set, order with a name, w, h, k) of what moves least.

    Of what moves as little it is the fastest, then that of least memory; -1 where nothing is fast enough.

    Parameters
    ----------
    room
        Elements of the memory that slices may take.
    most
        Ticks that it may take.
    """
    scratch = new_scratch(graph)
    times, moves = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    answer = np.full(7, -1, dtype=np.int64)
    idle = graph.works.copy()
    idle[:, 1] = 0
    moving = SubgraphTable(graph.slices, idle, graph.width, graph.height, graph.written, graph.sums, 1, 1)
    for w in sizes.ws:
        for h in sizes.hs:
            for k in sizes.ks:
                held = working_set(graph, scratch, w, h, k)
                if held > room:
                    continue
                box = Box(w, w, h, h, k, k)
                named_times(scratch.table, grid_times(graph, scratch, box), times)
                if times.min() > most:
                    continue
                named_times(scratch.table, grid_times(moving, scratch, box), moves)
                for order in range(4):
                    if times[order] > most:
                        continue
                    found = (moves[order], times[order], held)
                    if answer[0] < 0 or found < (answer[0], answer[1], answer[2]):
                        answer[0], answer[1], answer[2], answer[3] = moves[order], times[order], held, order
                        answer[4], answer[5], answer[6] = w, h, k
    return answer


@jit.kernel(nogil=True)
def best_lines(graph: SubgraphTable, w: int, h: int, k: int, by_column: bool) -> Ints:
    """Return the best order of rows, or of columns, of a granularity: see `line_by_line`.

    Returns
    -------
    shape (lines, 3)
        Of each line whether it is the last one of the grid, and whether it is entered and left at its last
        tile; with the ticks in front, and with the numbers of lines and tiles.
    """
    scratch = new_scratch(graph)
    grid = grid_times(graph, scratch, Box(w, w, h, h, k, k))
    many = grid.columns + grid.odd_column if by_column else grid.rows + grid.odd_row
    trace = np.zeros((many, 4), dtype=np.int64)
    found = np.zeros((many + 1, 3), dtype=np.int64)
    found[0, 0] = line_by_line(scratch.table, grid, by_column, False, scratch.costs, trace)
    found[0, 1] = grid.odd_row if by_column else grid.odd_column
    state = np.argmin(scratch.costs[0])
    for number in range(many - 1, -1, -1):
        came = trace[number, state]
        found[number + 1, 0], found[number + 1, 1], found[number + 1, 2] = came // 2 % 2, came % 2, state % 2
        state = came // 4
    return found


@jit.kernel(nogil=True)
def best_tour(graph: SubgraphTable, w: int, h: int, k: int) -> Ints:
    """Return the ticks of the best of all orders of a few tiles, and these in that order."""
    scratch = new_scratch(graph)
    grid, table = grid_times(graph, scratch, Box(w, w, h, h, k, k)), scratch.table
    count = (grid.rows + grid.odd_row) * (grid.columns + grid.odd_column)
    tours = np.zeros((1 << count, count), dtype=np.int64)
    found = np.zeros(count + 1, dtype=np.int64)
    found[0] = shortest_tour(table, grid, tours)
    done = (1 << count) - 1
    for place in range(count, 0, -1):
        best = INFEASIBLE
        for last in range(count):
            if done >> last & 1:
                behind = 0 if place == count else time_behind(found[place + 1], last, grid, table)
                if tours[done, last] + behind < best:
                    best = tours[done, last] + behind
                    found[place] = last
        done ^= 1 << found[place]
    return found


@jit.lean
def mark_alike(graph: SubgraphTable, ks: Ints, alike: Ints) -> None:
    """Write for each depth of a step the last of those behind it for which the same slices are whole."""
    for place in range(len(ks) - 1, -1, -1):
        alike[place] = place
        if place + 1 < len(ks):
            same = most_steps(graph.works, ks[place]) > 1 or most_steps(graph.works, ks[place + 1]) == 1
            for n in range(len(graph.slices)):
                for axis in range(1, 3):
                    if (
                        graph.slices[n, 2 + axis] == STEP
                        and ks[place + 1] < graph.slices[n, axis] <= ks[place]
                    ):
                        same = False
            if same:
                alike[place] = alike[place + 1]


@jit.lean
def first_fitting(
    graph: SubgraphTable, scratch: Scratch, room: int, w: int, h: int, ks: Ints, alike: Ints
) -> int:
    """Return the place of the deepest step whose slices fit, of depths that fall; their number without one.

    Among depths for which the same slices are whole, deeper steps take more room.
    """
    begin = 0
    while begin < len(ks):
        end = alike[begin]
        if working_set(graph, scratch, w, h, ks[end]) > room:
            begin = end + 1
            continue
        low = begin
        while low < end:
            middle = (low + end) // 2
            if working_set(graph, scratch, w, h, ks[middle]) > room:
                low = middle + 1
            else:
                end = middle
        return low
    return len(ks)


@jit.lean
def least_moved(graph: SubgraphTable, scratch: Scratch, box: Box, grid: Grid, any_depth: bool) -> int:
    """Return the ticks of what is moved at least: all for each tile, but for what stays from tile to tile.

    Parameters
    ----------
    any_depth
        Of steps that are at most as deep as those of the box.
    """
    width, height, slices, table = graph.width, graph.height, scratch.slices, scratch.table
    rows, columns, steps = grid.rows + grid.odd_row, grid.columns + grid.odd_column, grid.steps
    w, h = min(box.most_w, width), min(box.most_h, height)
    w_last, h_last = width - (columns - 1) * min(box.w, width), height - (rows - 1) * min(box.h, height)
    moved = graph.written * width * height
    long = float(moved)
    everything = by_row = by_column = 0  # what stays: of each tile, for each of its rows, for each column
    for n in range(grid.slices):
        kind_rows, kind_columns = slices[n, 3], slices[n, 4]
        held, last = count_steps(slices[n, 5], box.k), slices[n, 6]
        often = (1 if kind_rows == TILE else rows) * (1 if kind_columns == TILE else columns)
        if not any_depth and last and 0 < held < steps - 1:
            often *= 2  # in the first steps, and in the last one
        moved += often * slices[n, 1] * slices[n, 2]
        long += float(often) * slices[n, 1] * slices[n, 2]
        if last and (any_depth or (grid.aligned and held < steps)):
            for m in range(grid.slices):
                if m != n and slices[m, 0] == slices[n, 0]:  # it may be a slice of the last step in any case
                    moved -= width * h_last + height * w_last
                    break
        if kind_rows == STEP or kind_columns == STEP:
            continue
        if not any_depth and (not (held or steps == 1) or not (held == steps or last)):
            continue
        if kind_rows == WHOLE and kind_columns == WHOLE:
            everything += slices[n, 1] * slices[n, 2]
        elif kind_columns == WHOLE:
            by_row += slices[n, 2]
        elif kind_rows == WHOLE:
            by_column += slices[n, 1]
    if long > EXACT:
        return 0
    for edge in range(4):
        table[edge, 0], table[edge, 1] = 0, -everything
        table[edge, 2] = -everything - (by_row * (h_last if edge & 1 else h) if columns > 1 else 0)
        table[edge, 3] = -everything - (by_column * (w_last if edge & 2 else w) if rows > 1 else 0)
    moved = max(moved + order_times(table, grid, True, scratch.costs), 0)
    return int(moved // graph.per * graph.unit + moved % graph.per * graph.unit // graph.per)


class Search(NamedTuple):
    """The search for the fastest granularity.

    Attributes
    ----------
    room
        Elements of the memory that slices may take.
    boxes : shape (DEEPEST, 7)
        Boxes that wait, the fields of a `Box` and what has become of the least granularity of each.
    tours : shape (2 ** MOST_TRIED, MOST_TRIED)
        See `shortest_tour`.
    named : shape (4,)
        See `named_times`.
    answer : (ticks, w, h, k, bound)
        The best so far.
    looked : shape (1,)
        Boxes that have been looked at.
    """

    room: int
    boxes: Ints
    tours: Ints
    named: Ints
    answer: Ints
    looked: Ints


@jit.kernel(nogil=True)
def best_granularity(graph: SubgraphTable, sizes: Sizes, room: int, known: int) -> Ints:
    """Return (ticks, w, h, k, bound) of the fastest granularity that fits, if it is faster than `known`.

    No order of tiles of any granularity takes less than the bound, or not less than `known`.

    Parameters
    ----------
    room
        Elements of the memory that slices may take.
    """
    scratch = new_scratch(graph)
    ws, hs, ks, most = sizes.ws, sizes.hs, sizes.ks, sizes.most
    answer = np.full(5, -1, dtype=np.int64)
    answer[0], answer[4] = known, INFEASIBLE
    alike = np.zeros(len(ks), dtype=np.int64)
    mark_alike(graph, ks, alike)
    boxes = np.zeros((DEEPEST, 7), dtype=np.int64)
    tours = np.empty((1 << MOST_TRIED, MOST_TRIED), dtype=np.int64)
    named, looked = np.zeros(4, dtype=np.int64), np.zeros(1, dtype=np.int64)
    search = Search(room, boxes, tours, named, answer, looked)
    per_tile, deep = least_work(graph), deepest_sum(graph)
    for stride in (COARSE, 1):  # a good time, found early, spares most others
        for column in range(0, len(ws), stride):
            w = ws[column]
            for row in range(0, len(hs), stride):
                h = hs[row]
                tiles = count_steps(graph.width, w) * count_steps(graph.height, h)
                if per_tile > LONGEST // tiles or tiles * per_tile >= answer[0]:
                    break  # smaller tiles are more
                low = 0
                for place in range(first_fitting(graph, scratch, room, w, h, ks, alike), len(ks)):
                    if low >= answer[0]:
                        break  # no smaller step moves less
                    k = ks[place]
                    box = Box(
                        w,
                        w if w >= graph.width else ws[column - 1] - 1 if column else most[0],
                        h,
                        h if h >= graph.height else hs[row - 1] - 1 if row else most[1],
                        k,
                        k if k >= deep else ks[place - 1] - 1 if place else most[2],
                    )
                    low = search_box(graph, scratch, search, box, low, stride == 1)
    answer[4] = min(answer[4], answer[0])
    return answer


@jit.lean
def least_work(graph: SubgraphTable) -> int:
    """Return the ticks that every tile computes."""
    ticks = 0
    for n in range(len(graph.works)):
        ticks += graph.works[n, 1] * max(graph.works[n, 2], 1)
    return ticks


@jit.lean
def deepest_sum(graph: SubgraphTable) -> int:
    """Return the depth from which on deeper steps change nothing."""
    deep = 0
    for n in range(len(graph.works)):
        deep = max(deep, graph.works[n, 2])
    for n in range(len(graph.slices)):
        for axis in range(2):
            deep = max(deep, graph.slices[n, 1 + axis] if graph.slices[n, 3 + axis] == STEP else 0)
    return deep


@jit.inner
def search_box(
    graph: SubgraphTable, scratch: Scratch, search: Search, whole: Box, low: int, finely: bool
) -> int:
    """Look for a faster granularity in a box, and bound what is not looked at; return what all steps move.

    Parameters
    ----------
    low
        Ticks that less deep steps of the same tiles take at least, 0 if these are not known.
    finely
        Whether boxes are divided; else their least granularity is looked at alone, and nothing is bounded.
    """
    boxes, answer, looked, table = search.boxes, search.answer, search.looked, scratch.table
    for place in range(6):
        boxes[0, place] = whole[place]
    boxes[0, 6] = UNSEEN
    waiting = 1
    while waiting:
        waiting -= 1
        own = boxes[waiting]
        box, state = Box(own[0], own[1], own[2], own[3], own[4], own[5]), own[6]
        if working_set(graph, scratch, box.w, box.h, box.k) > search.room:
            continue
        grid = grid_times(graph, scratch, box)
        bound = order_times(table, grid, True, scratch.costs)
        single = box.w == box.most_w and box.h == box.most_h and box.k == box.most_k
        if single and bound < answer[0]:
            bound = try_granularity(search, scratch, grid, box, state, bound)
        if state == CORNER:
            continue
        if low == 0:
            low = max(1, least_moved(graph, scratch, box, grid, True))
        if bound < answer[0]:
            bound = max(bound, least_moved(graph, scratch, box, grid, False))
        if bound >= answer[0]:
            continue
        looked[0] += 1
        if single or looked[0] > MOST_BOXES:
            if finely:
                answer[4] = min(answer[4], bound)
            continue
        waiting = divide_box(boxes, waiting, state, finely)
    return low


@jit.inner
def try_granularity(search: Search, scratch: Scratch, grid: Grid, box: Box, state: int, bound: int) -> int:
    """Note what a single granularity takes if it is faster than all before; return a bound on it."""
    answer, tiles = search.answer, (grid.rows + grid.odd_row) * (grid.columns + grid.odd_column)
    if state != CORNER and tiles <= MOST_TRIED and search.looked[0] <= MOST_BOXES:
        time = bound = shortest_tour(scratch.table, grid, search.tours)
        search.looked[0] += ((1 << tiles) * tiles * tiles) >> 12
    elif tiles <= MOST_LISTED:
        time = order_times(scratch.table, grid, False, scratch.costs)
    else:
        named_times(scratch.table, grid, search.named)
        time = search.named.min()
    if time < answer[0]:
        answer[0], answer[1], answer[2], answer[3] = time, box.w, box.h, box.k
    return bound


@jit.inner
def divide_box(boxes: Ints, waiting: int, state: int, finely: bool) -> int:
    """Put the halves of a box, which is behind those that wait, and its least granularity in their place.

    Returns
    -------
    How many boxes wait then.
    """
    box = boxes[waiting]
    axis, widest = 0, 0.0
    for each in range(0, 6, 2):
        if box[each + 1] / box[each] > widest and box[each + 1] > box[each]:
            axis, widest = each, box[each + 1] / box[each]
    middle = (box[axis] + box[axis + 1] + 1) // 2
    if finely:
        boxes[waiting + 1] = box
        boxes[waiting + 2] = box
        boxes[waiting, axis + 1] = middle - 1
        boxes[waiting + 1, axis] = middle
        boxes[waiting, 6], boxes[waiting + 1, 6] = SEEN, UNSEEN
        waiting += 2
    if state == UNSEEN:
        for each in range(0, 6, 2):
            boxes[waiting, each + 1] = boxes[waiting, each]
        boxes[waiting, 6] = CORNER
        waiting += 1
    return waiting
