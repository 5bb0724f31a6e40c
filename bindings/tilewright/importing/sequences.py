"""Sequences of tensors whose lengths and places are known: what is done with them, as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

Numbers = Callable[[str], NDArray[np.generic] | None]
"""Returns the numbers of a tensor that is the same for all images, None of another."""

Shape = tuple[int, ...]


class Sequences:
    """Follows sequences through a graph; each is the names of its tensors.

    Attributes
    ----------
    of
        The tensors of each sequence, by its name.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.of: dict[str, list[str]] = {}

    def standard_form(self, node: NodeProto, shapes: Mapping[str, Shape | None]) -> list[NodeProto] | None:
        """Return nodes that do the same with tensors; None if the node does nothing with known sequences."""
        write = WRITERS.get(node.op_type)
        if write is None or node.domain:
            return None
        try:
            return write(self, node, shapes)
        except (KeyError, IndexError, ValueError):  # of what is not known, or cannot be
            return None

    def place(self, node: NodeProto, number: int) -> int | None:
        """Return the place that an input tells, None where it is left out."""
        if len(node.input) <= number or not node.input[number]:
            return None
        found = self.numbers(node.input[number])
        if found is None:
            raise KeyError(node.input[number])
        return int(found.item())


def _constant(name: str, value: NDArray[np.generic]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _told(node: NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _construct(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    found.of[node.output[0]] = list(node.input)
    return []


def _insert(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    before, at = found.of[node.input[0]], found.place(node, 2)
    after = list(before)
    after.insert(len(before) if at is None else at, node.input[1])
    found.of[node.output[0]] = after
    return []


def _erase(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    after, at = list(found.of[node.input[0]]), found.place(node, 1)
    del after[-1 if at is None else at]
    found.of[node.output[0]] = after
    return []


def _at(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    at = found.place(node, 1)
    source = found.of[node.input[0]][at if at is not None else 0]
    return [helper.make_node("Identity", [source], list(node.output), node.name)]


def _length(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    return [_constant(node.output[0], np.array(len(found.of[node.input[0]]), np.int64))]


def _concat(found: Sequences, node: NodeProto, _: Mapping[str, Shape | None]) -> list[NodeProto]:
    parts, axis, nodes = found.of[node.input[0]], _told(node, "axis", 0), []
    if _told(node, "new_axis", 0):
        own, nodes = f"{node.output[0]}/axes", [_constant(f"{node.output[0]}/axes", np.array([axis]))]
        wide = [f"{node.output[0]}/{place}" for place, _ in enumerate(parts)]
        nodes += [
            helper.make_node("Unsqueeze", [part, own], [name]) for part, name in zip(parts, wide, strict=True)
        ]
        parts = wide
    return [*nodes, helper.make_node("Concat", parts, list(node.output), node.name, axis=axis)]


def _split(found: Sequences, node: NodeProto, shapes: Mapping[str, Shape | None]) -> list[NodeProto]:
    source, axis, result = node.input[0], _told(node, "axis", 0), node.output[0]
    shape, told = shapes[source], len(node.input) > 1 and bool(node.input[1])
    if shape is None:
        raise KeyError(source)
    size, drops = shape[axis], not told and not _told(node, "keepdims", 1)
    sizes = found.numbers(node.input[1]) if told else np.array(1)
    if sizes is None:
        raise KeyError(node.input[1])
    if sizes.ndim == 0:
        step = int(sizes.item())
        sizes = np.array([min(step, size - begin) for begin in range(0, size, step)], np.int64)
    parts = [f"{result}/{place}" for place in range(len(sizes))]
    cut = [f"{name}/wide" for name in parts] if drops else parts
    nodes = [
        _constant(f"{result}/sizes", sizes),
        helper.make_node("Split", [source, f"{result}/sizes"], cut, node.name, axis=axis),
    ]
    if drops:
        nodes.append(_constant(f"{result}/axes", np.array([axis])))
        nodes += [
            helper.make_node("Squeeze", [wide, f"{result}/axes"], [name])
            for wide, name in zip(cut, parts, strict=True)
        ]
    found.of[result] = parts
    return nodes


WRITERS: Mapping[str, Callable[[Sequences, NodeProto, Mapping[str, Shape | None]], list[NodeProto]]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""What writes the standard form of an operator on sequences."""

GIVE_TENSORS = ("ConcatFromSequence", "SequenceAt", "SequenceLength")
"""Those of them that give no sequence."""
