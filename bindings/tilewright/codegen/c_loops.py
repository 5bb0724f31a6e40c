"""Write a plan as C99: the tile loops with their DMA transfers, and the loops within a tile.

The transfers are those of `tilewright.tiling.dsp.program`, in the same order: a get of an operand stands in
the innermost loop that moves it, as in the thesis's listings 2 to 6.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.version import __version__
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import nest_of, violation
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, Tiles

WIDTH = 100
"""Longest line of the C code."""

MAX_NAME = 31
"""Characters of an identifier that every C99 linker tells apart."""

MAX_TEXT = 300
"""Most characters of a name or a source that a comment repeats."""


def emit(problem: Any, plan: DspPlan, name: str = "", source: str = "") -> str:
    """Return C code that runs a layer as planned.

    Parameters
    ----------
    problem
        One layer on a machine of kind ``dsp``.
    name, source
        Of the instance; the function is named after the former.

    Raises
    ------
    InputError
        If the plan is not valid.
    """
    layer = _LayerCode(problem, plan, _identifier(name), (name,) if name else ())
    title = [f"One layer in tiles that fit into local memory, written by tilewright {__version__}."]
    return _file([*title, *_origin(source)], [layer])


def emit_network(named_parts: Iterable[tuple[str, Any, DspPlan]], name: str = "", source: str = "") -> str:
    """Return C code with one function for each distinct layer of a network; they share the local memory.

    Parameters
    ----------
    named_parts
        Name, problem and plan of each layer, in order.
    name, source
        Of the instance.

    Raises
    ------
    InputError
        If a plan is not valid.
    """
    found: dict[tuple[Layer, DspPlan], tuple[Any, list[str]]] = {}
    order = []
    for label, problem, plan in named_parts:
        key = (problem.one_layer, plan)
        found.setdefault(key, (problem, []))[1].append(label)
        order.append(key)
    functions: dict[tuple[Layer, DspPlan], str] = {}
    for key, (_, labels) in found.items():
        functions[key] = _identifier(labels[0], functions.values())
    layers = [
        _LayerCode(problem, plan, functions[layer, plan], labels)
        for (layer, plan), (problem, labels) in found.items()
    ]
    title = [
        f"The layers of {_text(name) or 'a network'} in tiles that fit into local memory, "
        f"written by tilewright {__version__}.",
        *_origin(source),
        "",
        "Layers in order, and their functions:",
    ]
    width = max(map(len, functions.values()), default=0)
    seen: dict[Any, int] = {}
    for key in order:
        label = found[key][1][seen.get(key, 0)]
        seen[key] = seen.get(key, 0) + 1
        title.append(f"  {functions[key]:<{width}}  {_text(label)}")
    return _file(title, layers, shared=True)


# Text from outside --------------------------------------------------------------------------------


def _text(value: str) -> str:
    """Make any text harmless within a comment: printable ASCII without delimiters, trigraphs and escapes."""
    value = unicodedata.normalize("NFKD", value.replace("×", "x").replace("–", "-"))
    value = "".join(c for c in value if not unicodedata.combining(c))
    value = re.sub(r"[^ -~]+", " ", value).replace("*", "x").replace("\\", "|")
    value = re.sub(r"\?{2,}", "?", value)
    value = " ".join(value.split())
    return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 3] + "..."


def _origin(source: str) -> list[str]:
    return [f"Source: {_text(source)}"] if _text(source) else []


def _identifier(name: str, taken: Iterable[str] = ()) -> str:
    """Make a function's name: ``layer`` and what C allows of the name, unlike those that are taken."""
    allowed = re.sub(r"[^A-Za-z0-9]+", "_", _text(name)).strip("_")
    if not re.match(r"layer(_|\d|$)", allowed):
        allowed = f"layer_{allowed}" if allowed else "layer"
    result = allowed[:MAX_NAME].rstrip("_")
    number, others = 1, set(taken)
    while result in others:
        number += 1
        result = f"{allowed[: MAX_NAME - 1 - len(str(number))].rstrip('_')}_{number}"
    return result


# Pieces of C --------------------------------------------------------------------------------------


def _comment(lines: Iterable[str], indent: str = "") -> list[str]:
    """Return a block comment; a line that is too long goes on below its second column of words."""
    result = [f"{indent}/*"]
    for line in lines:
        column = re.match(r" *(\S+(?: \S+)* {2,})?", line)
        hanging = " " * (column.end() if column else 0)
        width = WIDTH - len(indent) - 3
        folded = wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False, drop_whitespace=True)
        result += [f"{indent} * {part}".rstrip() for part in folded or [""]]
    return [*result, f"{indent} */"]


def _aligned(pairs: Sequence[tuple[str, str]], indent: str) -> list[str]:
    """Return lines with their comments in one column."""
    width = max((len(code) for code, comment in pairs if comment), default=0)
    return [
        f"{indent}{code:<{width}} /* {comment} */" if comment else f"{indent}{code}"
        for code, comment in pairs
    ]


