"""Words in pictures: numbers with units, names cut to the space there is, widths of text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import ceil


def with_prefix(value: float) -> str:
    """Write a number with three digits and a decimal prefix: ``12.3 k``."""
    for limit, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{prefix}"
    return f"{value:.3g}"


def byte_unit(size: float) -> tuple[float, str]:
    """Return the unit in which sizes up to a largest one are written: its bytes and its name."""
    return (1e6, "MB") if size >= 1e6 else (1e3, "kB")


def in_bytes(size: int) -> str:
    """Write a number of bytes in kB or MB."""
    unit_bytes, unit = byte_unit(size)
    return f"{size / unit_bytes:,.2f} {unit}"


def ratio(value: float) -> str:
    """Write how many times as much something is: ``1.25×``."""
    return f"{value:.2f}×" if value < 9.95 else f"{value:.0f}×"


def relative_change(before: int, after: int) -> str:
    """Write a change in percent: ``−12 %``."""
    percent = 100 * (after - before) / max(before, 1)
    return "±0 %" if abs(percent) < 0.5 else f"{'−' if percent < 0 else '+'}{abs(percent):.0f} %"


def busy_share(share: float) -> str:
    """Write for which share of the time an engine works."""
    return "< 1 % busy" if 0 < share < 0.01 else f"{100 * share:.0f} % busy"


def dimensions(*sizes: object) -> str:
    """Write sizes as a product that no line break parts: ``3 × 3``."""
    return "\u00a0×\u00a0".join(str(size) for size in sizes)


def shortened(name: str, max_length: int) -> str:
    """Return a name, its end left out where it has more than `max_length` characters."""
    return name if len(name) <= max_length else name[: max_length - 1] + "…"


def shortened_to_end(name: str, max_length: int) -> str:
    """Return the end of a name, which may tell more than its beginning, if possible in whole parts."""
    if len(name) <= max_length:
        return name
    parts = (match.start() for match in re.finditer(r"[^\W_]+", name))
    start = next((at for at in parts if 0.6 * max_length < len(name) - at < max_length), 1 - max_length)
    return "…" + name[start:]


def shortened_to_fit(words: str, inches: float, points: float) -> str:
    """Return a text, its middle left out where it is wider than `inches` in letters of `points`."""
    max_width = 72 * inches / points
    if len(words) < 200 and text_width(words) <= max_width:
        return words
    longest = min(len(words) - 1, 200)
    fits = bisect_right(range(longest), max_width, key=lambda left: text_width(_ends(words, left)))
    return _ends(words, max(1, fits - 1))


def shortened_in_middle(words: str, max_length: int, begin: float = 0.5) -> str:
    """Return a text, its middle left out where it has more than `max_length` characters.

    `begin` is the share of its beginning among what is left.
    """
    return words if len(words) <= max_length else _ends(words, max_length - 1, begin)


def _ends(words: str, left: int, begin: float = 0.5) -> str:
    first = ceil(left * begin)
    return words[:first] + "…" + words[len(words) - (left - first) :]


def common_prefix(names: Sequence[str]) -> str:
    """Return what several names begin with, up to a slash or another mark between the parts of names."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first)
    )
    return re.sub(r"[^/.:]*$", "", first[:length])


def joined_names(names: Sequence[str]) -> str:
    """Join names by plus signs, what they all begin with only once: ``fire2/: squeeze + expand``."""
    prefix = common_prefix(names)
    own = " + ".join(name[len(prefix) :] for name in names)
    return f"{prefix.rstrip('/.:')}: {own}" if prefix else own


@lru_cache(maxsize=4096)
def text_width(words: str) -> float:
    """Return the width of a line of text, as a multiple of its size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(words, FontProperties(size=100), ismath=False)
    return float(width) / 100
