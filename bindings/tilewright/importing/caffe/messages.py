"""Caffe's network descriptions as protobuf messages: the fields that decide what is computed.

Names, numbers and defaults are those of Caffe's public format. Text is parsed by protobuf's own parser, which
passes over fields that it does not know; `unknown_fields` finds these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

from tilewright.spec.errors import InputError

MAX_TEXT_BYTES = 5_000_000
"""Largest prototxt that is read: some 500 for each of as many layers as a network may have."""

MAX_WEIGHT_BYTES = 2_000_000_000
"""Largest caffemodel that is read; protobuf takes no larger message."""

PARAMETERS = {
    "concat_param": ("ConcatParameter", 104, 9),
    "convolution_param": ("ConvolutionParameter", 106, 10),
    "dummy_data_param": ("DummyDataParameter", 109, 26),
    "eltwise_param": ("EltwiseParameter", 110, 24),
    "inner_product_param": ("InnerProductParameter", 117, 17),
    "lrn_param": ("LRNParameter", 118, 18),
    "memory_data_param": ("MemoryDataParameter", 119, 22),
    "pooling_param": ("PoolingParameter", 121, 19),
    "power_param": ("PowerParameter", 122, 21),
    "relu_param": ("ReLUParameter", 123, 30),
    "softmax_param": ("SoftmaxParameter", 125, 39),
    "slice_param": ("SliceParameter", 126, 31),
    "prelu_param": ("PReLUParameter", 131, None),
    "reshape_param": ("ReshapeParameter", 133, None),
    "flatten_param": ("FlattenParameter", 135, None),
    "batch_norm_param": ("BatchNormParameter", 139, None),
    "elu_param": ("ELUParameter", 140, None),
    "bias_param": ("BiasParameter", 141, None),
    "scale_param": ("ScaleParameter", 142, None),
    "input_param": ("InputParameter", 143, None),
    "crop_param": ("CropParameter", 144, None),
    "permute_param": ("PermuteParameter", 202, None),
}
"""Fields of a layer with its parameters: their messages, their numbers in the new and in the old syntax."""

FIELDS = {
    "BlobShape": "dim:1:int64*",
    "BlobProto": "num:1:int32 channels:2:int32 height:3:int32 width:4:int32 data:5:float* shape:7:BlobShape "
    "double_data:8:double*",
    "NetState": "phase:1:Phase=TEST level:2:int32 stage:3:string*",
    "NetStateRule": "phase:1:Phase min_level:2:int32 max_level:3:int32 stage:4:string* not_stage:5:string*",
    "ParamSpec": "name:1:string",
    "NetParameter": "name:1:string layers:2:V1LayerParameter* input:3:string* input_dim:4:int32* "
    "state:6:NetState input_shape:8:BlobShape* layer:100:LayerParameter*",
    "LayerParameter": "name:1:string type:2:string bottom:3:string* top:4:string* param:6:ParamSpec* "
    "blobs:7:BlobProto* include:8:NetStateRule* exclude:9:NetStateRule*",
    "V1LayerParameter": "bottom:2:string* top:3:string* name:4:string type:5:LayerType blobs:6:BlobProto* "
    "include:32:NetStateRule* exclude:33:NetStateRule* param:1001:string*",
    "BatchNormParameter": "use_global_stats:1:bool=true eps:3:float=1e-5",
    "BiasParameter": "axis:1:int32=1 num_axes:2:int32=1",
    "ConcatParameter": "concat_dim:1:uint32=1 axis:2:int32=1",
    "ConvolutionParameter": "num_output:1:uint32 bias_term:2:bool=true pad:3:uint32* kernel_size:4:uint32* "
    "group:5:uint32=1 stride:6:uint32* pad_h:9:uint32 pad_w:10:uint32 kernel_h:11:uint32 kernel_w:12:uint32 "
    "stride_h:13:uint32 stride_w:14:uint32 axis:16:int32=1 dilation:18:uint32*",
    "CropParameter": "axis:1:int32=2 offset:2:uint32*",
    "DummyDataParameter": "num:2:uint32* channels:3:uint32* height:4:uint32* width:5:uint32* "
    "shape:6:BlobShape*",
    "ELUParameter": "alpha:1:float=1",
    "EltwiseParameter": "operation:1:EltwiseOp=SUM coeff:2:float*",
    "FlattenParameter": "axis:1:int32=1 end_axis:2:int32=-1",
    "InnerProductParameter": "num_output:1:uint32 bias_term:2:bool=true axis:5:int32=1 transpose:6:bool",
    "InputParameter": "shape:1:BlobShape*",
    "LRNParameter": "local_size:1:uint32=5 alpha:2:float=1 beta:3:float=0.75 norm_region:4:NormRegion "
    "k:5:float=1",
    "MemoryDataParameter": "batch_size:1:uint32 channels:2:uint32 height:3:uint32 width:4:uint32",
    "PReLUParameter": "channel_shared:2:bool",
    "PermuteParameter": "order:1:uint32*",
    "PoolingParameter": "pool:1:PoolMethod kernel_size:2:uint32 stride:3:uint32=1 pad:4:uint32 "
    "kernel_h:5:uint32 kernel_w:6:uint32 stride_h:7:uint32 stride_w:8:uint32 pad_h:9:uint32 pad_w:10:uint32 "
    "global_pooling:12:bool round_mode:13:RoundMode",
    "PowerParameter": "power:1:float=1 scale:2:float=1 shift:3:float",
    "ReLUParameter": "negative_slope:1:float",
    "ReshapeParameter": "shape:1:BlobShape axis:2:int32 num_axes:3:int32=-1",
    "ScaleParameter": "axis:1:int32=1 num_axes:2:int32=1 bias_term:4:bool",
    "SliceParameter": "slice_dim:1:uint32=1 slice_point:2:uint32* axis:3:int32=1",
    "SoftmaxParameter": "axis:2:int32=1",
}
"""Fields of the messages: name, number, type, ``*`` where there may be several, the default if not 0."""

ENUMS = {
    ("", "Phase"): ("TRAIN", "TEST"),
    ("EltwiseParameter", "EltwiseOp"): ("PROD", "SUM", "MAX"),
    ("LRNParameter", "NormRegion"): ("ACROSS_CHANNELS", "WITHIN_CHANNEL"),
    ("PoolingParameter", "PoolMethod"): ("MAX", "AVE", "STOCHASTIC"),
    ("PoolingParameter", "RoundMode"): ("CEIL", "FLOOR"),
    ("V1LayerParameter", "LayerType"): (
        "NONE", "ACCURACY", "BNLL", "CONCAT", "CONVOLUTION", "DATA", "DROPOUT", "EUCLIDEAN_LOSS", "FLATTEN",
        "HDF5_DATA", "HDF5_OUTPUT", "IM2COL", "IMAGE_DATA", "INFOGAIN_LOSS", "INNER_PRODUCT", "LRN",
        "MULTINOMIAL_LOGISTIC_LOSS", "POOLING", "RELU", "SIGMOID", "SOFTMAX", "SOFTMAX_LOSS", "SPLIT", "TANH",
        "WINDOW_DATA", "ELTWISE", "POWER", "SIGMOID_CROSS_ENTROPY_LOSS", "HINGE_LOSS", "MEMORY_DATA",
        "ARGMAX", "THRESHOLD", "DUMMY_DATA", "SLICE", "MVN", "ABSVAL", "SILENCE", "CONTRASTIVE_LOSS", "EXP",
        "DECONVOLUTION",
    ),
}  # fmt: skip
"""Values of enumerations, in the order of their numbers from 0, by the message that they stand in."""

TRAINING = {
    "NetParameter": {"force_backward", "debug_info"},
    "LayerParameter": {
        "accuracy_param", "contrastive_loss_param", "data_param", "dropout_param", "hdf5_data_param",
        "hdf5_output_param", "hinge_loss_param", "image_data_param", "infogain_loss_param", "loss_param",
        "loss_weight", "phase", "propagate_down", "quantization_param", "sigmoid_param", "tanh_param",
        "transform_param", "window_data_param",
    },
    "V1LayerParameter": {"blob_share_mode", "blobs_lr", "weight_decay"},
    "ParamSpec": {"share_mode", "lr_mult", "decay_mult"},
    "BlobProto": {"diff", "double_diff"},
    "BatchNormParameter": {"moving_average_fraction"},
    "ConvolutionParameter": {"force_nd_im2col"},
    "DummyDataParameter": {"data_filler"},
    "EltwiseParameter": {"stable_prod_grad"},
}  # fmt: skip
"""Fields that change neither shapes nor values of an inference, and Ristretto's ``quantization_param``."""
TRAINING["V1LayerParameter"] |= TRAINING["LayerParameter"]