def _join(terms: Iterable[str], sign: str = " + ") -> str:
    """Join terms, without those that are zero."""
    return sign.join(term for term in terms if term != "0") or "0"


def _times(first: str, second: str) -> str:
    return first if second == "1" else second if first == "1" else f"{first} * {second}"


def _nest(loops: Sequence[str], body: Sequence[str], indent: str) -> list[str]:
    """Return perfectly nested loops, which share one column."""
    inner = indent + "    " if loops else indent
    return [indent + loop for loop in loops] + [inner + line for line in body]


def _loop(var: str, stop: str, start: str = "0") -> str:
    return f"for (int {var} = {start}; {var} < {stop}; {var}++)"


def _number(value: int) -> str:
    return f"{value:,}"


class _Names(NamedTuple):
    """What a loop's things are called."""

    loop: str  # variable of the tile loop
    inner: str  # variable of the loop within a tile
    size: str  # iterations in all
    step: str  # those of a tile
    edge: str  # those of a tile that may be smaller
    items: str


NAMES = {
    G: _Names("g", "tg", "G", "TG", "groups", "channel groups"),
    N: _Names("o_n", "to_n", "O_n", "TO_n", "images", "images"),
    C: _Names("o_c", "to_c", "O_c", "TO_c", "maps", "output maps"),
    Y: _Names("o_y", "to_y", "O_y", "TO_y", "rows", "output rows"),
    X: _Names("o_x", "to_x", "O_x", "TO_x", "cols", "output columns"),
    K: _Names("k_c", "tk_c", "K_c", "TK_c", "channels", "input maps"),
}


@dataclass(frozen=True)
class _Axis:
    """An axis of an operand's tensor and of its buffer.

    Attributes
    ----------
    loop
        The loop that moves along it; None for a kernel's rows and columns.
    whole, part
        Names of its sizes in external memory and on chip.
    item
        What follows what along it.
    """

    loop: int | None
    whole: str
    part: str
    item: str


def _axis(loop: int, item: str) -> _Axis:
    return _Axis(loop, NAMES[loop].size, NAMES[loop].step, item)


IMAGE, GROUP = _axis(N, "image"), _axis(G, "channel group")
IN_MAP, OUT_MAP = _axis(K, "input map"), _axis(C, "output map")
IN_ROW, IN_COL = _Axis(Y, "I_y", "TI_y", "row"), _Axis(X, "I_x", "TI_x", "column")
OUT_ROW, OUT_COL = _axis(Y, "row"), _axis(X, "column")
KERNEL_ROW, KERNEL_COL = _Axis(None, "K_y", "K_y", "row"), _Axis(None, "K_x", "K_x", "column")

AXES = {
    "input": (IMAGE, GROUP, IN_MAP, IN_ROW, IN_COL),
    "kernels": (GROUP, OUT_MAP, IN_MAP, KERNEL_ROW, KERNEL_COL),
    "output": (IMAGE, GROUP, OUT_MAP, OUT_ROW, OUT_COL),
}
FALLBACK = {"input": IN_MAP, "kernels": OUT_MAP, "output": OUT_MAP}
"""The axis that an operand of a single element keeps."""

SHORT = {"input": "in", "kernels": "w", "output": "out"}
TYPES = {"input": "data_t", "kernels": "data_t", "output": "acc_t"}

CLIPPED = {Y: ("top", "bottom"), X: ("left", "right")}
"""Names of the ends of the input under a tile that exists in external memory."""


class _Transfers(NamedTuple):
    """Calls and elements of one kind of transfer."""

    calls: int
    elements: int


