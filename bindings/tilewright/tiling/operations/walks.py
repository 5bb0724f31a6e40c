"""The tiles of an operation, whatever their sort."""

from __future__ import annotations

from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import MoveWalk, permutation_of
from tilewright.tiling.operations.plan import MoveTile, OperationPlan, OperationTile, ScanTile
from tilewright.tiling.operations.scan import ScanWalk
from tilewright.tiling.operations.walk import Walk

AnyWalk = Walk | ScanWalk | MoveWalk

SORTS = {
    ScanTile: "hidden, steps, images and resident",
    MoveTile: "dimension_1 and further ones",
    OperationTile: "maps, rows and columns",
}
"""What tiles of each sort have."""


def walk_of(operation: Operation, plan: OperationPlan) -> AnyWalk:
    """Return all tiles of a plan."""
    if operation.permutation is not None:
        return MoveWalk(operation, plan)
    return ScanWalk(operation, plan) if operation.recurrence is not None else Walk(operation, plan)


def least_tile(operation: Operation) -> OperationPlan:
    """Return a plan of the smallest tile of the operation's sort, whether it needs more or not."""
    if operation.permutation is not None:
        return OperationPlan(MoveTile((1,) * len(permutation_of(operation).sizes)))
    if operation.recurrence is not None:
        return OperationPlan(ScanTile(1, 1, 1, int(operation.recurrence.hidden == 1)))
    return OperationPlan((1, 1, 1))


def misfit(operation: Operation, plan: OperationPlan) -> str | None:
    """Say that a plan has the tile of another sort of operation, or None."""
    asked, other = type(least_tile(operation).tile), type(plan.tile)
    return None if asked is other else f"tile: of {SORTS[other]}, {operation.op} has {SORTS[asked]}"
