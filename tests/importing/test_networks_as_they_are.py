"""Networks as exporters write them: small ones that once failed, and the habits of several frameworks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networks_at_random
import numpy as np
import onnx
import onnx_execution
import pytest
from conftest import tells
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright.importing import network, summary
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.files import network_file
from tilewright.importing.model import read
from tilewright.spec.coarsening import coarse, coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, Access
from tilewright.spec.network import MatMul, Network, Slice

N = helper.make_node
Node = onnx.NodeProto
NHWC, NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def w(name: str, *shape: int) -> TensorProto:
    """Return weights of small integers."""
    rng = np.random.default_rng(len(name) + sum(shape))
    return numpy_helper.from_array(rng.integers(-2, 3, shape).astype(np.float32), name)


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def turned(source: str, result: str, perm: Sequence[int] = tuple(NHWC)) -> Node:
    return N("Transpose", [source], [result], perm=list(perm))


def save(
    path: Path,
    nodes: Sequence[Node],
    weights: Sequence[TensorProto] = (),
    *,
    inputs: dict[str, list[int]] | None = None,
    outputs: Sequence[str] = (),
    opset: int = 17,
    **fields: Any,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
            for name, sizes in (inputs or {"x": [1, 4, 8, 8]}).items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs or [nodes[-1].output[0]]],
        list(weights),
        **fields,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.onnx"


def shapes(found: Network) -> list[tuple[Any, ...]]:
    return [(layer.kind, layer.input, layer.output) for layer in found.layers]


def anonymous(found: Network) -> list[Any]:
    """Return a network's layers without names, what each reads by place."""
    return [
        (layer.model_dump(exclude={"name", "inputs", "weights"}), producers)
        for layer, producers in zip(found.layers, found.producers, strict=True)
    ]


# Layouts -----------------------------------------------------------------------------------------


def both_layouts(file: Path, first: str, between: Sequence[Node], count: int = 2) -> tuple[Network, Network]:
    """Return a network of some convolutions as it is exported channels first, and channels last.

    ``between`` takes ``{in}`` and gives ``{out}``, and knows an axis of channels as 99.
    """

    def written(last: bool) -> Network:
        nodes, weights, name = [], [], "x"
        for place in range(count):
            weights.append(w(f"w{place}", 4, 3 if not place else 4, 3, 3))
            source = name
            if last:
                nodes.append(turned(name, f"f{place}", NCHW))
                source = f"f{place}"
            nodes.append(N("Conv", [source, f"w{place}"], [f"c{place}"], pads=[1] * 4))
            name = f"c{place}"
            if last:
                nodes.append(turned(name, f"l{place}"))
                name = f"l{place}"
            for number, each in enumerate(between):
                node = Node()
                node.CopyFrom(each)
                node.output[0] = f"b{place}_{number}"
                node.input[:] = [name if given == "in" else given for given in node.input]
                for attribute in node.attribute:
                    if attribute.name == "axis" and attribute.i == 99:
                        attribute.i = 3 if last else 1
                nodes.append(node)
                name = node.output[0]
        constants = [w("bias", 4) if last else w("bias", 4, 1, 1)]
        sizes = [1, 8, 8, 3] if last else [1, 3, 8, 8]
        return network(save(file, nodes, [*weights, *constants], inputs={first: sizes}))

    return written(False), written(True)


@pytest.mark.parametrize(
    "between",
    [
        [N("Add", ["in", "bias"], [""]), N("Relu", ["in"], [""])],
        [N("Relu", ["in"], [""]), N("Mul", ["bias", "in"], [""])],
        [N("Sigmoid", ["in"], ["s"]), N("Clip", ["in"], [""])],
        [N("Softmax", ["in"], [""], axis=99)],
        [N("HardSwish", ["in"], [""]), N("Identity", ["in"], [""]), N("Dropout", ["in"], [""])],
    ],
    ids=["bias and relu", "scale", "activations", "softmax", "nothing"],
)
def test_a_network_is_the_same_in_both_layouts(file: Path, between: list[Node]) -> None:
    plain, last = both_layouts(file, "x", between)
    assert anonymous(coarse(plain)) == anonymous(coarse(last))
    assert (plain.macs, plain.parameters) == (last.macs, last.parameters)


def test_transpositions_cancel_across_a_sum_of_two_branches(file: Path) -> None:
    nodes = [
        turned("x", "f", NCHW), N("Conv", ["f", "w"], ["c"], pads=[1] * 4), turned("c", "l"),
        N("Relu", ["l"], ["r"]),
        turned("r", "g", NCHW), N("Conv", ["g", "v"], ["d"], pads=[1] * 4), turned("d", "m"),
        N("Add", ["m", "r"], ["s"]), N("Relu", ["s"], ["y"]),
    ]  # fmt: skip
    save(file, nodes, [w("w", 4, 3, 3, 3), w("v", 4, 4, 3, 3)], inputs={"x": [1, 8, 8, 3]})
    assert [layer.kind for layer in coarse(network(file)).layers] == ["conv", "conv", "add"]
    onnx_execution.check_numbers(file)


def test_what_is_done_to_the_input_before_it_is_transposed(file: Path) -> None:
    nodes = [
        N("Mul", ["x", "scale"], ["a"]), N("Sub", ["a", "mean"], ["b"]), turned("b", "f", NCHW),
        N("Conv", ["f", "w"], ["y"]),
    ]  # fmt: skip
    weights = [w("scale"), w("mean", 3), w("w", 4, 3, 3, 3)]
    found = network(save(file, nodes, weights, inputs={"x": [1, 8, 8, 3]}))
    assert [layer.kind for layer in found.layers] == ["reshape", "map", "map", "conv"]
    assert [layer.kind for layer in coarse(found).layers] == ["conv"]
    onnx_execution.check_numbers(file)


