"""Fields of binary words: how values are packed into words of 32 bits, and which values fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilewright.spec.errors import InputError

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8

Values = Mapping[str, int]
"""Values of fields, by name."""


class Field(NamedTuple):
    """A field of a word.

    Attributes
    ----------
    bits
        How wide it is.
    signed
        Whether it is a number in two's complement.
    names
        What its values are called, from 0 on, where they have names.
    later
        Whether it came after programs had been written as text, which leaves it out where it is 0.
    """

    name: str
    bits: int
    signed: bool = False
    names: tuple[str, ...] = ()
    later: bool = False

    @property
    def range(self) -> tuple[int, int]:
        """Least and largest value."""
        if self.names:
            return 0, len(self.names) - 1
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.signed else (0, 2 * half - 1)

    def check(self, value: int, where: str, file: str | None = None) -> None:
        """Refuse a value that the field does not hold.

        Raises
        ------
        InputError
            Names the field, the value and the limit.
        """
        least, most = self.range
        if not least <= value <= most:
            limit = f"must be from {least} to {most} ({self.bits} bits)"
            raise InputError(f"{where}{self.name}", value, limit, file)


Word = tuple[Field, ...]
"""Fields of a word, from the lowest bit on; bits that are left are 0."""

Layout = tuple[Word, ...]
"""Words, one after the other."""


def fields_of(layout: Layout) -> Iterable[Field]:
    """Return all fields of a layout, in order."""
    return (field for word in layout for field in word)


def pack(layout: Layout, values: Values, where: str) -> list[int]:
    """Return the words that hold values.

    Parameters
    ----------
    where
        What begins the name of a field in an error.

    Raises
    ------
    InputError
        For a value that its field does not hold.
    """
    words = []
    for word in layout:
        packed = place = 0
        for field in word:
            value = values[field.name]
            field.check(value, where)
            packed |= (value & ((1 << field.bits) - 1)) << place
            place += field.bits
        words.append(packed)
    return words


def unpack(layout: Layout, words: Sequence[int], where: str) -> dict[str, int]:
    """Return the values that words hold.

    Raises
    ------
    InputError
        For a bit that must be 0, and for a value that has no meaning.
    """
    values: dict[str, int] = {}
    for number, (fields, packed) in enumerate(zip(layout, words, strict=True)):
        left = packed
        for field in fields:
            value = left & ((1 << field.bits) - 1)
            if field.signed and value >> (field.bits - 1):
                value -= 1 << field.bits
            if field.names:
                field.check(value, where)
            values[field.name] = value
            left >>= field.bits
        if left:
            raise InputError(
                f"{where}word {number}", hex(packed), "its upper bits are not used and must be 0"
            )
    return values
