"""The integer network: against plain Python integers, against floating point, and where sums overflow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits_at_random import CHAIN, chain, write_data
from conftest import tells
from hypothesis import given
from hypothesis import strategies as st

from tilewright.bitwidth import Plan, Problem, costs, simulate, violation
from tilewright.bitwidth.calibration import ranges_of
from tilewright.bitwidth.measurement import accuracy, interval, measure, same_numbers
from tilewright.bitwidth.noise import decibels
from tilewright.bitwidth.summary import FAR_BELOW_DB
from tilewright.core import catalogue
from tilewright.simulator.arithmetic.fixed_point import Format
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer, Parameters
from tilewright.simulator.arithmetic.network_executor import convolve, run
from tilewright.simulator.arithmetic.reference import reference_convolution, reference_pool
from tilewright.spec.errors import InputError
from tilewright.spec.network import NamedLayer, Network, Pool

WIDE = Plan(("conv", "fc"), ((12, 12), (12, 12)))


@st.composite
def layers(draw: st.DrawFn) -> NamedLayer:
    groups, size = draw(st.sampled_from([1, 2])), draw(st.integers(3, 6))
    kernel = draw(st.integers(1, 2))
    return NamedLayer(
        name="conv",
        input=(2 * groups, size, size + 1),
        kernels=2 * groups,
        kernel=(kernel, 3),
        stride=(draw(st.integers(1, 2)), 1),
        dilation=(draw(st.integers(1, 2)), 1),
        padding=(0, 0, draw(st.integers(0, 2)), 1),
        groups=groups,
    )


@given(layers(), st.integers(0, 2**31))
def test_sums_are_those_of_the_reference(layer: NamedLayer, seed: int) -> None:
    random = np.random.default_rng(seed)
    inputs = random.integers(-99, 99, (2, *layer.input))
    weights = random.integers(-99, 99, layer.kernels_shape)
    expected = reference_convolution(layer.unnamed(2), inputs, weights)
    assert (convolve(layer, inputs.astype(float), weights.astype(float)) == expected).all()
    for bits in (8, 16, 32):  # in floating point, and in integers where these are too large for it
        ours = IntegerLayer(layer, Format(bits, 0), Format(bits, 0), 40)
        assert (ours.sums(inputs, weights) == expected).all()


@given(layers(), st.integers(4, 20), st.integers(0, 2**31))
def test_stepwise_wrapping_equals_wrapping_at_the_end(layer: NamedLayer, bits: int, seed: int) -> None:
    """In each place; and it is the sum in 64 bits wherever that fits."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 1, (1, *layer.input))
    parameters = Parameters(random.normal(0, 1, layer.kernels_shape), np.zeros(layer.kernels))
    ours = IntegerLayer(layer, Format(6, 4), Format(7, 5), bits)
    _, sums, kept = ours.run(values, parameters)
    inputs, weights = ours.inputs.quantise(values), ours.weights.quantise(parameters.weights)
    assert (ours.one_by_one(inputs, weights) == kept[0]).all()
    fits = (sums >= -(2 ** (bits - 1))) & (sums < 2 ** (bits - 1))
    assert (kept[fits] == sums[fits]).all()
    assert (kept[~fits] != sums[~fits]).all()


