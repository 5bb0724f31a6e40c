"""A plan of addresses as a C header: where each buffer lies, and an assertion that the memory is enough."""

from __future__ import annotations

import re

from tilewright import addresses
from tilewright.codegen.c_text import block_comment, group_digits, origin_lines, quote, safe_text
from tilewright.core.room import room_of
from tilewright.spec.errors import InputError

MOST_HEIGHT = 2**31 - 1
"""Largest number that an enumerator has in every C."""


def offsets_header(name: str, source: str, problem: addresses.Problem, plan: addresses.Plan) -> str:
    """Return a header for C11 and C++11 with an enumerator for the offset and for the size of each buffer.

    Raises
    ------
    InputError
        For a plan that is not valid, or higher than an ``int`` is large; in another room.
    """
    if not isinstance(problem, addresses.Problem):
        raise InputError("room", room_of(problem).name, "a header of offsets is of a plan of addresses")
    broken = addresses.violation(problem, plan)
    if broken is not None:
        raise InputError("plan", "addresses", f"is not valid: {broken}")
    height, memory = addresses.objective(problem, plan), problem.memory
    if height > MOST_HEIGHT:
        raise InputError("plan", height, f"enumerators of C reach to {MOST_HEIGHT}")
    prefix = _word(name).upper()
    prefix = prefix if prefix[0].isalpha() else f"MEMORY_{prefix}"
    words = _unlike([_word(buffer.id) for buffer in problem.buffers])
    lines = [
        f"{safe_text(name)}: {group_digits(len(words))} buffers in {group_digits(height)} addresses",
        *origin_lines(source),
        "",
        "Each buffer begins at its offset from the beginning of the memory"
        + (f", which must be a multiple of {memory.alignment}." if memory.alignment > 1 else "."),
        f"To have the memory checked, define {prefix}_MEMORY as its number of addresses.",
    ]
    most = height if memory.capacity is None else memory.capacity
    told = quote(f"{name} needs {height} addresses")
    offsets = [f"{prefix}_OFFSET_{word} = {at}," for word, at in zip(words, plan.offsets, strict=True)]
    sizes = [f"{prefix}_SIZE_{word} = {one.size}," for word, one in zip(words, problem.buffers, strict=True)]
    lives = [f"{safe_text(one.id)}: lives from {one.lower} until {one.upper}" for one in problem.buffers]
    first, second = max(map(len, offsets)), max(map(len, sizes))
    return "\n".join(
        [
            *block_comment(lines),
            f"#ifndef {prefix}_H",
            f"#define {prefix}_H",
            "",
            "#include <assert.h>",
            "",
            f"#define {prefix}_HEIGHT {height}",
            f"#define {prefix}_ALIGNMENT {memory.alignment}",
            f"#ifndef {prefix}_MEMORY",
            f"#define {prefix}_MEMORY {most}",
            "#endif",
            f"static_assert({prefix}_HEIGHT <= {prefix}_MEMORY, {told});",
            "",
            "enum {",
            *(
                f"    {offset:<{first}} {size:<{second}} /* {life} */"
                for offset, size, life in zip(offsets, sizes, lives, strict=True)
            ),
            f"    {prefix}_BUFFERS = {len(words)}",
            "};",
            "",
            "#endif",
            "",
        ]
    )


def _word(name: str) -> str:
    """Return what C allows of a name behind its first character."""
    return re.sub(r"[^A-Za-z0-9]+", "_", safe_text(name)).strip("_") or "_"


def _unlike(words: list[str]) -> list[str]:
    """Return words all of which are different, with numbers behind those that are not."""
    found: dict[str, None] = {}
    taken = set(words)
    for word in words:
        number, unlike = 1, word
        while unlike in found or (number > 1 and unlike in taken):
            number += 1
            unlike = f"{word}_{number}"
        found[unlike] = None
    return list(found)