class _LayerCode:
    """The C function of one layer."""

    def __init__(self, problem: Any, plan: DspPlan, name: str, labels: Sequence[str]) -> None:
        broken = violation(problem, plan)
        if broken is not None:
            raise InputError("plan", plan.schedule, broken)
        self.name, self.labels, self.plan = name, labels, plan
        self.layer: Layer = problem.one_layer
        self.machine: DspMachine = problem.machine
        self.nest: Nest = nest_of(self.layer, self.machine)
        self.step, self.trips = self.nest.step(plan.tile), self.nest.trips(plan.tile)
        self.order = [d for d in map(LOOPS.index, "g" + plan.order) if self.trips[d] > 1]
        self.generated = self.machine.padding == "generated" and any(self.layer.padding)

    # What the plan means -------------------------------------------------------------------------

    @cached_property
    def level(self) -> dict[str, int]:
        """How many tile loops are around an operand's transfers."""
        if self.plan.reuse == "none":
            return dict.fromkeys(AXES, len(self.order))
        return {
            operand: max((i + 1 for i, d in enumerate(self.order) if d in RELEVANT[operand]), default=0)
            for operand in AXES
        }

    @cached_property
    def halo(self) -> int | None:
        """The axis along which neighbours share input that stays on chip."""
        level = self.level["input"]
        axis = self.order[level - 1] if level and self.plan.reuse == "halo" else None
        if axis not in (Y, X):
            return None
        side = axis - Y
        return axis if self.layer.kernel_extent[side] > self.layer.stride[side] else None

    @cached_property
    def partial(self) -> bool:
        """Whether partial sums leave the chip and return."""
        return K in self.order[: self.level["output"]]

    @cached_property
    def transfers(self) -> dict[str, _Transfers]:
        """What the schedule moves, by the closed forms."""
        steps = tuple(np.array([step]) for step in self.step)
        traffic = Tiles(self.nest, steps).traffic(self.plan.order, self.plan.reuse)
        calls = {operand: prod(self.trips[d] for d in self.order[: self.level[operand]]) for operand in AXES}
        gets = calls["input"]
        if self.halo is not None:
            moves = int(np.count_nonzero(self.nest.axis(self.halo, self.step[self.halo]).new))
            gets = gets // self.trips[self.halo] * moves
        puts = calls["output"]
        again = puts - puts // self.trips[K] if self.partial else 0
        return {
            "get in": _Transfers(gets, int(traffic.input[0])),
            "get w": _Transfers(calls["kernels"], int(traffic.kernels[0])),
            "get out": _Transfers(again, int(traffic.partial[0])),
            "put out": _Transfers(puts, int(traffic.written[0])),
        }

    # Sizes and names -----------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Every size by its name in C."""
        layer, nest = self.layer, self.nest
        found = {NAMES[d].size: size for d, size in enumerate(nest.sizes)}
        found |= {NAMES[d].step: step for d, step in enumerate(self.step)}
        plane = layer.input[1:] if self.generated else layer.padded_plane
        for d, letter, size, kernel in zip((Y, X), "yx", plane, layer.kernel, strict=True):
            found |= {f"I_{letter}": size, f"K_{letter}": kernel}
            found[f"TI_{letter}"] = nest.extent(d, self.step[d])
        return found

    @cached_property
    def axes(self) -> dict[str, list[_Axis]]:
        """The axes of each operand that have more than one element, on chip or in external memory."""
        return {
            operand: [a for a in axes if max(self.sizes[a.whole], self.sizes[a.part]) > 1]
            or [FALLBACK[operand]]
            for operand, axes in AXES.items()
        }

    def ragged(self, d: int) -> bool:
        """Whether the last tile of a loop is smaller."""
        return self.nest.sizes[d] % self.step[d] > 0

    def count(self, d: int) -> str:
        """Return the iterations within the current tile."""
        return NAMES[d].edge if self.ragged(d) else NAMES[d].step

    def stride(self, d: int) -> str:
        return "1" if self.layer.stride[d - Y] == 1 else f"S_{'yx'[d - Y]}"

    def extent(self, d: int) -> str:
        """Return what a kernel spans, as an expression."""
        letter = "yx"[d - Y]
        if self.layer.kernel[d - Y] == 1:
            return "1"
        if self.layer.dilation[d - Y] == 1:
            return f"K_{letter}"
        return f"(K_{letter} - 1) * D_{letter} + 1"

    def under(self, d: int, outputs: str) -> str:
        """Input rows or columns under some outputs, as an expression."""
        if self.nest.sizes[d] == 1:
            return self.extent(d)
        first = outputs if self.stride(d) == "1" else f"({outputs} - 1) * {self.stride(d)} + 1"
        extent = self.extent(d)
        if extent == "1":
            return first
        rest = extent[: -len(" + 1")] if extent.endswith(" + 1") else f"{extent} - 1"
        if first.endswith(" + 1"):
            return f"{first[: -len(' + 1')]} + {extent}"
        return f"{first} + {rest}"

    def in_count(self, d: int) -> str:
        """Input rows or columns under the current tile."""
        if self.ragged(d):
            return ("in_rows", "in_cols")[d - Y]
        return f"TI_{'yx'[d - Y]}"

    def clips(self, d: int) -> tuple[bool, bool]:
        """Whether tiles reach over the first, and over the last, row or column of the input."""
        if not self.generated:
            return False, False
        side = d - Y
        before = self.layer.padding[2 * side]
        stop = (self.nest.sizes[d] - 1) * self.layer.stride[side] + self.layer.kernel_extent[side]
        return before > 0, stop > before + self.layer.input[1 + side]

    def origin(self, d: int) -> str:
        """First input row or column under the current tile, as an expression; padding may come first."""
        moved = _times(NAMES[d].loop, self.stride(d)) if d in self.order else "0"
        if self.clips(d)[0]:
            return f"{moved} - P_{'yx'[d - Y]}" if moved != "0" else f"-P_{'yx'[d - Y]}"
        return moved

    # The parts of the function --------------------------------------------------------------------

    def code(self, shared: bool) -> list[str]:
        """Return the function, with a comment before it."""
        return [
            *_comment(self.summary()),
            f"void {self.name}(const data_t *in, const data_t *w, acc_t *out)",
            "{",
            *self.constants(),
            "",
            "    /* The tensors in external memory. */",
            *(self.view(operand, f"dram_{short}", short, "const ") for operand, short in SHORT.items()),
            "",
            "    /* The buffers in local memory. */",
            *self.buffers(shared),
            "",
            *self.strides(),
            "",
            *self.tiles(0),
            "}",
        ]

    def constants(self) -> list[str]:
        """Return the sizes of the layer and of a tile."""
        layer = self.layer
        named = {name for axes in self.axes.values() for a in axes for name in (a.whole, a.part)}
        per_group = " of a group" if layer.groups > 1 else ""
        pads = dict(zip((Y, X), (layer.padding[:2], layer.padding[2:]), strict=True))
        rows: list[tuple[str, str]] = []

        def add(name: str, comment: str, value: str | None = None) -> None:
            if name in named or value is not None:
                rows.append((f"{name} = {value or self.sizes[name]},", comment))

        for d in (G, N, C, Y, X, K):
            add(NAMES[d].size, NAMES[d].items + (per_group if d in (C, K) else ""))
        for letter, items in (("y", "rows"), ("x", "columns")):
            add(f"K_{letter}", f"kernel {items}")
        sides = ((Y, "y", "rows"), (X, "x", "columns"))
        for d, letter, items in sides:
            before, after = pads[d]
            stored = ", without padding" if self.generated else f", {before} + {after} of padding among them"
            add(f"I_{letter}", f"input {items}{stored if before or after else ''}")
        for d, letter, items in sides:
            if self.clips(d)[0]:
                add(f"P_{letter}", f"{items} of padding before the input", str(pads[d][0]))
        for d, letter, items in sides:
            if layer.stride[d - Y] > 1 and self.nest.sizes[d] > 1:
                add(f"S_{letter}", f"stride in {items}", str(layer.stride[d - Y]))
        for d, letter, items in sides:
            if layer.dilation[d - Y] > 1 and layer.kernel[d - Y] > 1:
                add(f"D_{letter}", f"dilation in {items}", str(layer.dilation[d - Y]))
        whole, rows = rows, []
        for d in (G, N, C, Y, X, K):
            names = NAMES[d]
            if names.step in named:
                add(names.step, names.items, names.size if self.trips[d] == 1 else str(self.step[d]))
        for d, letter, items in sides:
            if f"TI_{letter}" in named:
                add(
                    f"TI_{letter}",
                    f"{self.sizes[f'TI_{letter}']} input {items} under it",
                    self.under(d, f"TO_{letter}"),
                )
        if self.halo is not None:
            d = self.halo
            letter, items = ("y", "rows") if d == Y else ("x", "columns")
            extent, stride = self.extent(d), self.stride(d)
            shared = (
                extent[: -len(" + 1")]
                if stride == "1" and extent.endswith(" + 1")
                else f"{extent} - {stride}"
            )
            add(f"HALO_{letter}", f"input {items} that neighbours share", shared)
        return [
            *["    enum { /* the layer */", *_aligned(whole, " " * 8), "    };"],
            *["    enum { /* a tile */", *_aligned(rows, " " * 8), "    };"],
        ]

    def view(self, operand: str, name: str, pointer: str, const: str = "") -> str:
        """Return the declaration of a pointer through which memory is seen as an array."""
        of = "whole" if const else "part"
        inner = "".join(f"[{getattr(a, of)}]" for a in self.axes[operand][1:])
        const = const if operand != "output" else ""
        kind = f"{const}{TYPES[operand]}"
        if not inner:
            return f"    {kind} *const {name} = {pointer};"
        line = f"    {kind} (*const {name}){inner} = ({kind} (*){inner}){pointer};"
        if len(line) <= WIDTH:
            return line
        return f"    {kind} (*const {name}){inner}\n        = ({kind} (*){inner}){pointer};"

    def buffers(self, shared: bool) -> list[str]:
        """Return the declarations of the three buffers."""
        if shared:
            return [
                self.view(operand, f"B_{short}", f"local_memory.{self.name}.{short}")
                for operand, short in SHORT.items()
            ]
        elements = self.nest.buffers(self.step)
        pairs = []
        for operand, short in SHORT.items():
            sizes = "".join(f"[{a.part}]" for a in self.axes[operand])
            pairs.append(
                (f"LOCAL_MEMORY {TYPES[operand]} B_{short}{sizes};", f"{_number(elements[operand])} elements")
            )
        return _aligned(pairs, " " * 4)

    def strides(self) -> list[str]:
        """Return the descriptors of the transfers."""
        lines = ["    /* Bytes from an item to the next: in the buffer, in external memory. */"]
        for operand, short in SHORT.items():
            axes, kind = self.axes[operand], TYPES[operand]
            pairs = []
            for number, axis in enumerate(axes, start=1):
                index = "[0]" * number
                ends = [f"sizeof {array}_{short}{index}" for array in ("B", "dram")]
                pairs.append((f"{{{', '.join(ends)}}},", axis.item))
            lines += [
                f"    static const dma_strides {short}_strides = {{sizeof({kind}), {len(axes)}, {{",
                *_aligned(pairs, " " * 8),
                "    }};",
            ]
        return lines

    def tiles(self, depth: int) -> list[str]:
        """Return a tile loop with all that is in it; depth 0 is what surrounds the loops."""
        indent = "    " * (depth + 1)
        blocks = [self.sizes_of_tile(depth, indent)]
        gets: list[str] = []
        if self.level["input"] == depth:
            if self.halo is not None:
                blocks.append(self.keep_halo(self.halo, indent))
            gets += self.get_input(indent)
        if self.level["kernels"] == depth:
            gets += self.transfer("get", "kernels", indent)
        if self.level["output"] == depth and self.partial:
            gets += [
                f"{indent}if (k_c > 0) /* partial sums over the input maps before */",
                *self.transfer("get", "output", indent + "    "),
            ]
        blocks.append(gets)
        if depth < len(self.order):
            d = self.order[depth]
            names = NAMES[d]
            head = f"for (int {names.loop} = 0; {names.loop} < {names.size}; {names.loop} += {names.step}) {{"
            comment = f"/* {names.items}: {_number(self.trips[d])} tiles */"
            blocks.append([f"{indent}{head} {comment}", *self.tiles(depth + 1), f"{indent}}}"])
        else:
            blocks.append(self.compute(indent))
        if self.level["output"] == depth:
            blocks.append(self.transfer("put", "output", indent))
        return [line for block in blocks if block for line in ["", *block]][1:]

    def sizes_of_tile(self, depth: int, indent: str) -> list[str]:
        """Return what is different from tile to tile of the loop at a depth, or the same for all tiles."""
        if not depth:
            pairs = [pair for d in (Y, X) if d not in self.order for pair in self.bounds(d)]
            return _aligned(pairs, indent)
        d = self.order[depth - 1]
        names = NAMES[d]
        pairs = []
        if self.ragged(d):
            pairs.append((f"const int {names.edge} = MIN({names.step}, {names.size} - {names.loop});", ""))
            if d in (Y, X):
                pairs.append((f"const int {self.in_count(d)} = {self.under(d, names.edge)};", ""))
        if d in (Y, X) and d != self.halo:
            pairs += self.bounds(d)
        return _aligned(pairs, indent)

    def bounds(self, d: int) -> list[tuple[str, str]]:
        """Return the input rows or columns that are got for a tile, where padding is made on chip."""
        before, after = self.clips(d)
        if not (before or after):
            return []
        (low, high), letter, what = CLIPPED[d], "yx"[d - Y], ("row", "column")[d - Y]
        start = f"i_{letter}"
        fresh = f"{start} + kept" if d == self.halo else start
        stop = f"{start} + {self.in_count(d)}"
        return [
            (f"const int {start} = {self.origin(d)};", f"first input {what}"),
            (f"const int {low} = {f'MAX({fresh}, 0)' if before else fresh};", f"first {what} to get"),
            (
                f"const int {high} = {f'MIN({stop}, I_{letter})' if after else stop};",
                "end of those",
            ),
        ]

    def first(self, axis: _Axis) -> str:
        """Where the current tile begins in external memory."""
        d = axis.loop
        if d is None or d not in self.order:
            return "0"
        return NAMES[d].loop

    def transfer(self, call: str, operand: str, indent: str) -> list[str]:
        """Return a transfer of all that a tile has of the weights or of the output."""
        axes = self.axes[operand]
        counts = [a.part if a.loop is None else self.count(a.loop) for a in axes]
        return self.dma(call, operand, [self.first(a) for a in axes], ["0"] * len(axes), counts, indent)

    def dma(
        self, call: str, operand: str, first: list[str], local: list[str], counts: list[str], indent: str
    ) -> list[str]:
        short = SHORT[operand]
        buffer = f"B_{short}"
        if any(index != "0" for index in local):
            buffer = "&" + buffer + "".join(f"[{index}]" for index in local)
        tensor = f"&dram_{short}" + "".join(f"[{index}]" for index in first)
        ends = (buffer, tensor) if call == "get" else (tensor, buffer)
        pieces = [*ends, f"&{short}_strides", f"(int[]){{{', '.join(counts)}}}"]
        head = f"{indent}dma_{call}("
        for lines in ([pieces], [pieces[:2], pieces[2:]], [[piece] for piece in pieces]):
            texts = [", ".join(line) for line in lines]
            if max(map(len, texts)) + len(head) + 2 <= WIDTH:
                break
        texts = [f"{head}{texts[0]}", *(" " * len(head) + text for text in texts[1:])]
        return [*(text + "," for text in texts[:-1]), f"{texts[-1]});"]

    def get_input(self, indent: str) -> list[str]:
        """Return the transfer of what the chip does not have of a tile's input, and zeros for padding."""
        first, local, counts = [], [], []
        for axis in self.axes["input"]:
            d = axis.loop
            assert d is not None
            if axis not in (IN_ROW, IN_COL):
                first.append(self.first(axis))
                local.append("0")
                counts.append(self.count(d))
            elif any(self.clips(d)):
                low, high = CLIPPED[d]
                first.append(low)
                local.append(f"{low} - i_{'yx'[d - Y]}")
                counts.append(f"{high} - {low}")
            else:
                kept = "kept" if d == self.halo else "0"
                first.append(_join([self.origin(d), kept]))
                local.append(kept)
                counts.append(_join([self.in_count(d), kept], " - "))
        clipped = [d for d in (Y, X) if any(self.clips(d))]
        lines = []
        if self.halo in clipped and not self.nest.axis(self.halo, self.step[self.halo]).new.all():
            low, high = CLIPPED[self.halo]
            lines.append(f"{indent}if ({low} < {high})")
            lines += self.dma("get", "input", first, local, counts, indent + "    ")
        else:
            lines += self.dma("get", "input", first, local, counts, indent)
        if clipped:
            lines += self.zeros(clipped, indent)
        return lines

    def plane_loops(self) -> list[tuple[int, str, str]]:
        """Return axis, variable and iterations of the loops over the rows and columns of the input buffer."""
        return [
            (d, "yx"[d - Y], self.in_count(d))
            for axis, d in ((IN_ROW, Y), (IN_COL, X))
            if axis in self.axes["input"] and self.sizes[axis.part] > 1
        ]

    def outer_loops(self) -> list[str]:
        """Return the loops over the images, groups and maps of the input buffer."""
        return [_loop(NAMES[d].inner, self.count(d)) for d in (N, G, K) if self.step[d] > 1]

    def in_index(self, row: str, col: str) -> str:
        """Return the index of an element of the input buffer."""
        found = {IN_ROW: row, IN_COL: col}
        return "".join(f"[{found.get(a) or self.inner(a)}]" for a in self.axes["input"])

    def inner(self, axis: _Axis) -> str:
        """Where the loops within a tile are on an axis."""
        if axis.loop is None:
            return axis.whole.lower() if self.sizes[axis.whole] > 1 else "0"
        return NAMES[axis.loop].inner if self.step[axis.loop] > 1 else "0"

    def keep_halo(self, halo: int, indent: str) -> list[str]:
        """Return the loops that move what the neighbour before left to the buffer's beginning."""
        letter, items = ("y", "rows") if halo == Y else ("x", "columns")
        loops = [
            *self.outer_loops(),
            *(_loop(var, "kept" if d == halo else count) for d, var, count in self.plane_loops()),
        ]
        present = {d: var for d, var, _ in self.plane_loops()}
        row, col = present.get(Y, "0"), present.get(X, "0")
        moved = _times(f"TO_{letter}", self.stride(halo))
        source = (f"{row} + {moved}", col) if halo == Y else (row, f"{col} + {moved}")
        body = f"B_in{self.in_index(row, col)} = B_in{self.in_index(*source)};"
        kept = f"const int kept = o_{letter} > 0 ? HALO_{letter} : 0;"
        bounds = [(kept, f"{items} already here"), *self.bounds(halo)]
        return [*_aligned(bounds, indent), *_nest(loops, [body], indent)]

    def zeros(self, clipped: list[int], indent: str) -> list[str]:
        """Return the loops that write zeros where the tile reaches over the input."""
        loops, outside, touched = self.outer_loops(), [], []
        row = col = "0"
        for d, var, count in self.plane_loops():
            kept = d == self.halo
            loops.append(_loop(var, count, "kept" if kept else "0"))
            row, col = (var, col) if d == Y else (row, var)
            if d not in clipped:
                continue
            (before, after), (low, high) = self.clips(d), CLIPPED[d]
            touched.append(f"{high} - {low} < {count}{' - kept' if kept else ''}")
            ends = [f"i_{var} + {var} < 0"] * before + [f"i_{var} + {var} >= I_{var}"] * after
            outside.append(" || ".join(ends))
        test = [f"if ({' || '.join(outside)})"]
        if len(indent) + 8 + len(test[0]) > WIDTH:
            test = [f"if ({outside[0]}", *(f"    || {ends}" for ends in outside[1:])]
            test[-1] += ")"
        body = [*test, f"    B_in{self.in_index(row, col)} = 0;"]
        return [
            f"{indent}if ({' || '.join(touched)}) {{",
            f"{indent}    /* Zeros where padding lies. */",
            *_nest(loops, body, indent + "    "),
            f"{indent}}}",
        ]

    def compute(self, indent: str) -> list[str]:
        """Return the loops within a tile."""
        loops = [_loop(NAMES[d].inner, self.count(d)) for d in (N, G, C, Y, X) if self.step[d] > 1]
        sums = [_loop("tk_c", self.count(K))] if self.step[K] > 1 else []
        position = []
        for d, letter in ((Y, "y"), (X, "x")):
            terms = [_times(f"to_{letter}", self.stride(d))] if self.step[d] > 1 else []
            if self.layer.kernel[d - Y] > 1:
                sums.append(_loop(f"k_{letter}", f"K_{letter}"))
                terms.append(f"k_{letter}" if self.layer.dilation[d - Y] == 1 else f"k_{letter} * D_{letter}")
            position.append(_join(terms))
        output = "B_out" + "".join(f"[{self.inner(a)}]" for a in self.axes["output"])
        weight = "B_w" + "".join(f"[{self.inner(a)}]" for a in self.axes["kernels"])
        value = "B_in" + self.in_index(*position)
        start = f"k_c > 0 ? {output} : 0" if K in self.order else "0"
        product = [f"acc += (acc_t){value} * {weight};"]
        inner = "    "
        if len(indent) + 8 + len(inner) + len(product[0]) > WIDTH:
            plane = "".join(f"[{index}]" for index in position if index != "0")
            product = [f"acc += (acc_t){value}", f"       * {weight};"]
            if len(indent) + 8 + len(inner) + len(product[0]) > WIDTH and value.endswith(plane):
                product[:1] = [product[0].removesuffix(plane), f"              {plane}"]
        return [
            *(indent + loop for loop in loops[:-1]),
            f"{indent}{loops[-1]} {{" if loops else f"{indent}{{",
            f"{indent}{inner}acc_t acc = {start};",
            *_nest(sums, product, indent + inner),
            f"{indent}{inner}{output} = acc;",
            f"{indent}}}",
        ]

    # The comment before the function --------------------------------------------------------------

    def summary(self) -> list[str]:
        """Return what a person should know of the layer, the tiles and the transfers."""
        lines = [f"{self.name}{': ' + ', '.join(map(_text, self.labels)) if self.labels else ''}", ""]
        lines += [
            f"Layer     {text}" if not i else f"          {text}" for i, text in enumerate(self.about())
        ]
        need = self.nest.buffers(self.step)
        one, copies = sum(need.values()), self.machine.copies
        parts = " + ".join(_number(n) for n in need.values())
        twice = f", twice for double buffering: {_number(one * copies)}" if copies > 1 else ""
        share = f"{100 * one * copies / self.machine.capacity:.1f} %"
        lines += [
            f"Memory    B_in + B_w + B_out = {parts} = {_number(one)} elements{twice}, "
            f"{share} of the {_number(self.machine.capacity)} that fit into "
            f"{_number(self.machine.memory_bytes)} bytes",
        ]
        lines += [
            f"Schedule  {self.plan.schedule}: {self.in_words('input')}",
            f"          {self.in_words('kernels')}",
            f"          {self.in_words('output')}",
        ]
        rows = [("Transfers", "calls", "elements")]
        rows += [(f"  {kind}", _number(t.calls), _number(t.elements)) for kind, t in self.transfers.items()]
        total = [sum(column) for column in zip(*self.transfers.values(), strict=True)]
        rows.append(("  in all", _number(total[0]), _number(total[1])))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines += ["", *(f"{a:<{widths[0]}}   {b:>{widths[1]}}   {c:>{widths[2]}}" for a, b, c in rows)]
        return lines

    def about(self) -> list[str]:
        """Return the layer in words."""
        layer = self.layer
        if layer.kind == "fc":
            kind = f"fully connected, {layer.input[0]} inputs, {layer.kernels} outputs"
            more = []
        else:
            channels, height, width = layer.input
            kernel = (
                f"{layer.kernels} kernels of {layer.kernels_shape[1]} x {layer.kernel[0]} x {layer.kernel[1]}"
            )
            kind = f"input {channels} x {height} x {width}, {kernel}"
            more = [f"groups {layer.groups}"] if layer.groups > 1 else []
            for word, value in (("stride", layer.stride), ("dilation", layer.dilation)):
                more += [f"{word} {value[0]} x {value[1]}"] if value != (1, 1) else []
            if any(layer.padding):
                top, bottom, left, right = layer.padding
                sides = f"{top} above, {bottom} below, {left} left, {right} right"
                if top == bottom == left == right:
                    sides = f"{top} on all sides"
                stored = "made on chip" if self.generated else "stored with the input"
                more.append(f"padding {sides}, {stored}")
        more += [f"batch {layer.batch}"] if layer.batch > 1 else []
        rows, columns = layer.output_plane
        result = "" if layer.kind == "fc" else f"output {layer.kernels} x {rows} x {columns}, "
        return [
            ", ".join([kind, *more]),
            f"{result}{_number(layer.macs)} MACs in {_number(prod(self.trips))} tiles",
        ]

    def in_words(self, operand: str) -> str:
        """Say when an operand is moved."""
        level, buffer = self.level[operand], f"B_{SHORT[operand]}"
        around = [NAMES[d].loop for d in self.order[:level]]
        inside = [NAMES[d].loop for d in self.order[level:]]
        if not around:
            when = "once"
        elif not inside:
            when = "with every tile"
        else:
            when = f"for every {', '.join(around)}"
        stays = (
            f" and stays while {', '.join(inside)} {'run' if len(inside) > 1 else 'runs'}" if inside else ""
        )
        if operand != "output":
            shared = ""
            if self.halo is not None and operand == "input":
                letter, what = ("y", "rows") if self.halo == Y else ("x", "columns")
                shared = f"; the HALO_{letter} {what} shared with the neighbour in {letter} stay, too"
            return f"{buffer} is loaded {when}{stays}{shared}"
        if self.partial:
            return f"{buffer} is written {when}{stays}; partial sums return for k_c > 0"
        return f"{buffer} is written {when}, complete{stays.replace(' and', '; it', 1)}"


