"""Compiled: where the tensors of a step go, and which weights are kept, so that least is moved in some room.

For each way to cut up a step (`shapes`, one for each number of rows in a pass, say) that is a knapsack: what
is on chip as a whole takes more of the memory than its line buffer, weights that are kept take more than a
block of them, and both save traffic. The bound for each shape is that of the knapsack whose last item may be
cut; tensors are decided one after the other, then weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit

NODES = 200
"""Looks at what may be decided, after which what is moved at least is estimated."""

BITS = 62
"""Tensors of which a bit mask tells where they are."""

NEVER = 2**60
"""The cost of what is not possible."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@jit.lean
def part(saving: int, room: int, extra: int) -> int:
    """Return what an item saves at most of which only a part has room."""
    if saving < 2**31 and room < 2**31:
        return int(saving * room // extra)
    return min(saving, int(saving * (room / extra)) + 1)


@jit.lean
def filled(
    order: Ints, count: int, extras: Ints, savings: Ints, decided: Bools, first: int, room: int, enough: int
) -> int:
    """Return what items save at most that are not decided; no more than `enough` counts.

    Parameters
    ----------
    order
        The items, those that save most for each element of memory first.
    first
        Place in `order` from which on items are looked at.
    """
    saved = 0
    for place in range(first, count):
        item = order[place]
        if decided[item]:
            continue
        if extras[item] > room:
            return int(saved + part(savings[item], room, extras[item]))
        room -= extras[item]
        saved += savings[item]
        if saved >= enough:
            break
    return int(saved)


@jit.lean
def kept(
    order: Ints,
    count: int,
    extras: Ints,
    true_extras: Ints,
    savings: Ints,
    decided: Bools,
    room: int,
    wanted: int,
    taken: Bools,
    best: Bools,
    place_at: Ints,
) -> int:
    """Return the most that weights save, if it is more than `wanted`; else `wanted`.

    Parameters
    ----------
    extras, true_extras
        What an item takes, at least, and in truth.
    decided
        Items that are not weights.
    taken, best, place_at
        For working; `best` holds the weights that are kept if more than `wanted` is found.
    """
    found, saved, depth, place = wanted, 0, 0, 0
    while True:
        # As far down as there is hope, each item taken if it has room.
        while place < count:
            item = order[place]
            if decided[item]:
                place += 1
                continue
            if saved + filled(order, count, extras, savings, decided, place, room, NEVER) <= found:
                break
            worse = True
            if true_extras[item] <= room:
                for earlier in range(place - 1, -1, -1):
                    other = order[earlier]
                    if (
                        not decided[other]
                        and not taken[other]
                        and true_extras[other] <= true_extras[item]
                        and savings[other] >= savings[item]
                    ):
                        break  # the other one in its place is as good
                else:
                    worse = False
            if not worse:
                taken[item] = True
                place_at[depth] = place
                depth += 1
                room -= true_extras[item]
                saved += savings[item]
            place += 1
        else:
            if saved > found:
                found = saved
                for place in range(count):
                    best[order[place]] = taken[order[place]]
        if not depth:
            return found
        depth -= 1
        place = place_at[depth]
        item = order[place]
        taken[item] = False
        room += true_extras[item]
        saved -= savings[item]
        place += 1


@jit.inner
def ranked(values: Any) -> Ints:
    """Return places of values, the least value first, equal ones in their order."""
    places = np.zeros(len(values), np.int64)
    for number in range(len(values)):
        place = number
        while place and values[places[place - 1]] > values[number]:
            places[place] = places[place - 1]
            place -= 1
        places[place] = number
    return places


@jit.inner
def picked(array: Any, places: Ints, more: int = 0) -> Any:
    """Return the rows of an array at some places, and more; it compiles sooner than ``array[places]``."""
    new = np.zeros((len(places) + more, *array.shape[1:]), array.dtype)
    width = array.size // max(1, len(array))
    rows, before = new.reshape(len(new), width), array.reshape(len(array), width)
    for number in range(len(places)):
        for column in range(width):
            rows[number, column] = before[places[number], column]
    return new


@jit.inner
def sifted(
    ways: Ints, moves: Ints, count: int, kinds: Ints, flags: Bools, later: Ints, classes: Ints
) -> Ints:
    """Return which ways are not worse than another, those that move least first.

    One is worse that moves no less, with what counts where tensors are read last, leaves no tensor on chip
    alone that the other has not there alone, and none in DRAM that the other has not there; or tensors that
    are alike in their place.
    """
    moved, most = np.zeros(count, np.int64), 0
    for number in classes:
        most = max(most, number)
    # Of each class how many are in DRAM alone, and how many are in DRAM.
    there = np.zeros((count, 2 * (most + 1)), np.int64)
    for place in range(count):
        moved[place] = moves[place, 0]
        for tensor in range(len(kinds)):
            kind, way = kinds[tensor], ways[place, tensor]
            if flags[tensor, 2, kind, way]:
                there[place, 2 * classes[tensor]] += 1
                if not flags[tensor, 1, kind, way]:
                    there[place, 2 * classes[tensor] + 1] += 1
                    moved[place] += later[tensor]
    kept = np.zeros(count, np.int64)
    left = 0
    for place in ranked(moved):
        for number in range(left):
            covered = True
            for each in range(there.shape[1]):
                if there[kept[number], each] < there[place, each]:
                    covered = False
                    break
            if covered:
                break
        else:
            kept[left] = place
            left += 1
    for number in range(left):
        moved[number] = moves[kept[number], 0]
    rank: Ints = ranked(moved[:left])
    for number in range(left):
        rank[number] = kept[rank[number]]
    return rank


@jit.inner
def assigned(
    sizes: Ints,
    lines: Ints,
    reread: Ints,
    costs: Ints,
    flags: Bools,
    ways: Ints,
    later: Ints,
    classes: Ints,
    alike: Bools,
    kinds: Ints,
    fixed: Ints,
    extras: Ints,
    savings: Ints,
    last: int,
    wide: Ints,
    output: int,
    operands: Ints,
    fits: Bools,
    room: int,
    limit: int,
    only_best: bool,
    enough: int,
) -> tuple[Ints, Ints, Bools, int, int]:
    """Return the ways to execute a step in some room.

    Parameters
    ----------
    sizes, lines, reread
        Of tensors that may be on chip as a whole: their elements, shape (tensors,); those of their line
        buffers, or of the block of the output, and what strips read of them again, shape (tensors, shapes).
    costs, flags, ways
        Of each tensor, for each kind of place that it may be in before: what each way moves, shape (tensors,
        kinds, ways); whether it is on chip as a whole then, on chip afterwards, and in DRAM afterwards,
        (tensors, 3, kinds, ways); how many ways there are, (tensors, kinds).
    later
        What counts where each tensor is read last, if it is in DRAM alone, shape (tensors,).
    classes
        Tensors that all that follows treats alike have the same number, shape (tensors,).
    alike
        Whether a tensor is like the one before it, or as good with a smaller line buffer, so that its way
        need not come before that of the other.
    kinds
        Where each tensor is before, shape (tensors,).
    fixed
        Elements of all else, with a block of each operation's weights, shape (shapes,).
    extras, savings
        What it takes more to keep weights, shape (weights,), and what that saves, (weights, shapes).
    last, wide
        Which weights are those of the last operation, -1 if there are none, and what keeping these takes
        more if the output does not stay on chip, shape (shapes,).
    output
        Which tensor is the output, -1 if it cannot stay.
    operands, fits
        Tensors whose place the output may take, shape (operands,), and with which shapes, (operands, shapes).
    room, limit
        Elements of memory, and most elements that are worth moving.
    only_best
        Whether only what is moved at least is sought: a way that moves least, or none after `NODES` looks.
    enough
        Ways that are enough: those that move least.

    Returns
    -------
    For each way that is not worse than another: that of each tensor, shape (found, tensors); excess, shape
    and operand, -1 for none, shape (found, 3); weights that are kept, shape (found, weights). Then what is
    moved at least, and what ways may move of which all are there.
    """
    tensors, shapes = lines.shape
    wholes, reached = flags[:, 0], limit
    weights = len(extras)
    items = tensors + weights
    decided = np.zeros(items, np.bool_)
    line_costs = np.full(tensors, NEVER, np.int64)
    whole_costs = np.full(tensors, NEVER, np.int64)
    for tensor in range(tensors):
        kind = kinds[tensor]
        for way in range(ways[tensor, kind]):
            if wholes[tensor, kind, way]:
                whole_costs[tensor] = min(whole_costs[tensor], costs[tensor, kind, way])
            else:
                line_costs[tensor] = min(line_costs[tensor], costs[tensor, kind, way])
    item_extras = np.zeros((shapes, items), np.int64)
    item_savings = np.zeros((shapes, items), np.int64)
    order = np.zeros((shapes, items), np.int64)
    counts = np.zeros(shapes, np.int64)
    rooms = np.zeros((tensors + 1, shapes), np.int64)
    bases = np.zeros((tensors + 1, shapes), np.int64)
    alive = np.zeros((tensors + 1, shapes), np.int64)
    n_alive = np.zeros(tensors + 1, np.int64)
    largest, bound = 0, NEVER
    for operand in operands:
        largest = max(largest, sizes[operand])
    density = np.zeros(items, np.float64)
    for shape in range(shapes):
        left, base, count = room - fixed[shape], 0, 0
        if left + largest < 0:
            continue
        for tensor in range(tensors):
            if line_costs[tensor] == NEVER:
                left -= sizes[tensor]
                base += whole_costs[tensor]
                continue
            left -= lines[tensor, shape]
            cost = line_costs[tensor] + reread[tensor, shape]
            base += cost
            saving = cost - whole_costs[tensor]
            if whole_costs[tensor] < NEVER and saving > 0:
                extra = sizes[tensor] - lines[tensor, shape]
                item_extras[shape, tensor], item_savings[shape, tensor] = extra, saving
                order[shape, count] = tensor
                density[count] = -saving / extra if extra else -1e18
                count += 1
        if left + largest < 0:
            continue
        for weight in range(weights):
            saving = savings[weight, shape]
            base += saving
            if saving > 0:
                item_extras[shape, tensors + weight] = extras[weight]
                item_savings[shape, tensors + weight] = saving
                order[shape, count] = tensors + weight
                density[count] = -saving / extras[weight] if extras[weight] else -1e18
                count += 1
        bases[0, shape] = base
        for place, item in enumerate(picked(order[shape], ranked(density[:count]))):
            order[shape, place] = item
        counts[shape] = count
        base -= filled(
            order[shape], count, item_extras[shape], item_savings[shape], decided, 0, left + largest, NEVER
        )
        bound = min(bound, base)
        if base <= limit:
            rooms[0, shape] = left
            alive[0, n_alive[0]] = shape
            n_alive[0] += 1
    # To have a tensor on chip for this step alone is of no use where that saves nothing.
    in_vain = np.zeros(costs[:, 0].shape, np.bool_)
    for tensor in range(tensors):
        kind, replaced = kinds[tensor], False
        for operand in operands:
            replaced |= operand == tensor
        for way in range(ways[tensor, kind]):
            for other in range(way):
                in_vain[tensor, way] |= (
                    not replaced
                    and tensor != output
                    and wholes[tensor, kind, way]
                    and not wholes[tensor, kind, other]
                    and costs[tensor, kind, other] <= costs[tensor, kind, way]
                    and flags[tensor, 1, kind, other] == flags[tensor, 1, kind, way]
                    and flags[tensor, 2, kind, other] == flags[tensor, 2, kind, way]
                )
    chosen = np.full(tensors, -1)
    found_ways = np.zeros((16, tensors), np.int64)
    found = np.zeros((16, 3), np.int64)
    found_kept = np.zeros((16, weights), np.bool_)
    none = np.zeros(0, np.int64)
    count = len(none)
    if not n_alive[0]:
        return picked(found_ways, none), picked(found, none), picked(found_kept, none), bound, reached
    taken = np.zeros(items, np.bool_)
    best = np.zeros(items, np.bool_)
    place_at = np.zeros(items, np.int64)
    true_extras = np.zeros(items, np.int64)
    depth = 0
    entering, nodes = True, 0
    while True:
        if entering:
            nodes += 1
            if only_best and nodes > NODES:
                return picked(found_ways, none), picked(found, none), picked(found_kept, none), bound, reached
            # The shapes that are still possible.
            bonus, open_output = 0, output >= 0
            if output >= 0 and output < depth and not wholes[output, kinds[output], chosen[output]]:
                open_output = False
            if open_output:
                for operand in operands:
                    if operand >= depth or wholes[operand, kinds[operand], chosen[operand]]:
                        bonus = max(bonus, sizes[operand])
            left_alive = 0
            for place in range(n_alive[depth]):
                shape = alive[depth, place]
                space = rooms[depth, shape] + bonus
                if space < 0:
                    continue
                base = bases[depth, shape]
                if base > limit:
                    base -= filled(
                        order[shape],
                        counts[shape],
                        item_extras[shape],
                        item_savings[shape],
                        decided,
                        0,
                        space,
                        base - limit,
                    )
                    if base > limit:
                        continue
                alive[depth, left_alive] = shape
                left_alive += 1
            n_alive[depth] = left_alive
            if left_alive and depth == tensors:
                least, most_left, least_shape, least_operand = limit + 1, -1, -1, -1
                keep = np.zeros(weights, np.bool_)
                for place in range(left_alive):
                    shape = alive[depth, place]
                    for number in range(-1, len(operands)):
                        space = rooms[depth, shape]
                        if number >= 0:
                            operand = operands[number]
                            if not fits[number, shape] or output < 0:
                                continue
                            if (
                                not wholes[operand, kinds[operand], chosen[operand]]
                                or not wholes[output, kinds[output], chosen[output]]
                            ):
                                continue
                            space += sizes[operand]
                        if space < 0:
                            continue
                        for item in range(tensors, items):
                            true_extras[item] = item_extras[shape, item]
                        if last >= 0 and (output < 0 or not wholes[output, kinds[output], chosen[output]]):
                            true_extras[tensors + last] += wide[shape]
                        # Of ways that move as little, the one that takes least.
                        wanted = max(-1, bases[depth, shape] - least - 1)
                        saved = kept(
                            order[shape],
                            counts[shape],
                            item_extras[shape],
                            true_extras,
                            item_savings[shape],
                            decided,
                            space,
                            wanted,
                            taken,
                            best,
                            place_at,
                        )
                        if saved == wanted:
                            continue
                        cost, left = bases[depth, shape] - saved, space
                        for weight in range(weights):
                            item = tensors + weight
                            if item_savings[shape, item] > 0 and best[item]:
                                left -= true_extras[item]
                        if cost < least or (cost == least and cost <= limit and left > most_left):
                            least, most_left, least_shape, least_operand = cost, left, shape, number
                            for weight in range(weights):
                                item = tensors + weight
                                keep[weight] = item_savings[shape, item] > 0 and best[item]
                if least <= limit:
                    if count == len(found):
                        places = sifted(found_ways, found, count, kinds, flags, later, classes)
                        if len(places) > enough:
                            places, limit = places[:enough], found[places[enough - 1], 0] - 1
                            reached = limit
                        count = len(places)
                        more = len(found) - count
                        if count > more:
                            more += len(found)
                        found_ways = picked(found_ways, places, more)
                        found = picked(found, places, more)
                        found_kept = picked(found_kept, places, more)
                    place = 0 if only_best else count
                    for tensor in range(tensors):
                        found_ways[place, tensor] = chosen[tensor]
                    for weight in range(weights):
                        found_kept[place, weight] = keep[weight]
                    found[place, 0], found[place, 1], found[place, 2] = least, least_shape, least_operand
                    count = place + 1
                    if only_best:
                        limit = least - 1
                left_alive = 0
            if not left_alive:
                depth -= 1
                if depth < 0:
                    break
                entering = False
                continue
            chosen[depth] = -1
        # The next way of the tensor at this depth.
        tensor, kind = depth, kinds[depth]
        way = chosen[tensor] + 1
        if chosen[tensor] < 0 and tensor > 0 and alike[tensor]:
            way = chosen[tensor - 1]
        if way >= ways[tensor, kind]:
            decided[tensor] = False
            chosen[tensor] = -1
            depth -= 1
            if depth < 0:
                break
            entering = False
            continue
        chosen[tensor] = way
        decided[tensor] = True
        left_alive = 0
        for place in range(n_alive[depth]):
            shape = alive[depth, place]
            if in_vain[tensor, way] and not reread[tensor, shape] and lines[tensor, shape] <= sizes[tensor]:
                continue
            alive[depth + 1, left_alive] = shape
            left_alive += 1
            left, base = rooms[depth, shape], bases[depth, shape]
            if line_costs[tensor] == NEVER:
                base += costs[tensor, kind, way] - whole_costs[tensor]
            elif wholes[tensor, kind, way]:
                left -= sizes[tensor] - lines[tensor, shape]
                base += costs[tensor, kind, way] - line_costs[tensor] - reread[tensor, shape]
            else:
                base += costs[tensor, kind, way] - line_costs[tensor]
            rooms[depth + 1, shape], bases[depth + 1, shape] = left, base
        n_alive[depth + 1] = left_alive
        depth += 1
        entering = True
    if only_best:
        bound = found[0, 0] if count else max(bound, limit + 1)
    places = sifted(found_ways, found, count, kinds, flags, later, classes)
    if len(places) > enough:
        places, reached = places[:enough], found[places[enough - 1], 0] - 1
    return picked(found_ways, places), picked(found, places), picked(found_kept, places), bound, reached


@jit.kernel(nogil=True)
def executed(
    rows: Ints,
    sizes: Ints,
    lines: Ints,
    again: Ints,
    costs: Ints,
    flags: Bools,
    ways: Ints,
    later: Ints,
    sources: Bools,
    before: Ints,
    after: Ints,
    kinds: Ints,
    fixed: Ints,
    extras: Ints,
    savings: Ints,
    last: int,
    wide: Ints,
    output: int,
    operands: Ints,
    fits: Bools,
    room: int,
    limit: int,
    only_best: bool,
    enough: int,
) -> tuple[Ints, Ints, Bools, int, int, Ints]:
    """Return the ways to execute a step in some room: see `assigned`, for which tensors are sorted.

    Parameters
    ----------
    rows, lines, again
        The row of each tensor in what line buffers take, and what strips read again.
    sources
        Whether each tensor has been there before.
    before, after
        Tensors that all that is left treats alike before this step, and after it, have the same number.

    Returns
    -------
    What `assigned` does, and which tensors are on chip and in DRAM after each way, as bit masks of `BITS`
    tensors each, shape (found, 2, masks).
    """
    tensors, shapes = len(rows), lines.shape[1]
    keys = np.zeros((tensors, 3), np.int64)
    order = np.zeros(tensors, np.int64)
    for tensor in range(tensors):
        keys[tensor, 0] = -sizes[tensor]
        if sources[tensor]:
            keys[tensor, 1] = 4 * before[tensor] + kinds[tensor]
        else:
            keys[tensor, 1] = -1 if tensor == output else 4 * (tensors + after[tensor])
        for shape in range(shapes):
            keys[tensor, 2] -= lines[rows[tensor], shape]
        place = tensor
        while place and (
            keys[order[place - 1], 0] > keys[tensor, 0]
            or (
                keys[order[place - 1], 0] == keys[tensor, 0]
                and (
                    keys[order[place - 1], 1] > keys[tensor, 1]
                    or (
                        keys[order[place - 1], 1] == keys[tensor, 1]
                        and keys[order[place - 1], 2] > keys[tensor, 2]
                    )
                )
            )
        ):
            order[place] = order[place - 1]
            place -= 1
        order[place] = tensor
    # Of tensors that what follows treats alike, the one with the larger line buffer may be on chip as a
    # whole, if one is: that takes less.
    alike = np.zeros(tensors, np.bool_)
    for place in range(1, tensors):
        one, other = order[place - 1], order[place]
        if keys[one, 1] == keys[other, 1] and keys[one, 0] == keys[other, 0]:
            alike[place] = True
            for shape in range(shapes):
                alike[place] &= lines[rows[one], shape] >= lines[rows[other], shape]
    back = np.zeros(tensors, np.int64)
    places, own = np.zeros(len(operands), np.int64), np.zeros(tensors, np.int64)
    for place in range(tensors):
        back[order[place]] = place
        own[place] = rows[order[place]]
    for number in range(len(operands)):
        places[number] = back[operands[number]]
    found = assigned(
        picked(sizes, order),
        picked(lines, own),
        picked(again, own),
        picked(costs, order),
        picked(flags, order),
        picked(ways, order),
        picked(later, order),
        picked(after, order),
        alike,
        picked(kinds, order),
        fixed,
        extras,
        savings,
        last,
        wide,
        back[output],
        places,
        fits,
        room,
        limit,
        only_best,
        enough,
    )
    chosen = np.zeros(found[0].shape, np.int64)
    for number in range(len(chosen)):
        for tensor in range(tensors):
            chosen[number, tensor] = found[0][number, back[tensor]]
    where = np.zeros((len(chosen), 2, (tensors + BITS - 1) // BITS), np.int64)
    for number in range(len(chosen)):
        for tensor in range(tensors):
            for place in range(2):
                if flags[tensor, place + 1, kinds[tensor], chosen[number, tensor]]:
                    where[number, place, tensor // BITS] |= 1 << tensor % BITS
    return chosen, found[1], found[2], found[3], found[4], where
