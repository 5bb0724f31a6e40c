"""The function of a step: operations that take turns, by `goto` and without recursion."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tilewright.codegen.c_text import block_comment, safe_text
from tilewright.codegen.microcontroller.operations import CodedOperation, padding_name, refusal
from tilewright.codegen.microcontroller.steps import PlannedStep, StepMap
from tilewright.codegen.project_files import array_literal
from tilewright.residency.graph import Graph, Operation, Reading


class StepCode:
    """The function of a step, and where its maps lie.

    Parameters
    ----------
    coded
        The operations of the network in C, by name.
    outside
        Where inputs and outputs of the network begin among all of them, by tensor.
    number
        Of the step.
    unsigned
        Tensors whose integers have no sign outside.
    """

    def __init__(
        self,
        graph: Graph,
        coded: Mapping[str, CodedOperation],
        outside: Mapping[int, int],
        number: int,
        step: PlannedStep,
        unsigned: Collection[int] = (),
    ) -> None:
        self.unsigned = unsigned
        self.graph, self.coded, self.outside, self.number, self.step = graph, coded, outside, number, step
        self.maps = {each.tensor: each for each in step.maps}
        self.strips, self.copied = step.strips, step.copied
        self.streams = bool(step.block)

    def function(self) -> Iterator[str]:
        """Return its lines."""
        step = self.step
        names = ", ".join(operation.name for operation in step.group.operations)
        yield from block_comment([f"{safe_text(names)}: {step.memory:,} bytes."])
        yield f"static void step_{self.number}(const value_t *input, value_t *output)"
        yield "{"
        turns = list(self._turns())
        if self.strips > 1:
            yield from self._strip_tables("\n".join(turns))
        yield "    (void)input, (void)output;"
        copies = [
            line
            for number, place in step.copied.items()
            for line in self.coded[self.graph.operations[number].name].copy_weights(place)
        ]
        if not self.streams:
            yield from ("    " + line for line in copies)
        for each in step.maps:
            if each.fetched:
                size = self.graph.tensors[each.tensor].size
                yield f"    MOVE({each.address}, input + {self.outside[each.tensor]}, {size});"
                if each.tensor in self.unsigned:
                    yield f"    flip_signs({each.address}, {size});"
        loop = f"int strip = 0; strip < {self.strips}; strip++" if self.strips > 1 else ""
        for number, block in step.block.items():
            outputs = self.graph.tensors[number + 1].channels
            loop = f"int first = 0; first < {outputs}; first += {block}"
            turns = [f"const int outputs = {_at_a_time(outputs, block)};", *copies, *turns]
        indent = "        " if loop else "    "
        if loop:
            yield f"    for ({loop}) {{"
        yield from (indent + line for line in turns)
        if loop:
            yield "    }"
        yield "}"

    def _strip_tables(self, used: str) -> Iterator[str]:
        """Return the columns of maps in each strip, as far as a text has their names."""
        for each in self.step.maps:
            begins = [begin for begin, _ in each.columns]
            widths = [end - begin for begin, end in each.columns]
            for name, values in ((f"begin{each.tensor}", begins), (f"width{each.tensor}", widths)):
                if f"{name}[" in used:
                    yield f"    static const int16_t {name}[] = {array_literal(values)};"

    def begin(self, each: StepMap) -> str:
        """Return the first column of a map in the strip."""
        return f"begin{each.tensor}[strip]" if self.strips > 1 else "0"

    def width(self, each: StepMap) -> str:
        """Return the columns of a map in the strip."""
        return f"width{each.tensor}[strip]" if self.strips > 1 else str(each.columns[0][1])

    def _turns(self) -> Iterator[str]:
        step = self.step
        loaded = [each for each in step.maps if each.loaded]
        computed = [self.maps[operation.number + 1] for operation in step.group.operations]
        for each in (*loaded, *computed):
            t = each.tensor
            yield f"map_t m{t} = {{{each.address}, 0, 0}};"
            yield f"int y{t} = 0, x{t} = 0;"
        yield "int asked = 0;"
        yield "for (;;) {"
        yield "    switch (asked) {"
        for place, each in enumerate(reversed([*loaded, *computed])):
            yield f"    case {place}:"
            yield f"        if (y{each.tensor} < {each.rows})"
            yield f"            goto ask{each.tensor};"
            yield "        asked++; /* fall through */"
        yield "    default:"
        yield "        break;"
        yield "    }"
        yield "    break;"
        for operation in reversed(step.group.operations):
            yield from self._operation(operation.number)
        for each in loaded:
            yield from self._load(each)
        yield "}"

    def _load(self, each: StepMap) -> Iterator[str]:
        tensor = self.graph.tensors[each.tensor]
        t, channels = each.tensor, tensor.channels
        where = f"((y{t} * {tensor.shape[2]} + {self.begin(each)} + x{t}) * {channels})"
        source = f"input + {self.outside[t]} + {where}"
        yield f"ask{t}:"
        yield f"    MOVE(m{t}.base + m{t}.slot * {channels}, {source}, {channels});"
        if t in self.unsigned:
            yield f"    flip_signs(m{t}.base + m{t}.slot * {channels}, {channels});"
        yield from self._advance(each)

    def _advance(self, each: StepMap) -> Iterator[str]:
        t = each.tensor
        yield f"    one_more(&m{t}, {each.held});"
        yield f"    if (++x{t} == {self.width(each)})"
        yield f"        x{t} = 0, y{t}++;"
        yield "    continue;"

    def _operation(self, number: int) -> Iterator[str]:
        """Return what an operation does when it is asked for a pixel."""
        operation = self.graph.operations[number]
        coded = self.coded[operation.name]
        own = self.maps[number + 1]
        t = own.tensor
        runs = self.step.running and operation is self.step.group.last
        yield f"ask{t}: {{ /* {safe_text(operation.name)}, {coded.kind} */"
        asked = [each for each in operation.readings if not self.maps[each.tensor].is_there]
        # Of maps with as few pixels as others, the one that looks least far ahead, as the plan's turns are.
        reach = self.step.group.groups.reach
        asked.sort(key=lambda each: (reach(each.tensor), not self.maps[each.tensor].loaded, each.tensor))
        yield from ("        " + line for line in self._ask(asked, own, runs))
        body = coded.running if runs else coded.computed
        yield from ("        " + line for line in body(self, own))
        yield "    }"
        yield from self._advance(own)

    def _ask(self, asked: Sequence[Reading], own: StepMap, runs: bool) -> Iterator[str]:
        """Return the lines that ask for what is lacking: of several maps, of that with the fewest."""
        needs = {each: self._needed(each, self.maps[each.tensor], own, runs) for each in asked}
        if len(asked) == 1:
            ((reading, needed),) = needs.items()
            yield f"if (m{reading.tensor}.there < {needed})"
            yield f"    goto ask{reading.tensor};"
        if len(asked) < 2:
            return
        yield "int lacking = -1, fewest = 0x7fffffff;"
        for reading, needed in needs.items():
            there = f"m{reading.tensor}.there"
            yield f"if ({there} < {needed} && {there} < fewest)"
            yield f"    fewest = {there}, lacking = {reading.tensor};"
        for tensor in dict.fromkeys(reading.tensor for reading in asked):
            yield f"if (lacking == {tensor})"
            yield f"    goto ask{tensor};"

    def _needed(self, reading: Reading, given: StepMap, own: StepMap, runs: bool) -> str:
        """Return how many pixels of a map must be there for the next pixel of a reader."""
        width = self.width(given)
        rows, columns = f"y{own.tensor}", f"(x{own.tensor} + {self.begin(own)})"
        if reading.plane != self.graph.tensors[given.tensor].shape[1:]:  # as if rows were others
            width, pixel = str(reading.plane[1]), f"(y{own.tensor} * {own.columns[0][1]} + x{own.tensor})"
            rows, columns = f"{pixel} / {reading.output[1]}", f"{pixel} % {reading.output[1]}"
        if runs:
            return f"y{own.tensor} * {width} + x{own.tensor} + 1"
        if reading.extent is None:
            return f"{reading.plane[0]} * {width}"
        row = _last(rows, reading, 0, reading.plane[0])
        column = _last(columns, reading, 1, reading.plane[1])
        if self.strips > 1:
            column = f"smaller({column} - {self.begin(given)}, {width} - 1)"
        needed = f"{row} * {width} + {column} + 1"
        before = [
            f"{place} < {-(-(reading.before[axis] + 1 - extent) // reading.stride[axis])}"
            for axis, (place, extent) in enumerate(zip((rows, columns), reading.extent, strict=True))
            if reading.before[axis] >= extent
        ]
        return f"({' || '.join(before)} ? 0 : {needed})" if before else needed

    # What operations ask for ------------------------------------------------------------------------------

    def result(self, own: StepMap) -> str:
        """Return where the pixel in hand is written: what leaves RAM at once is written outside."""
        t, (channels, _, columns) = own.tensor, self.graph.tensors[own.tensor].shape
        where = f"(y{t} * {columns} + {self.begin(own)} + x{t}) * {channels}"
        if self.leaves_at_once(own):
            return f"output + {self.outside[t]} + {where}"
        return f"m{t}.base + {where}" if own.whole else f"m{t}.base + m{t}.slot * {channels}"

    def leaves_at_once(self, own: StepMap) -> bool:
        """Whether a map leaves the network and nothing of it stays in RAM."""
        return own.written and not own.whole and own.tensor == self.step.group.output

    def pixel(self, tensor: int, own: StepMap) -> str:
        """Return where the pixel of a map is that lies at the place in hand."""
        t = own.tensor
        return self.at(tensor, f"y{t}", f"(x{t} + {self.begin(own)})")

    def at(self, tensor: int, row: str, column: str) -> str:
        """Return where a pixel of a map is, given its row and column in the whole plane."""
        given, channels = self.maps[tensor], self.graph.tensors[tensor].channels
        if given.whole:
            columns = self.graph.tensors[tensor].shape[2]
            return f"{given.address} + ({row} * {columns} + {column}) * {channels}"
        place = f"{row} * {self.width(given)} + {column} - {self.begin(given)}"
        return f"pixel_of(&m{tensor}, {place}, {given.held}, {channels})"

    def window(self, tensor: int, own: StepMap, coded: CodedOperation, taps: str = "taps") -> Iterator[str]:
        """Return the lines that find the taps of a window, in an array that is declared."""
        given, (channels, rows, columns) = self.maps[tensor], self.graph.tensors[tensor].shape
        t, (stride, padding, kernel, dilation) = own.tensor, coded.geometry
        first = (
            f"y{t} * {stride[0]} - {padding[0]}",
            f"(x{t} + {self.begin(own)}) * {stride[1]} - {padding[1]}",
        )
        outside = "0" if coded.padded is None else padding_name(coded.padded)
        if kernel == (1, 1) and padding == (0, 0):
            yield f"{taps}[0] = {self.at(tensor, first[0].removesuffix(' - 0'), f'({first[1]})')};"
            return
        where = (
            f"{given.address}, {columns}, 0"
            if given.whole
            else f"&m{tensor}, {given.held}, {self.width(given)}, {self.begin(given)}"
        )
        yield f"{'taps_of_map' if given.whole else 'taps_of_lines'}("
        yield f"    {taps}, {where}, {channels}, {rows}, {columns},"
        steps = f"{kernel[0]}, {kernel[1]}, {dilation[0]}, {dilation[1]}"
        yield f"    {first[0]}, {first[1]}, {steps}, {outside});"

    def has_all_channels(self, tensor: int, operation: Operation) -> None:
        """Refuse a line buffer that has some channels alone."""
        if self.maps[tensor].loaded and any(tensor in each.parts for each in self.step.group.operations):
            raise refusal(
                operation,
                'there is no C for line buffers of parts of an input; limits.inputs = "memory" would do',
            )

    def channels(self, own: StepMap) -> tuple[str, str]:
        """Return what leads to the first channel that is computed at a time, and how many there are."""
        if self.streams:
            return " + first", "outputs"
        return "", str(self.graph.tensors[own.tensor].channels)

    def address(self, tensor: int) -> str:
        """Return where a map lies in RAM."""
        return self.maps[tensor].address

    @property
    def only_result(self) -> str:
        """Return where the only pixel of running values goes."""
        output = self.step.group.output
        if self.step.result is None:
            return f"output + {self.outside[output]}"
        return self.step.result

    @property
    def result_unsigned(self) -> bool:
        """Whether the only pixel of running values has no sign outside."""
        return self.step.group.output in self.unsigned

    @property
    def result_leaves(self) -> bool:
        """Whether the only pixel of running values leaves the network."""
        return self.step.result is None

    def names(self, own: StepMap) -> tuple[str, str, str]:
        """Return the variables of the row and column of the pixel in hand, and of its channels."""
        t, begin = own.tensor, self.begin(own)
        return f"y{t}", f"x{t}" if begin == "0" else f"(x{t} + {begin})", "c"

    def leave(self, own: StepMap) -> Iterator[str]:
        """Return the line that writes the pixel in hand outside, if it leaves the network."""
        if not own.written:
            return
        t, (channels, _, columns) = own.tensor, self.graph.tensors[own.tensor].shape
        first, count = self.channels(own)
        where = f"(y{t} * {columns} + {self.begin(own)} + x{t}) * {channels}{first}"
        write = f"MOVE(output + {self.outside[t]} + {where}, result{first}, {count});"
        if self.leaves_at_once(own):
            if t in self.unsigned:
                yield f"flip_signs(result{first}, {count});"
            write = f"MOVED({count});"
        elif t in self.unsigned:
            write = f"{{ {write} flip_signs(output + {self.outside[t]} + {where}, {count}); }}"
        if self.strips > 1:  # columns that the strip before has written are not written again
            yield f"if (!strip || x{t} + {self.begin(own)} >= begin{t}[strip - 1] + width{t}[strip - 1])"
            write = "    " + write
        yield write


def _at_a_time(outputs: int, block: int) -> str:
    """Return how many output channels the block in hand has: the last one may have fewer."""
    return f"smaller({block}, {outputs} - first)" if outputs % block else str(block)


def _last(place: str, reading: Reading, axis: int, size: int) -> str:
    """Return the last row or column that is read for one of the output, within the plane."""
    assert reading.extent is not None
    stride, before, extent = reading.stride[axis], reading.before[axis], reading.extent[axis]
    if (stride, before, extent) == (1, 0, 1) and reading.output[axis] <= size:
        return place
    return f"within({place} * {stride} - {before} + {extent - 1}, {size - 1})"
