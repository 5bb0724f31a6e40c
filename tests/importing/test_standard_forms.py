"""Operators that stand for several standard ones, and sequences, with onnxruntime's numbers."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_execution
import pytest
from conftest import examples, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright.importing import network, open_network
from tilewright.spec.errors import InputError

N = helper.make_node
MS = {"domain": "com.microsoft"}
RNG = np.random.default_rng(0)


def written(
    path: Path, node: onnx.NodeProto, inputs: dict[str, list[int]], weights: dict[str, list[int]], opset: int
) -> Path:
    """Write a network of one operator, between functions that are read as they are."""
    result = f"{node.output[0]}_end"
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in inputs.items()]
    stored = [
        numpy_helper.from_array(RNG.standard_normal(size).astype(np.float32), name)
        for name, size in weights.items()
    ]
    nodes = [node, N("Relu", [node.output[0]], [result])]
    outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "graph", given, outputs, stored)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return path


ROWS = [1, 8, 16]
HEADS = {name: [1, 2, 8, 16] for name in "qkv"}
IMAGE = {"x": [1, 3, 8, 8]}
FORMS = {
    "gelu": (N("Gelu", ["x"], ["y"], **MS), {"x": ROWS}, {}, 17, {"map": 2}),
    "fast-gelu": (N("FastGelu", ["x", "b"], ["y"], **MS), {"x": ROWS}, {"b": [16]}, 17, {"map": 3}),
    "quick-gelu": (N("QuickGelu", ["x"], ["y"], **MS), {"x": ROWS}, {}, 17, {"map": 2}),
    "conv": (
        N("FusedConv", ["x", "w"], ["y"], activation="LeakyRelu", activation_params=[0.1], **MS),
        IMAGE, {"w": [4, 3, 3, 3]}, 17, {"conv": 1, "map": 2},
    ),
    "clip": (
        N("FusedConv", ["x", "w", "b"], ["y"], activation="Clip", activation_params=[0.0, 6.0], **MS),
        IMAGE, {"w": [4, 3, 3, 3], "b": [4]}, 17, {"conv": 1, "map": 2},
    ),
    "product": (
        N("FusedMatMul", ["x", "z"], ["y"], transB=1, alpha=0.5, **MS),
        {"x": [2, 8, 16], "z": [2, 4, 16]}, {}, 17, {"matmul": 1},
    ),
    "skip": (
        N("SkipLayerNormalization", ["x", "r", "g", "b"], ["y"], **MS),
        {"x": ROWS, "r": ROWS}, {"g": [16], "b": [16]}, 17, {"add": 1, "function": 1},
    ),
    "root": (
        N("SimplifiedLayerNormalization", ["x", "g"], ["y"], axis=-1),
        {"x": ROWS}, {"g": [16]}, 17, {"function": 1},
    ),
    "attention": (N("Attention", ["q", "k", "v"], ["y"]), HEADS, {}, 23, {"matmul": 2}),
    "attention-of-rows": (
        N("Attention", ["q", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2),
        {name: [1, 6, 16] for name in "qkv"}, {}, 23, {"matmul": 2},
    ),
    "shared": (
        N("Attention", ["q", "k", "v"], ["y"]),
        HEADS | {name: [1, 1, 8, 16] for name in "kv"}, {}, 23, {"matmul": 2},
    ),
    "shared-rows": (
        N("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2),
        {"q": [1, 6, 16], "k": [1, 5, 8], "v": [1, 5, 8]}, {}, 23, {"matmul": 2},
    ),
    "causal": (N("Attention", ["q", "k", "v"], ["y"], is_causal=1), HEADS, {}, 23, {"matmul": 2}),
    "rotary": (
        N("RotaryEmbedding", ["q", "cos", "sin"], ["y"]),
        {"q": [1, 2, 8, 16], "cos": [1, 8, 8], "sin": [1, 8, 8]}, {}, 23, {},
    ),
    "gemm": (
        N("Gemm", ["x", "z", "c"], ["y"], alpha=0.5, beta=2.0, transB=1),
        {"x": [1, 6], "z": [4, 6], "c": [1, 4]}, {}, 17, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_an_operator_is_what_it_stands_for(tmp_path: Path, name: str) -> None:
    node, inputs, weights, opset, kinds = FORMS[name]
    path = written(tmp_path / "net.onnx", node, inputs, weights, opset)
    model, found = open_network(path, {})
    counts = Counter(layer.kind for layer in found.network.layers)
    assert "opaque" not in counts
    assert kinds == {kind: counts[kind] for kind in kinds}
    given = {name: RNG.standard_normal(size).astype(np.float32) for name, size in inputs.items()}
    proto = onnx.load(path)
    tensors = onnx_execution.by_onnxruntime(proto, given)
    if name == "causal":  # the importer knows of masks that they are fixed, and stores no numbers of them
        later = np.triu(np.ones((8, 8), bool), 1)
        tensors |= {"y/5_Constant": np.where(later, -np.inf, 0).astype(np.float32)}
    assert onnx_execution.check_model(model, proto, tensors) >= 2 + len(inputs)


def test_causal_attention_is_planned_with_keys_that_pass_by(tmp_path: Path) -> None:
    node, inputs, _, opset, _ = FORMS["causal"]
    inputs = {name: [1, 2, 96, 16] for name in inputs}
    path = written(tmp_path / "net.onnx", node, inputs, {}, opset)
    machine = tmp_path / "memory.toml"
    machine.write_text("memory_bytes = 4096\n", encoding="utf-8")
    graph = tilewright.read(path, machine=machine, room="residency").problem.graph
    (attention,) = graph.attentions
    assert attention.seen is not None and attention.seen.tolist() == list(range(1, 97))
    assert graph.compulsory == 4 * 2 * 96 * 16


@settings(max_examples=examples(300, 10))
@given(st.integers(0, 2**32))
def test_sums_of_products_are_products_of_matrices(seed: int) -> None:
    """With heads and images apart, in any order of dimensions."""
    rng = random.Random(seed)
    labels = iter("bcdefghijk")
    pairs, rows, columns, summed = (
        [next(labels) for _ in range(rng.randint(low, 2))] for low in (0, 0, 0, 1)
    )
    sides = [[*pairs, *rows, *summed], [*pairs, *summed, *columns], [*pairs, *rows, *columns]]
    for each in sides:
        rng.shuffle(each)
    first, second, result = ("a" + "".join(each) for each in sides)
    sizes = {label: rng.randint(1, 4) for label in "bcdefghijk"} | {"a": rng.choice([1, 1, 2])}
    node = N("Einsum", ["x", "z"], ["y"], equation=f"{first},{second}->{result}")
    shapes = {name: [sizes[each] for each in side] for name, side in (("x", first), ("z", second))}
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "net.onnx", node, shapes, {}, 17)
        model, found = open_network(path, {})
        (product,) = found.network.convolutions
        assert product.kind == "matmul" and "function" not in {each.kind for each in found.network.layers}
        assert product.macs == prod(sizes[label] for label in {*first, *second})
        proto = onnx.load(path)
        tensors = onnx_execution.by_onnxruntime(proto, onnx_execution.small_integers(model))
        assert onnx_execution.check_model(model, proto, tensors) >= 4


@pytest.mark.parametrize(
    ("equation", "second"),
    [("aab,abc->ac", [2, 3, 4]), ("abc,acd->abcd", [2, 3, 4]), ("...bc,acd->abd", [2, 3, 4]),
     ("abc,cbd->d", [3, 2, 4]), ("abc,cd->abd", [3, 4])],
)  # fmt: skip
def test_other_sums_of_products_stay_functions(tmp_path: Path, equation: str, second: list[int]) -> None:
    node = N("Einsum", ["x", "z"], ["y"], equation=equation)
    found = network(written(tmp_path / "net.onnx", node, {"x": [2, 2, 3], "z": second}, {}, 17))
    assert [layer.op for layer in found.layers if layer.kind == "function"] == ["einsum"]


def test_weights_of_few_bits_are_those_that_they_stand_for(tmp_path: Path) -> None:
    node = N("MatMulNBits", ["x", "w", "s"], ["y"], K=32, N=8, bits=4, block_size=32, **MS)
    found = network(written(tmp_path / "net.onnx", node, {"x": [1, 8, 32]}, {"w": [8, 16], "s": [8]}, 17))
    (product,) = found.convolutions
    assert (product.kernels, product.input, product.bits) == (8, (32, 1, 8), (32, 4, 32))
    assert found.macs == 8 * 32 * 8


def test_a_recurrent_layer_of_integers_is_one_of_floats(tmp_path: Path) -> None:
    """Its weights are stored by column, those of each direction for themselves."""
    rng = np.random.default_rng(0)
    stored = [
        numpy_helper.from_array(rng.integers(-9, 9, (2, size, 32)).astype(np.int8), name)
        for name, size in (("w", 5), ("r", 8))
    ]
    stored += [numpy_helper.from_array(np.full(2, 0.02, np.float32), name) for name in ("ws", "rs")]
    stored += [numpy_helper.from_array(np.zeros(2, np.int8), name) for name in ("wz", "rz")]
    inputs = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = N("DynamicQuantizeLSTM", inputs, ["y"], hidden_size=8, direction="bidirectional", **MS)
    nodes = [node, N("Relu", ["y"], ["z"])]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 1, 5])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        stored,
    )
    domains = [helper.make_opsetid("", 11), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), path)
    onnxruntime = pytest.importorskip("onnxruntime")
    (right,) = onnxruntime.InferenceSession(path).run(None, {"x": np.zeros((6, 1, 5), np.float32)})
    found = network(path)
    (layer,) = (each for each in found.layers if getattr(each, "op", "") == "lstm")
    assert layer.parameters == 2 * 32 * (5 + 8)
    assert right.shape == (6, 2, 1, 8) and prod(layer.output) == right.size


def sequence(path: Path, place: bool) -> Path:
    """Write a network that takes one of three parts of its input, the second or that which a number tells."""
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 4, 4])]
    at = [] if place else [numpy_helper.from_array(np.array(1), "at")]
    if place:
        given.append(helper.make_tensor_value_info("at", TensorProto.INT64, []))
    two = numpy_helper.from_array(np.array(2), "two")
    nodes = [
        N("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        N("SequenceAt", ["parts", "at"], ["part"]),
        N("Relu", ["part"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, 4])]
    graph = helper.make_graph(nodes, "graph", given, outputs, [two, *at])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def test_a_sequence_whose_places_are_known_is_its_tensors(tmp_path: Path) -> None:
    found = network(sequence(tmp_path / "net.onnx", place=False))
    assert [layer.kind for layer in found.layers] == ["function", "map", "map"]
    assert [layer.output for layer in found.layers] == [(2, 4, 4)] * 3


def test_a_place_that_depends_on_values_is_refused_with_the_operators_name(tmp_path: Path) -> None:
    path = sequence(tmp_path / "net.onnx", place=True)
    with pytest.raises(InputError) as caught:
        network(path)
    assert tells(caught.value, "SequenceAt because which tensors it reads or gives depends on values")
    kinds = [layer.kind for layer in network(path, {"part": (1, 2, 4, 4)}, allow_unknown=True).layers]
    assert kinds[-2:] == ["opaque", "map"]


def test_a_reshape_whose_sizes_are_read_is_by_what_the_file_declares(tmp_path: Path) -> None:
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 4]),
        helper.make_tensor_value_info("sizes", TensorProto.INT64, [3]),
    ]
    for declared in ([1, 3, 8], None):
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, declared)
        graph = helper.make_graph([N("Reshape", ["x", "sizes"], ["y"])], "graph", given, [output])
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
        if declared:
            (layer,) = network(tmp_path / "net.onnx").layers
            assert (layer.kind, layer.output) == ("reshape", (3, 1, 8))
            continue
        with pytest.raises(InputError) as caught:
            network(tmp_path / "net.onnx")
        assert tells(caught.value, "Reshape because the shape of y .. depends on values of sizes")


def test_an_input_that_is_given_as_it_is_makes_a_network(tmp_path: Path) -> None:
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4])
    graph = helper.make_graph([N("Transpose", ["x"], ["y"], perm=[0, 1, 2])], "graph", given, [output])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    assert [(layer.kind, layer.output) for layer in network(tmp_path / "net.onnx").layers] == [
        ("map", (3, 1, 4))
    ]
