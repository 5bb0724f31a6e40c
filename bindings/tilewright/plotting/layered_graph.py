"""The layout of a directed graph in layers: rows of nodes, with short edges that lead down.

Where nodes lie side by side is the solution of a linear program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.silence import nothing_printed


class Item(NamedTuple):
    """What has a position of its own: a node, or an edge on its way down past other nodes.

    Attributes
    ----------
    number
        Of the node, -1 for the input.
    column
        The column in which an edge from the node passes; -1 for the node itself.
    """

    number: int
    column: int = -1


class Segment(NamedTuple):
    """A part of an edge, from a row to the next.

    Attributes
    ----------
    row
        The upper row.
    start, end
        Items of the two rows.
    group
        The group of both ends of the edge; None if the edge leads from a group to another.
    """

    row: int
    start: Item
    end: Item
    group: int | None


class LayeredGraph:
    """A graph drawn in rows, each node below all that it reads, and rows in columns side by side.

    An edge to a lower row goes straight down past the rows between; where a column ends it goes on at the top
    of the next one. Lengths have one unit, whatever it is.

    Parameters
    ----------
    producers
        For each node, by number, the nodes that it reads: smaller numbers, or -1 for the input.
    groups
        For each node, the number of its group; groups are kept together.
    columns
        Most columns.
    box
        Width and height of a node.
    gap
        Least distances between nodes: side by side, and from a row to the next.

    Attributes
    ----------
    order : list of lists of Item
        Rows from the top of the first column to the bottom of the last, each from left to right.
    row, last
        For each node, the row that it is in, and the last row that its edges lead to; the input comes last.
    columns
        The column of each row.
    segments : list of Segment
        All edges, cut at the rows that they pass.
    x : dict of Item to float
        The middles of items.
    y : list of float
        The middles of rows.
    width, height
        Of the drawing.
    """

    def __init__(
        self,
        producers: Sequence[Sequence[int]],
        groups: Sequence[int],
        columns: int,
        box: tuple[float, float],
        gap: tuple[float, float],
    ) -> None:
        self.producers, self.groups, self.box, self.gap = producers, groups, box, gap
        rank = ranks(producers)
        begins = self._breaks(rank, columns)
        column = [sum(begin <= each for begin in begins) - 1 for each in range(max(rank) + 1)]
        # Between two columns there is a row at the end of the first and one at the begin of the second.
        self.row = [each + 2 * column[each] for each in rank]
        self.columns = [
            c for c, size in enumerate(np.bincount(column)) for _ in range(self._rows(c, size, column[-1]))
        ]
        self.last = list(self.row)
        for number, read in enumerate(producers):
            for producer in read:
                self.last[producer] = max(self.last[producer], self.row[number])
        self.order = self._order()
        self.segments = list(self._segments())
        self.x = self._across()
        self.y = self._down()

    @staticmethod
    def _rows(column: int, size: int, last: int) -> int:
        return int(size) + (column > 0) + (column < last)

    def _breaks(self, rank: Sequence[int], columns: int) -> list[int]:
        """Return the ranks at which columns begin: where few edges pass and no group is parted."""
        ranks = max(rank) + 1
        passing, parted = np.zeros((2, ranks + 1), dtype=np.int64)
        last = list(rank)
        spans: dict[int, tuple[int, int]] = {}
        for number, read in enumerate(self.producers):
            for producer in read:
                last[producer] = max(last[producer], rank[number])
            low, high = spans.get(self.groups[number], (ranks, 0))
            spans[self.groups[number]] = min(low, rank[number]), max(high, rank[number])
        for begin, end in zip(rank, last, strict=True):
            passing[begin + 1 : end + 1] += 1
        for low, high in spans.values():
            parted[low + 1 : high + 1] += 1
        begins = [0]
        for number in range(1, columns):
            ideal, reach = ranks * number / columns, 0.3 * ranks / columns
            near = range(max(begins[-1] + 1, int(ideal - reach)), min(ranks - 1, int(ideal + reach)) + 1)
            if near:
                begins.append(
                    min(near, key=lambda at: passing[at] + 2 * parted[at] + abs(at - ideal) / reach)
                )
        return begins

    def item(self, number: int, row: int) -> Item:
        """Return the item of a node, or of its edges, in a row."""
        return Item(number, -1 if row == self.row[number] else self.columns[row])

    def _order(self) -> list[list[Item]]:
        """Place nodes below the first of what they read, those of a group together.

        Edges that pass a row stay in their order, so that straight ones never cross.
        """
        in_row: list[list[int]] = [[] for _ in self.columns]
        for number, row in enumerate(self.row[:-1]):
            in_row[row].append(number)
        order = [[Item(-1)]]
        for row in range(1, len(self.columns)):
            position = {item.number: at for at, item in enumerate(order[-1])}
            keys: list[tuple[float, int, int, int]] = [
                (position[number], 1, 0, number) for number in position if self.last[number] > row
            ]
            keys += [
                (min(position[p] for p in self.producers[number]), 0, self.groups[number], number)
                for number in in_row[row]
            ]
            order.append([self.item(number, row) for *_, number in sorted(keys)])
        return order

    def _segments(self) -> Iterator[Segment]:
        consumers: dict[int, list[int]] = {}
        for number, read in enumerate(self.producers):
            for producer in dict.fromkeys(read):
                consumers.setdefault(producer, []).append(number)
        for producer, readers in consumers.items():
            for row in range(self.row[producer], self.last[producer]):
                if self.columns[row] != self.columns[row + 1]:
                    continue
                here = self.item(producer, row)
                own = self.groups[producer] if producer >= 0 else None
                below = [reader for reader in readers if self.row[reader] > row + 1]
                if below:
                    for group in dict.fromkeys(self.groups[reader] for reader in below):
                        yield Segment(
                            row, here, self.item(producer, row + 1), group if group == own else None
                        )
                for reader in readers:
                    if self.row[reader] == row + 1:
                        group = self.groups[reader]
                        yield Segment(row, here, Item(reader), group if group == own else None)

    def _across(self) -> dict[Item, float]:
        """Return the positions that make edges short, by linear programming."""
        wide, tall = self.box
        items = {item: at for at, item in enumerate(dict.fromkeys(i for row in self.order for i in row))}
        halves = {item: 0.5 * (wide + self.gap[0]) if item.column < 0 else 0.2 * tall for item in items}
        apart = {
            (items[left], items[right], halves[left] + halves[right])
            for row in self.order
            for left, right in pairwise(row)
        }
        near = {
            (items[segment.start], items[segment.end], 1.0)
            for segment in self.segments
            if segment.start != segment.end
        }
        # The nodes of a column are drawn to its middle, a little.
        for row, column in zip(self.order, self.columns, strict=True):
            near |= {(items[item], len(items) + column, 0.1) for item in row if item.column < 0}
        positions = _spread(sorted(apart), sorted(near))
        places: dict[Item, float] = {}
        self.width = -3 * self.gap[0]
        for column in range(self.columns[-1] + 1):
            rows = [row for row, at in zip(self.order, self.columns, strict=True) if at == column]
            members = {item: float(positions[items[item]]) for row in rows for item in row}
            half = {item: 0.5 * wide if item.column < 0 else 0.0 for item in members}
            low = min(x - half[item] for item, x in members.items())
            high = max(x + half[item] for item, x in members.items())
            self.width += 3 * self.gap[0]
            places |= {item: self.width + x - low for item, x in members.items()}
            self.width += high - low
        return places

    def _down(self) -> list[float]:
        """Return the middles of rows, which are further apart where edges go far aside."""
        aside = [0.0] * len(self.columns)
        for segment in self.segments:
            aside[segment.row] = max(aside[segment.row], abs(self.x[segment.end] - self.x[segment.start]))
        y: list[float] = []
        for row, column in enumerate(self.columns):
            if not row or column != self.columns[row - 1]:
                y.append(0.5 * self.box[1])
            else:
                y.append(y[-1] + self.box[1] + self.gap[1] + min(0.12 * aside[row - 1], 2.2 * self.gap[1]))
        self.height = max(y) + 0.5 * self.box[1]
        return y

    def corners(self, segment: Segment) -> list[tuple[float, float]]:
        """Return the four points of a cubic curve to the next row; a fifth ends the line past that row."""
        half = 0.5 * self.box[1]
        x, y = self.x[segment.start], self.y[segment.row] + half
        end, low = self.x[segment.end], self.y[segment.row + 1] - half
        middle = 0.5 * (y + low)
        past = [(end, low + 2 * half)] if segment.end.column >= 0 else []
        return [(x, y), (x, middle), (end, middle), (end, low), *past]

    # Paths, for matplotlib -----------------------------------------------------------------------------

    def curve(self, segment: Segment) -> Any:
        """Return the path of a segment to the next row, and past that row if the edge leads on."""
        from matplotlib.path import Path as Curve

        points = self.corners(segment)
        codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4, Curve.LINETO]
        return Curve(points, codes[: len(points)])

    def links(self, nodes: Sequence[int]) -> list[Any]:
        """Return straight paths between the parts of a group that no edges join, where they are nearest."""
        import networkx as nx
        from matplotlib.path import Path as Curve

        at = {number: (self.x[Item(number)], self.y[self.row[number]]) for number in nodes}
        graph = nx.Graph()
        for number in nodes:
            for other in nodes:
                joined = number in self.producers[other]
                # Side by side rather than from row to row.
                far = 0.0 if joined else float(np.abs(np.subtract(at[number], at[other])) @ (1.0, 5.0))
                if joined or (number < other and not graph.has_edge(number, other)):
                    graph.add_edge(number, other, weight=far)
        tree = nx.minimum_spanning_edges(graph)
        return [Curve([at[a], at[b]]) for a, b, edge in tree if edge["weight"] > 0]


def ranks(producers: Sequence[Sequence[int]]) -> list[int]:
    """Return how many nodes each node is below the input, at most; that of the input, 0, comes last."""
    rank = [0] * (len(producers) + 1)
    for number, read in enumerate(producers):
        rank[number] = 1 + max(rank[producer] for producer in read)
    return rank


def _spread(apart: Sequence[tuple[int, int, float]], near: Sequence[tuple[int, int, float]]) -> list[float]:
    """Return positions of points on a line: some points are kept apart, others are drawn together.

    Parameters
    ----------
    apart : (first, second, distance)
        The second point is behind the first, at least at that distance.
    near : (point, point, cost)
        What each unit of the distance between two points costs.
    """
    import highspy  # takes long to import, and only drawing needs it

    with nothing_printed():
        highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    points = 1 + max(max(a, b) for a, b, _ in [*apart, *near])
    for _ in range(points):
        highs.addVar(0.0, highspy.kHighsInf)
    for first, second, least in apart:
        highs.addRow(least, highspy.kHighsInf, 2, [first, second], [-1.0, 1.0])
    for far, (a, b, cost) in enumerate(near, points):
        highs.addVar(0.0, highspy.kHighsInf)
        highs.changeColCost(far, cost)
        for sign in (-1.0, 1.0):
            highs.addRow(0.0, highspy.kHighsInf, 3, [a, b, far], [sign, -sign, 1.0])
    highs.run()
    return list(highs.getSolution().col_value)[:points]
