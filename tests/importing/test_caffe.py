"""Caffe's prototxt: published counts, its rules against a second statement of them, errors, weights."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import caffe_networks
import numpy as np
import onnx
import pytest
from caffe_at_random import network as network_at_random
from conftest import Run, examples
from tests.oracles import caffe_layers

from tilewright import importing
from tilewright.importing import caffe
from tilewright.importing.training import read_trained
from tilewright.run.instance import NETWORK_SUFFIXES, load
from tilewright.spec.coarsening import coarse
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

LENET = Path(__file__).parents[2] / "docs" / "files" / "lenet.prototxt"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
BUNDLED = Path(__file__).parents[2] / "instances" / "networks"

NETWORKS = {
    "alexnet": caffe_networks.alexnet(),
    "googlenet": caffe_networks.googlenet(),
    "lenet": LENET.read_text(),
    "resnet50": caffe_networks.resnet50(),
    "squeezenet1.0": caffe_networks.squeezenet(newer=False),
    "squeezenet1.1": caffe_networks.squeezenet(newer=True),
    "vgg16": caffe_networks.vgg((2, 2, 3, 3, 3)),
    "vgg19": caffe_networks.vgg((2, 2, 4, 4, 4)),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.prototxt"


def imported(file: Path, text: str, **options: Any) -> Network:
    file.write_text(text)
    return importing.network(file, **options)


# Networks that are known ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "macs", "parameters"),
    [
        ("alexnet", 724_406_816, 60_965_224),
        ("googlenet", 1_582_671_872, 6_998_552),
        ("lenet", 2_293_000, 431_080),
        ("resnet50", 3_857_973_248, 25_557_032),
        ("squeezenet1.0", 832_667_936, 1_248_424),
        ("squeezenet1.1", 387_747_520, 1_235_496),
        ("vgg16", 15_470_264_320, 138_357_544),
        ("vgg19", 19_632_062_464, 143_667_240),
    ],
)
def test_counts_are_those_that_are_published(file: Path, name: str, macs: int, parameters: int) -> None:
    found = imported(file, NETWORKS[name])
    batch = found.layers[0].batch
    assert (found.macs, found.parameters) == (batch * macs, parameters)


def geometry(network: Network) -> Counter[Any]:
    """Count the convolutions, fully connected layers, pools and sums of a network that are alike.

    Of pools the output tells the padding: there are several that give the same.
    """
    same = {"kind", "op", "input", "kernels", "kernel", "stride", "groups"}
    found: Counter[Any] = Counter()
    for each in coarse(network).layers:
        if each.kind in ("conv", "fc", "pool", "add"):
            pads = each.padding if each.kind == "conv" else None
            found[(*sorted(each.model_dump(include=same).items()), each.output, pads)] += 1
    return found


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("alexnet", LIGHT / "light_bvlc_alexnet.onnx"),
        ("squeezenet1.1", LIGHT / "light_squeezenet.onnx"),
        ("vgg19", LIGHT / "light_vgg19.onnx"),
        ("googlenet", BUNDLED / "googlenet.toml"),
        ("resnet50", BUNDLED / "resnet50-caffe.toml"),
        ("vgg16", BUNDLED / "vgg16-caffe.toml"),
    ],
    ids=lambda value: getattr(value, "stem", value),
)
def test_layers_are_those_of_the_same_network_in_another_file(file: Path, name: str, other: Path) -> None:
    shape = (1, 3, 227, 227) if name == "alexnet" else (1, 3, 224, 224)
    found = imported(file, NETWORKS[name], sizes={"data": shape})
    expected = (
        importing.network(other, {"data_0": shape})
        if other.suffix == ".onnx"
        else validated(Network, load(other))
    )
    assert geometry(found) == geometry(expected)


# Rules of Caffe ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(examples(400, 12)))
def test_numbers_are_those_of_caffes_rules(file: Path, seed: int) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `test`, is not installed")
    runtime.set_default_logger_severity(3)
    layers = network_at_random(seed)
    file.write_text(caffe_layers.prototxt(layers))
    file.with_suffix(".caffemodel").write_bytes(caffe_layers.caffemodel(layers))
    model = caffe.translated(file, {}, with_weights=True)
    onnx.checker.check_model(model, full_check=True)
    outputs = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    data = np.random.default_rng(seed).standard_normal(layers[0]["input_param"]["shape"]["dim"])
    data = data.astype(np.float32)
    found = dict(zip(names, session.run(names, {"data": data}), strict=True))
    expected = caffe_layers.run(layers, {"data": data.astype(float)})
    checked = 0
    for node in model.graph.node:
        name = node.name
        if node.op_type == "BatchNormalization" and (scale := scaled_by(layers, name, model)):
            name = scale
        for tensor, numbers in zip(node.output, expected.get(name, []), strict=False):
            checked += 1
            assert found[tensor].shape == numbers.shape, name
            np.testing.assert_allclose(
                found[tensor], numbers, rtol=2e-4, atol=2e-4 * abs(numbers).max(), err_msg=name
            )
    assert checked >= 3
    importing.network(file)  # which checks shapes once more


def scaled_by(layers: list[Any], name: str, model: onnx.ModelProto) -> str | None:
    """Return the layer that has become part of a normalisation."""
    place = next(at for at, layer in enumerate(layers) if layer["name"] == name)
    after = layers[place + 1]["name"]
    return None if after in {node.name for node in model.graph.node} else after


def pool(shape: str, window: str) -> str:
    dims = " ".join(f"dim: {size}" for size in shape.split("x"))
    return f"""
        layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}
        layer {{ name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param {{ {window} }} }}"""


@pytest.mark.parametrize(
    ("shape", "window", "output", "padding"),
    [
        # 112 pixels are 55.5 strides and a window: GoogLeNet's first pool has a last window of two columns.
        ("1x1x112x112", "kernel_size: 3 stride: 2", (1, 56, 56), (0, 1, 0, 1)),
        ("1x1x112x112", "kernel_size: 3 stride: 2 round_mode: FLOOR", (1, 55, 55), (0, 0, 0, 0)),
        # ceil((4 + 2 - 2) / 3) + 1 = 3 windows, of which the last begins at 6, behind 4 pixels and a border.
        ("1x1x4x4", "kernel_size: 2 stride: 3 pad: 1", (1, 2, 2), (1, 0, 1, 0)),
        ("1x1x4x4", "pool: AVE kernel_size: 2 stride: 3 pad: 1", (1, 2, 2), (1, 0, 1, 0)),
        # Where there is padding on one side, both sides leave out such windows.
        ("1x2x3x8", "pool: AVE kernel_h: 2 kernel_w: 3 stride: 2 pad_h: 0 pad_w: 1", (2, 2, 5), (0, 1, 1, 2)),
        (
            "1x1x5x4",
            "kernel_h: 1 kernel_w: 2 stride_h: 3 stride_w: 1 pad_h: 0 pad_w: 1",
            (1, 2, 5),
            (0, 0, 1, 1),
        ),
        (
            "1x1x5x4",
            "pool: AVE kernel_h: 1 kernel_w: 2 stride_h: 3 stride_w: 1 pad_h: 0 pad_w: 1",
            (1, 2, 5),
            (0, 0, 1, 1),
        ),
        ("1x3x6x7", "pool: AVE global_pooling: true", (3, 1, 1), (0, 0, 0, 0)),
        ("1x1x6x6", "kernel_size: 7 stride: 2", (1, 1, 1), (0, 1, 0, 1)),
    ],
)
def test_pools_round_up(file: Path, shape: str, window: str, output: Any, padding: Any) -> None:
    [found] = imported(file, pool(shape, window)).layers
    assert (found.output, found.padding) == (output, padding)


OLD = """
name: "old" input: "data" input_dim: 2 input_dim: 1 input_dim: 8 input_dim: 8
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2 weight_decay: 0
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "gaussian" std: 0.01 } } }
layers { name: "r" type: RELU bottom: "c" top: "c" }
layers { name: "p" type: POOLING bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layers { name: "f" type: INNER_PRODUCT bottom: "p" top: "f" inner_product_param { num_output: 3 } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "f" bottom: "label" top: "loss" include: { phase: TRAIN } }
layers { name: "prob" type: SOFTMAX bottom: "f" top: "prob" exclude: { phase: TRAIN } }
"""

TRAINED = """
# both phases in one file
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.0039 } data_param { source: "train" batch_size: 64 backend: LMDB } }
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TEST }
  data_param { source: "test" batch_size: 100 backend: LMDB } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 4 kernel_h: 3 kernel_w: 3 bias_filler { type: "constant" } }
  quantization_param { bw_layer_in: 4 bw_params: 12 } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2
  engine: CAFFE } }
