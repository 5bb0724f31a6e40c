"""The compiled step of the exact search: from plans of what is further in to those of the next node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit
from tilewright.tiling.hierarchy.charges import SPENT, STEPS
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.exact.lattice import FAR

Table = NDArray[np.int64]
Marks = NDArray[np.bool_]

SPENDING, CYCLES, PRODUCT, HOLDING = 0, 1, 2, 3
"""What is minimised: what is spent, cycles, or the product of both; or the bits that tiles take."""

WAITING = 3
"""Kind of quantity beside those of charges: ticks that the multipliers wait for."""

ANY, SHORT = 3, 4
"""Orders of loops beside those that let one operand stay: none has to, and outputs stay for a short time."""

ALONG = 8
"""Orders also say which loop slides tiles of input: this times its number among `SLIDING`, from 1."""

MOST_ORDERS = 12
"""Space for orders."""

MOVES = 2
"""Bit of a partial plan for the first operand: its tile has not moved yet. Bit 1: sums go out incomplete."""

PROMISED = 16
"""Bit of a partial plan whose tile of outputs, which has not moved yet, must not go out incomplete."""

ADDED = 32
"""Among the bits: the outermost array that adds up sums, times this."""

ONCE, AS_PARTIAL, AS_COMPLETE = 0, 1, 2
"""How outputs come to a memory: in a way that is known, or in one of two that further loops decide."""

FULL, HOPELESS = -1, -2
"""Instead of a number of plans."""

LARGE = 4.0e18
"""Totals stay below this."""

INSIDE, FETCHED, OUTPUT, ENDING = 0, 1, 4, 5
"""Rows of a partial plan's values: charges for one block inside, for each fetch of a tile that is still to be
counted, of three operands, and for outputs whose sums begin there, and end there."""

G, N, C, Y, X, K, R, S = range(8)
"""Numbers of loops."""

STILL = np.array([[C, -1, -1], [N, Y, X], [K, R, S]])
"""The loops that do not move each operand."""

SLIDING = (Y, X, R, S)
"""Those along which tiles of input overlap."""


class Node(NamedTuple):
    """What the search knows of a node; see `Charges` and `Search` for the rest.

    Attributes
    ----------
    any, shared
        Whether steps need not divide; whether charges are pending for what each instance of an array holds,
        by operand and quantity.
    free
        Whether nothing is charged here nor further in: any plan that fits is then as good as another one.
    shares
        Whether another node further out has a tile in the same memory.
    """

    number: int
    memory: bool
    shares: bool
    size: int
    allowed: Marks
    outer: Table
    inner: Table
    first_out: Table
    first_in: Table
    last_out: Table
    last_in: Table
    holds: Marks
    straight: Marks
    reaches: Marks
    next_outer: Table
    sliding: Table
    next_sliding: Table
    slides: bool
    next_first: Table
    next_straight: Marks
    instances: float
    constant: Table
    at_most: Table
    most_cycles: int
    kinds: Table
    goal: int
    macs_per_cycle: int
    both_ways: bool
    tracks: bool
    free: bool
    any: bool
    shared: Marks


class Blocks(NamedTuple):
    """Blocks that may enter a node: see `Lattice` and `Tables`.

    Attributes
    ----------
    own, most
        See `Part`; nothing and endless at a node that has a memory for itself.
    fetches, shared
        Where steps need not divide, the most fetches of each operand's tile from here on, and as a fraction
        those that count for what the instances of arrays further in share; `moved` are the fewest.
    halo
        Elements of input that need not be fetched at most, as the block before has them.
    divisors
        How many divisors each divisor of a loop's extent has.
    strides
        Of the lattice.
    """

    place: Table
    elements: Table
    whole: Marks
    fits_complete: Marks
    fits_partial: Marks
    own: Table
    most: Table
    times: Table
    fetches: Table
    shared: Table
    moved: Table
    rest: Table
    halo: Table
    divisors: Table
    strides: Table


class Plans(NamedTuple):
    """Partial plans, together with those of the same block.

    Attributes
    ----------
    held
        Bits of the plans' tiles in the memory that the next node outside shares with them.
    fresh
        See `Lattice`.
    start
        First plan of each block, and the number of plans.
    group
        By number in the lattice: that of the block here, -1 where there is none. Empty where the lattice
        is not complete.
    least
        Of each quantity, the least that a plan is charged in all.
    """

    place: Table
    elements: Table
    fresh: Table
    start: Table
    group: Table
    least: NDArray[np.float64]
    values: Table
    bits: Table
    held: Table


class Found(NamedTuple):
    """Partial plans that are found: their values, and how they were made."""

    values: Table
    bits: Table
    held: Table
    block: Table
    before: Table
    order: Table
    least: NDArray[np.float64]


@jit.inlined
def is_better(spent: int, cycles: int, goal: int, high_best: int, low_best: int) -> bool:
    """Whether a cost is less than the best one, which is ``high_best * 2**31 + low_best``."""
    if goal != PRODUCT:
        value = cycles if goal == CYCLES else spent
        high, low = value >> 31, value & (2**31 - 1)
    else:
        if spent <= 0:
            return True
        upper, lower = spent >> 31, spent & (2**31 - 1)
        if float(upper) * float(cycles) > 8.0e18 or cycles >= 2**32:
            return float(spent) * float(cycles) < (float(high_best) * 2.0**31 + low_best) * (1 + 1e-9)
        carried = lower * cycles
        high, low = upper * cycles + (carried >> 31), carried & (2**31 - 1)
    return high < high_best or (high == high_best and low < low_best)


@jit.inlined
def bound(values: Any, bits: int, b: int, node: Any, blocks: Any) -> tuple[int, int]:
    """Return the least that any plan spends and takes which has a partial plan inside.

    Where that is more than it may be, both are endless.
    """
    spent, steps, port, waiting = 0, 0, 0, 0
    times = blocks.times[b]
    for q in range(len(node.kinds)):
        kind = node.kinds[q]
        if kind != SPENT and node.instances > 1:
            least = values[INSIDE, q] * (times / node.instances) * (1 - 1e-12)
            least += float(values[OUTPUT, q] + values[ENDING, q]) * blocks.moved[b, 2] + blocks.rest[b, q]
            total = int(min(least, LARGE))
        else:
            fixed = blocks.rest[b, q]
            if kind == SPENT:
                fixed += node.constant[bits // ADDED, q]
            else:
                once = values[OUTPUT, q] + values[ENDING, q]
                if bits & (MOVES << 2):
                    once += blocks.elements[b, 2] * node.next_first[q]
                fixed += once * blocks.moved[b, 2]
            total, most = values[INSIDE, q] * times, 0
            rough, saved = float(values[INSIDE, q]) * times, 0.0
            size = abs(rough)
            for o in range(3):
                if bits & (MOVES << o):
                    inner, outer = values[FETCHED + o, q], blocks.elements[b, o] * node.next_outer[o, q]
                    if o == 0:
                        outer -= blocks.halo[b] * node.next_sliding[q]
                    if node.any:
                        fetches, many, by = (
                            blocks.fetches[b, o],
                            blocks.shared[b, o, 0],
                            blocks.shared[b, o, 1],
                        )
                        full = float(inner) * many / by + float(outer) * fetches
                        whole = scaled(inner, many, by) + outer * fetches
                    else:
                        full, whole = float(inner + outer) * times, (inner + outer) * times
                    rough, size, total = rough + full, size + abs(full), total + whole
                    if inner + outer > 0 and not node.next_straight[o]:
                        fewest = (inner + outer) * blocks.moved[b, o]
                        most, saved = max(most, whole - fewest), max(saved, full - fewest)
            if size > LARGE:  # where integers may be too small
                total = int(min(rough - size * 1e-9 - saved + fixed, LARGE))
            else:
                total += fixed - most
        if kind == SPENT:
            if total > node.at_most[q]:
                return FAR, FAR
            spent = total if q == 0 else spent
        elif kind == STEPS:
            steps = total
        elif kind == WAITING:
            waiting = total
        else:
            port = max(port, total)
    cycles = -(-steps // node.macs_per_cycle)
    if cycles <= 4 * 10**10:
        cycles = -(-max(cycles * TICKS + waiting, port) // TICKS)
    return (FAR, FAR) if cycles > node.most_cycles else (spent, cycles)


@jit.inlined
def is_promising(b: int, node: Any, blocks: Any, least: Any, high_best: int, low_best: int) -> bool:
    """Whether a plan with a block can be better than the best one, whatever is inside."""
    if node.goal == HOLDING:
        return True
    spent, cycles, steps, port, waiting = 0, 0, 0.0, 0.0, 0.0
    for q in range(len(node.kinds)):
        kind = node.kinds[q]
        total = least[q] + blocks.rest[b, q]
        if node.holds[2] and node.inner[2, q] < 0:
            total += float(blocks.elements[b, 2] * node.inner[2, q]) * blocks.times[b]
        total = max(0.0, total * (1 - 1e-9) - 1.0)
        if kind == SPENT:
            spent = int(min(total, LARGE)) if q == 0 else spent
        elif kind == STEPS:
            steps = total
        elif kind == WAITING:
            waiting = total
        else:
            port = max(port, total)
    cycles = int(min(max(steps / node.macs_per_cycle * TICKS + waiting, port) / TICKS * (1 - 1e-9), 4e10))
    return bool(is_better(spent, cycles, node.goal, high_best, low_best))


@jit.inlined
def dominates(first: Any, second: Any, node: Any) -> bool:
    """Whether a partial plan is nowhere worse than another one."""
    for q in range(len(node.kinds)):
        rows = 4 if node.kinds[q] == SPENT else 6
        for row in range(rows):
            if first[row, q] > second[row, q]:
                return False
    return True


@jit.inlined
def as_free(first: int, second: int) -> bool:
    """Whether a partial plan has the bits of another one, or has not promised what that one has."""
    return bool(first | (second & (1 | PROMISED)) == second)


@jit.inlined
def keep(found: Any, first: int, count: int, node: Any) -> int:
    """Keep a new plan, the last one, if no other one dominates it, and drop those that it dominates."""
    for i in range(first, count):
        same = as_free(found.bits[i], found.bits[count]) and found.held[i] <= found.held[count]
        if same and dominates(found.values[i], found.values[count], node):
            return count
    at = first
    for i in range(first, count + 1):
        same = i < count and as_free(found.bits[count], found.bits[i]) and found.held[i] >= found.held[count]
        if same and dominates(found.values[count], found.values[i], node):
            continue
        if at < i:
            for row in range(6):
                for q in range(len(node.kinds)):
                    found.values[at, row, q] = found.values[i, row, q]
            found.bits[at], found.block[at], found.before[at] = found.bits[i], found.block[i], found.before[i]
            found.order[at], found.least[at] = found.order[i], found.least[i]
            found.held[at] = found.held[i]
        at += 1
    return at


@jit.inlined
def unrolled(before: Any, bits: int, trips: Any, node: Any, values: Any) -> int:
    """Unroll loops over an array; return the new bits."""
    every = 1
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
def instances_of(o: int, outside: Any, inside: Any, steps: Any) -> tuple[int, int]:
    """Return as a fraction to how many instances an array brings a tile at least, by loops that let it stay.

    Parameters
    ----------
    outside, inside
        The numbers of the sizes of the array's block, and of the blocks of its instances.
    """
    many, by = 1, 1
    for i in range(3):
        loop = STILL[o, i]
        if loop < 0 or outside[loop] == inside[loop]:
            continue
        low, high = steps.low[loop, outside[loop]], steps.high[loop, inside[loop]]
        if steps.counts[loop, outside[loop]] == 1 and not steps.spread[o, loop]:
            many *= steps.counts[loop, inside[loop]]
        elif low > high:
            many, by = many * low, by * high
    return many, by


@jit.lean
def busiest_part(outside: Any, inside: Any, trips: Any, node: Any, steps: Any) -> float:
    """Return the least part of an array's work that its busiest instance has."""
    used = 1
    for loop in range(8):
        used *= trips[loop]
    part = 1.0
    for loop in range(8):
        if not node.allowed[loop]:
            continue
        extent, high = steps.extents[loop], steps.high[loop, inside[loop]]
        # As many instances as the other loops can leave to this one.
        many = node.size * trips[loop] // used
        least = max(steps.low[loop, inside[loop]], -(-steps.low[loop, outside[loop]] // many))
        block = min(steps.high[loop, outside[loop]], many * high)
        if steps.last[loop]:
            share = extent // block * least + min(least, extent % block)
            part *= max(-(-extent // many), share) / extent
        else:
            part *= max(1 / many, min(1.0, least / block))
    return float(max(part, 1 / node.size))  # as not every loop can have all instances


@jit.lean
def most_instances(outside: Any, inside: Any, node: Any, steps: Any) -> int:
    """Return how many instances of an array a plan can use at most."""
    used = 1
    for loop in range(8):
        if node.allowed[loop]:
            used *= -(-steps.high[loop, outside[loop]] // steps.low[loop, inside[loop]])
            if used >= node.size:
                return int(node.size)
    return used


@jit.lean
def scaled(value: int, many: int, by: int) -> int:
    """Return an amount times a fraction, rounded downwards."""
    if by == 1:
        return value * many
    if float(many) * by < LARGE:
        return value // by * many + value % by * many // by
    return int(float(value) * many / by * (1 - 1e-12))


@jit.lean
def spread(
    before: Any, bits: int, outside: Any, inside: Any, trips: Any, node: Any, steps: Any, values: Any
) -> int:
    """Unroll loops over an array with steps that need not divide; return the new bits, -1 as `repeated`."""
    adds = trips[K] * trips[R] * trips[S] > 1
    part = busiest_part(outside, inside, trips, node, steps)
    used = most_instances(outside, inside, node, steps)
    for o in range(3):
        many, by = instances_of(o, outside, inside, steps)
        for q in range(len(node.kinds)):
            if float(before[FETCHED + o, q]) * many / by > LARGE:
                return -1
            values[FETCHED + o, q] = scaled(before[FETCHED + o, q], many, by)
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


@jit.inlined
def fetches_of(o: int, order: int, trips: Any, every: int, still: int, node: Any) -> int:
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


@jit.inlined
def fetch(before: Any, o: int, fetches: int, inside: int, adds: bool, node: Any, values: Any) -> bool:
    """Count the fetches of an operand's tile, none if it does not move yet; whether they can be counted.

    Parameters
    ----------
    fetches
        How often, 0 where the tile only comes from the memory that holds it.
    inside
        Elements of the tile.
    adds
        Whether the tile comes from there at all.
    """
    for q in range(len(node.kinds)):
        each = before[FETCHED + o, q]
        if adds:
            each += inside * node.outer[o, q]
            if o == 2:
                values[OUTPUT, q] += inside * node.first_out[q]
                values[ENDING, q] += inside * node.last_out[q]
        if fetches:
            if float(each) * fetches + values[INSIDE, q] > LARGE:
                return False
            values[INSIDE, q] += fetches * each
            each = 0
        values[FETCHED + o, q] = each
    return True


@jit.lean
def less_shared(before: Any, o: int, fetches: int, many: int, by: int, node: Any, values: Any) -> None:
    """Take back what `fetch` has counted too much of tiles that several instances share.

    With a block that the border cuts off, fewer of them are in use.

    Parameters
    ----------
    many, by
        How often such tiles are fetched at least, counted in blocks that no border cuts off, as a fraction.
    """
    for q in range(len(node.kinds)):
        if node.shared[o, q]:
            each = before[FETCHED + o, q]
            values[INSIDE, q] += scaled(each, many, by) - fetches * each


@jit.lean
def times_fetched(o: int, stays: bool, outside: Any, inside: Any, steps: Any) -> tuple[int, int, int]:
    """Return how often a memory's loops fetch each tile of an operand at least, in all.

    Returns
    -------
    fetches
        From the memory outside.
    many, by
        As a fraction, tiles that several instances share, which are cut off with a block that the border
        cuts off.
    """
    block = outside if stays else inside
    fetches, many, by = 1, 1, 1
    for i in range(3):
        loop = STILL[o, i]
        if loop >= 0:
            fetches *= steps.counts[loop, block[loop]]
            if steps.spread[o, loop]:
                many *= steps.weights[loop, block[loop], inside[loop]]
                by *= steps.low[loop, inside[loop]]
            else:
                many *= steps.counts[loop, block[loop]]
    return fetches, many, by


@jit.inlined
def repeated(
    before: Any,
    bits: int,
    trips: Any,
    order: int,
    outer: Any,
    inner: Any,
    inside: Any,
    fresh: Any,
    outside: Any,
    node: Any,
    steps: Any,
    values: Any,
) -> int:
    """Repeat what is inside by a memory's loops; return the new bits, -1 where it is too much to count.

    Parameters
    ----------
    outer, inner
        Numbers of the sizes of the memory's block, and of the block inside.
    inside, outside
        Elements of each operand under the block inside, and under the memory's own.
    fresh
        Elements of input that the block inside does not share with the one before.
    """
    n_y_x, reduced = trips[1] * trips[3] * trips[4], trips[K] * trips[R] * trips[S]
    every = trips[G] * trips[2] * n_y_x * reduced
    # Where steps do not divide, amounts are those of all blocks of the layer from the beginning.
    scale = 1 if steps.any else every
    for q in range(len(node.kinds)):
        if float(before[INSIDE, q]) * scale > LARGE:
            return -1
        values[INSIDE, q] = before[INSIDE, q] * scale
        values[OUTPUT, q], values[ENDING, q] = before[OUTPUT, q], before[ENDING, q]
    new = bits
    for o in range(3):
        still = trips[2] if o == 0 else n_y_x if o == 1 else reduced
        pending = bits & (MOVES << o) != 0
        moved = every > still or node.straight[o] or node.number == 0
        resolved = pending and node.reaches[o] and moved
        # Tiles that no loop of a memory moves which holds them come from there, too.
        adds = resolved or (pending and node.holds[o])
        fetches = fetches_of(o, order, trips, every, still, node) if resolved else 0
        many, by = 0, 1
        if steps.any and resolved:
            stays = (order % ALONG == o or every == still) and not node.straight[o]
            fetches, many, by = times_fetched(o, stays, outer, inner, steps)
        if not fetch(before, o, fetches, inside[o], adds, node, values):
            return -1
        if by > 1:
            less_shared(before, o, fetches, many, by, node, values)
        if o == 0 and order >= ALONG:
            along = order // ALONG - 1
            next_ones = fetches // trips[SLIDING[along]] * (trips[SLIDING[along]] - 1)
            for q in range(len(node.kinds)):
                values[INSIDE, q] -= next_ones * (inside[0] - fresh[along]) * node.sliding[q]
        if resolved:
            new &= ~(MOVES << o | PROMISED * (o == 2))
        if node.holds[o]:
            new |= MOVES << o
    new |= int(sends_partial(bits, order, trips, node))
    outputs = 1 if steps.any else every // reduced
    for q in range(len(node.kinds)):
        values[OUTPUT, q] *= outputs
        values[ENDING, q] *= outputs
        for o in range(3):
            if node.holds[o]:
                values[FETCHED + o, q] += outside[o] * node.inner[o, q]
        if node.holds[2]:
            values[OUTPUT, q] += outside[2] * node.first_in[q]
            values[ENDING, q] += outside[2] * node.last_in[q]
    return new


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
def list_ways(
    b: int, plan: int, order: int, trips: Any, node: Any, blocks: Any, plans: Any
) -> tuple[int, int]:
    """Return the ways in which outputs may come to a node, from the first to that before the last.

    None where the loops break what a partial plan has promised.
    """
    bits = plans.bits[plan]
    if not node.memory or not (node.holds[2] or bits & PROMISED):
        return ONCE, ONCE + 1
    settled = bits & (MOVES << 2) == 0 or moves_outputs(bits, trips, node)
    if bits & PROMISED:
        broken = settled and (not blocks.whole[b] or sends_partial(bits, order, trips, node))
        return ONCE, ONCE if broken else ONCE + 1
    if settled or blocks.whole[b]:
        return ONCE, ONCE + 1
    fits = blocks.fits_partial[b] and plans.held[plan] + blocks.own[b, 1] <= blocks.most[b]
    if fits and blocks.own[b, 0] == blocks.own[b, 1]:  # nothing is gained
        return AS_PARTIAL, AS_PARTIAL + 1
    return AS_PARTIAL if fits else AS_COMPLETE, AS_COMPLETE + 1


@jit.inlined
def shortest(trips: Any) -> int:
    """Return the fewest iterations of a loop over which sums are added up, if it has several."""
    fewest = FAR
    for loop in (K, R, S):
        if trips[loop] > 1:
            fewest = min(fewest, trips[loop])
    return fewest


@jit.lean
def along(first: int, last: int, trips: Any, inside: Any, fresh: Any) -> int:
    """Return `ALONG` times the number of the loop along which sliding saves most, 0 if none saves anything.

    Parameters
    ----------
    first, last
        The loops in question, of `SLIDING`.
    """
    best, number = 0.0, 0
    for i in range(first, last):
        each = trips[SLIDING[i]]
        saved = (inside[0] - fresh[i]) * (each - 1) / each
        if saved > best:
            best, number = saved, i + 1
    return ALONG * number


@jit.lean
def list_sliding(count: int, trips: Any, inside: Any, fresh: Any, node: Any, orders: Any) -> int:
    """Say for listed orders along which loop tiles of input slide, and list more; return their number."""
    rows, taps = along(0, 2, trips, inside, fresh), along(2, 4, trips, inside, fresh)
    by_outputs = by_sums = False
    for i in range(count):
        order = orders[i]
        if order == 0:
            orders[i] += along(0, 4, trips, inside, fresh)
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
            if 1 < each < trips[K] * trips[R] * trips[S] and inside[0] > fresh[i]:
                orders[count] = SHORT + ALONG * (i + 1)
                count += 1
    return count


@jit.inlined
def list_orders(bits: int, trips: Any, inside: Any, fresh: Any, node: Any, orders: Any) -> int:
    """List the orders of a memory's loops that differ in what they cost; return their number."""
    orders[0] = ANY
    if not node.memory:
        return 1
    count = list_staying(bits, trips, node, orders)
    if node.slides and bits & MOVES and node.reaches[0]:
        return int(list_sliding(count, trips, inside, fresh, node, orders))
    return int(count)


@jit.inlined
def list_staying(bits: int, trips: Any, node: Any, orders: Any) -> int:
    """List the orders that let operands stay where that matters; return their number."""
    n_y_x, reduced = trips[1] * trips[3] * trips[4], trips[K] * trips[R] * trips[S]
    every = trips[G] * trips[2] * n_y_x * reduced
    count, other = 0, ANY
    for o in range(3):
        still = trips[2] if o == 0 else n_y_x if o == 1 else reduced
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


@jit.inlined
def trips_of(outside: Any, inside: Any, ratios: Any, trips: Any) -> None:
    """Find how often a block is in another one."""
    for loop in range(8):
        trips[loop] = ratios[loop, outside[loop], inside[loop]]


@jit.inlined
def may_hold(outside: Any, inside: Any, ratios: Any, node: Any) -> bool:
    """Whether a node may have the loops from one block to another one."""
    used = 1
    for loop in range(8):
        trips = ratios[loop, outside[loop], inside[loop]]
        if trips == 0 or (trips > 1 and not node.allowed[loop]):
            return False
        used *= trips
    return bool(node.memory or used <= node.size)


@jit.lean
def list_inside(place: Any, blocks: Any, plans: Any, ratios: Any, node: Any, groups: Any, space: Any) -> int:
    """List the groups of plans whose block a node can hold inside of another one; return their number."""
    divide = 1
    for loop in range(8):
        if node.allowed[loop]:
            divide *= blocks.divisors[loop, place[loop]]
    many, count = len(plans.start) - 1, 0
    if (node.memory and divide > many) or len(plans.group) == 0:
        for group in range(many):
            if may_hold(place, plans.place[group], ratios, node):
                groups[count] = group
                count += 1
        return count
    # All divisors of the block, loop by loop: their numbers in the lattice, and how often they are in it.
    space[0, 0, 0], space[0, 1, 0] = 0, 1
    count = 1
    for loop in range(8):
        before, after = loop % 2, 1 - loop % 2
        more = 0
        for i in range(count):
            for inside in range(place[loop], -1, -1):
                trips = ratios[loop, place[loop], inside]
                if trips == 0:
                    continue
                if trips > 1 and not node.allowed[loop]:
                    break
                used = space[before, 1, i] * trips
                if not node.memory and used > node.size:
                    break
                space[after, 0, more] = space[before, 0, i] + inside * blocks.strides[loop]
                space[after, 1, more] = used
                more += 1
        count = more
    found = 0
    for i in range(count):
        group = plans.group[space[0, 0, i]]
        if group >= 0:
            groups[found] = group
            found += 1
    return found


@jit.inlined
def extend(
    b: int,
    group: int,
    plan: int,
    trips: Any,
    orders: Any,
    node: Any,
    steps: Any,
    blocks: Any,
    plans: Any,
    high_best: int,
    low_best: int,
    cut: float,
    found: Any,
    first: int,
    count: int,
) -> int:
    """Add a node's loops to a plan, in all orders; return how many plans there are.

    Without room it is `FULL`; it is `HOPELESS` where no plan with the block can be less than the best one.
    """
    bits = plans.bits[plan]
    if not node.memory and bits & PROMISED and trips[K] * trips[R] * trips[S] > 1:
        return count
    if plans.held[plan] + blocks.own[b, 0] > blocks.most[b]:
        return count
    inside, fresh = plans.elements[group], plans.fresh[group]
    for each in range(list_orders(bits, trips, inside, fresh, node, orders)):
        way, last = list_ways(b, plan, orders[each], trips, node, blocks, plans)
        while way < last:
            if count == len(found.bits):
                return FULL
            args = b, group, plan, trips, orders[each], way, node, steps, blocks, plans
            spent, cycles = put(*args, found, count)
            way += 1
            if spent == FAR:
                continue
            if not is_better(spent, cycles, node.goal, high_best, low_best):
                if node.free:
                    return HOPELESS
                continue
            least = float(cycles) if node.goal == CYCLES or node.goal == PRODUCT else float(spent)
            if node.goal == PRODUCT:
                least *= float(max(spent, 1))
            if least < cut:
                found.least[count] = least
                count = keep(found, first, count, node)
    return count


@jit.inlined
def put(
    b: int,
    group: int,
    plan: int,
    trips: Any,
    order: int,
    way: int,
    node: Any,
    steps: Any,
    blocks: Any,
    plans: Any,
    found: Any,
    count: int,
) -> tuple[int, int]:
    """Put a plan with a node's loops behind those that are found; return its bound, endless if it is none."""
    bits, before, held, values = plans.bits[plan], plans.values[plan], plans.held[plan], found.values[count]
    outer, inner = blocks.place[b], plans.place[group]
    if node.memory:
        tiles = plans.elements[group], plans.fresh[group], blocks.elements[b]
        new = repeated(before, bits, trips, order, outer, inner, *tiles, node, steps, values)
    elif steps.any:
        new = spread(before, bits, outer, inner, trips, node, steps, values)
    else:
        new = unrolled(before, bits, trips, node, values)
    if new < 0:
        return FAR, FAR
    if node.memory:
        new |= PROMISED * (way == AS_COMPLETE)
        complete = new & PROMISED != 0 or (way != AS_PARTIAL and blocks.whole[b] and new & 1 == 0)
        if node.holds[2]:  # whose own tile may be complete again
            new &= ~1
        if node.number > 0:
            held += blocks.own[b, 0 if complete else 1]
            fits = blocks.fits_complete[b] if complete else blocks.fits_partial[b]
            if held > blocks.most[b] or not fits:
                return FAR, FAR
    found.bits[count], found.block[count], found.before[count] = new, b, plan
    found.order[count], found.held[count] = order, held if node.shares else 0
    spent, cycles = bound(values, new, b, node, blocks)
    return (held if node.goal == HOLDING and spent < FAR else spent), cycles


@jit.lean
def any_complete(found: Any, first: int, count: int, node: Any) -> bool:
    """Whether a plan of a block has sums that may be complete, which need no more room than others."""
    complete = 0
    for i in range(first, count):
        bits = found.bits[i]
        complete += bits & (1 | PROMISED) == 0 and (bits & (MOVES << 2) != 0 or node.straight[2])
    return complete > 0


@jit.kernel(nogil=True)
def expand(
    node: Any,
    steps: Any,
    blocks: Any,
    first: int,
    work: int,
    plans: Any,
    ratios: Any,
    high_best: int,
    low_best: int,
    cut: float,
    found: Any,
    count: int,
) -> tuple[int, int]:
    """Find the partial plans of some blocks.

    Parameters
    ----------
    first
        The first block.
    work
        Number of pairs of blocks after which to return.
    high_best, low_best, cut
        Plans that cannot be less than these are left out.
    found, count
        Where plans go, and how many are there.

    Returns
    -------
    next, count
        The first block that is left; its plans did not fit if it is `first` again.
    """
    trips, orders = np.ones(8, np.int64), np.zeros(MOST_ORDERS, np.int64)
    inside, space = np.zeros(len(plans.start), np.int64), np.zeros((2, 2, len(plans.group)), np.int64)
    done = 0
    for b in range(first, len(blocks.times)):
        if done > work:
            return b, count
        mine = count
        done += 20
        if not is_promising(b, node, blocks, plans.least, high_best, low_best):
            continue
        for each in range(list_inside(blocks.place[b], blocks, plans, ratios, node, inside, space)):
            if node.free and count > mine and any_complete(found, mine, count, node):
                break
            group = inside[each]
            trips_of(blocks.place[b], plans.place[group], ratios, trips)
            done += 1 + plans.start[group + 1] - plans.start[group]
            for plan in range(plans.start[group], plans.start[group + 1]):
                args = b, group, plan, trips, orders, node, steps, blocks, plans
                count = extend(*args, high_best, low_best, cut, found, mine, count)
                if count == FULL:
                    return b, mine
                if count == HOPELESS:
                    break
            if count == HOPELESS:
                count = mine
                break
    return len(blocks.times), count
