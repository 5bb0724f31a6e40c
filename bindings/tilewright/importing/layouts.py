"""The order in which tensors are stored: channels before space, whatever order ONNX writes them in.

Exporters of other frameworks put transpositions around convolutions, and compute with channels last between
them. Here every tensor is stored in an order of its own; a transposition changes what is said of a tensor and
moves nothing, and axes of all that follows are those of the order in which it is stored. Where an operation
needs another order, a transposition is made. What is left of an input's is made first of all: it is the order
in which the input is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewright.importing.model import Model, OnnxOperation, Value

Order = tuple[int, ...]
"""For each dimension of a tensor as ONNX writes it, its place among the dimensions as it is stored."""

POINTWISE = (
    "Abs", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "DequantizeLinear", "Dropout", "Elu",
    "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log",
    "LogSoftmax", "Mish", "Neg", "Not", "PRelu", "QuantizeLinear", "Reciprocal", "Relu", "Round",
    "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh",
)  # fmt: skip
"""Operators that keep the shape of their first input, and work in any order."""

SEVERAL = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean",
    "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip
"""Operators that combine values at the same place."""

KEEP_RANK = (
    "CumSum", "Expand", "LayerNormalization", "Resize", "RMSNormalization", "Slice", "Split", "Tile",
    "Upsample",
)  # fmt: skip
"""Operators that keep the dimensions of their first input, and work in any order."""

RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


SAME = "tilewright.Same"
"""What says that a tensor is stored as another one is, whose dimensions of one value stand elsewhere."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of ONNX, what is stored of it, and in which order."""

    stored: Value
    order: Order
    value: Value


def stored(model: Model) -> Layouts:
    """Return the operations of a model on tensors as they are stored, with few transpositions."""
    chosen: dict[str, Order] = {}
    best = Layouts(model, chosen)
    for value in model.inputs:
        if best.moved == 0:
            break
        for order in _candidates(model, value):
            tried = Layouts(model, {**chosen, value.name: order})
            if tried.moved < best.moved:
                best, chosen = tried, {**chosen, value.name: order}
    return best


def _candidates(model: Model, value: Value) -> list[Order]:
    """Return orders in which an input may be stored: last dimension first, or as something transposes to."""
    rank = len(value.shape or ())
    if rank < 3:
        return []
    orders = [(0, *range(2, rank), 1)]
    for operation in model.operations:
        perm = operation.attributes.get("perm", ())
        if operation.operator == "Transpose" and len(perm) == rank:
            orders.append(tuple(perm.index(axis) for axis in range(rank)))
    return list(dict.fromkeys(orders))[:4]


