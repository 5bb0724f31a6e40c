"""Plain reference layers: what the result of any program must equal, bit for bit.

Written apart from the operations that the executor runs (whole planes shifted and summed here, windows
gathered there), so that a mistake in one does not hide in the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.simulator.operations import exact_type
from tilewright.simulator.program import Values
from tilewright.spec.layer import Layer
from tilewright.spec.network import AnyLayer, Function, MatMul, NamedLayer, Opaque, Pool


def reference_convolution(layer: Layer, values: Values, kernels: Values) -> Values:
    """Convolve with stride, padding, dilation, groups and batch (S1 paper, definition 8).

    Parameters
    ----------
    values : int64, shape (batch, C, H, W)
    kernels : int64, shape (N, C / groups, H_K, W_K)

    Returns
    -------
    int64, shape (batch, N, H_out, W_out)
    """
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, cols = layer.output_plane
    per_group, out_per_group = layer.input[0] // layer.groups, layer.kernels // layer.groups
    result = np.zeros((len(values), layer.kernels, rows, cols), dtype=np.int64)
    # Sums of integers this small are exact in floating point, whose matrix products are much faster.
    largest = int(np.abs(values).max(initial=0)) * int(np.abs(kernels).max(initial=0))
    kind = np.float64 if largest * layer.macs_per_output < 2**53 else np.int64
    padded, kernels = padded.astype(kind), kernels.astype(kind)
    for group in range(layer.groups):
        channels = slice(group * per_group, (group + 1) * per_group)
        outputs = slice(group * out_per_group, (group + 1) * out_per_group)
        for h in range(layer.kernel[0]):
            for w in range(layer.kernel[1]):
                down, across = h * layer.dilation[0], w * layer.dilation[1]
                shifted = padded[
                    :,
                    channels,
                    down : down + layer.stride[0] * (rows - 1) + 1 : layer.stride[0],
                    across : across + layer.stride[1] * (cols - 1) + 1 : layer.stride[1],
                ]
                sums = np.tensordot(kernels[outputs, :, h, w], shifted, axes=(1, 1))
                result[:, outputs] += sums.transpose(1, 0, 2, 3).astype(np.int64)
    return result


def reference_pool(layer: Pool, values: Values) -> Values:
    """Return the largest value under each window, or for an average the sum.

    Parameters
    ----------
    values : int64, shape (batch, C, H, W)

    Returns
    -------
    int64, shape (batch, C, H_out, W_out)
    """
    top, _, left, _ = layer.padding
    height, width = values.shape[-2:]
    result = np.empty((*values.shape[:2], *layer.output_plane), dtype=np.int64)
    for row, col in np.ndindex(*layer.output_plane):
        first, begin = row * layer.stride[0] - top, col * layer.stride[1] - left
        last, end = first + layer.kernel[0], begin + layer.kernel[1]
        window = values[:, :, max(0, first) : min(last, height), max(0, begin) : min(end, width)]
        result[:, :, row, col] = window.max(axis=(2, 3)) if layer.op == "max" else window.sum(axis=(2, 3))
    return result


def reference_sum(values: Sequence[Values]) -> Values:
    """Add tensors of one shape, value by value."""
    total: Values = np.sum(values, axis=0, dtype=np.int64)
    return total


def small(values: Values) -> Values:
    """Bring values to -8 to 8, so that sums stay small; those that lie there stay as they are."""
    found: Values = (values + 8) % 17 - 8
    return found


def small_output(layer: AnyLayer, given: Sequence[Values], parameters: Values | None) -> Values:
    """Return what a layer computes of whole maps, each brought to small integers first.

    Parameters
    ----------
    given : shape (images, C, H, W)
    parameters : shape (N, numbers of each kernel)
        The bias of each kernel comes first, if there is one.

    Returns
    -------
    shape (images, C, H, W)
        Any numbers where the parameters are missing, or what the layer does is not executed.
    """
    values = [small(each) for each in given]
    if isinstance(layer, MatMul):
        return np.stack([product(layer, *image).reshape(layer.output) for image in zip(*values, strict=True)])
    if isinstance(layer, Function) and layer.along is not None:
        return values[0]
    missing = isinstance(layer, NamedLayer) and parameters is None
    if missing or isinstance(layer, Function | Opaque):
        flat = np.concatenate([each.reshape(len(each), -1) for each in values], axis=1)
        return np.stack([np.resize(image, layer.output) for image in flat])

    def compute(layer: NamedLayer, joined: Values) -> Values:
        assert parameters is not None
        bias, own = int(layer.bias), layer.unnamed(len(joined))
        sums = reference_convolution(own, joined, parameters[:, bias:].reshape(own.kernels_shape))
        return sums + (parameters[:, 0, None, None] if bias else 0)

    from tilewright.simulator.arithmetic.network_executor import layer_output  # for start-up time

    return layer_output(layer, values, compute, integers=True).reshape(-1, *layer.output)


def product(layer: MatMul, first: Values, second: Values) -> Values:
    """Return the product of two matrices, group by group, of one image.

    Parameters
    ----------
    first
        Of each group its depth and then its rows, or some of these, in any shape.
    second
        Of each group its depth and then its columns, or columns first where the layer says so, in any shape.

    Returns
    -------
    shape (columns of all groups, rows)
    """
    left = first.reshape(layer.groups, layer.depth, -1)
    right = second.reshape(layer.groups, *(layer.depth, layer.columns)[:: -1 if layer.transposed else 1])
    if not layer.transposed:
        right = right.transpose(0, 2, 1)
    kind = exact_type(left, right, layer.depth)
    sums: Values = (right.astype(kind) @ left.astype(kind)).astype(np.int64)
    return sums.reshape(-1, left.shape[2])


def random_values(layer: Layer, seed: int) -> tuple[Values, Values]:
    """Return random inputs and kernels of a layer, integers from -8 to 8."""
    rng = np.random.default_rng(seed)
    return (
        rng.integers(-8, 9, layer.input_shape, dtype=np.int64),
        rng.integers(-8, 9, layer.kernels_shape, dtype=np.int64),
    )
