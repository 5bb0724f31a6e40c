"""Residency without DRAM: steps whose operations take turns, as docs/microcontrollers.md tells of them.

Problems and plans are plain JSON. `front` walks through all plans of a small problem, `costs` through the
steps of one. Both take what a step needs from `Course`, which executes it literally: an operation asks for
the pixels that it reads, they are computed one by one and ask in turn, and after each of them is counted what
every line buffer holds. What an operation reads is told by the oracle of machines with DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import ceil, prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge
from tests.oracles.accesses import (
    Prices,
    Region,
    Touch,
    Touched,
    accesses,
    copied_rows,
    copied_weights,
    flash,
    read_in_flash,
    regions,
    streams,
    touched,
)
from tests.oracles.residency import Graph, Group, Names, Op, fewest

Json = dict[str, Any]

MOST_COURSES = 20_000
"""Ways to execute steps that are looked at in one problem."""


class Way(NamedTuple):
    """How a step is cut up, as a plan tells it.

    Attributes
    ----------
    order
        ``pixels`` or ``kernels``.
    columns
        Of a strip; None if there are none.
    running
        Whether the last operation adds pixels up.
    pixels, kernels
        Of a pass of the last operation, and output channels at a time.
    turns
        Whether operations take turns; a single one does not.
    """

    order: str
    columns: int | None
    running: bool
    pixels: int
    kernels: int
    turns: bool


class Spent(NamedTuple):
    """What plans cost: bytes of memory, multiply-accumulates."""

    memory: int
    macs: int


class Course:
    """The pixels of a step, or of a strip of it, computed one after the other.

    Attributes
    ----------
    columns
        Of each tensor: the first one, and the one behind the last.
    reach
        Of each tensor: pixels of an input of the network that its first pixel needs, at most.
    made
        Of each tensor: pixels of these columns that have been computed, or read, so far. With running values,
        of the last operation: pixels that have been added.
    held
        Of each tensor: the most pixels that a line buffer holds at a time.
    spoiled
        Tensors of which a pixel was needed after the last operation had computed the pixel at its place.
    """

    def __init__(
        self, group: Group, columns: dict[int, tuple[int, int]], way: Way, reach: dict[int, int]
    ) -> None:
        self.group, self.columns, self.running, self.reach = group, columns, way.running, reach
        self.made = dict.fromkeys([*group.read, group.output], 0)
        self.held = dict.fromkeys(self.made, 0)
        self.spoiled = set[int]()
        self.makers = {op.number + 1: op for op in group.ops}
        shapes = group.graph.shapes
        self.size = {t: shapes[t][1] * (columns[t][1] - columns[t][0]) for t in self.made}
        if way.running:
            assert group.last.added is not None
            low, high = columns[group.output]
            self.size[group.output] = group.last.added[0] * (high - low)
        self.windows = {
            (op.number, t): [self.window(op, t, n) for n in range(self.size[op.number + 1])]
            for op in group.ops
            for t in op.reads
        }
        self.oldest = {key: self.first_needed(spans) for key, spans in self.windows.items()}
        if way.turns:
            self.take_turns()
        else:
            self.make_passes(way.pixels)
        assert self.made == self.size

    def window(self, op: Op, tensor: int, number: int) -> tuple[int, int] | None:
        """Return the first and the last pixel of a tensor that a pixel of an operation needs, None if none.

        It needs all rows and columns between.
        """
        low, high = self.columns[op.number + 1]
        y, x = divmod(number, high - low)
        begin, end = self.columns[tensor]
        if self.running and op is self.group.last:
            return number, number
        if op.every[tensor]:
            return 0, self.size[tensor] - 1
        _, height, width = self.group.graph.shapes[tensor]
        rows, columns = op.under(0, y, height, tensor), op.under(1, low + x, width, tensor)
        if not rows or not columns:
            return None
        assert begin <= columns[0] and columns[-1] < end
        return (
            rows[0] * (end - begin) + columns[0] - begin,
            rows[-1] * (end - begin) + columns[-1] - begin,
        )

    @staticmethod
    def first_needed(windows: list[tuple[int, int] | None]) -> list[float]:
        """Return the first pixel that is needed for what follows, after so many pixels from none on."""
        found: list[float] = [float("inf")]
        for window in reversed(windows):
            found.append(min(found[-1], window[0] if window else found[-1]))
        return found[::-1]

    def needed(self, tensor: int, but: Op | None = None) -> float:
        """Return the first pixel that operations need for what they have not yet computed."""
        return min(
            (
                self.oldest[op.number, tensor][self.made[op.number + 1]]
                for op in self.group.ops
                if tensor in op.reads and op is not but
            ),
            default=float("inf"),
        )

    def make(self, tensor: int) -> None:
        """Compute or read the next pixel of a tensor, and count what its line buffer holds then."""
        op = self.makers.get(tensor)
        while op is not None and (lacking := self.lacking(op)):
            self.make(min(lacking, key=lambda t: (self.made[t], self.reach[t], t)))
        newest = self.made[tensor]
        self.made[tensor] += 1
        self.held[tensor] = max(self.held[tensor], newest + 1 - int(min(newest, self.needed(tensor))))
        if op is self.group.last:
            self.overwrite()

    def lacking(self, op: Op) -> list[int]:
        """Return what an operation must ask for."""
        windows = {t: self.windows[op.number, t][self.made[op.number + 1]] for t in op.reads}
        return [t for t, window in windows.items() if window is not None and self.made[t] <= window[1]]

    def overwrite(self) -> None:
        """Note what the output could not take the place of."""
        last = self.group.last
        for tensor in last.reads:
            if self.needed(tensor, but=last) < self.made[self.group.output]:
                self.spoiled.add(tensor)

    def take_turns(self) -> None:
        """Compute the last operation's pixels one by one, and in the end what nobody has asked for."""
        for tensor in [op.number + 1 for op in reversed(self.group.ops)] + sorted(self.group.sources):
            while self.made[tensor] < self.size[tensor]:
                self.make(tensor)

    def make_passes(self, pixels: int) -> None:
        """Compute some pixels of the last operation at a time: all that is new of one, then of the next.

        A line buffer holds what a pass needs or makes.
        """
        output = self.group.output
        while self.made[output] < self.size[output]:
            ends = {output: min(self.made[output] + pixels, self.size[output])}
            ended = ends[output] == self.size[output]
            for op in reversed(self.group.ops):
                for t in op.reads:
                    windows = self.windows[op.number, t][: ends[op.number + 1]]
                    reach = self.size[t] if ended else max((w[1] + 1 for w in windows if w), default=0)
                    ends[t] = max(ends.get(t, 0), reach, self.made[t])
            for t in ends.keys() - {output}:
                self.held[t] = max(self.held[t], ends[t] - int(min(self.made[t], self.needed(t))))
            self.held[output] = max(self.held[output], ends[output] - self.made[output])
            self.made = ends
            self.overwrite()


