"""What attention moves in any schedule, and what it costs at least on a machine."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.core.attention_game import Game, arrivals
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.operations.operation import Attention


def pairs_of(attention: Attention) -> int:
    """Return the pairs of a query and a key that it sees, of all heads and images."""
    many, queries, keys = attention.matrices * attention.heads, attention.queries, attention.keys
    if attention.causal is None:
        return many * queries * keys
    return many * int(np.minimum(keys, np.arange(1, queries + 1) + attention.causal).sum())


def room_of(machine: HierarchyMachine) -> int:
    """Return the most elements that all memories on chip hold together, each as narrow as the narrowest."""
    bits, instances = 0, 1
    for level in machine.levels[1:]:
        instances *= prod(axis.size for axis in level.fanout)
        room = level.capacity_bytes
        if isinstance(room, int):
            bits += instances * 8 * room
        elif room is not None:
            bits += instances * 8 * (room.input + room.weights + room.output)
    widths = machine.bits
    return bits // min(widths.input, widths.weights, widths.output, widths.partial)


def any_schedule(attention: Attention, room: int) -> int:
    """Return the elements that every schedule moves with so many on chip: docs/residency-bounds.md."""
    elements, pairs = attention.elements, pairs_of(attention)
    if attention.alike:  # what is loaded for one is there for the other
        return max(count for name, count in elements.items() if name != "context") + elements["context"]
    found = 0
    # Queries, keys, values and sums of the context; each may be left out of the game.
    for counted in range(1, 16):
        with_queries, with_keys, with_values, with_sums = (bool(counted >> place & 1) for place in range(4))
        query = with_queries * attention.depth + with_sums * attention.values
        key = with_keys * attention.depth + with_values * attention.values
        if not query or not key:
            continue
        names = ("queries", "keys", "values", "context")
        first = sum(elements[name] for place, name in enumerate(names) if counted >> place & 1)
        weight = (attention.depth if with_queries and with_keys else 0) + (
            attention.values if with_values and with_sums else 0
        )
        found = max(found, arrivals(Game(pairs, query, key, first, 1, float(weight)), room) - first)
    return sum(elements.values()) + found
