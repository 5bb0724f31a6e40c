"""The instruction set: every instruction, its fields with their bits, and its words (docs/isa.md).

The four kinds of instructions, their engines, variable size, bits for dependencies, one bit for the pooling
type, the nonlinear type in CONV, and stride, length and mode that let one module serve several operations
are those of the DNNVM paper, sections 3.1 and 4.1.2. Widths and places of fields are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tilewright.codegen.isa.fields import Field, Layout, Values, pack, unpack
from tilewright.fusion.machine import BUFFERS, CONV, ENGINES, LOAD, MISC, POOL, SAVE
from tilewright.spec.errors import InputError

MODES = ("DENSE", "DEPTHWISE", "GROUPED")
"""What channels a convolution sums over: all, that of the output channel, or those of its group."""

NONLINEAR = ("NONE", "RELU")
"""What is done to a result before it is stored."""

POOLS = ("MAX", "AVERAGE")
"""Pooling types, one bit."""

HEADER: Layout = (
    (
        Field("engine", 3, names=ENGINES),
        Field("function", 3),
        Field("length", 14),
        Field("wait", len(ENGINES)),
        Field("send", len(ENGINES)),
    ),
)
"""The first word: the engine, what it does, words of the instruction, and dependencies.

A bit of ``wait`` takes a token of that engine before the instruction begins; a bit of ``send`` gives a token
to that engine when it ends.
"""

AREA: Layout = (
    (Field("base", 30), Field("bank", 2, names=BUFFERS)),
    (Field("ring_channels", 16), Field("ring_rows", 16)),
    (Field("ring_columns", 16), Field("channel", 16)),
    (Field("row", 16), Field("column", 16)),
)
"""Where values lie in a buffer: an array [image][row][column][channel] at an element, its sizes, and where
in it the first value is; what runs over an end of the array goes on at its beginning."""

BOX: Layout = ((Field("channels", 16),), (Field("rows", 16), Field("columns", 16)))
"""How many channels, rows and columns there are."""

DDR: Layout = (
    (Field("address", 32),),
    (Field("pixel", 32),),
    (Field("line", 32),),
    (Field("image", 32),),
    (Field("channels", 16), Field("plane_rows", 16, later=True)),
)
"""Where values lie in DDR: the first byte, the bytes from a pixel, a row and an image to the next one, and
channels, which lie next to each other (NHWC), or so many rows apart (NCHW)."""

PLANAR = Field("planar", 1, later=True)
"""Whether a map is NCHW."""

HOSTED: Layout = (*DDR[:4], (Field("channels", 31), PLANAR), (Field("rows", 16), Field("columns", 16)))
"""A map in DDR that the host reads or writes."""

WINDOW: Layout = (
    (Field("kernel_rows", 16), Field("kernel_columns", 16)),
    (Field("stride_rows", 16), Field("stride_columns", 16)),
    (Field("pad_top", 16, signed=True), Field("pad_left", 16, signed=True)),
)
"""A window; the paddings are rows and columns of zeros before the first ones that are read."""

SCALE: tuple[Field, ...] = (Field("nonlinear", 2, names=NONLINEAR), Field("shift", 8, signed=True))
"""The nonlinear type, and the power of two that results are divided by."""

READ = (Field("read_shift", 8, signed=True, later=True), Field("read_bits", 6, later=True))
"""How values are read: divided by two to the power of the shift, rounded, and saturated at some bits; as they
are stored where the bits are 0."""

BITS = Field("bits", 6, later=True)
"""At which results saturate; 0 for those of an element."""

SUMS = (Field("sum_bits", 6, later=True), Field("bias_last", 1, later=True))
"""Bits of the accumulators, 0 for 32; and whether a bias is added behind them, where nothing wraps around."""

OPERANDS: Mapping[str, Layout] = {
    "in": (*AREA, (*BOX[0], *READ), *BOX[1:]),
    "out": AREA,
    "chip": AREA,
    "ddr": DDR,
    "groups": ((Field("group_kernels", 16), Field("first_kernel", 16)),),
    "read": HOSTED,
    "write": HOSTED,
}
"""Layouts of operands, by their roles."""


@dataclass(frozen=True)
class Form:
    """An instruction of the set.

    Attributes
    ----------
    name
        In assembly.
    engine, function
        Which engine executes it, and as which of its functions.
    body
        Words after the header and before the operands.
    """

    name: str
    engine: str
    function: int
    body: Layout

    def roles(self, values: Values) -> tuple[str, ...]:
        """Return the roles of its operands, in order."""
        return _roles(self.name, *(values.get(name, 0) for name in ("parts", "mode", "last")))


@cache
def _roles(name: str, parts: int, mode: int, last: int) -> tuple[str, ...]:
    if name == "LOAD":
        return ("chip", *["ddr"] * parts)
    if name == "SAVE":
        return "chip", "ddr"
    if name == "CONV":
        grouped = MODES[mode] == "GROUPED"
        return (*["groups"] * grouped, *["in"] * parts, *["out"] * last)
    if name in ("POOL", "ADD", "MULTIPLY", "COPY"):
        return (*["in"] * parts, "out")
    if name in HOST_NAMES:
        return (*["read"] * parts, "write")
    return ()


PARTS = Field("parts", 16)
PLANE = (Field("rows", 16), Field("columns", 16))
_POINTWISE: Layout = ((PARTS, Field("channels", 16)), PLANE, (*SCALE, BITS))

FORMS = (
    Form("LOAD", LOAD, 0, ((PARTS, Field("channels", 16)), PLANE)),
    Form(
        "FETCH",
        LOAD,
        1,
        (
            (Field("address", 32),),
            (Field("kernel", 32),),
            (Field("tap", 32),),
            (Field("kernels", 16), Field("taps", 16)),
            (Field("run", 16), Field("bias", 1)),
            (Field("base", 30), Field("bank", 2, names=BUFFERS)),
        ),
    ),
    Form("SAVE", SAVE, 0, ((Field("channels", 16),), PLANE)),
    Form(
        "CONV",
        CONV,
        0,
        (
            (PARTS, Field("kernels", 16)),
            PLANE,
            (Field("depth", 16), Field("bias_shift", 6)),
            *WINDOW,
            (Field("dilation_rows", 16), Field("dilation_columns", 16)),
            (
                *SCALE,
                Field("mode", 2, names=MODES),
                Field("first", 1),
                Field("last", 1),
                Field("bias", 1),
                BITS,
                *SUMS,
            ),
            (Field("base", 30), Field("bank", 2, names=BUFFERS)),
        ),
    ),
    Form(
        "POOL",
        POOL,
        0,
        (
            (PARTS, Field("channels", 16)),
            PLANE,
            *WINDOW,
            (*SCALE, Field("type", 1, names=POOLS), BITS),
        ),
    ),
    Form("START", MISC, 0, ()),
    Form("GROUP", MISC, 1, ()),
    Form("HOST", MISC, 2, ((Field("call", 32),),)),
    Form("END", MISC, 3, ()),
    Form("ADD", MISC, 4, _POINTWISE),
    Form("MULTIPLY", MISC, 5, _POINTWISE),
    Form("COPY", MISC, 6, _POINTWISE),
)
"""All instructions."""

HOST_NAMES = ("CONNECTED", "RESHAPE", "LEFT_OUT", "RELAYOUT")
"""What the host computes: a fully connected layer, a reshape, what only takes its time, a copy into another
layout."""

_HOST_BODY: Layout = (
    (PARTS, Field("bias_shift", 6), Field("bias", 1), READ[0]),
    (*SCALE, BITS, *SUMS, READ[1]),
    (Field("parameters", 32),),
    (Field("address", 32),),
)

HOST_FORMS = tuple(Form(name, MISC, number, _HOST_BODY) for number, name in enumerate(HOST_NAMES))
"""Entries of the host's table, which ``HOST`` calls by their numbers; its words are built the same way."""

