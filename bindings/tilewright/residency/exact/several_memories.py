"""The search for plans whose maps lie in several memories, without DRAM.

A map that stays from step to step lies in one memory for good. So what distinguishes two ways to execute some
operations is in which memory each map lies that is still to be read. Within a step each buffer lies where it
costs the least, of all that can be: a search over all memories of each, which leaves out what costs more than
what has been found. Where several costs depend on that, all layouts are kept that no other one beats.

What is taken of each memory is limited, and not minimised here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from operator import mul
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import WEIGHTS, Thing
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import taken_of_each, violation
from tilewright.residency.exact.priced_steps import units_of
from tilewright.residency.exact.ram_search import MORE, Costs, Label, Way, Where, WithoutDram
from tilewright.residency.exact.residuals import OF_ADDRESSES
from tilewright.residency.exact.traffic import Answer
from tilewright.residency.graph import members
from tilewright.residency.placement import Item, find_addresses, placed_items, plan_of
from tilewright.residency.plan import MAP, Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.shape import Buffer, has_blocks
from tilewright.spec.errors import InputError, OutOfTimeError

ANYTHING = 2**62
"""More than any plan costs."""

SCALE = 1024
"""Parts of a cost in which prices of memory are told."""

PRICED = 10
"""How often the prices of all memories are set anew."""

MOST_ORDERED = 4
"""Memories that are filled in any order, where memory is to be little."""


class Placed(NamedTuple):
    """A buffer, or weights that may be copied, and what accesses to it cost.

    Attributes
    ----------
    costs
        Of each cost that depends on where things lie, that in each memory; what may also lie nowhere, as
        weights stay in flash, has one for that behind them.
    """

    thing: Thing
    size: int
    costs: tuple[tuple[int, ...], ...]


class InSeveralMemories(WithoutDram):
    """The search for the plans of a problem that no other one beats, in several memories.

    Parameters
    ----------
    rooms
        Elements that may be taken of each memory.
    first, most, alone
        As of `WithoutDram`. Memory does not count.
    """

    in_several = True

    def __init__(
        self,
        problem: Problem,
        deadline: float,
        first: str | None = None,
        most: Mapping[str, int] | None = None,
        *,
        rooms: Sequence[int],
        alone: bool = False,
    ) -> None:
        super().__init__(problem, deadline, first, most, alone=alone, capacity=sum(rooms))
        if words := [word for word in OF_ADDRESSES if word in self.residuals.words]:
            limit = f"speaks of {words[0]}, which is for maps in one memory: machine.memory names it"
            raise InputError("constraints", str(problem.constraints[0]), limit)
        self.rooms = tuple(rooms)
        self._places = [self.names.index(name) for name in self.placed]
        self._ways: dict[tuple[int, int, int], list[Way]] = {}

    def ways(self, mask: int, done: int, left: int | None = None, where: Where = ()) -> list[Label]:
        """Return the ways to execute a group next that no other one beats which leaves the same behind."""
        key = mask, done, left or 0
        if key not in self._ways:
            every = list(self.every_way(mask, done, left))
            self._ways[key] = sorted(every, key=lambda way: (self.least_of(way), way.memory))
        best = _Best()
        for way in self._ways[key]:
            check_deadline(self.deadline)
            self._lay_out(way, dict(where), self.graph.still_read(done | mask), best)
        return best.labels

    def _placed(self, way: Way) -> list[Placed]:
        """Return buffers of a step, and weights that it may copy."""
        things: dict[Thing, int] = {(each.what, each.number): each.size for each in way.buffers}
        if self.memory_costs.may_copy(self.names):
            stay = has_blocks(self.groups[way.choice.group], way.choice.shape)
            for what, number in way.accesses:
                if what == WEIGHTS and (what, number) not in things:
                    # What must stay in flash is larger than all memories.
                    size = sum(self.rooms) + 1 if stay else self.graph.operations[number].copyable
                    things[what, number] = size
        return [Placed(thing, size, self._costs_of(way, thing)) for thing, size in things.items()]

    def _costs_of(self, way: Way, thing: Thing) -> tuple[tuple[int, ...], ...]:
        """Return what accesses to a thing add to each cost that depends on where it lies, in each memory."""
        return tuple(self.costs_of(name, way, thing) for name in self.placed)

    def _lay_out(self, way: Way, before: Mapping[int, int], live: int, best: _Best) -> None:
        """Find the memories of all that a step places, for each memory of the maps that stay behind.

        Parameters
        ----------
        before
            The memory of each map that is there.
        live
            Maps that are read later, as a bit mask.
        """
        choice, output, sizes = way.choice, self.groups[way.choice.group].output, self.steps.sizes
        replaces = choice.in_place >= 0
        new = [each for each in members(choice.fetched | choice.resident) if not replaces or each != output]
        buffers, whole = self._placed(way), self.counted(way.spent)
        maps = {thing[1]: self._costs_of(way, thing) for thing in way.accesses if thing[0] == MAP}
        for regions in product(self.memory_costs.regions, repeat=len(new)):
            own = {**before, **dict(zip(new, regions, strict=True))}
            left = list(self.rooms)
            for tensor, region in own.items():
                left[region] -= sizes[tensor]
            if min(left) < 0:
                continue
            if replaces:
                own[output] = own[choice.in_place]
            after = self.residuals.of_memories(way.left, own)
            if after is None:
                continue
            where = tuple(sorted((tensor, region) for tensor, region in own.items() if live >> tensor & 1))
            of_maps = [
                sum(costs[place][own[tensor]] for tensor, costs in maps.items())
                for place in range(len(self.placed))
            ]
            costs = self._with(whole, of_maps)
            for lies, more in self._layouts(buffers, left, costs, best.like(after, where)):
                best.add(self._label(way, after, where, own, buffers, lies, self._with(costs, more)))

    def _with(self, costs: Costs, more: Sequence[int]) -> Costs:
        """Return costs, and more of those that depend on where things lie."""
        found = list(costs)
        for place, each in zip(self._places, more, strict=True):
            found[place] += each
        return tuple(found)

    def _layouts(
        self, items: Sequence[Placed], rooms: Sequence[int], costs: Costs, others: Sequence[Label]
    ) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Return memories of buffers, and what these add, that may be better than ways which are known.

        Parameters
        ----------
        costs
            What a way costs but for these buffers.
        others
            Ways that leave the same behind.
        """
        if len(self.placed) < 2:
            of_all = [each.costs[0] if self.placed else (0,) * len(rooms) for each in items]
            place = self._places[0] if self.placed else None
            most = least_of_others(costs, [label.costs[1:] for label in others], place)
            if place is not None and (limit := self.most[place]) is not None:
                most = min(most, limit - costs[place])
            lies = least_layout([item.size for item in items], of_all, rooms, most)
            if lies is not None:
                added = sum(each[region] for each, region in zip(of_all, lies, strict=True))
                yield lies, [added] if self.placed else []
            return
        known = [label.costs[1:] for label in others]

        def worth(more: Sequence[int]) -> bool:
            found = self._with(costs, more)
            limits = zip(found, self.most, strict=True)
            return all(most is None or cost <= most for cost, most in limits) and not any(
                all(one <= other for one, other in zip(each, found, strict=True)) for each in known
            )

        yield from best_layouts(items, rooms, (0,) * len(self.placed), worth, self.deadline)

    def _label(
        self,
        way: Way,
        left: int,
        where: Where,
        own: Mapping[int, int],
        buffers: Sequence[Placed],
        lies: Sequence[int],
        costs: Costs,
    ) -> Label:
        """Return a way whose maps and buffers lie somewhere."""
        choice = way.choice
        placed = members(choice.fetched | choice.resident)
        things: list[tuple[Thing, int]] = [((MAP, tensor), own[tensor]) for tensor in placed]
        there = [
            (each.thing, region)
            for each, region in zip(buffers, lies, strict=True)
            if region < len(self.rooms)
        ]
        copied = frozenset(number for (what, number), _ in there if what == WEIGHTS)
        if copied:
            choice = choice._replace(shape=replace(choice.shape, copied=copied))
        return Label((0, *costs), None, choice, left, where, (*things, *there))


