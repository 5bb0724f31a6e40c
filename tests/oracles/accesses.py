"""What a core reads and writes in memories, as the tables of docs/microcontrollers.md tell of it.

Steps are those of the oracle of machines without DRAM. Each pixel that is computed, and each place of its
window, is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.oracles import TooLarge
from tests.oracles.residency import ALL_CHANNELS, Op

if TYPE_CHECKING:
    from tests.oracles.microcontroller import Memory, Problem, Step, Way
    from tests.oracles.residency import Names

Json = dict[str, Any]


class Region(NamedTuple):
    """A memory that maps may lie in.

    Attributes
    ----------
    begin, end
        Its first element, and the one behind its last, where those of all are numbered one behind the other.
    reading, writing
        Hundredths of cycles that the core waits for a byte.
    """

    name: str
    begin: int
    end: int
    reading: int
    writing: int


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
        begin = found[-1].end if found else 0
        waits = (round(100 * each.get(key, 0)) for key in ("read_waits", "write_waits"))
        found.append(Region(each["name"], begin, begin + each["bytes"] // width, *waits))
    return found


def flash(machine: Json) -> tuple[str, int]:
    """Return the name of the memory that weights are in, and hundredths of cycles that a byte of it waits."""
    for each in machine.get("memories") or ():
        if each.get("read_only"):
            return each["name"], round(100 * each.get("read_waits", 0))
    return "", 0


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
    value = 1 if last.kind == "pool" and last.table["op"] == "max" else graph.sum_elements
    for spans in group.strips(way.columns, way.running):
        for op in group.ops:
            adds = way.running and op is last
            height = op.added[0] if adds and op.added else op.plane[0]
            for pixel in product(range(height), range(*spans[op.number + 1])):
                for tensor, values in looked_at(op, graph.shapes, None if adds else pixel):
                    read[tensor] += values
                weights[op.number] += weights_of_a_pixel(op, adds)
                if adds:
                    running += op.shape[0] * value
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
) -> dict[str, tuple[int, int]]:
    """Return the elements that are read and written of each map and buffer in RAM, by name in `addresses`.

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
    if way.running:
        block = f"block of {step.last.name}"
        read[block] += seen.running
        written[block] += seen.running
    for op in group.ops:
        if op.number in copied:
            read[f"weights of {op.name}"] += seen.weights[op.number]
            written[f"weights of {op.name}"] += copied_weights(op)
    return {each: (read[each], written[each]) for each in read | written}


def read_in_flash(step: Step, way: Way, copied: Names) -> int:
    """Return the weights that a step reads in flash."""
    weights = step.touched(way).weights
    return sum(copied_weights(op) if op.number in copied else weights[op.number] for op in step.group.ops)
