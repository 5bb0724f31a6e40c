"""Proven lower bounds on what a layer costs, whatever its tiles and loops; proofs in docs/tiling-bounds.md.

The bound on accesses is that of the pebble game (`core.pebble_game`): it holds for every schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.core.bounds import Bound
from tilewright.core.pebble_game import MARGIN, Game, Work, pebble_game
from tilewright.tiling.dsp.cost import energy
from tilewright.tiling.dsp.nest import Nest, X, Y


@dataclass(frozen=True, kw_only=True)
class LayerBound(Bound):
    """A lower bound on the cost of every plan of a layer, and what it follows from.

    Its name is the argument: ``compulsory``, ``pebble game``, or ``compute`` where the core's work is what
    counts.

    Attributes
    ----------
    accesses
        Bound on the elements that any schedule loads and writes, tiled or not.
    bits
        Bound on the bits of these, on a machine that gives widths.
    parameters
        What is needed to recompute it.
    """

    accesses: int
    bits: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(f"{key} {value}" for key, value in self.parameters.items())
        least = f"{self.accesses} accesses" if self.bits is None else f"{self.bits} bits of accesses"
        return f"{self.name} bound: at least {least}" + (f" ({shown})" if shown else "")


@lru_cache(maxsize=256)
def best_bound(nest: Nest, minimise: str, local: int) -> LayerBound:
    """Return the strongest bound of this module on what a plan costs.

    Parameters
    ----------
    minimise : {"accesses", "cycles", "energy"}
        Of a Pareto front it is the fewest cycles that are bounded.
    local
        Units of local traffic of the layer (`exact.local_traffic`).
    """
    work = work_of(nest)
    game = pebble_game(work, nest.machine.buffer_capacity, nest.machine.units[:3])
    name, moved, parameters = game.name, in_units(nest, work, game), game.parameters
    bits = None if nest.machine.bits is None else moved
    if nest.compulsory_units > moved:
        # Tiles load whole boxes: with dilation, or a stride above the kernel's size, more than MACs need.
        name, moved, parameters = "compulsory", nest.compulsory_units, {}
    steps = fewest_tiles(nest, work)
    if minimise == "accesses":
        return LayerBound(name, moved, steps, accesses=game.accesses, bits=bits, parameters=parameters)
    transfers = fewest_transfers(nest, moved, steps)
    compute = -(-nest.macs // nest.machine.macs_per_cycle)
    if minimise == "energy":
        busy = compute + nest.machine.dma_setup_cycles * transfers
        value = energy(nest.machine, moved, busy, local)
        return LayerBound(name, value, steps, accesses=game.accesses, bits=bits, parameters=parameters)
    core, bus = _cycles(nest, moved, transfers, compute, local)
    if core > bus:
        name, parameters = "compute", {}
    return LayerBound(name, max(core, bus), steps, accesses=game.accesses, bits=bits, parameters=parameters)


# Accesses ------------------------------------------------------------------------------------------


def work_of(nest: Nest) -> Work:
    """Return the MACs of a layer as the pebble game sees them."""
    return Work.of(nest.layer, generated=nest.machine.padding == "generated")


def in_units(nest: Nest, work: Work, game: Game) -> int:
    """Bound the units that every schedule moves, given a bound on the elements.

    What it moves beyond each input, weight and output once is an input, a weight or a partial sum.
    """
    units, totals = nest.machine.units, work.totals
    once = sum(total * width for total, width in zip(totals, units[:3], strict=True))
    return once + (game.accesses - sum(totals)) * min(units.input, units.kernels, units.partial)


# Tiles, transfers, cycles --------------------------------------------------------------------------


def fewest_tiles(nest: Nest, work: Work) -> int:
    """Bound the tiles of a plan from below: the memory limits the operands and the MACs of a tile."""
    capacity, (*each, _) = nest.machine.buffer_capacity, nest.machine.units
    most = (capacity / 3) ** 1.5 / np.sqrt(np.prod(each, dtype=np.float64)) * (1 + MARGIN)
    # No tile has more of an operand than the memory holds beside one element of each other operand.
    rooms = ((capacity - sum(each) + width) // width for width in each)
    pieces = (-(-total // room) for total, room in zip(work.totals, rooms, strict=True))
    return max(1, int(np.ceil(work.total * (1 - MARGIN) / most)), *pieces)


def fewest_transfers(nest: Nest, accesses: int, tiles: int) -> int:
    """Bound the transfers of a plan from below, given bounds on its accesses (in units) and tiles.

    The first tile loads its input and weights, the last writes its output. From one tile to the next at least
    two operands change, each of which takes a transfer, but for an input whose new part is generated padding.
    No transfer moves more than the memory holds beside one element of each other operand.
    """
    each = 1 if nest.machine.padding == "generated" else 2
    *widths, _ = nest.machine.units
    largest = nest.machine.buffer_capacity - sum(widths) + max(widths)
    return max(3 + each * (tiles - 1), -(-accesses // largest))


def _cycles(nest: Nest, accesses: int, transfers: int, compute: int, local: int) -> tuple[int, int]:
    """Bound cycles by the work of the core and by that of the bus; `duration` has the model.

    With double buffering both work at the same time but for the first loads and the last write, during which
    the core only sets them up. Without, one follows the other.
    """
    machine = nest.machine
    bus, setup, units = machine.bus_units_per_cycle, machine.dma_setup_cycles, machine.units
    if not machine.double_buffering:
        moving = setup * transfers + -(-accesses // bus)
        return moving + compute, moving + -(-local // bus)
    plane = int(nest.axis(Y, 1).full[0] * nest.axis(X, 1).full[0])
    ends = sum(-(-moved // bus) for moved in (plane * units.input, nest.window * units.kernels, units.output))
    return setup * transfers + ends + compute, 3 * setup + -(-(accesses + local) // bus)
