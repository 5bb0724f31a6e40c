"""Blocks of today's networks as ONNX files, in the forms that PyTorch's and TensorFlow's exporters write.

Shapes are given in NCHW, and as (1, rows, features) of tokens. In TensorFlow's form every window stands
between two transpositions, since its tensors have channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]


class Block:
    """A network that grows by one operation after the other; methods return the name of a tensor."""

    def __init__(self, *, channels_last: bool = False) -> None:
        self.channels_last = channels_last
        self.shapes: dict[str, Shape] = {}
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.rng = np.random.default_rng(0)

    # What every block is made of -------------------------------------------------------------------

    def input(self, *shape: int) -> str:
        """Add an input of the network."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def image_input(self, *shape: int) -> str:
        """Add an input in NCHW, stored as the form has it."""
        return self.input(*self.stored(shape))

    def stored(self, shape: Shape) -> Shape:
        """Return the shape in which images of a shape in NCHW are stored."""
        return (shape[0], *shape[2:], shape[1]) if self.channels_last else shape

    def constant(self, array: Any, kind: type = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def matrix(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape) / max(1, prod(shape[1:])) ** 0.5)

    def node(self, operator: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        self.shapes[name] = shape
        return name

    def unary(self, operator: str, x: str, **attributes: Any) -> str:
        return self.node(operator, [x], self.shapes[x], **attributes)

    def with_number(self, operator: str, x: str, number: float) -> str:
        return self.node(operator, [x, self.constant(number)], self.shapes[x])

    def pair(self, operator: str, a: str, b: str) -> str:
        return self.node(operator, [a, b], tuple(np.broadcast_shapes(self.shapes[a], self.shapes[b])))

    def transpose(self, x: str, *perm: int) -> str:
        return self.node("Transpose", [x], tuple(self.shapes[x][axis] for axis in perm), perm=list(perm))

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", [x, self.constant(shape, np.int64)], shape)

    def concat(self, parts: Sequence[str], axis: int) -> str:
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[part][axis] for part in parts)
        return self.node("Concat", parts, tuple(shape), axis=axis)

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        shape = list(self.shapes[x])
        shape[axis] = end - start
        places = [self.constant([value], np.int64) for value in (start, end, axis)]
        return self.node("Slice", [x, *places], tuple(shape))

    # Images -----------------------------------------------------------------------------------------

    @property
    def channel_axis(self) -> int:
        return 3 if self.channels_last else 1

    def channels(self, x: str) -> int:
        return self.shapes[x][self.channel_axis]

    def windowed(self, x: str, write: Callable[[str], str]) -> str:
        """Do what needs channels first."""
        if not self.channels_last:
            return write(x)
        return self.transpose(write(self.transpose(x, 0, 3, 1, 2)), 0, 2, 3, 1)

    def conv(self, x: str, kernels: int, size: int = 1, stride: int = 1, groups: int = 1) -> str:
        def write(x: str) -> str:
            _, seen, rows, columns = self.shapes[x]
            weights = [self.matrix(kernels, seen // groups, size, size), self.matrix(kernels)]
            sizes = [(extent - 1) // stride + 1 for extent in (rows, columns)]
            fields = {"kernel_shape": [size, size], "strides": [stride] * 2, "pads": [size // 2] * 4}
            return self.node("Conv", [x, *weights], (1, kernels, *sizes), group=groups, **fields)

        return self.windowed(x, write)

    def transposed_conv(self, x: str, kernels: int) -> str:
        def write(x: str) -> str:
            _, seen, rows, columns = self.shapes[x]
            weights = [self.matrix(seen, kernels, 2, 2), self.matrix(kernels)]
            shape = (1, kernels, 2 * rows, 2 * columns)
            return self.node("ConvTranspose", [x, *weights], shape, kernel_shape=[2, 2], strides=[2, 2])

        return self.windowed(x, write)

    def maxpool(self, x: str) -> str:
        def write(x: str) -> str:
            _, seen, rows, columns = self.shapes[x]
            shape = (1, seen, rows // 2, columns // 2)
            return self.node("MaxPool", [x], shape, kernel_shape=[2, 2], strides=[2, 2])

        return self.windowed(x, write)

    def upsample(self, x: str) -> str:
        def write(x: str) -> str:
            _, seen, rows, columns = self.shapes[x]
            scales = self.constant([1, 1, 2, 2])
            fields = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
            return self.node(
                "Resize", [x, "", scales], (1, seen, 2 * rows, 2 * columns), nearest_mode="floor", **fields
            )

        return self.windowed(x, write)

    def mean_of_plane(self, x: str, *, keep: bool = True) -> str:
        axes = [1, 2] if self.channels_last else [2, 3]
        shape = tuple(
            1 if axis in axes else size
            for axis, size in enumerate(self.shapes[x])
            if keep or axis not in axes
        )
        return self.node("ReduceMean", [x], shape, axes=axes, keepdims=int(keep))

    def by_channel(self, operator: str, x: str) -> str:
        """Add to each channel, or multiply by, a parameter of its own."""
        shape = (self.channels(x), 1, 1) if not self.channels_last else (self.channels(x),)
        return self.node(operator, [x, self.matrix(*shape)], self.shapes[x])

    def tokens(self, x: str) -> str:
        """Return the places of an image as rows, its channels as features."""
        x = x if self.channels_last else self.transpose(x, 0, 2, 3, 1)
        _, rows, columns, features = self.shapes[x]
        return self.reshape(x, 1, rows * columns, features)

    def image(self, x: str, rows: int, columns: int) -> str:
        x = self.reshape(x, 1, rows, columns, self.shapes[x][-1])
        return x if self.channels_last else self.transpose(x, 0, 3, 1, 2)

    def groupnorm(self, x: str, groups: int) -> str:
        def write(x: str) -> str:
            shape = self.shapes[x]
            flat = self.reshape(x, 1, groups, prod(shape) // groups)
            scale, shift = self.constant(np.ones(groups)), self.constant(np.zeros(groups))
            flat = self.node("InstanceNormalization", [flat, scale, shift], self.shapes[flat])
            x = self.reshape(flat, *shape)
            for operator in ("Mul", "Add"):
                x = self.node(operator, [x, self.matrix(shape[1], 1, 1)], shape)
            return x

        return self.windowed(x, write)

    def silu(self, x: str) -> str:
        return self.pair("Mul", x, self.unary("Sigmoid", x))

    def hardswish(self, x: str) -> str:
        return self.unary("HardSwish", x)

    # Tokens -----------------------------------------------------------------------------------------

    def linear(self, x: str, features: int, *, bias: bool = True) -> str:
        shape = (*self.shapes[x][:-1], features)
        x = self.node("MatMul", [x, self.matrix(self.shapes[x][-1], features)], shape)
        return self.node("Add", [self.matrix(features), x], shape) if bias else x

    def layernorm(self, x: str) -> str:
        features = self.shapes[x][-1]
        parameters = [self.matrix(features), self.matrix(features)]
        return self.node("LayerNormalization", [x, *parameters], self.shapes[x], axis=-1)

    def rmsnorm(self, x: str) -> str:
        square = self.with_number("Pow", x, 2)
        mean = self.node("ReduceMean", [square], (*self.shapes[x][:-1], 1), axes=[-1], keepdims=1)
        root = self.unary("Sqrt", self.with_number("Add", mean, 1e-5))
        x = self.pair("Mul", x, self.unary("Reciprocal", root))
        return self.node("Mul", [x, self.matrix(self.shapes[x][-1])], self.shapes[x])

    def gelu(self, x: str) -> str:
        wave = self.unary("Erf", self.with_number("Div", x, 2**0.5))
        return self.with_number("Mul", self.pair("Mul", x, self.with_number("Add", wave, 1)), 0.5)

    def heads(self, x: str, heads: int) -> str:
        """Return (1, heads, rows, features of a head)."""
        _, rows, features = self.shapes[x]
        return self.transpose(self.reshape(x, 1, rows, heads, features // heads), 0, 2, 1, 3)

    def attend(self, q: str, k: str, v: str, *, causal: bool = False) -> str:
        """Return rows of all heads side by side, of queries, keys and values by heads."""
        _, heads, rows, features = self.shapes[q]
        keys = self.shapes[k][2]
        scores = self.node("MatMul", [q, self.transpose(k, 0, 1, 3, 2)], (1, heads, rows, keys))
        scores = self.with_number("Mul", scores, features**-0.5)
        if causal:
            mask = np.triu(np.full((rows, keys), -1e9), 1 + keys - rows)
            scores = self.node("Add", [scores, self.constant(mask)], self.shapes[scores])
        weights = self.unary("Softmax", scores, axis=-1)
        mixed = self.node("MatMul", [weights, v], (1, heads, rows, self.shapes[v][3]))
        return self.reshape(self.transpose(mixed, 0, 2, 1, 3), 1, rows, heads * self.shapes[v][3])

    def attention(self, x: str, heads: int, context: str | None = None) -> str:
        features = self.shapes[x][-1]
        read = [x, context or x, context or x]
        q, k, v = (self.heads(self.linear(each, features), heads) for each in read)
        return self.linear(self.attend(q, k, v), features)

    def rotate(self, x: str, start: int) -> str:
        """Turn pairs of features of (1, heads, rows, features) by angles of their positions."""
        _, _, rows, features = self.shapes[x]
        half = features // 2
        angles = np.arange(start, start + rows)[:, None] / 10_000 ** (np.arange(half) / half)
        table = np.concatenate([angles, angles], axis=1)
        turned = self.concat(
            [self.unary("Neg", self.slice(x, 3, half, features)), self.slice(x, 3, 0, half)], 3
        )
        cosines, sines = self.constant(np.cos(table)), self.constant(np.sin(table))
        return self.pair(
            "Add",
            self.node("Mul", [x, cosines], self.shapes[x]),
            self.node("Mul", [turned, sines], self.shapes[x]),
        )

    def repeat(self, x: str, times: int) -> str:
        """Let each head of keys or values stand for several heads of queries."""
        _, heads, rows, features = self.shapes[x]
        x = self.reshape(x, 1, heads, 1, rows, features)
        shape = (1, heads, times, rows, features)
        x = self.node("Expand", [x, self.constant(shape, np.int64)], shape)
        return self.reshape(x, 1, heads * times, rows, features)

    # The file ---------------------------------------------------------------------------------------

    def save(self, path: Path, *results: str) -> Path:
        """Write the network with its results as outputs."""
        infos = [helper.make_tensor_value_info(x, TensorProto.FLOAT, self.shapes[x]) for x in self.inputs]
        outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, self.shapes[x]) for x in results]
        graph = helper.make_graph(self.nodes, path.stem, infos, outputs, self.weights)
        imports = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
        return path


# The blocks ---------------------------------------------------------------------------------------------


def vit(b: Block) -> list[str]:
    """A block of a vision transformer: 196 patches and a class token, three heads of 64."""
    x = b.input(1, 197, 192)
    x = b.pair("Add", x, b.attention(b.layernorm(x), 3))
    return [b.pair("Add", x, b.linear(b.gelu(b.linear(b.layernorm(x), 768)), 192))]


def bert(b: Block) -> list[str]:
    """A layer of BERT-tiny over 128 tokens: two heads of 64, normalised behind the sums."""
    x = b.input(1, 128, 128)
    x = b.layernorm(b.pair("Add", x, b.attention(x, 2)))
    return [b.layernorm(b.pair("Add", x, b.linear(b.gelu(b.linear(x, 512)), 128)))]


def llama(
    b: Block, tokens: int, past: int, heads: int = 4, deep: int = 32, hidden: int = 344, share: int = 2
) -> list[str]:
    """A decoder's layer: heads of queries that share some of keys and values, with a cache."""
    features, few = heads * deep, heads // share
    x = b.input(1, tokens, features)
    cache = [b.input(1, few, past, deep) for _ in range(2)] if past else []
    normed = b.rmsnorm(x)
    q = b.rotate(b.heads(b.linear(normed, features, bias=False), heads), past)
    k = b.rotate(b.heads(b.linear(normed, few * deep, bias=False), few), past)
    v = b.heads(b.linear(normed, few * deep, bias=False), few)
    if cache:
        k, v = b.concat([cache[0], k], 2), b.concat([cache[1], v], 2)
    mixed = b.attend(q, b.repeat(k, share), b.repeat(v, share), causal=tokens > 1)
    x = b.pair("Add", x, b.linear(mixed, features, bias=False))
    normed = b.rmsnorm(x)
    gate, up = b.silu(b.linear(normed, hidden, bias=False)), b.linear(normed, hidden, bias=False)
    return [b.pair("Add", x, b.linear(b.pair("Mul", gate, up), features, bias=False)), k, v]


def prefill(b: Block) -> list[str]:
    """A decoder's layer over 64 tokens of a prompt."""
    return llama(b, 64, 0)


def decode(b: Block) -> list[str]:
    """The same layer for one token more, with 255 in the cache."""
    return llama(b, 1, 255)


def mobilevit(b: Block) -> list[str]:
    """MobileViT's block: patches of 2 x 2, whose places attend to their equals in all patches."""
    x = b.image_input(1, 48, 16, 16)
    y = b.conv(b.silu(b.conv(x, 48, 3)), 64)
    y = y if not b.channels_last else b.transpose(y, 0, 3, 1, 2)
    y = b.transpose(b.reshape(y, 1, 64, 8, 2, 8, 2), 0, 3, 5, 2, 4, 1)
    y = b.reshape(y, 4, 64, 64)
    inner = b.layernorm(y)
    q, k, v = (b.linear(inner, 64) for _ in range(3))
    q, k, v = (b.transpose(b.reshape(each, 4, 64, 4, 16), 0, 2, 1, 3) for each in (q, k, v))
    scores = b.node("MatMul", [q, b.transpose(k, 0, 1, 3, 2)], (4, 4, 64, 64))
    weights = b.unary("Softmax", b.with_number("Mul", scores, 0.25), axis=-1)
    mixed = b.node("MatMul", [weights, v], (4, 4, 64, 16))
    mixed = b.reshape(b.transpose(mixed, 0, 2, 1, 3), 4, 64, 64)
    y = b.pair("Add", y, b.linear(mixed, 64))
    y = b.pair("Add", y, b.linear(b.silu(b.linear(b.layernorm(y), 128)), 64))
    y = b.transpose(b.reshape(y, 1, 2, 2, 8, 8, 64), 0, 5, 3, 1, 4, 2)
    y = b.reshape(y, 1, 64, 16, 16)
    y = y if not b.channels_last else b.transpose(y, 0, 2, 3, 1)
    y = b.concat([x, b.silu(b.conv(y, 48))], b.channel_axis)
    return [b.silu(b.conv(y, 48, 3))]


def diffusion(b: Block) -> list[str]:
    """A residual block with a step's embedding, then attention to itself and to a text."""
    x, step, text = b.image_input(1, 32, 16, 16), b.input(1, 64), b.input(1, 20, 48)
    y = b.conv(b.silu(b.groupnorm(x, 8)), 64, 3)
    told = b.linear(b.silu(step), 64)
    told = b.reshape(told, *b.stored((1, 64, 1, 1)))
    y = b.pair("Add", y, told)
    y = b.conv(b.silu(b.groupnorm(y, 8)), 64, 3)
    y = b.pair("Add", y, b.conv(x, 64))
    t = b.tokens(b.groupnorm(y, 8))
    t = b.pair("Add", t, b.attention(b.layernorm(t), 4))
    t = b.pair("Add", t, b.attention(b.layernorm(t), 4, b.linear(text, 64)))
    return [b.pair("Add", b.image(t, 16, 16), y)]


def convnext(b: Block) -> list[str]:
    """ConvNeXt's block: a depthwise window of 7 x 7, then two matrices for each place."""
    x = b.image_input(1, 96, 14, 14)
    y = b.conv(x, 96, 7, groups=96)
    y = y if b.channels_last else b.transpose(y, 0, 2, 3, 1)
    y = b.linear(b.gelu(b.linear(b.layernorm(y), 384)), 96)
    y = b.node("Mul", [b.matrix(96), y], b.shapes[y])
    y = y if b.channels_last else b.transpose(y, 0, 3, 1, 2)
    return [b.pair("Add", x, y)]


def mbconv(b: Block) -> list[str]:
    """EfficientNet's block with squeeze and excitation."""
    x = b.image_input(1, 24, 28, 28)
    y = b.silu(b.conv(b.silu(b.conv(x, 144)), 144, 3, groups=144))
    gate = b.conv(b.silu(b.conv(b.mean_of_plane(y), 6)), 144)
    y = b.conv(b.pair("Mul", y, b.unary("Sigmoid", gate)), 24)
    return [b.pair("Add", y, x)]


def unet(b: Block) -> list[str]:
    """Two levels down and up again, with copies across."""
    x = b.image_input(1, 3, 32, 32)

    def two(x: str, kernels: int) -> str:
        return b.unary("Relu", b.conv(b.unary("Relu", b.conv(x, kernels, 3)), kernels, 3))

    first = two(x, 8)
    second = two(b.maxpool(first), 16)
    deep = two(b.maxpool(second), 32)
    second = two(b.concat([second, b.transposed_conv(deep, 16)], b.channel_axis), 16)
    first = two(b.concat([first, b.transposed_conv(second, 8)], b.channel_axis), 8)
    return [b.conv(first, 2)]


def yolo(b: Block) -> list[str]:
    """YOLO's neck and head over two scales: boxes as expectations over sixteen distances."""
    large, small = b.image_input(1, 32, 16, 16), b.image_input(1, 64, 8, 8)
    both = b.concat([b.upsample(b.silu(b.conv(small, 32))), large], b.channel_axis)
    scales = [b.silu(b.conv(both, 32, 3)), b.silu(b.conv(small, 64, 3))]
    boxes, classes = [], []
    for scale in scales:
        boxes.append(b.tokens(b.conv(b.silu(b.conv(scale, 32, 3)), 64)))
        classes.append(b.tokens(b.conv(b.silu(b.conv(scale, 32, 3)), 20)))
    box, kind = b.concat(boxes, 1), b.concat(classes, 1)
    rows = b.shapes[box][1]
    share = b.unary("Softmax", b.reshape(box, 1, rows, 4, 16), axis=-1)
    box = b.node("MatMul", [share, b.constant(np.arange(16.0)[:, None])], (1, rows, 4, 1))
    return [b.reshape(box, 1, rows, 4), b.unary("Sigmoid", kind)]


def shufflenet(b: Block) -> list[str]:
    """ShuffleNet's second unit: half of the channels pass by, then halves are shuffled."""
    x = b.image_input(1, 48, 14, 14)
    axis = b.channel_axis
    left, y = b.slice(x, axis, 0, 24), b.slice(x, axis, 24, 48)
    y = b.conv(b.unary("Relu", b.conv(y, 24)), 24, 3, groups=24)
    y = b.concat([left, b.unary("Relu", b.conv(y, 24))], axis)
    shape = b.shapes[y]
    if b.channels_last:
        y = b.transpose(b.reshape(y, 1, 14, 14, 2, 24), 0, 1, 2, 4, 3)
    else:
        y = b.transpose(b.reshape(y, 1, 2, 24, 14, 14), 0, 2, 1, 3, 4)
    return [b.unary("Relu", b.conv(b.reshape(y, *shape), 48))]


def audio(b: Block) -> list[str]:
    """Windows over a wave of 2,000 samples, then classes."""
    x = b.input(1, 1, 2000)
    for kernels, size, stride in ((16, 80, 4), (16, 3, 1), (32, 3, 1)):
        _, seen, samples = b.shapes[x]
        weights = [b.matrix(kernels, seen, size), b.matrix(kernels)]
        shape = (1, kernels, (samples - size) // stride + 1)
        x = b.unary("Relu", b.node("Conv", [x, *weights], shape, kernel_shape=[size], strides=[stride]))
        x = b.node("MaxPool", [x], (1, kernels, shape[2] // 4), kernel_shape=[4], strides=[4])
    x = b.node("ReduceMean", [x], (1, 32), axes=[2], keepdims=0)
    return [b.unary("Softmax", b.linear(x, 10), axis=-1)]


def keywords(b: Block) -> list[str]:
    """An LSTM over 49 frames of ten features, then classes from the last state."""
    x = b.input(49, 1, 10)
    weights = [b.matrix(1, 256, 10), b.matrix(1, 256, 64), b.matrix(1, 512)]
    b.nodes.append(helper.make_node("LSTM", [x, *weights], ["", "state"], hidden_size=64))
    b.shapes["state"] = (1, 1, 64)
    return [b.unary("Softmax", b.linear(b.reshape("state", 1, 64), 12), axis=-1)]


BLOCKS: dict[str, Callable[[Block], list[str]]] = {
    write.__name__: write
    for write in (
        vit, bert, prefill, decode, mobilevit, diffusion, convnext, mbconv, unet, yolo, shufflenet, audio,
        keywords,
    )
}  # fmt: skip
"""Blocks by name."""


def save_block(name: str, path: Path, *, channels_last: bool = False) -> Path:
    """Write a block as an ONNX file."""
    block = Block(channels_last=channels_last)
    return block.save(path, *BLOCKS[name](block))


# What they are, counted from the file alone ---------------------------------------------------------------


def counts(path: Path) -> tuple[int, int]:
    """Return the MACs of a file and the values that any execution moves: inputs, weights, outputs.

    Left out are single numbers, the scales of resizing, causal masks, which positions tell, and factors of
    each feature that only matrices of the file multiply, or that multiply what only such a matrix gives: they
    can be part of the matrix. The shapes are those that onnx infers.
    """
    model = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True)
    graph = model.graph
    shapes = {
        value.name: tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
        for value in [*graph.input, *graph.value_info, *graph.output]
    }
    numbers = {
        each.name: tuple(each.dims) for each in graph.initializer if each.data_type == TensorProto.FLOAT
    }
    shapes |= numbers
    macs = 0
    for node in graph.node:
        fields = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        read = [shapes.get(name, ()) for name in node.input]
        if node.op_type == "Conv":
            macs += prod(shapes[node.output[0]]) * prod(read[1][1:])
        elif node.op_type == "ConvTranspose":
            macs += prod(read[0]) * prod(read[1][1:])
        elif node.op_type == "MatMul":
            macs += prod(shapes[node.output[0]]) * read[0][-1]
        elif node.op_type == "LSTM":
            hidden = fields["hidden_size"]
            macs += read[0][0] * 4 * hidden * (read[0][2] + hidden)
    moved = sum(prod(shapes[value.name]) for value in [*graph.input, *graph.output])
    left_out = {name for node in graph.node if node.op_type == "Resize" for name in node.input}
    left_out |= {
        name for node in graph.node if node.op_type == "Mul" for name in _of_matrix(graph, node, numbers)
    }
    left_out |= {each.name for each in graph.initializer if _is_causal(numpy_helper.to_array(each))}
    return macs, moved + sum(prod(shape) for name, shape in numbers.items() if shape and name not in left_out)


def _is_causal(array: Any) -> bool:
    """Whether a matrix hides from each row the columns behind its own one, and nothing else."""
    if array.ndim != 2 or array.dtype != np.float32 or len(array) < 2:
        return False
    behind = np.triu(np.ones(array.shape, bool), 1 + array.shape[1] - array.shape[0])
    return bool(behind.any() and (array[behind] <= -1e4).all() and not array[~behind].any())


def _of_matrix(graph: onnx.GraphProto, node: onnx.NodeProto, numbers: Mapping[str, Shape]) -> list[str]:
    """Return the factors of a product that a matrix of the file before or after it can hold."""
    factors = [name for name in node.input if numbers.get(name, ()) and len(numbers[name]) == 1]
    [values] = [name for name in node.input if name not in factors] if factors else [""]

    def is_matrix(other: onnx.NodeProto) -> bool:
        return other.op_type == "MatMul" and other.input[1] in numbers

    readers = [other for other in graph.node if node.output[0] in other.input]
    writer = next((other for other in graph.node if values in other.output), None)
    while writer is not None and writer.op_type == "Add" and writer.input[0] in numbers:  # its bias
        values = writer.input[1]
        writer = next(other for other in graph.node if values in other.output)
    held = all(map(is_matrix, readers)) or (writer is not None and is_matrix(writer))
    return factors if held else []
