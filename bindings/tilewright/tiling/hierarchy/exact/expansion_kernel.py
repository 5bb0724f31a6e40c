"""The compiled step of the exact search: from plans of what is further in to those of the next node."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.core import jit
from tilewright.tiling.hierarchy.charges import SPENT, STEPS, WAITING
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.exact.charge_kernel import repeat, scale, unroll, unroll_any
from tilewright.tiling.hierarchy.exact.lattice import FAR
from tilewright.tiling.hierarchy.exact.order_kernel import list_orders, list_output_ways
from tilewright.tiling.hierarchy.exact.partial_plans import (
    ADDED,
    AS_COMPLETE,
    AS_PARTIAL,
    CYCLES,
    ENDING,
    FETCHED,
    FULL,
    HOLDING,
    HOPELESS,
    INSIDE,
    LARGE,
    MOST_ORDERS,
    MOVES,
    OUTPUT,
    PRODUCT,
    PROMISED,
    K,
    Move,
    R,
    S,
)

# Bounds ----------------------------------------------------------------------------------------------


@jit.inlined
def is_better(spent: int, cycles: int, goal: int, cutoff: Any) -> bool:
    """Whether a cost is less than the best one that is known."""
    if goal != PRODUCT:
        value = cycles if goal == CYCLES else spent
        high, low = value >> 31, value & (2**31 - 1)
    else:
        if spent <= 0:
            return True
        upper, lower = spent >> 31, spent & (2**31 - 1)
        if float(upper) * float(cycles) > 8.0e18 or cycles >= 2**32:
            best = float(cutoff.high) * 2.0**31 + cutoff.low
            return bool(float(spent) * float(cycles) < best * (1 + 1e-9))
        carried = lower * cycles
        high, low = upper * cycles + (carried >> 31), carried & (2**31 - 1)
    return bool(high < cutoff.high or (high == cutoff.high and low < cutoff.low))


@jit.inlined
def bound_cost(values: Any, bits: int, b: int, node: Any, blocks: Any) -> tuple[int, int]:
    """Return the least that any plan spends and takes which has a partial plan inside.

    Where that is more than it may be, both are endless.
    """
    spent, steps, port, waiting = 0, 0, 0, 0
    for q in range(len(node.kinds)):
        kind = node.kinds[q]
        if kind != SPENT and node.instances > 1:
            total = bound_busiest(values, q, b, node, blocks)
        else:
            total = bound_sum(values, bits, q, b, node, blocks)
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
def bound_busiest(values: Any, q: int, b: int, node: Any, blocks: Any) -> int:
    """Return the least of a time's quantity, where the busiest of several instances has its part at least."""
    least = values[INSIDE, q] * (blocks.times[b] / node.instances) * (1 - 1e-12)
    least += float(values[OUTPUT, q] + values[ENDING, q]) * blocks.moved[b, 2] + blocks.rest[b, q]
    return int(min(least, LARGE))


@jit.inlined
def bound_sum(values: Any, bits: int, q: int, b: int, node: Any, blocks: Any) -> int:
    """Return the least of a quantity that adds up: pending fetches are made in the best order of loops."""
    times, fixed = blocks.times[b], blocks.rest[b, q]
    if node.kinds[q] == SPENT:
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
                fetches, many, by = blocks.fetches[b, o], blocks.shared[b, o, 0], blocks.shared[b, o, 1]
                full = float(inner) * many / by + float(outer) * fetches
                whole = scale(inner, many, by) + outer * fetches
            else:
                full, whole = float(inner + outer) * times, (inner + outer) * times
            rough, size, total = rough + full, size + abs(full), total + whole
            if inner + outer > 0 and not node.next_straight[o]:
                fewest = (inner + outer) * blocks.moved[b, o]
                most, saved = max(most, whole - fewest), max(saved, full - fewest)
    if size > LARGE:  # where integers may be too small
        return int(min(rough - size * 1e-9 - saved + fixed, LARGE))
    return int(total + fixed - most)


