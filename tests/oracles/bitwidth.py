"""Bit widths and their costs (docs/bitwidth.md), and networks in plain integers (docs/emit.md).

The second half walks through a quantised network value by value: tensors are tables from channel, row and
column to Python integers of any length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, exp, floor, prod, tanh
from typing import Any, NamedTuple

import numpy as np
from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Place = tuple[int, int, int]
Tensor = dict[Place, Any]
Shape = tuple[int, int, int]

MOST_SUMS = 300_000
"""Sums of noise and bits that are made of one layer's and those of the layers before."""

MOST_BITS = 32
"""Of a tensor, of an input or weight, and of a bias."""

SMALLEST = 1e-9
"""A magnitude below it counts as this one."""


# Widths and their costs ----------------------------------------------------------------------------------


def front_bits(largest: float) -> int:
    """Return the fewest bits in front of the point that hold a magnitude (equation 4.6)."""
    bits = floor(np.log2(largest)) + 1
    while Fraction(largest) >= Fraction(2) ** bits:
        bits += 1
    while Fraction(largest) < Fraction(2) ** (bits - 1):
        bits -= 1
    return bits


def weighted(problem: Json) -> list[Json]:
    """Return the layers that have widths."""
    return [layer for layer in problem["network"]["layers"] if layer["kind"] in ("conv", "fc")]


