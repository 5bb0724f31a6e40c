"""Operators that stand for several of ONNX's standard ones, as these."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, TypeProto, ValueInfoProto, helper, inliner, numpy_helper

Shape = tuple[int, ...]

MICROSOFT = "com.microsoft"

BODIES = {
    ("ai.onnx.preview", "FlexAttention"),
    *(("", name) for name in (
        "Attention", "CausalConvWithState", "NegativeLogLikelihoodLoss", "RotaryEmbedding",
        "SoftmaxCrossEntropyLoss", "SwiGLU",
    )),
}  # fmt: skip
"""Operators that are read as the standard operators by which ONNX defines them, by domain and name."""

ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "Clip": (),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""Functions that onnxruntime makes part of a convolution or product, with the names of their parameters."""


def body_of(
    node: NodeProto, types: Mapping[str, TypeProto], opsets: Mapping[str, int]
) -> list[NodeProto] | None:
    """Return the nodes by which ONNX defines an operator; None where it does not, or types are missing."""
    if (node.domain, node.op_type) not in BODIES or any(name not in types for name in node.input if name):
        return None
    given = [helper.make_value_info(name, types[name]) for name in dict.fromkeys(node.input) if name]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "one", given, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    try:
        wanted = [(node.domain, node.op_type)]
        found = inliner.inline_selected_functions(model, wanted, inline_schema_functions=True)
    except Exception:  # of any kind; the operator is refused by its name
        return None
    nodes = list(found.graph.node)
    decides = any(attribute.type == AttributeProto.GRAPH for each in nodes for attribute in each.attribute)
    return None if decides or any(each.op_type == node.op_type for each in nodes) else nodes


class Forms:
    """Writes nodes that do what one of onnxruntime's own does.

    Attributes
    ----------
    nodes
        What has been written.
    """

    def __init__(self, node: NodeProto, shapes: Mapping[str, Shape | None]) -> None:
        self.node, self.shapes = node, shapes
        self.attributes: dict[str, Any] = {
            each.name: helper.get_attribute_value(each) for each in node.attribute
        }
        self.nodes: list[NodeProto] = []
        self.inputs = [*node.input, *[""] * 12][:12]
        self.outputs = [*node.output, *[""] * 4][:4]

    def shape(self, place: int) -> Shape | None:
        """Return the sizes of an input."""
        return self.shapes.get(self.inputs[place])

    def add(self, operator: str, *inputs: str, gives: str = "", **attributes: Any) -> str:
        """Write a node, and return what its output is called."""
        name = gives or f"{self.outputs[0]}/{len(self.nodes)}_{operator}"
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        called = self.node.name if not self.nodes or not self.node.name else f"{self.node.name}/{operator}"
        self.nodes.append(helper.make_node(operator, given, [name], called, **attributes))
        return name

    def number(self, value: NDArray[Any]) -> str:
        """Write a constant, and return what it is called."""
        return self.add("Constant", value=numpy_helper.from_array(value))

    def told(self, *names: str) -> dict[str, Any]:
        """Return the attributes of these names that the node has."""
        return {name: self.attributes[name] for name in names if name in self.attributes}

    def activated(self, source: str) -> None:
        """Write the function that is part of the node, which gives its output."""
        operator = self.attributes.get("activation", b"").decode()
        numbers = self.attributes.get("activation_params", ())
        if operator == "Clip" and len(numbers) == 2:
            ends = [self.number(np.array(number, np.float32)) for number in numbers]
            self.add("Clip", source, *ends, gives=self.outputs[0])
            return
        if operator not in ACTIVATIONS or operator == "Clip":
            raise KeyError(operator)
        named = dict(zip(ACTIVATIONS[operator], numbers, strict=False))
        self.add(operator, source, gives=self.outputs[0], **named)


def _gelu(forms: Forms) -> None:
    exact = forms.node.op_type != "FastGelu"
    source = forms.inputs[0]
    if forms.inputs[1]:
        source = forms.add("Add", source, forms.inputs[1])
    forms.add("Gelu", source, gives=forms.outputs[0], approximate="none" if exact else "tanh")


def _quick_gelu(forms: Forms) -> None:
    source = forms.inputs[0]
    alpha = float(forms.attributes.get("alpha", 1.702))
    forms.add("Swish", source, gives=forms.outputs[0], alpha=alpha)


