"""Compiled: where the tensors of a step go, and which weights are kept, so that least is moved in some room.

For each shape of a step (one for each number of rows in a pass, say) that is a knapsack: what is on chip as a
whole takes more of the memory than its line buffer, weights that are kept take more than a block of them, and
both save traffic. The bound for each shape is that of the knapsack whose last item may be cut. Tensors are
decided one after the other, then weights.

Elements of memory and elements moved are integers. What is moved is counted beyond what must be moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit

NODES = 200
"""Nodes of the search after which what is moved at least is estimated."""

BITS = 62
"""Tensors of which a bit mask tells where they are."""

NEVER = 2**60
"""The cost of what is not possible."""

WHOLE, ON_CHIP, IN_DRAM = 0, 1, 2
"""Rows of `StepTables.flags`."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class StepTables(NamedTuple):
    """A step, given which of its tensors are still read after it.

    Attributes
    ----------
    sizes : shape (tensors,)
        Elements of the tensors that may be on chip as a whole: sources and outputs.
    lines, reread : shape (tensors, shapes)
        Elements of their line buffers, or of the block of the output; what strips read of them again.
    costs : shape (tensors, 4, options)
        What each option of a tensor moves, by where it is before: 1 for on chip and 2 for in DRAM.
    flags : bool, shape (tensors, 3, 4, options)
        Whether it is on chip as a whole then, on chip afterwards, and in DRAM afterwards.
    options : shape (tensors, 4)
        How many options there are.
    later : shape (tensors,)
        What counts where the tensor is read last, if it is in DRAM alone.
    sources : bool, shape (tensors,)
        Whether it has been there before.
    fixed : shape (shapes,)
        Elements of all else, with a block of each operation's weights.
    extras : shape (weights,)
        What it takes more to keep the weights of an operation.
    savings : shape (weights, shapes)
        What that saves.
    last
        Which weights are the last operation's, -1 if it has none.
    wide : shape (shapes,)
        What keeping these takes more if the output does not stay on chip.
    output
        Which tensor is the output.
    operands : shape (operands,)
        Tensors whose place the output may take.
    fits : bool, shape (operands, shapes)
        With which shapes it may.
    """

    sizes: Ints
    lines: Ints
    reread: Ints
    costs: Ints
    flags: Bools
    options: Ints
    later: Ints
    sources: Bools
    fixed: Ints
    extras: Ints
    savings: Ints
    last: int
    wide: Ints
    output: int
    operands: Ints
    fits: Bools


class Question(NamedTuple):
    """What is asked about a step.

    Attributes
    ----------
    kinds : shape (tensors,)
        Where each tensor is before: 1 for on chip and 2 for in DRAM.
    before, after : shape (tensors,)
        Tensors that all that is left treats alike before this step, and after it, have the same number.
    room, limit
        Elements of memory, and most elements that are worth moving.
    only_best
        Whether only what is moved at least is sought: a way that moves least, or none after `NODES` nodes.
    enough
        Ways that are enough: those that move least.
    """

    kinds: Ints
    before: Ints
    after: Ints
    room: int
    limit: int
    only_best: bool
    enough: int


class Ways(NamedTuple):
    """Ways to execute a step.

    Attributes
    ----------
    options : shape (ways, tensors)
        Which option each tensor has.
    numbers : shape (ways, 3)
        Elements moved, the shape, and the operand whose place the output takes, -1 if it has its own.
    kept : bool, shape (ways, weights)
        Which weights are kept.
    """

    options: Ints
    numbers: Ints
    kept: Bools


class Knapsacks(NamedTuple):
    """A knapsack for each shape; its items are the tensors, then the weights.

    Attributes
    ----------
    extras, savings : shape (shapes, items)
        What an item takes more of the memory, and what that saves; nothing for what is no item.
    order : shape (shapes, items)
        Items, those that save most for each element of memory first.
    counts : shape (shapes,)
        How many items there are.
    decided : bool, shape (items,)
        Tensors for which an option has been chosen.
    """

    extras: Ints
    savings: Ints
    order: Ints
    counts: Ints
    decided: Bools


