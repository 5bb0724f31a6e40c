"""The bitwidth problem: a network with known ranges, and multipliers with a narrow accumulator."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

from pydantic import Field

from tilewright.bitwidth import accumulator
from tilewright.bitwidth.data import Samples, read_parameters, read_samples
from tilewright.bitwidth.machine import (
    MAX_ACCUMULATOR,
    OBJECTIVES,
    BitsLimits,
    BitsMachine,
    BitsObjective,
    DataFiles,
    LayerRange,
)
from tilewright.bitwidth.noise import SIGNAL, Candidate, most_noise, noise, undominated
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.simulator.arithmetic.network_executor import refuse_unknown
from tilewright.spec.constraints.meaning import value
from tilewright.spec.constraints.parts import Ground, terms
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.network import Name, NamedLayer, Network
from tilewright.spec.objectives import Minimising

MOST_TAPS = 2**22
"""Most products of a sum: with the widest accumulator it still fits 64 bits."""

CLOSE = 1e-6
"""Relative difference of magnitudes up to which they count as the same number, printed and read again."""


OPERANDS = ("input", "weights")
"""Whose bits are chosen."""


class Problem(Minimising):
    """A network, the ranges of its values, a machine, an objective and limits."""

    can_minimise = OBJECTIVES

    network: Network
    ranges: dict[Name, LayerRange]
    machine: BitsMachine
    objective: BitsObjective = BitsObjective()
    limits: BitsLimits = BitsLimits()
    data: DataFiles | None = Field(default=None)

    def model_post_init(self, _context: object) -> None:
        """Refuse what cannot be quantised, naming the layer and what would be enough."""
        self.network.check_shapes()
        if not self.layers:
            raise InputError(
                "network.layers", len(self.network.layers), "needs a convolution or a fully connected layer"
            )
        for index, layer in enumerate(self.network.layers):
            field = f"network.layers[{index}]"
            if layer.kind == "matmul":
                limit = f"layer {layer.name} multiplies two inputs; ranges are of layers with weights only"
                raise InputError(f"{field}.kind", layer.kind, limit)
            if isinstance(layer, NamedLayer) and layer.weights is not None:
                limit = f"layer {layer.name} has another one's weights, which could need two widths"
                raise InputError(f"{field}.weights", layer.weights, limit)
        self._check_ranges()
        for layer in self.layers:
            self._check_accumulator(layer)
        if self.data is not None:
            refuse_unknown(self.network)
            self._check_outputs()
            self._check_data()

    def _check_ranges(self) -> None:
        names = [layer.name for layer in self.layers]
        for name in self.ranges:
            if name not in names:
                told = did_you_mean(name, names)
                limit = f"no such convolution or fully connected layer{told}"
                raise InputError(f"ranges.{name}", None, limit)
        for layer in self.layers:
            if layer.name not in self.ranges:
                limit = (
                    f"is missing: layer {layer.name} needs the largest magnitudes of `input` and `weights`"
                )
                raise InputError(f"ranges.{layer.name}", None, limit)
            known, field = self.ranges[layer.name], f"ranges.{layer.name}"
            needed = {"output_range": "output", "absolute_weights": "absolute_weights"}.get(self.limits.bound)
            if needed is not None and getattr(known, needed) is None:
                raise InputError(f"{field}.{needed}", None, f"bound {self.limits.bound} needs it")
            total, taps = known.absolute_weights, layer.macs_per_output
            most = known.weights * taps
            if total is not None and not known.weights * (1 - CLOSE) <= total <= most * (1 + CLOSE):
                limit = f"a sum of {taps} magnitudes, the largest {known.weights:g}: up to {most:g}"
                raise InputError(f"{field}.absolute_weights", total, limit)
            for key, power, largest in zip(
                ("input_power", "weights_power"), known.powers, (known.input, known.weights), strict=True
            ):
                if power > largest**2 * (1 + CLOSE):
                    limit = f"a mean of squares of at most {largest:g}: at most {largest**2:g}"
                    raise InputError(f"{field}.{key}", power, limit)

    def _check_accumulator(self, layer: NamedLayer) -> None:
        """Refuse an accumulator that leaves a layer no widths; say which would."""
        if layer.macs_per_output > MOST_TAPS:
            limit = f"layer {layer.name} adds up more products than {MOST_TAPS}"
            raise InputError("network.layers", layer.macs_per_output, limit)
        if self.candidates_of(layer):
            return
        bits, extra = self.machine.accumulator_bits, self.extra_bits(layer)
        wider = (
            width
            for width in range(bits + 1, MAX_ACCUMULATOR + 1)
            if self._candidates(layer, accumulator.available_bits(width, extra))
        )
        found = next(wider, None)
        enough = "no accumulator helps with these widths"
        if found is not None:
            enough = f"{found} bits would be enough for it"
        available = accumulator.available_bits(bits, extra)
        limit = (
            f"is too narrow for layer {layer.name}: bound {self.limits.bound} takes {extra} bits beyond a "
            f"product, so inputs and weights have {available} together, and the machine has no such widths "
            f"whose noise is below the signal; {enough}"
        )
        raise InputError("machine.accumulator_bits", bits, limit)

    def _check_outputs(self) -> None:
        """Refuse samples for a network whose quality no single output tells."""
        outputs = [self.network.layers[place].name for place in self.network.results]
        if len(outputs) > 1:
            raise InputError("network.outputs", outputs, "samples are for networks of one output")

    def _check_data(self) -> None:
        """Refuse weights that the ranges are not of, and samples of another shape."""
        parameters = self.parameters
        for layer in self.layers:
            largest = float(abs(parameters[layer.name].weights).max())
            most = self.ranges[layer.name].weights
            if largest > most * (1 + CLOSE):
                limit = f"{self.data and self.data.weights} has a weight of magnitude {largest:.9g}"
                raise InputError(f"ranges.{layer.name}.weights", most, limit)
        self.samples  # noqa: B018 (read to be checked)

    @cached_property
    def layers(self) -> tuple[NamedLayer, ...]:
        """The layers whose widths are decided, in the order of execution."""
        return tuple(layer for layer in self.network.layers if isinstance(layer, NamedLayer))

    @cached_property
    def parameters(self) -> dict[str, Parameters]:
        """Weights and biases by layer, of a problem with data."""
        assert self.data is not None
        return read_parameters(self.data.weights, self.layers)

    @cached_property
    def seen(self) -> dict[Any, Any]:
        """What was measured of plans already: `check` executes a plan several times."""
        return {}

    @property
    def samples(self) -> Samples:
        """Images and their classes, of a problem with data."""
        assert self.data is not None
        classes = prod(self.network.layers[-1].output)
        return read_samples(self.data.samples, self.network.own_input, classes)

    def extra_bits(self, layer: NamedLayer) -> int:
        """Return the bits that sums need beyond a product's, by the bound of the limits."""
        known = self.ranges[layer.name]
        if self.limits.bound == "worst_case":
            return accumulator.worst_case(layer.macs_per_output)
        if self.limits.bound == "absolute_weights":
            assert known.absolute_weights is not None
            return accumulator.absolute_weights(known.weights, max(known.absolute_weights, known.weights))
        assert known.output is not None
        return accumulator.output_range(known.input, known.weights, known.output)

    def available_bits(self, layer: NamedLayer) -> int:
        """Return the bits that a layer's inputs and weights may have together."""
        return accumulator.available_bits(self.machine.accumulator_bits, self.extra_bits(layer))

    def candidates_of(self, layer: NamedLayer) -> tuple[Candidate, ...]:
        """Return the widths that a layer can have, ascending; those that drown its signal are left out."""
        return self._candidates(layer, self.available_bits(layer))

    def _candidates(self, layer: NamedLayer, available: int) -> tuple[Candidate, ...]:
        known, widths = self.ranges[layer.name], self.machine.possible
        inputs, weights = prod(layer.input_shape), prod(layer.kernels_shape)
        found = (
            Candidate(i, w, noise(i, w, known), i * inputs + w * weights)
            for i in widths
            for w in widths
            if i + w <= available
        )
        return tuple(candidate for candidate in found if candidate.noise <= SIGNAL)

    @cached_property
    def choices(self) -> tuple[tuple[Candidate, ...], ...]:
        """Of each layer the candidates that none beats in both noise and bits, least noise first.

        Constraints that look at one layer alone have left out what they do not admit.
        """
        return tuple(map(undominated, self.admitted))

    @cached_property
    def admitted(self) -> tuple[tuple[Candidate, ...], ...]:
        """Of each layer the candidates that constraints admit which look at that layer alone.

        Of a layer to which they leave none, all: then there is no plan, which `impossible` says.
        """
        return tuple(
            own or self.candidates_of(layer) for layer, own in zip(self.layers, self._kept, strict=True)
        )

    @cached_property
    def impossible(self) -> str | None:
        """Say which layer has no widths that constraints admit, or None."""
        without = (layer.name for layer, own in zip(self.layers, self._kept, strict=True) if not own)
        name = next(without, None)
        return None if name is None else f"constraints leave no widths to layer {name}"

    @cached_property
    def _kept(self) -> list[tuple[Candidate, ...]]:
        return [
            tuple(one for one in self.candidates_of(layer) if self._admits(layer.name, one))
            for layer in self.layers
        ]

    def _admits(self, name: str, one: Candidate) -> bool:
        """Whether constraints that look at a layer alone admit a candidate."""
        parts = [part for part in self.must_hold if of_one_layer(part) == name] if self.constraints else []
        return all(value(part, lambda term: one[OPERANDS.index(str(term.arguments[1]))]) for part in parts)

    def check_constraints(self) -> None:
        """Refuse constraints that have no meaning, and those of fronts."""
        if self.minimise == "pareto":
            limit = "are for a single plan, not for a front"
            raise InputError("constraints", str(self.constraints[0]), limit)
        super().check_constraints()

    @property
    def most_noise(self) -> int | None:
        """Most noise of all layers together."""
        ratio = self.limits.signal_to_noise_db
        return None if ratio is None else most_noise(ratio)


def of_one_layer(part: Ground) -> str | None:
    """Return the layer at whose bits alone something looks that must hold; None where it looks at more."""
    found = terms(part)
    names = {str(term.arguments[0]) if term.word == "bits" else None for term in found}
    return names.pop() if len(names) == 1 else None
