"""ONNX models at random, whole or damaged: a network that survives its file, or a sentence that says why."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference
from tests.fuzz import command_line
from tests.fuzz.trials import Wrong

from tilewright import importing
from tilewright.importing.files import instance_files, network_file
from tilewright.importing.operators import OPERATORS
from tilewright.run.instance import MAX_BYTES, load
from tilewright.spec.errors import TilewrightError
from tilewright.spec.network import Network

NIGHTLY = 150

OTHERS = [
    "Resize", "Upsample", "Slice", "Split", "Gather", "Expand", "Where", "Max", "Min",
    "Pow", "Sqrt", "GRU", "LSTM", "Einsum", "InstanceNormalization", "LayerNormalization", "GlobalLpPool",
    "LpPool", "ArgMax", "TopK", "ReduceSum", "Shape", "Size", "Constant", "ConstantOfShape", "Range",
    "Tile", "NonZero", "QLinearConv", "ConvInteger", "MatMulInteger", "NonMaxSuppression", "Loop",
    "Foreign",
]  # fmt: skip
"""Operators that no layer does, or did not at one time."""

OF_TWO = ("Add", "Sub", "Mul", "Div", "Sum", "Max", "Min", "Pow", "Where", "Einsum", "MatMulInteger")
"""Operators of two tensors, or of one and numbers of its own."""

SHAPES = [(0, -1), (1, -1), (0, 0, -1), (-1, 2), (0,)]

MACHINES = {"tiling": "idsp", "allocation": "tcpa", "fusion": "dnnvm-zu2"}

Shape = list[int] | None


def inferred(model: ModelProto, *, strict_mode: bool) -> onnx.GraphProto:
    """Return a model's graph with the shapes that ONNX finds: none where it finds a mistake."""
    try:
        return shape_inference.infer_shapes(model, strict_mode=strict_mode, data_prop=True).graph
    except Exception:  # of several kinds, one of them without a base of its own
        return onnx.GraphProto()


