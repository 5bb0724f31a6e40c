"""Paths that visit every element of an array, each a neighbour of the one before."""

from __future__ import annotations

from collections.abc import Iterator

Path = list[tuple[int, int]]
"""Elements (row, column) in the order of a visit."""


def paths(rows: int, columns: int) -> Iterator[Path]:
    """Yield paths in stripes, row by row first, and around a corner; each in both directions."""
    for turned in (False, True):
        height, width = (columns, rows) if turned else (rows, columns)
        # From a corner to the opposite one PEs alternate as on a chessboard: not all stripes can be crossed.
        thick = [some for some in range(1, height + 1) if some % 2 or width % 2 or some == height]
        found = [stripes(height, width, some) for some in thick]
        found += [corners(height, width, straight) for straight in range(1, width + 1)]
        for path in found:
            path = [(column, row) for row, column in path] if turned else path
            yield path
            yield path[::-1]


def lines(rows: int, columns: int) -> Path:
    """Go along the rows, back and forth."""
    across = range(columns)
    return [(row, column) for row in range(rows) for column in (across[::-1] if row % 2 else across)]


def stripes(rows: int, columns: int, thick: int) -> Path:
    """Go along stripes of `thick` rows, back and forth, and along the columns inside each stripe.

    The last stripe may be thinner. In others the last two of an even number of columns are crossed along the
    rows, to end where the next stripe begins.
    """
    path: Path = []
    for number, top in enumerate(range(0, rows, thick)):
        height = min(thick, rows - top)
        plain = columns if columns % 2 or top + height == rows else columns - 2
        block = [(row, column) for column, row in lines(plain, height)]
        block += [(row, plain + column) for row, column in lines(height, columns - plain)]
        path += [(top + row, columns - 1 - column if number % 2 else column) for row, column in block]
    return path


def corners(rows: int, columns: int, straight: int) -> Path:
    """Begin with part of the top row, go around it again and again, below and to its right, back and forth.

    What is then left of the array is a rectangle at its right or at its bottom, visited line by line.
    """
    around = min(rows, columns - straight + 1)
    bends: list[Path] = []
    for row in range(around):
        corner = straight - 1 + row
        bends.append([(row, column) for column in range(corner)])
        bends[-1] += [(up, corner) for up in range(row, -1, -1)]
    reached = straight - 1 + around
    if reached < columns:
        rest = [[(row, column) for row in reversed(range(rows))] for column in range(reached, columns)]
    else:
        rest = [[(row, column) for column in reversed(range(columns))] for row in range(around, rows)]
        bends = [bend[::-1] for bend in bends]
    path: Path = []
    for number, line in enumerate([*bends, *rest], start=1 - around):
        path += line[::-1] if number % 2 else line
    return path
