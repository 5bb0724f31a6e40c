"""Tables built in Python: the errors of files, NumPy's values, copies that are built anew."""

from __future__ import annotations

import copy
import pickle
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from conftest import refused, tells
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.room import room_of
from tilewright.run.instance import build, digest, read
from tilewright.spec.arrays import distinct
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer

GOOD: dict[str, Any] = {"input": (3, 8, 8), "kernels": 4, "kernel": (3, 3)}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kernels": 0}, "layer.kernels = 0 .. 1"),
    ({"kernel": [20, 20]}, "layer.kernel = [20, 20] .. height .. 20 .. 8"),
    ({"kernels": "4"}, "layer.kernels = '4' .. integer"),
    ({"kernels": 4.0}, "layer.kernels = 4.0 .. integer"),
    ({"kernels": True}, "layer.kernels = true .. integer"),
    ({"kernels": np.float64(4)}, "layer.kernels = 4.0 .. integer"),
    ({"kernel_size": 3}, "layer.kernel_size = 3 .. unknown key .. kernels, kernel"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_the_constructor_refuses_as_a_file_does(change: dict[str, Any], message: str) -> None:
    table = {**GOOD, **change}
    with pytest.raises(InputError) as python:
        Layer(**table)
    assert tells(python.value, message)
    as_file = {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
    with pytest.raises(InputError) as file:
        build("tiling", {"layer": as_file, "machine": {"kind": "dsp", "memory_bytes": 4096}})
    assert tells(file.value, message)


def test_a_missing_field_is_named() -> None:
    with refused("layer.kernel", None, "missing"):
        Layer(input=(3, 8, 8), kernels=4)  # type: ignore[call-arg]


def test_a_list_is_not_called_too_short_for_a_mistake_in_it() -> None:
    with pytest.raises(InputError) as caught:
        build("fusion", {"network": {"layers": [{**GOOD, "name": "a", "kernal": (3, 3)}]}, "machine": {}})
    assert tells(caught.value, "layers[0].kernal = [3, 3] .. unknown key")
    assert "at least" not in str(caught.value)
    with refused("network.layers", (), "at least 1"):
        build("fusion", {"network": {"layers": []}, "machine": {}})


@pytest.mark.parametrize(
    ("shape", "axis"), [((0,), None), ((1,), None), ((40,), None), ((3, 4), None), ((3, 40), 1)]
)
def test_different_values_are_those_that_numpy_finds(shape: tuple[int, ...], axis: int | None) -> None:
    values = np.random.default_rng(0).integers(0, 5, shape)
    assert (distinct(values, axis) == np.unique(values, axis=axis)).all()


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16])
def test_numpy_integers_are_taken(kind: Any) -> None:
    layer = Layer(
        input=(kind(3), kind(8), kind(8)),
        kernels=kind(4),
        kernel=np.array([3, 3], dtype=kind),  # type: ignore[arg-type]
    )
    assert layer == Layer(**GOOD)
    assert all(type(value) is int for value in (*layer.input, layer.kernels, *layer.kernel))


def test_a_copy_is_built_anew() -> None:
    problem = read("lenet5-idsp").problem
    assert problem.parts[0].problem.machine.memory_bytes == 131072  # cached from here on
    machine = problem.machine.model_copy(update={"memory_bytes": 2048})
    for smaller in (
        problem.model_copy(update={"machine": machine}),
        problem.with_(machine=machine),
        problem.with_(machine={"memory_bytes": 2048}),
        problem.with_(machine={"memory_bytes": np.int64(2048)}),
    ):
        assert {part.problem.machine.memory_bytes for part in smaller.parts} == {2048}
        assert smaller.machine.clock_mhz == problem.machine.clock_mhz
        assert digest("tiling", smaller) != digest("tiling", problem)
    assert problem.machine.memory_bytes == 131072


def test_a_copy_is_checked() -> None:
    problem = read("lenet5-idsp").problem
    for changes in (
        {"machine": {"memory_byte": 2048}},
        {"machin": {"memory_bytes": 2048}},
        {"machine": {"memory_bytes": -1}},
        {"machine": {"memory_bytes": 2}},  # no layer fits
        {"objective": {"minimise": "fun"}},
    ):
        with pytest.raises(InputError):
            problem.with_(**changes)
        with pytest.raises(InputError):
            problem.model_copy(update=changes)


def test_another_kind_replaces_a_table() -> None:
    problem = read("alexnet-conv3-64k").problem
    npu = read("lenet-nmp").problem.machine
    other = problem.with_(machine=npu.model_dump(), objective={"minimise": "time"})
    assert other.machine == npu
    assert room_of(other).name == "tiling"


@given(
    kernels=st.integers(1, 64), kernel=st.integers(1, 5), stride=st.integers(1, 3), padding=st.integers(0, 2)
)
def test_copies_equal_what_is_built_at_once(kernels: int, kernel: int, stride: int, padding: int) -> None:
    table = {
        "kernels": kernels,
        "kernel": (kernel, kernel),
        "stride": (stride, stride),
        "padding": (padding,) * 4,
    }
    try:
        at_once = Layer(**{**GOOD, **table})
    except InputError as error:
        with pytest.raises(InputError) as again:
            Layer(**GOOD).with_(**table)
        assert str(again.value) == str(error)
        return
    stepwise = Layer(**GOOD).with_(**table)
    assert stepwise == at_once
    assert stepwise.output_shape == at_once.output_shape
    assert copy.deepcopy(stepwise) == pickle.loads(pickle.dumps(stepwise)) == at_once


def test_equal_problems_are_equal_whatever_has_been_derived_from_them() -> None:
    """Cached arrays have no single truth value, so comparing them raised an error."""
    first, second = (read("lenet5-conv1-g20").problem for _ in range(2))
    for problem in (first, second):
        derived = [
            name
            for name in dir(type(problem))
            if isinstance(getattr(type(problem), name, None), cached_property)
        ]
        arrays = [value for name in derived if isinstance(value := getattr(problem, name), np.ndarray)]
        assert arrays, "else nothing is tested"
    assert first == second
    assert hash(first) == hash(second)
    assert first != second.with_(limits={"reloads": 3})