def test_axes_follow_the_order_in_which_tensors_are_stored(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"]), N("Conv", ["x", "v"], ["b"]), turned("a", "at"), turned("b", "bt"),
        N("Concat", ["at", "bt"], ["k"], axis=3), N("Pad", ["k", "p"], ["q"]),
        N("Softmax", ["q"], ["s"], axis=-1),
        N("ReduceMax", ["q"], ["m"], axes=[1, 2], keepdims=0), N("ReduceMean", ["q"], ["n"], axes=[1, 2]),
        turned("q", "kt", NCHW), N("Conv", ["kt", "u"], ["y"]),
    ]  # fmt: skip
    weights = [w("w", 4, 3, 1, 1), w("v", 5, 3, 1, 1), w("u", 4, 9, 1, 1), ints("p", 0, 1, 2, 0, 0, 3, 4, 0)]
    save(file, nodes, weights, inputs={"x": [1, 3, 8, 8]}, outputs=["s", "m", "n", "y"])
    found = network(file)
    assert [layer.kind for layer in found.layers if layer.kind not in ("map", "reshape")] == [
        "conv", "conv", "concat", "pad", "pool", "pool", "conv",
    ]  # fmt: skip
    assert next(layer for layer in found.layers if layer.kind == "pad").padding == (1, 3, 2, 4)
    onnx_execution.check_numbers(file)


def test_a_gate_of_channels_last(file: Path) -> None:
    """Squeeze and excitation as Keras writes it."""
    nodes = [
        turned("x", "f", NCHW), N("Conv", ["f", "w"], ["c"]), turned("c", "l"),
        N("ReduceMax", ["l"], ["p"], axes=[1, 2], keepdims=0), N("Gemm", ["p", "d"], ["g"]),
        N("Reshape", ["g", "s"], ["r"]), N("Mul", ["l", "r"], ["m"]), turned("m", "n", NCHW),
        N("Conv", ["n", "v"], ["y"]),
    ]  # fmt: skip
    weights = [w("w", 4, 3, 3, 3), w("d", 4, 4), w("v", 4, 4, 3, 3), ints("s", 1, 1, 1, 4)]
    save(file, nodes, weights, inputs={"x": [1, 8, 8, 3]})
    assert [layer.kind for layer in coarse(network(file)).layers if layer.kind != "reshape"] == [
        "conv", "pool", "fc", "mul", "conv",
    ]  # fmt: skip
    onnx_execution.check_numbers(file)


def test_flattening_channels_last_costs_nothing_before_weights(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["c"]), turned("c", "l"), N("Reshape", ["l", "s"], ["r"]),
        N("Gemm", ["r", "d"], ["y"]),
    ]  # fmt: skip
    save(file, nodes, [w("w", 4, 4, 3, 3), w("d", 144, 7), ints("s", 1, -1)])
    assert [layer.kind for layer in coarse(network(file)).layers] == ["conv", "fc"]
    onnx_execution.check_numbers(file)


def test_an_order_that_nothing_hides_is_made_once(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["c"]), turned("c", "l"), N("Reshape", ["l", "s"], ["r"]),
        N("Reshape", ["l", "s"], ["q"]),
        N("Add", ["r", "q"], ["y"]),
    ]  # fmt: skip
    save(file, nodes, [w("w", 4, 4, 3, 3), ints("s", 1, 12, 12)])
    assert [layer.kind for layer in network(file).layers] == ["conv", "reshape", "reshape", "reshape", "add"]
    onnx_execution.check_numbers(file)


# Matrices ----------------------------------------------------------------------------------------


def test_a_matrix_of_weights_over_rows_is_a_convolution_of_positions(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        N("Reshape", ["c", "s"], ["r"]),
        N("Gemm", ["r", "f", "b"], ["y"]),
    ]
    weights = [w("w", 4, 3, 3, 3), w("f", 4, 5), w("b", 5), ints("s", 64, 4)]
    found = network(save(file, nodes, weights, inputs={"x": [1, 3, 8, 8]}))
    assert [layer.input for layer in found.convolutions] == [(3, 8, 8), (4, 1, 64)]
    assert found.macs == 64 * 4 * 27 + 64 * 20
    onnx_execution.check_numbers(file)
    nodes = [
        *nodes[:1],
        N("Reshape", ["c", "t"], ["r"]),
        turned("r", "q", [0, 2, 1]),
        N("MatMul", ["q", "f"], ["y"]),
    ]
    found = network(save(file, nodes, [*weights, ints("t", 1, 4, 64)], inputs={"x": [1, 3, 8, 8]}))
    assert [layer.input for layer in found.convolutions] == [(3, 8, 8), (4, 1, 64)]
    assert [layer.kind for layer in coarse(found).layers] == ["conv", "reshape", "conv"]  # a view, no move
    onnx_execution.check_numbers(file)


def test_a_matrix_of_weights_may_be_first(file: Path) -> None:
    found = network(save(file, [N("MatMul", ["f", "x"], ["y"])], [w("f", 5, 4)], inputs={"x": [1, 4, 9]}))
    assert shapes(found) == [("conv", (4, 1, 9), (5, 1, 9))]
    onnx_execution.check_numbers(file)


