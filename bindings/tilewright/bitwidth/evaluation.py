"""Whether a plan is valid, what it costs by the model, its execution, and what ``auto`` runs."""

from __future__ import annotations

import time
from itertools import pairwise
from math import prod

import numpy as np

from tilewright.bitwidth import accumulator
from tilewright.bitwidth.exact.search import front_of
from tilewright.bitwidth.measurement import Measure, integer_layers, measure, same_numbers
from tilewright.bitwidth.measures import BitwidthLayer, BitwidthMeasures, BitwidthPoint
from tilewright.bitwidth.noise import SIGNAL, Candidate, decibels, noise
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.core import front
from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.measures import counted
from tilewright.core.portfolio import Portfolio
from tilewright.core.room import Asked
from tilewright.simulator import Report
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.network import NamedLayer

SECONDS_PER_MAC = 4e-9
"""What a multiplication takes of a measurement, about: in floating point, and twice in integers."""

# Validity and cost -----------------------------------------------------------------------------------


def best_bound(problem: Problem) -> Bound:
    """Return what each layer costs at least, added up; and whether the limits leave any plan."""
    least_noise = sum(choices[0].noise for choices in problem.choices)
    least_bits = sum(choices[-1].bits for choices in problem.choices)
    impossible = problem.impossible
    if problem.limits.bits is not None and least_bits > problem.limits.bits:
        impossible = f"{least_bits:,} bits are needed, limits.bits allows {problem.limits.bits:,}"
    if problem.most_noise is not None and least_noise > problem.most_noise:
        impossible = (
            f"{decibels(least_noise):.2f} dB are possible, limits.signal_to_noise_db asks for "
            f"{problem.limits.signal_to_noise_db:g}"
        )
    value = least_bits if problem.minimise == "bits" else least_noise
    return Bound("layers bound", value, len(problem.layers), impossible)


def candidate(problem: Problem, layer: NamedLayer, widths: tuple[int, int]) -> Candidate:
    """Return what a layer costs at some widths."""
    inputs, weights = widths
    bits = inputs * prod(layer.input_shape) + weights * prod(layer.kernels_shape)
    return Candidate(inputs, weights, noise(inputs, weights, problem.ranges[layer.name]), bits)


def costs(problem: Problem, plan: Plan) -> tuple[int, int]:
    """Return the noise and the bits of a plan, not of a front."""
    found = [
        candidate(problem, layer, widths) for layer, widths in zip(problem.layers, plan.widths, strict=True)
    ]
    return sum(one.noise for one in found), sum(one.bits for one in found)


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    wanted = problem.minimise == "pareto"
    if bool(plan.front) != wanted:
        return f"kind of plan: a {'single plan' if wanted else 'front'} is no answer to this problem"
    for one in plan.front or (plan,):
        if broken := _violation(problem, one):
            return broken
    points = [costs(problem, one) for one in plan.front]
    for number, (left, right) in enumerate(pairwise(points), start=2):
        if not (left[0] < right[0] and left[1] > right[1]):
            told = f"plan {number} must have more noise and fewer bits than the one before: {left}, {right}"
            return f"front: {told}"
    return None


def _violation(problem: Problem, plan: Plan) -> str | None:
    names = tuple(layer.name for layer in problem.layers)
    if plan.names != names:
        return f"layers: the plan is for {', '.join(plan.names[:4])}, ..., the network has {', '.join(names)}"
    for layer, (inputs, weights) in zip(problem.layers, plan.widths, strict=True):
        possible, available = problem.machine.possible, problem.available_bits(layer)
        for bits in (inputs, weights):
            if bits not in possible:
                there_are = ", ".join(map(str, possible))
                return f"widths: layer {layer.name} has {bits} bits, the machine has: {there_are}"
        if inputs + weights > available:
            return (
                f"accumulator: layer {layer.name} has {inputs} + {weights} bits; by the bound "
                f"{problem.limits.bound}, inputs and weights may have {available} together"
            )
        if (loud := noise(inputs, weights, problem.ranges[layer.name])) > SIGNAL:
            return f"noise: layer {layer.name} has {loud} ppb, more than its signal"
    loudness, bits = costs(problem, plan)
    if problem.limits.bits is not None and bits > problem.limits.bits:
        return f"bits: {bits:,} are needed, {problem.limits.bits:,} are allowed"
    if problem.most_noise is not None and loudness > problem.most_noise:
        return (
            f"signal to noise: {decibels(loudness):.2f} dB, {problem.limits.signal_to_noise_db:g} are needed"
        )
    return None


def objective(problem: Problem, plan: Plan) -> int:
    """Return the cost of a valid plan by the closed form; of a front that of its first plan."""
    loudness, bits = costs(problem, plan.front[0] if plan.front else plan)
    return bits if problem.minimise == "bits" else loudness


