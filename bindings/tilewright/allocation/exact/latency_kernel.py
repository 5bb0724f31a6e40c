"""The compiled kernel of `latency_dp`: the states of a table after one more layer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.allocation.geometry import Numbers
from tilewright.core.jit import inner, kernel


class States(NamedTuple):
    """The states of a table.

    Attributes
    ----------
    first : int, shape (levels + 1,)
        Where the states of each level begin.
    pes, value : int, shape (states,)
        PEs in use and the earliest start, sorted by level and PEs.
    """

    first: Numbers
    pes: Numbers
    value: Numbers


class LayerStep(NamedTuple):
    """A layer that is added; of each level, unless it says otherwise.

    Attributes
    ----------
    keep, rise
        PEs of the layer's group, and with a rise to the level.
    before, paces
        Paces of the layer before and of this one.
    ahead, done : int, shape (corners,)
        The lead of the edge.
    starts
        Whether the layer is the first, which has to rise from nothing.
    """

    keep: Numbers
    rise: Numbers
    before: Numbers
    paces: Numbers
    ahead: Numbers
    done: Numbers
    starts: bool


@inner
def _delay(step: LayerStep, previous: int, level: int) -> int:
    """Return how much later a layer starts than the one before, from one level to another."""
    delay: int = step.ahead[0] * step.before[previous]
    for corner in range(1, len(step.ahead)):
        late = step.ahead[corner] * step.before[previous] - step.done[corner] * step.paces[level]
        delay = max(delay, late)
    return delay


@kernel()
def add_layer(
    states: States, step: LayerStep, most: int
) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Return the states after one more layer.

    Parameters
    ----------
    most
        PEs that leave enough for the layers to come.

    Returns
    -------
    first, level, pes, value, origin
        The new states, and which each comes from.
    """
    never = np.int64(2**62)
    # Of one level at a time: the earliest start with each number of PEs, and the state that it comes from.
    earliest, source = np.full(most + 1, never), np.zeros(most + 1, dtype=np.int64)
    length = max(1024, 2 * len(states.pes))
    table = np.empty((4, length), dtype=np.int64)  # level, PEs, start and origin of the new states
    begins = np.zeros(len(step.keep) + 1, dtype=np.int64)
    count = 0
    for level in range(len(step.keep)):
        low, high = most + 1, -1  # PEs of the new states at this level
        for previous in range(1 if step.starts else level + 1):
            cost = step.keep[level] if previous == level and not step.starts else step.rise[level]
            if cost > most:
                continue
            delay = _delay(step, previous, level)
            for state in range(states.first[previous], states.first[previous + 1]):
                total = states.pes[state] + cost
                if total > most:
                    break
                low, high = min(low, total), max(high, total)
                if states.value[state] + delay < earliest[total]:
                    earliest[total], source[total] = states.value[state] + delay, state
        # Kept are states that start before all others of this level with no more PEs.
        least = never
        for total in range(low, high + 1):
            if earliest[total] < least:
                least = earliest[total]
                if count == length:
                    length *= 2
                    longer = np.empty((4, length), dtype=np.int64)
                    longer[:, :count] = table[:, :count]
                    table = longer
                table[0, count], table[1, count] = level, total
                table[2, count], table[3, count] = least, source[total]
                count += 1
            earliest[total] = never
        begins[level + 1] = count
    found = table[:, :count]
    return begins, found[0].copy(), found[1].copy(), found[2].copy(), found[3].copy()