def reached(graph: Graph, tensor: int, number: int) -> int:
    """Return the last pixel of inputs of the network that a pixel of a tensor, or one before it, needs."""
    op = graph.ops[tensor - 1] if tensor else None
    if op is None or op.kind == "input":
        return number
    found = 0
    for t in op.reads:
        _, height, width = graph.shapes[t]
        last = height * width - 1 if op.every[t] else 0
        for before in range(number + 1):
            y, x = divmod(before, op.plane[1])
            rows, columns = op.under(0, y, height, t), op.under(1, x, width, t)
            if not op.every[t] and rows and columns:
                last = max(last, rows[-1] * width + columns[-1])
        found = max(found, reached(graph, t, last))
    return found


class Executed(NamedTuple):
    """What a way to execute a step takes and does.

    Attributes
    ----------
    lines
        Elements of the line buffer of each tensor, if it has one.
    block
        Elements of the output that are being computed, or of running values.
    always
        Whether the block is there even if the output stays.
    read
        Elements of each source that are read, if it is read where it is.
    macs
        Multiply-accumulates.
    places
        Operands whose place the output can take, so far as this step is concerned.
    pixels
        Of each tensor that is computed or read, however often; of running values those that are added.
    """

    lines: dict[int, int]
    block: int
    always: bool
    read: dict[int, int]
    macs: int
    places: Names
    pixels: dict[int, int]


