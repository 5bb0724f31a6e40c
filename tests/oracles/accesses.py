"""What a core reads and writes in memories, as the tables of docs/microcontrollers.md tell of it.

Steps are those of the oracle of machines without DRAM. Each pixel that is computed, and each place of its
window, is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.oracles import TooLarge
from tests.oracles.residency import ALL_CHANNELS, Op

if TYPE_CHECKING:
    from tests.oracles.microcontroller import Executed, Memory, Problem, Step, Way
    from tests.oracles.residency import Graph, Names

Json = dict[str, Any]


class Touch(NamedTuple):
    """What a step reads and writes of a map or buffer, in elements.

    Attributes
    ----------
    value
        Elements that are read, or written, at a time: those of a running value, or one.
    rows
        Elements of rows, if what is written is written in rows.
    """

    read: int
    written: int
    value: int = 1
    rows: tuple[int, ...] = ()


class Region(NamedTuple):
    """A memory that maps may lie in, or flash.

    Attributes
    ----------
    begin, end
        Its first element, and the one behind its last, where those of all are numbered one behind the other.
    bytes_at_once
        What an access moves at most.
    reading, writing
        Hundredths of cycles that the core waits for an access.
    reading_fj, writing_fj
        Femtojoules of an access; None if they are not told.
    """

    name: str
    begin: int
    end: int
    bytes_at_once: int
    reading: int
    writing: int
    reading_fj: Fraction | None
    writing_fj: Fraction | None

    def accesses(self, values: int, size: int) -> int:
        """Return the accesses that values, or rows, of so many bytes take."""
        return values * -(-size // self.bytes_at_once)

    def of_touch(self, touch: Touch, width: int) -> tuple[int, int]:
        """Return the accesses that read, and those that write, what lies here; an element has some bytes."""
        read = self.accesses(touch.read // touch.value, touch.value * width)
        if touch.rows:
            return read, self.of_rows(touch.rows, width)
        return read, self.accesses(touch.written // touch.value, touch.value * width)

    def of_rows(self, rows: Iterable[int], width: int) -> int:
        """Return the accesses that rows of so many elements take."""
        return sum(self.accesses(1, row * width) for row in rows)


def region(table: Json, begin: int, width: int) -> Region:
    """Return the memory that a table tells of; an element has some bytes."""
    waits = (round(100 * (table.get(key) or 0)) for key in ("read_waits", "write_waits"))
    told = (table.get(key) for key in ("read_fj", "write_fj"))
    energy = (None if each is None else Fraction(str(each)) for each in told)
    end, at_once = begin + table["bytes"] // width, table.get("width_bytes") or width
    return Region(table["name"], begin, end, at_once, *waits, *energy)


def regions(machine: Json) -> list[Region]:
    """Return the memories that maps may lie in."""
    known = {each["name"]: each for each in machine.get("memories") or () if not each.get("read_only")}
    names, width = machine.get("memory"), machine["element_bytes"]
    if not isinstance(names, list | tuple):
        name = names or next(iter(known), "")
        own = {**known.get(name, {"name": name}), "bytes": machine["memory_bytes"]}
        listed = [own]
    else:
        listed = [known[name] for name in names]
    found: list[Region] = []
    for each in listed:
        found.append(region(each, found[-1].end if found else 0, width))
    return found


def flash(machine: Json) -> Region:
    """Return the memory that weights are in."""
    tables = [each for each in machine.get("memories") or () if each.get("read_only")]
    return region(tables[0] if tables else {"name": "", "bytes": 0}, 0, machine["element_bytes"])


class Prices:
    """Parts of cycles and of femtojoules that all which is counted takes a whole number of.

    Attributes
    ----------
    of_memories
        Whether memories have prices of accesses.
    cycle, femtojoule
        Parts of one.
    core, outside
        Parts of a femtojoule that a part of a cycle takes, and an element that is read or written outside.
    moved
        Parts of a cycle that a value takes that is copied, besides waits.
    """

    def __init__(self, graph: Graph) -> None:
        machine, prices = graph.machine, graph.machine.get("energy") or {}
        memories, of_cycles = [*regions(machine), flash(machine)], machine.get("cycles_of")
        told = [price for each in memories for price in (each.reading_fj, each.writing_fj)]
        self.of_memories, self.width = any(price is not None for price in told), graph.width
        self.cycle = 100 if of_cycles else lcm(100, graph.cycle)
        self.moved = round(100 * of_cycles["moved"]) * graph.width if of_cycles else 0

        def price(key: str, default: int) -> Fraction:
            return Fraction(str(default if prices.get(key) is None else prices[key]))

        core = price("core_fj_per_cycle", 60_000) / self.cycle
        outside = price("dram_fj_per_access", 2_600_000) / price("dram_access_bytes", 8) * graph.width
        every = [core, outside, *(each for each in told if each is not None)]
        self.femtojoule = lcm(*(each.denominator for each in every))
        if not self.of_memories:
            self.femtojoule, core, outside = graph.femtojoule, Fraction(0), Fraction(0)
        self.core, self.outside = int(core * self.femtojoule), int(outside * self.femtojoule)

    def of_step(
        self, problem: Problem, maps: Memory, step: Step, way: Way, how: Executed, moved: int, blocks: int
    ) -> tuple[int, int]:
        """Return parts of cycles and femtojoules of a step, without what depends on memories.

        Parameters
        ----------
        moved
            Elements that are read and written outside.
        blocks
            In which weights are copied, one after the other.
        """
        cycles = int(problem.parts(maps, step, way, how, moved, blocks) * self.cycle)
        if self.of_memories:
            return cycles, cycles * self.core + moved * self.outside
        return cycles, int(problem.energy_by_rates(maps, step, way, how, moved) * self.femtojoule)

    def of_copies(self, values: int) -> tuple[int, int]:
        """Return parts of cycles and femtojoules of weights that are copied, besides what accesses take."""
        return values * self.moved, values * self.moved * self.core

    def touched(self, memory: Region, read: int, written: int) -> tuple[int, int]:
        """Return parts of cycles that the core waits for accesses, and of femtojoules that these take.

        The femtojoules are those of the memory and, while it waits, of the core.
        """
        waits = (read * memory.reading + written * memory.writing) * (self.cycle // 100)
        own = read * (memory.reading_fj or 0) + written * (memory.writing_fj or 0)
        return waits, int(own * self.femtojoule) + waits * self.core


class Touched(NamedTuple):
    """What operations of a step read and write, in values, wherever it lies.

    Attributes
    ----------
    read
        Of each tensor.
    written
        Of each tensor that is computed; of running values the result.
    loaded
        Of each source, if it is read outside.
    running
        Elements of running values, for all pixels that are added.
    weights
        Of each convolution and product, by number.
    """

    read: Counter[int]
    written: Counter[int]
    loaded: Counter[int]
    running: int
    weights: Counter[int]


def touched(step: Step, way: Way) -> Touched:
    """Look at each pixel that a step computes or loads, and at each place of its window."""
    graph, group, last = step.graph, step.group, step.last
    read, written, loaded, running = Counter[int](), Counter[int](), Counter[int](), 0
    weights = Counter[int]()
    for spans in group.strips(way.columns, way.running):
        for op in group.ops:
            adds = way.running and op is last
            height = op.added[0] if adds and op.added else op.plane[0]
            for pixel in product(range(height), range(*spans[op.number + 1])):
                for tensor, values in looked_at(op, graph.shapes, None if adds else pixel):
                    read[tensor] += values
                weights[op.number] += weights_of_a_pixel(op, adds)
                if adds:
                    running += op.shape[0] * step.value
                else:
                    written[op.number + 1] += op.shape[0]
        for tensor in group.sources:
            for _ in product(range(graph.shapes[tensor][1]), range(*spans[tensor])):
                loaded[tensor] += group.deep[tensor]
    if way.running:
        written[group.output] += last.shape[0]
    return Touched(read, written, loaded, running, weights)


def weights_of_a_pixel(op: Op, adds: bool) -> int:
    """Return the weights that are read for a pixel: one for each multiply-accumulate."""
    if op.kind not in ("conv", "fc"):
        return 0
    if adds and op.added is not None:
        return op.macs * op.shape[0] // prod(op.added)
    deep = op.table["input"][0] // op.groups
    return sum(deep * op.shape[0] for _ in product(*map(range, op.kernel)))


def copied_weights(op: Op) -> int:
    """Return the weights, without biases, that may be copied into RAM."""
    return op.weights - op.shape[0] * op.bias if op.kind in ("conv", "fc") else 0


def streams(step: Step, way: Way) -> bool:
    """Whether a way that copies weights may do so block by block."""
    op = step.last
    blocks = way.order == "kernels" and way.kernels < op.shape[0] and way.kernels % 4 == 0
    plain = way.columns is None and not way.running and len(step.group.ops) == 1
    return blocks and plain and op.kind == "conv" and op.groups == 1 and op.pixels > 1


def copied_rows(step: Step, way: Way, op: Op) -> tuple[int, ...]:
    """Return the weights that are copied of an operation: all, or block by block."""
    if not streams(step, way):
        return (copied_weights(op),)
    each, outputs = copied_weights(op) // op.shape[0], op.shape[0]
    return tuple(each * min(way.kernels, outputs - at) for at in range(0, outputs, way.kernels))


def looked_at(
    op: Op, shapes: list[tuple[int, ...]], pixel: tuple[int, int] | None
) -> Iterator[tuple[int, int]]:
    """Return what an operation reads for a pixel: tensors, and how many of their values.

    Parameters
    ----------
    pixel
        Row and column of what is computed; None for a pixel that is added to running values.
    """
    by_value = op.kind in ("add", "mul", "concat") or (op.kind == "map" and op.table["op"] != "lrn")
    if op.views or not (by_value or op.kind in ("conv", "fc", "pool")):
        raise TooLarge  # what other operations read is not told
    for tensor, part in zip(op.reads, op.parts, strict=True):
        places = 1 if pixel is None or by_value else sum(1 for _ in taps(op, shapes[tensor], tensor, pixel))
        if op.kind in ("add", "mul"):
            yield tensor, op.shape[0]
        elif op.kind == "map":
            yield tensor, len(part) * (3 if op.table["op"] in ALL_CHANNELS else 1)
        elif op.kind in ("conv", "fc") and op.groups == 1:
            fours, beyond = divmod(op.shape[0], 4)
            yield tensor, len(part) * places * (fours + beyond)
        elif op.kind in ("conv", "fc"):
            yield tensor, len(part) * places * (op.shape[0] // op.groups)
        else:
            yield tensor, len(part) * places


def taps(op: Op, shape: tuple[int, ...], tensor: int, pixel: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Return the rows and columns of a tensor under the window of a pixel, without those of the padding."""
    _, height, width = shape
    if op.every[tensor]:
        yield from product(range(height), range(width))
        return
    for place in product(*map(range, op.kernel)):
        row, column = (
            pixel[axis] * op.stride[axis] - op.pad[2 * axis] + place[axis] * op.dilation[axis]
            for axis in (0, 1)
        )
        if 0 <= row < height and 0 <= column < width:
            yield row, column


