"""What the command line prints of a grouping."""

from __future__ import annotations

from typing import Any

from tilewright.core.room import Rows
from tilewright.grouping.problem import Problem


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return the lines of a result's summary, from the summary of its report."""
    loaded = ", ".join(f"{name} {count:,}" for name, count in report["loaded"].items() if count)
    return [
        ("steps", f"{report['steps']:,}"),
        ("loaded", loaded),
        ("peak memory", f"{report['peak_memory']:,} elements"),
        ("duration", f"{report['cycles']:,} cycles"),
    ]
