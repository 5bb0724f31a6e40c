"""Residency: every step, way to cut it up and place of a tensor, as docs/residency.md tells of them.

Problems and plans are plain JSON. `least` walks through all plans of a small problem, `costs` through the
steps of one. Both take what a step needs and moves from `Cut`, which lists its passes, pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, combinations, product, starmap
from math import prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Names = frozenset[int]
"""Numbers of tensors: 0 is the network's input, n + 1 what operation n computes."""

MOST_MOVES = 300_000
"""Steps that are looked at in one problem."""

MOST_CUTS = 60_000
"""Ways to cut up steps that are looked at in one problem."""

ALL_CHANNELS = ("softmax", "lrn")
"""Functions that need all channels of a pixel."""

COSTS = ("traffic", "cycles", "energy", "memory")
"""What a plan costs, in the order in which ties are broken."""


class Spent(NamedTuple):
    """What steps cost: elements moved, parts of cycles and femtojoules (see `Graph`), elements of memory."""

    traffic: int
    cycles: int
    energy: int
    memory: int


class Op:
    """An operation of the network.

    Attributes
    ----------
    reads
        Tensors, in order.
    parts
        The channels that are read of each.
    weights, units
        Elements, and output channels in which they can be divided.
    own_channels
        Whether an output channel needs one input channel alone.
    by_value
        Whether a value needs the values at its place alone.
    macs, vector, touched
        For each value of the output: MACs, operations on single values, and what is accessed on chip.
    added
        Rows and columns of what it reads, if its output is one pixel that all of these are added up to.
    state
        Elements that a recurrent layer keeps beside; it is executed by itself, in one pass.
    """

    def __init__(
        self, number: int, table: Json, reads: tuple[int, ...], shapes: list[tuple[int, ...]]
    ) -> None:
        kind, channels = table["kind"], table["input"][0]
        self.number, self.name, self.kind, self.reads, self.table = number, table["name"], kind, reads, table
        spans = zip(reads, table["channels"], strict=True)
        self.parts = [range(*(span or (0, shapes[t][0]))) for t, span in spans]
        weighty = kind in ("conv", "fc")
        self.kernel, self.stride, self.pad = (
            table.get(key, default)
            for key, default in (("kernel", [1, 1]), ("stride", [1, 1]), ("padding", [0] * 4))
        )
        self.dilation = table.get("dilation", [1, 1])
        extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        self.plane = [
            (table["input"][1 + i] + self.pad[2 * i] + self.pad[2 * i + 1] - extent[i]) // self.stride[i] + 1
            for i in (0, 1)
        ]
        self.shape: tuple[int, ...] = (table["kernels"] if weighty else channels, *self.plane)
        self.spread = table.get("spread", 1)
        # A function along channels alone needs a value's own pixel, one along others all values.
        along: list[str] | None = table.get("along")
        by_pixels = "second" in table or _by_pixels(table)
        whole = kind in ("function", "input", "reshape", "matmul") and not by_pixels
        if kind in ("function", "input", "reshape", "matmul"):
            self.shape = tuple(table["input" if kind == "input" else "output"])
            self.plane = list(self.shape[1:])
        # Where parts of an operand begin in it, by tensor, and how many there are before one that follows.
        second = table.get("second", [False] * len(reads))
        self.at = {
            t: at
            for t, at, is_second in zip(reads, table["at"], second, strict=False)
            if at is not None and not is_second
        }
        self.operands = sum(at in (None, (0, 0)) for at in table["at"])
        self.views = any(at is not None for at in table["at"]) or bool(table.get("copies"))
        self.groups = table.get("groups", 1)
        self.bias = bool(table.get("bias"))
        self.window = prod(self.kernel)
        each = self.window * channels // self.groups + self.bias
        self.weights = self.shape[0] * each if weighty else table.get("parameters", 0)
        self.by_value = kind in ("add", "mul") or (kind == "map" and table["op"] not in ALL_CHANNELS)
        self.units = self.shape[0] if weighty or self.by_value or kind == "pool" else 1
        depthwise = weighty and self.groups == channels == table["kernels"]
        distinct = len(set(reads)) == len(set(zip(reads, self.parts, strict=True)))
        # Operands of fewer channels have them again for each group: then all are read for all.
        if kind in ("add", "mul") and any(shapes[t][0] < channels for t in reads):
            self.units, distinct = 1, False
        self.own_channels = distinct and (self.by_value or depthwise or kind == "pool")
        self.pixels = prod(self.plane)
        # Of an operand of another plane every pixel is read: a flattened map, or a factor of a whole plane.
        self.every = {
            t: whole
            or kind == "fc"
            or any(n == t and is_second for n, is_second in zip(reads, second, strict=True))
            or (t not in self.at and tuple(shapes[t][1:]) != tuple(table["input"][1:]))
            for t in reads
        }
        self.in_blocks = (
            weighty
            and self.groups == 1
            and not self.own_channels
            and len({tuple(shapes[t][1:]) for t in reads}) == 1
            and len(set(reads)) == len(reads)
            and not self.views
        )
        self.added = self._added(shapes)
        rows = {"lstm": 1 + 1 + 4, "gru": 1 + 3, "rnn": 1 + 1}
        told = table.get("recurrence")
        self.state = rows[table["op"]] * told["hidden"] if told else 0
        # Of a state: its values, the weights of one, and how often it is computed.
        self.hidden, self.times = (told["hidden"], told["steps"]) if told else (1, 1)
        self.of_value = self.weights // (told["directions"] * told["hidden"]) if told else 0
        self.macs = channels // self.groups * self.window if weighty else 0
        if kind == "matmul":
            self.macs = table["depth"]
        taken = {"pool": self.window, "add": self.operands, "mul": self.operands, "matmul": 0}.get(
            kind, int(not weighty)
        )
        # The first operand is added to nothing; what a function of whole maps does is not counted.
        uncounted = kind in ("add", "mul", "concat", "input", "reshape")
        self.vector = taken - (uncounted or (kind == "function" and along is None))
        self.touched = 2 * self.macs + taken + self.bias + 1
        # Of a product in blocks: of each column of each matrix, the elements that it needs, by tensor.
        self.columns: list[list[list[tuple[int, int]]]] | None = None
        if kind == "matmul" and "second" in table and table.get("transposed") is not None:
            self.columns = self._matrices(second, shapes)

    def _matrices(
        self, second: list[bool], shapes: list[tuple[int, ...]]
    ) -> list[list[list[tuple[int, int]]]] | None:
        """Return for each matrix and column the tensors and elements in it; None if it is not in blocks."""
        table, values = self.table, dict[tuple[int, int, int], tuple[int, int]]()
        times = set()
        for t, name, part, at, is_second in zip(
            self.reads, table["inputs"], self.parts, table["at"], second, strict=True
        ):
            if not is_second:
                continue
            deep, tall, wide = len(part), *shapes[t][1:]
            output = table.get("expanded", {}).get(name, (deep, tall, wide))
            copies = [whole // own for whole, own in zip(output, (deep, tall, wide), strict=True)]
            times.add(tuple(copies))
            row, column = at or (0, 0)
            for c, y, x in product(range(output[0]), range(output[1]), range(output[2])):
                own = part[c // copies[0]], y // copies[1], x // copies[2]
                values[c, y + row, x + column] = t, (own[1] * wide + own[2]) * shapes[t][0] + own[0]
        ((share, *others),) = times if len(times) == 1 else {(0, 0, 0)}
        channels = 1 + max(c for c, _, _ in values)
        if others != [1, 1] or (share > 1 and channels != self.groups):
            return None
        depth = table["depth"]
        columns, flat = len(values) // (self.groups * depth), [values[key] for key in sorted(values)]
        found = []
        for group in range(self.groups):
            own = flat[group * depth * columns : (group + 1) * depth * columns]
            matrix = [
                own[j * depth : (j + 1) * depth] if table["transposed"] else own[j::columns]
                for j in range(columns)
            ]
            if matrix not in found or share == 1:
                found.append(matrix)
        return found

    def second_size(self, tensor: int, width: str) -> int:
        """Return the elements of a tensor that a product has in its second operand.

        Parameters
        ----------
        width
            ``all``, ``unit`` for one column of one matrix at most, or ``column`` and ``row`` of all matrices.
        """
        assert self.columns is not None
        counts = [[sum(t == tensor for t, _ in column) for column in matrix] for matrix in self.columns]
        if width == "unit":
            return max(map(max, counts))
        if width == "all":
            return sum(map(sum, counts))
        if width == "column":
            return max(map(sum, zip(*counts, strict=True)))
        return max(
            sum(column[i][0] == tensor for matrix in self.columns for column in matrix)
            for i in range(len(self.columns[0][0]))
        )

    def size_of_keys(self, tensor: int, columns: bool, keys: int) -> int:
        """Return the elements of a tensor that all matrices have for the first columns, or rows."""
        assert self.columns is not None
        if columns:
            return sum(t == tensor for matrix in self.columns for column in matrix[:keys] for t, _ in column)
        return sum(t == tensor for matrix in self.columns for column in matrix for t, _ in column[:keys])

    def _added(self, shapes: list[tuple[int, ...]]) -> tuple[int, int] | None:
        planes = {tuple(shapes[t][1:]) for t in self.reads}
        if self.kind not in ("pool", "conv", "fc") or self.plane != [1, 1] or len(planes) != 1:
            return None
        ((height, width),) = planes
        if height * width == 1 or self.views or len(set(self.reads)) < len(self.reads):
            return None
        depthwise = self.kind == "conv" and self.groups == self.table["input"][0] == self.table["kernels"]
        if self.groups > 1 and not depthwise:
            return None
        around = self.kernel == [height, width] == self.table["input"][1:] and not any(self.pad)
        return (height, width) if self.kind == "fc" or (around and self.dilation == [1, 1]) else None

    def channels(self, tensor: int) -> set[int]:
        """Return the channels of a tensor that are read."""
        return {c for t, part in zip(self.reads, self.parts, strict=True) if t == tensor for c in part}

    def under(self, axis: int, place: int, size: int, tensor: int) -> list[int]:
        """Return the rows (or columns) of a tensor, of so many, from the first to the last a place needs."""
        start = place * self.stride[axis] - self.pad[2 * axis] - self.at.get(tensor, (0, 0))[axis]
        extent = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        return [n for n in range(start, start + extent) if 0 <= n < size]


class Pass(NamedTuple):
    """What a step does at a time.

    Attributes
    ----------
    new
        Elements of each tensor that are computed, or read for the first time in this order.
    saved
        Elements of each output that can be written then.
    weights
        Elements that are loaded.
    macs, vector, touched
        Work, and accesses on chip.
    """

    new: dict[int, int]
    saved: dict[int, int]
    weights: int
    macs: int
    vector: int
    touched: int


class Cut(NamedTuple):
    """A way to cut up a step.

    Attributes
    ----------
    passes
        One after the other.
    lines
        Elements of the line buffer of each tensor; as it is, if it is loaded with second buffers, and if it
        is written with them.
    weights
        Elements of weights on chip, by operation.
    block
        Elements of the block of the output, if it does not stay.
    always
        Whether the block is there even if the output stays: it holds partial sums.
    once
        Elements of weights that are loaded before the first pass.
    operands
        Of products, elements of a block of the second operand, by source.
    sums
        Elements of running maxima, sums and contexts, by operation.
    """

    step: Json
    passes: list[Pass]
    lines: dict[int, tuple[int, int, int]]
    weights: dict[int, int]
    block: int | None
    always: bool
    once: int
    operands: dict[int, dict[int, int]]
    sums: dict[int, int]


class Attention(NamedTuple):
    """Scores, functions of them, softmax and context whose keys can pass by.

    Attributes
    ----------
    chain
        Numbers of the operations, in order.
    beside
        Tensors that functions of scores read, too, and how many groups have keys of their own in each.
    causal
        n where row i sees keys up to i + n; None if all. Nothing may be read beside the scores then.
    source
        The tensor of scores, where no operation of the chain computes it.
    """

    chain: tuple[int, ...]
    mask: Names
    groups: int
    keys: int
    values: int
    beside: dict[int, int]
    causal: int | None
    source: int | None = None

    def seen(self, row: int) -> int:
        """Return how many keys a row sees."""
        return self.keys if self.causal is None else min(self.keys, row + self.causal + 1)


def _taken_together(op: Op) -> int | None:
    """Return how many channels of a pixel a softmax takes together, one behind the other; None if others."""
    shape, along = op.table.get("told", (op.shape, ("channels",)))
    sets: dict[Any, list[int]] = {}
    axes = ("channels", "rows", "columns")
    for number, place in enumerate(product(*map(range, shape))):
        key = tuple(n for n, axis in zip(place, axes, strict=True) if axis not in along)
        sets.setdefault(key, []).append(number)
    sizes = set()
    for values in sets.values():
        channels, pixels = [value // op.pixels for value in values], {value % op.pixels for value in values}
        if len(pixels) > 1 or channels != list(range(channels[0], channels[0] + len(values))):
            return None
        sizes.add(len(values))
    return sizes.pop()


class Course:
    """Passes over some columns of a step's output, row by row: how much of each tensor is there after each.

    Attributes
    ----------
    columns
        Of each tensor: the first one, and the one behind the last.
    ends
        Of each tensor: pixels, of these columns, that are there after each pass, from none on.
    first
        Of each tensor that is read: the first pixel that a pass or a later one needs, from the first pass on.
    """

    def __init__(
        self,
        group: Group,
        columns: dict[int, tuple[int, int]],
        pixels: int,
        running: bool,
        blocks: bool = False,
    ) -> None:
        graph, output = group.graph, group.output
        self.blocked = group.blocked if blocks else {}
        self.columns, self.added = columns, group.last if running else None
        height, width = group.passed(running)[0], columns[output][1] - columns[output][0]
        passes = -(-height * width // pixels)
        self.size = {t: graph.shapes[t][1] * (b - a) for t, (a, b) in columns.items()}
        self.size[output] = height * width
        self.ends = {output: [min(n * pixels, self.size[output]) for n in range(passes + 1)]}
        self.first: dict[int, list[int]] = {}
        for op in reversed(group.ops):
            for tensor in dict.fromkeys(op.reads):
                if self.blocked.get((op.number, tensor)) == "alone":
                    continue
                reach, needs = self._spans(graph, op, tensor)
                done = self.ends[op.number + 1]
                wanted = [reach[n] for n in done]
                wanted[-1] = self.size[tensor]
                known = self.ends.get(tensor, wanted)
                self.ends[tensor] = [max(pair) for pair in zip(known, wanted, strict=True)]
                needed = [needs[n] for n in done[:-1]]
                before = self.first.get(tensor, needed)
                self.first[tensor] = [min(pair) for pair in zip(before, needed, strict=True)]
        self.passes = passes

    def _spans(self, graph: Graph, op: Op, tensor: int) -> tuple[list[int], list[int]]:
        """Return up to which pixel of a tensor the first n outputs reach, and the first that others need."""
        height, (low, high) = graph.shapes[tensor][1], self.columns[tensor]
        wide = high - low
        reach, firsts = [0], []
        tall = height if op is self.added else op.plane[0]
        for y, x in product(range(tall), range(*self.columns[op.number + 1])):
            if op is self.added:
                span = y * wide + x - low, y * wide + x - low
            elif op.spread > 1:  # each pixel that is read gives several, one behind the other
                span = (len(firsts) // op.spread,) * 2
            elif op.every[tensor] and (op.number, tensor) not in self.blocked:
                span = 0, self.size[tensor] - 1
            else:
                rows = op.under(0, y, height, tensor)
                columns = op.under(1, x, graph.shapes[tensor][2], tensor)
                empty = not rows or not columns
                span = (self.size[tensor], -1) if empty else (
                    rows[0] * wide + columns[0] - low, rows[-1] * wide + columns[-1] - low
                )  # fmt: skip
            reach.append(max(reach[-1], span[1] + 1))
            firsts.append(span[0])
        needs = [self.size[tensor]]
        for each in reversed(firsts):
            needs.append(min(needs[-1], each))
        return reach, needs[::-1]


class Group:
    """Operations of one step."""

    def __init__(self, graph: Graph, ops: tuple[Op, ...]) -> None:
        self.graph, self.ops, self.last = graph, ops, ops[-1]
        self.mask = frozenset(op.number for op in ops)
        made = {op.number + 1 for op in ops}
        self.read = frozenset(tensor for op in ops for tensor in op.reads)
        self.sources: Names = self.read - made
        self.output = self.last.number + 1
        wanted = graph.results | {self.output}  # slices may leave all of the last one out
        self.outputs = [t for t in sorted(made) if t in wanted or graph.readers[t] - self.mask]
        self.heavy = [op for op in ops if op.weights]
        self.depth = sum(map(len, self.last.parts))
        # Channels in line buffers: what is computed is computed in all channels.
        self.deep = {t: graph.shapes[t][0] for t in made} | {
            t: len(set().union(*(op.channels(t) for op in ops))) for t in self.sources
        }
        # What products may read in blocks: alone, or beside the pixels of their first operand.
        self.blocked: dict[tuple[int, int], str] = {}
        for op in ops:
            if op.columns is not None:
                flags = list(zip(op.reads, op.table["second"], strict=True))
                for t in {t for t, second in flags if second and t in self.sources}:
                    self.blocked[op.number, t] = "beside" if (t, False) in flags else "alone"
        self.passing = [each for each in graph.attention if each.mask <= self.mask]
        end, self.tiled = self._end(), False
        if end is not None and not self.passing:
            self.passing = [end]
            if self.mask == end.mask:  # matrix by matrix, and not where keys of a mask cannot be loaded alone
                readers = {t: [op for op in self.ops if t in op.reads] for t in end.beside}
                self.tiled = all(t in self.sources and len(those) == 1 for t, those in readers.items())
                self.passing = [end] if self.tiled else []
        if graph.tiles and len(ops) == 1 and self.last.columns is not None:
            table, (first, *others) = self.last.table, [not each for each in self.last.table["second"]]
            plain = first and not any(others) and table["at"][0] is None and not self._is_copied()
            self.tiled = plain and graph.shapes[self.last.reads[0]][1:] == tuple(self.last.plane)
        self.course = lru_cache(maxsize=None)(self._courses)
        self.cut = lru_cache(maxsize=None)(self._cut)
        self.known: dict[Any, list[Spent]] = {}

    def _is_copied(self) -> bool:
        """Whether the first operand has another shape than its tensor, or is made of copies."""
        table, name = self.last.table, self.graph.name(self.last.reads[0])
        copied = name in table.get("copies", ()) or name in table.get("expanded", {})
        return copied or len(self.last.parts[0]) != self.last.groups * table["depth"]

    def _end(self) -> Attention | None:
        """Return the end of the only attention of which the step has the context, and not the scores."""
        own = [each for each in self.graph.attention if each.chain[-1] in self.mask]
        if len(own) != 1 or not self.graph.tiles:
            return None
        chain_ = own[0].chain
        begin = max((place + 1 for place, number in enumerate(chain_) if number not in self.mask), default=0)
        if not 0 < begin < len(chain_) - 1:
            return None
        rest = chain_[begin:]
        read = {t for number in rest for t in self.graph.ops[number].reads}
        beside = {t: n for t, n in own[0].beside.items() if t in read}
        return own[0]._replace(
            chain=rest, mask=frozenset(rest), beside=beside, causal=None, source=chain_[begin - 1] + 1
        )

    def passed(self, running: bool) -> tuple[int, int]:
        """Return rows and columns that passes go over: of the output, or of what is added up to it."""
        plane = self.last.added if running else self.last.plane
        assert plane is not None
        return plane[0], plane[1]

    def strips(self, columns: int | None, running: bool = False) -> list[dict[int, tuple[int, int]]]:
        """Return the columns of all tensors for each strip of the output, or of what is added up to it."""
        graph, width = self.graph, self.passed(running)[1]
        starts = range(0, width, columns or width)
        found = [{self.output: (start, min(width, start + starts.step))} for start in starts]
        for op in reversed(self.ops):  # all that read what an operation computes come before it
            if op is not self.last:
                self._without_gaps(found, op.number + 1)
            for spans in found:
                low, high = spans[op.number + 1]
                for tensor in op.reads:
                    wide = graph.shapes[tensor][2]
                    under = [n for x in range(low, high) for n in op.under(1, x, wide, tensor)]
                    span = (
                        (low, high)
                        if running and op is self.last
                        else (0, wide)
                        if op.every[tensor]
                        else (min(under, default=wide), max(under, default=-1) + 1)
                    )
                    known = spans.get(tensor, span)
                    spans[tensor] = min(known[0], span[0]), max(known[1], span[1])
        for tensor in self.sources:
            self._without_gaps(found, tensor)
        return found

    def _without_gaps(self, strips: list[dict[int, tuple[int, int]]], tensor: int) -> None:
        """Give the columns of a tensor that no strip needs to the one behind them, or to the last one."""
        end = 0
        for number, spans in enumerate(strips):
            low, high = spans[tensor]
            low = min(low, end)
            spans[tensor] = low, self.graph.shapes[tensor][2] if number == len(strips) - 1 else max(high, low)
            end = spans[tensor][1]

    def _courses(self, columns: int | None, pixels: int, running: bool = False) -> list[Course]:
        rows = pixels // columns if columns else 0  # of a narrower strip at the end, too
        found = []
        for spans in self.strips(columns, running):
            low, high = spans[self.output]
            found.append(Course(self, spans, rows * (high - low) or pixels, running))
        return found

    def value(self) -> int:
        """Return the elements of a running value: a maximum is no wider than what is read."""
        return 1 if self.last.kind == "pool" and self.last.table["op"] == "max" else self.graph.sum_elements

    def weights_of(self, pixels: int, kernels: int, biases: bool) -> int:
        """Return the weights of the last operation for some pixels of what is added up."""
        last = self.last
        assert last.added is not None
        each = (last.weights // last.units - last.bias) // prod(last.added)
        return min(kernels, last.units) * (each * pixels + last.bias * biases) if last.weights else 0

    @property
    def most_kernels(self) -> int:
        """The most columns or output channels in a block of any operation."""
        seconds = [sum(map(len, op.columns)) for op in self.ops if op.columns is not None]
        return max([*seconds, *(op.units for op in self.ops), *(op.hidden for op in self.ops)])

    @property
    def most_keys(self) -> int:
        """The most keys that pass by at a time; 0 where none do."""
        return max((each.keys for each in self.passing), default=0)

    def part(self, op: Op, kernels: int) -> int:
        """Return the elements of some output channels' weights."""
        return min(op.weights, -(-op.weights // op.units) * min(kernels, op.units))

    @cached_property
    def ways(self) -> set[tuple[Any, ...]]:
        """All ways to cut up the step, as `cut` takes them: where weights are kept, with all kernels."""
        graph, last, alone = self.graph, self.last, len(self.ops) == 1
        height, width = last.plane
        kernels = range(1, max(op.units for op in self.ops) + 1)
        all_kept = tuple(op.name for op in self.heavy)
        if last.state:
            blocks = range(1, last.hidden + 1) if all_kept else ()
            found = {("pixels", last.pixels, many, (), None, None, False) for many in blocks}
            return found | {("pixels", last.pixels, kernels[-1], all_kept, None, None, False)}
        found: set[tuple[Any, ...]] = set()
        straight = graph.tiles and not any(not op.every[t] for op in self.ops for t in op.at)
        straight = straight and not any(op.spread > 1 for op in self.ops)
        if last.added is not None:
            found |= self._adding(kernels, straight)
        for pixels in range(1, last.pixels + 1):
            found.add(("pixels", pixels, kernels[-1], all_kept, None, None, False))
            if pixels % width == 0:
                found |= {("pixels", pixels, many, kept, None, None, False)
                          for kept in subsets(all_kept) if kept != all_kept for many in kernels}  # fmt: skip
            if alone:
                found |= {("kernels", pixels, many, (), None, None, False) for many in kernels}
        if straight:
            for columns in fewest(width)[:-1]:
                for pixels in [*range(1, columns), *range(columns, height * columns + 1, columns)]:
                    found.add(("pixels", pixels, kernels[-1], all_kept, columns, None, False))
        if graph.tiles and alone and last.in_blocks:
            for many, channels in product(kernels, range(1, self.depth + 1)):
                for rows, columns in product(range(1, height + 1), range(1, width + 1)):
                    found.add(("tiles", rows * columns, many, (), columns, channels, False))
                found.add(("channels", 1, many, (), None, channels, False))
        if graph.doubled:
            for rows in fewest(height):
                found.add(("pixels", rows * width, kernels[-1], all_kept, None, None, True))
                if alone and len(set(last.reads)) == len(last.reads):
                    found |= {
                        ("kernels", rows * width, many, (), None, None, True) for many in fewest(kernels[-1])
                    }
        if self.tiled:
            found |= self._tiled_ways()
        if any(op.columns is not None for op in self.ops):
            # Larger blocks of columns take more memory, and change nothing else.
            for pixels, many, kept in product(fewest(last.pixels), {1, self.most_kernels}, subsets(all_kept)):
                for keys in (None, *range(1, (0 if self.tiled else self.most_keys) + 1)):
                    found.add(("pixels", pixels, many, kept, None, None, False, False, True, keys))
        return found

    def _tiled_ways(self) -> set[tuple[Any, ...]]:
        """Return the ways in tiles of a product, by itself or with the softmax before it."""
        last, found = self.last, set[tuple[Any, ...]]()
        assert last.columns is not None
        terms = range(1, last.table["depth"] + 1)
        for pixels, many, each in product(fewest(last.pixels), range(1, len(last.columns[0]) + 1), terms):
            channels, keys = (each, None) if len(self.ops) == 1 else (None, each)
            found.add(("pixels", pixels, many, (), None, channels, False, False, True, keys))
        return found

    def _adding(self, kernels: range, straight: bool) -> set[tuple[Any, ...]]:
        """Return the ways with running values; the last operation's weights are read pixel by pixel."""
        (height, width), found = self.passed(True), set[tuple[Any, ...]]()
        others = tuple(op.name for op in self.heavy if op is not self.last)
        blocks = kernels if self.last.weights else kernels[-1:]
        for pixels in range(1, height * width + 1):
            for kept in subsets(others):
                if kept == others or pixels % width == 0:
                    found |= {("pixels", pixels, many, kept, None, None, False, True)
                              for many in (blocks if kept == others else kernels)}  # fmt: skip
            if len(self.ops) == 1:
                found |= {("kernels", pixels, many, (), None, None, False, True) for many in kernels}
        for columns in fewest(width)[:-1] if straight else []:
            for pixels in [*range(1, columns), *range(columns, height * columns + 1, columns)]:
                found |= {("pixels", pixels, many, others, columns, None, False, True) for many in blocks}
        if self.graph.doubled and not self.last.weights:
            found |= {("pixels", rows * width, kernels[-1], others, None, None, True, True)
                      for rows in fewest(height)}  # fmt: skip
        return found

    def cut_of(self, told: Json) -> Cut:
        """Return the way of a plan's step."""
        order, pixels, kernels, columns, channels = (
            told.get(name) for name in ("order", "pixels", "kernels", "columns", "channels")
        )
        kept, units = (
            tuple(op.name for op in self.heavy if op.name in told["kept"]),
            max(op.units for op in self.ops),
        )
        if self.last.state and not (kept or not self.heavy):
            units = self.last.hidden
        if len(kept) < len(told["kept"]) or not 1 <= told["kernels"] <= self.most_kernels:
            raise Refused("kept or kernels")
        keys = told.get("keys")
        if told.get("blocks"):
            flags = bool(told.get("double_buffering")), bool(told.get("running"))
            in_tiles = self.tiled and (channels if len(self.ops) == 1 else keys) is not None
            listed = kernels if in_tiles else 1
            if (order, pixels, listed, kept, columns, channels, *flags, True, keys) not in self.ways:
                raise Refused("blocks")
            return self.cut(order, pixels, kernels, kept, columns, channels, False, False, True, keys)
        if keys is not None:
            raise Refused("keys")
        kernels = min(kernels, units)
        if order == "pixels" and len(kept) == len(self.heavy):
            kernels = units
        running = bool(told.get("running"))
        rest: tuple[Any, ...] = kernels, kept, columns, channels, bool(told.get("double_buffering"))
        rest += (True,) if running else ()
        # In that order all passes move the same; with one pixel each they take least.
        listed = 1 if order == "channels" and 1 <= pixels <= self.last.pixels else pixels
        if (order, listed, *rest) not in self.ways:
            raise Refused("order, pixels, kernels, columns or channels")
        return self.cut(order, pixels, *rest)

    def _cut(
        self,
        order: str,
        pixels: int,
        kernels: int,
        kept: tuple[str, ...],
        columns: int | None = None,
        channels: int | None = None,
        doubled: bool = False,
        running: bool = False,
        blocks: bool = False,
        keys: int | None = None,
    ) -> Cut:
        self.graph.cuts += 1
        if self.graph.cuts > MOST_CUTS:
            raise TooLarge
        step = {"order": order, "pixels": pixels, "kernels": kernels, "kept": kept, "columns": columns,
                "channels": channels, "double_buffering": doubled, "running": running, "blocks": blocks,
                "keys": keys}  # fmt: skip
        if blocks and self.tiled and (channels if len(self.ops) == 1 else keys) is not None:
            return self._in_product_tiles(step)
        if blocks:
            return self._in_second_blocks(step)
        how: Callable[[Json], Cut] = {"pixels": self._in_pixels, "kernels": self._in_kernels}.get(
            order, self._in_blocks
        )
        return how(step)

    def _in_pixels(self, step: Json) -> Cut:
        graph, last, pixels, kernels = self.graph, self.last, step["pixels"], step["kernels"]
        running = step["running"]
        courses = self.course(step["columns"], pixels, running)
        passes, saved = [], dict.fromkeys(self.outputs, 0)
        for course in courses:
            for n in range(1, course.passes + 1):
                grown = {t: ends[n] - ends[n - 1] for t, ends in course.ends.items()}
                new = {t: self.deep[t] * many for t, many in grown.items()}
                gone = {}
                for tensor in self.outputs:  # columns that are computed again are not written again
                    if running and tensor == self.output:
                        there = course is courses[-1] and n == course.passes
                        gone[tensor] = last.shape[0] * there
                        saved[tensor] += gone[tensor]
                        continue
                    low, high = course.columns[tensor]
                    behind = max((c.columns[tensor][1] for c in courses[: courses.index(course)]), default=0)
                    ends, wide = course.ends[tensor], high - low
                    fresh = sum(low + p % wide >= behind for p in range(ends[n - 1], ends[n]))
                    gone[tensor] = fresh * graph.shapes[tensor][0]
                    saved[tensor] += gone[tensor]
                loaded = sum(
                    op.weights
                    for op in self.heavy
                    if op.name not in step["kept"] and grown[op.number + 1] and not (running and op is last)
                )
                work = [
                    sum(new[op.number + 1] * each(op) for op in self.ops if not (running and op is last))
                    for each in WORK
                ]
                if running:
                    ends_now = course is courses[-1] and n == course.passes
                    work = [
                        a + b for a, b in zip(work, self._adds(grown[self.output], ends_now), strict=True)
                    ]
                    loaded += self.weights_of(grown[self.output], last.units, not passes)
                passes.append(Pass(new, gone, loaded, *work))
        assert all(saved[t] == graph.sizes[t] for t in self.outputs)
        lines = {t: self._lines(courses, t, step["double_buffering"]) for t in self.read}
        lines = {t: tuple(self.deep[t] * each for each in held) for t, held in lines.items()}  # type: ignore[misc]
        weights = {
            op.number: op.weights if op.name in step["kept"] else self.part(op, kernels) for op in self.heavy
        }
        if last.state and self.heavy and not step["kept"]:  # once for a direction, or for each point in time
            weights[last.number] = kernels * last.of_value
            (one,) = passes
            passes = [one._replace(weights=last.weights * (1 if kernels == last.hidden else last.times))]
        if running:
            if last.weights:
                weights[last.number] = self.weights_of(pixels, kernels, True)
            once = sum(op.weights for op in self.heavy if op.name in step["kept"])
            return Cut(step, passes, lines, weights, last.shape[0] * self.value(), True, once, {}, {})
        all_channels = last.name in step["kept"] or not last.weights or last.units == 1
        block = min(pixels, last.pixels) * (last.shape[0] if all_channels else min(kernels, last.shape[0]))
        once = sum(op.weights for op in self.heavy if op.name in step["kept"])
        return Cut(step, passes, lines, weights, block * (1 + step["double_buffering"]), False, once, {}, {})

    def _in_second_blocks(self, step: Json) -> Cut:
        """Passes that load second operands in blocks of columns, or of keys."""
        graph, last, kernels, keys = self.graph, self.last, step["kernels"], step["keys"]
        spans = {t: (0, shape[2]) for t, shape in enumerate(graph.shapes)}
        course = Course(self, spans, step["pixels"], False, blocks=True)
        passing = self.passing if keys is not None else []
        deep = dict(self.deep)
        for t in self.sources:
            beside = [
                {c for n, p, s in zip(op.reads, op.parts, op.table["second"], strict=True) if n == t and not s
                 for c in p}
                if (op.number, t) in self.blocked
                else op.channels(t)
                for op in self.ops
            ]  # fmt: skip
            deep[t] = len(set().union(*beside))
        passes = []
        for n in range(1, course.passes + 1):
            grown = {t: ends[n] - ends[n - 1] for t, ends in course.ends.items()}
            new = {t: deep[t] * many for t, many in grown.items()}
            gone = {t: new[t] for t in self.outputs}
            for op in self.ops:
                for t in {t for number, t in self.blocked if number == op.number}:
                    if not grown[op.number + 1]:
                        continue
                    seen = [(op.number == each.chain[0], each.seen(course.ends[op.number + 1][n] - 1))
                            for each in passing if op.number in (each.chain[0], each.chain[-1])]  # fmt: skip
                    size = op.second_size(t, "all") if not seen else op.size_of_keys(t, *seen[0])
                    new[t] = new.get(t, 0) + size
            for t in self.sources:
                new.setdefault(t, 0)
            loaded = sum(
                op.weights for op in self.heavy if op.name not in step["kept"] and grown[op.number + 1]
            )
            made = {op.number: grown[op.number + 1] * graph.shapes[op.number + 1][0] for op in self.ops}
            touched = 0
            for each in passing:
                context, ends = graph.ops[each.chain[-1]], course.ends[each.chain[-1] + 1]
                pairs = sum(each.seen(row) for row in range(ends[n - 1], ends[n])) * each.groups
                unseen = made[context.number] * each.keys - pairs * each.values
                made |= dict.fromkeys(each.chain[:-1], pairs)
                touched -= 2 * unseen  # a product of a value and an exponential for each pair
            macs, vector, more = (sum(made[op.number] * each(op) for op in self.ops) for each in WORK)
            touched += more
            for each in passing:  # sums and contexts are brought to the maximum of each further block
                context, ends = graph.ops[each.chain[-1]], course.ends[each.chain[-1] + 1]
                for row in range(ends[n - 1], ends[n]):
                    blocks = -(-each.seen(row) // keys)
                    vector += each.groups * (each.values + 1) * (blocks - 1)
                    macs -= each.groups * each.values * (each.keys - each.seen(row))
            passes.append(Pass(new, gone, loaded, macs, vector, touched))
        lines, held = {}, {}
        for t in course.ends.keys() - {self.output}:
            held[t] = self._lines([course], t, False)[0]
            own = deep[t]
            for each in passing:
                inside = t - 1 in each.chain[:-1] or t == each.source
                readers = [op for op in self.ops if t in op.reads]
                mask = t in each.beside and t in self.sources and len(readers) == 1
                if inside or mask:
                    own = each.beside.get(t, each.groups) * min(keys, each.keys)
            lines[t] = (held[t] * own,) * 3
        operands: dict[int, dict[int, int]] = {}
        for number, t in self.blocked:
            op = graph.ops[number]
            size = kernels * op.second_size(t, "unit")
            for each in passing:
                if number == each.chain[0]:
                    size = keys * op.second_size(t, "column")
                if number == each.chain[-1]:
                    size = keys * op.second_size(t, "row")
            operands.setdefault(number, {})[t] = min(size, op.second_size(t, "all"))
        sums = {
            each.chain[-1]: held[each.chain[-2] + 1] * each.groups * (each.values + 2) * graph.sum_elements
            for each in passing
        }
        weights = {
            op.number: op.weights if op.name in step["kept"] else self.part(op, kernels) for op in self.heavy
        }
        all_channels = last.name in step["kept"] or (not last.weights and last.columns is None)
        wide = last.shape[0] if all_channels else min(kernels, last.shape[0])
        block = None if last.number in sums else min(step["pixels"], last.pixels) * wide
        once = sum(op.weights for op in self.heavy if op.name in step["kept"])
        return Cut(step, passes, lines, weights, block, False, once, operands, sums)

    def _in_product_tiles(self, step: Json) -> Cut:
        """Pass by pass, matrix by matrix, block of columns by block, terms of a product are added up."""
        graph, last, ops = self.graph, self.last, self.graph.ops
        pixels, kernels, terms = step["pixels"], step["kernels"], step["channels"] or step["keys"]
        end, depth = self.passing[0] if self.passing else None, last.table["depth"]
        assert last.columns is not None
        share, left = last.groups // len(last.columns), last.reads[0] if end is None else end.source
        assert left is not None
        passes: list[Pass] = []
        width = {left: share}
        for number in range(len(last.columns)):
            heads = range(number * share, (number + 1) * share)
            for t, groups in end.beside.items() if end is not None else ():
                width[t] = len({head % groups for head in heads})
        for start in range(0, last.pixels, pixels):
            rows = min(pixels, last.pixels - start)
            for matrix in last.columns:
                for at in range(0, len(matrix), kernels):
                    columns = matrix[at : at + kernels]
                    for low in range(0, depth, terms):
                        high = min(depth, low + terms)
                        taken = [t for column in columns for t, _ in column[low:high]]
                        new = {t: taken.count(t) for t in self.sources}
                        for t, many in width.items():
                            again = at == 0 or end is not None or terms < depth
                            new[t] += rows * many * (high - low) * again * (t in self.sources)
                        done = rows * share * len(columns) * (high == depth)
                        pairs = rows * share * (high - low)
                        macs = pairs * len(columns)
                        before = [ops[n] for n in end.chain[:-1]] if end is not None else []
                        vector = pairs * sum(op.vector for op in before)
                        if end is not None and low:  # what has been added up is brought to a new maximum
                            vector += rows * share * (len(columns) + 1)
                        touched = 2 * macs + done + pairs * sum(op.touched for op in before)
                        passes.append(Pass(new, {self.output: done}, 0, macs, vector, touched))
        held = width | {n + 1: share for n in (end.chain[:-1] if end is not None else ())}
        lines = {t: (pixels * many * terms,) * 3 for t, many in held.items()}
        operands = {
            t: min(last.second_size(t, "all"), kernels * min(terms, last.second_size(t, "unit")))
            for number, t in self.blocked
        }
        values, wide = pixels * share * kernels, graph.sum_elements
        if end is not None:
            sums = {last.number: values * wide + 2 * pixels * share * wide}
            return Cut(step, passes, lines, {}, None, False, 0, {last.number: operands}, sums)
        partial = terms < depth
        block = values * (wide if partial else 1)
        return Cut(step, passes, lines, {}, block, partial, 0, {last.number: operands}, {})

    def _adds(self, pixels: int, ends: bool, channels: int | None = None) -> list[int]:
        """Return MACs, operations on values and accesses for some pixels, and at the end for the output."""
        last = self.last
        assert last.added is not None
        many, every = last.shape[0] if channels is None else channels, prod(last.added)
        read = 2 * last.macs + last.vector  # what is left is a bias, and the value that is stored
        shares = [each * pixels // every for each in (last.macs, last.vector, read)]
        return [many * share for share in shares[:2]] + [many * (shares[2] + (last.touched - read) * ends)]

    def _lines(self, courses: list[Course], tensor: int, doubled: bool) -> tuple[int, int, int]:
        """Return the pixels of a line buffer: without second buffers, and loaded or written with them."""
        held = [0, 0, 0]
        for course, after in zip(courses, [*courses[1:], None], strict=True):
            ends, first = course.ends[tensor], course.first[tensor]
            for n in range(1, course.passes + 1):
                oldest = min(first[n - 1], ends[n - 1])
                held[0] = max(held[0], ends[n] - oldest)
                more = ends[n + 1] - ends[n] if n < course.passes else after.ends[tensor][1] if after else 0
                held[1] = max(held[1], ends[n] + more - oldest, ends[1])
                held[2] = max(held[2], ends[n] - min(oldest, ends[max(0, n - 2)]))
        return held[0], held[1], held[2]

    def _in_kernels(self, step: Json) -> Cut:
        last, pixels, kernels = self.last, step["pixels"], step["kernels"]
        doubled, running = step["double_buffering"], step["running"]
        (course,) = self.course(None, pixels, running)
        blocks = [min(kernels, last.units - at) for at in range(0, last.units, kernels)]
        per_unit = last.shape[0] // last.units
        passes = []
        for number, many in enumerate(blocks):
            for n in range(1, course.passes + 1):
                grown = {t: ends[n] - ends[n - 1] for t, ends in course.ends.items()}
                new = {self.output: grown[self.output] * many * per_unit}
                for t in self.sources:
                    deep = self._between(t, number * kernels, number * kernels + many)
                    new[t] = grown[t] * (deep if last.own_channels else self.deep[t])
                if running:
                    there = many * per_unit * (n == course.passes)
                    new[self.output] = 0
                    loaded = self.weights_of(grown[self.output], many, n == 1)
                    work = self._adds(grown[self.output], n == course.passes, many * per_unit)
                    passes.append(Pass(new, {self.output: there}, loaded, *work))
                    continue
                loaded = self.part(last, many) if n == 1 and last.weights else 0
                if number == len(blocks) - 1 and loaded:
                    loaded = last.weights - self.part(last, kernels) * number
                passes.append(Pass(new, {self.output: new[self.output]}, loaded,
                                   *(new[self.output] * each(last) for each in WORK)))  # fmt: skip
        lines = {}
        for t in self.sources:
            deep = min(self.deep[t], kernels) if last.own_channels else self.deep[t]
            held = self._lines([course] * len(blocks), t, doubled)
            lines[t] = held[0] * deep, held[1] * deep, held[2] * deep
        twice = 1 + doubled
        weights = {op.number: self.part(op, kernels) * twice for op in self.heavy}
        block = min(pixels, last.pixels) * min(kernels * per_unit, last.shape[0]) * twice
        if running:
            weights = {last.number: self.weights_of(pixels, kernels, True)} if last.weights else {}
            block = min(kernels, last.units) * self.value()
            return Cut(step, passes, lines, weights, block, True, 0, {}, {})
        return Cut(step, passes, lines, weights, block, False, 0, {}, {})

    def _in_blocks(self, step: Json) -> Cut:
        """Tiles of the output, or its whole plane, whose input channels are added up block by block."""
        graph, last, kernels, channels = self.graph, self.last, step["kernels"], step["channels"]
        depth, tiled = self.depth, step["order"] == "tiles"
        twice, inner = 1 + step["double_buffering"], last.macs // depth
        deep = [(at, min(depth, at + channels)) for at in range(0, depth, channels)]
        blocks = [min(kernels, last.units - at) for at in range(0, last.units, kernels)]
        partial = len(deep) > 1
        if len(self.last.reads) > 1 and partial:
            raise TooLarge  # which channels of which tensor are a block, is not told
        passes: list[Pass] = []
        lines: dict[int, tuple[int, int, int]] = {}
        if tiled:
            tiles = self._tiles(step["pixels"] // step["columns"], step["columns"])
            largest = {t: max(read[t] for _, read in tiles) for t in self.sources}
            for made, read in tiles:
                for place, many in enumerate(blocks):
                    for number, (low, high) in enumerate(deep):
                        new = {t: read[t] * self._between(t, low, high) * (partial or place == 0)
                               for t in self.sources}  # fmt: skip
                        passes.append(self._block(new, made, many, high - low, number == len(deep) - 1, True))
            for t in self.sources:
                each = min(channels, self.deep[t]) * largest[t]
                lines[t] = each, 2 * each, each
            sums = step["pixels"]
        else:
            (course,) = self.course(None, step["pixels"])
            for many in blocks:
                for number, (low, high) in enumerate(deep):
                    for n in range(1, course.passes + 1):
                        grown = {t: ends[n] - ends[n - 1] for t, ends in course.ends.items()}
                        new = {t: grown[t] * self._between(t, low, high) for t in self.sources}
                        made = grown[self.output]
                        passes.append(
                            self._block(new, made, many, high - low, number == len(deep) - 1, n == 1)
                        )
            for t in self.sources:
                held = self._lines([course] * (len(blocks) * len(deep)), t, step["double_buffering"])
                each = min(channels, self.deep[t])
                lines[t] = held[0] * each, held[1] * each, held[2] * each
            sums = last.pixels
        weights = {last.number: kernels * (channels * inner + last.bias) * twice} if last.weights else {}
        block = sums * kernels * (graph.sum_elements if partial else 1) * twice
        return Cut(step, passes, lines, weights, block, partial, 0, {}, {})

    def _between(self, tensor: int, low: int, high: int) -> int:
        """Return the channels of a tensor among some of those that the last operation reads."""
        place, parts, start = self.last.reads.index(tensor), self.last.parts, 0
        if self.last.kind not in ("add", "mul"):  # others read their operands one after the other
            while self.last.table["at"][place] not in (None, (0, 0)):
                place -= 1  # parts of an operand have the same channels
            begins = zip(parts[:place], self.last.table["at"], strict=False)
            start = sum(len(part) for part, at in begins if at in (None, (0, 0)))
            place = self.last.reads.index(tensor)
        return max(0, min(high, start + len(parts[place])) - max(low, start))

    def _block(
        self, new: dict[int, int], pixels: int, kernels: int, channels: int, ends: bool, loads: bool
    ) -> Pass:
        last = self.last
        inner = last.macs // self.depth
        values, macs = pixels * kernels, pixels * kernels * channels * inner
        loaded = kernels * (channels * inner + (last.bias and ends)) * (loads and bool(last.weights))
        done = values * ends
        touched = 2 * macs + done * (1 + last.bias)
        return Pass({**new, self.output: done}, {self.output: done}, loaded, macs, 0, touched)

    def _tiles(self, rows: int, columns: int) -> list[tuple[int, dict[int, int]]]:
        """Return for each tile its pixels, and those that it reads of each tensor."""
        last, shapes = self.last, self.graph.shapes
        spans: list[list[tuple[int, dict[int, int]]]] = []
        for axis, size in enumerate((rows, columns)):
            found: list[tuple[int, dict[int, int]]] = []
            ends = dict.fromkeys(self.sources, 0)
            length = last.plane[axis]
            for start in range(0, length, size):
                stop = min(length, start + size)
                read = {}
                for t in self.sources:
                    whole = shapes[t][1 + axis]
                    taps = [n for place in range(start, stop) for n in last.under(axis, place, whole, t)]
                    low, high = (
                        (0, whole) if last.every[t] else (min(taps, default=whole), max(taps, default=-1) + 1)
                    )
                    low = min(low, ends[t])
                    high = whole if stop == length else max(high, low)
                    read[t], ends[t] = high - low, high
                found.append((stop - start, read))
            spans.append(found)
        return [
            (tall * wide, {t: a[t] * b[t] for t in self.sources}) for (tall, a), (wide, b) in product(*spans)
        ]

    def replaced(self, tensor: int, step: Json) -> bool:
        """Whether the output can take a tensor's place, so far as this step is concerned."""
        if not self.last.by_value or tensor not in self.last.reads or tensor not in self.sources:
            return False
        every = len(self.last.channels(tensor)) == self.last.shape[0]
        if self.graph.shapes[tensor] != self.last.shape or not every:
            return False
        others = [op for op in self.ops[:-1] if tensor in op.reads]
        if step["columns"] is not None and others:
            return False
        if step["order"] != "pixels":
            return not others
        (course,) = self.course(None, step["pixels"]) if others else (None,)
        return course is None or all(
            course._spans(self.graph, op, tensor)[1][course.ends[op.number + 1][n]]
            >= course.ends[self.output][n]
            for op in others
            for n in range(course.passes + 1)
        )

    def buffers(self, cut: Cut, whole: Names, written: Names) -> dict[str, int]:
        """Return the elements of all buffers of a step, by name."""
        found, doubled = {}, cut.step["double_buffering"]
        for t in (self.read - whole) & cut.lines.keys():
            plain, loaded, saved = cut.lines[t]
            found[f"lines of {self.graph.name(t)}"] = (
                plain if not doubled else loaded if t in self.sources else saved if t in written else plain
            )
        for number, size in cut.weights.items():
            found[f"weights of {self.graph.ops[number].name}"] = size
        for number, parts in cut.operands.items():
            if size := sum(size for t, size in parts.items() if t not in whole):
                found[f"operand of {self.graph.ops[number].name}"] = size
        for number, size in cut.sums.items():
            found[f"partial sums of {self.graph.ops[number].name}"] = size
        if self.last.state:
            found[f"state of {self.last.name}"] = self.last.state
        if cut.block is not None and (cut.always or self.output not in whole):
            found[f"block of {self.last.name}"] = cut.block
        return found

    def spent(self, cut: Cut, whole: Names, fetched: Names, written: Names, done: Names) -> Spent:
        """Return what a step costs, with the elements of its buffers.

        Parameters
        ----------
        whole
            Tensors that are on chip as a whole: they are neither read nor held line by line.
        fetched
            Those of them that are loaded before the first pass.
        written
            Outputs that are written.
        done
            What has been executed before: of what is fetched all channels are loaded that others still read.
        """
        graph, streamed = self.graph, self.sources - whole
        ahead = cut.once + sum(graph.needed(t, done) for t in fetched)
        loads = [sum(each.new[t] for t in streamed) + each.weights for each in cut.passes]
        saves = [sum(each.saved[t] for t in written) for each in cut.passes]
        works = [each.macs * graph.mac + each.vector * graph.vector for each in cut.passes]
        moved, work = ahead + sum(loads) + sum(saves), sum(works)
        set_up = graph.setup * (len(fetched) + len(streamed) + len(written) + len(self.heavy))
        if cut.step["double_buffering"]:
            cycles = ahead * graph.transfer
            for n in range(-1, len(works) + 1):
                bus = loads[n + 1] if n + 1 < len(works) else 0
                bus += saves[n - 1] if n > 0 else 0
                cycles += max(works[n] if 0 <= n < len(works) else 0, bus * graph.transfer)
        else:
            cycles = work + moved * graph.transfer
        touched = moved + sum(each.touched for each in cut.passes)
        energy = graph.dram * moved + graph.local * touched + graph.core * (work + set_up)
        return Spent(moved, cycles + set_up, energy, sum(self.buffers(cut, whole, written).values()))

    def steps(
        self, whole: Names, fetched: Names, written: Names, place: int | None, done: Names
    ) -> list[Spent]:
        """Return what the ways to cut up the step cost, but those that are worse in everything."""
        loaded = tuple(self.graph.needed(t, done) for t in sorted(fetched))
        key = whole & (self.read | {self.output}), fetched, loaded, written, place
        if key not in self.known:
            self.known[key] = undominated(
                self.spent(cut, whole, fetched, written, done)
                for cut in starmap(self.cut, self.ways)
                if place is None or self.replaced(place, cut.step)
            )
        return self.known[key]


WORK: tuple[Callable[[Op], int], ...] = (lambda op: op.macs, lambda op: op.vector, lambda op: op.touched)


def fewest(size: int) -> list[int]:
    """Return the lengths of parts, of each number of parts the least."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)})


def subsets(values: Any) -> Iterator[tuple[Any, ...]]:
    """Return all subsets."""
    values = list(values)
    return chain.from_iterable(combinations(values, many) for many in range(len(values) + 1))


def undominated(costs: Any) -> list[Spent]:
    """Return the costs that no other is as good as in everything, without doublets."""
    found: list[Spent] = []
    for cost in sorted(set(costs)):
        if not any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in found):
            found.append(cost)
    return found


class State(NamedTuple):
    """What has been executed, and where tensors are that are still to be read."""

    done: Names
    chip: Names
    dram: Names


class Graph:
    """The operations of a problem.

    Parameters
    ----------
    staying
        Names of operations whose weights are on chip from frame to frame: it has none to place or to load.
    again
        Operations that are executed twice, and who reads what is computed for the second time.

    Attributes
    ----------
    cycle, femtojoule
        Parts that these are counted in, so that all are whole.
    transfer, mac, vector, setup
        Parts of a cycle that an element on the bus takes, a MAC, a vector operation, a transfer's set-up.
    dram, local, core
        Parts of a femtojoule that an element of DRAM takes, an access on chip, a part of a cycle.
    room
        Elements of memory.
    """

    def __init__(self, problem: Json, staying: Any = (), again: Any = None) -> None:
        self.machine, self.limits, self.objective = (problem[k] for k in ("machine", "limits", "objective"))
        machine = self.machine
        self.width, self.tiles = machine["element_bytes"], self.limits.get("tiles", True)
        self.doubled = bool(machine.get("double_buffering"))
        self.sum_elements = -(-machine.get("sum_bytes", 4) // self.width)

        def told(table: Json, key: str, default: int) -> int:
            return default if table.get(key) is None else int(table[key])

        bus, macs = told(machine, "bus_elements_per_cycle", 32), told(machine, "macs_per_cycle", 32)
        vector = told(machine, "vector_ops_per_cycle", 0)
        self.cycle = bus * macs * max(1, vector)
        self.transfer, self.mac = self.cycle // bus, self.cycle // macs
        self.vector = self.cycle // vector if vector else 0
        self.setup = self.cycle * told(machine, "dma_setup_cycles", 150)
        prices = machine.get("energy") or {}
        far, near = told(prices, "dram_access_bytes", 8), told(prices, "local_access_bytes", 64)
        self.femtojoule = far * near * self.cycle
        self.dram = told(prices, "dram_fj_per_access", 2_600_000) * self.width * self.femtojoule // far
        self.local = told(prices, "local_fj_per_access", 66_600) * self.width * self.femtojoule // near
        self.core = told(prices, "core_fj_per_cycle", 60_000) * far * near
        layers = _with_copies(_without_views(problem["network"]), again or {})
        own = problem["network"].get("input") or problem["network"]["layers"][0]["input"]
        self.shapes: list[tuple[int, ...]] = [tuple(own)]
        self.ops: list[Op] = []
        numbers = {"input": 0}
        for number, table in enumerate(layers):
            reads = tuple(numbers[name] for name in table["inputs"])
            folded = table["kind"] == "map" and table["op"] not in ALL_CHANNELS and reads != (0,)
            folded = folded and not table.get("parameters") and not table["at"][0] and not table.get("alone")
            kinds = ("conv", "fc", "pool", "add", "mul", "map", "concat", "function", "input")
            if folded or table["kind"] not in (*kinds, "matmul", "reshape"):
                raise TooLarge  # what becomes part of other operations is not told here
            self.ops.append(Op(number, table, reads, self.shapes))
            self.shapes.append(self.ops[-1].shape)
            numbers[table["name"]] = number + 1
        self.staying = {op.name: op.weights for op in self.ops if op.name in staying and op.weights}
        for op in self.ops:
            op.weights = 0 if op.name in self.staying else op.weights
        self.sizes = [prod(shape) for shape in self.shapes]
        self.readers = [frozenset(op.number for op in self.ops if tensor in op.reads)
                        for tensor in range(len(self.shapes))]  # fmt: skip
        outputs = problem["network"].get("outputs")
        self.results = frozenset(
            op.number + 1
            for op in self.ops
            if (
                op.name in _unread(problem["network"], self.ops) and not self.readers[op.number + 1]
                if outputs is None
                else _is_among(op.table, outputs)
            )
        )
        self.attention: list[Attention] = []
        for op in self.ops:
            each = self._attention(op)
            if each is not None and not any(each.mask & other.mask for other in self.attention):
                self.attention.append(each)
        self.before: list[Names] = []
        for op in self.ops:
            direct = {tensor - 1 for tensor in op.reads if tensor}
            self.before.append(frozenset(direct.union(*(self.before[n] for n in direct))))
        self.groups: dict[Names, Group] = {}
        self.room = self.machine["memory_bytes"] // self.width
        self.moves = self.cuts = 0

    def _alone(self, op: Op, reader: Op) -> bool:
        """Whether an operation's output is read by another one, once, all of it, and nobody else has it."""
        t = op.number + 1
        places = [n for n, tensor in enumerate(reader.reads) if tensor == t]
        plain = len(places) == 1 and reader.table["channels"][places[0]] is None
        plain = plain and reader.table["at"][places[0]] is None
        copied = op.name in reader.table.get("copies", ())
        return plain and not copied and self.readers[t] == {reader.number} and t not in self.results

    def _attention(self, context: Op) -> Attention | None:
        """Return the attention whose keys can pass by, and whose context an operation gives."""

        def before(reader: Op) -> Op | None:
            op = self.ops[reader.reads[0] - 1] if reader.reads[0] else None
            return op if op is not None and op.kind != "input" and self._alone(op, reader) else None

        if context.columns is None or len(context.reads) < 2 or context.table["at"][0] is not None:
            return None
        softmax, keys = before(context), context.table["depth"]
        if softmax is None or softmax.table.get("op") != "softmax" or softmax.kind != "function":
            return None
        if softmax.weights or len(softmax.reads) > 1 or not _by_pixels(softmax.table):
            return None
        if _taken_together(softmax) != keys:
            return None
        chain_, beside, op = [softmax.number, context.number], dict[int, int](), before(softmax)
        while op is not None and op.kind in ("map", "add", "mul"):
            tables = zip(op.reads, op.table["channels"], op.table["at"], strict=True)
            plain = all(span is None and at is None for _, span, at in tables)
            of_keys = all(self.shapes[t][0] % keys == 0 for t in op.reads)
            alike = all(self.shapes[t][1:] == op.shape[1:] for t in op.reads)
            plain = plain and of_keys and alike and self.shapes[op.reads[0]] == op.shape
            if not op.by_value or op.weights or not plain or op.shape != softmax.shape:
                return None
            if op.reads[0] in op.reads[1:] or op.table.get("copies"):
                return None
            chain_.insert(0, op.number)
            beside |= {t: self.shapes[t][0] // keys for t in op.reads[1:]}
            op = before(op)
        if op is None or op.columns is None or op.groups != context.groups:
            return None
        if op.shape != softmax.shape or op.shape[0] != op.groups * keys:
            return None
        values = context.shape[0] // context.groups
        causal = None if beside else softmax.table.get("causal")
        every = frozenset((op.number, *chain_))
        return Attention((op.number, *chain_), every, op.groups, keys, values, beside, causal)

    def name(self, tensor: int) -> str:
        """Return the name of a tensor."""
        return "input" if tensor == 0 else self.ops[tensor - 1].name

    def key(self, tensor: int) -> str:
        """Return what a whole tensor is called among addresses: its name, if nothing else is called so."""
        name = self.name(tensor)
        taken = ("lines of ", "weights of ", "operand of ", "block of ", "partial sums of ")
        taken += ("state of ", "map of ")
        return f"map of {name}" if name.startswith(taken) else name

    def start(self) -> State:
        """Return what there is at first."""
        inputs = frozenset(op.number for op in self.ops if op.kind == "input")
        given = {0, *(number + 1 for number in inputs)}
        return State(inputs, frozenset(), frozenset(tensor for tensor in given if self.readers[tensor]))

    def group(self, mask: Names) -> Group:
        """Return a group."""
        if mask not in self.groups:
            self.groups[mask] = Group(self, tuple(self.ops[number] for number in sorted(mask)))
        return self.groups[mask]

    def next_groups(self, done: Names) -> Iterator[Group]:
        """Return the groups that may come next."""
        most = self.limits["most_operations"] or len(self.ops)
        for op in self.ops:
            if op.number in done:
                continue
            mask = (self.before[op.number] | {op.number}) - done
            if self.limits["order"] == "given" and mask != frozenset(range(op.number + 1)) - done:
                continue
            if len(mask) > 1 and any(self.ops[number].state for number in mask):
                continue
            if len(mask) <= most:
                yield self.group(mask)

    def after(self, state: State, group: Group, chip: Names, written: Names) -> State:
        """Return what there is after a step."""
        done = state.done | group.mask
        live = frozenset(tensor for tensor, readers in enumerate(self.readers) if readers - done)
        return State(done, chip & live, (state.dram | written) & live)

    def needed(self, tensor: int, done: Names) -> int:
        """Return the elements of a tensor that operations read which have not been executed."""
        channels = set().union(*(op.channels(tensor) for op in self.ops if op.number not in done))
        return len(channels) * prod(self.shapes[tensor][1:])

    def size(self, tensors: Names) -> int:
        """Return the elements of some tensors."""
        return sum(self.sizes[tensor] for tensor in tensors)

    def outputs(self, group: Group) -> Iterator[tuple[Names, Names]]:
        """Return which outputs of a step stay on chip, and which are written."""
        ways = []
        for tensor in group.outputs:
            read = bool(self.readers[tensor] - group.mask)
            kept = [] if tensor in self.results else [(True, False)]
            unused = [] if tensor in self.results else [(False, False)]  # slices leave all of it out
            ways.append([(False, True), *kept, (True, True)] if read else [(False, True), *unused])
        for way in product(*ways):
            pairs = list(zip(group.outputs, way, strict=True))
            yield (
                frozenset(t for t, (stays, _) in pairs if stays),
                frozenset(t for t, (_, goes) in pairs if goes),
            )

    def next(self, state: State) -> Iterator[tuple[Spent, State]]:
        """Return what each step that may come next costs, and what there is after it."""
        for group in self.next_groups(state.done):
            for dropped in subsets(state.chip & state.dram):
                there = state.chip - set(dropped)
                for some in subsets((group.sources & state.dram) - there):
                    fetched = frozenset(some)
                    chip = there | fetched
                    for resident, written in self.outputs(group):
                        after = self.after(state, group, chip | resident, written)
                        for spent in self._next(state, group, chip, fetched, resident, written):
                            yield spent, after

    def _next(
        self, state: State, group: Group, chip: Names, fetched: Names, resident: Names, written: Names
    ) -> Iterator[Spent]:
        whole = chip | resident
        places: list[int | None] = [None]
        if group.output in resident:
            places += [
                t
                for t in sorted(chip & set(group.last.reads))
                if not self.readers[t] - group.mask - state.done
            ]
        for place in places:
            self.moves += 1
            if self.moves > MOST_MOVES:
                raise TooLarge
            taken = self.size(whole) - (0 if place is None else self.sizes[place])
            for spent in group.steps(whole, fetched, written, place, state.done):
                yield spent._replace(memory=spent.memory + taken)

    def facts(self, group: Group, cut: Cut, whole: Names, spent: Spent, taken: int) -> Json:
        """Return what constraints may speak of and what a step of a plan does not say itself.

        Bytes on chip and bytes moved; tensors on chip as a whole; of what is computed, pixels computed again.
        """
        memory = spent.memory + taken + sum(self.staying.values())
        found: Json = {"bytes": memory * self.width, "moved": spent.traffic * self.width}
        found["on_chip"] = sorted(self.name(t) for t in whole)
        columns, running = cut.step["columns"] if cut.step["order"] == "pixels" else None, cut.step["running"]
        wide = {t: sum(b - a for spans in group.strips(columns, running) for a, b in [spans[t]])
                for t in (op.number + 1 for op in group.ops)}  # fmt: skip
        if running:  # each pixel is added once
            wide[group.output] = self.shapes[group.output][2]
        found["again"] = {
            self.name(t): (many - self.shapes[t][2]) * self.shapes[t][1] for t, many in wide.items()
        }
        found["units"] = {op.name: op.units for op in group.ops}
        found["heavy"] = [op.name for op in group.heavy]
        found["row"] = group.passed(running)[1]
        return found

    def every_plan(self, most: int) -> Iterator[tuple[list[Json], Spent]]:
        """Return all plans, without addresses, and what they cost; no more than so many.

        Raises
        ------
        TooLarge
            If there are more.
        """
        count = 0

        def further(state: State, steps: list[Json], spent: Spent) -> Iterator[tuple[list[Json], Spent]]:
            nonlocal count
            if len(state.done) == len(self.ops):
                count += 1
                if count > most:
                    raise TooLarge
                yield steps, spent
                return
            for group in self.next_groups(state.done):
                for dropped in subsets(state.chip & state.dram):
                    there = state.chip - set(dropped)
                    for fetched in map(frozenset, subsets((group.sources & state.dram) - there)):
                        for resident, written in self.outputs(group):
                            whole = there | fetched | resident
                            after = self.after(state, group, whole, written)
                            for step, cost in self._told(state, group, there, fetched, resident, written):
                                told = step | {"dropped": [self.name(t) for t in sorted(dropped)]}
                                yield from further(after, [*steps, told], _joined(spent, cost))

        return further(self.start(), [], Spent(0, 0, 0, 0))

    def _told(
        self, state: State, group: Group, there: Names, fetched: Names, resident: Names, written: Names
    ) -> Iterator[tuple[Json, Spent]]:
        """Return all steps that do this with tensors, as plans tell them, and what they cost."""
        whole = there | fetched | resident
        places: list[int | None] = [None]
        if group.output in resident:
            places += [t for t in sorted((there | fetched) & set(group.last.reads))
                       if not self.readers[t] - group.mask - state.done]  # fmt: skip
        names = {"fetched": fetched, "resident": resident, "written": written}
        for way in sorted(group.ways, key=str):
            order, pixels, *rest = way
            for passes in range(1, group.last.pixels + 1) if order == "channels" else [pixels]:
                cut = group.cut(order, passes, *rest)
                for place in places:
                    if place is not None and not group.replaced(place, cut.step):
                        continue
                    spent = group.spent(cut, whole, fetched, written, state.done)
                    taken = self.size(whole) - (0 if place is None else self.sizes[place])
                    if spent.memory + taken > self.room:
                        continue
                    told = {key: [self.name(t) for t in sorted(each)] for key, each in names.items()}
                    told |= {"operations": [op.name for op in group.ops], "in_place": None}
                    told |= {**cut.step, "kept": list(cut.step["kept"])}
                    told["in_place"] = None if place is None else self.name(place)
                    told |= self.facts(group, cut, whole, spent, taken)
                    yield told, spent._replace(memory=spent.memory + taken)

    def front(self, wanted: tuple[str, ...], most: int) -> list[Spent]:
        """Return what all plans cost that take no more than some elements, but those that are worse.

        Parameters
        ----------
        wanted
            The costs that count; the others are told as zero.
        """
        counts = [COSTS.index(name) for name in wanted]

        def counted(spent: Spent) -> Spent:
            return Spent(*(cost if place in counts else 0 for place, cost in enumerate(spent)))  # type: ignore[arg-type]

        layers: list[dict[State, list[Spent]]] = [{} for _ in range(len(self.ops) + 1)]
        layers[len(self.start().done)][self.start()] = [Spent(0, 0, 0, 0)]
        for layer in layers[:-1]:
            for state, costs in layer.items():
                moves: dict[State, list[Spent]] = {}
                for spent, after in self.next(state):
                    if spent.memory <= most:
                        moves.setdefault(after, []).append(counted(spent))
                for after, steps in moves.items():
                    there = layers[len(after.done)]
                    reached = [
                        _joined(cost, step) for cost, step in product(undominated(costs), undominated(steps))
                    ]
                    there[after] = undominated([*there.get(after, []), *reached])
        return undominated(chain.from_iterable(layers[-1].values()))


def _joined(a: Spent, b: Spent) -> Spent:
    return Spent(a.traffic + b.traffic, a.cycles + b.cycles, a.energy + b.energy, max(a.memory, b.memory))


def _unread(network: Json, ops: list[Op]) -> set[str]:
    """Return what nobody reads in the file, or only concatenations that nobody reads and that are folded."""
    readers: dict[str, list[str]] = {}
    before = "input"
    for layer in network["layers"]:
        for name in layer["inputs"] or [before]:
            readers.setdefault(name, []).append(layer["name"])
        before = layer["name"]
    found, there = set[str](), {op.name for op in ops}
    for layer in reversed(network["layers"]):
        who = readers.get(layer["name"], [])
        if not who or any(name in found and name not in there for name in who):
            found.add(layer["name"])
    return found


def _without_joins(network: Json) -> list[Json]:
    """Return the layers with inputs, and without concatenations whose readers can read the parts instead."""
    found, before, outputs = [], "input", network.get("outputs") or ()
    for layer in network["layers"]:
        inputs = [] if layer["kind"] == "input" else list(layer["inputs"] or [before])
        found.append({**layer, "inputs": inputs})
        before = layer["name"]
    again = True
    while again:
        again = False
        for table in [table for table in found if table["kind"] == "concat"]:
            name, parts = table["name"], table["inputs"]
            readers = [other for other in found if name in other["inputs"]]
            new = {id(r): list(chain.from_iterable(parts if n == name else [n] for n in r["inputs"]))
                   for r in readers}  # fmt: skip
            others = [other for other in found if other is not table]
            alone = not any(part == "input" or any(part in o["inputs"] for o in others) for part in parts)
            several = len(parts) > 1 and any(r["kind"] in ("add", "mul") for r in readers)
            twice = any(len(set(new[id(r)])) < len(new[id(r)]) and r["kind"] not in ("add", "mul")
                        for r in readers)  # fmt: skip
            if several or twice or (not readers and not alone):
                continue
            if name in outputs:
                raise TooLarge  # what is joined and leaves the network is not told here
            for reader in readers:
                reader["inputs"] = new[id(reader)]
            found.remove(table)
            again = True
    return found


def _without_slices(network: Json) -> list[Json]:
    """Return the layers, each with the channels that it reads of each of its inputs, None for all.

    There are no slices of channels among them: who reads one reads channels of what the slice is a part of.
    """
    found = _without_joins(network)
    deep = {"input": (network.get("input") or network["layers"][0]["input"])[0]}
    for table in network["layers"]:
        weighty = table["kind"] in ("conv", "fc")
        deep[table["name"]] = table["kernels"] if weighty else table.get("output", table["input"])[0]
    for table in found:
        table["channels"] = [None] * len(table["inputs"])
    for slice_ in [table for table in found if table["kind"] == "slice"]:
        if slice_["input"][1:] != slice_["output"][1:] or slice_["name"] in (network.get("outputs") or ()):
            raise TooLarge  # it is a layer of its own
        if network.get("outputs") is None and not any(slice_["name"] in table["inputs"] for table in found):
            raise TooLarge
        for table in [table for table in found if slice_["name"] in table["inputs"]]:
            read: list[tuple[str, tuple[int, int] | None]] = []
            for name, span in zip(table["inputs"], table["channels"], strict=True):
                if name != slice_["name"]:
                    read.append((name, span))
                    continue
                wanted = range(slice_["output"][0])[slice(*(span or (None,)))]
                left = [channel + slice_["first"][0] for channel in wanted]
                for part, inner in zip(slice_["inputs"], slice_["channels"], strict=True):
                    there = range(*(inner or (0, deep[part])))
                    own = [there[channel] for channel in left if 0 <= channel < len(there)]
                    if own:
                        read.append((part, None if len(own) == deep[part] else (own[0], own[-1] + 1)))
                    left = [channel - len(there) for channel in left]
            operands = table["kind"] in ("add", "mul") and len(read) > len(table["inputs"])
            if operands or (table["kind"] not in ("add", "mul") and len(set(read)) < len(read)):
                raise TooLarge
            table["inputs"], table["channels"] = [name for name, _ in read], [span for _, span in read]
        found.remove(slice_)
    return found


def _without_views(network: Json) -> list[Json]:
    """Return the layers without concatenations of rows or columns, and copies, that readers can do without.

    Each layer has, for each of its inputs, where in an operand it lies as a part, or None (`at`).
    """
    found = _without_slices(network)
    shapes = {"input": tuple(network.get("input") or network["layers"][0]["input"])}
    _join_maps(found, network)
    _join_reshapes(found, network)
    for table in found:
        table["at"] = list(map(tuple, table["parts"])) if "parts" in table else [None] * len(table["inputs"])
        if table.get("along"):
            table.setdefault("told", (tuple(table["input"]), tuple(table["along"])))
        if table["kind"] in ("function", "matmul", "reshape"):
            shapes[table["name"]] = tuple(table["output"])
        elif table["kind"] == "input":
            shapes[table["name"]] = tuple(table["input"])
        else:
            bare = Op(0, {**table, "channels": [], "at": []}, (), [])
            shapes[table["name"]] = bare.shape
    outputs = network.get("outputs")
    leaving = [
        table["name"]
        for table in found
        if (
            _is_among(table, outputs)
            if outputs
            else not any(table["name"] in other["inputs"] for other in found)
        )
    ]
    for table in found:
        if table["kind"] == "matmul" and len(table["inputs"]) != 2:
            raise TooLarge  # which tensors are parts of which operand is not told
    for view in [table for table in found if table.get("op") in ("concat", "expand")]:
        if view["kind"] != "function" or view["name"] in leaving:
            continue
        readers = [table for table in found if view["name"] in table["inputs"]]
        if view["op"] == "expand":
            _read_source(found, view, readers, shapes)
        else:
            _read_parts(found, view, readers, shapes)
    for table in list(found):
        if table["kind"] == "matmul":
            _by_rows(found, table, shapes)
        elif table["kind"] == "reshape" and table["op"] == "reshape" and table["name"] not in leaving:
            _read_reshaped(found, table, shapes)
    for table in found:
        copied = table["kind"] == "reshape" or table.get("op") in ("concat", "expand")
        if copied and any(table["channels"]):
            raise TooLarge  # a slice that is copied
        if table["kind"] == "function" and table.get("op") == "concat" and not table.get("parameters"):
            _join_by_place(table, [shapes[name] for name in table["inputs"]])
    return found


def _join_by_place(table: Json, given: list[tuple[int, ...]]) -> None:
    """Let a concatenation of rows, or of columns of one row, be made pixel by pixel."""
    channels, height, width = table["output"]
    if any(at is not None for at in table["at"]) or len(set(table["inputs"])) < len(given):
        return
    if table.get("copies") or any(shape[0] != channels for shape in given):
        return
    ends = [0, 0]
    rows, columns = list[tuple[int, int]](), list[tuple[int, int]]()
    for shape in given:
        rows.append((ends[0], 0))
        columns.append((0, ends[1]))
        ends = [ends[0] + shape[1], ends[1] + shape[2]]
    if ends[0] == height and all(shape[2] == width for shape in given):
        table["place"], table["at"] = True, rows
    elif ends[1] == width and height == 1 and all(shape[1] == 1 for shape in given):
        table["place"], table["at"] = True, columns


def _is_among(table: Json, outputs: list[str]) -> bool:
    """Whether a layer, or what is part of it, is among outputs of the network."""
    return not {table["name"], *table.get("also", ())}.isdisjoint(outputs)


def _join_reshapes(found: list[Json], network: Json) -> None:
    """Leave reshapes out that keep the shape, and those whose values are stored or taken in any shape."""
    outputs = network.get("outputs")
    tables = {table["name"]: table for table in found}
    left = 0
    while left != len(found):
        left = len(found)
        for table in [table for table in found if table["kind"] == "reshape"]:
            (source,), (span,), name = table["inputs"], table["channels"], table["name"]
            readers = [other for other in found if name in other["inputs"]]
            leaves = not readers if outputs is None else _is_among(table, outputs)
            given = tables.get(source, {"kind": "input"})["kind"] == "input"
            flat = all(reader["kind"] == "fc" for reader in readers) and not given
            if table["op"] not in ("reshape", "flatten"):
                around = [r for r in readers if r["kind"] != "matmul" or r["inputs"][0] == name]
                around += [tables[source]] if around and source in tables else []
                if not any(each["kind"] == "matmul" or each.get("along") is not None for each in around):
                    raise TooLarge  # in which order it leaves values is not told
                continue
            if span or (leaves and given) or not (flat or table["input"] == table["output"]):
                continue
            others = [other for other in found if source in other["inputs"]]
            if leaves and (len(others) > 1 or source in (outputs or ())):
                continue
            beside = [r for r in readers if source in r["inputs"] or r["inputs"].count(name) > 1]
            if any(reader["kind"] not in ("add", "mul") for reader in beside):
                continue
            if any(s for r in readers for n, s in zip(r["inputs"], r["channels"], strict=True) if n == name):
                raise TooLarge
            if leaves:
                tables[source].setdefault("also", []).extend([name, *table.get("also", ())])
            for reader in readers:
                reader["inputs"] = [source if n == name else n for n in reader["inputs"]]
            found.remove(table)


def _by_pixels(table: Json) -> bool:
    """Whether a function needs the pixel at its place alone: of one axis, or because a test says so."""
    return "place" in table or (table.get("along") is not None and {*table["along"]} <= {"channels"})


def _by_value(table: Json) -> bool:
    """Whether a layer is a function of single values without parameters."""
    mapped = table["kind"] == "map" and table["op"] not in ALL_CHANNELS
    return (mapped or table.get("along") == []) and not table.get("parameters")


def _join_maps(found: list[Json], network: Json) -> None:
    """Let products compute the functions of single values that alone read them."""
    outputs = network.get("outputs") or ()
    tables = {table["name"]: table for table in found}
    for table in [table for table in found if table["kind"] == "map" and _by_value(table)]:
        source = tables.get(table["inputs"][0])
        if source is None or source["kind"] not in ("matmul", "function"):
            continue
        readers = [other for other in found if source["name"] in other["inputs"]]
        if source["kind"] == "function" or len(readers) > 1 or source["name"] in outputs:
            table["alone"] = True
            if any(reader["kind"] in ("add", "mul") for reader in readers):
                raise TooLarge  # as of x * sigmoid(x), which becomes part of what computes x
            continue
        if table["name"] in outputs:
            raise TooLarge  # it leaves the network under another name
        for other in found:
            other["inputs"] = [source["name"] if n == table["name"] else n for n in other["inputs"]]
        found.remove(table)


def _rows(table: Json, shape: tuple[int, ...]) -> bool:
    """Whether the first operand of a product has a row's values as channels of a pixel."""
    values = prod(table["input"])
    return shape[0] == table["groups"] * table["depth"] and prod(shape) == values


def _by_rows(found: list[Json], table: Json, shapes: dict[str, Any]) -> None:
    """Let a product have the plane of its first operand, if all who read it can read that."""
    if "second" in table:
        return
    if table.get("copies_first"):
        return
    # Parts of the first operand stand before the next one that begins at its first pixel.
    begins = [n for n, at in enumerate(table["at"]) if at in (None, (0, 0))]
    second = [n >= begins[1] for n in range(len(table["inputs"]))]
    span = table["channels"][0]
    given = (_part(shapes[table["inputs"][0]], span)[0], *table["input"][1:])
    if table["at"][0] is None:
        given = _part(shapes[table["inputs"][0]], span)
    if not _rows(table, given):
        return
    shape = (prod(table["output"]) // prod(given[1:]), *given[1:])
    changed: list[Json] = []
    if _all_take(found, table["name"], shape, shapes, changed):
        _reshape([table, *changed], shape, shapes)
        table["second"], table["input"] = second, list(given)


def _part(shape: tuple[int, ...], span: tuple[int, int] | None) -> tuple[int, ...]:
    return shape if span is None else (span[1] - span[0], *shape[1:])


def _all_take(
    found: list[Json], name: str, shape: tuple[int, ...], shapes: dict[str, Any], changed: list[Json]
) -> bool:
    """Whether all readers of a tensor can read it in this shape; also who then computes it, too."""
    readers = [table for table in found if name in table["inputs"]]
    return shape == shapes[name] or all(_takes(found, r, name, shape, shapes, changed) for r in readers)


def _takes(
    found: list[Json],
    table: Json,
    name: str,
    shape: tuple[int, ...],
    shapes: dict[str, Any],
    changed: list[Json],
) -> bool:
    """Whether a layer can read a tensor in another shape than that in the file."""
    if any(span for n, span in zip(table["inputs"], table["channels"], strict=True) if n == name):
        return False  # some channels alone
    if name in table.get("copies", ()):
        if table["kind"] == "matmul" and name != table["inputs"][0]:
            raise TooLarge  # copies that are made in another shape than that of the tensor
        return False  # copies of channels, rows and columns
    if any(at for n, at in zip(table["inputs"], table["at"], strict=True) if n == name):
        return False  # parts of rows or columns
    if table["kind"] == "matmul":
        return table["inputs"][0] != name or _rows(table, shape) or not _rows(table, tuple(table["input"]))
    if table["kind"] == "reshape":
        return True
    if table["kind"] in ("add", "mul", "slice") or (table["kind"] == "fc" and len(table["inputs"]) == 1):
        raise TooLarge  # what goes by rows with others that it reads is not told here
    along = table.get("along") if not table.get("parameters") else None
    if not (_by_value(table) or along) or not _within(along or [], table["input"], shape):
        return False
    changed.append(table)
    return _all_take(found, table["name"], shape, shapes, changed)


def _within(along: list[str], given: Any, shape: tuple[int, ...]) -> bool:
    """Whether all values along axes of a shape are channels of one pixel in another one."""
    steps = {"channels": given[0], "rows": given[0] * given[1]}
    return all(axis in steps and shape[0] % steps[axis] == 0 for axis in along)


def _reshape(tables: list[Json], shape: tuple[int, ...], shapes: dict[str, Any]) -> None:
    """Give layers another shape, in which what they normalise are channels."""
    for table in tables:
        if shapes[table["name"]] == shape:
            continue
        if table.get("along"):
            table["along"] = ["channels"]
        shapes[table["name"]] = shape
        table["input"] = list(shape)
        if "output" in table:
            table["output"] = list(shape)


def _read_reshaped(found: list[Json], view: Json, shapes: dict[str, Any]) -> None:
    """Let the readers of a reshape read what it reads, if all can."""
    (source, *others), (span, *_), name = view["inputs"], view["channels"], view["name"]
    if others or view.get("copies") or view["at"] != [None]:
        return
    if source == "input" and sum(source in table["inputs"] for table in found) == 1:
        raise TooLarge  # the input is stored in another order
    shape = _part(shapes[source], span)
    changed: list[Json] = []
    for reader in [table for table in found if name in table["inputs"]]:
        if name in reader.get("copies", ()):
            if reader["kind"] == "matmul" and name != reader["inputs"][0]:
                raise TooLarge  # copies that are made in another shape than that of the tensor
            return
        if shape == tuple(view["output"]):
            continue
        if not _takes(found, reader, name, shape, shapes, changed):
            return
    if changed and span is not None:
        return
    _reshape(changed, shape, shapes)
    for reader in [table for table in found if name in table["inputs"]]:
        if any(s for n, s in zip(reader["inputs"], reader["channels"], strict=True) if n == name) and span:
            raise TooLarge  # a part of a part
        reader["channels"] = [
            span or own if n == name else own
            for n, own in zip(reader["inputs"], reader["channels"], strict=True)
        ]
        reader["inputs"] = [source if n == name else n for n in reader["inputs"]]
    found.remove(view)


def _read_source(found: list[Json], view: Json, readers: list[Json], shapes: dict[str, Any]) -> None:
    """Let functions that need all copies of a tensor read it instead."""
    source = view["inputs"][0]
    divides = all(a % b == 0 for a, b in zip(view["output"], shapes[source], strict=True))
    whole = all(
        reader["kind"] == "fc"
        or (reader["kind"] == "function" and not _by_pixels(reader))
        or reader["kind"] == "reshape"
        or (
            reader["kind"] == "matmul"
            and (reader["inputs"][0] != view["name"] or not _rows(reader, tuple(reader["input"])))
        )
        for reader in readers
    )
    placed = any(reader.get("op") in ("concat", "expand") for reader in readers)
    if view["at"] != [None] or view.get("copies") or not divides or not whole or placed:
        return
    for reader in readers:
        reader["copies_first"] = reader.get("copies_first") or reader["inputs"][0] == view["name"]
        reader["inputs"] = [source if each == view["name"] else each for each in reader["inputs"]]
        reader.setdefault("copies", []).append(source)
        reader.setdefault("expanded", {})[source] = tuple(view["output"])
    found.remove(view)


def _read_parts(found: list[Json], view: Json, readers: list[Json], shapes: dict[str, Any]) -> None:
    """Let readers of a concatenation read its parts."""
    output, given = view["output"], [tuple(shapes[name]) for name in view["inputs"]]
    # Of parts that are put together themselves, those count as one that begin together.
    starts = [n for n, at in enumerate(view["at"]) if at in (None, (0, 0))]
    ends = [*starts[1:], len(given)]
    boxes = []
    for start, end in zip(starts, ends, strict=True):
        ats = [at or (0, 0) for at in view["at"][start:end]]
        boxes.append([max(at[i] + shape[1 + i] for at, shape in zip(ats, given[start:end], strict=True))
                      for i in (0, 1)])  # fmt: skip
    if any(shape[0] != output[0] for shape in given):
        return
    for axis in (0, 1):
        numbers = output[1 + axis] - sum(box[axis] for box in boxes)
        left = [output[1], output[2]]
        left[axis] = numbers
        if numbers < 0 or any(box[1 - axis] != output[2 - axis] for box in boxes):
            continue
        if prod(left) * output[0] == view.get("parameters", 0):
            break
    else:
        return
    parts: list[tuple[str, tuple[int, int]]] = []
    known = view.get("numbers_at")
    place, before = 0, min(known or 0, len(starts)) if numbers else None
    for count in range(len(starts) + 1):
        if count == before:
            parts.append((view["name"], (place, 0) if axis == 0 else (0, place)))
            place += numbers
        if count < len(starts):
            start, end = starts[count], ends[count]
            for name, at in zip(view["inputs"][start:end], view["at"][start:end], strict=True):
                moved = list(at or (0, 0))
                moved[axis] += place
                parts.append((name, (moved[0], moved[1])))
            place += boxes[count][axis]
    for reader in readers:
        if reader["kind"] in ("conv", "fc") and reader.get("groups", 1) == 1:
            return
        by_row = reader["kind"] == "matmul" and reader["inputs"][0] == view["name"]
        by_row = by_row and _rows(reader, tuple(reader["input"]))
        whole = reader["kind"] in ("function", "fc", "reshape", "matmul") and not by_row
        if whole and not _by_pixels(reader):
            continue
        if 1 not in output[1:]:
            return
        names = [part for part, _ in parts]
        read = [n for name in reader["inputs"] for n in (names if name == view["name"] else [name])]
        astray = numbers and known is None
        if astray or len(set(read)) < len(read) or list(reader["input"][1:]) != list(output[1:]):
            return
        if by_row or _by_pixels(reader):
            continue
        op = Op(0, {**reader, "inputs": [], "channels": [], "at": []}, (), [])
        for i in (0, 1):
            windows = [op.under(i, n, output[1 + i], -1) for n in range(op.plane[i])]
            ends_ = [part[1][i] for part in parts]
            extent = (op.kernel[i] - 1) * op.dilation[i] + 1
            if op.stride[i] > extent or max(map(max, windows)) < max(ends_):
                return
    for reader in readers:
        read_: list[tuple[str, Any, Any]] = []
        for name, span, at in zip(reader["inputs"], reader["channels"], reader["at"], strict=True):
            if name == view["name"]:
                read_ += [(part, span, where) for part, where in parts]
            else:
                read_.append((name, span, at))
        reader["inputs"], reader["channels"], reader["at"] = (list(each) for each in zip(*read_, strict=True))
    if numbers:
        shapes[view["name"]] = (output[0], *left)
        kept = {"name": view["name"], "kind": "input", "input": [output[0], *left]}
        view_at = found.index(view)
        found[view_at] = {**kept, "inputs": [], "channels": [], "at": []}
    else:
        found.remove(view)


def _with_copies(layers: list[Json], again: dict[str, list[str]]) -> list[Json]:
    """Return layers of which some stand there twice; the copy goes before its first reader."""
    first = {table["name"]: table for table in layers}
    if not again.keys() <= first.keys():
        raise Refused("no operation")
    copies = {name: f"{name} again" for name in again}
    assert not copies.keys() & set(copies.values())
    tables = first | {copies[name]: {**first[name], "name": copies[name]} for name in again}
    found = {name: {**table, "inputs": list(table["inputs"])} for name, table in tables.items()}
    for name, readers in again.items():
        known = [reader for reader, table in tables.items() if name in table["inputs"]]
        if not readers or len({*readers}) < len(readers) or not {*readers} < {*known}:
            raise Refused("readers")
        for reader in readers:
            inputs = found[reader]["inputs"]
            found[reader]["inputs"] = [copies[name] if each == name else each for each in inputs]
    order: list[str] = []
    for table in layers:
        # From the last one that is executed twice to the first, all that what comes needs.
        needed = [table["name"]]
        for other in reversed(layers):
            copy = copies.get(other["name"])
            if copy and copy not in order and any(copy in found[each]["inputs"] for each in needed):
                needed.insert(0, copy)
        order += needed
    return [found[name] for name in order]


def _all_copies(problem: Json, first: int = 1) -> Iterator[dict[str, list[str]]]:
    """Return all sets of operations that are executed twice, and who reads their copies.

    Of its readers the first one reads what has been computed first, or is called so; with 0, any may.
    """
    layers = _without_views(problem["network"])

    def further(left: list[Json], again: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
        if not left:
            yield again
            return
        *others, last = left
        yield from further(others, again)
        readers = []
        for table in layers:
            if last["name"] in table["inputs"]:
                name = table["name"]
                readers += [name, f"{name} again"] if name in again else [name]
        for some in subsets(readers[first:]):
            if 0 < len(some) < len(readers):
                yield from further(others, {**again, last["name"]: list(some)})

    return further(layers, {})


def units(graph: Graph, spent: Spent) -> dict[str, int]:
    """Return costs in the units of objectives: bytes, whole cycles, whole femtojoules."""
    return {
        "traffic": spent.traffic * graph.width,
        "cycles": -(-spent.cycles // graph.cycle),
        "energy": -(-spent.energy // graph.femtojoule),
        "memory": spent.memory * graph.width,
    }


def names_of(objective: Json) -> tuple[str, ...]:
    """Return what is minimised, one after the other."""
    names = objective["minimise"]
    return (names,) if isinstance(names, str) else tuple(names)


def limits_of(objective: Json) -> dict[str, int]:
    """Return what plans may cost at most."""
    limits = {name: objective.get(f"most_{name}") for name in COSTS[:3]}
    return {name: limit for name, limit in limits.items() if limit is not None}


def least(problem: Json, ties: tuple[str, ...] = ()) -> dict[str, int] | None:
    """Return the least of each objective, one after the other, None if there is no plan.

    What is on chip is counted by its size. An objective but the last may cost its least and the tolerance.

    Parameters
    ----------
    ties
        What is minimised after that, among plans of equal objective.
    """
    objective, limits = problem["objective"], limits_of(problem["objective"])
    names, given = names_of(objective), objective.get("tolerance") or 0.0
    tolerances = [*(given if isinstance(given, list | tuple) else [given] * (len(names) - 1))]
    order = (*names, *ties)
    tolerances += [0.0] * (len(order) - len(tolerances))
    wanted = tuple(dict.fromkeys((*order, *limits)))
    found = [
        units(graph, spent._replace(memory=spent.memory + sum(graph.staying.values())))
        for graph in _variants(problem)
        for spent in graph.front(wanted, graph.room)
    ]
    told = [each for each in found if all(each[name] <= limit for name, limit in limits.items())]
    best: dict[str, int] = {}
    for name, tolerance in zip(order, tolerances, strict=True):
        if not told:
            return None
        best[name] = min(each[name] for each in told)
        most = best[name] + int(best[name] * Fraction(str(tolerance)))
        told = [each for each in told if each[name] <= most]
    return best


def best(problem: Json) -> int | None:
    """Return the least of the last objective, None if there is no plan."""
    found = least(problem)
    return None if found is None else found[names_of(problem["objective"])[-1]]


def _variants(problem: Json) -> Iterator[Graph]:
    """Return the graphs of all choices of weights that stay, and of operations that are executed twice."""
    graph, limits, moves = Graph(problem), problem["limits"], 0
    every: Iterator[tuple[Any, Any]] = iter([((), None)])
    if limits.get("frames", "one") == "many":
        every = ((names, None) for names in subsets(op.name for op in graph.ops if op.weights))
    elif limits.get("executions", 1) == 2:
        every = (((), again) for again in _all_copies(problem))
    for staying, again in every:
        variant = Graph(problem, staying, again)
        variant.moves, variant.room = moves, variant.room - sum(variant.staying.values())
        if variant.room > 0:
            yield variant
        moves = variant.moves


def costs(problem: Json, plan: Json) -> dict[str, int]:
    """Return what a plan costs: of each objective, in its unit."""
    walk = _walked(problem, plan)
    found = units(walk.graph, walk.spent)
    for name, limit in limits_of(problem["objective"]).items():
        if found[name] > limit:
            raise Refused(name)
    return found


def _walked(problem: Json, plan: Json) -> _Walk:
    """Return a plan, executed."""
    graph = Graph(problem, plan.get("staying", ()), plan.get("again"))
    if plan.get("again") and (graph.limits.get("executions", 1) == 1 or plan.get("staying")):
        raise Refused("executed twice")
    if plan.get("staying", {}).keys() != graph.staying.keys():
        raise Refused("stays and has no weights")
    if graph.staying and graph.limits["frames"] == "one":
        raise Refused("stays for one frame")
    walk = _Walk(graph, plan.get("staying", {}))
    for step in plan["steps"]:
        walk.step(step)
    if len(walk.state.done) < len(graph.ops):
        raise Refused("operations are missing")
    return walk


def plans(problem: Json, most: int) -> Iterator[tuple[Json, dict[str, int]]]:
    """Return all plans within limits, without addresses and with `Graph.facts`, and what they cost.

    Raises
    ------
    TooLarge
        If there are more than so many, or too many ways to cut them up.
    """
    graph, limits, count = Graph(problem), problem["limits"], 0
    every: Iterator[tuple[Any, Any]] = iter([((), {})])
    if limits.get("frames", "one") == "many":
        every = ((names, {}) for names in subsets(op.name for op in graph.ops if op.weights))
    elif limits.get("executions", 1) == 2:
        every = (((), again) for again in _all_copies(problem, first=0))
    for staying, again in every:
        variant = Graph(problem, staying, again)
        variant.room -= sum(variant.staying.values())
        if variant.room <= 0:
            continue
        for steps, spent in variant.every_plan(most - count):
            count += 1
            found = units(variant, spent._replace(memory=spent.memory + sum(variant.staying.values())))
            if all(found[name] <= limit for name, limit in limits_of(problem["objective"]).items()):
                yield {"steps": steps, "staying": dict.fromkeys(variant.staying, 0), "again": again}, found


def placements(problem: Json, plan: Json, most: int) -> Iterator[Json]:
    """Return a plan with all addresses that it may have; one frame, each operation executed once.

    Raises
    ------
    TooLarge
        If more than so many are looked at.
    """
    graph, looked = Graph(problem), 0
    numbers = {graph.name(tensor): tensor for tensor in range(len(graph.shapes))}

    def further(state: State, done: list[Json], at: dict[int, int]) -> Iterator[Json]:
        nonlocal looked
        if len(done) == len(plan["steps"]):
            yield plan | {"steps": done}
            return
        step = plan["steps"][len(done)]
        group = graph.group(frozenset(numbers[name] - 1 for name in step["operations"]))
        dropped, fetched, resident, written = (
            frozenset(numbers[name] for name in step[key])
            for key in ("dropped", "fetched", "resident", "written")
        )
        whole = (state.chip - dropped) | fetched | resident
        place = None if step["in_place"] is None else numbers[step["in_place"]]
        sizes: dict[Any, int] = dict(group.buffers(group.cut_of(step), whole, written))
        sizes |= {t: graph.sizes[t] for t in sorted(fetched | resident)}
        if place is not None:
            del sizes[group.output]
        there = {t: (at[t], graph.sizes[t]) for t in state.chip - dropped}
        for chosen in ways(list(sizes.items()), there):
            found = {key: begin for key, (begin, _) in chosen.items()}
            if place is not None:
                found[group.output] = found[place]
            new = {*fetched, *resident, *(key for key in found if isinstance(key, str))}
            told = {key if isinstance(key, str) else graph.key(key): found[key] for key in new}
            after = graph.after(state, group, whole, written)
            kept = {t: begin for t, begin in found.items() if t in after.chip}
            yield from further(after, [*done, step | {"addresses": told}], kept)

    def ways(left: list[tuple[Any, int]], there: dict[Any, tuple[int, int]]) -> Iterator[Any]:
        nonlocal looked
        if not left:
            yield there
            return
        (key, size), *rest = left
        for begin in range(graph.room - size + 1):
            looked += 1
            if looked > most:
                raise TooLarge
            if all(begin + size <= low or low + many <= begin for low, many in there.values()):
                yield from ways(rest, {**there, key: (begin, size)})

    return further(graph.start(), [], {})


def told(problem: Json, plan: Json) -> Json:
    """Return a plan with the facts that `plans` has."""
    walk = _walked(problem, plan)
    steps = [{"columns": None, "channels": None, **step} for step in walk.facts]
    return plan | {"steps": steps, "staying": plan.get("staying", {}), "again": plan.get("again", {})}


def cost(problem: Json, plan: Json) -> int:
    """Return what a plan costs of the last objective."""
    return costs(problem, plan)[names_of(problem["objective"])[-1]]


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof: what fits by size may have no addresses."""
    return True


class _Walk:
    """A plan, step by step."""

    def __init__(self, graph: Graph, staying: dict[str, int]) -> None:
        self.staying = [(at, graph.staying[name], f"weights of {name}") for name, at in staying.items()]
        self.graph, self.state, self.room = graph, graph.start(), graph.room
        self.at: dict[int, int] = {}
        self.facts: list[Json] = []
        self.spent = Spent(0, 0, 0, 0)
        self.numbers = {graph.name(tensor): tensor for tensor in range(len(graph.shapes))}

    def tensors(self, names: list[str], allowed: Any, what: str) -> Names:
        """Return the numbers of tensors, of which only some are allowed."""
        found = frozenset(self.numbers[name] for name in names)
        if len(found) < len(names) or not found <= frozenset(allowed):
            raise Refused(what)
        return found

    def step(self, step: Json) -> None:
        """Execute a step."""
        graph, state = self.graph, self.state
        listed = [self.numbers[name] - 1 for name in step["operations"]]
        mask = frozenset(listed)
        if listed != sorted(mask) or len(set(step["kept"])) < len(step["kept"]):
            raise Refused("names twice, or in no order")
        group = next((g for g in graph.next_groups(state.done) if g.mask == mask), None)
        if group is None:
            raise Refused("operations")
        dropped = self.tensors(step["dropped"], state.chip & state.dram, "dropped")
        there = state.chip - dropped
        fetched = self.tensors(step["fetched"], (group.sources & state.dram) - there, "fetched")
        outputs = (frozenset(self.tensors(step[key], group.outputs, key)) for key in ("resident", "written"))
        resident, written = outputs
        if (resident, written) not in list(graph.outputs(group)):
            raise Refused("an output is lost, or stays for nobody")
        whole = there | fetched | resident
        cut = group.cut_of(step)
        place = None if step["in_place"] is None else self.numbers[step["in_place"]]
        if place is not None and not (
            group.output in resident
            and place in there | fetched
            and group.replaced(place, cut.step)
            and not graph.readers[place] - group.mask - state.done
        ):
            raise Refused("in place")
        for tensor in dropped:
            del self.at[tensor]
        addresses = step["addresses"]
        for tensor in fetched | resident:
            self.at[tensor] = addresses[graph.key(tensor)]
        if place is not None and self.at[place] != self.at[group.output]:
            raise Refused("in place, elsewhere")
        buffers = group.buffers(cut, whole, written)
        if set(addresses) != {graph.key(tensor) for tensor in fetched | resident} | set(buffers):
            raise Refused("addresses")
        spans = [(self.at[t], graph.sizes[t], graph.name(t)) for t in whole if t != place]
        spans += [(addresses[name], size, name) for name, size in buffers.items()]
        end = 0
        for address, size, name in sorted([*spans, *self.staying]):
            if address < end:
                raise Refused(f"overlap: {name}")
            end = address + size
        if end > self.room:
            raise Refused("memory")
        spent = group.spent(cut, whole, fetched, written, state.done)
        taken = graph.size(whole) - (0 if place is None else graph.sizes[place])
        self.spent = _joined(self.spent, spent._replace(memory=end))
        self.facts.append(step | graph.facts(group, cut, whole, spent, taken))
        self.state = graph.after(state, group, whole, written)
        self.at = {tensor: address for tensor, address in self.at.items() if tensor in self.state.chip}
