"""What narrow numbers cost by the additive model: noise of quantisation, and bits that are moved.

Rounding to steps of ``2 ** -FL`` is taken for noise that is independent of all else, with a power of
``2 ** (-2 * FL) / 12``; zeros have none. A layer's ratio of noise to signal is that of its inputs plus that
of its weights, and less where the products of a sum are coherent, since noise is not. A network's is the sum
over its layers: as though noise of one passed through all that follow, gained and lost with the signal.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log10
from typing import NamedTuple

from tilewright.bitwidth.machine import LayerRange
from tilewright.simulator.arithmetic.fixed_point import Format

SIGNAL = 10**9
"""Power of a layer's signal in the units of noise, parts per billion; noise as loud makes a layer useless."""


class Candidate(NamedTuple):
    """Widths that a layer can have, and what they cost.

    Attributes
    ----------
    inputs, weights
        Bits of each.
    noise
        In parts per billion of the signal's power, rounded up, so that sums are exact.
    bits
        Of all inputs and weights of the layer.
    """

    inputs: int
    weights: int
    noise: int
    bits: int


def noise(inputs: int, weights: int, known: LayerRange) -> int:
    """Return the noise of a layer by the model, in parts per billion of its signal, rounded up."""
    of_inputs, of_weights = (
        4.0 ** -Format.of(bits, largest).fraction / 12 / power
        for bits, largest, power in zip(
            (inputs, weights), (known.input, known.weights), known.powers, strict=True
        )
    )
    ratio = (known.input_density * of_inputs + of_weights) / known.coherence
    return ceil(min(ratio, 1e9) * SIGNAL)


def decibels(noise: int) -> float:
    """Return the ratio of signal to noise of so many parts per billion."""
    return 10 * log10(SIGNAL / noise)


def most_noise(signal_to_noise_db: float) -> int:
    """Return the most parts per billion of noise that keep a ratio."""
    return int(SIGNAL * 10 ** (-signal_to_noise_db / 10))


def undominated(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that no other beats in noise and bits, least noise first; one of equal ones."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda one: (one.noise, one.bits, one)):
        if not kept or candidate.bits < kept[-1].bits:
            kept.append(candidate)
    return tuple(kept)
