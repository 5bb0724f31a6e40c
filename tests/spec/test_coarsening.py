"""The coarse graph: what is folded, what is not and why, and the node counts of the DNNVM paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from caffe import BUNDLED, bundled, googlenet, resnet, vgg16
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright.core import catalogue
from tilewright.importing.files import network_file
from tilewright.spec.coarsening import coarse, coarse_graph, stages
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, NetworkGraph
from tilewright.spec.network import AnyLayer, NamedLayer, Network

CONV = {"kind": "conv", "input": [4, 8, 8], "kernels": 4, "kernel": [1, 1]}
CONV3 = CONV | {"kernel": [3, 3], "padding": [1, 1, 1, 1]}
ADD = {"kind": "add", "input": [4, 8, 8]}
MUL = {"kind": "mul", "input": [4, 8, 8]}


def table(kind: str, **values: Any) -> dict[str, Any]:
    return {"kind": kind, "input": [4, 8, 8], **values}


def relu(**values: Any) -> dict[str, Any]:
    return table("map", op="relu", **values)


def norm(op: str = "batch_norm", parameters: int = 8) -> dict[str, Any]:
    return table("map", op=op, parameters=parameters)


def network(**layers: dict[str, Any]) -> Network:
    found = Network.model_validate({"layers": [{"name": name, **each} for name, each in layers.items()]})
    found.check_shapes()
    return found


def folded(before: Network) -> dict[str, tuple[str, ...]]:
    """Return what became part of each operation; check that nothing else changed."""
    after = coarse(before)
    after.check_shapes()
    assert after.macs == before.macs
    graph = coarse_graph(before)
    assert [layer.name for layer in after.layers] == [op.name for op in graph.ops]
    assert coarse(after) == after
    return {op.name: tuple(layer.name for layer in op.folded) for op in graph.ops}


# Intrinsic fusion --------------------------------------------------------------------------------


def test_what_follows_a_convolution_alone_is_folded_into_it() -> None:
    net = network(
        conv=CONV,
        bn=norm(),
        scale=norm("scale"),
        bias=norm("bias"),
        relu=relu(),
        drop=table("map", op="dropout"),
    )
    assert folded(net) == {"conv": ("bn", "scale", "bias", "relu", "drop")}
    (conv,) = coarse(net).layers
    assert isinstance(conv, NamedLayer) and conv.bias
    assert [(name, len(graph.reads), graph.reads.number_of_edges()) for name, graph in stages(net)] == [
        ("raw", 7, 6),
        ("intrinsic fusion", 4, 3),
        ("point-wise fusion", 2, 1),
        ("pruned", 2, 1),
    ]


def test_a_factor_adds_no_bias() -> None:
    (conv,) = coarse(network(conv=CONV, scale=norm("scale"))).convolutions
    assert not conv.bias


def test_what_others_read_too_is_not_changed() -> None:
    net = network(conv=CONV, bn=norm(), sum=ADD | {"inputs": ["conv", "bn"]})
    assert folded(net) == {"conv": (), "bn": (), "sum": ()}


def test_affine_functions_become_one_before_they_become_part_of_a_convolution_after_them() -> None:
    net = network(pool=table("pool", kernel=[1, 1]), bn=norm(), scale=norm("scale"), conv=CONV)
    assert folded(net) == {"pool": (), "conv": ("bn", "scale")}
    assert coarse(net).convolutions[0].bias


def test_two_affine_functions_have_the_numbers_of_both() -> None:
    pool, scale, bias = table("pool", kernel=[1, 1]), norm("scale", 4), norm("bias", 4)
    single = norm("scale", 0)
    pairs = [((scale, bias), 8), ((scale, scale), 4), ((norm(), bias), 8), ((bias, bias), 4)]
    for pair, numbers in [*pairs, ((single, bias), 4), ((bias, single), 4), ((single, norm()), 8)]:
        net = network(pool=pool, first=pair[0], second=pair[1])
        assert folded(net) == {"pool": (), "first": ("second",)}
        assert coarse(net).parameters == numbers


def test_numbers_of_each_place_are_no_part_of_weights() -> None:
    places = norm("bias", 4 * 8 * 8)
    net = network(conv=CONV, places=places)
    assert folded(net) == {"conv": (), "places": ()}
    assert coarse(net).parameters == net.parameters
    pool = table("pool", kernel=[1, 1])
    assert folded(network(pool=pool, places=places, conv=CONV)) == {"pool": (), "places": (), "conv": ()}


def test_what_is_added_before_padding_is_not_folded_after_it() -> None:
    pool = table("pool", kernel=[1, 1])
    assert folded(network(pool=pool, bn=norm(), conv=CONV3)) == {"pool": (), "bn": (), "conv": ()}
    assert folded(network(pool=pool, scale=norm("scale"), conv=CONV3)) == {"pool": (), "conv": ("scale",)}


def test_all_that_read_an_affine_function_must_take_it_over() -> None:
    pool, both = table("pool", kernel=[1, 1]), {"inputs": ["bn"]}
    net = network(pool=pool, bn=norm(), left=CONV, right=CONV | both)
    assert folded(net) == {"pool": (), "left": ("bn",), "right": ("bn",)}
    net = network(pool=pool, bn=norm(), left=CONV, right=relu(**both))
    assert folded(net) == {"pool": (), "bn": (), "left": (), "right": ()}


def test_normalisation_through_a_concatenation_is_folded_into_its_parts() -> None:
    halves = CONV | {"kernels": 2}
    net = network(
        left=halves,
        right=halves | {"inputs": ["input"]},
        both=table("concat", inputs=["left", "right"]),
        bn=norm(),
    )
    assert folded(net) == {"left": ("bn", "both"), "right": ("bn", "both")}


def test_padding_becomes_the_convolutions() -> None:
    pad = table("pad", padding=[0, 1, 0, 1])
    net = network(pad=pad, conv={**CONV3, "input": [4, 9, 9], "stride": [2, 2], "padding": [1, 0, 1, 0]})
    assert folded(net) == {"conv": ("pad",)}
    (conv,) = coarse(net).convolutions
    assert (conv.input, conv.padding, conv.output) == ((4, 8, 8), (1, 1, 1, 1), (4, 4, 4))


@pytest.mark.parametrize(
    "reader",
    [
        CONV | {"input": [4, 9, 9]},  # outputs of padding alone
        table("pool", kernel=[2, 2]) | {"input": [4, 9, 9]},  # zeros may be larger than all values
        CONV | {"input": [8, 9, 9], "inputs": ["pad", "other"]},
    ],
)
def test_padding_that_stays(reader: dict[str, Any]) -> None:
    net = network(
        other=CONV | {"kernel": [2, 2], "padding": [1, 1, 1, 1]},
        pad=table("pad", padding=[0, 1, 0, 1], inputs=["input"]),
        reader=reader,
    )
    assert folded(net) == {"other": (), "pad": (), "reader": ()}


# Point-wise fusion -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "producer",
    [table("pool", kernel=[1, 1]), ADD | {"inputs": ["input", "input"]}, table("map", op="lrn"), norm()],
)
def test_an_activation_becomes_part_of_whatever_computes(producer: dict[str, Any]) -> None:
    assert folded(network(producer=producer, relu=relu())) == {"producer": ("relu",)}


def test_nothing_is_fused_with_what_is_not_understood() -> None:
    net = network(strange=table("opaque", op="Strange", output=[4, 8, 8]), relu=relu(), conv=CONV)
    assert folded(net) == {"strange": (), "relu": (), "conv": ()}


def test_an_activation_of_the_input_stays() -> None:
    assert folded(network(relu=relu(), conv=CONV)) == {"relu": (), "conv": ()}


@pytest.mark.parametrize("order", [["x", "gate"], ["gate", "x"]])
def test_a_product_of_functions_of_one_value_is_an_activation(order: list[str]) -> None:
    """Such as x * sigmoid(x), or hard swish written out."""
    net = network(
        x=CONV,
        three=norm("bias", 0),
        gate=table("map", op="clip"),
        product=MUL | {"inputs": order},
        sixth=norm("scale", 0),
    )
    assert folded(net) == {"x": ("three", "gate", "product", "sixth")}


def test_a_gate_that_sees_other_values_stays() -> None:
    """Squeeze and excitation: all pixels decide on one."""
    pool = table("pool", op="average", kernel=[8, 8])
    gate = table("map", op="sigmoid", input=[4, 1, 1])
    net = network(x=CONV, pool=pool, gate=gate, product=MUL | {"inputs": ["x", "gate"]})
    assert folded(net) == {"x": (), "pool": ("gate",), "product": ()}


def test_functions_of_single_values_go_before_whatever_moves_them() -> None:
    flat = table("reshape", op="flatten", output=[256, 1, 1])
    net = network(
        conv=CONV, flat=flat, relu=relu(input=[256, 1, 1]), fc={"kind": "fc", "inputs": 256, "outputs": 9}
    )
    assert folded(net) == {"conv": ("relu", "flat"), "fc": ()}
    same = table("reshape", op="transpose", output=[4, 8, 8])
    assert folded(network(conv=CONV, same=same, bn=norm())) == {"conv": (), "same": (), "bn": ()}


def test_an_activation_ends_what_a_later_convolution_can_take_over() -> None:
    net = network(
        pool=table("pool", kernel=[1, 1]), bn=norm(), relu=relu(), conv=CONV3 | {"padding": [0] * 4}
    )
    assert folded(net) == {"pool": (), "bn": ("relu",), "conv": ()}
    assert [getattr(layer, "op", "") for layer in coarse(net).layers] == ["max", "fused", ""]
    assert folded(network(conv=CONV, relu=relu(), bn=norm())) == {"conv": ("relu",), "bn": ()}


def test_outputs_that_others_read_too_stay() -> None:
    same = table("map", op="identity")
    assert folded(network(conv=CONV, same=same, relu=relu(inputs=["conv"]))) == {
        "conv": (),
        "same": (),
        "relu": (),
    }
    assert folded(network(conv=CONV, same=same)) == {"conv": ("same",)}


def test_a_parameter_for_each_channel_is_no_function_of_the_value() -> None:
    net = network(pool=table("pool", kernel=[1, 1]), bn=norm(parameters=0), relu=relu())
    assert folded(net) == {"pool": (), "bn": ("relu",)}


# Pruning -----------------------------------------------------------------------------------------


def test_readers_of_a_concatenation_read_its_parts() -> None:
    net = network(
        left=CONV,
        right=CONV | {"inputs": ["input"]},
        both=table("concat", input=[8, 8, 8], inputs=["left", "right"]),
        third=CONV | {"inputs": ["input"]},
        all=table("concat", input=[12, 8, 8], inputs=["both", "third"]),
        conv=CONV | {"input": [12, 8, 8]},
        pool=table("pool", input=[8, 8, 8], kernel=[2, 2], inputs=["both"]),
    )
    assert folded(net) == {
        "left": ("both", "all"),
        "right": ("both", "all"),
        "third": ("all",),
        "conv": (),
        "pool": (),
    }
    assert coarse(net).layers[3].inputs == ("left", "right", "third")
    assert coarse(net).layers[4].inputs == ("left", "right")


@pytest.mark.parametrize(
    "reader",
    [
        {"kind": "add", "input": [8, 8, 8], "inputs": ["both", "both"]},
        {"kind": "opaque", "op": "Resize", "input": [8, 8, 8], "output": [8, 16, 16]},
        CONV | {"input": [12, 8, 8], "inputs": ["both", "left"]},
    ],
)
def test_a_concatenation_stays_for_readers_of_one_piece(reader: dict[str, Any]) -> None:
    both = table("concat", input=[8, 8, 8], inputs=["left", "right"])
    net = network(left=CONV, right=CONV, both=both, reader=reader)
    assert folded(net) == {"left": (), "right": (), "both": (), "reader": ()}


def test_flattening_is_free_before_a_fully_connected_layer() -> None:
    flat = table("reshape", op="flatten", output=[256, 1, 1])
    fc = {"kind": "fc", "inputs": 256, "outputs": 10}
    assert folded(network(conv=CONV, flat=flat, fc=fc)) == {"conv": ("flat",), "fc": ()}
    net = network(conv=CONV, flat=flat, soft={"kind": "map", "op": "softmax", "input": [256, 1, 1]})
    assert folded(net) == {"conv": (), "flat": (), "soft": ()}
    assert folded(network(flat=flat, fc=fc)) == {"fc": ()}  # the input is stored like that
    assert folded(network(conv=CONV, flat=flat)) == {"conv": ("flat",)}


def test_a_channel_shuffle_is_free_unless_others_read_the_values_unshuffled() -> None:
    shuffle = {
        "apart": table("reshape", output=[4, 8, 8]),
        "swap": table("reshape", op="transpose", output=[4, 8, 8]),
        "together": table("reshape", output=[4, 8, 8]),
    }
    assert folded(network(conv=CONV, **shuffle, next=CONV)) == {
        "conv": ("apart", "swap", "together"),
        "next": (),
    }
    net = network(conv=CONV, **shuffle, next=ADD | {"inputs": ["conv", "together"]})
    assert folded(net) == {"conv": ("apart",), "swap": ("together",), "next": ()}


def test_a_network_of_nothing_keeps_a_layer() -> None:
    assert folded(network(same=table("map", op="identity"))) == {"same": ()}
    assert folded(network(both=table("concat"))) == {"both": ()}
    assert folded(network(same=table("map", op="identity"), conv=CONV)) == {"conv": ()}


def test_what_reads_nothing_twice_goes_on_so() -> None:
    net = network(
        conv=CONV,
        same=table("map", op="identity"),
        next=CONV | {"input": [8, 8, 8], "inputs": ["conv", "same"]},
    )
    assert folded(net) == {"conv": (), "same": (), "next": ()}


def test_long_chains_of_concatenations_are_no_recursion() -> None:
    layers: dict[str, dict[str, Any]] = {"conv": CONV}
    layers |= {f"concat{number}": table("concat") for number in range(2000)}
    assert list(folded(network(**layers, relu=relu()))) == ["conv"]


# Networks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in catalogue.instances("networks")))
def test_bundled_networks_are_coarse_already_or_become_so(name: str) -> None:
    net = Network.model_validate(catalogue.shared("networks", name))
    kinds = {layer.kind for layer in coarse(net).layers}
    assert kinds <= {"conv", "fc", "pool", "add", "map", "mul"}
    if not any(layer.kind == "map" for layer in net.layers):
        assert coarse(net) == net
    folded(net)


# DNNVM paper, table 2: nodes; giga-operations as milliseconds times GOPs/s; and operations of ours.
TABLE2 = {
    "vgg16-caffe": (32, 94.312 * 325.5, 15_346_630_656),
    "resnet50-caffe": (120, 39.408 * 195.4, 3_855_925_248),
    "resnet152": (358, 105.887 * 212.5, 11_280_367_616),
    "googlenet": (137, 17.312 * 183.1, 1_581_647_872),
}


@pytest.mark.parametrize("net", [vgg16(), resnet(50), resnet(152), googlenet()], ids=lambda net: net.name)
def test_node_counts_of_table_2(net: Network) -> None:
    """The paper counts the input and what runs on its accelerator, before activations are fused.

    The first fully connected or average pooling layer ends that part; normalisation over channels is not
    counted.
    """
    nodes, operations, macs = TABLE2[net.name]
    graph = stages(net)[1].graph
    layers = [op.spec for op in graph.ops]
    end = next(
        place
        for place, layer in enumerate(layers)
        if layer.kind == "fc" or getattr(layer, "op", "") == "average"
    )
    counted = Counter(getattr(layer, "op", layer.kind) for layer in layers[:end])
    counted.pop("lrn", None)
    assert set(counted) <= {"conv", "relu", "max", "add", "concat"}
    assert 1 + counted.total() == nodes
    assert sum(layer.macs for layer in net.convolutions if layer.kind == "conv") == macs
    assert abs(2 * macs / 1e6 / operations - 1) < 0.005


# Trained numbers as the networks' papers or model pages give them, without a bias of ResNet-50's first layer.
PARAMETERS = {
    "vgg16-caffe": 138_357_544,
    "resnet50-caffe": 25_557_032,
    "resnet152": 60_192_808,
    "googlenet": 6_998_552,
}


@pytest.mark.parametrize("net", [vgg16(), resnet(50), resnet(152), googlenet()], ids=lambda net: net.name)
def test_parameters_and_nodes(net: Network) -> None:
    assert net.parameters == PARAMETERS[net.name]
    counts = [(len(graph.reads), graph.reads.number_of_edges()) for _, graph in stages(net)]
    assert (
        counts
        == {
            "vgg16-caffe": [(40, 39), (40, 39), (23, 22), (23, 22)],
            "resnet50-caffe": [(229, 244), (123, 138), (74, 89), (74, 89)],
            "resnet152": [(671, 720), (361, 410), (210, 259), (210, 259)],
            "googlenet": [(143, 169), (143, 169), (85, 111), (76, 156)],
        }[net.name]
    )


@pytest.mark.parametrize("net", list(bundled()), ids=lambda net: net.name)
def test_bundled_files_are_as_generated(net: Network) -> None:
    ((name, text),) = network_file(net).items()
    assert Path(BUNDLED / name).read_text(encoding="utf-8") == text


# Any network -------------------------------------------------------------------------------------

PIECES: list[dict[str, Any]] = [
    CONV,
    CONV3,
    table("pool", kernel=[1, 1]),
    relu(),
    norm(),
    norm("scale", 0),
    norm("bias", 0),
    table("map", op="identity"),
    table("map", op="lrn"),
    table("reshape", op="transpose", output=[4, 8, 8]),
    table("reshape", output=[4, 8, 8]),
    table("pad", padding=[0, 2, 1, 1]),
    table("opaque", op="Strange", output=[4, 8, 8]),
    ADD,
    MUL,
]


@st.composite
def networks(draw: st.DrawFn, kinds: Sequence[str] | None = None) -> Network:
    """Draw a network of layers that keep the shape, and concatenations with convolutions that undo them."""
    pieces = [piece for piece in PIECES if kinds is None or piece["kind"] in kinds]
    layers: dict[str, dict[str, Any]] = {}
    for place in range(draw(st.integers(1, 12))):
        earlier = st.sampled_from(["input", *(name for name in layers if name.startswith("layer"))])
        piece = draw(st.sampled_from(pieces))
        reads = draw(st.lists(earlier, min_size=1, max_size=2, unique=True))
        if piece["kind"] in ("add", "mul"):
            reads = (reads * 2)[:2]
        elif len(reads) == 2:
            layers[f"both{place}"] = table("concat", input=[8, 8, 8], inputs=reads)
            reads = [f"both{place}"]
            layers |= {f"relu{place}": relu(input=[8, 8, 8], inputs=reads)} if draw(st.booleans()) else {}
            piece, reads = CONV | {"input": [8, 8, 8]}, [list(layers)[-1]]
        elif piece["kind"] == "pad":
            layers[f"pad{place}"] = piece | {"inputs": reads}
            piece, reads = CONV | {"input": [4, 10, 10], "kernel": [3, 3]}, [f"pad{place}"]
        layers[f"layer{place}"] = piece | {"inputs": reads}
    return network(**layers)


@given(networks())
def test_any_network_keeps_its_work_shapes_and_outputs(net: Network) -> None:
    once = coarse(net)
    for fused in (once, coarse(once)):
        fused.check_shapes()
        assert fused.macs == net.macs
        assert sum(not readers for readers in fused.consumers) >= sum(
            not readers for readers in net.consumers
        )
    sizes = [len(stage.graph.ops) for stage in stages(net)]
    assert sizes == sorted(sizes, reverse=True)
    for stage in stages(net):
        found = {layer.name for op in stage.graph.ops for layer in (op.spec, *op.folded)}
        lost = [layer for layer in net.layers if layer.name not in found]
        # What only moves the network's input has no operation to become part of.
        assert all(
            layer.kind in ("concat", "reshape") or getattr(layer, "op", "") == "identity" for layer in lost
        )


Values = NDArray[np.float64]


def some(name: str, *shape: int) -> Values:
    """Return numbers that depend on a name alone."""
    return np.random.default_rng(crc32(name.encode())).normal(size=shape)


def computed(layer: AnyLayer, values: Values) -> Values:
    """Compute a layer of one input with some weights."""
    if layer.kind == "conv":
        (top, bottom, left, right), (rows, columns) = layer.padding, layer.kernel
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(values, ((0, 0), (top, bottom), (left, right))), (rows, columns), axis=(1, 2)
        )
        return np.einsum(
            "okab,khwab->ohw", some(layer.name, layer.kernels, len(values), rows, columns), windows
        )
    if layer.kind == "pad":
        top, bottom, left, right = layer.padding
        return np.pad(values, ((0, 0), (top, bottom), (left, right)))
    factor, term = some(layer.name, 2)
    functions = {
        "relu": lambda: np.maximum(values, 0),
        "batch_norm": lambda: factor * values + term,
        "scale": lambda: factor * values,
        "bias": lambda: values + term,
        "lrn": lambda: values / (1 + (values**2).sum(axis=0)),
    }
    return functions.get(getattr(layer, "op", ""), lambda: values)()


def outputs(graph: NetworkGraph, place: dict[str, int]) -> list[float]:
    """Compute a network's outputs; what was folded is done before or after a layer, as in the network."""
    values = {OWN: some("input", 4, 8, 8)}
    for op in graph.ops:
        found = np.concatenate([values[producer] for producer in op.producers])
        raw = {layer.name: layer for layer in (*op.folded, op.spec)}
        for each in sorted(raw, key=place.__getitem__):
            # Padding is the convolution's by now.
            found = found if raw[each].kind == "pad" and each != op.name else computed(raw[each], found)
        values[op.number] = found
    return sorted(float(values[op.number].sum()) for op in graph.ops if op.leaves)


