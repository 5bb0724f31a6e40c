"""Ranges of a network: onnxruntime and our own executor see the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from bits_at_random import CHAIN, write_data
from conftest import examples
from hypothesis import given, settings
from numbered import LRN, ended, randoms, tables

from tilewright.bitwidth import calibration
from tilewright.bitwidth.calibration import executed_by, ranges_of, ranges_seen
from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.simulator.arithmetic import onnx_executor
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.spec.errors import InputError
from tilewright.spec.network import NamedLayer, Network

FUNCTIONS = ("relu", "tanh", "sigmoid", "softmax", "identity")


def assert_alike(network: Network, parameters: dict[str, Parameters], images: Any) -> None:
    """Both see the same, as nearly as single precision is."""
    pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `test`, is not installed")
    theirs = ranges_seen(network, parameters, images, "onnxruntime")
    ours = ranges_seen(network, parameters, images, "reference")
    assert theirs.keys() == ours.keys()
    for name, each in ours.items():
        assert theirs[name].model_dump() == pytest.approx(each.model_dump(), rel=1e-4, abs=1e-6)


@settings(max_examples=examples(80))
@given(randoms)
def test_both_executors_see_the_same(random: Random) -> None:
    layers = ended(random, tables(random, FUNCTIONS))
    network = Network(layers=layers)
    rng = np.random.default_rng(random.getrandbits(32))
    parameters = {
        # Small ones: far below zero onnxruntime's sigmoid is zero, which changes the density.
        layer.name: Parameters(rng.normal(0, 0.4, layer.kernels_shape), rng.normal(0, 0.4, layer.kernels))
        for layer in network.layers
        if isinstance(layer, NamedLayer)
    }
    assert_alike(network, parameters, rng.normal(0, 2, (3, *network.layers[0].input)))


def test_both_see_the_same_of_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of some images at a time."""
    file = catalogue.folders("instances", "bitwidth")[0] / "lenet5-bits.toml"
    problem = read(file).problem
    monkeypatch.setattr(calibration, "ELEMENTS_AT_A_TIME", 300_000)
    assert_alike(problem.network, dict(problem.parameters), problem.samples.inputs[:20])


def test_what_runs_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network: Any = {"layers": CHAIN}
    data = write_data(tmp_path)
    ours, theirs = (ranges_of(network, **data, executor=each)["fc"] for each in ("reference", "auto"))
    assert ours.model_dump() == pytest.approx(theirs.model_dump(), rel=1e-5)
    assert executed_by(Network(**network), "auto") == onnx_executor.version()
    even = Network(
        layers=[
            {"name": "lrn", "input": [4, 2, 2], **LRN, "response": {"size": 4}},
            {"name": "fc", "kind": "fc", "inputs": 16, "outputs": 2},
        ]
    )
    assert executed_by(even, "auto") is None
    monkeypatch.setattr(calibration, "version", lambda: None)
    assert executed_by(Network(**network), "auto") is None
    with pytest.raises(InputError, match=r"pip install 'tilewright\[onnxruntime\]'"):
        ranges_of(network, **data, executor="onnxruntime")
    with pytest.raises(InputError, match=r"executor = 'numpy': .* auto, onnxruntime, reference"):
        ranges_of(network, **data, executor="numpy")  # type: ignore[arg-type]
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"layer lrn: onnxruntime .* odd"):
        executed_by(even, "onnxruntime")