# The file -----------------------------------------------------------------------------------------


def _types(machine: DspMachine) -> tuple[str, str]:
    """Return C types of elements and of sums."""
    size = machine.element_bytes
    bits = next((bits for bits in (8, 16, 32) if size * 8 <= bits), 64)
    return f"int{bits}_t", "int32_t" if bits <= 16 else "int64_t"


def _file(title: list[str], layers: Sequence[_LayerCode], shared: bool = False) -> str:
    """Return the text of a file: types, the DMA interface, local memory and the functions."""
    machine = layers[0].machine
    body = [line for layer in layers for line in ["", *layer.code(shared)]]
    data, acc = _types(machine)
    notes = [
        "Every function takes its tensors as arrays in external memory, row by row:",
        "  in   [images][input maps][rows][columns]",
        "  w    [output maps][input maps of a group][rows][columns]",
        "  out  [images][output maps][rows][columns]; partial sums are kept there, too",
    ]
    if machine.padding == "loaded" and any(any(layer.layer.padding) for layer in layers):
        notes[1] += ", with the zeros of the padding around each map"
    notes += [
        "Names are those of the loops of a convolution: O output, I input, K kernel, S stride, D dilation; "
        "n images, c maps, y rows, x columns; T a tile, B a buffer.",
    ]
    if machine.double_buffering:
        notes += [
            "",
            "Transfers and computation take turns here. Under double buffering, which the machine has, each "
            "buffer exists twice, and the gets of the next tile are issued before this one is computed.",
        ]
    lines = [
        *_comment([*title, "", *notes]),
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *_comment(
            [
                f"Inputs and weights, elements of {machine.element_bytes} bytes on the machine, and sums. "
                "The machine stores sums as elements, too; here they are wider, so that they are exact. "
                "Define ACC_T to narrow them."
            ]
        ),
        *_macro("DATA_T", data),
        *_macro("ACC_T", acc),
        "typedef DATA_T data_t;",
        "typedef ACC_T acc_t;",
        "",
        '/* Local memory; for example static __attribute__((section(".scratchpad"))). */',
        *_macro("LOCAL_MEMORY", "static"),
        "",
        *DMA.splitlines(),
    ]
    macros = {
        "MIN": "#define MIN(a, b) ((a) < (b) ? (a) : (b))",
        "MAX": "#define MAX(a, b) ((a) > (b) ? (a) : (b))",
    }
    used = [text for name, text in macros.items() if any(f"{name}(" in line for line in body)]
    lines += ["", *used] if used else []
    if shared:
        lines += ["", *_shared_memory(layers)]
    return "\n".join([*lines, *body]) + "\n"


