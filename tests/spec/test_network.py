"""Networks as graphs: what layers read, what they take, and what is refused, by name."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from conftest import tells

from tilewright.core import catalogue
from tilewright.run.instance import parse
from tilewright.spec.coarsening import coarse
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, MatMul, NamedLayer, Network, Pool
from tilewright.tiling import Problem

LAYERS: list[dict[str, Any]] = [
    {"name": "conv", "input": [3, 12, 12], "kernels": 8, "kernel": [3, 3]},
    {"name": "pool", "kind": "pool", "input": [8, 10, 10], "kernel": [2, 2], "stride": [2, 2]},
    {"name": "left", "input": [8, 5, 5], "kernels": 6, "kernel": [1, 1]},
    {
        "name": "right",
        "inputs": ["pool"],
        "input": [8, 5, 5],
        "kernels": 2,
        "kernel": [3, 3],
        "padding": [1, 1, 1, 1],
    },
    {"name": "sum", "kind": "add", "inputs": ["pool", "pool"], "input": [8, 5, 5]},
    {"name": "all", "inputs": ["left", "right", "sum"], "input": [16, 5, 5], "kernels": 4, "kernel": [1, 1]},
    {"name": "fc", "kind": "fc", "inputs": 100, "outputs": 10},
]
MACHINE = {"kind": "dsp", "memory_bytes": 65536}
BUNDLED = sorted(path.stem for path in catalogue.instances("networks"))

# What the bundled networks' convolutions and fully connected layers add up to: layers, MACs, weights.
TOTALS = {
    "alexnet": (8, 720_728_608, 57_276_448),
    "ds-cnn": (10, 2_656_768, 22_016),
    "googlenet": (58, 1_582_671_872, 6_990_272),
    "inceptionv3": (95, 5_713_218_144, 23_801_184),
    "lenet": (5, 416_520, 61_470),
    "lenet5-clone": (4, 12_273_152, 1_662_752),
    "lenet5-128": (4, 11_065_088, 454_688),
    "light_resnet50": (54, 4_089_184_256, 25_502_912),
    "mb28": (6, 17_160_192, 21_888),
    "mbconv": (5, 8_582_400, 13_248),
    "mbv2-w035-r144": (53, 18_909_490, 280_140),
    "mn2-vww5": (45, 11_578_496, 420_200),
    "mnist-tcpa": (4, 1_362_592, 16_696),
    "mobilenetv2": (53, 300_775_552, 3_471_040),
    "resnet152": (156, 11_282_415_616, 60_040_384),
    "resnet18": (21, 1_814_073_344, 11_678_912),
    "resnet50": (54, 3_482_255_360, 25_502_912),
    "resnet8": (10, 12_501_632, 77_360),
    "resnet50-caffe": (54, 3_857_973_248, 25_502_912),
    "squeezenet": (26, 832_667_936, 1_244_448),
    "vww": (28, 7_489_664, 208_112),
    "vgg16": (16, 15_470_264_320, 138_344_128),
    "vgg16-caffe": (16, 15_470_264_320, 138_344_128),
}


def network(*layers: dict[str, Any]) -> Network:
    return Network.model_validate({"layers": list(layers or LAYERS)})


def changed(index: int, **changes: Any) -> list[dict[str, Any]]:
    """Return the layers with some keys of one of them replaced; None removes a key."""
    layers = deepcopy(LAYERS)
    table = layers[index] | changes
    layers[index] = {key: value for key, value in table.items() if value is not None}
    return layers


def refused(build: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        build()
    return caught.value


def instance(layers: object) -> Problem:
    problem = parse({"room": "tiling", "network": {"layers": layers}, "machine": MACHINE}).problem
    assert isinstance(problem, Problem)
    return problem


# Graphs that are good ----------------------------------------------------------------------------


def test_a_graph() -> None:
    graph = network()
    graph.check_shapes()
    assert [type(layer) for layer in graph.layers] == [
        NamedLayer,
        Pool,
        *[NamedLayer] * 2,
        Add,
        *[NamedLayer] * 2,
    ]
    assert graph.producers == ((-1,), (0,), (1,), (1,), (1, 1), (2, 3, 4), (5,))
    assert graph.consumers == ((1,), (2, 3, 4), (5,), (5,), (5,), (6,), ())
    assert [layer.name for layer in graph.convolutions] == ["conv", "left", "right", "all", "fc"]
    assert [layer.output for layer in graph.layers[:3]] == [(8, 10, 10), (8, 5, 5), (6, 5, 5)]
    assert [layer.output_channels for layer in graph.layers] == [8, 8, 6, 2, 8, 4, 10]


def test_a_layer_reads_the_one_before_unless_it_says_otherwise() -> None:
    one = {"input": [3, 6, 6], "kernels": 3, "kernel": [1, 1]}
    graph = network(
        {"name": "a", **one},
        {"name": "b", **one},
        {"name": "c", "inputs": ["input"], **one},
        {"name": "d", "kind": "add", "inputs": ["c", "input", "a"], "input": [3, 6, 6]},
    )
    graph.check_shapes()
    assert graph.producers == ((-1,), (0,), (-1,), (2, -1, 0))
    assert graph.consumers == ((1, 3), (), (3,), ())


def test_a_pool_has_the_geometry_of_a_convolution() -> None:
    geometry = {"input": [5, 17, 20], "kernel": [3, 4], "stride": [2, 3], "padding": [1, 0, 2, 1]}
    pool = Pool.model_validate({"name": "pool", "kind": "pool", **geometry})
    layer = Layer.model_validate({"kernels": 1, **geometry})
    assert pool.op == "max"
    assert pool.output == (5, *layer.output_plane)
    for columns in (False, True):
        assert (pool.positions(columns) == layer.positions(columns)).all()


def test_an_addition_keeps_the_shape() -> None:
    add = Add(name="sum", kind="add", inputs=("a", "b"), input=(5, 17, 20))
    assert (add.kernel, add.stride, add.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    assert (add.output, add.padded_plane) == ((5, 17, 20), (17, 20))


def test_networks_survive_json() -> None:
    assert Network.model_validate_json(network().model_dump_json()) == network()


def test_a_fully_connected_layer_may_read_several() -> None:
    """Its `inputs` is a number; as a convolution of one position it can name layers."""
    form = {"input": [32, 1, 1], "kernels": 10, "kernel": [1, 1]}
    graph = network(
        {"name": "conv", "input": [3, 2, 2], "kernels": 5, "kernel": [1, 1]},
        {"name": "left", "kind": "fc", "inputs": 20, "outputs": 12},
        {"name": "fc", "kind": "fc", "inputs": ["left", "conv"], **form},
    )
    graph.check_shapes()
    assert graph.producers[2] == (1, 0)
    assert graph.convolutions[2].unnamed(4) == Layer.model_validate({"kind": "fc", "batch": 4, **form})


def test_a_product_broadcasts_a_pixel() -> None:
    graph = network(
        {"name": "pool", "kind": "pool", "op": "average", "input": [300, 70, 70], "kernel": [70, 70]},
        {"name": "gate", "kind": "map", "op": "sigmoid", "input": [300, 1, 1]},
        {"name": "product", "kind": "mul", "inputs": ["input", "gate"], "input": [300, 70, 70]},
    )
    graph.check_shapes()
    assert [layer.output for layer in graph.layers] == [(300, 1, 1), (300, 1, 1), (300, 70, 70)]


def test_what_moves_values() -> None:
    depth = {"kind": "reshape", "op": "space_to_depth", "input": [3, 10, 16], "output": [12, 5, 8]}
    graph = network(
        {"name": "pad", "kind": "pad", "input": [3, 8, 9], "padding": [1, 1, 3, 4]},
        {"name": "depth", **depth},
        {"name": "strange", "kind": "opaque", "op": "Strange", "input": [12, 5, 8], "output": [7, 5, 8]},
        {"name": "both", "kind": "concat", "inputs": ["depth", "strange"], "input": [19, 5, 8]},
    )
    graph.check_shapes()
    assert [layer.output for layer in graph.layers] == [(3, 10, 16), (12, 5, 8), (7, 5, 8), (19, 5, 8)]
    error = refused(lambda: network({"name": "depth", **depth, "output": [12, 5, 9]}))
    assert (error.field, error.value) == ("layer.output", [12, 5, 9])
    assert tells(error.limit, "layer depth .. 480")


def test_parameters_are_weights_biases_and_those_of_maps() -> None:
    graph = network(
        {"name": "conv", "input": [4, 5, 5], "kernels": 6, "kernel": [3, 3], "groups": 2, "bias": True},
        {"name": "bn", "kind": "map", "op": "batch_norm", "parameters": 12, "input": [6, 3, 3]},
        {"name": "fc", "kind": "fc", "inputs": 54, "outputs": 10},
    )
    assert [layer.parameters for layer in graph.convolutions] == [6 * 2 * 9 + 6, 540]
    assert graph.parameters == 6 * 2 * 9 + 6 + 12 + 540
    assert graph.macs == 9 * 6 * 2 * 9 + 540
    assert "bias" not in graph.convolutions[0].unnamed().model_dump()


def test_layers_need_no_names_and_no_shapes_that_follow() -> None:
    """Shapes are those of what is read; the fully connected layer takes 4 channels of 5x5, 100 values."""
    keep = ("name", "inputs", "kind", "kernels", "kernel", "stride", "padding", "outputs")
    tables = [{key: layer[key] for key in keep if key in layer} for layer in LAYERS]
    del tables[-1]["inputs"]
    assert Network.model_validate({"layers": tables, "input": (3, 12, 12)}).layers == network().layers
    tables[0]["input"] = [3, 12, 12]
    assert network(*tables) == network()
    unnamed = Network(layers=[Layer(input=(3, 8, 8), kernels=4, kernel=3), {"kernels": 2, "kernel": 1}])
    assert [layer.name for layer in unnamed.layers] == ["layer1", "layer2"]
    assert [layer.output for layer in unnamed.layers] == [(4, 6, 6), (2, 6, 6)]


@pytest.mark.parametrize(
    ("table", "read", "shape"),
    [
        ({"kernels": 2, "kernel": 1}, ["a", "b"], (8, 4, 5)),  # channels are joined
        ({"kind": "fc", "outputs": 2}, ["a", "pixel"], (66, 1, 1)),  # 3 * 4 * 5 + 6 values
        ({"kind": "fc", "kernels": 2}, None, (6, 1, 1)),
        ({"kind": "pool", "kernel": 2}, ["b"], (5, 4, 5)),
        ({"kind": "concat"}, ["b", "a"], (8, 4, 5)),
        ({"kind": "map", "op": "relu"}, ["a"], (3, 4, 5)),
        ({"kind": "pad", "padding": 1}, ["a"], (3, 4, 5)),
        ({"kind": "slice", "first": [1, 0, 0], "output": [2, 4, 5]}, ["a"], (3, 4, 5)),
        ({"kind": "reshape", "op": "transpose", "output": [5, 4, 3]}, ["a"], (3, 4, 5)),
        ({"kind": "add"}, ["a", "input"], (3, 4, 5)),
        ({"kind": "mul"}, ["gate", "a"], (3, 4, 5)),  # one pixel multiplies all
        ({"kind": "matmul", "depth": 20, "output": [3, 1, 5]}, ["a", "b"], (3, 4, 5)),  # 3x20 by 20x5
        ({"kind": "function", "op": "f", "output": [1, 1, 1]}, ["b", "a"], (5, 4, 5)),
        ({"kind": "opaque", "op": "F", "output": [1, 1, 1]}, ["b", "a"], (5, 4, 5)),
    ],
)
def test_a_layer_without_a_shape_has_that_of_what_it_reads(
    table: dict[str, Any], read: list[str] | None, shape: tuple[int, int, int]
) -> None:
    layers = [
        {"name": "a", "kind": "map", "op": "relu", "input": [3, 4, 5]},
        {"name": "b", "kernels": 5, "kernel": 1},
        {"name": "gate", "kind": "pool", "kernel": [4, 5], "inputs": ["a"]},
        {"name": "pixel", "kernels": 6, "kernel": [4, 5], "inputs": ["b"]},
    ]
    graph = network(*layers, table if read is None else table | {"inputs": read})
    assert graph.layers[-1].input == shape
    graph.check_shapes()


def test_one_number_is_all_of_a_window() -> None:
    layer = Layer(input=(3, 9, 9), kernels=4, kernel=3, stride=2, padding=1, dilation=2)
    table = {"kernel": [3, 3], "stride": [2, 2], "padding": [1] * 4, "dilation": [2, 2]}
    assert layer == Layer.model_validate({"input": [3, 9, 9], "kernels": 4, **table})
    pool = {"name": "pool", "kind": "pool", "input": [3, 9, 9]}
    assert network(pool | {"kernel": 3, "stride": 2, "padding": 1}) == network(
        pool | {"kernel": [3, 3], "stride": [2, 2], "padding": [1] * 4}
    )
    pad = {"name": "pad", "kind": "pad", "input": [3, 9, 9]}
    assert network(pad | {"padding": 2}).layers[0].output == (3, 13, 13)


@pytest.mark.parametrize("field", ["kernel", "stride", "padding", "dilation"])
@pytest.mark.parametrize("value", [True, "3", 2.0, [2], None])
def test_other_values_are_no_windows(field: str, value: object) -> None:
    table = {"input": [3, 9, 9], "kernels": 4, "kernel": 3, field: value}
    assert refused(lambda: Layer.model_validate(table)).field == f"{field}"


# Graphs that are not -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "changes", "field", "value", "limit"),
    [
        (2, {"inputs": ["all"]}, "inputs", "all", "layer left .. earlier layers"),
        (2, {"inputs": ["left"]}, "inputs", "left", "layer left .. earlier layers"),
        (2, {"inputs": ["pol"]}, "inputs", "pol", 'layer left .. "input"'),
        (2, {"inputs": []}, "inputs", (), "layer left .. conv .. 1"),
        (2, {"inputs": ["pool", "pool"]}, "inputs", ("pool", "pool"), "layer left .. twice"),
        (2, {"inputs": "pool"}, "inputs", "pool", "must be a list"),
        (2, {"inputs": [3]}, "inputs[0]", 3, "must be a text"),
        (4, {"inputs": None}, "inputs", None, "layer sum .. add .. 2"),
        (4, {"inputs": ["pool"]}, "inputs", ("pool",), "layer sum .. add .. 2"),
        (
            4,
            {"kind": "mul", "inputs": ["pool"]},
            "inputs",
            ("pool",),
            "layer sum .. mul .. 2",
        ),
        (4, {"kind": "concat"}, "inputs", ("pool", "pool"), "layer sum .. twice"),
        (4, {"kind": "map", "op": "sine"}, "op", "sine", "'relu'"),
        (4, {"kind": "map", "op": "relu", "parameters": -1}, "parameters", -1, "0"),
        (4, {"kind": "pad"}, "padding", None, "is missing"),
        (4, {"kernel": [1, 1]}, "kernel", (1, 1), "unknown key .. name, inputs, kind, input"),
        (
            1,
            {"kernels": 8},
            "kernels",
            8,
            "unknown key .. name, inputs, kind, op, input, kernel",
        ),
        (
            2,
            {"op": "max"},
            "op",
            "max",
            "unknown key .. kernels, kernel, stride, padding",
        ),
        (1, {"op": "min"}, "op", "min", "'max' .. 'average'"),
        (1, {"kernel": None}, "kernel", None, "is missing"),
        (1, {"kernel": [0, 2]}, "kernel[0]", 0, "1"),
        (
            1,
            {"kind": "pol"},
            "kind",
            "pol",
            "conv, fc, pool, add, mul, concat, map",
        ),
        (1, {"kind": [1]}, "kind", [1], "conv .. fc .. pool .. add"),
        (1, {"name": "input"}, "name", "input", "the network's own input"),
        (1, {"name": 3}, "name", 3, "must be a text"),
    ],
)
def test_what_is_wrong_is_named(
    index: int, changes: dict[str, Any], field: str, value: object, limit: str
) -> None:
    error = refused(lambda: instance(changed(index, **changes)))
    assert error.field == f"network.layers[{index}].{field}"
    assert error.value == value
    assert tells(error.limit, limit)


@pytest.mark.parametrize(
    ("index", "changes", "field", "limit"),
    [
        (1, {"kernel": [11, 2]}, "kernel", "layer pool .. height .. 11 .. 10"),
        (1, {"padding": [0, 0, 2, 0]}, "padding", "layer pool .. width 2"),
        (4, {"input": [8, 3000, 3000]}, "input", "layer sum .. 4000000"),
        (2, {"groups": 5}, "groups", "layer left .. 8 .. 6"),
    ],
)
def test_a_geometry_that_is_none_names_its_layer(
    index: int, changes: dict[str, Any], field: str, limit: str
) -> None:
    error = refused(lambda: instance(changed(index, **changes)))
    assert error.field == f"layer.{field}"
    assert tells(error.limit, limit)


POINTWISE: dict[str, Any] = {"kernels": 2, "kernel": 1}


@pytest.mark.parametrize(
    ("tables", "own_input", "told"),
    [
        ([POINTWISE] * 2, None, "layers[0].input .. missing"),
        ([POINTWISE], [3, 4], "input = [3, 4] .. channels .. height .. width"),
        ([POINTWISE], "3x4x4", "input = '3x4x4' .. channels .. height .. width"),
        # What is behind a wrong layer is not told to lack what follows from it.
        ([{"kernels": 2}, POINTWISE], [3, 4, 4], "layers[0].kernel .. missing"),
        ([{"kernels": 2, "kernel": 5}, POINTWISE], [3, 4, 4], "kernel = [5, 5] .. height .. 5 .. 4"),
        ([POINTWISE | {"inputs": ["no"]}], [3, 4, 4], "inputs = 'no' .. layer layer1 .. earlier layers"),
        ([POINTWISE | {"inputs": []}], [3, 4, 4], "inputs = [] .. layer layer1 .. conv .. 1"),
        ([POINTWISE | {"inputs": "input"}], [3, 4, 4], "layers[0].inputs = 'input' .. list"),
        ([POINTWISE | {"inputs": [[]]}], [3, 4, 4], "layers[0].inputs[0] = [] .. text"),
        ([{"kind": "input"}], [3, 4, 4], "layers[0].input .. missing"),
        ([{"kind": "fc", "outputs": 2, "kernels": 2}], [3, 4, 4], "layers[0].outputs = 2 .. unknown key"),
        (
            [{"kind": "fc", "kernels": 2, "kernel": 3}],
            [3, 4, 4],
            "layer.kind = 'fc' .. layer layer1 .. one position",
        ),
        ([POINTWISE, POINTWISE | {"name": "layer1"}], [3, 4, 4], "layers = 'layer1' .. two layers"),
    ],
)
def test_shapes_that_cannot_be_told(tables: list[dict[str, Any]], own_input: object, told: str) -> None:
    given = {} if own_input is None else {"input": own_input}
    error = refused(lambda: Network.model_validate({"layers": tables, **given}))
    assert tells(error, told)
    assert "layers[1]" not in str(error)


@pytest.mark.parametrize("layers", [3, [], {"a": 1}, "file"])
def test_layers_that_are_none(layers: object) -> None:
    assert refused(lambda: instance(layers)).field == "network.layers"


@pytest.mark.parametrize("layer", [3, "conv", [1]])
def test_a_layer_that_is_none(layer: object) -> None:
    assert refused(lambda: instance([layer])).field.startswith("network.layers[0]")


def test_two_layers_of_one_name() -> None:
    error = refused(lambda: network(*changed(1, name="conv")))
    assert (error.field, error.value) == ("network.layers", "conv")


@pytest.mark.parametrize(
    ("index", "changes", "takes", "given"),
    [
        (1, {"input": [7, 10, 10]}, [7, 10, 10], "layer pool .. conv 8x10x10"),
        (1, {"input": [8, 10, 9]}, [8, 10, 9], "layer pool .. conv 8x10x10"),
        (2, {"inputs": ["input"]}, [8, 5, 5], "layer left .. input 3x12x12"),
        (4, {"inputs": ["pool", "left"]}, [8, 5, 5], "layer sum .. pool 8x5x5 .. left 6x5x5"),
        (4, {"kind": "mul", "inputs": ["pool", "left"]}, [8, 5, 5], "pool 8x5x5 .. left 6x5x5"),
        (4, {"kind": "map", "op": "relu", "inputs": ["left"]}, [8, 5, 5], "left 6x5x5"),
        (4, {"kind": "concat", "inputs": ["left"]}, [8, 5, 5], "left 6x5x5"),
        (4, {"kind": "pad", "padding": [1] * 4, "inputs": ["left"]}, [8, 5, 5], "left 6x5x5"),
        (4, {"kind": "reshape", "output": [1, 8, 25], "inputs": ["left"]}, [8, 5, 5], "left 6x5x5"),
        (4, {"kind": "opaque", "op": "A", "output": [1, 1, 1], "inputs": ["left"]}, [8, 5, 5], "left 6x5x5"),
        (5, {"inputs": ["left", "right"]}, [16, 5, 5], "left 6x5x5 .. right 2x5x5"),
        (5, {"inputs": ["conv", "pool"]}, [16, 5, 5], "conv 8x10x10 .. pool 8x5x5"),
        (6, {"inputs": 99}, [99, 1, 1], "layer fc .. all 4x5x5"),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    index: int, changes: dict[str, Any], takes: list[int], given: str
) -> None:
    graph = network(*changed(index, **changes))
    error = refused(graph.check_shapes)
    assert (error.field, error.value) == (f"network.layers[{index}].input", takes)
    assert tells(error.limit, given)


# Rooms and data ----------------------------------------------------------------------------------


def test_tiling_takes_convolutions_and_fully_connected_layers() -> None:
    assert [name for name, _ in instance(LAYERS).parts] == ["conv", "left", "right", "all", "fc"]
    error = refused(lambda: instance([LAYERS[1]]))
    assert (error.field, error.value) == ("network.layers", ["pool"])
    assert tells(error.limit, "no convolution .. no fully connected")


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_networks_are_graphs_with_one_output(name: str) -> None:
    graph = Network.model_validate(catalogue.shared("networks", name))
    graph.check_shapes()
    assert [readers for readers in graph.consumers if not readers] == [()]
    assert graph.consumers[-1] == ()
    convolutions = graph.convolutions
    macs = sum(layer.macs for layer in convolutions)
    weights = sum(layer.kernels * layer.macs_per_output for layer in convolutions)
    assert (len(convolutions), macs, weights) == TOTALS[name]


# Inputs, matrices, functions ---------------------------------------------------------------------


def test_a_product_of_two_matrices_of_the_image() -> None:
    graph = network(
        {"name": "q", "input": [6, 1, 5], "kernels": 6, "kernel": [1, 1]},
        {"name": "k", "input": [6, 1, 5], "kernels": 6, "kernel": [1, 1], "inputs": ["input"]},
        {"name": "p", "kind": "matmul", "inputs": ["q", "k"], "groups": 2, "depth": 3, "input": [6, 1, 5]}
        | {"output": [10, 1, 5]},
    )
    graph.check_shapes()
    product = graph.layers[2]
    assert isinstance(product, MatMul)
    assert (product.rows, product.columns, product.macs) == (5, 5, 2 * 5 * 3 * 5)
    layer = product.unnamed(3)
    assert (layer.macs, layer.input, layer.kernels, layer.groups) == (3 * product.macs, (18, 1, 5), 30, 6)
    assert graph.macs == 5 * 6 * 12 + product.macs
    assert [one.name for one in graph.convolutions] == ["q", "k", "p"]


@pytest.mark.parametrize(
    ("changes", "field", "limit"),
    [
        ({"depth": 4}, "layer.depth", "layer p .. 30 .. 2 groups"),
        ({"output": [9, 1, 5]}, "layer.output", "layer p .. 45 .. 2 groups"),
        ({"inputs": ["q"]}, "network.layers[1].inputs", "layer p .. matmul .. 2"),
        ({"inputs": ["q"] * 3}, "network.layers[1].inputs", "layer p .. matmul .. 2"),
    ],
)
def test_matrices_that_are_none(changes: dict[str, Any], field: str, limit: str) -> None:
    product = {"name": "p", "kind": "matmul", "inputs": ["q", "q"], "groups": 2, "depth": 3}
    product |= {"input": [6, 1, 5], "output": [10, 1, 5]}
    conv = {"name": "q", "input": [6, 1, 5], "kernels": 6, "kernel": [1, 1]}
    error = refused(lambda: network(conv, product | changes))
    assert error.field == field and tells(error.limit, limit)


def test_further_inputs() -> None:
    one = {"input": [3, 6, 6], "kernels": 3, "kernel": [1, 1]}
    further = {"name": "z", "kind": "input", "input": [2, 6, 6]}
    graph = network({"name": "a", **one}, further, {"name": "b", "kind": "concat", "input": [5, 6, 6]}
                    | {"inputs": ["a", "z"]})  # fmt: skip
    graph.check_shapes()
    assert graph.producers == ((-1,), (), (0, 1))
    assert tells(refused(lambda: network(further, {"name": "a", **one})), "network.input .. shape")
    error = refused(lambda: network({"name": "a", **one}, further | {"inputs": ["a"]}))
    assert error.limit == "layer z, of kind input, reads nothing"


def test_weights_that_two_layers_use_are_counted_once() -> None:
    one = {"input": [3, 6, 6], "kernels": 3, "kernel": [1, 1], "bias": True, "inputs": ["input"]}
    graph = network({"name": "a", **one}, {"name": "b", **one, "weights": "a"})
    assert (graph.parameters, graph.macs) == (12, 2 * 36 * 9)
    for changes in ({"weights": "c"}, {"weights": "a", "kernels": 4}):
        error = refused(
            lambda changes=changes: network({"name": "a", **one}, {"name": "b", **one, **changes})
        )
        assert tells(error, "layer b .. weights .. kernels of")


def test_functions_tell_their_work() -> None:
    norm = {"name": "norm", "kind": "function", "op": "layer_norm", "macs": 90, "parameters": 12}
    strange = {"name": "gru", "kind": "opaque", "op": "GRU", "macs": 7, "parameters": 5}
    graph = network(norm | {"input": [6, 1, 5], "output": [6, 1, 5]}, strange
                    | {"input": [6, 1, 5], "output": [9, 1, 5]})  # fmt: skip
    graph.check_shapes()
    assert (graph.macs, graph.parameters) == (97, 17)


def test_a_further_input_may_be_read_first_where_the_shape_of_the_networks_own_is_told() -> None:
    shape = (2, 4, 4)
    layers = [
        {"name": "other", "kind": "input", "input": shape},
        {"name": "sum", "kind": "add", "input": shape, "inputs": ["input", "other"]},
        {"name": "conv", "kind": "conv", "input": shape, "kernels": 3, "kernel": [3, 3]},
    ]
    with pytest.raises(InputError, match=r"network\.input .* shape"):
        Network.model_validate({"layers": layers})
    found = Network.model_validate({"layers": layers, "input": shape})
    found.check_shapes()
    assert found.own_input == shape
    assert coarse(coarse(found)) == coarse(found)
    assert coarse(found).own_input == shape
    with pytest.raises(InputError, match=r"layer sum .* input 2x4x5"):
        Network.model_validate({"layers": layers, "input": (2, 4, 5)}).check_shapes()
