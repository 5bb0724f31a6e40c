"""Functions of the channels of a pixel: parts of them, functions of single values, sums over some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.numbers.point_function import PointStep, step_in_c, value_of_step
from tilewright.simulator.arithmetic.fixed_point import Floats

Nodes = NDArray[np.int64]
"""The number of a node for each value of a tensor, of one pixel."""

MOST_SHARED = 256
"""Most reductions of a pixel, which are kept while its channels are computed."""


class Reduction(NamedTuple):
    """How values become one: from what on, with each of them in C, and what is made of that and their count.

    Attributes
    ----------
    begin, step, end
        In C, of ``sum`` and of each value ``v``; `end` also of ``count``.
    values
        The same in numpy, of an array along its first axis.
    """

    begin: str
    step: str
    end: str
    values: Callable[[Floats], Floats]


REDUCTIONS = {
    "reduce_mean": Reduction("0", "sum + v", "sum / (value_t)count", lambda x: x.mean(axis=0)),
    "reduce_sum": Reduction("0", "sum + v", "sum", lambda x: x.sum(axis=0)),
    "reduce_sum_square": Reduction("0", "sum + v * v", "sum", lambda x: np.square(x).sum(axis=0)),
    "reduce_l1": Reduction("0", "sum + fabs(v)", "sum", lambda x: np.abs(x).sum(axis=0)),
    "reduce_l2": Reduction("0", "sum + v * v", "sqrt(sum)", lambda x: np.sqrt(np.square(x).sum(axis=0))),
    "reduce_max": Reduction("-INFINITY", "MAX(sum, v)", "sum", lambda x: x.max(axis=0)),
    "reduce_min": Reduction("INFINITY", "MIN(sum, v)", "sum", lambda x: x.min(axis=0)),
}
"""Functions of several channels of a pixel that give one value."""


class PixelNode(NamedTuple):
    """A value of a pixel.

    Attributes
    ----------
    step
        What is computed of earlier nodes: a function of single values, or one of `REDUCTIONS`; None for a
        channel that is read.
    channel
        Which channel that is, all operands joined.
    """

    step: PointStep | None
    channel: int = 0


class PixelNodes:
    """The values of a pixel that some layers compute, each of them once."""

    def __init__(self) -> None:
        self.nodes: list[PixelNode] = []
        self._known: dict[object, int] = {}

    def _number(self, node: PixelNode) -> int:
        step = node.step
        key = node if step is None else (step.op, step.reads, *sorted(step.numbers.items()))
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return self._known[key]

    def read(self, channels: Nodes) -> Nodes:
        """Return nodes for channels that are read."""
        found = [self._number(PixelNode(None, channel)) for channel in channels.ravel().tolist()]
        return np.array(found, dtype=np.int64).reshape(channels.shape)

    def apply(self, step: PointStep, operands: Sequence[Nodes]) -> Nodes:
        """Return nodes for a function of single values, of operands that are broadcast."""
        every = np.broadcast_arrays(*operands)
        rows = np.stack(every, axis=-1).reshape(-1, len(every)).tolist()
        found = [self._number(PixelNode(step._replace(reads=tuple(row)))) for row in rows]
        return np.array(found, dtype=np.int64).reshape(every[0].shape)

    def reduce(self, op: str, values: Nodes, axes: tuple[int, ...]) -> Nodes:
        """Return nodes for a reduction along some axes, which are kept."""
        last = np.moveaxis(values, axes, tuple(range(-len(axes), 0)))
        outer = last.shape[: values.ndim - len(axes)]
        found = [
            self._number(PixelNode(PointStep(op, tuple(row))))
            for row in last.reshape(*outer, -1).reshape(int(np.prod(outer, dtype=np.int64)), -1).tolist()
        ]
        shape = [1 if axis in axes else size for axis, size in enumerate(values.shape)]
        return np.array(found, dtype=np.int64).reshape(shape)


@dataclass(frozen=True)
class PixelFunction:
    """What is computed of a pixel.

    Attributes
    ----------
    nodes
        In an order in which they can be computed.
    results
        The node of each channel, or of each channel and pixel that come of one that is read.
    """

    nodes: tuple[PixelNode, ...]
    results: tuple[int, ...]

    @classmethod
    def of_channels(cls, channels: Sequence[int]) -> PixelFunction:
        """Return what only reads some channels."""
        nodes = PixelNodes()
        results = nodes.read(np.array(channels, dtype=np.int64)).tolist()
        return cls(tuple(nodes.nodes), tuple(results))

    @property
    def picks(self) -> tuple[int, ...] | None:
        """The channel that is read for each result, if nothing else is computed."""
        found = [self.nodes[result] for result in self.results]
        return None if any(node.step for node in found) else tuple(node.channel for node in found)

    @property
    def used(self) -> list[PixelNode]:
        """The nodes that results need."""
        needed, found = list(dict.fromkeys(self.results)), dict[int, PixelNode]()
        while needed:
            number = needed.pop()
            if number not in found:
                node = found[number] = self.nodes[number]
                needed += node.step.reads if node.step is not None else ()
        return list(found.values())

    @property
    def reductions(self) -> tuple[int, ...]:
        """Numbers of the nodes that are reductions."""
        return tuple(n for n, node in enumerate(self.nodes) if node.step and node.step.op in REDUCTIONS)

    def __call__(self, values: Floats) -> Floats:
        """Return the results of pixels, shape (images, results, pixels), of those of all channels."""
        found: list[Floats] = []
        for node in self.nodes:
            if node.step is None:
                found.append(values[:, node.channel])
                continue
            read = [found[number] for number in node.step.reads]
            reduction = REDUCTIONS.get(node.step.op)
            found.append(
                value_of_step(node.step, read) if reduction is None else reduction.values(np.stack(read))
            )
        return np.stack([found[result] for result in self.results], axis=1)

    # In C -----------------------------------------------------------------------------------------------

    def in_c(self, name: str) -> list[str]:
        """Return a function in C that gives a channel of a pixel, and what is shared by its channels.

        They are called `name`, and `name` with ``_shared``.
        """
        lines: list[str] = []
        shared = {number: place for place, number in enumerate(self.reductions)}
        if shared:
            lines += [*self._shared_in_c(name, shared), ""]
        forms = [self._form(result, shared) for result in self.results]
        ways = {form: number for number, form in enumerate(dict.fromkeys(form for form, _ in forms))}
        most = max(len(channels) for _, channels in forms)
        if most:
            lines += _table(f"{name}_reads", most, [channels for _, channels in forms])
        if len(ways) > 1:
            lines.append(f"static const unsigned char {name}_ways[] = {{")
            lines += _wrapped([str(ways[form]) for form, _ in forms])
            lines.append("};")
        lines += [f"static value_t {name}(const pixel_t *pixel, int c)", "{"]
        if not most and len(ways) == 1:
            lines.append("    (void)c;")
        for form, number in ways.items():
            indent = "    "
            if number < len(ways) - 1:
                lines.append(f"    if ({name}_ways[c] == {number}) {{")
                indent = "        "
            lines += [indent + line for line in _body(form, f"{name}_reads[c]")]
            if number < len(ways) - 1:
                lines.append("    }")
        return [*lines, "}"]

    def _shared_in_c(self, name: str, shared: dict[int, int]) -> list[str]:
        lines: list[str] = []
        body: list[str] = []
        for number, place in shared.items():
            step = self.nodes[number].step
            assert step is not None
            reduction, count = REDUCTIONS[step.op], len(step.reads)
            forms = [self._form(read, shared) for read in step.reads]
            body.append(f"    {{ /* {step.op} */")
            body.append(f"        value_t sum = {reduction.begin};")
            body.append(f"        const int count = {count};")
            for part, (form, group) in enumerate(groupby(forms, key=lambda each: each[0])):
                channels = [each for _, each in group]
                table = f"{name}_reads{place}_{part}"
                lines += _table(table, max(1, len(channels[0])), channels)
                body.append(f"        for (int i = 0; i < {len(channels)}; i++) {{")
                inner = _body(form, f"{table}[i]", result="const value_t v = ")
                body += [f"            {line}" for line in inner]
                body.append(f"            sum = {reduction.step};")
                body.append("        }")
            body.append(f"        pixel->shared[{place}] = {reduction.end};")
            if "count" not in reduction.end:
                body.append("        (void)count;")
            body.append("    }")
        return [*lines, f"static void {name}_shared(pixel_t *pixel)", "{", *body, "}"]

    def _form(self, result: int, shared: dict[int, int]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return how a node is computed in C, of channels ``x0`` and so on, and which channels these are.

        The last line gives its value.
        """
        lines: list[str] = []
        names: dict[int, str] = {}
        channels: list[int] = []

        def name_of(number: int) -> str:
            if number in names:
                return names[number]
            node = self.nodes[number]
            if number in shared:
                names[number] = f"pixel->shared[{shared[number]}]"
            elif node.step is None:
                names[number] = f"x{len(channels)}"
                channels.append(node.channel)
            else:
                read = [name_of(each) for each in node.step.reads]
                text = step_in_c(node.step, read)
                names[number] = f"v{len(lines)}"
                lines.append(f"const value_t {names[number]} = {text};")
            return names[number]

        last = name_of(result)
        return (*lines, last), tuple(channels)


def _body(form: tuple[str, ...], table: str, result: str = "return ") -> list[str]:
    """Return the lines that read channels, whose numbers are in a table, and compute a value of them."""
    count = max((int(word[1:]) + 1 for line in form for word in _words(line) if word[:1] == "x"), default=0)
    reads = [f"const value_t x{n} = channel_of(pixel, {table}[{n}]);" for n in range(count)]
    return [*reads, *form[:-1], f"{result}{form[-1]};"]


def _words(line: str) -> list[str]:
    """Return the words of a line of C that may be names of channels."""
    words = "".join(sign if sign.isalnum() or sign == "_" else " " for sign in line).split()
    return [word for word in words if word[0] == "x" and word[1:].isdigit()]


def _table(name: str, width: int, rows: Sequence[Sequence[int]]) -> list[str]:
    shown = ["{" + ", ".join(map(str, [*row, *[0] * (width - len(row))])) + "}" for row in rows]
    return [f"static const int {name}[][{width}] = {{", *_wrapped(shown), "};"]


def _wrapped(items: Sequence[str], each: int = 16) -> list[str]:
    return [f"    {', '.join(items[at : at + each])}," for at in range(0, len(items), each)]
