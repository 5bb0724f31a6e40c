"""Algorithm 2 of the thesis on imaging DSPs: layer by layer, the widths with the best accuracy.

Layers before the one in hand have their widths, those after it compute in floating point. Tried are widths
that leave no bit of the accumulator unused. Accuracy is measured on the first images of a problem's samples;
equal ones, and all of a problem without labels, are told apart by the noise of the model.
"""

from __future__ import annotations

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.measurement import accuracy
from tilewright.bitwidth.noise import Candidate
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer
from tilewright.spec.network import NamedLayer

SLOW = True

IMAGES = 100
"""Images on which accuracy is measured, where the thesis takes 100 batches."""


def suits(problem: Problem) -> bool:
    """Whether noise or accuracy alone is asked for: bits are not looked at."""
    return problem.minimise == "noise" and problem.limits.bits is None


def plan(problem: Problem) -> Plan:
    """Decide the layers in the order of execution."""
    measured = problem.data is not None and problem.samples.labels is not None
    quantised: dict[str, IntegerLayer] = {}
    for layer in problem.layers:
        tried = []
        for one in _solutions(problem, layer):
            ours = IntegerLayer.of(
                layer, one[:2], problem.ranges[layer.name].largest, problem.machine.accumulator_bits
            )
            right = accuracy(problem, {**quantised, layer.name: ours}, IMAGES) if measured else 0
            tried.append((-right, one.noise, one, ours))
        quantised[layer.name] = min(tried)[3]
    widths = tuple((ours.inputs.bits, ours.weights.bits) for ours in quantised.values())
    return Plan(tuple(quantised), widths)


def _solutions(problem: Problem, layer: NamedLayer) -> list[Candidate]:
    """Return the widths of which neither can grow."""
    allowed = problem.candidates_of(layer)
    return [
        one
        for one in allowed
        if not any(
            other != one and other.inputs >= one.inputs and other.weights >= one.weights for other in allowed
        )
    ]