def test_pools_and_the_rest_compute_as_the_reference(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(-9, 9, (2, 3, 5, 5))
    for op in ("max", "average"):
        pool = Pool(name="pool", kind="pool", op=op, input=(3, 5, 5), kernel=(2, 3), stride=(2, 1))
        network: Any = {"layers": [pool.model_dump()]}
        ours = run(Network(**network), images.astype(float), lambda _layer, values: values)
        expected = reference_pool(pool, images)
        assert np.allclose(ours, expected / (1 if op == "max" else 6))


def test_wide_numbers_give_what_floating_point_gives(tmp_path: Path) -> None:
    problem = chain(tmp_path, bits=40)
    found = measure(problem, WIDE)
    assert (found.images, found.overflows, found.agreeing) == (6, 0, 6)
    assert found.right == found.float_right
    assert found.noise < 1e-4 * found.signal


def test_the_network_in_plain_integers(tmp_path: Path) -> None:
    """One output of the first layer, multiplied and wrapped by hand."""
    problem = chain(tmp_path, bits=14, machine={"widths": [7]})
    known, parameters = problem.ranges["conv"], problem.parameters["conv"]
    layer, image = problem.layers[0], problem.samples.inputs[:1]
    ours = IntegerLayer.of(layer, (7, 7), known.largest, 14)
    output, sums, kept = ours.run(image, parameters)
    total = 0
    for channel in range(2):
        for row in range(3):
            for column in range(3):
                value = image[0, channel, row + 1, column + 2] * 2.0**ours.inputs.fraction
                weight = parameters.weights[1, channel, row, column] * 2.0**ours.weights.fraction
                total += round(max(min(value, 63), -64)) * round(max(min(weight, 63), -64))
    assert sums[0, 1, 2, 3] == total
    wrapped = (total + 2**13) % 2**14 - 2**13
    assert kept[0, 1, 2, 3] == wrapped
    bias = np.floor(parameters.bias[1] * 2.0**ours.fraction + 0.5)
    assert output[0, 1, 2, 3] == (wrapped + bias) / 2.0**ours.fraction


@pytest.mark.parametrize("bits", [6, 8, 10, 16])
def test_overflows_are_counted_and_located(tmp_path: Path, bits: int) -> None:
    """A plan for 16 bits in a narrower accumulator: an overflow is a sum that only 64 bits hold."""
    wide = chain(tmp_path, bits=16)
    problem = wide.with_(machine={"accumulator_bits": bits, "widths": None}, limits={"bound": "output_range"})
    plan = Plan(("conv", "fc"), ((6, 7), (7, 6)))
    found = measure(problem, plan)
    layer, parameters = problem.layers[0], problem.parameters["conv"]
    ours = IntegerLayer.of(layer, (6, 7), problem.ranges["conv"].largest, 64)
    sums = ours.sums(ours.inputs.quantise(problem.samples.inputs), ours.weights.quantise(parameters.weights))
    half = 2 ** (bits - 1)
    wrong = np.argwhere((sums < -half) | (sums >= half)).tolist()
    assert found.layers["conv"].overflows == len(wrong)
    assert found.layers["conv"].located == wrong[:8]
    assert found.layers["conv"].sums == sums.size
    assert wrong or bits > 8
    assert same_numbers(problem, plan)


@given(st.integers(0, 2**31))
def test_no_sum_overflows_that_the_output_range_has_seen(seed: int) -> None:
    """A sum beyond the accumulator is beyond the largest one in floating point, by no more than rounding."""
    with tempfile.TemporaryDirectory() as folder:
        problem = chain(Path(folder), bits=14, seed=seed)
        layer = problem.layers[0]
        for one in problem.candidates_of(layer):
            ours = IntegerLayer.of(layer, one[:2], problem.ranges["conv"].largest, 14)
            _, sums, kept = ours.run(problem.samples.inputs, problem.parameters["conv"])
            step = 2.0**-ours.inputs.fraction, 2.0**-ours.weights.fraction
            known = problem.ranges["conv"]
            # Half a step of each factor, in each of the products.
            rounding = 18 * (step[0] * known.weights + step[1] * known.input + step[0] * step[1]) / 2
            beyond = np.abs(sums[sums != kept]) / 2.0**ours.fraction
            assert (beyond <= known.output + rounding).all()  # type: ignore[operator]


def test_a_simulation_says_what_was_measured(tmp_path: Path) -> None:
    problem = chain(tmp_path, bits=14)
    plan = Plan(("conv", "fc"), ((6, 6), (6, 6)))
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None
    assert report.numeric is True
    seen = report.measures.measured
    assert (seen.images, seen.overflows) == (6, 0)
    assert report.measures.layers["fc"].input_format == [6, 5 - np.frexp(problem.ranges["fc"].input)[1]]
    assert report.measures.moved_bits == 6 * (50 + 54 + 12 + 48)
    assert seen.signal_to_noise_db == pytest.approx(10, abs=25)


def test_the_model_is_near_what_is_measured_of_a_layer(tmp_path: Path) -> None:
    """Within 2 dB for inputs and weights at random, as the model has them."""
    problem = chain(tmp_path, bits=40)
    report = simulate(problem, Plan(("conv", "fc"), ((10, 10), (10, 10))))
    model = 10 * np.log10(1e9 / report.measures.layers["conv"].noise_ppb)
    measured = report.measures.layers["conv"].measured.signal_to_noise_db
    assert abs(model - measured) < 2


def test_algorithm_2_measures_layer_by_layer(tmp_path: Path) -> None:
    """Its first layer is as accurate as any widths that use all bits, with the second in floating point."""
    problem = chain(tmp_path, bits=9, seed=7)
    plan = catalogue.heuristic("bitwidth", "algorithm2").plan(problem)
    assert violation(problem, plan) is None
    right: dict[Any, int] = {}
    for first in problem.candidates_of(problem.layers[0]):
        if first.inputs + first.weights == problem.available_bits(problem.layers[0]):
            ours = IntegerLayer.of(problem.layers[0], first[:2], problem.ranges["conv"].largest, 9)
            right[first[:2]] = accuracy(problem, {"conv": ours}, 6)
    assert right[plan.widths[0]] == max(right.values()) > min(right.values())


def test_intervals_are_wilsons() -> None:
    low, high = interval(90, 100)
    assert (low, high) == pytest.approx((0.8256, 0.9448), abs=1e-4)
    assert interval(0, 10)[0] == pytest.approx(0, abs=1e-12)


# Data that is refused ------------------------------------------------------------------------------------


def refused(folder: Path, **changes: Any) -> str:
    """Return what is said of `CHAIN` with other arrays in its files; None takes one away."""
    data = write_data(folder)
    good = chain(folder)
    for file, table in changes.items():
        held = dict(np.load(data[file]))
        for name, array in table.items():
            held.pop(name, None)
            if array is not None:
                held[name] = array
        np.savez(data[file], **held)
    with pytest.raises(InputError) as caught:
        Problem(network={"layers": CHAIN}, ranges=good.ranges, machine=good.machine, data=data)
    return str(caught.value)


def test_bad_data_is_refused_with_file_field_value_and_limit(tmp_path: Path) -> None:
    wrong = np.zeros((3, 2, 3, 2))
    told = refused(tmp_path, weights={"conv.weights": wrong})
    assert "conv.weights" in told and "3 x 2 x 3 x 2" in told and "3 x 2 x 3 x 3" in told
    assert "weights.npz" in told
    hole = np.zeros((4, 12, 1, 1))
    hole[2, 5] = np.nan
    told = refused(tmp_path, weights={"fc.weights": hole})
    assert "fc.weights[2, 5, 0, 0]" in told and "nan" in told and "finite" in told
    assert "holds no conv.bias" in refused(tmp_path, weights={"conv.bias": None})
    assert "holds no fc.weights" in refused(tmp_path, weights={"fc.weights": None})
    assert "extra" in refused(tmp_path, weights={"extra": np.zeros(3)})
    assert tells(refused(tmp_path, samples={"inputs": np.zeros((3, 1, 5, 5))}), "3 x 1 x 5 x 5 .. 2 x 5 x 5")
    assert "holds no inputs" in refused(tmp_path, samples={"inputs": None})
    assert tells(refused(tmp_path, samples={"labels": np.full(6, 4)}), "labels = 4 .. 0 to 3")
    large = np.full((4, 12, 1, 1), 50.0)
    assert "ranges.fc.weights" in refused(tmp_path, weights={"fc.weights": large})


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    good = chain(tmp_path)
    data = write_data(tmp_path)
    for content, told in ((None, "no such file"), (b"text", "is no .npz file")):
        other = tmp_path / "other.npz"
        if content is not None:
            other.write_bytes(content)
        for field in data:
            with pytest.raises(InputError, match=told) as caught:
                good.with_(data={**data, field: str(other)})
            assert f"data.{field}" in str(caught.value) and "other.npz" in str(caught.value)


def test_a_tampered_weight_is_another_problem(tmp_path: Path) -> None:
    problem = chain(tmp_path)
    before = problem.told()
    held = dict(np.load(tmp_path / "weights.npz"))
    held["fc.weights"][0, 0] = -held["fc.weights"][0, 0] / 2
    np.savez(tmp_path / "weights.npz", **held)
    assert problem.told() != before


@pytest.mark.parametrize("reader", ["average", "sum"])
def test_what_is_averaged_or_added_up_has_a_format_that_holds_it(tmp_path: Path, reader: str) -> None:
    """Values cancel in an average and in a sum, so that what is read is far larger than what comes of it."""
    shape = [4, 6, 6]
    conv = {"name": "conv", "input": [2, 6, 6], "kernels": 4, "kernel": [1, 1], "bias": True}
    network: dict[str, Any] = {
        "average": [
            conv,
            {"name": "mean", "kind": "pool", "op": "average", "input": shape, "kernel": [6, 6]},
            {"name": "fc", "kind": "fc", "inputs": 4, "outputs": 3},
        ],
        "sum": [
            conv,
            {**conv, "name": "other", "inputs": ["input"]},
            {"name": "sum", "kind": "add", "input": shape, "inputs": ["conv", "other"]},
            {"name": "fc", "kind": "fc", "inputs": 144, "outputs": 3},
        ],
    }[reader]
    random = np.random.default_rng(5)
    kernels = {"conv": (4, 2, 1, 1), "fc": (3, network[-1]["inputs"], 1, 1)}
    arrays = {f"{name}.weights": random.normal(0, 4, size) for name, size in kernels.items()}
    if reader == "sum":
        arrays["other.weights"] = -1.01 * arrays["conv.weights"]
    arrays |= {name.replace("weights", "bias"): np.zeros(len(each)) for name, each in arrays.items()}
    np.savez(tmp_path / "weights.npz", **arrays)
    np.savez(tmp_path / "samples.npz", inputs=random.normal(0, 1, (5, 2, 6, 6)))
    data = {"weights": str(tmp_path / "weights.npz"), "samples": str(tmp_path / "samples.npz")}
    problem = Problem(
        network={"layers": network},
        ranges=ranges_of({"layers": network}, **data),
        machine={"accumulator_bits": 32},
        limits={"bound": "output_range"},
        data=data,
    )
    plan = catalogue.heuristic("bitwidth", "greedy").plan(problem)
    measured = measure(problem, plan).network_measures()
    assert measured.saturated == 0
    lost = 40 if reader == "sum" else 0  # decibels, of values that cancel to a hundredth
    assert measured.signal_to_noise_db > decibels(costs(problem, plan)[0]) - FAR_BELOW_DB - lost
