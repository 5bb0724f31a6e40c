"""The arithmetic of tiles: any partition of a convolution into boxes adds up to the reference."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import spans
from pipelines import random_layer
from test_numeric import layers

from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
    execute,
)
from tilewright.simulator.arithmetic.reference import (
    random_values,
    reference_convolution,
    reference_pool,
    reference_sum,
)
from tilewright.simulator.numeric import POISON
from tilewright.simulator.operations import ConvolveBox, WindowBeat
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, Pool

LARGE = Layer(input=(64, 56, 56), kernels=64, kernel=(3, 3), padding=(1, 1, 1, 1))


def padded(layer: Layer, values: np.ndarray, fill: int = 0) -> np.ndarray:
    top, bottom, left, right = layer.padding
    return np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)


def whole(layer: Layer, **changes: object) -> ConvolveBox:
    per_group, out_per_group = layer.input[0] // layer.groups, layer.kernels // layer.groups
    rows, cols = layer.output_plane
    sizes = {
        "images": layer.batch,
        "groups": layer.groups,
        "kernels": out_per_group,
        "channels": per_group,
        "rows": rows,
        "cols": cols,
    }
    return ConvolveBox(layer, **{name: (0, size) for name, size in sizes.items()} | changes)  # type: ignore[arg-type]


@given(layers(), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=examples(200))
def test_tiles_add_up_to_the_reference(table: dict, seed: int, generated: bool, split: bool) -> None:
    layer, random = Layer(**table), Random(seed)
    values, kernels = random_values(layer, seed)
    data = {
        "in": padded(layer, values, POISON if generated else 0),
        "weights": kernels,
    }
    per_group, out_per_group = layer.input[0] // layer.groups, layer.kernels // layer.groups
    if split:  # Groups as axes of their own.
        data["in"] = data["in"].reshape(layer.batch, layer.groups, per_group, *layer.padded_plane)
        data["weights"] = kernels.reshape(layer.groups, out_per_group, *kernels.shape[1:])
    rows, cols = layer.output_plane
    result = np.zeros((layer.batch, layer.groups, out_per_group, rows, cols), dtype=np.int64)
    for images in spans(random, layer.batch):
        for groups in spans(random, layer.groups):
            for members in spans(random, out_per_group):
                for down in spans(random, rows):
                    for across in spans(random, cols):
                        for channels in spans(random, per_group):
                            tile = ConvolveBox(
                                layer,
                                images,
                                groups,
                                members,
                                channels,
                                down,
                                across,
                                generated,
                                "in",
                                "weights",
                            )
                            part = result[tuple(slice(*s) for s in (images, groups, members, down, across))]
                            found = tile(data)
                            assert found.dtype == np.int64
                            assert found.shape == (
                                part.shape[0],
                                part.shape[1] * part.shape[2],
                                *part.shape[3:],
                            )
                            part += found.reshape(part.shape)
    assert (result.reshape(layer.output_shape) == reference_convolution(layer, values, kernels)).all()


def test_a_tile_by_hand() -> None:
    layer = Layer(input=(2, 2, 2), kernels=2, kernel=(1, 2), padding=(0, 0, 1, 0), groups=2)
    chip = {
        "input": np.array([[[[9, 1, 2], [9, 3, 4]], [[9, 5, 6], [9, 7, 8]]]]),
        "kernels": np.array([[[[1, 10]]], [[[100, 1000]]]]),
    }
    assert whole(layer, generated_padding=True)(chip).tolist() == [
        [[[10, 21], [30, 43]], [[5000, 6500], [7000, 8700]]]
    ]
    assert whole(layer)(chip)[0, 0].tolist() == [[19, 21], [39, 43]]
    assert whole(layer, groups=(1, 2), rows=(1, 2), cols=(1, 2))(chip).tolist() == [[[[8700]]]]


def test_products_too_large_for_floating_point_are_exact() -> None:
    layer = Layer(input=(2, 1, 1), kernels=1, kernel=(1, 1))
    chip = {"input": np.array([[[[2**40 + 1]], [[1]]]]), "kernels": np.array([[[[2**20 + 1]], [[1]]]])}
    assert whole(layer)(chip).tolist() == [[[[(2**40 + 1) * (2**20 + 1) + 1]]]]


def test_large_tiles_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    values, kernels = random_values(LARGE, 3)
    chip = {"input": padded(LARGE, values), "kernels": kernels}
    expected = reference_convolution(LARGE, values, kernels)
    assert (whole(LARGE)(chip) == expected).all()
    monkeypatch.setattr("tilewright.simulator.operations._BAND_ELEMENTS", 64 * 9 * 56 * 5)
    assert (whole(LARGE)(chip) == expected).all()


def test_a_tile_that_is_not_there_is_refused() -> None:
    values, kernels = random_values(LARGE, 3)
    chip = {"input": padded(LARGE, values), "kernels": kernels}
    with pytest.raises(ValueError, match="do not cover"):
        whole(LARGE, cols=(50, 57))(chip)


# Beats -------------------------------------------------------------------------------------------


def under(layer: Layer | Pool | Add, axis: int, outputs: tuple[int, int], size: int) -> list[int]:
    """Rows or columns of a plane that some outputs read."""
    if layer.kind == "fc":
        return list(range(size))
    begins = [n * layer.stride[axis] - layer.padding[2 * axis] for n in range(*outputs)]
    read = {first + k * layer.dilation[axis] for first in begins for k in range(layer.kernel[axis])}
    return sorted(place for place in read if 0 <= place < size)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(300))
def test_beats_are_parts_of_the_reference(seed: int) -> None:
    """Of any layer and any number of inputs; what is not under a window is poison."""
    random = Random(seed)
    shape, joined = (random.randint(1, 3), random.randint(1, 7), random.randint(1, 7)), random.randint(1, 3)
    layer = random_layer(random, shape, joined)
    numbers = np.random.default_rng(seed)
    values = {f"x{n}": numbers.integers(-8, 9, (2, *shape)) for n in range(joined)}
    together = np.concatenate(list(values.values()), axis=1)
    data, weights = dict(values), None
    if layer.kind == "add":
        expected = reference_sum(list(values.values()))
    elif layer.kind == "pool":
        expected = reference_pool(layer, together)
    else:
        data["w"], weights = numbers.integers(-8, 9, layer.kernels_shape), "w"
        expected = reference_convolution(layer, together.reshape(2, *layer.input), data["w"])
    for rows in spans(random, layer.output_plane[0]):
        for cols in spans(random, layer.output_plane[1]):
            frame = random.randrange(2)
            read = np.ix_(under(layer, 0, rows, shape[1]), under(layer, 1, cols, shape[2]))
            chip = dict(data)
            for name, tensor in values.items():
                chip[name] = np.full_like(tensor, POISON)
                chip[name][frame][:, *read] = tensor[frame][:, *read]
            found = WindowBeat(layer, tuple(values), weights, frame, rows, cols)(chip)
            assert found.dtype == np.int64
            assert np.array_equal(found, expected[frame, :, slice(*rows), slice(*cols)])


def naive_pooling(layer: Pool, values: np.ndarray) -> np.ndarray:
    """Loops over windows and their places, as in a textbook; padding is what has no value."""
    result = np.zeros((*values.shape[:2], *layer.output_plane), dtype=np.int64)
    for image, channel, i, j in np.ndindex(result.shape):
        window = []
        for h, w in np.ndindex(*layer.kernel):
            row, col = i * layer.stride[0] + h - layer.padding[0], j * layer.stride[1] + w - layer.padding[2]
            if 0 <= row < values.shape[2] and 0 <= col < values.shape[3]:
                window.append(int(values[image, channel, row, col]))
        result[image, channel, i, j] = max(window) if layer.op == "max" else sum(window)
    return result


@given(st.integers(0, 2**32 - 1), st.sampled_from(["max", "average"]))
def test_the_reference_is_the_textbook_pooling(seed: int, op: str) -> None:
    random = Random(seed)
    kernel = random.randint(1, 4), random.randint(1, 3)
    height, width = (size + random.randint(0, 3) for size in kernel)
    pads = [random.randint(0, kernel[axis] - 1) for axis in (0, 0, 1, 1)]
    stride = random.randint(1, 3), random.randint(1, 3)
    table = {"kernel": kernel, "stride": stride, "padding": tuple(pads), "op": op}
    layer = Pool(name="pool", kind="pool", input=(2, height, width), **table)
    values = np.random.default_rng(seed).integers(-8, 9, (2, 2, height, width))
    assert np.array_equal(reference_pool(layer, values), naive_pooling(layer, values))


def test_the_largest_of_negative_values_is_not_the_padding() -> None:
    layer = Pool(name="p", kind="pool", input=(1, 2, 2), kernel=(2, 2), stride=(2, 2), padding=(1, 1, 1, 1))
    values = np.array([[[[-1, -2], [-3, -4]]]])
    assert reference_pool(layer, values).tolist() == values.tolist()
    beat = WindowBeat(layer, ("x",), None, 0, (0, 2), (1, 2))
    assert beat({"x": values}).tolist() == [[[-2], [-4]]]


def test_a_fully_connected_layer_takes_whole_planes() -> None:
    layer = Layer(kind="fc", inputs=6, outputs=2)
    chip = {"a": np.array([[[[1, 2], [3, 4]]]]), "b": np.array([[[[5, 6]]]])}
    chip["w"] = np.array([[1, 10, 100, 1000, 10_000, 100_000], [1, 1, 1, 1, 1, 1]]).reshape(2, 6, 1, 1)
    assert WindowBeat(layer, ("a", "b"), "w", 0, (0, 1), (0, 1))(chip).ravel().tolist() == [654_321, 21]


# Whole programs ----------------------------------------------------------------------------------


def tiled(layer: Layer, random: Random, generated: bool) -> Program:
    """One step per tile of rows, columns and input channels; partial sums stay on chip."""
    per_group = layer.input[0] // layer.groups
    tensors = (
        Tensor(
            "input",
            (layer.batch, layer.groups, per_group, *layer.padded_plane),
            "input",
        ),
        Tensor("kernels", layer.kernels_shape, "kernels"),
        Tensor("output", layer.output_shape, "output", macs_per_element=layer.macs_per_output),
    )
    top, _, left, _ = layer.padding
    steps, held = [], ()
    for down in spans(random, layer.output_plane[0]):
        for across in spans(random, layer.output_plane[1]):
            target = Box((None, None, down, across))
            for channels in spans(random, per_group):
                plane = []
                for axis, (first, last), before in ((0, down, top), (1, across, left)):
                    begin = first * layer.stride[axis]
                    end = (last - 1) * layer.stride[axis] + layer.kernel_extent[axis]
                    if generated:
                        begin, end = max(begin, before), min(end, before + layer.input[1 + axis])
                    plane.append((begin, max(begin, end)))
                window, weights = Box((None, None, channels, *plane)), Box((None, channels, None, None))
                tile = whole(layer, channels=channels, rows=down, cols=across, generated_padding=generated)
                macs = (channels[1] - channels[0]) * layer.kernel[0] * layer.kernel[1]
                operands = ("input", window), ("kernels", weights)
                steps.append(
                    Step(
                        free=tuple(Free(*region) for region in held),
                        load=tuple(Load(*region) for region in operands),
                        compute=(Compute("output", target, operands, macs, operation=tile),),
                    )
                )
                held = operands
            steps.append(Step(write_back=(WriteBack("output", target),)))
    steps.append(Step(free=tuple(Free(*region) for region in held)))
    engines = Engine("load", 1), Engine("write", 1), Engine("compute", setup=1)
    return Program(tensors, (Memory("mem"),), engines, tuple(steps))


@given(layers(), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=examples(50))
def test_tiled_programs_compute_the_reference(table: dict, seed: int, generated: bool) -> None:
    layer = Layer(**table)
    program = tiled(layer, Random(seed), generated)
    values, kernels = random_values(layer, seed)
    data = {
        "input": padded(layer, values).reshape(program.tensors[0].shape),
        "kernels": kernels,
    }
    expected = {"output": reference_convolution(layer, values, kernels)}
    report = execute(program, data=data, expected=expected)
    assert report.violation is None
    assert report.numeric is True


def test_a_row_that_is_not_loaded_is_noticed() -> None:
    """A tile that claims to need less than it reads gets past the rules, not past the numbers."""
    layer = Layer(input=(2, 3, 3), kernels=1, kernel=(2, 2))
    values, kernels = random_values(layer, 1)
    weights = Box((None,) * 4)
    for window in (Box((None, None, None, None, None)), Box((None, None, None, (1, 3), None))):
        regions = ("input", window), ("kernels", weights)
        compute = Compute("output", weights, regions, 8, operation=whole(layer))
        steps = (
            Step(load=tuple(Load(*region) for region in regions), compute=(compute,)),
            Step(tuple(Free(*region) for region in regions), (WriteBack("output", weights),)),
        )
        report = execute(
            replace(tiled(layer, Random(1), False), steps=steps),
            data={"input": values.reshape(1, 1, 2, 3, 3), "kernels": kernels},
            expected={"output": reference_convolution(layer, values, kernels)},
        )
        assert report.violation is None
        assert report.numeric is (window.ranges[3] is None)
