"""Graphs of the MLSys 2026 contest, which stand in JSON files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.core import json_file
from tilewright.spec.errors import InputError

MAX_BYTES = 20_000_000
"""Largest graph that is read."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the tables of an instance whose graph is all that a file holds.

    Raises
    ------
    InputError
        For what is no strict JSON, or a result.
    """
    graph = json_file.load(path, MAX_BYTES)
    if "room" in graph:
        limit = "is a result, not an instance; `tilewright check INSTANCE RESULT` takes both"
        raise InputError("instance", path.name, limit, str(path))
    return {"room": "scheduling", "name": path.stem, "graph": graph}