class Layouts:
    """Goes through a model's operations and decides in which order what they give is stored.

    Attributes
    ----------
    operations
        The operations, on stored tensors.
    tensors
        What is stored of each tensor, and in which order.
    outputs
        The tensors that the network gives, stored in the order in which ONNX writes them, by ONNX's names.
    moved
        Values that are moved by transpositions of anything but inputs.
    """

    def __init__(self, model: Model, orders: Mapping[str, Order]) -> None:
        self.operations: list[OnnxOperation] = []
        self.moved = 0
        self.tensors: dict[str, Tensor] = {}
        self.turned: dict[tuple[str, Order], Value] = {}
        self.base: dict[str, tuple[Value, Order]] = {}
        self.nodes: dict[str, str] = {}
        self.batch = next((operation.batch for operation in model.operations), 1)
        self.given = {value.name for value in model.inputs}
        for value in model.inputs:
            self.keep(value)
            if value.name in orders:  # stored like that, and a transposition says so
                order = orders[value.name]
                self.tensors[value.name] = Tensor(self.ordered(value, order), order, value)
        for operation in model.operations:
            unshaped = any(value.shape is None for value in (*operation.given, *_results(operation)))
            rule = RULES.get(operation.operator, as_written)
            (as_written if unshaped or operation.fault else rule)(self, operation)
        moved = self.moved
        self.outputs = {
            name: self.written(self.tensors[name].value).name
            for name in model.outputs
            if name in self.tensors and name not in self.given
        }
        self.moved = moved  # as results are stored in the order in which they are wanted

    def keep(self, value: Value, order: Order | None = None, images: int | None = -1) -> Value:
        """Note in which order a tensor is stored, as ONNX writes it by default; return what is stored."""
        stored, shape = value, value.shape
        if order is None:
            order = tuple(range(len(shape or ())))
        if shape is not None and len(shape) != len(order):  # a file may state what cannot be
            order, images = tuple(range(len(shape))), -1
        if shape is not None:
            shape = _placed(shape, order)
        stored = replace(value, shape=shape, images=_images(shape, self.batch) if images == -1 else images)
        self.tensors[value.name] = Tensor(stored, order, value)
        return stored

    def of(self, value: Value) -> Tensor:
        """Return what is stored of a tensor."""
        return self.tensors[value.name]

    def written(self, value: Value) -> Value:
        """Return a tensor in the order in which ONNX writes it."""
        return self.ordered(value, tuple(range(len(value.shape or ()))))

    def ordered(self, value: Value, order: Order) -> Value:
        """Return a tensor in an order, with a transposition if that moves anything."""
        tensor = self.tensors[value.name]
        source = tensor.stored
        if tensor.order == order or source.shape is None:
            return source
        axes = _placed(tensor.order, order)
        if source.name in self.base:
            source, before = self.base[source.name]
            axes = tuple(before[axis] for axis in axes)
        if axes == tuple(range(len(axes))):
            return source
        if (source.name, axes) not in self.turned:
            self.turned[source.name, axes] = self._turned(source, axes, value.name)
        return self.turned[source.name, axes]

    def cost(self, value: Value, order: Order) -> int:
        """Return how many values are moved to store a tensor in an order."""
        tensor = self.tensors[value.name]
        shape = tensor.stored.shape or ()
        return prod(shape) if _moves(shape, _placed(tensor.order, order)) else 0

    def _turned(self, source: Value, axes: Order, name: str) -> Value:
        assert source.shape is not None
        shape = tuple(source.shape[axis] for axis in axes)
        images = None if source.images is None else axes.index(source.images)
        called = name if name not in self.base and name != source.name else f"{name}@{len(self.base)}"
        result = replace(source, name=called, shape=shape, images=images)
        self.base[called] = source, axes
        moves = _moves(source.shape, axes)
        operator, attributes = ("Transpose", {"perm": list(axes)}) if moves else (SAME, {})
        self.operations.append(
            OnnxOperation(self.nodes.get(name, ""), operator, attributes, (source,), (result,), self.batch)
        )
        if moves and source.name not in self.given:
            self.moved += prod(shape)
        return result

    def add(
        self,
        operation: OnnxOperation,
        inputs: Mapping[str, Value],
        outputs: Sequence[Value | None],
        **attributes: Any,
    ) -> None:
        """Add an operation on stored tensors, those given in place of what it reads, by their names."""
        self.operations.append(
            replace(
                operation,
                inputs=tuple(
                    value if value is None else inputs.get(value.name, value) for value in operation.inputs
                ),
                outputs=tuple(outputs),
                attributes={**operation.attributes, **attributes},
            )
        )


def _results(operation: OnnxOperation) -> list[Value]:
    return [value for value in operation.outputs if value is not None]


def _placed(values: Sequence[int], order: Order) -> tuple[int, ...]:
    """Return what is said of a tensor's dimensions by their places as it is stored."""
    placed = [0] * len(order)
    for value, place in zip(values, order, strict=True):
        placed[place] = value
    return tuple(placed)


def _moves(shape: Sequence[int], axes: Order) -> bool:
    """Whether dimensions of more than one value change their order."""
    large = [axis for axis in axes if shape[axis] > 1]
    return large != sorted(large)


def _images(shape: Sequence[int] | None, batch: int) -> int | None:
    """Return the dimension along which images probably lie, where nothing else tells."""
    if not shape:
        return None
    if shape[0] == batch:
        return 0
    if batch == 1:
        return None
    if batch in shape:
        return list(shape).index(batch)
    return 0 if shape[0] % batch == 0 else None


# Rules: what an operation becomes ------------------------------------------------------------------