def attention(batch: int = 1) -> tuple[list[Node], list[TensorProto], dict[str, list[int]]]:
    """Return two heads over six positions, as PyTorch writes them."""
    nodes = []
    for name in "qkv":
        nodes += [
            N("MatMul", ["x", f"w{name}"], [f"{name}m"]),
            N("Reshape", [f"{name}m", "heads"], [f"{name}h"]),
            turned(f"{name}h", name, [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        N("MatMul", ["q", "k"], ["scores"]),
        N("Relu", ["scores"], ["p"]),
        N("MatMul", ["p", "v"], ["mixed"]),
        turned("mixed", "back", [0, 2, 1, 3]),
        N("Reshape", ["back", "joined"], ["flat"]),
        N("MatMul", ["flat", "wo"], ["o"]),
        N("Add", ["o", "x"], ["y"]),
    ]
    weights = [w(f"w{name}", 8, 8) for name in "qkvo"]
    return nodes, [*weights, ints("heads", 0, 0, 2, 4), ints("joined", 0, 0, 8)], {"x": [batch, 6, 8]}


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_moves_nothing(file: Path, batch: int) -> None:
    nodes, weights, inputs = attention(batch)
    found = network(save(file, nodes, weights, inputs=inputs))
    assert [layer.op for layer in found.layers if layer.kind == "reshape"].count(
        "transpose"
    ) == 2  # in and out
    products = [layer for layer in found.layers if isinstance(layer, MatMul)]
    assert [(one.groups, one.depth, one.rows, one.columns) for one in products] == [
        (2, 4, 6, 6),
        (2, 6, 6, 4),
    ]
    assert found.macs == batch * (4 * 6 * 8 * 8 + 2 * 2 * 6 * 6 * 4)
    assert coarse(found).layers[0].input == (8, 1, 6)
    onnx_execution.check_numbers(file)


def test_a_class_token_and_repeated_heads_move_nothing_by_themselves(file: Path) -> None:
    """Readers find the values where they are; what leaves the network has to be written together."""

    def accesses(nodes: list[Node], weights: list[TensorProto], **inputs: list[int]) -> int:
        network_file = save(file, nodes, weights, inputs=inputs)
        instance = tilewright.read(network_file, machine="gap8", minimise="accesses")
        found = tilewright.solve(instance, time_limit=60)
        assert found.status == "optimal"
        return int(found.objective)

    joined, product = N("Concat", ["t", "x"], ["c"], axis=1), N("MatMul", ["c", "w"], ["y"])
    values = 16 * 8 + 8 * 8 + 16 * 8  # tokens, weights, results: each moved once
    assert accesses([joined, product], [w("t", 1, 1, 8), w("w", 8, 8)], x=[1, 15, 8]) == values
    assert accesses([joined], [w("t", 1, 1, 8)], x=[1, 15, 8]) == 2 * 16 * 8

    heads = [
        N("Expand", ["k", "e"], ["r"]),
        N("Reshape", ["r", "s"], ["h"]),
        N("MatMul", ["q", "h"], ["y"]),
    ]
    sizes = [ints("e", 1, 2, 3, 4, 8), ints("s", 1, 6, 4, 8)]
    read_by_each = 6 * (8 * 4 + 4 * 8 + 8 * 8)
    assert accesses(heads, sizes, q=[1, 6, 8, 4], k=[1, 2, 1, 4, 8]) == read_by_each


@pytest.mark.parametrize(
    ("reads", "place"),
    [(["t", "x"], 0), (["x", "t"], 1), (["x", "t", "z"], 1), (["t", "x", "u"], None), (["t", "u", "x"], 0)],
)
def test_where_numbers_of_the_file_stand_in_a_concatenation(
    file: Path, reads: list[str], place: int | None
) -> None:
    nodes = [N("Relu", ["x"], ["z"]), N("Concat", reads, ["c"], axis=1), N("MatMul", ["c", "w"], ["y"])]
    weights = [w("t", 1, 1, 8), w("u", 1, 2, 8), w("w", 8, 8)]
    found = network(save(file, nodes, weights, inputs={"x": [1, 15, 8]}))
    (joined,) = [layer for layer in found.layers if layer.kind == "function"]
    assert joined.op == "concat" and joined.numbers_at == place


# Transposed convolutions and others ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "more"),
    [
        (2, 2, 0, 0),
        (4, 2, 1, 0),
        (3, 2, 1, 1),
        (3, 1, 1, 0),
        (4, 4, 0, 0),
        (5, 2, 2, 1),
        (8, 4, 2, 0),
        (3, 2, 0, 0),
    ],
)
def test_a_transposed_convolution_is_what_it_gathers(
    file: Path, kernel: int, stride: int, pads: int, more: int
) -> None:
    node = N(
        "ConvTranspose",
        ["x", "w", "b"],
        ["y"],
        strides=[stride] * 2,
        pads=[pads] * 4,
        output_padding=[more] * 2,
    )
    found = network(save(file, [node], [w("w", 4, 5, kernel, kernel), w("b", 5)]))
    assert found.layers[-1].output[0] == 5
    if found.layers[0].kind == "function":  # whose outputs are no multiple of its inputs
        assert (kernel, stride, pads) == (3, 2, 0)
        assert found.macs == 64 * 4 * 5 * 9
        return
    assert found.macs == 64 * 4 * 5 * kernel**2  # with what sees padding
    assert found.layers[-1].output == (5, 8 * stride, 8 * stride)
    onnx_execution.check_numbers(file)


def test_recurrent_layers_are_functions_with_their_work(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 0, 1, 0]), N("Squeeze", ["a", "ax"], ["s"]),
        turned("s", "t", [2, 0, 1]),
        N("GRU", ["t", "gw", "gr"], ["g", ""], hidden_size=6), N("Squeeze", ["g", "one"], ["h"]),
        N("MatMul", ["h", "d"], ["y"]),
    ]  # fmt: skip
    weights = [
        w("w", 4, 1, 3, 8),
        w("gw", 1, 18, 4),
        w("gr", 1, 18, 6),
        w("d", 6, 5),
        ints("ax", 3),
        ints("one", 1),
    ]
    for batch in (1, 3):
        save(file, nodes, weights, inputs={"x": [batch, 1, 12, 8]})
        found = network(file)
        gru = next(layer for layer in found.layers if layer.kind == "function")
        assert (gru.op, gru.macs, gru.parameters) == ("gru", batch * 12 * 18 * (4 + 6), 18 * (4 + 6))
        assert gru.recurrence is not None and gru.recurrence.told() == {
            "steps": 12, "hidden": 6, "directions": 1, "reset_after": False,
            "reads_time_last": True, "gives_time_last": True,
        }  # fmt: skip
        assert found.layers[-2].kind == "conv" and found.layers[-2].input == (6, 1, 12)  # positions are times
        onnx_execution.check_file_shapes(file)