BY_NAME = {form.name: form for form in (*FORMS, *HOST_FORMS)}
_BY_CODE = {(form.engine, form.function): form for form in FORMS}
_HOST_BY_CODE = {(form.engine, form.function): form for form in HOST_FORMS}


@dataclass(frozen=True)
class Operand:
    """An operand: its role, one of `OPERANDS`, and its fields."""

    role: str
    values: Values


@dataclass(frozen=True)
class Instruction:
    """An instruction, or an entry of the host's table.

    Attributes
    ----------
    wait, send
        Engines of which it takes a token, and to which it gives one.
    """

    name: str
    values: Values
    operands: tuple[Operand, ...] = ()
    wait: tuple[str, ...] = ()
    send: tuple[str, ...] = ()

    @property
    def form(self) -> Form:
        """What the instruction set has of it."""
        return BY_NAME[self.name]

    @property
    def engine(self) -> str:
        """Which engine executes it."""
        return self.form.engine

    def of(self, role: str) -> list[Values]:
        """Return the fields of the operands that have a role."""
        return [operand.values for operand in self.operands if operand.role == role]


def encode(instruction: Instruction, where: str = "") -> list[int]:
    """Return the words of an instruction.

    Raises
    ------
    InputError
        For a value that its field does not hold; names the field.
    """
    form = instruction.form
    where = f"{where}{form.name}."
    words = pack(form.body, instruction.values, where)
    for operand in instruction.operands:
        words += pack(OPERANDS[operand.role], operand.values, f"{where}{operand.role}.")
    header = {
        "engine": ENGINES.index(form.engine),
        "function": form.function,
        "length": 1 + len(words),
        "wait": _mask(instruction.wait),
        "send": _mask(instruction.send),
    }
    return pack(HEADER, header, where) + words


