"""The reference model of bitwidth and MiniZinc: its data, which are the problem's own, and its plans."""

from __future__ import annotations

from math import frexp, prod
from pathlib import Path
from typing import Any

from tilewright.bitwidth.descent import descend
from tilewright.bitwidth.evaluation import objective, violation
from tilewright.bitwidth.machine import LayerRange
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import OPERANDS, Problem
from tilewright.core.cutoffs import narrow
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    if problem.minimise == "pareto":
        return "objective.minimise = 'pareto': the model finds one plan"
    spoken = (
        {term.word for part in problem.must_hold for term in terms(part)} if problem.constraints else set()
    )
    noise, bits = _largest(problem)
    limits = (problem.most_noise, noise), (problem.limits.bits, bits)
    most = max(
        0,
        _worst(problem),
        *(value for word, value in (("noise", noise), ("moved_bits", bits)) if word in spoken),
        *(min(limit, value) for limit, value in limits if limit is not None),
    )
    if most > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints the model gives: one for each pair of widths of a layer."""
    return len(problem.layers) * int(max(problem.machine.possible)) ** 2


def relax(_problem: Problem) -> int:
    """Return 0: without large-neighbourhood search."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (0, 1): the model's objective is what a plan costs."""
    return 0, 1


def _largest(problem: Problem) -> tuple[int, int]:
    """Return the most noise, and the most bits, of any plan whatever the limits."""
    every = [problem.candidates_of(layer) for layer in problem.layers]
    return sum(max(one.noise for one in own) for own in every), sum(
        max(one.bits for one in own) for own in every
    )


def _worst(problem: Problem) -> int:
    """Return an objective above which no plan is wanted: none has more, or a better one is known."""
    of_bits = problem.minimise == "bits"
    worst = _largest(problem)[of_bits]
    limit = problem.limits.bits if of_bits else problem.most_noise
    worst = worst if limit is None else min(worst, limit)
    if worst > LARGEST and not narrow() and not problem.constraints:
        known = descend(problem)
        if violation(problem, known) is None:
            worst = min(worst, objective(problem, known))
    return worst


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    layers = problem.layers
    ranges = [problem.ranges[layer.name] for layer in layers]
    noise, bits = _largest(problem)
    noise_limited = problem.most_noise is not None and problem.most_noise < noise
    bits_limited = problem.limits.bits is not None and problem.limits.bits < bits
    return {
        "n_layers": len(layers),
        "accumulator_bits": problem.machine.accumulator_bits,
        "widths": set(problem.machine.possible),
        "bound": {"e": problem.limits.bound.upper()},
        "products": [layer.macs_per_output for layer in layers],
        "input_size": [prod(layer.input_shape) for layer in layers],
        "weights_size": [prod(layer.kernels_shape) for layer in layers],
        **_moments(ranges),
        "minimise_bits": problem.minimise == "bits",
        "bits_limited": bits_limited,
        "most_bits": problem.limits.bits if bits_limited else 0,
        "noise_limited": noise_limited,
        "most_noise": problem.most_noise if noise_limited else 0,
        "worst": _worst(problem),
    }


def _moments(ranges: list[LayerRange]) -> dict[str, list[list[float]]]:
    """Return what is known of the values of each layer, as ``[m, e]`` for ``m * 2 ** e``."""
    known: dict[str, list[float | None]] = {
        "input_range": [one.input for one in ranges],
        "weights_range": [one.weights for one in ranges],
        "output_range": [one.output for one in ranges],
        "absolute_weights": [one.absolute_weights for one in ranges],
        "input_power": [one.powers[0] for one in ranges],
        "weights_power": [one.powers[1] for one in ranges],
        "input_density": [one.input_density for one in ranges],
        "coherence": [one.coherence for one in ranges],
    }
    return {
        f"of_{name}": [_binary(1.0 if value is None else float(value)) for value in values]
        for name, values in known.items()
    }


def _binary(value: float) -> list[float]:
    """Return m, from 0.5 to 1, and e of ``value == m * 2 ** e``: JSON of MiniZinc 2.6 has no exponents."""
    fraction, exponent = frexp(value)
    return [fraction, float(exponent)]


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if one.word in ("noise", "moved_bits"):
        return f"{one.word}()"
    layer, operand = one.arguments
    number = 1 + [each.name for each in problem.layers].index(str(layer))
    return f"{('input_bits', 'weights_bits')[OPERANDS.index(str(operand))]}[{number}]"


def start(_problem: Problem, plan: Plan) -> list[int]:
    """Return a plan as values of the decisions: bits of the inputs of all layers, then of their weights."""
    inputs, weights = zip(*plan.widths, strict=True)
    return [*inputs, *weights]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the bits of a solution, in the order of `start`."""
    return [*solution.input_bits, *solution.weights_bits]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    widths = zip(solution.input_bits, solution.weights_bits, strict=True)
    return Plan(tuple(layer.name for layer in problem.layers), tuple(widths))
