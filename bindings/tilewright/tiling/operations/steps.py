"""The steps of an operation: one for each tile, and one that writes the last one back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict

from tilewright.simulator import Compute, Free, Load, Step, WriteBack
from tilewright.simulator.program import Box
from tilewright.tiling.operations.arithmetic import ComputeTile
from tilewright.tiling.operations.walk import OUTPUT, Counts, Walk


class Taking(TypedDict):
    """What a transfer takes beside the time of its units."""

    bursts: int
    cycles: int


def steps(
    walk: Walk,
    moves: str,
    works: str,
    durations: Counts,
    streamed: Counts,
    bursts: Mapping[str, Counts] | None = None,
    moving: Mapping[str, Counts] | None = None,
) -> Iterator[Step]:
    """Make the steps.

    Parameters
    ----------
    moves, works
        The engines.
    durations, streamed : int, shape (tiles,)
        Of the computation of each tile.
    bursts, moving
        Of the transfers of each tensor, tile by tile; `moving` is what they take beside units and bursts.
    """
    held: dict[str, Box] = {}
    output: Box | None = None
    number = -1

    def taking(name: str, number: int) -> Taking:
        at = (0 if counts is None else int(counts[name][number]) for counts in (bursts, moving))
        return Taking(bursts=next(at), cycles=next(at))

    def wrote() -> tuple[WriteBack, ...]:
        return () if output is None else (WriteBack(OUTPUT, output, moves, **taking(OUTPUT, number - 1)),)

    for number, (boxes, changes, now) in enumerate(walk.tiles()):
        leaving = [Free(name, box) for name, (box, _) in changes.items() if box is not None and _has(box)]
        coming = [
            Load(name, box, moves, **taking(name, number))
            for name, (_, box) in changes.items()
            if box is not None and _has(box)
        ]
        yield Step(
            free=tuple(leaving),
            write_back=wrote(),
            load=tuple(coming),
            compute=(
                Compute(
                    OUTPUT,
                    now,
                    tuple((name, box) for name, box in boxes.items() if _has(box)),
                    1,
                    ComputeTile(walk.operation, now),
                    engine=works,
                    streamed=int(streamed[number]),
                    cycles=int(durations[number]),
                ),
            ),
            label=f"tile {number + 1}",
        )
        held, output = boxes, now
    number += 1
    yield Step(
        free=tuple(Free(name, box) for name, box in held.items() if _has(box)),
        write_back=wrote(),
        label="empty the memory",
    )


def _has(box: Box) -> bool:
    """Whether a region has any elements."""
    return all(span is None or span[0] < span[1] for span in box.ranges)
