"""Power of two: only widths of 1, 2, 4, 8, 16 and 32 bits, as data types of processors have; least noise."""

from __future__ import annotations

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.noise import Candidate
from tilewright.spec.network import NamedLayer

WIDTHS = (1, 2, 4, 8, 16, 32)


def suits(problem: Problem) -> bool:
    """Whether one plan is asked for, and each layer has such widths."""
    return problem.minimise != "pareto" and all(_allowed(problem, layer) for layer in problem.layers)


def plan(problem: Problem) -> Plan:
    """Take the least noise of each layer, or the fewest bits where these are minimised."""
    of_bits = problem.minimise == "bits" and problem.most_noise is None
    chosen = [
        min(
            _allowed(problem, layer),
            key=lambda one: (one.bits, one.noise) if of_bits else (one.noise, one.bits),
        )
        for layer in problem.layers
    ]
    return Plan(
        tuple(layer.name for layer in problem.layers), tuple((one.inputs, one.weights) for one in chosen)
    )


def _allowed(problem: Problem, layer: NamedLayer) -> list[Candidate]:
    return [one for one in problem.candidates_of(layer) if one.inputs in WIDTHS and one.weights in WIDTHS]