def test_recurrent_layers_say_how_often_they_compute_a_state(file: Path) -> None:
    """Where their state begins with zeros, their weights are fixed, and no sequence is shorter."""

    def found(
        *more: str, outputs: tuple[str, ...] = ("y",), begins: float = 0, sides: int = 2, **attributes: Any
    ) -> Any:
        hidden, gates = 3, {"LSTM": 4, "GRU": 3, "RNN": 1}[attributes.pop("kind", "LSTM")]
        name = {4: "LSTM", 3: "GRU", 1: "RNN"}[gates]
        weights = [w("w", sides, gates * hidden, 4), w("r", sides, gates * hidden, hidden)]
        weights += [w("b", sides, 2 * gates * hidden), numpy_helper.from_array(np.full(1, 5, np.int32), "n")]
        weights.append(numpy_helper.from_array(np.full((sides, 1, hidden), begins, np.float32), "h"))
        turn = "bidirectional" if sides == 2 else "forward"
        node = N(
            name, ["x", "w", "r", *more], list(outputs), hidden_size=hidden, direction=turn, **attributes
        )
        save(file, [node], weights, inputs={"x": [5, 1, 4]}, outputs=["y"])
        return next(layer for layer in network(file).layers if layer.kind == "function")

    last = {"steps": 5, "hidden": 3, "directions": 2, "reset_after": False}
    both = last | {"gives_time_last": True}
    for layer in (found("b"), found("b", "", "h"), found("b", outputs=("", "y"))):
        assert layer.recurrence.told() == (both if layer.output[2] == 5 else last)
        assert layer.parameters == 2 * (4 * 3 * (4 + 3) + 2 * 4 * 3)
    after = found("b", kind="GRU", sides=1, linear_before_reset=1)
    assert after.recurrence.told() == both | {"directions": 1, "reset_after": True}
    assert found(kind="RNN", sides=1).recurrence.told() == both | {"directions": 1}
    assert found("b", "n").recurrence is None and found("b", "", "h", begins=1).recurrence is None


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("outputs", [("y", "h"), ("y", "h", "c"), ("", "h", "c")])
def test_last_states_are_parts_of_all_of_them(file: Path, direction: str, outputs: tuple[str, ...]) -> None:
    """Only cells are computed apart; the layer itself has all its work, and says how often it has a state."""
    hidden, sides = 3, 1 + (direction == "bidirectional")
    weights = [w("w", sides, 4 * hidden, 2), w("r", sides, 4 * hidden, hidden)]
    node = N("LSTM", ["t", "w", "r"], list(outputs), hidden_size=hidden, direction=direction)
    shown = [name for name in outputs if name]
    save(file, [turned("x", "t", [1, 0, 2]), node], weights, inputs={"x": [1, 5, 2]}, outputs=shown)
    found = network(file)
    first, *others = (layer for layer in found.layers if layer.kind == "function" and layer.op == "lstm")
    assert first.recurrence is not None and len(others) == outputs.count("c")
    assert found.macs == sides * 5 * 4 * hidden * (2 + hidden)
    model, proto = read(file, {}), onnx.load(file)
    right = onnx_execution.by_onnxruntime(proto, onnx_execution.small_integers(model))
    assert onnx_execution.check_model(model, proto, right) >= 2 + len(shown)


def test_quantised_operators_are_those_in_floating_point(file: Path) -> None:
    def eight(name: str, *shape: int) -> TensorProto:
        return helper.make_tensor(name, TensorProto.INT8, shape, np.zeros(shape, np.int8))

    scale, zero = numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.uint8(128), "z")
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("QLinearConv", ["q", "s", "z", "w", "s", "zw", "s", "z"], ["c"], pads=[1] * 4),
        N("QLinearAdd", ["c", "s", "z", "q", "s", "z", "s", "z"], ["d"], domain="com.microsoft"),
        N("Flatten", ["d"], ["e"]),
        N("QGemm", ["e", "s", "z", "v", "s", "zw", "", "s", "z"], ["f"], domain="com.microsoft"),
        N("MatMulInteger", ["f", "u"], ["y"]),
    ]
    weights = [scale, zero, eight("zw"), eight("w", 4, 4, 3, 3), eight("v", 256, 7), eight("u", 7, 3)]
    found = network(save(file, nodes, weights))
    assert [(layer.kind, layer.bits) for layer in found.convolutions] == [
        ("conv", (8, 8, 8)), ("fc", (8, 8, 8)), ("fc", (8, 8, 32)),
    ]  # fmt: skip
    assert found.macs == 64 * 4 * 36 + 256 * 7 + 21
    assert "opaque" not in summary(found)["operations"]
    onnx_execution.check_file_shapes(file)