class Tree(NamedTuple):
    """The path of the search: tensors are decided in their order.

    Attributes
    ----------
    rooms, bases : shape (tensors + 1, shapes)
        By depth, what is left of the memory, and what is moved if what is open is in line buffers.
    alive : shape (tensors + 1, shapes)
        The shapes that are still possible, `n_alive` of them.
    n_alive : shape (tensors + 1,)
    chosen : shape (tensors,)
        The option of each tensor that is decided.
    """

    rooms: Ints
    bases: Ints
    alive: Ints
    n_alive: Ints
    chosen: Ints


class Scratch(NamedTuple):
    """Arrays for working.

    Attributes
    ----------
    extras : shape (items,)
        What weights take more in truth: see `StepTables.wide`.
    taken, best : bool, shape (items,)
        Weights that are taken at the moment, and that are best.
    places : shape (items,)
        Places in the order at which weights have been taken.
    kept : bool, shape (weights,)
        The weights of the best step.
    """

    extras: Ints
    taken: Bools
    best: Bools
    places: Ints
    kept: Bools


# Knapsacks ----------------------------------------------------------------------------------------------


@jit.lean
def fraction_saved(saving: int, room: int, extra: int) -> int:
    """Return what an item saves at most of which only a part has room."""
    if saving < 2**31 and room < 2**31:
        return int(saving * room // extra)
    return min(saving, int(saving * (room / extra)) + 1)


@jit.lean
def fractional_bound(sacks: Knapsacks, shape: int, first: int, room: int, enough: int) -> int:
    """Return what items that are not decided save at most; no more than `enough` counts.

    Parameters
    ----------
    first
        Place in the order from which on items are looked at.
    """
    saved = 0
    for place in range(first, sacks.counts[shape]):
        item = sacks.order[shape, place]
        if sacks.decided[item]:
            continue
        extra, saving = sacks.extras[shape, item], sacks.savings[shape, item]
        if extra > room:
            return int(saved + fraction_saved(saving, room, extra))
        room -= extra
        saved += saving
        if saved >= enough:
            break
    return int(saved)


@jit.lean
def is_worse_than_left_out(sacks: Knapsacks, shape: int, place: int, scratch: Scratch) -> bool:
    """Whether weights that have been left out would be as good in the place of some others."""
    item = sacks.order[shape, place]
    for earlier in range(place - 1, -1, -1):
        other = sacks.order[shape, earlier]
        if (
            not sacks.decided[other]
            and not scratch.taken[other]
            and scratch.extras[other] <= scratch.extras[item]
            and sacks.savings[shape, other] >= sacks.savings[shape, item]
        ):
            return True
    return False


@jit.lean
def best_weights(sacks: Knapsacks, shape: int, room: int, wanted: int, scratch: Scratch) -> int:
    """Return the most that weights save, if it is more than `wanted`, and keep which in `scratch.best`.

    Returns
    -------
    `wanted` if they do not save more.
    """
    found, saved, depth, place, count = wanted, 0, 0, 0, sacks.counts[shape]
    while True:
        # As far down as there is hope, each item taken if it has room.
        while place < count:
            item = sacks.order[shape, place]
            if sacks.decided[item]:
                place += 1
                continue
            if saved + fractional_bound(sacks, shape, place, room, NEVER) <= found:
                break
            if scratch.extras[item] <= room and not is_worse_than_left_out(sacks, shape, place, scratch):
                scratch.taken[item] = True
                scratch.places[depth] = place
                depth += 1
                room -= scratch.extras[item]
                saved += sacks.savings[shape, item]
            place += 1
        else:
            if saved > found:
                found = saved
                for each in range(count):
                    item = sacks.order[shape, each]
                    scratch.best[item] = scratch.taken[item]
        if not depth:
            return found
        depth -= 1
        place = scratch.places[depth]
        item = sacks.order[shape, place]
        scratch.taken[item] = False
        room += scratch.extras[item]
        saved -= sacks.savings[shape, item]
        place += 1


# Rows of arrays -----------------------------------------------------------------------------------------


@jit.inner
def order_of(values: Any) -> Ints:
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
def take_rows(array: Any, places: Ints, more: int = 0) -> Any:
    """Return the rows of an array at some places, and more; it compiles sooner than ``array[places]``."""
    new = np.zeros((len(places) + more, *array.shape[1:]), array.dtype)
    width = array.size // max(1, len(array))
    rows, before = new.reshape(len(new), width), array.reshape(len(array), width)
    for number in range(len(places)):
        for column in range(width):
            rows[number, column] = before[places[number], column]
    return new


@jit.inner
def take_ways(ways: Ways, places: Ints, more: int = 0) -> Ways:
    """Return some ways, and room for more."""
    return Ways(
        take_rows(ways.options, places, more),
        take_rows(ways.numbers, places, more),
        take_rows(ways.kept, places, more),
    )


@jit.inner
def undominated(tables: StepTables, question: Question, ways: Ways, count: int) -> Ints:
    """Return which of the first `count` ways are not worse than another, those that move least first.

    One is worse that moves no less, with what counts where tensors are read last, leaves no tensor on chip
    alone that the other has not there alone, and none in DRAM that the other has not there; or tensors that
    are alike in their place.
    """
    kinds, classes = question.kinds, question.after
    moved, most = np.zeros(count, np.int64), 0
    for number in classes:
        most = max(most, number)
    # Of each class how many are in DRAM alone, and how many are in DRAM.
    there = np.zeros((count, 2 * (most + 1)), np.int64)
    for place in range(count):
        moved[place] = ways.numbers[place, 0]
        for tensor in range(len(kinds)):
            kind, option = kinds[tensor], ways.options[place, tensor]
            if tables.flags[tensor, IN_DRAM, kind, option]:
                there[place, 2 * classes[tensor]] += 1
                if not tables.flags[tensor, ON_CHIP, kind, option]:
                    there[place, 2 * classes[tensor] + 1] += 1
                    moved[place] += tables.later[tensor]
    kept = np.zeros(count, np.int64)
    left = 0
    for place in order_of(moved):
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
        moved[number] = ways.numbers[kept[number], 0]
    rank: Ints = order_of(moved[:left])
    for number in range(left):
        rank[number] = kept[rank[number]]
    return rank


# The search ---------------------------------------------------------------------------------------------


@jit.inner
def cheapest_options(tables: StepTables, question: Question) -> Ints:
    """Return what each tensor moves at least in a line buffer, and as a whole; shape (2, tensors)."""
    tensors = len(tables.sizes)
    found = np.full((2, tensors), NEVER, np.int64)
    for tensor in range(tensors):
        kind = question.kinds[tensor]
        for option in range(tables.options[tensor, kind]):
            whole = int(tables.flags[tensor, WHOLE, kind, option])
            found[whole, tensor] = min(found[whole, tensor], tables.costs[tensor, kind, option])
    return found


@jit.inner
def useless_options(tables: StepTables, question: Question) -> Bools:
    """Return whether an option has a tensor on chip for this step alone, where that saves nothing.

    Returns
    -------
    Shape (tensors, options).
    """
    costs, flags = tables.costs, tables.flags
    found = np.zeros(costs[:, 0].shape, np.bool_)
    for tensor in range(len(tables.sizes)):
        kind, replaced = question.kinds[tensor], tensor == tables.output
        for operand in tables.operands:
            replaced |= operand == tensor
        for option in range(tables.options[tensor, kind]):
            for other in range(option):
                found[tensor, option] |= (
                    not replaced
                    and flags[tensor, WHOLE, kind, option]
                    and not flags[tensor, WHOLE, kind, other]
                    and costs[tensor, kind, other] <= costs[tensor, kind, option]
                    and flags[tensor, ON_CHIP, kind, other] == flags[tensor, ON_CHIP, kind, option]
                    and flags[tensor, IN_DRAM, kind, other] == flags[tensor, IN_DRAM, kind, option]
                )
    return found


@jit.inner
def begin(tables: StepTables, question: Question, cheapest: Ints, sacks: Knapsacks, tree: Tree) -> int:
    """Fill the knapsacks and the root; return a bound on what is moved at least."""
    tensors, shapes = tables.lines.shape
    bound, largest = NEVER, 0
    for operand in tables.operands:
        largest = max(largest, tables.sizes[operand])
    density = np.zeros(len(sacks.decided), np.float64)
    for shape in range(shapes):
        left, base, count = question.room - tables.fixed[shape], 0, 0
        if left + largest < 0:
            continue
        for tensor in range(tensors):
            if cheapest[0, tensor] == NEVER:
                left -= tables.sizes[tensor]
                base += cheapest[1, tensor]
                continue
            left -= tables.lines[tensor, shape]
            cost = cheapest[0, tensor] + tables.reread[tensor, shape]
            base += cost
            saving = cost - cheapest[1, tensor]
            if cheapest[1, tensor] < NEVER and saving > 0:
                extra = tables.sizes[tensor] - tables.lines[tensor, shape]
                sacks.extras[shape, tensor], sacks.savings[shape, tensor] = extra, saving
                sacks.order[shape, count] = tensor
                density[count] = -saving / extra if extra > 0 else -1e18
                count += 1
        if left + largest < 0:
            continue
        for weight in range(len(tables.extras)):
            saving, extra = tables.savings[weight, shape], tables.extras[weight]
            base += saving
            if saving > 0:
                item = tensors + weight
                sacks.extras[shape, item], sacks.savings[shape, item] = extra, saving
                sacks.order[shape, count] = item
                density[count] = -saving / extra if extra > 0 else -1e18
                count += 1
        for place, item in enumerate(take_rows(sacks.order[shape], order_of(density[:count]))):
            sacks.order[shape, place] = item
        sacks.counts[shape] = count
        least = base - fractional_bound(sacks, shape, 0, left + largest, NEVER)
        bound = min(bound, least)
        if least <= question.limit:
            tree.rooms[0, shape], tree.bases[0, shape] = left, base
            tree.alive[0, tree.n_alive[0]] = shape
            tree.n_alive[0] += 1
    return bound


@jit.lean
def is_whole(tables: StepTables, question: Question, tree: Tree, tensor: int) -> bool:
    """Whether the option that has been chosen for a tensor has it on chip as a whole."""
    return bool(tables.flags[tensor, WHOLE, question.kinds[tensor], tree.chosen[tensor]])


@jit.lean
def keep_possible_shapes(
    tables: StepTables, question: Question, sacks: Knapsacks, tree: Tree, depth: int, limit: int
) -> int:
    """Leave out the shapes that need too much memory or move too much; return how many there are."""
    output, bonus = tables.output, 0
    if output >= depth or is_whole(tables, question, tree, output):
        for operand in tables.operands:  # whose place the output may take
            if operand >= depth or is_whole(tables, question, tree, operand):
                bonus = max(bonus, tables.sizes[operand])
    left = 0
    for place in range(tree.n_alive[depth]):
        shape = tree.alive[depth, place]
        space = tree.rooms[depth, shape] + bonus
        if space < 0:
            continue
        base = tree.bases[depth, shape]
        if base > limit and base - fractional_bound(sacks, shape, 0, space, base - limit) > limit:
            continue
        tree.alive[depth, left] = shape
        left += 1
    tree.n_alive[depth] = left
    return left


@jit.lean
def best_step(
    tables: StepTables, question: Question, sacks: Knapsacks, tree: Tree, scratch: Scratch, limit: int
) -> tuple[int, int, int]:
    """Return what is moved at least if all tensors are decided, with which shape and operand.

    Of ways that move as little, it is the one that takes least. Weights that are kept are in `scratch.kept`.

    Returns
    -------
    More than `limit` where nothing fits that moves no more.
    """
    tensors, weights = len(tables.sizes), len(tables.extras)
    least, most_left, least_shape, least_operand = limit + 1, -1, -1, -1
    output_is_whole = is_whole(tables, question, tree, tables.output)
    for place in range(tree.n_alive[tensors]):
        shape = tree.alive[tensors, place]
        for number in range(-1, len(tables.operands)):
            space = tree.rooms[tensors, shape]
            if number >= 0:
                operand = tables.operands[number]
                if not tables.fits[number, shape] or not output_is_whole:
                    continue
                if not is_whole(tables, question, tree, operand):
                    continue
                space += tables.sizes[operand]
            if space < 0:
                continue
            for item in range(tensors, tensors + weights):
                scratch.extras[item] = sacks.extras[shape, item]
            if tables.last >= 0 and not output_is_whole:
                scratch.extras[tensors + tables.last] += tables.wide[shape]
            wanted = max(-1, tree.bases[tensors, shape] - least - 1)
            saved = best_weights(sacks, shape, space, wanted, scratch)
            if saved == wanted:
                continue
            cost, left = tree.bases[tensors, shape] - saved, space
            for item in range(tensors, tensors + weights):
                if sacks.savings[shape, item] > 0 and scratch.best[item]:
                    left -= scratch.extras[item]
            if cost < least or (cost == least and cost <= limit and left > most_left):
                least, most_left, least_shape, least_operand = cost, left, shape, number
                for weight in range(weights):
                    item = tensors + weight
                    scratch.kept[weight] = sacks.savings[shape, item] > 0 and scratch.best[item]
    return least, least_shape, least_operand


@jit.lean
def descend(
    tables: StepTables, question: Question, cheapest: Ints, useless: Bools, tree: Tree, tensor: int
) -> None:
    """Go one step deeper, with the option that has been chosen for a tensor."""
    kind, option = question.kinds[tensor], tree.chosen[tensor]
    cost, whole = tables.costs[tensor, kind, option], tables.flags[tensor, WHOLE, kind, option]
    left_alive = 0
    for place in range(tree.n_alive[tensor]):
        shape = tree.alive[tensor, place]
        line, reread = tables.lines[tensor, shape], tables.reread[tensor, shape]
        if useless[tensor, option] and not reread and line <= tables.sizes[tensor]:
            continue
        tree.alive[tensor + 1, left_alive] = shape
        left_alive += 1
        left, base = tree.rooms[tensor, shape], tree.bases[tensor, shape]
        if cheapest[0, tensor] == NEVER:
            base += cost - cheapest[1, tensor]
        elif whole:
            left -= tables.sizes[tensor] - line
            base += cost - cheapest[0, tensor] - reread
        else:
            base += cost - cheapest[0, tensor]
        tree.rooms[tensor + 1, shape], tree.bases[tensor + 1, shape] = left, base
    tree.n_alive[tensor + 1] = left_alive


@jit.lean
def record(
    ways: Ways, place: int, tree: Tree, scratch: Scratch, moved: int, shape: int, operand: int
) -> None:
    """Write down a way to execute the step."""
    for tensor in range(len(tree.chosen)):
        ways.options[place, tensor] = tree.chosen[tensor]
    for weight in range(len(scratch.kept)):
        ways.kept[place, weight] = scratch.kept[weight]
    ways.numbers[place, 0], ways.numbers[place, 1], ways.numbers[place, 2] = moved, shape, operand


@jit.inner
def make_room(tables: StepTables, question: Question, ways: Ways) -> tuple[Ways, int, int]:
    """Return the ways that are not worse than others with room for more, and how many there are.

    Returns
    -------
    And the most that is worth moving, if some have been left out as there are enough.
    """
    length, cut = len(ways.numbers), NEVER
    places = undominated(tables, question, ways, length)
    if len(places) > question.enough:
        places = places[: question.enough]
        cut = ways.numbers[places[-1], 0] - 1
    count = len(places)
    return take_ways(ways, places, (length if 2 * count <= length else 2 * length) - count), count, cut


@jit.inner
def new_arrays(tensors: int, weights: int, shapes: int) -> tuple[Knapsacks, Tree, Scratch, Ways]:
    """Return the arrays of a search for the ways to execute a step, empty."""
    items = tensors + weights
    sacks = Knapsacks(
        np.zeros((shapes, items), np.int64),
        np.zeros((shapes, items), np.int64),
        np.zeros((shapes, items), np.int64),
        np.zeros(shapes, np.int64),
        np.zeros(items, np.bool_),
    )
    tree = Tree(
        np.zeros((tensors + 1, shapes), np.int64),
        np.zeros((tensors + 1, shapes), np.int64),
        np.zeros((tensors + 1, shapes), np.int64),
        np.zeros(tensors + 1, np.int64),
        np.full(tensors, -1),
    )
    scratch = Scratch(
        np.zeros(items, np.int64),
        np.zeros(items, np.bool_),
        np.zeros(items, np.bool_),
        np.zeros(items, np.int64),
        np.zeros(weights, np.bool_),
    )
    ways = Ways(
        np.zeros((16, tensors), np.int64), np.zeros((16, 3), np.int64), np.zeros((16, weights), np.bool_)
    )
    return sacks, tree, scratch, ways


@jit.inner
def place_tensors(tables: StepTables, question: Question, alike: Bools) -> tuple[Ways, int, int]:
    """Return the ways to execute a step, none of which is worse than another, those that move least first.

    Parameters
    ----------
    alike : shape (tensors,)
        Whether a tensor is like the one before it, or as good with a smaller line buffer, so that its option
        need not come before that of the other.

    Returns
    -------
    The ways; what is moved at least; and the most that ways may move, so that all of them are there.
    """
    tensors, shapes = tables.lines.shape
    limit, reached = question.limit, question.limit
    cheapest, useless = cheapest_options(tables, question), useless_options(tables, question)
    sacks, tree, scratch, ways = new_arrays(tensors, len(tables.extras), shapes)
    none = np.zeros(0, np.int64)
    bound, count = begin(tables, question, cheapest, sacks, tree), 0
    depth, entering, nodes = 0, True, 0
    while depth >= 0 and tree.n_alive[0]:
        if entering:
            nodes += 1
            if question.only_best and nodes > NODES:
                return take_ways(ways, none), bound, reached
            left = keep_possible_shapes(tables, question, sacks, tree, depth, limit)
            if left and depth == tensors:
                least, shape, operand = best_step(tables, question, sacks, tree, scratch, limit)
                if least <= limit:
                    if count == len(ways.numbers):
                        ways, count, cut = make_room(tables, question, ways)
                        limit, reached = min(limit, cut), min(reached, cut)
                    place = 0 if question.only_best else count
                    record(ways, place, tree, scratch, least, shape, operand)
                    count = place + 1
                    if question.only_best:
                        limit = least - 1
            if not left or depth == tensors:
                depth -= 1
                entering = False
                continue
            tree.chosen[depth] = -1
        # The next option of the tensor at this depth.
        option = tree.chosen[depth] + 1
        if tree.chosen[depth] < 0 and depth > 0 and alike[depth]:
            option = tree.chosen[depth - 1]
        entering = option < tables.options[depth, question.kinds[depth]]
        sacks.decided[depth] = entering
        tree.chosen[depth] = option if entering else -1
        if entering:
            descend(tables, question, cheapest, useless, tree, depth)
        depth += 1 if entering else -1
    if question.only_best:
        bound = ways.numbers[0, 0] if count else max(bound, limit + 1)
    places = undominated(tables, question, ways, count)
    if len(places) > question.enough:
        places = places[: question.enough]
        reached = ways.numbers[places[-1], 0] - 1
    return take_ways(ways, places), bound, reached


@jit.lean
def comes_after(keys: Ints, one: int, other: int) -> bool:
    """Whether a row of keys is larger than another one."""
    for column in range(keys.shape[1]):
        if keys[one, column] != keys[other, column]:
            return bool(keys[one, column] > keys[other, column])
    return False


@jit.inner
def order_tensors(tables: StepTables, question: Question) -> tuple[Ints, Bools]:
    """Return the order in which tensors are decided, and which are like the one before: see `place_tensors`.

    Large ones come first, then those that what follows treats alike side by side. Of these, the one with the
    larger line buffer may be on chip as a whole, if one is: that takes less.
    """
    tensors, shapes = tables.lines.shape
    keys, order = np.zeros((tensors, 3), np.int64), np.zeros(tensors, np.int64)
    for tensor in range(tensors):
        keys[tensor, 0] = -tables.sizes[tensor]
        if tables.sources[tensor]:
            keys[tensor, 1] = 4 * question.before[tensor] + question.kinds[tensor]
        else:
            keys[tensor, 1] = -1 if tensor == tables.output else 4 * (tensors + question.after[tensor])
        for shape in range(shapes):
            keys[tensor, 2] -= tables.lines[tensor, shape]
        place = tensor
        while place and comes_after(keys, order[place - 1], tensor):
            order[place] = order[place - 1]
            place -= 1
        order[place] = tensor
    alike = np.zeros(tensors, np.bool_)
    for place in range(1, tensors):
        one, other = order[place - 1], order[place]
        if keys[one, 1] == keys[other, 1] and keys[one, 0] == keys[other, 0]:
            alike[place] = True
            for shape in range(shapes):
                alike[place] &= tables.lines[one, shape] >= tables.lines[other, shape]
    return order, alike


@jit.kernel(nogil=True)
def best_steps(tables: StepTables, question: Question) -> tuple[Ways, int, int, Ints]:
    """Return the ways to execute a step in some room, none of which is worse than another.

    Returns
    -------
    The ways, those that move least first; what is moved at least; the most that ways may move, so that all of
    them are there; and which tensors are on chip and in DRAM after each way, as bit masks of `BITS` tensors
    each, shape (ways, 2, masks).
    """
    tensors = len(tables.sizes)
    order, alike = order_tensors(tables, question)
    back = np.zeros(tensors, np.int64)
    for place in range(tensors):
        back[order[place]] = place
    operands = np.zeros(len(tables.operands), np.int64)
    for number in range(len(operands)):
        operands[number] = back[tables.operands[number]]
    in_order = StepTables(
        take_rows(tables.sizes, order),
        take_rows(tables.lines, order),
        take_rows(tables.reread, order),
        take_rows(tables.costs, order),
        take_rows(tables.flags, order),
        take_rows(tables.options, order),
        take_rows(tables.later, order),
        take_rows(tables.sources, order),
        tables.fixed,
        tables.extras,
        tables.savings,
        tables.last,
        tables.wide,
        back[tables.output],
        operands,
        tables.fits,
    )
    asked = Question(
        take_rows(question.kinds, order),
        take_rows(question.before, order),
        take_rows(question.after, order),
        question.room,
        question.limit,
        question.only_best,
        question.enough,
    )
    ways, bound, reached = place_tensors(in_order, asked, alike)
    options = np.zeros(ways.options.shape, np.int64)
    where = np.zeros((len(options), 2, (tensors + BITS - 1) // BITS), np.int64)
    for number in range(len(options)):
        for tensor in range(tensors):
            options[number, tensor] = option = ways.options[number, back[tensor]]
            for place in range(2):
                if tables.flags[tensor, place + 1, question.kinds[tensor], option]:
                    where[number, place, tensor // BITS] |= 1 << tensor % BITS
    return Ways(options, ways.numbers, ways.kept), bound, reached, where
