"""Compiled: what the best order of a grid's tiles takes, in ticks, and what no order undercuts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.scheduling.subgraph.structure import LONGEST
from tilewright.scheduling.subgraph.tile_times import Grid

INFEASIBLE = 2**62
"""What nothing costs that is possible, and what stands for all that takes longer than `LONGEST`."""

Ints = NDArray[np.int64]


@jit.lean
def edge_of(line: int, tile: int, by_column: bool) -> int:
    """Return the row of the table for a tile: whether its line, and it in the line, is the last one."""
    return 2 * line + tile if by_column else line + 2 * tile


@jit.lean
def fill_lines(table: Ints, grid: Grid, by_column: bool, relaxed: bool, costs: Ints) -> bool:
    """Fill what a tile within a line takes, and what a whole line takes; whether these can be counted."""
    odd, tiles, end = grid.odd_row, grid.columns, grid.odd_column
    many, along, across = grid.rows, 2, 3
    if by_column:
        odd, tiles, end = grid.odd_column, grid.rows, grid.odd_row
        many, along, across = grid.columns, 3, 2
    for line in range(2):
        total = 0.0
        for tile in range(2):
            edge = edge_of(line, tile, by_column)
            inside = table[edge, along]
            if relaxed:
                inside = min(inside, table[edge, across])
            costs[2, 2 * line + tile] = inside
            total += float(inside) * (end if tile else tiles)
        if total > LONGEST and (odd if line else many) > 0:
            return False
        costs[3, line] = costs[2, 2 * line] * tiles + costs[2, 2 * line + 1] * end
    return True


@jit.lean
def line_by_line(table: Ints, grid: Grid, by_column: bool, relaxed: bool, costs: Ints, trace: Ints) -> int:
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
    lines, odd, tiles, end = grid.rows, grid.odd_row, grid.columns, grid.odd_column
    if by_column:
        lines, odd, tiles, end = grid.columns, grid.odd_column, grid.rows, grid.odd_row
    if not fill_lines(table, grid, by_column, relaxed, costs):
        return INFEASIBLE
    across = 2 if by_column else 3
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
                    edge = edge_of(line, tile, by_column)
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
def order_times(table: Ints, grid: Grid, relaxed: bool, costs: Ints) -> int:
    """Return what the best order of rows or of columns takes or, relaxed, what no order undercuts."""
    found = -INFEASIBLE if relaxed else INFEASIBLE
    for way in range(2):
        time = line_by_line(table, grid, way == 1, relaxed, costs, costs[:0])
        found = max(found, time) if relaxed else min(found, time)
    return found


@jit.lean
def time_behind(tile: int, before: int, grid: Grid, table: Ints) -> int:
    """Return what a tile takes behind another one, -1 for none; tiles count row by row."""
    columns = grid.columns + grid.odd_column
    row, column = tile // columns, tile % columns
    edge = int(grid.odd_row and row == grid.rows) + 2 * int(grid.odd_column and column == grid.columns)
    if before < 0:
        return int(table[edge, 0])
    return int(table[edge, 2 if before // columns == row else 3 if before % columns == column else 1])


@jit.lean
def shortest_tour(table: Ints, grid: Grid, tours: Ints) -> int:
    """Return what the best of all orders takes; into `tours`, by the tiles that are left and the last one."""
    count = (grid.rows + grid.odd_row) * (grid.columns + grid.odd_column)
    everything = (1 << count) - 1
    least = INFEASIBLE
    for done in range(1, everything + 1):
        for last in range(count):
            if not done >> last & 1:
                continue
            rest = done ^ (1 << last)
            best = INFEASIBLE
            if rest == 0:
                best = time_behind(last, -1, grid, table)
            for before in range(count):
                if rest >> before & 1 and tours[rest, before] < INFEASIBLE:
                    best = min(best, tours[rest, before] + time_behind(last, before, grid, table))
            tours[done, last] = best if best <= LONGEST else INFEASIBLE
            if done == everything:
                least = min(least, tours[done, last])
    return least


@jit.lean
def named_times(table: Ints, grid: Grid, found: Ints) -> None:
    """Fill `found` with the ticks of the orders that have a name."""
    tile_rows, tile_columns = grid.rows + grid.odd_row, grid.columns + grid.odd_column
    for order in range(4):
        by_column = order % 2 == 1
        outer, inner = (tile_columns, tile_rows) if by_column else (tile_rows, tile_columns)
        total = 0
        long = 0.0  # the total again: as it is not wrong where it is too large for a whole number
        # The first line, those behind it at odd and at even places, which are alike, and the last one.
        for line in range(4):
            last = line == 3 or outer == 1
            lines = (outer - line) // 2 if line in (1, 2) else int(line == 0 or outer > 1)
            if lines < 1:
                continue
            backwards = order >= 2 and (outer - 1 if line == 3 else line) % 2 == 1
            for third in range(3):  # the first tile of a line, those between, the last
                if (third == 1 and inner < 3) or (third == 2 and inner < 2):
                    continue
                many = lines * (inner - 2 if third == 1 else 1)
                end = (third != 1 and (third == 0) == backwards and inner > 1) or inner == 1
                if by_column:
                    edge = int(grid.odd_row and end) + 2 * int(grid.odd_column and last)
                else:
                    edge = int(grid.odd_row and last) + 2 * int(grid.odd_column and end)
                if third > 0:
                    share = 2 if by_column else 1
                elif line == 0:
                    share = -1
                elif order >= 2 or inner == 1:
                    share = 1 if by_column else 2
                else:
                    share = 0
                time = int(table[edge, share + 1])
                total += many * time
                long += float(many) * time
        found[order] = INFEASIBLE if long > LONGEST else total
