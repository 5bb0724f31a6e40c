"""What an ONNX file holds of a network: its operations in order, shapes, and numbers where they are few."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    inliner,
    numpy_helper,
    shape_inference,
)
from onnx.reference import ReferenceEvaluator

from tilewright.core.files import exists
from tilewright.importing.formats import format_of, translated
from tilewright.importing.quantised import Bits, float_form, operand_bits, packed_weights, result_type
from tilewright.importing.sequences import GIVE_TENSORS, Sequences
from tilewright.importing.sequences import WRITERS as ON_SEQUENCES
from tilewright.importing.standard_forms import NEWEST, body_of, standard_form
from tilewright.spec.errors import InputError
from tilewright.spec.layer import MAX_PLANE

MAX_BYTES = 1_000_000_000
"""Largest ONNX file that is read."""

MAX_NODES = 100_000
"""Most nodes of an ONNX graph; most of them compute shapes or hold weights and become no layers."""

MAX_COMPUTED = 4096
"""Most numbers of a tensor that are looked at: shapes and padding are small, weights are of no interest."""

SEQUENCE = re.compile("seq|time|len|frame|step|token", re.IGNORECASE)
"""Names of first dimensions that are no images."""

COMPUTED = re.compile(
    "Abs|Add|And|Cast|Ceil|Concat|Constant|ConstantOfShape|Div|Equal|Expand|EyeLike|Flatten|"
    "Floor|Gather|Greater|GreaterOrEqual|Identity|Less|LessOrEqual|Max|Min|Mod|Mul|Neg|Not|Or|"
    "Pad|Pow|Range|ReduceMax|ReduceMin|ReduceProd|ReduceSum|Reshape|Round|Shape|Size|Slice|Split|"
    "Sqrt|Squeeze|Sub|Tile|Transpose|Trilu|Unsqueeze|Where"
)
"""Operators that exporters compute shapes with; none takes long for few numbers."""

SAME_NUMBERS = (
    "Cast",
    "DequantizeLinear",
    "Identity",
    "QuantizeLinear",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
"""Operators that give the numbers of their first input, in other types or another order."""

BY_SIZES = ("Reshape", "Split", "Squeeze", "Unsqueeze")
"""Operators that do the same whatever their second input is, if the sizes of what they give are known."""

PLAIN = (
    AttributeProto.INT,
    AttributeProto.INTS,
    AttributeProto.FLOAT,
    AttributeProto.FLOATS,
    AttributeProto.STRING,
    AttributeProto.STRINGS,
)
"""Types of the attributes that say how an operator works."""


HIDDEN = -10_000
"""Numbers of a mask that are not larger hide what they are added to from a softmax."""


def causal_offset(data: NDArray[Any]) -> int | None:
    """Return n if row i of a matrix has zeros up to column i + n and hides all behind; None if it does not.

    All columns of the last row are zeros, and the first row has one.
    """
    if data.ndim < 2 or prod(data.shape[:-2]) != 1 or data.dtype.kind != "f" or not data.size:
        return None
    rows, columns = data.shape[-2:]
    offset = columns - rows
    matrix = data.reshape(rows, columns)
    if rows < 2 or offset < 0 or matrix[-1, 0] != 0 or not matrix[0, -1] <= HIDDEN:
        return None
    seen = np.tri(rows, columns, offset, dtype=np.bool_)
    return offset if not matrix[seen].any() and (matrix[~seen] <= HIDDEN).all() else None


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: its name, shape, and values where they are few.

    Attributes
    ----------
    shape
        Sizes with the batch, None where they are not known.
    fixed
        Whether it is the same for all images, as weights and shapes are.
    data
        Its numbers, if it is fixed and they are few.
    images
        The dimension along which images lie, first in it if there are more in it; None if there is none.
    root
        Name of the tensor whose numbers it holds, perhaps in other types or another order.
    causal
        Of a matrix of numbers: n where row i has zeros up to column i + n, and large negative numbers behind.
    """

    name: str
    shape: tuple[int, ...] | None
    fixed: bool
    data: NDArray[Any] | None = None
    images: int | None = 0
    root: str = ""
    causal: int | None = None


@dataclass(frozen=True)
class OnnxOperation:
    """A node that computes something from the network's input.

    Attributes
    ----------
    name
        The node's, or that of its first output where it has none.
    operator
        Its type, with a domain unless it is one of the standard operators, as far as they are known.
    inputs, outputs
        In the operator's order; None for optional ones that are left out and outputs that nothing reads.
    batch
        Images.
    fault
        What ONNX says is wrong with it.
    types
        ONNX's numbers of the types of inputs and outputs, by tensors' names.
    bits
        Widths of inputs, weights and outputs, if it is quantised.
    """

    name: str
    operator: str
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    batch: int
    fault: str = ""
    types: Mapping[str, int] = field(default_factory=dict)
    bits: Bits | None = None

    @property
    def given(self) -> list[Value]:
        """The inputs that other operations compute."""
        return [value for value in self.inputs if value is not None and not value.fixed]

    @property
    def fixed(self) -> list[Value]:
        """The inputs that are the same for all images."""
        return [value for value in self.inputs if value is not None and value.fixed]