# Sizes, inputs, weights --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "kernel", "told"),
    [
        ([1, 8, 128, 128], (3, 3), {"dilations": [72, 72], "pads": [72] * 4}),
        ([1, 1, 80000], (10,), {"strides": [5]}),
        ([1, 1, 144160], (256,), {"strides": [160]}),
        ([1, 1, 4096], (96,), {"strides": [32]}),
        ([1, 8, 600], (3,), {"dilations": [128], "pads": [128, 128]}),
    ],
)
def test_large_windows(file: Path, sizes: list[int], kernel: tuple[int, ...], told: dict[str, Any]) -> None:
    save(file, [N("Conv", ["x", "w"], ["y"], **told)], [w("w", 8, sizes[1], *kernel)], inputs={"x": sizes})
    (layer,) = network(file).layers
    assert layer.kind == "conv"
    onnx_execution.check_numbers(file)


def test_several_inputs(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"]), N("Conv", ["z", "v"], ["b"]), N("Concat", ["a", "b"], ["c"], axis=1),
        N("Conv", ["c", "u"], ["y"]),
    ]  # fmt: skip
    weights = [w("w", 4, 3, 3, 3), w("v", 4, 1, 3, 3), w("u", 2, 8, 1, 1)]
    found = network(save(file, nodes, weights, inputs={"x": [1, 3, 8, 8], "z": [1, 1, 8, 8]}))
    assert [layer.kind for layer in found.layers] == ["conv", "input", "conv", "concat", "conv"]
    assert found.layers[1].output == (1, 8, 8)
    assert found.source.endswith("for an input of x 1x3x8x8 and z 1x1x8x8")
    onnx_execution.check_numbers(file)
    ((_, text),) = network_file(found).items()
    assert 'kind = "input"' in text


def test_sizes_that_are_left_open(file: Path) -> None:
    """There is one image, and a size with a name is the same for all inputs."""
    nodes = [N("Add", ["x", "z"], ["a"]), N("Conv", ["a", "w"], ["y"])]
    sizes: dict[str, Any] = {name: ["batch", 3, "side", "side"] for name in "xz"}
    save(file, nodes, [w("w", 4, 3, 3, 3)], inputs=sizes)
    with pytest.raises(InputError) as refused:
        network(file)
    assert tells(str(refused.value), "dimension 2 (side) .. --input x=1,3,224,224")
    found = network(file, {"x": (2, 3, 8, 8)})
    assert found.source.endswith("for an input of x 2x3x8x8 and z 2x3x8x8")
    save(file, nodes, [w("w", 4, 3, 3, 3)], inputs={name: ["batch", 3, 8, 8] for name in "xz"})  # type: ignore[list-item]
    assert network(file).source.endswith("for an input of x 1x3x8x8 and z 1x3x8x8")


def test_an_opaque_operation_has_the_shape_that_the_file_declares(file: Path) -> None:
    branch = helper.make_graph(
        [N("Exp", ["x"], ["t"])], "t", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    )
    nodes = [
        N("ReduceMax", ["x"], ["m"], keepdims=0), N("Cast", ["m"], ["b"], to=TensorProto.BOOL),
        N("If", ["b"], ["y"], then_branch=branch, else_branch=branch),
    ]  # fmt: skip
    declared = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 7])
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])], [declared]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    with pytest.raises(InputError, match="subgraphs"):
        network(file)
    assert network(file, allow_unknown=True).layers[-1].output == (7, 1, 1)


def test_sizes_that_the_file_states_can_be_replaced(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["c"], pads=[1] * 4), N("Reshape", ["c", "s"], ["r"]), N("Relu", ["r"], ["y"]),
    ]  # fmt: skip
    stated = [helper.make_tensor_value_info("c", TensorProto.FLOAT, [10, 4, 32, 32])]
    weights = [w("w", 4, 3, 3, 3), ints("s", 10, -1)]
    save(file, nodes, weights, inputs={"x": [10, 3, 32, 32]}, value_info=stated)
    assert network(file).layers[-1].output == (4096, 1, 1)
    found = network(file, {"x": (2, 3, 64, 48)})
    assert (found.convolutions[0].input, found.convolutions[0].batch) == ((3, 64, 48), 2)
    assert found.layers[-1].output == (4 * 64 * 48, 1, 1)


def test_weights_used_twice_are_counted_once(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        N("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Conv", ["a", "h", "b"], ["y"], name="first", pads=[1] * 4), N("Identity", ["h"], ["same"]),
        N("Conv", ["m", "same", "b"], ["z"], name="second", pads=[1] * 4),
    ]  # fmt: skip
    weights = [w("w", 8, 3, 3, 3), w("h", 9, 8, 3, 3), w("b", 9)]
    found = network(save(file, nodes, weights, inputs={"x": [1, 3, 16, 16]}, outputs=["y", "z"]))
    assert found.parameters == 216 + 648 + 9 == summary(found)["parameters"]
    assert [layer.weights for layer in found.convolutions] == [None, None, "first"]
    ((_, text),) = network_file(found).items()
    assert 'weights = "first"' in text


@pytest.mark.by_day(46)
@pytest.mark.parametrize("padding", [[0] * 4, [1] * 4, [0, 0, 1, 1], [1, 1, 0, 0]])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pools_that_round_up(file: Path, padding: list[int], kernel: int, size: int, stride: int) -> None:
    if max(padding) >= kernel:
        return
    told = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": padding, "ceil_mode": 1}
    save(file, [N("MaxPool", ["x"], ["y"], **told)], inputs={"x": [1, 2, size, size]})
    network(file)
    onnx_execution.check_numbers(file)


# Operators of others --------------------------------------------------------------------------------


