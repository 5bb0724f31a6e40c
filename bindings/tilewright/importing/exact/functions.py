"""Functions of one float, and the tables of integers that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.importing.exact.tensors import Scaled
from tilewright.importing.tflite.functions_of_one import EVERY, Floats, in_double, logistic

Function = Callable[[Floats], Floats]

Attributes = Mapping[str, Any]


def quantised(values: Floats, scaled: Scaled) -> NDArray[np.int64]:
    """Return the integers of floats, as QuantizeLinear gives them."""
    rounded = np.rint((values / scaled.scale).astype(np.float64)) + scaled.zero
    found: NDArray[np.int64] = np.clip(rounded, -128, 127).astype(np.int64)
    return found


def table_of(function: Function, given: Scaled, gives: Scaled) -> NDArray[np.int8]:
    """Return the integers that stand for a function of what integers from -128 to 127 stand for."""
    with np.errstate(over="ignore"):
        values = function(given.scale * (EVERY - given.zero).astype(np.float32))
    found: NDArray[np.int8] = quantised(values.astype(np.float32), gives).astype(np.int8)
    return found


def powers_of(given: Scaled, count: int) -> Floats:
    """Return ``exp((i - 255) * scale)`` of i from 0 to 255, times a factor that keeps sums of them finite."""
    scale = float(given.scale)
    room = float(np.log(np.float64(np.finfo(np.float32).max / np.float32(count))))
    places = np.arange(256) - 255.0 + max(0.0, room - 5) / scale
    found: Floats = np.exp(places * scale).astype(np.float32)
    return found


def leaky(told: Attributes) -> Function:
    """Return LeakyRelu."""
    slope = np.float32(told.get("alpha", 0.01))
    return lambda values: np.where(values >= 0, values, slope * values)


def elu(told: Attributes) -> Function:
    """Return Elu."""
    slope = np.float32(told.get("alpha", 1.0))
    return lambda values: np.where(values >= 0, values, slope * in_double(np.expm1)(np.minimum(values, 0)))


def hard_sigmoid(told: Attributes) -> Function:
    """Return HardSigmoid."""
    slope, offset = np.float32(told.get("alpha", 0.2)), np.float32(told.get("beta", 0.5))
    return lambda values: np.clip(slope * values + offset, np.float32(0), np.float32(1))


def hard_swish(told: Attributes) -> Function:
    """Return HardSwish."""
    ramp = hard_sigmoid({"alpha": 1 / 6, "beta": 0.5})
    return lambda values: values * ramp(values)


FUNCTIONS: dict[str, Callable[[Attributes], Function]] = {
    "Sigmoid": lambda told: logistic,
    "Tanh": lambda told: in_double(np.tanh),
    "LeakyRelu": leaky,
    "Elu": elu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Abs": lambda told: np.abs,
    "Neg": lambda told: np.negative,
}
"""By ONNX's name, made of a node's attributes."""
