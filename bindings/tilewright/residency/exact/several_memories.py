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
from itertools import product

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import WEIGHTS, Thing
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import taken_of_each, violation
from tilewright.residency.exact.layouts import ANYTHING, Placed, best_layouts, least_layout
from tilewright.residency.exact.priced_steps import units_of
from tilewright.residency.exact.ram_search import MORE, Costs, Label, Way, Where, WithoutDram
from tilewright.residency.exact.residuals import OF_ADDRESSES
from tilewright.residency.exact.traffic import Answer
from tilewright.residency.graph import members
from tilewright.residency.machine import Region
from tilewright.residency.placement import Item, find_addresses, placed_items, plan_of, spaces
from tilewright.residency.plan import MAP, Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.shape import Buffer, has_blocks
from tilewright.spec.errors import OutOfTimeError


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
            raise problem.refusal_of(words, limit)
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
    for rooms in _smaller_rooms(machine.regions, machine.capacity):
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
        for rooms in _shares(problem.machine.regions, needed):
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


def _shares(regions: Sequence[Region], needed: int) -> Iterator[tuple[int, ...]]:
    """Yield ways to take so much of all memories: each fills some of them, one after the other."""
    for space in spaces(regions, needed):
        taken = dict(space.rooms)
        yield tuple(taken.get(region.begin, 0) for region in regions)


def _smaller_rooms(regions: Sequence[Region], most: int) -> Iterator[tuple[int, ...]]:
    """Yield rooms in which addresses may be found where they are not in all that there is."""
    parts = 1
    while parts < MORE:
        parts *= 2
        smaller = [each._replace(end=each.end - each.elements * parts // (2 * MORE)) for each in regions]
        yield from _shares(smaller, min(most, sum(each.elements for each in smaller)))
