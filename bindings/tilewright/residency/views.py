"""What readers find where it lies: concatenations along rows or columns, copies of heads, and reshapes.

Products are computed row by row: their shapes are chosen so that a row is a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

from tilewright.spec.coarsening import PERMUTES
from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation, shape_of_operand
from tilewright.spec.layer import Window
from tilewright.spec.network import (
    NORMALISATIONS,
    Add,
    AnyLayer,
    Function,
    Input,
    Map,
    MatMul,
    Mul,
    NamedLayer,
    Reshape,
    Shape,
    Slice,
)

PLANE = ((1, 0), (2, 1))
"""Axes of rows and of columns: their places in a shape and in `Access.at`."""


def reads_whole(op: Operation) -> bool:
    """Whether an operation needs all of what it reads for each value."""
    return not isinstance(op.spec, Window) or op.spec.kind == "fc"


def graph_of_views(graph: NetworkGraph) -> NetworkGraph:
    """Return a coarse graph without the concatenations and copies whose readers can read the sources instead.

    Of a concatenation with numbers of the file these numbers are left, as an input of the network that has
    its name.
    """
    return _Views(graph).graph()


class _Views:
    """What is read instead of operations, by number; numbers are those of the given graph."""

    def __init__(self, graph: NetworkGraph) -> None:
        self.given = graph
        self.operands: dict[int, tuple[Access, ...]] = {}
        self.numbers: dict[int, Input] = {}
        for op in graph.ops:
            if op.leaves or not isinstance(op.spec, Function):
                continue
            if op.spec.op == "concat":
                self._join(op, op.spec)
            elif op.spec.op == "expand":
                self._copy(op, op.spec)

    def graph(self) -> NetworkGraph:
        """Return the graph in which readers read sources."""
        kept = [op for op in self.given.ops if op.number not in self.operands or op.number in self.numbers]
        numbers = {op.number: number for number, op in enumerate(kept)} | {OWN: OWN}
        folded: dict[int, list[Function]] = {}
        for number, operand in self.operands.items():
            spec = self.given.ops[number].spec
            assert isinstance(spec, Function)
            for source in dict.fromkeys(access.source for access in operand):
                folded.setdefault(source, []).append(spec)
        found = []
        for op in kept:
            number = numbers[op.number]
            if op.number in self.numbers:
                found.append(replace(op, number=number, spec=self.numbers[op.number], accesses=()))
                continue
            accesses = tuple(access._replace(source=numbers[access.source]) for access in self._read(op))
            more = folded.get(op.number, []) if op.producers else []
            found.append(replace(op, number=number, accesses=accesses, folded=(*op.folded, *more)))
        return replace(self.given, ops=tuple(found))

    def _read(self, op: Operation) -> tuple[Access, ...]:
        """Return what an operation reads, of views their sources."""
        found: list[Access] = []
        for access in op.accesses:
            parts = self.operands.get(access.source, (access,))
            if access.source in self.operands and access.channels is not None:
                parts = tuple(part._replace(channels=access.channels) for part in parts)
            found += parts
        return tuple(found)

    def _readers(self, number: int) -> list[Operation]:
        return [self.given.ops[reader] for reader in self.given.consumers[number]]

    def _copy(self, op: Operation, spec: Function) -> None:
        """Let those that need all of a tensor's copies read the tensor."""
        read, (source,) = self._read(op), op.accesses if len(op.accesses) == 1 else (None,)
        if len(read) != 1 or source is None or read[0].at or read[0].copies or spec.parameters:
            return
        copies: list[int] = []
        for whole, part in zip(spec.output, self.given.shape(source), strict=True):
            if whole % part:
                return
            copies.append(whole // part)
        if all(self._needs_copies(reader, op.number) for reader in self._readers(op.number)):
            self.operands[op.number] = (read[0]._replace(copies=(copies[0], copies[1], copies[2])),)

    def _needs_copies(self, reader: Operation, number: int) -> bool:
        """Whether an operation reads all of some copies at a time, and does not place them itself."""
        placed = isinstance(reader.spec, Function) and reader.spec.op in ("concat", "expand")
        parts = any(access.source == number and access.channels for access in reader.accesses)
        return reads_whole(reader) and not placed and not parts and not _reads_pixel(reader, number)

    def _join(self, op: Operation, spec: Function) -> None:
        """Let readers of a concatenation read its parts, if each of them can."""
        joined = self._parts(op, spec)
        if joined is None:
            return
        operand, numbers = joined
        self.operands[op.number] = operand
        astray = numbers is not None and spec.numbers_at is None
        if not all(self._can_read(reader, op.number, astray) for reader in self._readers(op.number)):
            del self.operands[op.number]
        elif numbers is not None:
            self.numbers[op.number] = numbers

    def _parts(self, op: Operation, spec: Function) -> tuple[tuple[Access, ...], Input | None] | None:
        """Return the parts of a concatenation along rows or columns, and the file's numbers among them."""
        shapes = [self.given.shape(access) for access in op.accesses]
        for axis, place in PLANE:
            rest = spec.output[axis] - sum(shape[axis] for shape in shapes)
            if rest < 0 or any(_with(shape, axis, 0) != _with(spec.output, axis, 0) for shape in shapes):
                continue
            left = _with(spec.output, axis, rest)
            if left[0] * left[1] * left[2] != spec.parameters:
                continue
            numbers = Input(kind="input", name=spec.name, inputs=(), input=left) if rest else None
            found, end = list[Access](), 0
            for number in range(len(shapes) + 1):
                if rest and number == min(spec.numbers_at or 0, len(shapes)):
                    found.append(Access(op.number, at=(end, 0) if not place else (0, end)))
                    end += rest
                if number == len(shapes):
                    break
                access, shape = op.accesses[number], shapes[number]
                for part in self.operands.get(access.source, (access,)):
                    if part.copies is not None or access.channels is not None:
                        return None
                    row, column = part.at or (0, 0)
                    at = (row + end, column) if not place else (row, column + end)
                    found.append(part._replace(at=at))
                end += shape[axis]
            return tuple(found), numbers
        return None

    def _can_read(self, reader: Operation, number: int, astray: bool) -> bool:
        """Whether an operation can read the parts of a concatenation.

        One that goes over windows must do so along a line, read all parts without gaps, and each tensor once.
        What may add up blocks of input channels finds them in one piece alone.

        Parameters
        ----------
        astray
            Whether it is not known where numbers of the file stand among the parts, which makes a difference
            to windows.
        """
        spec = reader.spec
        if isinstance(spec, NamedLayer) and spec.groups == 1:
            return False
        pixel = _reads_pixel(reader, number)
        if reads_whole(reader) and not pixel:
            return True
        read, plane = self._read(reader), self.given.ops[number].spec.output[1:]
        if astray or spec.input[1:] != plane or len({access.source for access in read}) < len(read):
            return False
        if 1 not in plane:
            return False
        if pixel:
            return True
        assert isinstance(spec, Window)
        for axis in (0, 1):
            end = (spec.output_plane[axis] - 1) * spec.stride[axis] - spec.padding[2 * axis]
            end += spec.kernel_extent[axis]
            last = max(part.at[axis] for part in self.operands[number] if part.at is not None)
            if spec.stride[axis] > spec.kernel_extent[axis] or end <= last:
                return False
        return True


def _with(shape: Sequence[int], axis: int, size: int) -> Shape:
    """Return a shape with another size along an axis."""
    channels, height, width = (size if place == axis else each for place, each in enumerate(shape))
    return channels, height, width


# Products row by row -------------------------------------------------------------------------------


def graph_by_rows(graph: NetworkGraph) -> NetworkGraph:
    """Return a graph whose products and softmax are computed pixel by pixel, as far as they can be.

    A row of the first matrix gives a row of the product, as a pixel of a convolution of 1x1 gives one. So the
    product's shape is changed to one of these pixels, if all that read it can take it: values stand in the
    same order. Reshapes between such shapes are views.
    """
    return _Rows(graph).graph()


class _Rows:
    """Shapes by rows, by number, and what is read instead of reshapes."""

    def __init__(self, graph: NetworkGraph) -> None:
        self.given = graph
        self.shapes = {OWN: graph.own_input, **{op.number: op.spec.output for op in graph.ops}}
        self.views: dict[int, Access] = {}
        for op in graph.ops:
            if op.accesses and self._is_view(op):
                self.views[op.number] = self._source(op.accesses[0])
            elif (part := self._cut(op)) is not None:
                self.views[op.number] = part
            elif (shape := self._by_rows(op)) is not None and self._all_take(op.number, shape):
                self.shapes[op.number] = shape

    def graph(self) -> NetworkGraph:
        """Return the graph whose products have their shapes by rows, without the reshapes between them."""
        kept = [op for op in self.given.ops if op.number not in self.views]
        numbers = {op.number: number for number, op in enumerate(kept)} | {OWN: OWN}
        folded: dict[int, list[AnyLayer]] = {}
        for number, access in self.views.items():
            folded.setdefault(access.source, []).append(self.given.ops[number].spec)
        found = []
        for op in kept:
            sources = map(self._source, op.accesses)
            accesses = tuple(access._replace(source=numbers[access.source]) for access in sources)
            more = folded.get(op.number, []) if op.producers else []
            spec, number = self._with_shapes(op), numbers[op.number]
            whole, together = (*op.folded, *more), self._together(op)
            changed = replace(op, number=number, spec=spec, accesses=accesses, folded=whole)
            found.append(replace(changed, together=together))
        return replace(self.given, ops=tuple(found))

    def _together(self, op: Operation) -> int | None:
        """Return how many values of a pixel a function along channels takes together, if that is told.

        In another shape than that of the file these are the values that follow one another along its axes.
        """
        spec, pixels = op.spec, prod(self.shapes[op.number][1:])
        if not isinstance(spec, Function) or spec.along is None:
            return None
        channels, height, width = spec.output
        along = set(spec.along)
        if along == {"channels"} and pixels == height * width:
            return channels
        if "rows" in along and pixels == width and "columns" not in along:
            return height * (channels if "channels" in along else 1)
        return None

    def _source(self, access: Access) -> Access:
        """Return what is read instead of a view, or of some channels of one."""
        view = self.views.get(access.source)
        if view is None:
            return access
        channels, (begin, _) = access.channels, view.channels or (0, 0)
        part = view.channels if channels is None else (begin + channels[0], begin + channels[1])
        return access._replace(source=view.source, channels=part)

    def _shape(self, access: Access) -> Shape:
        """Return the shape of what an access reads, perhaps through a view."""
        own = self._source(access)
        channels, *plane = self.shapes[own.source]
        if own.channels is not None:
            channels = own.channels[1] - own.channels[0]
        return channels, plane[0], plane[1]

    def _operand(self, op: Operation) -> Shape:
        """Return the shape of an operation's first operand, perhaps of parts or copies."""
        first = [self._source(access) for access in op.operands[0]]
        return shape_of_operand(first, map(self._shape, first))

    def _is_view(self, op: Operation) -> bool:
        """Whether all that read a reshape can read what it reads, in the shape that this has."""
        return self._keeps_order(op) and self._all_take(op.number, self._shape(op.accesses[0]))

    def _keeps_order(self, op: Operation) -> bool:
        """Whether an operation is a reshape of one tensor within the network, and no transposition."""
        (access, *others), spec = op.accesses, op.spec
        plain = access.at is None and access.copies is None and not others
        return isinstance(spec, Reshape) and spec.op not in PERMUTES and not op.leaves and plain

    def _cut(self, op: Operation) -> Access | None:
        """Return which channels of a tensor all that read a slice can read instead; None if they cannot."""
        spec = op.spec
        if not isinstance(spec, Slice) or op.leaves or spec.input[1:] != spec.output[1:]:
            return None
        (access, *others) = map(self._source, op.accesses)
        if others or access.at is not None or access.copies is not None:
            return None
        for number in self.given.consumers[op.number]:
            reader = self.given.ops[number]
            if self._keeps_order(reader):
                if not self._all_take(number, spec.output):
                    return None
            elif not _reads_parts(reader):
                return None
        begin = spec.first[0] + (access.channels or (0, 0))[0]
        return access._replace(channels=(begin, begin + spec.output[0]))

    def _by_rows(self, op: Operation) -> Shape | None:
        """Return the shape by rows of what an operation computes from what it reads; None if it has none."""
        spec = op.spec
        if isinstance(spec, MatMul):
            if any(access.copies is not None for access in op.operands[0]):
                return None
            channels, height, width = self._operand(op)
            fits = _is_by_rows(spec, (channels, height, width))
            return (spec.groups * spec.columns, height, width) if fits else None
        plain = len(op.accesses) == 1 and op.accesses[0].copies is None
        return self._shape(op.accesses[0]) if _keeps_shape(spec) and plain else None

    def _all_take(self, number: int, shape: Shape) -> bool:
        """Whether all that read an operation's output can read it in a shape."""
        if shape == self.shapes[number]:
            return True
        readers = (self.given.ops[reader] for reader in self.given.consumers[number])
        return all(self._takes(reader, number, shape) for reader in readers)

    def _takes(self, reader: Operation, number: int, shape: Shape) -> bool:
        """Whether a reader can read an operation's output in another shape, whose pixels are rows."""
        accesses = [access for access in reader.accesses if access.source == number]
        if any(access._replace(source=OWN) != Access(OWN) for access in accesses):
            return False
        spec = reader.spec
        if isinstance(spec, MatMul):
            others = reader.accesses[0].source != number or not _is_by_rows(spec, spec.input)
            return others or _is_by_rows(spec, shape)
        if isinstance(spec, Reshape):
            return True
        if not _keeps_shape(spec) or len(reader.accesses) > 1:
            return False
        within = shape[0] % _values_along(spec) == 0
        return within and self._all_take(reader.number, shape)

    def _with_shapes(self, op: Operation) -> AnyLayer:
        """Return what an operation does in the shapes that are read and given."""
        spec, output = op.spec, self.shapes[op.number]
        changed: dict[str, object] = {}
        if isinstance(spec, MatMul | Reshape) or (output != spec.output and _keeps_shape(spec)):
            changed["input"] = self._operand(op)
        if output != spec.output and not isinstance(spec, Map):
            changed["output"] = output
        if output != spec.output and isinstance(spec, Function):
            changed["along"] = ("channels",)
        return spec.model_copy(update=changed) if changed else spec


def _reads_pixel(op: Operation, number: int) -> bool:
    """Whether a product or normalisation needs one pixel at a time of what it reads of another operation."""
    spec = op.spec
    if isinstance(spec, MatMul):
        return op.accesses[0].source == number and _is_by_rows(spec, spec.input)
    return isinstance(spec, Function) and spec.along is not None and set(spec.along) <= {"channels"}


def _is_by_rows(spec: MatMul, shape: Shape) -> bool:
    """Whether the first operand of a product, in some shape, has a row of all groups as a pixel."""
    return (shape[0], shape[1] * shape[2]) == (spec.groups * spec.depth, spec.rows)


def _reads_parts(op: Operation) -> bool:
    """Whether an operation that reads slices can read the channels of what was cut instead."""
    spec = op.spec
    if isinstance(spec, Function):
        return spec.op not in ("concat", "expand")
    return isinstance(spec, MatMul | Add | Mul) or (isinstance(spec, Window) and len(op.accesses) == 1)


def _values_along(spec: Map | Function) -> int:
    """Return how many values that follow one another in a pixel a function takes together."""
    along = spec.along or () if isinstance(spec, Function) else ()
    return spec.input[0] * (spec.input[1] if "rows" in along else 1) if along else 1


def _keeps_shape(spec: AnyLayer) -> TypeGuard[Map | Function]:
    """Whether each value of an output comes of its place, or of those of its column in channels and rows."""
    if isinstance(spec, Map):
        return spec.op not in NORMALISATIONS and not spec.parameters
    if not isinstance(spec, Function) or spec.along is None or spec.parameters:
        return False
    return "columns" not in spec.along
