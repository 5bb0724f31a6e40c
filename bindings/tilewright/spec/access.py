"""How operations go over values: whether each value can be moved once, whatever the memory.

Rooms charge what they know of. Of an operation that may need any value at any time nothing is known but that
it reads and gives each value once at least, unless all of it is on chip at a time: what it costs is then a
lower bound, a total with it is "at least", and no plan is called optimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tilewright.spec.graph import Operation
from tilewright.spec.network import (
    GATES,
    NORMALISATIONS,
    AnyLayer,
    Concat,
    Function,
    Map,
    MatMul,
    Opaque,
    Padding,
    Reshape,
    Shape,
    Slice,
)

Access = Literal["window", "place", "stream", "whole"]
"""What a value of the output is computed from.

``window``: what lies under a window, of one map or of all. ``place``: all maps of its place. ``stream``:
values are read in some order, each once, and those that come of them given in another. ``whole``: any of what
is read, at any time.
"""

AS_MANY = ("slice", "split")
"""Functions that read as many values as they give."""

SOME = ("compress", "gather", "gather_elements", "gather_nd")
"""Functions that may read but a few of what lies before them, as other numbers tell."""

BY_VALUE = (
    "abs", "acos", "add", "and", "asin", "atan", "ceil", "cos", "cosh", "div", "equal", "exp", "floor",
    "greater", "greater_or_equal", "less", "less_or_equal", "log", "max", "mean", "min", "mod", "mul",
    "neg", "not", "or", "pow", "reciprocal", "round", "shrink", "sign", "sin", "sinh", "sqrt", "sub",
    "sum", "tan", "thresholded_relu", "where", "xor",
)  # fmt: skip
"""Functions of single values, where all that they read has the shape of what they give."""

RECURRENT = tuple(GATES)
"""Functions with a state of their own, which takes a memory that no room counts."""


def access(layer: AnyLayer, given: Sequence[Shape]) -> Access:
    """Return how an operation goes over what it reads, which has the given shapes."""
    if isinstance(layer, Function):
        alike = layer.op in BY_VALUE and set(given) == {layer.output} and not layer.parameters
        return "stream" if alike or layer.op in (*AS_MANY, "concat") else "whole"
    if isinstance(layer, Map) and layer.op in NORMALISATIONS:
        return "place"
    if isinstance(layer, Opaque):
        return "whole"
    return "stream" if isinstance(layer, Concat | Padding | Reshape | Slice) else "window"


def reads_place(op: Operation, shapes: Sequence[Shape]) -> tuple[bool, ...]:
    """Return for each operand of a product or function whether a pixel of the output needs one pixel of it.

    That is the pixel at its place, in all channels. Of other operands it needs all, as of a product's second
    matrix.

    Parameters
    ----------
    shapes
        Of the operands.
    """
    spec, (first, *others) = op.spec, shapes
    if op.picks is not None:
        return (True,) * len(shapes)
    copied = any(access.copies is not None for access in op.operands[0])
    if copied or first[1:] != spec.output[1:]:
        return (False,) * len(shapes)
    if isinstance(spec, MatMul):
        return (first[0] == spec.groups * spec.depth, *(False for _ in others))
    at_place = isinstance(spec, Function) and spec.along is not None and set(spec.along) <= {"channels"}
    return (at_place and not others, *(False for _ in others))


def read(layer: Function | Opaque | Slice, given: Sequence[Shape]) -> tuple[Shape, ...]:
    """Return the shapes of what a function reads at least, of inputs that have the given ones."""
    if isinstance(layer, Slice) or layer.op in AS_MANY:
        return (layer.output,)
    return ((1, 1, 1),) if layer.op in SOME else (layer.input, *given[1:])
