"""Operations in C that compute value by value: any that has no loops of its own, and functions of results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.codegen.microcontroller.elements import Elements, Leaf, indented
from tilewright.codegen.microcontroller.indices import Integers, Truths, compacted, last_axis
from tilewright.codegen.microcontroller.operations import CodedOperation, Places
from tilewright.residency.graph import Graph, Operation
from tilewright.simulator.arithmetic.quantised import ExactNetwork, ExactOperation

if TYPE_CHECKING:
    from tilewright.codegen.microcontroller.steps import StepMap

Lines = Iterator[str]

CHANNELS = 2
"""The axis of channels, after rows and columns."""

NAMES = ("row", "column", "c")


class Misplaced(Exception):
    """Values do not lie where an operation may read them."""


class Stored(NamedTuple):
    """What a map holds.

    Attributes
    ----------
    name
        Of the file's tensor.
    order
        For each place of the map, pixel by pixel, which of the tensor's values in order it has.
    values
        How many the tensor has: as many as the map, or more.
    """

    name: str
    order: Integers
    values: int

    @property
    def places(self) -> Integers:
        """For each value of the tensor its place in the map, -1 of those that it does not have."""
        found = np.full(self.values, -1, np.int64)
        found[self.order] = np.arange(len(self.order))
        return found

    @property
    def is_natural(self) -> bool:
        """Whether the map has all of the tensor's values in order."""
        return len(self.order) == self.values and bool((self.order == np.arange(self.values)).all())


class Need(NamedTuple):
    """Values that are read: which ones of a tensor, and where they count."""

    name: str
    which: Integers
    mask: Truths


