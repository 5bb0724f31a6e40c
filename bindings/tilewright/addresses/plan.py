"""An addresses plan: where each buffer begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.addresses.problem import LARGEST, MOST_BUFFERS
from tilewright.core.plans import RoomPlan
from tilewright.spec.errors import InputError

MOST_OFFSET = LARGEST * MOST_BUFFERS
"""Where the last one begins if all lie one upon the other."""


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """The first address of each buffer, in the order of the problem."""

    offsets: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        return {"offsets": list(self.offsets)}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        offsets = data.get("offsets") if isinstance(data, dict) and set(data) == {"offsets"} else None
        if not isinstance(offsets, list) or not 1 <= len(offsets) <= MOST_BUFFERS:
            limit = f"must be an object with `offsets`, a list of 1 to {MOST_BUFFERS} integers"
            raise InputError("plan", data, limit, file)
        for number, offset in enumerate(offsets):
            if type(offset) is not int or not 0 <= offset <= MOST_OFFSET:
                limit = f"must be an integer from 0 to {MOST_OFFSET}"
                raise InputError(f"plan.offsets[{number}]", offset, limit, file)
        return cls(tuple(offsets))