class Step:
    """Operations of a step, and all ways to execute it."""

    def __init__(self, graph: Graph, ops: tuple[Op, ...]) -> None:
        self.graph, self.group, self.last = graph, Group(graph, ops), ops[-1]
        self.reach = {t: reached(graph, t, 0) + 1 for t in self.group.read}
        if self.group.blocked or any(op.spread > 1 for op in ops):
            raise TooLarge  # second operands in blocks, and transpositions, are not told here
        self.known: dict[Way, Executed] = {}
        self.looked: dict[tuple[int | None, bool], Touched] = {}

    @property
    def value(self) -> int:
        """Elements of a running value: a maximum is as wide as what is read."""
        greatest = self.last.kind == "pool" and self.last.table["op"] == "max"
        return 1 if greatest else self.graph.sum_elements

    @cached_property
    def ways(self) -> list[Way]:
        """All ways that docs/microcontrollers.md has, but several pixels a pass."""
        turns = len(self.group.ops) > 1
        straight = self.graph.tiles and not any(not op.every[t] for op in self.group.ops for t in op.at)
        found = []
        for running in [False, True][: 1 + (self.last.added is not None)]:
            widths = fewest(self.group.passed(running)[1])[:-1] if straight else []
            for columns in [None, *widths]:
                found.append(Way("pixels", columns, running, 1, self.last.units, turns))
            if not turns:
                found.append(Way("kernels", None, running, 1, 1, False))
        return found

    @cached_property
    def passes(self) -> list[Way]:
        """Ways to compute some pixels a pass."""
        pixels = range(1, self.last.pixels + 1)
        return [Way("pixels", None, False, many, self.last.units, False) for many in pixels]

    @cached_property
    def blocks(self) -> list[Way]:
        """Ways to copy the weights of some outputs at a time."""
        found = [Way("kernels", None, False, 1, many, False) for many in range(4, self.last.shape[0], 4)]
        return [way for way in found if streams(self, way)]

    def execute(self, way: Way) -> Executed:
        """Return what a way takes and does."""
        if way not in self.known:
            self.graph.cuts += 1
            if self.graph.cuts > MOST_COURSES:
                raise TooLarge
            self.known[way] = self.executed(way)
        return self.known[way]

    def touched(self, way: Way) -> Touched:
        """Return what a way reads and writes, which depends on strips and running values alone."""
        key = way.columns, way.running
        if key not in self.looked:
            self.looked[key] = touched(self, way)
        return self.looked[key]

    def executed(self, way: Way) -> Executed:
        """Execute the step, strip by strip."""
        group, graph, last = self.group, self.graph, self.last
        courses = [Course(group, spans, way, self.reach) for spans in group.strips(way.columns, way.running)]
        deep, blocks = dict(group.deep), [range(last.shape[0])]
        if way.order == "kernels":
            per_unit = last.shape[0] // last.units
            units = [range(last.units)[at : at + way.kernels] for at in range(0, last.units, way.kernels)]
            blocks = [range(each[0] * per_unit, (each[-1] + 1) * per_unit) for each in units]
            if last.own_channels:
                deep = {t: min(many, way.kernels) for t, many in deep.items()}
        lines = {t: max(course.held[t] for course in courses) * deep[t] for t in group.read}
        pixels = 1 if way.running else max(course.held[group.output] for course in courses)
        value = graph.sum_elements if way.running else 1
        if way.running and last.kind == "pool" and last.table["op"] == "max":
            value = 1  # a maximum is as wide as what is read
        return Executed(
            lines,
            max(map(len, blocks)) * pixels * value,
            way.running,
            {t: sum(c.made[t] for c in courses) * self.channels_read(t, way, blocks) for t in group.sources},
            self.macs(courses, way),
            self.places(courses, way),
            {t: sum(course.made[t] for course in courses) for t in courses[0].made},
        )

    def channels_read(self, tensor: int, way: Way, blocks: list[range]) -> int:
        """Return how many channels of a source are read, in all blocks together."""
        if way.order == "pixels" or not self.last.own_channels:
            return self.group.deep[tensor] * len(blocks)
        # An output channel needs one of its own: of all operands one after the other, or of each.
        found = 0
        for block in blocks:
            read, begin = set[int](), 0
            for t, part in zip(self.last.reads, self.last.parts, strict=True):
                own = part[max(0, block.start - begin) : max(0, block.stop - begin)]
                read |= {*own} if t == tensor else set()
                begin += 0 if self.last.kind in ("add", "mul") else len(part)
            found += len(read)
        return found

    def macs(self, courses: list[Course], way: Way) -> int:
        """Return the multiply-accumulates: each pixel that is computed, however often."""
        found = 0
        for op in self.group.ops:
            pixels = sum(course.made[op.number + 1] for course in courses)
            if way.running and op is self.last:
                assert op.added is not None
                assert pixels == prod(op.added)
                pixels = 1
            found += op.macs * op.shape[0] * pixels
        return found

    def places(self, courses: list[Course], way: Way) -> Names:
        """Return the operands whose place the output can take."""
        group, last, found = self.group, self.last, set[int]()
        for t in last.reads:
            alike = self.graph.shapes[t] == last.shape and len(last.channels(t)) == last.shape[0]
            others = any(t in op.reads for op in group.ops[:-1])
            if last.by_value and t in group.sources and alike and not (way.columns is not None and others):
                found |= {t} - set().union(*(course.spoiled for course in courses))
        return frozenset(found)


