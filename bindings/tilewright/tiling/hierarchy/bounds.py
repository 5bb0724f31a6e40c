"""A lower bound for plans with steps of any size: what every nest moves, whatever its blocks are."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from tilewright.simulator.levels import INSIDE, OUTPUT, OUTSIDE, PARTIAL, READ, WRITTEN, Counts, Tally
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import Cost
from tilewright.tiling.hierarchy.loops import OPERANDS, REDUCED, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan


def lower_bound(layer: Layer, machine: HierarchyMachine, minimise: str, level: str) -> int:
    """Return a bound on the objective of every plan, in its own parts.

    Parameters
    ----------
    machine
        What its levels may hold is decided.
    level
        The memory whose accesses are counted.
    """
    every = _moved(layer, machine)
    first = np.zeros_like(every)
    for i in range(len(machine.nodes)):
        # The first instance of a memory has at least what one has on average; of outputs some are complete
        # and some are not, in any shares.
        instances, moved = _instances(machine, 0, i, extents(layer)), every[i].copy()
        if instances > 1:
            moved[..., OUTPUT] += moved[..., PARTIAL]
            moved[..., PARTIAL] = 0
        first[i] = -(-moved // instances)
    steps = -(-layer.macs // _instances(machine, 0, len(machine.nodes), extents(layer)))
    return Cost(layer, machine, Tally(every, first, steps)).value(minimise, level)


def _moved(layer: Layer, machine: HierarchyMachine) -> Counts:
    """Return the least that is moved, shape (nodes, 2, 2, 4); see `tilewright.simulator.levels.Tally`.

    Each element crosses every boundary once at least. The multipliers take an operand of each MAC from the
    last memory that holds it, but for instances that share it, and give their sums to that of the outputs.
    """
    loops, last = extents(layer), len(machine.nodes)
    whole = Nest(layer, machine, HierarchyPlan(()))
    moved = np.zeros((last, 2, 2, 4), np.int64)
    for o, operand in enumerate(OPERANDS):
        elements = whole.elements(operand, loops)
        for parent, child in pairwise([*machine.holders[operand], last]):
            there, back = (READ, WRITTEN) if o != OUTPUT else (WRITTEN, READ)
            moved[parent, OUTSIDE, there, o] = elements
            if child < last:
                moved[child, INSIDE, back, o] = elements
                continue
            shared = _instances(machine, parent, last, loops, but=_apart(operand))
            fetched = max(elements, -(-layer.macs // shared))
            if o != OUTPUT:
                moved[parent, OUTSIDE, READ, o] = fetched
                continue
            moved[parent, OUTSIDE, WRITTEN, PARTIAL] = fetched - elements
            if _instances(machine, 0, parent, loops, of=REDUCED) == 1:
                # Sums that have begun come back; where an array adds up, each instance begins with nothing.
                moved[parent, OUTSIDE, READ, PARTIAL] = fetched - elements
    return moved


def _apart(operand: str) -> str:
    """Return loops of which no two iterations have an element of an operand in common."""
    return "gnk" if operand == "input" else USES[operand]


def _instances(
    machine: HierarchyMachine,
    first: int,
    last: int,
    loops: dict[str, int],
    *,
    of: str | None = None,
    but: str = "",
) -> int:
    """Return the most instances that some nodes have side by side, along some of the loops."""
    many = 1
    for node in machine.nodes[first:last]:
        if node.axis is not None:
            letters = [each for each in node.axis.loops if each not in but and (of is None or each in of)]
            many *= min(node.axis.size, prod(loops[letter] for letter in letters))
    return many
