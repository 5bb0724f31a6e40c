"""Run a quantised network on images beside the one in floating point: accuracy, noise, overflows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import log10, prod, sqrt
from typing import Any

import numpy as np

from tilewright.bitwidth.measures import LayerSeen, NetworkSeen
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers
from tilewright.simulator.arithmetic.integer_layer import BIAS_BITS, IntegerLayer
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork, Summed
from tilewright.simulator.arithmetic.network_executor import convolve, run
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.network import OWN_INPUT, Add, Map, NamedLayer

BATCH_ELEMENTS = 8_000_000
"""Most elements under the windows of a layer that are computed at a time."""

SMALLEST = 1e-9
"""What stands for magnitudes of 0."""

MOST_LOCATED = 8
"""Overflows of a layer whose place is told."""

CONFIDENCE = 1.96
"""Standard deviations of an interval that holds a share with a probability of 95 %."""


@dataclass
class LayerMeasure:
    """What was seen of a layer.

    Attributes
    ----------
    signal, noise
        Sums of squares: of the sums in floating point, and of what is lost of them when this layer alone is
        quantised and nothing overflows.
    sums, overflows
        Sums that were complete, and those of them that the accumulator does not hold.
    located
        Places of the first overflows: image, map, row, column.
    """

    signal: float = 0.0
    noise: float = 0.0
    sums: int = 0
    overflows: int = 0
    located: list[list[int]] = field(default_factory=list)


@dataclass
class Measure:
    """What was seen of a network.

    Attributes
    ----------
    images
        How many were run.
    right, float_right
        Of them in the right class, by the quantised network and in floating point; None without labels.
    agreeing
        Images that both put into the same class.
    signal, noise
        Sums of squares of the outputs in floating point, and of the differences to them.
    layers
        By name.
    saturated
        Values, weights and biases that their format does not hold, by the layer that reads or stores them,
        also of layers without weights; under ``input`` those of the images.
    """

    images: int = 0
    right: int | None = None
    float_right: int | None = None
    agreeing: int = 0
    signal: float = 0.0
    noise: float = 0.0
    layers: dict[str, LayerMeasure] = field(default_factory=dict)
    saturated: Counter[str] = field(default_factory=Counter)

    @property
    def overflows(self) -> int:
        """Sums that the accumulator does not hold, of all layers."""
        return sum(layer.overflows for layer in self.layers.values())

    def saturate(self, name: str, values: int) -> None:
        """Count values that saturate as a layer reads or stores them."""
        self.saturated[name] += values

    def network_measures(self) -> NetworkSeen:
        """Return what was seen of the network, rounded so that the order of summation does not show."""
        return NetworkSeen(
            images=self.images,
            right=self.right,
            float_right=self.float_right,
            agreeing=self.agreeing,
            signal_to_noise_db=ratio_db(self.signal, self.noise),
            overflows=self.overflows,
            saturated=sum(self.saturated.values()),
        )

    def layer_measures(self, name: str) -> LayerSeen:
        """Return what was seen of a layer, rounded likewise."""
        layer = self.layers[name]
        return LayerSeen(
            signal_to_noise_db=ratio_db(layer.signal, layer.noise),
            overflows=layer.overflows,
            sums=layer.sums,
            first_overflows=layer.located,
            saturated=self.saturated[name],
        )


def ratio_db(signal: float, noise: float) -> float | None:
    """Return a ratio in decibels, to a hundredth; None where there is no noise, or nothing else."""
    return None if noise <= 0 or signal <= 0 else round(10 * log10(signal / noise), 2)


def interval(right: int, images: int) -> tuple[float, float]:
    """Return the shares between which the true one lies with 95 % confidence (Wilson's interval)."""
    share, square = right / images, CONFIDENCE**2
    middle = (share + square / (2 * images)) / (1 + square / images)
    half = CONFIDENCE * sqrt(share * (1 - share) / images + square / (4 * images**2)) / (1 + square / images)
    return middle - half, middle + half


def measure(
    problem: Problem,
    plan: Plan,
    *,
    most_images: int | None = None,
    deadline: float = float("inf"),
    known: Floats | None = None,
) -> Measure:
    """Run a problem's samples through a plan's network.

    Parameters
    ----------
    plan
        One plan, not a front.
    most_images
        The first of the samples that are run; all when left out.
    known
        What `floating` gives of these images. Then nothing is told of what a layer alone loses.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    network = integer_network(problem, plan)
    found = Measure(layers={layer.name: LayerMeasure() for layer in problem.layers})
    for name, own in network.layers.items():
        weights, bias = problem.parameters[name]
        found.saturate(name, own.weights.beyond(weights) + Format(BIAS_BITS, own.fraction).beyond(bias))
    samples = problem.samples
    labels = samples.labels
    if labels is not None:
        found.right = found.float_right = 0
    for first, images in batches(problem, samples.inputs[:most_images], deadline):
        if known is None:
            exact = run(problem.network, images, _floating(problem, network.layers, found))
        else:
            exact = known[first : first + len(images)]
        found.saturated[OWN_INPUT] += network.formats[OWN_INPUT].beyond(images)
        output = network.run(network.quantise(images), _counting(found, first), saturated=found.saturate)
        ours = network.values(output)
        found.images += len(images)
        found.signal += float(np.square(exact).sum())
        found.noise += float(np.square(ours - exact).sum())
        classes, expected = (each.reshape(len(images), -1).argmax(1) for each in (ours, exact))
        found.agreeing += int((classes == expected).sum())
        if labels is not None:
            truth = labels[first : first + len(images)]
            found.right = (found.right or 0) + int((classes == truth).sum())
            found.float_right = (found.float_right or 0) + int((expected == truth).sum())
    return found


def floating(problem: Problem, most_images: int | None = None) -> Floats:
    """Return the network's outputs in floating point, shape (images, C, H, W)."""

    def compute(layer: NamedLayer, values: Floats) -> Floats:
        parameters = problem.parameters[layer.name]
        return convolve(layer, values, parameters.weights) + parameters.bias[:, None, None]

    inputs = problem.samples.inputs[:most_images]
    return np.concatenate([run(problem.network, images, compute) for _, images in batches(problem, inputs)])


def integer_layers(problem: Problem, plan: Plan) -> dict[str, IntegerLayer]:
    """Return the layers of a plan with their formats, by name."""
    bits = problem.machine.accumulator_bits
    return {
        layer.name: IntegerLayer.of(layer, widths, problem.ranges[layer.name].largest, bits)
        for layer, widths in zip(problem.layers, plan.widths, strict=True)
    }


def integer_network(problem: Problem, plan: Plan) -> IntegerNetwork:
    """Return the network of a plan with its numbers, of a problem with data."""
    layers = integer_layers(problem, plan)
    return IntegerNetwork.of(problem.network, layers, problem.parameters, largest_outputs(problem))


def largest_outputs(problem: Problem) -> dict[str, float]:
    """Return magnitudes that no output of a layer exceeds, by name, and that of the network's input.

    They follow from the ranges of sums, where these are known, and from biases.
    """
    layers = problem.network.layers
    found = {OWN_INPUT: float(abs(problem.samples.inputs).max())}
    for layer, producers in zip(layers, problem.network.producers, strict=True):
        read = [found[OWN_INPUT if place < 0 else layers[place].name] for place in producers]
        most = sum(read) if isinstance(layer, Add) else max(read)
        if isinstance(layer, NamedLayer):
            known, (weights, bias) = problem.ranges[layer.name], problem.parameters[layer.name]
            most = known.output or known.input * float(abs(weights).sum(axis=(1, 2, 3)).max())
            most += float(abs(bias).max())
        elif isinstance(layer, Map) and layer.op in ("sigmoid", "tanh", "softmax"):
            most = 1.0
        elif isinstance(layer, Map) and layer.response is not None:
            most /= layer.response.k**layer.response.beta
        found[layer.name] = max(most, SMALLEST)
    return found


def batches(problem: Problem, inputs: Floats, deadline: float = float("inf")) -> Iterator[tuple[int, Floats]]:
    """Yield images in parts that fit the memory, each with the number of its first."""
    most = max(prod(layer.output_plane) * layer.macs_per_output * layer.groups for layer in problem.layers)
    step = max(1, BATCH_ELEMENTS // most)
    for first in range(0, len(inputs), step):
        if time.monotonic() > deadline:
            raise OutOfTimeError
        yield first, inputs[first : first + step]


def accuracy(problem: Problem, quantised: Mapping[str, IntegerLayer], most_images: int) -> int:
    """Return how many of the first images a network gets right, some of whose layers are quantised."""
    samples, right = problem.samples, 0
    assert samples.labels is not None

    def compute(layer: NamedLayer, values: Floats) -> Floats:
        parameters = problem.parameters[layer.name]
        if layer.name in quantised:
            return quantised[layer.name].run(values, parameters)[0]
        return convolve(layer, values, parameters.weights) + parameters.bias[:, None, None]

    for first, images in batches(problem, samples.inputs[:most_images]):
        classes = run(problem.network, images, compute).reshape(len(images), -1).argmax(1)
        right += int((classes == samples.labels[first : first + len(images)]).sum())
    return right


def _floating(problem: Problem, quantised: Mapping[str, IntegerLayer], found: Measure) -> Any:
    """Return what computes a layer in floating point, and notes what quantising it alone would lose."""

    def compute(layer: NamedLayer, values: Floats) -> Floats:
        parameters, ours, seen = (
            problem.parameters[layer.name],
            quantised[layer.name],
            found.layers[layer.name],
        )
        exact = convolve(layer, values, parameters.weights)
        _, sums, _ = ours.run(values, parameters)
        seen.signal += float(np.square(exact).sum())
        seen.noise += float(np.square(np.ldexp(sums.astype(np.float64), -ours.fraction) - exact).sum())
        return exact + parameters.bias[:, None, None]

    return compute


def _counting(found: Measure, first: int) -> Summed:
    """Return what counts and locates overflows of a part of the images, which begins with a number."""

    def count(ours: IntegerLayer, inputs: Integers, sums: Integers, kept: Integers) -> None:
        seen = found.layers[ours.layer.name]
        seen.sums += sums.size
        if (wrong := sums != kept).any():
            seen.overflows += int(wrong.sum())
            more = np.argwhere(wrong)[: MOST_LOCATED - len(seen.located)]
            seen.located += [[int(place[0]) + first, *map(int, place[1:])] for place in more]

    return count


def same_numbers(problem: Problem, plan: Plan, images: int = 1, deadline: float = float("inf")) -> bool:
    """Whether sums that wrap after each addition are those that wrap at the end, and right where they fit.

    The first images are run; each sum is compared with the one in 64 bits wherever that fits the accumulator.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    network, equal = integer_network(problem, plan), True

    def compare(ours: IntegerLayer, inputs: Integers, sums: Integers, kept: Integers) -> None:
        nonlocal equal
        if time.monotonic() > deadline:
            raise OutOfTimeError
        stepwise = ours.one_by_one(inputs, network.kernels[ours.layer.name])
        half = 1 << (ours.accumulator - 1)
        fits = (sums >= -half) & (sums < half)
        equal = equal and np.array_equal(stepwise, kept[0]) and np.array_equal(kept[fits], sums[fits])

    for image in problem.samples.inputs[:images]:
        network.run(network.quantise(image[None]), compare)
    return equal
