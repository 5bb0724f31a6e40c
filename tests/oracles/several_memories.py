"""Several memories without DRAM: all plans, with all assignments of what is in RAM to memories.

Steps, and ways to execute them, are those of the oracle of one memory. What lies in a memory at a time must
fit by its size; addresses are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf
from typing import Any, NamedTuple

from tests.oracles import TooLarge
from tests.oracles.accesses import (
    Prices,
    Region,
    Touch,
    accesses,
    copied_rows,
    copied_weights,
    flash,
    read_in_flash,
    regions,
)
from tests.oracles.microcontroller import Memory, Problem, Step, Way
from tests.oracles.residency import Names, subsets

Json = dict[str, Any]
Done = frozenset[int]
Where = tuple[tuple[int, int], ...]
"""Whole maps that are still to be read, each with the number of its memory."""

Costs = tuple[int, ...]
"""What is counted, each in parts (see `Counted`)."""

MOST_ASSIGNMENTS = 400_000
"""Assignments of what a step has in RAM to memories that are looked at in one problem."""

MOST_COMPARED = 3_000
"""Costs of plans to one state, none of which is worse than another, in one problem."""


class Counted:
    """What plans are compared by.

    Parameters
    ----------
    names
        Of ``macs``, ``cycles``, ``energy``, ``traffic``, and ``traffic_of(NAME)`` for memories and flash.

    Attributes
    ----------
    parts
        In how many parts one of each is counted.
    """

    def __init__(self, problem: Problem, names: Iterable[str]) -> None:
        self.names, self.graph, self.prices = tuple(names), problem.graph, Prices(problem.graph)
        parts = {"cycles": self.prices.cycle, "energy": self.prices.femtojoule}
        self.parts = tuple(parts.get(name, 1) for name in self.names)
        self.flash = flash(self.graph.machine)

    def fixed(self, macs: int, time_and_energy: tuple[int, int], moved: int) -> Costs:
        """Return what is the same wherever something lies.

        Parameters
        ----------
        time_and_energy
            In parts.
        moved
            Elements that are read and written outside.
        """
        cycles, energy = time_and_energy
        told = {"macs": macs, "cycles": cycles, "energy": energy, "traffic": moved * self.graph.width}
        return tuple(told.get(name, 0) for name in self.names)

    def touched(self, memory: Region, elements: int, read: int, written: int) -> Costs:
        """Return what so many accesses to a memory cost, that move so many elements."""
        cycles, energy = self.prices.touched(memory, read, written)
        told = {"cycles": cycles, "energy": energy}
        told[f"traffic_of({memory.name})"] = elements * self.graph.width
        return tuple(told.get(name, 0) for name in self.names)

    def copies_matter(self) -> bool:
        """Whether less that is read in flash may be worth something."""
        return any(self.touched(self.flash, 1, 1, 0))

    def whole(self, costs: Costs) -> dict[str, int]:
        """Return costs by name, a part of one as one."""
        pairs = zip(self.names, costs, self.parts, strict=True)
        return {name: -(-cost // parts) for name, cost, parts in pairs}


class Spent(NamedTuple):
    """What plans cost, and the most elements in each memory."""

    costs: Costs
    peaks: tuple[int, ...]


class Item(NamedTuple):
    """What a step puts into a memory, or has there.

    Attributes
    ----------
    tensor
        Of a map; None of a buffer.
    size
        Elements.
    costs
        What reading and writing it cost, by the number of the memory that it lies in.
    """

    tensor: int | None
    size: int
    costs: tuple[Costs, ...]


class Option(NamedTuple):
    """A way to execute a step, with the place that its output takes.

    Attributes
    ----------
    place
        The operand whose place the output takes; None if it takes none.
    items
        Maps and buffers, by name.
    costs
        What is the same wherever they lie.
    """

    place: int | None
    items: dict[str, Item]
    costs: Costs

    def is_no_worse(self, other: Option) -> bool:
        """Whether it is as good as another one, wherever maps and buffers lie."""
        return (
            self.place == other.place
            and no_more(self.costs, other.costs)
            and all(
                (theirs := other.items.get(name)) is not None
                and item.size <= theirs.size
                and all(map(no_more, item.costs, theirs.costs))
                for name, item in self.items.items()
            )
        )


def no_more(one: Costs, other: Costs) -> bool:
    """Whether nothing costs more than in another place."""
    return all(a <= b for a, b in zip(one, other, strict=True))


class Search:
    """The walk through all plans of a problem.

    Parameters
    ----------
    names
        Costs that plans are compared by; see `Counted`.
    most
        Limits of some of them.
    peaks
        Whether plans that take less memory are told apart from others.
    """

    def __init__(
        self, instance: Json, names: Iterable[str], most: dict[str, int] | None = None, *, peaks: bool = False
    ) -> None:
        self.problem, self.regions = Problem(instance), regions(instance["machine"])
        self.graph, self.left = self.problem.graph, MOST_ASSIGNMENTS
        self.counted = Counted(self.problem, names)
        limited = self.graph.room < self.regions[-1].end
        self.peaks, self.known = peaks or limited, dict[tuple[Done, Done], list[Option]]()
        pairs = zip(self.counted.names, self.counted.parts, strict=True)
        self.most = [(most or {}).get(name, inf) * parts for name, parts in pairs]

    def options(self, done: Done, step: Step) -> list[Option]:
        """Return the ways to execute a step, but those that others are as good as in everything."""
        problem, prices = self.problem, self.counted.prices
        maps, places = problem.maps(done, step), problem.places(done, step)
        found: list[Option] = []
        for way, copied in self.ways(step):
            if way.order == "kernels" and maps.outside:
                continue
            how = step.execute(way)
            moved = problem.moved(done, maps, how)
            rows = {op: copied_rows(step, way, op) for op in step.group.ops if op.number in copied}
            blocks = max(map(len, rows.values()), default=1)
            taken = prices.of_step(problem, maps, step, way, how, moved, blocks)
            copies = {f"weights of {op.name}": max(each) for op, each in rows.items()}
            touched = accesses(problem, done, maps, step, way, copied)
            items = self.items(maps, problem.buffers(maps, step, how) | copies, touched)
            of_copies = prices.of_copies(sum(map(sum, rows.values())))
            costs = together(
                self.counted.fixed(how.macs, (taken[0] + of_copies[0], taken[1] + of_copies[1]), moved),
                self.in_flash(*read_in_flash(step, way, copied, self.counted.flash)),
            )
            for place in [None, *sorted(places & how.places)]:
                found.append(Option(place, items, costs))
        kept: list[Option] = []
        for option in found:
            if not any(other.is_no_worse(option) for other in kept):
                kept = [other for other in kept if not option.is_no_worse(other)]
                kept.append(option)
        return kept

    def in_flash(self, values: int, accessed: int) -> Costs:
        """Return what it costs to read some weights in flash in so many accesses."""
        return self.counted.touched(self.counted.flash, values, accessed, 0)

    def ways(self, step: Step) -> Iterator[tuple[Way, Names]]:
        """Return the ways to execute a step, with operations whose weights are copied if that may matter."""
        matter = self.counted.copies_matter()
        weighty = [op.number for op in step.group.ops if matter and copied_weights(op)]
        yield from product([*step.ways, *step.passes], map(frozenset, subsets(weighty)))
        for way in step.blocks if matter else []:
            yield way, frozenset(weighty)

    def items(self, maps: Memory, buffers: dict[str, int], touched: dict[str, Touch]) -> dict[str, Item]:
        """Return what is in RAM during a step."""
        graph = self.graph
        sizes = {graph.key(t): (t, graph.sizes[t]) for t in maps.there | maps.fetched | maps.resident}
        all_sizes = sizes | {name: (None, size) for name, size in buffers.items()}
        assert touched.keys() <= all_sizes.keys()
        return {
            name: Item(tensor, size, self.touched(touched.get(name, Touch(0, 0))))
            for name, (tensor, size) in all_sizes.items()
        }

    def touched(self, touch: Touch) -> tuple[Costs, ...]:
        """Return what it costs to read and write something, by the number of the memory it lies in."""
        elements, width = touch.read + touch.written, self.graph.width
        return tuple(
            self.counted.touched(each, elements, *each.of_touch(touch, width)) for each in self.regions
        )

    def assignments(self, option: Option, where: dict[int, int], output: int) -> Iterator[dict[str, int]]:
        """Return memories of all that is in RAM, such that it fits."""
        full, at = [0] * len(self.regions), dict[str, int]()
        keys = {item.tensor: name for name, item in option.items.items() if item.tensor is not None}
        over = keys[output] if option.place is not None else None
        for tensor, number in where.items():
            at[keys[tensor]] = number
            full[number] += self.graph.sizes[tensor]
        free = [name for name in option.items if name not in at and name != over]

        def further(left: list[str]) -> Iterator[dict[str, int]]:
            if not left:
                self.left -= 1
                if self.left < 0:
                    raise TooLarge
                yield at | ({over: at[keys[option.place]]} if over is not None else {})
                return
            name, *others = left
            size = option.items[name].size
            for number, region in enumerate(self.regions):
                if full[number] + size <= region.end - region.begin:
                    full[number] += size
                    at[name] = number
                    yield from further(others)
                    full[number] -= size

        return further(free)

    def spent(self, option: Option, at: dict[str, int], output: str) -> Spent:
        """Return what a step costs whose maps and buffers lie in these memories."""
        costs, peaks = option.costs, [0] * len(self.regions)
        for name, item in option.items.items():
            costs = together(costs, item.costs[at[name]])
            peaks[at[name]] += 0 if option.place is not None and name == output else item.size
        return Spent(costs, tuple(peaks) if self.peaks else ())

    def step(self, done: Done, where: dict[int, int], step: Step) -> Iterator[tuple[Where, Spent]]:
        """Return where maps are after a step, and what it costs."""
        after, output = done | step.group.mask, self.graph.key(step.group.output)
        for option in self.known_options(done, step):
            for at in self.assignments(option, where, step.group.output):
                left = {
                    item.tensor: at[name]
                    for name, item in option.items.items()
                    if item.tensor is not None and self.graph.readers[item.tensor] - after
                }
                yield tuple(sorted(left.items())), self.spent(option, at, output)

    def known_options(self, done: Done, step: Step) -> list[Option]:
        """Return `options`, worked out once."""
        key = done, step.group.mask
        if key not in self.known:
            self.known[key] = self.options(done, step)
        return self.known[key]

    def front(self) -> list[Spent]:
        """Return what plans within the limits cost, but those that others are as good as in everything."""
        every, nothing = frozenset(range(len(self.graph.ops))), (0,) * len(self.counted.names)
        peaks = (0,) * len(self.regions) if self.peaks else ()
        layers: list[dict[tuple[Done, Where], list[Spent]]] = [{} for _ in range(len(every) + 1)]
        layers[len(self.problem.first)][self.problem.first, ()] = [Spent(nothing, peaks)]
        for layer in layers[:-1]:
            for (done, where), paths in layer.items():
                for step in self.problem.next(done):
                    after = done | step.group.mask
                    ends: dict[Where, set[Spent]] = {}
                    for there, spent in self.step(done, dict(where), step):
                        ends.setdefault(there, set()).add(spent)
                    for there, steps in ends.items():
                        known = layers[len(after)].get((after, there), [])
                        joined = [self.joined(a, b) for a in paths for b in undominated(steps)]
                        kept = undominated([*known, *(each for each in joined if self.fits(each))])
                        if kept:
                            layers[len(after)][after, there] = kept
        return layers[-1].get((every, ()), [])

    @staticmethod
    def joined(a: Spent, b: Spent) -> Spent:
        """Return what two parts of a plan cost together."""
        return Spent(together(a.costs, b.costs), tuple(map(max, a.peaks, b.peaks)))

    def fits(self, spent: Spent) -> bool:
        """Whether limits are kept, and all memories together are not fuller than they may be."""
        within = all(cost <= most for cost, most in zip(spent.costs, self.most, strict=True))
        return within and sum(spent.peaks) <= self.graph.room


def together(one: Costs, other: Costs) -> Costs:
    """Return what two things cost."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def undominated(costs: Iterable[Spent]) -> list[Spent]:
    """Return the costs that no other is as good as in everything, without doublets."""
    found: list[Spent] = []
    for cost in sorted(set(costs)):
        if not any(no_more(other.costs + other.peaks, cost.costs + cost.peaks) for other in found):
            found.append(cost)
    if len(found) > MOST_COMPARED:
        raise TooLarge
    return found