@given(networks(["conv", "map", "pool", "pad"]))
def test_fusion_changes_no_value(net: Network) -> None:
    place = {layer.name: place for place, layer in enumerate(net.layers)}
    raw, *fused = (outputs(graph, place) for _, graph in stages(net))
    for found in fused:
        # The parts of a concatenation become outputs in its place.
        assert np.allclose(found, raw) if len(found) == len(raw) else np.isclose(sum(found), sum(raw))


# Inputs ------------------------------------------------------------------------------------------


TURNED = table("reshape", op="transpose", input=[8, 8, 4], output=[4, 8, 8])


def test_a_reshape_that_alone_reads_the_input_is_the_order_in_which_it_is_stored() -> None:
    net = network(turned=TURNED, conv=CONV)
    assert folded(net) == {"conv": ()}
    assert coarse(net).layers[0].input == (4, 8, 8)
    flat = table("reshape", op="reshape", input=[256, 1, 1], output=[4, 8, 8])
    assert folded(network(flat=flat, turned=table("reshape", output=[4, 8, 8]), conv=CONV)) == {"conv": ()}
    other = table("opaque", op="Shape", input=[8, 8, 4], output=[1, 1, 1], inputs=["input"])
    assert folded(network(turned=TURNED, conv=CONV, other=other)) == {"turned": (), "conv": (), "other": ()}
    assert folded(network(turned=TURNED)) == {"turned": ()}


