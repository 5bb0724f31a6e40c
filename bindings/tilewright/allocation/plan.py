"""An allocation plan: the split of every layer, how fast each works, and where its PEs lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.allocation.machine import MAX_SIDE
from tilewright.allocation.splits import LayerSplit
from tilewright.core.plans import RoomPlan
from tilewright.spec.errors import InputError
from tilewright.spec.network import MAX_LAYERS

PACINGS = ("matched", "uniform")
"""How layers wait for slower ones: see `Plan.pacing`."""

OFF_CHIP = ("streamed", "spilled")
"""What plans say of DRAM: fields that are written where they name something."""

Region = tuple[tuple[int, int], ...]
"""PEs (row, column) of a layer."""


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """Splits of all layers, in the order of execution.

    Attributes
    ----------
    names, splits
        Of each layer.
    pacing : {"matched", "uniform"}
        Waits are inserted until a layer is as slow as the slowest one that comes before it (equation 9), or
        as the slowest of all, which needs the smallest buffers.
    regions
        PEs (row, column) of each layer; empty when they are not placed.
    streamed
        Layers whose weights come from off chip as they are used, instead of staying on chip.
    spilled
        Maps that are written off chip and read again, by the layers that compute them.
    front
        Alternatives instead of one plan: the Pareto front, fastest first.
    """

    names: tuple[str, ...]
    splits: tuple[LayerSplit, ...]
    pacing: str = "matched"
    regions: tuple[Region, ...] = ()
    front: tuple[Plan, ...] = ()
    streamed: tuple[str, ...] = ()
    spilled: tuple[str, ...] = ()

    @property
    def shares(self) -> tuple[LayerSplit, ...]:
        """Former name of `splits`, for files of users' own."""
        return self.splits

    @property
    def pes(self) -> int:
        """PEs of all layers together."""
        return sum(split.pes for split in self.splits)

    def placed(self, regions: tuple[Region, ...]) -> Plan:
        """Return the plan with its PEs in these regions."""
        return replace(self, regions=regions)

    @classmethod
    def joined(cls, front: tuple[Plan, ...]) -> Plan:
        """Return the plan that stands for a Pareto front."""
        return cls((), (), front=front)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        if self.front:
            return {"front": [plan.to_json() for plan in self.front]}
        splits = dict(zip(self.names, self.splits, strict=True))
        table: dict[str, Any] = {
            "pes": {name: split.pes for name, split in splits.items()},
            "split": {name: [split.filters, split.maps, split.rows] for name, split in splits.items()},
            "units": {name: [split.unit_filters, split.unit_maps] for name, split in splits.items()},
            "pacing": self.pacing,
        }
        if self.regions:
            table["regions"] = {
                name: [list(pe) for pe in region]
                for name, region in zip(self.names, self.regions, strict=True)
            }
        table |= {key: list(names) for key in OFF_CHIP if (names := getattr(self, key))}
        return table

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict):
            raise InputError("plan", data, "must be an object", file)
        if "front" in data:
            front = data["front"]
            if not isinstance(front, list) or not front or set(data) != {"front"}:
                raise InputError("plan.front", front, "must be a list of plans, and nothing beside it", file)
            plans = tuple(cls.from_json(plan, file) for plan in front)
            if any(plan.front for plan in plans):
                raise InputError("plan.front", len(plans), "must hold plans, not fronts", file)
            return cls.joined(plans)
        unknown = set(data) - {"pes", "split", "units", "pacing", "regions", *OFF_CHIP}
        if unknown:
            raise InputError(f"plan.{min(unknown)}", data[min(unknown)], "unknown key", file)
        pes = _by_layer(data, "pes", file)
        names = tuple(pes)
        parts, units = (_by_layer(data, key, file, names) for key in ("split", "units"))
        splits = []
        for name in names:
            split = LayerSplit(
                *_numbers(parts[name], 3, f"split.{name}", file),
                *_numbers(units[name], 2, f"units.{name}", file),
            )
            if pes[name] != split.pes:
                told = f"its split {parts[name]} makes {split.pes} PEs"
                raise InputError(f"plan.pes.{name}", pes[name], told, file)
            splits.append(split)
        pacing = data.get("pacing", PACINGS[0])
        if pacing not in PACINGS:
            raise InputError("plan.pacing", pacing, f"must be one of: {', '.join(PACINGS)}", file)
        regions: tuple[Region, ...] = ()
        if "regions" in data:
            table = _by_layer(data, "regions", file, names)
            regions = tuple(_region(table[name], name, file) for name in names)
        streamed, spilled = (_names(data.get(key, []), key, file) for key in OFF_CHIP)
        return cls(names, tuple(splits), pacing, regions, streamed=streamed, spilled=spilled)


def _names(given: Any, key: str, file: str | None) -> tuple[str, ...]:
    if (
        not isinstance(given, list)
        or not all(isinstance(name, str) for name in given)
        or len(set(given)) < len(given)
    ):
        raise InputError(f"plan.{key}", given, "must be a list of names, each once", file)
    return tuple(given)


def _by_layer(
    data: dict[str, Any], key: str, file: str | None, names: tuple[str, ...] = ()
) -> dict[str, Any]:
    table = data.get(key)
    if not isinstance(table, dict) or not 1 <= len(table) <= MAX_LAYERS:
        raise InputError(f"plan.{key}", table, "must be an object with an entry for each layer", file)
    if names and tuple(table) != names:
        raise InputError(f"plan.{key}", list(table), f"must have the layers of plan.pes: {list(names)}", file)
    return table


def _numbers(given: Any, count: int, field: str, file: str | None) -> list[int]:
    if (
        not isinstance(given, list)
        or len(given) != count
        or not all(type(number) is int and 1 <= number <= MAX_SIDE**2 for number in given)
    ):
        raise InputError(f"plan.{field}", given, f"must be {count} integers from 1 to {MAX_SIDE**2}", file)
    return given


def _region(given: Any, name: str, file: str | None) -> Region:
    if not isinstance(given, list) or not all(
        isinstance(pe, list) and len(pe) == 2 and all(type(part) is int for part in pe) for pe in given
    ):
        raise InputError(f"plan.regions.{name}", given, "must be a list of [row, column]", file)
    return tuple((row, column) for row, column in given)
