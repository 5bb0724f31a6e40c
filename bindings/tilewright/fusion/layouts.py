"""How maps lie in DRAM: layouts that they can have, the bursts of a transfer, and copies into another layout.

An accelerator with `Layouts` decides the layout of each *DRAM tensor*: of a map, or of maps that an operation
reads side by side, which have one layout. Without, all maps are NHWC and neither bursts nor copies cost
anything (DNNVM paper, sections 2.3.2 and 3.1, which says that other layouts cost much, but not how much).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, NetworkGraph, Operation
from tilewright.spec.host import Host
from tilewright.spec.network import OPERANDS, Input

CONCATENATED, NHWC, NCHW = LAYOUTS = ("concatenated", "NHWC", "NCHW")
"""Layouts: NHWC in the array of all maps beside it (figure 3 (c)), NHWC and NCHW in an array of its own."""

Layout = Literal["NHWC", "NCHW"]


class Layouts(Spec):
    """What the layout of a map in DRAM costs.

    Attributes
    ----------
    burst_bytes, burst_cycles
        LOAD and SAVE move values that lie next to each other in bursts of so many bytes at most, and each
        burst takes so many cycles beside those of its bytes.
    direct
        Layouts in which LOAD and SAVE find and leave maps.
    input, output
        In which the network's inputs are given, and its outputs are wanted; those in another one are copied.
    copies : Host
        What the host takes for each copy, whose bytes are read and written.
    """

    table_name: ClassVar[str] = "machine.layouts"

    burst_bytes: Annotated[int, Field(ge=1, le=65_536)] = 64
    burst_cycles: Annotated[int, Field(ge=0, le=10_000)] = 0
    direct: Annotated[tuple[Layout, ...], Field(min_length=1, max_length=2)] = ("NHWC", "NCHW")
    input: Literal["any", "NHWC", "NCHW"] = "any"
    output: Literal["any", "NHWC", "NCHW"] = "any"
    copies: Host

    def model_post_init(self, _context: object) -> None:
        """Refuse a layout that is named twice."""
        if len({*self.direct}) < len(self.direct):
            raise InputError("machine.layouts.direct", list(self.direct), "names a layout twice")


class Place(NamedTuple):
    """Where the channels of a map lie in an array.

    Attributes
    ----------
    planar
        Whether the array is NCHW, else NHWC.
    first
        Channel of the array at which those of the map begin.
    channels
        Of the array.
    """

    planar: bool
    first: int
    channels: int


class DramTensor(NamedTuple):
    """Maps in DRAM that have one layout.

    Attributes
    ----------
    maps
        Numbers of the operations that compute them, ascending; `OWN` for the network's own input.
    layouts
        Of `LAYOUTS`, those that they can have; the first is the paper's.
    copied
        For each layout, maps that are copied from or into another one.
    beside
        The maps in the order in which they lie in one array, where they can.
    """

    maps: tuple[int, ...]
    layouts: tuple[str, ...]
    copied: tuple[tuple[int, ...], ...]
    beside: tuple[int, ...]


Decided = Mapping[int, str]
"""Layouts by the numbers of DRAM tensors."""


def dram_tensors(
    graph: NetworkGraph, layouts: Layouts | None, engines: Sequence[str]
) -> tuple[DramTensor, ...]:
    """Return the DRAM tensors of a network, as far as an engine reads or computes a map of theirs.

    Parameters
    ----------
    layouts
        What the machine says of them; None where each has one layout only.
    engines
        What computes each operation; ``HOST`` for what no engine does.
    """
    own = [op for op in graph.ops if engines[op.number] != "HOST"]
    rows = [tuple(access.source for access in op.accesses) for op in own if op.spec.kind not in OPERANDS]
    group = {number: {number} for number in [OWN, *(op.number for op in graph.ops)]}
    for row in rows:
        for source in row[1:]:
            if group[source] is not group[row[0]]:
                group[row[0]] |= group[source]
                for member in group[source]:
                    group[member] = group[row[0]]
    seen = {op.number for op in own} | {source for op in own for source in op.producers}
    found = {min(maps): tuple(sorted(maps)) for maps in group.values() if maps & seen}
    return tuple(_tensor(graph, layouts, engines, maps, own) for _, maps in sorted(found.items()))


def _tensor(
    graph: NetworkGraph,
    layouts: Layouts | None,
    engines: Sequence[str],
    maps: tuple[int, ...],
    own: Iterable[Operation],
) -> DramTensor:
    if layouts is None:
        return DramTensor(maps, (NHWC,), ((),), ())
    beside = _beside(graph, maps, own)
    able = [CONCATENATED] * bool(beside and NHWC in layouts.direct)
    able += [layout for layout in (NHWC, NCHW) if layout in layouts.direct]

    def is_copied(number: int, layout: str) -> bool:
        form = NCHW if layout == NCHW else NHWC
        if is_input(graph, number):
            return layouts.input not in ("any", form)
        leaves = graph.ops[number].leaves and engines[number] != "HOST"
        return leaves and layouts.output not in ("any", form)

    copied = tuple(tuple(each for each in maps if is_copied(each, layout)) for layout in able)
    return DramTensor(maps, tuple(able), copied, beside)


def is_input(graph: NetworkGraph, number: int) -> bool:
    """Whether a map is an input of the network."""
    return number == OWN or isinstance(graph.ops[number].spec, Input)


def _beside(graph: NetworkGraph, maps: tuple[int, ...], own: Iterable[Operation]) -> tuple[int, ...]:
    """Return maps in the order of an array that holds them as all operations read them; none if none does."""
    if len(maps) < 2 or any(is_input(graph, number) for number in maps):
        return ()
    rows = [
        op.producers
        for op in own
        if op.spec.kind not in OPERANDS and len(op.accesses) > 1 and {*op.producers} <= {*maps}
    ]
    longest = max(rows, key=len, default=())
    if sorted(longest) != list(maps):
        return ()
    places = [longest[at : at + len(row)] for row in rows for at in range(len(longest))]
    return longest if all(row in places for row in rows) else ()


def place_of(graph: NetworkGraph, tensor: DramTensor, number: int, layout: str) -> Place:
    """Return where a map of a DRAM tensor lies with a layout."""
    if layout != CONCATENATED:
        return Place(layout == NCHW, 0, _channels(graph, number))
    ends = [_channels(graph, each) for each in tensor.beside]
    return Place(False, sum(ends[: tensor.beside.index(number)]), sum(ends))


def _channels(graph: NetworkGraph, number: int) -> int:
    return (graph.own_input if number == OWN else graph.ops[number].spec.output)[0]


def runs_of(counts: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """Return how many runs values lie in that follow each other, and the values of each.

    Parameters
    ----------
    counts, steps
        Of each axis how many there are, and how far they are apart, in values.
    """
    runs, length = prod(counts), 1
    for step, count in sorted((step, count) for step, count in zip(steps, counts, strict=True) if count > 1):
        if step != length:
            break
        runs, length = runs // count, length * count
    return runs, length


def copy_cycles(machine: Any, graph: NetworkGraph, number: int) -> int:
    """Return the cycles in which the host copies a map, of all images."""
    shape = graph.own_input if number == OWN else graph.ops[number].spec.output
    priced: Layouts = machine.layouts
    return priced.copies.cycles(2 * machine.arrays * machine.element_bytes * prod(shape))
