"""Networks from ONNX: the nine that onnx ships, every operator, and everything that can be wrong."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import tells
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import tilewright.importing.model
from tilewright.importing import network, summary
from tilewright.importing.files import distinct_layers, instance_files, network_file, write
from tilewright.run.instance import read
from tilewright.spec.coarsening import coarse, stages
from tilewright.spec.errors import InputError
from tilewright.spec.network import ACTIVATIONS, Network

DOCS = Path(__file__).parents[2] / "docs" / "import.md"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

# The networks that onnx ships: layers, MACs, parameters; and what papers or authors say of the last two.
LIGHTS = {
    # 227x227 in the paper: 724 million MACs; 61.0 million parameters, as here.
    "bvlc_alexnet": (24, 654_560_384, 60_965_224),
    # 2.83 billion and 7,978,856; batch normalisation has a scale and a shift here, and they stand again
    # behind it: twice 41,824 more parameters.
    "densenet121": (668, 2_834_161_664, 7_978_856 + 2 * 41_824),
    # 1.58 billion and 6,998,552; pools leave out the rest of windows here, so that planes are smaller.
    "inception_v1": (143, 1_431_556_352, 6_998_552),
    # No numbers in the paper; its authors' later papers say 2 billion MACs and 11.2 million parameters.
    # Batch normalisation as in DenseNet-121: twice 10,304 parameters more.
    "inception_v2": (371, 2_018_851_840, 11_194_280 + 2 * 10_304),
    # 3.8 billion and 25.6 million; here the stride of a block is on its 3x3.
    "resnet50": (176, 4_089_184_256, 25_557_032),
    # 133 million for 4 groups; there, all is twice as wide and bottlenecks are a quarter of that.
    "shufflenet": (203, 124_664_528, 1_393_320),
    # 1.25 million parameters; here is version 1.1 of its authors: 2.4 times fewer MACs than 1.0, 1,235,496.
    "squeezenet": (66, 349_151_936, 1_235_496),
    # 19.6 billion (He et al. 2016) and 144 million.
    "vgg19": (46, 19_632_062_464, 143_667_240),
    # No numbers in the paper, where the last three convolutions have 512, 1024 and 512 maps, not 512 each,
    # and the second fully connected layer 4096 outputs, not 1024.
    "zfnet512": (22, 1_481_727_008, 87_250_536),
}


def light(name: str) -> Path:
    return LIGHT / f"light_{name}.onnx"


def test_all_that_onnx_ships_are_known() -> None:
    assert sorted(path.name for path in LIGHT.glob("*.onnx")) == sorted(light(name).name for name in LIGHTS)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", LIGHTS)
def test_counts_of_the_networks_that_onnx_ships(name: str) -> None:
    found = network(light(name))
    found.check_shapes()
    assert (len(found.layers), found.macs, found.parameters) == LIGHTS[name]
    assert "opaque" not in {layer.kind for layer in found.layers}
    assert (found.macs, found.parameters) == counted(light(name))
    graphs = " | ".join(f"{nodes}, {edges}" for nodes, edges in STAGES[name])
    assert f"| {found.macs:,} | {found.parameters:,} | {graphs} |" in DOCS.read_text(encoding="utf-8")


def counted(path: Path) -> tuple[int, int]:
    """Count MACs and parameters from ONNX's own shapes and nothing else."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True)
    graph = model.graph
    shapes = {
        value.name: [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    makes = {name: node for node in graph.node for name in node.output}
    image = graph.input[0].name if graph.input[0].name.endswith("data_0") else "data_0"

    def is_weight(name: str) -> bool:
        return name != image and (name not in makes or all(map(is_weight, makes[name].input)))

    macs = parameters = 0
    for node in graph.node:
        weights = [shapes[name] for name in node.input[1:]] if not is_weight(node.output[0]) else []
        if node.op_type == "Conv":
            macs += prod(shapes[node.output[0]]) * prod(weights[0][1:])
            parameters += sum(map(prod, weights))
        elif node.op_type == "Gemm":
            macs += prod(weights[0])
            parameters += sum(map(prod, weights))
        elif node.op_type == "BatchNormalization" and weights:
            parameters += sum(map(prod, weights[:2]))
        elif node.op_type in ("Mul", "Add") and weights and is_weight(node.input[1]):
            parameters += prod(weights[0])
    return macs, parameters


# Nodes and edges of the graphs: raw, after intrinsic and point-wise fusion, pruned.
STAGES = {
    "bvlc_alexnet": [(25, 24), (25, 24), (16, 15), (15, 14)],
    "densenet121": [(669, 726), (368, 425), (247, 304), (189, 723)],
    "inception_v1": [(144, 170), (144, 170), (86, 112), (76, 156)],
    "inception_v2": [(372, 399), (165, 192), (96, 123), (85, 181)],
    "resnet50": [(177, 192), (124, 139), (75, 90), (74, 89)],
    "shufflenet": [(204, 219), (155, 170), (122, 137), (73, 88)],
    "squeezenet": [(67, 74), (67, 74), (40, 47), (32, 39)],
    "vgg19": [(47, 46), (47, 46), (27, 26), (26, 25)],
    "zfnet512": [(23, 22), (23, 22), (16, 15), (15, 14)],
}


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", LIGHTS)
def test_graphs_of_the_networks_that_onnx_ships(name: str) -> None:
    found = network(light(name))
    assert [(len(graph.reads), graph.reads.number_of_edges()) for _, graph in stages(found)] == STAGES[name]
    fused = coarse(found)
    fused.check_shapes()
    assert coarse(fused) == fused
    assert fused.macs == found.macs
    kinds = Counter(layer.kind for layer in fused.layers)
    kept = {"densenet121": {"map"}, "shufflenet": {"concat", "map"}}.get(name, {"map"})
    assert set(kinds) - {"conv", "fc", "pool", "add"} <= kept


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", LIGHTS)
def test_networks_survive_their_files(name: str) -> None:
    for found in (network(light(name)), coarse(network(light(name)))):
        ((_, text),) = network_file(found).items()
        assert Network.model_validate(tomllib.loads(text)) == found


# Models by hand ----------------------------------------------------------------------------------

Node = onnx.NodeProto
N = helper.make_node


def weight(name: str, *shape: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape, np.float32))


def floats(name: str, *values: float) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.float32), name)


