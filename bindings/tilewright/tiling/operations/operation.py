"""Operations of a network that are neither convolutions nor matrix products: what they read, do and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.access import BY_VALUE, Access, access, read
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.graph import Operation as GraphOperation
from tilewright.spec.layer import MAX_SIZE, Length, Pad, Window
from tilewright.spec.network import (
    FREE,
    GATES,
    Add,
    AnyLayer,
    Axis,
    Concat,
    Count,
    Function,
    Input,
    Map,
    MatMul,
    Mul,
    Name,
    NamedLayer,
    Opaque,
    Padding,
    Permutation,
    Pool,
    Recurrence,
    Reshape,
    Shape,
    Slice,
    Work,
    macs_of,
    parameters_of,
)

ACROSS = {"lrn": 8, "softmax": 4, "log_softmax": 4}
"""Functions that look at several maps: vector operations for each value (sum, power, division; maximum,
difference, exponential, sum, division, the exponential as one)."""

NEEDS: dict[Access, Literal["piece", "maps", "all"]] = {
    "window": "piece",
    "place": "maps",
    "stream": "piece",
    "whole": "all",
}
"""What an operation needs on chip at a time, by how it goes over values."""

VIEWS = ("reshape", "flatten")
"""Reshapes that leave every value where it is."""

PLACEMENTS = ("concat", "expand")
"""Functions that leave values as they are: a reader finds each where its maker, or the file, has put it."""


class Attention(Spec):
    """Two products with a softmax between them, whose scores may stay on chip.

    Scores are products of queries and keys of the same head. Functions of single values and the softmax make
    weights of them. The context is the product of weights and values.

    Attributes
    ----------
    matrices
        Matrices of keys, and of values: those of all images.
    heads
        Heads that share each; they differ in their queries.
    queries, keys
        Rows of queries of each head, and keys of each matrix.
    depth, values
        Elements of a query and of a key, and of a value.
    causal
        n where query i sees keys up to i + n; None where each sees all.
    alike
        Whether some of queries, keys and values may be the same values.
    between
        What the vector unit does with scores, at last the softmax; nothing where no unit does it.
    mask
        Which of these is the causal mask, that is none where attention is one step.
    """

    table_name: ClassVar[str] = "operation.attention"

    matrices: Count
    heads: Count
    queries: Count
    keys: Count
    depth: Count
    values: Count
    causal: Count | None = None
    alike: bool = False
    between: tuple[Operation, ...] = ()
    mask: Count | None = None

    @property
    def rows(self) -> int:
        """Rows of queries of all heads and images."""
        return self.matrices * self.heads * self.queries

    @property
    def seen(self) -> int:
        """Keys of a matrix that some query sees."""
        return self.keys if self.causal is None else min(self.keys, self.queries + self.causal)

    @property
    def elements(self) -> dict[str, int]:
        """Elements of queries, keys and values that are needed, and of the context."""
        return {
            "queries": self.rows * self.depth,
            "keys": self.matrices * self.seen * self.depth,
            "values": self.matrices * self.seen * self.values,
            "context": self.rows * self.values,
        }


class Operation(Spec):
    """What a network does between its convolutions: pools, sums, functions, moves.

    It is a part of a network's problem, made by `operations`. A *windowed* one computes each output from
    a window over the same map of each input; any other one is a *stream*: what it reads and what it gives are
    rows of values without geometry, read and written once. Whether that is all depends on what it `needs`.

    Attributes
    ----------
    op
        What it does.
    on
        The unit that does it.
    inputs : (C, H, W) each
        What it reads, of one image; a windowed one reads maps as large as its input, or of one pixel.
    output : (C, H, W)
        What it gives, of one image.
    kernel, stride, padding
        The window; zeros around the input are not loaded.
    windowed
        Whether it is.
    needs
        What is on chip at a time. ``piece``: what lies under a tile. ``maps``: all maps of each place, so
        that tiles have all of them. ``all``: everything; where that does not fit, its cost is a lower bound.
        ``order``: what lies under a tile, in runs that are not those of a stream. ``flow``: what one output
        depends on, which does not fit; what is read and given passes in pieces, and its cost is a lower
        bound, too. ``state``: the state of a recurrent layer, what it is computed from, and some weights.
    batch
        Images.
    parameters
        Numbers that were trained, which are read once.
    work
        Operations of the vector unit, of all images.
    macs
        MACs among these.
    across
        Of a local response normalisation, the maps whose squares are added up; 0 where that is not said.
    along
        Axes of which a tile has all, as a value needs all others along them: of a softmax or normalisation.
    recurrence
        Of a recurrent layer that is executed point in time by point in time, its sizes.
    permutation
        Of a move that changes the order of values, that order, where its runs count.
    attention
        Of two products with a softmax between them, which are one operation, what they are.
    """

    table_name: ClassVar[str] = "operation"
    later: ClassVar[tuple[str, ...]] = ("across", "along", "recurrence", "permutation", "attention")

    op: Name
    on: Literal["vector", "host"] = "vector"
    inputs: Annotated[tuple[Shape, ...], Field(min_length=1)]
    output: Shape
    kernel: tuple[Length, Length] = (1, 1)
    stride: tuple[Length, Length] = (1, 1)
    padding: tuple[Pad, Pad, Pad, Pad] = (0, 0, 0, 0)
    windowed: bool = False
    needs: Literal["piece", "maps", "all", "order", "flow", "state"] = "piece"
    batch: Annotated[int, Field(ge=1, le=MAX_SIZE)] = 1
    parameters: Count = 0
    work: Work = 0
    macs: Work = 0
    across: Annotated[int, Field(ge=0, le=MAX_SIZE)] = 0
    along: tuple[Axis, ...] = ()
    recurrence: Recurrence | None = None
    permutation: Permutation | None = None
    attention: Attention | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse windows that do not give the output, and inputs that a windowed operation cannot read."""
        if (self.recurrence is None) == (self.needs == "state"):
            raise InputError(
                "operation.needs", self.needs, "is state where there is a recurrence, and only there"
            )
        if not self.windowed:
            return
        maps = self.output[0]
        for axis, name in ((0, "rows"), (1, "columns")):
            before, after = self.padding[2 * axis : 2 * axis + 2]
            size = self.inputs[0][1 + axis] + before + after
            outputs = (size - self.kernel[axis]) // self.stride[axis] + 1
            if outputs != self.output[1 + axis]:
                limit = f"the windows have {max(0, outputs)} {name}"
                raise InputError("operation.output", list(self.output), limit)
        for shape in self.inputs:
            if shape not in (self.inputs[0], (maps, 1, 1)) or shape[0] != maps:
                limit = f"must be {maps} maps of {self.inputs[0][1]} x {self.inputs[0][2]}, or of one pixel"
                raise InputError("operation.inputs", list(shape), limit)

    @property
    def elements(self) -> int:
        """Values of all that is read and given, of all images and the parameters."""
        return self.batch * (sum(map(prod, self.inputs)) + prod(self.output)) + self.parameters

    @property
    def smallest(self) -> tuple[int, int, int]:
        """Maps, rows and columns of the smallest tile of a windowed one."""
        whole = {*self.along, *(("channels",) if self.needs == "maps" else ())}
        sizes = zip(("channels", "rows", "columns"), self.output, strict=True)
        maps, rows, columns = (size if axis in whole else 1 for axis, size in sizes)
        return maps, rows, columns

    @property
    def least_read(self) -> int:
        """Values read at least: those of the parameters, and of what lies under a window."""
        return self.batch * sum(map(prod, self.touched)) + self.parameters

    @property
    def least(self) -> int:
        """Values read and written at least."""
        return self.least_read + self.batch * prod(self.output)

    @property
    def touched(self) -> tuple[Shape, ...]:
        """The inputs, of those of windows the rows and columns that lie under one."""
        if not self.windowed:
            return self.inputs
        plane = (
            touched(
                self.inputs[0][1 + axis],
                self.output[1 + axis],
                self.kernel[axis],
                self.stride[axis],
                self.padding[2 * axis],
            )
            for axis in (0, 1)
        )
        rows, columns = plane
        return tuple(shape if shape[1:] == (1, 1) else (shape[0], rows, columns) for shape in self.inputs)


