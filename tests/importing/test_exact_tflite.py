"""Quantised TFLite files are computed bit for bit as LiteRT's kernels compute them."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, examples, nightly
from numpy.typing import NDArray
from tests.importing.quantised_at_random import DRAWS, one_operator, some_operators
from tests.importing.test_tflite import CASES
from tests.importing.tflite_files import TfliteFile, by_litert, drawn

from tilewright import importing
from tilewright.importing.tflite.exact import exact_operations
from tilewright.residency.rows import executed_graph
from tilewright.simulator.arithmetic.quantised import ExactNetwork
from tilewright.simulator.arithmetic.quantised.scaling import factor_of, scaled, scaled_wide
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph

litert = pytest.importorskip("ai_edge_litert")

FOLDER = "TILEWRIGHT_MLPERF_TINY"
"""Environment variable with the folder of MLPerf Tiny's files: see docs/import.md."""

SPOTTER = ROOT / "docs" / "files" / "kws_ref_model.tflite"

REFUSED = {
    "int8": set[str](),
    "int16": {"hard swish", "logistic", "softmax", "softmax scaled", "tanh"},
}
"""Operators that LiteRT does not take either, of these types or scales."""

NO_KERNEL = {"int16": {"to space", "to depth"}}
"""Those for which LiteRT has none."""


def graph_of(path: Path) -> NetworkGraph:
    """Return the network of a file as the room of residency executes it."""
    return executed_graph(coarse_graph(importing.network(path), numbers=True), numbers=True)


