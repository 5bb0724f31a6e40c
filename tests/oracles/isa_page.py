"""A decoder of instructions that knows nothing but the tables of docs/isa.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "isa.md"

Fields = dict[str, tuple[int, int]]
"""Of a word: where each field begins, and its bits."""

HOSTED = ("CONNECTED", "RESHAPE", "LEFT_OUT", "RELAYOUT")
"""Entries of the host's table."""

SAME = {"MULTIPLY": "ADD", "COPY": "ADD"}
"""Instructions of which the page says that they have the words of another one."""


class Page:
    """The tables of the page.

    Attributes
    ----------
    codes
        Engine and function of each instruction.
    words
        Of each header, instruction and operand.
    """

    def __init__(self) -> None:
        self.codes: dict[str, tuple[str, int]] = {}
        self.words: dict[str, list[Fields]] = {}
        self._signed: set[tuple[str, str]] = set()
        lines = PAGE.read_text(encoding="utf-8").splitlines()
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 3 and cells[2].isdigit():
                self.codes[cells[0]] = cells[1], int(cells[2])
            elif len(cells) == 5 and cells[1].isdigit():
                self._add(cells)
        engines = next(
            line for line in PAGE.read_text().splitlines() if "`engine`" in line and "0 LOAD" in line
        )
        self.engines = re.findall(r"\d (\w+)", engines.split("|")[-2])

    def _add(self, cells: Sequence[str]) -> None:
        """Add a row: of what, which word, bits, field, values."""
        of, word, bits, name, values = cells
        words = self.words.setdefault(of, [])
        if int(word) == len(words):
            words.append({})
        first, _, last = bits.partition("-")
        words[int(word)][name.strip("`")] = int(first), int(last or first) - int(first) + 1
        if values == "signed":
            self._signed.add((of, name.strip("`")))

    def words_of(self, name: str) -> str:
        """Return under which name the page has the words of an instruction."""
        name = SAME.get(name, name)
        return next((key for key in self.words if name in key.split(", ")), name)

    def operand(self, role: str) -> str:
        """Return under which name the page has an operand."""
        return f"operand `{'read' if role == 'write' else role}`"

    def _values(self, of: str, words: Sequence[int]) -> dict[str, int]:
        found = {}
        for fields, word in zip(self.words.get(of, []), words, strict=False):
            for name, (first, bits) in fields.items():
                value = word >> first & ((1 << bits) - 1)
                if (of, name) in self._signed and value >> (bits - 1):
                    value -= 1 << bits
                found[name] = value
        return found

    def decoded(self, words: Sequence[int], host: bool) -> list[Any]:
        """Return all instructions: name, engines waited for and sent to, fields, operands."""
        names = [name for name in self.codes if (name in HOSTED) == host]
        by_code = {self.codes[name]: name for name in names}
        found, at = [], 0
        while at < len(words):
            head = self._values("header", words[at:])
            name = by_code[self.engines[head["engine"]], head["function"]]
            key, place = self.words_of(name), at + 1
            values = self._values(key, words[place:])
            place += len(self.words.get(key, []))
            operands = []
            for role in self._roles(name, values):
                key = self.operand(role)
                operands.append((role, self._values(key, words[place:])))
                place += len(self.words[key])
            assert place == at + head["length"], name
            found.append((name, self._engines(head["wait"]), self._engines(head["send"]), values, operands))
            at = place
        return found

    def _engines(self, bits: int) -> tuple[str, ...]:
        return tuple(name for number, name in enumerate(self.engines) if bits >> number & 1)

    @staticmethod
    def _roles(name: str, values: dict[str, int]) -> list[str]:
        """Return the operands of an instruction, in the order that the page tells below its tables."""
        parts = values.get("parts", 0)
        if name == "LOAD":
            return ["chip"] + ["ddr"] * parts
        if name == "SAVE":
            return ["chip", "ddr"]
        if name == "CONV":
            return ["groups"] * (values["mode"] == 2) + ["in"] * parts + ["out"] * values["last"]
        if name in ("POOL", "ADD", "MULTIPLY", "COPY"):
            return ["in"] * parts + ["out"]
        return ["read"] * parts + ["write"] if name in HOSTED else []
