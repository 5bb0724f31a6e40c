"""The least accesses for every capacity at once, on machines with one memory on chip.

What is moved depends on the block that this memory holds and on which loop outside of it goes on most often.
So one pass over all blocks and the orders that matter finds every plan that is best for some capacity;
docs/hierarchy.md argues why none is lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.front import undominated
from tilewright.simulator.levels import SLIDING
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.exact.lattice import MOST, Lattice
from tilewright.tiling.hierarchy.exact.partial_plans import ALONG, ANY
from tilewright.tiling.hierarchy.exact.search import arrange
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.loops import LETTERS, OPERANDS, REDUCED, STILL, USES
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.machine_kind import TradeOff

Table = NDArray[np.int64]

MEMORY = 1
"""The node of the memory on chip."""


class Candidates(NamedTuple):
    """Plans of which none needs less capacity and has no more accesses than another.

    Attributes
    ----------
    capacity, accesses
        Bytes of the memory on chip, ascending, and elements moved from and to the one outside, descending.
    block
        The number of the block that is held in the lattice.
    order
        One of the orders of the search, see `arrange`.
    """

    capacity: Table
    accesses: Table
    block: Table
    order: Table

    def best(self) -> NDArray[np.intp]:
        """Return the rows that no other dominates, by ascending capacity."""
        return undominated(self.capacity, self.accesses)


def capacity_front(layer: Layer, machine: HierarchyMachine) -> list[TradeOff[HierarchyPlan]]:
    """Return, from the least accesses on, all plans that no other has fewer accesses than in as few bytes.

    Parameters
    ----------
    machine
        With two memories.

    Raises
    ------
    OutOfTimeError
        If the layer has more blocks than are looked at.
    """
    lattice = Lattice(layer)
    if lattice.many > MOST:
        raise OutOfTimeError
    found: list[tuple[int, int, HierarchyPlan]] = []
    for kept in machine.choices:
        plans = _candidates(lattice, machine.keeping(kept))
        for row in plans.best().tolist():
            plan = _plan(lattice, int(plans.block[row]), int(plans.order[row]), kept)
            found.append((int(plans.capacity[row]), int(plans.accesses[row]), plan))
    points: list[TradeOff[HierarchyPlan]] = []
    for capacity, accesses, plan in sorted(found, key=lambda one: one[:2]):
        if not points or accesses < points[-1].values[0]:
            points.append(TradeOff((accesses, capacity), plan))
    return points[::-1]


def _candidates(lattice: Lattice, machine: HierarchyMachine) -> Candidates:
    """Return the best order of every block that fits."""
    added_up = any(lattice.extents[loop] > 1 for loop in REDUCED)
    width = machine.bits.partial if added_up else machine.bits.output
    block = np.flatnonzero(lattice.fits(machine, MEMORY, width))
    capacity = -(-lattice.bits(machine, MEMORY, width).sum(axis=1)[block] // 8)
    accesses, order = _fewest(lattice, machine, block)
    return Candidates(capacity, accesses, block, order)


def _fewest(lattice: Lattice, machine: HierarchyMachine, block: Table) -> tuple[Table, Table]:
    """Return the fewest accesses of each block, and the order that has them."""
    holds = machine.nodes[MEMORY].holds
    tile, every = lattice.elements[block], lattice.times(LETTERS)[block]
    moved = np.stack([lattice.times(USES[operand])[block] for operand in OPERANDS], axis=1)
    trips = np.array(list(lattice.extents.values())) // lattice.sizes[block]
    # A sum is written and read back each time, but that the first time there is nothing to read.
    ways = np.array([1, 1, 2])
    # What is not held goes to the multipliers for every multiplication.
    total = ways[[operand not in holds for operand in OPERANDS]].sum() * lattice.layer.macs
    total = total - np.prod(lattice.layer.output_shape)
    for o, operand in enumerate(OPERANDS):
        total = total + ways[o] * every * tile[:, o] * (operand in holds)
    least, order = total, np.full(len(block), ANY)
    for o, operand in enumerate(OPERANDS):
        stays = total - ways[o] * (every - moved[:, o]) * tile[:, o] * (operand in holds)
        options = [(stays, o)]
        for i, loop in enumerate(SLIDING if MEMORY in machine.halos else ""):
            if operand == "input" or loop in STILL[operand]:
                # Each iteration of this loop but the first brings only what is not there yet.
                along = trips[:, LETTERS.index(loop)]
                next_ones = (moved[:, 0] if operand == "input" else every) // along * (along - 1)
                saved = next_ones * (tile[:, 0] - lattice.fresh[block, i])
                options.append((stays - saved, o + ALONG * (i + 1)))
        for accesses, number in options:
            order = np.where(accesses < least, number, order)
            least = np.minimum(accesses, least)
    return least, order


def _plan(lattice: Lattice, block: int, order: int, kept: Kept) -> HierarchyPlan:
    """Return the plan that holds a block, with the loops outside of it in one of the search's orders."""
    sizes = dict(zip(LETTERS, lattice.sizes[block].tolist(), strict=True))
    trips = {loop: extent // sizes[loop] for loop, extent in lattice.extents.items()}
    outside = tuple((loop, sizes[loop]) for loop in arrange(order, trips))
    return HierarchyPlan((outside, tuple((loop, 1) for loop in LETTERS if sizes[loop] > 1)), kept)