def by_micro(path: Path, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the output as TensorFlow Lite for Microcontrollers computes it."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 22)
    for place, values in enumerate(inputs):
        interpreter.set_input(values, place)
    interpreter.invoke()
    return [interpreter.get_output(0)]


def agrees(path: Path, network: ExactNetwork, seed: int, *, micro: bool = False) -> None:
    """Compare all outputs with those of LiteRT, or of the kernels for microcontrollers."""
    given = drawn(path, seed)
    theirs = by_micro(path, given) if micro else by_litert(path, given)
    for ours, each in zip(network.run(given).values(), theirs, strict=True):
        assert ours.dtype == each.dtype
        np.testing.assert_array_equal(ours, each)


@pytest.mark.parametrize("kind", ["int8", "int16"])
@pytest.mark.parametrize("name", CASES)
def test_operators_are_computed_as_litert_does(name: str, kind: str, tmp_path: Path) -> None:
    for seed in range(examples(16, 2)):
        file = TfliteFile(kind, seed)
        path = file.save(tmp_path / "network.tflite", CASES[name](file))
        if name in REFUSED[kind]:
            with pytest.raises(InputError, match="is not computed exactly") as refused:
                exact_operations(path)
            assert str(path) in str(refused.value)
            return
        network = exact_operations(path)
        network.by_operation(graph_of(path))
        if name not in NO_KERNEL.get(kind, ()):
            agrees(path, network, seed)


@pytest.mark.parametrize("kind", ["int8", "int16"])
@pytest.mark.parametrize("name", DRAWS)
def test_any_shapes_and_scales_are_computed_as_litert_does(name: str, kind: str, tmp_path: Path) -> None:
    for seed in range(examples(200, 6)):
        file, output = one_operator(kind, name, seed)
        path = file.save(tmp_path / "network.tflite", output)
        agrees(path, exact_operations(path), seed)


@pytest.mark.parametrize("kind", ["int8", "int16"])
@pytest.mark.parametrize("seed", range(examples(200, 6)))
def test_small_networks_are_computed_as_litert_does(kind: str, seed: int, tmp_path: Path) -> None:
    file, output = some_operators(kind, seed)
    path = file.save(tmp_path / "network.tflite", output)
    network = exact_operations(path)
    agrees(path, network, seed)
    found = network.by_operation(graph_of(path))
    assert {each for every in found.values() for each in every} == set(network.operations)


@nightly
@pytest.mark.parametrize("kind", ["int8", "int16"])
@pytest.mark.parametrize("name", [*DRAWS, "network"])
def test_kernels_of_microcontrollers_compute_the_same(name: str, kind: str, tmp_path: Path) -> None:
    """But of operators and types of which they have none."""
    pytest.importorskip("tflite_micro")
    compared = 0
    for seed in range(100):
        file, output = some_operators(kind, seed) if name == "network" else one_operator(kind, name, seed)
        path = file.save(tmp_path / "network.tflite", output)
        network = exact_operations(path, kernels="micro")
        try:
            agrees(path, network, seed, micro=True)
        except RuntimeError:  # TFLM's own
            continue
        compared += 1
    assert compared > 20


def networks() -> list[Path]:
    """Return the files of MLPerf Tiny that are here."""
    folder = os.environ.get(FOLDER)
    return sorted(Path(folder).glob("*.tflite")) if folder else [SPOTTER]


@pytest.mark.parametrize("path", networks(), ids=lambda path: path.stem)
def test_networks_of_mlperf_tiny_are_computed_as_litert_does(path: Path) -> None:
    """All outputs of 20 random inputs are equal, and all tensors between of the first."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    network = exact_operations(path)
    for seed in range(examples(20, 3)):
        agrees(path, network, seed)
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    given = drawn(path, 0)
    for known, values in zip(interpreter.get_input_details(), given, strict=True):
        interpreter.set_tensor(known["index"], values)
    interpreter.invoke()
    numbers = {each["name"]: each["index"] for each in interpreter.get_tensor_details()}
    for name, ours in network.run(given, every=True).items():
        np.testing.assert_array_equal(ours, interpreter.get_tensor(numbers[name]), name)


@pytest.mark.parametrize("path", networks(), ids=lambda path: path.stem)
def test_nothing_of_a_file_is_left_over(path: Path) -> None:
    network, graph = exact_operations(path), graph_of(path)
    found = network.by_operation(graph)
    assert list(found) == [op.name for op in graph.ops] and all(found.values())
    every = [each for own in found.values() for each in own]
    assert every == list(network.operations)
    numbers = [each.number for each in network.operations]
    assert numbers == list(range(len(numbers)))


@nightly
@pytest.mark.parametrize("path", networks(), ids=lambda path: path.stem)
def test_networks_are_computed_as_microcontrollers_do(path: Path) -> None:
    network = exact_operations(path, kernels="micro")
    for seed in range(20):
        agrees(path, network, seed, micro=True)


def test_a_product_is_rounded_twice_or_once() -> None:
    """A sum of 32 bits is rounded to the nearest twice; one of 64 bits has a factor of 16 bits."""
    half = factor_of(0.5)
    assert half == (1 << 30, 0)
    sums = np.array([-3, -2, -1, 0, 1, 2, 3])
    assert scaled(sums, *half).tolist() == [-1, -1, 0, 0, 1, 1, 2]
    assert scaled(sums, half.multiplier, -1).tolist() == [-1, -1, 0, 0, 1, 1, 1]
    assert scaled_wide(sums, *half).tolist() == [-1, -1, 0, 0, 1, 1, 2]
    assert factor_of(0.0) == factor_of(2.0**-40) == (0, 0)
    assert factor_of(1 - 2.0**-40) == (1 << 30, 1)


@pytest.mark.parametrize("operator", ["EXP", "ELU", "LOGISTIC", "TANH"])
def test_functions_of_one_integer_are_tables(operator: str, tmp_path: Path) -> None:
    """ELU has no reference kernel, and all kernels of tables are one."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    rng = np.random.default_rng(7)
    given = np.arange(-128, 128).astype(np.int8)[np.newaxis]
    for _ in range(examples(60, 6)):
        file = TfliteFile("int8")
        own = file.tensor(
            [1, 256], scale=float(10 ** rng.uniform(-3, -0.5)), zero=int(rng.integers(-128, 128))
        )
        file.graph.inputs.append(own)
        scale, zero = float(10 ** rng.uniform(-3, -0.5)), int(rng.integers(-128, 128))
        scale, zero = (1 / 256, -128) if operator == "LOGISTIC" else (scale, zero)
        output = file.tensor([1, 256], scale=scale, zero=zero)
        file.add(operator, [own], [output])
        path = file.save(tmp_path / "network.tflite", output)
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
        interpreter.invoke()
        theirs = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(exact_operations(path).run([given])["t1"], theirs)


def test_inputs_of_another_kind_are_refused() -> None:
    network = exact_operations(SPOTTER)
    (given,) = drawn(SPOTTER, 0)
    for wrong, told in (
        ([], "the network has 1"),
        ([given[0]], "must be int8"),
        ([given.astype(np.int16)], "must be int8"),
    ):
        with pytest.raises(InputError, match=told):
            network.run(wrong)


@pytest.mark.parametrize("seed", range(examples(2000, 30)))
def test_a_damaged_file_is_refused_or_computed(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    file, output = one_operator("int8", list(DRAWS)[seed % len(DRAWS)], seed)
    damaged = bytearray(file.content(output))
    for _ in range(rng.choice([1, 1, 4, 40])):
        damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    path = tmp_path / "network.tflite"
    path.write_bytes(bytes(damaged))
    with suppress(InputError):
        network = exact_operations(path)
        known = [network.tensors[name] for name in network.inputs]
        if sum(prod(each.shape) for each in network.tensors.values()) < 10**6:
            network.run([np.zeros(each.shape, each.type) for each in known])


def test_operators_in_floats_are_refused(tmp_path: Path) -> None:
    file = TfliteFile("float32")
    path = file.save(tmp_path / "network.tflite", CASES["conv"](file))
    with pytest.raises(InputError, match="its weights are float32, not int8"):
        exact_operations(path)
