"""Lower a plan to what the simulator executes level by level."""

from __future__ import annotations

from tilewright.simulator.levels import LevelProgram, Place
from tilewright.tiling.hierarchy.loops import OPERANDS, USES
from tilewright.tiling.hierarchy.nest import Nest, fresh


def lower(nest: Nest) -> LevelProgram:
    """Return the program of a nest."""
    places = []
    for i, node in enumerate(nest.machine.nodes):
        held = frozenset(map(OPERANDS.index, node.holds))
        places.append(Place(node.name, node.axis is None, held, nest.plan.nest[i], i in nest.machine.halos))
    return LevelProgram(
        places=tuple(places),
        extents=nest.extents,
        uses=(USES["input"], USES["weights"], USES["output"]),
        elements=lambda operand, block: nest.elements(OPERANDS[operand], dict(block)),
        fresh=lambda block, loop: fresh(nest.layer, block, loop),
    )
