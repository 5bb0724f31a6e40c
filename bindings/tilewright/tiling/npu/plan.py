"""The plan of a layer on a multicore NPU: how it is cut among the TLEs, which operand stays, and the tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.spec.errors import InputError
from tilewright.tiling.tile import read_tile

PARTITIONS = ("KS", "KS&OFM", "OFM")
"""What the TLEs divide among them: filters, filters and output rows, output rows (algorithm 2)."""

SCHEDULES = ("IS", "OS", "WS")
"""Input, output or weight stationary (section IV-D)."""

DIMENSIONS = "mnrc"
"""T_M filters of a core, T_N input maps, T_R output rows and T_C output columns."""


class NpuTile(NamedTuple):
    """Most of each dimension in a core's tile, in the order of `DIMENSIONS`."""

    filters: int
    input_maps: int
    rows: int
    columns: int


@dataclass(frozen=True)
class NpuPlan:
    """Partition over the TLEs, schedule of the TLTs, and their tile.

    Attributes
    ----------
    tile : NpuTile, or (m, n, r, c)
        Most filters, input maps, output rows and columns of a core's tile. The loop over a dimension takes
        the smallest step that needs no more iterations, as on a DSP.
    """

    partition: str
    schedule: str
    tile: NpuTile

    if TYPE_CHECKING:  # any tuple is taken

        def __init__(self, partition: str, schedule: str, tile: tuple[int, ...]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "tile", NpuTile(*self.tile))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        tile = dict(zip(DIMENSIONS, self.tile, strict=True))
        return {"partition": self.partition, "schedule": self.schedule, "tile": tile}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> NpuPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict) or set(data) != {"partition", "schedule", "tile"}:
            raise InputError("plan", data, "must be an object with partition, schedule and tile", file)
        for key, known in (("partition", PARTITIONS), ("schedule", SCHEDULES)):
            if data[key] not in known:
                raise InputError(f"plan.{key}", data[key], f"must be one of: {', '.join(known)}", file)
        return cls(data["partition"], data["schedule"], read_tile(data["tile"], DIMENSIONS, file))