def as_written(layouts: Layouts, operation: OnnxOperation) -> None:
    """Let an operation take and give tensors as ONNX writes them."""
    inputs = {value.name: layouts.written(value) for value in operation.given}
    layouts.add(
        operation, inputs, [value if value is None else layouts.keep(value) for value in operation.outputs]
    )


def transposed(layouts: Layouts, operation: OnnxOperation) -> None:
    """Say of the same stored tensor that its dimensions are others."""
    (source,), (result,) = operation.given, _results(operation)
    tensor = layouts.of(source)
    perm = operation.attributes.get("perm", range(len(tensor.order))[::-1])
    order = tuple(tensor.order[axis] for axis in perm)
    layouts.tensors[result.name] = Tensor(tensor.stored, order, result)
    layouts.nodes[result.name] = operation.name


def _like(layouts: Layouts, operation: OnnxOperation, attributes: Mapping[str, Any]) -> None:
    """Give what an operation computes in the order of its first input."""
    source = operation.given[0]
    tensor = layouts.of(source)
    outputs = [
        value if value is None else layouts.keep(value, tensor.order, tensor.stored.images)
        for value in operation.outputs
    ]
    layouts.add(operation, {source.name: tensor.stored}, outputs, **attributes)


def pointwise(layouts: Layouts, operation: OnnxOperation) -> None:
    """Compute each value, or along any dimension, in the order of the input."""
    first = operation.inputs[0]
    rank = len(first.shape or ()) if first is not None else -1
    if len(operation.given) != 1 or operation.given[0] is not first or not _all_of_rank(operation, rank):
        as_written(layouts, operation)
        return
    mapped: dict[str, Any] = {}
    if (axes := _normalised(operation, rank)) is not None:
        mapped["along"] = sorted(layouts.of(first).order[axis] for axis in axes)
    axis = operation.attributes.get("axis", 0 if operation.operator == "Split" else None)
    if operation.operator in ("LogSoftmax", "Softmax", "Split") and axis is not None and -rank <= axis < rank:
        mapped["axis"] = layouts.of(first).order[axis % rank]
    if operation.operator == "Slice" and (begins := _begins(operation, first.shape or ())) is not None:
        mapped["begins"] = list(_placed(begins, layouts.of(first).order))
    _like(layouts, operation, mapped)


def _normalised(operation: OnnxOperation, rank: int) -> tuple[int, ...] | None:
    """Return the dimensions along which an operation normalises by all others; None if it does not."""
    axis = operation.attributes.get("axis", -1)
    if axis is None or not -rank <= axis < rank:
        return None
    if operation.operator in ("LogSoftmax", "Softmax"):
        return (axis % rank,)
    several = operation.operator in ("LayerNormalization", "RMSNormalization")
    return tuple(range(axis % rank, rank)) if several else None


def _begins(operation: OnnxOperation, shape: Sequence[int]) -> list[int] | None:
    """Return where a slice begins along each dimension; None where it is not known, or leaves gaps."""

    def numbers(name: str, place: int, default: Sequence[int]) -> list[int] | None:
        if (given := operation.attributes.get(name)) is not None:
            return list(given)
        value = operation.inputs[place] if place < len(operation.inputs) else None
        if value is None:
            return list(default)
        return None if value.data is None else [int(number) for number in value.data.ravel()]

    starts = numbers("starts", 1, ())
    axes = numbers("axes", 3, range(len(starts or ())))
    steps = numbers("steps", 4, [1] * len(starts or ()))
    if starts is None or axes is None or steps is None or set(steps) - {1} or len(axes) != len(starts):
        return None
    begins = [0] * len(shape)
    for axis, start in zip(axes, starts, strict=True):
        if not -len(shape) <= axis < len(shape):
            return None
        size = shape[axis]
        begins[axis] = min(max(start + size if start < 0 else start, 0), size)
    return begins


def _all_of_rank(operation: OnnxOperation, rank: int) -> bool:
    return all(len(value.shape or ()) == rank for value in (*operation.given, *_results(operation)))