def test_so_it_is_with_a_further_input() -> None:
    net = network(
        conv=CONV,
        z={"kind": "input", "input": [8, 8, 4]},
        turned=TURNED | {"inputs": ["z"]},
        right=CONV,
        sum=ADD | {"inputs": ["conv", "right"]},
    )
    assert folded(net) == {"conv": (), "z": ("turned",), "right": (), "sum": ()}
    assert coarse(net).layers[1].input == (4, 8, 8)


def test_the_first_layer_reads_the_networks_own_input() -> None:
    net = network(
        turned=TURNED,
        z={"kind": "input", "input": [4, 8, 8]},
        right=CONV | {"inputs": ["z"]},
        conv=CONV | {"inputs": ["turned"]},
        sum=ADD | {"inputs": ["conv", "right"]},
    )
    assert [layer.name for layer in coarse(net).layers] == ["conv", "z", "right", "sum"]


def test_a_move_becomes_free_once_what_follows_it_is() -> None:
    flat = table("reshape", op="flatten", input=[8, 8, 4], output=[256, 1, 1])
    turned = table("reshape", op="transpose", output=[8, 8, 4])
    fc = {"kind": "fc", "inputs": 256, "outputs": 10}
    assert folded(network(conv=CONV, turned=turned, flat=flat, fc=fc)) == {
        "conv": ("turned", "flat"),
        "fc": (),
    }


