"""The page of docs that lists what is measured of executed plans, from the rooms' classes of measures.

``python -m tilewright.run.formats.measures_page > docs/measures.md`` writes it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, get_type_hints

from tilewright.core import catalogue
from tilewright.core.measures import (
    Executed,
    InCycles,
    InPicoseconds,
    Lasting,
    Table,
    fields_of,
    meanings,
    tables_of,
)

WIDTH = 110
"""The most columns of a line outside of tables."""

HEAD = """# Measures

What does each number of a result's `report.measures` mean?

    $ tilewright solve s1-example2 -o result.json

[Results and plans](formats.md#measures) says how to read them. A name ends with its unit. Each table is a
class of the Python API: `result.measures` and `tw.simulate(...).measures` are objects of them. This page is
written by `python -m tilewright.run.formats.measures_page`.
"""

UNITS = {
    "cycles": "cycles",
    "ps": "ps",
    "ms": "ms",
    "elements": "elements",
    "words": "words",
    "bytes": "bytes",
    "bits": "bits",
    "fj": "fJ",
    "nj": "nJ",
    "aj": "aJ",
    "hops": "hops",
    "ppb": "parts per billion",
    "db": "dB",
    "addresses": "addresses",
}
"""Units, by how a measure's name ends."""


def page() -> str:
    """Return the page, in Markdown."""
    lines = [HEAD]
    told: set[type[Table]] = set()
    lines.append("## All rooms\n")
    common: tuple[type[Table], ...] = (Executed, InCycles, Lasting, InPicoseconds)
    for table in common:
        told.add(table)
        lines += _section(table)
    for name in catalogue.ROOMS:
        tables = tables_of(catalogue.room(name).measures_type)
        own = [table for table in tables if table.__module__.startswith(f"tilewright.{name}.")]
        lines.append(f"## {name}\n")
        for table in own:
            bases = [base for base in reversed(table.__mro__[1:]) if _is_told(base) and base not in told]
            for each in [*bases, table]:
                if each not in told:
                    told.add(each)
                    lines += _section(each)
    return "\n".join(lines)


def _is_told(base: type[Any]) -> bool:
    return issubclass(base, Table) and base is not Table


def _section(table: type[Table]) -> Iterator[str]:
    """Yield the heading of a class of measures, and a line for each field that it adds to its bases."""
    yield f"### {table.__name__}\n"
    bases = [f"[{base.__name__}](#{base.__name__.lower()})" for base in table.__bases__ if _is_told(base)]
    more = f" It has all of {' and '.join(bases)}{', and' if fields_of(table) else ''}" if bases else ""
    about = (table.__doc__ or "").split("\n")[0]
    text = f"{about}{more}{':' if fields_of(table) and more else '.' if more else ''}"
    yield textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"
    if not fields_of(table):
        return
    yield "| measure | unit | meaning |"
    yield "|---|---|---|"
    for name in fields_of(table):
        unit = UNITS.get(name.rpartition("_")[2], "") if "_" in name else UNITS.get(name, "")
        meaning = " ".join(meanings(table).get(name, "").split()).replace("|", "\\|")
        inner = [each for each in tables_of(get_type_hints(table)[name]) if each.__name__ not in meaning]
        links = ", ".join(f"[{each.__name__}](#{each.__name__.lower()})" for each in _outermost(inner))
        yield f"| `{name}` | {unit} | {' '.join(filter(None, (meaning, links and f'{links}.')))} |"
    yield ""


def _outermost(tables: list[type[Table]]) -> list[type[Table]]:
    """Return the tables that no other of them holds."""
    held = {inner for table in tables for kind in get_type_hints(table).values() for inner in tables_of(kind)}
    return [table for table in tables if table not in held]


if __name__ == "__main__":
    print(page())