def measured_objective(problem: Problem, report: Report) -> int:
    """Return the cost of an executed plan: bits as they were counted, noise by the model."""
    return problem.measured(report.measures)


# Simulation ------------------------------------------------------------------------------------------


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan, layer by layer; with data also measure it on all samples, in integers.

    Of a front the first plan is measured.

    Where numbers are asked for, the first image's products are added up one by one, with a wrap after each,
    and compared.
    """
    if time.monotonic() > asked.deadline:
        raise OutOfTimeError
    broken = violation(problem, plan)
    if broken is not None:
        return Report.beyond_limits(broken)
    one = plan.front[0] if plan.front else plan
    report = _executed(problem)
    seen = None
    if problem.data is not None:
        if one not in problem.seen:
            problem.seen[one] = measure(
                problem, one, most_images=problem.data.images, deadline=asked.deadline
            )
        seen = problem.seen[one]
        if asked.numeric:
            report.numeric = same_numbers(problem, one, deadline=asked.deadline)
    layers = _layers(problem, integer_layers(problem, one), seen)
    points = [costs(problem, each) for each in plan.front]
    report.measures = BitwidthMeasures(
        **counted(report),
        noise_ppb=costs(problem, one)[0],
        moved_bits=sum(sum(layer.moved_bits.values()) for layer in layers.values()),
        measured=None if seen is None else seen.network_measures(),
        layers=layers,
        front=[BitwidthPoint(noise_ppb=noise, moved_bits=bits) for noise, bits in points] or None,
    )
    return report


def _executed(problem: Problem) -> Report:
    """Return the report of a layer after the other: what each reads, writes and multiplies, in elements."""
    layers = problem.layers
    counts = {
        "input": [prod(layer.input_shape) for layer in layers],
        "weights": [prod(layer.kernels_shape) for layer in layers],
        "output": [prod(layer.output_shape) for layer in layers],
    }
    arrays = {name: np.array(row, dtype=np.int64) for name, row in counts.items()}
    read = {name: arrays[name] for name in ("input", "weights")}
    written = {"output": arrays["output"]}
    macs = np.array([layer.macs for layer in layers], dtype=np.int64)
    names = [layer.name for layer in layers]
    return Report(None, names, read, {}, written, written, arrays, macs, 3 * len(layers))


def _layers(
    problem: Problem, quantised: dict[str, IntegerLayer], seen: Measure | None
) -> dict[str, BitwidthLayer]:
    """Return the formats of each layer, what they cost, and what was seen of them on samples."""
    found = {}
    for layer in problem.layers:
        ours = quantised[layer.name]
        widths = (ours.inputs.bits, ours.weights.bits)
        extra = problem.extra_bits(layer)
        found[layer.name] = BitwidthLayer(
            input_format=list(ours.inputs),
            weights_format=list(ours.weights),
            sum_format=[accumulator.product_bits(*widths) + extra, ours.fraction],
            available_bits=problem.available_bits(layer),
            extra_bits=extra,
            products_of_a_sum=layer.macs_per_output,
            moved_bits={
                "input": widths[0] * prod(layer.input_shape),
                "weights": widths[1] * prod(layer.kernels_shape),
            },
            noise_ppb=noise(*widths, problem.ranges[layer.name]),
            measured=None if seen is None else seen.layer_measures(layer.name),
        )
    return found


def recheck(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify what an optimal plan claims beyond its objective: that a front is complete."""
    if problem.minimise != "pareto":
        return []
    claimed = [costs(problem, one) for one in plan.front]
    try:
        again = front_of(problem, deadline)
    except OutOfTimeError:
        return front.recheck(claimed, [], False)
    return front.recheck(claimed, [(point.noise, point.bits) for point in again], True)


# How the room is run ---------------------------------------------------------------------------------


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes."""
    if problem.data is None:
        return 0.05
    macs = sum(layer.macs_per_output * prod(layer.output) for layer in problem.layers)
    return 0.1 + SECONDS_PER_MAC * macs * min(problem.data.images or 10**9, len(problem.samples.inputs))


def numeric_elements(problem: Problem) -> int:
    """Elements that a numeric simulation holds: the taps of one image's largest layer, and the weights."""
    return max(
        prod(layer.output_plane) * layer.macs_per_output * layer.groups + prod(layer.kernels_shape)
        for layer in problem.layers
    )


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    one = 200 * (1 + len(problem.layers))
    return 10_000 * one if problem.minimise == "pareto" else one


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the heuristics and the exact search."""
    return Portfolio(CONSTRUCT, "merging")
