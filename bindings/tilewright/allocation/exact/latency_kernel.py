"""The compiled kernel of `latency_dp`: the states of a table after one more layer."""

from __future__ import annotations

import numpy as np
from numba import njit

from tilewright.allocation.geometry import Numbers


@njit(cache=True)
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
    best, source = np.full(most + 1, never), np.zeros(most + 1, dtype=np.int64)
    length = max(1024, 2 * len(pes))
    new = np.empty((4, length), dtype=np.int64)
    begins = np.zeros(len(keep) + 1, dtype=np.int64)
    count = 0
    for to in range(len(keep)):
        low, high = most + 1, -1
        for come in range(1 if starts else to + 1):
            cost = keep[to] if come == to and not starts else rise[to]
            if cost > most:
                continue
            delay = ahead[0] * before[come]
            for corner in range(1, len(ahead)):
                delay = max(delay, ahead[corner] * before[come] - done[corner] * paces[to])
            for state in range(first[come], first[come + 1]):
                total = pes[state] + cost
                if total > most:
                    break
                low, high = min(low, total), max(high, total)
                if value[state] + delay < best[total]:
                    best[total], source[total] = value[state] + delay, state
        least = never
        for total in range(low, high + 1):
            if best[total] < least:
                least = best[total]
                if count == length:
                    length *= 2
                    larger = np.empty((4, length), dtype=np.int64)
                    larger[:, :count] = new[:, :count]
                    new = larger
                new[0, count], new[1, count] = to, total
                new[2, count], new[3, count] = least, source[total]
                count += 1
            best[total] = never
        begins[to + 1] = count
    return begins, new[0, :count].copy(), new[1, :count].copy(), new[2, :count].copy(), new[3, :count].copy()