@jit.inlined
def is_promising(b: int, space: Any, cutoff: Any) -> bool:
    """Whether a plan with a block can be better than the best one, whatever is inside."""
    node, blocks = space.node, space.blocks
    if node.goal == HOLDING:
        return True
    spent, cycles, steps, port, waiting = 0, 0, 0.0, 0.0, 0.0
    for q in range(len(node.kinds)):
        kind = node.kinds[q]
        total = space.plans.least[q] + blocks.rest[b, q]
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
    return bool(is_better(spent, cycles, node.goal, cutoff))


# Dominance -------------------------------------------------------------------------------------------


@jit.inlined
def dominates(first: Any, second: Any, node: Any) -> bool:
    """Whether a partial plan's values are nowhere worse than those of another one."""
    for q in range(len(node.kinds)):
        rows = 4 if node.kinds[q] == SPENT else 6
        for row in range(rows):
            if first[row, q] > second[row, q]:
                return False
    return True


@jit.inlined
def is_as_free(first: int, second: int) -> bool:
    """Whether a partial plan has the bits of another one, or has not promised what that one has."""
    return bool(first | (second & (1 | PROMISED)) == second)


@jit.inlined
def add_undominated(found: Any, first: int, count: int, node: Any) -> int:
    """Keep a new plan, the last one, if no other one dominates it, and drop those that it dominates."""
    for i in range(first, count):
        same = is_as_free(found.bits[i], found.bits[count]) and found.held[i] <= found.held[count]
        if same and dominates(found.values[i], found.values[count], node):
            return count
    at = first
    for i in range(first, count + 1):
        same = i < count and is_as_free(found.bits[count], found.bits[i])
        same = same and found.held[i] >= found.held[count]
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


# Blocks inside ---------------------------------------------------------------------------------------


@jit.inlined
def find_trips(outer: Any, inner: Any, ratios: Any, trips: Any) -> int:
    """Find how often a block is in another one, loop by loop, and return it for all together."""
    every = 1
    for loop in range(8):
        trips[loop] = ratios[loop, outer[loop], inner[loop]]
        every *= trips[loop]
    return every


@jit.inlined
def may_hold(outer: Any, inner: Any, ratios: Any, node: Any) -> bool:
    """Whether a node may have the loops from one block to another one."""
    used = 1
    for loop in range(8):
        trips = ratios[loop, outer[loop], inner[loop]]
        if trips == 0 or (trips > 1 and not node.allowed[loop]):
            return False
        used *= trips
    return bool(node.memory or used <= node.size)


@jit.lean
def list_inside(b: int, space: Any, groups: Any, blocks_inside: Any) -> int:
    """List the groups of plans whose block a node can hold inside of another one; return their number."""
    node, blocks, plans = space.node, space.blocks, space.plans
    place, divide = blocks.place[b], 1
    for loop in range(8):
        if node.allowed[loop]:
            divide *= blocks.divisors[loop, place[loop]]
    many, found = len(plans.start) - 1, 0
    if (node.memory and divide > many) or len(plans.group) == 0:
        for group in range(many):
            if may_hold(place, plans.place[group], space.ratios, node):
                groups[found] = group
                found += 1
        return found
    for i in range(list_divisors(place, space, blocks_inside)):
        group = plans.group[blocks_inside[0, 0, i]]
        if group >= 0:
            groups[found] = group
            found += 1
    return found


@jit.lean
def list_divisors(place: Any, space: Any, listed: Any) -> int:
    """List the blocks that a node can hold inside of another one, loop by loop; return their number.

    Parameters
    ----------
    listed : shape (2, 2, blocks)
        In the first half, their numbers in the lattice, and how often they are in the block outside.
    """
    node, strides = space.node, space.blocks.strides
    listed[0, 0, 0], listed[0, 1, 0] = 0, 1
    count = 1
    for loop in range(8):
        before, after = loop % 2, 1 - loop % 2
        more = 0
        for i in range(count):
            for inside in range(place[loop], -1, -1):
                trips = space.ratios[loop, place[loop], inside]
                if trips == 0:
                    continue
                if trips > 1 and not node.allowed[loop]:
                    break
                used = listed[before, 1, i] * trips
                if not node.memory and used > node.size:
                    break
                listed[after, 0, more] = listed[before, 0, i] + inside * strides[loop]
                listed[after, 1, more] = used
                more += 1
        count = more
    return count