class _Best:
    """Ways to execute a step of which no other one beats any that leaves the same behind."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, Where], list[Label]] = {}

    @property
    def labels(self) -> list[Label]:
        """All of them."""
        return [label for each in self._found.values() for label in each]

    def like(self, left: int, where: Where) -> Sequence[Label]:
        """Return those that leave the same behind."""
        return self._found.get((left, where), ())

    def add(self, label: Label) -> None:
        """Add one that none beats, and leave out those that it beats."""
        others = [
            each
            for each in self.like(label.left, label.where)
            if any(one > other for one, other in zip(label.costs, each.costs, strict=True))
        ]
        self._found[label.left, label.where] = [*others, label]


def least_of_others(costs: Costs, others: Sequence[Costs], place: int | None) -> int:
    """Return how much one of some costs may grow so that no other way is as good in all of them.

    Parameters
    ----------
    place
        Which one; None if none grows.
    """
    most = ANYTHING
    for other in others:
        rest = [one - two for at, (one, two) in enumerate(zip(costs, other, strict=True)) if at != place]
        if min(rest, default=0) >= 0:
            most = min(most, -1 if place is None else other[place] - costs[place] - 1)
    return most


def least_layout(
    sizes: Sequence[int], costs: Sequence[Sequence[int]], rooms: Sequence[int], most: int
) -> list[int] | None:
    """Return a memory for each of some items, so that these cost the least; None if none fit.

    What lies in none has the number behind that of the last memory.

    Parameters
    ----------
    costs
        Of each item in each memory, and behind them in none if that may be.
    rooms
        What may be taken of each memory.
    most
        What they may cost.
    """
    nowhere = len(rooms)
    if min(rooms) < 0:
        return None
    # A price on the elements of each memory makes a bound of what items cost that are still to be placed.
    prices = room_prices(sizes, costs, rooms)
    priced = [
        [
            SCALE * cost + (0 if region == nowhere else prices[region] * size)
            for region, cost in enumerate(each)
        ]
        for size, each in zip(sizes, costs, strict=True)
    ]
    # What differs most between memories is decided first, and of the rest what is large.
    order = sorted(range(len(sizes)), key=lambda n: (min(priced[n]) - max(priced[n]), -sizes[n]))
    least, taken = [0], [0]
    for number in reversed(order):
        least.append(least[-1] + min(priced[number]))
        taken.append(taken[-1] + (sizes[number] if len(costs[number]) == nowhere else 0))
    least.reverse()
    taken.reverse()
    best: list[int] | None = None
    chosen = [0] * len(sizes)
    seen: dict[tuple[int, ...], int] = {}

    def descend(place: int, left: tuple[int, ...], cost: int) -> None:
        nonlocal best, most
        bound = SCALE * cost + least[place] - sum(map(mul, prices, left))
        if bound > SCALE * most or cost > most or taken[place] > sum(left):
            return
        if place == len(order):
            best, most = list(chosen), cost - 1
            return
        state = place, *left
        if seen.get(state, ANYTHING) <= cost:
            return
        seen[state] = cost
        number = order[place]
        size, each = sizes[number], costs[number]
        for region in sorted(range(len(each)), key=priced[number].__getitem__):
            chosen[number] = region
            if region == nowhere:
                descend(place + 1, left, cost + each[region])
            elif size <= left[region]:
                after = (*left[:region], left[region] - size, *left[region + 1 :])
                descend(place + 1, after, cost + each[region])

    descend(0, tuple(rooms), 0)
    return best


def room_prices(sizes: Sequence[int], costs: Sequence[Sequence[int]], rooms: Sequence[int]) -> list[int]:
    """Return a price of an element of each memory, in parts of costs, at which little more is asked of it.

    Any prices make a valid bound: what items cost and take at these prices at least, less what the memories
    have to give. These ones are raised, memory by memory, until no more is asked of it than there is.
    """
    prices = [0] * len(rooms)
    for _ in range(PRICED):
        before = list(prices)
        for region, room in enumerate(rooms):
            leaving = []  # the price at which each item would rather lie elsewhere
            for size, each in zip(sizes, costs, strict=True):
                others = [
                    SCALE * cost + (prices[other] * size if other < len(rooms) else 0)
                    for other, cost in enumerate(each)
                    if other != region
                ]
                if size and others:
                    leaving.append(((min(others) - SCALE * each[region]) // size, size))
            asked = sum(size for price, size in leaving if price >= 0)
            prices[region] = 0
            for price, size in sorted(leaving):
                if price < 0:
                    continue
                if asked <= room:
                    break
                asked -= size
                prices[region] = price
        if prices == before:
            break
    return prices


class _Layout(NamedTuple):
    """Memories of the first items of some, with what is left of each, and what they cost."""

    left: tuple[int, ...]
    costs: tuple[int, ...]
    before: _Layout | None = None
    region: int = 0

    def beats(self, other: _Layout) -> bool:
        """Whether it leaves as much of each memory, and costs as little."""
        left = zip(self.left, other.left, strict=True)
        costs = zip(self.costs, other.costs, strict=True)
        return all(one >= two for one, two in left) and all(one <= two for one, two in costs)


def best_layouts(
    items: Sequence[Placed],
    rooms: Sequence[int],
    nothing: tuple[int, ...],
    worth: Callable[[Sequence[int]], bool],
    deadline: float = float("inf"),
) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Return memories for all of some items, with what they cost, that no others beat in all costs.

    Parameters
    ----------
    nothing
        What no items cost: a zero for each cost.
    worth
        Whether what costs at least so much may be of use.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before all are found.
    """
    if not items:
        if min(rooms) >= 0 and worth(nothing):
            yield [], nothing
        return
    nowhere = len(rooms)
    # What differs most between memories is decided first, and of the rest what is large.
    order = sorted(items, key=lambda item: (sum(min(each) - max(each) for each in item.costs), -item.size))
    least, needed = [[*nothing]], [0]
    for item in reversed(order):
        least.append([more + min(each) for more, each in zip(least[-1], item.costs, strict=True)])
        needed.append(needed[-1] + item.size)
    least.reverse()
    needed.reverse()
    found = [_Layout(tuple(rooms), nothing)] if min(rooms) >= 0 else []
    for place, item in enumerate(order):
        check_deadline(deadline)
        later, rest = list[_Layout](), least[place + 1]
        for layout in found:
            for region in range(len(item.costs[0])):
                left = list(layout.left)
                if region < nowhere:
                    left[region] -= item.size
                    if left[region] < 0:
                        continue
                costs = tuple(one + each[region] for one, each in zip(layout.costs, item.costs, strict=True))
                if worth([one + more for one, more in zip(costs, rest, strict=True)]):
                    # More room than all the others need is of no use.
                    there = tuple(min(each, needed[place + 1]) for each in left)
                    later.append(_Layout(there, costs, layout, region))
        found = _unbeaten(later)
    for layout in found:
        lies, at = list[int](), layout
        while at.before is not None:
            lies.append(at.region)
            at = at.before
        of_item = {item.thing: region for item, region in zip(order, reversed(lies), strict=True)}
        yield [of_item[item.thing] for item in items], layout.costs