@lru_cache(maxsize=4096)
def touched(size: int, outputs: int, kernel: int, stride: int, before: int) -> int:
    """Return how many positions of an axis lie under windows, with so much padding before the first."""
    starts = [place * stride - before for place in range(outputs)]
    ends = [-size, *(start + kernel for start in starts)]  # of the window before each
    return sum(
        max(0, min(size, start + kernel) - max(0, start, end))
        for start, end in zip(starts, ends, strict=False)
    )


class Unmodelled(NamedTuple):
    """An operation that has no cost on a machine, with what it moves and multiplies at least."""

    name: str
    kind: str
    elements: int
    macs: int


def operations(
    graph: NetworkGraph, batch: int | None, unit_of: Callable[[Operation, bool], str]
) -> Iterator[NamedLayer | MatMul | tuple[str, Operation] | Unmodelled]:
    """Yield what a network does, in order: its layers, its operations and what no unit of a machine does.

    Parameters
    ----------
    batch
        Images processed together, when it is not what the network's file says.
    unit_of
        What a machine does an operation with, ``vector`` or ``host``, or "" for nothing; it is told whether
        only a host can do it.
    """
    images = images_of(graph)
    now = images if batch is None else batch
    for op in graph.ops:
        layer = op.spec
        if isinstance(layer, NamedLayer | MatMul):
            yield layer
        elif not _does_nothing(op):
            operation = _operation(layer, [graph.shape(access) for access in op.accesses], images, now)
            if unit := unit_of(operation, isinstance(layer, Opaque)):
                yield layer.name, operation.model_copy(update={"on": unit})
            else:
                yield Unmodelled(layer.name, layer.kind, operation.elements, operation.macs)


