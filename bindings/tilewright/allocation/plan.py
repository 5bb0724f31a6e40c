"""An allocation plan: the share of every layer, how fast each works, and where its PEs lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.allocation.problem import MAX_SIDE
from tilewright.allocation.splits import Share
from tilewright.spec.errors import InputError
from tilewright.spec.network import MAX_LAYERS

PACINGS = ("matched", "uniform")
Region = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Plan:
    """Shares of all layers, in the order of execution.

    Attributes
    ----------
    names, shares
        Of each layer.
    pacing : {"matched", "uniform"}
        Waits are inserted until a layer is as slow as the slowest one that comes before it (equation 9), or
        as the slowest of all, which needs the smallest buffers.
    regions
        PEs (row, column) of each layer; empty when they are not placed.
    front
        Alternatives instead of one plan: the Pareto front, fastest first.
    """

    names: tuple[str, ...]
    shares: tuple[Share, ...]
    pacing: str = "matched"
    regions: tuple[Region, ...] = ()
    front: tuple[Plan, ...] = ()

    @property
    def pes(self) -> int:
        """PEs of all layers together."""
        return sum(share.pes for share in self.shares)

    def placed(self, regions: tuple[Region, ...]) -> Plan:
        """Return the plan with its PEs at these places."""
        return replace(self, regions=regions)

    @classmethod
    def joined(cls, front: tuple[Plan, ...]) -> Plan:
        """Return the plan that stands for a Pareto front."""
        return cls((), (), front=front)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        if self.front:
            return {"front": [plan.to_json() for plan in self.front]}
        shares = dict(zip(self.names, self.shares, strict=True))
        found: dict[str, Any] = {
            "pes": {name: share.pes for name, share in shares.items()},
            "split": {name: [share.filters, share.maps, share.rows] for name, share in shares.items()},
            "units": {name: [share.unit_filters, share.unit_maps] for name, share in shares.items()},
            "pacing": self.pacing,
        }
        if self.regions:
            found["regions"] = {
                name: [list(place) for place in region]
                for name, region in zip(self.names, self.regions, strict=True)
            }
        return found

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict):
            raise InputError("plan", data, "must be an object", file)
        if "front" in data:
            front = data["front"]
            if not isinstance(front, list) or not front or set(data) != {"front"}:
                raise InputError("plan.front", front, "must be a list of plans, and nothing beside it", file)
            plans = tuple(cls.from_json(one, file) for one in front)
            if any(plan.front for plan in plans):
                raise InputError("plan.front", len(plans), "must hold single plans", file)
            return cls.joined(plans)
        unknown = set(data) - {"pes", "split", "units", "pacing", "regions"}
        if unknown:
            raise InputError(f"plan.{min(unknown)}", data[min(unknown)], "unknown key", file)
        pes = _by_layer(data, "pes", file)
        names = tuple(pes)
        split, units = (_by_layer(data, key, file, names) for key in ("split", "units"))
        shares = []
        for name in names:
            parts, work = (
                _numbers(split[name], 3, f"split.{name}", file),
                _numbers(units[name], 2, f"units.{name}", file),
            )
            share = Share(*parts, *work)
            if pes[name] != share.pes:
                raise InputError(
                    f"plan.pes.{name}", pes[name], f"its split {parts} makes {share.pes} PEs", file
                )
            shares.append(share)
        pacing = data.get("pacing", PACINGS[0])
        if pacing not in PACINGS:
            raise InputError("plan.pacing", pacing, f"must be one of: {', '.join(PACINGS)}", file)
        regions: tuple[Region, ...] = ()
        if "regions" in data:
            table = _by_layer(data, "regions", file, names)
            regions = tuple(_region(table[name], name, file) for name in names)
        return cls(names, tuple(shares), pacing, regions)


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
        isinstance(place, list) and len(place) == 2 and all(type(part) is int for part in place)
        for place in given
    ):
        raise InputError(f"plan.regions.{name}", given, "must be a list of [row, column]", file)
    return tuple((row, column) for row, column in given)