def test_a_foreign_operator_says_what_to_write(file: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"]), N("Inverse", ["a"], ["b"], name="fast", domain="com.microsoft"),
        N("Conv", ["b", "v"], ["y"]),
    ]  # fmt: skip
    save(file, nodes, [w("w", 4, 3, 1, 1), w("v", 4, 4, 1, 1)], inputs={"x": [1, 3, 16, 16]})
    with pytest.raises(InputError) as caught:
        network(file)
    assert tells(caught.value, "shape of b .. --input b=1,4,16,16 .. (in fast) .. --allow-unknown")
    found = network(file, {"b": (1, 4, 16, 16)}, allow_unknown=True)
    assert [(layer.name, layer.kind) for layer in found.layers] == [
        ("conv", "conv"), ("fast", "opaque"), ("fast/conv", "conv"),
    ]  # fmt: skip
    assert "assumed" not in found.source
    assert network(file, allow_unknown=True).source.endswith("of what is read, of: b")


@pytest.mark.parametrize(
    "node",
    [
        N("Conv", ["x", "w3"], ["y"], name="odd"),  # of other channels
        N("Conv", ["x", "w"], ["y"], name="odd", strides=[2]),  # invalid
        N("Conv", ["x", "w"], ["y"], name="odd", strides=[9000, 9000]),  # beyond all limits
        N("Gemm", ["x", "w"], ["y"], name="odd"),
        N("Foreign", ["x"], ["y"], name="odd", domain="com.microsoft"),
        N("Foreign", ["x"], ["y", "z"], name="odd", domain="com.microsoft"),
        N("NonZero", ["x"], ["y"], name="odd"),
        N("Relu", ["x", "x"], ["y"], name="odd"),
        N("SequenceConstruct", ["x", "x"], ["y"], name="odd"),
    ],
)
def test_allow_unknown_keeps_whatever_is_refused_as_a_barrier_with_its_name(file: Path, node: Node) -> None:
    weights = [w("w", 4, 4, 3, 3), w("w3", 4, 3, 3, 3)]
    save(file, [N("Relu", ["x"], ["r"]), node], weights, outputs=list(node.output))
    with pytest.raises(InputError):
        network(file)
    found = network(file, allow_unknown=True)
    assert [(layer.kind, layer.name) for layer in found.layers][-len(node.output)] == ("opaque", "odd")
    found.check_shapes()
    coarse(found).check_shapes()


# Exports of several frameworks ------------------------------------------------------------------------


def keras(file: Path) -> Path:
    """Write a small network as tf2onnx does: channels last around every convolution, nothing fused."""
    nodes, weights, name = [], [], "x"
    for place, (seen, kernels) in enumerate([(3, 8), (8, 8), (8, 16)]):
        s = f"block{place}"
        weights += [w(f"{s}/w", kernels, seen, 3, 3), *(w(f"{s}/{each}", kernels) for each in "gb")]
        weights += [w(f"{s}/m", kernels), numpy_helper.from_array(np.ones(kernels, np.float32), f"{s}/v")]
        nodes += [
            turned(name, f"{s}/f", NCHW),
            N("Conv", [f"{s}/f", f"{s}/w"], [f"{s}/c"], auto_pad="SAME_UPPER", strides=[2, 2]),
            N("BatchNormalization", [f"{s}/c", *(f"{s}/{each}" for each in "gbmv")], [f"{s}/n"]),
            turned(f"{s}/n", f"{s}/l"),
            N("Relu", [f"{s}/l"], [f"{s}/r"]),
        ]
        name = f"{s}/r"
    nodes += [
        N("ReduceMax", [name], ["pooled"], axes=[1, 2], keepdims=0), N("MatMul", ["pooled", "d"], ["dense"]),
        N("Add", ["dense", "db"], ["biased"]), N("Softmax", ["biased"], ["y"], axis=-1),
    ]  # fmt: skip
    return save(file, nodes, [*weights, w("d", 16, 10), w("db", 10)], inputs={"x": [1, 32, 32, 3]}, opset=13)


