"""The plan of attention: one step whose scores stay in a memory, or its operations one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tilewright.spec.errors import InputError
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.tile import MAX_TILE, are_sizes

Order = Literal["online", "rows"]

ORDERS: tuple[Order, ...] = ("online", "rows")
"""What a softmax is computed of: of each block of keys, or of whole rows of scores."""

STAYING = ("keys", "values")
"""What may stay for all queries of a matrix of keys."""

SIZES = ("queries", "heads", "keys")


@dataclass(frozen=True)
class Blocks:
    """What is at a memory at a time.

    Attributes
    ----------
    level
        The memory.
    queries, heads
        Queries of each head, and heads that share a matrix of keys, in a block.
    keys
        Keys in a block.
    order
        One of `ORDERS`.
    stay
        Which of `STAYING` are there as a whole, in this order.
    """

    level: str
    queries: int
    heads: int
    keys: int
    order: Order
    stay: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON object of a plan."""
        sizes = {name: getattr(self, name) for name in SIZES}
        return {"level": self.level, **sizes, "order": self.order, "stay": list(self.stay)}

    @classmethod
    def from_json(cls, data: Any, file: str | None) -> Blocks:
        """Read the JSON object of a plan."""
        known = isinstance(data, dict) and set(data) == {"level", *SIZES, "order", "stay"}
        if not known or not isinstance(data["level"], str) or not _are_staying(data["stay"]):
            limit = f"must have level, {', '.join(SIZES)}, order and stay, a list of {', '.join(STAYING)}"
            raise InputError("plan.attention", data, limit, file)
        if not are_sizes([data[name] for name in SIZES], MAX_TILE - 1):
            limit = f"must have {', '.join(SIZES)} of at least 1"
            raise InputError("plan.attention", data, limit, file)
        if data["order"] not in ORDERS:
            raise InputError("plan.attention.order", data["order"], f"is one of {', '.join(ORDERS)}", file)
        return cls(**{**data, "stay": tuple(data["stay"])})


def _are_staying(data: Any) -> bool:
    return isinstance(data, list) and data == [each for each in STAYING if each in data]


@dataclass(frozen=True)
class AttentionPlan:
    """What is done in one step, or each operation by itself.

    Attributes
    ----------
    blocks
        What is on chip at a time; None where operations are executed one after the other.
    scores, context
        How the levels within do the two products of each size of blocks, the largest first: see
        `tilewright.tiling.attention.blocks.Walk.sizes`.
    apart
        The plans of the operations, where they are executed one after the other.
    """

    blocks: Blocks | None
    scores: tuple[HierarchyPlan, ...] = ()
    context: tuple[HierarchyPlan, ...] = ()
    apart: tuple[HierarchyPlan | OperationPlan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        if self.blocks is None:
            return {"apart": [plan.to_json() for plan in self.apart]}
        products = {name: [plan.to_json() for plan in getattr(self, name)] for name in ("scores", "context")}
        return {"attention": self.blocks.to_json(), **products}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> AttentionPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if set(data) == {"apart"}:
            return cls(None, apart=tuple(_operation(plan, file) for plan in _list(data["apart"], file)))
        if set(data) != {"attention", "scores", "context"}:
            raise InputError("plan", data, "must have attention, scores and context, or apart alone", file)
        blocks = Blocks.from_json(data["attention"], file)
        scores, context = (
            tuple(HierarchyPlan.from_json(plan, file) for plan in _list(data[name], file))
            for name in ("scores", "context")
        )
        return cls(blocks, scores, context)


def _list(data: Any, file: str | None) -> list[Any]:
    if not isinstance(data, list):
        raise InputError("plan", data, "must be a list of plans", file)
    return data


def _operation(data: Any, file: str | None) -> HierarchyPlan | OperationPlan:
    if isinstance(data, dict) and "nest" in data:
        return HierarchyPlan.from_json(data, file)
    return OperationPlan.from_json(data, file)