def test_reshapes_in_a_row_are_one() -> None:
    there = table("reshape", output=[16, 4, 4])
    back = table("reshape", input=[16, 4, 4], output=[4, 8, 8])
    pool = table("pool", kernel=[1, 1])
    assert folded(network(pool=pool, there=there, back=back, conv=CONV)) == {
        "pool": ("back", "there"),
        "conv": (),
    }
    turned = table("reshape", op="transpose", input=[16, 4, 4], output=[4, 4, 16])
    kept = network(pool=pool, there=there, turned=turned, lrn=table("map", op="lrn", input=[4, 4, 16]))
    assert [layer.name for layer in coarse(kept).layers] == ["pool", "there", "turned", "lrn"]


def test_weights_of_several_layers_part_when_something_is_folded_into_one() -> None:
    shared = CONV | {"weights": "conv", "inputs": ["input"]}
    net = network(conv=CONV, other=shared)
    assert (coarse(net).parameters, coarse(net)) == (net.parameters, net)
    net = network(conv=CONV, other=shared, bn=norm())
    assert coarse(net).convolutions[1].parameters == net.convolutions[0].parameters + 4
    assert coarse(net).parameters == 2 * net.convolutions[0].parameters + 4


def test_an_output_that_is_read_inside_leaves_as_it_is() -> None:
    """What follows an output is not folded into it, and what is an output is not folded into what follows."""
    layers = {"c1": CONV, "r1": relu(), "n2": norm(), "c2": CONV, "m3": MUL | {"inputs": ["c2", "c2"]}}
    both = network(**layers).with_(outputs=("c1", "n2", "m3"))
    assert [layer.name for layer in coarse(both).layers] == ["c1", "r1", "n2", "c2"]
    assert coarse(both).outputs == ("c1", "n2", "c2")
    assert [both.layers[place].name for place in both.results] == ["c1", "n2", "m3"]
    assert [layer.name for layer in coarse(network(**layers)).layers] == ["c1", "c2"]
    assert coarse(network(**layers)).outputs is None


def test_an_output_that_is_folded_is_an_output_of_what_computes_it() -> None:
    layers = {"c1": CONV, "r1": relu(), "c2": CONV}
    found = coarse(network(**layers).with_(outputs=("r1", "c2")))
    assert [layer.name for layer in found.layers] == ["c1", "c2"]
    assert found.outputs == ("c1", "c2")
    assert coarse(found) == found


@pytest.mark.parametrize(
    ("outputs", "limit"),
    [
        (["c3"], "'c3'.* layer"),
        (["c2", "c2"], "stands twice"),
        (["c1"], "layer c2 "),
    ],
)
def test_outputs_that_cannot_be_are_refused(outputs: list[str], limit: str) -> None:
    with pytest.raises(InputError, match=limit) as refused:
        network(c1=CONV, c2=CONV).with_(outputs=tuple(outputs))
    assert "network.outputs" in refused.value.field or refused.value.field == "outputs"