def _unbeaten(layouts: list[_Layout]) -> list[_Layout]:
    """Return those that no other one beats."""
    found: list[_Layout] = []
    for layout in sorted(layouts, key=lambda each: (each.costs, tuple(-one for one in each.left))):
        if not any(other.beats(layout) for other in found):
            found.append(layout)
    return found


# Plans --------------------------------------------------------------------------------------------------


def placed_in_several(search: InSeveralMemories, label: Label, deadline: float) -> Plan | None:
    """Return a plan with addresses in each memory, or None if none are found.

    It takes no more of a memory than the search has room there, if there are such addresses.
    """
    problem, graph, lies = search.problem, search.graph, dict[tuple[int, str], int]()
    for number, step in enumerate(label.steps):
        for (what, owner), memory in step.lies:
            key = graph.tensors[owner].key if what == MAP else Buffer(what, owner, 0).name(graph)
            lies[number, key] = memory
    choices, found = label.choices(), list[tuple[Item, int]]()
    items = placed_items(problem.groups, choices)
    for number, region in enumerate(problem.machine.regions):
        own = [item for item in items if lies[item.names[0]] == number]
        addresses: list[int] | None = []
        for room in dict.fromkeys((search.rooms[number], region.elements)) if own else ():
            addresses = find_addresses(own, room, deadline, exact=True)
            if addresses is not None:
                break
        if addresses is None:
            return None
        found += [(item, region.begin + at) for item, at in zip(own, addresses, strict=True)]
    return plan_of(problem.groups, choices, found)


