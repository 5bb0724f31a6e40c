"""Arrays of numbers over nested loops, told in C by the variables of these loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.microcontroller.arrays import array_lines

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

MOST_ENTRIES = 1 << 22
"""Numbers of an array over loops that are looked at one by one."""


class Tables:
    """Tables of numbers that C looks up, as few as texts use.

    Parameters
    ----------
    stem
        What their names begin with.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self._known: dict[tuple[bytes, str], str] = {}
        self._lines: list[str] = []

    def name(self, values: NDArray[Any]) -> str:
        """Return what C calls a table of some integers."""
        integers = values.astype(np.int64).reshape(-1)
        low, high = int(integers.min(initial=0)), int(integers.max(initial=0))
        kind = next(each for each in ("int8", "int16", "int32") if _holds(each, low, high))
        key = integers.tobytes(), kind
        if key not in self._known:
            self._known[key] = name = f"{self.stem}_table{len(self._known)}"
            self._lines += array_lines(f"{kind}_t", name, integers)
        return self._known[key]

    def lines(self) -> Iterator[str]:
        """Return them in C."""
        yield from self._lines


def _holds(kind: str, low: int, high: int) -> bool:
    known = np.iinfo(kind)
    return bool(known.min <= low and high <= known.max)


Kept = TypeVar("Kept", bound=np.generic)


def compacted(values: NDArray[Kept]) -> NDArray[Kept]:
    """Return an array with a size of 1 along each axis on which it does not depend."""
    for axis in range(values.ndim):
        first = values.take([0], axis)
        if values.shape[axis] > 1 and bool((values == first).all()):
            values = first
    return values


def last_axis(*arrays: NDArray[Any]) -> int:
    """Return the innermost axis on which arrays depend, -1 if there is none."""
    return max((axis for each in arrays for axis, size in enumerate(each.shape) if size > 1), default=-1)


def number_text(values: Integers, names: Sequence[str], tables: Tables, mask: Truths | None = None) -> str:
    """Return C for numbers that depend on loops.

    Parameters
    ----------
    values
        An axis for each loop, of size 1 if the numbers do not depend on it.
    names
        Variables of the loops.
    mask
        Where the numbers count; by default everywhere.
    """
    if mask is not None and not mask.all():
        shape = np.broadcast_shapes(values.shape, mask.shape)
        found = _affine(np.broadcast_to(values, shape), names, np.broadcast_to(mask, shape))
        if found is not None:
            return found
    values = compacted(values)
    found = _affine(values, names, np.ones(values.shape, np.bool_))
    if found is None:
        found = _by_axes(values, names, tables)
    return found if found is not None else _looked_up(values, names, tables)


def _affine(values: Integers, names: Sequence[str], mask: Truths) -> str | None:
    """Return a sum of multiples of variables, if it gives the numbers wherever they count."""
    places = np.argwhere(mask)
    if not len(places):
        return "0"
    factors, rest = [], values
    for axis, size in enumerate(values.shape):
        factor = 0
        if size > 1:
            both = mask.take(range(1, size), axis) & mask.take(range(size - 1), axis)
            steps = np.diff(values, axis=axis)[both]
            factor = int(steps[0]) if len(steps) else 0
        factors.append(factor)
        along = np.arange(size).reshape([-1 if each == axis else 1 for each in range(values.ndim)])
        rest = rest - factor * along
    base = int(rest[tuple(places[0])])
    if not bool((rest[mask] == base).all()):
        return None
    return sum_text([(factor, name) for factor, name in zip(factors, names, strict=False) if factor], base)


def sum_text(terms: Sequence[tuple[int, str]], base: int) -> str:
    """Return C for a sum of multiples and a number."""
    text = ""
    for factor, name in terms:
        own = name if abs(factor) == 1 else f"{name} * {abs(factor)}"
        text += (" - " if text else "-") + own if factor < 0 else (" + " if text else "") + own
    if base or not text:
        text += f" {'-' if base < 0 else '+'} {abs(base)}" if text else str(base)
    return text


