"""The plan of a layer on a scratchpad DSP: a tile, the order of the tile loops, and what is kept on chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import InnerLoop
from tilewright.tiling.tile import read_tile

LOOPS = "gncyxk"
"""Tile loops: groups, batch (On), output maps (Oc), rows (Oy), columns (Ox), input maps (Kc)."""

ORDERED = "ncyxk"
"""The loops whose order is a decision; the loop over groups, which share nothing, is the outermost."""

REUSES = ("none", "tile", "halo", "weights")

SCHEDULES = {
    "intra": ("kncyx", "none"),
    "kc": ("ncyxk", "tile"),
    "oc": ("nyxkc", "tile"),
    "oxyn": ("cknyx", "tile"),
    "oxyn/ox": ("cknyx", "halo"),
}
"""The five schedules of the thesis (sections 5.2.1 to 5.2.5) as order and reuse."""

ANY = ("any", "any+weights")
"""Limits that allow every order: with reuse of up to ``halo``, or of every kind."""

HALIDE = "halide-idsp"
"""The limit of what the thesis's Halide could say (section 6.2): ``intra``, with all input maps in a tile."""


def allowed(limit: str) -> tuple[str, ...]:
    """Return the names of the thesis's schedules that a limit of an instance allows; none for `ANY`."""
    if limit in ANY:
        return ()
    if limit == HALIDE:
        return ("intra",)
    return tuple(SCHEDULES) if limit == "thesis" else (limit,)


class DspTile(NamedTuple):
    """Most of each dimension in a tile, in the order of `LOOPS`."""

    groups: int
    images: int
    output_maps: int
    rows: int
    columns: int
    input_maps: int


@dataclass(frozen=True)
class DspPlan:
    """A tiled loop nest.

    Attributes
    ----------
    tile : DspTile, or (g, n, c, y, x, k)
        Most groups, images, output maps, rows, columns and input maps of a tile. The loop over a dimension
        takes the smallest step that needs no more iterations: ten columns in tiles of up to nine are two of
        five.
    order
        The loops over n, c, y, x and k, outermost first.
    reuse : {"none", "tile", "halo", "weights"}
        ``none``: every tile loads all its operands and writes its output (intra-tile reuse only). ``tile``:
        an operand that the next tile needs again stays. ``halo``: moreover, where the next input tile is the
        neighbour in x or y, what the two share stays, too. ``weights``: moreover, all weights of a group are
        loaded at once and stay until the next group.
    inner_loop
        The loop inside of all tiles, on a machine with a vector unit. None there is the fastest one, and
        elsewhere that there is no such decision.
    """

    tile: DspTile
    order: str
    reuse: str = "tile"
    inner_loop: InnerLoop | None = None

    if TYPE_CHECKING:  # any tuple is taken

        def __init__(
            self,
            tile: tuple[int, ...],
            order: str,
            reuse: str = "tile",
            inner_loop: InnerLoop | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "tile", DspTile(*self.tile))

    @property
    def keeps_halo(self) -> bool:
        """Whether neighbouring input tiles share what they have in common."""
        return self.reuse in ("halo", "weights")

    @property
    def schedule(self) -> str:
        """The thesis's name of the schedule, or order and reuse."""
        for name, schedule in SCHEDULES.items():
            if schedule == (self.order, self.reuse):
                return name
        return f"{self.order}+{self.reuse}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        tile = dict(zip(LOOPS, self.tile, strict=True))
        loop = {} if self.inner_loop is None else {"inner_loop": self.inner_loop.to_json()}
        return {"tile": tile, "schedule": self.order, "reuse": self.reuse, **loop}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> DspPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict) or set(data) - {"inner_loop"} != {"tile", "schedule", "reuse"}:
            limit = "must be an object with tile, schedule and reuse, and may have inner_loop"
            raise InputError("plan", data, limit, file)
        tile = read_tile(data["tile"], LOOPS, file)
        if not isinstance(data["schedule"], str) or sorted(data["schedule"]) != sorted(ORDERED):
            raise InputError("plan.schedule", data["schedule"], f"must be an order of {ORDERED}", file)
        if data["reuse"] not in REUSES:
            raise InputError("plan.reuse", data["reuse"], f"must be one of: {', '.join(REUSES)}", file)
        loop = InnerLoop.from_json(data["inner_loop"], file) if "inner_loop" in data else None
        return cls(tile, data["schedule"], data["reuse"], loop)