layer { name: "f" type: "InnerProduct" bottom: "p" top: "f" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "f" top: "prob"
  include { stage: "deploy" } include { phase: TEST } }
layer { name: "hit" type: "Accuracy" bottom: "f" bottom: "label" top: "hit" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "f" bottom: "label" top: "loss" }
"""


def test_both_syntaxes_and_both_phases_give_the_inference(file: Path) -> None:
    old = imported(file, OLD)
    new = imported(file, TRAINED, sizes={"data": (2, 1, 8, 8)})
    assert old.layers == new.layers
    assert [layer.name for layer in old.layers] == ["c", "r", "p", "f/flatten", "f", "prob"]
    assert old.layers[0].batch == 2
    assert old.source == "net.prototxt, a Caffe file, for an input of 2x1x8x8"


def test_parameters_with_a_name_are_shared_and_counted_once(file: Path) -> None:
    window = "num_output: 2 kernel_size: 3 pad: 1 bias_term: false"
    conv = f"param {{ name: 'w' }} convolution_param {{ {window} }}"
    layers = [
        f"layer {{ name: '{name}' type: 'Convolution' bottom: '{of}' top: '{name}' {conv} }}"
        for name, of in (("a", "data"), ("b", "a"))
    ]
    head = "input: 'data' input_shape { dim: 1 dim: 2 dim: 5 dim: 5 } "
    found = imported(file, head + " ".join(layers))
    assert found.parameters == 2 * 2 * 9
    assert found.layers[1].weights == "a"


# Errors --------------------------------------------------------------------------------------------

HEAD = 'input: "data" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 } '


RELU = "layer { name: 'x' type: 'ReLU' bottom: 'data' top: 'x' }"


def error_of(file: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        importing.network(file)
    assert caught.value.file == str(file)
    return caught.value


@pytest.mark.parametrize(
    ("text", "field", "told"),
    [
        ("\x00\x01\x02", "file", "is no prototxt"),
        ("layer {", "file", "is no prototxt: line 1"),
        ("layer {" * 5000, "file", "nested"),
        ("layer { top: '\N{BULLET}' }", "layer layer1, type", "is not read"),
        ("", "layer", "is missing"),
        ("net: 'train.prototxt' base_lr: 0.01", "net", "solver"),
        ("layers { layer { name: 'c' type: 'conv' } }", "layers.layer", "2013"),
        (HEAD + "input_dim: 1 " + RELU, "input_dim", "beside input_shape"),
        ("input: 'data' input_dim: 1 " + RELU, "input_dim", "four numbers"),
        ("layer { name: 'd' type: 'Data' top: 'data' } " + RELU, "input data", "--input data="),
        (HEAD + RELU + RELU.replace("ReLU", "TanH"), "layer x, top[0]", "before it"),
        (HEAD + RELU.replace("'data'", "'dat'"), "layer x, bottom[0]", "did you mean data"),
        (HEAD + RELU.replace("bottom: 'data'", ""), "layer x, bottom", "must be one"),
        (HEAD + RELU.replace("ReLU", "Convlution"), "layer x, type", "did you mean Convolution"),
        (HEAD + RELU.replace("ReLU", "ROIPooling"), "layer x, type", "--allow-unknown"),
    ],
)
def test_what_is_no_network_is_named(file: Path, text: str, field: str, told: str) -> None:
    file.write_text(text)
    error = error_of(file)
    assert error.field == field
    assert told in str(error)


@pytest.mark.parametrize(
    ("type_", "own", "field", "told"),
    [
        ("Convolution", "convolution_param { kernel_size: 3 }", "num_output", "at least 1"),
        ("Convolution", "convolution_param { num_output: 3 }", "kernel_size", "is missing"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: 9 }", "kernel_size", "[8, 8]"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: [1, 2, 3] }", "kernel_size", "or 2"),
        (
            "Convolution",
            "convolution_param { num_output: 3 kernel_size: 3 stride: 0 }",
            "stride",
            "at least 1",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 3 kernel_size: 1 group: 2 }",
            "group, of num_output",
            "divide 3",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 3 kernel_size: 1 pad: 1 pad_h: 1 pad_w: 1 }",
            "pad_h and pad_w",
            "beside pad",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 3 kernel_size: 1 kstride: 2 }",
            "kstride",
            "no such field",
        ),
        ("Deconvolution", "convolution_param { num_output: 3 kernel_size: 1 axis: 2 }", "axis", "axis 1"),
        ("Pooling", "pooling_param { kernel_size: 2 pad: 2 }", "pad", "smaller"),
        ("Pooling", "pooling_param { kernel_size: 1 stride: 8 }", "stride", "behind"),
        ("Pooling", "pooling_param { kernel_h: 1 }", "kernel_h", "needs both"),
        ("Pooling", "pooling_param { global_pooling: true kernel_size: 2 }", "global_pooling", "whole plane"),
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", "pool", "MAX and AVE"),
        ("Pooling", "pooling_param { kernel_size: 2 dilation: 2 }", "dilation", "no such field"),
        ("LRN", "lrn_param { local_size: 4 }", "local_size", "odd"),
        ("Slice", "slice_param { slice_point: 4 }", "slice_point", "0 growing numbers"),
        ("Slice", "slice_param { slice_dim: 1 axis: 1 }", "slice_dim", "beside axis"),
        ("Reshape", "reshape_param { shape { dim: 0 dim: 5 } }", "shape", "256 values"),
        ("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }", "shape", "at most one -1"),
        ("Flatten", "flatten_param { axis: 4 }", "axis", "from -4 to 3"),
        ("Permute", "permute_param { order: 1 order: 1 }", "order", "each once"),
        ("InnerProduct", "inner_product_param { num_output: 3 axis: 0 }", "axis", "images"),
        ("BatchNorm", "batch_norm_param { use_global_stats: false }", "use_global_stats", "averages"),
        ("Scale", "scale_param { num_axes: 4 }", "num_axes", "up to 3"),
        ("Eltwise", "eltwise_param { operation: SUM }", "bottom", "at least 2"),
    ],
)
def test_what_is_wrong_with_a_layer_is_named(file: Path, type_: str, own: str, field: str, told: str) -> None:
    file.write_text(HEAD + RELU.replace("'ReLU'", f"'{type_}' {own}"))
    error = error_of(file)
    place = "" if field == "bottom" else own.split()[0] + "."
    assert error.field == f"layer x, {place}{field}"
    assert told in error.limit and type_ in error.limit


def test_sizes_that_no_layer_can_have_are_refused(file: Path) -> None:
    own = "'InnerProduct' inner_product_param { num_output: 4000000000 }"
    file.write_text(HEAD + RELU.replace("'ReLU'", own))
    error = error_of(file)
    assert (error.field, error.value) == ("layer x, shape of its weights", [4_000_000_000, 256])


def test_fields_that_are_misspelt_are_refused(file: Path) -> None:
    file.write_text(HEAD + RELU.replace("'ReLU'", "'Pooling' poolng_param { global_pooling: true }"))
    error = error_of(file)
    assert error.field == "layer x, poolng_param"
    assert "did you mean pooling_param" in error.limit


def test_sums_of_different_shapes_are_refused_with_both(file: Path) -> None:
    file.write_text(
        HEAD
        + RELU.replace("'ReLU'", "'Pooling' pooling_param { kernel_size: 2 stride: 2 }")
        + 'layer { name: "sum" type: "Eltwise" bottom: "data" bottom: "x" top: "sum" }'
    )
    error = error_of(file)
    assert error.field == "layer sum, shapes of its bottoms"
    assert error.value == [[1, 4, 8, 8], [1, 4, 4, 4]]


def test_all_unknown_types_are_told_at_once_and_kept_on_demand(file: Path) -> None:
    pool = "type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 }"
    text = HEAD + RELU.replace("'ReLU'", "'ArgMax' argmax_param { axis: 1 }")
    text += "layer { name: 'y' type: 'Warp' bottom: 'x' top: 'y' }"
    text += f"layer {{ name: 'z' {pool} bottom: 'y' top: 'z' }}"
    file.write_text(text)
    with pytest.raises(InputError, match=r"(?s)ArgMax.*Warp"):
        importing.network(file)
    found = importing.network(file, {"x": (1, 1, 8, 8)}, allow_unknown=True)
    assert [(each.kind, each.op, each.output) for each in found.layers] == [
        ("opaque", "caffe.ArgMax", (1, 8, 8)),
        ("opaque", "caffe.Warp", (1, 8, 8)),
        ("opaque", "caffe.Pooling", (1, 8, 8)),
    ]
    assert "assumed" in found.source


def test_any_cut_of_a_file_is_read_or_refused(file: Path) -> None:
    text = caffe_networks.squeezenet(newer=True)
    for end in range(0, len(text), len(text) // 20):
        file.write_text(text[:end])
        try:
            importing.network(file)
        except InputError as error:
            assert error.file == str(file)


# Weights -------------------------------------------------------------------------------------------


def small() -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    numbers = [
        rng.standard_normal(shape).astype(np.float32) for shape in ((3, 1, 3, 3), (3,), (3,), (4, 27), (4,))
    ]
    statistics = [abs(numbers[1]), abs(numbers[2]), np.array([2.0])]
    return [
        {"name": "data", "type": "Input", "top": ["data"], "input_param": {"shape": {"dim": [1, 1, 8, 8]}}},
        {"name": "c", "type": "Convolution", "bottom": ["data"], "top": ["c"], "blobs": numbers[:1],
         "convolution_param": {"num_output": 3, "kernel_size": 3, "bias_term": False}},
        {"name": "b", "type": "BatchNorm", "bottom": ["c"], "top": ["c"], "blobs": statistics},
        {"name": "s", "type": "Scale", "bottom": ["c"], "top": ["c"], "blobs": numbers[1:3],
         "scale_param": {"bias_term": True}},
        {"name": "p", "type": "Pooling", "bottom": ["c"], "top": ["p"],
         "pooling_param": {"kernel_size": 2, "stride": 2}},
        {"name": "f", "type": "InnerProduct", "bottom": ["p"], "top": ["f"], "blobs": numbers[3:],
         "inner_product_param": {"num_output": 4}},
    ]  # fmt: skip


@pytest.mark.parametrize("old", [False, True])
def test_weights_are_those_of_the_caffemodel_beside_it(file: Path, old: bool) -> None:
    layers = small()
    file.write_text(caffe_layers.prototxt(layers))
    file.with_suffix(".caffemodel").write_bytes(caffe_layers.caffemodel(layers, old))
    found, parameters = importing.with_parameters(file)
    assert [each.name for each in found.layers if each.name in parameters] == ["c", "f"]
    mean, variance, _ = layers[2]["blobs"]
    gain = layers[3]["blobs"][0] / np.sqrt(variance / 2 + 1e-5)
    np.testing.assert_allclose(
        parameters["c"].weights, layers[1]["blobs"][0] * gain[:, None, None, None], rtol=1e-5
    )
    np.testing.assert_allclose(parameters["c"].bias, layers[3]["blobs"][1] - mean / 2 * gain, rtol=1e-5)
    trained = read_trained(file)
    [given], [expected] = trained.inputs.values(), trained.expected.values()
    by_hand = caffe_layers.run(layers, {"data": given})["f"][0]
    np.testing.assert_allclose(expected.reshape(by_hand.shape), by_hand, rtol=1e-4, atol=1e-5)
    assert "weights of net.caffemodel" in trained.origin


def weights_error(file: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        importing.with_parameters(file)
    return caught.value


def test_missing_weights_are_said(file: Path) -> None:
    layers = small()
    file.write_text(caffe_layers.prototxt(layers))
    assert weights_error(file).field == "weights in net.caffemodel"
    assert "not read: weights in net.caffemodel" in read_trained(file).origin
    layers[-1]["blobs"] = layers[-1]["blobs"][:1]
    file.with_suffix(".caffemodel").write_bytes(caffe_layers.caffemodel(layers))
    error = weights_error(file)
    assert error.field == "net.caffemodel, layer f, blobs[1]"
    file.with_suffix(".caffemodel").write_bytes(b"\xff\xff")
    assert "no caffemodel" in str(weights_error(file))


# Commands ------------------------------------------------------------------------------------------


def test_suffixes_of_networks_are_known_to_all() -> None:
    assert caffe.SUFFIX in NETWORK_SUFFIXES


def test_the_lines_of_the_page_run(tilewright: Run, tmp_path: Path) -> None:
    section = (LENET.parents[1] / "import.md").read_text().split("## Caffe\n")[1].split("## ")[0]
    shutil.copy(LENET, tmp_path)
    lines = re.findall(r"^ {4}\$ tilewright (.*lenet\.prototxt.*)$", section, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        done = tilewright(*shlex.split(line))
        assert done.returncode == 0, done.stderr


def test_a_network_is_solved_checked_and_imported(tilewright: Run, tmp_path: Path) -> None:
    at = ("--machine", "idsp", "--minimise", "accesses")
    solved = tilewright("solve", str(LENET), *at, "-o", str(tmp_path / "plan.json"), "--json")
    assert solved.returncode == 0, solved.stderr
    assert tilewright("check", str(LENET), str(tmp_path / "plan.json"), *at).returncode == 0
    done = tilewright("import", str(LENET), "-o", str(tmp_path), "--room", "tiling", "--machine", "idsp")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lenet-tiling.toml").is_file()
    alone = tilewright("solve", str(LENET))
    assert alone.returncode == 2
    assert "--machine" in alone.stderr
