"""Random networks with weights as ONNX files: planned, emitted, run, held against onnxruntime on the file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from compiled import Compiled
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright import codegen
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.training import read_trained
from tilewright.run.instance import Instance

Shape = tuple[int, ...]

MACHINES: dict[str, dict[str, Any]] = {
    "residency": {"element_bytes": 3, "sum_bytes": 8, "macs_per_cycle": 2, "bus_elements_per_cycle": 4},
    "tiling": {"kind": '"dsp"', "element_bytes": 4, "macs_per_cycle": 4, "vector_ops_per_cycle": 4},
    "npu": {"kind": '"npu"', "tles": 2, "tlts": 2, "element_bytes": 4, "vector_ops_per_cycle": 4},
    "allocation": {"array": [4, 6], "functional_units": 2, "clock_mhz": 50, "word_bits": 16},
}
"""Machines in whose elements rounding makes little noise."""

LEAST_DB = 20.0
"""Of outputs in two bytes beside onnxruntime's; an activation that is lost costs more in three bytes, too."""


class Network:
    """A network that grows by one operation after the other."""

    def __init__(self, rng: random.Random, single: bool = False) -> None:
        self.single = single  # whether there is one input and one output
        self.rng, self.numbers = rng, np.random.default_rng(rng.randrange(2**32))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        side = rng.randint(4, 9), rng.randint(4, 9)
        self.inputs: dict[str, Shape] = {"x": (1, rng.randint(1, 4), *side)}
        if not single and rng.random() < 0.2:
            self.inputs["z"] = self.inputs["x"]
        self.shapes: dict[str, Shape] = dict(self.inputs)
        self.read: set[str] = set()
        self.hidden: set[str] = set()  # what a normalisation alone may read

    def constant(self, *shape: int, positive: bool = False) -> str:
        name = f"w{len(self.weights)}"
        fan = np.sqrt(max(1, np.prod(shape[1:])))
        values = (
            self.numbers.uniform(0.5, 1.5, shape) if positive else self.numbers.standard_normal(shape) / fan
        )
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def give(self, operator: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        self.shapes[name] = shape
        self.read.update(inputs)
        return name

    def grow(self) -> None:
        """Add an operation or a few."""
        source = self.rng.choice(
            [name for name in self.shapes if name not in self.hidden][-1 if self.single else -3 :]
        )
        kinds = [self.convolution] * 4 + [self.relu, self.pool, self.pool, self.combine, self.combine]
        self.rng.choice(kinds)(source, self.shapes[source])

    def convolution(self, source: str, shape: Shape) -> None:
        _, channels, *plane = shape
        groups = self.rng.choice([1, 1, 1, channels])
        kernels = groups * self.rng.randint(1, 2 if groups > 1 else 5)
        kernel, dilations, pads, strides, result = [], [], [[0, 0], [0, 0]], [], []
        for axis, size in enumerate(plane):
            taps, dilation = self.rng.randint(1, 3), self.rng.choice([1, 1, 2])
            extent = dilation * (taps - 1) + 1
            pads[0][axis], pads[1][axis] = (self.rng.randint(0, extent - 1) for _ in range(2))
            if size + pads[0][axis] + pads[1][axis] < extent:
                taps, dilation, extent, pads[0][axis], pads[1][axis] = 1, 1, 1, 0, 0
            strides.append(self.rng.choice([1, 1, 2]))
            kernel.append(taps)
            dilations.append(dilation)
            result.append((size + pads[0][axis] + pads[1][axis] - extent) // strides[-1] + 1)
        bias = [self.constant(kernels)] if self.rng.random() < 0.6 else []
        weights = self.constant(kernels, channels // groups, *kernel)
        found = self.give(
            "Conv", [source, weights, *bias], (1, kernels, *result), group=groups, kernel_shape=kernel,
            strides=strides, dilations=dilations, pads=[*pads[0], *pads[1]],
        )  # fmt: skip
        if self.rng.random() < 0.3:
            self.hidden.add(found)
            numbers = [self.constant(kernels, positive=place in (0, 3)) for place in range(4)]
            found = self.give("BatchNormalization", [found, *numbers], self.shapes[found])
        if self.rng.random() < 0.6:
            self.relu(found, self.shapes[found])

    def relu(self, source: str, shape: Shape) -> None:
        if source not in self.inputs:
            self.give("Relu", [source], shape)

    def pool(self, source: str, shape: Shape) -> None:
        if self.rng.random() < 0.3:
            self.give("GlobalAveragePool", [source], (*shape[:2], 1, 1))
            return
        operator = self.rng.choice(["MaxPool", "AveragePool"])
        kernel = [self.rng.randint(1, min(3, size)) for size in shape[2:]]
        strides = [self.rng.randint(1, 2) for _ in kernel]
        pads = [0, 0, 0, 0]
        if operator == "MaxPool":
            pads = [self.rng.randint(0, size - 1) for size in (*kernel, *kernel)]
        result = [
            (size + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis] + 1
            for axis, size in enumerate(shape[2:])
        ]
        own = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        self.give(operator, [source], (*shape[:2], *result), **own)

    def combine(self, source: str, shape: Shape) -> None:
        others = {name: s for name, s in self.shapes.items() if name != source and name not in self.hidden}
        alike = [name for name, other in others.items() if other == shape]
        beside = [name for name, other in others.items() if other[2:] == shape[2:]]
        if alike and self.rng.random() < 0.7:
            self.give(self.rng.choice(["Add", "Add", "Mul"]), [source, self.rng.choice(alike)], shape)
        elif beside:
            other = self.rng.choice(beside)
            self.give("Concat", [source, other], (1, shape[1] + self.shapes[other][1], *shape[2:]), axis=1)

    def classify(self) -> None:
        """End with a fully connected layer, perhaps with a softmax."""
        source = list(self.shapes)[-1]
        count = int(np.prod(self.shapes[source]))
        flat = self.give("Flatten", [source], (1, count))
        found = self.give("Gemm", [flat, self.constant(count, 4), self.constant(4)], (1, 4))
        if self.rng.random() < 0.5:
            self.give("Softmax", [found], (1, 4), axis=1)

    def save(self, path: Path) -> None:
        """Write the network; outputs are what nobody reads, and perhaps a tensor that is read, too."""
        outputs = [name for name in self.shapes if name not in self.read and name not in self.inputs]
        inside = [name for name in self.shapes if name in self.read - self.hidden and name not in self.inputs]
        if inside and not self.single and self.rng.random() < 0.25:
            outputs.append(self.rng.choice(inside))
        told = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each]
            for each in (self.inputs.items(), [(name, self.shapes[name]) for name in outputs])
        ]
        graph = helper.make_graph(self.nodes, "network", *told, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)


def any_network(rng: random.Random, path: Path, single: bool = False) -> None:
    """Write a random network, perhaps of one input and one output."""
    network = Network(rng, single)
    while not network.nodes or rng.random() < 0.8:
        network.grow()
    if rng.random() < 0.4:
        network.classify()
    network.save(path)


def instance_of(path: Path, room: str, kilobytes: int) -> Instance:
    """Return the instance of a network on a machine of a room, or an NPU; fusion's is a bundled one."""
    if room == "fusion":
        wide = (("machine.element_bytes", 2),)
        return assemble(path, Changes(machine="dnnvm-zu2", room=room, values=wide))
    memory = {"input_bytes": 256 * kilobytes} if room == "npu" else {"memory_bytes": 1024 * kilobytes}
    if room == "allocation":
        memory = {}  # buffers without limit
    values, room = memory | MACHINES[room], {"npu": "tiling"}.get(room, room)
    machine = path.with_name("machine.toml")
    machine.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    return assemble(path, Changes(machine=str(machine), room=room))


def emitted(instance: Instance, method: str, path: Path, seed: int, *flags: str) -> Compiled:
    """Plan a network, emit it with the file's weights, compile it and run it."""
    plan = tilewright.solve(instance, method, time_limit=20).plan
    numbers = read_trained(path, images=codegen.images_of(instance.problem), seed=seed)
    files = codegen.project("net", "", instance.problem, plan, numbers)
    folder = path.parent / "c"
    built = Compiled(folder, files, *flags)
    told = {row[0]: row[1] for row in built.lines if len(row) == 2}
    wrong = next(text for name, text in told.items() if "wrong" in name)
    assert wrong.startswith("0 of "), wrong
    noise = told.get("signal to noise beside floating point, dB", "inf")
    assert float(noise) > LEAST_DB, f"{noise} dB beside onnxruntime"
    return built
