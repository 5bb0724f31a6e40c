"""Networks in integers only: against fractions, value by value, and where no bit is lost against floats."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import largest, numbers, randoms, tables

from tilewright.simulator.arithmetic.fixed_point import Format, Integers
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer, Parameters
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork, requantise
from tilewright.simulator.arithmetic.network_executor import convolve, run
from tilewright.spec.network import NamedLayer, Network


def rounded(value: Fraction, form: Format) -> int:
    """Return the nearest integer of a format, halves away from zero."""
    scaled = value * Fraction(2) ** form.fraction
    nearest = int(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return max(form.range[0], min(form.range[1], nearest))


def by_hand(net: IntegerNetwork, image: Integers) -> Mapping[str, dict[tuple[int, ...], int]]:
    """Return every tensor of a network, value by value, from fractions."""
    shapes = {"input": image.shape} | {layer.name: layer.output for layer in net.network.layers}
    tensors = {"input": {place: int(image[place]) for place in np.ndindex(*image.shape)}}
    names = ["input"]
    for layer, producers in zip(net.network.layers, net.network.producers, strict=True):
        sources = [names[producer + 1] for producer in producers]
        names.append(layer.name)
        form = net.formats[layer.name]

        def read(
            c: int, y: int, x: int, sources: list[str] = sources, flat: bool = layer.kind == "fc"
        ) -> Fraction | None:
            for source in sources:
                shape = shapes[source]
                size = int(np.prod(shape)) if flat else shape[0]
                if c < size:
                    place = tuple(map(int, np.unravel_index(c, shape))) if flat else (c, y, x)
                    if place not in tensors[source]:
                        return None
                    return Fraction(tensors[source][place]) / Fraction(2) ** net.formats[source].fraction
                c -= size
            raise AssertionError

        found = {}
        for place in np.ndindex(*layer.output):
            found[place] = rounded(_value(net, layer, place, read, sources, tensors), form)
        tensors[layer.name] = found
    return tensors


def _value(net: IntegerNetwork, layer: Any, place: Any, read: Any, sources: Any, tensors: Any) -> Fraction:
    k, y, x = place
    if layer.kind == "add":
        return sum(
            (Fraction(tensors[s][place]) / Fraction(2) ** net.formats[s].fraction for s in sources),
            Fraction(),
        )
    if isinstance(layer, NamedLayer):
        own, deep = net.layers[layer.name], layer.input[0] // layer.groups
        first = k // (layer.kernels // layer.groups) * deep
        total = 0
        for c, ky, kx in product(range(deep), *map(range, layer.kernel)):
            row, column = (
                y * layer.stride[0] + ky * layer.dilation[0] - layer.padding[0],
                x * layer.stride[1] + kx * layer.dilation[1] - layer.padding[2],
            )
            value = read(first + c, row, column)
            if value is not None:
                total += rounded(value, own.inputs) * int(net.kernels[layer.name][k, c, ky, kx])
        half = 2 ** (own.accumulator - 1)
        total = (total + half) % (2 * half) - half + int(net.biases[layer.name][k])
        return Fraction(total) / Fraction(2) ** own.fraction
    if layer.kind == "pool":
        window = [
            read(k, y * layer.stride[0] + ky, x * layer.stride[1] + kx)
            for ky, kx in product(*map(range, layer.kernel))
        ]
        return max(window) if layer.op == "max" else sum(window, Fraction()) / len(window)
    value: Fraction = read(k, y, x)
    if layer.kind == "map" and layer.op == "relu":
        return max(value, Fraction())
    return Fraction(float(np.tanh(float(value)))) if layer.kind == "map" else value


@settings(max_examples=examples(300))
@given(randoms)
def test_every_value_is_that_of_exact_arithmetic(random: Random) -> None:
    network = Network(layers=tables(random))
    net, _ = numbers(random, network)
    rng = np.random.default_rng(random.getrandbits(32))
    image = net.quantise(rng.normal(0, 2, (1, *network.layers[0].input)))
    seen: dict[str, Integers] = {}
    net.run(image, stored=seen.__setitem__)
    expected = by_hand(net, image[0])
    for layer in network.layers:
        for place, value in expected[layer.name].items():
            assert seen[layer.name][(0, *place)] == value, (layer.name, place)


def test_fine_formats_give_what_floating_point_gives() -> None:
    random = Random(3)
    network = Network(layers=tables(random))
    layers, parameters = {}, {}
    rng = np.random.default_rng(3)
    for layer in network.layers:
        if isinstance(layer, NamedLayer):
            layers[layer.name] = IntegerLayer(layer, Format(20, 14), Format(20, 14), 50)
            parameters[layer.name] = Parameters(
                rng.normal(0, 0.5, layer.kernels_shape), rng.normal(0, 1, layer.kernels)
            )
    net = IntegerNetwork.of(network, layers, parameters, largest(network))
    images = rng.normal(0, 1, (3, *network.layers[0].input))

    def compute(layer: NamedLayer, values: Any) -> Any:
        return (
            convolve(layer, values, parameters[layer.name].weights)
            + parameters[layer.name].bias[:, None, None]
        )

    assert np.allclose(net.values(net.run(net.quantise(images))), run(network, images, compute), atol=1e-2)


@given(st.integers(-(2**40), 2**40), st.integers(-8, 20), st.integers(2, 32), st.integers(-8, 20))
def test_requantising_rounds_once_and_saturates(value: int, fraction: int, bits: int, target: int) -> None:
    form = Format(bits, target)
    expected = rounded(Fraction(value) / Fraction(2) ** fraction, form)
    assert requantise(np.array([value]), fraction, form)[0] == expected
