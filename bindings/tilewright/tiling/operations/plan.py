"""The plan of an operation: the size of its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.spec.errors import InputError
from tilewright.tiling.tile import are_sizes

LOOPS = ("maps", "rows", "columns")
"""The sizes of a tile of outputs."""

MOST = 2**62


class OperationTile(NamedTuple):
    """Outputs of a tile along each of `LOOPS`."""

    maps: int
    rows: int
    columns: int


@dataclass(frozen=True)
class OperationPlan:
    """How much of an operation is done at a time.

    Attributes
    ----------
    tile : OperationTile, or (maps, rows, columns)
        Outputs of a tile; of a stream, which has no geometry, the last one alone is not 1. What a host does
        is done at once.
    """

    tile: OperationTile

    if TYPE_CHECKING:  # any tuple is taken

        def __init__(self, tile: tuple[int, int, int]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "tile", OperationTile(*self.tile))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        return {"operation": dict(zip(LOOPS, self.tile, strict=True))}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> OperationPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        tile = data.get("operation") if isinstance(data, dict) and set(data) == {"operation"} else None
        if not isinstance(tile, dict) or set(tile) != set(LOOPS) or not are_sizes(tile.values(), MOST):
            limit = (
                f"must be an object with operation, which has {', '.join(LOOPS)} of a tile, each at least 1"
            )
            raise InputError("plan", data, limit, file)
        return cls((tile["maps"], tile["rows"], tile["columns"]))