class Least(NamedTuple):
    """The least of all plans that fit: multiply-accumulates, cycles, bytes of all memories together."""

    macs: int
    cycles: int
    memory: int | None


def front(instance: Json) -> list[tuple[int, int]]:
    """Return multiply-accumulates and cycles of all plans that fit, but those that are worse."""
    search = Search(instance, ["macs", "cycles"])
    found = [search.counted.whole(each.costs) for each in search.front()]
    return [(each["macs"], each["cycles"]) for each in found]


def least(instance: Json) -> Least | None:
    """Return the least of each cost; None if no plan fits."""
    search = Search(instance, ["macs", "cycles"], peaks=True)
    found = search.front()
    if not found:
        return None
    costs = [search.counted.whole(each.costs) for each in found]
    return Least(
        min(each["macs"] for each in costs),
        min(each["cycles"] for each in costs),
        min(sum(each.peaks) for each in found) * search.graph.width,
    )


def front_of_memory(instance: Json, over: str) -> list[tuple[int, int]]:
    """Return bytes of all memories together, and another cost, of all plans that fit, without worse ones."""
    search = Search(instance, [over], peaks=True)
    width = search.graph.width
    return [(sum(each.peaks) * width, search.counted.whole(each.costs)[over]) for each in search.front()]


def limits(objective: Json) -> dict[str, int]:
    """Return the limits of an objective, by the name of what is limited."""
    found = {f"traffic_of({name})": most for name, most in (objective.get("most_traffic_of") or {}).items()}
    for name in ("macs", "cycles", "energy", "traffic"):
        if objective.get(f"most_{name}") is not None:
            found[name] = objective[f"most_{name}"]
    return found


def best(instance: Json) -> dict[str, int] | None:
    """Return the least of what is minimised, one after the other, within the limits; None if no plan fits.

    Of a list, each is the least of the plans that have the least of all before it. Memory is what lies in
    each one at most, added up, whether or not that has addresses.
    """
    objective = instance["objective"]
    minimised, most = objective["minimise"], limits(objective)
    names = [minimised] if isinstance(minimised, str) else [*minimised]
    counted = [name for name in dict.fromkeys([*names, *most]) if name != "memory"]
    search = Search(instance, counted, most, peaks="memory" in names)
    width = search.graph.width
    found = [
        search.counted.whole(each.costs) | {"memory": sum(each.peaks) * width} for each in search.front()
    ]
    for name in names:
        least_of_all = min((each[name] for each in found), default=0)
        found = [each for each in found if each[name] == least_of_all]
    return {name: found[0][name] for name in names} if found else None