def decode(words: Sequence[int], at: int, where: str = "", host: bool = False) -> tuple[Instruction, int]:
    """Return the instruction that begins at a word, and its length.

    Parameters
    ----------
    host
        Whether the words are the host's table.

    Raises
    ------
    InputError
        For words that are no instruction; names the place.
    """
    where = f"{where}word {at}: "
    header = unpack(HEADER, words[at : at + 1], where)
    engine, length = ENGINES[header["engine"]], header["length"]
    form = (_HOST_BY_CODE if host else _BY_CODE).get((engine, header["function"]))
    if form is None:
        raise InputError(f"{where}{engine}.function", header["function"], "is none of this engine's")
    if not 1 + len(form.body) <= length <= len(words) - at:
        limit = f"{form.name} has at least {1 + len(form.body)} words, and {len(words) - at} are left"
        raise InputError(f"{where}{form.name}.length", length, limit)
    place = at + 1 + len(form.body)
    values = unpack(form.body, words[at + 1 : place], f"{where}{form.name}.")
    operands = []
    roles = form.roles(values)
    needed = place - at + sum(len(OPERANDS[role]) for role in roles)
    if needed != length:
        raise InputError(f"{where}{form.name}.length", length, f"its operands make it {needed} words")
    for role in roles:
        layout = OPERANDS[role]
        found = unpack(layout, words[place : place + len(layout)], f"{where}{form.name}.{role}.")
        operands.append(Operand(role, found))
        place += len(layout)
    wait, send = _engines(header["wait"]), _engines(header["send"])
    return Instruction(form.name, values, tuple(operands), wait, send), length


def decode_all(words: Sequence[int], where: str = "", host: bool = False) -> list[Instruction]:
    """Return all instructions of some words."""
    found, at = [], 0
    while at < len(words):
        instruction, length = decode(words, at, where, host)
        found.append(instruction)
        at += length
    return found


def _mask(engines: Sequence[str]) -> int:
    return sum(1 << ENGINES.index(engine) for engine in engines)


def _engines(mask: int) -> tuple[str, ...]:
    return tuple(engine for bit, engine in enumerate(ENGINES) if mask >> bit & 1)