class Maker:
    """Builds a random model, node after node, with the shapes that ONNX infers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.opset = rng.choice([17] * 6 + [7, 11, 13, 18, 21])
        rank = rng.choice([4] * 8 + [3, 2, 5])
        sizes = [rng.choice([1, 1, 1, 2]), rng.randint(1, 8), *(rng.randint(1, 12) for _ in range(3))][:rank]
        self.shapes: dict[str, Shape] = {"x": sizes}
        self.sizes = sizes

    def any_of(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(
            helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(prod(shape), np.float32))
        )
        return name

    def numbers(self, *values: int) -> str:
        name = f"n{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def window(self, plane: Sequence[int], *, dilated: bool = True) -> dict[str, Any]:
        """Return the attributes of a window, which mostly fits into the plane."""
        kernel = [self.rng.randint(1, max(1, min(4, size))) for size in plane]
        told: dict[str, Any] = {"kernel_shape": kernel}
        if self.rng.random() < 0.5:
            told["strides"] = [self.rng.randint(1, 3) for _ in plane]
        if dilated and self.rng.random() < 0.2:
            told["dilations"] = [self.rng.randint(1, 2) for _ in plane]
        if self.rng.random() < 0.5:
            told["pads"] = [self.rng.randint(0, max(0, size - 1)) for size in kernel * 2]
        elif self.rng.random() < 0.3:
            told["auto_pad"] = self.any_of("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        return told

    def add(self) -> None:
        """Add a node of a random operator that reads what is there."""
        operator = self.rng.choice([*OPERATORS] * 4 + ["Conv"] * 40 + OTHERS)
        source = self.rng.choice(list(self.shapes)[-3:])
        shape = self.shapes[source] or [1, 4, 8, 8]
        inputs, told = self.parts(operator, source, shape)
        outputs = [f"t{len(self.nodes)}"]
        if operator in ("Split", "TopK", "GRU", "LSTM", "Dropout") and self.rng.random() < 0.5:
            outputs.append(f"u{len(self.nodes)}")
        name = self.any_of("", f"node_{len(self.nodes)}", f"body/{operator}.{len(self.nodes)}", "ü ]]\n\"'")
        told = {key: value for key, value in told.items() if value != []}
        node = helper.make_node(operator, inputs, outputs, name=name, **told)
        if operator == "Foreign":
            node.domain = "com.example"
        self.nodes.append(node)
        graph = inferred(self.model(), strict_mode=False)
        for value in (*graph.value_info, *graph.output):
            dimensions = value.type.tensor_type.shape.dim
            known = value.type.tensor_type.HasField("shape") and all(
                d.HasField("dim_value") for d in dimensions
            )
            self.shapes[value.name] = [d.dim_value for d in dimensions] if known else None
        for output in outputs:
            self.shapes.setdefault(output, None)

    def parts(self, operator: str, source: str, shape: list[int]) -> tuple[list[str], dict[str, Any]]:
        """Return inputs and attributes that an operator takes, mostly."""
        rng, channels, plane = self.rng, (shape[1] if len(shape) > 1 else 1), shape[2:]
        axes = [*range(len(shape))] * 2
        another = rng.choice([name for name, known in self.shapes.items() if known == self.shapes[source]])
        special: dict[str, Callable[[], tuple[list[str], dict[str, Any]]]] = {
            "Concat": lambda: ([source, another], {"axis": self.any_of(1, 1, 1, -3, 0, 2)}),
            "Flatten": lambda: ([source], self.any_of({}, {"axis": 1}, {"axis": 2})),
            "Reshape": lambda: ([source, self.numbers(*rng.choice(SHAPES))], {}),
            "Squeeze": lambda: ([source, self.numbers(*self.any_of((2,), (2, 3), (-1,)))], {}),
            "Unsqueeze": lambda: ([source, self.numbers(self.any_of(1, 2, -1, 0))], {}),
            "Transpose": lambda: ([source], {"perm": rng.sample(range(len(shape)), len(shape))}),
            "SpaceToDepth": lambda: ([source], {"blocksize": self.any_of(1, 2, 3)}),
            "DepthToSpace": lambda: ([source], {"blocksize": self.any_of(1, 2), "mode": "CRD"}),
            "Pad": lambda: ([source, self.numbers(*(rng.randint(0, 2) * (i > 1) for i in axes))], {}),
            "Cast": lambda: ([source], {"to": self.any_of(1, 10, 7, 9)}),
            "LRN": lambda: ([source], {"size": self.any_of(1, 3, 5)}),
            "PRelu": lambda: ([source, self.weight(*self.any_of((1,), (channels, 1, 1)))], {}),
            "Clip": lambda: ([source, self.weight(), ""], {}),
            "BatchNormalization": lambda: ([source, *(self.weight(channels) for _ in range(4))], {}),
            "Gemm": lambda: ([source, self.weight(channels, 5)], self.any_of({}, {"transB": 1})),
            "MatMul": lambda: ([source, self.weight(shape[-1] if shape else 1, 5)], {}),
            "ReduceMean": lambda: ([source], {"axes": self.any_of([2, 3], [-1], [1]), "keepdims": 0}),
            "ReduceMax": lambda: ([source], {"axes": self.any_of([2, 3], [-2, -1], [0])}),
            "Split": lambda: ([source], {"axis": 1}),
            "Slice": lambda: ([source, self.numbers(0), self.numbers(2), self.numbers(1)], {}),
            "Resize": lambda: ([source, "", self.weight(len(shape))], {}),
            "Constant": lambda: ([], {"value": numpy_helper.from_array(np.zeros(3, np.float32))}),
            "Gather": lambda: ([source, self.numbers(0)], {"axis": self.any_of(0, 1)}),
            "QuantizeLinear": lambda: ([source, self.weight()], {}),
            "DequantizeLinear": lambda: ([source, self.weight()], {}),
        }  # fmt: skip
        if operator in special:
            return special[operator]()
        if operator in ("Conv", "ConvTranspose"):
            told = self.window(plane)
            groups = self.any_of(1, 1, 1, max(1, channels))
            kernels = groups * rng.randint(1, 4)
            kernel = told.pop("kernel_shape") if rng.random() < 0.5 else told["kernel_shape"]
            bias = [self.weight(kernels)] if rng.random() < 0.4 else []
            weight = self.weight(kernels, max(1, channels // groups), *kernel)
            return [source, weight, *bias], told | ({"group": groups} if groups > 1 else {})
        if operator in ("MaxPool", "AveragePool", "LpPool"):
            told = self.window(plane, dilated=operator == "MaxPool")
            return [source], told | self.any_of({}, {"ceil_mode": 1}, {"ceil_mode": 0})
        if operator in OF_TWO:
            own = self.weight(*self.any_of((), (1,), (channels, 1, 1), (1, channels, 1, 1)))
            pair = [source, self.any_of(another, another, own)]
            return (pair if rng.random() < 0.8 else pair[::-1]), {}
        if operator in ("Expand", "Tile", "TopK", "Upsample", "ConstantOfShape"):
            return [source, self.numbers(1, 2)], {}
        return [source], {}

    def model(self) -> ModelProto:
        outputs = self.nodes[-1].output[:1] if self.nodes else ["x"]
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.sizes)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.weights,
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.example", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="test")


# Mistakes ------------------------------------------------------------------------------------------


def other_node(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Make one mistake in a node."""
    node = rng.choice(graph.node)
    names = ["x", "", "nothing", *(name for each in graph.node for name in each.output)]
    match rng.randrange(9):
        case 0:
            graph.node.remove(node)
        case 1 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 2 if node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(names)
        case 3:
            node.op_type = rng.choice([*OPERATORS, *OTHERS, "", "If"])
        case 4:
            graph.node.add().CopyFrom(node)
        case 5 if node.input:
            del node.input[-1]
        case 6:
            node.input.append(rng.choice(names))
        case 7:
            node.domain = rng.choice(["ai.onnx", "ai.onnx.ml", "com.example", "\x7f"])
        case _:
            other_attribute(node, rng)


