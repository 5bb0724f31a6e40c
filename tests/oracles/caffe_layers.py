"""What Caffe's layers compute, loop by loop, and its files, byte by byte; written from Caffe's documentation.

A layer is a dict: ``name``, ``type``, lists ``bottom`` and ``top``, its parameters under the name that a
prototxt has for them, and ``blobs``, the list of its weights. Nothing of what is judged is imported.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Layer = dict[str, Any]


def run(layers: Sequence[Layer], inputs: dict[str, Array]) -> dict[str, list[Array]]:
    """Return what each layer gives, by its name."""
    blobs, found = dict(inputs), {}
    for layer in layers:
        if layer["type"] == "Input":
            continue
        given = [blobs[name] for name in layer["bottom"]]
        params = [value for key, value in layer.items() if key.endswith("_param")]
        own = params[0] if params else {}
        found[layer["name"]] = LAYERS[layer["type"]](given, own, layer.get("blobs", []))
        blobs |= zip(layer["top"], found[layer["name"]], strict=True)
    return found


def _sides(own: dict[str, Any], both: str, short: str, default: int) -> tuple[int, int]:
    if f"{short}_h" in own:
        return own[f"{short}_h"], own[f"{short}_w"]
    value = own.get(both, default)
    return (value[0], value[1]) if isinstance(value, list) else (value, value)


def _convolution(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    return [_one_convolution(each, own, blobs) for each in given]


def _one_convolution(x: Array, own: dict[str, Any], blobs: list[Array]) -> Array:
    images, channels, height, width = x.shape
    (kh, kw), (sh, sw) = _sides(own, "kernel_size", "kernel", 0), _sides(own, "stride", "stride", 1)
    (ph, pw), dilation, groups = _sides(own, "pad", "pad", 0), own.get("dilation", 1), own.get("group", 1)
    rows = (height + 2 * ph - (dilation * (kh - 1) + 1)) // sh + 1
    columns = (width + 2 * pw - (dilation * (kw - 1) + 1)) // sw + 1
    y = np.zeros((images, own["num_output"], rows, columns))
    seen, made = channels // groups, own["num_output"] // groups
    for o, r, c, i, j in product(range(own["num_output"]), range(rows), range(columns), range(kh), range(kw)):
        h, w = r * sh - ph + i * dilation, c * sw - pw + j * dilation
        if 0 <= h < height and 0 <= w < width:
            first = o // made * seen
            y[:, o, r, c] += x[:, first : first + seen, h, w] @ blobs[0][o, :, i, j]
    return y + (blobs[1][:, None, None] if own.get("bias_term", True) else 0)


def _deconvolution(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    [x] = given
    images, channels, height, width = x.shape
    (kh, kw), (sh, sw) = _sides(own, "kernel_size", "kernel", 0), _sides(own, "stride", "stride", 1)
    (ph, pw), groups = _sides(own, "pad", "pad", 0), own.get("group", 1)
    whole = np.zeros((images, own["num_output"], (height - 1) * sh + kh, (width - 1) * sw + kw))
    seen, made = channels // groups, own["num_output"] // groups
    for c, h, w, i, j in product(range(channels), range(height), range(width), range(kh), range(kw)):
        first = c // seen * made
        spread = np.outer(x[:, c, h, w], blobs[0][c, :, i, j])
        whole[:, first : first + made, h * sh + i, w * sw + j] += spread
    y = whole[:, :, ph : whole.shape[2] - ph, pw : whole.shape[3] - pw]
    return [y + (blobs[1][:, None, None] if own.get("bias_term", True) else 0)]


def pooled_size(size: int, kernel: int, stride: int, pad: int, any_pad: bool, ceil: bool = True) -> int:
    """Return how many windows Caffe's pool has along a side."""
    found = (math.ceil if ceil else math.floor)((size + 2 * pad - kernel) / stride) + 1
    if any_pad and (found - 1) * stride >= size + pad:
        found -= 1
    return found


