"""All tiles of an operation that can matter, each with what it costs."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from tilewright.spec.access import SOME
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.tiling.operations.machines import unit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import move_tiles, permutation_of
from tilewright.tiling.operations.plan import LOOPS, MoveTile, OperationPlan, ScanTile
from tilewright.tiling.operations.units import Costs, Machine
from tilewright.tiling.operations.walk import Walk
from tilewright.tiling.operations.walks import AnyWalk, least_tile, walk_of
from tilewright.tiling.tile import even_steps

FURTHER = 256
"""How many more tiles than needed the plan of a stream may have; they shorten its first and last transfer."""

TIMES = ("cycles", "time")
"""Costs that are times."""

MOST_TILES = 2**24
"""Most tiles of a plan."""


class Priced(NamedTuple):
    """A plan and what it costs."""

    plan: OperationPlan
    costs: Costs


@lru_cache(maxsize=1024)
def largest(operation: Operation, machine: Machine) -> int | None:
    """Return the most columns of a tile that fits; for windows, of one row and map. None if none does."""
    fits = unit(machine, operation)
    if operation.recurrence is not None or operation.permutation is not None:
        smallest = least_tile(operation)
        return 1 if fits.overflow(walk_of(operation, smallest).buffers) is None else None
    width = operation.output[2] if operation.windowed else Walk(operation, OperationPlan((1, 1, 1))).length
    if operation.on == "host":
        return width
    deep, tall, least = operation.smallest if operation.windowed else (1, 1, 1)
    low, high = (0, width) if least == 1 else (width - 1, width)
    while low < high:  # what fits fits in smaller pieces, too
        middle = (low + high + 1) // 2
        if fits.overflow(Walk(operation, OperationPlan((deep, tall, middle))).buffers) is None:
            low = middle
        else:
            high = middle - 1
    return low if low >= least else None


def as_it_fits(operation: Operation, machine: Machine) -> Operation:
    """Return an operation as one of which a lower bound is known, if its smallest tile does not fit."""
    if operation.permutation is not None and not _counts_runs(operation, machine):
        operation = operation.model_copy(update={"permutation": None})
    if operation.needs == "state" and (operation.on == "host" or largest(operation, machine) is None):
        operation = operation.model_copy(update={"needs": "all", "recurrence": None})
    if (operation.along or operation.needs == "maps") and largest(operation, machine) is None:
        operation = operation.model_copy(update={"windowed": False, "needs": "all", "along": ()})
    if largest(operation, machine) is not None:
        return operation
    pieces = {"windowed": False, "needs": "flow", "inputs": operation.touched}
    return operation.model_copy(update=pieces)


def _counts_runs(operation: Operation, machine: Machine) -> bool:
    """Whether a move costs by runs of values that follow each other, so that tiles are boxes."""
    return machine.kind == "npu" and operation.on != "host" and operation.elements <= 2 * MOST_TILES


def _at_once(operation: Operation, machine: Machine) -> bool:
    """Whether all of an operation that needs everything is on chip at a time."""
    fits = operation.needs == "all" and operation.on != "host"
    return fits and unit(machine, operation).overflow(Walk(operation, whole(operation)).buffers) is None


def lower_bound(operation: Operation, machine: Machine, plan: OperationPlan, counted: str) -> str | None:
    """Say why what a plan costs is but a lower bound, or None where it is exact.

    Parameters
    ----------
    counted
        Which cost.
    """
    if operation.needs == "all" and operation.on == "host":
        # The price is of bytes of inputs, of which some functions may read but a few.
        if counted in TIMES and operation.op not in SOME:
            return None
        return "what it moves on the host is not known"
    if operation.needs == "flow":
        return "not all that one output depends on fits on chip, and each value is moved once at least"
    if operation.needs == "all" and Walk(operation, plan).steps > 1:
        return "not all of it fits on chip at a time, and each value is moved once at least"
    bursts = machine.kind == "npu" and counted != "accesses" and operation.on != "host"
    known = operation.needs != "order" or operation.permutation is not None
    if not known and bursts and Walk(operation, plan).steps > 1:
        return "it is counted in bursts of values that follow each other, of which there are fewer"
    return None


def check(operation: Operation, machine: Machine) -> None:
    """Refuse an operation of which not even the smallest tile fits.

    Raises
    ------
    InputError
        Says what is needed.
    """
    columns = largest(operation, machine)
    deep, tall, across = operation.smallest if operation.windowed else (1, 1, 1)
    smallest = OperationPlan((deep, tall, max(columns or 1, across)))
    if operation.recurrence is not None:
        if operation.on == "host":
            raise InputError(
                "operation.recurrence", operation.op, "is for a vector unit, which keeps the state"
            )
        smallest = least_tile(operation)
    if operation.permutation is not None:
        smallest = least_tile(operation)
    walk = walk_of(operation, smallest)
    if columns is None:
        told = unit(machine, operation).overflow(walk.buffers)
        raise InputError("operation", operation.op, f"its smallest tile does not fit: {told}")
    if isinstance(walk, Walk):
        unit(machine, operation).check(walk)
    streams = not operation.windowed and operation.permutation is None
    if operation.on != "host" and streams and walk.steps > MOST_TILES:
        raise InputError("operation", operation.op, f"needs more than {MOST_TILES:,} tiles")


def tiles(operation: Operation, machine: Machine) -> Iterator[OperationPlan]:
    """Yield the plans that are looked at: tiles of different numbers, each as even as it can be.

    Rows are whole where a row of one map fits.
    """
    columns = largest(operation, machine)
    if columns is None:
        return
    maps, rows, width = operation.output
    if operation.on == "host" or _at_once(operation, machine):
        yield whole(operation)
        return
    if operation.recurrence is not None:
        yield from _scans(operation, machine)
        return
    if operation.permutation is not None:
        does = unit(machine, operation)
        every = move_tiles(operation)
        yield from (plan for plan in every if does.overflow(walk_of(operation, plan).buffers) is None)
        return
    if not operation.windowed:
        length = Walk(operation, OperationPlan((1, 1, 1))).length
        fewest = -(-length // columns)
        sizes = dict.fromkeys(-(-length // (fewest + more)) for more in range(FURTHER + 1))
        yield from (OperationPlan((1, 1, size)) for size in sizes)
        return
    fits, (least, lowest, _) = unit(machine, operation), operation.smallest
    widths = [width] if columns == width else [step for step in even_steps(width) if step <= columns]
    for across in reversed(widths):
        for tall in [step for step in reversed(even_steps(rows)) if step >= lowest]:
            for deep in [step for step in reversed(even_steps(maps)) if step >= least]:
                plan = OperationPlan((deep, tall, across))
                if fits.overflow(Walk(operation, plan).buffers) is None:
                    yield plan


def _scans(operation: Operation, machine: Machine) -> Iterator[OperationPlan]:
    """Yield the plans of a recurrent layer that are looked at: all, but those in which fewer weights stay.

    Nothing costs less where fewer stay, unless weights are read once anyway.
    """
    told, fits = operation.recurrence, unit(machine, operation)
    assert told is not None
    for images, steps, hidden in product(
        halvings(operation.batch), halvings(told.steps), even_steps(told.hidden)
    ):
        once = told.steps == 1 and images == operation.batch

        def plan(resident: int, sizes: tuple[int, int, int] = (hidden, steps, images)) -> OperationPlan:
            return OperationPlan(ScanTile(*sizes, resident))

        every = [told.hidden, *range(0, told.hidden - hidden, hidden)[::-1]]
        if once and len(every) > 1:
            every = [0]
        # What fits fits with fewer, too.
        place = bisect_left(
            every, True, key=lambda each: fits.overflow(walk_of(operation, plan(each)).buffers) is None
        )
        if place < len(every):
            yield plan(every[place])


def halvings(size: int) -> tuple[int, ...]:
    """Return the steps of a loop of one iteration, of two, four and so on, and of as many as there can be."""
    numbers = [2**power for power in range(size.bit_length())]
    return tuple(dict.fromkeys(-(-size // number) for number in (*numbers, size)))


def whole(operation: Operation) -> OperationPlan:
    """Return the plan of a single tile."""
    if operation.permutation is not None:
        return OperationPlan(MoveTile(permutation_of(operation).sizes))
    if operation.windowed:
        return OperationPlan(operation.output)
    return OperationPlan((1, 1, Walk(operation, OperationPlan((1, 1, 1))).length))


def outside_of_space(operation: Operation, machine: Machine, plan: OperationPlan) -> str | None:
    """Say why a plan is not among those that are compared, or None."""
    columns = largest(operation, machine)
    if isinstance(plan.tile, ScanTile):
        assert operation.recurrence is not None
        for name, size in (("steps", operation.recurrence.steps), ("images", operation.batch)):
            if getattr(plan.tile, name) not in (known := halvings(size)):
                return f"tile: {getattr(plan.tile, name)} {name}, which are {', '.join(map(str, known))}"
        if walk_of(operation, plan).steps > MOST_TILES:
            return f"tile: more than {MOST_TILES:,} tiles"
        return None
    if isinstance(plan.tile, MoveTile):
        return (
            f"tile: more than {MOST_TILES:,} tiles" if walk_of(operation, plan).steps > MOST_TILES else None
        )
    if operation.on == "host":
        return None if plan.tile == whole(operation).tile else "tile: a host does an operation at once"
    if Walk(operation, plan).steps > MOST_TILES:
        return f"tile: more than {MOST_TILES:,} tiles"
    if columns is None:
        return None
    if _at_once(operation, machine) and plan.tile != whole(operation).tile:
        return "tile: a part, where all fits, which the operation needs"
    if operation.windowed:
        for name, size, least in zip(LOOPS, plan.tile, operation.smallest, strict=True):
            if size < least:
                return f"tile: parts of the {name}, all of which the operation needs"
    if not operation.windowed:
        length = Walk(operation, plan).length
        fewest, steps = -(-length // columns), -(-length // plan.tile[2])
        return None if steps <= fewest + FURTHER else f"tile: {steps} tiles, more than {fewest} + {FURTHER}"
    width = operation.output[2]
    return "tile: parts of rows, where whole ones fit" if plan.tile[2] < width == columns else None


def priced(operation: Operation, machine: Machine, level: str, deadline: float) -> list[Priced]:
    """Return all plans of `tiles` with their costs; raises OutOfTimeError when the deadline passes."""
    return list(_priced(operation, machine, level, Deadline(deadline)))


def ranked(costs: Costs, walk: AnyWalk) -> tuple[int, ...]:
    """Return what a plan moves, its time, energy and memory, which break ties."""
    moved = "traffic" if "traffic" in costs else "accesses"
    named = (costs[name] for name in (moved, "cycles", "time", "energy") if name in costs)
    return (*named, sum(walk.buffers.values()))


class Deadline:
    """A deadline that does not tell searches apart that are cached."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deadline)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=1024)
def _priced(operation: Operation, machine: Machine, level: str, deadline: Deadline) -> tuple[Priced, ...]:
    most = (plan for plan in tiles(operation, machine) if walk_of(operation, plan).steps <= MOST_TILES)
    found: list[Priced] = []
    for plan, costs in unit(machine, operation).choices(list(most), level):
        if time.monotonic() > deadline.at:
            raise OutOfTimeError
        found.append(Priced(plan, costs))
    return tuple(found)