def one_by_one_in_several(problem: Problem, deadline: float) -> Plan | None:
    """Return a plan that executes each operation alone; None where none fits."""
    search = InSeveralMemories(problem, deadline, rooms=_whole(problem), alone=True)
    labels = search.labels()
    return placed_in_several(search, labels[0], deadline) if labels else None


def best_in_several(
    problem: Problem,
    deadline: float,
    name: str,
    first: str | None,
    least: Label,
    on_bound: Callable[[int], None],
) -> Answer:
    """Return the plan that is best in the one objective of a problem.

    Parameters
    ----------
    name
        What is minimised.
    first
        What counts besides memory.
    least
        The best way if all memories were one, and as quick as the quickest.
    on_bound
        Is told each bound, in units of the objective.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before a plan is found.
    """
    machine, whole = problem.machine, _whole(problem)
    if name == "memory":
        return _least_memory(problem, deadline, first, least)
    quick = {} if problem.memory_costs.placed([name]) else {name: least.costs[1]}
    search = InSeveralMemories(problem, deadline, first, quick, rooms=whole)
    labels = search.labels()
    if not labels and quick:
        search = InSeveralMemories(problem, deadline, first, rooms=whole)
        labels = search.labels()
    if not labels:
        return Answer(None, units_of(problem, name, least.costs[1]), impossible=True)
    best = min(labels, key=lambda label: label.costs)
    bound = units_of(problem, name, best.costs[1])
    on_bound(bound)
    plan = placed_in_several(search, best, deadline)
    if plan is not None and violation(problem, plan) is None:
        return Answer(plan, bound)
    for rooms in _smaller_rooms(whole, machine.capacity):
        plan, _ = _in_rooms(problem, deadline, first, rooms)
        if plan is not None:
            return Answer(plan, bound)
    return Answer(None, bound)