def _pooling(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    [x] = given
    images, channels, height, width = x.shape
    (kh, kw), (sh, sw) = _sides(own, "kernel_size", "kernel", 0), _sides(own, "stride", "stride", 1)
    ph, pw = _sides(own, "pad", "pad", 0)
    if own.get("global_pooling"):
        kh, kw = height, width
    ceil = own.get("round_mode", "CEIL") == "CEIL"
    rows = pooled_size(height, kh, sh, ph, bool(ph or pw), ceil)
    columns = pooled_size(width, kw, sw, pw, bool(ph or pw), ceil)
    y = np.zeros((images, channels, rows, columns))
    for r, c in product(range(rows), range(columns)):
        top, left = r * sh - ph, c * sw - pw
        bottom, right = min(top + kh, height + ph), min(left + kw, width + pw)
        count = (bottom - top) * (right - left)  # with the border
        window = x[:, :, max(top, 0) : min(bottom, height), max(left, 0) : min(right, width)]
        average = own.get("pool", "MAX") == "AVE"
        y[:, :, r, c] = window.sum((2, 3)) / count if average else window.max((2, 3))
    return [y]


def _lrn(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    [x] = given
    size, alpha, beta = own.get("local_size", 5), own.get("alpha", 1.0), own.get("beta", 0.75)
    if own.get("norm_region") == "WITHIN_CHANNEL":
        pool = {"pool": "AVE", "kernel_size": size, "pad": (size - 1) // 2}
        return [x * (1 + alpha * _pooling([x * x], pool, [])[0]) ** -beta]
    scale = np.full(x.shape, own.get("k", 1.0))
    for c in range(x.shape[1]):
        for other in range(max(0, c - size // 2), min(x.shape[1], c + size // 2 + 1)):
            scale[:, c] += alpha / size * x[:, other] ** 2
    return [x * scale**-beta]


def _inner_product(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    [x] = given
    axis = own.get("axis", 1)
    flat = x.reshape((*x.shape[:axis], -1))
    y = flat @ (blobs[0] if own.get("transpose") else blobs[0].T)
    return [y + (blobs[1] if own.get("bias_term", True) else 0)]


def _relu(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    return [np.maximum(given[0], 0) + own.get("negative_slope", 0) * np.minimum(given[0], 0)]


def _channels(x: Array, numbers: Array) -> Array:
    return numbers.reshape(1, -1, *[1] * (x.ndim - 2))


def _prelu(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    [x] = given
    return [np.maximum(x, 0) + _channels(x, blobs[0]) * np.minimum(x, 0)]


def _power(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    return [(own.get("shift", 0) + own.get("scale", 1) * given[0]) ** own.get("power", 1)]


def _eltwise(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    operation = own.get("operation", "SUM")
    if operation == "SUM":
        coefficients = own.get("coeff", [1] * len(given))
        return [
            sum((c * x for c, x in zip(coefficients, given, strict=True)), start=np.zeros(given[0].shape))
        ]
    return [(np.prod if operation == "PROD" else np.max)(given, axis=0)]


def _batch_norm(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    [x], (mean, variance, [count]) = given, blobs
    share = 0 if count == 0 else 1 / count
    return [(x - _channels(x, mean * share)) / np.sqrt(_channels(x, variance * share) + own.get("eps", 1e-5))]


def _scale(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    x, axis = given[0], own.get("axis", 1)
    numbers = given[1] if len(given) > 1 else blobs[0]
    place = (*[1] * axis, *numbers.shape, *[1] * (x.ndim - axis - numbers.ndim))
    y = x * numbers.reshape(place)
    return [y + blobs[1].reshape(place) if own.get("bias_term") else y]


def _bias(given: list[Array], own: dict[str, Any], blobs: list[Array]) -> list[Array]:
    return [given[0] + _channels(given[0], blobs[0])]


def _softmax(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    powers = np.exp(given[0] - given[0].max(own.get("axis", 1), keepdims=True))
    return [powers / powers.sum(own.get("axis", 1), keepdims=True)]


def _slice(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    return list(np.split(given[0], own["slice_point"], own.get("axis", 1)))


def _flatten(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    [x] = given
    first, last = own.get("axis", 1) % x.ndim, own.get("end_axis", -1) % x.ndim
    return [x.reshape((*x.shape[:first], -1, *x.shape[last + 1 :]))]


def _reshape(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    [x] = given
    told, axis = own["shape"]["dim"], own.get("axis", 0)
    sizes = [x.shape[axis + at] if size == 0 else size for at, size in enumerate(told)]
    return [x.reshape((*x.shape[:axis], *sizes))]


def _crop(given: list[Array], own: dict[str, Any], _blobs: list[Array]) -> list[Array]:
    x, like = given
    axis, offset = own.get("axis", 2), own.get("offset", 0)
    cut = [slice(None)] * axis + [slice(offset, offset + size) for size in like.shape[axis:]]
    return [x[tuple(cut)]]


LAYERS: dict[str, Callable[[list[Array], dict[str, Any], list[Array]], list[Array]]] = {
    "AbsVal": lambda given, own, blobs: [abs(given[0])],
    "BNLL": lambda given, own, blobs: [np.log1p(np.exp(given[0]))],
    "BatchNorm": _batch_norm,
    "Bias": _bias,
    "Concat": lambda given, own, blobs: [np.concatenate(given, own.get("axis", 1))],
    "Convolution": _convolution,
    "Crop": _crop,
    "Deconvolution": _deconvolution,
    "Dropout": lambda given, own, blobs: given,
    "ELU": lambda given, own, blobs: [
        np.where(given[0] > 0, given[0], own.get("alpha", 1) * (np.exp(np.minimum(given[0], 0)) - 1))
    ],
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "InnerProduct": _inner_product,
    "LRN": _lrn,
    "PReLU": _prelu,
    "Permute": lambda given, own, blobs: [given[0].transpose(own["order"])],
    "Pooling": _pooling,
    "Power": _power,
    "ReLU": _relu,
    "Reshape": _reshape,
    "Scale": _scale,
    "Sigmoid": lambda given, own, blobs: [1 / (1 + np.exp(-given[0]))],
    "Slice": _slice,
    "Softmax": _softmax,
    "TanH": lambda given, own, blobs: [np.tanh(given[0])],
}


# Files ---------------------------------------------------------------------------------------------


def prototxt(layers: Sequence[Layer]) -> str:
    """Return the text of a network."""
    return "\n".join(f"layer {{ {' '.join(_fields(layer))} }}" for layer in layers) + "\n"


def _fields(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if key == "blobs":
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield f"{key} {{ {' '.join(_fields(each))} }}"
            elif isinstance(each, bool):
                yield f"{key}: {str(each).lower()}"
            elif isinstance(each, str) and key not in ENUMS:
                yield f'{key}: "{each}"'
            else:
                yield f"{key}: {each}"


ENUMS = ("pool", "operation", "norm_region", "round_mode", "phase")
"""Fields whose texts stand without quotes."""


def caffemodel(layers: Sequence[Layer], old: bool = False) -> bytes:
    """Return the weights of a network as Caffe stores them: messages of protobuf, field by field.

    The old syntax has other numbers of fields, and four sizes for each blob.
    """
    net, name, blobs = (2, 4, 6) if old else (100, 1, 7)
    found = b""
    for layer in layers:
        own = _message(name, layer["name"].encode())
        for blob in layer.get("blobs", []):
            if old:
                sizes = [1] * (4 - blob.ndim) + list(blob.shape)
                shape = b"".join(_varint(at << 3) + _varint(size) for at, size in enumerate(sizes, start=1))
            else:
                shape = _message(7, _message(1, b"".join(_varint(size) for size in blob.shape)))
            own += _message(blobs, shape + _message(5, struct.pack(f"<{blob.size}f", *blob.ravel())))
        found += _message(net, own)
    return found


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
