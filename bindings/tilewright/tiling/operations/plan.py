"""The plan of an operation: the size of its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import InnerLoop
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
    inner_loop
        On a DSP with a vector unit, how the core goes through a tile; None is the fastest for all tiles.
    """

    tile: OperationTile
    inner_loop: InnerLoop | None = None

    if TYPE_CHECKING:  # any tuple is taken

        def __init__(self, tile: tuple[int, int, int], inner_loop: InnerLoop | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "tile", OperationTile(*self.tile))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        loop = {} if self.inner_loop is None else {"inner_loop": self.inner_loop.to_json()}
        return {"operation": dict(zip(LOOPS, self.tile, strict=True)), **loop}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> OperationPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        known = isinstance(data, dict) and set(data) - {"inner_loop"} == {"operation"}
        tile = data["operation"] if known else None
        if not isinstance(tile, dict) or set(tile) != set(LOOPS) or not are_sizes(tile.values(), MOST):
            limit = (
                f"must be an object with operation, which has {', '.join(LOOPS)} of a tile, each at least 1"
            )
            raise InputError("plan", data, limit, file)
        loop = InnerLoop.from_json(data["inner_loop"], file) if "inner_loop" in data else None
        return cls((tile["maps"], tile["rows"], tile["columns"]), loop)