def other_attribute(node: NodeProto, rng: random.Random) -> None:
    """Make one mistake in an attribute."""
    numbers = [0, 1, -1, 2, 3, 64, 65, 2**31, 2**40, -(2**63)]
    if node.attribute and rng.random() < 0.7:
        attribute = rng.choice(node.attribute)
        match rng.randrange(5):
            case 0:
                node.attribute.remove(attribute)
            case 1:
                attribute.i = rng.choice(numbers)
            case 2 if attribute.ints:
                attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(numbers)
            case 3 if attribute.ints:
                del attribute.ints[-1]
            case _:
                attribute.type = rng.choice(range(15))
        return
    name = rng.choice(
        ["kernel_shape", "strides", "pads", "dilations", "group", "axis", "axes", "perm", "auto_pad", "to",
         "transA", "transB", "blocksize", "mode", "body", "keepdims", "ceil_mode"]
    )  # fmt: skip
    values: list[Any] = [
        1,
        0,
        -5,
        [1, 1],
        [0, 0],
        [-1, 2**40],
        [],
        [1] * 40,
        "SAME_UPPER",
        "x",
        0.5,
        float("nan"),
    ]
    value = rng.choice(values)
    node.attribute.append(
        AttributeProto(name=name, type=AttributeProto.INTS)
        if value == []
        else helper.make_attribute(name, value)
    )


