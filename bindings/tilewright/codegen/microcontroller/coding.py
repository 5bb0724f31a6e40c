"""Which tensor of a file each map of a plan holds, in which order, and the C of each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.c_text import identifier
from tilewright.codegen.microcontroller.by_elements import (
    ByElements,
    Computed,
    FunctionsOfResults,
    Misplaced,
    Stored,
)
from tilewright.codegen.microcontroller.elements import Unsupported
from tilewright.codegen.microcontroller.indices import Integers
from tilewright.codegen.microcontroller.operations import (
    AveragesInSingles,
    CodedOperation,
    Convolution,
    ConvolutionOfParts,
    Mean,
    MeanOfSums,
    Pool,
    Product,
    refusal,
)
from tilewright.residency import Problem
from tilewright.residency.graph import Operation
from tilewright.simulator.arithmetic.quantised import (
    AveragePoolInSingles,
    Concatenated,
    ExactNetwork,
    ExactOperation,
    MeanInSingles,
    Padded,
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedFullyConnected,
    QuantisedMaxPool,
    QuantisedMean,
    QuantisedRescaling,
    QuantisedTable,
    QuantisedTransposedConvolution,
    Rearranged,
    Reshaped,
    Stacked,
)
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Window

KINDS: Mapping[type[Any], type[CodedOperation]] = {
    QuantisedConvolution: Convolution,
    QuantisedFullyConnected: Product,
    QuantisedAveragePool: Pool,
    QuantisedMaxPool: Pool,
    QuantisedMean: Mean,
    AveragePoolInSingles: AveragesInSingles,
    MeanInSingles: MeanOfSums,
}
"""Operations that have loops of their own."""

JOINS = (Reshaped, Rearranged, Padded, Concatenated, Stacked, QuantisedTable, QuantisedRescaling)
"""Operations that only put values together, perhaps in another scale."""

MOST_AXES = 4
"""Axes of a tensor that may change places."""

MOST_ATTEMPTS = 500
"""Orders of maps that are tried together."""


class Coded(NamedTuple):
    """The C of a network.

    Attributes
    ----------
    operations
        By name.
    stored
        What each map holds, by its number.
    """

    operations: dict[str, CodedOperation]
    stored: dict[int, Stored]


def coded_network(problem: Problem, network: ExactNetwork, inputs: Mapping[int, str]) -> Coded:
    """Return the C of each operation of a problem.

    Parameters
    ----------
    inputs
        The file's tensor of each map that is given.

    Raises
    ------
    InputError
        For operations that there is no C for.
    """
    return _Coding(problem, network, inputs).found()


class _Coding:
    def __init__(self, problem: Problem, network: ExactNetwork, inputs: Mapping[int, str]) -> None:
        self.graph, self.network, self.inputs = problem.graph, network, inputs
        self.exact = network.by_operation(problem.network_graph)
        self.nodes = {each.name: each for each in network.operations}
        taken: set[str] = set()
        self.operations = list(self.graph.numbers(self.graph.all & ~self.graph.begin))
        self.names = dict[str, str]()
        for operation in self.operations:
            self.names[operation.name] = identifier(operation.name, taken)
            taken.add(self.names[operation.name])
        self.owners = Counter(each.name for every in self.exact.values() for each in every)
        self.attempts = 0

    def found(self) -> Coded:
        """Return the C of all operations, with the first orders of maps that fit each other."""
        self.refused: InputError | None = None
        stored, coded = dict[int, Stored](), dict[str, CodedOperation]()
        if not self._from(0, stored, coded):
            assert self.refused is not None
            raise self.refused
        return Coded(coded, stored)

    def _from(self, place: int, stored: dict[int, Stored], coded: dict[str, CodedOperation]) -> bool:
        """Find the C of operations from a place on; maps before keep their orders."""
        if place == len(self.operations):
            return True
        operation = self.operations[place]
        own = operation.number + 1
        sources = list(dict.fromkeys(access.source + 1 for access in operation.op.accesses))
        undecided = [tensor for tensor in sources if tensor not in stored]
        for orders, result, found in self._ways(operation, stored, sources):
            self.attempts += 1
            stored.update(orders)
            stored[own], coded[operation.name] = result, found
            if self._from(place + 1, stored, coded):
                return True
            for tensor in (own, *undecided):
                del stored[tensor]
            if self.attempts > MOST_ATTEMPTS:
                break
        limit = "there is no C that reads values in the order in which they lie"
        self.refused = self.refused or refusal(operation, limit)
        return False

    def _ways(
        self, operation: Operation, stored: Mapping[int, Stored], sources: Sequence[int]
    ) -> Iterator[tuple[dict[int, Stored], Stored, CodedOperation]]:
        """Return orders of what an operation reads first of all, and of what it gives, and its C.

        Those come first in which loops of its own read and give maps as they are.
        """
        names = {each: stored[each].name if each in stored else self.inputs[each] for each in sources}
        name = self._kept(operation, set(names.values()))
        plain = {
            each: stored[each] if each in stored else next(self._orders(names[each])) for each in sources
        }
        for result in self._results(operation, name, names, stored, plainest=True):
            if found := self._with_any_loops(operation, result, plain):
                yield {each: plain[each] for each in sources if each not in stored}, result, found
        for orders, result in self._orders_together(operation, name, names, stored):
            kept = {each: orders[each] if each in orders else stored[each] for each in sources}
            found = self._with_any_loops(operation, result, kept)
            if found is None:
                stem = self.names[operation.name]
                values = ByElements(self.graph, operation, self.network, self.nodes, result, stem)
                found = Computed(self.graph, operation, self._told(operation), values, kept)
            yield orders, result, found

    def _orders_together(
        self, operation: Operation, name: str, names: Mapping[int, str], stored: Mapping[int, Stored]
    ) -> Iterator[tuple[dict[int, Stored], Stored]]:
        """Return orders that fit each other: of what nobody has read before, and of what is given."""
        for result in self._results(operation, name, names, stored):
            values = ByElements(self.graph, operation, self.network, self.nodes, result, "values")
            try:
                needs = values.needs(names.values())
            except Unsupported as error:
                raise refusal(operation, str(error)) from None
            ways = [
                [
                    each
                    for each in ([stored[tensor]] if tensor in stored else self._orders(own))
                    if values.may_read(tensor, each, needs)
                ]
                for tensor, own in names.items()
            ]
            for orders in product(*ways):
                yield (
                    {
                        tensor: each
                        for tensor, each in zip(names, orders, strict=True)
                        if tensor not in stored
                    },
                    result,
                )

    # What maps hold ----------------------------------------------------------------------------------------

    def _kept(self, operation: Operation, leaves: set[str]) -> str:
        """Return the file's tensor that the map of an operation holds: the last that all others need.

        What this one alone computes, and an operation of the file that is not part of it reads, must be that
        tensor. It has no name where the operation only keeps what it reads.
        """
        size = self.graph.tensors[operation.number + 1].size
        own = self.exact[operation.name]
        for last in reversed(own):
            whole = prod(last.shape) == size or (
                isinstance(last, QuantisedTransposedConvolution) and self._of_parts(last) == prod(last.shape)
            )
            before = self._before(last.name, leaves) if whole else None
            if before is None:
                continue
            needed = {each for each in before - {last.name} if self.owners.get(each) == 1}
            readers = {reader.name for each in needed for reader in self.network.readers.get(each, ())}
            if readers <= before and not needed & set(self.network.outputs):
                return last.name
        if any(not isinstance(each, Reshaped) for each in own):
            told = ", ".join(each.operator for each in own)
            raise refusal(operation, f"there is no C for an operation that is {told} in the file")
        return ""

    def _of_parts(self, exact: ExactOperation) -> int:
        """Return how many values operations have together that are all a part of one of the file."""
        return sum(
            self.graph.tensors[each.number + 1].size
            for each in self.operations
            if exact in self.exact[each.name]
        )

    def _before(self, name: str, leaves: set[str]) -> set[str] | None:
        """Return the operations that a tensor needs of what is there; None if it needs anything else."""
        found, left = set[str](), [name]
        while left:
            each = left.pop()
            if each in found or each in leaves:
                continue
            if each in self.nodes:
                found.add(each)
                left += self.nodes[each].inputs
            elif self.network.tensors[each].numbers is None:
                return None
        return found

    def _orders(self, name: str) -> Iterator[Stored]:
        """Return orders in which a map may lie, the plainest one first."""
        shape = self._shape(name)
        plain = np.arange(prod(shape), dtype=np.int64)
        seen = list[Integers]()
        for own, sizes in (
            (plain, shape),
            *self._shapes_before(name, plain),
            *self._moved_orders(name, plain),
        ):
            for order in (own, *(own[each] for each in _turned_orders(sizes))):
                if not any(np.array_equal(order, each) for each in seen):
                    seen.append(order)
                    yield Stored(name, order, len(order))

    def _shapes_before(self, name: str, order: Integers) -> Iterator[tuple[Integers, tuple[int, ...]]]:
        """Return the shapes that values had before they got that of a tensor, in the same order."""
        while name in self.nodes and isinstance(self.nodes[name], Reshaped):
            name = self.nodes[name].inputs[0]
            yield order, self._shape(name)

    def _moved_orders(self, name: str, order: Integers) -> Iterator[tuple[Integers, tuple[int, ...]]]:
        """Return the orders in which readers that only move values want them, and their shapes."""
        for reader in self.network.readers.get(name, ()):
            own = order
            if isinstance(reader, Rearranged):
                if reader.places.size != order.size or len(np.unique(reader.places)) != order.size:
                    continue
                own = order[reader.places.reshape(-1)]
            elif not isinstance(reader, Reshaped):
                continue
            yield own, reader.shape
            yield from self._moved_orders(reader.name, own)

    def _results(
        self,
        operation: Operation,
        name: str,
        names: Mapping[int, str],
        stored: Mapping[int, Stored],
        *,
        plainest: bool = False,
    ) -> Iterator[Stored]:
        """Return orders in which the map of an operation may lie, or the first of them alone."""
        own, alike = operation.number + 1, None
        if not name:  # it only keeps what it reads
            tensor, sizes = next(iter(names)), [self.graph.tensors[each].size for each in names]
            if len(set(names.values())) == 1 and sum(sizes) == self.graph.tensors[own].size:
                name = names[tensor]
                alike = stored[tensor] if tensor in stored and len(names) == 1 else None
            else:
                name = self._joined(operation, set(names.values()))
        orders = self._orders(name)
        plain = next(orders)
        if plain.values > self.graph.tensors[own].size:
            yield from self._phases(own, plain, stored)
            return
        yield plain
        if plainest:
            return
        if alike is not None:
            yield alike
        yield from self._aligned(operation, plain, names, stored)
        yield from orders
        yield from self._in_blocks(own, plain)

    def _in_blocks(self, tensor: int, plain: Stored) -> Iterator[Stored]:
        """Return the order in which blocks of pixels of a larger map are the channels of one pixel."""
        _, rows, columns = self.graph.tensors[tensor].shape
        shape = self._shape(plain.name)
        if len(shape) == len("NHWC") and shape[1] % rows == 0 and shape[2] % columns == 0:
            blocks = plain.order.reshape(rows, shape[1] // rows, columns, shape[2] // columns, shape[3])
            yield Stored(plain.name, blocks.transpose(0, 2, 1, 3, 4).reshape(-1), plain.values)

    def _phases(self, tensor: int, plain: Stored, stored: Mapping[int, Stored]) -> Iterator[Stored]:
        """Return each so many rows and columns of a larger map, of which other maps do not have any pixel."""
        channels, rows, columns = self.graph.tensors[tensor].shape
        shape = self._shape(plain.name)
        if len(shape) != len("NHWC") or channels % shape[3] or shape[1] % rows or shape[2] % columns:
            return
        blocks = plain.order.reshape(rows, shape[1] // rows, columns, shape[2] // columns, shape[3])
        taken = {int(own) for each in stored.values() if each.name == plain.name for own in each.order}
        phases = [blocks[:, down, :, right] for down, right in np.ndindex(blocks.shape[1], blocks.shape[3])]
        left = [each for each in phases if int(each.flat[0]) not in taken]
        for some in islice(combinations(left, channels // shape[3]), MOST_ATTEMPTS):
            yield Stored(plain.name, np.stack(some, 2).reshape(-1), plain.values)

    def _joined(self, operation: Operation, leaves: set[str]) -> str:
        """Return the tensor that an operation puts together which the file has as part of others."""
        size = self.graph.tensors[operation.number + 1].size
        for name, each in self.nodes.items():
            needed = self._before(name, leaves) if prod(each.shape) == size and name not in leaves else None
            if needed and all(isinstance(self.nodes[one], JOINS) for one in needed):
                return name
        raise refusal(operation, "there is no C for an operation that is none in the file")

    def _aligned(
        self, operation: Operation, plain: Stored, names: Mapping[int, str], stored: Mapping[int, Stored]
    ) -> Iterator[Stored]:
        """Return the orders in which each value lies where the one lies that it is computed from."""
        values = ByElements(self.graph, operation, self.network, self.nodes, plain, "values")
        try:
            needs = values.needs(names.values())
        except Unsupported:
            return
        for tensor, name in names.items():
            for each in needs:
                if each.name != name or each.which.size != len(plain.order):
                    continue
                flat = each.which.reshape(-1)
                flat = stored[tensor].places[flat] if tensor in stored else flat
                if len(np.unique(flat)) == len(flat) and flat.min() >= 0:
                    yield Stored(plain.name, np.argsort(flat), plain.values)

    # C of operations ---------------------------------------------------------------------------------------

    def _with_any_loops(
        self, operation: Operation, stored: Stored, kept: Mapping[int, Stored]
    ) -> CodedOperation | None:
        """Return the C of an operation with loops of its own, if there is any for maps in given orders."""
        leaves = {each.name: tensor for tensor, each in kept.items()}
        for main in self._mains(stored.name, leaves):
            try:
                return self._with_loops(operation, stored, main, kept)
            except (Misplaced, InputError):  # these loops do not compute it
                continue
        return None

    def _told(self, operation: Operation) -> str:
        names = [each.operator for each in self.exact[operation.name] if not isinstance(each, Reshaped)]
        return ", ".join(dict.fromkeys(names)) or "copy"

    def _mains(self, name: str, leaves: Mapping[str, int]) -> list[ExactOperation]:
        """Return operations with loops of their own that a tensor needs, the last one first."""
        found, seen, left = list[ExactOperation](), set[str](), [name]
        while left:
            each = left.pop(0)
            if each in seen or each in leaves or each not in self.nodes:
                continue
            seen.add(each)
            if type(self.nodes[each]) in KINDS:
                found.append(self.nodes[each])
            left += self.nodes[each].inputs
        return found

    def _with_loops(
        self, operation: Operation, stored: Stored, main: ExactOperation, kept: Mapping[int, Stored]
    ) -> CodedOperation:
        """Return an operation whose loops compute a pixel, and functions of its values behind them.

        Raises
        ------
        Misplaced
            If maps lie otherwise than these loops read them.
        InputError
            For what these loops do not compute.
        """
        if operation.op.has_views or operation.parts:
            raise Misplaced
        joined = isinstance(self.nodes.get(main.inputs[0]), Concatenated)
        if len(kept) > 1 or (joined and main.inputs[0] not in {each.name for each in kept.values()}):
            coded = self._of_parts_with_loops(operation, main, kept)
            self._then(coded, operation, main, stored)
            return coded
        ((tensor, given),) = kept.items()
        stem = self.names[operation.name]
        result = self.graph.tensors[operation.number + 1]
        places = self._read_as(main, given, operation.op.spec)
        natural = bool((places == np.arange(len(places))).all())
        if prod(main.shape) != result.size or len(given.order) != given.values:
            raise Misplaced
        by_rows = isinstance(main, QuantisedFullyConnected) or result.pixels == 1
        if not by_rows and main.shape != _map_shape(result.shape):
            raise Misplaced
        coded = KINDS[type(main)](self.graph, operation, main, stem)
        if isinstance(coded, Product):
            if not natural:
                if not coded.whole or coded.weights.shape[1] != len(places):
                    raise Misplaced
                coded.in_order(places)
        elif not natural or self._shape(main.inputs[0]) != self._shape_with_border(main, tensor, given.name):
            raise Misplaced
        self._then(coded, operation, main, stored)
        return coded

    def _then(
        self, coded: CodedOperation, operation: Operation, main: ExactOperation, stored: Stored
    ) -> None:
        """Add functions of results, if the map has others."""
        if stored.name != main.name or not stored.is_natural:
            stem = f"{coded.name}_after"
            values = ByElements(self.graph, operation, self.network, self.nodes, stored, stem)
            try:
                coded.after = FunctionsOfResults(values, main.name)
            except Unsupported as error:
                raise Misplaced from error

    def _of_parts_with_loops(
        self, operation: Operation, main: ExactOperation, kept: Mapping[int, Stored]
    ) -> CodedOperation:
        """Return a convolution of maps whose channels are joined."""
        maps = {each.name: tensor for tensor, each in kept.items()}
        if not isinstance(main, QuantisedConvolution) or main.groups > 1 or len(maps) < len(kept):
            raise Misplaced
        parts = list(self._parts(main.inputs[0], maps))
        shapes = [self._shape(kept[each].name) for each in parts]
        if any(
            not kept[each].is_natural or shape != _map_shape(self.graph.tensors[each].shape)
            for each, shape in zip(parts, shapes, strict=True)
        ):
            raise Misplaced
        spec = operation.op.spec
        padding = main.padding[0], main.padding[2]
        if not isinstance(spec, Window) or padding != (spec.padding[0], spec.padding[2]):
            raise Misplaced
        if main.shape != _map_shape(self.graph.tensors[operation.number + 1].shape):
            raise Misplaced
        return ConvolutionOfParts(self.graph, operation, main, self.names[operation.name], parts)

    def _parts(self, name: str, maps: Mapping[str, int]) -> Iterator[int]:
        """Return the maps whose channels are joined to a tensor, in order."""
        each = self.nodes.get(name)
        if name in maps:
            yield maps[name]
        elif isinstance(each, Concatenated) and each.axis % len(each.shape) == len(each.shape) - 1:
            for own in each.inputs:
                yield from self._parts(own, maps)
        else:
            raise Misplaced

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.nodes[name].shape if name in self.nodes else self.network.tensors[name].shape

    def _shape_with_border(self, main: ExactOperation, tensor: int, given: str) -> tuple[int, ...]:
        """Return the shape of what an operation reads of a map as it lies, with borders that it adds."""
        images, rows, columns, channels = _map_shape(self.graph.tensors[tensor].shape)
        name = main.inputs[0]
        while name != given:
            each = self.nodes[name]
            if isinstance(each, Padded):
                rows, columns = rows + sum(each.padding[1]), columns + sum(each.padding[2])
            name = each.inputs[0]
        return images, rows, columns, channels

    def _read_as(self, main: ExactOperation, given: Stored, spec: object) -> Integers:
        """Return where each value that an operation reads lies in a map, borders of zeros left out."""
        name, chain = main.inputs[0], list[ExactOperation]()
        while name != given.name:
            if name not in self.nodes or not isinstance(self.nodes[name], Reshaped | Rearranged | Padded):
                raise Misplaced
            chain.append(self.nodes[name])
            name = self.nodes[name].inputs[0]
        places = given.places
        border = np.zeros(4, np.int64)
        for each in reversed(chain):
            if isinstance(each, Rearranged):
                if border.any() or each.places.size != places.size:
                    raise Misplaced
                places = places[each.places.reshape(-1)]
            if isinstance(each, Padded):
                if not isinstance(main, QuantisedConvolution) or each.value != main.input_zero_point:
                    raise Misplaced
                images, *sides, channels = each.padding
                if any(images) or any(channels):
                    raise Misplaced
                border += np.array(sides).reshape(-1)
        padding = getattr(main, "padding", None)
        if padding is not None and isinstance(spec, Window):
            top, _, left, _ = (np.array(padding) + border).tolist()
            if (top, left) != (spec.padding[0], spec.padding[2]):
                raise Misplaced
        if len(np.unique(places)) != len(places):
            raise Misplaced
        return places


def _map_shape(shape: tuple[int, int, int]) -> tuple[int, int, int, int]:
    channels, rows, columns = shape
    return 1, rows, columns, channels


def _turned_orders(shape: Sequence[int]) -> Iterator[Integers]:
    """Return orders in which the axes of a tensor change places."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not 2 <= len(axes) <= MOST_AXES:
        return
    values = np.arange(prod(shape), dtype=np.int64).reshape([shape[axis] for axis in axes])
    for order in permutations(range(len(axes))):
        yield values.transpose(order).reshape(-1)
