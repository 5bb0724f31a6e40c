"""Compiled: what a tile takes, step by step, and what each tile of a grid takes, in ticks.

Steps between those in which something begins or ends are alike, and so are tiles but for the last row and
column and for what stays from the tile before. So nothing here is as long as the execution. What a tile
shares with the one before is 1 for its row, 2 for its column, 0 for neither, -1 for the first tile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.scheduling.subgraph.structure import (
    ADDS_UP,
    FIRST,
    LAST,
    SLICE,
    STEP,
    TILE,
    WHOLE,
    SubgraphTable,
)

Ints = NDArray[np.int64]


class Box(NamedTuple):
    """Granularities with the same numbers of tiles and steps: the least and the most of each size."""

    w: int
    most_w: int
    h: int
    most_h: int
    k: int
    most_k: int


class Scratch(NamedTuple):
    """Arrays that functions fill.

    Attributes
    ----------
    slices : shape (n, 7)
        Slices as a granularity makes them, equal ones once: see `merge_slices`.
    marks : shape (2 n + 6,)
        Steps in which something begins or ends.
    table : shape (4, 4)
        Ticks of a tile: by whether it is in the last row (1) and in the last column (2), where these differ
        from the others; and by what it shares with the tile before, from -1 on.
    costs : shape (4, 4)
        See `tilewright.scheduling.subgraph.tile_orders.line_by_line`.
    """

    slices: Ints
    marks: Ints
    table: Ints
    costs: Ints


class Grid(NamedTuple):
    """The tiles of a granularity.

    Attributes
    ----------
    rows, odd_row
        Rows that are alike, and whether the last one differs from them.
    columns, odd_column
        The same of columns.
    steps
        Of a tile.
    aligned
        1 if the last row has the rows of the last step, and 2 likewise for columns: see `is_beside`.
    slices
        How many slices there are.
    """

    rows: int
    odd_row: int
    columns: int
    odd_column: int
    steps: int
    aligned: int
    slices: int


class Tile(NamedTuple):
    """A tile: its size, the least and the most depth of its steps, their number, and what is aligned."""

    w: int
    h: int
    k: int
    most_k: int
    steps: int
    aligned: int


@jit.lean
def merge_slices(given: Ints, slices: Ints, height_tiles: int, width_tiles: int, depth_step: int) -> int:
    """Write slices as a granularity makes them, equal ones once; return how many these are.

    An axis that follows the tile or the step is whole where there is one of them.
    """
    count = 0
    for n in range(len(given)):
        kind_rows, kind_columns = given[n, 3], given[n, 4]
        if (kind_rows == TILE and height_tiles == 1) or (kind_rows == STEP and given[n, 1] <= depth_step):
            kind_rows = WHOLE
        if (kind_columns == TILE and width_tiles == 1) or (
            kind_columns == STEP and given[n, 2] <= depth_step
        ):
            kind_columns = WHOLE
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
def longest_extent(kind: int, size: int, tile: int, step: int) -> int:
    """Return how long a slice is at most."""
    if kind == TILE:
        return min(size, tile)
    if kind == STEP:
        return min(size, step)
    return size


@jit.lean
def count_steps(depth: int, k: int) -> int:
    """Return in how many steps so many products are added up."""
    return (depth + k - 1) // k


@jit.lean
def products_of_step(depth: int, tile: Tile, s: int) -> int:
    """Return the products of a step, the fewest of them for depths of steps of which there are as many."""
    last = count_steps(depth, tile.k) - 1
    return tile.k if s < last else depth - last * tile.most_k


@jit.lean
def is_beside(slices: Ints, count: int, n: int, tile: Tile) -> bool:
    """Whether what Pointwise operations read of a tile is a slice of its last step in any case."""
    for m in range(count):
        if m == n or slices[m, 0] != slices[n, 0] or count_steps(slices[m, 5], tile.k) < tile.steps:
            continue
        by_row = slices[n, 3] == TILE and slices[m, 3] == STEP and tile.aligned & 1
        by_column = slices[n, 4] == TILE and slices[m, 4] == STEP and tile.aligned & 2
        if (slices[m, 3] == slices[n, 3] or by_row) and (slices[m, 4] == slices[n, 4] or by_column):
            return True
    return False


@jit.lean
def stays_in_memory(slices: Ints, count: int, n: int, tile: Tile, s: int, share: int) -> bool:
    """Whether a slice that a step needs is there, from the step or the tile before or as part of another."""
    kind_rows, kind_columns = slices[n, 3], slices[n, 4]
    if kind_rows == STEP or kind_columns == STEP:
        return False
    held, last = count_steps(slices[n, 5], tile.k), slices[n, 6]
    if s > 0 and s - 1 < held:
        return True
    if s == 0 and share >= 0 and (tile.steps - 1 < held or last):
        moves = (kind_rows == TILE and share != 1) or (kind_columns == TILE and share != 2)
        if not moves:
            return True
    return tile.aligned != 0 and s == tile.steps - 1 and s >= held and is_beside(slices, count, n, tile)


@jit.lean
def extent_in_step(kind: int, size: int, along_tile: int, tile: Tile, s: int) -> int:
    """Return the rows or columns of a slice in a step."""
    if kind == WHOLE:
        return size
    return along_tile if kind == TILE else products_of_step(size, tile, s)


@jit.lean
def step_times(
    graph: SubgraphTable, slices: Ints, count: int, tile: Tile, s: int, share: int
) -> tuple[int, int]:
    """Return the ticks in which a step of a tile computes, and those in which it moves what it needs."""
    compute = 0
    works = graph.works
    for n in range(len(works)):
        kind, ticks, depth = int(works[n, 0]), int(works[n, 1]), int(works[n, 2])
        if kind in (ADDS_UP, SLICE):
            if s < count_steps(depth, tile.k):
                compute += ticks * products_of_step(depth, tile, s)
        elif (kind == FIRST and s == 0) or (kind == LAST and s == tile.steps - 1):
            compute += ticks
    moved = 0
    for n in range(count):
        needed = s < count_steps(slices[n, 5], tile.k) or (slices[n, 6] and s == tile.steps - 1)
        if needed and not stays_in_memory(slices, count, n, tile, s, share):
            rows = extent_in_step(slices[n, 3], slices[n, 1], tile.h, tile, s)
            moved += rows * extent_in_step(slices[n, 4], slices[n, 2], tile.w, tile, s)
    if s == tile.steps - 1:
        moved += graph.written * tile.w * tile.h
    unit, per = graph.unit, graph.per
    if per == 1:
        return compute, moved * unit
    return compute, moved // per * unit + (moved % per * unit + per - 1) // per


@jit.lean
def insert_mark(marks: Ints, count: int, mark: int, steps: int) -> int:
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
def tile_times(graph: SubgraphTable, scratch: Scratch, count: int, tile: Tile, times: Ints) -> None:
    """Fill `times` with the ticks of a tile by what it shares with the one before, from -1 on."""
    works, slices, marks = graph.works, scratch.slices, scratch.marks
    marks[0] = 0
    n_marks = insert_mark(marks, 1, tile.steps - 1, tile.steps)
    n_marks = insert_mark(marks, n_marks, 1, tile.steps)
    for n in range(len(works) + count):
        depth = works[n, 2] if n < len(works) else slices[n - len(works), 5]
        if depth > 0:
            end = count_steps(depth, tile.k)
            n_marks = insert_mark(marks, n_marks, end - 1, tile.steps)
            n_marks = insert_mark(marks, n_marks, end, tile.steps)
    total = 0  # of all steps but the first one
    for m in range(1, n_marks):
        s = marks[m]
        compute, move = step_times(graph, slices, count, tile, s, 0)
        total += max(compute, move)
        many = (marks[m + 1] if m + 1 < n_marks else tile.steps) - s - 1
        if many > 0:
            compute, move = step_times(graph, slices, count, tile, s + 1, 0)
            total += many * max(compute, move)
    for share in range(-1, 3):
        compute, move = step_times(graph, slices, count, tile, 0, share)
        times[share + 1] = total + max(compute, move)


@jit.lean
def most_steps(works: Ints, k: int) -> int:
    """Return the steps of a tile."""
    steps = 1
    for n in range(len(works)):
        steps = max(steps, count_steps(works[n, 2], k))
    return steps


@jit.lean
def working_set(graph: SubgraphTable, scratch: Scratch, w: int, h: int, k: int) -> int:
    """Return the elements of all slices of a step, and of tiles of outputs and of sums."""
    rows, columns = count_steps(graph.height, h), count_steps(graph.width, w)
    count = merge_slices(graph.slices, scratch.slices, rows, columns, k)
    w, h = min(w, graph.width), min(h, graph.height)
    held = (graph.written + (graph.sums if most_steps(graph.works, k) > 1 else 0)) * w * h
    for n in range(count):
        each = scratch.slices[n]
        held += longest_extent(each[3], each[1], h, k) * longest_extent(each[4], each[2], w, k)
    return int(held)


@jit.lean
def grid_times(graph: SubgraphTable, scratch: Scratch, box: Box) -> Grid:
    """Return the grid of tiles, and fill the table with their times, the least of several granularities."""
    width, height, k = graph.width, graph.height, box.k
    rows, columns = count_steps(height, box.h), count_steps(width, box.w)
    count = merge_slices(graph.slices, scratch.slices, rows, columns, k)
    w, h = min(box.w, width), min(box.h, height)
    w_last, h_last = (
        width - (columns - 1) * min(box.most_w, width),
        height - (rows - 1) * min(box.most_h, height),
    )
    steps = most_steps(graph.works, k)
    begin, begin_most = (steps - 1) * k, (steps - 1) * box.most_k
    aligned = 0
    if rows > 1 and steps > 1 and count_steps(height, k) == steps:
        aligned += int((rows - 1) * h <= begin_most and (rows - 1) * box.most_h >= begin)
    if columns > 1 and steps > 1 and count_steps(width, k) == steps:
        aligned += 2 * int((columns - 1) * w <= begin_most and (columns - 1) * box.most_w >= begin)
    odd_row = int(rows > 1 and (h_last != h or aligned & 1 != 0))
    odd_column = int(columns > 1 and (w_last != w or aligned & 2 != 0))
    table = scratch.table
    for edge in range(4):
        if (edge & 1 and not odd_row) or (edge & 2 and not odd_column):
            continue
        tile_h, tile_w = (h_last if edge & 1 else h), (w_last if edge & 2 else w)
        tile = Tile(tile_w, tile_h, k, box.most_k, steps, aligned & edge)
        tile_times(graph, scratch, count, tile, table[edge])
        if columns == 1:
            table[edge, 2] = table[edge, 1]  # there is no other tile in the row
        if rows == 1:
            table[edge, 3] = table[edge, 1]
    return Grid(rows - odd_row, odd_row, columns - odd_column, odd_column, steps, aligned, count)
