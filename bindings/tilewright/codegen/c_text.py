"""Pieces of C text: comments, columns, loops, and names that come from outside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from textwrap import wrap

WIDTH = 100
"""Longest line of the C code."""

MAX_NAME = 31
"""Characters of an identifier that every C99 linker tells apart."""

MAX_TEXT = 300
"""Most characters of a name or a source that a comment repeats."""


def safe_text(value: str) -> str:
    """Make any text harmless within a comment: printable ASCII without delimiters, trigraphs and escapes."""
    value = unicodedata.normalize("NFKD", value.replace("×", "x").replace("–", "-"))
    value = "".join(c for c in value if not unicodedata.combining(c))
    value = re.sub(r"[^ -~]+", " ", value).replace("*", "x").replace("\\", "|")
    value = re.sub(r"\?{2,}", "?", value)
    value = " ".join(value.split())
    return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 3] + "..."


def origin_lines(source: str) -> list[str]:
    """Return the line of a comment that tells where an instance comes from, if it does."""
    return [f"Source: {safe_text(source)}"] if safe_text(source) else []


def quote(name: str) -> str:
    """Return a name as a string in C."""
    return '"' + safe_text(name).replace('"', "'") + '"'


def identifier(name: str, taken: Iterable[str] = (), first: str = "layer") -> str:
    """Make a name: its first word and what C allows of the rest, unlike those that are taken."""
    allowed = re.sub(r"[^A-Za-z0-9]+", "_", safe_text(name)).strip("_")
    if not re.match(rf"{first}(_|\d|$)", allowed):
        allowed = f"{first}_{allowed}" if allowed else first
    result = allowed[:MAX_NAME].rstrip("_")
    number, others = 1, set(taken)
    while result in others:
        number += 1
        result = f"{allowed[: MAX_NAME - 1 - len(str(number))].rstrip('_')}_{number}"
    return result


def block_comment(lines: Iterable[str], indent: str = "") -> list[str]:
    """Return a block comment; a line that is too long goes on below its second column of words."""
    result = [f"{indent}/*"]
    for line in lines:
        column = re.match(r" *(\S+(?: \S+)* {2,})?", line)
        hanging = " " * (column.end() if column else 0)
        width = WIDTH - len(indent) - 3
        folded = wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False, drop_whitespace=True)
        result += [f"{indent} * {part}".rstrip() for part in folded or [""]]
    return [*result, f"{indent} */"]


def align_comments(pairs: Sequence[tuple[str, str]], indent: str) -> list[str]:
    """Return lines with their comments in one column."""
    width = max((len(code) for code, comment in pairs if comment), default=0)
    return [
        f"{indent}{code:<{width}} /* {comment} */" if comment else f"{indent}{code}"
        for code, comment in pairs
    ]


def join_terms(terms: Iterable[str], sign: str = " + ") -> str:
    """Join terms, without those that are zero."""
    return sign.join(term for term in terms if term != "0") or "0"


def multiply_terms(first: str, second: str) -> str:
    """Return a product, without a factor that is one."""
    return first if second == "1" else second if first == "1" else f"{first} * {second}"


def nest_loops(loops: Sequence[str], body: Sequence[str], indent: str) -> list[str]:
    """Return perfectly nested loops, which share one column."""
    inner = indent + "    " if loops else indent
    return [indent + loop for loop in loops] + [inner + line for line in body]


def for_loop(var: str, stop: str, start: str = "0") -> str:
    """Return the head of a loop that counts by one."""
    return f"for (int {var} = {start}; {var} < {stop}; {var}++)"


def group_digits(value: int) -> str:
    """Return a number with its digits in groups of three."""
    return f"{value:,}"
