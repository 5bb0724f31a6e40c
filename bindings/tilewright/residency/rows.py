"""Products row by row: shapes are chosen so that a row of all heads is a pixel, as far as they can be.

A row of the first matrix gives a row of the product, as a pixel of a convolution of 1x1 gives one. So the
product's shape is changed to one of these pixels, if all that read it can take it: values stand in the same
order. Reshapes between such shapes are views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

import numpy as np

from tilewright.residency.attention import MOST_VALUES
from tilewright.residency.places import (
    graph_by_place,
    graph_of_causal,
    graph_of_joins,
    graph_of_merged,
    graph_with_numbers,
)
from tilewright.residency.views import graph_of_views, is_by_rows
from tilewright.spec.access import BY_VALUE
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


def executed_graph(coarse: NetworkGraph, *, numbers: bool) -> NetworkGraph:
    """Return a coarse graph as it is executed: with views, and pixel by pixel as far as it can be.

    Concatenations of rows are made where all that stands around them is by rows; others are views.

    Parameters
    ----------
    numbers
        Whether stored numbers of places are inputs.
    """
    coarse = graph_of_causal(coarse)
    graph = graph_by_place(graph_with_numbers(coarse) if numbers else coarse)
    joins = {op.name for op in graph.ops if isinstance(op.spec, Function) and op.spec.op == "concat"}
    while True:
        found = graph_by_rows(graph_of_views(graph, joins))
        views = {op.name for op in found.ops if op.name in joins and op.picks is None}
        if not views:
            return graph_of_joins(graph_of_merged(found))
        joins -= views


def graph_by_rows(graph: NetworkGraph) -> NetworkGraph:
    """Return a graph whose products, and what stands between, are computed pixel by pixel."""
    return _Rows(graph).graph()


class _Rows:
    """Shapes by rows, by number, and what is read instead of reshapes.

    All that could have another shape is given it. What then has a reader that cannot take it keeps the shape
    of the file, and so on until all can.

    Attributes
    ----------
    kept
        Operations that keep the shape of the file.
    shapes, turned
        Of what operations compute, and which of them go over rows.
    views
        What is read instead of reshapes and slices.
    picks, spreads
        See `tilewright.spec.graph.Operation`.
    """

    def __init__(self, graph: NetworkGraph) -> None:
        self.given = graph
        self.kept: set[int] = set()
        self._choose()
        while wrong := self._read_wrongly():
            self.kept |= wrong
            self._choose()

    def graph(self) -> NetworkGraph:
        """Return the graph whose products have their shapes by rows, without the reshapes between them."""
        kept = [op for op in self.given.ops if op.number not in self.views]
        numbers = {op.number: number for number, op in enumerate(kept)} | {OWN: OWN}
        folded: dict[int, list[AnyLayer]] = {}
        for number, access in self.views.items():
            folded.setdefault(access.source, []).append(self.given.ops[number].spec)
        found = []
        for op in kept:
            sources = (self._in_shape(self._source(access), access) for access in op.accesses)
            accesses = tuple(access._replace(source=numbers[access.source]) for access in sources)
            more = folded.get(op.number, []) if op.producers else []
            spec, number = self._with_shapes(op), numbers[op.number]
            whole, together = (*op.folded, *more), self._together(op)
            changed = replace(op, number=number, spec=spec, accesses=accesses, folded=whole)
            picks, spread = self.picks.get(op.number, op.picks), self.spreads.get(op.number, op.spread)
            found.append(replace(changed, together=together, picks=picks, spread=spread))
        return replace(self.given, ops=tuple(found), own_input=self.shapes[OWN])

    # Which shapes ---------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """Give all operations but those that keep theirs a shape by rows, if what they read has one."""
        self.shapes = {OWN: self.given.own_input, **{op.number: op.spec.output for op in self.given.ops}}
        self.views: dict[int, Access] = {}
        self.picks: dict[int, tuple[int, ...]] = {}
        self.spreads: dict[int, int] = {}
        self.turned: set[int] = set()
        for op in self.given.ops:
            if op.number in self.kept or not op.accesses:
                continue
            if self._keeps_order(op):
                self.views[op.number] = self._source(op.accesses[0])
            elif (part := self._cut(op)) is not None:
                self.views[op.number] = part
            elif (shape := self._by_rows(op)) is not None:
                self.shapes[op.number] = shape
                self.turned.add(op.number)

    def _read_wrongly(self) -> set[int]:
        """Return operations whose readers cannot take the shapes that they have."""
        found = set()
        for op in self.given.ops:
            for access in op.accesses:
                if not self._takes(op, access):
                    found.add(access.source)
        return found

    def _is_turned(self, access: Access) -> bool:
        """Whether what is read has another shape than that of the file."""
        return self._shape(access) != self.given.shape(access)

    def _takes(self, reader: Operation, access: Access) -> bool:
        """Whether a reader can read a tensor in the shape that it has."""
        spec = reader.spec
        if self._is_part(access) and reader.number not in self.views and not _reads_parts(reader):
            return False
        if not self._is_turned(access):
            return True
        plain = access._replace(source=OWN) == Access(OWN)
        if isinstance(spec, MatMul) and access not in reader.operands[0]:
            whole = self._source(access).channels is None
            return plain or (access.at is None and access.channels is None and whole)
        if not plain:
            return False
        if isinstance(spec, MatMul):
            return not is_by_rows(spec, spec.input) or is_by_rows(spec, self._shape(access))
        if isinstance(spec, NamedLayer) and spec.kind == "fc":  # takes all values, in their order
            return len(reader.accesses) == 1
        return isinstance(spec, Reshape) or reader.number in self.turned

    def _is_part(self, access: Access) -> bool:
        """Whether channels of a tensor are read instead of a slice."""
        return access.source in self.views and isinstance(self.given.ops[access.source].spec, Slice)

    def _in_shape(self, source: Access, access: Access) -> Access:
        """Return an access that tells in which shape copies are made of what it reads."""
        if access.copies is None or not self._is_turned(access):
            return source
        return source._replace(shape=self.given.shape(access))

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
        return shape_of_operand(op.operands[0], map(self._shape, op.operands[0]))

    # Views ----------------------------------------------------------------------------------------------

    def _keeps_order(self, op: Operation) -> bool:
        """Whether an operation is a reshape of one tensor within the network, and no transposition."""
        (access, *others), spec = op.accesses, op.spec
        plain = access.at is None and access.copies is None and not others
        return isinstance(spec, Reshape) and spec.op not in PERMUTES and not op.leaves and plain

    def _cut(self, op: Operation) -> Access | None:
        """Return which channels of a tensor can be read instead of a slice; None if it leaves out others."""
        spec = op.spec
        if not isinstance(spec, Slice) or op.leaves or spec.input[1:] != spec.output[1:]:
            return None
        (access, *others) = map(self._source, op.accesses)
        if others or access.at is not None or access.copies is not None or self._is_turned(op.accesses[0]):
            return None
        begin = spec.first[0] + (access.channels or (0, 0))[0]
        return access._replace(channels=(begin, begin + spec.output[0]))

    # Operations by rows ---------------------------------------------------------------------------------

    def _by_rows(self, op: Operation) -> Shape | None:
        """Return the shape by rows of what an operation computes from what it reads; None if it has none."""
        spec = op.spec
        if isinstance(spec, MatMul):
            if any(access.copies is not None for access in op.operands[0]):
                return None
            self._store_by_rows(op.operands[0], spec)
            channels, height, width = self._operand(op)
            fits = is_by_rows(spec, (channels, height, width))
            return (spec.groups * spec.columns, height, width) if fits else None
        if any(access.copies is not None or access.at is not None for access in op.accesses):
            return None
        if isinstance(spec, Reshape):
            return self._transposed(op, spec)
        turned = [
            self._shape(access)
            for access in op.accesses
            if self._is_turned(access) or self._source(access).source in self.turned
        ]
        if not turned:
            return None
        plane = turned[0][1:]
        if isinstance(spec, Add | Mul):
            return self._combined(op, plane)
        shapes = [self._shape(access) for access in op.accesses]
        if any(shape[1:] != plane for shape in shapes):
            return None
        if keeps_shape(spec):
            within = len(shapes) == 1 and shapes[0][0] % _values_along(spec) == 0
            return shapes[0] if within else None
        if _is_by_value(op, [self.given.shape(access) for access in op.accesses]):
            self.picks[op.number] = tuple(range(shapes[0][0]))
            return shapes[0]
        return self._picked(op, plane)

    def _is_free(self, access: Access) -> bool:
        """Whether an input of the network is read that can be stored in another shape."""
        place = access.source
        given = place == OWN or isinstance(self.given.ops[place].spec, Input)
        plain = access._replace(source=OWN) == Access(OWN)
        return given and plain and place not in self.kept and not self._is_turned(access)

    def _store_by_rows(self, operand: Sequence[Access], spec: MatMul) -> None:
        """Store an input of the network so that rows of a product's first operand are its pixels."""
        (first, *others) = operand
        by_rows = spec.groups * spec.depth, 1, spec.rows
        channels, height, width = self.given.shape(first)
        if not others and self._is_free(first) and (channels * height, width) == by_rows[::2]:
            self.shapes[first.source] = by_rows

    def _combined(self, op: Operation, plane: tuple[int, int]) -> Shape | None:
        """Return the shape by rows of a sum or product; inputs that it reads are stored as it wants them."""
        wanted = []
        for access in op.accesses:
            size, place = prod(self.given.shape(access)), access.source
            if size % prod(plane) or self.given.shape(access)[1:] != op.spec.output[1:]:
                return None
            shape = size // prod(plane), *plane
            if self._is_free(access):
                wanted.append((place, shape))
            elif self._shape(access) != shape:
                return None
        self.shapes.update(wanted)
        return prod(op.spec.output) // prod(plane), *plane

    def _picked(self, op: Operation, plane: tuple[int, int]) -> Shape | None:
        """Return the shape by rows of a part, or concatenation, of channels and rows of each column."""
        spec, given = op.spec, [self.given.shape(access) for access in op.accesses]
        if prod(plane) != spec.output[2] or any(shape[2] != spec.output[2] for shape in given):
            return None
        channels, height, _ = spec.output
        places = [(channel, row) for channel in range(channels) for row in range(height)]
        if isinstance(spec, Slice) and len(given) == 1:
            (first, above, _), (_, rows, _) = spec.first, spec.input
            picks = [(first + channel) * rows + above + row for channel, row in places]
        elif isinstance(spec, Function) and spec.op == "concat" and not spec.parameters:
            if any(shape[0] != channels for shape in given) or sum(shape[1] for shape in given) != height:
                return None
            begins, picks = [sum(shape[1] for shape in given[:n]) for n in range(len(given))], []
            for channel, row in places:
                number = max(n for n, begin in enumerate(begins) if begin <= row)
                before = channels * begins[number] + channel * given[number][1]
                picks.append(before + row - begins[number])
        else:
            return None
        self.picks[op.number] = tuple(picks)
        return channels * height, *plane

    def _transposed(self, op: Operation, spec: Reshape) -> Shape | None:
        """Return the shape of a transposition whose rows each come of one pixel; None if they do not."""
        if spec.permutation is None or len(op.accesses) > 1 or prod(spec.output) > MOST_VALUES:
            return None
        own, (channels, height, width) = spec.permutation, spec.output
        pixels = prod(self._shape(op.accesses[0])[1:])
        spread, more = divmod(height * width, pixels)
        if more:
            return None
        places = np.arange(prod(own.sizes)).reshape(own.sizes).transpose(own.axes)
        picks, rows = np.divmod(places.reshape(channels, pixels, spread), pixels)
        if (rows != np.arange(pixels)[:, None]).any() or (picks != picks[:, :1]).any():
            return None
        self.picks[op.number], self.spreads[op.number] = tuple(picks[:, 0].ravel().tolist()), spread
        return spec.output

    # What they do ---------------------------------------------------------------------------------------

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

    def _with_shapes(self, op: Operation) -> AnyLayer:
        """Return what an operation does in the shapes that are read and given."""
        spec, output = op.spec, self.shapes[op.number]
        turned, changed = output != spec.output, dict[str, object]()
        joined = isinstance(spec, Reshape) and len(op.operands) > 1  # it reads tensors as the file has them
        if (isinstance(spec, MatMul | Reshape) or turned) and not joined:
            changed["input"] = output if isinstance(spec, Add | Mul) or not op.accesses else self._operand(op)
        if turned and not isinstance(spec, Map | Add | Mul | Input):
            changed["output"] = output
        if turned and isinstance(spec, Function) and spec.along is not None:
            changed["along"] = ("channels",)
        if turned and isinstance(spec, Slice):
            changed["first"] = (0, 0, 0)
        return spec.model_copy(update=changed) if changed else spec


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


def _is_by_value(op: Operation, given: Sequence[Shape]) -> bool:
    """Whether an operation is a function of single values, where all that it reads has its own shape."""
    spec = op.spec
    named = isinstance(spec, Function) and spec.op in BY_VALUE and not spec.parameters
    return named and set(given) == {spec.output}


def keeps_shape(spec: AnyLayer) -> TypeGuard[Map | Function]:
    """Whether each value of an output comes of its place, or of those of its column in channels and rows."""
    if isinstance(spec, Map):
        return spec.op not in NORMALISATIONS and not spec.parameters
    if not isinstance(spec, Function) or spec.along is None or spec.parameters:
        return False
    return "columns" not in spec.along
