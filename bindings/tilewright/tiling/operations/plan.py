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

MOST_DIMENSIONS = 9
"""Most dimensions of a move: those of a permutation, and images."""


class OperationTile(NamedTuple):
    """Outputs of a tile along each of `LOOPS`."""

    maps: int
    rows: int
    columns: int


class ScanTile(NamedTuple):
    """How a recurrent layer goes through its states.

    Attributes
    ----------
    hidden
        Values of the state that are computed at a time.
    steps
        Points in time whose input is on chip.
    images
        Images whose states are on chip.
    resident
        Values of the state, the first ones, whose weights stay from one point in time to the next.
    """

    hidden: int
    steps: int
    images: int
    resident: int


class MoveTile(tuple[int, ...]):
    """What a tile of a move has of each dimension of its input; see `tilewright.spec.network.Permutation`."""

    def _asdict(self) -> dict[str, Any]:
        """Return it as the JSON object of a plan."""
        return dict(zip(_dimensions(len(self)), self, strict=True))


@dataclass(frozen=True)
class OperationPlan:
    """How much of an operation is done at a time.

    Attributes
    ----------
    tile : OperationTile, or (maps, rows, columns); of a recurrent layer ScanTile, of some moves MoveTile
        Outputs of a tile; of a stream, which has no geometry, the last one alone is not 1. What a host does
        is done at once.
    inner_loop
        On a DSP with a vector unit, how the core goes through a tile; None is the fastest for all tiles.
    """

    tile: OperationTile | ScanTile | MoveTile
    inner_loop: InnerLoop | None = None

    if TYPE_CHECKING:  # any tuple is taken

        def __init__(
            self, tile: tuple[int, int, int] | ScanTile | MoveTile, inner_loop: InnerLoop | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.tile, ScanTile | MoveTile):
            object.__setattr__(self, "tile", OperationTile(*self.tile))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        loop = {} if self.inner_loop is None else {"inner_loop": self.inner_loop.to_json()}
        return {"operation": self.tile._asdict(), **loop}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> OperationPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        known = isinstance(data, dict) and set(data) - {"inner_loop"} == {"operation"}
        tile = data["operation"] if known else None
        loop = InnerLoop.from_json(data["inner_loop"], file) if known and "inner_loop" in data else None
        if isinstance(tile, dict) and set(tile) == set(ScanTile._fields):
            return cls(_scan_tile(tile, file), loop)
        if (
            isinstance(tile, dict)
            and 1 <= len(tile) <= MOST_DIMENSIONS
            and set(tile) == {*_dimensions(len(tile))}
        ):
            return cls(_move_tile(tile, file), loop)
        if not isinstance(tile, dict) or set(tile) != set(LOOPS) or not are_sizes(tile.values(), MOST):
            limit = (
                f"must be an object with operation, which has {', '.join(LOOPS)} of a tile, each at least 1"
            )
            raise InputError("plan", data, limit, file)
        return cls((tile["maps"], tile["rows"], tile["columns"]), loop)


def _dimensions(count: int) -> list[str]:
    """Return the names of the dimensions of a move."""
    return [f"dimension_{place}" for place in range(1, count + 1)]


def _move_tile(tile: dict[str, Any], file: str | None) -> MoveTile:
    sizes = [tile[name] for name in _dimensions(len(tile))]
    if not are_sizes(sizes, MOST):
        raise InputError("plan.operation", tile, "must have sizes of at least 1", file)
    return MoveTile(sizes)


def _scan_tile(tile: dict[str, Any], file: str | None) -> ScanTile:
    found = ScanTile(**tile)
    if not are_sizes(found[:3], MOST) or not (found.resident == 0 or are_sizes(found[3:], MOST)):
        limit = "must have hidden, steps and images of at least 1, and resident of at least 0"
        raise InputError("plan.operation", tile, limit, file)
    return found