def _macro(name: str, value: str) -> list[str]:
    return [f"#ifndef {name}", f"#define {name} {value}", "#endif"]


DMA = """\
/*
 * The DMA controller, yours to link. A transfer moves a box of up to five dimensions, the outermost
 * first: count[d] items, each stride[d] bytes after the one before. The calls return when the data
 * has arrived.
 */
typedef struct {
    size_t element; /* bytes */
    int dimensions;
    struct {
        size_t local, external; /* bytes from an item to the next: on chip, in external memory */
    } stride[5];
} dma_strides;

void dma_get(void *local, const void *external, const dma_strides *strides, const int count[]);
void dma_put(void *external, const void *local, const dma_strides *strides, const int count[]);"""


def _shared_memory(layers: Sequence[_LayerCode]) -> list[str]:
    """Return the declaration of the buffers of all layers, which lie in the same place."""
    lines = [
        "/* The layers run one after the other and use the same local memory. */",
        "LOCAL_MEMORY union {",
    ]
    for layer in layers:
        sizes = layer.nest.buffers(layer.step)
        lines += [
            "    struct {",
            *(f"        {TYPES[operand]} {short}[{sizes[operand]}];" for operand, short in SHORT.items()),
            f"    }} {layer.name};",
        ]
    return [*lines, "} local_memory;"]