def images_of(graph: NetworkGraph) -> int:
    """Return how many images a network processes together, as its file says."""
    convolutions = [op.spec for op in graph.ops if isinstance(op.spec, NamedLayer | MatMul)]
    return max((layer.batch for layer in convolutions), default=1)


def _does_nothing(op: GraphOperation) -> bool:
    """Whether an operation takes neither time nor traffic: its readers find values where they are.

    What leaves the network must be written, so that a concatenation or expansion of it moves values.
    """
    layer = op.spec
    if isinstance(layer, Function):
        return layer.op in PLACEMENTS and not op.leaves
    if isinstance(layer, Reshape):
        return layer.op in VIEWS
    return isinstance(layer, Input) or (isinstance(layer, Map) and layer.op in FREE)


def _is_over_plane(layer: Pool) -> bool:
    """Whether each output of a pool depends on all values of its map: there are no tiles of windows then."""
    ends = (size - before for size, before in zip(layer.kernel, layer.padding[::2], strict=True))
    return layer.output_plane == (1, 1) and all(
        end >= size for end, size in zip(ends, layer.input[1:], strict=True)
    )


def _operation(layer: AnyLayer, given: list[Shape], images: int, batch: int) -> Operation:
    """Return what a layer does, which reads maps of the given shapes."""
    op, outputs = getattr(layer, "op", layer.kind), batch * prod(layer.output)
    name = f"{op}_{layer.kind}" if isinstance(layer, Pool) else op
    alone = [layer.input]
    macs, parameters = macs_of(layer) * batch // images, parameters_of(layer)
    work, inputs, how = outputs, alone, access(layer, given)
    if isinstance(layer, Pool):
        work = outputs * prod(layer.kernel)
        how = "stream" if _is_over_plane(layer) else how
    elif isinstance(layer, Add | Mul):
        fits = all(shape in (layer.input, (layer.input[0], 1, 1)) for shape in given)
        inputs = sorted(given, key=prod, reverse=True) if fits else alone * len(given)
        work = outputs * (len(inputs) - 1)
    elif isinstance(layer, Map):
        work = outputs * ACROSS.get(layer.op, 1)
        if parameters not in (0, layer.output[0], 2 * layer.output[0]):  # which are not those of maps
            how = "stream" if parameters in (1, prod(layer.output)) and how == "window" else "whole"
    elif isinstance(layer, Concat | Padding | Reshape):
        work = 0
    elif isinstance(layer, Slice):
        work, inputs = 0, list(read(layer, given))
    elif isinstance(layer, Function | Opaque):
        work = max(macs, outputs if isinstance(layer, Function) else 0)
        inputs = list(read(layer, given))
        if isinstance(layer, Function) and _is_by_map(layer, given):
            how, inputs, work = "window", sorted(given, key=prod, reverse=True), outputs * -(-work // outputs)
    along: tuple[Axis, ...] = ()
    if isinstance(layer, Function) and layer.along is not None and len(given) == 1 and _has_tiles(layer):
        how, along, work = "window", layer.along, outputs * -(-work // outputs)
    recurrence = layer.recurrence if isinstance(layer, Function) and len(inputs) == 1 else None
    if isinstance(layer, Function) and recurrence is not None:
        work = macs = batch * _products(layer, recurrence)
    response = layer.response if isinstance(layer, Map) else None
    window = layer if how == "window" and isinstance(layer, Window) else None
    return Operation(
        op=name,
        inputs=tuple(inputs),
        output=layer.output,
        kernel=window.kernel if window else (1, 1),
        stride=window.stride if window else (1, 1),
        padding=window.padding if window else (0, 0, 0, 0),
        windowed=how in ("window", "place"),
        needs="state" if recurrence else "order" if isinstance(layer, Reshape) else NEEDS[how],
        batch=batch,
        parameters=parameters,
        work=work,
        macs=macs,
        across=0 if response is None else response.size,
        along=along,
        recurrence=recurrence,
        permutation=layer.permutation if isinstance(layer, Reshape) else None,
    )


def _is_by_map(layer: Function, given: Sequence[Shape]) -> bool:
    """Whether a function of single values also reads one value for each map."""
    shapes = {layer.output, (layer.output[0], 1, 1)}
    return layer.op in BY_VALUE and not layer.parameters and len(shapes) == 2 and set(given) == shapes


def _has_tiles(layer: Function) -> bool:
    """Whether a function along some axes has numbers of which it is known which a tile needs.

    With all maps in a tile they are all, as with one map; those of an instance normalisation are of maps.
    """
    maps, numbers = layer.output[0], layer.parameters
    if numbers == 0 or maps == 1 or "channels" in (layer.along or ()):
        return numbers % maps == 0
    return layer.op == "instance_normalization" and numbers in (maps, 2 * maps)


def _products(layer: Function, told: Recurrence) -> int:
    """Return the MACs of a recurrent layer for an image."""
    given = told.hidden + prod(layer.input) // told.steps
    return told.directions * told.steps * told.hidden * GATES[layer.op] * given