def numbers(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(
    nodes: Sequence[Node],
    weights: Sequence[TensorProto] = (),
    *,
    sizes: Mapping[str, Sequence[int | str]] | None = None,
    outputs: Sequence[str] = (),
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    **fields: Any,
) -> onnx.ModelProto:
    """Build a model of an input ``x`` of 1x4x8x8 whose last node gives the output."""
    inputs = sizes or {"x": [1, 4, 8, 8]}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in inputs.items()],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in outputs or [nodes[-1].output[0]]
        ],
        list(weights),
        **fields,
    )
    imports = [
        helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="test")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.onnx"


def imported(
    file: Path, nodes: Sequence[Node], *arguments: Any, allow: bool = False, **options: Any
) -> Network:
    onnx.save(model(nodes, *arguments, **options), file)
    return network(file, allow_unknown=allow)


def refused(file: Path, *arguments: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        imported(file, *arguments, **options)
    assert caught.value.file == str(file)
    return caught.value


def tables(found: Network) -> list[dict[str, Any]]:
    return [
        layer.model_dump(exclude_defaults=True, exclude={"name", "inputs", "input"}) for layer in found.layers
    ]


CONV = {"kernels": 6, "kernel": (3, 3)}
W = weight("w", 6, 4, 3, 3)
POOL_ALL = {"kind": "pool", "op": "average", "kernel": (8, 8)}


@pytest.mark.parametrize(
    ("node", "weights", "expected"),
    [
        (N("Conv", ["x", "w"], ["y"]), [W], CONV),
        (N("Conv", ["x", "w", "b"], ["y"]), [W, weight("b", 6)], CONV | {"bias": True}),
        (
            N("Conv", ["x", "w"], ["y"], strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]),
            [W],
            CONV | {"stride": (2, 1), "padding": (1, 2, 0, 1), "dilation": (1, 2)},
        ),
        (
            N("Conv", ["x", "w"], ["y"], group=4),
            [weight("w", 8, 1, 3, 3)],
            CONV | {"kernels": 8, "groups": 4},
        ),
        (
            N("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]),
            [W],
            CONV | {"stride": (2, 2), "padding": (0, 1, 0, 1)},
        ),
        (
            N("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 2]),
            [W],
            CONV | {"stride": (2, 2), "padding": (1, 0, 1, 0)},
        ),
        (N("Conv", ["x", "w"], ["y"], auto_pad="VALID"), [W], CONV),
        (
            N("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2]),
            [],
            {"kind": "pool", "kernel": (3, 3), "stride": (2, 2)},
        ),
        (
            N("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
            [],
            {"kind": "pool", "kernel": (3, 3), "stride": (2, 2), "padding": (0, 1, 0, 1)},
        ),
        (
            N("AveragePool", ["x"], ["y"], kernel_shape=[2, 3], pads=[0, 1, 1, 1], count_include_pad=1),
            [],
            {"kind": "pool", "op": "average", "kernel": (2, 3), "padding": (0, 1, 1, 1)},
        ),
        (N("GlobalAveragePool", ["x"], ["y"]), [], POOL_ALL),
        (N("GlobalMaxPool", ["x"], ["y"]), [], {"kind": "pool", "kernel": (8, 8)}),
        (
            N("ReduceMean", ["x"], ["y"], axes=[-1, -2]),
            [],
            {"kind": "pool", "op": "average", "kernel": (8, 8)},
        ),
        (N("ReduceMax", ["x"], ["y"], axes=[2, 3], keepdims=0), [], {"kind": "pool", "kernel": (8, 8)}),
        (
            N("BatchNormalization", ["x", *"abcd"], ["y"]),
            [weight(name, 4) for name in "abcd"],
            {"kind": "map", "op": "batch_norm", "parameters": 8},
        ),
        (
            N("Mul", ["x", "s"], ["y"]),
            [weight("s", 4, 1, 1)],
            {"kind": "map", "op": "scale", "parameters": 4},
        ),
        (N("Div", ["x", "s"], ["y"]), [weight("s")], {"kind": "map", "op": "scale"}),
        (
            N("Add", ["s", "x"], ["y"]),
            [weight("s", 1, 4, 1, 1)],
            {"kind": "map", "op": "bias", "parameters": 4},
        ),
        (N("Sub", ["x", "s"], ["y"]), [weight("s", 1)], {"kind": "map", "op": "bias"}),
        (N("PRelu", ["x", "s"], ["y"]), [weight("s", 1)], {"kind": "map", "op": "prelu", "parameters": 1}),
        (N("Clip", ["x", "", "s"], ["y"]), [weight("s")], {"kind": "map", "op": "clip"}),
        (
            N("LRN", ["x"], ["y"], size=5, alpha=0.002),
            [],
            {"kind": "map", "op": "lrn", "response": {"size": 5, "alpha": 0.002}},
        ),
        (N("Dropout", ["x"], ["y", ""]), [], {"kind": "map", "op": "dropout"}),
        (N("Cast", ["x"], ["y"], to=TensorProto.FLOAT16), [], {"kind": "map", "op": "identity"}),
        (N("Sum", ["x"], ["y"]), [], {"kind": "map", "op": "identity"}),
        (N("Softmax", ["x"], ["y"], axis=1), [], {"kind": "map", "op": "softmax"}),
        (N("Add", ["x", "x"], ["y"]), [], {"kind": "add"}),
        (N("Sum", ["x", "x", "x"], ["y"]), [], {"kind": "add"}),
        (N("Mul", ["x", "x"], ["y"]), [], {"kind": "mul"}),
        (N("Concat", ["x"], ["y"], axis=-3), [], {"kind": "concat"}),
        (N("Flatten", ["x"], ["y"]), [], {"kind": "reshape", "op": "flatten", "output": (256, 1, 1)}),
        (N("Reshape", ["x", "s"], ["y"]), [numbers("s", 0, -1)], {"kind": "reshape", "output": (256, 1, 1)}),
        (
            N("Reshape", ["x", "s"], ["y"]),
            [numbers("s", 1, 8, 32)],
            {"kind": "reshape", "output": (8, 1, 32)},
        ),
        (N("Reshape", ["x", "s"], ["y"]), [numbers("s", 64, 4)], {"kind": "reshape", "output": (64, 1, 4)}),
        (
            N("Reshape", ["x", "s"], ["y"]),
            [numbers("s", 1, 2, 2, 8, 8)],
            {"kind": "reshape", "output": (4, 8, 8)},
        ),
        (
            N("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]),
            [],
            {
                "kind": "reshape",
                "op": "transpose",
                "output": (8, 8, 4),
                "permutation": {"sizes": (1, 4, 8, 8), "axes": (0, 2, 3, 1)},
            },
        ),
        (N("Unsqueeze", ["x", "s"], ["y"]), [numbers("s", 1)], {"kind": "reshape", "output": (4, 8, 8)}),
        (
            N("SpaceToDepth", ["x"], ["y"], blocksize=2),
            [],
            {
                "kind": "reshape",
                "op": "space_to_depth",
                "output": (16, 4, 4),
                "permutation": {"sizes": (4, 4, 2, 4, 2), "axes": (2, 4, 0, 1, 3)},
            },
        ),
        (
            N("DepthToSpace", ["x"], ["y"], blocksize=2),
            [],
            {
                "kind": "reshape",
                "op": "depth_to_space",
                "output": (1, 16, 16),
                "permutation": {"sizes": (2, 2, 1, 8, 8), "axes": (2, 3, 0, 4, 1)},
            },
        ),
        (
            N("Pad", ["x", "p"], ["y"]),
            [numbers("p", 0, 0, 1, 2, 0, 0, 3, 4)],
            {"kind": "pad", "padding": (1, 3, 2, 4)},
        ),
    ],
    ids=lambda value: value.op_type if isinstance(value, Node) else "",
)
def test_operators(file: Path, node: Node, weights: list[TensorProto], expected: dict[str, Any]) -> None:
    assert tables(imported(file, [node], weights)) == [expected]


@pytest.mark.parametrize(
    ("opset", "node", "weights", "expected"),
    [
        (13, N("ReduceMean", ["x"], ["y"], axes=[2, 3]), [], POOL_ALL),
        (18, N("ReduceMean", ["x", "a"], ["y"]), [numbers("a", 2, 3)], POOL_ALL),
        (9, N("Pad", ["x"], ["y"], pads=[0, 0, 1, 2] * 2), [], {"kind": "pad", "padding": (1, 1, 2, 2)}),
        (
            18,
            N("Pad", ["x", "p", "", "a"], ["y"]),
            [numbers("p", 1, 2), numbers("a", -1)],
            {"kind": "pad", "padding": (0, 0, 1, 2)},
        ),
        (9, N("BatchNormalization", ["x", *"abcd"], ["y"]), [weight(n, 4) for n in "abcd"],
         {"kind": "map", "op": "batch_norm", "parameters": 8}),
        (6, N("Add", ["x", "s"], ["y"], axis=1, broadcast=1), [weight("s", 4)],
         {"kind": "map", "op": "bias", "parameters": 4}),
    ],
    ids=lambda value: value.op_type if isinstance(value, Node) else "",
)  # fmt: skip
def test_operators_of_other_versions(
    file: Path, opset: int, node: Node, weights: list[TensorProto], expected: dict[str, Any]
) -> None:
    assert tables(imported(file, [node], weights, opset=opset)) == [expected]


@pytest.mark.parametrize(
    ("operator", "opset"),
    [
        *(
            (name, 17)
            for name in ("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Sigmoid")
        ),
        *((name, 17) for name in ("HardSigmoid", "HardSwish", "Tanh", "Clip", "Erf")),
        ("Gelu", 20),
        ("Mish", 18),
        ("Swish", 24),
    ],
)
def test_activations(file: Path, operator: str, opset: int) -> None:
    (layer,) = imported(file, [N(operator, ["x"], ["y"])], opset=opset).layers
    assert layer.kind == "map"
    assert layer.op in ACTIVATIONS and layer.op.replace("_", "") == operator.lower()


def test_matrices(file: Path) -> None:
    fc = {"kind": "fc", "kernels": 10, "kernel": (1, 1)}
    weights = [weight("a", 12, 10), weight("b", 10, 12), weight("c", 10)]
    for node, bias in (
        (N("Gemm", ["x", "a"], ["y"]), {}),
        (N("Gemm", ["x", "a", "c"], ["y"]), {"bias": True}),
        (N("Gemm", ["x", "b", "c"], ["y"], transB=1), {"bias": True}),
        (N("MatMul", ["x", "a"], ["y"]), {}),
    ):
        found = imported(file, [node], weights, sizes={"x": [3, 12]})
        assert tables(found) == [fc | bias | {"batch": 3}]
    nodes = [N("MatMul", ["x", "a"], ["m"]), N("Add", ["m", "c"], ["y"])]
    fused = coarse(imported(file, nodes, weights, sizes={"x": [1, 12]}))
    assert tables(fused) == [fc | {"bias": True}]


@pytest.mark.parametrize(
    ("own", "weights", "macs"),
    [
        ((1, 8, 16, 32), (8, 32, 4), 8 * 16 * 32 * 4),  # a matrix of weights for each of 8
        ((1, 8, 1, 16, 32), (8, 32, 4), 64 * 16 * 32 * 4),  # each of 8 with each of 8
        ((1, 2, 3, 16, 32), (3, 32, 4), 6 * 16 * 32 * 4),
        ((1, 1, 1, 16, 32), (5, 32, 4), 5 * 16 * 32 * 4),
    ],
)
def test_products_with_several_matrices_of_weights(
    file: Path, own: tuple[int, ...], weights: tuple[int, ...], macs: int
) -> None:
    """Every value of the result takes as many MACs as are summed over: 32."""
    found = imported(file, [N("MatMul", ["x", "w"], ["y"])], [weight("w", *weights)], sizes={"x": list(own)})
    assert found.macs == macs
    assert "function" in {layer.kind for layer in found.layers}


def test_lines_are_planes_of_one_row(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["c"], pads=[1, 2], strides=[2]),
        N("MaxPool", ["c"], ["m"], kernel_shape=[2]),
        N("Pad", ["m", "p"], ["n"]),
        N("GlobalAveragePool", ["n"], ["y"]),
    ]
    found = imported(
        file, nodes, [weight("w", 5, 4, 3), numbers("p", 0, 0, 1, 0, 0, 2)], sizes={"x": [1, 4, 9]}
    )
    assert tables(found) == [
        {"kernels": 5, "kernel": (1, 3), "stride": (1, 2), "padding": (0, 0, 1, 2)},
        {"kind": "pool", "kernel": (1, 2)},
        {"kind": "pad", "padding": (0, 0, 1, 2)},
        {"kind": "pool", "op": "average", "kernel": (1, 7)},
    ]


def test_a_convolution_of_padding_alone_is_one_of_padded_input(file: Path) -> None:
    found = imported(file, [N("Conv", ["x", "w"], ["y"], pads=[1] * 4)], [weight("w", 6, 4, 1, 1)])
    assert [(layer.name, layer.output) for layer in found.layers] == [
        ("conv/pad", (4, 10, 10)),
        ("conv", (6, 10, 10)),
    ]


def test_a_product_broadcasts_one_pixel_for_each_channel(file: Path) -> None:
    nodes = [N("GlobalAveragePool", ["x"], ["p"]), N("Sigmoid", ["p"], ["s"]), N("Mul", ["s", "x"], ["y"])]
    assert imported(file, nodes).layers[-1].inputs == ("sigmoid", "input")


def test_several_outputs(file: Path) -> None:
    nodes = [N("Relu", ["x"], ["a"]), N("Tanh", ["x"], ["b"]), N("Sigmoid", ["x"], ["unused"])]
    assert [layer.name for layer in imported(file, nodes, outputs=["a", "b"]).layers] == ["relu", "tanh"]


def test_a_batch(file: Path) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Flatten", ["c"], ["f"]), N("Gemm", ["f", "v"], ["y"])]
    found = imported(file, nodes, [W, weight("v", 216, 7)], sizes={"x": [5, 4, 8, 8]})
    assert [layer.batch for layer in found.convolutions] == [5, 5]
    assert found.macs == 5 * (6 * 6 * 6 * 36 + 216 * 7)


def test_open_sizes_are_given(file: Path) -> None:
    nodes = [N("GlobalAveragePool", ["x"], ["y"])]
    onnx.save(model(nodes, sizes={"x": ["batch", 4, "height", "width"]}), file)
    assert network(file, {"x": (1, 4, 30, 20)}).layers[0].input == (4, 30, 20)


def test_constants_in_all_forms(file: Path) -> None:
    """Initialisers, those that are inputs too, constant nodes, sparse ones, and what comes of them."""
    sparse = helper.make_sparse_tensor(weight("s", 2), numbers("i", 1, 5), [6, 6, 1, 1])
    nodes = [
        N("Constant", [], ["shape"], value=numbers("v", 4, 4, 3, 3)),
        N("ConstantOfShape", ["shape"], ["first"]),
        N("Conv", ["x", "first"], ["a"], pads=[1] * 4),
        N("Identity", ["w"], ["same"]),
        N("Conv", ["a", "same"], ["b"]),
        N("Conv", ["b", "s"], ["y"]),
    ]
    built = model(nodes, [W], sizes={"x": [1, 4, 8, 8], "w": [6, 4, 3, 3]}, sparse_initializer=[sparse])
    onnx.save(built, file)
    assert [layer.kernels for layer in network(file).convolutions] == [4, 6, 6]


def test_shapes_that_are_computed_as_pytorch_writes_them(file: Path) -> None:
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Constant", [], ["zero"], value=helper.make_tensor("v", TensorProto.INT64, [], [0])),
        N("Gather", ["shape", "zero"], ["batch"], axis=0),
        N("Unsqueeze", ["batch", "axis"], ["first"]),
        N("Constant", [], ["two"], value=numbers("v", 2)),
        N("Gather", ["shape", "one"], ["channels"], axis=0),
        N("Div", ["channels", "two"], ["half"]),
        N("Concat", ["first", "two", "half", "rest"], ["apart"], axis=0),
        N("Reshape", ["x", "apart"], ["a"]),
        N("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3, 4]),
        N("Shape", ["t"], ["later"]),
        N("Slice", ["later", "three", "five"], ["plane"]),
        N("Cast", ["plane"], ["cast"], to=TensorProto.INT64),
        N("Concat", ["first", "minus", "cast"], ["together"], axis=0),
        N("Reshape", ["t", "together"], ["y"]),
    ]
    weights = [
        numbers(name, value)
        for name, value in [("axis", 0), ("one", 1), ("three", 3), ("five", 5), ("minus", -1)]
    ]
    found = imported(file, nodes, [*weights, numbers("rest", 8, 8)])
    assert [(layer.name, layer.output) for layer in found.layers] == [
        ("reshape", (4, 8, 8)),
        ("transpose", (4, 8, 8)),
        ("reshape_2", (4, 8, 8)),
    ]


def test_padding_that_is_computed_as_pytorch_writes_it(file: Path) -> None:
    nodes = [
        N("ConstantOfShape", ["four"], ["rest"], value=helper.make_tensor("v", TensorProto.INT64, [1], [0])),
        N("Concat", ["given", "rest"], ["all"], axis=0),
        N("Reshape", ["all", "pairs"], ["apart"]),
        N("Slice", ["apart", "minus", "least", "axis", "minus"], ["turned"]),
        N("Transpose", ["turned"], ["swapped"], perm=[1, 0]),
        N("Reshape", ["swapped", "minus"], ["flat"]),
        N("Pad", ["x", "flat"], ["y"]),
    ]
    weights = [numbers("four", 4), numbers("given", 1, 2, 3, 4), numbers("pairs", -1, 2), numbers("axis", 0)]
    found = imported(file, nodes, [*weights, numbers("minus", -1), numbers("least", -(2**63) + 1)])
    assert tables(found) == [{"kind": "pad", "padding": (3, 4, 1, 2)}]


def test_functions_of_the_file_are_written_out(file: Path) -> None:
    built = model([N("twice", ["x"], ["y"], domain="own")], domains={"own": 1})
    body = [N("Relu", ["a"], ["m"]), N("Tanh", ["m"], ["b"])]
    built.functions.append(
        helper.make_function("own", "twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    onnx.save(built, file)
    assert [layer.op for layer in network(file).layers] == ["relu", "tanh"]


def test_the_standard_domain_has_two_names(file: Path) -> None:
    built = model([N("Relu", ["x"], ["y"], domain="ai.onnx")])
    built.opset_import[0].domain = "ai.onnx"
    onnx.save(built, file)
    assert network(file).layers[0].kind == "map"


def test_quantised_weights(file: Path) -> None:
    weights = [
        helper.make_tensor("q", TensorProto.INT8, [6, 4, 3, 3], np.zeros([6, 4, 3, 3], np.int8)),
        weight("scale"),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
    ]
    nodes = [
        N("DequantizeLinear", ["q", "scale", "zero"], ["w"]),
        N("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        N("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        N("Conv", ["xd", "w"], ["y"]),
    ]
    assert tables(coarse(imported(file, nodes, weights))) == [CONV]


# Names -------------------------------------------------------------------------------------------------


def test_names_are_those_of_nodes_weights_or_of_what_they_follow(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "features.0.weight"], ["1"], name="n0"),
        N("Relu", ["1"], ["2"], name="Relu_1"),
        N("Conv", ["2", "onnx::Conv_12"], ["3"], name="/layer1/conv/Conv", pads=[1] * 4),
        N("Relu", ["3"], ["4"]),
        N("Conv", ["4", "onnx::Conv_13"], ["5"], name='a "b"\n c'),
        N("Relu", ["5"], ["6"], name="input"),
        N("Relu", ["6"], ["7"], name="ä" * 300),
        N("Relu", ["7"], ["y"], name="INPUT"),
    ]
    weights = [
        weight("features.0.weight", 6, 4, 3, 3),
        *(weight(f"onnx::Conv_{n}", 6, 6, 3, 3) for n in (12, 13)),
    ]
    found = imported(file, nodes, weights)
    assert [layer.name for layer in found.layers] == [
        "features.0",
        "features.0/relu",
        "layer1/conv/Conv",
        "layer1/conv/Conv/relu",
        "a_b_c",
        "input_2",
        "ä" * 180,
        "INPUT_3",
    ]


def test_names_of_the_networks_that_onnx_ships() -> None:
    names = {layer.name for layer in network(light("densenet121")).layers}
    assert {"conv2_1/x1", "conv2_1/x1/bn", "conv2_1/x1/bn/scale", "conv2_1/x2/concat", "fc6"} <= names
    names = {layer.name for layer in network(light("inception_v1")).layers}
    assert {"conv1/7x7_s2", "conv1/7x7_s2/relu", "inception_3a/pool_proj/concat", "loss3/classifier"} <= names


# What is wrong -----------------------------------------------------------------------------------

UNKNOWN = [
    (N("Frobnicate", ["x"], ["y"]), [], "ai.onnx.Frobnicate .. shape of y"),
    (
        N("Frobnicate", ["x"], ["y"], domain="com.own"),
        [],
        "com.own.Frobnicate .. shape of y",
    ),
    (
        N("HardSwish", ["x"], ["y"]),
        [],
        "ai.onnx.HardSwish .. shape of",
    ),  # newer than the version that is tested
    (N("RandomNormalLike", ["x"], ["y"]), [], "RandomNormalLike (in y) .. --allow-unknown"),
    (N("Conv", ["x", "w"], ["y"]), [weight("w", 6, 3, 3, 3)], "3 channels .. 4"),
]


@pytest.mark.parametrize(("node", "weights", "told"), UNKNOWN, ids=[told for *_, told in UNKNOWN])
def test_what_no_layer_does(file: Path, node: Node, weights: list[TensorProto], told: str) -> None:
    error = refused(file, [node], weights, opset=10, domains={"com.own": 1})
    assert error.field == "graph.node.op_type"
    assert tells(error.limit, told)
    found = imported(file, [node], weights, opset=10, allow=True, domains={"com.own": 1})
    assert [layer.kind for layer in found.layers] == ["opaque"]
    assert found.layers[0].op.rpartition(".")[2] == node.op_type
    found.check_shapes()


FUNCTIONS = [
    (N("Exp", ["x"], ["y"]), [], "exp", 0),
    (N("Conv", ["x", "x"], ["y"]), [], "conv", 256),
    (N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), [], "max_pool", 4 * 36 * 4),
    (N("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), [], "max_pool", 4 * 49 * 4),
    (N("ReduceMean", ["x"], ["y"], axes=[1]), [], "reduce_mean", 256),
    (N("ReduceMean", ["x"], ["y"]), [], "reduce_mean", 256),
    (N("PRelu", ["x", "x"], ["y"]), [], "p_relu", 0),
    (N("Sub", ["s", "x"], ["y"]), [weight("s", 1)], "sub", 0),
    (N("Sub", ["x", "x"], ["y"]), [], "sub", 0),
    (N("Sum", ["x", "x", "s"], ["y"]), [weight("s", 1)], "sum", 0),
    (N("Mul", ["x", "s"], ["y"]), [weight("s", 3, 4, 8, 8)], "mul", 0),
    (N("Concat", ["x", "x"], ["y"], axis=2), [], "concat", 0),
    (N("Concat", ["x", "x"], ["y"], axis=1), [], "concat", 0),
    (N("Concat", ["x", "s"], ["y"], axis=1), [weight("s", 1, 4, 8, 8)], "concat", 0),
    (N("Pad", ["x"], ["y"], pads=[0, 0, 1, 1] * 2, mode="edge"), [], "pad", 0),
    (N("Pad", ["x"], ["y"], pads=[0, 0, 1, 1] * 2, value=1.0), [], "pad", 0),
    (N("Pad", ["x"], ["y"], pads=[0, 1, 1, 1] * 2), [], "pad", 0),
    (N("Pad", ["x"], ["y"], pads=[0, 0, -1, 1] * 2), [], "pad", 0),
    (N("Upsample", ["x", "s"], ["y"], mode="linear"), [floats("s", 1, 1, 2, 2)], "resize_linear", 1024 * 4),
    (N("Upsample", ["x", "s"], ["y"]), [floats("s", 1, 1, 2, 2)], "resize_nearest", 0),
    (N("InstanceNormalization", ["x", "s", "s"], ["y"]), [weight("s", 4)], "instance_normalization", 1024),
    (N("Tile", ["x", "s"], ["y"]), [numbers("s", 1, 1, 2, 1)], "tile", 0),
    (N("Gather", ["x", "s"], ["y"], axis=1), [numbers("s", 3, 0)], "gather", 0),
]  # fmt: skip


@pytest.mark.parametrize(("node", "weights", "op", "macs"), FUNCTIONS)
def test_what_has_no_kind_of_its_own_is_a_function(
    file: Path, node: Node, weights: list[TensorProto], op: str, macs: int
) -> None:
    opset = 9 if node.op_type == "Upsample" else 10
    found = imported(file, [node], weights, opset=opset, outputs=list(node.output))
    assert [(layer.kind, layer.op) for layer in found.layers] == [("function", op)] * len(node.output)
    assert found.macs == macs
    found.check_shapes()


def test_unknown_operators_are_named_all_at_once(file: Path) -> None:
    nodes = [
        N("RandomNormalLike", ["x"], ["a"], name="first"),
        N("Bernoulli", ["a"], ["b"]),
        *(N("RandomNormalLike", [one], [other]) for one, other in pairwise(["b", *"cdefghijk"])),
        N("Mine", ["k"], ["l"], domain="own"),
        N("Relu", ["l"], ["m"]),
        N("MaxPool", ["m"], ["y"], kernel_shape=[2, 2]),
    ]
    error = refused(file, nodes, domains={"own": 1})
    assert error.value == ["Bernoulli", "RandomNormalLike", "own.Mine"]
    assert error.limit == (
        "no layer does: RandomNormalLike (in first, c, d, e, f, g, h, i and 2 more); Bernoulli (in b); "
        "own.Mine because the shape of l is not known; tell it, for example --input l=1,4,8,8 (in l); "
        "--allow-unknown keeps them as opaque layers"
    )
    found = imported(file, nodes, domains={"own": 1}, allow=True)
    assert found.source.endswith("; sizes assumed to be those of what is read, of: l")
    assert found.layers[-1].output == (4, 7, 7)
    known = [helper.make_tensor_value_info("l", TensorProto.FLOAT, [1, 6, 4, 4])]
    found = imported(file, nodes, domains={"own": 1}, allow=True, value_info=known)
    assert [layer.output for layer in found.layers[-3:]] == [(6, 4, 4), (6, 4, 4), (6, 3, 3)]
    assert "assumed" not in found.source
    onnx.save(model(nodes, domains={"own": 1}), file)
    found = network(file, {"l": (1, 6, 4, 4)}, allow_unknown=True)
    assert [layer.output for layer in found.layers[-3:]] == [(6, 4, 4), (6, 4, 4), (6, 3, 3)]


def test_operations_of_several_outputs(file: Path) -> None:
    nodes = [N("Split", ["x"], ["a", "b"], name="split", axis=1), N("Add", ["b", "a"], ["y"])]
    found = imported(file, nodes, opset=11)
    assert [(layer.name, layer.kind, layer.inputs) for layer in found.layers] == [
        ("split", "slice", None),
        ("split_2", "slice", ("input",)),
        ("split/add", "add", ("split_2", "split")),
    ]
    assert {layer.output for layer in found.layers} == {(2, 8, 8)}


def test_shapes_that_depend_on_numbers_elsewhere(file: Path) -> None:
    tensor = numbers("s", 1, -1)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere.bin")
    error = refused(file, [N("Reshape", ["x", "s"], ["y"])], [tensor])
    assert tells(error.limit, "shape of y .. not in the file .. s")


def test_weights_may_be_elsewhere(file: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6, 4, 3, 3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    assert tables(imported(file, [N("Conv", ["x", "w"], ["y"])], [tensor])) == [CONV]


@pytest.mark.parametrize(
    ("nodes", "options", "field", "value", "limit"),
    [
        ([N("Relu", ["a"], ["y"])], {}, "graph.node.input", "a", "node y .. nothing"),
        (
            [N("Relu", ["b"], ["a"], name="one"), N("Relu", ["a"], ["b"])],
            {},
            "graph.node.input",
            "b",
            "node one .. cycle",
        ),
        (
            [N("Relu", ["x"], ["y"]), N("Relu", ["x"], ["y"])],
            {},
            "graph.node.output",
            "y",
            "node y .. before",
        ),
        (
            [N("Relu", ["x"], ["y"])],
            {"sizes": {"x": ["batch", 3, "height", 9]}},
            "graph.input.x",
            [1, 3, "height", 9],
            "dimension 2 (height) .. --input x=1,3,224,9",
        ),
        ([N("Relu", ["x"], ["y"])], {"sizes": {"x": None}}, "graph.input", "x", "--input x=1,3,224,224"),
        ([N("Relu", ["x"], ["y"])], {"sizes": {"x": [1, 10**7]}}, "graph.input.x", [1, 10**7], "4000000"),
        ([N("Constant", [], ["y"], value=weight("v", 2))], {}, "graph.input", [], "input"),
        ([N("Shape", ["x"], ["y"])], {}, "graph.output", ["y"], "depend on no value of an input"),
        (
            [N("Conv", ["x", "w"], ["y"], strides=[2])],
            {"weights": [W]},
            "graph.node",
            "y",
            "Conv .. strides",
        ),
        ([N("Conv", ["x"], ["y"])], {}, "graph.node", "y", "Conv .. Conv:11"),
        (
            [N("Conv", ["x", "w"], ["y"], strides=[5000, 5000])],
            {"weights": [W]},
            "layers[0].stride[0]",
            5000,
            "layer conv .. 4096",
        ),
        (
            [N("Conv", ["x", "w"], ["y"])],
            {"weights": [weight("w", 6, 4, 9, 9)]},
            "graph.node.op_type",
            ["Conv"],
            "Conv .. shape of y, [6, 0, 0]",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    file: Path, nodes: list[Node], options: dict[str, Any], field: str, value: object, limit: str
) -> None:
    error = refused(file, nodes, options.pop("weights", []), **options)
    assert (error.field, error.value) == (field, value)
    assert tells(error.limit, limit)


def test_subgraphs_are_refused(file: Path) -> None:
    result = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branch = helper.make_graph([N("Relu", ["x"], ["b"])], "branch", [], [result])
    nodes = [
        N("ReduceSum", ["x"], ["sum"], keepdims=0),
        N("Less", ["sum", "zero"], ["c"]),
        N("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch),
    ]
    zero = [floats("zero", 0)]
    error = refused(file, nodes, zero)
    assert (error.field, error.value) == ("graph.node", ["choice (If)"])
    found = imported(file, nodes, zero, allow=True)
    assert (found.layers[-1].name, found.layers[-1].kind) == ("choice", "opaque")


def test_sizes_that_contradict_the_file(file: Path) -> None:
    onnx.save(model([N("Relu", ["x"], ["y"])], sizes={"x": ["N", 4, 8, 8]}), file)
    for sizes, field, limit in (
        ({"x": (1, 4, 8)}, "--input", "x=N,4,8,8 .. 4 dimensions"),
        ({"z": (1, 4, 8, 8)}, "--input", "no such input .. x"),
    ):
        with pytest.raises(InputError) as caught:
            network(file, sizes)
        assert caught.value.field == field and tells(caught.value.limit, limit)
    onnx.save(model([N("Relu", ["x"], ["y"])], sizes={"x": [3, 4, 8, 8]}), file)


def test_images_that_are_mixed(file: Path) -> None:
    nodes = [N("Reshape", ["x", "s"], ["r"]), N("Gemm", ["r", "w"], ["y"])]
    weights, sizes = [numbers("s", 1, -1), weight("w", 512, 7)], {"x": [2, 4, 8, 8]}
    found = imported(file, nodes, weights, sizes=sizes)
    assert [(layer.kind, layer.output) for layer in found.layers] == [
        ("reshape", (512, 1, 1)),
        ("fc", (7, 1, 1)),
    ]
    assert (found.macs, found.parameters) == (512 * 7, 512 * 7)


def test_a_tensor_that_is_not_what_it_says(file: Path) -> None:
    broken = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6, 4, 3, 3], raw_data=b"abc")
    error = refused(file, [N("Conv", ["x", "w"], ["y"])], [broken])
    assert (error.field, error.value) == ("graph.initializer", "w")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100, b"<html>" * 99, b"\x08\x08"])
def test_files_that_are_no_onnx(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        network(file)
    assert caught.value.field == "file" and "not ONNX" in caught.value.limit


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    for path in (file, tmp_path, tmp_path / ("long" * 100), "a\0b"):
        with pytest.raises(InputError) as caught:
            network(path)
        assert (caught.value.field, caught.value.limit) == ("network", "no such file")
    with file.open("wb") as large:
        large.truncate(tilewright.importing.model.MAX_BYTES + 1)
    with pytest.raises(InputError) as caught:
        network(file)
    assert caught.value.field == "file size"
    many = tilewright.importing.model.MAX_NODES + 1
    onnx.save(model([N("Relu", ["x"], ["y"])] * many), file)
    with pytest.raises(InputError) as caught:
        network(file)
    assert (caught.value.field, caught.value.value) == ("graph.node", many)
    assert tells(caught.value.limit, many - 1)


@pytest.mark.nightly
def test_files_that_are_cut_off_or_damaged(file: Path) -> None:
    """Whatever the file, there is a network or a message."""
    whole, generator = light("zfnet512").read_bytes(), random.Random(0)
    for size in range(0, len(whole), 61):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError):
            network(file)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(generator.choice([1, 2, 5])):
            content[generator.randrange(len(content))] = generator.randrange(256)
        file.write_bytes(content)
        try:
            network(file, allow_unknown=True).check_shapes()
        except InputError as error:
            assert len(str(error)) < 3000


# Files -------------------------------------------------------------------------------------------

KINDS = ("conv", "fc", "pool", "add", "mul", "concat", "map", "pad", "reshape", "opaque")
sizes = st.integers(1, 9)
shapes = st.tuples(sizes, sizes, sizes).map(list)
flags = st.booleans()


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network of all kinds of layers; shapes need not fit."""
    name_lists = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=9, unique=True)
    names = [name for name in draw(name_lists) if name != "input"] or ["a"]
    layers: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        shape = draw(shapes)
        layer: dict[str, Any] = {"name": name, "input": shape}
        kind = draw(st.sampled_from(KINDS))
        earlier = st.sampled_from(["input", *names[:place]])
        reads = draw(st.lists(earlier, min_size=1, max_size=3, unique=True))
        if kind in ("add", "mul"):
            layer["inputs"] = reads * 2
        elif draw(flags):
            layer["inputs"] = reads
        if kind in ("conv", "pool"):
            kernel = [draw(st.integers(1, size)) for size in shape[1:]]
            layer |= {"kernel": kernel, "stride": [draw(sizes), 1]}
        if kind in ("conv", "fc"):
            layer |= {"batch": draw(sizes), "bias": draw(flags), "kernels": draw(sizes) * shape[0]}
        layer |= {
            "conv": {"kind": "conv", "groups": shape[0]} if draw(flags) else {},
            "fc": {"kind": "fc", "input": [shape[0], 1, 1], "kernel": [1, 1]},
            "pool": {"kind": "pool", "op": draw(st.sampled_from(["max", "average"]))},
            "map": {"kind": "map", "op": draw(st.sampled_from(ACTIVATIONS)), "parameters": draw(sizes)},
            "pad": {"kind": "pad", "padding": [draw(sizes)] * 4},
            "reshape": {"kind": "reshape", "op": "flatten", "output": [prod(shape), 1, 1]},
            "opaque": {"kind": "opaque", "op": draw(st.text(min_size=1)), "output": draw(shapes)},
        }.get(kind, {"kind": kind})
        layers.append(layer)
    return Network.model_validate({"name": draw(st.text()), "source": draw(st.text()), "layers": layers})


@given(networks())
def test_any_network_survives_its_file(found: Network) -> None:
    ((_, text),) = network_file(found).items()
    assert Network.model_validate(tomllib.loads(text)) == found


@pytest.mark.parametrize(
    ("room", "machine", "layers", "count"),
    [
        ("tiling", "idsp", False, 1),
        ("tiling", "idsp", True, 19),
        ("grouping", "steps.toml", False, 18),
        ("grouping", "steps.toml", True, 18),
        ("allocation", "array.toml", False, 1),
    ],
)
def test_instances_of_rooms(
    room: str, machine: str, layers: bool, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.toml").write_text("group_size = 9\n")
    Path("array.toml").write_text("array = [8, 8]\nclock_mhz = 50\n")
    found = network(light("squeezenet"))
    files = instance_files(found, room, machine, layers=layers)
    assert len(files) == count
    written = write(Path("out"), files | network_file(found))
    assert written[-1] == Path("out/light_squeezenet.toml")
    instances = [read(path) for path in written[:-1]]
    assert {instance.room for instance in instances} == {room}
    assert len({instance.name for instance in instances}) == count
    if room != "grouping":
        assert instances[-1].problem.network == found  # not a layer of it is lost
    if room == "grouping" or layers:
        single = [instance.problem.layer for instance in instances[: len(distinct_layers(found))]]
        assert single == list(distinct_layers(found))
        text = (tmp_path / "out" / "light_squeezenet-fire2-expand1x1.toml").read_text()
        assert text.startswith("# 2 equal layers: fire2/expand1x1, fire3/expand1x1\n")
        assert 'source = "layer fire2/expand1x1 of light_squeezenet.onnx, an ONNX file of onnx-caffe2' in text


# The command -------------------------------------------------------------------------------------

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_network_is_imported_and_solved_with_its_operations(tilewright: Run, tmp_path: Path) -> None:
    nodes = [N("Conv", ["x", "w"], ["a"]), N("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2])]
    onnx.save(model(nodes, [weight("w", 6, 4, 3, 3)]), tmp_path / "made.onnx")
    (tmp_path / "dsp.toml").write_text('kind = "dsp"\nmemory_bytes = 4096\nvector_ops_per_cycle = 8\n')
    done = tilewright("import", "made.onnx", "-o", ".", "--room", "tiling", "--machine", "dsp.toml")
    assert done.returncode == 0 and "2 files" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.glob("made*")) == [
        "made-tiling.toml",
        "made.onnx",
        "made.toml",
    ]
    solved = tilewright("solve", "made-tiling.toml", "-o", "r.json")
    assert solved.returncode == 0 and "1 operation, 1 different" in solved.stdout
    assert tilewright("check", "made-tiling.toml", "r.json").returncode == 0


@pytest.mark.nightly
def test_a_network_is_imported_and_a_layer_of_it_solved(tilewright: Run, tmp_path: Path) -> None:
    options = ("-o", "made/here", "--room", "tiling", "--machine", "idsp", "--layers")
    done = tilewright("import", str(light("zfnet512")), *options)
    assert done.returncode == 0, done.stderr
    for told in ("map lrn", "1,481,727,008", "87,250,536", "point-wise fusion", "7 unique", "9 files"):
        assert told in done.stdout
    solved = tilewright("solve", "made/here/light_zfnet512-gpu_0-conv3.toml", "-o", "r.json")
    assert solved.returncode == 0 and "optimal" in solved.stdout
    assert tilewright("check", "made/here/light_zfnet512-gpu_0-conv3.toml", "r.json").returncode == 0
    (tmp_path / "all.toml").write_text(
        'room = "tiling"\nnetwork = "made/here/light_zfnet512.toml"\n'
        '[machine]\nkind = "dsp"\nmemory_bytes = 131072\n'
    )
    assert tilewright("solve", "all.toml", "--with", "greedy").returncode == 0


def test_json_says_what_the_table_says(tilewright: Run, tmp_path: Path) -> None:
    done = tilewright("import", str(light("resnet50")), "-o", ".", "--json")
    told = json.loads(done.stdout)
    assert told["operations"]["conv"] == {"layers": 53, "macs": 4_087_136_256, "parameters": 23_454_912}
    assert told["operations"]["map batch_norm"] == {"layers": 53, "macs": 0, "parameters": 53_120}
    assert (told["layers"], told["unique"], told["macs"]) == (176, 24, 4_089_184_256)
    assert told["stages"][-1] == {"graph": "pruned", "nodes": 74, "edges": 89}
    assert told["written"] == ["light_resnet50.toml"]
    assert {key: told[key] for key in told if key != "written"} == summary(network(light("resnet50")))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["net.onnx"], "graph.input.x = ['length', 4, 8, 8] .. dimension 0 (length) .. --input"),
        (["net.onnx", "--input", "x=1,4,8"], "--input = 'x=1,4,8' .. x=length,4,8,8"),
        (["net.onnx", "--input", "x=1,4,8,8"], "RandomNormalLike (in y) .. --allow-unknown"),
        (["net.onnx", "--input", "x=1,a"], "'x=1,a' .. data=1,3,224,224"),
        (["net.onnx", "--input", "=1"], "'=1' .. data=1,3,224,224"),
        (["net.onnx", "--room", "tiling"], "--machine .. --room"),
        (["net.onnx", "--machine", "idsp"], "--machine = 'idsp' .. --room"),
        (["net.onnx", "--layers"], "--layers .. --room"),
        (["made.onnx", "--room", "fusion", "--machine", "dnnvm-zu2", "--layers"], "whole networks"),
        (["none.onnx"], "none.onnx .. network = 'none.onnx' .. no such file"),
        (["made.onnx", "--room", "tiling", "--machine", "none"], "'none' .. .toml .. idsp"),
        (["made.onnx", "--room", "tiling", "--machine", "none.toml"], "no such file"),
        (["made.onnx", "--room", "dining", "--machine", "idsp"], "room 'dining' .. tiling"),
        (["made.onnx", "--room", "grouping", "--machine", "idsp"], "'dsp' .. made-conv .. unknown key"),
        (["made.onnx", "--room", "tiling", "--machine", "small.toml"], "made-tiling"),
        (["made.onnx", "-o", "made.onnx"], "output = 'made.onnx'"),
        (["made.onnx", "-o", "made.onnx/x"], "output = 'made.onnx/x'"),
    ],
)  # fmt: skip
def test_bad_input_writes_nothing(tilewright: Run, tmp_path: Path, arguments: list[str], told: str) -> None:
    open_size = {"sizes": {"x": ["length", 4, 8, 8]}}
    onnx.save(model([N("RandomNormalLike", ["x"], ["y"])], **open_size), tmp_path / "net.onnx")
    onnx.save(model([N("Conv", ["x", "w"], ["y"])], [weight("w", 6, 4, 3, 3)]), tmp_path / "made.onnx")
    (tmp_path / "small.toml").write_text('kind = "dsp"\nmemory_bytes = 16\n')
    done = tilewright("import", *([] if "-o" in arguments else ["-o", "out"]), *arguments)
    assert done.returncode == 2
    assert tells(done.stderr, told) and "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.onnx", "net.onnx", "small.toml"]


def test_unknown_operations_are_kept_on_demand(tilewright: Run, tmp_path: Path) -> None:
    onnx.save(
        model([N("RandomNormalLike", ["x"], ["y"])], sizes={"x": ["N", 4, 8, 8]}), tmp_path / "net.onnx"
    )
    done = tilewright("import", "net.onnx", "-o", ".", "--input", "x=2,4,8,8", "--allow-unknown")
    assert done.returncode == 0, done.stderr
    assert "opaque RandomNormalLike" in done.stdout
    assert 'kind = "opaque"\nop = "RandomNormalLike"' in (tmp_path / "net.toml").read_text()


def test_what_would_be_too_large_to_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write(tmp_path / "out", {"a.toml": "a", "b.toml": "b" * 1_000_001})
    assert (caught.value.field, caught.value.value) == ("output", "b.toml")
    (tmp_path / "out" / "b.toml").mkdir(parents=True)
    with pytest.raises(InputError):
        write(tmp_path / "out", {"a.toml": "a", "b.toml": "b"})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.toml"]


def test_names_of_files_differ_in_more_than_case(tmp_path: Path) -> None:
    layers = [
        {"name": name, "input": [3, 9, 9], "kernels": place, "kernel": [3, 3], "inputs": ["input"]}
        for place, name in enumerate(["a/b", "A/B", "a-b"], start=1)
    ]
    machine = tmp_path / "machine.toml"
    machine.write_text("group_size = 9\n")
    files = instance_files(Network.model_validate({"name": "n", "layers": layers}), "grouping", str(machine))
    assert list(files) == ["n-a-b.toml", "n-A-B_2.toml", "n-a-b_3.toml"]


def test_a_result_of_another_rank_than_its_operation_gives_is_refused(file: Path) -> None:
    wrong = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8])]
    nodes = [N("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=1), N("Relu", ["y"], ["z"])]
    for allow in (False, True):
        onnx.save(model(nodes, value_info=wrong), file)
        with contextlib.suppress(InputError):  # onnx's own inference may find out first
            network(file, allow_unknown=allow)


def test_negative_sizes_are_no_sizes(file: Path) -> None:
    tensor = weight("w", 4, 6)
    nodes = [N("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, [tensor])
    proto.graph.initializer[0].dims[:] = [-4, 6]
    proto.graph.initializer[0].ClearField("raw_data")
    proto.graph.initializer[0].ClearField("float_data")
    onnx.save(proto, file)
    for allow in (False, True):
        with contextlib.suppress(InputError):
            network(file, allow_unknown=allow)
