"""The inner loops of an operation that are worth trying, and what one takes for each tile of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.tiling.dsp.compute import undominated
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, TAPS, Counts, InnerLoop, body_taps
from tilewright.tiling.dsp.inner_search import LoopFamily, unrollings
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.units import Machine
from tilewright.tiling.operations.vector_loop import (
    AXES,
    costs_of_bodies,
    extents,
    has_loop,
    loop_costs,
    work_of,
)
from tilewright.tiling.operations.walk import Walk
from tilewright.tiling.operations.walks import AnyWalk

Kinds = tuple[tuple[int, int, int], ...]
"""Maps, rows and columns of tiles that differ."""


class LoopOption(NamedTuple):
    """A loop with what it takes for each kind of tiles: cycles, and vectors that it loads and stores."""

    loop: InnerLoop
    cycles: Counts
    transfers: Counts


def loops_worth_trying(
    operation: Operation, machine: DspMachine, tiles: Sequence[Kinds]
) -> list[tuple[LoopOption, ...]]:
    """Return the loops of plans' tiles that no other one is at least as good as on each tile of the plan.

    Parameters
    ----------
    tiles
        Of each plan, the sizes of its tiles that differ, the largest first.
    """
    known = _known(operation, machine)
    new = [kinds for kinds in dict.fromkeys(tiles) if kinds not in known]
    if new:
        known.update(zip(new, _worth_trying(operation, machine, new), strict=True))
    return [known[kinds] for kinds in tiles]


@lru_cache(maxsize=256)
def _known(_operation: Operation, _machine: DspMachine) -> dict[Kinds, tuple[LoopOption, ...]]:
    """Return a place for what is known of an operation."""
    return {}


def _worth_trying(
    operation: Operation, machine: DspMachine, tiles: Sequence[Kinds]
) -> Iterator[tuple[LoopOption, ...]]:
    """Yield those of each plan; the loops of all plans are evaluated together."""
    many = max(map(len, tiles))
    sizes = np.array([[*kinds, *kinds[:1] * (many - len(kinds))] for kinds in tiles], np.int64)
    found = [
        _costs_of_family(operation, machine, family, sizes) for family in _families(operation, machine, tiles)
    ]
    plans = np.concatenate([plan for plan, _, _ in found])
    table = np.concatenate([table for _, table, _ in found])
    numbers = np.concatenate([np.arange(len(plan)) for plan, _, _ in found])
    of_family = np.repeat(np.arange(len(found)), [len(plan) for plan, _, _ in found])
    order = np.argsort(plans, kind="stable")
    ends = np.searchsorted(plans[order], np.arange(len(tiles) + 1))
    for plan, kinds in enumerate(tiles):
        own = order[ends[plan] : ends[plan + 1]]
        best = own[undominated(table[own])]
        yield tuple(
            LoopOption(
                found[of_family[at]][2].loop(int(numbers[at])),
                table[at, : len(kinds)],
                table[at, many : many + len(kinds)],
            )
            for at in best.tolist()
        )


def _families(
    operation: Operation, machine: DspMachine, tiles: Sequence[Kinds]
) -> Iterator[tuple[Counts, LoopFamily]]:
    """Yield all loops of plans' tiles whose bodies are within `VectorUnit.unrolled_macs`, with the plan."""
    unit, work = machine.vector_unit, work_of(operation, machine.element_bytes)
    assert unit is not None
    every = [taps for taps, along in zip(TAPS, (2, *work.kernel), strict=True) if along > 1]
    for vector, taps in product(AXES, every):
        chain = work.chain(prod(body_taps(work.kernel, taps))) + work.after
        most = unit.unrolled_macs // max(1, chain)
        each = [unrollings(extents(unit, kinds[0], vector), most) for kinds in tiles]
        plans = np.repeat(np.arange(len(tiles)), [len(unroll[0]) for unroll in each])
        unroll = list(np.concatenate(each, axis=1))
        one = np.ones_like(plans)
        if len(plans):
            for pipelined in AXES:
                yield plans, LoopFamily(vector, pipelined, taps, [one, *unroll, one])


