"""A tiling plan: how each layer is tiled, one entry per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core.plans import RoomPlan
from tilewright.spec.errors import InputError
from tilewright.spec.network import MAX_LAYERS
from tilewright.tiling.attention.plan import AttentionPlan
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.operations.plan import OperationPlan

LayerPlan = DspPlan | NpuPlan | HierarchyPlan | OperationPlan | AttentionPlan


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """The plans of all layers of a problem, in order; of a problem with one layer, one.

    Attributes
    ----------
    layers
        Of a network whose layers each have a front, these fronts.
    front
        The entries are not layers but alternatives for one layer: the Pareto front, from the plan that has
        least of the first number that it trades.
    """

    layers: tuple[LayerPlan | Plan, ...]
    front: bool = False

    @property
    def tile(self) -> Any:
        """The tile of the only layer, with a name for each axis: ``plan.tile.rows``."""
        if len(self.layers) != 1:
            raise AttributeError(f"{len(self.layers)} layers have a tile each, as plan.layers[0].tile")
        return self.layers[0].tile  # type: ignore[union-attr]

    @classmethod
    def joined(cls, parts: Sequence[Plan]) -> Plan:
        """Return the plan of a network from those of its layers."""
        return cls(tuple(layer for part in parts for layer in ((part,) if part.front else part.layers)))

    def split(self) -> list[Plan]:
        """Return every layer's plan as a plan of its own."""
        return [layer if isinstance(layer, Plan) else Plan((layer,)) for layer in self.layers]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        if self.front:
            return {"front": [layer.to_json() for layer in self.layers]}
        if len(self.layers) == 1 and not isinstance(self.layers[0], Plan):
            return self.layers[0].to_json()
        return {"layers": [layer.to_json() for layer in self.layers]}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict):
            raise InputError("plan", data, "must be an object", file)
        key = next((key for key in ("layers", "front") if key in data), None)
        if key is None:
            return cls((_layer(data, file),))
        layers = data[key]
        fewest = 1 if key == "front" or _are_fronts(layers) else 2
        if not isinstance(layers, list) or set(data) != {key} or not fewest <= len(layers) <= MAX_LAYERS:
            limit = f"must be a list of {fewest} to {MAX_LAYERS} plans, and nothing beside it"
            raise InputError(f"plan.{key}", layers, limit, file)
        if key == "front":
            return cls(tuple(_layer(layer, file) for layer in layers), front=True)
        read = cls.from_json if _are_fronts(layers) else _layer
        return cls(tuple(read(layer, file) for layer in layers))


def _are_fronts(layers: Any) -> bool:
    """Whether the plans of a network's layers are fronts."""
    return isinstance(layers, list) and all(isinstance(layer, dict) and "front" in layer for layer in layers)


def _layer(data: Any, file: str | None) -> LayerPlan:
    if isinstance(data, dict) and "nest" in data:
        return HierarchyPlan.from_json(data, file)
    if isinstance(data, dict) and ("attention" in data or "apart" in data):
        return AttentionPlan.from_json(data, file)
    if isinstance(data, dict) and "operation" in data:
        return OperationPlan.from_json(data, file)
    kind = NpuPlan if isinstance(data, dict) and "partition" in data else DspPlan
    return kind.from_json(data, file)
