"""Numbers of C projects: operations in integers give what the integer network does; types of C."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from conftest import examples
from numbered import numbers, tables

from tilewright.codegen.numbers.c_integers import are_packed, c_integer, c_sum_bits, pack_elements
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.numbers.quantised_operations import QuantisedOperations
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, Network


@pytest.mark.parametrize("seed", range(examples(100)))
def test_operations_give_what_the_integer_network_does(seed: int) -> None:
    random = Random(seed)
    while True:
        network = Network(layers=tables(random, ("relu",)))  # type: ignore[arg-type]
        integers, _ = numbers(random, network)
        try:
            operations = QuantisedOperations(integers)
        except InputError:
            continue
        break
    drawn = np.random.default_rng(seed)
    images = integers.quantise(drawn.normal(0, 2, (2, *network.own_input)))
    maps = {OWN_INPUT: images}
    for each in operations.operations:
        read = [maps[source.tensor] for source in each.sources]
        results = each.operation.results(each.layer, read)
        maps[each.tensor] = each.operation.scaled(results)
    expected = integers.run(images)
    np.testing.assert_array_equal(maps[operations.result].reshape(expected.shape), expected)


def test_files_of_outputs_have_one_order_and_scale() -> None:
    maps = {"y": np.array([[[[1, -2]]], [[[3, 4]]]]), "x": np.zeros((2, 1, 1, 1), dtype=np.int64)}
    expected = {"y": np.array([[0.25, -0.5], [0.75, 1.0]])}
    copied = IntegerOperation("COPY", False, ((0, 0),), 8)
    found = NetworkNumbers(
        {"y": copied}, ("x",), ("y",), maps, "a test", np.array([0, 0]), expected, {"y": 2}
    )
    assert (found.images, found.right) == (2, 1)
    data = found.reference_data(8, lambda outputs: outputs["y"].ravel()[::-1])
    assert data["reference.bin"] == bytes([4, 3, 254, 1])
    assert np.frombuffer(data["expected.bin"], "<f4").tolist() == [4, 3, -2, 1]
    assert found.labels_data == bytes(8)


def test_integers_of_c() -> None:
    assert [c_integer(bits) for bits in (1, 8, 9, 17, 33)] == [
        "int8_t",
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
    ]
    assert (c_sum_bits([]), c_sum_bits([9, 32]), c_sum_bits([33])) == (32, 32, 64)
    assert (are_packed([8, 16]), are_packed([8, 24])) == (False, True)
    assert pack_elements(np.array([1, -1, 2]), 4) == bytes([0xF1, 0x02])
    assert pack_elements(np.array([-2]), 16) == b"\xfe\xff"
