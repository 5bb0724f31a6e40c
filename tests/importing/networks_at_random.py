"""Small networks at random that transpose, reshape and multiply, as ONNX files."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = list[int]
LARGEST = 3000
"""Most values of a tensor that is read further."""


class Maker:
    """Adds one operation after the other, each of which reads one of the last tensors."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.images = self.rng.choice([1, 1, 1, 2])
        rank = self.rng.choice([3, 4, 4])
        self.own = [self.images, *(self.rng.randint(2, 5) for _ in range(rank - 1))]
        self.shapes: dict[str, Shape] = {"x": self.own}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, array: Any, kind: type = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def matrix(self, *shape: int) -> str:
        return self.constant(np.random.default_rng(len(self.weights)).integers(-2, 3, shape))

    def give(self, operator: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def add(self) -> None:
        """Add an operation, if it fits to the tensor that is drawn."""
        source = self.rng.choice(
            [name for name, shape in list(self.shapes.items())[-3:] if prod(shape) < LARGEST]
        )
        shape = self.shapes[source]
        if len(shape) > 1:
            rules: list[Callable[[str, Shape], object]] = [
                *[self.transpose] * 3, self.value_by_value, self.sum_of_two, self.joined, self.reshape,
                self.reduce, self.multiply, self.multiply_by_itself, self.window, self.pad, self.squeeze,
            ]  # fmt: skip
            self.rng.choice(rules)(source, shape)

    def transpose(self, source: str, shape: Shape) -> str:
        perm = [0, *self.rng.sample(range(1, len(shape)), len(shape) - 1)]
        if self.images == 1 and self.rng.random() < 0.3:
            self.rng.shuffle(perm)
        return self.give("Transpose", [source], [shape[axis] for axis in perm], perm=perm)

    def value_by_value(self, source: str, shape: Shape) -> None:
        few = [
            size if self.rng.random() < 0.6 else 1 for size in shape[self.rng.randint(1, len(shape) - 1) :]
        ]
        operator = self.rng.choice(["Relu", "Add", "Mul"])
        self.give(operator, [source, *([self.matrix(*few)] if operator != "Relu" else [])], shape)

    def _equal(self, shape: Shape) -> str:
        return self.rng.choice([name for name, known in self.shapes.items() if known == shape])

    def sum_of_two(self, source: str, shape: Shape) -> None:
        self.give("Add", [source, self._equal(shape)], shape)

    def joined(self, source: str, shape: Shape) -> None:
        axis = self.rng.randint(1, len(shape) - 1)
        result = [size * (2 if place == axis else 1) for place, size in enumerate(shape)]
        self.give("Concat", [source, self._equal(shape)], result, axis=axis)

    def reshape(self, source: str, shape: Shape) -> None:
        axis = self.rng.randint(1, len(shape) - 1)
        if self.rng.random() < 0.5 and axis < len(shape) - 1:
            result = [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]
        elif shape[axis] % 2 == 0 and len(shape) < 5:
            result = [*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :]]
        else:
            result = [shape[0], prod(shape[1:])]
        self.give("Reshape", [source, self.constant(result, np.int64)], result)

    def reduce(self, source: str, shape: Shape) -> None:
        if len(shape) < 3:
            return
        axes = sorted(self.rng.sample(range(1, len(shape)), self.rng.randint(1, len(shape) - 2)))
        keep = self.rng.randint(0, 1)
        result = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
        self.give("ReduceMax", [source], result, axes=axes, keepdims=keep)

    def multiply(self, source: str, shape: Shape) -> None:
        if len(shape) > 2 and self.rng.random() < 0.4:
            self.give("MatMul", [self.matrix(3, shape[-2]), source], [*shape[:-2], 3, shape[-1]])
        else:
            self.give("MatMul", [source, self.matrix(shape[-1], 3)], [*shape[:-1], 3])

    def multiply_by_itself(self, source: str, shape: Shape) -> None:
        if len(shape) > 2:
            perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            turned = self.give("Transpose", [source], [shape[axis] for axis in perm], perm=perm)
            self.give("MatMul", [source, turned], [*shape[:-1], shape[-2]])

    def window(self, source: str, shape: Shape) -> None:
        if shape[0] == self.images and len(shape) in (3, 4):
            weights = self.matrix(2, shape[1], *[1] * (len(shape) - 2))
            self.give("Conv", [source, weights], [shape[0], 2, *shape[2:]])
        if shape[0] == self.images and len(shape) == 4 and min(shape[2:]) > 1:
            self.give(
                "MaxPool", [source], [*shape[:2], *(size - 1 for size in shape[2:])], kernel_shape=[2, 2]
            )

    def pad(self, source: str, shape: Shape) -> None:
        axis = self.rng.randint(1, len(shape) - 1)
        pads = [int(place == axis) for place in range(2 * len(shape))]
        self.give(
            "Pad", [source, self.constant(pads, np.int64)], [s + p for s, p in zip(shape, pads, strict=False)]
        )

    def squeeze(self, source: str, shape: Shape) -> None:
        ones = [axis for axis, size in enumerate(shape) if size == 1 and axis]
        if ones and len(shape) > 2:
            result = [size for axis, size in enumerate(shape) if axis != ones[0]]
            self.give("Squeeze", [source, self.constant(ones[:1], np.int64)], result)

    def save(self, path: Path) -> None:
        """Write the network; what nothing reads is given."""
        read = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.own)],
            [onnx.ValueInfoProto(name=name) for name in self.shapes if name not in read],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)


def save_network(seed: int, path: Path) -> None:
    """Write the network of a seed."""
    maker = Maker(seed)
    while len(maker.nodes) < 1 + seed % 9:
        maker.add()
    maker.save(path)
