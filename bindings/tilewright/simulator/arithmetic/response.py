"""Local response normalisation, exactly and with a look-up table: equation 4.15 of the IDSP thesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.spec.network import Response

ENTRIES = 32
"""Numbers of a table."""


def response_bases(response: Response, values: Floats) -> Floats:
    """Return what the power is taken of: k and a share of the squares of neighbouring channels.

    Parameters
    ----------
    values : shape (images, C, H, W)
    """
    before = (response.size - 1) // 2
    around = ((0, 0), (before, response.size - 1 - before), (0, 0), (0, 0))
    seen = np.lib.stride_tricks.sliding_window_view(np.pad(np.square(values), around), response.size, axis=1)
    found: Floats = response.k + response.alpha / response.size * seen.sum(axis=-1)
    return found


def normalise(response: Response, values: Floats) -> Floats:
    """Return the values, each divided by the power of its base."""
    found: Floats = values * response_bases(response, values) ** -response.beta
    return found


@dataclass(frozen=True)
class PowerTable:
    """The power ``base ** -beta`` in equal steps of the base; each number is halfway between a step's ends.

    Attributes
    ----------
    first, step
        Least base, and the width of a step.
    powers : shape (ENTRIES,)
    """

    beta: float
    first: float
    step: float
    powers: Floats

    @classmethod
    def of(cls, response: Response, largest: float) -> PowerTable:
        """Return the table for inputs of magnitudes up to a largest one."""
        ends = np.linspace(response.k, response.k + response.alpha * largest**2, ENTRIES + 1)
        exact = ends**-response.beta
        return cls(response.beta, response.k, float(ends[1] - ends[0]), (exact[:-1] + exact[1:]) / 2)

    @property
    def largest_error(self) -> float:
        """Largest relative error of a power: at an end of a step, as the power is monotonic."""
        exact = (self.first + self.step * np.arange(ENTRIES + 1)) ** -self.beta
        ends = np.stack([exact[:-1], exact[1:]])
        return float(np.abs(self.powers / ends - 1).max())

    def normalised(self, response: Response, values: Floats) -> Floats:
        """Return the values, each multiplied by the table's power of its base."""
        places = np.zeros(values.shape, dtype=np.int64)
        if self.step > 0:
            places = ((response_bases(response, values) - self.first) / self.step).astype(np.int64)
        found: Floats = values * self.powers[np.clip(places, 0, ENTRIES - 1)]
        return found