@dataclass(frozen=True)
class Model:
    """An ONNX file, or one of Caffe that has become one.

    Attributes
    ----------
    producer
        The program that wrote it.
    inputs
        Those that outputs depend on, the one with images first.
    outputs
        Names of the tensors that the network gives.
    operations
        In an order of execution; those that nothing depends on are left out.
    assumed
        Names of tensors whose sizes nothing tells; they are taken to be those of what they are computed from.
    """

    producer: str
    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    operations: tuple[OnnxOperation, ...]
    assumed: tuple[str, ...] = ()


def read(
    path: Path, sizes: Mapping[str, Sequence[int]], *, allow_unknown: bool = False, batched: bool = True
) -> Model:
    """Read a file with a network; weights may be missing, as only their shapes count.

    Parameters
    ----------
    sizes
        Sizes of inputs, in place of those that the file states, and of tensors of which it states none, by
        their names.
    allow_unknown
        Take operations that ONNX finds a mistake in, and sizes that nothing tells.
    batched
        Whether images lie along the first of several dimensions of the inputs; else there is one.

    Raises
    ------
    InputError
        For files that are none, and graphs that are no networks.
    """
    proto = translated(path, sizes, allow_unknown=allow_unknown)
    if proto is None:
        proto = _parsed(path)
    form = format_of(path)
    if form is not None and form.fixed_shapes:
        sizes = {}  # they have been compared with the file's
    nodes = _live(proto.graph, allow_unknown)
    images = _inputs(proto.graph, nodes, sizes)
    reader = _Reader(proto, nodes, images, sizes, allow_unknown, batched)
    outputs = tuple(value.name for value in proto.graph.output)
    operations = _needed([operation for node in nodes for operation in reader.operations(node)], outputs)
    used = {value.name for operation in operations for value in operation.given}
    given = tuple(reader.values[image.name] for image in images if image.name in used or not used)
    reader.check_outputs()
    return Model(proto.producer_name, given, outputs, tuple(operations), tuple(reader.assumed))


def _needed(operations: Sequence[OnnxOperation], outputs: Sequence[str]) -> list[OnnxOperation]:
    """Return the operations on whose values outputs depend, without what they give that nothing reads."""
    needed = set(outputs).union(value.name for each in operations for value in each.given)
    kept = []
    for operation in reversed(operations):
        given = tuple(value if value and value.name in needed else None for value in operation.outputs)
        kept.append(replace(operation, outputs=given))
    needed, found = set(outputs), []
    for operation in kept:
        if any(value is not None and value.name in needed for value in operation.outputs):
            needed.update(value.name for value in operation.given)
            found.append(operation)
    return found[::-1]


def _parsed(path: Path) -> ModelProto:
    if not (exists(path) and path.is_file()):
        raise InputError("network", str(path), "no such file")
    size = path.stat().st_size
    if size > MAX_BYTES:
        limit = f"at most {MAX_BYTES} bytes; weights are not needed and may be in files of their own"
        raise InputError("file size", size, limit)
    try:
        proto = ModelProto.FromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise InputError("file", path.name, f"is not ONNX, or cut off: {error}") from None
    if not proto.graph.node:
        raise InputError("file", path.name, "is not ONNX, or cut off: it holds no operators")
    if proto.functions:
        try:
            proto = inliner.inline_local_functions(proto)
        except Exception as error:  # of any kind; onnx says nothing on it
            raise InputError("functions", len(proto.functions), f"cannot be inlined: {error}") from None
    if len(proto.graph.node) > MAX_NODES:
        raise InputError("graph.node", len(proto.graph.node), f"at most {MAX_NODES} nodes")
    if any(isinstance(text, bytes) for text in _texts(proto)):
        raise InputError("file", path.name, "is damaged: it holds names that are not UTF-8 text")
    for entry in (*proto.graph.node, *proto.opset_import):
        if entry.domain == "ai.onnx":  # another name of the standard operators
            entry.domain = ""
    newest = max((entry.version for entry in proto.opset_import if not entry.domain), default=0)
    if newest > (known := defs.onnx_opset_version()):
        limit = f"onnx {onnx.__version__} knows operators up to {known}; `pip install -U onnx` may know these"
        raise InputError("opset_import", newest, limit)
    has_standard = any(entry.domain == "" for entry in proto.opset_import)
    if not has_standard and any(node.domain == "" for node in proto.graph.node):
        raise InputError(
            "opset_import", path.name, "does not say which version its operators are of, or is cut off"
        )
    return proto


