"""The compiled kernel of `latency_dp`: the states of a table after one more layer."""

from __future__ import annotations

import numpy as np

from tilewright.allocation.geometry import Numbers
from tilewright.core.jit import kernel


@kernel()
def advanced(
    first: Numbers,
    pes: Numbers,
    value: Numbers,
    keep: Numbers,
    rise: Numbers,
    ahead: Numbers,
    done: Numbers,
    before: Numbers,
    paces: Numbers,
    most: int,
    starts: bool,
) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Return the states after one more layer.

    Parameters
    ----------
    first : int, shape (levels + 1,)
        Where the states of each level begin in `pes` and `value`, sorted by level and PEs.
    keep, rise : int, shape (levels,)
        PEs of the layer's group, and with a rise to the level.
    ahead, done : int, shape (corners,)
        The lead of the edge.
    before, paces : int, shape (levels,)
        Paces of the layer before and of this one at each level.
    most
        PEs that leave enough for the layers to come.
    starts
        Whether the layer is the first, which has to rise from nothing.

    Returns
    -------
    first, level, pes, value, origin
        The new states, and which each comes from.
    """
    never = np.int64(2**62)
    # Of one level at a time: the earliest start with each number of PEs, and the state that it comes from.
    earliest, source = np.full(most + 1, never), np.zeros(most + 1, dtype=np.int64)
    length = max(1024, 2 * len(pes))
    table = np.empty((4, length), dtype=np.int64)  # level, PEs, start and origin of the new states
    begins = np.zeros(len(keep) + 1, dtype=np.int64)
    count = 0
    for level in range(len(keep)):
        low, high = most + 1, -1  # PEs of the new states at this level
        for previous in range(1 if starts else level + 1):
            cost = keep[level] if previous == level and not starts else rise[level]
            if cost > most:
                continue
            delay = ahead[0] * before[previous]
            for corner in range(1, len(ahead)):
                delay = max(delay, ahead[corner] * before[previous] - done[corner] * paces[level])
            for state in range(first[previous], first[previous + 1]):
                total = pes[state] + cost
                if total > most:
                    break
                low, high = min(low, total), max(high, total)
                if value[state] + delay < earliest[total]:
                    earliest[total], source[total] = value[state] + delay, state
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
    states = table[:, :count]
    return begins, states[0].copy(), states[1].copy(), states[2].copy(), states[3].copy()