ANYWHERE = {"weight_filler", "bias_filler", "filler", "engine"}
"""Such fields of any layer's parameters."""

TOKEN = re.compile(r"""\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[{}<>:;,\[\]]|[^\s{}<>:;,\[\]"'#]+""")


class UnknownField(NamedTuple):
    """A field that Caffe, or this reader, does not have.

    Attributes
    ----------
    layer
        Place of the layer in the file that it stands in, None outside of all.
    path
        Names from the layer, or the file, to the field.
    value
        As it is written; None of a message.
    message
        Name of the message that it stands in.
    """

    layer: int | None
    path: tuple[str, ...]
    value: str | None
    message: str


def read_text(path: Path) -> tuple[Any, list[UnknownField]]:
    """Return the `NetParameter` of a prototxt, and its fields that are not known.

    Raises
    ------
    InputError
        If there is no such file, or it is no text that protobuf takes.
    """
    content = _content(path, MAX_TEXT_BYTES)
    try:
        text = content.decode()
        net = text_format.Parse(text, message("NetParameter"), allow_unknown_field=True)
    except UnicodeDecodeError:
        raise InputError("file", path.name, "is no prototxt: it is not UTF-8 text") from None
    except text_format.ParseError as error:
        said = " ".join(str(error).rpartition(": ")[2].split())  # behind the whole line of the file
        limit = f"is no prototxt: line {error.GetLine()}, column {error.GetColumn()}: {said}"
        raise InputError("file", path.name, limit) from None
    except RecursionError:
        raise InputError("file", path.name, "is no prototxt: its braces are nested too deep") from None
    return net, list(unknown_fields(text))


