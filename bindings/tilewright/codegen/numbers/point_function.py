"""Functions of single values, computed on the way out of an operation: in numpy, and as C writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import erf
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats

_erf = np.vectorize(erf, otypes=[np.float64])


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


class Known(NamedTuple):
    """A function of one value: in numpy, in C with `<tgmath.h>`, and attributes with what they are left out.

    C has ``{x}`` for the value, and attributes by their names.
    """

    in_c: str
    attributes: Mapping[str, float] = {}


MOST = 3.4028234e38
"""What stands for the largest number."""

KNOWN: Mapping[str, Known] = {
    "relu": Known("{x} > 0 ? {x} : 0"),
    "sigmoid": Known("1 / (1 + exp(-{x}))"),
    "tanh": Known("tanh({x})"),
    "erf": Known("erf({x})"),
    "gelu": Known("{x} / 2 * (1 + erf({x} * (value_t)0.7071067811865476))"),
    "swish": Known("{x} / (1 + exp(-{alpha} * {x}))", {"alpha": 1.0}),
    "leaky_relu": Known("{x} > 0 ? {x} : {alpha} * {x}", {"alpha": 0.01}),
    "elu": Known("{x} > 0 ? {x} : {alpha} * (exp({x}) - 1)", {"alpha": 1.0}),
    "softsign": Known("{x} / (1 + fabs({x}))"),
    "softplus": Known("({x} > 0 ? {x} : 0) + log(1 + exp(-fabs({x})))"),
    "hard_sigmoid": Known("MAX(0, MIN(1, {alpha} * {x} + {beta}))", {"alpha": 0.2, "beta": 0.5}),
    "hard_swish": Known("{x} * MAX(0, MIN(1, {x} / 6 + (value_t)0.5))"),
    "clip": Known("MAX({min}, MIN({max}, {x}))", {"min": -MOST, "max": MOST}),
    "abs": Known("fabs({x})"),
    "ceil": Known("ceil({x})"),
    "cos": Known("cos({x})"),
    "exp": Known("exp({x})"),
    "floor": Known("floor({x})"),
    "log": Known("log({x})"),
    "neg": Known("-{x}"),
    "reciprocal": Known("1 / {x}"),
    "sin": Known("sin({x})"),
    "sqrt": Known("sqrt({x})"),
}
"""Functions without parameters, by the names that layers have for them."""


def value_of(op: str, x: Floats, **numbers: float) -> Floats:
    """Return a function of `KNOWN` of values."""
    found: Floats
    match op:
        case "relu":
            found = np.maximum(x, 0)
        case "sigmoid":
            found = _sigmoid(x)
        case "tanh":
            found = np.tanh(x)
        case "erf":
            found = _erf(x)
        case "gelu":
            found = x / 2 * (1 + _erf(x / np.sqrt(2)))
        case "swish":
            found = x * _sigmoid(numbers["alpha"] * x)
        case "leaky_relu":
            found = np.where(x > 0, x, numbers["alpha"] * x)
        case "elu":
            found = np.where(x > 0, x, numbers["alpha"] * np.expm1(np.minimum(x, 0)))
        case "softsign":
            found = x / (1 + np.abs(x))
        case "softplus":
            found = np.logaddexp(x, 0)
        case "hard_sigmoid":
            found = np.clip(numbers["alpha"] * x + numbers["beta"], 0, 1)
        case "clip":
            found = np.clip(x, numbers["min"], numbers["max"])
        case "hard_swish":
            found = x * np.clip(x / 6 + 0.5, 0, 1)
        case "neg":
            found = -x
        case "reciprocal":
            found = 1 / x
        case _:
            found = getattr(np, op)(x)
    return found


class Joined(NamedTuple):
    """A function of two values or more, from the left: in numpy, and in C with ``{a}`` and ``{b}``."""

    values: Callable[[Floats, Floats], Floats]
    in_c: str


JOINED: Mapping[str, Joined] = {
    "add": Joined(np.add, "{a} + {b}"),
    "sum": Joined(np.add, "{a} + {b}"),
    "sub": Joined(np.subtract, "{a} - {b}"),
    "mul": Joined(np.multiply, "{a} * {b}"),
    "div": Joined(np.divide, "{a} / {b}"),
    "max": Joined(np.maximum, "MAX({a}, {b})"),
    "min": Joined(np.minimum, "MIN({a}, {b})"),
    "pow": Joined(np.power, "pow({a}, {b})"),
}
"""Functions of several values, by the names that layers have for them."""


class PointStep(NamedTuple):
    """A value that is computed of earlier ones.

    Attributes
    ----------
    op
        Of `KNOWN`, or ``scale`` and ``bias`` by ``number``, or one of `JOINED` of several, or of one and of
        ``number``, which stands behind it, or before it where it is called ``before``.
    reads
        Numbers of what it is computed from: 0 for the value that is given, then those of steps.
    numbers
        By name.
    """

    op: str
    reads: tuple[int, ...]
    numbers: Mapping[str, float] = {}


@dataclass(frozen=True)
class PointFunction:
    """A function of a single value, the last of whose steps is its result."""

    steps: tuple[PointStep, ...] = ()

    def __call__(self, values: Floats) -> Floats:
        """Return the function of values."""
        found = [values]
        for step in self.steps:
            found.append(value_of_step(step, [found[place] for place in step.reads]))
        return found[-1]

    def in_c(self, name: str) -> list[str]:
        """Return the lines of a function in C."""
        lines = [f"static value_t {name}(value_t v0)", "{"]
        for place, step in enumerate(self.steps, 1):
            text = step_in_c(step, [f"v{read}" for read in step.reads])
            lines.append(f"    const value_t v{place} = {text};")
        return [*lines, f"    return v{len(self.steps)};", "}"]


def value_of_step(step: PointStep, read: Sequence[Floats]) -> Floats:
    """Return what a step computes of what it reads."""
    if step.op in ("scale", "bias"):
        number = step.numbers["number"]
        return read[0] * number if step.op == "scale" else read[0] + number
    if step.op in JOINED:
        before = [np.array(step.numbers["before"])] if "before" in step.numbers else []
        behind = [np.array(step.numbers["number"])] if "number" in step.numbers else []
        return reduce(JOINED[step.op].values, [*before, *read, *behind])
    return value_of(step.op, read[0], **step.numbers)


def step_in_c(step: PointStep, read: Sequence[str]) -> str:
    """Return what a step computes of names, as C writes it."""
    told = {name: f"(value_t){number!r}" for name, number in step.numbers.items()}
    if step.op in ("scale", "bias"):
        return f"{read[0]} {'*' if step.op == 'scale' else '+'} {told['number']}"
    if step.op in JOINED:
        operands = [*([told["before"]] if "before" in told else []), *read]
        operands += [told["number"]] if "number" in told else []
        found = operands[0]
        for place, operand in enumerate(operands[1:], 1):
            plain = place == 1 or step.op in ("add", "sum", "mul", "sub")
            found = JOINED[step.op].in_c.format(a=found if plain else f"({found})", b=operand)
        return found
    return KNOWN[step.op].in_c.format(x=read[0], **told)