def _least_memory(problem: Problem, deadline: float, first: str | None, least: Label) -> Answer:
    """Return a plan in as little of all memories as is found: no less than if they were one."""
    width, whole, total = problem.machine.element_bytes, _whole(problem), problem.machine.capacity
    needed, more, bound = least.costs[0], 0, least.costs[0] * width
    fits = False
    while True:
        for rooms in _shares(whole, needed):
            plan, fits = _in_rooms(problem, deadline, first, rooms)
            if plan is not None:
                return Answer(_in_less(problem, deadline, first, plan, least.costs[0]), bound)
        if needed == total:
            # If that is all that there is, nothing has been left out.
            return Answer(None, bound, impossible=not fits and total == sum(whole))
        more = max(1, 2 * more, least.costs[0] // MORE)
        needed = min(total, least.costs[0] + more)


def _in_rooms(
    problem: Problem, deadline: float, first: str | None, rooms: Sequence[int]
) -> tuple[Plan | None, bool]:
    """Return a plan in so much of each memory, and whether there are steps for one without addresses."""
    search = InSeveralMemories(problem, deadline, first, rooms=rooms)
    labels = search.labels()
    for label in sorted(labels, key=lambda label: label.costs):
        plan = placed_in_several(search, label, deadline)
        if plan is not None and violation(problem, plan) is None:
            return plan, True
    return None, bool(labels)


def _in_less(problem: Problem, deadline: float, first: str | None, plan: Plan, least: int) -> Plan:
    """Return a plan in which no memory can be taken less of while no more of the others is.

    Parameters
    ----------
    least
        Elements of all memories that every plan takes.
    """
    tops = taken_of_each(problem, plan, decode_plan(problem, plan))
    try:
        for region in range(len(tops)):
            low, high = max(0, least - sum(tops) + tops[region]), tops[region]
            tried = low  # most often that is enough
            while low < high:
                rooms = [tried if place == region else top for place, top in enumerate(tops)]
                found, _ = _in_rooms(problem, deadline, first, rooms)
                there = None if found is None else taken_of_each(problem, found, decode_plan(problem, found))
                if found is not None and there is not None and sum(there) < sum(tops):
                    plan, tops, high = found, there, min(there[region], tried)
                else:
                    low = tried + 1
                tried = (low + high) // 2
    except OutOfTimeError:
        pass
    return plan


def _whole(problem: Problem) -> list[int]:
    return [region.elements for region in problem.machine.regions]


def _shares(whole: Sequence[int], needed: int) -> Iterator[tuple[int, ...]]:
    """Yield ways to take so much of all memories: each fills some of them, one after the other."""
    found = set()
    for order in (
        permutations(range(len(whole)), len(whole)) if len(whole) <= MOST_ORDERED else [range(len(whole))]
    ):
        rooms, left = [0] * len(whole), needed
        for region in order:
            rooms[region] = min(left, whole[region])
            left -= rooms[region]
        if tuple(rooms) not in found:
            found.add(tuple(rooms))
            yield tuple(rooms)


def _smaller_rooms(whole: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Yield rooms in which addresses may be found where they are not in all that there is."""
    parts = 1
    while parts < MORE:
        parts *= 2
        yield from _shares([each - each * parts // (2 * MORE) for each in whole], min(most, sum(whole)))
