"""What readers find where it lies: concatenations along rows or columns, and copies of heads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation
from tilewright.spec.layer import Window
from tilewright.spec.network import Function, Input, MatMul, NamedLayer, Shape

PLANE = ((1, 0), (2, 1))
"""Axes of rows and of columns: their places in a shape and in `Access.at`."""


def reads_whole(op: Operation) -> bool:
    """Whether an operation needs all of what it reads for each value."""
    return not isinstance(op.spec, Window) or op.spec.kind == "fc"


def graph_of_views(graph: NetworkGraph, kept: Collection[str] = ()) -> NetworkGraph:
    """Return a coarse graph without the concatenations and copies whose readers can read the sources instead.

    Of a concatenation with numbers of the file these numbers are left, as an input of the network that has
    its name.

    Parameters
    ----------
    kept
        Concatenations that stay.
    """
    return _Views(graph, kept).graph()


class _Views:
    """What is read instead of operations, by number; numbers are those of the given graph."""

    def __init__(self, graph: NetworkGraph, kept: Collection[str]) -> None:
        self.given = graph
        self.operands: dict[int, tuple[Access, ...]] = {}
        self.numbers: dict[int, Input] = {}
        for op in graph.ops:
            if op.leaves or op.name in kept or not isinstance(op.spec, Function):
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


def _reads_pixel(op: Operation, number: int) -> bool:
    """Whether a product or normalisation needs one pixel at a time of what it reads of another operation."""
    spec = op.spec
    if op.picks is not None:
        return True
    if isinstance(spec, MatMul):
        return op.accesses[0].source == number and is_by_rows(spec, spec.input)
    return isinstance(spec, Function) and spec.along is not None and set(spec.along) <= {"channels"}


def is_by_rows(spec: MatMul, shape: Shape) -> bool:
    """Whether the first operand of a product, in some shape, has a row of all groups as a pixel."""
    return (shape[0], shape[1] * shape[2]) == (spec.groups * spec.depth, spec.rows)
