"""What the plans of all rooms have in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tilewright.spec.base import exported_name


class RoomPlan:
    """Base of the rooms' plans, which are dataclasses: it shows itself with the name of its room."""

    def __repr__(self) -> str:
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return f"{exported_name(type(self))}({shown})"
