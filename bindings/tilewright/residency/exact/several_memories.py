"""The search for plans whose maps lie in several memories, without DRAM.

A map that stays from step to step lies in one memory for good. So what distinguishes two ways to execute some
operations is in which memory each map lies that is still to be read. Within a step each buffer lies where the
core waits the least for it, of all that can be: a search over all memories of each, which leaves out what
waits longer than what has been found.

What is taken of each memory is limited, and not minimised here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import WEIGHTS, Accesses, Thing
from tilewright.residency.cost import Spent
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
from tilewright.residency.shapes.shape import Buffer
from tilewright.spec.errors import InputError, OutOfTimeError

ANY_TIME = 2**62
"""More than any plan takes."""

MOST_ORDERED = 4
"""Memories that are filled in any order, where memory is to be little."""


class Placed(NamedTuple):
    """A buffer, and how long the core waits for it in each memory.

    What may also lie nowhere, as weights stay in flash, has a time for that behind them.
    """

    thing: Thing
    size: int
    waits: tuple[int, ...]


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
        undecided = [*OF_ADDRESSES, *(["cycles"] if problem.machine.waits else [])]
        if words := [word for word in undecided if word in self.residuals.words]:
            limit = f"speaks of {words[0]}, which is for maps in one memory: machine.memory names it"
            raise InputError("constraints", str(problem.constraints[0]), limit)
        self.rooms = tuple(rooms)
        self.time = self.names.index("cycles") if "cycles" in self.names else None
        self._ways: dict[tuple[int, int, int], list[Way]] = {}

    def ways(self, mask: int, done: int, left: int | None = None, where: Where = ()) -> list[Label]:
        """Return the ways to execute a group next that no other one beats which leaves the same behind."""
        key = mask, done, left or 0
        if key not in self._ways:
            every = list(self.every_way(mask, done, left))
            self._ways[key] = sorted(every, key=lambda way: (self.least_of(way), way.memory))
        best = _Best(self.time)
        for way in self._ways[key]:
            check_deadline(self.deadline)
            self._lay_out(way, dict(where), self.graph.still_read(done | mask), best)
        return best.labels

    def _placed(self, way: Way) -> list[Placed]:
        """Return buffers of a step, and weights that it may copy."""
        sizes = {(each.what, each.number): each.size for each in way.buffers}
        found = [
            Placed(thing, size, self.times(thing, way.accesses.get(thing, Accesses())))
            for thing, size in sizes.items()
        ]
        if not self.problem.machine.flash_waits:
            return found
        for thing, accesses in way.accesses.items():
            if thing[0] == WEIGHTS:
                size = self.graph.operations[thing[1]].copyable
                found.append(Placed(thing, size, self.times(thing, accesses)))
        return found

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
        buffers = self._placed(way)
        costs, flash = self.counted(way.spent), len(self.rooms)
        for regions in product(self.waits.numbers, repeat=len(new)):
            own = {**before, **dict(zip(new, regions, strict=True))}
            left = list(self.rooms)
            for tensor, region in own.items():
                left[region] -= sizes[tensor]
            if min(left) < 0:
                continue
            if replaces:
                own[output] = own[choice.in_place]
            waits = sum(
                self.waits.of(accesses, own[number])
                for (what, number), accesses in way.accesses.items()
                if what == MAP
            )
            after = self.residuals.of_memories(way.left, own)
            if after is None:
                continue
            where = tuple(sorted((tensor, region) for tensor, region in own.items() if live >> tensor & 1))
            most = best.most_waits(costs, after, where) - waits
            lies = least_waits(buffers, left, most)
            if lies is not None:
                waits += sum(each.waits[region] for each, region in zip(buffers, lies, strict=True))
                placed = members(choice.fetched | choice.resident)
                things: list[tuple[Thing, int]] = [((MAP, tensor), own[tensor]) for tensor in placed]
                there = [(each, region) for each, region in zip(buffers, lies, strict=True) if region < flash]
                things += [(each.thing, region) for each, region in there]
                copied = frozenset(each.thing[1] for each, _ in there if each.thing[0] == WEIGHTS)
                own_choice = choice._replace(shape=replace(choice.shape, copied=copied)) if copied else choice
                whole = self.counted(way.spent.plus(Spent(time=waits)))
                best.add(Label((0, *whole), None, own_choice, after, where, tuple(things)))


class _Best:
    """Ways to execute a step of which no other one beats any that leaves the same behind.

    Parameters
    ----------
    time
        Which of the costs are cycles, if they count.
    """

    def __init__(self, time: int | None) -> None:
        self.time = time
        self._found: dict[tuple[int, Where], list[Label]] = {}

    @property
    def labels(self) -> list[Label]:
        """All of them."""
        return [label for each in self._found.values() for label in each]

    def most_waits(self, costs: Costs, left: int, where: Where) -> int:
        """Return how long a way may wait that costs so much besides, and is beaten by none."""
        most = ANY_TIME
        for label in self._found.get((left, where), ()):
            rest = [
                one - other
                for place, (one, other) in enumerate(zip(costs, label.costs[1:], strict=True))
                if place != self.time
            ]
            if min(rest, default=0) >= 0:
                found = -1 if self.time is None else label.costs[1 + self.time] - costs[self.time] - 1
                most = min(most, found)
        return most

    def add(self, label: Label) -> None:
        """Add one that none beats, and leave out those that it beats."""
        key = label.left, label.where
        others = [
            each
            for each in self._found.get(key, ())
            if any(one > other for one, other in zip(label.costs, each.costs, strict=True))
        ]
        self._found[key] = [*others, label]


def least_waits(items: Sequence[Placed], rooms: Sequence[int], most: int) -> list[int] | None:
    """Return a memory for each of some items, so that the core waits the least; None if none fit.

    What lies in none has the number behind that of the last memory.

    Parameters
    ----------
    rooms
        What may be taken of each memory.
    most
        How long the core may wait.
    """
    nowhere = len(rooms)
    # What differs most between memories is decided first, and of the rest what is large.
    order = sorted(
        range(len(items)), key=lambda n: (min(items[n].waits) - max(items[n].waits), -items[n].size)
    )
    least, sizes = [0], [0]
    for number in reversed(order):
        least.append(least[-1] + min(items[number].waits))
        sizes.append(sizes[-1] + (items[number].size if len(items[number].waits) == nowhere else 0))
    least.reverse()
    sizes.reverse()
    best: list[int] | None = None
    chosen = [0] * len(items)
    seen: dict[tuple[int, ...], int] = {}

    def descend(place: int, left: tuple[int, ...], waited: int) -> None:
        nonlocal best, most
        if waited + least[place] > most or sizes[place] > sum(left):
            return
        if place == len(order):
            best, most = list(chosen), waited - 1
            return
        state = place, *left
        if seen.get(state, ANY_TIME) <= waited:
            return
        seen[state] = waited
        item = items[order[place]]
        for region in sorted(range(len(item.waits)), key=item.waits.__getitem__):
            chosen[order[place]] = region
            if region == nowhere:
                descend(place + 1, left, waited + item.waits[region])
            elif item.size <= left[region]:
                after = (*left[:region], left[region] - item.size, *left[region + 1 :])
                descend(place + 1, after, waited + item.waits[region])

    if min(rooms) >= 0:
        descend(0, tuple(rooms), 0)
    return best


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
    quick = {} if machine.waits else {name: least.costs[1]}
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