def padded(layouts: Layouts, operation: OnnxOperation) -> None:
    """Add zeros along the dimensions that a tensor is stored in."""
    first = operation.inputs[0]
    amounts, _, axes = (operation.inputs[1:] + (None,) * 3)[:3]
    pads = operation.attributes.get("pads") if amounts is None else amounts.data
    if first is None or operation.given != [first] or pads is None or axes is not None:
        as_written(layouts, operation)
        return
    order = layouts.of(first).order
    if len(pads) != 2 * len(order):
        as_written(layouts, operation)
        return
    operation = replace(
        operation, inputs=(first, None, operation.inputs[2] if len(operation.inputs) > 2 else None)
    )
    pads = [int(pad) for pad in pads]
    halves = (_placed(pads[: len(order)], order), _placed(pads[len(order) :], order))
    _like(layouts, operation, {"pads": [pad for half in halves for pad in half]})


def combined(layouts: Layouts, operation: OnnxOperation) -> None:
    """Combine values at the same place, in the order that moves least."""
    (result,) = _results(operation)[:1]
    rank = len(result.shape or ())
    if not _all_of_rank(operation, rank) or len(operation.outputs) > 1:
        as_written(layouts, operation)
        return
    order = _cheapest(layouts, operation.given)
    inputs = {value.name: layouts.ordered(value, order) for value in operation.given}
    for value in operation.fixed:
        if value.shape is not None and len(value.shape) <= rank and prod(value.shape) > 1:
            before = rank - len(value.shape)
            if operation.attributes.get("broadcast"):  # of operator sets before 7
                before = min(operation.attributes.get("axis", before), before)
            ones = rank - len(value.shape) - before
            shape = _placed((*(1,) * before, *value.shape, *(1,) * ones), order)
            # Of a causal mask rows are stored last, and keys before them.
            causal = value.causal if order[-2:] == (rank - 1, rank - 2) else None
            inputs[value.name] = replace(value, shape=shape, data=None, causal=causal)
    images = next(iter(inputs.values())).images
    layouts.add(operation, inputs, [layouts.keep(result, order, images)])


def _cheapest(layouts: Layouts, values: Sequence[Value]) -> Order:
    """Return the order of one of some tensors that the others take least to be stored in."""
    orders = dict.fromkeys(layouts.of(value).order for value in values)
    return min(orders, key=lambda order: sum(layouts.cost(value, order) for value in values))


def concatenated(layouts: Layouts, operation: OnnxOperation) -> None:
    """Concatenate along a dimension that tensors are stored in; some may be numbers of the file."""
    (result,) = _results(operation)
    rank, axis = len(result.shape or ()), operation.attributes.get("axis", 1)
    fixed = all(value.shape is not None and len(value.shape) == rank for value in operation.fixed)
    if not _all_of_rank(operation, rank) or not fixed or not -rank <= axis < rank:
        as_written(layouts, operation)
        return
    order = _cheapest(layouts, operation.given)
    inputs = {value.name: layouts.ordered(value, order) for value in operation.given}
    for value in operation.fixed:
        inputs[value.name] = replace(value, shape=_placed(value.shape or (), order), data=None)
    images = next(iter(inputs.values())).images
    layouts.add(operation, inputs, [layouts.keep(result, order, images)], axis=order[axis % rank])


def reduced(layouts: Layouts, operation: OnnxOperation) -> None:
    """Reduce dimensions that a tensor is stored in."""
    if len(operation.given) > 1:  # axes that depend on the image
        as_written(layouts, operation)
        return
    (source,), (result,) = operation.given, _results(operation)
    tensor, rank = layouts.of(source), len(source.shape or ())
    axes = operation.attributes.get("axes")
    if len(operation.inputs) > 1 and operation.inputs[1] is not None:
        axes = operation.inputs[1].data
        if axes is None:
            as_written(layouts, operation)
            return
    if axes is None or len(axes) == 0:
        if operation.attributes.get("noop_with_empty_axes"):
            as_written(layouts, operation)
            return
        axes = range(rank)
    gone = {int(axis) % rank for axis in axes}
    order, images = tensor.order, tensor.stored.images
    if images is not None and order.index(images) in gone:
        images = None
    if not operation.attributes.get("keepdims", 1):
        left = [place for axis, place in enumerate(order) if axis not in gone]
        images = sorted(left).index(images) if images in left else None
        order = tuple(sorted(left).index(place) for place in left)
    stored = layouts.keep(result, order, images)
    reduced_axes = sorted(tensor.order[axis] for axis in gone)
    fewer = replace(operation, inputs=(operation.inputs[0],))
    layouts.add(fewer, {source.name: tensor.stored}, [stored], axes=reduced_axes)