def read_weights(path: Path) -> Any:
    """Return the `NetParameter` of a caffemodel.

    Raises
    ------
    InputError
        If there is no such file, or it is none.
    """
    try:
        return type(message("NetParameter")).FromString(_content(path, MAX_WEIGHT_BYTES))
    except DecodeError as error:
        raise InputError("weights", path.name, f"is no caffemodel, or cut off: {error}") from None


def _content(path: Path, most: int) -> bytes:
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise InputError("network", str(path), "no such file")
        if size > most:
            raise InputError("file size", size, f"at most {most} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("network", str(path), f"cannot be read: {error}") from None


def unknown_fields(text: str) -> Iterator[UnknownField]:
    """Yield the fields of a text, which protobuf has parsed, that no message here has.

    What stands inside of such a field, or of one that is of no interest, is passed over.
    """
    stack: list[tuple[str, Any]] = [("", _classes()["NetParameter"].DESCRIPTOR)]
    layers, name = -1, ""
    tokens = [match[0] for match in TOKEN.finditer(text) if not match[0].startswith("#")]
    for place, token in enumerate(tokens):
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in "{<":
            known = stack[-1][1].fields_by_name.get(name) if stack[-1][1] is not None else None
            layers += len(stack) == 1 and name in ("layer", "layers")
            stack.append((name, known.message_type if known is not None else None))
        elif token in "}>":
            name, _ = stack.pop()
        elif after and after in ":{<" and token not in ":;,[]":
            name, inside = token, stack[-1][1]
            if inside is None or name in inside.fields_by_name:
                continue
            if name in TRAINING.get(inside.name, ()) or (name in ANYWHERE and len(stack) > 2):
                continue
            value = tokens[place + 2] if after == ":" and place + 2 < len(tokens) else "{"
            path = (*(each for each, _ in stack[1:]), name)
            in_layer = len(stack) > 1 and path[0] in ("layer", "layers")
            yield UnknownField(
                layers if in_layer else None,
                path[in_layer:],
                None if value in "{<[" else value.strip("\"'"),
                inside.name,
            )


# The messages --------------------------------------------------------------------------------------


def message(name: str) -> Any:
    """Return an empty message of Caffe's."""
    return _classes()[name]()


def field_names(name: str) -> list[str]:
    """Return the names of a message's fields."""
    return [field.name for field in _classes()[name].DESCRIPTOR.fields]


@cache
def _classes() -> Mapping[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="caffe_subset.proto", package="caffe", syntax="proto2")
    own = {name: file.message_type.add(name=name) for name in FIELDS}
    for (inside, name), values in ENUMS.items():
        enum = (own[inside] if inside else file).enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in FIELDS.items():
        for field in fields.split():
            _add_field(own[name], *field.split(":"))
    for name, (type_, new, old) in PARAMETERS.items():
        _add_field(own["LayerParameter"], name, str(new), type_)
        if old is not None:
            _add_field(own["V1LayerParameter"], name, str(old), type_)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"caffe.{name}")) for name in FIELDS
    }


def _add_field(owner: Any, name: str, number: str, told: str) -> None:
    """Add a field to a message, of a type such as ``uint32*`` or ``int32=1``."""
    type_, _, default = told.partition("=")
    several = type_.endswith("*")
    type_ = type_.rstrip("*")
    field = owner.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if several else field.LABEL_OPTIONAL
    if default:
        field.default_value = default
    enum = next((inside for inside, enum in ENUMS if enum == type_), None)
    if type_ in FIELDS:
        field.type, field.type_name = field.TYPE_MESSAGE, f".caffe.{type_}"
    elif enum is not None:
        field.type, field.type_name = field.TYPE_ENUM, ".".join(filter(None, (".caffe", enum, type_)))
    else:
        field.type = getattr(field, f"TYPE_{type_.upper()}")