def _by_axes(values: Integers, names: Sequence[str], tables: Tables) -> str | None:
    """Return a sum of functions of one variable each, if there is one."""
    origin = (0,) * values.ndim
    base, parts = int(values[origin]), []
    whole = np.full((1,) * values.ndim, base, np.int64)
    for axis, size in enumerate(values.shape):
        if size > 1:
            part = values[tuple(slice(None) if each == axis else 0 for each in range(values.ndim))] - base
            parts.append((part, names[axis]))
            whole = whole + part.reshape([-1 if each == axis else 1 for each in range(values.ndim)])
    if not np.array_equal(whole, values):
        return None
    texts = [_of_one(part, name, tables) for part, name in parts]
    return " + ".join([*texts, *([str(base)] if base > 0 else [])]) + (f" - {-base}" if base < 0 else "")


def _of_one(values: Integers, name: str, tables: Tables) -> str:
    """Return a function of one variable that is 0 at 0."""
    places = np.arange(len(values))
    if np.array_equal(values, places * values[1]):
        return sum_text([(int(values[1]), name)], 0) if values[1] >= 0 else f"({name} * {values[1]})"
    for width in range(2, len(values)):
        high, low = int(values[width]), int(values[1])
        if high >= 0 and low >= 0 and np.array_equal(values, places // width * high + places % width * low):
            texts = [f"{name} {sign} {width} * {each}" for sign, each in (("/", high), ("%", low)) if each]
            return " + ".join(texts)
    return f"{tables.name(values)}[{name}]"


def _looked_up(values: Integers, names: Sequence[str], tables: Tables) -> str:
    """Return a place of a table."""
    axes = [axis for axis, size in enumerate(values.shape) if size > 1]
    terms, step = list[tuple[int, str]](), 1
    for axis in reversed(axes):
        terms.insert(0, (step, names[axis]))
        step *= values.shape[axis]
    return f"{tables.name(values)}[{sum_text(terms, 0)}]"


def truth_text(truths: Truths, names: Sequence[str], tables: Tables) -> str:
    """Return C for a condition that depends on loops; none where it is always true."""
    found = compacted(truths)
    if found.all():
        return ""
    axes = [axis for axis, size in enumerate(found.shape) if size > 1]
    if not axes:
        return "0"
    alone = [
        np.asarray(found.any(tuple(each for each in range(found.ndim) if each != axis))) for axis in axes
    ]
    product = np.ones((1,) * found.ndim, np.bool_)
    for axis, each in zip(axes, alone, strict=True):
        product = product & each.reshape([-1 if one == axis else 1 for one in range(found.ndim)])
    if not np.array_equal(product, found):
        return _looked_up(found.astype(np.int64), names, tables)
    texts = [_within(each, names[axis], tables) for axis, each in zip(axes, alone, strict=True)]
    return " && ".join(each for each in texts if each)


def _within(truths: Truths, name: str, tables: Tables) -> str:
    """Return C for a condition on one variable."""
    (places,) = np.nonzero(truths)
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 > len(places):
        return f"{tables.name(truths.astype(np.int64))}[{name}]"
    if first == last:
        return f"{name} == {first}"
    texts = [f"{name} >= {first}"] * (first > 0) + [f"{name} < {last + 1}"] * (last + 1 < len(truths))
    return " && ".join(texts)


def coordinates(index: Integers, shape: Sequence[int]) -> list[Integers]:
    """Return where values lie along each axis of an array, given their places in order.

    Of arrays of several axes NumPy's own function (2.4) gives wrong ones from the 8,193rd number on.
    """
    found, left = list[Integers](), index.astype(np.int64)
    for size in reversed(shape):
        left, place = np.divmod(left, max(1, size))
        found.insert(0, place)
    return found


def places_at(coordinates: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Return the places in order of values that lie somewhere along each axis of an array."""
    found = np.zeros((), np.int64)
    for place, size in zip(coordinates, shape, strict=True):
        found = found * size + place
    return found


def entries(*arrays: NDArray[Any]) -> int:
    """Return how many numbers an array over the loops of several has."""
    return prod(np.broadcast_shapes(*(each.shape for each in arrays)))
