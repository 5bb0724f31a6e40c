"""Local response normalisation: against onnxruntime, and the error of the table."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tilewright.simulator.arithmetic.fixed_point import Format
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer, Parameters
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork
from tilewright.simulator.arithmetic.network_executor import refuse_unknown, run
from tilewright.simulator.arithmetic.response import PowerTable, normalise
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network, Response

RESPONSE = Response(size=5, alpha=0.5, beta=0.75, k=2.0)


@pytest.mark.parametrize("size", [1, 3, 5, 9])  # which takes odd ones alone
def test_it_is_that_of_onnxruntime(size: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    values = np.random.default_rng(size).normal(0, 3, (2, 6, 3, 4)).astype(np.float32)
    response = Response(size=size, alpha=0.5, beta=0.6, k=2.0)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=2.0)
    given, got = (helper.make_tensor_value_info(n, TensorProto.FLOAT, values.shape) for n in "xy")
    graph = helper.make_graph([node], "lrn", [given], [got])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [expected] = session.run(None, {"x": values})
    assert np.allclose(normalise(response, values.astype(float)), expected, atol=1e-5)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_it_is_the_sum_over_neighbours(size: int) -> None:
    """As ONNX words it: from floor((size - 1) / 2) channels before to ceil((size - 1) / 2) after."""
    values = np.random.default_rng(size).normal(0, 3, (1, 6, 1, 1))
    ours = normalise(Response(size=size, alpha=0.5, beta=0.6, k=2.0), values).ravel()
    flat = values.ravel().tolist()
    for channel, value in enumerate(flat):
        near = flat[max(0, channel - (size - 1) // 2) : channel + size // 2 + 1]
        assert ours[channel] == pytest.approx(value / (2 + 0.5 / size * sum(x * x for x in near)) ** 0.6)


@pytest.mark.parametrize("largest", [0.5, 4.0, 30.0])
def test_no_error_is_larger_than_is_told(largest: float) -> None:
    table = PowerTable.of(RESPONSE, largest)
    values = np.random.default_rng(0).uniform(-largest, largest, (3, 7, 5, 5))
    exact, ours = normalise(RESPONSE, values), table.normalised(RESPONSE, values)
    error = np.abs(ours / exact - 1).max()
    assert 0.2 * table.largest_error < error <= table.largest_error * (1 + 1e-9)


def test_a_network_in_integers_takes_the_table() -> None:
    layers = [
        {"name": "a", "input": [3, 2, 2], "kernels": 3, "kernel": [1, 1]},
        {"name": "lrn", "kind": "map", "op": "lrn", "input": [3, 2, 2], "response": RESPONSE.model_dump()},
        {"name": "b", "input": [3, 2, 2], "kernels": 3, "kernel": [1, 1]},
    ]
    network = Network(layers=layers)  # type: ignore[arg-type]
    unit = Parameters(np.eye(3).reshape(3, 3, 1, 1), np.zeros(3))
    own = {each.name: IntegerLayer(each, Format(14, 11), Format(8, 6), 30) for each in network.convolutions}
    largest = {"a": 3.9, "lrn": 3.9}
    found = IntegerNetwork.of(network, own, dict.fromkeys(own, unit), largest)
    assert found.formats["a"] == Format(32, 29)
    values = np.random.default_rng(1).uniform(-3.9, 3.9, (4, 3, 2, 2))
    exact = run(network, values, lambda layer, read: read)
    ours = found.values(found.run(found.quantise(values)))
    error = PowerTable.of(RESPONSE, 4.0).largest_error
    assert np.abs(ours - exact).max() <= error * np.abs(exact).max() + 2**-9


def test_numbers_that_are_missing_or_out_of_place_are_refused() -> None:
    lrn = {"name": "lrn", "kind": "map", "op": "lrn", "input": [3, 2, 2]}
    with pytest.raises(InputError, match="layer lrn "):
        refuse_unknown(Network(layers=[lrn]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is for op lrn only"):
        Network(layers=[{**lrn, "op": "relu", "response": {"size": 5}}])  # type: ignore[arg-type]
