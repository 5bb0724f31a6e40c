"""A bitwidth plan: how many bits the inputs and the weights of each layer have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.bitwidth.machine import MAX_WIDTH
from tilewright.core.plans import RoomPlan
from tilewright.spec.errors import InputError
from tilewright.spec.network import MAX_LAYERS

Widths = tuple[int, int]
"""Bits of inputs and of weights."""


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """Widths of all convolutions and fully connected layers, in the order of execution.

    Attributes
    ----------
    names, widths
        Of each layer.
    front
        Alternatives instead of one plan: the Pareto front, least noise first.
    """

    names: tuple[str, ...]
    widths: tuple[Widths, ...]
    front: tuple[Plan, ...] = ()

    @classmethod
    def joined(cls, front: tuple[Plan, ...]) -> Plan:
        """Return the plan that stands for a Pareto front."""
        return cls((), (), front)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        if self.front:
            return {"front": [plan.to_json() for plan in self.front]}
        return {"bits": {name: list(pair) for name, pair in zip(self.names, self.widths, strict=True)}}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if isinstance(data, dict) and set(data) == {"front"}:
            front = data["front"]
            if not isinstance(front, list) or not front:
                raise InputError("plan.front", front, "must be a list of plans", file)
            plans = tuple(cls.from_json(plan, file) for plan in front)
            if any(plan.front for plan in plans):
                raise InputError("plan.front", len(plans), "must hold plans, not fronts", file)
            return cls.joined(plans)
        table = data.get("bits") if isinstance(data, dict) and set(data) == {"bits"} else None
        if not isinstance(table, dict) or not 1 <= len(table) <= MAX_LAYERS:
            limit = "must be an object with `bits`, [inputs, weights] of each layer, or with `front`"
            raise InputError("plan", data, limit, file)
        for name, pair in table.items():
            if (
                not isinstance(pair, list)
                or len(pair) != 2
                or not all(type(bits) is int and 1 <= bits <= MAX_WIDTH for bits in pair)
            ):
                raise InputError(f"plan.bits.{name}", pair, f"must be 2 integers from 1 to {MAX_WIDTH}", file)
        return cls(tuple(table), tuple((pair[0], pair[1]) for pair in table.values()))
