"""The compiled part that charges a partial plan for the loops of the next node further out.

Charges of a partial plan are those of its innermost blocks, times how often these are repeated. What a fetch
of a tile costs is pending until a loop further out moves the tile; only then it is known how often.
"""

from __future__ import annotations

from typing import Any

from tilewright.core import jit
from tilewright.tiling.hierarchy.charges import SPENT, STEPS
from tilewright.tiling.hierarchy.exact.lattice import FAR
from tilewright.tiling.hierarchy.exact.partial_plans import (
    ADDED,
    ALONG,
    ENDING,
    FETCHED,
    INSIDE,
    LARGE,
    MOVES,
    OUTPUT,
    PROMISED,
    SHORT,
    SLIDING,
    STILL,
    C,
    G,
    K,
    N,
    R,
    S,
    X,
    Y,
)

# Arrays ----------------------------------------------------------------------------------------------


@jit.inlined
def unroll(before: Any, bits: int, move: Any, node: Any, values: Any) -> int:
    """Unroll loops over an array; return the new bits."""
    trips, every = move.trips, 1
    for loop in range(8):
        every *= trips[loop]
    adds = trips[K] * trips[R] * trips[S] > 1
    for q in range(len(node.kinds)):
        spends = node.kinds[q] == SPENT
        for row in range(4):
            values[row, q] = before[row, q] * every if spends else before[row, q]
        values[OUTPUT, q] = before[OUTPUT, q]
        values[ENDING, q] = 0 if adds else before[ENDING, q]
    return bits % ADDED + ADDED * node.number if adds and node.tracks else bits


@jit.lean
def unroll_any(before: Any, bits: int, move: Any, node: Any, steps: Any, values: Any) -> int:
    """Unroll loops over an array with steps that need not divide; return the new bits, -1 as `repeat`."""
    adds = move.trips[K] * move.trips[R] * move.trips[S] > 1
    part = busiest_part(move, node, steps)
    used = most_instances(move, node, steps)
    for o in range(3):
        many, by = count_instances(o, move, steps)
        for q in range(len(node.kinds)):
            if float(before[FETCHED + o, q]) * many / by > LARGE:
                return -1
            values[FETCHED + o, q] = scale(before[FETCHED + o, q], many, by)
            if node.kinds[q] != SPENT:
                values[FETCHED + o, q] //= used
    for q in range(len(node.kinds)):
        kind = node.kinds[q]
        values[INSIDE, q] = before[INSIDE, q]
        if kind == STEPS:
            values[INSIDE, q] = int(before[INSIDE, q] * part * (1 + 1e-14) + 1e-12)
        elif kind != SPENT:
            values[INSIDE, q] //= used
        values[OUTPUT, q] = before[OUTPUT, q]
        values[ENDING, q] = 0 if adds else before[ENDING, q]
    return bits % ADDED + ADDED * node.number if adds and node.tracks else bits


@jit.lean
def count_instances(o: int, move: Any, steps: Any) -> tuple[int, int]:
    """Return as a fraction to how many instances an array brings the same tile at least."""
    many, by = 1, 1
    for i in range(3):
        loop = STILL[o, i]
        if loop < 0 or move.outer[loop] == move.inner[loop]:
            continue
        low, high = steps.low[loop, move.outer[loop]], steps.high[loop, move.inner[loop]]
        if steps.counts[loop, move.outer[loop]] == 1 and not steps.spread[o, loop]:
            many *= steps.counts[loop, move.inner[loop]]
        elif low > high:
            many, by = many * low, by * high
    return many, by


