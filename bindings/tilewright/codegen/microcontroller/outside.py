"""Inputs and outputs of a network outside of the arena: where they begin, and in which order values lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.codegen.microcontroller.by_elements import Stored
from tilewright.codegen.microcontroller.indices import Integers
from tilewright.residency import Problem
from tilewright.simulator.arithmetic.quantised import Border, Concatenated, ExactNetwork, Rearranged, Reshaped
from tilewright.simulator.arithmetic.quantised.operation import Array
from tilewright.spec.errors import InputError


class Outside(NamedTuple):
    """An input or an output.

    Attributes
    ----------
    border
        What lies between it and the file.
    begin
        Values before it, of others.
    order
        Which value, of those that the network inside has in order, lies at each place.
    """

    border: Border
    begin: int
    order: Integers

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(self.order)

    def values(self, array: Array) -> Array:
        """Return values of the network inside as they lie outside."""
        found: Array = self.border.outside(array).reshape(-1)[self.order]
        return found

    @property
    def has_channels_last(self) -> bool:
        """Whether values lie as in a map with channels last, or in order if it is none."""
        return bool((self.order == np.arange(self.size)).all())

    def axes(self) -> list[tuple[int, int]] | None:
        """Return sizes of axes and their steps in the file's tensor, outermost first, if axes do."""
        return axes_of(self.in_file)

    @property
    def in_file(self) -> Integers:
        """For each place, which value of the file's tensor lies there."""
        moves = [each for each in self.border.operations if isinstance(each, Rearranged)]
        own = np.arange(self.size, dtype=np.int64)
        for each in moves:
            own = own[each.places.reshape(-1)]
        if moves and moves[0].inputs[0] != self.border.name:  # an output: from inside to the file
            own = np.argsort(own)
        return own[self.order]


def axes_of(places: Integers) -> list[tuple[int, int]] | None:
    """Return sizes of axes and their steps that give places of some values, if axes do."""
    found, left = list[tuple[int, int]](), places
    while len(left) > 1:
        step = int(left[1] - left[0])
        size = 2
        while size < len(left) and left[size] - left[size - 1] == step:
            size += 1
        while len(left) % size:
            size -= 1
        if size == 1:
            return None
        found.insert(0, (size, step))
        left = left[::size]
    own = np.zeros(1, np.int64)
    for size, step in found:
        own = (own[:, np.newaxis] + np.arange(size) * step).reshape(-1)
    return found if np.array_equal(own, places) else None


def given_maps(problem: Problem, network: ExactNetwork) -> dict[int, str]:
    """Return which input of a network each map is that is given, by its number.

    Raises
    ------
    InputError
        For one that cannot be told apart from others.
    """
    tensors = problem.graph.tensors
    own = {number: each.name for number, each in enumerate(tensors) if each.given and each.readers}
    sizes = {name: prod(network.tensors[name].shape) for name in network.inputs}
    known = {
        number: name for number, name in own.items() if name in sizes and sizes[name] == tensors[number].size
    }
    others = [name for name in network.inputs if name not in known.values()]
    for number in own.keys() - known.keys():
        alike = [name for name in others if sizes[name] == tensors[number].size]
        if len(alike) != 1:
            raise InputError("network.input", tensors[number].name, "there is no C for one like others")
        known[number] = alike[0]
        others.remove(alike[0])
    return known


def inputs_outside(
    network: ExactNetwork,
    borders: Sequence[Border],
    given: Mapping[int, str],
    stored: Mapping[int, Stored],
) -> tuple[dict[int, int], list[Outside]]:
    """Return where maps that are given begin, and all inputs in order."""
    maps = {name: number for number, name in given.items()}
    sizes = [prod(network.tensors[name].shape) for name in network.inputs]
    begins = [0, *accumulate(sizes)]
    found, places = list[Outside](), dict[int, int]()
    for name, border, begin, size in zip(network.inputs, borders, begins, sizes, strict=False):
        order = np.arange(size, dtype=np.int64)
        if name in maps:
            places[maps[name]] = begin
            order = stored[maps[name]].order if maps[name] in stored else order
        found.append(Outside(border, begin, order))
    return places, found


def outputs_outside(
    problem: Problem, network: ExactNetwork, borders: Sequence[Border], stored: Mapping[int, Stored]
) -> tuple[dict[int, int], list[Outside]]:
    """Return where maps that leave begin, and all outputs in order.

    Raises
    ------
    InputError
        For an output that is not what a map holds, in whatever order.
    """
    tensors = problem.graph.tensors
    shapes = {each.name: each.shape for each in network.operations}
    sizes = [
        prod(shapes[name] if name in shapes else network.tensors[name].shape) for name in network.outputs
    ]
    begins = [0, *accumulate(sizes)]
    orders: dict[int, list[Integers]] = {}
    places = dict[int, int]()
    for number, each in enumerate(tensors):
        if not each.leaves:
            continue
        own = stored[number]
        reached = [
            (place, positions)
            for name, positions in _moved(network, own.name, np.arange(own.values, dtype=np.int64))
            for place, output in enumerate(network.outputs)
            if output == name and sum(map(len, orders.get(place, ()))) + each.size <= sizes[place]
        ]
        if not reached:
            raise InputError("network.output", each.name, "there is no C for an output that no map holds")
        place, positions = reached[0]
        parts = orders.setdefault(place, [])
        places[number] = begins[place] + sum(map(len, parts))
        parts.append(positions[own.order])
    for place, name in enumerate(network.outputs):
        if sum(map(len, orders.get(place, ()))) < sizes[place]:
            raise InputError("network.output", name, "there is no C for an output that no map holds")
    return places, [
        Outside(border, begins[place], np.concatenate(orders[place])) for place, border in enumerate(borders)
    ]


def _moved(network: ExactNetwork, name: str, positions: Integers) -> Iterator[tuple[str, Integers]]:
    """Return tensors that have the values of another, and where each of these lies in them, in order."""
    yield name, positions
    for reader in network.readers.get(name, ()):
        if isinstance(reader, Reshaped):
            yield from _moved(network, reader.name, positions)
        elif isinstance(reader, Rearranged):
            own = reader.places.reshape(-1)
            if own.size == len(np.unique(own)) and own.size > positions.max(initial=0):
                yield from _moved(network, reader.name, np.argsort(own)[positions])
        elif isinstance(reader, Concatenated):
            for number, each in enumerate(reader.inputs):
                if each == name:
                    yield from _moved(network, reader.name, _joined(network, reader, number)[positions])


def _joined(network: ExactNetwork, concatenation: Concatenated, number: int) -> Integers:
    """Return where each value of a part lies in a concatenation, in order."""
    known = {each.name: each.shape for each in network.operations}
    shapes = [known[name] if name in known else network.tensors[name].shape for name in concatenation.inputs]
    axis = concatenation.axis % len(concatenation.shape)
    first = sum(shape[axis] for shape in shapes[:number])
    whole = np.arange(prod(concatenation.shape), dtype=np.int64).reshape(concatenation.shape)
    part = np.moveaxis(whole, axis, 0)[first : first + shapes[number][axis]]
    return np.moveaxis(part, 0, axis).reshape(-1)