def accesses(
    problem: Problem, done: Names, maps: Memory, step: Step, way: Way, copied: Names
) -> dict[str, Touch]:
    """Return what is read and written of each map and buffer in RAM, by name in `addresses`.

    Parameters
    ----------
    copied
        Numbers of operations whose weights are copied into RAM.
    """
    graph, group, seen = problem.graph, step.group, step.touched(way)
    whole = maps.there | maps.fetched | maps.resident
    read, written = Counter[str](), Counter[str]()

    def name(tensor: int) -> str:
        return graph.key(tensor) if tensor in whole else f"lines of {graph.name(tensor)}"

    for tensor, values in seen.read.items():
        read[name(tensor)] += values
    for tensor, values in seen.written.items():
        # What leaves the network and stays nowhere is written outside at once.
        if tensor in whole or tensor != group.output:
            written[name(tensor)] += values
    for tensor in maps.outside:
        written[name(tensor)] += seen.loaded[tensor]
    for tensor in maps.fetched:
        written[name(tensor)] += graph.needed(tensor, done)
    for tensor in maps.written:
        if tensor in whole or tensor != group.output:
            read[name(tensor)] += graph.sizes[tensor]
    found = {each: Touch(read[each], written[each]) for each in read | written}
    if way.running:
        found[f"block of {step.last.name}"] = Touch(seen.running, seen.running, step.value)
    for op in group.ops:
        if op.number in copied:
            of_op = Touch(seen.weights[op.number], copied_weights(op), rows=copied_rows(step, way, op))
            found[f"weights of {op.name}"] = of_op
    return found


def read_in_flash(step: Step, way: Way, copied: Names, memory: Region) -> tuple[int, int]:
    """Return the weights that a step reads in flash, and the accesses that it takes."""
    weights, width = step.touched(way).weights, step.graph.width
    values = accessed = 0
    for op in step.group.ops:
        if op.number in copied:
            values += copied_weights(op)
            accessed += memory.of_rows(copied_rows(step, way, op), width)
        else:
            values += weights[op.number]
            accessed += memory.accesses(weights[op.number], width)
    return values, accessed