@jit.lean
def busiest_part(move: Any, node: Any, steps: Any) -> float:
    """Return the least part of an array's work that its busiest instance has."""
    used = 1
    for loop in range(8):
        used *= move.trips[loop]
    part = 1.0
    for loop in range(8):
        if not node.allowed[loop]:
            continue
        outer, inner = move.outer[loop], move.inner[loop]
        extent, high = steps.extents[loop], steps.high[loop, inner]
        # As many instances as the other loops can leave to this one.
        many = node.size * move.trips[loop] // used
        least = max(steps.low[loop, inner], -(-steps.low[loop, outer] // many))
        block = min(steps.high[loop, outer], many * high)
        if steps.last[loop]:
            share = extent // block * least + min(least, extent % block)
            part *= max(-(-extent // many), share) / extent
        else:
            part *= max(1 / many, min(1.0, least / block))
    return float(max(part, 1 / node.size))  # as not every loop can have all instances


@jit.lean
def most_instances(move: Any, node: Any, steps: Any) -> int:
    """Return how many instances of an array a plan can use at most."""
    used = 1
    for loop in range(8):
        if node.allowed[loop]:
            used *= -(-steps.high[loop, move.outer[loop]] // steps.low[loop, move.inner[loop]])
            if used >= node.size:
                return int(node.size)
    return used


@jit.lean
def scale(value: int, many: int, by: int) -> int:
    """Return an amount times a fraction, rounded downwards."""
    if by == 1:
        return value * many
    if float(many) * by < LARGE:
        return value // by * many + value % by * many // by
    return int(float(value) * many / by * (1 - 1e-12))


# Memories --------------------------------------------------------------------------------------------


@jit.inlined
def repeat(before: Any, bits: int, order: int, move: Any, node: Any, steps: Any, values: Any) -> int:
    """Repeat what is inside by a memory's loops; return the new bits, -1 where it is too much to count."""
    trips = move.trips
    n_y_x, reduced = trips[N] * trips[Y] * trips[X], trips[K] * trips[R] * trips[S]
    every = trips[G] * trips[C] * n_y_x * reduced
    # Where steps do not divide, amounts are those of all blocks of the layer from the beginning.
    times = 1 if steps.any else every
    for q in range(len(node.kinds)):
        if float(before[INSIDE, q]) * times > LARGE:
            return -1
        values[INSIDE, q] = before[INSIDE, q] * times
        values[OUTPUT, q], values[ENDING, q] = before[OUTPUT, q], before[ENDING, q]
    new = bits
    for o in range(3):
        still = trips[C] if o == 0 else n_y_x if o == 1 else reduced
        pending = bits & (MOVES << o) != 0
        moved = every > still or node.straight[o] or node.number == 0
        resolved = pending and node.reaches[o] and moved
        # Tiles that no loop of a memory moves which holds them come from there, too.
        adds = resolved or (pending and node.holds[o])
        fetches = count_fetches(o, order, trips, every, still, node) if resolved else 0
        many, by = 0, 1
        if steps.any and resolved:
            stays = (order % ALONG == o or every == still) and not node.straight[o]
            fetches, many, by = count_all_fetches(o, stays, move, steps)
        if not charge_fetches(before, o, fetches, move.tile[o], adds, node, values):
            return -1
        if by > 1:
            discount_shared(before, o, fetches, many, by, node, values)
        if o == 0 and order >= ALONG:
            discount_sliding(fetches, order // ALONG - 1, move, node, values)
        if resolved:
            new &= ~(MOVES << o | PROMISED * (o == 2))
        if node.holds[o]:
            new |= MOVES << o
    new |= int(sends_partial(bits, order, trips, node))
    charge_tiles(1 if steps.any else every // reduced, move, node, values)
    return new


@jit.inlined
def charge_tiles(outputs: int, move: Any, node: Any, values: Any) -> None:
    """Charge the tiles that a memory holds, and outputs as often as its loops bring others."""
    for q in range(len(node.kinds)):
        values[OUTPUT, q] *= outputs
        values[ENDING, q] *= outputs
        for o in range(3):
            if node.holds[o]:
                values[FETCHED + o, q] += move.own[o] * node.inner[o, q]
        if node.holds[2]:
            values[OUTPUT, q] += move.own[2] * node.first_in[q]
            values[ENDING, q] += move.own[2] * node.last_in[q]


@jit.inlined
def count_fetches(o: int, order: int, trips: Any, every: int, still: int, node: Any) -> int:
    """Return how often a memory's loops fetch a tile of an operand."""
    if node.straight[o]:
        return every
    if order % ALONG == o:
        return every // still
    if order % ALONG == SHORT and o == 2:
        return int(every // (trips[SLIDING[order // ALONG - 1]] if order >= ALONG else shortest(trips)))
    if every == still:
        return 1
    return every


@jit.lean
def count_all_fetches(o: int, stays: bool, move: Any, steps: Any) -> tuple[int, int, int]:
    """Return how often a memory's loops fetch each tile of an operand at least, in all.

    Returns
    -------
    fetches
        From the memory outside.
    many, by
        As a fraction, tiles that several instances share, which are cut off with a block that the border
        cuts off.
    """
    block = move.outer if stays else move.inner
    fetches, many, by = 1, 1, 1
    for i in range(3):
        loop = STILL[o, i]
        if loop >= 0:
            fetches *= steps.counts[loop, block[loop]]
            if steps.spread[o, loop]:
                many *= steps.weights[loop, block[loop], move.inner[loop]]
                by *= steps.low[loop, move.inner[loop]]
            else:
                many *= steps.counts[loop, block[loop]]
    return fetches, many, by


@jit.inlined
def charge_fetches(before: Any, o: int, fetches: int, tile: int, adds: bool, node: Any, values: Any) -> bool:
    """Charge the fetches of an operand's tile, none if it does not move yet; whether they can be counted.

    Parameters
    ----------
    fetches
        How often, 0 where the tile only comes from the memory that holds it.
    tile
        Its elements.
    adds
        Whether the tile comes from there at all.
    """
    for q in range(len(node.kinds)):
        each = before[FETCHED + o, q]
        if adds:
            each += tile * node.outer[o, q]
            if o == 2:
                values[OUTPUT, q] += tile * node.first_out[q]
                values[ENDING, q] += tile * node.last_out[q]
        if fetches:
            if float(each) * fetches + values[INSIDE, q] > LARGE:
                return False
            values[INSIDE, q] += fetches * each
            each = 0
        values[FETCHED + o, q] = each
    return True


@jit.lean
def discount_shared(before: Any, o: int, fetches: int, many: int, by: int, node: Any, values: Any) -> None:
    """Take back what `charge_fetches` has charged too much for tiles that several instances share.

    With a block that the border cuts off, fewer of them are in use.

    Parameters
    ----------
    many, by
        How often such tiles are fetched at least, counted in blocks that no border cuts off, as a fraction.
    """
    for q in range(len(node.kinds)):
        if node.shared[o, q]:
            each = before[FETCHED + o, q]
            values[INSIDE, q] += scale(each, many, by) - fetches * each


@jit.inlined
def discount_sliding(fetches: int, along: int, move: Any, node: Any, values: Any) -> None:
    """Take back what the tile of input before has already, as it slides along a loop of `SLIDING`."""
    trips = move.trips[SLIDING[along]]
    next_ones = fetches // trips * (trips - 1)
    for q in range(len(node.kinds)):
        values[INSIDE, q] -= next_ones * (move.tile[0] - move.fresh[along]) * node.sliding[q]


# Outputs ---------------------------------------------------------------------------------------------


@jit.inlined
def moves_outputs(bits: int, trips: Any, node: Any) -> bool:
    """Whether a memory's loops bring another tile of outputs to what is further in, which had none before."""
    others = trips[G] * trips[N] * trips[C] * trips[Y] * trips[X] > 1
    moves = others or node.straight[2] or node.number == 0
    return bool(bits & (MOVES << 2) and node.reaches[2] and moves)


@jit.inlined
def sends_partial(bits: int, order: int, trips: Any, node: Any) -> int:
    """Return 1 if a memory's loops make what is further in send out sums that are not complete.

    Loops over what is added up do so but where they are inside of all that bring another tile of outputs.
    """
    if trips[K] * trips[R] * trips[S] == 1:
        return 0
    if not bits & (MOVES << 2):
        return 1
    others = trips[G] * trips[N] * trips[C] * trips[Y] * trips[X] > 1
    return int(moves_outputs(bits, trips, node) and (node.straight[2] or (others and order % ALONG != 2)))


@jit.inlined
def shortest(trips: Any) -> int:
    """Return the fewest iterations of a loop over which sums are added up, if it has several."""
    fewest = FAR
    for loop in (K, R, S):
        if trips[loop] > 1:
            fewest = min(fewest, trips[loop])
    return fewest
