"""What is wrong with a program, before it runs: of its words alone, whatever the engines' speed.

A program without findings gives one result: its dependencies leave no two accesses of a place in conflict
without an order, so that any legal timing computes the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from tilewright.codegen.isa.container import Image
from tilewright.codegen.isa.instructions import MODES, Instruction
from tilewright.codegen.isa.places import (
    Accesses,
    Block,
    Outside,
    Strided,
    accesses,
    group_channels,
    output_box,
)
from tilewright.codegen.isa.shadow import BEGINNING, Clock, Shadow, after, merged
from tilewright.fusion.machine import BUFFERS, ENGINES
from tilewright.spec.errors import InputError, InputErrors

DDR_BANK = len(BUFFERS)
"""The number of the part of DDR that is written, beside those of the buffers."""

SHIFTS = (-32, 40)
"""Powers of two that results may be divided by, so that they fit 64 bits."""

WIDEST = 62
"""Bits of what engines compute with that do not multiply."""

MOST_BIAS_SHIFT = 32

AT_LEAST_ONE = (
    *("parts", "rows", "columns", "channels", "kernels", "depth", "taps", "run", "kernel_rows"),
    *("kernel_columns", "stride_rows", "stride_columns", "dilation_rows", "dilation_columns"),
    *("ring_channels", "ring_rows", "ring_columns", "group_kernels"),
)
"""Fields that are no counts if they are 0."""


def check(image: Image) -> None:
    """Refuse a program that is wrong.

    Raises
    ------
    InputErrors
        Tells where, what and why.
    """
    found = findings(image)
    if found:
        raise InputErrors(found)


def findings(image: Image) -> list[InputError]:
    """Return what is wrong with a program: of its instructions, or else of their order, or else of data."""
    return (
        list(_Fields(image).findings())
        or _boundary_findings(image)
        or list(_sum_findings(image))
        or list(_order_findings(image))
    )


def _where(number: int, instruction: Instruction) -> str:
    return f"code[{number}]: {instruction.name}"


# Fields -----------------------------------------------------------------------------------------------------


class _Fields:
    """Checks each instruction alone."""

    def __init__(self, image: Image) -> None:
        self._image, machine = image, image.machine
        self._images, self._width = machine.arrays, machine.element_bytes
        self._sizes = [machine.capacity(buffer) // self._width for buffer in BUFFERS]

    def findings(self) -> Iterator[InputError]:
        for section in ("code", "host"):
            for number, each in enumerate(getattr(self._image, section)):
                found = next(self._of(each, f"{section}[{number}]: {each.name}"), None)
                if found is not None:
                    yield found

    def _of(self, each: Instruction, where: str) -> Iterator[InputError]:
        own = 8 * self._width
        tables = [("", each.values), *((f"{one.role}.", one.values) for one in each.operands)]
        for role, values in tables:
            for name, value in values.items():
                if name in AT_LEAST_ONE and value < 1:
                    yield InputError(f"{where}.{role}{name}", value, "must be at least 1")
        shift, bias_shift = each.values.get("shift", 0), each.values.get("bias_shift", 0)
        if not SHIFTS[0] <= shift <= SHIFTS[1]:
            yield InputError(f"{where}.shift", shift, f"must be from {SHIFTS[0]} to {SHIFTS[1]}")
        for role, values in tables:
            multiplies = each.name in ("CONV", "CONNECTED")
            for name, most in (("bits", own), ("read_bits", own if multiplies else WIDEST)):
                if values.get(name, 0) > most:
                    yield InputError(f"{where}.{role}{name}", values[name], f"must be at most {most}")
            read_shift = values.get("read_shift", 0)
            if not SHIFTS[0] <= read_shift <= SHIFTS[1]:
                limit = f"must be from {SHIFTS[0]} to {SHIFTS[1]}"
                yield InputError(f"{where}.{role}read_shift", read_shift, limit)
        if each.values.get("bias_last", 0) and each.values.get("first", 1) != each.values.get("last", 1):
            yield InputError(f"{where}.bias_last", 1, "is for sums that begin and end in one instruction")
        if bias_shift > MOST_BIAS_SHIFT:
            yield InputError(f"{where}.bias_shift", bias_shift, f"must be at most {MOST_BIAS_SHIFT}")
        if each.engine in (*each.wait, *each.send):
            yield InputError(f"{where}.wait", each.engine, "an engine gives itself no token")
        if each.name == "HOST" and each.values["call"] >= len(self._image.host):
            yield InputError(f"{where}.call", each.values["call"], f"the table has {len(self._image.host)}")
        yield from self._sizes_of(each, where)
        touched = accesses(each, self._images, self._width)
        for block in (*touched.reads, *touched.writes):
            if not block.fits:
                limit = f"rows, columns, channels must fit in the array of {list(block.ring[1:])} values"
                yield InputError(f"{where}.box", [*block.box], limit)
            if block.end > self._sizes[block.bank]:
                limit = f"buffer {BUFFERS[block.bank]} has {self._sizes[block.bank]} elements"
                yield InputError(f"{where}.base", block.base, f"ends at {block.end}: {limit}")
        yield from self._outside(touched, where)

    def _outside(self, touched: Accesses, where: str) -> Iterator[InputError]:
        begin, size = self._image.maps
        for strided, low in (
            *((each, 0) for each in touched.ddr_reads),
            *((each, begin) for each in touched.ddr_writes),
        ):
            address, end = strided.address, strided.end
            if not low <= address <= end <= begin + size or address < begin < end:
                limit = f"ends at {end}: {'stored maps' if low else 'data'} lie from {low} to {begin + size}"
                yield InputError(f"{where}.address", address, limit)
            origin = begin if address >= begin else 0
            if (address - origin) % self._width or any(step % self._width for step in strided.strides):
                yield InputError(f"{where}.address", address, f"must lie at elements of {self._width} bytes")

    def _sizes_of(self, each: Instruction, where: str) -> Iterator[InputError]:
        """Yield operands whose sizes are not those of the instruction."""
        values, ins = each.values, each.of("in")
        given = sum(one["channels"] for one in (*ins, *each.of("ddr")))
        asked = values.get("channels", 0)
        if each.name == "CONV":
            asked = self._conv_channels(each)
        if each.name in ("LOAD", "SAVE", "CONV", "POOL", "COPY") and given != asked:
            yield InputError(f"{where}.channels", given, f"operands must have {asked}")
        planes = {(one["rows"], one["columns"]) for one in ins}
        if each.name in ("CONV", "POOL", "COPY") and len(planes) > 1:
            yield InputError(f"{where}.in", sorted(planes), "operands must have one size")
        if each.name == "COPY" and planes != {output_box(each)[:2]}:
            yield InputError(f"{where}.in", sorted(planes), f"must be {list(output_box(each)[:2])}")
        if each.name in ("ADD", "MULTIPLY"):
            plane = output_box(each)[:2]
            for one in ins:
                box = one["rows"], one["columns"]
                fits = all(size in (1, most) for size, most in zip(box, plane, strict=True))
                if not fits or one["channels"] != values["channels"]:
                    limit = f"must be {[*plane, values['channels']]}, or one row or column for all"
                    yield InputError(f"{where}.in", [*box, one["channels"]], limit)
        if each.name == "MULTIPLY" and values["parts"] * (8 * self._width - 1) > 62:
            yield InputError(f"{where}.parts", values["parts"], "the product must fit 64 bits")
        yield from self._host_sizes(each, where)

    def _conv_channels(self, each: Instruction) -> int:
        """Return how many input channels a convolution must be given."""
        values = each.values
        if MODES[values["mode"]] == "DENSE":
            return values["depth"]
        size, within = group_channels(each)
        return values["depth"] * -(-(values["kernels"] + within) // max(1, size))

    def _host_sizes(self, each: Instruction, where: str) -> Iterator[InputError]:
        reads, writes = ([prod(_shape(one)) for one in each.of(role)] for role in ("read", "write"))
        if each.name == "RELAYOUT":
            shapes = [_shape(one) for role in ("read", "write") for one in each.of(role)]
            if len({*shapes}) > 1 or each.values["parts"] != 1:
                yield InputError(f"{where}.write", [*shapes[-1]], f"must be one map of {[*shapes[0]]}")
            if self._image.machine.layouts is None:
                yield InputError(f"{where}", "RELAYOUT", "the machine has no layouts, so no price of a copy")
        if each.name == "RESHAPE" and sum(reads) != writes[0]:
            yield InputError(f"{where}.write", writes[0], f"must be {sum(reads)} values")
        if each.name == "CONNECTED":
            (write,) = each.of("write")
            asked = write["channels"] * (sum(reads) + each.values["bias"])
            if each.values["parameters"] != asked or (write["rows"], write["columns"]) != (1, 1):
                yield InputError(f"{where}.parameters", each.values["parameters"], f"must be {asked}")


def _shape(values: object) -> tuple[int, int, int]:
    table: dict[str, int] = dict(values)  # type: ignore[call-overload]
    return table["rows"], table["columns"], table["channels"]


# Order ------------------------------------------------------------------------------------------------------


def _boundary_findings(image: Image) -> list[InputError]:
    """Return whether START and END stand elsewhere than at the ends."""
    names = [each.name for each in image.code]
    right = names[:1] == ["START"] and names[-1:] == ["END"]
    if right and names.count("START") == names.count("END") == 1:
        return []
    return [InputError("code", len(names), "must begin with START and end with END, each once")]


def _sum_findings(image: Image) -> Iterator[InputError]:
    """Yield convolutions that go on with sums that are not those before them, or leave some."""
    going: tuple[int, ...] | None = None
    for number, each in enumerate(image.code):
        if each.name != "CONV":
            continue
        values, box = each.values, output_box(each)
        if (going is None) != bool(values["first"]) or (going is not None and going != box):
            limit = "sums must begin with `first`, and go on in the same box up to `last`"
            yield InputError(f"{_where(number, each)}.first", values["first"], limit)
            return
        going = None if values["last"] else box
    if going is not None:
        yield InputError("code", "CONV.last", "sums are not complete at the end")


class _Turn(NamedTuple):
    """An instruction in an order in which it may be executed, and what has ended before it begins."""

    number: int
    engine: int
    place: int
    clock: Clock


def _order_findings(image: Image) -> Iterator[InputError]:
    turns: list[_Turn] = []
    stuck = list(_turns(image.code, turns))
    yield from stuck
    if not stuck:
        yield from _races(image, turns)


def _turns(code: Sequence[Instruction], turns: list[_Turn]) -> Iterator[InputError]:
    """Let engines go on as long as tokens are there; note the order, yield what is left.

    Engines work in order and tokens are counted, so that what ends up waiting does not depend on the order.
    """
    queues: list[deque[int]] = [deque() for _ in ENGINES]
    for number, each in enumerate(code):
        queues[ENGINES.index(each.engine)].append(number)
    tokens: dict[tuple[str, str], deque[Clock]] = {
        (sender, taker): deque() for sender in ENGINES for taker in ENGINES
    }
    clocks, counts = [BEGINNING] * len(ENGINES), [0] * len(ENGINES)
    going = True
    while going:
        going = False
        for engine, name in enumerate(ENGINES):
            while queues[engine]:
                number = queues[engine][0]
                each = code[number]
                if not all(tokens[sender, name] for sender in each.wait):
                    break
                queues[engine].popleft()
                clock = clocks[engine]
                for sender in each.wait:
                    clock = merged(clock, tokens[sender, name].popleft())
                counts[engine] += 1
                turns.append(_Turn(number, engine, counts[engine], clock))
                clocks[engine] = after(clock, engine)
                for taker in each.send:
                    tokens[name, taker].append(clocks[engine])
                going = True
    yield from _stuck(code, queues, tokens)


def _stuck(
    code: Sequence[Instruction],
    queues: Sequence[deque[int]],
    tokens: dict[tuple[str, str], deque[Clock]],
) -> Iterator[InputError]:
    """Yield engines that wait for ever, the cause if there is one, and tokens that nothing takes."""
    lacking, going_around = [], []
    for engine, queue in enumerate(queues):
        if not queue:
            continue
        each, taker = code[queue[0]], ENGINES[engine]
        for sender in each.wait:
            if tokens[sender, taker]:
                continue
            where = f"{_where(queue[0], each)}.wait"
            later = [number for number in queues[ENGINES.index(sender)] if taker in code[number].send]
            if later:
                limit = f"the token comes from code[{later[0]}], which cannot begin either: a cycle"
                going_around.append(InputError(where, sender, limit))
            else:
                limit = f"no instruction of {sender} sends the token that it waits for"
                lacking.append(InputError(where, sender, limit))
    yield from lacking or going_around
    if lacking or going_around:
        return
    for (sender, taker), left in tokens.items():
        if left:
            limit = f"{len(left)} tokens are not taken: a wait or a send is missing"
            yield InputError("code", f"{sender} to {taker}", limit)


# Data -------------------------------------------------------------------------------------------------------


def _races(image: Image, turns: Sequence[_Turn]) -> Iterator[InputError]:
    """Yield accesses that conflict without an order, and reads of what was never written."""
    machine = image.machine
    width, (begin, size) = machine.element_bytes, image.maps
    sizes = [*(machine.capacity(buffer) // width for buffer in BUFFERS), size // width]
    shadow = Shadow(sizes)
    by_engine: list[list[int]] = [[] for _ in ENGINES]

    def regions(blocks: Sequence[Block], outside: Sequence[Strided]) -> list[Block | Outside]:
        written = [each for each in outside if each.address >= begin and 0 not in each.shape]
        return [*blocks, *(Outside(DDR_BANK, each, begin) for each in written)]

    for number, engine, place, clock in turns:
        each = image.code[number]
        work = image.host[each.values["call"]] if each.name == "HOST" else each
        touched = accesses(work, machine.arrays, width)
        reads = regions(touched.reads, touched.ddr_reads)
        writes = regions(touched.writes, touched.ddr_writes)
        for region in reads:
            if shadow.lacks(region):
                yield InputError(_where(number, each), _name(region), "reads what was never written")
                return
        for conflict in shadow.conflicts(reads, writes):
            if conflict.engine != engine and clock[conflict.engine] < conflict.number:
                other = by_engine[conflict.engine][conflict.number - 1]
                limit = f"a race with {_where(other, image.code[other])}: no dependency orders them"
                yield InputError(_where(number, each), _name(conflict.region), limit)
                return
        by_engine[engine].append(number)
        shadow.note(engine, place, reads, writes)
    outputs = [_whole(image, number) for number in range(len(image.outputs))]
    for tensor, region in zip(image.outputs, outputs, strict=True):
        if region.strided.address >= begin and shadow.lacks(region):
            yield InputError("code", tensor.name, "is an output, and was never written whole")


def _whole(image: Image, number: int) -> Outside:
    """Return all values of an output."""
    tensor, machine = image.outputs[number], image.machine
    channels, rows, columns = tensor.shape
    width = machine.element_bytes
    strides = tensor.image, tensor.line, tensor.pixel, tensor.channel_step(width)
    shape = machine.arrays, rows, columns, channels
    return Outside(DDR_BANK, Strided(tensor.address, shape, strides, width), image.maps[0])


def _name(region: Block | Outside) -> str:
    if isinstance(region, Outside):
        return f"DDR from {region.strided.address} on"
    return f"{BUFFERS[region.bank]} buffer from {region.base} on"