class ByElements:
    """How values of a map come from those of others.

    Parameters
    ----------
    nodes
        Operations of the file that may take part, by name.
    stored
        What is computed.
    leaves
        What is there.
    """

    def __init__(
        self,
        graph: Graph,
        operation: Operation,
        network: ExactNetwork,
        nodes: Mapping[str, ExactOperation],
        stored: Stored,
        stem: str,
    ) -> None:
        self.graph, self.operation, self.network = graph, operation, network
        self.nodes, self.stored, self.stem = nodes, stored, stem
        channels, rows, columns = graph.tensors[operation.number + 1].shape
        self.own = np.arange(rows * columns * channels, dtype=np.int64).reshape(rows, columns, channels)

    def elements(self, leaves: Mapping[str, Leaf], names: tuple[str, str, str]) -> tuple[Elements, str]:
        """Return the lines that come first, and the value of a channel."""
        found = Elements(self.nodes, self.network.tensors, leaves, names, self.stem)
        index = self.stored.order.reshape(self.own.shape)
        return found, found.value(self.stored.name, index, np.ones((1, 1, 1), np.bool_))

    def needs(self, leaves: Collection[str]) -> list[Need]:
        """Return which values of tensors that are there are read, for each value of the map."""
        found = list[Need]()

        def leaf_of(name: str) -> Leaf:
            def leaf(elements: Elements, index: Integers, mask: Truths) -> str:
                del elements
                found.append(Need(name, index, mask))
                return "0"

            return leaf

        self.elements({name: leaf_of(name) for name in leaves}, NAMES)
        return found

    def may_read(self, tensor: int, stored: Stored, needs: Iterable[Need]) -> bool:
        """Whether all values that are needed of a map in a given order lie where the operation reads them."""
        places = stored.places
        for each in needs:
            if each.name != stored.name:
                continue
            place = places[each.which]
            mask = each.mask & (place >= 0)
            if not self._is_within(tensor, place, mask) or self._is_overwritten(tensor, place, mask):
                return False
        return True

    def _is_within(self, tensor: int, place: Integers, mask: Truths) -> bool:
        """Whether values are among the pixels that are there."""
        pixel = place // self.graph.tensors[tensor].channels
        plane = self.own.shape[:2]
        number = np.arange(prod(plane)).reshape(*plane, *[1] * (place.ndim - len(plane)))
        there: Truths = ~mask
        for reading in self.operation.readings:
            if reading.tensor != tensor:
                continue
            if reading.extent is None:
                return True
            row, column = np.divmod(pixel, reading.plane[1])
            y, x = np.divmod(number, reading.output[1])
            inside: Truths = np.ones((1,) * place.ndim, np.bool_)
            for axis, (own, at) in enumerate(((y, row), (x, column))):
                first = own * reading.stride[axis] - reading.before[axis]
                inside = inside & (at >= first) & (at < first + reading.extent[axis])
            there = there | inside
        return bool(there.all())

    def _is_overwritten(self, tensor: int, place: Integers, mask: Truths) -> bool:
        """Whether a value is read after the output has taken its place, as it may in the plan."""
        shape = self.graph.tensors[tensor].shape
        if not self.operation.pixelwise or shape != self.graph.tensors[self.operation.number + 1].shape:
            return False
        own = self.own.reshape(*self.own.shape, *[1] * (place.ndim - self.own.ndim))
        place = compacted(place)
        first = place.ndim > self.own.ndim and place.shape[CHANNELS] == 1 and last_axis(place) > CHANNELS
        same = (place // shape[0] == own // shape[0]) if first else place == own
        return not (same | ~mask).all()


def leaves_of(kept: Mapping[int, Stored], leaf_of: Callable[[int], Leaf]) -> dict[str, Leaf]:
    """Return what gives values of tensors that maps hold, some of them in several maps."""
    by_name: dict[str, list[int]] = {}
    for tensor, stored in kept.items():
        by_name.setdefault(stored.name, []).append(tensor)
    return {
        name: leaf_of(tensors[0])
        if len(tensors) == 1
        else _of_several([(kept[each].places, leaf_of(each)) for each in tensors])
        for name, tensors in by_name.items()
    }


def _of_several(parts: Sequence[tuple[Integers, Leaf]]) -> Leaf:
    """Return what gives values of which each lies in one of several maps."""

    def leaf(elements: Elements, index: Integers, mask: Truths) -> str:
        text = ""
        for places, own in reversed(parts):
            there: Truths = places[index] >= 0
            if (mask & there).any():
                value = own(elements, index, mask & there)
                text = elements.either([there | ~mask], value, text) if text else value
        return text

    return leaf


class Computed(CodedOperation):
    """An operation whose values are computed one by one."""

    reads_row = True

    def __init__(
        self, graph: Graph, operation: Operation, kind: str, values: ByElements, kept: Mapping[int, Stored]
    ) -> None:
        super().__init__(graph, operation, None, values.stem)
        self.kind, self.values, self.kept = kind, values, kept
        self._made: list[Elements] = []

    def constants(self) -> Lines:
        """Return what stands before the steps."""
        for each in self._made:
            yield from each.constants()

    def pixel(self, step: Places, own: StepMap) -> Lines:
        """Return what computes a pixel; what lies side by side in another is copied."""
        for tensor in self.kept:
            step.has_all_channels(tensor, self.operation)
        found, made, value = self._made_for(step, own, copied=False)
        prologue = made.loops[CHANNELS].lines
        copied = len(found) == 1 and value in found and not prologue and _is_row(found[value], self.outputs)
        if copied:
            _, made, value = self._made_for(step, own, copied=True)
        self._made.append(made)
        yield from made.lines
        yield f"value_t *result = {step.result(own)};"
        if copied:
            yield f"memcpy(result, {value}, {self.outputs} * sizeof(value_t));"
            return
        yield f"for (int c = 0; c < {self.outputs}; c++) {{"
        yield from indented([*prologue, f"result[c] = (value_t)({value});"])
        yield "}"

    def _made_for(
        self, step: Places, own: StepMap, *, copied: bool
    ) -> tuple[dict[str, Integers], Elements, str]:
        """Return places that are read by what C has for them, what comes first, and the value of a channel.

        Parameters
        ----------
        copied
            Return where the value of the first channel is, instead.
        """
        found = dict[str, Integers]()

        def leaf_of(tensor: int) -> Leaf:
            places, channels = self.kept[tensor].places, self.graph.tensors[tensor].channels
            columns = self.graph.tensors[tensor].shape[2]

            def leaf(elements: Elements, index: Integers, mask: Truths) -> str:
                place = places[index]
                pixel, channel = compacted(place // channels), place % channels
                row, column = (_bracketed(elements.number(each, mask)) for each in np.divmod(pixel, columns))
                name = elements.place(last_axis(pixel), mask, step.at(tensor, row, column))
                if copied:
                    return f"{name} + {elements.number(channel.take([0], CHANNELS))}"
                text = f"{name}[{elements.number(channel, mask)}]"
                found[text] = place
                return text

            return leaf

        leaves = leaves_of(self.kept, leaf_of)
        return found, *self.values.elements(leaves, step.names(own))


def _is_row(place: Integers, channels: int) -> bool:
    """Whether places of all channels lie one behind the other."""
    return channels == 1 or (
        place.shape[CHANNELS] == channels and bool((np.diff(place, axis=CHANNELS) == 1).all())
    )


class FunctionsOfResults:
    """Functions of the results of a pixel, each of the value at its place."""

    def __init__(self, values: ByElements, main: str) -> None:
        self.values, self.main = values, main
        self._made: list[Elements] = []
        self.elements(NAMES)

    def elements(self, names: tuple[str, str, str]) -> tuple[Elements, str]:
        """Return the lines that come first, and the value of a channel."""
        own = self.values.own

        def leaf(elements: Elements, index: Integers, mask: Truths) -> str:
            del elements
            if index.ndim > own.ndim or not ((np.broadcast_to(index, own.shape) == own) | ~mask).all():
                raise Misplaced
            return "result[c]"

        return self.values.elements({self.main: leaf}, names)

    def lines(self, names: tuple[str, str, str], *, streams: bool = False) -> Lines:
        """Return what changes results: all, or `outputs` of them from `first` on."""
        made, value = self.elements(names)
        self._made.append(made)
        yield from made.lines
        begin, end = ("first", "first + outputs") if streams else ("0", self.values.own.shape[CHANNELS])
        yield f"for (int c = {begin}; c < {end}; c++) {{"
        yield from indented([*made.loops[CHANNELS].lines, f"result[c] = (value_t)({value});"])
        yield "}"

    def constants(self) -> Lines:
        """Return what stands before the steps."""
        for each in self._made:
            yield from each.constants()


def _bracketed(text: str) -> str:
    return text if " " not in text else f"({text})"