def _texts(proto: ModelProto) -> Iterator[str | bytes]:
    """Yield all names of a file; those that are no text are bytes."""
    graph = proto.graph
    yield proto.producer_name
    yield from (entry.domain for entry in proto.opset_import)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (each.dim_param for each in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _fixed_names(graph: onnx.GraphProto) -> set[str]:
    names = {tensor.name for tensor in graph.initializer}
    return names | {tensor.values.name for tensor in graph.sparse_initializer}


def _name(node: NodeProto) -> str:
    return node.name or next(filter(None, node.output), "without a name")


def _captured(node: NodeProto) -> list[str]:
    """Return the names that the subgraphs of a node take from around it."""
    names: list[str] = []
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = _fixed_names(graph) | {value.name for value in graph.input}
            for each in graph.node:
                names += [name for name in (*each.input, *_captured(each)) if name and name not in inside]
                inside.update(each.output)
            names += [value.name for value in graph.output if value.name not in inside]
    return list(dict.fromkeys(names))


def _nested(node: NodeProto) -> bool:
    return any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in node.attribute)


def _live(graph: onnx.GraphProto, allow_unknown: bool) -> list[NodeProto]:
    """Return the nodes that an output depends on, refusing graphs that cannot be executed in order."""
    nested = [node for node in graph.node if _nested(node) and node.op_type != "If"]
    if nested and not allow_unknown:
        raise _depends_on_values(nested)
    known = _fixed_names(graph) | {value.name for value in graph.input}
    everything = {name for node in graph.node for name in node.output}
    for node in graph.node:
        for name in filter(None, (*node.input, *_captured(node))):
            if name in known:
                continue
            if name in everything:
                limit = (
                    f"is read by node {_name(node)} before it is computed: a cycle, or no order of execution"
                )
            else:
                limit = f"is read by node {_name(node)}, but nothing gives it"
            raise InputError("graph.node.input", name, limit)
        for name in filter(None, node.output):
            if name in known:
                raise InputError(
                    "graph.node.output", name, f"is given by node {_name(node)} and already before"
                )
            known.add(name)
    given = {value.name for value in graph.input}
    needed = {value.name for value in graph.output}
    live = []
    for node in reversed(graph.node):
        if needed.intersection(filter(None, node.output)):
            needed.update(_value_inputs(node, given), _captured(node))
            live.append(node)
    return live[::-1]


def _value_inputs(node: NodeProto, given: Container[str]) -> list[str]:
    """Return the inputs of a node of which more is read than the type, as CastLike does of a network's."""
    if node.op_type == "CastLike" and not node.domain and len(node.input) == 2 and node.input[1] in given:
        return [node.input[0]]
    return list(node.input)


def _depends_on_values(nodes: Sequence[NodeProto]) -> InputError:
    """Return what says that nodes decide by values what is executed."""
    limit = "have subgraphs; what is executed must not depend on values; --allow-unknown keeps them as opaque"
    return InputError("graph.node", [f"{_name(node)} ({node.op_type})" for node in nodes], limit)


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """Return a node, with its subgraphs, that reads and gives tensors of other names."""
    found = NodeProto()
    found.CopyFrom(node)
    found.input[:] = [names.get(name, name) for name in node.input]
    found.output[:] = [names.get(name, name) for name in node.output]
    for attribute in found.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                inner.CopyFrom(_renamed(inner, names))
            for value in graph.output:
                value.name = names.get(value.name, value.name)
    return found


def _inputs(
    graph: onnx.GraphProto, nodes: Sequence[NodeProto], sizes: Mapping[str, Sequence[int]]
) -> list[onnx.ValueInfoProto]:
    """Return the network's inputs with all of their sizes, first the one that holds images."""
    fixed = _fixed_names(graph)
    names = {value.name for value in graph.input}
    read = {name for node in nodes for name in (*_value_inputs(node, names), *_captured(node))}
    inputs = {value.name: value for value in graph.input if value.name not in fixed and value.name in read}
    computed = {name for node in nodes for name in node.output}
    for name in sizes:
        if name not in inputs and name not in computed:
            raise InputError("--input", name, f"no such input; there are: {', '.join(inputs) or 'none'}")
    if not inputs:
        raise InputError("graph.input", [], "a network has an input that its outputs depend on")
    named = _sizes_by_name(inputs.values(), sizes)
    found = [_sized(value, sizes, named) for value in inputs.values()]
    found.sort(key=lambda value: len(value.type.tensor_type.shape.dim) < 2)
    return found


