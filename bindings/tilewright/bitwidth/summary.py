"""What people are shown of a solved bitwidth problem: rows of totals and a line per layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.bitwidth.measurement import interval
from tilewright.bitwidth.measures import BitwidthLayer, BitwidthMeasures, LayerSeen, NetworkSeen
from tilewright.bitwidth.noise import decibels
from tilewright.bitwidth.problem import Problem
from tilewright.core.front import thinned
from tilewright.core.narrowing import Narrowing
from tilewright.core.overview import Front, Overview, of_table
from tilewright.core.room import Rows

FAR_BELOW_DB = 6.0
"""Decibels by which what is measured may be below the model before a warning says so: a bit."""

MOST_POINTS = 40
"""Most lines of a Pareto front that are printed; a longer one is thinned out."""


ABOUT = (
    "Inputs and weights of a layer are two's complement numbers of so many bits, the last FL of them behind "
    "the point; K products are added up for each output. Together: the bits of both, and how many the "
    "accumulator leaves them. Noise: of quantisation by the model, in parts per billion of the signal."
)


NARROWING = Narrowing(last=("noise ppb", "K"))
"""What becomes of the table where columns are few."""


def rows(problem: Problem, measures: BitwidthMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    machine, model = problem.machine, decibels(measures.noise_ppb)
    shown = [("accumulator", f"{machine.accumulator_bits} bits, guarded by {problem.limits.bound}")]
    if measures.front:
        first = f"{measures.noise_ppb:,} ppb of noise, {measures.moved_bits:,} bits"
        shown += [("front", f"{len(measures.front):,} plans"), ("first plan", first)]
    else:
        shown.append(("bits", f"{measures.moved_bits:,} of all inputs and weights, each once"))
    shown.append(("model", f"{model:.2f} dB signal to noise"))
    seen = measures.measured
    if seen is None:
        shown.append(("measured", "nothing: the instance has no weights and samples"))
        return shown
    ratio = seen.signal_to_noise_db
    told = "no noise" if ratio is None else f"{ratio:.2f} dB signal to noise"
    beside = 0.0 if ratio is None else ratio - model
    if ratio is not None:
        told += f", {beside:+.2f} dB beside the model"
    shown.append(("measured", f"{told}; {seen.images:,} images"))
    if beside < -FAR_BELOW_DB:
        shown.append(("WARNING", f"the model does not hold for this plan: {-beside:.2f} dB too much"))
    shown += _accuracy(seen)
    shown.append(("overflows", _overflows(measures)))
    if seen.saturated is not None:
        shown.append(("saturated", f"{seen.saturated:,} values" if seen.saturated else "none"))
    return shown


def _accuracy(seen: NetworkSeen) -> Rows:
    """Return the lines about classes: how many images fall into the same, and how many into the right one."""
    images = seen.images
    same = ("same class", f"{seen.agreeing:,} of {images:,} images as in floating point")
    if seen.right is None or seen.float_right is None:
        return [same]
    low, high = interval(seen.right, images)
    told = f"{seen.right / images:.2%} ({low:.2%} to {high:.2%} with 95 % confidence)"
    return [("accuracy", told), ("in float", f"{seen.float_right / images:.2%}"), same]


def _overflows(measures: BitwidthMeasures) -> str:
    """Say how many sums of which layers the accumulator does not hold, and where the first one is."""
    seen = {name: layer.measured for name, layer in measures.layers.items() if layer.measured is not None}
    found = {name: layer for name, layer in seen.items() if layer.overflows}
    if not found:
        return f"none of {sum(layer.sums for layer in seen.values()):,} sums"
    name, first = next(iter(found.items()))
    image, channel, line, column = first.first_overflows[0]
    counts = ", ".join(f"{name} {layer.overflows:,} of {layer.sums:,}" for name, layer in found.items())
    return f"{counts}; first in {name}: image {image}, map {channel}, row {line}, column {column}"


def table(problem: Problem, measures: BitwidthMeasures) -> list[tuple[str, ...]]:
    """Return a header and one line per layer, or per plan of a front."""
    if measures.front:
        points = [(point.noise_ppb, point.moved_bits) for point in thinned(measures.front, MOST_POINTS)]
        shown = ((f"{noise:,}", f"{decibels(noise):.2f}", f"{bits:,}") for noise, bits in points)
        return [("noise ppb", "dB", "bits"), *shown]
    header = ("layer", "K", "input", "FL", "weights", "FL", "together", "noise ppb", "dB")
    lines = [_line(name, layer) for name, layer in measures.layers.items()]
    if measures.measured is None:
        return [header, *lines]
    seen = [_measured(layer.measured) for layer in measures.layers.values() if layer.measured is not None]
    return [(*header, "measured dB", "overflows"), *(a + b for a, b in zip(lines, seen, strict=True))]


def _line(name: str, layer: BitwidthLayer) -> tuple[str, ...]:
    (inputs, first), (weights, second) = layer.input_format, layer.weights_format
    return (
        name,
        f"{layer.products_of_a_sum:,}",
        str(inputs),
        str(first),
        str(weights),
        str(second),
        f"{inputs + weights} of {layer.available_bits}",
        f"{layer.noise_ppb:,}",
        f"{decibels(layer.noise_ppb):.2f}",
    )


def _measured(seen: LayerSeen) -> tuple[str, str]:
    ratio = seen.signal_to_noise_db
    return "" if ratio is None else f"{ratio:.2f}", f"{seen.overflows:,}"


def overview(problem: Problem, plan: Any, measures: BitwidthMeasures) -> Overview:
    """Return the table with what its columns mean; of a front its points, too."""
    told = of_table(table(problem, measures))
    if not measures.front:
        return replace(told, what="layer", about=ABOUT)
    return replace(told, what="plan of the front", front=front_of(measures))


def front_of(measures: BitwidthMeasures) -> Front:
    """Return what the plans of a front trade for each other."""
    assert measures.front is not None
    points = [(float(point.moved_bits), decibels(point.noise_ppb)) for point in measures.front]
    across, up = "bits of all inputs and weights", "signal to noise in dB, by the model"
    return Front(across, up, points, about="Each point is a plan: none has as few bits and less noise.")
