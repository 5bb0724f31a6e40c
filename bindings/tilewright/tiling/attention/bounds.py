"""What attention moves in any schedule, and what it costs at least on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod, sqrt

import numpy as np

from tilewright.core.attention_game import Game, arrivals
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.operations.operation import Attention

PASSING = 3
"""Elements of a product."""


def pairs_of(attention: Attention) -> int:
    """Return the pairs of a query and a key that it sees, of all heads and images."""
    many, queries, keys = attention.matrices * attention.heads, attention.queries, attention.keys
    if attention.causal is None:
        return many * queries * keys
    return many * int(np.minimum(keys, np.arange(1, queries + 1) + attention.causal).sum())


def room_of(machine: HierarchyMachine) -> int:
    """Return the most elements that are on chip together, each as narrow as the narrowest.

    Operands of a product may pass by all memories on chip.
    """
    bits, instances = 0, 1
    for level in machine.levels[1:]:
        instances *= prod(axis.size for axis in level.fanout)
        room = level.capacity_bytes
        if isinstance(room, int):
            bits += instances * 8 * room
        elif room is not None:
            bits += instances * 8 * (room.input + room.weights + room.output)
    told = machine.bits
    widths = (told.input, told.weights, told.output, told.partial)
    return (bits + PASSING * max(widths)) // min(widths)


def any_schedule(attention: Attention, machine: HierarchyMachine) -> int:
    """Return the elements that every schedule moves from and to the outermost memory.

    Proofs are in docs/residency-bounds.md. A sum that leaves before it is complete is written and read, two
    elements, so that a stay of one on chip may count two, if it takes as much room.
    """
    elements, room = attention.elements, room_of(machine)
    if attention.alike:  # what is loaded for one is there for the other
        return max(count for name, count in elements.items() if name != "context") + elements["context"]
    widths = machine.bits
    wide = widths.partial // min(widths.input, widths.weights, widths.output, widths.partial)
    excess = (arrivals(game, room) - game.first for game in _games(attention, min(2, wide)))
    return sum(elements.values()) + max(0, *excess)


def _games(attention: Attention, most: int) -> Iterator[Game]:
    """Return all ways to count: with or without queries, keys, values and sums, which count up to `most`."""
    elements, pairs = attention.elements, pairs_of(attention)
    for *counted, charge in product((0, 1), (0, 1), (0, 1), range(most + 1)):
        queries, keys, values = counted
        query = queries * attention.depth + charge * attention.values
        key = keys * attention.depth + values * attention.values
        if not query or not key:
            continue
        times = {"queries": queries, "keys": keys, "values": values, "context": charge}
        first = sum(often * elements[name] for name, often in times.items())
        weight = queries * keys * attention.depth + values * sqrt(charge) * attention.values
        yield Game(pairs, query, key, first, max(1, charge), weight)