class Memory(NamedTuple):
    """Maps at a step.

    Attributes
    ----------
    there
        In RAM as a whole before the step.
    fetched
        Inputs of the network of which the step has all in RAM from now on.
    resident
        Outputs that others read later.
    written
        Outputs of the network.
    outside
        Inputs that are read where they are.
    """

    there: Names
    fetched: Names
    resident: Names
    written: Names
    outside: Names


class Problem:
    """A problem without DRAM."""

    def __init__(self, problem: Json) -> None:
        self.graph = Graph(problem)
        self.inside = problem["limits"].get("inputs", "outside") == "memory"
        self.inputs = frozenset({0, *(op.number + 1 for op in self.graph.ops if op.kind == "input")})
        self.first = frozenset(op.number for op in self.graph.ops if op.kind == "input")
        self.known: dict[Names, Step] = {}

    def step(self, mask: Names) -> Step:
        """Return the step of some operations."""
        if mask not in self.known:
            self.known[mask] = Step(self.graph, tuple(self.graph.ops[n] for n in sorted(mask)))
        return self.known[mask]

    def next(self, done: Names) -> Iterator[Step]:
        """Return the steps that may come next: all that leads to an operation and was not executed."""
        graph = self.graph
        most = graph.limits["most_operations"] or len(graph.ops)
        for op in graph.ops:
            mask = (graph.before[op.number] | {op.number}) - done
            given = graph.limits["order"] != "given" or mask == frozenset(range(op.number + 1)) - done
            if op.number not in done and len(mask) <= most and given:
                yield self.step(mask)

    def maps(self, done: Names, step: Step) -> Memory:
        """Return where maps are at a step."""
        graph, mask = self.graph, step.group.mask
        made = {op.number + 1 for op in step.group.ops}
        live = {t for t, readers in enumerate(graph.readers) if readers - done}
        there = {t for t in live - self.inputs if t - 1 in done}
        if self.inside:
            there |= {t for t in live & self.inputs if graph.readers[t] & done}
        fetched = (step.group.sources & self.inputs) - there if self.inside else frozenset[int]()
        return Memory(
            frozenset(there),
            fetched,
            frozenset(t for t in made if graph.readers[t] - mask),
            frozenset(made & graph.results),
            step.group.sources & self.inputs if not self.inside else frozenset(),
        )

    def places(self, done: Names, step: Step) -> Names:
        """Return the operands that nobody reads later, if the output stays."""
        maps = self.maps(done, step)
        if step.group.output not in maps.resident:
            return frozenset()
        whole = (maps.there | maps.fetched) & step.group.sources
        return frozenset(t for t in whole if not self.graph.readers[t] - done - step.group.mask)

    def moved(self, done: Names, maps: Memory, how: Executed) -> int:
        """Return the elements that a step reads and writes outside."""
        found = sum(how.read[t] for t in maps.outside) + self.graph.size(maps.written)
        return found + sum(self.graph.needed(t, done) for t in maps.fetched)

    def cycles(self, maps: Memory, step: Step, way: Way, how: Executed, moved: int, blocks: int = 1) -> float:
        """Return the cycles that a core takes for a step, as docs/microcontrollers.md counts them.

        Parameters
        ----------
        blocks
            In which the weights of a single operation are copied, one after the other.
        """
        price, group = self.graph.machine.get("cycles_of"), step.group
        if price is None:
            return 0.0
        whole = maps.there | maps.fetched | maps.resident
        turns = [op.number + 1 for op in group.ops] + [t for t in group.sources if t in maps.outside]
        found = moved * price["moved"] + blocks * sum(how.pixels[t] for t in turns) * price["pixel"]
        for op in group.ops:
            made, outputs = how.pixels[op.number + 1], op.shape[0]
            running = way.running and op is step.last
            many = outputs * made
            if op.kind in ("conv", "fc"):
                window = prod(op.table["kernel"]) if op.kind == "conv" else 1
                macs = op.macs * many // (prod(op.added) if running and op.added else 1)
                found += (outputs if running else many) * price[
                    "output" if op.kind == "conv" else "product_output"
                ]
                if window > 1:
                    found += (
                        blocks * window * made * price["place" if op.reads[0] in whole else "place_in_line"]
                    )
                if op.table.get("groups", 1) > 1:
                    found += macs * price["depthwise_mac"]
                else:
                    found += macs * price["mac"] + window * -(-outputs // 4) * made * price["loop"]
            elif running:
                found += many * price["running"]
            elif op.kind == "add":
                found += many * price["sum"]
            elif op.kind == "pool":
                found += prod(op.table["kernel"]) * many * price["pooled"]
            else:
                name = "softmax" if op.table.get("op") in ("softmax", "log_softmax") else "other"
                found += many * price[name]
        return float(found)

    def parts(self, maps: Memory, step: Step, way: Way, how: Executed, moved: int, blocks: int) -> Fraction:
        """Return the cycles of a step to the part of one, by prices, or by rates without second buffers."""
        graph = self.graph
        if graph.machine.get("cycles_of"):
            return Fraction(round(100 * self.cycles(maps, step, way, how, moved, blocks)), 100)
        work, _ = self.work(step, way, how)
        return Fraction(work + self.set_up(maps) + moved * graph.transfer, graph.cycle)

    def work(self, step: Step, way: Way, how: Executed) -> tuple[int, int]:
        """Return the parts of cycles in which the core computes by its rates, and accesses on chip."""
        graph, work, touched = self.graph, 0, 0
        for op in step.group.ops:
            values = op.shape[0] * (1 if way.running and op is step.last else how.pixels[op.number + 1])
            work += (op.macs * graph.mac + op.vector * graph.vector) * values
            touched += op.touched * values
        return work, touched

    def set_up(self, maps: Memory) -> int:
        """Return the parts of cycles in which the core sets up transfers: one of each tensor outside."""
        return (len(maps.fetched) + len(maps.outside) + len(maps.written)) * self.graph.setup

    def energy_by_rates(self, maps: Memory, step: Step, way: Way, how: Executed, moved: int) -> Fraction:
        """Return the femtojoules of a step with one price for all memory on chip (docs/residency.md)."""
        graph, (work, touched) = self.graph, self.work(step, way, how)
        energy = graph.dram * moved + graph.local * (moved + touched)
        return Fraction(energy + graph.core * (work + self.set_up(maps)), graph.femtojoule)

    def buffers(self, maps: Memory, step: Step, how: Executed) -> dict[str, int]:
        """Return the elements of all buffers of a step, by name."""
        whole, group = maps.there | maps.fetched | maps.resident, step.group
        found = {f"lines of {self.graph.name(t)}": how.lines[t] for t in group.read - whole}
        if how.always or group.output not in whole:
            found[f"block of {step.last.name}"] = how.block
        return found

    def memory(self, maps: Memory, step: Step, how: Executed, place: int | None) -> int:
        """Return the elements in RAM during a step."""
        whole = self.graph.size(maps.there | maps.fetched | maps.resident)
        whole -= 0 if place is None else self.graph.sizes[place]
        return whole + sum(self.buffers(maps, step, how).values())

    def spent(self, done: Names, step: Step) -> Iterator[Spent]:
        """Return what all ways to execute a step cost, with all places that its output may take."""
        maps, places, width = self.maps(done, step), self.places(done, step), self.graph.width
        taken: set[int] = set()
        for way in step.ways:
            if way.order == "kernels" and maps.outside:
                continue
            how = step.execute(way)
            if way.columns is None and not way.running:
                taken |= how.places
            for place in [None, *sorted(places & how.places)]:
                yield Spent(self.memory(maps, step, how, place) * width, how.macs)
        # Several pixels a pass, where the output could not take that place pixel by pixel.
        if places & set(step.last.reads) - taken and step.last.by_value:
            for way in step.passes:
                how = step.execute(way)
                for place in sorted((places & how.places) - taken):
                    yield Spent(self.memory(maps, step, how, place) * width, how.macs)

    def told(self, done: Names, step: Step) -> Iterator[Json]:
        """Return all ways to execute a step, each told as constraints see it."""
        maps, places, graph = self.maps(done, step), self.places(done, step), self.graph
        kernels = range(1, step.last.units + 1)
        listed = [way for way in step.ways if way.order == "pixels"]
        listed += [w._replace(kernels=k) for w in step.ways if w.order == "kernels" for k in kernels]

        def names(tensors: Names) -> list[str]:
            return [graph.name(t) for t in sorted(tensors)]

        for way in dict.fromkeys([*listed, *step.passes]):
            if way.order == "kernels" and maps.outside:
                continue
            how = step.execute(way)
            moved = self.moved(done, maps, how)
            common = way._asdict() | {
                "operations": [op.name for op in step.group.ops],
                "on_chip": names(maps.there | maps.fetched | maps.resident),
                "fetched": names(maps.fetched),
                "resident": names(maps.resident),
                "moved": moved * graph.width,
                "macs": how.macs,
                "cycles": self.cycles(maps, step, way, how, moved),
            }
            for place in [None, *sorted(places & how.places)]:
                told = {"bytes": self.memory(maps, step, how, place) * graph.width}
                yield common | told | {"in_place": None if place is None else graph.name(place)}

    def plans(self, most: int) -> Iterator[list[Json]]:
        """Return the steps of all plans, as `told` tells of them."""
        found = 0

        def further(done: Names, steps: list[Json]) -> Iterator[list[Json]]:
            nonlocal found
            if len(done) == len(self.graph.ops):
                found += 1
                if found > most:
                    raise TooLarge
                yield steps
            for step in self.next(done):
                for told in self.told(done, step):
                    yield from further(done | step.group.mask, [*steps, told])

        return further(self.first, [])

    def front(self) -> list[Spent]:
        """Return what all plans cost, but those that others are as good as in memory and work."""
        every = frozenset(range(len(self.graph.ops)))
        layers: list[dict[Names, list[Spent]]] = [{} for _ in range(len(every) + 1)]
        layers[len(self.first)][self.first] = [Spent(0, 0)]
        for layer in layers[:-1]:
            for done, paths in layer.items():
                for step in self.next(done):
                    after = done | step.group.mask
                    steps = undominated(self.spent(done, step))
                    joined = [Spent(max(a.memory, b.memory), a.macs + b.macs) for a in paths for b in steps]
                    there = layers[len(after)]
                    there[after] = undominated(chain(there.get(after, ()), joined))
        return layers[-1][every]


def undominated(costs: Any) -> list[Spent]:
    """Return the costs that no other is as good as in everything, without doublets, by memory."""
    found: list[Spent] = []
    for cost in sorted(set(costs)):
        if not found or cost.macs < found[-1].macs:
            found.append(cost)
    return found


def front(instance: Json) -> list[tuple[int, int]]:
    """Return memory in bytes and multiply-accumulates of all plans, but those that are worse, by memory."""
    return [tuple(spent) for spent in Problem(instance).front()]  # type: ignore[misc]


def plans(instance: Json, most: int) -> list[list[Json]]:
    """Return the steps of all plans, each with how it is executed, where maps are, and what it costs.

    Raises
    ------
    TooLarge
        If there are more than some.
    """
    room, problem = instance["machine"]["memory_bytes"], Problem(instance)
    return [steps for steps in problem.plans(most) if max(step["bytes"] for step in steps) <= room]


class Walk:
    """A plan, step by step."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph, self.done = problem, problem.graph, problem.first
        self.numbers = {self.graph.name(t): t for t in range(len(self.graph.shapes))}
        self.at: dict[int, int] = {}
        self.memory = self.macs = self.read = self.written = self.in_flash = 0
        self.prices = Prices(self.graph)
        self.cycles = self.energy = 0
        self.regions, self.flash = regions(self.graph.machine), flash(self.graph.machine)
        self.taken = dict.fromkeys(self.regions, 0)
        self.touched = dict.fromkeys(self.regions, (0, 0))
        self.accessed = dict.fromkeys([*self.regions, self.flash], 0)

    def step(self, told: Json) -> None:
        """Execute a step."""
        problem, graph = self.problem, self.graph
        mask = frozenset(self.numbers[name] - 1 for name in told["operations"])
        step = next((each for each in problem.next(self.done) if each.group.mask == mask), None)
        if step is None or told["operations"] != [op.name for op in step.group.ops]:
            raise Refused("operations")
        maps = problem.maps(self.done, step)
        for key, expected in (
            ("kept", ()),
            ("dropped", ()),
            ("fetched", maps.fetched),
            ("resident", maps.resident),
            ("written", maps.written),
        ):
            if {self.numbers[name] for name in told[key]} != {*expected} or len(told[key]) > len(expected):
                raise Refused(key)
        way = self.way(told, step)
        if way.order == "kernels" and maps.outside:
            raise Refused("channel by channel, and reads outside")
        how = step.execute(way)
        place = None if told["in_place"] is None else self.numbers[told["in_place"]]
        if place is not None and place not in problem.places(self.done, step) & how.places:
            raise Refused("in place")
        self.memory = max(self.memory, problem.memory(maps, step, how, place))
        self.macs += how.macs
        moved = problem.moved(self.done, maps, how)
        copied = self.copied(told, step, way)
        rows = {op: copied_rows(step, way, op) for op in step.group.ops if op.number in copied}
        blocks = max(map(len, rows.values()), default=1)
        cycles, energy = self.prices.of_step(problem, maps, step, way, how, moved, blocks)
        self.cycles += cycles
        self.energy += energy
        self.read += sum(how.read[t] for t in maps.outside)
        self.read += sum(graph.needed(t, self.done) for t in maps.fetched)
        self.written += graph.size(maps.written)
        copies = {f"weights of {op.name}": max(each) for op, each in rows.items()}
        buffers = problem.buffers(maps, step, how) | copies
        self.place(told["addresses"], maps, buffers, step.group.output, place)
        self.touch(told["addresses"], accesses(problem, self.done, maps, step, way, copied))
        self.read_weights(*read_in_flash(step, way, copied, self.flash), sum(map(sum, rows.values())))
        self.done |= mask
        self.at = {t: at for t, at in self.at.items() if graph.readers[t] - self.done}

    def copied(self, told: Json, step: Step, way: Way) -> Names:
        """Return the operations whose weights are copied into RAM, by number."""
        names = told.get("copied", [])
        found = frozenset(op.number for op in step.group.ops if op.name in names and copied_weights(op))
        in_blocks = way.order == "kernels" and 1 < way.kernels < step.last.units
        if len(found) < len(names) or (found and in_blocks and not streams(step, way)):
            raise Refused("copied")
        return found

    def read_weights(self, read: int, accessed: int, copied: int) -> None:
        """Count what is read in flash, what that costs, and what copies take beside."""
        self.in_flash += read
        self.access(self.flash, accessed, 0)
        cycles, energy = self.prices.of_copies(copied)
        self.cycles += cycles
        self.energy += energy

    def access(self, memory: Region, read: int, written: int) -> None:
        """Count what accesses to a memory cost."""
        self.accessed[memory] += read + written
        cycles, energy = self.prices.touched(memory, read, written)
        self.cycles += cycles
        self.energy += energy

    def way(self, told: Json, step: Step) -> Way:
        """Return the way that a plan tells."""
        turns = bool(told.get("interleaved"))
        kernels = min(told["kernels"], step.last.units) if told["order"] == "kernels" else step.last.units
        way = Way(
            told["order"], told.get("columns"), bool(told.get("running")), told["pixels"], kernels, turns
        )
        others = ("channels", "double_buffering", "blocks", "keys")
        listed = way._replace(kernels=1) if way.order == "kernels" else way
        if any(told.get(key) for key in others) or listed not in [*step.ways, *step.passes]:
            raise Refused("how it is cut up")
        return way

    def place(
        self, addresses: dict[str, int], maps: Memory, buffers: dict[str, int], output: int, place: int | None
    ) -> None:
        """Put everything at its address."""
        graph = self.graph
        new = maps.fetched | maps.resident
        if set(addresses) != {graph.key(t) for t in new} | set(buffers):
            raise Refused("addresses")
        self.at |= {t: addresses[graph.key(t)] for t in new}
        if place is not None and self.at[place] != self.at[output]:
            raise Refused("in place, elsewhere")
        spans = [(self.at[t], graph.sizes[t]) for t in maps.there | new if t != place]
        spans += [(addresses[name], size) for name, size in buffers.items()]
        end = 0
        for address, size in sorted(spans):
            if address < end:
                raise Refused("overlap")
            end = address + size
            region = self.region(address)
            if end > region.end:
                raise Refused("memory")
            self.taken[region] = max(self.taken[region], end - region.begin)
        if sum(self.taken.values()) > graph.room:
            raise Refused("memory")

    def region(self, address: int) -> Region:
        """Return the memory of an address."""
        found = [region for region in self.regions if region.begin <= address < region.end]
        if not found:
            raise Refused("memory")
        return found[0]

    def touch(self, addresses: dict[str, int], touched: dict[str, Touch]) -> None:
        """Count what is read and written in each memory, and what it costs."""
        at = {self.graph.key(t): address for t, address in self.at.items()} | addresses
        for name, touch in touched.items():
            memory, width = self.region(at[name]), self.graph.width
            before = self.touched[memory]
            self.touched[memory] = before[0] + touch.read * width, before[1] + touch.written * width
            self.access(memory, *memory.of_touch(touch, width))


def whole_cycles(cycles: float) -> int:
    """Return whole cycles, the last one begun, of prices in hundredths."""
    return ceil(round(cycles, 2))


def costs(instance: Json, plan: Json) -> dict[str, int]:
    """Return what a plan costs.

    Returns
    -------
    dict
        ``memory``, the most bytes that are in RAM at a time; ``taken``, those up to the highest address;
        ``macs``; ``cycles``; ``energy`` of memories that have prices; bytes ``read`` and ``written`` outside.
    """
    walk = walked(instance, plan)
    width = walk.graph.width
    taken = sum(walk.taken.values())
    found = {"memory": walk.memory, "taken": taken, "read": walk.read, "written": walk.written}
    others = {"macs": walk.macs, "cycles": -(-walk.cycles // walk.prices.cycle)}
    others["energy"] = -(-walk.energy // walk.prices.femtojoule)
    return {name: count * width for name, count in found.items()} | others


def memories(instance: Json, plan: Json) -> dict[str, tuple[int, int, int]]:
    """Return of each memory, and of flash, the bytes that are taken, read and written."""
    walk = walked(instance, plan)
    width, weights = walk.graph.width, sum(op.weights for op in walk.graph.ops)
    found = {each.name: (walk.taken[each] * width, *walk.touched[each]) for each in walk.regions}
    return found | {walk.flash.name: (weights * width, walk.in_flash * width, 0)}


def accesses_of_memories(instance: Json, plan: Json) -> dict[str, int]:
    """Return the accesses of each memory, and of flash."""
    return {memory.name: count for memory, count in walked(instance, plan).accessed.items()}


def walked(instance: Json, plan: Json) -> Walk:
    """Return a plan that has been executed to its end."""
    walk = Walk(Problem(instance))
    for step in plan["steps"]:
        walk.step(step)
    if len(walk.done) < len(walk.graph.ops):
        raise Refused("operations are missing")
    return walk