# Partial plans ---------------------------------------------------------------------------------------


@jit.inlined
def extend(
    move: Any, plan: int, orders: Any, space: Any, cutoff: Any, found: Any, first: int, count: int
) -> int:
    """Add a node's loops to a plan, in all orders; return how many plans there are.

    Without room it is `FULL`; it is `HOPELESS` where no plan with the block can be less than the best one.
    """
    node, blocks, plans = space.node, space.blocks, space.plans
    bits = plans.bits[plan]
    if not node.memory and bits & PROMISED and move.trips[K] * move.trips[R] * move.trips[S] > 1:
        return count
    if plans.held[plan] + blocks.own[move.block, 0] > blocks.most[move.block]:
        return count
    for each in range(list_orders(bits, move, node, orders)):
        way, last = list_output_ways(move, plan, orders[each], space)
        while way < last:
            if count == len(found.bits):
                return FULL
            spent, cycles = put(move, plan, orders[each], way, space, found, count)
            way += 1
            if spent == FAR:
                continue
            if not is_better(spent, cycles, node.goal, cutoff):
                if node.free:
                    return HOPELESS
                continue
            least = float(cycles) if node.goal == CYCLES or node.goal == PRODUCT else float(spent)
            if node.goal == PRODUCT:
                least *= float(max(spent, 1))
            if least < cutoff.least:
                found.least[count] = least
                count = add_undominated(found, first, count, node)
    return count


@jit.inlined
def put(move: Any, plan: int, order: int, way: int, space: Any, found: Any, count: int) -> tuple[int, int]:
    """Put a plan with a node's loops behind those that are found; return its bound, endless if it is none."""
    node, steps, blocks, plans = space.node, space.steps, space.blocks, space.plans
    bits, before, held, values = plans.bits[plan], plans.values[plan], plans.held[plan], found.values[count]
    b = move.block
    if node.memory:
        new = repeat(before, bits, order, move, node, steps, values)
    elif steps.any:
        new = unroll_any(before, bits, move, node, steps, values)
    else:
        new = unroll(before, bits, move, node, values)
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
    spent, cycles = bound_cost(values, new, b, node, blocks)
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
def expand(space: Any, cutoff: Any, first: int, work: int, found: Any, count: int) -> tuple[int, int]:
    """Find the partial plans of some blocks.

    Parameters
    ----------
    space : Space
    cutoff : Cutoff
    first
        The first block.
    work
        Number of pairs of blocks after which to return.
    found : FoundPlans
        Where plans go.
    count
        How many are there.

    Returns
    -------
    next, count
        The first block that is left; its plans did not fit if it is `first` again.
    """
    node, blocks, plans = space.node, space.blocks, space.plans
    trips, orders = np.ones(8, np.int64), np.zeros(MOST_ORDERS, np.int64)
    groups = np.zeros(len(plans.start), np.int64)
    blocks_inside = np.zeros((2, 2, len(plans.group)), np.int64)
    done = 0
    for b in range(first, len(blocks.times)):
        if done > work:
            return b, count
        mine = count
        done += 20
        if not is_promising(b, space, cutoff):
            continue
        for each in range(list_inside(b, space, groups, blocks_inside)):
            if node.free and count > mine and any_complete(found, mine, count, node):
                break
            g = groups[each]
            outer, inner = blocks.place[b], plans.place[g]
            if find_trips(outer, inner, space.ratios, trips) < node.least:
                continue
            tiles = blocks.elements[b], plans.elements[g], plans.fresh[g]
            move = Move(b, g, outer, inner, trips, *tiles)
            done += 1 + plans.start[g + 1] - plans.start[g]
            for plan in range(plans.start[g], plans.start[g + 1]):
                count = extend(move, plan, orders, space, cutoff, found, mine, count)
                if count == FULL:
                    return b, mine
                if count == HOPELESS:
                    break
            if count == HOPELESS:
                count = mine
                break
    return len(blocks.times), count
