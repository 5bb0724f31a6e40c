"""Curves of accesses over capacity: those of networks, and what no schedule goes below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilewright.core.pebble_game import Work, pebble_game
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.loops import REDUCED, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.measures import HierarchyPoint


def any_schedule(layer: Layer, machine: HierarchyMachine, capacity: int) -> int:
    """Return what every schedule moves at least, tiled or not, with so many bytes on chip.

    It is the bound of docs/tiling-bounds.md, in which elements have the widths of the machine.
    """
    bits = machine.bits
    added_up = any(extents(layer)[loop] > 1 for loop in REDUCED)
    widths = bits.input, bits.weights, bits.partial if added_up else bits.output
    usable = 8 * capacity // machine.levels[1].copies
    return pebble_game(_work(layer), usable, widths, passing=3).accesses


@lru_cache(maxsize=256)
def _work(layer: Layer) -> Work:
    """Return a layer as the game sees it: padding is stored."""
    return Work.of(layer)


def summed(
    layers: Sequence[Layer], machine: HierarchyMachine, fronts: Sequence[Sequence[HierarchyPoint]]
) -> list[HierarchyPoint]:
    """Return the front of layers that are executed one after the other, each with the whole memory.

    Parameters
    ----------
    fronts
        Of each layer, points with accesses and capacity; capacities descend.
    """
    curves = [
        np.array([[point.capacity_bytes, point.accesses_elements] for point in reversed(front)])
        for front in fronts
    ]
    enough = max(steps[0, 0] for steps in curves)
    capacities = {each for steps in curves for each in steps[:, 0].tolist()}
    chosen = np.array(sorted(each for each in capacities if each >= enough))
    accesses = np.zeros_like(chosen)
    for steps in curves:
        accesses += steps[np.searchsorted(steps[:, 0], chosen, side="right") - 1, 1]
    return [
        HierarchyPoint(
            accesses_elements=moved,
            capacity_bytes=capacity,
            least_accesses_elements=least_accesses(layers, machine, capacity),
        )
        for moved, capacity in zip(reversed(accesses.tolist()), reversed(chosen.tolist()), strict=True)
    ]


def least_accesses(layers: Sequence[Layer], machine: HierarchyMachine, capacity: int) -> int:
    """Return what every schedule moves at least for layers that are executed one after the other."""
    times = Counter(layers)
    return sum(times[layer] * any_schedule(layer, machine, capacity) for layer in times)