def pytorch(file: Path) -> Path:
    """Write a small network as PyTorch does: shapes that are computed, constants that are nodes."""

    def constant(name: str, value: list[int]) -> Node:
        return N("Constant", [], [name], value=ints(name, *value))

    zero = N("Constant", [], ["zero"], value=helper.make_tensor("v", TensorProto.INT64, [], [0]))
    nodes = [
        N("Conv", ["x", "a"], ["/c"], pads=[1] * 4), N("HardSwish", ["/c"], ["/h"]),
        N("Identity", ["/h"], ["/i"]),
        N("Conv", ["/i", "b"], ["/d"], pads=[1] * 4, group=8),
        N("Cast", ["/d"], ["/e"], to=TensorProto.FLOAT),
        N("Dropout", ["/e"], ["/o"]), N("Clip", ["/o", "low", "high"], ["/p"]),
        N("MaxPool", ["/p"], ["/q"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        N("Shape", ["/q"], ["/s"]), zero, N("Gather", ["/s", "zero"], ["/n"], axis=0), constant("axis", [0]),
        N("Unsqueeze", ["/n", "axis"], ["/m"]), constant("rest", [-1]),
        N("Concat", ["/m", "rest"], ["/t"], axis=0),
        N("Reshape", ["/q", "/t"], ["/f"]), N("Gemm", ["/f", "w", "v"], ["/g"], transB=1),
        constant("one", [1]), N("Unsqueeze", ["/g", "one"], ["/u"]), N("Squeeze", ["/u", "one"], ["y"]),
    ]  # fmt: skip
    numbers = [numpy_helper.from_array(np.float32(value), name) for name, value in (("low", 0), ("high", 6))]
    weights = [w("a", 8, 3, 3, 3), w("b", 8, 1, 3, 3), w("w", 10, 8 * 25), w("v", 10), *numbers]
    return save(file, nodes, weights, inputs={"x": [1, 3, 9, 9]})


def caffe(file: Path) -> Path:
    """Write a small network as Caffe's converters do: scales apart, flattening by a reshape."""
    ones = numpy_helper.from_array(np.ones(6, np.float32), "var")
    nodes = [
        N("Conv", ["x", "a", "ab"], ["c"], strides=[2, 2]),
        N("BatchNormalization", ["c", "g", "b", "m", "var"], ["n"]),
        N("Mul", ["n", "scale"], ["s"]), N("Add", ["s", "shift"], ["t"]), N("Relu", ["t"], ["r"]),
        N("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        N("Concat", ["p", "p2"], ["k"], axis=1), N("Reshape", ["k", "shape"], ["f"]),
        N("Gemm", ["f", "d", "e"], ["y"]),
    ]  # fmt: skip
    nodes.insert(6, N("LeakyRelu", ["p"], ["p2"], alpha=0.0))
    weights = [w("a", 6, 3, 3, 3), w("ab", 6), *(w(name, 6) for name in "gbm"), ones, w("scale", 6, 1, 1)]
    weights += [w("shift", 1, 6, 1, 1), ints("shape", 0, -1), w("d", 12 * 9, 5), w("e", 5)]
    return save(file, nodes, weights, inputs={"x": [1, 3, 13, 13]})


EXPORTS: dict[Callable[[Path], Path], list[str]] = {
    keras: ["conv", "conv", "conv", "pool", "fc", "map"],
    pytorch: ["conv", "conv", "pool", "fc"],
    caffe: ["conv", "pool", "map", "fc"],
}


@pytest.mark.parametrize("write", EXPORTS, ids=lambda write: write.__name__)
def test_exports_of_several_frameworks(file: Path, write: Callable[[Path], Path]) -> None:
    found = coarse(network(write(file)))
    kinds = [layer.kind for layer in found.layers if layer.kind != "reshape"]
    assert kinds == EXPORTS[write]
    onnx_execution.check_file_shapes(file)


LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_shapes_of_the_networks_that_onnx_ships(path: Path) -> None:
    onnx_execution.check_file_shapes(path)


# Rooms ------------------------------------------------------------------------------------------------


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("room", "machine", "method"), [("allocation", "tcpa", "greedy"), ("fusion", "dnnvm-zu2", "greedy")]
)
def test_exports_are_solved_and_checked(
    tilewright: Callable[..., Any], file: Path, room: str, machine: str, method: str
) -> None:
    keras(file)
    told = ("--room", room, "--machine", machine)
    assert tilewright("import", str(file), "-o", ".", *told).returncode == 0
    done = tilewright("solve", f"net-{room}.toml", "--with", method, "-o", "r.json")
    assert done.returncode == 0, done.stderr
    checked = tilewright("check", f"net-{room}.toml", "r.json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_several_inputs_are_fused_and_checked(tilewright: Callable[..., Any], file: Path) -> None:
    nodes = [N("Conv", ["x", "w"], ["a"]), N("Conv", ["z", "v"], ["b"]), N("Add", ["a", "b"], ["y"])]
    weights = [w("w", 4, 3, 3, 3), w("v", 4, 1, 3, 3)]
    save(file, nodes, weights, inputs={"x": [1, 3, 8, 8], "z": [1, 1, 8, 8]})
    told = ("--room", "fusion", "--machine", "dnnvm-zu2")
    assert tilewright("import", str(file), "-o", ".", *told).returncode == 0
    assert tilewright("solve", "net-fusion.toml", "--with", "greedy", "-o", "r.json").returncode == 0
    checked = tilewright("check", "net-fusion.toml", "r.json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


# At random ----------------------------------------------------------------------------------------


@pytest.mark.by_day(1)
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_numbers_of_networks_at_random(file: Path, first: int) -> None:
    """What is stored of each tensor, transposed as is said of it, is what onnxruntime computes."""
    compared = 0
    for seed in range(first, first + 25):
        networks_at_random.save_network(seed, file)
        try:
            found = network(file)
        except InputError as error:  # of images that are mixed, and of nothing but transpositions
            assert "images" in error.limit or "at least 1" in error.limit, seed
            continue
        coarse(found)
        onnx_execution.check_numbers(file)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("first", ["add", "product", "second"])
def test_the_first_operation_may_read_two_inputs(file: Path, first: str) -> None:
    """A sum or a product of two inputs, or one that reads the second input first."""
    nodes = {
        "add": [N("Add", ["x", "z"], ["s"]), N("Conv", ["s", "w"], ["y"])],
        "product": [N("MatMul", ["x", "z"], ["y"])],
        "second": [N("Conv", ["z", "w"], ["s"]), N("Add", ["s", "x"], ["y"])],
    }[first]
    shape = [1, 3, 6, 6]
    found = network(save(file, nodes, [w("w", 3, 3, 1, 1)], inputs={"x": shape, "z": shape}))
    assert [layer.kind for layer in found.layers].count("input") == 1
    assert found.own_input == (3, 6, 6)
    coarse(found).check_shapes()
    onnx_execution.check_numbers(file)


def test_contradictions_of_a_file_are_refused(file: Path) -> None:
    """What a file says of itself must hold: its operator set, ways to pad, and the shapes of its outputs."""
    nodes = [N("Conv", ["x", "w"], ["y"])]
    save(file, nodes, [w("w", 4, 3, 3, 3)], inputs={"x": [1, 3, 8, 8]})
    model = onnx.load(file)
    known = onnx.defs.onnx_opset_version()
    model.opset_import[0].version = 999
    onnx.save(model, file)
    with pytest.raises(InputError, match=f"opset_import = 999: .* {known}"):
        network(file)
    model.opset_import[0].version = 17
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("auto_pad", "SAME_BELOW"))
    onnx.save(model, file)
    with pytest.raises(InputError, match="SAME_BELOW"):
        network(file)
    model.graph.node[0].ClearField("attribute")
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4, 8, 8])
    model.graph.output[0].CopyFrom(output)
    onnx.save(model, file)
    with pytest.raises(InputError, match=r"graph\.output\.y = .* \[1, 4, 6, 6\]"):
        network(file)


# Slices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("turn", [False, True], ids=["as written", "channels last"])
def test_splits_and_slices_are_parts_of_what_is_stored(file: Path, axis: int, turn: bool) -> None:
    sizes = {1: [4, 8, 8], 2: [8, 4, 8], 3: [8, 8, 4]}[axis]
    own = [*sizes[1:], sizes[0]] if turn else sizes
    place = [1, 2, 3].index(axis) if not turn else {1: 2, 2: 0, 3: 1}[axis]
    nodes = [
        N("Split", ["x", "two"], ["a", "b"], axis=place + 1),
        N("Slice", ["x", "begin", "end", "axes"], ["c"]),
        N("Mul", ["a", "b"], ["product"]),
        N("Add", ["product", "c"], ["y"]),
    ]
    half = own[place] // 2
    numbers = [ints("two", half, half), ints("begin", -half - 1), ints("end", -1), ints("axes", place + 1)]
    if turn:
        nodes = [turned("input", "x"), *nodes]
    inputs = {"input" if turn else "x": [1, *sizes]}
    save(file, nodes, numbers, inputs=inputs)
    found = network(file)
    part = [size // 2 if at + 1 == axis else size for at, size in enumerate(sizes)]
    first = [[half * (at + 1 == axis) for at in range(3)], [(half - 1) * (at + 1 == axis) for at in range(3)]]
    slices = [layer for layer in found.layers if isinstance(layer, Slice)]
    assert [(list(each.first), list(each.output)) for each in slices] == [
        ([0, 0, 0], part),
        (first[0], part),
        (first[1], part),
    ]
    onnx_execution.check_numbers(file)


def test_a_split_costs_what_groups_cost(file: Path) -> None:
    """Four convolutions of a quarter of the channels each read what one of four groups reads."""
    parts = [f"p{place}" for place in range(4)]
    nodes = [
        N("Split", ["x", "sizes"], parts, axis=1),
        *(N("Conv", [part, "w"], [f"c{part}"], kernel_shape=[1, 1]) for part in parts),
        N("Concat", [f"c{part}" for part in parts], ["y"], axis=1),
    ]
    save(file, nodes, [ints("sizes", 4, 4, 4, 4), w("w", 4, 4, 1, 1)], inputs={"x": [1, 16, 8, 8]})
    split = coarse_graph(network(file))
    assert [op.accesses for op in split.ops] == [(Access(OWN, (4 * at, 4 * at + 4)),) for at in range(4)]
    groups = N("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1], group=4)
    whole = file.with_name("groups.onnx")
    save(whole, [groups], [w("w", 16, 4, 1, 1)], inputs={"x": [1, 16, 8, 8]})
    moved = []
    for path in (file, whole):
        machine = {"machine": "idsp", "values": (("machine.memory_bytes", 4096),)}
        instance = assemble(path, Changes(room="tiling", minimise=("accesses",), **machine))
        moved.append(tilewright.solve(instance, "auto").objective)
    assert moved[0] == moved[1]


# Choices that shapes decide, and inputs without images -----------------------------------------------


@pytest.mark.parametrize("then", [True, False])
def test_a_choice_that_shapes_decide_is_its_branch(file: Path, then: bool) -> None:
    """As exporters write a squeeze of a dimension that may have one value."""
    result = [onnx.ValueInfoProto(name="inside")]
    branches = [
        helper.make_graph([N("Relu", ["c"], ["inside"])], "then", [], result),
        helper.make_graph([N("Sigmoid", ["c"], ["before"]), N("Mul", ["c", "before"], ["inside"])], "else",
                          [], result),
    ]  # fmt: skip
    nodes = [
        N("Conv", ["x", "w"], ["c"], kernel_shape=[1, 1]),
        N("Shape", ["c"], ["sizes"]),
        N("Gather", ["sizes", "place"], ["size"], axis=0),
        N("Equal", ["size", "wanted"], ["same"]),
        N("If", ["same"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    numbers = [w("w", 5, 4, 1, 1), ints("place", 1), ints("wanted", 5 if then else 4)]
    save(file, nodes, numbers)
    kinds = [getattr(layer, "op", layer.kind) for layer in network(file).layers]
    assert kinds == [*(["conv", "relu"] if then else ["conv", "sigmoid", "mul"]), "identity"]


@pytest.mark.parametrize("sizes", [[3, 8, 8], [8, 8]], ids=["channels first", "a plane alone"])
def test_the_first_dimension_of_an_input_need_not_be_images(file: Path, sizes: list[int]) -> None:
    nodes = [N("Unsqueeze", ["x", "front"], ["u"]), N("Conv", ["u", "w"], ["y"], kernel_shape=[3, 3])]
    lacking = list(range(4 - len(sizes)))
    channels = sizes[0] if len(sizes) == 3 else 1
    save(file, nodes, [ints("front", *lacking), w("w", 5, channels, 3, 3)], inputs={"x": sizes})
    assert [layer.output for layer in network(file).layers][-1] == (5, 6, 6)


def test_a_line_of_values_is_a_network_input(file: Path) -> None:
    nodes = [N("Unsqueeze", ["x", "front"], ["u"]), N("Conv", ["u", "w"], ["y"], strides=[5])]
    save(file, nodes, [ints("front", 0, 1), w("w", 8, 1, 10)], inputs={"x": [160]})
    assert [layer.output for layer in network(file).layers][-1] == (8, 1, 31)
