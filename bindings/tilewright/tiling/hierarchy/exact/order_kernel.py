"""The compiled part that lists the orders of a memory's loops, and the ways in which outputs come to it."""

from __future__ import annotations

from typing import Any

from tilewright.core import jit
from tilewright.tiling.hierarchy.exact.charge_kernel import moves_outputs, sends_partial, shortest
from tilewright.tiling.hierarchy.exact.partial_plans import (
    ALONG,
    ANY,
    AS_COMPLETE,
    AS_PARTIAL,
    MOVES,
    ONCE,
    PROMISED,
    SHORT,
    SLIDING,
    C,
    G,
    K,
    N,
    R,
    S,
    X,
    Y,
)


@jit.inlined
def list_orders(bits: int, move: Any, node: Any, orders: Any) -> int:
    """List the orders of a memory's loops that differ in what they cost; return their number."""
    orders[0] = ANY
    if not node.memory:
        return 1
    count = list_staying(bits, move.trips, node, orders)
    if node.slides and bits & MOVES and node.reaches[0]:
        return int(list_sliding(count, move, node, orders))
    return int(count)


@jit.inlined
def list_staying(bits: int, trips: Any, node: Any, orders: Any) -> int:
    """List the orders that let operands stay where that matters; return their number."""
    n_y_x, reduced = trips[N] * trips[Y] * trips[X], trips[K] * trips[R] * trips[S]
    every = trips[G] * trips[C] * n_y_x * reduced
    count, other = 0, ANY
    for o in range(3):
        still = trips[C] if o == 0 else n_y_x if o == 1 else reduced
        matters = bits & (MOVES << o) and node.reaches[o] and not node.straight[o]
        if still == 1:
            continue
        if matters and every > still:
            orders[count] = o
            count += 1
        else:
            other = o
    if count == 0:
        orders[0] = other
        return 1
    if node.both_ways:
        # Where fetching outputs more often may be worth it.
        if other != ANY or trips[G] > 1:
            orders[count] = other
            count += 1
        if reduced > 1 and shortest(trips) < reduced:
            orders[count] = SHORT
            count += 1
    return count


@jit.lean
def list_sliding(count: int, move: Any, node: Any, orders: Any) -> int:
    """Say for listed orders along which loop tiles of input slide, and list more; return their number."""
    trips = move.trips
    rows, taps = best_slide(0, 2, move), best_slide(2, 4, move)
    by_outputs = by_sums = False
    for i in range(count):
        order = orders[i]
        if order == 0:
            orders[i] += best_slide(0, 4, move)
        elif order == 1:
            orders[i] += rows
            by_outputs = True
        elif order == 2:
            orders[i] += taps
            by_sums = True
    if rows and not by_outputs:
        orders[count] = 1 + rows
        count += 1
    if taps and not by_sums:
        orders[count] = 2 + taps
        count += 1
    if node.both_ways:
        for i in range(2, 4):
            each = trips[SLIDING[i]]
            if 1 < each < trips[K] * trips[R] * trips[S] and move.tile[0] > move.fresh[i]:
                orders[count] = SHORT + ALONG * (i + 1)
                count += 1
    return count


@jit.lean
def best_slide(first: int, last: int, move: Any) -> int:
    """Return `ALONG` times the number of the loop along which sliding saves most, 0 if none saves anything.

    Parameters
    ----------
    first, last
        The loops in question, of `SLIDING`.
    """
    best, number = 0.0, 0
    for i in range(first, last):
        each = move.trips[SLIDING[i]]
        saved = (move.tile[0] - move.fresh[i]) * (each - 1) / each
        if saved > best:
            best, number = saved, i + 1
    return ALONG * number


@jit.inlined
def list_output_ways(move: Any, plan: int, order: int, space: Any) -> tuple[int, int]:
    """Return the ways in which outputs may come to a node, from the first to that before the last.

    None where the loops break what a partial plan has promised.
    """
    node, blocks, b = space.node, space.blocks, move.block
    bits = space.plans.bits[plan]
    if not node.memory or not (node.holds[2] or bits & PROMISED):
        return ONCE, ONCE + 1
    settled = bits & (MOVES << 2) == 0 or moves_outputs(bits, move.trips, node)
    if bits & PROMISED:
        broken = settled and (not blocks.whole[b] or sends_partial(bits, order, move.trips, node))
        return ONCE, ONCE if broken else ONCE + 1
    if settled or blocks.whole[b]:
        return ONCE, ONCE + 1
    fits = blocks.fits_partial[b] and space.plans.held[plan] + blocks.own[b, 1] <= blocks.most[b]
    if fits and blocks.own[b, 0] == blocks.own[b, 1]:  # nothing is gained
        return AS_PARTIAL, AS_PARTIAL + 1
    return AS_PARTIAL if fits else AS_COMPLETE, AS_COMPLETE + 1