def _costs_of_family(
    operation: Operation, machine: DspMachine, some: tuple[Counts, LoopFamily], sizes: Counts
) -> tuple[Counts, Counts, LoopFamily]:
    """Return loops that fit all tiles of their plan, with cycles, then transfers, of each kind of tiles.

    Parameters
    ----------
    sizes : int, shape (plans, kinds, 3)
    """
    (plans, family), unit = some, machine.vector_unit
    assert unit is not None
    work, fits = work_of(operation, machine.element_bytes), np.ones(len(plans), np.bool_)
    columns: list[list[Counts]] = [[], []]
    for kind in range(sizes.shape[1]):
        c, y, x = sizes[plans, kind].T
        most = extents(unit, (c, y, x), family.vector)
        unroll = [np.minimum(each, size) for each, size in zip(family.unroll[1:4], most, strict=True)]
        costs = costs_of_bodies(unit, work, (c, y, x), *family[:3], unroll)
        fits &= costs.fits
        columns[0].append(costs.cycles)
        columns[1].append(costs.transfers)
    table = np.stack([*columns[0], *columns[1]], axis=1)
    return plans[fits], table[fits], family._replace(unroll=[each[fits] for each in family.unroll])


def loop_of(operation: Operation, machine: DspMachine, walk: Walk) -> InnerLoop:
    """Return the loop of a plan: without one of its own, the fastest for all its tiles together."""
    if walk.plan.inner_loop is not None:
        return walk.plan.inner_loop
    kinds, kind = walk.kinds
    number = np.bincount(kind)
    (options,) = loops_worth_trying(operation, machine, [kinds])
    return min(options, key=lambda each: (int(each.cycles @ number), int(each.transfers @ number))).loop


def compute_of_tiles(operation: Operation, machine: DspMachine, walk: Walk) -> tuple[Counts, Counts]:
    """Return the cycles of each tile of a plan, and the vectors that it loads and stores."""
    unit, loop = machine.vector_unit, loop_of(operation, machine, walk)
    assert unit is not None
    work, (kinds, index) = work_of(operation, machine.element_bytes), walk.kinds
    costs = [loop_costs(unit, work, sizes, loop) for sizes in kinds]
    return tuple(np.array([getattr(each, name) for each in costs])[index] for name in ("cycles", "transfers"))  # type: ignore[return-value]


def room_needed(operation: Operation, machine: DspMachine, walk: Walk) -> dict[str, int]:
    """Return the registers and the instructions of the smallest body of a tile."""
    unit, most = machine.vector_unit, 2**62
    assert unit is not None
    work, tile = work_of(operation, machine.element_bytes), walk.kinds[0][0]
    smallest: dict[str, int] = {"registers": most, "unrolled_macs": most}
    for vector, pipelined, taps in product(AXES, AXES, TAPS):
        costs = loop_costs(unit, work, tile, InnerLoop(vector, pipelined, taps=taps))
        smallest["registers"] = min(smallest["registers"], costs.least_registers)
        own = costs.arithmetic // (costs.entries * costs.iterations)
        smallest["unrolled_macs"] = min(smallest["unrolled_macs"], own)
    return smallest


def misfit(operation: Operation, machine: Machine, walk: AnyWalk) -> str | None:
    """Say why a plan's inner loop cannot run, or None."""
    loop = walk.plan.inner_loop
    if loop is None:
        return None
    if machine.kind != "dsp" or (unit := machine.vector_unit) is None:
        return "inner loop: the machine has no vector_unit"
    if operation.on != "vector" or not has_loop(operation) or not isinstance(walk, Walk):
        return f"inner loop: none is modelled of {operation.op}"
    if not {loop.vector, loop.pipelined} <= set(AXES):
        return f"inner loop: operations have the dimensions {', '.join(AXES)}"
    if any(u > 1 for d, u in zip(DIMENSIONS, loop.unroll, strict=True) if d not in AXES):
        return f"inner loop: only {', '.join(AXES)} are unrolled"
    work = work_of(operation, machine.element_bytes)
    for sizes in walk.kinds[0]:
        costs = loop_costs(unit, work, sizes, loop)
        if not costs.fits:
            return (
                f"inner loop: {costs.least_registers} registers and a body of "
                f"{costs.arithmetic // (costs.entries * costs.iterations)} instructions are needed, "
                f"the machine has {unit.registers} and takes {unit.unrolled_macs}"
            )
    return None