def _sizes_by_name(
    inputs: Iterable[onnx.ValueInfoProto], sizes: Mapping[str, Sequence[int]]
) -> dict[int | str, int]:
    """Return the sizes that the file has names for and that are given for an input."""
    found: dict[int | str, int] = {}
    for value in inputs:
        stated = _stated(value.type.tensor_type) or []
        pairs = zip(stated, sizes.get(value.name, ()), strict=False)
        found |= {name: size for name, size in pairs if isinstance(name, str) and name != "?"}
    return found


def _sized(
    value: onnx.ValueInfoProto, sizes: Mapping[str, Sequence[int]], named: Mapping[int | str, int]
) -> onnx.ValueInfoProto:
    """Return an input with all of its sizes; of images that are left open there is one.

    Parameters
    ----------
    sizes, named
        By input, and by the names that the file has for some.
    """
    name = value.name
    if not value.type.HasField("tensor_type"):
        raise InputError("graph.input", name, "is no tensor")
    tensor = value.type.tensor_type
    stated = _stated(tensor)
    if stated is None and name not in sizes:
        limit = f"has no shape; give it, for example --input {name}=1,3,224,224"
        raise InputError("graph.input", name, limit)
    given = [named.get(size, size) for size in sizes.get(name, stated or ())]
    if len(given) > 1 and isinstance(given[0], str) and not SEQUENCE.search(given[0]):
        given[0] = given[0] if tensor.shape.dim[0].HasField("dim_value") else 1  # 0 may mean none
    if stated is not None and len(given) != len(stated):
        limit = f"the file has {name}={','.join(map(str, stated))}, of {len(stated)} dimensions"
        raise InputError("--input", f"{name}={','.join(map(str, given))}", limit)
    if _holds_nothing(tensor) and name not in sizes:
        return value
    known = [size for size in given if isinstance(size, int)]
    if len(known) < len(given):
        anything = [f"dimension {axis} ({size})" for axis, size in enumerate(given) if isinstance(size, str)]
        example = ",".join(
            str(size if isinstance(size, int) else (1, 3, 224, 224)[min(axis, 3)])
            for axis, size in enumerate(given)
        )
        limit = f"{' and '.join(anything)} can be of any size; give all, for example --input {name}={example}"
        raise InputError(f"graph.input.{name}", given, limit)
    if max(known, default=1) > MAX_PLANE:
        raise InputError(f"graph.input.{name}", known, f"must have no size above {MAX_PLANE}")
    return helper.make_tensor_value_info(name, tensor.elem_type, known)


def _holds_nothing(tensor: TypeProto.Tensor) -> bool:
    """Whether an input is a list of no integers, such as of no axes.

    Of other inputs exporters write 0 where they mean any size.
    """
    sizes = tensor.shape.dim
    whole = tensor.elem_type in (TensorProto.INT32, TensorProto.INT64)
    return whole and len(sizes) == 1 and sizes[0].HasField("dim_value") and sizes[0].dim_value == 0


def _stated(tensor: TypeProto.Tensor) -> list[int | str] | None:
    """Return the sizes that a file states for a tensor, names or "?" where they can be anything."""
    if not tensor.HasField("shape"):
        return None
    return [each.dim_value if each.dim_value > 0 else each.dim_param or "?" for each in tensor.shape.dim]


