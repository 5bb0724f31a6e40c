"""A scheduling plan: subgraphs in the order in which they run, each with its granularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.core.plans import RoomPlan
from tilewright.scheduling.graph import MAX_NATIVE, MAX_OPERATIONS, MAX_TENSORS
from tilewright.spec.errors import InputError

ORDERS = ("rows", "columns", "snake_rows", "snake_columns")
"""Orders of tiles that have a name: row by row, column by column, and with every second one backwards."""

MAX_STEPS = 4 * MAX_OPERATIONS
MAX_TILES = 2**24


@dataclass(frozen=True)
class Subgraph:
    """Operations that run as one.

    Attributes
    ----------
    operations
        Their numbers, as they are declared.
    granularity
        Width and height of a tile of the outputs, and how many products a step adds up.
    retained
        Tensors that stay in fast memory for the next subgraph.
    order
        Of the tiles: one of `ORDERS`, or the numbers of all tiles, which count row by row.
    """

    operations: tuple[int, ...]
    granularity: tuple[int, int, int]
    retained: tuple[int, ...] = ()
    order: str | tuple[int, ...] = "rows"

    def tiles(self, width: int, height: int) -> list[int]:
        """Return the numbers of the tiles of outputs of a size, in their order."""
        if not isinstance(self.order, str):
            return list(self.order)
        columns, rows = -(-width // self.granularity[0]), -(-height // self.granularity[1])
        if self.order.endswith("columns"):
            lines = [[row * columns + column for row in range(rows)] for column in range(columns)]
        else:
            lines = [[row * columns + column for column in range(columns)] for row in range(rows)]
        if self.order.startswith("snake"):
            lines = [line[::-1] if number % 2 else line for number, line in enumerate(lines)]
        return [tile for line in lines for tile in line]

    def to_json(self) -> dict[str, Any]:
        """Return the subgraph as JSON has it."""
        return {
            "operations": list(self.operations),
            "granularity": list(self.granularity),
            "retained": list(self.retained),
            "order": self.order if isinstance(self.order, str) else list(self.order),
        }


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """Subgraphs one after the other; an operation may be in several."""

    subgraphs: tuple[Subgraph, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        return {"subgraphs": [one.to_json() for one in self.subgraphs]}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        listed = data.get("subgraphs") if isinstance(data, dict) and set(data) == {"subgraphs"} else None
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_STEPS:
            limit = f"must be an object with a list of 1 to {MAX_STEPS} `subgraphs`"
            raise InputError("plan", data, limit, file)
        keys = {"operations", "granularity", "retained", "order"}
        found = []
        for number, one in enumerate(listed):
            field = f"plan.subgraphs[{number}]"
            if not isinstance(one, dict) or set(one) != keys:
                raise InputError(field, one, f"must be an object with {', '.join(sorted(keys))}", file)
            order = one["order"]
            if order not in ORDERS if isinstance(order, str) else True:
                if isinstance(order, str):
                    raise InputError(f"{field}.order", order, f"must be one of {', '.join(ORDERS)}", file)
                order = numbers(order, f"{field}.order", MAX_TILES, MAX_TILES, file)
            found.append(
                Subgraph(
                    numbers(one["operations"], f"{field}.operations", MAX_OPERATIONS, MAX_OPERATIONS, file),
                    granularity(one["granularity"], f"{field}.granularity", file),
                    numbers(one["retained"], f"{field}.retained", MAX_TENSORS, MAX_TENSORS, file),
                    order,
                )
            )
        return cls(tuple(found))


def numbers(given: Any, field: str, below: int, most: int, file: str | None) -> tuple[int, ...]:
    """Return a list of integers from 0 on, or refuse what is none."""
    if not isinstance(given, list) or len(given) > most:
        raise InputError(field, given, f"must be a list of at most {most} integers", file)
    for place, one in enumerate(given):
        if type(one) is not int or not 0 <= one < below:
            raise InputError(f"{field}[{place}]", one, f"must be an integer from 0 to {below - 1}", file)
    return tuple(given)


def granularity(given: Any, field: str, file: str | None) -> tuple[int, int, int]:
    """Return three positive integers, or refuse what are none."""
    fits = isinstance(given, list) and len(given) == 3
    if not fits or not all(type(one) is int and 1 <= one <= MAX_NATIVE for one in given):
        raise InputError(field, given, f"must be 3 integers from 1 to {MAX_NATIVE}", file)
    return given[0], given[1], given[2]
