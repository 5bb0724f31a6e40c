"""A fusion plan: groups of operations in the order in which they are executed, each with its tile."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.core.plans import RoomPlan
from tilewright.fusion.layouts import LAYOUTS
from tilewright.spec.errors import InputError
from tilewright.spec.layer import MAX_PLANE
from tilewright.spec.network import MAX_LAYERS

HALOS = ("recompute", "keep")
ORDERS = ("tiles", "kernels")
PARAMETERS = ("stream", "keep")


@dataclass(frozen=True)
class Tile:
    """How a group is cut up.

    Attributes
    ----------
    rows, columns
        T_h and T_w: of the output of the group's last operation.
    kernels, channels
        T_oc and T_ic: output channels of each operation, and input channels of a convolution, that an
        instruction computes and reads.
    halo : {"recompute", "keep"}
        What overlaps with the tile above is loaded and computed again, or kept on chip.
    order : {"tiles", "kernels"}
        The outer loop: over the tiles of the plane, or over the kernels.
    parameters : {"stream", "keep"}
        Parameters are loaded for each tile, or stay on chip from the first one on.
    """

    rows: int
    columns: int
    kernels: int
    channels: int
    halo: str = HALOS[0]
    order: str = ORDERS[0]
    parameters: str = PARAMETERS[0]


@dataclass(frozen=True)
class Group:
    """Operations that are executed together: what they hand each other never leaves the chip.

    Attributes
    ----------
    nodes
        Names, in the order of execution.
    tile
        None where the host computes.
    """

    nodes: tuple[str, ...]
    tile: Tile | None


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """All operations in groups, in the order of execution.

    Attributes
    ----------
    layouts
        The layout of each map in DRAM that an engine loads or saves, by its name, where the machine has
        several; else empty.
    """

    groups: tuple[Group, ...]
    layouts: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        groups = [
            {"nodes": list(group.nodes), "tile": group.tile and asdict(group.tile)} for group in self.groups
        ]
        return {"groups": groups, "layouts": dict(self.layouts)} if self.layouts else {"groups": groups}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        groups = data.get("groups") if isinstance(data, dict) else None
        known = isinstance(data, dict) and {"groups"} <= set(data) <= {"groups", "layouts"}
        if not known or not isinstance(groups, list) or not 1 <= len(groups) <= MAX_LAYERS:
            raise InputError("plan", data, f"must be an object with a list of 1 to {MAX_LAYERS} groups", file)
        layouts = data.get("layouts", {})
        if not isinstance(layouts, dict) or not all(each in LAYOUTS for each in layouts.values()):
            told = f"must be an object with one of {', '.join(LAYOUTS)} for each map"
            raise InputError("plan.layouts", layouts, told, file)
        made = (_group(group, f"plan.groups[{place}]", file) for place, group in enumerate(groups))
        return cls(tuple(made), tuple(layouts.items()))


def _group(data: Any, field: str, file: str | None) -> Group:
    if not isinstance(data, dict) or set(data) != {"nodes", "tile"}:
        raise InputError(field, data, "must be an object with nodes and tile", file)
    nodes = data["nodes"]
    if (
        not isinstance(nodes, list)
        or not 1 <= len(nodes) <= MAX_LAYERS
        or not all(isinstance(name, str) for name in nodes)
    ):
        raise InputError(f"{field}.nodes", nodes, "must be a list of names", file)
    return Group(tuple(nodes), None if data["tile"] is None else _tile(data["tile"], f"{field}.tile", file))


def _tile(data: Any, field: str, file: str | None) -> Tile:
    sizes = ("rows", "columns", "kernels", "channels")
    choices = {"halo": HALOS, "order": ORDERS, "parameters": PARAMETERS}
    if not isinstance(data, dict) or set(data) != {*sizes, *choices}:
        raise InputError(field, data, f"must be an object with {', '.join((*sizes, *choices))}", file)
    for key in sizes:
        if type(data[key]) is not int or not 1 <= data[key] <= MAX_PLANE:
            raise InputError(f"{field}.{key}", data[key], f"must be an integer from 1 to {MAX_PLANE}", file)
    for key, known in choices.items():
        if data[key] not in known:
            raise InputError(f"{field}.{key}", data[key], f"must be one of: {', '.join(known)}", file)
    return Tile(**data)