def other_tensor(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Make one mistake in a weight."""
    if not graph.initializer:
        return
    tensor = rng.choice(graph.initializer)
    match rng.randrange(7):
        case 0:
            graph.initializer.remove(tensor)
        case 1 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice([0, -1, 1, 7, 2**33, 2**62])
        case 2:
            tensor.dims.append(rng.choice([0, 1, 2, 2**40]))
        case 3:
            tensor.data_type = rng.choice([0, 1, 2, 6, 7, 8, 9, 10, 11, 16, 19, 22, 99])
        case 4:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=rng.choice(["/etc/passwd", "../x", "weights.bin"]))
        case 5:
            tensor.name = rng.choice(["x", "", "w0", "t0"])
        case _:
            tensor.raw_data = bytes(rng.randrange(20))


def other_graph(model: ModelProto, rng: random.Random) -> None:
    """Make one mistake elsewhere."""
    graph, opset = model.graph, rng.choice([0, 1, 5, 9, 13, 17, 22, 26, 99, -1, 2**40])
    match rng.randrange(11):
        case 0:
            graph.input[0].type.tensor_type.shape.dim.add().dim_value = rng.choice([0, 1, -1, 2**40])
        case 1 if graph.input[0].type.tensor_type.shape.dim:
            rng.choice(graph.input[0].type.tensor_type.shape.dim).dim_param = "N"
        case 2:
            graph.input[0].type.Clear()
        case 3 if model.opset_import:
            model.opset_import[0].version = opset
        case 4:
            del model.opset_import[:]
        case 5:
            graph.output.add().name = rng.choice(["", "x", "nothing", "t0"])
        case 6:
            del graph.output[:]
        case 7:
            sizes = [rng.choice([0, 1, 3, 2**40]) for _ in range(rng.randrange(6))]
            name = rng.choice(["t0", "t1", "x", "w0"])
            graph.value_info.append(helper.make_tensor_value_info(name, rng.choice([1, 7, 0]), sizes))
        case 8:
            graph.input.append(helper.make_tensor_value_info(rng.choice(["y", "x", "w0"]), 1, [1, 3]))
        case 9:
            node = rng.choice(graph.node)
            node.attribute.append(helper.make_attribute("body", graph))
        case _:
            called = helper.make_node("Relu", ["a"], ["b"])
            name = rng.choice([*OPERATORS, "Foreign"])
            imports = [helper.make_opsetid("", 17)]
            model.functions.append(helper.make_function("com.example", name, ["a"], ["b"], [called], imports))


def content(model: ModelProto, rng: random.Random) -> tuple[bytes, bool]:
    """Return the bytes of a file, and whether it is as it should be."""
    kind, structured = rng.random(), False
    if kind < 0.45:
        structured = True
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            if model.graph.node:
                change = rng.choice([other_node, other_node, other_tensor, other_graph])
                change(model if change is other_graph else model.graph, rng)  # type: ignore[arg-type]
    data = bytearray(model.SerializeToString())
    if kind > 0.3 and kind < 0.7 and data:
        structured = True
        for _ in range(rng.choice([1, 1, 2, 5])):
            first = rng.randrange(len(data))
            last = first + rng.choice([0, 1, 4, 100])
            data[first:last] = rng.choice([bytes([rng.randrange(256)]), b"", rng.randbytes(8), b"\xff" * 10])
            data = data or bytearray(b"\0")
    return bytes(data), not structured


def macs(model: ModelProto) -> int | None:
    """Count MACs from ONNX's own shapes; None where that is not simple."""
    if {node.op_type for node in model.graph.node} - set(OPERATORS) or model.graph.input[0].name != "x":
        return None
    graph = inferred(model, strict_mode=True)
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes.setdefault(value.name, [each.dim_value for each in value.type.tensor_type.shape.dim])
    needed, total = {model.graph.output[0].name}, 0
    for node in reversed(model.graph.node):
        if not needed.intersection(node.output):
            continue
        needed.update(node.input)
        if node.op_type == "Conv":
            if node.output[0] not in shapes:
                return None
            total += prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])
        elif node.op_type in ("ConvTranspose", "Gemm", "MatMul"):
            return None
    return total


def survive(network: Network, folder: Path, rng: random.Random) -> None:
    """Write a network and instances of it, and read the network again."""
    network.check_shapes()
    importing.summary(network)
    ((name, text),) = network_file(network).items()
    if len(text.encode()) <= MAX_BYTES:
        path = folder / name
        path.write_text(text)
        if Network.model_validate(load(path)) != network:
            raise Wrong(f"another network is read than was written:\n{text[:3000]}")
    room = rng.choice(list(MACHINES))
    try:
        instance_files(network, room, MACHINES[room])
    except TilewrightError:
        return


def trial(rng: random.Random, scratch: Path) -> None:
    """Import one model."""
    maker = Maker(rng)
    for _ in range(rng.choice([1, 2, 4, 8])):
        maker.add()
    model = maker.model()
    data, whole = content(model, rng)
    path = scratch / "net.onnx"
    path.write_bytes(data)
    allow = rng.random() < 0.5
    if rng.random() < 0.2:
        command = ["import", path.name, "-o", "out", *(["--allow-unknown"] if allow else [])]
        if rng.random() < 0.4:
            room = rng.choice(list(MACHINES))
            command += ["--room", room, "--machine", MACHINES[room]]
        if rng.random() < 0.3:
            command += ["--input", rng.choice(["x=1,3,8,8", "x=1", "y=1,3,8,8", "x=4294967296,3,1,1"])]
        command_line.run(scratch, *command)
        return
    try:
        network = importing.network(path, allow_unknown=allow)
    except TilewrightError as error:
        if path.name not in str(error) or len(str(error)) > 5000:
            raise Wrong(f"the file is not named, or at length: {str(error)[:6000]}") from error
        return
    survive(network, scratch, rng)
    simple = (
        whole
        and maker.sizes[0] == 1
        and all(layer.kind not in ("function", "opaque") for layer in network.layers)
    )
    expected = macs(model) if simple else None
    if expected is not None and network.macs != expected:
        raise Wrong(f"{network.macs} MACs, {expected} by ONNX's shapes: {onnx.printer.to_text(model)[:3000]}")
