"""Softmax of scores and its product with values, in floating point: of whole rows, or of keys that pass by.

Memories hold integers. So a float lies in one as the integer of the same bits, and what comes of a product
with a softmax is told in parts of 2^20, so that rounding makes no difference to what follows.

Notes
-----
Of keys that pass by, a row has a running maximum m, a running sum l and a running context a. A block with
scores s and values v makes them m' = max(m, s), l' = l e^(m - m') + sum e^(s - m') and
a' = a e^(m - m') + e^(s - m') v; at last the context is a / l [1]_.

.. [1] M. Milakov, N. Gimelshein: Online normalizer calculation for softmax. arXiv:1805.02867, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.reference import small
from tilewright.simulator.program import Values
from tilewright.spec.graph import Operation
from tilewright.spec.network import MatMul

Floats = NDArray[np.float64]

PARTS = 2**20
"""Parts in which a context is told."""

BETWEEN = 0.3819660112501051
"""What is added before parts are cut off: quotients of small integers are then far from a cut."""


class Running(NamedTuple):
    """What rows have of the keys that have passed.

    Attributes
    ----------
    most, total : shape (rows, groups)
        The largest score, and the sum of exponentials of scores below it.
    context : shape (rows, groups, values)
        The sum of values, each times such an exponential.
    """

    most: Floats
    total: Floats
    context: Floats


def in_bits(values: Floats) -> Values:
    """Return floats as integers of the same bits."""
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)


def of_bits(values: Values) -> Floats:
    """Return the floats that lie as integers of the same bits."""
    return np.ascontiguousarray(values).view(np.float64)


def sees(keys: Values, rows: Values, causal: int | None) -> NDArray[np.bool_]:
    """Return which keys each row sees, shape (rows, 1, keys)."""
    if causal is None:
        return np.ones((len(rows), 1, len(keys)), dtype=np.bool_)
    found: NDArray[np.bool_] = keys[None, None] <= rows[:, None, None] + causal
    return found


def softmax(scores: Values, seen: NDArray[np.bool_] | None = None) -> Floats:
    """Return the softmax along the last axis, of what is seen."""
    shown = scores.astype(np.float64) if seen is None else np.where(seen, scores, -np.inf)
    powers: Floats = np.exp(shown - shown.max(axis=-1, keepdims=True))
    found: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return found


def pass_scores(
    scores: Values, before: Running | None, values: int, seen: NDArray[np.bool_]
) -> tuple[Floats, Running]:
    """Return exponentials of scores below the new maximum, and what rows then have, without these values.

    Parameters
    ----------
    scores : shape (rows, groups, keys)
    before
        What they have had; None before the first keys.
    values
        Columns of the context.
    seen : shape (rows, 1, keys)
        Of the first keys each row sees one.
    """
    shown = np.where(seen, scores, -np.inf)
    most = shown.max(axis=-1)
    if before is not None:
        most = np.maximum(most, before.most)
    powers: Floats = np.exp(shown - most[..., None])
    total, context = powers.sum(axis=-1), np.zeros((*most.shape, values))
    if before is not None:
        less = np.exp(before.most - most)
        total, context = total + before.total * less, before.context * less[..., None]
    return powers, Running(most, total, context)


def weighted_values(powers: Floats, values: Values) -> Floats:
    """Return the sums of values, each times an exponential, shape (rows, groups, values).

    Parameters
    ----------
    powers : shape (rows, groups, keys)
    values : shape (groups, keys, values)
    """
    found: Floats = np.einsum("rgk,gkv->rgv", powers, values.astype(np.float64))
    return found


def in_parts(context: Floats) -> Values:
    """Return a context in parts of 2^20, as integers."""
    return np.floor(context * PARTS + BETWEEN).astype(np.int64)


def in_floats_of(operation: Operation) -> Callable[[Sequence[Values], Values], Values]:
    """Return what a softmax computes of pixels, or the product of one with values, in floating point.

    Pixels have the shape (pixels, channels), with the channels of all groups, and numbers; see
    `PixelArithmetic`.
    """
    spec = operation.spec
    if isinstance(spec, MatMul):
        return lambda operands, _: _context_of(spec, *operands)
    together, causal = operation.together, operation.causal
    assert together is not None

    def of_rows(operands: Sequence[Values], pixels: Values) -> Values:
        seen = sees(np.arange(together), pixels, causal)
        found = softmax(small(operands[0]).reshape(len(operands[0]), -1, together), seen)
        return in_bits(found).reshape(operands[0].shape)

    return of_rows


def _context_of(spec: MatMul, powers: Values, values: Values) -> Values:
    """Return the context of some rows; `values`: all of the second operand, pixel by pixel."""
    stored = small(values).T
    if spec.transposed:
        stored = stored.reshape(spec.groups, spec.columns, spec.depth).transpose(0, 2, 1)
    rows = of_bits(powers).reshape(len(powers), spec.groups, spec.depth)
    found = weighted_values(rows, stored.reshape(spec.groups, spec.depth, spec.columns))
    return in_parts(found).reshape(len(powers), -1)