class _Reader:
    """Goes through the nodes in order and finds the shapes of what they compute."""

    def __init__(
        self,
        proto: ModelProto,
        nodes: Sequence[NodeProto],
        images: Sequence[onnx.ValueInfoProto],
        sizes: Mapping[str, Sequence[int]],
        allow_unknown: bool,
        batched: bool,
    ) -> None:
        self.proto, self.sizes, self.allow_unknown = proto, sizes, allow_unknown
        first = [each.dim_value for each in images[0].type.tensor_type.shape.dim]
        self.batch = first[0] if batched and len(first) > 1 else 1
        self.opsets = {"": defs.onnx_opset_version()}
        self.opsets |= {entry.domain: entry.version for entry in proto.opset_import}
        self.newer: dict[str, int] = {}
        self.faults: dict[str, str] = {}
        self.widths: dict[str, Bits] = {}
        self.sequences = Sequences(lambda name: self.values[name].data if name in self.values else None)
        graph = proto.graph
        inside = {name for node in nodes for name in _captured(node)}
        outside = {value.name for value in graph.output}
        self.follows = not any(
            node.op_type in ON_SEQUENCES
            and (inside | outside).intersection(node.output)
            and node.op_type not in GIVE_TENSORS
            for node in nodes
        )
        stated = {value.name: _stated(value.type.tensor_type) or [] for value in graph.input}
        changed = any(  # so that what the file states of all that follows is of other inputs
            has != size and isinstance(has, int)
            for name in sizes
            for has, size in zip(stated.get(name, []), sizes[name], strict=False)
        )
        self.stated_batch = next(iter(stated[images[0].name]), None)
        self.read = {value.name for value in graph.output}.union(
            *((*node.input, *_captured(node)) for node in nodes)
        )
        told = () if changed else (*graph.value_info, *graph.output)
        self.declared = {value.name: value.type for value in told}
        self.assumed: list[str] = []
        self.types: dict[str, TypeProto] = {}
        self.values: dict[str, Value] = {}
        for value in graph.input:
            self.types[value.name] = value.type
        for image in images:
            self._keep(image.name, image.type, False)
            shape = self.values[image.name].shape
            if shape is not None and 0 in shape:
                self.values[image.name] = self._empty(image.name, shape)
        for tensor in graph.initializer:
            self._keep(tensor.name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims), True)
            self._fill(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            element = sparse.values.data_type
            self._keep(sparse.values.name, helper.make_tensor_type_proto(element, sparse.dims), True)

    def operations(self, node: NodeProto) -> Iterator[OnnxOperation]:
        """Yield what a node does for an image.

        Of a choice that shapes decide that is what the chosen branch does; of an operator that stands for
        several standard ones what these do.
        """
        form = self._form(node)
        if form is not None:
            self.read.update(name for each in form for name in each.input)
            for each in form:
                yield from self.operations(each)
            return
        branch = self._chosen(node)
        if branch is None:
            if _nested(node) and not self.allow_unknown:
                raise _depends_on_values([node])
            operation = self.operation(node)
            if operation is not None:
                yield operation
            return
        own = [tensor.name for tensor in branch.initializer]
        own += [name for each in branch.node for name in each.output if name]
        names = {name: f"{node.output[0]}/{name}" for name in own}
        for tensor in branch.initializer:
            type_ = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            self._keep(names[tensor.name], type_, True)
            self._fill(names[tensor.name], tensor)
        given = [
            helper.make_node("Identity", [value.name], [name])
            for value, name in zip(branch.output, node.output, strict=False)
            if name
        ]
        inlined = [_renamed(each, names) for each in (*branch.node, *given)]
        self.read.update(name for each in inlined for name in (*each.input, *_captured(each)))
        for each in inlined:
            yield from self.operations(each)

    def _keeps_all(self, node: NodeProto) -> bool:
        """Whether a node is a dropout of an inference, which drops nothing whatever its ratio."""
        trains = self.values[node.input[2]].data if len(node.input) > 2 and node.input[2] else np.array(False)
        return not node.domain and node.op_type == "Dropout" and trains is not None and not trains.any()

    def _shaped(self, node: NodeProto) -> bool:
        """Whether sizes of outputs are told in place of numbers that depend on the image."""
        second = self.values[node.input[1]] if len(node.input) > 1 and node.input[1] else None
        if second is None or second.fixed:
            return False
        return all(
            name in self.sizes or _shape(self.declared.get(name)) is not None for name in node.output if name
        )

    def _form(self, node: NodeProto) -> list[NodeProto] | None:
        """Return standard nodes that do what a node does; None where it is to be read as it is."""
        if not node.domain and node.op_type == "CastLike" and len(node.input) == 2:
            element = self._elements(node.input[1:]).get(node.input[1])
            if not element:
                return None
            kept = [each for each in node.attribute if each.name == "saturate"]
            cast = helper.make_node("Cast", node.input[:1], list(node.output), node.name, to=element)
            cast.attribute.extend(kept)
            return [cast]
        shapes = {name: self.values[name].shape for name in node.input if name in self.values}
        packed = packed_weights(node)
        if packed is not None:
            name, sizes, self.widths[node.output[0]] = packed
            self._keep(
                name,
                helper.make_tensor_type_proto(TensorProto.FLOAT, sizes),
                self.values[node.input[1]].fixed,
            )
            return [helper.make_node("MatMul", [node.input[0], name], list(node.output), node.name)]
        written = self.sequences.standard_form(node, shapes) if self.follows else None
        if written is None and any(name in self.sequences.of for name in node.input):
            parts = [part for name in node.input for part in self.sequences.of.get(name, [name])]
            self.faults[node.output[0]] = "which tensors it reads or gives depends on values"
            return [helper.make_node(node.op_type, parts, list(node.output), node.name, domain=node.domain)]
        if written is None:
            computed = {name for name in shapes if not self.values[name].fixed}
            written = standard_form(node, shapes, computed, self.read)
        if written is not None:
            self.newer.update({each.output[0]: NEWEST.get(each.op_type, 0) for each in written})
            return written
        found = body_of(node, self.types, self.opsets)
        if found is None:
            return None
        own = {*node.input, *node.output}
        names = {
            name: f"{node.output[0]}/{name}" for each in found for name in each.output if name not in own
        }
        return [_renamed(each, names) for each in found]

    def _opset(self, node: NodeProto) -> int:
        """Return of which version the operator of a node is."""
        written = self.newer.get(node.output[0], 0) if node.output else 0
        known: int = self.opsets.get(node.domain, 0)
        return max(known, written)

    def _chosen(self, node: NodeProto) -> onnx.GraphProto | None:
        """Return the branch of a choice whose condition is the same for all values, None of another node."""
        if node.domain or node.op_type != "If":
            return None
        condition = self.values[node.input[0]].data
        if condition is None or condition.size != 1:
            return None
        wanted = "then_branch" if bool(condition.item()) else "else_branch"
        return next((each.g for each in node.attribute if each.name == wanted), None)

    def operation(self, node: NodeProto) -> OnnxOperation | None:
        """Return what a node does for an image; None if it is the same for all, and done now."""
        quantised, node = node, float_form(node, self.opsets[""])
        inputs = tuple(self.values[name] if name else None for name in (*node.input, *_captured(node)))
        shaped = not node.domain and node.op_type in ("EyeLike", "Shape", "Size")
        fixed = all(value is None or value.fixed or (shaped and value.shape is not None) for value in inputs)
        if node.op_type == "Concat" and not node.domain:
            inputs = tuple(value for value in inputs if not (value and value.shape and 0 in value.shape))
        fault = "it has subgraphs" if _nested(node) else self.faults.get(next(iter(node.output), ""), "")
        shape_alone = not node.domain and node.op_type in BY_SIZES and self._shaped(node)
        if shape_alone or self._keeps_all(node):  # so that numbers of its second input are not read
            inputs = inputs[:1]
            fixed = all(value is None or value.fixed for value in inputs)
        try:
            types = (
                {}
                if fault and not _nested(node)
                else (
                    self._inferred(node, self.types)
                    if node is quantised
                    else self._of_quantised(node, quantised)
                )
            )
        except InputError as error:
            if not self.allow_unknown:
                raise
            types, fault = {}, error.limit
        standard = not node.domain and types is not None
        kinds = [type_.WhichOneof("value") for type_ in (types or {}).values()]
        if any(kind in ("sequence_type", "optional_type") for kind in kinds):
            fault = "it gives a sequence or what is optional, whose tensors depend on values"
        for name in filter(None, node.output):
            self._keep(name, self._type(name, (types or {}).get(name), inputs), fixed)
        results = [self.values[name] for name in node.output if name]
        for value in results:
            moves = standard and COMPUTED.fullmatch(node.op_type)
            if moves and value.shape is not None and 0 in value.shape:  # holds nothing that could differ
                self.values[value.name] = self._empty(value.name, value.shape)
        if fixed or (results and all(self.values[value.name].fixed for value in results)):
            if fixed and standard and COMPUTED.fullmatch(node.op_type):
                self._compute(node)
            self._trace(node)
            return None
        return OnnxOperation(
            _name(node),
            node.op_type if standard else f"{node.domain or 'ai.onnx'}.{node.op_type}",
            {each.name: _attribute(each) for each in node.attribute if each.type in PLAIN}
            | self._axis(node, inputs),
            inputs,
            tuple(self.values[name] if name else None for name in node.output),
            self.batch,
            fault,
            self._elements((*node.input, *node.output)),
            self.widths.get(node.output[0]) or operand_bits(quantised, self._elements(quantised.input)),
        )

    def _empty(self, name: str, shape: tuple[int, ...]) -> Value:
        """Return a tensor that holds nothing."""
        element = self._elements([name]).get(name, TensorProto.FLOAT)
        return Value(name, shape, True, np.zeros(shape, helper.tensor_dtype_to_np_dtype(element)))

    def _axis(self, node: NodeProto, inputs: Sequence[Value | None]) -> dict[str, Any]:
        """Return along which dimension a softmax is, None for several: until version 12, all that follow."""
        if node.domain or node.op_type not in ("Softmax", "LogSoftmax"):
            return {}
        told = next((each.i for each in node.attribute if each.name == "axis"), None)
        if self._opset(node) >= 13:
            return {"axis": -1 if told is None else told}
        axis, shape = 1 if told is None else told, inputs[0].shape if inputs and inputs[0] else None
        single = shape is not None and (axis == -1 or prod(shape[axis + 1 :]) == 1)
        return {"axis": axis if single else None}

    def check_outputs(self) -> None:
        """Refuse outputs that the file declares in another shape than its operators give.

        Where it leaves a size open, it has not thought of the sizes that are given now.
        """
        for value in self.proto.graph.output:
            stated = _stated(self.declared[value.name].tensor_type) if value.name in self.declared else None
            found = self.values[value.name].shape if value.name in self.values else None
            if stated is None or found is None or any(isinstance(size, str) for size in stated):
                continue
            if stated != list(found):
                limit = f"is declared, and the operators before it give {list(found)}"
                raise InputError(f"graph.output.{value.name}", stated, limit)

    def _type(self, name: str, found: TypeProto | None, inputs: Sequence[Value | None]) -> TypeProto | None:
        """Return the type of a tensor: as ONNX infers it, as the user or the file tells, or as is assumed."""
        if _shape(found) is None and name in self.sizes:
            element = found.tensor_type.elem_type if found is not None else TensorProto.FLOAT
            return helper.make_tensor_type_proto(element or TensorProto.FLOAT, self.sizes[name])
        inferred = found
        if _shape(found) is None:
            found = self.declared.get(name, found)
        if _shape(found) is not None or not self.allow_unknown or name not in self.read:
            return found
        for known in (inferred, found):
            if known is not None and (of_images := _of_images(known, self.batch)) is not None:
                return of_images
        source = next((each for each in inputs if each is not None and not each.fixed and each.shape), None)
        if source is None:
            return found
        self.assumed.append(name)
        return self.types[source.name]

    def _elements(self, names: Sequence[str]) -> dict[str, int]:
        """Return ONNX's numbers of the types of tensors."""
        return {name: self.types[name].tensor_type.elem_type for name in names if name in self.types}

    def _trace(self, node: NodeProto) -> None:
        """Note from which tensor one of the same numbers is made."""
        if node.op_type in SAME_NUMBERS and node.input and node.output:
            source = self.values[node.input[0]]
            value = self.values[node.output[0]]
            self.values[value.name] = replace(value, root=source.root or source.name)

    def _keep(self, name: str, type_: TypeProto | None, fixed: bool) -> None:
        if type_ is not None:
            self.types[name] = type_
        self.values[name] = Value(name, _shape(type_), fixed)

    def _fill(self, name: str, tensor: TensorProto) -> None:
        """Keep the numbers of a small tensor that are in the file itself."""
        if tensor.data_location == TensorProto.EXTERNAL:
            return
        if prod(tensor.dims) > MAX_COMPUTED:
            if prod(tensor.dims[:-2]) == 1 and len(tensor.dims) > 1 and tensor.HasField("raw_data"):
                with suppress(Exception):  # of any kind; weights are not looked at here
                    causal = causal_offset(numpy_helper.to_array(tensor))
                    self.values[name] = replace(self.values[name], causal=causal)
            return
        try:
            data = numpy_helper.to_array(tensor)
        except Exception as error:  # of any kind; onnx says nothing on it
            raise InputError(
                "graph.initializer", name, f"is not as its type and shape say: {error}"
            ) from None
        shape = tuple(tensor.dims) if all(size >= 0 for size in tensor.dims) else None
        self.values[name] = Value(name, shape, True, data, causal=causal_offset(data))

    def _inferred(self, node: NodeProto, given: Mapping[str, TypeProto]) -> Mapping[str, TypeProto] | None:
        """Return the types of a node's outputs, as far as ONNX can tell; None for unknown operators."""
        names = [name for name in node.input if name]
        if _nested(node):
            return self._of_branches(node)
        try:
            schema = defs.get_schema(node.op_type, self._opset(node), node.domain)
        except (defs.SchemaError, TypeError):  # of a version that is no version, too
            return None
        if any(name not in given for name in names):
            return {}
        try:
            types: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
                schema,
                node,
                {name: given[name] for name in names},
                {
                    name: numpy_helper.from_array(data, name)
                    for name in names
                    if (data := self._numbers(node, name)) is not None
                },
                opset_imports=[helper.make_opsetid(node.domain, self._opset(node))],
                ir_version=self.proto.ir_version,
            )
        except Exception as error:  # of several kinds, one of them without a base of its own
            said = " ".join(str(error).split())
            raise InputError("graph.node", _name(node), f"is no valid {node.op_type}: {said}") from None
        pooled = self._pooled(node)
        return types if pooled is None else {**types, node.output[0]: pooled}

    def _of_quantised(self, node: NodeProto, quantised: NodeProto) -> Mapping[str, TypeProto] | None:
        """Return the types of a quantised node's outputs, from those of the node in floating point."""
        given = {
            name: _of_element(self.types[name], TensorProto.FLOAT)
            for name in node.input
            if name in self.types
        }
        element = result_type(quantised, self._elements(quantised.input))
        types = self._inferred(node, given)
        return types and {name: _of_element(type_, element) for name, type_ in types.items()}

    def _of_branches(self, node: NodeProto) -> Mapping[str, TypeProto]:
        """Return the types of what a choice gives, as one of its branches states them."""
        graph = next((each.g for each in node.attribute if each.type == AttributeProto.GRAPH), None)
        if node.op_type != "If" or graph is None:
            return {}
        return {name: value.type for name, value in zip(node.output, graph.output, strict=False)}

    def _numbers(self, node: NodeProto, name: str) -> NDArray[Any] | None:
        """Return the numbers of an input, of a shape with as many images as there are."""
        data, source = self.values[name].data, self.values[node.input[0]]
        if data is None or node.op_type != "Reshape" or name != node.input[1] or source.fixed:
            return data
        if self.stated_batch == self.batch or source.shape is None or source.shape[:1] != (self.batch,):
            return data
        if data.size > 1 and data.flat[0] == self.stated_batch and prod(data) != prod(source.shape):
            return np.array([self.batch, *data.flat[1:]], dtype=data.dtype)
        return data

    def _pooled(self, node: NodeProto) -> TypeProto | None:
        """Return what pooling gives that rounds up; None for all else.

        A window that would begin behind the input is left out, as by onnxruntime; ONNX counts it.
        """
        told = {each.name: _attribute(each) for each in node.attribute}
        if node.op_type not in ("MaxPool", "AveragePool", "LpPool") or not told.get("ceil_mode"):
            return None
        source = self.values[node.input[0]].shape
        if source is None or told.get("auto_pad", "NOTSET") != "NOTSET":
            return None
        kernel, plane = told["kernel_shape"], source[2:]
        count = len(plane)
        strides, pads = told.get("strides", [1] * count), told.get("pads", [0] * 2 * count)
        dilations = told.get("dilations", [1] * count)
        sizes = list(source[:2])
        for axis, size in enumerate(plane):
            extent = dilations[axis] * (kernel[axis] - 1) + 1
            rest = size + pads[axis] + pads[axis + count] - extent
            outputs = -(-rest // strides[axis]) + 1
            sizes.append(outputs - ((outputs - 1) * strides[axis] >= size + pads[axis]))
        if min(sizes) < 1:
            return None
        return helper.make_tensor_type_proto(self.types[node.input[0]].tensor_type.elem_type, sizes)

    def _compute(self, node: NodeProto) -> None:
        """Compute a fixed tensor of few numbers, as exporters write shapes as sequences of operations."""
        names = [name for name in node.input if name]
        outputs = [self.values[name] for name in node.output if name]
        if any(value.shape is None or prod(value.shape) > MAX_COMPUTED for value in outputs):
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._fill(node.output[0], node.attribute[0].t)
            return
        given: dict[str, NDArray[Any] | None] = {name: self.values[name].data for name in names}
        if node.op_type in ("EyeLike", "Shape", "Size"):
            shape = self.values[names[0]].shape
            assert shape is not None
            given[names[0]] = np.broadcast_to(np.float32(0), shape)
        if any(data is None for data in given.values()):
            return
        graph = helper.make_graph(
            [node],
            "constant",
            [helper.make_value_info(name, self.types[name]) for name in names],
            [helper.make_value_info(value.name, self.types[value.name]) for value in outputs],
        )
        try:
            with np.errstate(all="ignore"):
                opsets = {**self.opsets, node.domain: self._opset(node)}
                found = ReferenceEvaluator(graph, opsets=opsets).run(None, given)
        except Exception:  # of any kind; what needs the numbers says that they are missing
            return
        for value, data in zip(outputs, found, strict=True):
            found_data = np.asarray(data)
            causal = causal_offset(found_data)
            self.values[value.name] = Value(value.name, value.shape, True, found_data, causal=causal)


def _shape(type_: TypeProto | None) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, None unless all are known."""
    if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    dimensions = type_.tensor_type.shape.dim
    if any(not dimension.HasField("dim_value") or dimension.dim_value < 0 for dimension in dimensions):
        return None
    return tuple(dimension.dim_value for dimension in dimensions)


def _of_images(type_: TypeProto, images: int) -> TypeProto | None:
    """Return the type of a tensor of so many images, of which all else is known; None of other tensors."""
    found = TypeProto()
    found.CopyFrom(type_)
    if found.HasField("tensor_type") and found.tensor_type.HasField("shape") and found.tensor_type.shape.dim:
        found.tensor_type.shape.dim[0].dim_value = images
    return None if _shape(found) is None else found


def _of_element(type_: TypeProto, element: int) -> TypeProto:
    """Return the type of a tensor of the same shape of other numbers."""
    found = TypeProto()
    found.CopyFrom(type_)
    found.tensor_type.elem_type = element
    return found


def _attribute(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.STRINGS:
        return [each.decode(errors="replace") for each in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value
