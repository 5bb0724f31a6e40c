"""The words of an array's program: records with fixed fields, as bits.

A program is a list of records. Each begins with a word of 64 bits, whose lowest eight tell its kind. Its
fields follow in their order, the lowest bit first, none across the border of two words. Bits that no field
has are zero. `layer` and `order` have a tail: characters of a name, eight to a word, or numbers of pixels,
two to a word.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tilewright.spec.errors import InputError

WORD = 64
"""Bits of a word."""

KIND = 8
"""Bits of a record's kind."""

PORTS = ("north", "east", "south", "west", "local")
"""Where a PE is connected: to its neighbours, and to its own programs and address generators."""

OPERATIONS = ("nop", "mac", "max", "add")
"""What a functional unit does."""

WHEN = ("never", "window", "all")
"""When something is done: never, at the first (last) tap of a window, or only for its first (last) maps."""

WHAT = ("wait", "iterate")
"""What a word does: nothing, or an iteration of the loops."""

THEN = ("next", "beat", "frame", "both")
"""What follows a word: the next one; the next beat, at the target, while there is one; the next frame; the
next beat, or frame where there is none."""

RECEIVE = ("never", "first", "each")
"""When a word receives its operands: for the first filter of several, or for each."""


class Field(NamedTuple):
    """A field of a record.

    Attributes
    ----------
    bits
        Up to 40; the highest is the sign of a signed field.
    least
        Least value.
    names
        What its values are called in assembly.
    """

    name: str
    bits: int
    least: int = 0
    signed: bool = False
    names: tuple[str, ...] = ()

    @property
    def range(self) -> tuple[int, int]:
        """Least and largest value."""
        if self.signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return self.least, len(self.names) - 1 if self.names else (1 << self.bits) - 1


TABLE = """
array    rows 11+, columns 11+, units 11+, bits 7+, sum_bits 7+, frames 16+, hop 16
layer    number 16, rows 24+, columns 24+, channels 24+, buffer 40, count 10
order    layer 16, count 32+
connect  row 11, column 11, input PORTS, from 16, output PORTS, to 16, delay 24
program  row 11, column 11, layer 16, start 40
reader   row 11, column 11, layer 16, start 40, port 16+, source 16
writer   row 11, column 11, layer 16, start 40, port 16+, base 40
loops    r 24+, c 24+, k1 24+, k2 24+, n 24+, m 24+
share    channel_step 24+, channel_first 24, channels 24, row_step 24+, row_first 24
strides  weight_m 32, weight_n 32, weight_k1 32, weight_k2 32, sum_m 24, sum_n 24
result   shift 8-, divisor 24+, relu 1, bias_shift 6, biases 24, weights 40, sums 24+, lines 24
result   bits 7, sum_bits 7, late 1
ports    input 16, send 16, output 16, sums 16, sum_ports 16
window   stride_y 24+, stride_x 24+, dilation_y 24, dilation_x 24
window   top 24, left 24, rows 24+, columns 24+, border 33-
maps     lanes 11+, filters 11+, receive RECEIVE, step 24+, first 24, count 24+
maps     filter_step 24, filter_first 24, filter_count 24, group_filters 24, group_maps 24
operand  number 16, first 24, channels 24+, shift 8-, bits 7
owner    channel_step 24+, channel_first 24, row_step 24+, row_first 24
take     lanes 11+, when WHEN
word     what WHAT, receive RECEIVE, then THEN, target 8, repeat 40+
unit     op OPERATIONS, lane 11, out 11, init WHEN, store WHEN, sum 24, maps 24, filters 24, weight 32
"""
"""The fields of each kind of record, in their order, with their bits.

A plus is for what is at least 1, a minus for what has a sign, and a name for values that have names.
"""

NAMES = {
    "PORTS": PORTS,
    "RECEIVE": RECEIVE,
    "WHEN": WHEN,
    "WHAT": WHAT,
    "THEN": THEN,
    "OPERATIONS": OPERATIONS,
}
"""Names of values."""


def _field(text: str) -> Field:
    name, size = text.split()
    if size in NAMES:
        return Field(name, (len(NAMES[size]) - 1).bit_length(), names=NAMES[size])
    return Field(name, int(size.rstrip("+-")), least=int(size.endswith("+")), signed=size.endswith("-"))


def _fields() -> dict[str, tuple[Field, ...]]:
    found: dict[str, tuple[Field, ...]] = {}
    for line in TABLE.strip().splitlines():
        kind, _, fields = line.partition(" ")
        found[kind] = (*found.get(kind, ()), *map(_field, fields.split(",")))
    return found


FIELDS = _fields()
"""The fields of each kind of record."""

KINDS = tuple(FIELDS)

TAILS = {"layer": 8, "order": 32}
"""Bits of each element of a tail, which the field ``count`` counts."""


