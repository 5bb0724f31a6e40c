"""What was measured of an executed plan of bit widths, and of its network in integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from tilewright.core.measures import Amounts, Count, InCycles, Table, measures

Format = Annotated[list[int], Field(min_length=2, max_length=2)]
"""The bits of a number, and those behind the point."""


@measures
class Seen(Table):
    """What was seen of integers beside floating point."""

    signal_to_noise_db: float | None
    """Of the sums, in decibels; null where there is no noise."""
    overflows: Count
    """Complete sums that the accumulator does not hold."""


@measures
class LayerSeen(Seen):
    """Of a layer: the ratio is that when it alone is quantised."""

    sums: Count
    """Complete sums of all images."""
    first_overflows: list[list[int]]
    """Image, map, row and column of the first of them, from 0."""
    saturated: Count
    """Values that the layer read or stored and that their format does not hold."""


@measures
class NetworkSeen(Seen):
    """Of a network: the ratio is that of its outputs."""

    images: Count
    """How many were run."""
    right: Count | None
    """Of them in the right class; null without labels."""
    float_right: Count | None
    """Likewise in floating point."""
    agreeing: Count
    """Images that both put into the same class."""
    saturated: Count | None = None
    """Values that their format does not hold, wherever they are read or stored; missing in older files."""


@measures
class BitwidthPoint(Table):
    """A plan of a Pareto front of bit widths."""

    noise_ppb: Count
    """Noise of quantisation by the model, in parts per billion of the signal's power."""
    moved_bits: Count
    """Of all inputs and weights, each once."""


@measures
class BitwidthLayer(Table):
    """Of a layer with its formats: width, and bits behind the point."""

    input_format: Format
    weights_format: Format
    sum_format: Format
    """The fewest bits that the bound lets a sum have."""
    available_bits: int
    """Of inputs and weights together."""
    extra_bits: Count
    """Of a sum beyond a product."""
    products_of_a_sum: Count
    moved_bits: Amounts
    """By operand."""
    noise_ppb: Count
    """Noise of quantisation by the model, in parts per billion of the signal's power."""
    measured: LayerSeen | None = None
    """Missing where the instance has no weights and samples."""


@measures
class BitwidthMeasures(InCycles):
    """Of bit widths; of a front those of its first plan, with the points of all."""

    PARTS: ClassVar[Mapping[str, str]] = {"front": "", "layers": "layer"}

    noise_ppb: Count
    """Noise of quantisation by the model, in parts per billion of the signal's power."""
    moved_bits: Count
    """Of all inputs and weights, each once."""
    measured: NetworkSeen | None = None
    """Missing where the instance has no weights and samples."""
    layers: dict[str, BitwidthLayer]
    """By name, in order."""
    front: list[BitwidthPoint] | None = None
    """Points of a Pareto front, the one with least noise first."""