def reshaped(layouts: Layouts, operation: OnnxOperation) -> None:
    """Join and part dimensions as they are stored, if those that are joined are neighbours."""
    source, (result,) = operation.given[0], _results(operation)
    tensor = layouts.of(source)
    assert source.shape is not None and result.shape is not None
    stored, before = tensor.stored, tensor.order
    groups = _groups(source.shape, result.shape)
    if not groups:
        groups = [(list(range(len(source.shape))), list(range(len(result.shape))))]
    spans = [_span(inner, source.shape, before) for inner, _ in groups] if before else [(0.0, 0)]
    if any(span is None for span in spans):
        before = _side_by_side([inner for inner, _ in groups], source.shape, before)
        stored = layouts.ordered(source, before)
        spans = [_span(inner, source.shape, before) for inner, _ in groups]
    order = [0] * len(result.shape)
    place = 0
    for _, (_, outer) in sorted(zip(spans, groups, strict=True), key=lambda each: each[0] or (0, 0)):
        for dimension in outer:
            order[dimension] = place
            place += 1
    images = None if stored.images is None or not before else before.index(stored.images)
    images = _images_after(images, source.shape, result.shape, groups, layouts.batch)
    kept = layouts.keep(result, tuple(order), None if images is None else order[images])
    layouts.add(operation, {source.name: stored}, [kept])


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return which dimensions become which, as few at a time as hold the same numbers of values."""
    if prod(before) != prod(after) or not prod(before):
        return []
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        if groups and after[j] == 1 and before[i] > 1 and len(before) < len(after):
            groups[-1][1].append(j)  # a new dimension of one value stays with what is before it
            j += 1
            continue
        inner, outer = [i], [j]
        one, other = before[i], after[j]
        while one != other:
            if one < other:
                i += 1
                inner.append(i)
                one *= before[i]
            else:
                j += 1
                outer.append(j)
                other *= after[j]
        groups.append((inner, outer))
        i, j = i + 1, j + 1
    if groups:  # what is left are dimensions of one value
        groups[-1][0].extend(range(i, len(before)))
        groups[-1][1].extend(range(j, len(after)))
    return groups


def _span(inner: Sequence[int], shape: Sequence[int], order: Order) -> tuple[float, int] | None:
    """Return where dimensions lie as they are stored, None unless side by side and in their order."""
    large = sorted(order[axis] for axis in range(len(shape)) if shape[axis] > 1)
    places = [large.index(order[axis]) for axis in inner if shape[axis] > 1]
    if not places:
        before = sum(place < order[inner[0]] for place in large)
        return before - 0.5, order[inner[0]]
    return (places[0], 0) if places == list(range(places[0], places[0] + len(places))) else None


def _side_by_side(groups: Sequence[Sequence[int]], shape: Sequence[int], order: Order) -> Order:
    """Return an order with the dimensions of each group side by side, the groups as they are stored."""

    def place(inner: Sequence[int]) -> int:
        return min(
            (order[axis] for axis in inner if shape[axis] > 1), default=min(order[axis] for axis in inner)
        )

    return _inverse([axis for inner in sorted(groups, key=place) for axis in inner])


def _images_after(
    axis: int | None,
    before: Sequence[int],
    after: Sequence[int],
    groups: Sequence[tuple[list[int], list[int]]],
    batch: int,
) -> int | None:
    """Return along which dimension images lie in another shape."""
    for inner, outer in groups:
        if axis in inner:
            first = all(before[each] == 1 for each in inner[: inner.index(axis)])
            for dimension in outer if first else []:
                if after[dimension] == batch or (batch > 1 and after[dimension] % batch == 0):
                    return dimension
                if after[dimension] > 1:
                    return None
    return None


# Matrices ------------------------------------------------------------------------------------------


def multiplied(layouts: Layouts, operation: OnnxOperation) -> None:
    """Multiply matrices with what is summed over before the rows, as channels stand before space."""
    first, second = operation.inputs[:2]
    if first is None or second is None or min(len(each.shape or ()) for each in (first, second)) < 2:
        as_written(layouts, operation)
    elif first.fixed or second.fixed:
        _by_weights(layouts, operation, second if first.fixed else first, first.fixed)
    else:
        _by_each_other(layouts, operation, first, second)


def _by_weights(layouts: Layouts, operation: OnnxOperation, source: Value, second: bool) -> None:
    (result,), rank = _results(operation), len(source.shape or ())
    turned = operation.attributes.get("transB" if second else "transA", 0)
    summed = rank - 1 if second == bool(turned) else rank - 2
    if len(result.shape or ()) != rank or (turned and rank != 2):
        as_written(layouts, operation)
        return
    tensor = layouts.of(source)
    assert source.shape is not None
    images = None if tensor.stored.images is None else tensor.order.index(tensor.stored.images)
    alone = images is not None and images != summed and source.shape[images] == layouts.batch
    first = [images] if alone and images is not None else []
    rest = sorted(
        (axis for axis in range(rank) if axis != summed and axis not in first),
        key=lambda axis: tensor.order[axis],
    )
    order = _inverse([*first, summed, *rest])
    stored = layouts.ordered(source, order)
    # Columns of the result stand where rows of a transposed matrix stood.
    places = order if summed == (rank - 2 if second else rank - 1) else order[:-2] + order[:-3:-1]
    layouts.add(operation, {source.name: stored}, [layouts.keep(result, places, stored.images)])


def _by_each_other(layouts: Layouts, operation: OnnxOperation, first: Value, second: Value) -> None:
    (result,), rank = _results(operation), len(first.shape or ())
    same = first.shape is not None and second.shape is not None and first.shape[:-2] == second.shape[:-2]
    if not same or operation.attributes.get("transA") or operation.attributes.get("transB"):
        as_written(layouts, operation)
        return
    as_rows = tuple(range(rank))
    as_columns = (*range(rank - 2), rank - 1, rank - 2)
    left = layouts.ordered(first, as_columns)
    order = min(as_rows, as_columns, key=lambda order: layouts.cost(second, order))
    inputs = {first.name: left, second.name: layouts.ordered(second, order)}
    outputs = [layouts.keep(result, as_columns, left.images)]
    layouts.add(operation, inputs, outputs, transposed=order == as_columns)


def _inverse(axes: Sequence[int]) -> Order:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def recurrent(layouts: Layouts, operation: OnnxOperation) -> None:
    """Give what a recurrent layer computes with images first and time last."""
    outputs: list[Value | None] = []
    for value in operation.outputs:
        if value is None or operation.attributes.get("layout"):
            outputs.append(value and layouts.keep(value))
            continue
        order = (3, 1, 0, 2) if len(value.shape or ()) == 4 else (1, 0, 2)
        outputs.append(layouts.keep(value, order, 0))
    inputs = {value.name: layouts.of(value).stored for value in operation.given}
    layouts.add(operation, inputs, outputs, **_times(layouts, operation))


def _times(layouts: Layouts, operation: OnnxOperation) -> dict[str, Any]:
    """Return how many points in time a recurrent operation reads, and whether they are stored last."""
    first, axis = operation.inputs[0], int(bool(operation.attributes.get("layout")))
    if first is None or first.shape is None or len(first.shape) != 3:
        return {}
    order = layouts.of(first).order
    return {"steps": first.shape[axis], "reads_time_last": order[axis] > order[2]}


RULES: Mapping[str, Callable[[Layouts, OnnxOperation], None]] = {
    "Transpose": transposed,
    "Pad": padded,
    "Concat": concatenated,
    **dict.fromkeys((*POINTWISE, *KEEP_RANK), pointwise),
    **dict.fromkeys(SEVERAL, combined),
    **dict.fromkeys(RESHAPES, reshaped),
    **dict.fromkeys(("MatMul", "Gemm"), multiplied),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    **dict.fromkeys(
        (
            "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
            "ReduceProd", "ReduceSum", "ReduceSumSquare",
        ),
        reduced,
    ),
}  # fmt: skip
"""What operators become; all others are left as ONNX writes them."""