class Record(NamedTuple):
    """A record, whose kind says what its values are."""

    kind: str
    values: tuple[int, ...]
    tail: tuple[int, ...] = ()

    def value(self, name: str) -> int:
        """Return the value of a field."""
        return self.values[next(at for at, field in enumerate(FIELDS[self.kind]) if field.name == name)]


class Place(NamedTuple):
    """Where a field lies in its record: in which word, from which bit on."""

    word: int
    shift: int


def places(kind: str) -> tuple[tuple[Place, ...], int]:
    """Return where the fields of a kind lie, and how many words a record has without its tail."""
    found, bit = [], KIND
    for field in FIELDS[kind]:
        if bit % WORD + field.bits > WORD:
            bit += WORD - bit % WORD
        found.append(Place(*divmod(bit, WORD)))
        bit += field.bits
    return tuple(found), -(-bit // WORD)


PLACES = {kind: places(kind) for kind in KINDS}


def record(kind: str, values: Mapping[str, int] | None = None, tail: Sequence[int] = ()) -> Record:
    """Return a record; fields that are left out are 0.

    Raises
    ------
    InputError
        For a field that the kind does not have, and for a value out of its range.
    """
    given = dict(values or {})
    if kind in TAILS:
        given["count"] = len(tail)
    found = []
    for field in FIELDS[kind]:
        value = given.pop(field.name, 0)
        least, most = field.range
        if not least <= value <= most:
            raise InputError(f"{kind}.{field.name}", value, f"must be from {least} to {most}")
        found.append(value)
    if given:
        raise InputError(f"{kind}.{min(given)}", given[min(given)], f"{kind} has no such field")
    return Record(kind, tuple(found), tuple(tail))


def encode(records: Iterable[Record]) -> bytes:
    """Return records as words of 64 bits, little endian."""
    words: list[int] = []
    for each in records:
        at, size = PLACES[each.kind]
        own = [0] * size
        own[0] = KINDS.index(each.kind) + 1
        for field, place, value in zip(FIELDS[each.kind], at, each.values, strict=True):
            own[place.word] |= (value & ((1 << field.bits) - 1)) << place.shift
        words += own
        if each.tail:
            bits = TAILS[each.kind]
            in_word = WORD // bits
            for begin in range(0, len(each.tail), in_word):
                part = each.tail[begin : begin + in_word]
                words.append(sum(value << (bits * place) for place, value in enumerate(part)))
    return struct.pack(f"<{len(words)}Q", *words)


def decode(data: bytes) -> Iterator[Record]:
    """Yield the records of words.

    Raises
    ------
    InputError
        For a word that begins no record, a value out of range, bits that no field has, and a record that is
        cut short; names the word.
    """
    if len(data) % (WORD // 8):
        raise InputError("program", len(data), "must be whole words of 8 bytes")
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    begin = 0
    while begin < len(words):
        number = words[begin] & ((1 << KIND) - 1)
        if not 1 <= number <= len(KINDS):
            raise InputError(f"program.words[{begin}]", number, f"is no kind of record: 1 to {len(KINDS)}")
        kind = KINDS[number - 1]
        _, size = PLACES[kind]
        values = _values(kind, words[begin : begin + size], begin)
        begin += size
        tail: tuple[int, ...] = ()
        if kind in TAILS:
            count, bits = values["count"], TAILS[kind]
            size = -(-count * bits // WORD)
            tail = _tail(words[begin : begin + size], bits, count, begin)
            begin += size
        yield record(kind, values, tail)


def _values(kind: str, words: Sequence[int], begin: int) -> dict[str, int]:
    """Return the values of a record's fields."""
    at, size = PLACES[kind]
    if len(words) < size:
        raise InputError(f"program.words[{begin}]", len(words), f"{kind} has {size} words")
    rest = list(words)
    rest[0] &= ~((1 << KIND) - 1)
    values = {}
    for field, place in zip(FIELDS[kind], at, strict=True):
        mask = (1 << field.bits) - 1
        value = (words[place.word] >> place.shift) & mask
        rest[place.word] &= ~(mask << place.shift)
        values[field.name] = value - (1 << field.bits) * (field.signed and value >> (field.bits - 1))
    if any(rest):
        raise InputError(f"program.words[{begin}]", max(rest), f"bits of {kind} that no field has must be 0")
    return values


def _tail(words: Sequence[int], bits: int, count: int, begin: int) -> tuple[int, ...]:
    """Return the elements of a tail."""
    in_word = WORD // bits
    found = [(word >> (bits * place)) & ((1 << bits) - 1) for word in words for place in range(in_word)]
    if len(found) < count or any(found[count:]):
        raise InputError(f"program.words[{begin}]", len(found), f"a tail of {count} elements must follow")
    return tuple(found[:count])
