"""Several memories without DRAM: all plans, with all assignments of what is in RAM to memories.

Steps, and ways to execute them, are those of the oracle of one memory. What lies in a memory at a time must
fit by its size; addresses are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Any, NamedTuple

from tests.oracles import TooLarge
from tests.oracles.accesses import accesses, copied_weights, flash, read_in_flash, regions
from tests.oracles.microcontroller import Memory, Problem, Step
from tests.oracles.residency import subsets

Json = dict[str, Any]
Done = frozenset[int]
Where = tuple[tuple[int, int], ...]
"""Whole maps that are still to be read, each with the number of its memory."""

MOST_ASSIGNMENTS = 400_000
"""Assignments of what a step has in RAM to memories that are looked at in one problem."""


class Spent(NamedTuple):
    """What plans cost: multiply-accumulates, hundredths of cycles, the most elements in each memory."""

    macs: int
    cycles: int
    peaks: tuple[int, ...]


class Item(NamedTuple):
    """What a step puts into a memory, or has there.

    Attributes
    ----------
    tensor
        Of a map; None of a buffer.
    size
        Elements.
    read, written
        Elements, in this step.
    """

    tensor: int | None
    size: int
    read: int
    written: int


class Option(NamedTuple):
    """A way to execute a step, with the place that its output takes.

    Attributes
    ----------
    place
        The operand whose place the output takes; None if it takes none.
    items
        Maps and buffers, by name.
    macs, cycles
        Multiply-accumulates, and hundredths of cycles without waits.
    """

    place: int | None
    items: dict[str, Item]
    macs: int
    cycles: int

    def is_no_worse(self, other: Option) -> bool:
        """Whether it is as good as another one, wherever maps and buffers lie."""
        none = Item(None, 0, 0, 0)
        return (
            self.place == other.place
            and self.macs <= other.macs
            and self.cycles <= other.cycles
            and all(
                mine <= theirs
                for name, item in self.items.items()
                for mine, theirs in zip(item[1:], other.items.get(name, none)[1:], strict=True)
            )
        )


class Search:
    """The walk through all plans of a problem.

    Parameters
    ----------
    peaks
        Whether plans that take less memory are told apart from others.
    """

    def __init__(self, instance: Json, *, peaks: bool) -> None:
        self.problem, self.regions = Problem(instance), regions(instance["machine"])
        self.graph, self.left = self.problem.graph, MOST_ASSIGNMENTS
        limited = self.graph.room < self.regions[-1].end
        self.peaks = peaks or limited

    def options(self, done: Done, step: Step) -> list[Option]:
        """Return the ways to execute a step, but those that others are as good as in everything."""
        problem = self.problem
        maps, places = problem.maps(done, step), problem.places(done, step)
        found: list[Option] = []
        for way in [*step.ways, *step.passes]:
            if way.order == "kernels" and maps.outside:
                continue
            how = step.execute(way)
            cycles = problem.cycles(maps, step, way, how, problem.moved(done, maps, how))
            for copied in self.copies(step):
                copies = {
                    f"weights of {op.name}": copied_weights(op)
                    for op in step.group.ops
                    if op.number in copied
                }
                touched = accesses(problem, done, maps, step, way, copied)
                items = self.items(maps, problem.buffers(maps, step, how) | copies, touched)
                fixed = self.weights_take(read_in_flash(step, way, copied), sum(copies.values()))
                for place in [None, *sorted(places & how.places)]:
                    found.append(Option(place, items, how.macs, round(100 * cycles) + fixed))
        kept: list[Option] = []
        for option in found:
            if not any(other.is_no_worse(option) for other in kept):
                kept = [other for other in kept if not option.is_no_worse(other)]
                kept.append(option)
        return kept

    def copies(self, step: Step) -> Iterator[frozenset[int]]:
        """Return the sets of operations whose weights may be copied, of which it makes a difference."""
        _, waits = flash(self.graph.machine)
        yield from map(
            frozenset, subsets([op.number for op in step.group.ops if waits and copied_weights(op)])
        )

    def weights_take(self, read: int, copied: int) -> int:
        """Return the hundredths of cycles of weights that are read in flash, and of copies."""
        machine = self.graph.machine
        moved = round(100 * machine["cycles_of"]["moved"]) if machine.get("cycles_of") else 0
        return read * self.graph.width * flash(machine)[1] + copied * moved

    def items(
        self, maps: Memory, buffers: dict[str, int], touched: dict[str, tuple[int, int]]
    ) -> dict[str, Item]:
        """Return what is in RAM during a step."""
        graph, never = self.graph, (0, 0)
        whole = {graph.key(t): t for t in maps.there | maps.fetched | maps.resident}
        found = {key: Item(t, graph.sizes[t], *touched.get(key, never)) for key, t in whole.items()}
        found |= {name: Item(None, size, *touched.get(name, never)) for name, size in buffers.items()}
        assert touched.keys() <= found.keys()
        return found

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
        cycles, peaks = option.cycles, [0] * len(self.regions)
        for name, (_, size, read, written) in option.items.items():
            region, width = self.regions[at[name]], self.graph.width
            cycles += (read * region.reading + written * region.writing) * width
            peaks[at[name]] += 0 if option.place is not None and name == output else size
        return Spent(option.macs, cycles, tuple(peaks) if self.peaks else ())

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
        """Return what plans cost, but those that others are as good as in everything."""
        self.known: dict[tuple[Done, Done], list[Option]] = {}
        every, nothing = frozenset(range(len(self.graph.ops))), Spent(0, 0, (0,) * len(self.regions))
        layers: list[dict[tuple[Done, Where], list[Spent]]] = [{} for _ in range(len(every) + 1)]
        layers[len(self.problem.first)][self.problem.first, ()] = [nothing if self.peaks else Spent(0, 0, ())]
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
        return Spent(a.macs + b.macs, a.cycles + b.cycles, tuple(map(max, a.peaks, b.peaks)))

    def fits(self, spent: Spent) -> bool:
        """Whether all memories together are not fuller than they may be."""
        return sum(spent.peaks) <= self.graph.room


def undominated(costs: Iterable[Spent]) -> list[Spent]:
    """Return the costs that no other is as good as in everything, without doublets."""
    found: list[Spent] = []
    for cost in sorted(set(costs)):
        if not any(is_no_worse(other, cost) for other in found):
            found.append(cost)
    return found


def is_no_worse(one: Spent, other: Spent) -> bool:
    """Whether something costs no more than something else, in nothing."""
    pairs = zip((one.macs, one.cycles, *one.peaks), (other.macs, other.cycles, *other.peaks), strict=True)
    return all(a <= b for a, b in pairs)


class Least(NamedTuple):
    """The least of all plans that fit: multiply-accumulates, cycles, bytes of all memories together."""

    macs: int
    cycles: int
    memory: int | None


def front(instance: Json) -> list[tuple[int, int]]:
    """Return multiply-accumulates and cycles of all plans that fit, but those that are worse."""
    return [(each.macs, ceil(each.cycles / 100)) for each in Search(instance, peaks=False).front()]


def least(instance: Json) -> Least | None:
    """Return the least of each cost; None if no plan fits."""
    search = Search(instance, peaks=True)
    found = search.front()
    if not found:
        return None
    return Least(
        min(each.macs for each in found),
        ceil(min(each.cycles for each in found) / 100),
        min(sum(each.peaks) for each in found) * search.graph.width,
    )