def _fused_conv(forms: Forms) -> None:
    named = forms.told("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    found = forms.add("Conv", *forms.inputs[:3], **named)
    if forms.inputs[3]:
        found = forms.add("Add", found, forms.inputs[3])
    forms.activated(found)


def _fused_gemm(forms: Forms) -> None:
    named = forms.told("alpha", "beta", "transA", "transB")
    forms.activated(forms.add("Gemm", *forms.inputs[:3], **named))


def _gemm(forms: Forms) -> None:
    """Write a product of tensors that both are computed, and what is added to it."""
    sides = [
        forms.add("Transpose", source, perm=[1, 0]) if forms.attributes.get(name) else source
        for source, name in zip(forms.inputs, ("transA", "transB"), strict=False)
    ]
    alpha, beta = (float(forms.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    added = forms.inputs[2] if beta else ""
    found = forms.add("MatMul", *sides, gives="" if alpha != 1 or added else forms.outputs[0])
    if alpha != 1:
        found = _scale(forms, found, alpha, "" if added else forms.outputs[0])
    if added:
        forms.add("Add", found, added if beta == 1 else _scale(forms, added, beta), gives=forms.outputs[0])


def _fused_matmul(forms: Forms) -> None:
    sides = []
    for place, name in enumerate(("transA", "transB")):
        source, shape = forms.inputs[place], forms.shape(place)
        if forms.attributes.get(f"transBatch{'AB'[place]}"):
            raise KeyError("transBatch")
        if forms.attributes.get(name):
            if shape is None:
                raise KeyError(name)
            perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            source = forms.add("Transpose", source, perm=perm)
        sides.append(source)
    alpha = float(forms.attributes.get("alpha", 1.0))
    if alpha == 1:
        forms.add("MatMul", *sides, gives=forms.outputs[0])
    else:
        _scale(forms, forms.add("MatMul", *sides), alpha, forms.outputs[0])


def _einsum(forms: Forms) -> None:
    """Write a sum of products of two tensors as a product of matrices, between other orders of dimensions.

    Labels are those of pairs of matrices, rows, columns and what is summed over: those of both tensors and
    the result, of the first and the result, of the second and the result, of both.
    """
    equation = forms.attributes.get("equation", b"").decode().replace(" ", "")
    given, arrow, result = equation.partition("->")
    first, comma, second = given.partition(",")
    shapes = [forms.shape(place) for place in (0, 1)]
    sizes: dict[str, int] = {}
    for labels, shape in zip((first, second), shapes, strict=True):
        if shape is None or len(shape) != len(labels) or min(shape, default=0) < 1:
            raise KeyError("shape")
        for label, size in zip(labels, shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise KeyError("broadcast")
    pairs = [label for label in first if label in second and label in result]
    rows = [label for label in first if label not in second]
    columns = [label for label in second if label not in first]
    summed = [label for label in first if label in second and label not in result]
    every = [*pairs, *rows, *columns]
    # Images, which come first, are pairs of matrices, or there is one.
    images = sizes[first[0]] == 1 or (pairs[:1] == [first[0]] and second[0] == first[0] == result[0])
    plain = arrow and comma and all(len(set(each)) == len(each) for each in (first, second, result))
    if not plain or not images or not summed or sorted(every) != sorted(result):
        raise KeyError("equation")

    def matrix(source: str, labels: str, order: Sequence[str], parts: Sequence[Sequence[str]]) -> str:
        perm = [labels.index(label) for label in order]
        turned = source if perm == sorted(perm) else forms.add("Transpose", source, perm=perm)
        if all(len(part) == 1 for part in parts):
            return turned
        own = [sizes[label] for label in pairs] + [prod(sizes[label] for label in part) for part in parts]
        return forms.add("Reshape", turned, forms.number(np.array(own)))

    left = matrix(forms.inputs[0], first, [*pairs, *rows, *summed], [rows, summed])
    right = matrix(forms.inputs[1], second, [*pairs, *summed, *columns], [summed, columns])
    perm = [every.index(label) for label in result]
    parted, turned = (len(rows), len(columns)) != (1, 1), perm != sorted(perm)
    found = forms.add("MatMul", left, right, gives="" if parted or turned else forms.outputs[0])
    if parted:
        own = forms.number(np.array([sizes[label] for label in every]))
        found = forms.add("Reshape", found, own, gives="" if turned else forms.outputs[0])
    if turned:
        forms.add("Transpose", found, gives=forms.outputs[0], perm=perm)


def _scale(forms: Forms, source: str, factor: float, gives: str = "") -> str:
    number = forms.number(np.array(factor, np.float32))
    like = forms.add("CastLike", number, source)
    return forms.add("Mul", source, like, gives=gives)


def _normalised(forms: Forms) -> None:
    """Write a normalisation, of a sum if it skips something."""
    skips = forms.node.op_type.startswith("Skip")
    by_root = "Simplified" in forms.node.op_type
    source, places = forms.inputs[0], (1, 2)
    if skips:
        source = forms.add("Add", source, forms.inputs[1], gives="" if forms.inputs[4] else forms.outputs[3])
        bias = forms.inputs[3 if by_root else 4]
        if bias:
            source = forms.add("Add", source, bias, gives=forms.outputs[3])
        places = (2, 3)
    named: dict[str, Any] = {"axis": int(forms.attributes.get("axis", -1))}
    default = 1e-12 if skips else 1e-5
    named["epsilon"] = float(forms.attributes.get("epsilon", default))
    scale, offset = (forms.inputs[place] for place in places)
    if by_root:
        forms.add("RMSNormalization", source, scale, gives=forms.outputs[0], **named)
    else:
        forms.add("LayerNormalization", source, scale, offset, gives=forms.outputs[0], **named)


def _quantised_lstm(forms: Forms) -> None:
    """Write a recurrent layer whose weights are integers, stored by column for each direction."""
    weights = []
    for place, scale in ((1, 8), (2, 10)):
        given = [forms.inputs[at] for at in (place, scale, scale + 1)]
        numbers = forms.add("DequantizeLinear", *given, axis=0)
        weights.append(forms.add("Transpose", numbers, perm=[0, 2, 1]))
    functions = forms.told("activation_alpha", "activation_beta", "activations", "clip", "input_forget")
    told = forms.told("direction", "hidden_size") | functions
    forms.add("LSTM", forms.inputs[0], *weights, *forms.inputs[3:8], gives=forms.outputs[0], **told)
    forms.nodes[-1].output.extend(forms.outputs[1:3])


def _last_states(forms: Forms) -> None:
    """Write the last states of a recurrent layer as parts of all of them; cells are an own output."""
    every, last, cells, _ = forms.outputs
    if forms.attributes.get("layout"):
        raise KeyError("layout")
    forms.add(forms.node.op_type, *forms.inputs[:8], gives=every, **forms.attributes)
    forms.nodes[-1].output.extend(["", cells] if cells else [])
    direction = forms.attributes.get("direction", b"forward")

    def part(first: int, axis: int, source: str) -> str:
        places = (first, first + 1 or np.iinfo(np.int64).max, axis)
        return forms.add("Slice", source, *(forms.number(np.array([place])) for place in places))

    ends = {b"reverse": (0,), b"bidirectional": (-1, 0)}.get(direction, (-1,))
    parts = [part(end, 0, every) for end in ends]
    if len(parts) > 1:
        parts = [part(number, 1, each) for number, each in enumerate(parts)]
        parts = [forms.add("Concat", *parts, axis=1)]
    forms.add("Squeeze", parts[0], forms.number(np.array([0])), gives=last)


def _attention(forms: Forms) -> None:
    """Write attention without stored masks and states: two products and a softmax, perhaps a causal mask."""
    shapes = [forms.shape(place) for place in range(3)]
    first, second = shapes[:2]
    plain = {"scale", "num_heads", "q_num_heads", "kv_num_heads", "is_causal", "softcap", "unidirectional"}
    asked = any(forms.attributes.get(name) for name in ("softcap", "unidirectional"))
    if any(forms.inputs[3:]) or any(forms.outputs[1:]) or asked or set(forms.attributes) - plain:
        raise KeyError("mask")
    if first is None or second is None or any(each is None or len(each) != len(first) for each in shapes):
        raise KeyError("shape")
    heads = int(forms.attributes.get("num_heads", forms.attributes.get("q_num_heads", 0)))
    owners = int(forms.attributes.get("kv_num_heads", heads))  # heads of keys and values, which are shared
    if len(first) == 4:
        heads, owners = first[1], second[1]
    told = [(each or (0,))[1 if len(first) == 4 else -1] for each in shapes]  # heads, or features of all
    whole = len(first) in (3, 4) and min(heads, owners) > 0
    if not whole or told[0] % heads or any(each % owners for each in told[1:]) or heads % owners:
        raise KeyError("heads")
    if len(first) == 4 and told[1] != told[2]:
        raise KeyError("heads")
    query, key, value = forms.inputs[:3]
    if len(first) == 3:
        query, key, value = (
            forms.add("Transpose", _parted(forms, each, shape, own), perm=[0, 2, 1, 3])
            for each, shape, own in zip((query, key, value), shapes, (heads, owners, owners), strict=True)
        )
    if owners < heads:
        key, value = (
            _repeated(forms, each, (first[0], owners, *_rows_of(shape, owners)), heads // owners)
            for each, shape in zip((key, value), shapes[1:], strict=True)
        )
    key = forms.add("Transpose", key, perm=[0, 1, 3, 2])
    deep = first[-1] // (heads if len(first) == 3 else 1)
    factor = float(forms.attributes.get("scale") or 1 / sqrt(deep))
    scores = _scale(forms, forms.add("MatMul", query, key), factor)
    if forms.attributes.get("is_causal"):
        seen = np.tri(first[-2], second[-2], dtype=np.bool_)
        hidden = np.where(seen, np.float32(0), np.float32(-np.inf))
        scores = forms.add("Add", scores, forms.number(hidden))
    shares = forms.add("Softmax", scores, axis=-1)
    if len(first) == 4:
        forms.add("MatMul", shares, value, gives=forms.outputs[0])
        return
    joined = forms.add("Transpose", forms.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    wide = shapes[2] or ()
    sizes = forms.number(np.array([*first[:2], wide[-1] // owners * heads]))
    forms.add("Reshape", joined, sizes, gives=forms.outputs[0])


def _rows_of(shape: Shape | None, heads: int) -> tuple[int, int]:
    """Return rows and features of each head of keys or values."""
    assert shape is not None
    return shape[-2], shape[-1] if len(shape) == 4 else shape[-1] // heads


def _repeated(forms: Forms, source: str, shape: Shape, times: int) -> str:
    """Let each head of keys or values, of four dimensions, stand for several heads of queries."""
    images, heads, rows, features = shape
    apart = forms.number(np.array([images, heads, 1, rows, features]))
    copies = forms.number(np.array([images, heads, times, rows, features]))
    joined = forms.number(np.array([images, heads * times, rows, features]))
    return forms.add("Reshape", forms.add("Expand", forms.add("Reshape", source, apart), copies), joined)


def _parted(forms: Forms, source: str, shape: Shape | None, heads: int) -> str:
    """Part the last dimension into heads."""
    assert shape is not None
    sizes = forms.number(np.array([*shape[:-1], heads, shape[-1] // heads]))
    return forms.add("Reshape", source, sizes)


WRITERS: Mapping[tuple[str, str], Callable[[Forms], None]] = {
    **dict.fromkeys([(MICROSOFT, name) for name in ("Gelu", "FastGelu", "BiasGelu")], _gelu),
    (MICROSOFT, "QuickGelu"): _quick_gelu,
    (MICROSOFT, "FusedConv"): _fused_conv,
    (MICROSOFT, "FusedGemm"): _fused_gemm,
    (MICROSOFT, "FusedMatMul"): _fused_matmul,
    ("", "SimplifiedLayerNormalization"): _normalised,
    (MICROSOFT, "SimplifiedLayerNormalization"): _normalised,
    (MICROSOFT, "SkipLayerNormalization"): _normalised,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _normalised,
    (MICROSOFT, "MultiHeadAttention"): _attention,
    (MICROSOFT, "DynamicQuantizeLSTM"): _quantised_lstm,
    ("", "Attention"): _attention,
}
"""What writes the standard form of an operator of onnxruntime, by domain and name."""

RECURRENT = {("", "GRU"), ("", "LSTM"), ("", "RNN")}
"""Operators that give all states, and the last one again."""

NEWEST = {
    "Clip": 13, "DequantizeLinear": 13, "Gelu": 20, "LayerNormalization": 17, "RMSNormalization": 23,
    "Slice": 13, "Softmax": 13, "Split": 13, "Squeeze": 13, "Swish": 24, "Unsqueeze": 13,
}  # fmt: skip
"""Versions since which written operators are what they are here, where files may be older."""


def standard_form(
    node: NodeProto, shapes: Mapping[str, Shape | None], computed: Container[str], read: Container[str]
) -> list[NodeProto] | None:
    """Return standard nodes that do what a node does; None where there are none, or it is one of them.

    Parameters
    ----------
    computed
        Names of the tensors that depend on the image.
    read
        Names of the tensors that something reads, or that leave the network.
    """
    write = WRITERS.get((node.domain, node.op_type))
    if (node.domain, node.op_type) == ("", "Gemm") and all(name in computed for name in node.input[:2]):
        write = _gemm
    if (node.domain, node.op_type, len(node.input)) == ("", "Einsum", 2) and all(
        name in computed for name in node.input
    ):
        write = _einsum
    ends = [*node.output, ""][:2]
    if (node.domain, node.op_type) in RECURRENT and all(name and name in read for name in ends):
        write = _last_states
    if write is None or not node.output:
        return None
    forms = Forms(node, shapes)
    if any(forms.outputs[1:3]) and write not in (
        _quantised_lstm,
        _last_states,
    ):  # statistics for training, no states
        return None
    try:
        write(forms)
    except KeyError:
        return None
    return forms.nodes