def products(layer: Json) -> int:
    """Return K, of how many products a sum is."""
    return int(layer["input"][0] // layer["groups"] * prod(layer["kernel"]))


def most_bits(problem: Json, layer: Json) -> int:
    """Return how many bits inputs and weights of a layer may have together (equation 4.14)."""
    known, extra = problem["ranges"][layer["name"]], 0
    if problem["limits"]["bound"] == "worst_case":
        while 2**extra < products(layer):
            extra += 1
    elif problem["limits"]["bound"] == "absolute_weights":
        extra = front_bits(known["absolute_weights"]) - front_bits(known["weights"])
    else:
        extra = front_bits(known["output"]) - front_bits(known["input"]) - front_bits(known["weights"])
        extra = max(0, extra)
    return int(problem["machine"]["accumulator_bits"] + 1 - extra)


def noise(problem: Json, layer: Json, widths: tuple[int, int]) -> int:
    """Return what the model says of a layer, in parts per billion."""
    known, total = problem["ranges"][layer["name"]], Fraction(0)
    for what, bits in zip(("input", "weights"), widths, strict=True):
        step = Fraction(2) ** -(bits - 1 - front_bits(known[what]))
        power = known[f"{what}_power"]
        power = Fraction(known[what]) ** 2 / 3 if power is None else Fraction(power)
        share = Fraction(known["input_density"]) if what == "input" else 1
        total += share * step**2 / 12 / power
    return ceil(10**9 * total / Fraction(known["coherence"]))


def bits_of(layer: Json, widths: tuple[int, int]) -> int:
    """Return the bits of a layer's inputs and weights, each counted once."""
    return int(prod(layer["input"]) * widths[0] + layer["kernels"] * products(layer) * widths[1])


def candidates(problem: Json, layer: Json) -> dict[tuple[int, int], tuple[int, int]]:
    """Return noise and bits of a layer by its possible widths."""
    allowed = problem["machine"]["widths"] or range(1, MOST_BITS + 1)
    found = {}
    for widths in product(allowed, repeat=2):
        if sum(widths) <= most_bits(problem, layer) and noise(problem, layer, widths) <= 10**9:
            found[widths] = noise(problem, layer, widths), bits_of(layer, widths)
    return found


def within(problem: Json, costs: tuple[int, int]) -> bool:
    """Whether noise and bits keep the limits."""
    ratio, bits = problem["limits"]["signal_to_noise_db"], problem["limits"]["bits"]
    if ratio is not None and costs[0] > Decimal(10) ** (9 - Decimal(ratio) / 10):
        return False
    return bits is None or costs[1] <= bits


def best(problem: Json) -> int | list[tuple[int, int]] | None:
    """Return the least noise or fewest bits, or the front as (noise, bits); None if there is no plan.

    All sums of all layers' widths are made; none is dropped for another.
    """
    every = {(0, 0)}
    for layer in weighted(problem):
        ways = set(candidates(problem, layer).values())
        if len(ways) * len(every) > MOST_SUMS:
            raise TooLarge
        every = {(a[0] + b[0], a[1] + b[1]) for a in every for b in ways}
    every = {costs for costs in every if within(problem, costs)}
    if not every:
        return None
    if problem["objective"]["minimise"] != "pareto":
        return min(costs[problem["objective"]["minimise"] == "bits"] for costs in every)
    front: list[tuple[int, int]] = []
    for costs in sorted(every):
        if not front or costs[1] < front[-1][1]:
            front.append(costs)
    return front


def cost(problem: Json, plan: Json) -> int | list[tuple[int, int]]:
    """Return what a plan costs."""
    if problem["objective"]["minimise"] == "pareto":
        return [_costs(problem, one) for one in plan["front"]]
    return _costs(problem, plan)[problem["objective"]["minimise"] == "bits"]


def _costs(problem: Json, plan: Json) -> tuple[int, int]:
    layers = weighted(problem)
    if plan["bits"].keys() != {layer["name"] for layer in layers}:
        raise Refused("layers")
    total = [0, 0]
    for layer in layers:
        found = candidates(problem, layer).get(tuple(plan["bits"][layer["name"]]))
        if found is None:
            raise Refused(f"widths of {layer['name']}")
        total = [total[0] + found[0], total[1] + found[1]]
    if not within(problem, (total[0], total[1])):
        raise Refused("limits")
    return total[0], total[1]


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False


# Networks in integers ------------------------------------------------------------------------------------


class Form(NamedTuple):
    """A format: its bits, the sign among them, and how many stand behind the point."""

    bits: int
    behind: int

    @property
    def front(self) -> int:
        """How many stand in front of the point."""
        return self.bits - 1 - self.behind

    def store(self, value: Any) -> tuple[int, bool]:
        """Return the integer of a number, and whether the format does not hold it (equation 4.8)."""
        scaled = Fraction(value) * Fraction(2) ** self.behind
        nearest = floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
        held = max(-(2 ** (self.bits - 1)), min(2 ** (self.bits - 1) - 1, nearest))
        return held, held != nearest

    def value(self, integer: int) -> Fraction:
        """Return what an integer stands for (equation 4.4)."""
        return integer / Fraction(2) ** self.behind


def holding(bits: int, largest: float) -> Form:
    """Return the finest format of some bits that holds a magnitude."""
    return Form(bits, bits - 1 - front_bits(largest))


@dataclass
class Seen:
    """What was seen of a layer: sums of squares of its sums and of what is lost of them, and overflows."""

    signal: float = 0.0
    noise: float = 0.0
    sums: int = 0
    overflows: list[list[int]] = field(default_factory=list)


@dataclass
class Told:
    """What was seen of a network; classes are of each image, in integers and in floating point."""

    signal: float = 0.0
    noise: float = 0.0
    layers: dict[str, Seen] = field(default_factory=dict)
    saturated: Counter[str] = field(default_factory=Counter)
    classes: list[tuple[int, int]] = field(default_factory=list)
    stored: list[dict[str, Tensor]] = field(default_factory=list)


class Net:
    """A network with weights, and the graph of what reads what."""

    def __init__(self, problem: Json) -> None:
        self.problem, self.layers = problem, problem["network"]["layers"]
        self.named = {layer["name"]: layer for layer in self.layers}
        before, self.reads = "input", {}
        for layer in self.layers:
            self.reads[layer["name"]] = layer["inputs"] or [before]
            before = layer["name"]
        self.readers = {
            name: [each for each in self.reads if name in self.reads[each]] for name in ("input", *self.reads)
        }
        self.last = before
        with np.load(problem["data"]["weights"]) as held:
            self.weights = {
                name.removesuffix(".weights"): each
                for name, each in held.items()
                if name.endswith(".weights")
            }
            self.bias = {name: held[f"{name}.bias"] if f"{name}.bias" in held else np.zeros(len(each))
                         for name, each in self.weights.items()}  # fmt: skip
        with np.load(problem["data"]["samples"]) as held:
            scale = float(held["scale"]) if "scale" in held else 1.0
            samples = held["inputs"].astype(float) * scale
        self.images = samples[: problem["data"]["images"]]
        self.largest = self._largest(float(abs(samples).max()))

    def _largest(self, image: float) -> dict[str, float]:
        """Return magnitudes that the docs say are known of the input and of each layer's output."""
        found = {"input": image}
        for layer in self.layers:
            name, read = layer["name"], [found[each] for each in self.reads[layer["name"]]]
            found[name] = sum(read) if layer["kind"] == "add" else max(read)
            if name in self.weights:
                known = self.problem["ranges"][name]
                sums = max(float(abs(each).sum()) for each in self.weights[name])
                found[name] = known["output"] or known["input"] * sums
                found[name] += float(abs(self.bias[name]).max())
            elif layer["kind"] == "map" and layer["op"] in ("sigmoid", "tanh", "softmax"):
                found[name] = 1.0
            elif layer["kind"] == "map" and layer["op"] == "lrn":
                found[name] = max(read) / layer["response"]["k"] ** layer["response"]["beta"]
        return {name: max(most, SMALLEST) for name, most in found.items()}

    def function(self, name: str) -> bool:
        """Whether a layer is computed in floating point; a softmax at the end is left out."""
        layer = self.named[name]
        whole = ("relu", "identity", "dropout")
        return (
            layer["kind"] == "map"
            and layer["op"] not in whole
            and (name, layer["op"]) != (self.last, "softmax")
        )

    # Formats

    def own(self, name: str, widths: Mapping[str, Any]) -> tuple[Form, Form]:
        """Return the formats of a layer's inputs and weights."""
        known = self.problem["ranges"][name]
        return holding(widths[name][0], known["input"]), holding(widths[name][1], known["weights"])

    def formats(self, widths: Mapping[str, Any]) -> dict[str, Form]:
        """Return the format of the input and of each layer's output: the finest that readers need."""
        found: dict[str, Form] = {}
        for name in reversed(("input", *self.reads)):
            needs = [self._need(reader, name, widths, found) for reader in self.readers[name]]
            if not needs:
                found[name] = self._at_the_end(name, widths)
                continue
            front, behind = max(need.front for need in needs), max(need.behind for need in needs)
            bits = max(1, min(MOST_BITS, 1 + front + behind))
            found[name] = Form(bits, bits - 1 - front)
        return found

    def _need(self, reader: str, name: str, widths: Mapping[str, Any], found: Mapping[str, Form]) -> Form:
        layer = self.named[reader]
        if reader in self.weights:
            return self.own(reader, widths)[0]
        if self.function(reader):
            return holding(MOST_BITS, self.largest[name])
        own = found[reader]
        if layer["kind"] == "add" or (layer["kind"] == "pool" and layer["op"] == "average"):
            front = max(own.front, front_bits(self.largest[name]))
            return Form(1 + front + own.behind, own.behind)
        return own

    def _at_the_end(self, name: str, widths: Mapping[str, Any]) -> Form:
        last = [each for each in self.reads if each in self.weights][-1]
        bits = self.problem["machine"]["accumulator_bits"]
        behind = sum(form.behind for form in self.own(last, widths))
        biased = any(self.form_of_bias(last, widths).store(each)[0] for each in self.bias[last].tolist())
        return Form(bits, min(behind - biased, holding(bits, self.largest[name]).behind))

    def form_of_bias(self, name: str, widths: Mapping[str, Any]) -> Form:
        """Return the format of what is added to a layer's sums."""
        return Form(MOST_BITS, sum(form.behind for form in self.own(name, widths)))

    # Layers

    def shape(self, name: str) -> Shape:
        """Return channels, rows and columns of an output."""
        if name == "input":
            found = self.images.shape[1:]
            return int(found[0]), int(found[1]), int(found[2])
        layer = self.named[name]
        channels, *plane = layer.get("output") or layer["input"]
        pad = layer.get("padding", [0, 0, 0, 0])
        for axis in (0, 1):
            plane[axis] += pad[2 * axis] + pad[2 * axis + 1]
            if "kernel" in layer:
                extent = (layer["kernel"][axis] - 1) * layer.get("dilation", [1, 1])[axis] + 1
                plane[axis] = (plane[axis] - extent) // layer["stride"][axis] + 1
        return layer.get("kernels", channels), plane[0], plane[1]

    def places(self, name: str) -> Iterator[Place]:
        """Yield the places of an output: channel by channel, row by row."""
        for place in product(*map(range, self.shape(name))):
            yield place[0], place[1], place[2]

    def read(self, name: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return what a layer reads, side by side along channels; as one column if it is full."""
        found: Tensor = {}
        above = 0
        flat = self.named[name]["kind"] == "fc"
        for source in self.reads[name]:
            for place in self.places(source):
                found[(len(found), 0, 0) if flat else (above + place[0], *place[1:])] = tensors[source][place]
            above += self.shape(source)[0]
        return found

    def under(self, layer: Json, place: Place) -> Iterator[tuple[Place, int, int]]:
        """Yield row and column of what lies under a window, within the plane, in the place's own channel."""
        pad, spread = layer["padding"], layer.get("dilation", [1, 1])
        for down, along in product(*map(range, layer["kernel"])):
            row = place[1] * layer["stride"][0] + down * spread[0] - pad[0]
            column = place[2] * layer["stride"][1] + along * spread[1] - pad[2]
            if 0 <= row < layer["input"][1] and 0 <= column < layer["input"][2]:
                yield (place[0], row, column), down, along

    def sums(self, name: str, read: Tensor, weights: Any) -> Tensor:
        """Return the sums of products of a convolution or fully connected layer."""
        layer = self.named[name]
        deep, maps = layer["input"][0] // layer["groups"], layer["kernels"] // layer["groups"]
        found = {}
        for place in self.places(name):
            first, total = place[0] // maps * deep, 0
            for (_, row, column), down, along in self.under(layer, place):
                for channel in range(deep):
                    total += read[first + channel, row, column] * weights[place[0]][channel][down][along]
            found[place] = total
        return found

    def other(self, name: str, tensors: Mapping[str, Tensor], most: float) -> Tensor:
        """Return the output of a layer without weights, in exact numbers or floating point.

        Parameters
        ----------
        most
            Magnitude to which the table of a local response normalisation goes; 0 for its formula.
        """
        layer = self.named[name]
        if layer["kind"] == "add":
            return {
                place: sum(tensors[each][place] for each in self.reads[name]) for place in self.places(name)
            }
        read = self.read(name, tensors)
        if layer["kind"] == "pool":
            seen = {place: [read[at] for at, _, _ in self.under(layer, place)] for place in self.places(name)}
            if layer["op"] == "max":
                return {place: max(each) for place, each in seen.items()}
            return {place: sum(each) / len(each) for place, each in seen.items()}
        if layer["kind"] == "pad":
            top, left = layer["padding"][0], layer["padding"][2]
            return {(c, y, x): read.get((c, y - top, x - left), 0) for c, y, x in self.places(name)}
        if layer["kind"] == "reshape":
            return dict(zip(self.places(name), read.values(), strict=True))
        if layer["kind"] == "map" and layer["op"] == "relu":
            return {place: max(value, 0) for place, value in read.items()}
        if not self.function(name):
            return read
        given = {place: float(value) for place, value in read.items()}
        if layer["op"] == "sigmoid":
            return {place: 1 / (1 + exp(-value)) for place, value in given.items()}
        if layer["op"] == "tanh":
            return {place: tanh(value) for place, value in given.items()}
        if layer["op"] == "softmax":
            return softmax(given)
        return _response(layer, given, most)

    def floating(self, image: Any, told: Told, widths: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return all tensors in floating point, and note what is lost where one layer alone is quantised."""
        tensors = {"input": {place: float(image[place]) for place in self.places("input")}}
        for name in self.reads:
            if name not in self.weights:
                tensors[name] = self.other(name, tensors, 0)
                continue
            read, seen = self.read(name, tensors), told.layers[name]
            sums = self.sums(name, read, self.weights[name].tolist())
            inputs, kernels = self.own(name, widths)
            whole = {place: inputs.store(value)[0] for place, value in read.items()}
            rounded = self.sums(name, whole, _stored(self.weights[name].tolist(), kernels))
            for place, value in sums.items():
                seen.signal += value**2
                seen.noise += (
                    float(Form(0, inputs.behind + kernels.behind).value(rounded[place])) - value
                ) ** 2
            tensors[name] = {place: value + float(self.bias[name][place[0]]) for place, value in sums.items()}
        return tensors

    def integers(
        self, number: int, told: Told, widths: Mapping[str, Any], formats: Mapping[str, Form]
    ) -> dict[str, Tensor]:
        """Return all tensors of an image in integers; count what overflows and saturates."""

        def store(values: Tensor, form: Form, name: str) -> Tensor:
            held = {place: form.store(value) for place, value in values.items()}
            told.saturated[name] += sum(beyond for _, beyond in held.values())
            return {place: integer for place, (integer, _) in held.items()}

        image = self.images[number]
        tensors = {
            "input": store({at: float(image[at]) for at in self.places("input")}, formats["input"], "input")
        }
        values: dict[str, Tensor] = {}
        for name in self.reads:
            for source in self.reads[name]:
                values[source] = {at: formats[source].value(each) for at, each in tensors[source].items()}
            if name not in self.weights:
                most = 2.0 ** max(formats[source].front for source in self.reads[name])
                tensors[name] = store(self.other(name, values, most), formats[name], name)
                continue
            (inputs, kernels), seen = self.own(name, widths), told.layers[name]
            sums = self.sums(
                name,
                store(self.read(name, values), inputs, name),
                _stored(self.weights[name].tolist(), kernels),
            )
            half, bias = (
                2 ** (self.problem["machine"]["accumulator_bits"] - 1),
                self.form_of_bias(name, widths),
            )
            kept = {place: (total + half) % (2 * half) - half for place, total in sums.items()}
            seen.sums += len(sums)
            seen.overflows += [[number, *place] for place in sums if sums[place] != kept[place]]
            scaled = {
                place: bias.value(total + bias.store(float(self.bias[name][place[0]]))[0])
                for place, total in kept.items()
            }
            tensors[name] = store(scaled, formats[name], name)
        return tensors


def walk(problem: Json, widths: Mapping[str, Any]) -> Told:
    """Run the images of a problem with data, in floating point and with these widths of layers."""
    net = Net(problem)
    told, formats = Told(layers={name: Seen() for name in net.weights}), net.formats(widths)
    for name, each in net.weights.items():
        numbers = [(value, net.own(name, widths)[1]) for value in each.ravel().tolist()]
        numbers += [(value, net.form_of_bias(name, widths)) for value in net.bias[name].tolist()]
        told.saturated[name] += sum(form.store(value)[1] for value, form in numbers)
    for number, image in enumerate(net.images):
        exact = net.floating(image, told, widths)[net.last]
        told.stored.append(net.integers(number, told, widths, formats))
        ours = {at: float(formats[net.last].value(each)) for at, each in told.stored[-1][net.last].items()}
        if net.named[net.last].get("op") == "softmax":
            exact, ours = softmax(exact), softmax(ours)
        told.signal += sum(value**2 for value in exact.values())
        told.noise += sum((ours[place] - value) ** 2 for place, value in exact.items())
        told.classes.append((_first_largest(ours), _first_largest(exact)))
    return told


def softmax(values: Tensor) -> Tensor:
    """Return shares across the channels of each place."""
    most = {at[1:]: max(value for other, value in values.items() if other[1:] == at[1:]) for at in values}
    grown = {at: exp(value - most[at[1:]]) for at, value in values.items()}
    return {
        at: one / sum(each for other, each in grown.items() if other[1:] == at[1:])
        for at, one in grown.items()
    }


def _response(layer: Json, given: Tensor, most: float) -> Tensor:
    """Return a local response normalisation (4.15), by its formula or by a table of 32 numbers."""
    size, alpha, beta, k = (layer["response"][key] for key in ("size", "alpha", "beta", "k"))
    width = alpha * most**2 / 32

    def power(base: float) -> float:
        if not most:
            return float(base**-beta)
        step = min(31, int((base - k) / width))
        return float(((k + step * width) ** -beta + (k + (step + 1) * width) ** -beta) / 2)

    found = {}
    for (channel, *place), value in given.items():
        near = range(channel - (size - 1) // 2, channel + size // 2 + 1)
        squares = sum(given.get((each, *place), 0.0) ** 2 for each in near)
        found[channel, *place] = value * power(k + alpha / size * squares)
    return found


def _stored(weights: Any, form: Form) -> Any:
    return [_stored(each, form) for each in weights] if isinstance(weights, list) else form.store(weights)[0]


def _first_largest(values: Tensor) -> int:
    flat = list(values.values())
    return flat.index(max(flat))
