"""Tables as the TOML that instances are written in."""

from __future__ import annotations

import json
from typing import Any


def toml(value: Any) -> str:
    """Write a value as TOML, inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else str(value)


def text(table: dict[str, Any]) -> str:
    """Write a table as a TOML file."""
    return "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
