"""What people are shown of a solved bitwidth problem: rows of totals and a line per layer."""

from __future__ import annotations

from typing import Any

from tilewright.bitwidth.measurement import interval
from tilewright.bitwidth.noise import decibels
from tilewright.bitwidth.problem import Problem

Rows = list[tuple[str, str]]

FAR_BELOW_DB = 6.0
"""Decibels by which what is measured may be below the model before a warning says so: a bit."""

MOST_POINTS = 40
"""Most lines of a Pareto front that are printed; a longer one is thinned out."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    facts, machine, points = report["facts"], problem.machine, report["facts"]["points"]
    shown = [("accumulator", f"{machine.accumulator_bits} bits, guarded by {problem.limits.bound}")]
    if points:
        shown.append(("front", f"{len(points):,} plans"))
        shown.append(("first plan", f"{facts['noise']:,} ppb of noise, {facts['bits']:,} bits"))
    else:
        shown.append(("bits", f"{facts['bits']:,} of all inputs and weights, each once"))
    model = f"{decibels(facts['noise']):.2f} dB signal to noise"
    shown.append(("model", model))
    measured = facts.get("measured")
    if measured is None:
        shown.append(("measured", "nothing: the instance has no weights and samples"))
        return shown
    ratio = measured["signal_to_noise_db"]
    told = "no noise" if ratio is None else f"{ratio:.2f} dB signal to noise"
    beside = 0.0 if ratio is None else ratio - decibels(facts["noise"])
    if ratio is not None:
        told += f", {beside:+.2f} dB beside the model"
    shown.append(("measured", f"{told}; {measured['images']:,} images"))
    if beside < -FAR_BELOW_DB:
        shown.append(("WARNING", f"the model does not hold for this plan: {-beside:.2f} dB too much"))
    shown += _accuracy(measured)
    shown.append(("overflows", _overflows(measured)))
    saturated = measured.get("saturated")  # which reports of earlier versions do not tell
    shown += [] if saturated is None else [("saturated", f"{saturated:,} values" if saturated else "none")]
    return shown


def _accuracy(measured: dict[str, Any]) -> Rows:
    images, right = measured["images"], measured["right"]
    same = ("same class", f"{measured['agreeing']:,} of {images:,} images as in floating point")
    if right is None:
        return [same]
    low, high = interval(right, images)
    told = f"{right / images:.2%} ({low:.2%} to {high:.2%} with 95 % confidence)"
    return [("accuracy", told), ("in float", f"{measured['float_right'] / images:.2%}"), same]


def _overflows(measured: dict[str, Any]) -> str:
    found = {name: row for name, row in measured["layers"].items() if row["overflows"]}
    if not found:
        sums = sum(row["sums"] for row in measured["layers"].values())
        return f"none of {sums:,} sums"
    name, row = next(iter(found.items()))
    image, channel, line, column = row["first_overflows"][0]
    counts = ", ".join(f"{name} {row['overflows']:,} of {row['sums']:,}" for name, row in found.items())
    return f"{counts}; first in {name}: image {image}, map {channel}, row {line}, column {column}"


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and one line per layer, or per plan of a front."""
    facts = report["facts"]
    if facts["points"]:
        points = facts["points"]
        step = -(-len(points) // MOST_POINTS)
        chosen = [points[place] for place in sorted({*range(0, len(points), step), len(points) - 1})]
        shown = ((f"{noise:,}", f"{decibels(noise):.2f}", f"{bits:,}") for noise, bits in chosen)
        return [("noise ppb", "dB", "bits"), *shown]
    measured = facts.get("measured")
    header = ("layer", "K", "input", "FL", "weights", "FL", "together", "noise ppb", "dB")
    lines: list[tuple[str, ...]] = [_line(row) for row in facts["layers"]]
    if measured is None:
        return [header, *lines]
    told = [_measured(measured["layers"][row["name"]]) for row in facts["layers"]]
    return [(*header, "measured dB", "overflows"), *(a + b for a, b in zip(lines, told, strict=True))]


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    (inputs, first), (weights, second) = row["input"], row["weights"]
    return (
        row["name"],
        f"{row['taps']:,}",
        str(inputs),
        str(first),
        str(weights),
        str(second),
        f"{inputs + weights} of {row['available']}",
        f"{row['noise']:,}",
        f"{decibels(row['noise']):.2f}",
    )


def _measured(row: dict[str, Any]) -> tuple[str, str]:
    ratio = row["signal_to_noise_db"]
    return "" if ratio is None else f"{ratio:.2f}", f"{row['overflows']:,}"
